"""The SQLite database behind a ledger: one transaction per charge, on disk before it returns."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_APPLICATION = 0x736B6470  # "skdp": marks a file as a ledger
SCHEMA = 1
_TIMEOUT = 60.0  # seconds to wait while other processes write
_HEADER = b"SQLite format 3\x00"

_TABLES = (
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
        parameters TEXT NOT NULL, event TEXT NOT NULL, rho REAL NOT NULL)""",
    "CREATE INDEX charges_of_dataset ON charges (dataset)",
)


class Store:
    """Transactions on a file, opened anew for each of them, or on memory of this process.

    A connection that lived longer would be inherited by forked processes, which SQLite forbids.

    Parameters
    ----------
    path : str or None
        None for memory.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        if path is None:
            self._process = os.getpid()
            self._lock = threading.Lock()
            self._memory = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False
            )
            self._create(self._memory)

    def create(self) -> None:
        """Make the file if there is none; else check that it is a ledger, and leave it as it is.

        Raises
        ------
        ValueError
            If the file is damaged, newer than this version, or no ledger.
        OSError
            If it cannot be read and written.
        """
        if self.path is None:
            return
        with self._errors():
            with closing(self._connect("rwc")) as connection:
                if self._is_empty(connection):
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.execute("BEGIN IMMEDIATE")
                    if self._is_empty(connection):  # nobody else was faster
                        self._create(connection)
                    connection.execute("COMMIT")
                else:
                    self._check_kind(connection)
                    if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                        raise ValueError(f"The ledger {self.path!r} is damaged.")
                    connection.execute("BEGIN IMMEDIATE")  # can it be written?
                    connection.execute("ROLLBACK")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """What the block does happens at once and durably, or, if it raises, not at all."""
        if self.path is None:
            if os.getpid() != self._process:
                raise TypeError(f"A forked process cannot charge this ledger: {_USE_A_PATH}")
            with self._lock, _atomic(self._memory):
                yield self._memory
            return
        with self._errors(), closing(self._connect("rw")) as connection, _atomic(connection):
            self._check_kind(connection)
            yield connection

    def _connect(self, mode: str) -> sqlite3.Connection:
        path = str(self.path)
        if os.path.isfile(path) and os.path.getsize(path) > 0:
            with open(path, "rb") as file:  # SQLite would take a short file for an empty database
                if file.read(len(_HEADER)) != _HEADER:
                    raise ValueError(f"{path!r} is not a ledger, but another kind of file.")
        connection = sqlite3.connect(
            f"{Path(path).as_uri()}?mode={mode}", uri=True, timeout=_TIMEOUT, isolation_level=None
        )
        connection.execute("PRAGMA synchronous = FULL")  # a commit survives a loss of power
        return connection

    def _is_empty(self, connection: sqlite3.Connection) -> bool:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        kind = connection.execute("PRAGMA application_id").fetchone()[0]
        return tables == 0 and kind == 0

    def _check_kind(self, connection: sqlite3.Connection) -> None:
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            raise ValueError(f"{self.path!r} is not a ledger, but a database of something else.")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != SCHEMA:
            raise ValueError(
                f"The ledger {self.path!r} has schema {version}, and this version of skdpsco "
                f"knows schema {SCHEMA}. Update skdpsco."
            )

    def _create(self, connection: sqlite3.Connection) -> None:
        for table in _TABLES:
            connection.execute(table)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:  # not found, not writable, full, locked
            raise OSError(
                f"The ledger {self.path!r} cannot be read and written: {error}."
            ) from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"The ledger {self.path!r} is damaged: {error}.") from error


@contextmanager
def _atomic(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_USE_A_PATH = (
    "it lives in the memory of the process that made it, and what other processes spend would be "
    "lost. Give it a file, Ledger(..., path='ledger.db'), which any number of processes may share."
)
IN_MEMORY = (
    f"A ledger in memory cannot be pickled or sent to a worker: {_USE_A_PATH} To save a fitted "
    "model without its ledger: model.set_params(ledger=None)."
)
