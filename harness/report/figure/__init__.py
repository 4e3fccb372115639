"""Shared parts of figures: style, paper sizes, panels, labels, artists."""
