"""The count that tells raw columns from scaled ones: what it may change by, and what follows."""

import itertools
import math

import numpy as np
import pytest
from recorded_releases import RecordedReleases
from scipy import sparse

from skdpsco import (
    PrivateGroupDRO,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearDiscriminantAnalysis,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMinimaxClassifier,
    PrivateMinimaxRegressor,
    PrivateMoments,
    PrivateMonotoneGLM,
    PrivateRidge,
    UtilityWarning,
)
from skdpsco.data.design import as_design
from skdpsco.inspection import plan
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.preprocessing import PrivatePCA
from skdpsco.privacy import (
    Budget,
    ExponentialMechanismEvent,
    GaussianEvent,
    NoOpEvent,
    SamplerErrorEvent,
    ZCDPEvent,
    compose,
    delta_of,
    epsilon_of,
    mu_of,
    rho_of,
)
from skdpsco.privacy.spending import worst_of
from skdpsco.scaling import raw_columns
from skdpsco.scaling.raw_columns import RAW, plan_raw_test
from skdpsco.solvers import Allowance

LAYOUTS = {
    "dense": np.array,
    "single": lambda rows: np.array(rows, np.float32),
    "sparse": lambda rows: sparse.csr_matrix(np.array(rows)),
}
LIMIT = 2.0 * math.sqrt(2.0)  # of an entry beside one that is 0
RECORDS = [(0.0, 0.0), (LIMIT * 1.01, 0.0), (LIMIT * 0.99, 0.0), (2.0, -2.0), (-3.0, 3.0)]
RECORDS += [(1e308, 1e308), (0.0, 1e-300)]


class Counts(RecordedReleases):
    """Releases of the count."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch, raw_columns)

    def run(self, test, rows, layout, seed=0):
        self.begin(None)
        X = as_design(LAYOUTS[layout](rows), np.ones(2), True)
        test.release(X, np.zeros(len(rows)), np.random.default_rng(seed))
        return self.units[0][0]


def planned(n, sees_all=True, added=False):
    left, scales = Allowance(1e4), {"finds_scales": True}
    return plan_raw_test(n, 2, left, added=added, sees_all=sees_all, **scales)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("added", [False, True])
def test_a_record_changes_the_count_by_what_is_charged(monkeypatch, layout, added):
    """Brute force: every record at every place, replaced by every other one, or taken away."""
    with np.errstate(over="ignore"):
        counts, test, changes = Counts(monkeypatch), planned(5, added=added), []
        rest = RECORDS[2:6]
        for place in range(5):
            tables = [[*rest[:place], record, *rest[place:]] for record in RECORDS]
            tables += [rest] if added else []
            found = [counts.run(test, rows, layout) for rows in tables]
            changes += [abs(a - b) for a, b in itertools.combinations(found, 2)]
    allowed = mu_of(test.event) * math.sqrt(4.0**SCALE_BITS - 16)
    assert 0.9 < max(changes) / allowed <= 1.0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_raw_records_are_those_of_large_mean_squares(layout):
    with np.errstate(over="ignore"):
        X = as_design(LAYOUTS[layout](RECORDS), np.ones(2), True)
    for rows in (None, np.array([1, 4, 5])):
        assert raw_columns.raw_records(X, np.zeros(7), 2, rows) == [3.0]
    # Columns behind the features are targets.
    assert raw_columns.raw_records(X, np.zeros(7), 1, None) == [4.0]
    assert raw_columns.raw_records(X, np.zeros(7), 1, np.array([3])) == [0.0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_record_with_one_large_entry_is_raw(layout):
    rows = np.zeros((3, 40))
    rows[0, 39], rows[1, 0], rows[2, 7] = 6.1, -6.1, 5.9
    X = as_design(LAYOUTS[layout](rows), np.ones(40), True)
    assert raw_columns.raw_records(X, np.zeros(3), 40, None) == [2.0]
    assert raw_columns.raw_records(X, np.zeros(3), 39, None) == [1.0]


def test_drawn_records_differ_and_are_any(monkeypatch):
    """Each record is looked at as often as others, and never twice."""
    monkeypatch.setattr(raw_columns, "RAW", RAW._replace(least=2, least_n_mu=1.0, least_share=0.5))
    counts, test = Counts(monkeypatch), planned(6, sees_all=False)
    assert (test.n_seen, mu_of(test.event)) == (2, pytest.approx(4.0))
    one = [[9.0, 9.0] if i == 5 else [0.0, 0.0] for i in range(6)]
    unit = counts.run(planned(6), [[9.0, 9.0]] * 6, "dense") / 6 * mu_of(test.event)
    unit /= mu_of(planned(6).event)
    seen = np.array([round(counts.run(test, one, "dense", k) / unit) for k in range(600)])
    assert set(seen) == {0, 1}
    assert abs(seen.mean() - 1 / 3) < 5 * math.sqrt(2 / 9 / 600)


def test_plan_of_the_count():
    for n, epsilon in itertools.product((1000, 10_000, 10**6), (0.3, 1.0, 30.0)):
        budget = Budget(epsilon, 1e-6)
        test = plan_raw_test(n, 10, budget, added=False, sees_all=False, finds_scales=True)
        if n * budget.mu < 40.0:
            assert test.event == NoOpEvent()
            continue
        assert test.n_seen == n or n > 2 * test.n_seen >= 4096
        n_mu = n * budget.mu
        share = min(max(0.5 * 40.0**2 * 10.0 / n_mu**2, 40.0 / n_mu, 0.02), 0.5)
        assert test.share == pytest.approx(share)
        assert mu_of(test.event) == pytest.approx(4.0 / (share * test.n_seen))
        assert test.spent == pytest.approx((mu_of(test.event) / budget.mu) ** 2)
        assert test.spent <= 0.041
        assert test.left.mu == pytest.approx(budget.mu * math.sqrt(1.0 - test.spent))
        assert test.bound == (3.0 if n * budget.mu >= 20.0 * math.sqrt(10.0) else 1.0)
        whole = plan_raw_test(n, 10, budget, added=True, sees_all=True, finds_scales=False)
        assert (whole.n_seen, whole.share, whole.bound) == (n, 0.5, 1.0)


@pytest.mark.parametrize("name", ["half of the records are raw", "counts hide large entries"])
def test_clipping_does_not_decide_by_chance(name):
    """R^2 was .52 or .78, as noise would have it, and .2: columns were clipped to +-3 and +-1."""
    rng = np.random.default_rng(0)
    if name == "half of the records are raw":
        X, epsilon, least = rng.poisson(rng.gamma(1.0, 2.0, (6000, 3))), 4.0, 0.7
    else:
        X, epsilon, least = rng.choice([0, 1, 8], (6000, 6), p=[0.6, 0.35, 0.05]), 2.0, 0.5
    z = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=X.shape[1])
    y = z + 0.5 * z.std() * rng.normal(size=len(z))
    for _ in range(4):
        model = PrivateRidge(epsilon=epsilon, delta=1e-6).fit(X[:2000], y[:2000])
        assert model.score(X[2000:], y[2000:]) > least


RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (2000, 4))
Y = X @ [1.0, 2.0, 0.0, 0.0] + 0.1 * RNG.normal(size=2000)
LABELS = (Y > 0.0).astype(int)


class InTwoGroups(PrivateGroupDRO):
    """Group DRO for groups that the order of the records tells."""

    def fit(self, X, y, sensitive_features=None):
        return super().fit(X, y, sensitive_features=np.arange(len(y)) % 2)


MODELS = {
    "ridge": (PrivateRidge, Y, {}),
    "several": (PrivateRidge, np.column_stack([Y, Y]), {"epsilon": 2.0}),
    "errors": (PrivateRidge, Y, {"standard_errors": True}),
    "lasso": (PrivateLasso, Y, {}),
    "logistic": (PrivateLogisticRegression, LABELS, {"classes": [0, 1]}),
    "l1": (PrivateLogisticL1, LABELS, {"classes": [0, 1]}),
    "added": (PrivateRidge, Y, {"relation": "add-or-remove-one"}),
    "discriminant": (
        PrivateLinearDiscriminantAnalysis,
        LABELS,
        {"classes": [0, 1], "epsilon": 2.0},
    ),
    "components": (PrivatePCA, None, {}),
    "ball": (PrivateLinearRegressor, Y, {}),
    "ball of classes": (PrivateLinearClassifier, LABELS, {"classes": [0, 1]}),
    "groups": (InTwoGroups, Y, {"loss": "squared", "groups": [0, 1], "epsilon": 4.0}),
    "groups of classes": (
        InTwoGroups,
        LABELS,
        {"classes": [0, 1], "groups": [0, 1], "epsilon": 4.0},
    ),
    "tasks": (PrivateMinimaxRegressor, Y, {}),
    "worst class": (PrivateMinimaxClassifier, LABELS, {"classes": [0, 1], "epsilon": 4.0}),
    "link": (PrivateMonotoneGLM, LABELS, {"epsilon": 8.0}),
    "identity": (PrivateMonotoneGLM, Y, {"link": "identity"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_raw_and_scaled_columns_cost_the_same(name):
    cls, y, params = MODELS[name]
    model = cls(**params)
    assert model.feature_bound == "auto"
    scaled = model.fit(X, y)
    assert (scaled.feature_bound_ == 3.0).all()
    said, cost = scaled.privacy_.assumptions, scaled.privacy_.event
    assert sum("columns are scaled" in line for line in said) == 1
    units = 10.0 ** np.arange(2, 6)
    raw = cls(**params).fit(X * units, y)
    assert (np.abs(np.log10(raw.feature_bound_ / units)) < 1.0).all()
    assert sum("columns are raw" in line for line in raw.privacy_.assumptions) == 1
    assert raw.privacy_.event == cost
    if y is None or y.ndim == 1:
        assert plan(cls(**params), *X.shape).event == cost
    if hasattr(raw, "score") and y is not None:
        assert raw.score(X * units, y) > scaled.score(X, y) - 0.05


def test_the_worst_of_two_costs_covers_both():
    """In both currencies: neither rho alone nor the Gaussian curve alone compares them."""
    noise, draw = GaussianEvent(2.0**-0.5), ExponentialMechanismEvent(2.53)
    worst = worst_of((noise, draw))
    assert worst == worst_of((draw, noise)) == ZCDPEvent(rho_of(noise))
    for delta, cost in itertools.product((1e-9, 1e-3, 0.1), (noise, draw)):
        assert epsilon_of(worst, delta) >= epsilon_of(cost, delta)
    assert worst_of((noise, GaussianEvent(9.0), ExponentialMechanismEvent(0.01))) == noise


def covers(curve, worst, costs):
    """Whether a cost is at least that of others at every epsilon, by a curve of delta."""
    epsilons = (0.01, 0.1, 0.5, 1.0, 2.0, 5.0)
    return all(curve(worst, e) >= curve(cost, e) for e in epsilons for cost in costs)


def test_a_third_currency_would_not_compare_costs():
    """The proof of claim 2: the accountant may use rho and mu only."""
    noise, draw = GaussianEvent(2.0), ExponentialMechanismEvent(1.0)
    assert worst_of((noise, draw)) == draw

    def by_three(event, epsilon):
        pure = event.epsilon0 if event == draw else math.inf
        return 0.0 if epsilon >= pure else delta_of(event, epsilon)

    assert covers(delta_of, draw, (noise, draw))
    assert not covers(by_three, draw, (noise, draw))


def test_the_worst_of_costs_with_errors_of_samplers():
    costs = [
        compose(ZCDPEvent(0.1), SamplerErrorEvent(1e-6, 1e-12)),
        compose(ZCDPEvent(0.2), SamplerErrorEvent(1e-9, 1e-10)),
        GaussianEvent(1.0),
    ]
    for some in itertools.permutations(costs, 2):
        assert covers(delta_of, worst_of(some), some)


def test_fits_that_cost_more_than_the_budget_are_not_planned(monkeypatch):
    """A linear model has the bound 1 then, and moments are refused."""
    monkeypatch.setattr(raw_columns, "worst_of", lambda events: ZCDPEvent(9.0))
    event = plan(PrivateHuberRegressor(), *X.shape).event
    assert 0.99 < epsilon_of(event, 1e-6) <= 1.0 + 1e-9
    with pytest.raises(ValueError, match="its budget is"):
        plan(PrivateMoments(), *X.shape)


def test_bounds_are_one_where_units_are_known():
    """A number in units of the bounds, a model to begin at, noise on samples, too few records."""
    moments = PrivateMoments(row_norm=1.0, target_bound=1.0).fit(100.0 * X, Y)
    assert (moments.moments_.feature_bounds == 1.0).all()
    several = np.column_stack([Y, -Y])
    for y in (Y, several):
        assert (PrivateLasso(radius=1.0).fit(100.0 * X, y).feature_bound_ == 1.0).all()
    assert (PrivateRidge().fit(100.0 * X[:50], Y[:50]).feature_bound_ == 1.0).all()
    first = PrivateRidge(feature_bound=1.0).fit(X, Y)
    assert (PrivateRidge().fit(100.0 * X, Y, init=first).feature_bound_ == 1.0).all()
    found = PrivateRidge().fit(100.0 * X, several)
    again = PrivateRidge().fit(100.0 * X, several, init=found)
    assert (again.feature_bound_ == found.feature_bound_).all()
    assert again.score(100.0 * X, several) > 0.9
    model = PrivateLogisticRegression(solver="sgd", classes=[0, 1], n_iter=10)
    assert (model.fit(100.0 * X, LABELS).feature_bound_ == 1.0).all()
    assert not any("columns are" in line for line in model.privacy_.assumptions)


def test_scaled_columns_are_wide_only_where_scales_are_found():
    for params, bound in (({"conditioning": None}, 1.0), ({"fit_intercept": False}, 3.0)):
        assert (PrivateRidge(**params).fit(X, Y).feature_bound_ == bound).all()
    moments = PrivateMoments(conditioning=None).fit(X, Y).moments_
    assert (moments.feature_bounds == 1.0).all()
    assert (PrivateMoments().fit(X, Y).moments_.feature_bounds == 3.0).all()


def test_where_there_is_no_plan_for_all_bounds_columns_are_scaled():
    """Coefficients of 1e97 in units of the smallest bound are out of range."""
    model = PrivateRidge(target_bound=1e95)
    assert (model.fit(X, Y).feature_bound_ == 1.0).all()
    with pytest.raises(ValueError, match="target_bound"):
        PrivateRidge(target_bound=1e95, feature_bound=None).fit(X, Y)


def test_scaled_columns_fill_their_range_where_noise_follows_from_it():
    """Those solvers lose more by a wide bound than by a clipped tail; raw columns are no worse."""
    for cls, y, params in (
        (PrivateMonotoneGLM, LABELS, {"solver": "mirror-prox"}),
        (PrivateMinimaxClassifier, LABELS, {"classes": [0, 1], "solver": "mirror-descent"}),
        (InTwoGroups, LABELS, {"classes": [0, 1], "groups": [0, 1], "solver": "mirror-prox"}),
        (PrivateLinearClassifier, LABELS, {"classes": [0, 1], "solver": "phased-sgd"}),
        (PrivateLinearRegressor, Y, {"solver": "tree-frank-wolfe"}),
        (PrivateLinearRegressor, Y, {"solver": "phased-erm"}),
    ):
        model = cls(epsilon=4.0, **params)
        assert (model.fit(X, y).feature_bound_ == 1.0).all()
        assert (model.fit(10.0 * X, y).feature_bound_ > 6.0).all()


@pytest.mark.parametrize("Model", [PrivateLinearClassifier, PrivateLinearRegressor])
def test_blocks_that_are_read_once_have_bounds_of_one(Model):
    """A second reading would be needed; the same holds for norms in units of the bounds."""
    params = {"classes": [0, 1]} if Model is PrivateLinearClassifier else {}
    blocks = [(100.0 * X, LABELS)]
    for records, given in (((blocks,), {"n_samples": len(X)}), ((X, LABELS), {"row_norm": 1.0})):
        with pytest.warns(UtilityWarning, match="finds no bounds of features"):
            model = Model(**params, **given).fit(*records)
        assert (model.feature_bound_ == 1.0).all()
        match = "feature_bound=None needs (X in memory|row_norm=None)"
        with pytest.raises(ValueError, match=match):
            Model(feature_bound=None, **params, **given).fit(*records)
