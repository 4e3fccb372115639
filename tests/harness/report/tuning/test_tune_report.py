"""The report on tunes: its figures and its table, of a store and of a selection."""

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.report import write_all, write_tune
from harness.report.figure.paper_sizes import SHEETS
from harness.report.tuning.trial_figure import tune_figure
from harness.report.tuning.trial_points import blocks_of
from harness.results.collect import collect
from harness.store import Store
from harness.store.tunes import TuneRecord
from tests.harness.tuned import make_tune, store_tune
from workloads.errors import SpecError, UnknownName

RECORD = make_tune(methods=("dp-sgd", "dp-gan"), epsilons=(1.0,), trials=4, studies=2, confirm=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    opened = Store.open(tmp_path_factory.mktemp("tuned") / "store", create=True)
    store_tune(opened, RECORD)
    collect(opened.path)
    return opened.path


def read_table(folder: Path) -> list[dict[str, str]]:
    """The rows of the table `tune`."""
    return list(csv.DictReader((folder / "tune.csv").read_text(encoding="utf-8").splitlines()))


def texts(figure: object) -> str:
    """All texts of a figure and its parts."""
    return "\n".join(str(each.get_text()) for each in figure.findobj(lambda part: hasattr(part, "get_text")))  # type: ignore[attr-defined]


def test_a_row_of_panels_has_the_studies_and_every_axis() -> None:
    (block,) = blocks_of({"fair": RECORD})
    figure = tune_figure(block)
    names = [axes.get_xlabel() for axes in figure.findobj() if hasattr(axes, "get_xlabel")]
    assert names == [
        *("study", "step (sets learning_rate)", "rate (sets batch_size)", "epochs (sets steps)", "clip"),
        *("study", "rate (sets batch_size)", "epochs (sets steps)", "clip", "generator_every"),
    ]
    scales = [axes.get_xscale() for axes in figure.findobj() if hasattr(axes, "get_xscale")]
    assert scales == ["linear", *["log"] * 4, "linear", *["log"] * 3, "linear"]


def test_the_figure_says_what_is_taken_how_lucky_it_is_and_what_to_beware_of() -> None:
    (block,) = blocks_of({"fair": RECORD})
    found = texts(tune_figure(block))
    taken = RECORD.searches[0].chosen
    assert taken is not None
    assert f"dp-sgd ε=1: {100 * taken.score:.1f} % taken; the studies choose" in found
    assert "nothing was learnt in this space" in found
    for sign in ("study 1", "study 2", "confirmed", "taken by a run", "own recipe", "most common class"):
        assert sign in found
    assert "diverged" not in found


def test_a_trial_that_diverged_is_a_sign_of_its_own() -> None:
    content = RECORD.model_dump()
    content["searches"][0]["studies"][0]["trials"][0] |= {"scores": [0.0], "failed": 1, "confirmed": False}
    (block,) = blocks_of({"fair": TuneRecord.model_validate(content)})
    assert "diverged or failed" in texts(tune_figure(block))


@pytest.mark.parametrize("columns", [None, "1", "2"])
def test_it_is_written_for_the_screen_and_for_papers(store: Path, tmp_path: Path, columns: None) -> None:
    files = write_tune(store, tmp_path, sheet=SHEETS[columns])
    assert [file.name for file in files] == [
        *(f"tune-fair-digits-mlp.{form}" for form in ("png", "svg", "pdf")),
        *("tune.md", "tune.tex", "tune.csv", "tune.csv-metadata.json"),
    ]


def test_the_table_has_the_choices_of_all_studies_and_the_warnings(store: Path, tmp_path: Path) -> None:
    write_tune(store, tmp_path)
    first, second = read_table(tmp_path)
    search = RECORD.searches[0]
    assert (first["method"], first["level"], first["trials x studies"]) == ("dp-sgd", "ε=1", "4 x 2")
    assert first["studies' choices"] == " ".join(f"{100 * each.score:.1f}" for each in search.studies)
    assert first["values taken"].startswith("learning_rate ")
    assert (first["recipe"], first["warnings"]) == ("72.0 %", "-")
    assert "nothing was learnt" in second["warnings"]


def test_a_condition_selects_searches_and_a_name_a_tune(store: Path, tmp_path: Path) -> None:
    write_tune(store, tmp_path, where="method = 'dp-gan'", name="fair")
    (row,) = read_table(tmp_path)
    assert row["method"] == "dp-gan"
    with pytest.raises(SpecError) as error:
        write_tune(store, tmp_path, where="method = 'pate'")
    assert error.value.field == "--where"
    with pytest.raises(UnknownName) as unknown:
        write_tune(store, tmp_path, name="fiar")
    assert unknown.value.nearest == "fair"


def test_a_store_without_a_tune_says_how_to_make_one(tmp_path: Path) -> None:
    Store.open(tmp_path / "store", create=True)
    collect(tmp_path / "store")
    files = write_tune(tmp_path / "store", tmp_path / "out")
    assert files[0].name == "tune.png"
    assert "0 searches" in (tmp_path / "out" / "tune.md").read_text(encoding="utf-8")


def test_the_page_and_all_reports_have_it(store: Path, tmp_path: Path) -> None:
    names = {file.name for file in write_all(store, tmp_path)}
    assert {"tune-fair-digits-mlp.svg", "tune.md", "index.html"} <= names


def test_the_name_of_a_tune_belongs_to_this_report_only(store: Path, tmp_path: Path) -> None:
    call = CliRunner().invoke
    done = call(app.app, ["report", "tune", "fair", "--store", str(store), "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "tune-fair-digits-mlp.png" in done.output.replace("\n", "")
    refused = call(app.app, ["report", "audit", "fair", "--store", str(store)])
    assert isinstance(refused.exception, SpecError)
    assert (refused.exception.field, refused.exception.value) == ("NAME", "fair")
