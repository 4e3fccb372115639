"""The contract of private methods: everything is released through the run, and the ledger lists it."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from dp_accounting import ZCDpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from torch import Tensor

from harness.accounting.ledger import count_releases, expand
from harness.checks.contract import Contract, Skipped, demand, part_of
from harness.checks.method_contract import (
    MEMBERS,
    CheckedMethod,
    bits,
    equal,
    make_records,
    problem_on,
    quick_params,
)
from harness.jobs.releases import Release
from harness.jobs.run import Run
from methods.base import Released
from workloads.devices import CPU

RELEASES: Contract[CheckedMethod] = []


class Tape(Run):
    """Records inputs and outputs of every mechanism; given another tape, replays its outputs.

    The noise of a replay differs: whatever is equal at the end is equal because of the replayed outputs.
    """

    fused = False

    def __init__(self, answers: "Tape | None" = None) -> None:
        self.renamed = answers.streams if answers else set()
        self.streams: set[str] = set()
        super().__init__("seed", CPU)
        self.entries: list[Release] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.public_values: list[tuple[str, Any]] = []
        self.answers = iter(answers.outputs) if answers else None

    def seed(self, name: str) -> int:
        """Another seed for the streams of mechanisms in a replay."""
        stream = name.removeprefix("stream/")
        return super().seed(f"other {name}" if stream in self.renamed else name)

    def noise(self, *given: Any, stream: str = "noise", **more: Any) -> Any:
        """See Run; notes the stream."""
        self.streams.add(stream)
        return super().noise(*given, stream=stream, **more)

    def mechanism(self, *given: Any, stream: str = "noise", **more: Any) -> Any:
        """See Run; notes the stream."""
        self.streams.add(stream)
        return super().mechanism(*given, stream=stream, **more)

    def release(self, release: Release, clean: Any, answer: Callable[[Any], Any]) -> Any:
        """Record a release, or replay it."""
        if isinstance(clean, Iterator):
            clean = list(clean)
        self.entries.append(release)
        self.inputs.append(copied(clean))
        released = answer(clean)
        if self.answers is not None:
            released = copied(next(self.answers))
        self.outputs.append(copied(released))
        return released

    def public(self, name: str, value: Any) -> Any:
        """Record a public value."""
        self.public_values.append((name, value))
        return value


def copied(value: Any) -> Any:
    """A copy of tensors in lists."""
    if isinstance(value, Tensor):
        return value.clone()
    return [copied(each) for each in value] if isinstance(value, list) else value


def flat(value: Any) -> list[Any]:
    """The values of nested lists."""
    return [each for part in value for each in flat(part)] if isinstance(value, list) else [value]


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal."""
    return torch.equal(one, other) if isinstance(one, Tensor) else bool(one == other)


def train_on(subject: CheckedMethod, run: Run) -> Released:
    """Train a private method with this run; the check is skipped for one without a guarantee."""
    if subject.member.guarantee in ("none", "empirical"):
        raise Skipped("it has no guarantee")
    params = quick_params(subject.member, MEMBERS)
    return subject.member.train(make_records(MEMBERS), problem_on(CPU), params, run)


@part_of(
    RELEASES,
    "releases make the model",
    "the same releases make the same model whatever noise was drawn: nothing else of the members leaves",
    "compute the model from what run.noise and run.mechanism return, and from run.public values",
)
def releases_make_the_model(subject: CheckedMethod) -> None:
    """Replayed releases give the same predictor."""
    recorded = Tape()
    first = train_on(subject, recorded)
    demand(bool(recorded.entries), "it released nothing through run.noise or run.mechanism")
    replayed = Tape(answers=recorded)
    second = train_on(subject, replayed)
    demand(equal(first, second), "the same releases made another model")
    names = [[entry.name for entry in tape.entries] for tape in (recorded, replayed)]
    demand(names[0] == names[1], "the same releases led to other releases")
    demand(replayed.public_values == recorded.public_values, "values declared by run.public differ")
    inputs = zip(flat(recorded.inputs), flat(replayed.inputs), strict=True)
    demand(all(same(one, other) for one, other in inputs), "the inputs of mechanisms differ")
    unlike = Tape(answers=recorded)
    unlike.answers = None  # with the other noise
    differs = not all(map(torch.equal, bits(first), bits(train_on(subject, unlike))))
    demand(differs, "other noise made the same model")


@part_of(
    RELEASES,
    "the ledger lists every release",
    "the ledger composes an event for each release of the run",
    "return run.ledger()",
)
def ledger_lists_releases(subject: CheckedMethod) -> None:
    """As many releases in the ledger as in the run."""
    run = Tape()
    ledger = train_on(subject, run).ledger
    if isinstance(ledger, ZCDpEvent):  # a budget, spent or not
        spent = sum(line.count * line.event.rho for line in run.releases if line.event)
        demand(0 < spent <= ledger.rho * (1 + 1e-9), f"the run spent rho = {spent}, the ledger {ledger.rho}")
        made = sum(line.count for line in run.releases)
        demand(made == len(run.entries), f"the run counts {made} releases of {len(run.entries)}")
        return
    if isinstance(ledger, RepeatAndSelectDpEvent):  # checked against every trial by run.ledger
        listed = sum(count_releases(expand(trial.ledger)) for trial in run.trials)
        listed += sum(line.count for line in run.releases)
        demand(len(run.entries) == listed, f"{len(run.entries)} releases, the trials' ledgers list {listed}")
        return
    weights = {line.name: count_releases(expand(line.event)) for line in run.releases}
    made, listed = sum(weights[entry.name] for entry in run.entries), count_releases(expand(ledger))
    demand(made == listed, f"the run made {made} releases, the ledger lists {listed}")


@part_of(
    RELEASES,
    "sensitivities are stated",
    "every release has a finite sensitivity to one member, a finite scale of noise and a divisor",
    "clip what is released, and give sensitivity and scale to run.noise or run.mechanism",
)
def states_sensitivities(subject: CheckedMethod) -> None:
    """Positive and finite."""
    run = Tape()
    train_on(subject, run)
    for entry in run.entries:
        found = f"{entry.name}: sensitivity {entry.sensitivity}, scale {entry.scale}, divisor {entry.divisor}"
        good = 0 < entry.sensitivity < torch.inf and 0 < entry.scale < torch.inf and entry.divisor > 0
        demand(good, found)
