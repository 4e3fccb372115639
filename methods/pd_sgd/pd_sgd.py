"""pd-sgd: noisy steps that are taken only if enough other batches could have produced them."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Any, ClassVar, Literal

import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import AfterValidator, Field, model_validator
from torch import Tensor

from methods.base import Count, Fraction, Level, Positive, Problem, Rate, Released, Run
from methods.mechanisms.draws import fill_gaussian
from methods.pd_sgd.batch_gradient import BatchGradient
from methods.pd_sgd.deniability import DeniabilityTest, Verdict, count_plausible
from methods.pd_sgd.illustration import illustrate
from methods.pd_sgd.partition import TOGETHER, Partition, flip_labels
from methods.pd_sgd.rejections import Rejections
from methods.search import Fixed, Search
from methods.training.optimizer import OptimizerParams, make_optimizer
from methods.training.sampling import HOST
from workloads.base import Records
from workloads.drawings import Drawing, Printed, Trained

Ablation = Literal["full", "only_noise", "only_test", "random_rejection"]

UNBOUNDED: dict[str, Any] = {"sensitivity": math.inf, "event": NonPrivateDpEvent()}
"""Gradients are not clipped: the sensitivity of a batch's mean, and of a test, is unbounded."""
PROBE_EVERY = 10
"""In the experiment, one of this many steps tests the anomalous batch as seed and makes no update."""


def _share(value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"anomalous_share must be from 0 to 1, got {value}")
    return value


class PdSgdParams(OptimizerParams):
    """Parameters of pd-sgd."""

    steps: Annotated[Count, Search(8, 64, unit="epochs", axis=2)] = Field(
        default=500, description="Training steps."
    )
    # The number of batches may stand for it.
    batch_size: Annotated[Count | None, Search(1 / 32, 1 / 4, unit="rate", axis=1)] = Field(  # type: ignore[assignment]
        default=64,
        description="Approximate records per batch: the members are split into members / batch_size batches, "
        "at least T. None if batches is given.",
    )
    learning_rate: Annotated[Rate, Search(0.02, 1, unit="step", axis=0)] = Field(
        default=0.1, description="Learning rate."
    )
    momentum: Annotated[Fraction, Fixed(0.0)] = Field(default=0.0, description="Momentum of optimizer 'sgd'.")
    batches: Annotated[Count | None, Fixed()] = Field(
        default=None,
        description="Batches that the members are split into in every step, instead of batch_size.",
    )
    sigma: Annotated[Rate, Level()] = Field(
        default=0.1,
        description="Standard deviation of the noise on every coordinate of a batch's mean gradient.",
    )
    gamma: Annotated[Positive, Level()] = Field(
        default=10.0,
        description="Largest plausible difference of log-likelihoods; with inf every batch passes. At a "
        "distance of sigma * sqrt(2 gamma) about half of the batches pass.",
    )
    T: Annotated[Count, Level()] = Field(
        default=3, description="Plausible batches that a step needs, including the seed; 1 always accepts."
    )
    ablation: Annotated[Ablation, Level()] = Field(
        default="full",
        description="'only_noise' leaves out the test, 'only_test' the noise on the update; "
        "'random_rejection' rejects by chance instead of the test.",
    )
    rejection_rate: Annotated[Fraction | None, Fixed()] = Field(
        default=None, description="For ablation 'random_rejection': the share of steps to reject."
    )
    anomalous_share: Annotated[Annotated[float, AfterValidator(_share)] | None, Fixed()] = Field(
        default=None,
        description="Experiment: one fixed batch has this share of its labels flipped, and every tenth step "
        "tests it as seed without an update; none: no experiment.",
    )

    @model_validator(mode="before")
    @classmethod
    def _batches_stand_for_batch_size(cls, given: Any) -> Any:
        # A recipe gives batch_size to every method: left there it would give one training two keys.
        if isinstance(given, dict) and given.get("batches") is not None:
            return {**given, "batch_size": None}
        return given

    @model_validator(mode="after")
    def _possible(self) -> "PdSgdParams":
        if self.batches is None and self.batch_size is None:
            raise ValueError("give batch_size or batches; both are missing")
        if self.batches is not None and self.batches < self.needed:
            raise ValueError(
                f"T = {self.T} plausible batches cannot be found among batches = {self.batches}: "
                "every step would be rejected; give batches >= T"
            )
        if (self.ablation == "random_rejection") != (self.rejection_rate is not None):
            raise ValueError(
                "rejection_rate goes with ablation 'random_rejection' and only with it; got ablation = "
                f"'{self.ablation}' and rejection_rate = {self.rejection_rate}"
            )
        if self.anomalous_share is not None and self.needed == 1:
            raise ValueError(
                f"anomalous_share measures how often the test rejects, but ablation = '{self.ablation}' with "
                f"T = {self.T} has no test: give ablation 'full' or 'only_test', and T >= 2"
            )
        return self

    def one_step(self, count: int, rate: float) -> dict[str, Any]:
        """The settings of one accepted step on all of `count` records (methods/base.py, Stepped)."""
        return super().one_step(count, rate) | {"T": 1, "batches": None, "anomalous_share": None}

    @property
    def needed(self) -> int:
        """Plausible batches that a step needs; 1 without a test."""
        return self.T if self.ablation in ("full", "only_test") else 1

    def count_batches(self, members: int) -> int:
        """The number of batches for this many members."""
        return self.batches or max(self.needed, round(members / (self.batch_size or members)))


class PdSgd:
    """Plausibly deniable SGD: Algorithm 1, its ablations (Table 4), its anomalous batch (Figure 3)."""

    version: ClassVar[str] = "3"
    about: ClassVar[str] = (
        "PD-SGD: noisy batch gradients, taken only if other batches could have produced them"
    )
    source: ClassVar[str] = "Anonymous, Deep Learning with Plausible Deniability (under review), Algorithm 1"
    guarantee: ClassVar[str] = "empirical"
    caveats: ClassVar[tuple[str, ...]] = (
        "no (epsilon, delta): what is proved is that a batch far from all others is probably rejected; there "
        "is no bound for one record, no composition over steps and no post-processing",
        "at the distance sqrt(2 gamma) sigma half of the batches pass (stat half_acceptance_sigmas): 2 sigma "
        "at gamma = 2, 45 at 1,000, 894 at 400,000. Beyond a few sigma the noise does not hide which batch "
        "it was: the test is then a filter of outliers with weak noise, not deniability",
        "a record that is repeated in T batches makes itself plausible",
        "every step may read every record, so there is no amplification by sampling; whether a step was "
        "accepted depends on the data, and the paper assumes that it is not observed",
        "a test that never rejects does not make it plain SGD: the noise remains",
        "a run that rejects every step at the start never recovers: it warns and suggests a gamma",
        "the paper does not state its batch size, learning rate or momentum",
        "rejection_rate and the other stats are computed from the data and released with the result",
    )
    Params: ClassVar[type[PdSgdParams]] = PdSgdParams

    def illustrate(self, trained: Sequence[Trained], printed: Sequence[Printed]) -> Drawing:
        """Which batches pass the privacy test."""
        return illustrate(trained, printed)

    def derive(self, values: dict[str, Any], n_train: int) -> dict[str, Any]:
        """Batches of the searched size, not a given number of them."""
        return {"batches": None}

    def train(self, members: Records, problem: Problem, params: PdSgdParams, run: Run) -> Released:
        """Try `params.steps` steps and release the last iterate; a rejected step does not change it."""
        members, partition = split(members.to(run.device), problem.classes, params, run)
        model = problem.model(run.seed("init")).to(run.device).train()
        trial = Trial(members, partition, BatchGradient(model, problem.loss), params, run)
        optimizer = make_optimizer(trial.gradient.weights, params)
        record = Rejections(len(members), params.needed, params.sigma, params.gamma, run.device)
        experiment = params.anomalous_share is not None

        state = {"model": model, "optimizer": optimizer, "record": record}
        for step in run.steps("train", params.steps, state):
            probe = experiment and step % PROBE_EVERY == PROBE_EVERY - 1
            loss = trial.propose(TOGETHER if probe else None)
            verdict = trial.judge()
            update = verdict.accepted and not probe
            if update:
                with run.clock("update"):
                    trial.settle()
                    optimizer.step()
            anomalous = experiment and trial.number == TOGETHER
            record.add(verdict, trial.rows, trial.test.distances, anomalous, probe)
            run.verdict(update)
            run.observe(loss=loss, **trial.observations(verdict))

        trial.gradient.release()
        stats = {"batches": float(partition.batches), **record.finish(experiment)}
        return Released(model.eval(), run.ledger(), stats)


class Trial:
    """Proposes the noisy gradient of a random batch and tests whether others could have produced it."""

    def __init__(
        self,
        members: Records,
        partition: Partition,
        gradient: BatchGradient,
        params: PdSgdParams,
        run: Run,
    ) -> None:
        self.members, self.partition, self.gradient = members, partition, gradient
        self.params, self.run = params, run
        self.seed, self.other, self.noise = gradient.empty(), gradient.empty(), gradient.empty()
        self.test = DeniabilityTest(self.seed, self.noise, params.sigma, params.gamma)
        gradient.lend(self.seed if params.ablation == "only_test" else self.noise)
        self.number = TOGETHER
        self.others: list[int] = []
        """The numbers of the other batches, in the order of testing."""
        self.rows = torch.empty(0, dtype=torch.int64)
        """The rows of the seed batch."""

    def propose(self, first: int | None) -> Tensor:
        """Redraw the split; gradient and noise of the seed batch (`first` or random); return its loss."""
        run = self.run
        with run.drawing():
            self.number, *self.others = self.partition.draw(first)
            self.rows = self.partition.rows(self.number)
            batch = self.members.take(self.rows)
        with run.clock("gradients"):
            loss = self.gradient.write(batch, out=self.seed)
        with run.clock("noise"):
            run.mechanism("proposal", self.seed, self._draw_noise, scale=self.params.sigma, **UNBOUNDED)
        return loss

    def judge(self) -> Verdict:
        """Whether the proposal may become an update."""
        rate = self.params.rejection_rate
        if rate is not None:
            stream = self.run.generator("rejection", HOST)
            chance = torch.rand((), generator=stream, device=stream.device, dtype=torch.float64)
            return Verdict(accepted=bool(chance >= rate), count=1, evaluated=1)
        self.test.begin()
        found: Verdict = self.run.mechanism("test", self.others, self._count, scale=0.0, **UNBOUNDED)
        return found

    def settle(self) -> None:
        """Write the update to the weights' `grad`."""
        if self.params.ablation != "only_test":
            self.noise.add_(self.seed)

    def observations(self, verdict: Verdict) -> dict[str, float]:
        """The observed values of a step."""
        found = {"batches_evaluated": float(verdict.evaluated), "plausible_batches": float(verdict.count)}
        if self.test.distances:
            found["distance"] = fmean(self.test.distances)
        return found

    def _draw_noise(self, seed: Tensor, generator: torch.Generator) -> Tensor:
        """The noise of a proposal, separate from its gradient, since the test reads both."""
        return fill_gaussian(self.noise, generator, self.params.sigma)

    def _count(self, others: list[int], generator: torch.Generator) -> Verdict:
        return count_plausible(others, self.params.needed, self._passes)

    def _passes(self, number: int) -> bool:
        with self.run.drawing():
            batch = self.members.take(self.partition.rows(number))
        with self.run.clock("gradients"):
            self.gradient.write(batch, out=self.other)
        with self.run.clock("test"):
            return self.test.passes(self.other)


def split(members: Records, classes: int, params: PdSgdParams, run: Run) -> tuple[Records, Partition]:
    """The members and their partition; in the experiment, with flipped labels in the fixed batch."""
    batches, stream, together = params.count_batches(len(members)), run.generator("partition", HOST), None
    if params.anomalous_share is not None:
        size = len(members) // batches
        members, together = flip_labels(
            members, size, params.anomalous_share, classes, run.generator("anomaly")
        )
    return members, Partition(len(members), batches, stream, together, run.device)


method = PdSgd()
