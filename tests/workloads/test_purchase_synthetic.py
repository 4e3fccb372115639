"""The stand-in for Purchase-100: its shape, its difficulty and its name."""

import pytest
import torch
from torch.nn.functional import cross_entropy

import workloads
from workloads.data.purchase_like import PurchaseLike


@pytest.mark.slow
def test_shapes_and_sizes() -> None:
    workload = workloads.family.get("purchase100-synthetic")
    pool, test = workload.pool(), workload.test()
    assert (pool.x.shape, test.x.shape) == ((50_000, 600), (20_000, 600))
    assert set(pool.x[:1000].flatten().tolist()) == {0.0, 1.0}
    assert set(pool.y.tolist()) == set(range(100))
    assert (workload.classes, workload.n_train) == (100, 25_000)
    assert sum(weight.numel() for weight in workload.model(0).parameters()) == 60_100
    assert workload.about.startswith("not Purchase-100")


def test_streams_differ_and_seeds_decide() -> None:
    one, same, other = (PurchaseLike(3, 40, -2.0, 0.5, seed) for seed in (1, 1, 2))
    assert torch.equal(one.draw(50, 1).x, same.draw(50, 1).x)
    assert not torch.equal(one.draw(50, 1).x, one.draw(50, 2).x)
    assert not torch.equal(one.draw(50, 1).x, other.draw(50, 1).x)


def test_classes_without_tastes_of_their_own_are_alike() -> None:
    records = PurchaseLike(classes=2, features=300, popularity=-2.0, spread=0.0, seed=1).draw(20_000, 1)
    means = torch.stack([records.x[records.y == each].mean(dim=0) for each in (0, 1)])
    assert (means[0] - means[1]).abs().max() < 0.03


@pytest.mark.slow
def test_a_linear_model_reaches_what_is_published_and_overfits() -> None:
    """68 % with 25,000 members (PD-SGD), far from what it reaches on them."""
    workload = workloads.family.get("purchase100-synthetic")
    members, test = workload.pool().take(torch.arange(workload.n_train)), workload.test()
    model = workload.model(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(15):
        for rows in torch.split(torch.arange(len(members)), 1024):
            optimizer.zero_grad()
            torch.autograd.backward(cross_entropy(model(members.x[rows]), members.y[rows]))
            optimizer.step()
    with torch.no_grad():
        accuracy = [float((model(each.x).argmax(1) == each.y).float().mean()) for each in (test, members)]
    assert accuracy[0] == pytest.approx(0.68, abs=0.02)
    assert accuracy[1] > 0.9
