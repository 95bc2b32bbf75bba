"""Queries of users about the columns or cells of a domain."""

from numbers import Real
from typing import Any

import numpy as np

from skdpsco._validation import check_positive_int
from skdpsco.solvers.synthesis.workload import LinearQueries, Marginals, QueryProblem
from skdpsco.synthesis.domain import Domain


def legal(name: str, make: Any, *arguments: Any) -> Any:
    """Return ``make(*arguments)``; its errors name the parameter ``name``."""
    try:
        return make(*arguments)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} is not legal. {error}") from error


def problem_of(name: str, domain: Domain, workload: Any, n_samples: int = 1) -> QueryProblem:
    """A workload on a domain, checked."""
    return legal(name, QueryProblem, domain.shape, workload, n_samples)


def workload_of(workload: Any, order: Any, domain: Domain) -> Any:
    """The queries for which the parameters ask.

    Raises
    ------
    TypeError, ValueError
        If the parameters do not state legal queries on the domain.
    """
    order = check_positive_int("order", order)
    if isinstance(workload, np.ndarray):
        return legal("workload", LinearQueries, workload)
    if isinstance(workload, str) and workload == "marginals":
        return Marginals(order)
    if isinstance(workload, (list, tuple)) and len(workload) > 0:
        if all(map(callable, workload)):
            return legal("workload", LinearQueries, tabulate("workload", workload, domain))
        if all(isinstance(table, (list, tuple)) for table in workload):
            return legal("workload", lambda: Marginals([domain.positions(t) for t in workload]))
    listed = isinstance(workload, (str, list, tuple))
    # Anything else might be records, and must not be shown.
    got = repr(workload) if listed else f"an object of type {type(workload).__name__}"
    raise (ValueError if listed else TypeError)(
        "workload must be 'marginals', a list of tuples of columns, an array of shape "
        f"(n_queries, n_cells), or a list of callables; got {got}."
    )


def tabulate(name: str, functions: Any, domain: Domain) -> np.ndarray:
    """Values of functions on all cells, as an array of shape (n_functions, n_cells).

    Raises
    ------
    ValueError
        If the domain has too many cells, or a function does not return one number for each.
    """
    if not domain.dense:
        raise ValueError(
            f"{name} must be tables of columns for a domain of more than 2**20 cells or 30 columns."
        )
    cells = domain.cells()
    rows = []
    for function in functions:
        row = np.asarray(function(cells))
        if row.dtype.kind == "O" and all(isinstance(value, Real) for value in row.flat):
            row = row.astype(np.float64)  # nullable columns of frames
        if row.dtype.kind not in "biuf" or row.shape != (len(cells),):
            raise ValueError(
                f"{name} must have functions that return one number for each of {len(cells)} "
                f"cells; {function!r} returned shape {row.shape}, dtype {row.dtype}."
            )
        rows.append(row.astype(np.float64))
    return np.array(rows)
