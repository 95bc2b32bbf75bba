"""Levels of columns without bounds: what every release may change by, over neighbours.

Statistics are recorded in grid units just before noise is drawn, for data sets that differ in
one record. Releases are replayed, so that later releases are made at the same points.
"""

import itertools
import math

import numpy as np
import pytest
from recorded_releases import RecordedReleases, charges_of
from scipy import sparse

from skdpsco.data.design import as_design
from skdpsco.privacy import mu_of
from skdpsco.scaling import feature_bounds as module
from skdpsco.scaling import quantiles
from skdpsco.scaling.feature_bounds import FEATURE_BOUNDS, find_bounds, plan_bounds

N_MEANS = 5  # counts among 32 candidates


def planned(n, d, mu, added=False):
    plan = plan_bounds(n, d, 0.5 * mu * mu, added)
    assert set(plan.grids) - {"beyond"} == {"median", "filled", "norm", "levels"}
    return plan


def charges(plan, mu):
    """The mu of every release, in their order: together they are the plan's event."""
    tuning, (n, d) = FEATURE_BOUNDS, (plan.n_samples, plan.n_features)
    ratio = n * mu / math.sqrt(d) / tuning.level_ratio
    share = tuning.level_share * min(1.0, 1.0 / ratio)
    part, counts, rounds = tuning.other_share, tuning.n_norms, tuning.n_rounds
    each = [part / N_MEANS] * N_MEANS + [part]
    each += ([part / (rounds * counts)] * counts + [(1.0 - 3.0 * part) / rounds]) * rounds
    each = share * np.array(each)
    if "beyond" in plan.grids:
        deviation = math.sqrt(d / tuning.beyond_share) / (n * mu * tuning.least_beyond)
        each = np.append(each, tuning.beyond_share * min(deviation**2, 1.0))
    each = mu * np.sqrt(each)
    assert sorted(each) == pytest.approx(sorted(charges_of(plan.event)), rel=1e-9)
    assert mu_of(plan.event) == pytest.approx(np.linalg.norm(each))
    return each


@pytest.fixture
def releases(monkeypatch):
    """Levels at any size and budget."""
    monkeypatch.setattr(module, "FEATURE_BOUNDS", FEATURE_BOUNDS._replace(least_n_mu=0.0))
    return RecordedReleases(monkeypatch, module, quantiles)


def records_of(d):
    extremes = (0.0, 1e-300, -(2.0**63))
    return [*itertools.product(extremes, repeat=d), (0.7,) * d, (1e308, -0.01, 3.0)[:d]]


def ratios_of(releases, plan, mu, data_sets, is_sparse=False, target=False):
    """The largest change of every release, in units of what its charge allows."""

    def run(rows):
        rows = np.array(rows)
        d = rows.shape[1] - target
        X, y = rows[:, :d], rows[:, -1] if target else np.zeros(len(rows))
        X = as_design(sparse.csr_matrix(X) if is_sparse else X, np.ones(d), True)
        unknown = np.ones(d + target, dtype=bool)
        return find_bounds(plan, X, y, unknown, np.random.default_rng(0))

    ratios = releases.ratios(run, data_sets, charges(plan, mu))
    assert max(ratios) <= 1.0
    return ratios


@pytest.mark.parametrize(
    ("n", "is_sparse", "target"), [(2, False, False), (6, True, False), (4, False, True)]
)
def test_releases_change_by_what_is_charged(releases, n, is_sparse, target):
    mu, largest = 200.0, []
    for d, shift in itertools.product((1, 2, 3), (1, 2)):
        if d == 1 and target:
            continue
        plan, records = planned(n, d, mu), records_of(d)
        rest = [records[(shift * i + 1) % len(records)] for i in range(n - 1)]
        sets = [[record, *rest] for record in records]
        largest.append(ratios_of(releases, plan, mu, sets, is_sparse, target))
    largest = np.max(largest, axis=0)
    sums = N_MEANS + 1 + FEATURE_BOUNDS.n_norms
    assert largest[:N_MEANS].max() > 0.9
    assert min(largest[N_MEANS], largest[sums], largest[-1]) > 0.9  # the last are those beyond


@pytest.mark.parametrize("is_sparse", [False, True])
def test_an_added_record_changes_what_is_charged(releases, is_sparse):
    """Brute force: every record at every place, against the table without it."""
    mu, largest = 200.0, []
    for d in (1, 2):
        plan, records = planned(5, d, mu, added=True), records_of(d)
        rest = [records[(3 * k + 1) % len(records)] for k in range(4)]
        for record, place in itertools.product(records, range(5)):
            sets = [rest, [*rest[:place], record, *rest[place:]]]
            largest.append(ratios_of(releases, plan, mu, sets, is_sparse))
    largest = np.max(largest, axis=0)
    assert largest[N_MEANS] > 0.9
    assert largest[N_MEANS + 1 + FEATURE_BOUNDS.n_norms] > 0.9


@pytest.mark.parametrize("d", [1, 3, 40])
def test_shortened_differences_keep_their_norm(d):
    """In extended precision: terms of the sums are at most d + 4 parts in 2**50 too long."""
    rng = np.random.default_rng(d)
    for c in (0.2, 3.0):
        for _ in range(20):
            row = 10.0 ** rng.uniform(-9, 9, (1, d)) * rng.integers(0, 2, (1, d))
            X, centre = as_design(row, np.ones(d), False), rng.uniform(-32, 63, d)
            term = module.level_sums(X, np.zeros(1), np.ones(d, bool), centre, c)
            assert np.sqrt(np.square(term.astype(np.longdouble)).sum()) <= 1 + (d + 4) * 2.0**-50


def test_levels_of_layouts_and_precisions_agree():
    """A level is the least power of two that covers an entry; zeros have none."""
    values = np.array([[0.0, 1.0, -2.0], [3.0, 2.0**-40, 1e30], [0.25, 0.0, -0.3]])
    expected = [[0, 0, 1], [2, -32, 63], [-2, 0, -1]]
    for rows in (values, values.astype(np.float32), sparse.csr_matrix(values)):
        for i in range(3):
            X = as_design(rows[[i]], np.ones(3), True)
            unknown = np.ones(3, dtype=bool)
            sums = module.level_sums(X, np.zeros(1), unknown, np.zeros(3), 100.0)
            assert sums * 100.0 == pytest.approx(expected[i], abs=1e-12)
            # Columns that have a bound count for nothing.
            unknown = np.array([False, True, False, True])
            sums = module.level_sums(X, np.array([8.0]), unknown, np.zeros(2), 100.0)
            assert sums * 100.0 == pytest.approx([expected[i][1], 3.0], abs=1e-12)


def test_entries_beyond_any_level_are_counted_alike_in_all_layouts():
    """Noise may move limits beyond all levels, and even beyond the integers that store them."""
    values, limits = np.array([[0.0, 1.0, 1e300, -2.0]]), np.array([-1e3, -65.0, 1e3, 0.0])
    for rows in (values, sparse.csr_matrix(values)):
        X, unknown = as_design(rows, np.ones(4), True), np.ones(4, dtype=bool)
        counts = module.entries_beyond(X, np.zeros(1), unknown, limits)
        np.testing.assert_array_equal(counts, [0, 1, 0, 1])
