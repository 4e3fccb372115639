"""Profiles of SLURM jobs: a TOML file per site.

partition = "gpu"
gpus = 1
cpus = 4
memory = "16G"
time = "12:00:00"
setup = ["module load cuda"]
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from harness.backends.profile import Name, ProfileFile

NoSpaces = Annotated[str, Field(pattern=r"^\S+$")]
OURS = ("array", "dependency", "job-name", "output", "error", "requeue", "signal", "open-mode", "wckey")
"""Options of sbatch that every submission sets itself."""


SHOWS_GPUS = ("--nv", "--nvccli")
"""Options of apptainer exec that expose GPUs to a container."""
CLEARS_ENVIRONMENT = ("--cleanenv", "-e", "--containall", "-C")
"""Options of apptainer exec that hide the environment from a container, including its GPU variables."""


class Profile(ProfileFile):
    """The resources of one job; no option changes a result."""

    unions: ClassVar[tuple[str, ...]] = ("pack",)

    partition: NoSpaces | None = Field(default=None, description="a partition's name; default: the cluster's")
    account: NoSpaces | None = Field(default=None, description="the account that is charged")
    qos: NoSpaces | None = Field(default=None, description="a quality of service")
    constraint: NoSpaces | None = Field(
        default=None, description="the features a node must have, e.g. a100|h100"
    )
    gpus: int = Field(default=0, ge=0, description="the GPUs of a job, of which a task uses one")
    gpu_type: NoSpaces | None = Field(
        default=None, description="the type of the GPUs, as in --gres=gpu:TYPE:1"
    )
    attack_partition: NoSpaces | None = Field(
        default=None, description="a partition for attacks, without GPUs; default: that of trainings"
    )
    cpus: int = Field(default=1, ge=1, description="the cores of a job")
    memory: str | None = Field(
        default=None,
        pattern=r"^[1-9]\d*[KMGT]?$",
        description="the memory of a job, e.g. 16G; default: the cluster's",
    )
    time: str = Field(
        default="60",
        pattern=r"^(\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d){0,2})$",
        description="a time limit: minutes, H:MM:SS or D-HH:MM:SS",
    )
    setup: tuple[str, ...] = Field(default=(), description="a list of shell lines to run before the work")
    container: str | None = Field(default=None, description="an Apptainer image that contains privbench")
    container_options: tuple[str, ...] = Field(
        default=(), description="a list of options of apptainer exec, e.g. --bind; --nv is added for GPUs"
    )
    environment: dict[Name, str] = Field(default={}, description="environment variables: NAME = 'text'")
    options: dict[str, str | int | bool] = Field(
        default={}, description="further options of sbatch, by long name"
    )
    pack: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default="auto", description="tasks in a job, or auto: by recorded times"
    )
    array_parallelism: int | None = Field(
        default=None, ge=1, description="jobs at a time; default: as many as the site allows"
    )
    signal_seconds: int = Field(
        default=120, ge=1, le=65535, description="seconds before the time limit, to save and be requeued"
    )
    requeues: int = Field(default=100, ge=0, description="how often a job may be requeued at its time limit")
    throttle_seconds: float = Field(default=0.2, ge=0, description="seconds between two submissions")

    @property
    def gres(self) -> str | None:
        """The value of --gres."""
        if not self.gpus:
            return None
        return ":".join(["gpu", *([self.gpu_type] if self.gpu_type else []), str(self.gpus)])

    @property
    def for_attacks(self) -> "Profile":
        """The profile of attacks, which use no GPU: a GPU partition may reject jobs without one."""
        if self.attack_partition is None:
            return self
        without = {"partition": self.attack_partition, "gpus": 0, "gpu_type": None, "constraint": None}
        return self.model_copy(update=without)

    @property
    def apptainer_options(self) -> tuple[str, ...]:
        """The container's options, with --nv if the job has GPUs."""
        if not self.gpus or {*SHOWS_GPUS} & {*self.container_options}:
            return self.container_options
        return ("--nv", *self.container_options)

    @property
    def time_seconds(self) -> int:
        """The time limit in seconds."""
        return seconds_of(self.time)

    @classmethod
    def refusals(cls, content: Mapping[str, Any]) -> list[str]:
        """Problems with options of sbatch that the user may not set."""
        return [
            f"options: {name} is set by privbench: leave it out"
            for name in dict(content.get("options") or {})
            if name.replace("_", "-") in OURS
        ]

    def conflicts(self) -> list[str]:
        """See ProfileFile."""
        problems = []
        if self.gpu_type and not self.gpus:
            problems.append(f"gpu_type = {self.gpu_type!r} without gpus: give gpus = 1")
        if self.container_options and not self.container:
            problems.append("container_options without a container: give container = 'image.sif'")
        clearing = [option for option in self.container_options if option in CLEARS_ENVIRONMENT]
        if self.gpus and clearing:
            problems.append(
                f"container_options: {clearing[0]} with gpus = {self.gpus}: without the job's environment a "
                "container could train on the CPU unnoticed; leave it out"
            )
        if self.signal_seconds >= self.time_seconds:
            problems.append(
                f"signal_seconds = {self.signal_seconds} must be less than time = {self.time!r} "
                f"({self.time_seconds} s), or no time is left for the tasks"
            )
        return problems


def seconds_of(time: str) -> int:
    """Parse SLURM's time format: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S; ValueError for anything else."""
    days, dash, rest = time.rpartition("-")
    parts = [int(each) for each in rest.split(":")]
    if dash:
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, [*parts, 0][:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
