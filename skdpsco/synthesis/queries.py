"""Users' queries about the columns or cells of a domain."""

from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np

from skdpsco._validation import check_int, is_auto
from skdpsco.solvers.synthesis.workload import LinearQueries, Marginals, QueryProblem
from skdpsco.synthesis.domain import Domain

__all__ = ["legal", "problem_of", "tabulate", "workload_of"]


def legal(name: str, make: Any, *arguments: Any) -> Any:
    """Return ``make(*arguments)``; its errors name the parameter ``name``."""
    try:
        return make(*arguments)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} is not legal. {error}") from error


def problem_of(name: str, domain: Domain, workload: Any, n_samples: int = 1) -> QueryProblem:
    """A workload on a domain, checked."""
    return legal(name, QueryProblem, domain.shape, workload, n_samples, domain.possible)


def workload_of(workload: Any, order: Any, target: Any, domain: Domain) -> Any:
    """The queries that the parameters ask for.

    Raises
    ------
    TypeError, ValueError
        If the parameters do not state legal queries on the domain.
    """
    if is_auto(order):
        order = 3 if target is None else 2
    order = check_int("order", order, "'auto' or ")
    if target is not None and not (isinstance(workload, str) and workload == "marginals"):
        raise ValueError(
            f"target={target!r} asks for the tables that have this column: workload must then be "
            "'marginals'."
        )
    if isinstance(workload, np.ndarray):
        return legal("workload", LinearQueries, workload)
    if isinstance(workload, str) and workload == "marginals":
        if target is None:
            return Marginals(order)
        return legal("target", lambda: Marginals(_tables_with(target, order, domain)))
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


def _tables_with(target: Any, order: int, domain: Domain) -> list[tuple[int, ...]]:
    """All tables of ``order`` columns, of which one is the target.

    Raises
    ------
    ValueError
        If there is no such column.
    """
    n_columns = len(domain.shape)
    (position,) = domain.positions((target,))
    if isinstance(position, bool) or position not in range(n_columns):
        raise ValueError(
            f"It must be the name of a column, an int in [0, {n_columns - 1}] or None, got "
            f"{target!r}."
        )
    others = [column for column in range(n_columns) if column != position]
    return [(position, *some) for some in combinations(others, min(order, n_columns) - 1)]


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
