"""Measurement of leakage: from models' logits to figures with intervals, in numpy only.

Scores of attacks from stored signals (`scoring`), figures with their influence values (`roc`, `influence`),
intervals that account for the dependence of targets (`intervals`), the strongest attack of a cell
(`candidates`), paired comparisons of methods (`comparison`). Nothing here imports torch: stored results are
re-evaluated at collection.
"""
