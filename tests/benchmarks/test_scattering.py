"""Scattering: Fashion-MNIST within a minute and CIFAR-10 within three on two cores."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from workloads.features.pixels import COLOUR, GREY, Scale
from workloads.features.scattered import transform

pytestmark = pytest.mark.benchmark

SAMPLE = 4800
"""Images measured; the rest of a set takes as long for each."""


@pytest.mark.parametrize(
    ("planes", "side", "scale", "images", "promised"),
    [(1, 28, GREY, 70_000, 60), (3, 32, COLOUR, 60_000, 180)],
    ids=["fashion-mnist", "cifar-10"],
)
def test_a_whole_set_is_transformed_in_time(
    planes: int,
    side: int,
    scale: Scale,
    images: int,
    promised: float,
    record_property: Callable[[str, object], None],
) -> None:
    random = np.random.default_rng(0)
    sample = random.integers(256, size=(SAMPLE, planes, side, side), dtype=np.uint8)
    transform(sample[:100], scale, "gn27")
    begin = time.perf_counter()
    transform(sample, scale, "gn27")
    seconds = (time.perf_counter() - begin) * images / SAMPLE
    record_property("seconds_for_the_set", seconds)
    # A machine busy with other work gets room.
    assert seconds < 2 * promised
