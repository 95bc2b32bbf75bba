"""How records are cut into pieces, how sums over them are added up, and how much rounding adds.

The pieces and the order of additions follow from public sizes alone. So a sum does not depend on
who computes it, and a record changes nothing but its own term. `sum_error` is proven in
docs/proofs/noise.md, section 8.
"""

import math
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse

from skdpsco.data.block_sources import cuts
from skdpsco.data.design import (
    CSR,
    GATHERED_ROWS,
    TILE_ROWS,
    CentredCSR,
    Dense,
    Tiles,
    columns_of,
    read_only,
)
from skdpsco.mechanisms.samplers import summation_error

__all__ = [
    "FAN_IN",
    "LEAST_WORK",
    "MOST_RECORDS_ADDED",
    "PIECE_ROWS",
    "add",
    "depth_of",
    "one_record",
    "pieces",
    "replace_one",
    "row_squares",
    "slice_rows",
    "sum_error",
    "sum_in_batches",
    "sum_in_runs",
    "tree_sum",
    "work",
]

FAN_IN = 64  # terms that are added one after the other, at every level of the tree
PIECE_ROWS = 2**16  # most records of a piece, which a function may add one after the other
PIECE_WORK = 2**20  # dense entries; reading so many takes far longer than a call
LEAST_WORK = 2**21  # dense entries above which arrays are cut, since threads must be woken
MANY = 64  # this many pieces keep threads equally busy; more would only add calls
MAX_PIECE_WORK = 2**24  # largest number of entries in a piece, since some functions copy it
LEAST_ROWS = 512  # smallest number of records in a piece
TYPICAL = 100  # assumed entries of a sparse record: the true number is not public
TREE = 1024  # additions above the pieces: two trees of up to 8 levels, over pieces and over blocks
MOST_RECORDS_ADDED = 2**26  # of a table whose number of records is private, at any budget


def work(X: Dense | Tiles | CSR | CentredCSR) -> int:
    """Estimate the work of reading the records, in dense entries, from public sizes."""
    if isinstance(X, Dense):
        return len(X.values) * len(X.bounds)
    if isinstance(X, Tiles):
        return X.values.size
    return 8 * min(len(X.bounds), TYPICAL) * (len(X.indptr) - 1)


def pieces(X: Any, y: np.ndarray) -> list[tuple[Any, np.ndarray]]:
    """Cut the records into runs, at least one; the runs are views.

    Neighbouring data sets are cut at the same records: at another place of a matrix BLAS may round
    products differently, which would change the predictions of all records.
    """
    n, size = len(y), max(work(X), 1)
    wanted = min(max(size // MANY, PIECE_WORK), MAX_PIECE_WORK)
    if not isinstance(X, Dense | Tiles):
        wanted = max(wanted, 64 * len(X.bounds))  # a sum has one entry per column
    rows = min(max(wanted * n // size, LEAST_ROWS), PIECE_ROWS)
    if n <= rows:
        return [(X, y)]
    # An even number of pieces, so that two threads read equally many.
    rows = max(-(-n // (2 * -(-n // (2 * rows)))), LEAST_ROWS)
    rows += -rows % TILE_ROWS if isinstance(X, Tiles) else 0
    return [(slice_rows(X, start, stop), y[start:stop]) for start, stop in cuts(n, rows)]


def slice_rows(X: Any, start: int, stop: int) -> Any:
    """Records ``start`` to ``stop`` of a design, or of an array or matrix with a row for each."""
    if isinstance(X, Dense):
        return X._replace(values=X.values[start:stop])
    if isinstance(X, Tiles):
        return X._replace(values=X.values[start // TILE_ROWS : -(-stop // TILE_ROWS)])
    if not isinstance(X, CSR | CentredCSR):
        return X[start:stop]
    indptr = X.indptr[start : stop + 1]
    some = slice(indptr[0], indptr[-1])
    indptr = read_only(indptr - indptr[0])
    return X._replace(data=X.data[some], indices=X.indices[some], indptr=indptr)


def add(terms: Iterable[Any]) -> Any:
    """Sum from left to right of arrays, or of tuples of arrays."""
    total: Any = None
    for term in terms:
        if total is None:
            # Copy the term, which may be an array of the caller.
            total = tuple(map(np.array, term)) if isinstance(term, tuple) else np.array(term)
        elif isinstance(term, tuple):
            total = tuple(a + b for a, b in zip(total, term, strict=True))
        else:
            total = total + term
    return total


def tree_sum(terms: Iterable[Any]) -> Any:
    """Add up runs of `FAN_IN` terms, then runs of their sums, until one sum is left.

    Raises
    ------
    ValueError
        If there is no term, since the sum would have no shape.
    """
    while True:
        iterator = iter(terms)
        sums: list[Any] = []
        while (total := add(islice(iterator, FAN_IN))) is not None:
            sums.append(total)
        if not sums:
            raise ValueError("There is nothing to add up.")
        if len(sums) == 1:
            return sums[0]
        terms = sums


def sum_in_runs(n_samples: int, total: Callable[[int, int], Any]) -> Any:
    """Sum over records without `map_reduce`; ``total(start, stop)`` sums up one run.

    `sum_error` bounds the rounding error.
    """
    runs = list(cuts(n_samples, PIECE_ROWS)) or [(0, 0)]  # an empty sum has a shape, too
    return tree_sum(total(start, stop) for start, stop in runs)


def depth_of(n_samples: int) -> int:
    """Largest number of additions that a record's term takes part in, in a `map_reduce` sum."""
    return min(n_samples, PIECE_ROWS) + TREE


def sum_in_batches(X: Any, y: Any, columns: np.ndarray, function: Any) -> Any:
    """Sum a function of ``columns`` and targets over records, some at a time."""

    def summed_up(start: int) -> Any:
        some = y[start : start + GATHERED_ROWS]
        return function(columns_of(X, start, start + len(some), columns), some)

    # Call it once without records, for the shape of the sum.
    return tree_sum(map(summed_up, range(0, max(len(y), 1), GATHERED_ROWS)))


def row_squares(A: Any) -> np.ndarray:
    """Squared l2 norms of the rows of a dense or sparse array."""
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A)


def sum_error(n_samples: int, bound: float, terms: int = 1) -> float:
    """Bound on the error of `map_reduce` for sums of ``terms`` numbers within +-bound per record.

    For a sum of vectors of norm at most ``bound`` it bounds the norm of the error, in any l_p norm
    and any dimension. It covers a rounded factor of the sum, or two with ``terms=2``. Beyond
    `PIECE_ROWS` records it grows with n, not with its square. `replace_one` counts it once for each
    of two neighbouring data sets.
    """
    return summation_error(n_samples * terms, bound, depth_of(n_samples) + terms)


def replace_one(
    n_samples: int, bound: float, change: float | None = None, terms: int = 1, parts: int = 1
) -> float:
    """Bound the l2 sensitivity of a float64 sum, whose rounding `sum_error` bounds.

    Parameters
    ----------
    n_samples : int
    bound : float
        Bound on each of the numbers, or on the norm of each of the vectors, that are added up.
    change : float or None
        Bound on how far one replaced record moves the exact sum; None for ``2 * bound``.
    terms : int
        As in `sum_error`.
    parts : int
        Number of sums that are released together; each of them is rounded by as much.

    Returns
    -------
    sensitivity : float
    """
    moved = 2.0 * bound if change is None else change
    return moved + 2.0 * math.sqrt(parts) * sum_error(n_samples, bound, terms)


def one_record(
    n_samples: int,
    added: bool,
    bound: float,
    change: float | None = None,
    terms: int = 1,
    parts: int = 1,
) -> float:
    """Bound the l2 sensitivity of a float64 sum for either relation of neighbours.

    Proof for records that are added: docs/proofs/added_records.md.

    Parameters
    ----------
    n_samples : int
        What is known of the number of records. Nothing follows from it if ``added``.
    added : bool
        Whether neighbours add a record or remove one. Otherwise they replace one.
    bound : float
        As in `replace_one`.
    change : float or None
        Bound on how far one record moves the exact sum when it is added, or replaced; None for
        ``bound``, or twice that.
    terms, parts : int
        As in `replace_one`.

    Returns
    -------
    sensitivity : float
    """
    if not added:
        return replace_one(n_samples, bound, change, terms, parts)
    return replace_one(MOST_RECORDS_ADDED, bound, bound if change is None else change, terms, parts)
