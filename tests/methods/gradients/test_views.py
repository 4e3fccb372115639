"""Random views against a slow reference, and the gradient of several views of one record."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from methods.base import Problem
from methods.dp_sgd import DpSgdParams, method
from methods.gradients.views import ManyViewsEngine, random_views
from workloads.base import Records
from workloads.errors import SpecError
from workloads.models.init import seeded

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun


def network(seed: int) -> nn.Module:
    with seeded(seed):
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(2 * 4 * 4, 3))


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(logits, labels, reduction="none")


PROBLEM = Problem(3, network, loss)


def images(count: int) -> Records:
    random = torch.Generator().manual_seed(4)
    y = torch.arange(count) % 3
    return Records(torch.randn(count, 1, 6, 6, generator=random) + y[:, None, None, None], y)


def params(**given: Any) -> DpSgdParams:
    common = {"noise_multiplier": 1.0, "steps": 4, "batch_size": 10, "augmentation_shift": 1}
    return DpSgdParams(**(common | given))


def slow_view(image: Tensor, down: int, right: int, shift: int, mirrored: bool) -> Tensor:
    """One view, pixel by pixel; beyond the border the image is reflected."""
    planes, height, width = image.shape
    view = torch.empty_like(image)
    for plane in range(planes):
        for row in range(height):
            for column in range(width):
                y, x = down + row - shift, right + (width - 1 - column if mirrored else column) - shift
                y, x = abs(y), abs(x)
                y, x = min(y, 2 * (height - 1) - y), min(x, 2 * (width - 1) - x)
                view[plane, row, column] = image[plane, y, x]
    return view


@pytest.mark.parametrize("flip", [True, False])
def test_views_are_shifted_and_mirrored_images(flip: bool) -> None:
    x, copies, shift = torch.randn(3, 2, 5, 6, generator=torch.Generator().manual_seed(1)), 4, 2
    views = random_views(x, copies, shift, flip, torch.Generator().manual_seed(2))
    random = torch.Generator().manual_seed(2)
    corners = torch.randint(2 * shift + 1, (2, 12), generator=random)
    mirrored = torch.rand(12, generator=random) < 0.5
    for number in range(12):
        down, right = int(corners[0, number]), int(corners[1, number])
        expected = slow_view(x[number // copies], down, right, shift, flip and bool(mirrored[number]))
        assert torch.equal(views[number], expected)
    assert mirrored.any()
    assert not mirrored.all()


@pytest.mark.parametrize("physical", [None, 2])
def test_the_views_of_a_record_are_clipped_as_one_gradient(physical: int | None) -> None:
    """The slow way: one record at a time, the gradient of the mean loss over its views, then clipping."""
    people, copies, clip = images(5), 3, 0.5
    views = random_views(people.x, copies, 1, True, torch.Generator().manual_seed(3))
    model, unused = network(0), list(torch.split(views, copies))

    def next_views(x: Tensor) -> Tensor:
        return torch.cat([unused.pop(0) for _ in x])

    expected = torch.zeros(sum(weight.numel() for weight in model.parameters()))
    norms = []
    for person in range(5):
        own = views[copies * person : copies * (person + 1)]
        mean = loss(model(own), people.y[person].expand(copies)).mean()
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(mean, list(model.parameters()))])
        norms.append(float(gradient.norm()))
        expected += gradient * min(1.0, clip / (norms[-1] + 1e-6))
    engine = ManyViewsEngine(model, loss, "flat", physical, copies, next_views)
    clipped = engine.clipped_sum(people.x, people.y, clip)
    engine.release()
    torch.testing.assert_close(torch.cat([each.flatten() for each in clipped.sums]), expected)
    assert clipped.norms.tolist() == pytest.approx(norms, rel=1e-4)
    assert len(clipped.losses) == 5


def test_it_learns_and_costs_what_one_view_costs(run_of: "Callable[[int], SimplestRun]") -> None:
    chosen = params(augmentations=3, steps=60, learning_rate=1.0, noise_multiplier=0.5)
    people = images(60)
    released = method.train(people, PROBLEM, chosen, run_of(0))
    plain = params(steps=60, noise_multiplier=0.5)
    assert released.ledger == method.planned(plain, 60)
    assert released.stats["mean_batch"] == pytest.approx(10, abs=2)
    assert (released.predictor(people.x).argmax(1) == people.y).float().mean() > 0.6


def test_the_same_seed_draws_the_same_views(run_of: "Callable[[int], SimplestRun]") -> None:
    one, other = (method.train(images(30), PROBLEM, params(augmentations=2), run_of(5)) for _ in range(2))
    for own, theirs in zip(one.predictor.parameters(), other.predictor.parameters(), strict=True):
        assert torch.equal(own, theirs)


def test_empty_batches_are_no_trouble(run: "SimplestRun") -> None:
    chosen = params(augmentations=2, batch_size=1, steps=8)
    assert method.train(images(3), PROBLEM, chosen, run).stats["empty_batches"] > 0


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(12, 64), r"got records of shape \(64,\)"),
        (torch.zeros(12, 81, 7, 7), r"got records of shape \(81, 7, 7\)"),
        (torch.zeros(12, 1, 6, 6, dtype=torch.int64), "augmentations need images"),
    ],
)
def test_other_records_than_images_are_refused(x: Tensor, message: str, run: "SimplestRun") -> None:
    members = Records(x, torch.zeros(12, dtype=torch.int64))
    with pytest.raises(SpecError, match=message):
        method.train(members, PROBLEM, params(augmentations=2), run)


def test_a_shift_beyond_the_image_is_refused(run: "SimplestRun") -> None:
    with pytest.raises(SpecError) as caught:
        method.train(images(12), PROBLEM, params(augmentations=2, augmentation_shift=6), run)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("augmentation_shift", 6, (1, 5))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"augmentations": 0}, "augmentations must be > 0, got 0"),
        ({"augmentations": 2, "engine": "opacus-ghost"}, "needs stored per-example gradients"),
        ({"augmentations": 2, "engine": "bookkeeping"}, "use engine = 'auto'"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)
