"""dp-gan: a generator trained against a discriminator of DP-SGD, and a classifier of what it generates."""

from methods.dp_gan.dp_gan import DpGan, DpGanParams, method

__all__ = ["DpGan", "DpGanParams", "method"]
