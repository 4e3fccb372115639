"""The contract of workloads. A new file in workloads/ is tested by existing."""

import pytest
import torch

import methods
import workloads
from harness.cli.members import page
from workloads.base import Public, Workload
from workloads.recipe import recipe
from workloads.records import without

# Grouped by workload, so that the records of a large one are read once.
every_workload = pytest.mark.parametrize(
    "name",
    [
        # Those on published data run with the slow tests, where the data are.
        pytest.param(name, marks=pytest.mark.data if hasattr(member, "missing") else ())
        for name, member in sorted(workloads.family.members.items())
    ],
    scope="module",
)


def with_records(name: str) -> Workload:
    """The workload, if its records are available without a download or minutes of preparation."""
    workload = workloads.family.get(name)
    reason = missing() if (missing := getattr(workload, "missing", None)) else None
    if reason is None and (unprepared := getattr(workload, "unprepared", None)):
        reason = unprepared()
    if reason:
        pytest.skip(reason.partition(";")[0])
    return workload


@every_workload
def test_it_describes_itself(name: str) -> None:
    workload = workloads.family.get(name)
    assert workload.name == name
    assert workload.about
    assert workload.source
    assert workload.version


@every_workload
def test_records_are_whole_and_finite(name: str) -> None:
    workload = with_records(name)
    for records in (workload.pool(), workload.test()):
        assert len(records) > 0
        assert all(torch.isfinite(part).all() for part in records.batches(4096))
        assert records.y.dtype == torch.int64
        assert set(records.y.tolist()) <= set(range(workload.classes))


@every_workload
def test_there_are_members_and_non_members(name: str) -> None:
    workload = with_records(name)
    assert 0 < workload.n_train < len(workload.pool())


@every_workload
def test_the_same_records_every_time(name: str) -> None:
    workload = with_records(name)
    assert all(map(torch.equal, workload.pool().batches(4096), workload.pool().batches(4096)))
    assert torch.equal(workload.test().y, workload.test().y)


@every_workload
def test_no_test_record_is_in_the_pool(name: str) -> None:
    """A copy would make test accuracy partly an accuracy on members."""
    workload = with_records(name)
    # Hashes of 64 bits: whole rows of 60,000 images would not fit.
    pool, test = (
        {hash(row.tobytes()) for part in records.batches(4096) for row in part.numpy()}
        for records in (workload.pool(), workload.test())
    )
    assert not pool & test


@every_workload
def test_public_records_are_never_members(name: str) -> None:
    """Never members, and not the whole test set: accuracy is measured on the rest."""
    workload = with_records(name)
    if not isinstance(workload, Public):
        pytest.skip("it declares no public records")
    public = workload.public()
    assert len(public) > 0
    assert len(without(public, workload.pool())) == len(public)
    assert len(without(workload.test(), public)) >= len(workload.test()) // 3


@every_workload
def test_the_model_returns_logits(name: str) -> None:
    workload = with_records(name)
    for count in (5, 0):
        few = workload.pool().take(torch.arange(count))
        assert workload.model(0)(few.x).shape == (count, workload.classes)


@every_workload
def test_the_seed_decides_the_model_and_nothing_else(name: str) -> None:
    workload = workloads.family.get(name)
    before = torch.get_rng_state()
    one, same, other = workload.model(1), workload.model(1), workload.model(2)
    assert torch.equal(before, torch.get_rng_state())
    assert all(map(torch.equal, one.state_dict().values(), same.state_dict().values()))
    assert not all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))


@every_workload
def test_its_recipe_fits_every_method(name: str) -> None:
    book = recipe(workloads.family.get(name))
    assert book.method.keys() <= methods.family.members.keys()
    for method, member in methods.family.members.items():
        fields = member.Params.model_fields
        assert book.settings(method, fields).keys() <= fields.keys(), method


@every_workload
def test_its_page_shows_the_recipe_with_sources(name: str) -> None:
    rows = page("workload", name)["recipe"]
    assert rows
    assert {row["source"] for row in rows} <= {"paper", "ours", "tuned"}
