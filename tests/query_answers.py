"""Tables of codes, and their exact answers to a workload: released ones are compared to them."""

import numpy as np

from skdpsco.solvers.synthesis.workload import LinearQueries, QueryProblem, count_table


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
