"""The solvers of maximal losses: how one is chosen, and how it is given the classes' shares.

Proof: docs/proofs/maximal_loss.md.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skdpsco.base.private_estimator import resolve_solver
from skdpsco.constraints.sets import L2Ball
from skdpsco.data.design import clipped_rows
from skdpsco.losses.library import Logistic, Squared
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
from skdpsco.solvers.groups.moments import MAX_GROUP_FEATURES, GroupMoments
from skdpsco.solvers.groups.problem import GroupProblem, LogisticMoments, SquaredMoments
from skdpsco.solvers.saddle.mirror_prox import MIRROR_PROX, MirrorProx
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.solvers.saddle.recursive_regularisation import RecursiveRegularisation
from skdpsco.variational.loss_tasks import PreparedBall, PreparedVertices
from skdpsco.variational.solve import VARIATIONAL_SOLVERS

__all__ = ["MINIMAX_SOLVERS", "TaskMoments", "minimax_solver"]


@dataclass(frozen=True)
class MinimaxTuning:
    """Constants of `GameSolver` and of "auto".

    The shares were chosen by hand. The others were chosen on planted models.
    """

    non_smooth_draws: int = 8  # vertices per step for losses that are not smooth
    quiet_ratio: float = 5.0  # records times mu per feature; above it moments are better than draws
    few_features: int = 100  # up to here, moments are better from a ratio of 1 on
    little_noise: float = 1e4  # the same ratio; above it moments beat gradients for one task
    classes_ratio: float = 300.0  # and for two classes as tasks


MINIMAX = MinimaxTuning()
MOMENTS_OF: dict[type, Any] = {Logistic: LogisticMoments, Squared: SquaredMoments}

# A function for each name that makes its solver; "auto" and "moments" are legal names too.
MINIMAX_SOLVERS: dict[str, Any] = {
    **{name: made for name, made in VARIATIONAL_SOLVERS.items() if name != "accelerated-recursive"},
    "mirror-prox": lambda: MirrorProx(max_calls=MIRROR_PROX.max_calls_of_models),
    "recursive-regularisation": lambda: RecursiveRegularisation(
        MirrorProx(max_calls=MIRROR_PROX.max_calls_of_models)
    ),
}


def _is_standard(loss: Any) -> bool:
    """Whether gradient descent and noisy moments support a loss."""
    return type(loss) is Logistic or (type(loss) is Squared and loss.clip == 1.0)


def minimax_solver(
    solver: Any, tasks: Tasks, n_samples: int, n_features: int, mu: float, in_ball: bool
) -> Any:
    """A solver of `MinimaxProblem`, from a name or from a solver of games.

    Parameters
    ----------
    solver : str or object
    tasks : Tasks
    n_samples, n_features : int
    mu : float
    in_ball : bool
        Whether the user has given the radius of a ball.

    Raises
    ------
    TypeError
        If ``solver`` is a class, or its privacy would rest on assumptions that are not reported.
    ValueError
        If the solver does not suit the problem. Noisy moments need two classes as tasks or a single
        task, one loss that has moments, and at most 2000 features. Gradient descent needs losses of
        this library and no given radius; with classes as tasks or weights of classes there must be
        one loss of one target.
    """
    if isinstance(solver, AcceleratedRecursive):
        raise TypeError(
            "solver must not be AcceleratedRecursive, which is private under assumptions about the "
            "operator only: see solve_variational_inequality and MaximalLoss."
        )
    few = tasks.n_targets == 1 and tasks.n_classes in (0, 2)
    has_moments = few and len(tasks.losses) == 1 and _is_standard(tasks.losses[0])
    descends = has_descent(tasks) and not in_ball
    if isinstance(solver, str) and solver == "auto":
        signal = n_samples * mu
        most = max(signal / MINIMAX.quiet_ratio, min(signal, MINIMAX.few_features))
        small = n_features <= min(MAX_GROUP_FEATURES, most)
        solver = "gradient-descent" if descends else "mirror-descent"
        if has_moments and small:
            ratio = MINIMAX.classes_ratio if tasks.n_classes > 0 else MINIMAX.little_noise
            if not descends or n_samples * mu >= ratio * n_features:
                solver = "moments"
    if isinstance(solver, str) and solver == "gradient-descent":
        if not descends:
            raise ValueError(
                "solver='gradient-descent' needs radius='auto' and losses of skdpsco.losses, and "
                "takes tasks='classes' or class_weight for one loss of one target only; use "
                "solver='auto'."
            )
        return TaskGradients()
    if isinstance(solver, str) and solver == "moments":
        if not has_moments:
            raise ValueError(
                "solver='moments' needs losses='logistic' and two classes, or losses='squared', "
                "and one target; use solver='mirror-descent'."
            )
        if n_features > MAX_GROUP_FEATURES:
            raise ValueError(
                f"solver='moments' takes at most {MAX_GROUP_FEATURES} features, including the "
                f"intercept, got {n_features}; use solver='mirror-descent'."
            )
        return TaskMoments()
    smooth = all(loss.smoothness() < math.inf for loss in tasks.losses)
    if isinstance(solver, str) and solver == "mirror-descent" and not smooth:
        solver = MirrorDescent(n_draws=MINIMAX.non_smooth_draws)
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
        gaussian = isinstance(self.solver, (MirrorProx, RecursiveRegularisation))
        rho = 0.5 * budget.mu**2 if gaussian else budget.rho
        k = tasks.n_classes
        counts_plan, rest = plan_counts(n, k, rho)
        least = counts_plan.least
        spent = GaussianEvent(1.0 / rest.mu) if gaussian else ZCDPEvent(rest.rho)
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
        tasks, ball = problem.tasks, isinstance(self.solver, (MirrorProx, RecursiveRegularisation))
        made: Any = PreparedBall if ball else PreparedVertices
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
            members = np.zeros((len(y), tasks.n_classes))
            members[np.arange(len(y)), index] = 1.0
            data += (members,)
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


class TaskMoments:
    """Noisy moments of two classes, treated as groups with private membership, or of one task.

    The l1 ball is replaced by the l2 ball of the same radius, which contains it.
    """

    fixed_cost = reads_centred = True

    def plan(self, problem: MinimaxProblem, budget: Any, n_iter: int | None = None) -> Any:
        """Spend ``budget``; see `GroupMoments.plan`."""
        return GroupMoments().plan(self._groups(problem), budget, n_iter)

    def run(
        self, plan: Any, problem: MinimaxProblem, X: Any, y: np.ndarray, rng: Any, progress: Any
    ) -> MinimaxResult:
        """Follow ``plan`` on the data."""
        groups = self._groups(problem)
        t, one_each = groups.loss.bound * y[:, 0], groups.n_groups > 1
        classes = np.column_stack([t < 0.0, t > 0.0])
        members = sparse.csr_array((classes if one_each else np.ones((len(t), 1))).astype(float))
        found = GroupMoments().run(plan, groups, X, t, members, rng, progress)
        weights, sizes = found.theta.reshape(1, -1), found.sizes
        shares = sizes / sizes.sum() if one_each else None
        return MinimaxResult(found.coef, found.n_iter, task_weights=weights, shares=shares)

    def _groups(self, problem: MinimaxProblem) -> GroupProblem:
        tasks, n = problem.tasks, problem.n_samples
        one, loss = tasks.n_classes == 0, MOMENTS_OF[type(tasks.losses[0])]
        return GroupProblem(
            loss() if tasks.class_weights is None else loss(tasks.class_weights),
            L2Ball(problem.radius),
            n,
            problem.n_features,
            problem.intercept,
            n_groups=1 if one else 2,
            group_sizes=(n,) if one else None,
            prior=tasks.prior,
            centred=problem.centred,
        )
