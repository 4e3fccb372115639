"""Fingerprints of source code: of a module and what it imports from its own project, without importing it.

Comments, formatting and docstrings do not count, nor do the place of the files, their times and the version
of Python: a plug-in in a checkout here and in an image elsewhere has one fingerprint. A change of code does
count, even one that changes no number: only a person can tell these apart (docs/rules.md: fingerprints).

A project is the top-level package of the module, and top-level modules and packages that were installed with
it: those of the same folder, or in a site-packages those of the same distribution. Other distributions are
known by their versions. Data files are not code.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from workloads.code.project import OURS, Finder, Project, is_installed, plugin_points, top_of
from workloads.code.syntax import GAP, Import, hashed, read_source, texts_of

PACKAGES = {"workload": "workloads", "method": "methods", "attack": "harness.attacks"}
"""Kinds of members to the packages that hold ours."""
GIVEN = re.compile(r"[a-z0-9][a-z0-9-]*-[0-9a-f]{12}")
"""Names of what a user gave to a store, by the hash of its content."""
GIVEN_BY = {"workload": "harness.programs.given_records", "method": "harness.programs.program"}
"""The modules of ours that make members of it."""
NO_NUMBERS = (
    "db",
    "harness.backends",
    "harness.cli",
    "harness.report",
    "harness.results",
    "harness.store",
    "workloads.code",
    "workloads.drawings",
    "workloads.errors",
    "workloads.family",
    "workloads.fingerprint",
    "workloads.moved",
)
"""Modules of ours that decide no number of a result, even where a module that does imports them: they find
members, word errors, and move, keep and show results. All else that a member or a task's code imports counts:
data, models, samplers, gradients, accounting, canaries, leakage figures, the run itself."""


@dataclass(frozen=True)
class SourceFingerprint:
    """The fingerprint of some source files."""

    digest: str
    """Of all files, in hexadecimal digits."""
    files: Mapping[str, str]
    """File, relative to the folder that holds the top-level package, to the digest of its code."""


def source_fingerprint(*modules: str) -> SourceFingerprint:
    """The fingerprint of modules and of all that they import from their project, directly or not.

    Imports inside functions count, as do the `__init__` files of packages on the way; those for type checkers
    only do not. No module is imported. A module that is not found has no files.
    """
    return fingerprint_of(walk(modules).files)


def fingerprint_of(files: Mapping[str, str]) -> SourceFingerprint:
    """The fingerprint of files with these digests."""
    listed = "\n".join(f"{file} {digest}" for file, digest in sorted(files.items()))
    return SourceFingerprint(hashed(listed.encode()), dict(sorted(files.items())))


@dataclass(frozen=True)
class Walk:
    """What some modules use, directly or not."""

    files: Mapping[str, str]
    """The files of their projects to digests, as in a fingerprint."""
    paths: tuple[str, ...]
    """Where these files are."""
    ours: frozenset[str]
    """Modules of ours that a plug-in's import; empty for modules of ours, whose project is ours."""


def walk(modules: Iterable[str]) -> Walk:
    """Follow the imports of modules within their projects."""
    finder = Finder()
    waiting = deque(modules)
    own = [Project.of(top, finder) for top in {top_of(name) for name in waiting}]
    files: dict[str, str] = {}
    paths: list[str] = []
    ours: set[str] = set()
    seen: set[str] = set()
    while waiting:
        name = waiting.popleft()
        if name in seen or _decides_nothing(name):
            continue
        seen.add(name)
        if not any(project.has(name) for project in own):
            ours |= {name} if top_of(name) in OURS else set()
            continue
        found = finder.find(name)
        if found is None:
            continue
        waiting.extend(filter(None, [name.rpartition(".")[0]]))
        if found.file is not None:
            source = read_source(found.file)
            files[found.label] = source.digest
            paths.append(found.file)
            waiting.extend(_imported(found.label, source.imports, finder))
    return Walk(files, tuple(paths), frozenset(ours))


def _decides_nothing(module: str) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in NO_NUMBERS)


def _imported(label: str, imports: Iterable[Import], finder: Finder) -> Iterator[str]:
    """The modules that the imports of a file may name; `from a import b` may mean the module a.b."""
    package = label.split("/")[:-1]
    for each in imports:
        if each.typing or each.level > len(package):
            continue
        base = package[: len(package) - each.level + 1] if each.level else []
        module = ".".join([*base, *filter(None, [each.module])])
        if module == "privbench":
            yield from _homes(each.names, finder)
        elif module:
            yield module
            yield from (f"{module}.{name}" for name in each.names)


def _homes(names: tuple[str, ...], finder: Finder) -> Iterator[str]:
    """The modules of ours that define names of `privbench`; without names, of all that it re-exports.

    Its imports are for type checkers: it loads a name when it is first used.
    """
    found = finder.find("privbench")
    if found is None or found.file is None:
        return
    for each in read_source(found.file).imports:
        if each.typing and (not names or not {*names}.isdisjoint(each.names)):
            yield each.module


# -- ours ------------------------------------------------------------------------------------------


def own_fingerprint(*modules: str) -> SourceFingerprint:
    """Our own code: modules of ours and what they import of ours; without modules, that of all families.

    In a checkout it is that of the sources. An installed release is known by its version and has no files.
    """
    if not in_checkout():
        return SourceFingerprint(hashed(f"privbench {release()}".encode()), {})
    return source_fingerprint(*(modules or sorted(_family_modules())))


def in_checkout() -> bool:
    """Whether our own code is a checkout, whose files may be edited, and not an installed release."""
    home = Path(__file__).resolve().parents[1]
    marked = any((home / each).exists() for each in (".git", "pyproject.toml"))
    return marked and not is_installed(str(home))


def release() -> str:
    """The version of privbench."""
    try:
        return version("privbench")
    except PackageNotFoundError:  # run from its folder, never installed
        return "unknown"


def _family_modules() -> Iterator[str]:
    finder = Finder()
    for package in PACKAGES.values():
        yield package
        found = finder.find(package)
        for folder in found.folders if found else ():
            for each in Path(folder).iterdir():
                if each.suffix == ".py" or (each / "__init__.py").is_file():
                    yield f"{package}.{each.stem}"


# -- members ---------------------------------------------------------------------------------------


def member_module(kind: str, name: str) -> str | None:
    """The module of a member of a family, which is not imported; None if there is none.

    `kind` is workload, method or attack. A file of ours may bind several workloads: it is the file that names
    this one, or, of a name that is put together (f"{data}-vit-head"), the most of it.
    """
    for point in plugin_points(f"privbench.{kind}s"):
        if point.name == name:
            return point.value.partition(":")[0].strip()
    if kind in GIVEN_BY and GIVEN.fullmatch(name):
        return GIVEN_BY[kind]
    if kind == "workload":
        return _workload_module(name)
    module = f"{PACKAGES[kind]}.{name.replace('-', '_')}"
    return module if Finder().find(module) else None


def _workload_module(name: str) -> str | None:
    """The group of ours whose texts spell the name, or the most of its letters if it is put together."""
    if not (Path(__file__).parent / "recipes" / f"{name}.toml").is_file():
        return None
    for stem, content in _groups().items():
        if f'"{name}"' in content:
            return f"workloads.{stem}"
    best = max((_spells(text, name), stem) for stem, texts in _group_texts().items() for text in texts)
    return f"workloads.{best[1]}" if best[0] else PACKAGES["workload"]


@cache
def _groups() -> dict[str, str]:
    """The files of ours that bind workloads, by their names."""
    contents = {file.stem: file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("*.py")}
    return {stem: content for stem, content in contents.items() if "\nworkloads = [" in content}


@cache
def _group_texts() -> dict[str, list[str]]:
    return {stem: list(texts_of(content)) for stem, content in _groups().items()}


def _spells(text: str, name: str) -> int:
    """How many letters of the name a text gives, with anything where it has a gap; 0 if it is another."""
    parts = text.split(GAP)
    return len("".join(parts)) if re.fullmatch(".+".join(map(re.escape, parts)), name) else 0
