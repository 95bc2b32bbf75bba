"""A private centre and scale of features, and predictions that clip as the fit does."""

import numpy as np
import pytest
from scipy import sparse

from skdpsco import (
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateRidge,
    RowBlocks,
)
from skdpsco.data.design import as_design, columns_of
from skdpsco.scaling.conditioning import Conditioning, plan_conditioning

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
