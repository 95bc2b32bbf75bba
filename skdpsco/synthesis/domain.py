"""The public domain of a table: the values of its columns, and their codes.

Decoded tables have the dtypes of the table that was fitted, except where a dtype reveals values:
the categories of a categorical column, and the width of strings, come from the domain.
"""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from skdpsco._quiet import quietly
from skdpsco._validation import check_int, dtype_name, in_column_order, is_missing, is_number
from skdpsco.data.categories import check_categories, codes_among, is_list
from skdpsco.data.columns import NUMBER
from skdpsco.data.frames import dates_as_days
from skdpsco.data.row_blocks import without
from skdpsco.data.schema import Schema
from skdpsco.solvers.synthesis.possible_records import LinkedColumns
from skdpsco.solvers.synthesis.workload import DENSE_CELLS, CodeBlocks, is_dense
from skdpsco.synthesis.bins import Bins, MergedBins, bins_of, is_integer
from skdpsco.synthesis.columns import (
    ColumnTable,
    as_list,
    assemble,
    columns_in,
    is_dates,
    never_missing,
    public_dtype,
    taken,
    typed,
)
from skdpsco.synthesis.implications import (
    Constraint,
    constrained,
    cuts_of,
    possible_in,
    read_constraints,
)

__all__ = ["Domain", "Encoder", "dates_in", "declare"]

UNDECLARED = (
    "domain must be declared, with a size, a list of categories or Bins for every column of X. It "
    "is public: reading it off the data would not be private."
)


class Encoder(NamedTuple):
    """A transformer of blocks of records into codes; ``others`` are columns that are left out."""

    domain: "Domain"
    others: tuple[str, ...] = ()

    def transform(self, X: Any) -> np.ndarray:
        """Codes of the records of a block, which has the columns of the domain."""
        X = dates_as_days(without(X, self.others), self.domain.table.dates)
        return self.domain.encode(columns_in(X))


@dataclass(frozen=True, eq=False)
class Domain:
    """What the columns of a table may hold, and how its records are written.

    Parameters
    ----------
    entries : list of ndarray of objects, Bins or MergedBins
        Categories or bins of every column.
    table : ColumnTable
        Names, dtypes and library of the records that are written, without columns.
    constraints : tuple of Constraint, default=()
    """

    entries: list[Any]
    table: ColumnTable
    constraints: tuple[Constraint, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of categories or bins of every column."""
        return tuple(int(entry.size) for entry in self.entries)

    @property
    def possible(self) -> tuple[LinkedColumns, ...]:
        """The codes that the constraints allow."""
        dtypes = list(map(dtype_name, self.table.dtypes))
        return possible_in(self.constraints, self.entries, dtypes)

    @property
    def fine(self) -> "Domain":
        """The same with fine bins in place of merged ones."""
        return replace(self, entries=[getattr(entry, "fine", entry) for entry in self.entries])

    def merged(self, codes: Any) -> Any:
        """Codes of records from those of fine bins."""
        maps = [e.merged if isinstance(e, MergedBins) else None for e in self.entries]
        if isinstance(codes, CodeBlocks):
            return replace(codes, maps=tuple(maps))
        return np.stack([c if m is None else m[c] for c, m in zip(codes.T, maps, strict=True)]).T

    @property
    def dense(self) -> bool:
        """Whether all cells may be listed."""
        return is_dense(self.shape)

    def positions(self, columns: Any) -> Any:
        """Replace names of columns by their positions; leave anything else as it is.

        Raises
        ------
        ValueError
            If no column, or several columns, have a name.
        """
        return tuple(self.table.position(c) if isinstance(c, str) else c for c in columns)

    def encode(self, columns: list[Any]) -> np.ndarray:
        """Codes of records, of shape (n, n_columns).

        Raises
        ------
        ValueError
            If a value is not in the domain. The message does not show the value.
        """
        n = len(columns[0])
        codes = np.empty((n, len(columns)), dtype=np.intp, order="F")
        for j, (column, entry) in enumerate(zip(columns, self.entries, strict=True)):
            encode = _coded if isinstance(entry, np.ndarray) else _binned
            codes[:, j] = encode(column, entry, self.table.label(j))
        return codes

    def decode(
        self, codes: np.ndarray, rng: np.random.Generator | None = None, library: str | None = None
    ) -> Any:
        """Decode records into an array or a frame; ``library`` is that of the frame, if not None.

        Numbers are drawn from their bins with ``rng``, or are the middle ones without it.
        """
        table = self.table if library is None else self.table.of(library)
        columns = []
        for j, entry in enumerate(self.entries):
            dtype = table.dtypes[j]
            if isinstance(entry, np.ndarray):
                declared = typed(entry, table.library, dtype)
                columns.append(taken(declared, codes[:, j]))
            else:
                values = entry.numbers(codes[:, j], dtype_name(self.table.dtypes[j]), rng)
                columns.append(typed(values, table.library, dtype))
        return assemble(columns, table)

    def cells(self) -> Any:
        """One record for every cell, in order, with numbers in the middle of their bins."""
        return self.decode(np.indices(self.shape).reshape(len(self.shape), -1).T)


def dates_in(domain: Any) -> list[str]:
    """Names of the columns of dates that a domain declares."""
    columns = domain.columns.values() if isinstance(domain, Schema) else ()
    return [column.name for column in columns if column.dates]


def declare(domain: Any, table: ColumnTable, constraints: Any = None) -> Domain:
    """Check the declared domain and constraints against the columns and dtypes of a table.

    Values are never looked at.

    Raises
    ------
    TypeError, ValueError
        If ``domain`` or ``constraints`` are not legal, or do not match the number, the names or the
        dtypes of the columns.
    """
    names, n_columns = table.names, len(table.dtypes)
    if domain is None:
        raise ValueError(UNDECLARED)
    implied = read_constraints(constraints, table)
    if isinstance(domain, Schema):
        declared = _of_schema(domain, table, implied)
        domain = {name: declared[name] for name in names or () if name in declared}
    labelled = in_column_order("domain", domain, names)
    if labelled is not domain:
        given: list[Any] = labelled
    elif isinstance(domain, Bins) or is_number(domain, Integral):
        given = [domain] * n_columns
    elif is_list(domain):
        given = list(domain)
        if len(given) != n_columns:
            raise ValueError(
                f"domain must have one entry for each of {n_columns} columns of X, got "
                f"{len(given)}."
            )
    else:
        raise TypeError(
            f"domain must be a list of one entry per column of X, a dict of them, or one size or "
            f"Bins for all columns; got {_shown(domain)}."
        )
    entries = [_entry(f"domain[{table.label(j)}]", entry) for j, entry in enumerate(given)]
    dtypes = []
    for j, (entry, dtype) in enumerate(zip(entries, table.dtypes, strict=True)):
        try:
            dtypes.append(_fitting(entry, table.library, dtype))
        except ValueError as error:
            # Without parameters, as an Enum of polars prints its values.
            known = str("object" if dtype is None else dtype).partition("(")[0]
            raise ValueError(
                f"domain[{table.label(j)}] does not fit this column of X, whose dtype is {known}: "
                f"{error}."
            ) from error
    entries = [
        constrained(f"domain[{table.label(j)}]", entry, implied, j, dtype_name(dtypes[j]))
        for j, entry in enumerate(entries)
    ]
    return Domain(entries, ColumnTable(table.library, names, dtypes), implied)


def _of_schema(
    schema: Schema, table: ColumnTable, constraints: tuple[Constraint, ...]
) -> dict[str, Any]:
    """Categories of the declared columns, and bins between declared bounds."""
    dtypes = dict(zip(table.names or (), table.dtypes, strict=False))
    never_none = {n for n, t in dtypes.items() if never_missing(t)}
    entries: dict[str, Any] = {
        name: [value for value in values if value is not None or name not in never_none]
        for name, values in schema.declared("categories").items()
    }
    for name, column in schema.columns.items():
        if column.kind == NUMBER:
            integer = column.integer or is_integer(dtype_name(dtypes.get(name)))
            missing = column.missing and name not in never_none
            cuts = cuts_of(constraints, table.position(name)) if name in dtypes else ()
            entries[name] = bins_of(replace(column, integer=integer, missing=missing), cuts)
    return entries


def _shown(domain: Any) -> str:
    """A domain for a message, without anything that might be records."""
    kind = type(domain).__name__
    return f"an object of type {kind}" if hasattr(domain, "columns") else repr(domain)


def _entry(name: str, entry: Any) -> Any:
    """Categories or Bins, checked."""
    if isinstance(entry, (Bins, MergedBins)):
        return entry
    if is_list(entry):
        return check_categories(name, entry)
    size = check_int(name, entry, "a list of categories, Bins or ")
    if size > DENSE_CELLS:
        raise ValueError(f"{name} must be at most {DENSE_CELLS}, got {size}.")
    return np.array(range(size), dtype=object)


def _fitting(entry: Any, library: str | None, dtype: Any) -> Any:
    """The dtype of a written column; raises an exception if it cannot hold the declared values."""
    name = "object" if dtype is None else dtype_name(dtype)
    if not isinstance(entry, np.ndarray):
        bins = entry.fine if isinstance(entry, MergedBins) else entry
        if not (is_dates(dtype) or is_integer(name) or name.startswith(("float", "object"))):
            raise ValueError("bins are for numbers that are integers or floats")
        if bins.integer or is_integer(name):
            bins.whole_numbers(name if is_integer(name) else "int64")
        largest = max(map(abs, bins.edges + bins.points))
        if name in ("float16", "float32") and largest > float(np.finfo(name).max):
            raise ValueError("edges or points are too large")
        if bins.missing and never_missing(dtype):
            raise ValueError("it does not hold missing numbers")
        return public_dtype(dtype, library, [])
    try:
        dtype = public_dtype(dtype, library, entry.tolist())
        with np.errstate(all="ignore"):
            held = as_list(typed(entry, library, dtype))
    except Exception as error:  # an error of the library
        raise ValueError("it does not hold what is declared") from error
    for value, other in zip(entry, held, strict=True):
        same = is_missing(value) if is_missing(other) else value == other
        if not same and not (name.startswith("float") and isinstance(value, Real)):
            raise ValueError(f"it does not hold {value!r}")
    known = [other for other in held if not is_missing(other)]
    if len(set(known)) < len(known):
        raise ValueError("some categories are the same in it")
    return dtype


def _coded(column: Any, categories: np.ndarray, label: str) -> np.ndarray:
    """Positions of the values of a column among its categories."""
    values, back = _values(column), None
    if values.dtype.kind != "O":
        values, back = np.unique(values, return_inverse=True)
    codes = np.array(codes_among(values, categories, column.dtype), dtype=np.intp)
    if (codes < 0).any():
        if any(is_missing(value) for value in values[codes < 0].tolist()):
            raise ValueError(_MISSING.format(label=label, cure="or list None among its categories"))
        raise ValueError(
            f"X has a value in column {label} that domain[{label}] does not list. Numbers and "
            "strings differ, even 1 and '1'."
        )
    return codes if back is None else codes[back]


_MISSING = (
    "X contains NaN or another missing value in column {label}: declare 'missing': True in the "
    "Schema, {cure}, or impute it."
)


def _binned(column: Any, bins: Bins | MergedBins, label: str) -> np.ndarray:
    """Bins of the values of a column."""
    values = _values(column)
    missing = (bins.fine if isinstance(bins, MergedBins) else bins).missing
    if values.dtype == object:
        lost = np.array([is_missing(value) for value in values])
        if not all(isinstance(value, Real) for value in values[~lost]):
            raise ValueError(f"X must hold numbers in column {label}, for which domain has bins.")
        values = np.where(lost, np.nan, values)
    numbers = quietly(
        f"X has a number in column {label} that is too large.", values.astype, np.float64
    )
    if np.isnan(numbers).any() and not missing:
        raise ValueError(_MISSING.format(label=label, cure="or Bins(..., missing=True)"))
    if np.isinf(numbers).any():
        raise ValueError(f"X contains infinity in column {label}: bins need finite numbers.")
    return bins.codes(numbers, column.dtype)


def _values(column: Any) -> np.ndarray:
    """A column as an array of its own dtype if that is NumPy's, otherwise of Python objects."""
    if isinstance(column.dtype, np.dtype):
        return np.asarray(column)
    return np.fromiter(column.to_list(), dtype=object, count=len(column))
