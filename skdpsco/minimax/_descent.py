"""Descent for tasks: on the mean of the classes' losses, or on the largest loss.

Proof: docs/proofs/maximal_loss.md, sections 3 and 4.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from skdpsco._problem import Problem
from skdpsco.constraints.sets import L1Ball
from skdpsco.data.pieces import replace_one
from skdpsco.data.record_sums import map_reduce, without_gil
from skdpsco.losses.library import OF_ONE_TYPE, Mixture, Multinomial, weighted, with_weights
from skdpsco.losses.traits import traits_of
from skdpsco.mechanisms.samplers import gaussian_mechanism
from skdpsco.minimax._tasks import (
    MinimaxPlan,
    MinimaxProblem,
    MinimaxResult,
    Tasks,
    class_index,
    plan_counts,
)
from skdpsco.privacy import NoOpEvent, compose
from skdpsco.privacy.spending import Allowance, check_cost
from skdpsco.solvers import CompositeProblem, GradientDescent
from skdpsco.solvers.penalized.gradient_descent import full_passes, unscaled
from skdpsco.solvers.penalized.problem import anchored
from skdpsco.solvers.penalized.smooth_losses import smoothed
from skdpsco.solvers.penalized.task_weights import (
    TASK_WEIGHTS,
    LossesPlan,
    TaskWeights,
    plan_losses,
    shares_of_bound,
    usual_target,
)
from skdpsco.solvers.steps import move_into

__all__ = ["TaskGradients", "has_descent"]


def has_descent(tasks: Tasks) -> bool:
    """Whether `TaskGradients` supports the tasks."""
    known = all(type(loss) in (*OF_ONE_TYPE, Multinomial) for loss in tasks.losses)
    one = len(tasks.losses) * tasks.n_targets == 1
    return known and (one or (tasks.n_classes == 0 and tasks.class_weights is None))


class WeighingDescent(GradientDescent):
    """Gradient descent on a `Mixture` of losses, in which weights of larger losses grow.

    Parameters
    ----------
    losses : tuple of NamedTuple
        The losses as they are weighed, which need not be smooth.
    plan : LossesPlan
    shrunk : bool
    """

    def __init__(self, losses: tuple[Any, ...], plan: LossesPlan, shrunk: bool) -> None:
        super().__init__(shrunk=shrunk)
        self.losses, self.how = losses, plan
        self.theta: Any = None

    def before_pass(self, t, problem, coordinates, data, point, rng):
        """The problem with weights that follow from noisy mean losses there, and the data."""
        shape = np.shape(problem.loss.weights)
        if self.theta is None:
            usual = usual_target(problem, coordinates)
            baseline = max(loss.baseline(usual) for loss in self.losses)
            m = shape[0] * shape[1]
            self.theta = TaskWeights(self.how, np.full(m, 1.0 / m), np.ones(m), baseline)
        if not self.theta.due(t):
            return problem, data
        w = unscaled(problem, coordinates, point) + problem.begin
        means = map_reduce(*data, task_losses, self.losses, w, self.theta.bound)
        gaussian_mechanism(rng, means, self.how.grid)
        weights = self.theta.update(t, means / problem.n_samples) * (1.0 - 2.0**-40)
        rows = tuple(map(tuple, weights.reshape(shape).tolist()))
        return replace(problem, loss=problem.loss._replace(weights=rows)), data


@without_gil
def task_losses(X: Any, y: np.ndarray, losses: Any, w: np.ndarray, bound: float) -> np.ndarray:
    """Sum of the losses of each task over ``bound``, clipped to [0, 1], flat."""
    return np.ravel([shares_of_bound(X, y, loss, w, bound).sum(axis=0) for loss in losses])


class TaskGradients:
    """Gradient descent for tasks, followed by projection onto the ball.

    If classes are tasks, it minimises the mean of their mean losses: records are weighted by one
    over the shares of their classes. If there are several losses or targets, it minimises the
    largest mean loss: `WeighingDescent` changes the weights of tasks between its steps.
    """

    fixed_cost = clips_gradients = reads_centred = True

    def plan(self, problem: MinimaxProblem, budget: Any, n_iter: int | None = None) -> MinimaxPlan:
        """Spend ``budget``, shares of it on counts of classes or on losses if they are needed.

        Raises
        ------
        ValueError
            If the noise is too large for the grids.
        """
        tasks, n = problem.tasks, problem.n_samples
        composite = _composite(problem, budget.mu, n_iter)
        weighing = isinstance(composite.loss, Mixture)
        rest, counts, losses = budget, None, None
        first: Any = NoOpEvent()
        said: tuple[str, ...] = ()
        if tasks.counts_first:
            counts, rest = plan_counts(n, tasks.n_classes, 0.5 * budget.mu**2)
            first, said = counts.event, ("noisy numbers of records in every class",)
        elif weighing:
            left = (1.0 - TASK_WEIGHTS.share) * (1.0 - 2.0**-40)
            rest = Allowance(0.5 * left * budget.mu**2)
            n_iter = n_iter or full_passes(composite, rest.mu)  # weights need many steps
        inner = GradientDescent().plan(composite, rest, n_iter)
        check_cost(inner.event, rest)
        if weighing:
            mu, m = budget.mu * math.sqrt(TASK_WEIGHTS.share), np.size(composite.loss.weights)
            sensitivity = replace_one(n, 1.0, math.sqrt(m), parts=m)
            losses = plan_losses((n,) * m, sensitivity, n, inner, mu * (1.0 - 2.0**-40))
            first, said = losses.event, ("noisy mean losses of the tasks",)
        return MinimaxPlan(
            event=inner.event if not said else compose(first, inner.event),
            n_iter=inner.n_iter,
            summary=(*said, *inner.summary),
            inner=inner,
            counts=counts,
            composite=composite,
            losses=losses,
            **inner.passed_on(),
        )

    def run(
        self,
        plan: MinimaxPlan,
        problem: MinimaxProblem,
        X: Any,
        y: np.ndarray,
        rng: Any,
        progress: Any,
    ) -> MinimaxResult:
        """Follow ``plan`` on the data."""
        tasks, composite, ball = problem.tasks, plan.composite, L1Ball(problem.radius)
        shrunk = traits_of(tasks.losses[0]).targets == "numbers"
        if plan.losses is not None:
            weighing = WeighingDescent(tasks.losses, plan.losses, shrunk)
            found = weighing.run(plan.inner, composite, X, np.ascontiguousarray(y), rng, progress)
            theta = weighing.theta.mean.reshape(np.shape(composite.loss.weights))
            move_into(ball, found.coef)
            return MinimaxResult(found.coef, found.n_iter, task_weights=theta)
        K, weights = tasks.n_classes, np.array(tasks.class_weights or 1.0)
        shares = None if tasks.prior is None else np.array(tasks.prior)
        t = np.ascontiguousarray(y[:, 0])
        if K > 0:
            index = class_index(tasks, y)
            if plan.counts is not None:
                shares = plan.counts.release(index, K, rng)
            weights = weights / shares
            weights = weights / weights.max()
        if K > 0 and tasks.n_outputs > 1:
            t = index + 0.5 * weights[index]
        elif weights.ndim > 0:
            t = with_weights(t, np.where(t > 0.0, weights[1], weights[0]))
        found = GradientDescent(shrunk=shrunk).run(plan.inner, composite, X, t, rng, progress)
        theta = np.full((1, max(K, 1)), 1.0 / max(K, 1))
        move_into(ball, found.coef)
        return MinimaxResult(found.coef, found.n_iter, task_weights=theta, shares=shares)


def _composite(problem: MinimaxProblem, mu: float, n_iter: int | None) -> CompositeProblem:
    """The problem of descent: one smooth loss of every record, for equal weights of tasks."""
    tasks, n, d = problem.tasks, problem.n_samples, problem.n_features
    given = tasks.losses[0]

    def with_loss(loss: Any) -> CompositeProblem:
        sizes: Any = (problem.n_samples, problem.n_features, problem.intercept)
        known: Any = {name: getattr(problem, name) for name in ("sparse", "centred", "mean_square")}
        return anchored(Problem(loss, None, *sizes, **known))

    if tasks.n_outputs > 1:
        return with_loss(weighted(given) if tasks.n_classes else given)
    passes = n_iter or full_passes(with_loss(given), mu)
    parts, factors = zip(*(smoothed(loss, n * mu, d, passes) for loss in tasks.losses), strict=True)
    factors = tuple(factor / max(factors) for factor in factors)
    m = len(parts) * tasks.n_targets
    if m > 1:
        return with_loss(Mixture(parts, factors, ((1.0 / m,) * tasks.n_targets,) * len(parts)))
    weigh = tasks.n_classes > 0 or tasks.class_weights is not None
    return with_loss(weighted(parts[0]) if weigh else parts[0])
