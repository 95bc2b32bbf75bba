"""Mistakes of users: what they are told, and that nothing is lost and no noise is drawn."""

import math
from copy import copy
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from cases import each
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from stand_ins import Declared

import skdpsco.base.private_estimator
from skdpsco import (
    PrivateElasticNet,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateRidge,
)
from skdpsco._random import generator
from skdpsco.losses import Hinge, Logistic, Multinomial, SmoothHinge, derivative, value
from skdpsco.solvers import CoordinateDescent, FrankWolfe, Stagewise

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
BOTH = pytest.mark.parametrize("Estimator", [PrivateLasso, PrivateLogisticL1])

N, D = 40, 4
X = np.random.default_rng(0).uniform(-1, 1, (N, D))
Y = (X[:, 0] > 0).astype(int)
FRAME = pd.DataFrame(X, columns=["one", "two", "three", "four"])
NAN, INF = float("nan"), float("inf")


@cache
def fitted(Estimator):
    return Estimator(random_state=0).fit(FRAME, Y)


def refuses(model, match, X=X, y=Y, error=(ValueError, TypeError), fit=None, **fit_params):
    """Refits a fitted model: it must refuse before noise is drawn, and stay as it was."""
    params = model.get_params(deep=False)
    model = copy(fit or fitted(type(model))).set_params(**params)
    before = dict(vars(model))
    drawn = []

    def record(random_state, stacklevel):
        result = generator(random_state, stacklevel)
        drawn.append(result)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(skdpsco.base.private_estimator, "generator", record)
        with pytest.raises(error, match=match) as caught:
            model.fit(X, y, **fit_params)
    assert drawn == []
    after = vars(model)
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)
    never_fitted = type(model)(**params)
    with pytest.raises(error, match=match):
        never_fitted.fit(X, y, **fit_params)
    assert vars(never_fitted).keys() == params.keys()
    return str(caught.value)


EPSILON = r"epsilon.* \(0(\.0)?, inf\)"
DELTA = r"delta.* \[0\.0, 1\.0\)"
RADIUS = r"radius.* among \{'auto'\} or a float in the range \(0\.0, inf\)"
BOUND = r"_bound.* in the range \(0\.0, inf\)"
N_ITER = r"n_iter.* \[1, 10000\]"
SOLVER = r"solver.* object implementing 'plan' and 'run'"
NUMBER = "must be a positive number, got True"
NUMBERS = "feature_bound must be a positive number, or a list of one number per"
NO_NUMBERS = ["a"] * 4, [True] * 4, [1, 1, 1, 1j], [1, None, 1, 1], [[1], [1, 2]]
NO_SHAPES = [1, 2], [], [1] * 5, [[1, 1, 1, 1]], np.ones((4, 1)), FRAME
IN_RANGE = r"feature_bound must be in .*that of column {} is {}"
VERTICES_ONLY = "radius='auto' needs solver='stagewise'.*Give radius as a number"
BAD_PARAMETERS = [  # with the values that each message is about
    ("epsilon", EPSILON, (NAN, INF, -INF, 0, -1, "1", None, 1j, [1.0], np.float64(NAN))),
    ("epsilon", r"epsilon must be a finite real number in \(0, inf\), got True", (True,)),
    ("epsilon", r"1e\+300 is too large with delta=1e-06.*\[1e-09, 1e\+12\]", (1e300,)),
    ("delta", DELTA, (NAN, INF, -1, 1, 2.0, "1", None, True, 1j, [0.1])),
    ("radius", RADIUS, (NAN, INF, 0, -1, "big", None, 1j, [1.0])),
    ("radius", f"radius {NUMBER}", (True,)),
    ("radius", r"radius must be in \[1e-100, 1e\+100\], got 1e[+-]300", (1e300, 1e-300)),
    ("feature_bound", "feature" + BOUND, (NAN, INF, 0, -1, "1", 1j)),
    ("feature_bound", f"feature_bound {NUMBER}", (True,)),
    ("feature_bound", r"feature_bound must be in \[1e-100, 1e\+100\]", (1e101,)),
    ("feature_bound", r"feature_bound must be .*have shape \(4,\).*got shape", NO_SHAPES),
    ("feature_bound", NUMBERS, (*NO_NUMBERS, np.ones(4, dtype=object))),
    ("feature_bound", "is given by the names of columns, but X has no", ({"one": 1.0},)),
    ("feature_bound", IN_RANGE.format(1, 0), ([1, 0, 1, 1],)),
    ("feature_bound", IN_RANGE.format(3, "nan"), ([1, 1, 1, NAN],)),
    ("feature_bound", IN_RANGE.format(0, -1), ([-1.0, 1, 1, INF],)),
    ("feature_bound", IN_RANGE.format(2, "inf"), ([1, 1, INF, 1],)),
    ("n_iter", N_ITER, (0, -3, 2.5, 5.0, NAN, INF, "many", None, [5], 10**9, True)),
    ("solver", r"solver.*'noisy-frank-wolfe'", ("sgd",)),
    ("solver", SOLVER, (None, 3, object())),
    ("solver", r"solver must be an instance, Stagewise\(\)", (Stagewise,)),
    ("solver", VERTICES_ONLY, ("frank-wolfe", FrankWolfe())),
    ("fit_intercept", "fit_intercept.*'bool'", ("yes", 1, None, [True])),
    ("random_state", r"random_state.* \[0, 4294967295\].*RandomState",
     (-1, "x", 1.5, 2**40, np.random.default_rng(0))),
    ("random_state", "must be None, a non-negative integer or .*got True", (True,)),
]  # fmt: skip
TWO_LABELS = "classes must be a list of at least two different labels, all numbers or all strings"
BAD_CLASSES = [
    *((v, "classes.* None, an array-like or a Schema") for v in ("ab", 3, True)),
    *((v, TWO_LABELS) for v in ([], [0], [1, 0, 1], [[0, 1]], [[0], [1, 2]], {"a": 1}, [None, 1])),
    *((v, TWO_LABELS) for v in ([0, "a"], ["a", NAN], [0, 1, True], [np.array([0]), 1, 2])),
    *((v, "classes must be finite") for v in ([0, 1, NAN], [0, 1, INF])),
    ([2**53, 2**53 + 1], "classes must differ as floats, or be strings"),
    (["0", "1"], r"classes must have the type of the labels in y: .*U1 against int64\. \(A Schema"),
    (["a", "b"], r"Meta-estimators such as VotingClassifier.* integers: .* classes=\[0, 1\]"),
    ([0, 2], r"y contains labels that are not among classes=\[0, 2\]"),
    ([-1, 1], "y contains labels that are not among classes"),
]


@BOTH
@each(("name", "match", "values"), BAD_PARAMETERS)
def test_parameters(Estimator, name, match, values):
    for bad in values:
        message = refuses(Estimator(**{name: bad}), match)
        assert "array([[" not in message


@each(("value", "match"), BAD_CLASSES)
def test_classes(value, match):
    refuses(PrivateLogisticL1(classes=value), match)


def table(**columns):
    return pd.DataFrame({name: [value] * N for name, value in columns.items()})


def with_entry(value):
    changed = X.copy()
    changed[3, 2] = value
    return changed


DATES = np.full((N, D), np.datetime64("2020-01-01"))
HINT = "Encode text first: declare the columns in a skdpsco.Schema"
TEXT = f"X must be numeric, but contains text. {HINT}"
IN_A = f"X must be numeric, but contains text in column 'a'. {HINT}"
NO_DATES = "X must be numeric, got .*Turn dates into numbers first"
LEGAL = "X must be an array, a sparse matrix or a data frame of shape .n_samples, n_features., "
BAD_X = {
    "NaN": (with_entry(NAN), "Input X contains NaN, and .* a public constant .* not private"),
    "words": ([["a", "b"]] * N, TEXT),
    "column of words": (table(b=1.0, a="x"), IN_A),
    "dates": (DATES, NO_DATES),
    "date column": (table(b=1.0, a=pd.Timestamp("2020-01-01")), "in column 'a'. Turn dates"),
    "huge integer": ([[10**400] * D] * N, "X contains a number that is too large"),
    "fields": (
        np.array([tuple(x) for x in X], "f8, f8, f8, f8"),
        LEGAL + r"got an array of dtype \[\(",
    ),
    "dict": ({"a": X[:, 0].tolist(), "b": X[:, 1].tolist()}, LEGAL + "got dict"),
    "lengths": (X[:-1], r"inconsistent numbers of samples: \[39, 40\]"),
}


@BOTH
@each("case", BAD_X)
def test_X(Estimator, case):
    bad, match = BAD_X[case]
    refuses(Estimator(), match, X=bad)


def placed(value):
    """Frames, arrays and lists with a bad entry in column 1, and what the message calls it."""
    bad = np.ones((4, 3))
    bad[2, 1] = value
    arrays = [bad, np.asfortranarray(bad, np.float32), bad.astype(object), bad.tolist()]
    mixed = pd.DataFrame(bad, columns=[*"abc"]).astype({"a": bool, "b": "Float64"})
    frames = [pd.DataFrame(bad, columns=[*"abc"]), pl.DataFrame(bad, schema=[*"abc"]), mixed]
    numbered = [*arrays, sparse.csr_array(bad), sparse.csc_matrix(bad), pd.DataFrame(bad)]
    return [(one, "1") for one in numbered] + [(one, "'b'") for one in frames]


@each("value", [NAN, INF, -INF])
def test_messages_about_entries_name_their_column(value):
    for bad, name in placed(value):
        with pytest.raises(ValueError, match=f"^Input X contains .*: see column {name}[.]") as told:
            PrivateLasso().fit(bad, np.ones(4))
        assert told.value.__cause__ is told.value.__context__ is None


NUMERIC = "y must be numeric"
BAD_Y = {
    "nothing": (None, "requires y to be passed", "same"),
    "two columns": (np.c_[Y, Y], r"y should be a 1d array.*\(40, 2\)", "same"),
    "NaN": (np.where(Y, NAN, 0.0), "Input y contains NaN", "same"),
    "words": (np.where(Y, "a", "b"), NUMERIC, None),
    "objects": (np.where(Y, "a", "b").astype(object), NUMERIC, None),
    "digits": (np.where(Y, "1", "2"), NUMERIC, None),
    "dates": (DATES[:, 0], NUMERIC, "only one class"),
    "None": ([None] * N, "y must be finite, but contains NaN, None", "none of them missing"),
    "pandas NA": (
        pd.Series([pd.NA, "b"] * (N // 2), dtype="string"),
        "y must be one number or label per record, none missing",
        "same",
    ),
    "huge integer": ([10**400] * N, NUMERIC, "Unknown label type"),
    "mixed": (np.array([1, "a"] * (N // 2), dtype=object), NUMERIC, "Unknown label type"),
    "continuous": (X[:, 0], None, "Unknown label type: continuous"),
    "constant": (np.zeros(N), None, r"two classes, but y contains only one.*classes=\[\.\.\.\]"),
}


@BOTH
@each("case", BAD_Y)
def test_y(Estimator, case):
    bad, match, match_classifier = BAD_Y[case]
    if Estimator is PrivateLogisticL1 and match_classifier != "same":
        match = match_classifier
    if Estimator is PrivateLasso and case == "two columns":
        match = None  # which are two targets
    if match is None:
        assert np.isfinite(Estimator().fit(X, bad).coef_).all()
    else:
        refuses(Estimator(), match, y=bad)


@BOTH
def test_sample_weight(Estimator):
    weight = np.ones(N)
    match = "sample_weight is not supported.*Pass sample_weight=None"
    refuses(Estimator(), match, sample_weight=weight, error=ValueError)
    first = Estimator(random_state=0).fit(X, Y, sample_weight=None).coef_
    np.testing.assert_array_equal(first, Estimator(random_state=0).fit(X, Y).coef_)
    pipeline = make_pipeline(StandardScaler(), Estimator())
    with pytest.raises(ValueError, match=match):
        pipeline.fit(X, Y, **{f"{pipeline.steps[-1][0]}__sample_weight": weight})
    with sklearn.config_context(enable_metadata_routing=True):
        refuses(Estimator(), match, sample_weight=weight, error=ValueError)
        pipeline[0].set_fit_request(sample_weight=False)
        with pytest.raises(TypeError, match=r"unexpected argument.*sample_weight"):
            pipeline.fit(X, Y, sample_weight=weight)


@BOTH
def test_unknown_arguments(Estimator):
    refuses(Estimator(), r"unexpected arguments \['groups', 'weights'\]", weights=1, groups=2)
    refuses(Estimator(), "max_records_per_unit must be given together", units=np.ones(N))
    with pytest.raises(TypeError):
        Estimator().fit(X, Y, np.ones(N))


def predictions(Estimator):
    names = ["predict", "predict_proba", "predict_log_proba", "decision_function"]
    return names[:1] if Estimator is PrivateLasso else names


@BOTH
@each("case", sorted(BAD_X.keys() - {"lengths"}))
def test_predict(Estimator, case):
    bad, match = BAD_X[case]
    columns = getattr(bad, "columns", None)
    if columns is None or len(columns) == D:
        model = Estimator().fit(X if columns is None else bad.fillna(0.0), Y)
    else:
        model = Estimator().fit(pd.DataFrame(X[:, : len(columns)], columns=list(columns)), Y)
    before = dict(vars(model))
    for name in predictions(Estimator):
        with pytest.raises((ValueError, TypeError), match=match):
            getattr(model, name)(bad)
    assert vars(model) == before


class Steep(Declared):
    """Declares half of its slope."""


@value.register(Steep)
def _(loss, z, y):
    return math.sqrt(1.0 + (z - y) ** 2)


@derivative.register(Steep)
def _(loss, z, y):
    return (z - y) / math.sqrt(1.0 + (z - y) ** 2)


REACH = r"radius \* max\(feature_bound\) must be in \[1e-100, 1e\+100\]"
PER_TARGET = REACH.replace(" must", " / target_bound must")
QUOTIENT = r"target_bound / feature_bound must be in \[1e-100, 1e\+100\]"
TINY = r"epsilon=1e-09 is too small with delta=1e-12.*legal range is \[1e-09, 1e\+12\]"
OVERFLOWS = r"Cannot split the budget for epsilon=1\.0, delta=1e-06, radius=1e\+100.*workable range"
VERTICES = r"solver='one-pass-frank-wolfe' needs the vertices of an l1 ball, p=1; got p=2\.0"
OF_BALLS = PrivateLinearClassifier, PrivateLinearRegressor
BAD_MODELS = [
    *((Model(epsilon=1e-9, delta=1e-12), TINY) for Model in (PrivateLasso, PrivateLogisticL1)),
    (PrivateLasso(radius=1e60, feature_bound=1e60), REACH),
    (PrivateLogisticL1(radius=1e-60, feature_bound=1e-60), REACH),
    (PrivateLogisticL1(radius=1e60, feature_bound=[1, 1, 1e60, 1]), REACH),
    (PrivateLinearRegressor(radius=1e60, target_bound=1e-60), PER_TARGET),
    (PrivateLinearRegressor(radius=1e-60, target_bound=1e60), PER_TARGET),
    (PrivateElasticNet(feature_bound=1e-60, target_bound=1e60), QUOTIENT),
    (PrivateRidge(feature_bound=1e60, target_bound=1e-60), QUOTIENT),
    *(
        (PrivateLasso(radius=1e100, target_bound=1e-100, solver=solver), OVERFLOWS)
        for solver in ("frank-wolfe", "noisy-frank-wolfe")
    ),
    *((Model(solver="one-pass-frank-wolfe"), VERTICES) for Model in OF_BALLS),
    *((Model(loss=Declared(1.0, 1.0, 2)), "loss.*Declared|Declared.*loss") for Model in OF_BALLS),
    *((Model(loss=Declared(0.5, 1.0)), "loss.*Declared|Declared.*loss") for Model in OF_BALLS),
    *((Model(loss=Steep(0.5, 1.0)), "loss.*Steep|Steep.*loss") for Model in OF_BALLS),
    *(
        (PrivateLinearRegressor(loss=loss), "loss=.* is not for PrivateLinearRegressor")
        for loss in (Logistic(), SmoothHinge(), Hinge(), Multinomial(2))
    ),
]


@each(("model", "match"), BAD_MODELS)
def test_models(model, match):
    refuses(model, match)


@each("loss", ["hinge", "smooth-hinge", Logistic(), Multinomial(2)])
def test_losses_of_several_classes(loss):
    match = r"With 3 classes loss must be 'logistic' or Multinomial\(3\), got "
    refuses(PrivateLinearClassifier(loss=loss), match, y=np.arange(N) % 3)
    refuses(PrivateLinearClassifier(loss=loss, classes=[0, 1, 2]), match)


PENALISED = [PrivateElasticNet, PrivateRidge, PrivateLogisticRegression]


class Refuses(CoordinateDescent):
    """Has no plan where the unit of the first feature is as small as only bounds may make it."""

    def plan(self, problem, budget, n_iter=None):
        if problem.unit[0] < 1e-8:
            raise ValueError("It is too small.")
        return super().plan(problem, budget, n_iter)


@each("Estimator", PENALISED)
def test_the_plan_is_rehearsed_for_bounds_that_are_yet_to_be_found(Estimator):
    match = "Cannot split the budget for epsilon=1.0.* n=3000, d=4: .* It is too small"
    refuses(
        Estimator(feature_bound=None, solver=Refuses()), match, np.tile(X, (75, 1)), np.tile(Y, 75)
    )
