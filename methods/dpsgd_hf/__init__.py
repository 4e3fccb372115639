"""dpsgd-hf: DP-SGD on handcrafted features, normalised without leaking anything unpaid."""

from methods.dpsgd_hf.dpsgd_hf import DpsgdHf, DpsgdHfParams, method

__all__ = ["DpsgdHf", "DpsgdHfParams", "method"]
