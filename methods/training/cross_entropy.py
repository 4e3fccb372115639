"""Losses of a classifier, with the forms that take a short way: a declared gradient, a mean."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from methods.base import Averaged, Loss

MeanLoss = Callable[[Tensor, Tensor], Tensor]
"""Logits and labels to the mean loss of a batch that is not empty."""

# With fewer classes torch's softmax is slow over the last dimension and vectorised over the first (measured).
FEW_CLASSES = 64


class CrossEntropy:
    """Cross-entropy of every example; it declares its gradient and its mean."""

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(B,): one loss per example."""
        return F.cross_entropy(logits, labels, reduction="none")

    def mean(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean loss, without a tensor of losses in between."""
        return F.cross_entropy(logits, labels)

    def with_gradient(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor] | None:
        """The losses and softmax - one-hot, in memory of its own; None for labels that are no numbers."""
        if logits.dim() != 2 or labels.dim() != 1 or labels.dtype != torch.int64:
            return None
        classes = 0 if logits.shape[1] < FEW_CLASSES else 1
        logs = torch.log_softmax(logits.t().contiguous() if classes == 0 else logits, classes)
        at = labels.unsqueeze(classes)
        right = logs.gather(classes, at)
        # p everywhere, and p - 1 at the label.
        gradient = logs.exp_().scatter_(classes, at, right.expm1())
        return right.neg_().squeeze(classes), gradient.t() if classes == 0 else gradient


def mean_of(loss: Loss) -> MeanLoss:
    """The mean of a loss, by its own form if it has one."""
    return loss.mean if isinstance(loss, Averaged) else lambda logits, labels: loss(logits, labels).mean()
