"""Sweep files: grids, attacks and benches as the user wrote them; all problems are reported at once."""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from harness.plan.attack_choices import parse_attacks
from harness.plan.tune_table import TuneTable, parse_tune
from harness.plan.tuned_recipe import SHIPPED, RecipeFile, TunedRecipes, parse_tuned, read_recipe_file
from harness.spec import key_of
from workloads.errors import SpecError, UnknownName, unknown
from workloads.toml import parse_value, read_toml

TOP = ("name", "models", "seed", "attacks", "grid", "bench", "recipe", "tune")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MOST = 100_000
"""Maximum number of points of a grid and models of a cell: more is a mistake and would exhaust memory."""


@dataclass(frozen=True)
class Choice:
    """An attack with its given parameters."""

    name: str
    params: Mapping[str, Any]
    shadows: str | None = None
    """The method of the shadows; None for the target's, as an adversary would choose."""


@dataclass(frozen=True)
class Grid:
    """A grid: the product of its lists and its zipped lists, without excluded points."""

    where: str
    """Its name in messages."""
    lists: Mapping[str, list[Any]]
    zipped: Mapping[str, list[Any]]
    exclude: tuple[Mapping[str, Any], ...]

    @property
    def size(self) -> int:
        """Number of points before exclusion."""
        return math.prod(map(len, [*self.lists.values(), *list(self.zipped.values())[:1]]))

    def points(self) -> Iterator[dict[str, Any]]:
        """Every point, including `workload` and `method`."""
        steps = [dict(zip(self.zipped, row, strict=True)) for row in zip(*self.zipped.values(), strict=True)]
        for values in itertools.product(*self.lists.values()):
            product = dict(zip(self.lists, values, strict=True))
            for step in steps or [{}]:
                point = product | step
                if not any(_matches(point, rule) for rule in self.exclude):
                    yield point


@dataclass(frozen=True)
class BenchEntry:
    """A bench: the product of its lists; a parameter applies to the methods that have it."""

    where: str
    """Its name in messages."""
    lists: Mapping[str, list[Any]]
    """`workload`, `method` and parameters, such as `batch_size` and `engine`."""
    measure: Mapping[str, Any]
    """Device, threads, steps, seconds (harness/plan/benches.py)."""


@dataclass(frozen=True)
class Sweep:
    """A parsed sweep file, before names and parameters are resolved."""

    name: str
    models: int
    seed: int
    attacks: tuple[Choice, ...]
    grids: tuple[Grid, ...]
    benches: tuple[BenchEntry, ...] = ()
    recipe: RecipeFile | None = None
    """A tuned recipe, which is laid over those of the workloads."""
    tune: TuneTable | None = None
    """How `privbench tune` tunes its methods."""

    @property
    def tuned(self) -> TunedRecipes | None:
        """The content of its tuned recipe."""
        return None if self.recipe is None else parse_tuned(self.recipe)


def ready_made() -> dict[str, Path]:
    """The sweep files shipped with privbench, by name."""
    root = Path(str(resources.files("harness") / "sweeps"))
    return {str(file.relative_to(root).with_suffix("")): file for file in sorted(root.rglob("*.toml"))}


def find_sweep(source: str) -> tuple[dict[str, Any], str]:
    """(content, default name) of a sweep file, or of a ready-made sweep given by name.

    The path of its recipe is made relative to the current folder instead of the sweep's.
    """
    file = Path(source)
    if not _is_file(file):
        if file.suffix == ".toml" or ("/" in source and source not in ready_made()):
            raise SpecError(f"no sweep file {source}", field="sweep", value=source)
        if source not in ready_made():
            raise UnknownName("sweep", source, ready_made())
        file = ready_made()[source]
    content = read_toml(file, source)
    if isinstance(content.get("recipe"), str) and content["recipe"] != SHIPPED:
        content["recipe"] = str(file.parent / content["recipe"])
    return content, file.stem


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a folder without permission
        return False


def from_options(
    workload: str | None,
    method: str | None,
    epsilon: str | None,
    models: int | None,
    attack: str | None,
    settings: list[str] | None,
    n_train: int | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """The content of the sweep file that corresponds to these command-line options."""
    if workload is None or method is None:
        raise SpecError("give a sweep file, the name of a ready-made sweep, or --workload and --method")
    grid: dict[str, Any] = {"workload": workload.split(","), "method": method.split(",")}
    if epsilon is not None:
        grid["epsilon"] = [parse_value(each) for each in epsilon.split(",")]
    if n_train is not None:
        grid["n_train"] = n_train
    grid |= read_settings(settings or [])
    data: dict[str, Any] = {"grid": [grid], "attacks": parse_attacks(attack) if attack else []}
    if models is not None:
        data["models"] = models
    given = [workload, method, epsilon, models, attack, settings, n_train]
    if seed is not None:
        data["seed"] = seed
        given.append(seed)
    key = key_of(given)
    return data | {"name": f"ad-hoc-{key[:8]}"}


def read_settings(settings: Iterable[str]) -> dict[str, list[Any]]:
    """The values of every `--set NAME=VALUE,VALUE`."""
    found = {}
    for setting in settings:
        name, equals, values = setting.partition("=")
        if not equals or not name:
            raise SpecError(f"--set {setting}: give NAME=VALUE or NAME=VALUE,VALUE")
        found[name] = [parse_value(each) for each in values.split(",")]
    return found


def read_sweep(data: Mapping[str, Any], name: str) -> tuple[Sweep, list[str]]:
    """Parse a sweep; returns it with all problems of its form."""
    problems = [unknown("key of a sweep", key, TOP) for key in data if key not in TOP]
    name = data.get("name", name)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        problems.append(
            f"name = {name!r}: give at most 100 letters, digits, dots, hyphens and underscores, "
            "beginning with a letter or digit"
        )
    models = _whole(data, "models", 8, 1, MOST, problems)
    seed = _whole(data, "seed", 0, 0, 2**63 - 1, problems)
    attacks = _attacks(data.get("attacks", []), problems)
    benches = _benches(data.get("bench", []), problems)
    grids = _grids(data.get("grid", []), problems) if "grid" in data or not data.get("bench") else ()
    tune = parse_tune(data["tune"], problems) if "tune" in data else None
    recipe = _recipe(data.get("recipe"), problems)
    return Sweep(str(name), models, seed, attacks, grids, benches, recipe, tune), problems


def _recipe(given: Any, problems: list[str]) -> RecipeFile | None:
    if given is None:
        return None
    if not isinstance(given, str):
        problems.append(f"recipe = {given!r}: give the file that `privbench tune` wrote, or {SHIPPED!r}")
        return None
    try:
        return read_recipe_file(given)
    except SpecError as error:
        problems += error.problems
        return None


def _whole(
    data: Mapping[str, Any], key: str, default: int, least: int, most: int, problems: list[str]
) -> int:
    value = data.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        problems.append(f"{key} = {value!r}: give an integer from {least} to {most}")
        return default
    return value


def _attacks(given: Any, problems: list[str]) -> tuple[Choice, ...]:
    if not isinstance(given, list):
        problems.append('attacks: give a list, for example ["loss", "lira"]')
        return ()
    found: list[Choice] = []
    for each in given:
        if isinstance(each, str):
            found.append(Choice(each, {}))
        elif isinstance(each, dict) and isinstance(each.get("attack"), str):
            params = {key: value for key, value in each.items() if key not in ("attack", "shadows")}
            found.append(Choice(each["attack"], params, each.get("shadows")))
        else:
            problems.append(
                f'attacks: {each!r}: give a name, or a table such as {{ attack = "lira", mode = "offline" }}'
            )
    return tuple(found)


def _grids(given: Any, problems: list[str]) -> tuple[Grid, ...]:
    if not isinstance(given, list) or not given or not all(isinstance(each, dict) for each in given):
        problems.append("no grid: give at least one [[grid]] (or [[bench]]) with a workload and a method")
        return ()
    grids = (_grid(each, f"grid {number}", problems) for number, each in enumerate(given, 1))
    return tuple(grid for grid in grids if grid is not None)


def _benches(given: Any, problems: list[str]) -> tuple[BenchEntry, ...]:
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        problems.append("bench: give [[bench]] tables, each with a workload and a method")
        return ()
    entries = (_bench(each, f"bench {number}", problems) for number, each in enumerate(given, 1))
    return tuple(entry for entry in entries if entry is not None)


def _bench(given: dict[str, Any], where: str, problems: list[str]) -> BenchEntry | None:
    before = len(problems)
    measure = given.get("measure", {})
    if not isinstance(measure, dict):
        problems.append(f'{where}: measure: give a table, {{ seconds = 20, device = "cuda" }}')
    lists = {key: listed(value) for key, value in given.items() if key != "measure"}
    problems += [f"{where}: {key} is missing" for key in ("workload", "method") if key not in lists]
    problems += [
        f"{where}: {key} = []: an empty list times nothing" for key, value in lists.items() if not value
    ]
    return BenchEntry(where, lists, measure) if len(problems) == before else None


def _grid(given: dict[str, Any], where: str, problems: list[str]) -> Grid | None:
    before = len(problems)
    zipped = given.get("zip", {})
    if not isinstance(zipped, dict) or not all(isinstance(each, list) for each in zipped.values()):
        problems.append(f"{where}: zip: give a table of lists, {{ a = [1, 2], b = [3, 4] }}")
        zipped = {}
    if len({len(each) for each in zipped.values()}) > 1:
        lengths = ", ".join(f"{key} has {len(each)}" for key, each in zipped.items())
        problems.append(f"{where}: zip: lists must have the same length, but {lengths}")
    exclude = given.get("exclude", [])
    if not isinstance(exclude, list) or not all(isinstance(each, dict) for each in exclude):
        problems.append(f"{where}: exclude: give a list of tables, [{{ epsilon = 1 }}]")
        exclude = []
    lists = {key: listed(value) for key, value in given.items() if key not in ("zip", "exclude")}
    for key in ("workload", "method"):
        if key not in lists and key not in zipped:
            problems.append(f"{where}: {key} is missing")
    for key in lists.keys() & zipped.keys():
        problems.append(f"{where}: {key} is in the grid and in zip: give it once")
    for key, value in [*lists.items(), *zipped.items()]:
        if not value:
            problems.append(f"{where}: {key} = []: an empty list makes an empty grid")
    names = {*lists, *zipped}
    for rule in exclude:
        problems += [
            f"{where}: exclude: {unknown('grid key', key, names)}" for key in rule if key not in names
        ]
    if len(problems) > before:
        return None
    grid = Grid(where, lists, zipped, tuple(exclude))
    if grid.size > MOST:
        problems.append(f"{where} has {grid.size:,} points, at most {MOST:,} are allowed: split the sweep")
        return None
    if not any(True for _ in grid.points()):
        problems.append(f"{where}: exclude leaves no point of the grid")
    return grid


def listed(value: Any) -> list[Any]:
    """A value of a grid as a list of values."""
    return value if isinstance(value, list) else [value]


def _matches(point: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    return all(point[key] in listed(value) for key, value in rule.items())
