"""A ledger in a file: what it survives, and what it refuses and leaves untouched."""

import os
import pickle
import shutil
import sqlite3
import stat
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from skdpsco import PrivateLasso
from skdpsco.privacy import BudgetExceededError, Ledger, ZCDPEvent

ADD = "add-or-remove-one"
COST = ZCDPEvent(1e-4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


def rows(path):
    with sqlite3.connect(path) as connection:
        count = connection.execute("SELECT count(*) FROM charges").fetchone()[0]
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return count


def unchanged(path, action, error, match):
    """The action raises, and no byte of the folder has changed."""
    before = {p: p.read_bytes() for p in path.parent.iterdir() if p.is_file()}
    with pytest.raises(error, match=match):
        action()
    assert {p: p.read_bytes() for p in path.parent.iterdir() if p.is_file()} == before


# --- what a file keeps


def test_a_file_outlives_its_ledger(path):
    ledger = Ledger(1.0, 1e-6, path)
    ledger.charge(COST, "Mean", {"a": [1, 2]})
    with ledger.parallel(2) as parts:
        parts[1].charge(COST)
    for again in (Ledger(1.0, 1e-6, path), Ledger.open(path), pickle.loads(pickle.dumps(ledger))):
        assert again.charges() == ledger.charges()
        assert again.remaining() == ledger.remaining()
        assert (again.epsilon, again.delta, again.rho) == (1.0, 1e-6, ledger.rho)
        again.charge(COST)
    assert len(ledger.charges()) == rows(path) == 5
    assert os.listdir(path.parent) == [path.name]  # nothing that could be lost is beside it


def test_a_file_keeps_the_sum_exactly(path):
    ledger = Ledger(1.0, 1e-6, path)
    for _ in range(7):
        Ledger.open(path).charge(ZCDPEvent(ledger.rho / 7))
    with pytest.raises(BudgetExceededError):
        ledger.charge(ZCDPEvent(1e-9 * ledger.rho))


def test_a_commit_waits_for_the_disk(path):
    """What no kill of a process can test: EXTRA, that is 3."""
    ledger = Ledger(1.0, 1e-6, path)
    for pragma, expected in (("synchronous", 3), ("fullfsync", 1), ("journal_mode", "wal")):
        found = ledger._store.run(lambda c, name=pragma: c.execute(f"PRAGMA {name}").fetchone())
        assert found == (expected,)


def test_data_sets_have_budgets_of_their_own(path):
    names = [
        "data",
        "Data",
        "日本 🐘",
        "it's; DROP TABLE charges --",
        '"',
        "a\0b",
        " ",
        "x" * 10**4,
    ]
    for i, name in enumerate(names):
        Ledger(1.0 + i, 1e-6, path, name, ADD if i == 2 else "replace-one")
    for i, name in enumerate(names):
        ledger = Ledger.open(path, name)
        assert (ledger.epsilon, ledger.dataset, ledger.charges()) == (1.0 + i, name, [])
        ledger.charge(ZCDPEvent(ledger.rho), relation=ledger.relation)
        assert ledger.remaining().rho == 0.0
        assert len(ledger.charges()) == 1
    with pytest.raises(ValueError, match=r"dataset must be one of \[' ', '\"', 'Data'.* got 'x'"):
        Ledger.open(path, "x")


@pytest.mark.parametrize(
    "changed",
    [{"epsilon": 2.0}, {"epsilon": np.nextafter(1.0, 2.0)}, {"delta": 1e-7}, {"relation": ADD}],
)
def test_no_second_budget(path, changed):
    Ledger(1.0, 1e-6, path).charge(COST)
    match = "holds another budget for dataset='data': epsilon=1.0, delta=1e-06, relation='repl"
    unchanged(path, lambda: Ledger(**{"epsilon": 1.0, "delta": 1e-6, "path": path, **changed}),
              ValueError, match)  # fmt: skip


@pytest.mark.parametrize("attribute", ["epsilon", "delta"])
def test_no_second_budget_by_assignment(path, attribute):
    ledger = Ledger(1.0, 1e-6, path)
    setattr(ledger, attribute, 0.5)
    unchanged(path, lambda: ledger.charge(COST), ValueError, "holds another budget")


# --- paths


@pytest.mark.parametrize(
    "name",
    ["a b", "?mode=memory", "#", "%41", "100%", "é🐘", ":memory:", "file:x", "'", '"', "a&b=c"],
)
def test_names_of_files(tmp_path, name):
    ledger = Ledger(1.0, 1e-6, tmp_path / name)
    ledger.charge(COST)
    assert os.listdir(tmp_path) == [name]
    assert len(Ledger.open(os.fsencode(tmp_path / name)).charges()) == 1
    assert pickle.loads(pickle.dumps(ledger)).charges() == ledger.charges()


@pytest.mark.skipif(os.name == "nt", reason="names of files are Unicode there")
def test_names_that_are_no_unicode(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.db"
    try:
        ledger = Ledger(1.0, 1e-6, path)
    except OSError:
        pytest.skip("this file system wants Unicode")
    pickle.loads(pickle.dumps(ledger)).charge(COST)
    assert os.listdir(os.fsencode(tmp_path)) == [b"\xff.db"]


def test_change_of_directory(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    ledger = Ledger(1.0, 1e-6, "ledger.db")
    with ledger.parallel(2) as (part, _):
        monkeypatch.chdir(tmp_path / "b")
        ledger.charge(COST)
        pickle.loads(pickle.dumps(part)).charge(COST)
    assert os.listdir(tmp_path / "b") == []
    assert rows(tmp_path / "a" / "ledger.db") == 2


@pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="needs symbolic links")
def test_symbolic_links(tmp_path, path):
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "link.db"
    link.symlink_to(path)
    Ledger(1.0, 1e-6, link).charge(COST)
    Ledger(1.0, 1e-6, path).charge(COST)
    assert rows(path) == len(Ledger.open(link).charges()) == 2


# --- what is no ledger, or none any more


def other_database(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE charges (x)")
    connection.commit()
    connection.close()


def no_tables(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 1")
    connection.close()


def newer(path):
    Ledger(1.0, 1e-6, path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 4")
    connection.close()


def truncated(path):
    Ledger(1.0, 1e-6, path)
    path.write_bytes(path.read_bytes()[:8192])


def torn(path):
    Ledger(1.0, 1e-6, path).charge(COST)
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))


def damaged(path):
    """Where nothing but a thorough look finds it."""
    Ledger(1.0, 1e-6, path).charge(COST)
    connection = sqlite3.connect(path)
    (page,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name='charges'"
    ).fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    content[4096 * (page - 1) : 4096 * page] = bytes(4096)
    path.write_bytes(content)


FOREIGN = {
    "text": (lambda path: path.write_text("a,b\n1,2\n" * 999), "is not a ledger"),
    "one byte": (lambda path: path.write_text("x"), "is not a ledger"),
    "short": (lambda path: path.write_text("a,b\n"), "is not a ledger"),
    "zeros": (lambda path: path.write_bytes(bytes(8192)), "is not a ledger"),
    "header only": (lambda path: path.write_bytes(b"SQLite format 3\0"), "is not a ledger"),
    "database": (other_database, "is not a ledger"),
    "database without tables": (no_tables, "is not a ledger"),
    "newer": (newer, "has schema 4, .* knows schema 1. Update skdpsco"),
    "truncated": (truncated, "damaged"),
    "torn": (torn, "damaged"),
    "damaged": (damaged, "damaged"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_other_files_are_refused_and_left_as_they_are(path, kind):
    make, match = FOREIGN[kind]
    make(path)
    unchanged(path, lambda: Ledger(1.0, 1e-6, path), ValueError, match)
    unchanged(path, lambda: Ledger.open(path), ValueError, match)


@pytest.mark.parametrize("kind", sorted(FOREIGN.keys() - {"damaged", "torn", "truncated", "newer"}))
def test_a_file_that_was_replaced(tmp_path, kind):
    path = tmp_path / "ledger.db"
    ledger = Ledger(1.0, 1e-6, path)
    path.unlink()
    FOREIGN[kind][0](path)
    unchanged(path, lambda: ledger.charge(COST), ValueError, FOREIGN[kind][1])


def test_a_file_that_vanished(path):
    ledger = Ledger(1.0, 1e-6, path)
    path.unlink()
    unchanged(path, lambda: ledger.charge(COST), OSError, "cannot be read and written")
    unchanged(path, lambda: Ledger.open(path), FileNotFoundError, "There is no ledger")
    assert not path.exists()
    with pytest.raises(OSError, match="cannot be read"):
        PrivateLasso(ledger=ledger).fit(np.ones((9, 1)), np.ones(9))
    Ledger(1.0, 1e-6, path, "other")
    unchanged(path, lambda: ledger.charge(COST), ValueError, "holds no data set 'data'")


def test_an_empty_file(path):
    path.touch()
    unchanged(path, lambda: Ledger.open(path), ValueError, "is not a ledger")
    ledger = Ledger(1.0, 1e-6, path)  # a temporary file, say
    path.write_bytes(b"")
    unchanged(path, lambda: ledger.charge(COST), ValueError, "is not a ledger")


def test_leftovers_of_other_journals_are_no_ledger(path):
    # A charge lives in the file, so a journal without one is of no account.
    for suffix in ("-journal", "-wal", "-shm"):
        Path(f"{path}{suffix}").write_bytes(os.urandom(5000))
    ledger = Ledger(1.0, 1e-6, path)
    ledger.charge(COST)
    assert rows(path) == 1


@pytest.mark.parametrize("place", ["directory", "missing/ledger.db", "file/ledger.db"])
def test_places_that_cannot_be(tmp_path, place):
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="cannot be read and written"):
        Ledger(1.0, 1e-6, tmp_path / place)
    assert sorted(os.listdir(tmp_path)) == ["directory", "file"]


@pytest.fixture
def ordinary_user():
    """A folder, and the rights of somebody who is not root."""
    if not hasattr(os, "geteuid"):
        pytest.skip("needs POSIX permissions")
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(stat.S_IRWXU)
    shutil.rmtree(folder)


@pytest.mark.parametrize(("place", "mode"), [("ledger.db", 0o444), ("ledger.db", 0), (".", 0o555)])
def test_no_permission(ordinary_user, place, mode):
    path = ordinary_user / "ledger.db"
    ledger = Ledger(1.0, 1e-6, path)
    before = stat.S_IMODE((ordinary_user / place).stat().st_mode)
    (ordinary_user / place).chmod(mode)
    other = ordinary_user / "new.db" if place == "." else path
    for action in (lambda: ledger.charge(COST), lambda: Ledger(1.0, 1e-6, other)):
        with pytest.raises(OSError, match="cannot be read and written"):
            action()
    (ordinary_user / place).chmod(before)
    ledger.charge(COST)
    assert rows(path) == 1


def test_a_full_disk(path):
    resource = pytest.importorskip("resource")
    ledger = Ledger(1.0, 1e-6, path)
    charged = 0

    def fill():
        nonlocal charged
        while charged < 1000:
            ledger.charge(ZCDPEvent(1e-6), "x" * 199)
            charged += 1

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, before[1]))  # of any file
    try:
        with pytest.raises(OSError, match="cannot be read and written"):
            fill()
        left = ledger.remaining().rho
        with pytest.raises(OSError, match="cannot be read and written"):
            Ledger(1.0, 1e-6, path.parent / "other.db", "d" * 10**5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert 0 < charged == rows(path)
    assert left == pytest.approx(ledger.rho - 1e-6 * charged)
    ledger.charge(COST)
    Ledger(1.0, 1e-6, path.parent / "other.db").charge(COST)


# --- waiting


def test_a_file_that_others_read(path):
    """A reader holds up the log, not the charge: it is durable, and others see it."""
    ledger = Ledger(1.0, 1e-6, path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN")
    assert other.execute("SELECT count(*) FROM charges").fetchone() == (0,)
    ledger.charge(COST)
    assert other.execute("SELECT count(*) FROM charges").fetchone() == (0,)
    assert len(Ledger.open(path).charges()) == 1
    other.close()
    assert rows(path) == 1


def test_a_file_that_others_write(path, monkeypatch):
    """One waits, or gives up."""
    ledger = Ledger(1.0, 1e-6, path)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with monkeypatch.context() as patch:
        patch.setattr("skdpsco.privacy._store._TIMEOUT", 0.1)
        with pytest.raises(OSError, match="cannot be read and written: database is locked"):
            ledger.charge(COST)
    timer = threading.Timer(0.3, other.rollback)
    timer.start()
    ledger.charge(COST)
    timer.join()
    other.close()
    assert rows(path) == 1
