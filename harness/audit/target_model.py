"""A model as the target of an audit: its outputs on records, and the attacks that query it or read its "
"weights."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from harness.attacks.base import Attack, Evidence
from harness.attacks.label_only.label_only import LabelOnlyParams
from harness.attacks.label_only.label_only import attack as label_only
from harness.attacks.white_box import WhiteBoxParams
from harness.attacks.white_box import attack as white_box
from harness.audit.given import Arrays, Signal, places_of, recognise
from harness.audit.leakage_audit import AttackFigures, SkippedAttack
from harness.audit.measurement import QUERYING, judge
from harness.audit.pairing import Pairing
from harness.leakage.matrices import Floats, Ints
from workloads.base import Records
from workloads.errors import BenchError, DataError

GATHERED = 1024
"""Records of a Dataset read at a time."""
NEEDS = {
    "label-only": "the predicted label of perturbed copies of the record, and nothing else",
    "white-box": "the weights, and the membership of half of the records",
}
FORMS = "a pair (x, y) of arrays, a torch Dataset or a DataLoader"


@dataclass(frozen=True)
class Examples:
    """Records as the model takes them, with their labels as given."""

    x: Any
    y: NDArray[Any]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def features(self) -> NDArray[Any] | None:
        """(n, d) numbers for the blind check; None if the records are not numbers."""
        found = _numeric(self.x)
        return None if found is None else found.reshape(len(self), -1)


@dataclass(frozen=True)
class TargetModel:
    """A model of any kind, called in batches."""

    call: Callable[[Any], Any]
    """From examples to outputs, in the types that the user's model has."""
    module: nn.Module | None
    """If it is one; in evaluation mode while it is audited."""
    classes: NDArray[Any] | None
    """The classes of an estimator, in the order of its outputs."""
    signal: Signal | None
    """The declared kind of its outputs; None: recognised."""
    batch: int
    name: str
    device: torch.device

    def outputs(self, x: Any) -> NDArray[Any]:
        """(n, C) or (n,) outputs, in batches, without gradients."""
        parts = []
        with torch.no_grad():
            for start in range(0, _length(x), self.batch):
                parts.append(_plain(self.call(self._sent(_rows(x, start, start + self.batch)))))
        return np.concatenate(parts)

    def arrays(self, examples: Examples, role: str, signal: Signal) -> Arrays:
        """The outputs on a set of records, by the names of harness/audit/given.py."""
        found = {signal: self.outputs(examples.x), "labels": self.labels(examples.y, role)}
        return found if examples.features is None else {**found, "features": examples.features}

    def labels(self, y: NDArray[Any], role: str) -> NDArray[Any]:
        """Labels as positions of the outputs."""
        return y if self.classes is None else places_of(self.classes, y, role)

    def recognise(self, x: Any) -> Signal:
        """The kind of its outputs, as declared or by those on the first batch."""
        if self.signal is not None:
            return self.signal
        found = self.outputs(_rows(x, 0, self.batch))
        one = found if found.ndim == 2 else found[:, None]
        if one.shape[1] == 1:
            return "probabilities" if bool(((one >= 0) & (one <= 1)).all()) else "logits"
        return recognise(one)

    def is_random(self, x: Any) -> bool:
        """Whether two calls on the same records differ."""
        some = _rows(x, 0, min(self.batch, 64))
        return not np.array_equal(self.outputs(some), self.outputs(some), equal_nan=True)

    def _sent(self, x: Any) -> Any:
        if self.module is None:
            return x
        made = x if isinstance(x, Tensor) else torch.as_tensor(np.asarray(x))
        kind = next((each.dtype for each in self.module.parameters()), made.dtype)
        return made.to(self.device, kind if made.is_floating_point() else made.dtype)


class Logits(nn.Module):
    """A target model as attacks query it: tensors on the CPU in, logits on the CPU out."""

    def __init__(self, target: TargetModel, like: Any, signal: Signal) -> None:
        super().__init__()
        self.target, self.like, self.signal = target, like, signal

    def forward(self, x: Tensor) -> Tensor:
        """(b, C) logits, or log-probabilities, which are logits too."""
        found = torch.from_numpy(self.target.outputs(_as_given(x, self.like)).astype(np.float64))
        if found.dim() == 1 or found.shape[1] == 1:
            found = found.reshape(-1, 1)
            zero = 1 - found if self.signal == "probabilities" else torch.zeros_like(found)
            found = torch.hstack([zero, found])
        return found.log() if self.signal == "probabilities" else found


@contextmanager
def evaluating(module: nn.Module | None) -> Iterator[bool]:
    """Evaluation mode for all of a module, then the modes that it had; yields whether any was training."""
    modes = [] if module is None else [(part, part.training) for part in module.modules()]
    if module is not None:
        module.eval()
    try:
        yield any(training for _, training in modes)
    finally:
        for part, training in modes:
            part.training = training


def wrap(model: Any, signal: Signal | None, batch: int) -> TargetModel:
    """The target that a model is; DataError if it gives no outputs for classes."""
    name = type(model).__name__
    cpu = torch.device("cpu")
    if isinstance(model, nn.Module):
        device = next((each.device for each in (*model.parameters(), *model.buffers())), cpu)
        return TargetModel(model, model, None, signal, batch, name, device)
    if hasattr(model, "predict_proba"):
        classes = np.asarray(model.classes_) if hasattr(model, "classes_") else None
        return TargetModel(model.predict_proba, None, classes, "probabilities", batch, name, cpu)
    if callable(model) and not isinstance(model, type):
        shown = getattr(model, "__name__", name)
        return TargetModel(model, None, None, signal, batch, shown, cpu)
    raise DataError(
        f"a model of type {name} gives no probabilities: give a torch module, an estimator with "
        "predict_proba "
        "(sklearn.calibration.CalibratedClassifierCV adds it), or a callable from examples to probabilities",
        field="model",
        value=name,
        allowed=("torch.nn.Module", "predict_proba", "callable"),
    )


def read_examples(given: Any, role: str) -> Examples:
    """Records from a pair of arrays, a Dataset or a DataLoader; DataError if they are neither."""
    if isinstance(given, Records):
        return Examples(given.x, given.y.cpu().numpy())
    if isinstance(given, tuple | list) and len(given) == 2:
        x, y = given
        labels = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y).reshape(-1)
        if _length(x) != len(labels):
            raise DataError(
                f"{role} has {_length(x)} examples and {len(labels)} labels: give one label for every "
                "example",
                field="labels",
                value=len(labels),
                allowed=_length(x),
            )
        return Examples(np.asarray(x) if isinstance(x, list) else x, labels)
    if isinstance(given, Dataset):
        return _gathered(DataLoader(given, batch_size=GATHERED))
    if isinstance(given, DataLoader):
        return _gathered(given)
    raise DataError(
        f"{role} is a {type(given).__name__}: give {FORMS}",
        field=role,
        value=type(given).__name__,
        allowed=FORMS,
    )


def query(
    target: TargetModel, pairing: Pairing, pool: Examples, signal: Signal, asked: Any = None
) -> tuple[list[AttackFigures], list[SkippedAttack], dict[str, Floats]]:
    """Run the attacks that need the model: its labels of perturbed records, and its last layer."""
    figures, skipped, scores = [], [], {}
    numbers = _numeric(pool.x)
    for name in QUERYING:
        if asked is not None and name not in asked:
            continue
        try:
            if numbers is None:
                raise BenchError("needs records that are numbers")
            found, note = _run(name, target, pairing, pool, numbers, signal)
        except BenchError as error:
            skipped.append(SkippedAttack(attack=name, reason=str(error)))
            continue
        scores[name] = found
        figures.append(judge(name, found, pairing.truth[0], NEEDS[name], note))
    return figures, skipped, scores


def _run(
    name: str,
    target: TargetModel,
    pairing: Pairing,
    pool: Examples,
    numbers: NDArray[Any],
    signal: Signal,
) -> tuple[Floats, str]:
    """(n,) scores of one attack, and what it did."""
    x = pool.x.detach().cpu() if isinstance(pool.x, Tensor) else torch.tensor(numbers)
    records = Records(x, torch.from_numpy(pairing.labels))
    if name == "white-box":
        attack: Attack = white_box
        params: Any = WhiteBoxParams()
        released = _weights(target, signal)
        note = "which is more than the other attacks know"
    else:
        attack = label_only
        params = LabelOnlyParams(strategy="noise" if x.is_floating_point() else "gap")
        released = Logits(target, pool.x, signal)
        note = f"strategy {params.strategy}" + (
            f", {params.queries} queries a record" if params.strategy == "noise" else ""
        )
    evidence = Evidence(
        logits=np.empty((1, len(records), 0), dtype=np.float32),
        labels=pairing.labels,
        members=pairing.truth[:1],
        population_logits=np.empty((1, 0, 0), dtype=np.float32),
        population_labels=np.empty(0, dtype=np.int64),
        pool=records,
        released=lambda _: released,
    )
    return np.asarray(attack.scores(evidence, params), dtype=np.float64)[0], note


def _weights(target: TargetModel, signal: Signal) -> nn.Module:
    if target.module is None:
        raise BenchError("needs the weights of a torch module")
    if signal != "logits":
        raise BenchError("needs a module that ends in a linear layer, and this one returns probabilities")
    return target.module if target.device.type == "cpu" else copy.deepcopy(target.module).cpu()


def join(first: Examples, second: Examples) -> Examples:
    """The records of both, in this order."""
    return Examples(_joined(first.x, second.x), np.concatenate([first.y, second.y]))


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, Tensor):
        return torch.cat([first, second])
    if hasattr(first, "iloc"):
        import pandas

        return pandas.concat([first, second], ignore_index=True)
    return np.concatenate([np.asarray(first), np.asarray(second)])


def _gathered(loader: DataLoader[Any]) -> Examples:
    xs, ys = [], []
    for x, y in loader:
        xs.append(x)
        ys.append(torch.as_tensor(y))
    if not xs:
        raise DataError("a Dataset without records", field="records", value=0, allowed=1)
    labels: Ints = torch.cat(ys).cpu().numpy()
    return Examples(torch.cat(xs), labels)


def _rows(x: Any, start: int, stop: int) -> Any:
    return x.iloc[start:stop] if hasattr(x, "iloc") else x[start:stop]


def _length(x: Any) -> int:
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def _plain(given: Any) -> NDArray[Any]:
    """Outputs as an array: of a tensor, or of a structure with `logits`, as transformers return it."""
    if isinstance(given, dict):
        given = given.get("logits", given)
    given = getattr(given, "logits", given)
    if isinstance(given, Tensor):
        return (
            given.detach().float().cpu().numpy()
            if given.dtype == torch.bfloat16
            else given.detach().cpu().numpy()
        )
    return np.asarray(given)


def _numeric(x: Any) -> NDArray[Any] | None:
    """The records as numbers, arrays as float64; None if they are no numbers."""
    if isinstance(x, Tensor):
        return x.detach().cpu().numpy() if x.dtype != torch.bfloat16 else x.detach().float().cpu().numpy()
    if hasattr(x, "iloc"):
        kept = x.select_dtypes(include=["number", "bool"])
        return np.asarray(kept.to_numpy(dtype=np.float64)) if kept.shape[1] == x.shape[1] else None
    values = np.asarray(x)
    return values.astype(np.float64) if values.dtype.kind in "fiub" else None


def _as_given(x: Tensor, like: Any) -> Any:
    """Perturbed records in the type of the user's."""
    if isinstance(like, Tensor):
        return x
    values = x.numpy()
    if hasattr(like, "iloc"):
        return type(like)(values, columns=like.columns)
    return values.astype(like.dtype) if like.dtype.kind == "f" else values
