"""Label-only: the gap attack's known accuracy, noise, views, and distances against closed forms."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from harness.attacks.base import Bools, Evidence, Floats
from harness.attacks.label_only.boundary import hop_skip_jump, linear_distance, linear_layer
from harness.attacks.label_only.label_only import LabelOnly, LabelOnlyParams
from harness.attacks.label_only.perturbation import Noise
from harness.leakage.figures import evaluate
from workloads.base import Records
from workloads.errors import BenchError
from workloads.models.head import Widened
from workloads.models.mlp import mlp


class Counting(nn.Module):
    """Counts the queries of a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.rows = model, 0

    def forward(self, x: Tensor) -> Tensor:
        self.rows += len(x)
        logits: Tensor = self.model(x)
        return logits


def evidence_of(models: list[nn.Module], pool: Records, members: Bools, population: Records) -> Evidence:
    with torch.no_grad():
        logits = torch.stack([model(pool.x) for model in models]).numpy()
    labels = pool.y.numpy()
    return Evidence(
        logits, labels, members, logits[:, :1], labels[:1], pool, population, released=models.__getitem__
    )


@pytest.fixture
def bits(masks: Callable[..., Bools]) -> Evidence:
    """Two networks on bits; labels are mostly the first one's predictions."""
    random = torch.Generator().manual_seed(0)
    x = torch.randint(2, (300, 12), generator=random).float()
    models: list[nn.Module] = [mlp((12, 16, 3), seed).eval() for seed in (0, 1)]
    with torch.no_grad():
        y = models[0](x).argmax(1)
    y[::4] = (y[::4] + 1) % 3
    pool = Records(x, y)
    return evidence_of(models, pool, masks(np.random.default_rng(0), 2, 300, 150), pool)


def scores(evidence: Evidence, **params: Any) -> Floats:
    return LabelOnly().scores(evidence, LabelOnlyParams(**params))


def test_the_gap_attack_has_the_accuracy_that_the_gap_of_the_model_gives(bits: Evidence) -> None:
    """(1 + accuracy on members - accuracy on others) / 2 (Yeom et al. 2018)."""
    right = bits.logits.argmax(axis=2) == bits.labels
    found = scores(bits, strategy="gap")
    np.testing.assert_array_equal(found, right)
    for m in range(2):
        inside, outside = right[m][bits.members[m]].mean(), right[m][~bits.members[m]].mean()
        called = evaluate(found[m][None], bits.members[m][None], "alone")
        # The best threshold classifies as members either the correct predictions or no record.
        assert called.accuracy_oracle == pytest.approx(max((1 + inside - outside) / 2, 0.5))


@pytest.mark.parametrize("queries", [1, 7])
def test_without_noise_it_is_the_gap_attack(bits: Evidence, queries: int) -> None:
    np.testing.assert_array_equal(
        scores(bits, strategy="noise", level=0.0, queries=queries), scores(bits, strategy="gap")
    )


def test_one_query_is_the_gap_attack_whatever_the_noise(bits: Evidence) -> None:
    np.testing.assert_array_equal(
        scores(bits, strategy="noise", level=0.5, queries=1), scores(bits, strategy="gap")
    )


@pytest.mark.parametrize("params", [{"level": 0.1}, {"strategy": "boundary"}])
def test_it_keeps_to_its_queries(bits: Evidence, params: dict[str, Any]) -> None:
    counted = [Counting(bits.released(m)) for m in range(2)]
    evidence = Evidence(**{**vars(bits), "released": counted.__getitem__})
    scores(evidence, queries=60, **params)
    donors = 300  # queried once for all records, to find the starts of the search
    assert all(0 < each.rows <= 60 * 300 + donors for each in counted)


def test_a_search_with_too_few_queries_is_refused(bits: Evidence) -> None:
    with pytest.raises(BenchError) as caught:
        scores(bits, strategy="boundary", queries=10)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("queries", 10, 11)


def test_noise_flips_bits_with_its_probability() -> None:
    x = torch.randint(2, (50, 40), generator=torch.Generator().manual_seed(0)).float()
    noise = Noise.suited_to(Records(x, torch.zeros(50)))
    many = noise.copies(x, 0.2, 51, torch.Generator().manual_seed(1))
    assert torch.equal(many[:, 0], x)
    assert set(many.flatten().tolist()) == {0.0, 1.0}
    flipped = (many[:, 1:] != x[:, None]).double().mean()
    assert flipped == pytest.approx(0.2, abs=0.005)  # 100,000 coins: four deviations


def test_noise_on_numbers_has_the_scale_of_each_feature() -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(400, 3, generator=random) * torch.tensor([1.0, 10.0, 0.0])
    noise = Noise.suited_to(Records(x, torch.zeros(400)))
    added = noise.copies(x, 0.5, 101, random)[:, 1:] - x[:, None]
    deviation = added.flatten(0, 1).std(0) / x.std(0).clamp(min=1)
    torch.testing.assert_close(deviation, torch.tensor([0.5, 0.5, 0.0]), rtol=0.03, atol=1e-6)


def test_noise_on_tokens_is_refused() -> None:
    words = Records(torch.zeros(3, 5, dtype=torch.int64), torch.zeros(3))
    with pytest.raises(BenchError) as caught:
        Noise.suited_to(words)
    assert (caught.value.field, caught.value.allowed) == ("strategy", "gap")


def test_views_of_records_that_are_not_images_are_refused(bits: Evidence) -> None:
    with pytest.raises(BenchError) as caught:
        scores(bits, strategy="augmentation")
    assert (caught.value.field, caught.value.value) == ("shape", (12,))


def test_views_find_the_members_of_a_model_that_saw_them_moved(masks: Callable[..., Bools]) -> None:
    """Both models are right on every image, but only on members' moved images too."""
    random = torch.Generator().manual_seed(0)
    images = Records(torch.rand(40, 1, 6, 6, generator=random), torch.zeros(40, dtype=torch.int64))
    members = masks(np.random.default_rng(0), 2, 40, 20)

    class Memorises(nn.Module):
        """Right on the originals, and on any image whose darkest pixel is a member's."""

        def __init__(self, own: Tensor) -> None:
            super().__init__()
            self.lowest = own.flatten(1).amin(1)

        def forward(self, x: Tensor) -> Tensor:
            lowest = x.flatten(1).amin(1, keepdim=True)
            known = (lowest == self.lowest).any(1)
            original = (x.flatten(1)[:, None] == images.x.flatten(1)).all(2).any(1)
            right = (known | original).float()
            return torch.stack([right, 1 - right], 1)

    models: list[nn.Module] = [Memorises(images.x[torch.from_numpy(own)]) for own in members]
    evidence = evidence_of(models, images, members, images)
    assert evaluate(scores(evidence, strategy="gap"), members, "alone").auc == 0.5
    firm = scores(evidence, strategy="augmentation", queries=6)
    assert evaluate(firm, members, "alone").auc == 1.0


def test_distance_to_the_boundary_of_a_linear_model_is_exact() -> None:
    """At the distance, along the normal, the predicted label changes; just before, it does not."""
    random = torch.Generator().manual_seed(0)
    model = mlp((6, 4), 0).double()
    x = torch.randn(200, 6, generator=random, dtype=torch.float64)
    layer = linear_layer(model, x)
    assert layer is not None
    y = torch.randint(4, (200,), generator=random)
    distances = linear_distance(layer, x, y)
    answers = model(x).argmax(1)
    assert torch.equal(distances == 0, answers != y)
    assert (answers == y).sum() > 20
    for i in (answers == y).nonzero().squeeze(1).tolist():
        ways = []
        for j in {0, 1, 2, 3} - {int(y[i])}:
            normal = layer.weight[j] - layer.weight[y[i]]
            ways.append(normal / normal.norm())
        steps = torch.stack(ways)
        before = model(x[i] + 0.999 * distances[i] * steps).argmax(1)
        beyond = model(x[i] + 1.001 * distances[i] * steps).argmax(1)
        assert (before == y[i]).all()
        assert (beyond != y[i]).any()


def test_only_a_linear_model_counts_as_one() -> None:
    x = torch.rand(5, 2, 3)
    flat = nn.Sequential(nn.Flatten(), Widened(), nn.Linear(6, 2))
    assert linear_layer(flat, x) is flat[2]
    assert linear_layer(nn.Sequential(nn.Flatten(), nn.Linear(6, 2), nn.Tanh()), x) is None
    assert linear_layer(nn.Sequential(nn.Flatten(), *mlp((6, 4, 2), 0)), x) is None


def test_the_search_comes_near_the_exact_distance_and_never_below() -> None:
    random = torch.Generator().manual_seed(0)
    model = mlp((8, 3), 1)
    x = torch.randn(60, 8, generator=random)
    layer = linear_layer(model, x)
    assert layer is not None
    with torch.no_grad():
        y = model(x).argmax(1)
    others = {label: x[y != label] for label in range(3)}
    start = torch.stack([others[int(label)][0] for label in y])
    exact = linear_distance(layer, x, y).float()
    rough, fine = (hop_skip_jump(model, x, y, start, queries, random) / exact for queries in (10, 1500))
    assert (fine > 0.999).all()
    assert fine.median() < 1.05
    assert fine.median() < 0.7 * rough.median()


def test_the_level_is_chosen_where_members_are_known(bits: Evidence) -> None:
    """On the other model: this target's own members are not used."""
    changed = Evidence(**{**vars(bits), "members": bits.members[[1, 1]]})
    np.testing.assert_array_equal(scores(bits, queries=20)[0], scores(changed, queries=20)[0])
