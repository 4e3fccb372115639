"""What a tune tried and chose, for the terminal: by accuracy on non-members only."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from harness.cli import output
from harness.cli.terminal.fitting import Layout
from harness.store.tunes import SearchRecord, TrialRecord, TuneRecord, show_values

SEARCHES = Layout(
    group="workload",
    drop=("CPU", "recipe"),
    keep=("method", "level", "validation", "by study", "chosen"),
)
TRIALS = Layout(
    drop=("error", "CPU", "models"), keep=("study", "trial", "validation", "standing"), one_line=True
)
REST = "--wide shows all"
WARNED = "(!)"
"""The sign of a search with warnings, which are printed below the table."""


def print_tune(record: TuneRecord, trials: bool = False, wide: bool = False) -> None:
    """Print a line per workload, method and level, the warnings, and every trial on request."""
    for line in head_lines(record):
        output.prose(line)
    levels = tell_levels(record.searches, wide)
    rows = [search_row(each, level) for each, level in zip(record.searches, levels, strict=True)]
    output.print_table(rows, None, SEARCHES, wide, REST)
    for each, level in zip(record.searches, levels, strict=True):
        for warning in each.warnings:
            output.prose(f"{WARNED} {f'{each.method} {level}'.rstrip()} on {each.workload}: {warning.text}")
    for warning in record.warnings:
        output.prose(f"{WARNED} {warning.text}")
    for each in record.searches if trials else ():
        title = f"{each.label} on {each.workload}, by accuracy on non-members"
        output.print_table(trial_rows(each), title, TRIALS, wide, REST)


def head_lines(record: TuneRecord) -> list[str]:
    """The budget, and the records that score a model of every workload."""
    studies = f"{record.studies} {'study' if record.studies == 1 else 'studies'}"
    confirmed = f", {record.confirm} of each confirmed" if record.confirm else ""
    found = {each.workload: each for each in record.searches}
    return [
        f"tune {record.name}: {record.trials} trials x {studies}{confirmed}, seed {record.seed}; "
        "scored on non-members of the pool, test records are not read; search not priced",
        *(_workload_line(each) for each in found.values()),
    ]


def _workload_line(search: SearchRecord) -> str:
    fewer = f" ({search.tuned_at:,} in the search)" if search.tuned_at != search.n_train else ""
    common = (
        "" if search.majority is None else f", {100 * search.majority:.1f} % of them of the commonest class"
    )
    return (
        f"{search.workload}: {search.n_train:,} members{fewer}, "
        f"{search.validation_records:,} validation records{common}"
    )


def tell_levels(searches: Sequence[SearchRecord], wide: bool = False) -> list[str]:
    """The levels of each search: epsilon and those that differ between searches of its method, or all."""
    values: dict[tuple[str, str, str], set[str]] = {}
    for each in searches:
        for name, value in each.levels.items():
            values.setdefault((each.workload, each.method, name), set()).add(str(value))
    return [
        each.tell_levels(
            name
            for name in each.levels
            if wide or name == "epsilon" or len(values[each.workload, each.method, name]) > 1
        )
        for each in searches
    ]


def search_row(search: SearchRecord, level: str) -> dict[str, Any]:
    """One search: the median study, the choices of all, the workload's own recipe, and what was chosen."""
    taken = search.chosen
    return {
        "workload": search.workload,
        "method": search.method,
        "level": level or "-",
        "validation": _percent(taken.score if search.choice and taken else None, search.warnings),
        "by study": " ".join(f"{100 * each.score:.1f}" for each in search.winners) or None,
        "recipe": _percent(sum(search.reference) / len(search.reference) if search.reference else None),
        "CPU": _duration(search.seconds),
        "chosen": show_values(search.chosen_values) or "nothing: no trial was trained",
    }


def trial_rows(search: SearchRecord) -> list[dict[str, Any]]:
    """A row per trial: its score, what became of it, and the values of the searched parameters."""
    fields = dict.fromkeys(each.field for each in search.axes_in_order)
    return [
        {
            "study": study.number,
            "trial": trial.number,
            "validation": _percent(trial.score if trial.scores else None),
            "models": len(trial.scores),
            "standing": _standing(trial, trial.number == study.chosen, study is search.chosen),
            **{name: trial.params.get(name) for name in fields},
            "CPU": _duration(trial.seconds),
            "error": trial.error,
        }
        for study in search.studies
        for trial in study.trials
    ]


def _standing(trial: TrialRecord, chosen: bool, of_median: bool) -> str:
    """The most that can be said of a trial."""
    if chosen:
        return "chosen, taken" if of_median else "chosen"
    if trial.error:
        return "not trained"
    if trial.failed:
        return f"{trial.failed} failed"
    return "confirmed" if trial.confirmed else ""


def _percent(share: float | None, warned: Sequence[object] = ()) -> str | None:
    return None if share is None else f"{100 * share:.1f} %" + f" {WARNED}" * bool(warned)


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
