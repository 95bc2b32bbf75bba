"""A private centre and scale of features, and predictions that clip as the fit does."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from skdpsco import (
    Ledger,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateRidge,
    RowBlocks,
)
from skdpsco.data.design import as_design, columns_of
from skdpsco.privacy import Budget, epsilon_of, mu_of
from skdpsco.scaling.conditioning import CONDITIONING, Conditioning, plan_conditioning

seeded_fits = pytest.mark.filterwarnings("ignore::skdpsco._random.PrivacyWarning")
CLASSIFIERS = [PrivateLogisticRegression, PrivateLogisticL1]
REGRESSORS = [PrivateRidge, PrivateLasso]
MODELS = CLASSIFIERS + REGRESSORS


def data(n=2000, d=5, seed=0, low=0.85, high=0.95):
    """Columns in a strip, labels and targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, high, (n, d))
    z = (X - X.mean(axis=0)) @ np.linspace(-1, 1, d)
    z *= 4.0 / z.std()
    return X, (z + rng.logistic(size=n) > 0).astype(int), 20.0 + z + rng.normal(size=n)


def fitted(make, epsilon=2.0, X=None, **options):
    rows, labels, y = data()
    if make in CLASSIFIERS:
        options, y = {"classes": [0, 1], **options}, labels
    X = rows if X is None else X
    return make(epsilon=epsilon, random_state=0, **options).fit(X, y), X, y


@seeded_fits
@pytest.mark.parametrize("make", MODELS)
def test_columns_in_a_strip_are_no_obstacle(make):
    model, X, y = fitted(make)
    assert model.score(X, y) > 0.75
    without, X, y = fitted(make, conditioning=None)
    assert model.score(X, y) > without.score(X, y) - 0.05


@seeded_fits
@pytest.mark.parametrize("make", MODELS)
def test_charge_and_report(make):
    ledger = Ledger(3.0, 1e-5)
    for options in ({}, {"ledger": ledger}):
        model, *_ = fitted(make, delta=1e-6, **options)
        assert epsilon_of(model.privacy_.event, 1e-6) <= 2.0
        assert any("centre" in line for line in str(model.privacy_).splitlines())
    without, *_ = fitted(make, delta=1e-6, conditioning=None)
    assert not any("centre" in line for line in str(without.privacy_).splitlines())
    if make in CLASSIFIERS:  # all noise is Gaussian, and the exact curve is used up
        mu = Budget(2.0, 1e-6).mu
        assert mu_of(fitted(make)[0].privacy_.event) == pytest.approx(mu, rel=1e-6)


@seeded_fits
@pytest.mark.parametrize(
    ("make", "plain", "X_low"),
    [
        (PrivateRidge, Ridge(alpha=500.0), 0.0),
        (PrivateLogisticRegression, LogisticRegression(C=0.005), 0.0),
    ],
)
def test_objective_is_that_of_the_columns_as_given(make, plain, X_low):
    """With hardly any noise: the penalty keeps its units, and the intercept goes unpenalised."""
    X, labels, y = data(low=X_low, high=1.0)
    X = X * np.array([1.0, 2.0, 0.5, 1.0, 1.0])
    y = labels if make in CLASSIFIERS else y
    penalty = {"C": 0.005, "classes": [0, 1]} if make in CLASSIFIERS else {"alpha": 500.0}
    model = make(
        epsilon=1e5,
        feature_bound=[1.0, 2.0, 0.5, 1.0, 1.0],
        random_state=0,
        **penalty,
    )
    model.fit(X, y)
    plain.fit(X, y)
    assert np.ravel(model.coef_) == pytest.approx(np.ravel(plain.coef_), abs=0.03)
    assert model.predict(X[:20]) == pytest.approx(plain.predict(X[:20]), abs=0.1)


@seeded_fits
@pytest.mark.parametrize("make", [PrivateLogisticL1, PrivateRidge])
def test_blocks_are_conditioned_alike(make):
    X, labels, y = data()
    y = labels if make in CLASSIFIERS else y
    options = {"classes": [0, 1]} if make in CLASSIFIERS else {}
    model = make(epsilon=4.0, random_state=0, **options)
    whole = model.fit(X, y).coef_
    blocks = RowBlocks.from_arrays(X, y, block_size=500)
    assert model.fit(blocks).coef_ == pytest.approx(whole, rel=1e-6)


@seeded_fits
@pytest.mark.parametrize("kind", [np.float32, np.asfortranarray])
def test_kinds_of_arrays_are_conditioned_alike(kind):
    X = data()[0].astype(np.float32).astype(float)
    model, *_ = fitted(PrivateLogisticRegression, X=X)
    other, *_ = fitted(PrivateLogisticRegression, X=kind(X))
    assert other.coef_ == pytest.approx(model.coef_, rel=1e-3)


@seeded_fits
def test_what_is_not_conditioned():
    X, labels, _ = data()
    for options in (
        {"X": sparse.csr_matrix(X), "solver": "coordinate-descent", "feature_bound": 1.0},
        {"solver": "sgd"},
    ):
        model, *_ = fitted(PrivateLogisticRegression, **options)
        bounds = np.full(5, getattr(model, "feature_bound_", 1.0))
        assert np.array_equal(model.feature_range_, bounds * [[-1.0], [1.0]])
    few = PrivateLogisticRegression(epsilon=0.01, classes=[0, 1]).fit(X, labels)
    assert np.array_equal(few.feature_range_, [[-1.0] * 5, [1.0] * 5])


@seeded_fits
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("make", MODELS)
def test_columns_have_scales_without_an_intercept(make, kind):
    """Their centre is 0, so that predictions of zeros are 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 5)) * [0.1, 1.0, 1.0, 1.0, 20.0]
    z = X @ [10.0, 1.0, -1.0, 1.0, 0.05]
    y = (z + rng.logistic(size=4000) > 0).astype(int) if make in CLASSIFIERS else z
    options = {"classes": [0, 1]} if make in CLASSIFIERS else {}
    model = make(epsilon=4.0, fit_intercept=False, random_state=0, **options).fit(kind(X), y)
    assert "scale of the features" in str(model.privacy_)
    assert np.all(model.intercept_ == 0.0)
    assert np.array_equal(-model.feature_range_[0], model.feature_range_[1])
    assert model.score(kind(X), y) > (0.78 if make in CLASSIFIERS else 0.97)
    ball = {"radius": 5.0, "feature_bound": 30.0} if hasattr(make(), "radius") else {}
    if ball:  # it is in units of the bounds, which scales would change
        given = model.set_params(**ball).fit(kind(X), y)
        assert np.array_equal(given.feature_range_, [[-30.0] * 5, [30.0] * 5])


@pytest.mark.parametrize("found", ["centre and scale", "centre", "scale"])
def test_release_without_noise(found):
    X, *_ = data(d=3)
    plan = plan_conditioning(2000, 3, 0.8, found)  # hardly any: more would widen the scale
    design = as_design(np.vstack([X[:-1], [[9.0, -9.0, 0.0]]]), np.full(3, 2.0), True)
    rng = np.random.Generator(np.random.PCG64(0))
    to = plan.release(design, np.zeros(2000), rng)
    if "centre" in found:
        assert to.centre == pytest.approx(X.mean(axis=0) / 2.0, abs=0.03)
        spread = float((X / 2.0).std())
    else:
        assert (to.centre == 0.0).all()
        spread = float(np.sqrt(np.square(X / 2.0).mean()))
    if found == "scale":
        assert (to.scale == 1.0).all()  # three times the spread is beyond the bounds
        assert to.mean_square == pytest.approx(np.full(3, spread**2), rel=0.2)
    elif "scale" in found:
        assert (np.abs(np.log2(to.scale / (3.0 * spread))) < 0.5).all()
    else:
        assert (to.scale == 1.0).all()
    assert (to.mean_square is None) != ("scale" in found)
    assert plan.name == f"{found} of the features"
    smallest, largest = plan.extremes[0].scale, plan.extremes[-1].scale
    assert (np.clip(to.scale, smallest, largest) == to.scale).all()


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_a_second_mean_is_nearer_than_the_first(kind):
    """Far from 0 its noise is that of the spread; around 0 there is as much as in one mean."""
    rng, n, d, mu, errors = np.random.default_rng(0), 2000, 20, 0.3, []
    for low in (0.85, -0.05):
        X = rng.uniform(low, low + 0.1, (n, d))
        plan = plan_conditioning(n, d, mu, sparse=kind is sparse.csr_matrix)
        design = as_design(kind(X), np.ones(d), True)
        centres = [plan.release(design, np.zeros(n), rng).centre for _ in range(9)]
        error = np.median(np.linalg.norm(np.array(centres) - X.mean(axis=0), axis=1))
        c = np.quantile(np.linalg.norm(X, axis=1), 0.9)
        errors.append(error / (2.0 * c / (n * mu) * np.sqrt(d / CONDITIONING.centre_share)))
    assert errors[0] < 0.25  # in units of what a single mean would have
    assert errors[1] < 1.5  # c is rounded up


def test_noise_is_no_centre():
    """At the smallest ratio that is conditioned, the factor is about 0."""
    n, d = 1000, 25
    mu = CONDITIONING.least_ratio * np.sqrt(d) / n
    X = as_design(np.random.default_rng(0).uniform(-1, 1, (n, d)), np.ones(d), True)
    plan = plan_conditioning(n, d, mu)
    rng = np.random.Generator(np.random.PCG64(0))
    centres = [plan.release(X, np.zeros(n), rng).centre for _ in range(20)]
    assert np.median([np.linalg.norm(centre) for centre in centres]) < 0.5 * np.sqrt(d)


def test_labels_have_a_better_centre_where_records_are_few():
    """The share is continuous in the budget, and the usual one at both ends."""
    n, d = 1000, 4
    ratios = np.geomspace(1.0, 1000.0, 400)
    shares, usual = (
        np.array([plan_conditioning(n, d, 2.0 * r / n, labelled=k).share for r in ratios])
        for k in (True, False)
    )
    # Where nothing corrects lengths of coefficients, their units are surer.
    surer = CONDITIONING.n_centred_counts * (CONDITIONING.centred_noise * 2.0 * ratios) ** -2.0
    least, most = CONDITIONING.centred_norm_share, CONDITIONING.most_centred_share
    more = shares - usual + np.maximum(np.minimum(surer, most) - least, 0.0)
    assert (more >= -1e-12).all()
    assert more[0] == pytest.approx(0.0, abs=1e-12)
    assert more[-1] == 0.0
    assert np.abs(np.diff(more)).max() < 0.01
    most = CONDITIONING.labelled_share - CONDITIONING.centre_share
    assert more.max() == pytest.approx(most, rel=0.05)
    assert ratios[more.argmax()] == pytest.approx(CONDITIONING.sure_ratio, rel=0.05)


@pytest.mark.parametrize("n_mu", [30.0, 40.0, 60.0, 150.0])
def test_mean_squares_are_not_far_too_small(n_mu):
    """Coefficients of regressions would be as much too long as their roots are too small."""
    n, d = 400, 10
    X = np.random.default_rng(0).uniform(-1, 1, (n, d))
    plan = plan_conditioning(n, d, n_mu / n)
    design = as_design(X, np.ones(d), True)
    least = []
    for seed in range(200):
        rng = np.random.Generator(np.random.PCG64(seed))
        found = plan.release(design, np.zeros(n), rng)
        least.append((found.mean_square * found.scale**2).min())
    assert np.mean(np.array(least) < 1.0 / 3.0 / 16.0) <= 0.01  # it was .08 at n mu = 40


@seeded_fits
@pytest.mark.parametrize("make", MODELS)
def test_predictions_clip_as_the_fit_does(make):
    X, labels, y = data()
    classifier = make not in REGRESSORS
    options = {"classes": [0, 1]} if classifier else {}
    model = make(random_state=0, feature_bound=1.0, **options)
    model.fit(X, labels if classifier else y)
    scores = model.decision_function if classifier else model.predict
    low, high = model.feature_range_
    assert (low >= -1.0).all()
    assert (high <= 1.0).all()
    far = 1e3 * np.where(np.random.default_rng(1).random((6, 5)) < 0.5, -1.0, 1.0)
    far[:, 2] = X[:6, 2]
    clipped = np.clip(far, low, high)
    linear = clipped @ np.ravel(model.coef_) + np.ravel(model.intercept_)[0]
    if not classifier:
        linear = np.clip(linear, *model.target_range_)
    assert scores(far) == pytest.approx(linear)
    parts, columns = np.repeat(far, 2, axis=1) * np.tile([3.0, -2.0], 5), np.repeat(range(5), 2)
    split = sparse.csr_matrix((parts.ravel(), np.tile(columns, 6), range(0, 61, 10)), shape=(6, 5))
    for other in (sparse.csr_matrix(far), split, far.astype(np.float32)):
        assert scores(other) == pytest.approx(linear, rel=1e-4)
    assert split.nnz == 60


def test_columns_get_scales_of_their_own_where_these_pay():
    """Without noise three deviations; the constant column one that is not 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4)) * [0.02, 0.04, 0.08, 0.0]
    X[::50] *= 3.0  # beyond what is clipped
    X += [0.5, -0.3, 0.0, 0.7]
    plan = plan_conditioning(4000, 4, 0.4)
    design = as_design(X, np.ones(4), True)
    to = plan.release(design, np.zeros(4000), np.random.Generator(np.random.PCG64(0)))
    assert to.scale[:3] == pytest.approx([0.06, 0.12, 0.24], rel=0.2)
    assert (np.diff(to.scale[:3]) > 0.0).all()
    assert 0.0 < to.scale[3] < to.scale[0]
    seen = np.clip((X - to.centre) / to.scale, -1.0, 1.0)
    np.testing.assert_allclose(np.square(seen).mean(axis=0)[:3], to.mean_square[:3], rtol=0.4)
    nothing = plan_conditioning(4000, 4, 0.009)
    assert "squares" in plan.grids
    assert "squares" not in nothing.grids


def tailed(n=4000, seed=0):
    """Delays, a rare indicator, a column with ten impossible values, and two others; targets."""
    rng = np.random.default_rng(seed)
    delay = np.minimum(rng.lognormal(-2.5, 1.0, n), 1.0)
    wrong = 0.1 * rng.uniform(-1, 1, n)
    wrong[:10] = 1.0
    X = np.column_stack([delay, rng.random(n) < 0.05, wrong, rng.uniform(-0.5, 0.5, (n, 2))])
    return X, 10.0 * delay + 4.0 * X[:, 1] + rng.normal(size=n)


def test_solvers_that_clip_gradients_see_tails():
    """Few records of columns with tails are clipped, and none that is impossible is kept."""
    X, _ = tailed()
    design, found = as_design(X, np.ones(5), True), []
    for width in (CONDITIONING.width, CONDITIONING.wide):
        plan = replace(plan_conditioning(4000, 5, 0.4), width=width)
        rng = np.random.Generator(np.random.PCG64(0))
        to = plan.release(design, np.zeros(4000), rng)
        assert (plan.extremes[0].scale <= to.scale).all()
        assert (to.scale <= 1.0 + np.abs(to.centre)).all()
        found.append((np.abs(X - to.centre) > to.scale).any(axis=1).mean())
    assert found[0] > 0.06
    assert found[1] < 0.04
    assert to.scale[2] < 1.0  # what is impossible is clipped


@seeded_fits
@pytest.mark.parametrize("make", REGRESSORS)
def test_tails_that_matter_are_kept(make):
    """Large values, and rare ones, that a model needs."""
    X, y = tailed()
    model = make(epsilon=4.0, random_state=0).fit(X, y)
    _, most = model.feature_range_
    assert most[0] > 0.6
    assert most[1] > 0.9
    assert model.score(X, y) > LinearRegression().fit(X, y).score(X, y) - 0.03


def test_penalties_are_those_of_the_user_s_units():
    """With hardly any noise, columns of different scales: scikit-learn's solution."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (3000, 3)) * [0.1, 0.5, 1.0]
    y = X @ [3.0, 1.0, -1.0] + rng.uniform(-0.3, 0.3, 3000)
    plain = Ridge(alpha=300.0).fit(X, y)
    model = PrivateRidge(epsilon=1e5, alpha=300.0, target_bound=4.0).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=2e-3)


def bag_of_words(n=4000, d=400, length=20):
    """Zeros and ones, few of them frequent, and labels of a planted model."""
    rng = np.random.default_rng(0)
    p = 1.0 / np.arange(10, d + 10)
    codes = rng.choice(d, (n, length), p=p / p.sum())
    X = np.zeros((n, d))
    X[np.arange(n)[:, None], codes] = 1.0
    z = X @ rng.normal(size=d)
    z = 4.0 * (z - z.mean()) / z.std()
    return X, (z + rng.logistic(size=n) > 0).astype(int), z


@seeded_fits
@pytest.mark.parametrize("make", [PrivateLogisticRegression, PrivateRidge])
def test_sparse_records_are_centred_in_arrays_and_blocks(make):
    dense, labels, z = bag_of_words()
    X = sparse.csr_matrix(dense)
    y, options = (labels, {"classes": [0, 1]}) if make in CLASSIFIERS else (z, {})
    model = make(epsilon=4.0, random_state=0, **options)
    whole = model.fit(X, y).coef_
    assert model.score(X, y) > (0.65 if make in CLASSIFIERS else 0.3)
    assert any("centre" in line for line in str(model.privacy_).splitlines())
    assert model.score(dense, y) == pytest.approx(model.score(X, y))
    blocks = RowBlocks.from_arrays(X, y, block_size=900)
    assert model.fit(blocks).coef_ == pytest.approx(whole, rel=1e-6)


@seeded_fits
def test_the_layout_has_no_say():
    """Sparse and dense rows have the same charge, clipping and passes, and nearly the same fit."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((4000, 8)) < 0.5, rng.uniform(0.8, 1.0, (4000, 8)), 0.0)
    X[:, :4] = rng.uniform(0.8, 1.0, (4000, 4))  # of which zeros are far
    y = X @ np.linspace(-3.0, 3.0, 8) + 0.3 * rng.normal(size=4000)
    models = [
        PrivateRidge(epsilon=8.0, feature_bound=1.0, random_state=0).fit(layout(X), y)
        for layout in (np.asarray, sparse.csr_matrix)
    ]
    assert models[0].privacy_.event == models[1].privacy_.event
    assert models[0].n_iter_ == models[1].n_iter_
    ranges = [model.feature_range_ for model in models]
    np.testing.assert_allclose(ranges[0], ranges[1], rtol=1e-5)
    assert (ranges[0][0, :4] > 0.0).all()
    assert models[0].coef_ == pytest.approx(models[1].coef_, rel=0.01, abs=0.01)
    zeros = np.zeros((2, 8))
    expected = models[1].predict(zeros)
    assert models[1].predict(sparse.csr_matrix(zeros)) == pytest.approx(expected)
    assert models[1].predict(sparse.csr_matrix(X)) == pytest.approx(models[1].predict(X))


def test_sparse_and_dense_records_have_the_same_scales():
    X = (np.random.default_rng(0).random((4000, 6)) < 0.01).astype(float)
    found = []
    for is_sparse in (False, True):
        plan = plan_conditioning(4000, 6, 100.0, sparse=is_sparse)
        design = as_design(sparse.csr_matrix(X) if is_sparse else X, np.ones(6), False)
        found.append(plan.release(design, np.zeros(4000), np.random.default_rng(0)))
    dense, of_sparse = found
    assert of_sparse.scale == pytest.approx(dense.scale, rel=1e-3)
    assert of_sparse.centre == pytest.approx(dense.centre, abs=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("far", [0.0, 0.9])
def test_sparse_rows_minus_a_centre_are_not_clipped_again(far, intercept):
    """Nor are they without an intercept, in a choice of columns that are far from 0."""
    rng = np.random.default_rng(0)
    X = far + 0.1 * rng.uniform(-2.0, 2.0, (9, 2))
    X[::4] = 0.0
    to = Conditioning(np.full(2, far), np.full(2, 0.1))
    dense, of_sparse = (
        columns_of(to.apply(as_design(kind(X), np.ones(2), intercept)), 0, 9, np.arange(2))
        for kind in (np.asarray, sparse.csr_matrix)
    )
    np.testing.assert_allclose(dense, of_sparse, atol=1e-12)


@seeded_fits
@pytest.mark.parametrize("make", [PrivateLinearClassifier, PrivateLinearRegressor])
def test_sparse_records_are_centred_if_gradients_are_projected(make):
    dense, labels, z = bag_of_words()
    X = sparse.csr_matrix(dense)
    y, options = (labels, {"classes": [0, 1]}) if make is PrivateLinearClassifier else (z, {})

    def fit(**others):
        return make(epsilon=4.0, random_state=0, **options, **others).fit(X, y)

    def is_centred(model):
        return any("centre" in line for line in str(model.privacy_).splitlines())

    model = fit()
    assert is_centred(model)
    assert model.score(X, y) > (0.65 if make is PrivateLinearClassifier else 0.3)
    low, high = model.feature_range_
    assert (low <= 0.0).all()
    assert (high >= 0.0).all()
    assert not is_centred(fit(radius=2.0))
    assert not is_centred(fit(solver="phased-sgd"))
    assert not is_centred(fit(row_norm=5.0))


@seeded_fits
@pytest.mark.parametrize("make", REGRESSORS)
def test_predictions_lie_in_the_range_of_targets(make):
    """So do those for records in a wrong unit: the fit has seen no target beyond it."""
    X, _, y = data()
    far = np.vstack([X, 1e6 * X])
    model = make(random_state=0).fit(X, y)
    low, high = model.target_range_
    assert low < np.median(y) < high
    predicted = model.predict(far)
    assert low <= predicted.min() < predicted.max() <= high
    linear = far @ model.coef_ + model.intercept_
    assert np.abs(linear).max() > 10.0 * max(-low, high)
