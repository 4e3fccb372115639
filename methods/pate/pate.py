"""pate: teachers on disjoint shards vote on public examples; a student learns the noisy labels."""

import logging
import math
from typing import Annotated, Any, ClassVar

import torch
from dp_accounting import DpEvent
from pydantic import Field, model_validator
from torch import Tensor

from methods.base import (
    Amount,
    Count,
    Fraction,
    Level,
    Positive,
    PrivacyParams,
    Probability,
    Problem,
    Rate,
    Released,
    Run,
)
from methods.pate.aggregation import NO_ANSWER, Aggregator, AggregatorName, count_votes
from methods.search import Fixed, Search
from methods.training.descent import Descent, DescentParams
from methods.training.ensembles import Ensemble, Shards
from methods.training.optimizer import OptimizerParams
from workloads.base import Records
from workloads.errors import SpecError

log = logging.getLogger(__name__)


class PateParams(DescentParams, PrivacyParams):
    """Parameters of pate. Give epsilon or noise; a planned task has both. Given both, queries is solved for.

    Optimiser, momentum and weight decay are those of teachers and student, the schedule is the student's.
    """

    epsilon: Positive | None = Field(default=None, description="Target epsilon; inf counts without noise.")
    delta: Probability = Field(default=1e-5, description="Target delta.")
    noise: Amount | None = Field(
        default=None,
        description="Laplace scale or Gaussian deviation of the noise on a count; solved for from epsilon.",
    )
    aggregator: Annotated[AggregatorName, Level()] = Field(
        default="gnmax",
        description="Noise on the votes: Laplace (2017), Gaussian, or Gaussian after a threshold test.",
    )
    teachers: Annotated[Count, Search(5, 60, unit="per_member", axis=1, name="members_per_teacher")] = Field(
        default=250, description="Disjoint shards, with a teacher each (papers: 250)."
    )
    queries: Annotated[Count, Search(20, 400, unit="public")] = Field(
        default=100,
        description="Public examples that the teachers label; solved for from epsilon and noise.",
    )
    threshold: Annotated[Probability, Fixed()] = Field(
        default=0.8, description="confident-gnmax: share of teachers that must agree (2018: 200 of 250)."
    )
    threshold_ratio: Annotated[Rate, Fixed()] = Field(
        default=3.75, description="confident-gnmax: noise of the test over noise (2018: 150 over 40)."
    )
    answers: Annotated[Count | None, Fixed()] = Field(
        default=None,
        description="confident-gnmax: maximum number of answers, which is charged; none: all queries.",
    )
    teacher_steps: Annotated[Count, Search(8, 128, unit="epochs", axis=2, batch="teacher_batch_size")] = (
        Field(default=200, description="Training steps of a teacher.")
    )
    teacher_batch_size: Annotated[Count, Fixed()] = Field(
        default=16, description="Examples per step of a teacher, drawn with replacement."
    )
    teacher_learning_rate: Annotated[Rate, Search(0.02, 1)] = Field(
        default=0.1, description="Learning rate of the teachers."
    )
    steps: Annotated[Count, Fixed(200)] = Field(default=500, description="Training steps of the student.")
    batch_size: Annotated[Count, Fixed()] = Field(
        default=64, description="Examples per step of the student; at most the number of answers."
    )
    learning_rate: Annotated[Rate, Search(0.01, 0.5, axis=0)] = Field(
        default=0.1, description="Learning rate of the student."
    )
    momentum: Annotated[Fraction, Fixed()] = Field(default=0.0, description="Momentum of optimizer 'sgd'.")

    @model_validator(mode="after")
    def _one_privacy_level(self) -> "PateParams":
        if self.epsilon is None and self.noise is None:
            raise ValueError("give epsilon (> 0, or inf) or noise (>= 0); both are missing")
        if None not in (self.epsilon, self.noise) and (self.epsilon == math.inf) != (self.noise == 0):
            raise ValueError(
                "epsilon = inf goes with noise = 0 only, "
                f"got epsilon = {self.epsilon} and noise = {self.noise}"
            )
        return self

    @model_validator(mode="after")
    def _a_limit_is_for_the_confident(self) -> "PateParams":
        # Ignoring it would give one training two keys.
        if self.answers is not None and self.aggregator != "confident-gnmax":
            raise ValueError(
                f"answers applies to 'confident-gnmax' only, and {self.aggregator} answers every query; "
                f"leave out answers = {self.answers}, or lower queries = {self.queries}"
            )
        return self


class Pate:
    """Private aggregation of teacher ensembles (Papernot et al. 2017 and 2018).

    A member trains one teacher and so affects one vote on every query. Only the student is released, which is
    trained on public examples and noisy labels.
    """

    version: ClassVar[str] = "2"
    about: ClassVar[str] = "PATE: a student learns noisy votes of teachers on disjoint shards"
    source: ClassVar[str] = (
        "Papernot et al. 2017, Semi-supervised Knowledge Transfer for Deep Learning from Private Training "
        "Data (ICLR); Papernot et al. 2018, Scalable Private Learning with PATE (ICLR)"
    )
    guarantee: ClassVar[str] = "approximate-dp"
    caveats: ClassVar[tuple[str, ...]] = (
        "it needs public examples, which other methods do without: where they are test records, accuracy is "
        "measured on the other test records (docs/methods/pate.md)",
        "epsilon does not depend on the votes; epsilons.data_dependent of a result does, as in the papers, "
        "is not sanitised and must not be published: it stays in the store",
        "add-or-remove adjacency, with every member assigned to a teacher independently",
        "the student learns from answered queries only; the papers' semi-supervised one (a GAN, virtual "
        "adversarial training) also learns from the others",
        "confident-gnmax is charged for a test of every query and for `answers` answers, given or not",
        "seeded random generators are not cryptographic; the stats are computed from the votes and not "
        "covered by the guarantee",
    )
    Params: ClassVar[type[PateParams]] = PateParams
    free: ClassVar[str] = "noise"
    extent: ClassVar[str] = "queries"
    mechanism: ClassVar[str] = "votes"
    public_use: ClassVar[str] = "the queries that its teachers answer"

    def planned(self, params: PateParams, n_train: int) -> DpEvent:
        """The ledger, for any votes and any number of members."""
        return make_aggregator(params).planned(params.queries)

    def detached(self, params: PateParams) -> str | None:
        """The teachers are not released."""
        return "only the teachers read records, and a student trained on public examples is released"

    def derive(self, values: dict[str, Any], n_train: int) -> dict[str, Any]:
        """Epochs of a teacher, whose members are a shard."""
        return {"teacher_steps": max(1, round(values["teacher_steps"] / values["teachers"]))}

    def train(self, members: Records, problem: Problem, params: PateParams, run: Run) -> Released:
        """Train the teachers, count their votes with noise, and release a student trained on the labels."""
        queries = draw_queries(problem, params, run)
        shards = Shards(members.to(run.device), params.teachers, run.generator("shards"))
        teachers = Ensemble(problem.model, shards, problem.loss, teacher_params(params), queries, run)
        for step in run.steps("teachers", teachers.total, {"teachers": teachers}):
            run.observe(loss=teachers.step(step))

        votes = count_votes(teachers.predictions, problem.classes)
        labels = label_queries(make_aggregator(params), votes, run)
        answered = labels != NO_ANSWER
        if not answered.any():
            log.warning(
                "none of %d queries was answered: the student is untrained; lower threshold = %g",
                params.queries,
                params.threshold,
            )
        lessons = Records(queries[answered], labels[answered])
        student = Descent(problem.model(run.seed("init")), lessons, problem.loss, params, run, "student")
        predictor = student.descend("student", params.steps)
        return Released(predictor, run.ledger(), describe(votes, answered, shards))


def label_queries(aggregator: Aggregator, votes: Tensor, run: Run) -> Tensor:
    """Aggregate the votes of all queries to labels, as one release."""
    norm, sensitivity = aggregator.influence
    return run.mechanism(
        "votes",
        votes,
        aggregator.answer,
        sensitivity=sensitivity,
        scale=aggregator.noise,
        event=aggregator.event,
        norm=norm,
        once=True,
    )


def draw_queries(problem: Problem, params: PateParams, run: Run) -> Tensor:
    """Public examples in random order, as many as there are queries."""
    if problem.public is None:
        raise SpecError(
            "pate needs public examples, but the workload has none; give a workload that declares public "
            "records",
            field="workload",
        )
    if params.queries > len(problem.public):
        raise SpecError(
            f"queries = {params.queries} is more than the {len(problem.public)} public examples of the "
            f"workload; give 1 to {len(problem.public)}",
            field="queries",
            value=params.queries,
            allowed=(1, len(problem.public)),
        )
    stream = run.generator("queries")
    order = torch.randperm(len(problem.public), generator=stream, device=stream.device)
    return problem.public.to(run.device)[order[: params.queries]]


def teacher_params(params: PateParams) -> OptimizerParams:
    """Training parameters of a teacher."""
    return OptimizerParams(
        steps=params.teacher_steps,
        batch_size=params.teacher_batch_size,
        learning_rate=params.teacher_learning_rate,
        optimizer=params.optimizer,
        momentum=params.momentum,
        weight_decay=params.weight_decay,
    )


def make_aggregator(params: PateParams) -> Aggregator:
    """The aggregator of a planned task; without noise at epsilon = inf."""
    noise = 0.0 if params.epsilon == math.inf else params.noise
    if noise is None:
        raise SpecError(
            f"noise is not set: epsilon = {params.epsilon} must be calibrated before training", field="noise"
        )
    if params.aggregator != "confident-gnmax":
        return Aggregator(params.aggregator, noise)
    test = (params.threshold * params.teachers, params.threshold_ratio * noise)
    return Aggregator(params.aggregator, noise, *test, params.answers)


def describe(votes: Tensor, answered: Tensor, shards: Shards) -> dict[str, float]:
    """Stats: agreement of the teachers, and the number of answers."""
    first, second = votes.double().topk(2, dim=1).values.unbind(1)
    return {
        "answered": float(answered.sum()),
        "mean_agreement": float(first.mean() / len(shards.sizes)),
        "mean_gap": float((first - second).mean() / len(shards.sizes)),
        "smallest_shard": float(shards.sizes.min()),
    }


method = Pate()
