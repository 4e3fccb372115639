"""The scattering transform of images, second order, two scales, eight angles: fixed features, nothing learnt.

Bruna and Mallat 2013, with the filters and the borders of kymatio (Andreux et al. 2020), matched to 1e-5.
Wavelets are applied as products of spectra. kymatio smooths, subsamples and crops every map by further
Fourier transforms; here that is one product with a precomputed matrix.
"""

import math
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

SCALES, ANGLES = 2, 8
STRIDE = 2**SCALES
CHANNELS = 1 + SCALES * ANGLES + ANGLES**2
"""81 maps for a grey image: the smoothed image, 16 of first order, 64 of second."""
PI = 3.1415
"""kymatio's value in the norm of a filter; with more digits features would differ by 3e-5."""


class Scattering:
    """Features of square images of one size, (B, side, side) to (B, 81, side / 4, side / 4) in float32.

    The maps come in kymatio's order: order 0, order 1 (scale, angle), order 2 (first angle, second angle).
    """

    def __init__(self, side: int) -> None:
        if side < 2 * STRIDE or side % STRIDE:
            raise ValueError(f"scattering needs a side that is a multiple of 4 and at least 8, got {side}")
        self.side, self.out = side, side // STRIDE
        padded = side + 2 * STRIDE
        wavelets = [
            [torch.from_numpy(spectrum(morlet(padded, scale, angle))).float() for angle in range(ANGLES)]
            for scale in range(SCALES)
        ]
        self._fine, self._coarse = (torch.stack(each) for each in wavelets)
        smooth = spectrum(gabor(padded, 0.8 * 2 ** (SCALES - 1), 0.0, 0.0, 1.0))
        self._smooth_full = smoothing(smooth, STRIDE)
        self._smooth_half = smoothing(halved(smooth), STRIDE // 2)

    def __call__(self, images: Tensor) -> Tensor:
        """The features of each image."""
        padded = pad(images.float()[:, None], (STRIDE,) * 4, mode="reflect")
        waves = torch.fft.fft2(padded)
        fine = torch.fft.ifft2(waves * self._fine).abs()
        coarse = torch.fft.ifft2(folded(waves * self._coarse)).abs()
        deep = torch.fft.ifft2(folded(torch.fft.fft2(fine)[:, :, None] * self._coarse)).abs()
        maps = [
            padded.flatten(2) @ self._smooth_full,
            fine.flatten(2) @ self._smooth_full,
            coarse.flatten(2) @ self._smooth_half,
            deep.flatten(1, 2).flatten(2) @ self._smooth_half,
        ]
        return torch.cat(maps, dim=1).view(len(images), CHANNELS, self.out, self.out)


@cache
def scattering(side: int) -> Scattering:
    """The transform of images of this side, its filters made once per process."""
    return Scattering(side)


def folded(waves: Tensor) -> Tensor:
    """The spectrum of every second pixel, both ways, from the spectrum of all."""
    half = waves.shape[-1] // 2
    rows = waves[..., :half, :] + waves[..., half:, :]
    return (rows[..., :half] + rows[..., half:]).mul_(0.25)


def smoothing(filtered: NDArray[np.float64], stride: int) -> Tensor:
    """(pixels, kept pixels): smooth, keep every stride-th pixel, crop one at each border."""
    side = len(filtered)
    units = np.eye(side * side).reshape(-1, side, side)
    smoothed = np.fft.ifft2(np.fft.fft2(units) * filtered).real
    kept = smoothed[:, ::stride, ::stride][:, 1:-1, 1:-1]
    return torch.from_numpy(kept.reshape(side * side, -1)).float()


def halved(filtered: NDArray[np.float64]) -> NDArray[np.float64]:
    """A filter for images of half the side: its low frequencies."""
    quarter = len(filtered) // 4
    kept = np.r_[:quarter, len(filtered) - quarter : len(filtered)]
    low: NDArray[np.float64] = filtered[np.ix_(kept, kept)]
    return low


def spectrum(kernel: NDArray[np.complex128]) -> NDArray[np.float64]:
    """The Fourier transform of a kernel with Hermitian symmetry, which is real."""
    return np.fft.fft2(kernel).real


def morlet(side: int, scale: int, angle: int) -> NDArray[np.complex128]:
    """A wavelet: a Gabor kernel minus its envelope, so that its mean is zero."""
    width, slant = 0.8 * 2**scale, 4 / ANGLES
    turn = (ANGLES // 2 - 1 - angle) * math.pi / ANGLES
    wave = gabor(side, width, turn, 0.75 * math.pi / 2**scale, slant)
    envelope = gabor(side, width, turn, 0.0, slant)
    wavelet: NDArray[np.complex128] = wave - wave.sum() / envelope.sum() * envelope
    return wavelet


def gabor(side: int, width: float, turn: float, frequency: float, slant: float) -> NDArray[np.complex128]:
    """A plane wave in the direction `turn` under a Gaussian 1 / slant times as wide across it, on a torus."""
    reach = np.arange(-2 * side, 3 * side)
    down, right = np.meshgrid(reach, reach, indexing="ij")
    along = down * math.cos(turn) + right * math.sin(turn)
    across = right * math.cos(turn) - down * math.sin(turn)
    gaussian = np.exp(-(along**2 + (slant * across) ** 2) / (2 * width**2))
    kernel = gaussian * np.exp(1j * frequency * along) / (2 * PI * width**2 / slant)
    # Periodic: wrap around at the borders.
    periodic: NDArray[np.complex128] = kernel.reshape(5, side, 5, side).sum(axis=(0, 2))
    return periodic
