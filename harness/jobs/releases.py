"""Batches, noise and mechanisms of a run, each recorded: the ledger is composed of these records."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import attr
import torch
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from torch import Tensor

from harness.accounting.ledger import ASSUMPTIONS, check_search, count_releases, expand
from methods import base
from methods.base import Norm, Output, SamplerKind, Value
from methods.mechanisms.noise import Noise, SecureNoise, SeededNoise
from methods.training.sampling import HOST, Batches, PoissonSampler, make_sampler, poisson_rate
from workloads.base import Records
from workloads.errors import AccountingError

EVENTS = {kind.__name__: kind for kind in ASSUMPTIONS}
"""The events that a checkpoint may contain: those that can be accounted for."""
ROUNDING = 1e-9
"""Relative rounding error allowed in the sum of a budget's parts."""


@dataclass
class Release:
    """Identical releases, with their count."""

    name: str
    """What was released."""
    norm: Norm
    sensitivity: float
    """Sensitivity of the value that noise is added to, in `norm`."""
    scale: float
    """Of the noise."""
    divisor: float
    """What the noisy value is divided by."""
    event: DpEvent | None
    """The DP event of one release; None before the mechanism has run."""
    once: bool = False
    """Whether the ledger contains the event itself, not its composition `count` times."""
    count: int = 0

    def alike(self, other: "Release") -> bool:
        """Whether both are equal except for their count."""
        return all(getattr(self, name) == getattr(other, name) for name in COMPARED)


COMPARED = ("name", "norm", "sensitivity", "scale", "divisor", "once", "event")


class Releases:
    """All releases of a run, by name in the order of their first use."""

    def __init__(self) -> None:
        self._lines: dict[str, list[Release]] = {}

    def __iter__(self) -> Iterator[Release]:
        return (line for lines in self._lines.values() for line in lines if line.count)

    def declare(self, name: str) -> None:
        """Reserve the place of a name in the ledger."""
        self._lines.setdefault(name, [])

    def line(self, release: Release) -> Release:
        """The line of releases like this one, created with a count of 0 if missing."""
        lines = self._lines.setdefault(release.name, [])
        for line in reversed(lines):
            if line.alike(release):
                return line
        lines.append(replace(release, count=0))
        return lines[-1]

    def compose(self) -> DpEvent:
        """Compose all releases into one event; NonPrivateDpEvent if one of them has no noise."""
        parts = [part for lines in self._lines.values() for part in _repeated(lines)]
        if any(isinstance(line.event, NonPrivateDpEvent) for line in self):
            return NonPrivateDpEvent()
        if len(parts) == 1:
            return parts[0]
        return ComposedDpEvent(parts) if parts else NoOpDpEvent()

    def check_covered(self, whole: DpEvent) -> None:
        """Reject an event that does not cover the recorded releases.

        Raises:
            AccountingError: States the event and the recorded releases.
        """
        if isinstance(whole, NonPrivateDpEvent):
            return
        if isinstance(whole, ZCDpEvent):
            spent = math.fsum(line.count * _rho(line, whole) for line in self)
            if not spent <= whole.rho * (1 + ROUNDING):
                raise AccountingError(
                    f"the ledger's budget is rho = {whole.rho:g}, but the releases cost {spent:g}: "
                    "check the budget before every release",
                    field="rho",
                    value=spent,
                    allowed=whole.rho,
                )
            return
        recorded, declared = self.count(), count_releases(expand(whole))
        if declared != recorded:
            raise AccountingError(
                f"the ledger has {declared} releases, but the run recorded {recorded}: "
                f"{', '.join(f'{line.count} x {line.name}' for line in self) or 'none'}",
                field="releases",
                value=declared,
                allowed=recorded,
            )

    def count(self) -> int:
        """Number of releases."""
        return sum(line.count * count_releases(expand(line.event)) for line in self)

    def state_dict(self) -> dict[str, Any]:
        """Every line as plain values."""
        lines = [
            {field: getattr(line, field) for field in (*COMPARED, "count")} | {"event": pack(line.event)}
            for line in self
        ]
        return {"names": list(self._lines), "lines": lines}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved record in place, since existing noise objects refer to lines."""
        lines, self._lines = self._lines, {}
        for name in (*state["names"], *lines):
            self._lines[name] = lines.get(name, [])
        for line in (line for each in self._lines.values() for line in each):
            line.count = 0
        for saved in state["lines"]:
            release = Release(**(saved | {"event": unpack(saved["event"])}))
            self.line(release).count = release.count


@dataclass
class Trial:
    """One of several trainings of which the best is released, with its own record."""

    name: str
    members: int
    """The expected number of records that it trains on."""
    releases: Releases = field(default_factory=Releases)
    ledger: DpEvent = field(default_factory=NoOpDpEvent)


def _repeated(lines: Sequence[Release]) -> list[DpEvent]:
    """The events of one name; equal events are merged, whatever their divisor."""
    found: list[Release] = []
    for line in lines:
        like = next((each for each in found if each.event == line.event and each.once == line.once), None)
        if like is None:
            found.append(replace(line))
        else:
            like.count += line.count
    return [
        line.event if line.once and line.count == 1 else SelfComposedDpEvent(line.event, line.count)
        for line in found
        if line.count
    ]


def _rho(line: Release, whole: ZCDpEvent) -> float:
    if not isinstance(line.event, ZCDpEvent) or line.event.xi > whole.xi:
        raise AccountingError(f"{whole} does not cover {line.name}, which was recorded as {line.event}")
    return float(line.event.rho)


def pack(value: Any) -> Any:
    """Encode an event as plain values; AccountingError if it cannot be accounted for."""
    if isinstance(value, DpEvent):
        name = type(value).__name__
        if EVENTS.get(name) is not type(value):
            raise AccountingError(
                f"no accountant for the event {name}; allowed are {', '.join(sorted(EVENTS))}",
                field="event",
                value=name,
                allowed=tuple(sorted(EVENTS)),
            )
        fields = {each.name: pack(getattr(value, each.name)) for each in attr.fields(type(value))}
        return {"event": name, "fields": fields}
    if isinstance(value, list | tuple):
        return type(value)(pack(each) for each in value)
    return value


def unpack(value: Any) -> Any:
    """Decode what `pack` encoded."""
    if isinstance(value, dict):
        return EVENTS[value["event"]](**{name: unpack(each) for name, each in value["fields"].items()})
    if isinstance(value, list | tuple):
        return type(value)(unpack(each) for each in value)
    return value


class RecordedNoise(Noise):
    """Noise that records its releases."""

    def __init__(self, noise: Noise, releases: Releases, release: Release) -> None:
        self._noise, self._releases, self._line = noise, releases, release
        releases.declare(release.name)

    def start(self, weights: Sequence[Tensor], divisor: float) -> list[Tensor]:
        """See Noise."""
        return self._noise.start(weights, divisor)

    def finish(self, means: list[Tensor], divisor: float) -> None:
        """See Noise."""
        self._noise.finish(means, divisor)
        self.record(divisor)

    def record(self, divisor: float) -> Release:
        """Record one release."""
        line = self._line
        if not line.count or line.divisor != divisor:
            line = self._line = self._releases.line(replace(line, divisor=divisor))
        line.count += 1
        return line


class OpenNoise(RecordedNoise):
    """Noise that shows the clean sums to the run before noise is added, at the cost of extra passes."""

    def __init__(
        self, noise: Noise, releases: Releases, release: Release, recorder: "ReleaseRecorder"
    ) -> None:
        super().__init__(noise, releases, release)
        self._recorder = recorder

    def start(self, weights: Sequence[Tensor], divisor: float) -> list[Tensor]:
        """See Noise: zeros."""
        return [weight.detach().new_zeros(weight.shape) for weight in weights]

    def finish(self, means: list[Tensor], divisor: float) -> None:
        """See Noise."""

        def add_noise(sums: list[Tensor]) -> list[Tensor]:
            clean = [each.to(mean.dtype) for each, mean in zip(sums, means, strict=True)]
            return self._noise.noisy_mean(clean, divisor)

        sums = [mean.double() * divisor for mean in means]
        released = self._recorder.release(self.record(divisor), sums, add_noise)
        for mean, noisy in zip(means, released, strict=True):
            mean.copy_(noisy)


class ReleaseRecorder(ABC):
    """The part of methods.base.Run that records everything released about the members.

    A subclass can inspect every input and replace every output by overriding `release`; with `fused` = False
    that includes the clean sums of gradients.
    """

    fused: ClassVar[bool] = True
    """Whether noise and gradient sums are computed in one pass over memory, which hides the sums."""

    reads_ahead: ClassVar[bool] = False
    """Whether samplers may read ahead: then `generator` and checkpoints take care of `readers`."""

    def __init__(self) -> None:
        self.releases = Releases()
        self.readers: dict[torch.Generator, PoissonSampler | None] = {}
        """The sampler that has a stream for itself; None if it is shared."""
        self.trials: list[Trial] = []
        """The finished trials of a search."""
        self.current: Trial | None = None
        """The trial that is running; `releases` is then its own."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device of tensors."""

    @abstractmethod
    def generator(self, name: str, device: torch.device | None = None) -> torch.Generator:
        """The named random stream."""

    @abstractmethod
    def drawing(self) -> AbstractContextManager[None]:
        """Time a block as drawing."""

    def release(self, release: Release, clean: Value, mechanism: Callable[[Value], Output]) -> Output:
        """Apply a mechanism to a clean value.

        A subclass that replaces the output still calls the mechanism, so that random streams advance equally.
        """
        return mechanism(clean)

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
    ) -> base.Batches:
        """Batches of these records; see methods.base.Run."""
        count = len(members) if rows is None else len(rows)
        generator = self.generator(stream, HOST)
        if self.current is not None and kind == "poisson" and rate is None:
            # Of the expected number: how many records a trial really has is not public.
            rate = poisson_rate(self.current.members, batch_size)
        alone = self.reads_ahead and generator not in self.readers
        sampler = make_sampler(kind, count, batch_size, generator, device or self.device, rate, ahead=alone)
        if alone:
            self.readers[generator] = sampler if isinstance(sampler, PoissonSampler) else None
        return Batches(sampler, members, self.drawing, rows)

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
    ) -> base.Noise:
        """Gaussian noise for sums like the weights; see methods.base.Run."""
        release = Release(name, "l2", sensitivity, scale, 1.0, event)
        noise = SecureNoise(scale) if secure else SeededNoise(weights, scale, self.generator(stream, device))
        if self.fused:
            return RecordedNoise(noise, self.releases, release)
        return OpenNoise(noise, self.releases, release, self)

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
        """Release a value through a mechanism; see methods.base.Run."""
        generator = self.generator(stream, device)
        known = event if isinstance(event, DpEvent) else None
        offered = Release(name, norm, sensitivity, scale, divisor, known, once)
        released = self.release(offered, value, lambda clean: release(clean, generator))
        done = event if isinstance(event, DpEvent) else event(value, released)
        self.releases.line(replace(offered, event=done)).count += 1
        return released

    def public(self, name: str, value: Value) -> Value:
        """Return the value; a subclass that compares runs on neighbouring data inspects it."""
        return value

    def ledger(self, whole: DpEvent | None = None) -> DpEvent:
        """The ledger of all releases so far; see methods.base.Run."""
        if self.current is None and (self.trials or isinstance(whole, RepeatAndSelectDpEvent)):
            found = NoOpDpEvent() if whole is None else whole
            beside = [(line.event, line.count) for line in self.releases if line.event is not None]
            check_search(found, [trial.ledger for trial in self.trials], beside)
            return found
        if whole is None:
            found = self.releases.compose()
        else:
            self.releases.check_covered(whole)
            found = whole
        if self.current is not None:
            self.current.ledger = found
        return found
