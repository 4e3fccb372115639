"""Measure coverage, error rates and power of the statistics of leakage figures (docs/calibration.md).

    python -m tests.campaigns.calibration --cells 2000 --state counts.json --out docs/calibration.md
    python -m tests.campaigns.calibration --models 8 --cells 200 --signals digits-linear-sgd.npz

Exit code 1 if nominal 95 % intervals on synthetic cells lack the required coverage: the mean over the figures
of a default attack from 93 to 99.5 %, and the 99 % upper limit of no entry below 92.5 %.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import numpy as np

from tests.campaigns.calibration import summary
from tests.campaigns.calibration.cells import Pool, Signals, masks, train
from tests.campaigns.calibration.counts import Counts, settings_of
from tests.campaigns.calibration.measured import TIMES, compare, measure
from tests.campaigns.calibration.summary import LEAK, NULL

CELLS_PER_TABLE = 4
"""Cells in a table: with this many fewer tables, all kinds take about the same time."""
GAPS = {NULL: 0.0, LEAK: 1.0}


def synthetic(counts: Counts, pool: Pool, kind: str, models: int) -> None:
    """Count one more cell of the pool."""
    random = stream(counts, kind, models)
    counts.add_cell(kind, models, measure(train(pool.leaking(GAPS[kind]), masks(models, random), random)))


def table(counts: Counts, pool: Pool, situation: str, models: int) -> None:
    """Count one more table of methods."""
    random = stream(counts, situation, models)
    counts.add_table(situation, models, compare(pool, models, TIMES[situation], random))


def stored(counts: Counts, signals: Signals, kind: str, models: int) -> None:
    """Count one more cell drawn from stored models."""
    random = stream(counts, kind, models)
    counts.add_cell(kind, models, measure(signals.cell(random.permutation(len(signals.members))[:models])))


def stream(counts: Counts, kind: str, models: int) -> np.random.Generator:
    """The random stream of the next cell of a kind, independent of what was counted before."""
    name = int.from_bytes(kind.encode(), "big")
    return np.random.default_rng([int(counts.settings["seed"]), name, models, counts.number(kind, models)])


def run(asked: argparse.Namespace, counts: Counts, signals: dict[str, Signals]) -> None:
    """Count cells up to the requested number, or until the time is up."""
    pool = Pool.of(asked.seed)
    end = time.monotonic() + 60 * asked.minutes
    while time.monotonic() < end:
        before = dict(counts.done)
        for models in asked.models:
            for one_more, kind, cells in jobs(asked, counts, pool, signals, models):
                goal = min(cells, counts.number(kind, models) + max(1, cells // asked.rounds))
                while counts.number(kind, models) < goal and time.monotonic() < end:
                    one_more(kind, models)
            counts.save(asked.state)
        if counts.done == before:
            return
        done = ", ".join(f"{kind.replace('|', ' M = ')}: {number}" for kind, number in counts.done.items())
        print(done, file=sys.stderr, flush=True)  # noqa: T201


def jobs(
    asked: argparse.Namespace, counts: Counts, pool: Pool, signals: dict[str, Signals], models: int
) -> list[tuple[Callable[[str, int], None], str, int]]:
    """The jobs for this number of models: function, kind and number of cells."""

    def cell(kind: str, models: int) -> None:
        synthetic(counts, pool, kind, models)

    def methods(situation: str, models: int) -> None:
        table(counts, pool, situation, models)

    def drawn(kind: str, models: int) -> None:
        stored(counts, signals[kind], kind, models)

    tables = asked.cells // CELLS_PER_TABLE
    enough = [name for name, each in signals.items() if 2 * models <= len(each.members)]
    return [
        *((cell, kind, asked.cells) for kind in GAPS),
        *((methods, situation, tables) for situation in TIMES),
        *((drawn, kind, asked.drawn or asked.cells) for kind in enough),
    ]


def page(asked: argparse.Namespace, counts: Counts, signals: dict[str, Signals], command: str) -> str:
    """The page: all tables, and how they were made."""
    models = sorted(asked.models)
    kinds = [NULL, LEAK]
    parts = [
        "# Calibration of leakage figures",
        f"Made by `{command}` on {date.today().isoformat()}, with {so_far(asked, counts)}; do not edit.",
        INTRODUCTION,
        "## Coverage of nominal 95 % intervals",
        "Per cent of cells; mean (lowest-highest) over AUC, TPR at 10 % and 1 % FPR and balanced accuracy.",
        summary.coverage_table(counts, kinds, models),
        bounds(counts, models),
        "Every entry:",
        summary.entry_table(counts, kinds, models),
        "## Where nothing leaks",
        "Means over cells with their standard errors, and the per cent of cells whose interval lies above "
        "chance (lowest-highest over figures; 2.5 is nominal).",
        summary.null_table(counts, models),
        "## Where records leak",
        "Means over cells with their standard errors, and the mean standard error that the program states "
        "over the true standard deviation.",
        summary.leak_table(counts, models),
        "## Comparison of methods",
        COMPARISON,
        summary.comparison_table(counts, models),
    ]
    for kind, each in signals.items():
        enough = [count for count in models if counts.number(kind, count) > 1]
        if not enough:
            continue
        size = len(each.members)
        parts += [
            f"## Stored signals: {kind}",
            f"Cells drawn out of {size} trained models, corrected for M / {size}. Cells overlap, so "
            "standard errors are larger than written, and no bound is put on these.",
            summary.coverage_table(counts, [kind], enough, size),
        ]
    return "\n\n".join(parts) + "\n"


def bounds(counts: Counts, models: Sequence[int]) -> str:
    """The bounds on coverage, and the entries outside them."""
    outside = [f"- {each}." for each in summary.broken(counts, models)]
    return "\n".join([BOUNDS, "", *(outside or ["- nothing."])])


def so_far(asked: argparse.Namespace, counts: Counts) -> str:
    """The number of cells so far, which can be fewer than requested."""
    cells = [counts.number(kind, models) for kind in GAPS for models in asked.models]
    few, many = min(cells), max(cells)
    shown = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    return f"{shown} of {asked.cells:,} cells an entry" if few < asked.cells else f"{few:,} cells an entry"


BOUNDS = (
    "Held to: mean coverage over the figures of an attack 93 to 99.5 %, no entry whose 99 % upper limit is "
    "below 92.5 %. Outside:"
)
INTRODUCTION = (
    "One pool of 800 records, half of them members of each model; models have levels of their own, and gaps "
    "are log-normal where records leak (`tests/campaigns/calibration/cells.py`). Masks, levels and noise are "
    "drawn anew for every cell. The truth of a figure is its expectation over those on this pool, for an "
    "attacker with M - 1 shadows; it is estimated by the mean over all other cells "
    "(`tests/campaigns/calibration/summary.py`)."
)
COMPARISON = (
    "Tables of four methods with shared members, six pairs; accuracy is that on 400 test records. False "
    "winners, in per cent, among four equal methods: of one pair, of a table without correction, of a table "
    "with Holm's; then of a table whose fourth method has half the gaps, among its three equal ones. Power, "
    "in per cent: pairs with that fourth method whose difference is seen, alone and with Holm's correction."
)


def main(words: Sequence[str]) -> int:
    """Exit code 0 if coverage is within its bounds."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.calibration", description=__doc__)
    parser.add_argument("--cells", type=int, default=2000, help="of each kind and number of models")
    parser.add_argument(
        "--models", type=lambda text: [int(each) for each in text.split(",")], default="4,8,16,32"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the pool and all cells")
    parser.add_argument("--out", type=Path, help="write the tables as Markdown")
    parser.add_argument("--state", type=Path, help="keep counts in this JSON file, and continue from it")
    parser.add_argument("--signals", type=Path, nargs="*", default=[], help=".npz of stored signals")
    parser.add_argument("--drawn", type=int, help="cells out of each of these; else as many as --cells")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--rounds", type=int, default=20, help="in how many parts the cells are counted")
    asked = parser.parse_args(words)
    counts = Counts.load(asked.state, settings_of(asked.seed))
    signals = {file.stem: Signals.load(file) for file in asked.signals}
    run(asked, counts, signals)
    named = f" --signals {' '.join(file.name for file in asked.signals)}" if signals else ""
    named += f" --drawn {asked.drawn}" if asked.drawn else ""
    models = ",".join(map(str, asked.models))
    command = f"{parser.prog} --cells {asked.cells} --models {models} --seed {asked.seed}{named}"
    text = page(asked, counts, signals, command)
    print(text)  # noqa: T201
    if asked.out:
        asked.out.write_text(text)
    wrong = summary.broken(counts, asked.models)
    for each in wrong:
        print(f"not calibrated: {each}", file=sys.stderr)  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
