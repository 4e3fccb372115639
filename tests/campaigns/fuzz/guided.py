"""Coverage-guided fuzzing by atheris, of the parsers of data sets, specs and results.

    python -m tests.campaigns.fuzz.guided --target idx --runs 20000

The targets and the requirement of campaign.py, with inputs that libFuzzer derives from valid ones. Atheris is
not a dependency: it is not available for every platform, and only this module needs it. The first failing
input is printed, with a traceback and exit code 77.
"""

import argparse
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INSTRUMENTED = [
    "workloads.data",
    "harness.store.files",
    "harness.spec",
    "harness.store",
    "harness.plan.estimate",
]
"""The modules whose branches guide the inputs."""


@dataclass(frozen=True)
class Guided:
    """A target of the campaign, and how bytes become its input."""

    target: str
    names: Sequence[str] = ()
    """File names that the first byte chooses from; without, all bytes are the input."""

    def input(self, data: bytes) -> Any:
        """The input of the target."""
        if not self.names:
            return data
        return self.names[sum(data[:1]) % len(self.names)], data[1:]

    def seed(self, good: Any) -> bytes:
        """The bytes of an input of the target."""
        return bytes([self.names.index(good[0])]) + good[1] if self.names else bytes(good)


GUIDED: Mapping[str, Guided] = {
    "idx": Guided(
        "idx files",
        (
            "train-images-idx3-ubyte.gz",
            "train-labels-idx1-ubyte.gz",
            "t10k-images-idx3-ubyte.gz",
            "t10k-labels-idx1-ubyte.gz",
        ),
    ),
    "cifar": Guided("cifar batches", ("data_batch_1.bin", "data_batch_1", "test_batch")),
    "location": Guided("bits", ("bangkok", "dataset_location.tgz")),
    "imdb": Guided("reviews", ("aclImdb_v1.tar.gz", "aclImdb_v1.tar")),
    "pickles": Guided("pickles"),
    "spec": Guided("spec file"),
    "result": Guided("result file"),
}


def load(atheris: Any, name: str) -> Any:
    """The target of this name, with the program's modules instrumented on import."""
    with atheris.instrument_imports(include=INSTRUMENTED):
        from tests.campaigns.fuzz.targets import TARGETS
    return next(target for target in TARGETS if target.name == name)


def attempts(attempt: Callable[[bytes], str], runs: int) -> Callable[[bytes], None]:
    """Try inputs, and print the outcomes after the last one: libFuzzer does not return."""
    ends: Counter[str] = Counter()

    def one(data: bytes) -> None:
        ends[attempt(data)] += 1
        if ends.total() == runs:
            outcomes = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
            print(f"{runs} inputs: {outcomes}, none outside the store", flush=True)  # noqa: T201

    return one


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 if no input found a bug, 2 if atheris is missing."""
    parser = argparse.ArgumentParser(prog="tests.campaigns.fuzz.guided", description=__doc__)
    parser.add_argument("--target", choices=list(GUIDED), required=True)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    try:
        import atheris
    except ImportError:
        print("this needs atheris: python -m pip install atheris", file=sys.stderr)  # noqa: T201
        return 2
    guided = GUIDED[asked.target]
    target = load(atheris, guided.target)
    logging.disable(logging.WARNING)  # warnings about every damaged file would hide the counts
    with tempfile.TemporaryDirectory() as folder:
        from tests.campaigns.fuzz.ground import Ground

        root = Path(folder)
        (root / "ground").mkdir()
        (root / "corpus").mkdir()
        (root / "corpus" / "good").write_bytes(guided.seed(target.good))
        ground = Ground(root / "ground", target.fill)
        one = attempts(lambda data: target.attempt(ground, guided.input(data)), asked.runs)
        options = [
            f"-runs={asked.runs}",
            f"-seed={asked.seed}",
            "-max_len=20000",
            f"-artifact_prefix={root}/",
        ]
        atheris.Setup([sys.argv[0], *options, str(root / "corpus")], one)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
