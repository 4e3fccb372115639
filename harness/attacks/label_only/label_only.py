"""Label-only: the robustness of a record's label, from predicted labels only."""

from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

import methods.base
from harness.attacks.base import Attack, AttackedCell, Evidence, Floats
from harness.attacks.label_only.boundary import (
    BISECTIONS,
    DIRECTIONS,
    hop_skip_jump,
    linear_distance,
    linear_layer,
)
from harness.attacks.label_only.perturbation import Noise
from harness.attacks.parts.augment import check_images, near_views
from harness.attacks.parts.posteriors import shadows_of
from harness.attacks.parts.queries import blocks, predict, share_right
from harness.leakage.influence import Scored, auc
from harness.leakage.intervals import Dependence
from methods.base import Count
from workloads.base import Records
from workloads.errors import BenchError

TRIED = 1024
"""Records of a shadow on which the noise level is chosen, at most."""
TRIALS = 16
"""Queries for each of them and each level, at most."""
DONORS = 512
"""Population records from which the boundary search takes its starts."""


class LabelOnlyParams(methods.base.Params):
    """The strategy and the query budget."""

    strategy: Literal["gap", "augmentation", "noise", "boundary"] = Field(
        default="noise",
        description="gap: is the label right; augmentation: right on mirrored and shifted images; noise: "
        "right on perturbed records; boundary: distance to another label",
    )
    queries: Count = Field(
        default=100, description="Queries of the target per record, at most; `gap` needs one."
    )
    level: float | None = Field(
        default=None,
        ge=0,
        description="Strength of the noise: the probability that a bit flips, or the deviation in units of a "
        "feature's; none = the one that works best on a shadow",
    )
    seed: int = Field(default=0, ge=0, description="seed of noise and directions")


class LabelOnly:
    """Choquette-Choo et al. 2021, with hard labels of the target alone.

    Labels of members are more robust. `augmentation` and `noise` score by the share of right labels among
    `queries` copies, the first of which is the record itself; bits are flipped, other features get normal
    noise. `boundary` scores by the L2 distance to another label, 0 if the label is wrong already: HopSkipJump
    (Chen et al. 2020) within the queries. For a single linear layer the distance is taken from its weights,
    the limit of an unbounded search.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "robustness of the label to noise, views or distance; hard labels only"
    source: ClassVar[str] = "Choquette-Choo et al. 2021, Label-Only Membership Inference (arXiv:2007.14321)"
    caveats: ClassVar[tuple[str, ...]] = (
        "compare at equal `queries`: every model is queried that often for every record, which takes long",
        "with q queries `noise` and `augmentation` have q + 1 scores: TPR at low FPR is coarse",
        "`boundary` reads the weights of a linear model; on others 100 queries find a rough upper bound only",
        "queries need not be possible records: noise and search leave the range of the data",
    )
    Params: ClassVar[type[methods.base.Params]] = LabelOnlyParams
    shadows: ClassVar[int] = 1
    dependence: ClassVar[Dependence] = "alone"

    def unfit(self, cell: AttackedCell) -> str | None:
        """Why it cannot run without the models."""
        return cell.lacks_model()

    def scores(self, evidence: Evidence, params: LabelOnlyParams) -> Floats:
        """(M, n): shares of right labels, or distances."""
        levels = _levels(evidence, params)
        scores = np.empty(evidence.members.shape)
        for m in range(len(scores)):
            model, pool = evidence.released(m), evidence.pool
            # Every target has the same draws, whichever models are in the cell.
            random = torch.Generator().manual_seed(params.seed)
            match params.strategy:
                case "gap":
                    found = share_right(model, pool, lambda x: x[:, None], 1)
                case "augmentation":
                    found = _under_views(model, pool, params.queries)
                case "noise":
                    found = _under_noise(model, pool, _noise(evidence), levels[m], params.queries, random)
                case "boundary":
                    found = _distances(model, pool, _public(evidence), params.queries, random)
            scores[m] = found.numpy()
        return scores


def _public(evidence: Evidence) -> Records:
    """Public records distributed like the members."""
    return evidence.pool if evidence.population is None else evidence.population


def _noise(evidence: Evidence) -> Noise:
    return Noise.suited_to(_public(evidence))


def _levels(evidence: Evidence, params: LabelOnlyParams) -> list[float]:
    """The noise level for every target, chosen on the next model; a single target takes a middle one."""
    models = len(evidence.members)
    if params.strategy != "noise":
        return [0.0] * models
    if params.level is not None:
        return [params.level] * models
    noise = _noise(evidence)
    if models == 1:
        return [noise.levels[len(noise.levels) // 2]]
    best = [_best_level(evidence, shadow, noise, params) for shadow in range(models)]
    return [best[shadows_of(m, models, 1)[0]] for m in range(models)]


def _best_level(evidence: Evidence, shadow: int, noise: Noise, params: LabelOnlyParams) -> float:
    """The level with the highest AUC on a model whose members are known, the lowest of equals."""
    records = len(evidence.pool) - evidence.canaries
    random = torch.Generator().manual_seed(params.seed)
    rows = torch.randperm(records, generator=random)[:TRIED]
    model, some = evidence.released(shadow), evidence.pool.take(rows)
    members, evaluated = (each[shadow, rows.numpy()] for each in (evidence.members, evidence.evaluated))
    aucs = []
    for level in noise.levels:
        shares = _under_noise(model, some, noise, level, min(params.queries, TRIALS), random)
        scored = Scored(shares.numpy()[None], members[None], evaluated[None])
        scored.check()
        aucs.append(auc(scored).value)
    return noise.levels[int(np.argmax(aucs))]


def _under_views(model: nn.Module, records: Records, queries: int) -> Tensor:
    views = near_views(queries)
    check_images(records, "label-only with strategy = augmentation", views)
    return share_right(model, records, lambda x: torch.stack([view.of(x) for view in views], 1), queries)


def _under_noise(
    model: nn.Module, records: Records, noise: Noise, level: float, queries: int, random: torch.Generator
) -> Tensor:
    copies = partial(noise.copies, level=level, queries=queries, random=random)
    return share_right(model, records, copies, queries)


def _distances(
    model: nn.Module, records: Records, public: Records, queries: int, random: torch.Generator
) -> Tensor:
    """(n,): the distance to another label."""
    donors = public.take(torch.arange(min(DONORS, len(public)))).x
    layer = linear_layer(model, donors)
    if layer is not None:
        return torch.cat([linear_distance(layer, x, y) for x, y in blocks(records, 1)])
    if queries <= BISECTIONS:
        raise BenchError(
            f"queries = {queries}: the boundary search needs {BISECTIONS + 1} or more; "
            "give them, or strategy = noise",
            field="queries",
            value=queries,
            allowed=BISECTIONS + 1,
        )
    predictions = predict(model, donors).argmax(1)
    found = []
    for x, y in blocks(records, DIRECTIONS):
        right = predict(model, x).argmax(1) == y
        start = donors[_otherwise(predictions, y, random)]
        found.append(torch.where(right, hop_skip_jump(model, x, y, start, queries - 1, random), 0.0))
    return torch.cat(found).double()


def _otherwise(predictions: Tensor, y: Tensor, random: torch.Generator) -> Tensor:
    """(b,): for every label a random donor with another prediction; any donor if there is none."""
    usable = (predictions != y[:, None]).double()
    usable[usable.sum(1) == 0] = 1.0
    return torch.multinomial(usable, 1, generator=random).squeeze(1)


attack: Attack = LabelOnly()
