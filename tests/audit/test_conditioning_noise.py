"""Centre and scale of features: what every release may change by, over neighbours, and its charge.

Statistics are recorded in grid units just before noise is drawn, for data sets that differ in
one record. Releases are replayed, so that later releases are made at the same points.
"""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from recorded_releases import RecordedReleases, charges_of
from scipy import sparse

from skdpsco._kernels import njit
from skdpsco.data import products
from skdpsco.data.design import as_design, columns_of
from skdpsco.mechanisms.samplers import deviation_on
from skdpsco.privacy import mu_of
from skdpsco.scaling import conditioning as module
from skdpsco.scaling import quantiles
from skdpsco.scaling.conditioning import CONDITIONING, plan_conditioning

BOUNDS = np.array([1.0, 0.5, 2.0])


def charges(plan, mu):
    """The mu of every release, in their order: together they are the plan's event."""
    k = CONDITIONING.n_counts
    counts = [mu * math.sqrt(CONDITIONING.norm_share / k)] * k
    each = [*counts, mu * math.sqrt(CONDITIONING.centre_share / 2)] * plan.centred
    each += counts
    each += [mu * math.sqrt(CONDITIONING.centre_share / 2)] * plan.centred
    if plan.scaled:
        each += [mu * math.sqrt(CONDITIONING.norm_share)]
        each += [mu * math.sqrt(CONDITIONING.centre_share)]
    assert sorted(each) == pytest.approx(sorted(charges_of(plan.event)), rel=1e-9)
    assert mu_of(plan.event) == pytest.approx(math.hypot(*each))
    return each


def extreme_records(d):
    records = [*itertools.product((-9.0, 9.0), repeat=d), (0.0,) * d, (0.3, -0.2, 1.1)[:d]]
    return records + [tuple(9.0 * row) for row in np.eye(d)]


@pytest.mark.parametrize(
    ("found", "is_sparse"),
    [
        ("centre and scale", False),
        ("centre", False),
        ("centre and scale", True),
        ("scale", False),
        ("scale", True),
    ],
)
@pytest.mark.parametrize("n", [2, 6])
def test_releases_change_by_what_is_charged(monkeypatch, found, is_sparse, n):
    releases, mu = RecordedReleases(monkeypatch, module, quantiles), 100.0
    layout, largest = sparse.csr_matrix if is_sparse else np.array, []
    for d, base, shift in itertools.product((1, 2, 3), (0, 1, -1), (1, 2, 3)):
        plan = plan_conditioning(n, d, mu, found, is_sparse)
        records = extreme_records(d)
        rest = [records[shift * i % len(records)] for i in range(n - 1)]

        def run(rows, plan=plan):
            X = as_design(layout(rows), BOUNDS[: plan.n_features], plan.centred)
            return plan.release(X, np.zeros(len(rows)), np.random.default_rng(0))

        sets = [[record, *rest] for record in [records[base], *records]]
        ratios = releases.ratios(run, sets, charges(plan, mu))
        assert max(ratios) <= 1.0
        largest.append(ratios)
    largest = np.max(largest, axis=0)
    before = (CONDITIONING.n_counts + 1) * plan.centred
    after = before + CONDITIONING.n_counts
    assert largest[before:after].max() > 0.9  # of the counts of centred rows
    if plan.centred:
        assert largest[before - 1] > 0.9  # of the first mean
        assert largest[after] > 0.9  # of the second
        assert largest[: before - 1].max() > 0.9
    after += plan.centred
    if plan.scaled:
        # The changes of the mean squared norm, and of squares.
        assert (largest[after : after + 2] > 0.6).all()


@pytest.mark.parametrize("d", [1, 3, 40])
def test_rounded_rows_keep_their_norm(d):
    """In extended precision: terms of the sums are at most d + 4 parts in 2**38 too long."""
    rng = np.random.default_rng(d)
    for c in (2.0**-8, 0.1, math.sqrt(d)):
        for _ in range(20):
            row = np.clip(rng.normal(size=(1, d)) * 10.0 ** rng.uniform(-6, 3), -1, 1)
            slack = 1 + (d + 4) * 2.0**-38
            centre = rng.uniform(-1, 1, d)
            near = np.clip(centre + rng.normal(size=d) * 10.0 ** rng.uniform(-6, 0), -1, 1)
            for kind in (np.asarray, sparse.csr_matrix):
                for record, point in ((row, np.zeros(d)), (row, centre), (near[None], centre)):
                    design = as_design(kind(record), np.ones(d), False)
                    term = module.shortened_sum(
                        design, np.zeros(1), point, max(c, math.sqrt(d) / 90)
                    )
                    assert np.sqrt(np.square(term.astype(np.longdouble)).sum()) <= slack
                    rounded = 2.0**-38 * (kind is sparse.csr_matrix)
                    norm, squares = module.shortened_squares(design, np.zeros(1), point, c)
                    assert (squares >= -rounded).all()
                    assert squares.astype(np.longdouble).sum() <= slack * slack + rounded
                    assert norm[0] <= 1.0


def test_the_rounding_of_rows_and_of_the_centre_is_charged():
    """Where sparse rows are short beside the centre, both sums far exceed their difference."""
    n, share = 2**16, CONDITIONING.centre_share / 2
    c, x = 2.0 * 2.0**-7.5, 0.34654321
    centre = np.array([x - 0.5 * c])
    X = as_design(sparse.csr_matrix(np.full((n, 1), x)), np.ones(1), True)
    found = module.shortened_sum(X, np.zeros(n), centre, c)[0]
    error = abs(float(Fraction(found) - n * (Fraction(x) - Fraction(centre[0])) / Fraction(c)))
    plan = plan_conditioning(n, 1, 1.0, "centre")
    moved = deviation_on(plan.grids["residual"]) * math.sqrt(share)
    assert 1e-7 < error
    assert 2.0 + 2.0 * error <= moved < 2.0005


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_rows_in_single_precision_keep_their_norm(layout):
    """Norms are of what is added up, also where an entry over its bound is no such number."""
    d, rng = 5, np.random.default_rng(0)
    for bound in (0.7, 1.1, 3.0):
        for _ in range(200):
            row = np.full((1, d), bound * rng.uniform(0.5, 1.0), np.float32)
            near = row[0] / bound + rng.normal(size=d) * 10.0 ** rng.uniform(-6, -1)
            design = as_design(layout(row), np.full(d, bound), False)
            term = module.shortened_sum(design, np.zeros(1), near, math.sqrt(d) / 90)
            norm = np.sqrt(np.square(term.astype(np.longdouble)).sum())
            assert norm <= 1 + (d + 4) * 2.0**-38


def test_conditioned_records_are_within_their_bounds():
    """Whatever the records: kernels see [-1, 1]."""
    rng = np.random.default_rng(0)
    X = as_design(10.0 ** rng.uniform(-3, 9, (50, 3)) * rng.choice([-1, 1], (50, 3)), BOUNDS, True)
    for scale in (1e-2, 1.0, 2.0):
        to = module.Conditioning(rng.uniform(-1, 1, 3), scale * rng.uniform(0.1, 1, 3))
        seen = columns_of(to.apply(X), 0, 50, np.arange(4))
        assert np.abs(seen).max() <= 1.0


def test_sparse_records_are_read_as_dense_ones_less_the_centre():
    """Products, sums and norms, in coordinates with scales and with an intercept."""
    rng = np.random.default_rng(0)
    rows = sparse.random_array((50, 7), density=0.3, rng=rng, format="csr")
    rows.data[::3] *= -1e3  # beyond the bounds
    bounds, n_outputs = np.linspace(0.5, 2.0, 7), 2
    to = module.Conditioning(rng.uniform(-1, 1, 7), rng.uniform(0.1, 2.0, 7))
    assert (np.abs(to.centre) > to.scale).any()  # zeros are clipped
    X = to.apply(as_design(sparse.csr_matrix(rows), bounds, True))
    dense = columns_of(to.apply(as_design(rows.toarray(), bounds, True)), 0, 50, np.arange(8))
    W, R, unit = rng.normal(size=(n_outputs, 8)), rng.normal(size=(50, 2)), rng.uniform(1, 2, 8)
    scores, norms, total = np.empty((50, n_outputs)), np.empty(50), np.zeros(16)
    products.predict_all(X, W.ravel(), scores)
    np.testing.assert_allclose(scores, dense @ W.T, atol=1e-12)
    products.norms_of(X, products.as_lengths(unit, X), norms)
    np.testing.assert_allclose(norms, np.linalg.norm(dense * unit, axis=1), rtol=1e-12)
    add_all(X, R, total)
    np.testing.assert_allclose(products.as_sums(total, X), (R.T @ dense).ravel(), atol=1e-12)


@pytest.mark.parametrize("width", [0.5, 3.0])
def test_sparse_records_are_conditioned_as_dense_ones(monkeypatch, width):
    """Every statistic is that of the dense layout, so that no layout decides anything."""
    n, d, rng = 60, 6, np.random.default_rng(0)
    rows = np.where(rng.random((n, d)) < 0.4, rng.normal(size=(n, d)), 0.0)
    rows += [0, 0, 2, -0.7, 0, 0]
    bounds, found = np.linspace(0.5, 2.0, d), []
    names = ["norm"] * CONDITIONING.n_counts + ["centre"]
    names += ["centred norm"] * CONDITIONING.n_counts + ["residual", "mean", "squares"]
    for layout in (np.asarray, sparse.csr_matrix):
        releases = RecordedReleases(monkeypatch, module, quantiles)
        plan = plan_conditioning(n, d, 3.0, sparse=layout is not np.asarray, labelled=True)
        releases.begin(found[0][0] if found else None)
        plan = replace(plan, width=width)
        to = plan.release(as_design(layout(rows), bounds, True), np.zeros(n), rng)
        statistics = [
            np.array(units) * plan.grids[name]
            for units, name in zip(releases.units, names, strict=True)
        ]
        found.append((releases.seen, statistics, to))
    for one, other in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    assert width > 1.0 or (found[0][2].scale < np.abs(found[0][2].centre)).any()
    for one, other in zip(found[0][2][:3], found[1][2][:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@njit
def add_all(X, R, out):
    products.add_rows(X, 0, 0.0, R, out)


def test_rows_near_the_centre_are_not_called_shorter_than_they_are():
    """A norm that is a difference of large numbers does not consist of rounding errors."""
    rng = np.random.default_rng(0)
    centre = rng.uniform(-1, 1, 40)
    rows = centre + rng.normal(size=(30, 40)) * 10.0 ** rng.uniform(-12, 0, (30, 1))
    rows = np.clip(rows, -1, 1)
    norms, design = np.empty(30), as_design(sparse.csr_matrix(rows), np.ones(40), True)
    module.write_centred_norms(design, centre, norms)
    exact = np.sqrt(np.square(rows.astype(np.longdouble) - centre).sum(axis=1))
    assert (exact <= norms * (1 + 44 * 2.0**-38)).all()
