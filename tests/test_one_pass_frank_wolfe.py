"""One-pass Frank-Wolfe: schedules, plans, and bounds of any size."""

import itertools
import math

import numpy as np
import pytest
from stand_ins import Declared

from skdpsco.constraints import L1Ball
from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared, derivative
from skdpsco.mechanisms.samplers import SCALE_BITS, summation_error
from skdpsco.privacy import Budget
from skdpsco.solvers import Allowance, Problem
from skdpsco.solvers.lp_ball.one_pass_frank_wolfe import (
    OnePassFrankWolfe,
    polytope_bounds,
    schedule,
)

LOSSES = [Squared(1.0), Huber(0.5), Logistic(), SmoothHinge(0.5), Multinomial(3)]


def problems():
    for (n, d), loss, radius in itertools.product(
        ((1, 1), (2, 3), (51, 3), (3000, 40), (200_000, 20)), LOSSES, (0.01, 1.0, 30.0)
    ):
        yield Problem(loss, L1Ball(radius), n, d)


@pytest.mark.parametrize("batch_size", ["auto", 1, 7])
def test_no_record_pays_more_than_the_budget_and_some_pay_all_of_it(batch_size):
    checked = 0
    for problem in itertools.islice(problems(), 0, None, 4):
        solver = OnePassFrankWolfe(batch_size)
        bounds, n = polytope_bounds(problem, problem.constraint), problem.n_samples
        n_iter = min(200, n - n // 2, bounds.n_plain + n // 20)
        plan = solver.plan(problem, Budget(1.0, 1e-6), n_iter)
        steps = schedule(n, n_iter, plan.batch_size, bounds)
        assert steps.batch.sum() == n
        assert steps.batch.min() >= 1
        assert steps.step[0] == 1.0
        assert (steps.keep[: bounds.n_plain] == 0.0).all()
        assert ((steps.keep[bounds.n_plain :] > 0.0) & (steps.keep[bounds.n_plain :] < 1.0)).all()
        paid = []
        for i in range(n_iter):
            change = 2.0 * bounds.diameter * bounds.features * steps.limit[i] / steps.batch[i]
            squares = 0.0
            for t in range(i, n_iter):
                change *= steps.keep[t] if t > i else 1.0
                squares += (change / steps.spread[t]) ** 2
            paid.append(squares)
        assert max(paid) == pytest.approx(1.0, abs=1e-9)
        assert np.mean(paid) > 0.9
        checked += 1
    assert checked > 10


@pytest.mark.parametrize("n_iter", [1, 12])
def test_rounding_is_paid_for(n_iter):
    """With so many records and coefficients, it takes a good part of the budget."""
    n, d, rho = 10**8, 2 * 10**6, 0.1
    plan = OnePassFrankWolfe().plan(Problem(Logistic(), L1Ball(1.0), n, d), Allowance(rho), n_iter)
    bounds, steps = plan.bounds, schedule(n, n_iter, plan.batch_size, plan.bounds)
    scale = steps.spread * plan.grid * 2.0**SCALE_BITS
    largest, error, rounding = 0.0, 0.0, []
    for m, keep, limit in zip(steps.batch.tolist(), steps.keep, steps.limit, strict=True):
        largest = keep * largest + bounds.features * limit
        added = summation_error(m, bounds.features * limit, 2**16 + m // 2**16)
        error = keep * error + added / m + 2.0**-52 * largest
        score = (d + 1) * 2.0**-53 * bounds.size * (largest + error)
        rounding.append(2.0 * bounds.diameter * error + 4.0 * score)
    ranges = 2.0 * bounds.diameter * bounds.features * steps.limit / steps.batch
    paid = []
    for i in range(n_iter):
        kept = np.cumprod(np.append(1.0, steps.keep[i + 1 :]))
        exact = ranges[i] * kept / scale[i:]
        rounded = exact + np.array(rounding)[i:] / scale[i:] + 2.5 / 2.0**SCALE_BITS
        paid.append([np.sum(exact**2) / 8.0, np.sum(rounded**2) / 8.0])
    exact, rounded = np.max(paid, axis=0)
    assert exact < 0.95 * rho
    assert 0.85 * rho < rounded <= rho


def test_a_record_enters_by_its_clipped_factor():
    """What `limit` bounds: derivative here, less ``keep`` times the derivative one step before."""
    for loss in (Squared(1.0), Huber(0.5), Logistic(), SmoothHinge(0.5)):
        problem = Problem(loss, L1Ball(2.0), 1000, 5)
        bounds = polytope_bounds(problem, problem.constraint)
        steps = schedule(1000, 30, 10, bounds)
        z = np.linspace(-bounds.size, bounds.size, 201)
        for y in (-1.0, 1.0):
            slopes = np.array([derivative(loss, v, y) for v in z])
            assert np.abs(slopes).max() <= bounds.slope * (1 + 1e-12)
            for t in range(bounds.n_plain, 30):
                near = np.abs(z[:, None] - z) <= steps.step[t - 1] * bounds.diameter
                factor = np.abs(slopes[:, None] - steps.keep[t] * slopes)[near].max()
                assert factor <= steps.limit[t]  # so nothing is clipped


def test_batches_may_be_larger_than_the_data():
    problem = Problem(Logistic(), L1Ball(1.0), 30, 2)
    sizes = (30, 2**62, 2**63 - 1)
    plans = [OnePassFrankWolfe(size).plan(problem, Allowance(1.0)) for size in sizes]
    for plan in plans:
        batch = schedule(30, plan.n_iter, plan.batch_size, plan.bounds).batch
        assert batch.dtype == np.int64
        assert batch.sum() == 30
        assert plan.grid == plans[0].grid


def test_bounds_of_any_size():
    """Noise is in proportion to the set."""
    for batch_size in ("auto", 2):
        solver = OnePassFrankWolfe(batch_size)
        plans = {}
        for scale in (1.0, 1e-100, 1e100, 1e-240, 1e240):
            problem = Problem(Declared(scale, scale), L1Ball(1.0), 50, 3)
            plan = plans[scale] = solver.plan(problem, Allowance(0.1), 7)
            noise = schedule(50, 7, plan.batch_size, plan.bounds).spread * plan.grid / scale
            first = schedule(50, 7, plans[1.0].batch_size, plans[1.0].bounds).spread
            np.testing.assert_allclose(noise, first * plans[1.0].grid, rtol=1e-9)
    for loss, radius, row_norm in itertools.product(LOSSES, (1e-100, 1e100), (1e-100, math.inf)):
        problem = Problem(loss, L1Ball(radius), 50, 3, row_norm=row_norm)
        assert OnePassFrankWolfe().plan(problem, Allowance(0.1)).grid > 0.0
