"""What searches and cross-validation do not trust: layouts, fits, and what a process remembers."""

import importlib
import pickle
import sys
import warnings
from collections import Counter
from itertools import combinations, product
from typing import ClassVar

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import each
from scipy import sparse
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils import check_random_state

from skdpsco import Ledger, PrivateLasso, PrivateLogisticL1
from skdpsco._random import without_warnings
from skdpsco.group_dro import PrivateGroupDRO
from skdpsco.inspection import privacy_report
from skdpsco.inspection._record_wise import UNKNOWN, StepInput, layout_of_records, output_of
from skdpsco.model_selection import (
    PrivateGridSearchCV,
    _allotment,
    _selection,
    make_private_scorer,
    private_cross_val_score,
)
from skdpsco.model_selection._fitting import Part, in_parallel
from skdpsco.preprocessing import (
    CategoricalDomainEncoder,
    ColumnClipper,
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateStandardScaler,
    PublicBoundsScaler,
)
from skdpsco.privacy import NoOpEvent, Poisson, ZCDPEvent, _cache
from skdpsco.solvers.lp_ball import tree as _tree
from skdpsco.solvers.synthesis import contrasts as _contrasts

N = 80
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (N, 3))
Y = (X[:, 0] > 0).astype(int)
MODEL = PrivateLogisticL1(classes=[0, 1])
SEARCH = {"epsilon": 5.0, "strategy": "composition"}
CELLS = (rng.uniform(size=(20, 3)) < 0.5).astype(float)
ENCODER = CategoricalDomainEncoder([0, 1], sparse_output=True)


def each_entrance(estimator, X=X, y=Y, **options):
    """Call everything that fits an estimator under one budget, with a ledger that stays unspent."""
    for call in (
        lambda ledger: PrivateGridSearchCV(
            estimator, {}, ledger=ledger, **{**SEARCH, **options}
        ).fit(X, y),
        lambda ledger: private_cross_val_score(
            estimator, X, y, epsilon=5.0, cv=2, ledger=ledger, **options
        ),
    ):
        ledger = Ledger(50.0, 1e-6)
        yield lambda call=call, ledger=ledger: call(ledger), ledger


def refuses(estimator, match, error=(ValueError, TypeError), **data):
    for call, ledger in each_entrance(estimator, **data):
        with pytest.raises(error, match=match):
            call()
        assert ledger.charges() == []


def accepts(estimator, **data):
    for call, ledger in each_entrance(estimator, **data):
        call()
        assert len(ledger.charges()) == 1


# --- layout


def columns(*parts, **parameters):
    named = [(f"c{k}", part, [k]) for k, part in enumerate(parts)]
    return ColumnTransformer(named, **parameters)


def records(kind, cells):
    if kind == "frame":
        return pd.DataFrame(cells).astype({1: pd.SparseDtype(float, 0.0)})
    return sparse.csr_array(cells) if kind == "sparse" else cells


PARTS = [
    "passthrough",
    "drop",
    ENCODER,
    CategoricalDomainEncoder([1], sparse_output=True),
    PublicBoundsScaler(),
    PublicBoundsScaler(0.0, 1.0),
    make_pipeline(Normalizer(), PolynomialFeatures(2)),
    FeatureUnion([("a", Normalizer()), ("b", PublicBoundsScaler())]),
]


@pytest.mark.parametrize(
    ("kind", "threshold"), [*product(["dense", "sparse"], [0, 0.5, 1]), ("frame", 0.5)]
)
def test_a_layout_that_is_said_to_be_known_is_that_of_all_data(kind, threshold):
    n_known = 0
    for parts in [(*pair, "drop") for pair in combinations(PARTS, 2)]:
        transformer = columns(*parts, sparse_threshold=threshold)
        given = layout_of_records(records(kind, CELLS))
        said, found = output_of(transformer, StepInput(given)).layout, set()
        if said == UNKNOWN:
            continue
        n_known += 1
        for cells in (CELLS, np.zeros_like(CELLS), np.ones_like(CELLS)):
            try:
                out = transformer.fit_transform(records(kind, cells))
            except (TypeError, ValueError):  # it does not take sparse input
                continue
            found.add(layout_of_records(out))
        assert found <= {said}
    assert n_known == 28 if threshold == 0 else n_known >= 1


SPARSE_FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).astype(pd.SparseDtype(float, 0.0))
NAMED = ColumnTransformer([("a", PublicBoundsScaler(), ["a", "b"])])


@pytest.mark.parametrize(
    ("transformer", "data"),
    [
        (NAMED, SPARSE_FRAME),
        (NAMED, SPARSE_FRAME.assign(c=X[:, 2])),
        (columns("passthrough"), sparse.csr_array(X)),
        (columns("passthrough", sparse_threshold=1), sparse.csr_array(X)),
        (columns(CategoricalDomainEncoder([0, 1], sparse_output=True), "passthrough"), CELLS),
        (make_pipeline(FeatureUnion([("a", ENCODER)]), columns("passthrough")), CELLS),
    ],
)
def test_a_layout_that_the_data_may_choose_is_refused(transformer, data):
    y = Y[: data.shape[0]]
    refuses(make_pipeline(transformer, MODEL), "set sparse_threshold=0", X=data, y=y)
    inner = PrivateGridSearchCV(MODEL, {})
    refuses(make_pipeline(transformer, inner), "set sparse_threshold=0", X=data, y=y)


def test_a_layout_that_is_public_is_accepted():
    accepts(make_pipeline(columns(PublicBoundsScaler()), MODEL))
    accepts(make_pipeline(NAMED, MODEL), X=pd.DataFrame(X, columns=["a", "b", "c"]))
    dense = ColumnTransformer(NAMED.transformers, sparse_threshold=0)
    accepts(make_pipeline(dense, MODEL), X=SPARSE_FRAME)
    accepts(
        make_pipeline(columns(ENCODER, "passthrough", sparse_threshold=1), MODEL), X=(X > 0) + 0.0
    )


MAY_FAIL = [
    OneHotEncoder(categories=[[-1.0, 1.0]] * 3, sparse_output=False),
    OrdinalEncoder(categories=[[-1.0, 1.0]] * 3),
    FunctionTransformer(np.log1p),
]


@pytest.mark.parametrize("step", MAY_FAIL, ids=lambda step: type(step).__name__)
def test_a_step_that_may_fail_for_what_a_private_one_returns_is_refused(step):
    """A rehearsal cannot tell: it passes on what goes into the private step."""
    codes = np.where(X > 0, 1.0, -1.0)
    inner = make_pipeline(PrivateStandardScaler(with_mean=False))
    refuses(make_pipeline(inner, step, MODEL), "may fail, once that is charged", X=codes)
    for harmless in (make_pipeline(step, MODEL), make_pipeline("passthrough", step, MODEL)):
        assert privacy_report(harmless, X=codes).private  # it fails before the charge, if at all


def test_all_models_of_an_average_are_rehearsed():
    """What fails in the second one must not fail after the charge."""
    lasso, codes = PrivateLasso(target_bound=1.0), np.where(X > 0, 1.0, -1.0)
    encoder = OneHotEncoder(categories=[[-1.0, 1.0]] * 3, sparse_output=False)
    average = VotingRegressor([("a", lasso), ("b", make_pipeline(encoder, lasso))])
    PrivateGridSearchCV(average, {}, **SEARCH).fit(codes, codes[:, 0])
    codes[5] = 7.0
    refuses(average, "Found unknown categories", X=codes, y=X[:, 0])
    wrong = VotingRegressor([("a", lasso), ("b", PrivateLasso(radius=-1.0))])
    refuses(wrong, "The 'radius' parameter", y=X[:, 0])


def test_steps_that_cannot_fail_may_follow_private_ones():
    ignores = OneHotEncoder(categories=[[-1.0, 1.0]] * 3, handle_unknown="ignore")
    model = clone(MODEL)
    for step in (ignores, FunctionTransformer(np.tanh), FunctionTransformer()):
        assert privacy_report(make_pipeline(PrivateStandardScaler(), step, model), X=X).private


SELECTOR = PrivateFeatureSelector(n_features_to_select=2, classes=[0, 1])
OVERFLOWING = [
    PolynomialFeatures(2),
    PolynomialCountSketch(random_state=0),
    RBFSampler(gamma=10.0, random_state=0),
    GaussianRandomProjection(2, random_state=0),
    SparseRandomProjection(2, random_state=0, dense_output=True),
]


@pytest.mark.parametrize("step", OVERFLOWING, ids=lambda step: type(step).__name__)
def test_a_step_that_may_overflow_after_a_private_one_needs_bounds(step):
    """A rehearsal cannot tell: which columns are selected is not known before the charge."""
    large = X.copy()
    large[:, 1:] *= 1.7e308
    refuses(make_pipeline(SELECTOR, step, MODEL), "put a ColumnClipper before it", X=large)
    passed_on = ColumnTransformer(
        [("scaled", PrivateStandardScaler(), [0])], remainder="passthrough"
    )
    refuses(make_pipeline(passed_on, step, MODEL), "put a ColumnClipper before it", X=large)
    union = FeatureUnion([("selected", SELECTOR)], transformer_weights={"selected": -2.0})
    refuses(make_pipeline(union, MODEL), "set transformer_weights to at most 1", X=large)
    refuses(make_pipeline(union, step, MODEL), "set transformer_weights to at most 1", X=large)
    weights = {"transformer_weights": {"c0": np.inf}}
    refuses(make_pipeline(SELECTOR, columns("passthrough", **weights), MODEL), "at most 1")
    union = clone(union).set_params(transformer_weights={"selected": 1.0})
    clipped = (
        make_pipeline(union, MODEL),
        make_pipeline(SELECTOR, ColumnClipper(), step, MODEL),
        make_pipeline(ColumnClipper(), make_pipeline(SELECTOR), step, MODEL),
        make_pipeline(PrivateStandardScaler(), step, MODEL),
        make_pipeline(step, MODEL),  # it fails before the charge, if at all
    )
    for pipeline in clipped:
        assert privacy_report(pipeline, X=X).private
    fitted = PrivateGridSearchCV(clipped[0], {}, **SEARCH).fit(large, Y)
    assert np.isfinite(fitted.predict(large)).all()


@pytest.mark.parametrize(
    "step",
    [
        PolynomialFeatures((1, 4)),
        PolynomialCountSketch(gamma=1e100),
        SplineTransformer(knots=np.array([[-1.0] * 3, [1.0] * 3]), extrapolation="continue"),
        TfidfTransformer(use_idf=False, sublinear_tf=True),
    ],
    ids=lambda step: type(step).__name__,
)
def test_steps_that_may_fail_for_bounded_values_may_not_follow_private_ones(step):
    refuses(make_pipeline(PrivateStandardScaler(), step, MODEL), "may fail, once that is charged")


def test_steps_within_a_search_that_may_fail_may_not_follow_private_ones():
    encoder = OneHotEncoder(categories=[[-1.0, 1.0]] * 3, sparse_output=False)
    inner = PrivateGridSearchCV(make_pipeline(encoder, MODEL), {}, **SEARCH)
    codes = np.where(X > 0, 1.0, -1.0)
    assert privacy_report(inner, X=codes).private
    refuses(make_pipeline(PrivateStandardScaler(), inner), "may fail, once that is charged")


@pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
def test_groups_are_not_read_from_what_a_private_step_returns():
    """Whether a clipped label is that of a group depends on values, and is known too late."""
    frame = pd.DataFrame({"a": X[:, 0], "g": (X[:, 1] > 0).astype(float)})
    clipper = PrivateQuantileClipper(lower=-1.0, upper=1.0).set_output(transform="pandas")
    model = PrivateGroupDRO(classes=[0, 1], groups=[0.0, 1.0], group_membership="private")
    pipeline = Pipeline([("clip", clipper), ("model", model)])
    inner = Pipeline([("clip", clipper), ("model", PrivateGridSearchCV(model, {}, **SEARCH))])
    for estimator, names in ((pipeline, "g"), (pipeline, ["g"]), (inner, "g")):
        names = {"model__sensitive_features": names}
        ledger = Ledger(50.0, 1e-6)
        search = PrivateGridSearchCV(estimator, {}, ledger=ledger, **SEARCH)
        with pytest.raises(ValueError, match="pass the labels themselves"):
            search.fit(frame, Y, **names)
        with pytest.raises(ValueError, match="pass the labels themselves"):
            private_cross_val_score(estimator, frame, Y, ledger=ledger, fit_params=names)
        assert ledger.charges() == []
    labels = {"model__sensitive_features": frame["g"]}
    assert PrivateGridSearchCV(pipeline, {}, **SEARCH).fit(frame, Y, **labels).privacy_
    first = Pipeline([("clip", ColumnClipper().set_output(transform="pandas")), ("model", model)])
    assert PrivateGridSearchCV(first, {}, **SEARCH).fit(frame, Y, model__sensitive_features="g")

    # A fit that succeeded tells by its attributes.
    whole = PrivateFeatureSelector(n_features_to_select=2, classes=[0, 1])
    for last in (model, inner["model"]):
        selected = Pipeline([("whole", whole.set_output(transform="pandas")), ("model", last)])
        for groups, private in ((frame["g"], True), ("g", False)):
            selected.fit(frame, Y, model__sensitive_features=groups)
            assert privacy_report(selected).private == private
    assert privacy_report(first.fit(frame, Y, model__sensitive_features="g")).private


def test_maps_of_targets_need_bounds_of_their_own_after_a_private_step():
    """Targets of 1e308 would overflow, whatever an earlier step has clipped."""
    target = TransformedTargetRegressor(
        PrivateLasso(), transformer=GaussianRandomProjection(1, random_state=0), check_inverse=False
    )
    assert privacy_report(target).private  # it fails before the charge, if at all
    scaled = make_pipeline(PrivateStandardScaler(), target)
    refuses(scaled, "put a ColumnClipper before it", y=1e308 * X[:, 0])
    clip = make_pipeline(ColumnClipper(), target.transformer)
    target = clone(target).set_params(transformer=clip)
    assert privacy_report(make_pipeline(PrivateStandardScaler(), target)).private


def test_fits_of_a_search_warn_of_nothing_in_whatever_thread():
    """Filters of warnings belong to the process, and other threads may change them."""
    part = Part(X, Y, {})
    allotted = _allotment.allot(MODEL, 1e-4, 1e-6, np.random.RandomState(0))
    assert "80 records" in _allotment.rehearse(allotted, part)[0]
    assert _allotment.fit_granted(_allotment.granted(allotted), part).privacy_


@pytest.mark.parametrize("bad", [[3], [0, 5, 9], list(range(20))])
def test_predictions_that_raise_for_a_record_count_for_that_record_only(bad):
    """An inverse of a target's map that is not finite raises in the step before it."""
    maps = FunctionTransformer(np.tanh, np.arctanh, check_inverse=False)
    model = TransformedTargetRegressor(
        LinearRegression(fit_intercept=False),
        transformer=make_pipeline(PublicBoundsScaler(feature_range=(-0.5, 0.5)), maps),
        check_inverse=False,
    ).fit(X, X[:, 0])
    records, score = X[:20].copy(), make_private_scorer(lambda y, p: -abs(y - p), -2.0, 0.0)
    expected = score.records(model, records, records[:, 0])
    records[bad] = 1e6
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="NaN"):
        model.predict(records)
    expected[bad] = -2.0
    assert np.array_equal(score.records(model, records, X[:20, 0]), expected)


CODES = [int(code) for code in Y]
HOLE = [None, *CODES[1:]]
KEEPERS = [
    SimpleImputer(strategy="constant", keep_empty_features=True, fill_value=0),
    OneHotEncoder(categories=[[0, 1]], handle_unknown="ignore"),
    OrdinalEncoder(categories=[[0, 1]], handle_unknown="use_encoded_value", unknown_value=-1),
]
TYPED = {
    "polars": lambda values: pl.DataFrame({"a": pl.Series(values, dtype=pl.Int64)}),
    "booleans": lambda values: pl.DataFrame({"a": pl.Series(values).cast(pl.Boolean)}),
    "list": lambda values: [[value] for value in values],
    "categories": lambda values: pd.DataFrame({"a": pd.Categorical(values, categories=[0, 1])}),
    "floats": lambda values: pd.DataFrame({"a": pd.Series(values, dtype=float)}),
    "nullable": lambda values: pd.DataFrame({"a": pd.array(values, dtype="Int64")}),
}


@each("kind", TYPED)
@each("step", KEEPERS)
def test_a_dtype_that_one_missing_value_chooses_is_refused(step, kind):
    data, other = TYPED[kind](CODES), TYPED[kind](HOLE)
    report = privacy_report(step, X=data)
    assert report.private == (kind in ("floats", "nullable"))
    assert report.private != ("depends on whether a value is missing" in report.steps[0].note)
    if not (isinstance(step, SimpleImputer) and kind in ("booleans", "categories")):  # an error
        states = [joblib.hash(vars(clone(step).fit(one))) for one in (data, other)]
        assert (states[0] == states[1]) == report.private


@pytest.mark.parametrize("step", KEEPERS[1:], ids=lambda step: type(step).__name__)
def test_a_dtype_that_one_long_value_chooses_is_refused(step):
    """Categories are cut to two letters, unless a record has more: which changes the others."""
    step = clone(step).set_params(categories=[[b"abc", b"z"]])
    short, long = (np.array([[b"ab"], [b"z"], [value]]) for value in (b"z", b"zzz"))
    before, after = (step.fit(X).transform(X)[[0]].sum() for X in (short, long))
    assert before != after
    assert "or on how long one is" in privacy_report(step, X=short).steps[0].note
    assert privacy_report(step, X=short.astype(str)).private


def test_dtypes_of_a_search():
    pipeline = make_pipeline(KEEPERS[1], MODEL)
    refuses(pipeline, "turn integers and booleans of X into floats", X=TYPED["list"](CODES))
    accepts(pipeline, X=TYPED["floats"](CODES))
    words = pd.DataFrame({"a": pd.Categorical(["a"], categories=["a", "b"])})
    assert all(privacy_report(step, X=words).private for step in KEEPERS)


# --- fits


class NotPrivate(PrivateLogisticL1):
    """A model that charges nothing, and predicts like its base."""

    def fit(self, X, y):
        model = LogisticRegression().fit(X, y)
        vars(self).update({name: value for name, value in vars(model).items() if name[-1] == "_"})
        return self


class Twice(PrivateLogisticL1):
    """Charges twice, and less than its share."""

    def fit(self, X, y):
        for _ in range(2):
            with self._releasing(self, NoOpEvent(), self._budget()):
                pass
        return super().fit(X, y)


def test_a_fit_that_charges_nothing_is_refused_before_the_charge():
    scaled = make_pipeline(PrivateStandardScaler(), NotPrivate())
    for estimator in (NotPrivate(), scaled, FixedThresholdClassifier(NotPrivate())):
        refuses(estimator, "NotPrivate, must charge its ledger exactly once", RuntimeError)


class NotPrivateLasso(PrivateLasso):
    """A model that charges only in a rehearsal."""

    def fit(self, X, y):
        if isinstance(self.ledger, _allotment.Rehearsal):
            self.ledger.charge(ZCDPEvent(1e-6))
        return self


@pytest.mark.parametrize("options", [{}, {"return_scores": True}, {"strategy": "random-stopping"}])
def test_a_fit_that_charges_nothing_and_was_not_rehearsed_releases_nothing(options):
    lasso = PrivateLasso(target_bound=1.0)
    voting = VotingRegressor([("a", lasso), ("own", NotPrivateLasso(target_bound=1.0))])
    search = PrivateGridSearchCV(voting, {}, **{**SEARCH, **options})
    match = r"^own, a NotPrivateLasso, .* charged it 0 times"
    with pytest.raises(RuntimeError, match=match):
        search.fit(X, X[:, 0])
    assert vars(search).keys() == search.get_params(deep=False).keys()
    with pytest.raises(RuntimeError, match=match):
        private_cross_val_score(voting, X, X[:, 0], epsilon=5.0, cv=2)


def test_a_fit_that_charges_twice_is_refused():
    for call, _ in each_entrance(Twice(classes=[0, 1])):
        with pytest.raises(RuntimeError, match="was repeated"):
            call()


def test_a_search_within_a_search_is_charged_once():
    accepts(PrivateGridSearchCV(make_pipeline(PrivateStandardScaler(), MODEL), {}))
    refuses(PrivateGridSearchCV(NotPrivate(), {}), "exactly once", RuntimeError)


def test_a_fitted_estimator_without_a_report_is_not_private():
    for estimator in (NotPrivate(), make_pipeline(NotPrivate())):
        report = privacy_report(estimator.fit(X, Y))
        assert not report.private
        assert "without a report" in report.steps[0].note


class Draws(TransformerMixin, BaseEstimator):
    """Draws a number when it is fitted, and remembers it for the test."""

    seen: ClassVar[list] = []

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        self.seen.append(check_random_state(self.random_state).randint(2**31))
        return self

    def transform(self, X):
        return X


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
def test_fits_are_the_rehearsed_ones_up_to_the_first_noise():
    """Otherwise random features may overflow that did not when they were rehearsed."""
    random = Pipeline([("draws", Draws()), ("model", MODEL)])
    inner = PrivateGridSearchCV(random, {}, record_wise=["draws"], strategy="composition")
    for estimator, n_seeds, declared in (
        (random, 2, {"record_wise": ["draws"]}),
        (inner, 4, {}),
        (make_pipeline(PublicBoundsScaler(), inner), 4, {}),
    ):
        for random_state in (None, 0):
            Draws.seen.clear()
            search = PrivateGridSearchCV(estimator, {}, random_state=random_state, **SEARCH)
            search.set_params(**declared).fit(X, Y)
            counts = Counter(Draws.seen)
            assert len(counts) == n_seeds  # of training parts and of all records
            assert set(counts.values()) == {2 if estimator is random else 3}
        Draws.seen.clear()
        private_cross_val_score(estimator, X, Y, epsilon=5.0, cv=2, **declared)
        assert min(Counter(Draws.seen).values()) > 1


# --- what a process remembers


class Remembers(PrivateLogisticL1):
    """Asks the caches of this package in every fit."""

    def fit(self, X, y):
        _tree.nodes(5)
        _contrasts.scales((2, 2))
        return super().fit(X, y)


def process_state():
    """The state of the package's modules: caches, counters, collections."""
    found = {}
    for module in [name for name in sys.modules if name.startswith("skdpsco")]:
        for name, value in vars(sys.modules[module]).items():
            if hasattr(value, "cache_info"):
                found[module, name] = value.cache_info()
                # What kernels ask before they are compiled is not asked for in every fit.
                emptied = any(value is one for one in _cache._caches)
                assert emptied or name.endswith("by_record") or module == "skdpsco._kernels", name
            elif isinstance(value, (list, dict, set, int, float)) and not name.startswith("__"):
                found[module, name] = repr(value)
    return found


def force_tries(monkeypatch, n_tries):
    def draw(plan, n_candidates, rng):
        return list(range(n_candidates)) if plan.tries is None else [0] * n_tries

    monkeypatch.setattr(_selection.SearchPlan, "draw", draw)


@pytest.mark.parametrize("tries", [(1, 4), (0, 2)])
def test_no_process_state_counts_tries(monkeypatch, tries):
    stopping = {"strategy": "random-stopping", "refit": 0 in tries, "tries": Poisson(3.0)}
    if 0 not in tries:
        stopping["tries"] = "auto"
    inner = PrivateGridSearchCV(Remembers(classes=[0, 1]), {}, strategy="composition")
    scaler = PrivateStandardScaler(lower=-1.0, upper=1.0)
    search = PrivateGridSearchCV(make_pipeline(scaler, inner), {}, **stopping)
    seen = []
    for n_tries in tries:
        force_tries(monkeypatch, n_tries)
        np.random.seed(3)  # noqa: NPY002
        search.fit(X, Y)
        seen.append((process_state(), str(np.random.get_state())))  # noqa: NPY002
    assert seen[0] == seen[1]
    state, _ = seen[0]
    caches = [value for value in state.values() if type(value).__name__ == "CacheInfo"]
    assert ("skdpsco.solvers.lp_ball.tree", "nodes") in state
    assert len(caches) >= len(_cache._caches) >= 5  # it sees them all, and all are emptied


def test_a_candidate_is_allotted_once(monkeypatch):
    counts = []
    budget_of = _allotment.budget_of
    for n_tries in (1, 7):
        calls = []
        force_tries(monkeypatch, n_tries)
        monkeypatch.setattr(
            _allotment,
            "budget_of",
            lambda *args: calls.append(args) or budget_of(*args),  # noqa: B023
        )
        PrivateGridSearchCV(MODEL, {}, strategy="random-stopping").fit(X, Y)
        counts.append(len(calls))
    assert counts[0] == counts[1] > 0


def test_threads_leave_the_filters_of_warnings_alone():
    """They share them: who restores what another thread has set changes them for good."""

    def look(_):
        return warnings.filters is filters, get_config()["assume_finite"]

    filters = warnings.filters
    with joblib.parallel_config(backend="threading"), config_context(assume_finite=True):
        assert in_parallel(look, [(k,) for k in range(4)], 2) == [(True, True)] * 4
    with without_warnings():
        silent = warnings.filters
        with without_warnings():  # as in a search within a search
            assert warnings.filters is silent
            warnings.warn("which is not shown", stacklevel=1)
    assert warnings.filters is filters


class Callback:
    """Follows the protocol of scikit-learn's callbacks."""

    def setup(self, estimator, context):
        pass

    teardown = on_fit_task_begin = on_fit_task_end = setup


@pytest.mark.skipif(not hasattr(Pipeline, "set_callbacks"), reason="a new scikit-learn")
def test_callbacks_are_refused():
    """They are given records and fitted models, by all clones, and may keep scores of them."""
    bar = importlib.import_module("sklearn.callback").ProgressBar
    for callback, private in ((Callback(), False), (object.__new__(bar), True)):
        pipeline = make_pipeline(PublicBoundsScaler(), MODEL).set_callbacks(callback)
        assert privacy_report(pipeline).private == private
        inner = make_pipeline(PublicBoundsScaler(), PrivateGridSearchCV(pipeline, {}))
        for estimator in (pipeline, make_pipeline(Normalizer(), pipeline), inner):
            refuses(estimator, r"remove them with set_callbacks\(\)")
    accepts(pipeline.set_callbacks())


@pytest.mark.skipif(not hasattr(Pipeline([]), "transform_input"), reason="a new scikit-learn")
def test_arguments_are_not_passed_through_private_steps():
    steps = [("scaler", PrivateStandardScaler()), ("model", MODEL)]
    refuses(Pipeline(steps, transform_input=["groups"]), "transform_input")
    steps[0] = ("scaler", PublicBoundsScaler())
    assert privacy_report(Pipeline(steps, transform_input=["groups"])).private


# --- what the user vouches for


def first_columns(X):
    return X[:, :3]


@pytest.mark.parametrize("y", [np.rint(1e6 * X[:, 0]), X[:, 0]], ids=["whole", "continuous"])
def test_targets_of_a_regression_are_no_labels(tmp_path, y):
    """Whole numbers among them look like labels, which would be stored as a parameter."""
    model = PrivateGroupDRO(
        loss="squared",
        cvar_level=1.0,
        target_bound=1e6,
        group_membership="private",
        groups=[0, 1],
    )
    groups = {"sensitive_features": np.arange(N) % 2}
    ledger = Ledger(1000.0, 1e-3, path=tmp_path / "ledger")
    grid = {"radius": [1e6, 2e6]}
    search = PrivateGridSearchCV(model, grid, ledger=ledger, **SEARCH).fit(X, y, **groups)
    assert search.best_estimator_.classes is None
    assert "labels" not in str(search.privacy_.assumptions)
    score = private_cross_val_score(model, X, y, cv=2, ledger=ledger, fit_params=groups)
    assert "labels" not in str(score.privacy.assumptions)
    assert not any("array" in str(charge.parameters) for charge in ledger.charges())


def test_functions_and_names_may_be_declared():
    function = FunctionTransformer(first_columns)
    pipeline = Pipeline([("own", Draws()), ("first", function), ("model", MODEL)])
    refuses(pipeline, "declare it in record_wise")
    accepts(pipeline, record_wise=["own", first_columns])
    accepts(pipeline, record_wise=("own", "first"))
    refuses(pipeline, "record_wise contains .*no parts", record_wise=["own", "first", "other"])
    refuses(pipeline, "names of steps or functions.*clones", record_wise=["own", function])
    refuses(pipeline, "record_wise", record_wise="own")
    refuses(pipeline, "first: data-independent only if", record_wise=["own"])


def test_what_only_some_candidates_have_may_be_declared():
    pipeline = Pipeline([("first", "passthrough"), ("model", MODEL)])
    grid = {"first": ["passthrough", FunctionTransformer(first_columns)]}
    search = PrivateGridSearchCV(pipeline, grid, record_wise=[first_columns], **SEARCH)
    assert search.fit(X, Y).privacy_.epsilon == 5.0
    pickle.loads(pickle.dumps(search))


# --- frozen steps


def frozen_scaler():
    return FrozenEstimator(
        PrivateStandardScaler(lower=-1.0, upper=1.0, epsilon=3.0, delta=1e-9).fit(X)
    )


def test_frozen_steps_are_named_and_counted():
    frozen = frozen_scaler()
    pipeline = Pipeline([("scale", frozen), ("model", MODEL)])
    for inner in (pipeline, PrivateGridSearchCV(pipeline, {}, **SEARCH)):
        search = PrivateGridSearchCV(inner, {}, **SEARCH).fit(X, Y)
        lines = [line for line in search.privacy_.assumptions if "frozen" in line]
        assert "scale, frozen, was fitted before: its cost, epsilon=3 and delta=1e-09" in lines[0]
        for fitted in (True, False):
            shown = search if fitted else PrivateGridSearchCV(inner, {}, **SEARCH)
            report = privacy_report(shown)
            assert [step.epsilon for step in report.steps] == [5.0, 3.0]
            assert "frozen" in report.steps[1].note
            assert report.epsilon > 5.0
            assert report.rho is None or report.rho > search.privacy_.rho
    rows = privacy_report(GridSearchCV(pipeline, {})).steps
    assert [(row.name, row.epsilon) for row in rows[1:]] == [("estimator__scale__estimator", 3.0)]
    score = private_cross_val_score(pipeline, X, Y, cv=2)
    assert any("scale, frozen" in line for line in score.privacy.assumptions)


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
def test_a_seed_of_a_frozen_step_is_named():
    scaler = FrozenEstimator(PrivateStandardScaler(lower=-1, upper=1, random_state=0).fit(X))
    search = PrivateGridSearchCV(make_pipeline(scaler, MODEL), {}, **SEARCH).fit(X, Y)
    assert sum("not included (SEEDED)" in line for line in search.privacy_.assumptions) == 1


def test_frozen_steps_of_candidates_are_named():
    frozen = [frozen_scaler(), frozen_scaler()]
    pipeline = Pipeline([("scale", "passthrough"), ("model", MODEL)])
    search = PrivateGridSearchCV(pipeline, {"scale": frozen}, **SEARCH).fit(X, Y)
    assert sum("frozen" in line for line in search.privacy_.assumptions) == 2
    assert len(privacy_report(search).steps) == 3
    search.set_params(record_wise=["scale"]).fit(X, Y)  # fitted on other records
    assert not any("frozen" in line for line in search.privacy_.assumptions)


# --- votes and thresholds


def test_votes_and_thresholds():
    accepts(FixedThresholdClassifier(MODEL, threshold=0.4))
    lasso = PrivateLasso(target_bound=1.0)
    accepts(VotingRegressor([("a", lasso), ("b", lasso)]), y=X[:, 0])
    # One of three labels may be missing in a part: then the others' numbers would change.
    refuses(VotingClassifier([("a", MODEL)]), "must not be a VotingClassifier")


def test_scores_of_a_threshold_are_those_of_its_estimator():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scorer = make_private_scorer(lambda y, p: p[:, 1], 0, 1, response_method="predict_proba")
        search = PrivateGridSearchCV(
            FixedThresholdClassifier(MODEL), {"threshold": [0.2, 0.8]}, scoring=scorer, **SEARCH
        )
        search.fit(X, Y)
    assert search.best_estimator_.estimator_.privacy_.rho < search.privacy_.rho
