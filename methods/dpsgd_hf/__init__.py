"""dpsgd-hf: DP-SGD on handcrafted features with private normalisation."""

from methods.dpsgd_hf.dpsgd_hf import DpsgdHf, DpsgdHfParams, method

__all__ = ["DpsgdHf", "DpsgdHfParams", "method"]
