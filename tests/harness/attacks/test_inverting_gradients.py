"""Pictures are reconstructed from their gradients, and not from noise."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.attacks.inverting_gradients import InvertingGradientsParams, attack, by_lbfgs
from harness.attacks.parts import inversion
from harness.attacks.parts.inversion import Intercepted, Reconstructions, cosine_distance, record_gradients
from harness.attacks.parts.picture_metrics import compare
from workloads.base import Records


def rebuild(seen: Intercepted, seed: int = 0, **params: Any) -> Reconstructions:
    stream = torch.Generator().manual_seed(seed)
    return attack.rebuild(seen, InvertingGradientsParams(**params), stream)


def beaten(found: Reconstructions, victims: Records, seen: Intercepted) -> int:
    """The number of pictures closer to the original than its mean colour."""
    likeness = compare(seen.pixels.unit(victims.x), seen.pixels.unit(found.x), torch.ones(3, 1, 1))
    return int((likeness.mse < likeness.mse_mean_colour).sum())


def distances(found: Reconstructions, seen: Intercepted) -> Tensor:
    return cosine_distance(record_gradients(seen.model)(found.x, found.labels), seen.gradients)


LBFGS: dict[str, Any] = {"optimizer": "lbfgs", "steps": 60}
ADAM: dict[str, Any] = {"optimizer": "adam", "steps": 200, "tv": 0.1, "learning_rate": 0.3}

either = pytest.mark.parametrize("search", [LBFGS, ADAM], ids=["lbfgs", "adam"])


@pytest.mark.slow
@either
def test_pictures_and_labels_come_back(
    intercepted: Intercepted, victims: Records, search: dict[str, Any]
) -> None:
    found = rebuild(intercepted, label="idlg", **search)
    assert found.labels.tolist() == victims.y.tolist()
    assert beaten(found, victims, intercepted) == len(victims)


def test_the_length_of_a_gradient_hides_nothing(intercepted: Intercepted, victims: Records) -> None:
    scaled = replace(intercepted, gradients=[1e-3 * each for each in intercepted.gradients])
    assert beaten(rebuild(scaled, **LBFGS), victims, intercepted) == len(victims)


@pytest.mark.slow
@either
def test_noise_gives_nothing(mere_noise: Intercepted, victims: Records, search: dict[str, Any]) -> None:
    assert beaten(rebuild(mere_noise, **search), victims, mere_noise) == 0


@pytest.mark.parametrize("search", [{"steps": 3}, {"optimizer": "adam", "steps": 3, "learning_rate": 5.0}])
def test_pixels_stay_in_their_range(intercepted: Intercepted, search: dict[str, Any]) -> None:
    found = rebuild(intercepted, **search)
    assert (found.x >= intercepted.pixels.low - 1e-6).all()
    assert (found.x <= intercepted.pixels.high + 1e-6).all()


def test_a_search_that_runs_out_of_all_numbers_gives_the_mean_picture() -> None:
    def cliff(z: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ones(len(z)), torch.full_like(z, torch.inf)

    found = by_lbfgs(cliff, torch.ones(2, 3, 4, 4), lambda z: z, InvertingGradientsParams(steps=3))
    assert found.tolist() == torch.zeros(2, 3, 4, 4).tolist()


def test_smoothness_counts(intercepted: Intercepted) -> None:
    rough, smooth = (rebuild(intercepted, optimizer="adam", steps=30, tv=tv) for tv in (0.0, 10.0))
    assert (inversion.total_variation(smooth.x) < inversion.total_variation(rough.x)).all()


def test_of_several_searches_the_best_match_is_kept(intercepted: Intercepted) -> None:
    once: dict[str, Any] = {"optimizer": "adam", "steps": 10, "signed": False}
    kept = distances(rebuild(intercepted, restarts=3, **once), intercepted)
    stream = torch.Generator().manual_seed(0)  # the three one after the other, from the same noise
    params = InvertingGradientsParams(**once)
    each = [distances(attack.rebuild(intercepted, params, stream), intercepted) for _ in range(3)]
    torch.testing.assert_close(kept, torch.stack(each).amin(0), rtol=1e-3, atol=1e-5)


def test_pictures_in_one_graph_do_not_touch_each_other(
    intercepted: Intercepted, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Signs would turn the last bit of a sum into a whole step.
    search: dict[str, Any] = {"optimizer": "adam", "steps": 10, "signed": False}
    together = rebuild(intercepted, **search)
    monkeypatch.setattr(inversion, "HELD_AT_ONCE", 1)
    assert inversion.together(intercepted.gradients) == 1
    torch.testing.assert_close(rebuild(intercepted, **search).x, together.x, rtol=1e-2, atol=1e-2)


def test_the_same_seed_gives_the_same_bits(intercepted: Intercepted) -> None:
    first, again, other = (rebuild(intercepted, seed, steps=3).x for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_a_known_label_is_taken_as_it_is(intercepted: Intercepted) -> None:
    known = replace(intercepted, labels=torch.tensor([3, 3, 3, 3, 3, 3]))
    assert rebuild(known, steps=1).labels.tolist() == [3] * 6
