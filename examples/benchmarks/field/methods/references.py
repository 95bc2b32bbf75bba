"""Models without privacy: those that private methods cannot be expected to beat, and the constant
predictor, which all should beat.

The boosted trees show what linear models leave out.
"""

from functools import partial

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from field.methods import CLASSIFICATION, REGRESSION, Method


def constant(problem, budget, rng):
    """The mean of targets, the shares of the classes, or every column of a table by itself."""
    n = problem.X_test.shape[0]
    if problem.sizes is not None:
        return {"table": np.column_stack([rng.permutation(column) for column in problem.X.T])}
    if problem.n_classes is None:
        return {"values": np.full(n, problem.y.mean())}
    shares = np.bincount(problem.y, minlength=problem.n_classes) / len(problem.y)
    return {"labels": np.full(n, shares.argmax()), "probabilities": np.tile(shares, (n, 1))}


def plain(make, problem, budget, rng):
    model = make().fit(problem.X, problem.y)
    if problem.n_classes is None:
        return {"values": model.predict(problem.X_test)}
    probabilities = np.zeros((problem.X_test.shape[0], problem.n_classes))
    probabilities[:, model.classes_] = model.predict_proba(problem.X_test)
    return {"labels": model.predict(problem.X_test), "probabilities": probabilities}


def records(problem, budget, rng):
    """The training records themselves."""
    return {"table": problem.X}


logistic = partial(plain, partial(LogisticRegression, max_iter=500))
METHODS = {
    "constant": Method((*CLASSIFICATION, *REGRESSION, "worst group", "table"), constant, False),
    "LogisticRegression": Method((*CLASSIFICATION, "worst group"), logistic, False),
    "Ridge": Method(REGRESSION, partial(plain, Ridge), False),
    "boosted trees": Method(
        ("binary", "multiclass"), partial(plain, HistGradientBoostingClassifier), False
    ),
    "boosted trees, regression": Method(
        ("regression",), partial(plain, HistGradientBoostingRegressor), False
    ),
    "the records": Method(("table",), records, False),
}
