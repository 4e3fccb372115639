from typing import Any

from harness.report.leakage import (
    AUC,
    TPRS,
    choose_attack,
    choose_leakage,
    name_attack,
    rows_near_front,
    rows_on_front,
)


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


def test_the_strongest_attack_is_of_the_highest_mean_auc(row: Any) -> None:
    rows = [row(attack="loss", mu=0.1), row(attack="lira", mu=0.4)]
    rows += [row(epsilon=1.0, attack="loss", mu=0.3), row(epsilon=1.0, attack="lira", mu=0.2)]
    assert choose_attack(rows, AUC) == "lira"


def test_every_axis_has_its_own_strongest_attack(row: Any) -> None:
    rows = [
        row(attack="reference", auc=0.59, tpr_at_1pct=0.014),
        row(attack="lira", auc=0.58, tpr_at_1pct=0.041),
    ]
    by_column = {each.column: choose_attack(rows, each) for each in (*TPRS, AUC)}
    assert by_column["auc"] == "reference"
    assert by_column["tpr_at_1pct"] == "lira"
    assert by_column["tpr_at_0p1pct"] == "reference", "unresolved: the AUC decides"


def test_an_attack_on_the_easy_cells_alone_does_not_win(row: Any) -> None:
    rows = [row(attack="loss", mu=0.1), row(epsilon=1.0, attack="loss", mu=0.1), row(attack="rmia", mu=2.0)]
    assert choose_attack(rows, AUC) == "loss"


def test_attacks_without_any_auc_still_give_one(row: Any) -> None:
    assert choose_attack([row(attack="b", auc=None), row(attack="a", auc=None)], AUC) == "a"
    assert choose_attack([], AUC) == ""


def test_versions_of_an_attack_are_told_apart_only_where_there_are_two(row: Any) -> None:
    online, offline = row(attack_params={"mode": "online"}), row(attack_params={"mode": "offline"})
    loss = row(attack="loss", attack_params={"k": 1})
    assert name_attack(online, [online, loss]) == "lira"
    assert name_attack(online, [online, offline, loss]) == "lira mode=online"
    assert name_attack(loss, [online, offline, loss]) == "loss"
