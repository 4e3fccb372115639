"""memguard: plain training; the released confidences are then moved to fool a surrogate attack."""

from methods.memguard.memguard import Memguard, MemguardParams, method

__all__ = ["Memguard", "MemguardParams", "method"]
