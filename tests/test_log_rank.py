"""The private comparison of groups by times to an event."""

import itertools
import math

import numpy as np
import pytest
from cases import costs_nothing, each
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2

from skdpsco.inspection import plan
from skdpsco.mechanisms.samplers import deviation_on
from skdpsco.privacy import mu_of
from skdpsco.survival import PrivateLogRank
from skdpsco.survival import _counts as counts_module
from skdpsco.survival._counts import plan_life_table
from skdpsco.survival._records import signed_times
from skdpsco.survival.log_rank import log_rank

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning"),
]

TIMES = np.array([0.5, 1.0, 1.5, 2.0])


def people(n, rng, ratio=1.0, *, n_groups=2, delayed=False):
    """Outcomes and groups, of which the second has a hazard of its own and leaves earlier."""
    group = rng.integers(n_groups, size=4 * n)
    time = rng.exponential(size=4 * n) / np.where(group == 1, ratio, 1.0)
    last = np.minimum(time, rng.uniform(0.0, np.where(group == 1, 3.0, 4.0)))
    entry = rng.uniform(0.0, 2.0, 4 * n) * (rng.random(4 * n) < 0.5) * delayed
    rows = np.flatnonzero(entry < last)[:n]
    y = np.column_stack([time <= last, last, entry])[rows]
    return y[:, : 2 + delayed], group[rows]


def fitted(y, group, **params):
    params = {"times": TIMES, "groups": range(2), "random_state": 0, **params}
    return PrivateLogRank(**params).fit(y, group)


@each("delayed", [False, True])
def test_a_person_is_in_the_tables_of_one_group(monkeypatch, delayed):
    """Brute force: tables of neighbours, as they are just before noise is drawn."""
    seen = []
    monkeypatch.setattr(
        counts_module,
        "gaussian_mechanism",
        lambda rng, values, grid: seen.append(values.copy()) or deviation_on(grid),
    )
    rest, group = [(1.0, 0.3, 0.0), (0.0, 1.2, 0.7), (1.0, 1.5, 0.0)], [0, 1, 1]
    outcomes = [(1.0, 0.2, 0.1), (1.0, 1.7, 1.6), (0.0, 0.5, 0.0), (0.0, 9.0, 0.0)]
    for outcome, mine in itertools.product(outcomes, range(3)):
        y = np.array([outcome, *rest])[:, : 2 + delayed]
        fitted(y, [mine, *group], groups=range(3))
    tables = np.array(seen)
    assert_array_equal(tables.sum(axis=1), 8.0 if delayed else 4.0)
    changes = np.linalg.norm(tables[:, None] - tables[None], axis=2)
    most = 2.0 if delayed else math.sqrt(2.0)
    assert changes.max() == most
    table = plan_life_table(TIMES, 4, 0.1, delayed, 3)
    assert most <= deviation_on(table.grid) / table.event.noise_multiplier < most * 1.001


def test_a_fit_is_planned_without_data():
    for delayed in (False, True):
        y, group = people(400, np.random.default_rng(0), delayed=delayed)
        made = plan(PrivateLogRank(times=TIMES, groups=["a", "b"]), 400, y.shape[1])
        model = fitted(y, group)
        assert made.event == model.privacy_.event
        assert mu_of(made.event) == pytest.approx(model._budget().mu, rel=1e-6)
    with pytest.raises(ValueError, match="groups must be declared"):
        plan(PrivateLogRank(times=TIMES), 400, 2)


def test_bad_input_is_named_before_the_charge():
    y, group = people(100, np.random.default_rng(0))
    cases = [
        ({"times": None}, group, "times must be declared"),
        ({"times": np.arange(1001) + 1.0}, group, "at least 1 and at most 1000"),
        ({"groups": None}, group, "groups must be declared"),
        ({"groups": [0]}, group, "at least two different labels"),
        ({"groups": [0, 1, 1]}, group, "at least two different labels"),
        ({"groups": ["a", "b"]}, group, "y contains a label that is not among groups"),
        ({}, np.where(np.arange(100) == 3, 987, group), "y contains a label that is not among"),
        ({}, np.where(np.arange(100) == 3, math.nan, group), "y must not contain missing labels"),
        ({}, group[1:], "same number of records, got 100 and 99"),
    ]
    for params, labels, match in cases:
        model = PrivateLogRank(**{"times": TIMES, "groups": [0, 1], **params})
        assert "987" not in costs_nothing(model, match, y, labels)


def test_without_noise_it_is_the_log_rank_test():
    """With many intervals, in each of which hardly anybody leaves."""
    rng = np.random.default_rng(1)
    y, group = people(3000, rng, ratio=1.1, n_groups=3)
    event, time = y[:, 0] == 1.0, y[:, 1]
    at_risk = np.array(
        [[((time >= t) & (group == g)).sum() for t in time[event]] for g in range(3)]
    )
    shares = at_risk / at_risk.sum(axis=0)
    expected = shares.sum(axis=1)
    observed = np.bincount(group[event], minlength=3)
    covariance = np.diag(expected) - shares @ shares.T
    U = (observed - expected)[:2]
    statistic = U @ np.linalg.solve(covariance[:2, :2], U)
    ends = np.linspace(0.0, 4.0, 3001)[1:]
    records = [signed_times(y[group == g], ends)[0] for g in range(3)]
    table = plan_life_table(ends, 3000, 1e12, False, 3)
    cells, noise = table.cells(records, np.random.default_rng(0))
    found = log_rank(cells, noise, 3000)
    assert_allclose(found[0], observed, rtol=0.01)
    assert_allclose(found[1], expected, rtol=0.01)
    assert found[2] == pytest.approx(statistic, rel=0.02)


def test_curves_are_those_of_the_groups():
    y, group = people(20_000, np.random.default_rng(2), ratio=2.0, delayed=True)
    model = fitted(y, np.array(["b", "a"])[group], groups=["b", "a"], epsilon=1e4)
    assert_allclose(model.survival_, [np.exp(-TIMES), np.exp(-2.0 * TIMES)], atol=0.03)
    assert model.observed_[1] > model.expected_[1]
    assert model.observed_.sum() == pytest.approx(model.expected_.sum())
    assert model.p_value_ == chi2.sf(model.statistic_, 1) < 1e-9


def test_noise_that_drowns_everything_proves_nothing():
    y, group = people(20, np.random.default_rng(3))
    for seed in range(30):
        model = fitted(y, group, epsilon=0.02, random_state=seed)
        assert 1e-4 < model.p_value_ <= 1.0
        assert np.isfinite(model.survival_).all()
    assert log_rank(np.full((2, 9), -5.0), 1.0, 4)[2] == 0.0


def rejected(ratio, epsilon, rounds, **params):
    """Share of p-values below .05, of 1,000 people."""
    rng, K = np.random.default_rng(4), len(TIMES)
    n_groups = params.get("n_groups", 2)
    delayed = params.get("delayed", False)
    model = PrivateLogRank(epsilon=epsilon)
    table = plan_life_table(TIMES, 1000, 0.5 * model._budget().mu ** 2, delayed, n_groups)
    found = 0
    for _ in range(rounds):
        y, group = people(1000, rng, ratio, **params)
        records, _ = signed_times(y, TIMES)
        cells, noise = table.cells([records[group == g] for g in range(n_groups)], rng)
        found += chi2.sf(log_rank(cells, noise, K)[2], n_groups - 1) < 0.05
    return found / rounds


@each(
    ("epsilon", "params"),
    [(0.5, {}), (2.0, {}), (0.5, {"delayed": True}), (2.0, {"n_groups": 3}), (1e4, {})],
)
def test_equal_hazards_seem_to_differ_in_one_of_twenty_fits(epsilon, params):
    """Between .03 and .07; the standard deviation of this experiment is .006 around .05."""
    assert 0.03 < rejected(1.0, epsilon, 1200, **params) < 0.07


@each(("epsilon", "power"), [(0.5, 0.45), (2.0, 0.95)])
def test_a_hazard_ratio_is_found(epsilon, power):
    """In about .55 and .99 of the fits, for a ratio of 1.5; their deviations are below .026."""
    assert rejected(1.5, epsilon, 400) > power
