"""Published numbers next to ours, as text.

reproduce.py        a paper's table, line by line
weak_baselines.py   cells of the private baseline below a published line on the same data
"""
