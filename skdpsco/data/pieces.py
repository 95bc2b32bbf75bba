"""How records are cut into pieces and sums over them added up, and how far rounding then goes.

Both follow from public sizes alone, so that sums depend neither on who computes them nor, but for
its term, on a record. Proof of `sum_error`: docs/proofs/noise.md, section 8.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np

from skdpsco.data.block_sources import cuts
from skdpsco.data.design import CSR, Dense
from skdpsco.mechanisms.samplers import summation_error

FAN_IN = 64  # terms that are added one after the other, at every level of the tree
PIECE_ROWS = 2**16  # records of a piece at most, which a function may add one after the other
PIECE_WORK = 2**21  # entries of a piece, about: far more time than a thread takes to begin
MANY = 64  # pieces keep threads equally busy; more would be more calls of a function
MAX_PIECE_WORK = 2**24  # some functions copy a piece
LEAST_ROWS = 1024  # of a piece
TYPICAL = 100  # entries of a sparse record, if it has room: how many it has is not public
TREE = 1024  # terms on the way up: two trees of up to 8 levels, of the pieces and of the blocks


def work(X: Dense | CSR) -> int:
    """About how many dense entries take as long to read, as far as public sizes tell."""
    if isinstance(X, Dense):
        return X.values.size
    return 8 * min(len(X.bounds), TYPICAL) * (len(X.indptr) - 1)


def pieces(X: Dense | CSR, y: np.ndarray) -> list[tuple[Dense | CSR, np.ndarray]]:
    """Runs of records, one at least; views.

    Neighbours are cut at the same records: products by BLAS may be rounded differently at another
    place of a matrix, and so would be the predictions of all records.
    """
    n, size = len(y), max(work(X), 1)
    wanted = min(max(size // MANY, PIECE_WORK), MAX_PIECE_WORK)
    if isinstance(X, CSR):
        wanted = max(wanted, 64 * len(X.bounds))  # a sum has an entry for every column
    rows = min(max(wanted * n // size, LEAST_ROWS), PIECE_ROWS)
    if n <= rows:
        return [(X, y)]
    return [(slice_rows(X, start, stop), y[start:stop]) for start, stop in cuts(n, rows)]


def slice_rows(X: Any, start: int, stop: int) -> Any:
    """Records of a design, or of an array or matrix with one row for each."""
    if isinstance(X, Dense):
        return X._replace(values=X.values[start:stop])
    if not isinstance(X, CSR):
        return X[start:stop]
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


def sum_in_runs(n_samples: int, total: Callable[[int, int], Any]) -> Any:
    """Sum over records of which ``total(start, stop)`` adds up a run, for who has no `map_reduce`.

    `sum_error` bounds its error.
    """
    runs = list(cuts(n_samples, PIECE_ROWS)) or [(0, 0)]  # what is empty has a shape too
    return tree_sum(total(start, stop) for start, stop in runs)


def depth_of(n_samples: int) -> int:
    """In how many additions a record's term takes part at most, in a sum by `map_reduce`."""
    return min(n_samples, PIECE_ROWS) + TREE


def sum_error(n_samples: int, bound: float, terms: int = 1) -> float:
    """Bound on the error of `map_reduce` for sums of ``terms`` numbers within +-bound per record.

    Of a sum of vectors of norm at most ``bound``, it bounds the norm of the error, in any l_p norm
    and whatever the dimension. It covers a rounded factor of the sum, or two for ``terms=2``.
    Beyond `PIECE_ROWS` records it grows with n, not with its square. Callers add it once for each
    of two neighbours.
    """
    return summation_error(n_samples * terms, bound, depth_of(n_samples) + terms)
