"""The audit report: bounds beside prices, alarms in red, and a note without audits."""

from pathlib import Path
from typing import Any

from matplotlib.colors import to_hex

from harness.report.audit import audit_figure, audit_table, draw_audit
from harness.report.figure.style import ALARM


def row(epsilon: float, priced: float | None, alarm: bool = False, **changes: Any) -> dict[str, Any]:
    return {
        "workload": "digits-linear",
        "label": "dp-sgd ε=1 +100 gradient",
        "attack": "audit-one-run",
        "canary": "gradient",
        "canaries": 100,
        "models": 4,
        "correct": 90,
        "guesses": 100,
        "confidence": 0.95,
        "epsilon_audited": epsilon,
        "epsilon_priced": priced,
        "epsilon_paper": None,
        "guarantee_kind": "approximate-dp",
        "alarm": alarm,
        **changes,
    }


def test_the_table_counts_alarms() -> None:
    table = audit_table([row(0.0, 0.9), row(4.2, 0.9, alarm=True, epsilon_paper=0.5), row(3.0, None)], "")
    assert [line[-1] for line in table.rows] == ["", "ALARM", ""]
    assert [line[6:9] for line in table.rows][1:] == [
        ("≥ 4.2 (95 %)", "0.9", "0.5"),
        ("≥ 3 (95 %)", "-", "-"),
    ]
    assert table.counts == "3 audits, 1 alarm."


def test_an_alarm_is_red() -> None:
    axes = audit_figure([row(0.2, 0.9), row(4.2, 0.9, alarm=True)]).axes[0]
    bars = [to_hex(bar.get_facecolor()) for bar in axes.patches]
    assert bars[1] == ALARM != bars[0]
    assert [str(label.get_color()) == ALARM for label in axes.get_yticklabels()] == [False, True]


def test_without_audits_the_figure_states_what_to_run(tmp_path: Path) -> None:
    files = draw_audit([], "select * from audit", tmp_path)
    kinds = ("png", "svg", "pdf", "md", "tex", "csv", "csv-metadata.json")
    assert [file.name for file in files] == [f"audit.{kind}" for kind in kinds]
    assert "0 audits, 0 alarms." in (tmp_path / "audit.md").read_text(encoding="utf-8")
