"""The declared gradient and mean of cross-entropy against autograd."""

import math

import pytest
import torch
from torch import Tensor

from methods.base import Averaged, Differentiated
from methods.training.cross_entropy import FEW_CLASSES, CrossEntropy, mean_of

LOSS = CrossEntropy()


def examples(classes: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 5 * torch.randn(9, classes, generator=generator, dtype=dtype)
    return logits, torch.randint(classes, (9,), generator=generator)


@pytest.mark.parametrize("classes", [1, 2, 10, FEW_CLASSES - 1, FEW_CLASSES, 200])
@pytest.mark.parametrize("by_columns", [False, True])
def test_the_declared_gradient_is_autograd_s(classes: int, by_columns: bool) -> None:
    logits, labels = examples(classes)
    given = logits.t().contiguous().t() if by_columns else logits
    before = given.clone()
    found = LOSS.with_gradient(given, labels)
    assert found is not None
    losses, gradient = found
    asked = logits.requires_grad_()
    (expected,) = torch.autograd.grad(LOSS(asked, labels).sum(), asked)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(losses, LOSS(logits, labels).detach(), rtol=1e-12, atol=1e-14)
    assert losses.shape == (9,)
    assert torch.equal(given, before), "the logits are the caller's"
    gradient.zero_()
    assert torch.equal(given, before), "the gradient has memory of its own"


@pytest.mark.parametrize("classes", [10, 200])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_bad_row_spoils_no_other(classes: int, bad: float) -> None:
    logits, labels = examples(classes)
    good = LOSS.with_gradient(logits, labels)
    logits[3, 0] = bad
    spoilt = LOSS.with_gradient(logits, labels)
    assert good is not None and spoilt is not None
    others = torch.arange(9) != 3
    assert not torch.isfinite(spoilt[1][3]).all()
    assert torch.equal(spoilt[1][others], good[1][others])


def test_labels_that_are_no_numbers_go_by_autograd() -> None:
    logits, _ = examples(4)
    assert LOSS.with_gradient(logits, torch.softmax(logits, 1)) is None
    assert LOSS.with_gradient(logits.view(9, 2, 2), torch.zeros(9, 2, dtype=torch.int64)) is None


def test_the_mean_is_the_mean() -> None:
    logits, labels = examples(10)
    assert isinstance(LOSS, Averaged) and isinstance(LOSS, Differentiated)
    torch.testing.assert_close(mean_of(LOSS)(logits, labels), LOSS(logits, labels).mean())

    def doubled(logits: Tensor, labels: Tensor) -> Tensor:
        return 2 * LOSS(logits, labels)

    torch.testing.assert_close(mean_of(doubled)(logits, labels), 2 * LOSS(logits, labels).mean())


def test_the_mean_has_the_gradient_of_the_mean_of_losses() -> None:
    """Bit for bit: the weights of plain training do not depend on the form."""
    logits, labels = examples(10, torch.float32)
    gradients: list[Tensor] = []
    for mean in (LOSS.mean, lambda z, y: LOSS(z, y).mean()):
        asked = logits.clone().requires_grad_()
        gradients += torch.autograd.grad(mean(asked, labels), asked)
    assert torch.equal(*gradients)
