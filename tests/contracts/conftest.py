"""Evidence for the contract of attacks, made as in their own tests."""

from tests.harness.attacks.conftest import from_phi, masks

__all__ = ["from_phi", "masks"]
