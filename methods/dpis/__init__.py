"""dpis: DP-SGD on records drawn in proportion to the length of their gradients."""

from methods.dpis.dpis import Dpis, DpisParams, method

__all__ = ["Dpis", "DpisParams", "method"]
