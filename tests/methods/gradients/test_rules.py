"""Every layer rule of the bookkeeping engine against one example at a time, in double precision."""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from opacus.layers import DPLSTM
from torch import Tensor, nn

from methods.gradients import kernels, make_engine
from methods.gradients.contributions import Arena, Call, Sequences, Stored
from methods.gradients.convolution import KernelGradients, KernelGram
from methods.gradients.layers import trainable_layers
from methods.gradients.rules import RULES
from workloads.errors import SpecError
from workloads.models.init import seeded
from workloads.models.wrn import StandardisedConv2d

if TYPE_CHECKING:
    from tests.methods.gradients.conftest import Truth

    Ask = Callable[[nn.Module, Callable[[Tensor, Tensor], Tensor], Tensor, Tensor], Truth]
    Apart = Callable[[list[Tensor], list[Tensor]], float]


def energy(outputs: Tensor, labels: Tensor) -> Tensor:
    """A loss that takes outputs of any shape and treats every coordinate differently."""
    flat = outputs.flatten(1)
    return (flat * torch.linspace(0.5, 2.0, flat.shape[1], dtype=flat.dtype)).tanh().sum(dim=1) * labels


def agree(model: nn.Module, x: Tensor, truth: "Ask", apart: "Apart") -> None:
    """Norms, sums and gradients of a checked and of an unchecked batch, with one example left out."""
    y = torch.linspace(0.2, 3.0, len(x), dtype=torch.float64)
    expected = truth(model, energy, x, y)
    engine = make_engine(model, energy, "bookkeeping")
    clip = 1.001 * float(expected.norms().median())
    for _ in range(2):
        clipped = engine.clipped_sum(x, y, clip)
        assert apart([clipped.norms], [expected.norms()]) < 1e-9
        assert apart(clipped.sums, expected.sums(clip)) < 1e-9
    assert apart(engine.per_example(x, y), expected.gradients) < 1e-9
    y[1] = torch.nan
    others = truth(model, energy, x[[0, *range(2, len(x))]], y[[0, *range(2, len(x))]])
    assert apart(engine.clipped_sum(x, y, clip).sums, others.sums(clip)) < 1e-9
    engine.release()


def random_input(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[nn.Module, tuple[int, ...]]:
    groups = draw(st.integers(1, 2))
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    dilation = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    options: dict[str, Any] = {
        "stride": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        "padding": draw(st.tuples(st.integers(0, 2), st.integers(0, 2))),
        "padding_mode": draw(st.sampled_from(["zeros", "reflect", "circular"])),
        "bias": draw(st.booleans()),
        "groups": groups,
        "dilation": dilation,
    }
    if options["stride"] == (1, 1) and draw(st.booleans()):
        options["padding"] = "same"
    inputs, outputs = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 4))
    # Of two numbers nothing is left after a mean and a norm: their gradient is 0.
    large = inputs // groups * kernel[0] * kernel[1] > 2
    kind = draw(st.sampled_from([nn.Conv2d, StandardisedConv2d] if large else [nn.Conv2d]))
    high, wide = (dilation[side] * (kernel[side] - 1) + 1 + draw(st.integers(2, 6)) for side in (0, 1))
    with seeded(draw(st.integers(0, 99))):
        return kind(inputs, outputs, kernel, **options).double(), (3, inputs, high, wide)


# Torch says once in a process that such a padding costs it a copy.
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@settings(max_examples=60, deadline=None, derandomize=True)
@pytest.mark.parametrize(
    "forced",
    [
        pytest.param({}, id="as measured"),
        pytest.param({"NARROW": 0}, id="kernel rows never together"),
        pytest.param({"EXCESS_OF_COLUMNS": 1e9}, id="never stored"),
    ],
)
@given(made=convolutions())
def test_convolutions_of_any_geometry(
    forced: dict[str, float], made: tuple[nn.Module, tuple[int, ...]], truth: "Ask", apart: "Apart"
) -> None:
    model, shape = made
    with patch.dict(vars(kernels), forced):
        agree(model, random_input(*shape), truth, apart)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@settings(max_examples=100, deadline=None, derandomize=True)
@given(made=convolutions(), bad=st.sampled_from([torch.nan, torch.inf]))
def test_the_library_keeps_examples_apart(
    made: tuple[nn.Module, tuple[int, ...]], bad: float, truth: "Ask", apart: "Apart"
) -> None:
    """Its grouped convolutions run in single precision; one example that is not finite changes no other."""
    model, shape = made
    x, y = random_input(*shape), torch.linspace(0.2, 3.0, shape[0], dtype=torch.float64)
    expected = truth(model, energy, x, y)
    assume(float(expected.norms().min()) > 1e-3)
    single = make_engine(copy.deepcopy(model).float(), energy, "bookkeeping")
    with patch.object(kernels, "ENTRIES_PER_PLACE", 10**9):
        ours = single.per_example(x.float(), y.float())
        assert apart(ours, expected.gradients) < 1e-4
        x[1] = bad
        beside = single.per_example(x.float(), y.float())
    for each, other in zip(ours, beside, strict=True):
        assert torch.equal(each[[0, 2]], other[[0, 2]])
        assert not torch.isfinite(other[1]).all()


def stack(*layers: nn.Module) -> nn.Sequential:
    with seeded(4):
        for layer in layers:
            for module in layer.modules():
                reset: Any = getattr(module, "reset_parameters", None)
                if reset is not None:
                    reset()
                if isinstance(module, nn.GroupNorm | nn.LayerNorm):
                    nn.init.uniform_(module.weight, 0.5, 1.5)
    return nn.Sequential(*layers).double()


class LastState(nn.Module):
    """The states of a recurrent layer, without its memory."""

    def __init__(self, recurrent: nn.Module) -> None:
        super().__init__()
        self.recurrent = recurrent

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.recurrent(x)[0]
        return states


def twice() -> nn.Module:
    """One layer, called at two places."""
    layer = nn.Linear(6, 6)
    return stack(layer, nn.Tanh(), layer)


def twice_convolved() -> nn.Module:
    layer = nn.Conv2d(2, 2, 3, padding=1)
    return stack(layer, nn.Tanh(), layer)


STACKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear without bias": (lambda: stack(nn.Linear(6, 4, bias=False)), (4, 6)),
    "short sequences": (lambda: stack(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5, bias=False)), (4, 2, 6)),
    "long sequences": (lambda: stack(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 3)), (4, 9, 3)),
    "two sequence dimensions": (lambda: stack(nn.Linear(6, 8)), (4, 2, 3, 6)),
    "kernel on few places": (lambda: stack(nn.Conv2d(8, 64, 3, stride=2, padding=1)), (4, 8, 4, 4)),
    "standardised kernel on few places": (
        lambda: stack(StandardisedConv2d(8, 64, 3, stride=2)),
        (4, 8, 5, 5),
    ),
    "one channel": (
        lambda: stack(
            nn.Conv2d(1, 3, 4, stride=2), nn.MaxPool2d(2, stride=1), nn.Flatten(), nn.Linear(12, 2)
        ),
        (4, 1, 8, 8),
    ),
    "in place": (lambda: stack(nn.Conv2d(2, 3, 3), nn.ReLU(inplace=True), nn.Conv2d(3, 2, 2)), (4, 2, 7, 7)),
    "output changed": (lambda: stack(StandardisedConv2d(2, 3, 3), nn.ReLU(inplace=True)), (4, 2, 5, 5)),
    "group norm": (
        lambda: stack(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Conv2d(4, 1, 2)),
        (4, 2, 6, 6),
    ),
    "group norm of vectors": (lambda: stack(nn.Linear(5, 4), nn.GroupNorm(2, 4)), (4, 5)),
    "layer norm": (lambda: stack(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 2)), (4, 3, 5)),
    "layer norm of images": (lambda: stack(nn.LayerNorm((2, 3, 3)), nn.Conv2d(2, 2, 2)), (4, 2, 3, 3)),
    "one-dimensional": (lambda: stack(nn.Conv1d(2, 3, 3), nn.Tanh(), nn.Conv1d(3, 2, 2)), (4, 2, 8)),
    "instance norm": (lambda: stack(nn.Conv2d(2, 3, 3), nn.InstanceNorm2d(3, affine=True)), (4, 2, 6, 6)),
    "rms norm": (lambda: stack(nn.Linear(5, 4), nn.RMSNorm(4, eps=1e-6)), (4, 5)),
    "lstm": (lambda: stack(LastState(DPLSTM(3, 4, batch_first=True)), nn.Linear(4, 2)), (4, 5, 3)),
    "called twice": (twice, (4, 6)),
    "convolved twice": (twice_convolved, (4, 2, 5, 5)),
}


@pytest.mark.parametrize("name", STACKS)
def test_stacks_of_layers(name: str, truth: "Ask", apart: "Apart") -> None:
    make, shape = STACKS[name]
    agree(make(), random_input(*shape), truth, apart)


@pytest.mark.parametrize("padding", [None, 2])
def test_embeddings_add_what_one_example_looks_up_twice(
    padding: int | None, truth: "Ask", apart: "Apart"
) -> None:
    model = stack(nn.Embedding(7, 3, padding_idx=padding), nn.Linear(3, 2))
    ids = torch.tensor([[0, 0, 2, 6], [1, 2, 1, 2], [2, 2, 2, 2], [3, 4, 5, 6]])
    agree(model, ids, truth, apart)
    agree(model, ids[:, :, None].expand(-1, -1, 2), truth, apart)


def call(layer: nn.Module, a: Tensor, b: Tensor) -> Any:
    """What a rule makes of a call."""
    return RULES[type(layer)](Call(trainable_layers(layer)[0], a, None, b, Arena()))


def test_the_rule_follows_the_shape() -> None:
    """Gram matrices where there are few places, stored gradients where there are many."""
    few, many = random_input(2, 2, 6), random_input(2, 50, 6)
    assert isinstance(call(nn.Linear(6, 8), few, random_input(2, 2, 8)), Sequences)
    assert isinstance(call(nn.Linear(6, 8), many, random_input(2, 50, 8)), Stored)
    for kind in (nn.Conv2d, StandardisedConv2d):
        layer = kind(8, 24, 3).double()
        assert isinstance(call(layer, random_input(2, 8, 4, 4), random_input(2, 24, 2, 2)), KernelGram)
        wide = call(layer, random_input(2, 8, 12, 12), random_input(2, 24, 10, 10))
        assert isinstance(wide, KernelGradients)


def test_cancelling_places_do_not_shrink_a_gram_norm() -> None:
    """Opposite terms a million times longer than their sum: rounding must not pass for a small norm."""
    a = torch.randn(1, 1, 64, generator=torch.Generator().manual_seed(1))
    a = torch.cat([a, a + 1e-6 * torch.randn(1, 1, 64, generator=torch.Generator().manual_seed(2))], dim=1)
    b = torch.ones(1, 1, 64) * torch.tensor([1.0, -1.0])[None, :, None]
    exact = (b.double().transpose(1, 2) @ a.double()).norm()
    assert float(Sequences(a, b, bias=False).norms()) == pytest.approx(float(exact), rel=0.02)


@pytest.mark.parametrize(("around", "kind"), [(0, KernelGram), (2, KernelGradients)])
def test_a_gradient_along_the_kernel_does_not_shrink_a_standardised_norm(
    around: int, kind: type[KernelGradients] | type[KernelGram]
) -> None:
    """Nearly all of the gradient is projected away: what is left is measured, not subtracted."""
    with seeded(1):
        layer = StandardisedConv2d(3, 16, 3, bias=False)
    x = 1e-3 * torch.randn(1, 3, 3, 3, generator=torch.Generator().manual_seed(1))
    x += layer.standardisation().kernel.detach()[:1] + 5.0
    first = torch.eye(16)[:1, :, None, None]
    x, b = (nn.functional.pad(each, (around,) * 4) for each in (x, first))
    gradient = torch.autograd.grad((layer(x) * b).sum(), layer.weight)[0]
    double = layer.double()
    exact = torch.autograd.grad((double(x.double()) * b).sum(), double.weight)[0].norm()
    assert gradient.norm() < 1e-2 * x.norm(), "the case is what it says"
    ours = call(layer.float(), x, b)
    assert isinstance(ours, kind)
    assert float(ours.norms()) == pytest.approx(float(exact), rel=1e-2)


def test_a_kernel_that_standardisation_fixes_has_no_gradient() -> None:
    """Of two numbers nothing is left after a mean and a norm; rounding must not look like a mistake."""
    for dtype in (torch.float32, torch.float64):
        with seeded(1):
            layer = StandardisedConv2d(2, 1, 1, bias=False).to(dtype)
        engine = make_engine(layer, energy, "bookkeeping")
        clipped = engine.clipped_sum(random_input(3, 2, 3, 3).to(dtype), torch.ones(3, dtype=dtype), 1.0)
        assert float(clipped.norms.max()) < 1e-5


def test_a_kernel_at_its_floor_is_not_scaled(truth: "Ask", apart: "Apart") -> None:
    with seeded(1):
        layer = StandardisedConv2d(2, 3, 3).double()
    with torch.no_grad():
        layer.weight[1] *= 1e-4
    assert layer.standardisation().free.flatten().tolist() == [1.0, 0.0, 1.0]
    agree(layer, random_input(3, 2, 6, 6), truth, apart)


class Viewed(nn.Module):
    """Rows of a convolution's output, read as they lie in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(2, 3, 3)

    def forward(self, x: Tensor) -> Tensor:
        convolved: Tensor = self.layer(x)
        return convolved.view(len(x), -1)


def test_images_are_taken_in_the_layout_they_come_in(truth: "Ask", apart: "Apart") -> None:
    """A plug-in's model may `view` its images; the harness changes the layout for other models only."""
    with seeded(1):
        agree(Viewed().double(), random_input(3, 2, 6, 6), truth, apart)
    model, images, layouts = stack(nn.Conv2d(2, 3, 3), nn.Tanh()), random_input(3, 2, 6, 6), []
    model[1].register_forward_hook(lambda module, inputs, output: layouts.append(inputs[0].stride(1) == 1))
    engine = make_engine(model, energy, "bookkeeping")
    for x in (images, images.contiguous(memory_format=torch.channels_last)):
        engine.norms(x, torch.ones(3).double())
    assert layouts == [False, True]


class Reuse(nn.Module):
    """A weight that is also used outside its layer's call, where no hook sees it."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.layer, self.share = nn.Linear(5, 5), share

    def forward(self, x: Tensor) -> Tensor:
        inner: Tensor = self.layer(x).tanh()
        return inner + self.share * nn.functional.linear(inner, self.layer.weight)


def test_a_weight_used_outside_its_layer_is_found() -> None:
    engine = make_engine(Reuse(1.0).double(), energy, "bookkeeping")
    with pytest.raises(SpecError) as caught:
        engine.clipped_sum(random_input(4, 5), torch.ones(4, dtype=torch.float64), 1.0)
    assert (caught.value.field, caught.value.value) == ("layer", ("layer",))


class Never(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(5, 2), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.used(x) + 0 * self.unused(x).detach()
        return outputs


def test_a_layer_the_loss_does_not_reach_has_no_gradient(truth: "Ask", apart: "Apart") -> None:
    agree(Never().double(), random_input(4, 5), truth, apart)


class Folded(nn.Module):
    """Places laid into the batch dimension: rows no longer belong to one example each."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return outputs


def test_rows_that_are_not_examples_are_refused() -> None:
    engine = make_engine(Folded().double(), energy, "bookkeeping")
    with pytest.raises(SpecError) as caught:
        engine.clipped_sum(random_input(4, 2, 3), torch.ones(4, dtype=torch.float64), 1.0)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("layer 'layer' (Linear)", 8, 4)


class Spoiler(nn.Module):
    """Changes the input of a layer after the call."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        inputs = x * 2
        outputs: Tensor = self.layer(inputs)
        inputs.zero_()
        return outputs


def test_an_input_changed_in_place_is_refused() -> None:
    engine = make_engine(Spoiler().double(), energy, "bookkeeping")
    with pytest.raises((SpecError, RuntimeError), match=r"in place|inplace"):
        engine.clipped_sum(random_input(4, 3), torch.ones(4, dtype=torch.float64), 1.0)


@pytest.mark.parametrize("option", [{"scale_grad_by_freq": True}, {"max_norm": 1.0}, {"sparse": True}])
def test_embeddings_with_side_effects_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=rf"layer '0' \(Embedding\): .*{next(iter(option))}"):
        make_engine(nn.Sequential(nn.Embedding(5, 2, **option)), energy, "bookkeeping")


def test_hooks_rest_outside_the_engine(apart: "Apart") -> None:
    model = stack(nn.Linear(5, 2))
    x, y = random_input(4, 5), torch.ones(4, dtype=torch.float64)
    plain = model(x)
    engine = make_engine(model, energy, "bookkeeping")
    sums = engine.clipped_sum(x, y, 1.0).sums
    assert torch.equal(model(x), plain)
    assert apart(engine.clipped_sum(x, y, 1.0).sums, sums) < 1e-12


def test_the_arena_reuses_its_memory() -> None:
    arena, like = Arena(), torch.zeros(0)
    first, second = arena.empty((2, 3), like), arena.empty((4,), like)
    arena.reset()
    again, larger = arena.empty((5,), like), arena.empty((9,), like)
    assert again.data_ptr() == first.data_ptr() != second.data_ptr()
    assert larger.shape == (9,)
    arena.reset()
    assert arena.empty((1,), like.double()).dtype == torch.float64
