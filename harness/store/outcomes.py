"""What tasks find out: the outcomes of a training, an attack and a bench, as results hold them.

Frozen models, written and read in one shape: whoever computes a figure gives it a field here, and whoever
shows it reads that field. None is a figure that was not measured. Fields with a default came after 0.1.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.spec import Json, despelled

Figures = Mapping[str, bool | int | float | str | None]
"""Figures by the name of their column in the database."""


class Frozen(BaseModel):
    """A record that nobody alters; what a newer version added to it is left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


# -- training --------------------------------------------------------------------------------------


class Utility(Frozen):
    """Accuracy of the released model on test records, members and non-members of the pool."""

    test_accuracy: float
    test_loss: float | None = None
    train_accuracy: float
    train_loss: float | None = None
    nonmember_accuracy: float | None = None
    """None where every record of the pool is a member."""


class Curve(Frozen):
    """A receiver operating characteristic."""

    fpr: list[float]
    tpr: list[float]


class PricedCeilings(Frozen):
    """What a guarantee allows any attack."""

    by: str
    auc: float
    gap: float
    tpr: dict[str, float]
    """By FPR."""
    curve: Curve


class PricedGuarantee(Frozen):
    """The price of a ledger; of kind `none` where there is no guarantee."""

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
        """Whether it says what it allows an attack, be it nothing; results of 0.1 do not."""
        return "ceilings" in self.model_fields_set


class Quantiles(Frozen):
    """Of the steps of a phase after its warm-up, in seconds; None where nothing was measured."""

    p05: float | None
    p25: float | None
    p50: float | None
    p75: float | None
    p95: float | None
    mean: float | None


class Phase(Frozen):
    """What the steps of one phase of a training took."""

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
        """Of all steps; where the result does not say, as many as were made times the mean."""
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
    """A true positive rate with its interval, or the reason why there is none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    se: float | None = None
    reason: str | None = None
    """Why there is no value."""
    tied: float | None = None
    """Share of the pooled non-members that have the score at the threshold."""
    note: str | None = None
    chosen: dict[str, int] | None = None
    """How often each attack was chosen; of a selection only."""


class CanaryLeakage(Frozen):
    """The same figures for canaries alone."""

    auc: float | None
    auc_low: float | None
    auc_high: float | None
    tpr: dict[str, Rate]


class Leakage(Frozen):
    """How well scores tell members from non-members, over all targets of a cell."""

    version: int
    """Of the figures (harness/leakage/figures.py): those of two versions are never mixed."""
    models: int
    n_members: int
    n_nonmembers: int
    """Pooled: (record, target) pairs. A record counts once for every target."""
    auc: float | None = None
    """Mean of the targets' AUCs."""
    auc_low: float | None = None
    auc_high: float | None = None
    auc_se: float | None = None
    auc_pooled: float | None = None
    """One ROC over all pairs: also asks whether scores of different targets can be compared."""
    auc_chosen: dict[str, int] | None = None
    """How often each attack was chosen; of a selection only."""
    interval: str | None = None
    """How intervals were made (harness/leakage/intervals.py)."""
    balanced_accuracy: float | None = None
    """Of calling as many records of each target as it has members."""
    balanced_accuracy_low: float | None = None
    balanced_accuracy_high: float | None = None
    accuracy_oracle: float | None = None
    """Balanced accuracy of the best threshold on the very same scores: biased upwards."""
    advantage: float | None = None
    """2 balanced_accuracy - 1."""
    tpr: dict[str, Rate]
    """By FPR."""
    note: str | None = None
    ppv_at_1pct: float | None = None
    """Share of members among the records called at 1 % FPR where one in ten is a member."""
    ppv_at_1pct_low: float | None = None
    ppv_at_1pct_high: float | None = None
    agreement: float | None = None
    """Whether two halves of the models, scored apart, flag the same records (Jaccard index)."""
    agreement_chance: float | None = None
    agreement_untrained: float | None = None
    record_tpr_p99: float | None = None
    records_exposed: int | None = None
    """Records whose signal is higher in the models trained on them, at a false discovery rate of 5 %."""
    records_tested: int | None = None
    canaries: CanaryLeakage | None = None
    valid: bool | None = None
    """Of the blind check: whether the split is sound."""
    message: str | None = None


class Membership(Frozen):
    """The outcome of a membership attack."""

    metrics: Leakage
    roc: Curve
    dependence: str | None = None
    """How the attack's scores of two targets depend on each other."""


class Audited(Frozen):
    """A lower bound on epsilon, beside the price."""

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
    """Whether the bound is above the price."""
    message: str | None


class AuditOutcome(Frozen):
    """The outcome of an audit."""

    audit: Audited


class InferenceOutcome(Frozen):
    """The outcome of an attribute inference."""

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
    """What a step of one variant costs; without figures where its training failed."""

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
    """Every variant's step, and whether the machine was quiet enough."""

    workload: str
    n_train: int
    batch_size: int
    parameters: int
    threads: int
    device: str
    clock: str
    """What ratios are made of: `cpu` or `wall` time."""
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
    """The outcome that a finished task's result holds; ValueError where it has another shape."""
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
