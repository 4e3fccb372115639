"""The two figures of a leakage audit: every attack beside guessing, and the ROC curves."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from harness.audit.leakage_audit import AttackFigures, LeakageAudit
from harness.leakage.roc import FEWEST
from harness.report.audit_page.statements import REFERENCES, spread
from harness.report.figure.marks import PALETTE
from harness.report.figure.paper_sizes import scaled
from harness.report.figure.style import ALARM, FAINT, INK, LINES, percent_ticks

WIDEST = 1.0
"""The largest rate of an axis."""


def headline_rate(audit: LeakageAudit) -> tuple[str, str]:
    """The FPR whose TPR is drawn, as a key of the metrics and in words: 1 % if it is resolved."""
    first = audit.figures().metrics
    return ("0.01", "1 %") if first.tpr["0.01"].value is not None else ("0.1", "10 %")


def draw_forest(axes: Axes, audit: LeakageAudit) -> None:
    """A line per attack: its TPR with interval, beside guessing, a reference and the ledger's ceiling."""
    label, words = headline_rate(audit)
    guess = float(label)
    shown = [each for each in audit.attacks if each.metrics.tpr[label].value is not None]
    if not shown:
        axes.set_axis_off()
        text = "Too few others to resolve any rate: see the AUC in the table."
        axes.text(0.5, 0.5, text, ha="center", va="center", color=FAINT)
        return
    lowest = guess / 4
    for place, each in enumerate(shown):
        rate = each.metrics.tpr[label]
        value, low, high = (max(end or 0.0, lowest) for end in (rate.value, rate.low, rate.high))
        colour = _colour(audit, each, PALETTE[0])
        axes.plot([low, high], [place, place], color=colour, linewidth=2, solid_capstyle="butt")
        axes.plot(value, place, marker="o", color=colour, markersize=scaled(6), clip_on=False)
        text = spread(rate)
        axes.annotate(
            text, (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=scaled(8)
        )
    axes.axvline(guess, color=FAINT, linestyle="--", linewidth=1)
    top = len(shown) - 0.45
    label_look: dict[str, Any] = {
        "ha": "center",
        "va": "top",
        "fontsize": scaled(7),
        "linespacing": 1.0,
        "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    }
    axes.text(guess, top, "guessing", color=FAINT, **label_look)
    unprotected = REFERENCES[-1].tpr
    if label == "0.01":
        axes.axvline(unprotected, color=FAINT, linestyle=":", linewidth=1)
        text = "digits network,\nno protection"
        axes.text(unprotected, top, text, color=FAINT, **label_look)
    most = None if audit.ledger is None else audit.ledger.guarantee.ceilings
    if most is not None and most.tpr[label] < WIDEST:
        axes.axvline(most.tpr[label], color=ALARM, linewidth=1)
        text = "ledger's\nceiling"
        axes.text(most.tpr[label], top, text, color=ALARM, **label_look)
    axes.set_yticks(range(len(shown)), [each.attack for each in shown])
    axes.set_ylim(len(shown) + 0.45, -0.6)
    axes.set_xscale("log")
    axes.set_xlim(lowest, WIDEST)
    percent_ticks(axes.xaxis)
    axes.grid(visible=False, axis="y")
    _mark_void(axes, audit)
    axes.set_xlabel(f"members found at {words} false alarms (TPR at {words} FPR), 95 % interval")


def draw_roc(axes: Axes, audit: LeakageAudit) -> None:
    """The ROC curve of every attack, both axes logarithmic, from the lowest FPR that the others resolve."""
    metrics = audit.figures().metrics
    lowest = min(max(FEWEST / max(metrics.n_nonmembers, 1), 1e-4), 0.5)
    rates = np.geomspace(lowest, 1, 100)
    for place, each in enumerate(distinct(audit)):
        first = each.attack == audit.headline
        kept = [(f, t) for f, t in zip(each.roc.fpr, each.roc.tpr, strict=True) if f >= lowest and t > 0]
        axes.plot(
            [f for f, _ in kept],
            [t for _, t in kept],
            color=_colour(audit, each, PALETTE[place % len(PALETTE)]),
            linestyle="-" if first else LINES[place % len(LINES)],
            linewidth=1.8 if first else 1.2,
            label=each.attack,
        )
    axes.plot(rates, rates, color=FAINT, linestyle="--", linewidth=0.8, label="guessing")
    most = None if audit.ledger is None else audit.ledger.guarantee.ceilings
    if most is not None:
        drawn = np.interp(rates, most.curve.fpr, most.curve.tpr)
        axes.plot(rates, drawn, color=ALARM, linewidth=1, label="ledger's ceiling")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(lowest, 1)
    axes.set_ylim(lowest, 1.1)
    percent_ticks(axes.xaxis, axes.yaxis)
    _mark_void(axes, audit)
    axes.set_xlabel("false alarms (false positive rate)")
    axes.set_ylabel("members found (true positive rate)")
    axes.legend(fontsize=scaled(7), loc="lower right")


def _colour(audit: LeakageAudit, attack: AttackFigures, other: str) -> str:
    """The headline in ink; without a sound split all in grey."""
    if audit.split.valid is False:
        return FAINT
    return INK if attack.attack == audit.headline else other


def _mark_void(axes: Axes, audit: LeakageAudit) -> None:
    if audit.split.valid is False:
        look: dict[str, Any] = {"ha": "center", "va": "center", "transform": axes.transAxes}
        axes.text(0.5, 0.5, "VOID", color=ALARM, alpha=0.35, fontsize=scaled(34), weight="bold", **look)


def distinct(audit: LeakageAudit) -> Sequence[AttackFigures]:
    """The attacks without those whose curve repeats an earlier one's, as `population` does `loss`."""
    found: list[AttackFigures] = []
    for each in audit.attacks:
        if not any(each.roc == other.roc for other in found):
            found.append(each)
    return found
