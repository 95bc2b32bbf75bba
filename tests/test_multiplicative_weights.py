"""Synthetic data from drawn queries alone: plans, bounds, accuracy."""

import math

import numpy as np
import pytest
from query_answers import BUDGET, error_of, planted

from skdpsco.privacy import rho_of
from skdpsco.privacy.spending import check_cost
from skdpsco.solvers import MultiplicativeWeights
from skdpsco.solvers.synthesis import multiplicative_weights
from skdpsco.solvers.synthesis import workload as _workload
from skdpsco.solvers.synthesis.multiplicative_weights import VARIANTS
from skdpsco.solvers.synthesis.workload import LinearQueries, Marginals, QueryProblem

each_variant = pytest.mark.parametrize("variant", VARIANTS)


@pytest.mark.parametrize(
    ("shape", "workload", "factor"),
    [
        ((2,) * 6, Marginals(3), 0.5),
        ((2, 3, 1, 4), Marginals([(3, 0), (1,), (2, 1, 0)]), 0.5),
        ((5,), Marginals(2), 0.5),
        ((2,) * 5, LinearQueries(np.random.default_rng(0).choice([-3, 1], (50, 32))), 2.0),
    ],
)
@each_variant
def test_schedule_spends_the_budget_and_minimises_the_bound(variant, shape, workload, factor):
    problem, solver = QueryProblem(shape, workload, 2000), MultiplicativeWeights(variant)
    plan = solver.plan(problem, BUDGET)
    check_cost(plan.event, BUDGET)
    assert rho_of(plan.event) == pytest.approx(BUDGET.rho)
    T, n, rho = plan.n_iter + 1, 2000, BUDGET.rho
    log_cells, log_queries = math.log(problem.n_cells), math.log(2 * problem.n_answers)
    if variant == "best-response":
        eta = n * math.sqrt(rho / (2 * (T - 1)))
        bound = math.sqrt(2 * log_cells / T) + log_queries / eta
    else:
        tau = n * math.sqrt(3 * rho / ((T - 2) * (T - 1) * (2 * T - 3)))
        bound = math.sqrt(2 * log_cells / T) + log_queries / (tau * T) + 2 * tau
    assert plan.error == pytest.approx(factor * bound, rel=1e-4)  # up to rounding to grids
    for other in (plan.n_iter - 1, plan.n_iter + 1):
        assert solver.plan(problem, BUDGET, other).error >= plan.error
    assert solver.plan(problem, BUDGET, plan.n_iter) == plan


@pytest.mark.parametrize(("variant", "limit"), [("best-response", 0.02), ("mirror-descent", 0.06)])
def test_accuracy_of_marginals(variant, limit):
    """The uniform distribution errs by 0.2."""
    codes = planted(0, 8, 10_000)
    problem = QueryProblem((2,) * 8, Marginals(2), 10_000)
    solver = MultiplicativeWeights(variant)
    assert error_of(solver, problem, codes) < limit
    plan = solver.plan(problem, BUDGET)
    assert limit < plan.error  # which is for the worst case


def test_what_is_refused(monkeypatch):
    problem = QueryProblem((2, 2), Marginals(1), 100)
    solver = MultiplicativeWeights()
    with pytest.raises(ValueError, match="variant must be one of"):
        MultiplicativeWeights("mwem")
    with pytest.raises(ValueError, match=r"shape must have at most 1048576 cells.*SelectMeasure"):
        solver.plan(QueryProblem((2,) * 21, Marginals(1), 100), BUDGET)
    with pytest.raises(ValueError, match="and 30 columns for MultiplicativeWeights, got 1 and 31"):
        solver.plan(QueryProblem((1,) * 31, Marginals(1), 100), BUDGET)
    # A longer run than the work allows is not planned, but may be asked for.
    tuning = multiplicative_weights.WEIGHTS._replace(work=80)
    monkeypatch.setattr(multiplicative_weights, "WEIGHTS", tuning)
    assert solver.plan(QueryProblem((2, 2), Marginals(1), 10**6), BUDGET).n_iter == 16
    assert solver.plan(problem, BUDGET, 17).n_iter == 17


def test_the_largest_domain():
    shape = (2,) * 20
    assert math.prod(shape) == _workload.DENSE_CELLS
    problem = QueryProblem(shape, Marginals(1), 1000)
    codes = np.zeros((1000, 20), dtype=int)
    assert error_of(MultiplicativeWeights(), problem, codes, n_iter=40) < 0.5 - 0.05
