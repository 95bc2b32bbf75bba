"""The privacy report of pipelines: verdicts, what the caller vouches for, tables."""

import numpy as np
import pytest
from cases import each
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import BaggingRegressor, VotingClassifier, VotingRegressor
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, RandomizedSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from skdpsco import (
    PrivateGridSearchCV,
    PrivateLasso,
    PrivateLogisticL1,
    linear_model,
    model_selection,
    preprocessing,
)
from skdpsco.data import RowBlocks
from skdpsco.inspection import not_private_steps, privacy_report, private_steps
from skdpsco.inspection._steps import ALTERNATIVES
from skdpsco.preprocessing import (
    CategoricalDomainEncoder,
    PrivateStandardScaler,
    PublicBoundsScaler,
    RowClipper,
)
from skdpsco.privacy import Risk

FREE, PRIVATE, NOT = "data-independent", "private", "NOT private"
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (60, 3))
Y = X[:, 0] + 0.1 * rng.normal(size=60)


class Own(TransformerMixin, BaseEstimator):
    """A transformer that nothing is known about."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


def last_columns(X):
    return [1, 2]


def centred(X):
    return X - X.mean()


def columns(*transformers, **parameters):
    return ColumnTransformer([(f"c{k}", *one) for k, one in enumerate(transformers)], **parameters)


ENCODER = CategoricalDomainEncoder(["x", "y"])
DENSE_ENCODER = OneHotEncoder(categories=[[0.0, 1.0]], sparse_output=False)
SPARSE_ENCODER = clone(DENSE_ENCODER).set_params(sparse_output=True)

# An estimator, and the status of its steps in order.
PIPELINES = {
    "one estimator": (PrivateLasso(), [PRIVATE]),
    "public bounds": (make_pipeline(PublicBoundsScaler(), PrivateLasso()), [FREE, PRIVATE]),
    "clipped rows": (make_pipeline(RowClipper(), PrivateLogisticL1()), [FREE, PRIVATE]),
    "scaled": (make_pipeline(StandardScaler(), PrivateLasso()), [NOT, PRIVATE]),
    "not private": (make_pipeline(Normalizer(), LogisticRegression()), [FREE, NOT]),
    "passthrough": (Pipeline([("a", "passthrough"), ("b", None), ("c", PrivateLasso())]),
                    [FREE, FREE, PRIVATE]),
    "nested": (make_pipeline(make_pipeline(Normalizer(), make_union(StandardScaler(), "drop",
                                                                    PolynomialFeatures())),
                             PrivateLasso()), [FREE, NOT, FREE, FREE, PRIVATE]),
    "memory": (Pipeline([("a", Normalizer()), ("b", PrivateLasso())], memory="cache"),
               [FREE, FREE, PRIVATE]),
    "memory of noise": (Pipeline([("a", PrivateStandardScaler()), ("b", PrivateLasso())],
                                 memory="cache"), [NOT, PRIVATE, PRIVATE]),
    "selection": (make_pipeline(SelectKBest(k=2), PrivateLasso()), [NOT, PRIVATE]),
    "names": (columns((PublicBoundsScaler(), ["a"]), (ENCODER, ["b"]), remainder="passthrough",
                      sparse_threshold=0), [FREE, FREE, FREE]),
    "names, perhaps of sparse columns": (columns((PublicBoundsScaler(), ["a"]), (ENCODER, ["b"])),
                                         [NOT, FREE, FREE]),
    "dense for sure": (columns((make_pipeline(ENCODER, PublicBoundsScaler()), ["a"]),
                               (PublicBoundsScaler(0.0, 1.0), ["b"])), [FREE, FREE, FREE]),
    "sparse, unless every cell is stored": (
        columns((SPARSE_ENCODER, ["a"]), ("passthrough", ["b"]), sparse_threshold=1),
        [FREE, FREE]),
    "sparse, or dense if every cell is stored": (
        columns((make_pipeline(SPARSE_ENCODER, Normalizer()), ["a"]), sparse_threshold=1),
        [NOT, FREE, FREE]),
    "sparse, or dense if one category is all": (
        columns((CategoricalDomainEncoder(["x"], sparse_output=True), ["a"]), sparse_threshold=1),
        [NOT, FREE]),
    "behind a dense step": (make_pipeline(ENCODER, columns(("passthrough", [0]))), [FREE, FREE]),
    "behind a sparse step": (make_pipeline(SPARSE_ENCODER, columns(("passthrough", [0]))),
                             [FREE, NOT, FREE]),
    "behind a private step": (make_pipeline(PrivateStandardScaler(), columns(("passthrough", [0]))),
                              [PRIVATE, FREE]),
    "behind an own step": (make_pipeline(Own(), columns(("passthrough", [0]))), [NOT, NOT, FREE]),
    "selector": (columns((PublicBoundsScaler(0.0, 1.0), make_column_selector("a"))), [FREE]),
    "numbers": (columns((PublicBoundsScaler(0.0, 1.0), [0]), (DENSE_ENCODER, [1])), [FREE, FREE]),
    "numbers, perhaps of a sparse matrix": (columns((PublicBoundsScaler(), [0])), [NOT, FREE]),
    "numbers, passed on": (columns(("passthrough", [0])), [NOT, FREE]),
    "sparse output": (columns((SPARSE_ENCODER, ["a"]), ("passthrough", ["b"])), [NOT, FREE, FREE]),
    "sparse output in the end": (
        columns((make_pipeline(Normalizer(), SPARSE_ENCODER), ["a"]), ("drop", ["b"])),
        [NOT, FREE, FREE, FREE]),
    "dense output": (columns((SPARSE_ENCODER, [0]), (Normalizer(), [1]), sparse_threshold=0),
                     [FREE, FREE]),
    "remainder": (columns(("drop", [0]), remainder=MinMaxScaler(), sparse_threshold=0),
                  [FREE, NOT]),
    "chosen columns": (columns((PublicBoundsScaler(0.0, 1.0), last_columns)), [NOT, FREE]),
    "function": (FunctionTransformer(centred), [NOT]),
    "target": (TransformedTargetRegressor(PrivateLasso()), [PRIVATE, FREE]),
    "target, nothing else": (TransformedTargetRegressor(), [NOT, FREE]),
    "target of functions": (
        TransformedTargetRegressor(PrivateLasso(), func=np.log1p, inverse_func=np.expm1,
                                   check_inverse=False), [PRIVATE, FREE]),
    "checked target": (
        TransformedTargetRegressor(PrivateLasso(), func=np.log1p, inverse_func=np.expm1),
        [PRIVATE, NOT]),
    "scaled target": (
        TransformedTargetRegressor(PrivateLasso(), transformer=StandardScaler(),
                                   check_inverse=False), [PRIVATE, NOT]),
    "clipped target": (
        TransformedTargetRegressor(PrivateLasso(), transformer=PublicBoundsScaler()),
        [NOT, PRIVATE, FREE]),
    "logarithms of noisy targets": (
        TransformedTargetRegressor(
            TransformedTargetRegressor(PrivateLasso(), func=np.log1p, inverse_func=np.expm1,
                                       check_inverse=False),
            transformer=PrivateStandardScaler(), check_inverse=False), [PRIVATE, NOT, PRIVATE]),
    "grid": (GridSearchCV(PrivateLasso(), {"radius": [1.0, 2.0]}), [NOT]),
    "grid of a pipeline": (
        GridSearchCV(make_pipeline(StandardScaler(), Normalizer(), PrivateLasso()), {}),
        [NOT, NOT]),
    "random": (RandomizedSearchCV(PrivateLasso(), {"radius": [1.0, 2.0]}), [NOT]),
    "voting": (VotingRegressor([("a", PrivateLasso()), ("b", "drop"), ("c", PrivateLasso())]),
               [PRIVATE, FREE, PRIVATE]),
    "voting of classes": (
        VotingClassifier([("a", PrivateLogisticL1()), ("b", LogisticRegression())]),
        [FREE, PRIVATE, NOT]),
    "fixed threshold": (FixedThresholdClassifier(PrivateLogisticL1(), threshold=0.9), [PRIVATE]),
    "bagging": (BaggingRegressor(PrivateLasso()), [NOT]),
    "calibration": (CalibratedClassifierCV(PrivateLogisticL1()), [NOT]),
    "one versus rest": (OneVsRestClassifier(PrivateLogisticL1()), [NOT]),
    "frozen": (make_pipeline(FrozenEstimator(StandardScaler()), PrivateLasso()), [NOT, PRIVATE]),
    "unknown": (Own(), [NOT]),
    "derived pipeline": (type("Derived", (Pipeline,), {})([("a", PrivateLasso())]), [NOT]),
}  # fmt: skip


@each("name", PIPELINES)
def test_status(name):
    estimator, expected = PIPELINES[name]
    report = privacy_report(estimator)
    assert [step.status for step in report.steps] == expected
    assert report.private == (NOT not in expected)
    assert (report.epsilon is None) == (report.rho is None) == (NOT in expected)
    assert all(step.note for step in report.steps if step.status == NOT)
    assert not_private_steps(estimator) == [step for step in report.steps if step.status == NOT]


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_the_layout_of_blocks_is_that_of_their_records(layout):
    X = layout(np.eye(4))
    blocks, step = RowBlocks.from_arrays(X), columns(("passthrough", [0]))
    assert privacy_report(step, X=blocks) == privacy_report(step, X=X)


def test_names_are_those_of_set_params():
    estimator = make_pipeline(
        make_union(columns((Normalizer(), ["a"]), remainder=MinMaxScaler()), StandardScaler()),
        TransformedTargetRegressor(PrivateLasso(), func=np.log1p, inverse_func=np.expm1),
    )
    names = [step.name for step in privacy_report(estimator).steps]
    union = "featureunion__columntransformer"
    assert names == [
        union,
        f"{union}__c0",
        f"{union}__remainder",
        "featureunion__standardscaler",
        "transformedtargetregressor__regressor",
        "transformedtargetregressor__transformer",
    ]
    assert set(names[:-1]) <= set(estimator.get_params(deep=True))


def test_alternatives_exist():
    names = {name for text in ALTERNATIVES.values() for name in text.split(" or ")}
    rooms = (linear_model, model_selection, preprocessing)
    assert names - {"HashingVectorizer"} <= {name for room in rooms for name in room.__all__}


# What the caller vouches for.

VOUCHED = make_pipeline(
    columns(
        (FunctionTransformer(centred), ["a"]),
        (PublicBoundsScaler(), last_columns),
        sparse_threshold=0,
    ),
    Pipeline([("own", Own()), ("log", FunctionTransformer(np.log1p, np.sqrt))]),
    PrivateLasso(),
)


def test_vouching():
    by_name = ["columntransformer__c0", "pipeline__own", "pipeline__log"]
    by_object = [centred, VOUCHED[1][0], VOUCHED[1][1]]
    for names in (by_name, by_object):
        report = privacy_report(VOUCHED, record_wise=[*names, last_columns])
        assert report.private
        assert not privacy_report(VOUCHED, record_wise=names).private
        assert not_private_steps(VOUCHED, record_wise=[*names, last_columns]) == []
        assert not_private_steps(VOUCHED, record_wise=names[1:]) != []
    notes = {step.name: step.note for step in report.steps}
    assert notes["pipeline__own"] == "declared by the caller"
    assert not privacy_report(FunctionTransformer(centred, centred), record_wise=[centred]).private


def test_vouching_for_what_was_cloned_by_a_fit():
    mine = FunctionTransformer(centred)
    transformer = columns((make_pipeline(mine), [0]), sparse_threshold=0).fit(X)
    assert transformer.named_transformers_["c0"][0] is not mine
    for item in (mine, "c0", "c0__functiontransformer", centred):
        assert privacy_report(transformer, record_wise=[item]).private


@each(
    ("record_wise", "error", "match"),
    [
        (["nonsense"], ValueError, "nonsense.*are no parts.*columntransformer__c0.*privatelasso"),
        ([np.log], ValueError, "no parts"),
        ([StandardScaler()], ValueError, "no parts"),
        (["privatelasso"], ValueError, "privatelasso.*has a cost"),
        ([VOUCHED[2]], ValueError, "privatelasso.*has a cost"),
        ("pipeline__own", TypeError, "record_wise must be a list"),
        (None, TypeError, "record_wise must be a list"),
        ([3], TypeError, "names of steps.*got int"),
    ],
)
def test_bad_record_wise(record_wise, error, match):
    for function in (privacy_report, not_private_steps):
        with pytest.raises(error, match=match):
            function(VOUCHED, record_wise=record_wise)


def test_no_vouching_for_costs():
    for estimator in (BaggingRegressor(PrivateLasso()), PrivateLasso().fit(X, Y)):
        with pytest.raises(ValueError, match="has a cost"):
            privacy_report(Pipeline([("a", estimator)]), record_wise=["a"])


@each("estimator", [None, "passthrough", 3, PrivateLasso, [PrivateLasso()]])
def test_bad_estimator(estimator):
    with pytest.raises(TypeError, match="estimator must be an instance"):
        privacy_report(estimator)


@pytest.mark.parametrize(
    ("parameters", "error"), [({"epsilon": -1.0}, ValueError), ({"delta": "no"}, TypeError)]
)
def test_bad_budget(parameters, error):
    with pytest.raises(error, match=f"^model: {next(iter(parameters))}"):
        privacy_report(Pipeline([("model", PrivateLasso(**parameters))]))


# Which steps are private, and how to reach them.


def test_private_steps():
    search = PrivateGridSearchCV(PrivateLasso(), {"radius": [1.0]})
    pipeline = Pipeline(
        [
            ("prep", columns((make_pipeline(PrivateLasso(epsilon=2.0)), [0]), (Normalizer(), [1]))),
            ("search", search),
            ("model", TransformedTargetRegressor(PrivateLasso(epsilon=3.0))),
        ]
    )
    found = dict(private_steps(pipeline))
    assert {prefix: step.epsilon for prefix, step in found.items()} == {
        "prep__c0__privatelasso__": 2.0,
        "search__": 1.0,  # and not what it contains
        "model__regressor__": 3.0,
    }
    pipeline.set_params(**{f"{prefix}epsilon": 7.0 for prefix in found})
    assert all(step.epsilon == 7.0 for _, step in private_steps(pipeline))
    assert search.estimator.epsilon == 1.0


# Tables.

TABLE = """\
step    estimator       status            epsilon  delta  rho (zCDP)  note
scale   RowClipper      data-independent
center  StandardScaler  NOT private                                   learns from the data, \
without noise; use PrivateStandardScaler or PublicBoundsScaler
model   PrivateLasso    private           0.5      1e-06  0.00770117  not fitted
total                   NOT private"""


def test_text():
    model = PrivateLasso(epsilon=0.5)
    steps = [("scale", RowClipper()), ("center", StandardScaler()), ("model", model)]
    report = privacy_report(Pipeline(steps))
    said, table = str(report).split("\n\n")
    assert table == TABLE
    assert said.startswith("NOT private: center. There is no guarantee for the whole.\n(rho is")
    alone = privacy_report(model)
    assert str(alone).startswith(str(Risk(0.5, 1e-6, alone.steps[0].event)))
    assert str(privacy_report(RowClipper())).startswith("No step learns from the data.")
    last = str(alone).splitlines()[-1]
    assert last.split() == ["total", "private", "0.5", "1e-06", "0.00770117"]


def test_html():
    report = privacy_report(Pipeline([("<b>&", Own()), ("model", PrivateLasso())]))
    html = report._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;&amp;" in html
    assert html.count("<tr>") == html.count("</tr>") == len(report.rows()) + 1 == 4
    assert html.count("<td ") == html.count("</td>") == 7 * 3
    assert html.startswith(
        "<p>NOT private: &lt;b&gt;&amp;. There is no guarantee for the whole.</p>"
    )
