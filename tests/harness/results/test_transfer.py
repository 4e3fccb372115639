"""Export and import: results arrive unchanged, ours stay as they were, and bad files change nothing."""

import hashlib
import json
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from harness.accounting.pricing import NOT_SANITISED
from harness.cli import app
from harness.report import write_all
from harness.report.reading import read
from harness.results.archive import MANIFEST, NAME, read_contents, read_manifest, write_archive
from harness.results.collect import collect
from harness.results.query import query
from harness.results.transfer import conflicts, export_results, import_results
from harness.spec import Json, Task
from harness.store import Store
from harness.store.files import checksum
from harness.store.tunes import find_tune
from tests.harness.simulated import attack, cells, fill, fill_findings, leakage, publish, training
from tests.harness.tuned import make_tune, store_tune
from workloads.errors import SpecError, StoreError

VIEWS = ("frontier", "overhead", "audit", "attribute", "reconstruction", "bench", "failures", "runs")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another user's store, with weights."""
    store = Store.open(tmp_path_factory.mktemp("theirs") / "store", create=True)
    fill(store)
    fill_findings(store)
    heavy = Task("train", cells("digits-mlp")[1], index=9)
    store.add(heavy)
    result = store.result(Task("train", cells("digits-mlp")[1]).key)
    assert result is not None
    weights = store.write_artefact(heavy.key, "model.safetensors", b"weights" * 1000)
    artefacts = {**result.artefacts, "model": weights}
    steps = store.read_artefact(result, "steps")
    artefacts["steps"] = store.write_artefact(heavy.key, "steps.parquet", steps)
    assert store.publish(result.model_copy(update={"key": heavy.key, "artefacts": artefacts}))
    collect(store.path)
    return store.path


@pytest.fixture(scope="module")
def archives(theirs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """results.zip and results.parquet."""
    folder = tmp_path_factory.mktemp("archives")
    for name in ("results.zip", "results.parquet"):
        export_results(theirs, folder / name)
    return folder


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A store with one cell that they have too, and other numbers for it."""
    store = Store.open(tmp_path / "ours" / "store", create=True)
    for index in range(4):
        task = Task("train", cells("digits-mlp")[1], index=index)
        publish(store, task, training(task, 0.99))
    publish(store, attack(cells("digits-mlp")[1], "loss"), leakage(0.5))
    collect(store.path)
    return store.path


def rows(store: Path, view: str, condition: str = "true") -> list[Json]:
    found: list[Json] = query(store, f"select * from {view} where {condition}").arrow.to_pylist()
    return sorted(found, key=repr)


def plain(row: Json) -> Json:
    """A row as in its origin."""
    prefix = f"{row.pop('origin')}:"
    return {
        key: value.removeprefix(prefix) if isinstance(value, str) else value for key, value in row.items()
    }


def files(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["results.zip", "results.parquet"])
def test_an_import_equals_its_export_and_ours_stays(
    archives: Path, theirs: Path, ours: Path, name: str
) -> None:
    before = {view: rows(ours, view) for view in VIEWS}
    own = files(ours / "tasks")
    done = import_results(ours, archives / name, "alice")
    assert (done.origin, done.tasks, done.new) == ("alice", read_manifest(archives / name).tasks, True)
    collect(ours)
    for view in VIEWS:
        assert rows(ours, view, "origin = ''") == before[view]
        imported = [plain(row) for row in rows(ours, view, "origin = 'alice'")]
        assert imported
        assert sorted(imported, key=repr) == sorted(map(plain, rows(theirs, view)), key=repr)
    assert files(ours / "tasks") == own
    assert not list((ours / "imports").rglob("model-*")), "no weights unless asked for"


@pytest.mark.slow
def test_a_store_with_imports_survives_the_loss_of_its_store_file(
    archives: Path, ours: Path, tmp_path: Path
) -> None:
    import_results(ours, archives / "results.zip", "alice")
    collect(ours, tmp_path / "elsewhere.duckdb")  # which gives the store an identity
    total = collect(ours).total
    (ours / "store.json").unlink()  # as the message about a damaged one instructs
    Store.open(ours, create=True)
    assert collect(ours, rebuild=True).total == total
    assert collect(ours, tmp_path / "elsewhere.duckdb").total == total


@pytest.mark.slow
def test_steps_of_others_are_in_the_view(archives: Path, theirs: Path, ours: Path) -> None:
    import_results(ours, archives / "results.zip", "alice")
    collect(ours)
    count = "select count(*) from steps where task like 'alice:%'"
    assert query(ours, count).rows == query(theirs, "select count(*) from steps").rows


@pytest.mark.slow
def test_a_conflict_is_shown(archives: Path, ours: Path) -> None:
    import_results(ours, archives / "results.zip", "alice")
    collect(ours)
    found = conflicts(ours, "alice")
    assert {row["figure"] for row in found} == {"accuracy", "auc"}
    assert len(found) == 5
    assert all(row["difference"] == row["theirs"] - row["ours"] != 0 for row in found)
    assert {row["ours"] for row in found if row["figure"] == "accuracy"} == {0.99}


@pytest.mark.slow
def test_importing_the_same_file_twice_changes_nothing(archives: Path, ours: Path) -> None:
    import_results(ours, archives / "results.zip", "alice")
    before = files(ours)
    assert not import_results(ours, archives / "results.zip", "alice").new
    assert files(ours) == before


@pytest.mark.slow
def test_an_import_keeps_its_content_unless_replaced(
    archives: Path, theirs: Path, ours: Path, tmp_path: Path
) -> None:
    few = tmp_path / "few.zip"
    export_results(theirs, few, "kind = 'bench'")
    import_results(ours, archives / "results.zip", "alice")
    with pytest.raises(SpecError, match="--as NAME"):
        import_results(ours, few, "alice")
    assert import_results(ours, few, "alice", replace=True).tasks == 1
    collect(ours)
    assert query(ours, "select distinct kind from task where origin = 'alice'").rows == [("bench",)]
    assert sorted(each.name for each in (ours / "imports").iterdir()) == ["alice"]


@pytest.mark.slow
def test_results_can_be_looked_at_without_a_store_of_ones_own(archives: Path, tmp_path: Path) -> None:
    store = tmp_path / "new"
    import_results(store, archives / "results.parquet")
    collect(store)
    assert {row["origin"] for row in rows(store, "frontier")} == {"results"}
    assert len(read(store).frontier) == len(rows(store, "frontier"))


def test_a_condition_selects_tasks(theirs: Path, tmp_path: Path) -> None:
    manifest = export_results(
        theirs, tmp_path / "one.zip", "workload = 'digits-mlp' and attack = 'lira' -- all"
    )
    assert manifest.tasks == 3
    with pytest.raises(SpecError, match="nothing to export"):
        export_results(theirs, tmp_path / "none.zip", "workload = 'no-such'")
    with pytest.raises(SpecError, match='"workload"'):
        export_results(theirs, tmp_path / "wrong.zip", "wrkload = 'digits-mlp'")
    assert [each.name for each in tmp_path.iterdir()] == ["one.zip"]


def test_weights_are_exported_on_request(theirs: Path, ours: Path, tmp_path: Path) -> None:
    export_results(theirs, tmp_path / "all.zip", "index = 9", weights=True)
    import_results(ours, tmp_path / "all.zip")
    (file,) = (ours / "imports").rglob("model-*")
    assert file.read_bytes() == b"weights" * 1000
    with pytest.raises(SpecError, match="zip"):
        export_results(theirs, tmp_path / "all.parquet", weights=True)


def test_rows_need_no_times_of_single_steps(theirs: Path, ours: Path, tmp_path: Path) -> None:
    assert any(theirs.rglob("steps-*.parquet"))
    manifest = export_results(theirs, tmp_path / "rows.zip", steps=False)
    assert not any(Path(name).name.startswith(("steps-", "laps-")) for name in manifest.files)
    import_results(ours, tmp_path / "rows.zip")
    collect(ours)
    collect(theirs)
    medians = "select step_seconds from runs where origin = '{}' order by step_seconds"
    found = query(ours, medians.format("rows")).rows
    assert found == query(theirs, medians.format("")).rows and all(median for (median,) in found)


def test_a_parquet_export_can_be_read_without_privbench(archives: Path, theirs: Path) -> None:
    table = pq.read_table(archives / "results.parquet")
    assert table.column_names == ["key", "spec", "result", "artefacts"]
    row = table.to_pylist()[0]
    assert json.loads(row["result"])["key"] == row["key"]
    metadata = json.loads(table.schema.metadata[b"privbench"])
    assert metadata["tasks"] == table.num_rows
    assert {"privbench", "protocol", "schema", "exported", "checksum", "files"} <= metadata.keys()


@pytest.fixture(scope="module")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the data-dependent price of PATE's votes, which must not be published."""
    store = Store.open(tmp_path_factory.mktemp("votes") / "store", create=True)
    task = Task("train", cells("digits-mlp")[1])
    payload = training(task, 0.9)
    payload["guarantee"]["epsilons"]["data_dependent"] = 0.618033988
    payload["guarantee"]["assumptions"].append(NOT_SANITISED)
    publish(store, task, payload)
    publish(store, attack(task.cell, "loss", models=1), leakage(0.6))
    collect(store.path)
    return store.path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["results.zip", "results.parquet"])
def test_private_figures_stay_in_the_store(votes: Path, tmp_path: Path, name: str) -> None:
    export_results(votes, tmp_path / name)
    manifest = read_manifest(tmp_path / name)
    files = dict(read_contents(tmp_path / name, manifest))
    assert len(files) == 5
    for content in files.values():
        assert b"0.618" not in content and b"data_dependent" not in content
    imported = import_results(tmp_path / "store", tmp_path / name, "alice")
    assert imported.tasks == 2, "it is whole: its checksum is of what is left"
    collect(tmp_path / "store")
    (theirs,) = query(tmp_path / "store", "select epsilon, epsilon_rdp from model_run").rows
    assert theirs == (1.0, 1.25)
    key = Task("train", cells("digits-mlp")[1]).key
    kept = Store.open(votes).result(key)
    assert kept is not None and kept.training.guarantee.epsilons["data_dependent"] == 0.618033988


@pytest.mark.slow
def test_no_report_shows_what_must_not_be_published(votes: Path, tmp_path: Path) -> None:
    store = Store.open(votes)
    for file in (store.database, *write_all(votes, tmp_path)):
        content = file.read_bytes()
        assert b"0.618" not in content and b"data_dependent" not in content
        assert b"not sanitised" not in content


@pytest.mark.slow
def test_imports_are_not_exported_as_ours(archives: Path, ours: Path, tmp_path: Path) -> None:
    import_results(ours, archives / "results.zip", "alice")
    assert export_results(ours, tmp_path / "mine.zip").tasks == 5
    assert export_results(ours, tmp_path / "some.zip", "kind = 'attack'").tasks == 1


Change = Callable[[dict[str, bytes]], None]


def repack(source: Path, target: Path, change: Change, resign: bool = True) -> Path:
    """The archive with files changed; its manifest is updated to match unless disabled."""
    with zipfile.ZipFile(source) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    manifest: Json = json.loads(content.pop(MANIFEST))
    change(content)
    if resign:
        manifest |= json.loads(content.pop("head", b"{}"))
        manifest["files"] = {
            name: {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
            for name, raw in content.items()
        }
        manifest["checksum"] = checksum(manifest)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest))
        for name, raw in content.items():
            archive.writestr(name, raw)
    return target


def first(content: dict[str, bytes], ending: str) -> str:
    return next(name for name in sorted(content) if name.endswith(ending))


def flip(content: dict[str, bytes]) -> None:
    name = first(content, "result.json")
    content[name] = content[name].replace(b"0.", b"1.", 1)


def lost_spec(content: dict[str, bytes]) -> None:
    del content[first(content, "spec.json")]


def other_task(content: dict[str, bytes]) -> None:
    name = first(content, "spec.json")
    content[name] = content[[each for each in sorted(content) if each.endswith("spec.json")][1]]


def escape(content: dict[str, bytes]) -> None:
    content["../../escaped.json"] = b"{}"


def absolute(content: dict[str, bytes]) -> None:
    content["/tmp/escaped.json"] = b"{}"


def script(content: dict[str, bytes]) -> None:
    content[first(content, "spec.json").replace("spec.json", "run.py")] = b"print()"


def bomb(content: dict[str, bytes]) -> None:
    content[first(content, "spec.json").replace("spec.json", "model-0123456789ab.bin")] = bytes(1 << 27)


def newer(content: dict[str, bytes]) -> None:
    content["head"] = json.dumps({"protocol": 999, "privbench": "77.0"}).encode()


def newer_format(content: dict[str, bytes]) -> None:
    content["head"] = json.dumps({"format": 999, "privbench": "77.0"}).encode()


def nothing_known(content: dict[str, bytes]) -> None:
    content["head"] = json.dumps({"format": "one"}).encode()


@pytest.mark.parametrize(
    ("change", "resign", "message"),
    [
        (flip, False, "does not match its hash"),
        (flip, True, "is damaged"),
        (lost_spec, False, "missing"),
        (lost_spec, True, "is damaged"),
        (other_task, True, "is damaged"),
        (escape, True, "unexpected file"),
        (escape, False, "damaged"),
        (absolute, True, "unexpected file"),
        (script, True, "unexpected file"),
        (bomb, True, "100 times its own size"),
        (newer, True, r"privbench 77.0 \(protocol 999\).*privbench \d"),
        (newer_format, True, r"privbench 77.0 \(format 999\).*privbench \d"),
        (nothing_known, True, "not an export"),
    ],
)
def test_a_bad_zip_changes_nothing(
    archives: Path, tmp_path: Path, change: Change, resign: bool, message: str
) -> None:
    bad = repack(archives / "results.zip", tmp_path / "bad.zip", change, resign)
    with pytest.raises(SpecError, match=message):
        import_results(tmp_path / "store", bad)
    assert [each.name for each in tmp_path.iterdir()] == ["bad.zip"]
    assert not Path("/tmp/escaped.json").exists()


def test_a_bad_file_leaves_a_store_as_it_was(archives: Path, ours: Path, tmp_path: Path) -> None:
    bad = repack(archives / "results.zip", tmp_path / "bad.zip", flip, resign=False)
    before = files(ours)
    with pytest.raises(SpecError):
        import_results(ours, bad, "alice")
    assert files(ours) == before


def test_a_link_is_refused(archives: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.zip"
    with zipfile.ZipFile(archives / "results.zip") as source, zipfile.ZipFile(bad, "w") as target:
        for entry in source.infolist():
            if entry.filename.endswith("spec.json"):
                entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            target.writestr(entry, source.read(entry.filename))
    with pytest.raises(SpecError, match="link"):
        import_results(tmp_path / "store", bad)


def test_a_negative_size_does_not_open_the_door_to_a_bomb(archives: Path, tmp_path: Path) -> None:
    manifest = json.loads(read_manifest(archives / "results.zip").written())
    name = next(iter(manifest["files"]))
    manifest["files"][name]["bytes"] = -2
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr(MANIFEST, json.dumps({**manifest, "checksum": checksum(manifest)}))
        archive.writestr(name, bytes(1000))
    with pytest.raises(
        SpecError, match=r"(?s)not an export of privbench.*files.*bytes.*greater than or equal to 0"
    ):
        import_results(tmp_path / "store", tmp_path / "bad.zip")


def test_a_part_of_a_file_is_refused(archives: Path, tmp_path: Path) -> None:
    for name in ("results.zip", "results.parquet"):
        whole = (archives / name).read_bytes()
        for share in (0.0, 0.3, 0.9):
            (tmp_path / name).write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(SpecError, match="only a part"):
                import_results(tmp_path / "store", tmp_path / name)
    assert not (tmp_path / "store").exists()


def test_a_damaged_parquet_is_refused(archives: Path, tmp_path: Path) -> None:
    table = pq.read_table(archives / "results.parquet")
    altered = table.column("result").to_pylist()
    altered[0] = altered[0].replace("0.", "1.", 1)
    bad = tmp_path / "bad.parquet"
    pq.write_table(table.set_column(2, "result", pa.array(altered)), bad)
    with pytest.raises(SpecError, match="does not match its hash"):
        import_results(tmp_path / "store", bad)
    pq.write_table(table.slice(1), bad)
    with pytest.raises(SpecError, match="missing"):
        import_results(tmp_path / "store", bad)
    pq.write_table(table.select(["key"]), bad)
    with pytest.raises(SpecError, match="damaged"):
        import_results(tmp_path / "store", bad)
    pq.write_table(table.replace_schema_metadata(None), bad)
    with pytest.raises(SpecError, match="not an export"):
        import_results(tmp_path / "store", bad)


@pytest.mark.parametrize("origin", ["", "../up", "a/b", ".hidden", "a:b", "a'b", "x" * 65])
def test_an_origin_is_a_plain_name(archives: Path, tmp_path: Path, origin: str) -> None:
    with pytest.raises(SpecError, match="--as NAME"):
        import_results(tmp_path / "store", archives / "results.zip", origin)


def test_a_file_that_is_not_an_archive_is_refused(theirs: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        export_results(theirs, tmp_path / "results.csv")
    assert caught.value.value == ".csv"
    with pytest.raises(SpecError, match="no file"):
        import_results(tmp_path / "store", tmp_path / "nowhere.zip")
    with pytest.raises(SpecError, match="cannot be written"):
        export_results(theirs, tmp_path / "no" / "folder.zip")
    with pytest.raises(StoreError, match="no store"):
        export_results(tmp_path / "nowhere", tmp_path / "results.zip")


def test_names_that_a_task_has_are_all_that_may_be_written() -> None:
    key = "ab" + "0" * 30
    assert NAME.fullmatch(f"tasks/ab/{key}/spec.json")
    assert NAME.fullmatch(f"tasks/ab/{key}/steps-0123456789ab.parquet")
    for name in (
        f"tasks/cd/{key}/spec.json",
        f"tasks/ab/{key}/../spec.json",
        f"tasks/ab/{key}/spec.json/",
        MANIFEST,
    ):
        assert not NAME.fullmatch(name)


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app.app, list(arguments))


@pytest.mark.slow
def test_the_commands(theirs: Path, ours: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "results.zip")
    done = invoke("export", file, "--store", str(theirs), "--json")
    assert done.exit_code == 0, done.output
    metadata = json.loads(done.output)
    assert metadata["tasks"] == 53
    done = invoke("import", file, "--as", "alice", "--store", str(ours))
    assert done.exit_code == 0, done.output
    assert "53 tasks of origin 'alice'" in done.output
    assert "5 figures differ" in done.output
    done = invoke("import", file, "--as", "alice", "--store", str(ours), "--json")
    assert json.loads(done.output)["new"] is False
    done = invoke("query", "select count(*) as n from frontier where origin = 'alice'", "--format", "csv",
                  "--store", str(ours))  # fmt: skip
    assert done.output.splitlines()[0] == "n"


@pytest.mark.slow
def test_a_store_with_imports_can_be_moved(archives: Path, ours: Path, tmp_path: Path) -> None:
    import_results(ours, archives / "results.zip", "alice")
    collect(ours)
    before = query(ours, "select task, step, wall_seconds from steps order by all").rows
    moved = Path(shutil.move(ours, tmp_path / "elsewhere"))
    assert query(moved, "select task, step, wall_seconds from steps order by all").rows == before
    assert len(before) > 100
    assert collect(moved).changed == 0


TUNE = make_tune(methods=("dp-sgd",), epsilons=(1.0,), trials=2, studies=1, confirm=0)


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """A store with a tune and a cell of another workload."""
    store = Store.open(tmp_path / "tuned", create=True)
    store_tune(store, TUNE)
    task = Task("train", cells("digits-linear")[0])
    publish(store, task, training(task, 0.9))
    collect(store.path)
    return store.path


@pytest.mark.parametrize("suffix", ["zip", "parquet"])
def test_the_record_of_a_tune_travels_with_its_trials(tuned: Path, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"lab.{suffix}"
    assert export_results(tuned, file).tasks == 3
    assert import_results(tmp_path / "ours", file).tasks == 3
    collect(tmp_path / "ours")
    assert find_tune(Store(tmp_path / "ours"), "lab:fair") == TUNE
    theirs, ours = rows(tuned, "trial"), rows(tmp_path / "ours", "trial")
    assert [row["score"] for row in ours] == [row["score"] for row in theirs]
    assert {row["cell"] for row in ours} == {f"lab:{row['cell']}" for row in theirs}
    assert {row["configurations"] for row in rows(tmp_path / "ours", "tried", "method = 'dp-sgd'")} == {2}


def test_without_its_trials_a_tune_stays(tuned: Path, tmp_path: Path) -> None:
    file = tmp_path / "lab.zip"
    manifest = export_results(tuned, file, where="workload = 'digits-linear'")
    assert manifest.format == 1
    assert not any(name.startswith("tunes/") for name in manifest.files)


@pytest.mark.parametrize("harm", ["altered", "another name"])
def test_an_altered_tune_is_refused_and_nothing_is_imported(tuned: Path, tmp_path: Path, harm: str) -> None:
    record = tuned / "tunes" / "fair.json"
    good = record.read_bytes()
    bad = good.replace(b'"seed": 1000003', b'"seed": 1000004') if harm == "altered" else good
    name = "tunes/fair.json" if harm == "altered" else "tunes/other.json"
    file, target = tmp_path / "lab.zip", tmp_path / "bad.zip"
    export_results(tuned, file)
    contents = {
        (name if each == "tunes/fair.json" else each): (bad if each == "tunes/fair.json" else raw)
        for each, raw in read_contents(file, read_manifest(file))
    }
    write_archive(target, read_manifest(file), contents)
    with pytest.raises(SpecError, match="nothing was imported"):
        import_results(tmp_path / "ours", target)
    assert not (tmp_path / "ours").exists()
