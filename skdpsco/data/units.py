"""Equally many records of every unit, drawn at random: docs/proofs/units.md."""

from contextlib import suppress
from typing import Any

import numpy as np

from skdpsco._random import generator
from skdpsco.privacy.budget import check_unit

__all__ = ["draw_records"]


def draw_records(units: Any, max_records_per_unit: int = 1) -> np.ndarray:
    """Draw equally many records of every unit, such as every person, in random order.

    If a unit has more records, some of them are drawn without replacement. If it has fewer, all are
    taken several times, and no two of them differ by more than one in how often. So every unit has
    the same weight, whatever its number of records, and the number of rows is the number of units
    times ``max_records_per_unit``.

    Parameters
    ----------
    units : array-like of shape (n_records,)
        The unit of every record: numbers, strings or other hashable values, none of them missing.
    max_records_per_unit : int, default=1
        How many records are drawn of every unit, in [1, 999999]. Choose it without looking at the
        data.

    Returns
    -------
    rows : ndarray of shape (n_units * max_records_per_unit,)
        Numbers of the drawn records, for ``X[rows]`` or ``X.iloc[rows]``. They are private: fit to
        the records that they select, and do not publish them.

    Raises
    ------
    TypeError
        If ``max_records_per_unit`` is not an integer.
    ValueError
        If it is out of range, or ``units`` is not one-dimensional, is empty or holds what is
        missing or not hashable. No message shows a value.

    See Also
    --------
    Ledger : Its ``max_records_per_unit`` protects all records of a unit at once.

    Notes
    -----
    Neighbours replace all records of one unit by those of another one, which may have more or
    fewer. The number of units is public, but the number of records of a unit is not. What is
    rho-zCDP for the replacement of one row is k^2 rho-zCDP for such neighbours, where k is
    ``max_records_per_unit``; a `Ledger` with the same number accounts for it. Random bits are keyed
    by the operating system in every call. Privacy holds for every outcome of the draw, but relies
    on the random order where a solver reads records one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import draw_records
    >>> person = np.array([7, 7, 7, 8])
    >>> rows = draw_records(person, 2)
    >>> sorted(person[rows].tolist())
    [7, 7, 8, 8]
    """
    k = check_unit(max_records_per_unit)
    number = _numbers(units)
    rng, _ = generator()
    order = rng.permutation(len(number))
    order = order[np.argsort(number[order], kind="stable")]  # a random order within every unit
    counts = np.bincount(number)
    starts = np.cumsum(counts) - counts
    rows = order[starts[:, None] + np.arange(k) % counts[:, None]]
    return rng.permutation(rows.ravel())


def _numbers(units: Any) -> np.ndarray:
    """The units as consecutive numbers."""
    problem = "units must be one-dimensional, not empty, and hold hashable values, none missing."
    numbers = None
    with suppress(Exception):  # its text may show a value, even as the context of another error
        # A list of numbers and strings would become one of strings, in which 1 and "1" are the same
        # unit.
        values = np.asarray(units, None if hasattr(units, "dtype") else object)
        numbers = _numbered(values) if values.ndim == 1 and len(values) else None
    if numbers is None:
        raise ValueError(problem)
    return numbers


def _numbered(values: np.ndarray) -> np.ndarray | None:
    """The values as consecutive numbers; None if one is missing."""
    if values.dtype.kind != "O":
        if (values != values).any():  # NaN and NaT
            return None
        return np.unique(values, return_inverse=True)[1]
    known: dict[Any, int] = {}
    numbers = np.empty(len(values), np.int64)
    for i, value in enumerate(values.tolist()):
        if value is None or not value == value:
            return None
        numbers[i] = known.setdefault(value, len(known))
    return numbers
