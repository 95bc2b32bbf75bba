"""Fitted linear models as plain pipelines of scikit-learn, and hints at its parameters."""

import inspect
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from cases import each
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

from skdpsco import (
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateGroupDRO,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMinimaxClassifier,
    PrivateMonotoneGLM,
    PrivateRidge,
    Schema,
)

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
N = 600
RNG = np.random.default_rng(0)
X = RNG.uniform(0, 2, (N, 3)) * [1.0, 5.0, 0.1]
Z = X @ [1.0, -0.2, 5.0]
BOUND = {"epsilon": 20.0, "feature_bound": [1.5, 10.0, 0.2]}  # the first column is clipped
MODELS = {
    "ridge": (PrivateRidge(**BOUND), Z),
    "lasso": (PrivateLasso(**BOUND), Z),
    "quantile": (PrivateLinearRegressor(loss="absolute", target_bound=3.0, **BOUND), Z),
    "binary": (PrivateLogisticRegression(**BOUND), np.where(Z > 0.5, "b", "a")),
    "three classes": (PrivateLogisticL1(**BOUND), np.digitize(Z, [0.2, 0.8])),
    "hinge": (PrivateLinearClassifier(loss="hinge", **BOUND), Z > 0.5),
    "groups": (PrivateGroupDRO(**BOUND), Z > 0.5),
    "minimax": (PrivateMinimaxClassifier(**BOUND), Z > 0.5),
    "additive": (PrivateAdditiveRegressor(epsilon=20.0, pairs=[("x0", "x2")]), Z),
    "additive classes": (PrivateAdditiveClassifier(epsilon=20.0), np.digitize(Z, [0.2, 0.8])),
}
METHODS = ("predict", "predict_proba", "decision_function")


def fitted(case, X=X):
    model, y = MODELS[case]
    groups = {"sensitive_features": np.arange(N) % 2} if case == "groups" else {}
    return clone(model).fit(X, y, **groups)


@pytest.mark.parametrize("case", MODELS)
def test_predictions_are_those_of_the_model(case):
    model = fitted(case)
    pipeline = model.to_sklearn()
    wide = np.vstack([X, 100.0 * X, -X])  # beyond the bounds, too
    for method in METHODS:
        assert hasattr(pipeline, method) == hasattr(model, method)
        if method == "predict" and is_classifier(model):
            assert_array_equal(pipeline.predict(wide), model.predict(wide))
        elif hasattr(model, method):
            expected = getattr(model, method)(wide)
            assert_allclose(getattr(pipeline, method)(wide), expected, rtol=1e-9, atol=1e-11)


COLUMNS = Schema({"age": {"bounds": [0, 90]}, "city": ["Rome", "Bern"], "member": "boolean"})
PAIRS = [("age", "dose"), ("city", "dose"), ("member", "city")]


@each(
    ("model", "bins"),
    [
        (PrivateAdditiveRegressor(pairs=None), None),
        (PrivateAdditiveRegressor(pairs=PAIRS, loss="huber"), None),
        (PrivateAdditiveClassifier(pairs=PAIRS), [0.5]),
        (PrivateAdditiveClassifier(pairs=PAIRS), [0.5, 1.5]),
    ],
)
def test_tables_with_categories_zeros_and_missing_values(model, bins):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "dose": np.where(rng.random(N) < 0.5, 0.0, 1e-5 * rng.normal(size=N)),
            "city": rng.choice(["Rome", "Bern", "Oslo"], N),
            "age": np.where(rng.random(N) < 0.2, np.nan, rng.uniform(0, 90, N)),
            "member": rng.random(N) < 0.5,
        }
    )
    y = (frame["dose"] > 0) + (frame["city"] == "Rome") + frame["age"].fillna(0) / 90
    y = y if bins is None else np.digitize(y, bins)
    model = clone(model).set_params(schema=COLUMNS, epsilon=20.0).fit(frame, y)
    assert model.shape_functions_["dose"].zero is not None
    wide = pd.concat([frame, frame.assign(dose=5.0, age=-1e9), frame.assign(dose=-5.0, city=None)])
    pipeline = model.to_sklearn()
    for method in METHODS:
        assert hasattr(pipeline, method) == hasattr(model, method)
        if hasattr(model, method):
            expected = getattr(model, method)(wide)
            assert_allclose(getattr(pipeline, method)(wide), expected, rtol=1e-9, atol=1e-11)


def test_names_of_features():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = fitted("ridge", frame)
    pipeline = model.to_sklearn()
    assert_allclose(pipeline.predict(frame), model.predict(frame), rtol=1e-9)
    with pytest.raises(ValueError, match="feature names should match"):
        pipeline.predict(frame[["b", "a", "c"]])


def test_sparse_records_are_passed_as_arrays():
    rows = sparse.csr_array(np.where(X > 0.5, X, 0.0))
    model = fitted("ridge", rows)
    pipeline = model.to_sklearn()
    assert_allclose(pipeline.predict(rows[:9].toarray()), model.predict(rows[:9]), rtol=1e-9)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        pipeline.predict(rows)


def test_neither_this_package_nor_numba_is_needed(tmp_path):
    model = fitted("binary")
    path = tmp_path / "pipeline.pickle"
    path.write_bytes(pickle.dumps((model.to_sklearn(), X[:9], model.predict(X[:9]))))
    code = (
        "import pickle, sys; sys.modules['numba'] = sys.modules['skdpsco'] = None\n"
        f"pipeline, X, y = pickle.load(open({str(path)!r}, 'rb'))\n"
        "assert (pipeline.predict(X) == y).all()"
    )
    subprocess.run([sys.executable, "-W", "error::FutureWarning", "-c", code], check=True)


def test_what_has_no_plain_counterpart():
    with pytest.raises(NotFittedError):
        PrivateRidge().to_sklearn()
    assert not hasattr(PrivateMonotoneGLM(), "to_sklearn")
    assert not hasattr(PrivateAdditiveRegressor(loss="poisson"), "to_sklearn")


@pytest.mark.parametrize(
    "case", ["ridge", "binary", "three classes", "hinge", "additive", "additive classes"]
)
def test_onnx(case):
    reason = "a converter of more than 100 MB, which `make test` does without"
    skl2onnx = pytest.importorskip("skl2onnx", reason=reason)
    runtime = pytest.importorskip("onnxruntime", reason=reason)
    model = fitted(case)
    options = {"zipmap": False} if is_classifier(model) else None
    # What an additive model reads may be missing, and ONNX knows that of float32 alone.
    rows = 3.0 * X.astype(np.float32 if case.startswith("additive") else np.float64)
    converted = skl2onnx.to_onnx(model.to_sklearn(), rows[:1], target_opset=18, options=options)
    session = runtime.InferenceSession(converted.SerializeToString())
    predicted = session.run(None, {"X": rows})[0].ravel()
    expected = model.predict(3.0 * X)
    if is_classifier(model):
        assert (predicted == expected).mean() > 0.995  # it computes in float32
    else:
        assert_allclose(predicted, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", MODELS)
def test_skops(case):
    io = pytest.importorskip("skops.io", reason="a package that nothing else here needs")
    pipeline = fitted(case).to_sklearn()
    data = io.dumps(pipeline)
    # A `SimpleImputer` keeps the dtype of what it was fitted to.
    types = ["numpy.dtype"] if case.startswith("additive") else []
    assert io.get_untrusted_types(data=data) == types
    assert_array_equal(io.loads(data, trusted=types).predict(X), pipeline.predict(X))


@each(
    ("Estimator", "name", "hint"),
    [
        (PrivateLasso, "alpha", "`radius` .* PrivateElasticNet"),
        (PrivateLinearRegressor, "alpha", "`radius` .* PrivateRidge"),
        (PrivateLogisticL1, "C", "`radius` .* PrivateLogisticRegression"),
        (PrivateLogisticRegression, "alpha", "`C`"),
        (PrivateLogisticRegression, "penalty", "Use l1_ratio: see docs/migrating"),
        (PrivateLogisticL1, "max_iter", "Use n_iter: see docs/migrating"),
        (PrivateLinearClassifier, "data_norm", "Use feature_bound: see docs/migrating"),
        (PrivateLasso, "standard_errors", "Fits to moments have them, and PrivateElasticNet"),
        (PrivateLogisticL1, "standard_errors", "PrivateLogisticRegression has them"),
        (PrivateMonotoneGLM, "standard_errors", "PrivateGammaRegressor have them"),
    ],
)
def test_parameters_of_scikit_learn_are_pointed_elsewhere(Estimator, name, hint):
    with pytest.raises(TypeError, match=f"^{Estimator.__name__} has no parameter '{name}'.*{hint}"):
        Estimator(**{name: 1.0})
    with pytest.raises(ValueError, match=f"has no parameter '{name}'.*{hint}"):
        Estimator().set_params(**{name: 1.0})
    with pytest.raises(TypeError, match="unexpected keyword argument 'unknown'"):
        Estimator(unknown=1.0)
    shown = inspect.signature(Estimator).parameters
    assert name not in shown
    assert shown.keys() == Estimator().get_params().keys()
