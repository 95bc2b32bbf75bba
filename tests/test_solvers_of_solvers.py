"""Solvers that use another solver: they charge what it costs, and report what it rests on."""

import inspect
import pkgutil
import warnings
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from cases import each

import skdpsco
from skdpsco import (
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateGroupDRO,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLinearSVC,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMinimaxClassifier,
    PrivateMinimaxRegressor,
    PrivateMonotoneGLM,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSynthesizer,
    UtilityWarning,
)
from skdpsco.base.private_estimator import PrivateEstimator
from skdpsco.constraints import L1Ball, L2Ball
from skdpsco.linear_model import monotone_glm
from skdpsco.losses import Logistic, Squared
from skdpsco.losses.tabulated import Tabulated
from skdpsco.minimax._descent import TaskGradients
from skdpsco.minimax._solver import GameSolver
from skdpsco.minimax._tasks import MinimaxProblem, Tasks
from skdpsco.penalties import L2
from skdpsco.privacy import Budget, GaussianEvent, ZCDPEvent, is_gaussian, mu_of, rho_of
from skdpsco.solvers import (
    SGD,
    AcceleratedRecursive,
    Allowance,
    BoostedMirrorDescent,
    CompositeProblem,
    GradientDescent,
    MirrorDescent,
    MirrorProx,
    PhasedSGD,
    Problem,
    ProjectedDescent,
    RecursiveRegularisation,
    Result,
    Stagewise,
    check_cost,
)
from skdpsco.solvers.groups.descent import GroupDescent
from skdpsco.solvers.groups.mirror_prox import GroupMirrorProx
from skdpsco.solvers.groups.monotone_glm import GradientMirrorProx, PooledDescent
from skdpsco.solvers.groups.problem import GroupProblem, GroupResult
from skdpsco.solvers.newton_step import NewtonStep
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.solvers.synthesis.workload import QueryProblem
from skdpsco.variational import Block, Operator, solve_variational_inequality
from skdpsco.variational.solve import MatrixGame

BUDGET = Budget(1.0, 1e-6)
CLAIM = "the moon is made of cheese"

GAME = VariationalProblem(MatrixGame(3, 3), 1000)
GROUPS = GroupProblem(Logistic(), L2Ball(1.0), 1000, 3, n_groups=2, group_sizes=(500, 500))
CLASSES = Tasks((Logistic(),), n_classes=2)
MINIMAX = MinimaxProblem(CLASSES, 1.0, 1000, 3)
ONE_TASK = replace(MINIMAX, tasks=Tasks((Logistic(),)))
PRIOR = replace(MINIMAX, tasks=replace(CLASSES, prior=(0.5, 0.5)))
LINE = Tabulated(np.array([-1.0, 1.0]), np.array([-1.0, 1.0]))
MONOTONE = Problem(LINE, L2Ball(1.0), 1000, 3)
FEW = Problem(Logistic(), L1Ball(1.0), 1000, 20)
COMPOSITE = CompositeProblem(Logistic(), None, 1000, 3, penalty=L2(1.0), unit=(1.0,) * 3)


# Each solver that uses another: the class of that one, and problems.
class Own(Logistic):
    """A loss of the user's own."""


USERS = {
    RecursiveRegularisation: [(RecursiveRegularisation(n_rounds=3), MirrorProx, GAME)],
    BoostedMirrorDescent: [(BoostedMirrorDescent(1.0), MirrorDescent, GAME)],
    GroupMirrorProx: [
        (GroupMirrorProx(), MirrorProx, GROUPS),
        (GroupMirrorProx(RecursiveRegularisation(n_rounds=2)), MirrorProx, GROUPS),
    ],
    GroupDescent: [
        (GroupDescent(), GradientDescent, GROUPS),
        (GroupDescent(), GradientDescent, replace(GROUPS, loss=Squared(1.0))),
    ],
    GameSolver: [
        (GameSolver(MirrorDescent()), MirrorDescent, MINIMAX),
        (GameSolver(MirrorDescent()), MirrorDescent, PRIOR),
        (GameSolver(RecursiveRegularisation(n_rounds=2)), MirrorProx, MINIMAX),
        (GameSolver(RecursiveRegularisation(n_rounds=2)), MirrorProx, PRIOR),
    ],
    TaskGradients: [
        (TaskGradients(), GradientDescent, ONE_TASK),
        (TaskGradients(), GradientDescent, replace(ONE_TASK, tasks=Tasks((Logistic(),), 2))),
    ],
    GradientMirrorProx: [(GradientMirrorProx(), MirrorProx, MONOTONE)],
    NewtonStep: [(NewtonStep(GradientDescent()), GradientDescent, COMPOSITE)],
    ProjectedDescent: [
        (ProjectedDescent(), GradientDescent, FEW),
        (PooledDescent(), GradientDescent, MONOTONE),
    ],
    SGD: [(SGD(batch_size=1000), GradientDescent, COMPOSITE)],
    Stagewise: [(Stagewise(), GradientDescent, FEW)],
}
CASES = [pytest.param(*case, id=user.__name__) for user, cases in USERS.items() for case in cases]


def classes():
    """Every class of the package."""
    for module in pkgutil.walk_packages(skdpsco.__path__, "skdpsco."):
        for found in vars(import_module(module.name)).values():
            if inspect.isclass(found) and found.__module__ == module.name:
                yield found


def solves(kind):
    return hasattr(kind, "plan") and hasattr(kind, "run")


def test_no_solver_that_uses_another_is_missing_here():
    assert set(USERS) == {
        kind
        for kind in classes()
        if solves(kind)
        and (
            "solver" in inspect.signature(kind.__init__).parameters
            or ".plan(" in inspect.getsource(kind)
        )
    }


def plan_with(monkeypatch, user, used, problem, changed):
    """The plan of ``user`` where plans of the class ``used`` are ``changed``."""
    plan = used.plan
    monkeypatch.setattr(used, "plan", lambda self, *given: changed(plan, self, *given))
    return user.plan(problem, BUDGET)


@pytest.mark.parametrize(("user", "used", "problem"), CASES)
def test_a_plan_that_costs_too_much_is_refused(monkeypatch, user, used, problem):
    def greedy(plan, self, problem, budget, *rest):
        return plan(self, problem, Allowance(400.0 * budget.rho), *rest)

    with pytest.raises(ValueError, match=r"The solver's plan costs (mu|rho)="):
        check_cost(plan_with(monkeypatch, user, used, problem, greedy).event, BUDGET)


@pytest.mark.parametrize(("user", "used", "problem"), CASES)
def test_what_is_not_gaussian_is_not_charged_as_if_it_were(monkeypatch, user, used, problem):
    def other(plan, self, problem, budget, *rest):
        made = plan(self, problem, Allowance(budget.rho), *rest)
        return replace(made, event=ZCDPEvent(rho_of(made.event)))

    if isinstance(user, GameSolver) and used is MirrorProx and problem is MINIMAX:
        with pytest.raises(ValueError, match="must consist of Gaussian noise"):
            plan_with(monkeypatch, user, used, problem, other)
    else:
        assert not is_gaussian(plan_with(monkeypatch, user, used, problem, other).event)


@pytest.mark.parametrize(("user", "used", "problem"), CASES)
def test_plans_keep_to_the_budget_and_spend_it(user, used, problem):
    for budget in (BUDGET, Allowance(0.3)):
        event = user.plan(problem, budget).event
        check_cost(event, budget)
        spent = rho_of(event) / budget.rho
        if isinstance(budget, Budget) and is_gaussian(event):
            spent = mu_of(event) / budget.mu
        assert spent == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(("user", "used", "problem"), CASES)
def test_plans_carry_what_they_rest_on(monkeypatch, user, used, problem):
    def claiming(plan, self, *given):
        return replace(plan(self, *given), assumptions=(CLAIM,))

    assert CLAIM in plan_with(monkeypatch, user, used, problem, claiming).assumptions


def test_rounds_charge_for_the_worst_of_them():
    class Uneven(MirrorProx):
        def plan(self, problem, budget, *rest):
            part = 1.0 if problem.n_samples == 334 else 0.25
            return super().plan(problem, Allowance(part * budget.rho), *rest)

    plan = RecursiveRegularisation(Uneven(), n_rounds=3).plan(GAME, Allowance(0.5))
    assert plan.sizes == (334, 333, 333)
    assert plan.event == GaussianEvent(1.0)


# ------------------------------------------------------------------- estimators


TRUST = "what Stub releases costs what it plans"


class Stub:
    """Plans at a multiple of the budget; runs without data."""

    requires: dict = {}

    def __init__(self, cost=1.0):
        self.cost = cost

    def plan(self, problem, budget, n_iter=None):
        event = ZCDPEvent(self.cost * budget.rho)
        return skdpsco.solvers.Plan(event, 1, assumptions=(CLAIM,))

    def run(self, plan, problem, *data):
        if isinstance(problem, VariationalProblem):
            return problem.geometry.start()
        if isinstance(problem, GroupProblem):
            return GroupResult(np.zeros(problem.n_features), 1, theta=np.full(2, 0.5))
        if isinstance(problem, QueryProblem):
            return SimpleNamespace(distribution=None, answers=None, n_iter=1)
        return Result(np.zeros(problem.n_features), 1)


X = np.random.default_rng(0).uniform(-1.0, 1.0, (200, 2))
SIGNS = np.where(X[:, 0] > 0.0, 1.0, -1.0)
TABLE = pd.DataFrame({"a": ["x", "y"] * 50})
FITS = {
    PrivateLogisticL1: ({"radius": 1.0}, (X, SIGNS)),
    PrivateLasso: ({"radius": 1.0}, (X, SIGNS)),
    PrivateElasticNet: ({}, (X, SIGNS)),
    PrivateRidge: ({}, (X, SIGNS)),
    PrivateHuberRegressor: ({}, (X, SIGNS)),
    PrivateQuantileRegressor: ({}, (X, SIGNS)),
    PrivatePoissonRegressor: ({}, (X, np.exp(SIGNS))),
    PrivateGammaRegressor: ({}, (X, np.exp(SIGNS))),
    PrivateLinearSVC: ({}, (X, SIGNS)),
    PrivateLogisticRegression: ({}, (X, SIGNS)),
    PrivateLinearClassifier: ({}, (X, SIGNS)),
    PrivateLinearRegressor: ({}, (X, SIGNS)),
    PrivateMonotoneGLM: ({}, (X, SIGNS)),
    PrivateMinimaxClassifier: ({}, (X, SIGNS)),
    PrivateMinimaxRegressor: ({"target_bound": 1.0}, (X, SIGNS)),
    PrivateGroupDRO: ({}, (X, SIGNS)),
    PrivateSynthesizer: ({"domain": {"a": ["x", "y"]}}, (TABLE,)),
}


def fit(kind, solver):
    parameters, given = FITS[kind]
    if kind is PrivateMonotoneGLM:  # it takes names only
        with mock.patch.dict(monotone_glm.GLM_SOLVERS, {"mirror-prox": lambda: solver}):
            return kind(solver="mirror-prox", **parameters).fit(*given)
    groups = {"sensitive_features": SIGNS} if kind is PrivateGroupDRO else {}
    return kind(solver=solver, **parameters).fit(*given, **groups)


def test_no_estimator_with_a_solver_is_missing_here():
    assert set(FITS) == {
        kind
        for kind in classes()
        if issubclass(kind, PrivateEstimator)
        and "solver" in inspect.signature(kind.__init__).parameters
        and kind.__name__.startswith("Private")  # bases have other names
        and not kind.__module__.startswith("skdpsco.additive")  # which choose the solver
    }


@each("kind", FITS)
def test_estimators_refuse_plans_that_cost_too_much(kind):
    with pytest.raises(ValueError, match="The solver's plan costs rho="):
        fit(kind, Stub(400.0))


@each("kind", FITS)
def test_estimators_report_what_a_plan_rests_on(kind):
    # Nothing checks what a solver of the user's releases, for a plan that costs nothing either.
    assert {CLAIM, TRUST} <= set(fit(kind, Stub()).privacy_.assumptions)


def test_solutions_report_what_a_plan_rests_on():
    payoffs = np.zeros((100, 2, 2))
    solution = solve_variational_inequality(MatrixGame(2, 2), payoffs, solver=Stub())
    assert {CLAIM, TRUST} <= set(solution.privacy.assumptions)
    with pytest.raises(ValueError, match="The solver's plan costs rho="):
        solve_variational_inequality(MatrixGame(2, 2), payoffs, solver=Stub(400.0))


class Hidden:
    """A solver in a solver, with nothing that says so."""

    def __init__(self, solver):
        self.secret = solver

    def plan(self, problem, budget, n_iter=None):
        plan = self.secret.plan(problem, budget, n_iter)
        return replace(plan, assumptions=())

    def run(self, *given):
        return self.secret.run(*given)


@each("kind", [PrivateMinimaxClassifier, PrivateMinimaxRegressor])
@each("wrap", [lambda solver: BoostedMirrorDescent(1.0, solver), Hidden])
def test_estimators_refuse_what_needs_a_monotone_operator(kind, wrap):
    with pytest.raises(ValueError, match="private only for an operator that is monotone"):
        fit(kind, wrap(AcceleratedRecursive(1)))


def test_a_boosted_solution_says_that_its_runs_need_a_monotone_operator():
    plan = BoostedMirrorDescent(1.0, AcceleratedRecursive(1)).plan(GAME, BUDGET)
    assert any("monotone for every data set" in line for line in plan.assumptions)


@pytest.mark.parametrize(("kind", "trusted"), [(Logistic, False), (Own, True)])
def test_phased_sgd_says_what_it_takes_on_trust(kind, trusted):
    """The same is true with an estimator and without."""
    loss = kind()
    plan = PhasedSGD().plan(Problem(loss, L2Ball(1.0), 100, 3), BUDGET)
    line = f"the loss {loss!r} is convex and keeps to the constants it declares"
    assert plan.assumptions == ((line,) if trusted else ())


# ------------------------------------------------------------------- recursion

RECURSIVE = "recursive-regularisation"
KINDS = [PrivateGroupDRO, PrivateMinimaxClassifier, PrivateMinimaxRegressor]


@pytest.mark.parametrize("kind", KINDS)
def test_a_recursion_of_one_round_warns_and_says_so(kind):
    with pytest.warns(UtilityWarning, match="does not recurse on 200 records") as caught:
        model = fit(kind, RECURSIVE)
    assert [warning.filename for warning in caught] == [__file__]
    assert model.n_rounds_ == 1
    solver = RecursiveRegularisation(n_rounds=2)
    solver = GroupMirrorProx(solver) if kind is PrivateGroupDRO else solver
    with warnings.catch_warnings(action="error"):
        assert fit(kind, solver).n_rounds_ == 2
        assert not hasattr(fit(kind, Stub()), "n_rounds_")


def test_solutions_count_rounds():
    def rounds(solver, n_samples, **parameters):
        payoffs = np.zeros((n_samples, 2, 2))
        return solve_variational_inequality(
            MatrixGame(2, 2), payoffs, solver=solver, **parameters
        ).n_rounds

    with pytest.warns(UtilityWarning, match="more calls of the operator"):
        assert rounds(RECURSIVE, 100) == 1
    with warnings.catch_warnings(action="error"):
        assert rounds(RecursiveRegularisation(n_rounds=3), 100) == 3
        assert rounds(AcceleratedRecursive(2), 100) == 2
        assert rounds("mirror-prox", 100) is None


def test_a_recursion_within_the_constants_of_its_theory_does_not_warn():
    plan = RecursiveRegularisation(MirrorProx(max_calls=10**6)).plan(
        replace(GAME, n_samples=10**6), BUDGET
    )
    assert plan.n_rounds > 1
    assert plan.warnings == ()


def test_why_an_inequality_has_no_recursion():
    operator = Operator(lambda z, x: z - x, [Block(L2Ball(1.0), 2, 2.0)])
    with pytest.warns(UtilityWarning, match="theory asks for the operator's smoothness"):
        solve_variational_inequality(operator, X, solver=RECURSIVE)
