"""A SLURM cluster: open tasks become job arrays; the store says what has ended, SLURM only hints.

submitit writes the batch scripts. Its pickles are not used: an element of an array reads what to do
from a record that was on disk before the array was submitted (array_record.py), so that
nothing depends on the life of the one who submitted.
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
from harness.backends.slurm.cluster import GONE, Limits, Site, Word
from harness.backends.slurm.profile import Profile
from harness.store import Store, heartbeat
from harness.store.files import write_atomic
from harness.store.locks import locked
from workloads.errors import BackendError

LOOK_SECONDS = 5.0
"""Between two questions to the controller while somebody waits for a sweep."""
NO_ANSWER = "squeue does not answer: nothing was {}; ask again when the controller is back"


class Slurm(Backend):
    """Runs jobs as elements of job arrays."""

    name = "slurm"
    about: ClassVar[str] = "job arrays of a SLURM cluster"
    Profile: ClassVar[type[ProfileFile] | None] = Profile
    packs: ClassVar[bool] = True

    def __init__(self) -> None:
        self._attended: dict[tuple[Path, str], tuple[float, bool]] = {}
        """By store and sweep: when the controller was last asked, and whether it had the sweep."""

    def device(self, settings: Settings) -> Literal["cpu", "cuda"]:
        """A GPU where the profile asks for some and does not tell tasks to do without."""
        profile = settings.profile_as(Profile)
        return "cuda" if profile.gpus and profile.environment.get(DEVICE) != "cpu" else "cpu"

    def submit(self, jobs: Sequence[Job], store: Store, sweep: str, settings: Settings) -> None:
        """Submit what no array holds yet, stage by stage; the arrays of a stage wait for the one before."""
        settings = complete(settings)
        make_folder(store)
        with locked(folder(store)):  # two at once would each send what the other has not sent yet
            words = cluster.queue()
            if words is None:
                raise BackendError(NO_ANSWER.format("sent"))
            for record in records(store):
                if all(store.result(key, summed=False) is not None for key in record.tasks):
                    tidy(store, record)
            holders, known = held(elements(store, words)), {word.id: word for word in words}
            taken = {key for job in jobs for key in job.tasks if key in holders or beating(store, key, known)}
            free = [job for job in jobs if not taken & {*job.tasks}]
            self._send(free, store, sweep, settings, words, holders)

    def _send(
        self,
        free: Sequence[Job],
        store: Store,
        sweep: str,
        settings: Settings,
        words: Sequence[Word],
        holders: dict[str, str],
    ) -> None:
        """Submit jobs as arrays within the cluster's limits; `holders` learns who has them."""
        site, asked = Site(), settings.profile_as(Profile)
        limits = room(site.limits(asked), words)
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
        """Cancel the sweep's elements, except those that other sweeps in work wait for."""
        words = cluster.queue()
        if words is None:
            raise BackendError(NO_ANSWER.format("cancelled"))
        alive = [each for each in elements(store, words) if each.alive]
        others = {each.record.sweep for each in alive} - {sweep}
        wanted = {entry.key for other in others for entry in store.sweep(other).tasks}
        mine = [each for each in alive if each.record.sweep == sweep]
        cluster.cancel([each.word.id for each in mine if each.word and not wanted & {*each.tasks}])
        if not cancel:
            return
        for key in unfinished(store, sweep) - wanted:
            when = "while it ran; its checkpoint is kept" if begun(store, key) else "before it ran"
            publish_failure(store, key, "cancelled", f"cancelled {when}")

    def attend(self, store: Store, sweep: str) -> bool:
        """Whether SLURM still has the sweep, or does not say; settles what ended without a row."""
        asked, working = self._attended.get((store.path, sweep), (0.0, False))
        if not working or time.monotonic() - asked > LOOK_SECONDS:
            words = cluster.queue()
            working = words is None or bool(settle(store, unfinished(store, sweep), words))
            self._attended[store.path, sweep] = time.monotonic(), working
        return working

    def status(self, store: Store, sweep: str, tasks: Set[str]) -> Standing:
        """SLURM's jobs that hold open tasks; settles what ended without a row."""
        if not tasks:
            return Standing(queued=False)
        jobs = holding(store, tasks)
        if jobs is None:
            said = "SLURM does not answer; the counts are from the store, which decides"
            return Standing(None, (f"{sweep}: {said}",))
        if not jobs:
            said = "SLURM has nothing of it; `privbench enqueue` sends what is open"
            return Standing(False, (f"{sweep}: {said}",), jobs)
        counts = Counter(f"{job.state} ({job.reason})" for job in jobs).most_common()
        said = ", ".join(f"{count} {state}" for state, count in counts)
        return Standing(True, (f"{sweep}: SLURM has jobs: {said}",), jobs)

    def parts(self) -> list[Finding]:
        """submitit, and the programs that submit jobs and run containers."""
        from harness.backends.slurm.checkup import parts  # builds on this module

        return parts()

    def check(self, profile: ProfileFile | None) -> list[Finding]:
        """Everything between a profile and a running job."""
        from harness.backends.slurm.checkup import check  # builds on this module

        return check(Settings(profile=profile).profile_as(Profile))


def complete(settings: Settings) -> Settings:
    """Settings as an element needs them: the profile, with what the command line said of slots."""
    profile = settings.profile_as(Profile)
    if settings.slots:
        profile = profile.model_copy(update={"array_parallelism": settings.slots})
    if settings.share_gpus:
        raise BackendError("--share-gpus is for backends on this machine: on SLURM a job has its own GPUs")
    if settings.threads > profile.cpus:
        raise BackendError(
            f"{settings.threads} threads on {profile.cpus} cores: give the profile "
            f"cpus = {settings.threads}, or fewer --threads"
        )
    return replace(settings, profile=profile)


def alike(stages: Iterable[Sequence[Job]], profile: Profile) -> Iterator[tuple[list[Job], Profile]]:
    """The jobs of each stage that ask for the same, and what they ask for."""
    for stage in stages:
        if profile.for_attacks == profile:
            yield [*stage], profile
            continue
        for on_gpu, asked in ((True, profile), (False, profile.for_attacks)):
            if some := [job for job in stage if job.gpu is on_gpu]:
                yield some, asked


def room(limits: Limits, words: Iterable[Word]) -> Limits:
    """What is left of the limits beside the jobs that are there already."""
    if limits.submitted is None:
        return limits
    present = sum(not word.over for word in words)
    if present >= limits.submitted:
        raise BackendError(
            f"{present} of the {limits.submitted} jobs you may have on this cluster are there already: "
            "wait until some have ended, then run the command again"
        )
    return replace(limits, submitted=limits.submitted - present)


def held(every: Iterable[Element]) -> dict[str, str]:
    """Tasks that are in the hands of a living element, and the array it belongs to."""
    return {key: each.word.job for each in every if each.word and each.alive for key in each.tasks}


def beating(store: Store, key: str, known: Mapping[str, Word]) -> bool:
    """Whether some process says that it runs the task, and SLURM does not know that its job is gone.

    Of a job on a node it has lost, or that it has forgotten, SLURM knows nothing: that one may go on.
    """
    beat = heartbeat(store.folder(key))
    if beat is None or store.result(key, summed=False) is not None:
        return False
    word = known.get(beat.job or "")
    return word is None or not word.over or word.state in ("NODE_FAIL", GONE)


def made(found: Sequence[Sequence[Job]], sweep: str, settings: Settings) -> Record:
    """The record of one array."""
    needs = {key: job.needs for pack in found for job in pack for key in job.tasks if job.needs}
    packs = tuple(tuple(key for job in pack for key in job.tasks) for pack in found)
    return Record(new_name(sweep), sweep, packs, needs, settings, time.time())


def needed(record: Record) -> set[str]:
    """Everything that tasks of a record read."""
    return {need for needs in record.needs.values() for need in needs}


def send(record: Record, store: Store, after: Collection[str]) -> str:
    """Write the record, then submit its array; the array's id.

    Killed in between, the record stands for an array that is not in the queue: its tasks are free, and
    the next enqueue sends them. Killed after, the array is found by the record's name.
    """
    record.write(store)
    script = folder(store) / f"{record.name}.sh"
    write_atomic(script, batch_script(record, store, after).encode())
    told = cluster.tell("sbatch", "--parsable", str(script))
    return told.strip().split(";")[0]


def batch_script(record: Record, store: Store, after: Collection[str]) -> str:
    """What sbatch gets, written by submitit."""
    try:
        from submitit import SlurmExecutor
    except ImportError:
        raise BackendError("the slurm backend needs submitit: pip install 'privbench[slurm]'") from None
    try:
        executor = SlurmExecutor(folder=folder(store))
    except RuntimeError as error:
        raise BackendError(f"there is no SLURM here: {error}") from error
    profile = record.profile
    executor.update_parameters(**parameters(record, store, after))
    executor.parameters["map_count"] = len(record.packs)
    exports = [f"export {name}={shlex.quote(value)}" for name, value in profile.environment.items()]
    executor.parameters["setup"] = [f"export {BEGAN}=$(date +%s)", *exports, *profile.setup]
    words = [*program("harness.backends.slurm.element"), str(store.path), record.name]
    # `exec`: signals for the batch script reach the element itself; one that comes before it listens
    # must not kill it.
    command = f"trap '' USR1\nexec {shlex.join(words)}"
    text: str = executor._make_submission_file_text(command, record.name)
    return text


def parameters(record: Record, store: Store, after: Collection[str]) -> dict[str, Any]:
    """The options of sbatch, as submitit calls them."""
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
            # The path may hold any character; only %a is ours.
            "output": f"{str(folder(store) / record.name).replace('%', '%%')}-%a.txt",
        },
    }
    return {name: value for name, value in asked.items() if value is not None}


REASONS = {"TIMEOUT": "timed_out", "DEADLINE": "timed_out", "OUT_OF_MEMORY": "out_of_memory"}
"""What SLURM's word for the end of a job means for the task that ran; every other is `killed`."""


def settle(store: Store, keys: Set[str], words: list[Word]) -> list[Element]:
    """Give a row to open tasks whose job has ended without one; the elements that hold the others.

    A node that SLURM has lost may go on working: a task that still tells of itself is let be.
    """
    every = remembered([each for each in elements(store, words) if keys & {*each.tasks}], words)
    known = {each.word.id: each.word for each in every if each.word}
    lost = keys - held(every).keys()
    beats = {key for key in lost if beating(store, key, known)}
    last = {key: each.word for each in every for key in each.tasks}
    for key in lost - beats:
        if (word := last.get(key)) is not None and word.over:
            publish_failure(store, key, *epitaph(store, key, word))
    return [each for each in every if each.alive or beats & {*each.tasks}]


def remembered(every: Sequence[Element], words: Iterable[Word]) -> list[Element]:
    """Elements, those that the controller does not list with the best other word on them.

    That is the accounting's; else GONE, where the controller lists another element of the array.
    """
    names = sorted({each.record.name for each in every if each.word is None})
    known = {(word.name, word.index): word for word in cluster.past(names)} if names else {}
    arrays = {word.name: word.job for word in words}

    def best(each: Element) -> Word | None:
        name = each.record.name
        gone = Word(name, arrays[name], each.index, GONE, "", "") if name in arrays else None
        return each.word or known.get((name, each.index), gone)

    return [replace(each, word=best(each)) for each in every]


def begun(store: Store, key: str) -> bool:
    """Whether a task has run before, for however short."""
    return (store.folder(key) / "log.txt").exists()


def epitaph(store: Store, key: str, word: Word) -> tuple[str, str]:
    """(reason, message) for a task whose job has ended without a result."""
    if word.state == GONE and not begun(store, key):
        said = f"SLURM has others of its array and not its job {word.id}: cancelled before it began"
        return "cancelled", f"{said}, or ended long ago; enqueue the sweep again to go on"
    said = f"SLURM says {word.state} of job {word.id} on {word.node or 'no node'}"
    if word.state == "CANCELLED":
        return "cancelled", f"{said}; enqueue the sweep again to go on"
    if not begun(store, key):
        return "killed", f"its job ended before it began: {said}; running the sweep again runs it"
    return REASONS.get(word.state, "killed"), f"{said}; running the sweep again resumes it"


def holding(store: Store, keys: Set[str]) -> tuple[SchedulerJob, ...] | None:
    """SLURM's jobs that hold open tasks, by element; None where the controller does not answer."""
    words = cluster.queue()
    if words is None:
        return None
    return tuple(
        SchedulerJob(**asdict(each.word), tasks=tuple(key for key in each.tasks if key in keys))
        for each in settle(store, keys, words)
        if each.word is not None
    )
