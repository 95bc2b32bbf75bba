"""The solvers of maximal losses: how one is chosen, and how it is given the classes' shares.

Proof: docs/proofs/maximal_loss.md.
"""

import math
from typing import Any

import numpy as np

from skdpsco.base.private_estimator import resolve_solver
from skdpsco.data.design import clipped_rows
from skdpsco.minimax._descent import TaskGradients, has_descent
from skdpsco.minimax._tasks import (
    MinimaxPlan,
    MinimaxProblem,
    MinimaxResult,
    Tasks,
    class_index,
    plan_counts,
)
from skdpsco.privacy import Event, GaussianEvent, ZCDPEvent, compose, is_gaussian
from skdpsco.privacy.spending import Allowance, check_cost
from skdpsco.solvers import AcceleratedRecursive, MirrorDescent
from skdpsco.solvers.saddle.mirror_prox import MirrorProx, prox_of_models
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.solvers.saddle.recursive_regularisation import RecursiveRegularisation
from skdpsco.variational.loss_tasks import PreparedBall, PreparedVertices
from skdpsco.variational.solve import VARIATIONAL_SOLVERS

__all__ = ["MINIMAX_SOLVERS", "minimax_solver"]


NON_SMOOTH_DRAWS = 8  # vertices per step of mirror descent for losses that are not smooth

# A function for each name that makes its solver; "auto" and "gradient-descent" are legal names too.
MINIMAX_SOLVERS: dict[str, Any] = {
    **{name: made for name, made in VARIATIONAL_SOLVERS.items() if name != "accelerated-recursive"},
    "mirror-prox": prox_of_models,
    "recursive-regularisation": lambda: RecursiveRegularisation(prox_of_models()),
}


def minimax_solver(solver: Any, tasks: Tasks) -> Any:
    """A solver of `MinimaxProblem`, from a name or from a solver of games.

    Parameters
    ----------
    solver : str or object
    tasks : Tasks

    Raises
    ------
    TypeError
        If ``solver`` is a class, or its privacy would rest on assumptions that are not reported.
    ValueError
        If the solver does not suit the problem. Gradient descent needs losses of this library; with
        classes as tasks or weights of classes there must be one loss of one target.
    """
    if isinstance(solver, AcceleratedRecursive):
        raise TypeError(
            "solver must not be AcceleratedRecursive, which is private under assumptions about the "
            "operator only: see solve_variational_inequality and MaximalLoss."
        )
    descends = has_descent(tasks)
    if isinstance(solver, str) and solver == "auto":
        solver = "gradient-descent" if descends else "mirror-descent"
    if isinstance(solver, str) and solver == "gradient-descent":
        if not descends:
            raise ValueError(
                "solver='gradient-descent' needs losses of skdpsco.losses, and takes "
                "tasks='classes' or class_weight for one loss of one target only; use "
                "solver='auto'."
            )
        return TaskGradients()
    smooth = all(loss.smoothness() < math.inf for loss in tasks.losses)
    if isinstance(solver, str) and solver == "mirror-descent" and not smooth:
        solver = MirrorDescent(n_draws=NON_SMOOTH_DRAWS)
    return GameSolver(resolve_solver(solver, MINIMAX_SOLVERS))


class GameSolver:
    """A solver of games for `MinimaxProblem`.

    Parameters
    ----------
    solver : object
        Solver of a `VariationalProblem`, with ``plan`` and ``run``.
    """

    fills_range = True

    def __init__(self, solver: Any) -> None:
        self.solver = solver
        self.over_ball: bool = isinstance(solver, (MirrorProx, RecursiveRegularisation))

    def plan(self, problem: MinimaxProblem, budget: Any, n_iter: int | None = None) -> MinimaxPlan:
        """Spend ``budget``, a fiftieth of it on the shares of classes if they are not known.

        Raises
        ------
        ValueError
            If the noise is too large for the grids, or the solver refuses the problem.
        """
        tasks, n = problem.tasks, problem.n_samples
        if not tasks.counts_first:
            shares = None if tasks.prior is None else np.array(tasks.prior)
            inner = self.solver.plan(self.game(problem, shares), budget, n_iter)
            return MinimaxPlan(inner.event, inner.n_iter, inner.summary, inner, **inner.passed_on())
        rho = 0.5 * budget.mu**2 if self.over_ball else budget.rho  # the ball's noise is Gaussian
        k = tasks.n_classes
        counts_plan, rest = plan_counts(n, k, rho)
        least = counts_plan.least
        spent = GaussianEvent(1.0 / rest.mu) if self.over_ball else ZCDPEvent(rest.rho)
        # Whatever may fail must fail now. Try the most unequal shares, and then equal ones, whose
        # number of steps is announced.
        for others in (float(n), least):
            counts = np.array([least] + [others] * (k - 1))
            inner = self.solver.plan(self.game(problem, counts / counts.sum()), rest, n_iter)
            _check_rest(inner.event, rest, spent)
        return MinimaxPlan(
            event=compose(counts_plan.event, spent),
            n_iter=inner.n_iter,
            summary=("noisy numbers of records in every class", *inner.summary),
            rest=rest,
            wanted=n_iter,
            counts=counts_plan,
            **inner.passed_on(),
        )

    def game(self, problem: MinimaxProblem, shares: np.ndarray | None) -> VariationalProblem:
        """The game in the form that the solver needs: over vertices, or over the ball."""
        tasks = problem.tasks
        made: Any = PreparedBall if self.over_ball else PreparedVertices
        sizes = problem.n_features, problem.radius, tasks.n_targets
        operator = made(tasks.losses, *sizes, shares, tasks.class_weights)
        return VariationalProblem(operator, problem.n_samples)

    def run(
        self,
        plan: MinimaxPlan,
        problem: MinimaxProblem,
        X: Any,
        y: np.ndarray,
        rng: np.random.Generator,
        progress: np.ndarray | None = None,
    ) -> MinimaxResult:
        """Follow ``plan`` on the data.

        Parameters
        ----------
        plan : MinimaxPlan
        problem : MinimaxProblem
        X : design
        y : ndarray of shape (n, n_targets)
        rng : numpy.random.Generator
        progress : ndarray of shape (1,), int64, or None
        """
        tasks, inner = problem.tasks, plan.inner
        shares = None if tasks.prior is None else np.array(tasks.prior)
        data: tuple[Any, ...] = (y, clipped_rows(X))
        if tasks.n_classes > 0:
            index = class_index(tasks, y)
            data += (np.eye(tasks.n_classes)[index],)
            if plan.counts is not None:
                shares = plan.counts.release(index, tasks.n_classes, rng)
        game = self.game(problem, shares)
        if inner is None:
            inner = self.solver.plan(game, plan.rest, plan.wanted)
            _check_rest(inner.event, plan.rest, plan.event)
        z = self.solver.run(inner, game, data, rng, progress)
        operator: Any = game.operator
        weights = z[len(z) - operator.n_tasks :].reshape(len(tasks.losses), -1)
        coef = np.ravel(operator.coef(z))
        return MinimaxResult(
            coef, inner.n_iter, n_rounds=inner.n_rounds, task_weights=weights, shares=shares
        )


def _check_rest(event: Event, rest: Allowance, charged: Event) -> None:
    """Check that a plan costs at most what is left of ``charged``.

    Raises
    ------
    ValueError
        If it costs more, or adds other noise to a charge for Gaussian noise.
    """
    check_cost(event, rest)
    if is_gaussian(charged) and not is_gaussian(event):  # at equal rho it is less private
        raise ValueError(f"The solver's plan must consist of Gaussian noise, got {event!r}.")
