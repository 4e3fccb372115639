"""The ruler: from what models predict to leakage figures with intervals, in numpy alone.

Scores of attacks from stored signals (`scoring`), figures with their influence values (`roc`, `influence`),
intervals that know how targets depend on each other (`intervals`), the strongest attack of a cell
(`candidates`), two methods against each other (`comparison`). Nothing here loads torch: stored results are
evaluated again at collection.
"""
