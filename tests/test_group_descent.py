"""Group DRO by gradient descent: its releases, its optimum, and what it is for."""

import math

import numpy as np
import pytest
from scipy import sparse

from skdpsco import PrivateGroupDRO
from skdpsco.constraints.sets import L2Ball
from skdpsco.data.design import as_design
from skdpsco.losses.kernels import values
from skdpsco.losses.library import Hinge, Logistic, Squared, without_weights
from skdpsco.privacy import Budget
from skdpsco.solvers.groups.descent import (
    GroupDescent,
    losses_by_group,
    mixed,
    rates_of,
    targets_with_weights,
)
from skdpsco.solvers.groups.problem import GroupedTargets, GroupProblem
from skdpsco.solvers.penalized.task_weights import capped

LOSSES = [(Logistic(), None), (Logistic(), (1.0, 0.25)), (Squared(1.0), None), (Hinge(), None)]


def problem_of(loss, weights=None, **options):
    return GroupProblem(
        loss, L2Ball(math.inf), 200, 3, **{"n_groups": 3, **options}, class_weights=weights
    )


@pytest.mark.parametrize(("loss", "weights"), LOSSES)
def test_losses_of_groups_are_those_of_their_records(loss, weights):
    rng = np.random.default_rng(1)
    A, t = rng.uniform(-1.0, 1.0, (50, 2)), rng.choice([-1.0, 1.0], 50)
    member = (rng.random((50, 3)) < 0.5).astype(float)
    w = np.array([0.3, -0.2, 0.1])
    y = GroupedTargets(t, sparse.csr_array(member))
    problem = problem_of(loss, weights)
    found = losses_by_group(as_design(A, np.ones(2), True), y, problem, w, 10.0)
    each = np.empty(50)
    values(loss, (A @ w[:2] + w[2])[:, None], t, each)
    weights = 1.0 if weights is None else np.where(t > 0.0, weights[1], weights[0])
    assert found == pytest.approx(member.T @ (weights * each) / 10.0)


def test_weights_of_records_are_at_most_1():
    rng = np.random.default_rng(2)
    for r in (1, 2, 4):
        sizes = rng.uniform(1.0, 100.0, 4)
        problem = problem_of(Squared(1.0), n_groups=4, max_memberships=r)
        rates, mean = rates_of(problem, rng.dirichlet(np.ones(4)), sizes)
        heaviest = np.sort(rates)[::-1][:r].sum()
        assert heaviest == pytest.approx(1.0)
        assert 0.0 < mean <= 1.0
        member = np.zeros((1, 4))
        member[0, np.argsort(rates)[-r:]] = 1.0
        y = GroupedTargets(np.array([0.25]), sparse.csr_array(member))
        targets = targets_with_weights(y, problem, rates)
        assert without_weights(targets) == pytest.approx([0.25])
        assert targets[0] <= 0.25 + 4.0 * 2.0**24


def test_the_average_has_the_shares_of_the_groups():
    sizes = np.array([30.0, 10.0])
    problem = problem_of(Squared(1.0), n_groups=2, average_weight=0.5)
    assert mixed(problem, sizes, np.array([0.0, 1.0])) == pytest.approx([0.375, 0.625])


def test_the_average_alone_needs_no_losses():
    for weight, are_released in ((0.5, True), (1.0, False)):
        problem = problem_of(Squared(1.0), n_groups=2, average_weight=weight)
        assert (GroupDescent().plan(problem, Budget(1.0, 1e-6)).losses is not None) == are_released


def test_capped_weights_are_a_distribution_below_the_cap():
    rng = np.random.default_rng(3)
    for _ in range(100):
        cap = rng.uniform(0.1, 1.0, 5)
        cap *= max(1.0, 1.01 / cap.sum())
        found = capped(rng.exponential(size=5), cap)
        assert found.sum() == pytest.approx(1.0)
        assert (found <= cap + 1e-12).all()
    assert capped(np.array([1.0, 3.0]), np.ones(2)) == pytest.approx([0.25, 0.75])


def conflicting(n, seed=0):
    """A fifth of the records depends on the features in another way."""
    rng = np.random.default_rng(seed)
    X, group = rng.uniform(0.0, 1.0, (n, 20)), (rng.random(n) < 0.2).astype(int)
    Z = (X - 0.5) @ rng.normal(size=(20, 2))
    Z /= Z.std(axis=0)
    z = np.where(group == 1, 0.6 * Z[:, 0] + 0.8 * Z[:, 1], Z[:, 0])
    return X, z, 300.0 + 50.0 * (z + 0.5 * rng.normal(size=n)), group


@pytest.mark.parametrize("cvar_level", [0.2, 1.0])
def test_overlapping_groups_and_other_objectives(cvar_level):
    X, _, y, group = conflicting(4000)
    members = np.column_stack([np.ones(4000, dtype=bool), group == 1, X[:, 0] > 0.5])
    model = PrivateGroupDRO(
        loss="squared", cvar_level=cvar_level, solver="gradient-descent", epsilon=8.0
    ).fit(X, y, sensitive_features=members)
    assert model.score(X, y) > 0.6
    shares = members.sum(axis=0) / members.sum()
    if cvar_level == 1.0:
        assert model.group_weights_ == pytest.approx(shares)
    else:
        assert (model.group_weights_ <= shares / 0.2 + 1e-9).all()


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_coefficients_are_in_a_given_ball_and_the_intercept_is_not(loss):
    X, z, y, group = conflicting(4000)
    y = z > -1.0 if loss == "logistic" else y / 500.0
    model = PrivateGroupDRO(
        loss=loss, radius=0.1, feature_bound=1.0, target_bound=1.0, epsilon=8.0
    ).fit(X, y, sensitive_features=group)
    assert np.linalg.norm(model.coef_) <= 0.1 * (1 + 1e-12)
    assert np.ravel(model.intercept_)[0] > 0.3
