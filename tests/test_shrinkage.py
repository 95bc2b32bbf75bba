"""What gradient steps have reached, and how far they are believed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skdpsco import PrivateHuberRegressor, PrivateLasso, PrivateRidge
from skdpsco.losses import Huber
from skdpsco.scaling.target import Target
from skdpsco.solvers.penalized.shrinkage import SHRINKAGE, GradientSteps, shrink_result, shrunk_part


@pytest.mark.parametrize("penalty", [0.0, 0.5])
@pytest.mark.parametrize(("n_iter", "length"), [(1, 0.3), (4, 0.2), (50, 0.1), (50, 0.01)])
def test_gains_are_those_of_the_steps(n_iter, length, penalty):
    rng = np.random.default_rng(0)
    n_averaged, most = max(1, round(0.25 * n_iter)), max(0.9, 1.0 - 5.0 / n_iter)
    truth = 3.0
    point = old = np.zeros(20_000)
    sums = np.zeros((2, len(point)))
    for t in range(n_iter):
        gradient = point - truth + rng.normal(size=len(point))
        if t >= n_iter - n_averaged:
            sums += point, gradient
        new = (point - length * gradient) / (1.0 + length * penalty)
        point, old = new + min(most, (t + 1.0) / (t + 4.0)) * (new - old), new
    found = (sums[0] - length * sums[1]) / n_averaged / (1.0 + length * penalty)
    variance, reached = GradientSteps(n_iter, n_averaged, length, most, penalty).gains()
    assert variance == pytest.approx(found.var(), rel=0.05)
    optimum = truth / (1.0 + penalty)
    assert reached == pytest.approx(found.mean() / optimum, abs=4.0 * (variance / 20_000) ** 0.5)


def test_the_factor_is_the_best_one():
    """Of many noisy coordinates, of which steps have reached a share."""
    rng = np.random.default_rng(0)
    truth, reached, noise = rng.normal(size=10_000), 0.4, rng.normal(size=10_000)
    for deviation in (0.6, 1.0):
        u = reached * truth + deviation * noise
        found = shrunk_part(u, deviation**2, reached, 1e9)
        factor = found[0] / u[0]
        assert factor == pytest.approx(u @ truth / (u @ u), rel=0.3)
    assert_allclose(shrunk_part(truth, 0.01, reached, 1e9), truth)  # never longer


def test_noise_costs_no_more_than_a_share_of_the_most_that_is_true():
    rng = np.random.default_rng(0)
    for deviation in np.logspace(-3, 3, 20):
        for reached in (0.1, 1.0):
            u = deviation * rng.normal(size=30)
            m_v = 30 * deviation**2
            factor = shrunk_part(u, deviation**2, reached, 1.0)[0] / u[0]
            assert factor**2 * m_v <= 0.25 * (1.0 + 1e-9)
    assert (shrunk_part(np.zeros(3), 1.0, 1.0, 1.0) == 0.0).all()
    u = np.array([3.0, 0.0, 0.0, 0.0])  # what a penalty has made 0 has no noise
    assert shrunk_part(u, 1.0, 1.0, 1e9)[0] == pytest.approx(3.0 * (1.0 - 1.0 / 9.0))


def test_features_and_ones_shrink_apart():
    model = PrivateHuberRegressor()
    problem = model._problem(Huber(0.3), 1000, np.ones(50), Target(1.0, 0.0, 1.0))
    steps = GradientSteps(20, 5, 0.1, 0.9)
    variance, reached = steps._replace(length=0.1 * SHRINKAGE.curved).gains()
    assert reached > 0.5
    deviation = variance**0.5 * 0.1 / SHRINKAGE.curved
    u = np.append(np.random.default_rng(0).normal(0.0, deviation, 50), 100.0 * deviation)
    noise = u.copy()
    shrink_result(problem, u, 0.1, 1e3, steps)
    assert np.linalg.norm(u[:50]) < 0.6 * np.linalg.norm(noise[:50])
    assert u[50] == pytest.approx(noise[50], rel=1e-3)
    u = np.append(np.full(50, 100.0), 0.5 * deviation)
    shrink_result(problem, u, 0.1, 1e3, steps)
    assert_allclose(u[:50], 100.0, rtol=1e-3)
    assert u[50] == 0.0


@pytest.mark.parametrize("make", [PrivateRidge, PrivateLasso, PrivateHuberRegressor])
def test_targets_of_pure_noise_are_predicted_as_a_constant_does(make):
    scores = []
    for seed in range(9):
        rng = np.random.default_rng(seed)
        X, y = rng.uniform(-1.0, 1.0, (1500, 20)), rng.normal(size=1500)
        model = make(epsilon=0.5, feature_bound=1.0).fit(X[:500], y[:500])
        scores.append(model.score(X[500:], y[500:]))
    assert np.median(scores) > -0.2  # about -.05; without shrinkage -.4 to -.9
