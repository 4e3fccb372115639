"""dp-gan: a GAN whose discriminator is trained by DP-SGD, and a classifier trained on generated examples."""

from methods.dp_gan.dp_gan import DpGan, DpGanParams, method

__all__ = ["DpGan", "DpGanParams", "method"]
