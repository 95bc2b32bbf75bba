"""Private transformers: as scikit-learn sees them, what they release, and mistakes of users."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import each
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from skdpsco.data import as_design
from skdpsco.preprocessing import (
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
)
from skdpsco.preprocessing.clipper import plan_ranges
from skdpsco.preprocessing.scaler import SQUARES, plan_moments, release_moments
from skdpsco.privacy import Budget, Ledger, NoOpEvent, epsilon_of, rho_of

# Seeds make the tests deterministic; tests/test_random.py tests the warning.
pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

CASES = {
    "scaler": PrivateStandardScaler(lower=-3, upper=3),
    "raw": PrivateStandardScaler(),
    "means": PrivateStandardScaler(lower=-3, upper=3, with_std=False),
    "deviations": PrivateStandardScaler(lower=[-3, -4, -3, -9], upper=3, with_mean=False),
    "clipper": PrivateQuantileClipper(),
    "rescaled": PrivateQuantileClipper(feature_range=(0, 1), lower=-50, upper=[9, 9, 99, 99]),
    "selector": PrivateFeatureSelector(n_features_to_select=2, feature_bound=3.0),
    "splines": PrivateSplineTransformer(lower=-3, upper=[3, 3, 4, 9]),
    "raw splines": PrivateSplineTransformer(4, 2, columns=[2, 0]),
    "regression": PrivateFeatureSelector(
        n_features_to_select=2, feature_bound=[3, 3, 3, 3.0], task="regression"
    ),
}
each_case = pytest.mark.parametrize("case", CASES)
COLUMNS = ["one", "two", "three", "four"]
N, D = 1500, 4
RNG = np.random.default_rng(0)
X = RNG.integers(-3, 4, (N, D)).astype(float)
Y = np.digitize(X[:, 0] - X[:, 1] + RNG.normal(size=N), [-2.0, 2.0])
FRAME = pd.DataFrame(X, columns=COLUMNS)


def fitted(case, given=X, y=Y, **params):
    return clone(CASES[case]).set_params(random_state=0, **params).fit(given, y)


# --- scikit-learn


@each_case
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frame_to_frame(case, library):
    given = FRAME if library == "pandas" else pl.DataFrame(FRAME)
    model = clone(CASES[case]).set_params(random_state=0).set_output(transform=library)
    out = model.fit_transform(given, Y)
    assert type(out) is type(given)
    assert list(out.columns) == list(model.get_feature_names_out())
    plain = fitted(case, given)
    assert_array_equal(out, plain.transform(given))
    with config_context(transform_output=library):
        assert_array_equal(fitted(case, given).transform(given), plain.transform(given))
    with pytest.raises(ValueError, match="feature names"):
        model.transform(given[COLUMNS[::-1]])
    widths = {"selector": 2, "regression": 2, "splines": 28, "raw splines": 12}
    assert len(out.columns) == widths.get(case, 4)


@each_case
def test_transform_is_a_map_of_single_records(case):
    model = fitted(case)
    out = model.transform(X)
    changed = X.copy()
    changed[7] = [1e300, -1e300, 5.0, 0.5]
    other = model.transform(changed)
    assert_array_equal(np.delete(out, 7, axis=0), np.delete(other, 7, axis=0))
    assert_array_equal(out[5:6], model.transform(X[5:6]))
    assert np.isfinite(other).all()
    with np.errstate(all="raise"):
        model.transform(changed)


# --- budget


def test_nothing_is_charged_for_nothing():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    few = slice(0, 60)
    clipper = fitted("clipper", X[few], ledger=ledger)
    assert_array_equal(clipper.upper_, [1e6] * 4)
    assert_array_equal(clipper.lower_, [-1e6] * 4)
    selector = fitted("regression", X[few], Y[few], n_features_to_select=4, ledger=ledger)
    assert selector.get_support().all()
    assert clipper.privacy_.event == selector.privacy_.event == NoOpEvent()
    assert ledger.remaining().rho == pytest.approx(ledger.rho)


def test_plans_of_ranges():
    for n, n_draws in ((31, 0), (33, 2), (115, 2), (118, 3), (10**6, 3)):
        for d in (1, 9):
            plan = plan_ranges(round(n * math.sqrt(d)), d, 0.024356)
            assert rho_of(plan.event) == pytest.approx(0.024356 * (n_draws > 0))
            assert (plan.centre_grid is not None) == (n_draws == 3)
            assert (plan.end_grid is not None) == (n_draws > 0)
            assert plan.penalty * len(plan.distances) <= 0.301 * n * math.sqrt(d)


# --- quality


def columns(n=4000):
    rng = np.random.default_rng(1)
    return np.c_[
        rng.normal(size=n),
        rng.normal(5000.0, 2000.0, n),
        np.exp(rng.normal(size=n)),
        rng.uniform(-0.01, 0.0, n),
        rng.choice([0.0, 1.0], n, p=[0.9, 0.1]),
    ]


@pytest.mark.parametrize(("with_mean", "with_std"), [(True, True), (True, False), (False, True)])
def test_scaler_without_noise(with_mean, with_std):
    C = columns()
    lower, upper = np.array([-1.0, 0, 0, -0.02, 0]), np.array([2.0, 9000, 4, 0.0, 1])
    params = {"with_mean": with_mean, "with_std": with_std}
    scaler = PrivateStandardScaler(
        epsilon=1e6, lower=lower, upper=upper, random_state=0, **params
    ).fit(C)
    clipped = np.clip(C, lower, upper)
    expected = StandardScaler(**params).fit(clipped)
    # Noise is 1e-4 of half of the bounds.
    assert_allclose((scaler.mean_ - expected.mean_) / (upper - lower), 0.0, atol=1e-4)
    if with_std:
        assert_allclose(scaler.scale_, expected.scale_, rtol=1e-3)
        assert_allclose(scaler.var_, expected.var_, rtol=2e-3)
    else:
        assert scaler.scale_ is scaler.var_ is None
    out = scaler.transform(C)
    spread = 1.0 if with_std else upper - lower
    assert_allclose((out - expected.transform(clipped)) / spread, 0.0, atol=3e-3)
    assert_allclose(scaler.inverse_transform(out), clipped, atol=1e-9)
    assert scaler.n_samples_seen_ == 4000


def test_scaler_finds_bounds():
    """Without declared ones, it standardises columns within the bounds that it finds."""
    C = columns()
    scaler = PrivateStandardScaler(epsilon=1e4, random_state=0).fit(C)
    clipped = np.clip(C, scaler.lower_, scaler.upper_)
    assert (clipped != C).mean(axis=0).max() < 0.06
    expected = StandardScaler().fit(clipped)
    assert_allclose((scaler.mean_ - expected.mean_) / expected.scale_, 0.0, atol=0.01)
    assert_allclose(scaler.scale_, expected.scale_, rtol=0.02)


def test_scaler_where_noise_hides_the_spread():
    """Means stay within the bounds, and variances above half of the deviation of their noise."""
    C = np.random.default_rng(0).choice([49.999, 50.0], (100, 20))
    noise = plan_moments(100, 20, True, Budget(1.0, 1e-6).mu).noise
    assert noise > 0.3
    for seed in range(10):
        scaler = PrivateStandardScaler(lower=0, upper=50, random_state=seed).fit(C)
        mean = scaler.mean_ / 25 - 1
        assert np.abs(mean).max() == 1
        floor = np.sqrt((1 / SQUARES**2 + 4 * mean**2 + 2 * noise**2) / 4) * noise
        assert (scaler.var_ / 25**2 / floor).min() == pytest.approx(1)
        assert (scaler.var_ / 25**2).max() <= 1
        assert np.abs(scaler.transform(C)).max() < 5


def test_variances_are_unbiased():
    """To 5 standard errors; without the correction for the noise of means it would miss by 15."""
    U = np.tile([[-0.5], [0.5]], (20, 10_000))
    plan = plan_moments(40, 10_000, True, 50.0)
    assert 0.09 < plan.noise < 0.11
    rng = np.random.Generator(np.random.PCG64(0))
    bounds = np.full(10_000, -1.0), np.ones(10_000)
    design = as_design(U, bounds[1], False)
    _, var = release_moments(plan, design, 40, bounds, True, rng)
    assert var.mean() == pytest.approx(0.25, abs=5 * var.std() / 100)
    assert plan.noise**2 > 15 * var.std() / 100


@each("quantile_range", [(0.01, 0.99), (0.25, 0.9), (0, 1)])
@each("bound", [1e4, 1e6])
def test_clipper_without_noise(bound, quantile_range):
    C = columns()
    clipper = PrivateQuantileClipper(
        quantile_range=quantile_range, epsilon=1e7, lower=-bound, upper=bound, random_state=0
    ).fit(C)
    quantiles = [quantile_range[0], 0.5, quantile_range[1]]
    clipped = np.clip(C, -bound, bound)
    low, middle, high = np.quantile(clipped, quantiles, axis=0, method="inverted_cdf")
    # Ends are on the far side, by a step of the grid, 2**(1/16), and the centre's distance from
    # the median: a step of 2**(1/2), or 1/256 of the bounds. The shortest are 1e-7 of the width.
    slack = 0.05 * (high - low) + 2 * np.minimum(bound / 256, 0.5 * np.abs(middle)) + 3e-7 * bound
    assert (clipper.lower_ <= low).all()
    assert (clipper.upper_ >= high).all()
    assert (clipper.lower_ >= low - slack).all()
    assert (clipper.upper_ <= high + slack).all()
    out = clipper.transform(C)
    assert_array_equal(out, np.clip(C, clipper.lower_, clipper.upper_))
    assert_array_equal(clipper.inverse_transform(out), out)


@pytest.mark.parametrize("n_draws", [2, 3])
def test_clipper_at_epsilon_one(n_draws):
    """All of 5 x 20 ranges hold 9 of 10 records; half are at most five times too wide."""
    C = columns(1500 if n_draws == 3 else 150)[:, :4]
    true = np.ptp(np.quantile(C, [0.01, 0.99], axis=0), axis=0)
    widths = []
    for seed in range(20):
        clipper = PrivateQuantileClipper(lower=-1e5, upper=1e5, random_state=seed).fit(C)
        assert (plan_ranges(len(C), 4, 0.024).centre_grid is not None) == (n_draws == 3)
        inside = (clipper.lower_ <= C) & (clipper.upper_ >= C)
        assert inside.mean(axis=0).min() > (0.9 if n_draws == 3 else 0.6)
        assert (clipper.lower_ < clipper.upper_).all()
        widths.append((clipper.upper_ - clipper.lower_) / true)
    assert (np.median(widths, axis=0)[:3] < (5 if n_draws == 3 else 40)).all()


@pytest.mark.parametrize("feature_range", [(-1, 1), [0, 3.0]])
def test_clipper_rescales(feature_range):
    C = columns()
    params = {"epsilon": 100.0, "random_state": 0}
    clipper = PrivateQuantileClipper(feature_range=feature_range, **params).fit(C)
    plain = PrivateQuantileClipper(**params).fit(C)
    assert_array_equal(clipper.upper_, plain.upper_)
    out = clipper.transform(C)
    ends = np.clip(out, *feature_range)
    assert_array_equal(out, ends)
    share = (plain.transform(C) - plain.lower_) / (plain.upper_ - plain.lower_)
    assert_allclose(out, feature_range[0] + share * np.ptp(feature_range), atol=1e-9)
    assert_allclose(clipper.inverse_transform(out), plain.transform(C), rtol=1e-9, atol=1e-9)


@each("layout", [np.asarray, sparse.csr_array, sparse.csc_matrix])
@each("n_classes", [2, 3, None])
def test_selector_without_noise(n_classes, layout):
    rng = np.random.default_rng(0)
    C = rng.uniform(-2, 2, (600, 12)) * (rng.uniform(size=(600, 12)) < 0.5)
    z = C @ np.linspace(-1, 1, 12) + 3.0
    y = np.digitize(z, np.quantile(z, np.arange(1, n_classes) / n_classes)) if n_classes else z
    clipped = np.clip(C, -1.5, 1.5)
    if n_classes is None:
        cov = np.abs((clipped * (y - y.mean())[:, None]).sum(axis=0))
    else:
        member = y[:, None] == np.arange(n_classes)
        cov = np.abs(clipped.T @ (member - member.mean(axis=0))).max(axis=1)
    expected = np.sort(np.argsort(-cov)[:5])
    selector = PrivateFeatureSelector(
        n_features_to_select=5,
        task="classification" if n_classes else "regression",
        epsilon=1e6,
        feature_bound=1.5,
        target_bound=50.0,
        random_state=0,
    ).fit(layout(C), y)
    assert_array_equal(selector.get_support(indices=True), expected)
    out = selector.transform(layout(C))
    assert sparse.issparse(out) == (layout is not np.asarray)
    assert_array_equal(out.toarray() if sparse.issparse(out) else out, C[:, expected])


@each("layout", [np.asarray, sparse.csr_array])
@each("bound", [None, "auto"])
def test_selector_of_raw_columns(layout, bound):
    """On one side of 0 and in different units, where the bound 1 would leave constants."""
    rng = np.random.default_rng(0)
    C = rng.uniform(2, 4, (4000, 12)) * 10.0 ** rng.uniform(0, 3, 12)
    y = (C / C.mean(axis=0)) @ np.repeat([0.0, 1.0], [10, 2]) > 2.0
    for seed in range(3):
        selector = PrivateFeatureSelector(
            n_features_to_select=2, feature_bound=bound, epsilon=8.0, random_state=seed
        )
        assert selector.fit(layout(C), y).get_support(indices=True).tolist() == [10, 11]
        assert epsilon_of(selector.privacy_.event, selector.delta) <= 8.0
