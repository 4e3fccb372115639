"""Evidence made from chosen rescaled logits, and gradients of small smooth pictures."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from harness.attacks.base import Bools, Evidence, Floats
from harness.attacks.parts.inversion import Intercepted, Pixels, record_gradients
from workloads.base import Records
from workloads.models.lenet import lenet


def evidence_from_phi(
    phi: Floats,
    members: Bools,
    population: Floats | None = None,
    features: NDArray[np.float32] | None = None,
) -> Evidence:
    """Two-class logits whose rescaled logits are `phi` (to float32), labels alternating."""
    population = np.zeros((len(phi), 1)) if population is None else population
    if features is None:
        features = np.random.default_rng(0).standard_normal((phi.shape[1], 5), dtype=np.float32)

    def answers(values: Floats) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        labels = np.arange(values.shape[1]) % 2
        logits = np.zeros((*values.shape, 2), dtype=np.float32)
        logits[:, np.arange(values.shape[1]), labels] = values
        return logits, labels

    logits, labels = answers(phi)
    population_logits, population_labels = answers(population)
    return Evidence(
        logits,
        labels,
        members,
        population_logits,
        population_labels,
        Records(torch.from_numpy(features), torch.from_numpy(labels)),
    )


def draw_masks(random: np.random.Generator, models: int, records: int, n_train: int) -> Bools:
    """Independent masks of exactly `n_train` members each."""
    return np.stack([random.permutation(records) < n_train for _ in range(models)])


@pytest.fixture(scope="session")
def from_phi() -> Callable[..., Evidence]:
    return evidence_from_phi


@pytest.fixture(scope="session")
def masks() -> Callable[..., Bools]:
    return draw_masks


def smooth_pictures(count: int, seed: int) -> Tensor:
    """(count, 3, 12, 12) in [0, 1]: random colours at nine points, blended in between."""
    coarse = torch.rand(count, 3, 3, 3, generator=torch.Generator().manual_seed(seed))
    return interpolate(coarse, size=12, mode="bilinear", align_corners=True)


@pytest.fixture(scope="session")
def victims() -> Records:
    """Six pictures to reconstruct."""
    return Records(smooth_pictures(6, seed=0), torch.arange(6) % 4)


@pytest.fixture(scope="session")
def intercepted(victims: Records) -> Intercepted:
    """Their gradients on an untrained LeNet, without labels."""
    model = lenet(0, channels=3, side=12, classes=4)
    pixels = Pixels.of(Records(smooth_pictures(200, seed=1), torch.zeros(200)))
    gradients = record_gradients(model)(victims.x, victims.y)
    return Intercepted(model, gradients, None, victims.x.shape[1:], pixels)


@pytest.fixture(scope="session")
def mere_noise(intercepted: Intercepted) -> Intercepted:
    """The control: gradients unrelated to any picture."""
    random = torch.Generator().manual_seed(3)
    noise = [torch.randn(each.shape, generator=random) for each in intercepted.gradients]
    return Intercepted(intercepted.model, noise, None, intercepted.shape, intercepted.pixels)
