"""Moments of a table that stays in a database: one query for their sums, in whole numbers.

docs/proofs/private_moments.md, "Sums of a query", bounds what one record adds to them.
"""

from collections.abc import Mapping
from decimal import Decimal
from itertools import combinations_with_replacement
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from skdpsco._validation import check_bound, check_int
from skdpsco.data.block_sources import target_names
from skdpsco.privacy._checks import library

__all__ = ["MomentsQuery", "QuerySums"]

SUM_BITS = 62  # of a sum, which fits into 64 bits with its sign
MOST_STEPS_OF_A_VALUE = 2**26  # of a value, on either side of 0
MOST_IN_A_QUERY = 2**30  # so that values have at least 2**16 steps


class QuerySums(NamedTuple):
    """The checked result of a `MomentsQuery`, in place of records and of sums over them.

    Parameters
    ----------
    query : MomentsQuery
    shape : tuple of int
        Numbers of records and of columns.
    rows : ndarray of shape (n_columns,), of Python's integers
    products : ndarray of shape (n_columns, n_columns), of Python's integers
    """

    query: "MomentsQuery"
    shape: tuple[int, int]
    rows: np.ndarray
    products: np.ndarray

    def __repr__(self) -> str:
        return f"QuerySums of {self.shape[0]} records"  # the sums have no noise

    def matrix(self, centre: Any, scale: Any, c: float, one: float, *_: Any) -> np.ndarray:
        """Compute `TableSums.matrix` for rows of norm ``c`` at most, without centre and scales."""
        (n, p), steps = self.shape, self.query.steps
        M = np.empty((p + 1, p + 1))
        M[0, 0] = one * one * n
        M[0, 1:] = M[1:, 0] = one * (self.rows / steps).astype(np.float64) / c
        M[1:, 1:] = (self.products / steps**2).astype(np.float64) / (c * c)
        return M


class MomentsQuery:
    """The query whose result `PrivateMoments.from_sums` takes, for tables that stay in a database.

    It returns one row: the number of records, the number of those without missing values, the sums
    of all columns, and of all products of two columns. Values are clipped to their bounds, and
    rounded to whole numbers of steps, so sums are exact in any order of the records.

    Parameters
    ----------
    table : str
        Name of a table or view, or a query in parentheses. It becomes part of the query as it is.
    bounds : dict of str to float
        The columns by name, each with the bound that its absolute values are clipped to.
    n_samples : int
        Number of records, which is public, at most 2**30.
    target : str, list of str or None, default=None
        Which of the columns are targets.

    Attributes
    ----------
    bounds : dict of str to float
        Features come first.
    n_targets : int
    columns : list of str
        The names of the columns that the query returns.
    steps : int
        Steps between 0 and a bound: the largest power of 2 up to 2**26 for which
        ``n_samples * steps**2`` is at most 2**62, so every sum fits into 64 bits.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not of this kind, or ``target`` names another column.

    See Also
    --------
    skdpsco.PrivateMoments.from_sums : Releases the moments.

    Examples
    --------
    >>> import sqlite3
    >>> from skdpsco import PrivateMoments, PrivateRidge
    >>> from skdpsco.moments import MomentsQuery
    >>> base = sqlite3.connect(":memory:")
    >>> _ = base.execute("create table visits (age double, dose double)")
    >>> rows = [(age, 0.1 * age) for age in range(18, 90)] * 100
    >>> _ = base.executemany("insert into visits values (?, ?)", rows)
    >>> query = MomentsQuery("visits", {"age": 100, "dose": 10}, 7200, target="dose")
    >>> moments = PrivateMoments.from_sums(query, base.execute(query.sql).fetchone())
    >>> PrivateRidge().fit(moments).coef_.shape
    (1,)
    """

    table: str
    target: Any
    n_samples: int
    n_targets: int
    steps: int

    def __init__(
        self, table: str, bounds: Mapping[str, float], n_samples: int, target: Any = None
    ) -> None:
        if not isinstance(table, str) or not table.strip():
            raise TypeError("table must be the name of a table, or a query in parentheses.")
        if not isinstance(bounds, Mapping) or not bounds:
            raise TypeError("bounds must be a dict of the names of columns and their bounds.")
        for name in bounds:
            if not isinstance(name, str) or not name:
                raise TypeError(f"bounds must have the names of columns as keys, got {name!r}.")
        self.table, self.target = table, target
        self.n_samples = check_int("n_samples", n_samples, high=MOST_IN_A_QUERY)
        targets = target_names(target)
        self.n_targets = len(targets)
        if absent := [name for name in targets if name not in bounds]:
            raise ValueError(f"target must be among {list(bounds)}, which lack {absent}.")
        features = [name for name in bounds if name not in targets]
        if not features:
            raise ValueError("bounds must have a column that is not a target.")
        self.bounds: dict[str, float] = {
            name: check_bound(f"the bound of {name!r}", bounds[name])
            for name in (*features, *targets)
        }
        bits = (SUM_BITS - (self.n_samples - 1).bit_length()) // 2
        self.steps = min(2**bits, MOST_STEPS_OF_A_VALUE)

    def __repr__(self) -> str:
        return f"MomentsQuery({self.table!r}, {self.bounds!r}, {self.n_samples}, {self.target!r})"

    @property
    def columns(self) -> list[str]:
        """The names of the columns that the query returns."""
        return list(self._sums())

    def _sums(self) -> dict[str, str]:
        """What the query adds up, by the names of its columns."""
        p = len(self.bounds)
        pairs = combinations_with_replacement(range(p), 2)
        return {
            "n": "COUNT(*)",
            "n_complete": f"COUNT({' + '.join(f'q{j}' for j in range(p))})",
            **{f"s{j}": f"SUM(q{j})" for j in range(p)},
            **{f"s{i}_{j}": f"SUM(q{i} * q{j})" for i, j in pairs},
        }

    @property
    def sql(self) -> str:
        """The query as DuckDB and SQLite take it."""
        most = _double(np.finfo(np.float64).max)
        numbers, steps = [], []
        for j, (name, bound) in enumerate(self.bounds.items()):
            quoted = name.replace('"', '""')
            numbers.append(f'CAST("{quoted}" AS DOUBLE) AS x{j}')
            b, factor = _double(bound), _double(self.steps / bound)
            # NULL for a value that is NULL, NaN or infinite, wherever NaN is sorted
            steps.append(
                f"CASE WHEN x{j} BETWEEN -{b} AND {b} "
                f"THEN CAST(FLOOR(x{j} * {factor} + 0.5) AS BIGINT) "
                f"WHEN x{j} BETWEEN {b} AND {most} THEN {self.steps} "
                f"WHEN x{j} BETWEEN -{most} AND -{b} THEN -{self.steps} END AS q{j}"
            )
        sums = [f"{total} AS {name}" for name, total in self._sums().items()]
        return (
            f"SELECT\n  {_lines(sums, 2)}\nFROM (\n  SELECT\n    {_lines(steps, 4)}\n  FROM (\n"
            f"    SELECT\n      {_lines(numbers, 6)}\n    FROM {self.table}\n"
            "  ) AS numbers\n) AS clipped"
        )

    def to_sql(self, dialect: str = "duckdb") -> str:
        """Return the query in the SQL of a database.

        Parameters
        ----------
        dialect : str, default="duckdb"
            Another one, such as "snowflake", "bigquery", "postgres" or "spark", is written by
            sqlglot.

        Returns
        -------
        sql : str

        Raises
        ------
        ImportError
            If sqlglot is needed, and is not installed.
        ValueError
            If sqlglot does not know the dialect, or cannot read ``table``.
        """
        if dialect == "duckdb":
            return self.sql
        sqlglot = library(
            "sqlglot",
            "Other dialects than 'duckdb' need sqlglot, which is not installed: "
            "pip install sqlglot",
        )
        try:
            written = sqlglot.transpile(self.sql, read="duckdb", write=dialect, pretty=True)
        except (ValueError, sqlglot.errors.SqlglotError) as error:
            raise ValueError(
                f"dialect must be one that sqlglot knows, and table must be SQL; got {dialect!r} "
                f"and {self.table!r}."
            ) from error
        return str(written[0])

    def checked(self, sums: Any) -> QuerySums:
        """Check the row that the query returned, before anything is charged.

        Parameters
        ----------
        sums : sequence of int, or dict of str to int
            In the order of ``columns``, or by their names.

        Returns
        -------
        sums : QuerySums

        Raises
        ------
        TypeError
            If it does not hold one whole number for each of ``columns``.
        ValueError
            If the number of records is not the declared one, if values are missing, or if a sum is
            larger than sums of clipped values can be.
        """
        p, n, columns = len(self.bounds), self.n_samples, self.columns
        if isinstance(sums, Mapping):
            sums = [sums.get(name) for name in columns]
        row = sums if isinstance(sums, (list, tuple, np.ndarray)) else []
        whole: list[Any] = [_whole(value) for value in row]
        no_row = TypeError(
            f"sums must be the row that the query returns, of {len(columns)} whole numbers."
        )
        if len(whole) != len(columns) or None in whole[:2]:
            raise no_row
        if whole[0] != n:
            raise ValueError(f"n_samples={n} records were declared, but sums count another number.")
        if whole[1] != n:
            raise ValueError(
                "sums must be of records without NULL, NaN and infinite values: exclude none of "
                "these records, since that would change n_samples, but replace what is missing, "
                "such as by COALESCE."
            )
        if None in whole:
            raise no_row
        rows, squares = np.array(whole[2 : p + 2], dtype=object), whole[p + 2 :]
        products = np.empty((p, p), dtype=object)
        for (i, j), value in zip(combinations_with_replacement(range(p), 2), squares, strict=True):
            products[i, j] = products[j, i] = value
        largest = n * self.steps
        if abs(rows).max() > largest or abs(products).max() > largest * self.steps:
            raise ValueError(
                "sums must be those of this query: some are larger than sums of clipped values."
            )
        return QuerySums(self, (n, p), rows, products)


def _double(value: float) -> str:
    """A literal in double precision: without an exponent it might be a decimal number."""
    return f"{value:.16e}"


def _lines(items: list[str], indent: int) -> str:
    return f",\n{' ' * indent}".join(items)


def _whole(value: Any) -> int | None:
    """The integer that a driver of a database returned, perhaps as a decimal; otherwise None."""
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        return None
    return int(value)
