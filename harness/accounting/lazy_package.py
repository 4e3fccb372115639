"""dp-accounting whose names load on first use.

Its `__init__` re-exports everything, so that naming an event loads every accountant and most of scipy: nearly
as long as torch takes. A worker needs events for each task and accountants only to price what is not cached.
"""

import ast
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "dp_accounting"


def defer(name: str = NAME) -> bool:
    """Import a package so that each re-exported name loads its own module only, when it is first used.

    Call it before anything imports the package. False, and nothing changes, if the package is already
    imported or missing, or if its `__init__` does more than re-export.
    """
    if name in sys.modules:
        return False
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return False
    homes = reexports(Path(spec.origin).read_text(encoding="utf-8"), name)
    if homes is None:
        return False
    sys.modules[name] = _lazy(importlib.util.module_from_spec(spec), homes)
    return True


def reexports(source: str, name: str) -> dict[str, tuple[str, str]] | None:
    """The names that a package's `__init__` imports from itself, each with its module and its name there.

    None if the source holds anything but these imports and texts.
    """
    homes: dict[str, tuple[str, str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
            return None
        if node.module.partition(".")[0] != name or any(each.name == "*" for each in node.names):
            return None
        homes |= {each.asname or each.name: (node.module, each.name) for each in node.names}
    return homes


def _lazy(package: ModuleType, homes: dict[str, tuple[str, str]]) -> ModuleType:
    def find(name: str) -> Any:
        if name not in homes:  # the import system then looks for a module of this name
            raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")
        module, attribute = homes[name]
        if module == package.__name__:
            found: Any = importlib.import_module(f"{module}.{attribute}")
        else:
            found = getattr(importlib.import_module(module), attribute)
        setattr(package, name, found)  # the next time it is found without this function
        return found

    package.__getattr__ = find  # type: ignore[method-assign]  # PEP 562
    return package
