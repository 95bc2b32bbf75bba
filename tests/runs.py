"""Problems with penalties, and runs of solvers with a seed."""

import numpy as np

from skdpsco.data.design import as_design
from skdpsco.data.record_sums import BlockDesign
from skdpsco.penalties import L2
from skdpsco.solvers import Allowance, CompositeProblem, Stagewise, check_cost, check_supported

LEAST_NOISE = Allowance(1e12)  # the largest budget of an estimator


def make_problem(loss, n, d, intercept=False, penalty=None, bounds=1.0, scale=1.0):
    """A problem in the user's units: features within ``bounds``, targets within ``scale``."""
    unit = (*np.broadcast_to(scale / np.asarray(bounds), d).tolist(), *([0.0] * intercept))
    return CompositeProblem(
        loss, None, n, d + intercept, intercept,
        penalty=penalty or L2(0.01), unit=unit, weight=scale**-2.0,
    )  # fmt: skip


def run(solver, plan, problem, X, y, seed=0, bounds=1.0):
    """What a run returns; its progress is public."""
    if not isinstance(X, BlockDesign):
        bounds = np.broadcast_to(np.asarray(bounds, float), X.shape[1]).copy()
        X = as_design(X, bounds, problem.intercept)
    progress, rng = np.zeros(1, dtype=np.int64), np.random.Generator(np.random.PCG64(seed))
    result = solver.run(plan, problem, X, y, rng, progress)
    assert progress[0] == plan.n_iter == result.n_iter or isinstance(solver, Stagewise)
    return result


def solve(solver, problem, X, y, budget=LEAST_NOISE, n_iter=None, **options):
    """What a run returns that keeps to a budget."""
    check_supported(solver, problem)
    plan = solver.plan(problem, budget, n_iter)
    check_cost(plan.event, budget)
    return run(solver, plan, problem, X, y, **options)
