"""What the page of a leakage audit states, as text: its HTML and its PDF say the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.audit.leakage_audit import AttackFigures, LeakageAudit
from harness.report.metadata import report_time
from harness.store.outcomes import Rate

Tone = Literal["alarm", "plain"]
TITLE = "Leakage audit"
RATES = {"TPR at 10 % FPR": "0.1", "TPR at 1 % FPR": "0.01", "TPR at 0.1 % FPR": "0.001"}
COLUMNS = ("attack", *RATES, "AUC", "balanced accuracy")
RUNGS = {
    "scores": "the model's outputs; the model itself was not seen",
    "model": "the model, which could be called and read",
    "training": "the training: models were trained anew on drawn records",
}
READING = (
    "TPR at 1 % FPR: the share of members that are found if 1 % of the others may wrongly be called members; "
    "guessing finds 1 %. AUC: the chance that a member looks more like a member than an other does; guessing "
    "has "
    "0.5. Balanced accuracy: the share of right calls if as many records are called members as there are. In "
    "brackets: 95 % interval. -: too few others to resolve the rate."
)
SIGNED = ("Audited by", "Date", "Signature")


@dataclass(frozen=True)
class Reference:
    """A measured figure to compare with."""

    name: str
    tpr: float
    """At 1 % FPR."""
    auc: float


REFERENCES = (
    Reference("guessing", 0.01, 0.5),
    Reference("a small network on digits, trained with strong differential privacy", 0.011, 0.523),
    Reference("the same, trained with weak differential privacy", 0.018, 0.571),
    Reference("the same, trained without protection", 0.063, 0.615),
)
"""Of the README: 8 models each, the strongest of three attacks."""


@dataclass(frozen=True)
class Verdict:
    """The first thing to read."""

    tone: Tone
    head: str
    lines: tuple[str, ...]


def verdict(audit: LeakageAudit) -> Verdict:
    """What was found, or why nothing can be: a broken split comes before every figure."""
    if audit.split.valid is False:
        head = "Void: members and others are not alike"
        return Verdict("alarm", head, (audit.meaning, _capital(audit.split.message)))
    lines = (audit.condition, *([audit.highest] if audit.highest else []))
    exceeded = [_capital(each.message) for each in audit.limits if each.exceeded]
    bounds = [each.message for each in audit.canary_audits.values() if each.alarm and each.message]
    if exceeded or bounds:
        return Verdict("alarm", "A limit is exceeded", (audit.meaning, *exceeded, *bounds, *lines))
    return Verdict("plain", "Measured leakage", (audit.meaning, *lines))


def facts(audit: LeakageAudit) -> list[tuple[str, str]]:
    """The data and what was run, by name."""
    data = audit.data
    found = [
        ("Audited", audit.target),
        ("Seen", RUNGS[audit.rung]),
        ("Members", f"{data.members:,} records that {_who(audit)} trained on"),
        ("Others", f"{data.others:,} records that {_who(audit)} not trained on"),
    ]
    if data.population:
        found.append(("Calibration", f"{data.population:,} further records of no model, in no figure"))
    if data.models > 1:
        found.append(("Models", f"{data.models}, each attacked once"))
    kind = data.signal + (f" of {data.classes} classes" if data.classes else "")
    found.append(("Outputs", kind + (", as recognised from their values" if data.recognised else "")))
    found.append(("Shadow models", f"{data.shadows:,}" if data.shadows else "none"))
    if data.member_accuracy is not None and data.other_accuracy is not None:
        text = f"{data.member_accuracy:.1%} on members, {data.other_accuracy:.1%} on others"
        found.append(("Accuracy", text.replace("%", " %")))
    names = {True: "passed", False: "FAILED", None: "not made"}
    checked = names[audit.split.valid]
    text = f"{checked}, see above" if audit.split.valid is False else f"{checked}: {audit.split.message}"
    found.append(("Blind check", text))
    return found


def attack_rows(audit: LeakageAudit) -> list[tuple[str, ...]]:
    """A row of COLUMNS per attack, the headline first."""
    ordered = sorted(audit.attacks, key=lambda each: each.attack != audit.headline)
    return [_attack_row(each) for each in ordered]


def attack_notes(audit: LeakageAudit) -> list[tuple[str, str]]:
    """By attack: what its adversary needs, and what is particular here; then those that were not run."""
    found = [(each.attack, _sentence(each.needs, each.note)) for each in audit.attacks]
    reasons = dict.fromkeys(each.reason for each in audit.skipped)
    for reason in reasons:
        names = ", ".join(each.attack for each in audit.skipped if each.reason == reason)
        found.append((names, f"not run: {reason}"))
    return found


def reference_rows(audit: LeakageAudit) -> list[tuple[str, str, str]]:
    """The headline among points of reference: name, TPR at 1 % FPR, AUC; none if the figures are void."""
    if audit.split.valid is False:
        return []
    metrics = audit.figures().metrics
    own = (f"here, by {audit.headline}", spread(metrics.tpr["0.01"]), _auc(audit.figures()))
    rows = [(each.name, _percent(each.tpr), f"{each.auc:.3f}") for each in REFERENCES]
    most = None if audit.ledger is None else audit.ledger.guarantee.ceilings
    if most is not None:
        name = "the most that the ledger allows any attack"
        rows.append((name, _percent(most.tpr["0.01"]), f"{most.auc:.3f}"))
    return [own, *rows]


def worst_table(audit: LeakageAudit) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows of the members that are found most easily; without columns that say nothing here."""
    several = audit.data.models > 1
    columns = {
        "member": [str(each.record) for each in audit.worst],
        "id": [each.id or "" for each in audit.worst],
        "class": ["" if each.label is None else str(each.label) for each in audit.worst],
        "false alarms": [_percent(each.fpr) for each in audit.worst],
        "found at 1 %": [f"{each.flagged} of {each.trained}" if several else "" for each in audit.worst],
    }
    kept = {name: values for name, values in columns.items() if any(values)}
    return tuple(kept), list(zip(*kept.values(), strict=True))


def worst_caption(audit: LeakageAudit) -> str:
    """What the table of records shows."""
    return (
        f"The members that `{audit.headline}` finds with the fewest false alarms, by their row in the data, "
        "from 0. False alarms: the share of others that look as much like members."
    )


def ledger_lines(audit: LeakageAudit) -> list[str]:
    """The price of the training, its ceiling, and why a comparison is no test of it."""
    lines = [_capital(line) for line in audit.ceiling_lines()]
    if lines and not audit.canary_audits:
        lines.append(
            "A figure below the ceiling does not show that the training kept its guarantee: only canaries in "
            "the training can raise that alarm."
        )
    return lines


def canary_lines(audit: LeakageAudit) -> list[str]:
    """The lower bounds that canaries proved."""
    return [
        f"{name}: epsilon is at least {each.epsilon:.3g} at {100 * each.confidence:g} % confidence, from "
        f"{each.correct} right of {each.guesses} guesses about {each.trials} coins"
        + ("" if each.epsilon_priced is None else f"; priced {each.epsilon_priced:.3g}")
        + "."
        for name, each in audit.canary_audits.items()
    ]


def provenance_rows(audit: LeakageAudit) -> list[tuple[str, str]]:
    """Versions, machine, arguments and the hashes of files."""
    rows = [(name, _shown(value)) for name, value in audit.provenance.items() if value not in (None, {}, [])]
    return [*rows, *((f"SHA-256 of {role}", value) for role, value in audit.data.files.items())]


def made(audit: LeakageAudit) -> str:
    """The line at the foot: program, date, schema."""
    return f"privbench {audit.provenance.get('privbench')}, {_date(audit)}, schema {audit.schema_version}"


def spread(rate: Rate) -> str:
    """A rate with its interval in per cent."""
    if rate.value is None:
        return "-"
    digits = 2 if rate.value < 0.01 else 1
    value = f"{100 * rate.value:.{digits}f} %"
    if rate.low is None or rate.high is None:
        return value
    return f"{value} [{100 * rate.low:.{digits}f}, {100 * rate.high:.{digits}f}]"


def _attack_row(attack: AttackFigures) -> tuple[str, ...]:
    metrics = attack.metrics
    rates = (spread(metrics.tpr[label]) for label in RATES.values())
    accuracy = Rate(
        value=metrics.balanced_accuracy,
        low=metrics.balanced_accuracy_low,
        high=metrics.balanced_accuracy_high,
    )
    return (attack.attack, *rates, _auc(attack), spread(accuracy))


def _auc(attack: AttackFigures) -> str:
    metrics = attack.metrics
    if metrics.auc is None:
        return "-"
    if metrics.auc_low is None or metrics.auc_high is None:
        return f"{metrics.auc:.3f}"
    return f"{metrics.auc:.3f} [{metrics.auc_low:.3f}, {metrics.auc_high:.3f}]"


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %" if value < 0.01 else f"{100 * value:.1f} %"


def _sentence(needs: str, note: str | None) -> str:
    return f"knows {needs}" + (f"; {note}" if note else "")


def _who(audit: LeakageAudit) -> str:
    return "the model was" if audit.data.models == 1 else "each model was"


def _date(audit: LeakageAudit) -> str:
    return str(audit.provenance.get("date", report_time().strftime("%Y-%m-%dT%H:%M:%SZ")))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        given = {name: each for name, each in value.items() if each not in (None, [], (), False)}
        return ", ".join(f"{name} {_shown(each)}" for name, each in given.items()) or "defaults"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(str, value))
    return str(value)
