"""Building an image, without an engine."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.backends.docker import daemon, image
from harness.backends.docker.docker import DEVICE_LABEL
from harness.backends.docker.image import PYTHON, Recipe
from workloads.errors import SpecError

ROOT = Path(__file__).parents[4]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of the last `docker` that would have run."""
    words: list[str] = []

    def note(*given: str, seconds: float) -> str:
        words[:] = given
        return ""

    monkeypatch.setattr(daemon, "ask", note)
    return words


def test_a_build_has_no_network_and_python_s_own_base(asked: list[str], tmp_path: Path) -> None:
    image.build(Recipe(tmp_path))
    assert {"--network=none", f"--build-arg=BASE=python:{PYTHON}-slim"} <= {*asked}
    assert f"--file={tmp_path}/docker/Dockerfile" in asked
    assert asked[-1] == str(tmp_path)


def test_the_base_can_be_one_that_is_here(asked: list[str], tmp_path: Path) -> None:
    image.build(Recipe(tmp_path, base="mine:1", tag="other:2"))
    assert {"--build-arg=BASE=mine:1", "--tag=other:2"} <= {*asked}


def test_cuda_has_a_file_a_name_and_a_base_of_its_own(asked: list[str], tmp_path: Path) -> None:
    image.build(Recipe(tmp_path, cuda=True))
    assert f"--file={tmp_path}/docker/Dockerfile.cuda" in asked
    assert any(word.startswith("--tag=privbench:") and word.endswith("-cuda") for word in asked)
    assert {"--build-arg=BASE=nvidia/cuda:13.0.2-base-ubuntu24.04", "--build-arg=CUDA=13.0"} <= {*asked}
    assert "--network=none" not in asked


def test_an_index_for_older_cards_decides_base_and_cuda(asked: list[str], tmp_path: Path) -> None:
    older = Recipe(tmp_path, cuda=True, index="https://index.example/whl/cu126")
    image.build(older)
    assert {"--build-arg=BASE=nvidia/cuda:12.6.3-base-ubuntu24.04", "--build-arg=CUDA=12.6"} <= {*asked}
    with pytest.raises(SpecError, match=r"CUDA 11\.8 \(13\.0, 12\.6\): give --base"):
        image.build(Recipe(tmp_path, cuda=True, index="https://index.example/whl/cu118/"))
    image.build(Recipe(tmp_path, cuda=True, base="mine:1", index="https://index.example/whl/cu118/"))
    assert {"--build-arg=BASE=mine:1", "--build-arg=CUDA=11.8"} <= {*asked}
    with pytest.raises(SpecError, match="/cu126"):
        image.build(Recipe(tmp_path, cuda=True, index="https://example.org/simple"))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[tuple[str, ...]]]:
    """The files of a checkout that determine the collected wheels, and every call of pip."""
    for name in ("docker/Dockerfile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(image, "_pip", lambda *words: calls.append(tuple(map(str, words))))
    monkeypatch.setattr(image, "make_wheel", lambda source, target: None)
    return tmp_path, calls


def test_wheels_are_collected_again_for_another_cuda(
    checkout: tuple[Path, list[tuple[str, ...]]],
) -> None:
    source, calls = checkout
    index = "https://index.example/whl/cu126"
    kinds = [{}, {"cuda": True}, {"cuda": True, "index": index}, {}]
    for number, kind in enumerate(kinds, start=1):
        for _ in range(2):
            image.prepare(Recipe(source, python="3.12", **kind))  # type: ignore[arg-type]
        assert len(calls) == number, "gathered once"
    assert [f"--extra-index-url={index}" in words for words in calls] == [False, False, True, False]


def test_wheels_for_another_python_may_be_of_any_platform_the_base_runs(
    checkout: tuple[Path, list[tuple[str, ...]]],
) -> None:
    """NVIDIA's are for manylinux_2_27, 2_25, 2_18 and older, and pip takes only listed platforms."""
    source, calls = checkout
    image.prepare(Recipe(source, cuda=True, python="3.99"))
    needed = {f"--platform=manylinux_2_{minor}_x86_64" for minor in (28, 27, 25, 24, 18, 17, 12, 5)}
    assert needed <= {*calls[0]}


DOCKERFILE = (ROOT / "docker" / "Dockerfile.cuda").read_text()


def test_the_cuda_file_s_own_defaults_are_those_of_a_build() -> None:
    defaults = dict(re.findall(r"^ARG (BASE|CUDA)=(\S+)$", DOCKERFILE, re.MULTILINE))
    assert defaults == {"BASE": image.CUDA_BASES[image.CUDA], "CUDA": image.CUDA}


@pytest.mark.parametrize(
    ("file", "device"), [("Dockerfile", "cpu"), ("Dockerfile.cuda", "cuda")], ids=lambda each: each
)
def test_an_image_states_its_device(file: str, device: str) -> None:
    assert f'{DEVICE_LABEL}="{device}"' in (ROOT / "docker" / file).read_text()


def test_the_cuda_file_is_made_of_instructions_and_of_files_that_exist() -> None:
    lines = re.sub(r"\\\n\s*", "", DOCKERFILE).splitlines()
    words = [line.split() for line in lines if line and not line.startswith("#")]
    known = {"ARG", "FROM", "COPY", "RUN", "LABEL", "ENV", "USER", "ENTRYPOINT"}
    assert {each[0] for each in words} == known
    stages = {each[3] for each in words if each[0] == "FROM" and len(each) == 4}
    copied = [each[1:-1] for each in words if each[0] == "COPY"]
    assert {each[0] for each in copied if each[0].startswith("--from")} <= {f"--from={s}" for s in stages}
    ours = [name for each in copied if not each[0].startswith("--from") for name in each]
    assert all((ROOT / name).exists() for name in ours if not name.startswith("build/"))


@pytest.mark.parametrize(("built_for", "good"), [("13.0", True), ("12.6", False), (None, False)])
def test_the_last_step_of_the_cuda_file_refuses_a_torch_of_another_cuda(
    tmp_path: Path, built_for: str | None, good: bool
) -> None:
    """The step itself, run by a shell, with a fake torch of a given CUDA version."""
    last = [each for each in re.sub(r"\\\n", "", DOCKERFILE).splitlines() if each.startswith("RUN ")][-1]
    (tmp_path / "torch.py").write_text(f"__version__ = '2'\nclass version:\n    cuda = {built_for!r}\n")
    (tmp_path / "python").symlink_to(sys.executable)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path), "CUDA": "13.0"}
    command = ["sh", "-c", last.removeprefix("RUN ")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is good
    assert good or f"built for CUDA {built_for}, not 13.0" in done.stderr


def test_only_a_checkout_can_be_built(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="--source DIR"):
        image.prepare(Recipe(tmp_path))
