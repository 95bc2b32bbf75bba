"""Equally many records of every unit, drawn at random: docs/proofs/units.md."""

from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse

from skdpsco._quiet import quietly
from skdpsco._random import generator, seed_of
from skdpsco._upstream import num_samples, safe_indexing
from skdpsco._validation import check_sparse
from skdpsco.data.block_records import is_blocks
from skdpsco.privacy.budget import check_unit

__all__ = ["draw_records", "of_units"]


def draw_records(units: Any, max_records_per_unit: int = 1) -> np.ndarray:
    """Draw equally many records of every unit, such as every person, in random order.

    If a unit has more records, some of them are drawn without replacement. If it has fewer, all are
    taken several times. So the number of rows is the number of units times
    ``max_records_per_unit``.

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
        Numbers of the drawn records, for ``X[rows]`` or ``X.iloc[rows]``. They are private: do not
        publish them.

    Raises
    ------
    TypeError
        If ``max_records_per_unit`` is not an integer.
    ValueError
        If it is out of range, or ``units`` is not one-dimensional, is empty or holds what is
        missing or not hashable. No message shows a value.

    See Also
    --------
    PrivateRidge : As all estimators do, it draws records itself if its ``fit`` is given ``units``.
    Ledger : Its ``max_records_per_unit`` protects all records of a unit at once.

    Notes
    -----
    Neighbours replace all records of one unit. What is rho-zCDP for one row is k^2 rho-zCDP for
    them, where k is ``max_records_per_unit``; a `Ledger` with the same number accounts for it. See
    :doc:`/persons`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import draw_records
    >>> person = np.array([7, 7, 7, 8])
    >>> rows = draw_records(person, 2)
    >>> sorted(person[rows].tolist())
    [7, 7, 8, 8]
    """
    return _rows(_numbers(units), check_unit(max_records_per_unit), generator_of_draws(None))


def of_units(units: Any, k: int, random_state: Any, given: dict[str, Any]) -> list[Any]:
    """The arguments of a fit to k records of every unit, in their order.

    Parameters
    ----------
    units : array-like of shape (n_samples,)
    k : int
    random_state : None, int or numpy.random.RandomState
    given : dict
        X, and other arguments by their names. What has an entry for every record is drawn like X.
        Names of columns, and what has no length, stay as they are.

    Raises
    ------
    ValueError
        If X is in blocks, ``units`` is not legal, or an argument has another length.
    """
    if is_blocks(given["X"]) or hasattr(type(given["X"]), "_released"):
        raise ValueError(
            "units must be None unless X holds records in memory, from which a fit draws; got "
            f"{type(given['X']).__name__}. See draw_records."
        )
    number = _numbers(units)
    rows = _rows(number, check_unit(k), generator_of_draws(random_state))
    return [_drawn(name, value, rows, len(number)) for name, value in given.items()]


def generator_of_draws(random_state: Any) -> np.random.Generator:
    """Make the generator of a draw: secret, or reproducible, but never that of the noise.

    Raises
    ------
    ValueError, TypeError
        If ``random_state`` is not legal.
    """
    seed = seed_of(random_state)
    if seed is None:
        return generator()[0]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(1,))))


def _drawn(name: str, value: Any, rows: np.ndarray, n_samples: int) -> Any:
    """The entries of these rows, or a value that has none for records."""
    if sparse.issparse(value):
        value = check_sparse(value).tocsr()
    message = f"{name} must be an array, a list or a frame with one entry for each of units."
    try:
        length = None if isinstance(value, str) else num_samples(value)
    except Exception:  # it has no length
        length = None
    if length is None:
        if name in ("X", "y") and value is not None:
            raise ValueError(message)
        return value
    if length == n_samples:
        return quietly(message, safe_indexing, value, rows)
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        return value  # names of columns
    raise ValueError(
        f"{name} and units must have one entry for every record, got {length} and {n_samples}."
    )


def _rows(number: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of k records of every unit, in random order."""
    order = rng.permutation(len(number))
    order = order[np.argsort(number[order], kind="stable")]  # a random order within every unit
    counts = np.bincount(number)
    starts = np.cumsum(counts) - counts
    rows = order[starts[:, None] + np.arange(k) % counts[:, None]]
    return rng.permutation(rows.ravel())


def _numbers(units: Any) -> np.ndarray:
    """The units as consecutive numbers."""
    problem = "units must be one-dimensional, not empty, and hold hashable values, none missing."
    if isinstance(units, str):
        problem = "units must hold the unit of every record: a column, and not its name."
    numbers: Any = None
    lost = False
    with suppress(Exception):  # its text may show a value, even as the context of another error
        # A list of numbers and strings would become one of strings, in which 1 and "1" are the same
        # unit.
        values = np.asarray(units, None if hasattr(units, "dtype") else object)
        if values.ndim == 1 and values.dtype.kind == "O":
            known: dict[Any, int] = {}
            lost = any(value is None or not value == value for value in values.tolist())
            numbers = [known.setdefault(value, len(known)) for value in values.tolist()]
        elif values.ndim == 1:
            lost = bool((values != values).any())  # NaN and NaT
            numbers = np.unique(values, return_inverse=True)[1]
    if lost or numbers is None or not len(numbers):
        raise ValueError(problem)
    return np.asarray(numbers, dtype=np.int64)
