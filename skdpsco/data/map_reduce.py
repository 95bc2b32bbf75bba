"""Sums over records, of arrays in memory or of blocks.

A solver that needs nothing but sums over records calls `map_reduce` for each of them. For small
arrays in memory that is a call of the function. Large ones are cut into pieces, which threads of
this process sum up. For blocks the function is called for one after the other, in this process, in
joblib's workers or on a Dask cluster. What it returns is added up by a fixed tree: the sum depends
on the arrays or blocks alone, not on who computed what, nor on what was ready first. Functions
draw no noise: noise is drawn once, by the caller, for the whole sum.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple

import numba
import numpy as np
from sklearn.utils.validation import check_array

from skdpsco._quiet import quietly
from skdpsco._validation import FLOATS, read_X
from skdpsco.data.block_sources import canonical
from skdpsco.data.design import CSR, Dense, as_design
from skdpsco.data.digests import digest
from skdpsco.data.pieces import PIECE_ROWS, PIECE_WORK, pieces, tree_sum, work


def map_reduce(X: Any, y: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Sum over records: ``function(X, y, *arguments)``, or its sum over blocks.

    Parameters
    ----------
    X : Dense, CSR or BlockDesign
        See `in_pieces`.
    y : ndarray of shape (n_samples,), or None for blocks, which hold their own targets
    function : callable
        Of a module, so that it can be sent to a worker; deterministic and without noise. Takes a
        Dense or CSR design and its targets; returns an array, or a tuple of arrays, whose shapes
        depend on the arguments only. Numbers are arrays of no dimension.
    *arguments
        Public, or released before: they are sent to workers.
    """
    if isinstance(X, BlockDesign):
        return X.blocks.sum(
            Task(X.bounds, X.intercept, X.target, function, arguments, X.conditioning)
        )
    return function(X, y, *arguments)


def without_gil(function: Any) -> Any:
    """Mark a function for `map_reduce` whose time is that of machine code: threads help it.

    Others would wait for one another, and BLAS has threads of its own.
    """
    function.without_gil = True
    return function


class Hidden:
    """What is in the memory of a worker, whose logs and dashboards must not show it."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __reduce__(self):
        return Hidden, (self.value,)

    def __sizeof__(self) -> int:
        """Bytes of the arrays inside, by which Dask plans memory."""
        parts = self.value if isinstance(self.value, tuple) else (self.value,)
        arrays = [a for p in parts for a in (vars(p).values() if hasattr(p, "indptr") else (p,))]
        return 64 + sum(getattr(a, "nbytes", 0) for a in arrays)


@dataclass(frozen=True)
class Failure:
    """What went wrong in a task, which never raises: a worker would log its arguments."""

    error: type[Exception]
    message: str
    number: int | None = None  # of the block, if that is not where it stands

    def throw(self, place: int) -> None:
        """Raise it, with the number of the block."""
        number = place if self.number is None else self.number
        raise self.error(f"Block {number} of X: {self.message}") from None


def attempt(function: Callable[..., Any], *arguments: Any) -> Hidden | Failure:
    """The value of a function, or its exception, as a value."""
    try:
        with np.errstate(all="ignore"):  # an underflow would tell something about the data
            return Hidden(function(*arguments))
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        kinds = (ValueError, TypeError, OSError, MemoryError, ImportError)
        kind: Any = next(kind for kind in kinds if isinstance(error, kind))
        return Failure(kind, str(error))
    except Exception as error:  # its text might hold data
        return Failure(RuntimeError, type(error).__name__)


_LEGAL_Y = "its y must hold one number or label per record."


def check_block(
    X: Any, y: Any, n_rows: int | None, n_features: int, is_sparse: bool, checked: bool
) -> tuple[Any, np.ndarray]:
    """A block of records: a C-ordered array or CSR matrix of floats, and one-dimensional y.

    Parameters
    ----------
    X, y
        As they were read.
    n_rows : int or None
        How many records were announced; None if that is not known.
    n_features : int
    is_sparse : bool
        Whether blocks are sparse: all are, or none.
    checked : bool
        Whether X has been found to be finite before. (Kernels clip what it holds by now.)

    Raises
    ------
    ValueError, TypeError
    """
    # Shapes first: they are public.
    shape: Any = getattr(X, "shape", ())
    y = quietly(_LEGAL_Y, np.asarray, y)
    if len(shape) != 2 or shape[1] != n_features:
        raise ValueError(f"it must have {n_features} columns, as X was said to have; got {shape}.")
    if y.ndim != 1 or shape[0] != len(y) or n_rows not in (None, len(y)):
        rows = "as many rows as" if n_rows is None else f"{n_rows} rows, and"
        raise ValueError(f"it must have {rows} one-dimensional targets; got {shape}, {y.shape}.")
    if hasattr(X, "tocsr") != is_sparse:
        kinds = ("dense", "sparse") if is_sparse else ("sparse", "dense")
        raise ValueError(f"it is {kinds[0]}, but X was said to be {kinds[1]}.")
    X = read_X(
        X,
        check_array,
        X,
        accept_sparse="csr",
        dtype=FLOATS,
        order="C",
        ensure_all_finite=not checked,
        ensure_min_samples=0,
        input_name="X",
    )
    return X, y


class Reader(NamedTuple):
    """How a block is read: as floating-point features, and targets as solvers take them.

    Parameters
    ----------
    n_features : int
    sparse : bool
    encode : callable
        From the targets of a block to float64 numbers; refuses what is none.
    key : Hidden
        Of digests: a secret of the fit.
    checked : bool
        Whether a look at every feature has been taken before.
    expected : Hidden or None
        Digest of the block that is read, if it was read before.
    """

    n_features: int
    sparse: bool
    encode: Callable[..., Any]
    key: Hidden
    checked: bool = False
    expected: Hidden | None = None

    def __call__(self, X: Any, y: Any, n_rows: int | None) -> tuple[Any, np.ndarray]:
        """Features and targets of a block, checked.

        Raises
        ------
        ValueError, TypeError
        """
        X, y = check_block(X, y, n_rows, self.n_features, self.sparse, self.checked)
        if self.sparse and not self.checked:
            X = canonical(X)
        y = self.encode(y)
        if self.expected is not None and digest(self.key.value, X, y) != self.expected.value:
            raise ValueError(
                "it is not what it was when it was read before. Arrays and files must not change "
                "during a fit, and a Dask graph must be deterministic: see docs/scaling.md."
            )
        return X, y

    def read(self, part: Any) -> tuple[Any, np.ndarray]:
        """Features and targets of a part."""
        X, y = part.read()
        return self(X, y, part.n_rows)

    def look_at(self, X: Any, y: np.ndarray) -> tuple[int, bytes]:
        """Number of records and digest of a block that was read."""
        return len(y), digest(self.key.value, X, y)

    def again(self, expected: bytes, checked: bool) -> "Reader":
        """The reader of a block that has been looked at."""
        return self._replace(checked=checked, expected=Hidden(expected))


class Task(NamedTuple):
    """What is done with every block: a function of the design and its targets."""

    bounds: np.ndarray
    intercept: int
    target: Callable[..., Any] | None
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    conditioning: Any = None

    def __repr__(self) -> str:
        return f"Task({self.function.__name__})"

    @property
    def n_floats(self) -> int:
        """Size of the arrays that are sent with it."""
        return len(self.bounds) + _n_floats(self.conditioning or ()) + _n_floats(self.arguments)

    def __call__(self, X: Any, y: np.ndarray) -> Any:
        design = as_design(X, self.bounds, bool(self.intercept), checked=True)
        if self.conditioning is not None:
            design = self.conditioning.apply(design)
        y = y if self.target is None else self.target(y)
        return tree_sum(self.function(*piece, *self.arguments) for piece in pieces(design, y))


def _n_floats(argument: Any) -> int:
    """Entries of an array, or of those in a tuple: a loss, for instance, whose numbers are few."""
    if isinstance(argument, tuple):
        return sum(map(_n_floats, argument))
    return argument.size if isinstance(argument, np.ndarray) else 0


def read_and_run(task: Task, part: Any, reader: Reader) -> Hidden | Failure:
    """A task on a part."""
    return attempt(lambda: task(*reader.read(part)))


def read_and_look(part: Any, reader: Reader) -> Hidden | Failure:
    """The number of records of a part, all of which is checked, and its digest."""
    return attempt(lambda: reader.look_at(*reader.read(part)))


def values_of(results: Iterable[Hidden | Failure]) -> Iterator[Any]:
    """The values of tasks, in the order of blocks.

    Raises
    ------
    ValueError, TypeError, OSError, MemoryError, ImportError, RuntimeError
        For the first task that failed.
    """
    for number, result in enumerate(results):
        if isinstance(result, Failure):
            result.throw(number)
        else:
            yield result.value


def in_pieces(X: Any, y: Any) -> Any:
    """The design of arrays in memory for sums by `map_reduce`: large ones in pieces, with y.

    Records are cut, and sums added up, whatever the number of threads.
    """
    if isinstance(X, BlockDesign) or (len(y) <= PIECE_ROWS and work(X) < 2 * PIECE_WORK):
        return X
    return BlockDesign(Pieces(X, y), X.bounds, X.intercept, None, isinstance(X, CSR))


class Pieces:
    """Pieces of arrays in memory, which threads of this process sum up, as many as Numba's.

    Parameters
    ----------
    X : Dense or CSR
    y : ndarray of shape (n_samples,)
    """

    def __init__(self, X: Dense | CSR, y: np.ndarray):
        self._pieces = pieces(X, y)

    def sum(self, task: "Task") -> Any:
        """Sum of a task over all pieces."""

        def run(piece):
            with np.errstate(all="ignore"):  # every thread has its own
                return task.function(*piece, *task.arguments)

        n_threads: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
        if n_threads == 1 or not getattr(task.function, "without_gil", False):
            return tree_sum(map(run, self._pieces))
        # Not Numba's own threads: their pool ends the process if it is used from two at a time.
        with ThreadPoolExecutor(min(n_threads, len(self._pieces))) as pool:
            return tree_sum(pool.map(run, self._pieces))

    def close(self) -> None:
        """Nothing is held."""


class LocalBlocks:
    """Blocks that are read anew in every pass, in this process or in joblib's workers.

    Parameters
    ----------
    parts : list
        See `skdpsco.data.block_sources`.
    n_samples : int
        How many records they should hold.
    n_jobs : int or None
        Of joblib; None for this process.
    reader : Reader
    """

    def __init__(self, parts: list[Any], n_samples: int, n_jobs: int | None, reader: Reader):
        self._parts, self._n_jobs = parts, n_jobs
        self._readers = [reader] * len(parts)
        sizes, digests = zip(*values_of(self._map(read_and_look)), strict=True)
        check_n_records(n_samples, sum(sizes))
        self._readers = [reader.again(found, checked=True) for found in digests]

    def _map(self, function: Callable[..., Any]) -> Iterable[Any]:
        pairs = zip(self._parts, self._readers, strict=True)
        if self._n_jobs is None:
            return starmap(function, pairs)
        from joblib import Parallel, delayed

        # Threads unless the caller's parallel_config says otherwise: kernels run without the GIL.
        # No memory map: that would be a copy of the data in a file.
        workers = Parallel(n_jobs=self._n_jobs, prefer="threads", max_nbytes=None)
        return workers(delayed(function)(*pair) for pair in pairs)

    def sum(self, task: Task) -> Any:
        """Sum of a task over all blocks."""
        return tree_sum(values_of(self._map(partial(read_and_run, task))))

    def close(self) -> None:
        """Nothing is held."""


def check_n_records(declared: int, found: int) -> None:
    """Refuse blocks that do not hold as many records as were declared.

    Raises
    ------
    ValueError
    """
    if declared != found:
        raise ValueError(
            f"n_samples={declared} records were declared, but the blocks of X hold {found}."
        )


class BlockDesign(NamedTuple):
    """Blocks as solvers see them, in place of a `Dense` or `CSR` design.

    Parameters
    ----------
    blocks : LocalBlocks, Pieces, or GraphBlocks and ClusterBlocks of Dask
    bounds : ndarray of shape (n_features,)
    intercept : int
    target : callable or None
        Applied to the targets of every block.
    sparse : bool
    conditioning : Conditioning or None
        Applied to the records of every block.
    """

    blocks: Any
    bounds: np.ndarray
    intercept: int
    target: Callable[..., Any] | None
    sparse: bool
    conditioning: Any = None

    def close(self) -> None:
        """Release what workers hold."""
        self.blocks.close()
