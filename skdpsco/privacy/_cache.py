"""Caches of values that follow from public sizes, and how they are emptied.

`functools.lru_cache` counts its calls, and everybody in the process can read the counter. How many
fits a search has made may be secret, so searches empty all caches after each fit.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

__all__ = ["cached", "forget_all"]

_caches: list[Any] = []


def cached(maxsize: int) -> Callable[[Callable[..., Any]], Any]:
    """Wrap a function in a `functools.lru_cache` that `forget_all` empties."""

    def decorate(function: Callable[..., Any]) -> Any:
        _caches.append(lru_cache(maxsize=maxsize)(function))
        return _caches[-1]

    return decorate


def forget_all() -> None:
    """Empty the caches of this process, and set their counters to zero."""
    for one in _caches:
        one.cache_clear()
