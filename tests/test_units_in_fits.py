"""Fits that are given units: what they draw, what they cost, and what they refuse."""

import itertools
import math
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from cases import each
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skdpsco
from skdpsco import (
    Ledger,
    PrivateGridSearchCV,
    PrivateGroupDRO,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    PrivateSynthesizer,
    RowBlocks,
    draw_records,
)
from skdpsco._random import generator
from skdpsco.base.private_estimator import PrivateEstimator
from skdpsco.data import as_design
from skdpsco.data.units import generator_of_draws, of_units
from skdpsco.inspection import plan, privacy_report
from skdpsco.mechanisms.samplers import deviation_on
from skdpsco.model_selection import private_cross_val_score
from skdpsco.moments.release import ONE, plan_matrix
from skdpsco.moments.table_sums import TableSums
from skdpsco.preprocessing import (
    PrivateFeatureSelector,
    PrivatePCA,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
)
from skdpsco.privacy import Budget, ZCDPEvent, pure_epsilon_of, rho_of
from skdpsco.privacy.accounting import for_units
from skdpsco.privacy.relations import unit_relation
from skdpsco.solvers.penalized.second_moments import upper_triangle

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
K = 3
RNG = np.random.default_rng(0)
PERSON = np.repeat(np.arange(200), RNG.integers(1, 7, 200))
N = len(PERSON)
X = RNG.uniform(-1, 1, (N, 2))
Y = X @ [1.0, -0.5]
BOTH = [False, True]
KNOWN = {"feature_bound": 1, "target_bound": 2}
LABELLED = {"feature_bound": 1, "classes": BOTH}

FITS = {
    "ridge": lambda **o: (PrivateRidge(**KNOWN, **o), X, Y),
    "found": lambda **o: (PrivateRidge(feature_bound=None, **o), X, Y),
    "logistic": lambda **o: (PrivateLogisticRegression(**LABELLED, **o), X, Y > 0),
    "sgd": lambda **o: (
        PrivateLogisticRegression(**LABELLED, solver="sgd", n_iter=3, **o), X, Y > 0,
    ),
    "groups": lambda **o: (
        PrivateGroupDRO(**LABELLED, groups=[0, 1], group_membership="private", **o), X, Y > 0,
    ),
    "moments": lambda **o: (PrivateMoments(**KNOWN, **o), X, Y),
    "components": lambda **o: (PrivatePCA(feature_bound=1, **o), X),
    "scaler": lambda **o: (PrivateStandardScaler(lower=-1, upper=1, **o), X),
    "selector": lambda **o: (
        PrivateFeatureSelector(n_features_to_select=1, **LABELLED, **o), X, Y > 0,
    ),
    "synthesizer": lambda **o: (
        PrivateSynthesizer(domain=[[0, 1], [0, 1]], **o), (X > 0).astype(int),
    ),
    "search": lambda **o: (
        PrivateGridSearchCV(PrivateRidge(**KNOWN), {"alpha": [0.1, 1.0]}, **o), X, Y,
    ),
}  # fmt: skip


def fitted(name, units=PERSON, **options):
    model, *data = FITS[name](**options)
    more = {"sensitive_features": np.arange(N) % 2} if name == "groups" else {}
    return model.fit(*data, units=units, **more)


# --- what is drawn


@each(
    "table",
    [
        X,
        X.tolist(),
        np.asfortranarray(X, dtype=np.float32),
        sparse.csr_array(X),
        sparse.coo_matrix(X),
        pd.DataFrame(X, index=np.arange(N)[::-1]),
        pl.DataFrame(X),
    ],
)
def test_all_that_comes_with_records_is_drawn_alike(table):
    given = {
        "X": table,
        "y": pd.Series(Y, index=np.arange(N) % 7),
        "groups": PERSON.tolist(),
        "columns": ["a", "b"],
        "column": "a",
        "model": PrivateRidge(),
        "nothing": None,
    }
    drawn, y, person, *others = of_units(PERSON, K, None, given)
    assert Counter(person) == dict.fromkeys(range(200), K)
    drawn = np.asarray(drawn.todense() if sparse.issparse(drawn) else drawn)
    np.testing.assert_allclose(drawn @ [1.0, -0.5], y, atol=1e-6)
    rows = [np.flatnonzero(Y == value)[0] for value in y]
    assert PERSON[rows].tolist() == person
    assert others == [given[name] for name in ("columns", "column", "model", "nothing")]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_moments_of_persons_lose_no_more_than_is_charged(k):
    """Brute force: replace a person's records by any others, and compare all tables of both.

    What is drawn from the other person is the same, as the proof couples it.
    """
    budget = Budget(2.0, 1e-6, k)
    planned = plan_matrix(2 * k, 2, (2 * budget.rho) ** 0.5, False, None)
    corners = np.array([(-1.0, -1.0), (-1.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
    unit, zero = np.ones(2), np.zeros(2)

    def lists(records):
        """All lists that may be drawn from a person with these records."""
        whole, rest = divmod(k, len(records))
        return {
            tuple(sorted((*records * whole, *some)))
            for some in itertools.combinations(records, rest)
        }

    def total(rows):
        design = as_design(corners[list(rows)], unit, False)
        records = TableSums(design, np.zeros(len(rows)), unit)
        return upper_triangle(records.matrix(zero, unit, planned.row_norm, ONE))

    sizes = (1, 2, 4)
    persons = [p for m in sizes for p in itertools.combinations_with_replacement(range(4), m)]
    own = {rows for person in persons for rows in lists(person)}
    sums = [total((*rows, *[1] * k)) for rows in own]
    change = max(np.linalg.norm(a - b) for a, b in itertools.product(sums, repeat=2))
    lost = 0.5 * (change / deviation_on(planned.matrix_grid)) ** 2
    charged = rho_of(for_units(planned.event, k))
    assert charged <= Budget(2.0, 1e-6).rho * (1 + 1e-9)
    assert 0.3 * charged < lost <= charged
    # These are the tables that occur, and all of them have n = 2 k rows.
    for records in ((0, 1, 2, 3), (2, 3), (0,)):
        units = [0] * len(records) + [1]
        for _ in range(20):
            given = {"X": np.array([*records, 9])}
            (drawn,) = of_units(units, k, None, given)
            assert len(drawn) == 2 * k
            assert tuple(sorted(drawn[drawn < 9].tolist())) in lists(records)


# --- what it costs


@each("name", list(FITS))
@each("declared_by", ["model", "ledger"])
def test_a_fit_is_for_units(name, declared_by):
    """A model draws records; a ledger counts on records that were drawn before."""
    whole, mine = Budget(1.0, 1e-6).rho, None
    if declared_by == "model":
        model = fitted(name, epsilon=1.0, max_records_per_unit=K)
        assert "the number of units is public" in model.privacy_.assumptions[-1]
    else:
        mine = Ledger(2.0, 1e-6, max_records_per_unit=K)
        model = fitted(name, None, epsilon=1.0, ledger=mine)
    report = model.privacy_
    assert (report.epsilon, report.delta, report.relation) == (1.0, 1e-6, unit_relation(K))
    assert 0.9 * whole <= report.rho <= whole * (1 + 1e-9)
    listed = privacy_report(model)
    assert (listed.relation, listed.rho, listed.private) == (report.relation, report.rho, True)
    if mine is not None:
        (charge,) = mine.charges()
        assert report.rho == pytest.approx(charge.rho, rel=1e-12)
        pure = pure_epsilon_of(report.event) < math.inf
        assert pure or report.event == ZCDPEvent(report.rho)
        assert unit_relation(K) in str(report)
    assert privacy_report(clone(model)).relation == report.relation


@each("name", ["ridge", "sgd", "scaler", "search"])
def test_a_ledger_of_the_same_units_is_charged_once(name):
    mine = Ledger(2.0, 1e-6, max_records_per_unit=K)
    report = fitted(name, epsilon=1.0, max_records_per_unit=K, ledger=mine).privacy_
    (charge,) = mine.charges()
    assert charge.rho == pytest.approx(report.rho, rel=1e-12)
    assert charge.rho == pytest.approx(Budget(1.0, 1e-6).rho, rel=0.1)
    for other in (1, 2):
        with pytest.raises(ValueError, match="must be the number of the ledger, which is"):
            fitted(
                name, max_records_per_unit=K, ledger=Ledger(2.0, 1e-6, max_records_per_unit=other)
            )


def test_a_plan_is_for_the_drawn_rows():
    model = PrivateRidge(max_records_per_unit=K, **KNOWN)
    planned, report = plan(model, 200 * K, 2), model.fit(X, Y, units=PERSON).privacy_
    assert (planned.rho, planned.relation) == (report.rho, report.relation)
    mine = Ledger(1.0, 1e-6, max_records_per_unit=K)
    assert planned.releases == plan(PrivateRidge(**KNOWN, ledger=mine), 200 * K, 2).releases


def test_a_seed_repeats_the_draw_but_not_as_noise():
    first, second = (fitted("ridge", max_records_per_unit=K, random_state=s).coef_ for s in (5, 5))
    np.testing.assert_array_equal(first, second)
    noise, draws = generator(5)[0], generator_of_draws(5)
    assert noise.integers(2**60) != draws.integers(2**60)
    one, other = (of_units(PERSON, K, None, {"X": X})[0] for _ in range(2))
    assert not np.array_equal(one, other)


# --- pipelines and searches


def test_a_pipeline_passes_units_on():
    with sklearn.config_context(enable_metadata_routing=True):
        steps = (
            FunctionTransformer(),
            PrivateStandardScaler(lower=-1, upper=1, max_records_per_unit=K),
            PrivateQuantileClipper(lower=-9, upper=9, max_records_per_unit=K),
            PrivateSplineTransformer(lower=-9, upper=9, max_records_per_unit=K),
            PrivateRidge(feature_bound=9, target_bound=2, max_records_per_unit=K),
        )
        model = make_pipeline(*steps).fit(pd.DataFrame(X), Y, units=PERSON)
        assert [step.privacy_.relation for step in model[1:]] == [unit_relation(K)] * 4
        assert model[1].n_samples_seen_ == 200 * K
        assert privacy_report(model).relation == unit_relation(K)
        steps[1].set_params(max_records_per_unit=None)  # a step that forgets
        with pytest.raises(ValueError, match="must be given together"):
            make_pipeline(*steps).fit(X, Y, units=PERSON)
        steps[1].set_fit_request(units=False)
        report = privacy_report(make_pipeline(*steps).fit(X, Y, units=PERSON))
        assert report.relation == "replace-one"
    inner = {"privateridge__units": PERSON}
    model = make_pipeline(FunctionTransformer(), steps[-1]).fit(X, Y, **inner)
    assert model[-1].privacy_.relation == unit_relation(K)


@each("strategy", ["composition", "random-stopping"])
def test_a_search_draws_once(strategy, monkeypatch):
    sizes = set()
    search = PrivateGridSearchCV(
        PrivateRidge(max_weight=1, **KNOWN), {"alpha": [0.1, 1.0]}, strategy=strategy,
        max_records_per_unit=K, validation_fraction=0.2, refit=True,
    )  # fmt: skip
    original = PrivateRidge._learn

    def learn(self, X, y):
        sizes.add((len(X), len(y), len(self._sample_weight)))
        return original(self, X, y)

    monkeypatch.setattr(PrivateRidge, "_learn", learn)
    search.fit(X, Y, sample_weight=np.ones(N), units=PERSON)
    assert sizes == {(480,) * 3, (600,) * 3}
    assert search.best_estimator_.privacy_.relation == unit_relation(K)


# --- what is refused


LONELY = "max_records_per_unit must be given together"
CLASSES = "classes must be declared where units are given"
REFUSED = {
    "no number": (lambda: PrivateRidge(), {}, LONELY),
    "no units": (lambda: PrivateRidge(max_records_per_unit=K), {"units": None}, LONELY),
    "of a candidate": (
        lambda: PrivateGridSearchCV(
            PrivateRidge(max_records_per_unit=K, **KNOWN), {}, max_records_per_unit=K
        ), {}, "max_records_per_unit must be None: how many units are in a part",
    ),
    "of a step in a search": (
        lambda: PrivateGridSearchCV(
            make_pipeline(PrivateRidge(max_records_per_unit=1, **KNOWN)), {}
        ), {"units": None, "privateridge__units": PERSON},
        "privateridge__max_records_per_unit must be None",
    ),
    "classes": (lambda: PrivateLogisticRegression(max_records_per_unit=K), {}, CLASSES),
    "of a search": (
        lambda: PrivateGridSearchCV(
            PrivateLogisticRegression(), {}, max_records_per_unit=K
        ), {"y": Y > 0}, CLASSES,
    ),
    "selector": (lambda: PrivateFeatureSelector(max_records_per_unit=K), {}, CLASSES),
    "added": (
        lambda: PrivateRidge(max_records_per_unit=K, relation="add-or-remove-one"), {},
        "must be None where neighbours are 'add-or-remove-one'",
    ),
    "groups": (
        lambda: PrivateGroupDRO(max_records_per_unit=K), {"sensitive_features": PERSON % 2},
        "must be None where neighbours are 'replace-one within groups'",
    ),
    "length": (
        lambda: PrivateRidge(max_records_per_unit=K), {"units": PERSON[:-1]},
        "X and units must have one entry for every record",
    ),
    "targets": (
        lambda: PrivateRidge(max_records_per_unit=K), {"y": Y[: 200 * K]}, "y and units must",
    ),
    "weights": (
        lambda: PrivateRidge(max_records_per_unit=K, max_weight=1),
        {"sample_weight": np.ones(200 * K)}, "sample_weight and units must",
    ),
    "identifiers": (
        lambda: PrivateRidge(max_records_per_unit=K), {"units": np.full(N, np.nan)},
        "units must be one-dimensional",
    ),
    "blocks": (
        lambda: PrivateRidge(max_records_per_unit=K), {"X": RowBlocks.from_arrays(X, Y)},
        "units must be None unless X holds records in memory",
    ),
    "name": (
        lambda: PrivateRidge(max_records_per_unit=K), {"units": "person"},
        "units must hold the unit of every record: a column, and not its name",
    ),
    "zero": (lambda: PrivateRidge(max_records_per_unit=0), {}, "max_records_per_unit"),
    "text": (lambda: PrivateRidge(max_records_per_unit="3"), {}, "max_records_per_unit"),
}  # fmt: skip


@each("case", list(REFUSED))
def test_refusals_come_before_any_charge(case, monkeypatch):
    make, changed, match = REFUSED[case]
    monkeypatch.setattr(skdpsco.base.private_estimator, "generator", None)
    arguments = {"X": X, "y": Y, "units": PERSON, **changed}
    with pytest.raises((ValueError, TypeError), match=match):
        make().fit(**arguments)


@each("k", [1, 2])
@each("name", ["ridge", "scaler", "moments", "search"])
def test_parts_of_a_ledger_are_divided_after_the_draw(name, k):
    """Otherwise as many would be drawn from every part, and a unit pays for those of one."""
    whole = Ledger(9.0, 1e-6, max_records_per_unit=k)
    with whole.parallel(2) as parts:
        assert [one.is_part for one in (whole, *parts)] == [False, True, True]
        for part in parts:
            with pytest.raises(ValueError, match="must not be a part of Ledger"):
                fitted(name, max_records_per_unit=k, ledger=part)
        rows = draw_records(PERSON, k)
        halves = rows[: 100 * k], rows[100 * k :]
        reports = [
            PrivateRidge(ledger=part, **KNOWN).fit(X[half], Y[half]).privacy_
            for part, half in zip(parts, halves, strict=True)
        ]
    costliest = max(report.rho for report in reports)
    assert whole.spent().rho == pytest.approx(costliest, rel=1e-12)


def test_a_private_score_refuses_estimators_that_draw():
    model = PrivateRidge(max_records_per_unit=1, **KNOWN)
    with pytest.raises(ValueError, match="max_records_per_unit must be None"):
        private_cross_val_score(model, X, Y, fit_params={"units": PERSON})


def test_a_validation_of_scikit_learn_warns_once_of_its_splits():
    def warned(fit):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit()
        return sum("private where units are given" in str(one.message) for one in caught)

    pays = Ledger(50.0, 1e-5, max_records_per_unit=1)
    model = PrivateRidge(ledger=pays, **KNOWN)
    one = draw_records(PERSON)
    assert warned(lambda: cross_val_score(model, X[one], Y[one], cv=2)) == 0
    model.set_params(max_records_per_unit=1)
    assert warned(lambda: cross_validate(model, X, Y, cv=3, params={"units": PERSON})) == 1
    assert warned(lambda: model.fit(X, Y, units=PERSON)) == 0


def test_moments_have_the_units_of_their_release():
    moments = fitted("moments", max_records_per_unit=K)
    for model in (PrivateRidge(), PrivateRidge(max_records_per_unit=2), PrivatePCA()):
        assert model.fit(moments).privacy_.relation == unit_relation(K)
        with pytest.raises(ValueError, match="units must be None where X holds moments"):
            model.fit(moments, units=PERSON)
    for ledger in (None, Ledger(1.0, 1e-6), Ledger(2.0, 1e-6, max_records_per_unit=K)):
        assert PrivateRidge(ledger=ledger).fit(moments).privacy_.relation == unit_relation(K)
    both = moments._released.merged(PrivateMoments(**KNOWN).fit(X, Y)._released)
    assert both.privacy_.relation == "replace-one"


def test_every_estimator_takes_units():
    found = [PrivateEstimator]
    for kind in found:
        found += kind.__subclasses__()
    public = [
        kind
        for kind in found
        if kind.__module__.startswith("skdpsco.") and kind.__name__.startswith("Private")
        if "__init__" in vars(kind)
    ]
    assert len(public) > 20
    for kind in public:
        assert "max_records_per_unit" in kind._get_param_names(), kind
        assert "max_records_per_unit" in kind._parameter_constraints, kind
        assert kind._get_class_level_metadata_request_values("fit")["units"] is True, kind
