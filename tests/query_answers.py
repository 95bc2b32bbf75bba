"""Tables of codes, their exact answers to a workload, and runs of solvers that release others."""

import numpy as np

from skdpsco.privacy import Budget
from skdpsco.solvers.synthesis.workload import LinearQueries, QueryProblem, count_table

BUDGET = Budget(epsilon=1.0, delta=1e-6)


def true_answers(problem: QueryProblem, codes: np.ndarray) -> np.ndarray:
    """Answers of the records, in the order of released answers, without noise."""
    everything = tuple(range(problem.n_columns))
    if isinstance(problem.workload, LinearQueries):
        shares = count_table(codes, everything, problem.shape).ravel() / codes.shape[0]
        return problem.workload.matrix @ shares
    tables = problem.workload.columns(problem.n_columns)
    counts = [count_table(codes, table, problem.shape).ravel() for table in tables]
    return np.concatenate(counts) / codes.shape[0]


def skewed(n: int, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Records whose columns hang together."""
    rng = np.random.default_rng(seed)
    first = rng.random(n)
    columns = [np.minimum((first + rng.random(n)) / 2 * size, size - 1) for size in shape]
    return np.stack(columns, axis=1).astype(int)


def planted(seed: int, d: int, n: int) -> np.ndarray:
    """Binary records from a mixture of three products."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(3))
    p = rng.uniform(0.1, 0.9, (3, d))
    return (rng.random((n, d)) < p[rng.choice(3, n, p=weights)]).astype(int)


def run(solver, problem, codes, budget=BUDGET, seed=0, n_iter=None):
    """The plan and the result of a run with a seed."""
    plan, progress = solver.plan(problem, budget, n_iter), np.zeros(1, dtype=np.int64)
    rng = np.random.Generator(np.random.PCG64(seed))
    result = solver.run(plan, problem, codes, rng, progress)
    assert progress[0] == plan.n_iter == result.n_iter
    return plan, result


def error_of(solver, problem, codes, **options):
    """The largest error of a released answer."""
    released = run(solver, problem, codes, **options)[1].answers
    return np.abs(released - true_answers(problem, codes)).max()
