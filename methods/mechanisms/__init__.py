"""Noise mechanisms of methods, and their DP events."""
