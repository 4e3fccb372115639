"""dirdp-sgd: every example"s gradient direction is redrawn from a von Mises-Fisher distribution around it."""

from methods.dirdp_sgd.dirdp_sgd import DirDpSgd, DirDpSgdParams, method

__all__ = ["DirDpSgd", "DirDpSgdParams", "method"]
