"""Views of images: their shifts, and the papers' order."""

import pytest
import torch

from harness.attacks.parts.augment import View, check_images, lira_views, near_views
from workloads.base import Records
from workloads.errors import BenchError


def test_a_view_moves_and_mirrors() -> None:
    x = torch.arange(16.0).view(1, 1, 4, 4)
    assert torch.equal(View(mirrored=True).of(x)[0, 0, 0], torch.tensor([3.0, 2.0, 1.0, 0.0]))
    moved = View(down=1, right=-2).of(x)[0, 0]
    assert torch.equal(moved[1:, :2], x[0, 0, :3, 2:])
    assert moved[0, 0] == x[0, 0, 1, 2], "what comes in is reflected at the edge"
    assert View().of(x) is x


def test_lira_queries_the_image_first_and_at_most_eighteen_views() -> None:
    views = lira_views(18)
    assert views[:2] == [View(), View(mirrored=True)]
    assert len(set(views)) == 18
    assert {abs(view.down) for view in views} == {0, 4}


@pytest.mark.parametrize(("queries", "farthest"), [(1, 0), (2, 0), (6, 1), (14, 2)])
def test_near_views_go_out_ring_by_ring(queries: int, farthest: int) -> None:
    views = near_views(queries)
    assert len(set(views)) == len(views) == queries
    assert views[0] == View()
    assert max(abs(view.down) + abs(view.right) for view in views) == farthest


@pytest.mark.parametrize("shape", [(64,), (81, 7, 7), (32, 32)])
def test_records_that_are_not_images_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(BenchError) as caught:
        check_images(Records(torch.zeros(2, *shape), torch.zeros(2)), "lira", lira_views(3))
    assert (caught.value.field, caught.value.value) == ("shape", shape)


def test_an_image_cannot_be_shifted_beyond_itself() -> None:
    small = Records(torch.zeros(2, 1, 4, 4), torch.zeros(2))
    check_images(small, "lira", near_views(5))
    with pytest.raises(BenchError) as caught:
        check_images(small, "lira", lira_views(18))
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("shift", 4, 3)
