"""A bench on a node: trainings that take turns, a step each, and what their steps cost."""
