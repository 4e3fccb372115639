from pathlib import Path

import pytest

from harness.backends.profile import read_as
from harness.backends.slurm.profile import Profile
from workloads.errors import SpecError

FOLDER = Path(__file__).parents[4] / "slurm"


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.toml")), ids=lambda file: file.name)
def test_every_profile_that_comes_with_privbench_is_good(file: Path) -> None:
    assert read_as(Profile, file).time_seconds > 0


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(
        'partition = "two words"\ngpu = 1\ncpus = 0\nmemory = "16 GB"\ntime = "soon"\npack = "some"\n'
        '[environment]\n"no name" = "x"\n[options]\narray = "1-5"\njob_name = "mine"\n'
    )
    with pytest.raises(SpecError) as caught:
        read_as(Profile, file)
    problems = "\n".join(caught.value.problems)
    for part in (
        "unknown key of a profile 'gpu', did you mean 'gpus'?",
        "options: array is set by privbench",
        "options: job_name is set by privbench",
        "partition = 'two words': give a partition's name",
        "cpus = 0: Input should be greater than or equal to 1",
        "memory = '16 GB': give the memory of a job, e.g. 16G",
        "time = 'soon': give a time limit: minutes, H:MM:SS or D-HH:MM:SS",
        "pack = 'some': give tasks in a job, or auto",
        "environment.no name",
    ):
        assert part in problems
    assert all(problem.startswith(str(file)) for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('gpu_type = "a100"', "without gpus: give gpus = 1"),
        ('container_options = ["--nv"]', "without a container"),
        ('time = "1"\nsignal_seconds = 60', "signal_seconds = 60 must be less than time = '1' (60 s)"),
        ("partition = ", "is not TOML"),
        ('gpus = 1\ncontainer = "a.sif"\ncontainer_options = ["--cleanenv"]', "--cleanenv with gpus = 1"),
    ],
)
def test_contradictory_options_are_reported(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(text)
    with pytest.raises(SpecError) as caught:
        read_as(Profile, file)
    assert problem in "\n".join(caught.value.problems)


def test_a_missing_profile_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"the profile .*none\.toml cannot be read"):
        read_as(Profile, tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("5", 300),
        ("5:30", 330),
        ("2:00:05", 7205),
        ("1-12", 129600),
        ("1-0:30", 88200),
        ("2-00:00:01", 172801),
    ],
)
def test_time_limits_are_read_as_slurm_reads_them(time: str, seconds: int) -> None:
    assert Profile(time=time).time_seconds == seconds


def test_gpus_are_named_as_slurm_names_them() -> None:
    assert Profile().gres is None
    assert Profile(gpus=2).gres == "gpu:2"
    assert Profile(gpus=1, gpu_type="a100").gres == "gpu:a100:1"


@pytest.mark.parametrize(
    ("gpus", "given", "used"),
    [
        (1, ("--bind", "/data"), ("--nv", "--bind", "/data")),
        (1, ("--bind", "/data", "--nv"), ("--bind", "/data", "--nv")),
        (1, ("--nvccli",), ("--nvccli",)),
        (0, ("--bind", "/data"), ("--bind", "/data")),
        (0, ("--cleanenv",), ("--cleanenv",)),
    ],
)
def test_a_container_sees_the_gpus_of_its_job(
    gpus: int, given: tuple[str, ...], used: tuple[str, ...]
) -> None:
    profile = Profile(gpus=gpus, container="image.sif", container_options=given)
    assert profile.apptainer_options == used
    assert profile.conflicts() == []


def test_a_profile_comes_back_from_json_as_it_was() -> None:
    profile = Profile(gpus=1, setup=("module load cuda",), environment={"A": "b"}, pack=3)
    assert Profile(**profile.model_dump(mode="json")) == profile
