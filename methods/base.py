"""The interfaces of methods, and of the Run that they train with. The harness implements Run.

Imports torch for types only: declarations can be read, and plans priced, without loading it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

if TYPE_CHECKING:
    import torch
    from dp_accounting import DpEvent
    from torch import Tensor, nn

    from workloads.base import Records
    from workloads.drawings import Drawing, Printed, Trained

State = Mapping[str, Any]
"""State of a phase: objects with `state_dict`, tensors, and dicts or lists of plain values."""
SamplerKind = Literal["poisson", "shuffle", "fixed_size"]
"""How `run.sampler` draws: every member independently, shuffled epochs, or samples of a fixed size without
replacement. Batches of an epoch depend on each other and have no DP event; the other two kinds have one."""
Norm = Literal["l1", "l2", "linf"]
"""The norm of a sensitivity."""

Value = TypeVar("Value")
Output = TypeVar("Output")


class Params(BaseModel):
    """Validated parameters of a method or an attack; every field has a description."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=True)


# Numbers with bounds, for parameters: an error states the parameter, the bound and the given value.
def _positive(value: float, info: ValidationInfo) -> float:
    if not value > 0:
        raise ValueError(f"{info.field_name} must be > 0, got {value}")
    return value


def _not_negative(value: float, info: ValidationInfo) -> float:
    if not value >= 0:
        raise ValueError(f"{info.field_name} must be >= 0, got {value}")
    return value


def _finite(value: float, info: ValidationInfo) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{info.field_name} must be a finite number, got {value}")
    return value


def _below_one(value: float, info: ValidationInfo) -> float:
    if not value < 1:
        raise ValueError(f"{info.field_name} must be < 1, got {value}")
    return value


# Comparisons are written so that NaN fails them.
Positive = Annotated[float, AfterValidator(_positive)]
"""> 0; infinity is allowed."""
Rate = Annotated[float, AfterValidator(_finite), AfterValidator(_positive)]
"""> 0 and finite."""
Amount = Annotated[float, AfterValidator(_finite), AfterValidator(_not_negative)]
""">= 0 and finite."""
Fraction = Annotated[float, AfterValidator(_not_negative), AfterValidator(_below_one)]
""">= 0 and < 1."""
Probability = Annotated[float, AfterValidator(_positive), AfterValidator(_below_one)]
"""> 0 and < 1."""
Count = Annotated[int, AfterValidator(_positive)]
"""An integer > 0."""


@dataclass(frozen=True)
class Level:
    """Marks a parameter that trades privacy for accuracy: `Annotated[Rate, Level()]`.

    Configurations are compared and counted at equal levels, since accuracy alone would always choose no
    defence.
    """


@dataclass(frozen=True)
class Technical:
    """Marks a parameter that changes how a result is computed, not which: `Annotated[bool, Technical()]`."""


class PrivacyParams(Params):
    """The target of a private method; a base class to list last, so that its fields come first."""

    epsilon: Positive | None = Field(default=None, description="Target epsilon; inf trains without noise.")
    delta: Probability = Field(default=1e-5, description="Target delta.")


class Loss(Protocol):
    """A loss of one example from its logits and its label; no example's loss depends on another."""

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        """(B,): one loss per example."""
        ...


@runtime_checkable
class Differentiated(Protocol):
    """A loss that declares its gradient, so that engines can do without autograd. Optional."""

    def with_gradient(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor] | None:
        """The losses (B,) and the gradient of each by its own logits (B, classes), without a graph.

        The gradient has memory of its own, which the caller may overwrite. None: by autograd, for this kind
        of logits or labels; the decision may depend on shapes and types only, never on values.
        """
        ...


@runtime_checkable
class Averaged(Protocol):
    """A loss with a quicker form of its mean. Optional."""

    def mean(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean over examples, as a scalar with its graph."""
        ...


@dataclass(frozen=True)
class Problem:
    """What a method knows besides its members: no pool, no test set."""

    classes: int
    model: Callable[[int], nn.Module]
    """A fresh model from a seed."""
    loss: Loss
    """Maps logits and labels to one loss per example; it may be `Differentiated` or `Averaged`."""
    public: Tensor | None = None
    """The workload's public examples, without labels; only for an `Assisted` method."""


class Budget(Protocol):
    """The remaining budget of a run, checked before every release. Part of the state of `run.steps`."""

    def admits(self, event: DpEvent) -> bool:
        """Whether the event fits into the budget."""
        ...

    def spend(self, event: DpEvent) -> None:
        """Charge an event before it runs; AccountingError if it does not fit."""
        ...

    def remaining_uses(self, event: DpEvent) -> int:
        """How many more times this event fits: the total of `run.steps` if every step costs it."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """The budget spent so far."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""
        ...


class Batches(Protocol):
    """Batches of members, drawn and timed by the run. Part of the state of `run.steps`."""

    @property
    def rows(self) -> Tensor:
        """The row numbers of the last batch, on the run's device."""
        ...

    def draw(self, rate: float | None = None) -> Records:
        """The next batch; `rate` lowers the probability of a Poisson sample for this draw."""
        ...

    def draw_rows(self) -> Tensor:
        """Draw the next batch and return only its row numbers."""
        ...

    def thin(self, chances: Tensor) -> Records:
        """Subsample the last batch: each record stays independently with its own probability."""
        ...

    def event(self, release: DpEvent) -> DpEvent:
        """The DP event of one release computed on one batch."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """The state besides the random stream."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        ...


class Noise(Protocol):
    """Gaussian noise for means over a model's weights; the run records every use.

    Between `start` and `finish` the caller adds the mean, which saves a pass over memory.
    """

    def start(self, weights: Sequence[Tensor], divisor: float) -> list[Tensor]:
        """Tensors of the weights' shapes to add sum / divisor to. The next call may reuse them."""
        ...

    def finish(self, means: list[Tensor], divisor: float) -> None:
        """Complete the means after the sum was added; they are then noisy and count as released."""
        ...

    def noisy_mean(self, sums: list[Tensor], divisor: float) -> list[Tensor]:
        """(sum + noise) / divisor. The next call may reuse the tensors."""
        ...


class Run(Protocol):
    """The object that a method trains with.

    It provides what a guarantee rests on: batches, noise and mechanisms. Everything that depends on the
    members is released through it, with a name, a sensitivity and a DP event, so that the ledger is the
    record of what was released.
    """

    @property
    def device(self) -> torch.device:
        """The device of tensors."""
        ...

    def seed(self, name: str) -> int:
        """A seed of this task for `name`, for code that takes a number instead of a generator."""
        ...

    def generator(self, name: str, device: torch.device | None = None) -> torch.Generator:
        """The named, independent random stream of this task. All randomness must come from these.

        It is on the run's device by default; a stream on the CPU gives the same numbers on every device and
        can be read without waiting for one.
        """
        ...

    def steps(self, phase: str, total: int, state: State) -> Iterator[int]:
        """Yield the remaining step numbers, 0 to total - 1 in an uninterrupted run.

        Times every step, reports progress and checkpoints `state` with all random streams. After a kill the
        same code runs again: finished phases yield nothing and their state is restored, the interrupted one
        resumes at the right step, and the result is bit-identical. `state` must therefore contain everything
        the loop changes; it is restored in place.
        """
        ...

    def trial(self, name: str, members: int) -> AbstractContextManager[None]:
        """A block with one of several trainings of which the best is released.

        Streams, seeds and phases inside belong to the trial. Its releases are recorded apart, and the ledger
        of the run is then a RepeatAndSelectDpEvent, which must cover every trial. A non-finite observed value
        does not end the task: a diverged trial keeps its place.

        Args:
            name: Of the trial: lower-case letters, digits and hyphens.
            members: The expected number of records, which rates of Poisson sampling refer to.
        """
        ...

    def clock(self, name: str) -> AbstractContextManager[None]:
        """Time a part of the current step under any name but "drawing". A bench counts all of them."""
        ...

    def drawing(self) -> AbstractContextManager[None]:
        """Time the block as drawing a batch, which a bench does not count.

        For batches that are not drawn by `run.sampler`, which times itself.
        """
        ...

    def verdict(self, accepted: bool) -> None:
        """Record whether this step became an update; for methods that may reject steps, in every step."""
        ...

    def observe(self, **values: Tensor | float) -> None:
        """Record values of the current step (a loss); a non-finite one ends the task as `diverged`."""
        ...

    def sampler(
        self,
        kind: SamplerKind,
        members: Records,
        batch_size: int,
        stream: str = "sampling",
        *,
        rows: Tensor | None = None,
        rate: float | None = None,
        device: torch.device | None = None,
    ) -> Batches:
        """Batches of these records, or of some `rows` of them, drawn from a stream on the CPU.

        Args:
            kind: The sampling scheme.
            members: Records on the run's device.
            batch_size: Records per batch; the expected number for Poisson sampling.
            stream: The name of the random stream.
            rows: The row numbers to draw from; default: all.
            rate: The maximum probability of Poisson sampling, instead of batch_size / number of rows.
            device: The device of row numbers; default: the run's.
        """
        ...

    def noise(
        self,
        name: str,
        weights: Sequence[Tensor],
        scale: float,
        *,
        sensitivity: float,
        event: DpEvent,
        secure: bool = False,
        stream: str = "noise",
        device: torch.device | None = None,
    ) -> Noise:
        """Gaussian noise of standard deviation `scale` for sums of the weights' shapes.

        Args:
            name: What is released.
            weights: Tensors of the released shapes.
            scale: The standard deviation on every coordinate of the sum.
            sensitivity: L2 sensitivity of the sum to one member.
            event: The DP event of one use.
            secure: Draw from the system's cryptographic generator instead of the stream.
            stream: The name of the random stream.
            device: Of the random stream; default: the run's.
        """
        ...

    def mechanism(
        self,
        name: str,
        value: Value,
        release: Callable[[Value, torch.Generator], Output],
        *,
        sensitivity: float,
        scale: float,
        event: DpEvent | Callable[[Value, Output], DpEvent],
        norm: Norm = "l2",
        divisor: float = 1.0,
        stream: str = "noise",
        device: torch.device | None = None,
        once: bool = False,
    ) -> Output:
        """Apply `release` to a value computed from members, with the named random stream.

        Args:
            name: What is released.
            value: Its input: the scores of a choice, the counts of a vote.
            release: The mechanism.
            sensitivity: Sensitivity of the value to one member, in `norm`.
            scale: Of the noise on the value.
            event: The DP event of the release; a function of value and output if it depends on them.
            norm: Of the sensitivity.
            divisor: The divisor of the released value.
            stream: The name of the random stream.
            device: Of the random stream; default: the run's.
            once: Whether the ledger contains the event itself, not its composition over uses.
        """
        ...

    def public(self, name: str, value: Value) -> Value:
        """Declare and return a value that depends on the members only through what was released."""
        ...

    def ledger(self, whole: DpEvent | None = None) -> DpEvent:
        """The DP event of everything released so far.

        With `whole`, an event for all of it (a budget, selective release): returned if it covers what was
        recorded, otherwise an AccountingError.
        """
        ...

    def budget(self, epsilon: float, delta: float, likely: DpEvent, alone: bool = False) -> Budget:
        """A budget of (epsilon, delta) for an adaptive run; `likely` is its usual event.

        With `alone` it admits only that event, and more of them: their number is then fixed in advance.
        """
        ...


@dataclass(frozen=True)
class Released:
    """What a method releases."""

    predictor: nn.Module
    """Maps x to logits (or log-probabilities); attacks and accuracy see only this."""
    ledger: DpEvent
    """The DP event of the training: `run.ledger()`, or NonPrivateDpEvent without a guarantee. The harness
    computes epsilon from it."""
    stats: dict[str, float] = field(default_factory=dict)
    """The method's own figures (rejection rate, clipped share): stored, never interpreted."""
    set_aside: Tensor | None = None
    """Row numbers of members that the predictor was not trained on (a defence's reference records).
    Accuracies and attacks count them as neither members nor non-members; audits count them as members."""


class Method(Protocol):
    """A training method: turns members into a released predictor.

    A method sees its members only: never non-members, attacks or the database.
    """

    version: ClassVar[str]
    """Raised when the same parameters would give other results; part of every task's key."""
    about: ClassVar[str]
    source: ClassVar[str]
    guarantee: ClassVar[str]
    """One of GUARANTEES: the kind of guarantee by design."""
    caveats: ClassVar[tuple[str, ...]]
    Params: ClassVar[type[Params]]

    def train(self, members: Records, problem: Problem, params: Any, run: Run) -> Released:
        """Train on the members with parameters of type `Params` and release a predictor."""
        ...


GUARANTEES = ("approximate-dp", "pure-dp", "metric-dp", "claimed-disputed", "empirical", "none")


Role = Literal["plain-baseline", "private-baseline"]
"""The baselines: training without privacy, which costs are relative to, and the private method that every
other one is compared with."""


@runtime_checkable
class Baseline(Protocol):
    """A baseline. Exactly one method of this package has each role; a plug-in cannot take one."""

    role: ClassVar[Role]


@runtime_checkable
class Benched(Protocol):
    """A method with other defaults in a bench, so that its steps are comparable."""

    in_benches: ClassVar[Mapping[str, Any]]
    """Values by parameter; the user's take precedence."""


@runtime_checkable
class Recomputed(Protocol):
    """A baseline that can compute the same update in other ways, for a bench to time beside its usual one.

    So a reader sees how much of a ratio is due to the way of computing, and how much to privacy.
    """

    other_ways: ClassVar[Mapping[str, Sequence[Any]]]
    """Values by parameter, besides its default, which remains the yardstick."""


@runtime_checkable
class Illustrated(Protocol):
    """A method with its own figures: its theory beside the stats of its trainings."""

    def illustrate(self, trained: Sequence[Trained], printed: Sequence[Printed]) -> Drawing:
        """The figure and tables, from all trainings of a store and the published results of the method.

        Both may be empty: parts that need no data are always drawn.
        """
        ...


@runtime_checkable
class Calibrated(Protocol):
    """A method with a target epsilon: the harness solves for one free parameter when planning.

    Its Params have `epsilon`, `delta` and the free parameter; either epsilon or the free one is given.
    """

    free: ClassVar[str]

    def planned(self, params: Any, n_train: int) -> DpEvent:
        """The ledger of `train` on `n_train` members, known in advance."""
        ...


FreeKind = Literal["noise", "concentration", "count", "budget"]
"""How epsilon depends on a parameter: it falls with noise, and rises with concentration, with a (whole)
number of releases and with the epsilon of a part."""


@runtime_checkable
class Searched(Calibrated, Protocol):
    """A calibrated method whose free parameter is not noise: declares how to search for it."""

    free_kind: ClassVar[FreeKind]


@runtime_checkable
class Extensible(Calibrated, Protocol):
    """A calibrated method that can also be solved for a number of releases.

    This is done if epsilon and the free parameter are given, and `extent` is not.
    """

    extent: ClassVar[str]


@runtime_checkable
class Repeatable(Calibrated, Protocol):
    """A calibrated method that a private search can train several times (`run.trial`).

    Its sampling rates come from `run.sampler` and the batch size alone, never from the number of its members,
    and it releases the workload's model.
    """

    repeatable: ClassVar[bool]


Solve = Callable[["Method", Any, int], Any]
"""Complete the parameters of a method on a number of members: its noise is solved for from epsilon."""


@runtime_checkable
class Nested(Calibrated, Protocol):
    """A calibrated method whose free parameter is a target of other trainings, to be solved first."""

    settled: ClassVar[str]
    """The parameter that `settle` fills in."""

    def settle(self, params: Any, n_train: int, solve: Solve) -> Any:
        """The parameters with all that follows from the free one."""
        ...


@dataclass(frozen=True)
class Proposal:
    """What a search over settings of another method needs to know."""

    members: int
    """Of each of its trainings."""
    params: dict[str, Any]
    """Parameters of the search that follow from the other method."""
    holds: str
    """The parameter that holds the candidates."""


@runtime_checkable
class Selecting(Nested, Protocol):
    """A method that searches by itself, over settings of another method."""

    def over(self, base: str, n_train: int) -> Proposal:
        """The search over settings of the method called `base`; SpecError if it cannot be searched."""
        ...


@runtime_checkable
class Quoted(Protocol):
    """A method whose mechanism has its own command of `privbench price`."""

    mechanism: ClassVar[str]
    """A command of `privbench price`."""


@runtime_checkable
class Shaped(Protocol):
    """A method whose epsilon depends on the model's shape, which planning writes into the parameters."""

    def shaped(self, params: Any, model: nn.Module) -> Any:
        """Complete the parameters from the shape of a fresh model; its weights must not be read."""
        ...


@runtime_checkable
class Budgeted(Protocol):
    """A method with an adaptive budget: its Params have `epsilon`, and `train` uses `run.budget`."""

    def bound(self, params: Any) -> float | None:
        """The epsilon that the ledger may not exceed; None if the budget was charged differently from the
        ledger."""
        ...


@runtime_checkable
class Stepped(Protocol):
    """Parameters of a method of gradient steps; gradient inversion runs one step to see what it shares."""

    def one_step(self, count: int, rate: float) -> dict[str, Any]:
        """The settings of one step on all of `count` records: always taken, without momentum or decay, with
        this learning rate. They do not change the protection."""
        ...


@runtime_checkable
class Rebuilt(Protocol):
    """A method that releases another module than the workload's model."""

    def skeleton(self, problem: Problem, params: Any) -> nn.Module:
        """A predictor of the released shape to load saved weights into."""
        ...


@runtime_checkable
class Detached(Protocol):
    """A method whose released model is not trained on the raw members.

    A gradient canary moves its own weights in the workload's model. If that model does not read raw records,
    or is not released, such canaries test nothing.
    """

    def detached(self, params: Any) -> str | None:
        """Why gradient canaries would test nothing with these parameters; None if they work."""
        ...


@runtime_checkable
class Assisted(Protocol):
    """A method that needs public records besides its members, in `Problem.public`.

    Their use costs no privacy. Its accuracy is measured on test records that it was not given.
    """

    public_use: ClassVar[str]
    """What it needs them for."""


@runtime_checkable
class PerExample(Protocol):
    """A method of per-example gradients: planning refuses models that mix the examples of a batch."""

    per_example: ClassVar[bool]
    """True if a layer such as batch normalisation is refused (`make_engine` does so)."""
