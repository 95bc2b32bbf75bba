"""Paths on second moments: the choices of full passes, rounding, neighbours, and when it is used.

Choices by both ways are compared with fixed seeds. Scores differ by at most a unit of a grid whose
noise has 2^24, so another choice is as unlikely as one draw in a million.
"""

import dataclasses
import itertools
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Lasso

from skdpsco.constraints import L1Ball, Polytope, Simplex, n_vertices
from skdpsco.data.block_sources import array_parts
from skdpsco.data.design import as_design, clipped_rows
from skdpsco.data.map_reduce import BlockDesign, LocalBlocks, Reader, in_pieces, map_reduce
from skdpsco.data.pieces import PIECE_ROWS, depth_of
from skdpsco.losses import Huber, Logistic, Squared
from skdpsco.mechanisms.samplers import (
    SCALE_BITS,
    Exponential,
    exponential_grid,
    select,
    summation_error,
)
from skdpsco.solvers import FrankWolfe, Problem, Stagewise
from skdpsco.solvers.base import Allowance
from skdpsco.solvers.l1 import gram_path as gram_module
from skdpsco.solvers.l1 import vertex_path as path_module
from skdpsco.solvers.l1.gram_path import MAX_COLUMNS, gram_roundings, is_quadratic

ONE = 2.0**SCALE_BITS
N, D = 150, 6
BOUNDS = np.linspace(0.5, 1.0, D)  # some entries are beyond
CORNERS = np.vstack([np.eye(D + 1), -np.eye(D + 1)]) @ np.triu(np.ones((D + 1, D + 1))) / (D + 1)


def seeded(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def records(n=N, d=D, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, (n, d)) * (rng.random((n, d)) < 0.6)
    return X, np.clip(X @ np.linspace(0.6, -0.6, d) + 0.2 * rng.normal(size=n), -1.0, 1.0)


def design(layout, X, y, bounds=BOUNDS, intercept=False):
    """The design and the targets beside it."""
    if layout == "dense":
        return as_design(X, bounds, intercept), y
    if layout == "csr":
        return as_design(sparse.csr_matrix(X), bounds, intercept), y
    rows = sparse.csr_matrix(X) if layout == "csr blocks" else X
    reader = Reader(X.shape[1], layout == "csr blocks", np.asarray)
    blocks = LocalBlocks(array_parts(rows, y, 170), len(y), None, reader)
    return BlockDesign(blocks, bounds, int(intercept), None, reader.sparse), None


def planned(solver, problem, T, rho=20.0):
    """The plan of a path: without a refit, of stagewise."""
    return solver.plan(problem, Allowance(rho), T).path


def follow(path, problem, constraint, layout, data, seed=0, **options):
    progress = np.zeros(1, dtype=np.int64)
    X, y = design(layout, *data, **options)
    found = path_module.run_vertices(path, problem, constraint, X, y, seeded(seed), progress)
    assert progress[0] == found[2] == len(path.weight)
    return found[:2]


# ------------------------------------------------------------------------------ the same path


CASES = [
    (FrankWolfe(), L1Ball(1.0), False, ["dense", "csr", "blocks", "csr blocks"]),
    (FrankWolfe("laplace"), L1Ball(2.0), True, ["dense", "csr", "csr blocks"]),
    (FrankWolfe(), Polytope(CORNERS), True, ["dense", "csr", "blocks"]),
    (FrankWolfe(), Simplex(1.5), False, ["dense"]),
    (Stagewise(), L1Ball(1.0), True, ["dense", "blocks"]),
]


@pytest.mark.parametrize(("solver", "constraint", "intercept", "layouts"), CASES)
def test_choices_are_those_of_full_passes(solver, constraint, intercept, layouts, monkeypatch):
    """Full passes are made in Python, as they take longer to compile."""
    monkeypatch.setattr(path_module, "vertex_path", path_module.vertex_path.py_func)
    T, data = 60, records()
    problem = Problem(Squared(), constraint, N, D + intercept, intercept)
    path = planned(solver, problem, T)
    assert path.quadratic
    passes = dataclasses.replace(path, quadratic=False)
    coef, chosen = follow(passes, problem, constraint, "dense", data, intercept=intercept)
    other = follow(passes, problem, constraint, "dense", data, seed=1, intercept=intercept)[1]
    assert len(np.unique(chosen)) > 2
    assert (other != chosen).any()  # noise matters
    for layout in layouts:
        again = follow(path, problem, constraint, layout, data, intercept=intercept)
        np.testing.assert_array_equal(again[1], chosen)
        np.testing.assert_array_equal(again[0], coef)  # to the last bit: the same additions


def test_pieces_of_single_precision():
    """Threads sum pieces up, and float32 is read as it is."""
    n, d = PIECE_ROWS + 5, 3
    X, y = records(n, d)
    X = X.astype(np.float32)
    given = as_design(X, BOUNDS[:d], False)
    pieces = in_pieces(given, y)
    assert isinstance(pieces, BlockDesign)
    C, c = map_reduce(pieces, y, gram_module.moment_sums, 1.0)
    A = np.clip(X, -BOUNDS[:d], BOUNDS[:d]) / BOUNDS[:d]
    np.testing.assert_allclose(C, A.T @ A, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(c, A.T @ y, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("constraint", [L1Ball(1.0), Polytope(CORNERS[:, 1:].copy())])
def test_compiled_is_python(constraint, monkeypatch):
    problem = Problem(Squared(), constraint, N, D)
    path, data = planned(FrankWolfe(), problem, 50), records()
    compiled = follow(path, problem, constraint, "dense", data)
    monkeypatch.setattr(gram_module, "gram_path", gram_module.gram_path.py_func)
    python = follow(path, problem, constraint, "dense", data)
    for a, b in zip(compiled, python, strict=True):
        np.testing.assert_array_equal(a, b)


# ------------------------------------------------------------------------------ when


STEPS = np.full(10, 0.1), np.ones(11)  # weights, scale


class Loud(Squared):
    """A loss that is not what its base class is."""

    def lipschitz(self, prediction_bound=math.inf, target_bound=math.inf):
        return 0.1


class Far(L1Ball):
    """A set that declares less than it is."""

    def norm_bound(self):
        return 0.1 * self.radius


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"loss": Squared(2.801)}, True),  # the largest residual: |z| <= 1.8, |y| <= 1
        ({"loss": Squared(2.799)}, False),
        ({"loss": Loud()}, False),
        ({"loss": Huber(1e9)}, False),
        ({"loss": Logistic()}, False),
        ({"constraint": Far(2.0)}, False),
        ({"constraint": Simplex(2.0)}, True),
        ({"constraint": L1Ball(1e-260)}, False),
        ({"target_bound": 1.5, "loss": Squared(3.301)}, True),
        ({"target_bound": 1.5, "loss": Squared(3.299)}, False),
        ({"target_bound": 1e-260}, False),
        ({"n_features": 9}, True),
        ({"n_features": 10}, False),  # as many as steps
        ({"n_samples": 5}, True),
        ({"n_samples": 4}, False),
    ],
)
def test_taken_where_no_residual_can_be_clipped(changes, expected):
    problem = Problem(
        **{"loss": Squared(), "constraint": L1Ball(2.0), "n_samples": 100, "n_features": 5}
        | changes
    )
    plan = path_module.plan_vertices(problem, problem.constraint, *STEPS, 1.0)
    assert plan.quadratic == expected


def test_taken_up_to_a_number_of_columns_and_not_with_losses_along_the_path():
    for d in (MAX_COLUMNS, MAX_COLUMNS + 1):
        problem = Problem(Squared(), L1Ball(1.0), 10**5, d)
        assert is_quadratic(problem, L1Ball(1.0), 10**4, 1.0) == (d == MAX_COLUMNS)
    problem, ball, weight, scale = Problem(Squared(), None, 1000, 5), L1Ball(1.0), *STEPS
    for stop_rho in (0.0, 0.1):
        plan = path_module.plan_vertices(problem, ball, weight, scale, 1.0, stop_rho=stop_rho)
        assert plan.quadratic == (plan.cap == 0.0) == (stop_rho == 0.0)


# ------------------------------------------------------------------------------ rounding


def exact_scores(constraint, A, y, chosen, weight, scale):
    """Products of the vertices with the gradient at ``scale`` times the sum, as fractions."""
    A = [[Fraction(x) for x in row] for row in A.tolist()]
    D = len(A[0])
    V = np.empty((n_vertices(constraint, D), D))
    for k, v in enumerate(V):
        path_module.vertex(constraint, k, v)
    V = [[Fraction(x) for x in v] for v in V.tolist()]
    count = [Fraction(0)] * len(V)
    for k, a in zip(chosen.tolist(), weight, strict=True):
        count[k] += Fraction(a)
    w = [Fraction(scale) * sum(c * v[j] for c, v in zip(count, V, strict=True)) for j in range(D)]
    R = [sum(map(Fraction.__mul__, x, w)) - Fraction(t) for x, t in zip(A, y.tolist(), strict=True)]
    g = [sum(x[j] * r for x, r in zip(A, R, strict=True)) for j in range(D)]
    return [sum(map(Fraction.__mul__, v, g)) for v in V]


@pytest.mark.parametrize("solver", [FrankWolfe(), Stagewise()])
@pytest.mark.parametrize("constraint", [L1Ball(1.7), Polytope(CORNERS[:, :3].copy())])
def test_scores_after_thousands_of_steps(solver, constraint):
    """Within what the plan charges, of fractions."""
    if isinstance(solver, Stagewise) and isinstance(constraint, Polytope):
        solver = FrankWolfe("laplace")
    n, d, T = 40, 3, 4000
    X, y = records(n, d)
    A = clipped_rows(as_design(X, BOUNDS[:d], False))
    problem = Problem(Squared(), constraint, n, d)
    path = planned(solver, problem, T, 50.0)
    assert path.quadratic
    C, c = gram_module.moment_sums(as_design(X, BOUNDS[:d], False), y, 1.0)
    w, product, G = np.zeros(d), np.zeros(d), np.empty(d)
    chosen, progress = np.zeros(T, dtype=np.int64), np.zeros(1, dtype=np.int64)
    scores = np.empty(n_vertices(constraint, d))
    units = np.empty(len(scores), dtype=np.int64)
    weight, scale = np.array(path.weight), np.array(path.scale)
    gram_module.gram_path(
        C, c, constraint, weight, scale, np.array(path.grid), path.mechanism, seeded(), w, product,
        chosen, progress, G, scores, units,
    )  # fmt: skip
    assert len(np.unique(chosen)) > 2
    # ``scores`` are those before the last step.
    exact = exact_scores(constraint, A, y, chosen[:-1], path.weight[:-1], path.scale[T - 1])
    error = max(abs(Fraction(s) - e) for s, e in zip(scores.tolist(), exact, strict=True))
    roundings = d + gram_roundings(d, T)
    bound = summation_error(n + roundings, path.slope[-1], depth_of(n) + roundings)
    assert 0 < error <= constraint.norm_bound() * bound


def test_the_charge_covers_the_additions_of_many_steps(monkeypatch):
    """One vertex: each addition errs to the same side, more than full passes over n records do."""
    T, n, size = 100_000, 1023, 1.0
    problem = Problem(Squared(), Simplex(size), n, 1)
    weight, scale = np.full(T, 0.1), np.full(T + 1, 1.0)
    path = path_module.plan_vertices(problem, Simplex(size), weight, scale, 1.0)
    monkeypatch.setattr(path_module, "is_quadratic", lambda *_: False)
    passes = path_module.plan_vertices(problem, Simplex(size), weight, scale, 1.0)
    assert path.quadratic
    assert not passes.quadratic
    one = np.zeros(1)
    product, chosen, scores = np.zeros(1), np.zeros(T, dtype=np.int64), np.empty(1)
    gram_module.gram_path(
        np.full((1, 1), float(n)), np.zeros(1), Simplex(size), weight, scale, np.array(path.grid),
        path.mechanism, seeded(), np.zeros(1), product, chosen, np.zeros(1, dtype=np.int64), one,
        scores, np.empty(1, dtype=np.int64),
    )  # fmt: skip
    error = abs(float(Fraction(scores[0]) - n * (T - 1) * Fraction(0.1)))
    assert error > 1e-6
    epsilon0, largest = Exponential().epsilon0(1.0 / T), 0.1 * (T - 1) + 1.0

    def needed(error):
        return exponential_grid(4.0 * size * (largest + error), epsilon0, n * largest)

    assert passes.grid[-1] < needed(error) < path.grid[-1]


def test_the_sums_themselves():
    """Features and targets within their bounds; NaN, which is refused before, spoils no sum."""
    X = np.array([[2.0, 0.3, math.nan], [-0.5, -9.0, 0.1], [0.0, 0.25, -0.2]])
    y = np.array([5.0, -0.5, math.nan])
    A = np.array([[1.0, 0.6, 1.0, 1.0], [-0.5, -1.0, 0.5, 1.0], [0.0, 0.5, -1.0, 1.0]])
    bounds = np.array([1.0, 0.5, 0.2])
    for rows in (X, sparse.csr_matrix(X)):
        C, c = gram_module.moment_sums(as_design(rows, bounds, True, checked=True), y, 2.0)
        assert C == pytest.approx(A.T @ A, abs=1e-15)
        assert c == pytest.approx(A.T @ [2.0, -0.5, 2.0], abs=1e-15)
    C, c = gram_module.moment_sums(as_design(X[:0], bounds, True), y[:0], 2.0)
    assert not C.any()
    assert not c.any()


# ------------------------------------------------------------------------------ neighbours


class Forced(NamedTuple):
    """A selection that keeps its scores and returns what it is told to."""

    choices: tuple
    log: list


@select.register(Forced)
def _(mechanism, rng, scores):
    mechanism.log.append(scores.copy())
    return mechanism.choices[len(mechanism.log) - 1]


KITE = Polytope(np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 2.0], [0.0, -2.0], [0.5, 0.5]]))


@pytest.mark.parametrize(
    ("solver", "loss", "constraint", "intercept"),
    [
        (FrankWolfe(), Squared(), L1Ball(2.0), True),
        (FrankWolfe("laplace"), Squared(3.1), KITE, False),
        (FrankWolfe(), Squared(9.0), Simplex(1.5), False),
        (Stagewise(), Squared(), L1Ball(1.5), True),
    ],
)
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_scores_change_by_what_is_charged(solver, loss, constraint, intercept, layout, monkeypatch):
    """Brute force over extreme neighbours, beyond all bounds, and all earlier choices."""
    monkeypatch.setattr(gram_module, "gram_path", gram_module.gram_path.py_func)
    n, T, d = 2, 3, 2 - intercept
    problem = Problem(loss, constraint, n, 2, intercept)
    path = planned(solver, problem, T, 0.5)
    assert path.quadratic
    epsilon0 = path.event.event.epsilon0
    extreme = list(itertools.product(itertools.product([-9.0, 0.0, 9.0], repeat=d), [-5.0, 5.0]))
    worst = np.zeros(T)
    for choices in itertools.product(range(n_vertices(constraint, 2)), repeat=T - 1):
        for rest in extreme[:3]:
            logs = []
            for record in extreme:
                X, y = (np.array(part) for part in zip(record, rest, strict=True))
                forced = dataclasses.replace(path, mechanism=Forced((*choices, 0), []))
                follow(
                    forced, problem, constraint, layout, (X, y), bounds=np.full(d, 0.5),
                    intercept=intercept,
                )  # fmt: skip
                logs.append(forced.mechanism.log)
            for t, group in enumerate(np.array(logs).transpose(1, 0, 2)):
                change = np.ptp(group[:, None] - group[None], axis=2).max()
                worst[t] = max(worst[t], change / (epsilon0 * ONE))
    assert worst.max() <= 1.0
    assert worst.min() > 0.5  # half of the noise would not pass


# ------------------------------------------------------------------------------ use


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_without_noise_the_optimum_is_found(layout):
    """Frank-Wolfe errs by at most 2 Gamma / (T + 1); scikit-learn's Lasso is its optimum."""
    n, d, T, alpha = 500, 8, 20_000, 0.02
    X, y = records(n, d, seed=3)
    bounds = np.full(d, 1.5)
    A = X / bounds
    lasso = Lasso(alpha=alpha, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(A, y)
    radius = float(np.abs(lasso.coef_).sum())
    ball = L1Ball(radius)
    problem = Problem(Squared(), ball, n, d)
    path = planned(FrankWolfe(), problem, T, 1e12)
    assert path.quadratic
    coef, _ = follow(path, problem, ball, layout, (X, y), bounds=bounds)

    def risk(w):
        return 0.5 * np.mean((A @ w - y) ** 2)

    excess = risk(coef) - risk(lasso.coef_)
    assert -1e-9 < excess < 2.0 * Squared().curvature_constant(2.0 * radius) / (T + 1)
    assert coef == pytest.approx(lasso.coef_, abs=1e-2)
    assert risk(np.zeros(d)) - risk(lasso.coef_) > 0.05
