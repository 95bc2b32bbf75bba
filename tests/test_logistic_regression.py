"""Logistic regression with a penalty: scikit-learn's solutions, classes, units, budgets."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from skdpsco import PrivateGridSearchCV, PrivateLogisticRegression
from skdpsco.privacy import epsilon_of
from skdpsco.solvers import (
    SGD,
    CoordinateDescent,
    GradientDescent,
    GreedyCoordinateDescent,
)

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

EXACT = 1e11  # epsilon without noise to speak of
BY_DESCENT = ["coordinate-descent", "greedy-coordinate-descent", "gradient-descent", "sgd"]
PENALTIES = ["l2", "l1", "elasticnet", None]


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


def reference(X, y, C, penalty, l1_ratio, fit_intercept):
    """scikit-learn's solution; its own way to state the penalty depends on its version."""
    mixed = {"l1_ratio": l1_ratio} if penalty == "elasticnet" else {}
    solver = "saga" if penalty in ("l1", "elasticnet") else "lbfgs"
    model = LogisticRegression(
        C=C, penalty=penalty, solver=solver, fit_intercept=fit_intercept, tol=1e-12,
        max_iter=10**5, random_state=0, **mixed,
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
@pytest.mark.parametrize("penalty", PENALTIES)
def test_it_is_that_of_scikit_learn(n_classes, fit_intercept, penalty):
    X, y, bounds = data(n_classes)
    X = X / bounds  # otherwise scikit-learn takes minutes
    params = {"C": 0.1, "penalty": penalty, "l1_ratio": 0.4, "fit_intercept": fit_intercept}
    expected = reference(X, y, **params)
    for given in (X, sparse.csr_matrix(X)) if fit_intercept else (X,):
        model = fitted(given, y, epsilon=EXACT, feature_bound=1.0, **params)
        for mine, theirs in zip(
            centred(model, penalty is None), centred(expected, penalty is None), strict=True
        ):
            assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
        assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-5)
    if penalty in ("l1", "elasticnet"):
        assert (expected.coef_ == 0.0).any() or n_classes == 2
        assert_array_equal(model.coef_ == 0.0, expected.coef_ == 0.0)


@pytest.mark.parametrize("bound", [20.0, "columns", None])
def test_the_penalty_is_in_units_of_the_user(bound):
    X, y, bounds = data()
    params = {"C": 0.05, "penalty": "l2", "l1_ratio": 0.5, "fit_intercept": True}
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
    params = {"epsilon": 3.0, "feature_bound": bounds}
    model = fitted(X, y, penalty=None, **params)
    for penalty in PENALTIES[:3]:
        same = fitted(X, y, penalty=penalty, C=np.inf, **params)
        assert_array_equal(same.coef_, model.coef_)
    # l1_ratio says nothing but of "elasticnet".
    same = fitted(X, y, penalty="elasticnet", l1_ratio=0.0, **params)
    assert_array_equal(same.coef_, fitted(X, y, l1_ratio=0.7, **params).coef_)
    same = fitted(X, y, penalty="elasticnet", l1_ratio=1.0, **params)
    assert_array_equal(same.coef_, fitted(X, y, penalty="l1", l1_ratio=0.7, **params).coef_)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("solver", [*BY_DESCENT[:-1], SGD(accountant="rdp")])  # planned at once
def test_every_solver(n_classes, solver):
    X, y, bounds = data(n_classes)
    params = {"C": 1.0, "penalty": "l2", "l1_ratio": 0.5, "fit_intercept": True}
    best = reference(X, y, **params).score(X, y)
    model = fitted(X, y, feature_bound=bounds, solver=solver, epsilon=1e7)
    assert model.score(X, y) > best - 0.01
    private = fitted(X, y, feature_bound=bounds, solver=solver, epsilon=10.0)
    assert private.score(X, y) > best - 0.1
    if n_classes == 2:
        again = fitted(X, y, feature_bound=bounds, solver=solver, epsilon=10.0)
        assert_array_equal(again.coef_, private.coef_)


def test_given_solvers_and_number_of_rounds():
    X, y, bounds = data()
    params = {"feature_bound": bounds, "epsilon": 3.0}
    named = fitted(X, y, solver="gradient-descent", n_iter=7, **params)
    given = fitted(X, y, solver=GradientDescent(), n_iter=7, **params)
    assert_array_equal(named.coef_, given.coef_)
    assert named.n_iter_ == 7
    clipped = fitted(X, y, solver=GradientDescent(clip=0.1), n_iter=7, **params)
    assert not np.array_equal(named.coef_, clipped.coef_)
    for name, solver in [
        ("coordinate-descent", CoordinateDescent()),
        ("greedy-coordinate-descent", GreedyCoordinateDescent()),
        ("sgd", SGD()),
    ]:
        named, given = fitted(X, y, solver=name, **params), fitted(X, y, solver=solver, **params)
        assert_array_equal(named.coef_, given.coef_)
        assert named.privacy_.event == given.privacy_.event
    assert fitted(X, y, n_iter=3, **params).n_iter_ == 3


# --- with noise


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("bound", ["columns", None])
def test_accuracy(n_classes, bound):
    # Five points are several times what the noise costs at this seed and its neighbours.
    X, y, bounds = data(n_classes, n=20000)
    params = {"C": 1.0, "penalty": "l2", "l1_ratio": 0.5, "fit_intercept": True}
    best = reference(X, y, **params).score(X, y)
    bound = bounds if bound == "columns" else bound
    assert fitted(X, y, feature_bound=bound).score(X, y) > best - 0.05
    guess = max(np.bincount(y)) / len(y)
    assert fitted(X, y, feature_bound=bound, epsilon=1e-4).score(X, y) < 0.5 * (best + guess)


@pytest.mark.parametrize("absent", ["a", "bb", "z"])
def test_declared_class_that_does_not_occur(absent):
    X, y, bounds = data()
    y = np.array(["b", "y"])[y]
    model = fitted(X, y, feature_bound=bounds, classes=[absent, "b", "y"], epsilon=5.0)
    assert list(model.classes_) == sorted([absent, "b", "y"])
    assert model.coef_.shape == (3, 4)
    p = model.predict_proba(X)
    assert_allclose(p.sum(axis=1), 1.0)
    assert p[:, list(model.classes_).index(absent)].mean() < 1 / 3


@pytest.mark.parametrize("names", [["no", "yes"], [-1, 1], [False, True], [7, 300]])
def test_two_classes(names):
    X, y, bounds = data()
    model = fitted(X, np.array(names)[y], feature_bound=bounds, classes=names[::-1], epsilon=5.0)
    assert list(model.classes_) == names
    assert_array_equal(model.coef_, fitted(X, y, feature_bound=bounds, epsilon=5.0).coef_)
    assert model.coef_[0, 0] > 0.0 > model.coef_[0, 1]  # the sign is that of the second class
    assert model.decision_function(X).shape == (len(y),)
    assert model.score(X, np.array(names)[y]) > 0.7


# --- searches


def test_grid_search():
    X, y, bounds = data(n=6000)
    model = PrivateLogisticRegression(feature_bound=bounds, epsilon=5.0, random_state=0)
    grid = {"C": [1e-9, 1.0], "penalty": ["l1", "l2"]}
    search = GridSearchCV(model, grid, cv=3, scoring="neg_log_loss", error_score="raise").fit(X, y)
    assert search.best_params_["C"] == 1.0


def test_private_grid_search():
    X, y, bounds = data(n_classes=3, n=6000)
    model = PrivateLogisticRegression(feature_bound=bounds)
    grid = {"C": [1e-9, 1.0], "penalty": ["l1", "l2"]}
    search = PrivateGridSearchCV(model, grid, epsilon=20.0, random_state=0).fit(X, y)
    assert search.best_params_["C"] == 1.0
    assert epsilon_of(search.privacy_.event, 1e-6) <= 20.0
    assert search.score(X, y) > 0.6
