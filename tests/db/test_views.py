import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

import db
from harness.results.fronts import write_fronts

SGD = {"method": "sgd", "role": "plain-baseline", "label": "sgd"}
TABLES = db.Base.metadata.tables
counter = itertools.count()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sa.Engine]:
    engine = db.open_database(tmp_path_factory.mktemp("views") / "results.duckdb")
    yield engine
    engine.dispose()


class Rows:
    """Rows to query; nothing is ever committed."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self.pending: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def insert(self, table: str, **row: Any) -> None:
        """Insert one row; columns that a test does not set get defaults."""
        blank: dict[type, Any] = {str: "", int: 0, float: 0.0, bool: True}
        needed = {
            column.name: blank.get(column.type.python_type, "{}")
            for column in TABLES[table].columns
            if not column.nullable
        }
        self.pending[table].append(needed | row)

    def query(self, sql: str) -> list[dict[str, Any]]:
        for name, rows in self.pending.items():
            table = pa.Table.from_pylist(rows, schema=db.arrow_schema(TABLES[name]))
            db.insert_arrow(self.connection, TABLES[name], table)
        self.pending.clear()
        write_fronts(self.connection)
        return [dict(row) for row in self.connection.exec_driver_sql(sql).mappings()]


@pytest.fixture
def rows(engine: sa.Engine) -> Iterator[Rows]:
    with engine.connect() as connection:
        yield Rows(connection)


def add_cell(rows: Rows, accuracies: list[float], **changes: Any) -> str:
    """A cell with one trained model per accuracy."""
    key = f"cell-{next(counter)}"
    machine = {name: changes.pop(name, value) for name, value in MACHINE.items()}
    machine["host"] = changes.pop("host", None)
    run = {name: changes.pop(name) for name in list(changes) if name in RUN}
    fields = {"workload": "w", "workload_version": "1", "n_train": 10, "method": "dp-sgd", "batch_size": 8}
    rows.insert("cell", key=key, **(fields | changes))
    for index, accuracy in enumerate(accuracies):
        task = f"{key}-{index}"
        rows.insert("task", key=task, cell=key, kind="train", status="done", **machine)
        row = {"task": task, "cell": key, "index": index, "test_accuracy": accuracy}
        row |= {"nonmember_accuracy": accuracy, **run}
        rows.insert("model_run", **row)
    return key


MACHINE = {"device": "cpu", "threads": 1}
RUN = (
    *("step_seconds_median", "step_cpu_seconds_median", "train_seconds", "extra_memory_bytes", "epsilon"),
    *("guarantee_kind", "nonmember_accuracy", "majority_accuracy", "code_fingerprint", "data_fingerprint"),
)


def add_attack(rows: Rows, cell: str, **changes: Any) -> str:
    task = f"attack-{next(counter)}"
    fields = {"attack": "lira", "attack_version": "1", "attack_params": "{}", "models": 2, "auc": 0.5}
    rows.insert("attack_result", task=task, cell=cell, **(fields | changes))
    return task


def test_the_interval_is_students_for_any_number_of_models_within_what_an_accuracy_can_be(rows: Rows) -> None:
    random = np.random.default_rng(1)
    wanted = {}
    for n in (2, 3, 5, 16, 31, 32, 40):
        values = random.uniform(0.4, 0.9, n)
        key = add_cell(rows, values.tolist())
        add_attack(rows, key, models=n)
        low, high = stats.t.interval(0.95, n - 1, values.mean(), stats.sem(values))
        wanted[key] = pytest.approx((values.mean(), max(low, 0.0), min(high, 1.0)), abs=1e-9)
    table = rows.query("select * from frontier")
    assert {
        row["cell"]: (row["accuracy"], row["accuracy_low"], row["accuracy_high"]) for row in table
    } == wanted


@pytest.mark.parametrize(
    ("accuracies", "share", "beats"),
    [
        ([0.9, 0.91, 0.92], 0.5, True),
        ([0.5, 0.6, 0.7], 0.55, False),  # the mean is above, its interval is not
        ([0.55, 0.55, 0.55], 0.55, False),  # always the most common class
        ([0.1 + 0.2] * 3, 0.3, False),  # the same up to rounding
        ([0.6], 0.55, True),
        ([0.5], 0.55, False),
        ([0.9, 0.91], None, None),  # a result of 0.1
    ],
)
def test_an_accuracy_beats_the_most_common_class_by_its_interval(
    rows: Rows, accuracies: list[float], share: float | None, beats: bool | None
) -> None:
    cell = add_cell(rows, accuracies, majority_accuracy=share)
    add_attack(rows, cell, models=len(accuracies))
    (row,) = rows.query("select majority_accuracy, beats_majority from frontier")
    assert (row["majority_accuracy"], row["beats_majority"]) == (share, beats)


def test_a_ceiling_is_the_highest_over_the_attacked_models_and_none_where_one_has_none(rows: Rows) -> None:
    cells = []
    ways: list[list[str | None]] = [
        ["pld twice", "pld twice", None], ["pld twice", "epsilon-delta twice"], ["pld twice", None]
    ]  # fmt: skip
    for way in ways:
        cells.append(add_cell(rows, []))
        for index, by in enumerate(way):
            ceilings = {"ceiling_by": by, "ceiling_auc": 0.7 + index / 10, "ceiling_gap": 0.2 + index / 10}
            rows.insert(
                "model_run", task=f"{cells[-1]}-{index}", cell=cells[-1], index=index,
                **(ceilings if by else {}),
            )  # fmt: skip
        add_attack(rows, cells[-1], models=2)
        task = f"attribute-{cells[-1]}"
        rows.insert("attribute_result", task=task, cell=cells[-1], attack="a", attack_params="{}", models=2)
    found = rows.query("select cell, ceiling_by, ceiling_auc from frontier")
    assert {row["cell"]: (row["ceiling_by"], row["ceiling_auc"]) for row in found} == {
        cells[0]: ("pld twice", pytest.approx(0.8)),
        cells[1]: ("epsilon-delta twice", pytest.approx(0.8)),
        cells[2]: (None, None),
    }
    gaps = rows.query("select cell, gap_ceiling from attribute")
    assert {row["cell"]: row["gap_ceiling"] for row in gaps} == {
        cells[0]: pytest.approx(0.3), cells[1]: pytest.approx(0.3), cells[2]: None
    }  # fmt: skip


def test_a_defence_without_a_guarantee_is_average_case_only_until_canaries_were_scored(rows: Rows) -> None:
    def attacked(kind: str, canary: str | None = None, **changes: Any) -> str:
        scored = changes.pop("scored", True)
        key = add_cell(rows, [0.9], guarantee_kind=kind, canary=canary, **{"params": '{"a":1}', **changes})
        add_attack(rows, key, canary_auc=0.9 if canary and scored else None)
        return key

    alone = attacked("empirical")
    disputed, undefended = attacked("claimed-disputed"), attacked("none")
    covered, plain = attacked("approximate-dp", method="private"), attacked("none", **SGD)
    shown = attacked("empirical", method="shown")
    with_canaries = attacked("empirical", "gradient", method="shown")
    others = [
        attacked("empirical", "gradient", method="shown", **{name: value})
        for name, value in {"params": '{"a":2}', "n_train": 11, "workload": "v", "origin": "theirs"}.items()
    ]
    untried = attacked("empirical", method="untried")
    attacked("empirical", "gradient", scored=False, method="untried")
    found = {row["cell"]: row["tested"] for row in rows.query("select cell, tested from frontier")}
    average, worst = "average case only", "worst case too"
    assert [found[key] for key in (alone, disputed, undefended, untried)] == [average] * 4
    assert [found[key] for key in (covered, plain)] == [None, None]
    assert [found[key] for key in (shown, with_canaries, *others)] == [worst] * 6
    other = attacked("empirical", method="shown", params='{"a":3}')
    found = {row["cell"]: row["tested"] for row in rows.query("select cell, tested from frontier")}
    assert found[other] == average, "other parameters are another defence"


levels = st.sampled_from([0.5, 0.6, 0.7, 0.8])
verdicts = st.sampled_from([True, True, True, False, None])


@pytest.mark.slow
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    points=st.lists(
        st.tuples(st.sampled_from("vw"), st.sampled_from(["lira", "loss"]), levels, levels, verdicts),
        min_size=1,
        max_size=12,
    )
)
def test_the_front_equals_its_definition(
    rows: Rows, points: list[tuple[str, str, float, float, bool | None]]
) -> None:
    wanted = {}
    for workload, attack, accuracy, auc, valid in points:
        key = add_cell(rows, [accuracy], workload=workload)
        add_attack(rows, key, attack=attack, auc=auc, models=1)
        if valid is not None:
            add_attack(rows, key, attack="blind", auc=0.5, valid=valid)
        wanted[key] = valid is True and not any(
            other[:2] == (workload, attack)
            and other[4] is True
            and other[2] >= accuracy
            and other[3] <= auc
            and other[2:4] != (accuracy, auc)
            for other in points
        )
    table = rows.query("select cell, on_front from frontier")
    rows.connection.rollback()
    assert {row["cell"]: row["on_front"] for row in table} == wanted


def test_a_cell_whose_models_differ_in_code_or_data_is_mixed(rows: Rows) -> None:
    alike = add_cell(rows, [0.5, 0.6], code_fingerprint="a", data_fingerprint="d")
    old = add_cell(rows, [0.5, 0.6])
    mixed = add_cell(rows, [0.5])
    for index, (code, data) in enumerate((("a", "d"), ("b", "d"), ("b", "e")), 1):
        row = {"task": f"{mixed}-{index}", "cell": mixed, "index": index, "test_accuracy": 0.5}
        rows.insert("model_run", **row, code_fingerprint=code, data_fingerprint=data)
        rows.insert("task", key=row["task"], cell=mixed, kind="train", status="done", **MACHINE)
    for cell in (alike, old):
        add_attack(rows, cell)
    add_attack(rows, mixed, attack="loss", models=2)
    add_attack(rows, mixed, attack="lira", models=3)
    add_attack(rows, mixed, attack="rmia", models=4)
    table = rows.query("select cell, attack, mixed_code, mixed_data from frontier")
    assert {(row["cell"], row["attack"]): (row["mixed_code"], row["mixed_data"]) for row in table} == {
        (alike, "lira"): (False, False),
        (old, "lira"): (False, False),
        (mixed, "loss"): (False, False),  # of an unknown and a known one
        (mixed, "lira"): (True, False),
        (mixed, "rmia"): (True, True),
    }


def test_the_front_goes_by_accuracy_on_non_members(rows: Rows) -> None:
    """A row that is better on test records alone is not on the front (docs/rules.md)."""
    for test, validation in ((0.5, 0.6), (0.9, 0.4)):
        key = add_cell(rows, [test], nonmember_accuracy=validation)
        add_attack(rows, key, auc=0.6, models=1)
        add_attack(rows, key, attack="blind", valid=True)
    found = {row["accuracy"]: row["on_front"] for row in rows.query("select * from frontier")}
    assert found == {0.5: True, 0.9: False}


def test_of_the_configurations_at_one_epsilon_one_is_chosen(rows: Rows) -> None:
    settings = ((0.6, "a", 1.0), (0.7, "b", 1.0), (0.5, "a", 4.0), (0.4, "a", None), (0.3, "b", None))
    for validation, configuration, epsilon in settings:
        key = add_cell(
            rows, [0.5], nonmember_accuracy=validation, configuration=configuration, epsilon_asked=epsilon
        )
        add_attack(rows, key, auc=0.6, models=1)
    found = rows.query("select validation_accuracy, chosen, configurations, tuned from frontier")
    assert {row["validation_accuracy"]: row["chosen"] for row in found} == {
        0.6: False, 0.7: True, 0.5: True, 0.4: True, 0.3: True
    }  # fmt: skip
    assert {row["tuned"] for row in found if row["validation_accuracy"] > 0.5} == {"2 here"}
    assert {row["tuned"] for row in found if row["validation_accuracy"] == 0.5} == {"no"}


@pytest.mark.parametrize(
    ("before", "on", "shown"),
    [(18, "validation", "18 in the recipe"), (None, "test", "by paper on test"), (None, None, "no")],
)
def test_what_was_tried_before_is_shown(rows: Rows, before: int | None, on: str | None, shown: str) -> None:
    key = add_cell(rows, [0.5], tried_before=before, tuned_on=on)
    add_attack(rows, key, auc=0.6, models=1)
    (row,) = rows.query("select tuned from frontier")
    assert row["tuned"] == shown


def test_failed_trainings_count_as_tried(rows: Rows) -> None:
    add_cell(rows, [0.5], configuration="a", epsilon_asked=1.0)
    failed = add_cell(rows, [], configuration="b", epsilon_asked=1.0)
    rows.insert("task", key=f"{failed}-0", cell=failed, kind="train", status="failed")
    (row,) = rows.query("select * from tried")
    assert (row["configurations"], row["failed"]) == (2, 1)


def test_equal_rows_are_both_on_the_front(rows: Rows) -> None:
    for _ in range(2):
        key = add_cell(rows, [0.5])
        add_attack(rows, key, auc=0.6, models=1)
        add_attack(rows, key, attack="blind", valid=True)
    assert [row["on_front"] for row in rows.query("select * from frontier")] == [True, True]


@pytest.mark.parametrize("differs", [{"n_train": 20}, {"workload_version": "2"}])
def test_other_problems_do_not_compete(rows: Rows, differs: dict[str, Any]) -> None:
    for accuracy, changes in ((0.5, {}), (0.9, differs)):
        key = add_cell(rows, [accuracy], **changes)
        add_attack(rows, key, auc=0.6, models=1)
        add_attack(rows, key, attack="blind", valid=True)
    assert [row["on_front"] for row in rows.query("select * from frontier")] == [True, True]


def test_a_row_is_of_the_attack_with_the_most_models_and_of_those_models(
    rows: Rows,
) -> None:
    key = add_cell(rows, [0.1, 0.2, 0.3, 0.8])
    add_attack(rows, key, models=2, auc=0.6)
    most = add_attack(rows, key, models=3, auc=0.7)
    (row,) = rows.query("select * from frontier")
    assert (row["attack_task"], row["models"], row["auc"]) == (most, 3, 0.7)
    assert row["accuracy"] == pytest.approx(0.2)


def test_a_newer_version_of_an_attack_comes_before_more_models(rows: Rows) -> None:
    key = add_cell(rows, [0.1, 0.2, 0.3])
    add_attack(rows, key, models=3, attack_version="9")
    newest = add_attack(rows, key, models=2, attack_version="10")
    (row,) = rows.query("select * from frontier")
    assert (row["attack_task"], row["attack_version"]) == (newest, "10")


def test_other_parameters_make_another_attack(rows: Rows) -> None:
    key = add_cell(rows, [0.1, 0.2])
    for online in (True, False):
        add_attack(rows, key, attack_params=json.dumps({"online": online}))
    table = rows.query("select * from frontier")
    assert sorted(row["attack_params"]["online"] for row in table) == [False, True]


def test_the_blind_check_is_a_verdict_and_no_row(rows: Rows) -> None:
    key = add_cell(rows, [0.1, 0.2])
    add_attack(rows, key)
    add_attack(rows, key, attack="blind", auc=0.9, valid=False, models=1)
    add_attack(rows, key, attack="blind", auc=0.5, valid=True, models=2)
    (row,) = rows.query("select * from frontier")
    assert (row["attack"], row["blind_auc"], row["valid"]) == ("lira", 0.5, True)


def test_the_price_of_a_cell_is_the_highest_of_its_models(rows: Rows) -> None:
    key = add_cell(rows, [0.1, 0.2], epsilon=4.0)
    add_attack(rows, key)
    (row,) = rows.query("select * from frontier")
    assert row["epsilon"] == 4.0


COST = {"step_seconds_median": 0.2, "step_cpu_seconds_median": 0.1, "train_seconds": 9.0}
COST |= {"extra_memory_bytes": 100}
TWICE = {name: 2 * value for name, value in COST.items()}


RATIOS = ("example_overhead", "example_cpu_overhead", "training_overhead", "memory_overhead")


def test_overhead_is_relative_to_sgd(rows: Rows) -> None:
    add_cell(rows, [0.5, 0.5], **COST, **SGD)
    key = add_cell(rows, [0.5], **TWICE)
    add_attack(rows, key, models=1)
    (row,) = rows.query(f"select * from overhead where cell = '{key}'")
    assert [row[name] for name in RATIOS] == [2, 2, 2, 2]
    (row,) = rows.query("select * from frontier")
    assert [row[name] for name in RATIOS] == [2, 2, 2, 2]
    assert (row["step_overhead"], row["overhead_by"], row["extra_memory_bytes"]) == (None, "per example", 200)


def test_sgd_of_the_same_host_comes_first_and_another_hosts_is_marked(rows: Rows) -> None:
    """Same card or processor name, other machine: steps that wait for the host differ."""
    slow = {name: 10 * value for name, value in COST.items()}
    add_cell(rows, [0.5], **slow, **SGD, host="far")
    key = add_cell(rows, [0.5], **TWICE)
    (row,) = rows.query(f"select * from overhead where cell = '{key}'")
    assert (row["example_overhead"], row["overhead_by"]) == (0.2, "per example, other host")
    add_cell(rows, [0.5], **COST, **SGD)
    (row,) = rows.query(f"select * from overhead where cell = '{key}'")
    assert (row["example_overhead"], row["overhead_by"]) == (2, "per example")


def test_steps_of_unequal_batches_are_compared_per_example(rows: Rows) -> None:
    """A step of 256 examples that takes twice as long as one of 64 is no overhead of 2."""
    add_cell(rows, [0.5], **COST, **SGD, batch_size=64)
    key = add_cell(rows, [0.5], **TWICE, batch_size=256)
    no_batch = add_cell(rows, [0.5], **TWICE, batch_size=None)
    (row,) = rows.query(f"select * from overhead where cell = '{key}'")
    assert (row["step_overhead"], row["overhead_by"], row["batch_size"]) == (None, "per example", 256)
    assert [row[name] for name in RATIOS] == [0.5, 0.5, 2, 2]
    (row,) = rows.query(f"select * from overhead where cell = '{no_batch}'")
    assert (row["example_overhead"], row["overhead_by"], row["training_overhead"]) == (None, None, 2)


def add_bench(rows: Rows, cell: str, ratio: float, **changes: Any) -> None:
    """A bench that timed the cell's step."""
    task, variant = f"bench-{next(counter)}", changes.pop("variant", "dp-sgd auto")
    machine = {name: changes.pop(name, value) for name, value in MACHINE.items()}
    finished = changes.pop("finished", datetime(2026, 1, 1))
    rows.insert("task", key=task, kind="bench", status="done", finished=finished, **machine)
    fields = {"workload": "w", "method": "dp-sgd", "status": "done", **machine}
    ratios = {"ratio": ratio, "ratio_low": ratio - 0.1, "ratio_high": ratio + 0.1}
    rows.insert("bench_result", task=task, variant=variant, **(fields | ratios | changes))
    rows.insert("bench_match", cell=cell, task=task, variant=variant)


def test_a_bench_of_the_cells_step_is_its_overhead(rows: Rows) -> None:
    add_cell(rows, [0.5], **COST, **SGD, batch_size=64)
    key = add_cell(rows, [0.5, 0.6], **TWICE, batch_size=256)
    add_attack(rows, key)
    add_bench(rows, key, 1.5)
    (row,) = rows.query(f"select * from overhead where cell = '{key}'")
    assert (row["step_overhead"], row["overhead_by"], row["example_overhead"]) == (1.5, "bench", 0.5)
    assert (row["step_overhead_low"], row["step_overhead_high"]) == pytest.approx((1.4, 1.6))
    assert row["training_overhead"] == 2
    (row,) = rows.query("select * from frontier")
    assert (row["step_overhead"], row["overhead_by"]) == (1.5, "bench")
    assert {run["overhead_by"] for run in rows.query(f"select * from runs where cell = '{key}'")} == {"bench"}


def test_the_newest_trustworthy_bench_on_such_a_machine_counts(rows: Rows) -> None:
    key = add_cell(rows, [0.5], **TWICE)
    add_bench(rows, key, 1.5, finished=datetime(2026, 1, 2))
    add_bench(rows, key, 1.7, finished=datetime(2026, 1, 1))
    add_bench(rows, key, 1.8, finished=datetime(2026, 1, 3), trustworthy=False)
    add_bench(rows, key, 1.9, finished=datetime(2026, 1, 3), status="failed")
    add_bench(rows, key, 2.0, finished=datetime(2026, 1, 4), threads=8)
    add_bench(rows, key, 2.1, finished=datetime(2026, 1, 4), device="gpu")
    (row,) = rows.query(f"select * from overhead where cell = '{key}'")
    assert (row["step_overhead"], row["overhead_by"], row["example_overhead"]) == (1.5, "bench", None)


@pytest.mark.parametrize(
    "differs",
    [
        {"workload": "v"},
        {"workload_version": "2"},
        {"n_train": 20},
        {"device": "gpu"},
        {"threads": 8},
    ],
)
def test_what_does_not_compare_has_no_ratio(rows: Rows, differs: dict[str, Any]) -> None:
    add_cell(rows, [0.5], **COST, **SGD)
    key = add_cell(rows, [0.5], **TWICE, **differs)
    (row,) = rows.query(f"select * from overhead where cell = '{key}'")
    assert row["step_seconds"] == 0.4
    assert [row[name] for name in RATIOS] == [None] * 4
    assert row["overhead_by"] is None


def test_no_memory_to_compare_with_is_no_infinite_ratio(rows: Rows) -> None:
    add_cell(rows, [0.5], **(COST | {"extra_memory_bytes": 0}), **SGD)
    table = rows.query("select * from overhead")
    assert [row["memory_overhead"] for row in table] == [None]


def test_two_kinds_of_machine_are_not_averaged(rows: Rows) -> None:
    key = add_cell(rows, [0.5], **COST)
    rows.insert("task", key="other", cell=key, device="gpu", threads=1)
    rows.insert("model_run", task="other", cell=key, index=1, step_seconds_median=9.0)
    table = rows.query("select * from overhead order by step_seconds")
    assert [(row["device"], row["models"], row["step_seconds"]) for row in table] == [
        ("cpu", 1, 0.2),
        ("gpu", 1, 9.0),
    ]


def test_a_mean_does_not_depend_on_the_order_in_which_models_were_collected(rows: Rows) -> None:
    """A resumed sweep collects its models in another order; a sum of floats depends on its order."""
    accuracies = [1e16, 1.0, -1e16, 0.5, 0.25, 0.125]  # what is left of 1.0 depends on when it is added
    one = add_cell(rows, accuracies)
    other = add_cell(rows, accuracies)
    for cell in (one, other):
        add_attack(rows, cell, models=len(accuracies))
    mine = [row for row in rows.pending["model_run"] if row["cell"] == other]
    rest = [row for row in rows.pending["model_run"] if row["cell"] != other]
    rows.pending["model_run"] = [*rest, *reversed(mine)]
    columns = "accuracy, accuracy_low, accuracy_high"
    found = {
        cell: rows.query(f"select {columns} from frontier where cell = '{cell}'") for cell in (one, other)
    }
    assert found[one]
    assert found[one] == found[other]
