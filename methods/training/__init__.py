"""Shared parts of trainings: optimisers, samplers, plain descent, ensembles, averages."""
