"""Undisturbed sweeps on a real cluster: same numbers as locally, nothing run twice, all reported."""

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from harness.backends.slurm.array_record import records
from harness.backends.status import Progress
from harness.enqueue import resend

if TYPE_CHECKING:
    from tests.harness.backends.slurm.cluster.conftest import Cluster, Sweeper
    from tests.harness.conftest import Lab

MEASURED = (
    "step_seconds",
    "step_overhead",
    "example_overhead",
    "example_cpu_overhead",
    "extra_memory_bytes",
    "memory_overhead",
    "train_seconds",
    "training_overhead",
)
"""Columns that say something about a machine at a moment."""

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def privbench(sweeper: "Sweeper", *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The program in another process, as on another login node."""
    command = [sys.executable, "-P", "-m", "harness.cli", *arguments, "--store", str(sweeper.store.path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)


def status(sweeper: "Sweeper", sweep: str = "sweep") -> dict[str, Any]:
    (shown,) = json.loads(privbench(sweeper, "status", sweep, "--json").stdout)["sweeps"]
    return dict(shown)


@pytest.mark.usefixtures("shadowing")
def test_a_sweep_gives_the_same_rows_as_on_this_machine_and_is_sent_once(
    sweeper: "Sweeper", peaceful: "Lab"
) -> None:
    lab = sweeper.lab
    trainings = [lab.task(index, seed) for seed in range(3) for index in range(6)]
    attacks = [lab.attack(lab.task(seed=seed), models=6) for seed in range(3)]
    every = [*trainings, *attacks]
    # More elements than an array may have here; the attacks wait for both arrays of trainings.
    assert sweeper.send(every, pack=3) == 21
    first = records(sweeper.store)
    assert [len(record.packs) for record in first] == [3, 3, 1]
    assert sweeper.send(every, pack=3) == 21
    assert resend(sweeper.store, "sweep", "slurm", first[0].settings) == 21
    assert [record.name for record in records(sweeper.store)] == [record.name for record in first]
    sweeper.finish(every)
    assert sweeper.reasons(every) == [None] * 21
    assert {sweeper.runs(task) for task in every} == {1}
    assert status(sweeper)["done"] == 21
    peaceful.send(every, slots=2)
    peaceful.wait_for(*every)
    assert lab.rows(every) == peaceful.rows(every)
    assert sweeper.send(every) == 0


def test_every_job_has_its_own_gpu_and_records_where_it_ran(sweeper: "Sweeper") -> None:
    tasks = [sweeper.lab.task(index, steps=40, pause=0.1) for index in range(2)]
    cpu = {"PRIVBENCH_DEVICE": "cpu"}  # the GPUs are none
    sweeper.send(tasks, pack=1, gpus=1, options={"nodelist": "n2"}, environment=cpu)
    sweeper.finish(tasks)
    provenances = [sweeper.lab.result(task).provenance for task in tasks]
    assert sorted(each["cuda_visible_devices"] for each in provenances) == ["0", "1"]
    assert {each["node"] for each in provenances} == {"n2"}
    assert {each["job"].partition("_")[2] for each in provenances} == {"0", "1"}
    assert all(each["memory_bytes"] > 2**28 and each["device"] for each in provenances)


def test_attacks_with_a_partition_of_their_own_hold_no_gpu(sweeper: "Sweeper") -> None:
    tasks = [sweeper.lab.task(index, seed=1) for index in range(2)]
    attack = sweeper.lab.attack(tasks[0])
    cpu = {"PRIVBENCH_DEVICE": "cpu"}
    sweeper.send([*tasks, attack], gpus=1, attack_partition="scavenge", environment=cpu)
    sweeper.finish([*tasks, attack])
    assert sweeper.reasons([*tasks, attack]) == [None] * 3
    seen = [sweeper.lab.result(task).provenance["cuda_visible_devices"] for task in (*tasks, attack)]
    assert (all(seen[:2]), seen[2]) == (True, "")


def test_status_works_in_another_process_and_without_a_controller(
    sweeper: "Sweeper", whole: "Cluster"
) -> None:
    task, later = sweeper.lab.task(steps=60, pause=0.1), sweeper.lab.task(1)
    sweeper.send([task, later], pack=1, array_parallelism=1)
    sweeper.running(task)
    shown = status(sweeper)
    assert (shown["running"], shown["waiting"], shown["queued"]) == (1, 1, True)
    assert {word["state"] for word in shown["scheduler"]} == {"RUNNING", "PENDING"}
    assert "no supervisor" not in privbench(sweeper, "status").stdout
    whole.call("kill-controller")
    shown = status(sweeper)
    assert (shown["queued"], shown["scheduler"]) == (None, None)
    assert shown["done"] + shown["running"] + shown["waiting"] == 2
    assert "SLURM does not respond" in privbench(sweeper, "status").stdout
    assert privbench(sweeper, "cancel", "sweep").returncode == 2  # and nothing is cancelled
    assert sweeper.backend.attend(sweeper.store, "sweep"), "an unresponsive controller does not mean an end"
    whole.up()
    sweeper.finish([task, later])
    assert sweeper.reasons([task, later]) == [None, None]


def test_a_failure_stays_until_it_is_retried(sweeper: "Sweeper") -> None:
    lab = sweeper.lab
    bad, good = [lab.task(i, trouble="error") for i in range(2)], lab.task(seed=1)
    deaf = lab.task(seed=2, trouble="deaf")
    every = [*bad, lab.attack(bad[0]), deaf, good]
    sweeper.send(every, timeout=20.0, pack=5)
    sweeper.finish(every)
    assert sweeper.reasons(every) == ["error", "error", "upstream", "timed_out", None]
    assert "no luck today" in lab.message(bad[0])
    assert sweeper.send(every, timeout=20.0) == 0
    again = privbench(sweeper, "retry", "sweep")  # with its profile and its time limit
    assert "sweep: 4 tasks resubmitted." in again.stdout, again.stdout + again.stderr
    sweeper.finish(every)
    assert sweeper.reasons(every) == ["error", "error", "upstream", "timed_out", None]
    assert sweeper.runs(bad[0]) == 2
    assert sweeper.runs(good) == 1


def test_a_cancelled_sweep_has_a_row_for_every_task_and_spares_other_sweeps(sweeper: "Sweeper") -> None:
    lab = sweeper.lab
    running, waiting = lab.task(steps=200, pause=0.1), lab.task(1, steps=200)
    shared = lab.task(seed=1, steps=10, pause=0.1)
    sweeper.send([running, waiting], "cancelled", pack=1, array_parallelism=1)
    sweeper.send([shared, lab.attack(shared, models=1)], "other")
    sweeper.send([shared, running, waiting], "cancelled")
    sweeper.running(running)
    assert privbench(sweeper, "cancel", "cancelled").returncode == 0
    assert sweeper.reasons([running, waiting]) == ["cancelled", "cancelled"]
    assert "checkpoint is kept" in lab.message(running)
    sweeper.finish([shared, lab.attack(shared, models=1)], "other")
    assert sweeper.reasons([shared, lab.attack(shared, models=1)]) == [None, None]
    lab.wait(lambda: not sweeper.elements())
    assert (sweeper.store.folder(running.key) / "checkpoint").exists()
    assert Progress.of(sweeper.store, "cancelled").summary()["failed"] == 2


def test_a_single_job_cancelled_while_pending_is_reported(sweeper: "Sweeper") -> None:
    tasks = [sweeper.lab.task(index) for index in range(3)]
    sweeper.send(tasks, pack=1, options={"hold": True})
    (job,) = set(sweeper.cluster.ask("squeue", "-h", "-o", "%F").split())
    sweeper.cluster.ask("scancel", f"{job}_1")
    shown = status(sweeper)
    assert (shown["failed"], shown["waiting"], shown["queued"]) == (1, 2, True)
    assert sweeper.reasons(tasks[1:2]) == ["cancelled"]
    assert sweeper.send(tasks) == 3  # of which the array still holds all but the cancelled one
    sweeper.cluster.ask("scontrol", "release", job)
    sweeper.finish(tasks)
    assert sweeper.reasons(tasks) == [None] * 3
    assert {sweeper.runs(task) for task in tasks} == {1}


def test_a_job_that_never_starts_is_reported_with_slurms_reason(sweeper: "Sweeper") -> None:
    task = sweeper.lab.task()
    sweeper.send([task], options={"begin": "now+1hour"})
    # SLURM gives the reason at its next scheduling cycle.
    sweeper.lab.wait(lambda: "BeginTime" in sweeper.cluster.ask("squeue", "-h", "-o", "%r"))
    (word,) = status(sweeper)["scheduler"]
    assert (word["state"], word["reason"], word["tasks"]) == ("PENDING", "BeginTime", [task.key])
    assert sweeper.cluster.ask("scancel", "--name", word["name"]) == ""
    sweeper.finish([task])
    assert sweeper.reasons([task]) == ["cancelled"]
    assert sweeper.send([task]) == 1
    sweeper.finish([task])
    assert sweeper.reasons([task]) == [None]


def test_a_profile_is_checked_against_the_cluster(sweeper: "Sweeper", tmp_path: Any) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text('partition = "debug"\ngpus = 1\ncpus = 1\ntime = "10"\n')
    bad.write_text('partition = "gpu"\ngpus = 9\ncontainer = "/no/image.sif"\n')
    checked = privbench(sweeper, "doctor", "--profile", str(good), "--json")
    assert checked.returncode == 0
    found = {row["what"]: row["found"] for row in json.loads(checked.stdout)}
    assert found["limits"] == "arrays of 4, 20000 jobs at a time"
    assert found["width"] == "8 such jobs at once on the empty cluster"
    checked = privbench(sweeper, "doctor", "--profile", str(bad), "--json")
    assert checked.returncode == 1
    missing = {row["what"]: row["found"] for row in json.loads(checked.stdout) if row["state"] == "missing"}
    assert missing.keys() >= {"container", "partition", "test job"}
    assert missing["partition"] == "no partition gpu; partitions are debug, scavenge"
    assert "nvalid partition" in missing["test job"]


def test_a_bench_runs_on_a_node_and_is_a_task_of_its_sweep_file(sweeper: "Sweeper", tmp_path: Any) -> None:
    profile, sweep = tmp_path / "one.toml", tmp_path / "timed.toml"
    profile.write_text('partition = "debug"\nsignal_seconds = 60\n')
    grid = ("--workload", "digits-linear", "--method", "dp-sgd", "--steps", "12", "--seconds", "1")
    where = ("--backend", "slurm", "--profile", str(profile))
    sent = privbench(sweeper, "bench", *grid, *where, "--json")
    assert sent.returncode == 0, sent.stderr
    (found,) = json.loads(sent.stdout)
    assert [each["role"] for each in found["methods"]] == ["yardstick", "method", "control"]
    by_hand = sweeper.store.result(found["key"])
    assert by_hand is not None and by_hand.provenance["node"] in {"n1", "n2", "n3", "n4"}
    assert by_hand.provenance["job"] and by_hand.bench.bench.methods[1].ratio is not None
    assert "--- " in (sweeper.store.folder(found["key"]) / "log.txt").read_text()
    sweep.write_text(
        '[[bench]]\nworkload = "digits-linear"\nmethod = "dp-sgd"\nmeasure = { steps = 12, seconds = 1 }\n'
    )
    ran = privbench(sweeper, "run", str(sweep), *where)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert status(sweeper, "timed")["done"] == 1
    again = json.loads(privbench(sweeper, "plan", str(sweep), "--json").stdout)
    assert (again["benches"], again["cached"], again["to_run"]) == (1, 1, 0)


def test_the_quickstart_gives_the_same_rows_as_on_this_machine(sweeper: "Sweeper", tmp_path: Any) -> None:
    profile = tmp_path / "two.toml"
    profile.write_text(
        'partition = "debug"\ngpus = 1\narray_parallelism = 2\nsignal_seconds = 60\n'
        'environment = { PRIVBENCH_DEVICE = "cpu" }\n'
    )
    options = ("--backend", "slurm", "--profile", str(profile))
    ran = privbench(sweeper, "run", "quickstart", *options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    command = [
        sys.executable,
        "-m",
        "harness.cli",
        "run",
        "quickstart",
        "--store",
        str(tmp_path / "local"),
    ]
    subprocess.run(command, capture_output=True, timeout=1800, check=True)
    rows = f"select * exclude ({', '.join(MEASURED)}) from frontier order by cell, attack"
    asked = ["query", rows, "--format", "json"]
    here = subprocess.run(
        [*command[:3], *asked, "--store", str(tmp_path / "local")], capture_output=True, text=True, check=True
    )
    assert json.loads(privbench(sweeper, *asked).stdout) == json.loads(here.stdout)
