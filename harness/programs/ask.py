"""Take what a user gives for an audit of a training into the store: a script, functions, or a command."""

import inspect
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from harness.programs.child import ProgramError, run_child
from harness.programs.given_records import PARTS, Arrays
from harness.programs.program import TRAIN, check_command
from harness.programs.record_files import read_given
from harness.programs.shelf import keep_program, keep_records
from harness.programs.sources import needed_files
from harness.spec import Json
from harness.store import Store
from workloads.errors import DataError, SpecError

DATA = "it returns the pool and the test records, as (x, y, test_x, test_y)"


@dataclass(frozen=True)
class Function:
    """A function of a user's file."""

    folder: Path
    """The folder that comes first on its import path."""
    module: str
    """Relative to the folder: `train`, or `package.train`."""
    name: str
    file: Path
    """Relative to the folder."""


@dataclass(frozen=True)
class Given:
    """The names under which a store keeps what is audited."""

    workload: str
    method: str


def take_script(store: Store, script: Path, further: Sequence[Path] = (), data: Path | None = None) -> Given:
    """A file with `train` and `data`, of which `data` may be a file of records instead."""
    if not script.is_file():
        raise SpecError(
            f"no script {script}: give a Python file with data() and train(x, y, seed)",
            field="SCRIPT",
            value=str(script),
        )
    home = script.resolve()
    train, own = (Function(home.parent, home.stem, name, Path(home.name)) for name in ("train", "data"))
    return take_functions(store, train, own if data is None else read_given(data)[0], further)


def take_functions(
    store: Store,
    train: Callable[..., Any] | Function,
    data: Callable[..., Any] | Function | Mapping[str, Any] | Sequence[Any],
    further: Sequence[Path] = (),
) -> Given:
    """A function that trains, and records or the function that returns them."""
    trained = train if isinstance(train, Function) else find_function(train, "train")
    own = find_function(data, "data") if callable(data) else data
    if isinstance(own, Function):
        together = (own.folder, own.file) == (trained.folder, trained.file)
        arrays, tensors = _look(own, train=trained.name if together else None, data=own.name)
    else:
        together, (arrays, tensors) = False, _given(own)
    if not together:
        _look(trained, train=trained.name, data=None)
    files = _files(trained.folder, needed_files(trained.folder, trained.file), further)
    about: Json = {
        "module": trained.module,
        "function": trained.name,
        "file": str(trained.file),
        "tensors": tensors,
        "shown": str(trained.file) if trained.name == "train" else f"{trained.name} of {trained.file}",
    }
    return Given(keep_records(store, arrays), keep_program(store, trained.file.stem, about, files))


def take_command(store: Store, command: str, data: Path, further: Sequence[Path] = ()) -> Given:
    """A command line with placeholders, and a file of records.

    Files of the current folder that it names are kept with it.
    """
    words = shlex.split(command)
    check_command(words)
    here = Path.cwd()
    named = [Path(word) for word in words if not Path(word).is_absolute() and (here / word).is_file()]
    files = _files(here, named, further)
    stem = named[0].stem if named else Path(words[0]).name
    arrays, features = read_given(data)
    about: Json = {"command": words, "features": features, "shown": command}
    return Given(keep_records(store, arrays), keep_program(store, stem, about, files))


# -- functions -------------------------------------------------------------------------------------


def find_function(function: Callable[..., Any], role: str) -> Function:
    """The file and name of a function, by which a child process can import it; SpecError if it has none."""
    name = getattr(function, "__qualname__", type(function).__name__)
    if not inspect.isfunction(function) or "<" in name:
        raise _no_file(role, name, "is not a function at the top level of a file")
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None)
    if module is None or file is None or not Path(file).is_file():
        raise _no_file(role, name, "was defined in a notebook or a prompt")
    home = Path(file).resolve()
    dotted = _dotted(module, home)
    folder = home.parents[dotted.count(".") + (home.stem == "__init__")]
    return Function(folder, dotted, name, home.relative_to(folder))


def _dotted(module: ModuleType, home: Path) -> str:
    """The module's name relative to the folder that its package lies in; its stem for a script."""
    if module.__name__ == "__main__" or "." not in module.__name__:
        return home.parent.name if home.stem == "__init__" else home.stem
    return module.__name__


def _no_file(role: str, name: str, why: str) -> SpecError:
    return SpecError(
        f"{role} = {name} {why}: it runs in a child process, which has to import it, and functions are never "
        "pickled. Write it to a file (in a notebook: %%writefile train.py) and give the file, or import it",
        field=role,
        value=name,
        allowed="a function at the top level of a file",
    )


def _look(where: Function, train: str | None, data: str | None) -> tuple[Arrays, bool]:
    """Check the function that trains, call the one for the records, in a child process.

    Returns what it returned, and whether these are tensors; nothing if it was not asked for.
    """
    with tempfile.TemporaryDirectory(prefix="privbench-look-") as place:
        scratch = Path(place).resolve()
        order = {
            "folder": str(where.folder),
            "module": where.module,
            "file": str(where.file),
            "train": train,
            "data": data,
            "records": str(scratch / "records.npz"),
            "needs": {name: text for name, text in ((train, TRAIN), (data, DATA)) if name},
        }
        printed: list[bytes] = []
        try:
            found = run_child("look", order, where.folder, scratch, printed.append)
        except ProgramError:
            sys.stderr.write(b"".join(printed).decode(errors="replace"))
            raise
        if data is None:
            return {}, False
        with np.load(scratch / "records.npz", allow_pickle=False) as arrays:
            return {name: arrays[name] for name in PARTS}, bool(found["tensors"])


def _given(data: Any) -> tuple[Arrays, bool]:
    """The records in arrays, tensors or frames that were given, and whether they are tensors."""
    from harness.programs.runner import Refused, as_array, parts_of

    try:
        parts = parts_of(data)
        arrays = {name: as_array(part) for name, part in zip(PARTS, parts, strict=True)}
    except Refused as error:
        raise DataError(
            str(error).replace("data() returned", "data is"), field="data", allowed=PARTS
        ) from None
    return arrays, any(hasattr(part, "detach") for part in parts)


def _files(folder: Path, own: Sequence[Path], further: Sequence[Path]) -> dict[str, bytes]:
    """The content of files by their names relative to the folder, with those of further files and folders."""
    found = {str(file): (folder / file).read_bytes() for file in own}
    for given in further:
        place = given.resolve()
        if not place.exists() or not place.is_relative_to(folder):
            why = f"does not lie in {folder}" if place.exists() else "does not exist"
            raise SpecError(f"--with {given} {why}", field="--with", value=str(given), allowed=str(folder))
        each = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
        found |= {str(file.relative_to(folder)): file.read_bytes() for file in each}
    return found
