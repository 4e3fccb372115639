"""The attack protocol: from the evidence of one cell to one score per record and target."""

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
"""A moment of training: the untrained model, or the released one."""


def signals_only(*_: Any) -> Any:
    """The stand-in for models in evidence that holds logits only."""
    raise BenchError("this evidence holds the logits of models, not the models: give an attack on signals")


@dataclass(frozen=True)
class Shared:
    """What one training step reveals to an observer of the weights before and after it."""

    model: nn.Module
    """As it was before the step, in evaluation mode on the CPU."""
    gradients: list[Tensor]
    """For each trainable weight, in the order of the model's parameters."""


@dataclass(frozen=True)
class Evidence:
    """The released signals of the models of one cell, over the whole pool.

    Model m is a target once; the others are its shadows.
    Shapes: M models, n pool records, p population records, C classes.
    """

    logits: NDArray[np.float32]
    """(M, n, C): every model's logits on every pool record."""
    labels: NDArray[np.int64]
    """(n,)"""
    members: Bools
    """(M, n): the membership masks. An attack on target m may read every row but m."""
    population_logits: NDArray[np.float32]
    """(M, p, C): logits on records that are members of no model."""
    population_labels: NDArray[np.int64]
    pool: Records
    """The n records themselves, the canaries last; read only if an attack needs them."""
    population: Records | None = None
    """The p records."""
    canaries: int = 0
    """The number of canaries, the last pool records: members by a fair coin each, made to be memorised."""
    copies: int = 1
    """Rows that each coin decides."""
    threat: str | None = None
    """The adversary's capability that such canaries assume."""
    released: Callable[[int], nn.Module] = signals_only
    """Model m as it was released, in evaluation mode on the CPU. For attacks from the model."""
    shared: Callable[[int, Records, When], Shared] = signals_only
    """What one step of model m's training on these records alone would share, with the method's noise."""
    shadow_logits: NDArray[np.float32] | None = None
    """(M, n, C): of models with the same members, trained by another method; None: of the targets."""
    shadow_population_logits: NDArray[np.float32] | None = None
    """(M, p, C)"""
    set_aside: Bools | None = None
    """(M, n): members that their model's method set aside, by its declaration; None: no record."""
    shadow_set_aside: Bools | None = None
    """(M, n): the same of the shadows."""
    sensitive: Attribute | None = None
    """The column that the workload declares sensitive; for attribute inference."""

    def against(self, target: int) -> "Evidence":
        """The evidence with the other models' logits replaced by those of the shadows."""
        if self.shadow_logits is None or self.shadow_population_logits is None:
            return self
        if self.shadow_population_logits.shape != self.population_logits.shape:
            raise BenchError(
                "the shadows have logits on other test records than the targets, whose method uses some "
                "of them as public: leave `shadows` out"
            )
        logits, population = self.shadow_logits.copy(), self.shadow_population_logits.copy()
        logits[target], population[target] = self.logits[target], self.population_logits[target]
        aside = np.zeros_like(self.members) if self.shadow_set_aside is None else self.shadow_set_aside.copy()
        aside[target] = ~self.evaluated[target]
        # The available models are the targets: an attack that loads a shadow would get one of them.
        return replace(
            self,
            logits=logits,
            population_logits=population,
            set_aside=aside,
            shadow_logits=None,
            released=signals_only,
        )

    def only(self, models: slice) -> "Evidence":
        """The evidence of some models only: each is a target once, with the others of them as shadows."""
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
        """(M, n): whether a record is a member or a non-member of a model, and was not set aside.

        A record set aside is a member: for an attack on target m row m is as secret as `members[m]`.
        """
        return np.ones_like(self.members) if self.set_aside is None else ~self.set_aside

    @cached_property
    def included(self) -> Bools:
        """(M, n): the records that a model was trained on."""
        return self.members & self.evaluated

    @cached_property
    def excluded(self) -> Bools:
        """(M, n): the records that a model never saw. Those set aside are neither included nor excluded."""
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
    """What every attack declares. It never learns the method's name."""

    version: ClassVar[str]
    about: ClassVar[str]
    source: ClassVar[str]
    caveats: ClassVar[tuple[str, ...]]
    Params: ClassVar[type[Params]]
    shadows: ClassVar[int]
    """The fewest other models it needs besides the target; 0 if it needs none."""


@runtime_checkable
class Dependent(Protocol):
    """An attack that declares how its scores of two targets depend on each other; the interval follows."""

    dependence: ClassVar[Dependence]


def dependence_of(attacker: Attacker) -> Dependence:
    """The declared dependence of an attack, or the safe assumption if it declares none."""
    if not isinstance(attacker, Dependent):
        return "learned" if attacker.shadows else "alone"
    if attacker.dependence not in get_args(Dependence):
        raise BenchError(
            f"dependence = {attacker.dependence!r} of {type(attacker).__name__}: "
            f"declare one of {', '.join(get_args(Dependence))} (docs/add-an-attack.md)",
            field="dependence",
            value=attacker.dependence,
            allowed=get_args(Dependence),
        )
    return attacker.dependence


@dataclass(frozen=True)
class AttackedCell:
    """What is known of a cell before anything runs. A figure is None where the data are absent."""

    workload: str
    classes: int
    members: int
    """Members per model: `n_train`."""
    canaries: int
    pool: int | None
    """Records of the pool."""
    shape: tuple[int, ...] | None
    """Of one record."""
    sensitive: Attribute | None
    """The column that the workload declares sensitive."""
    no_model: str | None = None
    """Why attacks cannot query or open the models, but only read their logits; None if they can."""

    def lacks_model(self) -> str | None:
        """Why an attack on the models themselves does not fit; None if it does."""
        return self.no_model and f"it queries or opens the model, and {self.no_model}"


@runtime_checkable
class Limited(Protocol):
    """An attack that does not fit every cell: a plan leaves the others out, or refuses it.

    What its kind needs (non-members, images, a sensitive attribute, canaries) is checked for every attack.
    """

    def unfit(self, cell: AttackedCell) -> str | None:
        """Why it cannot run on such a cell, and on which it can; None if it can."""
        ...


@runtime_checkable
class Informed(Protocol):
    """A membership attack with partial training knowledge of its target."""

    knows_others: ClassVar[bool]
    """True if a score may use the membership of the target's other records."""


@runtime_checkable
class Attack(Attacker, Protocol):
    """Membership: scores records by how much they look like members."""

    def scores(self, evidence: Evidence, params: Any) -> Floats:
        """(M, n) scores, higher = member. Row m may use row m's logits but not `members[m]`.

        An attack with partial training knowledge may use `members[m]` of other records, never of the record
        that it scores, and declares so (`Informed`).
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
    """The lower bound on epsilon that an audit proves, with its confidence."""

    epsilon: float
    confidence: float
    trials: int
    """Coins tossed for the canaries of the audit."""
    guesses: int
    correct: int
    """Guesses about them, and correct ones."""


@runtime_checkable
class Audit(Attacker, Protocol):
    """A lower bound on epsilon from canaries."""

    def bound(self, evidence: Evidence, params: Any, delta: float) -> Bound:
        """The largest epsilon that the canaries of the cell refute at this delta."""
        ...
