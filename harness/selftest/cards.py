"""Check all cards, each in a process started like a worker."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.backends import gpus
from harness.backends.base import program
from harness.selftest.numbered import ALL_CARDS, QUICK_NUMBERS, SINGLE_NUMBERS
from harness.spec import Json
from workloads.errors import BackendError

SECONDS = 3600.0
"""Timeout of a process."""
PRIVATE_FIGURES = ("gpu_uuid",)
"""Figures that identify a card."""


def check_cards(quick: bool, environment: Mapping[str, str] = os.environ) -> Json:
    """Check the first card in full and all of them at once; return a report.

    BackendError if there is no card.
    """
    found = gpus.usable(environment)
    if not found:
        raise BackendError(
            f"no GPU to check: nvidia-smi shows {len(gpus.cards())}; {gpus.VISIBLE} and "
            f"{gpus.DEVICE} can hide one"
        )
    numbers = QUICK_NUMBERS if quick else SINGLE_NUMBERS
    findings = _read(_start(found[0].name, numbers, environment))
    if not quick:
        findings.append(_all_at_once([gpu.name for gpu in found], environment))
    cards = [{"model": card.model, "exclusive": card.exclusive} for card in gpus.cards()]
    return {"python": platform.python_version(), "gpus": len(found), "cards": cards, "findings": findings}


def _start(gpu: str, numbers: Sequence[int], environment: Mapping[str, str]) -> "subprocess.Popen[str]":
    command = [*program("harness.selftest"), *map(str, numbers)]
    return subprocess.Popen(
        command,
        env=gpus.for_device(environment, gpu),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _read(process: "subprocess.Popen[str]") -> list[Json]:
    """The findings of a process, with one for a crash."""
    out, errors = process.communicate(timeout=SECONDS)
    found: list[Json] = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if not found or process.returncode < 0:
        why = f"the process ended with exit code {process.returncode}: {errors.strip()[-500:]}"
        found.append({"number": 0, "name": "the process", "state": "failed", "message": why, "figures": {}})
    return found


def _all_at_once(names: Sequence[str], environment: Mapping[str, str]) -> Json:
    """Run one check on every card at the same time: each process must see its own card."""
    running = [_start(name, (1,), environment) for name in names]
    seen = [finding["figures"].get("gpu_uuid") for process in running for finding in _read(process)]
    good = None not in seen and len(set(seen)) == len(names)
    message = None if good else f"{len(names)} processes with a card each saw {seen}"
    state = "passed" if good else "failed"
    figures = {"processes": len(names), "different_cards": len(set(seen) - {None})}
    return {"number": 12, "name": ALL_CARDS, "state": state, "message": message, "figures": figures}


def nameless(document: Json) -> Json:
    """The report without what identifies the machine, for sharing."""
    findings = [
        {
            **finding,
            "figures": {
                name: value for name, value in finding["figures"].items() if name not in PRIVATE_FIGURES
            },
            "traceback": _without_paths(finding.get("traceback")),
            "message": _without_paths(finding.get("message")),
        }
        for finding in document["findings"]
    ]
    return {**document, "findings": findings}


def _without_paths(text: str | None) -> str | None:
    home = str(Path.home())
    package = str(Path(__file__).resolve().parents[2])
    return text and text.replace(package, "PRIVBENCH").replace(home, "HOME").replace(platform.node(), "HOST")
