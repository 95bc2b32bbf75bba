"""Mistakes in a search or a cross-validation: what users are told, and that they cost nothing."""

import numpy as np
import pytest
from cases import each
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import skdpsco.base.private_estimator
from skdpsco import Ledger, PrivateLasso, PrivateLogisticL1, RowBlocks
from skdpsco._random import generator
from skdpsco.model_selection import (
    PrivateGridSearchCV,
    PrivateScorer,
    make_private_scorer,
    private_cross_val_score,
)
from skdpsco.model_selection import search as search_module
from skdpsco.preprocessing import PrivateFeatureSelector, PrivateStandardScaler
from skdpsco.privacy import BudgetExceededError, Poisson
from skdpsco.solvers import Allowance

N = 40
X = np.random.default_rng(0).uniform(-1, 1, (N, 3))
Y = (X[:, 0] > 0).astype(int)
MODEL = PrivateLogisticL1(classes=[0, 1])
GRID = {"radius": [1.0, 2.0]}
SCALED = Pipeline([("scale", PrivateStandardScaler()), ("model", MODEL)])
NAN, INF = float("nan"), float("inf")


def refuses(match, call, error=(ValueError, TypeError)):
    """Nothing may be charged, and no noise drawn: generators are as they were made."""
    made, states = [], []
    ledger = Ledger(50.0, 1e-6)

    def record(random_state, stacklevel):
        made.append(generator(random_state, stacklevel))
        states.append(str(made[-1][0].bit_generator.state))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(skdpsco.base.private_estimator, "generator", record)
        with pytest.raises(error, match=match):
            call(ledger)
    assert ledger.charges() == []
    assert [str(rng.bit_generator.state) for rng, _ in made] == states


def refuses_search(match, estimator=MODEL, grid=GRID, X=X, y=Y, fit_params=None, **options):
    def call(ledger):
        search.set_params(ledger=ledger)
        search.fit(X, y, **(fit_params or {}))

    search = PrivateGridSearchCV(estimator, grid, **options)
    params = search.get_params(deep=False)
    refuses(match, call)
    assert vars(search).keys() == params.keys()
    assert all(vars(search)[name] is params[name] for name in params if name != "ledger")


POISSON = {"strategy": "random-stopping", "tries": Poisson(3.0), "refit": False}
NO_SCORES = {"strategy": "random-stopping", "return_scores": True}
BAD_OPTIONS = [
    *(({"epsilon": v}, r"epsilon.* \(0(\.0)?, inf\)") for v in (NAN, INF, 0, -1, "1", None, True)),
    *(({"delta": v}, r"delta.* \[0\.0, 1\.0\)") for v in (NAN, 1, "1", None, True)),
    ({"delta": 0}, r"delta must be in \(0, 1\) here"),
    ({"epsilon": 1e300}, r"epsilon=1e\+300 is too large"),
    ({"epsilon": 1e-7}, r"epsilon=1e-07 is too small"),
    ({"epsilon": 1e-4}, "epsilon is too small for this many fits of private steps"),
    *(({"strategy": v}, "strategy.*'composition'") for v in ("grid", None, 1)),
    *(({"refit": v}, "refit.*'auto'") for v in ("yes", None, 2)),
    *(
        ({name: v}, rf"{name}.* [\[(]0(\.0)?, 1(\.0)?\)")
        for name in ("validation_fraction", "search_share")
        for v in (1, -0.1, NAN, None, True, [0.5])
    ),
    ({"search_share": 0}, r"search_share.* \(0(\.0)?, 1(\.0)?\)"),
    ({"validation_fraction": 0.001}, r"validation_fraction=0.001 of n_samples=40 leaves"),
    ({"validation_fraction": 0.999}, r"validation_fraction=0.999 of n_samples=40 leaves"),
    ({"search_share": 1 - 1e-12, "refit": True}, "epsilon is too small"),
    *(({"tries": v}, "tries.*TruncatedNegativeBinomial.*Poisson") for v in (5, None, "poisson")),
    (POISSON, r"tries=Poisson\(...\) needs refit=True"),
    (NO_SCORES, "return_scores=True needs strategy='composition'"),
    *(({"return_scores": v}, "return_scores.*'bool'") for v in (1, None, "yes")),
    *(({"random_state": v}, "random_state") for v in (-1, "x", 1.5, np.random.default_rng(0))),
    ({"scoring": "roc_auc"}, "scoring='roc_auc' has no known sensitivity"),
    ({"scoring": "r2"}, "scoring='r2' does not fit a PrivateLogisticL1"),
    *(({"scoring": v}, "scoring must be 'accuracy', 'r2', 'neg_") for v in (5, ["accuracy"], max)),
]


@each(("options", "match"), BAD_OPTIONS)
def test_options(options, match):
    refuses_search(match, **options)


def scorer(record_score, method="predict"):
    return make_private_scorer(record_score, 0, 1, response_method=method)


def mean_hit(y, predicted):
    return np.mean(y == predicted)


def third_column(y, proba):
    return proba[:, 2]


@pytest.mark.parametrize(
    ("scoring", "estimator", "match"),
    [
        (
            scorer(mean_hit),
            MODEL,
            r"a row for each record; got float64 of shape \(\) for 40 records",
        ),
        (
            scorer(lambda y, p: (y == p)[:, None]),
            MODEL,
            r"got bool of shape \(40, 1\) for 40 records",
        ),
        (scorer(lambda y, p: ["high"] * len(y)), MODEL, r"got <U4 of shape \(40,\) for 40 records"),
        (scorer(third_column, "predict_proba"), MODEL, "out of bounds"),
        (scorer(mean_hit, "predict_proba"), PrivateLasso(), "scoring needs predict_proba, which"),
        ("accuracy", PrivateLasso(), "scoring='accuracy' does not fit a PrivateLasso"),
        (None, PrivateStandardScaler(), "scoring must be given"),
        ("accuracy", PrivateStandardScaler(), "scoring needs predict, which"),
    ],
)
def test_scorers(scoring, estimator, match):
    error = (ValueError, TypeError, IndexError)
    grid = {"radius": [1.0]} if "radius" in estimator.get_params() else {"with_mean": [True]}
    search = PrivateGridSearchCV(estimator, grid, scoring=scoring)
    refuses(match, lambda ledger: search.set_params(ledger=ledger).fit(X, Y), error)
    refuses(
        match.replace("8", "40"),
        lambda ledger: private_cross_val_score(estimator, X, Y, scoring=scoring, ledger=ledger),
        error,
    )


@each("make", [make_private_scorer, PrivateScorer])
@each(
    ("arguments", "match"),
    [
        (("accuracy", 0, 1), "record_score must be callable, got 'accuracy'"),
        ((max, 1, 0), "lower must be less than upper, got 1 and 0"),
        ((max, 1, 1), "lower must be less than upper"),
        ((max, NAN, 1), r"lower must be in \[-1e\+100, 1e\+100\], got nan"),
        ((max, 0, INF), r"upper must be in \[-1e\+100, 1e\+100\], got inf"),
        ((max, False, 1), "lower must be a finite number, got False"),
        ((max, 0, "1"), "upper must be a finite number, got '1'"),
    ],
)
def test_bounds_of_a_scorer(make, arguments, match):
    with pytest.raises((ValueError, TypeError), match=match):
        make(*arguments)
    with pytest.raises(ValueError, match=r"response_method must be one of .*got 'transform'"):
        make(max, 0, 1, response_method="transform")


CACHED = Pipeline(SCALED.steps, memory="somewhere")
UNEQUAL = Pipeline(
    [("scale", PrivateStandardScaler(epsilon=1e-3)), ("model", PrivateLogisticL1(epsilon=50.0))]
)
BAD_GRIDS = [
    (MODEL, [], "param_grid must hold at least one candidate"),
    (MODEL, {"radius": []}, "non-empty"),
    (MODEL, {"radius": "auto"}, "needs to be a list"),
    (MODEL, {"size": [1.0]}, "Invalid parameter 'size'"),
    (MODEL, "radius", "param_grid.* must be"),
    (MODEL, {"radius": [1.0, -1.0]}, r"radius.* \(0\.0, inf\).*Got -1\.0"),
    (MODEL, {"radius": [1.0], "n_iter": [1, -1]}, "n_iter"),
    (MODEL, {"classes": [[0, 1], [0, 2]]}, "labels that are not among classes"),
    (MODEL, {"classes": [[0, 1], 3]}, "classes"),
    (PrivateLasso(), {"target_bound": [1.0, "big"]}, "target_bound must be a positive number"),
    (PrivateLasso(), {"target_bound": [1.0, -1.0]}, "target_bound must be in"),
    *(
        (SCALED, {f"{name}": [v]}, rf"param_grid must not contain \['{name}'\]")
        for name, v in {
            "model__epsilon": 1.0,
            "scale__ledger": None,
            "model__random_state": 0,
        }.items()
    ),
    (MODEL, {"delta": [1e-6]}, r"param_grid must not contain \['delta'\]"),
    (SCALED, {"scale": [PrivateStandardScaler(), StandardScaler()]}, "Not private: scale: learns"),
    (SCALED, {"model": [MODEL, LogisticRegression()]}, "Not private: model: learns from the data"),
    (SCALED, {"model": [MODEL, PrivateStandardScaler()]}, "scoring needs predict"),
    # Behind a private step, too:
    (SCALED, {"model__radius": [1.0, -1.0]}, "radius"),
    (SCALED, {"model__classes": [[0, 1], [0, 2]]}, "labels that are not among classes"),
    (
        make_pipeline(PrivateFeatureSelector(n_features_to_select=2), MODEL),
        {"privatelogisticl1__n_iter": [5, 0]},
        "n_iter",
    ),
    (
        make_pipeline(ColumnTransformer([("a", PrivateStandardScaler(), [0])]), MODEL),
        {"privatelogisticl1__feature_bound": [1.0, NAN]},
        "sparse_threshold=0|feature_bound",
    ),
    (LogisticRegression(), {"C": [1.0]}, "estimator must be private in every step.*use Private"),
    (OneVsRestClassifier(MODEL), {"estimator__radius": [1.0]}, "how often it fits"),
    (CACHED, {"model__radius": [1.0]}, "set memory=None"),
    (None, GRID, "estimator.*implementing 'fit'"),
    (PrivateLogisticL1, GRID, "estimator"),
    (PrivateLogisticL1(epsilon=-1), GRID, "epsilon must be a finite real number"),
    (PrivateLogisticL1(epsilon=1e300), GRID, "too large"),
    (UNEQUAL, {"scale__with_mean": [True]}, "epsilon is too small for this many fits"),
]


@pytest.mark.parametrize(("estimator", "grid", "match"), BAD_GRIDS)
def test_candidates(estimator, grid, match):
    refuses_search(match, estimator, grid, epsilon=1.0)


class Greedy(PrivateLogisticL1):
    """Plans with more than it was granted."""

    def _available(self, budget):
        return Allowance(1.001 * budget.rho)


def test_a_plan_that_costs_too_much():
    greedy = PrivateGridSearchCV(Greedy(), GRID)
    match = r"Greedy costs rho=.* and was granted"
    refuses(match, lambda ledger: greedy.set_params(ledger=ledger).fit(X, Y), BudgetExceededError)


def with_entry(value, row):
    changed = X.copy()
    changed[row, 1] = value
    return changed


LABELS_WITH_TWO = np.where(np.arange(N) == 7, 2, Y)
BAD_DATA = {
    "NaN": ({"X": with_entry(NAN, 3)}, "Input X contains NaN"),
    "lengths": ({"X": X[:-1]}, "inconsistent numbers of samples"),
    "label": ({"y": LABELS_WITH_TWO}, "labels that are not among classes"),
    "weight": ({"fit_params": {"sample_weight": np.ones(N)}}, "sample_weight is not supported"),
    "argument": ({"fit_params": {"groups": 1}}, r"unexpected arguments \['groups'\]"),
    "one record": ({"X": X[:1], "y": Y[:1]}, "leaves no record in one of the parts|n_samples=1"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_data(case):
    bad, match = BAD_DATA[case]
    for seed in (None, 0, 1):  # whichever part the record is in
        refuses_search(match, **{"random_state": seed, "validation_fraction": 0.2, **bad})
    bad = {"X": X, "y": Y, **bad}
    refuses(match, lambda ledger: private_cross_val_score(MODEL, ledger=ledger, **bad))


def blocks_of(kind):
    if kind == "iterator":
        return iter([(X, Y)])
    dask_array = pytest.importorskip("dask.array", reason="needs the extra dask")
    return dask_array.from_array(X, chunks=(10, 3))


@pytest.mark.parametrize("y", [Y, None], ids=["y", "no y"])
@pytest.mark.parametrize("kind", ["iterator", "dask"])
def test_blocks(kind, y):
    """`RowBlocks` of arrays and files are another matter: tests/test_blocks_everywhere.py."""
    bad, match = blocks_of(kind), "X must be an array.*since a search takes random rows of it"
    for estimator in (MODEL, SCALED):
        refuses_search(match, estimator, {}, X=bad, y=y)
        refuses(match, lambda ledger: private_cross_val_score(MODEL, bad, y, ledger=ledger))


@pytest.mark.parametrize("kind", ["blocks", "arrow"])
def test_targets_of_blocks(kind):
    pa = pytest.importorskip("pyarrow", reason="needs the extra arrow")
    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    bad = RowBlocks.from_arrays(X, block_size=10) if kind == "blocks" else table
    refuses_search("requires y to be passed", MODEL, {}, X=bad, y=None)
    given = RowBlocks.from_arrays(X, Y, block_size=10)
    refuses_search("y must be None where the blocks", MODEL, {}, X=given, y=Y)


BAD_ARGUMENTS = [
    *(({"cv": v}, r"cv must be an int in \[2, 40\]") for v in (1, 0, 41, 2.5, "5", True)),
    *(({"epsilon": v}, "epsilon") for v in (0, NAN, INF, "1", None, True, 1e-9, 1e300)),
    *(({"delta": v}, "delta") for v in (0, 1, NAN, "1", None)),
    *(({"n_jobs": v}, "n_jobs") for v in (0, "two")),
    *(({"random_state": v}, "random_state|cannot be used to seed") for v in (-1, "x", True)),
    ({"scoring": "f1"}, "scoring='f1' has no known sensitivity"),
    ({"estimator": LogisticRegression()}, "Not private"),
    ({"estimator": SCALED.set_params(model__radius=1.0), "y": LABELS_WITH_TWO}, "labels that are"),
    ({"estimator": PrivateLogisticL1(radius=-1.0)}, "radius"),
    ({"estimator": PrivateLogisticL1}, "estimator|clone"),
    ({"estimator": None}, "estimator|None"),
]


@each(("arguments", "match"), BAD_ARGUMENTS)
def test_cross_validation(arguments, match):
    arguments = {"estimator": MODEL, "X": X, "y": Y, **arguments}
    refuses(match, lambda ledger: private_cross_val_score(ledger=ledger, **arguments))


def test_failure_after_the_charge(monkeypatch):
    def fails(*arguments):
        raise ZeroDivisionError("later")

    y = Y.copy()
    y[::3] = 1 - y[::3]
    ledger = Ledger(50.0, 1e-6)
    search = PrivateGridSearchCV(MODEL, GRID, ledger=ledger).fit(X, y)
    before = dict(vars(search))
    monkeypatch.setattr(search_module, "best_try", fails)
    monkeypatch.setattr(search_module, "choose_winner", fails)
    with pytest.raises(ZeroDivisionError, match="later"):
        search.fit(X, y)
    assert len(ledger.charges()) == 2  # noise was drawn
    for name in before:
        assert vars(search)[name] is before[name]
    assert vars(search).keys() == before.keys()
