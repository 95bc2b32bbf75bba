"""Columns far from 0 whose entries are close together: intervals in which these are conditioned."""

import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from skdpsco import Ledger, PrivateLasso, PrivateLogisticRegression, PrivateRidge, RowBlocks
from skdpsco.data.design import Dense, as_design, columns_of
from skdpsco.inspection import plan
from skdpsco.privacy import mu_of
from skdpsco.scaling import narrowing
from skdpsco.scaling.conditioning import Conditioning, narrowed, plan_conditioning
from skdpsco.scaling.narrowing import NARROWING, plan_narrowing

seeded_fits = pytest.mark.filterwarnings("ignore::skdpsco._random.PrivacyWarning")
N = 4000


def years_and_others(n=N, seed=0):
    """Years, seconds, latitudes west, and columns that are to stay as they are."""
    rng = np.random.default_rng(seed)
    far = [2000.0 + 10.0 * rng.normal(size=n), 1.6e9 + 1e7 * rng.uniform(-1, 1, n)]
    far += [-122.0 + 0.3 * rng.normal(size=n)]
    others = [rng.normal(size=n), rng.exponential(size=n), np.full(n, 1000.0), np.zeros(n)]
    others += [(rng.random(n) < p).astype(float) for p in (0.01, 0.5, 0.95, 0.999)]
    return np.column_stack(far + others), len(far)


def bounds_of(X):
    """Powers of two, as those that are found."""
    return 2.0 ** np.ceil(np.log2(np.maximum(np.abs(X).max(axis=0), 1.0)))


def found(X, mu=10.0, seed=0, bounds=None):
    n, d = X.shape
    design = as_design(X, bounds_of(X) if bounds is None else bounds, True)
    rng = np.random.Generator(np.random.PCG64(seed))
    return plan_narrowing(n, d, mu).release(design, np.zeros(n), rng)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_intervals_hold_nearly_all_entries_of_far_columns(dtype):
    X, n_far = years_and_others()
    bounds, X = bounds_of(X), X.astype(dtype)
    centre, width = found(X, bounds=bounds)
    Z = X.astype(float) / bounds
    assert (width[n_far:] == 1.0).all()
    assert (centre[n_far:] == 0.0).all()
    Z, centre, width = Z[:, :n_far], centre[:n_far], width[:n_far]
    assert (np.abs(Z - centre) <= width).mean(axis=0).min() > 0.98
    assert (width < 20.0 * Z.std(axis=0)).all()


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_units_of_columns_do_not_matter(size):
    rng = np.random.default_rng(0)
    X = np.array([1.0, -0.7]) + 1e-3 * rng.normal(size=(N, 2))
    usual, other = found(X, bounds=np.full(2, 1.2)), found(size * X, bounds=np.full(2, size * 1.2))
    np.testing.assert_array_equal(usual[1], other[1])
    np.testing.assert_allclose(usual[0], other[0], atol=1e-6)


@pytest.mark.parametrize("column", ["zeros", "constant", "subnormal", "largest", "two values"])
def test_columns_without_a_spread_stay_as_they_are(column):
    values = {
        "zeros": np.zeros(N),
        "constant": np.full(N, 0.7),
        "subnormal": np.full(N, 5e-324),
        "largest": np.full(N, 1.7e308),
        "two values": np.where(np.arange(N) % 50 == 0, 0.5, 1.0),
    }
    centre, width = found(values[column][:, None], bounds=np.ones(1))
    assert (centre[0], width[0]) == (0.0, 1.0)


def test_a_narrow_interval_that_many_entries_are_outside_of_is_none():
    """Such as years of which a third are missing, and written as 9999."""
    rng, years = np.random.default_rng(0), 2000.0 + 10.0 * np.random.default_rng(1).normal(size=N)
    for share, narrow in ((0.01, True), (0.3, False)):
        X = np.where(rng.random(N) < share, 9999.0, years)[:, None]
        assert bool(found(X)[1][0] < 1.0) is narrow


def test_plan():
    """Nothing is spent where it would tell nothing, and a bounded share elsewhere."""
    for n, d in ((1000, 1), (4000, 20), (10**6, 500)):
        least = (
            NARROWING.plenty
            * math.sqrt(2.0 * d * NARROWING.n_rounds / (NARROWING.most * NARROWING.share))
            / n
        )
        assert plan_narrowing(n, d, 0.999 * least) is None
        shares = []
        for mu in np.geomspace(1.001 * least, 1e5 * least, 30):
            search = plan_narrowing(n, d, mu)
            shares.append(search.share)
            assert mu_of(search.event) == pytest.approx(mu * math.sqrt(search.share))
        assert max(shares) == pytest.approx(NARROWING.share)
        assert shares == sorted(shares, reverse=True)  # what is not needed is not spent
        assert shares[-1] < 1e-3


def test_conditioning_within_intervals_is_one_change_of_features():
    rng = np.random.default_rng(0)
    X, bounds = rng.uniform(-1.0, 1.0, (50, 4)), np.ones(4)
    outer = Conditioning(rng.uniform(-0.9, 0.9, 4), np.array([0.1, 0.01, 1e-5, 1.0]))
    X = outer.centre + outer.scale * X  # all of them are within the intervals
    inner = Conditioning(rng.uniform(-0.3, 0.3, 4), rng.uniform(0.1, 1.0, 4), np.full(4, 0.3))
    design = as_design(X, bounds, False)
    twice = inner.apply(outer.apply(design))
    once = outer.then(inner).apply(design)
    seen = [columns_of(records, 0, 50, np.arange(4)) for records in (twice, once)]
    np.testing.assert_allclose(seen[0], seen[1], atol=1e-9)
    assert outer.then(inner).mean_square is inner.mean_square
    # Scales of features in single precision have that precision, and centres are in the bounds.
    both = outer._replace(centre=np.full(4, 0.999)).then(
        inner._replace(centre=np.ones(4), single=True)
    )
    assert (both.scale == both.scale.astype(np.float32)).all()
    assert (both.scale <= outer.scale * inner.scale).all()
    assert (both.centre <= 1.0).all()
    low, high = both.ranges(bounds)
    assert (low < high).all()


@pytest.mark.parametrize("mu", [0.3, 1.0, 300.0])
def test_what_is_found_has_been_rehearsed(mu):
    X, _ = years_and_others()
    n, d = X.shape
    stage = narrowed(plan_conditioning(n, d, mu), mu)
    assert stage.narrowing is not None
    smallest, largest = (one.scale for one in stage.extremes)
    X[:, 0] = 1024.0 * (1.0 - 2.0**-30 * np.random.default_rng(0).random(n))
    design = as_design(X, bounds_of(X), True)
    for seed in range(5):
        rng = np.random.Generator(np.random.PCG64(seed))
        to = stage.release(design, np.zeros(n), rng)
        assert (to.scale >= smallest).all()
        assert (to.scale <= largest).all()
        seen = columns_of(to.apply(design), 0, n, np.arange(d))
        assert np.abs(seen).max() <= 1.0


def test_counts_are_those_of_numpy():
    """Compiled and not; entries outside of an interval count in the nearest part."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, 5))
    values[3, 1], values[4, 2] = np.inf, -np.inf
    bounds, low, part = rng.uniform(0.5, 1.5, 5), rng.uniform(-1, 0, 5), rng.uniform(1e-3, 1e-2, 5)
    places = (np.clip(values, -bounds, bounds) / bounds - low) / part
    places = np.clip(places, 0, NARROWING.n_parts - 1).astype(int)
    expected = [np.bincount(column, minlength=NARROWING.n_parts) for column in places.T]
    X = Dense(values, bounds, 1)
    found = narrowing.counts_of_parts(X, None, np.arange(5), low, part)
    np.testing.assert_array_equal(found, np.concatenate(expected))
    python = np.zeros((5, NARROWING.n_parts))
    narrowing.add_to_parts.py_func(X, low, 1.0 / part, python)
    np.testing.assert_array_equal(python, expected)


def far_table(n=N, d=8, seed=0):
    """Columns at 10**6 of different spreads, and a target of all of them."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    y = Z @ np.linspace(-1.0, 1.0, d) + 0.3 * rng.normal(size=n)
    return 1e6 + Z * np.geomspace(30.0, 1e4, d), y


@pytest.mark.parametrize("make", [PrivateRidge, PrivateLasso])
def test_regressions_of_columns_far_from_0(make):
    X, y = far_table()
    model = make(epsilon=4.0, delta=1e-6).fit(X, y)
    low, high = model.feature_range_
    assert (low < X.mean(axis=0)).all()
    assert (high > X.mean(axis=0)).all()
    assert (high - low < 30.0 * X.std(axis=0)).all()
    assert model.score(X, y) > LinearRegression().fit(X, y).score(X, y) - 0.15


def test_labels_of_columns_far_from_0():
    X, y = far_table()
    model = PrivateLogisticRegression(epsilon=4.0, delta=1e-6).fit(X, y > 0.0)
    assert model.score(X, y > 0.0) > 0.85


@seeded_fits
def test_blocks_and_single_precision_are_narrowed_alike():
    X, y = far_table()
    X[:, 5:] = X[:, 5:] - 1e6  # some are not far
    X = X.astype(np.float32).astype(float)
    model = PrivateRidge(epsilon=4.0, delta=1e-6, random_state=0)
    whole, limits = model.fit(X, y).coef_, model.feature_range_
    assert (limits[1] - limits[0] < 2e5).all()
    for other in (RowBlocks.from_arrays(X, y, block_size=700), X.astype(np.float32)):
        targets = None if isinstance(other, RowBlocks) else y
        np.testing.assert_allclose(model.fit(other, targets).coef_, whole, rtol=1e-3)


@pytest.mark.parametrize("make", [PrivateRidge, PrivateLasso])
def test_charge_is_what_was_planned(make):
    X, y = far_table()
    ledger = Ledger(5.0, 1e-5)
    report = make(epsilon=4.0, delta=1e-6, ledger=ledger).fit(X, y).privacy_
    assert ledger.charges()[0].rho == pytest.approx(report.rho)
    planned = plan(make(epsilon=4.0, delta=1e-6), *X.shape)
    assert planned.event == make(epsilon=4.0, delta=1e-6).fit(X, y).privacy_.event
    assert planned.event == make(epsilon=4.0, delta=1e-6).fit(X - 1e6, y).privacy_.event


@seeded_fits
def test_sparse_rows_and_declared_bounds_are_not_narrowed(monkeypatch):
    def refuse(*arguments):
        raise AssertionError

    monkeypatch.setattr(narrowing.Narrowing, "release", refuse)
    X, y = far_table(n=1000)
    model = PrivateRidge(epsilon=8.0, random_state=0)
    model.fit(sparse.csr_matrix(X), y)
    clone(model).set_params(feature_bound=2e6).fit(X, y)
    with pytest.raises(AssertionError):
        model.fit(X, y)
