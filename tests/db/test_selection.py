"""What the views select by and count: validation accuracy, verdicts of the blind check, configurations."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

import db
from harness.results.fronts import write_fronts

PRIVATE: dict[str, Any] = {"method": "dp-sgd", "epsilon_asked": 4.0, "label": "dp-sgd ε=4"}
PLAIN: dict[str, Any] = {"method": "sgd", "role": "plain-baseline", "epsilon_asked": None, "label": "sgd"}


class Rows:
    """A database to fill with cells and to query."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def add_cell(
        self, key: str, validation: float | None, test: float = 0.5, valid: bool | None = True, **changes: Any
    ) -> None:
        """A cell with one model and an attack on it; without a validation accuracy its training failed."""
        fields: dict[str, Any] = {"configuration": key, "levels": {}, "seed": 0} | PLAIN | changes
        self.session.add(
            db.Cell(
                key=key, workload="w", workload_version="1", method_version="1", params={}, n_train=10,
                protocol=1, **fields,
            )
        )  # fmt: skip
        status = "failed" if validation is None else "done"
        self.session.add(
            db.Task(
                key=f"{key}-0", cell=key, kind="train", status=status, workload="w", method=fields["method"],
                provenance={}, spec={}, protocol=1, checksum=key,
            )
        )  # fmt: skip
        if validation is None:
            return
        self.session.add(
            db.ModelRun(
                task=f"{key}-0", cell=key, index=0, test_accuracy=test, nonmember_accuracy=validation,
                guarantee_kind="none", assumptions=[], stats={},
            )
        )  # fmt: skip
        self._add_attack(key, "lira", None)
        if valid is not None:
            self._add_attack(key, "blind", valid)

    def _add_attack(self, cell: str, attack: str, valid: bool | None) -> None:
        self.session.add(
            db.AttackResult(
                task=f"{cell}-{attack}", cell=cell, attack=attack, attack_version="1", attack_params={},
                models=1, n_members=10, n_nonmembers=10, auc=0.6, valid=valid, roc={},
            )
        )  # fmt: skip

    def query(self, columns: str, view: str = "frontier") -> dict[Any, Any]:
        """The first column to the second."""
        self.session.flush()
        write_fronts(self.session.connection())
        return {row[0]: row[1] for row in self.session.execute(sa.text(f"select {columns} from {view}"))}


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    engine = db.open_database(tmp_path / "results.duckdb")
    with Session(engine) as session:
        yield Rows(session)
    engine.dispose()


def test_the_front_goes_by_validation_accuracy_and_not_by_test_accuracy(rows: Rows) -> None:
    rows.add_cell("better on validation", validation=0.8, test=0.7)
    rows.add_cell("better on test", validation=0.7, test=0.8)
    assert rows.query("cell, on_front") == {"better on validation": True, "better on test": False}
    assert rows.query("cell, accuracy") == {"better on validation": 0.7, "better on test": 0.8}


def test_a_configuration_is_chosen_by_validation_accuracy_and_not_by_test_accuracy(rows: Rows) -> None:
    rows.add_cell("better on validation", validation=0.8, test=0.7, **PRIVATE)
    rows.add_cell("better on test", validation=0.7, test=0.8, **PRIVATE)
    rows.add_cell("at another epsilon", validation=0.6, **(PRIVATE | {"epsilon_asked": 1.0}))
    assert rows.query("cell, chosen") == {
        "better on validation": True,
        "better on test": False,
        "at another epsilon": True,
    }


@pytest.mark.parametrize("verdict", [False, None])
def test_a_cell_not_known_to_be_valid_is_on_no_front_and_beats_no_other(
    rows: Rows, verdict: bool | None
) -> None:
    rows.add_cell("sound", validation=0.7)
    rows.add_cell("doubtful", validation=0.9, valid=verdict)
    assert rows.query("cell, on_front") == {"sound": True, "doubtful": False}


def test_configurations_are_counted_once_with_the_failed_ones(rows: Rows) -> None:
    rows.add_cell("one", validation=0.7, **PRIVATE)
    rows.add_cell("one with another seed", validation=0.7, configuration="one", seed=1, **PRIVATE)
    rows.add_cell("two", validation=0.8, tried_before=18, **PRIVATE)
    rows.add_cell("diverged", validation=None, **PRIVATE)
    rows.add_cell("at another epsilon", validation=0.6, **(PRIVATE | {"epsilon_asked": 1.0}))
    assert rows.query("epsilon_asked, configurations", "tried") == {4.0: 3, 1.0: 1}
    assert rows.query("epsilon_asked, failed", "tried") == {4.0: 1, 1.0: 0}
    assert rows.query("cell, tuned") == {
        "one": "3 here",
        "one with another seed": "3 here",
        "two": "3 here + 18 in the recipe",
        "at another epsilon": "no",
    }


def test_values_that_a_paper_tuned_on_test_data_are_marked(rows: Rows) -> None:
    rows.add_cell("theirs", validation=0.7, tuned_by="paper", tuned_on="test", **PRIVATE)
    assert rows.query("cell, tuned") == {"theirs": "by paper on test"}
