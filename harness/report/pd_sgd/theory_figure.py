"""The figure of PD-SGD's privacy test: six panels."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.figure.paper_sizes import SCREEN, Sheet, lay_out, panel_width, scaled, wrap
from harness.report.figure.style import FAINT, INK, PALETTE, log_ticks, new_figure, shorten
from harness.report.pd_sgd.curves import DELTAS, KINDS, Curve, figure_1, settings
from harness.report.pd_sgd.theory import DIMENSION, half_accepted_at, plausibility

DISTANCE = "distance of the batches' gradients / sigma"
STYLES = {"q": "-", "Lemma 2": "--", "Corollary 1": ":"}


def draw(curves: Sequence[Curve], title: str, sheet: Sheet = SCREEN) -> Figure:
    """Lemma 1, its bounds, the paper's settings; Figure 1 twice, Figure 3."""
    figure = new_figure(sheet.inches(13), sheet.lines(6) * sheet.height(3.8))
    if not sheet.printed:
        figure.suptitle(title, x=0.01, ha="left", fontsize=scaled(14), weight="bold")
    panels = lay_out(figure, 6, sheet)

    def own(panel: str) -> list[Curve]:
        return [curve for curve in curves if curve.panel == panel]

    draw_plausibility(panels[0], own("plausibility"))
    draw_bounds(panels[1], own("bounds"))
    draw_settings(panels[2])
    for axes, delta in zip(panels[3:5], DELTAS, strict=True):
        draw_distances(axes, own(figure_1(delta)), delta)
    draw_experiment(panels[5], own("figure 3"))
    return figure


def draw_plausibility(axes: Axes, curves: Sequence[Curve]) -> None:
    """q against the distance, with a dot where about half of the batches pass."""
    for curve, colour in zip(curves, PALETTE, strict=False):
        gamma = float(curve.gamma or 0)
        half = half_accepted_at(gamma)
        axes.plot(curve.x, curve.y, color=colour, label=f"gamma {gamma:g}")
        axes.plot([half], [float(plausibility(half, gamma))], "o", ms=scaled(5), color=colour)
    name(axes, "Lemma 1: a batch passes; dot: at sqrt(2 gamma)", DISTANCE, "probability q")
    axes.legend()


def draw_bounds(axes: Axes, curves: Sequence[Curve]) -> None:
    """q and its two bounds, on a log axis."""
    colours = dict(zip(dict.fromkeys(curve.gamma for curve in curves), PALETTE, strict=False))
    for curve in curves:
        label = f"{curve.name}, gamma {curve.gamma:g}"
        axes.plot(curve.x, curve.y, STYLES[curve.name], color=colours[curve.gamma], label=label)
    axes.set_yscale("log")
    axes.set_ylim(1e-6, 2)
    log_ticks(axes.yaxis)
    name(axes, "Lemma 2, Corollary 1: bounds beyond sqrt(2 gamma)", DISTANCE, "probability q")
    axes.legend(fontsize=scaled(8))


def draw_settings(axes: Axes) -> None:
    """How far apart, in sigmas, batches may be in the paper's own settings."""
    rows = settings()
    for place, row in enumerate(rows):
        half = half_accepted_at(row["gamma"])
        axes.plot([half], [place], "o", ms=scaled(7), color=PALETTE[0])
        axes.annotate(
            f"{half:.3g}", (half, place), xytext=(8, -3), textcoords="offset points", fontsize=scaled(8)
        )
    axes.axvspan(1, 3, color="#dff0e8", lw=0, zorder=0)
    labels = [f"{shorten(row['workload'], 22)}, {row['setting']}" for row in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=scaled(8))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(1, 6000)
    log_ticks(axes.xaxis)
    name(axes, "Table 13: where half of the batches pass", "distance / sigma; shaded: noise may hide a batch")


def draw_distances(axes: Axes, curves: Sequence[Curve], delta: float) -> None:
    """The normalised distance from which a batch passes with probability delta at most, against sigma."""
    for curve, colour in zip(curves, PALETTE, strict=False):
        axes.plot(curve.x, curve.y, color=colour, label=f"gamma {curve.gamma:g}")
    axes.set_xlim(0, None)
    axes.set_ylim(0, None)
    name(axes, f"Figure 1: from where q <= {delta:g}", "sigma", f"sqrt(d* / k), k = {DIMENSION:,}")
    axes.legend()


def draw_experiment(axes: Axes, curves: Sequence[Curve]) -> None:
    """Measured rejection rates of anomalous and of normal seeds."""
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.3)  # the legend is above the curves
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    name(axes, "Figure 3: rejected seeds, measured", "share of flipped labels in a batch", "rejection rate")
    for place, curve in enumerate(curves):
        anomalous = curve.name.endswith(KINDS[0])
        colour = PALETTE[place // len(KINDS) % len(PALETTE)] if anomalous else INK
        axes.plot(curve.x, curve.y, "o-" if anomalous else "s:", ms=scaled(4), color=colour, label=curve.name)
    if curves:
        axes.legend(fontsize=scaled(7), loc="upper left")
    else:
        text = "nothing measured yet; run:\nprivbench run papers/pd-sgd-anomalous"
        axes.text(0.5, 0.7, text, ha="center", va="center", color=FAINT, fontsize=scaled(8))


def name(axes: Axes, title: str, x: str, y: str = "") -> None:
    """Title and axes of a panel."""
    width = 0.8 * panel_width(axes)  # the title begins at the left axis
    axes.set_title(wrap(title, width, 10), loc="left", fontsize=scaled(10))
    axes.set_xlabel(wrap(x, width, SCREEN.font))
    axes.set_ylabel(y)
