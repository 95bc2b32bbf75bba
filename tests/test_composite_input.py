"""Elastic net, ridge and logistic regression: kinds of input, and mistakes in it."""

import inspect
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from cases import each
from numpy.testing import assert_allclose, assert_array_equal
from scikit_learn_checks import scikit_learn_checks
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags
from test_bad_input import (
    BAD_CLASSES,
    BAD_TARGET_BOUNDS,
    BAD_X,
    BAD_Y,
    ONE_OF_EACH,
    X,
    Y,
    refuses,
)
from test_estimators import FRAME_COLUMNS, KINDS, data, duplicates_and_disorder, same

from skdpsco import (
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
)
from skdpsco.solvers import SGD, Stagewise
from skdpsco.solvers.penalized.coordinate_descent import CoordinateDescent

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

MODELS = [PrivateElasticNet, PrivateRidge, PrivateLogisticRegression]
ALL = pytest.mark.parametrize("Estimator", MODELS)
REGRESSORS = each("Estimator", MODELS[:2])
SAMPLING = SGD(accountant="rdp")  # which plans at once
BY_DESCENT = ["coordinate-descent", "greedy-coordinate-descent", "gradient-descent", SAMPLING]
# Every solver with one estimator: to compile all combinations takes minutes.
CASES = pytest.mark.parametrize(
    ("Estimator", "solver"),
    [(Estimator, "auto") for Estimator in MODELS]
    + [(PrivateLogisticRegression, solver) for solver in BY_DESCENT],
)
NAN, INF = float("nan"), float("inf")
LAYOUTS = ["Fortran", "float32", "csr array", "csc array", "pandas", "polars"]


def labels(Estimator, y):
    return (y > 0).astype(int) if Estimator is PrivateLogisticRegression else y


def fitted(Estimator, X, y, **params):
    params = {"feature_bound": 3.0, "random_state": 0, "epsilon": 5.0, **params}
    if Estimator is PrivateElasticNet:
        params = {"alpha": 1e-3, **params}
    return Estimator(**params).fit(X, y)


# --- scikit-learn's own checks


@scikit_learn_checks(
    PrivateRidge(),
    others=[
        PrivateElasticNet(),
        PrivateLogisticRegression(),
        PrivateLinearSVC(),
        PrivateHuberRegressor(),
        PrivateQuantileRegressor(),
        PrivatePoissonRegressor(),
        PrivateGammaRegressor(),
    ],
)
@pytest.mark.filterwarnings("ignore:SCIPY_ARRAY_API:UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@ALL
def test_tags_and_parameters(Estimator):
    tags = get_tags(Estimator())
    assert (tags.regressor_tags or tags.classifier_tags).poor_score
    assert tags.input_tags.sparse
    assert not tags.input_tags.allow_nan
    model = Estimator(solver=CoordinateDescent())
    assert list(model.get_params()) == sorted(inspect.signature(Estimator).parameters)
    assert type(clone(model).solver) is CoordinateDescent
    with pytest.raises(ValueError, match="Invalid parameter 'radius'"):
        model.set_params(radius=1.0)


# --- kinds of input


# One model takes all kinds, the others the layouts for which kernels are compiled.
@pytest.mark.parametrize(
    ("Estimator", "kind"),
    [(PrivateRidge, kind) for kind in KINDS]
    + [(Estimator, kind) for Estimator in (MODELS[0], MODELS[2]) for kind in LAYOUTS],
)
def test_kinds_of_X(Estimator, kind):
    X, y = data()
    y = labels(Estimator, y)
    given = KINDS[kind](X)
    model, reference = (fitted(Estimator, x, y, conditioning=None) for x in (given, X))
    same(model, reference)
    assert_allclose(model.predict(given), reference.predict(X), rtol=1e-5, atol=1e-5)
    named = kind.startswith(("pandas", "polars"))
    assert list(getattr(model, "feature_names_in_", ())) == (FRAME_COLUMNS if named else [])
    assert model.n_features_in_ == 4


@pytest.mark.parametrize(
    ("Estimator", "solver", "feature_bound"),
    [(*case, 2.0) for case in CASES.args[1]]
    + [(Estimator, "auto", None) for Estimator in MODELS],  # bounds are found before solvers run
)
def test_sparse_input_is_the_same_problem(Estimator, solver, feature_bound):
    X, y = data()
    y = labels(Estimator, y)
    # Sparse records are not conditioned.
    params = {"solver": solver, "feature_bound": feature_bound, "conditioning": None}
    params |= {"n_iter": 20} if solver is SAMPLING else {"epsilon": 50.0}
    model = fitted(Estimator, X, y, **params)
    for given in (sparse.csc_matrix(X), duplicates_and_disorder(X)):
        other = fitted(Estimator, given, y, **params)
        assert_allclose(other.coef_, model.coef_, rtol=1e-7)
        assert_allclose(other.intercept_, model.intercept_, rtol=1e-7)


@CASES
def test_features_are_clipped_and_data_kept(Estimator, solver):
    X, y = data()
    y = labels(Estimator, y)
    bounds = np.array([1.0, 2.0, 1.5, 0.5])
    X[::7] *= 1e9
    before, targets = X.copy(), y.copy()
    params = {"feature_bound": bounds, "solver": solver}
    model = fitted(Estimator, X, y, **params)
    assert_array_equal(X, before)
    assert_array_equal(y, targets)
    same(model, fitted(Estimator, np.clip(X, -bounds, bounds), y, **params))


@ALL
@pytest.mark.parametrize("feature_bound", [3.0, None])
def test_attributes(Estimator, feature_bound):
    X, y = data(n=2000)
    frame = pd.DataFrame(X, columns=FRAME_COLUMNS)
    model = fitted(Estimator, frame, labels(Estimator, y), feature_bound=feature_bound)
    section = re.search(r"Attributes\n    -+\n(.*?)\n\n", Estimator.__doc__, re.DOTALL)
    documented = set(re.findall(r"^    (\w+_) :", section.group(1), re.MULTILINE))
    attributes = {name for name in vars(model) if name not in model.get_params()}
    of_moments = {"coef_covariance_", "coef_standard_error_", "uncertainty_"}
    missing = {"feature_bound_"} if feature_bound else set()
    assert attributes == {"_n_fits"} | documented - missing - of_moments
    assert type(model.n_iter_) is int
    other = pickle.loads(pickle.dumps(model))
    same(model, other)
    model.set_params(feature_bound=3.0).fit(X, labels(Estimator, y))
    assert not {"feature_bound_", "feature_names_in_"} & set(vars(model))


@CASES
@pytest.mark.parametrize("n", [1, 2, 30])
def test_hardly_any_records(Estimator, solver, n):
    X, y = data()
    params = {"classes": [0, 1]} if Estimator is PrivateLogisticRegression else {}
    model = fitted(Estimator, X[:n], labels(Estimator, y)[:n], solver=solver, epsilon=1.0, **params)
    assert np.isfinite(model.predict(X)).all()


@ALL
@pytest.mark.filterwarnings("ignore:feature_bound seems")
@pytest.mark.parametrize("value", [0.0, 1e-320, 3.0])
@pytest.mark.parametrize("feature_bound", [3.0, None])
def test_constant_columns(Estimator, value, feature_bound):
    X, y = data()
    y = labels(Estimator, y)
    model = fitted(Estimator, np.full_like(X, value), y, feature_bound=feature_bound)
    assert np.isfinite(model.coef_).all()


@ALL
def test_rows_whose_norm_overflows(Estimator):
    X, y = data()
    y = labels(Estimator, y)
    huge = np.where(X > 0, 1e308, -1e308)
    model = fitted(Estimator, huge, y, feature_bound=1.0)
    same(model, fitted(Estimator, np.sign(huge), y, feature_bound=1.0))
    private = fitted(Estimator, huge, y, feature_bound=None)
    assert (private.feature_bound_ == 2.0**31).all()


# --- mistakes


LEGAL = ("epsilon", "delta", "feature_bound", "n_iter", "fit_intercept", "random_state")
WEIGHT = r"in the range \[0(\.0)?, inf\)"


COMMON = [
    *(case for case in ONE_OF_EACH if case[0] in LEGAL),
    *(("solver", v, r"solver.*'sgd'.*'plan' and 'run'") for v in ("saga", None, 3, object())),
    ("solver", Stagewise, r"solver must be an instance, Stagewise\(\)"),
]
OF_REGRESSORS = [
    *(("alpha", v, "alpha.*" + WEIGHT) for v in (NAN, INF, -1, -1e-9, "1", None, 1j, [1.0])),
    ("alpha", True, r"alpha must be a number in \[0, 1e\+100\], got True"),
    ("alpha", 1e300, r"alpha must be 0 or in \[1e-100, 1e\+100\], got 1e\+300"),
    ("alpha", 1e-300, r"alpha must be 0 or in \[1e-100, 1e\+100\]"),
    ("alpha", 10**400, r"alpha must be 0 or in \[1e-100, 1e\+100\]"),
]
RATIO = [
    *(
        ("l1_ratio", v, r"l1_ratio.* \[0(\.0)?, 1(\.0)?\]")
        for v in (NAN, INF, -0.1, 1.1, "1", None)
    ),
    ("l1_ratio", True, r"l1_ratio must be a number in \[0, 1\], got True"),
]
OF_LOGISTIC = [
    *(("C", v, r"C.*in the range \(0(\.0)?, inf\]") for v in (NAN, -INF, 0, -1, "1", None, [1.0])),
    ("C", True, "C must be a positive number, got True"),
    ("C", 1e300, r"C must be in \[1e-100, 1e\+100\]"),
    *(("penalty", v, "penalty.*'elasticnet'.*None") for v in ("none", "L2", 2, True, ["l1"])),
]


@ALL
@each(("name", "value", "match"), COMMON)
def test_common_parameters(Estimator, name, value, match):
    refuses(Estimator(**{name: value}), match)


@REGRESSORS
@each(("name", "value", "match"), OF_REGRESSORS)
def test_parameters_of_regressors(Estimator, name, value, match):
    refuses(Estimator(**{name: value}), match)


@each(("name", "value", "match"), RATIO)
def test_l1_ratio(name, value, match):
    refuses(PrivateElasticNet(**{name: value}), match)
    refuses(PrivateLogisticRegression(**{name: value}), match)


@each(("name", "value", "match"), OF_LOGISTIC)
def test_parameters_of_logistic_regression(name, value, match):
    refuses(PrivateLogisticRegression(**{name: value}), match)


@REGRESSORS
@each(("value", "match"), BAD_TARGET_BOUNDS)
def test_target_bound(Estimator, value, match):
    refuses(Estimator(target_bound=value), match)


@REGRESSORS
@each(("feature_bound", "target_bound"), [(1e-60, 1e60), (1e60, 1e-60)])
def test_quotients_of_bounds(Estimator, feature_bound, target_bound):
    match = r"target_bound / feature_bound must be in \[1e-100, 1e\+100\]"
    refuses(Estimator(feature_bound=feature_bound, target_bound=target_bound), match)


@each(("value", "match"), BAD_CLASSES)
def test_classes(value, match):
    refuses(PrivateLogisticRegression(classes=value), match)


# Linear models share what reads X; that of models with bounds is tests/test_bad_input.py.
@each("case", BAD_X)
def test_X(case):
    bad, match = BAD_X[case]
    refuses(PrivateRidge(feature_bound=None), match, X=bad)


@each("Estimator", MODELS[1:])
@each("case", BAD_Y)
def test_y(Estimator, case):
    bad, match, of_classifiers = BAD_Y[case]
    if Estimator is PrivateLogisticRegression and of_classifiers != "same":
        match = of_classifiers
    if Estimator is not PrivateLogisticRegression and case == "two columns":
        match = None  # which are two targets
    if match is None:
        assert np.isfinite(Estimator().fit(X, bad).coef_).all()
    else:
        refuses(Estimator(), match, y=bad)


@ALL
def test_sample_weight(Estimator):
    refuses(Estimator(), "sample_weight is not supported", sample_weight=np.ones(len(Y)))


class Refuses(CoordinateDescent):
    """Has no plan where the unit of the first feature is as small as only bounds may make it."""

    def plan(self, problem, budget, n_iter=None):
        if problem.unit[0] < 1e-8:
            raise ValueError("It is too small.")
        return super().plan(problem, budget, n_iter)


@ALL
def test_the_plan_is_rehearsed_for_bounds_that_are_yet_to_be_found(Estimator):
    X, y = data(n=3000)
    y = labels(Estimator, y)
    match = "Cannot split the budget for epsilon=1.0.* n=3000, d=4: .* It is too small"
    refuses(Estimator(feature_bound=None, solver=Refuses()), match, X=X, y=y)
