"""Searches and cross-validation as scikit-learn, its tools and its users see them."""

import math

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from cases import each
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.utils import get_tags

from skdpsco import Ledger, PrivateLasso, PrivateLogisticL1, PrivateRidge, RowBlocks
from skdpsco.model_selection import (
    PrivateGridSearchCV,
    PrivateScorer,
    _fitting,
    _selection,
    make_private_scorer,
    private_cross_val_score,
)
from skdpsco.preprocessing import (
    CategoricalDomainEncoder,
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateStandardScaler,
    RowClipper,
)
from skdpsco.privacy import Budget, TruncatedNegativeBinomial

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
HUGE = 1e5  # epsilon where noise is not the point
N = 200
X = np.random.default_rng(0).uniform(-1, 1, (N, 3))
TARGET = X[:, 0] - 0.5 * X[:, 1]
LABELS = (TARGET > 0).astype(int)
GRID = {"radius": [1e-4, 1e-3, 2.0]}  # the last is right
COMPOSITION = {"strategy": "composition"}
STOPPING = {"strategy": "random-stopping"}


def searched(estimator, y, grid=None, X=X, **options):
    """A search that is reproducible, of the strategy that is planned in a moment."""
    options = {"epsilon": HUGE, "random_state": 1, **COMPOSITION, **options}
    return PrivateGridSearchCV(estimator, GRID if grid is None else grid, **options).fit(X, y)


# --- the winner


def test_r2_is_that_of_scikit_learn_where_nothing_is_clipped():
    model = PrivateLasso(epsilon=HUGE, radius=2.0)
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (4000, 3))
    y = X[:, 0] - 0.5 * X[:, 1] + rng.uniform(-0.5, 0.5, 4000)
    expected = model.fit(X, y).score(X, y)
    result = private_cross_val_score(model, X, y, epsilon=HUGE, cv=2)
    assert result.score == pytest.approx(expected, abs=0.02)
    grid = {"radius": [1e-3, 2.0]}
    search = searched(model, y, grid, X=X, return_scores=True)
    assert search.best_score_ == pytest.approx(expected, abs=0.05)
    worst = search.cv_results_["mean_test_score"][0]
    assert abs(worst) < 0.05
    bounded = "neg_clipped_squared_error"
    search = searched(model, y, grid, X=X, return_scores=True, scoring=bounded)
    assert -0.5 < search.best_score_ < -0.01
    assert search.best_index_ == 1


def log_likelihood(y, proba):
    return np.log(proba[np.arange(len(y)), y])


def test_scorer_of_ones_own():
    scorer = make_private_scorer(log_likelihood, -3.0, 0.0, response_method="predict_proba")
    y = np.digitize(TARGET, [-0.3, 0.3])
    search = searched(PrivateLogisticL1(), y, scoring=scorer, return_scores=True)
    assert search.best_index_ == 2
    assert search.scorer_ is scorer
    expected = scorer.records(search.best_estimator_, X, y).mean()
    assert search.score(X, y) == expected == scorer(search.best_estimator_, X, y)
    assert search.best_score_ == pytest.approx(expected, abs=0.2)
    assert any("record_score says of a record" in a for a in search.privacy_.assumptions)
    assert not searched(PrivateLogisticL1(), y, scoring="accuracy").scorer_.taken_on_trust


def test_a_scorer_that_need_not_clip_is_refused():
    class Unbounded(PrivateScorer):
        def records(self, estimator, X, y):
            return np.full(len(y), np.nan)

    with pytest.raises(TypeError, match="scoring must be 'accuracy', 'r2', 'neg_"):
        searched(PrivateLogisticL1(), LABELS, scoring=Unbounded(log_likelihood, -3.0, 0.0))


@each(
    ("score", "expected"),
    [(np.nan, -1.0), (-np.inf, -1.0), (np.inf, 2.0), (0.5, 0.5), (9.0, 2.0), (-9.0, -1.0)],
)
def test_scores_are_clipped(score, expected):
    scorer = make_private_scorer(lambda y, response: np.full(len(y), score), -1, 2)
    assert_array_equal(scorer.of_response(LABELS, LABELS), np.full(N, expected))


def refuse(scores):
    raise RuntimeError("a negative number")


@each(
    "fails",
    [
        refuse,
        lambda scores: scores[:-1],
        lambda scores: np.emath.sqrt(scores),
        lambda scores: np.where(scores < 0.0, None, scores),
        lambda scores: scores.astype(str),
        lambda scores: None,
    ],
)
def test_a_record_for_which_a_scorer_fails_gets_the_lower_bound(fails):
    def score(y, predicted):
        return fails(y) if (y < 0.0).any() else np.ones(len(y))

    class Model:
        def predict(self, X):
            return X

    y = np.ones(9)
    y[4] = -1.0
    scorer = make_private_scorer(score, -3, 2)
    assert_array_equal(scorer.records(Model(), y, y), np.where(y < 0.0, -3.0, 1.0))


def test_a_scorer_cannot_change_the_data():
    def destructive(y, predicted):
        y -= predicted
        return -np.abs(y)

    y = LABELS.copy()
    make_private_scorer(destructive, -1, 0).of_response(y, 1 - y)
    assert_array_equal(y, LABELS)


# --- attributes


def test_attributes():
    search = searched(PrivateLogisticL1(), LABELS)
    params = [{"radius": radius} for radius in GRID["radius"]]
    assert search.cv_results_.keys() == {"params", "param_radius", "std_noise"}
    assert "only the choice is released, not the scores of candidates" in str(search.privacy_)
    assert search.cv_results_["params"] == params
    assert search.cv_results_["param_radius"].tolist() == GRID["radius"]
    assert not hasattr(search, "best_score_")
    assert search.n_splits_ == 1
    assert search.n_features_in_ == 3
    assert_array_equal(search.classes_, [0, 1])
    assert not hasattr(search, "feature_names_in_")
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        expected = getattr(search.best_estimator_, method)(X)
        assert_array_equal(getattr(search, method)(X), expected)
    assert search.score(X, LABELS) == search.best_estimator_.score(X, LABELS)
    assert "choice among 3 candidates" in str(search.privacy_)
    assert "2 labels are public (read off y)" in str(search.privacy_)
    declared = searched(PrivateLogisticL1(classes=[0, 1]), LABELS)
    assert "2 labels are public (declared)" in str(declared.privacy_)
    assert "Differential privacy" in search._repr_html_()


def test_several_grids_and_values_that_are_arrays():
    grids = [
        {"feature_bound": [[1.0, 1.0, 1.0], 2.0]},
        {"radius": [2.0], "fit_intercept": [False, True]},
    ]
    search = searched(PrivateLogisticL1(), LABELS, grids)
    shown = search.cv_results_
    assert shown["param_feature_bound"].mask.tolist() == [False, False, True, True]
    assert shown["param_fit_intercept"].tolist() == [None, None, False, True]
    assert shown["param_feature_bound"][0] == [1.0, 1.0, 1.0]
    assert search.best_params_ is shown["params"][search.best_index_]


def test_noisy_scores():
    search = searched(PrivateLogisticL1(), LABELS, epsilon=20.0, return_scores=True)
    shown = search.cv_results_
    means, noise = shown["mean_test_score"], shown["std_noise"]
    assert search.best_score_ == means[search.best_index_] == means.max()
    assert ((means >= 0.0) & (means <= 1.0)).all()
    assert noise[0] == noise[1] == noise[2] > 0.01
    assert sorted(shown["rank_test_score"]) == [1, 2, 3]
    assert shown["rank_test_score"][search.best_index_] == 1
    close = (means > means.max() - 2.0 * math.sqrt(2.0) * noise[0]).sum() - 1
    assert f"{close} scores are too close to the best to be told from it" in str(search.privacy_)


@each("tries", [None, TruncatedNegativeBinomial(2.0, 0.3)])
def test_the_noise_that_scores_are_compared_with_is_as_large_as_is_said(tries):
    """How often the better of two candidates wins, where one deviation lies between them."""
    n, rng = 100, np.random.Generator(np.random.PCG64(0))
    scorer = make_private_scorer(np.equal, 0, 1)
    plan = _selection.plan_search(Budget(2.0, 1e-6), 2, n, scorer, None, 0.5, tries)
    noise = _selection.comparison_noise(plan, scorer, n)
    sums = np.array([0.0, n * noise])
    if tries is None:  # the difference of two numbers of Gumbel's law
        choose, rho = _selection.choose_winner, plan.scores.rho
        law = stats.logistic(0.0, math.sqrt(6.0) / math.pi)
    else:
        choose, rho, law = _selection.best_try, plan.rho_score, stats.norm(0.0, math.sqrt(2.0))
    won = np.mean([choose(sums, scorer, n, rho, rng) for _ in range(4000)])
    assert won == pytest.approx(law.cdf(1.0), abs=0.035)


def test_ties_of_clipped_scores_are_broken_by_the_noise(monkeypatch):
    noisy = np.array([1.5, 3.0, 2.0]), 0.1
    monkeypatch.setattr(_selection, "noisy_means", lambda *args: noisy)
    search = searched(PrivateLogisticL1(), LABELS, return_scores=True)
    assert search.best_index_ == 1
    assert search.cv_results_["mean_test_score"].tolist() == [1.0, 1.0, 1.0]
    assert search.cv_results_["rank_test_score"].tolist() == [3, 1, 2]


def test_before_a_fit():
    search = PrivateGridSearchCV(PrivateLogisticL1(), GRID)
    assert is_classifier(search)
    for name in ("classes_", "n_features_in_", "feature_names_in_", "privacy_"):
        assert not hasattr(search, name)
    regressor = PrivateGridSearchCV(PrivateLasso(), GRID)
    assert is_regressor(regressor)
    assert not hasattr(regressor, "predict_proba")
    assert get_tags(regressor).input_tags.sparse
    dense = make_pipeline(PrivateStandardScaler(), PrivateLasso())
    assert not get_tags(PrivateGridSearchCV(dense, GRID)).input_tags.sparse


# --- kinds of data


def same(search, other):
    assert search.best_params_ == other.best_params_
    assert_array_equal(search.best_estimator_.coef_, other.best_estimator_.coef_)


@pytest.mark.parametrize(
    "kind", [list, pd.Series, lambda y: pd.Series(y, dtype="category"), lambda y: y.astype(object)]
)
def test_labels_that_are_strings(kind):
    y = np.where(LABELS, "yes", "no")
    search = searched(PrivateLogisticL1(), kind(y))
    same(search, searched(PrivateLogisticL1(), LABELS))
    assert list(search.classes_) == ["no", "yes"]
    assert search.score(X, y) > 0.9


def test_a_rare_label_may_be_missing_in_a_part():
    y = LABELS.copy()
    y[7] = 5  # in the validation part of some seeds
    for seed in range(4):
        search = searched(PrivateLogisticL1(), y, random_state=seed)
        assert_array_equal(search.classes_, [0, 1, 5])
        # Also in a candidate that replaces the estimator.
        step = {"privatelogisticl1": [PrivateLogisticL1(radius=2.0)]}
        pipeline = make_pipeline(RowClipper(bound=2.0), PrivateLogisticL1())
        assert_array_equal(searched(pipeline, y, step, random_state=seed).classes_, [0, 1, 5])
    private_cross_val_score(PrivateLogisticL1(), X, y, epsilon=HUGE, cv=3)


SCALER = PrivateStandardScaler(lower=-1.0, upper=1.0)
FRAME = pd.DataFrame({"one": X[:, 0], "two": X[:, 1], "kind": np.where(X[:, 2] > 0, "a", "b")})
PIPELINES = {
    "columns": (
        make_pipeline(
            ColumnTransformer(
                [
                    ("scale", SCALER, ["one", "two"]),
                    ("kind", CategoricalDomainEncoder([["a", "b"]]), ["kind"]),
                ],
                sparse_threshold=0,
            ),
            PrivateLasso(),
        ),
        FRAME,
        "privatelasso__radius",
    ),
    "selection": (
        make_pipeline(
            SCALER,
            PrivateFeatureSelector(n_features_to_select=2, task="regression"),
            PrivateLasso(),
        ),
        FRAME[["one", "two"]].assign(three=X[:, 2]),
        "privatelasso__radius",
    ),
    "union": (
        make_pipeline(make_union(SCALER, PrivateQuantileClipper()), PrivateLasso()),
        X,
        "privatelasso__radius",
    ),
    "target": (
        TransformedTargetRegressor(
            PrivateLasso(target_bound=1.0), func=np.arctan, inverse_func=np.tan, check_inverse=False
        ),
        X,
        "regressor__radius",
    ),
    "search": (
        PrivateGridSearchCV(PrivateLasso(), {"fit_intercept": [True, False]}),
        X,
        "estimator__radius",
    ),
}


@pytest.mark.parametrize("case", PIPELINES)
def test_pipelines(case):
    pipeline, data, name = PIPELINES[case]
    options = STOPPING if case == "columns" else {}
    search = searched(pipeline, TARGET, {name: GRID["radius"]}, X=data, refit=True, **options)
    assert search.best_params_ == {name: 2.0}
    assert search.score(data, TARGET) > 0.8
    if data is not X:
        assert list(search.feature_names_in_) == list(data.columns)
    result = private_cross_val_score(
        clone(pipeline).set_params(**{name: 2.0}), data, TARGET, epsilon=HUGE, cv=2
    )
    assert -10.0 < result.score <= 1.0  # models of little budget may be worse than the mean


def test_bound_of_a_transformed_target_is_not_one_of_y():
    bounded = [PrivateLasso(target_bound=bound) for bound in (2.0, 3.0, 9.0)]
    transformed = TransformedTargetRegressor(bounded[2])
    assert _fitting.target_bound_of([transformed, PrivateLasso()]) is None
    pipeline = make_pipeline(PrivateStandardScaler(), bounded[1])
    assert _fitting.target_bound_of([bounded[0], pipeline, transformed]) == 3.0


class Recorder(TransformerMixin, BaseEstimator):
    """Keeps what ``fit`` is passed."""

    def fit(self, X, y=None, ids=None, note=None):
        self.seen_ = (np.asarray(X)[:, 0], ids, note)
        return self


def test_metadata_is_split_with_the_records():
    ids = X[:, 0].tolist()
    part = _fitting.Part(X, LABELS, {"ids": ids, "note": "text"})
    rows = np.array([5, 2, 9])
    seen, given, note = part.rows(rows).fit(Recorder()).seen_
    assert_array_equal(seen, X[rows, 0])
    assert_array_equal(seen, given)
    assert note == "text"
    pipeline = make_pipeline(RowClipper(bound=2.0), PrivateLasso())
    search = PrivateGridSearchCV(pipeline, {"privatelasso__radius": [2.0]})
    search.fit(X, TARGET, privatelasso__sample_weight=None)
    with pytest.raises(ValueError, match="sample_weight is not supported"):
        search.fit(X, TARGET, privatelasso__sample_weight=np.ones(N))
    with sklearn.config_context(enable_metadata_routing=True):
        clone(search).fit(X, TARGET)
        make_pipeline(RowClipper(bound=2.0), clone(search)).fit(X, TARGET)


# --- parallel


def check_jobs(backend):
    """A search and a validation by workers are those of one process, and so are their charges."""
    ledger = Ledger(2.0, 1e-6)
    for options in ({}, STOPPING):
        expected = searched(PrivateLasso(), TARGET, **options)
        with joblib.parallel_config(backend=backend):
            same(searched(PrivateLasso(), TARGET, n_jobs=2, **options), expected)
            searched(PrivateLasso(), TARGET, n_jobs=2, epsilon=1.0, ledger=ledger, **options)
    assert len(ledger.charges()) == 2
    arguments = {"epsilon": 3.0, "cv": 3, "random_state": 0}
    expected = private_cross_val_score(PrivateLasso(), X, TARGET, **arguments)
    with joblib.parallel_config(backend=backend):
        result = private_cross_val_score(PrivateLasso(), X, TARGET, n_jobs=2, **arguments)
        assert result == expected
        bad = {"radius": [1.0, 2.0, -1.0]}  # last, as it shuts the workers down
        with pytest.raises(ValueError, match="radius"):
            searched(PrivateLasso(), TARGET, bad, n_jobs=2, epsilon=1.0, ledger=ledger)
    assert len(ledger.charges()) == 2


def test_cross_validated_score():
    model = PrivateLogisticL1(epsilon=HUGE, radius=2.0)
    sure = {"epsilon": HUGE, "random_state": 0}
    for cv in (2, np.int64(5)):
        result = private_cross_val_score(model, X, LABELS, cv=cv, **sure)
        assert 0.85 < result.score <= 1.0
        assert 0.0 < result.noise_std < 1e-3
    assert "read off y" in result.privacy.assumptions[-1]
    lasso = PrivateLasso(epsilon=HUGE, radius=2.0)
    assert private_cross_val_score(lasso, X, TARGET, **sure).score > 0.98
    shuffled = np.random.default_rng(0).permutation(TARGET)
    assert private_cross_val_score(lasso, X, shuffled, **sure).score < 0.9


def _near(y, predicted):
    return -np.abs(y - predicted).mean(axis=1)


@pytest.mark.parametrize("in_blocks", [False, True])
def test_several_targets_have_a_scorer_of_the_user(in_blocks):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    Y = X @ [[1.0, -1.0], [0.5, 1.0]] + 0.1 * rng.normal(size=(400, 2))
    rows = (RowBlocks.from_arrays(X, Y, block_size=100),) if in_blocks else (X, Y)
    near = make_private_scorer(_near, -2.0, 0.0)
    ridge = PrivateRidge(target_bound=3.0, epsilon=20.0)
    params = {"epsilon": 40.0, "delta": 1e-5, "strategy": "composition"}
    search = PrivateGridSearchCV(ridge, {"alpha": [1.0, 1e6]}, scoring=near, **params).fit(*rows)
    assert search.best_params_ == {"alpha": 1.0}
    assert search.predict(X).shape == (400, 2)
    result = private_cross_val_score(ridge, X, Y, scoring=near, epsilon=10.0, cv=2)
    assert -0.5 < result.score < 0.0
    ledger = Ledger(100.0, 1e-4)
    for scoring in (None, "r2", "neg_clipped_squared_error"):
        search = PrivateGridSearchCV(ridge, {"alpha": [1.0]}, scoring=scoring, ledger=ledger)
        with pytest.raises(ValueError, match="y must have one column where scoring is"):
            search.fit(*rows)
    assert not ledger.charges()
