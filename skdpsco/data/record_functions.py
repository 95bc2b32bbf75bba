"""Calls of a user's function of records, whose result must be real numbers for each record."""

from collections.abc import Callable
from typing import Any

import numpy as np

from skdpsco.data.design import read_only

__all__ = ["Data", "numbers_or_nan", "real_numbers"]

Data = tuple[Any, ...]  # arrays with one entry per record along their first axes


def real_numbers(
    name: str,
    function: Callable[..., Any],
    data: Data,
    shape: tuple[int, ...] = (),
    exact: bool = False,
) -> np.ndarray:
    """Return ``function(*data)`` in float64, with NaN in place of complex numbers.

    Parameters
    ----------
    name : str
        Name of the function, for messages.
    function : callable
        A function of the arrays, which it cannot change.
    data : tuple of ndarray
    shape : tuple of int, default=()
        Shape of the result for one record.
    exact : bool, default=False
        Whether floats must have double precision.

    Raises
    ------
    ValueError
        If the function returns anything but real numbers for each record.
    Exception
        Whatever the function raises itself.
    """
    n = len(data[0])
    with np.errstate(all="ignore"):  # a warning would tell something about the data
        # A function that changed records would depend on earlier calls.
        views = (read_only(array) if isinstance(array, np.ndarray) else array for array in data)
        found = np.asarray(function(*views))
        if found.dtype.kind == "c":  # this may affect only the records that are complex
            found = np.where(found.imag == 0.0, found.real, np.nan)
        if found.shape != (n, *shape) or found.dtype.kind not in "biufO":
            legal = str(("n_records", *shape)).replace("'", "")
            raise ValueError(
                f"{name} must return real numbers of shape {legal}, a row for each record; got "
                f"{found.dtype} of shape {found.shape} for {n} records."
            )
        if exact and found.dtype.kind == "f" and found.dtype.itemsize < 8:
            raise ValueError(
                f"{name} must return float64 where it is declared monotone, got {found.dtype}: "
                "the rounding of anything shorter would not be small next to what a record may do."
            )
        return found.astype(np.float64)  # long doubles and objects, too


def numbers_or_nan(name: str, function: Callable[..., Any], data: Data, *given: Any) -> np.ndarray:
    """Do what `real_numbers` does, with NaN for records for which the function fails; never raise.

    Whether a function fails may depend on one record, and the others must count as if it had not
    failed. So it is called again with each half of the records, down to single records.
    """
    try:
        return real_numbers(name, function, data, *given)
    except Exception:
        n = len(data[0])
        if n <= 1:
            return np.full((n, *(given[0] if given else ())), np.nan)
    halves = [tuple(array[: n // 2] for array in data), tuple(array[n // 2 :] for array in data)]
    return np.concatenate([numbers_or_nan(name, function, half, *given) for half in halves])
