"""dirdp-sgd: von Mises-Fisher noise on the direction of every example's gradient."""

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, ClassVar, Literal

import torch
from dp_accounting import ComposedDpEvent, DpEvent, NonPrivateDpEvent, SelfComposedDpEvent
from pydantic import Field, model_validator
from torch import Tensor, nn

from methods.base import (
    Count,
    Fraction,
    FreeKind,
    Positive,
    PrivacyParams,
    Probability,
    Problem,
    Rate,
    Released,
    Run,
    Technical,
)
from methods.dirdp_sgd.directions import redraw
from methods.dirdp_sgd.layout import Granularity, Layout, as_text, cut_blocks, find_layout, parse
from methods.gradients import Engine, EngineName, Loss, make_engine
from methods.gradients.tally import LOOK_EVERY
from methods.mechanisms.bessel import mean_resultant_length
from methods.mechanisms.events import VonMisesFisherDpEvent
from methods.mechanisms.noise import cut
from methods.search import Fixed, Search
from methods.training.optimizer import OptimizerParams, make_optimizer
from methods.training.sampling import fixed_size_event
from workloads.base import Records
from workloads.errors import SpecError

log = logging.getLogger(__name__)

DIAMETER = 2.0
"""The largest distance between two directions: the sensitivity."""
STORED = 64 * 2**20
"""Maximum bytes of per-example gradients at a time: three such tensors exist at once."""


class DirDpSgdParams(OptimizerParams, PrivacyParams):
    """Parameters of dirdp-sgd. Give epsilon or kappa; a planned task has both."""

    epsilon: Rate | None = Field(default=None, description="Target epsilon.")
    delta: Probability = Field(default=1e-5, description="Target delta.")
    kappa: Positive | None = Field(
        default=None,
        description="Concentration of a draw, the paper's epsilon_V; inf: no noise. Solved for from epsilon.",
    )
    steps: Annotated[Count, Search(8, 64, unit="epochs", axis=2)] = Field(
        default=500, description="Training steps."
    )
    learning_rate: Annotated[Rate, Search(0.05, 5, axis=0)] = Field(default=0.1, description="Learning rate.")
    momentum: Annotated[Fraction, Fixed()] = Field(default=0.0, description="Momentum of optimizer 'sgd'.")
    batch_size: Annotated[Count, Search(2, 64, axis=1)] = Field(
        default=64, description="Examples per step: exactly that many, drawn without replacement."
    )
    granularity: Annotated[Granularity, Fixed()] = Field(
        default="whole",
        description="What has its own direction: the whole gradient, each weight tensor, or each bias and "
        "each row of a weight, along its first axis (an output's) or its last (a kernel's).",
    )
    row_magnitude: Annotated[Literal["unit", "keep"], Fixed()] = Field(
        default="unit",
        description="Norm of a noisy direction: 1, or that of the gradient ('keep': no guarantee).",
    )
    aggregate_then_vmf: Annotated[bool, Fixed()] = Field(
        default=False,
        description="Perturb the direction of the batch's summed gradient, not those of its examples.",
    )
    debias: Annotated[bool, Fixed()] = Field(
        default=False, description="Divide by A(kappa), the length of a draw's mean: an unbiased direction."
    )
    directions: Annotated[str | None, Fixed()] = Field(
        default=None,
        description="Directions as COUNTxDIMENSION (12x75,1x10); derived from the model when planning.",
    )
    engine: Annotated[EngineName, Technical()] = Field(
        default="auto",
        description="What computes the gradients; 'auto': bookkeeping if it knows every layer, else opacus.",
    )
    physical_batch_size: Annotated[Count | None, Technical()] = Field(
        default=None,
        description="Examples processed at a time, to save memory; none: as many as fit into 64 MB. Changes "
        "the order of draws.",
    )

    @model_validator(mode="after")
    def _one_privacy_level(self) -> "DirDpSgdParams":
        if self.epsilon is None and self.kappa is None:
            raise ValueError("give epsilon (> 0, finite) or kappa (> 0, or inf); both are missing")
        if self.epsilon is not None and self.row_magnitude == "keep":
            raise ValueError(
                "row_magnitude = 'keep' releases norms without noise and has no epsilon; give kappa alone, "
                "or row_magnitude = 'unit'"
            )
        if self.epsilon is not None and self.kappa == math.inf:
            raise ValueError(f"kappa = inf adds no noise and has no epsilon, got epsilon = {self.epsilon}")
        return self


class DirDpSgd:
    """DirDP-SGD, Algorithm 2: gradients scaled to norm 1, then redrawn (Weggenmann and Kerschbaum 2021)."""

    version: ClassVar[str] = "4"
    about: ClassVar[str] = "DirDP-SGD: von Mises-Fisher noise on the direction of every example's gradient"
    source: ClassVar[str] = "Directional Privacy for Deep Learning (DirDP-SGD; anonymous, under review)"
    guarantee: ClassVar[str] = "metric-dp"
    caveats: ClassVar[tuple[str, ...]] = (
        "by design kappa d-private per update, d the Euclidean distance of unit gradients; the reported "
        "epsilons are ordinary DP at delta and at 0, computed here under replace-one adjacency",
        "the paper's epsilon is kappa: one use of one direction is (2 kappa, 0)-DP, and the uses of a record "
        "compose; the paper's parallel composition holds within one epoch only",
        "the paper charges 2 kappa sqrt(m) for m rows; independent rows cost 2 kappa m",
        "the paper keeps Poisson sampling, under which a sum of unit vectors has no epsilon; batches of "
        "fixed size are drawn here",
        "row_magnitude = 'keep' and kappa = inf have no guarantee; only granularity "
        "= 'per_last_axis' came near the paper, for an epsilon of 39,000 (docs/methods/dirdp-sgd.md)",
        "the stats are computed from the data and not covered by the guarantee",
    )
    Params: ClassVar[type[DirDpSgdParams]] = DirDpSgdParams
    per_example: ClassVar[bool] = True
    free: ClassVar[str] = "kappa"
    free_kind: ClassVar[FreeKind] = "concentration"
    mechanism: ClassVar[str] = "directional"

    def shaped(self, params: DirDpSgdParams, model: nn.Module) -> DirDpSgdParams:
        """The parameters with the directions of this model's gradient."""
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        return params.model_copy(update={"directions": as_text(find_layout(weights, params.granularity))})

    def planned(self, params: DirDpSgdParams, n_train: int) -> DpEvent:
        """The ledger of `train` on `n_train` members."""
        if params.directions is None:
            raise SpecError(
                "directions is not set: it must be derived from the model first", field="directions"
            )
        release = release_event(params, params.directions)
        return fixed_size_event(n_train, params.batch_size, release, params.steps)

    def train(self, members: Records, problem: Problem, params: DirDpSgdParams, run: Run) -> Released:
        """Train for `params.steps` steps and release the last iterate."""
        kappa = resolved_kappa(params)
        members = members.to(run.device)
        model = problem.model(run.seed("init")).to(run.device).train()
        optimizer = make_optimizer(model.parameters(), params)
        sampler = run.sampler("fixed_size", members, params.batch_size)
        loss = RecordedLoss(problem.loss)
        engine = make_engine(model, loss, params.engine, physical_batch_size=params.physical_batch_size)
        layout = find_layout(engine.weights, params.granularity)
        event = sampler.event(release_event(params, as_text(layout)))
        size = piece_size(engine.weights, params)
        log.info("gradients by engine '%s' (%s)", engine.name, engine.why)
        tally = DirectionTally()
        noise = DirectionalNoise(layout, kappa, params, tally, run)

        def gradients(batch: Records) -> Iterator[list[Tensor]]:
            """Gradients of a few examples at a time, computed lazily."""
            for x, y in zip(torch.split(batch.x, size), torch.split(batch.y, size), strict=True):
                with run.clock("gradients"):
                    found = find_gradients(engine, x, y, params.aggregate_then_vmf, tally)
                yield found

        state = {"model": model, "optimizer": optimizer, "sampler": sampler, "tally": tally}

        for _ in run.steps("train", params.steps, state):
            mean = run.mechanism(
                "directions",
                gradients(sampler.draw()),
                noise.redraw,
                sensitivity=DIAMETER,
                scale=1 / kappa,
                event=event,
            )
            with run.clock("update"):
                for weight, piece in zip(engine.weights, cut(mean, engine.weights), strict=True):
                    weight.grad = piece
                optimizer.step()
            run.observe(loss=loss.mean())

        engine.release()
        optimizer.zero_grad()
        return Released(model.eval(), run.ledger(), figures(tally.state_dict(), layout, kappa))


class RecordedLoss:
    """A loss that records its values, which `per_example` of engines does not return."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self._recorded: list[Tensor] = []

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """See methods.gradients.Loss."""
        losses = self._loss(logits, labels)
        self._recorded.append(losses.detach())
        return losses

    def mean(self) -> Tensor:
        """The mean of the finite losses since the last call; not finite if there are none."""
        losses, self._recorded = torch.cat(self._recorded), []
        finite = torch.isfinite(losses)
        if losses.device.type != "cpu":  # indexing would wait for the device
            return torch.where(finite, losses, 0.0).sum() / finite.sum()
        return losses[finite].mean()


class DirectionTally:
    """Counts of directions: drawn, of zero vectors, of non-finite ones. Part of the state of `run.steps`."""

    def __init__(self) -> None:
        self.drawn = self.zero = self.nonfinite = 0
        self._unseen: list[Tensor] = []

    def add(self, lengths: Tensor) -> None:
        """Count vectors by their lengths."""
        self.drawn += len(lengths)
        self._unseen.append(torch.stack([(lengths == 0).sum(), (~torch.isfinite(lengths)).sum()]))
        if len(self._unseen) == LOOK_EVERY:
            self._look()

    def leave_out(self, examples: int | Tensor) -> None:
        """Count examples that were left out because of a non-finite gradient."""
        count = torch.as_tensor(examples)
        self._unseen.append(torch.stack([torch.zeros_like(count), count]))

    def state_dict(self) -> dict[str, int]:
        """The counts."""
        self._look()
        return {"drawn": self.drawn, "zero": self.zero, "nonfinite": self.nonfinite}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Restore saved counts."""
        for name, value in state.items():
            setattr(self, name, int(value))
        self._unseen.clear()

    def _look(self) -> None:
        if self._unseen:
            zero, nonfinite = torch.stack(self._unseen).sum(0).tolist()
            self.zero, self.nonfinite = self.zero + zero, self.nonfinite + nonfinite
            self._unseen.clear()


class DirectionalNoise:
    """Perturbs the directions of gradients and averages them over the pieces of a batch."""

    def __init__(
        self, layout: Layout, kappa: float, params: DirDpSgdParams, tally: DirectionTally, run: Run
    ) -> None:
        self.layout, self.kappa, self.tally, self.run = layout, kappa, tally, run
        self.keeps = params.row_magnitude == "keep"
        # A single unit direction is the update itself.
        divisor = 1 if params.aggregate_then_vmf and not self.keeps else params.batch_size
        lengths = [mean_resultant_length(each, kappa) if params.debias else 1.0 for _, each in layout]
        self._divisors = [divisor * length for length in lengths]

    def redraw(self, pieces: Iterable[list[Tensor]], generator: torch.Generator) -> Tensor:
        """The update, flat in the order of the weights, from gradients (B, *shape) of all weights."""
        sums: list[Tensor] = []
        for gradients in pieces:
            with self.run.clock("noise"):
                totals = [self._total(block, generator) for block in cut_blocks(gradients, self.layout)]
                if sums:
                    torch._foreach_add_(sums, totals)
                else:
                    sums = totals
        with self.run.clock("noise"):
            scaled = zip(sums, self._divisors, strict=True)
            return torch.cat([total.flatten() / divisor for total, divisor in scaled])

    def _total(self, block: Tensor, generator: torch.Generator) -> Tensor:
        """(rows, dimension): the new directions of (B, rows, dimension), summed over examples."""
        found = redraw(block.flatten(0, 1), self.kappa, generator)
        self.tally.add(found.lengths)
        drawn = found.directions
        if self.keeps:
            finite = torch.isfinite(found.lengths)
            drawn.mul_(found.lengths.where(finite, 0.0).to(drawn.dtype)[:, None])
        return drawn.view(block.shape).sum(dim=0)


def find_gradients(engine: Engine, x: Tensor, y: Tensor, summed: bool, tally: DirectionTally) -> list[Tensor]:
    """(B, *shape) for each weight: the gradient of every example, or (1, *shape): their sum."""
    if not summed:
        return engine.per_example(x, y)
    unclipped = engine.clipped_sum(x, y, math.inf)
    tally.leave_out(unclipped.nonfinite)
    return [total[None] for total in unclipped.sums]


def piece_size(weights: Sequence[Tensor], params: DirDpSgdParams) -> int:
    """Examples at a time; the whole batch if only the sum of gradients is needed."""
    if params.aggregate_then_vmf:
        return params.batch_size
    one = sum(weight.numel() * weight.element_size() for weight in weights)
    return params.physical_batch_size or max(1, STORED // one)


def release_event(params: DirDpSgdParams, directions: str) -> DpEvent:
    """The DP event of one update on its batch."""
    kappa = resolved_kappa(params)
    if kappa == math.inf or params.row_magnitude == "keep":
        return NonPrivateDpEvent()
    events = []
    for count, dimension in parse(directions):
        event = VonMisesFisherDpEvent(dimension, kappa, per_example=not params.aggregate_then_vmf)
        events.append(event if count == 1 else SelfComposedDpEvent(event, count))
    return events[0] if len(events) == 1 else ComposedDpEvent(events)


def resolved_kappa(params: DirDpSgdParams) -> float:
    """The concentration of a planned task."""
    if params.kappa is None:
        raise SpecError(
            f"kappa is not set: epsilon = {params.epsilon} must be calibrated before training", field="kappa"
        )
    return params.kappa


def figures(tally: dict[str, int], layout: Layout, kappa: float) -> dict[str, float]:
    """The stats of a run: counts of directions, and the paper's epsilons if kappa is finite."""
    rows = sum(count for count, _ in layout)
    stats = {
        "directions": float(rows),
        "zero_share": tally["zero"] / tally["drawn"],
        "nonfinite_gradients": float(tally["nonfinite"]),
    }
    if math.isfinite(kappa):
        stats |= {"metric_epsilon_per_update": kappa, "claimed_epsilon": 2 * kappa * math.sqrt(rows)}
    return stats


method = DirDpSgd()
