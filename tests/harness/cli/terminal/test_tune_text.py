"""What a tune tried, in the terminal: by accuracy on non-members, at 80 columns."""

import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from harness.cli import app, output
from harness.cli.terminal.tune_text import head_lines, print_tune, search_row, tell_levels, trial_rows
from harness.store import Store
from harness.store.tunes import TuneRecord, write_tune
from tests.harness.tuned import make_tune
from workloads.errors import SpecError, UnknownName

RECORD = make_tune(methods=("dp-sgd", "dp-gan"), epsilons=(1.0,), trials=4, studies=3, confirm=1)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    opened = Store.open(tmp_path / "store", create=True)
    write_tune(opened, RECORD)
    return opened.path


def shown(monkeypatch: pytest.MonkeyPatch, record: TuneRecord, trials: bool = False) -> str:
    console = Console(width=80, record=True, force_terminal=True)
    monkeypatch.setattr(output, "out", console)
    print_tune(record, trials)
    return console.export_text()


def test_the_budget_and_the_records_that_score_are_stated() -> None:
    first, second = head_lines(RECORD)
    assert "4 trials x 3 studies" in first and "not priced" in first
    assert second == "digits-mlp: 718 members, 719 validation records, 10.2 % of them of the commonest class"


def test_fewer_members_in_the_search_are_stated() -> None:
    fewer = RECORD.searches[0].model_copy(update={"tuned_at": 500})
    assert "718 members (500 in the search)" in head_lines(RECORD.model_copy(update={"searches": [fewer]}))[1]


def test_a_search_shows_the_choice_of_every_study() -> None:
    search = RECORD.searches[0]
    row = search_row(search, "ε=1")
    assert row["by study"] == " ".join(f"{100 * each.score:.1f}" for each in search.studies)
    assert (row["method"], row["level"], row["recipe"]) == ("dp-sgd", "ε=1", "72.0 %")
    assert row["chosen"].startswith("learning_rate ")


def test_a_search_without_a_trained_trial_says_so() -> None:
    row = search_row(RECORD.searches[0].model_copy(update={"studies": []}), "")
    assert (row["validation"], row["by study"]) == (None, None)
    assert "nothing" in row["chosen"]


def test_levels_are_told_where_searches_differ_in_them() -> None:
    search = RECORD.searches[0]
    both = [search.model_copy(update={"levels": {"alpha": 0.5, "share": each}}) for each in (0.1, 0.2)]
    assert tell_levels(both) == ["share=0.1", "share=0.2"]
    assert tell_levels(both[:1], wide=True) == ["alpha=0.5, share=0.1"]
    assert tell_levels([search]) == ["ε=1"]


def test_trials_are_shown_with_what_became_of_them() -> None:
    rows = trial_rows(RECORD.searches[0])
    assert len(rows) == 12
    standings = [row["standing"] for row in rows]
    assert (standings.count("chosen, taken"), standings.count("chosen")) == (1, 2)
    assert {"learning_rate", "batch_size", "steps", "clip"} <= rows[0].keys()


def test_it_fits_a_terminal_and_tells_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, RECORD, trials=True)
    assert max(map(len, text.splitlines())) <= 80
    joined = " ".join(text.split())
    assert "(!) dp-gan ε=1 on digits-mlp: best of 48" in joined
    assert "dp-gan ε=1 on digits-mlp, by accuracy on non-members" in joined


def test_the_command_shows_it_or_all_of_it(store: Path) -> None:
    call = CliRunner().invoke
    plain = call(app.app, ["show", "tune", "fair", "--store", str(store)])
    assert plain.exit_code == 0 and "dp-gan" in plain.output
    assert "standing" not in plain.output
    every = call(app.app, ["show", "tune", "fair", "--trials", "--store", str(store)])
    assert "standing" in every.output
    content = call(app.app, ["show", "tune", "fair", "--json", "--store", str(store)])
    assert TuneRecord.model_validate(json.loads(content.output)) == RECORD


def test_an_unknown_tune_and_options_of_tunes_are_refused(store: Path) -> None:
    call = CliRunner().invoke
    unknown = call(app.app, ["show", "tune", "fiar", "--store", str(store)])
    assert isinstance(unknown.exception, UnknownName) and unknown.exception.nearest == "fair"
    strange = call(app.app, ["show", "method", "sgd", "--trials"])
    assert isinstance(strange.exception, SpecError) and strange.exception.field == "--trials"
