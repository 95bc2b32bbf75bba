"""Poisson and gamma regression: their losses, their optima, and what noise leaves of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import GammaRegressor, PoissonRegressor

from skdpsco import Ledger, PrivateGammaRegressor, PrivatePoissonRegressor, RowBlocks
from skdpsco.inspection import plan
from skdpsco.losses import curvature, derivative, is_proven, value
from skdpsco.losses.log_link import LEAST_MEAN, GammaDeviance, PoissonDeviance, highest

MODELS = {PrivatePoissonRegressor: PoissonRegressor, PrivateGammaRegressor: GammaRegressor}
each_model = pytest.mark.parametrize("Model", MODELS)
LOSSES = [
    law(*fields)
    for law in (PoissonDeviance, GammaDeviance)
    for fields in ((0.4, 0.48), (-0.2, 0.15), (0.0, 3.0), (20.0, 20.1), (0.3, 1e-3))
]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
ALMOST_NONE = 1e6  # epsilon without noise


def planted(Model, n, seed=0, d=3, factor=1.0, size=3.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d))
    mean = size * np.exp(factor * (X[:, :3] @ [0.8, -0.6, 0.4]))
    y = rng.poisson(mean) if Model is PrivatePoissonRegressor else mean * rng.gamma(3.0, 1 / 3, n)
    return X, y.astype(float)


# ---- losses


@each_loss
def test_losses_are_convex_and_have_the_slopes_they_say(loss):
    assert is_proven(loss)
    grid, h = np.linspace(-12.0, 12.0, 481), 1e-6
    for t in (-1.0, -0.3, 0.0, 0.2, 1.0):
        values = np.array([value(loss, z, t) for z in grid])
        slopes = np.array([derivative(loss, z, t) for z in grid])
        assert (values >= 0.0).all()
        assert (np.diff(slopes) >= 0.0).all()
        for z, slope in zip(grid, slopes, strict=True):
            quotient = (value(loss, z + h, t) - value(loss, z - h, t)) / (2.0 * h)
            assert quotient == pytest.approx(slope, abs=1e-5 * highest(loss))
            bend = (derivative(loss, z + h, t) - derivative(loss, z - h, t)) / (2.0 * h)
            assert bend <= curvature(loss, z, t) * (1.0 + 1e-5) + 1e-5
            assert 0.0 <= curvature(loss, z, t) <= loss.smoothness()
    steepest = max(curvature(loss, z, 1.0) for z in np.linspace(-30.0, 30.0, 60001))
    assert steepest == pytest.approx(loss.smoothness(), rel=1e-3)


# ---- optima


@each_model
@pytest.mark.parametrize(("alpha", "intercept"), [(0.0, True), (0.3, True), (0.1, False)])
def test_without_noise_models_are_those_of_scikit_learn(Model, alpha, intercept):
    X, y = planted(Model, 2000, size=3.0 if intercept else 1.0)
    params = {"alpha": alpha, "fit_intercept": intercept}
    expected = MODELS[Model](max_iter=1000, tol=1e-8, **params).fit(X, y)
    model = Model(epsilon=ALMOST_NONE, target_bound=100.0, **params).fit(X, y)
    assert_allclose(model.coef_, expected.coef_, atol=0.05)
    assert model.intercept_ == pytest.approx(expected.intercept_, abs=0.05)
    assert_allclose(model.predict(X), expected.predict(X), rtol=0.1)
    assert model.score(X, y) == pytest.approx(expected.score(X, y), abs=0.01)


@each_model
@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_weights_of_records_are_those_of_scikit_learn(Model, alpha):
    X, y = planted(Model, 2000)
    weights = np.random.default_rng(1).uniform(0.0, 2.0, 2000)
    y[weights > 1.0] *= 2.0
    expected = MODELS[Model](alpha=alpha, max_iter=1000, tol=1e-8).fit(X, y, weights)
    model = Model(epsilon=ALMOST_NONE, alpha=alpha, target_bound=100.0, max_weight=3.0)
    model.fit(X, y, sample_weight=weights / weights.mean())
    assert_allclose(model.coef_, expected.coef_, atol=0.05)
    assert model.intercept_ == pytest.approx(expected.intercept_, abs=0.05)
    assert any("clipped to 3" in line for line in str(model.privacy_).splitlines())
    assert plan(model, 3000, 5).coefficient_noise is None


@each_model
def test_predictions_stay_in_a_released_range(Model):
    X, y = planted(Model, 900)
    model = Model(epsilon=30.0, target_bound=50.0)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, y)
    low, high = model.target_range_
    assert 0.0 < low < high <= 100.0
    model.feature_range_ = np.array([[-1e9] * X.shape[1], [1e9] * X.shape[1]])
    found = model.predict(1e6 * X)
    assert set(found.round(9)) == set(model.target_range_.round(9))
    assert low * 0.9 < LEAST_MEAN * high
    assert not hasattr(model, "to_sklearn")


# ---- input


@each_model
def test_targets_outside_of_the_range_of_the_law_cost_nothing(Model):
    """As in scikit-learn: no negative counts, and only positive sizes."""
    X, y = planted(Model, 300)
    ledger = Ledger(9.0, 1e-5)
    y[7] = 0.0 if Model is PrivateGammaRegressor else -1e-9
    for records in ((X, y), (RowBlocks.from_arrays(X, y),)):
        with pytest.raises(ValueError, match=f"y must be >=? 0 for {Model.__name__}") as error:
            Model(ledger=ledger).fit(*records)
        assert "1e-09" not in str(error.value)
    assert ledger.charges() == []
    assert plan(Model(), 300, 4).rho > 0.0  # its own targets are legal


@each_model
@pytest.mark.filterwarnings("ignore:target_bound=")
@pytest.mark.parametrize("bound", [1e-100, 1e-3, 1e100])
@pytest.mark.parametrize("intercept", [True, False])
def test_extreme_bounds_and_targets(Model, bound, intercept):
    X, _ = planted(Model, 400)
    model = Model(epsilon=3.0, target_bound=bound, fit_intercept=intercept)
    for y in (np.full(400, 1e-300), np.full(400, bound), 1e300 * np.abs(X[:, 0])):
        model.fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        assert (model.predict(X) > 0.0).all()


@each_model
def test_no_coefficient_s_noise_is_claimed_and_scores_hide_targets(Model):
    assert plan(Model(), 3000, 5).coefficient_noise is None
    X, y = planted(Model, 400)
    with pytest.raises(ValueError, match="y must hold one target per record") as error:
        Model(epsilon=5.0).fit(X, y).score(X, y - 1e6)
    assert "1000" not in str(error.value)
