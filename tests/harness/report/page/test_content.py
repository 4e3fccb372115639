"""The data of the page: points, curves, provenance and the later sections."""

import base64
import io
import math
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from PIL import Image

import db
from harness.report.calibration import calibrate
from harness.report.page import sections
from harness.report.page.content import CURVE_POINTS, distinct_names, page_data, table, thin
from harness.report.page.sections import PICTURE_BYTES, picture_data
from harness.report.reading import Pictures, Reading, Roc


def run_row(cell: str, index: int, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"task": f"{cell}-{index}", "cell": cell, "index": index, "test_accuracy": 0.9}
    row |= {"train_accuracy": 1.0, "test_loss": 0.5, "epsilon": None, "train_seconds": 2.0, "host": "one"}
    row |= {"device": "cpu", "threads": 1, "finished": datetime(2026, 3, 4, 5, 6)}
    return row | {"provenance": {"git": "abc", "torch": "2.13", "threads": 1, "memory_bytes": 7}} | changes


def inversion(task: str, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"attack_task": task, "workload": "w", "workload_version": "1", "n_train": 9}
    row |= {"method": "sgd", "label": "sgd", "attack": "dlg", "attack_params": {}, "moment": "start"}
    row |= {"images": 4, "ssim_mean": 0.8, "mse_median": 0.01, "mse_median_mean_colour": 0.05}
    row |= {"validation_accuracy": 0.9}
    row |= {"guarantee_kind": "none", "accuracy": 0.5, "models": 1, "epsilon": None}
    return row | {"beats_mean_colour": 0.9, "canary": None, "canaries": 0} | changes


def pictures(seed: int, side: int = 8) -> Pictures:
    draw = np.random.default_rng(seed)
    return Pictures(*(draw.integers(0, 256, (4, 3, side, side), dtype=np.uint8) for _ in range(2)))


def test_rows_of_one_kind_are_a_table() -> None:
    assert table([{"a": 1, "b": 2}, {"a": 3, "c": 4}]) == {
        "columns": ["a", "b", "c"],
        "rows": [[1, 2, None], [3, None, 4]],
    }
    assert table([{"a": 1, "b": 2}], ["b"]) == {"columns": ["b"], "rows": [[2]]}
    assert table([]) == {"columns": [], "rows": []}


def test_unknown_kinds_and_missing_curves_do_no_harm(row: Any, reading: Any) -> None:
    data = page_data(
        reading([row(guarantee_kind="new-kind"), row(epsilon=1.0, guarantee_kind=None)], rocs={})
    )
    assert data["kinds"]["new-kind"] == {"name": "other guarantee"}
    assert data["kinds"]["None"]["name"] == "other guarantee"
    assert data["rocs"] == {}


def test_a_curve_is_thinned_to_points_of_its_own_with_both_ends() -> None:
    rates = [i / 2000 for i in range(2001)]
    curve = Roc(rates, [math.sqrt(rate) for rate in rates])
    kept = thin(curve, 0.01)
    assert len(kept["fpr"]) <= CURVE_POINTS
    assert (kept["fpr"][0], kept["fpr"][-1]) == (0.01, 1.0)
    assert kept["fpr"] == sorted(set(kept["fpr"]))
    assert kept["tpr"] == pytest.approx([math.sqrt(rate) for rate in kept["fpr"]], rel=1e-4)
    gaps = [math.log(b / a) for a, b in zip(kept["fpr"], kept["fpr"][1:], strict=False)]
    assert max(gaps) < 0.2, "no gap that an eye would see"


def test_a_short_curve_keeps_its_points_from_the_resolved_rate_on() -> None:
    curve = Roc([0.0, 0.001, 0.1, 1.0], [0.0, 0.0, 0.123456789, 1.0])
    assert thin(curve, 0.01) == {"fpr": [0.1, 1.0], "tpr": [0.12346, 1.0]}
    assert thin(curve, 0.0) == thin(curve, 0.01), "a log axis has no zero"


def test_a_point_knows_its_loss_and_where_its_models_were_made(row: Any, reading: Any) -> None:
    one = row(models=2, attack="loss", params={"epsilon": 4, "steps": 9})
    losses = [0.4, 0.6, 99.0]
    runs = [run_row(one["cell"], index, test_loss=loss) for index, loss in enumerate(losses)]
    runs[1] |= {"host": "two", "finished": None}
    data = page_data(reading([one], runs=runs))
    ((_, _, _, command, loss),) = data["points"]["rows"]
    assert loss == pytest.approx(0.5), "the third model is not behind this row"
    assert command.startswith("privbench run --workload digits-mlp --method dp-sgd --epsilon 4 ")
    assert data["made"][one["cell"]] == {
        "host": ["one", "two"],
        "device": ["cpu"],
        "threads": ["1"],
        "git": ["abc"],
        "torch": ["2.13"],
        "day": ["2026-03-04"],
    }
    assert "provenance" not in data["views"]["runs"]["columns"]


def test_calibration_is_that_of_the_report(quickstart: Reading) -> None:
    found, data = calibrate(quickstart.frontier), page_data(quickstart)["calibrations"]
    assert [(each["group"], each["leakage"]) for each in data] == [
        (each.group, each.leakage.name) for each in found
    ]
    for each, shown in zip(found, data, strict=True):
        for curve, drawn in zip(each.curves, shown["curves"], strict=True):
            offers = [curve.at(level) for level in drawn["x"]]
            assert drawn["y"] == [offer.accuracy for offer in offers if offer is not None]
            assert len(drawn["x"]) == len(drawn["y"]) == len(curve.rows) + 1
            assert drawn["low"] is not None


def test_theory_is_shown_where_its_method_is(
    reading: Any, quickstart: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sections, "drawings", None)  # would load torch
        assert page_data(quickstart)["theory"] == []
    runs = [
        {"method": "pd-sgd", "workload": "w",
         "params": {"sigma": 1.0, "gamma": 2.0, "T": 2, "anomalous_share": share},
         "stats": {"anomalous_rejection_rate": share, "normal_rejection_rate": 0.1}}
        for share in (0.2, 0.6)
    ]  # fmt: skip
    panels = page_data(reading([], methods=["pd-sgd"], illustrated=runs))["theory"]
    assert [panel["title"][:16] for panel in panels] == [
        f"pd-sgd: {title}" for title in ("Lemma 1:", "Lemma 2,", *["Figure 1"] * 2, "Figure 3")
    ]
    assert panels[-1]["curves"][0] == {
        "name": "w, sigma 1, gamma 2, T 2: anomalous",
        "x": [0.2, 0.6],
        "y": [0.2, 0.6],
    }
    assert all(math.isfinite(y) for panel in panels for curve in panel["curves"] for y in curve["y"])


def test_pictures_are_held_as_pngs_of_their_own_pixels(reading: Any) -> None:
    shown = pictures(0)
    rows = [inversion("a"), inversion("b", label="dp-sgd"), inversion("gone")]
    both = {"a": shown, "b": Pictures(shown.originals, pictures(1).rebuilt)}
    found = picture_data(reading([], reconstructions=rows, pictures=both))
    (block,) = found["blocks"]
    assert [line["text"].split("\n")[0] for line in block["lines"]] == [
        *("members", "their mean colours"),
        *("sgd", "dp-sgd"),
    ]
    assert found["left_out"] == 1
    image = Image.open(io.BytesIO(base64.b64decode(block["lines"][2]["image"].split(",")[1])))
    pixels = np.asarray(image)[:, :8].transpose(2, 0, 1)
    assert (pixels == shown.rebuilt[0]).all()


def test_pictures_stay_within_their_bytes(reading: Any) -> None:
    rows = [inversion(str(number)) for number in range(12)]
    large = {row["attack_task"]: pictures(number, 96) for number, row in enumerate(rows)}
    found = picture_data(reading([], reconstructions=rows, pictures=large))
    images = [line["image"] for block in found["blocks"] for line in block["lines"]]
    assert 0 < sum(map(len, images)) <= PICTURE_BYTES
    assert found["left_out"] == len(rows) - len(found["blocks"]) > 0


def test_views_are_reported_as_the_database_has_them(row: Any, reading: Any) -> None:
    data = page_data(reading([row()], columns={"frontier": ("label", "auc")}))
    assert data["views"]["frontier"]["columns"] == ["label", "auc"]
    assert "group" not in data["views"]["overhead"]["columns"]


def test_every_view_is_in_the_page(reading: Any) -> None:
    parts_of_others = {"model_cost", "newest_attack", "cell_sweep", "task_sweep"}
    assert set(page_data(reading([]))["views"]) == set(db.view_names()) - parts_of_others


def test_cells_of_one_label_are_distinguished_by_what_differs(row: Any) -> None:
    many = [dict.fromkeys("vwxyz", number) for number in (1, 2)]
    rows = [
        row(cell="a", params={"lr": 1 / 3, "steps": 5}, seed=0),
        row(cell="b", params={"lr": 2, "steps": 5}, seed=0),
        row(cell="c", epsilon=1.0, params={"lr": 2}, seed=0),
        *(row(cell=f"d{place}", label="d", params=params) for place, params in enumerate(many)),
    ]
    assert distinct_names(rows) == {
        "a": "dp-sgd ε=4 lr=0.3333",
        "b": "dp-sgd ε=4 lr=2",
        "c": "dp-sgd ε=1",
        "d0": "d v=1 w=1 x=1 …",
        "d1": "d v=2 w=2 x=2 …",
    }
