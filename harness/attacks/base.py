"""What an attack is: from the evidence of one cell to one score per record and target."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from harness.leakage.intervals import Dependence
from harness.leakage.matrices import Bools as Bools
from harness.leakage.matrices import Floats as Floats
from harness.leakage.scoring import cross_entropy as cross_entropy
from harness.leakage.scoring import rescaled_logit as rescaled_logit
from methods.base import Params
from workloads.base import Attribute, Records
from workloads.errors import BenchError

When = Literal["start", "end"]
"""A moment of a training: the untrained model, or the released one."""


def nothing_kept(*_: Any) -> Any:
    """Stands where evidence holds answers only."""
    raise BenchError("this evidence holds the answers of models, not the models: give an attack on signals")


@dataclass(frozen=True)
class Shared:
    """What one training step tells whoever sees the weights before and after it."""

    model: nn.Module
    """As it was before the step, in evaluation mode on the CPU."""
    gradients: list[Tensor]
    """For each trainable weight, in the order of the model's parameters."""


@dataclass(frozen=True)
class Evidence:
    """What the models of one cell let out, over the whole pool.

    Model m is a target once; the others are its shadows.
    Shapes: M models, n pool records, p population records, C classes.
    """

    logits: NDArray[np.float32]
    """(M, n, C): every model's answer on every pool record."""
    labels: NDArray[np.int64]
    """(n,)"""
    members: Bools
    """(M, n): who is a member of which model. An attack on target m may read every row but m."""
    population_logits: NDArray[np.float32]
    """(M, p, C): answers on records that are nobody's members."""
    population_labels: NDArray[np.int64]
    pool: Records
    """The n records themselves, the canaries last; read only where an attack asks for them."""
    population: Records | None = None
    """The p records."""
    canaries: int = 0
    """So many of the last pool records are canaries: members by a fair coin each, made to be remembered."""
    copies: int = 1
    """Rows that each of their coins decides on."""
    threat: str | None = None
    """What an adversary must be able to do who uses such canaries."""
    released: Callable[[int], nn.Module] = nothing_kept
    """Model m as it was released, in evaluation mode on the CPU. For attacks from the model."""
    shared: Callable[[int, Records, When], Shared] = nothing_kept
    """What one step of model m's training on these records alone would share, noised as the method noises."""
    shadow_logits: NDArray[np.float32] | None = None
    """(M, n, C): of models with the same members, trained by another method; None: of the targets."""
    shadow_population_logits: NDArray[np.float32] | None = None
    """(M, p, C)"""
    set_aside: Bools | None = None
    """(M, n): members that never trained their model, by its method's declaration; None: nobody."""
    shadow_set_aside: Bools | None = None
    """(M, n): the same of the shadows."""
    sensitive: Attribute | None = None
    """The column that the workload declares sensitive; for attribute inference."""

    def against(self, target: int) -> "Evidence":
        """With the other models' answers replaced by those of the shadows."""
        if self.shadow_logits is None or self.shadow_population_logits is None:
            return self
        if self.shadow_population_logits.shape != self.population_logits.shape:
            raise BenchError(
                "the shadows were asked about other test records than the targets, whose method takes some "
                "of them as public: leave `shadows` out"
            )
        logits, population = self.shadow_logits.copy(), self.shadow_population_logits.copy()
        logits[target], population[target] = self.logits[target], self.population_logits[target]
        aside = np.zeros_like(self.members) if self.shadow_set_aside is None else self.shadow_set_aside.copy()
        aside[target] = ~self.evaluated[target]
        # The models at hand are the targets: an attack that asked for a shadow would get one of them.
        return replace(
            self,
            logits=logits,
            population_logits=population,
            set_aside=aside,
            shadow_logits=None,
            released=nothing_kept,
        )

    def only(self, models: slice) -> "Evidence":
        """The evidence of some models alone: each is a target once, and only they are shadows."""
        numbers = range(len(self.members))[models]

        def part(rows: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if rows is None else rows[models]

        return replace(
            self,
            logits=self.logits[models],
            members=self.members[models],
            population_logits=self.population_logits[models],
            shadow_logits=part(self.shadow_logits),
            shadow_population_logits=part(self.shadow_population_logits),
            set_aside=part(self.set_aside),
            shadow_set_aside=part(self.shadow_set_aside),
            released=lambda m: self.released(numbers[m]),
            shared=lambda m, records, when: self.shared(numbers[m], records, when),
        )

    @cached_property
    def evaluated(self) -> Bools:
        """(M, n): where a record is a member or a non-member of a model, and not one that was set aside.

        A record that is set aside is a member: for an attack on target m row m is as secret as `members[m]`.
        """
        return np.ones_like(self.members) if self.set_aside is None else ~self.set_aside

    @cached_property
    def included(self) -> Bools:
        """(M, n): who trained which model."""
        return self.members & self.evaluated

    @cached_property
    def excluded(self) -> Bools:
        """(M, n): whom a model never saw. Who was set aside is neither included nor excluded."""
        return ~self.members & self.evaluated

    @cached_property
    def features(self) -> NDArray[np.float32]:
        """(n, d): the records flattened. Only the blind check reads them."""
        flat: NDArray[np.float32] = self.pool.x.reshape(len(self.pool), -1).float().numpy()
        return flat

    @cached_property
    def phi(self) -> Floats:
        """(M, n): the rescaled logit log p_y - log(sum of the other p)."""
        return rescaled_logit(self.logits, self.labels)

    @cached_property
    def population_phi(self) -> Floats:
        """(M, p)"""
        return rescaled_logit(self.population_logits, self.population_labels)


class Attacker(Protocol):
    """What every attack says of itself. It never learns the method's name."""

    version: ClassVar[str]
    about: ClassVar[str]
    source: ClassVar[str]
    caveats: ClassVar[tuple[str, ...]]
    Params: ClassVar[type[Params]]
    shadows: ClassVar[int]
    """The fewest other models it needs beside the target; 0 where it needs none."""


@runtime_checkable
class Dependent(Protocol):
    """An attack that declares how its scores of two targets depend on each other; the interval follows."""

    dependence: ClassVar[Dependence]


def dependence_of(attacker: Attacker) -> Dependence:
    """What an attack declares, or the safe answer where it declares nothing."""
    if not isinstance(attacker, Dependent):
        return "learned" if attacker.shadows else "alone"
    if attacker.dependence not in get_args(Dependence):
        raise BenchError(
            f"dependence = {attacker.dependence!r} of {type(attacker).__name__}: "
            f"declare one of {', '.join(get_args(Dependence))} (docs/add-an-attack.md)"
        )
    return attacker.dependence


@runtime_checkable
class Attack(Attacker, Protocol):
    """Membership: scores records by how much they look like members."""

    def scores(self, evidence: Evidence, params: Any) -> Floats:
        """(M, n) scores, higher = member. Row m may use row m's logits but not `members[m]`.

        An attack with partial training knowledge may use `members[m]` of other records, never of the record
        that it scores, and says so in its caveats.
        """
        ...


@runtime_checkable
class Selection(Attacker, Protocol):
    """Several membership attacks, of which the strongest is chosen for each target on other models."""

    def candidates(self) -> Mapping[str, Attack]:
        """The attacks, which run with their default parameters, in the order that decides ties."""
        ...


@dataclass(frozen=True)
class Bound:
    """What an audit proves: epsilon is at least this, unless luck of probability 1 - confidence was had."""

    epsilon: float
    confidence: float
    trials: int
    """Coins that were tossed for the canaries it looked at."""
    guesses: int
    correct: int
    """Guesses that were made about them, and those that were correct."""


@runtime_checkable
class Audit(Attacker, Protocol):
    """A lower bound on epsilon from canaries."""

    def bound(self, evidence: Evidence, params: Any, delta: float) -> Bound:
        """The largest epsilon that the canaries of the cell refute at this delta."""
        ...
