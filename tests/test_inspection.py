"""The privacy report of pipelines: verdicts, what the caller vouches for, tables, costs."""

import dataclasses

import numpy as np
import pytest
from cases import each
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import BaggingRegressor, VotingClassifier, VotingRegressor
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    LeaveOneOut,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from skdpsco import (
    Ledger,
    PrivateLasso,
    PrivateLogisticL1,
    linear_model,
    model_selection,
    preprocessing,
)
from skdpsco.data import RowBlocks
from skdpsco.inspection import not_private_steps, privacy_report, private_steps
from skdpsco.inspection._steps import ALTERNATIVES
from skdpsco.linear_model import PrivateLinearClassifier, PrivateLogisticRegression
from skdpsco.model_selection import PrivateGridSearchCV
from skdpsco.preprocessing import (
    CategoricalDomainEncoder,
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateStandardScaler,
    PublicBoundsScaler,
    RowClipper,
)
from skdpsco.privacy import (
    Budget,
    GaussianEvent,
    Risk,
    epsilon_of,
    gaussian_epsilon,
    zcdp_epsilon,
)
from skdpsco.privacy.report import PrivacyReport
from skdpsco.solvers import SGD, PhasedERM

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


# What it says about costs, before and after a fit.


class Centre(TransformerMixin, BaseEstimator):
    """A private transformer without its noise."""

    def __init__(self, noise_multiplier=10.0, relation="replace-one"):
        self.noise_multiplier = noise_multiplier
        self.relation = relation

    def fit(self, X, y=None):
        event = GaussianEvent(self.noise_multiplier)
        self.privacy_ = PrivacyReport(
            epsilon_of(event, 1e-5), 1e-5, 0.5 / self.noise_multiplier**2, event, False, (),
            self.relation,
        )  # fmt: skip
        return self

    def transform(self, X):
        return X


class Wrapper(BaseEstimator):
    """Hands through what it wraps, as FrozenEstimator does, but fits it twice."""

    def __init__(self, estimator):
        self.estimator = estimator

    def __getattr__(self, name):
        if name.startswith("__") or name == "estimator":
            raise AttributeError(name)
        return getattr(self.estimator, name)

    def fit(self, X, y):
        self.estimator.fit(X, y).fit(X, y)
        return self


def test_one_private_step_has_its_own_guarantee():
    pipeline = make_pipeline(Normalizer(), PrivateLasso(epsilon=0.7, delta=1e-5))
    for report in (privacy_report(pipeline), privacy_report(pipeline.fit(X, Y))):
        assert (report.epsilon, report.delta) == (0.7, 1e-5)
    step = report.steps[1]
    assert step.rho == pipeline[-1].privacy_.rho == report.rho
    assert step.event == pipeline[-1].privacy_.event


def test_costs_add_up_in_zcdp():
    model = PrivateLasso(epsilon=0.7, delta=1e-6, solver="frank-wolfe", radius=1.0)
    pipeline = make_pipeline(Centre(), Centre(20.0), model).fit(X, Y)
    report = privacy_report(pipeline)
    rho = 1 / 200 + 1 / 800 + pipeline[-1].privacy_.rho
    assert report.rho == pytest.approx(rho)
    assert report.delta == 1e-5
    assert report.epsilon == pytest.approx(zcdp_epsilon(rho, 1e-5), rel=1e-9)
    assert report.epsilon < sum(step.epsilon for step in report.steps)
    # The order does not matter.
    backwards = privacy_report(Pipeline(pipeline.steps[::-1]))
    assert (backwards.rho, backwards.epsilon) == (report.rho, report.epsilon)


def test_gaussian_steps_have_the_exact_curve():
    report = privacy_report(make_pipeline(Centre(10.0), Centre(20.0)).fit(X))
    assert report.epsilon == pytest.approx(gaussian_epsilon(np.hypot(0.1, 0.05), 1e-5))


def test_nothing_private_costs_nothing():
    report = privacy_report(make_pipeline(Normalizer(), RowClipper()))
    assert (report.private, report.epsilon, report.delta, report.rho) == (True, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("ledger", [False, True])
def test_plans_of_all_steps_are_upper_bounds(ledger):
    ledger = Ledger(9.0, 1e-5) if ledger else None
    pipeline = make_pipeline(
        PrivateQuantileClipper(lower=-1.0, upper=1.0, ledger=ledger),
        PrivateStandardScaler(lower=-1.0, upper=1.0, ledger=ledger),
        PrivateFeatureSelector(n_features_to_select=2, task="regression", ledger=ledger),
        PrivateGridSearchCV(PrivateLasso(), {"radius": [1.0, 2.0]}, ledger=ledger),
    )
    planned = privacy_report(pipeline)
    report = privacy_report(pipeline.fit(X, Y))
    assert planned.private
    assert report.private
    assert report.epsilon <= planned.epsilon
    for step, plan in zip(report.steps, planned.steps, strict=True):
        assert plan.rho is None or step.rho <= plan.rho * (1 + 1e-8)
    assert (planned.rho is None) == (ledger is None)  # the search
    if ledger is not None:
        assert report.rho == pytest.approx(sum(charge.rho for charge in ledger.charges()))


class Meta(MetaEstimatorMixin, PrivateLasso):
    """May keep to epsilon and delta only."""


def test_a_plan_without_a_bound_in_zcdp():
    pipeline = make_pipeline(Meta(epsilon=0.5, delta=1e-7), PrivateLasso(), PrivateLasso())
    report, others = privacy_report(pipeline), privacy_report(make_pipeline(*pipeline[1:]))
    assert report.rho is report.steps[0].rho is None
    assert report.epsilon == others.epsilon + 0.5
    assert report.delta == others.delta + 1e-7
    pipeline[0].set_params(ledger=Ledger(1.0, 1e-6))
    assert privacy_report(pipeline).rho == others.rho + Budget(0.5, 1e-7).rho


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
def test_seeds_are_flagged():
    model = PrivateLasso(random_state=0)
    assert "SEEDED" in privacy_report(model).steps[0].note
    model.fit(X, Y)
    assert "SEEDED" in privacy_report(model).steps[0].note
    table = str(privacy_report(make_pipeline(Normalizer(), model))).splitlines()
    assert table[-1].endswith("SEEDED")
    assert "SEEDED" not in privacy_report(PrivateLasso().fit(X, Y)).steps[0].note


def test_reports_of_other_classes():
    pipeline = make_pipeline(Centre(), PrivateLasso())
    assert not privacy_report(pipeline).private  # it is not known what a fit would do
    assert privacy_report(pipeline.fit(X, Y)).private
    assert [step.name for step in not_private_steps(pipeline)] == ["centre"]  # a clone forgets
    other = privacy_report(Centre(relation="swap two columns").fit(X))
    assert other.steps[0].status == NOT
    assert "swap two columns" in other.steps[0].note
    added = Centre(relation="add-or-remove-one").fit(X)
    assert privacy_report(added).rho == pytest.approx(4.0 * added.privacy_.rho)
    assert "add-or-remove-one" in privacy_report(added).steps[0].note
    assert not privacy_report(Wrapper(PrivateLasso()).fit(X, Y)).private


# After a fit.


def test_fitted_composites():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "x", "y"), "c": X[:, 2]})
    transformer = columns(
        (make_pipeline(PublicBoundsScaler(0.0, 1.0), Centre()), ["a"]),
        (CategoricalDomainEncoder(["x", "y"]), ["b"]),
        remainder="passthrough",
        sparse_threshold=0,
    )
    model = TransformedTargetRegressor(PrivateLasso(target_bound=3.0), func=np.sinh,
                                       inverse_func=np.arcsinh, check_inverse=False)  # fmt: skip
    pipeline = make_pipeline(transformer, FeatureUnion([("all", "passthrough")]), model)
    before = privacy_report(pipeline)
    assert [step.name for step in before.steps if step.status == NOT] == [
        "columntransformer__c0__centre"
    ]
    report = privacy_report(pipeline.fit(frame, Y))
    assert report.private
    assert [step.name for step in report.steps] == [step.name for step in before.steps]
    costs = {step.name: step.rho for step in report.steps if step.status == PRIVATE}
    assert costs == {
        "columntransformer__c0__centre": 1 / 200,
        "transformedtargetregressor__regressor": model.regressor_.privacy_.rho,
    }


def test_what_is_fitted_counts_until_the_next_fit():
    transformer = columns((Centre(), [0]), sparse_threshold=0).fit(X)
    transformer.set_params(c0=StandardScaler())
    assert privacy_report(transformer).private
    assert [step.name for step in not_private_steps(transformer)] == ["c0"]


def test_density_decides_about_sparse_output():
    A = (rng.uniform(size=(10, 2)) < 0.45).astype(float)
    A[0] = 0.0
    other = A.copy()
    other[0] = 1.0
    transformer = columns(("passthrough", [0, 1]), sparse_threshold=A.mean() + 0.01)
    kinds = [sparse.issparse(transformer.fit_transform(sparse.csr_array(B))) for B in (A, other)]
    assert kinds == [True, False]  # a fitted attribute that one record decides
    assert not privacy_report(transformer).private
    assert not privacy_report(transformer.fit(sparse.csr_array(A))).private
    transformer.set_params(sparse_threshold=0)
    assert not privacy_report(transformer).private  # still that of the fit
    assert not not_private_steps(transformer)
    assert privacy_report(transformer.fit(sparse.csr_array(A))).private


def test_frozen_steps_count_once_and_are_not_set():
    scaler = Centre().fit(X)
    pipeline = make_pipeline(FrozenEstimator(scaler), PrivateLasso())
    report = privacy_report(pipeline)
    assert report.private
    assert report.rho == pytest.approx(1 / 200 + privacy_report(PrivateLasso()).rho)
    assert "frozen" in report.steps[0].note
    assert not_private_steps(pipeline) == []
    frozen = FrozenEstimator(PrivateLasso().fit(X, Y))
    assert private_steps(frozen) == private_steps(make_pipeline(Normalizer(), frozen)) == []
    # Fitted on other records: it costs these nothing.
    report = privacy_report(pipeline, record_wise=["frozenestimator"])
    assert report.rho == privacy_report(PrivateLasso()).rho


# Searches.

SEARCHES = {
    "grid": (GridSearchCV, {"epsilon": [0.05, 0.1], "radius": [1.0, 2.0, 3.0]}, {"cv": 3}),
    "two grids": (GridSearchCV, [{"delta": [1e-6, 1e-7]}, {"radius": [1.0]}], {}),
    "repeated": (GridSearchCV, {"radius": [1.0, 2.0]}, {"cv": RepeatedKFold(n_splits=2,
                                                                            n_repeats=2)}),
    "no refit": (GridSearchCV, {"radius": [1.0, 2.0]}, {"cv": ShuffleSplit(2), "refit": False}),
    "listed": (GridSearchCV, {"radius": [1.0]}, {"cv": [(range(30), range(30, 60))]}),
    "random": (RandomizedSearchCV, {"radius": [1.0, 2.0]}, {"n_iter": 2, "cv": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_count_their_fits(name):
    kind, grid, parameters = SEARCHES[name]
    ledger = Ledger(5.0, 1e-5)
    search = kind(PrivateLasso(epsilon=0.1, ledger=ledger), grid, **parameters)
    before = privacy_report(search).steps
    (step,) = privacy_report(search.fit(X, Y)).steps
    charges = [charge.rho for charge in ledger.charges()]
    assert f"; {len(charges)} fits: " in step.note
    assert step.status == NOT
    # At most: what is fitted in the end is one of the candidates.
    costliest = max(charges) if search.refit else 0.0
    assert step.rho == pytest.approx(sum(charges[: len(charges) - search.refit]) + costliest)
    assert step.epsilon == pytest.approx(zcdp_epsilon(step.rho, step.delta))
    assert before == (dataclasses.replace(step, event=None),)


def test_searches_whose_cost_is_not_known():
    lasso = PrivateLasso()
    for search, fits in [
        (GridSearchCV(lasso, {"radius": [1.0]}, cv=LeaveOneOut()), "depends on the data"),
        (GridSearchCV(lasso, {"radius": [1.0]}, cv=iter([(X, Y)])), "depends on the data"),
        (RandomizedSearchCV(lasso, {"epsilon": [1.0, 2.0]}, n_iter=3), "16 fits"),
        (GridSearchCV(LogisticRegression(), {"C": [1.0, 2.0]}), "11 fits"),
    ]:
        step = privacy_report(search).steps[0]
        assert fits in step.note
        assert step.rho is step.epsilon is None
    # Candidates that replace a step.
    pipeline = Pipeline([("a", PrivateLasso())])
    search = GridSearchCV(pipeline, {"a": [PrivateLasso(), PrivateLasso(epsilon=2.0), Centre()]})
    rho = [privacy_report(model).rho for model in (PrivateLasso(), PrivateLasso(epsilon=2.0))]
    assert privacy_report(search).steps[0].rho == pytest.approx(5 * sum(rho) + rho[1])
    search = RandomizedSearchCV(pipeline, {"a": [PrivateLasso(), PrivateLasso(epsilon=2.0)]})
    assert privacy_report(search).steps[0].rho is None


@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(solver="sgd"),
        PrivateLogisticRegression(solver=SGD(batch_size=10)),
        PrivateLinearClassifier(solver=PhasedERM(smoothing="randomised")),
    ],
)
def test_noise_on_samples_has_no_planned_rho(model):
    """It keeps to epsilon and delta by its own curve; a sum of fits in zCDP would be too small."""
    step = privacy_report(model).steps[0]
    assert (step.epsilon, step.rho) == (1.0, None)
    model = clone(model).set_params(ledger=Ledger(1.0, 1e-6))  # counts in zCDP
    assert privacy_report(model).steps[0].rho == Budget(1.0, 1e-6).rho
