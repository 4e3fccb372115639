"""The tables of attack results, one for each kind of result."""

from typing import Any

from sqlalchemy.orm import Mapped, mapped_column

from db.models import Base


class Finding(Base):
    """The common columns of attack results: task, cell and attack."""

    __abstract__ = True

    task: Mapped[str] = mapped_column(primary_key=True)
    cell: Mapped[str]
    attack: Mapped[str]
    attack_version: Mapped[str]
    attack_params: Mapped[dict[str, Any]]
    attack_defaults: Mapped[bool | None]
    """Whether they are the attack's defaults; null in older tasks."""
    models: Mapped[int]


class AttackResult(Finding):
    """One attack on one cell: every model was a target once. TPR columns are null, with a reason, if there
    are too few non-members for that FPR.
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
    """The method of the leakage intervals (docs/numbers.md)."""
    balanced_accuracy: Mapped[float | None]
    """When as many records of each target are predicted to be members as it has."""
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
    """Shadows were trained like the target; false if `attack_params` names another method for them."""
    ppv_at_1pct: Mapped[float | None]
    """Precision at 1 % FPR if one in ten records is a member."""
    ppv_at_1pct_low: Mapped[float | None]
    ppv_at_1pct_high: Mapped[float | None]
    agreement: Mapped[float | None]
    """Whether two halves of the models, scored separately, flag the same records (Jaccard index)."""
    agreement_chance: Mapped[float | None]
    agreement_untrained: Mapped[float | None]
    """The same for models that were not trained on the record: difficulty, not exposure."""
    record_tpr_p99: Mapped[float | None]
    """Of the TPRs of single records at the threshold of 1 % FPR: the share of the models trained on a record
    that reveal it."""
    records_exposed: Mapped[int | None]
    """Records whose signal is higher in the models trained on them, at a false discovery rate of 5 %."""
    records_tested: Mapped[int | None]
    chosen_attacks: Mapped[dict[str, Any] | None]
    """For `strongest`: by figure, how often each attack was chosen."""
    note: Mapped[str | None]
    metrics_version: Mapped[int | None]
    canary_auc: Mapped[float | None]
    """Of the canaries alone, pooled over all targets; null without canaries."""
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
    """An attack whose row of the view `frontier` is Pareto-optimal among its competitors: the chosen
    and valid ones of its workload, attack, origin and protocol, by AUC and accuracy on non-members.
    """

    __tablename__ = "front_result"

    task: Mapped[str] = mapped_column(primary_key=True)


class ComparisonResult(Base):
    """A paired difference between two cells of a workload on one axis, first minus second."""

    __tablename__ = "comparison_result"

    axis: Mapped[str] = mapped_column(primary_key=True)
    """`accuracy`, `validation_accuracy`, `auc`, `tpr_at_10pct` or `tpr_at_1pct`."""
    cell: Mapped[str] = mapped_column(primary_key=True)
    other: Mapped[str] = mapped_column(primary_key=True)
    attack: Mapped[str | None]
    """The attack that measured leakage; null for accuracies."""
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
    """The smallest difference that this many models detect with a power of 80 %."""
    reason: Mapped[str | None]
    """Why there is no difference, or no test of it."""
    accuracy_test_se: Mapped[float | None]
    """Of test accuracy: the standard error over test records, which both cells share; `se` is over models."""


class AuditResult(Finding):
    """One audit of one cell: a lower bound on epsilon from its canaries.

    For a method without a guarantee it is only an effective epsilon at these canaries.
    """

    __tablename__ = "audit_result"

    canaries: Mapped[int]
    threat: Mapped[str | None]
    """The adversary's capability that such canaries assume."""
    copies: Mapped[int]
    """Rows of the data that one canary's coin decides."""
    trials: Mapped[int]
    """Coins tossed for the canaries of the audit."""
    guesses: Mapped[int]
    correct: Mapped[int]
    confidence: Mapped[float]
    delta: Mapped[float]
    epsilon: Mapped[float]
    """The lower bound, with that confidence."""
    epsilon_priced: Mapped[float | None]
    """The highest epsilon among the cell's models; null without a guarantee."""
    epsilon_paper: Mapped[float | None]
    alarm: Mapped[bool]
    """The lower bound exceeds the guarantee's epsilon."""
    message: Mapped[str | None]


class ReconstructionResult(Finding):
    """One gradient inversion on one cell: members' pictures reconstructed from gradients of single steps.

    Errors are of pixels in [0, 1]; `_low` and `_high` bound 95 % intervals over pictures.
    """

    __tablename__ = "reconstruction_result"

    moment: Mapped[str]
    """Whose gradients: `start` the untrained model's, `end` the released one's."""
    images: Mapped[int]
    mse_median: Mapped[float]
    mse_median_low: Mapped[float | None]
    mse_median_high: Mapped[float | None]
    mse_median_normalised: Mapped[float]
    """In units of each colour plane's standard deviation over the pool."""
    mse_median_mean_colour: Mapped[float]
    """Of the originals' own mean colours: the error of a picture without content."""
    ssim_mean: Mapped[float | None]
    """Null for pictures smaller than the window of 11 pixels."""
    ssim_mean_low: Mapped[float | None]
    ssim_mean_high: Mapped[float | None]
    psnr_median: Mapped[float]
    """In dB, at most 100."""
    beats_mean_colour: Mapped[float]
    """The share of pictures closer to the original than its mean colour."""
    beats_mean_colour_low: Mapped[float]
    beats_mean_colour_high: Mapped[float]
    success_rate: Mapped[float]
    """The share of pictures with a mean squared error below 0.001."""
    success_rate_low: Mapped[float]
    success_rate_high: Mapped[float]
    label_accuracy: Mapped[float]
    """The share of labels that were recovered; 1 if they were known."""


class AttributeResult(Finding):
    """One attribute inference on one cell: every model was a target once.

    An advantage on non-members as well is what the models learnt about the distribution; only the gap is a
    leak of members' records.
    """

    __tablename__ = "attribute_result"

    attribute: Mapped[str]
    """The inferred attribute."""
    n_members: Mapped[int]
    n_nonmembers: Mapped[int]
    prior: Mapped[float]
    """The share of the most common value among public records."""
    accuracy_members: Mapped[float]
    accuracy_nonmembers: Mapped[float]
    imputation_members: Mapped[float]
    """The accuracy of an imputation without any model."""
    imputation_nonmembers: Mapped[float]
    advantage_members: Mapped[float]
    """Accuracy minus that of the imputation."""
    advantage_nonmembers: Mapped[float]
    gap: Mapped[float]
    """The advantage on members minus that on non-members."""
    gap_low: Mapped[float]
    gap_high: Mapped[float]
    gap_interval: Mapped[str]
    """The method of the interval."""
