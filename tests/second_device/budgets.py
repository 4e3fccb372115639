"""How often a step of each method may make the host wait for a GPU: the one table of it.

A plain step never waits: the host is steps ahead of the device, which then never waits for the host. A
method that decides by a number of the data (whether a step is rejected, how many records stay) must look at
that number once. The first step of a phase may look more often: an engine compares its first batch with
autograd.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """The most waits of a step: `each` for every call of a function, none otherwise."""

    each: int = 0
    unit: str = ""
    """`module:function`, or `module:Class.function`: what decides by a number of the data."""
    why: str = ""


BUDGETS: dict[str, Budget] = {
    "sgd": Budget(),
    "dp-sgd": Budget(),
    "dpsgd-ts": Budget(),
    "dpsgd-hf": Budget(),
    "dp-gan": Budget(),
    "pate": Budget(),
    "private-search": Budget(),
    "selena": Budget(),
    "advreg": Budget(),
    "memguard": Budget(),
    "pd-sgd": Budget(
        1, "methods.pd_sgd.deniability:DeniabilityTest.passes", "a tested batch is plausible or not"
    ),
    "dirdp-sgd": Budget(1, "torch:_standard_gamma", "a round of rejections: which draws are made again"),
    "dpsur": Budget(1, "methods.dpsur.dpsur:passes", "an attempt is accepted or not"),
    "dpagd": Budget(1, "methods.dpagd.adaptive_descent:noisy_argmin", "a comparison chooses a step size"),
    "dpis": Budget(1, "methods.dpis.importance:ImportanceSampler.keep", "how many candidates stay"),
}
ENGINES: dict[str, int] = {"bookkeeping": 0, "opacus": 0, "opacus-ghost": 1}
"""Waits of a clipped sum. Ghost clipping must know whether a gradient is not finite before its second
pass."""
