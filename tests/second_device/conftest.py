"""Tests of what runs on a GPU, on a device without hardware."""

from tests.second_device.fixtures import device

__all__ = ["device"]
