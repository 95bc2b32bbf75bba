"""Elastic net, ridge and logistic regression: kinds of input, and mistakes in it."""

import pytest
from cases import each
from scikit_learn_checks import scikit_learn_checks
from test_bad_input import (
    refuses,
)
from test_estimators import data

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
from skdpsco.solvers import CoordinateDescent

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

MODELS = [PrivateElasticNet, PrivateRidge, PrivateLogisticRegression]
ALL = pytest.mark.parametrize("Estimator", MODELS)
REGRESSORS = each("Estimator", MODELS[:2])
NAN, INF = float("nan"), float("inf")


def labels(Estimator, y):
    return (y > 0).astype(int) if Estimator is PrivateLogisticRegression else y


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


# --- mistakes


WEIGHT = r"in the range \[0(\.0)?, inf\)"


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
@each(("feature_bound", "target_bound"), [(1e-60, 1e60), (1e60, 1e-60)])
def test_quotients_of_bounds(Estimator, feature_bound, target_bound):
    match = r"target_bound / feature_bound must be in \[1e-100, 1e\+100\]"
    refuses(Estimator(feature_bound=feature_bound, target_bound=target_bound), match)


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
