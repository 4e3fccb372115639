"""Importance sampling of records by gradient norm, with a bound on every probability."""

from typing import Any

from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, NonPrivateDpEvent, SelfComposedDpEvent
from torch import Tensor

from methods.base import Run
from methods.training.sampling import poisson_event, poisson_rate
from workloads.base import Records


class ImportanceSampler:
    """Every member enters a batch independently with probability batch_size * s / K, s its clipped norm.

    K is a noisy sum of all clipped norms, bounded below such that the probability of the largest gradient,
    batch_size * clip / K, is at most `rate`: the ledger is that of Poisson sampling at this rate. Exact
    without computing every norm: a wider Poisson sample is drawn as if all norms were `clip`, of which a
    record is kept with probability s / clip. Part of the state of `run.steps`.

    Args:
        members: The records to draw from.
        batch_size: Expected size of a batch if K is exact.
        clip: The maximum norm of a clipped gradient.
        boost: Maximum probability of a record, relative to batch_size / members.
        run: The run it belongs to.
    """

    def __init__(self, members: Records, batch_size: int, clip: float, boost: float, run: Run) -> None:
        self.batch_size, self.clip = batch_size, clip
        self.rate = boosted_rate(len(members), batch_size, boost)
        self.batches = run.sampler("poisson", members, batch_size, rate=self.rate)
        self.total, self.count = len(members) * clip, float(len(members))

    def refresh(self, total: float, count: float) -> None:
        """Set new noisy normalisers: the sum of clipped norms (K) and the number of members (N)."""
        self.total = max(total, self.batch_size * self.clip / self.rate)
        self.count = max(count, float(self.batch_size))

    def candidates(self) -> Records:
        """The wider sample."""
        return self.batches.draw(rate=self.widest)

    def keep(self, norms: Tensor) -> Records:
        """Keep candidates by their clipped norms; a norm of 0 is never kept."""
        return self.batches.thin(norms.double() / self.clip)

    @property
    def widest(self) -> float:
        """The probability of a record with the maximum norm."""
        return min(self.rate, self.batch_size * self.clip / self.total)

    @property
    def share(self) -> float:
        """The norm of a drawn record's contribution to the mean: K / (N batch_size)."""
        return self.total / (self.count * self.batch_size)

    def state_dict(self) -> dict[str, Any]:
        """The normalisers and the state of the batches."""
        return {"total": self.total, "count": self.count, "batches": self.batches.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.total, self.count = float(state["total"]), float(state["count"])
        self.batches.load_state_dict(state["batches"])


def boosted_rate(members: int, batch_size: int, boost: float) -> float:
    """The maximum probability of a record."""
    return min(1.0, boost * poisson_rate(members, batch_size))


def importance_event(
    rate: float, noise_multiplier: float, draws: int, normaliser_noise: float, refreshes: int
) -> DpEvent:
    """`draws` noisy sums over samples of at most this rate, and `refreshes` of both normalisers."""
    sums = poisson_event(rate, noise_multiplier, draws)
    if isinstance(sums, NonPrivateDpEvent):
        return sums
    normalisers = SelfComposedDpEvent(GaussianDpEvent(normaliser_noise), 2 * refreshes)
    return ComposedDpEvent([sums, normalisers])
