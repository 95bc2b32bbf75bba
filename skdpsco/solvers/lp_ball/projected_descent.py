"""Noisy gradient descent, followed by projection onto a ball.

docs/proofs/gradient_descent.md covers the descent; the projection is post-processing.
"""

import math
from typing import Any, ClassVar

import numpy as np

from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import check_bound
from skdpsco.constraints.sets import BALLS, project
from skdpsco.losses.traits import traits_of
from skdpsco.solvers.base import DERIVATIVES, Result
from skdpsco.solvers.penalized.gradient_descent import GradientDescent, GradientDescentPlan
from skdpsco.solvers.penalized.problem import anchored
from skdpsco.solvers.steps import move_into

__all__ = ["ProjectedDescent"]


class ProjectedDescent:
    """Gradient descent with momentum and without a constraint, then projection onto the ball.

    If there is much noise, a few passes over all records are worth more than the steps of solvers
    whose noise follows from the ball. It needs a smooth loss, and records as they are, without a
    bound on the norms of their rows.

    References
    ----------
    The parameters are those of `GradientDescent`. Proof: docs/proofs/gradient_descent.md.
    """

    requires: ClassVar[dict[str, Any]] = {"loss": DERIVATIVES, "constraint": ((project,),)}
    by_blocks = fixed_cost = clips_gradients = for_added = reads_centred = True
    holds_intercept: ClassVar[bool] = True  # whether the ball does

    def plan(self, problem: Problem, budget: Any, n_iter: int | None = None) -> GradientDescentPlan:
        """Spend ``budget`` on ``n_iter`` passes.

        Raises
        ------
        ValueError
            If rows are shortened, a radius is outside [1e-100, 1e100], or the noise of a pass would
            be too large for the grid.
        """
        if problem.row_norm < math.inf:
            raise ValueError("ProjectedDescent needs row_norm=None: it reads rows as they are.")
        if type(problem.constraint) in BALLS:
            check_bound("radius", problem.constraint.radius)
        return GradientDescent().plan(anchored(problem), budget, n_iter)

    def run(
        self,
        plan: GradientDescentPlan,
        problem: Problem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        composite = anchored(problem)
        solver = GradientDescent(shrunk=traits_of(composite.loss).residuals)
        result = solver.run(plan, composite, X, y, rng, progress)
        free = problem.intercept and not self.holds_intercept
        move_into(problem.constraint, result.coef[: problem.n_features - free])
        return result
