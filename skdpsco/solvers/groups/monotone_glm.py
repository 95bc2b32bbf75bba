"""Monotone generalised linear models: ``mean((r(x'w) - t) x) = 0`` over an l2 ball.

``r`` is a non-decreasing function, given by a table with values in [-1, 1]. Proof:
docs/proofs/monotone_glm.md.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from skdpsco._kernels import njit
from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.constraints.sets import L2Ball
from skdpsco.data.design import GATHERED_ROWS, columns_of
from skdpsco.data.pieces import replace_one
from skdpsco.data.products import correlate, predict_all
from skdpsco.data.record_sums import BlockDesign
from skdpsco.losses.library import Squared
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import GaussianEvent, compose
from skdpsco.privacy.spending import Allowance
from skdpsco.solvers.base import Plan, Result
from skdpsco.solvers.groups.moments import MAX_GROUP_FEATURES, GroupMoments
from skdpsco.solvers.groups.problem import (
    GroupedTargets,
    GroupProblem,
    bounded_responses,
    bounded_targets,
)
from skdpsco.solvers.groups.saddle_of_model import (
    LARGEST_COEF,
    TRAPEZOID,
    GaussianModel,
    QuadraticModel,
)
from skdpsco.solvers.lp_ball.projected_descent import ProjectedDescent
from skdpsco.solvers.saddle.geometry import Block
from skdpsco.solvers.saddle.mirror_prox import MirrorProx, MirrorProxPlan
from skdpsco.solvers.saddle.problem import VariationalProblem

__all__ = ["GradientMirrorProx", "PooledDescent", "PooledMoments", "TabulatedMoments"]

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


class TabulatedMoments:
    """Loss ``phi(z) - t z`` for `GroupMoments`, whose ``phi'`` interpolates a table.

    Parameters
    ----------
    knots : ndarray of shape (n_knots,)
        Increasing points, at least two.
    values : ndarray of shape (n_knots,)
        Non-decreasing values of ``phi'`` in [-1, 1]. Beyond the knots ``phi'`` is constant.
    """

    knots: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    integral: np.ndarray

    bound: ClassVar[float] = 1.0  # of targets and of the response
    # For losses by group. There is only one group here, and its loss is not released.
    largest_loss: ClassVar[float] = 1.0
    least_loss: ClassVar[float] = -np.inf
    level_at_zero: ClassVar[float | None] = 0.0
    usual_excess: ClassVar[float] = 0.0
    n_outputs: ClassVar[int] = 1
    of_residuals: ClassVar[bool] = False

    def __init__(self, knots: np.ndarray, values: np.ndarray) -> None:
        self.knots, self.values = knots, values
        self.slopes = np.diff(values) / np.diff(knots)
        areas = np.diff(knots) * (values[1:] + values[:-1]) / 2
        zero = int(np.searchsorted(knots[1:-1], 0.0))  # phi is small where predictions are
        left, right = -np.cumsum(areas[:zero][::-1])[::-1], np.cumsum(areas[zero:])
        self.integral = np.concatenate([left, [0.0], right])

    def response(self, z: np.ndarray) -> np.ndarray:
        """Derivative of phi, within [-1, 1] whatever z is."""
        r = np.interp(z, self.knots, self.values)
        return np.clip(np.where(np.isnan(r), 0.0, r), -1.0, 1.0)

    def phi(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``phi`` and its first two derivatives."""
        inside = np.clip(z, self.knots[0], self.knots[-1])
        j = np.searchsorted(self.knots[1:-1], inside, side="right")
        d, v, r = inside - self.knots[j], self.slopes[j], self.response(z)
        value = self.integral[j] + d * (self.values[j] + 0.5 * v * d) + (z - inside) * r
        return value, r, np.where(z == inside, v, 0.0)

    @property
    def linear(self) -> bool:
        """Whether the response is the prediction itself, clipped."""
        return len(self.knots) == 2 and np.array_equal(self.knots, self.values)

    def model(self, second_moments: np.ndarray, mean: np.ndarray) -> Any:
        """A model of the mean of phi, from moments of the features."""
        if self.linear:
            return QuadraticModel(second_moments, mean)  # phi' is linear: exact for every x
        return GaussianModel(second_moments, mean, self.phi, TRAPEZOID)


class PooledMoments:
    """`GroupMoments` with all records in one group; the loss is a `TabulatedMoments`."""

    fixed_cost = by_blocks = reads_centred = True

    def _grouped(self, problem: Problem) -> GroupProblem:
        return GroupProblem(
            problem.loss,
            problem.constraint,
            problem.n_samples,
            problem.n_features,
            problem.intercept,
            n_groups=1,
            group_sizes=(problem.n_samples,),
            objective="average",
            centred=problem.centred,
        )

    def plan(self, problem: Problem, budget: Any, n_iter: int | None = None) -> Any:
        """Spend ``budget``; see `GroupMoments.plan`."""
        if problem.n_features > MAX_GROUP_FEATURES:
            raise ValueError(
                f"solver='moments' takes at most {MAX_GROUP_FEATURES} features, including the "
                f"intercept, got {problem.n_features}: use solver='mirror-prox'."
            )
        return GroupMoments().plan(self._grouped(problem), budget, n_iter)

    def run(
        self,
        plan: Any,
        problem: Problem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        everyone = None
        if isinstance(X, BlockDesign):
            X, y = X.with_targets(_in_one_group), None
        else:
            everyone = _in_one_group(y).membership
        return GroupMoments().run(plan, self._grouped(problem), X, y, everyone, rng, progress)


class PooledDescent:
    """`ProjectedDescent` for the identity as a link, whose equation is that of least squares."""

    fixed_cost = by_blocks = clips_gradients = reads_centred = True

    def plan(self, problem: Problem, budget: Any, n_iter: int | None = None) -> Any:
        """Spend ``budget``; see `GradientDescent.plan`.

        Raises
        ------
        ValueError
            If the link is not the identity, or the noise is too large for the grid.
        """
        if not problem.loss.linear:
            raise ValueError(
                "solver='gradient-descent' needs link='identity': use solver='moments'."
            )
        return ProjectedDescent().plan(replace(problem, loss=Squared()), budget, n_iter)

    def run(
        self,
        plan: Any,
        problem: Problem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        squares = replace(problem, loss=Squared())
        return ProjectedDescent().run(plan, squares, X, y, rng, progress)


def _in_one_group(y: np.ndarray) -> GroupedTargets:
    return GroupedTargets(y, sparse.csr_array(np.ones((len(y), 1))))


@njit
def _correlate(X, R, out):
    correlate(X, R, out)


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
        ball: Any = L2Ball(min(problem.constraint.radius, LARGEST_COEF))
        self.blocks: tuple[Block, ...] = (Block(ball, problem.n_features, 2.0 * self.loss.bound),)
        self.smoothness: Any = [[float(self.loss.slopes.max()) * moment / clip]]

    def total(self, w: np.ndarray, data: Any) -> np.ndarray:
        y, norms, X = data
        z, total = np.empty((len(y), 1)), np.empty(len(w))
        predict_all(X, w, z)
        factors = bounded_responses(self.loss, z[:, 0]) - bounded_targets(self.loss, y)
        z[:, 0] = factors / np.maximum(norms, self.clip)
        _correlate(X, z, total)
        return total


@dataclass(frozen=True)
class GradientPlan(Plan):
    """The grid of the mean squared norm, and the plan of the steps."""

    norm_grid: float = 0.0
    steps: MirrorProxPlan | None = None
    rest: Allowance | None = None  # what the steps may spend
    largest_clip: bool = False  # no row is shortened

    def for_moment(
        self, problem: Problem, moment: float
    ) -> tuple[VariationalProblem, MirrorProxPlan]:
        """The problem to solve, and its plan, once the rows' mean squared norm is released.

        The number of calls and their grids are those that were planned; only the step size is new.
        """
        assert self.steps is not None
        monotone, distance = _monotone_problem(problem, moment, self.largest_clip)
        schedule = MirrorProx(METHOD).schedule(monotone, self.rest, self.n_iter, distance)
        return monotone, replace(self.steps, schedule=schedule)


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
    """`MirrorProx` for the same problems as `PooledMoments`; the ball holds the intercept too.

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
        monotone, steps = plan.for_moment(problem, moment)
        data = y, np.sqrt(squares), X
        w = MirrorProx(METHOD).run(steps, monotone, data, rng, progress)
        return Result(w, plan.n_iter)
