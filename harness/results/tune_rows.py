"""The tables of tunes, from the records of a store and of its imports."""

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

import sqlalchemy as sa

import db
from harness.results.rows import TABLES, Row, to_arrow
from harness.spec import canonical, despelled
from harness.store.files import checksum
from harness.store.imports import Origin
from harness.store.tunes import SearchRecord, StudyRecord, TrialRecord, TuneRecord, read_tunes


def write_searches(connection: sa.Connection, origins: Iterable[Origin], broken: list[Path]) -> bool:
    """Update the tables, and return whether a tune is new, changed or gone.

    A damaged record is added to `broken`.
    """
    tune, search, trial = (TABLES[name] for name in ("tune_result", "search_result", "trial_result"))
    found = {
        origin.key(name): (origin, record)
        for origin in origins
        for name, record in read_tunes(origin.store, broken).items()
    }
    known = {row.key: row.stamp for row in connection.execute(sa.select(tune.c.key, tune.c.stamp))}
    stamps = {key: _stamp(record) for key, (_, record) in found.items()}
    changed = {key for key in known.keys() | stamps.keys() if known.get(key) != stamps.get(key)}
    for key in changed:
        searches = sa.select(search.c.search).where(search.c.tune == key)
        connection.execute(sa.delete(trial).where(trial.c.search.in_(searches)))
        connection.execute(sa.delete(search).where(search.c.tune == key))
        connection.execute(sa.delete(tune).where(tune.c.key == key))
    for key in sorted(changed & found.keys()):
        for name, rows in tune_rows(key, *found[key]).items():
            if rows:
                db.insert_arrow(connection, TABLES[name], to_arrow(name, rows))
    return bool(changed)


def tune_rows(key: str, origin: Origin, record: TuneRecord) -> dict[str, list[Row]]:
    """The rows of one record by table."""
    places = {f"{key}/{place}": each for place, each in enumerate(record.searches)}
    return {
        "tune_result": [
            {
                "key": key,
                "origin": origin.name,
                "name": record.name,
                "record": canonical(record.model_dump(mode="json")),
                "checksum": record.checksum,
                "stamp": _stamp(record),
            }
        ],
        "search_result": [
            {"search": place, "tune": key, "origin": origin.name, **_search_row(origin, record, each)}
            for place, each in places.items()
        ],
        "trial_result": [
            {
                "search": place,
                "study": study.study + 1,
                **_trial_row(origin, study, trial, study is each.chosen),
            }
            for place, each in places.items()
            for study in each.studies
            for trial in study.trials
        ],
    }


def _stamp(record: TuneRecord) -> str:
    return checksum(record.model_dump(mode="json"))


def _search_row(origin: Origin, record: TuneRecord, search: SearchRecord) -> Row:
    study = search.chosen
    winner = study.winner if study else None
    scores = [each.score for each in search.studies if each.winner]
    return {
        "workload": search.workload,
        "workload_version": search.workload_version,
        "method": search.method,
        "method_version": search.method_version,
        "epsilon_asked": despelled(search.levels).get("epsilon"),
        "levels": levels_text(search),
        "trials": record.trials,
        "studies": record.studies,
        "score": winner.score if winner else None,
        "score_low": min(scores, default=None),
        "score_high": max(scores, default=None),
        "majority": search.majority,
        "reference": fmean(search.reference) if search.reference else None,
        "validation_records": search.validation_records,
        "warnings": canonical([f"{each.name}: {each.text}" for each in search.warnings]),
        "cell": origin.key(winner.cell) if winner and winner.cell else None,
        "params": canonical(winner.params) if winner else None,
        "seconds": search.seconds,
        "n_train": search.n_train,
        "tuned_at": search.tuned_at,
    }


def levels_text(search: SearchRecord) -> str:
    """The levels without epsilon and delta, as cells have them (harness/results/rows.py)."""
    levels = despelled(search.levels)
    return canonical({name: each for name, each in levels.items() if name not in ("epsilon", "delta")})


def _trial_row(origin: Origin, study: StudyRecord, trial: TrialRecord, of_median: bool) -> Row:
    chosen = trial.number == study.chosen
    return {
        "trial": trial.number,
        "cell": origin.key(trial.cell) if trial.cell else None,
        "stage": "confirm" if trial.confirmed else "search",
        "score": trial.score if trial.scores else None,
        "scores": canonical(trial.scores),
        "failed": trial.failed,
        "chosen": chosen,
        "taken": chosen and of_median,
        "params": canonical(trial.params),
        "seconds": trial.seconds,
        "error": trial.error,
    }
