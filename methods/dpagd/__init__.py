"""dpagd: gradient descent in which noisy comparisons choose step sizes and the noise of gradients."""

from methods.dpagd.dpagd import Dpagd, DpagdParams, method

__all__ = ["Dpagd", "DpagdParams", "method"]
