"""A private slope and offset of scores: laws of the fit to a table, and of models."""

import math

import numpy as np
import pytest
from scipy.special import expit

from skdpsco import (
    PrivateElasticNet,
    PrivateLasso,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateRidge,
    RowBlocks,
)
from skdpsco.scaling.calibration import (
    CALIBRATION,
    calibration_pays,
    known_records,
    plan_calibration,
    typical_scores,
)

MODELS = [
    PrivateLasso,
    PrivateLogisticL1,
    PrivateElasticNet,
    PrivateLogisticRegression,
    PrivateRidge,
]
seeded_fits = pytest.mark.filterwarnings("ignore::skdpsco._random.PrivacyWarning")
is_classifier = {PrivateLogisticL1, PrivateLogisticRegression}.__contains__


def data(n, d=10, shift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    z = X @ rng.normal(size=d) + shift
    return X, z, rng


def fitted(make, n=3000, epsilon=1.0, shift=0.0, seed=0, **params):
    X, z, rng = data(n, shift=shift, seed=seed)
    if is_classifier(make):
        params["classes"] = [0, 1]
        y = (rng.random(n) < expit(z)).astype(int)
    else:
        y = z + rng.normal(size=n)
    return make(epsilon=epsilon, **params).fit(X, y), X, y


# ---- the fit to a table


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("truth", [(1.5, 0.4), (0.4, -0.5), (1.0, 0.0)])
def test_hardly_any_noise_finds_slope_and_shift(squared, truth):
    plan = plan_calibration(1000, 400, 0.5, squared)  # the solver is expected to be far off
    x, counts, b = np.linspace(-0.5, 0.5, 8), np.full(8, 125.0), 0.1
    rho, _ = plan.link(truth[0] * x + b + truth[1])
    found = plan.fitted(x, counts, counts * rho, b, 1e-6)
    # Most of the way: the prior remains, beside the spread of the targets themselves.
    for value, aim, start in zip(found, truth, (1.0, 0.0), strict=True):
        assert abs(value - aim) <= 0.5 * abs(aim - start) + 1e-6


@pytest.mark.parametrize("squared", [False, True])
def test_much_noise_changes_little(squared):
    plan = plan_calibration(1000, 10, 0.5, squared)
    rng, x = np.random.default_rng(0), np.linspace(-0.5, 0.5, 8)
    for _ in range(20):
        counts, sums = rng.normal(125.0, 1e5, 8), rng.normal(0.0, 1e5, 8)
        slope, shift = plan.fitted(x, counts, sums, 0.0, 1e10)
        assert max(0.0, 1.0 - 3.0 * plan.prior[0]) <= slope < 1.0 + 3.0 * plan.prior[0]
        assert abs(shift) < 3.0 * plan.prior[0] + 1.0


@pytest.mark.parametrize("size", [1e-120, 1e-3, 1.0, 1e8])
@pytest.mark.parametrize("output", [0.0, 1e9, -1e9])
def test_whatever_is_released_the_result_is_finite(size, output):
    plan = plan_calibration(100, 3, 3.0, False)
    limits = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) * size
    for counts in (np.full(4, output), np.array([0.0, output, 0.0, 0.0])):
        x = typical_scores(limits, counts, size)
        assert (np.diff(x) >= 0.0).all()
        assert np.isfinite(plan.fitted(x, counts, -counts, 1e4, 100.0)).all()


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 0.3), (0.3, 0.4), (-0.2, 0.6)])
def test_typical_scores_are_the_means_of_normal_ones(mean, deviation):
    scores = np.random.default_rng(0).normal(mean, deviation, 100_000)
    sides = np.array([0.0, 0.175, 0.35, 0.7, 1.4])
    limits = np.append(-sides[:0:-1], sides)
    place = np.clip(np.searchsorted(limits, scores) - 1, 0, 7)
    means = [scores[place == k].mean() for k in range(8)]
    found = typical_scores(limits, np.bincount(place, minlength=8), 0.4)
    np.testing.assert_allclose(found, means, atol=0.04)


def test_the_share_falls_with_plenty_and_the_prior_with_it():
    """More budget: n mu of the release never falls, and slopes are believed ever closer to 1."""
    ratios = np.geomspace(5.0, 9e4, 200)
    known = [known_records(1000, 25, 5.0 * r / 1000) for r in ratios]
    assert (np.diff([k for k, _ in known]) >= 0.0).all()
    assert max(share for _, share in known) == CALIBRATION.share
    assert known[-1][1] < CALIBRATION.share / 100
    plans = [plan_calibration(1000, 25, 5.0 * r / 1000, False) for r in ratios]
    assert (np.diff([p.prior[0] for p in plans]) <= 0.0).all()
    assert plans[-1].prior[0] < 1e-3


@pytest.mark.parametrize(
    ("regression", "least"),
    [(False, CALIBRATION.least_records), (True, CALIBRATION.least_records_regression)],
)
def test_it_pays_from_some_records_on(regression, least):
    few = least / math.sqrt(CALIBRATION.share)
    assert not calibration_pays(1000, 10, 0.99 * few / 1000, regression)
    assert calibration_pays(1000, 10, 1.01 * few / 1000, regression)
    assert not calibration_pays(10**6, 1, 1.0, regression)  # there is nothing to mend


# ---- models


@pytest.mark.parametrize("make", MODELS)
def test_it_is_reported_and_may_be_switched_off(make):
    notes = [fitted(make, calibration=c)[0].privacy_.assumptions for c in ("auto", None)]
    assert [any("slope and offset" in line for line in lines) for lines in notes] == [True, False]
    for params in ({"fit_intercept": False}, {"epsilon": 0.01}):
        lines = fitted(make, **params)[0].privacy_.assumptions
        assert not any("slope and offset" in line for line in lines)


@pytest.mark.parametrize("make", MODELS)
def test_the_budget_is_the_same(make):
    with_table, without = (fitted(make, calibration=c)[0].privacy_ for c in ("auto", None))
    assert with_table.epsilon == without.epsilon
    assert with_table.rho <= without.rho * 1.05


@pytest.mark.parametrize("make", [PrivateLasso, PrivateLogisticL1])
def test_a_given_ball_is_not_left(make):
    for seed in range(3):
        model, *_ = fitted(make, radius=0.5, seed=seed)  # far smaller than the data ask for
        assert np.abs(model.coef_).sum() <= 0.5 * (1.0 + 1e-9)


@seeded_fits
@pytest.mark.parametrize("make", MODELS)
def test_little_noise_leaves_the_objective_alone(make):
    fits = [fitted(make, epsilon=1e4, calibration=c, random_state=0)[0] for c in ("auto", None)]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, atol=0.02)


@pytest.mark.parametrize("make", [PrivateLogisticRegression, PrivateLogisticL1])
def test_rare_positives_stay_rare(make):
    """500 records, one in forty positive: few noisy steps alone stop far above that."""
    X, _, _ = data(500)
    means = {
        c: [
            fitted(make, 500, 1.0, -4.5, seed, calibration=c)[0].predict_proba(X)[:, 1].mean()
            for seed in range(20)
        ]
        for c in ("auto", None)
    }
    assert np.mean(means["auto"]) < 0.93 * np.mean(means[None])


@seeded_fits
@pytest.mark.parametrize("make", [PrivateLogisticRegression, PrivateRidge])
def test_blocks_are_fitted_as_arrays_are(make):
    X, z, _ = data(2000)
    y = (z > 0).astype(int) if is_classifier(make) else z
    params = {"classes": [0, 1]} if is_classifier(make) else {}
    blocks = RowBlocks.from_arrays(X, y, block_size=900)
    whole = make(random_state=0, **params).fit(X, y)
    parts = make(random_state=0, **params).fit(blocks)
    assert "slope and offset" in str(parts.privacy_.assumptions)
    np.testing.assert_allclose(whole.coef_, parts.coef_, rtol=1e-3, atol=1e-3)
