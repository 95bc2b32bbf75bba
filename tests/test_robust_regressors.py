"""Huber and quantile regression: their optima, their shrinkage, and what noise leaves of them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import HuberRegressor, QuantileRegressor

from skdpsco import PrivateHuberRegressor, PrivateQuantileRegressor
from skdpsco.losses import Huber, Logistic, Quantile, SmoothQuantile, value
from skdpsco.penalties import L2
from skdpsco.solvers import CompositeProblem, GradientDescent

ALMOST_NONE = 1e6  # epsilon without noise


def planted(n, seed=0, heavy=True, offset=3.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 3)) * [1.0, 0.5, 2.0]
    noise = rng.standard_t(2.0, n) if heavy else rng.normal(size=n)
    return X, X @ [1.0, -1.0, 0.5] + 0.3 * noise + offset


# ---- losses


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8])
def test_a_smooth_quantile_is_a_mean_of_quantiles(level):
    loss, width = Quantile(level), 0.3
    smooth = SmoothQuantile(level, width)
    moves = np.linspace(-width, width, 4001)
    for z in (-1.0, -0.29, 0.0, 0.1, 0.3, 2.0):
        mean = np.mean([value(loss, z + move, 0.0) for move in moves])
        assert value(smooth, z, 0.0) == pytest.approx(mean, abs=1e-4)
        assert -1e-12 <= value(smooth, z, 0.0) - value(loss, z, 0.0) <= width / 4 + 1e-12
    assert smooth.lipschitz() == loss.lipschitz()


# ---- shrinkage


def test_shrinkage_is_a_switch():
    with pytest.raises(TypeError, match="shrunk must be a bool"):
        GradientDescent(shrunk=1)
    numbers, labels = (
        CompositeProblem(loss, None, 1000, 3, 0, penalty=L2(1.0), unit=(1.0,) * 3)
        for loss in (Huber(), Logistic())
    )
    begun = replace(labels, start=(0.0,) * 3)
    for shrunk, expected in (
        ("auto", (True, False, True)),
        (False, (False,) * 3),
        ("each", (1,) * 3),
    ):
        solver = GradientDescent(shrunk=shrunk)
        assert tuple(map(solver.shrinks, (numbers, labels, begun))) == expected
    assert GradientDescent().shrunk == "auto"
    own = GradientDescent()
    assert PrivateHuberRegressor(solver=own)._resolved_solver(Huber(), 1000, 3, 0.1) is own


# ---- optima


@pytest.mark.parametrize(("quantile", "alpha"), [(0.5, 0.0), (0.5, 0.05), (0.85, 0.0), (0.2, 0.02)])
def test_without_noise_quantiles_are_those_of_scikit_learn(quantile, alpha):
    X, y = planted(1500)
    expected = QuantileRegressor(quantile=quantile, alpha=alpha).fit(X, y)
    model = PrivateQuantileRegressor(
        epsilon=ALMOST_NONE, quantile=quantile, alpha=alpha, feature_bound=2.0, target_bound=20.0
    ).fit(X, y)
    assert_allclose(model.coef_, expected.coef_, atol=0.05)
    assert_allclose(model.intercept_, expected.intercept_, atol=0.05)


@pytest.mark.parametrize("alpha", [0.0, 100.0])
def test_without_noise_the_huber_loss_is_that_of_scikit_learn(alpha):
    X, y = planted(1500)
    expected = HuberRegressor(alpha=alpha, max_iter=1000, tol=1e-8).fit(X, y)
    model = PrivateHuberRegressor(
        epsilon=ALMOST_NONE,
        threshold=expected.epsilon * expected.scale_,
        alpha=alpha * expected.scale_,
        feature_bound=2.0,
        target_bound=100.0,
    ).fit(X, y)
    assert_allclose(model.coef_, expected.coef_, atol=0.01)
    assert_allclose(model.intercept_, expected.intercept_, atol=0.01)


# ---- input


def test_the_score_of_a_quantile_names_the_one_that_suits_it():
    assert "d2_pinball_score" in PrivateQuantileRegressor.score.__doc__.splitlines()[0]
