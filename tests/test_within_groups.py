"""Fits that are private within groups only: what pipelines, searches and ledgers say then."""

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skdpsco import Ledger, PrivacyWarning, PrivateGridSearchCV, PrivateGroupDRO
from skdpsco.inspection import privacy_report
from skdpsco.model_selection import private_cross_val_score
from skdpsco.preprocessing import PrivateStandardScaler
from skdpsco.privacy import NoOpEvent
from skdpsco.privacy.relations import WITHIN_GROUPS

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning"),
    pytest.mark.filterwarnings("ignore:With group_membership"),
]
ONE = "replace-one"
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (400, 3))
Y = (X[:, 0] > 0).astype(int)
GROUP = np.arange(400) % 2
FIT = {"sensitive_features": GROUP}
MODES = pytest.mark.parametrize("mode", ["public", "private"])
MEMBERSHIP = "group_membership"


def model(mode="public", **params):
    return PrivateGroupDRO(groups=[0, 1], classes=[0, 1], **{MEMBERSHIP: mode, **params})


def pipeline(mode, **params):
    return make_pipeline(Normalizer(), PrivateStandardScaler(), model(mode, **params))


def relation_for(mode):
    return WITHIN_GROUPS if mode == "public" else ONE


@MODES
def test_a_report_says_the_same_before_and_after_a_fit(mode):
    expected = relation_for(mode)
    estimator = pipeline(mode)
    before = privacy_report(estimator)
    after = privacy_report(estimator.fit(X, Y, privategroupdro__sensitive_features=GROUP))
    for report in (before, after):
        assert report.private
        assert report.relation == expected
        assert [step.relation for step in report.steps] == [None, ONE, expected]
        assert report.rho == pytest.approx(report.steps[1].rho + report.steps[2].rho)
        assert report.epsilon > 1.0
        assert report.to_frame()["relation"].fillna("").tolist() == ["", ONE, expected]
        *_, of_model, total = str(report).splitlines()
        note = f"the guarantee is for {WITHIN_GROUPS!r} neighbours"
        assert of_model.endswith(note) is total.endswith(note) is (mode == "public")
        assert report._repr_html_().count(WITHIN_GROUPS) == 2 * (mode == "public")
    assert after.steps[2].rho == estimator[-1].privacy_.rho


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
def test_a_seed_and_a_relation_are_both_told():
    report = privacy_report(model(random_state=0).fit(X, Y, **FIT))
    assert report.steps[0].note.startswith("SEEDED")
    assert (
        str(report)
        .splitlines()[-1]
        .endswith(f"SEEDED; the guarantee is for {WITHIN_GROUPS!r} neighbours")
    )


GRIDS = {
    "public": ({"n_iter": [1, 2]}, "public", WITHIN_GROUPS),
    "private": ({"n_iter": [1, 2]}, "private", ONE),
    "one is public": ({MEMBERSHIP: ["private", "public", "private"]}, "private", WITHIN_GROUPS),
    "none is public": ({MEMBERSHIP: ["private", "private"]}, "public", ONE),
}


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [*((kind, "composition") for kind in GRIDS), ("public", "random-stopping")],
)
def test_a_search_is_for_the_weakest_of_its_candidates(kind, strategy):
    grid, mode, expected = GRIDS[kind]
    ledger = Ledger(100.0, 1e-5)
    search = PrivateGridSearchCV(model(mode), grid, strategy=strategy, ledger=ledger)
    assert privacy_report(search).relation == expected
    assert ledger.weakest_relation() == ONE
    search.fit(X, Y, **FIT)
    assert search.privacy_.relation == privacy_report(search).relation == expected
    assert [charge.relation for charge in ledger.charges()] == [expected]
    # The report of the winner is about its own fit.
    own = search.best_estimator_
    assert own.privacy_.relation == relation_for(own.group_membership)


@MODES
def test_cross_validation(mode):
    ledger = Ledger(100.0, 1e-5)
    inner = PrivateGridSearchCV(model(mode), {"n_iter": [1, 2]}, strategy="composition")
    for estimator in (model(mode), inner):
        result = private_cross_val_score(estimator, X, Y, cv=2, fit_params=FIT, ledger=ledger)
        assert result.privacy.relation == relation_for(mode)
    assert [charge.relation for charge in ledger.charges()] == [relation_for(mode)] * 2


@MODES
def test_a_fit_charges_for_its_relation(mode):
    ledger = Ledger(100.0, 1e-5)
    estimator = pipeline(mode).set_params(
        privatestandardscaler__ledger=ledger, privategroupdro__ledger=ledger
    )
    estimator.fit(X, Y, privategroupdro__sensitive_features=GROUP)
    assert [charge.relation for charge in ledger.charges()] == [ONE, relation_for(mode)]
    assert ledger.weakest_relation() == estimator[-1].privacy_.relation == relation_for(mode)


def test_the_first_charge_that_weakens_a_ledger_warns():
    search = PrivateGridSearchCV(model(), {"n_iter": [1]})
    for fit in (
        lambda ledger: model(ledger=ledger).fit(X, Y, **FIT),
        lambda ledger: search.set_params(ledger=ledger).fit(X, Y, **FIT),
        lambda ledger: private_cross_val_score(model(), X, Y, fit_params=FIT, cv=2, ledger=ledger),
    ):
        ledger = Ledger(100.0, 1e-5)
        with pytest.warns(PrivacyWarning, match=r"of the whole ledger.*weakest_relation") as caught:
            fit(ledger)
        assert [str(one.filename) for one in caught if "ledger" in str(one.message)] == [__file__]
        assert ledger.weakest_relation() == WITHIN_GROUPS
        with warnings.catch_warnings():
            warnings.simplefilter("error", PrivacyWarning)
            fit(ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        model("private", ledger=Ledger(100.0, 1e-5)).fit(X, Y, **FIT)
        ledger = Ledger(100.0, 1e-5)
        with pytest.raises(PrivacyWarning):
            model(ledger=ledger).fit(X, Y, **FIT)
        assert ledger.charges() == []


@MODES
def test_a_ledger_for_records_that_may_be_absent_refuses_both(mode):
    ledger = Ledger(100.0, 1e-5, relation="add-or-remove-one")
    with pytest.raises(ValueError, match=r"PrivateGroupDRO is for .* and the ledger"):
        model(mode, ledger=ledger).fit(X, Y, **FIT)
    ledger.charge(NoOpEvent(), relation="add-or-remove-one")
    assert len(ledger.charges()) == 1
