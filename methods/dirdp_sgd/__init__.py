"""dirdp-sgd: von Mises-Fisher noise on the direction of every example's gradient."""

from methods.dirdp_sgd.dirdp_sgd import DirDpSgd, DirDpSgdParams, method

__all__ = ["DirDpSgd", "DirDpSgdParams", "method"]
