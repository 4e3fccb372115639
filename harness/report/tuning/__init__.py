"""The report on tunes: what was tried, what was chosen, and how much luck the studies show."""
