"""How records are cut into pieces and sums over them added up, and how far rounding then goes.

Both follow from the sizes of the data alone, so that sums do not depend on who computes them.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from skdpsco._block_sources import cuts
from skdpsco._design import CSR, Dense
from skdpsco.mechanisms import summation_error

FAN_IN = 64  # terms that are added one after the other, at every level of the tree
PIECE_ROWS = 2**16  # records of a piece at most, which a function may add one after the other
PIECE_WORK = 2**21  # entries of a piece, about: far more time than a thread takes to begin
LEAST_ROWS = 1024  # of a piece
TREE = 1024  # terms on the way up: two trees of up to 8 levels, of the pieces and of the blocks


def work(X: Dense | CSR) -> int:
    """About how many dense entries take as long to read."""
    return X.values.size if isinstance(X, Dense) else 8 * int(X.indptr[-1] - X.indptr[0])


def pieces(X: Dense | CSR, y: np.ndarray) -> list[tuple[Dense | CSR, np.ndarray]]:
    """Runs of records, one at least; views.

    The number of entries of sparse records is not public. Only the rounding of sums follows from
    where they are cut, which `sum_error` covers.
    """
    n, size = len(y), max(work(X), 1)
    wanted = PIECE_WORK
    if isinstance(X, CSR):
        wanted = max(wanted, 64 * len(X.bounds))  # a sum has an entry for every column
    rows = min(max(wanted * n // size, LEAST_ROWS), PIECE_ROWS)
    if n <= rows:
        return [(X, y)]
    return [(_rows(X, start, stop), y[start:stop]) for start, stop in cuts(n, rows)]


def _rows(X: Dense | CSR, start: int, stop: int) -> Dense | CSR:
    if isinstance(X, Dense):
        return X._replace(values=X.values[start:stop])
    indptr = X.indptr[start : stop + 1]
    some = slice(indptr[0], indptr[-1])
    return X._replace(data=X.data[some], indices=X.indices[some], indptr=indptr - indptr[0])


def add(terms: Iterable[Any]) -> Any:
    """Sum from left to right of arrays, or of tuples of arrays."""
    total: Any = None
    for term in terms:
        if total is None:
            # A copy: a term may be an array that somebody else holds.
            total = tuple(map(np.array, term)) if isinstance(term, tuple) else np.array(term)
        elif isinstance(term, tuple):
            total = tuple(a + b for a, b in zip(total, term, strict=True))
        else:
            total = total + term
    return total


def tree_sum(terms: Iterable[Any]) -> Any:
    """Sum of runs of `FAN_IN` terms, then of runs of such sums, until there is one."""
    while True:
        iterator = iter(terms)
        sums: list[Any] = []
        while (total := add(islice(iterator, FAN_IN))) is not None:
            sums.append(total)
        if len(sums) == 1:
            return sums[0]
        terms = sums


def depth_of(n_samples: int) -> int:
    """In how many additions a term takes part, of a sum over records by `map_reduce`."""
    return min(n_samples, PIECE_ROWS) + TREE


def sum_error(n_samples: int, bound: float, terms: int = 1) -> float:
    """Bound on the error of `map_reduce` for sums of ``terms`` numbers within +-bound per record.

    The terms of a record are added first. The error grows with n, not with its square.
    """
    return summation_error(n_samples * terms, bound, depth_of(n_samples) + terms)
