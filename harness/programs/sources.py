"""The files that a script needs of its own folder: itself, and what it imports from there."""

import ast
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from workloads.errors import SpecError


def needed_files(folder: Path, script: Path) -> list[Path]:
    """A script of the folder and all files that it imports from there, relative to the folder.

    Imports inside functions count, as do the `__init__` files of packages on the way. Files that are opened
    are not seen.
    """
    files = [script]
    waiting = deque([*_packages(script), *_imported(folder, script)])
    seen: set[str] = set()
    while waiting:
        name = waiting.popleft()
        if name in seen:
            continue
        seen.add(name)
        found = _file_of(folder, name)
        if found is None or found in files:
            continue
        files.append(found)
        waiting.extend([*_packages(found), *_imported(folder, found)])
    return sorted(files)


def _packages(file: Path) -> list[str]:
    """The packages on the way to a file."""
    return [".".join(file.parts[:depth]) for depth in range(1, len(file.parts))]


def _file_of(folder: Path, module: str) -> Path | None:
    place = Path(*module.split("."))
    candidates = (place.with_name(f"{place.name}.py"), place / "__init__.py")
    return next((each for each in candidates if (folder / each).is_file()), None)


def _imported(folder: Path, file: Path) -> Iterator[str]:
    """The modules that a file's imports may name; `from a import b` may mean the module a.b."""
    try:
        tree = ast.parse((folder / file).read_bytes(), filename=str(file))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise SpecError(
            f"{folder / file} is not Python: {error}", field=str(file), value=line, allowed="Python"
        ) from error
    package = list(file.parts[:-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            if module:
                yield module
            yield from (".".join(filter(None, [module, each.name])) for each in node.names)
