"""Losses of two sets of weights on the same records."""

import logging
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from workloads.base import Records

log = logging.getLogger(__name__)


class PairedLoss:
    """Mean losses of a model under two sets of its weights, from one batched forward pass.

    A convolutional model takes two passes, which are faster: batched, its convolutions become grouped ones.
    So does a model that `torch.vmap` does not support (data-dependent branches, for example).

    Args:
        model: Evaluated without dropout.
        loss: Logits and labels to one loss per example.
        weights: Parameters of the model.
        pairs: (2, *shape) for each of them: the two sets, read at every call.
        example: One record or more, to test whether one pass works.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor],
        weights: Sequence[nn.Parameter],
        pairs: Sequence[Tensor],
        example: Records,
    ) -> None:
        self._model, self._loss = model, loss
        names = {weight: name for name, weight in model.named_parameters()}
        self._pairs = {names[weight]: pair for weight, pair in zip(weights, pairs, strict=True)}
        self.batched = not any(isinstance(module, nn.Conv2d) for module in model.modules())
        try:
            self(example)
        except (RuntimeError, ValueError) as error:  # vmap's; an error of the model itself is raised again
            self.batched = False
            log.info("validation takes two passes: %s", str(error).partition("\n")[0])
            self(example)

    @torch.no_grad()
    def __call__(self, records: Records) -> Tensor:
        """(2,), double: the mean over the records under either set; zeros without records."""
        if len(records) == 0:
            return torch.zeros(2, dtype=torch.float64, device=records.y.device)

        def mean(weights: dict[str, Tensor]) -> Tensor:
            logits = functional_call(self._model, weights, (records.x,))
            return self._loss(logits, records.y).double().mean()

        training = self._model.training
        self._model.eval()
        try:
            if self.batched:
                return torch.vmap(mean)(self._pairs)
            return torch.stack([mean({name: pair[i] for name, pair in self._pairs.items()}) for i in (0, 1)])
        finally:
            self._model.train(training)
