"""Monotone generalised linear models: ``mean((r(x'w) - t) x) = 0`` over an l2 ball.

``r`` is a non-decreasing function with values in [-1, 1], and ``r(z) - t`` is the derivative of the
problem's loss. Proof: docs/proofs/monotone_glm.md.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsco._kernels import njit
from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.constraints.sets import L2Ball
from skdpsco.data.design import GATHERED_ROWS, columns_of
from skdpsco.data.pieces import replace_one
from skdpsco.data.products import correlate, predict_all
from skdpsco.losses.kernels import bounded_entries
from skdpsco.losses.library import for_kernels
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import GaussianEvent, compose
from skdpsco.privacy.spending import Allowance
from skdpsco.solvers.base import Plan, Result
from skdpsco.solvers.lp_ball.projected_descent import ProjectedDescent
from skdpsco.solvers.saddle.geometry import Block
from skdpsco.solvers.saddle.mirror_prox import MirrorProx, MirrorProxPlan
from skdpsco.solvers.saddle.problem import VariationalProblem

__all__ = ["GradientMirrorProx", "PooledDescent"]

METHOD = "mirror-prox"


@dataclass(frozen=True)
class GradientTuning:
    """Constants of `GradientMirrorProx` that were chosen by hand."""

    norm_share: float = 0.03  # of mu**2, for the mean squared norm of the rows
    distance: float = 2.0  # public guess of the solution's norm, in units of the link
    quiet_ratio: float = 1e4  # of records times mu to a row's norm; above it no row is shortened
    clip: float = 1.21  # rows are shortened to a norm whose square is this times the mean square
    most_concentrated: float = 1e4  # the mean square is assumed to be at least n_features / this


GRADIENT = GradientTuning()
LARGEST_COEF = 1e6  # bound on coefficients, for features in [-1, 1]


class PooledDescent(ProjectedDescent):
    """`ProjectedDescent` with the intercept outside of the ball."""

    holds_intercept = False


@njit
def _sum_terms(X, y, loss, slope, norms, clip, Z, out):
    """Turn scores into clipped derivatives over norms of rows, and add up their products."""
    bounded_entries(loss, Z, y, slope, Z)
    for i in range(y.shape[0]):
        Z[i, 0] /= max(norms[i], clip)
    correlate(X, Z, out)


class _Gradient:
    """``(r(x'w) - t) x / max(norm(x), clip)``, summed over records, for `MirrorProx`.

    Parameters
    ----------
    problem : Problem
    clip : float
    moment : float
        Expected or noisy mean squared norm of the rows, which decides the steps.
    """

    saddle = True  # the operator is a gradient, so the mean of the iterates is a solution

    def __init__(self, problem: Problem, clip: float, moment: float) -> None:
        self.loss, self.clip = problem.loss, clip
        self.slope = float(problem.loss.lipschitz())
        ball = L2Ball(min(problem.constraint.radius, LARGEST_COEF))
        self.blocks: tuple[Block, ...] = (Block(ball, problem.n_features, self.slope),)
        self.smoothness: Any = [[problem.loss.smoothness() * moment / clip]]

    def total(self, w: np.ndarray, data: Any) -> np.ndarray:
        y, norms, X = data
        z, total = np.empty((len(y), 1)), np.empty(len(w))
        predict_all(X, w, z)
        _sum_terms(X, y, for_kernels(self.loss), self.slope, norms, self.clip, z, total)
        return total


@dataclass(frozen=True, kw_only=True)
class GradientPlan(Plan):
    """The grid of the mean squared norm, and the plan of the steps."""

    norm_grid: float
    steps: MirrorProxPlan
    rest: Allowance  # what the steps may spend
    largest_clip: bool  # no row is shortened


def _monotone_problem(
    problem: Problem, moment: float, largest_clip: bool
) -> tuple[VariationalProblem, float]:
    """The problem of `MirrorProx` for rows of this mean square, and the distance for its steps."""
    F = problem.n_features
    clip = math.sqrt(F if largest_clip else min(GRADIENT.clip * moment, F))
    monotone = VariationalProblem(_Gradient(problem, clip, moment), problem.n_samples)
    geometry = monotone.geometry
    return monotone, min(GRADIENT.distance / geometry.blocks[0].scale, geometry.radius)


class GradientMirrorProx:
    """`MirrorProx` for a loss of bounded slope; the ball holds the intercept too.

    A noisy mean squared norm decides to what norm rows are shortened, and the step size. The number
    of steps is decided beforehand, for features that are uniform on [-1, 1].
    """

    fills_range = True

    def plan(self, problem: Problem, budget: Any, n_iter: int | None = None) -> GradientPlan:
        """Spend ``budget``; see `MirrorProx.plan`."""
        n, F = problem.n_samples, problem.n_features
        mu = budget.mu * (1.0 - 2.0**-40)
        multiplier = 1.0 / (mu * math.sqrt(GRADIENT.norm_share))
        rest = Allowance((1.0 - GRADIENT.norm_share) * mu**2 / 2.0)
        largest_clip = n * mu > GRADIENT.quiet_ratio * math.sqrt(F)
        monotone, distance = _monotone_problem(problem, (F - 1.0) / 3.0 + 1.0, largest_clip)
        steps = MirrorProx(METHOD).plan(monotone, rest, n_iter, distance)
        return GradientPlan(
            event=compose(GaussianEvent(multiplier), steps.event),
            n_iter=steps.n_iter,
            summary=steps.summary,
            norm_grid=gaussian_grid(replace_one(n, 1.0, F, F), multiplier, 1, n * F),
            steps=steps,
            rest=rest,
            largest_clip=largest_clip,
            **steps.passed_on(),
        )

    def run(
        self,
        plan: GradientPlan,
        problem: Problem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        n, F = problem.n_samples, problem.n_features
        squares, rows = np.empty(n), max(100 * GATHERED_ROWS // F, 1)
        for start in range(0, n, rows):
            A = columns_of(X, start, start + rows, np.arange(F))
            squares[start : start + rows] = np.einsum("ij,ij->i", A, A)
        total = squares.sum(keepdims=True)
        gaussian_mechanism(rng, total, plan.norm_grid)
        moment = min(max(float(total[0]) / n, F / GRADIENT.most_concentrated), float(F))
        # The number of calls and their grids are those that were planned; the step size is new.
        monotone, distance = _monotone_problem(problem, moment, plan.largest_clip)
        solver = MirrorProx(METHOD)
        schedule = solver.schedule(monotone, plan.rest, plan.n_iter, distance)
        data = y, np.sqrt(squares), X
        w = solver.run(replace(plan.steps, schedule=schedule), monotone, data, rng, progress)
        return Result(w, plan.n_iter)
