"""DP-AGD as implemented by DPSUR's authors for their comparison, bugs included, to reproduce their tables.

DPAGD.py, train_with_dp.py and NoisyMax.py of the repository of Fu et al. 2024.
"""

from collections import Counter
from functools import partial
from typing import Any

import torch
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, SelfComposedDpEvent
from torch import Tensor

from methods.base import Batches, Problem, Released, Run
from methods.dpagd.adaptive_descent import AdaptiveParams
from methods.gradients import make_engine
from methods.mechanisms.draws import exponential
from methods.mechanisms.events import ClaimedDpEvent
from methods.mechanisms.line_search import LineSearch
from workloads.base import Records
from workloads.errors import SpecError

SHRINK = 0.99
"""Factor of the gradients' noise after a step in which the zero step won."""
UNPAID = (
    "the noise of a comparison makes losses larger, where a proof needs it to make them smaller: with many "
    "candidates it hides little",
    "a comparison reads the batch of its gradient and has exponential noise; it is charged as a Gaussian on "
    "a batch of its own",
    "the realised batch size divides",
)


def follow_code(
    members: Records,
    problem: Problem,
    params: AdaptiveParams,
    run: Run,
    batch_size: int,
    sigma_t: float,
    sigma_v: float,
) -> Released:
    """Train until the authors' accounting reaches the budget; release the last iterate."""
    model = problem.model(run.seed("init")).to(run.device).train()
    engine = make_engine(model, problem.loss)
    search = LineSearch(model, problem.loss, engine.weights, params.C_obj)
    sampler = run.sampler("poisson", members, batch_size)
    charge = Charge(sampler, sigma_t, params, run)
    grid = torch.linspace(0, params.step_max, 1 + params.candidates, dtype=torch.float64)
    counts = {"moves": 0, "comparisons": 0}
    state: dict[str, Any] = {"model": model, "sampler": sampler, "charge": charge, "counts": counts}

    for _ in run.steps("train", params.steps, state):
        if not charge.admits(charge.sigma_t, sigma_v):
            break
        batch = sampler.draw()
        with run.clock("gradients"):
            clipped = engine.clipped_sum(batch.x, batch.y, params.clip)
        charge.pay(charge.sigma_t)
        noise = run.noise(
            "gradient",
            engine.weights,
            charge.sigma_t * params.clip,
            sensitivity=params.clip,
            event=charge.use(charge.sigma_t),
        )
        gradient = [mean.clone() for mean in noise.noisy_mean(clipped.sums, max(len(batch), 1))]
        place, shrunk = 0, False
        while place == 0 and charge.admits(sigma_v):
            counts["comparisons"] += 1
            with run.clock("search"):
                losses = cumulative_losses(search, batch, gradient, grid)
                place = compare(losses, charge, params.C_obj, sigma_v, run)
            charge.pay(sigma_v if place > 0 else charge.sigma_t)
            shrunk |= place == 0
        search.move(gradient, float(grid[place]))
        charge.sigma_t *= SHRINK if shrunk else 1.0
        counts["moves"] += place > 0
        run.observe(loss=clipped.mean_loss(), step_size=float(grid[place]))

    engine.release()
    stats = {name: float(value) for name, value in counts.items()} | {"sigma_t": charge.sigma_t}
    return Released(model.eval(), run.ledger(charge.event()), stats)


def cumulative_losses(search: LineSearch, batch: Records, gradient: list[Tensor], grid: Tensor) -> Tensor:
    """Take all steps of the grid in sequence and return the loss after each.

    The model stays at the last point: the code subtracts every candidate from the same tensors.
    """
    losses = search.losses(batch, gradient, grid.cumsum(0))
    search.move(gradient, float(grid.sum()))
    return losses


def compare(losses: Tensor, charge: "Charge", bound: float, sigma_v: float, run: Run) -> int:
    """The index of the smallest noisy loss; charged as one Gaussian, with the gradient's noise if it is 0."""
    return run.mechanism(
        "comparison",
        losses,
        partial(argmin_after_added_noise, scale=bound * sigma_v),
        sensitivity=bound,
        scale=bound * sigma_v,
        norm="linf",
        event=lambda _, place: charge.use(sigma_v if place > 0 else charge.sigma_t),
        stream="comparison",
    )


def argmin_after_added_noise(losses: Tensor, generator: torch.Generator, scale: float) -> int:
    """The index of the smallest loss after adding exponential noise."""
    return int((losses + scale * exponential(losses.shape, generator).to(losses.device)).argmin())


class Charge:
    """The authors' accounting: a Gaussian on a Poisson sample for every gradient and every comparison.

    Part of the state of `run.steps`.
    """

    def __init__(self, sampler: Batches, sigma_t: float, params: AdaptiveParams, run: Run) -> None:
        self.sampler, self.sigma_t = sampler, sigma_t
        self.budget = run.budget(params.epsilon, params.delta, self.use(sigma_t))
        self.uses: Counter[float] = Counter()
        if not self.admits(sigma_t):
            raise SpecError(
                f"epsilon = {params.epsilon:g} does not allow one gradient with sigma_t = {sigma_t:g}; "
                "give more noise, smaller batches or a larger epsilon",
                field="epsilon",
                value=params.epsilon,
            )

    def admits(self, *sigmas: float) -> bool:
        """Whether Gaussians of these noises fit into the budget together."""
        return self.budget.admits(ComposedDpEvent([self.use(sigma) for sigma in sigmas]))

    def pay(self, sigma: float) -> None:
        """Charge one Gaussian. The authors check the budget only after a step, which may exceed it."""
        if self.admits(sigma):
            self.budget.spend(self.use(sigma))
        self.uses[sigma] += 1

    def event(self) -> DpEvent:
        """The claimed event, with what it does not cover."""
        charged = [SelfComposedDpEvent(self.use(sigma), count) for sigma, count in sorted(self.uses.items())]
        return ClaimedDpEvent(ComposedDpEvent(charged), UNPAID)

    def state_dict(self) -> dict[str, Any]:
        """The budget, the uses and the noise of the next gradient."""
        return {
            "budget": self.budget.state_dict(),
            "sigmas": list(self.uses),
            "counts": list(self.uses.values()),
            "sigma_t": self.sigma_t,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore saved counts."""
        self.budget.load_state_dict(state["budget"])
        self.uses = Counter(dict(zip(state["sigmas"], state["counts"], strict=True)))
        self.sigma_t = float(state["sigma_t"])

    def use(self, sigma: float) -> DpEvent:
        """One Gaussian on a Poisson sample."""
        return self.sampler.event(GaussianDpEvent(sigma))
