"""Sources of blocks of rows: arrays and memory-mapped files. `arrow_blocks` has others.

A part describes where one block is read from. It has ``n_rows``, its number of records or None if
that is unknown, and ``read()``, which returns the features and the targets (or None) as they are
stored.
"""

import mmap
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skdpsco._quiet import quietly
from skdpsco._validation import FLOATS, check_int, check_sparse, select_records
from skdpsco.data.design import as_design

__all__ = [
    "Held",
    "Mapped",
    "Pair",
    "Retargeted",
    "Taken",
    "as_rows",
    "as_target_rows",
    "block_rows",
    "canonical",
    "check_apart",
    "check_block_size",
    "check_files",
    "cuts",
    "merged",
    "n_targets_of",
    "part_of_arrays",
    "rows_of_array",
    "target_names",
]

BLOCK_BYTES = 2**26  # of float64 features, in a block of automatic size

_MEMORY = "memory"  # names the memory of this process as a place, as a path names a file


class Held(NamedTuple):
    """A view of rows in memory."""

    values: Any

    def __repr__(self) -> str:
        return "Held()"  # without values of records

    def read(self) -> Any:
        """The rows."""
        return self.values


class Mapped(NamedTuple):
    """Rows of a file of numbers, which is opened and closed again for every block.

    So only the blocks in use are mapped, and other processes need only the name of the file.
    """

    filename: Any
    dtype: np.dtype
    offset: int
    shape: tuple[int, ...]

    def read(self) -> Any:
        """The rows, read-only."""
        if 0 in self.shape:  # nothing can be mapped
            return np.empty(self.shape, self.dtype)
        return np.memmap(self.filename, self.dtype, "r", self.offset, self.shape)


class Pair(NamedTuple):
    """Features and targets that are read separately; ``y`` is None without targets."""

    X: Any
    y: Any
    n_rows: int

    def read(self) -> tuple[Any, Any]:
        """Features and targets."""
        return self.X.read(), None if self.y is None else self.y.read()


class Retargeted(NamedTuple):
    """The features of a part, with other targets."""

    part: Any
    y: Any

    @property
    def n_rows(self) -> int | None:
        """How many records the part has."""
        return self.part.n_rows

    def read(self) -> tuple[Any, Any]:
        """Features and targets."""
        return self.part.read()[0], self.y.read()


class Taken(NamedTuple):
    """Some rows of a part, by their numbers in it."""

    part: Any
    rows: np.ndarray

    @property
    def n_rows(self) -> int:
        """How many records are taken."""
        return len(self.rows)

    def read(self) -> tuple[Any, Any]:
        """Features and targets."""
        X, y = self.part.read()
        n = self.part.n_rows
        if X.shape[0] != n:  # otherwise these might be taken for the rows
            raise ValueError(f"it must have {n} rows, got {X.shape[0]}.")
        return select_records(X, self.rows, n), None if y is None else np.asarray(y)[self.rows]


def check_block_size(value: Any) -> int | None:
    """Check the rows per block; None stands for an automatic number."""
    return None if value is None else check_int("block_size", value, "None or ")


def block_rows(n_features: int, block_size: int | None) -> int:
    """Rows per block: the declared number, or as many as fit into `BLOCK_BYTES`."""
    if block_size is not None:
        return block_size
    return max(1, BLOCK_BYTES // (8 * max(n_features, 1)))


def cuts(n_samples: int, rows: int) -> Iterator[tuple[int, int]]:
    """Where blocks start and stop."""
    for start in range(0, n_samples, rows):
        yield start, min(start + rows, n_samples)


def merged(sizes: list[int], rows: int) -> Iterator[list[int]]:
    """Groups of neighbouring pieces, each with at most ``rows`` rows if it has several pieces."""
    run: list[int] = []
    total = 0
    for number, size in enumerate(sizes):
        if run and total + size > rows:
            yield run
            run, total = [], 0
        run.append(number)
        total += size
    if run:
        yield run


def rows_of_array(values: Any, start: int, stop: int) -> Held | Mapped:
    """Some rows of an array, a matrix or a frame, without a copy."""
    if isinstance(values, np.memmap) and isinstance(values.base, mmap.mmap):
        # This works for the whole file only: NumPy does not know where in the file a view begins.
        # With mode "c" changes are in memory only.
        whole = values.flags.c_contiguous and values.filename is not None
        if whole and values.mode != "c":
            row = values.dtype.itemsize * int(np.prod(values.shape[1:], dtype=np.int64))
            shape = (stop - start, *values.shape[1:])
            return Mapped(values.filename, values.dtype, values.offset + start * row, shape)
    if sparse.issparse(values):  # SciPy's own slices are copies
        entries = slice(*values.indptr[[start, stop]])
        arrays = values.data[entries], values.indices[entries], values.indptr[start : stop + 1]
        part = (*arrays[:2], arrays[2] - arrays[2][0])
        return Held(sparse.csr_matrix(part, shape=(stop - start, values.shape[1]), copy=False))
    return Held(values.iloc[start:stop] if hasattr(values, "iloc") else values[start:stop])


def part_of_arrays(X: Any, y: Any, start: int, stop: int) -> Pair:
    """Some of the records of arrays; y is None without targets."""
    targets = None if y is None else rows_of_array(y, start, stop)
    return Pair(rows_of_array(X, start, stop), targets, stop - start)


def canonical(X: Any) -> Any:
    """A CSR matrix that kernels can read directly: checked, and without duplicate entries."""
    X = X if X.dtype in FLOATS else quietly("X must be real.", X.astype, np.float64)
    checked: Any = as_design(X, np.ones(X.shape[1]), False)
    return sparse.csr_matrix((checked.data, checked.indices, checked.indptr), shape=X.shape)


def check_files(paths: list[str]) -> None:
    """Refuse a file that is named twice, under any path or link, before any file is read."""
    names: dict[str, str] = {}
    for path in paths:
        file = _file(path)
        if file in names:
            raise ValueError(
                f"path must name every file once, but {path!r} is the file {names[file]!r}: its "
                "records would count twice."
            )
        names[file] = path


def _file(path: Any) -> str:
    """An identifier shared by all names of a file."""
    try:
        found = os.stat(path)
    except OSError:  # a file may be remote; a missing one is reported when it is read
        return str(path)
    return f"{found.st_dev} {found.st_ino}" if found.st_ino else os.path.realpath(path)


def check_apart(blocks: list[Any]) -> None:
    """Refuse two blocks that hold the same rows of an array or of a mapped file.

    The check compares addresses, not values: different records may have equal values.
    """
    spans = sorted((*_span(X), number) for number, X in enumerate(blocks))
    before: list[tuple[str, int, int, int]] = []  # spans that end after the next one starts
    for place, start, stop, j in spans:
        before = [span for span in before if span[0] == place and span[2] > start]
        for *_, i in before if start < stop else ():
            if place == _MEMORY and not _share(_entries(blocks[i]), _entries(blocks[j])):
                continue  # the rows of one lie between those of the other
            first, second = sorted((i, j))
            raise ValueError(
                f"blocks {first} and {second} hold the same rows: a record must be in one block. "
                "(In a copy it is another record, and counts as two.)"
            )
        before.append((place, start, stop, j))


def _span(X: Any) -> tuple[str, int, int]:
    """Where a block is stored: the place, the first byte, and the byte after the last one."""
    if isinstance(X, np.memmap):
        part = rows_of_array(X, 0, X.shape[0])
        if isinstance(part, Mapped):
            return _file(part.filename), part.offset, part.offset + X.nbytes
    array = _entries(X)
    if not isinstance(array, np.ndarray):
        return "objects", id(X), id(X) + 1
    start = stop = array.__array_interface__["data"][0]
    if array.size > 0:
        steps = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
        start, stop = start + sum(min(s, 0) for s in steps), stop + sum(max(s, 0) for s in steps)
        stop += array.itemsize
    return _MEMORY, start, stop


def _entries(X: Any) -> Any:
    """The array whose address tells where the rows are."""
    if hasattr(X, "iloc") and X.shape[1] > 0:
        return X.iloc[:, 0].to_numpy()  # for a frame, whose columns may lie apart
    return getattr(X, "data", X) if sparse.issparse(X) else X


def _share(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two arrays share memory."""
    most: Any = 10_000
    try:
        return np.shares_memory(first, second, max_work=most)
    except np.exceptions.TooHardError:
        return False


def as_rows(name: str, values: Any, n_dimensions: int) -> Any:
    """An array, CSR matrix or frame whose rows can be taken; lists become arrays."""
    if sparse.issparse(values) and n_dimensions == 2:
        return canonical(sparse.csr_matrix(check_sparse(values)))
    if not hasattr(values, "shape"):
        values = quietly(f"{name} must be an array of numbers.", np.asarray, values)
    if len(values.shape) != n_dimensions:
        raise ValueError(
            f"{name} must have {n_dimensions} dimension{'s' * (n_dimensions > 1)}, got shape "
            f"{tuple(values.shape)}."
        )
    return values


def n_targets_of(y: Any) -> int:
    """Number of columns of targets, as their shape tells."""
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, list) and len(y) > 0 and isinstance(y[0], list | tuple):
        shape = len(y), len(y[0])
    return shape[1] if shape is not None and len(shape) == 2 and shape[1] > 1 else 1


def as_target_rows(y: Any) -> Any:
    """Targets of one column or of several, as `as_rows` takes them.

    Raises
    ------
    TypeError
        If they are sparse.
    """
    if sparse.issparse(y):
        raise TypeError("y must be dense.")
    return as_rows("y", y, 1 if n_targets_of(y) == 1 else 2)


def target_names(target: Any) -> tuple[Any, ...]:
    """The columns of targets that a name or a list of names stands for; None for none of them.

    Raises
    ------
    ValueError
        If the list is empty or names a column twice.
    """
    if not isinstance(target, list):
        return () if target is None else (target,)
    if not target or len(set(target)) < len(target):
        raise ValueError(f"target must hold different names of columns, got {target!r}.")
    return tuple(target)
