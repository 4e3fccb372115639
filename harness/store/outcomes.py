"""Outcomes of trainings, attacks and benches, as results hold them.

Frozen models, written and read in one shape: every figure that is computed or shown has a field here.
None is a figure that was not measured. Fields with a default were added after 0.1.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.spec import Json, despelled

Figures = Mapping[str, bool | int | float | str | None]
"""Figures by the name of their column in the database."""


class Frozen(BaseModel):
    """An immutable model that ignores fields added by newer versions."""

    model_config = ConfigDict(frozen=True, extra="ignore")


# -- training --------------------------------------------------------------------------------------


class Utility(Frozen):
    """Accuracy of the released model on test records, members and non-members of the pool."""

    test_accuracy: float
    test_loss: float | None = None
    train_accuracy: float
    train_loss: float | None = None
    nonmember_accuracy: float | None = None
    """None if every record of the pool is a member."""
    majority_accuracy: float | None = None
    """Accuracy on test records of always predicting their most common class; None in results of 0.1."""
    top10_accuracy: float | None = None
    """Share of test records whose class is among the ten with the largest logits; None with at most ten
    classes, and in older results."""


class Curve(Frozen):
    """A receiver operating characteristic."""

    fpr: list[float]
    tpr: list[float]


class PricedCeilings(Frozen):
    """The best that any attack can do under the guarantee."""

    by: str
    auc: float
    gap: float
    tpr: dict[str, float]
    """By FPR."""
    curve: Curve


class PricedGuarantee(Frozen):
    """The guarantee computed from a ledger; of kind `none` if there is none."""

    kind: str
    epsilon: float | None
    delta: float | None
    adjacency: str
    accountant: str
    epsilons: dict[str, float] = Field(default={})
    """By accountant."""
    assumptions: list[str] = Field(default=[])
    lower_bounds: dict[str, float] = Field(default={})
    ceilings: PricedCeilings | None = None

    @property
    def states_ceilings(self) -> bool:
        """Whether ceilings were computed, even if there are none; not so in results of 0.1."""
        return "ceilings" in self.model_fields_set


class Quantiles(Frozen):
    """Step times of a phase after its warm-up, in seconds; None if not measured."""

    p05: float | None
    p25: float | None
    p50: float | None
    p75: float | None
    p95: float | None
    mean: float | None


class Phase(Frozen):
    """Time and memory of the steps of one phase of a training."""

    steps: int
    total_seconds: float | None = None
    """Of all steps, warm-up included."""
    wall: Quantiles
    cpu: Quantiles
    clocks: dict[str, Quantiles] = Field(default={})
    """Wall time of parts of a step."""
    resting_memory_bytes: int
    peak_memory_bytes: int

    @property
    def seconds(self) -> float:
        """Total time of all steps; estimated as steps times the mean in results that lack it."""
        if self.total_seconds is None:
            return self.steps * (self.wall.mean or 0.0)
        return self.total_seconds


class Training(Frozen):
    """The outcome of a training."""

    metrics: Utility
    set_aside: int | None = None
    """Members that the method kept out of training."""
    guarantee: PricedGuarantee
    stats: dict[str, float]
    """The method's own figures."""
    phases: dict[str, Phase]


# -- attack ----------------------------------------------------------------------------------------


class Rate(Frozen):
    """A true positive rate with its interval, or the reason why it is not reported."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    se: float | None = None
    reason: str | None = None
    """Why the rate is not reported."""
    tied: float | None = None
    """Share of the pooled non-members whose score equals the threshold."""
    note: str | None = None
    chosen: dict[str, int] | None = None
    """How often each attack was chosen; only for a selection."""


class CanaryLeakage(Frozen):
    """The same figures, on canaries only."""

    auc: float | None
    auc_low: float | None
    auc_high: float | None
    tpr: dict[str, Rate]


class Leakage(Frozen):
    """How well scores separate members from non-members, over all targets of a cell."""

    version: int
    """Of the figures (harness/leakage/figures.py); versions are never mixed."""
    models: int
    n_members: int
    n_nonmembers: int
    """Pooled (record, target) pairs: a record counts once per target."""
    auc: float | None = None
    """Mean of the targets' AUCs."""
    auc_low: float | None = None
    auc_high: float | None = None
    auc_se: float | None = None
    auc_pooled: float | None = None
    """AUC of one ROC over all pairs; requires scores to be comparable across targets."""
    auc_chosen: dict[str, int] | None = None
    """How often each attack was chosen; only for a selection."""
    interval: str | None = None
    """How intervals were computed (harness/leakage/intervals.py)."""
    balanced_accuracy: float | None = None
    """At the threshold that flags as many records of each target as it has members."""
    balanced_accuracy_low: float | None = None
    balanced_accuracy_high: float | None = None
    accuracy_oracle: float | None = None
    """Balanced accuracy at the threshold chosen on the same scores: biased upwards."""
    advantage: float | None = None
    """2 balanced_accuracy - 1."""
    tpr: dict[str, Rate]
    """By FPR."""
    note: str | None = None
    ppv_at_1pct: float | None = None
    """Share of members among the records flagged at 1 % FPR, at a prior of one in ten."""
    ppv_at_1pct_low: float | None = None
    ppv_at_1pct_high: float | None = None
    agreement: float | None = None
    """Jaccard index of the records flagged by two halves of the models, scored separately."""
    agreement_chance: float | None = None
    agreement_untrained: float | None = None
    record_tpr_p99: float | None = None
    records_exposed: int | None = None
    """Records with a significantly higher signal in the models trained on them (false discovery rate 5 %)."""
    records_tested: int | None = None
    canaries: CanaryLeakage | None = None
    valid: bool | None = None
    """Whether the split is sound; only for the blind check."""
    message: str | None = None


class Membership(Frozen):
    """The outcome of a membership attack."""

    metrics: Leakage
    roc: Curve
    dependence: str | None = None
    """How the attack's scores on two targets depend on each other."""


class Audited(Frozen):
    """A lower bound on epsilon, beside the computed epsilon."""

    epsilon: float
    confidence: float
    trials: int
    guesses: int
    correct: int
    delta: float
    canaries: int
    copies: int
    threat: str | None
    epsilon_priced: float | None
    epsilon_paper: float | None = None
    alarm: bool
    """Whether the bound exceeds the computed epsilon."""
    message: str | None


class AuditOutcome(Frozen):
    """The outcome of an audit."""

    audit: Audited


class InferenceOutcome(Frozen):
    """The outcome of an attribute-inference attack."""

    attribute: Figures


class Reconstruction(Frozen):
    """The outcome of a gradient inversion."""

    reconstruction: Figures


# -- bench -----------------------------------------------------------------------------------------


class PartTime(Frozen):
    """Median seconds of a named part of a step."""

    median_wall_seconds: float | None
    median_cpu_seconds: float | None


class Variant(Frozen):
    """The cost of one step of a variant; no figures if its training failed."""

    variant: str
    role: Literal["yardstick", "control", "method"]
    """`yardstick`: the plain baseline; `control`: its second copy."""
    method: str
    method_version: str
    guarantee_kind: str
    engine: str | None
    engine_used: str | None
    params: Json
    step_params: Json | None = None
    """The parameters that decide what a step computes; None in results of 0.1."""
    logical_batch_size: int | None
    physical_batch_size: int | None
    status: Literal["done", "failed"]
    reason: str | None
    message: str | None
    steps: int = 0
    phases: dict[str, int] = Field(default={})
    """Timed steps of each phase."""
    clocks: dict[str, PartTime] = Field(default={})
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    ratio_whole_step: float | None = None
    ratio_wall: float | None = None
    median_cpu_seconds: float | None = None
    median_wall_seconds: float | None = None
    median_net_seconds: float | None = None
    iqr_cpu_seconds: float | None = None
    iqr_wall_seconds: float | None = None
    seconds_per_update: float | None = None
    peak_memory_bytes: int | None = None
    resting_memory_bytes: int | None = None
    memory_ratio: float | None = None


class Benched(Frozen):
    """The step cost of every variant, and whether the machine was quiet enough."""

    workload: str
    n_train: int
    batch_size: int
    parameters: int
    threads: int
    device: str
    clock: str
    """The time that ratios compare: `cpu` or `wall`."""
    malloc: dict[str, str]
    trustworthy: bool
    reason: str | None
    """Why it is not trustworthy."""
    methods: list[Variant]

    @property
    def failed(self) -> bool:
        """Whether some variant failed."""
        return any(variant.status == "failed" for variant in self.methods)


class Bench(Frozen):
    """The outcome of a bench."""

    bench: Benched


Finding = Membership | AuditOutcome | InferenceOutcome | Reconstruction
Outcome = Training | Finding | Bench


def read_outcome(kind: str, found: Mapping[str, Any]) -> Outcome:
    """Parse the outcome of a finished task; ValueError if it has another shape."""
    plain = despelled(dict(found))
    if kind == "train":
        return Training(**plain)
    if kind == "bench":
        return Bench(**plain)
    for name, shape in (
        ("audit", AuditOutcome),
        ("attribute", InferenceOutcome),
        ("reconstruction", Reconstruction),
    ):
        if name in plain:
            return shape(**plain)
    return Membership(**plain)
