"""Intervals of columns far from 0: what every count may change by, over neighbours, and its charge.

Counts are recorded in grid units just before noise is drawn, and releases are replayed, so that
later counts are made at the same points.
"""

import itertools
import math

import numpy as np
import pytest
from recorded_releases import RecordedReleases

from skdpsco.data.design import as_design
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.privacy import mu_of, rho_of
from skdpsco.privacy.events import leaves
from skdpsco.scaling import narrowing as module
from skdpsco.scaling.narrowing import NARROWING, plan_narrowing

BOUNDS = np.array([1.0, 0.5, 2.0])
N, MU = 6, 100.0


class Counts(RecordedReleases):
    """Releases of counts."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch, module)

    def run(self, plan, rows, outputs=None):
        self.begin(outputs)
        X = as_design(np.array(rows), BOUNDS[: plan.n_features], True)
        return plan.release(X, np.zeros(len(rows)), np.random.default_rng(0))


def charges(plan, n_releases):
    """The mu of the first count, and of those that follow; together they are the plan's event."""
    (far,), (search,) = ([leaf] for leaf, _ in leaves(plan.event))
    each = 1.0 / search.noise_multiplier / math.sqrt(n_releases - 1)
    return [1.0 / far.noise_multiplier, *[each] * (n_releases - 1)]


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("added", [False, True])
def test_counts_change_by_what_is_charged(monkeypatch, d, added):
    counts, plan, largest = Counts(monkeypatch), plan_narrowing(N, d, MU), []
    records = [*itertools.product((-9.0, 9.0), repeat=d), (0.0,) * d, (1e300,) * d]
    records += [tuple(row) for row in 0.9 * BOUNDS[:d] * (1.0 + np.eye(d) * 1e-5)]
    records += [tuple(share * BOUNDS[:d]) for share in (0.1, 0.5, 0.901, 0.93)]
    rest = [0.9 * BOUNDS[:d] * (1.0 + 1e-4 * shift) for shift in range(N - 1)]
    first = counts.run(plan, [records[-2], *rest])
    assert (first[1] < 1.0).all()
    records.append(tuple(first[0] * BOUNDS[:d]))  # nearer to the medians than any limit
    outputs, n_releases = counts.seen, len(counts.seen)
    assert n_releases > 2 + NARROWING.n_widths + NARROWING.least_centres
    tables = [[record, *rest] for record in records] + [rest] * added
    runs = []
    for table in tables:
        found = counts.run(plan, table, outputs)
        np.testing.assert_array_equal(found, first)  # releases decide everything
        runs.append(counts.units)
    each = charges(plan, n_releases)
    assert math.hypot(*each) == pytest.approx(mu_of(plan.event))
    assert math.hypot(*each) == pytest.approx(MU * math.sqrt(plan.share))
    for k, charge in enumerate(each):
        units = np.array([run[k] for run in runs])
        change = max(np.linalg.norm(units - one, axis=1).max() for one in units)
        # The variance of discrete Gaussian noise counts 16 units less (docs/proofs/noise.md).
        largest.append(float(change / (charge * math.sqrt(4.0**SCALE_BITS - 16))))
    assert max(largest) <= 1.0
    assert min(largest) > 0.9  # each of them separates some records from others


@pytest.mark.parametrize("k", [1, 2, 5])
def test_searches_of_all_numbers_of_columns_cost_the_same(monkeypatch, k):
    """The number of counts follows from that of columns, which is released; never the cost."""
    drawn = []

    def add(rng, values, grid):
        drawn.append((len(values), grid))
        return grid * 2.0**SCALE_BITS

    monkeypatch.setattr(module, "gaussian_mechanism", add)
    n, d, mu = 1000, 5, 1.0
    plan, rng = plan_narrowing(n, d, mu), np.random.default_rng(0)
    rows = np.where(np.arange(d) < k, 0.9 + 1e-3 * rng.normal(size=(n, d)), 0.0)
    plan.release(as_design(rows, np.ones(d), True), np.zeros(n), rng)
    assert [size for size, _ in drawn] == [d] + [k] * (len(drawn) - 1)
    costs = [size / (2.0 * (grid * 2.0**SCALE_BITS) ** 2) for size, grid in drawn]
    charged = [rho_of(leaf) for leaf, _ in leaves(plan.event)]
    assert [costs[0], sum(costs[1:])] == pytest.approx(charged, rel=1e-4)
    assert sum(costs[1:]) <= charged[1]
