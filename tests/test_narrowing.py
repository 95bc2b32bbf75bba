"""Columns far from 0 whose entries are close together: intervals in which these are conditioned."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from skdpsco import PrivateRidge
from skdpsco.data.design import Dense, as_design, columns_of
from skdpsco.mechanisms.samplers import deviation_on
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


@pytest.mark.parametrize("n", [2**26, 10**9])
@pytest.mark.parametrize("d", [1, 30, 3000])
def test_rounding_adds_little_to_the_noise_of_many_records(n, d):
    plan = plan_narrowing(n, d, 0.2)
    assert plan.share <= NARROWING.share
    charged = np.sqrt(2.0 * d) * plan.multiplier  # deviation without rounding
    assert charged < deviation_on(plan.grid(d)) < min(1.3 * charged, n / NARROWING.plenty)
    assert plan_narrowing(n, d, 1e-8) is None


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
