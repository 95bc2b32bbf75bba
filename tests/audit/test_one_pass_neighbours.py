"""Solvers that draw vertices in one pass, by brute force: neighbours, exact laws, frequencies.

Scores are recorded in grid units just before they are drawn from, for data sets that differ in one
record, along the same earlier draws (and at the same times). The derivatives of `Wild` are clipped
at every record, so that a charge that is wrong by two shows.
"""

import itertools
import math
import sys

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from stand_ins import Declared, Forced

from skdpsco.constraints import L1Ball, Polytope, Simplex, n_vertices
from skdpsco.data.design import as_design
from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared, derivative
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.solvers import Allowance, AnytimeMirrorDescent, OnePassFrankWolfe, Problem
from skdpsco.solvers.lp_ball import anytime_mirror_descent as anytime
from skdpsco.solvers.lp_ball.anytime_mirror_descent import cut, draw_times
from skdpsco.solvers.lp_ball.one_pass_frank_wolfe import schedule

ONE = 2.0**SCALE_BITS
TRIANGLE = Polytope(np.array([[1.0, 0.3], [-0.5, 1.0], [0.2, -0.8]]))
PASSES = {OnePassFrankWolfe: "choose_vertex", AnytimeMirrorDescent: "choose_vertex"}
ONE_PASS, ANYTIME = (solver(shuffle=False) for solver in PASSES)


@pytest.fixture(autouse=True)
def _long_steps(monkeypatch):
    """Budgets of anytime mirror descent are spent in full, however long the steps are."""
    monkeypatch.setattr(anytime, "ANYTIME", anytime.ANYTIME._replace(variance=1e-100))


class Wild(Declared):
    """A loss that claims to be smooth; its derivatives are huge, or NaN if the target is 0."""


@derivative.register(Wild)
def _(loss, z, y):
    return 1e30 * y if y != 0.0 else math.nan


def latest(spans, fresh):
    """The latest times, at which as many draws as possible follow a record."""
    last = np.cumsum(spans.size) - 1
    return np.concatenate([last, np.repeat(last[:-1], fresh)])


def scores_along(solver, plan, problem, rows, choices, monkeypatch, times=None, layout="dense"):
    """Integer scores of every draw in order, given the earlier ones: (n_draws, n_vertices)."""
    module, run = sys.modules[type(solver).__module__], PASSES[type(solver)]
    X = np.array([x for x, _ in rows])
    X = X if layout == "dense" else sparse.csr_matrix(X)
    y = np.array([y for _, y in rows])
    forced = Forced(choices, [])
    with monkeypatch.context() as patch:
        patch.setattr(module, "EXPONENTIAL", forced)
        patch.setattr(module, run, getattr(module, run).py_func)
        patch.setattr(anytime, "draw_times", lambda *_: np.asarray(times))
        X = as_design(X, np.ones(X.shape[1]), problem.intercept)
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
# (solver, n, n_iter, layout), in sets of which one reaches the budget
RUNS = {
    "one pass": [
        (OnePassFrankWolfe(1, shuffle=False), 9, None, "dense"),
        (OnePassFrankWolfe(3, shuffle=False), 14, None, "csr"),
    ],
    **{
        f"anytime {k}": [
            (AnytimeMirrorDescent(k, shuffle=False), 12, 4, s) for s in ("dense", "csr")
        ]
        for k in range(3)
    },
}


def draws_of(solver, plan, n, layout, rng):
    """Times of draws, their number, and how many of them come before each record is read."""
    if isinstance(solver, OnePassFrankWolfe):
        assert plan.n_iter > min(plan.bounds.n_plain, n - n // 2)
        ends = np.cumsum(schedule(n, plan.n_iter, plan.batch_size, plan.bounds).batch)
        return None, plan.n_iter, np.searchsorted(ends, range(n), side="right")
    spans = cut(n, plan.n_iter, solver.fresh)
    times = latest(spans, solver.fresh)
    times = times if layout == "dense" else draw_times(spans, solver.fresh, rng)
    return times, spans.n_draws, [int((times <= position).sum()) for position in range(n)]


@pytest.mark.parametrize("runs", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("constraint", [L1Ball(1.5), Simplex(2.0), TRIANGLE])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_neighbour_exceeds_the_budget(loss, constraint, runs, monkeypatch):
    wild, d, rho, worst = isinstance(loss, Wild), 2, 0.5, 0.0
    if isinstance(constraint, Polytope) and loss.n_outputs > 1:
        constraint = L1Ball(0.5)
    intercept, records = not isinstance(constraint, Polytope), extremes(d, loss)
    rng = np.random.default_rng(0)
    for solver, n, n_iter, layout in runs:
        problem = Problem(loss, constraint, n, d + intercept, intercept)
        plan = solver.plan(problem, Allowance(rho), n_iter)
        K = n_vertices(constraint, problem.n_coefficients)
        for position in range(n):
            times, n_draws, before = draws_of(solver, plan, n, layout, rng)
            choices = tuple(rng.integers(K, size=n_draws).tolist())
            rest = [records[i] for i in rng.integers(len(records), size=n)]
            logs = [
                scores_along(solver, plan, problem, [*rest[:position], own, *rest[position + 1 :]],
                             choices, monkeypatch, times, layout)
                for own in records
            ]  # fmt: skip
            worst = max(worst, *(squares(*pair) for pair in itertools.combinations(logs, 2)))
            earlier = before[position]  # records do not look back
            assert all(np.array_equal(log[:earlier], logs[0][:earlier]) for log in logs)
    assert worst <= 8.0 * rho
    if wild and not isinstance(constraint, (Simplex, Polytope)):
        assert worst > 0.99 * 8.0 * rho  # half the noise would pay four times as much
    elif wild:
        assert worst > 0.26 * 8.0 * rho
    assert worst > 0.0


def log_law(solver, plan, problem, rows, times, monkeypatch):
    """Log-probabilities of all lists of vertices, in the order of their numbers, not of time."""
    K = n_vertices(problem.constraint, problem.n_coefficients)
    order = np.arange(plan.n_iter) if times is None else np.argsort(times, kind="stable")
    law = np.empty((K,) * len(order))
    for choices in itertools.product(range(K), repeat=len(order)):
        scores = scores_along(solver, plan, problem, rows, choices, monkeypatch, times) / ONE
        scores -= logsumexp(scores, axis=1, keepdims=True)
        numbered = np.empty(len(order), dtype=int)
        numbered[order] = choices
        law[tuple(numbered)] = scores[np.arange(len(order)), list(choices)].sum()
    assert logsumexp(law) == pytest.approx(0.0, abs=1e-9)
    return law.ravel()


def all_times(spans, fresh):
    """Every value of `draw_times`, and its probability."""
    start = np.cumsum(spans.size) - spans.size
    weight = np.repeat(spans.weight, spans.size)
    laws = [(range(s, s + m), np.ones(m)) for s, m in zip(start, spans.size, strict=True)]
    for k in range(len(start) - 1):
        stop = start[k + 1]
        laws += [(range(stop), weight[:stop])] * fresh
    for combined in itertools.product(*(range(len(places)) for places, _ in laws)):
        probability = math.prod(
            law[c] / law.sum() for (_, law), c in zip(laws, combined, strict=True)
        )
        yield [places[c] for (places, _), c in zip(laws, combined, strict=True)], probability


@pytest.mark.parametrize(
    ("solver", "n", "n_iter", "rho"),
    [
        *((ONE_PASS, 8, n_iter, rho) for n_iter in (1, 3, 5) for rho in (0.02, 0.5)),
        (ANYTIME, 9, 3, 0.02),
        (AnytimeMirrorDescent(1, shuffle=False), 6, 2, 0.5),
        (AnytimeMirrorDescent(2, shuffle=False), 5, 2, 0.02),
    ],
)
def test_exact_law_of_the_output(solver, n, n_iter, rho, monkeypatch):
    """Renyi divergences of all vertices, exactly, whichever record is replaced.

    For given times and, as in the paper on anytime mirror descent, of the mixture over all of them:
    times are drawn, used and forgotten, at no cost. Noise of half the size would have four times
    the divergence: at least twice the budget here.
    """
    problem = Problem(Wild(1.0, 0.1), L1Ball(1.0), n, 1)
    plan = solver.plan(problem, Allowance(rho), n_iter)
    if solver is ONE_PASS:
        assert n_iter == 1 or plan.n_iter > plan.bounds.n_plain
        times, positions, least = [(None, 1.0)], range(n), 0.5
    else:
        times = list(all_times(cut(n, n_iter, solver.fresh), solver.fresh))
        positions, least = (0, n // 3, n - 2), 0.9
        assert len(times) > 15
    assert sum(p for _, p in times) == pytest.approx(1.0)

    def divergence(one, other):
        return max(
            logsumexp(a * p + (1 - a) * q) / ((a - 1) * a * rho)
            for a in (1.001, 1.5, 2.0, 4.0, 16.0, 64.0)
            for p, q in ((one, other), (other, one))
        )

    given, mixed = 0.0, 0.0
    for position in positions:
        rest = [((1.0,), 1.0 if i % 2 else -1.0) for i in range(n)]
        pair = []
        for y in (-1.0, 1.0):
            rest[position] = ((1.0,), y)
            pair.append([log_law(solver, plan, problem, rest, t, monkeypatch) for t, _ in times])
        given = max(given, *(divergence(p, q) for p, q in zip(*pair, strict=True)))
        weights = np.log([p for _, p in times])[:, None]
        mixed = max(mixed, divergence(*(logsumexp(laws + weights, axis=0) for laws in pair)))
    assert least < given <= 1.0
    assert solver is ONE_PASS or 0.3 < mixed <= given


def test_the_mixture_is_no_exponential_mechanism():
    """Every point has its own normaliser. Both laws are private, but they differ."""
    scores = np.array([[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [4.0, 3.0, 3.5]])  # minus tau times sums
    points = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    claimed = np.exp(scores).sum(axis=0)
    assert np.abs(points.mean(axis=0) - claimed / claimed.sum()).max() > 0.05


@pytest.mark.parametrize(
    ("solver", "shares"),
    [(OnePassFrankWolfe(), [1.0]), (AnytimeMirrorDescent(), np.arange(50) / 50)],
)
def test_frequencies_of_the_only_vertex(solver, shares):
    """The exponential mechanism with the scale that is charged, in the direction of the minimum.

    The vertex of anytime mirror descent is drawn at one of 50 times, uniformly, with the gradients
    until then. The frequency in 4000 draws is within 0.04, except 1 in 10^6 times. For one pass
    P = 0.731; with half the noise it would be 0.88, with twice the noise 0.62. For the other solver
    P = 0.622; it would be 0.72 or 0.56.
    """
    n, n_draws = 50, 4000
    problem = Problem(Squared(1.0), L1Ball(1.0), n, 1)
    X = as_design(np.ones((n, 1)), np.ones(1), False)
    y = np.full(n, 0.4)
    # Scores of all records are +-0.4, the range of their changes 2 * 2 / n: a scale of
    # 4 / (n sqrt(8 rho)).
    plan = solver.plan(problem, Allowance((4.0 / (n * 0.8)) ** 2 / 8.0), 1)
    rng = np.random.Generator(np.random.PCG64(0))
    progress = np.zeros(1, dtype=np.int64)
    draws = [solver.run(plan, problem, X, y, rng, progress).coef[0] for _ in range(n_draws)]
    assert set(draws) == {-1.0, 1.0}
    expected = np.mean(1.0 / (1.0 + np.exp(-np.asarray(shares))))
    assert abs(np.mean(np.array(draws) == 1.0) - expected) < 0.04


@pytest.mark.parametrize("rho", [1e-4, 1.0, 1e18])
@pytest.mark.parametrize("loss", [Wild(1.0, 3.0), Logistic()])
@pytest.mark.parametrize(
    ("solver", "n_iter", "bits"),
    [(OnePassFrankWolfe(1, shuffle=False), None, 47), (ANYTIME, 5, 45)],
)
def test_scores_are_never_clamped(loss, rho, solver, n_iter, bits, monkeypatch):
    """All records at their bounds in one direction: the largest sum that there can be.

    The budget 1e18 would allow a grid on which they are.
    """
    n = 40
    problem = Problem(loss, L1Ball(3.0), n, 2)
    plan = solver.plan(problem, Allowance(rho), n_iter)
    times = latest(cut(n, 5, 0), 0) if solver is ANYTIME else None
    rows, choices = [((1.0, 1.0), 1.0)] * n, (0,) * plan.n_iter
    scores = scores_along(solver, plan, problem, rows, choices, monkeypatch, times)
    assert 100 < np.abs(scores).max() <= 2**49
    assert np.abs(scores).max() > 2**bits or rho < 1e18
    # The vertices +e_j are the bad ones: gradients are positive, and large scores are likely.
    informed = scores[solver is ANYTIME :, :2]  # its first point is drawn from no records
    assert (informed < 0).all() or isinstance(loss, Logistic)
