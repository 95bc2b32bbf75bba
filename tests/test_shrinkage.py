"""How far gradient steps have come, and how much of the result is kept."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skdpsco import PrivateHuberRegressor, PrivateLasso, PrivateMinimaxRegressor, PrivateRidge
from skdpsco.losses import Huber, Logistic, Multinomial
from skdpsco.scaling.target import Target
from skdpsco.solvers import Problem
from skdpsco.solvers.penalized.problem import unpenalised
from skdpsco.solvers.penalized.shrinkage import (
    SHRINKAGE,
    GradientSteps,
    best_factor,
    excess,
    own_factors,
    shrink_result,
    typical_curvature,
)


@pytest.mark.parametrize("penalty", [0.0, 0.5])
@pytest.mark.parametrize(("n_iter", "length"), [(1, 0.3), (4, 0.2), (50, 0.1), (50, 0.01)])
@pytest.mark.parametrize(("n_first", "first_noise"), [(0, 1.0), (2, 3.0)])
def test_gains_are_those_of_the_steps(n_iter, length, penalty, n_first, first_noise):
    rng = np.random.default_rng(0)
    n_averaged, most = max(1, round(0.25 * n_iter)), max(0.9, 1.0 - 5.0 / n_iter)
    truth = 3.0
    point = old = np.zeros(20_000)
    sums = np.zeros((2, len(point)))
    for t in range(n_iter):
        noise = first_noise if t < n_first else 1.0
        gradient = point - truth + noise * rng.normal(size=len(point))
        if t >= n_iter - n_averaged:
            sums += point, gradient
        new = (point - length * gradient) / (1.0 + length * penalty)
        point, old = new + min(most, (t + 1.0) / (t + 4.0)) * (new - old), new
    found = (sums[0] - length * sums[1]) / n_averaged / (1.0 + length * penalty)
    steps = GradientSteps(n_iter, n_averaged, length, most, penalty, n_first, first_noise)
    variance, reached = steps.gains()
    assert variance == pytest.approx(found.var(), rel=0.05)
    optimum = truth / (1.0 + penalty)
    assert reached == pytest.approx(found.mean() / optimum, abs=4.0 * (variance / 20_000) ** 0.5)


def test_the_factor_is_the_best_one():
    """For many noisy coordinates, of whose minimum the steps have reached a share."""
    rng = np.random.default_rng(0)
    truth, reached, noise = rng.normal(size=10_000), 0.4, rng.normal(size=10_000)
    for deviation in (0.6, 1.0):
        u = reached * truth + deviation * noise
        square = excess(u, deviation**2) / reached**2
        assert square == pytest.approx(truth @ truth, rel=0.3)
        factor = best_factor(square, 10_000 * deviation**2, reached)
        assert factor == pytest.approx(u @ truth / (u @ u), rel=0.3)
    assert best_factor(1.0, 0.01, reached) == 1.0  # never longer


def test_coordinates_that_stand_out_keep_their_length():
    rng = np.random.default_rng(0)
    truth = np.where(np.arange(200) < 5, 6.0, 0.0)
    x = 0.5 * truth + 0.5 * rng.normal(size=200)
    factors = own_factors(x, 0.25, float(truth @ truth), 0.5)
    assert (factors >= 0.0).all()
    assert (factors <= 1.0).all()
    assert (factors[:5] == 1.0).all()
    assert np.linalg.norm((factors * x)[5:]) < 0.3 * np.linalg.norm(x[5:])
    # One factor for all would keep most of the noise.
    assert best_factor(float(truth @ truth), 200 * 0.25, 0.5) > 0.5


@pytest.mark.parametrize("size", [3, 20, 2000])
def test_coordinates_that_are_alike_have_nearly_one_factor(size):
    rng = np.random.default_rng(0)
    truth, noise = rng.normal(size=size), rng.normal(size=size)
    x, square = truth + noise, float(truth @ truth)
    common = best_factor(square, float(size), 1.0)
    own = own_factors(x, 1.0, square, 1.0)
    error = np.square(own * x - truth).sum()
    assert error < 1.3 * np.square(common * x - truth).sum() + 0.5


def test_factors_exist_for_all_coordinates():
    for x in (np.zeros((1, 3)), np.ones((2, 0)), np.array([[1e-200, 1e200]])):
        for variance in (0.0, 1e-300, 1.0, 1e300):
            with np.errstate(all="raise", under="ignore"):
                factors = own_factors(x, variance, 1.0, 1e-100)
            assert factors.shape == x.shape
            assert ((factors >= 0.0) & (factors <= 1.0)).all()


def test_an_excess_is_beyond_noise():
    assert excess(np.zeros(3), 1.0) == 0.0
    assert excess(np.array([3.0, 0.0, 0.0]), 1.0) == 8.0  # what a penalty has made 0 has no noise
    assert excess(np.array([3.0, 4.0]), 1.0) == 23.0
    assert excess(np.array([3.0, 4.0]), 1.0, 2.0) == 19.0
    assert excess(np.array([3.0, 4.0]), 1.0, 20.0) == 0.0


def test_what_an_l1_penalty_takes_is_no_noise():
    """The product of coefficients after and before the penalty has the noise of each one left."""
    rng = np.random.default_rng(0)
    truth = np.where(rng.random(100_000) < 0.2, 2.0, 0.0)
    there = truth + rng.normal(size=len(truth))
    u = np.sign(there) * np.maximum(np.abs(there) - 1.0, 0.0)
    found = excess(u, 1.0, taken=float(u @ (there - u)))
    assert found == pytest.approx(u @ truth, rel=0.05)


def test_noise_costs_no_more_than_a_quarter_of_what_may_be_true():
    for noise in np.logspace(-6, 6, 30):
        for reached in (1e-100, 0.1, 1.0):
            assert best_factor(0.7, noise, reached) ** 2 * noise <= 0.7 / 4.0 * (1.0 + 1e-9)


def problem_and_noise():
    """A problem with the Huber loss and 50 features, its steps, and the deviation of its noise."""
    model = PrivateHuberRegressor()
    problem = model._problem(Huber(0.3), 1000, np.ones(50), Target(1.0, 0.0, 1.0))
    steps = GradientSteps(20, 5, 0.1, 0.9)
    variance, reached = steps._replace(length=0.1 * SHRINKAGE.curved).gains()
    assert reached > 0.5
    return problem, steps, variance**0.5 * 0.1 / SHRINKAGE.curved


def test_features_and_ones_shrink_apart():
    problem, steps, deviation = problem_and_noise()
    u = np.append(np.random.default_rng(0).normal(0.0, deviation, 50), 100.0 * deviation)
    noise = u.copy()
    shrink_result(problem, u, np.zeros((2, 51)), 0.1, 1e3, steps)
    assert np.linalg.norm(u[:50]) < 0.6 * np.linalg.norm(noise[:50])
    assert u[50] == pytest.approx(noise[50], rel=1e-3)
    u = np.append(np.full(50, 100.0), 0.5 * deviation)
    shrink_result(problem, u, np.zeros((2, 51)), 0.1, 1e3, steps)
    assert_allclose(u[:50], 100.0, rtol=1e-3)
    assert u[50] == 0.0


def test_an_offset_that_may_be_noise_is_small():
    """Targets are centred before: only what is clearly more than noise moves predictions far."""
    problem, steps, deviation = problem_and_noise()
    for deviations in (0.5, 1.5, 2.0, 5.0, 100.0):
        # Noise that is as large as the targets are.
        u = np.append(np.full(50, deviation), deviations * deviation)
        shrink_result(problem, u, np.zeros((2, 51)), 0.1, deviation, steps)
        small = (SHRINKAGE.most_offset**0.5 + 0.1) * deviation
        assert 0.0 <= u[50] <= (small if deviations <= 1.9 else deviations * deviation)
    u = np.append(np.full(50, deviation), 5.0 * deviation)
    shrink_result(problem, u, np.zeros((2, 51)), 0.1, 1e3, steps)
    assert u[50] > 0.9 * 5.0 * deviation


def test_a_long_first_gradient_is_believed():
    problem, steps, deviation = problem_and_noise()
    u = np.append(np.full(50, 0.9 * deviation), 0.0)
    assert_allclose(u[:50], 0.9 * deviation)
    shrink_result(problem, u, (np.append(np.full(50, 10.0), 0.0), np.zeros(51)), 0.1, 1e3, steps)
    assert_allclose(u[:50], 0.9 * deviation, rtol=1e-2)
    shrink_result(problem, u, (np.append(np.full(50, 0.1), 0.0), np.zeros(51)), 0.1, 1e3, steps)
    assert (u == 0.0).all()


@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3)])
def test_of_labels_the_ratios_of_coordinates_change(loss):
    """Their scores get a length afterwards: few columns stand out, and many are left alone."""
    d, problem = 200, unpenalised(Problem(loss, None, 1000, 200, False))
    steps, rng = GradientSteps(20, 5, 0.1, 0.9), np.random.default_rng(0)
    curvature = typical_curvature(loss)
    variance, _ = steps._replace(length=0.1 * curvature).gains()
    noise = 1e-3 * curvature / variance**0.5
    for n_few, least, most in ((5, 0.0, 0.3), (d, 0.9, 1.0), (0, 0.5, 1.0)):
        u = rng.normal(0.0, 1e-3, (loss.n_outputs, d))
        u[:, :n_few] += 0.02 * rng.choice([-1.0, 1.0], (loss.n_outputs, n_few))
        shrunk, zero = u.ravel().copy(), np.zeros((2, u.size))
        shrink_result(problem, shrunk, zero, noise, 1.0, steps, True)
        factors = shrunk.reshape(u.shape) / u
        assert factors.max() == pytest.approx(1.0)
        rest = np.linalg.norm((factors * u)[:, n_few % d :]) / np.linalg.norm(u[:, n_few % d :])
        assert least <= rest <= most


@pytest.mark.parametrize("make", [PrivateRidge, PrivateLasso, PrivateMinimaxRegressor])
def test_targets_of_pure_noise_are_predicted_as_a_constant_does(make):
    scores = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X, y = rng.uniform(-1.0, 1.0, (1500, 20)), rng.normal(size=1500)
        model = make(epsilon=0.5, feature_bound=1.0).fit(X[:500], y[:500])
        scores.append(model.score(X[500:], y[500:]))
    assert np.median(scores) > -0.2  # about -.05; without shrinkage -.4 to -.9
