"""Sums over records, of arrays in memory or of blocks.

A solver that needs nothing but sums over records calls `map_reduce` for each of them. For small
arrays in memory this calls the function once. Large arrays are cut into pieces, which threads of
this process sum up. Blocks are passed to the function one after the other, in this process, in
joblib's workers, or on a cluster of Dask or Spark (`BlockEngine`). The results are added up along a
fixed tree: the sum depends on the arrays or blocks alone, not on which worker computed a term, nor
on which was ready first.
Functions draw no noise: the caller draws it once, for the whole sum.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numba
import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array
from threadpoolctl import ThreadpoolController  # a dependency of scikit-learn

from skdpsco._quiet import quietly
from skdpsco._threads import Joint
from skdpsco._validation import FLOATS, read_X
from skdpsco.data.block_sources import canonical
from skdpsco.data.design import CSR, Dense, Tiles, as_design, columns_of, sparse_columns_of
from skdpsco.data.digests import digest
from skdpsco.data.pieces import LEAST_WORK, PIECE_ROWS, pieces, tree_sum, work

__all__ = [
    "CHANGED",
    "BlockDesign",
    "BlockEngine",
    "Failure",
    "HeldBlock",
    "Hidden",
    "Reader",
    "Task",
    "attempt",
    "in_columns",
    "in_pieces",
    "join_targets",
    "map_reduce",
    "on_held",
    "one_blas_thread",
    "read_and_count",
    "read_and_run",
    "read_pair",
    "read_raw",
    "transformed",
    "values_of",
    "without_gil",
]


def map_reduce(X: Any, y: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Sum over records: ``function(X, y, *arguments)``, or its sum over blocks.

    Parameters
    ----------
    X : Dense, CSR or BlockDesign
        See `in_pieces`.
    y : ndarray of shape (n_samples,), or None for blocks, which hold their own targets
    function : callable
        A function at the top level of a module, so that it can be sent to a worker; deterministic
        and without noise. It takes a Dense or CSR design and its targets, and returns an array or a
        tuple of arrays whose shapes depend on the arguments only. Numbers are returned as arrays
        without dimensions.
    *arguments
        Further arguments, which are public or already released: they are sent to workers.
    """
    if isinstance(X, BlockDesign):
        return X.blocks.sum(
            Task(X.bounds, X.intercept, X.target, function, arguments, X.conditioning)
        )
    return function(X, y, *arguments)


def without_gil(function: Any) -> Any:
    """Mark a function for `map_reduce` that runs in machine code: threads make it faster.

    Other functions would wait for one another, and BLAS has its own threads.
    """
    function.without_gil = True
    return function


CHANGED = (
    "it is not what it was when it was read before. Arrays and files must not change during a fit, "
    "and a Dask graph or a Spark frame must be deterministic: see docs/scaling.md."
)


class Hidden:
    """A value in the memory of a worker, whose logs and dashboards must not show it."""

    value: Any
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return Hidden, (self.value,)

    def __sizeof__(self) -> int:
        """Bytes of the arrays inside, by which Dask plans memory."""
        parts = self.value if isinstance(self.value, tuple) else (self.value,)
        arrays = [a for p in parts for a in (vars(p).values() if hasattr(p, "indptr") else (p,))]
        return 64 + sum(getattr(a, "nbytes", 0) for a in arrays)


@dataclass(frozen=True)
class Failure:
    """The error of a task. Tasks never raise, because a worker would log their arguments."""

    error: type[Exception]
    message: str
    number: int | None = None  # of the block, unless it is its place among the results

    def throw(self, place: int) -> None:
        """Raise the error, with the number of the block."""
        number = place if self.number is None else self.number
        raise self.error(f"Block {number} of X: {self.message}") from None


def attempt(function: Callable[..., Any], *arguments: Any) -> Hidden | Failure:
    """Call a function, and return its value or its error."""
    try:
        with np.errstate(all="ignore"):  # a warning about underflow would reveal data
            return Hidden(function(*arguments))
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        kinds = (ValueError, TypeError, OSError, MemoryError, ImportError)
        kind: Any = next(kind for kind in kinds if isinstance(error, kind))
        return Failure(kind, str(error))
    except Exception as error:  # its message might contain data
        return Failure(RuntimeError, type(error).__name__)


_LEGAL_Y = "its y must hold one number or label per record."


def check_block(
    X: Any, y: Any, n_rows: int | None, columns: tuple[int, int], is_sparse: bool, finite: Any
) -> tuple[Any, np.ndarray]:
    """Check a block, and return a C-ordered array or CSR matrix of floats, and an array y.

    Parameters
    ----------
    X, y
        The block as it was read.
    n_rows : int or None
        The declared number of records; None if it is not known.
    columns : tuple of int
        Number of features, and of targets.
    is_sparse : bool
        Whether all blocks are sparse; otherwise all are dense.
    finite : bool or "allow-nan"
        Whether X must be finite. (If it has changed since this was found, kernels clip it.)
    """
    # Shapes first: they are public.
    shape: Any = getattr(X, "shape", ())
    n_features, n_targets = columns
    if y is None:  # for a fit that needs no targets
        y = np.zeros(shape[:1])
    y = quietly(_LEGAL_Y, np.asarray, y)
    if len(shape) != 2 or shape[1] != n_features:
        raise ValueError(f"it must have {n_features} columns, as X was said to have; got {shape}.")
    width = (n_targets,) if n_targets > 1 else ()
    if y.ndim == 0 or y.shape[1:] != width or shape[0] != len(y) or n_rows not in (None, len(y)):
        rows = "as many rows as" if n_rows is None else f"{n_rows} rows, and"
        kind = f"targets of {n_targets} columns" if width else "one-dimensional targets"
        raise ValueError(f"it must have {rows} {kind}; got {shape}, {y.shape}.")
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
        ensure_all_finite=finite,
        ensure_min_samples=0,
        input_name="X",
    )
    return X, y


def join_targets(X: Any, table: np.ndarray) -> tuple[Any, np.ndarray]:
    """Features with all but the last column of ``table`` behind them, and that column."""
    columns = table[:, :-1]
    if sparse.issparse(X):
        X = sparse.hstack([X, columns], format="csr")
    else:
        X = np.hstack([X, columns])
    return X, np.ascontiguousarray(table[:, -1])


def transformed(X: Any, steps: tuple[Any, ...]) -> Any:
    """The features of a block as transformers return them, one after the other.

    Raises
    ------
    ValueError, TypeError
        If a transformer fails. Only those of this library are known to show no values.
    """
    for step in steps:
        if type(step).__module__.startswith("skdpsco."):
            X = step.transform(X)
        else:
            X = quietly(f"{type(step).__name__}.transform fails for it.", step.transform, X)
    return X


class Reader(NamedTuple):
    """Reads blocks as floating-point features and targets in the form that solvers take.

    Parameters
    ----------
    n_features : int
    sparse : bool
    encode : callable
        Converts the targets of a block to float64, or refuses them. Columns of a table that it
        returns are joined to the features.
    key : Hidden
        Key of the digests, a secret of the fit.
    steps : tuple
        Transformers of the features.
    checked : bool
        Whether all features have been checked before.
    expected : Hidden or None
        Digest of the block from an earlier reading, if there was one.
    names : tuple of str or None
        Names of the columns, if they are known.
    n_targets : int
        Number of columns of the targets.
    missing : bool
        Whether features may be NaN.
    """

    n_features: int
    sparse: bool
    encode: Callable[..., Any]
    key: Hidden
    steps: tuple[Any, ...] = ()
    checked: bool = False
    expected: Hidden | None = None
    names: tuple[str, ...] | None = None
    n_targets: int = 1
    missing: bool = False

    def read(self, part: Any) -> tuple[Any, np.ndarray]:
        """Features and targets of a part, checked."""
        X, y = part.read()
        X = transformed(X, self.steps)
        if self.names is not None and tuple(getattr(X, "columns", self.names)) != self.names:
            raise ValueError("its columns must be those of X, in the same order.")
        columns = self.n_features, self.n_targets
        finite = False if self.checked else "allow-nan" if self.missing else True
        X, y = check_block(X, y, part.n_rows, columns, self.sparse, finite)
        if self.sparse and not self.checked:
            X = canonical(X)
        y = self.encode(y)
        if y.ndim == 2:
            X, y = join_targets(X, y)
        if self.expected is not None and digest(self.key.value, X, y) != self.expected.value:
            raise ValueError(CHANGED)
        return X, y

    def look_at(self, X: Any, y: np.ndarray) -> tuple[int, bytes]:
        """Return the number of records in a block and its digest."""
        return len(y), digest(self.key.value, X, y)


class Task(NamedTuple):
    """A function of a design and its targets, which is applied to every block."""

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
        """Number of floats in the arrays that are sent with it."""
        return len(self.bounds) + _n_floats(self.conditioning or ()) + _n_floats(self.arguments)

    def __call__(self, X: Any, y: np.ndarray) -> Any:
        design = as_design(X, self.bounds, bool(self.intercept), checked=True)
        y = y if self.target is None else self.target(y)
        change = (lambda some: some) if self.conditioning is None else self.conditioning.apply
        found = pieces(design, y)
        return tree_sum(self.function(change(some), t, *self.arguments) for some, t in found)


def _n_floats(argument: Any) -> int:
    """Entries of an array, or of the arrays in a tuple; a loss, for instance, holds few numbers."""
    if isinstance(argument, tuple):
        return sum(map(_n_floats, argument))
    return argument.size if isinstance(argument, np.ndarray) else 0


def read_and_run(task: Task, part: Any, reader: Reader) -> Hidden | Failure:
    """Run a task on a part."""
    return attempt(lambda: task(*reader.read(part)))


def read_raw(part: Any, reader: None) -> Hidden | Failure:
    """Features and targets of a part as they are stored."""
    return attempt(part.read)


def read_pair(part: Any, reader: Reader) -> Hidden | Failure:
    """Features and targets of a part."""
    return attempt(reader.read, part)


def read_and_look(part: Any, reader: Reader) -> Hidden | Failure:
    """Check a part, and return its number of records and its digest."""
    return attempt(lambda: reader.look_at(*reader.read(part)))


def read_and_count(part: Any, reader: Reader) -> Hidden | Failure:
    """Check a part, and return its number of records."""
    return attempt(lambda: len(reader.read(part)[1]))


class HeldBlock(NamedTuple):
    """A block in memory that was checked, in place of the reader of its part."""

    X: Any
    y: np.ndarray

    def read(self, part: Any) -> tuple[Any, np.ndarray]:
        """Features and targets."""
        return self.X, self.y


def on_held(function: Callable[..., Any], block: Hidden | Failure) -> Hidden | Failure:
    """Call a function of a part and its reader on what `read_pair` returned."""
    return block if isinstance(block, Failure) else function(None, HeldBlock(*block.value))


def values_of(results: Iterable[Hidden | Failure]) -> Iterator[Any]:
    """The values of tasks, in the order of the blocks.

    Raises
    ------
    ValueError, TypeError, OSError, MemoryError, ImportError, RuntimeError
        The error of the first task that failed.
    """
    for number, result in enumerate(results):
        if isinstance(result, Failure):
            result.throw(number)
        else:
            yield result.value


class ColumnsOf(NamedTuple):
    """Some columns of a design, as a design of their own.

    Parameters
    ----------
    columns : ndarray of int
        Increasing numbers. That of the ones of an intercept, behind the features, may be last; it
        is a feature if it is the only one.
    before : Conditioning or None
        Applied to the records before.
    """

    columns: np.ndarray
    before: Any = None

    def of(self, X: Any, n_records: int) -> Dense | CSR:
        """The columns of so many records."""
        d = len(X.bounds)
        given = self.columns[self.columns < d]
        if len(given) == 0:
            return as_design(np.ones((n_records, 1)), np.ones(1), False)
        if isinstance(X, CSR):
            some = sparse_columns_of(X, given)
        else:
            some = columns_of(X, 0, n_records, given)
        return as_design(some, np.ones(len(given)), d in self.columns, checked=True)

    def apply(self, X: Dense | CSR) -> Dense | CSR:
        """The columns of a block."""
        n = len(X.values) if isinstance(X, Dense) else len(X.indptr) - 1
        return self.of(X if self.before is None else self.before.apply(X), n)


def in_columns(X: Any, y: Any, columns: np.ndarray) -> Any:
    """The design of some columns: a copy, or one that every pass over blocks makes anew."""
    if isinstance(X, BlockDesign):
        return X._replace(conditioning=ColumnsOf(columns, X.conditioning))
    return ColumnsOf(columns).of(X, len(y))


def in_pieces(X: Any, y: Any) -> Any:
    """The design of arrays in memory for sums by `map_reduce`; large arrays are cut into pieces.

    The pieces and the order of additions do not depend on the number of threads.
    """
    if isinstance(X, BlockDesign) or (len(y) <= PIECE_ROWS and work(X) < LEAST_WORK):
        return X
    is_sparse = not isinstance(X, Dense | Tiles)
    return BlockDesign(Pieces(X, y), X.bounds, X.intercept, None, is_sparse)


class Pieces:
    """Pieces of arrays in memory, summed up by as many threads of this process as Numba uses.

    Each thread, this one included, sums up a run of neighbouring pieces. The others are started by
    the first sum, and end when nobody holds the pieces any more.

    Parameters
    ----------
    X : Dense or CSR
    y : ndarray of shape (n_samples,)
    """

    def __init__(self, X: Dense | CSR, y: np.ndarray) -> None:
        self._pieces = pieces(X, y)
        self._threads: ThreadPoolExecutor | None = None

    def sum(self, task: "Task") -> Any:
        """Sum of a task over all pieces."""

        def run(some):
            with np.errstate(all="ignore"):  # every thread has its own setting
                return [task.function(*piece, *task.arguments) for piece in some]

        n_threads: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
        if n_threads == 1 or not getattr(task.function, "without_gil", False):
            return tree_sum(run(self._pieces))
        # Numba's own threads cannot be used: the process dies if two threads use their pool at
        # once.
        if self._threads is None:
            self._threads = ThreadPoolExecutor(n_threads)
        # One run for each thread: to wake a thread takes as long as reading a small piece.
        length = -(-len(self._pieces) // n_threads)
        runs = [self._pieces[k : k + length] for k in range(0, len(self._pieces), length)]
        others = [self._threads.submit(run, some) for some in runs[1:]]
        sums = [run(runs[0]), *(other.result() for other in others)]
        return tree_sum(chain.from_iterable(sums))

    def close(self) -> None:
        """Do nothing: no memory is held."""


class BlockEngine:
    """Blocks that every pass of a fit reads: by this process, by joblib, or on a cluster.

    A subclass says in `_each` who calls a function of every block. This class adds up what the
    function returns, in the order of the blocks.

    Parameters
    ----------
    parts : list
        See `skdpsco.data.block_sources`.
    reader : Reader
    """

    def __init__(self, parts: list[Any], reader: Reader) -> None:
        self._parts, self._readers = parts, [reader] * len(parts)

    def _each(self, function: Callable[..., Any]) -> Iterable[Hidden | Failure]:
        """What ``function(part, reader)`` returns for all blocks, in their order."""
        raise NotImplementedError

    def _check(self, n_samples: int, checked: bool = True) -> list[int]:
        """Read all blocks, which are compared with this reading from now on.

        Parameters
        ----------
        n_samples : int
            The declared number of records in all blocks.
        checked : bool
            Whether the later readings need not check anything else.

        Returns
        -------
        sizes : list of int
        """
        sizes, digests = zip(*values_of(self._each(read_and_look)), strict=True)
        if n_samples != sum(sizes):
            raise ValueError(
                f"n_samples={n_samples} records were declared, but the blocks of X hold "
                f"{sum(sizes)}."
            )
        pairs = zip(self._readers, digests, strict=True)
        self._readers = [
            reader._replace(checked=checked, expected=Hidden(found)) for reader, found in pairs
        ]
        return list(sizes)

    def sum(self, task: Task) -> Any:
        """Sum of a task over all blocks."""
        return tree_sum(values_of(self._each(partial(read_and_run, task))))

    def __iter__(self) -> Iterator[tuple[Any, np.ndarray]]:
        """The features and targets of one block after the other."""
        return values_of(self._each(read_pair))

    def close(self) -> None:
        """Release what workers hold, if they do."""


class BlockDesign(NamedTuple):
    """Blocks as solvers see them, in place of a `Dense` or `CSR` design.

    Parameters
    ----------
    blocks : BlockEngine or Pieces
    bounds : ndarray of shape (n_features,)
    intercept : int
    target : callable or None
        A function of the targets that is applied to those of every block.
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

    def with_targets(self, function: Callable[..., Any]) -> "BlockDesign":
        """The same blocks, with ``function`` applied to their targets."""
        both = function if self.target is None else partial(one_after_other, self.target, function)
        return self._replace(target=both)

    def each(self) -> Iterator[tuple[Any, np.ndarray]]:
        """Read one block after the other, as a design and its targets."""
        for X, y in self.blocks:
            design: Any = as_design(X, self.bounds, bool(self.intercept), checked=True)
            if self.conditioning is not None:
                design = self.conditioning.apply(design)
            yield design, y if self.target is None else self.target(y)

    def close(self) -> None:
        """Release what workers hold."""
        self.blocks.close()


def one_after_other(first: Callable[..., Any], second: Callable[..., Any], y: Any) -> Any:
    """Apply two functions of targets, the first one first."""
    return second(first(y))


# Not `functools.cache`, which counts its calls: the number of fits of a search is secret.
_blas: list[ThreadpoolController] = []


def _limited() -> Any:
    if not _blas:  # to look for the libraries takes longer than a small fit
        _blas.append(ThreadpoolController())
    return _blas[0].limit(limits=1, user_api="blas")


_one_blas_thread = Joint(_limited)


def one_blas_thread() -> Joint:
    """A context in which BLAS has one thread, for pieces that threads sum up, or small products.

    Threads of BLAS that have ended a product wait for the next one, and keep processors busy.
    """
    return _one_blas_thread
