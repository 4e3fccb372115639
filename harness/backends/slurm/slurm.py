"""A SLURM cluster: unfinished tasks become job arrays. The store decides what has ended; SLURM only hints.

submitit writes the batch scripts. Its pickles are not used: an array element reads its tasks from a record
that was on disk before the submission (array_record.py), so that nothing depends on the submitting process.
"""

import shlex
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from harness.backends import packing
from harness.backends.base import (
    Backend,
    Finding,
    Job,
    SchedulerJob,
    Settings,
    Standing,
    program,
    publish_failure,
)
from harness.backends.gpus import DEVICE
from harness.backends.profile import ProfileFile
from harness.backends.sent import unfinished
from harness.backends.slurm import cluster
from harness.backends.slurm.array_record import (
    BEGAN,
    Element,
    Record,
    elements,
    folder,
    make_folder,
    new_name,
    records,
    tidy,
)
from harness.backends.slurm.cluster import GONE, JobInfo, Limits, Site
from harness.backends.slurm.profile import Profile
from harness.store import Store, heartbeat
from harness.store.files import write_atomic
from harness.store.locks import locked
from workloads.errors import BackendError

LOOK_SECONDS = 5.0
"""Interval between two queries of the controller while waiting for a sweep."""
NO_ANSWER = "squeue does not respond: nothing was {}; try again when the controller is back"


class Slurm(Backend):
    """Runs jobs as elements of job arrays."""

    name = "slurm"
    about: ClassVar[str] = "job arrays of a SLURM cluster"
    Profile: ClassVar[type[ProfileFile] | None] = Profile
    packs: ClassVar[bool] = True

    def __init__(self) -> None:
        self._attended: dict[tuple[Path, str], tuple[float, bool]] = {}
        """By store and sweep: the time of the last query, and whether SLURM had the sweep."""

    def device(self, settings: Settings) -> Literal["cpu", "cuda"]:
        """`cuda` if the profile requests GPUs and its environment does not force the CPU."""
        profile = settings.profile_as(Profile)
        return "cuda" if profile.gpus and profile.environment.get(DEVICE) != "cpu" else "cpu"

    def submit(self, jobs: Sequence[Job], store: Store, sweep: str, settings: Settings) -> None:
        """Submit tasks that no array holds; the arrays of a stage depend on those of the previous one."""
        settings = complete(settings)
        make_folder(store)
        with locked(folder(store)):  # two submissions at once would send the same tasks
            listed = cluster.queue()
            if listed is None:
                raise BackendError(NO_ANSWER.format("submitted"))
            for record in records(store):
                if all(store.result(key, verify=False) is not None for key in record.tasks):
                    tidy(store, record)
            holders, known = held(elements(store, listed)), {info.id: info for info in listed}
            taken = {
                key for job in jobs for key in job.tasks if key in holders or is_running(store, key, known)
            }
            free = [job for job in jobs if not taken & {*job.tasks}]
            self._send(free, store, sweep, settings, listed, holders)

    def _send(
        self,
        free: Sequence[Job],
        store: Store,
        sweep: str,
        settings: Settings,
        listed: Sequence[JobInfo],
        holders: dict[str, str],
    ) -> None:
        """Submit jobs as arrays within the cluster's limits; adds the array of every task to `holders`."""
        site, asked = Site(), settings.profile_as(Profile)
        limits = room(site.limits(asked), listed)
        for some, profile in alike(packing.stages(free), asked):
            width = min(profile.array_parallelism or sys.maxsize, site.width(profile))
            share = None if limits.submitted is None else max(1, limits.submitted * len(some) // len(free))
            found = packing.packs(some, profile.pack, width, share)
            own = replace(settings, profile=profile)
            for part in packing.chunks(len(found), limits.array):
                record = made(found[part], sweep, own)
                job = send(record, store, {holders[need] for need in needed(record) if need in holders})
                holders |= dict.fromkeys(record.tasks, job)
                time.sleep(profile.throttle_seconds)

    def stop(self, store: Store, sweep: str, cancel: bool) -> None:
        """Cancel the sweep's elements, except those that other running sweeps need."""
        listed = cluster.queue()
        if listed is None:
            raise BackendError(NO_ANSWER.format("cancelled"))
        alive = [each for each in elements(store, listed) if each.alive]
        others = {each.record.sweep for each in alive} - {sweep}
        wanted = {entry.key for other in others for entry in store.sweep(other).tasks}
        mine = [each for each in alive if each.record.sweep == sweep]
        cluster.cancel([each.info.id for each in mine if each.info and not wanted & {*each.tasks}])
        if not cancel:
            return
        for key in unfinished(store, sweep) - wanted:
            when = "while it ran; its checkpoint is kept" if begun(store, key) else "before it ran"
            publish_failure(store, key, "cancelled", f"cancelled {when}")

    def attend(self, store: Store, sweep: str) -> bool:
        """Whether SLURM still has the sweep, or does not respond; writes failures of lost tasks."""
        asked, working = self._attended.get((store.path, sweep), (0.0, False))
        if not working or time.monotonic() - asked > LOOK_SECONDS:
            listed = cluster.queue()
            working = listed is None or bool(settle(store, unfinished(store, sweep), listed))
            self._attended[store.path, sweep] = time.monotonic(), working
        return working

    def status(self, store: Store, sweep: str, tasks: Set[str]) -> Standing:
        """Report SLURM's jobs with unfinished tasks; writes failures of tasks whose job has ended."""
        if not tasks:
            return Standing(queued=False)
        jobs = holding(store, tasks)
        if jobs is None:
            detail = "SLURM does not respond; the counts are from the store and are correct"
            return Standing(None, (f"{sweep}: {detail}",))
        if not jobs:
            detail = "SLURM has no jobs of it; `privbench enqueue` submits unfinished tasks"
            return Standing(False, (f"{sweep}: {detail}",), jobs)
        counts = Counter(f"{job.state} ({job.reason})" for job in jobs).most_common()
        detail = ", ".join(f"{count} {state}" for state, count in counts)
        return Standing(True, (f"{sweep}: SLURM has jobs: {detail}",), jobs)

    def parts(self) -> list[Finding]:
        """Check submitit and the programs that submit jobs and run containers."""
        from harness.backends.slurm.checkup import parts  # builds on this module

        return parts()

    def check(self, profile: ProfileFile | None) -> list[Finding]:
        """Check everything a job with this profile needs."""
        from harness.backends.slurm.checkup import check  # builds on this module

        return check(Settings(profile=profile).profile_as(Profile))


def complete(settings: Settings) -> Settings:
    """Complete the profile with the command line's slots; BackendError if they do not fit together."""
    profile = settings.profile_as(Profile)
    if settings.slots:
        profile = profile.model_copy(update={"array_parallelism": settings.slots})
    if settings.share_gpus:
        raise BackendError(
            "--share-gpus is for backends on this machine: on SLURM a job has its own GPUs",
            field="--share-gpus",
            value=True,
        )
    if settings.threads > profile.cpus:
        raise BackendError(
            f"{settings.threads} threads on {profile.cpus} cores: give the profile "
            f"cpus = {settings.threads}, or fewer --threads",
            field="--threads",
            value=settings.threads,
            allowed=profile.cpus,
        )
    return replace(settings, profile=profile)


def alike(stages: Iterable[Sequence[Job]], profile: Profile) -> Iterator[tuple[list[Job], Profile]]:
    """Split each stage by the resources its jobs need; (jobs, profile) pairs."""
    for stage in stages:
        if profile.for_attacks == profile:
            yield [*stage], profile
            continue
        for on_gpu, asked in ((True, profile), (False, profile.for_attacks)):
            if some := [job for job in stage if job.gpu is on_gpu]:
                yield some, asked


def room(limits: Limits, listed: Iterable[JobInfo]) -> Limits:
    """The limits minus the user's present jobs; BackendError if nothing is left."""
    if limits.submitted is None:
        return limits
    present = sum(not info.over for info in listed)
    if present >= limits.submitted:
        raise BackendError(
            f"you already have {present} of the {limits.submitted} jobs that this cluster allows: "
            "wait until some have ended, then run the command again",
            field="jobs",
            value=present,
            allowed=limits.submitted,
        )
    return replace(limits, submitted=limits.submitted - present)


def held(every: Iterable[Element]) -> dict[str, str]:
    """The array id of every task held by a live element."""
    return {key: each.info.job for each in every if each.info and each.alive for key in each.tasks}


def is_running(store: Store, key: str, known: Mapping[str, JobInfo]) -> bool:
    """Whether the task has a fresh heartbeat and SLURM does not know that its job has ended.

    A job on a lost node, or one that SLURM has dropped, may still be running.
    """
    pulse = heartbeat(store.folder(key))
    if pulse is None or store.result(key, verify=False) is not None:
        return False
    info = known.get(pulse.job or "")
    return info is None or not info.over or info.state in ("NODE_FAIL", GONE)


def made(found: Sequence[Sequence[Job]], sweep: str, settings: Settings) -> Record:
    """The record of one array."""
    needs = {key: job.needs for pack in found for job in pack for key in job.tasks if job.needs}
    packs = tuple(tuple(key for job in pack for key in job.tasks) for pack in found)
    return Record(new_name(sweep), sweep, packs, needs, settings, time.time())


def needed(record: Record) -> set[str]:
    """All dependencies of a record's tasks."""
    return {need for needs in record.needs.values() for need in needs}


def send(record: Record, store: Store, after: Collection[str]) -> str:
    """Write the record, then submit its array; return the array's id.

    After a kill in between, the record has no array in the queue, and the next enqueue submits its tasks
    again. After a later kill, the array is found by the record's name.
    """
    record.write(store)
    script = folder(store) / f"{record.name}.sh"
    write_atomic(script, batch_script(record, store, after).encode())
    output = cluster.run("sbatch", "--parsable", str(script))
    return output.strip().split(";")[0]


def batch_script(record: Record, store: Store, after: Collection[str]) -> str:
    """The batch script, written by submitit."""
    try:
        from submitit import SlurmExecutor
    except ImportError:
        raise BackendError("the slurm backend needs submitit: pip install 'privbench[slurm]'") from None
    try:
        executor = SlurmExecutor(folder=folder(store))
    except RuntimeError as error:
        raise BackendError(f"SLURM was not found: {error}") from error
    profile = record.profile
    executor.update_parameters(**parameters(record, store, after))
    executor.parameters["map_count"] = len(record.packs)
    exports = [f"export {name}={shlex.quote(value)}" for name, value in profile.environment.items()]
    executor.parameters["setup"] = [f"export {BEGAN}=$(date +%s)", *exports, *profile.setup]
    command = [*program("harness.backends.slurm.element"), str(store.path), record.name]
    # `exec`: signals to the batch script reach the element; `trap`: one that arrives before its handlers
    # are set must not kill it.
    script = f"trap '' USR1\nexec {shlex.join(command)}"
    text: str = executor._make_submission_file_text(script, record.name)
    return text


def parameters(record: Record, store: Store, after: Collection[str]) -> dict[str, Any]:
    """The options of sbatch, by submitit's names."""
    profile = record.profile
    asked = {
        "job_name": record.name,
        "partition": profile.partition,
        "account": profile.account,
        "qos": profile.qos,
        "constraint": profile.constraint,
        "gres": profile.gres,
        "cpus_per_task": profile.cpus,
        "mem": profile.memory,
        "time": profile.time,
        "array_parallelism": profile.array_parallelism or len(record.packs),
        "dependency": f"afterany:{':'.join(sorted(after))}" if after else None,
        "stderr_to_stdout": True,
        "use_srun": False,
        "additional_parameters": {
            **{name.replace("_", "-"): value for name, value in profile.options.items()},
            "signal": f"B:USR1@{profile.signal_seconds}",
            "requeue": True,
            # The path may contain any character; only %a is a placeholder.
            "output": f"{str(folder(store) / record.name).replace('%', '%%')}-%a.txt",
        },
    }
    return {name: value for name, value in asked.items() if value is not None}


REASONS = {"TIMEOUT": "timed_out", "DEADLINE": "timed_out", "OUT_OF_MEMORY": "out_of_memory"}
"""Failure reasons by the final state of a job; `killed` for all others."""


def settle(store: Store, keys: Set[str], listed: list[JobInfo]) -> list[Element]:
    """Write failures for unfinished tasks whose job has ended; return the elements that hold the others.

    A node that SLURM has lost may still be working: a task with a fresh heartbeat is left alone.
    """
    every = with_accounting([each for each in elements(store, listed) if keys & {*each.tasks}], listed)
    known = {each.info.id: each.info for each in every if each.info}
    lost = keys - held(every).keys()
    running = {key for key in lost if is_running(store, key, known)}
    last = {key: each.info for each in every for key in each.tasks}
    for key in lost - running:
        if (info := last.get(key)) is not None and info.over:
            publish_failure(store, key, *exit_cause(store, key, info))
    return [each for each in every if each.alive or running & {*each.tasks}]


def with_accounting(every: Sequence[Element], listed: Iterable[JobInfo]) -> list[Element]:
    """Complete elements that the controller does not list.

    Their state is taken from the accounting database, or GONE if the controller lists others of the array.
    """
    names = sorted({each.record.name for each in every if each.info is None})
    known = {(info.name, info.index): info for info in cluster.past(names)} if names else {}
    arrays = {info.name: info.job for info in listed}

    def best(each: Element) -> JobInfo | None:
        name = each.record.name
        gone = JobInfo(name, arrays[name], each.index, GONE, "", "") if name in arrays else None
        return each.info or known.get((name, each.index), gone)

    return [replace(each, info=best(each)) for each in every]


def begun(store: Store, key: str) -> bool:
    """Whether a task has ever started."""
    return (store.folder(key) / "log.txt").exists()


def exit_cause(store: Store, key: str, info: JobInfo) -> tuple[str, str]:
    """(reason, message) for a task whose job ended without a result."""
    if info.state == GONE and not begun(store, key):
        detail = f"SLURM lists others of its array but not its job {info.id}: cancelled before it started"
        return "cancelled", f"{detail}, or ended long ago; enqueue the sweep again to resume"
    detail = f"SLURM reports {info.state} for job {info.id} on {info.node or 'no node'}"
    if info.state == "CANCELLED":
        return "cancelled", f"{detail}; enqueue the sweep again to resume"
    if not begun(store, key):
        return "killed", f"its job ended before it started: {detail}; running the sweep again runs it"
    return REASONS.get(info.state, "killed"), f"{detail}; running the sweep again resumes it"


def holding(store: Store, keys: Set[str]) -> tuple[SchedulerJob, ...] | None:
    """SLURM's jobs with unfinished tasks, by element; None if the controller does not respond."""
    listed = cluster.queue()
    if listed is None:
        return None
    return tuple(
        SchedulerJob(**asdict(each.info), tasks=tuple(key for key in each.tasks if key in keys))
        for each in settle(store, keys, listed)
        if each.info is not None
    )
