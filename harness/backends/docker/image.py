"""Images of the docker backend: build from a checkout, list, check.

The host's pip downloads the wheels with its configured index, mirror or proxy; the image installs them
without a network, so that nothing of the host's configuration gets into the image.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness.backends.base import Finding
from harness.backends.docker import daemon
from harness.backends.docker.docker import default_image
from harness.backends.gpus import usable
from harness.jobs.checkout import git_state
from workloads.errors import BackendError, SpecError

Row = dict[str, Any]
PACKAGES = ("db", "harness", "methods", "privbench", "workloads")
TITLE = "org.opencontainers.image.title"
BUILD_SECONDS = 3600.0
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)), "manylinux2014_x86_64")
"""Platform tags of wheels for another Python; pip takes only those that are listed."""
CUDA = "13.0"
"""CUDA of the pinned torch on PyPI, which does not support cards before Turing."""
CUDA_BASES = {
    "13.0": "nvidia/cuda:13.0.2-base-ubuntu24.04",
    "12.6": "nvidia/cuda:12.6.3-base-ubuntu24.04",
}
"""Base images by CUDA version; each refuses to start on a driver that is too old for it."""


@dataclass(frozen=True)
class Recipe:
    """The ingredients of an image."""

    source: Path
    """A checkout of privbench."""
    cuda: bool = False
    base: str | None = None
    """The base image; by default Python's, or one of CUDA_BASES."""
    python: str = PYTHON
    """The base image's Python, e.g. 3.12."""
    tag: str | None = None
    index: str | None = None
    """The URL of torch's index for another CUDA version; it ends in cu and the version, e.g. /cu126."""

    @property
    def folder(self) -> Path:
        """The folder of the wheels."""
        return self.source / "build" / "image"

    @property
    def name(self) -> str:
        """The image's name."""
        return self.tag or default_image(self.cuda)

    @property
    def cuda_version(self) -> str:
        """The CUDA version of torch, from the end of the index's URL."""
        if self.index is None:
            return CUDA
        match = re.search(r"/cu(\d\d)(\d)/?$", self.index)
        if match is None:
            raise SpecError(
                f"--index {self.index}: give the URL of torch's index for a CUDA version, which ends in "
                "/cu126 or the like, or leave it out",
                field="--index",
                value=self.index,
            )
        return f"{match[1]}.{match[2]}"

    @property
    def base_image(self) -> str:
        """The base image."""
        if self.base is not None:
            return self.base
        if not self.cuda:
            return f"python:{self.python}-slim"
        if self.cuda_version not in CUDA_BASES:
            known = ", ".join(CUDA_BASES)
            raise SpecError(
                f"no base image for CUDA {self.cuda_version} ({known}): give --base",
                field="--index",
                value=self.cuda_version,
                allowed=tuple(CUDA_BASES),
            )
        return CUDA_BASES[self.cuda_version]


def prepare(recipe: Recipe) -> None:
    """Collect the wheels of an image; libraries are downloaded again only if the requirements changed."""
    if not (recipe.source / "docker" / "Dockerfile").is_file():
        raise SpecError(
            f"{recipe.source} is not a checkout of privbench (no docker/Dockerfile): give --source DIR",
            field="--source",
            value=recipe.source,
        )
    project = tomllib.loads((recipe.source / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = "".join(f"{each}\n" for each in project["project"]["dependencies"])
    constraints = (recipe.source / "constraints.txt").read_text(encoding="utf-8")
    cuda = f"cuda {recipe.cuda_version} {recipe.index or ''}\n" if recipe.cuda else ""
    content = f"{recipe.python}\n{cuda}{wanted}{constraints}"
    recipe.folder.mkdir(parents=True, exist_ok=True)
    (recipe.folder / "requirements.txt").write_text(wanted, encoding="utf-8")
    made_of = recipe.folder / "libraries.txt"
    if not made_of.is_file() or made_of.read_text(encoding="utf-8") != content:
        made_of.unlink(missing_ok=True)  # an interrupted download is not to be trusted
        _download(recipe)
        made_of.write_text(content, encoding="utf-8")
    shutil.rmtree(recipe.folder / "ours", ignore_errors=True)
    make_wheel(recipe.source, recipe.folder / "ours")


def _download(recipe: Recipe) -> None:
    libraries = recipe.folder / "libraries"
    shutil.rmtree(libraries, ignore_errors=True)
    other = []
    if recipe.python != PYTHON:
        other = ["--only-binary=:all:", f"--python-version={recipe.python}"]
        other += [f"--platform={each}" for each in PLATFORMS]
    if recipe.index:
        other += [f"--extra-index-url={recipe.index}"]
    requirements, constraints = recipe.folder / "requirements.txt", recipe.source / "constraints.txt"
    _pip("download", "--dest", libraries, *other, "--requirement", requirements, "--constraint", constraints)


def make_wheel(source: Path, target: Path) -> None:
    """Build privbench's wheel into a folder.

    From a copy: setuptools leaves build/ behind, where deleted files would survive.
    """
    with tempfile.TemporaryDirectory() as name:
        for each in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(source / each, name)
        for each in PACKAGES:
            shutil.copytree(source / each, Path(name) / each)
        _pip("wheel", "--no-deps", "--wheel-dir", target, name)


def _pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    if done.returncode:
        raise BackendError(f"pip {arguments[0]} failed: {done.stderr.strip()}")


def build(recipe: Recipe) -> float:
    """Build an image from the collected wheels; return the seconds it took."""
    file = recipe.source / "docker" / ("Dockerfile.cuda" if recipe.cuda else "Dockerfile")
    arguments = ["build", "--quiet", f"--file={file}", f"--tag={recipe.name}"]
    arguments += [f"--build-arg=VERSION={version('privbench')}"]
    arguments += [f"--build-arg=GIT={git_state(recipe.source) or 'unknown'}"]
    arguments += [f"--build-arg=BASE={recipe.base_image}"]
    # A CUDA base image has no Python and downloads one.
    arguments += [f"--build-arg=CUDA={recipe.cuda_version}"] if recipe.cuda else ["--network=none"]
    began = time.monotonic()
    daemon.ask(*arguments, str(recipe.source), seconds=BUILD_SECONDS)
    return time.monotonic() - began


def images() -> list[Row]:
    """One row per image of privbench on the engine."""
    output = daemon.ask("image", "ls", "--quiet", "--no-trunc", f"--filter=label={TITLE}=privbench")
    return [_row(each) for each in dict.fromkeys(output.split())]


def _row(image: str) -> Row:
    label = '{{index .Config.Labels "org.opencontainers.image.%s"}}'
    parts = ['{{join .RepoTags ","}}', label % "version", label % "revision", "{{.Size}}", "{{.Created}}"]
    output = daemon.ask("image", "inspect", "--format", "\t".join(parts), image).split("\t")
    name, made_of, revision, size, created = output
    return {
        "image": name,
        "version": made_of,
        "git": revision,
        "MiB": round(int(size) / 2**20),
        "created": created[:19],
        "digest": image,
    }


def examine(image: str | None) -> list[Finding]:
    """Check everything a task in a container needs, up to the first failure."""
    image = image or default_image(cuda=bool(usable()))
    found: list[Finding] = []
    for what, look in (("engine", _engine), ("users", _users), ("image", lambda: daemon.image_id(image))):
        try:
            found.append(Finding(what, True, look()))
        except BackendError as error:
            return [*found, Finding(what, False, str(error))]
    return [*found, _trial(image)]


def _engine() -> str:
    form = "{{.ServerVersion}}, storage {{.Driver}}, cgroup v{{.CgroupVersion}}, {{.NCPU}} cores"
    return daemon.ask("info", "--format", form)


def _users() -> str:
    """BackendError if the engine remaps user ids: results would have the wrong owner."""
    options = daemon.ask("info", "--format", "{{json .SecurityOptions}}")
    if "rootless" in options or "userns" in options:
        raise BackendError("the engine maps users (rootless, userns-remap): tasks could not write the store")
    return "as on the host"


def _trial(image: str) -> Finding:
    """Print the image's version, under the restrictions that matter to Python."""
    program = "from importlib.metadata import version; print(version('privbench'))"
    locks = ["--rm", "--pull=never", "--network=none", "--read-only", "--cap-drop=ALL", "--user=65534:65534"]
    try:
        found = daemon.ask("run", *locks, "--entrypoint=/opt/privbench/bin/python", image, "-c", program)
    except BackendError as error:
        return Finding("trial", False, str(error))
    same = found == version("privbench")
    detail = f"privbench {found}" + ("" if same else f", but {version('privbench')} is installed: rebuild it")
    return Finding("trial", same, detail)
