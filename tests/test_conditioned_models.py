"""Models of groups, maximal losses, links and in balls: centre and scale, and their optima."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import balanced_accuracy_score, r2_score

from skdpsco import (
    PrivateGroupDRO,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateMinimaxClassifier,
    PrivateMinimaxRegressor,
    PrivateMonotoneGLM,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdpsco.PrivacyWarning", "ignore:The noise will:skdpsco.UtilityWarning"
)

CLASSES = {"classes": [0, 1]}
GROUPS = {"groups": [0, 1], **CLASSES}
CLASSIFIERS = [
    (PrivateMonotoneGLM, {}),
    (PrivateGroupDRO, GROUPS),
    (PrivateMinimaxClassifier, CLASSES),
    (PrivateLinearClassifier, CLASSES),
]
REGRESSORS = [
    (PrivateMonotoneGLM, {"link": "identity", "target_bound": 4.0}),
    (PrivateGroupDRO, {"loss": "squared", "target_bound": 4.0, "groups": [0, 1]}),
    (PrivateLinearRegressor, {"target_bound": 4.0}),
    (PrivateMinimaxRegressor, {"target_bound": 2.0}),
]
MODELS = CLASSIFIERS + REGRESSORS
each_model = pytest.mark.parametrize(("make", "params"), MODELS)


def planted(n=3000, d=5, low=0.85, high=0.95):
    """Columns in a strip, labels and targets."""
    rng = np.random.default_rng(0)
    X = rng.uniform(low, high, (n, d))
    z = (X - X.mean(axis=0)) @ np.linspace(-1, 1, d)
    z *= 2.0 / z.std()
    labels = (rng.random(n) < expit(1.5 * z)).astype(int)
    return X, labels, 0.5 * z + 0.2 * rng.normal(size=n)


def fitted(make, params, X, labels, y, **options):
    target = labels if (make, params) in CLASSIFIERS else y
    more = {"sensitive_features": np.arange(len(y)) % 2} if make is PrivateGroupDRO else {}
    return make(**{"random_state": 0, **params, **options}).fit(X, target, **more)


def quality(make, params, model, X, labels, y):
    predicted = model.predict(X)
    if (make, params) not in CLASSIFIERS:
        return r2_score(y, predicted)
    return balanced_accuracy_score(labels, predicted > 0.5)


@each_model
def test_columns_in_a_strip_are_no_obstacle(make, params):
    data = planted()
    model = fitted(make, params, *data, epsilon=8.0)
    # Draws of vertices need more records than sums for the same accuracy.
    least = 0.3 if make is PrivateMinimaxRegressor else 0.72
    assert quality(make, params, model, *data) > least
    low, high = model.feature_range_
    assert (low > 0.0).all()
    assert (high - low < 0.5).all()
    far = np.array([[1e3, -1e3, 0.9, 0.0, 1.0]])
    assert model.predict(far) == pytest.approx(model.predict(np.clip(far, low, high)))


@pytest.mark.parametrize("low", [-1.0, 0.0, 0.85])
def test_with_hardly_any_noise_models_in_balls_are_at_their_optimum(low):
    X, labels, y = planted(4000, 8, low, low + 0.1 if low > 0.5 else 1.0)
    for (make, params), plain, target in (
        (CLASSIFIERS[3], LogisticRegression(C=1e6), labels),
        (REGRESSORS[2], LinearRegression(), y),
    ):
        model = fitted(make, params, X, labels, y, epsilon=100.0)
        best = plain.fit(X, target).score(X, target)
        assert model.score(X, target) > best - 0.02


def test_what_is_not_conditioned(tmp_path):
    X, labels, y = planted(400)
    np.save(tmp_path / "X.npy", X)
    whole = np.array([[-1.0] * 5, [1.0] * 5])
    make, params = CLASSIFIERS[3]
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for given, options in (
        (sparse.csr_matrix(X), {"solver": "phased-sgd"}),
        (mapped, {}),
        (X, {"row_norm": 2.0}),
        (X, {"fit_intercept": False, "radius": 2.0}),
    ):
        options = {"feature_bound": 1.0, **options}
        model = fitted(make, params, given, labels, y, epsilon=4.0, **options)
        assert np.array_equal(model.feature_range_, whole)


@pytest.mark.parametrize(
    ("make", "params", "solver"),
    [
        (*CLASSIFIERS[1], "gradient-descent"),
        (*CLASSIFIERS[3], "projected-descent"),
        (*REGRESSORS[0], "gradient-descent"),
        (*REGRESSORS[2], "projected-descent"),
    ],
)
def test_descents_fit_sparse_records_in_a_given_ball_as_they_are(make, params, solver):
    """No scales are found, so that columns are measured, which those minus a centre cannot be."""
    X, labels, y = planted(600)
    options = {"radius": 3.0, "solver": solver, "epsilon": 8.0}
    model = fitted(make, params, sparse.csr_array(X), labels, y, **options)
    assert np.array_equal(model.feature_range_, np.array([[-1.0] * 5, [1.0] * 5]))
