"""Benches: interleaved trainings and the cost of their steps."""
