"""LiRA against a loop with scipy's normal, and on Gaussians whose ROC is known."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from harness.attacks.base import Bools, Evidence, Floats, signals_only
from harness.attacks.lira import Lira, LiraParams
from harness.attacks.parts.augment import View, lira_views
from harness.leakage.figures import evaluate
from harness.leakage.scoring import lira_bayes
from workloads.base import Records
from workloads.errors import BenchError


def pooled_deviation(groups: list[Floats]) -> float:
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups if len(group))
    return float(np.sqrt(squares / sum(max(len(group) - 1, 0) for group in groups)))


def slow_scores(phi: Floats, members: Bools, params: LiraParams) -> Floats:
    """One target and one record at a time; for records with two shadows or more on both sides."""
    scores = np.full(phi.shape, np.nan)
    for m in range(len(phi)):
        others = [r for r in range(len(phi)) if r != m]
        ins = [phi[[r for r in others if members[r, i]], i] for i in range(phi.shape[1])]
        outs = [phi[[r for r in others if not members[r, i]], i] for i in range(phi.shape[1])]
        s_in, s_out = pooled_deviation(ins), pooled_deviation(outs)
        for i in range(phi.shape[1]):
            if min(len(ins[i]), len(outs[i])) < 2:
                continue
            if params.fixed_variance == "never":
                s_in, s_out = ins[i].std(ddof=1), outs[i].std(ddof=1)
            without = stats.norm(outs[i].mean(), s_out)
            if params.mode == "offline":
                scores[m, i] = without.cdf(phi[m, i])
            else:
                ratio = stats.norm(ins[i].mean(), s_in).logpdf(phi[m, i])
                scores[m, i] = ratio - without.logpdf(phi[m, i])
    return scores


@pytest.mark.parametrize("mode", ["online", "offline"])
@pytest.mark.parametrize("fixed_variance", ["always", "never"])
def test_equals_the_loop(
    mode: Literal["online", "offline"],
    fixed_variance: Literal["always", "never"],
    from_phi: Callable[..., Evidence],
    masks: Callable[..., Bools],
) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 8, 25, 12)
    evidence = from_phi(random.standard_normal((8, 25)) * 2 + members, members)
    params = LiraParams(mode=mode, fixed_variance=fixed_variance)
    expected = slow_scores(evidence.phi, members, params)
    known = ~np.isnan(expected)
    assert known.mean() > 0.8
    scores = Lira().scores(evidence, params)
    scores = stats.norm.cdf(scores) if mode == "offline" else scores
    np.testing.assert_allclose(scores[known], expected[known], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_variance_is_fixed_up_to_64_models(
    mode: Literal["online", "offline"], from_phi: Callable[..., Evidence], masks: Callable[..., Bools]
) -> None:
    random = np.random.default_rng(0)
    for models, same in ((64, "always"), (65, "never")):
        members = masks(random, models, 6, 3)
        evidence = from_phi(random.standard_normal((models, 6)), members)
        np.testing.assert_array_equal(
            Lira().scores(evidence, LiraParams(mode=mode)),
            Lira().scores(evidence, LiraParams.model_validate({"mode": mode, "fixed_variance": same})),
        )


def test_the_default_has_a_prior_on_the_gap(
    from_phi: Callable[..., Evidence], masks: Callable[..., Bools]
) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 6, 120, 60)
    evidence = from_phi(random.standard_normal((6, 120)) + members, members)
    scores = Lira().scores(evidence, LiraParams())
    np.testing.assert_array_equal(scores, lira_bayes(evidence.phi, members, ~members))
    assert Lira.version == "2" and LiraParams().mode == "bayes"


@pytest.mark.parametrize("mode", ["bayes", "online"])
def test_known_gaussians_give_the_known_roc(
    mode: Literal["bayes", "online"], from_phi: Callable[..., Evidence], masks: Callable[..., Bools]
) -> None:
    """IN ~ N(1, 1), OUT ~ N(0, 1): AUC Phi(1/sqrt 2), TPR at 0.1 % FPR Phi(1 + Phi^-1(0.001))."""
    random = np.random.default_rng(0)
    members = masks(random, 400, 500, 250)
    phi = random.standard_normal(members.shape) + members + random.standard_normal(500)
    evidence = from_phi(phi, members)
    metrics = evaluate(Lira().scores(evidence, LiraParams(mode=mode)), members, "record")
    assert metrics.auc == pytest.approx(0.76025, abs=0.004)
    # 100 false positives set the threshold: 10 % of them is 0.0015 in TPR.
    assert metrics.tpr["0.001"].value == pytest.approx(0.018298, abs=0.003)


@pytest.mark.parametrize(("mu", "auc"), [(0.0, 0.5), (0.5, 0.638163), (2.0, 0.921350)])
def test_gaussian_differential_privacy_curves(
    mu: float, auc: float, from_phi: Callable[..., Evidence], masks: Callable[..., Bools]
) -> None:
    random = np.random.default_rng(1)
    members = masks(random, 300, 200, 100)
    evidence = from_phi(random.standard_normal(members.shape) + mu * members, members)
    metrics = evaluate(Lira().scores(evidence, LiraParams()), members, "record")
    assert metrics.auc == pytest.approx(auc, abs=0.01)


def test_record_without_shadows_on_a_side_uses_the_average_gap(
    from_phi: Callable[..., Evidence],
) -> None:
    """Target 0. Records 0 and 1 have shadows on both sides, record 2 only OUT, record 3 only IN."""
    phi = np.array(
        [
            [0.5, 0.5, 6.0, 8.0],
            [0.0, 0.0, 4.0, 7.0],
            [2.0, 0.0, 5.0, 7.0],
            [3.0, 1.0, 6.0, 8.0],
            [1.0, 1.0, 5.0, 8.0],
        ]
    )
    members = np.array([[0, 0, 0, 0], [0, 0, 0, 1], [1, 0, 0, 1], [1, 1, 0, 1], [0, 1, 0, 1]], dtype=np.bool_)
    scores = Lira().scores(from_phi(phi, members), LiraParams(mode="online"))[0]
    gap = ((2.5 - 0.5) + (1.0 - 0.0)) / 2
    s_in = np.sqrt((0.5 + 0.0 + 1.0) / (1 + 1 + 3))
    s_out = np.sqrt((0.5 + 0.0 + 2.0) / (1 + 1 + 3))
    for record, value, mean_in, mean_out in ((2, 6.0, 5.0 + gap, 5.0), (3, 8.0, 7.5, 7.5 - gap)):
        expected = stats.norm(mean_in, s_in).logpdf(value) - stats.norm(mean_out, s_out).logpdf(value)
        assert scores[record] == pytest.approx(expected, rel=1e-6)


def test_a_target_alone_has_no_evidence(from_phi: Callable[..., Evidence]) -> None:
    evidence = from_phi(np.array([[3.0, -1.0]]), np.array([[True, False]]))
    for mode in ("bayes", "online", "offline"):
        scores = Lira().scores(evidence, LiraParams.model_validate({"mode": mode}))
        np.testing.assert_array_equal(scores, 0)


def test_offline_does_not_tie_the_surest_members(
    from_phi: Callable[..., Evidence], masks: Callable[..., Bools]
) -> None:
    """Phi would round both records of target 0 to 1."""
    random = np.random.default_rng(0)
    members = masks(random, 9, 40, 20)
    phi = random.standard_normal(members.shape)
    phi[0, :2] = 50, 60
    scores = Lira().scores(from_phi(phi, members), LiraParams(mode="offline"))
    assert stats.norm.cdf(scores[0, 0]) == stats.norm.cdf(scores[0, 1]) == 1
    assert scores[0, 0] < scores[0, 1]


class Brightness(nn.Module):
    """Two classes by the brightness of the top left pixel, which every view of an image has another of."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        logit = self.slope * x[:, 0, 0, 0]
        return torch.stack([torch.zeros_like(logit), logit], 1)


@pytest.fixture
def pictures(masks: Callable[..., Bools]) -> Evidence:
    random = torch.Generator().manual_seed(0)
    pool = Records(torch.randn(30, 1, 8, 8, generator=random), torch.ones(30, dtype=torch.int64))
    models = [Brightness(slope) for slope in (1.0, 1.5, 2.0, 0.5, 0.8)]
    logits = torch.stack([model(pool.x) for model in models]).numpy()
    members, labels = masks(np.random.default_rng(0), 5, 30, 15), pool.y.numpy()
    return Evidence(logits, labels, members, logits[:, :1], labels[:1], pool, released=models.__getitem__)


@pytest.mark.parametrize("mode", ["bayes", "online", "offline"])
def test_queries_average_the_scores_of_the_views(
    mode: Literal["bayes", "online", "offline"], pictures: Evidence
) -> None:
    scores = Lira().scores(pictures, LiraParams(mode=mode, queries=3))
    each = []
    for view in (View(), View(mirrored=True), lira_views(3)[2]):
        moved = view.of(pictures.pool.x)
        logits = torch.stack([pictures.released(m)(moved) for m in range(5)]).numpy()
        each.append(Lira().scores(replace(pictures, logits=logits), LiraParams(mode=mode)))
    np.testing.assert_allclose(scores, np.mean(each, axis=0), rtol=1e-12, atol=1e-12)


def test_one_query_needs_no_model(pictures: Evidence) -> None:
    stored = replace(pictures, released=signals_only)
    np.testing.assert_array_equal(
        Lira().scores(stored, LiraParams(queries=1)), Lira().scores(pictures, LiraParams())
    )


def test_several_queries_are_refused_where_records_are_no_images(from_phi: Callable[..., Evidence]) -> None:
    evidence = from_phi(np.zeros((3, 4)), np.eye(3, 4, dtype=np.bool_))
    with pytest.raises(BenchError, match=r"lira with queries = 2") as caught:
        Lira().scores(evidence, LiraParams(queries=2))
    assert caught.value.field == "shape"
