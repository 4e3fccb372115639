"""The data of the facts in the specification of the leakage statistics."""

from typing import NamedTuple

import numpy as np
import pytest

from harness.leakage.influence import Scored
from harness.leakage.matrices import Bools, Floats
from tests.harness.attacks.conftest import masks as masks


class Signals(NamedTuple):
    """Six models of 120 records each, for two methods with the same masks, and 40 population records."""

    phi: Floats
    other: Floats
    population: Floats
    members: Bools


def halved(random: np.random.Generator, models: int, records: int) -> Bools:
    members = np.zeros((models, records), dtype=np.bool_)
    for row in members:
        row[random.permutation(records)[: records // 2]] = True
    return members


@pytest.fixture(scope="session")
def small() -> Scored:
    """Four targets of 12 records."""
    random = np.random.default_rng(0)
    scores = random.normal(size=(4, 12))
    members = halved(random, 4, 12)
    return Scored(scores + 0.8 * members, members)


@pytest.fixture(scope="session")
def signals() -> Signals:
    random = np.random.default_rng(1)
    members = halved(random, 6, 120)
    base = random.normal(1, 2, 120)
    phi = base + random.normal(size=(6, 120)) + 0.7 * members
    population = random.normal(1, 2, 40) + random.normal(size=(6, 40))
    other = base + random.normal(size=(6, 120)) + 0.3 * members
    return Signals(phi, other, population, members)
