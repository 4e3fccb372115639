"""The scorer finds the rows outside a fold, whatever their form, and prefers what leaks less."""

import pickle
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate

from harness.audit.door import audit
from harness.audit.scorer import leakage_scorer
from workloads.errors import DataError, SpecError

X, y = load_digits(return_X_y=True)
NAMES = np.array(list("zyxwvutsrq"))[y]
FOREST = RandomForestClassifier(20, random_state=0)


def frame() -> pandas.DataFrame:
    return pandas.DataFrame(X, columns=[f"pixel_{place}" for place in range(64)])


@pytest.mark.parametrize("rows", [X, frame()], ids=["values", "index"])
def test_it_is_the_leakage_of_the_rows_outside_the_fold(rows: Any) -> None:
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scoring = {"accuracy": "accuracy", "leakage": leakage_scorer(rows, NAMES)}
    found = cross_validate(FOREST, rows, NAMES, cv=folds, scoring=scoring, return_estimator=True)
    for (inside, outside), estimator, score in zip(
        folds.split(X, NAMES), found["estimator"], found["test_leakage"], strict=True
    ):
        sets = [(rows[part] if rows is X else rows.iloc[part], NAMES[part]) for part in (inside, outside)]
        direct = audit(estimator, *sets, attacks=["loss"])
        assert score == pytest.approx(-(direct.figures("loss").metrics.auc or 0))


def test_a_search_prefers_what_leaks_less() -> None:
    search = GridSearchCV(FOREST, {"max_depth": [3, None]}, scoring=leakage_scorer(X, y), cv=3)
    search.fit(X, y)
    assert search.best_params_ == {"max_depth": 3}


def test_it_travels_to_other_processes() -> None:
    fitted = FOREST.fit(X[:900], y[:900])
    scorer = leakage_scorer(X, y)
    assert pickle.loads(pickle.dumps(scorer))(fitted, X[900:], y[900:]) == scorer(fitted, X[900:], y[900:])


def test_other_rows_and_wrong_requests_are_refused() -> None:
    fitted = FOREST.fit(X[:900], y[:900])
    with pytest.raises(DataError) as caught:
        leakage_scorer(X, y)(fitted, X[900:] + 1, y[900:])
    assert (caught.value.field, caught.value.value) == ("X", len(X) - 900)
    with pytest.raises(DataError) as caught:
        leakage_scorer(X, y[:-1])
    assert (caught.value.field, caught.value.value) == ("labels", len(y) - 1)
    with pytest.raises(SpecError) as wrong:
        leakage_scorer(X, y, "accuracy")
    assert (wrong.value.field, wrong.value.value) == ("figure", "accuracy")
