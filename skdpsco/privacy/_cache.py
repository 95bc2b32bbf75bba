"""Caches of what follows from public sizes, and how they are emptied.

`functools.lru_cache` counts its calls, for everybody in the process to read. How many fits a search
has made may be a secret, so whoever keeps one empties all caches after each fit.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

_caches: list[Any] = []


def cached(maxsize: int) -> Callable[[Callable[..., Any]], Any]:
    """`functools.lru_cache` that `forget_all` empties."""

    def decorate(function: Callable[..., Any]) -> Any:
        _caches.append(lru_cache(maxsize=maxsize)(function))
        return _caches[-1]

    return decorate


def forget_all() -> None:
    """Empty the caches of this process, and set their counters to zero."""
    for one in _caches:
        one.cache_clear()
