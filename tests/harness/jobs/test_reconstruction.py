"""Gradient inversion from cell to figure: the attacked records, the shared gradients, the stored result."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from safetensors.numpy import load
from torch import Tensor

import methods.base
import workloads
from harness.attacks.base import Evidence, Shared, When
from harness.attacks.parts.inversion import Intercepted, InversionParams, Reconstructions
from harness.jobs.attack import gather
from harness.jobs.loop import Stop, run_task
from harness.jobs.reconstruction import choose, intercept, invert
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.report.reconstructions import group, read_galleries, strip, write_reconstructions
from harness.results.collect import collect
from harness.results.query import query
from harness.spec import Json, Task
from harness.store import Store
from harness.store.result import figures_of
from workloads.base import Records
from workloads.errors import BenchError, SpecError

IMAGES, MODELS, SIDE = 5, 2, 12


class Clairvoyant:
    """An oracle for the pictures: everything but the search itself is tested."""

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "test"
    source: ClassVar[str] = "test"
    caveats: ClassVar[tuple[str, ...]] = ()
    Params: ClassVar[type[methods.base.Params]] = InversionParams
    shadows: ClassVar[int] = 0

    def __init__(self, pictures: Callable[[Intercepted], Tensor]) -> None:
        self.pictures = pictures

    def rebuild(self, seen: Intercepted, params: Any, stream: torch.Generator) -> Reconstructions:
        labels = torch.zeros(len(seen), dtype=torch.int64) if seen.labels is None else seen.labels
        return Reconstructions(self.pictures(seen), labels)


def evidence(canaries: int = 0, records: int = 40, planes: int = 3) -> Evidence:
    """Two models; a record's gradient is the record, and canaries are far out of every range."""
    random = torch.Generator().manual_seed(0)
    x = torch.rand(records, planes, SIDE, SIDE, generator=random)
    x[records - canaries :] = 1e6
    y = torch.arange(records) % 2
    members = np.zeros((MODELS, records), dtype=bool)
    members[0, ::2], members[1, 1::2] = True, True

    def shared(model: int, batch: Records, when: When) -> Shared:
        assert len(batch) == 1 and when == "start"
        return Shared(torch.nn.Identity(), [batch.x[0]])

    logits = np.zeros((MODELS, records, 2), dtype=np.float32)
    labels = y.numpy()
    return Evidence(logits, labels, members, logits, labels, Records(x, y), canaries=canaries, shared=shared)


def test_members_are_spread_over_the_models() -> None:
    members = np.random.default_rng(0).random((3, 50)) < 0.5
    chosen = choose(members, images=8, seed=0)
    assert [len(rows) for rows in chosen] == [3, 3, 2]
    for mask, rows in zip(members, chosen, strict=True):
        assert mask[rows].all() and len(set(rows.tolist())) == len(rows)
    assert [rows.tolist() for rows in choose(members, 8, 0)] == [rows.tolist() for rows in chosen]
    assert [rows.tolist() for rows in choose(members, 8, 1)] != [rows.tolist() for rows in chosen]


def test_no_more_are_attacked_than_there_are() -> None:
    assert [len(rows) for rows in choose(np.eye(2, 6, dtype=bool), images=8, seed=0)] == [1, 1]


def test_a_perfect_reconstruction_scores_perfectly_and_canaries_are_left_out() -> None:
    attacker = Clairvoyant(lambda seen: seen.gradients[0])
    made = invert(attacker, evidence(canaries=6), InversionParams(images=IMAGES))
    figures, kept = figures_of(made.outcome)["reconstruction"], load(made.artefacts["pictures.safetensors"])
    assert figures["images"] == IMAGES and figures["label_accuracy"] == 1
    assert figures["mse_median"] < 1e-12 and figures["success_rate"] == figures["beats_mean_colour"] == 1
    assert kept["models"].tolist() == [0, 0, 0, 1, 1]
    assert kept["records"].max() < 34 and kept["originals"].shape == (IMAGES, 3, SIDE, SIDE)
    assert kept["rebuilt"].dtype == np.uint8 and (kept["rebuilt"] == kept["originals"]).all()


def test_the_mean_colour_does_not_beat_itself() -> None:
    attacker = Clairvoyant(
        lambda seen: seen.gradients[0].mean((2, 3), keepdim=True).expand(-1, 3, SIDE, SIDE)
    )
    made = invert(attacker, evidence(), InversionParams(images=IMAGES))
    figures = figures_of(made.outcome)["reconstruction"]
    assert figures["mse_median"] == pytest.approx(figures["mse_median_mean_colour"], rel=1e-5)
    assert figures["success_rate"] == 0


def test_labels_are_given_only_if_they_are_known() -> None:
    found = evidence()
    victims = found.pool.take(torch.tensor([0, 2]))
    pixels: Any = None
    known = intercept(found, 0, victims, InversionParams(label="known"), pixels)
    assert known.labels is not None and known.labels.tolist() == victims.y.tolist()
    assert intercept(found, 0, victims, InversionParams(label="idlg"), pixels).labels is None


def test_broken_gradients_and_broken_reconstructions_are_errors() -> None:
    def broken(model: int, batch: Records, when: When) -> Shared:
        return Shared(torch.nn.Identity(), [torch.full((3,), torch.nan)])

    attacker = Clairvoyant(lambda seen: torch.full((len(seen), 3, SIDE, SIDE), torch.nan))
    with pytest.raises(BenchError, match="3 of 3 shared gradients of model 0 are not finite"):
        invert(attacker, replace(evidence(), shared=broken), InversionParams(images=IMAGES))
    with pytest.raises(BenchError, match="images with NaN"):
        invert(attacker, evidence(), InversionParams(images=IMAGES))


# -- through the store -----------------------------------------------------------------------------

SWEEP: Json = {
    "models": MODELS,
    "attacks": [
        {"attack": "dlg", "images": 3, "steps": 2},
        {"attack": "inverting-gradients", "images": 3, "steps": 2, "when": "end"},
    ],
    "grid": [
        {"workload": "shape-lenet", "method": "sgd", "steps": 1, "learning_rate": 1e-30, "batch_size": 8},
        {"workload": "shape-lenet", "method": "dp-sgd", "noise_multiplier": 1.0, "steps": 1, "batch_size": 8},
    ],
}


def run_sweep(content: Json, path: Path) -> tuple[Store, list[Task]]:
    """Plan and run in this process, without the blind checks."""
    sweep, problems = read_sweep(content, "inverted")
    tasks = [
        task
        for task in make_plan(sweep, problems, None).tasks
        if task.attack is None or task.attack.name != "blind"
    ]
    store = Store.open(path, create=True)
    store.add(*tasks)
    for task in tasks:
        run_task(store, task.key, Stop())
    return store, tasks


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, list[Task]]:
    store, tasks = run_sweep(SWEEP, tmp_path_factory.mktemp("inverted") / "store")
    collect(store.path)
    return store, tasks


@pytest.mark.slow
def test_every_cell_and_attack_is_a_row_of_the_view(attacked: tuple[Store, list[Task]]) -> None:
    rows = query(attacked[0].path, "select * from reconstruction order by method, attack").arrow.to_pylist()
    assert [(row["method"], row["attack"], row["moment"]) for row in rows] == [
        ("dp-sgd", "dlg", "start"),
        ("dp-sgd", "inverting-gradients", "end"),
        ("sgd", "dlg", "start"),
        ("sgd", "inverting-gradients", "end"),
    ]
    assert {row["models"] for row in rows} == {MODELS} and {row["images"] for row in rows} == {3}
    assert [row["guarantee_kind"] for row in rows] == ["approximate-dp"] * 2 + ["none"] * 2
    assert all(0 < row["mse_median"] < 1 and row["ssim_mean"] is not None for row in rows)
    assert query(attacked[0].path, "select * from attack_result").arrow.num_rows == 0


@pytest.mark.slow
def test_the_untrained_model_is_the_one_the_training_began_with(attacked: tuple[Store, list[Task]]) -> None:
    store, tasks = attacked
    task = next(each for each in tasks if each.attack and each.cell.method.name == "sgd")
    results = [result for key in task.needs if (result := store.result(key))]
    found = gather(task, store, results)
    record = workloads.family.get("shape-lenet").pool().take(torch.tensor([0]))
    for index in range(MODELS):
        # The step of that training was too small to change a bit.
        start, end = (found.shared(index, record, when) for when in ("start", "end"))
        torch.testing.assert_close(start.model.state_dict(), end.model.state_dict(), rtol=0, atol=0)
        torch.testing.assert_close(start.gradients, end.gradients)


@pytest.mark.slow
def test_methods_are_tried_on_the_same_members_and_drawn_together(
    attacked: tuple[Store, list[Task]], tmp_path: Path
) -> None:
    store, _ = attacked
    galleries, _ = read_galleries(store.path)
    blocks = group(galleries)
    assert [[gallery.row["method"] for gallery in block] for block in blocks] == [["sgd", "dp-sgd"]] * 2
    files = write_reconstructions(store.path, tmp_path)
    assert [file.name for file in files] == [f"reconstructions.{form}" for form in ("png", "svg", "pdf")]
    assert all(file.stat().st_size > 10_000 for file in files)
    with pytest.raises(SpecError) as refused:
        write_reconstructions(store.path, tmp_path / "none", "attack = 'none'")
    assert refused.value.field == "--where"


@pytest.mark.slow
def test_records_that_are_no_pictures_fail_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a plan could not know: it was made on a machine without the data."""
    monkeypatch.setattr("harness.plan.plan._ready", lambda plan: plan)
    content = {
        "models": 1,
        "attacks": ["dlg"],
        "grid": [{"workload": "digits-linear", "method": "sgd", "steps": 1}],
    }
    store, tasks = run_sweep(content, tmp_path / "store")
    result = store.result(tasks[-1].key)
    assert result is not None and result.status == "failed"
    assert "records of shape (64,) are not images" in str(result.message)


def test_pictures_side_by_side() -> None:
    grey = np.arange(2 * 4, dtype=np.uint8).reshape(2, 1, 2, 2)
    line = strip(grey)
    assert line.shape[0] == 2 and line.shape[2] == 3
    assert line[:, :2].tolist() == [[[0] * 3, [1] * 3], [[2] * 3, [3] * 3]]
    assert (line[:, 2:4] == 255).all() and line[0, 4].tolist() == [4] * 3
