"""Anytime mirror descent: spans, times, and plans."""

import numpy as np
import pytest
from cases import each

from skdpsco.constraints import L1Ball
from skdpsco.losses import Logistic
from skdpsco.mechanisms.samplers import SCALE_BITS, summation_error
from skdpsco.privacy import Budget, rho_of
from skdpsco.solvers import Allowance, AnytimeMirrorDescent, Problem
from skdpsco.solvers.lp_ball.anytime_mirror_descent import cut, draw_times

FRESH = pytest.mark.parametrize("fresh", [0, 1, 3])


@FRESH
def test_all_records_pay_the_same_at_most(fresh):
    """A record of a span counts in the draws of its own and of later ones."""
    for n, n_iter in ((1, 1), (7, 7), (7, 3), (1000, 40), (10**9, 1000)):
        spans = cut(n, n_iter, fresh)
        assert spans.size.sum() == n
        assert spans.size.min() >= 1
        assert spans.size.dtype == np.int64
        own = np.arange(n_iter)
        counted = (n_iter - own) + fresh * (n_iter - 1 - own)
        np.testing.assert_allclose(spans.weight**2 * counted, spans.n_draws, rtol=1e-12)
        assert spans.weight[0] == 1.0
        step = spans.mass / np.cumsum(spans.mass)
        if n == 10**9:  # up to rounding, the steps of Frank-Wolfe
            late = step[100:]
            np.testing.assert_allclose(late, 2.0 / (own[100:] + 2.0), rtol=0.02)
            if fresh == 0:
                assert spans.mass.sum() == pytest.approx(15 / 8 * n, rel=0.01)


def test_vertices_come_from_the_points_that_they_stand_for():
    """Output vertex k from its span; the fresh ones from all records so far, by weight.

    600 draws of each kind: frequencies are within .13 of their expectation, except 1 in 10^8 times.
    """
    spans = cut(40, 4, 2)
    ends = np.cumsum(spans.size)
    rng = np.random.Generator(np.random.PCG64(0))
    times = np.array([draw_times(spans, 2, rng) for _ in range(300)])
    assert times.shape == (300, 4 + 3 * 2)
    assert spans.n_draws == 10
    for k in range(4):
        own = times[:, k]
        assert ends[k] - spans.size[k] == own.min()
        assert ends[k] - 1 == own.max()
    weight = np.repeat(spans.weight, spans.size)
    for k in range(3):
        fresh = times[:, 4 + 2 * k : 6 + 2 * k].ravel()
        assert fresh.max() < ends[k]
        law = np.cumsum(weight[: ends[k]]) / weight[: ends[k]].sum()
        found = np.cumsum(np.bincount(fresh, minlength=ends[k])) / 600
        assert np.abs(found - law).max() < 0.13


@FRESH
@each("n_iter", [1, 12])
def test_rounding_is_paid_for(fresh, n_iter):
    """With so many records and coefficients, it takes a good part of the budget."""
    n, d, rho = 10**8, 10**6, 1e-6
    solver = AnytimeMirrorDescent(fresh)
    plan = solver.plan(Problem(Logistic(), L1Ball(1.0), n, d), Allowance(rho), n_iter)
    assert rho_of(plan.event) == rho
    spans, bounds = cut(n, n_iter, fresh), plan.bounds
    entry, scale = bounds.features * bounds.slope, plan.grid * 2.0**SCALE_BITS
    error, largest = 0.0, 0.0
    for m, weight in zip(spans.size.tolist(), spans.weight, strict=True):
        largest += m * weight * entry
        n_parts = 1 + m // 2**16  # at most, of sums that are added to those of earlier spans
        error += weight * summation_error(m, entry, 2**16) + n_parts * 2.0**-52 * largest
    rounding = 2.0 * bounds.diameter * error + 4.0 * (d + 1) * 2.0**-53 * bounds.size * largest
    paid = []
    for k, weight in enumerate(spans.weight):
        draws = (n_iter - k) + fresh * (n_iter - 1 - k)
        exact = 2.0 * bounds.diameter * entry * weight
        rounded = draws * ((exact + rounding) / scale + 2.5 / 2.0**SCALE_BITS) ** 2
        paid.append([draws * (exact / scale) ** 2 / 8.0, rounded / 8.0])
    exact, rounded = np.max(paid, axis=0)
    assert exact < 0.98 * rho
    assert 0.85 * rho < rounded <= rho


def test_there_are_no_more_steps_than_records():
    problem, solver = Problem(Logistic(), L1Ball(1.0), 20, 3), AnytimeMirrorDescent()
    assert solver.plan(problem, Budget(1.0, 1e-6), 20).n_iter == 20
    with pytest.raises(ValueError, match="n_iter must be at most the number of records, 20, got"):
        solver.plan(problem, Budget(1.0, 1e-6), 21)
