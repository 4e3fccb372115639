"""Leakage as a score in scikit-learn's model selection."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.audit.given import places_of, read_outputs
from harness.audit.limits import FIGURES, figure_of
from harness.audit.measurement import measure
from harness.audit.pairing import pair
from workloads.errors import DataError, SpecError


def leakage_scorer(X: Any, y: Any, figure: str = "auc") -> "LeakageScorer":
    """Make a scorer for `cross_validate` and `GridSearchCV`: minus the leakage of the rows outside the fold.

    The members are the rows of X that are not in the fold, so it fits splits that train on all the rest,
    such as
    KFold and StratifiedKFold, and no training scores. Rows are known by their index in a data frame whose
    index
    is unique, else by their values; a row with a copy in the fold is left out.

    Args:
        X: All rows that the search is given.
        y: Their labels.
        figure: auc, balanced_accuracy, or a TPR such as tpr_at_1pct, of the attack `loss`.
    """
    if figure not in FIGURES:
        raise SpecError(
            f"figure {figure} is none of {', '.join(FIGURES)}: give one of them",
            field="figure",
            value=figure,
            allowed=FIGURES,
        )
    labels = np.asarray(y).reshape(-1)
    keys = row_keys(X)
    if len(keys) != len(labels):
        raise DataError(
            f"X has {len(keys)} rows and y {len(labels)}: give one label for every row",
            field="labels",
            value=len(labels),
            allowed=len(keys),
        )
    return LeakageScorer(X, labels, figure, keys)


@dataclass(frozen=True)
class LeakageScorer:
    """Called by scikit-learn with a fitted estimator and a fold; greater is better."""

    X: Any
    y: NDArray[Any]
    figure: str
    keys: NDArray[Any] = field(repr=False)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Minus the figure: members outside the fold against the fold."""
        fold = row_keys(X)
        strange = int((~np.isin(fold, self.keys)).sum())
        if strange:
            raise DataError(
                f"{strange} of {len(fold)} rows of the fold are not among the {len(self.keys)} that the "
                "scorer was "
                "made with: give leakage_scorer the same X as the search",
                field="X",
                value=strange,
                allowed=0,
            )
        outside = np.flatnonzero(~np.isin(self.keys, fold))
        rest = self.X.iloc[outside] if hasattr(self.X, "iloc") else np.asarray(self.X)[outside]
        members = self._outputs(estimator, rest, self.y[outside], "members")
        others = self._outputs(estimator, X, np.asarray(y).reshape(-1), "others")
        given = pair(members, others, few=True)
        (found,) = measure(given, ["loss"]).figures
        value, _ = figure_of(found, self.figure)
        return float("nan") if value is None else -value

    def _outputs(self, estimator: Any, rows: Any, labels: NDArray[Any], role: str) -> Any:
        places = places_of(np.asarray(estimator.classes_), labels, role)
        return read_outputs({"probabilities": estimator.predict_proba(rows), "labels": places}, role)


def row_keys(rows: Any) -> NDArray[Any]:
    """A value per row by which it is found again."""
    if hasattr(rows, "iloc"):
        if rows.index.is_unique:
            return np.asarray(rows.index)
        rows = rows.to_numpy()
    values = np.ascontiguousarray(np.asarray(rows).reshape(len(rows), -1))
    if values.dtype.kind == "O":
        return np.array(["\x1f".join(map(repr, row)) for row in values.tolist()])
    return values.view(np.dtype((np.void, values.dtype.itemsize * values.shape[1]))).ravel()
