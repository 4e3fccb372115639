"""DP-AGD as published: noisy gradients whose budget grows when a noisy comparison finds them useless."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from dp_accounting import ZCDpEvent
from pydantic import Field
from torch import Tensor

from methods.base import Count, Params, Probability, Problem, Rate, Released, Run
from methods.dpagd.zcdp import ZcdpBudget, gaussian_deviation, pure_epsilon, rho_of
from methods.gradients import Engine, make_engine
from methods.mechanisms.draws import add_gaussian_each, noisy_argmin
from methods.mechanisms.line_search import LineSearch, pieces
from workloads.base import Records

RENEW_EVERY, ROOM = 10, 1.1
"""The longest candidate is set anew after so many steps, to so many times the longest chosen in them."""


class AdaptiveParams(Params):
    """What both variants of dpagd have; values are those of the authors' code where a source is not given."""

    epsilon: Rate = Field(description="Budget: the run stops before a release that would pass it.")
    delta: Probability = Field(default=1e-5, description="Delta of the budget.")
    steps: Count = Field(default=1000, description="Most steps; the budget should end the run before.")
    clip: Rate = Field(default=1.0, description="Largest L2 norm of one example's gradient (C_grad).")
    C_obj: Rate = Field(default=3.0, description="One example's loss counts as at most this much.")
    splits: Count = Field(
        default=60, description="Steps the budget pays for where no gradient is measured again (ours)."
    )
    gamma: Rate = Field(
        default=0.1, description="By which share a gradient's budget grows where standing still wins."
    )
    step_max: Rate = Field(default=2.0, description="The longest step at first.")
    candidates: Count = Field(default=20, description="Step sizes to choose from, besides standing still.")


def follow_paper(members: Records, problem: Problem, params: AdaptiveParams, run: Run) -> Released:
    """Algorithm 2 of Lee and Kifer 2018. Every release is paid for from a purse of zCDP."""
    model = problem.model(run.seed("init")).to(run.device).train()
    engine = make_engine(model, problem.loss)
    search = LineSearch(model, problem.loss, engine.weights, params.C_obj)
    purse, grid = ZcdpBudget(whole_budget(params, run)), StepGrid(params.step_max, params.candidates)
    choice = purse.rho / (2 * params.splits)
    chosen, counts = {"gradient_rho": choice}, {"moves": 0, "comparisons": 0}
    state: dict[str, Any] = {"model": model, "purse": purse, "grid": grid, "chosen": chosen, "counts": counts}

    def compare(gradient: "Measured") -> int:
        """Which step size has the least loss, standing still being 0; paid for."""
        purse.spend(choice)
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
        if not purse.admits(chosen["gradient_rho"] + choice):
            break
        with run.clock("gradients"):
            sums, loss = clipped_total(engine, members, params.clip)
        gradient = Measured(sums, params.clip, run)
        purse.spend(gradient.measure(chosen["gradient_rho"]))
        place = compare(gradient)
        while place == 0 and purse.admits(params.gamma * gradient.rho + choice):
            purse.spend(gradient.measure(params.gamma * gradient.rho))
            place = compare(gradient)
        length = run.public("step size", float(grid.lengths()[place]))
        search.move(gradient.direction(), length)
        grid.count(length)
        chosen["gradient_rho"] = gradient.rho
        counts["moves"] += place > 0
        run.observe(loss=loss, step_size=length)

    engine.release()
    stats = {name: float(value) for name, value in counts.items()}
    # All that was fixed beforehand, spent or not: how much is left over depends on the data.
    ledger = run.ledger(ZCDpEvent(purse.rho))
    return Released(model.eval(), ledger, stats | {"rho_spent": purse.spent})


def whole_budget(params: AdaptiveParams, run: Run) -> float:
    """As much zCDP as (epsilon, delta) pays for, to a thousandth of what the paper's conversion gives."""
    unit = rho_of(params.epsilon, params.delta) / 1000
    event = ZCDpEvent(unit)
    return unit * run.budget(params.epsilon, params.delta, event).remaining_uses(event)


class Measured:
    """What is known of a sum of clipped gradients after one or more noisy measurements of it."""

    def __init__(self, sums: Sequence[Tensor], clip: float, run: Run) -> None:
        self.sums, self.clip, self.run = sums, clip, run
        self.values = [torch.zeros_like(each) for each in sums]
        self.rho = 0.0

    def measure(self, rho: float) -> float:
        """Measure once more, at the price rho, which is returned.

        Measurements are averaged by their precision, so that together they have the variance of a single one
        of their summed price.
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
        """The unit vector of what was measured."""
        norm = torch.linalg.vector_norm(torch.stack([value.norm() for value in self.values]))
        return [value / norm for value in self.values]


class StepGrid:
    """The step sizes to choose from: 0 to the longest, evenly. Belongs into the state of `run.steps`."""

    def __init__(self, longest: float, candidates: int) -> None:
        self.longest, self.candidates = longest, candidates
        self.recent: list[float] = []

    def lengths(self) -> Tensor:
        """(1 + candidates,), the first of them 0."""
        return torch.linspace(0, self.longest, 1 + self.candidates, dtype=torch.float64)

    def count(self, length: float) -> None:
        """Remember what was chosen; now and then the grid becomes as long as that needs."""
        self.recent.append(length)
        if len(self.recent) == RENEW_EVERY:
            if max(self.recent) > 0:
                self.longest = ROOM * max(self.recent)
            self.recent.clear()

    def state_dict(self) -> dict[str, Any]:
        """The longest step and the recent ones."""
        return {"longest": self.longest, "recent": list(self.recent)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved grid."""
        self.longest, self.recent = float(state["longest"]), [float(each) for each in state["recent"]]


def clipped_total(engine: Engine, members: Records, clip: float) -> tuple[list[Tensor], Tensor]:
    """The sum of all members' clipped gradients, and the mean of their losses."""
    sums = [weight.detach().new_zeros(weight.shape) for weight in engine.weights]
    losses = [engine.clipped_sum(part.x, part.y, clip, sums).losses for part in pieces(members)]
    return sums, torch.cat(losses).mean()
