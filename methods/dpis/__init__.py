"""dpis: DP-SGD with importance sampling by gradient norms."""

from methods.dpis.dpis import Dpis, DpisParams, method

__all__ = ["Dpis", "DpisParams", "method"]
