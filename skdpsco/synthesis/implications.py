"""Constraints that users declare: if some columns have given values, then others have, too."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from skdpsco._validation import is_missing, is_number
from skdpsco.data.categories import codes_among, is_list
from skdpsco.data.frames import dates_of, day_of
from skdpsco.solvers.synthesis.possible_records import CodeBox, LinkedColumns, linked_columns
from skdpsco.synthesis.bins import MERGED_BINS, Bins, MergedBins, is_integer
from skdpsco.synthesis.columns import ColumnTable, is_dates

__all__ = ["Constraint", "constrained", "cuts_of", "possible_in", "read_constraints"]

LEGAL = (
    "a list of pairs of dicts, (if, then), which give columns a value, a list of values, or a "
    "range of numbers (low, high)"
)
Values = dict[int, list[Any]]  # by column, values and ranges, of which a record has one


class Constraint(NamedTuple):
    """Records that have the values of ``given`` also have those of ``then``."""

    given: Values
    then: Values


def read_constraints(constraints: Any, table: ColumnTable) -> tuple[Constraint, ...]:
    """Constraints on the columns of a table, checked.

    Raises
    ------
    TypeError, ValueError
        If they are not legal, or name a column that the table does not have.
    """
    if constraints is None:
        return ()
    if not is_list(constraints):
        raise TypeError(f"constraints must be {LEGAL}; got a {type(constraints).__name__}.")
    found = []
    for i, pair in enumerate(constraints):
        legal = isinstance(pair, (list, tuple)) and len(pair) == 2
        if not legal or not all(isinstance(part, Mapping) and part for part in pair):
            raise TypeError(f"constraints must be {LEGAL}; constraints[{i}] is not such a pair.")
        found.append(Constraint(*(_by_column(f"constraints[{i}]", part, table) for part in pair)))
    return tuple(found)


def _by_column(where: str, part: Mapping[Any, Any], table: ColumnTable) -> Values:
    values: Values = {}
    for column, wanted in part.items():
        position = column
        if isinstance(column, str):
            names = table.names or []
            position = names.index(column) if names.count(column) == 1 else -1
        if not is_number(position, Integral) or position not in range(len(table.dtypes)):
            raise ValueError(f"{where} must name columns that X has once, got {column!r}.")
        alternatives = wanted if isinstance(wanted, list) else [wanted]
        if not alternatives:
            raise ValueError(f"{where} must not have empty lists, got one for column {column!r}.")
        values[position] = []
        for value in alternatives:
            days = is_dates(table.dtypes[position])
            known = _day_or_range(where, column, value) if days else value
            ends = known if isinstance(known, tuple) else (0, 1)
            if len(ends) != 2 or not all(map(is_number, ends)) or not ends[0] < ends[1]:
                raise ValueError(
                    f"{where} must have ranges of two numbers (low, high), low < high, got "
                    f"{value!r} for column {column!r}."
                )
            values[position].append(known)
    return values


def _day_or_range(where: str, column: Any, value: Any) -> Any:
    """The day of a date, or a range of days; what is missing as it is."""
    if is_missing(value):
        return value
    days = tuple(map(day_of, value if isinstance(value, tuple) else (value,)))
    if any(map(math.isnan, days)):
        raise ValueError(
            f"{where} must give column {column!r} dates such as '2024-01-31', got {value!r}."
        )
    return days if isinstance(value, tuple) else days[0]


def _of_column(constraints: Sequence[Constraint], column: int) -> list[Any]:
    """All values and ranges that constraints name for a column."""
    parts = [part for constraint in constraints for part in constraint]
    return [value for part in parts for value in part.get(column, [])]


def cuts_of(constraints: Sequence[Constraint], column: int) -> list[float]:
    """Numbers between which no bin of a column may lie."""
    values = [v for v in _of_column(constraints, column) if not is_missing(v)]
    ends = [v if isinstance(v, tuple) else (v, v + 1) for v in values if not isinstance(v, str)]
    return [float(end) for pair in ends for end in pair]


def constrained(
    name: str, entry: Any, constraints: Sequence[Constraint], j: int, dtype: str
) -> Any:
    """The domain of a column, whose merged bins begin and end where constraints need it.

    Raises
    ------
    ValueError
        If a value, or all of a range, is not declared, or a range does not begin and end at edges
        of bins.
    """
    fine = entry.fine if isinstance(entry, MergedBins) else entry
    forced: set[int] = set()
    for value in _of_column(constraints, j):
        mask = _matching(fine, value, dtype)
        if mask is None or not mask.any():
            known = dtype.startswith("datetime") and not is_missing(value)
            shown = dates_of(value).astype(str).tolist() if known else value
            raise ValueError(
                f"{name} does not declare {shown!r}, which constraints give this column. Numbers "
                "are one of the points of their Bins, or a range from one edge to another that is "
                "not wholly beyond them."
            )
        if entry is not fine:
            forced |= set((np.flatnonzero(np.diff(mask[: fine.n_intervals])) + 1).tolist())
    if len(forced) >= MERGED_BINS:
        raise ValueError(f"{name} has at most {MERGED_BINS} parts, but constraints divide it more.")
    return replace(entry, forced=tuple(sorted(forced))) if forced else entry


def _matching(entry: Any, value: Any, dtype: str) -> np.ndarray | None:
    """Which codes of a column have a value or are in a range; None if that is not declared."""
    if isinstance(entry, MergedBins):
        fine = _matching(entry.fine, value, dtype)
        return None if fine is None else entry.of_fine(fine)
    if isinstance(entry, Bins):
        return _matching_bins(entry, value, dtype)
    if isinstance(value, tuple):
        return np.array([is_number(v) and value[0] <= v < value[1] for v in entry])
    (code,) = codes_among(np.array([value], dtype=object), entry, None)
    return None if code < 0 else np.arange(len(entry)) == code


def _matching_bins(bins: Bins, value: Any, dtype: str) -> np.ndarray | None:
    codes = np.arange(bins.size)
    if isinstance(value, tuple):
        return bins.between(value[0], value[1], dtype)
    if is_missing(value):
        return codes == bins.size - 1 if bins.missing else None
    if value in bins.points:
        return codes == bins.n_intervals + bins.points.index(value)
    if not is_number(value) or not (bins.integer or is_integer(dtype)):
        return None
    found = bins.between(value, math.nextafter(value, math.inf), dtype)
    return found if found is not None and found.any() else None


def possible_in(
    constraints: Sequence[Constraint], entries: Sequence[Any], dtypes: Sequence[str]
) -> tuple[LinkedColumns, ...]:
    """The codes that constraints allow.

    Raises
    ------
    ValueError
        If they allow none, or are too many.
    """

    def masks(part: Values) -> CodeBox:
        found = {j: [_matching(entries[j], v, dtypes[j]) for v in part[j]] for j in part}
        return {j: np.logical_or.reduce(np.array(some)) for j, some in found.items()}

    forbidden = []
    for constraint in constraints:
        given, then = masks(constraint.given), masks(constraint.then)
        forbidden.append([{**given, j: given.get(j, True) & ~then[j]} for j in then])
    return linked_columns(forbidden, tuple(int(entry.size) for entry in entries))
