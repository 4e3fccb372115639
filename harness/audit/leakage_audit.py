"""The result of a leakage audit, as audit.json holds it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from harness.store.outcomes import Audited, Curve, Frozen, Leakage, PricedGuarantee

SCHEMA = 1
"""Raised when a field of audit.json goes or changes its meaning; new fields do not raise it."""

Rung = Literal["scores", "model", "training"]
"""What the audit was given: outputs of a model, the model itself, or the program that trains it."""


class AuditedData(Frozen):
    """The records, and what is known of each."""

    members: int
    """Records that the model was trained on; of a training, of one model."""
    others: int
    """Records that it was not trained on."""
    classes: int | None = None
    """None if only losses are known."""
    population: int = 0
    """Records of no model's members, given apart: for calibration only, in no figure."""
    models: int = 1
    """Attacked models."""
    shadows: int = 0
    """Other models that an attack on one of them may use."""
    signal: Literal["logits", "probabilities", "losses"]
    recognised: bool = False
    """Whether the kind of signal was recognised, not declared."""
    features: int | None = None
    """Numbers per record that the blind check reads; None if none were given."""
    member_accuracy: float | None = None
    """Accuracy on members, mean over the attacked models; None if only losses are known."""
    other_accuracy: float | None = None
    files: Mapping[str, str] = Field(default={})
    """The SHA-256 of every file that was read, by its role."""


class AttackFigures(Frozen):
    """One membership attack and its figures."""

    attack: str
    version: str
    about: str
    source: str
    needs: str
    """What the adversary knows or can do."""
    metrics: Leakage
    roc: Curve
    note: str | None = None


class SkippedAttack(Frozen):
    """An attack that the data do not allow."""

    attack: str
    reason: str


class SplitCheck(Frozen):
    """The blind check: whether members differ from others without any model."""

    reads: Literal["features and labels", "labels"]
    valid: bool | None
    """False: every figure of the audit is void. None: it could not be checked."""
    auc: float | None = None
    auc_low: float | None = None
    auc_high: float | None = None
    message: str


class WorstRecord(Frozen):
    """A member that the headline attack finds with few false alarms."""

    record: int
    """Row among the members as given, or in the pool of a training, from 0."""
    id: str | None = None
    label: int | None = None
    fpr: float
    """Share of others that score as high, the record itself counted: the false alarms of finding it."""
    flagged: int = 1
    """Models that it is found on at 1 % false alarms, of `trained`."""
    trained: int = 1
    """Attacked models that were trained on it."""


class AuditLedger(Frozen):
    """The price of the training, from its ledger, and where the ledger comes from."""

    source: str
    releases: int
    guarantee: PricedGuarantee
    """With the ceilings that it puts on attacks."""


class FigureLimit(Frozen):
    """A limit that a figure must not exceed, as `--fail-above` gives it."""

    attack: str
    figure: str
    limit: float
    value: float | None
    low: float | None
    """The lower end of the 95 % interval, which decides."""
    exceeded: bool
    message: str


class LeakageAudit(Frozen):
    """What a model leaks about its members, by every attack that could be run."""

    schema_version: int = SCHEMA
    question: str
    rung: Rung
    target: str
    """What was audited, in a few words."""
    data: AuditedData
    headline: str
    """The attack whose figures are stated first; the choice is fixed before anything is measured."""
    meaning: str
    """What the headline figure means, in one sentence."""
    condition: str
    """When it holds, in one sentence."""
    highest: str | None = None
    """The highest figure, in one sentence, if another attack than the headline's has it."""
    attacks: Sequence[AttackFigures]
    skipped: Sequence[SkippedAttack] = ()
    split: SplitCheck
    ledger: AuditLedger | None = None
    canary_audits: Mapping[str, Audited] = Field(default={})
    """Lower bounds on epsilon by attack; only of a training with canaries."""
    worst: Sequence[WorstRecord] = ()
    shows_not: Sequence[str]
    """What the audit does not show."""
    warnings: Sequence[str] = ()
    limits: Sequence[FigureLimit] = ()
    provenance: Mapping[str, Any]

    def figures(self, attack: str | None = None) -> AttackFigures:
        """Those of an attack; of the headline's by default. KeyError if it was not run."""
        name = attack or self.headline
        for each in self.attacks:
            if each.attack == name:
                return each
        raise KeyError(name)

    def ceiling_lines(self) -> list[str]:
        """The price of the ledger and its ceiling on leakage beside what was measured, as sentences."""
        if self.ledger is None:
            return []
        price = self.ledger.guarantee
        if price.epsilon is None:
            return [f"{self.ledger.source}: {self.ledger.releases} releases, without any guarantee"]
        found = [
            f"{self.ledger.source}: {self.ledger.releases} releases cost epsilon {price.epsilon:.3g} at "
            "delta "
            f"{price.delta:g} ({price.adjacency})"
        ]
        if price.ceilings is not None:
            metrics = self.figures().metrics
            rate, most = metrics.tpr["0.01"].value, price.ceilings.tpr["0.01"]
            measured = "not resolved" if rate is None else f"{100 * rate:.1f} %"
            auc = "none" if metrics.auc is None else f"{metrics.auc:.3f}"
            found.append(
                f"no attack can find more than {100 * most:.1f} % of members at 1 % false alarms (measured: "
                f"{measured}), "
                f"nor have an AUC above {price.ceilings.auc:.3f} (measured: {auc})"
            )
        return found

    @property
    def alarms(self) -> list[str]:
        """Reasons for exit code 1: a broken split, an exceeded limit, an audit above its price."""
        broken = [self.split.message] if self.split.valid is False else []
        exceeded = [each.message for each in self.limits if each.exceeded]
        bounds = self.canary_audits.values()
        return [*broken, *exceeded, *(each.message for each in bounds if each.alarm and each.message)]
