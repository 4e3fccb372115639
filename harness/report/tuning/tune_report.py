"""The files of the report on tunes: a figure per tune and workload, and one table of all searches."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from harness.report.figure.paper_sizes import SCREEN, Sheet
from harness.report.figure.style import empty_figure, house_style, save
from harness.report.metadata import Imprint
from harness.report.reading import read_searches
from harness.report.tables import write_table
from harness.report.text_table import TextTable, choose_columns
from harness.report.tuning.trial_figure import READ_AS, tune_figure
from harness.report.tuning.trial_points import Block, blocks_of, luck_of, reference_of
from harness.results.query import Source
from harness.store.tunes import SearchRecord, TuneRecord, show_values

TITLE = "Tunes: what was tried and chosen"
COLUMNS = (
    *("tune", "workload", "method", "level", "validation", "studies' choices", "luck", "recipe"),
    *("most common class", "trials x studies", "CPU", "values taken", "warnings"),
)
RANKED = (
    *("method", "level", "validation", "studies' choices", "recipe", "values taken", "warnings"),
    *("luck", "workload", "tune", "trials x studies", "most common class", "CPU"),
)
"""The columns for a reader, the most important first."""
NOTES = (
    "Validation: accuracy on non-members of the pool of what a run takes, the choice of the study with the "
    "median score. Test records are not read by a tune.",
    "Luck: the range of the studies' choices in percentage points; a difference between methods below it is "
    "not settled.",
    "Recipe: accuracy on non-members of the workload's own recipe, for comparison; it is no trial.",
    "The search is not priced: the epsilon of a row with these values is that of its training alone.",
)


def write_tune(
    store: Source,
    out: Path,
    where: str | None = None,
    sheet: Sheet = SCREEN,
    sweep: str | None = None,
    name: str | None = None,
) -> list[Path]:
    """Write a figure per tune and workload, and the table `tune`, into `out`.

    `where` is an SQL condition on the view `search`; `name` selects one tune.
    """
    tunes, sql = read_searches(store, where, sweep, name)
    return draw_tunes(tunes, sql, out, sheet)


def draw_tunes(tunes: Mapping[str, TuneRecord], sql: str, out: Path, sheet: Sheet = SCREEN) -> list[Path]:
    """The same from tunes already read, by this statement."""
    blocks, files = blocks_of(tunes), []
    (table,) = choose_columns([tune_table(blocks, sql)], sheet.columns)
    with house_style(sheet):
        for block in blocks:
            about = Imprint(f"{block.workload}: what tune {block.key} tried", sql, READ_AS)
            files += save(tune_figure(block, sheet), out, block.stem, about)
        if not blocks:
            text = "No tune is in the database.\nRun: privbench tune --workload W --method M,N --epsilon 1,8"
            files += save(empty_figure(TITLE, text, sheet), out, "tune", Imprint(TITLE, sql))
    return [*files, *write_table(table, out)]


def tune_table(blocks: Sequence[Block], sql: str) -> TextTable:
    """A row per method and level."""
    searches = [(block, each) for block in blocks for each in block.searches]
    warned = sum(bool(each.warnings) for _, each in searches)
    return TextTable(
        name="tune",
        title=TITLE,
        columns=COLUMNS,
        rows=tuple(search_line(block, each) for block, each in searches),
        protocol=NOTES,
        counts=f"{len(searches)} searches, {warned} with warnings.",
        heading="How to read it",
        query=sql,
        ranked=RANKED,
    )


def search_line(block: Block, search: SearchRecord) -> tuple[str, ...]:
    """A search in the columns of the table."""
    luck, taken = luck_of(search), search.chosen
    return (
        block.key,
        search.workload,
        search.method,
        search.level or "-",
        _percent(taken.score if taken and search.choice else None),
        " ".join(f"{100 * each.score:.1f}" for each in search.winners) or "-",
        "-" if luck is None else f"{100 * (luck[1] - luck[0]):.1f}",
        _percent(reference_of(search)),
        _percent(search.majority),
        block.budget,
        str(timedelta(seconds=round(search.seconds))),
        show_values(search.chosen_values) or "-",
        " ".join(each.text for each in search.warnings) or "-",
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
