"""dpagd: gradient descent in which noisy comparisons choose step sizes and the noise of gradients."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from methods.base import Count, Level, Problem, Rate, Released, Run
from methods.dpagd.adaptive_descent import AdaptiveParams, follow_paper
from methods.dpagd.adaptive_descent_code import follow_code
from methods.search import Fixed
from workloads.base import Records


class DpagdParams(AdaptiveParams):
    """Parameters of dpagd; those that only one variant has name it."""

    variant: Annotated[Literal["paper", "official_code"], Level()] = Field(
        default="paper",
        description="Lee and Kifer's algorithm, or the code of DPSUR's authors with its bugs.",
    )
    batch_size: Annotated[Count, Fixed()] = Field(
        default=64,
        description="Expected examples per step of official_code; the paper's steps use all members.",
    )
    sigma_t: Annotated[Rate, Fixed()] = Field(
        default=2.0, description="Noise of official_code's gradients: standard deviation over clip."
    )
    sigma_v: Annotated[Rate, Fixed()] = Field(
        default=1.5, description="Noise of official_code's comparisons: scale over C_obj (1.5 to 15)."
    )


class Dpagd:
    """Adaptive per-iteration budgets (Lee and Kifer 2018), in zero-concentrated DP.

    The losses at several step sizes are compared with noise. If the zero step wins, the gradient was too
    noisy: it gets more budget, and so do all later gradients.
    """

    version: ClassVar[str] = "3"
    about: ClassVar[str] = "DP-AGD: full-batch descent that privately chooses step sizes and noise"
    source: ClassVar[str] = (
        "Lee and Kifer 2018, Concentrated Differentially Private Gradient Descent with Adaptive "
        "per-Iteration Privacy Budget (KDD); official_code: the repository of DPSUR (Fu et al. 2024)"
    )
    guarantee: ClassVar[str] = "approximate-dp"
    caveats: ClassVar[tuple[str, ...]] = (
        "the ledger is the zCDP budget fixed in advance, spent or not; by the paper's conversion the same "
        "epsilon would allow about a quarter less of it",
        "every step computes the gradients of all members, and their losses at every candidate step size",
        "variant = 'official_code' has only its authors' epsilon: candidate steps add up instead of starting "
        "from one point, the noise of a comparison has the wrong sign and is charged as a Gaussian on "
        "another sample, averaging gradients has no effect, and sums are divided by the realised batch size",
        "add-or-remove adjacency; seeded random generators are not cryptographic",
        "the stats are computed from the data and not covered by the guarantee",
    )
    Params: ClassVar[type[DpagdParams]] = DpagdParams
    per_example: ClassVar[bool] = True

    def bound(self, params: DpagdParams) -> float | None:
        """The budget; None for the code, whose budget follows its authors' accounting."""
        return params.epsilon if params.variant == "paper" else None

    def train(self, members: Records, problem: Problem, params: DpagdParams, run: Run) -> Released:
        """Train until the budget or `params.steps` is used up; release the last iterate."""
        members = members.to(run.device)
        if params.variant == "paper":
            return follow_paper(members, problem, params, run)
        return follow_code(members, problem, params, run, params.batch_size, params.sigma_t, params.sigma_v)


method = Dpagd()
