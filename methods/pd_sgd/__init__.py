"""pd-sgd: noisy steps that are taken only where enough other batches could have given them."""

from methods.pd_sgd.pd_sgd import PdSgd, PdSgdParams, method

__all__ = ["PdSgd", "PdSgdParams", "method"]
