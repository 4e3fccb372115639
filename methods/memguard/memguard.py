"""memguard: plain training, with noise on the released confidences that misleads a surrogate attack."""

from typing import Annotated, ClassVar

import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from methods.base import Amount, Count, Level, Problem, Rate, Released, Run
from methods.memguard.guard import Guarded, make_surrogate
from methods.search import Fixed
from methods.training.descent import Descent, DescentParams, predict
from methods.training.holdout import hold_out
from methods.training.sampling import HOST, refuse_larger_than
from workloads.base import Records, sent


class MemguardParams(DescentParams):
    """Parameters of memguard. Those of the training apply to the classifier and to its shadow."""

    distortion: Annotated[Amount, Level()] = Field(
        default=1.0,
        description="Bound on the expected L1 change of a confidence vector; 0 changes none, 2 is no bound "
        "(the authors' code: 0 to 1).",
    )
    iterations: Annotated[Count, Fixed()] = Field(
        default=300, description="Maximum steps of the search for a noise vector (the authors' code: 300)."
    )
    surrogate_steps: Annotated[Count | None, Fixed()] = Field(
        default=None, description="Training steps of the surrogate attack; none: as many as steps."
    )
    surrogate_rate: Annotated[Rate, Fixed()] = Field(
        default=0.001, description="Learning rate of the surrogate attack (Adam)."
    )


class Memguard:
    """MemGuard (Jia et al. 2019): noise on confidence vectors that keeps the label and misleads an attack.

    It misleads the defender's own surrogate attack. That is trained on a shadow of the classifier: the same
    training on half of the members, with the other half as non-members. So the classifier itself is trained
    on all members.
    """

    version: ClassVar[str] = "2"
    about: ClassVar[str] = "MemGuard: plain training, with noise on the confidences that keeps every label"
    source: ClassVar[str] = (
        "Jia et al. 2019, MemGuard: Defending against Black-Box Membership Inference Attacks via Adversarial "
        "Examples (CCS)"
    )
    guarantee: ClassVar[str] = "empirical"
    caveats: ClassVar[tuple[str, ...]] = (
        "no guarantee: labels are not changed, so it does not affect label-only attacks",
        "adaptive: shadows are guarded too, each by its own surrogate, and attacks read guarded outputs "
        "only; the weights inside the released module are those of plain training, so it is no defence if "
        "they are known",
        "the paper's defender has non-members of the classifier; a method here sees members only, and a "
        "shadow trained on half of them stands in for the classifier",
        "the noise is drawn once per input and does not average out; a slightly changed input gets new noise",
        "every query is a search by gradient descent: slow to query, not to train",
    )
    Params: ClassVar[type[MemguardParams]] = MemguardParams

    def train(self, members: Records, problem: Problem, params: MemguardParams, run: Run) -> Released:
        """Train the classifier, its shadow and the surrogate attack, and release the guarded classifier."""
        members = members.to(run.device)
        refuse_larger_than(len(members), params.batch_size)
        model, other = problem.model(run.seed("init")), problem.model(run.seed("shadow"))
        training = Descent(model, members, problem.loss, params, run, "sampling")
        predictor = training.descend("train", params.steps)

        # Only for the shadow: the classifier is trained on both halves, so no member is set aside.
        halves = hold_out(len(members), 0.5, run.generator("halves", HOST))
        inside, outside = (members.take(sent(rows, run.device)) for rows in halves)
        shadowing = Descent(other, inside, problem.loss, params, run, "shadow")
        evidence = gather(shadowing.descend("shadow", params.steps), inside, outside)
        surrogate = train_surrogate(evidence, problem.classes, params, run)

        right = (predict(surrogate, evidence).squeeze(1) > 0) == (evidence.y > 0.5)
        guarded = Guarded(predictor, surrogate, run.seed("guard"), params.distortion, params.iterations)
        stats = {"surrogate_accuracy": float(right.double().mean())}
        return Released(guarded.eval(), NonPrivateDpEvent(), stats)

    def skeleton(self, problem: Problem, params: MemguardParams) -> nn.Module:
        """A guarded predictor to load weights into."""
        surrogate = make_surrogate(problem.classes, 0)
        return Guarded(problem.model(0), surrogate, 0, params.distortion, params.iterations)


def gather(shadow: nn.Module, inside: Records, outside: Records) -> Records:
    """Training data of the surrogate: sorted probabilities, labelled 1 for members of the shadow, else 0."""
    halves = [predict(shadow, half).double().softmax(1).sort(dim=1).values for half in (inside, outside)]
    seen = [torch.full_like(half[:, 0], label) for half, label in zip(halves, (1.0, 0.0), strict=True)]
    return Records(torch.cat(halves), torch.cat(seen))


def train_surrogate(evidence: Records, classes: int, params: MemguardParams, run: Run) -> nn.Module:
    """Train the surrogate attack: a network that infers membership in the shadow."""
    own = DescentParams(
        steps=params.surrogate_steps or params.steps,
        batch_size=params.batch_size,
        learning_rate=params.surrogate_rate,
        optimizer="adam",
    )
    network = make_surrogate(classes, run.seed("surrogate"))
    return Descent(network, evidence, membership_loss, own, run, "surrogate").descend("surrogate", own.steps)


def membership_loss(decisions: Tensor, seen: Tensor) -> Tensor:
    """Binary cross-entropy of the logits (B, 1), one value per example."""
    return binary_cross_entropy_with_logits(decisions.squeeze(1), seen, reduction="none")


method = Memguard()
