"""pate: teachers on disjoint shards vote on public examples; a student learns the noisy labels."""

from methods.pate.pate import Pate, PateParams, method

__all__ = ["Pate", "PateParams", "method"]
