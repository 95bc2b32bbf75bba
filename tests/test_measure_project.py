"""Synthetic data from one noisy measurement: contrasts, plans, accuracy."""

import itertools
import math

import numpy as np
import pytest
from cases import each
from query_answers import BUDGET, error_of, planted, run, skewed, true_answers
from scipy.special import softmax

from skdpsco.privacy import Budget, GaussianEvent
from skdpsco.privacy.spending import Allowance, check_cost
from skdpsco.solvers import SelectMeasure
from skdpsco.solvers.synthesis import (
    contrasts as _contrasts,
)
from skdpsco.solvers.synthesis import (
    product_mixture_fit as _latent_class,
)
from skdpsco.solvers.synthesis.contrasts import (
    helmert,
    interchangeable,
    largest_move,
    n_contrasts,
    positions,
    scales,
    sensitivity,
    synthesis,
    worth_of_subsets,
)
from skdpsco.solvers.synthesis.distributions import Histogram, ProductMixture
from skdpsco.solvers.synthesis.measure_project import MeasureProject
from skdpsco.solvers.synthesis.possible_records import linked_columns
from skdpsco.solvers.synthesis.workload import LinearQueries, Marginals, QueryProblem

SHAPE = (2, 3, 1, 4)


def contrasts_of_cells(shape):
    """Row i: all contrasts of a record in cell i."""
    n_cells = math.prod(shape)
    units = np.eye(n_cells).reshape(n_cells, *shape)
    return np.array([(scales(shape) * helmert(unit)).ravel() for unit in units])


@each("shape", [SHAPE, (5,), (2, 2, 2), (1,)])
def test_contrasts_are_orthogonal(shape):
    contrasts = contrasts_of_cells(shape)
    n_cells = len(contrasts)
    assert contrasts.T @ contrasts / n_cells == pytest.approx(np.eye(n_cells), abs=1e-12)
    assert contrasts[:, 0] == pytest.approx(1)
    p = np.random.default_rng(0).normal(size=shape)
    back = synthesis(scales(shape) * (scales(shape) * helmert(p))) / n_cells
    assert back == pytest.approx(p)


def test_counts_have_whole_contrasts():
    counts = np.random.default_rng(1).integers(0, 1000, (3, 4, 2))
    found = helmert(counts)
    assert found.dtype == counts.dtype
    assert found[0, 0, 0] == counts.sum()
    assert found[2, 0, 0] == (counts[0] + counts[1] - 2 * counts[2]).sum()
    assert np.array_equal(helmert(counts, 2)[..., 1], helmert(counts[..., 1]))


def test_tables_share_contrasts():
    """A contrast of a subset can be taken from any table that has its columns."""
    p = np.random.default_rng(2).random(SHAPE)
    whole = Histogram(p.ravel(), SHAPE)
    for table in itertools.combinations(range(4), 3):
        marginal = whole.marginal(table)
        of_table = (scales(marginal.shape) * helmert(marginal)).ravel()
        for subset in itertools.combinations(table, 2):
            own = whole.marginal(subset)
            expected = (scales(own.shape) * helmert(own))[1:, 1:].ravel()
            assert len(expected) == n_contrasts(subset, SHAPE)
            assert of_table[positions(table, subset, SHAPE)] == pytest.approx(expected)


def brute_force(shape, squares):
    everything = tuple(range(len(shape)))
    contrasts = contrasts_of_cells(shape)
    parts = [
        math.sqrt(w) * contrasts[:, positions(everything, subset, shape)]
        for subset, w in squares.items()
    ]
    features = np.concatenate(parts, axis=1)
    return max(np.linalg.norm(features - one, axis=1).max() for one in features)


@pytest.mark.parametrize(
    ("shape", "tables"),
    [
        ((2,) * 6, 3),
        ((2,) * 6, 6),
        ((3, 3, 3), 2),
        ((2, 3, 3, 1, 2), 3),
        ((5,), 1),
        ((2, 3, 4), [(0, 2), (1,)]),
        ((2, 2, 3, 2), [(0, 1, 2), (2, 3), (1, 3)]),
    ],
)
@pytest.mark.parametrize("weights", ["ones", "values", "random"])
def test_sensitivity_is_the_largest_distance_of_two_cells(monkeypatch, shape, tables, weights):
    problem = QueryProblem(shape, Marginals(tables), 10)
    worth, rng = worth_of_subsets(problem), np.random.default_rng(3)
    squares = {
        subset: {"ones": 1.0, "values": value, "random": rng.random()}[weights]
        for subset, value in worth.items()
    }
    exact = brute_force(shape, squares)
    ways = {False, weights != "random" and interchangeable(problem)}
    for alike in ways:
        assert exact <= sensitivity(shape, squares, alike) <= exact * (1 + 1e-8)
    monkeypatch.setattr(_contrasts, "MAX_PATTERNS", 1)
    assert exact <= sensitivity(shape, squares) * (1 + 1e-12)
    for subset, w in squares.items():
        move = math.sqrt(w * largest_move(subset, shape))
        assert brute_force(shape, {subset: w}) == pytest.approx(move)


@pytest.mark.parametrize("tables", [2, 3, [(3, 0), (1,), (2, 1, 0)]])
def test_values_of_subsets(tables):
    """They are those of the same queries as a matrix, and by their definition."""
    workload = Marginals(tables)
    units = np.eye(24)
    matrix = np.array([Histogram(unit, SHAPE).answers(workload) for unit in units]).T
    found = worth_of_subsets(QueryProblem(SHAPE, workload, 10))
    assert found == pytest.approx(worth_of_subsets(QueryProblem(SHAPE, LinearQueries(matrix), 10)))
    effects = matrix @ contrasts_of_cells(SHAPE) / 24  # of one unit of every contrast
    for subset, value in found.items():
        at = positions(tuple(range(4)), subset, SHAPE)
        assert np.square(effects[:, at]).sum() == pytest.approx(value)
    scaled = worth_of_subsets(QueryProblem(SHAPE, LinearQueries(1e9 * matrix), 10))
    assert scaled == pytest.approx({subset: 1e18 * value for subset, value in found.items()})


@pytest.mark.parametrize(
    ("shape", "workload", "strategy"),
    [
        ((2,) * 10, Marginals(3), "contrasts"),
        ((2,) * 10, Marginals(10), "cells"),
        ((7,), Marginals(1), "cells"),
        ((1,), Marginals(1), "cells"),
        ((2,) * 8, LinearQueries(np.random.default_rng(4).choice([-1, 1], (500, 256))), "cells"),
        ((2,) * 8, LinearQueries(np.random.default_rng(4).choice([-1, 1], (2, 256))), "queries"),
        ((2,) * 30, Marginals(3), "contrasts"),
        ((2,) * 40 + (1,), Marginals([(40,)]), "contrasts"),  # nothing is asked
    ],
)
def test_plans(shape, workload, strategy):
    problem = QueryProblem(shape, workload, 10_000)
    plan = MeasureProject().plan(problem, BUDGET)
    assert plan.strategy == strategy
    assert plan.event == GaussianEvent(1 / BUDGET.mu)
    check_cost(plan.event, BUDGET)
    assert plan.n_iter == 1
    assert str(plan.summary[0]).endswith("measured at once")
    off = np.sqrt(plan.error / problem.n_answers)
    assert plan.summary[1] == f"answers are off by about {off:.2g}"
    again = MeasureProject().plan(problem, Allowance(BUDGET.rho), 1)
    check_cost(again.event, Allowance(BUDGET.rho))
    assert again.grid > plan.grid  # zCDP pays for less than the Gaussian curve


def test_plans_that_are_refused():
    problem = QueryProblem((2, 2), Marginals(1), 100)
    with pytest.raises(ValueError, match=r"n_iter must be 'auto' .* or 1, got 2"):
        MeasureProject().plan(problem, BUDGET, 2)
    # Tables of few columns may have the most cells.
    tables = Marginals([(0, 1), *((j, 2, 3, 4) for j in (0, 1))])
    for solver in (MeasureProject(), SelectMeasure()):
        with pytest.raises(ValueError, match="is too large"):
            solver.plan(QueryProblem((999, 999, 2, 2, 2), tables, 2**34), BUDGET)
    with pytest.raises(ValueError, match="more than one value"):
        MeasureProject().plan(QueryProblem((1,) * 31, Marginals(1), 100), BUDGET)


@pytest.mark.parametrize("unit", [1e-170, 1e-310, 5e-324])
def test_tiny_queries(unit):
    """Their squares underflow."""
    matrix = unit * np.array([[1.0, 0, 0, 0], [0, 1, 1, 0]])
    problem = QueryProblem((2, 2), LinearQueries(matrix), 100)
    result = run(MeasureProject(), problem, np.zeros((100, 2), dtype=int), Budget(1e5, 1e-6))[1]
    assert result.answers == pytest.approx([unit, 0], abs=1e-2 * unit)


def test_a_model_of_few_wide_columns_follows_their_tables():
    """A domain of more than 2**20 cells: samples come from the model, not from the answers."""
    rng, k = np.random.default_rng(0), 40
    x = rng.normal(size=(30_000, 2)) @ rng.normal(size=(2, 4)) + 0.5 * rng.normal(size=(30_000, 4))
    codes = np.clip((x + 3.0) / 6.0 * k, 0, k - 1).astype(int)
    problem = QueryProblem((k,) * 4, Marginals([(0, 1), (0, 2), (0, 3)]), len(codes))
    model = run(MeasureProject(), problem, codes, Budget(10.0, 1e-6))[1].distribution
    found = np.concatenate([model.marginal((0, j)).ravel() for j in (1, 2, 3)])
    # The total variation is .050 with a spread of .002, and .22 for three components.
    assert np.abs(found - true_answers(problem, codes)).sum() / 6.0 < 0.07


def test_accuracy_of_marginals():
    """All 960 cells of three-way tables of 10 columns, 10,000 records; 0.008 without a model."""
    problem = QueryProblem((2,) * 10, Marginals(3), 10_000)
    codes = [planted(seed, 10, 10_000) for seed in range(5)]
    errors = [error_of(MeasureProject(), problem, one, seed=k) for k, one in enumerate(codes)]
    assert np.mean(errors) < 0.0070


@pytest.mark.parametrize("n_samples", [50, 500])
@pytest.mark.parametrize(
    ("shape", "workload"), [((4,) * 5, Marginals(3)), ((5, 16, 2, 16, 3, 16, 16), Marginals(2))]
)
def test_noise_alone_leaves_the_uniform_distribution(shape, workload, n_samples):
    """More than two standard deviations of it are rare."""
    problem, distances = QueryProblem(shape, workload, n_samples), []
    codes = skewed(n_samples, shape)
    for seed in range(4):
        found = run(MeasureProject(), problem, codes, Budget(0.01, 1e-6), seed)[1].distribution
        for j, size in enumerate(shape):
            distances.append(np.abs(found.marginal((j,)) - 1.0 / size).sum() / 2.0)
    assert np.median(distances) < 0.01
    assert np.max(distances) < 0.2


@pytest.mark.parametrize("linked", [False, True])
def test_gradient_of_the_model(linked):
    """Contrasts of the mixture are those of its table, and the gradient is that of the value."""
    shape = (2, 3, 1, 4)
    rng = np.random.default_rng(6)
    subsets = tuple(worth_of_subsets(QueryProblem(shape, Marginals(3), 1)))
    forbidden = {0: np.array([True, False]), 3: np.arange(4) > 1}
    possible = linked_columns([[forbidden]] if linked else [], shape)
    terms = _latent_class.terms(subsets, shape, possible)
    targets, precisions = rng.normal(size=(2, len(terms.factors)))
    assert targets.size == sum(n_contrasts(subset, shape) for subset in subsets)
    x, prior = rng.normal(size=(2, 3 * 11))

    def value(x, targets=targets):
        return _latent_class.objective(x, 3, terms, targets, precisions**2, prior)

    steps = 1e-6 * np.eye(len(x))
    numerical = [(value(x + step)[0] - value(x - step)[0]) / 2e-6 for step in steps]
    assert value(x)[1] == pytest.approx(np.array(numerical), abs=1e-7)

    p, logits = softmax(x[:3]), np.split(x[3:].reshape(3, -1), [2, 5, 6], axis=1)
    model = ProductMixture(p, tuple(softmax(one, axis=1) for one in logits))
    for part in possible:
        model = model.within(part)
    table = model.histogram().p.reshape(shape)
    assert linked == (table[0, :, :, 2:].sum() == 0.0)
    contrasts = scales(shape) * helmert(table)
    exact = [contrasts.flat[positions((0, 1, 2, 3), s, shape)] for s in subsets]
    least = 0.1 * np.square(x - prior).sum()  # MIXTURE.ridge / 2
    assert value(x, np.concatenate(exact))[0] == pytest.approx(least)
