"""Moments for neighbours of which one has one more record: the number of records is private."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from skdpsco import Ledger, PrivateMoments, PrivateRidge
from skdpsco.base.grants import Grant
from skdpsco.inspection import privacy_report
from skdpsco.mechanisms.samplers import GRID_LIMIT, deviation_on, to_grid
from skdpsco.moments import release
from skdpsco.privacy import GaussianEvent, ZCDPEvent, rho_of
from skdpsco.privacy.relations import ADD_OR_REMOVE, replacements, unit_relation

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (400, 2))
Y = X @ [0.5, -0.3] + 0.1
OPTIONS = {"feature_bound": 1.0, "target_bound": 1.0, "relation": ADD_OR_REMOVE}


def test_without_noise_they_are_those_of_the_records():
    with pytest.warns(UserWarning, match="reproducible"):
        moments = PrivateMoments(epsilon=1e6, random_state=0, **OPTIONS).fit(X, Y)
    released = moments.moments_
    assert abs(released.n_samples - 400) <= 2
    table = np.column_stack([X, Y])
    assert moments.mean_ == pytest.approx(table.mean(axis=0), abs=0.01)
    assert moments.covariance_ == pytest.approx(np.cov(table.T, bias=True), abs=0.02)
    model, truth = PrivateRidge(alpha=2.0).fit(moments), Ridge(alpha=2.0).fit(X, Y)
    assert model.coef_ == pytest.approx(truth.coef_, abs=0.02)
    assert model.intercept_ == pytest.approx(truth.intercept_, abs=0.02)


def test_the_number_of_records_is_noisy_and_nothing_else_tells_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an advice would follow from the number of records
        found = {PrivateMoments(epsilon=0.5, **OPTIONS).fit(X, Y).moments_.n_samples
                 for _ in range(5)}  # fmt: skip
        few = PrivateMoments(epsilon=0.01, **OPTIONS).fit(X[:1], Y[:1]).moments_
    assert len(found) > 1
    assert few.n_samples >= 1
    assert type(few.n_samples) is int
    events = {PrivateMoments(**OPTIONS).fit(X[:n], Y[:n]).privacy_.event for n in (1, 7, 400)}
    assert len(events) == 1


@pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
def test_a_ledger_for_added_records_is_charged():
    ledger = Ledger(1.0, 1e-6, relation=ADD_OR_REMOVE)
    moments = PrivateMoments(epsilon=0.9, ledger=ledger, **OPTIONS).fit(X, Y)
    PrivateRidge(ledger=ledger).fit(moments)
    first, second = ledger.charges()
    assert first.relation == second.relation == ledger.weakest_relation() == ADD_OR_REMOVE
    assert first.rho == pytest.approx(moments.privacy_.rho)
    assert second.rho == 0.0
    assert "number of records private" in str(moments.privacy_)
    assert any(line.startswith("there are at most") for line in moments.privacy_.assumptions)
    with pytest.raises(ValueError, match="PrivateMoments is for 'replace-one' neighbours"):
        PrivateMoments(epsilon=0.1, ledger=ledger).fit(X, Y)
    assert len(ledger.charges()) == 2


def test_a_replacement_is_a_record_added_and_one_removed():
    assert replacements("replace-one", by=ADD_OR_REMOVE) == 2
    assert replacements(unit_relation(3), by=ADD_OR_REMOVE) == 6
    ledger = Ledger(3.0, 1e-6)
    moments = PrivateMoments(epsilon=0.5, ledger=ledger, **OPTIONS).fit(X, Y)
    assert ledger.charges()[0].rho == pytest.approx(4.0 * moments.privacy_.rho)
    report = privacy_report(moments)
    assert report.relation == "replace-one"
    assert report.rho == pytest.approx(4.0 * moments.privacy_.rho)
    assert "own guarantee is for 'add-or-remove-one'" in str(report)
    assert privacy_report(PrivateMoments(**OPTIONS)).relation == "replace-one"


@pytest.mark.parametrize("mu", [1e-3, 0.2, 30.0])
def test_the_grid_holds_as_many_records_as_are_said(mu):
    planned = release.plan_matrix(None, 3, mu, True, None)
    most = release.most_records(planned)
    assert most * mu > 1e7 or most == release.MOST_RECORDS_ADDED
    assert abs(to_grid(2.0 * 1.15 * most, planned.matrix_grid)) < GRID_LIMIT // 2
    deviation = deviation_on(planned.matrix_grid)
    assert 1.15 / mu < deviation < 1.02 * 1.15 / mu  # half of it per record: no other noise


def test_moments_are_added_if_both_numbers_are_private():
    one, other = (PrivateMoments(epsilon=1.0, **OPTIONS).fit(X[a], Y[a])
                  for a in (slice(200), slice(200, None)))  # fmt: skip
    both = one + other
    assert both.n_samples == one.moments_.n_samples + other.moments_.n_samples
    assert both.privacy_.relation == ADD_OR_REMOVE
    public = PrivateMoments(epsilon=1.0, feature_bound=1.0, target_bound=1.0).fit(X, Y)
    with pytest.raises(ValueError, match="both are for 'add-or-remove-one'"):
        one + public


@pytest.mark.parametrize("missing", ["feature_bound", "target_bound"])
def test_bounds_must_be_declared(missing):
    ledger = Ledger(1.0, 1e-6, relation=ADD_OR_REMOVE)
    with pytest.raises(ValueError, match="must be declared with relation='add-or-remove-one'"):
        PrivateMoments(**{**OPTIONS, missing: None}, ledger=ledger).fit(X, Y)
    assert ledger.charges() == []


def test_bad_relations():
    for bad in ("replace", None, unit_relation(2)):
        with pytest.raises(ValueError, match="'relation' parameter"):
            PrivateMoments(relation=bad).fit(X)


def test_a_search_grants_nothing_for_other_neighbours():
    with pytest.raises(ValueError, match="must be 'replace-one' in a search"):
        Grant(1.0).charge(ZCDPEvent(0.1), "Fit", {}, ADD_OR_REMOVE)
    assert rho_of(GaussianEvent(1.0)) == 0.5
