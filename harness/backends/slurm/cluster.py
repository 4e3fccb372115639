"""What SLURM is asked and told: every command with a time limit, every answer a hint.

An empty or failing answer means unknown. What has ended, and how, is decided by the store.
"""

import contextlib
import os
import pwd
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.backends.slurm.profile import Profile, seconds_of
from workloads.errors import BackendError

ANSWER_SECONDS = 60.0
"""How long a busy controller may take."""
GONE = "GONE"
"""Our own word for an element that SLURM leaves out while it lists others of the same array: cancelled singly
while it waited, of which SLURM keeps nothing, or ended so long ago that it was forgotten."""
OVER = (
    GONE,
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
)
"""States a job does not leave by itself. A requeued job shows as PENDING again, under the same id."""
WHOLE = -1
"""The index of a word on a whole array: of one that was cancelled before any element was started."""
AT_ONCE = 500
"""Ids on one command line."""


@dataclass(frozen=True)
class Word:
    """What SLURM says of one element of an array."""

    name: str
    """The job's name: the record it belongs to."""
    job: str
    index: int
    state: str
    reason: str
    node: str

    @property
    def id(self) -> str:
        """The element as SLURM's commands take it."""
        return self.job if self.index == WHOLE else f"{self.job}_{self.index}"

    @property
    def over(self) -> bool:
        """Whether this element has ended for good, as far as SLURM knows."""
        return self.state in OVER


@dataclass(frozen=True)
class Limits:
    """What a user may submit; None where nothing limits it."""

    array: int
    """Elements of one array."""
    submitted: int | None
    """Jobs queued or running at a time, each element counting as one."""


def ask(*command: str, seconds: float = ANSWER_SECONDS) -> str | None:
    """The output of a command of SLURM; None where it failed, is missing, or did not answer in time."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def tell(*command: str) -> str:
    """The output of a command that must succeed; BackendError with SLURM's own words."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    except FileNotFoundError:
        raise BackendError(f"there is no {command[0]} here: install SLURM's commands") from None
    except subprocess.TimeoutExpired:
        raise BackendError(f"{command[0]} has not answered within {ANSWER_SECONDS:g} s") from None
    if done.returncode:
        raise BackendError(f"{command[0]} says: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def queue() -> list[Word] | None:
    """Every element of this user's jobs that the controller remembers; None where it does not answer."""
    form = "%j|%F|%K|%T|%r|%N"
    told = ask("squeue", "-h", "-r", "-t", "all", "--user", str(os.getuid()), "-o", form)
    return None if told is None else list(_words(told))


def _words(told: str) -> Iterator[Word]:
    for line in told.splitlines():
        with contextlib.suppress(ValueError):
            name, job, index, state, reason, node = line.split("|")
            yield Word(name, job, int(index) if index.isdigit() else WHOLE, state, reason, node)


def past(names: Sequence[str]) -> list[Word]:
    """What the accounting remembers of jobs the controller has forgotten; nothing where there is none."""
    words = []
    for some in _portions(names):
        form = "JobName,JobID,State,NodeList"
        told = ask("sacct", "-nPX", "-S", "now-90days", f"--name={','.join(some)}", "-o", form)
        for line in (told or "").splitlines():
            with contextlib.suppress(ValueError):
                name, id, state, node = line.split("|")
                job, index = id.split("_")
                # sacct says who cancelled: `CANCELLED by 1000`.
                words.append(Word(name, job, int(index), state.split()[0], "", node))
    return words


def seconds_left(job: str) -> int:
    """How long a running job may still run; 0 where SLURM does not say."""
    told = ask("squeue", "-h", "-j", job, "-o", "%L", seconds=5.0)
    try:
        return seconds_of((told or "").strip())
    except ValueError:
        return 0


def requeue(job: str) -> str | None:
    """Ask SLURM to run the job that asks again; its objection, or None.

    SLURM ends the job for that, and scontrol with it: one that was killed or gives no answer has not refused.
    """
    command = ["scontrol", "requeue", job]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    except FileNotFoundError:
        return "there is no scontrol on the node"
    except subprocess.TimeoutExpired:
        return None
    return done.stderr.strip() or "no reason given" if done.returncode > 0 else None


def cancel(ids: Sequence[str]) -> None:
    """End jobs or elements; those that have ended already are no error to scancel."""
    for some in _portions(ids):
        tell("scancel", "--quiet", *some)


def _portions(things: Sequence[str]) -> Iterator[Sequence[str]]:
    for begin in range(0, len(things), AT_ONCE):
        yield things[begin : begin + AT_ONCE]


class Site:
    """What a cluster tells of itself."""

    @cached_property
    def settings(self) -> dict[str, str]:
        """`scontrol show config`; BackendError where the controller does not answer."""
        lines = tell("scontrol", "show", "config").splitlines()
        pairs = (line.split("=", 1) for line in lines if "=" in line)
        return {name.strip(): value.strip() for name, value in pairs}

    @property
    def accounting(self) -> bool:
        """Whether there is a database that knows users, limits and past jobs."""
        return "slurmdbd" in self.settings.get("AccountingStorageType", "")

    def limits(self, profile: Profile) -> Limits:
        """Read from the configuration and, where there is one, the accounting database."""
        array = int(self.settings.get("MaxArraySize", "1001"))
        bounds = [int(self.settings["MaxJobCount"])] if "MaxJobCount" in self.settings else []
        if self.accounting and "limits" in self.settings.get("AccountingStorageEnforce", ""):
            bounds += self._association(profile) + self._quality(profile)
        return Limits(max(1, array), min(bounds, default=None))

    def _association(self, profile: Profile) -> list[int]:
        chosen = [f"account={profile.account}"] if profile.account else []
        told = ask(
            "sacctmgr",
            "-nP",
            "show",
            "assoc",
            f"user={pwd.getpwuid(os.getuid()).pw_name}",
            *chosen,
            "format=MaxSubmitJobs",
        )
        return _numbers(told)

    def _quality(self, profile: Profile) -> list[int]:
        if not profile.qos:
            return []
        return _numbers(ask("sacctmgr", "-nP", "show", "qos", profile.qos, "format=MaxSubmitJobsPerUser"))

    def width(self, profile: Profile) -> int:
        """How many such jobs the partition could run at once if it were empty; 1 where it does not say."""
        chosen = ["-p", profile.partition] if profile.partition else []
        told = ask("sinfo", "-h", "-N", *chosen, "-o", "%N|%c|%G") or ""
        nodes = {line.split("|")[0]: line for line in told.splitlines() if line.count("|") == 2}
        return max(1, sum(_room(line, profile) for line in nodes.values()))


def _room(node: str, profile: Profile) -> int:
    _, cpus, gres = node.split("|")
    by_cpus = int(re.match(r"\d*", cpus)[0] or 0) // profile.cpus  # type: ignore[index]  # matches ""
    if not profile.gpus:
        return by_cpus
    gpus = sum(int(count) for count in re.findall(r"gpu(?::[^:,()]+)?:(\d+)", gres))
    return min(by_cpus, gpus // profile.gpus)


def _numbers(told: str | None) -> list[int]:
    return [int(line) for line in (told or "").split() if line.isdigit()]
