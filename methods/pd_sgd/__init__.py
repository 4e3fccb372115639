"""pd-sgd: noisy steps that are taken only if enough other batches could have produced them."""

from methods.pd_sgd.pd_sgd import PdSgd, PdSgdParams, method

__all__ = ["PdSgd", "PdSgdParams", "method"]
