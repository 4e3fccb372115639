"""dp-sgd: clipped per-example gradients, summed with Gaussian noise over Poisson batches."""

from typing import ClassVar

from dp_accounting import DpEvent

from methods.base import Problem, Released, Run
from methods.private_descent import PrivateDescentParams, descend_privately, descent_event
from workloads.base import Records


class DpSgdParams(PrivateDescentParams):
    """Parameters of dp-sgd. Give epsilon or noise_multiplier; a planned task holds both."""


class DpSgd:
    """Differentially private SGD (Abadi et al. 2016): noise once, on the sum of clipped gradients.

    With what the best results use besides (De et al. 2022), if asked for: several views of an image, a moving
    average of the weights, and batches of any size in pieces. None of them changes the ledger.
    """

    version: ClassVar[str] = "4"
    about: ClassVar[str] = "DP-SGD: per-example clipping, Gaussian noise, Poisson batches"
    source: ClassVar[str] = "Abadi et al. 2016, Deep Learning with Differential Privacy (CCS)"
    guarantee: ClassVar[str] = "approximate-dp"
    caveats: ClassVar[tuple[str, ...]] = (
        "add-or-remove adjacency; the whole sequence of noisy sums counts as released",
        "the search for hyper-parameters is counted but not priced",
        "the seeded generators are not cryptographic: results are for study, not for deployment; with "
        "secure = true the noise is, the choice of batches is not, and the run cannot be repeated",
        "clipped_share and the other stats are read from the data and not covered by the guarantee",
    )
    Params: ClassVar[type[DpSgdParams]] = DpSgdParams
    free: ClassVar[str] = "noise_multiplier"

    def planned(self, params: DpSgdParams, n_train: int) -> DpEvent:
        """The ledger that `train` on `n_train` members will hold."""
        return descent_event(params, n_train)

    def train(self, members: Records, problem: Problem, params: DpSgdParams, run: Run) -> Released:
        """Train for `params.steps` steps and release the last iterate, or the average of all."""
        return descend_privately(problem.model(run.seed("init")), members, problem, params, run)


method = DpSgd()
