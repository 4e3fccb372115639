"""The sentences that a leakage audit states: the question, what its figure means, and what it does not "
"show."""

from collections.abc import Sequence

from harness.audit.leakage_audit import AttackFigures, AuditedData, Rung

QUESTIONS: dict[Rung, str] = {
    "scores": "Do the outputs of this model show which records it was trained on?",
    "model": "Does this model show which records it was trained on?",
    "training": "Do models of this training show which records they were trained on?",
}
CONDITION = (
    "It holds only if members and others are exchangeable: drawn at random from one source, so that nothing "
    "but the "
    "training tells them apart."
)
VOID = (
    "This says nothing about leakage: members and others differ without any model, and the attacks find that "
    "difference."
)
NEVER = (
    "It is no upper bound: an attack that is not in the table, or that knows more, may find more members.",
    "A small figure is no proof of privacy, and no guarantee follows from it.",
    "Figures are averages over records: a few records may be far more exposed than the average says.",
    "Only membership was attacked: not attributes of records, and not the reconstruction of records.",
)
ONE_MODEL = (
    "Intervals cover other records like these for this one model, not another training of it: train again, "
    "and the "
    "figures move by more."
)
MODELS = "Intervals cover other trainings on these records, not other records, and not other data."
CANARIES = (
    "Whether the training keeps the guarantee of its ledger: that needs canaries in the training itself "
    "(privbench audit with a training function)."
)
SHADOWS = (
    "How much an attacker with models of his own would find: without shadow models the stronger "
    "attacks could not run."
)


def explain(headline: AttackFigures) -> str:
    """What the headline figure means, in one sentence."""
    metrics = headline.metrics
    for label, each in (("0.01", "1 of 100"), ("0.1", "10 of 100")):
        rate = metrics.tpr[label]
        if rate.value is not None and rate.low is not None and rate.high is not None:
            return (
                f"Of 100 members the attack `{headline.attack}` finds {100 * rate.value:.1f} (95 % interval "
                f"{100 * rate.low:.1f} to {100 * rate.high:.1f}) if it may wrongly call {each} others "
                "members; "
                f"guessing finds {100 * float(label):g}."
            )
    if metrics.auc is None or metrics.auc_low is None or metrics.auc_high is None:
        return f"Nothing could be measured: {metrics.note}."
    return (
        f"Shown a member and an other, the attack `{headline.attack}` picks the member in "
        f"{100 * metrics.auc:.1f} of "
        f"100 cases (95 % interval {100 * metrics.auc_low:.1f} to {100 * metrics.auc_high:.1f}); guessing "
        "does in 50."
    )


def name_highest(attacks: Sequence[AttackFigures], headline: str) -> str | None:
    """The highest figure in one sentence, if another attack than the headline's has it."""
    for label, name in (("0.01", "1 %"), ("0.1", "10 %")):
        rates = {each.attack: each.metrics.tpr[label] for each in attacks}
        values = {attack: rate.value for attack, rate in rates.items() if rate.value is not None}
        if values:
            best = max(values, key=lambda attack: values[attack])
            found = rates[best]
            if values[best] <= values.get(headline, 0.0) or found.low is None or found.high is None:
                return None
            return (
                f"The highest of the {len(attacks)} attacks is `{best}` with {100 * values[best]:.1f} % "
                f"({100 * found.low:.1f} to {100 * found.high:.1f}) at {name} false alarms; the highest of "
                "several is "
                "biased upwards."
            )
    return None


def list_limits(data: AuditedData, ledger: bool, canaries: bool) -> list[str]:
    """What the audit does not show."""
    found = [ONE_MODEL if data.models == 1 else MODELS, *NEVER]
    if not data.shadows:
        found.append(SHADOWS)
    if ledger and not canaries:
        found.append(CANARIES)
    return found
