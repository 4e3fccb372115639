"""Limits on figures, for CI: `tpr_at_1pct=0.02`, or `lira:auc=0.6` for a certain attack."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.audit.leakage_audit import AttackFigures, FigureLimit
from harness.leakage.roc import FEWEST, RATES
from harness.store.outcomes import Rate
from workloads.errors import SpecError

TPRS = {
    "tpr_at_10pct": "0.1",
    "tpr_at_1pct": "0.01",
    "tpr_at_0p1pct": "0.001",
    "tpr_at_0p01pct": "0.0001",
}
FIGURES = ("auc", "balanced_accuracy", *TPRS)
NAMES = {
    "auc": "AUC",
    "balanced_accuracy": "balanced accuracy",
    **{name: f"TPR at {100 * float(label):g} % FPR" for name, label in TPRS.items()},
}


@dataclass(frozen=True)
class Limit:
    """A figure that must not be above a value."""

    attack: str | None
    """None: every one that was run."""
    figure: str
    most: float


def read_limit(text: str) -> Limit:
    """A limit from its text; SpecError if it is none."""
    name, sign, number = text.partition("=")
    attack, colon, figure = name.rpartition(":")
    try:
        most = float(number)
    except ValueError:
        most = float("nan")
    if not sign or figure not in FIGURES or not 0 <= most <= 1 or (colon and not attack):
        raise SpecError(
            f"--fail-above {text}: give FIGURE=LIMIT or ATTACK:FIGURE=LIMIT, with one of "
            f"{', '.join(FIGURES)} and a "
            "limit from 0 to 1, e.g. tpr_at_1pct=0.02",
            field="fail_above",
            value=text,
            allowed=FIGURES,
        )
    return Limit(attack or None, figure, most)


def check_resolved(limits: Sequence[Limit], others: int) -> None:
    """SpecError for a limit on a rate that these records cannot resolve: it would never be exceeded."""
    for each in limits:
        if each.figure not in TPRS:
            continue
        rate = RATES[TPRS[each.figure]]
        needed = -(-FEWEST * rate.denominator // rate.numerator)
        if others < needed:
            raise SpecError(
                f"--fail-above {each.figure}: {others} others cannot resolve it, {needed} can; give more, or "
                "a limit "
                "on the AUC",
                field="fail_above",
                value=others,
                allowed=needed,
            )


def judge_limits(limits: Sequence[Limit], attacks: Sequence[AttackFigures]) -> list[FigureLimit]:
    """Every limit beside the figure of every attack that it is for."""
    return [_judge(limit, each) for limit in limits for each in _meant(limit, attacks)]


def _meant(limit: Limit, attacks: Sequence[AttackFigures]) -> list[AttackFigures]:
    if limit.attack is None:
        return list(attacks)
    names = [each.attack for each in attacks]
    if limit.attack not in names:
        raise SpecError(
            f"--fail-above {limit.attack}:{limit.figure}: {limit.attack} was not run, but {', '.join(names)}",
            field="fail_above",
            value=limit.attack,
            allowed=tuple(names),
        )
    return [attacks[names.index(limit.attack)]]


def _judge(limit: Limit, attack: AttackFigures) -> FigureLimit:
    """A limit is exceeded where the lower end of the 95 % interval is above it."""
    value, low = figure_of(attack, limit.figure)
    exceeded = low is not None and low > limit.most
    name = f"the {NAMES[limit.figure]} of {attack.attack}"
    most = _shown(limit.figure, limit.most)
    text = f"{name} was not measured; its limit is {most}"
    if value is not None and low is not None:
        shown, begin = _shown(limit.figure, value), _shown(limit.figure, low)
        verdict = "above" if exceeded else "not above"
        text = f"{name} is {shown}, its interval begins at {begin}: {verdict} the limit of {most}"
    return FigureLimit(
        attack=attack.attack,
        figure=limit.figure,
        limit=limit.most,
        value=value,
        low=low,
        exceeded=exceeded,
        message=text,
    )


def _shown(figure: str, value: float) -> str:
    return f"{value:.3f}" if figure == "auc" else f"{100 * value:.3g} %"


def figure_of(attack: AttackFigures, figure: str) -> tuple[float | None, float | None]:
    """A figure and the lower end of its interval."""
    if figure in TPRS:
        rate: Rate = attack.metrics.tpr[TPRS[figure]]
        return rate.value, rate.low
    found = getattr(attack.metrics, figure)
    low = getattr(attack.metrics, f"{figure}_low")
    return found, low
