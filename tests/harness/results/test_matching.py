"""Published numbers beside ours, from a store with cells that match the papers and cells that do not."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

import db
from harness.papers.published_tables import published
from harness.report.published.reproduce import compare
from harness.results.collect import collect
from harness.results.matching import differences, match
from harness.spec import Cell, Json, Plugin, Task
from harness.store import Store
from tests.harness.simulated import leakage, publish
from workloads.errors import SpecError, UnknownName

Ask = Callable[..., list[dict[str, Any]]]

TIMES = {"p05": 0.01, "p25": 0.01, "p50": 0.02, "p75": 0.03, "p95": 0.04, "mean": 0.02}
PHASE: dict[str, Any] = {
    "steps": 10,
    "wall": TIMES,
    "cpu": TIMES,
    "clocks": {},
    "peak_memory_bytes": 10,
    "resting_memory_bytes": 5,
}


def cell(workload: str, method: str, n_train: int, seed: int = 0, **params: Any) -> Cell:
    return Cell(
        Plugin(workload, "1"), n_train, Plugin(method, "1"), {"batch_size": 64, "steps": 90, **params}, seed
    )


HEAD = cell("cifar10-vit-head", "sgd", 500)
PRIVATE = cell("cifar10-vit-head", "dp-sgd", 500, epsilon=4.0, delta=1e-5, clip=1.0)
OTHER_CLIP = cell("cifar10-vit-head", "dp-sgd", 500, epsilon=4.0, delta=1e-5, clip=0.5)
OTHER_SIZE = cell("purchase100-linear", "dp-sgd", 9000, epsilon=8.0, delta=1e-5, clip=1.0)
UNASKED = cell("cifar10-vit-head", "dp-sgd", 500, epsilon=2.0, delta=1e-5, clip=1.0)
MNIST = cell("mnist-cnn-relu", "dp-sgd", 60000, epsilon=3.0, delta=1e-5, clip=1.0)
REJECTING = cell("cifar10-vit-head", "pd-sgd", 500, sigma=0.3, gamma=4, T=3)
OPACUS = cell("mnist-cnn-opacus", "dp-sgd", 60000, noise_multiplier=1.3, delta=1e-5, clip=1.5)
EPSILONS = {"pld": 0.8336, "rdp": 0.9220, "rdp_classic": 1.1597}
"""Of the cell above, as priced."""
FAILED = cell("cifar100-vit-head", "sgd", 1000)
PICTURES = cell("fmnist-lenet", "sgd", 30000)
FEW_PICTURES = cell("fmnist-lenet", "sgd", 1000)
FACES = cell("lfw-lenet", "sgd", 1113)
OLDER_FACES = cell("lfw-mlp", "sgd", 1113)


def train(
    store: Store,
    on: Cell,
    *accuracies: float,
    rejection_rates: Sequence[float] = (),
    top10_accuracy: float | None = None,
) -> None:
    epsilon = on.params.get("epsilon", EPSILONS["pld"] if on is OPACUS else None)
    guarantee = {
        "kind": "none" if epsilon is None else "approximate-dp",
        "epsilon": epsilon,
        "delta": None if epsilon is None else 1e-5,
        "adjacency": "add-or-remove-one",
        "accountant": "none" if epsilon is None else "pld",
        "epsilons": EPSILONS if on is OPACUS else {},
    }
    for index, accuracy in enumerate(accuracies):
        metrics = {"test_accuracy": accuracy, "train_accuracy": accuracy}
        metrics |= {} if top10_accuracy is None else {"top10_accuracy": top10_accuracy}
        stats = {"rejection_rate": rejection_rates[index]} if rejection_rates else {}
        payload = {"metrics": metrics, "guarantee": guarantee, "stats": stats, "phases": {"train": PHASE}}
        publish(store, Task("train", on, index=index), payload)


def attack(store: Store, on: Cell, name: str, models: int, auc: float, **verdict: Any) -> None:
    found: Json = leakage(auc)["metrics"]
    unresolved = found["tpr"]["0.0001"]
    metrics = {
        **found,
        "n_members": 100,
        "n_nonmembers": 100,
        "auc": auc,
        "auc_low": auc - 0.02,
        "auc_high": auc + 0.02,
        "balanced_accuracy": 0.55,
        "tpr": dict.fromkeys(["0.1", "0.01", "0.001", "0.0001"], unresolved),
        **verdict,
    }
    task = Task("attack", on, models=models, attack=Plugin(name, "1"))
    publish(store, task, {"metrics": metrics, "roc": {"fpr": [0.0, 1.0], "tpr": [0.0, 1.0]}})


def fill(store: Store) -> None:
    train(store, HEAD, 0.9608, 0.9612)
    attack(store, HEAD, "population", 2, 0.60)
    attack(store, HEAD, "reference", 2, 0.684)
    attack(store, HEAD, "lira", 2, 0.7)
    attack(store, HEAD, "blind", 2, 0.5, valid=True)
    train(store, PRIVATE, 0.9353)
    train(store, OTHER_CLIP, 0.9353, 0.9353, 0.9353)
    train(store, OTHER_SIZE, 0.5)
    train(store, UNASKED, 0.9)
    train(store, MNIST, 0.968)
    train(store, OPACUS, 0.9430, 0.9440)
    train(store, REJECTING, 0.94, 0.94, rejection_rates=(0.05, 0.07))
    publish(store, Task("train", FAILED), {"reason": "diverged", "message": "loss is not finite"})
    train(store, PICTURES, 0.8)
    for images, error in ((100, 0.7), (8, 0.1)):
        params = {"images": images, "when": "start"}
        task = Task(
            "attack", PICTURES, models=1, attack=Plugin("inverting-gradients", "2"), attack_params=params
        )
        figures = {"images": images, "ssim_mean": 0.3, "ssim_mean_low": 0.25, "ssim_mean_high": 0.35}
        figures |= {"mse_median": 0.02, "mse_median_normalised": error, "mse_median_mean_colour": 0.1}
        shares = ("beats_mean_colour", "success_rate")
        figures |= {f"{name}{end}": 0.5 for name in shares for end in ("", "_low", "_high")}
        figures |= {"psnr_median": 17.0, "label_accuracy": 1.0}
        publish(store, task, {"reconstruction": figures})
    train(store, FEW_PICTURES, 0.8)
    train(store, FACES, 0.1, top10_accuracy=0.3)
    train(store, OLDER_FACES, 0.1)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store.open(tmp_path_factory.mktemp("reproduction") / "store", create=True)
    fill(store)
    collect(store.path)
    return store


@pytest.fixture
def ask(filled: Store) -> Ask:
    def run(sql: str) -> list[dict[str, Any]]:
        with duckdb.connect(str(filled.database), read_only=True) as connection:
            found: list[dict[str, Any]] = connection.execute(sql).to_arrow_table().to_pylist()
        return found

    return run


def line(ask: Ask, table: str, workload: str, method: str, metric: str, more: str = "true") -> dict[str, Any]:
    (found,) = ask(
        f"select * from reproduction where table_name = '{table}' and workload = '{workload}' "
        f"and method = '{method}' and metric = '{metric}' and {more}"
    )
    return found


def test_a_mean_within_the_deviation_of_the_paper(ask: Ask) -> None:
    row = line(ask, "pd-sgd-table-2", "cifar10-vit-head", "sgd", "accuracy")
    assert (row["value"], row["deviation"], row["models"]) == (96.09, 0.02, 2)
    assert row["ours"] == pytest.approx(96.10)
    assert row["ours_deviation"] == pytest.approx(0.0283, abs=1e-4)
    assert row["difference"] == pytest.approx(0.01)
    assert (row["status"], row["cell"], row["valid"]) == ("within", HEAD.key, True)


def test_rounding_in_print_counts_as_half_a_digit(ask: Ask) -> None:
    row = line(ask, "pd-sgd-table-2", "cifar10-vit-head", "sgd", "auc", "attack = 'reference'")
    assert (row["value"], row["deviation"]) == (0.69, 0.01)
    assert (row["ours"], row["ours_low"], row["status"]) == (0.684, 0.664, "within")


def test_a_leakage_outside_the_deviation(ask: Ask) -> None:
    row = line(ask, "pd-sgd-table-2", "cifar10-vit-head", "sgd", "auc", "attack = 'population'")
    assert (row["value"], row["ours"], row["status"]) == (0.57, 0.6, "outside")


def test_a_figure_the_cell_lacks_has_its_reason(ask: Ask) -> None:
    tpr = line(ask, "pd-sgd-table-2", "cifar10-vit-head", "sgd", "tpr_at_0p01pct")
    assert (tpr["status"], tpr["reason"], tpr["ours"]) == ("not measured", "needs N >= 100000", None)
    shadow = line(ask, "pd-sgd-table-2", "cifar10-vit-head", "sgd", "auc", "attack = 'shadow'")
    assert (shadow["status"], shadow["reason"]) == ("not measured", "attack shadow was not run on this cell")


def test_without_a_deviation_or_on_another_machine_there_is_no_verdict(ask: Ask) -> None:
    plain = line(ask, "dpsur-table-2", "mnist-cnn-relu", "dp-sgd", "accuracy", "(params->>'epsilon') = '3'")
    assert (plain["deviation"], plain["status"]) == (None, "compared")
    assert plain["difference"] == pytest.approx(-0.02)
    time = line(ask, "pd-sgd-table-6", "cifar10-vit-head", "sgd", "step_seconds")
    assert (time["unit"], time["ours"], time["status"]) == ("ms", pytest.approx(20.0), "compared")


def test_a_method_s_own_figure_is_shown_beside_the_printed_one(ask: Ask) -> None:
    row = line(ask, "pd-sgd-table-7", "cifar10-vit-head", "pd-sgd", "rejection_rate", "status <> 'not run'")
    assert (row["value"], row["ours"], row["status"]) == (5.78, pytest.approx(6.0), "compared")
    assert row["ours_deviation"] == pytest.approx(100 * 0.01 * 2**0.5)
    other = line(ask, "pd-sgd-table-7", "cifar10-vit-head", "pd-sgd", "accuracy", "status <> 'not run'")
    assert other["ours"] == pytest.approx(94.0)


def test_a_line_is_found_by_its_noise_and_shows_epsilon_as_the_paper_counts_it(
    ask: Ask, filled: Store
) -> None:
    row = line(ask, "opacus-mnist-example", "mnist-cnn-opacus", "dp-sgd", "accuracy", "status <> 'not run'")
    assert (row["cell"], row["status"], row["difference"]) == (OPACUS.key, "within", pytest.approx(-0.28))
    assert (row["epsilon"], row["accountant"]) == (0.8336, "pld")
    assert (row["epsilon_printed"], row["accountant_printed"], row["epsilon_recounted"]) == (
        1.16,
        "rdp_classic",
        1.1597,
    )
    found = compare(filled.path, "opacus-mnist-example")
    assert any("epsilon 1.16 by the classic conversion" in text for text in found.remarks)
    assert not any("as the paper counts" in text for text in compare(filled.path, "pd-sgd-table-2").remarks)


def test_the_nearest_settings_are_shown_not_the_most_models_nor_the_best_result(ask: Ask) -> None:
    row = line(ask, "pd-sgd-table-2", "cifar10-vit-head", "dp-sgd", "accuracy", "(params->>'epsilon') = '4'")
    assert (row["cell"], row["matches"], row["epsilon"], row["accountant"]) == (PRIVATE.key, 2, 4.0, "pld")
    places = ask(f"select cell, place from published_match where published = '{row['published']}' order by 2")
    assert places == [{"cell": PRIVATE.key, "place": 1}, {"cell": OTHER_CLIP.key, "place": 2}]
    assert (
        "clip 0.5 instead of 1"
        in ask(f"select differences from published_match where cell = '{OTHER_CLIP.key}'")[0]["differences"]
    )


def test_another_number_of_members_is_another_cell(ask: Ask) -> None:
    assert ask(f"select * from published_match where cell = '{OTHER_SIZE.key}'") == []
    row = line(
        ask, "pd-sgd-table-2", "purchase100-linear", "dp-sgd", "accuracy", "(params->>'epsilon') = '8'"
    )
    assert (row["n_train"], row["status"], row["runnable"]) == (25000, "not run", True)


def test_where_the_paper_states_no_members_the_workload_s_own_number_counts(ask: Ask) -> None:
    matched = ask(f"select published from published_match where cell = '{PICTURES.key}' order by 1")
    tables = ("dirdp-sgd-table-3", "dirdp-sgd-table-4")
    assert matched == [{"published": f"{table}/000"} for table in tables]
    assert ask(f"select published from published_match where cell = '{FEW_PICTURES.key}'") == []


def test_our_choices_and_epochs_are_reported(ask: Ask) -> None:
    row = line(ask, "pd-sgd-table-2", "cifar10-vit-head", "dp-sgd", "accuracy", "(params->>'epsilon') = '4'")
    assert "not in the paper, ours: steps 90, batch_size 64, delta 1e-05" in row["differences"]
    assert row["epochs"] == pytest.approx(10 * 64 / 500), "of the steps that were made"


def test_reconstructions_are_in_standardised_pixels(ask: Ask) -> None:
    similar = line(ask, "dirdp-sgd-table-3", "fmnist-lenet", "sgd", "ssim_mean")
    assert (similar["ours"], similar["ours_low"], similar["status"]) == (0.3, 0.25, "compared")
    error = line(ask, "dirdp-sgd-table-3", "fmnist-lenet", "sgd", "mse_median")
    assert (error["ours"], error["difference"]) == (0.7, pytest.approx(0.05))


def test_top_10_accuracy_is_compared_or_says_why_not(ask: Ask) -> None:
    row = line(ask, "dirdp-sgd-table-4", "lfw-lenet", "sgd", "top10_accuracy")
    assert (row["ours"], row["difference"]) == (pytest.approx(30.0), pytest.approx(-2.0))
    older = line(ask, "dirdp-sgd-table-4", "lfw-mlp", "sgd", "top10_accuracy")
    assert (older["status"], older["ours"]) == ("not measured", None)
    assert older["reason"].startswith("trained before this was measured")


def test_precision_is_that_of_the_decision_behind_the_accuracy(filled: Store, tmp_path: Path) -> None:
    """With 100 members and 300 others, 100 flagged, 60 of them right: TPR 0.6, FPR 40 / 300."""
    store = Store(shutil.copytree(filled.path, tmp_path / "store"))
    accuracy = (0.6 + 1 - 40 / 300) / 2
    attack(store, HEAD, "shokri", 2, 0.6, n_nonmembers=300, balanced_accuracy=accuracy)
    collect(store.path)
    with duckdb.connect(str(store.database)) as connection:
        key = "pd-sgd-table-2/000/0"
        changed = "metric = 'attack_precision', attack = 'shokri', unit = null"
        connection.execute(f"update published set {changed} where key = '{key}'")
        found = connection.execute(f"select ours from reproduction where published_key = '{key}'")
        assert found.fetchone() == (pytest.approx(0.6 / (0.6 + 40 / 300)),)


def test_other_epsilons_and_failed_cells_match_nothing(ask: Ask) -> None:
    assert ask(f"select * from published_match where cell = '{FAILED.key}'") == []
    # Table 6 names no epsilon, so its line of dp-sgd is any; all others do.
    unasked = ask(f"select published from published_match where cell = '{UNASKED.key}'")
    assert unasked == [{"published": "pd-sgd-table-6/000"}]
    failed = line(ask, "pd-sgd-table-2", "cifar100-vit-head", "sgd", "accuracy")
    assert (failed["status"], failed["reason"]) == ("not run", None)


def test_every_published_number_is_a_row_once(ask: Ask) -> None:
    (count,) = ask("select count(*) as n, count(distinct published_key) as keys from reproduction")
    assert count == {"n": 846, "keys": 846}
    never = ask("select distinct status from reproduction where workload is null or method is null")
    assert never == [{"status": "not run"}]


def everything(path: Path) -> dict[str, list[str]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        names = ("published", "published_match", "reproduction")
        return {name: sorted(map(repr, connection.execute(f"from {name}").fetchall())) for name in names}


@pytest.mark.slow
def test_collecting_again_or_rebuilding_gives_the_same_rows(filled: Store, tmp_path: Path) -> None:
    store = Store(shutil.copytree(filled.path, tmp_path / "store"))
    before = everything(store.database)
    assert len(before["published_match"]) > 4
    collect(store.path)
    assert everything(store.database) == before
    collect(store.path, rebuild=True)
    assert everything(store.database) == before


@pytest.mark.slow
def test_numbers_of_another_program_are_replaced(filled: Store, tmp_path: Path) -> None:
    store = Store(shutil.copytree(filled.path, tmp_path / "store"))
    before = everything(store.database)
    with duckdb.connect(str(store.database)) as connection:
        connection.execute("update published set value = 1 where metric = 'accuracy'")
        connection.execute("delete from published where source = 'lecture'")
        connection.execute("delete from published_match")
    assert everything(store.database) != before
    collect(store.path)
    assert everything(store.database) == before


def test_a_cell_that_is_gone_matches_no_longer(filled: Store, tmp_path: Path) -> None:
    store = Store(shutil.copytree(filled.path, tmp_path / "store"))
    shutil.rmtree(store.folder(Task("train", PRIVATE).key))
    collect(store.path)
    assert not any(PRIVATE.key in row for row in everything(store.database)["published_match"])


def test_an_empty_store_lists_every_cell_as_not_run(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    collect(store.path)
    found = compare(store.path, "dpsur-table-2")
    assert len(found.rows) == 96
    assert {row[found.columns.index("verdict")] for row in found.rows} == {"not run"}
    assert found.counts.startswith("96 published lines, 96 runnable, 0 run. 96 numbers: 0 within")
    overview = compare(store.path)
    assert len(overview.rows) == 33
    assert overview.counts.endswith("846 not run.")
    assert [row[0] for row in overview.rows if row[0].startswith("pd-sgd-table")][-1] == "pd-sgd-table-13"


def test_the_report_of_a_table(filled: Store) -> None:
    found = compare(filled.path, "pd-sgd-table-2")
    first = dict(zip(found.columns, found.rows[0], strict=True))
    assert (first["workload"], first["method"], first["figure"]) == ("cifar10-vit-head", "SGD", "accuracy")
    assert (first["paper"], first["ours"]) == ("96.09 ± 0.02 %", "96.100 ± 0.028 % (n=2)")
    assert (first["difference"], first["verdict"]) == ("+0.010", "within")
    assert [row[2] for row in found.rows[:5]] == [
        "accuracy",
        "AUC, population",
        "AUC, reference",
        "AUC, shadow",
        "TPR at 0.01 % FPR, lira",
    ]
    assert any("not in the paper, ours: steps 90, batch_size 64" in text for text in found.remarks)
    assert any("approximate-dp epsilon 4 by pld" in text for text in found.remarks)
    assert any("accountant" in text for text in found.protocol)
    assert "3 within the paper's deviation" in found.counts


def test_a_condition_and_an_unknown_table(filled: Store) -> None:
    some = compare(filled.path, "pd-sgd-table-2", "status = 'outside'")
    verdict = some.columns.index("verdict")
    assert {row[verdict] for row in some.rows} == {"outside"}
    with pytest.raises(UnknownName, match="did you mean 'dpsur-table-2'"):
        compare(filled.path, "dpsur-tabel-2")
    with pytest.raises(SpecError) as refused:
        compare(filled.path, "pd-sgd-table-2", "value > 1e9")
    assert refused.value.value == "value > 1e9"
    with pytest.raises(SpecError, match="wings"):
        compare(filled.path, "pd-sgd-table-2", "wings > 2")


def planned(**changes: Any) -> Json:
    versions = {"workload_version": "1", "method_version": "1"}
    base = {"key": "k", "workload": "cifar10-vit-head", "method": "sgd", "params": {}, "n_train": 500}
    return {**base, **versions, "seed": 0, "models": 1, **changes}


def best(*cells: Json) -> str:
    printed = next(each for each in published() if each.key == "pd-sgd-table-2/000")
    rows = match([printed], cells)
    return str(next(row["cell"] for row in rows if row["place"] == 1))


def test_places_go_by_size_then_version_then_models() -> None:
    assert best(planned(key="a", n_train=501, models=9), planned(key="b")) == "b"
    assert best(planned(key="a", method_version="9", models=9), planned(key="b", method_version="10")) == "b"
    assert best(planned(key="a", models=3), planned(key="b", models=4)) == "b"
    assert best(planned(key="b", seed=1), planned(key="c", seed=0)) == "c"


def test_a_number_equals_its_other_spelling_and_text_equals_no_number() -> None:
    (printed,) = [each for each in published() if each.key == "pd-sgd-table-12/001"]
    params = {"epsilon": 4.0, "clip": 1.0}
    assert match([printed], [planned(method="dp-sgd", params=params)])
    for wrong in ({"clip": "1"}, {"clip": True}, {"clip": None}, {"epsilon": float("inf")}):
        assert not match([printed], [planned(method="dp-sgd", params=params | wrong)]), wrong


def test_differences_name_what_this_method_lacks() -> None:
    (printed,) = [each for each in published() if each.key == "dpsur-table-2/000"]
    texts = differences(printed, planned(n_train=60000, params={"epsilon": 1, "sigma_v": 1.3, "beta": 0}))
    assert "beta 0 instead of -1" in texts
    assert "no sigma_t here (2 in the paper)" in texts
    assert not any("sigma_v" in text or "n_train" in text for text in texts)


def test_epochs_are_compared_as_steps() -> None:
    (printed,) = [each for each in published() if each.key == "dpsur-table-2/092"]
    assert printed.cell.stated == {"epochs": 20}
    for steps, wanted in ((2344, []), (1172, ["epochs 10 instead of 20"])):
        cell = planned(n_train=60000, params={"steps": steps, "batch_size": 512})
        assert [text for text in differences(printed, cell) if "instead" in text] == wanted
    other = planned(n_train=60000, params={"steps": 20})
    assert "no epochs here (20 in the paper)" in differences(printed, other)


def test_an_unusual_setting_of_which_the_paper_says_nothing_comes_last() -> None:
    (printed,) = [each for each in published() if each.key == "pd-sgd-table-2/004"]
    params = {"sigma": 0.3, "gamma": 2, "T": 3, "steps": 20000, "batch_size": 50}
    usual = planned(key="b", method="pd-sgd", params={**params, "ablation": "full"})
    ablated = planned(key="a", method="pd-sgd", params={**params, "ablation": "only_test"}, models=9)
    places = {row["cell"]: row for row in match([printed], [usual, ablated])}
    assert (places["b"]["place"], places["a"]["place"]) == (1, 2)
    assert "ablation only_test" in places["a"]["differences"]


def test_what_we_chose_for_a_table_comes_before_other_choices() -> None:
    (printed,) = [each for each in published() if each.key == "dirdp-sgd-table-4/024"]
    assert printed.table.ours == {"granularity": "per_last_axis"}
    names = {"workload": "fmnist-lenet", "method": "dirdp-sgd", "n_train": 30000}
    chosen, other = (
        planned(**names, key=key, models=models, params={"kappa": 1.0, "granularity": granularity})
        for key, models, granularity in (("b", 1, "per_last_axis"), ("a", 9, "per_row"))
    )
    places = {row["cell"]: row["place"] for row in match([printed], [chosen, other])}
    assert places == {"b": 1, "a": 2}


def test_the_tables_are_part_of_the_schema() -> None:
    assert {"published", "published_match"} <= set(db.Base.metadata.tables)
    assert "reproduction" in db.view_names()
