"""The SQLite database behind a ledger: one transaction per charge, on disk before it returns."""

import contextlib
import os
import random
import sqlite3
import threading
import time
import unicodedata
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ._checks import abridged
from ._rows import CREATE, SCHEMA, Damage, check, verify

__all__ = ["IN_MEMORY", "Store", "absolute", "check_dataset", "is_database"]

Outcome = TypeVar("Outcome")

_APPLICATION = 0x736B6470  # "skdp": marks a file as a ledger
_TIMEOUT = 60.0  # seconds to wait while other processes write
# How SQLite reports changed names of tables and columns, a changed schema, and broken text.
_DAMAGE = ("no such", "table ", "duplicate column", "unsupported file format", "Could not decode")
_random = random.SystemRandom()  # forked processes would share any other state

# Held during a transaction, so that no other thread forks the process in the middle of it: the
# child would inherit locks of SQLite that nobody releases.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


class Store:
    """Transactions on a file, which each of them opens anew, or on memory of this process.

    A connection that lived longer would be inherited by forked processes, which SQLite forbids.
    Only SQLite opens the file, since closing it elsewhere would drop the locks of other threads.
    Before a transaction returns, the write-ahead log is copied into the file unless others prevent
    it. The log is deleted when nobody uses the file, so that no charge is in a file that may get
    lost.

    Parameters
    ----------
    path : str or None
        None for memory.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        if path is None:
            self._process = os.getpid()
            self._memory = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False
            )
            weakref.finalize(self, self._memory.close)

    def run(
        self,
        action: Callable[[sqlite3.Connection], Outcome],
        create: bool = False,
        thoroughly: bool = False,
        patience: float = _TIMEOUT,
    ) -> Outcome:
        """Run an action in a transaction that is durable, or has no effect if the action raises.

        This is a function rather than a context manager, since an interrupt could otherwise occur
        between entering the context and its block.

        Parameters
        ----------
        action : callable
            Function of the connection.
        create : bool, default=False
            Whether to create the file if it does not exist or is empty.
        thoroughly : bool, default=False
            Whether to look for damage in the whole file.
        patience : float, default=60.0
            Seconds to wait while others use the file.

        Returns
        -------
        result : what the action returns

        Raises
        ------
        ValueError
            If the file is damaged, newer than this version, or not a ledger. It stays as it is.
        OSError
            If it cannot be read and written.
        TypeError
            If the ledger is in the memory of another process.
        """
        if self.path is None and os.getpid() != self._process:
            raise TypeError(f"A forked process cannot use this ledger: {_USE_A_PATH}")
        try:
            with _lock:
                return self._run(action, create, thoroughly, patience)
        except (Damage, UnicodeDecodeError) as error:
            raise ValueError(f"The ledger {self.path!r} is damaged: {error}.") from error
        except sqlite3.OperationalError as error:  # not found, not writable, full, locked
            if str(error).startswith(_DAMAGE):
                raise ValueError(f"The ledger {self.path!r} is damaged: {error}.") from error
            message = f"The ledger {self.path!r} cannot be read and written: {error}."
            raise OSError(message) from error
        except sqlite3.DatabaseError as error:
            message = f"{self.path!r} is not a ledger, or a damaged one: {error}."
            raise ValueError(message) from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        path = Path(str(self.path))
        if not path.parent.is_dir() or path.is_dir():
            place, said = (path, "a folder") if path.is_dir() else (path.parent, "no such folder")
            raise sqlite3.OperationalError(f"{str(place)!r} is {said}")
        # SQLite would leave a log behind that can never be written either.
        effective = {"effective_ids": True} if os.access in os.supports_effective_ids else {}
        if path.exists() and not os.access(path, os.W_OK, **effective):
            raise sqlite3.OperationalError("attempt to write a readonly database")
        uri = f"{path.as_uri()}?mode={mode}"
        return sqlite3.connect(uri, uri=True, timeout=0.0, isolation_level=None)

    def _run(self, action: Callable, create: bool, thoroughly: bool, patience: float) -> Any:
        in_file = self.path is not None
        connection = self._connect("rwc" if create else "rw") if in_file else self._memory
        try:
            _begin(connection, patience)
            # SQLite's own answer is of no use, since it also takes a file of one byte for new.
            if create and (self.path is None or os.path.getsize(self.path) == 0):
                for statement in CREATE:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
            self._check_kind(connection, thoroughly)
            result = action(connection)
            connection.execute("COMMIT")
            if in_file:
                _checkpoint(connection, create)
            return result
        finally:
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            finally:
                if in_file:
                    connection.close()

    def _check_kind(self, connection: sqlite3.Connection, thoroughly: bool) -> None:
        """Check that the file is a ledger of this schema."""
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            raise ValueError(f"{self.path!r} is not a ledger, but another kind of file.")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != SCHEMA:
            raise ValueError(
                f"The ledger {self.path!r} has schema {version}, and this version of skdpsco "
                f"knows schema {SCHEMA}. Update skdpsco."
            )
        if thoroughly:
            sound = connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
            check(sound, "SQLite finds that its pages do not fit together")
            verify(connection)


def _begin(connection: sqlite3.Connection, patience: float) -> None:
    """Begin a transaction as soon as the file is free, or fail after ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while True:
        try:
            # A commit survives a loss of power: the log is synchronised, and so are the directory
            # and, on macOS, the disk's cache.
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * _TIMEOUT)}")  # for the commit
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        # SQLite would retry less and less often, so that whoever has waited longest would keep
        # waiting.
        time.sleep(_random.uniform(0.0, 0.01))


def _checkpoint(connection: sqlite3.Connection, create: bool) -> None:
    """Copy the write-ahead log into the file; first make sure that there is one."""
    # The commit is on disk in any case. If others use the file, the next transaction does this.
    with contextlib.suppress(sqlite3.OperationalError):
        if create:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def absolute(path: Any) -> str:
    """The absolute path, which stays valid if the process changes its directory."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise TypeError(f"path must be a str or path-like, got {abridged(path)}.") from None
    if "\0" in text:
        raise ValueError(f"path must not contain null characters, got {path!r}.")
    return os.path.abspath(text)


def is_database(path: str) -> bool:
    """Whether there is a database of SQLite at ``path``, which may be a link to it."""
    with _lock:  # closing a file drops all locks that this process has on it
        try:
            with open(path, "rb") as file:
                return file.read(16) == b"SQLite format 3\0"
        except OSError:  # there is no such file, or it cannot be replaced either
            return False


def check_dataset(dataset: object) -> None:
    """Check that ``dataset`` can be the name of a data set."""
    if not isinstance(dataset, str):
        raise TypeError(f"dataset must be a str, got {abridged(dataset)}.")
    if not dataset or any("\ud800" <= character <= "\udfff" for character in dataset):
        raise ValueError(f"dataset must be a name in Unicode, got {dataset!r}.")
    if unicodedata.normalize("NFC", dataset) != dataset:  # two names that look alike
        raise ValueError(
            f"dataset must be composed, unicodedata.normalize('NFC', ...), got {dataset!a}."
        )


_USE_A_PATH = (
    "it lives in the memory of the process that made it, and what other processes spend would be "
    "lost. Give it a file, Ledger(..., path='ledger.db'), which any number of processes may share."
)
IN_MEMORY = (
    f"A ledger in memory cannot be pickled or sent to a worker: {_USE_A_PATH} To save a fitted "
    "model without its ledger: model.set_params(ledger=None)."
)
