"""Check that a test fails for every rule of evidence that is switched off: `make mutations`.

    python -m tests.campaigns.mutations [--rule "resolution guard"]

The checkout is copied. All named tests must pass on the copy; then every mutation of mutations.py is applied
to it, alone, and its test must fail. Prints a line for each; exit code 1 if a mutation survived, could not be
applied or kept its test from running.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.campaigns.mutations.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[3]
CAUGHT = "caught"


def say(line: str) -> None:
    """Print a line and flush."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the files of the checkout that git tracks or would add."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="privbench-mutations-") as folder:
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():  # not one whose deletion is not committed yet
                target = Path(folder) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
        yield Path(folder)


def run_tests(checkout: Path, tests: Sequence[str]) -> tuple[int, str]:
    """pytest's exit code and output for some tests of a checkout, in a process that imports from it."""
    # Without bytecode caches: one from the same second and of the same size would hide the changed source.
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def find_fault(checkout: Path, tests: Iterable[str]) -> str | None:
    """Why the tests cannot catch anything: they do not all pass without a mutation."""
    code, output = run_tests(checkout, sorted(set(tests)))
    if code != pytest.ExitCode.OK:
        return output
    return output if "skipped" in output.splitlines()[-1] else None


def try_out(mutation: Mutation, checkout: Path) -> str:
    """Apply a mutation to a checkout, run its test, revert it; return the outcome."""
    file = checkout / mutation.file
    before = file.read_text(encoding="utf-8")
    if before.count(mutation.text) != 1:
        return f"NOT MADE: its text occurs {before.count(mutation.text)} times in {mutation.file}"
    file.write_text(before.replace(mutation.text, mutation.replacement), encoding="utf-8")
    try:
        code, output = run_tests(checkout, [mutation.test])
    finally:
        file.write_text(before, encoding="utf-8")
    if code == pytest.ExitCode.OK:
        return "NOT CAUGHT"
    if code == pytest.ExitCode.TESTS_FAILED and "\nFAILED " in output:
        return CAUGHT
    return f"BROKEN: the test could not run, exit code {code}\n{output}"


def campaign(mutations: Sequence[Mutation]) -> int:
    """Try all mutations; return the exit code."""
    begin, missed = time.monotonic(), 0
    with copied() as checkout:
        fault = find_fault(checkout, (mutation.test for mutation in mutations))
        if fault is not None:
            say(f"the tests do not all pass without any mutation:\n{fault}")
            return 1
        say("| rule | mutation | test | outcome |\n|---|---|---|---|")
        for mutation in mutations:
            outcome = try_out(mutation, checkout)
            missed += outcome != CAUGHT
            test = mutation.test.rpartition("::")[2]
            say(f"| {mutation.rule} | {mutation.change} | {test} | {outcome} |")
    caught, seconds = len(mutations) - missed, time.monotonic() - begin
    say(f"mutations: {caught} of {len(mutations)} caught, {seconds:.0f} s")
    return 1 if missed else 0


def main(words: list[str] | None = None) -> int:
    """Read the command line and run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    rules = list(dict.fromkeys(mutation.rule for mutation in MUTATIONS))
    parser.add_argument("--rule", choices=rules, metavar="NAME", help=f"one of: {', '.join(rules)}")
    asked = parser.parse_args(words).rule
    return campaign([mutation for mutation in MUTATIONS if asked in (None, mutation.rule)])


if __name__ == "__main__":
    raise SystemExit(main())
