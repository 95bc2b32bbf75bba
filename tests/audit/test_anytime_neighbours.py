"""Anytime mirror descent by brute force: score changes of neighbours, exact laws of all outputs.

Scores are recorded in grid units just before they are drawn from, for data sets that differ in one
record, along the same earlier draws and at the same times.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from stand_ins import Forced
from test_one_pass_neighbours import LOSSES, TRIANGLE, Wild, extremes, squares

from skdpsco.constraints import L1Ball, Polytope, Simplex, n_vertices
from skdpsco.data.design import as_design
from skdpsco.losses import Logistic, Squared
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.solvers import Allowance, AnytimeMirrorDescent, Problem
from skdpsco.solvers.lp_ball import anytime_mirror_descent as module
from skdpsco.solvers.lp_ball.anytime_mirror_descent import cut, draw_times

ONE = 2.0**SCALE_BITS
FRESH = pytest.mark.parametrize("fresh", [0, 1, 2])


@pytest.fixture(autouse=True)
def _long_steps(monkeypatch):
    """Budgets are spent in full, however long the steps are."""
    monkeypatch.setattr(module, "ANYTIME", module.ANYTIME._replace(variance=1e-100))


def latest(spans, fresh):
    """The latest times, at which as many draws as possible follow a record."""
    last = np.cumsum(spans.size) - 1
    return np.concatenate([last, np.repeat(last[:-1], fresh)])


def scores_along(solver, plan, problem, rows, choices, times, monkeypatch, layout="dense"):
    """Integer scores of every draw in order, given the earlier ones: (n_draws, n_vertices)."""
    X = np.array([x for x, _ in rows])
    X = X if layout == "dense" else sparse.csr_matrix(X)
    y = np.array([y for _, y in rows])
    forced = Forced(choices, [])
    with monkeypatch.context() as patch:
        patch.setattr(module, "EXPONENTIAL", forced)
        patch.setattr(module, "mirror_descent_pass", module.mirror_descent_pass.py_func)
        patch.setattr(module, "draw_times", lambda *_: np.asarray(times))
        X = as_design(X, np.ones(X.shape[1]), problem.intercept)
        solver.run(plan, problem, X, y, None, np.zeros(1, dtype=np.int64))
    return np.array(forced.log)


@FRESH
@pytest.mark.parametrize("constraint", [L1Ball(1.5), Simplex(2.0), TRIANGLE])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_neighbour_exceeds_the_budget(loss, constraint, fresh, monkeypatch):
    wild, d, rho, n, n_iter = isinstance(loss, Wild), 2, 0.5, 12, 4
    if isinstance(constraint, Polytope) and loss.n_outputs > 1:
        constraint = L1Ball(0.5)
    intercept = not isinstance(constraint, Polytope)
    problem = Problem(loss, constraint, n, d + intercept, intercept)
    solver = AnytimeMirrorDescent(fresh, shuffle=False)
    plan = solver.plan(problem, Allowance(rho), n_iter)
    spans, records = cut(n, n_iter, fresh), extremes(d, loss)
    K = n_vertices(constraint, problem.n_coefficients)
    rng = np.random.default_rng(0)
    worst = 0.0
    for position, layout in itertools.product(range(n), ("dense", "csr")):
        times = latest(spans, fresh) if layout == "dense" else draw_times(spans, fresh, rng)
        choices = tuple(rng.integers(K, size=spans.n_draws).tolist())
        rest = [records[i] for i in rng.integers(len(records), size=n)]
        logs = [
            scores_along(solver, plan, problem, [*rest[:position], own, *rest[position + 1 :]],
                         choices, times, monkeypatch, layout)
            for own in records
        ]  # fmt: skip
        worst = max(worst, *(squares(*pair) for pair in itertools.combinations(logs, 2)))
        earlier = int((times <= position).sum())  # records do not look back
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
    order = np.argsort(times, kind="stable")
    law = np.empty((K,) * len(times))
    for choices in itertools.product(range(K), repeat=len(times)):
        scores = scores_along(solver, plan, problem, rows, choices, times, monkeypatch) / ONE
        scores -= logsumexp(scores, axis=1, keepdims=True)
        numbered = np.empty(len(times), dtype=int)
        numbered[order] = choices
        law[tuple(numbered)] = scores[np.arange(len(times)), list(choices)].sum()
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
    ("fresh", "n", "n_iter", "rho"), [(0, 9, 3, 0.02), (1, 6, 2, 0.5), (2, 5, 2, 0.02)]
)
def test_exact_law_of_the_output(fresh, n, n_iter, rho, monkeypatch):
    """The paper's mixture: times are drawn, used and forgotten, at no cost.

    Renyi divergences of all vertices, exactly, whichever record is replaced: for given times, and
    of the mixture over all of them. Noise of half the size would have four times the divergence.
    """
    problem = Problem(Wild(1.0, 0.1), L1Ball(1.0), n, 1)
    solver = AnytimeMirrorDescent(fresh, shuffle=False)
    plan = solver.plan(problem, Allowance(rho), n_iter)
    times = list(all_times(cut(n, n_iter, fresh), fresh))
    assert sum(p for _, p in times) == pytest.approx(1.0)
    assert len(times) > 15

    def divergence(one, other):
        return max(
            logsumexp(a * p + (1 - a) * q) / ((a - 1) * a * rho)
            for a in (1.001, 1.5, 2.0, 4.0, 16.0, 64.0)
            for p, q in ((one, other), (other, one))
        )

    given, mixed = 0.0, 0.0
    for position in (0, n // 3, n - 2):
        rest = [((1.0,), 1.0 if i % 2 else -1.0) for i in range(n)]
        pair = []
        for y in (-1.0, 1.0):
            rest[position] = ((1.0,), y)
            pair.append([log_law(solver, plan, problem, rest, t, monkeypatch) for t, _ in times])
        given = max(given, *(divergence(p, q) for p, q in zip(*pair, strict=True)))
        weights = np.log([p for _, p in times])[:, None]
        mixed = max(mixed, divergence(*(logsumexp(laws + weights, axis=0) for laws in pair)))
    assert 0.9 < given <= 1.0
    assert 0.3 < mixed <= given


def test_the_mixture_is_no_exponential_mechanism():
    """Every point has its own normaliser. Both laws are private, but they differ."""
    scores = np.array([[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [4.0, 3.0, 3.5]])  # minus tau times sums
    points = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    claimed = np.exp(scores).sum(axis=0)
    assert np.abs(points.mean(axis=0) - claimed / claimed.sum()).max() > 0.05


def test_frequencies_of_the_only_vertex():
    """The exponential mechanism with the scale that is charged, in the direction of the minimum.

    Half of the gradients are there, on average, when it is drawn: at one of 50 times, uniformly.
    The frequency in 4000 draws with P = 0.622 is within 0.04, except 1 in 10^6 times; with half
    the noise P would be 0.72, with twice the noise 0.56.
    """
    n, n_draws = 50, 4000
    problem = Problem(Squared(1.0), L1Ball(1.0), n, 1)
    X = as_design(np.ones((n, 1)), np.ones(1), False)
    y = np.full(n, 0.4)
    # Sums of gradients are -0.4 t before record t; the range of their changes is 2 * 2.
    plan = AnytimeMirrorDescent().plan(problem, Allowance((4.0 / (n * 0.8)) ** 2 / 8.0), 1)
    rng = np.random.Generator(np.random.PCG64(0))
    progress = np.zeros(1, dtype=np.int64)
    draws = [
        AnytimeMirrorDescent().run(plan, problem, X, y, rng, progress).coef[0]
        for _ in range(n_draws)
    ]
    assert set(draws) == {-1.0, 1.0}
    expected = np.mean(1.0 / (1.0 + np.exp(-np.arange(n) / n)))
    assert abs(np.mean(np.array(draws) == 1.0) - expected) < 0.04


@pytest.mark.parametrize("rho", [1e-4, 1.0, 1e18])
@pytest.mark.parametrize("loss", [Wild(1.0, 3.0), Logistic()])
def test_scores_are_never_clamped(loss, rho, monkeypatch):
    """All records at their bounds in one direction: the largest sum that there can be."""
    n = 40
    problem, solver = Problem(loss, L1Ball(3.0), n, 2), AnytimeMirrorDescent(shuffle=False)
    plan = solver.plan(problem, Allowance(rho), 5)
    times = latest(cut(n, 5, 0), 0)
    rows = [((1.0, 1.0), 1.0)] * n
    scores = scores_along(solver, plan, problem, rows, (0,) * 5, times, monkeypatch)
    assert 100 < np.abs(scores).max() <= 2**49
    assert np.abs(scores).max() > 2**45 or rho < 1e18
    # The vertices +e_j are the bad ones: gradients are positive, and large scores are likely.
    assert (scores[1:, :2] < 0).all() or isinstance(loss, Logistic)
