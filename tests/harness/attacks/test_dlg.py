"""Pictures and labels are reconstructed exactly from exact gradients."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.attacks import dlg
from harness.attacks.dlg import DlgParams, attack
from harness.attacks.parts.inversion import Intercepted, Reconstructions
from harness.attacks.parts.lbfgs import minimise
from harness.attacks.parts.picture_metrics import compare
from workloads.base import Records


def rebuild(seen: Intercepted, seed: int = 0, **params: Any) -> Reconstructions:
    return attack.rebuild(seen, DlgParams(**params), torch.Generator().manual_seed(seed))


def errors(found: Reconstructions, victims: Records, seen: Intercepted) -> list[float]:
    pixels = seen.pixels
    errors: list[float] = compare(
        pixels.unit(victims.x), pixels.unit(found.x), torch.ones(3, 1, 1)
    ).mse.tolist()
    return errors


@pytest.mark.slow
@pytest.mark.parametrize("label", ["searched", "idlg", "known"])
def test_pictures_and_labels_come_back(intercepted: Intercepted, victims: Records, label: str) -> None:
    seen = replace(intercepted, labels=victims.y if label == "known" else None)
    found = rebuild(seen, steps=100, label=label)
    assert found.labels.tolist() == victims.y.tolist()
    assert max(errors(found, victims, intercepted)) < 1e-3


def test_noise_gives_nothing(mere_noise: Intercepted, victims: Records) -> None:
    found = rebuild(mere_noise, steps=100)
    assert found.x.isfinite().all()
    assert min(errors(found, victims, mere_noise)) > 0.02


@pytest.mark.slow
def test_the_length_of_a_gradient_matters(intercepted: Intercepted, victims: Records) -> None:
    scaled = replace(intercepted, gradients=[3 * each for each in intercepted.gradients])
    assert min(errors(rebuild(scaled, steps=100), victims, intercepted)) > 1e-3


@pytest.mark.parametrize(("ceiling", "searches"), [(0.0, 4), (1e3, 1)])
def test_a_diverged_search_is_repeated_and_the_best_is_kept(
    intercepted: Intercepted, monkeypatch: pytest.MonkeyPatch, ceiling: float, searches: int
) -> None:
    found: list[tuple[Tensor, Tensor]] = []

    def overheard(*asked: Any) -> tuple[Tensor, Tensor]:
        found.append(minimise(*asked))
        return found[-1]

    monkeypatch.setattr(dlg, "DIVERGED", ceiling)
    monkeypatch.setattr(dlg, "minimise", overheard)
    kept = rebuild(intercepted, steps=1, restarts=4)
    assert len(found) == searches
    points, distances = (torch.stack(each) for each in zip(*found, strict=True))
    best = points[distances.argmin(0), torch.arange(len(kept.x))][:, : kept.x[0].numel()]
    pixels = intercepted.pixels
    wanted = pixels.original(best.view_as(kept.x)).clamp(pixels.low, pixels.high)
    torch.testing.assert_close(kept.x, wanted, rtol=0, atol=0)


def test_pixels_stay_in_their_range(intercepted: Intercepted) -> None:
    found = rebuild(intercepted, steps=2)
    assert (found.x >= intercepted.pixels.low).all() and (found.x <= intercepted.pixels.high).all()


def test_the_same_seed_gives_the_same_bits(intercepted: Intercepted) -> None:
    first, again, other = (rebuild(intercepted, seed, steps=3).x for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
