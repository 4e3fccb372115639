"""Which cells a bench has timed: the same work at the same batch size."""

from typing import Any

import pytest

import methods
from harness.jobs.bench.bench import is_real, step_params
from harness.results.bench_matching import match_benches
from harness.results.collect import collect
from harness.results.query import query
from harness.spec import Cell, Plugin
from harness.store import Store
from tests.harness.simulated import cells, fill, publish_bench

CELL = {
    "key": "c", "origin": "", "protocol": 1, "workload": "w", "workload_version": "1", "n_train": 100,
    "method": "dp-sgd", "method_version": "5", "batch_size": 64,
    "params": {"batch_size": 64, "engine": "auto", "augmentations": 1, "epsilon": 1, "steps": 500},
}  # fmt: skip
BENCH = {
    **{name: value for name, value in CELL.items() if name not in ("key", "params")},
    "task": "t", "variant": "dp-sgd auto", "role": "method",
    "step_params": {"batch_size": 64, "engine": "auto", "augmentations": 1},
}  # fmt: skip


def test_a_cell_that_differs_in_numbers_alone_is_timed() -> None:
    other = CELL | {"key": "d", "params": CELL["params"] | {"epsilon": 8, "steps": 20, "learning_rate": 2}}  # type: ignore[operator]
    found = match_benches([BENCH], [CELL, other])
    assert found == [{"cell": key, "task": "t", "variant": "dp-sgd auto"} for key in ("c", "d")]


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 256},
        {"batch_size": None},
        {"workload": "v"},
        {"workload_version": "2"},
        {"n_train": 200},
        {"method": "sgd"},
        {"method_version": "4"},
        {"origin": "somebody"},
        {"protocol": 0},
        {"params": {"batch_size": 64, "engine": "opacus", "augmentations": 1}},
        {"params": {"batch_size": 64, "engine": "auto", "augmentations": 16}},
        {"params": {"batch_size": 64, "engine": "auto"}},
    ],
)
def test_another_step_is_not_the_cells(changes: dict[str, Any]) -> None:
    assert match_benches([BENCH], [CELL | changes]) == []


def test_plain_sgd_is_the_baseline_however_it_draws() -> None:
    drawn = {"batch_size": 64, "sampling": "poisson"}
    sgd = BENCH | {"method": "sgd", "role": "yardstick", "step_params": drawn}
    shuffling = CELL | {"method": "sgd", "params": {"batch_size": 64, "sampling": "shuffle"}}
    assert match_benches([sgd], [shuffling])
    assert not match_benches([sgd | {"role": "method"}], [shuffling])


def test_an_older_bench_does_not_record_what_it_timed() -> None:
    assert match_benches([BENCH | {"step_params": None}], [CELL]) == []


def test_what_decides_a_step_is_no_real_number() -> None:
    params = methods.family.get("dp-sgd").Params(epsilon=8.0).model_dump()  # type: ignore[call-arg]
    found = step_params(Cell(Plugin("w", "1"), 100, Plugin("dp-sgd", "5"), params, 0))
    assert {"batch_size", "engine", "clipping", "augmentations", "optimizer", "secure"} <= set(found)
    assert not {"steps", "epsilon", "delta", "noise_multiplier", "clip", "learning_rate"} & set(found)
    assert is_real(float | None)
    assert not is_real(int | None)


@pytest.mark.slow
def test_a_collection_finds_them(tmp_path: Any) -> None:
    store = Store.open(tmp_path / "store", create=True)
    fill(store)
    collect(store.path)
    assert query(store.path, "select * from bench_match").rows == []
    publish_bench(store)
    collect(store.path)
    sgd = cells("digits-mlp")[0]
    assert query(store.path, "select cell, variant from bench_match").rows == [(sgd.key, "sgd")]
    (row,) = query(store.path, f"select * from overhead where cell = '{sgd.key}'").arrow.to_pylist()
    assert (row["step_overhead"], row["overhead_by"]) == (1.0, "bench")
