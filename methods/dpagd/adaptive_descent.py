"""DP-AGD as published: the budget of noisy gradients grows when a noisy comparison finds them useless."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import torch
from dp_accounting import ZCDpEvent
from pydantic import Field
from torch import Tensor

from methods.base import Count, Params, Probability, Problem, Rate, Released, Run
from methods.dpagd.zcdp import ZcdpBudget, gaussian_deviation, pure_epsilon, rho_of
from methods.gradients import Engine, make_engine
from methods.mechanisms.draws import add_gaussian_each, noisy_argmin
from methods.mechanisms.line_search import LineSearch, pieces
from methods.search import Fixed, Search
from workloads.base import Records

RENEW_EVERY, HEADROOM = 10, 1.1
"""Every RENEW_EVERY steps the largest candidate is set to HEADROOM times the largest step chosen in them."""


class AdaptiveParams(Params):
    """Parameters of both variants of dpagd; defaults are those of the authors' code unless stated."""

    epsilon: Rate = Field(description="Budget: the run stops before a release that would exceed it.")
    delta: Probability = Field(default=1e-5, description="Delta of the budget.")
    steps: Annotated[Count, Fixed()] = Field(
        default=1000, description="Maximum steps; the budget should end the run earlier."
    )
    clip: Annotated[Rate, Search(0.1, 3, axis=3)] = Field(
        default=1.0, description="Largest L2 norm of one example's gradient (C_grad)."
    )
    C_obj: Annotated[Rate, Search(1, 10)] = Field(
        default=3.0, description="Upper bound of one example's loss."
    )
    splits: Annotated[Count, Search(10, 120, axis=2)] = Field(
        default=60, description="Steps that the budget allows if no gradient is remeasured (ours)."
    )
    gamma: Annotated[Rate, Search(0.05, 0.5)] = Field(
        default=0.1, description="Relative growth of a gradient's budget if the zero step wins."
    )
    step_max: Annotated[Rate, Search(0.5, 8, axis=0)] = Field(
        default=2.0, description="Initial maximum step size."
    )
    candidates: Annotated[Count, Fixed(20)] = Field(
        default=20, description="Step sizes to choose from, besides 0."
    )


def follow_paper(members: Records, problem: Problem, params: AdaptiveParams, run: Run) -> Released:
    """Algorithm 2 of Lee and Kifer 2018. Every release is charged to a zCDP budget."""
    model = problem.model(run.seed("init")).to(run.device).train()
    engine = make_engine(model, problem.loss)
    search = LineSearch(model, problem.loss, engine.weights, params.C_obj)
    budget, grid = ZcdpBudget(whole_budget(params, run)), StepGrid(params.step_max, params.candidates)
    choice = budget.rho / (2 * params.splits)
    chosen, counts = {"gradient_rho": choice}, {"moves": 0, "comparisons": 0}
    state: dict[str, Any] = {
        "model": model,
        "budget": budget,
        "grid": grid,
        "chosen": chosen,
        "counts": counts,
    }

    def compare(gradient: "Measured") -> int:
        """The index of the step size with the smallest noisy loss, 0 for no step; charged."""
        budget.spend(choice)
        counts["comparisons"] += 1
        with run.clock("search"):
            losses = search.losses(members, gradient.direction(), grid.lengths())
            scale = params.C_obj / pure_epsilon(choice)
            place: int = run.mechanism(
                "comparison",
                losses,
                partial(noisy_argmin, scale=scale),
                sensitivity=params.C_obj,
                scale=scale,
                norm="linf",
                event=ZCDpEvent(choice),
                stream="comparison",
            )
        return place

    for _ in run.steps("train", params.steps, state):
        if not budget.admits(chosen["gradient_rho"] + choice):
            break
        with run.clock("gradients"):
            sums, loss = clipped_total(engine, members, params.clip)
        gradient = Measured(sums, params.clip, run)
        budget.spend(gradient.measure(chosen["gradient_rho"]))
        place = compare(gradient)
        while place == 0 and budget.admits(params.gamma * gradient.rho + choice):
            budget.spend(gradient.measure(params.gamma * gradient.rho))
            place = compare(gradient)
        length = run.public("step size", float(grid.lengths()[place]))
        search.move(gradient.direction(), length)
        grid.count(length)
        chosen["gradient_rho"] = gradient.rho
        counts["moves"] += place > 0
        run.observe(loss=loss, step_size=length)

    engine.release()
    stats = {name: float(value) for name, value in counts.items()}
    # The whole budget, spent or not: how much is left depends on the data.
    ledger = run.ledger(ZCDpEvent(budget.rho))
    return Released(model.eval(), ledger, stats | {"rho_spent": budget.spent})


def whole_budget(params: AdaptiveParams, run: Run) -> float:
    """The zCDP budget of (epsilon, delta), to a thousandth of the paper's conversion."""
    unit = rho_of(params.epsilon, params.delta) / 1000
    event = ZCDpEvent(unit)
    return unit * run.budget(params.epsilon, params.delta, event).remaining_uses(event)


class Measured:
    """The average of one or more noisy measurements of a sum of clipped gradients."""

    def __init__(self, sums: Sequence[Tensor], clip: float, run: Run) -> None:
        self.sums, self.clip, self.run = sums, clip, run
        self.values = [torch.zeros_like(each) for each in sums]
        self.rho = 0.0

    def measure(self, rho: float) -> float:
        """Measure once more, at the cost rho, which is returned.

        Measurements are weighted by their precision, so that together they have the variance of a single one
        at their total cost.
        """
        share = rho / (self.rho + rho)
        deviation = gaussian_deviation(self.clip, rho)
        measured = self.run.mechanism(
            "gradient",
            self.sums,
            partial(add_gaussian_each, scale=deviation),
            sensitivity=self.clip,
            scale=deviation,
            event=ZCDpEvent(rho),
        )
        for value, noisy in zip(self.values, measured, strict=True):
            value.lerp_(noisy, share)
        self.rho += rho
        return rho

    def direction(self) -> list[Tensor]:
        """The unit vector of the measurement."""
        norm = torch.linalg.vector_norm(torch.stack([value.norm() for value in self.values]))
        return [value / norm for value in self.values]


class StepGrid:
    """An even grid of step sizes from 0 to the longest. Part of the state of `run.steps`."""

    def __init__(self, longest: float, candidates: int) -> None:
        self.longest, self.candidates = longest, candidates
        self.recent: list[float] = []

    def lengths(self) -> Tensor:
        """(1 + candidates,), the first of them 0."""
        return torch.linspace(0, self.longest, 1 + self.candidates, dtype=torch.float64)

    def count(self, length: float) -> None:
        """Record a chosen step; rescale the grid every RENEW_EVERY steps."""
        self.recent.append(length)
        if len(self.recent) == RENEW_EVERY:
            if max(self.recent) > 0:
                self.longest = HEADROOM * max(self.recent)
            self.recent.clear()

    def state_dict(self) -> dict[str, Any]:
        """The longest step and the recent ones."""
        return {"longest": self.longest, "recent": list(self.recent)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved grid."""
        self.longest, self.recent = float(state["longest"]), [float(each) for each in state["recent"]]


def clipped_total(engine: Engine, members: Records, clip: float) -> tuple[list[Tensor], Tensor]:
    """The sum of all members' clipped gradients, and the mean of their losses."""
    sums = [weight.detach().new_zeros(weight.shape) for weight in engine.weights]
    losses = [engine.clipped_sum(part.x, part.y, clip, sums).losses for part in pieces(members)]
    return sums, torch.cat(losses).mean()
