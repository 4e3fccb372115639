"""advreg: training against a network that infers membership, as a penalty on the classifier's loss."""

import math
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import Field
from torch import Tensor

from methods.advreg.adversary import Adversary
from methods.base import (
    Amount,
    Batches,
    Count,
    Fraction,
    Level,
    Probability,
    Problem,
    Rate,
    Released,
    Run,
)
from methods.search import Fixed, Search
from methods.training.descent import Descent, DescentParams
from methods.training.holdout import hold_out
from methods.training.sampling import HOST, refuse_larger_than
from workloads.base import Records, sent


class AdvregParams(DescentParams):
    """Parameters of advreg. In brackets: values of the SELENA repository for Purchase-100 and CIFAR-100."""

    steps: Annotated[Count, Search(8, 64, unit="epochs", axis=2)] = Field(
        default=500, description="Training steps of the classifier, including the warm-up."
    )
    alpha: Annotated[Amount, Level()] = Field(
        default=3.0, description="Weight of the penalty; 0 is plain training (Purchase 3, CIFAR-100 6)."
    )
    reference_share: Annotated[Probability, Level()] = Field(
        default=0.2,
        description="Members set aside: the adversary's non-members, on which the classifier never trains.",
    )
    warm_up: Annotated[Fraction, Fixed(0.03)] = Field(
        default=0.03, description="Share of steps without a penalty (Purchase 1/30, CIFAR-100 4/200)."
    )
    adversary_passes: Annotated[Amount, Fixed()] = Field(
        default=5.0,
        description="Passes of the adversary over the reference records after the warm-up (Purchase 5).",
    )
    adversary_steps: Annotated[Count, Fixed()] = Field(
        default=1,
        description="Steps of the adversary per step of the classifier (CIFAR-100 1, Purchase 13).",
    )
    adversary_rate: Annotated[Rate, Search(1e-5, 1e-3)] = Field(
        default=1e-4, description="Learning rate of the adversary (Adam; 1e-4 for both)."
    )
    reference_code_quirk: Annotated[bool, Fixed()] = Field(
        default=False,
        description="Overlapping steps, as in the code: each also trains on the next step's batch, so that "
        "the classifier sees every batch twice.",
    )

    @property
    def updates(self) -> int:
        """Updates of the classifier per step with a penalty."""
        return 2 if self.reference_code_quirk else 1


class Advreg:
    """Adversarial regularisation (Nasr, Shokri and Houmansadr 2018), as in the SELENA repository.

    The classifier minimises loss + alpha (mean h - 1/2), where h is the adversary's membership probability of
    a record; the adversary minimises the squared error of h on training and reference records.
    """

    version: ClassVar[str] = "2"
    about: ClassVar[str] = "adversarial regularisation: training against a network that infers membership"
    source: ClassVar[str] = (
        "Nasr, Shokri and Houmansadr 2018, Machine Learning with Membership Privacy using Adversarial "
        "Regularization (CCS); code: inspire-group/MIAdefenseSELENA"
    )
    guarantee: ClassVar[str] = "empirical"
    caveats: ClassVar[tuple[str, ...]] = (
        "no guarantee: it defends against the adversary that it is trained with. Adaptive: shadows are "
        "trained by advreg too, each with its own adversary",
        "the reference records are taken from the members, so that advreg gets no more data than other "
        "methods; the classifier trains on the rest. Accuracies and attacks count them as neither members "
        "nor non-members; what the released model leaks about them is not measured",
        "Aerni, Zhang and Tramèr 2024 (arXiv:2404.17399) found that empirical defences leak far more about "
        "the most vulnerable records than on average: add canaries, and dp-sgd at a high epsilon as a "
        "baseline",
        "the adversary takes logits and minimises a squared error, as in the code; the paper's takes "
        "probabilities and maximises a log-likelihood",
        "releases the last iterate; the code keeps the epoch with the best test accuracy",
    )
    Params: ClassVar[type[AdvregParams]] = AdvregParams

    def train(self, members: Records, problem: Problem, params: AdvregParams, run: Run) -> Released:
        """Warm up the classifier, then the adversary, then alternate; release the last iterate."""
        members = members.to(run.device)
        refuse_larger_than(len(members), params.batch_size)
        stream = run.generator("reference", HOST)
        split = hold_out(len(members), params.reference_share, stream)
        rows, aside = (sent(part, run.device) for part in split)
        trained, reference = members.take(rows), members.take(aside)
        model = problem.model(run.seed("init"))
        classifier = Descent(model, trained, problem.loss, params, run, "sampling")
        adversary = Adversary(
            model, trained, reference, problem.classes, params.batch_size, params.adversary_rate, run
        )

        warm_up = round(params.warm_up * params.steps)
        for step in run.steps("warm-up", warm_up, {"classifier": classifier}):
            run.observe(loss=classifier.step(step, params.steps))
        head_start = math.ceil(params.adversary_passes * len(reference) / adversary.size)
        for _ in run.steps("adversary", head_start, {"adversary": adversary}):
            run.observe(adversary_loss=adversary.step())

        classifier.loss = penalised(problem, adversary, params.alpha)
        if params.reference_code_quirk:
            classifier.source = Overlapping(classifier.sampler, trained, run)
        state = {"classifier": classifier, "adversary": adversary}
        for step in run.steps("min-max", params.steps - warm_up, state):
            errors = [adversary.step() for _ in range(params.adversary_steps)]
            losses = [classifier.step(warm_up + step, params.steps) for _ in range(params.updates)]
            run.observe(loss=torch.stack(losses).mean(), adversary_loss=torch.stack(errors).mean())

        stats = {"reference_records": float(len(reference)), "adversary_accuracy": adversary.accuracy()}
        return Released(model.eval(), NonPrivateDpEvent(), stats, set_aside=aside)


def penalised(problem: Problem, adversary: Adversary, alpha: float) -> Callable[[Tensor, Tensor], Tensor]:
    """The classifier's loss per example: the problem's, plus alpha (h - 1/2)."""

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        inferred: Tensor = adversary.network(logits, labels)
        return problem.loss(logits, labels) + alpha * (inferred - 0.5)

    return loss


class Overlapping:
    """Overlapping pairs of batches: ab, bc, cd."""

    def __init__(self, sampler: Batches, records: Records, run: Run) -> None:
        self.sampler, self.records, self.run = sampler, records, run
        self.draws = 0
        self.rows = torch.empty(0, dtype=torch.int64)

    def draw(self) -> Records:
        """The next batch."""
        with self.run.drawing():
            if self.draws == 0 or self.draws % 2 == 1:
                self.rows = self.sampler.draw_rows()
            self.draws += 1
            return self.records.take(self.rows)

    def state_dict(self) -> dict[str, Any]:
        """The last batch, the number of draws and the sampler's state."""
        return {"draws": self.draws, "rows": self.rows, "sampler": self.sampler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.draws, self.rows = int(state["draws"]), state["rows"].to(self.run.device)
        self.sampler.load_state_dict(state["sampler"])


method = Advreg()
