"""The SQLite database behind a ledger: one transaction per charge, on disk before it returns."""

import contextlib
import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from .report import WITHIN_GROUPS

T = TypeVar("T")

_APPLICATION = 0x736B6470  # "skdp": marks a file as a ledger
SCHEMA = 2
_TIMEOUT = 60.0  # seconds to wait while other processes write
_random = random.SystemRandom()  # not a state that forked processes would share

_CREATE = (
    """CREATE TABLE datasets (
        name TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL,
        relation TEXT NOT NULL, spent REAL NOT NULL)""",
    """CREATE TABLE partitions (
        id INTEGER PRIMARY KEY AUTOINCREMENT, dataset TEXT NOT NULL, open INTEGER NOT NULL)""",
    """CREATE TABLE parts (
        partition INTEGER NOT NULL, part INTEGER NOT NULL, spent REAL NOT NULL,
        PRIMARY KEY (partition, part))""",
    """CREATE TABLE charges (
        id INTEGER PRIMARY KEY AUTOINCREMENT, dataset TEXT NOT NULL,
        partition INTEGER, part INTEGER, time TEXT NOT NULL, estimator TEXT NOT NULL,
        parameters TEXT NOT NULL, event TEXT NOT NULL, rho REAL NOT NULL,
        relation TEXT NOT NULL)""",
    "CREATE INDEX charges_of_dataset ON charges (dataset)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {SCHEMA}",
)
# From schema 1, which kept no relations of charges: where PrivateGroupDRO is named, as estimator or
# in a parameter, its groups were public.
_UPGRADE = (
    "ALTER TABLE charges ADD COLUMN relation TEXT NOT NULL DEFAULT 'replace-one'",
    "UPDATE charges SET relation = (SELECT relation FROM datasets WHERE name = dataset)",
    f"""UPDATE charges SET relation = '{WITHIN_GROUPS}' WHERE relation = 'replace-one'
        AND (estimator LIKE '%PrivateGroupDRO%' OR parameters LIKE '%PrivateGroupDRO%')""",
    f"PRAGMA user_version = {SCHEMA}",
)

# Held during a transaction, so that no other thread forks a process in the midst of it: the child
# would inherit locks of SQLite that nobody releases.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


class Store:
    """Transactions on a file, opened anew for each of them, or on memory of this process.

    A connection that lived longer would be inherited by forked processes, which SQLite forbids.
    Only SQLite opens the file: to close it would drop the locks that another thread holds. The
    write-ahead log is copied into the file before a transaction returns, as far as others let it,
    and is deleted when nobody uses the file: charges should not be in a file that may be lost.

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

    def run(self, action: Callable[[sqlite3.Connection], T], create: bool = False) -> T:
        """What the action does happens at once and durably, or, if it raises, not at all.

        A function, and no context manager in Python, since an interrupt could fall between that
        and its block.

        Parameters
        ----------
        action : callable
            Gets the connection.
        create : bool, default=False
            Make the file if there is none, or if it is empty; look for damage in one that is there.

        Returns
        -------
        result : what the action returns

        Raises
        ------
        ValueError
            If the file is damaged, newer than this version, or no ledger. It stays as it is.
        OSError
            If it cannot be read and written.
        TypeError
            For memory of another process.
        """
        if self.path is None and os.getpid() != self._process:
            raise TypeError(f"A forked process cannot use this ledger: {_USE_A_PATH}")
        with _lock:
            if self.path is None:
                return self._run(self._memory, action, create)
            try:
                connection = self._connect("rwc" if create else "rw")
                try:
                    result = self._run(connection, action, create)
                    _checkpoint(connection, create)
                    return result
                finally:
                    connection.close()
            except sqlite3.OperationalError as error:  # not found, not writable, full, locked
                message = f"The ledger {self.path!r} cannot be read and written: {error}."
                raise OSError(message) from error
            except sqlite3.DatabaseError as error:
                message = f"{self.path!r} is not a ledger, or a damaged one: {error}."
                raise ValueError(message) from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        path = Path(str(self.path))
        # SQLite would leave a log behind that cannot be written either, for good.
        effective = {"effective_ids": True} if os.access in os.supports_effective_ids else {}
        if path.exists() and not os.access(path, os.W_OK, **effective):
            raise sqlite3.OperationalError("attempt to write a readonly database")
        uri = f"{path.as_uri()}?mode={mode}"
        return sqlite3.connect(uri, uri=True, timeout=0.0, isolation_level=None)

    def _run(self, connection: sqlite3.Connection, action: Callable, create: bool) -> Any:
        try:
            _begin(connection)
            if create and self._is_new():
                for statement in _CREATE:
                    connection.execute(statement)
            self._check_kind(connection, create)
            result = action(connection)
            connection.execute("COMMIT")
            return result
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _is_new(self) -> bool:
        # Not what SQLite says: it takes a file of one byte for new too.
        return self.path is None or os.path.getsize(self.path) == 0

    def _check_kind(self, connection: sqlite3.Connection, thoroughly: bool) -> None:
        """Refuse what is no ledger that we know; bring an older one up to date."""
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            raise ValueError(f"{self.path!r} is not a ledger, but another kind of file.")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (1, SCHEMA):
            raise ValueError(
                f"The ledger {self.path!r} has schema {version}, and this version of skdpsco "
                f"knows schema {SCHEMA}. Update skdpsco."
            )
        thoroughly = thoroughly or version != SCHEMA
        if thoroughly and connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise ValueError(f"The ledger {self.path!r} is damaged.")
        if version != SCHEMA:
            for statement in _UPGRADE:  # in one transaction with the action
                connection.execute(statement)


def _begin(connection: sqlite3.Connection) -> None:
    """Begin a transaction when it is our turn."""
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            # A commit survives a loss of power: the log is synchronised, and so are the directory
            # and, on macOS, the cache of the disk.
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * _TIMEOUT)}")  # of the commit
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        # SQLite would look less and less often, so that those who have waited would wait on.
        time.sleep(_random.uniform(0.0, 0.01))


def _checkpoint(connection: sqlite3.Connection, create: bool) -> None:
    """Copy the write-ahead log into the file; first make sure that there is one."""
    # What was committed is on disk in any case. Others may use the file: the next one does it.
    with contextlib.suppress(sqlite3.OperationalError):
        if create:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def absolute(path: Any) -> str:
    """The path, for whatever directory this process may be in later."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise TypeError(f"path must be a str or path-like, got {path!r}.") from None
    if "\0" in text:
        raise ValueError(f"path must not contain null characters, got {path!r}.")
    return os.path.abspath(text)


def check_dataset(dataset: object) -> None:
    """Refuse what cannot be the name of a data set."""
    if not isinstance(dataset, str):
        raise TypeError(f"dataset must be a str, got {dataset!r}.")
    if not dataset or any("\ud800" <= character <= "\udfff" for character in dataset):
        raise ValueError(f"dataset must be a name in Unicode, got {dataset!r}.")


_USE_A_PATH = (
    "it lives in the memory of the process that made it, and what other processes spend would be "
    "lost. Give it a file, Ledger(..., path='ledger.db'), which any number of processes may share."
)
IN_MEMORY = (
    f"A ledger in memory cannot be pickled or sent to a worker: {_USE_A_PATH} To save a fitted "
    "model without its ledger: model.set_params(ledger=None)."
)
