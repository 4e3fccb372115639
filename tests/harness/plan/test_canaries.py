"""Canaries: their records, their coins, and that nothing else changes."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad

import methods
import workloads
from harness.jobs.setup import membership, per_example_loss
from harness.plan.canaries import KINDS, MARK, Marked, Request, cell_records, coins, join, refusals
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.spec import Cell, Plugin, Task, read_task
from methods.dpsgd_hf.dpsgd_hf import DpsgdHfParams, make_front
from workloads.base import Records, Workload
from workloads.errors import SpecError

COUNT = 40
SGD = methods.family.get("sgd")


@pytest.fixture(scope="module")
def digits() -> Workload:
    return workloads.family.get("digits-linear")


def cell(kind: str | None, method: str = "sgd", count: int = COUNT) -> Cell:
    head = (Plugin("digits-linear", "1"), 718, Plugin(method, "1"), {"steps": 5}, 0)
    return Cell(*head, kind, count, KINDS[kind].version) if kind else Cell(*head)


every_kind = pytest.mark.parametrize("kind", KINDS)


def test_a_cell_without_canaries_has_the_key_it_always_had() -> None:
    plain = cell(None)
    assert "canary" not in plain.spec() and "canaries" not in plain.spec()
    task = Task("train", cell("gradient"))
    assert read_task(task.file()) == task
    assert len({cell(kind).key for kind in (None, *KINDS)}) == 1 + len(KINDS)


def test_a_kind_of_canaries_has_a_version_that_older_keys_do_not_mention() -> None:
    for kind in ("mislabelled", "gradient"):
        assert "canary_version" not in cell(kind).spec()
    newer = cell("out-of-distribution")
    assert newer.spec()["canary_version"] == "2"
    assert read_task(Task("train", newer).file()).cell == newer
    assert newer.key != replace(newer, canary_version="1").key


def test_canaries_of_another_version_are_not_made(digits: Workload) -> None:
    with pytest.raises(SpecError) as raised:
        cell_records(digits, replace(cell("out-of-distribution"), canary_version="1"))
    assert (raised.value.field, raised.value.value, raised.value.allowed) == ("canary", "1", "2")


@pytest.mark.parametrize("kind", ["gradient", "out-of-distribution"])
def test_there_may_be_more_canaries_than_test_records(digits: Workload, kind: str) -> None:
    many = 2 * len(digits.test())
    assert refusals(digits, SGD, None, kind, many) == []
    records = cell_records(digits, cell(kind, count=many))
    assert records.count == many and len(records.test) == len(digits.test())
    mask = torch.cat([torch.zeros(len(records.pool), dtype=torch.bool), coins(cell(kind, count=many), 0)])
    members = records.members(mask)
    assert len(members) == int(mask.sum())
    assert torch.isfinite(records.model(0)(members.x)).all()


@pytest.mark.parametrize("count", [1, COUNT])
@every_kind
def test_no_canary_is_a_record(digits: Workload, kind: str, count: int) -> None:
    own = cell_records(digits, cell(kind, count=count))
    records = join(own.pool, digits.test())
    for x, y in zip(own.canaries.x, own.canaries.y, strict=True):
        same = (records.x == x).flatten(1).all(1) & (records.y == y)
        assert not same.any()


def test_random_features_span_the_ranges_of_all_test_records(digits: Workload) -> None:
    """With the ranges of a single record, a canary would be that record."""
    low, high = digits.test().x.amin(0), digits.test().x.amax(0)
    few, many = (
        cell_records(digits, cell("out-of-distribution", count=count)).canaries.x for count in (2, 2000)
    )
    for made in (few, many):
        assert (made >= low).all() and (made <= high).all()
    wide = high > low
    assert ((many.amax(0) - many.amin(0))[wide] > 0.98 * (high - low)[wide]).all()
    assert ((few.amax(0) - few.amin(0))[wide] > 0.05 * (high - low)[wide]).float().mean() > 0.8


def test_a_single_near_duplicate_differs_from_its_counterpart(digits: Workload) -> None:
    first, twin = cell_records(digits, cell("near-duplicate", count=1)).canaries.x
    spread = digits.test().x.std(dim=0, correction=0)
    moved = (first - twin).abs()
    assert (moved[spread > 0] > 0).all() and float((moved / spread.clamp(min=1e-9)).max()) < 0.06


def tokens(width: int, values: int) -> Records:
    stream = torch.Generator().manual_seed(0)
    return Records(torch.randint(values, (50, width), generator=stream), torch.arange(50) % 3)


def test_tokens_are_drawn_among_all_and_near_duplicates_differ_at_one_place() -> None:
    stream = torch.Generator().manual_seed(1)
    padded = Records(
        torch.cat([tokens(30, 500).x, torch.zeros(50, 70, dtype=torch.int64)], 1), tokens(1, 2).y
    )
    request = Request(padded, torch.arange(20), 20, 3, stream)
    pairs, copies = KINDS["near-duplicate"].make(request)
    assert copies == 2 and ((pairs.x[::2] != pairs.x[1::2]).sum(1) == 1).all()
    made, _ = KINDS["out-of-distribution"].make(request)
    assert made.x.dtype == torch.int64 and made.x.shape == (20, 100)
    assert int(made.x.min()) >= 0 and 400 < int(made.x.max()) < 500


@pytest.mark.parametrize(
    ("kind", "test", "words"),
    [
        ("out-of-distribution", tokens(5, 2), "too little entropy"),
        ("out-of-distribution", Records(torch.ones(9, 4), torch.zeros(9)), "too little entropy"),
        ("near-duplicate", Records(torch.ones(9, 4), torch.zeros(9)), "too little entropy"),
        (
            "gradient",
            Records(torch.ones(9, 4).half(), torch.zeros(9)),
            "32 bits or more, but the workload has",
        ),
    ],
)
def test_records_that_can_hold_no_canaries_are_refused_with_the_plan(
    digits: Workload, kind: str, test: Records, words: str
) -> None:
    class Narrow:
        def test(self) -> Records:
            return test

    assert any(words in each for each in refusals(Narrow(), SGD, None, kind, 1))  # type: ignore[arg-type]
    assert refusals(digits, SGD, None, kind, 1) == []


@pytest.mark.parametrize("name", ["dpsgd-hf", "dp-gan", "pate"])
def test_gradient_canaries_that_would_test_nothing_are_refused(digits: Workload, name: str) -> None:
    method = methods.family.get(name)
    params = method.Params.model_validate({"epsilon": 4.0})
    (problem,) = refusals(digits, method, params, "gradient", 9)
    assert "would test nothing" in problem and "give one of mislabelled" in problem
    assert refusals(digits, method, params, "mislabelled", 9) == []


def test_what_reads_records_as_they_are_carries_gradient_canaries(digits: Workload) -> None:
    hf, params = methods.family.get("dpsgd-hf"), DpsgdHfParams(epsilon=4.0, normalisation="none")
    assert refusals(digits, hf, params, "gradient", 9) == []
    assert refusals(digits, methods.family.get("dp-sgd"), params, "gradient", 9) == []


def test_normalised_records_have_lost_their_marks() -> None:
    """The reason of dpsgd-hf's refusal: its normalisation removes the number of a canary."""
    front = make_front(DpsgdHfParams(epsilon=4.0, normalisation="group", groups=4))
    test = Records(torch.rand(5, 8, 3, 3), torch.zeros(5))
    request = Request(test, torch.arange(2), 2, 3, torch.Generator())
    made, _ = KINDS["gradient"].make(request)
    assert float(made.x.flatten(1)[:, 0].min()) >= MARK
    assert float(front(made.x).flatten(1)[:, 0].max()) < MARK


@every_kind
def test_members_are_the_same_records_with_and_without_canaries(digits: Workload, kind: str) -> None:
    own = membership(cell(kind), 3, len(digits.pool()))
    assert torch.equal(own, membership(cell(None), 3, len(digits.pool())))
    records = cell_records(digits, cell(kind))
    mask = torch.cat([own, coins(cell(kind), 3)])
    members = records.members(mask)
    assert torch.equal(members.x[:718], digits.pool().x[own])
    assert len(members) == 718 + records.copies * int(coins(cell(kind), 3).sum())
    assert len(records.candidates) == len(digits.pool()) + COUNT == len(mask)


@every_kind
def test_all_methods_are_tried_with_the_same_canaries_and_coins(digits: Workload, kind: str) -> None:
    one, other = (cell_records(digits, cell(kind, method)) for method in ("sgd", "dp-sgd"))
    assert torch.equal(one.canaries.x, other.canaries.x) and torch.equal(one.canaries.y, other.canaries.y)
    assert torch.equal(coins(cell(kind), 0), coins(cell(kind, "dp-sgd"), 0))
    assert not torch.equal(coins(cell(kind), 0), coins(cell(kind), 1))


def test_coins_are_fair_and_independent() -> None:
    tossed = torch.stack([coins(cell("mislabelled", count=50), index) for index in range(400)]).double()
    assert abs(float(tossed.mean()) - 0.5) < 4.5 * 0.5 / 20_000**0.5
    assert float(torch.corrcoef(tossed.T).fill_diagonal_(0).abs().max()) < 5 / 400**0.5


def test_mislabelled_records_leave_the_test_set(digits: Workload) -> None:
    records = cell_records(digits, cell("mislabelled"))
    test = digits.test()
    assert len(records.test) == len(test) - COUNT
    for x, y in zip(records.canaries.x, records.canaries.y, strict=True):
        rows = (test.x == x).flatten(1).all(1)
        assert rows.any() and int(y) not in test.y[rows].tolist()
        assert not (records.test.x == x).flatten(1).all(1).any() or int(rows.sum()) > 1


def test_near_duplicates_are_in_or_out_together(digits: Workload) -> None:
    records = cell_records(digits, cell("near-duplicate"))
    assert records.copies == 2 and records.count == COUNT
    first, twin = records.canaries.x[::2], records.canaries.x[1::2]
    assert torch.equal(records.canaries.y[::2], records.canaries.y[1::2])
    distance = (first - twin).flatten(1).norm(dim=1)
    between = torch.cdist(first.flatten(1), first.flatten(1)).fill_diagonal_(torch.inf).amin(1)
    assert (distance > 0).all() and (distance < between / 5).all()
    mask = torch.zeros(len(records.candidates), dtype=torch.bool)
    mask[len(records.pool) + 7] = True
    assert torch.equal(records.members(mask).x, torch.stack([first[7], twin[7]]))


def test_a_gradient_canary_alone_moves_its_weights(digits: Workload) -> None:
    records = cell_records(digits, cell("gradient"))
    model = records.model(0)
    assert isinstance(model, Marked)
    with torch.no_grad():  # somewhere in a training
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)), alpha=0.01)
    people = records.pool.take(torch.arange(5))
    torch.testing.assert_close(model(people.x), model.base(people.x))
    for row in (0, COUNT - 1):
        gradient = gradient_of(model, records.canaries.x[row], records.canaries.y[row])
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
    numbers = cell_records(digits, cell("gradient")).canaries.x.flatten(1)[:, 0] - MARK
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
        ("mislabelled", 100_000, "made from test records, of which digits-linear has 360; give at most 180"),
    ],
)
def test_wrong_canaries_are_refused(digits: Workload, kind: object, count: object, words: str) -> None:
    assert any(words in each for each in refusals(digits, SGD, None, kind, count))
    assert refusals(digits, SGD, None, None, None) == []


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
