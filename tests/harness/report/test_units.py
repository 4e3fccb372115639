"""Figures as text: one convention for the terminal, tables and the page."""

from harness.report.units import MARK, NUMBER, note_majority, show_short, show_whole, unit_of

NAMES = ("accuracy", "auc", "tpr_at_0p1pct", "tpr_at_1pct")
FIGURES = ((0.9664, 0.960, 0.9711), (0.6216, 0.601, 0.642), (0.00123, None, None), (None, None, None))
ROW = {
    f"{name}{end}": value
    for name, figure in zip(NAMES, FIGURES, strict=True)
    for end, value in zip(("", "_low", "_high"), figure, strict=True)
}


def test_accuracies_and_rates_are_in_per_cent_and_the_auc_is_a_number() -> None:
    assert show_whole(ROW, "accuracy") == "96.6 % [96.0, 97.1]"
    assert show_whole(ROW, "auc") == "0.622 [0.601, 0.642]"
    assert show_whole(ROW, "tpr_at_0p1pct") == "0.12 %"
    assert show_whole(ROW, "tpr_at_1pct") is None
    assert unit_of("canary_auc") is NUMBER


def test_a_short_interval_is_the_larger_half() -> None:
    assert show_short(ROW, "accuracy") == "96.6 ± 0.6 %"
    assert show_short(ROW, "auc") == "0.622 ± 0.021"
    assert show_short(ROW, "tpr_at_0p1pct") == "0.12 %", "no interval for one model"
    skewed = {"tpr_at_1pct": 0.01, "tpr_at_1pct_low": 0.001, "tpr_at_1pct_high": 0.095}
    assert show_short(skewed, "tpr_at_1pct") == "1.0 ± 8.5 %"


def test_the_footnote_names_the_shares_of_the_most_common_class() -> None:
    assert (
        note_majority([{"beats_majority": True, "majority_accuracy": 0.1}, {"beats_majority": None}]) is None
    )
    rows = [{"beats_majority": False, "majority_accuracy": share} for share in (0.5, 0.1028)]
    note = note_majority(rows)
    assert note is not None and note.startswith(MARK) and "10.3 to 50.0 %" in note
