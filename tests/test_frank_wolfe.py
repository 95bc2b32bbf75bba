"""Frank-Wolfe and stages in balls: what is planned, its scale, and what cannot be solved."""

import math
import re

import numpy as np
import pytest
from cases import each
from scipy import stats

from skdpsco.constraints import L1Ball, L2Ball, Simplex
from skdpsco.data.design import as_design
from skdpsco.losses import Logistic, Multinomial, SmoothHinge, Squared
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.privacy import Budget
from skdpsco.solvers import (
    FrankWolfe,
    NoisyFrankWolfe,
    Problem,
    Stagewise,
    check_supported,
)

ONE = 2.0**SCALE_BITS


@each(
    ("solver", "loss", "constraint", "message"),
    [
        (FrankWolfe(), Logistic(), L2Ball(1.0),
         "FrankWolfe needs the kernel `n_vertices`, which the constraint L2Ball does not "
         "implement."),
        (Stagewise(), Logistic(), Simplex(1.0),
         "Stagewise needs an L1Ball as constraint, or None for a radius yet to be chosen; got "
         "Simplex."),
        (NoisyFrankWolfe(), L1Ball(1.0), L1Ball(1.0),
         "NoisyFrankWolfe needs the kernel `derivative` or `derivatives`, which the loss "
         "L1Ball does not implement."),
    ],
)  # fmt: skip
def test_what_solvers_cannot_do_is_named(solver, loss, constraint, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        check_supported(solver, Problem(loss, constraint, 10, 2))


@each("n", [10, 1000])
@each("T", [1, 7, 100])
@each("loss", [Squared(1.0), Logistic(), Multinomial(3), SmoothHinge(0.5)])
def test_frank_wolfe_has_the_textbook_scale(loss, T, n):
    """(2 L c / n) sqrt(T / (2 rho)) for Gumbel noise, (2 L c / n) sqrt(2 T / rho) for Laplace."""
    c, budget = 1.7, Budget(1.0, 1e-6)
    problem = Problem(loss, L1Ball(c), n, 5)
    for solver, factor in (
        (FrankWolfe(), math.sqrt(T / (2 * budget.rho))),
        (FrankWolfe("laplace"), math.sqrt(2 * T / budget.rho)),
    ):
        plan = solver.plan(problem, budget, T)
        for t, grid in enumerate(plan.path.grid):
            # The first step starts from 0, where slopes are smaller.
            L = loss.lipschitz(0.0 if t == 0 else c, 1.0)
            assert grid * ONE / n == pytest.approx(2 * L * c / n * factor, rel=0.01)


def test_noisy_frank_wolfe_has_the_textbook_scale():
    n, d, T, budget = 300, 7, 20, Budget(1.0, 1e-6)
    plan = NoisyFrankWolfe().plan(Problem(Logistic(), L2Ball(1.0), n, d), budget, T)
    expected = 2 * math.sqrt(d) / n * math.sqrt(T) / budget.mu
    assert plan.grid * ONE / n == pytest.approx(expected, rel=0.01)
    assert plan.step[0] == 1.0
    assert plan.step == pytest.approx([2 / (t + 2) for t in range(T)])


def laplace_win(gap):
    """P(s + Laplace > s' + Laplace') of unit scale, gap = s - s'."""
    tail = math.exp(-abs(gap)) * (2 + abs(gap)) / 4
    return 1 - tail if gap > 0 else tail


def test_laplace_win_by_simulation():
    rng = np.random.default_rng(0)
    for gap in (-2.0, 0.3):
        wins = (gap + rng.laplace(size=100_000) > rng.laplace(size=100_000)).sum()
        assert stats.binomtest(int(wins), 100_000, laplace_win(gap)).pvalue > 1e-7


def exact_delta(loss_range, gap, T, epsilon):
    """Delta of T noisy choices between two vertices; their scores move by ``loss_range``."""
    wins = np.arange(T + 1)
    p = stats.binom.pmf(wins, T, laplace_win(gap + loss_range / 2))
    q = stats.binom.pmf(wins, T, laplace_win(gap - loss_range / 2))
    return np.maximum(p - math.exp(epsilon) * q, 0.0).sum()


def test_printed_scale_is_too_small_if_a_record_is_replaced():
    """L c sqrt(8 T log(1 / delta)) / (n epsilon) gives every step four times its budget.

    Replacing a record moves every score by up to 2 L c / n, so the difference of two scores by up
    to 4 L c / n. Over T steps the law is binomial: delta is computed, not estimated.
    """
    T, epsilon, delta = 1000, 8.0, 1e-3
    printed = math.sqrt(8 * T * math.log(1 / delta)) / epsilon  # in units of L c / n
    moved = 4 / printed
    # One step: with a large gap the log-ratio reaches all of it.
    loss = math.log(laplace_win(-400 + moved) / laplace_win(-400))
    assert loss == pytest.approx(4 * epsilon / math.sqrt(8 * T * math.log(1 / delta)), rel=0.01)
    # All steps, each at the same gap 0, which is not even the worst case.
    assert exact_delta(moved, 0.0, T, epsilon) > 1.5 * delta
    # The scale of FrankWolfe("laplace") keeps to the budget at every gap.
    n, c = 1000, 1.0
    problem = Problem(Squared(1.0), Simplex(c), n, 2)
    grid = FrankWolfe("laplace").plan(problem, Budget(epsilon, delta), T).path.grid[-1]
    ours = 4 * c / (grid * ONE)  # L = 1
    for gap in (-8.0, -3.0, -1.0, 0.0, 1.0):
        assert exact_delta(ours, gap, T, epsilon) <= delta
    assert exact_delta(4 * ours, 0.0, T, epsilon) > delta  # the test would notice


def test_without_a_plan_nothing_is_read():
    """A fit that can afford nothing returns zeros, whatever the data."""
    problem = Problem(Logistic(), L1Ball(3.0), 10, 1000)
    design = as_design(np.random.default_rng(0).uniform(-1, 1, (10, 1000)), np.ones(1000), False)
    plan, rng = Stagewise().plan(problem, Budget(1e-3, 1e-6)), np.random.default_rng(0)
    result = Stagewise().run(plan, problem, design, np.ones(10), rng, np.zeros(1, dtype=np.int64))
    assert not result.coef.any()
