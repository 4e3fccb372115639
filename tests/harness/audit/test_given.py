"""What was given is refused with what was expected, or taken for what it is."""

from typing import Any

import numpy as np
import pytest

from harness.audit.given import read_outputs, rescaled_loss
from harness.leakage.scoring import cross_entropy
from workloads.errors import DataError

LOGITS = np.array([[2.0, 1.0, 0.0], [0.0, 0.5, 3.0], [1.0, 1.0, 1.0], [0.1, 4.0, 0.2]])
LABELS = np.array([0, 2, 1, 1])
HALF = np.full((4, 2), 0.5)


def softmax(logits: Any) -> Any:
    odds = np.exp(logits)
    return odds / odds.sum(axis=1, keepdims=True)


WRONG: dict[str, tuple[dict[str, Any], str, Any, Any]] = {
    "too few labels": ({"logits": LOGITS, "labels": LABELS[:3]}, "labels", 3, 4),
    "no labels": ({"logits": LOGITS}, "labels", None, (0, 2)),
    "a label outside": ({"logits": LOGITS, "labels": [0, 1, 3, 1]}, "labels", 3, (0, 2)),
    "a negative label": ({"logits": LOGITS, "labels": [0, 1, -1, 1]}, "labels", -1, (0, 2)),
    "NaN": ({"logits": np.where(LOGITS == 4, np.nan, LOGITS), "labels": LABELS}, "logits", 1, 0),
    "infinite": ({"logits": np.where(LOGITS == 4, np.inf, LOGITS), "labels": LABELS}, "logits", 1, 0),
    "no probabilities": (
        {"probabilities": LOGITS / 5, "labels": LABELS},
        "probabilities",
        0.6,
        (0.999, 1.001),
    ),
    "below 0": ({"probabilities": -softmax(LOGITS), "labels": LABELS}, "probabilities", 4, 0),
    "negative losses": ({"losses": [0.1, -0.2, 0.3]}, "losses", 1, 0),
    "a matrix of losses": ({"losses": LOGITS}, "losses", (4, 3), "(records,)"),
    "no record": ({"logits": LOGITS[:0], "labels": []}, "logits", 0, 1),
    "too many features": (
        {"logits": LOGITS, "labels": LABELS, "features": np.zeros((5, 2))},
        "features",
        5,
        4,
    ),
    "shadows of others": (
        {"logits": LOGITS, "labels": LABELS, "shadow_logits": np.zeros((2, 3, 3))},
        "shadow_logits",
        (2, 3, 3),
        ("shadows", 4, 3),
    ),
    "shadows without members": (
        {"logits": LOGITS, "labels": LABELS, "shadow_logits": np.zeros((2, 4, 3))},
        "shadow_members",
        None,
        (2, 4),
    ),
    "members without shadows": (
        {"logits": LOGITS, "labels": LABELS, "shadow_members": np.zeros((2, 4))},
        "shadow_logits",
        None,
        "(2, 4, ...)",
    ),
    "shadows of another kind": (
        {"logits": LOGITS, "labels": LABELS, "shadow_losses": np.zeros((2, 4))},
        "shadow_losses",
        ("shadow_losses",),
        "shadow_logits",
    ),
}


@pytest.mark.parametrize(("arrays", "field", "value", "allowed"), WRONG.values(), ids=WRONG)
def test_it_says_what_was_expected(arrays: Any, field: str, value: Any, allowed: Any) -> None:
    with pytest.raises(DataError) as caught:
        read_outputs(arrays, "members")
    assert caught.value.field == field
    assert caught.value.value == (pytest.approx(value) if isinstance(value, float) else value)
    assert caught.value.allowed == (pytest.approx(allowed) if isinstance(value, float) else allowed)


def test_words_are_no_labels() -> None:
    with pytest.raises(DataError) as caught:
        read_outputs({"logits": LOGITS, "labels": ["a", "b", "a", "b"]}, "members")
    assert caught.value.field == "labels"


def test_two_signals_or_an_unknown_name_are_refused() -> None:
    for arrays, value in (
        ({"logits": LOGITS, "losses": [0.0] * 4, "labels": LABELS}, ("labels", "logits", "losses")),
        ({"labels": LABELS}, ("labels",)),
        ({"logits": LOGITS, "labels": LABELS, "weights": [1] * 4}, ("weights",)),
    ):
        with pytest.raises(DataError) as caught:
            read_outputs(arrays, "members")
        assert (caught.value.field, caught.value.value) == ("columns", value)


@pytest.mark.parametrize(
    ("values", "signal"), [(LOGITS, "logits"), (softmax(LOGITS), "probabilities"), (LOGITS[:, 0], "losses")]
)
def test_outputs_are_recognised_and_it_is_said(values: Any, signal: str) -> None:
    found = read_outputs({"outputs": values, "labels": LABELS}, "members")
    assert (found.signal, found.recognised) == (signal, True)
    declared = read_outputs({signal: values, "labels": LABELS}, "members")
    assert (declared.signal, declared.recognised) == (signal, False)


def test_a_declaration_that_contradicts_the_name_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        read_outputs({"logits": LOGITS, "labels": LABELS}, "members", "losses")
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("signal", "losses", "logits")


def test_logits_probabilities_and_losses_of_a_model_have_the_same_rescaled_logit() -> None:
    chances = softmax(LOGITS)
    losses = -np.log(chances[np.arange(4), LABELS])
    given = {"logits": LOGITS, "probabilities": chances, "losses": losses}
    found = [read_outputs({name: each, "labels": LABELS}, "members").phi() for name, each in given.items()]
    np.testing.assert_allclose(found[1], found[0], atol=1e-12)
    np.testing.assert_allclose(found[2], found[0], atol=1e-12)


def test_one_column_is_the_second_of_two_classes() -> None:
    single = np.array([0.2, -1.0, 3.0])
    found = read_outputs({"logits": single, "labels": [1, 0, 1]}, "members")
    np.testing.assert_allclose(found.phi()[0], [0.2, 1.0, 3.0])
    chance = read_outputs({"probabilities": [0.25, 0.5], "labels": [0, 1]}, "members")
    np.testing.assert_allclose(chance.phi()[0], [np.log(3), 0.0])


def test_a_loss_keeps_its_value_and_a_loss_of_zero_is_finite() -> None:
    losses = np.array([1e-300, 1e-12, 0.5, 40.0])
    np.testing.assert_allclose(cross_entropy(rescaled_loss(losses))[1:], losses[1:], rtol=1e-6)
    assert np.isfinite(rescaled_loss(np.zeros(1))).all()
    assert (np.diff(rescaled_loss(losses)[1:]) < 0).all()
