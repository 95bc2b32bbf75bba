"""The solvers of maximal losses: how one is chosen, and how it is given the classes' shares.

Proof: docs/proofs/maximal_loss.md.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skdpsco.base.private_estimator import resolve_solver
from skdpsco.constraints.sets import L2Ball
from skdpsco.data.design import clipped_rows
from skdpsco.losses.library import (
    Logistic,
    Multinomial,
    Squared,
    Weighted,
    WeightedMultinomial,
    with_weights,
)
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event, GaussianEvent, ZCDPEvent, compose, is_gaussian
from skdpsco.solvers import (
    AcceleratedRecursive,
    Allowance,
    CompositeProblem,
    GradientDescent,
    MirrorDescent,
    check_cost,
)
from skdpsco.solvers.base import Plan, Problem, Result
from skdpsco.solvers.groups.moments import MAX_GROUP_FEATURES, GroupMoments
from skdpsco.solvers.groups.problem import GroupProblem, LogisticMoments, SquaredMoments
from skdpsco.solvers.penalized.problem import anchored
from skdpsco.solvers.saddle.mirror_prox import MIRROR_PROX, MirrorProx
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.solvers.saddle.recursive_regularisation import RecursiveRegularisation
from skdpsco.variational.loss_tasks import PreparedBall, PreparedVertices
from skdpsco.variational.solve import VARIATIONAL_SOLVERS

__all__ = ["MINIMAX_SOLVERS", "MinimaxProblem", "TaskMoments", "Tasks", "minimax_solver"]


@dataclass(frozen=True)
class MinimaxTuning:
    """Constants of `GameSolver` and of "auto"; see docs/proofs/maximal_loss.md, section 5.

    The shares were chosen by hand. The others follow from the measurements described there.
    """

    count_share: float = 0.02  # of the budget, for the numbers of records in the classes
    least_share: float = 1e-4  # of the records: classes are assumed to be at least this large
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


@dataclass(frozen=True)
class Tasks:
    """The tasks whose largest loss is minimised.

    Parameters
    ----------
    losses : tuple of NamedTuple
        Losses of `skdpsco.losses`, for targets in [-1, 1] or class indices.
    n_targets : int
    n_classes : int
        Number of classes that are tasks; 0 if classes are not tasks.
    prior : tuple of float or None
        Public shares of the classes; None if they are to be found privately.
    class_weights : tuple of float or None
        Public weights in [0, 1] of losses by the class of the target; None if all are 1.
    """

    losses: tuple[Any, ...]
    n_targets: int = 1
    n_classes: int = 0
    prior: tuple[float, ...] | None = None
    class_weights: tuple[float, ...] | None = None

    @property
    def n_outputs(self) -> int:
        """Number of predictions per record."""
        return self.losses[0].n_outputs

    @property
    def counts_first(self) -> bool:
        """Whether shares of classes are released first."""
        return self.n_classes > 0 and self.prior is None


@dataclass(frozen=True)
class MinimaxProblem:
    """What a planner may know, all of which is public.

    Parameters
    ----------
    tasks : Tasks
    radius : float
        Radius of the l1 ball, for features in [-1, 1].
    n_samples : int
    n_features : int
        Number of features, including the column of ones of an intercept.
    intercept : bool
    sparse, centred : bool
    mean_square : tuple of float or None
        What is known about features: see `Problem`.
    """

    tasks: Tasks
    radius: float
    n_samples: int
    n_features: int
    intercept: bool = False
    sparse: bool = False
    centred: bool = False
    mean_square: tuple[float, ...] | None = None

    def game(self, solver: Any, shares: np.ndarray | None) -> VariationalProblem:
        """The game in the form that a solver needs: over vertices, or over the ball."""
        tasks, ball = self.tasks, isinstance(solver, (MirrorProx, RecursiveRegularisation))
        made: Any = PreparedBall if ball else PreparedVertices
        sizes = self.n_features, self.radius, tasks.n_targets
        operator = made(tasks.losses, *sizes, shares, tasks.class_weights)
        return VariationalProblem(operator, self.n_samples)


def is_one_loss(tasks: Tasks) -> bool:
    """Whether there is nothing to maximise, and gradient descent supports the loss."""
    count = len(tasks.losses) * tasks.n_targets * max(tasks.n_classes, 1)
    return count == 1 and _is_standard(tasks.losses[0])


def classes_alone(tasks: Tasks) -> bool:
    """Whether the tasks are classes with the logistic loss, of which descent minimises the mean."""
    one = len(tasks.losses) == tasks.n_targets == 1 and tasks.n_classes > 0
    return one and type(tasks.losses[0]) in (Logistic, Multinomial)


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
        task, one loss that has moments, and at most 2000 features. Gradient descent needs a single
        task and loss, or classes as tasks and the logistic loss, and no given radius.
    """
    if isinstance(solver, AcceleratedRecursive):
        raise TypeError(
            "solver must not be AcceleratedRecursive, which is private under assumptions about the "
            "operator only: see solve_variational_inequality and MaximalLoss."
        )
    few = tasks.n_targets == 1 and tasks.n_classes in (0, 2)
    has_moments = few and len(tasks.losses) == 1 and _is_standard(tasks.losses[0])
    descends = (is_one_loss(tasks) or classes_alone(tasks)) and not in_ball
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
                "solver='gradient-descent' needs one task and losses='logistic' or 'squared', or "
                "tasks='classes' and losses='logistic', and radius='auto'; use solver='auto'."
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


@dataclass(frozen=True)
class MinimaxPlan(Plan):
    """The solver's plan; if shares of classes are released first, their plan and its budget.

    ``wanted`` is the number of steps that the user asks for; None leaves it to the solver.
    """

    inner: Any = None
    rest: Any = None
    wanted: int | None = None
    counts: "CountsPlan | None" = None

    @property
    def clips_gradients(self) -> bool:
        """Whether the solver's plan clips them."""
        return self.inner is not None and self.inner.clips_gradients


class CountsPlan(NamedTuple):
    """How numbers of records in the classes are released, and their least value."""

    event: Event
    grid: float
    n_samples: int
    least: float

    def release(self, index: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """The shares of the classes."""
        counts = np.bincount(index, minlength=k).astype(np.float64)
        gaussian_mechanism(rng, counts, self.grid)
        counts = np.clip(counts, self.least, self.n_samples)
        return counts / counts.sum()


def _plan_counts(n_samples: int, n_classes: int, rho: float) -> tuple[CountsPlan, Allowance]:
    """Spend a share of ``rho`` on numbers of records in the classes; return what is left, too.

    Raises
    ------
    ValueError
        If the noise is too large for the grid.
    """
    rest = Allowance((1.0 - MINIMAX.count_share) * rho * (1.0 - 2.0**-40))
    multiplier = 1.0 / math.sqrt(2.0 * MINIMAX.count_share * rho)
    least = max(MINIMAX.least_share * n_samples, 1.0 + 4.0 * math.sqrt(2.0) * multiplier)
    grid = gaussian_grid(math.sqrt(2.0), multiplier, n_classes, n_samples)
    return CountsPlan(GaussianEvent(multiplier), grid, n_samples, min(least, n_samples)), rest


@dataclass
class MinimaxResult(Result):
    """A `Result` with the tasks' weights at the saddle point and the shares of the classes."""

    task_weights: Any = None
    shares: Any = None


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
            inner = self.solver.plan(problem.game(self.solver, shares), budget, n_iter)
            return MinimaxPlan(inner.event, inner.n_iter, inner.summary, inner, **inner.passed_on())
        gaussian = isinstance(self.solver, (MirrorProx, RecursiveRegularisation))
        rho = 0.5 * budget.mu**2 if gaussian else budget.rho
        k = tasks.n_classes
        counts_plan, rest = _plan_counts(n, k, rho)
        least = counts_plan.least
        spent = GaussianEvent(1.0 / rest.mu) if gaussian else ZCDPEvent(rest.rho)
        # Whatever may fail must fail now. Try the most unequal shares, and then equal ones, whose
        # number of steps is announced.
        for others in (float(n), least):
            counts = np.array([least] + [others] * (k - 1))
            inner = self.solver.plan(problem.game(self.solver, counts / counts.sum()), rest, n_iter)
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
            index = _class_index(tasks, y)
            members = np.zeros((len(y), tasks.n_classes))
            members[np.arange(len(y)), index] = 1.0
            data += (members,)
            if plan.counts is not None:
                shares = plan.counts.release(index, tasks.n_classes, rng)
        game = problem.game(self.solver, shares)
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


def _class_index(tasks: Tasks, y: np.ndarray) -> np.ndarray:
    """The classes of records, as numbers from 0 on."""
    return (y[:, 0] > 0.0 if tasks.n_outputs == 1 else y[:, 0]).astype(np.intp)


class TaskGradients:
    """Gradient descent for one loss of one target, without a ball.

    If classes are tasks, it minimises the mean of their mean losses: records are weighted by one
    over the shares of their classes.
    """

    fixed_cost = clips_gradients = reads_centred = True

    def plan(self, problem: MinimaxProblem, budget: Any, n_iter: int | None = None) -> Any:
        """Spend ``budget``, a fiftieth of it on the shares of classes if they are not known.

        Raises
        ------
        ValueError
            If the noise is too large for the grids.
        """
        tasks, composite = problem.tasks, self._composite(problem)
        if tasks.n_classes == 0:
            return GradientDescent().plan(composite, budget, n_iter)
        counts = None
        if tasks.counts_first:
            rho = 0.5 * budget.mu**2
            counts, budget = _plan_counts(problem.n_samples, tasks.n_classes, rho)
        inner = GradientDescent().plan(composite, budget, n_iter)
        check_cost(inner.event, budget)
        event = inner.event if counts is None else compose(counts.event, inner.event)
        said = (*(("noisy numbers of records in every class",) if counts else ()), *inner.summary)
        return MinimaxPlan(
            event, inner.n_iter, said, inner=inner, counts=counts, **inner.passed_on()
        )

    def run(
        self, plan: Any, problem: MinimaxProblem, X: Any, y: np.ndarray, rng: Any, progress: Any
    ) -> MinimaxResult:
        """Follow ``plan`` on the data."""
        tasks, composite = problem.tasks, self._composite(problem)
        K, weights = tasks.n_classes, np.array(tasks.class_weights or 1.0)
        shares = None if tasks.prior is None else np.array(tasks.prior)
        t, inner = np.ascontiguousarray(y[:, 0]), plan
        if K > 0:
            index, inner = _class_index(tasks, y), plan.inner
            if plan.counts is not None:
                shares = plan.counts.release(index, K, rng)
            weights = weights / shares
            weights = weights / weights.max()
        if K > 0 and tasks.n_outputs > 1:
            t = index + 0.5 * weights[index]
        elif weights.ndim > 0:
            t = with_weights(t, np.where(t > 0.0, weights[1], weights[0]))
        solver = GradientDescent(shrunk=composite.has_residuals)
        found = solver.run(inner, composite, X, t, rng, progress)
        theta = np.full((1, max(K, 1)), 1.0 / max(K, 1))
        return MinimaxResult(found.coef, found.n_iter, task_weights=theta, shares=shares)

    def _composite(self, problem: MinimaxProblem) -> CompositeProblem:
        tasks, loss = problem.tasks, problem.tasks.losses[0]
        if tasks.n_classes > 0 and tasks.n_outputs > 1:
            loss = WeightedMultinomial(tasks.n_classes)
        elif tasks.n_classes > 0 or tasks.class_weights is not None:
            loss = Weighted(loss)
        return anchored(
            Problem(
                loss,
                None,
                problem.n_samples,
                problem.n_features,
                problem.intercept,
                sparse=problem.sparse,
                centred=problem.centred,
                mean_square=problem.mean_square,
            )
        )


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
