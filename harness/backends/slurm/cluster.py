"""SLURM's commands, each with a timeout.

Their output is only a hint: empty or failed means unknown. Whether a task has ended is decided by the store.
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
"""Timeout of a busy controller."""
GONE = "GONE"
"""Our own state for an element that SLURM no longer lists although it lists others of its array: cancelled
while pending, which leaves no trace, or ended so long ago that it was dropped."""
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
"""Final states. A requeued job becomes PENDING again, under the same id."""
WHOLE = -1
"""The index of a whole array that was cancelled before any element started."""
AT_ONCE = 500
"""Maximum number of ids on one command line."""


@dataclass(frozen=True)
class JobInfo:
    """The state of one array element, as SLURM reports it."""

    name: str
    """The job's name: the name of its record."""
    job: str
    index: int
    state: str
    reason: str
    node: str

    @property
    def id(self) -> str:
        """The id of the element, as SLURM's commands take it."""
        return self.job if self.index == WHOLE else f"{self.job}_{self.index}"

    @property
    def over(self) -> bool:
        """Whether its state is final."""
        return self.state in OVER


@dataclass(frozen=True)
class Limits:
    """Limits on a user's jobs; None if there is none."""

    array: int
    """Maximum number of elements of one array."""
    submitted: int | None
    """Maximum number of jobs queued or running, each element counting as one."""


def ask(*command: str, seconds: float = ANSWER_SECONDS) -> str | None:
    """Output of a SLURM command; None if it fails, is missing or times out."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def run(*command: str) -> str:
    """Output of a SLURM command; BackendError with SLURM's message if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    except FileNotFoundError:
        raise BackendError(f"{command[0]} was not found: install SLURM's commands") from None
    except subprocess.TimeoutExpired:
        raise BackendError(f"{command[0]} did not respond within {ANSWER_SECONDS:g} s") from None
    if done.returncode:
        raise BackendError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def queue() -> list[JobInfo] | None:
    """List this user's array elements known to the controller; None if it does not respond."""
    form = "%j|%F|%K|%T|%r|%N"
    output = ask("squeue", "-h", "-r", "-t", "all", "--user", str(os.getuid()), "-o", form)
    return None if output is None else list(_parse_queue(output))


def _parse_queue(output: str) -> Iterator[JobInfo]:
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            name, job, index, state, reason, node = line.split("|")
            yield JobInfo(name, job, int(index) if index.isdigit() else WHOLE, state, reason, node)


def past(names: Sequence[str]) -> list[JobInfo]:
    """List elements from the accounting database, for jobs the controller has dropped; empty without one."""
    listed = []
    for some in _portions(names):
        form = "JobName,JobID,State,NodeList"
        output = ask("sacct", "-nPX", "-S", "now-90days", f"--name={','.join(some)}", "-o", form)
        for line in (output or "").splitlines():
            with contextlib.suppress(ValueError):
                name, id, state, node = line.split("|")
                job, index = id.split("_")
                # sacct adds the user: `CANCELLED by 1000`.
                listed.append(JobInfo(name, job, int(index), state.split()[0], "", node))
    return listed


def seconds_left(job: str) -> int:
    """Remaining time of a running job; 0 if unknown."""
    output = ask("squeue", "-h", "-j", job, "-o", "%L", seconds=5.0)
    try:
        return seconds_of((output or "").strip())
    except ValueError:
        return 0


def requeue(job: str) -> str | None:
    """Requeue the calling job; SLURM's error message, or None.

    SLURM ends the job for that, and scontrol with it: being killed or timing out is not an error.
    """
    command = ["scontrol", "requeue", job]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    except FileNotFoundError:
        return "scontrol was not found on the node"
    except subprocess.TimeoutExpired:
        return None
    return done.stderr.strip() or "no reason given" if done.returncode > 0 else None


def cancel(ids: Sequence[str]) -> None:
    """Cancel jobs or elements; scancel ignores those that have ended."""
    for some in _portions(ids):
        run("scancel", "--quiet", *some)


def _portions(things: Sequence[str]) -> Iterator[Sequence[str]]:
    for begin in range(0, len(things), AT_ONCE):
        yield things[begin : begin + AT_ONCE]


class Site:
    """The configuration of a cluster."""

    @cached_property
    def settings(self) -> dict[str, str]:
        """`scontrol show config`; BackendError if the controller does not respond."""
        lines = run("scontrol", "show", "config").splitlines()
        pairs = (line.split("=", 1) for line in lines if "=" in line)
        return {name.strip(): value.strip() for name, value in pairs}

    @property
    def accounting(self) -> bool:
        """Whether the cluster has an accounting database (users, limits, past jobs)."""
        return "slurmdbd" in self.settings.get("AccountingStorageType", "")

    def limits(self, profile: Profile) -> Limits:
        """Read limits from the configuration and the accounting database, if any."""
        array = int(self.settings.get("MaxArraySize", "1001"))
        bounds = [int(self.settings["MaxJobCount"])] if "MaxJobCount" in self.settings else []
        if self.accounting and "limits" in self.settings.get("AccountingStorageEnforce", ""):
            bounds += self._association(profile) + self._quality(profile)
        return Limits(max(1, array), min(bounds, default=None))

    def _association(self, profile: Profile) -> list[int]:
        chosen = [f"account={profile.account}"] if profile.account else []
        output = ask(
            "sacctmgr",
            "-nP",
            "show",
            "assoc",
            f"user={pwd.getpwuid(os.getuid()).pw_name}",
            *chosen,
            "format=MaxSubmitJobs",
        )
        return _numbers(output)

    def _quality(self, profile: Profile) -> list[int]:
        if not profile.qos:
            return []
        return _numbers(ask("sacctmgr", "-nP", "show", "qos", profile.qos, "format=MaxSubmitJobsPerUser"))

    def width(self, profile: Profile) -> int:
        """How many such jobs fit on the empty partition; 1 if unknown."""
        chosen = ["-p", profile.partition] if profile.partition else []
        output = ask("sinfo", "-h", "-N", *chosen, "-o", "%N|%c|%G") or ""
        nodes = {line.split("|")[0]: line for line in output.splitlines() if line.count("|") == 2}
        return max(1, sum(_room(line, profile) for line in nodes.values()))


def _room(node: str, profile: Profile) -> int:
    _, cpus, gres = node.split("|")
    by_cpus = int(re.match(r"\d*", cpus)[0] or 0) // profile.cpus  # type: ignore[index]  # matches ""
    if not profile.gpus:
        return by_cpus
    gpus = sum(int(count) for count in re.findall(r"gpu(?::[^:,()]+)?:(\d+)", gres))
    return min(by_cpus, gpus // profile.gpus)


def _numbers(output: str | None) -> list[int]:
    return [int(line) for line in (output or "").split() if line.isdigit()]
