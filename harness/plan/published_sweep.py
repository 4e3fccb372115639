"""The sweep of a published table: every line that can be one of ours as a point of a grid.

The paper decides workload, method, members, the settings it states, the number of models and the attacks of
its figures; the recipe decides the rest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.members.facts import AttackFacts
from harness.members.manifest import find_facts, method_facts
from harness.members.sizes import sizes_of
from harness.papers.published_lines import choose_lines, find_obstacle, find_table, members_of
from harness.papers.published_tables import PrintedTable, Published
from harness.plan.sweep_file import read_settings
from harness.spec import key_of
from workloads.errors import SpecError, unknown

RUNS = 3
"""Models of a cell if the paper states no number of runs: the fewest with a deviation worth showing."""
SHORT_NAME = 40
SMALL_MEMBERS, SMALL_STEPS, SMALL_BATCH, SMALL_IMAGES = 1000, 100, 32, 8
"""Of a small sweep, at most; and at most a third of a line's members, so that its results are no line's."""


@dataclass(frozen=True)
class PublishedSweep:
    """A request for lines of a published table."""

    table: str
    lines: str | None = None
    """As `choose_lines` reads it; None for all."""
    small: bool = False
    """Whether to see only that everything runs."""


@dataclass(frozen=True)
class Derived:
    """The sweep of published lines."""

    content: dict[str, Any]
    """As of a sweep file."""
    remarks: tuple[str, ...]
    """What is left out, and what the paper does not decide."""


def derive(
    asked: PublishedSweep, models: int | None = None, seed: int | None = None, settings: Sequence[str] = ()
) -> Derived:
    """The sweep of published lines; SpecError with the reasons if none of them can be run, or a named one.

    Args:
        asked: Table and lines.
        models: Instead of the number that the table asks for.
        seed: As in a sweep file.
        settings: Values for what the paper does not state, as NAME=VALUE.
    """
    table = find_table(asked.table)
    lines = choose_lines(asked.table, asked.lines)
    obstacles = {line.number: why for line in lines if (why := find_obstacle(line)) is not None}
    able = [line for line in lines if line.number not in obstacles]
    if not able or (obstacles and asked.lines is not None):
        problems = [f"{asked.table}/{number:03d} cannot be run: {why}" for number, why in obstacles.items()]
        raise SpecError(problems, field="--published", value=asked.table)
    own = _settings(settings, able)
    choices = _attacks(table, able, asked.small)
    points = [_point(line, own, asked.small) for line in able]
    content: dict[str, Any] = {
        "name": _name(asked, own),
        "models": models or _models(table, able, choices, asked.small),
        "attacks": choices,
        "grid": list({key_of(point): point for point in points}.values()),
    }
    if seed is not None:
        content["seed"] = seed
    return Derived(content, tuple(_remarks(table, able, obstacles, own, asked.small)))


def _settings(given: Sequence[str], lines: Iterable[Published]) -> dict[str, Any]:
    """The values of `--set`; SpecError for a name that no method has, or that a line states otherwise."""
    own = read_settings(given)
    known = {name for line in lines for name in method_facts(str(line.cell.method)).names} | {"epochs"}
    if strange := [name for name in own if name not in known]:
        raise SpecError([f"--set: {unknown('parameter', name, known)}" for name in strange], field="--set")
    for line in lines:
        said = {**line.cell.stated, **line.cell.params}
        for name in own.keys() & said.keys():
            raise SpecError(
                f"--set {name}: {line.key} states {name} = {said[name]!r}, and another value would not be "
                "this line: leave it out, or run the cell by --workload and --method",
                field="--set",
                value=name,
            )
    return own


def _name(asked: PublishedSweep, own: dict[str, Any]) -> str:
    """The table's, with what makes it another sweep."""
    parts = [asked.table]
    if asked.lines is not None:
        numbers = asked.lines.replace(f"{asked.table}/", "").replace(" ", "").replace(",", ".")
        parts.append(f"lines-{numbers if len(numbers) <= SHORT_NAME else key_of(numbers)[:8]}")
    if own:
        parts.append(f"set-{key_of(own)[:8]}")
    return "-".join([*parts, "small"] if asked.small else parts)


def _point(line: Published, own: dict[str, Any], small: bool) -> dict[str, Any]:
    """The point of a grid that is this line."""
    workload, method = str(line.cell.workload), str(line.cell.method)
    known = set(method_facts(method).names)
    known |= {"epochs"} if "steps" in known else set()
    given = {**line.table.ours, **own, **line.cell.stated, **line.cell.params}
    values = {name: value for name, value in given.items() if name in known}
    members = members_of(line)
    if small:
        values.pop("epochs", None)
        batch = values.get("batch_size", SMALL_BATCH) if "batch_size" in line.cell.params else SMALL_BATCH
        cut = {"steps": SMALL_STEPS, "batch_size": batch}
        values |= {name: value for name, value in cut.items() if name in known}
        members = max(1, min(members // 3, max(SMALL_MEMBERS, 2 * batch)))
    return {"workload": workload, "method": method, "n_train": members, **values}


def _attacks(table: PrintedTable, lines: Iterable[Published], small: bool) -> list[dict[str, Any]]:
    """The attacks that measure the figures of these lines, with the paper's parameters."""
    names = dict.fromkeys(
        name
        for line in lines
        for metric in line.block.metrics
        for name in metric.attacks
        if isinstance(find_facts("attack", name), AttackFacts) and not _lacks_others(line, name)
    )
    found = []
    for name in names:
        params = dict(table.attacks.get(name, {}))
        if small:
            params.pop("shadows", None)  # trained with the recipe's steps
            params |= {"images": SMALL_IMAGES} if "images" in params else {}
        found.append({"attack": name, **params})
    return found


def _lacks_others(line: Published, attack: str) -> bool:
    """Whether an attack has no non-members to tell from members: the line trains on the whole pool."""
    pool = sizes_of(str(line.cell.workload))["pool"]
    return pool is not None and members_of(line) == pool and not _inverts(attack)


def _inverts(attack: str) -> bool:
    """Whether an attack reconstructs members, and needs nobody else."""
    facts = find_facts("attack", attack)
    return isinstance(facts, AttackFacts) and "images" in facts.names


def _models(
    table: PrintedTable, lines: Iterable[Published], choices: Sequence[dict[str, Any]], small: bool
) -> int:
    """Enough for the paper's runs and for the shadows of every attack."""
    facts = (find_facts("attack", choice["attack"]) for choice in choices)
    needed = max((each.shadows + 1 for each in facts if isinstance(each, AttackFacts)), default=1)
    if small:
        return needed
    stated = max((line.block.runs for line in lines if line.block.runs is not None), default=RUNS)
    return max(stated, needed, table.shadows + 1 if choices and table.shadows is not None else 1)


def _remarks(
    table: PrintedTable,
    lines: Sequence[Published],
    obstacles: dict[int, str],
    own: dict[str, Any],
    small: bool,
) -> Iterable[str]:
    by_reason: dict[str, list[str]] = {}
    for number, why in obstacles.items():
        by_reason.setdefault(why, []).append(str(number))
    for why, numbers in by_reason.items():
        yield f"without line{'s' * (len(numbers) > 1)} {', '.join(numbers)}: {why}"
    decided = {**table.ours, **own}
    open_ = [name for name in table.unstated if name not in decided]
    if open_:
        yield f"not stated by the paper, from the recipe: {', '.join(open_)}"
    if decided:
        given = ", ".join(f"{name} = {_spell(value)}" for name, value in decided.items())
        yield f"not stated by the paper, our choice: {given}"
    free = dict.fromkeys(str(line.cell.workload) for line in lines if line.n_train is None)
    if free and not small:
        yield f"members per model are not stated, the workload's own number holds: {', '.join(free)}"
    if small:
        yield (
            f"small: at most {SMALL_MEMBERS:,} members, {SMALL_STEPS} steps and as few models as the attacks "
            "need, to see that everything runs; the results are no published line's"
        )


def _spell(value: Any) -> str:
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)
