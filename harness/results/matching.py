"""The tables `published` and `published_match`: published numbers and the cells that match them."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

import db
from harness.papers.published_lines import defaults_of, find_obstacle, members_of
from harness.papers.published_tables import Published, published
from harness.results.data_of import find_dataset
from harness.results.rows import TABLES, Row, to_arrow
from harness.spec import PROTOCOL, despelled, epochs_of, steps_of

CELL, RUN = TABLES["cell"], TABLES["model_run"]
VERSIONS = ("workload_version", "method_version")
MODELS = sa.select(sa.func.count()).where(RUN.c.cell == CELL.c.key).scalar_subquery()
OURS = (CELL.c.origin == "", CELL.c.protocol == PROTOCOL)
"""Imported results and those of another protocol are not compared."""
TRIAL = TABLES["trial_result"].c.cell
NO_TRIAL = CELL.c.key.not_in(sa.select(TRIAL).where(TRIAL.is_not(None)))
"""A tune's trials are settings of all kinds, which nobody reports."""
TRAINED = sa.select(CELL, MODELS.label("models")).where(*OURS, MODELS > 0, NO_TRIAL)


def write_published(connection: sa.Connection) -> bool:
    """Write the published numbers of this program into the database; False if they were there already."""
    table = TABLES["published"]
    printed = [
        {**row, "unmatchable": find_obstacle(each), "dataset": find_dataset(each.cell.workload)}
        for each in published()
        for row in each.rows()
    ]
    rows = to_arrow("published", printed)
    # JSON as text: a driver may parse it.
    as_text = [
        sa.cast(each, sa.String).label(each.name) if isinstance(each.type, sa.JSON) else each
        for each in table.c
    ]
    standing = connection.execute(sa.select(*as_text)).mappings()
    if to_arrow("published", [dict(row) for row in standing]).sort_by("key").equals(rows.sort_by("key")):
        return False
    connection.execute(sa.delete(table))
    db.insert_arrow(connection, table, rows)
    return True


def write_matches(connection: sa.Connection) -> None:
    """Rebuild `published_match`: every cell with a trained model that is a paper's."""
    table = TABLES["published_match"]
    connection.execute(sa.delete(table))
    cells = connection.execute(TRAINED).mappings()
    rows = match(published(), [{**cell, "params": despelled(cell["params"])} for cell in cells])
    if rows:
        db.insert_arrow(connection, table, to_arrow("published_match", rows))


def match(printed: Iterable[Published], cells: Iterable[Row]) -> list[Row]:
    """Rows of `published_match`.

    A cell is the paper's if workload, method, the number of members and the identifying parameters agree.
    They are ranked by how close the settings are, then by version and number of models, never by results:
    that would select the best-looking cell.
    """
    by_name: dict[tuple[str, str], list[Row]] = {}
    for cell in cells:
        by_name.setdefault((cell["workload"], cell["method"]), []).append(cell)
    rows = []
    for each in printed:
        if find_obstacle(each) is not None:
            continue
        found = by_name.get((str(each.cell.workload), str(each.cell.method)), [])
        members = members_of(each)
        mine = [
            cell
            for cell in found
            if cell["n_train"] == members and not _differing(each.cell.params, cell["params"], members)
        ]
        for place, cell in enumerate(sorted(mine, key=lambda cell: _distance(each, cell)), 1):
            texts = json.dumps(differences(each, cell), ensure_ascii=False)
            rows.append({"published": each.key, "cell": cell["key"], "place": place, "differences": texts})
    return rows


def differences(printed: Published, cell: Row) -> list[str]:
    """The differences between the settings of both numbers, besides those of the whole table."""
    params, n_train = cell["params"], cell["n_train"]
    epochs = epochs_of(params, n_train)
    values = params if epochs is None else {**params, "epochs": float(f"{epochs:.3g}")}
    texts = []
    for name in _differing(printed.cell.stated, params, n_train):
        theirs = _spell(printed.cell.stated[name])
        if name in values:
            texts.append(f"{name} {_spell(values[name])} instead of {theirs}")
        else:
            texts.append(f"no {name} here ({theirs} in the paper)")
    ours = _chosen(printed, cell)
    own = [f"n_train {n_train}"] if printed.n_train is None else []
    own += [f"{name} {_spell(params[name])}" for name in ours]
    if own:
        texts.append("not in the paper, ours: " + ", ".join(own))
    return texts


def _chosen(printed: Published, cell: Row) -> list[str]:
    """Parameters that we chose: those that the paper does not state, and all others that are no defaults."""
    params, known = cell["params"], {*printed.cell.params, *printed.cell.stated}
    open_ = [name for name in printed.table.unstated if name in params]
    return [name for name in [*open_, *_unusual(printed, cell)] if name not in known]


def _unusual(printed: Published, cell: Row) -> list[str]:
    """Parameters of which the paper says nothing, and that are not as the method has them by default.

    Without a default they follow from others, such as the noise from epsilon.
    """
    said = {*printed.cell.params, *printed.cell.stated, *printed.table.unstated}
    usual = {name: value for name, value in defaults_of(printed).items() if value is not None}
    return [
        name
        for name, value in cell["params"].items()
        if name in usual and name not in said and not _equal(value, usual[name])
    ]


def _distance(printed: Published, cell: Row) -> tuple[Any, ...]:
    versions = [(-len(cell[name]), [-ord(sign) for sign in cell[name]]) for name in VERSIONS]
    params, members = cell["params"], cell["n_train"]
    stated = len(_differing(printed.cell.stated, params, members))
    chosen = len(_differing(printed.table.ours, params, members))
    return stated, chosen, len(_unusual(printed, cell)), *versions, -cell["models"], cell["seed"], cell["key"]


def _differing(wanted: Mapping[str, Any], params: Mapping[str, Any], n_train: int) -> list[str]:
    """The wanted values that the parameters do not have. Epochs are as many steps as they take."""
    found = []
    for name, value in wanted.items():
        given = params.get(name)
        if name == "epochs" and name not in params and params.get("batch_size"):
            value, given = steps_of(value, params["batch_size"], n_train), params.get("steps")
        if not _equal(value, given):
            found.append(name)
    return found


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool) or isinstance(one, str) or isinstance(other, str):
        return type(one) is type(other) and bool(one == other)
    return other is not None and math.isclose(one, other, rel_tol=1e-9)


def _spell(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
