"""Moments of a table: what every release may change by, over neighbours, and its charge.

Statistics are recorded in grid units just before noise is drawn, for data sets that differ in
one record. Releases are replayed, so that later releases are made at the same points.
"""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from recorded_releases import RecordedReleases, charges_of
from scipy import sparse

from skdpsco.data.design import as_design
from skdpsco.moments import release as module
from skdpsco.moments.release import declared_or_found, plan_matrix, release_matrix
from skdpsco.moments.table_sums import TableSums
from skdpsco.privacy import mu_of
from skdpsco.privacy.events import leaves
from skdpsco.scaling import conditioning, feature_bounds, quantiles
from skdpsco.scaling.conditioning import CONDITIONING

BOUNDS = np.array([1.0, 0.5, 2.0, 1.0, 1.0, 0.5])


def charges(plan, mu):
    """The mu of every release, in their order: together they are the plan's event."""
    shares, bounds = [1.0], []
    if plan.bounds is not None:  # tests/audit/test_levels_noise.py has their shares
        tuning, one = feature_bounds.FEATURE_BOUNDS, leaves(plan.bounds.event)
        median, filled, norm, levels, *beyond = (1 / leaf.noise_multiplier for leaf, _ in one)
        bounds = [median] * 5 + [filled] + ([norm] * tuning.n_norms + [levels]) * tuning.n_rounds
        bounds += beyond
        mu = math.sqrt(mu**2 - mu_of(plan.bounds.event) ** 2)
    if plan.conditioning is not None:
        count = CONDITIONING.n_counts
        shares = 2 * ([CONDITIONING.norm_share / count] * count + [CONDITIONING.centre_share / 2])
        shares += [CONDITIONING.norm_share, CONDITIONING.centre_share]
        counts = module.MATRIX.n_counts * len(module.MATRIX.levels)  # of three scales
        shares += [module.MATRIX.norm_share / counts] * counts
        shares += [1.0 - sum(shares)]
    each = [*bounds, *mu * np.sqrt(shares)]
    assert sorted(each) == pytest.approx(sorted(charges_of(plan.event)), rel=1e-9)
    assert mu_of(plan.event) == pytest.approx(math.hypot(*each), rel=1e-9)
    return each


@pytest.fixture
def releases(monkeypatch):
    return RecordedReleases(monkeypatch, module, conditioning, feature_bounds, quantiles)


def release(plan, is_sparse, rows):
    rows, p = np.array(rows), len(rows[0])
    X, y = rows[:, : max(p - 1, 1)], rows[:, -1] if p > 1 else np.zeros(len(rows))
    design = as_design(sparse.csr_matrix(X) if is_sparse else X, BOUNDS[: X.shape[1]], False)
    rng = np.random.default_rng(0)
    bounds = BOUNDS[:p] if plan.bounds is None else np.full(p, np.nan)
    bounds = declared_or_found(plan, design, y, bounds, rng)
    return release_matrix(plan, TableSums(design, y, bounds), bounds, X.shape[1], False, rng)


def extreme_records(p):
    inside = tuple(np.resize([0.3, -0.2, 1.1], p))
    records = [*itertools.product((-9.0, 9.0), repeat=p), (0.0,) * p, inside]
    return records + [tuple(9.0 * row) for row in np.eye(p)]


@pytest.mark.parametrize(
    ("n", "row_norm", "is_sparse", "known"),
    [
        (2, None, False, True),
        (6, None, True, True),
        (2, 0.7, False, True),
        (6, 0.7, True, True),
        (6, None, False, False),
    ],
)
def test_releases_change_by_what_is_charged(releases, n, row_norm, is_sparse, known):
    mu, largest = 100.0, []
    # With five features the target is read in smaller units.
    assert module._stretch(5, 1) > 1.1
    for p, shift in [*itertools.product((1, 2, 3), (1, 2)), *[(6, 5)] * known]:
        plan = plan_matrix(n, p, mu, True, row_norm, 0 if known else p)
        assert (plan.conditioning is None) is (row_norm is not None)
        records = extreme_records(p)
        rest = [records[(shift * k) % len(records)] for k in range(n - 1)]
        run, sets = partial(release, plan, is_sparse), [[record, *rest] for record in records]
        ratios = releases.ratios(run, sets, charges(plan, mu))
        assert ratios.max() <= 1.0
        largest.append((ratios[-1], ratios.max()))
    assert np.min(np.max(largest, axis=0)) > 0.8  # bounds are nearly reached


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("row_norm", [None, 0.7])
def test_an_added_record_changes_what_is_charged(releases, n, row_norm, is_sparse):
    """Brute force: every record at every place. The plan knows nothing of n."""
    mu, largest = 100.0, 0.0
    for p in (1, 2, 3):
        plan = plan_matrix(None, p, mu, True, row_norm)
        assert plan.conditioning is plan.bounds is plan.n_samples is None
        records = extreme_records(p)
        rest = [records[(3 * k) % len(records)] for k in range(n)]
        run = partial(release, plan, is_sparse)
        for record, place in itertools.product(records, range(n + 1)):
            sets = [rest, [*rest[:place], record, *rest[place:]]]
            (ratio,) = releases.ratios(run, sets, [mu_of(plan.event)])
            assert ratio <= 1.0
            largest = max(largest, ratio)
    assert largest > 0.99


def test_two_records_reach_the_sensitivity():
    """Over all pairs of rows of norm 1 behind the entry of the ones, in a plane."""
    t = module.ONE
    angles = np.linspace(0.0, 2.0 * np.pi, 721)
    rows = np.column_stack([np.full(721, t), np.cos(angles), np.sin(angles)])
    rows = np.vstack([rows, [t, 0.0, 0.0], rows * [1.0, 0.5, 0.5]])
    matrices = np.einsum("ki,kj->kij", rows, rows).reshape(len(rows), 9)
    reached = np.linalg.norm(matrices - matrices[0], axis=1).max()
    assert reached == pytest.approx(math.sqrt(2.0) * (1.0 + t * t), rel=1e-4)
    assert reached <= math.sqrt(2.0) * (1.0 + t * t)
