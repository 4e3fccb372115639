"""Evidence for the contract of attacks, made as in their own tests."""

from tests.harness.attacks.conftest import from_phi, masks
from tests.second_device.fixtures import device

__all__ = ["device", "from_phi", "masks"]
