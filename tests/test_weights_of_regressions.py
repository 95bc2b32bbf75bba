"""Weights of records in regressions: sensitivity by brute force, fits, bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import (
    ElasticNet,
    LinearRegression,
    QuantileRegressor,
    Ridge,
)

from skdpsco import (
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegressor,
    PrivateMoments,
    PrivateMonotoneGLM,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
)
from skdpsco.data import RowBlocks
from skdpsco.losses import Absolute, Squared, derivatives, values
from skdpsco.losses.library import SmoothQuantile, Weighted, with_weights, without_weights
from skdpsco.scaling.column_scales import tallied_targets

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
LOSSES = (Squared(0.5), Absolute(), SmoothQuantile(0.8, 0.1))
MODELS = (
    PrivateRidge,
    PrivateElasticNet,
    PrivateLasso,
    PrivateHuberRegressor,
    PrivateQuantileRegressor,
    PrivateLinearRegressor,
    PrivatePoissonRegressor,
    PrivateGammaRegressor,
)
EACH_MODEL = pytest.mark.parametrize("Model", MODELS)
N = 1500
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (N, 3))
V = rng.uniform(0.0, 2.0, N)
# Heavy records have another slope and another mean, so that weights matter.
Y = np.clip(0.4 * X[:, 0] - 0.2 * X[:, 2] + (V > 1) * (0.2 * X[:, 1] + 0.1), -1, 1)
KNOWN = np.minimum(V, 1.5)


# --- targets, kernels and sensitivity


def test_a_target_and_its_weight_are_in_one_number():
    targets = np.array([-1.0, 1.0, 0.0, 2.0**-26, 0.1, -1.0, 1.0])
    weights = np.array([0.0, 1.0, 0.5, 1.0, 1.0 / 3.0, 1.0, 2.0**-24])
    both = with_weights(targets, weights)
    assert_allclose(without_weights(both), targets, atol=2.0**-27, rtol=0.0)
    assert np.abs(without_weights(both)).max() == 1.0
    found = np.zeros(len(both))
    values(Weighted(Squared()), targets[:, None] + 1.0, both, found)
    assert_allclose(found, weights / 2.0, atol=2.0**-25, rtol=0.0)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_derivatives_are_those_of_the_loss_times_the_weight(loss):
    n = 300
    targets = rng.integers(-(2**20), 2**20 + 1, n) / 2.0**20
    weights = rng.integers(0, 2**24 + 1, n) / 2.0**24
    Z = rng.normal(0.0, 2.0, (n, 1))
    expected, found = np.zeros((2, n, 1))
    derivatives(loss, Z, targets, expected)
    derivatives(Weighted(loss), Z, with_weights(targets, weights), found)
    assert_allclose(found, expected * weights[:, None], rtol=1e-12, atol=1e-14)


def test_weights_do_not_change_what_is_measured_of_targets():
    both = with_weights(Y, KNOWN / 1.5)
    for found, plain in zip(
        tallied_targets(None, both, 1.0, True), tallied_targets(None, Y, 1.0, False), strict=True
    ):
        assert_allclose(found, plain, rtol=1e-6)


# --- fits


def solved(Model, weights=V, largest=1.5, X=X, Y=Y, **params):
    model = Model(epsilon=1e6, target_bound=1.0, max_weight=largest, **params)
    return model.fit(X, Y, sample_weight=weights)


MEAN = KNOWN.mean()
OPTIMA = [
    (PrivateRidge, {"alpha": 50.0}, Ridge(alpha=50.0)),
    # scikit-learn divides the next two by the sum of the weights, which is private.
    (PrivateElasticNet, {"alpha": 0.02}, ElasticNet(alpha=0.02 / MEAN)),
    (PrivateQuantileRegressor, {"alpha": 0.01}, QuantileRegressor(alpha=0.01 / MEAN)),
    (PrivateHuberRegressor, {"alpha": 50.0, "threshold": 2.0}, Ridge(alpha=50.0)),
    (PrivateLasso, {}, LinearRegression()),
    (PrivateLinearRegressor, {"radius": 1.0}, LinearRegression()),
]


@pytest.mark.parametrize(("Model", "params", "reference"), OPTIMA, ids=str)
def test_without_noise_the_optimum_is_that_of_scikit_learn(Model, params, reference):
    reference.fit(X, Y, sample_weight=KNOWN)
    model = solved(Model, **params)
    assert_allclose(model.coef_, reference.coef_, atol=0.02)
    assert_allclose(model.intercept_, reference.intercept_, atol=0.02)
    unweighted = type(reference)(**reference.get_params()).fit(X, Y)
    assert abs(unweighted.coef_[1] - reference.coef_[1]) > 0.03  # so that weights matter
    assert "weights of records are clipped to 1.5" in model.privacy_.assumptions


def test_whole_weights_are_those_of_repeated_records():
    times = 1 + (V > 1) * 2
    weighted = solved(PrivateRidge, times, 3.0, alpha=10.0)
    repeated = PrivateRidge(epsilon=1e6, target_bound=1.0, alpha=10.0)
    repeated.fit(np.repeat(X, times, axis=0), np.repeat(Y, times))
    assert_allclose(weighted.coef_, repeated.coef_, atol=0.01)
    assert_allclose(weighted.intercept_, repeated.intercept_, atol=0.01)


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
@EACH_MODEL
def test_weights_beyond_the_bound_are_clipped(Model):
    def fitted(weights):
        model = Model(epsilon=3.0, max_weight=1.0, random_state=0)
        return model.fit(X, np.exp(Y), sample_weight=weights)

    beyond = fitted(np.where(V > 1, 1e9, 0.5))
    assert_array_equal(beyond.coef_, fitted(np.where(V > 1, 1.0, 0.5)).coef_)
    assert not np.array_equal(beyond.coef_, fitted(np.ones(N)).coef_)
    plain = Model(epsilon=3.0).fit(X, np.exp(Y))
    assert beyond.privacy_.epsilon == plain.privacy_.epsilon


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
def test_a_fit_may_begin_at_a_public_model_and_have_weights():
    public = LinearRegression().fit(X, Y)
    model = PrivateRidge(epsilon=1e6, target_bound=1.0, max_weight=1.5, alpha=0.0)
    model.fit(X, Y, sample_weight=V, init=public)
    expected = LinearRegression().fit(X, Y, sample_weight=KNOWN)
    assert_allclose(model.coef_, expected.coef_, atol=0.02)


# --- bad input, before anything is charged


def test_what_does_not_take_weights():
    weights = {"sample_weight": np.ones(N)}
    model = PrivateRidge(max_weight=1.0)
    with pytest.raises(ValueError, match="must be None where X is in blocks"):
        model.fit(RowBlocks.from_arrays(X, Y), **weights)
    with pytest.raises(ValueError, match="must be None where X holds moments"):
        model.fit(PrivateMoments().fit(X, Y), **weights)
    with pytest.raises(ValueError, match="sample_weight is not supported"):
        PrivateMonotoneGLM().fit(X, Y > 0, **weights)

    class Own(Squared):
        pass

    with pytest.raises(ValueError, match="for losses of this package"):
        PrivateLinearRegressor(loss=Own(1.0), max_weight=1.0).fit(X, Y, **weights)
