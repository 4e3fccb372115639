"""Shared parts of attacks: queries, posteriors, augmentation, inversion and its metrics."""
