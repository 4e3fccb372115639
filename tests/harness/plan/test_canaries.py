"""Canaries: who they are, whose coin decides, and that nothing else changes."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad

import workloads
from harness.jobs.train import membership, per_example_loss
from harness.plan.canaries import KINDS, MARK, Marked, arm, coins, refusals
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.spec import Cell, Plugin, Task, read_task
from workloads.base import Workload
from workloads.errors import SpecError

COUNT = 40


@pytest.fixture(scope="module")
def digits() -> Workload:
    return workloads.family.get("digits-linear")


def cell(kind: str | None, method: str = "sgd", count: int = COUNT) -> Cell:
    head = (Plugin("digits-linear", "1"), 718, Plugin(method, "1"), {"steps": 5}, 0)
    return Cell(*head, kind, count if kind else 0)


every_kind = pytest.mark.parametrize("kind", KINDS)


def test_a_cell_without_canaries_has_the_key_it_always_had() -> None:
    plain = cell(None)
    assert "canary" not in plain.spec() and "canaries" not in plain.spec()
    task = Task("train", cell("gradient"))
    assert read_task(task.file()) == task
    assert len({cell(kind).key for kind in (None, *KINDS)}) == 1 + len(KINDS)


@every_kind
def test_members_are_the_same_people_with_and_without_canaries(digits: Workload, kind: str) -> None:
    own = membership(Task("train", cell(kind), index=3), len(digits.pool()))
    assert torch.equal(own, membership(Task("train", cell(None), index=3), len(digits.pool())))
    armed = arm(digits, cell(kind))
    mask = torch.cat([own, coins(cell(kind), 3)])
    members = armed.members(mask)
    assert torch.equal(members.x[:718], digits.pool().x[own])
    assert len(members) == 718 + armed.copies * int(coins(cell(kind), 3).sum())
    assert len(armed.asked) == len(digits.pool()) + COUNT == len(mask)


@every_kind
def test_all_methods_are_tried_with_the_same_canaries_and_coins(digits: Workload, kind: str) -> None:
    one, other = (arm(digits, cell(kind, method)) for method in ("sgd", "dp-sgd"))
    assert torch.equal(one.canaries.x, other.canaries.x) and torch.equal(one.canaries.y, other.canaries.y)
    assert torch.equal(coins(cell(kind), 0), coins(cell(kind, "dp-sgd"), 0))
    assert not torch.equal(coins(cell(kind), 0), coins(cell(kind), 1))


def test_coins_are_fair_and_independent() -> None:
    tossed = torch.stack([coins(cell("mislabelled", count=50), index) for index in range(400)]).double()
    assert abs(float(tossed.mean()) - 0.5) < 4.5 * 0.5 / 20_000**0.5
    assert float(torch.corrcoef(tossed.T).fill_diagonal_(0).abs().max()) < 5 / 400**0.5


def test_mislabelled_records_leave_the_test_set(digits: Workload) -> None:
    armed = arm(digits, cell("mislabelled"))
    test = digits.test()
    assert len(armed.test) == len(test) - COUNT
    for x, y in zip(armed.canaries.x, armed.canaries.y, strict=True):
        rows = (test.x == x).flatten(1).all(1)
        assert rows.any() and int(y) not in test.y[rows].tolist()
        assert not (armed.test.x == x).flatten(1).all(1).any() or int(rows.sum()) > 1


def test_near_duplicates_are_in_or_out_together(digits: Workload) -> None:
    armed = arm(digits, cell("near-duplicate"))
    assert armed.copies == 2 and armed.count == COUNT
    first, twin = armed.canaries.x[::2], armed.canaries.x[1::2]
    assert torch.equal(armed.canaries.y[::2], armed.canaries.y[1::2])
    distance = (first - twin).flatten(1).norm(dim=1)
    between = torch.cdist(first.flatten(1), first.flatten(1)).fill_diagonal_(torch.inf).amin(1)
    assert (distance > 0).all() and (distance < between / 5).all()
    mask = torch.zeros(len(armed.asked), dtype=torch.bool)
    mask[len(armed.pool) + 7] = True
    assert torch.equal(armed.members(mask).x, torch.stack([first[7], twin[7]]))


def test_a_gradient_canary_moves_its_own_weights_and_nobody_else_does(digits: Workload) -> None:
    armed = arm(digits, cell("gradient"))
    model = armed.model(0)
    assert isinstance(model, Marked)
    with torch.no_grad():  # somewhere in a training
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)), alpha=0.01)
    people = armed.pool.take(torch.arange(5))
    torch.testing.assert_close(model(people.x), model.base(people.x))
    for row in (0, COUNT - 1):
        gradient = gradient_of(model, armed.canaries.x[row], armed.canaries.y[row])
        column = gradient["marks.weight"][:, row]
        total = sum(float(each.square().sum()) for each in gradient.values())
        assert float(column.norm()) > 5 and total == pytest.approx(float(column.square().sum()))
    ordinary = gradient_of(model, people.x[0], people.y[0])
    assert float(ordinary["marks.weight"].abs().max()) == 0
    assert (
        float(ordinary["base.1.weight" if "base.1.weight" in ordinary else next(iter(ordinary))].norm()) > 0
    )


def gradient_of(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    def loss(weights: dict[str, Tensor]) -> Tensor:
        return per_example_loss(functional_call(model, weights, (x[None],)), y[None]).sum()

    found: dict[str, Tensor] = grad(loss)({name: each.detach() for name, each in model.named_parameters()})
    return found


def test_marks_are_beyond_all_data(digits: Workload) -> None:
    assert float(digits.pool().x.abs().max()) < MARK
    numbers = arm(digits, cell("gradient")).canaries.x.flatten(1)[:, 0] - MARK
    assert numbers.tolist() == list(range(COUNT))


@pytest.mark.parametrize(
    ("kind", "count", "words"),
    [
        ("grad", 5, "canary = 'grad': give one of mislabelled"),
        ("gradient", None, "canaries = None: give their number"),
        ("gradient", 0, "canaries = 0: give their number"),
        ("gradient", True, "canaries = True"),
        ("gradient", 10**12, "canaries = 1000000000000: give their number, 1 to 1,000,000"),
        ({}, 5, "canary = {}: give one of"),
        (None, 5, "canary = None"),
        ("mislabelled", 100_000, "made of test records, and digits-linear has 360; give at most 180"),
    ],
)
def test_wrong_canaries_are_refused(digits: Workload, kind: object, count: object, words: str) -> None:
    assert any(words in each for each in refusals(digits, kind, count))
    assert refusals(digits, None, None) == []


def test_an_audit_needs_canaries_in_some_grid() -> None:
    grid = {"workload": "digits-linear", "method": "sgd"}
    sweep, problems = read_sweep({"attacks": ["audit-one-run"], "models": 2, "grid": [grid]}, "audit")
    with pytest.raises(SpecError, match='audit-one-run needs canaries: give canary = "gradient"'):
        make_plan(sweep, problems, None)
    both = [grid, {**grid, "canary": "gradient", "canaries": 9}]
    sweep, problems = read_sweep({"attacks": ["audit-one-run"], "models": 2, "grid": both}, "audit")
    plan = make_plan(sweep, problems, None)
    audits = [task for task in plan.tasks if task.attack and task.attack.name == "audit-one-run"]
    assert [task.cell.canary for task in audits] == ["gradient"]
