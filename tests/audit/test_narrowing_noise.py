"""Intervals of columns far from 0: what every count may change by, over neighbours, and its charge.

Counts are recorded in grid units just before noise is drawn, and releases are replayed, so that
later counts are made at the same points.
"""

import itertools
import math

import numpy as np
import pytest
from recorded_releases import RecordedReleases, largest_ratios

from skdpsco.data.design import as_design
from skdpsco.privacy import mu_of
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


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("added", [False, True])
def test_counts_change_by_what_is_charged(monkeypatch, d, added):
    counts, plan = Counts(monkeypatch), plan_narrowing(N, d, MU)
    records = [*itertools.product((-9.0, 9.0), repeat=d), (0.0,) * d, (1e300,) * d]
    records += [tuple(share * BOUNDS[:d]) for share in (0.1, 0.5, 0.9, 0.901, 0.93)]
    rest = [0.9 * BOUNDS[:d] * (1.0 + 1e-4 * shift) for shift in range(N - 1)]
    first = counts.run(plan, [records[-3], *rest])
    assert (first[1] < 1.0).all()
    outputs = counts.seen
    assert 1 < len(outputs) <= NARROWING.n_rounds
    tables = [[record, *rest] for record in records] + [rest] * added
    runs = []
    for table in tables:
        found = counts.run(plan, table, outputs)
        np.testing.assert_array_equal(found, first)  # releases decide everything
        runs.append(counts.units)
    charge = mu_of(plan.event) / math.sqrt(NARROWING.n_rounds)
    assert mu_of(plan.event) == pytest.approx(MU * math.sqrt(plan.share))
    ratios = largest_ratios(runs, [charge] * len(outputs))
    assert 0.9 < min(ratios) <= max(ratios) <= 1.0
