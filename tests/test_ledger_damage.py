"""A ledger whose file changes by itself: it says so, or at least what remains does not grow."""

import contextlib
import sqlite3
import struct

import numpy as np
import pytest

from skdpsco.privacy import BudgetExceededError, Ledger, ZCDPEvent
from skdpsco.privacy.relations import WITHIN_GROUPS

BUDGET = (1.0, 1e-6)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@contextlib.contextmanager
def filled(path, n_charges=5):
    """A ledger with charges on all records and on parts, and the parts."""
    ledger = Ledger(*BUDGET, path)
    Ledger(3.0, 1e-7, path, "other").charge(ZCDPEvent(1e-3))
    share = ZCDPEvent(ledger.rho / (2 * n_charges + 4))
    for _ in range(n_charges):
        ledger.charge(share, "Model", {"radius": 1.0}, WITHIN_GROUPS)
    block = ledger.parallel(3)
    parts = block.__enter__()
    parts[0].charge(share)
    parts[1].charge(share)
    parts[1].charge(share)
    yield ledger, parts
    with contextlib.suppress(ValueError, OSError):  # damage
        block.__exit__(None, None, None)


def change(path, statement, *values):
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(statement, values).rowcount == 1
    connection.close()


def flipped(number, bit):
    (word,) = struct.unpack("<Q", struct.pack("<d", number))
    return struct.unpack("<d", struct.pack("<Q", word ^ 1 << bit))[0]


def left(ledger):
    """What it would let us spend, or None if it reports damage."""
    try:
        return ledger.remaining().rho
    except (ValueError, OSError):
        return None


def opened(path):
    """What those who open the file, or create what is there, may spend; None is damage."""
    found = []
    for make in (Ledger.open, lambda path: Ledger(*BUDGET, path)):
        try:
            found.append(make(path).remaining().rho)
        except (ValueError, OSError):
            found.append(None)
    return found


def test_every_bit_of_the_total(path):
    with filled(path) as (ledger, _):
        connection = sqlite3.connect(path)
        (total,) = connection.execute("SELECT spent FROM datasets WHERE name = 'data'").fetchone()
        connection.close()
        for bit in range(64):
            wrong = flipped(total, bit)
            if wrong != wrong:
                continue
            change(path, "UPDATE datasets SET spent = ? WHERE name = 'data'", wrong)
            assert [left(ledger), *opened(path)] == [None] * 3, bit
            with pytest.raises(ValueError, match="damaged"):
                ledger.charge(ZCDPEvent(1e-9))
        change(path, "UPDATE datasets SET spent = ? WHERE name = 'data'", total)
        assert left(ledger) == opened(path)[0]


@pytest.mark.parametrize(
    ("table", "column", "row"),
    [
        ("datasets", "epsilon", "name = 'data'"),
        ("datasets", "delta", "name = 'data'"),
        ("parts", "spent", "part = 0"),
        ("parts", "spent", "part = 1"),
        ("charges", "rho", "id = 3"),
        ("charges", "rho", "id = 7"),
    ],
)
def test_every_bit_of_other_numbers(path, table, column, row):
    with filled(path) as (_, parts):
        connection = sqlite3.connect(path)
        (number,) = connection.execute(f"SELECT {column} FROM {table} WHERE {row}").fetchone()
        connection.close()
        before = [part.remaining().rho for part in parts]
        for bit in (*range(0, 48, 6), *range(48, 64)):  # some of the fraction, all others
            wrong = flipped(number, bit)
            if wrong != wrong:
                continue
            change(path, f"UPDATE {table} SET {column} = ? WHERE {row}", wrong)
            assert opened(path) == [None, None], bit
            for part, expected in zip(parts, before, strict=True):
                now = left(part)
                assert now is None or now == expected, bit


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE datasets SET relation = 'replace-onf' WHERE name = 'data'",
        "UPDATE datasets SET name = 'eata' WHERE name = 'data'",
        "UPDATE datasets SET spent = 'x' WHERE name = 'data'",
        "DELETE FROM datasets WHERE name = 'data'",
        "UPDATE charges SET relation = 'replace-one' WHERE id = 3",
        "UPDATE charges SET relation = 'replace-one within groupt' WHERE id = 3",
        "UPDATE charges SET dataset = 'other' WHERE id = 3",
        "UPDATE charges SET dataset = 'nobody' WHERE id = 3",
        "UPDATE charges SET part = 0 WHERE id = 8",
        "UPDATE charges SET partition = 2 WHERE id = 8",
        "UPDATE charges SET time = '2026-01-01T00:00:00.000000+00:00' WHERE id = 3",
        "UPDATE charges SET estimator = 'Modem' WHERE id = 3",
        "UPDATE charges SET parameters = '{}' WHERE id = 3",
        "UPDATE charges SET event = 'NoOpEvent()' WHERE id = 3",
        "UPDATE charges SET id = 100 WHERE id = 3",
        "DELETE FROM charges WHERE id = 3",
        "DELETE FROM charges WHERE id = 9",
        "DELETE FROM parts WHERE part = 1",
        "DELETE FROM partitions",
        "UPDATE partitions SET open = 0",
        "UPDATE partitions SET id = 2",
        "UPDATE partitions SET dataset = 'other'",
    ],
)
def test_changed_rows_are_damage(path, statement):
    with filled(path) as (ledger, _):
        change(path, statement)
        assert opened(path) == [None, None]
        if "charges" in statement:
            for view in (ledger.charges, ledger.weakest_relation, ledger.to_json):
                with pytest.raises(ValueError, match="damaged"):
                    view()


def test_a_file_of_which_a_page_is_old(path):
    """A disk that drops one write leaves pages that do not belong together."""
    with filled(path) as (ledger, _):
        before = path.read_bytes()
        ledger.charge(ZCDPEvent(ledger.rho / 10))
        after = path.read_bytes()
        assert len(before) == len(after)
        remaining = ledger.remaining().rho
        different = [
            page
            for page in range(0, len(after), 4096)
            if before[page : page + 4096] != after[page : page + 4096]
        ]
        assert len(different) >= 3
        for page in different[1:]:  # the first has a counter and no rows
            path.write_bytes(after[:page] + before[page : page + 4096] + after[page + 4096 :])
            assert {left(ledger), *opened(path)} <= {None, remaining}


@pytest.mark.parametrize("seed", range(2))
def test_random_bits_of_the_file(path, seed):
    """Bits in the headers of pages are flipped more often than others."""
    with filled(path) as (ledger, _):
        content = path.read_bytes()
        before = ledger.remaining().rho
        rng = np.random.default_rng(seed)
        reported = 0
        for i in range(120):
            byte = int(rng.integers(len(content)))
            if i % 2:
                byte = byte // 4096 * 4096 + int(rng.integers(100))
            damaged = bytearray(content)
            damaged[byte] ^= 1 << int(rng.integers(8))
            for suffix in ("-wal", "-shm", "-journal"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            path.write_bytes(damaged)
            found = [left(ledger), *opened(path)]
            reported += None in found
            assert {None, before}.issuperset(found), (byte, found)
            try:  # nothing can be charged that exceeds the budget
                with pytest.raises(BudgetExceededError):
                    ledger.charge(ZCDPEvent(before * 1.01))
            except (ValueError, OSError):
                pass
        assert reported > 5


def test_memory_is_not_spared():
    ledger = Ledger(*BUDGET)
    ledger.charge(ZCDPEvent(1e-3))
    ledger._store.run(lambda connection: connection.execute("UPDATE datasets SET spent = 0.0"))
    with pytest.raises(ValueError, match="damaged"):
        ledger.charge(ZCDPEvent(1e-3))
