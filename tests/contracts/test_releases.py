"""The contract of private methods: everything is released through the run, and the ledger lists it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import methods
from harness.checks.contract import Check
from harness.checks.method_contract import CheckedMethod
from harness.checks.release_contract import RELEASES
from tests.contracts.held import hold
from tests.contracts.test_methods import own_cache

__all__ = ["own_cache"]

PRIVATE = [
    name for name in methods.family.names() if methods.family.get(name).guarantee not in ("none", "empirical")
]
every_private_method = pytest.mark.parametrize("name", PRIVATE)


@pytest.mark.parametrize("check", RELEASES, ids=lambda check: check.name)
@every_private_method
def test_it_holds_its_contract(name: str, check: Check[CheckedMethod]) -> None:
    hold(check, CheckedMethod(name))


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
    "candidates": "private-search: the candidate of each trial",
    "halves": "memguard: which members train the shadow",
    "holdout": "private-search: which members are held out",
    "labels": "dp-gan: labels of generated examples",
    "latent": "dp-gan: latent numbers",
    "partition": "pd-sgd: the batches",
    "queries": "pate: which public examples are queries",
    "reference": "advreg: which members are set aside",
    "rejection": "pd-sgd: the ablation that rejects by chance",
    "shards": "pate: which members train which teacher",
    "synthetic": "dp-gan: the classifier's examples",
    "teachers": "pate: batches of the teachers",
    "trials": "private-search: the number of trials",
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
