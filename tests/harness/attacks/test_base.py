"""Evidence: its signals, its restriction to some models, and an attack's declarations."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

import methods.base
from harness import attacks
from harness.attacks.base import Attack, Bools, Evidence, Floats, Selection, Shared, dependence_of
from harness.leakage.candidates import FAMILY
from harness.leakage.intervals import DEPENDENCE
from workloads.base import Records
from workloads.errors import BenchError


def test_evidence_gives_phi_of_pool_and_population() -> None:
    pool = np.array([[[1, 0]]], dtype=np.float32)
    population = np.array([[[0, 3], [0, 5]]], dtype=np.float32)
    evidence = Evidence(
        logits=pool,
        labels=np.array([0]),
        members=np.array([[True]]),
        population_logits=population,
        population_labels=np.array([1, 0]),
        pool=Records(torch.zeros(1, 1), torch.zeros(1)),
    )
    np.testing.assert_allclose(evidence.phi, [[1]])
    np.testing.assert_allclose(evidence.population_phi, [[3, -5]])


def test_evidence_of_some_models_is_theirs_alone(masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(0)
    logits, shadows = random.standard_normal((2, 5, 20, 3)).astype(np.float32)
    models = [nn.Identity() for _ in range(5)]
    asked: list[int] = []

    def shared(model: int, records: Records, when: str) -> Shared:
        asked.append(model)
        return Shared(models[model], [])

    pool = Records(torch.zeros(20, 1), torch.zeros(20))
    evidence = Evidence(
        logits,
        random.integers(0, 3, 20),
        masks(random, 5, 20, 10),
        logits[:, :4],
        np.zeros(4, dtype=np.int64),
        pool,
        released=models.__getitem__,
        shared=shared,
        shadow_logits=shadows,
        shadow_population_logits=shadows[:, :4],
        canaries=2,
    )
    part = evidence.only(slice(1, 5, 2))
    for name in ("logits", "members", "population_logits", "shadow_logits", "shadow_population_logits"):
        np.testing.assert_array_equal(getattr(part, name), getattr(evidence, name)[[1, 3]])
    np.testing.assert_array_equal(part.phi, evidence.phi[[1, 3]])
    assert part.released(1) is models[3] and part.canaries == 2
    part.shared(0, pool, "end")
    assert asked == [1]
    np.testing.assert_array_equal(part.against(1).logits, np.stack([shadows[1], logits[3]]))


class Undeclared:
    """An attack of a plug-in written for 0.1."""

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "nothing"
    source: ClassVar[str] = "nowhere"
    caveats: ClassVar[tuple[str, ...]] = ()
    Params: ClassVar[type[methods.base.Params]] = methods.base.Params

    def __init__(self, shadows: int) -> None:
        self.shadows = shadows

    def scores(self, evidence: Evidence, params: Any) -> Floats:
        return evidence.phi


@pytest.mark.parametrize(("shadows", "dependence"), [(0, "alone"), (1, "learned"), (4, "learned")])
def test_an_undeclared_dependence_gets_the_safe_assumption(shadows: int, dependence: str) -> None:
    attack: Any = Undeclared(shadows)
    assert isinstance(attack, Attack), "a plug-in need not declare its dependence"
    assert dependence_of(attack) == dependence


def test_an_unknown_dependence_is_refused() -> None:
    attack: Any = Undeclared(1)
    attack.dependence = "records"
    with pytest.raises(BenchError, match="Undeclared") as caught:
        dependence_of(attack)
    error = caught.value
    assert (error.value, error.allowed) == ("records", ("alone", "record", "learned"))


def test_every_attack_of_ours_declares_its_own_and_stored_results_know_it() -> None:
    """Results of privbench 0.1 lack it, and are re-evaluated without the attacks."""
    found = {name: attacks.family.get(name) for name in attacks.family.names()}
    ours = {name: each for name, each in found.items() if isinstance(each, Attack)}
    assert all("dependence" in vars(type(each)) for each in ours.values())
    assert {name: dependence_of(each) for name, each in ours.items()} == DEPENDENCE
    assert {name: DEPENDENCE[name] for name in FAMILY} == FAMILY


def test_the_family_is_the_declared_attacks_in_their_order() -> None:
    strongest = attacks.family.get("strongest")
    assert isinstance(strongest, Selection) and not isinstance(strongest, Attack)
    assert list(strongest.candidates()) == list(FAMILY) == ["loss", "lira", "rmia"]
    assert strongest.shadows == max(each.shadows for each in strongest.candidates().values())
