"""How far gradient steps have come, and how much of the result is kept."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skdpsco import PrivateLasso, PrivateMinimaxRegressor, PrivateRidge
from skdpsco.data.design import as_design
from skdpsco.losses import Logistic, Multinomial, Squared
from skdpsco.penalties import L1, L2
from skdpsco.solvers import Allowance, CompositeProblem, GradientDescent, Problem
from skdpsco.solvers.penalized.problem import unpenalised
from skdpsco.solvers.penalized.shrinkage import (
    SHRINKAGE,
    Descended,
    GradientSteps,
    best_factor,
    best_length,
    excess,
    offset,
    own_factors,
    set_length,
    typical_curvature,
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
    longer = steps._replace(lengths=lengths + 10.0)  # they count as steps to the minimum
    shorter = steps._replace(lengths=np.full(n_iter, 1.0 / 1.7))
    assert_allclose(longer.responses(1.7), shorter.responses(1.7))


@pytest.mark.parametrize("penalty", [L2(0.0), L2(0.3), L1(0.02)])
@pytest.mark.parametrize(
    ("n_iter", "alike", "away"),
    [(2, False, 0.03), (5, False, 0.03), (5, True, 0.3), (40, True, 0.03)],
)
def test_a_result_has_about_the_best_length_whatever_the_number_of_steps(
    n_iter, alike, away, penalty
):
    """Without noise other multiples are worse: few steps know less of columns that are alike."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.2, 0.2, (4000, 8)) + alike * rng.uniform(-0.5, 0.5, (4000, 1)) * (
        np.arange(8) < 4
    )
    y = np.clip(X @ rng.normal(size=8), -1.0, 1.0)
    problem = CompositeProblem(
        Squared(), None, 4000, 8, False, penalty=penalty, unit=(0.3,) * 8, centred=True
    )
    solver = GradientDescent(clip=100.0, shrunk=True)
    plan = solver.plan(problem, Allowance(1e12), n_iter)
    rows = as_design(X, np.ones(8), False)
    run = plan, problem, rows, y, np.random.Generator(np.random.PCG64(0)), np.zeros(1, np.int64)
    w = solver.run(*run).coef

    def objective(factor):
        v = 0.3 * factor * w
        penalties = penalty.alpha * (np.abs(v).sum() if isinstance(penalty, L1) else v @ v / 2.0)
        return 0.5 * np.mean((X @ (factor * w) - y) ** 2) + penalties

    assert np.linalg.norm(w) > 0.0
    assert objective(1.0) <= min(objective(1.0 - away), objective(1.0 + away))


def test_noise_alone_gets_no_length():
    """Gradients that are noise: what they add to both estimates is subtracted on average."""
    rng, m = np.random.default_rng(0), 400
    for n_iter, length in ((4, 0.1), (20, 0.05), (20, 0.5)):
        n_averaged = max(1, n_iter // 4)
        lengths, momenta = np.full(n_iter, length), np.arange(n_iter) / (np.arange(n_iter) + 3.0)
        steps = GradientSteps(lengths, momenta, np.full(n_iter, 0.3), n_averaged)
        factors = []
        for _ in range(30):
            noise = 0.3 * rng.normal(size=(n_iter, m))
            w, p = quadratic_descent(steps, 0.8, noise)
            gradient = 0.8 * p + noise[-n_averaged:].mean(axis=0)
            found = Descended(w, np.zeros(m), noise[0], p, gradient, np.zeros(m))
            factors.append(best_length(found, steps, steps.responses(0.8), 0.8, math.inf))
        assert np.mean(factors) < 0.2
        assert np.median(factors) < 0.1


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


def steps_of(noise):
    """Twenty steps; ``noise`` is that of every gradient."""
    ages = np.arange(20)
    return GradientSteps(np.full(20, 0.1), ages / (ages + 3.0), np.full(20, noise), 5)


def result(u):
    """A result of which nothing else is known."""
    return Descended(u, *np.zeros((5, u.size)))


def ones_of(mean):
    """What is released of the ones, if the mean of the targets is found to be this."""
    found = -0.8 * np.array([mean])
    return Descended(np.zeros(1), np.zeros(1), found, np.zeros(1), found, np.zeros(1))


def test_an_offset_that_may_be_noise_is_small():
    """Targets are centred before: only what is clearly more than noise moves predictions far."""
    steps = steps_of(0.8)  # so that means have noise of deviation 1
    for deviations in (0.5, 1.5, 2.0, 5.0, 100.0):
        found = offset(ones_of(deviations), steps, 0.0, 0.8, SHRINKAGE.most_offset)[0]
        assert 0.0 <= found <= (0.3 if deviations <= 1.9 else deviations)
        assert found > 0.9 * deviations or deviations < 5.0


def test_an_offset_makes_up_for_features_that_are_not_centred():
    """Residuals at the point tell how far the features move predictions, for any length."""
    curvature, mean, moved, own = 0.8, 0.3, -0.5, 0.1
    first, gradient = (curvature * np.array([x - mean]) for x in (0.0, moved + own))
    ones = Descended(np.zeros(1), np.zeros(1), first, np.array([own]), gradient, np.zeros(1))
    for longer in (0.0, 0.5, 1.0, 2.0):
        found = offset(ones, steps_of(1e-9), longer, curvature, 0.06)
        assert found == pytest.approx([mean - longer * moved])


@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3)])
def test_of_labels_the_ratios_of_coordinates_change(loss):
    """Their scores get a length afterwards: few columns stand out, and many are left alone."""
    d, problem = 200, unpenalised(Problem(loss, None, 1000, 200, False))
    rng, curvature = np.random.default_rng(0), typical_curvature(loss)
    noise = 1e-3 / np.linalg.norm(steps_of(1.0).responses(curvature)[0])
    # With several classes a part of the noise is taken out of every gradient.
    lost = (1.0 - 1.0 / loss.n_outputs) ** -0.5 if loss.n_outputs > 1 else 1.0
    for n_few, least, most in ((5, 0.0, 0.3), (d, 0.9, 1.0), (0, 0.5, 1.0)):
        u = rng.normal(0.0, 1e-3, (loss.n_outputs, d))
        u[:, :n_few] += 0.02 * rng.choice([-1.0, 1.0], (loss.n_outputs, n_few))
        shrunk = u.ravel().copy()
        set_length(problem, result(shrunk), 1.0, steps_of(noise * lost), "each")
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
