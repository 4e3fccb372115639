"""Commands that list, show, refuse, query or plan what is finished load neither torch nor its like."""

from pathlib import Path

import pytest

from tests.harness.terminal import SWEEP, Terminal

LIGHT = {
    "help": ("--help",),
    "methods": ("list", "methods"),
    "workloads": ("list", "workloads"),
    "attacks": ("list", "attacks"),
    "backends": ("list", "backends"),
    "sweeps": ("list", "sweeps"),
    "tables": ("list", "published"),
    "table": ("show", "published", "dpsur-table-2"),
    "method": ("show", "method", "dp-sgd"),
    "workload": ("show", "workload", "digits-mlp"),
    "attack": ("show", "attack", "lira"),
}
REFUSED = {
    "option": ("run", "--nothing"),
    "kind": ("list", "nothings"),
    "member": ("show", "method", "nothing"),
    "sweep": ("plan", "nothing"),
    "file": ("run", "nothing.toml"),
    "workload": ("run", "--workload", "nothing", "--method", "sgd"),
    "method": ("run", "--workload", "digits-mlp", "--method", "nothing"),
    "attack": ("plan", "--workload", "digits-mlp", "--method", "sgd", "--attack", "nothing"),
    "parameter": ("plan", "--workload", "digits-mlp", "--method", "sgd", "--set", "nothing=1"),
    "backend": ("run", "--workload", "digits-mlp", "--method", "sgd", "--backend", "nothing"),
    "nested": ("plan", "nested.toml"),
    "table": ("run", "--published", "nothing"),
    "line": ("run", "--published", "dpsur-table-2", "--lines", "nothing"),
    "stated": ("run", "--published", "dpsur-table-2", "--set", "nothing=1"),
}


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """In a checkout the first command after a change asks all members."""
    call = Terminal(tmp_path_factory.mktemp("light"))
    nested = SWEEP.replace('"dp-sgd"', '[["dp-sgd"]]')
    (call.folder / "nested.toml").write_text(nested, encoding="utf-8")
    assert call("list", "methods").code == 0
    return call


@pytest.mark.parametrize("words", LIGHT.values(), ids=LIGHT)
def test_a_listing_loads_nothing_heavy(words: tuple[str, ...], terminal: Terminal) -> None:
    ended = terminal(*words)
    assert (ended.code, ended.loaded) == (0, [])
    assert len(ended.output.splitlines()) > 3


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_a_refusal_loads_nothing_heavy(words: tuple[str, ...], terminal: Terminal) -> None:
    ended = terminal(*words)
    assert (ended.code, ended.loaded) == (2, [])
    assert "nothing" in ended.errors or "dp-sgd" in ended.errors


@pytest.mark.slow
def test_a_finished_sweep_is_planned_queried_and_shown_without(tmp_path: Path) -> None:
    call = Terminal(tmp_path)
    (tmp_path / "small.toml").write_text(SWEEP, encoding="utf-8")
    assert call("run", "small.toml", "--slots", "1").code == 0
    sql = "select label, accuracy from frontier"
    for words in (("plan", "small.toml"), ("status",), ("status", "small"), ("query", sql)):
        ended = call(*words)
        assert (ended.code, ended.loaded) == (0, []), words
    planned = call("plan", "small.toml", "--json").json
    assert planned["to_run"] == 0
    assert planned["cached"] == planned["tasks"] == 5
    sent = call("enqueue", "small.toml", "--json")
    assert sent.json["sent"] == 0
    assert sent.loaded == []
