"""Neighbours that replace all records of a unit at once: budgets, ledgers, fits, and draws."""

import itertools
import math
from collections import Counter
from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from cases import each
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdpsco import (
    Budget,
    BudgetExceededError,
    Ledger,
    PrivateGridSearchCV,
    PrivateRidge,
    draw_records,
)
from skdpsco.model_selection import private_cross_val_score
from skdpsco.preprocessing import PrivateStandardScaler
from skdpsco.privacy import (
    ExponentialMechanismEvent,
    GaussianEvent,
    NoOpEvent,
    PoissonSampledGaussianEvent,
    RandomStoppingEvent,
    TruncatedNegativeBinomial,
    ZCDPEvent,
    allows,
    rho_of,
    zcdp_epsilon,
)
from skdpsco.privacy.accounting import for_units
from skdpsco.privacy.relations import WITHIN_GROUPS, records_of_unit, replacements, unit_relation
from skdpsco.solvers import Remainder

RECORD, ADD = "replace-one", "add-or-remove-one"
UNIT = unit_relation(3)
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (600, 3))
Y = X @ [1.0, -0.5, 0.0]


def ledger(k=3, **options):
    return Ledger(2.0, 1e-6, max_records_per_unit=k, **options)


def divergence(p, q, order):
    return math.log(sum(p**order * q ** (1 - order))) / (order - 1)


# --- relations, budgets and ledgers


def test_relations_are_texts_that_can_be_read():
    assert unit_relation(1) == RECORD
    for k in (1, 2, 17, 999_999):
        assert records_of_unit(unit_relation(k)) == k
    for text in (ADD, WITHIN_GROUPS, None, UNIT + " ", UNIT.replace("3", "03"),
                 UNIT.replace("3", "1"), UNIT.replace("3", "0")):  # fmt: skip
        assert records_of_unit(text) is None
    assert [replacements(unit_relation(7), by=unit_relation(k)) for k in (1, 3, 7, 9)] == [
        7, 3, 1, 1,
    ]  # fmt: skip
    assert replacements(ADD, by=ADD) == replacements(WITHIN_GROUPS, by=WITHIN_GROUPS) == 1
    assert replacements(RECORD, by=WITHIN_GROUPS) is replacements(ADD, by=RECORD) is None
    assert replacements(UNIT, by=WITHIN_GROUPS) is replacements(ADD, by=UNIT) is None


@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_budget_pays_for_all_records_of_a_unit(k):
    whole, budget = Budget(1.0, 1e-6), Budget(1.0, 1e-6, k)
    assert budget.rho == pytest.approx(whole.rho / k**2, rel=1e-15)
    assert zcdp_epsilon(k**2 * budget.rho, 1e-6) <= 1.0
    for event in (ZCDPEvent(budget.rho), GaussianEvent((1 + 1e-12) / budget.mu)):
        assert allows(budget, event)
        assert rho_of(for_units(event, k)) <= whole.rho * (1.2 if k == 1 else 1 + 1e-11)
        assert not allows(budget, for_units(event, 2))
    spent = ZCDPEvent(0.6 * budget.rho)
    assert not allows(Remainder(budget, spent), spent)


def test_what_a_unit_costs_is_known_for_every_event():
    """Also for those whose own curves hold for one record only."""
    tries = TruncatedNegativeBinomial(1.0, 0.1)
    for event in (
        RandomStoppingEvent(0.01, tries),
        PoissonSampledGaussianEvent(2.0, 0.01),
        ExponentialMechanismEvent(0.1),
    ):
        unit = for_units(event, 3)
        known = type(unit) is type(event)  # a draw for a unit is one with a larger epsilon0
        assert known == isinstance(event, ExponentialMechanismEvent)
        assert known or unit == ZCDPEvent(9 * rho_of(event))
        assert rho_of(unit) == pytest.approx(9 * rho_of(event), rel=1e-14)
        assert for_units(event, 1) == event
        epsilon = zcdp_epsilon(9 * rho_of(event), 1e-6)
        assert not allows(Budget(0.99 * epsilon, 1e-6, 3), event)
        assert allows(Budget(1.01 * epsilon, 1e-6, 3), event)
    assert for_units(NoOpEvent(), 3) == NoOpEvent()


@pytest.mark.parametrize("k", [2, 3])
def test_k_draws_of_the_exponential_mechanism_cost_no_more_than_is_charged(k):
    """Brute force: all ways in which k of four records change the scores, which are counts."""
    tables = list(itertools.product(range(3), repeat=4))
    epsilon0 = 0.7
    charged = rho_of(for_units(ExponentialMechanismEvent(epsilon0), k))
    most = 0.0
    for one, other in itertools.product(tables, repeat=2):
        if sum(a != b for a, b in zip(one, other, strict=True)) > k:
            continue
        p, q = (np.exp(0.5 * epsilon0 * np.bincount(table, minlength=3)) for table in (one, other))
        p, q = p / p.sum(), q / q.sum()
        most = max(most, *(divergence(p, q, a) / a for a in (1.01, 2.0, 8.0, 40.0)))
    assert 0.5 * charged < most <= charged


def test_a_ledger_charges_for_units():
    mine = ledger()
    assert (mine.relation, mine.max_records_per_unit) == (UNIT, 3)
    mine.charge(ZCDPEvent(1e-4))
    mine.charge(ZCDPEvent(1e-4), relation=UNIT)
    mine.charge(ZCDPEvent(1e-4), relation=unit_relation(2))
    mine.charge(ZCDPEvent(1e-4), relation=unit_relation(9))
    assert [c.rho for c in mine.charges()] == pytest.approx([9e-4, 1e-4, 4e-4, 1e-4])
    assert {c.relation for c in mine.charges()} == {mine.weakest_relation()} == {UNIT}
    assert UNIT in repr(mine)
    assert UNIT in mine._repr_html_()
    with pytest.raises(ValueError, match="ledger of 'data' is for"):
        mine.charge(NoOpEvent(), relation=WITHIN_GROUPS)
    with pytest.raises(BudgetExceededError):
        mine.charge(ZCDPEvent(mine.rho / 8))
    # A guarantee for units is one for records, too.
    records = Ledger(2.0, 1e-6)
    records.charge(ZCDPEvent(1e-4), relation=UNIT)
    assert (records.charges()[0].rho, records.weakest_relation()) == (1e-4, RECORD)


def test_parts_of_a_ledger_for_units():
    """Records of a unit may be in several parts: the sum of squares is at most that of the sum."""
    mine = ledger()
    with mine.parallel(2) as parts:
        for part in parts:
            part.charge(ZCDPEvent(1e-4))
    assert mine.spent().rho == pytest.approx(9e-4)


def test_a_file_keeps_its_units(tmp_path):
    path = tmp_path / "ledger.db"
    ledger(path=path).charge(ZCDPEvent(1e-4))
    for again in (Ledger.open(path), ledger(path=path), Ledger(2.0, 1e-6, path, relation=UNIT)):
        assert (again.max_records_per_unit, again.relation) == (3, UNIT)
        assert again.spent().rho == pytest.approx(9e-4)
    for k in (1, 2):
        with pytest.raises(ValueError, match="holds another budget"):
            ledger(k, path=path)


@each(("k", "error"), [(0, ValueError), (10**6, ValueError), (2.0, TypeError), (True, TypeError)])
def test_bad_units(k, error):
    for use in (ledger, lambda k: Budget(1.0, 1e-6, k), lambda k: draw_records([1], k)):
        with pytest.raises(error, match="max_records_per_unit must be an int"):
            use(k)


def test_units_are_of_replacement():
    with pytest.raises(ValueError, match="max_records_per_unit must be 1"):
        ledger(relation=ADD)
    with pytest.raises(ValueError, match="for units of 999999 records"):
        PrivateStandardScaler(lower=-1, upper=1, ledger=ledger(999_999)).fit(X)


# --- fits


@pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
def test_the_winner_of_a_search_reports_what_it_costs_a_unit():
    mine = ledger()
    inner = PrivateGridSearchCV(PrivateRidge(feature_bound=1, target_bound=2), {"alpha": [0.1]})
    model = make_pipeline(PrivateStandardScaler(lower=-1, upper=1), inner)
    name = "privategridsearchcv__estimator__alpha"
    grid = {name: [0.1, 1.0]}
    search = PrivateGridSearchCV(model, grid, epsilon=2.0, ledger=mine, strategy="composition")
    scaler, found = (step for _, step in search.fit(X, Y).best_estimator_.steps)
    for step in (scaler, found, found.best_estimator_):
        assert step.privacy_.relation == UNIT
        assert step.privacy_.rho <= 0.5 * mine.rho
        budget = Budget(step.privacy_.epsilon, step.privacy_.delta)
        assert step.privacy_.rho == pytest.approx(budget.rho, rel=1e-6)
    assert step.ledger == mine
    again = clone(scaler).set_params(ledger=ledger()).fit(X)  # costs a unit as much
    assert again.privacy_.rho == pytest.approx(scaler.privacy_.rho, rel=1e-6)


@pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
def test_cross_validation_costs_what_a_unit_may():
    model = PrivateRidge(epsilon=0.5, feature_bound=1, target_bound=2)
    without = private_cross_val_score(model, X, Y, epsilon=0.2, cv=2).privacy
    mine = ledger()
    result = private_cross_val_score(model, X, Y, epsilon=0.2, cv=2, ledger=mine).privacy
    (charge,) = mine.charges()
    assert charge.rho == pytest.approx(result.rho, rel=1e-9)
    assert result.rho == pytest.approx(without.rho, rel=0.1)
    assert result.epsilon == pytest.approx(without.epsilon, rel=0.1)
    assert result.relation == UNIT


# --- draws


@pytest.mark.parametrize("k", [1, 2, 5])
def test_every_unit_has_k_rows(k):
    units = np.array(["a", "b", "b", "c", "c", "c", "c", "c", "c", "c"])
    rows = draw_records(units, k)
    assert Counter(units[rows]) == dict.fromkeys("abc", k)
    times = Counter(rows.tolist())
    for unit in "abc":
        own = [times[i] for i in np.flatnonzero(units == unit)]
        assert max(own) - min(own) <= 1


def test_draws_of_one_unit_do_not_depend_on_others():
    """The law of the draws from the first unit does not depend on the second one."""
    for second in ([1], [1, 1, 1], [1] * 6):
        units = np.array([0, 0, 0, *second])
        drawn = Counter(
            tuple(sorted(r for r in draw_records(units, 2).tolist() if r < 3)) for _ in range(1500)
        )
        assert set(drawn) == {(0, 1), (0, 2), (1, 2)}
        assert all(abs(n - 500) < 110 for n in drawn.values())  # 6 standard deviations


def test_a_unit_has_k_rows_in_any_places():
    k = 2
    table = np.array([10, 11, 12, 20, 30, 31])
    units = table // 10
    positions = Counter()
    for _ in range(300):
        rows = table[draw_records(units, k)]
        positions[tuple(np.flatnonzero(rows // 10 == 1))] += 1
        assert (rows // 10 == 1).sum() == k
    assert len(positions) == math.comb(3 * k, k)  # any places, whatever the unit is called


@each(
    "units",
    [
        pd.Series(["x", "y", "x"]),
        pd.Series(["x", "y", "x"], dtype="category"),
        pd.Series([1, 2, 1], dtype="Int64"),
        pd.to_datetime(pd.Series(["2026-01-01", "2026-01-02", "2026-01-01"])),
        ["u", 7, "u"],
        [1.5, 2.5, 1.5],
        [True, False, True],
        [datetime(2026, 1, 1), datetime(2026, 1, 2), datetime(2026, 1, 1)],
    ],
)
def test_units_of_all_kinds(units):
    rows = draw_records(units)
    assert len(rows) == 2
    assert sorted(rows.tolist()) in ([0, 1], [1, 2])


class Secret:
    """An identifier that fails on any use, with its value in the error."""

    def _fail(self, *args):
        raise ValueError("s3cret")

    __hash__ = __eq__ = __array__ = _fail


@each(
    "units",
    [
        pd.Series(["s3cret", pd.NA]),
        pd.Series(pd.to_datetime(["2026-01-01", None])),
        np.array([["s3cret"], "b"], dtype=object),
        [Secret(), "b"],
        pd.Series([Secret(), "b"]),
    ],
)
def test_bad_identifiers(units):
    with pytest.raises(ValueError, match="units must be one-dimensional") as caught:
        draw_records(units)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_number_and_a_text_are_two_units():
    assert len(draw_records([1, "1", 2**53, 2**53 + 1, 0.5])) == 5
