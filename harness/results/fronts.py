"""The front of the view `frontier`: the table `front_result` behind its column `on_front`."""

from collections import defaultdict
from typing import Any

import sqlalchemy as sa

import db
from harness.leakage.pareto import Point, find_front
from harness.results.rows import TABLES, to_arrow

COMPETING = """
    select
        attack_task, auc, validation_accuracy,
        origin, protocol, workload, workload_version, n_train, canary, canaries, canary_version,
        attack, cast(attack_params as varchar) as attack_params
    from frontier
    where chosen and coalesce(valid, false) and auc is not null and validation_accuracy is not null
"""
"""The rows that compete: with each other if they agree in all but the first three columns."""


def write_fronts(connection: sa.Connection) -> None:
    """Rebuild the table `front_result` from the rows in the database."""
    rivals: dict[tuple[Any, ...], list[tuple[str, Point]]] = defaultdict(list)
    for task, auc, accuracy, *group in connection.exec_driver_sql(COMPETING):
        rivals[tuple(group)].append((task, (auc, accuracy)))
    rows = [
        {"task": own[position][0]}
        for own in rivals.values()
        for position in find_front([point for _, point in own])
    ]
    connection.execute(sa.delete(TABLES["front_result"]))
    if rows:
        db.insert_arrow(connection, TABLES["front_result"], to_arrow("front_result", rows))
