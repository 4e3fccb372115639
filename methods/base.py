"""What a method is, and the run it trains through. The harness implements Run; methods only use it.

Names torch in types only: what a method declares can be asked, and its plan priced, without loading it.
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
"""What a phase must remember: things with `state_dict`, tensors, and dicts or lists of plain values."""
SamplerKind = Literal["poisson", "shuffle", "fixed_size"]
"""How `run.sampler` draws: every member independently, epochs in random order, or fresh samples of one size
without replacement. The first and the last have an event; the batches of an epoch depend on each other."""
Norm = Literal["l1", "l2", "linf"]
"""In which one member's influence on the input of a mechanism is bounded."""

Value = TypeVar("Value")
Output = TypeVar("Output")


class Params(BaseModel):
    """Validated parameters of a method or an attack; every field has a description."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=True)


# Numbers with bounds, for parameters: an error names the parameter, the bound and what was given.
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
"""A whole number > 0."""


@dataclass(frozen=True)
class Level:
    """Marks a parameter that trades privacy for accuracy: `Annotated[Rate, Level()]`.

    Configurations are compared and counted at equal levels, since accuracy alone would always choose no
    defence at all.
    """


@dataclass(frozen=True)
class Technical:
    """Marks a parameter that changes how a number is computed, not which: `Annotated[bool, Technical()]`."""


class PrivacyParams(Params):
    """A target of a private method; a base class to list last, so that its fields come first."""

    epsilon: Positive | None = Field(default=None, description="Target epsilon; inf trains without noise.")
    delta: Probability = Field(default=1e-5, description="Target delta.")


@dataclass(frozen=True)
class Problem:
    """What a method may know besides its members: no pool, no test set."""

    classes: int
    model: Callable[[int], nn.Module]
    """A fresh model from a seed."""
    loss: Callable[[Tensor, Tensor], Tensor]
    """Logits and labels to one loss per example, shape (B,)."""
    public: Tensor | None = None
    """Examples of the workload's public records, without labels; only for a method that is `Assisted`."""


class Budget(Protocol):
    """What is left of a run's epsilon, asked before every release. Belongs into the state of `run.steps`."""

    def admits(self, event: DpEvent) -> bool:
        """Whether the event can be run without passing the budget."""
        ...

    def spend(self, event: DpEvent) -> None:
        """Book an event that is about to run; an AccountingError where it does not fit."""
        ...

    def remaining_uses(self, event: DpEvent) -> int:
        """How many more times this event fits: a total for `run.steps` where every step costs it."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What was spent so far."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        ...


class Batches(Protocol):
    """Batches of members, drawn and timed by the run. Belongs into the state of `run.steps`."""

    @property
    def rows(self) -> Tensor:
        """The row numbers of the last batch, on the run's device."""
        ...

    def draw(self, rate: float | None = None) -> Records:
        """The next batch; `rate` lowers the probability of a Poisson sample for this draw."""
        ...

    def draw_rows(self) -> Tensor:
        """The row numbers of the next batch alone."""
        ...

    def thin(self, chances: Tensor) -> Records:
        """The records of the last batch that stay, each independently with a probability of its own."""
        ...

    def event(self, release: DpEvent) -> DpEvent:
        """What one release computed on one batch does to the members."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What the next draw depends on, besides the random stream."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        ...


class Noise(Protocol):
    """Gaussian noise for means over one model's weights, each use of which the run records.

    Between `start` and `finish` the caller adds the mean, which saves a pass over memory.
    """

    def start(self, weights: Sequence[Tensor], divisor: float) -> list[Tensor]:
        """Tensors like the weights to add a sum over `divisor` to. The next call may reuse them."""
        ...

    def finish(self, means: list[Tensor], divisor: float) -> None:
        """What must be done when the mean is in; after it the means are noisy and count as released."""
        ...

    def noisy_mean(self, sums: list[Tensor], divisor: float) -> list[Tensor]:
        """(sum + noise) / divisor. The next call may reuse the tensors."""
        ...


class Run(Protocol):
    """The object a method trains through.

    It hands out what a guarantee rests on: batches, noise and mechanisms. Everything that tells about the
    members is asked of it, with a name, the influence of one member and an event, so that the ledger is the
    record of what was released.
    """

    @property
    def device(self) -> torch.device:
        """Where tensors should live."""
        ...

    def seed(self, name: str) -> int:
        """A seed of this task for `name`, for what takes a number instead of a generator (a model's init)."""
        ...

    def generator(self, name: str, device: torch.device | None = None) -> torch.Generator:
        """The named, independent random stream of this task. Nothing else may be used for randomness.

        It is on the run's device, or on the one given: a stream on the CPU gives the same numbers whatever
        device trains, and nobody waits for a device to look at them.
        """
        ...

    def steps(self, phase: str, total: int, state: State) -> Iterator[int]:
        """Yield the step numbers still to do, 0 to total - 1 in an undisturbed run.

        Times every step, reports progress and checkpoints `state` with every random stream. After a kill the
        same code runs again: finished phases yield nothing and their state is put back, the broken
        one goes on at the right step, and the result is bit-identical. `state` must therefore hold
        everything the loop changes; it is restored in place.
        """
        ...

    def clock(self, name: str) -> AbstractContextManager[None]:
        """Time a part of the current step under any name but "drawing". A bench charges for all of them."""
        ...

    def drawing(self) -> AbstractContextManager[None]:
        """Time the block as drawing a batch, which a bench does not charge for.

        For batches that no sampler of the run draws: `run.sampler` times itself.
        """
        ...

    def verdict(self, accepted: bool) -> None:
        """Say whether this step became an update; for a method that may reject one, in every step."""
        ...

    def observe(self, **values: Tensor | float) -> None:
        """Record values of the current step (a loss); a non-finite one ends the task as diverged."""
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
        """Batches of these records, of some `rows` of them where given, drawn from a stream on the CPU.

        Args:
            kind: How they are drawn.
            members: Records on the run's device.
            batch_size: Records per batch; expected ones of a Poisson sample.
            stream: The name of the random stream.
            rows: The row numbers that may be drawn; all where not given.
            rate: The largest probability of a Poisson sample, instead of batch_size over the number of rows.
            device: Where row numbers go; the run's device where not given.
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
        """Gaussian noise of standard deviation `scale` for sums like the weights.

        Args:
            name: What is released.
            weights: Tensors of the shapes of what is released.
            scale: The standard deviation on every coordinate of the sum.
            sensitivity: By how much one member changes the sum, in L2 norm.
            event: What one use does to the members.
            secure: From the system's cryptographic generator instead of the stream.
            stream: The name of the random stream.
            device: Of the random stream; the run's where not given.
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
        """What `release` makes of a value computed from members, with the named random stream.

        Args:
            name: What is released.
            value: What it is computed from: the scores of a choice, the counts of a vote.
            release: The mechanism.
            sensitivity: By how much one member changes the value, in `norm`.
            scale: Of the noise on the value.
            event: What the release does to the members; a function of value and output where it depends on
                them.
            norm: Of the sensitivity.
            divisor: What the value is divided by in the release.
            stream: The name of the random stream.
            device: Of the random stream; the run's where not given.
            once: The ledger holds the event as it is, not as repeated so many times.
        """
        ...

    def public(self, name: str, value: Value) -> Value:
        """Declare a value that does not depend on the members beyond what was released; gives it back."""
        ...

    def ledger(self, whole: DpEvent | None = None) -> DpEvent:
        """What was released through this run so far.

        With `whole`, an event that says it as a whole (a budget, selective release): it is given back if it
        covers what was recorded, and is an AccountingError otherwise.
        """
        ...

    def budget(self, epsilon: float, delta: float, likely: DpEvent, alone: bool = False) -> Budget:
        """A budget of (epsilon, delta) for a run that decides as it goes; `likely` is its usual event.

        With `alone` it admits no other event, and more of that one: their number is then fixed beforehand.
        """
        ...


@dataclass(frozen=True)
class Released:
    """What a method lets out of its hands."""

    predictor: nn.Module
    """Maps x to logits (or log-probabilities); attacks and accuracy see only this."""
    ledger: DpEvent
    """What was done to the data: `run.ledger()`. The harness prices it; NonPrivateDpEvent where there is no
    guarantee."""
    stats: dict[str, float] = field(default_factory=dict)
    """Figures of the method's own (rejection rate, clipped share): stored, never interpreted."""
    set_aside: Tensor | None = None
    """Row numbers of members that never trained the predictor (a defence's reference records). In accuracies
    and attacks they are neither members nor non-members; to an audit of the method they are members."""


class Method(Protocol):
    """How it is trained: turns members into a released predictor.

    A method sees its members only: never non-members, attacks or the database.
    """

    version: ClassVar[str]
    """Raised when the same parameters would give other numbers; part of every task's key."""
    about: ClassVar[str]
    source: ClassVar[str]
    guarantee: ClassVar[str]
    """One of GUARANTEES: the kind of promise the method makes by design."""
    caveats: ClassVar[tuple[str, ...]]
    Params: ClassVar[type[Params]]

    def train(self, members: Records, problem: Problem, params: Any, run: Run) -> Released:
        """Train on the members with parameters of type `Params` and release a predictor."""
        ...


GUARANTEES = ("approximate-dp", "pure-dp", "metric-dp", "claimed-disputed", "empirical", "none")


Role = Literal["plain-baseline", "private-baseline"]
"""What the harness compares with: training without privacy, which costs are relative to, and the private
method that every other one is held against."""


@runtime_checkable
class Baseline(Protocol):
    """A method that others are compared with. One of this package's has each role; a plug-in takes none."""

    role: ClassVar[Role]


@runtime_checkable
class Benched(Protocol):
    """A method that takes other parameters than its defaults in a bench, so that its steps compare."""

    in_benches: ClassVar[Mapping[str, Any]]
    """By name; what the user gives comes before."""


@runtime_checkable
class Illustrated(Protocol):
    """A method with figures of its own: its theory, beside what its trainings reported."""

    def illustrate(self, trained: Sequence[Trained], printed: Sequence[Printed]) -> Drawing:
        """The figure and tables, from all trainings of a store and what papers printed of the method.

        Both may be empty: what needs no data is drawn all the same.
        """
        ...


@runtime_checkable
class Calibrated(Protocol):
    """A method with a target epsilon: one parameter is free, and the harness solves for it at plan time.

    Its Params hold `epsilon`, `delta` and the free parameter; either epsilon or the free one is given.
    """

    free: ClassVar[str]

    def planned(self, params: Any, n_train: int) -> DpEvent:
        """What `train` would do to `n_train` members: the same event its ledger will hold."""
        ...


FreeKind = Literal["noise", "concentration", "count"]
"""How a parameter is traded for privacy: more noise costs less, more concentration costs more, and so does a
larger whole number of releases."""


@runtime_checkable
class Searched(Calibrated, Protocol):
    """A calibrated method whose free parameter is no noise: it says how to look for its value."""

    free_kind: ClassVar[FreeKind]


@runtime_checkable
class Extensible(Calibrated, Protocol):
    """A calibrated method that can be solved for another parameter, a number of releases, instead.

    That is done where epsilon and the free parameter are both given, and `extent` is not.
    """

    extent: ClassVar[str]


@runtime_checkable
class Quoted(Protocol):
    """A method whose mechanism is in the price list: `privbench price` takes that one's options as well."""

    mechanism: ClassVar[str]
    """A command of `privbench price`."""


@runtime_checkable
class Shaped(Protocol):
    """A method whose price depends on the shape of the model: the plan writes it into the parameters."""

    def shaped(self, params: Any, model: nn.Module) -> Any:
        """The parameters with what a fresh model's shape decides; its weights must not be read."""
        ...


@runtime_checkable
class Budgeted(Protocol):
    """A method that spends as it goes: its Params hold `epsilon`, and `train` asks `run.budget`."""

    def bound(self, params: Any) -> float | None:
        """The epsilon that the ledger's price may not pass; None where the budget was kept under a charge
        that is not the price."""
        ...


@runtime_checkable
class Stepped(Protocol):
    """Parameters of a method that takes gradient steps: one of them can be had, to see what it shares."""

    def one_step(self, count: int, rate: float) -> dict[str, Any]:
        """The settings of one step on all of `count` records: that it is taken, without momentum or decay and
        with this step size. Settings of the protection are not among them."""
        ...


@runtime_checkable
class Rebuilt(Protocol):
    """A method that releases another module than the workload's model."""

    def skeleton(self, problem: Problem, params: Any) -> nn.Module:
        """An empty predictor of the released shape, for saved weights to be loaded into."""
        ...


@runtime_checkable
class Detached(Protocol):
    """A method whose released model is not trained on its members as they are.

    A gradient canary moves weights of its own in the workload's model. Where that model never reads records
    as they are, or is not what is released, such canaries would show nothing and prove nothing.
    """

    def detached(self, params: Any) -> str | None:
        """Why gradient canaries would test nothing with these parameters; None where they do test."""
        ...


@runtime_checkable
class Assisted(Protocol):
    """A method that needs public records besides its members: it finds them in `Problem.public`.

    What it does with them costs no privacy. Its accuracy is measured on test records that it was not given.
    """

    public_use: ClassVar[str]
    """What it needs them for, in a few words."""
