"""memguard: plain training, with noise on the released confidences that misleads a surrogate attack."""

from methods.memguard.memguard import Memguard, MemguardParams, method

__all__ = ["Memguard", "MemguardParams", "method"]
