"""RMIA: does the target raise the record's likelihood more than that of records nobody trained on?"""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

import methods.base
from harness.attacks.base import Attack, Bools, Evidence, Floats, cross_entropy
from harness.attacks.parts.moments import leave_one_out
from workloads.errors import BenchError

LEAST = float(np.finfo(np.float64).tiny)
"""Below every probability: so a mean of zeros has a logarithm."""


class RmiaParams(methods.base.Params):
    """Which shadows are used, and when a record beats a population record."""

    mode: Literal["online", "offline"] = Field(
        default="online",
        description="online: shadows with and without the record; offline: those without it only",
    )
    offline_a: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="P(x) = ((1 + a) P_out(x) + 1 - a) / 2 where there are no shadows with the record",
    )
    gamma: float = Field(default=1.0, gt=0, description="A record beats another at this ratio or more.")


class Rmia:
    """Zarifzadeh, Liu and Shokri 2024, with every model of the cell as target in turn.

    The score of x is the share of population records z with [p(x|t) / p(x)] / [p(z|t) / p(z)] >= gamma,
    where p(.|t) is the probability of the true label under the target and p(.) its mean under the other
    models: half from those with the record and half from those without it. Where the record is in none of
    them, as always for z and offline, p(.) follows from the latter by the line of `offline_a`. A record that
    all others trained on takes their mean; without any other model p(x) is p(x|t).

    The share is read off the sorted population ratios (n log p instead of n p), with the same result.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "likelihood ratios of the record against records that are nobody's members"
    source: ClassVar[str] = (
        "Zarifzadeh et al. 2024, Low-Cost High-Power Membership Inference Attacks (arXiv:2312.03262)"
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "with p population records the score has p + 1 values: nothing below a false positive rate of 1 / p",
        "offline_a is the authors' default; they tune it on a pair of models, never on the target",
        "softmax probabilities, without the Taylor softmax and temperature of the authors' experiments",
    )
    Params: ClassVar[type[methods.base.Params]] = RmiaParams
    shadows: ClassVar[int] = 1

    def scores(self, evidence: Evidence, params: RmiaParams) -> Floats:
        """(M, n): shares of the population, in [0, 1]."""
        if not len(evidence.population_labels):
            raise BenchError(
                "rmia needs population records to compare with, but there are 0: "
                "give the workload test records or leave the attack out"
            )
        own = _usual(evidence.phi, evidence.included, evidence.excluded, params)
        never = np.zeros(evidence.population_phi.shape, dtype=np.bool_)
        population = _usual(evidence.population_phi, never, ~never, params)
        return np.stack(
            [
                share_beaten(_log_ratio(evidence.phi[m], own[m]), _log_ratio(z, population[m]), params.gamma)
                for m, z in enumerate(evidence.population_phi)
            ]
        )


def share_beaten(log_ratios: Floats, population: Floats, gamma: float) -> Floats:
    """(n,): the share of the population at least log gamma below each of `log_ratios`, all as logarithms."""
    beaten = np.searchsorted(np.sort(population), log_ratios - np.log(gamma), side="right")
    return np.asarray(beaten / len(population))


def _usual(phi: Floats, included: Bools, excluded: Bools, params: RmiaParams) -> Floats:
    """(M, n): p(x) for every target, 0 where there is no other model."""
    chances = np.exp(-cross_entropy(phi))
    absent, present = leave_one_out(chances, excluded), leave_one_out(chances, included)
    without = ((1 + params.offline_a) * absent.mean + 1 - params.offline_a) / 2
    with_both = (present.mean + absent.mean) / 2
    if params.mode == "offline":
        return np.where(absent.count > 0, without, 0.0)
    usual = np.where(present.count > 0, with_both, without)
    usual = np.where(absent.count > 0, usual, present.mean)
    return np.where(absent.count + present.count > 0, usual, 0.0)


def _log_ratio(phi: Floats, usual: Floats) -> Floats:
    """(n,): log of p(x|t) / p(x); 0 where p(x) is unknown."""
    log_chance = -cross_entropy(phi)
    return np.where(usual > 0, log_chance - np.log(np.maximum(usual, LEAST)), 0.0)


attack: Attack = Rmia()
