"""Attacks: from released models to one score per record. To add one: docs/add-an-attack.md.

1. Write `harness/attacks/<name>.py` with a class that satisfies harness.attacks.base.Attack and bind
   `attack = YourAttack()`.
2. Return scores; the harness computes every metric.
3. Run `make test`: the contract tests find it.
"""

from typing import TYPE_CHECKING

from workloads.family import Family

if TYPE_CHECKING:  # listing errors and names must not load torch
    from harness.attacks.base import Attacker

family: "Family[Attacker]" = Family("attack", __name__, "attack")
