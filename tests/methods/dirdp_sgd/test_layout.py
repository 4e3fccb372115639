"""Layouts: what has a direction of its own in real models, and the way from gradients to rows and back."""

import pytest
import torch
from torch import nn

from methods.dirdp_sgd.layout import Granularity, as_text, cut_blocks, find_layout, parse
from workloads.errors import SpecError
from workloads.models.lenet import lenet


def weights(model: nn.Module) -> list[nn.Parameter]:
    return list(model.parameters())


@pytest.mark.parametrize(
    ("channels", "side", "classes", "rows", "parameters"),
    [(3, 32, 10, 50, 15_826), (3, 32, 100, 140, 85_036), (1, 28, 10, 50, 13_426)],
    ids=["cifar-10", "cifar-100", "fashion-mnist"],
)
def test_the_rows_of_the_papers_networks(
    channels: int, side: int, classes: int, rows: int, parameters: int
) -> None:
    """The numbers of dirdp_sgd: m = 50, 140 and 50."""
    model = lenet(0, channels, side, classes)
    layout = find_layout(weights(model), "per_row")
    assert sum(count for count, _ in layout) == rows
    assert sum(count * dimension for count, dimension in layout) == parameters
    assert find_layout(weights(model), "whole") == [(1, parameters)]
    assert len(find_layout(weights(model), "per_layer")) == 8


def test_a_layout_is_spelled_as_the_price_list_takes_it() -> None:
    layout = find_layout(weights(lenet(0, 3, 32, 10)), "per_row")
    assert as_text(layout) == "1x10,3x12,12x75,24x300,10x768"
    assert parse(as_text(layout)) == [(1, 10), (3, 12), (12, 75), (24, 300), (10, 768)]


def test_rows_along_the_last_axis_are_those_of_kernels() -> None:
    """Widths of 5 in 12 x 3 x 5 and twice 12 x 12 x 5 rows; a matrix has the rows it has along its first."""
    layout = find_layout(weights(lenet(0, 3, 32, 10)), "per_last_axis")
    assert as_text(layout) == "1620x5,1x10,3x12,10x768"
    assert sum(count * dimension for count, dimension in layout) == 15_826
    matrix = weights(nn.Linear(6, 2))
    assert find_layout(matrix, "per_last_axis") == find_layout(matrix, "per_row")


@pytest.mark.parametrize("granularity", ["whole", "per_layer", "per_row", "per_last_axis"])
def test_blocks_hold_the_coordinates_in_the_order_of_the_weights(granularity: Granularity) -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(12, 4))
    gradients = [torch.randn(5, *weight.shape) for weight in model.parameters()]
    blocks = list(cut_blocks(gradients, find_layout(weights(model), granularity)))
    assert all(block.dim() == 3 and len(block) == 5 for block in blocks)
    flat = torch.cat([block.flatten(1) for block in blocks], dim=1)
    assert torch.equal(flat, torch.cat([each.flatten(1) for each in gradients], dim=1))
    if granularity == "per_row":
        assert torch.equal(blocks[0][2, 1], gradients[0][2, 1].flatten())
        assert torch.equal(blocks[3][2, 0], gradients[3][2])
    if granularity == "per_last_axis":
        assert torch.equal(blocks[0][2, 2 * (1 * 2 + 0) + 1], gradients[0][2, 1, 0, 1])
        assert torch.equal(blocks[2][2, 3], gradients[2][2, 3])


def test_one_weight_is_the_same_whole_and_per_layer() -> None:
    model = nn.Linear(6, 2, bias=False)
    gradients = [torch.randn(5, 2, 6)]
    whole, layer = (
        next(cut_blocks(gradients, find_layout(weights(model), granularity)))
        for granularity in ("whole", "per_layer")
    )
    assert torch.equal(whole, layer)


def test_a_single_number_has_no_direction() -> None:
    with pytest.raises(SpecError) as caught:
        find_layout(weights(nn.Linear(1, 5)), "per_row")
    assert (caught.value.field, caught.value.value, caught.value.allowed) == (
        "granularity",
        "per_row",
        ("per_layer", "whole"),
    )
    assert find_layout(weights(nn.Linear(1, 5)), "per_layer") == [(1, 5), (1, 5)]
