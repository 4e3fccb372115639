"""A method of another package, whose parameters have names unknown to the harness.

It can be priced without torch: its plan does not load it.
"""

from typing import Any, ClassVar

from dp_accounting import DpEvent, GaussianDpEvent, SelfComposedDpEvent
from pydantic import Field

from methods.base import Amount, Count, PrivacyParams, Problem, Released, Run


class ScaledParams(PrivacyParams):
    """Parameters of the plug-in."""

    scale: Amount | None = Field(default=None, description="Standard deviation of the noise.")
    looks: Count = Field(default=10, description="Noisy sums that are released.")
    batch_size: Count = Field(default=8, description="Examples that are looked at.")


class Scaled:
    """Releases noisy sums and an untrained model."""

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "noisy sums"
    source: ClassVar[str] = "none"
    guarantee: ClassVar[str] = "approximate-dp"
    caveats: ClassVar[tuple[str, ...]] = ()
    Params: ClassVar[type[ScaledParams]] = ScaledParams
    free: ClassVar[str] = "scale"

    def planned(self, params: ScaledParams, n_train: int) -> DpEvent:
        """The requested number of Gaussian sums."""
        return SelfComposedDpEvent(GaussianDpEvent(params.scale), params.looks)

    def train(self, members: Any, problem: Problem, params: ScaledParams, run: Run) -> Released:
        """Release the model as it starts."""
        return Released(problem.model(run.seed("init")).eval(), self.planned(params, len(members)))


method = Scaled()
