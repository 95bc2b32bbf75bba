"""Whether a survey finds few coordinates or many, and columns that are alike."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from skdpsco import PrivateLogisticL1
from skdpsco.data.design import as_design
from skdpsco.losses import Logistic, Multinomial, Squared
from skdpsco.mechanisms.samplers import deviation_on
from skdpsco.solvers import Allowance, GradientDescent, Problem
from skdpsco.solvers.l1.survey import SURVEY, follow_survey, plan_survey, survey_pays
from skdpsco.solvers.penalized.problem import unpenalised

N, D = 2000, 60


def surveyed(w, loss=None, alike=0.0, mu=1.0):
    """What is found of the coefficients ``w``, in one or several outputs."""
    rng = np.random.default_rng(0)
    X = (1.0 - alike) * rng.uniform(-1.0, 1.0, (N, D)) + alike * rng.uniform(-1.0, 1.0, (N, 1))
    z = X @ np.asarray(w).T
    if isinstance(loss, Logistic):
        y = np.where(z + rng.logistic(size=N) > 0.0, 1.0, -1.0)
    elif loss is not None:
        y = np.argmax(z + rng.gumbel(size=z.shape), axis=1).astype(float)
    else:
        loss, y = Squared(1.0), np.clip(0.3 * z / z.std(), -1.0, 1.0)
    problem = Problem(loss, None, N, D + 1, True)
    plan, rest = plan_survey(problem, mu)
    design = as_design(X, np.ones(D), True)
    found = follow_survey(plan, problem, design, y, np.random.Generator(np.random.PCG64(1)))
    return plan, rest, *found


def sparse_truth(*places):
    w = np.zeros(D)
    w[list(places)] = 3.0
    return w


@pytest.mark.parametrize("loss", [None, Logistic()])
def test_few_coordinates_are_refitted(loss):
    _, _, _, selected, descent = surveyed(sparse_truth(3, 40), loss, mu=0.4)
    assert descent is None
    assert {3, 40} <= set(selected)
    assert len(selected) < 12  # few records make others seem to matter a little


def test_coordinates_of_classes_are_flat():
    w = np.zeros((3, D))
    w[2, 5] = 6.0
    _, _, _, selected, descent = surveyed(w, Multinomial(3), mu=4.0)
    assert descent is None
    assert 2 * (D + 1) + 5 in selected
    assert not {D, 2 * D + 1, 3 * D + 2} & set(selected)  # the intercepts


def test_many_coordinates_are_fitted_by_gradient_descent():
    w = np.random.default_rng(5).choice([-1.0, 1.0], D)
    plan, _, start, _, descent = surveyed(w, mu=0.4)
    assert descent is plan.late
    assert np.corrcoef(start[:D], w)[0, 1] > 0.8  # which begins at what was found
    assert start[D] == 0.0


def test_columns_that_are_alike_leave_more_for_gradient_descent():
    plan, rest, start, selected, descent = surveyed(np.ones(D), alike=0.7)
    assert descent is plan.early
    assert len(selected) == 0
    # The step is short where many columns have a common part, so that predictions are not too long.
    assert 0.0 < np.linalg.norm(start) < 1.0
    assert 0.0 < rest < 1.0


def test_a_survey_needs_gradients_that_are_more_than_noise():
    problem = Problem(Logistic(), None, N, D, True)
    assert not survey_pays(problem, 4.9 * D / N)
    assert survey_pays(problem, 5.1 * D / N)
    assert not survey_pays(Problem(Multinomial(4), None, N, D, True), 9.9 * D / N)
    assert survey_pays(Problem(Multinomial(4), None, N, D, True), 10.1 * D / N)


@pytest.mark.parametrize("added", [False, True])
def test_noise_is_that_of_the_shares(added):
    """Gradients have the noise of gradient descent for their shares, and counts move by one."""
    problem, mu = Problem(Logistic(), None, N, D, True, added=added), 0.4
    plan, _ = plan_survey(problem, mu)
    descent = GradientDescent(clip=1.0, preconditioned=False)  # nothing but gradients

    def grid(share):
        part = Allowance(share * mu * mu / 2.0)
        return descent.plan(unpenalised(problem), part, 1).grid

    assert plan.second == pytest.approx(grid(SURVEY.second_share), rel=1e-9)
    assert plan.first.grid >= grid(SURVEY.first_share) * (1.0 - 1e-9)
    least = 2.0 / (np.sqrt(SURVEY.spread_share) * mu)  # four counts
    assert deviation_on(plan.first.spread_grid) >= least


def test_dense_labels_are_no_constant_with_little_budget_nor_confined_with_much():
    """Digits: a constant at epsilon 1, and a ball that was too small for ten classes, before."""
    X, y = load_digits(return_X_y=True)
    for K, epsilon, least in ((3, 1.0, 0.8), (3, 2.0, 0.8), (10, 0.7, 0.6), (10, 100.0, 0.96)):
        some = y < K
        model = PrivateLogisticL1(epsilon=epsilon, feature_bound=16, classes=range(K))
        assert model.fit(X[some], y[some]).score(X[some], y[some]) > least
