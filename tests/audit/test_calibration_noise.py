"""Calibration of scores: what counts and tables change by over neighbours, and their charges.

Statistics are recorded in grid units just before noise is drawn, for data sets that differ in
one record.
"""

import functools
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from recorded_releases import RecordedReleases, charges_of
from scipy import sparse

from skdpsco.data.design import as_design
from skdpsco.losses.library import Weighted, with_weights
from skdpsco.losses.log_link import GammaDeviance, PoissonDeviance
from skdpsco.privacy import mu_of, rho_of
from skdpsco.scaling import calibration as module
from skdpsco.scaling import quantiles
from skdpsco.scaling.calibration import (
    CALIBRATION,
    SHORT_CURVE,
    ClassCurve,
    MeanCurve,
    plan_calibration,
)
from skdpsco.solvers.base import Result

BOUNDS = np.array([1.0, 2.0])
COEF = np.array([1.0, -0.5, 0.3])  # the intercept last
TARGETS = (-1.0, 1.0, 0.25)
# Targets and weights, which may follow from the target: those of a class, say.
WEIGHTED = ((-1.0, 1.0), (1.0, 1.0), (1.0, 0.0), (-1.0, 0.3), (9.0, 9.0), (1.0, -9.0))


def release(plan, layout, rows, coef=COEF):
    x, y = np.array([row for row, _ in rows]), np.array([target for _, target in rows])
    return plan.release(
        Result(coef, 1, radius=2.0), as_design(layout(x), BOUNDS, True), y, len(y), None
    )


def charges(plan):
    """The mu of the releases, in their order: those of counts, if any, and of a table."""
    each = charges_of(plan.event)
    n_counts = 0 if plan.spread_grid is None else CALIBRATION.spread_counts
    assert len(each) == 1 + n_counts
    assert mu_of(plan.event) == pytest.approx(math.hypot(*each))
    return each


@pytest.mark.parametrize("layout", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("mu", [4.0, 12.0, 25.0, 100.0, 1e4])
@pytest.mark.parametrize(("n", "targets"), [(7, TARGETS), (40, TARGETS), (7, WEIGHTED)])
def test_releases_change_by_what_is_charged(monkeypatch, layout, mu, n, targets):
    releases = RecordedReleases(monkeypatch, module, quantiles)
    plan = plan_calibration(n, n, 2, mu, SHORT_CURVE._replace(least_records=0.0))
    # Scores in all ranges, and beyond bounds.
    points = [(s, 0.0) for s in np.linspace(-1.1, 1.1, 9)] + [(9.0, -9.0), (-9.0, 9.0)]
    records = list(itertools.product(points, targets))
    rest = [records[5 * i % len(records)] for i in range(n - 1)]
    table = np.random.default_rng(0).uniform(0.0, 2.0 * n / plan.levels, 4 * plan.levels)
    outputs = []
    if plan.spread_grid:  # halving ends at a candidate that divides the records
        outputs = [np.array([float(count)]) for count in (0, n, 0, n, 0)]
    outputs.append(table)
    assert (plan.spread_grid is None) == (n * mu < (5 / CALIBRATION.share) ** 0.5 / 0.07)
    sets = [[record, *rest] for record in records]
    run = functools.partial(release, plan, layout)
    *counts, table = releases.ratios(run, sets, charges(plan), outputs)
    assert max([*counts, table]) <= 1.0
    assert table > 0.9
    assert not counts or max(counts) > 0.9  # no record is beyond the largest limits


@pytest.mark.parametrize("layout", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("added", [False, True])
def test_counts_of_classes_change_by_what_is_charged(monkeypatch, layout, added):
    releases = RecordedReleases(monkeypatch, module, quantiles)
    plan = plan_calibration(9, 9, 2, 4.0, ClassCurve(3, False), added)
    (charge,) = charges_of(plan.event)
    assert charge == pytest.approx(4.0 * CALIBRATION.most_share**0.5)
    rest = [((0.1 * k, 0.0), k % 3) for k in range(8)]
    records = [((9.0, -9.0), label) for label in (0.0, 1.0, 2.0, -5.0, 7.0, math.nan)]
    sets = [[record, *rest] for record in records]
    groups = [[one, rest] for one in sets] if added else [sets]
    run = functools.partial(release, plan, layout, coef=np.tile(COEF, 3))
    outputs = [np.array([9.0, 1.0, -3.0])]
    ratios = [releases.ratios(run, group, [charge], outputs)[0] for group in groups]
    assert 0.999 < max(ratios) <= 1.0


@pytest.mark.parametrize("layout", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("loss", [PoissonDeviance(0.1, 0.2, 0.5), GammaDeviance(0.0, 0.15)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [10.0, 1e300])
def test_sums_that_a_loss_balances_change_by_what_is_charged(
    monkeypatch, layout, added, loss, weighted, size
):
    releases = RecordedReleases(monkeypatch, module, quantiles)
    plan = plan_calibration(9, 9, 2, 40.0, MeanCurve(), added)
    (charge,) = charges_of(plan.event)
    assert charge == pytest.approx(40.0 * MeanCurve().share ** 0.5)
    # Scores and targets at their ends and between, and beyond bounds.
    points = [(s, 0.0) for s in (-9.0, -1.0, 0.0, 1.0, 9.0)]
    records = list(itertools.product(points, (-9.0, -1.0, -0.1, 0.5, 1.0, 9.0)))
    if weighted:
        loss, weights = Weighted(loss), (0.0, 0.4, 1.0)
        records = [
            (point, with_weights(np.clip(t, -1.0, 1.0), v))
            for (point, t), v in itertools.product(records, weights)
        ]
    rest = [records[7 * i % len(records)] for i in range(8)]
    sets = [[record, *rest] for record in records]
    groups = [[one, rest] for one in sets] if added else [sets]

    problem = SimpleNamespace(loss=loss)

    def run(rows):
        x, y = np.array([row for row, _ in rows]), np.array([target for _, target in rows])
        records = as_design(layout(x), BOUNDS, True)
        return plan.release(Result(size * COEF, 1), records, y, len(y), None, problem)

    ratios = [releases.ratios(run, group, [charge], [np.ones(2)])[0] for group in groups]
    assert 0.6 < max(ratios) <= 1.0


def test_tables_of_all_layouts_are_alike():
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-2, 2, (300, 2)), rng.uniform(-1, 1, 300)
    w, edges = np.array([1.0, -0.5, 0.0]), np.array([0.2, 0.4, 0.8])
    dense = module.table_of(as_design(x, BOUNDS, True), y, w, edges, 4)
    thin = module.table_of(as_design(sparse.csr_matrix(x), BOUNDS, True), y, w, edges, 4)
    np.testing.assert_allclose(dense, thin, atol=1e-12)
    scores = np.clip(x, -BOUNDS, BOUNDS) / BOUNDS @ w[:2]
    limits = [-np.inf, -0.8, -0.4, -0.2, 0.0, 0.2, 0.4, 0.8, np.inf]
    np.testing.assert_array_equal(dense[:8], np.histogram(scores, limits)[0])
    np.testing.assert_allclose(dense[8:], np.histogram(scores, limits, weights=y)[0])


def test_targets_are_clipped():
    X = as_design(np.zeros((2, 2)), BOUNDS, True)
    table = module.table_of(X, np.array([9.0, -9.0]), np.zeros(3), np.zeros(0), 1)
    np.testing.assert_array_equal(table, [0.0, 2.0, 0.0, 0.0])


def test_few_records_are_not_read():
    plan = plan_calibration(7, 7, 2, 4.0, SHORT_CURVE)
    found = plan.release(Result(COEF, 1), None, None, 7, None)
    assert rho_of(plan.event) == 0.0
    assert found == (plan.slope, (plan.slope - 1.0) * COEF[-1])
    assert 0.0 < plan.slope < 1.0
