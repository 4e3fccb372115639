import io
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load
from torch import nn

import methods
from harness.accounting import Guarantee
from harness.jobs.run import Series
from harness.jobs.setup import membership, same_version
from harness.jobs.train import (
    finite,
    predict_logits,
    promised,
    quantiles,
    step_table,
    summary,
    top_accuracy,
    train,
    utility,
    warm_up,
)
from harness.spec import Cell, Plugin, Task
from harness.store.outcomes import Quantiles, Training
from methods.dp_sgd import DpSgdParams
from methods.dp_sgd import method as dp_sgd
from workloads.base import Records
from workloads.errors import AccountingError, Diverged, SpecError

CPU = torch.device("cpu")


def task(index: int = 0, method: str = "sgd", seed: int = 0, n_train: int = 718, **params: Any) -> Task:
    given = {"steps": 20, "batch_size": 32, "learning_rate": 0.1, **params}
    plugin = Plugin(method, methods.family.get(method).version)
    cell = Cell(Plugin("digits-linear", "1"), n_train, plugin, given, seed)
    return Task("train", cell, index=index)


# -- members -----------------------------------------------------------------------------------


def test_each_model_has_its_own_exact_number_of_members_whatever_the_method() -> None:
    masks = [membership(task().cell, index, 1437) for index in range(4)]
    assert [int(mask.sum()) for mask in masks] == [718] * 4
    assert len({tuple(mask.tolist()) for mask in masks}) == 4
    other = membership(task(method="dp-sgd", steps=5).cell, 1, 1437)
    assert torch.equal(other, masks[1])
    assert not torch.equal(membership(task(seed=1).cell, 1, 1437), masks[1])


def test_members_are_drawn_evenly() -> None:
    counts = torch.stack([membership(task(n_train=20).cell, index, 40) for index in range(400)]).sum(0)
    deviation = (counts - 200) / 10  # standard deviations of a binomial count
    assert deviation.abs().max() < 4.5


def test_more_members_than_the_pool_holds_are_refused() -> None:
    assert membership(task(n_train=40).cell, 0, 40).all()
    with pytest.raises(SpecError) as raised:
        membership(task(n_train=41).cell, 0, 40)
    assert (raised.value.field, raised.value.value, raised.value.allowed) == ("n_train", 41, (1, 40))


def test_a_task_runs_on_the_version_it_was_planned_for() -> None:
    same_version("method", Plugin("sgd", "1"), "1")
    with pytest.raises(SpecError, match="method sgd version 1") as raised:
        same_version("method", Plugin("sgd", "1"), "2")
    assert (raised.value.field, raised.value.value, raised.value.allowed) == ("method", "1", "2")


# -- price -------------------------------------------------------------------------------------


def test_a_training_that_cost_more_than_it_was_to_cost_fails(tmp_path: Path) -> None:
    """The parameters state epsilon 1, but the added noise is too small for it."""
    params = DpSgdParams(epsilon=1.0, noise_multiplier=0.8, steps=3, batch_size=32)
    method = Plugin("dp-sgd", dp_sgd.version)
    cell = Cell(Plugin("digits-linear", "1"), 718, method, params.model_dump(), 0)
    with pytest.raises(AccountingError, match="above its target 1"):
        train(Task("train", cell), CPU, tmp_path, lambda: False)


@pytest.mark.parametrize("name", methods.family.names())
def test_no_kind_of_guarantee_is_raised_above_the_price(name: str) -> None:
    """A method's declaration only distinguishes an empirical defence from none."""
    method = methods.family.get(name)
    for kind in ("approximate-dp", "pure-dp", "claimed-disputed"):
        assert promised(Guarantee(kind, 1.0, 1e-5, "add-or-remove-one", "pld"), method) == kind
    unpriced = promised(Guarantee("none", None, None, "add-or-remove-one", "none"), method)
    assert unpriced == ("empirical" if method.guarantee == "empirical" else "none")


# -- measuring ---------------------------------------------------------------------------------


def test_a_training_fulfils_its_contract_and_is_reproducible_bit_for_bit(tmp_path: Path) -> None:
    first, second = (train(task(), CPU, tmp_path / name, lambda: False) for name in ("a", "b"))
    assert set(first.artefacts) == {"signals.safetensors", "model.safetensors", "steps.parquet"}
    for name in ("signals.safetensors", "model.safetensors"):
        assert first.artefacts[name] == second.artefacts[name]
    found, again = first.outcome, second.outcome
    assert isinstance(found, Training) and isinstance(again, Training)
    parts = ("metrics", "guarantee", "stats")
    assert [getattr(found, part) for part in parts] == [getattr(again, part) for part in parts]
    signals = load(first.artefacts["signals.safetensors"])
    assert signals["logits"].shape == (1437, 10)
    assert int(signals["members"].sum()) == 718
    right = signals["logits"].argmax(1) == signals["labels"]
    metrics = found.metrics
    assert metrics.train_accuracy == int(right[signals["members"]].sum()) / 718
    assert metrics.nonmember_accuracy == int(right[~signals["members"]].sum()) / 719
    assert 0.3 < metrics.test_accuracy <= 1
    table = pq.read_table(io.BytesIO(first.artefacts["steps.parquet"]))
    assert table.num_rows == 20
    assert table["loss"].null_count == 0


def test_the_majority_accuracy_is_that_of_always_predicting_the_most_common_class() -> None:
    logits, labels = torch.tensor([[1.0, 0.0, 0.0]] * 5), torch.tensor([2, 1, 2, 0, 2])
    signals = {"logits": logits, "labels": labels, "test_logits": logits, "test_labels": labels}
    found = utility(signals, torch.ones(5).bool(), torch.zeros(5).bool())
    assert found.majority_accuracy == 3 / 5
    assert found.test_accuracy == 1 / 5


def test_without_non_members_their_accuracy_is_null() -> None:
    logits, labels = torch.tensor([[1.0, 0.0]] * 4), torch.tensor([0, 1, 0, 1])
    signals = {"logits": logits, "labels": labels, "test_logits": logits, "test_labels": labels}
    found = utility(signals, torch.ones(4).bool(), torch.zeros(4).bool())
    assert found.nonmember_accuracy is None
    assert found.train_accuracy == 0.5
    assert found.test_loss == pytest.approx(0.5 * (math.log1p(math.exp(-1)) + math.log1p(math.exp(1))))


def test_a_model_with_non_finite_logits_has_diverged() -> None:
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight[0, 0] = math.nan
    with pytest.raises(Diverged):
        predict_logits(model, Records(torch.ones(3, 2), torch.zeros(3).long()), CPU)


def test_logits_do_not_depend_on_the_evaluation_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(2, 2)
    records = Records(torch.arange(14.0).reshape(7, 2), torch.zeros(7).long())
    whole = predict_logits(model, records, CPU)
    monkeypatch.setattr("harness.jobs.train.EVALUATION_BATCH", 3)
    assert torch.allclose(predict_logits(model, records, CPU), whole)


def test_stats_that_json_lacks_are_named() -> None:
    assert finite({"share": 1}) == {"share": 1.0}
    with pytest.raises(ValueError, match="'bad': inf"):
        finite({"good": 1.0, "bad": math.inf})


# -- series ------------------------------------------------------------------------------------


def series() -> dict[str, Series]:
    first = Series(wall=[0.1, 0.2, 0.3], cpu=[0.1] * 3, values={"loss": [1.0, 2.0, 3.0]})
    nan = math.nan
    second = Series(
        wall=[0.1] * 4, cpu=[0.1] * 4, clocks={"clip": [nan, 0.05]}, values={"late": [nan, nan, 5.0]}
    )
    return {"first": first, "second": second}


def test_the_step_table_has_a_row_per_step_and_null_where_nothing_was_seen() -> None:
    table = pq.read_table(io.BytesIO(step_table(series())))
    assert table.column_names == [
        "phase",
        "step",
        "wall_seconds",
        "cpu_seconds",
        "clock_clip",
        "late",
        "loss",
    ]
    assert [str(kind) for kind in table.schema.types] == ["string", "int32", *["double"] * 5]
    assert table["phase"].to_pylist() == ["first"] * 3 + ["second"] * 4
    assert table["step"].to_pylist() == [0, 1, 2, 0, 1, 2, 3]
    assert table["clock_clip"].to_pylist() == [None, None, None, None, 0.05, None, None]
    assert table["late"].to_pylist() == [None, None, None, None, None, 5.0, None]
    assert table["loss"].to_pylist() == [1.0, 2.0, 3.0, None, None, None, None]


def test_a_summary_leaves_the_warm_up_out_of_the_quantiles_only() -> None:
    found = summary(Series(wall=[100.0] * 10 + [1.0] * 90, cpu=[2.0] * 100))
    assert found.steps == 100
    assert found.total_seconds == 1090.0
    assert found.wall.p95 == found.wall.mean == 1.0
    assert [warm_up(steps) for steps in (0, 4, 5, 50, 1000)] == [0, 0, 1, 10, 10]


def test_quantiles_of_nothing_are_null() -> None:
    names = ("p05", "p25", "p50", "p75", "p95", "mean")
    assert quantiles([]) == quantiles([math.nan]) == Quantiles(**dict.fromkeys(names))
    assert quantiles([1.0, math.nan, 3.0]).p50 == 2.0


def test_a_phase_left_early_gives_a_whole_table(lab_module: ModuleType) -> None:
    run = lab_module.train("trial", {"steps": 9, "trouble": "break", "at": 6}, None, lambda: False)
    table = pq.read_table(io.BytesIO(step_table(run.phases)))
    assert table.num_rows == 9 + 6
    assert run.phases["main"].peak_memory_bytes > 0


def test_the_ten_likeliest_classes_count_where_there_are_more() -> None:
    logits = torch.arange(12.0).repeat(3, 1)
    assert top_accuracy(logits, torch.tensor([11, 2, 1]), 10) == 2 / 3
    assert top_accuracy(logits[:, :10], torch.tensor([0, 1, 2]), 10) is None
