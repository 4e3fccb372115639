"""Boosted trees that classify members by any columns."""

from typing import Any

import numpy as np

from harness.attacks.base import Bools, Floats


def boosted_log_odds(x: Floats, y: Bools, asked: Floats, trees: int, even: bool = False) -> Floats:
    """The log odds of `asked` under trees trained on (x, y); 0 if y has one class only.

    If `even`, members and non-members weigh the same: odds of different classifiers are then comparable.
    """
    # Imported here: listing attacks and planning need no boosting library.
    import lightgbm

    if y.all() or not y.any():
        return np.zeros(len(asked))
    # One thread and row order, for reproducible bits.
    settings: dict[str, Any] = {"objective": "binary", "deterministic": True, "force_row_wise": True}
    settings |= {"num_threads": 1, "seed": 0, "verbosity": -1}
    booster = lightgbm.train(settings, lightgbm.Dataset(x, y.astype(np.float64)), trees)
    odds = np.asarray(booster.predict(asked, raw_score=True), dtype=np.float64)
    return odds - np.log(y.sum() / (~y).sum()) if even else odds
