"""A private centre and scale of features: releases, which fits find them, what they are for."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import balanced_accuracy_score, r2_score

from skdpsco import (
    PrivateGroupDRO,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMinimaxClassifier,
    PrivateMinimaxRegressor,
    PrivateMonotoneGLM,
    PrivateRidge,
    RowBlocks,
)
from skdpsco.data.design import as_design, columns_of
from skdpsco.scaling.conditioning import Conditioning, plan_conditioning

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdpsco.PrivacyWarning", "ignore:The noise will:skdpsco.UtilityWarning"
)
CLASSES, BOUND = {"classes": [0, 1]}, {"target_bound": 4.0}
GROUPS = {"groups": [0, 1]}
GLM, LINK = (PrivateMonotoneGLM, {}), (PrivateMonotoneGLM, {"link": "identity", **BOUND})
GROUPED, GROUPED_NUMBERS = (
    (PrivateGroupDRO, {**GROUPS, **given}) for given in (CLASSES, {"loss": "squared", **BOUND})
)
IN_BALL, NUMBERS_IN_BALL = (PrivateLinearClassifier, CLASSES), (PrivateLinearRegressor, BOUND)
MINIMAX = (PrivateMinimaxClassifier, CLASSES)
CLASSIFIERS = [GLM, GROUPED, MINIMAX, IN_BALL]
OF_LABELS = (PrivateLogisticRegression, PrivateLogisticL1, PrivateLinearClassifier)
REGRESSORS = [LINK, GROUPED_NUMBERS, NUMBERS_IN_BALL]
REGRESSORS += [(PrivateMinimaxRegressor, {"target_bound": 2.0})]


def strip(n=3000, d=5, low=0.85, high=0.95):
    """Columns in a strip, labels and targets."""
    rng = np.random.default_rng(0)
    X = rng.uniform(low, high, (n, d))
    z = (X - X.mean(axis=0)) @ np.linspace(-1, 1, d)
    z *= 2.0 / z.std()
    labels = (rng.random(n) < expit(1.5 * z)).astype(int)
    return X, labels, 0.5 * z + 0.2 * rng.normal(size=n)


def fitted(make, params, X, labels, y, **options):
    target = labels if (make, params) in CLASSIFIERS or make in OF_LABELS else y
    more = {"sensitive_features": np.arange(len(y)) % 2} if make is PrivateGroupDRO else {}
    return make(**{"random_state": 0, **params, **options}).fit(X, target, **more)


@pytest.mark.parametrize(("make", "params"), CLASSIFIERS + REGRESSORS)
def test_columns_in_a_strip_are_no_obstacle(make, params):
    X, labels, y = strip()
    model = fitted(make, params, X, labels, y, epsilon=8.0)
    predicted = model.predict(X)
    if (make, params) in CLASSIFIERS:
        quality = balanced_accuracy_score(labels, predicted > 0.5)
    else:
        quality = r2_score(y, predicted)
    # Draws of vertices need more records than sums for the same accuracy.
    assert quality > (0.3 if make is PrivateMinimaxRegressor else 0.72)
    low, high = model.feature_range_
    assert (low > 0.0).all()
    assert (high - low < 0.5).all()


@pytest.mark.parametrize("low", [-1.0, 0.0, 0.85])
def test_with_hardly_any_noise_models_in_balls_are_at_their_optimum(low):
    X, labels, y = strip(4000, 8, low, low + 0.1 if low > 0.5 else 1.0)
    for made, plain, target in (
        (IN_BALL, LogisticRegression(C=1e6), labels),
        (NUMBERS_IN_BALL, LinearRegression(), y),
    ):
        model = fitted(*made, X, labels, y, epsilon=100.0)
        assert model.score(X, target) > plain.fit(X, target).score(X, target) - 0.02


@pytest.mark.parametrize(
    ("made", "layout", "options"),
    [
        (IN_BALL, sparse.csr_matrix, {"solver": "phased-sgd"}),
        (IN_BALL, "mapped", {}),
        (IN_BALL, np.asarray, {"row_norm": 2.0}),
        (IN_BALL, np.asarray, {"fit_intercept": False, "radius": 2.0}),
        ((PrivateLogisticRegression, CLASSES), np.asarray, {"solver": "sgd"}),
        ((PrivateLogisticRegression, CLASSES), np.asarray, {"epsilon": 0.01}),
        ((PrivateLogisticRegression, CLASSES), sparse.csr_matrix, {"solver": "coordinate-descent"}),
        # No scales are found, so that columns are measured, which those minus a centre cannot be.
        *(
            (made, sparse.csr_array, {"radius": 3.0, "solver": solver})
            for made, solver in (
                (GROUPED, "gradient-descent"),
                (IN_BALL, "projected-descent"),
                (LINK, "gradient-descent"),
                (NUMBERS_IN_BALL, "projected-descent"),
            )
        ),
    ],
)
def test_what_is_not_conditioned(made, layout, options, tmp_path):
    X, labels, y = strip(600)
    np.save(tmp_path / "X.npy", X)
    given = np.load(tmp_path / "X.npy", mmap_mode="r") if layout == "mapped" else layout(X)
    options = {"epsilon": 8.0, "feature_bound": 1.0, **options}
    model = fitted(*made, given, labels, y, **options)
    assert np.array_equal(model.feature_range_, np.array([[-1.0] * 5, [1.0] * 5]))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(
    "make", [PrivateLogisticRegression, PrivateLogisticL1, PrivateRidge, PrivateLasso]
)
def test_columns_have_scales_without_an_intercept(make, kind):
    """Their centre is 0, so that predictions of zeros are 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 5)) * [0.1, 1.0, 1.0, 1.0, 20.0]
    z = X @ [10.0, 1.0, -1.0, 1.0, 0.05]
    y = (z + rng.logistic(size=4000) > 0).astype(int) if make in OF_LABELS else z
    options = CLASSES if make in OF_LABELS else {}
    model = make(epsilon=4.0, fit_intercept=False, random_state=0, **options).fit(kind(X), y)
    assert "scale of the features" in str(model.privacy_)
    assert np.all(model.intercept_ == 0.0)
    assert np.array_equal(-model.feature_range_[0], model.feature_range_[1])
    assert model.score(kind(X), y) > (0.78 if make in OF_LABELS else 0.97)
    if hasattr(model, "radius"):  # it is in units of the bounds, which scales would change
        given = model.set_params(radius=5.0, feature_bound=30.0).fit(kind(X), y)
        assert np.array_equal(given.feature_range_, [[-30.0] * 5, [30.0] * 5])


@pytest.mark.parametrize("found", ["centre and scale", "centre", "scale"])
def test_release_without_noise(found):
    X, *_ = strip(2000, 3)
    plan = plan_conditioning(2000, 3, 0.8, found)  # hardly any: more would widen the scale
    design = as_design(np.vstack([X[:-1], [[9.0, -9.0, 0.0]]]), np.full(3, 2.0), True)
    to = plan.release(design, np.zeros(2000), np.random.Generator(np.random.PCG64(0)))
    if "centre" in found:
        assert to.centre == pytest.approx(X.mean(axis=0) / 2.0, abs=0.03)
        spread = float((X / 2.0).std())
    else:
        assert (to.centre == 0.0).all()
        spread = float(np.sqrt(np.square(X / 2.0).mean()))
    if found == "centre and scale":
        assert (np.abs(np.log2(to.scale / (3.0 * spread))) < 0.5).all()
    else:
        assert (to.scale == 1.0).all()  # three times the spread is beyond the bounds
    if found == "scale":
        assert to.mean_square == pytest.approx(np.full(3, spread**2), rel=0.2)
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


@pytest.mark.parametrize(
    "make",
    [PrivateLogisticRegression, PrivateRidge, PrivateLinearClassifier, PrivateLinearRegressor],
)
def test_sparse_records_are_centred_in_arrays_and_blocks(make):
    dense, labels, z = bag_of_words()
    X = sparse.csr_matrix(dense)
    y, options = (labels, CLASSES) if make in OF_LABELS else (z, {})

    def fit(*records, **others):
        return make(epsilon=4.0, random_state=0, **options, **others).fit(*records)

    def is_centred(model):
        return "centre" in str(model.privacy_)

    model = fit(X, y)
    assert is_centred(model)
    assert model.score(X, y) > (0.65 if make in OF_LABELS else 0.3)
    if make in (PrivateLogisticRegression, PrivateRidge):
        assert model.score(dense, y) == pytest.approx(model.score(X, y))
        blocks = RowBlocks.from_arrays(X, y, block_size=900)
        assert fit(blocks).coef_ == pytest.approx(model.coef_, rel=1e-6)
        return
    low, high = model.feature_range_
    assert (low <= 0.0).all()
    assert (high >= 0.0).all()
    for others in ({"radius": 2.0}, {"solver": "phased-sgd"}, {"row_norm": 5.0}):
        assert not is_centred(fit(X, y, **others))


def test_the_layout_has_no_say():
    """Sparse and dense rows have the same charge, clipping and passes, and nearly the same fit."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((4000, 8)) < 0.5, rng.uniform(0.8, 1.0, (4000, 8)), 0.0)
    X[:, :4] = rng.uniform(0.8, 1.0, (4000, 4))  # of which zeros are far
    y = X @ np.linspace(-3.0, 3.0, 8) + 0.3 * rng.normal(size=4000)
    dense, model = (
        PrivateRidge(epsilon=8.0, feature_bound=1.0, random_state=0).fit(layout(X), y)
        for layout in (np.asarray, sparse.csr_matrix)
    )
    assert dense.privacy_.event == model.privacy_.event
    assert dense.n_iter_ == model.n_iter_
    np.testing.assert_allclose(dense.feature_range_, model.feature_range_, rtol=1e-5)
    assert (dense.feature_range_[0][:4] > 0.0).all()
    assert dense.coef_ == pytest.approx(model.coef_, rel=0.01, abs=0.01)
    for rows in (np.zeros((2, 8)), X):
        assert model.predict(sparse.csr_matrix(rows)) == pytest.approx(model.predict(rows))


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
