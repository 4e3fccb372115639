"""Sets that cannot be compared are refused; what weakens a comparison is said."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.audit.given import read_outputs
from harness.audit.pairing import Pairing, leaning_chance, pair
from workloads.errors import DataError


def paired(members: dict[str, Any], others: dict[str, Any], few: bool = False) -> Pairing:
    return pair(read_outputs(members, "members"), read_outputs(others, "others"), few=few)


def without(arrays: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: each for name, each in arrays.items() if name not in names}


def refusal(members: dict[str, Any], others: dict[str, Any]) -> tuple[Any, Any, Any]:
    with pytest.raises(DataError) as caught:
        paired(members, others)
    return caught.value.field, caught.value.value, caught.value.allowed


def test_few_records_are_refused_with_what_they_can_say(simulated: Callable[..., Any]) -> None:
    members, others = simulated(30, 200)
    with pytest.raises(DataError) as caught:
        paired(members, others)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("records", 30, 50)
    assert "±0.11" in str(caught.value)
    assert len(paired(members, others, few=True).members) == 30


def test_the_same_file_twice_is_refused(simulated: Callable[..., Any]) -> None:
    members, _ = simulated(100, 100)
    assert refusal(members, members) == ("others", "the members", "other records")
    bare = without(members, "features")
    assert refusal(bare, bare) == ("others", "the members", "other records")


@pytest.mark.parametrize("known", [(), ("features",)])
def test_an_overlap_is_refused_and_a_duplicate_is_said(
    known: tuple[str, ...], simulated: Callable[..., Any]
) -> None:
    members, others = (without(each, *known) for each in simulated(200, 200))
    for shared in (1, 60):
        mixed = {name: each.copy() for name, each in others.items()}
        for name, each in mixed.items():
            each[:shared] = members[name][:shared]
        if shared == 1:
            assert any("1 members have a duplicate" in text for text in paired(members, mixed).warnings)
        else:
            assert refusal(members, mixed) == ("others", 60, 2)
    assert paired(members, others).warnings == []


def test_coarse_outputs_are_no_identities(simulated: Callable[..., Any]) -> None:
    """Of a tree, say: many records share their outputs, in both sets."""
    members, others = (
        {"probabilities": np.eye(5)[each["labels"]], "labels": each["labels"]} for each in simulated(200, 200)
    )
    assert not any("duplicate" in text for text in paired(members, others).warnings)


def test_rounded_losses_are_no_overlap() -> None:
    """To four decimals some losses are equal within a set, and as many between sets; an overlap is more."""
    random = np.random.default_rng(0)
    first, second = (np.round(random.exponential(1.0, 3000), 4) for _ in range(2))
    assert paired({"losses": first}, {"losses": second}).warnings == []
    shared = np.r_[first[:1500], second[1500:]]
    with pytest.raises(DataError) as caught:
        paired({"losses": first}, {"losses": shared})
    assert caught.value.field == "others"


def test_ids_are_believed(simulated: Callable[..., Any]) -> None:
    members, others = simulated(100, 100)
    names = np.arange(200)
    assert refusal({**members, "ids": names[:100]}, {**others, "ids": names[99:199]}) == ("others", 1, 0)
    assert paired({**members, "ids": names[:100]}, {**others, "ids": names[100:]}).warnings == []


def test_one_class_is_refused(simulated: Callable[..., Any]) -> None:
    sets = [{**each, "labels": np.zeros(100, dtype=int)} for each in simulated(100, 100)]
    assert refusal(*sets) == ("labels", 1, 2)


def test_sets_of_different_kinds_are_refused(simulated: Callable[..., Any]) -> None:
    members, others = simulated(100, 100, shadows=2)
    narrow = {**others, "logits": others["logits"][:, :4], "labels": others["labels"] % 4}
    assert refusal(members, without(others, "shadow_logits", "shadow_members")) == ("shadows", 0, 2)
    assert refusal(without(members, "features"), others)[0] == "features"
    assert refusal(members, {**others, "features": others["features"][:, :3]}) == ("features", 3, 6)
    bare = without(members, "shadow_logits", "shadow_members")
    assert refusal(bare, without(narrow, "shadow_logits", "shadow_members")) == ("classes", 4, 5)
    assert refusal(bare, {"losses": np.ones(100)})[0] == "signal"


def test_shadows_drawn_at_random_do_not_lean(simulated: Callable[..., Any]) -> None:
    """The p-value of sound shadows is uniform: of 200 draws few are below 1 %."""
    chances = []
    for seed in range(200):
        random = np.random.default_rng(seed)
        members, others = simulated(60, 90, shadows=4)
        members["shadow_members"] = random.random((4, 60)) < 0.5
        others["shadow_members"] = random.random((4, 90)) < 0.5
        chances.append(leaning_chance(paired(members, others)))
    assert np.mean(np.array(chances) < 0.05) == pytest.approx(0.05, abs=0.045)
    assert min(chances) > 1e-4


def test_saturated_probabilities_are_said(simulated: Callable[..., Any]) -> None:
    members, others = (
        {"probabilities": np.eye(5)[np.arange(100) % 5], "labels": each["labels"]}
        for each in simulated(100, 100)
    )
    assert any("exactly 1" in text for text in paired(members, others).warnings)


def test_probabilities_called_logits_are_said(simulated: Callable[..., Any]) -> None:
    sets = []
    for each in simulated(100, 100):
        odds = np.exp(each["logits"])
        sets.append({"logits": odds / odds.sum(axis=1, keepdims=True), "labels": each["labels"]})
    assert any("look like probabilities" in text for text in paired(sets[0], sets[1]).warnings)
