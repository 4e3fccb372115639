"""Inspect a workload: load its records once and find everything that training or attacks would stumble over.

Wrong labels, features, shapes and models are problems; copies of records are warnings. A worker that loads a
workload makes the same checks but for the copies (`load_checked`).
"""

import sys
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from harness.spec import Json
from workloads.base import Fetched, Grouped, Prepared, Records, Workload
from workloads.errors import BenchError, DataError
from workloads.records import READ_AT_ONCE, LazyRecords, fingerprints

TRIED = 2
"""Records that the model is tried on."""


@dataclass(frozen=True)
class Problem:
    """Something wrong with a workload, as a sentence and as the attributes of an error."""

    message: str
    field: str
    """pool, test, x, y, model or groups."""
    value: Any = None
    allowed: Any = None

    def error(self, workload: str) -> DataError:
        """The error to raise."""
        message = f"workload {workload}: {self.message}"
        return DataError(message, field=self.field, value=self.value, allowed=self.allowed)


@dataclass(frozen=True)
class Facts:
    """Sizes of a workload that can be used."""

    pool: int
    test: int
    shape: tuple[int, ...]
    """Of one record."""
    dtype: str
    """Of the features, as torch spells it."""


@dataclass(frozen=True)
class Inspection:
    """What was found in a workload's records and model."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    facts: Facts | None = None
    """None if there are problems."""

    def dump(self) -> Json:
        """As plain data, for `parse_inspection`."""
        return asdict(self)


def parse_inspection(content: Json) -> Inspection:
    """Rebuild an inspection from plain data."""
    facts = content["facts"]
    return Inspection(
        tuple(Problem(**each) for each in content["problems"]),
        tuple(content["warnings"]),
        facts and Facts(**{**facts, "shape": tuple(facts["shape"])}),
    )


def find_absence(workload: Workload) -> str | None:
    """Why the records cannot be loaded on this machine and which command provides them; None if they can."""
    return workload.missing() if isinstance(workload, Fetched) else None


def find_delay(workload: Workload) -> str | None:
    """Why the records would first have to be obtained or computed; None if they are available at once."""
    late = workload.unprepared() if isinstance(workload, Prepared) else None
    return find_absence(workload) or late


def inspect(workload: Workload) -> Inspection:
    """Load pool and test once and find every problem, and the copies of records to warn about."""
    try:
        pool, test = load(workload, "pool"), load(workload, "test")
        problems = [*find_problems(workload, pool, test), *_find_wrong_groups(workload, pool)]
    except DataError as error:
        said = str(error).removeprefix(f"workload {workload.name}: ")
        return Inspection((Problem(said, error.field or "pool", error.value, error.allowed),))
    if problems:
        return Inspection(tuple(problems))
    x = pool.take(torch.arange(1)).x
    facts = Facts(len(pool), len(test), tuple(x.shape[1:]), _type_name(x))
    own = Counter(fingerprints(pool))
    return Inspection((), (*_find_shared(own, test), *find_repeated(workload, own)), facts)


def load_checked(workload: Workload) -> tuple[Records, Records]:
    """Pool and test for a task; DataError for their first problem, or the model's.

    Checked once per process, without the search for copies; of lazy records only the first are read.
    """
    pool, test = load(workload, "pool"), load(workload, "test")
    if id(workload) not in _checked:
        for problem in find_problems(workload, pool, test, thorough=False):
            raise problem.error(workload.name)
        _checked[id(workload)] = workload
    return pool, test


_checked: dict[int, Workload] = {}
"""The workloads that this process has checked, by identity."""


def load(workload: Workload, part: str) -> Records:
    """The workload's pool or test records; DataError if loading them fails or returns something else."""
    try:
        records = getattr(workload, part)()
    except Exception as error:
        raise _failed(workload, part, error) from error
    if not isinstance(records, Records):
        found = type(records).__name__
        advice = "give privbench.Records(x, y) with x and y as tensors"
        message = f"workload {workload.name}: {part}() returned a {found}, not Records: {advice}"
        raise DataError(message, field=part, value=found, allowed="Records")
    return records


def _failed(workload: Workload, part: str, error: Exception) -> DataError:
    """The error for records that cannot be loaded: what happened, and where in the workload's own code."""
    given = error if isinstance(error, DataError) else DataError("", field=part, value=type(error).__name__)
    if isinstance(error, BenchError) and not isinstance(error, DataError):
        message = f"workload {workload.name}: {error}"
    else:
        kind = "" if isinstance(error, DataError) else f"{type(error).__name__}: "
        frames = traceback.extract_tb(error.__traceback__)[1:]
        home = getattr(sys.modules.get(type(workload).__module__), "__file__", None)
        own = [each for each in frames if each.filename == home] or frames
        where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
        message = f"workload {workload.name}: {part}() failed: {kind}{error}{where}"
    return DataError(message, field=given.field or part, value=given.value, allowed=given.allowed)


def find_problems(
    workload: Workload, pool: Records, test: Records, thorough: bool = True
) -> Iterator[Problem]:
    """Every problem of the records and the model; those that make further checks meaningless come alone.

    Unless `thorough`, only the first of lazy records are read.
    """
    parts = {"pool": pool, "test": test}
    empty = [part for part, records in parts.items() if len(records) == 0]
    if empty:
        yield Problem(f"{_both(empty)} has no records", empty[0], 0, "1 or more")
        return
    wrong = list(_find_wrong_labels(workload.classes, parts))
    yield from wrong
    shapes = {part: _first(records).shape[1:] for part, records in parts.items()}
    dtypes = {part: _type_name(_first(records)) for part, records in parts.items()}
    if shapes["pool"] != shapes["test"]:
        both = " and ".join(f"{tuple(shape)} in {part}()" for part, shape in shapes.items())
        yield Problem(
            f"records have shape {both}: give both the same", "test", shapes["test"], shapes["pool"]
        )
        return
    if dtypes["pool"] != dtypes["test"]:
        both = " and ".join(f"{dtype} in {part}()" for part, dtype in dtypes.items())
        yield Problem(f"features are {both}: give both the same", "x", dtypes["test"], dtypes["pool"])
        return
    yield from _find_non_finite(parts, thorough)
    if not wrong:
        yield from _find_unfit_model(workload, _first(pool, TRIED))


def _first(records: Records, count: int = 1) -> Tensor:
    return records.take(torch.arange(min(count, len(records)))).x


def _type_name(values: Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")


def _both(parts: list[str]) -> str:
    return " and ".join(f"{part}()" for part in parts)


def _find_wrong_labels(classes: int, parts: dict[str, Records]) -> Iterator[Problem]:
    """At most one problem: of the shape, else of the dtype, else of the values."""
    for find in (_wrong_label_shape, _wrong_label_dtype, _wrong_label_range):
        found = {part: problem for part, records in parts.items() if (problem := find(records.y, classes))}
        if found:
            first = next(iter(found.values()))
            message = f"{first.message} (in {_both(list(found))})"
            yield Problem(message, first.field, first.value, first.allowed)
            return


def _wrong_label_shape(y: Tensor, classes: int) -> Problem | None:
    if y.dim() == 1:
        return None
    one_hot = y.dim() == 2 and y.shape[1] == classes and classes > 1
    advice = "y.argmax(1)" if one_hot else "y.squeeze(1)" if y.dim() == 2 else "one class number per record"
    return Problem(f"labels have shape {tuple(y.shape)}: give {advice}", "y", tuple(y.shape), "(n,)")


def _wrong_label_dtype(y: Tensor, _: int) -> Problem | None:
    if y.dtype == torch.int64:
        return None
    found = _type_name(y)
    whole = not y.is_floating_point() or bool((y == y.round()).all())
    advice = "y.long()" if whole else "the number of each record's class; values to predict have none"
    return Problem(f"labels are {found}, not int64: give {advice}", "y", found, "int64")


def _wrong_label_range(y: Tensor, classes: int) -> Problem | None:
    low, high = int(y.min()), int(y.max())
    if low >= 0 and high < classes:
        return None
    advice = f"give numbers from 0 to {classes - 1}"
    if low == 1 and high == classes:
        advice = "count from 0: give y - 1"
    elif low >= 0:
        advice += f", or classes = {high + 1}"
    message = f"labels run from {low} to {high}, but classes = {classes}: {advice}"
    return Problem(message, "y", (low, high), (0, classes - 1))


def _find_non_finite(parts: dict[str, Records], thorough: bool) -> Iterator[Problem]:
    """One problem if any record has NaN or infinite values."""
    for part, records in parts.items():
        if not _first(records).is_floating_point():
            continue
        few = isinstance(records, LazyRecords) and not thorough
        at_once = islice(records.batches(READ_AT_ONCE), 1 if few else None)
        broken = torch.cat([~each.flatten(1).isfinite().all(1) for each in at_once]).nonzero().squeeze(1)
        if len(broken):
            message = (
                f"{len(broken):,} of {len(records):,} records of {part}() have NaN or infinite values, the "
                f"first in row {int(broken[0])}: leave these records out, or fill the gaps"
            )
            yield Problem(message, "x", len(broken), 0)
            return


def _find_unfit_model(workload: Workload, x: Tensor) -> Iterator[Problem]:
    """One problem if the model does not map these records to one row of finite logits each."""
    wanted = (len(x), workload.classes)
    try:
        logits = _predict(workload, x)
    except Exception as error:  # noqa: BLE001 - any failure of the model is the finding
        yield _unfit(workload, x, error)
        return
    if not isinstance(logits, Tensor):
        found = type(logits).__name__
        yield Problem(f"the model returns a {found}: give a tensor of logits", "model", found, wanted)
    elif tuple(logits.shape) != wanted:
        message = (
            f"the model maps {len(x)} records to an output of shape {tuple(logits.shape)}, not {wanted}: "
            f"give one row of {workload.classes} logits per record, or classes = {logits.shape[-1]}"
        )
        yield Problem(message, "model", tuple(logits.shape), wanted)
    elif not bool(logits.isfinite().all()):
        message = "the untrained model's logits are not finite: scale the features, or the initial weights"
        yield Problem(message, "model", "not finite", "finite")


def _predict(workload: Workload, x: Tensor) -> Any:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        return workload.model(0).eval()(x)


def _unfit(workload: Workload, x: Tensor, error: Exception) -> Problem:
    """Whether the dtype of the features or their shape is what the model does not take."""
    dtype = _type_name(x)
    if x.dtype != torch.float32 and _works(lambda: _predict(workload, x.float())):
        advice = "give x.float()" + ("" if x.is_floating_point() else ", or a model with an embedding")
        return Problem(f"features are {dtype}, but the model takes float32: {advice}", "x", dtype, "float32")
    if x.dtype != torch.int64 and _works(lambda: _predict(workload, x.long())):
        return Problem(f"features are {dtype}, but the model takes int64: give x.long()", "x", dtype, "int64")
    message = (
        f"the model does not take records of shape {tuple(x.shape[1:])} and type {dtype}: "
        f"{type(error).__name__}: {error}"
    )
    return Problem(message, "model", tuple(x.shape[1:]))


def _works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except Exception:  # noqa: BLE001 - any failure means no
        return False
    return True


def _find_wrong_groups(workload: Workload, pool: Records) -> Iterator[Problem]:
    if not isinstance(workload, Grouped):
        return
    groups = workload.groups()
    found = tuple(groups.shape) if isinstance(groups, Tensor) else type(groups).__name__
    if found != (len(pool),):
        message = f"groups() gives {found}: give a tensor with the number of a person per pool record"
        yield Problem(message, "groups", found, (len(pool),))


def _find_shared(own: Collection[Hashable], test: Records) -> Iterator[str]:
    """A warning about test examples that are in the pool, whatever their labels."""
    shared = sum(each in own for each in fingerprints(test))
    if shared:
        yield (
            f"{shared:,} of {len(test):,} test records are identical to records of the pool: test accuracy "
            "is partly an accuracy on members, and the population attack calls members non-members. Leave "
            "them out of test()"
        )


def find_repeated(workload: Workload, own: Counter[Any]) -> Iterator[str]:
    """Warnings about copies in the pool, whose fingerprints are given, and persons with several records."""
    copied = [count for count in own.values() if count > 1]
    if copied:
        yield (
            f"{sum(copied):,} of {own.total():,} pool records are identical to others "
            f"({len(copied):,} groups, the largest of {max(copied):,}). Copies are like several "
            "records of one person: those of members are among the non-members, which hides leakage, and "
            "an epsilon protects one record, not all copies. Keep one of each"
        )
    if not isinstance(workload, Grouped):
        return
    counts = Counter(workload.groups().tolist())
    several = [count for count in counts.values() if count > 1]
    if several:
        most = max(several)
        yield (
            f"{len(several):,} of {len(counts):,} persons have several records, up to {most:,}: an epsilon "
            "protects one record, not a person, and a person's other records are among the non-members, "
            "which hides leakage. Make one record of each person's"
        )
