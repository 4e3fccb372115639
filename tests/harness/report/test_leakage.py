from typing import Any

import pytest

from harness.report.leakage import (
    AUC,
    TPRS,
    choose_attack,
    choose_leakage,
    drawn_by,
    name_attack,
    rows_near_front,
    rows_on_front,
)
from workloads.errors import SpecError


def test_front_leaves_out_rows_that_are_invalid_unchecked_or_unresolved(row: Any) -> None:
    good = row(epsilon=1.0, accuracy=0.8, mu=0.3)
    better = {"accuracy": 0.95, "mu": 0.1}
    rows = [good, row(valid=False, **better), row(valid=None, **better), row(**better, auc=None)]
    assert rows_on_front(rows, AUC) == [good]


def test_front_rises(row: Any) -> None:
    rows = [row(epsilon=e, accuracy=a, mu=m) for e, a, m in [(8, 0.9, 0.4), (1, 0.7, 0.1), (4, 0.6, 0.2)]]
    assert [each["epsilon_asked"] for each in rows_on_front(rows, AUC)] == [1, 8]


def test_a_row_is_near_the_front_while_intervals_overlap(row: Any) -> None:
    rows = [row(epsilon=1.0, accuracy=0.90, mu=0.30), row(epsilon=4.0, accuracy=0.895, mu=0.31)]
    assert rows_near_front(rows, AUC) == [rows[1]]
    behind = row(epsilon=8.0, accuracy=0.8, mu=0.9)
    invalid = row(epsilon=2.0, accuracy=0.895, mu=0.31, valid=False)
    assert rows_near_front([*rows, behind, invalid], AUC) == [rows[1]]


def test_the_lowest_false_positive_rate_that_every_row_resolves(row: Any) -> None:
    eight, one = row(models=8), row(models=1)
    assert choose_leakage([eight]).name == "TPR at 1 % FPR"
    assert choose_leakage([eight, one]).name == "TPR at 10 % FPR"
    assert choose_leakage([row(tpr_at_10pct=None, models=1)]) is AUC
    assert choose_leakage([]) is AUC


def test_what_each_rate_needs() -> None:
    assert [each.needs for each in TPRS] == [100_000, 10_000, 1_000, 100]
    assert AUC.needs is None
    assert AUC.chance == 0.5


def test_a_rate_can_be_chosen(row: Any) -> None:
    assert choose_leakage([row(models=8)], 0.1).name == "TPR at 10 % FPR"
    with pytest.raises(SpecError) as caught:
        choose_leakage([], 0.02)
    assert (caught.value.value, caught.value.allowed) == (0.02, (1e-4, 1e-3, 1e-2, 1e-1))


def test_the_strongest_of_each_cell_is_drawn_where_there_is_one(row: Any) -> None:
    rows = [row(attack="loss", mu=2.0), row(attack="strongest", mu=0.4), row(attack="lira", mu=0.3)]
    assert choose_attack(rows) == "strongest"
    assert drawn_by(rows) == [rows[1]]
    assert choose_attack(rows, "lira") == "lira"


def test_without_it_an_attack_is_taken_in_a_fixed_order_never_by_what_it_found(row: Any) -> None:
    rows = [row(attack="loss", mu=3.0), row(attack="lira", mu=0.1), row(attack="white-box", mu=4.0)]
    assert choose_attack(rows) == "lira"
    on_more_cells = [*rows, row(epsilon=1.0, attack="loss", mu=0.1)]
    assert choose_attack(on_more_cells) == "loss"
    assert choose_attack([]) == ""


def test_the_front_is_selected_on_validation_accuracy_among_chosen_rows(row: Any) -> None:
    better = row(accuracy=0.9, mu=0.2, validation_accuracy=0.8)
    lucky = row(epsilon=1.0, accuracy=0.95, mu=0.3, validation_accuracy=0.7)
    assert rows_on_front([better, lucky], AUC) == [better]
    assert rows_on_front([{**better, "chosen": False}, lucky], AUC) == [lucky]


def test_versions_of_an_attack_are_distinguished_only_where_there_are_two(row: Any) -> None:
    online, offline = row(attack_params={"mode": "online"}), row(attack_params={"mode": "offline"})
    loss = row(attack="loss", attack_params={"k": 1})
    assert name_attack(online, [online, loss]) == "lira"
    assert name_attack(online, [online, offline, loss]) == "lira mode=online"
    assert name_attack(loss, [online, offline, loss]) == "loss"
