"""The table of all benchmarks: a row for each bound, its printed form, and the record of a whole run."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from tests.benchmarks.pairs import Estimate

RECORD = Path(__file__).resolve().parents[2] / "build" / "benchmarks.json"
"""The last run of all benchmarks, from which docs/performance.md is written."""


@dataclass(frozen=True)
class Row:
    """A measured figure and its bound."""

    group: str
    """What is compared, such as `dp-sgd step / sgd step`; or a unit after a comma."""
    name: str
    must: float
    figure: float
    low: float
    high: float
    rounds: int
    remark: str = ""

    @property
    def held(self) -> bool:
        """Whether the lower end of the 95 % interval is within the bound."""
        return self.low <= self.must


@dataclass
class Table:
    """The rows of a run, as they are measured."""

    rows: list[Row] = field(default_factory=list)

    def hold(
        self, group: str, name: str, found: Estimate, must: float, rounds: int, remark: str = ""
    ) -> None:
        """Add a row; AssertionError if the lower end of its interval is above the bound."""
        row = Row(group, name, must, found.median, found.low, found.high, rounds, remark)
        self.rows.append(row)
        assert row.held, f"{group}, {name}: at least {row.low:.3g}, must be at most {must:g}"


def lines_of(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The rows as text, without the group."""
    return [
        (
            row.name,
            f"{row.must:g}",
            f"{row.figure:.3g}",
            f"{row.low:.3g}",
            f"{row.high:.3g}",
            str(row.rounds),
            "held" if row.held else "MISSED",
            row.remark,
        )
        for row in rows
    ]


HEAD = ("", "must", "median", "lower 95 %", "upper 95 %", "n", "", "")


def as_text(rows: Sequence[Row]) -> list[str]:
    """The table for a terminal, by group."""
    lines = []
    for group in dict.fromkeys(row.group for row in rows):
        own = [(group, *HEAD[1:]), *lines_of([row for row in rows if row.group == group])]
        widths = [max(map(len, column)) for column in zip(*own, strict=True)]
        lines += ["", *("  ".join(map(str.ljust, each, widths)).rstrip() for each in own)]
    return lines


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, cores, versions and load; no name of the host."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load": round(os.getloadavg()[0], 1),
        "date": datetime.now(UTC).date().isoformat(),
    }


def processor() -> str:
    """The model of the CPU."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def write_record(rows: Sequence[Row], before: float, path: Path = RECORD) -> None:
    """Write the rows with machine, date and the load at the beginning and at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    about = machine()
    record = {"machine": about | {"load": [before, about["load"]]}, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
