"""The recipe file of a tune, made from its record alone: the same record gives the same bytes."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from harness.spec import Json, despelled
from harness.store.tunes import SearchRecord, StudyRecord, TrialRecord, TuneRecord
from harness.tuning.toml_text import inline, key, listed, pairs, text

HEAD = (
    "# Made by `privbench tune`. A run takes it by `recipe = ...` in its sweep or by --recipe.",
    "# Values that were tuned at some levels hold at no others.",
)


def recipe_text(record: TuneRecord) -> str:
    """The recipe of every workload that was tuned."""
    by_workload: dict[str, list[SearchRecord]] = {}
    for search in record.searches:
        by_workload.setdefault(search.workload, []).append(search)
    several = len(by_workload) > 1
    lines = [*HEAD]
    for searches in by_workload.values():
        head = "[[tuning]]" if several else "[tuning]"
        lines += ["", head, *pairs(_head(record, searches[0]))]
    for workload, searches in by_workload.items():
        prefix = f"workload.{key(workload)}." if several else ""
        lines += _part(prefix, record, searches)
    return "\n".join(lines) + "\n"


def lacking(record: TuneRecord) -> list[str]:
    """Methods without a chosen configuration at some level: they are not in the recipe."""
    return sorted({each.method for each in record.searches if each.chosen is None or not each.chosen.winner})


def _head(record: TuneRecord, search: SearchRecord) -> Json:
    head: Json = {
        "name": record.name,
        "workload": search.workload,
        "workload_version": search.workload_version,
        "n_train": search.n_train,
        "tuned_at": search.tuned_at,
    }
    for name in ("trials", "studies", "models", "confirm", "seed", "objective", "max_gap"):
        head[name] = getattr(record, name)
    rest = {"validation_records": search.validation_records, "priced": record.priced, "tune": record.checksum}
    return {key: value for key, value in (head | rest).items() if value is not None}


def _part(prefix: str, record: TuneRecord, searches: Sequence[SearchRecord]) -> Iterator[str]:
    """The tables of one workload."""
    tried = record.trials * record.studies
    by_method: dict[str, list[SearchRecord]] = {}
    for each in searches:
        if each.chosen is not None and each.chosen.winner is not None:
            by_method.setdefault(each.method, []).append(each)
    for method, found in by_method.items():
        yield from ("", f"[{prefix}method.{key(method)}]")
        yield from _settings([(each, each.chosen) for each in found], tried)
        for study in range(record.studies):
            if settings := list(_settings([(each, each.studies[study]) for each in found], tried)):
                yield from ("", f"[{prefix}setting.{key(method)}.{study + 1}]", *settings)
        yield from ("", f"[{prefix}tuned.{key(method)}]")
        yield f"method_version = {text(found[0].method_version)}"
        texts = [f"{_levels(each)}: {told.text}" for each in found for told in each.warnings]
        yield from listed("warnings", [text(each) for each in texts])
        yield from listed("searches", [inline(_summary(each)) for each in found])


def _summary(search: SearchRecord) -> Json:
    taken = search.chosen.study + 1 if search.chosen else None
    return {
        "levels": despelled(search.levels),
        "scores": [round(each.score, 6) for each in search.studies],
        "taken": taken,
    }


def _settings(found: Sequence[tuple[SearchRecord, StudyRecord | None]], tried: int) -> Iterator[str]:
    """The parameters of the chosen trials, one value for each level."""
    chosen = [(search, study.winner) for search, study in found if study is not None and study.winner]
    names = dict.fromkeys(name for search, trial in chosen for name in trial.params | search.given)
    for name in sorted(names):
        values = [
            (search, value) for search, trial in chosen if (value := _value(name, search, trial)) is not None
        ]
        given = all(name in search.given for search, _ in chosen)
        source = {"source": "ours", "note": "given"} if given else {"source": "tuned", "tried": tried}
        yield f"{key(name)} = {inline(_at(values) | source)}"


def _value(name: str, search: SearchRecord, trial: TrialRecord) -> Any:
    return despelled((trial.params | search.given).get(name))


def _at(values: Sequence[tuple[SearchRecord, Any]]) -> Json:
    """A value for all runs, for each epsilon, or for each combination of levels."""
    levels = [despelled(search.levels) for search, _ in values]
    if not any(levels):
        return {"value": values[0][1]}
    if all(each.keys() == {"epsilon"} and math.isfinite(each["epsilon"]) for each in levels):
        steps = {f"{each['epsilon']:g}": value for each, (_, value) in zip(levels, values, strict=True)}
        return {"from_epsilon": steps, "exact": True}
    both = zip(levels, values, strict=True)
    return {"at_levels": [{"levels": each, "value": value} for each, (_, value) in both]}


def _levels(search: SearchRecord) -> str:
    return ", ".join(f"{name} {value}" for name, value in despelled(search.levels).items()) or "all levels"
