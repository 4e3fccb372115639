"""The document of a result: read as written, older ones too, and refused if it is not a result."""

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from harness.spec import Cell, Json, Plugin, Task, Timing
from harness.store.files import dump
from harness.store.outcomes import (
    Audited,
    AuditOutcome,
    Bench,
    Benched,
    InferenceOutcome,
    Membership,
    Outcome,
    Reconstruction,
    Training,
    read_outcome,
)
from harness.store.result import Artefact, Failure, Result, build, figures_of, parse_result
from tests.harness.simulated import ended, leakage, training

CELL = Cell(Plugin("w", "1"), 5, Plugin("dp-sgd", "1"), {"epsilon": 1.0}, seed=0)
TRAIN = Task("train", CELL)
ATTACK = Task("attack", CELL, models=2, attack=Plugin("loss", "1"))
BENCH = Task("bench", CELL, timing=Timing({"dp-sgd": CELL}, 64, {}))
CEILINGS: Json = {
    "by": "pld",
    "auc": 0.7,
    "gap": 0.3,
    "tpr": {"0.01": 0.1},
    "curve": {"fpr": [0.0, 1.0], "tpr": [0.1, 1.0]},
}
AUDIT: Json = {
    "epsilon": 1.5,
    "confidence": 0.95,
    "trials": 100,
    "guesses": 40,
    "correct": 30,
    "delta": 1e-5,
    "canaries": 100,
    "copies": 1,
    "threat": None,
    "epsilon_priced": 1.0,
    "epsilon_paper": None,
    "alarm": True,
    "message": "above",
}
VARIANT: Json = {
    "variant": "pd-sgd",
    "role": "method",
    "method": "pd-sgd",
    "method_version": "1",
    "guarantee_kind": "none",
    "engine": None,
    "engine_used": None,
    "params": {"gamma": math.inf, "T": 3},
    "step_params": {"T": 3},
    "logical_batch_size": 64,
    "physical_batch_size": 64,
    "status": "done",
    "reason": None,
    "message": None,
    "ratio": 1.5,
    "clocks": {},
    "phases": {"train": 60},
    "steps": 60,
}
BENCHED: Json = {
    "workload": "w",
    "n_train": 5,
    "batch_size": 64,
    "parameters": 10,
    "threads": 1,
    "device": "cpu",
    "clock": "cpu",
    "malloc": {},
    "trustworthy": True,
    "reason": None,
    "methods": [VARIANT],
}


def trained() -> Json:
    figures = training(TRAIN, 0.75)
    figures["guarantee"]["ceilings"] = CEILINGS
    return figures | {"set_aside": 2}


ENDED: dict[str, tuple[Task, Outcome | Failure]] = {
    "training": (TRAIN, Training(**trained())),
    "membership": (ATTACK, Membership(**leakage(0.6), dependence="record")),
    "blind check": (ATTACK, Membership(**leakage(0.5, valid=True, message="looked"))),
    "audit": (ATTACK, AuditOutcome(audit=Audited(**AUDIT))),
    "attribute": (ATTACK, InferenceOutcome(attribute={"attribute": "sex", "gap": 0.1, "n_members": 3})),
    "inversion": (ATTACK, Reconstruction(reconstruction={"images": 4, "mse_median": 0.25})),
    "bench": (BENCH, Bench(bench=Benched(**BENCHED))),
    "failure": (TRAIN, Failure(reason="diverged", message="loss is not finite", traceback="Traceback")),
}


def built(name: str) -> Result:
    task, outcome = ENDED[name]
    return build(
        task,
        outcome,
        started=datetime(2026, 1, 2, tzinfo=UTC),
        wall_seconds=1.5,
        provenance={"host": "here", "gpus": ["a", "b"]},
        artefacts={"steps": Artefact(file="steps-0.parquet", bytes=3, sha256="0")},
        warnings=["the sky is falling"],
    )


def read_again(result: Result) -> Result:
    return parse_result(json.loads(dump(result.document())))


@pytest.mark.parametrize("name", ENDED)
def test_a_result_is_read_as_written(name: str) -> None:
    result = built(name)
    again = read_again(result)
    assert again == result
    assert again.document() == result.document()
    assert dump(again.document()) == dump(result.document())
    assert again.warnings == ["the sky is falling"] and again.artefacts["steps"].bytes == 3


@pytest.mark.parametrize("name", [name for name in ENDED if name != "failure"])
def test_an_outcome_is_read_as_what_it_is(name: str) -> None:
    result, (task, outcome) = read_again(built(name)), ENDED[name]
    assert result.done and result.reason is None
    assert result.outcome == outcome and type(result.outcome) is type(outcome)
    by_kind = {"train": "training", "attack": "finding", "bench": "bench"}
    assert getattr(result, by_kind[task.kind]) == outcome
    for kind, other in by_kind.items():
        if kind != task.kind:
            with pytest.raises(ValueError, match=r"is not an? "):
                getattr(result, other)


def test_a_failure_has_a_reason_and_no_outcome() -> None:
    result = read_again(built("failure"))
    assert (result.done, result.status, result.figures) == (False, "failed", {})
    assert (result.reason, result.message, result.traceback) == (
        "diverged",
        "loss is not finite",
        "Traceback",
    )
    with pytest.raises(ValueError, match=r"failed \(diverged\) and has no outcome"):
        _ = result.outcome


def test_the_figures_are_written_beside_the_rest() -> None:
    document = built("training").document()
    assert {
        "key",
        "kind",
        "status",
        "artefacts",
        "metrics",
        "guarantee",
        "phases",
        "stats",
    } <= document.keys()
    assert not {"figures", "outcome", "checksum"} & document.keys()
    assert document["metrics"]["test_accuracy"] == 0.75


def test_infinite_parameters_of_a_bench_survive() -> None:
    result = built("bench")
    assert b"Infinity" not in dump(result.document())
    (variant,) = read_again(result).bench.bench.methods
    assert variant.params == {"gamma": math.inf, "T": 3}


def test_a_result_of_0_1_is_read() -> None:
    """It lacks ceilings, warnings, the records set aside and the total time of a phase."""
    document = ended(TRAIN, **training(TRAIN, 0.75)).document()
    for name in ("warnings", "message", "traceback", "reason", "provenance", "started", "finished"):
        document.pop(name, None)
    result = parse_result(document)
    assert result.done and result.warnings == []
    assert result.training.set_aside is None
    assert not result.training.guarantee.states_ceilings
    assert result.training.phases["train"].seconds == pytest.approx(20 * 0.01)
    none = parse_result({**document, "guarantee": {**document["guarantee"], "ceilings": None}})
    assert none.training.guarantee.states_ceilings, "a newer one says that there are none"


def test_fields_of_a_newer_version_survive() -> None:
    added = {"colour": {"of": ["the", "sky"]}, "metrics": {**trained()["metrics"], "hue": 0.5}}
    result = parse_result({**ended(TRAIN, **trained()).document(), **added})
    assert result.figures["colour"] == {"of": ["the", "sky"]}
    assert result.figures["metrics"]["hue"] == 0.5
    assert read_again(result).document() == result.document()
    assert result.training.metrics.test_accuracy == 0.75


SOUND: Json = {"key": "k", "kind": "train", "status": "done", "reason": None, "artefacts": {}}


@pytest.mark.parametrize(
    "change",
    [
        {"status": "perhaps"},
        {"status": "failed"},
        {"status": "failed", "reason": 3},
        {"key": None},
        {"kind": "walk"},
        {"artefacts": []},
        {"artefacts": {"model": {"file": "../../other/model", "bytes": 1, "sha256": ""}}},
        {"artefacts": {"model": {"file": "/etc/passwd", "bytes": 1, "sha256": ""}}},
        {"artefacts": {"model": {"file": "..", "bytes": 1, "sha256": ""}}},
        {"artefacts": {"model": {"file": "nul\0", "bytes": 1, "sha256": ""}}},
        {"artefacts": {"model": {"file": "model"}}},
        {"warnings": "text"},
        {"warnings": [{}]},
        {"provenance": []},
    ],
)
def test_a_result_of_another_shape_is_refused(change: Json) -> None:
    assert parse_result(SOUND).done
    with pytest.raises(ValueError, match=r"\S"):
        parse_result({**SOUND, **change})


@pytest.mark.parametrize("name", ["key", "kind", "status", "artefacts"])
def test_no_result_lacks_its_head(name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        parse_result({part: value for part, value in SOUND.items() if part != name})


@pytest.mark.parametrize(
    ("kind", "figures"),
    [
        ("train", {}),
        ("train", {**trained(), "phases": []}),
        ("train", {**trained(), "guarantee": None}),
        ("attack", {}),
        ("attack", {"audit": "text"}),
        ("attack", {"audit": {**AUDIT, "alarm": None}}),
        ("attack", {"attribute": [1]}),
        ("attack", {"reconstruction": {"images": [1]}}),
        ("bench", {"bench": {**BENCHED, "methods": [{}]}}),
        ("bench", trained()),
    ],
)
def test_figures_of_another_shape_are_no_outcome(kind: str, figures: Json) -> None:
    """The row of the task stays: it is known to have ended."""
    result = parse_result({**SOUND, "kind": kind, **figures})
    with pytest.raises(ValidationError):
        _ = result.outcome
    with pytest.raises(ValidationError):
        read_outcome(kind, figures)


@pytest.mark.parametrize("name", ["status", "key", "figures", "artefacts"])
def test_a_result_is_immutable(name: str) -> None:
    result: Any = built("training")
    with pytest.raises(ValidationError, match="frozen"):
        setattr(result, name, getattr(result, name))
    with pytest.raises(ValidationError, match="frozen"):
        result.training.metrics.test_accuracy = 1.0
    assert result.training.metrics.test_accuracy == 0.75


def test_the_builder_records_time_and_host() -> None:
    result = built("audit")
    assert (result.key, result.kind, result.status) == (ATTACK.key, "attack", "done")
    assert result.started == "2026-01-02T00:00:00+00:00" and result.wall_seconds == 1.5
    assert result.finished is not None
    assert datetime.fromisoformat(result.finished) <= datetime.now(UTC)
    bare = build(
        TRAIN, Failure(reason="error", message=""), started=datetime.now(UTC), wall_seconds=0, provenance={}
    )
    assert (bare.artefacts, bare.warnings, bare.provenance) == ({}, [], {})


def test_recomputed_figures_replace_only_the_outcome() -> None:
    result, other = built("membership"), Membership(**leakage(0.9), dependence="record")
    again = result.replacing(other)
    assert again.outcome == other != result.outcome
    assert again.model_dump(exclude={"figures"}) == result.model_dump(exclude={"figures"})
    read = result.outcome  # kept once read; the new one must not inherit it
    assert result.replacing(other).outcome == other != read


def test_figures_are_those_that_were_set() -> None:
    """A field that was not set is not written: absent means not measured, null is a value."""
    given = figures_of(Training(**training(TRAIN, 0.75)))
    assert "set_aside" not in given and "ceilings" not in given["guarantee"]
    assert figures_of(Training(**trained()))["guarantee"]["ceilings"] == CEILINGS
