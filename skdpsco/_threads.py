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
        self._context, self._entered = context, ExitStack()
        self._within: list[int] = []  # a thread's number, as often as it has entered
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):  # no child may inherit a lock that nobody releases
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._forked,
            )

    def __enter__(self) -> None:
        with self._lock:
            if not self._within:
                self._entered.enter_context(self._context())
            self._within.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within.remove(threading.get_ident())
            self._end_if_left()

    def _end_if_left(self) -> None:
        if not self._within:
            self._entered.close()

    def _forked(self) -> None:
        """Go on in a child process, which has none of the other threads."""
        own = threading.get_ident()
        self._within = [thread for thread in self._within if thread == own]
        self._end_if_left()
        self._lock.release()
