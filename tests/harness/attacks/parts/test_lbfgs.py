"""L-BFGS on many problems at once takes the steps of each alone."""

import pytest
import torch
from torch import Tensor

from harness.attacks.parts.lbfgs import Evaluate, minimise

COUNT, WIDTH = 5, 12


def bowls() -> tuple[Tensor, Evaluate]:
    """Starts, and five quartic bowls of different shape."""
    random = torch.Generator().manual_seed(0)
    square = torch.randn(COUNT, WIDTH, WIDTH, generator=random, dtype=torch.float64)
    curvature = square @ square.mT + 0.1 * torch.eye(WIDTH, dtype=torch.float64)
    tilt, start = (torch.randn(COUNT, WIDTH, generator=random, dtype=torch.float64) for _ in range(2))

    def evaluate(points: Tensor) -> tuple[Tensor, Tensor]:
        points = points.detach().requires_grad_()
        bent = torch.einsum("ki,kij,kj->k", points, curvature, points) / 2
        values = bent - (tilt * points).sum(1) + 0.1 * points.pow(4).sum(1)
        (slopes,) = torch.autograd.grad(values.sum(), points)
        return values.detach(), slopes

    return start, evaluate


def alone(row: int, steps: int) -> Tensor:
    """torch's own, on one of the problems."""
    start, evaluate = bowls()
    point = start[row].clone().requires_grad_()
    optimizer = torch.optim.LBFGS([point], lr=1, max_iter=steps, max_eval=10**6, tolerance_change=0)

    def closure() -> float:
        points = start.clone()
        points[row] = point.detach()
        values, slopes = evaluate(points)
        point.grad = slopes[row]
        return float(values[row])

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return point.detach()


@pytest.mark.parametrize("steps", [1, 2, 5, 40])
def test_each_problem_takes_the_steps_of_torchs_optimizer(steps: int) -> None:
    start, evaluate = bowls()
    points, values = minimise(evaluate, start, steps, ceiling=1e9)
    for row in range(COUNT):
        torch.testing.assert_close(points[row], alone(row, steps), rtol=0, atol=1e-9)
    torch.testing.assert_close(values, evaluate(points)[0])


def test_a_diverging_problem_stops_and_affects_no_other() -> None:
    start, bowl = bowls()

    def evaluate(points: Tensor) -> tuple[Tensor, Tensor]:
        values, slopes = bowl(points)
        values[2] = torch.nan if (points[2] != start[2]).any() else values[2]
        return values, slopes

    points, values = minimise(evaluate, start, 40, ceiling=1e9)
    undisturbed, _ = minimise(bowl, start, 40, ceiling=1e9)
    others = [0, 1, 3, 4]
    assert values.isnan().tolist() == [False, False, True, False, False]
    assert points.isfinite().all()
    torch.testing.assert_close(points[others], undisturbed[others])


def test_one_above_the_ceiling_stays_where_it_is() -> None:
    start, evaluate = bowls()
    first = evaluate(start)[0]
    ceiling = float(first.median())
    points, _ = minimise(evaluate, start, 3, ceiling)
    moved = (points != start).any(dim=1)
    assert moved.tolist() == (first <= ceiling).tolist()


def test_solved_problems_stay_where_they_are() -> None:
    start, evaluate = bowls()
    solved, _ = minimise(evaluate, start, 200, ceiling=1e9)
    assert evaluate(solved)[1].abs().max() <= 1e-7
    again, _ = minimise(evaluate, solved, 5, ceiling=1e9)
    torch.testing.assert_close(again, solved, rtol=0, atol=0)
