"""Frozen networks as encoders: features depend on one record only, with verified weights."""

import sys
import types
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from workloads.errors import BenchError
from workloads.features.bank import Encode, Encoder
from workloads.features.clip import MODEL, WEIGHTS, ClipImages
from workloads.features.effnet import EfficientNetLite0, Pooled
from workloads.features.frozen import lacking, through, trusted
from workloads.features.minilm import MiniLm

REVIEWS = [
    "A wonderful film!<br /><br />I loved every minute of it.",
    "Dull, slow and far too long. Avoid.",
    " ".join(["word"] * 200),
]


def pictures(count: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(256, size=(count, 3, 32, 32), dtype=np.uint8)


def as_arrays(reviews: list[str]) -> dict[str, Any]:
    texts = [review.encode() for review in reviews]
    return {
        "train_text": np.frombuffer(b"".join(texts), np.uint8),
        "train_ends": np.cumsum([len(text) for text in texts]),
    }


def opened(encoder: Encoder) -> Encode:
    if reason := encoder.missing():
        pytest.skip(reason)
    return encoder.open()


def test_packages_that_are_absent_are_named_with_the_extra() -> None:
    assert lacking(("torch", "json"), "features") is None
    reason = lacking(("torch", "no_such_package", "nor_this"), "features")
    assert reason == "it needs no_such_package and nor_this: run `pip install 'privbench[features]'`"


def test_other_weights_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"abc")
    right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert trusted(file, right) == file
    with pytest.raises(BenchError) as caught:
        trusted(file, "0" * 64)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == (str(file), right, "0" * 64)


def test_a_pass_is_one_row_a_record_without_dropout() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Dropout(0.5)).train()
    batches = torch.split(torch.arange(10.0).view(5, 1, 2), 2)
    found = through(network, batches)
    assert found.dtype == np.float16
    assert found.tolist() == torch.arange(10.0).view(5, 2).tolist()


class Corner(nn.Module):
    """Stands for a network: its maps are the image, so that what is pooled is known."""

    def extract_features(self, x: Tensor) -> Tensor:
        assert x.shape[2:] == (6, 6)
        return x


def test_maps_of_the_enlarged_image_are_averaged() -> None:
    images = torch.arange(3.0).view(1, 3, 1, 1).expand(2, 3, 2, 2)
    assert Pooled(Corner(), 6)(images).tolist() == [[0, 1, 2]] * 2


def test_reviews_are_read_as_far_as_imdb_lstm_reads_them() -> None:
    texts = MiniLm().inputs(as_arrays(REVIEWS), "train")
    assert texts[0] == "a wonderful film br br i loved every minute of it"
    assert texts[2] == " ".join(["word"] * 79)


def test_versions_contain_what_the_features_depend_on() -> None:
    assert EfficientNetLite0(96).version != EfficientNetLite0(128).version
    assert MiniLm(79).version != MiniLm(20).version
    assert WEIGHTS in ClipImages().version
    assert MODEL in ClipImages().version


@pytest.mark.slow
def test_efficientnet_looks_at_one_image_at_a_time() -> None:
    encode = opened(EfficientNetLite0())
    images = pictures(20)
    together, alone = encode(images), encode(images[17:18])
    assert together.shape == (20, 1280)
    assert together.dtype == np.float16
    np.testing.assert_allclose(together[17], alone[0], atol=2e-3)
    assert np.abs(together[17] - together[16]).max() > 0.1


@pytest.mark.slow
def test_minilm_looks_at_one_review_at_a_time() -> None:
    encode = opened(MiniLm())
    texts = MiniLm().inputs(as_arrays(REVIEWS), "train")
    together, alone = encode(texts), encode(texts[:1])
    assert together.shape == (3, 384)
    assert together.dtype == np.float16
    np.testing.assert_allclose(np.linalg.norm(together.astype(np.float64), axis=1), 384**0.5, rtol=1e-3)
    np.testing.assert_allclose(together[0], alone[0], atol=5e-3)
    # Of unit vectors the product is the cosine: praise is nearer to praise than to a list of words.
    praise = encode(["what a great movie i enjoyed it very much"]).astype(np.float64)[0]
    likeness = together.astype(np.float64) @ praise / 384
    assert likeness.argmax() == 0


class Tower(nn.Module):
    """Stands for OpenCLIP's image tower: pools, then projects unless the projection is taken away."""

    def __init__(self) -> None:
        super().__init__()
        self.proj: nn.Parameter | None = nn.Parameter(torch.ones(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        pooled = x.mean(dim=(2, 3))
        return pooled if self.proj is None else pooled @ self.proj


@pytest.fixture
def open_clip(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A package in the place of open_clip, which has no build for every torch: same call, small network."""

    def create(name: str, pretrained: str) -> tuple[nn.Module, None, Any]:
        assert (name, pretrained) == (MODEL, WEIGHTS)
        model = nn.Module()
        model.visual = Tower()
        return model, None, lambda picture: torch.from_numpy(np.array(picture)).permute(2, 0, 1) / 255

    package = types.ModuleType("open_clip")
    package.create_model_and_transforms = create  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "open_clip", package)
    monkeypatch.setattr("workloads.features.clip.lacking", lambda packages, extra: None)
    yield package


def test_clip_gives_what_it_knows_before_the_projection(open_clip: types.ModuleType) -> None:
    encoder = ClipImages()
    assert encoder.missing() is None
    images = pictures(70)
    found = encoder.open()(encoder.inputs({"train_x": images}, "train"))
    np.testing.assert_allclose(found, images.mean(axis=(2, 3)) / 255, atol=1e-3)


def test_clip_without_its_weights_states_so(open_clip: types.ModuleType) -> None:
    def create(name: str, pretrained: str) -> None:
        raise RuntimeError("no network")

    open_clip.create_model_and_transforms = create  # type: ignore[attr-defined]
    with pytest.raises(BenchError, match=f"cannot get the weights {WEIGHTS} of ViT-B-16: no network"):
        ClipImages().open()


def test_clip_that_is_not_here_states_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.features.frozen.find_spec", lambda name: None)
    assert ClipImages().missing() == "it needs open_clip: run `pip install 'privbench[vit]'`"


def test_clip_that_does_not_fit_torch_states_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_spec("open_clip") is None or "open_clip" not in sys.modules
    monkeypatch.setattr("workloads.features.clip.lacking", lambda packages, extra: None)
    monkeypatch.setitem(sys.modules, "open_clip", None)  # importing it fails
    assert "install a torchvision that fits your torch" in (ClipImages().missing() or "")
