"""The second device does what CUDA does: refuses, counts and waits in the same places."""

import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.second_device import build
from tests.second_device.device import Event, Wait, listening
from tests.second_device.fixtures import on_second

pytestmark = on_second


def waits_of(act: Callable[[], object]) -> list[str]:
    with listening() as heard:
        act()
    return [wait.why for wait in heard]


def test_kernels_are_those_of_the_cpu(device: torch.device) -> None:
    x = torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten())
    found = []
    for each in (torch.device("cpu"), device):
        weights = model.to(each)
        out = weights(x.to(each))
        out.square().sum().backward()
        found.append([out.detach().cpu(), *(weight.grad.cpu() for weight in weights.parameters())])  # type: ignore[union-attr]
        model.zero_grad()
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize(
    "mix",
    [
        lambda here: here + torch.zeros(3),
        lambda here: torch.cat([here, torch.zeros(1, 3)]),
        lambda here: torch.zeros(3, 4) @ here,
        lambda here: F.linear(here, torch.zeros(2, 3)),
        lambda here: F.cross_entropy(here, torch.zeros(4, dtype=torch.int64)),
        lambda here: F.conv2d(here.view(1, 1, 4, 3), torch.zeros(1, 1, 2, 2)),
        lambda here: here.index_add_(0, torch.zeros(4, dtype=torch.int64), here),
    ],
    ids=["add", "cat", "mm", "linear", "cross_entropy", "conv2d", "index_add_"],
)
def test_tensors_of_two_devices_are_refused(device: torch.device, mix: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        mix(torch.ones(4, 3, device=device))


def test_a_number_of_the_host_is_taken(device: torch.device) -> None:
    assert (torch.ones(3, device=device) * torch.tensor(2.0)).tolist() == [2.0, 2.0, 2.0]


def test_generators_of_another_device_are_refused(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(3, device=device, generator=torch.Generator())
    with pytest.raises(RuntimeError, match="device"):
        torch.rand(3, generator=torch.Generator(device))


def test_a_random_stream_has_sixteen_bytes_and_goes_on_from_them(device: torch.device) -> None:
    stream = torch.Generator(device).manual_seed(5)
    # As torch.Generator("cuda") has none.
    assert stream.device.index is None
    first = torch.randn(4, device=device, generator=stream)
    state = stream.get_state()
    assert len(state) == 16
    second = torch.randn(4, device=device, generator=stream)
    assert not torch.equal(first.cpu(), second.cpu())
    other = torch.Generator(device)
    other.set_state(state)
    assert torch.equal(torch.randn(4, device=device, generator=other).cpu(), second.cpu())
    with pytest.raises(RuntimeError, match="wrong size"):
        stream.set_state(torch.get_rng_state())
    with pytest.raises(RuntimeError, match="state"):
        torch.Generator().set_state(state)


def test_torchs_own_stream_is_seeded_with_all_others(device: torch.device) -> None:
    def drawn() -> Tensor:
        torch.manual_seed(3)
        return F.dropout(torch.ones(64, device=device)).cpu()

    assert torch.equal(drawn(), drawn())


WAITING: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x[0, 0].item(),
    "bool": lambda x: bool((x > 0).any()),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "put by mask": lambda x: x.__setitem__(x > 0, torch.ones(12, device=x.device)),
    "index of the host": lambda x: x[torch.tensor([0, 1])],
    "put by index of the host": lambda x: x.__setitem__(torch.tensor([0]), 1.0),
    "to": lambda x: torch.zeros(2).to(x.device),
    "pageable": lambda x: torch.zeros(2).to(x.device, non_blocking=True),
    "tensor": lambda x: torch.tensor([1.0], device=x.device),
    "unique": lambda x: torch.unique(x),
    "bincount": lambda x: x.flatten().long().bincount(),
    "equal": lambda x: torch.equal(x, x),
    "repeats": lambda x: x.repeat_interleave(torch.ones(4, dtype=torch.int64, device=x.device), dim=0),
}
QUIET: dict[str, Callable[[Tensor], object]] = {
    "pinned": lambda x: torch.zeros(2).pin_memory().to(x.device, non_blocking=True),
    "arithmetic": lambda x: (x * 2 + 1).sum(),
    "fill by mask": lambda x: x.__setitem__(x > 0, 0.0),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "index": lambda x: x[torch.arange(2, device=x.device)],
    "sort": lambda x: x.sort(dim=1),
    "randperm": lambda x: torch.randperm(9, device=x.device),
    "zeros": lambda x: torch.zeros(3, device=x.device),
    "repeats": lambda x: x.repeat_interleave(2, dim=0),
    "backward": lambda x: torch.autograd.backward((x.clone().requires_grad_() ** 2).sum()),
}


@pytest.mark.parametrize("name", WAITING)
def test_what_waits_on_cuda_is_reported_once(device: torch.device, name: str) -> None:
    x = torch.ones(4, 3, device=device)
    heard = waits_of(lambda: WAITING[name](x))
    assert len(heard) == 1, heard


@pytest.mark.parametrize("name", QUIET)
def test_what_does_not_wait_is_not_reported(device: torch.device, name: str) -> None:
    x = torch.ones(4, 3, device=device)
    assert waits_of(lambda: QUIET[name](x)) == []


def test_a_wait_names_the_line_that_led_to_it(device: torch.device) -> None:
    x = torch.ones(3, device=device)
    with listening() as heard:
        x.sum().item()
    (wait,) = heard
    assert isinstance(wait, Wait)
    path, _, line = wait.line.partition(":")
    assert path == "tests/second_device/test_device.py"
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert source[int(line) - 1].strip() == "x.sum().item()"


def test_gradients_come_back_in_a_thread_of_the_device(device: torch.device) -> None:
    threads = []

    class Seen(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, *gradients: Tensor) -> Tensor:
            threads.append(threading.get_ident())
            return gradients[0]

    x = torch.ones(3, device=device, requires_grad=True)
    Seen.apply(x).sum().backward()  # type: ignore[no-untyped-call]
    assert threads != [threading.get_ident()]


def test_bytes_are_counted(device: torch.device) -> None:
    module = torch.get_device_module(device)
    gc.collect()
    before = module.memory_allocated()
    module.reset_peak_memory_stats()
    kept = torch.zeros(1000, device=device)
    passing = torch.zeros(5000, device=device)
    del passing
    assert module.memory_allocated() - before == 4000
    assert module.max_memory_allocated() - before == 24_000
    del kept
    assert module.memory_allocated() == before


def test_an_event_is_read_only_when_it_was_waited_for(device: torch.device) -> None:
    first, last = Event(enable_timing=True), Event(enable_timing=True)
    first.record()
    last.record()
    with pytest.raises(RuntimeError, match="completed"):
        first.elapsed_time(last)
    assert waits_of(last.synchronize) == ["event.synchronize"]
    assert first.elapsed_time(last) >= 0


def test_without_a_compiler_it_says_so(
    device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "CACHE", tmp_path)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.CannotBuild, match="no C\\+\\+ compiler"):
        build.built()
    assert not list(tmp_path.iterdir())
