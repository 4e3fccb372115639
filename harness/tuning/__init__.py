"""Tuning: every method gets the same points, members and models, and is judged by non-members of the pool."""
