"""Models of every kind are called, attacked, and left as they were."""

from typing import Any

import numpy as np
import pandas
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from harness.audit.door import audit
from harness.audit.leakage_audit import LeakageAudit
from workloads.errors import DataError, UnknownName

FEW = ["loss", "population"]


@pytest.fixture(scope="module")
def digits() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    members, others = order[:400], order[400:800]
    return images[members] / 16, labels[members], images[others] / 16, labels[others]


@pytest.fixture(scope="module")
def net(digits: Any) -> nn.Sequential:
    """Overfitted, with dropout, and in training mode but for one frozen part."""
    x, y = torch.tensor(digits[0], dtype=torch.float32), torch.tensor(digits[1])
    torch.manual_seed(0)
    parts = [nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.3), nn.Linear(96, 10)]
    model = nn.Sequential(*parts)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(150):
        optimiser.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(model(x), y))
        optimiser.step()
    model[0].eval()
    return model


def tensors(digits: Any) -> list[tuple[Tensor, Tensor]]:
    x, y, x0, y0 = digits
    return [(torch.tensor(a, dtype=torch.float32), torch.tensor(b)) for a, b in ((x, y), (x0, y0))]


def figures(found: LeakageAudit) -> dict[str, float | None]:
    return {each.attack: each.metrics.auc for each in found.attacks}


def test_a_module_is_audited_in_evaluation_mode_and_left_in_its_own(net: nn.Sequential, digits: Any) -> None:
    members, others = tensors(digits)
    before = [part.training for part in net.modules()]
    weights = [each.clone() for each in net.parameters()]
    found = audit(net, members, others)
    assert [part.training for part in net.modules()] == before
    assert all(torch.equal(*pair) for pair in zip(weights, net.parameters(), strict=True))
    assert any("training mode" in text for text in found.warnings)
    assert not any("called again" in text for text in found.warnings)
    assert set(figures(found)) == {"loss", "population", "label-only", "white-box"}
    assert found.rung == "model"
    assert found.data.member_accuracy == 1.0
    with torch.no_grad():
        kept = nn.Sequential(*net).eval()
        outputs = [{"logits": kept(x).numpy(), "labels": y.numpy()} for x, y in (members, others)]
    net.train()
    net[0].eval()
    assert figures(audit(members=outputs[0], others=outputs[1], attacks=FEW)) == pytest.approx(
        {name: figures(found)[name] for name in FEW}
    )


def test_a_failed_call_leaves_the_mode_too(net: nn.Sequential, digits: Any) -> None:
    before = [part.training for part in net.modules()]
    members, _ = tensors(digits)
    with pytest.raises(RuntimeError):
        audit(net, members, (members[0][:, :3], members[1]))
    assert [part.training for part in net.modules()] == before


def test_batches_and_containers_do_not_matter(net: nn.Sequential, digits: Any) -> None:
    members, others = tensors(digits)
    first = figures(audit(net, members, others, attacks=["loss"]))
    sets = [TensorDataset(*each) for each in (members, others)]
    loaders = [DataLoader(each, batch_size=7) for each in sets]
    arrays = [(x.numpy(), y.numpy()) for x, y in (members, others)]
    for pair in (sets, loaders, arrays):
        assert figures(audit(net, *pair, attacks=["loss"], batch_size=33)) == pytest.approx(first, abs=1e-3)


def test_a_callable_may_return_probabilities_or_logits(net: nn.Sequential, digits: Any) -> None:
    members, others = tensors(digits)
    kept = nn.Sequential(*net).eval()
    chances = audit(lambda x: kept(x).double().softmax(1), members, others, attacks=["loss"])
    logits = audit(lambda x: kept(x).double(), members, others, attacks=["loss"], signal="logits")
    assert (chances.data.signal, logits.data.signal) == ("probabilities", "logits")
    assert figures(chances) == pytest.approx(figures(logits), abs=1e-6)
    with pytest.raises(DataError) as caught:
        audit(lambda x: kept(x).sigmoid(), members, others, signal="probabilities")
    assert caught.value.field == "probabilities"


def test_a_random_model_is_said(net: nn.Sequential, digits: Any) -> None:
    members, others = tensors(digits)
    found = audit(lambda x: torch.randn(len(x), 10), members, others, signal="logits", attacks=["loss"])
    assert any("called again" in text for text in found.warnings)


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(max_iter=5000), HistGradientBoostingClassifier(max_iter=20)]
)
def test_estimators_with_their_own_labels(estimator: Any, digits: Any) -> None:
    x, y, x0, y0 = digits
    names = np.array(list("zyxwvutsrq"))
    estimator.fit(x, names[y])
    found = audit(estimator, (x, names[y]), (x0, names[y0]), attacks=["loss"])
    assert found.data.member_accuracy == pytest.approx(estimator.score(x, names[y]))
    assert found.data.other_accuracy == pytest.approx(estimator.score(x0, names[y0]))
    with pytest.raises(DataError) as caught:
        audit(estimator, (x, names[y]), (x0, np.full(400, "?")))
    assert (caught.value.field, caught.value.value) == ("labels", "?")


@pytest.mark.slow
def test_labels_of_a_frame_are_attacked(digits: Any) -> None:
    x, y, x0, y0 = digits
    names = [f"pixel_{place}" for place in range(64)]
    frames = [pandas.DataFrame(each, columns=names) for each in (x, x0)]
    estimator = LogisticRegression(C=1e4, max_iter=5000).fit(frames[0], y)
    found = audit(estimator, (frames[0], y), (frames[1], y0), attacks=["loss", "label-only"])
    assert found.skipped == []
    assert found.figures("label-only").note == "strategy noise, 100 queries a record"
    gap = (found.data.member_accuracy or 0) - (found.data.other_accuracy or 0)
    assert (figures(found)["label-only"] or 0) > 0.5 + gap / 4


def test_what_does_not_fit_is_skipped_with_its_reason(digits: Any) -> None:
    x, y, x0, y0 = digits
    words = [[str(value) for value in row] for row in x]
    other = [[str(value) for value in row] for row in x0]

    def guess(rows: Any) -> Any:
        return np.full((len(rows), 10), 0.1)

    found = audit(guess, (words, y), (other, y0))
    assert {each.attack for each in found.skipped} >= {"label-only", "white-box", "lira"}
    assert found.split.reads == "labels"


def test_only_a_query_may_be_asked_for(net: nn.Sequential, digits: Any) -> None:
    found = audit(net, *tensors(digits), attacks=["white-box"])
    assert (list(figures(found)), found.headline) == (["white-box"], "white-box")


def test_what_is_no_model_or_no_data_is_refused(digits: Any) -> None:
    x, y, x0, y0 = digits
    ridge = RidgeClassifier().fit(x, y)
    cases: list[tuple[Any, Any, str, Any]] = [
        (ridge, (x, y), "model", "RidgeClassifier"),
        (7, (x, y), "model", "int"),
        (lambda rows: rows, (x, y[:-1]), "labels", 399),
        (lambda rows: rows, 5, "members", "int"),
    ]
    for model, members, field, value in cases:
        with pytest.raises(DataError) as caught:
            audit(model, members, (x0, y0))
        assert (caught.value.field, caught.value.value) == (field, value)
    with pytest.raises(UnknownName) as unknown:
        audit(ridge, (x, y), (x0, y0), attacks=["lyra"])
    assert unknown.value.nearest == "lira"


def test_records_in_file_order_are_void(digits: Any) -> None:
    images, labels = load_digits(return_X_y=True)
    estimator = LogisticRegression(max_iter=5000).fit(images[:900], labels[:900])
    found = audit(estimator, (images[:900], labels[:900]), (images[900:], labels[900:]), attacks=["loss"])
    assert found.split.valid is False
    assert found.alarms == [found.split.message]
    assert found.worst == ()
    assert "nothing about leakage" in found.meaning
