"""The short form of the campaign, and whether it detects wrong intervals."""

from pathlib import Path

import numpy as np
import pytest

from harness.leakage import intervals
from harness.leakage.intervals import Dependence
from harness.leakage.matrices import Floats
from tests.campaigns.calibration.__main__ import GAPS, main
from tests.campaigns.calibration.cells import Pool, Signals, masks, train
from tests.campaigns.calibration.counts import Counts, settings_of
from tests.campaigns.calibration.measured import (
    AXES,
    DEFAULTS,
    FIGURES,
    METHODS,
    ONE_BETTER,
    PAIRS,
    TIMES,
    compare,
    measure,
    winners,
)
from tests.campaigns.calibration.summary import LEAK, LOWEST_ENTRY, NULL, Entry, broken, entries
from workloads.errors import BenchError

pytestmark = pytest.mark.slow

MODELS = 8


def counted(kind: str, cells: int, names: tuple[str, ...]) -> Counts:
    pool = Pool.of(0).leaking(GAPS[kind])
    counts = Counts(settings_of(0))
    for number in range(cells):
        random = np.random.default_rng([1, number])
        counts.add_cell(kind, MODELS, measure(train(pool, masks(MODELS, random), random), names))
    return counts


@pytest.mark.parametrize("kind", [NULL, LEAK])
def test_intervals_of_the_defaults_cover_the_truth(kind: str) -> None:
    counts = counted(kind, 50, DEFAULTS)
    for attack in DEFAULTS:
        of = entries(counts, kind, MODELS, attack)
        assert all(entry.upper >= LOWEST_ENTRY for entry in of.values())
        assert np.mean([entry.coverage for entry in of.values()]) > 0.85  # four standard errors below 95 %
    for figure, chance in FIGURES.items():
        of_lira = entries(counts, kind, MODELS, "lira bayes")[figure]
        error = of_lira.deviation / np.sqrt(of_lira.cells)
        assert (of_lira.mean - chance > 5 * error) == (kind == LEAK)
        assert of_lira.mean > chance - 4 * error


def over_targets_only(values: Floats, dependence: Dependence, honest: float = 0.0) -> float:
    """The t-interval over targets as if they were independent."""
    return intervals.parts(values).by_model


def test_intervals_that_forget_shared_shadows_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = counted(NULL, 120, ("lira online",))
    assert not broken(right, [MODELS])
    monkeypatch.setattr(intervals, "variance", over_targets_only)
    wrong = counted(NULL, 120, ("lira online",))
    assert entries(wrong, NULL, MODELS, "lira online")["AUC"].upper < LOWEST_ENTRY
    assert any("lira online" in each and "AUC" in each for each in broken(wrong, [MODELS]))


def test_a_method_that_leaks_half_as_much_is_found_and_equal_ones_are_not() -> None:
    pool = Pool.of(0)
    tables = [
        compare(pool, MODELS, TIMES[ONE_BETTER], np.random.default_rng([2, number])) for number in range(8)
    ]
    same = np.array([METHODS - 1 not in pair for pair in PAIRS])
    for axis in AXES:
        won = np.array([winners(table[axis]) for table in tables])
        assert won[:, same].any(axis=1).mean() <= 0.25
        if axis.endswith("AUC"):
            assert won[:, ~same].mean() > 0.7


def test_coverage_is_judged_by_the_mean_of_the_other_cells() -> None:
    found = np.array([[0.0, -0.8, 0.8], [0.3, 0.2, 0.4], [0.6, 0.2, 1.0]])
    assert Entry(found).covered == 2  # the others' means are .45, .3 and .15
    assert Entry(found[[0, 2, 2]]).covered == 3
    assert Entry(found, drawn=0.75).covered == 1  # as far again from the value: .9, .3 and -.3
    assert Entry(np.tile([0.5, 0.4, 0.6], (10, 1))).upper == 1


def test_a_run_in_parts_counts_the_same_cells(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    words = ["--models", "4", "--rounds", "1"]
    main([*words, "--cells", "4", "--state", str(whole)])
    main([*words, "--cells", "2", "--state", str(parts)])
    main([*words, "--cells", "4", "--state", str(parts)])
    loaded = [Counts.load(file, settings_of(0)) for file in (whole, parts)]
    assert loaded[0].cells == loaded[1].cells
    assert loaded[0].number(NULL, 4) == 4
    with pytest.raises(BenchError, match="another file"):
        Counts.load(whole, settings_of(1))


def test_too_low_a_coverage_ends_with_exit_code_1_and_stored_signals_have_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(3)
    evidence = train(Pool.of(0), masks(8, random), random)
    stored = Signals(
        evidence.logits,
        evidence.labels,
        evidence.members,
        evidence.population_logits,
        evidence.population_labels,
    )
    stored.save(tmp_path / "eight-models.npz")
    monkeypatch.setattr(intervals, "quantile", lambda models, level=0.975: 0.1)
    out = tmp_path / "calibration.md"
    words = [
        "--cells",
        "4",
        "--models",
        "4",
        "--signals",
        str(tmp_path / "eight-models.npz"),
        "--out",
        str(out),
    ]
    assert main(words) == 1
    text = out.read_text()
    assert "## Stored signals: eight-models" in text
    assert "Cells drawn out of 8 trained models" in text
