"""`privbench price`: correct numbers, no torch, and errors that state what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import methods
from harness.cli.app import main
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from methods.base import Budgeted, Calibrated, Quoted
from tests.harness import scaled

METHODS = [name for name, each in methods.family.members.items() if isinstance(each, Calibrated)]

SUBSAMPLED = ["subsampled-gaussian", "--n", "60000", "--batch-size", "256"]
SELECTIVE = [
    *("selective", "--n", "25000", "--batch-size", "1024", "--noise", "2"),
    *("--test-batch-size", "128", "--test-noise", "1.3", "--accepted", "99", "--attempts", "198"),
]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `privbench price ...`."""
    monkeypatch.setattr(sys, "argv", ["privbench", "price", *words])
    with pytest.raises(SystemExit) as end:
        main()
    quoted = capsys.readouterr()
    return int(end.value.code or 0), quoted.out, quoted.err


@pytest.fixture
def quote(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def ask(*words: str) -> Any:
        code, out, _ = call(monkeypatch, capsys, *words, "--json")
        assert code == 0
        return json.loads(out)

    return ask


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def ask(*words: str) -> str:
        code, out, err = call(monkeypatch, capsys, *words)
        assert (code, out) == (2, "")
        return " ".join(err.split())

    return ask


def test_every_accountant_is_reported_and_the_headline_named(quote: Any) -> None:
    quoted = quote(*SUBSAMPLED, "--noise", "1.1", "--steps", "14062", "--delta", "1e-5")
    assert quoted["headline"] == "pld"
    assert quoted["epsilon"] == quoted["epsilons"]["pld"] == pytest.approx(2.3817, abs=2e-4)
    assert quoted["epsilons"]["rdp"] == pytest.approx(2.5966, abs=2e-4)
    assert quoted["epsilons"]["rdp_classic"] == pytest.approx(3.0083, abs=2e-4)
    assert quoted["epsilons"]["prv"] == pytest.approx(2.3917, abs=2e-4)
    assert quoted["assumptions"]


def test_noise_and_steps_are_solved_for(quote: Any) -> None:
    noise = quote("gaussian", "--target-epsilon", "1.993091")
    assert noise["settings"]["noise"] == pytest.approx(2.0, rel=2e-3)
    assert 1.991 <= noise["epsilon"] <= 1.993091
    steps = quote(
        "subsampled-gaussian", "--n", "10", "--batch-size", "10", "--noise", "10", "--target-epsilon", "2"
    )
    assert steps["settings"]["steps"] == 25
    scale = quote("laplace", "--target-epsilon", "1")
    assert scale["epsilon"] == pytest.approx(1, rel=1e-3)


@pytest.mark.slow
def test_fixed_batches_are_priced_under_replace_one(quote: Any) -> None:
    words = (*SUBSAMPLED, "--noise", "4", "--steps", "10")
    fixed, poisson = quote(*words, "--sampling", "fixed"), quote(*words)
    assert (fixed["adjacency"], poisson["adjacency"]) == ("replace-one", "add-or-remove-one")
    assert fixed["epsilon"] > poisson["epsilon"]


def test_directions(quote: Any) -> None:
    quoted = quote("directional", "--rows", "12x75,24x300,10x768,3x12,1x10", "--kappa", "1", "--uses", "30")
    assert quoted["epsilons"]["pure"] == 3000
    assert quoted["epsilon"] == pytest.approx(71.1, abs=0.1)
    assert any("sqrt(50)" in note for note in quoted["notes"])
    whole = quote("directional", "--dimension", "16000", "--uses", "30", "--target-epsilon", "1")
    assert whole["settings"]["kappa"] == pytest.approx(3.094, abs=2e-3)
    sampled = quote(
        *[
            "directional",
            "--dimension",
            "16000",
            "--kappa",
            "10",
            "--n",
            "50000",
            "--batch-size",
            "128",
            "--uses",
            "100",
        ]
    )
    assert 0 < sampled["epsilon"] < 0.1
    rows = ["directional", "--rows", "12x75,24x300,10x768,3x12,1x10", "--kappa", "1", "--uses", "30"]
    amplified = quote(*rows, "--n", "50000", "--batch-size", "128")
    assert 0 < amplified["epsilon"] < 0.1 * quoted["epsilon"], "rows are amplified by sampling too"


def test_votes_from_counts_and_from_files(quote: Any, tmp_path: Path) -> None:
    words = ["votes", "--aggregator", "laplace", "--noise", "20"]
    quoted = quote(*words, "--counts", "200,50", "--classes", "10", "--queries", "100")
    assert quoted["epsilons"]["data_dependent"] == pytest.approx(0.5556, abs=1e-4)
    table = [[200, 50] + [0] * 8] * 100
    rows = tmp_path / "votes.csv"
    rows.write_text("\n".join(",".join(map(str, row)) for row in table))
    listed = tmp_path / "votes.json"
    listed.write_text(json.dumps(table))
    for file in (rows, listed):
        assert quote(*words, "--votes", str(file))["epsilons"] == quoted["epsilons"]
    unseen = quote(*words, "--queries", "100")
    assert "data_dependent" not in unseen["epsilons"]
    assert unseen["epsilon"] == quoted["epsilon"]
    assert not any("sanitised" in line for line in unseen["assumptions"])


@pytest.mark.slow
def test_selective_release_has_three_prices(quote: Any) -> None:
    quoted = quote(*SELECTIVE)
    assert quoted["epsilons"]["paper"] == pytest.approx(1.0, abs=5e-3)
    assert quoted["epsilons"]["rdp"] == pytest.approx(1.409, abs=1e-3)
    assert quoted["lower_bounds"]["worst_case"] == pytest.approx(1.068, abs=1e-3)
    assert quoted["epsilon"] == quoted["epsilons"]["pld"] < quoted["epsilons"]["rdp"]
    assert any("broken in the worst case" in note for note in quoted["notes"])
    assert quote(*SELECTIVE, "--no-lower")["lower_bounds"] == {}


def test_ceilings(quote: Any) -> None:
    quoted = quote("gaussian", "--noise", "2", "--tpr-at-fpr", "0.01", "--tpr-at-fpr", "0.1")
    assert [row["fpr"] for row in quoted["ceilings"]] == [0.01, 0.1]
    assert quoted["ceilings"][0]["tpr"] == pytest.approx(0.0339, abs=1e-4)
    assert quoted["ceilings"][0]["basis"] == "gaussian"


def test_a_pure_price(quote: Any) -> None:
    quoted = quote("laplace", "--noise", "2", "--count", "3", "--delta", "0")
    assert (quoted["kind"], quoted["epsilon"], quoted["delta"]) == ("pure-dp", 1.5, 0)


@pytest.mark.slow
def test_the_default_is_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(monkeypatch, capsys, *SELECTIVE, "--tpr-at-fpr", "0.01")
    assert code == 0
    for word in ("headline: epsilon", "rdp_classic", "disputed", "lower bounds", "TPR at most", "assumes:"):
        assert word in out


@pytest.mark.parametrize(
    ("words", "pieces"),
    [
        (
            [*SUBSAMPLED[:3], "--batch-size", "70000", "--noise", "-1", "--steps", "0", "--delta", "2"],
            [
                "--batch-size must be >= 1 and <= 60000, got 70000",
                "--noise must be > 0, got -1",
                "--steps must be >= 1, got 0",
                "--delta must be >= 0 and < 1, got 2: 1e-5 is usual",
            ],
        ),
        ([*SUBSAMPLED, "--noise", "1.1"], ["give --noise and --steps, or leave one out"]),
        ([*SUBSAMPLED, "--target-epsilon", "1"], ["leave out exactly one, 2 are missing"]),
        ([*SUBSAMPLED, "--noise", "nan", "--steps", "5"], ["--noise must be > 0, got nan"]),
        (
            ["gaussian", "--target-epsilon", "5000"],
            ["--target-epsilon must be >= 0.01 and <= 1000, got 5000"],
        ),
        (["gaussian", "--noise", "1", "--delta", "0"], ["delta must be > 0 and < 1, got 0"]),
        (["gaussian", "--noise", "1", "--tpr-at-fpr", "2"], ["--tpr-at-fpr must be >= 0 and <= 1, got 2"]),
        (["directional", "--kappa", "1"], ["give --dimension or --rows"]),
        (["directional", "--kappa", "1", "--rows", "75"], ["COUNTxDIMENSION", "got '75'", "12x75"]),
        (["directional", "--kappa", "1", "--rows", "2x9", "--dimension", "4"], ["give one of the two"]),
        (["directional", "--kappa", "1", "--dimension", "9", "--n", "9"], ["give both or neither"]),
        (["directional", "--kappa", "1", "--dimension", "1"], ["dimension must be >= 2, got 1"]),
        (["votes", "--noise", "20"], ["give --votes, --counts or --queries"]),
        (["votes", "--noise", "20", "--counts", "5,x"], ["--counts must be", "got '5,x'"]),
        (["votes", "--noise", "20", "--queries", "0"], ["--queries must be >= 1, got 0"]),
        (["votes", "--noise", "20", "--votes", "/nowhere.csv"], ["/nowhere.csv", "CSV file"]),
        (["votes", "--noise", "20", "--queries", "5", "--answered", "6"], ["from 0 to the 5 queries, got 6"]),
        (
            [*SELECTIVE, "--accepted", "500"],
            ["accepted must be from 0 to the number of attempts, 198; got 500"],
        ),
    ],
)
def test_bad_input_is_reported_with_value_bound_and_remedy(
    words: list[str], pieces: list[str], refusal: Any
) -> None:
    message = refusal(*words)
    for piece in pieces:
        assert piece in message


@pytest.mark.parametrize("content", ["[[1, Infinity]]", "[" * 100_000, "[[1, [2]]]", "{}", "[[1e999, 2]]"])
def test_votes_that_are_no_counts_are_refused(content: str, refusal: Any, tmp_path: Path) -> None:
    file = tmp_path / "votes.json"
    file.write_text(content)
    assert "--votes" in refusal("votes", "--noise", "20", "--votes", str(file))


MECHANISMS = ["subsampled-gaussian", "gaussian", "laplace", "directional", "votes", "selective"]
METHOD = ["--set", "noise_multiplier=1.1", "--set", "batch_size=256", "--set", "steps=14062"]
TORCHLESS = (
    "import sys; sys.argv = ['privbench', *sys.argv[1:]]\n"
    "from harness.cli.app import main\n"
    "try: main()\n"
    "except SystemExit as end: assert not end.code\n"
    "print('torch' in sys.modules or 'opacus' in sys.modules)\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["subsampled-gaussian", "--n", "100", "--batch-size", "10", "--noise", "2", "--steps", "5"],
        ["votes", "--noise", "20", "--queries", "5"],
    ],
)
def test_a_mechanism_loads_no_torch(words: list[str]) -> None:
    command = [sys.executable, "-c", TORCHLESS, "price", *words, "--tpr-at-fpr", "0.01", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.slow
def test_a_plug_in_is_priced_by_its_plan_and_loads_no_torch_that_it_does_not_need(tmp_path: Path) -> None:
    installed = tmp_path / "scaled-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: scaled\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[privbench.methods]\nscaled = scaled:method\n")
    (tmp_path / "scaled.py").write_text(Path(scaled.__file__).read_text())
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    words = ["price", "scaled", "--set", "looks=1", "--n-train", "100", "--target-epsilon", "1.993091"]
    command = [sys.executable, "-c", TORCHLESS, *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=here)
    *printed, loaded = done.stdout.splitlines()
    quoted = json.loads("\n".join(printed))
    assert (quoted["mechanism"], loaded) == ("scaled", "False")
    assert quoted["settings"]["scale"] == pytest.approx(2.0, rel=2e-3)
    assert quoted["defaults"] == {"batch_size": 8}


@pytest.mark.slow
def test_a_method_costs_what_its_mechanism_does(quote: Any) -> None:
    quoted = quote("dp-sgd", *METHOD, "--n-train", "60000", "--tpr-at-fpr", "0.01")
    mechanism = quote(*SUBSAMPLED, "--noise", "1.1", "--steps", "14062", "--tpr-at-fpr", "0.01")
    assert (quoted["epsilons"], quoted["ceilings"]) == (mechanism["epsilons"], mechanism["ceilings"])
    assert quoted["settings"] == {
        "n_train": 60000,
        "noise_multiplier": 1.1,
        "steps": 14062,
        "batch_size": 256,
    }
    assert quoted["defaults"]["clip"] == 1
    halved = quote("dp-sgd", *METHOD, "--n-train", "60000", "--delta", "1e-6")
    assert halved["delta"] == 1e-6
    assert halved["epsilon"] > quoted["epsilon"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("dp-sgd", [*SUBSAMPLED[1:], "--noise", "4", "--steps", "10", "--sampling", "fixed"]),
        ("dirdp-sgd", ["--rows", "12x75,1x10", "--kappa", "1", "--uses", "3"]),
        ("pate", ["--aggregator", "laplace", "--noise=20", "--counts", "200,50", "--queries", "9"]),
        ("dpsur", [*SELECTIVE[1:], "--no-lower"]),
    ],
)
def test_a_method_takes_the_options_of_its_mechanism(method: str, words: list[str], quote: Any) -> None:
    declared = methods.family.get(method)
    assert isinstance(declared, Quoted)
    assert declared.mechanism in MECHANISMS
    assert quote(method, *words) == quote(declared.mechanism, *words)


@pytest.mark.slow
def test_what_a_method_leaves_out_is_solved_for(quote: Any) -> None:
    words = ("--n-train", "60000", "--target-epsilon", "2")
    noise = quote("dp-sgd", *METHOD[2:], *words)
    assert noise["settings"]["noise_multiplier"] == pytest.approx(1.21, abs=0.02)
    assert 1.998 <= noise["epsilon"] <= 2
    steps = quote("dp-sgd", *METHOD[:4], *words)
    assert steps["settings"]["steps"] == pytest.approx(10195, abs=20)
    assert any("steps = " in note for note in steps["notes"])


SEARCH = ("search", "--set", "batch_size=600", "--set", "steps=1000", "--n-train", "60000")


def test_a_search_is_priced_for_three_distributions(quote: Any) -> None:
    quoted = quote(*SEARCH, "--set", "noise_multiplier=1", "--mean", "10")
    rows = {row["distribution"]: row for row in quoted["distributions"]}
    found = {name: row["epsilon"] for name, row in rows.items()}
    assert found == pytest.approx({"logarithmic": 3.5226, "geometric": 4.1033, "Poisson": 4.3295}, abs=1e-3)
    assert [row["base_epsilon"] for row in rows.values()] == pytest.approx([1.8283] * 3, abs=1e-3)
    trials = {name: (row["median_trials"], row["trials_95"]) for name, row in rows.items()}
    assert trials == {"logarithmic": (4, 41), "geometric": (7, 29), "Poisson": (10, 15)}


def test_a_search_leaves_less_for_each_training(quote: Any) -> None:
    quoted = quote(*SEARCH, "--target-epsilon", "4", "--mean", "5", "--shape", "0.5")
    rows = quoted["distributions"]
    assert [row["distribution"] for row in rows][3] == "negative binomial"
    assert [row["base_epsilon"] for row in rows][:3] == pytest.approx([2.268, 1.994, 2.242], abs=2e-3)
    assert [row["noise_multiplier"] for row in rows][:3] == pytest.approx([0.9080, 0.9603, 0.9125], rel=1e-3)
    assert all(3.99 <= row["epsilon"] <= 4 for row in rows)


def test_a_search_with_exact_scores_has_no_price(quote: Any) -> None:
    quoted = quote(*SEARCH, "--set", "noise_multiplier=1", "--score-noise", "0")
    assert {row["epsilon"] for row in quoted["distributions"]} == {None}


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--mean", "0.5"), "--mean"),
        (("--shape=-1",), "--shape"),
        (("--score-noise=-1",), "--score-noise"),
        (("--set", "noise=1"), "noise"),
        (("--target-epsilon", "4"), "--target-epsilon"),
        (("--set", "clip=-1"), "clip"),
        (("--base", "sgd"), "sgd"),
    ],
)
def test_a_search_that_cannot_be_priced_is_refused(words: tuple[str, ...], option: str, refusal: Any) -> None:
    assert option in refusal(*SEARCH, "--set", "noise_multiplier=1", *words)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_calibrated_method_is_priced_as_it_is_planned(name: str, quote: Any) -> None:
    quoted = quote(name, "--workload", "digits-linear", "--target-epsilon", "4")
    grid = {"workload": "digits-linear", "method": name, "epsilon": 4.0}
    (cell,) = make_plan(*read_sweep({"models": 1, "grid": [grid]}, "one"), None).cells
    planned = {each: value for each, value in cell.params.items() if each not in ("epsilon", "delta")}
    assert quoted["settings"] | quoted["defaults"] == json.loads(
        json.dumps({"n_train": cell.n_train, **planned})
    )
    assert 3.99 <= quoted["epsilon"] <= 4
    assert "data_dependent" not in quoted["epsilons"]


@pytest.mark.parametrize("name", sorted({*methods.family.names()} - {*METHODS}))
def test_a_method_that_cannot_be_priced_states_why(name: str, refusal: Any) -> None:
    message = refusal(name, "--n-train", "100")
    assert f"{name} cannot be priced in advance: it" in message
    assert ("spends its budget adaptively" in message) == isinstance(methods.family.get(name), Budgeted)


@pytest.mark.parametrize(
    ("words", "pieces"),
    [
        (["dp-sgd", *METHOD], ["--n-train is missing", "--workload"]),
        (["dp-sgd", "--n-train", "9"], ["give --set noise_multiplier=VALUE", "--target-epsilon"]),
        (["dp-sgd", *METHOD, "--n-train", "0"], ["--n-train must be >= 1, got 0"]),
        (
            ["dp-sgd", *METHOD, "--n-train", "9", "--target-epsilon", "1"],
            ["epsilon, noise_multiplier and steps are given: give two"],
        ),
        (
            ["dpis", "--set", "noise_multiplier=1", "--n-train", "9", "--target-epsilon", "1"],
            ["noise_multiplier is solved from epsilon: give one of the two"],
        ),
        (["dp-sgd", "--set", "stops=1", "--n-train", "9"], ["parameter of dp-sgd 'stops'", "mean 'steps'?"]),
        (["dp-sgd", "--set", "steps", "--n-train", "9"], ["--set steps: give NAME=VALUE"]),
        (["dp-sgd", "--set", "clip=1", "--set", "clip=2", "--n-train", "9"], ["clip was already given as 1"]),
        (["dp-sgd", "--set", "noise_multiplier=-1", "--n-train", "9"], ["must be >= 0, got -1"]),
        (
            ["dp-sgd", "--set", "epsilon=1", "--target-epsilon", "1", "--n-train", "9"],
            ["epsilon is given twice"],
        ),
        (["dirdp-sgd", "--set", "kappa=1", "--n-train", "99"], ["directions is not set", "--workload NAME"]),
        (["dp-sgd", *METHOD, "--workload", "digit-linear"], ["unknown workload", "digits-linear"]),
        (["dp-sdg", "--n-train", "9"], ["unknown method or mechanism 'dp-sdg'", "mean 'dp-sgd'?"]),
        (["gausian", "--noise", "9"], ["unknown method or mechanism 'gausian'", "mean 'gaussian'?"]),
    ],
)
def test_wrong_options_of_a_method_are_refused(words: list[str], pieces: list[str], refusal: Any) -> None:
    message = refusal(*words)
    for piece in pieces:
        assert piece in message


@pytest.mark.parametrize("name", [*MECHANISMS, "dp-sgd"])
def test_help_has_examples(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = call(monkeypatch, capsys, name, "--help")
    assert code == 0
    assert "--delta" in out
    assert "Price" in out
