"""LiRA: the likelihood ratio of a record's rescaled logit with and without the record."""

from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field

import methods.base
from harness.attacks.base import Attack, Bools, Evidence, Floats, rescaled_logit
from harness.attacks.parts.augment import View, check_images, lira_views
from harness.attacks.parts.moments import Moments, leave_one_out
from harness.attacks.parts.queries import ask, blocks

FEW = 64
"""Below this many models a variance per record is mostly noise (Carlini et al. 2022)."""


class LiraParams(methods.base.Params):
    """Which shadows are used, whose variance, and how often a model is asked."""

    mode: Literal["online", "offline"] = Field(
        default="online",
        description="online: shadows with and without the record; offline: those without it only",
    )
    fixed_variance: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="one variance for all records: auto = when the cell has fewer than 64 models",
    )
    queries: int = Field(
        default=1,
        ge=1,
        le=18,
        description="views of an image that every model is asked about: itself, its mirror image, then both "
        "moved by 4 pixels (18 in the paper); 1 for records that are no images",
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

    With several queries a score is the mean of the scores of all views, each with its own shadows'
    answers on the same view.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "likelihood ratio of the rescaled logit under shadows with and without it"
    source: ClassVar[str] = (
        "Carlini et al. 2022, Membership Inference Attacks From First Principles (arXiv:2112.03570)"
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "one query per record by default; the paper asks about 18 views of an image",
        "means, as in the paper's algorithm 1; the authors' code takes medians",
        "IN and OUT variances are pooled apart; the authors' code uses the IN one for both",
        "with 8 models it is weak at low FPR; the paper uses 64 to 256",
    )
    Params: ClassVar[type[methods.base.Params]] = LiraParams
    shadows: ClassVar[int] = 2

    def scores(self, evidence: Evidence, params: LiraParams) -> Floats:
        """(M, n): log likelihood ratios, or one-sided z-scores when offline."""
        few = params.fixed_variance == "auto" and len(evidence.members) < FEW
        fixed = few or params.fixed_variance == "always"
        sides = evidence.included, evidence.excluded
        scores = _scores(evidence.phi, *sides, params.mode, fixed)
        views = lira_views(params.queries)[1:]
        if not views:
            return scores
        check_images(evidence.pool, f"lira with queries = {params.queries}", views)
        for phi in answers_to(views, evidence):
            scores += _scores(phi, *sides, params.mode, fixed)
        return scores / params.queries


def _scores(phi: Floats, included: Bools, excluded: Bools, mode: str, fixed: bool) -> Floats:
    """(M, n): the scores of one query."""
    absent = leave_one_out(phi, excluded)
    if mode == "offline":
        return absent.z_scores(phi, fixed)
    present = leave_one_out(phi, included)
    scores = np.empty(phi.shape)
    for m in range(len(phi)):
        scores[m] = _log_ratio(phi[m], present[m], absent[m], fixed)
    return scores


def answers_to(views: list[View], evidence: Evidence) -> Floats:
    """(views, M, n): the rescaled logit of every model on every view of the pool's images."""
    phi = np.empty((len(views), *evidence.members.shape))
    for m in range(len(evidence.members)):
        model = evidence.released(m)
        for number, view in enumerate(views):
            logits = torch.cat([ask(model, view.of(x)) for x, _ in blocks(evidence.pool, 1)])
            phi[number, m] = rescaled_logit(logits[None].float().numpy(), evidence.labels)[0]
    return phi


def _log_ratio(phi: Floats, present: Moments, absent: Moments, fixed: bool) -> Floats:
    """(n,): one target's log likelihood ratios."""
    mean_in, mean_out = _means(present, absent)
    ratio = _log_normal(phi, mean_in, present.variance(fixed))
    ratio -= _log_normal(phi, mean_out, absent.variance(fixed))
    ratio[present.count + absent.count == 0] = 0.0
    return ratio


def _means(present: Moments, absent: Moments) -> tuple[Floats, Floats]:
    """IN and OUT means; a side without shadows is the average gap away from the other."""
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


attack: Attack = Lira()
