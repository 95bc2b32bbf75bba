"""Queries about tables of categories, their domain, and the answers of data.

A record is a row of codes, one per column, each below its column's public size. A cell is one value
of all columns; cells are numbered in C order. An answer is a mean over records.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from skdpsco._validation import check_int
from skdpsco.data.record_sums import map_reduce
from skdpsco.solvers.synthesis.possible_records import LinkedColumns, legal_cells

__all__ = [
    "DENSE_CELLS",
    "MAX_AXES",
    "CodeBlocks",
    "LinearQueries",
    "Marginals",
    "QueryProblem",
    "SynthesisResult",
    "count_cells",
    "count_tables",
    "is_dense",
]

DENSE_CELLS = 2**20  # no array over the whole of a larger domain is ever made
MAX_ANSWERS = 2**24  # cells of all tables of a workload; chosen by hand, for memory
MAX_TABLES = 2**18  # tables of a workload; chosen by hand, for time
MAX_AXES = 30  # most axes of an array over a domain
MAX_PRODUCTS = 2**31  # most multiplications that an exact sensitivity may take


def is_dense(shape: tuple[int, ...]) -> bool:
    """Whether the share of every cell of a table of this shape is kept in one array."""
    return len(shape) <= MAX_AXES and math.prod(shape) <= DENSE_CELLS


@dataclass(frozen=True)
class Marginals:
    """The share of records in every cell of some tables.

    Parameters
    ----------
    tables : int or tuple of tuple of int
        The columns of each table, in the order of its axes. An int k >= 1 means all tables of k
        columns, or the single table of all columns if there are fewer than k.

    Raises
    ------
    TypeError
        If ``tables`` is neither an integer nor a list of tuples of column numbers.
    ValueError
        If it is below 1, is empty, or repeats a table or a column.
    """

    tables: Any

    scale: ClassVar[float] = 0.5  # as of `LinearQueries`: a record is in a cell or not

    def __post_init__(self) -> None:
        if isinstance(self.tables, (list, tuple)):
            named = tuple(_checked_columns(table) for table in self.tables)
            if not named:
                raise ValueError("tables must name the columns of at least one table, got none.")
            if len(set(named)) < len(named):
                raise ValueError("tables must not name the same columns twice.")
            object.__setattr__(self, "tables", named)
        else:
            order = check_int("tables", self.tables, "a list of tuples of columns, or ")
            object.__setattr__(self, "tables", order)

    def columns(self, n_columns: int) -> tuple[tuple[int, ...], ...]:
        """The columns of every table of a domain with so many columns."""
        if isinstance(self.tables, int):
            return tuple(combinations(range(n_columns), min(self.tables, n_columns)))
        return self.tables

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError if a domain of this shape does not have these tables."""
        if not isinstance(self.tables, int):
            largest = max(max(table) for table in self.tables)
            if largest >= len(shape):
                raise ValueError(
                    f"tables must name columns 0, ..., {len(shape) - 1}, got {largest}."
                )
        elif math.comb(len(shape), min(self.tables, len(shape))) > MAX_TABLES:
            raise ValueError(_TOO_MANY)
        if self.n_answers(shape) > MAX_ANSWERS:
            raise ValueError(_TOO_MANY)

    def n_answers(self, shape: tuple[int, ...]) -> int:
        """Number of cells of all tables."""
        return sum(math.prod(shape[j] for j in table) for table in self.columns(len(shape)))


_TOO_MANY = (
    f"tables must be at most {MAX_TABLES}, and have at most {MAX_ANSWERS} cells together: ask for "
    "fewer or smaller tables."
)


def _checked_columns(table: Any) -> tuple[int, ...]:
    """Columns of one table, checked."""
    if not isinstance(table, (list, tuple)) or not table:
        raise TypeError(f"tables must be a list of tuples of columns, got {table!r} in it.")
    if any(isinstance(j, (bool, np.bool_)) or not hasattr(j, "__index__") for j in table):
        raise TypeError(f"tables must have columns that are numbers 0, 1, ..., got {table!r}.")
    columns = tuple(j.__index__() for j in table)
    if min(columns) < 0 or len(set(columns)) < len(columns):
        raise ValueError(f"tables must have different columns 0, 1, ..., got {table!r}.")
    return columns


@dataclass(frozen=True, eq=False)
class LinearQueries:
    """Means of functions of a record, each given by its values on all cells of the domain.

    Parameters
    ----------
    matrix : array-like of shape (n_queries, n_cells)
        Finite public numbers, from which the sensitivity follows.

    Raises
    ------
    TypeError
        If ``matrix`` does not hold real numbers.
    ValueError
        If ``matrix`` is not two-dimensional, is empty, or has entries that are not finite or
        exceed 2**100.
    """

    matrix: Any

    def __post_init__(self) -> None:
        matrix = np.asarray(self.matrix)
        if matrix.dtype.kind not in "biuf":
            raise TypeError(f"matrix must have real numbers, got dtype {matrix.dtype}.")
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ValueError(
                f"matrix must have shape (n_queries, n_cells), got shape {matrix.shape}."
            )
        matrix = np.array(matrix, dtype=np.float64, order="C")
        if not np.abs(matrix).max() <= 2.0**100:  # NaN fails too
            raise ValueError("matrix must have finite numbers within +-2**100.")
        matrix.flags.writeable = False
        object.__setattr__(self, "matrix", matrix)

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError if the domain has too many cells, or not one for each matrix column."""
        n_cells = math.prod(shape)
        if not is_dense(shape):
            raise ValueError(
                f"Linear queries need a domain of at most {DENSE_CELLS} cells and {MAX_AXES} "
                f"columns, got {n_cells} and {len(shape)}: ask for marginals, or merge categories."
            )
        if self.matrix.shape[1] != n_cells:
            raise ValueError(
                f"matrix must have one column for each of the {n_cells} cells of the domain, got "
                f"{self.matrix.shape[1]}."
            )

    @cached_property
    def scale(self) -> float:
        """Largest distance of a value from its query's mid-range; 1 if all queries are constant."""
        return float(np.abs(self.matrix - self._middle[:, None]).max()) or 1.0

    @cached_property
    def _middle(self) -> np.ndarray:
        return self.matrix.min(axis=1) / 2 + self.matrix.max(axis=1) / 2

    @cached_property
    def centred(self) -> np.ndarray:
        """The matrix with the middle of each query's range subtracted, divided by `scale`.

        It asks for the same information. Its entries are in [-1, 1] and not larger than the change
        that one record may cause.
        """
        return np.clip((self.matrix - self._middle[:, None]) / self.scale, -1.0, 1.0)

    @cached_property
    def reach(self) -> float:
        """Largest l2 distance from the first to another column of `centred`; >= sensitivity / 2."""
        return math.sqrt(np.square(self.centred - self.centred[:, :1]).sum(axis=0).max())

    @cached_property
    def sensitivity(self) -> float:
        """Largest l2 change of the sums of the `centred` queries when one record is replaced.

        It is the largest distance between two columns, or an upper bound if the matrix is large.
        """
        matrix = self.centred
        n_queries, n_cells = matrix.shape
        squares = np.square(matrix).sum(axis=0)
        largest = float(squares.max())
        found = min(4.0 * largest, float(np.square(np.ptp(matrix, axis=1)).sum()))
        if n_cells * matrix.size <= MAX_PRODUCTS:
            found, block = 0.0, max(1, DENSE_CELLS // n_cells)
            for start in range(0, n_cells, block):
                part = slice(start, start + block)
                apart = squares[part, None] + squares - 2.0 * (matrix[:, part].T @ matrix)
                found = max(found, float(apart.max()))
        # The last term bounds the rounding errors of sums of n_queries products.
        return math.sqrt(found + (n_queries + 16) * 2.0**-48 * largest) * (1.0 + 2.0**-40)

    def n_answers(self, shape: tuple[int, ...]) -> int:
        """Number of queries."""
        return self.matrix.shape[0]


@dataclass(frozen=True)
class QueryProblem:
    """What a planner may know: the domain, the queries and the number of records.

    Parameters
    ----------
    shape : tuple of int
        Number of values of each column, >= 1.
    workload : Marginals or LinearQueries
    n_samples : int
    possible : tuple of LinkedColumns, default=()
        What constraints allow. It does not change what is measured.

    Raises
    ------
    TypeError
        If a size or ``n_samples`` is not an integer.
    ValueError
        If there are no columns, a number is below 1, or the workload does not fit the domain.
    """

    shape: tuple[int, ...]
    workload: Any
    n_samples: int
    possible: tuple[LinkedColumns, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        shape = tuple(check_int("The size of a column", size) for size in self.shape)
        if not shape:
            raise ValueError("shape must have at least one column.")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "n_samples", check_int("n_samples", self.n_samples))
        self.workload.check(shape)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.shape)

    @property
    def n_cells(self) -> int:
        """Number of cells of the domain, which may be astronomical."""
        return math.prod(self.shape)

    @property
    def dense(self) -> bool:
        """Whether the domain is small enough for arrays over all cells."""
        return is_dense(self.shape)

    def legal(self, columns: tuple[int, ...] | None = None) -> np.ndarray:
        """Which cells of the table of some columns, by default all, are possible."""
        columns = tuple(range(self.n_columns)) if columns is None else columns
        return legal_cells(self.possible, columns, self.shape)

    @property
    def n_answers(self) -> int:
        """Number of answers."""
        return self.workload.n_answers(self.shape)


@dataclass
class SynthesisResult:
    """What a synthesis solver releases.

    Parameters
    ----------
    distribution : Histogram or ProductMixture
    answers : ndarray of shape (n_answers,)
        Answers to the workload, in its order: one table after the other, cells in C order.
    n_iter : int
    """

    distribution: Any
    answers: np.ndarray
    n_iter: int


@dataclass(frozen=True)
class CodeBlocks:
    """Codes in blocks; like an array, it lets solvers take columns and count tables.

    Parameters
    ----------
    design : BlockDesign
        Codes as features.
    columns : tuple of int
        The columns of the design that these are.
    maps : tuple of ndarray or None
        For each column, other codes in place of those of the design; None for the same.
    """

    design: Any
    columns: tuple[int, ...]
    maps: tuple[Any, ...]

    def __getitem__(self, key: tuple[slice, tuple[int, ...]]) -> "CodeBlocks":
        columns, maps = zip(*((self.columns[j], self.maps[j]) for j in key[1]), strict=True)
        return CodeBlocks(self.design, columns, maps)


def _count_codes(
    X: Any, y: Any, columns: Any, maps: Any, tables: Any, shape: Any
) -> tuple[np.ndarray, ...]:
    codes = X.values[:, list(columns)].astype(np.intp)
    for j, other in enumerate(maps):
        if other is not None:
            codes[:, j] = other[codes[:, j]]
    return tuple(count_table(codes, table, shape) for table in tables)


def count_tables(codes: Any, tables: Any, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Compute `count_table` for several tables, in one pass over blocks."""
    if isinstance(codes, CodeBlocks):
        tables = tuple(map(tuple, tables))
        where = codes.columns, codes.maps
        return list(map_reduce(codes.design, None, _count_codes, *where, tables, shape))
    return [count_table(codes, table, shape) for table in tables]


def count_cells(codes: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Number of records in every cell of the domain, as float64."""
    (counts,) = count_tables(codes, [tuple(range(len(shape)))], shape)
    return counts.ravel().astype(np.float64)


def count_table(codes: np.ndarray, columns: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Number of records in every cell of the table of some columns, as int64."""
    sizes = tuple(shape[j] for j in columns)
    cells = np.zeros(codes.shape[0], dtype=np.intp)
    for j in columns:
        cells *= shape[j]
        cells += codes[:, j]
    return np.bincount(cells, minlength=math.prod(sizes)).reshape(sizes)
