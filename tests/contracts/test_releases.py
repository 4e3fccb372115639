"""The contract of private methods: everything is released through the run, and the ledger lists it."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from dp_accounting import ZCDpEvent
from torch import Tensor

import methods
from harness.accounting.ledger import count_releases, expand
from harness.jobs.releases import Release
from harness.jobs.run import Run
from methods.base import Released
from tests.contracts.test_methods import CPU, PROBLEM, bits, equal, own_cache, people, small

__all__ = ["own_cache"]

PRIVATE = [
    name for name in methods.family.names() if methods.family.get(name).guarantee not in ("none", "empirical")
]
every_private_method = pytest.mark.parametrize("name", PRIVATE)

NOISE = ("noise", "comparison", "validation-noise", "normalisation", "normalisers")
"""The random streams of mechanisms."""


class Tape(Run):
    """Records inputs and outputs of every mechanism; given another tape, replays its outputs.

    Its own noise then differs: whatever is equal at the end is equal because of the replayed outputs.
    """

    fused = False

    def __init__(self, answers: "Tape | None" = None) -> None:
        self.other = "other " if answers else ""
        super().__init__("seed", CPU)
        self.entries: list[Release] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.public_values: list[tuple[str, Any]] = []
        self.answers = iter(answers.outputs) if answers else None

    def seed(self, name: str) -> int:
        return super().seed(self.other + name if name.removeprefix("stream/") in NOISE else name)

    def release(self, release: Release, clean: Any, answer: Callable[[Any], Any]) -> Any:
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
        self.public_values.append((name, value))
        return value


def copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return [copied(each) for each in value] if isinstance(value, list) else value


def flat(value: Any) -> list[Any]:
    return [each for part in value for each in flat(part)] if isinstance(value, list) else [value]


def same(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, Tensor) else bool(one == other)


def train(name: str, run: Run) -> Released:
    method = methods.family.get(name)
    return method.train(people(40), PROBLEM, small(method, 40), run)


@every_private_method
def test_releases_of_another_run_make_the_same_predictor(name: str) -> None:
    recorded = Tape()
    first = train(name, recorded)
    assert recorded.entries
    replayed = Tape(answers=recorded)
    second = train(name, replayed)
    assert equal(first, second)
    assert [entry.name for entry in replayed.entries] == [entry.name for entry in recorded.entries]
    assert replayed.public_values == recorded.public_values
    inputs = zip(flat(recorded.inputs), flat(replayed.inputs), strict=True)
    assert all(same(one, other) for one, other in inputs), "the same members and outputs, the same inputs"

    unlike = Tape(answers=recorded)
    unlike.answers = None  # with the other noise
    assert not all(map(torch.equal, bits(first), bits(train(name, unlike))))


@every_private_method
def test_the_ledger_has_an_entry_for_every_release(name: str) -> None:
    run = Tape()
    ledger = train(name, run).ledger
    if isinstance(ledger, ZCDpEvent):  # a budget, spent or not
        spent = sum(line.count * line.event.rho for line in run.releases if line.event)
        assert 0 < spent <= ledger.rho * (1 + 1e-9)
        assert sum(line.count for line in run.releases) == len(run.entries)
        return
    weights = {line.name: count_releases(expand(line.event)) for line in run.releases}
    assert sum(weights[entry.name] for entry in run.entries) == count_releases(expand(ledger))


@every_private_method
def test_every_entry_states_its_sensitivity_to_one_member(name: str) -> None:
    run = Tape()
    train(name, run)
    for entry in run.entries:
        assert 0 < entry.sensitivity < torch.inf
        assert 0 < entry.scale < torch.inf
        assert entry.divisor > 0


# -- nothing beside the run --------------------------------------------------------------------

METHODS = Path(methods.__file__).parent
ROOMS = ("gradients", "mechanisms", "training")
"""Files that define samplers and mechanisms."""
DRAWS = {
    *("randn", "randn_like", "normal", "normal_", "log_normal_", "cauchy_", "exponential_", "geometric_"),
    *("_standard_gamma", "rand_like", "uniform_", "bernoulli", "bernoulli_", "poisson", "multinomial"),
    *("Normal", "Laplace", "Gumbel", "urandom", "secure_normal"),
}
"""Calls that draw noise."""
MADE = {"PoissonSampler", "FixedSizeSampler", "ShuffleSampler", "SeededNoise", "SecureNoise"}
"""What only the run creates."""
NOT_RELEASES = {
    ("advreg/adversary.py", "normal_"): "initial weights of the adversary",
    ("dp_gan/generator.py", "randn"): "the latent numbers of generated examples",
    ("dirdp_sgd/directions.py", "randn"): "the von Mises-Fisher mechanism, which the run is given",
    ("dirdp_sgd/directions.py", "_standard_gamma"): "the same",
}
OWN_STREAMS = {
    "absences": "selena: which members each sub-model holds out",
    "anomaly": "pd-sgd: the flipped labels of an experiment",
    "augmentation": "dp-sgd: views of a record",
    "halves": "memguard: which members train the shadow",
    "labels": "dp-gan: labels of generated examples",
    "latent": "dp-gan: latent numbers",
    "partition": "pd-sgd: the batches",
    "queries": "pate: which public examples are queries",
    "reference": "advreg: which members are set aside",
    "rejection": "pd-sgd: the ablation that rejects by chance",
    "shards": "pate: which members train which teacher",
    "synthetic": "dp-gan: the classifier's examples",
    "teachers": "pate: batches of the teachers",
}
"""The random streams that methods use directly; those of mechanisms and samplers are used by the run."""


def calls(file: Path) -> Iterator[tuple[str, ast.Call]]:
    """Every call in a file, by the last part of its name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield name, node


def sources() -> list[tuple[str, Path]]:
    """Every file of a method of this repository."""
    files = ((str(file.relative_to(METHODS)), file) for file in METHODS.rglob("*.py"))
    return [(name, file) for name, file in files if not name.startswith(ROOMS)]


def test_methods_make_no_noise_and_no_samplers_themselves() -> None:
    found = {(where, name) for where, file in sources() for name, _ in calls(file) if name in DRAWS | MADE}
    assert found == set(NOT_RELEASES), "use run.noise, run.mechanism or run.sampler"


def test_methods_ask_for_no_stream_of_a_mechanism() -> None:
    everywhere = [
        *sources(),
        *((f"training/{each.name}", each) for each in (METHODS / "training").glob("*.py")),
    ]
    asked = {
        node.args[0].value
        for _, file in everywhere
        for name, node in calls(file)
        if name == "generator" and node.args and isinstance(node.args[0], ast.Constant)
    }
    assert asked == set(OWN_STREAMS)
