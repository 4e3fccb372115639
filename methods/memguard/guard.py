"""A predictor with noise on its confidences that misleads a surrogate attack and keeps every label."""

import hashlib
import math
from typing import Any

import torch
from torch import Tensor, nn

from workloads.models.mlp import mlp

WIDTHS = (256, 128, 64)
"""Layer widths of the surrogate attack, from the authors' code, as are the constants below."""
LABEL_WEIGHT = 10.0
"""c2: weight of the penalty on changing the label."""
DISTANCE_WEIGHTS = tuple(10.0**power for power in range(-1, 6))
"""c3: weights of the distance from the true confidences, tried in this order as long as noise is found."""
STEP = 0.1
UNDECIDED = 1e-5
"""A surrogate's probability this close to 1/2 needs no noise."""


class Guarded(nn.Module):
    """A predictor with MemGuard (Jia et al. 2019): maps x to log-probabilities after the defence.

    The label is always the predictor's. The same input gives the same output: randomness depends only on the
    input and a secret key. In double precision, so that an output hardly depends on its batch.

    Args:
        predictor: Maps x to logits.
        surrogate: Maps sorted probabilities in double precision to the logit of "member": `make_surrogate`.
        key: Of the one-time randomness.
        distortion: Bound on the expected L1 distance between true and released probabilities.
        iterations: Maximum steps of the search for noise, for each of DISTANCE_WEIGHTS.
    """

    key: Tensor

    def __init__(
        self, predictor: nn.Module, surrogate: nn.Module, key: int, distortion: float, iterations: int
    ) -> None:
        super().__init__()
        self.predictor, self.surrogate = predictor, surrogate.cpu()
        self.distortion, self.iterations = distortion, iterations
        self.register_buffer("key", torch.tensor(key))

    def forward(self, x: Tensor) -> Tensor:
        """(B, classes) log-probabilities."""
        with torch.no_grad():
            predicted = self.predictor(x)
            logits = predicted.cpu()
            label = logits.argmax(1)
            order = logits.scatter(1, label[:, None], math.inf).argsort(dim=1)
            true = logits.gather(1, order).double()
            noisy = find_noise(self.surrogate, true, self.iterations)
            chance = noise_chance(self.surrogate, true, noisy, self.distortion)
            use = one_time_uniform(x, int(self.key)) < chance
            released = torch.where(use[:, None], noisy, true).log_softmax(1)
            guarded = torch.empty_like(logits).scatter_(1, order, released.to(logits.dtype))
            return keep_label(guarded, label).to(predicted.device)

    def _apply(self, *args: Any, **kwargs: Any) -> "Guarded":
        """Move or convert the predictor; the guard stays on the CPU, since it synchronises often."""
        super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.surrogate.cpu()
        self.key = self.key.cpu()
        return self


def make_surrogate(classes: int, seed: int) -> nn.Module:
    """A fresh surrogate attack: sorted probabilities (B, classes) to the logit (B, 1) of "member"."""
    return mlp((classes, *WIDTHS, 1), seed).double()


def find_noise(surrogate: nn.Module, logits: Tensor, iterations: int) -> Tensor:
    """Phase I: logits that flip the surrogate's decision; the given ones if none are found.

    `logits` (B, classes) ascend in every row, so that the label is the last class. Of all solutions the one
    for the largest weight of the distance is returned, which is the nearest.
    """
    found = logits.clone()
    undecided = (decide(surrogate, logits).sigmoid() - 0.5).abs() <= UNDECIDED
    rows = (~undecided).nonzero().flatten()
    for weight in DISTANCE_WEIGHTS:
        moved, good = search(surrogate, logits[rows], weight, iterations)
        rows = rows[good]
        found[rows] = moved[good]
    return found


def search(
    surrogate: nn.Module, logits: Tensor, distance_weight: float, iterations: int
) -> tuple[Tensor, Tensor]:
    """(moved logits, whether they are a solution): gradient steps of length STEP, each row until solved."""
    moved, side, true = logits.clone(), decide(surrogate, logits).sign(), logits.softmax(1)
    good = torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
    rows = torch.arange(len(logits), device=logits.device)
    for steps in range(iterations + 1):
        decision, gradient = differentiate(surrogate, moved[rows], true[rows], distance_weight)
        kept = moved[rows, -1] > moved[rows, :-1].amax(1)
        good[rows] = kept & (decision * side[rows] <= 0)
        left = ~good[rows]
        rows, gradient = rows[left], gradient[left]
        if len(rows) == 0 or steps == iterations:
            break
        # A zero gradient has no direction: the row does not move, and fails.
        moved[rows] -= STEP * torch.nan_to_num(gradient / gradient.norm(dim=1, keepdim=True))
    return moved, good


def differentiate(
    surrogate: nn.Module, logits: Tensor, true: Tensor, distance_weight: float
) -> tuple[Tensor, Tensor]:
    """The surrogate's decision g, and the gradient of the objective with respect to the logits z.

    The objective is |g| + c2 relu(max z_other - z_label) + c3 |s - true|_1, with s the softmax of z.
    """
    with torch.enable_grad():
        logits = logits.detach().requires_grad_()
        probabilities = logits.softmax(1)
        decision = surrogate(probabilities).squeeze(1)
        overtaken = (logits[:, :-1].amax(1) - logits[:, -1]).relu()
        distance = (probabilities - true).abs().sum(1)
        objective = decision.abs() + LABEL_WEIGHT * overtaken + distance_weight * distance
        return decision.detach(), torch.autograd.grad(objective.sum(), logits)[0]


def decide(surrogate: nn.Module, logits: Tensor) -> Tensor:
    """(B,): the surrogate's logit of "member", for probabilities in the order of the logits."""
    decision: Tensor = surrogate(logits.softmax(1)).squeeze(1)
    return decision


def noise_chance(surrogate: nn.Module, true: Tensor, noisy: Tensor, distortion: float) -> Tensor:
    """Phase II: the probability of using the noise, which bounds its expected L1 norm.

    0 if the surrogate, on sorted probabilities as an attacker has them, would be as certain as before.
    """
    doubt = (decide(surrogate, true).sigmoid() - 0.5).abs()
    doubt_after = (decide(surrogate, noisy.sort(dim=1).values).sigmoid() - 0.5).abs()
    norm = (noisy.softmax(1) - true.softmax(1)).abs().sum(1)
    return torch.where(doubt_after < doubt, (distortion / norm).clamp(max=1.0), 0.0)


def one_time_uniform(x: Tensor, key: int) -> Tensor:
    """(B,) in [0, 1): a function of the input and the key, so that repeated queries cannot average it out."""
    secret = key.to_bytes(8, "big")
    digests = [
        hashlib.blake2b(row.tobytes(), key=secret, digest_size=8).digest()
        for row in x.detach().cpu().contiguous().numpy()
    ]
    values = [(int.from_bytes(digest, "big") >> 11) / 2.0**53 for digest in digests]
    return torch.tensor(values, dtype=torch.float64)


def keep_label(outputs: Tensor, label: Tensor) -> Tensor:
    """Make the label the strict maximum: rounding may have made another class equal to it."""
    top = outputs.max(1)
    rows = (top.indices != label).nonzero().flatten()
    highest = top.values[rows]
    outputs[rows, label[rows]] = torch.nextafter(highest, torch.full_like(highest, math.inf))
    return outputs
