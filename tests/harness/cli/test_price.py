"""`privbench price`: right numbers, no torch, and errors that say what to do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.cli.app import main

DP_SGD = ["dp-sgd", "--n", "60000", "--batch-size", "256"]
DPSUR = [
    *("dpsur", "--n", "25000", "--batch-size", "1024", "--noise", "2"),
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
    told = capsys.readouterr()
    return int(end.value.code or 0), told.out, told.err


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


def test_every_accountant_is_told_and_the_headline_named(quote: Any) -> None:
    told = quote(*DP_SGD, "--noise", "1.1", "--steps", "14062", "--delta", "1e-5")
    assert told["headline"] == "pld"
    assert told["epsilon"] == told["epsilons"]["pld"] == pytest.approx(2.3817, abs=2e-4)
    assert told["epsilons"]["rdp"] == pytest.approx(2.5966, abs=2e-4)
    assert told["epsilons"]["rdp_classic"] == pytest.approx(3.0083, abs=2e-4)
    assert told["epsilons"]["prv"] == pytest.approx(2.3917, abs=2e-4)
    assert told["assumptions"]


def test_noise_and_steps_are_solved_for(quote: Any) -> None:
    noise = quote("gaussian", "--target-epsilon", "1.993091")
    assert noise["settings"]["noise"] == pytest.approx(2.0, rel=2e-3)
    assert 1.991 <= noise["epsilon"] <= 1.993091
    steps = quote("dp-sgd", "--n", "10", "--batch-size", "10", "--noise", "10", "--target-epsilon", "2")
    assert steps["settings"]["steps"] == 25
    scale = quote("laplace", "--target-epsilon", "1")
    assert scale["epsilon"] == pytest.approx(1, rel=1e-3)


def test_fixed_batches_speak_of_replaced_records(quote: Any) -> None:
    words = (*DP_SGD, "--noise", "4", "--steps", "10")
    fixed, poisson = quote(*words, "--sampling", "fixed"), quote(*words)
    assert (fixed["adjacency"], poisson["adjacency"]) == ("replace-one", "add-or-remove-one")
    assert fixed["epsilon"] > poisson["epsilon"]


def test_directions(quote: Any) -> None:
    told = quote("dirdp-sgd", "--rows", "12x75,24x300,10x768,3x12,1x10", "--kappa", "1", "--uses", "30")
    assert told["epsilons"]["pure"] == 3000
    assert told["epsilon"] == pytest.approx(71.1, abs=0.1)
    assert any("sqrt(50)" in note for note in told["notes"])
    whole = quote("dirdp-sgd", "--dimension", "16000", "--uses", "30", "--target-epsilon", "1")
    assert whole["settings"]["kappa"] == pytest.approx(3.094, abs=2e-3)
    sampled = quote(
        *[
            "dirdp-sgd",
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
    rows = ["dirdp-sgd", "--rows", "12x75,24x300,10x768,3x12,1x10", "--kappa", "1", "--uses", "30"]
    amplified = quote(*rows, "--n", "50000", "--batch-size", "128")
    assert 0 < amplified["epsilon"] < 0.1 * told["epsilon"], "rows are amplified by sampling too"


def test_votes_from_counts_and_from_files(quote: Any, tmp_path: Path) -> None:
    words = ["pate", "--aggregator", "laplace", "--noise", "20"]
    told = quote(*words, "--counts", "200,50", "--classes", "10", "--queries", "100")
    assert told["epsilons"]["data_dependent"] == pytest.approx(0.5556, abs=1e-4)
    table = [[200, 50] + [0] * 8] * 100
    rows = tmp_path / "votes.csv"
    rows.write_text("\n".join(",".join(map(str, row)) for row in table))
    listed = tmp_path / "votes.json"
    listed.write_text(json.dumps(table))
    for file in (rows, listed):
        assert quote(*words, "--votes", str(file))["epsilons"] == told["epsilons"]
    unseen = quote(*words, "--queries", "100")
    assert "data_dependent" not in unseen["epsilons"]
    assert unseen["epsilon"] == told["epsilon"]
    assert not any("sanitised" in line for line in unseen["assumptions"])


def test_dpsur_has_three_prices(quote: Any) -> None:
    told = quote(*DPSUR)
    assert told["epsilons"]["paper"] == pytest.approx(1.0, abs=5e-3)
    assert told["epsilons"]["rdp"] == pytest.approx(1.409, abs=1e-3)
    assert told["lower_bounds"]["worst_case"] == pytest.approx(1.068, abs=1e-3)
    assert told["epsilon"] == told["epsilons"]["pld"] < told["epsilons"]["rdp"]
    assert any("broken in the worst case" in note for note in told["notes"])
    assert quote(*DPSUR, "--no-lower")["lower_bounds"] == {}


def test_ceilings(quote: Any) -> None:
    told = quote("gaussian", "--noise", "2", "--tpr-at-fpr", "0.01", "--tpr-at-fpr", "0.1")
    assert [row["fpr"] for row in told["ceilings"]] == [0.01, 0.1]
    assert told["ceilings"][0]["tpr"] == pytest.approx(0.0339, abs=1e-4)
    assert told["ceilings"][0]["basis"] == "gaussian"


def test_a_pure_price(quote: Any) -> None:
    told = quote("laplace", "--noise", "2", "--count", "3", "--delta", "0")
    assert (told["kind"], told["epsilon"], told["delta"]) == ("pure-dp", 1.5, 0)


def test_people_read_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(monkeypatch, capsys, *DPSUR, "--tpr-at-fpr", "0.01")
    assert code == 0
    for word in ("headline: epsilon", "rdp_classic", "disputed", "lower bounds", "TPR at most", "assumes:"):
        assert word in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            [*DP_SGD[:3], "--batch-size", "70000", "--noise", "-1", "--steps", "0", "--delta", "2"],
            [
                "--batch-size must be >= 1 and <= 60000, got 70000",
                "--noise must be > 0, got -1",
                "--steps must be >= 1, got 0",
                "--delta must be >= 0 and < 1, got 2: 1e-5 is usual",
            ],
        ),
        ([*DP_SGD, "--noise", "1.1"], ["give --noise and --steps, or leave one out"]),
        ([*DP_SGD, "--target-epsilon", "1"], ["leave out exactly one, 2 are missing"]),
        ([*DP_SGD, "--noise", "nan", "--steps", "5"], ["--noise must be > 0, got nan"]),
        (
            ["gaussian", "--target-epsilon", "5000"],
            ["--target-epsilon must be >= 0.01 and <= 1000, got 5000"],
        ),
        (["gaussian", "--noise", "1", "--delta", "0"], ["delta must be > 0 and < 1, got 0"]),
        (["gaussian", "--noise", "1", "--tpr-at-fpr", "2"], ["--tpr-at-fpr must be >= 0 and <= 1, got 2"]),
        (["dirdp-sgd", "--kappa", "1"], ["give --dimension or --rows"]),
        (["dirdp-sgd", "--kappa", "1", "--rows", "75"], ["COUNTxDIMENSION", "got '75'", "12x75"]),
        (["dirdp-sgd", "--kappa", "1", "--rows", "2x9", "--dimension", "4"], ["give one of the two"]),
        (["dirdp-sgd", "--kappa", "1", "--dimension", "9", "--n", "9"], ["give both or neither"]),
        (["dirdp-sgd", "--kappa", "1", "--dimension", "1"], ["dimension must be >= 2, got 1"]),
        (["pate", "--noise", "20"], ["give --votes, --counts or --queries"]),
        (["pate", "--noise", "20", "--counts", "5,x"], ["--counts must be", "got '5,x'"]),
        (["pate", "--noise", "20", "--queries", "0"], ["--queries must be >= 1, got 0"]),
        (["pate", "--noise", "20", "--votes", "/nowhere.csv"], ["/nowhere.csv", "CSV file"]),
        (["pate", "--noise", "20", "--queries", "5", "--answered", "6"], ["from 0 to the 5 queries, got 6"]),
        ([*DPSUR, "--accepted", "500"], ["accepted must be from 0 to the number of attempts, 198; got 500"]),
    ],
)
def test_bad_input_is_told_with_value_bound_and_remedy(
    words: list[str], told: list[str], refusal: Any
) -> None:
    said = refusal(*words)
    for piece in told:
        assert piece in said


@pytest.mark.parametrize("content", ["[[1, Infinity]]", "[" * 100_000, "[[1, [2]]]", "{}", "[[1e999, 2]]"])
def test_votes_that_are_no_counts_are_refused(content: str, refusal: Any, tmp_path: Path) -> None:
    file = tmp_path / "votes.json"
    file.write_text(content)
    assert "--votes" in refusal("pate", "--noise", "20", "--votes", str(file))


def test_no_torch_is_loaded() -> None:
    words = [
        "price",
        "dp-sgd",
        "--n",
        "100",
        "--batch-size",
        "10",
        "--noise",
        "2",
        "--steps",
        "5",
        "--tpr-at-fpr",
        "0.01",
        "--json",
    ]
    code = (
        "import sys; sys.argv = ['privbench', *sys.argv[1:]]\n"
        "from harness.cli.app import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print('torch' in sys.modules or 'opacus' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("name", ["dp-sgd", "gaussian", "laplace", "dirdp-sgd", "pate", "dpsur"])
def test_help_teaches(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(monkeypatch, capsys, name, "--help")
    assert code == 0
    assert "--delta" in out
    assert "Price" in out
