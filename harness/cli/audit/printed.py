"""The result of a leakage audit on the terminal."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli import output
from harness.cli.terminal.fitting import Layout

if TYPE_CHECKING:
    from harness.audit.leakage_audit import AttackFigures, LeakageAudit
    from harness.store.outcomes import Audited, Rate

FIGURES = Layout(drop=("TPR at 0.1 % FPR", "balanced accuracy", "TPR at 10 % FPR"), keep=("attack", "AUC"))
RATES = {"TPR at 10 % FPR": "0.1", "TPR at 1 % FPR": "0.01", "TPR at 0.1 % FPR": "0.001"}


def show(audit: "LeakageAudit", files: Sequence[Path], json: bool, wide: bool) -> None:
    """Print the sentence, the figures, the checks and the files; or all of it as JSON."""
    if json:
        output.json_out(audit.model_dump(mode="json"))
        return
    for text in audit.alarms:
        output.out.print(f"ALARM: {text}", style="bold red", markup=False, highlight=False)
    output.prose(audit.meaning)
    output.prose(audit.condition)
    if audit.highest is not None:
        output.prose(audit.highest)
    rows = [_row(each) for each in audit.attacks]
    output.print_table(rows, layout=FIGURES, wide=wide, rest="--wide, --json or the page shows all")
    for reason in dict.fromkeys(each.reason for each in audit.skipped):
        names = ", ".join(each.attack for each in audit.skipped if each.reason == reason)
        output.prose(f"not run: {names}: {reason}")
    if audit.split.valid is not False:
        output.prose(f"split: {audit.split.message}")
    for name, bound in audit.canary_audits.items():
        output.prose(f"canaries: {describe_bound(name, bound)}")
    for line in audit.ceiling_lines():
        output.prose(f"ledger: {line}")
    for each in audit.limits:
        if not each.exceeded:
            output.prose(f"limit: {each.message}")
    for text in audit.warnings:
        output.hint(text)
    for file in files:
        output.say(f"{file.suffix[1:]}: {file}")


def describe_bound(name: str, bound: "Audited") -> str:
    """A lower bound on epsilon in one sentence."""
    beside = "" if bound.epsilon_priced is None else f", beside a price of {bound.epsilon_priced:.3g}"
    proves = "proves nothing" if bound.epsilon == 0 else f"proves epsilon >= {bound.epsilon:.3g}"
    return (
        f"{name} {proves} at {bound.confidence:.0%} confidence{beside}: {bound.correct} of {bound.guesses} "
        f"guesses about {bound.canaries} canaries were right ({bound.threat})"
    )


def _row(attack: "AttackFigures") -> dict[str, Any]:
    metrics = attack.metrics
    return {
        "attack": attack.attack,
        **{name: _rate(metrics.tpr[label]) for name, label in RATES.items()},
        "AUC": _spread(metrics.auc, metrics.auc_low, metrics.auc_high, 1, 3),
        "balanced accuracy": _spread(
            metrics.balanced_accuracy,
            metrics.balanced_accuracy_low,
            metrics.balanced_accuracy_high,
            100,
            1,
        ),
    }


def _rate(rate: "Rate") -> str:
    digits = 2 if rate.value is not None and rate.value < 0.01 else 1
    return _spread(rate.value, rate.low, rate.high, 100, digits)


def _spread(value: float | None, low: float | None, high: float | None, scale: int, digits: int) -> str:
    if value is None or low is None or high is None:
        return "-"
    sign = " %" if scale == 100 else ""
    half = max(value - low, high - value)
    return f"{scale * value:.{digits}f} ± {scale * half:.{digits}f}{sign}"
