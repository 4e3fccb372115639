"""The command line as a user sees it: what works, what is refused, and that a refusal writes nothing."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from harness.cli import app
from harness.cli.price import METHOD

TINY = """
name = "tiny"
models = 3
attacks = ["loss", "lira"]
[[grid]]
workload = "digits-linear"
method = "sgd"
steps = 30
[[grid]]
workload = "digits-linear"
method = "dp-sgd"
steps = 12
epsilon = [4, inf]
"""


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Privbench = Callable[..., Answer]


@pytest.fixture
def privbench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Privbench:
    """Run the program in this process, in an empty folder with its own store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRIVBENCH_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["privbench", *arguments])
        capfd.readouterr()
        code = 0
        try:
            app.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        seen = capfd.readouterr()
        return Answer(code, seen.out, seen.err)

    return call


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.toml"
    file.write_text(TINY)
    return file


def refused(answer: Answer, *parts: str) -> None:
    assert answer.code == 2, answer
    for part in parts:
        assert part in answer.err
    assert "Traceback" not in answer.err
    assert not Path("privbench-store").exists(), "bad input wrote something"


# -- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["plan", "enqueue", "run"])
def test_an_unknown_method_is_refused_with_the_nearest_name(privbench: Privbench, command: str) -> None:
    answer = privbench(command, "--workload", "digits-mlp", "--method", "dp-sdg", "--epsilon", "1")
    refused(answer, "unknown method 'dp-sdg'", "did you mean 'dp-sgd'?")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plan", "enqueue", "run"])
def test_a_delta_of_one_over_n_is_warned_of_and_not_refused(privbench: Privbench, command: str) -> None:
    asked = ["--workload", "digits-linear", "--method", "dp-sgd", "--epsilon", "4", "--models", "1"]
    asked += ["--set", "delta=0.01", "--set", "steps=2", "--set", "batch_size=64", "--attack", "loss"]
    answer = privbench(command, *asked)
    assert answer.code == 0, answer
    assert "delta = 0.01 is not below 1 / n_train = 1 / 718" in answer.err
    if command == "plan":
        (text,) = privbench(command, *asked, "--json").json["warnings"]
        assert text in answer.err


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "lots"])
def test_an_invalid_epsilon_is_refused(privbench: Privbench, epsilon: str) -> None:
    answer = privbench("run", "--workload", "digits-mlp", "--method", "dp-sgd", f"--epsilon={epsilon}")
    refused(answer, "epsilon = ")


def test_a_single_model_with_a_shadow_attack_is_refused(privbench: Privbench) -> None:
    answer = privbench(
        "run", "--workload", "digits-mlp", "--method", "sgd", "--models", "1", "--attack", "lira"
    )
    refused(answer, "attack lira needs at least 2 shadow models")


def test_a_parameter_the_method_lacks_is_refused(privbench: Privbench) -> None:
    answer = privbench("run", "--workload", "digits-mlp", "--method", "sgd", "--set", "clip=1")
    refused(answer, "unknown parameter 'clip'")


def test_an_empty_grid_is_refused(privbench: Privbench, tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text('name = "x"\n')
    refused(privbench("run", "empty.toml"), "no grid")


def test_broken_toml_is_refused_with_its_line(privbench: Privbench, tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("models = 3\nmodels = = 4\n")
    refused(privbench("run", "broken.toml"), "broken.toml is not TOML", "line")


def test_several_mistakes_are_shown_together(privbench: Privbench, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(
        'modells = 3\nattacks = ["liar"]\n[[grid]]\nworkload = "digit-mlp"\nmethod = "sgd"\n'
    )
    refused(privbench("enqueue", "bad.toml"), "'modells'", "'liar'", "'digit-mlp'")


def test_a_store_of_a_newer_protocol_is_refused(privbench: Privbench, sweep: Path, tmp_path: Path) -> None:
    store = tmp_path / "newer"
    store.mkdir()
    (store / "store.json").write_text('{"protocol": 999}')
    for command in (["plan", str(sweep)], ["run", str(sweep)], ["status"], ["query", "select 1"]):
        refused(privbench(*command, "--store", str(store)), "protocol 999")
    assert [each.name for each in store.iterdir()] == ["store.json"]


def test_a_store_that_is_a_file_is_refused(privbench: Privbench, sweep: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    refused(privbench("run", str(sweep), "--store", "file"), "is a file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_of_something_else_is_refused(privbench: Privbench, sweep: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("meow")
    refused(privbench("run", str(sweep), "--store", "photos"), "is not a privbench store")


def test_a_missing_store(privbench: Privbench) -> None:
    for command in (["status"], ["collect"], ["report", "all"], ["query", "select 1"], ["logs", "ab"]):
        refused(privbench(*command), "no store at")


def test_an_unknown_backend_and_a_sweep_beside_options(privbench: Privbench, sweep: Path) -> None:
    refused(privbench("enqueue", str(sweep), "--backend", "slrum"), "unknown backend 'slrum'")
    refused(privbench("run", str(sweep), "--workload", "digits-mlp"), "not both")
    refused(privbench("show", "method", "dp-sdg"), "did you mean 'dp-sgd'?")


def test_an_unknown_command_is_wrong_use(privbench: Privbench) -> None:
    assert privbench("list", "things").code == 2
    assert privbench("fly").code == 2


# -- what works --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["methods", "workloads", "attacks", "sweeps"])
def test_listings_as_tables_and_as_json(privbench: Privbench, kind: str) -> None:
    rows = privbench("list", kind, "--json").json
    assert rows
    shown = privbench("list", kind).out
    assert all(row["name"] in shown for row in rows)


@pytest.mark.parametrize(
    ("kind", "name", "parts"),
    [
        ("method", "dp-sgd", ["epsilon", "noise_multiplier", "approximate-dp", "Abadi"]),
        ("workload", "digits-mlp", ["718", "1437", "ours", "batch_size"]),
        ("attack", "lira", ["online", "Carlini"]),
        ("sweep", "quickstart", ["digits-mlp", "epsilon = [1, 4, 8]"]),
    ],
)
def test_pages(privbench: Privbench, kind: str, name: str, parts: list[str]) -> None:
    shown = privbench("show", kind, name).out
    assert all(part in shown for part in parts), shown
    assert privbench("show", kind, name, "--json").json["name"] == name


def test_data_and_doctor(privbench: Privbench) -> None:
    names = {row["name"] for row in privbench("data", "list", "--json").json}
    assert "digits" in names
    states = {row["name"]: row["state"] for row in privbench("data", "verify", "--json").json}
    assert set(states.values()) == {"good"}
    rows = {row["what"]: row for row in privbench("doctor", "--json").json}
    assert rows["torch"]["state"] == rows["data set digits"]["state"] == rows["store"]["state"] == "good"
    assert {f"data set {name}" for name in names} <= rows.keys()
    missing = [row for what, row in rows.items() if what.startswith("data set") and row["state"] != "good"]
    assert all("privbench data fetch" in row["found"] for row in missing)


@pytest.mark.parametrize("command", [["run", "quickstart"], ["plan", "quickstart"], ["status"], ["collect"]])
@pytest.mark.parametrize("place", ["file/below/it", "/dev/null/store", "x" * 300])
def test_an_impossible_store_gets_one_line(
    privbench: Privbench, tmp_path: Path, command: list[str], place: str
) -> None:
    (tmp_path / "file").write_text("mine")
    answer = privbench(*command, "--store", place)
    refused(answer, place[:250], "--store")
    assert len(answer.err.splitlines()) == 1


def test_a_store_that_the_file_system_refuses_gets_one_line(privbench: Privbench) -> None:
    small = ["--workload", "digits-linear", "--method", "sgd", "--set", "steps=2", "--models", "1"]
    answer = privbench("enqueue", *small, "--store", "/proc/store")
    refused(answer, "/proc/store")
    assert len(answer.err.splitlines()) == 1
    rows = {row["what"]: row for row in privbench("doctor", "--store", "/dev/null/x", "--json").json}
    assert rows["store"]["state"] == "missing"


def test_attacks_with_parameters_and_a_seed(privbench: Privbench) -> None:
    asked = ["--workload", "digits-linear", "--method", "sgd", "--models", "3", "--no-probe", "--json"]
    seen = {
        tuple(each["cell"] for each in privbench("plan", *asked, *more).json["cells_planned"])
        for more in ([], ["--seed", "0"], ["--seed", "1"])
    }
    assert len(seen) == 2, "the default is 0"
    plain = privbench("plan", *asked, "--attack", "rmia").json["attacks"]
    assert privbench("plan", *asked, "--attack", "rmia:gamma=2,rmia").json["attacks"] == plain + 1
    refused(privbench("plan", *asked, "--attack", "rmia:gama=2"), "'gamma'")
    refused(privbench("plan", *asked, "--attack", "rmia:gamma"), "--attack rmia:gamma")
    refused(privbench("run", "quickstart", "--seed", "0"), "not both")


def test_a_plan_states_why_a_cost_is_unknown(privbench: Privbench) -> None:
    asked = ["--workload", "digits-linear", "--method", "sgd", "--models", "3", "--no-probe"]
    content = privbench("plan", *asked, "--json").json
    assert content["hours"] is None
    assert [each["tasks"] for each in content["unknown"]] == [3]
    assert "--no-probe" in content["unknown"][0]["reason"]
    assert "--no-probe" in privbench("plan", *asked).out


def test_plan_sends_nothing(privbench: Privbench, sweep: Path) -> None:
    shown = privbench("plan", str(sweep), "--json")
    assert shown.code == 0
    assert shown.json["cells"] == 3
    assert shown.json["tasks"] == 3 * (3 + 5)
    assert shown.json["to_run"] == 24
    assert shown.json["hours"] > 0
    assert 0 < shown.json["hours_here"] <= shown.json["hours"]
    assert shown.json["slots"] >= 1
    assert shown.json["unknown"] == []
    assert shown.json["memory_gib"] > 0
    assert not Path("privbench-store").exists()


def test_help_loads_no_torch_and_is_quick() -> None:
    """The target is half a second of CPU; the test allows for a slower machine."""
    code = (
        "import sys, time; sys.argv = ['privbench', '--help']\n"
        "from harness.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'duckdb', 'sqlalchemy', 'matplotlib', 'sklearn', 'pydantic'}\n"
        "heavy &= set(sys.modules)\n"
        "print('HEAVY', sorted(heavy), time.process_time())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("HEAVY [] "), last
    assert float(last.split()[-1]) < 1.5


def every_command() -> dict[str, Any]:
    """Every command and group, by what is typed after `privbench`."""
    found: dict[str, Any] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), get_command(app.app))]
    while waiting:
        words, command = waiting.pop()
        for name, each in getattr(command, "commands", {}).items():
            found[" ".join((*words, name))] = each
            waiting.append(((*words, name), each))
    return found


def test_help_has_panels_in_the_order_of_use(privbench: Privbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = privbench("--help").out
    lines = [re.split(r"[^-\w]+", line.strip("╭│─ "))[0] for line in shown.splitlines() if line[:1] in "╭│"]
    expected = [word for panel, commands in app.COMMANDS.items() for word in (panel, *commands)]
    assert [word for word in lines if word in expected] == expected
    assert [*app.COMMANDS] == ["Start", "Sweeps", "Results", "Tools"]
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("name", sorted(every_command()))
def test_every_command_has_an_example_that_parses(name: str) -> None:
    epilog = every_command()[name].epilog or ""
    example = re.match(r"Example: (privbench .+)", epilog)
    assert example, f"`privbench {name} --help` has no example"
    arguments = shlex.split(example[1])[1:]
    group, _, last = name.rpartition(" ")
    assert arguments[: len(name.split())] == name.split() or (last == METHOD and arguments[0] == group)
    command: Any = get_command(app.app)
    while hasattr(command, "commands"):
        last, command, arguments = command.resolve_command(command.context_class(command), arguments)
    command.make_context(last, arguments)


def test_the_version_needs_no_command(privbench: Privbench) -> None:
    answer = privbench("--version")
    assert (answer.code, answer.out.strip()) == (0, version("privbench"))


@pytest.mark.slow
def test_the_whole_path(privbench: Privbench, sweep: Path) -> None:
    first = privbench("run", str(sweep))
    assert first.code == 0, first
    assert "3/3 cells, 24/24 tasks" in first.out
    assert "frontier" in first.out

    rows = privbench("query", "select * from frontier", "--format", "json").json
    assert len(rows) == 3 * 4
    for row in rows:
        assert row["accuracy"] is not None
        assert row["auc_low"] <= row["auc"] <= row["auc_high"]
        assert row["valid"] is True
    assert {row["epsilon_asked"] for row in rows} == {None, 4.0, "inf"}

    again = privbench("run", str(sweep))
    assert again.code == 0
    assert "24 tasks, 0 to run" in again.out

    summary = privbench("status", "--json").json["sweeps"]
    assert [(each["sweep"], each["done"], each["failed"]) for each in summary] == [("tiny", 24, 0)]
    assert privbench("status", "tiny").code == 0

    task = privbench("query", "select key from task where kind = 'train'", "--format", "csv").out.split()[1]
    assert "pid" in privbench("logs", task[:14]).out

    assert privbench("collect", "--json").json["new"] == 0
    before = privbench("query", "select * from model_run order by task", "--format", "csv").out
    assert privbench("collect", "--rebuild").code == 0
    assert privbench("query", "select * from model_run order by task", "--format", "csv").out == before

    written = privbench("report", "all", "--out", "figures").out.split()
    assert {Path(each).suffix for each in written} >= {".png", ".svg", ".pdf", ".html", ".md", ".tex", ".csv"}
    assert all(Path(each).stat().st_size > 0 for each in written)
    assert privbench("report", "frontier", "--where", "wings > 2").code == 2


@pytest.mark.slow
def test_a_pipe_that_closes_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m harness.cli list methods --json | head -c 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ,
    )
    assert "Traceback" not in done.stderr
