"""The measurements so far, in a JSON file, so that a long run can be continued.

Numbers are whole millionths. Cell number k of a kind has its own random stream, so that a run in parts gives
the counts of a single run.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.attacks import family
from harness.leakage.figures import METRICS
from harness.leakage.matrices import Floats
from tests.campaigns.calibration.measured import ATTACKS, Found
from workloads.errors import BenchError

MILLION = 1_000_000
Settings = dict[str, int | str]


def settings_of(seed: int) -> Settings:
    """What two runs must share for their counts to be added: the pool, and versions of the figures."""
    versions = {name: family.get(name).version for name, _ in ATTACKS.values()}
    return {"seed": seed, "figures": METRICS, **{f"attack {name}": each for name, each in versions.items()}}


@dataclass
class Counts:
    """Intervals of cells and p-values of tables, by key."""

    settings: Settings
    cells: dict[str, list[int]] = field(default_factory=dict)
    """`kind|models|attack|figure`: value, low, high of one cell after the other."""
    tables: dict[str, list[int]] = field(default_factory=dict)
    """`situation|models|axis`: the p-values of all pairs of one table after the other."""
    done: dict[str, int] = field(default_factory=dict)
    """`kind|models`: how many cells or tables there are."""

    @classmethod
    def load(cls, file: Path | None, settings: Settings) -> "Counts":
        """The counts of the file; empty if it does not exist."""
        if file is None or not file.exists():
            return cls(settings)
        read = cls(**json.loads(file.read_text()))
        if read.settings != settings:
            raise BenchError(
                f"{file} was counted with {read.settings}, this run has {settings}: counts of two versions "
                "or seeds are not added; name another file with --state"
            )
        return read

    def save(self, file: Path | None) -> None:
        """Write atomically."""
        if file is None:
            return
        aside = file.with_suffix(".part")
        aside.write_text(json.dumps(vars(self)))
        aside.replace(file)

    def number(self, kind: str, models: int) -> int:
        """The number of cells or tables of a kind."""
        return self.done.get(f"{kind}|{models}", 0)

    def add_cell(self, kind: str, models: int, found: Found) -> None:
        """Count one cell."""
        for attack, figures in found.items():
            for figure, interval in figures.items():
                self.cells.setdefault(f"{kind}|{models}|{attack}|{figure}", []).extend(map(_whole, interval))
        self._one_more(kind, models)

    def add_table(self, situation: str, models: int, found: dict[str, list[float]]) -> None:
        """Count one table of methods."""
        for axis, p_values in found.items():
            self.tables.setdefault(f"{situation}|{models}|{axis}", []).extend(map(_whole, p_values))
        self._one_more(situation, models)

    def _one_more(self, kind: str, models: int) -> None:
        self.done[f"{kind}|{models}"] = self.number(kind, models) + 1

    def intervals(self, kind: str, models: int, attack: str, figure: str) -> Floats:
        """(cells, 3): value, low and high; empty if the attack lacks the figure."""
        found = self.cells.get(f"{kind}|{models}|{attack}|{figure}", [])
        return np.array(found, dtype=np.float64).reshape(-1, 3) / MILLION

    def p_values(self, situation: str, models: int, axis: str, pairs: int) -> Floats:
        """(tables, pairs)"""
        found = self.tables.get(f"{situation}|{models}|{axis}", [])
        return np.array(found, dtype=np.float64).reshape(-1, pairs) / MILLION


def _whole(value: float | None) -> int:
    if value is None:
        raise ValueError("a simulated cell has all of its figures")
    return round(value * MILLION)
