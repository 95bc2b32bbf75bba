"""Contexts that change something for all threads of a process."""

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

__all__ = ["Joint"]


class Joint:
    """A context of all threads: the first that enters sets it up, the last that leaves ends it.

    Parameters
    ----------
    context : callable
        Makes the context that is entered by the first thread.
    """

    def __init__(self, context: Callable[[], AbstractContextManager[Any]]) -> None:
        self._context, self._within, self._entered = context, 0, ExitStack()
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):  # no child may inherit a lock that nobody releases
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._lock.release,
            )

    def __enter__(self) -> None:
        with self._lock:
            if self._within == 0:
                self._entered.enter_context(self._context())
            self._within += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within -= 1
            if self._within == 0:
                self._entered.close()
