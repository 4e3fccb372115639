"""The tables of what attacks found, one for each kind of finding."""

from typing import Any

from sqlalchemy.orm import Mapped, mapped_column

from db.models import Base


class Finding(Base):
    """What every attack's row begins with: which task, on which cell, by what."""

    __abstract__ = True

    task: Mapped[str] = mapped_column(primary_key=True)
    cell: Mapped[str]
    attack: Mapped[str]
    attack_version: Mapped[str]
    attack_params: Mapped[dict[str, Any]]
    attack_defaults: Mapped[bool | None]
    """Whether they are those of an attack that is given none; null in older tasks."""
    models: Mapped[int]


class AttackResult(Finding):
    """One attack on one cell: every model was a target once. TPR columns are null with a reason
    where there are too few non-members for that FPR.
    """

    __tablename__ = "attack_result"

    n_members: Mapped[int | None]
    n_nonmembers: Mapped[int | None]
    auc: Mapped[float | None]
    auc_low: Mapped[float | None]
    auc_high: Mapped[float | None]
    auc_pooled: Mapped[float | None]
    auc_se: Mapped[float | None]
    auc_interval: Mapped[str | None]
    """How intervals of leakage were made (docs/numbers.md)."""
    balanced_accuracy: Mapped[float | None]
    """Of calling as many records of each target as it has members."""
    balanced_accuracy_low: Mapped[float | None]
    balanced_accuracy_high: Mapped[float | None]
    accuracy_oracle: Mapped[float | None]
    advantage: Mapped[float | None]
    tpr_at_10pct: Mapped[float | None]
    tpr_at_10pct_low: Mapped[float | None]
    tpr_at_10pct_high: Mapped[float | None]
    tpr_at_10pct_reason: Mapped[str | None]
    tpr_at_10pct_tied: Mapped[float | None]
    tpr_at_1pct: Mapped[float | None]
    tpr_at_1pct_low: Mapped[float | None]
    tpr_at_1pct_high: Mapped[float | None]
    tpr_at_1pct_reason: Mapped[str | None]
    tpr_at_1pct_tied: Mapped[float | None]
    tpr_at_0p1pct: Mapped[float | None]
    tpr_at_0p1pct_low: Mapped[float | None]
    tpr_at_0p1pct_high: Mapped[float | None]
    tpr_at_0p1pct_reason: Mapped[str | None]
    tpr_at_0p1pct_tied: Mapped[float | None]
    tpr_at_0p01pct: Mapped[float | None]
    tpr_at_0p01pct_low: Mapped[float | None]
    tpr_at_0p01pct_high: Mapped[float | None]
    tpr_at_0p01pct_reason: Mapped[str | None]
    tpr_at_0p01pct_tied: Mapped[float | None]
    adaptive: Mapped[bool] = mapped_column(default=True)
    """Shadows were trained as the target was; false where `attack_params` names another method for them."""
    ppv_at_1pct: Mapped[float | None]
    """Share of members among the records called at 1 % FPR where one in ten is a member."""
    ppv_at_1pct_low: Mapped[float | None]
    ppv_at_1pct_high: Mapped[float | None]
    agreement: Mapped[float | None]
    """Whether two halves of the models, scored apart, flag the same records (Jaccard index)."""
    agreement_chance: Mapped[float | None]
    agreement_untrained: Mapped[float | None]
    """The same for models that were not trained on the record: difficulty, not exposure."""
    record_tpr_p99: Mapped[float | None]
    """Of the TPRs of single records at the threshold of 1 % FPR: a record's is the share of the models
    trained on it that give it away."""
    records_exposed: Mapped[int | None]
    """Records whose signal is higher in the models trained on them, at a false discovery rate of 5 %."""
    records_tested: Mapped[int | None]
    chosen_attacks: Mapped[dict[str, Any] | None]
    """Of `strongest`: by figure, how often each attack was chosen."""
    note: Mapped[str | None]
    metrics_version: Mapped[int | None]
    canary_auc: Mapped[float | None]
    """Of the canaries alone, over all targets together; null where the cell has none."""
    canary_auc_low: Mapped[float | None]
    canary_auc_high: Mapped[float | None]
    canary_tpr_at_10pct: Mapped[float | None]
    canary_tpr_at_10pct_low: Mapped[float | None]
    canary_tpr_at_10pct_high: Mapped[float | None]
    canary_tpr_at_10pct_reason: Mapped[str | None]
    canary_tpr_at_1pct: Mapped[float | None]
    canary_tpr_at_1pct_low: Mapped[float | None]
    canary_tpr_at_1pct_high: Mapped[float | None]
    canary_tpr_at_1pct_reason: Mapped[str | None]
    valid: Mapped[bool | None]
    """The verdict of attack `blind` on the split; null for every other attack."""
    message: Mapped[str | None]
    roc: Mapped[dict[str, Any]]
    """{"fpr": [...], "tpr": [...]}: pooled over targets and thinned."""


class FrontResult(Base):
    """An attack whose row of the view `frontier` is Pareto-optimal among those it competes with: the chosen
    and valid ones of its workload, attack, origin and protocol, by AUC and accuracy on non-members.
    """

    __tablename__ = "front_result"

    task: Mapped[str] = mapped_column(primary_key=True)


class ComparisonResult(Base):
    """A paired difference between two cells of a workload on one axis, first less second."""

    __tablename__ = "comparison_result"

    axis: Mapped[str] = mapped_column(primary_key=True)
    """`accuracy`, `validation_accuracy`, `auc`, `tpr_at_10pct` or `tpr_at_1pct`."""
    cell: Mapped[str] = mapped_column(primary_key=True)
    other: Mapped[str] = mapped_column(primary_key=True)
    attack: Mapped[str | None]
    """By which leakage was measured; null for accuracies."""
    models: Mapped[int]
    """Pairs of models with the same members."""
    pairs: Mapped[int]
    """Pairs of cells on this axis: the family of Holm's correction."""
    difference: Mapped[float | None]
    low: Mapped[float | None]
    high: Mapped[float | None]
    se: Mapped[float | None]
    p: Mapped[float | None]
    p_holm: Mapped[float | None]
    effect_size: Mapped[float | None]
    detectable: Mapped[float | None]
    """The smallest difference that so many models show with a chance of 80 %."""
    reason: Mapped[str | None]
    """Why there is no difference, or no test of it."""
    accuracy_test_se: Mapped[float | None]
    """Of test accuracy: the standard error over test records, which both cells share; `se` is over models."""


class AuditResult(Finding):
    """One audit of one cell: a lower bound on epsilon from its canaries.

    For a method without a guarantee it is an effective epsilon at these canaries, nothing more.
    """

    __tablename__ = "audit_result"

    canaries: Mapped[int]
    threat: Mapped[str | None]
    """What an adversary must be able to do who uses such canaries."""
    copies: Mapped[int]
    """Rows of the data that one canary's coin decides on."""
    trials: Mapped[int]
    """Coins tossed for the canaries that the audit looked at."""
    guesses: Mapped[int]
    correct: Mapped[int]
    confidence: Mapped[float]
    delta: Mapped[float]
    epsilon: Mapped[float]
    """At least this, with that confidence."""
    epsilon_priced: Mapped[float | None]
    """The highest price among the cell's models; null where nothing is promised."""
    epsilon_paper: Mapped[float | None]
    alarm: Mapped[bool]
    """The bound is above the price."""
    message: Mapped[str | None]


class ReconstructionResult(Finding):
    """One gradient inversion on one cell: pictures of members rebuilt from what single steps share.

    Errors are of pixels in [0, 1]; `_low` and `_high` bound 95 % intervals over pictures.
    """

    __tablename__ = "reconstruction_result"

    moment: Mapped[str]
    """Which model shared: `start` the untrained one, `end` the released one."""
    images: Mapped[int]
    mse_median: Mapped[float]
    mse_median_low: Mapped[float | None]
    mse_median_high: Mapped[float | None]
    mse_median_normalised: Mapped[float]
    """In units of each colour plane's standard deviation over the pool."""
    mse_median_mean_colour: Mapped[float]
    """Of the originals' own mean colours: what a picture gets that shows nothing."""
    ssim_mean: Mapped[float | None]
    """Null where pictures are smaller than the window of 11 pixels."""
    ssim_mean_low: Mapped[float | None]
    ssim_mean_high: Mapped[float | None]
    psnr_median: Mapped[float]
    """In dB, at most 100."""
    beats_mean_colour: Mapped[float]
    """The share of pictures nearer to the original than its mean colour is."""
    beats_mean_colour_low: Mapped[float]
    beats_mean_colour_high: Mapped[float]
    success_rate: Mapped[float]
    """The share of pictures with a mean squared error below 0.001."""
    success_rate_low: Mapped[float]
    success_rate_high: Mapped[float]
    label_accuracy: Mapped[float]
    """The share of labels that were found; 1 where they were known."""


class AttributeResult(Finding):
    """One attribute inference on one cell: every model was a target once.

    An advantage that non-members have as well is what the models learnt about everybody; a leak of
    members' records is the gap alone.
    """

    __tablename__ = "attribute_result"

    attribute: Mapped[str]
    """What was guessed."""
    n_members: Mapped[int]
    n_nonmembers: Mapped[int]
    prior: Mapped[float]
    """The share of the most common value among public records."""
    accuracy_members: Mapped[float]
    accuracy_nonmembers: Mapped[float]
    imputation_members: Mapped[float]
    """How often a guess without any model is right."""
    imputation_nonmembers: Mapped[float]
    advantage_members: Mapped[float]
    """Accuracy less that of the imputation."""
    advantage_nonmembers: Mapped[float]
    gap: Mapped[float]
    """The advantage on members less that on non-members."""
    gap_low: Mapped[float]
    gap_high: Mapped[float]
    gap_interval: Mapped[str]
    """How the interval was made."""
