"""`privbench report theory`: what it writes with and without a store."""

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

import methods
from harness.cli import app
from harness.jobs.loop import Stop, run_task
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.report.reading import rows_of
from harness.report.theory_report import drawings, installed, write_drawing
from harness.results.collect import collect
from harness.store import Store
from workloads.drawings import Dot, Drawing, DrawnPanel, Line, Printed, Trained
from workloads.errors import SpecError

FILES = sorted(
    [
        *(f"pd-sgd-theory.{end}" for end in ("png", "svg", "pdf", "csv", "md", "tex")),
        *(f"pd-sgd-theory-{n}.csv{end}" for n in (1, 2, 3) for end in ("", "-metadata.json")),
    ]
)
SWEEP = {
    "models": 2,
    "attacks": [],
    "grid": [
        {
            "workload": "digits-linear",
            "method": "pd-sgd",
            "anomalous_share": [0.0, 1.0],
            "batches": 4,
            "steps": 40,
        },
        {"workload": "digits-linear", "method": "pd-sgd", "steps": 5},
    ],
}


def points(file: Path) -> dict[tuple[str, str, str], dict[float, float]]:
    """(Panel, curve, gamma) to x to y."""
    found: dict[tuple[str, str, str], dict[float, float]] = defaultdict(dict)
    with file.open(encoding="utf-8", newline="") as source:
        for row in csv.DictReader(source):
            found[row["panel"], row["curve"], row["gamma"]][float(row["x"])] = float(row["y"])
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models each of a small experiment with no and with all labels flipped, and a plain training."""
    opened = Store.open(tmp_path_factory.mktemp("theory") / "store", create=True)
    for task in make_plan(*read_sweep(SWEEP, "small"), opened).tasks:
        if task.kind == "train":
            opened.add(task)
            assert run_task(opened, task.key, Stop()) == "done"
    collect(opened.path)
    return opened.path


@pytest.mark.slow
def test_the_theory_needs_no_store(tmp_path: Path) -> None:
    out = tmp_path / "here"
    missing = str(tmp_path / "none")
    done = CliRunner().invoke(app.app, ["report", "theory", "--out", str(out), "--store", missing])
    assert done.exit_code == 0, done.output
    assert sorted(file.name for file in out.iterdir()) == FILES
    assert imread(out / "pd-sgd-theory.png").shape[2] == 4
    drawn = points(out / "pd-sgd-theory.csv")
    assert {panel for panel, _, _ in drawn} == {
        "plausibility",
        "bounds",
        "figure 1, q <= 0.05",
        "figure 1, q <= 1e-05",
    }
    # Numbers of the theory: q at 2 sigma, Lemma 2 and Corollary 1 at 3, Figure 1 at sigma 0.1 and 1.
    assert drawn["plausibility", "q", "2.0"][2.0] == pytest.approx(0.47724987)
    assert drawn["bounds", "Lemma 2", "1.0"][3.0] == pytest.approx(0.141903, rel=5e-6)
    assert drawn["bounds", "Corollary 1", "1.0"][3.0] == pytest.approx(0.150848, rel=5e-6)
    assert drawn["figure 1, q <= 1e-05", "distance", "4.0"][0.1] == pytest.approx(0.010699, abs=5e-7)
    assert drawn["figure 1, q <= 1e-05", "distance", "4.0"][1.0] == pytest.approx(0.10699, abs=5e-6)
    assert min(drawn["bounds", "Lemma 2", "10.0"]) > 20**0.5, "no bound is drawn where it does not hold"
    tables = (out / "pd-sgd-theory.md").read_text(encoding="utf-8")
    assert "| cifar10-wrn16-4 | 1 | 0.01 | 400000 | 3 | 894.4 | 8.944 |" in tables
    assert "| 0.05 | 2 | 4.1546 | 17.2609 | 0.004741 | 0.047408 |" in tables


@pytest.mark.slow
def test_the_experiment_comes_from_the_store(store: Path) -> None:
    done = CliRunner().invoke(app.app, ["report", "theory", "--store", str(store)])
    assert done.exit_code == 0, done.output
    assert sorted(file.name for file in (store / "reports").iterdir()) == FILES
    drawn = points(store / "reports" / "pd-sgd-theory.csv")
    name = "digits-linear, sigma 0.05, gamma 75, T 3"
    anomalous, normal = (drawn["figure 3", f"{name}: {kind}", ""] for kind in ("anomalous", "normal"))
    assert len([panel for panel, _, _ in drawn if panel == "figure 3"]) == 2, "plain trainings are left out"
    assert list(anomalous) == list(normal) == [0.0, 1.0]
    assert anomalous[1.0] > anomalous[0.0]
    assert all(0 <= rate <= 1 for rate in [*anomalous.values(), *normal.values()])


def test_wrong_use_is_reported(tmp_path: Path) -> None:
    def refusal(*arguments: str) -> str:
        command = ["report", "theory", "--store", str(tmp_path / "none"), *arguments]
        done = CliRunner().invoke(app.app, command)
        assert isinstance(done.exception, SpecError)
        return str(done.exception)

    assert "give --out" in refusal()
    assert "--where" in refusal("--where", "true")
    assert "--table" in refusal("--table", "pd-sgd-table-2")


class Toy:
    """A plug-in with its own figures."""

    def illustrate(self, trained: Sequence[Trained], printed: Sequence[Printed]) -> Drawing:
        measured = tuple(each.stats["rate"] for each in trained)
        line = Line("rate", tuple(range(len(measured))), measured, "measured")
        empty = DrawnPanel("empty", "No line", "x", without_lines="nothing measured yet")
        logs = DrawnPanel(
            "logs", "Both", "x", "y", (line,), (Dot(1, 2, text="here"),), log_x=True, log_y=True
        )
        return Drawing("Toy", f"{len(printed)} lines in print", (logs, empty))


def test_a_plug_in_draws_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(methods.family.members, "toy", Toy())
    rows: list[dict[str, Any]] = [
        {"method": "toy", "workload": "w", "params": {}, "stats": {"rate": 0.5}},
        {"method": "toy", "workload": "w", "params": {}, "stats": None},
        {"method": "gone", "workload": "w", "params": {}, "stats": {"rate": 0.1}},
    ]
    found = drawings(["gone", "sgd", "toy"], rows)
    assert list(found) == ["toy"], "the others are not installed, or bring nothing"
    assert "toy" in installed()
    files = write_drawing("toy-theory", found["toy"], tmp_path)
    assert {file.name for file in files} >= {"toy-theory.png", "toy-theory.csv"}
    assert points_of(tmp_path / "toy-theory.csv") == [["logs", "rate", "", "0", "0.5"]]


def points_of(file: Path) -> list[list[str]]:
    with file.open(encoding="utf-8", newline="") as source:
        return list(csv.reader(source))[1:]


@pytest.mark.slow
def test_a_cell_records_that_its_method_has_figures(store: Path) -> None:
    rows = rows_of(store, "select distinct method, illustrated from cell")
    assert rows == [{"method": "pd-sgd", "illustrated": True}]
