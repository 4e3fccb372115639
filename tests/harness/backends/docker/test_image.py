"""How an image is asked for, without an engine."""

from pathlib import Path

import pytest

from harness.backends.docker import daemon, image
from harness.backends.docker.image import PYTHON, Recipe
from workloads.errors import SpecError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of the last `docker` that would have run."""
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
    assert not any(word.startswith("--build-arg=BASE") for word in asked)


def test_only_a_checkout_can_be_built(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="--source DIR"):
        image.prepare(Recipe(tmp_path))
