"""Narrower ranges in which regressions read features: laws of the choice, and of models."""

import numpy as np
import pytest
from cases import each
from scipy import sparse

from skdpsco import PrivateElasticNet, PrivateLasso, PrivateRidge, RowBlocks
from skdpsco.data.design import as_design
from skdpsco.inspection import plan
from skdpsco.privacy.events import leaves
from skdpsco.scaling.calibration import REGRESSION_CURVE, plan_calibration
from skdpsco.scaling.conditioning import Conditioning
from skdpsco.scaling.reading import READING, reading_share, write_narrow

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

RMS = 0.1  # of scaled features, whose widths are 0.6, 0.3 and 0.15
SCALING = Conditioning(np.zeros(4), np.ones(4), np.full(4, RMS**2))


def columns(n=4000, seed=0):
    """Columns with long tails, in [-1, 1], of root mean square about `RMS`."""
    return np.clip(RMS * np.random.default_rng(seed).standard_t(3, (n, 4)) / 1.5, -1.0, 1.0)


def chosen(X, y, w, mu=20.0, penalty=0.0, seed=0):
    n = len(y)
    found = plan_calibration(n, n, 4, mu, REGRESSION_CURVE, chooses_range=True).reading
    design = SCALING.apply(as_design(X, np.ones(4), True))
    rng = np.random.default_rng(seed)
    return found.release(np.array(w), design, y, np.full(4, 3.0 * RMS), penalty, rng)


@each("width", READING.widths)
def test_the_range_that_targets_follow_is_found_with_its_line(width):
    X = columns()
    y = 0.1 + np.clip(X, -width * RMS, width * RMS) @ [1.5, -0.9, 0.9, 0.0]
    found = chosen(X, y, [1.0, -0.6, 0.6, 0.0, 0.05], mu=1e4)
    np.testing.assert_allclose(found.limit, width * RMS)
    assert found.slope == pytest.approx(1.5, abs=0.15)
    assert found.shift == pytest.approx(0.05, abs=0.01)


@each("mu", [1.0, 20.0, 1e6])
def test_nothing_changes_where_there_is_nothing_to_gain(mu):
    X = columns()
    y = X @ [0.6, -0.3, 0.3, 0.0] + 0.1 * np.random.default_rng(1).normal(size=4000)
    w, *_ = np.linalg.lstsq(np.column_stack([X, np.ones(4000)]), y, rcond=None)
    assert all(chosen(X, y, w, mu, seed=seed) is None for seed in range(10))


def test_a_penalty_keeps_its_shrinkage():
    """Its slope is that of the loss where the solver ends."""
    X = columns()
    w = np.array([1.0, -0.6, 0.6, 0.0, 0.0])
    y = 1.5 * X @ w[:4]
    gradient = -np.mean((y - X @ w[:4]) * (X @ w[:4]))
    assert chosen(X, y, w, mu=1e4).slope == pytest.approx(1.5, abs=0.15)
    assert chosen(X, y, w, mu=1e4, penalty=-gradient) is None


def test_long_coefficients_are_noise():
    assert chosen(columns(10), np.zeros(10), [1e5, 0.0, 0.0, 0.0, 0.0], mu=1e4) is None


@each("single", [False, True])
def test_all_layouts_are_read_alike(single):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 4)) < 0.5, columns(300), 0.0)
    scaling = Conditioning(np.array([0.1, 0.0, -0.2, 0.05]), np.full(4, 0.5), None, single)
    w, limits = rng.normal(size=5), rng.uniform(0.05, 1.0, (3, 4))
    dense, thin = (as_design(make(X), np.ones(4), True) for make in (np.array, sparse.csr_matrix))
    u = np.clip((X - scaling.centre) / 0.5, -1.0, 1.0)
    expected = np.stack([np.clip(u, -limit, limit) @ w[:4] for limit in limits], axis=1)
    for read in (scaling.apply(dense), scaling.apply(dense, tiled=True), scaling.apply(thin)):
        scores = np.empty((300, 3))
        write_narrow(read, w, limits, scores)
        np.testing.assert_allclose(scores, expected, atol=1e-6 if single else 1e-12)


def test_the_share_is_small_and_vanishes():
    shares = [reading_share(1000, 9, mu)[0] for mu in np.geomspace(1e-3, 1e9, 200)]
    assert shares[0] == 0.0
    assert max(shares) == READING.share == 0.03
    begin = next(k for k, share in enumerate(shares) if share)
    assert all(a >= b for a, b in zip(shares[begin:-1], shares[begin + 1 :], strict=True))
    assert shares[-1] < 1e-6


@each("mu", [0.5, 2.0, 30.0])
def test_it_is_paid_for_where_it_is_made_only(mu):
    plans = [plan_calibration(1000, 1000, 4, mu, REGRESSION_CURVE, chooses_range=k) for k in (0, 1)]
    parts = [[leaf.noise_multiplier**-2.0 for leaf, _ in leaves(one.event)] for one in plans]
    share, _ = reading_share(1000, 4, mu)
    assert (share == 0.0) == (mu < 1.0) == (plans[1].reading is None)
    assert sum(parts[1][:2]) == pytest.approx(share * mu**2) if share else parts[0] == parts[1]
    assert parts[1][-len(parts[0]) :] == parts[0]


def saturating(n=3000, seed=0):
    """Columns with tails, which targets follow near the middle only."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_t(3, size=(n, 6))
    y = np.tanh(Z / 1.7).sum(axis=1) + 0.5 * rng.normal(size=n)
    return 10.0 ** np.arange(6.0) * Z, y


@each("make", [PrivateRidge, PrivateLasso, PrivateElasticNet])
def test_more_budget_does_not_spoil_predictions_far_out(make):
    X, y = saturating(7000)
    params: dict = {"epsilon": 30.0, "random_state": 0}
    model = make(**params).fit(X[:3000], y[:3000])
    wide = make(calibration=None, **params).fit(X[:3000], y[:3000])
    narrow, whole = (np.diff(one.feature_range_, axis=0) for one in (model, wide))
    assert (narrow < 0.7 * whole).all()
    score = model.score(X[3000:], y[3000:])
    assert score > wide.score(X[3000:], y[3000:]) + 0.05
    assert score > make(**params | {"epsilon": 1.0}).fit(X[:3000], y[:3000]).score(X, y) - 0.03
    assert any("ranges of the features" in line for line in str(model.privacy_).splitlines())
    clipped = np.clip(X, *model.feature_range_)
    np.testing.assert_allclose(model.predict(X), clipped @ model.coef_ + model.intercept_)
    np.testing.assert_allclose(model.to_sklearn().predict(X), model.predict(X))


@each("make", [np.asarray, np.float32, sparse.csr_matrix, RowBlocks])
def test_records_of_all_kinds(make):
    X, y = saturating()
    known = {"feature_bound": 10.0 ** np.arange(1.0, 7.0), "target_bound": 9.0}
    model = PrivateRidge(epsilon=30.0, random_state=0, **known)
    expected = PrivateRidge(epsilon=30.0, random_state=0, **known).fit(X, y)
    blocks = RowBlocks.from_arrays(X, y, block_size=700)
    found = model.fit(blocks) if make is RowBlocks else model.fit(make(X), y)
    assert any("ranges of the features" in line for line in str(found.privacy_).splitlines())
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=0.1)
    np.testing.assert_allclose(found.feature_range_, expected.feature_range_, rtol=0.1)


@each(
    "params",
    [
        {"clip_features": False},
        {"calibration": None},
        {"relation": "add-or-remove-one"},
        {"standard_errors": True},
    ],
)
def test_predictions_that_cannot_be_narrower_do_not_pay(params):
    X, y = saturating()
    model = PrivateRidge(epsilon=30.0, random_state=0, **params).fit(X, y)
    assert not any("ranges of the features" in line for line in str(model.privacy_).splitlines())


def test_several_targets_share_their_ranges():
    X, y = saturating()
    model = PrivateRidge(epsilon=30.0, random_state=0).fit(X, np.column_stack([y, -y]))
    assert not any("ranges of the features" in line for line in str(model.privacy_).splitlines())


def test_plans_tell_what_it_costs():
    planned = [
        plan(PrivateRidge(epsilon=30.0, clip_features=clips), n_samples=3000, n_features=6)
        for clips in (True, False)
    ]
    more, without = (
        [one.share for one in each.releases if one.stage == "calibration"] for each in planned
    )
    assert len(more) == len(without) + 2
    assert sum(more[:2]) == pytest.approx(READING.least_share, rel=0.1)


def test_the_fit_tends_to_that_without_a_choice_where_the_model_is_right():
    rng = np.random.default_rng(0)
    Z = rng.standard_t(3, size=(3000, 5))
    y = Z @ [1.0, -1.0, 2.0, 0.0, 0.5] + rng.normal(size=3000)
    for alpha in (0.0, 1000.0):
        fits = [
            PrivateRidge(alpha=alpha, epsilon=1e9, calibration=c, random_state=0).fit(100.0 * Z, y)
            for c in ("auto", None)
        ]
        np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-3, atol=1e-5)
        np.testing.assert_array_equal(fits[0].feature_range_, fits[1].feature_range_)
