"""The command that reproduces a point of the frontier: its cell, and the attack on it.

A cell's parameters are resolved, so the command names all of them, even if the recipe changes. What the
options of `privbench run` cannot express (a seed, a list, an attack's own parameters) goes into a sweep file.
"""

import json
import math
import shlex
from collections.abc import Mapping
from typing import Any

from harness.report.reading import Row
from harness.spec import despelled

FILE = "point.toml"


def command_of(row: Row) -> str:
    """The shell command that reproduces a row of the view `frontier`: its cell has the same key."""
    settings = _settings(row)
    plain = all(_is_plain(value) for value in settings.values())
    if plain and row.get("seed", 0) == 0 and row["attack_defaults"]:
        return _by_options(row, settings)
    return _by_file(row, settings)


def _settings(row: Row) -> dict[str, Any]:
    """The cell's parameters for a grid.

    Without nulls, which were not given, and without the solved parameter, which excludes its epsilon.
    """
    params = despelled(row["params"] or {})
    given = {name: value for name, value in params.items() if value is not None and name != row["solved"]}
    canaries = {"canary": row["canary"], "canaries": row["canaries"]} if row.get("canary") else {}
    return given | canaries


def _is_plain(value: Any) -> bool:
    """Whether an option can express it: commas separate values there."""
    return not isinstance(value, list | dict) and "," not in str(value)


def _by_options(row: Row, settings: Mapping[str, Any]) -> str:
    words = ["privbench", "run", "--workload", row["workload"], "--method", row["method"]]
    if "epsilon" in settings:
        words += ["--epsilon", _toml(settings["epsilon"])]
    words += ["--n-train", str(row["n_train"]), "--models", str(row["models"]), "--attack", row["attack"]]
    for name, value in settings.items():
        if name != "epsilon":
            words += ["--set", f"{name}={_option(value)}"]
    return shlex.join(map(str, words))


def _by_file(row: Row, settings: Mapping[str, Any]) -> str:
    attack = {"attack": row["attack"], **despelled(row["attack_params"] or {})}
    known = {name: value for name, value in attack.items() if value is not None}
    grid = {"workload": row["workload"], "method": row["method"], "n_train": row["n_train"], **settings}
    lines = [
        f"models = {row['models']}",
        f"seed = {row.get('seed') or 0}",
        f"attacks = [{_toml(known)}]",
        "",
        "[[grid]]",
        # A list in a grid is a list of choices: here of one each.
        *(f"{_key(name)} = [{_toml(value)}]" for name, value in grid.items()),
    ]
    return f"cat > {FILE} <<'TOML'\n" + "\n".join(lines) + f"\nTOML\nprivbench run {FILE}"


def _option(value: Any) -> str:
    """A value as --set parses it: a bare word is text already."""
    bare = isinstance(value, str) and value.replace("-", "").replace("_", "").isalpha()
    return value if bare and value not in ("true", "false", "inf", "nan") else _toml(value)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_toml(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ("inf" if value > 0 else "-inf")
    return json.dumps(value, ensure_ascii=False)  # the same in JSON and TOML


def _key(name: str) -> str:
    return (
        name
        if name.replace("_", "").replace("-", "").isalnum() and name.isascii()
        else json.dumps(name, ensure_ascii=False)
    )
