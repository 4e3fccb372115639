"""A plug-in workload on own data, with every mistake one can make: for this process and for others.

As a module of an installed package its mistake is named by the environment variable OWN_DATA_MISTAKE.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workloads.base import Attribute, Records
from workloads.models.init import seeded

ROWS, TESTED, WIDTH, CLASSES = 60, 30, 5, 3
SEX = Attribute("sex", 0, (0.0, 1.0))


def draw(count: int, seed: int) -> Records:
    random = torch.Generator().manual_seed(seed)
    return Records(torch.randn(count, WIDTH, generator=random), torch.arange(count) % CLASSES)


def normalised(seed: int) -> nn.Module:
    with seeded(seed):
        return nn.Sequential(nn.Linear(WIDTH, 4), nn.BatchNorm1d(4), nn.Linear(4, CLASSES))


def linear(seed: int, width: int = WIDTH, classes: int = CLASSES) -> nn.Module:
    with seeded(seed):
        return nn.Linear(width, classes)


@dataclass(frozen=True)
class OwnData:
    """Sixty random records of five features; `mistake` names what is wrong with them."""

    mistake: str = ""
    name: str = "own-data"
    version: str = "1"
    about: str = "random records"
    source: str = "a random generator"
    classes: int = CLASSES
    n_train: int = 30

    def pool(self) -> Any:
        return self._spoilt(draw(ROWS, 1), "pool")

    def test(self) -> Any:
        return self._spoilt(draw(TESTED, 2), "test")

    def model(self, seed: int) -> nn.Module:
        if self.mistake == "batch normalisation":
            return normalised(seed)
        width = WIDTH + 1 if self.mistake == "model for other records" else WIDTH
        return linear(seed, width, CLASSES + 1 if self.mistake == "model of other classes" else CLASSES)

    def _spoilt(self, good: Records, part: str) -> Any:
        x, y = good.x, good.y
        if self.mistake == "no tensors":
            return Records(x.numpy(), y)  # type: ignore[arg-type]
        if self.mistake == "labels are strings":
            return Records(x, [f"class {each}" for each in y.tolist()])  # type: ignore[arg-type]
        if self.mistake == "missing file":
            return Records(torch.load(Path("/nowhere/own-data.pt")), y)
        if self.mistake == "a tuple":
            return x, y
        if self.mistake == "more features than labels":
            return Records(x, y[1:])
        if self.mistake == "other test records" and part == "test":
            return Records(x[:, 1:], y)
        if self.mistake == "empty test" and part == "test":
            return Records(x[:0], y[:0])
        if self.mistake == "copies" and part == "pool":
            return Records(x.clone().index_copy_(0, torch.tensor([7, 8]), x[:1].repeat(2, 1)), y)
        if self.mistake == "pool in test" and part == "test":
            return draw(ROWS, 1).take(torch.arange(TESTED))
        return Records(SPOILT_X.get(self.mistake, same)(x), SPOILT_Y.get(self.mistake, same)(y))


def same(values: Tensor) -> Tensor:
    return values


def with_value(x: Tensor, value: float) -> Tensor:
    spoilt = x.clone()
    spoilt[4, 2] = value
    return spoilt


SPOILT_Y: dict[str, Callable[[Tensor], Tensor]] = {
    "labels are floats": lambda y: y.float(),
    "labels are fractions": lambda y: y / 2,
    "labels are bytes": lambda y: y.to(torch.uint8),
    "labels from 1": lambda y: y + 1,
    "negative labels": lambda y: y - 1,
    "labels beyond classes": lambda y: y + 2,
    "labels in a column": lambda y: y[:, None],
    "one-hot labels": lambda y: nn.functional.one_hot(y, CLASSES),
}
SPOILT_X: dict[str, Callable[[Tensor], Tensor]] = {
    "float64": lambda x: x.double(),
    "whole numbers": lambda x: x.long(),
    "NaN": lambda x: with_value(x, float("nan")),
    "infinity": lambda x: with_value(x, float("inf")),
}


@dataclass(frozen=True)
class Persons(OwnData):
    """The same with several records of one person."""

    def groups(self) -> Tensor:
        """Three records each of the first ten persons, one of each other."""
        rows = ROWS - 1 if self.mistake == "persons of other records" else ROWS
        return torch.cat([torch.arange(10).repeat(3), torch.arange(10, 10 + rows - 30)])


@dataclass(frozen=True)
class Elsewhere(OwnData):
    """The same on another machine."""

    def missing(self) -> str | None:
        """How to get them."""
        return "own-data.pt is missing: run `fetch-own-data`; or ask a colleague"


@dataclass(frozen=True)
class Private(OwnData):
    """The same with a sensitive column."""

    sensitive: Attribute = SEX


workload = replace(OwnData(), mistake=os.environ.get("OWN_DATA_MISTAKE", ""))
