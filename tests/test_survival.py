"""Times to an event: private survival curves and proportional hazards."""

import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cases import costs_nothing, each
from numpy.testing import assert_allclose, assert_array_equal

from skdpsco import (
    Ledger,
    PrivacyWarning,
    PrivateRidge,
    Schema,
    UtilityWarning,
    make_private_pipeline,
)
from skdpsco.data.design import as_design
from skdpsco.inspection import SurvivalDisplay, plan
from skdpsco.losses import derivative, value
from skdpsco.losses.hazards import EXPOSED, ProportionalHazards
from skdpsco.mechanisms.samplers import deviation_on
from skdpsco.preprocessing import PrivateSplineTransformer
from skdpsco.privacy import Budget, GaussianEvent, mu_of, rho_of
from skdpsco.privacy.events import leaves
from skdpsco.solvers.gradient_sums import clipped_gradient_sum
from skdpsco.survival import PrivateKaplanMeier, PrivateSurvivalRegressor
from skdpsco.survival import _counts as counts_module
from skdpsco.survival._concordance import concordance
from skdpsco.survival._counts import Baseline, life_table, plan_life_table
from skdpsco.survival._records import check_outcomes, signed_times

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning"),
]

TIMES = np.array([0.5, 1.0, 1.5, 2.0])
BOTH = [PrivateKaplanMeier, PrivateSurvivalRegressor]


def people(n=3000, seed=0, slope=1.0):
    """Features of which the first raises the hazard, and events among people censored at random."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    time, censored = rng.exponential(np.exp(-slope * X[:, 0])), rng.uniform(0.0, 4.0, n)
    return X, np.column_stack([time <= censored, np.minimum(time, censored)]).astype(float)


def late(n=3000, seed=0, slope=1.0):
    """Half of the people enter later, if they have not had the event or left before."""
    X, y = people(2 * n, seed, slope)
    rng = np.random.default_rng(seed)
    entry = np.where(rng.random(2 * n) < 0.5, 0.0, rng.uniform(0.0, 2.0, 2 * n))
    seen = np.flatnonzero(entry < y[:, 1])[:n]
    return X[seen], np.column_stack([y, entry])[seen]


def fitted(Estimator, X, y, **params):
    model = Estimator(**{"times": TIMES, "random_state": 0, **params})
    return model.fit(y) if Estimator is PrivateKaplanMeier else model.fit(X, y)


# ------------------------------------------------------------------------------ privacy


OUTCOMES = [
    (event, time) for event in (0.0, 1.0) for time in (0.0, 0.2, 0.5, 0.7, 1.0, 2.0, 2.1, 1e9)
]
ENTRIES = 0.0, 1e-12, 0.1, 0.5, 0.6, 1.9, 2.0, 2.05
LATER = [(*one, entry) for one in OUTCOMES for entry in ENTRIES if entry < max(one[1], 1e-300)]


@each("outcomes", [OUTCOMES, LATER])
def test_a_person_is_in_one_cell_of_a_table(monkeypatch, outcomes):
    """Brute force: tables of neighbours, as they are just before noise is drawn."""
    delayed = len(outcomes[0]) == 3
    seen = []
    monkeypatch.setattr(
        counts_module,
        "gaussian_mechanism",
        lambda rng, values, grid: seen.append(values.copy()) or deviation_on(grid),
    )
    plan, rest = plan_life_table(TIMES, 4, 0.1, delayed), [(1.0, 0.3), (0.0, 1.2), (1.0, 1.5)]
    for outcome in outcomes:
        y = [outcome, *((*one, 0.0)[: len(outcome)] for one in rest)]
        records, found = signed_times(np.array(y), TIMES)
        assert found == delayed
        plan.counts(records, None)
    tables, ends = np.array(seen), 2 * len(TIMES) + 1
    parts = tables[:, :ends], tables[:, ends:]
    assert [part.sum(axis=1).tolist() for part in parts] == [
        [4.0] * len(outcomes),
        [4.0 * delayed] * len(outcomes),
    ]
    most = math.sqrt(2.0)
    for part in parts if delayed else parts[:1]:
        assert np.linalg.norm(part[:, None] - part[None], axis=2).max() == most
    changes = np.linalg.norm(tables[:, None] - tables[None], axis=2)
    most = 2.0 if delayed else most
    assert changes.max() == most
    # The deviation is the planned multiple of that change, and no less; rounding adds little.
    assert isinstance(plan.event, GaussianEvent)
    deviation = deviation_on(plan.grid)
    assert most <= deviation / plan.event.noise_multiplier < most * 1.001


@pytest.mark.parametrize("n_times", [1, 4, 1000])
def test_noise_does_not_grow_with_follow_up(n_times):
    """The table's noise is that of one cell per person, and the solver's that of one record."""
    times = np.linspace(0.0, 2.0, n_times + 1)[1:]
    plan = plan_life_table(times, 10_000, 0.01)
    assert deviation_on(plan.grid) == pytest.approx(math.sqrt(2.0) / math.sqrt(0.02), rel=1e-3)
    X, y = people(500)
    (few, many) = (
        fitted(PrivateSurvivalRegressor, X, y, times=t, epsilon=5.0).privacy_.event
        for t in (TIMES, times)
    )
    assert list(leaves(few)) == list(leaves(many))


def test_a_gradient_is_clipped_as_a_whole():
    """Brute force: one person's sum of clipped gradients, whenever it was seen first and last."""
    loss, bound = ProportionalHazards(6.0, 0.5), 0.3
    baseline = Baseline(TIMES, 3.0 * TIMES, 0.5)
    norms = []
    for x in (-1.0, 0.0, 1.0):
        for outcome in OUTCOMES + LATER:
            t = baseline.apply(signed_times(np.array([outcome]), TIMES)[0])
            assert -EXPOSED - 1e-12 <= t[0] <= 1.0
            X = as_design(np.array([[x, 1.0]]), np.ones(2), True)
            for w in (np.zeros(3), np.array([3.0, 1.0, 2.0]), np.array([-3.0, -1.0, -2.0])):
                gradient = clipped_gradient_sum(X, t, loss, w, np.ones(3), bound)
                norms.append(np.linalg.norm(gradient))
    assert 0.999 * bound < max(norms) <= bound * (1.0 + 1e-12)


@each("Estimator", BOTH)
def test_a_fit_costs_its_budget_as_planned_without_data_and_is_charged_once(Estimator):
    X, y = people(400)
    planned = plan(Estimator(times=TIMES, epsilon=0.6), 400, 2 + (Estimator is not BOTH[0]))
    assert planned.event == fitted(Estimator, *late(400), epsilon=0.6).privacy_.event
    ledger = Ledger(1.0, 1e-6)
    model = fitted(Estimator, X, y, ledger=ledger, epsilon=0.6)
    (name,) = ledger.history()["estimator"]
    assert name == Estimator.__name__
    assert rho_of(model.privacy_.event) <= model._budget().rho * (1.0 + 1e-9)
    alone = fitted(Estimator, X, y, epsilon=0.6)
    assert planned.event == alone.privacy_.event
    assert mu_of(alone.privacy_.event) == pytest.approx(alone._budget().mu, rel=1e-6)
    assert any("events" in step.name for step in alone.privacy_.steps)
    assert sum(step.share for step in alone.privacy_.steps) == pytest.approx(1.0)


# ------------------------------------------------------------------------------ input


def structured(y):
    out = np.empty(len(y), [("cens", "?"), ("time", "f8")])
    out["cens"], out["time"] = y.T
    return out


@each(
    "form",
    [
        structured,
        lambda y: pd.DataFrame({"event": y[:, 0] > 0, "time": y[:, 1]}),
        lambda y: pd.DataFrame({"time": y[:, 1], "event": y[:, 0] > 0}),
        lambda y: y.tolist(),
        lambda y: pa.table({"event": y[:, 0], "time": y[:, 1]}),
        lambda y: pa.table({"time": y[:, 1], "event": y[:, 0] > 0}).to_batches()[0],
        lambda y: pl.DataFrame({"event": y[:, 0] > 0, "time": y[:, 1]}),
    ],
)
def test_forms_of_outcomes(form):
    _, y = people(50)
    event, time, entry = check_outcomes(form(y))
    assert_array_equal(event, y[:, 0] == 1.0)
    assert_array_equal(time, y[:, 1])
    assert entry is None


@each("names", [["event", "time", "entry"], ["time", "event", "entry"]])
def test_forms_of_entries(names):
    y = late(50)[1]
    frame = pd.DataFrame(y, columns=["event", "time", "entry"]).astype({"event": bool})[names]
    for form in (frame, frame.to_records(index=False), y.tolist()):
        event, time, entry = check_outcomes(form)
        assert_array_equal(np.column_stack([event, time, entry]), y)


DATES = [
    np.array([1, 2], dtype="m8[D]"),
    np.array([1, 2], dtype="M8[D]"),
    np.array([np.timedelta64(1), np.timedelta64(2)], dtype=object),
]


def bad(y, row, column, number):
    y = y.copy()
    y[row, column] = number
    return y


@each("Estimator", BOTH)
def test_bad_input_is_named_before_the_charge(Estimator):
    X, y = people(100)
    frame = pd.DataFrame(y, columns=["event", "time"])
    cases = [
        ({"times": None}, y, "times must be declared"),
        ({"times": []}, y, "times must be"),
        ({"times": [1.0, 1.0]}, y, "times must be"),
        ({"times": [0.0, 1.0]}, y, "times must be"),
        ({"times": [1.0, math.inf]}, y, "times must be"),
        *(({"times": list(dates)}, y, "times must be") for dates in DATES),
        *(({}, frame.assign(time=dates.repeat(50)), "must be finite") for dates in DATES),
        ({"times": [1e-200, 2e-200, 3e-200]}, late(100)[1], "times must be a list of increasing"),
        ({}, bad(y, 3, 1, -987.5), "time must be >= 0"),
        ({}, bad(y, 3, 1, math.nan), "must be finite numbers"),
        ({}, bad(y, 3, 0, 2.0), "event must be 0 or 1"),
        ({}, y[:, ::-1], "event must be 0 or 1"),
        ({}, y[:, 1], "must be a structured array"),
        ({}, np.column_stack([y, y]), "must be a structured array"),
        ({}, np.column_stack([y, y[:, 1]]), "entry must be 0, or > 0 and < time"),
        ({}, np.column_stack([y, np.full(100, -987.5)]), "entry must be 0, or > 0 and < time"),
        ({}, np.column_stack([y, np.full(100, math.nan)]), "must be finite numbers"),
        ({}, [["a", "b"]] * 100, "must be finite numbers"),
    ]
    for params, outcomes, match in cases:
        given = (outcomes,) if Estimator is PrivateKaplanMeier else (X, outcomes)
        said = costs_nothing(Estimator(**{"times": TIMES, **params}), match, *given)
        assert "987" not in said


@each("Estimator", BOTH)
def test_data_without_events_fit_like_others(Estimator):
    """An error would tell that there is none."""
    X, y = people(300)
    y[:, 0] = 0.0
    model = fitted(Estimator, X, y)
    assert np.isfinite(model.counts_.table.survival).all()
    y = np.column_stack([np.ones(300), np.full(300, 0.1)])  # and where all have one at once
    assert np.isfinite(fitted(Estimator, X, y).counts_.table.cumulative_hazard).all()


def test_a_release_without_events_is_doubted():
    X, y = people(2000)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        fitted(PrivateSurvivalRegressor, X, y, feature_bound=2.0)
    y[:, 0] = 0.0
    with pytest.warns(UtilityWarning, match="number of events cannot be told from its noise"):
        fitted(PrivateSurvivalRegressor, X, y, feature_bound=2.0)


SIGNS = np.random.default_rng(0).choice([-1.0, 1.0], (4000, 60))


def warned(epsilon=1.0, **params):
    """Utility warnings of a fit, and what it has released."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UtilityWarning)
        model = fitted(PrivateSurvivalRegressor, feature_bound=1.0, epsilon=epsilon, **params)
    return [str(one.message) for one in caught if one.category is UtilityWarning], model


def test_too_few_events_are_told_by_released_counts_alone():
    """Where the true number is at the limit, the released one decides, in every fit."""
    X, y = SIGNS[:, :30], np.column_stack([np.zeros(4000), np.full(4000, 3.0)])
    limit = 5.0 * math.sqrt(30) / Budget(1.0, 1e-6).mu
    y[: round(limit), :2] = 1.0, 0.2
    found = []
    for seed in range(20):
        lines, model = warned(X=X, y=y, times=[0.5, 1.0], random_state=seed)
        events = model.counts_.table.events.sum()
        found.append(bool(lines))
        assert found[-1] == (events < limit)
        assert not lines or f"about {events:.0f} events can say about 30 features" in lines[0]
    assert set(found) == {False, True}


@each("more", [{"epsilon": 3.0}, {"X": SIGNS[:, :3]}])
def test_what_a_warning_of_few_events_advises_helps(more):
    y = np.column_stack([np.arange(4000) % 40 == 0, np.full(4000, 0.2)])
    given = {"X": SIGNS, "y": y, "times": [0.5]}
    (line,) = warned(**given)[0]
    assert "larger epsilon, a later horizon or fewer features" in line
    assert warned(**given | more)[0] == []


def test_records_too_few_for_the_features_are_told_before_any_event_is_read():
    """From public numbers: `plan` says it, too, which sees no data."""
    model = PrivateSurvivalRegressor(times=TIMES, feature_bound=1.0)
    (line,) = plan(model, 100, 60).warnings
    assert "larger than what 100 records say about 60 features" in line
    assert line in warned(X=SIGNS[:100], y=people(100)[1])[0]
    assert plan(model, 1000, 60).warnings == ()


# ------------------------------------------------------------------------------ curves


def test_the_table_is_that_of_kaplan_and_meier():
    """With hardly any noise, and where nobody is censored before the horizon."""
    time = np.random.default_rng(1).exponential(size=5000)
    y = np.column_stack([time <= 2.0, np.minimum(time, 2.0)])
    model = fitted(PrivateKaplanMeier, None, y, epsilon=1e4)
    curve = [float((time > end).mean()) for end in TIMES]
    assert_allclose(model.survival_, curve, atol=1e-3)
    assert_allclose(model.cumulative_hazard_, -np.log(curve), atol=5e-3)


def test_people_are_at_risk_after_their_entry():
    """With hardly any noise: the curve of all people, and not of those who were seen."""
    y = late(50_000, slope=0.0)[1]
    table = fitted(PrivateKaplanMeier, None, y, epsilon=1e4).counts_.table
    at_risk = [((y[:, 2] < start) & (y[:, 1] >= start)).sum() for start in TIMES[:-1]]
    assert_allclose(table.at_risk, [(y[:, 2] == 0.0).sum(), *at_risk], atol=1.0)
    assert_allclose(table.survival, np.exp(-TIMES), atol=0.02)
    naive = fitted(PrivateKaplanMeier, None, y[:, :2], epsilon=1e4)
    assert abs(naive.survival_ - np.exp(-TIMES)).max() > 0.05


def test_entries_may_be_uneven_and_hazards_rise_within_intervals():
    """Nine of ten enter late; with hazards that are taken as constant the error is .03."""
    rng = np.random.default_rng(5)
    n = 1_000_000
    time, censored = rng.weibull(1.3, n), rng.uniform(0.0, 4.0, n)
    entry = rng.uniform(0.0, 2.0, n) * (rng.random(n) < 0.9)
    y = np.column_stack([time <= censored, np.minimum(time, censored), entry])
    model = fitted(PrivateKaplanMeier, None, y[entry < y[:, 1]], epsilon=1e4)
    assert_allclose(model.survival_, np.exp(-(TIMES**1.3)), atol=0.005)


@each("Estimator", BOTH)
def test_entries_at_0_change_nothing_but_noise(Estimator):
    X, y = people(2000)
    with_entries = fitted(Estimator, X, np.column_stack([y, np.zeros(len(y))]), epsilon=1e4)
    counts, plain = with_entries.counts_, fitted(Estimator, X, y, epsilon=1e4).counts_
    assert_allclose(counts.entries, [2000.0, *[0.0] * 5], atol=1.0)
    assert_allclose(counts.table.survival, plain.table.survival, atol=1e-3)
    assert counts.noise == pytest.approx(math.sqrt(2.0) * plain.noise, rel=1e-3)


def test_curves_are_consistent():
    for seed in range(20):
        y = (people, late)[seed % 2](60, seed)[1]
        model = fitted(PrivateKaplanMeier, None, y, epsilon=0.3, random_state=seed)
        table = model.counts_.table
        assert min(map(np.min, table)) >= 0.0
        assert (np.diff(model.survival_) <= 0.0).all()
        assert (np.diff(model.cumulative_hazard_) >= 0.0).all()
        for band, sign in ((model.survival_band(), -1), (model.cumulative_hazard_band(), 1)):
            assert (band[0] <= band[1]).all()
            assert (sign * np.diff(band) >= 0.0).all()
        assert (model.survival_band() >= 0.0).all()
        assert (model.survival_band() <= 1.0).all()


@each("delayed", [False, True])
@pytest.mark.parametrize(("n", "epsilon"), [(500, 1.0), (5000, 0.1), (5000, 10.0)])
def test_bands_hold_the_curve(n, epsilon, delayed):
    """At least .93 of the bands of level .95, less 4.5 standard deviations of this experiment."""
    held, rounds = 0, 100
    truth = np.exp(-TIMES)
    for seed in range(rounds):
        y = (late if delayed else people)(n, 1000 + seed, 0.0)[1]
        model = fitted(PrivateKaplanMeier, None, y, epsilon=epsilon, random_state=seed)
        low, high = model.survival_band()
        held += ((low <= truth) & (truth <= high)).all()
    assert held >= 0.93 * rounds - 4.5 * math.sqrt(0.93 * 0.07 * rounds)


# ------------------------------------------------------------------------------ regression


def test_the_loss_is_the_likelihood_of_a_person():
    """The sum over intervals with constant hazards, up to a constant."""
    hazards, widths = np.array([0.3, 1.0, 0.5]), np.array([1.0, 0.5, 2.0])
    most = float(hazards @ widths)
    loss = ProportionalHazards(most, 0.4)
    for last, seen in ((0, 0.4), (1, 0.2), (2, 2.0)):
        spent = np.where(np.arange(3) < last, widths, 0.0)
        spent[last] = seen
        for event in (0.0, 1.0):
            t = event - EXPOSED * float(hazards @ spent) / most

            def likelihood(z, spent=spent, event=event, last=last):
                terms = spent * hazards * math.exp(z)
                return float(terms.sum()) - event * (math.log(hazards[last]) + z)

            for z in (-1.0, 0.3):
                change = value(loss, z, t) - value(loss, 0.0, t)
                assert change == pytest.approx(likelihood(z) - likelihood(0.0))
                slope = float(hazards @ spent) * math.exp(z) - event
                assert derivative(loss, z, t) == pytest.approx(slope)


def test_a_fit_finds_the_hazard_ratio():
    X, y = people(20_000, slope=0.7)
    model = fitted(PrivateSurvivalRegressor, X, y, epsilon=5.0)
    assert_allclose(model.coef_, [0.7, 0.0, 0.0], atol=0.12)
    assert abs(model.intercept_) < 0.2
    survival = model.predict_survival_function(np.zeros((1, 3)))[0]
    assert_allclose(survival, np.exp(-TIMES), atol=0.05)
    at = model.predict_cumulative_hazard_function(X[:4], [0.0, 0.25, 2.0])
    assert_array_equal(at[:, 0], 0.0)
    assert_allclose(at[:, 2], -np.log(model.predict_survival_function(X[:4]))[:, -1])
    assert model.score(X, y) > 0.6
    with pytest.raises(ValueError, match="same number of records, got 20000 and 100"):
        model.score(X, y[:100])
    for times in ([3.0], 1.0):
        with pytest.raises(ValueError, match="times must be a list of numbers in"):
            model.predict_survival_function(X[:4], times)


def test_terms_begin_at_entry():
    X, y = late(20_000, slope=0.7)
    model = fitted(PrivateSurvivalRegressor, X, y, epsilon=5.0)
    assert_allclose(model.coef_, [0.7, 0.0, 0.0], atol=0.12)
    assert_allclose(model.predict_survival_function(np.zeros((1, 3)))[0], np.exp(-TIMES), atol=0.05)
    naive = fitted(PrivateSurvivalRegressor, X, y[:, :2], epsilon=5.0)
    assert naive.predict_survival_function(np.zeros((1, 3)))[0, 1] > math.exp(-1.0) + 0.05


def test_the_hazard_of_people_with_the_same_risk():
    """Normal logarithms of risks, of which those who are highest leave first."""
    z, weights = np.polynomial.hermite_e.hermegauss(60)
    for spread in (0.2, 0.6, 1.0):
        own = np.geomspace(1e-3, 30.0, 2000)
        risks = np.exp(math.sqrt(spread) * z - spread / 2)
        all_people = -np.log(np.exp(-own[:, None] * risks) @ weights / weights.sum())
        baseline = Baseline(np.arange(1.0, 41.0), np.linspace(0.05, 2.0, 40), 0.5)
        ratio = baseline.for_risks(spread) / np.interp(baseline.cumulative, all_people, own)
        before = baseline.cumulative / np.interp(baseline.cumulative, all_people, own)
        assert np.std(np.log(ratio)) < 0.05 < np.std(np.log(before))
        loss = ProportionalHazards(2.0, 0.5, spread, baseline.usual)
        for mean, own_mean in zip(baseline.cumulative, baseline.for_risks(spread), strict=True):
            t = -EXPOSED * mean / 2.0
            assert derivative(loss, 0.0, t) == pytest.approx(min(own_mean, 4.0))
    assert_array_equal(baseline.for_risks(0.0), baseline.cumulative)


@each("delayed", [False, True])
def test_intervals_hold_log_hazard_ratios(delayed):
    """Two of three people have the event, so that without the correction many miss the first."""
    covered, rounds = np.zeros(3), 60
    for seed in range(rounds):
        X, y = (late if delayed else people)(5000, 2000 + seed, 1.0)
        model = fitted(
            PrivateSurvivalRegressor,
            X,
            y,
            **{"epsilon": 3.0, "alpha": 0.0, "feature_bound": 1.0, "random_state": seed},
            standard_errors=True,
        )
        low, high = model.confint().T
        covered += (low <= [1.0, 0.0, 0.0]) & (high >= [1.0, 0.0, 0.0])
    assert model.coef_standard_error_.max() < 0.08
    # At least .93 of the intervals, less 3.5 standard deviations of this experiment.
    assert covered.min() >= 0.93 * rounds - 3.5 * math.sqrt(0.93 * 0.07 * rounds)


def test_a_fit_with_standard_errors_predicts_the_curve():
    X, y = people(50_000)
    model = fitted(PrivateSurvivalRegressor, X, y, epsilon=5.0, alpha=0.0, standard_errors=True)
    survival = model.predict_survival_function(np.array([[0.0, 0, 0], [0.8, 0, 0]]))
    risks = np.exp([[0.0], [0.8]])
    assert_allclose(survival, np.exp(-TIMES * risks), atol=0.025)
    assert model.summary()["name"].tolist() == ["x0", "x1", "x2", "intercept"]
    assert mu_of(model.privacy_.event) == pytest.approx(model._budget().mu, rel=1e-6)
    with pytest.raises(AttributeError, match="has no standard errors"):
        fitted(PrivateSurvivalRegressor, X[:500], y[:500]).confint()


@each("columns", [["event", "time"], ["time", "event"], None])
@each("knots", ["uniform", "quantile"])
def test_effects_are_curves_in_one_pipeline_under_one_budget(knots, columns):
    """A schema without a target, as outcomes are two columns beside the table."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(20.0, 90.0, 6000), "sex": rng.choice([*"FM"], 6000)})
    risk = ((table["age"] - 55.0) / 20.0) ** 2 + (table["sex"] == "M")
    y = np.column_stack([np.ones(6000), rng.exponential(np.exp(1.0 - risk))])
    y[y[:, 1] > 2.0] = 0.0, 2.0
    if columns is not None:
        y = pd.DataFrame(y, columns=["event", "time"]).astype({"event": bool})[columns]
    schema = Schema({"age": {"bounds": [20, 90]}, "sex": [*"FM"]})
    ledger = Ledger(2.0, 1e-6)
    steps = (
        PrivateSplineTransformer(knots=knots, epsilon=0.5, random_state=0),
        PrivateSurvivalRegressor(times=TIMES, feature_bound=1.0, random_state=0),
    )
    model = make_private_pipeline(schema, *steps, epsilon=1.5, ledger=ledger).fit(table, y)
    line = make_private_pipeline(schema, steps[1], epsilon=1.5).fit(table, y)
    assert model.score(table, y) > line.score(table, y) + 0.05
    spent = [charge.rho for charge in ledger.charges() if charge.rho]
    assert len(spent) == 1 + (knots == "quantile")
    assert 0.999 < sum(spent) / Budget(1.5, 1e-6).rho < 1.3
    X = model[:-1].transform(table[:3])
    assert_array_equal(
        model.predict_survival_function(table[:3], [0.3]),
        model[-1].predict_survival_function(X, [0.3]),
    )
    alone = make_private_pipeline(steps[1]).fit(X := np.zeros((100, 2)), y[:100])
    assert alone.predict_survival_function(X).shape == (100, 4)
    assert not hasattr(make_private_pipeline(PrivateRidge()), "predict_survival_function")
    at = pd.DataFrame({"age": [20.0, 55.0, 90.0], "sex": "F"})
    low, least, high = model.predict(at)  # the curve of a column, up to a constant
    assert min(low, high) - least > 1.5


def test_concordance_counts_pairs():
    rng = np.random.default_rng(3)
    for k in range(40):
        n = 30
        event, time = rng.random(n) < 0.6, rng.integers(0, 8, n).astype(float)
        entry = np.floor(rng.random(n) * time) if k % 2 else np.zeros(n)
        risk = rng.integers(0, 5, n).astype(float)
        agreeing, pairs = 0.0, 0
        for i in range(n):
            for j in range(n):
                later = time[j] > time[i] or (time[j] == time[i] and not event[j])
                if event[i] and i != j and later and (entry[j] < time[i] or entry[j] == 0.0):
                    pairs += 1
                    agreeing += 1.0 if risk[i] > risk[j] else 0.5 * (risk[i] == risk[j])
        given = entry if k % 2 else None
        assert concordance(event, time, risk, given) == pytest.approx(agreeing / pairs)
    assert math.isnan(concordance(np.zeros(3, bool), np.arange(3.0), np.arange(3.0)))


# ------------------------------------------------------------------------------ plans and plots


def test_what_is_plotted():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    X, y = people(1000)
    curve, model = (fitted(Estimator, X, y) for Estimator in BOTH)
    display = SurvivalDisplay.from_estimator(curve, color="C3")
    assert_array_equal(display.lines_[0].get_ydata(), [1.0, *curve.survival_])
    assert display.band_ is not None
    display = SurvivalDisplay.from_estimator(model, X[:2], names=["one", "two"], ax=display.ax_)
    assert [line.get_label() for line in display.lines_] == ["one", "two"]
    assert_array_equal(display.lines_[1].get_xdata(), [0.0, *TIMES])
    for estimator, given in ((curve, X), (model, None), (object(), None)):
        with pytest.raises(TypeError, match=r"X must be given|estimator must be"):
            SurvivalDisplay.from_estimator(estimator, given)
    matplotlib.pyplot.close("all")


@pytest.mark.filterwarnings("error")
@each(
    "times", [[1e-100, 2e-100, 3e-100], [1e-100, 2e-100, 1e100], [1e-100, np.nextafter(1e-100, 1)]]
)
def test_a_fit_with_extreme_times_does_not_fail_after_its_charge(times):
    """Squares of widths, and slopes over them, may be far beyond 1."""
    X, y = late(300)
    rng = np.random.default_rng(0)
    y[:, 1:] *= rng.choice(times, (300, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        warnings.simplefilter("ignore", PrivacyWarning)
        for Estimator in BOTH:
            model = fitted(Estimator, X, y, times=times, epsilon=3.0)
            table = life_table(model.counts_.cells, 300, model.unique_times_, model.counts_.entries)
            assert all(np.isfinite(part).all() for part in table)
        assert np.isfinite(model.coef_).all()


def test_nothing_in_a_table_is_negative():
    """Noisy counts of more people than there are leave nobody at risk."""
    table = life_table(np.array([80.0, 0.0, 90.0, 0.0, -70.0]), 100, TIMES[:2])
    assert all((part >= 0.0).all() for part in table)
