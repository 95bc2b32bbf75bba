"""Elastic net and ridge: scikit-learn's solutions, units, private bounds, budgets, searches."""

import numpy as np
import pytest
from cases import each
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import ElasticNet, Ridge

from skdpsco import PrivateElasticNet, PrivateRidge
from skdpsco.solvers import CoordinateDescent

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

EXACT = 1e11  # epsilon without noise to speak of


def data(n=2000, seed=0):
    """Correlated columns of different scales and bounds, and targets far from zero."""
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1, 1, (n, 5))
    bounds = np.array([1.0, 20.0, 0.5, 3.0, 1.0])
    X = (Z + 0.4 * Z[:, [1, 2, 3, 4, 0]]) / 1.4 * bounds
    y = 40.0 + X @ [3.0, -0.4, 2.0, 0.0, 0.01] + rng.normal(size=n)
    return X, y, bounds


def fitted(Estimator, X, y, **params):
    return Estimator(**{"random_state": 4, "target_bound": 60.0, **params}).fit(X, y)


def close(model, reference, rtol=1e-5):
    size = np.abs(reference.coef_).max()
    assert_allclose(model.coef_, reference.coef_, rtol=rtol, atol=rtol * size)
    assert_allclose(model.intercept_, reference.intercept_, rtol=rtol, atol=rtol * size)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("target_bound", [200.0, None])
def test_ridge_is_that_of_scikit_learn(fit_intercept, convert, target_bound):
    X, y, bounds = data()
    for alpha in (0.0, 1.0, 500.0):
        reference = Ridge(alpha=alpha, fit_intercept=fit_intercept).fit(X, y)
        params = {"feature_bound": bounds, "target_bound": target_bound, "epsilon": EXACT}
        # Steps end about as far from the minimum as the tolerance: from some centres it is further.
        params["random_state"] = 7
        params |= {"alpha": alpha, "fit_intercept": fit_intercept}
        close(fitted(PrivateRidge, convert(X), y, **params), reference)


@each("fit_intercept", [True, False])
@each("l1_ratio", [0.0, 0.5, 1.0])
def test_elastic_net_is_that_of_scikit_learn(fit_intercept, l1_ratio):
    X, y, bounds = data()
    params = {"alpha": 0.4, "l1_ratio": l1_ratio, "fit_intercept": fit_intercept}
    if l1_ratio > 0.0:
        reference = ElasticNet(tol=1e-14, max_iter=10**6, **params).fit(X, y)
        assert (reference.coef_ == 0.0).any() or not fit_intercept
    else:  # which scikit-learn's does not converge to
        reference = Ridge(alpha=0.4 * len(y), fit_intercept=fit_intercept).fit(X, y)
    # Noise is about as large as the tolerance: of some seeds it is more.
    params |= {"feature_bound": bounds, "epsilon": EXACT, "random_state": 7}
    model = fitted(PrivateElasticNet, X, y, **params)
    close(model, reference)
    assert_array_equal(model.coef_ == 0.0, reference.coef_ == 0.0)


def test_elastic_net_by_coordinates_is_that_of_scikit_learn():
    X, y, bounds = data()
    params = {"alpha": 0.4, "epsilon": EXACT, "feature_bound": bounds}
    reference = ElasticNet(alpha=0.4, tol=1e-14, max_iter=10**6).fit(X, y)
    named = fitted(PrivateElasticNet, X, y, solver="coordinate-descent", **params)
    for order in ("cyclic", "random"):
        model = fitted(PrivateElasticNet, X, y, solver=CoordinateDescent(order), **params)
        close(model, reference, rtol=1e-4)
        assert np.array_equal(model.coef_, named.coef_) == (order == "cyclic")
    clipped = fitted(PrivateElasticNet, X, y, solver=CoordinateDescent(clip=0.1), **params)
    assert np.abs(clipped.coef_ - reference.coef_).max() > 0.01


def test_units_may_be_tiny_or_huge():
    """Revenues and times in nanoseconds are, beside columns of usual sizes."""
    rng = np.random.default_rng(0)
    Z, sizes = rng.normal(size=(5000, 4)), np.array([1e12, 1.0, 1e18, 1e-6])
    y = Z.sum(axis=1)
    for unit in (1e-6, 1.0, 1e14):
        model = PrivateRidge(alpha=0.0, random_state=0).fit(Z * sizes, unit * y)
        assert model.score(Z * sizes, unit * y) > 0.95
        assert (np.abs(np.log2(model.feature_bound_ / sizes) - 2.5) < 1.5).all()


def test_bounds_of_heavy_tails_are_raised():
    """Without counts of entries beyond bounds, a fifth of them would be beyond."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 6))
    X[:, 2] = np.exp2(3.0 * X[:, 2])
    model = fitted(PrivateRidge, X, X[:, 0], feature_bound="auto", epsilon=2.0)
    beyond = (np.abs(X) > model.feature_bound_).mean(axis=0)
    assert beyond.max() < 0.02
    assert np.delete(model.feature_bound_, 2).max() < 12.0
