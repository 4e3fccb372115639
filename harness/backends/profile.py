"""How a cluster is asked for its nodes: a TOML file per site, every mistake told at once.

partition = "gpu"
gpus = 1
cpus = 4
memory = "16G"
time = "12:00:00"
setup = ["module load cuda"]
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workloads.errors import SpecError, unknown
from workloads.toml import read_toml

Word = Annotated[str, Field(pattern=r"^\S+$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
OURS = ("array", "dependency", "job-name", "output", "error", "requeue", "signal", "open-mode", "wckey")
"""Options of sbatch that a submission sets itself."""
TABLES = ("environment", "options")
Kind = TypeVar("Kind", bound=BaseModel)


class Profile(BaseModel):
    """What one job of a sweep gets; nothing here changes a number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partition: Word | None = Field(default=None, description="a partition's name; else the cluster's default")
    account: Word | None = Field(default=None, description="the account that is charged")
    qos: Word | None = Field(default=None, description="a quality of service")
    constraint: Word | None = Field(default=None, description="the features a node must have, as a100|h100")
    gpus: int = Field(default=0, ge=0, description="the GPUs of a job, of which a task uses one")
    gpu_type: Word | None = Field(default=None, description="the type of the GPUs, as in --gres=gpu:TYPE:1")
    cpus: int = Field(default=1, ge=1, description="the cores of a job")
    memory: str | None = Field(
        default=None,
        pattern=r"^[1-9]\d*[KMGT]?$",
        description="the memory of a job, as 16G; else the cluster's default",
    )
    time: str = Field(
        default="60",
        pattern=r"^(\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d){0,2})$",
        description="a time limit: minutes, H:MM:SS or D-HH:MM:SS",
    )
    setup: tuple[str, ...] = Field(default=(), description="a list of shell lines to run before the work")
    container: str | None = Field(default=None, description="an Apptainer image with privbench; else none")
    container_options: tuple[str, ...] = Field(
        default=(), description="a list of options of apptainer exec, as --nv"
    )
    environment: dict[Name, str] = Field(default={}, description="variables of the job, as NAME = 'text'")
    options: dict[str, str | int | bool] = Field(
        default={}, description="further options of sbatch, by long name"
    )
    pack: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default="auto", description="tasks in a job, or auto: by recorded times"
    )
    array_parallelism: int | None = Field(
        default=None, ge=1, description="jobs at a time; else as many as the site allows"
    )
    signal_seconds: int = Field(
        default=120, ge=1, le=65535, description="seconds before the time limit, to save and be requeued"
    )
    requeues: int = Field(default=100, ge=0, description="how often a job may be requeued at its time limit")
    throttle_seconds: float = Field(default=0.2, ge=0, description="seconds between two submissions")

    @property
    def gres(self) -> str | None:
        """The GPUs as SLURM names them."""
        if not self.gpus:
            return None
        return ":".join(["gpu", *([self.gpu_type] if self.gpu_type else []), str(self.gpus)])

    @property
    def time_seconds(self) -> int:
        """The time limit."""
        return seconds_of(self.time)


def seconds_of(time: str) -> int:
    """A time as SLURM writes it: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S; ValueError for anything else."""
    days, dash, rest = time.rpartition("-")
    parts = [int(each) for each in rest.split(":")]
    if dash:
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, [*parts, 0][:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def read_profile(file: Path) -> Profile:
    """The profile of a cluster."""
    return read_as(Profile, file)


def read_as(kind: type[Kind], file: Path) -> Kind:
    """A profile of some kind from a TOML file; SpecError with all that is wrong with it."""
    content = read_toml(file, f"the profile {file}")
    problems = _problems(content, kind)
    if problems:
        raise SpecError([f"{file}: {problem}" for problem in problems])
    return kind(**content)


def _problems(content: dict[str, Any], kind: type[BaseModel]) -> list[str]:
    known = kind.model_fields
    problems = [unknown("key of a profile", key, known) for key in content if key not in known]
    problems += [
        f"options: {name} is set by every submission itself: leave it out"
        for name in dict(content.get("options") or {})
        if name.replace("_", "-") in OURS
    ]
    try:
        profile = kind(**{key: value for key, value in content.items() if key in known})
    except ValidationError as error:
        return problems + _mistakes(error, kind)
    return problems + (_conflicts(profile) if isinstance(profile, Profile) else [])


def _conflicts(profile: Profile) -> list[str]:
    """Values that are right each and wrong together."""
    problems = []
    if profile.gpu_type and not profile.gpus:
        problems.append(f"gpu_type = {profile.gpu_type!r} without gpus: give gpus = 1")
    if profile.container_options and not profile.container:
        problems.append("container_options without a container: give container = 'image.sif'")
    if profile.signal_seconds >= profile.time_seconds:
        problems.append(
            f"signal_seconds = {profile.signal_seconds} is not shorter than time = {profile.time!r} "
            f"({profile.time_seconds} s): nothing would be left for the work"
        )
    return problems


def _mistakes(error: ValidationError, kind: type[BaseModel]) -> list[str]:
    """A line per value that is wrong, with what it should be."""
    found: dict[str, str] = {}
    for each in error.errors():
        name = str(each["loc"][0])
        inside = f".{each['loc'][1]}" if name in TABLES else ""
        about = kind.model_fields[name].description
        # The pattern says nothing to people, and where there are two ways to be right, neither does either.
        plain = each["type"] == "string_pattern_mismatch" or name == "pack"
        wrong = "" if plain else f"{each['msg']}; "
        found[name + inside] = f"{name}{inside} = {each['input']!r}: {wrong}give {about}"
    return list(found.values())
