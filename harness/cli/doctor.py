"""`privbench doctor`: what this machine has, data sets and plug-ins included, and what is missing."""

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import output
from harness.cli.options import JsonOption, StoreOption, WideOption, backend_names, store_path
from harness.cli.terminal.fitting import Layout
from workloads.errors import BackendError, BenchError, BrokenPlugin, SpecError, StoreError

if TYPE_CHECKING:
    from harness.backends.base import Finding
    from workloads.family import Family

NEEDED = (
    "torch",
    "opacus",
    "dp-accounting",
    "duckdb",
    "duckdb-sqlalchemy",
    "sqlalchemy",
    "pyarrow",
)
FOUND = Layout(keep=("what", "state", "found", "for"))


def doctor(
    profile: Annotated[
        Path | None, typer.Option("--profile", help="Check the requirements of a backend's profile instead.")
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend",
            help="Check a backend instead; default: the profile's.",
            autocompletion=backend_names,
        ),
    ] = None,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Check that the GPUs compute what the CPU does; minutes.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="With --gpu: only one minute of checks.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="With --gpu: write all measurements as JSON, to share.")
    ] = None,
    with_names: Annotated[
        bool, typer.Option("--with-names", help="With --out: keep UUIDs of GPUs, paths and host names.")
    ] = False,
    store: StoreOption = None,
    wide: WideOption = False,
    json: JsonOption = False,
) -> None:
    """Show what this machine has (packages, data sets, plug-ins) and what is missing for which feature."""
    if gpu:
        examine_gpus(quick, out, with_names, json, wide)
        return
    everything = profile is None and backend is None
    rows = examine(store_path(store)) if everything else examine_backend(backend, profile)
    output.listing(rows, json, FOUND, wide)
    if not everything and any(row["state"] == "missing" for row in rows):
        raise typer.Exit(1)


def examine(store: Path) -> list[dict[str, Any]]:
    """A row per requirement: what was found, and its use."""
    import platform
    import shutil

    import psutil

    from harness.backends import family

    rows = [
        _row("python", platform.python_version(), "everything"),
        _row("cores", _cores(), "one slot each for local jobs"),
        _row("memory", f"{psutil.virtual_memory().available / 2**30:.1f} GiB free", "training"),
        gpu_row(),
    ]
    for package in NEEDED:
        rows.append(_row(package, _version(package), "everything"))
    rows.append(store_row(store))
    for name in family.names():
        rows += [_finding_row(each, each.use, "not here") for each in family.get(name).parts()]
    rows += [*dataset_rows(), *plugin_rows()]
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    driver = importlib.util.find_spec("playwright") is not None
    rows.append(_row("chromium", browser, "the report's browser tests", needed=False))
    rows.append(_row("playwright", driver or None, "the report's browser tests", needed=False))
    return rows


def store_row(path: Path) -> dict[str, Any]:
    """Whether a store can be written at a path, and the space there."""
    import shutil

    from harness.store import Store

    use = f"results in {path}"
    try:
        folder = Store(path).check(writable=True)
    except StoreError as error:
        return {"what": "store", "state": "missing", "found": str(error), "for": use}
    return _row("store", f"{shutil.disk_usage(folder).free / 2**30:.1f} GiB free", use)


def dataset_rows() -> list[dict[str, Any]]:
    """A row per data set: where it was found, or the command that fetches it."""
    from workloads import data

    rows = []
    for name, each in sorted(data.family.members.items()):
        place = each.location()
        found = place or f"run `privbench data fetch {name}`"
        state = "good" if place else "not here"
        rows.append({"what": f"data set {name}", "state": state, "found": found, "for": each.about})
    return rows


def plugin_rows() -> list[dict[str, Any]]:
    """A row per entry point of another package: its package and version, or why it does not load."""
    from importlib import metadata

    import methods
    import workloads
    from harness import attacks, backends
    from workloads import data, features

    families: list[Family[Any]] = [methods.family, workloads.family, attacks.family, backends.family]
    families += [data.family, features.family]
    rows = []
    for family in families:
        for point in sorted(metadata.entry_points(group=f"privbench.{family.kind}s")):
            package = f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
            state, found = "good", f"{package} ({point.value})"
            try:
                family.get(point.name)
            except BenchError as error:  # does not load, or its name is taken
                reason = error.reason if isinstance(error, BrokenPlugin) else str(error)
                state, found = "broken", f"{found} does not load: {reason}"
            what = f"{family.kind} {point.name}"
            rows.append({"what": what, "state": state, "found": found, "for": "a plug-in"})
    return rows


def gpu_row() -> dict[str, Any]:
    """Whether the driver's tool and torch agree about GPUs: if not, training on them fails."""
    import torch

    from harness.backends.gpus import VISIBLE, cards, usable

    use = "GPU slots; without one, jobs run on the CPU"
    try:
        driver, allowed = len(cards()), usable()
    except BackendError as error:
        return {"what": "gpus", "state": "missing", "found": str(error), "for": use}
    seen = torch.cuda.device_count()
    limited = f", {VISIBLE} allows {len(allowed)}" if VISIBLE in os.environ else ""
    found = f"nvidia-smi sees {driver}{limited}, torch sees {seen}"
    if allowed and not seen:
        built_for = torch.version.cuda or "no CUDA"
        found += f": torch {torch.__version__} is built for {built_for}; install one that fits the driver"
    sliced = any(gpu.name.startswith("MIG-") for gpu in allowed)  # a process sees only the first
    agree = seen == len(allowed) or (sliced and seen > 0)
    state = "not here" if not (driver or seen) else "good" if agree else "missing"
    return {"what": "gpus", "state": state, "found": found, "for": use}


def examine_gpus(quick: bool, out: Path | None, with_names: bool, json: bool, wide: bool = False) -> None:
    """A row per check of the GPUs; exit code 1 if one failed."""
    from harness.selftest.cards import check_cards, nameless
    from harness.store.files import dump

    document = check_cards(quick)
    if out is not None:
        out.write_bytes(dump(document if with_names else nameless(document)))
    rows = [
        {
            "check": each["number"],
            "what": each["name"],
            "state": each["state"],
            "found": each["message"] or _measured(each["figures"]),
        }
        for each in document["findings"]
    ]
    output.listing(rows, json, FOUND, wide)
    if any(row["state"] == "failed" for row in rows):
        raise typer.Exit(1)


def _measured(figures: dict[str, Any]) -> str:
    """The first numbers of a check; all of them are in the file of --out."""
    numbers = [
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in figures.items()
        if isinstance(value, str | int | float)
    ]
    return ", ".join(numbers[:4])


def examine_backend(backend: str | None, file: Path | None) -> list[dict[str, Any]]:
    """A row per requirement of a backend's jobs; SpecError if the profile is wrong."""
    from harness.backends import family
    from harness.cli.options import settings_for

    name = backend or whose_profile(file)
    profile = settings_for(name, file).profile
    use = f"the backend {name}" if file is None else str(file)
    return [_finding_row(each, use, "missing") for each in family.get(name).check(profile)]


def whose_profile(file: Path | None) -> str:
    """The backend that a profile is for: the one that finds the fewest mistakes in it.

    SpecError if it could be for several.
    """
    from harness.backends import DEFAULT, family
    from harness.backends.profile import mistakes

    if file is None:
        return DEFAULT
    kinds = {name: family.get(name).Profile for name in family.names()}
    found = {name: mistakes(kind, file) for name, kind in kinds.items() if kind is not None}
    fewest = min(map(len, found.values()))
    nearest = [name for name, problems in found.items() if len(problems) == fewest]
    if len(nearest) > 1:
        raise SpecError(f"{file} could be a profile of {' or '.join(nearest)}: give --backend")
    return nearest[0]


def _finding_row(finding: "Finding", use: str, absent: str) -> dict[str, Any]:
    state = "good" if finding.good else absent
    return {"what": finding.what, "state": state, "found": finding.found, "for": use}


def _row(name: str, found: object, use: str, needed: bool = True) -> dict[str, Any]:
    state = "good" if found else "missing" if needed else "not here"
    return {"what": name, "state": state, "found": None if not found else str(found), "for": use}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
