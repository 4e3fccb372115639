"""dpsur: DP-SGD steps that are kept only if they pass a private test on a validation batch."""

from methods.dpsur.dpsur import Dpsur, DpsurParams, method

__all__ = ["Dpsur", "DpsurParams", "method"]
