"""Descent on the largest loss of several losses or targets, without a ball."""

import numpy as np
import pytest
from scipy.optimize import minimize

from skdpsco import PrivateMinimaxClassifier, PrivateMinimaxRegressor, UtilityWarning
from skdpsco.data.design import as_design
from skdpsco.losses.kernels import derivatives, values
from skdpsco.losses.library import (
    Absolute,
    Huber,
    Logistic,
    Mixture,
    Quantile,
    SmoothHinge,
    SmoothQuantile,
    Squared,
    derivative,
    for_kernels,
    unweighted,
    value,
)
from skdpsco.minimax._descent import task_losses
from skdpsco.solvers.penalized.smooth_losses import smoothed

PARTS = (Squared(1.0), Huber(0.3), SmoothQuantile(0.3, 0.2))


def test_a_mixture_is_the_weighted_sum_of_its_parts():
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(200, 1)), rng.uniform(-1.0, 1.0, (200, 2))
    mixture = Mixture(PARTS, (1.0, 0.5, 2.0), ((0.1, 0.2), (0.3, 0.1), (0.1, 0.2)))
    level, slope = np.empty(200), np.empty((200, 1))
    values(for_kernels(mixture), Z, y, level)
    derivatives(for_kernels(mixture), Z, y, slope)
    for found, of_one in ((level, value), (slope[:, 0], derivative)):
        expected = [
            sum(
                factor * weight * of_one(part, z, target)
                for part, factor, row in zip(*mixture, strict=True)
                for weight, target in zip(row, targets, strict=True)
            )
            for z, targets in zip(Z[:, 0], y, strict=True)
        ]
        assert found == pytest.approx(np.array(expected), abs=1e-12)
    assert np.abs(slope).max() <= mixture.lipschitz()
    between = np.diff(slope[np.argsort(Z[:, 0]), 0]) / np.diff(np.sort(Z[:, 0]))
    assert mixture.smoothness() == 5.0
    assert np.isfinite(between).all()


def test_a_mixture_of_quantiles_is_like_one_of_the_mean_level():
    parts = (SmoothQuantile(0.2, 0.1), SmoothQuantile(0.8, 0.1))
    assert unweighted(Mixture(parts, (1.0, 1.0), ((0.75,), (0.25,)))) == pytest.approx((0.35, 0.1))
    hubers = Mixture((Huber(0.3), Huber(50.0)), (1.0, 1.0), ((0.5,), (0.5,)))
    assert unweighted(hubers) == Huber(50.0)
    mixed = Mixture((Squared(1.0), *parts), (1.0,) * 3, ((0.2,), (0.4,), (0.4,)))
    assert unweighted(mixed) is mixed


def test_a_smooth_loss_is_close_to_the_given_one():
    residuals = np.linspace(-1.0, 1.0, 201)
    for loss in (Absolute(), Quantile(0.2), Huber(0.1)):
        smooth, factor = smoothed(loss, 1e6, 10, 100)
        off = [factor * value(smooth, r, 0.0) - value(loss, r, 0.0) for r in residuals]
        assert np.ptp(off) < 0.01
    assert smoothed(Squared(1.0), 1e6, 10, 100) == (Squared(1.0), 1.0)


@pytest.mark.parametrize("losses", [(Squared(1.0), Absolute()), (Logistic(), SmoothHinge())])
def test_losses_of_a_record_are_between_0_and_1(losses):
    """So a replaced record moves each sum by at most 1, whatever the coefficients."""
    rng = np.random.default_rng(0)
    X = as_design(rng.uniform(-1.0, 1.0, (1, 3)), np.ones(3), True)
    y = np.array([[-1.0, 1.0]])
    for w in (np.zeros(4), np.array([1.0, -2.0, 0.5, 0.1]), np.full(4, 1e308), np.full(4, np.nan)):
        for bound in (1e-100, 0.3, 1e300):
            sums = task_losses(X, y, losses, w, bound)
            assert sums.shape == (4,)
            assert (sums >= 0.0).all()
            assert (sums <= 1.0).all()


def largest(predicted, Y):
    return np.mean((predicted[:, None] - Y) ** 2, axis=0).max()


def instruments(n, conflict, seed=0):
    """Three targets, one of which is shifted, or differs in what it depends on."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (n, 6))
    w, other = rng.normal(size=(2, 6))
    z = (X - 0.5) @ w
    third = (X - 0.5) @ other if conflict else z + 0.4
    noise = 0.1 * rng.normal(size=(n, 3))
    return X, 100.0 + 20.0 * (np.column_stack([z, z, third]) + noise)


@pytest.mark.parametrize("conflict", [False, True])
def test_without_noise_it_is_the_minimax_optimum(conflict):
    X, Y = instruments(4000, conflict)
    model = PrivateMinimaxRegressor(tasks="columns", epsilon=1e6).fit(X, Y)
    A = np.column_stack([X, np.ones(len(X))])
    of_columns = np.linalg.lstsq(A, Y, rcond=None)[0]

    def worst(logs):  # the optimum for weights of the tasks is linear in them
        weights = np.exp(logs - logs.max())
        return largest(A @ (of_columns @ (weights / weights.sum())), Y)

    best = minimize(worst, np.zeros(3), method="Nelder-Mead").fun
    assert largest(model.predict(X), Y) < 1.03 * best
    assert model.task_weights_.shape == (1, 3)
    assert model.task_weights_.sum() == pytest.approx(1.0)
    assert model.task_weights_[0, 2] > 0.4


@pytest.mark.parametrize("losses", ["absolute", [Huber(0.01), Huber(0.01)]])
def test_one_feature_without_an_intercept(losses):
    """Steps of the length that curvatures of a typical loss do not allow ended at 0, or failed."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (2000, 1))
    y = X[:, 0] + 0.3 * rng.normal(size=2000)
    for n_iter in ("auto", 1000):
        model = PrivateMinimaxRegressor(
            losses=losses, fit_intercept=False, epsilon=4.0, n_iter=n_iter
        ).fit(X, y)
        assert model.coef_ == pytest.approx([1.0], abs=0.3)


def test_the_order_of_losses_does_not_matter():
    """The first one decided on the length of steps, which then failed or diverged."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (2000, 5))
    y = (X[:, 0] - X[:, 1] > 0.2 * rng.normal(size=2000)).astype(int)
    losses = [SmoothHinge(1e300), SmoothHinge(0.1)]
    for order in (losses, losses[::-1]):
        model = PrivateMinimaxClassifier(tasks=None, classes=[0, 1], losses=order, epsilon=4.0)
        assert model.fit(X, y).score(X, y) > 0.85
    y = X[:, 0] - X[:, 1] + 0.2 * rng.normal(size=2000)
    losses = [Squared(1e-3), Squared(1.0)]
    for order in (losses, losses[::-1]):
        model = PrivateMinimaxRegressor(losses=order, epsilon=4.0).fit(X, y)
        assert model.score(X, y) > 0.6


@pytest.mark.filterwarnings(f"ignore::{UtilityWarning.__module__}.{UtilityWarning.__name__}")
def test_one_pass_changes_no_weights():
    X, Y = instruments(500, False)
    model = PrivateMinimaxRegressor(tasks="columns", n_iter=1).fit(X, Y)
    assert model.task_weights_ == pytest.approx(np.full((1, 3), 1.0 / 3.0))
