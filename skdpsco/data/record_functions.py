"""What a user's function says of each record: real numbers, whatever it does for some records."""

from collections.abc import Callable
from typing import Any

import numpy as np

RecordArrays = tuple[Any, ...]  # arrays with one entry per record along their first axes


def real_numbers(
    name: str,
    function: Callable[..., Any],
    data: RecordArrays,
    shape: tuple[int, ...] = (),
    exact: bool = False,
) -> np.ndarray:
    """What ``function(*data)`` returns, in float64; NaN in place of complex numbers.

    Parameters
    ----------
    name : str
        Of the function, for messages.
    function : callable
        It cannot change the arrays.
    data : tuple of ndarray
    shape : tuple of int, default=()
        Of what it says of one record.
    exact : bool, default=False
        Whether floats must have double precision.

    Raises
    ------
    ValueError
        If it returns anything but real numbers for each record.
    Exception
        What it raises itself.
    """
    n = len(data[0])
    with np.errstate(all="ignore"):  # a warning would tell something about the data
        found = np.asarray(function(*map(_read_only, data)))
        if found.dtype.kind == "c":  # perhaps of one record, which alone must bear it
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
        return found.astype(np.float64)  # of a long double and of objects, too


def numbers_or_nan(
    name: str, function: Callable[..., Any], data: RecordArrays, *given: Any
) -> np.ndarray:
    """`real_numbers`, with NaN for every record of which there are none. It raises nothing.

    Whether a function fails may depend on one record. The others have to count as if it had not
    failed: it is called again with either half of the records, down to the single ones for which it
    fails.
    """
    try:
        return real_numbers(name, function, data, *given)
    except Exception:
        n = len(data[0])
        if n <= 1:
            return np.full((n, *(given[0] if given else ())), np.nan)
    halves = [tuple(array[: n // 2] for array in data), tuple(array[n // 2 :] for array in data)]
    return np.concatenate([numbers_or_nan(name, function, half, *given) for half in halves])


def _read_only(array: Any) -> Any:
    """A view: functions that changed their records would depend on earlier calls."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view
