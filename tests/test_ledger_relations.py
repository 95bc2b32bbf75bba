"""Which data sets are neighbours, for each charge and for all of a ledger; files of schema 1."""

import json
import pickle
import sqlite3

import pytest
from ledger_children import make_old

from skdpsco.privacy import Charge, GaussianEvent, Ledger, NoOpEvent, ZCDPEvent
from skdpsco.privacy.relations import WITHIN_GROUPS

ONE, ADD = "replace-one", "add-or-remove-one"
COST = ZCDPEvent(1e-4)


def relations(ledger):
    return [charge.relation for charge in ledger.charges()]


def test_the_relation_of_all_is_the_weakest(tmp_path):
    path = tmp_path / "ledger.db"
    for ledger in (Ledger(1.0, 1e-6), Ledger(1.0, 1e-6, path)):
        Ledger(1.0, 1e-6, ledger.path, "other").charge(COST, relation=WITHIN_GROUPS)
        assert ledger.weakest_relation() == ONE
        ledger.charge(COST)
        assert ledger.weakest_relation() == json.loads(ledger.to_json())["relation"] == ONE
        ledger.charge(COST, relation=WITHIN_GROUPS)
        ledger.charge(COST)
        assert ledger.remaining().rho == pytest.approx(ledger.rho - 3e-4)
    others = Ledger.open(path), Ledger(1.0, 1e-6, path), pickle.loads(pickle.dumps(ledger))
    for again in (ledger, *others):
        assert relations(again) == again.history()["relation"].tolist() == [ONE, WITHIN_GROUPS, ONE]
        content = json.loads(again.to_json())
        assert again.weakest_relation() == content["relation"] == WITHIN_GROUPS
        assert [charge["relation"] for charge in content["charges"]] == relations(again)
        assert again.relation == ONE  # what it was made for, as Ledger() compares it


def test_a_part_weakens_the_whole():
    ledger = Ledger(1.0, 1e-6)
    with ledger.parallel(2) as parts:
        parts[1].charge(COST, relation=WITHIN_GROUPS)
        parts[0].charge(COST)
        assert parts[0].weakest_relation() == WITHIN_GROUPS
    assert ledger.weakest_relation() == WITHIN_GROUPS
    assert ledger.remaining().rho == pytest.approx(ledger.rho - 1e-4)


def test_relations_do_not_mix():
    ledger = Ledger(1.0, 1e-6, relation=ADD)
    ledger.charge(GaussianEvent(10.0), relation=ADD)
    for refuse, told in (
        (lambda: ledger.charge(NoOpEvent()), "guarantee of this release is for 'replace-one'"),
        (lambda: ledger.charge(NoOpEvent(), "Fit", None, WITHIN_GROUPS), "guarantee of Fit is"),
        (lambda: ledger.parallel(2).__enter__(), "relation must be"),
    ):
        with pytest.raises(ValueError, match=told):
            refuse()
    assert relations(ledger) == [ADD]
    assert ledger.weakest_relation() == ADD


# --- files of older schemas

THEN = "2025-01-02T03:04:05+00:00"  # without microseconds, as the first version may have written


@pytest.fixture
def old(tmp_path):
    """A file as it was before charges had relations."""
    path = tmp_path / "old.db"
    Ledger(1.0, 1e-6, path)
    make_old(path)
    pipeline = "Pipeline(steps=[('model', PrivateGroupDRO(groups=[1, 2]))])"
    rows = [
        ("data", None, None, "PrivateLasso", {"radius": 2.0}),
        ("data", 1, 0, "", {}),
        ("data", None, None, "Search", {"estimator": "PrivateLasso()"}),
        ("added", None, None, "PrivateGroupDRO", {}),  # by hand: it is no release of ours
        ("direct", None, None, "PrivateGroupDRO", {}),
        ("nested", None, None, "PrivateGridSearchCV", {"estimator": pipeline}),
    ]
    with sqlite3.connect(path) as connection:
        for name, relation in (("added", ADD), ("direct", ONE), ("nested", ONE)):
            connection.execute(
                "INSERT INTO datasets VALUES (?, 1.0, 1e-6, ?, 1e-4)", (name, relation)
            )
        connection.execute("UPDATE datasets SET spent = 3e-4 WHERE name = 'data'")
        connection.execute("INSERT INTO partitions VALUES (1, 'data', 0)")
        connection.execute("INSERT INTO parts VALUES (1, 0, 1e-4)")
        connection.executemany(
            "INSERT INTO charges (dataset, partition, part, time, estimator, parameters, event, "
            "rho) VALUES (?, ?, ?, ?, ?, ?, 'E', 1e-4)",
            [(*row[:3], THEN, row[3], json.dumps(row[4])) for row in rows],
        )
    connection.close()
    return path


def version(path):
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        columns = [row[1] for row in connection.execute("PRAGMA table_info(charges)")]
    connection.close()
    assert (found == 3) is ("relation" in columns)
    return found


def attached(path):
    """A ledger that has not looked at its file yet, as those of pickled models."""
    return pickle.loads(pickle.dumps(Ledger(1.0, 1e-6, path.with_name("new.db")))
                        .replace(b"new.db", b"old.db"))  # fmt: skip


@pytest.mark.parametrize("make", [Ledger.open, lambda path: Ledger(1.0, 1e-6, path), attached])
def test_an_old_file_is_brought_up_to_date(old, make):
    assert version(old) == 1
    ledger = make(old)
    assert ledger.remaining().rho == pytest.approx(ledger.rho - 3e-4)
    assert version(old) == 3
    assert ledger.charges() == [
        Charge(THEN, "PrivateLasso", {"radius": 2.0}, "E", 1e-4, None, ONE),
        Charge(THEN, "", {}, "E", 1e-4, "1:0", ONE),
        Charge(THEN, "Search", {"estimator": "PrivateLasso()"}, "E", 1e-4, None, ONE),
    ]
    assert ledger.weakest_relation() == ONE
    ledger.charge(COST, relation=WITHIN_GROUPS)
    assert relations(Ledger.open(old)) == [ONE, ONE, ONE, WITHIN_GROUPS]
    assert ledger.remaining().rho == pytest.approx(ledger.rho - 4e-4)


def test_old_charges_of_public_groups_were_within_groups(old):
    found = {
        name: Ledger.open(old, name).weakest_relation() for name in ("added", "direct", "nested")
    }
    assert found == {"added": ADD, "direct": WITHIN_GROUPS, "nested": WITHIN_GROUPS}


def test_an_old_file_stays_as_it_was_if_nothing_comes_of_it(old):
    ledger = attached(old)

    def interrupted(connection):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger._store.run(interrupted)
    assert version(old) == 1
    with pytest.raises(ValueError, match="holds another budget"):
        Ledger(2.0, 1e-6, old)
    assert version(old) == 1
    assert len(ledger.charges()) == 3


def test_a_damaged_old_file_is_left_alone(old):
    """Where the upgrade itself would not come across it."""
    with sqlite3.connect(old) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name='charges_of_dataset'"
        (page,) = connection.execute(query).fetchone()
    connection.close()
    content = bytearray(old.read_bytes())
    content[4096 * (page - 1) + 100 : 4096 * page] = bytes(4096 - 100)
    old.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        Ledger.open(old)
    assert old.read_bytes() == bytes(content)


@pytest.mark.parametrize("schema", [1, 2])
def test_a_file_without_seals_keeps_what_it_held(tmp_path, schema):
    path = tmp_path / "old.db"
    ledger = Ledger(1.0, 1e-6, path)
    with ledger.parallel(3) as parts:
        for share in (0.1, 0.2, 0.3):
            ledger.charge(ZCDPEvent(share * ledger.rho / 7))
            parts[1].charge(ZCDPEvent(share * ledger.rho / 9))
            parts[2].charge(ZCDPEvent(share * ledger.rho / 11))
        expected = (ledger.remaining(), ledger.charges())
        make_old(path, schema)
        assert (ledger.remaining(), ledger.charges()) == expected
        with pytest.raises(ValueError, match="has ended"):
            parts[0].charge(COST)
    Ledger.open(path).charge(COST)
    assert version(path) == 3


@pytest.mark.parametrize(
    "change",
    [
        *(f"UPDATE datasets SET spent = {wrong}" for wrong in ("-spent", "spent / 2", "'x'")),
        *(f"UPDATE parts SET spent = {wrong}" for wrong in ("-spent", "2 * spent")),
        *(f"UPDATE charges SET rho = {wrong}" for wrong in ("-rho", "rho / 2", "1e400")),
        "UPDATE datasets SET epsilon = -epsilon",
        "UPDATE datasets SET delta = delta + 1",
        "UPDATE datasets SET relation = 'replace-two'",
        "UPDATE charges SET time = '2025-21-02T03:04:05+00:00'",
        "UPDATE charges SET dataset = 'date'",
        "UPDATE charges SET part = 7 WHERE part = 1",
        "UPDATE partitions SET dataset = 'date'",
        "DELETE FROM charges WHERE id = 1",
    ],
)
def test_a_file_without_seals_that_does_not_add_up(tmp_path, change):
    path = tmp_path / "old.db"
    ledger = Ledger(1.0, 1e-6, path)
    with ledger.parallel(2) as parts:
        ledger.charge(COST)
        parts[1].charge(COST)
    make_old(path, 2)
    with sqlite3.connect(path) as connection:
        connection.execute(change)
    connection.close()
    before = path.read_bytes()
    for use in (ledger.remaining, lambda: Ledger.open(path), lambda: Ledger(1.0, 1e-6, path)):
        with pytest.raises(ValueError, match="damaged"):
            use()
    assert path.read_bytes() == before
