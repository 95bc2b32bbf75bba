"""What the privacy report of a pipeline says about costs, before and after a fit."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    LeaveOneOut,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from skdpsco import Ledger, PrivateLasso
from skdpsco.inspection import not_private_steps, privacy_report, private_steps
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
from skdpsco.privacy import Budget, GaussianEvent, epsilon_of, gaussian_epsilon, zcdp_epsilon
from skdpsco.privacy.report import PrivacyReport
from skdpsco.solvers import SGD, PhasedERM

PRIVATE, NOT = "private", "NOT private"
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (60, 3))
Y = X[:, 0] + 0.1 * rng.normal(size=60)


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


def columns(*transformers, **parameters):
    return ColumnTransformer([(f"c{k}", *one) for k, one in enumerate(transformers)], **parameters)


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
