"""One-pass Frank-Wolfe by brute force: score changes of neighbours, loss of all transcripts.

Scores are recorded in grid units just before they are drawn from, for data sets that differ in one
record, along the same earlier draws. The derivatives of `Wild` are clipped at every record, so that
a charge that is wrong by two shows.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from stand_ins import Declared, Forced

from skdpsco.constraints import L1Ball, Polytope, Simplex, n_vertices
from skdpsco.data.design import as_design
from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared, derivative
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.solvers import Allowance, Problem
from skdpsco.solvers.lp_ball import one_pass_frank_wolfe as module
from skdpsco.solvers.lp_ball.one_pass_frank_wolfe import OnePassFrankWolfe, schedule

ONE = 2.0**SCALE_BITS
TRIANGLE = Polytope(np.array([[1.0, 0.3], [-0.5, 1.0], [0.2, -0.8]]))


class Wild(Declared):
    """A loss that claims to be smooth; its derivatives are huge, or NaN if the target is 0."""


@derivative.register(Wild)
def _(loss, z, y):
    return 1e30 * y if y != 0.0 else math.nan


def scores_along(plan, problem, rows, choices, monkeypatch, layout="dense"):
    """Integer scores of every draw, given the earlier ones: shape (n_iter, n_vertices)."""
    X = np.array([x for x, _ in rows])
    X = X if layout == "dense" else sparse.csr_matrix(X)
    y = np.array([y for _, y in rows])
    forced = Forced(choices, [])
    with monkeypatch.context() as patch:
        patch.setattr(module, "EXPONENTIAL", forced)
        patch.setattr(module, "frank_wolfe_pass", module.frank_wolfe_pass.py_func)
        X = as_design(X, np.ones(X.shape[1]), problem.intercept)
        solver = OnePassFrankWolfe(shuffle=False)
        solver.run(plan, problem, X, y, None, np.zeros(1, dtype=np.int64))
    return np.array(forced.log)


def squares(one, other):
    """Sum of the squared ranges of log-ratios: 8 times what a record pays."""
    change = (other - one) / ONE
    return float((np.ptp(change, axis=1) ** 2).sum())


def extremes(d, loss):
    targets = range(loss.n_outputs) if loss.n_outputs > 1 else (-1.0, 1.0)
    targets = (*targets, 0.0) if isinstance(loss, Wild) else targets
    return [(x, float(y)) for x, y in itertools.product(((9.0,) * d, (-9.0, 9.0)[:d]), targets)]


LOSSES = [
    Wild(1.0, 0.1), Wild(1.0, 3.0), Squared(1.0), Huber(0.5), Logistic(), SmoothHinge(),
    Multinomial(2),
]  # fmt: skip


@pytest.mark.parametrize("constraint", [L1Ball(1.5), Simplex(2.0), TRIANGLE])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_neighbour_exceeds_the_budget(loss, constraint, monkeypatch):
    wild, d, rho = isinstance(loss, Wild), 2, 0.5
    if isinstance(constraint, Polytope) and loss.n_outputs > 1:
        constraint = L1Ball(0.5)
    worst = 0.0
    for n, batch_size, layout in ((9, 1, "dense"), (14, 3, "csr")):
        problem = Problem(loss, constraint, n, d + 1, True)
        if isinstance(constraint, Polytope):
            problem = Problem(loss, constraint, n, d)
        plan = OnePassFrankWolfe(batch_size).plan(problem, Allowance(rho))
        assert plan.n_iter > min(plan.bounds.n_plain, n - n // 2)
        records = extremes(d, loss)
        rng = np.random.default_rng(0)
        K = n_vertices(constraint, problem.n_coefficients)
        for position in range(n):
            choices = tuple(rng.integers(K, size=plan.n_iter).tolist())
            rest = [records[i] for i in rng.integers(len(records), size=n)]
            logs = [
                scores_along(plan, problem, [*rest[:position], own, *rest[position + 1 :]], choices,
                             monkeypatch, layout)
                for own in records
            ]  # fmt: skip
            paid = [squares(*pair) for pair in itertools.combinations(logs, 2)]
            worst = max(worst, *paid)
            # Records do not look back.
            steps = schedule(n, plan.n_iter, plan.batch_size, plan.bounds)
            own = np.searchsorted(np.cumsum(steps.batch), position, side="right")
            assert all(np.array_equal(log[:own], logs[0][:own]) for log in logs)
    assert worst <= 8.0 * rho
    if wild and not isinstance(constraint, (Simplex, Polytope)):
        assert worst > 0.99 * 8.0 * rho  # half the noise would pay four times as much
    elif wild:
        assert worst > 0.26 * 8.0 * rho
    assert worst > 0.0


def transcripts(plan, problem, rows, monkeypatch):
    """Log-probabilities of all sequences of vertices."""
    K = n_vertices(problem.constraint, problem.n_coefficients)
    logs = []
    for choices in itertools.product(range(K), repeat=plan.n_iter):
        scores = scores_along(plan, problem, rows, choices, monkeypatch) / ONE
        scores -= logsumexp(scores, axis=1, keepdims=True)
        logs.append(scores[np.arange(plan.n_iter), list(choices)].sum())
    assert logsumexp(logs) == pytest.approx(0.0, abs=1e-9)
    return np.array(logs)


@pytest.mark.parametrize("rho", [0.02, 0.5])
@pytest.mark.parametrize("n_iter", [1, 3, 5])
def test_loss_of_all_transcripts(rho, n_iter, monkeypatch):
    """Renyi divergences of the released sequence, exactly, whichever record is replaced.

    Noise of half the size has four times the divergence: at least twice the budget here.
    """
    n, worst = 8, 0.0
    problem = Problem(Wild(1.0, 0.1), L1Ball(1.0), n, 1)
    plan = OnePassFrankWolfe().plan(problem, Allowance(rho), n_iter)
    assert n_iter == 1 or plan.n_iter > plan.bounds.n_plain
    for position in range(n):
        rest = [((1.0,), 1.0 if i % 2 else -1.0) for i in range(n)]
        pair = []
        for y in (-1.0, 1.0):
            rest[position] = ((1.0,), y)
            pair.append(transcripts(plan, problem, rest, monkeypatch))
        for p, q in (pair, pair[::-1]):
            for order in (1.001, 1.5, 2.0, 4.0, 16.0, 64.0):
                divergence = logsumexp(order * p + (1 - order) * q) / (order - 1)
                worst = max(worst, divergence / (order * rho))
    assert 0.5 < worst <= 1.0


def test_frequencies_of_the_first_vertex():
    """The exponential mechanism with the scale that is charged, in the direction of the minimum.

    The frequency in 4000 draws with P = 0.731 is within 0.04, except 1 in 10^7 times; with half
    the noise P would be 0.88, with twice the noise 0.62.
    """
    n, n_draws = 50, 4000
    problem = Problem(Squared(1.0), L1Ball(1.0), n, 1)
    X = as_design(np.ones((n, 1)), np.ones(1), False)
    y = np.full(n, 0.4)
    # One step: scores +-0.4, the range of their changes 2 * 2 / n, so scale 4 / (n sqrt(8 rho)).
    plan = OnePassFrankWolfe().plan(problem, Allowance((4.0 / (n * 0.8)) ** 2 / 8.0), 1)
    rng = np.random.Generator(np.random.PCG64(0))
    progress = np.zeros(1, dtype=np.int64)
    draws = [
        OnePassFrankWolfe().run(plan, problem, X, y, rng, progress).coef[0] for _ in range(n_draws)
    ]
    assert set(draws) == {-1.0, 1.0}
    assert abs(np.mean(np.array(draws) == 1.0) - 1.0 / (1.0 + math.exp(-1.0))) < 0.04


@pytest.mark.parametrize("rho", [1e-4, 1.0, 1e18])
@pytest.mark.parametrize("loss", [Wild(1.0, 3.0), Logistic()])
def test_scores_are_never_clamped(loss, rho, monkeypatch):
    """All records at their bounds in one direction: the largest estimate that there can be.

    The budget 1e18 would allow a grid on which they are.
    """
    n = 40
    problem = Problem(loss, L1Ball(3.0), n, 2)
    plan = OnePassFrankWolfe(1).plan(problem, Allowance(rho))
    rows = [((1.0, 1.0), 1.0)] * n
    scores = scores_along(plan, problem, rows, (0,) * plan.n_iter, monkeypatch)
    assert 100 < np.abs(scores).max() <= 2**49
    assert np.abs(scores).max() > 2**47 or rho < 1e18
    # The vertices +e_j are the bad ones: gradients are positive, and large scores are likely.
    assert (scores[:, :2] < 0).all() or isinstance(loss, Logistic)
