"""The rows of a ledger: charges, their totals, and the seals that reveal damage.

Every row has a seal, a checksum of its content. The seal of a charge also covers the seal of the
previous charge, and the seal of a data set that of its last charge. The total of a data set is
therefore checked against its history whenever it is read, at a cost that does not grow.
"""

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from .accounting import zcdp_epsilon
from .relations import WITHIN_GROUPS

__all__ = [
    "CREATE",
    "SCHEMA",
    "Account",
    "Balance",
    "Charge",
    "Damage",
    "accounts",
    "charges_of",
    "check",
    "close_partition",
    "epsilon_of_total",
    "n_charges_of",
    "open_partition",
    "read_account",
    "read_part",
    "register",
    "running_totals",
    "verify",
    "write",
]

SCHEMA = 1

CREATE = (
    """CREATE TABLE datasets (
        name TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL,
        relation TEXT NOT NULL, spent REAL NOT NULL, seal BLOB NOT NULL)""",
    """CREATE TABLE partitions (
        id INTEGER PRIMARY KEY AUTOINCREMENT, dataset TEXT NOT NULL, open INTEGER NOT NULL,
        dearest REAL NOT NULL, seal BLOB NOT NULL)""",
    """CREATE TABLE parts (
        partition INTEGER NOT NULL, part INTEGER NOT NULL, spent REAL NOT NULL,
        seal BLOB NOT NULL, PRIMARY KEY (partition, part))""",
    """CREATE TABLE charges (
        id INTEGER PRIMARY KEY AUTOINCREMENT, dataset TEXT NOT NULL,
        partition INTEGER, part INTEGER, time TEXT NOT NULL, estimator TEXT NOT NULL,
        parameters TEXT NOT NULL, event TEXT NOT NULL, rho REAL NOT NULL,
        relation TEXT NOT NULL, seal BLOB NOT NULL)""",
    "CREATE INDEX charges_of_dataset ON charges (dataset)",
)
_CONTENT = "dataset, partition, part, time, estimator, parameters, event, rho, relation"


class Charge(NamedTuple):
    """One entry of a ledger.

    Parameters
    ----------
    time : str
        UTC, ISO 8601.
    estimator : str
    parameters : dict
    event : str
    rho : float
        Zero-concentrated differential privacy; in a ledger with delta=0 the pure epsilon.
    part : str or None
        "partition:part" for a charge on one part of the data.
    relation : str
        Which data sets are neighbours for this release.
    """

    time: str
    estimator: str
    parameters: dict[str, Any]
    event: str
    rho: float
    part: str | None
    relation: str


class Account(NamedTuple):
    """The budget of a data set, which never changes."""

    name: str
    epsilon: float
    delta: float
    relation: str


class Balance(NamedTuple):
    """What is spent in total, by the costliest part of a partition, and by one part of it."""

    spent: float = 0.0
    dearest: float = 0.0
    own: float = 0.0

    def after(self, rho: float) -> "Balance":
        """The balance after this part is charged; all parts cost as much as the costliest."""
        own = _add(self.own, rho)
        spent = _add(self.spent, max(own - self.dearest, 0.0))
        return Balance(spent, max(own, self.dearest), own)


def _add(x: float, y: float) -> float:
    """Add two numbers and round the sum up, so that any number of tiny charges counts."""
    return math.nextafter(x + y, math.inf) if y else x


def seal(*values: Any) -> bytes:
    """Checksum of values as SQLite returns them, types included."""
    return hashlib.sha256(ascii(values).encode()).digest()


class Damage(sqlite3.DatabaseError):
    """The file holds something that no ledger has written."""


def check(holds: bool, damage: str) -> None:
    """Raise `Damage` with this text unless the condition holds."""
    if not holds:
        raise Damage(damage)


# --- the rows of one data set


def register(connection: Any, account: Account) -> None:
    """Add a row for a data set if it does not have one."""
    connection.execute(
        "INSERT OR IGNORE INTO datasets VALUES (?, ?, ?, ?, 0.0, ?)",
        (*account, seal(account, 0.0, b"")),
    )


def accounts(connection: Any) -> list[Account]:
    """All data sets of a file."""
    query = "SELECT name, epsilon, delta, relation FROM datasets ORDER BY name"
    return [Account(*row) for row in connection.execute(query)]


def read_account(
    connection: Any, name: str, last: bytes | None = None
) -> tuple[Account, float] | None:
    """A data set and what is spent of its budget; None if there is no such data set.

    A caller that knows the seal of its last charge may pass it.
    """
    query = "SELECT epsilon, delta, relation, spent, seal FROM datasets WHERE name = ?"
    row = connection.execute(query, (name,)).fetchone()
    if row is None:
        return None
    *budget, spent, found = row
    account = Account(name, *budget)
    last = _last(connection, name) if last is None else last
    check(found == seal(account, spent, last), "a total does not match its seal")
    return account, spent


def read_part(connection: Any, name: str, spent: float, part: tuple[int, int]) -> Balance | None:
    """The balance of a part; None if its block has ended."""
    dearest = _read_partition(connection, name, part[0])
    if dearest is None:
        return None
    query = "SELECT spent, seal FROM parts WHERE partition = ? AND part = ?"
    own, found = connection.execute(query, part).fetchone() or (0.0, b"")
    check(found == seal(part, own), "the total of a part does not match its seal")
    return Balance(spent, dearest, own)


def write(
    connection: Any, account: Account, part: tuple[int, int] | None, balance: Balance, new: Charge
) -> None:
    """Write a charge and the balance after it."""
    content = (
        account.name,
        *(part or (None, None)),
        *new[:2],
        json.dumps(new.parameters),
        new.event,
        new.rho + 0.0,  # SQLite has no -0.0
        new.relation,
    )
    last = seal(_last(connection, account.name), content)
    connection.execute(
        f"INSERT INTO charges ({_CONTENT}, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*content, last),
    )
    connection.execute(
        "UPDATE datasets SET spent = ?, seal = ? WHERE name = ?",
        (balance.spent, seal(account, balance.spent, last), account.name),
    )
    if part is not None:
        _write_partition(connection, part[0], account.name, 1, balance.dearest)
        connection.execute(
            "UPDATE parts SET spent = ?, seal = ? WHERE partition = ? AND part = ?",
            (balance.own, seal(part, balance.own), *part),
        )


def open_partition(connection: Any, name: str, n_parts: int) -> int:
    """Add rows for a partition and all its parts, so that a lost part is noticed."""
    new = "INSERT INTO partitions (dataset, open, dearest, seal) VALUES (?, 1, 0.0, x'')"
    number = connection.execute(new, (name,)).lastrowid
    _write_partition(connection, number, name, 1, 0.0)
    rows = ((number, k, seal((number, k), 0.0)) for k in range(n_parts))
    connection.executemany("INSERT INTO parts VALUES (?, ?, 0.0, ?)", rows)
    return number


def close_partition(connection: Any, name: str, number: int) -> None:
    """Close a partition, so that none of its parts can be charged any more."""
    dearest = _read_partition(connection, name, number)
    if dearest is not None:
        _write_partition(connection, number, name, 0, dearest)


def charges_of(connection: Any, name: str) -> list[Charge]:
    """All charges, the oldest first."""
    query = f"SELECT {_CONTENT}, seal FROM charges WHERE dataset = ? ORDER BY id"
    charges, last = [], b""
    for *content, found in connection.execute(query, (name,)):
        last = seal(last, tuple(content))
        check(found == last, "a charge does not match its seal")
        _, partition, part, time, estimator, words, event, rho, relation = content
        place = None if partition is None else f"{partition}:{part}"
        charges.append(Charge(time, estimator, json.loads(words), event, rho, place, relation))
    read_account(connection, name, last)  # notices missing charges at the end
    return charges


def n_charges_of(connection: Any, name: str) -> tuple[int, int]:
    """Number of all charges, and of those that hold within groups only."""
    count = "SELECT COUNT(*), COALESCE(SUM(relation = ?), 0) FROM charges WHERE dataset = ?"
    return connection.execute(count, (WITHIN_GROUPS, name)).fetchone()


def epsilon_of_total(total: float, delta: float) -> float:
    """The epsilon of charges with this total: with delta = 0 they are epsilons, otherwise rhos."""
    return zcdp_epsilon(total, delta) if delta > 0 else total


def running_totals(charges: list[Charge]) -> list[tuple[float, float]]:
    """The total spent after every charge, and the amount at which the charge begins.

    A charge on one part of a partition begins where this part ends, since parts do not add up.
    """
    return [
        (after.spent, before.spent - before.dearest + before.own)
        for before, after in _balances(charges)
    ]


def _balances(charges: list[Charge]) -> Iterator[tuple[Balance, Balance]]:
    """The balance before and after every charge."""
    spent = 0.0
    parts: dict[str, float] = {}
    dearest: dict[str, float] = {}
    for charge in charges:
        before, number = Balance(spent), ""
        if charge.part is not None:
            number = charge.part.partition(":")[0]
            before = Balance(spent, dearest.get(number, 0.0), parts.get(charge.part, 0.0))
        after = before.after(charge.rho)
        spent = after.spent
        if charge.part is not None:
            dearest[number], parts[charge.part] = after.dearest, after.own
        yield before, after


def _last(connection: Any, name: str) -> bytes:
    query = "SELECT seal FROM charges WHERE dataset = ? ORDER BY id DESC LIMIT 1"
    return (connection.execute(query, (name,)).fetchone() or (b"",))[0]


def _read_partition(connection: Any, name: str, number: int) -> float | None:
    query = "SELECT dataset, open, dearest, seal FROM partitions WHERE id = ?"
    row = connection.execute(query, (number,)).fetchone()
    if row is None:
        return None
    dataset, is_open, dearest, found = row
    check(found == seal(number, dataset, is_open, dearest), "a partition does not match its seal")
    return dearest if is_open and dataset == name else None


def _write_partition(connection: Any, number: int, name: str, is_open: int, dearest: float) -> None:
    connection.execute(
        "UPDATE partitions SET open = ?, dearest = ?, seal = ? WHERE id = ?",
        (is_open, dearest, seal(number, name, is_open, dearest), number),
    )


# --- all rows of a file


def verify(connection: Any) -> None:
    """Compare all totals of a file with its charges, and look at every seal.

    Raises
    ------
    Damage
        If they do not match.
    """
    names, n_charges = [], 0
    dearest: dict[Any, float] = {}
    own: dict[Any, float] = {}
    for account in accounts(connection):
        charges = charges_of(connection, account.name)
        spent = 0.0
        for charge, (_, after) in zip(charges, _balances(charges), strict=True):
            spent = after.spent
            if charge.part is not None:
                number, k = map(int, charge.part.split(":"))
                dearest[number, account.name], own[number, k] = after.dearest, after.own
        found = read_account(connection, account.name)
        check(found == (account, spent), "a total does not match the charges")
        names.append(account.name)
        n_charges += len(charges)
    count = connection.execute("SELECT COUNT(*) FROM charges").fetchone()
    check(count == (n_charges,), "a charge has no data set")
    for number, name, is_open, total, mark in connection.execute("SELECT * FROM partitions"):
        check(mark == seal(number, name, is_open, total), "a partition does not match its seal")
        check(name in names, "a partition has no data set")
        check(total == dearest.pop((number, name), 0.0), "a partition does not match the charges")
    for *place, total, mark in connection.execute("SELECT * FROM parts"):
        part = tuple(place)
        check(mark == seal(part, total), "the total of a part does not match its seal")
        check(total == own.pop(part, 0.0), "the total of a part does not match the charges")
    check(not dearest and not own, "a charge has no part")
