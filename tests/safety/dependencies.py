"""Dependencies: the licences of everything installed, and the hashes of all its published files.

    python -m tests.safety.dependencies licences              write LICENCES.md
    python -m tests.safety.dependencies lock INDEX            write requirements.lock from a package index
    python -m tests.safety.dependencies verify                download every pinned file and check its hash

The only vendored file in this repository is the page's plotly.js: `VENDORED` has its version and hash.
`constraints.txt` pins the versions; `requirements.lock` adds the hashes of all their files. torch is not in
it: its build depends on the machine.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote
from urllib.request import urlopen

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS, LOCK, LICENCES = (
    ROOT / name for name in ("constraints.txt", "requirements.lock", "LICENCES.md")
)
BY_MACHINE = ("torch",)
"""Packages whose file depends on the machine: CPU and CUDA builds of one version have different hashes."""
GPU_MAKERS = ("nvidia-", "cuda-", "triton")
"""What a CUDA build of torch installs, under its vendor's terms."""
FAMILIES = {
    "MIT": ("MIT",),
    "BSD": ("BSD", "Kiwi", "Copyright (c) 2015, matplotlib project"),
    "Apache": ("Apache",),
    "ISC": ("ISC",),
    "PSF": ("PSF", "Python Software Foundation", "CNRI"),
    "MPL (weak copyleft)": ("MPL",),
    "LGPL (weak copyleft)": ("LGPL",),
}
"""Licences compatible with ours, by parts of their names."""


@dataclass(frozen=True)
class Vendored:
    """A third-party file in this repository, identical to the one in its publisher's package."""

    package: str
    """In the npm registry: `npm pack NAME@VERSION` gives the file to compare with or to update to."""
    version: str
    licence: str
    file: Path
    sha256: str

    @property
    def terms(self) -> Path:
        """The text of its licence, beside it."""
        return self.file.with_name(self.file.name.replace(".min.js", ".LICENSE.txt"))

    def is_whole(self) -> bool:
        """Whether the file is the published one, byte for byte."""
        return hashlib.sha256(self.file.read_bytes()).hexdigest() == self.sha256


VENDORED = (
    Vendored(
        "plotly.js-basic-dist-min",
        "4.1.1",
        "MIT",
        ROOT / "harness/report/page/vendor/plotly-basic-4.1.1.min.js",
        "99784e3abfb07b142a15e521a439e6d9addceadb3f79553fd24c72774f0649ba",
    ),
)
LINK = re.compile(r'href="[^"#]*/([^"/#]+)#sha256=([0-9a-f]{64})"')
OPTIONS = ["--require-hashes", "--no-deps", "--quiet", "--requirement", str(LOCK)]


def pins() -> dict[str, str]:
    """Name to version, as in constraints.txt."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name): version.strip() for name, version in pairs}


def licence_of(installed: Distribution) -> str:
    """The licence as stated by its publisher: an SPDX expression, a short text, or the classifiers."""
    metadata = {name: installed.metadata.get_all(name) or [""] for name in ("License-Expression", "License")}
    classes = installed.metadata.get_all("Classifier") or []
    words = [each.rpartition(" :: ")[2] for each in classes if "License ::" in each]
    stated = metadata["License-Expression"][0] or metadata["License"][0]
    if "\n" in stated or stated in ("", "UNKNOWN"):  # the whole text of a licence, or none
        stated = ", ".join(words) or stated.strip().split("\n")[0]
    return stated or "not stated"


def families_of(licence: str) -> list[str]:
    """The families that a licence's name belongs to; empty if it is unknown."""
    return [family for family, marks in FAMILIES.items() if any(mark in licence for mark in marks)]


def closure(name: str, extras: Sequence[str] = ()) -> dict[str, Distribution]:
    """A distribution and everything it needs here, by name."""
    found: dict[str, Distribution] = {}
    pending = [(canonicalize_name(name), tuple(extras))]
    while pending:
        each, wanted = pending.pop()
        if each in found or each.startswith(GPU_MAKERS):
            continue
        try:
            found[each] = distribution(each)
        except PackageNotFoundError:  # an extra that is not installed
            continue
        for line in found[each].requires or []:
            needed = Requirement(line)
            places = [{"extra": extra} for extra in (*wanted, "")]
            if needed.marker is None or any(needed.marker.evaluate(place) for place in places):
                pending.append((canonicalize_name(needed.name), tuple(needed.extras)))
    del found[canonicalize_name(name)]
    return found


def write_licences() -> None:
    """LICENCES.md, from what is installed."""
    core = closure("privbench")
    every = closure("privbench", ("slurm", "postgres", "notebook", "features", "dev"))
    rows = [
        f"| {name} | {each.version} | {licence_of(each)} | {'core' if name in core else 'extra or tool'} |"
        for name, each in sorted(every.items())
    ]
    rows += [f"| {each.package} | {each.version} | {each.licence} | core, vendored |" for each in VENDORED]
    head = (
        "# Licences of what privbench needs\n\nWritten by `make licences` from the packages' own statements. "
        "privbench itself is MIT (LICENSE). pip installs them; what is marked as vendored is part of "
        "this repository and of the wheel, with its licence beside it (harness/report/page/vendor).\n"
        "A CUDA build of torch also brings NVIDIA's libraries, under NVIDIA's terms.\n\n"
        "| package | version | licence | needed for |\n| --- | --- | --- | --- |\n"
    )
    LICENCES.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")


def hashes_of(name: str, version: str, page: str) -> Iterator[str]:
    """The SHA-256 of every file of a version that an index's page lists."""
    for quoted, digest in LINK.findall(page):
        file = unquote(quoted)
        try:
            parsed = (
                parse_wheel_filename(file)[:2] if file.endswith(".whl") else parse_sdist_filename(file)[:2]
            )
        except (InvalidWheelFilename, InvalidSdistFilename):  # an old kind of file, which pip would not take
            continue
        if (parsed[0], str(parsed[1])) == (name, version):
            yield digest


def write_lock(index: str) -> None:
    """requirements.lock, from the pages of an index; every pinned version must be there."""
    lines = [
        "# Written by tests/safety/dependencies.py; `make verify-dependencies` checks an index against it."
    ]
    for name, version in sorted(pins().items()):
        if name in BY_MACHINE:
            continue
        with urlopen(f"{index.rstrip('/')}/{name}/") as response:
            found = sorted(set(hashes_of(name, version, response.read().decode())))
        if not found:
            raise SystemExit(f"{index} has no file of {name} {version}")
        lines.append(" \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{each}" for each in found)]))
    LOCK.write_text("\n".join(lines) + "\n", encoding="utf-8")


def verify() -> int:
    """Whether every pinned file that pip finds from here has one of the published hashes; 0 where all do.

    What is vendored is checked without a download.
    """
    broken = [each.file.name for each in VENDORED if not each.is_whole()]
    if broken:
        raise SystemExit(f"not as published: {', '.join(broken)}")
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([sys.executable, "-m", "pip", "download", "-d", folder, *OPTIONS]).returncode


def main(arguments: Sequence[str]) -> int:
    """See the top of this file."""
    match arguments:
        case ["licences"]:
            write_licences()
        case ["lock", index]:
            write_lock(index)
        case ["verify"]:
            return verify()
        case _:
            raise SystemExit(__doc__)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
