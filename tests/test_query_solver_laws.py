"""What holds for every solver of queries: one test of each law, over a table of solvers."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from cases import each
from query_answers import error_of, run, skewed

from skdpsco.privacy import Budget
from skdpsco.solvers import MultiplicativeWeights, SelectMeasure
from skdpsco.solvers.synthesis.measure_project import MeasureProject
from skdpsco.solvers.synthesis.multiplicative_weights import VARIANTS
from skdpsco.solvers.synthesis.workload import LinearQueries, Marginals, QueryProblem

FACTORED = MeasureProject(), SelectMeasure()  # for domains of any size
DRAWN = [MultiplicativeWeights(variant) for variant in VARIANTS]
LARGE = (3,) * 14, Marginals([(0, 5), (13,)])


def signs(n_queries, n_cells):
    return LinearQueries(np.random.default_rng(5).choice([-1, 1], (n_queries, n_cells)))


def released(solver, problem, codes, epsilon, **options):
    return run(solver, problem, codes, Budget(epsilon, 1e-6), **options)[1]


@each("n", [1, 2, 30])
@each("epsilon", [1e-3, 1.0, 1e4])
@each(
    ("shape", "workload"),
    [
        ((2, 3, 1, 2), Marginals(2)),
        ((4,), Marginals(1)),
        ((1,), Marginals(1)),
        ((1, 1), LinearQueries([[2.0]])),
        ((2, 2), LinearQueries(np.zeros((2, 4)))),
        ((2, 2), LinearQueries([[1e20, 0, 0, 0]])),
        LARGE,
    ],
)
@each("solver", [*FACTORED, *DRAWN])
def test_whatever_the_noise_is_a_distribution_comes_out(solver, shape, workload, n, epsilon):
    if shape is LARGE[0] and solver not in FACTORED:
        return
    problem, n_iter = QueryProblem(shape, workload, n), 9 if solver in DRAWN else None
    result = released(solver, problem, skewed(n, shape), epsilon, n_iter=n_iter)
    assert np.isfinite(result.answers).all()
    if problem.dense:
        assert np.array_equal(result.answers, result.distribution.answers(workload))
        tables = [result.distribution.p]
    elif isinstance(solver, SelectMeasure):
        tables = [histogram.p for histogram in result.distribution.histograms]
    else:
        tables = [result.distribution.weights, *result.distribution.probabilities]
    for p in tables:
        assert p.min() >= 0
        assert p.sum(axis=-1) == pytest.approx(1)
    sample = result.distribution.sample(10, np.random.default_rng(0))
    assert (sample >= 0).all()
    assert (sample < shape).all()


@pytest.mark.parametrize(
    ("shape", "workload", "n_iter"),
    [
        ((2,) * 6, Marginals(3), 20),
        ((2, 3, 5, 1, 4), Marginals([(4, 0), (3,), (2, 1, 0)]), 10),
        ((2, 3, 5, 1, 4), Marginals(5), 26),
        ((9,), Marginals(2), None),
        ((2,) * 5, signs(20, 32), 20),
        ((2,) * 21, Marginals([(0, 1, 2), (2, 3), (20, 9)]), 10),
    ],
)
def test_little_noise_gives_the_answers_of_the_data(shape, workload, n_iter):
    codes, problem = skewed(5000, shape), QueryProblem(shape, workload, 5000)
    runs = [*zip(FACTORED, (None, n_iter), (2e-4, 3e-3), strict=True)]
    if len(shape) < 6:
        runs += [(solver, 4000, 0.031) for solver in DRAWN]
    for solver, steps, error in runs:
        options = {"budget": Budget(1e6, 1e-6), "n_iter": steps}
        assert error_of(solver, problem, codes, **options) < error


@each("solver", [*FACTORED, *DRAWN])
def test_the_same_generator_gives_the_same_release(solver):
    codes, problem = skewed(500, (2,) * 6), QueryProblem((2,) * 6, Marginals(2), 500)
    first, second, other = (
        released(solver, problem, codes, 1.0, seed=seed).answers for seed in (1, 1, 2)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


@each("solver", [SelectMeasure(), *DRAWN])
@each("n_iter", [0, -3, 1.5, "5", True])
def test_numbers_of_steps_that_are_refused(solver, n_iter):
    error = ValueError if type(n_iter) is int else TypeError
    with pytest.raises(error, match="n_iter must be an int >= 1"):
        solver.plan(QueryProblem((2, 2), Marginals(2), 100), Budget(1.0, 1e-6), n_iter)


@each("solver", [*FACTORED, DRAWN[0]])  # the other would then draw nothing
def test_noise_that_no_grid_can_offer_is_refused(solver):
    with pytest.raises(ValueError, match="too large for the grid"):
        solver.plan(QueryProblem((2, 2), Marginals(2), 100), SimpleNamespace(rho=5e-19, mu=1e-9))
    if solver in FACTORED:
        with pytest.raises(ValueError, match="n_samples=4503599627370496 is too large"):
            solver.plan(QueryProblem((2, 2), Marginals(2), 2**52), Budget(1.0, 1e-6))


@each(("solver", "error"), zip(FACTORED, (0.03, 1.0), strict=True))
def test_large_domains_need_little_memory(solver, error):
    """2**30 cells; where everything is measured, a release that is close to the data."""
    codes, problem = skewed(10_000, (2,) * 30), QueryProblem((2,) * 30, Marginals(2), 10_000)
    tracemalloc.start()
    found = error_of(solver, problem, codes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6
    assert found < error
