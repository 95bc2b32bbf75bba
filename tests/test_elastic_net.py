"""Elastic net and ridge: scikit-learn's solutions, units, private bounds, budgets, searches."""

import math

import numpy as np
import pytest
from cases import each
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import ElasticNet, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdpsco import PrivateElasticNet, PrivateGridSearchCV, PrivateRidge
from skdpsco.preprocessing import PublicBoundsScaler
from skdpsco.privacy import NoOpEvent, epsilon_of, rho_of
from skdpsco.scaling.feature_bounds import FEATURE_BOUNDS, plan_bounds
from skdpsco.solvers import SGD, CoordinateDescent, GradientDescent

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

EXACT = 1e11  # epsilon without noise to speak of
BOTH = pytest.mark.parametrize("Estimator", [PrivateElasticNet, PrivateRidge])
SAMPLING = SGD(accountant="rdp")  # which plans at once
BY_DESCENT = ["coordinate-descent", "greedy-coordinate-descent", "gradient-descent", SAMPLING]


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


# --- without noise


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


@pytest.mark.parametrize("solver", BY_DESCENT)
def test_every_solver_solves_ridge(solver):
    X, y, bounds = data()
    model = fitted(PrivateRidge, X, y, feature_bound=bounds, solver=solver, epsilon=1e7)
    reference = Ridge().fit(X, y)
    assert model.score(X, y) > reference.score(X, y) - 0.01
    private = fitted(PrivateRidge, X, y, feature_bound=bounds, solver=solver, epsilon=20.0)
    assert private.score(X, y) > 0.5 * reference.score(X, y)


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


def test_a_heavy_penalty_leaves_the_mean():
    X, y, bounds = data()
    for Estimator in (PrivateElasticNet, PrivateRidge):
        model = fitted(Estimator, X, y, alpha=1e9, feature_bound=bounds, epsilon=EXACT)
        assert_allclose(model.coef_, 0.0, atol=1e-3)
        assert model.intercept_ == pytest.approx(y.mean(), rel=1e-4)


# --- with noise


@BOTH
def test_accuracy(Estimator):
    # A loss of R^2 of 0.05 is several times what the noise costs at this seed and its neighbours.
    X, y, bounds = data(n=20000)
    params = {"alpha": 1e-3} if Estimator is PrivateElasticNet else {}
    best = Ridge().fit(X, y).score(X, y)
    for bound in (bounds, None):
        model = fitted(Estimator, X, y, feature_bound=bound, **params)
        assert model.score(X, y) > best - 0.05
    worse = fitted(Estimator, X, y, feature_bound=bounds, epsilon=0.01, **params)
    assert worse.score(X, y) < best - 0.05


@pytest.mark.parametrize("s", [4.0, 2.0**-20])
def test_units_of_the_features(s):
    X, y, bounds = data()
    model = fitted(PrivateRidge, X, y, alpha=2.0, feature_bound=bounds)
    scaled = fitted(PrivateRidge, s * X, y, alpha=2.0 * s * s, feature_bound=s * bounds)
    assert_allclose(s * scaled.coef_, model.coef_, rtol=1e-6)
    params = {"alpha": 0.1, "l1_ratio": 1.0}
    model = fitted(PrivateElasticNet, X, y, feature_bound=bounds, **params)
    params["alpha"] *= s
    scaled = fitted(PrivateElasticNet, s * X, y, feature_bound=s * bounds, **params)
    assert_allclose(s * scaled.coef_, model.coef_, rtol=1e-6)


@pytest.mark.parametrize("s", [8.0, 2.0**-20])
def test_units_of_the_target(s):
    X, y, bounds = data()
    model = fitted(PrivateRidge, X, y, feature_bound=bounds)
    scaled = fitted(PrivateRidge, X, s * y, feature_bound=bounds, target_bound=60.0 * s)
    assert_allclose(scaled.coef_, s * model.coef_, rtol=1e-6)
    assert_allclose(scaled.intercept_, s * model.intercept_, rtol=1e-6)


@BOTH
def test_targets_are_clipped(Estimator):
    X, y, bounds = data()
    y[::5] *= 1e300
    model = fitted(Estimator, X, y, feature_bound=bounds)
    other = fitted(Estimator, X, np.clip(y, -60.0, 60.0), feature_bound=bounds)
    assert_array_equal(model.coef_, other.coef_)


# --- bounds that are found


def wide_data(n):
    rng = np.random.default_rng(0)
    columns = [
        rng.uniform(-1, 1, n),
        1000.0 * rng.normal(size=n),
        rng.integers(0, 2, n),
        1e-4 * rng.random(n),
        np.zeros(n),
    ]
    return np.column_stack(columns), columns[0] + columns[1] / 1000.0


def test_bounds_that_are_found():
    X, y = wide_data(20000)
    model = fitted(PrivateRidge, X, y, feature_bound=None, target_bound=8.0)
    ratio = model.feature_bound_[:4] / np.sqrt((X[:, :4] ** 2).mean(axis=0))
    assert 1.0 < ratio.min()
    assert ratio.max() < 64.0
    assert np.isfinite(model.feature_bound_).all()  # also that of a column of zeros
    assert model.score(X, y) > 0.8
    given = fitted(PrivateRidge, X, y, feature_bound=model.feature_bound_, target_bound=8.0)
    assert given.score(X, y) > 0.8
    assert "features are clipped to +-[" in str(model.privacy_)


def test_bounds_without_noise_cover_all_but_single_entries():
    X, y = wide_data(500)
    X[3, 1], X[4, 3] = 2.0**20, 2.0**-5
    params = {"feature_bound": None, "epsilon": EXACT}
    model = fitted(PrivateRidge, X, y, **params)
    assert ((np.abs(X) > model.feature_bound_).sum(axis=0) <= 1).all()
    X[5] = 1e300
    assert fitted(PrivateRidge, X, y, **params).feature_bound_.max() <= 2.0**31


@pytest.mark.parametrize(("n", "releases"), [(150, 0), (1500, 4)])
def test_few_records(n, releases):
    """Without a release bounds are 1; otherwise they are about the size of the entries."""
    assert len(plan_bounds(n, 2, 0.0174).grids) == releases
    X, y = data(n)[:2]
    model = fitted(PrivateRidge, 2.0**-7 * X[:, [0, 4]], y, feature_bound=None)
    if releases == 0:
        assert_array_equal(model.feature_bound_, 1.0)
    else:
        assert np.abs(np.log2(model.feature_bound_) + 6.5).max() < 1.5


@each(("n", "d"), [(100, 3), (1200, 3), (10**5, 3), (10**5, 1), (5000, 10**4)])
@each("rho", [1e-6, 0.0244, 1e3, 1e10])
def test_plan_of_bounds(n, d, rho):
    plan, n_mu = plan_bounds(n, d, rho), n * math.sqrt(2.0 * rho)
    if n_mu < FEATURE_BOUNDS.least_n_mu:
        assert isinstance(plan.event, NoOpEvent)
        assert not plan.grids
        return
    plenty = plan.n_read / n * n_mu / math.sqrt(d) / FEATURE_BOUNDS.level_ratio
    share = FEATURE_BOUNDS.level_share * min(1.0, 1.0 / plenty)
    assert rho_of(plan.event) == pytest.approx(share * rho)


# --- searches


@BOTH
def test_grid_search(Estimator):
    X, y, bounds = data(n=6000)
    X = PublicBoundsScaler(-bounds, bounds).fit_transform(X)
    grid = {"alpha": [1e-3, 1e7]}
    search = GridSearchCV(fitted(Estimator, X, y, epsilon=5.0), grid, cv=3, error_score="raise")
    assert search.fit(X, y).best_params_ == {"alpha": 1e-3}


def test_private_grid_search():
    X, y, bounds = data(n=6000)
    last = PrivateElasticNet(target_bound=60.0, solver=GradientDescent(clip=2.0))
    model = make_pipeline(PublicBoundsScaler(-bounds, bounds), last)
    names = ["privateelasticnet__alpha", "privateelasticnet__feature_bound"]
    grid = dict(zip(names, ([1e-2, 1e7], [1.0, None]), strict=True))
    search = PrivateGridSearchCV(model, grid, epsilon=20.0, random_state=0).fit(X, y)
    assert search.best_params_[names[0]] == 1e-2
    assert epsilon_of(search.privacy_.event, 1e-6) <= 20.0
