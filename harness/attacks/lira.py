"""LiRA: the likelihood ratio of a record's rescaled logit with and without the record."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

import methods.base
from harness.attacks.base import Attack, Evidence, Floats
from harness.attacks.moments import Moments, leave_one_out

FEW = 64
"""Below this many models a variance per record is mostly noise (Carlini et al. 2022)."""


class LiraParams(methods.base.Params):
    """Which shadows are used, and whose variance."""

    mode: Literal["online", "offline"] = Field(
        default="online",
        description="online: shadows with and without the record; offline: those without it only",
    )
    fixed_variance: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="one variance for all records: auto = when the cell has fewer than 64 models",
    )


class Lira:
    """Carlini et al. 2022, with every model of the cell as target in turn.

    Online: log N(phi; mu_in, s_in) - log N(phi; mu_out, s_out), where IN and OUT are the other
    models trained with and without the record. Offline: the distance (phi - mu_out) / s_out, whose
    Phi is the paper's one-sided score; Phi itself rounds to 1 beyond 8.3 and would tie the surest
    members.

    A fixed variance is the variance within records, pooled over all records, IN and OUT apart; with
    a variance per record, one with fewer than two shadows on a side takes the pooled one. A record
    without shadows on one side takes the other side's mean, moved by the target's average gap
    mu_in - mu_out over the records that have both. Without shadows on either side, or offline
    without OUT shadows, the score is 0: no evidence.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "likelihood ratio of the rescaled logit under shadows with and without it"
    source: ClassVar[str] = (
        "Carlini et al. 2022, Membership Inference Attacks From First Principles (arXiv:2112.03570)"
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "one query per record: the paper's augmented queries are not used",
        "means, as in the paper's algorithm 1; the authors' code takes medians",
        "IN and OUT variances are pooled apart; the authors' code uses the IN one for both",
        "with 8 models it is weak at low FPR; the paper uses 64 to 256",
    )
    Params: ClassVar[type[methods.base.Params]] = LiraParams
    shadows: ClassVar[int] = 2

    def scores(self, evidence: Evidence, params: LiraParams) -> Floats:
        """(M, n): log likelihood ratios, or one-sided z-scores when offline."""
        phi = evidence.phi
        few = params.fixed_variance == "auto" and len(phi) < FEW
        fixed = few or params.fixed_variance == "always"
        absent = leave_one_out(phi, ~evidence.members)
        if params.mode == "offline":
            return absent.z_scores(phi, fixed)
        present = leave_one_out(phi, evidence.members)
        return np.stack([_log_ratio(phi[m], present[m], absent[m], fixed) for m in range(len(phi))])


def _log_ratio(phi: Floats, present: Moments, absent: Moments, fixed: bool) -> Floats:
    """(n,): one target's log likelihood ratios."""
    has_in, has_out = present.count > 0, absent.count > 0
    both = has_in & has_out
    gap = float((present.mean - absent.mean)[both].mean()) if both.any() else 0.0
    mean_in = np.where(has_in, present.mean, absent.mean + gap)
    mean_out = np.where(has_out, absent.mean, present.mean - gap)
    likely_in = _log_normal(phi, mean_in, present.variance(fixed))
    likely_out = _log_normal(phi, mean_out, absent.variance(fixed))
    return np.where(has_in | has_out, likely_in - likely_out, 0.0)


def _log_normal(values: Floats, mean: Floats, variance: Floats) -> Floats:
    """The normal log-density, without the constant that cancels in the ratio."""
    return -0.5 * ((values - mean) ** 2 / variance + np.log(variance))


attack: Attack = Lira()
