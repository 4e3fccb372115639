"""What an attack is: from the evidence of one cell to one score per record and target."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from methods.base import Params
from workloads.base import Attribute, Records
from workloads.errors import BenchError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
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


def rescaled_logit(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> Floats:
    """log p_y - log sum_{j != y} p_j in float64 (Carlini et al. 2022): no rounding near p = 1.

    It is taken from the logits and never through p, so a saturated model keeps all its differences.
    A logit of -inf (a released probability of zero) counts as the smaller of the record's lowest
    finite logit and log 1e-45 below its highest, after the 1e-45 in the authors' logarithms.

    Args:
        logits: (M, n, C), or log-probabilities, which are logits too.
        labels: (n,) of values in 0..C-1.

    Returns:
        (M, n), always finite.
    """
    models, records, classes = logits.shape
    if classes < 2:
        raise BenchError(
            f"a rescaled logit needs at least 2 classes, the logits have {classes}: "
            "membership cannot be scored on a model with one answer"
        )
    rows = np.arange(records)
    phi = np.empty((models, records))
    for model in range(models):  # one model at a time bounds the float64 copy
        answers = _finite(logits[model].astype(np.float64), model)
        own = answers[rows, labels]
        answers[rows, labels] = -np.inf
        top = answers.max(axis=1)
        phi[model] = own - top - np.log(np.exp(answers - top[:, None]).sum(axis=1))
    return phi


def _finite(answers: Floats, model: int) -> Floats:
    """Give zero probabilities a finite logit; refuse what is no probability at all."""
    zero = np.isneginf(answers)
    broken = ~np.isfinite(answers) & ~zero
    bad = int((broken.any(axis=1) | zero.all(axis=1)).sum())
    if bad:
        raise BenchError(
            f"model {model} gives NaN, +inf or only -inf logits on {bad} of {len(answers)} "
            "records; attacks need finite logits: look for a diverged training or a broken "
            "predictor"
        )
    if zero.any():
        lowest = np.where(zero, np.inf, answers).min(axis=1)
        floor = np.minimum(lowest, answers.max(axis=1) + np.log(1e-45))
        answers = np.where(zero, floor[:, None], answers)
    return answers


def cross_entropy(phi: Floats) -> Floats:
    """-log p_y = log(1 + exp(-phi)), accurate where p_y itself rounds to 1."""
    return np.logaddexp(0.0, -phi)


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
class Attack(Attacker, Protocol):
    """Membership: scores records by how much they look like members."""

    def scores(self, evidence: Evidence, params: Any) -> Floats:
        """(M, n) scores, higher = member. Row m may use row m's logits but not `members[m]`.

        An attack with partial training knowledge may use `members[m]` of other records, never of the record
        that it scores, and says so in its caveats.
        """
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
