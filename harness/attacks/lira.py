"""LiRA: the likelihood ratio of a record's rescaled logit with and without the record."""

from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field

import methods.base
from harness.attacks.base import Attack, Evidence, Floats
from harness.attacks.parts.augment import View, check_images, lira_views
from harness.attacks.parts.queries import blocks, predict
from harness.leakage.intervals import Dependence
from harness.leakage.scoring import lira_bayes, lira_offline, lira_online, rescaled_logit

FEW = 64
"""With at most this many models a variance per record is mostly noise (Carlini et al. 2022)."""


class LiraParams(methods.base.Params):
    """The use of the shadows, the variance, and the number of queries."""

    mode: Literal["bayes", "online", "offline"] = Field(
        default="bayes",
        description="bayes: shadows with and without the record, with a prior on the gap between the two; "
        "online: the observed gap; offline: those without it only",
    )
    fixed_variance: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="one variance for all records, for online and offline: auto = when the cell has at most "
        "64 models; bayes has variances by difficulty",
    )
    queries: int = Field(
        default=1,
        ge=1,
        le=18,
        description="views of an image that every model is queried with: itself, its mirror image, then both "
        "shifted by 4 pixels (18 in the paper); 1 for records that are not images",
    )


class Lira:
    """Carlini et al. 2022, with every model of the cell as target in turn.

    Bayes: the same likelihood ratio with the unknown gap mu_in - mu_out integrated out under a prior that is
    fitted to all records of the shadows. With few shadows the sign of a gap estimated for each record is
    noise; with many the two agree.

    Online: log N(phi; mu_in, s_in) - log N(phi; mu_out, s_out), where IN and OUT are the other
    models trained with and without the record. Offline: the distance (phi - mu_out) / s_out, whose
    Phi is the paper's one-sided score.

    A fixed variance is the variance within records, pooled over all records, IN and OUT separately; with
    a variance per record, one with fewer than two shadows on a side takes the pooled one. Without shadows on
    either side, or offline without OUT shadows, the score is 0: no evidence.

    With several queries a score is the mean of the scores of all views, each with the shadows' logits on the
    same view.
    """

    version: ClassVar[str] = "2"
    about: ClassVar[str] = "likelihood ratio of the rescaled logit under shadows with and without it"
    source: ClassVar[str] = (
        "Carlini et al. 2022, Membership Inference Attacks From First Principles (arXiv:2112.03570)"
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "one query per record by default; the paper uses 18 views of an image",
        "the prior of mode = bayes is ours; the paper's attack is mode = online",
        "means, as in the paper's algorithm 1; the authors' code uses medians",
        "IN and OUT variances are pooled separately; the authors' code uses the IN one for both",
    )
    Params: ClassVar[type[methods.base.Params]] = LiraParams
    shadows: ClassVar[int] = 2
    dependence: ClassVar[Dependence] = "record"

    def scores(self, evidence: Evidence, params: LiraParams) -> Floats:
        """(M, n): log likelihood ratios, or one-sided z-scores when offline."""
        scores = score_query(evidence.phi, evidence, params)
        views = lira_views(params.queries)[1:]
        if not views:
            return scores
        check_images(evidence.pool, f"lira with queries = {params.queries}", views)
        for phi in query_views(views, evidence):
            scores += score_query(phi, evidence, params)
        return scores / params.queries


def score_query(phi: Floats, evidence: Evidence, params: LiraParams) -> Floats:
    """(M, n): the scores from the rescaled logits of one view."""
    few = params.fixed_variance == "auto" and len(evidence.members) <= FEW
    fixed = few or params.fixed_variance == "always"
    match params.mode:
        case "bayes":
            return lira_bayes(phi, evidence.included, evidence.excluded)
        case "online":
            return lira_online(phi, evidence.included, evidence.excluded, fixed)
        case "offline":
            return lira_offline(phi, evidence.excluded, fixed)


def query_views(views: list[View], evidence: Evidence) -> Floats:
    """(views, M, n): the rescaled logit of every model on every view of the pool's images."""
    phi = np.empty((len(views), *evidence.members.shape))
    for m in range(len(evidence.members)):
        model = evidence.released(m)
        for number, view in enumerate(views):
            logits = torch.cat([predict(model, view.of(x)) for x, _ in blocks(evidence.pool, 1)])
            phi[number, m] = rescaled_logit(logits[None].float().numpy(), evidence.labels)[0]
    return phi


attack: Attack = Lira()
