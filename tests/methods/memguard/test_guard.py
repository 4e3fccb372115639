"""The guard against the authors' loop over single queries, and the properties of every output."""

import math

import pytest
import torch
from torch import Tensor, nn

from methods.memguard.guard import (
    DISTANCE_WEIGHTS,
    Guarded,
    find_noise,
    keep_label,
    noise_chance,
    one_time_uniform,
)
from workloads.models.mlp import mlp

CLASSES, ITERATIONS = 5, 60


def random_logits(count: int, scale: float = 3.0) -> Tensor:
    return scale * torch.randn(
        count, CLASSES, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )


def sure_means_member() -> nn.Module:
    """20 (largest probability - 0.8): members are the records with confident predictions."""
    surrogate = nn.Linear(CLASSES, 1).double()
    with torch.no_grad():
        surrogate.weight.copy_(torch.tensor([[0.0, 0.0, 0.0, 0.0, 20.0]]))
        surrogate.bias.fill_(-16.0)
    return surrogate


def crooked() -> nn.Module:
    """A random network, steep enough to be misled and about as often above 0 as below."""
    surrogate = mlp((CLASSES, 32, 16, 1), 1).double()
    with torch.no_grad():
        for weight in surrogate.parameters():
            weight.mul_(4)
        *_, last_bias = surrogate.parameters()
        last_bias.sub_(surrogate(random_logits(50).sort(dim=1).values.softmax(1)).median())
    return surrogate


SURROGATES = {"sure means member": sure_means_member, "crooked": crooked}
every_surrogate = pytest.mark.parametrize(
    "surrogate", [make() for make in SURROGATES.values()], ids=SURROGATES
)


def guard(surrogate: nn.Module, distortion: float) -> Guarded:
    return Guarded(nn.Identity(), surrogate, 7, distortion, ITERATIONS).eval()


def one_query(surrogate: nn.Module, logits: Tensor) -> Tensor:
    """Phase I for one query with ascending logits, line by line as in the authors' defense_framework.py."""

    def member(z: Tensor) -> float:
        return float(surrogate(z.softmax(0)[None])[0, 0].detach())

    label, true = len(logits) - 1, logits.softmax(0)
    last = logits
    if abs(1 / (1 + math.exp(-member(logits))) - 0.5) <= 1e-5:
        return last
    for c3 in DISTANCE_WEIGHTS:
        z, steps = logits.clone(), 0
        while steps < ITERATIONS and (int(z.argmax()) != label or member(z) * member(logits) > 0):
            z = z.detach().requires_grad_()
            distance = (z.softmax(0) - true).abs().sum()
            wrong = torch.relu(z[:label].max() - z[label])
            loss = surrogate(z.softmax(0)[None])[0, 0].abs() + 10 * wrong + c3 * distance
            (gradient,) = torch.autograd.grad(loss, z)
            z = z.detach() - 0.1 * gradient / gradient.norm()
            steps += 1
        if int(z.argmax()) != label or member(z) * member(logits) > 0:
            break
        last = z
    return last


@pytest.mark.slow
@every_surrogate
def test_the_noise_is_that_of_the_authors_loop(surrogate: nn.Module) -> None:
    logits = random_logits(12).sort(dim=1).values
    with torch.no_grad():
        found = find_noise(surrogate, logits, ITERATIONS)
    assert (found != logits).any(1).sum() > 6, "noise is found for most"
    torch.testing.assert_close(found, torch.stack([one_query(surrogate, row) for row in logits]))


@every_surrogate
@pytest.mark.parametrize("distortion", [0.0, 0.3, 2.0])
def test_labels_stay_and_confidences_are_probabilities(surrogate: nn.Module, distortion: float) -> None:
    rows = random_logits(60)
    near_ties = torch.cat([torch.zeros(3, CLASSES), 1e-9 * random_logits(3), 40 * random_logits(6)])
    logits = torch.cat([rows, near_ties]).float()
    released = guard(surrogate, distortion)(logits)
    assert released.dtype == logits.dtype
    assert torch.equal(released.argmax(1), logits.argmax(1))
    torch.testing.assert_close(released.exp().sum(1), torch.ones(len(logits)))


def test_without_distortion_the_output_is_the_predictors() -> None:
    logits = random_logits(40)
    torch.testing.assert_close(guard(sure_means_member(), 0.0)(logits), logits.log_softmax(1))


def test_a_surrogate_of_one_threshold_is_left_at_its_threshold() -> None:
    """A surrogate with a threshold of 0.8 gets a confidence of 0.8 for most records, up to the last step."""
    logits = random_logits(60)
    before, after = logits.softmax(1).amax(1), guard(sure_means_member(), 2.0)(logits).exp().amax(1)
    assert (before - 0.8).abs().mean() > 0.1
    assert (after - 0.8).abs().mean() < 0.03
    assert ((after - 0.8).abs() <= (before - 0.8).abs() + 1e-12).all(), "never nearer before than after"


@pytest.mark.slow
def test_the_same_input_gets_the_same_output_whatever_its_batch() -> None:
    torch.manual_seed(1)
    guarded = guard(sure_means_member(), 0.2)
    x = random_logits(30)
    whole = guarded(x)
    torch.manual_seed(2)
    assert torch.equal(whole, guarded(x))
    alone = torch.cat([guarded(row[None]) for row in x])
    torch.testing.assert_close(whole, alone)
    changed = (whole != x.log_softmax(1)).any(1)
    assert 0 < int(changed.sum()) < 30, "some draw noise and some do not"


def test_the_expected_distance_is_within_the_bound_and_doubt_never_falls() -> None:
    surrogate, true = sure_means_member(), random_logits(200).sort(dim=1).values
    noisy = true + 0.5 * random_logits(200)
    with torch.no_grad():
        chance = noise_chance(surrogate, true, noisy, 0.1)
    distance = (noisy.softmax(1) - true.softmax(1)).abs().sum(1)
    assert (chance * distance <= 0.1 + 1e-12).all()
    gap_before = (true.softmax(1).amax(1) - 0.8).abs()
    gap_after = (noisy.softmax(1).amax(1) - 0.8).abs()
    # The sigmoid bends: equal gaps on both sides of the threshold are equal doubts all the same.
    assert ((chance > 0) == (gap_after < gap_before)).all()
    assert {True, False} == set((chance > 0).tolist())


def test_where_nothing_leads_down_the_query_stays_as_it_is() -> None:
    """A surrogate that always predicts "member": the objective is flat at the true confidences."""
    surrogate = nn.Linear(CLASSES, 1).double()
    with torch.no_grad():
        surrogate.weight.zero_()
        surrogate.bias.fill_(1.0)
        logits = random_logits(10).sort(dim=1).values
        assert torch.equal(find_noise(surrogate, logits, ITERATIONS), logits)


def test_the_one_time_randomness_is_uniform_and_depends_on_input_and_key_alone() -> None:
    x = random_logits(4000)
    drawn = one_time_uniform(x, 3)
    assert torch.equal(drawn, one_time_uniform(x, 3))
    assert torch.equal(drawn[5:6], one_time_uniform(x[5:6], 3))
    assert not torch.equal(drawn, one_time_uniform(x, 4))
    assert float(drawn.min()) >= 0
    assert float(drawn.max()) < 1
    assert float(drawn.mean()) == pytest.approx(0.5, abs=5 / math.sqrt(12 * 4000))


def test_rounding_cannot_give_another_class_the_top() -> None:
    answers = torch.tensor([[-0.7, -0.7, -3.0], [-2.0, -0.1, -4.0]])
    kept = keep_label(answers.clone(), torch.tensor([1, 1]))
    assert kept.argmax(1).tolist() == [1, 1]
    torch.testing.assert_close(kept, answers)
