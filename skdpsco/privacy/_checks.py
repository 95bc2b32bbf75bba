"""Validation shared by the budget, the events and the accountant."""

import math
from collections.abc import Iterable, Sequence, Sized
from importlib import import_module
from numbers import Integral, Real
from typing import Any

__all__ = [
    "NEEDS_DELTA",
    "abridged",
    "check_choice",
    "check_delta",
    "check_int",
    "check_partition",
    "check_real",
    "is_number",
    "library",
]

NEEDS_DELTA = (
    "delta must be in (0, 1) here, as delta=0 covers neither Gaussian noise nor what is planned in "
    "zCDP. Choose a tiny delta, such as 1e-12, or a fit that only draws by the exponential "
    "mechanism: PrivateLogisticL1 or PrivateLasso with solver='frank-wolfe', a radius and declared "
    "bounds, PrivateQuantileClipper with lower and upper, PrivateFeatureSelector with classes and "
    "feature_bound, PrivateSynthesizer with a domain and solver='multiplicative-weights'."
)

LONGEST_TEXT, MOST_SHOWN = 100, 10
LARGEST_INT = 2**63 - 1  # of 64 bits


def abridged(value: object) -> str:
    """What an error says of an illegal value: of an array or a long one its type alone.

    So no record is shown if a table or a column is passed in the place of something else.
    """
    text, shape = repr(value), getattr(value, "shape", None)
    whole = isinstance(value, (str, bytes)) or shape == ()
    size = len(value) if isinstance(value, Sized) and not whole else 0
    short = len(text) <= LONGEST_TEXT and size <= MOST_SHOWN and not shape
    in_parts = hasattr(value, "get_params") or hasattr(value, "_fields")
    if short or in_parts or isinstance(value, Real):
        return text
    extent = f" of shape {shape}" if shape else f" of length {size}" if size else ""
    return f"a {type(value).__name__}{extent}"


def is_number(value: Any, kind: Any = Real) -> bool:
    """Whether a value is a number of this kind: not True or False, which Python counts as one."""
    if type(value) is float and kind is Real:  # at once, as a plan makes many checks
        return True
    return isinstance(value, kind) and not isinstance(value, bool)


def check_real(
    name: str, value: Any, low: float, high: float, *, closed: bool | str = False
) -> float:
    """Return `value` as a float inside (low, high), or [low, high] if `closed`.

    If `closed` is "left" the interval is [low, high). Booleans, strings and NaN are refused, and
    so are infinities.
    """
    at_high = closed is True
    if type(value) is float and math.isfinite(value):
        if low < value < high or (closed and value == low) or (at_high and value == high):
            return value  # at once, as a plan makes hundreds of checks
    left, right = "[" if closed else "(", "]" if at_high and math.isfinite(high) else ")"
    interval = f"{left}{low:g}, {high:g}{right}"
    expected = f"{name} must be a finite real number in {interval}, got {abridged(value)}"
    if not is_number(value):
        raise TypeError(f"{expected} of type {type(value).__name__}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    inside = low < number < high or (closed and number == low) or (at_high and number == high)
    if not (math.isfinite(number) and inside):
        raise ValueError(f"{expected}.")
    return number


def check_delta(delta: object, *, pure: bool = False) -> float:
    """Return `delta` as a float inside (0, 1), or [0, 1) if `pure`."""
    if is_number(delta) and delta == 0 and not pure:
        raise ValueError(NEEDS_DELTA)
    # A ledger seals what it stores, and SQLite stores -0.0 as 0.0.
    return check_real("delta", delta, 0, 1, closed="left" if pure else False) + 0.0


def check_int(
    name: str, value: Any, also: str = "", low: int = 1, high: float = LARGEST_INT
) -> int:
    """Check that the value is a whole number in [low, high]; ``also`` names what else is legal.

    Raises
    ------
    TypeError
        If it is not an integer.
    ValueError
        If it is out of range, or does not fit into 64 bits.
    """
    span = f">= {low}" if high >= LARGEST_INT else f"in [{low}, {high}]"
    if not is_number(value, Integral):
        raise TypeError(f"{name} must be {also}an int {span}, got {abridged(value)}.")
    number = int(value)
    if not low <= number <= high:
        most = " and below 2**63" if number > LARGEST_INT == high else ""
        raise ValueError(f"{name} must be {also}an int {span}{most}, got {abridged(value)}.")
    return number


def check_choice(name: str, value: Any, legal: Iterable[str]) -> str:
    """Check that the value is one of the legal names.

    Raises
    ------
    ValueError
        If it is something else.
    """
    names = tuple(legal)
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{name} must be one of {names}, got {abridged(value)}.")
    return value


def library(name: str, message: str) -> Any:
    """Import an optional library, or raise an ImportError with this message."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(message) from error


def check_partition(partition: object) -> int:
    """Check the number of parts; where record numbers are given, the parts must be disjoint."""
    if not isinstance(partition, Sequence):
        n_parts = check_int("partition", partition, low=0)
    else:
        n_parts = len(partition)
        seen: set[int] = set()
        for part in partition:
            records = [check_int("partition's record numbers", i, low=0) for i in part]
            if not seen.isdisjoint(records) or len(set(records)) < len(records):
                raise ValueError("partition must consist of disjoint parts.")
            seen.update(records)
    if n_parts < 1:
        raise ValueError("partition must have at least one part.")
    return n_parts
