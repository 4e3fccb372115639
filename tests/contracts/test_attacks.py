"""The contract of attacks; a new file in harness/attacks is tested by existing."""

from functools import cache

import pytest

from harness.attacks import family
from harness.attacks.base import Attack
from harness.checks.attack_contract import ATTACK, CheckedAttack, is_ignorant_of_the_record
from harness.checks.contract import Check
from tests.contracts.held import hold

MEMBERSHIP = [name for name in family.names() if isinstance(family.get(name), Attack)]
"""Other kinds of attacks give no scores."""

every_attack = pytest.mark.parametrize("name", family.names())


@cache
def subject(name: str) -> CheckedAttack:
    """One for all checks of an attack: some attacks train classifiers."""
    return CheckedAttack(name)


def test_the_family_holds_the_attacks_of_the_papers() -> None:
    assert set(MEMBERSHIP) >= {
        *("blind", "label-only", "lira", "loss", "population", "reference"),
        *("rmia", "salem", "shadow", "shokri", "white-box"),
    }
    assert "attribute-inference" in family.names()


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=check.name, marks=[pytest.mark.slow] * (check is is_ignorant_of_the_record))
        for check in ATTACK
    ],
)
@every_attack
def test_it_holds_its_contract(name: str, check: Check[CheckedAttack]) -> None:
    hold(check, subject(name))
