"""Roots and minima of functions of a positive number."""

import math
from collections.abc import Callable

__all__ = ["between", "bisected", "minimise", "solve"]

_GOLDEN = (math.sqrt(5) - 1) / 2
_SPAN = 15.0  # width of a search, in log b


def bisected(
    low: float, high: float, n_steps: int, is_low: Callable[[float], bool]
) -> tuple[float, float]:
    """Halve an interval so many times around the end of the numbers that are low."""
    for _ in range(n_steps):
        middle = (low + high) / 2
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return low, high


def solve(increasing: Callable[[float], float], target: float) -> float:
    """Return b in (1e-304, 1e304) with increasing(b) = target, by bisection of log b."""
    low, _ = bisected(-700.0, 700.0, 60, lambda t: increasing(math.exp(t)) < target)
    return math.exp(low)


def minimise(function: Callable[[float], float], near: float) -> float:
    """Return the best b found in (exp(-12) near, exp(4) near); `near` is moved to [1e-100, 1e100].

    A coarse search, since there may be several minima, and golden sections, all in log b.
    """
    middle = math.log(min(max(near, 1e-100), 1e100))
    grid = [middle + k / 2 for k in range(-23, 8)]
    low = min(grid, key=lambda t: function(math.exp(t))) - 0.5
    high = low + 1
    left, right = high - _GOLDEN, low + _GOLDEN
    at_left, at_right = function(math.exp(left)), function(math.exp(right))
    for _ in range(25):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(math.exp(right))
    return math.exp(left if at_left <= at_right else right)


def between(ends: list[float]) -> list[float]:
    """The ends, and enough numbers between them for searches around all of them to leave no gap."""
    low, high = (math.log(min(max(end, 1e-100), 1e100)) for end in (min(ends), max(ends)))
    n_gaps = math.ceil((high - low) / _SPAN)
    return [*ends, *(math.exp(low + (high - low) * k / n_gaps) for k in range(1, n_gaps))]
