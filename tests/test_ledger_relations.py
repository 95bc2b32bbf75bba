"""Which data sets are neighbours, for each charge and for all of a ledger."""

import json
import pickle

import pytest

from skdpsco.privacy import GaussianEvent, Ledger, NoOpEvent, ZCDPEvent
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
