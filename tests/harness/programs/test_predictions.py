"""Predictions as logits: what is understood, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from harness.leakage.scoring import rescaled_logit
from harness.programs.predictions import read_predictions, to_logits
from workloads.errors import DataError


def test_probabilities_become_their_logarithms() -> None:
    found = to_logits(np.array([[0.2, 0.8], [0.5, 0.5]]), 2, 2)
    assert np.allclose(np.exp(found), [[0.2, 0.8], [0.5, 0.5]])


def test_logits_stay_as_they_are() -> None:
    given = np.array([[-3.0, 2.0], [0.5, 0.25]], dtype=np.float32)
    assert np.array_equal(to_logits(given, 2, 2), given)


def test_a_zero_probability_is_what_attacks_take_it_for() -> None:
    chances = np.array([[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]])
    found = to_logits(chances, 2, 3)
    with np.errstate(divide="ignore"):
        plain = np.log(chances).astype(np.float32)
    labels = np.array([0, 0])
    assert np.isfinite(found).all()
    assert np.allclose(rescaled_logit(found[None], labels), rescaled_logit(plain[None], labels), rtol=1e-5)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_one_column_of_two_classes_is_that_of_class_1(shape: tuple[int, ...]) -> None:
    chances = to_logits(np.array([0.1, 0.9, 0.5]).reshape(shape), 3, 2)
    assert np.allclose(np.exp(chances[:, 1]), [0.1, 0.9, 0.5])
    margins = to_logits(np.array([-2.0, 3.0, 0.5]).reshape(shape), 3, 2)
    assert np.allclose(margins, [[0.0, -2.0], [0.0, 3.0], [0.0, 0.5]])


@pytest.mark.parametrize(
    ("given", "value", "allowed"),
    [
        (np.zeros((3, 2)), (3, 2), (4, 2)),
        (np.zeros((4, 3)), (4, 3), (4, 2)),
        (np.zeros((4, 2, 1)), (4, 2, 1), (4, 2)),
        (np.array([[0.5, 0.5], [0.5, 0.5], [0.1, 0.2], [1, 0]]), 0.1 + 0.2, 1.0),
        (np.array([[0.5, 0.5], [np.nan, 0.5], [np.inf, 0], [1, 0]]), 2, 0),
        (np.array([["a", "b"]] * 4), "<U1", "numbers"),
    ],
)
def test_predictions_that_are_none(given: ArrayLike, value: object, allowed: object) -> None:
    with pytest.raises(DataError) as refused:
        to_logits(np.asarray(given), 4, 2)
    assert (refused.value.field, refused.value.value, refused.value.allowed) == (
        "predictions",
        value,
        allowed,
    )


def test_every_format_gives_the_same(tmp_path: Path) -> None:
    wanted = np.array([[0.1, 0.9], [1e-9, 1 - 1e-9]])
    np.save(tmp_path / "a.npy", wanted)
    np.savez(tmp_path / "a.npz", whatever=wanted)
    (tmp_path / "plain.csv").write_text("0.1,0.9\n1e-9,0.999999999\n")
    (tmp_path / "headed.csv").write_text("no,yes\n0.1,0.9\n1e-9,0.999999999\n")
    for name in ("a.npy", "a.npz", "plain.csv", "headed.csv"):
        assert np.array_equal(read_predictions(tmp_path / name), wanted), name


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04", b"\x93NUMPY", b"a,b\nc,d\n"])
def test_a_file_without_predictions(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "predictions"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DataError) as refused:
        read_predictions(file)
    assert refused.value.field == "predictions"


def test_pickles_are_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError) as refused:
        read_predictions(tmp_path / "a.npy")
    assert refused.value.field == "predictions"
