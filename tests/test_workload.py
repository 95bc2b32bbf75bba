"""Queries, their answers and sensitivities; distributions, dense and factored."""

import itertools
import math

import numpy as np
import pytest
from cases import each
from query_answers import true_answers

from skdpsco.solvers.synthesis import workload as module
from skdpsco.solvers.synthesis.distributions import Histogram, ProductMixture, nearest_distribution
from skdpsco.solvers.synthesis.workload import (
    LinearQueries,
    Marginals,
    QueryProblem,
    count_table,
)

SHAPE = (2, 3, 1, 4)
TABLES = ((3, 0), (1,), (2, 1, 0))


def cells(shape):
    return np.array(list(itertools.product(*map(range, shape))))


def a_mixture(rng, shape, n_components=3):
    columns = tuple(rng.dirichlet(np.ones(size), n_components) for size in shape)
    return ProductMixture(rng.dirichlet(np.ones(n_components)), columns)


def test_tables():
    assert Marginals(2).columns(3) == ((0, 1), (0, 2), (1, 2))
    assert Marginals(5).columns(2) == ((0, 1),)
    assert Marginals([[1, 0], [2]]).columns(3) == ((1, 0), (2,))
    assert Marginals(np.int64(2)) == Marginals(2)
    assert Marginals(TABLES).n_answers(SHAPE) == 8 + 3 + 6


@each("tables", [0, -1, [], [(0, 0)], [(-1,)], [(0, 1), (0, 1)]])
def test_tables_of_a_wrong_value(tables):
    with pytest.raises(ValueError, match="tables must"):
        Marginals(tables)


@each("matrix", [[], [1.0], [[math.nan]], [[math.inf]], [[1e200]], [[[1.0]]]])
def test_queries_of_a_wrong_value(matrix):
    with pytest.raises(ValueError, match="matrix must have"):
        LinearQueries(matrix)


def test_queries_are_a_copy():
    matrix = np.ones((1, 2))
    queries = LinearQueries(matrix)
    matrix[0, 0] = 5
    assert queries.matrix[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        queries.matrix[0, 0] = 2


@each(
    ("arguments", "message"),
    [
        (((), Marginals(1), 5), "shape must have"),
        (((2, 0), Marginals(1), 5), "size of a column must"),
        (((2,), Marginals(1), 0), "n_samples must"),
        (((2, 2), Marginals([(0, 2)]), 5), r"columns 0, ..., 1, got 2"),
        (((2, 2), LinearQueries(np.ones((1, 3))), 5), "each of the 4 cells"),
        (((2,) * 21, LinearQueries(np.ones((1, 3))), 5), "at most 1048576 cells"),
        (((1,) * 31, LinearQueries(np.ones((1, 1))), 5), "and 30 columns"),
        (((5000,) * 3, Marginals(2), 5), "fewer or smaller"),
        (((2,) * 5000, Marginals(3), 5), "fewer or smaller"),
    ],
)
def test_wrong_problems(arguments, message):
    with pytest.raises(ValueError, match=message):
        QueryProblem(*arguments)


def test_sizes_of_problems():
    problem = QueryProblem((2,) * 100, Marginals(2), 7)
    assert (problem.n_cells, problem.dense, problem.n_answers) == (2**100, False, 4950 * 4)
    assert QueryProblem((2,) * 20, Marginals(1), 7).dense


def test_true_answers():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 50) for size in SHAPE], axis=1)
    problem = QueryProblem(SHAPE, Marginals(TABLES), 50)
    expected = [
        np.mean([all(row[list(table)] == value) for row in codes])
        for table in TABLES
        for value in itertools.product(*(range(SHAPE[j]) for j in table))
    ]
    assert true_answers(problem, codes) == pytest.approx(expected, abs=1e-15)
    matrix = rng.normal(size=(5, 24))
    queries = QueryProblem(SHAPE, LinearQueries(matrix), 50)
    index = np.ravel_multi_index(codes.T, SHAPE)
    assert true_answers(queries, codes) == pytest.approx(matrix[:, index].mean(axis=1))
    assert count_table(codes, (3, 1), SHAPE).sum() == 50


@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1.0), (0.0, 1e-200), (1e10, 1.0)])
def test_sensitivity_of_queries(monkeypatch, offset, scale):
    matrix = scale * np.random.default_rng(1).normal(size=(7, 30)) + offset
    queries = LinearQueries(matrix)
    centred = queries.centred
    assert np.abs(centred).max() == 1
    assert centred.max(axis=1) == pytest.approx(-centred.min(axis=1), abs=1e-14 + offset * 1e-15)
    apart = matrix[:, :1] - matrix
    assert queries.scale * (centred[:, :1] - centred) == pytest.approx(
        apart, abs=max(scale, offset) * 1e-14
    )
    exact = max(np.linalg.norm(a - b) for a in centred.T for b in centred.T)
    assert exact <= queries.sensitivity <= exact * (1 + 1e-10)
    assert exact / 2 <= queries.reach <= exact * (1 + 1e-12)
    monkeypatch.setattr(module, "DENSE_CELLS", 40)  # in blocks
    assert LinearQueries(matrix).sensitivity == pytest.approx(queries.sensitivity, rel=1e-9)
    monkeypatch.setattr(module, "MAX_PRODUCTS", 0)
    assert exact <= LinearQueries(matrix).sensitivity < 2 * exact
    assert LinearQueries(np.full((3, 2), 7.0)).sensitivity == 0


def test_both_distributions_agree():
    mixture = a_mixture(np.random.default_rng(2), SHAPE)
    histogram = mixture.histogram()
    expected = np.zeros(24)
    for k, cell in enumerate(cells(SHAPE)):
        factors = [p[:, value] for p, value in zip(mixture.probabilities, cell, strict=True)]
        expected[k] = (mixture.weights * np.prod(factors, axis=0)).sum()
    assert histogram.p == pytest.approx(expected)
    for table in TABLES:
        assert mixture.marginal(table) == pytest.approx(histogram.marginal(table))
    for workload in (Marginals(2), Marginals(TABLES), LinearQueries(np.arange(48).reshape(2, 24))):
        assert mixture.answers(workload) == pytest.approx(histogram.answers(workload))
        problem = QueryProblem(SHAPE, workload, 24)
        uniform = Histogram(np.full(24, 1 / 24), SHAPE)
        assert uniform.answers(workload) == pytest.approx(true_answers(problem, cells(SHAPE)))


def test_samples_follow_the_distribution():
    """Each share is within 6 standard deviations: a false alarm has probability below 1e-7.

    A share that is wrong by 0.02 is 10 deviations away or more.
    """
    rng, n = np.random.default_rng(3), 100_000
    mixture = a_mixture(rng, SHAPE)
    for distribution in (mixture, mixture.histogram()):
        codes = distribution.sample(n, np.random.default_rng(4))
        assert codes.shape == (n, 4)
        problem = QueryProblem(SHAPE, Marginals(4), n)
        p = distribution.answers(problem.workload)
        error = np.abs(true_answers(problem, codes) - p)
        assert (error <= 6 * np.sqrt(p * (1 - p) / n)).all()


def test_what_has_no_probability_is_never_sampled():
    class Extreme:
        def random(self, n):
            return np.resize([0.0, 1.0 - 2.0**-53], n)

        def permutation(self, values):
            return values

    p = np.array([0.0, 0.1, 0.0, 0.3, 0.6, 0.0, 0.0])
    assert Histogram(p, (7,)).sample(4, Extreme()).ravel().tolist() == [1, 4, 4, 4]
    mixture = ProductMixture(np.array([1.0, 0.0]), (np.stack([p, p[::-1]]),))
    assert set(mixture.sample(4, Extreme()).ravel()) == {1, 4}


def test_large_domains_stay_factored():
    mixture = a_mixture(np.random.default_rng(5), (2,) * 60)
    assert mixture.sample(5, np.random.default_rng(6)).shape == (5, 60)
    assert mixture.answers(Marginals([(50, 3)])).sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="at most 1048576 cells"):
        mixture.histogram()


@pytest.mark.parametrize("variance", [1e-2, 1.0, 100.0])
def test_the_nearest_distribution_is_optimal(variance):
    """It is the base times exp(A' y), and y = (targets - A p) / variance is a multiplier."""
    rng = np.random.default_rng(7)
    A = rng.choice([-1.0, 1.0], (5, 40))
    base, inside = rng.dirichlet(np.ones(40), 2)
    variances = np.full(5, variance)
    p = nearest_distribution(base, A.__matmul__, A.T.__matmul__, A @ inside, variances, 1000)
    assert p.sum() == pytest.approx(1)
    tilted = base * np.exp(A.T @ ((A @ inside - A @ p) / variances))
    assert tilted / tilted.sum() == pytest.approx(p, abs=5e-3 * p.max())


def test_a_search_that_fails_returns_the_base():
    base = np.array([0.25, 0.75])
    targets = np.array([math.nan])
    assert np.array_equal(
        nearest_distribution(base, lambda p: p[:1], lambda y: y * base, targets, targets, 9), base
    )
