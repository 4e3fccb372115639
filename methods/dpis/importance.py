"""Drawing records in proportion to the length of their gradients, with a bound on every probability."""

from typing import Any

from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, NonPrivateDpEvent, SelfComposedDpEvent
from torch import Tensor

from methods.base import Run
from methods.training.sampling import poisson_event, poisson_rate
from workloads.base import Records


class ImportanceSampler:
    """Every member enters a batch independently with probability batch_size * s / K, s its clipped norm.

    K is a noisy sum of all clipped norms, never taken below what keeps the probability of the longest
    gradient, batch_size * clip / K, at or below `rate`: the ledger is that of a Poisson sample of this rate.
    Exact without knowing every norm: a wider Poisson sample is drawn as if all were `clip` long, and of it
    a record is kept with probability s / clip. Belongs into the state of `run.steps`.

    Args:
        members: Who is drawn from.
        batch_size: Expected size of a batch where K is right.
        clip: The longest a clipped gradient can be.
        boost: How many times batch_size / members the probability of a record may be.
        run: The run it belongs to.
    """

    def __init__(self, members: Records, batch_size: int, clip: float, boost: float, run: Run) -> None:
        self.batch_size, self.clip = batch_size, clip
        self.rate = boosted_rate(len(members), batch_size, boost)
        self.batches = run.sampler("poisson", members, batch_size, rate=self.rate)
        self.total, self.count = len(members) * clip, float(len(members))

    def refresh(self, total: float, count: float) -> None:
        """Go on with new noisy normalisers: the sum of clipped norms (K) and the number of members (N)."""
        self.total = max(total, self.batch_size * self.clip / self.rate)
        self.count = max(count, float(self.batch_size))

    def candidates(self) -> Records:
        """The wider sample."""
        return self.batches.draw(rate=self.widest)

    def keep(self, norms: Tensor) -> Records:
        """The candidates that stay, given their clipped norms; a norm of 0 never does."""
        return self.batches.thin(norms.double() / self.clip)

    @property
    def widest(self) -> float:
        """The probability of a record whose gradient is as long as can be."""
        return min(self.rate, self.batch_size * self.clip / self.total)

    @property
    def share(self) -> float:
        """The length of every drawn record's contribution to the mean: K / (N batch_size)."""
        return self.total / (self.count * self.batch_size)

    def state_dict(self) -> dict[str, Any]:
        """The normalisers and the state of the batches."""
        return {"total": self.total, "count": self.count, "batches": self.batches.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.total, self.count = float(state["total"]), float(state["count"])
        self.batches.load_state_dict(state["batches"])


def boosted_rate(members: int, batch_size: int, boost: float) -> float:
    """The largest probability with which a record may enter a batch."""
    return min(1.0, boost * poisson_rate(members, batch_size))


def importance_event(
    rate: float, noise_multiplier: float, draws: int, normaliser_noise: float, refreshes: int
) -> DpEvent:
    """`draws` noisy sums over samples of at most this rate, and `refreshes` times both normalisers."""
    sums = poisson_event(rate, noise_multiplier, draws)
    if isinstance(sums, NonPrivateDpEvent):
        return sums
    normalisers = SelfComposedDpEvent(GaussianDpEvent(normaliser_noise), 2 * refreshes)
    return ComposedDpEvent([sums, normalisers])
