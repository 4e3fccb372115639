"""The figures are those of the same attacks in a sweep; a broken split voids them."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load

from harness.audit.given import read_outputs
from harness.audit.measurement import ATTACKS, check_split, choose_headline, complete, find_worst, measure
from harness.audit.pairing import Pairing, pair
from harness.leakage.figures import evaluate
from harness.leakage.intervals import DEPENDENCE
from harness.store import Store
from harness.store.outcomes import Membership

Arrays = dict[str, NDArray[Any]]
CELLS = {"one": ("1", "loss,population"), "four": ("4", ",".join(ATTACKS))}


def paired(members: dict[str, Any], others: dict[str, Any], population: Any = None) -> Pairing:
    given = {"members": members, "others": others, "population": population}
    found = {role: read_outputs(each, role) for role, each in given.items() if each is not None}
    return pair(found["members"], found["others"], found.get("population"), few=True)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    """Two small sweeps, of one model and of four."""
    found = {}
    for name, (models, attacks) in CELLS.items():
        folder = tmp_path_factory.mktemp(name) / "store"
        words = ["--workload", "digits-linear", "--method", "sgd", "--models", models, "--attack", attacks]
        command = [sys.executable, "-P", "-m", "harness.cli", "run", *words, "--set", "steps=40"]
        subprocess.run([*command, "--store", str(folder)], check=True, capture_output=True)
        found[name] = Store.open(folder)
    return found


def signals(store: Store) -> Arrays:
    """What the trainings of a store's cell left, by model."""
    ended = [(task, result) for task, result in store.results() if task.kind == "train"]
    ended.sort(key=lambda each: each[0].index or 0)
    read = [load(store.read_artefact(result, "signals")) for _, result in ended]
    return {name: np.stack([each[name] for each in read]) for name in read[0]}


def attacked(store: Store, name: str) -> tuple[Membership, Arrays]:
    for task, result in store.results():
        if task.attack is not None and task.attack.name == name:
            assert isinstance(result.outcome, Membership)
            return result.outcome, load(store.read_artefact(result, "scores"))
    raise AssertionError(name)


def outputs_of(found: Arrays, target: int) -> Pairing:
    """One model as the audited one and the others as its shadows, its members first."""
    order = [target, *(m for m in range(len(found["logits"])) if m != target)]
    inside = found["members"][target]

    def part(kept: Any) -> dict[str, Any]:
        logits = found["logits"][order][:, kept]
        trained = found["members"][order[1:]][:, kept]
        shadows = {"shadow_logits": logits[1:], "shadow_members": trained} if len(order) > 1 else {}
        return {"logits": logits[0], "labels": found["labels"][0][kept], **shadows}

    test = found["test_logits"][order]
    nobody = np.zeros((len(order) - 1, test.shape[1]), dtype=np.bool_)
    shadows = {"shadow_logits": test[1:], "shadow_members": nobody} if len(order) > 1 else {}
    population = {"logits": test[0], "labels": found["test_labels"][0], **shadows}
    return paired(part(inside), part(~inside), population)


def in_order(scores: NDArray[Any], inside: NDArray[Any]) -> NDArray[Any]:
    """Scores of members and then others, in the order of the pool."""
    placed = np.empty(len(scores))
    placed[np.flatnonzero(inside)] = scores[: inside.sum()]
    placed[np.flatnonzero(~inside)] = scores[inside.sum() :]
    return placed


def leaves(figures: Any, name: str = "") -> dict[str, Any]:
    """Every value of nested figures by its path."""
    if not isinstance(figures, dict):
        return {name: figures}
    return {
        path: each
        for key, inside in figures.items()
        for path, each in leaves(inside, f"{name}/{key}").items()
    }


@pytest.mark.slow
def test_scores_and_figures_equal_those_of_a_sweep(stores: dict[str, Store]) -> None:
    found = signals(stores["four"])
    measured = [measure(outputs_of(found, target)) for target in range(4)]
    for name in ATTACKS:
        outcome, stored = attacked(stores["four"], name)
        rows = zip(measured, stored["members"], strict=True)
        scores = np.stack([in_order(each.scores[name], inside) for each, inside in rows])
        tolerance = 1e-12 if name in ("loss", "population", "rmia") else 1e-7
        np.testing.assert_allclose(scores, stored["scores"], rtol=tolerance, atol=1e-9)
        figures = evaluate(scores, stored["members"], DEPENDENCE[name])
        for figure in ("auc", "auc_low", "auc_high", "balanced_accuracy"):
            assert getattr(figures, figure) == pytest.approx(getattr(outcome.metrics, figure), abs=1e-9)


@pytest.mark.slow
def test_figures_of_one_model_equal_those_of_a_sweep_of_one(stores: dict[str, Store]) -> None:
    measured = measure(outputs_of(signals(stores["one"]), 0))
    assert [each.attack for each in measured.figures] == ["loss", "population"]
    for each in measured.figures:
        outcome, _ = attacked(stores["one"], each.attack)
        own, theirs = (leaves(found.model_dump()) for found in (each.metrics, outcome.metrics))
        assert own.keys() == theirs.keys()
        for path, value in own.items():
            # The records are in another order, so sums differ by rounding.
            assert value == (
                pytest.approx(theirs[path], rel=1e-9) if isinstance(value, float) else theirs[path]
            )
        assert each.roc == outcome.roc
        assert each.metrics.note == "over records of one model"


@pytest.mark.parametrize(
    ("shadows", "run"),
    [
        (0, ["loss", "population"]),
        (1, ["loss", "population", "rmia"]),
        (2, ["loss", "population", "reference", "lira", "rmia"]),
    ],
)
def test_what_the_data_allow_is_run(shadows: int, run: list[str], simulated: Callable[..., Any]) -> None:
    found = measure(paired(*simulated(shadows=shadows)))
    assert [each.attack for each in found.figures] == run
    assert {each.attack for each in found.skipped} == set(ATTACKS) - set(run)
    assert choose_headline(found.figures) == {0: "loss", 1: "rmia", 2: "lira"}[shadows]


def test_only_what_was_asked_for_is_run(simulated: Callable[..., Any]) -> None:
    found = measure(paired(*simulated(shadows=2)), ["rmia"])
    assert ([each.attack for each in found.figures], found.skipped) == (["rmia"], [])


def test_a_population_does_not_change_the_order(simulated: Callable[..., Any]) -> None:
    """With one model the ranks among any population are increasing functions of one number."""
    members, others = simulated(shadows=3)
    _, more = simulated(100, 300, shadows=3, seed=5)
    plain, apart = (measure(paired(members, others, each)) for each in (None, more))
    for name in ("population", "rmia"):
        before, after = (
            next(each for each in found.figures if each.attack == name) for found in (plain, apart)
        )
        assert before.metrics.auc == after.metrics.auc
        assert before.metrics.tpr == after.metrics.tpr


def test_no_leakage_gives_guessing(simulated: Callable[..., Any]) -> None:
    """The intervals of 60 models without leakage hold 0.5 about 95 times of 100."""
    held = []
    for seed in range(60):
        found = measure(paired(*simulated(150, 150, gap=0.0, seed=seed)), ["loss"]).figures[0].metrics
        assert found.auc_low is not None
        assert found.auc_high is not None
        held.append(found.auc_low <= 0.5 <= found.auc_high)
    assert sum(held) >= 52


def test_shadows_that_follow_the_membership_are_not_used(simulated: Callable[..., Any]) -> None:
    members, others = simulated(shadows=2)
    members["shadow_members"] = np.random.default_rng(1).random((2, 600)) < 0.8
    others["shadow_members"] = np.random.default_rng(2).random((2, 600)) < 0.2
    found = measure(paired(members, others))
    assert {each.attack for each in found.skipped} == {"reference", "lira", "rmia"}
    members["shadow_members"] = np.random.default_rng(1).random((2, 600)) < 0.58
    others["shadow_members"] = np.random.default_rng(2).random((2, 600)) < 0.5
    mild = measure(paired(members, others))
    assert (mild.skipped, len(mild.warnings)) == ([], 1)


def test_a_sound_split_passes_and_one_by_date_does_not(simulated: Callable[..., Any]) -> None:
    members, others = simulated()
    sound = check_split(paired(members, others))
    assert (sound.valid, sound.reads) == (True, "features and labels")
    drifted = {**others, "features": others["features"] + np.linspace(0.2, 0.6, 600)[:, None]}
    broken = check_split(paired(members, drifted))
    assert broken.valid is False
    assert broken.auc is not None
    assert broken.auc > 0.6


def test_labels_are_checked_without_features(simulated: Callable[..., Any]) -> None:
    members, others = ({name: each[name] for name in ("logits", "labels")} for each in simulated())
    assert check_split(paired(members, others)).reads == "labels"
    skewed = {**others, "labels": np.minimum(others["labels"], 2)}
    assert check_split(paired(members, skewed)).valid is False
    losses = [{"losses": np.abs(each["logits"][:, 0])} for each in (members, others)]
    assert check_split(paired(*losses)).valid is None


def test_missing_features_are_filled_and_marked() -> None:
    holes = np.array([[1.0, np.nan], [3.0, 4.0], [np.nan, 8.0]], dtype=np.float32)
    np.testing.assert_array_equal(complete(holes), [[1, 6, 0, 1], [3, 4, 0, 0], [2, 8, 1, 0]])
    whole = np.ones((2, 2), dtype=np.float32)
    assert complete(whole) is whole


def test_the_worst_records_are_those_with_the_fewest_false_alarms() -> None:
    losses = np.array([0.5, 0.001, 0.2, 0.3])
    given = paired({"losses": losses, "ids": list("abcd")}, {"losses": np.linspace(0.1, 1, 99)})
    worst = find_worst(np.r_[-losses, -np.linspace(0.1, 1, 99)], given)
    assert [(each.record, each.id) for each in worst] == [(1, "b"), (2, "c"), (3, "d"), (0, "a")]
    assert worst[0].fpr == 0.01
    assert worst[0].flagged == 1
    assert worst[1].fpr == pytest.approx((1 + np.sum(np.linspace(0.1, 1, 99) <= 0.2)) / 100)


def test_losses_are_compared_at_their_own_temperature(simulated: Callable[..., Any]) -> None:
    members, others = simulated(shadows=2)
    for each in (members, others):
        for name in ("logits", "shadow_logits"):
            values = each.pop(name).astype(np.float64)
            own = np.take_along_axis(
                values, np.broadcast_to(each["labels"][:, None], (*values.shape[:-1], 1)), -1
            )
            each[name.replace("logits", "losses")] = np.log(np.exp(values).sum(-1)) - own[..., 0]
        del each["labels"]
    found = measure(paired(members, others))
    assert next(each for each in found.figures if each.attack == "rmia").note is not None
    plain = measure(paired(*simulated(shadows=2)))
    for name in ("loss", "lira"):
        pairs = [next(each for each in one.figures if each.attack == name) for one in (found, plain)]
        assert pairs[0].metrics.auc == pytest.approx(pairs[1].metrics.auc, abs=1e-6)
