"""Membership scores of the declared attacks, from arrays, without torch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from harness.leakage.matrices import Bools, Floats, Ints
from harness.leakage.moments import Moments, leave_one_out, leave_one_out_log_mean
from workloads.errors import BenchError

BINS, PER_BIN = 20, 50
"""Bins of difficulty in `lira_bayes`, at most, and the records per bin."""
PRIOR_FREEDOM = 10.0
"""Prior degrees of freedom: the weight of the pooled variance in that of a bin."""
LEAST_GAP = 0.1
"""The smallest expected gap of members, in standard deviations."""
LEAST_VARIANCE = 1e-10
LEAST_SPREAD = 1e-6
"""The gap's variance is at least this share of the logit's, so that its inverse is finite."""


def rescaled_logit(logits: NDArray[np.float32], labels: Ints, temperature: float = 1.0) -> Floats:
    """log p_y - log sum_{j != y} p_j in float64 (Carlini et al. 2022): no rounding near p = 1.

    It is computed from the logits and never through p, so a saturated model keeps all its differences.
    A logit of -inf (a released probability of zero) counts as the smaller of the record's lowest
    finite logit and log 1e-45 below its highest, after the 1e-45 in the authors' logarithms.

    Args:
        logits: (M, n, C), or log-probabilities, which are logits too.
        labels: (n,) of values in 0..C-1.
        temperature: p = softmax(logits / temperature).

    Returns:
        (M, n), always finite.
    """
    models, records, classes = logits.shape
    if classes < 2:
        raise BenchError(
            f"a rescaled logit needs at least 2 classes, the logits have {classes}: "
            "membership cannot be scored on a model with one class",
            field="classes",
            value=classes,
            allowed=2,
        )
    rows = np.arange(records)
    phi = np.empty((models, records))
    for model in range(models):  # one model at a time, to bound the float64 copy
        scaled = _finite(logits[model].astype(np.float64), model)
        scaled /= temperature
        own = scaled[rows, labels]
        scaled[rows, labels] = -np.inf
        top = scaled.max(axis=1)
        phi[model] = own - top - np.log(np.exp(scaled - top[:, None]).sum(axis=1))
    return phi


def _finite(logits: Floats, model: int) -> Floats:
    """Give zero probabilities a finite logit; BenchError for NaN and +inf."""
    zero = np.isneginf(logits)
    broken = ~np.isfinite(logits) & ~zero
    bad = int((broken.any(axis=1) | zero.all(axis=1)).sum())
    if bad:
        raise BenchError(
            f"model {model} gives NaN, +inf or only -inf logits on {bad} of {len(logits)} "
            "records; attacks need finite logits: look for a diverged training or a broken "
            "predictor",
            field="logits",
            value=int(bad),
            allowed=0,
        )
    if zero.any():
        lowest = np.where(zero, np.inf, logits).min(axis=1)
        floor = np.minimum(lowest, logits.max(axis=1) + np.log(1e-45))
        logits = np.where(zero, floor[:, None], logits)
    return logits


def cross_entropy(phi: Floats) -> Floats:
    """-log p_y = log(1 + exp(-phi)), accurate where p_y itself rounds to 1."""
    return np.logaddexp(0.0, -phi)


def loss(phi: Floats) -> Floats:
    """(M, n): minus the target's cross-entropy (Yeom et al. 2018)."""
    return -cross_entropy(phi)


def lira_offline(phi: Floats, excluded: Bools, fixed: bool) -> Floats:
    """(M, n): the distance from the mean of the models without the record, in standard deviations.

    Its Phi is the one-sided score of Carlini et al. 2022; Phi itself rounds to 1 beyond 8.3 and would tie the
    most confident members.
    """
    return leave_one_out(phi, excluded).z_scores(phi, fixed)


def lira_online(phi: Floats, included: Bools, excluded: Bools, fixed: bool) -> Floats:
    """(M, n): log N(phi; mu_in, s_in) - log N(phi; mu_out, s_out) over other models (Carlini et al. 2022).

    A record without shadows on one side takes the other side's mean, moved by the target's average gap
    mu_in - mu_out over the records that have both. Without shadows on either side the score is 0.
    """
    absent, present = leave_one_out(phi, excluded), leave_one_out(phi, included)
    scores = np.empty(phi.shape)
    for m in range(len(phi)):
        scores[m] = _log_ratio(phi[m], present[m], absent[m], fixed)
    return scores


def _log_ratio(phi: Floats, present: Moments, absent: Moments, fixed: bool) -> Floats:
    """(n,): one target's log likelihood ratios."""
    mean_in, mean_out = _means(present, absent)
    ratio = _log_normal(phi, mean_in, present.variance(fixed))
    ratio -= _log_normal(phi, mean_out, absent.variance(fixed))
    ratio[present.count + absent.count == 0] = 0.0
    return ratio


def _means(present: Moments, absent: Moments) -> tuple[Floats, Floats]:
    """IN and OUT means; a side without shadows is the other's mean, shifted by the average gap."""
    has_in, has_out = present.count > 0, absent.count > 0
    both = has_in & has_out
    if both.all():
        return present.mean, absent.mean
    gap = float((present.mean - absent.mean)[both].mean()) if both.any() else 0.0
    return np.where(has_in, present.mean, absent.mean + gap), np.where(
        has_out, absent.mean, present.mean - gap
    )


def _log_normal(values: Floats, mean: Floats, variance: Floats) -> Floats:
    """The normal log-density, without the constant that cancels in the ratio."""
    density = values - mean
    density *= density
    density /= variance
    density += np.log(variance)
    density *= -0.5
    return density


def lira_bayes(phi: Floats, included: Bools, excluded: Bools) -> Floats:
    """(M, n): log posterior predictive density of phi with the record minus that without it.

    phi of a model is b + delta x + noise, where x is 1 if it trained on the record. With few shadows the sign
    of an estimated gap delta is noise, so delta has a normal prior whose mean is linear in 1 - p (a step on a
    record moves its own logit by 1 - p) and whose variance is estimated; the shadows correct it. Variances
    depend on difficulty, and may differ between IN and OUT. Everything about target m comes from the other
    models. Without shadows the score is 0; a side without shadows needs no special case.
    """
    absent, present = leave_one_out(phi, excluded), leave_one_out(phi, included)
    return np.stack([_posterior_ratio(phi[m], Shadows(absent[m], present[m])) for m in range(len(phi))])


@dataclass(frozen=True)
class Shadows:
    """The shadows' statistics for one target."""

    absent: Moments
    present: Moments

    @property
    def both(self) -> Bools:
        """Records with shadows on both sides."""
        return (self.absent.count > 0) & (self.present.count > 0)

    @property
    def gap(self) -> Floats:
        """The difference of the means; 0 if a side has no shadows."""
        return np.where(self.both, self.present.mean - self.absent.mean, 0.0)

    def difficulty(self) -> Floats:
        """(n,): the mean logit, as if no shadow had trained on the record."""
        out, inside = np.maximum(self.absent.count, 1), np.maximum(self.present.count, 1)
        weight = np.where(self.both, 1 / (1 / out + 1 / inside), 0.0)
        mean_gap = float((weight * self.gap).sum() / max(weight.sum(), 1e-300))
        total = self.absent.count * self.absent.mean + self.present.count * (self.present.mean - mean_gap)
        return np.asarray(total / np.maximum(self.absent.count + self.present.count, 1))


@dataclass(frozen=True)
class Bins:
    """Records in quantiles of their difficulty; estimates per bin are interpolated between bins."""

    place: Floats
    """(n,)"""
    group: Ints
    """(n,): the bin of each record."""
    count: Ints
    """(bins,): records in each; some can be empty."""

    @classmethod
    def of(cls, place: Floats) -> "Bins":
        """At most 20, of 50 records or more."""
        bins = max(1, min(BINS, len(place) // PER_BIN))
        edges = np.quantile(place, np.linspace(0, 1, bins + 1)[1:-1])
        group = np.searchsorted(edges, place, side="right")
        return cls(place, group, np.bincount(group, minlength=bins))

    def sum(self, values: Floats) -> Floats:
        """(bins,)"""
        return np.asarray(np.bincount(self.group, values, minlength=len(self.count)), dtype=np.float64)

    def between(self, values: Floats) -> Floats:
        """(n,): linear between the mean difficulties of the non-empty bins."""
        kept = self.count > 0
        centre = self.sum(self.place)[kept] / self.count[kept]
        return np.interp(self.place, centre, values[kept])


def _posterior_ratio(phi: Floats, shadows: Shadows) -> Floats:
    """(n,): one target's scores."""
    place = shadows.difficulty()
    v0, v1 = _variances(shadows, Bins.of(place))
    prior, spread = _prior_gap(shadows, v0, v1, expit(-place))
    c0, c1 = shadows.absent.count, shadows.present.count
    # The posterior of (b, delta) under a flat prior on b and N(prior, spread) on delta.
    out, inside, tight = c0 / v0, c1 / v1, 1 / spread
    seen_in = inside * shadows.present.mean
    all_seen = out * shadows.absent.mean + seen_in
    seen_gap = seen_in + prior * tight
    total, gap_weight = out + inside, inside + tight
    det = out * inside + total * tight  # = total * gap_weight - inside ** 2, without cancellation
    known = det > 0
    det = np.where(known, det, 1.0)
    base = (gap_weight * all_seen - inside * seen_gap) / det
    delta = (total * seen_gap - inside * all_seen) / det
    var_out = v0 + gap_weight / det
    var_in = v1 + (gap_weight - 2 * inside + total) / det
    ratio = _log_normal(phi, base + delta, var_in)
    ratio -= _log_normal(phi, base, var_out)
    return np.where(known, ratio, 0.0)


def _variances(shadows: Shadows, bins: Bins) -> tuple[Floats, Floats]:
    """(n,) OUT and IN variances by difficulty: a shrunken common one, and a shrunken ratio."""
    s0, s1 = shadows.absent.squares, shadows.present.squares
    f0, f1 = (np.maximum(side.count - 1, 0) for side in (shadows.absent, shadows.present))
    freedom = float((f0 + f1).sum())
    overall = max(float((s0 + s1).sum()) / freedom, LEAST_VARIANCE) if freedom > 0 else 1.0
    common = bins.between((bins.sum(s0 + s1) + PRIOR_FREEDOM * overall) / (bins.sum(f0 + f1) + PRIOR_FREEDOM))
    a0, a1, b0, b1 = map(bins.sum, (s0 / common, s1 / common, f0, f1))
    usable = (a0 > 0) & (a1 > 0) & (b0 > 0) & (b1 > 0)
    if not usable.any():
        return common, common
    ratio = np.zeros(len(usable))
    found = np.log(a1[usable] / b1[usable]) - np.log(a0[usable] / b0[usable])
    noise = 2 / b0[usable] + 2 / b1[usable]
    real = max(float((found * found - noise).mean()), 0.0)
    ratio[usable] = found * real / (real + noise)
    half = np.exp(bins.between(ratio) / 2)
    return common / half, common * half


def _prior_gap(shadows: Shadows, v0: Floats, v1: Floats, room: Floats) -> tuple[Floats, Floats]:
    """(n,) mean and variance of the gap's prior: a weighted line in `room` = 1 - p, and its spread."""
    gap, least = shadows.gap, LEAST_GAP * np.sqrt(v0)
    noise = v0 / np.maximum(shadows.absent.count, 1) + v1 / np.maximum(shadows.present.count, 1)
    weight = np.where(shadows.both, 1 / noise, 0.0)
    total = float(weight.sum())
    floor = LEAST_SPREAD * (v0 + v1) / 2
    if total == 0:
        return least, floor
    centre, mean = float((weight * room).sum()) / total, float((weight * gap).sum()) / total
    off = room - centre
    spread = float((weight * off * off).sum())
    slope = float((weight * off * (gap - mean)).sum()) / spread if spread > 1e-12 * total else 0.0
    prior = np.maximum(mean + slope * off, least)
    real = max(float((weight * ((gap - prior) ** 2 - noise)).sum()) / total, 0.0)
    return prior, np.maximum(real, floor)


def rmia(
    phi: Floats, included: Bools, excluded: Bools, population_phi: Floats, gamma: float | None = None
) -> Floats:
    """(M, n): the rank of p(x|t) / p(x) among p(z|t) / p(z) of population records z (Zarifzadeh et al. 2024).

    p(x) is the mean of the IN mean and the OUT mean over the other models; a record that lacks a side takes
    the other, one without any other model has a ratio of 1. No model trained on z, so IN = OUT in law and
    p(z) = P_out(z) is the same formula.

    Args:
        phi: (M, n) rescaled logits, at the temperature that p is to have.
        included: (M, n): the records that a model was trained on.
        excluded: (M, n): the records that a model never saw.
        population_phi: (M, p), of at least one record.
        gamma: None for the fine rank; else the share of z with a ratio of ratios of at least gamma.
    """
    log_p = -cross_entropy(phi)
    out, inside = leave_one_out_log_mean(log_p, excluded), leave_one_out_log_mean(log_p, included)
    usual = np.logaddexp(np.where(np.isneginf(out), inside, out), np.where(np.isneginf(inside), out, inside))
    log_z = -cross_entropy(population_phi)
    return _ranked(log_p, usual - np.log(2), log_z, _population_mean(log_z), gamma)


def rmia_offline(
    phi: Floats, excluded: Bools, population_phi: Floats, offline_a: float, gamma: float | None = None
) -> Floats:
    """(M, n): the same from models without the record: p = ((1 + a) P_out + 1 - a) / 2 for x and for z."""
    log_p, log_z = -cross_entropy(phi), -cross_entropy(population_phi)
    with np.errstate(divide="ignore"):  # a = 1 adds nothing
        steep, flat = np.log((1 + offline_a) / 2), np.log((1 - offline_a) / 2)
    out = leave_one_out_log_mean(log_p, excluded)
    usual = np.where(np.isneginf(out), out, np.logaddexp(steep + out, flat))
    usual_z = np.logaddexp(steep + _population_mean(log_z), flat)
    return _ranked(log_p, usual, log_z, usual_z, gamma)


def _population_mean(log_z: Floats) -> Floats:
    """(M, p): of the other models, none of which trained on z; of the target itself if it is the only one."""
    return leave_one_out_log_mean(log_z, np.ones(log_z.shape, dtype=np.bool_)) if len(log_z) > 1 else log_z


def _ranked(log_p: Floats, usual: Floats, log_z: Floats, usual_z: Floats, gamma: float | None) -> Floats:
    """(M, n): the rank of each log ratio among the population's; a ratio of 1 if p(x) is unknown."""
    ratios = np.where(np.isneginf(usual), 0.0, log_p - np.where(np.isneginf(usual), 0.0, usual))
    pairs = zip(ratios, log_z - usual_z, strict=True)
    if gamma is None:
        return np.stack([fine_rank(own, others) for own, others in pairs])
    return np.stack([share_beaten(own, others, gamma) for own, others in pairs])


def fine_rank(values: Floats, population: Floats) -> Floats:
    """(n,): the rank among p others over p + 1, linear between them, hyperbolic beyond: no steps of 1 / p."""
    knots, times = np.unique(population, return_counts=True)
    size = len(population) + 1
    rank = np.interp(values, knots, (np.cumsum(times) - (times - 1) / 2) / size)
    above, below = values > knots[-1], values < knots[0]
    rank[above] = 1 - 1 / (size * (1 + values[above] - knots[-1]))
    rank[below] = 1 / (size * (1 + knots[0] - values[below]))
    return rank


def share_beaten(log_ratios: Floats, population: Floats, gamma: float) -> Floats:
    """(n,): the share of the population at least log gamma below each of `log_ratios`, all as logarithms."""
    beaten = np.searchsorted(np.sort(population), log_ratios - np.log(gamma), side="right")
    return np.asarray(beaten / len(population))
