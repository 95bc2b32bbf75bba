"""Calibration of scores: what counts and tables change by over neighbours, and their charges.

Statistics are recorded in grid units just before noise is drawn, for data sets that differ in
one record.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse

from skdpsco.data.design import as_design
from skdpsco.mechanisms.samplers import SCALE_BITS, deviation_on, to_grid
from skdpsco.privacy import mu_of
from skdpsco.privacy.events import leaves
from skdpsco.scaling import calibration as module
from skdpsco.scaling import quantiles
from skdpsco.scaling.calibration import (
    CALIBRATION,
    SHORT_CURVE,
    ClassCurve,
    plan_calibration,
)
from skdpsco.solvers.base import Result

BOUNDS = np.array([1.0, 2.0])
COEF = np.array([1.0, -0.5, 0.3])  # the intercept last
TARGETS = (-1.0, 1.0, 0.25)
# Targets and weights, which may follow from the target: those of a class, say.
WEIGHTED = ((-1.0, 1.0), (1.0, 1.0), (1.0, 0.0), (-1.0, 0.3), (9.0, 9.0), (1.0, -9.0))


class Releases:
    """Stand-in for the noise: keeps releases in grid units, and returns what `run` is given."""

    def __init__(self, monkeypatch):
        for one in (module, quantiles):
            monkeypatch.setattr(one, "gaussian_mechanism", self.add)

    def add(self, rng, values, grid):
        units = [int(to_grid(v, grid)) for v in values]
        assert max(map(abs, units)) < 2**49  # nothing is clamped
        values[:] = self.outputs[len(self.units)]
        self.units.append(np.array(units, dtype=float))
        return deviation_on(grid)

    def run(self, plan, rows, layout, outputs):
        x, y = np.array([row for row, _ in rows]), np.array([target for _, target in rows])
        X, self.outputs, self.units = as_design(layout(x), BOUNDS, True), outputs, []
        found = plan.release(Result(COEF, 1, radius=2.0), X, y, len(y), None)
        return self.units, found


def charges(plan):
    """The mu of the releases, in their order: those of counts, if any, and of a table."""
    each = [1.0 / leaf.noise_multiplier for leaf, count in leaves(plan.event) for _ in range(count)]
    n_counts = 0 if plan.spread_grid is None else CALIBRATION.spread_counts
    assert len(each) == 1 + n_counts
    assert mu_of(plan.event) == pytest.approx(math.hypot(*each))
    # The variance of discrete Gaussian noise counts 16 units less (docs/proofs/noise.md).
    return [mu * math.sqrt(4.0**SCALE_BITS - 16) for mu in each]


@pytest.mark.parametrize("layout", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("mu", [4.0, 12.0, 25.0, 100.0, 1e4])
@pytest.mark.parametrize(("n", "targets"), [(7, TARGETS), (40, TARGETS), (7, WEIGHTED)])
def test_releases_change_by_what_is_charged(monkeypatch, layout, mu, n, targets):
    releases = Releases(monkeypatch)
    plan = plan_calibration(n, n, 2, mu, SHORT_CURVE)
    # Scores in all ranges, and beyond bounds.
    points = [(s, 0.0) for s in np.linspace(-1.1, 1.1, 9)] + [(9.0, -9.0), (-9.0, 9.0)]
    records = list(itertools.product(points, targets))
    rest = [records[5 * i % len(records)] for i in range(n - 1)]
    table = np.random.default_rng(0).uniform(0.0, 2.0 * n / plan.levels, 4 * plan.levels)
    outputs = []
    if plan.spread_grid:  # halving ends at a candidate that divides the records
        outputs = [np.array([float(count)]) for count in (0, n, 0, n, 0)]
    outputs.append(table)
    runs, found = zip(
        *(releases.run(plan, [record, *rest], layout, outputs) for record in records), strict=True
    )
    assert len(set(found)) == 1  # releases decide everything
    assert (plan.spread_grid is None) == (n * mu < (5 / CALIBRATION.spread_share) ** 0.5 / 0.07)
    changes = []
    for charge, *units in zip(charges(plan), *runs, strict=True):
        units = np.array(units)
        changes.append(max(np.linalg.norm(units - one, axis=1).max() for one in units) / charge)
    assert max(changes) <= 1.0
    counts = changes[:-1]
    assert changes[-1] > 0.9
    assert not counts or max(counts) > 0.9  # no record is beyond the largest limits


@pytest.mark.parametrize("layout", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("added", [False, True])
def test_counts_of_classes_change_by_what_is_charged(monkeypatch, layout, added):
    releases = Releases(monkeypatch)
    plan = plan_calibration(9, 9, 2, 4.0, ClassCurve(3, False), added)
    (leaf,) = [leaf for leaf, count in leaves(plan.event) for _ in range(count)]
    charge = 1.0 / leaf.noise_multiplier * math.sqrt(4.0**SCALE_BITS - 16)
    assert charge == pytest.approx(4.0 * CALIBRATION.most_share**0.5 * 2.0**SCALE_BITS)
    rest = [((0.1 * k, 0.0), k % 3) for k in range(8)]
    records = [((9.0, -9.0), label) for label in (0.0, 1.0, 2.0, -5.0, 7.0, math.nan)]
    sets = [[record, *rest] for record in records]
    if added:
        sets = [*sets, rest]
    outputs = [np.array([9.0, 1.0, -3.0])]
    units, found = [], []
    for rows in sets:
        x, y = np.array([row for row, _ in rows]), np.array([label for _, label in rows])
        releases.outputs, releases.units = outputs, []
        X = as_design(layout(x), BOUNDS, True)
        found.append(plan.release(Result(np.tile(COEF, 3), 1), X, y, len(y), None))
        units.append(releases.units[0])
    assert all(str(one) == str(found[0]) for one in found)  # releases decide everything
    pairs = [(one, units[-1]) for one in units] if added else itertools.combinations(units, 2)
    change = max(np.linalg.norm(a - b) for a, b in pairs) / charge
    assert 0.999 < change <= 1.0


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
