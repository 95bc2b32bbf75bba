"""How far gradient steps have come, and how much of the result is kept."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skdpsco import PrivateHuberRegressor, PrivateRidge
from skdpsco.solvers.penalized.shrinkage import (
    GradientSteps,
    best_factor,
    excess,
    own_factors,
    prior_factors,
)


def quadratic_descent(steps, curvature, noise):
    """Result and mean point of steps on ``curvature * u**2 / 2``, in one coordinate."""
    point = old = 0.0
    points, gradients = [], []
    for length, momentum, e in zip(steps.lengths, steps.momenta, noise, strict=True):
        points.append(point)
        gradients.append(curvature * point + e)
        new = (point - length * gradients[-1]) / (1.0 + length * steps.penalty)
        point, old = new + momentum * (new - old), new
    p, g = (np.mean(x[-steps.n_averaged :], axis=0) for x in (points, gradients))
    return (p - length * g) / (1.0 + length * steps.penalty), p


@pytest.mark.parametrize("penalty", [0.0, 0.5])
@pytest.mark.parametrize(("n_iter", "n_averaged"), [(1, 1), (2, 2), (7, 1), (30, 8)])
def test_responses_are_those_of_the_steps(n_iter, n_averaged, penalty):
    """Steps are linear in the noise of every gradient, whatever their lengths and momenta."""
    rng = np.random.default_rng(0)
    lengths, momenta, noises = rng.uniform(0.0, 0.5, (3, n_iter))
    steps = GradientSteps(lengths, momenta, noises, n_averaged, penalty)
    expected = [quadratic_descent(steps, 1.7, impulse) for impulse in np.eye(n_iter)]
    assert_allclose(steps.responses(1.7), np.transpose(expected), rtol=1e-12, atol=1e-14)
    several = steps.responses(np.array([0.0, 1.7]))
    assert_allclose(several[..., 1], steps.responses(1.7), rtol=1e-12)
    longer = steps._replace(lengths=lengths + 10.0)  # they count as steps to the minimum
    shorter = steps._replace(lengths=np.full(n_iter, 1.0 / 1.7))
    assert_allclose(longer.responses(1.7), shorter.responses(1.7))


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


@pytest.mark.parametrize("power", [0.0, 2.0])
def test_factors_of_a_prior_are_the_best_ones(power):
    """Whether small features matter is found out, and pure noise vanishes."""
    rng = np.random.default_rng(0)
    sizes = np.repeat([1.0, 0.3, 0.1], 2000)
    reached, variance = 0.9 * sizes**0.5, np.full(6000, 0.01)
    truth = sizes ** (0.5 * power) * rng.normal(size=6000) * 0.2
    noise = 0.1 * rng.normal(size=6000)
    x = reached * truth + noise
    factors = prior_factors(x, variance, reached, sizes, 8.0 * (sizes @ truth**2))
    for part in np.split(np.arange(6000), 3):
        best = x[part] @ truth[part] / (x[part] @ x[part])
        assert factors[part].mean() == pytest.approx(min(best, 1.0), abs=0.07)
    assert prior_factors(noise, variance, reached, sizes, 1000.0).max() < 0.05


def test_factors_exist_for_all_coordinates():
    for x in (np.zeros((1, 3)), np.ones((2, 0)), np.array([[1e-200, 1e200]])):
        for variance in (0.0, 1e-300, 1.0, 1e300):
            with np.errstate(all="raise", under="ignore"):
                factors = own_factors(x, variance, 1.0, 1e-100)
            assert factors.shape == x.shape
            assert ((factors >= 0.0) & (factors <= 1.0)).all()


@pytest.mark.parametrize("standard_errors", [False, True])
@pytest.mark.parametrize(
    "params",
    [
        {"feature_bound": 1e-100, "target_bound": 1e-100},
        {"feature_bound": 1e-30, "alpha": 1e100},
        {"feature_bound": 1e-30, "alpha": 1e100, "fit_intercept": False},
    ],
)
@pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
def test_coefficients_whose_squares_are_0_have_a_length(params, standard_errors):
    """No fit fails after its charge because of a penalty that leaves hardly anything."""
    X = np.random.default_rng(0).normal(size=(200, 1))
    for Model in (PrivateRidge, PrivateHuberRegressor):
        model = Model(**params, standard_errors=standard_errors).fit(X, X[:, 0])
        assert np.isfinite([*model.coef_, model.intercept_]).all()
