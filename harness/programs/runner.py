"""Run in a child process: a user's function, or a user's command.

    runner.py look ORDER.json       check the function that trains; call that for the records, and save them
    runner.py train ORDER.json      call the function with the members, and save the model's predictions
    runner.py command ORDER.json    become the command

Started by its path, with no package of ours on the import path and none imported: the user's own folder comes
first, and ours are hidden, but for `privbench` itself, which scripts may import to start their own audit.
What the user's code prints goes to the log; the outcome is a file.
"""

import ctypes
import importlib
import importlib.util
import json
import os
import random
import signal
import sys
import traceback
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

HOME = Path(__file__).resolve().parents[2]
"""The folder of our packages."""
HIDDEN = ("harness", "methods", "workloads", "db")
BATCH = 2048
PARTS = ("x", "y", "test_x", "test_y")
DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


class Refused(Exception):
    """What the user's function returned cannot be used; the message says what is needed."""


class OwnFolderFirst:
    """Finds modules in the user's folder before all others, and hides our packages."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        if name not in HIDDEN:
            return None
        found = PathFinder.find_spec(name, [self.folder])
        others = (each for each in sys.meta_path if each is not self)
        for other in others:
            found = found or other.find_spec(name, path, target)
        if found is not None and not _is_ours(found):
            return found
        raise ModuleNotFoundError(f"No module named {name!r} (privbench's own is hidden here)", name=name)


def _is_ours(spec: ModuleSpec) -> bool:
    places = [*(spec.submodule_search_locations or ()), *filter(None, [spec.origin])]
    return any(Path(place).resolve().is_relative_to(HOME / spec.name) for place in places)


def load_module(folder: str, name: str, file: str) -> ModuleType:
    """Import a module of the user's folder: `train`, `package.train`, or a file whose name is no module's."""
    sys.path.insert(0, folder)
    sys.meta_path.insert(0, OwnFolderFirst(folder))
    place = name.replace(".", "/")
    if file in (f"{place}.py", f"{place}/__init__.py") and all(map(str.isidentifier, name.split("."))):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location("program", Path(folder) / file)
    if spec is None or spec.loader is None:
        raise Refused(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["program"] = module
    spec.loader.exec_module(module)
    return module


def function_of(order: dict[str, Any], module: ModuleType, name: str) -> Any:
    """The user's function; Refused if the file has none of this name."""
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise Refused(f"{order['file']} has no function {name}(): {order['needs'][name]}")
    return found


# -- records ---------------------------------------------------------------------------------------


def look(order: dict[str, Any]) -> None:
    """Refused unless the function that trains can be called; save what the one for the records returns."""
    module = load_module(order["folder"], order["module"], order["file"])
    if order["train"]:
        check_call(function_of(order, module, order["train"]), f"{order['train']}() of {order['file']}")
    if not order["data"]:
        return write_outcome(order)
    import numpy as np

    given = parts_of(function_of(order, module, order["data"])())
    np.savez(order["records"], **{name: as_array(part) for name, part in zip(PARTS, given, strict=True)})
    return write_outcome(order, tensors=any(hasattr(part, "detach") for part in given))


def check_call(function: Any, name: str) -> None:
    """Refused unless a function takes the members, their labels and a seed."""
    import inspect

    try:
        signature = inspect.signature(function)
    except ValueError:  # it tells nothing
        return
    try:
        signature.bind("x", "y", 0)
    except TypeError as error:
        raise Refused(f"{name} cannot be called with (x, y, seed): {error}") from error


def parts_of(given: Any) -> tuple[Any, ...]:
    """x, y, test_x and test_y from a mapping, from a tuple of four, or from two pairs."""
    if hasattr(given, "keys"):
        missing = [name for name in PARTS if name not in given]
        if missing:
            raise Refused(f"data() returned a mapping without {', '.join(missing)}: give {', '.join(PARTS)}")
        return tuple(given[name] for name in PARTS)
    if isinstance(given, tuple | list) and len(given) == 4:
        return tuple(given)
    pairs = isinstance(given, tuple | list) and len(given) == 2
    if pairs and all(isinstance(each, tuple | list) and len(each) == 2 for each in given):
        return (*given[0], *given[1])
    raise Refused(
        f"data() returned a {type(given).__name__}: return (x, y, test_x, test_y), "
        "((x, y), (test_x, test_y)), or a mapping with these names"
    )


def as_array(part: Any) -> Any:
    """A tensor, array, frame or list as an array."""
    import numpy as np

    found = part.detach().cpu().numpy() if hasattr(part, "detach") else np.asarray(part)
    if found.dtype.hasobject or found.dtype.kind in "US":
        raise Refused(f"values of type {found.dtype} were returned: return numbers, encode the others")
    return found


# -- training --------------------------------------------------------------------------------------


def save_predictions(order: dict[str, Any]) -> None:
    """Call `train(x, y, seed)` on the members, and save the model's predictions on all records asked for."""
    import numpy as np

    seed_everything(order["seed"])
    module = load_module(order["folder"], order["module"], order["file"])
    function = function_of(order, module, order["function"])
    seed_everything(order["seed"])  # whatever the import has drawn
    with np.load(order["members"]) as members:
        x, y = given_as(members["x"], order), given_as(members["y"], order)
    model = function(x, y, order["seed"])
    with np.load(order["asked"]) as asked:
        found = predict(model, asked["x"], order)
    np.save(order["predictions"], found)
    write_outcome(order)


def seed_everything(seed: int) -> None:
    """Seed the global generators: a function that draws from them is as reproducible as one that does not."""
    import numpy as np

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the user's code may draw from it
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def given_as(array: Any, order: dict[str, Any]) -> Any:
    """Tensors if `data()` returned tensors, else arrays."""
    if not order["tensors"]:
        return array
    import torch

    return torch.from_numpy(array)


def predict(model: Any, x: Any, order: dict[str, Any]) -> Any:
    """The predictions of what `train` returned: a torch module, a classifier, or a callable."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return predict_module(torch, model, x)
    if hasattr(model, "predict_proba"):
        return all_classes(as_array(model.predict_proba(given_as(x, order))), model, order["classes"])
    if callable(model):
        return as_array(model(given_as(x, order)))
    raise Refused(
        f"train() returned a {type(model).__name__}: return a torch module, a classifier with predict_proba, "
        "or a function from x to probabilities or logits, such as model.predict or model.decision_function"
    )


def predict_module(torch: Any, model: Any, x: Any) -> Any:
    """Outputs in evaluation mode, in batches, on the module's own device and in its type."""
    weight = next(model.parameters(), None)
    model.eval()
    parts = []
    with torch.no_grad():
        for start in range(0, len(x), BATCH):
            batch = torch.from_numpy(x[start : start + BATCH])
            if weight is not None:
                floating = batch.is_floating_point() and weight.is_floating_point()
                batch = batch.to(weight.device, weight.dtype if floating else None)
            parts.append(model(batch).float().cpu())
    return torch.cat(parts).numpy()


def all_classes(found: Any, model: Any, classes: int) -> Any:
    """A column for every class: a classifier knows those of its members only."""
    import numpy as np

    known = np.asarray(getattr(model, "classes_", ()))
    if found.ndim != 2 or len(known) != found.shape[1] or len(known) >= classes:
        return found
    whole = np.zeros((len(found), classes), found.dtype)
    whole[:, known.astype(int)] = found
    return whole


# -- the process -----------------------------------------------------------------------------------


def write_outcome(order: dict[str, Any], **found: Any) -> None:
    """Say how it ended."""
    Path(order["outcome"]).write_text(json.dumps(found), encoding="utf-8")


def told(error: BaseException, folder: str) -> str:
    """An error in one line, with its place in the user's code."""
    text = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, Refused):
        return text
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename != __file__]
    own = [each for each in frames if each.filename.startswith(f"{folder}{os.sep}")]
    if isinstance(error, SyntaxError) or not own:
        return text
    return f"{text} ({Path(own[-1].filename).name}, line {own[-1].lineno}, in {own[-1].name})"


def die_with_parent(parent: int) -> None:
    """Let the system kill this process when its parent is gone: nobody waits for its result then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)


def become(order: dict[str, Any]) -> int:
    """Become the user's command."""
    program = order["command"][0]
    try:
        os.execvp(program, order["command"])
    except OSError as error:
        told = f"the program {program} cannot be started: {error.strerror}"
        write_outcome(order, error=told, kind=type(error).__name__)
    return 1


def main(kind: str, file: str) -> int:
    """Do what the order says; exit code 1 if the user's code failed."""
    order = json.loads(Path(file).read_text(encoding="utf-8"))
    die_with_parent(order["parent"])
    if kind == "command":
        return become(order)
    try:
        {"look": look, "train": save_predictions}[kind](order)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - also a SystemExit of the user's code
        if not isinstance(error, Refused):
            traceback.print_exc()
        write_outcome(order, error=told(error, order["folder"]), kind=type(error).__name__)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
