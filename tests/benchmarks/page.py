"""docs/performance.md from the last run of the benchmarks: `make benchmarks`."""

import json
from pathlib import Path

from tests.benchmarks.table import RECORD, Row, lines_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
NOTE = "<!-- Written by `make benchmarks` from its last run: run it again instead of editing. -->\n\n"
TEXT = """
# Performance

What training and the program cost, with the bound that each figure must keep. `make benchmarks` measures
all of it again and writes this page; `pytest -m benchmark` prints the same table and fails where the lower
end of a 95 % interval is above its bound.

Ratios are of CPU time on one thread: competitors take turns in random order in one process, and a ratio is
the median of those within a round. Seconds are CPU seconds, user and system, of a command with all of its
children.

A ratio below 1 compares implementations and not privacy: sgd pays for autograd and the gradient engine does
not ([bench.md](bench.md#two-baselines)).
""".strip()


def page(record: Path = RECORD) -> str:
    """The page's text from the record of a run."""
    found = json.loads(record.read_text(encoding="utf-8"))
    rows, about = [Row(**each) for each in found["rows"]], found["machine"]
    before, after = about["load"]
    missed = sum(not row.held for row in rows)
    parts = [
        TEXT,
        f"Measured on {about['date']}: {about['processor']}, {about['cores']} cores, "
        f"Python {about['python']}, torch {about['torch']}; "
        f"load {before:g} at the beginning and {after:g} at the end. "
        f"{len(rows)} figures, {missed or 'none'} above {'its' if missed == 1 else 'their'} bound.",
    ]
    for group in dict.fromkeys(row.group for row in rows):
        lines = lines_of([row for row in rows if row.group == group])
        table = ["| | must | median | 95 % interval | n | |", "|---|---|---|---|---|---|"]
        for name, must, median, low, high, rounds, held, remark in lines:
            state = f"{held}; {remark}" if remark else held
            table.append(f"| {name} | {must} | {median} | {low} to {high} | {rounds} | {state} |")
        parts += [f"## {group}", "\n".join(table)]
    return NOTE + "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
