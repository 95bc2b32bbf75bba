"""Times and events as users give them, as two numbers per person: -time where it is censored."""

from typing import Any

import numpy as np

from skdpsco._quiet import quietly
from skdpsco._validation import LARGEST, SMALLEST, as_numbers, refuse_masked
from skdpsco.data.arrow_blocks import is_arrow
from skdpsco.privacy._checks import abridged

__all__ = ["check_outcomes", "check_times", "signed_times"]

EARLIEST = 1e-9  # in units of the end of the first interval: a time of 0 has no sign
MOST_TIMES = 10_000

_FORMS = (
    "{} must be a structured array with a boolean and a numeric field, or have two columns: event "
    "(0 or 1) and time. A third one may hold the time of entry."
)


def check_times(times: Any, most: int = MOST_TIMES) -> np.ndarray:
    """The ends of the intervals.

    Raises
    ------
    ValueError
        If they are not increasing numbers within the legal range, or more than ``most``.
    """
    legal = (
        f"times must be a list of increasing numbers in [{SMALLEST:g}, {LARGEST:g}], the ends of "
        "the intervals; they are public"
    )
    if times is None:
        raise ValueError(f"times must be declared: {legal}, and must not be read off the data.")
    ends = as_numbers(f"{legal}.", times)
    if ends.ndim != 1 or not 0 < len(ends) <= most:
        raise ValueError(f"{legal}, at least 1 and at most {most}.")
    if not (ends[0] >= SMALLEST and (np.diff(ends) > 0.0).all() and ends[-1] <= LARGEST):
        raise ValueError(f"{legal}, got {abridged(times)}.")
    return ends


def check_outcomes(y: Any, name: str = "y") -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Whether every person had an event, when it was seen last, and when first, if that is given.

    Raises
    ------
    ValueError
        If y has another form, an event is not 0 or 1, a time is not finite and >= 0, or an entry is
        not before it. The message calls y by its ``name``.
    """
    refuse_masked(name, y)
    legal = _FORMS.format(name)
    if hasattr(y, "columns"):  # of a frame, whose columns have types of their own
        names = y.column_names if is_arrow(y) else y.columns
        columns = [quietly(legal, np.asarray, y[name]) for name in names]
    else:
        y = quietly(legal, np.asarray, y)
        names = y.dtype.names
        columns = [y[name] for name in names] if names else list(y.T) if y.ndim == 2 else []
    if len(columns) not in (2, 3) or any(column.ndim != 1 for column in columns):
        raise ValueError(legal)
    if columns[1].dtype.kind == "b" and columns[0].dtype.kind != "b":
        columns[:2] = columns[1::-1]
    event, time, *entry = (_finite(column, name) for column in columns)
    if not ((event == 0.0) | (event == 1.0)).all():
        raise ValueError(f"The event must be 0 or 1, or boolean: it is the first column of {name}.")
    if not (time >= 0.0).all():
        raise ValueError(f"The time must be >= 0: it is the second column of {name}.")
    if not entry:
        return event == 1.0, time, None
    if not ((entry[0] == 0.0) | ((entry[0] > 0.0) & (entry[0] < time))).all():
        raise ValueError(
            f"The entry must be 0, or > 0 and < time: it is the third column of {name}."
        )
    return event == 1.0, time, entry[0]


def _finite(column: np.ndarray, name: str) -> np.ndarray:
    """The numbers of a column.

    Raises
    ------
    ValueError
        If one is not a finite number.
    """
    legal = f"Events and times in {name} must be finite numbers, none of them missing."
    values = as_numbers(legal, column)
    if not np.isfinite(values).all():
        raise ValueError(legal)
    return values


def signed_times(y: Any, times: np.ndarray, name: str = "y") -> tuple[np.ndarray, bool]:
    """Times of events, and minus times at which others were seen last; entries, 0 if not given.

    Whoever is seen after the horizon, the last of ``times``, was seen until then without an event.

    Returns
    -------
    records : ndarray of shape (n_samples, 2)
    delayed : bool
        Whether y has a column of entries, which is public.
    """
    event, time, entry = check_outcomes(y, name)
    event &= time <= times[-1]
    time = np.clip(time, EARLIEST * times[0], times[-1])
    first = np.zeros(len(time)) if entry is None else entry
    return np.column_stack([np.where(event, time, -time), first]), entry is not None
