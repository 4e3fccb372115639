"""Statistics of a run's proposals: acceptances, rejections, and how often each record was used."""

import logging
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from methods.pd_sgd.deniability import Verdict, half_acceptance

log = logging.getLogger(__name__)

PATIENCE = 25
"""Rejections from the first step on after which the run warns."""
QUANTILES = {"min": 0.0, "p05": 0.05, "p50": 0.5, "p95": 0.95, "max": 1.0}
KEPT = ("uses", "steps", "accepted", "evaluated", "counts", "tests", "refused", "start")
"""Attributes that are part of a checkpoint."""


class Rejections:
    """The record of a run's proposals; part of the state of `run.steps`.

    Args:
        members: Number of members.
        needed: Plausible batches that accept a proposal, including the seed; 1 without a test.
        sigma: Standard deviation of the noise.
        gamma: Threshold of the test.
        device: The device of row numbers.
    """

    def __init__(self, members: int, needed: int, sigma: float, gamma: float, device: torch.device) -> None:
        self.sigma, self.gamma, self.device = sigma, gamma, device
        self.uses = torch.zeros(members, dtype=torch.int64, device=device)
        """Number of updates that each record was part of."""
        self.steps = self.accepted = self.evaluated = 0
        self.counts = [0] * (needed + 1)
        """Number of verdicts by their count of plausible batches."""
        self.tests = {"normal": 0, "anomalous": 0}
        self.refused = {"normal": 0, "anomalous": 0}
        """Tests and rejections by the kind of the seed batch."""
        self.start = {"pairs": 0, "squares": 0.0}
        """Pairs of batches compared at the initial weights, and the sum of their squared distances."""

    def add(
        self,
        verdict: Verdict,
        seed: Tensor,
        distances: Sequence[float],
        anomalous: bool = False,
        probe: bool = False,
    ) -> None:
        """Record a proposal on the rows `seed`. A probe is tested but never becomes an update."""
        kind = "anomalous" if anomalous else "normal"
        self.tests[kind] += 1
        self.refused[kind] += not verdict.accepted
        if self.accepted == 0 and not anomalous:
            self.start["pairs"] += len(distances)
            self.start["squares"] += sum(distance**2 for distance in distances)
        if probe:
            return
        self.steps += 1
        self.evaluated += verdict.evaluated
        self.counts[verdict.count] += 1
        if verdict.accepted:
            self.accepted += 1
            self.uses[seed] += 1
        elif self.accepted == 0 and self.steps == PATIENCE:
            log.warning(
                "the first %d steps were all rejected, and a rejected step changes nothing: the next one "
                "has the same weights and the same odds. %s",
                PATIENCE,
                self._advice(),
            )

    def finish(self, anomalous: bool) -> dict[str, float]:
        """The stats of the run, with those of an anomalous batch if there is one; warns if nothing passed."""
        if self.accepted == 0:
            log.warning("all %d steps were rejected: the model is untrained. %s", self.steps, self._advice())
        return {
            "rejection_rate": 1 - self.accepted / self.steps,
            "batches_evaluated_mean": self.evaluated / self.steps,
            **self._uses(),
            **(self._tests() if len(self.counts) > 2 else {}),
            **(self._kinds() if anomalous else {}),
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything that was recorded."""
        return {name: getattr(self, name) for name in KEPT}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved record."""
        for name in KEPT:
            setattr(self, name, state[name])
        self.uses = self.uses.to(self.device)

    def _uses(self) -> dict[str, float]:
        """How often the records were used: mean, deviation and quantiles (PD-SGD, Figure 4)."""
        uses = self.uses.double()
        levels = torch.quantile(uses, torch.tensor(list(QUANTILES.values())).to(uses)).tolist()
        return {
            "updates_per_record_mean": float(uses.mean()),
            "updates_per_record_sd": float(uses.std(correction=0)),
            **{f"updates_per_record_{name}": level for name, level in zip(QUANTILES, levels, strict=True)},
        }

    def _tests(self) -> dict[str, float]:
        """Outcomes of the tests; in units of sigma, the initial distance of batches, and the distance at
        which about half of them are plausible."""
        found = {f"count_{count}_share": n / self.steps for count, n in enumerate(self.counts) if count}
        if self.start["pairs"]:
            found["initial_distance_sigmas"] = self._initial_distance() / self.sigma
        if self.gamma != math.inf:
            found["half_acceptance_sigmas"] = half_acceptance(self.gamma)
        return found

    def _kinds(self) -> dict[str, float]:
        """How often seeds of either kind were rejected (PD-SGD, Figure 3)."""
        rates = {f"{kind}_rejection_rate": self.refused[kind] / n for kind, n in self.tests.items() if n}
        return {**rates, **{f"{kind}_tests": float(n) for kind, n in self.tests.items()}}

    def _initial_distance(self) -> float:
        """Root mean square of the distances at the initial weights."""
        return float((self.start["squares"] / self.start["pairs"]) ** 0.5)

    def _advice(self) -> str:
        if not self.start["pairs"]:
            return "The rejection rate alone decides: give a lower one."
        distance = self._initial_distance()
        sigmas = distance / self.sigma
        return (
            f"At the initial weights batches are {distance:.3g} apart, {sigmas:.3g} sigma, and half of them "
            f"pass at gamma near {float(f'{sigmas**2 / 2:.2g}'):g}. Gamma is {self.gamma:g}: raise it or "
            "sigma, lower T, or use larger batches."
        )
