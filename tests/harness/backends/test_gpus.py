"""The choice of GPUs, with stand-ins for nvidia-smi that are real programs on the PATH."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.backends import gpus
from harness.backends.base import Settings
from harness.backends.gpus import Gpu, for_device, handed_out, placed, usable
from workloads.errors import BackendError

Driver = Callable[..., None]
TROUBLE = "Unable to determine the device handle for GPU0000:41:00.0: Unknown Error"
MIG = ("MIG-aaaa-1", "MIG-aaaa-2", "MIG-bbbb-1")


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the environment's choice of GPUs, by the user or a scheduler."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PRIVBENCH_DEVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Put an nvidia-smi first on the PATH: its output for a query and for -L, and its exit code."""

    def install(query: str, listed: str = "", code: int = 0, first: str = "") -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "query").write_text(query)
        (folder / "listed").write_text(listed)
        program = folder / "nvidia-smi"
        program.write_text(
            f"#!/bin/sh\necho x >>{folder}/asked\n{first}\n"
            f"case $1 in -L) cat {folder}/listed ;; *) cat {folder}/query ;; esac\nexit {code}\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return install


def lines(count: int, mode: str = "Default", model: str = "NVIDIA A100") -> str:
    return "".join(f"GPU-{number:04d}-aa, {number}, {mode}, {model}\n" for number in range(count))


def names(count: int) -> list[str]:
    return [f"GPU-{number:04d}-aa" for number in range(count)]


def found(**environment: str) -> list[str]:
    return [gpu.name for gpu in usable(environment)]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_every_card_is_named_by_its_uuid(driver: Driver, count: int) -> None:
    driver(lines(count))
    assert found() == names(count)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ("2,3", [2, 3]),
        ("3, 1", [3, 1]),
        ("0", [0]),
        ("1,1", [1]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("2,-1,3", [2]),
        ("GPU-0002-aa,GPU-0000-aa", [2, 0]),
        ("GPU-0003", [3]),
    ],
)
def test_only_what_the_environment_allows_is_handed_out(
    driver: Driver, entries: str, expected: list[int]
) -> None:
    driver(lines(4))
    assert found(CUDA_VISIBLE_DEVICES=entries) == [names(4)[number] for number in expected]


@pytest.mark.parametrize("entries", ["4", "0,7", "GPU-9", "GPU-0", "a100", "0 1"])
def test_an_ambiguous_or_unknown_card_is_refused_with_the_known_ones(driver: Driver, entries: str) -> None:
    driver(lines(4))
    with pytest.raises(BackendError) as caught:
        found(CUDA_VISIBLE_DEVICES=entries)
    assert caught.value.field == "CUDA_VISIBLE_DEVICES"
    assert entries in str(caught.value)
    assert all(name in str(caught.value) for name in names(4))


def test_an_index_among_unlike_cards_is_refused_unless_the_order_is_nvidia_smi_s(driver: Driver) -> None:
    driver(lines(1) + "GPU-old, 1, Default, Tesla T4\n")
    with pytest.raises(BackendError, match="CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        found(CUDA_VISIBLE_DEVICES="1")
    assert found(CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER="PCI_BUS_ID") == ["GPU-old"]
    assert found(CUDA_VISIBLE_DEVICES="GPU-old") == ["GPU-old"]
    assert {*found(CUDA_VISIBLE_DEVICES="0,1")} == {"GPU-0000-aa", "GPU-old"}, "all are all in any order"


@pytest.mark.parametrize(
    ("query", "code", "expected"),
    [
        (TROUBLE + "\n", 0, []),
        (lines(2) + TROUBLE + "\n", 0, names(2)),
        (lines(2), 15, []),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9, []),
        ("No devices were found\n", 0, []),
    ],
)
def test_a_sentence_is_no_gpu_and_is_repeated_in_a_warning(
    driver: Driver, caplog: pytest.LogCaptureFixture, query: str, code: int, expected: list[str]
) -> None:
    driver(query, code=code)
    assert found() == expected
    (warning,) = (record.getMessage() for record in caplog.records)
    assert query.splitlines()[-1].split()[0] in warning


def test_an_nvidia_smi_that_hangs_is_given_up(
    driver: Driver, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "ANSWER_SECONDS", 0.3)
    driver(lines(2), first="exec sleep 60")
    assert found() == []
    assert "does not respond" in caplog.text


def test_without_nvidia_smi_there_is_no_gpu_unless_the_environment_names_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found() == []
    assert found(CUDA_VISIBLE_DEVICES="2,3") == ["2", "3"]
    assert found(CUDA_VISIBLE_DEVICES="MIG-1") == ["MIG-1"]
    assert caplog.records == []


def test_a_request_for_the_cpu_does_not_wait_for_the_driver(driver: Driver, tmp_path: Path) -> None:
    driver(lines(2))
    assert found(CUDA_VISIBLE_DEVICES="") == found(PRIVBENCH_DEVICE="cpu") == []
    assert not (tmp_path / "bin" / "asked").exists()
    assert found() == names(2)
    assert (tmp_path / "bin" / "asked").exists()


def test_a_requested_gpu_that_is_missing_is_an_error(driver: Driver) -> None:
    driver("")
    with pytest.raises(BackendError, match="nvidia-smi shows 0, CUDA_VISIBLE_DEVICES is not set"):
        found(PRIVBENCH_DEVICE="cuda")
    with pytest.raises(BackendError, match="CUDA_VISIBLE_DEVICES = ''"):
        found(PRIVBENCH_DEVICE="cuda", CUDA_VISIBLE_DEVICES="")
    with pytest.raises(BackendError) as caught:
        found(PRIVBENCH_DEVICE="gpu")
    error = caught.value
    assert (error.field, error.value, error.allowed) == ("PRIVBENCH_DEVICE", "gpu", ("cpu", "cuda"))


@pytest.fixture
def sliced(driver: Driver) -> None:
    """Two cards in slices and a whole one."""
    listed = (
        "GPU 0: NVIDIA A100 (UUID: GPU-0000-aa)\n"
        f"  MIG 3g.20gb     Device  0: (UUID: {MIG[0]})\n"
        f"  MIG 3g.20gb     Device  1: (UUID: {MIG[1]})\n"
        "GPU 1: NVIDIA A100 (UUID: GPU-0001-aa)\n"
        f"  MIG 7g.40gb     Device  0: (UUID: {MIG[2]})\n"
        "GPU 2: NVIDIA A100 (UUID: GPU-0002-aa)\n"
    )
    driver(lines(3), listed)


@pytest.mark.usefixtures("sliced")
@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (None, [*MIG, "GPU-0002-aa"]),
        ("MIG-aaaa-2,MIG-bbbb", ["MIG-aaaa-2", "MIG-bbbb-1"]),
        ("0,2", ["MIG-aaaa-1", "GPU-0002-aa"]),
        ("GPU-0001-aa", ["MIG-bbbb-1"]),
    ],
)
def test_a_card_in_slices_is_used_by_its_slices(entries: str | None, expected: list[str]) -> None:
    assert found(**({} if entries is None else {"CUDA_VISIBLE_DEVICES": entries})) == expected


def test_what_the_driver_keeps_to_one_process_or_to_none_is_known(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    driver(
        lines(1, "Exclusive_Process") + "GPU-no, 1, Prohibited, NVIDIA A100\nGPU-b, 2, Default, NVIDIA A100\n"
    )
    assert usable({}) == [Gpu("GPU-0000-aa", exclusive=True), Gpu("GPU-b")]
    assert "GPU-no is in compute mode Prohibited" in caplog.text


def test_more_slots_than_gpus_are_refused_or_share_knowingly() -> None:
    two = [Gpu("a"), Gpu("b")]
    assert handed_out(two, None, share=False) == handed_out(two, 1, share=False) == ["a", "b"]
    with pytest.raises(BackendError, match="--share-gpus") as caught:
        handed_out(two, 5, share=False)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("--slots", 5, 2)
    assert handed_out(two, 5, share=True) == ["a", "b", "a", "b", "a"]
    assert handed_out([], 5, share=False) == [], "cores have no such limit"


def test_an_exclusive_card_has_one_slot() -> None:
    mixed = [Gpu("a", exclusive=True), Gpu("b")]
    assert handed_out(mixed, 4, share=True) == ["a", "b", "b", "b"]
    with pytest.raises(BackendError, match="Exclusive_Process") as caught:
        handed_out([Gpu("a", exclusive=True)], 2, share=True)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("--slots", 2, 1)


def test_gpus_are_looked_for_once_when_tasks_are_sent(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(lines(4))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    sent = placed(Settings())
    assert sent.gpus == names(4)[2:]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert placed(sent) == sent


def test_a_process_gets_its_device() -> None:
    assert for_device({"A": "b", "CUDA_VISIBLE_DEVICES": "0,1"}, "GPU-x") == {
        "A": "b",
        "CUDA_VISIBLE_DEVICES": "GPU-x",
        "PRIVBENCH_DEVICE": "cuda",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    assert for_device({"CUBLAS_WORKSPACE_CONFIG": ":16:8"}, "GPU-x")["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
    variables = for_device({"CUDA_VISIBLE_DEVICES": "0,1", "PRIVBENCH_DEVICE": "cuda"}, None)
    assert variables == {"CUDA_VISIBLE_DEVICES": "", "PRIVBENCH_DEVICE": "cpu"}
