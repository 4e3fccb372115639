"""Evidence of simulated models: some leak nothing about their members, others have memorised them."""

from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from harness.attacks.base import Bools, Evidence
from workloads.base import Records

MODELS, RECORDS, POPULATION, CLASSES = 8, 900, 200, 4
FEWER = 4
"""Number of models that memorise: querying them is slower."""
NEAR = 0.3
"""Distance up to which a record is recognised; most records are farther apart."""


class Recall(nn.Module):
    """A linear model that has memorised some records: confident in their labels, and in those nearby."""

    def __init__(self, linear: nn.Linear, known: Records) -> None:
        super().__init__()
        self.known = known
        self.last = nn.Linear(linear.in_features + len(known), linear.out_features)
        sure = 2 * nn.functional.one_hot(known.y, linear.out_features).float().T
        with torch.no_grad():
            self.last.weight.copy_(torch.cat([linear.weight, sure], dim=1))
            self.last.bias.copy_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        similar = torch.relu(1 - torch.cdist(x, self.known.x) / NEAR)
        logits: Tensor = self.last(torch.cat([x, similar], dim=1))
        return logits


def linear_models(random: np.random.Generator) -> list[nn.Module]:
    """Models trained on no record: each predicts by the largest feature, with its own noise."""
    models: list[nn.Module] = []
    for _ in range(MODELS):
        model = nn.Linear(CLASSES, CLASSES)
        noise = 0.3 * random.standard_normal((CLASSES, CLASSES))
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(2 * np.eye(CLASSES) + noise))
            model.bias.zero_()
        models.append(model.eval())
    return models


def evidence_of(models: list[nn.Module], pool: Records, population: Records, members: Bools) -> Evidence:
    """The evidence of these models."""
    with torch.no_grad():
        logits, others = (torch.stack([m(each.x) for m in models]).numpy() for each in (pool, population))
    return Evidence(
        logits=logits,
        labels=pool.y.numpy(),
        members=members,
        population_logits=others,
        population_labels=population.y.numpy(),
        pool=pool,
        population=population,
        released=models.__getitem__,
    )


def draw(random: np.random.Generator, count: int) -> Records:
    """Points whose label is their largest coordinate for about half of them."""
    x = torch.from_numpy(random.standard_normal((count, CLASSES), dtype=np.float32))
    noisy = x + torch.from_numpy(random.standard_normal((count, CLASSES), dtype=np.float32))
    return Records(x, noisy.argmax(1))


def draw_masks(random: np.random.Generator, models: int, records: int, size: int) -> Bools:
    """Independent masks of exactly `size` members each."""
    return np.stack([random.permutation(records) < size for _ in range(models)])


@cache
def null_evidence() -> Evidence:
    """Models whose predictions do not depend on their members."""
    random = np.random.default_rng(0)
    pool, population = draw(random, RECORDS), draw(random, POPULATION)
    members = draw_masks(random, MODELS, RECORDS, RECORDS // 2)
    with torch.random.fork_rng(devices=[]):
        return evidence_of(linear_models(random), pool, population, members)


@cache
def recalled_evidence() -> Evidence:
    """The first of these models, with their members memorised."""
    null = null_evidence()
    models: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        for m in range(FEWER):
            linear = null.released(m)
            known = null.pool.take(torch.from_numpy(null.members[m]).nonzero().squeeze(1))
            if isinstance(linear, nn.Linear):
                models.append(Recall(linear, known).eval())
    population = null.pool if null.population is None else null.population
    return evidence_of(models, null.pool, population, null.members[:FEWER])


def first_models(evidence: Evidence, models: int) -> Evidence:
    """The evidence of the first models."""
    return replace(
        evidence,
        logits=evidence.logits[:models],
        members=evidence.members[:models],
        population_logits=evidence.population_logits[:models],
    )
