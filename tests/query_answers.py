"""The exact answers of a table to a workload, with which released answers are compared."""

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
