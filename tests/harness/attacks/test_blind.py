"""The blind check finds broken splits and leaves sound ones alone."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from harness.attacks.base import Bools, Evidence, Floats
from harness.attacks.blind import Blind, BlindParams
from harness.leakage import split_prediction
from harness.leakage.figures import blind_verdict, evaluate
from tests.harness.simulated import known
from workloads.base import Records

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


@pytest.fixture(scope="module")
def digits() -> tuple[Images, Labels]:
    images, labels = load_digits(return_X_y=True)
    return images[:1437].astype(np.float32), labels[:1437].astype(np.int64)


def evidence_of(features: Images, labels: Labels, members: Bools) -> Evidence:
    logits = np.zeros((*members.shape, int(labels.max()) + 1), dtype=np.float32)
    return Evidence(
        logits,
        labels,
        members,
        logits[:, :1],
        labels[:1],
        Records(torch.from_numpy(features), torch.from_numpy(labels)),
    )


def judge(features: Images, labels: Labels, members: Bools, seed: int = 0) -> tuple[bool, float]:
    scores = Blind().scores(evidence_of(features, labels, members), BlindParams(seed=seed))
    metrics = evaluate(scores, members, "alone")
    valid, message = blind_verdict(metrics)
    assert f"{metrics.auc:.3f}" in message
    return valid, known(metrics.auc)


def test_members_sorted_by_class_are_found(digits: tuple[Images, Labels]) -> None:
    images, labels = digits
    valid, auc = judge(images, labels, (labels < 5)[None].repeat(8, axis=0))
    assert not valid
    assert auc > 0.9


def test_members_in_file_order_are_found(digits: tuple[Images, Labels]) -> None:
    """The first and the second half of the digits have different writers."""
    images, labels = digits
    members = np.arange(len(labels))[None].repeat(8, axis=0) < 718
    assert not judge(images, labels, members)[0]


@pytest.mark.parametrize("models", [1, 8])
def test_a_shifted_feature_is_found(
    models: int, digits: tuple[Images, Labels], masks: Callable[..., Bools]
) -> None:
    images, labels = digits
    members = masks(np.random.default_rng(1), 1, len(labels), 718).repeat(models, axis=0)
    shifted = images.copy()
    shifted[members[0], 20] += 0.5 * images[:, 20].std()
    assert not judge(shifted, labels, members)[0]


def test_another_spread_is_found(digits: tuple[Images, Labels], masks: Callable[..., Bools]) -> None:
    images, labels = digits
    members = masks(np.random.default_rng(2), 1, len(labels), 718)
    scaled = images.copy()
    scaled[members[0]] = images.mean(axis=0) + 1.2 * (images[members[0]] - images.mean(axis=0))
    assert not judge(scaled, labels, members)[0]


def test_wide_features_are_reduced_and_still_found(masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(3)
    members = masks(random, 4, 600, 300)
    wide = random.standard_normal((600, 500), dtype=np.float32)
    labels = random.integers(0, 3, 600)
    assert judge(wide, labels, members)[0]
    assert split_prediction._describe(wide, labels, random).shape == (600, 2 * split_prediction.WIDTH + 3)
    faded = wide + 0.4 * members[0][:, None].astype(np.float32)
    assert not judge(faded, labels, members[[0]])[0]


@pytest.mark.slow
def test_sound_splits_are_left_alone(digits: tuple[Images, Labels], masks: Callable[..., Bools]) -> None:
    """Over 40 random splits the test statistic has mean 0 and deviation 1, as the verdict assumes.

    Cross-fitting by exchanged folds would have a deviation of about 1.4.
    """
    images, labels = digits
    random = np.random.default_rng(4)
    deviation = np.sqrt(1438 / (12 * 718 * 719) / 8)
    statistics = []
    for seed in range(40):
        valid, auc = judge(images, labels, masks(random, 8, len(labels), 718), seed)
        assert valid
        statistics.append((auc - 0.5) / deviation)
    assert abs(np.mean(statistics)) < 4 / np.sqrt(40)
    assert np.std(statistics) < 1.3


def test_no_score_depends_on_its_own_or_a_later_membership(
    digits: tuple[Images, Labels], masks: Callable[..., Bools]
) -> None:
    images, labels = digits
    members = masks(np.random.default_rng(5), 2, len(labels), 718)

    def scores(mask: Bools) -> Floats:
        return Blind().scores(evidence_of(images, labels, mask), BlindParams())

    before = scores(members)
    for record in range(0, 1437, 90):
        flipped = members.copy()
        flipped[0, record] ^= True
        after = scores(flipped)
        assert after[0, record] == before[0, record]
        np.testing.assert_array_equal(after[1], before[1])


def test_fewer_records_than_blocks_are_all_ties_or_ranks() -> None:
    members = np.array([[True, False, True]])
    labels = np.array([0, 1, 0])
    features = np.array([[1.0], [1.0], [1.0]], dtype=np.float32)
    scores = Blind().scores(evidence_of(features, labels, members), BlindParams())
    np.testing.assert_array_equal(scores, 0)
