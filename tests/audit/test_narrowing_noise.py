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
from skdpsco.privacy import mu_of
from skdpsco.scaling import narrowing as module
from skdpsco.scaling.narrowing import NARROWING, plan_narrowing

BOUNDS = np.array([1.0, 0.5, 2.0])
N, MU = 6, 100.0


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("added", [False, True])
def test_counts_change_by_what_is_charged(monkeypatch, d, added):
    counts, plan = RecordedReleases(monkeypatch, module), plan_narrowing(N, d, MU)
    records = [*itertools.product((-9.0, 9.0), repeat=d), (0.0,) * d, (1e300,) * d]
    records += [tuple(share * BOUNDS[:d]) for share in (0.1, 0.5, 0.9, 0.901, 0.93)]
    rest = [0.9 * BOUNDS[:d] * (1.0 + 1e-4 * shift) for shift in range(N - 1)]

    def run(rows):
        X = as_design(np.array(rows), BOUNDS[:d], True)
        found = plan.release(X, np.zeros(len(rows)), np.random.default_rng(0))
        assert (found[1] < 1.0).all()
        return found

    tables = [[record, *rest] for record in [records[-3], *records]] + [rest] * added
    charge = mu_of(plan.event) / math.sqrt(NARROWING.n_rounds)
    assert mu_of(plan.event) == pytest.approx(MU * math.sqrt(plan.share))
    counts.begin(None)
    run(tables[0])
    assert 1 < len(counts.seen) <= NARROWING.n_rounds
    ratios = counts.ratios(run, tables, [charge] * len(counts.seen), counts.seen)
    assert 0.9 < min(ratios) <= max(ratios) <= 1.0
