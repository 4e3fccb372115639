"""The scattering transform: its definition, kymatio's numbers, and an image's features from it alone."""

import importlib.util
import math
import sys
import types
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from workloads.features.photographs import FLOOR, crops, typical_maps
from workloads.features.pixels import COLOUR, GREY, IMAGENET
from workloads.features.scattered import GROUPS, Scattered, transform
from workloads.features.scattering import Scattering, gabor, morlet

KYMATIO = {
    (0, 3, 3): 0.229218,
    (0, 0, 6): 0.285877,
    (4, 3, 3): 0.214080,
    (8, 3, 3): 0.463927,
    (3, 6, 0): 0.159155,
    (12, 2, 5): 0.460928,
    (16, 1, 1): 0.226536,
    (17, 0, 0): 0.016031,
    (30, 6, 6): 0.003824,
    (52, 0, 3): 0.012360,
    (80, 6, 0): 0.019320,
}
"""Channel, row, column of its features of a picture below."""


def pictures(count: int, planes: int, side: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(256, size=(count, planes, side, side), dtype=np.uint8)


def by_definition(image: NDArray[np.float64]) -> NDArray[np.float64]:
    """|x * psi| * phi and ||x * psi| * psi'| * phi, as sums over pixels of the padded image on a torus."""
    padded = np.pad(image, 4, mode="reflect")
    side = len(padded)

    def convolved(
        x: NDArray[np.float64], kernel: NDArray[np.complex128], stride: int
    ) -> NDArray[np.complex128]:
        shifts = (np.arange(0, side, stride)[:, None] - np.arange(side)) % side
        turned = kernel[shifts[:, None, :, None], shifts[None, :, None, :]]
        made: NDArray[np.complex128] = np.einsum("ijkl,kl->ij", turned, x)
        return made

    def smooth(x: NDArray[np.float64]) -> NDArray[np.float64]:
        low = gabor(side, 1.6, 0.0, 0.0, 1.0)
        return convolved(x, low, 4).real[1:-1, 1:-1]

    fine = [np.abs(convolved(padded, morlet(side, 0, angle), 1)) for angle in range(8)]
    return np.stack([smooth(padded), *map(smooth, fine)])


def test_smoothing_and_first_order_follow_the_definition() -> None:
    image = np.random.default_rng(1).random((8, 8))
    found = Scattering(8)(torch.from_numpy(image)[None])[0]
    assert found.shape == (81, 2, 2)
    np.testing.assert_allclose(found[:9].numpy(), by_definition(image), atol=1e-6)


def test_a_constant_image_has_no_waves() -> None:
    found = Scattering(28)(torch.full((1, 28, 28), 0.7))[0]
    # The low-pass keeps the mean but for the digits of pi in its norm.
    torch.testing.assert_close(found[0], torch.full((7, 7), 0.7), atol=1e-4, rtol=0)
    assert found[1:].abs().max() < 1e-6


def test_an_image_as_large_twice_has_features_as_large_twice() -> None:
    image = torch.from_numpy(pictures(1, 1, 32)[0]).float()
    torch.testing.assert_close(Scattering(32)(2 * image), 2 * Scattering(32)(image))


@pytest.mark.parametrize("side", [28, 32])
def test_kymatio_gives_the_same(side: int) -> None:
    transform = kymatio(side)
    images = torch.from_numpy(pictures(6, 1, side)[:, 0]).float() / 255
    expected = transform(images)
    found = Scattering(side)(images)
    assert found.shape == expected.shape == (6, 81, side // 4, side // 4)
    assert (found - expected).abs().max() < 1e-5


def kymatio(side: int) -> Callable[[Tensor], Tensor]:
    """Its 2-D transform on torch; without its top module, which fails with current SciPy."""
    spec = importlib.util.find_spec("kymatio")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("kymatio is not installed: nothing to compare with")
    package = types.ModuleType("kymatio")
    package.__path__ = list(spec.submodule_search_locations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "kymatio", package)
        from kymatio.scattering2d.frontend.torch_frontend import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
            ScatteringTorch2D,
        )

        made: Callable[[Tensor], Tensor] = ScatteringTorch2D(J=2, shape=(side, side), L=8)
    return made


def test_numbers_of_kymatio_written_down() -> None:
    """For where it is not installed: cos(row) + sin(2 column) on 28 x 28, by kymatio 0.3.0."""
    row, column = torch.meshgrid(torch.arange(28.0), torch.arange(28.0), indexing="ij")
    found = Scattering(28)((row.cos() + (2 * column).sin())[None])[0]
    for (channel, down, right), value in KYMATIO.items():
        assert float(found[channel, down, right]) == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize("side", [0, 4, 30])
def test_another_side_is_reported(side: int) -> None:
    with pytest.raises(ValueError, match=f"a multiple of 4 and at least 8, got {side}"):
        Scattering(side)


def test_features_are_normalised_in_groups_of_the_image_itself() -> None:
    features = transform(pictures(3, 3, 32), IMAGENET, "gn27")
    assert features.dtype == np.float16
    assert features.shape == (3, 243, 8, 8)
    groups = features.astype(np.float64).reshape(3, GROUPS, -1)
    np.testing.assert_allclose(groups.mean(axis=2), 0, atol=2e-3)
    assert (groups.std(axis=2) < 1.01).all()


@pytest.mark.slow
def test_features_depend_on_no_other_image() -> None:
    """Otherwise they would cost privacy. 1,300 images are more than one chunk."""
    images = np.tile(pictures(13, 1, 28), (100, 1, 1, 1))
    together = transform(images, GREY, "gn27")
    alone = transform(images[5:6], GREY, "gn27")[0]
    for copy in (5, 18, 1292):
        np.testing.assert_allclose(together[copy], alone, atol=2e-3)


@pytest.mark.slow
def test_photographs_are_normalised_to_mean_0_and_deviation_at_most_1() -> None:
    """On the photographs themselves; no other image is used. Maps that hardly vary there stay small."""
    features = transform(crops(32), IMAGENET, "photographs").astype(np.float64)
    np.testing.assert_allclose(features.mean(axis=(0, 2, 3)), 0, atol=2e-3)
    spread = features.std(axis=(0, 2, 3))
    assert spread.max() == pytest.approx(1, abs=2e-3)
    _, deviation = typical_maps(32, IMAGENET)
    plain = np.sqrt(deviation.flatten().numpy().astype(np.float64) ** 2 - FLOOR)
    np.testing.assert_allclose(spread, plain / np.sqrt(plain**2 + FLOOR), atol=2e-3)


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    transform(pictures(2, 1, 8), GREY, "gn27")
    assert torch.get_num_threads() == before


def test_every_constant_is_in_the_version() -> None:
    made = [Scattered(GREY, "gn27"), Scattered(COLOUR, "gn27"), Scattered(COLOUR, "photographs")]
    assert len({encoder.version for encoder in made}) == 3
    assert all(encoder.missing() is None for encoder in made)


def test_pixels_are_scaled_by_constants() -> None:
    white = np.full((1, 3, 2, 2), 255, np.uint8)
    expected = [(1 - 0.485) / 0.229, (1 - 0.456) / 0.224, (1 - 0.406) / 0.225]
    assert IMAGENET(white)[0, :, 0, 0].tolist() == pytest.approx(expected)
    assert torch.equal(COLOUR(white), torch.ones(1, 3, 2, 2))
    assert math.isclose(float(GREY(np.full((1, 1, 1, 1), 51, np.uint8))), 0.2, rel_tol=1e-6)
