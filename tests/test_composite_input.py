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
