"""The estimators as scikit-learn, its tools and its users see them."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from cases import each
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

import skdpsco.base.private_estimator
from skdpsco import (
    Ledger,
    PrivateLasso,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    RowBlocks,
)
from skdpsco.losses import Huber, Quantile

# Seeds make the tests deterministic; tests/test_random.py tests the warning.
pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

BOTH = pytest.mark.parametrize("Estimator", [PrivateLasso, PrivateLogisticL1])


def data(n=500, d=4, seed=0):
    """Whole numbers in [-3, 3], so that every kind of array can hold them, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, (n, d)).astype(float)
    y = (X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n)) / 6
    return X, y


def target_of(Estimator, y, n_classes=2):
    if Estimator is PrivateLasso:
        return y
    return np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))


def fitted(Estimator, X, y, **params):
    return Estimator(**{"feature_bound": 3.0, "random_state": 0, **params}).fit(X, y)


def same(model, other):
    assert_array_equal(model.coef_, other.coef_)
    assert_array_equal(model.intercept_, other.intercept_)
    assert model.privacy_ == other.privacy_


@pytest.mark.skipif(
    not hasattr(estimator_checks, "check_array_api_mixed_inputs"),
    reason="this version of scikit-learn does not run the check on estimators without array API",
)
def test_scikit_learn_check_of_array_api():
    # SciPy reads the variable when it is imported. One process checks all linear models.
    code = (
        "from sklearn.utils.estimator_checks import parametrize_with_checks\n"
        "from skdpsco import linear_model as models\n"
        "linear = [models.PrivateLasso(), models.PrivateLogisticL1(), models.PrivateElasticNet(),\n"
        "          models.PrivateLogisticRegression(), models.PrivateRidge(),\n"
        "          models.PrivateLinearClassifier(), models.PrivateLinearRegressor()]\n"
        "for estimator, check in parametrize_with_checks(linear).args[1]:\n"
        "    if 'check_array_api_input' in repr(check):\n"
        "        check(estimator)\n"
        "        print('passed')\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == ["passed"] * 7


@each("kind", [list, pd.Series, pl.Series, *("object", "int64", "float32", "bool")])
def test_kinds_of_y_of_a_regression(kind):
    X, y = data()
    given = (6 * y).astype(kind) if isinstance(kind, str) else kind(y)
    expected = fitted(PrivateLasso, X, np.array(given, dtype=float), target_bound=6.0)
    same(fitted(PrivateLasso, X, given, target_bound=6.0), expected)


@pytest.mark.parametrize("classes", [None, ["no", "yes"]])
@pytest.mark.parametrize(
    "kind",
    [
        list,
        pd.Series,
        lambda y: pd.Series(y, dtype="category"),
        lambda y: pd.Series(y, dtype="string"),
        lambda y: pl.Series(y.tolist()),
        lambda y: y.astype(object),
    ],
    ids=["list", "pandas", "categories", "pandas string", "polars", "object"],
)
def test_kinds_of_labels(kind, classes):
    X, y = data()
    y = np.where(y > 0, "yes", "no")
    model = fitted(PrivateLogisticL1, X, kind(y), classes=classes)
    same(model, fitted(PrivateLogisticL1, X, y, classes=classes))
    assert list(model.classes_) == ["no", "yes"]
    assert set(model.predict(X)) <= {"no", "yes"}
    assert model.score(X, kind(y)) == np.mean(model.predict(X) == y)


@pytest.mark.parametrize("labels", [[0, 1], [-1, 1], [1.0, 2.0], [False, True], [7, 300]])
def test_numeric_labels(labels):
    X, y = data()
    y = np.array(labels)[(y > 0).astype(int)]
    model = fitted(PrivateLogisticL1, X, y, epsilon=5.0)
    assert_array_equal(model.classes_, labels)
    assert model.classes_.dtype == model.predict(X).dtype == y.dtype
    assert model.score(X, y) > 0.8
    assert_array_equal(model.coef_, fitted(PrivateLogisticL1, X, y > labels[0], epsilon=5.0).coef_)


def test_a_pickle_of_another_version_says_so(monkeypatch):
    model = PrivateLasso(epsilon=0.5)
    stored = pickle.dumps(model)
    assert vars(pickle.loads(stored)) == vars(model)  # no trace of the version
    monkeypatch.setattr(skdpsco.base.private_estimator, "__version__", "9.9")
    assert vars(copy.copy(model)) == vars(model)
    with pytest.warns(UserWarning, match=r"PrivateLasso was pickled by skdpsco 0\.1\.0, .* 9\.9"):
        pickle.loads(stored)


def test_fields_of_a_loss_are_set_like_parameters():
    model = PrivateLinearRegressor(loss=Quantile(0.5), target_bound=1.0)
    assert model.set_params(loss__level=0.9) is model
    assert model.loss == Quantile(0.9)
    assert clone(model).set_params(loss=Huber(2.0), loss__delta=3.0).loss == Huber(3.0)
    with pytest.raises(ValueError, match=r"has no field 'tau': \('level',\)"):
        model.set_params(loss__tau=0.1)
    assert model.loss == Quantile(0.9)
    with pytest.raises(ValueError, match="Invalid parameter 'unknown'"):
        model.set_params(unknown__level=0.9)


@pytest.mark.usefixtures("as_they_are")  # the units of conditioned features are others
@BOTH
@each("n_classes", [2, 3])
@each("fit_intercept", [True, False])
@each("n_iter", ["auto", 12])
@each("radius", ["auto", 2.0])
def test_path(Estimator, n_classes, fit_intercept, n_iter, radius):
    X, y = data()
    bounds = np.array([3.0, 1.0, 2.0, 6.0])
    options = {"fit_intercept": fit_intercept, "n_iter": n_iter, "radius": radius}
    y = target_of(Estimator, y, n_classes)
    model = fitted(Estimator, X, y, feature_bound=bounds, epsilon=5.0, **options)
    path = model.path_
    P = len(path.radius)
    K = () if Estimator is PrivateLasso or n_classes == 2 else (n_classes,)
    assert path.coef.shape == (P, *K, 4)
    assert path.intercept.shape == (P, *K)
    assert path.radius[0] == 0.0
    assert not path.coef[0].any()
    assert (np.diff(path.radius) > 0).all()
    if n_iter != "auto":
        assert P == n_iter + 1
    if radius != "auto":
        assert path.radius[-1] <= radius * (1 + 1e-9)
        assert path.radius[-1] <= model.radius_ * (1 + 1e-9)
    norms = (np.abs(path.coef) * bounds).reshape(P, -1).sum(axis=1) / bounds.max()
    assert (norms <= path.radius * (1 + 1e-9)).all()
    assert norms.max() > 0
    if Estimator is PrivateLogisticL1:
        assert (np.abs(path.intercept[0]) == 0).all()


@BOTH
def test_metadata_routing(Estimator):
    X, y = data()
    y = target_of(Estimator, y)
    weight = np.random.default_rng(1).uniform(0, 1, len(y))
    expected = fitted(Estimator, X, y, epsilon=5.0)
    metric = r2_score if Estimator is PrivateLasso else accuracy_score
    by_hand = metric(y, expected.predict(X), sample_weight=weight)
    assert expected.score(X, y, weight) == pytest.approx(by_hand)
    with sklearn.config_context(enable_metadata_routing=True):
        model = fitted(Estimator, X, y, epsilon=5.0)
        same(model, expected)
        assert model.score(X, y, sample_weight=weight) == expected.score(X, y, weight)
        pipeline = make_pipeline(StandardScaler(), Estimator(feature_bound=2.0, random_state=0))
        assert np.isfinite(pipeline.fit(X, y).score(X, y))
        scored = clone(model).set_score_request(sample_weight=True)
        search = GridSearchCV(scored, {"radius": [1.0, 2.0]}, cv=2, error_score="raise")
        search.fit(X, y)
        assert np.isfinite(search.best_score_)
        assert set(model.get_metadata_routing().fit.requests) == {"units"}


@pytest.mark.parametrize("absent", ["a", "bb", "z"])
@pytest.mark.parametrize("present", [["b"], ["b", "y"], ["b", "c", "y"]])
@pytest.mark.parametrize("route", [{}, {"radius": 2.0, "n_iter": 12}])
def test_declared_class_that_does_not_occur(absent, present, route):
    X, y = data()
    y = np.array(present)[target_of(PrivateLogisticL1, y, len(present))]
    model = fitted(PrivateLogisticL1, X, y, classes=[absent, *present], epsilon=5.0, **route)
    K = len(present) + 1
    assert list(model.classes_) == sorted([absent, *present])
    assert model.coef_.shape == ((K, 4) if K > 2 else (1, 4))
    p = model.predict_proba(X)
    assert p.shape == (500, K)
    assert p[:, list(model.classes_).index(absent)].mean() < 1 / K


@BOTH
def test_private_bounds(Estimator):
    """They cover the columns, with some room, in arrays, sparse matrices and blocks alike."""
    rng = np.random.default_rng(0)
    unit = rng.uniform(-1, 1, (3000, 4))
    y = unit @ [3.0, -2.0, 0.0, 1.0]
    y = y + rng.normal(size=3000) if Estimator is PrivateLasso else (y > 0).astype(int)
    X = unit * [6.0, 0.1875, 0.75, 24576.0]
    options = {} if Estimator is PrivateLasso else {"classes": [0, 1]}
    model = Estimator(epsilon=4.0, feature_bound=None, ledger=Ledger(4.0, 1e-6), **options)
    model.fit(X, y)  # which the ledger would refuse if it cost more
    largest = np.abs(X).max(axis=0)
    assert (model.feature_bound_ >= 0.9 * largest).all()
    assert (model.feature_bound_ <= 8.0 * largest).all()  # 3.2 times, and noise
    assert any("clipped to" in line for line in str(model.privacy_).splitlines())
    declared = Estimator(epsilon=4.0, feature_bound=model.feature_bound_, **options).fit(X, y)
    assert model.score(X, y) > declared.score(X, y) - 0.1
    blocks = RowBlocks.from_arrays(X, y, block_size=700)
    for records in ((sparse.csr_matrix(X), y), (blocks,)):
        other = Estimator(epsilon=4.0, feature_bound=None, **options).fit(*records)
        assert np.abs(np.log2(other.feature_bound_ / model.feature_bound_)).max() < 1.0
        assert other.score(X, y) > declared.score(X, y) - 0.2
