"""Logistic regression with a penalty: scikit-learn's solutions, classes, units, budgets."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skdpsco import PrivateLogisticRegression

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

EXACT = 1e11  # epsilon without noise to speak of
L1_RATIOS = [0.0, 1.0, 0.4]


def data(n_classes=2, n=1500, seed=0):
    """Correlated columns of different scales and bounds, and noisy labels."""
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1, 1, (n, 4))
    bounds = np.array([1.0, 20.0, 0.5, 3.0])
    X = (Z + 0.4 * Z[:, [1, 2, 3, 0]]) / 1.4 * bounds
    score = X @ [2.0, -0.15, 2.0, 0.0] + 0.3 + rng.logistic(size=n) / 2
    return X, np.digitize(score, [0.0] if n_classes == 2 else [-0.8, 0.9]), bounds


def fitted(X, y, **params):
    return PrivateLogisticRegression(random_state=0, **params).fit(X, y)


def reference(X, y, C, l1_ratio, fit_intercept):
    """scikit-learn's solution; its own way to state the penalty depends on its version."""
    penalty = None if C == np.inf else "elasticnet" if l1_ratio else "l2"
    mixed = {"l1_ratio": l1_ratio} if l1_ratio else {}
    model = LogisticRegression(
        C=1.0 if penalty is None else C, penalty=penalty, solver="saga" if l1_ratio else "lbfgs",
        fit_intercept=fit_intercept, tol=1e-12, max_iter=10**5, random_state=0, **mixed,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of depends on the version too
        return model.fit(X, y)


def centred(model, by_feature):
    """Coefficients and intercepts less what changes no probability of several classes."""
    coef, intercept = model.coef_, model.intercept_
    if len(intercept) > 1:
        intercept = intercept - intercept.mean()
        coef = coef - coef.mean(axis=0) if by_feature else coef
    return coef, intercept


# --- without noise


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("C", "l1_ratio"), [*((0.1, ratio) for ratio in L1_RATIOS), (np.inf, 0.0)])
def test_it_is_that_of_scikit_learn(n_classes, fit_intercept, C, l1_ratio):
    X, y, bounds = data(n_classes)
    X = X / bounds  # otherwise scikit-learn takes minutes
    params = {"C": C, "l1_ratio": l1_ratio, "fit_intercept": fit_intercept}
    expected = reference(X, y, **params)
    for given in (X, sparse.csr_matrix(X)) if fit_intercept else (X,):
        model = fitted(given, y, epsilon=EXACT, feature_bound=1.0, **params)
        for mine, theirs in zip(
            centred(model, C == np.inf), centred(expected, C == np.inf), strict=True
        ):
            assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
        assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-5)
    if l1_ratio:
        assert (expected.coef_ == 0.0).any() or n_classes == 2
        assert_array_equal(model.coef_ == 0.0, expected.coef_ == 0.0)


@pytest.mark.parametrize("bound", [20.0, "columns", None])
def test_the_penalty_is_in_units_of_the_user(bound):
    X, y, bounds = data()
    params = {"C": 0.05, "l1_ratio": 0.0, "fit_intercept": True}
    expected = reference(X, y, **params)
    bound = bounds if bound == "columns" else bound
    model = fitted(X, y, epsilon=EXACT, feature_bound=bound, **params)
    assert_allclose(model.coef_, expected.coef_, rtol=1e-4)
    assert_allclose(model.intercept_, expected.intercept_, rtol=1e-4)
    scaled = fitted(8.0 * X, y, feature_bound=8.0 * bounds, epsilon=2.0, C=0.05 / 64.0)
    model = fitted(X, y, feature_bound=bounds, epsilon=2.0, C=0.05)
    assert_allclose(8.0 * scaled.coef_, model.coef_, rtol=1e-6)


def test_no_penalty():
    X, y, bounds = data()
    params = {"epsilon": 3.0, "feature_bound": bounds, "C": np.inf}
    models = [fitted(X, y, l1_ratio=ratio, **params) for ratio in L1_RATIOS]
    assert all(np.array_equal(model.coef_, models[0].coef_) for model in models)
