"""Transformers and whole pipelines as scikit-learn's own, as ONNX, and as JSON."""

import json

import numpy as np
import pandas as pd
import pytest
from cases import each
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, Normalizer, StandardScaler

from skdpsco import (
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateGridSearchCV,
    PrivateLogisticRegression,
    PrivateRidge,
    Schema,
    TableEncoder,
    make_private_pipeline,
)
from skdpsco.inspection import pipeline_from_json, pipeline_to_json
from skdpsco.preprocessing import (
    CategoricalDomainEncoder,
    ColumnClipper,
    PrivateFeatureSelector,
    PrivatePCA,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    PublicBoundsScaler,
    RowClipper,
)
from skdpsco.privacy import (
    AddedPoissonSampledGaussianEvent,
    ComposedEvent,
    GaussianEvent,
    NoOpEvent,
    PoissonSampledGaussianEvent,
    PureDPEvent,
    RandomStoppingEvent,
    RepeatedEvent,
)
from skdpsco.privacy.events import event_of
from skdpsco.privacy.random_stopping import Poisson, TruncatedNegativeBinomial

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
N = 400
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)) * [1.0, 1e4, 1e-5] + [0.0, 1e5, 0.0]
LIMITS = {"lower": [-1.0, 1e5 - 2e4, -1e-5], "upper": [1.5, 1e5 + 1e4, 1e-5]}
Y = X[:, 0] > 0.2
BOUND = {"feature_bound": [2.0, 2e5, 1e-5]}
SELECTOR = PrivateFeatureSelector(n_features_to_select=2, classes=[False, True], **BOUND)
TRANSFORMERS = {
    "scaler": PrivateStandardScaler(**LIMITS),
    "means": PrivateStandardScaler(with_std=False, **LIMITS),
    "deviations": PrivateStandardScaler(with_mean=False, **LIMITS),
    "quantiles": PrivateQuantileClipper(**LIMITS),
    "mapped quantiles": PrivateQuantileClipper(feature_range=(0, 3), **LIMITS),
    "components": PrivatePCA(n_components=2, **BOUND),
    "white components": PrivatePCA(whiten=True, **BOUND),
    "selector": SELECTOR,
    "splines": PrivateSplineTransformer(columns=[0, 2], lower=-1, upper=1),
    "clipper": ColumnClipper(**LIMITS),
    "bounds": PublicBoundsScaler(**LIMITS, feature_range=(0, 2)),
}
SCHEMA = Schema(
    {
        "age": {"bounds": [0, 90], "missing": [-9, 999, 0.1]},
        "dose": {"bounds": [0, 1e-3], "missing": True, "fill": 2e-4},
        "city": {"categories": ["Bern", "Oslo"], "missing": ["?"]},
        "town": ["a", "b"],
        "kind": {"categories": [1, 2, 0.1], "missing": True},
        "member": "boolean",
        "vote": {"boolean": True, "missing": True},
        "ill": ["no", "yes"],
    },
    target="ill",
)


def among(*values):
    return RNG.choice(np.array(values, dtype=object), N)


def a_table():
    """Strings, codes, booleans, missing and unknown values."""
    frame = {
        "age": among(-9.0, 999.0, 0.1, np.nan, 30.0, 30.5, -8.9, 0.0, 90.0, 1e4, -50.0),
        "dose": np.where(RNG.random(N) < 0.3, np.nan, RNG.uniform(-1e-4, 2e-3, N)),
        "city": among("Bern", "Oslo", "Rome", "?", None, np.nan),
        "town": among("a", "b", "c"),
        "kind": among(1.0, 2.0, 0.1, np.nan, 7.0, 1.5).astype(float),
        "member": RNG.random(N) < 0.5,
        "vote": among(True, False, None),
    }
    return pd.DataFrame({**frame, "age": frame["age"].astype(float)})


TABLE = a_table()
ILL = np.where((TABLE["city"] == "Oslo") | (TABLE["age"] == 999.0), "yes", "no")
PIPELINES = {
    "linear": make_private_pipeline(SCHEMA, PrivateLogisticRegression(), epsilon=30.0),
    "sparse": make_private_pipeline(
        SCHEMA, PrivateLogisticRegression(), epsilon=30.0, sparse_output=True
    ),
    "with components": make_private_pipeline(
        SCHEMA, PrivatePCA(epsilon=10.0, feature_bound=1.0), PrivateLogisticRegression()
    ),
    "search": make_private_pipeline(
        SCHEMA, PrivateGridSearchCV(PrivateLogisticRegression(), {"C": [0.1, 1.0]}), epsilon=30.0
    ),
    "additive": PrivateAdditiveClassifier(schema=SCHEMA, epsilon=30.0, pairs=[("age", "city")]),
}


@each("name", list(TRANSFORMERS))
def test_transformers_return_the_same_numbers(name):
    model = clone(TRANSFORMERS[name])
    model.set_params(**{"epsilon": 20.0} if "epsilon" in model.get_params() else {})
    wide = np.vstack([X, 1e3 * X, -X])
    for of in (np.asarray, lambda rows: pd.DataFrame(rows, columns=["a", "b", "c"])):
        model.fit(of(X), Y)
        plain = model.to_sklearn()
        assert_allclose(plain.transform(of(wide)), model.transform(of(wide)), rtol=1e-9, atol=1e-9)
    other = of(wide)[["b", "a", "c"]]
    if isinstance(plain[0], ColumnTransformer):  # which finds columns by name
        assert_allclose(plain.transform(other), plain.transform(of(wide)))
    else:
        with pytest.raises(ValueError, match="feature names"):
            plain.transform(other)
    with pytest.raises(NotFittedError):
        clone(model).to_sklearn()


def frames_of(kind):
    if kind == "objects":
        return TABLE.astype(object)
    if kind == "string":  # in which pandas has NA
        return TABLE.astype({"city": kind, "town": kind})
    text = TABLE.astype({"city": "string"}) if kind == "category" else TABLE
    return text.astype({"city": "category", "town": kind})


@each("kind", ["objects", "category", "str", "string"])
def test_tables_are_encoded_as_the_encoder_does(kind):
    frame = frames_of(kind)
    encoder = TableEncoder(SCHEMA).fit(frame)
    expected = encoder.transform(frame)
    assert (expected[:, 1].sum(), expected[:, 6].sum()) > (0, 0)  # missing ages and cities
    assert_allclose(encoder.to_sklearn().transform(frame), expected, rtol=0, atol=1e-15)


@each(
    ("categories", "values"),
    [
        (["b", "a", None], ["a", "b", "c", None, np.nan, pd.NA]),
        (["b", "a"], ["a", "b", "c", None, np.nan, pd.NA]),
        ([3, 0.1, 0, np.nan], [0, 3, 0.1, 0.2, np.nan, -1e-30]),
    ],
)
def test_categories_are_encoded_as_the_encoder_does(categories, values):
    rows = np.array(values, dtype=object)[:, None]
    encoder = CategoricalDomainEncoder([categories]).fit(rows)
    plain = encoder.to_sklearn().transform(rows)
    if 0 in categories:  # a number that is tiny beside the others counts as 0
        plain[-1] = 0.0
    assert_allclose(plain, encoder.transform(rows), rtol=0, atol=1e-15)


@pytest.fixture(scope="module")
def fitted():
    return {name: clone(model).fit(TABLE, ILL) for name, model in PIPELINES.items()}


@each("name", list(PIPELINES))
def test_pipelines_predict_the_same(fitted, name):
    model, plain = fitted[name], fitted[name].to_sklearn()
    for rows in (TABLE, frames_of("string")):
        assert (plain.predict(rows) == model.predict(rows)).all()
        assert_allclose(plain.predict_proba(rows), model.predict_proba(rows), rtol=1e-9)


@each("name", ["linear", "with components", "additive"])
def test_onnx_of_raw_tables(fitted, name):
    reason = "a converter of more than 100 MB, which `make test` does without"
    skl2onnx = pytest.importorskip("skl2onnx", reason=reason)
    runtime = pytest.importorskip("onnxruntime", reason=reason)
    types = skl2onnx.common.data_types
    texts, truths = ["city", "town"], ["member"]
    kinds = dict.fromkeys(TABLE, (types.FloatTensorType, np.float32))
    kinds |= dict.fromkeys(texts, (types.StringTensorType, str))
    kinds |= dict.fromkeys(truths, (types.BooleanTensorType, bool))
    converted = skl2onnx.to_onnx(
        fitted[name].to_sklearn(),
        initial_types=[(column, kind([None, 1])) for column, (kind, _) in kinds.items()],
        target_opset=18,
        options={"zipmap": False},
    )
    session = runtime.InferenceSession(converted.SerializeToString())
    given = {column: TABLE[[column]].to_numpy().astype(kinds[column][1]) for column in TABLE}
    given |= {column: given[column].astype(object) for column in texts}
    _, found = session.run(None, given)
    assert_allclose(found, fitted[name].predict_proba(TABLE), atol=2e-6)


@each("name", [*PIPELINES, *TRANSFORMERS, "regression"])
def test_json(fitted, name):
    if name in PIPELINES:
        model, rows = fitted[name], frames_of("string")
    elif name == "regression":
        model, rows = PrivateAdditiveRegressor(epsilon=20.0, pairs=[("x0", "x1")]).fit(X, Y), X
    else:
        model, rows = clone(TRANSFORMERS[name]).fit(X, Y), X
    text = pipeline_to_json(model)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    again, reports = pipeline_from_json(text)
    expected = [model] if not hasattr(model, "steps") else [step for _, step in model.steps]
    expected = [step.privacy_ for step in expected if hasattr(step, "privacy_")]
    assert list(map(str, reports.values())) == list(map(str, expected))
    assert [one.event for one in reports.values()] == [one.event for one in expected]
    method = "transform" if name in TRANSFORMERS else "predict_proba"
    method = method if hasattr(again, method) else "predict"
    own = getattr(model.to_sklearn(), method)(rows)
    assert_allclose(getattr(again, method)(rows), own, rtol=1e-12, atol=1e-12)


def test_nested_steps_leave_and_others_are_named():
    columns = ColumnTransformer([("a", PrivateStandardScaler(**LIMITS), [0, 1, 2])])
    steps = columns, make_pipeline(Normalizer(), ColumnClipper()), PrivateRidge()
    pipeline = make_private_pipeline(*steps, epsilon=20.0).fit(X, X[:, 0])
    plain = pipeline.to_sklearn()
    assert_allclose(plain.predict(X), pipeline.predict(X), rtol=1e-9)
    assert "skdpsco" not in pipeline_to_json(pipeline)
    pipeline = make_private_pipeline(RowClipper(), PrivateRidge(epsilon=20.0, feature_bound=1.0))
    with pytest.raises(TypeError, match=r"RowClipper has no counterpart .* exactly the same"):
        pipeline.fit(X, X[:, 0]).to_sklearn()
    for step, error, message in (
        (Binarizer(), TypeError, "holds Binarizer"),
        (
            StandardScaler(),
            ValueError,
            "what 'standardscaler' learnt from the records has no noise",
        ),
    ):
        pipeline = make_pipeline(step, PrivateRidge(epsilon=20.0, feature_bound=1.0))
        with pytest.raises(error, match=message):
            pipeline_to_json(pipeline.fit(X, X[:, 0]))


@each(
    "event",
    [
        NoOpEvent(),
        ComposedEvent((RepeatedEvent(GaussianEvent(0.3), 4), PureDPEvent(1e-9))),
        RandomStoppingEvent(0.1, TruncatedNegativeBinomial(-0.5, 0.1)),
        RandomStoppingEvent(0.1, Poisson(2.0)),
        PoissonSampledGaussianEvent(0.1, 0.8),
        AddedPoissonSampledGaussianEvent(0.1, 0.8),
    ],
)
def test_events_are_read_from_their_repr(event):
    assert event_of(repr(event)) == event


@each("text", ["open('x')", "GaussianEvent(open)", "3", "GaussianEvent(", "Event()", "x.y(a=1)"])
def test_other_text_is_no_event(text):
    with pytest.raises((ValueError, TypeError, SyntaxError)):
        event_of(text)


def test_other_text_is_no_pipeline():
    text = pipeline_to_json(clone(TRANSFORMERS["scaler"]).fit(X))
    for old, new in (
        ('"format": 1', '"format": 2'),
        ("MinMaxScaler", "PowerTransformer"),
        ('"tuple"', '"code"'),
        ('"pipeline"', '"line"'),
        ('"event": "', '"event": "open('),
    ):
        assert old in text
        with pytest.raises(ValueError, match=r"^text must|malformed"):
            pipeline_from_json(text.replace(old, new))
    for wrong in ("[]", "{", None):
        with pytest.raises(ValueError, match=r"^text must"):
            pipeline_from_json(wrong)
