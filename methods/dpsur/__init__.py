"""dpsur: DP-SGD proposals of which a private test on a validation batch lets some become updates."""

from methods.dpsur.dpsur import Dpsur, DpsurParams, method

__all__ = ["Dpsur", "DpsurParams", "method"]
