"""Empirical risk minimisation over lp balls: sensitivities by brute force, and an audit of noise.

Statistics are recorded in grid units just before they get noise, for data sets that differ in one
record, at the same points. Their change must be at most what the plan charged, and more than half
of it for some pair. The audits run whole plans on one record whose derivative is at its bound
whatever the point: then the sum of all releases is the best evidence there is. (p - exp(epsilon) q)
of the best event is the delta that was really spent; half the noise must be convicted.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from delta_audits import DELTA, EPSILON, check_noise
from scipy import sparse, stats

from skdpsco._kernels import njit
from skdpsco.constraints import L1Ball, L2Ball, LpBall
from skdpsco.data.design import as_design
from skdpsco.losses import Absolute, Hinge, Logistic, Multinomial, Quantile, Squared, derivatives
from skdpsco.mechanisms.samplers import SCALE_BITS, gaussian_mechanism, to_grid
from skdpsco.privacy import Budget
from skdpsco.solvers import Allowance, Problem
from skdpsco.solvers.lp_ball import noisy_step as module
from skdpsco.solvers.lp_ball.noisy_step import (
    Steps,
    add_row_gradients,
    ball_slope,
    euclidean_radius,
    step_grid,
)
from skdpsco.solvers.lp_ball.phased_erm import PhasedERM, marginals
from skdpsco.solvers.penalized.sgd import poisson_sample

ONE = 2.0**SCALE_BITS
BOUND = 0.5

# ------------------------------------------------------------------------------ sensitivities


@pytest.fixture
def recorded(monkeypatch):
    """Statistics before their noise, in grid units; no noise is drawn."""
    log = []

    def record(rng, values, grid):
        log.append(np.array([to_grid(v, grid) for v in values]))

    monkeypatch.setattr(module, "gaussian_mechanism", record)
    monkeypatch.setattr(module, "add_row_gradients", add_row_gradients.py_func)
    return log


CASES = [
    (Hinge(), L2Ball(1.0), True, math.inf, "dense"),
    (Hinge(), L1Ball(0.2), False, 0.6, "csr"),
    (Absolute(), LpBall(math.inf, 1.0), True, 1.2, "dense"),
    (Quantile(0.8), LpBall(1.5, 1.0), False, math.inf, "csr"),
    (Logistic(), L2Ball(0.5), True, 0.6, "dense"),
    (Squared(), L2Ball(2.0), False, 1.0, "csr"),
    (Multinomial(3), L2Ball(30.0), True, 1.2, "dense"),
]


# Options, budget, and how many records there are so that the sum that is looked at has three.
MODES = {
    "one phase": ({}, Budget(2.0, 1e-5), 3),
    "first of two phases": ({"schedule": "localised"}, Budget(2.0, 1e-5), 6),
    "samples": ({"smoothing": "randomised"}, Budget(2.0, 1e-5), 3),
    "smoothed, all records": ({"smoothing": "randomised"}, Allowance(0.1), 3),
}


@pytest.mark.parametrize(("loss", "ball", "intercept", "row_norm", "layout"), CASES)
@pytest.mark.parametrize("mode", MODES)
def test_sums_move_by_what_is_charged_and_hardly_less(
    recorded, loss, ball, intercept, row_norm, layout, mode
):
    d, (options, budget, n) = 2, MODES[mode]
    problem = Problem(loss, ball, n, d + intercept, intercept, row_norm=row_norm)
    plan = PhasedERM(**options).plan(problem, budget, 5)
    smoothed = bool(options.get("smoothing"))
    grid, n_steps = plan.grid if smoothed else plan.phases[0].grid, 5
    # In units of the noise: what replacing a record may move the sum by.
    if mode == "samples":
        allowed = 2.0 / plan.sampling.noise_multiplier
    else:
        if mode == "first of two phases":
            assert [phase.n_records for phase in plan.phases] == [3, 1]
            n_steps = plan.phases[0].n_iter
            assert 1 < n_steps < 5
        allowed = budget.mu / math.sqrt(n_steps)
    features = list(itertools.product((-9.0, 0.0, 9.0), repeat=d))  # beyond their bounds
    targets = (0.0, 1.0, 2.0) if loss.n_outputs > 1 else (-1.0, 1.0)
    records = list(itertools.product(features, targets))
    rng = np.random.default_rng(0)
    points = [np.zeros(problem.n_coefficients), rng.standard_normal(problem.n_coefficients)]
    points[1] *= ball.radius / np.linalg.norm(points[1])  # for large predictions
    points.append(-points[1])
    shift = 5.0 * rng.standard_normal((3, loss.n_outputs))
    largest = 0.0

    def units(rows, point, shifts):
        X, y = np.array([x for x, _ in rows]), np.array([y for _, y in rows])
        given = X if layout == "dense" else sparse.csr_matrix(X)
        design = as_design(given, np.full(d, BOUND), intercept)
        steps = Steps(problem, design, y, plan.slope)
        steps.gradient(np.arange(3), 3.0, point, grid, None, shifts)
        assert steps.n_gradients == 3
        return recorded.pop()

    moves = (shift, -shift) if smoothed else (None,)
    for point, others, move in itertools.product(points, (records[:2], records[-2:]), moves):
        sums = [units([r, *others], point, move) for r in records]
        change = max(np.linalg.norm(a - b) for a, b in itertools.combinations(sums, 2))
        assert change <= allowed * ONE
        largest = max(largest, change / (allowed * ONE))
    assert largest > 0.5  # half the noise would not have passed


class Broken(Hinge):
    """Its derivative is far beyond what it declares, or not a number."""


@derivatives.register(Broken)
def _(loss, Z, y, out):
    for i in range(y.shape[0]):
        out[i, 0] = 1e100 * y[i] if abs(y[i]) < 2.0 else y[i]


def test_a_loss_that_breaks_its_bound_is_clipped(recorded):
    problem = Problem(Broken(), L2Ball(1.0), 2, 2)
    plan = PhasedERM().plan(problem, Budget(1.0, 1e-5), 1)
    allowed = Budget(1.0, 1e-5).mu * ONE
    zero, sums = np.zeros(2), []
    for target in (-1.0, 1.0, math.nan, math.inf, -math.inf):
        steps = Steps(problem, as_design(np.ones((2, 2)), np.ones(2), False),
                      np.array([target, 1.0]), plan.slope)  # fmt: skip
        with np.errstate(all="ignore"):
            steps.gradient(np.arange(2), 2.0, zero, plan.phases[0].grid, None)
        sums.append(recorded.pop())
    changes = [np.linalg.norm(a - b) for a, b in itertools.combinations(sums, 2)]
    assert 0.9 * allowed < max(changes) <= allowed


def test_rounding_of_sums_is_charged():
    n, D = 2**25, 4  # so many that it can be told from the exact sensitivity
    problem = Problem(Hinge(), L2Ball(1.0), n, D)
    grid = step_grid(problem, n, 1.0, 0.5, 2.0)
    rounding = (2**16 + 2**10 + 1) * 2.0**-53 * n * 2  # of a sum of n vectors of norm up to 2
    assert rounding > 1e-4
    assert grid * ONE == pytest.approx(0.5 * (2 * 2 + 2 * rounding), rel=1e-6)


@pytest.mark.parametrize(
    "ball", [L1Ball(1.0), LpBall(1.5, 2.0), L2Ball(1.0), LpBall(3.0, 0.5), LpBall(math.inf, 0.7)]
)
def test_constants_of_balls(ball):
    problem = Problem(Hinge(), ball, 10, 6)
    points = np.concatenate([np.eye(6), np.ones((1, 6))])
    points *= (ball.radius / np.linalg.norm(points, ball.p, axis=1))[:, None]
    assert np.linalg.norm(points, axis=1).max() == pytest.approx(euclidean_radius(problem))
    residual = points.sum(axis=1).max() + 1.0  # of the prediction for a record of ones
    squared = dataclasses.replace(problem, loss=Squared())
    assert ball_slope(squared) == pytest.approx(residual)
    assert ball_slope(squared, 0.5) == pytest.approx(residual + 0.5 * math.sqrt(6))


@pytest.mark.parametrize(("k", "D"), [(1, 1), (1, 7), (3, 9)])
def test_marginals_of_a_ball(k, D):
    """Against points of the ball by their definition; a false alarm has probability 1e-7."""
    rng = np.random.default_rng(0)
    found = marginals(rng, 20_000, k, D)
    direction = rng.standard_normal((20_000, D))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    points = direction * rng.random((20_000, 1)) ** (1 / D)
    assert stats.ks_2samp(found[:, 0], points[:, 0]).pvalue > 1e-7
    norms = (np.linalg.norm(a[:, :k], axis=1) for a in (found, points))
    assert stats.ks_2samp(*norms).pvalue > 1e-7
    # It has the power to tell a sphere from a ball.
    assert stats.ks_2samp(found[:, 0], direction[:, 0]).pvalue < 1e-7


# ------------------------------------------------------------------------------ audits

TRIALS = 100_000


@njit
def trials(rng, X, loss, y, slope, grid, threshold, n_steps, releases):
    """Sum of the releases of ``n_steps`` steps at moving points, many times."""
    members, w, g = np.arange(1), np.zeros(1), np.empty(1)
    shifts = np.empty((0, 1))
    for trial in range(releases.shape[0]):
        w[0] = 0.0
        releases[trial] = 0.0
        for _ in range(n_steps):
            size = poisson_sample(rng, threshold, members) if threshold < 2**53 else 1
            g[0] = 0.0
            chunk = X, y, members[:size]
            add_row_gradients(chunk, np.inf, loss, slope, shifts, w, g)
            gaussian_mechanism(rng, g, grid)
            w[0] = max(-0.5, min(0.5, w[0] - 1e-3 * g[0]))
            releases[trial] += g[0]


def evidence(plan, grid, threshold):
    """Sums of releases for one record and for its opposite."""
    sums = []
    design = as_design(np.ones((1, 1)), np.ones(1), False)
    for seed, target in ((1, -1.0), (2, 1.0)):
        out, rng = np.empty(TRIALS), np.random.Generator(np.random.PCG64(seed))
        trials(
            rng, design, Hinge(), np.array([target]), plan.slope, grid, threshold, plan.n_iter,
            out,
        )  # fmt: skip
        sums.append(out)
    return sums


@pytest.mark.parametrize("n_steps", [1, 10])
@pytest.mark.parametrize("smoothing", ["none", "randomised"])
def test_noise_of_whole_plans(smoothing, n_steps):
    n = 1 if smoothing == "none" else 3  # the plan of one record samples nothing
    problem = Problem(Hinge(), L2Ball(0.5), n, 1)
    budget = Budget(EPSILON, DELTA)
    plan = PhasedERM(smoothing=smoothing).plan(problem, budget, n_steps)
    if smoothing == "none":
        grid, threshold, probability = plan.phases[0].grid, 2**53, 1.0
    else:
        grid, threshold = plan.grid, plan.sampling.threshold
        probability = plan.sampling.sampling_probability
        assert grid * ONE == pytest.approx(plan.sampling.noise_multiplier, rel=1e-4)

    def sums(share):
        return evidence(plan, share * grid, threshold)

    check_noise(sums, n_steps, grid * ONE, probability, 5e-3)
