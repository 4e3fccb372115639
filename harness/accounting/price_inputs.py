"""Checks of the options of `privbench price`, and files of votes."""

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.accounting import Free
from workloads.errors import SpecError


@dataclass
class Form:
    """Collects all problems with the options, so that they can be fixed in one go."""

    problems: list[str] = field(default_factory=list)

    def number(
        self, option: str, value: float | None, low: float, high: float = math.inf, *, open_low: bool = True
    ) -> None:
        """A given value must lie above low (or at it) and not above high; NaN fails."""
        if value is None:
            return
        fits = (value > low if open_low else value >= low) and value <= high and value < math.inf
        if not fits:
            bound = f"{'>' if open_low else '>='} {low:g}" + (
                f" and <= {high:g}" if math.isfinite(high) else ""
            )
            self.problems.append(f"{option} must be {bound}, got {value:g}: give a value in that range")

    def needs(self, holds: bool, problem: str) -> None:
        """Add the problem unless the condition holds."""
        if not holds:
            self.problems.append(problem)

    def finish(self) -> None:
        """Raise SpecError with all problems."""
        if self.problems:
            raise SpecError(self.problems)


def check_common(form: Form, delta: float, target: float | None, fprs: Sequence[float]) -> None:
    """Check the options every mechanism has."""
    form.needs(0 <= delta < 1, f"--delta must be >= 0 and < 1, got {delta:g}: 1e-5 is usual")
    form.number("--target-epsilon", target, 0.01, 1000, open_low=False)
    for fpr in fprs:
        form.number("--tpr-at-fpr", fpr, 0, 1, open_low=False)


def choose_free(
    form: Form, target: float | None, values: dict[str, float | None], order: Sequence[tuple[str, Free]]
) -> Free | None:
    """The missing value to solve for: exactly one with a target, none without."""
    missing = [(name, free) for name, free in order if values[name] is None]
    names = " and ".join(f"--{name}" for name, _ in order)
    if target is None:
        form.needs(not missing, f"give {names}, or leave one out and give --target-epsilon to solve for it")
        return None
    form.needs(
        len(missing) == 1,
        f"--target-epsilon solves for one of {names}: leave out exactly one, {len(missing)} are missing",
    )
    return missing[0][1] if len(missing) == 1 else None


def parse_rows(text: str) -> dict[int, int]:
    """`12x75,24x300` to {75: 12, 300: 24}: rows of each dimension."""
    found: dict[int, int] = {}
    for piece in text.split(","):
        count, _, dimension = piece.strip().partition("x")
        try:
            found[int(dimension)] = found.get(int(dimension), 0) + int(count)
        except ValueError:
            raise SpecError(
                f"--rows must be COUNTxDIMENSION pieces separated by commas, got '{piece}': "
                "for example 12x75,10x768",
                field="--rows",
                value=piece,
            ) from None
    return found


def read_votes(path: Path) -> tuple[tuple[int, ...], ...]:
    """One row of counts per query, from CSV or JSON (a list of lists)."""
    try:
        text = path.read_text(encoding="utf-8")
        rows = (
            json.loads(text)
            if path.suffix == ".json"
            else [[cell for cell in row if cell.strip()] for row in csv.reader(text.splitlines()) if row]
        )
        return tuple(parse_counts(row) for row in rows)
    except (OSError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise SpecError(
            f"--votes {path}: {error}; give a CSV file, or a JSON list of lists, with one row of whole "
            "counts per query",
            field="--votes",
            value=path,
        ) from None


def parse_counts(row: Sequence[Any]) -> tuple[int, ...]:
    """Counts of one query; ValueError unless all are whole numbers >= 0."""
    counts = tuple(int(cell) for cell in row)
    if len(counts) < 2 or min(counts) < 0 or any(float(cell) != int(cell) for cell in row):
        raise ValueError(f"a row needs at least two whole counts >= 0, got {list(row)}")
    return counts


def find_votes(
    votes: Path | None, counts: str | None, classes: int | None, queries: int | None
) -> tuple[tuple[int, ...], ...]:
    """The votes that the options describe; rows of zeros if only their number is known."""
    if votes is not None:
        if counts is not None or queries is not None:
            raise SpecError("--votes holds every query: give it alone, or --counts with --queries")
        return read_votes(votes)
    if queries is not None and queries < 1:
        message = f"--queries must be >= 1, got {queries}: give the number of queries"
        raise SpecError(message, field="--queries", value=queries, allowed=1)
    if counts is None:
        return ((0, 0),) * (queries or 0)
    try:
        row = [int(piece) for piece in counts.split(",")]
        row += [0] * ((classes or len(row)) - len(row))
        return (parse_counts(row),) * (queries or 1)
    except (ValueError, OverflowError):
        raise SpecError(
            f"--counts must be at least two whole numbers >= 0, got '{counts}': for example 200,50",
            field="--counts",
            value=counts,
        ) from None
