"""Accuracy at equal leakage: between cells, outside their range, and the ceiling of a guarantee."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from harness.report.calibration import calibrate, calibrate_pictures, calibration_tables
from harness.report.calibration_figure import draw_calibration, draw_ceilings
from harness.report.figure.marks import assign_marks
from harness.report.leakage import AUC
from harness.report.reading import Reading, name_groups
from tests.harness.report.conftest import tpr_at

if TYPE_CHECKING:
    from tests.harness.report.conftest import MakeRow


@pytest.fixture
def cells(row: "MakeRow") -> list[dict[str, Any]]:
    """dp-sgd with three cells, one of them dominated, and pd-sgd with one."""
    found = [
        row(epsilon=1.0, accuracy=0.80, mu=0.1),
        row(epsilon=4.0, accuracy=0.90, mu=0.4),
        row(epsilon=8.0, accuracy=0.85, mu=0.5),
        row(method="pd-sgd", epsilon=None, accuracy=0.88, mu=0.3, models=1),
    ]
    name_groups(found)
    return found


def test_by_auc_between_two_cells_either_is_drawn_at_random(cells: list[dict[str, Any]]) -> None:
    (found,) = [each for each in calibrate(cells) if each.leakage is AUC]
    dp, pd = found.curves
    least, most = (each["auc"] for each in dp.rows)
    assert [each["accuracy"] for each in dp.rows] == [0.80, 0.90], "the dominated cell is not on the front"
    middle = dp.at(least + (most - least) / 4)
    assert middle is not None and middle.mixed
    assert middle.accuracy == pytest.approx(0.825)
    assert (middle.low, middle.high) == pytest.approx((0.817, 0.833))
    own = dp.at(least)
    assert own is not None and own.accuracy == 0.80 and not own.mixed
    beyond = dp.at(0.99)
    assert beyond is not None and beyond.accuracy == 0.90 and not beyond.mixed
    assert dp.at(least - 1e-9) is None and pd.at(least) is None
    alone = pd.at(0.99)
    assert alone is not None and alone.accuracy == 0.88 and alone.low is None, "one model has no interval"


def test_by_tpr_between_two_cells_the_less_leaky_one_holds(cells: list[dict[str, Any]]) -> None:
    (found,) = [each for each in calibrate(cells) if each.leakage is not AUC]
    dp = found.curves[0]
    least, most = (each[found.leakage.column] for each in dp.rows)
    middle = dp.at((least + most) / 2)
    assert middle is not None and middle.accuracy == 0.80 and not middle.mixed
    last = dp.at(most)
    assert last is not None and last.accuracy == 0.90


def test_the_table_marks_what_is_mixed_and_what_is_not_offered(cells: list[dict[str, Any]]) -> None:
    table = calibration_tables([each for each in calibrate(cells) if each.leakage is AUC], "select 1")[0]
    assert table.columns == ("AUC at most", "dp-sgd", "pd-sgd")
    assert [line[2] for line in table.rows] == ["-", "88.0 %", "88.0 %"]
    assert table.rows[1][1].startswith("~8") and not table.rows[0][1].startswith("~")
    assert table.query == "select 1"


def test_many_cells_are_compared_at_a_few_levels(row: "MakeRow") -> None:
    many = [row(epsilon=float(e), accuracy=0.5 + e / 100, mu=e / 10) for e in range(1, 31)]
    name_groups(many)
    for found in calibrate(many):
        levels = found.levels()
        assert len(levels) == 6 and levels == sorted(levels)
        assert (levels[0], levels[-1]) == tuple(
            found.curves[0].rows[i][found.leakage.column] for i in (0, -1)
        )


def test_cells_with_other_canaries_are_another_group(row: "MakeRow") -> None:
    pair = [row(canary=None, canaries=0), row(canary="gradient", canaries=9)]
    name_groups(pair)
    assert [each["group"] for each in pair] == ["digits-mlp", "digits-mlp with 9 gradient canaries"]


def test_a_curve_is_drawn_under_its_stored_ceiling(
    cells: list[dict[str, Any]], reading: Callable[..., Reading]
) -> None:
    found = calibrate(cells)[0]
    axes = Figure().subplots()
    draw_ceilings(axes, found, reading(cells), assign_marks(["dp-sgd", "pd-sgd"]))
    thin = [line for line in axes.get_lines() if line.get_linewidth() == 0.7]
    assert len(thin) == 3, "pd-sgd promises nothing"
    for line in thin:
        rates, most = (np.asarray(each, dtype=np.float64) for each in line.get_data())
        assert most == pytest.approx([tpr_at(2.0, rate) for rate in rates], rel=0.01)


@pytest.mark.slow
def test_files_are_drawn(
    cells: list[dict[str, Any]], reading: Callable[..., Reading], tmp_path: Path
) -> None:
    files = draw_calibration(reading(cells), tmp_path / "some")
    kinds = (".png", ".svg", ".pdf", ".md", ".tex")
    pairs = [f"-{number}{end}" for number in (1, 2) for end in (".csv", ".csv-metadata.json")]
    assert [file.name for file in files] == [f"calibration{end}" for end in (*kinds, *pairs)]
    draw_calibration(Reading(frontier=[]), tmp_path / "empty")
    assert (tmp_path / "empty" / "calibration.png").stat().st_size > 0


def picture(method: str, mse: float, accuracy: float) -> dict[str, Any]:
    return {
        "workload": "cifar10-lenet",
        "workload_version": "1",
        "n_train": 100,
        "method": method,
        "label": method,
        "guarantee_kind": "none",
        "models": 2,
        "accuracy": accuracy,
        "validation_accuracy": accuracy,
        "attack": "inverting-gradients",
        "attack_params": {},
        "mse_median": mse,
    }


@pytest.mark.slow
def test_methods_compare_at_equal_error_of_rebuilt_pictures(tmp_path: Path) -> None:
    rows = [picture("sgd", 0.003, 0.6), picture("dp-sgd", 0.28, 0.4), picture("dp-sgd", 0.1, 0.5)]
    (found,) = calibrate_pictures(rows)
    dp, sgd = found.curves
    assert [each["accuracy"] for each in dp.rows] == [0.4, 0.5] and sgd.at(-0.1) is None
    between = dp.at(-0.19)
    assert between is not None and between.accuracy == 0.4, "a median does not mix"
    (table,) = calibration_tables([found], "")
    assert [line[0] for line in table.rows] == [f"MSE at least {mse:.4f}" for mse in (0.28, 0.1, 0.003)]
    files = draw_calibration(Reading(frontier=[], reconstructions=list(rows)), tmp_path)
    assert "cifar10-lenet, pictures" in files[3].read_text(encoding="utf-8")
