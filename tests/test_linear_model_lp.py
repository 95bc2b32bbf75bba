"""`PrivateLinearClassifier` and `PrivateLinearRegressor` as scikit-learn and its users see them.

Most tests use the solver of an example, which needs no compilation.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest
from cases import each
from own_solver import OneGradient
from test_estimators import data

from skdpsco import PrivateLinearClassifier, PrivateLinearRegressor
from skdpsco.constraints import L1Ball, L2Ball, LpBall
from skdpsco.linear_model._lp_ball import BALL_SOLVERS
from skdpsco.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Quantile,
    SmoothHinge,
    Squared,
    Traits,
    derivative,
    value,
)
from skdpsco.losses.check import loss_of
from skdpsco.privacy import Budget
from skdpsco.solvers import PhasedERM, ProjectedDescent

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

MODELS = [PrivateLinearClassifier, PrivateLinearRegressor]
BOTH = pytest.mark.parametrize("Estimator", MODELS)


class Seen(OneGradient):
    """Keeps the problem that it was asked to plan."""

    def plan(self, problem, budget, n_iter=None):
        self.problem = problem
        return super().plan(problem, budget, n_iter)


def target_of(Estimator, y, n_classes=2):
    if Estimator is PrivateLinearRegressor:
        return y
    return np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))


def fitted(Estimator, X, y, **params):
    defaults = {"feature_bound": 3.0, "random_state": 0, "epsilon": 5.0, "solver": OneGradient()}
    if Estimator is PrivateLinearRegressor:
        defaults |= {"target_bound": 1.0, "radius": 1.0}  # otherwise its scale is found first
    return Estimator(**{**defaults, **params}).fit(X, y)


def problem_of(Estimator, y=None, **params):
    X, target = data()
    y = target_of(Estimator, target) if y is None else y
    return fitted(Estimator, X, y, **params, solver=(solver := Seen())), solver.problem


# --- the problem that solvers see


@BOTH
@each(
    ("p", "ball"),
    [
        (1, L1Ball(6.0)),
        (2.0, L2Ball(6.0)),
        (1.5, LpBall(1.5, 6.0)),
        (math.inf, LpBall(math.inf, 6.0)),
    ],
)
def test_ball(Estimator, p, ball):
    bounds = [3.0, 1.0, 2.0, 0.5]
    model, problem = problem_of(Estimator, p=p, radius=2.0, feature_bound=bounds)
    assert problem.constraint == ball
    assert type(problem.constraint) is type(ball)
    assert (problem.n_samples, problem.n_features, problem.intercept) == (500, 5, True)
    given = np.append(model.coef_.ravel() * bounds, model.intercept_)
    assert np.linalg.norm(given, ord=p) == pytest.approx(6.0)


@BOTH
def test_row_norm(Estimator):
    model, problem = problem_of(Estimator, row_norm=0.5)
    assert problem.row_norm == 0.5
    shrunk = "records divided by the bounds are shrunk to l2 norm 0.5"
    assert shrunk not in model.privacy_.assumptions  # the solver of the example does not
    X, y = data()
    for solver in ("auto", PhasedERM()):
        model = fitted(Estimator, X, target_of(Estimator, y), row_norm=0.5, solver=solver)
        assert shrunk in model.privacy_.assumptions
    _, problem = problem_of(Estimator)
    assert problem.row_norm == math.inf


class LogCosh(NamedTuple):
    """A user's loss: ``log(cosh(z - y))``."""

    n_outputs = 1

    def lipschitz(self, prediction_bound=math.inf, target_bound=1.0):
        return 1.0

    def smoothness(self):
        return 1.0


@value.register(LogCosh)
def _(loss, z, y):
    return abs(z - y) + math.log1p(math.exp(-2.0 * abs(z - y))) - math.log(2.0)


@derivative.register(LogCosh)
def _(loss, z, y):
    return math.tanh(z - y)


@pytest.mark.parametrize(
    ("Estimator", "given", "loss"),
    [
        (PrivateLinearClassifier, "logistic", Logistic()),
        (PrivateLinearClassifier, "smooth-hinge", SmoothHinge()),
        (PrivateLinearClassifier, "hinge", Hinge()),
        (PrivateLinearClassifier, SmoothHinge(0.5), SmoothHinge(0.5)),
        (PrivateLinearClassifier, LogCosh(), LogCosh()),
        (PrivateLinearRegressor, "squared", Squared(1.0)),
        (PrivateLinearRegressor, "huber", Huber(0.1)),
        (PrivateLinearRegressor, "absolute", Absolute()),
        (PrivateLinearRegressor, Quantile(0.9), Quantile(0.9)),
        (PrivateLinearRegressor, LogCosh(), LogCosh()),
    ],
)
def test_loss(Estimator, given, loss):
    model, problem = problem_of(Estimator, loss=given)
    assert problem.loss == loss
    assert type(problem.loss) is type(loss)
    own = f"the loss {loss!r} is convex and keeps to the constants it declares"
    assert (own in model.privacy_.assumptions) == isinstance(loss, LogCosh)
    probabilities = given == "logistic"
    assert hasattr(model, "predict_proba") == hasattr(model, "predict_log_proba") == probabilities


@pytest.mark.parametrize("loss", ["logistic", Multinomial(3)])
def test_several_classes(loss):
    _, y = data()
    model, problem = problem_of(
        PrivateLinearClassifier, target_of(PrivateLinearClassifier, y, 3), loss=loss
    )
    assert problem.loss == Multinomial(3)
    assert hasattr(model, "predict_proba")


# --- solvers


@each(
    ("options", "n", "d", "name"),
    [
        ({}, 600, 4, "projected-descent"),
        ({"radius": 1.0}, 600, 4, "projected-descent"),
        ({"p": 1.0, "radius": 1.0}, 20_000, 100, "projected-descent"),
        ({"p": 1.0}, 20_000, 1_000, "tree-frank-wolfe"),  # one of many features can be told
        ({"p": 1.0}, 2_000, 1_000, "projected-descent"),
        ({"row_norm": 1.0}, 600, 4, "phased-erm"),
        ({"loss": "hinge"}, 600, 4, "phased-erm"),  # which is not smooth
    ],
)
def test_automatic_solvers(options, n, d, name):
    model = PrivateLinearClassifier(**options)
    loss, rho = loss_of(model, "loss", model.loss, "signs"), Budget(1.0, 1e-6).rho
    assert isinstance(model._resolved_solver(loss, n, d, rho), BALL_SOLVERS[name])


def test_descent_reads_rows_as_they_are():
    X, y = np.zeros((600, 4)), np.arange(600) % 2
    with pytest.raises(ValueError, match="row_norm=None"):
        PrivateLinearClassifier(row_norm=1.0, solver="projected-descent").fit(X, y)


def test_losses_of_users_that_state_their_targets_are_minimised_by_descent(monkeypatch):
    for traits, found in ((Traits(), False), (Traits("numbers", residuals=True), True)):
        monkeypatch.setattr(LogCosh, "traits", traits, raising=False)
        solver = PrivateLinearRegressor(loss=LogCosh())._resolved_solver(LogCosh(), 600, 4, 0.02)
        assert isinstance(solver, ProjectedDescent) == found


@pytest.mark.usefixtures("as_they_are")
@pytest.mark.parametrize("p", [1.0, 2.0, 4.0, math.inf])
def test_a_descent_ends_in_the_ball(p):
    X, y = data()
    options = {"solver": "projected-descent", "random_state": 0}
    model = PrivateLinearRegressor(p=p, radius=0.1, target_bound=4.0, epsilon=50.0, **options)
    model.fit(X, y)
    coefs = np.append(model.coef_ * model.feature_bound_, model.intercept_)
    assert 0.09 < np.linalg.norm(coefs, p) < 0.1 + 1e-9
