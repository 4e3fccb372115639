"""Published numbers: the tables of the papers as data, read from harness/papers/ and checked.

A cell is one row of a printed table, a line; it has one value for every metric of its block. What a paper
does not print is absent. Percentages and milliseconds stay as printed (`unit`); nothing is converted here.

Lines are numbered from 0 in printed order. The number is part of the line's key, by which users ask for it:
a line that is found later goes to the end of its table.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from workloads.errors import BenchError
from workloads.toml import parse_toml

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
Text = Annotated[str, Field(min_length=1)]
FOLDER = resources.files("harness") / "papers"
STRONGEST = ("population", "reference", "shadow")
"""The attacks of ours that `strongest` stands for: papers that print the best of several ran these."""
RATIO_DIGITS = 3
"""Significant digits of a ratio of two printed times, which have about as many."""
Value = StrictBool | StrictInt | FiniteFloat | StrictStr

MetricName = Literal[
    "accuracy",
    "train_accuracy",
    "top10_accuracy",
    "auc",
    "tpr_at_0p01pct",
    "attack_accuracy",
    "attack_precision",
    "ssim_mean",
    "mse_median",
    "rejection_rate",
    "updates_per_record_mean",
    "updates_per_record_min",
    "updates_per_record_max",
    "step_seconds",
]
"""The view `reproduction` defines how privbench measures them."""

Accountant = Literal["rdp_classic", "rdp", "paper"]
"""How a paper counts its epsilon, by the name in `Guarantee.epsilons`: Rényi divergences by Mironov's
conversion, by the improved one, or the authors' own charge, which is disputed."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Metric(_Part):
    """A column of a printed table."""

    name: MetricName
    attack: Name | None = None
    """Our attack that is the paper's; `strongest` if it prints the best of several."""
    unit: Literal["%", "ms"] | None = None
    decimals: int = Field(ge=0, le=6)
    """Printed digits after the decimal point: rounding is part of the comparison."""

    @property
    def key(self) -> str:
        """Its name within a cell."""
        return f"{self.attack}/{self.name}" if self.attack else self.name

    @property
    def attacks(self) -> tuple[str, ...]:
        """Our attacks that measure it; none for a figure of the training."""
        if self.attack is None:
            return ()
        return STRONGEST if self.attack == "strongest" else (self.attack,)


class PrintedCell(_Part):
    """One row of a table, in our names if we have them and in the paper's."""

    workload: Name | None = None
    method: Name | None = None
    label: Text
    """The method by the paper's name."""
    on: Text
    """Data and model by the paper's names."""
    params: Mapping[str, Value] = {}
    """The identifying parameters: a cell of ours is this one only if they agree."""
    stated: Mapping[str, Value] = {}
    """Further settings that the paper states: the report shows where ours differ."""
    epsilon: Annotated[FiniteFloat, Field(gt=0)] | None = None
    """The printed epsilon, where the noise is stated and identifies the line: it is a result then."""
    lost: tuple[str, ...] = ()
    """Identifying parameters that cannot be known."""
    impossible: Text | None = None
    """Why no cell of ours can be this one, in words."""
    values: tuple[FiniteFloat, ...]
    deviations: tuple[Annotated[FiniteFloat, Field(ge=0)], ...] = ()
    """Printed standard deviations of the first values; the others have none."""
    note: Text | None = None

    @model_validator(mode="after")
    def _one_epsilon(self) -> "PrintedCell":
        if self.epsilon is not None and "epsilon" in self.params:
            raise ValueError("epsilon is given twice: as the printed result, and among params")
        return self

    @property
    def unmatchable(self) -> str | None:
        """Why no cell of ours can be this one, as far as the paper decides it; None if one can."""
        if self.impossible is not None:
            return self.impossible
        if self.workload is None:
            return f"without a workload here: {self.on}"
        if self.method is None:
            return f"without a method here: {self.label}"
        if self.lost:
            return f"what the paper used for {' and '.join(self.lost)} is not known"
        return None


class Block(_Part):
    """The rows of a table that share their columns."""

    runs: int | None = Field(default=None, ge=1)
    """Training runs behind a value."""
    metrics: tuple[Metric, ...] = Field(min_length=1)
    cells: tuple[PrintedCell, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _every_line_fits(self) -> "Block":
        if len({metric.key for metric in self.metrics}) < len(self.metrics):
            raise ValueError("a metric is repeated")
        for number, cell in enumerate(self.cells):
            if len(cell.values) != len(self.metrics) or len(cell.deviations) > len(cell.values):
                raise ValueError(
                    f"cell {number} ({cell.label} on {cell.on}) has {len(cell.values)} values and "
                    f"{len(cell.deviations)} deviations for {len(self.metrics)} metrics"
                )
        return self


class PrintedOverhead(_Part):
    """The ratios of a table of step times: of every other method to the baseline on the same data."""

    baseline: Name
    """The method whose step is 1."""
    shapes: Mapping[Name, Name]
    """A workload of ours to the table's workload with a model of that shape."""
    measured: Text
    """How, as far as the paper states it."""


class PrintedTable(_Part):
    """One table (or figure, or sentence) of a paper."""

    name: Name
    printed: Text
    """Its location in the paper."""
    about: Text
    n_train: Mapping[Name, Annotated[int, Field(ge=1)]] = {}
    """Training records by workload, if the paper states them."""
    accountant: Mapping[Name, Accountant] = {}
    """How the printed epsilons were counted, by method, if the paper states it."""
    unstated: tuple[str, ...] = ()
    """Parameters that the paper does not state for these cells: our choice is reported."""
    ours: Mapping[str, Value] = {}
    """Our choice for some of these, where that of the workload's recipe does not fit."""
    shadows: int | None = Field(default=None, ge=1)
    """Shadow or reference models of a target."""
    attacks: Mapping[Name, Mapping[str, Value]] = {}
    """Parameters of our attacks with which they are the paper's, as in a sweep file."""
    protocol: tuple[Text, ...] = ()
    """What we do differently, for the whole table."""
    overhead: "PrintedOverhead | None" = None
    """For a table of step times: how ratios are formed."""
    block: tuple[Block, ...] = Field(min_length=1)


class Paper(_Part):
    """One file of harness/papers/."""

    source: Name
    citation: Text
    table: tuple[PrintedTable, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Published:
    """A cell with what it inherits from its table and paper."""

    number: int
    """Its place in the table, from 0."""
    paper: Paper
    table: PrintedTable
    block: Block
    cell: PrintedCell

    @property
    def key(self) -> str:
        """`<table>/<number>`."""
        return f"{self.table.name}/{self.number:03d}"

    @property
    def n_train(self) -> int | None:
        """Training records, if the paper states them."""
        return self.table.n_train.get(self.cell.workload or "")

    @property
    def epsilon(self) -> float | None:
        """The printed epsilon: a result of the stated noise, or the target that identifies the line."""
        given = self.cell.params.get("epsilon") if self.cell.epsilon is None else self.cell.epsilon
        return None if given is None else float(given)

    @property
    def delta(self) -> float | None:
        """The delta of the printed epsilon, if the paper states it."""
        given = self.cell.params.get("delta", self.cell.stated.get("delta"))
        return None if given is None else float(given)

    @property
    def accountant(self) -> Accountant | None:
        """How the printed epsilon was counted, if the paper states it."""
        return None if self.epsilon is None else self.table.accountant.get(self.cell.method or "")

    def rows(self) -> Iterator[dict[str, Any]]:
        """Its rows of the table `published` but for `unmatchable`: one per value."""
        cell = self.cell
        shared = {
            "cell": self.key,
            "source": self.paper.source,
            "citation": self.paper.citation,
            "table_name": self.table.name,
            "printed": self.table.printed,
            "about": self.table.about,
            "protocol": _text(list(self.table.protocol)),
            **{name: getattr(cell, name) for name in ("workload", "method", "label", "note")},
            "printed_workload": cell.on,
            "params": _text(dict(cell.params)),
            "stated": _text(dict(cell.stated)),
            **{name: getattr(self, name) for name in ("n_train", "epsilon", "delta", "accountant")},
            "runs": self.block.runs,
        }
        for place, (metric, value) in enumerate(zip(self.block.metrics, cell.values, strict=True)):
            yield {
                **shared,
                "key": f"{self.key}/{place}",
                "metric": metric.name,
                "attack": metric.attack,
                "unit": metric.unit,
                "value": value,
                "deviation": cell.deviations[place] if place < len(cell.deviations) else None,
                "decimals": metric.decimals,
            }


def read_paper(text: str, where: str) -> Paper:
    """One file of papers; BenchError with all problems."""
    try:
        return Paper.model_validate(parse_toml(text.encode(), where))
    except ValidationError as error:
        raise BenchError(f"{where} is not a file of published numbers: {error}", field=where) from error


@cache
def papers() -> tuple[Paper, ...]:
    """Every paper, by file name."""
    files = sorted((file for file in FOLDER.iterdir() if file.name.endswith(".toml")), key=lambda f: f.name)
    found = tuple(read_paper(file.read_text(encoding="utf-8"), file.name) for file in files)
    names = [table.name for paper in found for table in paper.table]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BenchError(f"duplicate names of published tables: {', '.join(twice)}")
    return found


@cache
def published() -> tuple[Published, ...]:
    """Every published cell, in printed order."""
    return tuple(
        Published(number, paper, table, block, cell)
        for paper in papers()
        for table in paper.table
        for number, (block, cell) in enumerate((block, cell) for block in table.block for cell in block.cells)
    )


@dataclass(frozen=True)
class Overhead:
    """The time of a step in units of the baseline's, from a paper's step times."""

    workload: str
    """Our workload, whose model has the shape of the paper's."""
    method: str
    ratio: float
    printed: str
    """Its location in the paper."""
    source: str
    """The paper, the location in it, and how it was measured."""


@cache
def published_overheads() -> tuple[Overhead, ...]:
    """Every overhead from the papers' step times, in printed order."""
    return tuple(each for paper in papers() for table in paper.table for each in _overheads(paper, table))


def _overheads(paper: Paper, table: PrintedTable) -> Iterator[Overhead]:
    if table.overhead is None:
        return
    seconds = {
        (cell.workload, cell.method): value
        for block in table.block
        for cell in block.cells
        for metric, value in zip(block.metrics, cell.values, strict=True)
        if metric.name == "step_seconds"
    }
    source = f"{paper.citation}, {table.printed}: {table.overhead.measured}"
    for workload, shape in table.overhead.shapes.items():
        one = seconds[shape, table.overhead.baseline]
        for (printed, method), value in seconds.items():
            if printed == shape and method is not None and method != table.overhead.baseline:
                ratio = float(f"{value / one:.{RATIO_DIGITS}g}")
                yield Overhead(workload, method, ratio, table.printed, source)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
