"""Private proximal coordinate descent. Proof: docs/proofs/coordinate_descent.md."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._clipping import clip, clip_record
from skdpsco._kernels import inner, kernel, njit, provider
from skdpsco._random import below
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import check_bool, check_bound
from skdpsco.data.design import CSC, Columns, add_column, as_columns
from skdpsco.losses.kernels import by_record
from skdpsco.losses.library import Logistic, derivative, derivatives, lipschitz_l2
from skdpsco.losses.traits import traits_of
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism, summation_error
from skdpsco.penalties import prox, scaled_prox
from skdpsco.privacy import GaussianEvent, RepeatedEvent, compose
from skdpsco.scaling.column_scales import NOTHING, ScalePlan, Scales, plan_scales, release_scales
from skdpsco.solvers.base import DERIVATIVES, Plan, Result, check_derivatives
from skdpsco.solvers.penalized.problem import CompositeProblem, coordinate_model

__all__ = [
    "PARTIAL_SUMS",
    "CoordinateDescent",
    "check_clip",
    "clip_bounds",
    "column_major",
    "largest_slope",
    "measures_target",
    "replace_in_partial_sums",
    "settle_slopes",
    "slopes",
]

PARTIAL_SUMS = 512  # of a column; this many records are processed at a time


class CoordinateDescentTuning(NamedTuple):
    """Constants of the plan, fitted on data as in examples/benchmarks/coordinate_descent.py.

    "Signal" is n mu per coordinate of a feature: ``n mu / (d sqrt(K))``.

    Parameters
    ----------
    noise : float
        Signal that one pass needs.
    fewest, most : float
        Smallest and largest number of passes.
    full_length : float
        Signal above which steps have their full length.
    plenty : float
        Signal above which clipping bounds grow.
    residual_clip, slope_clip : float
        Clipping bounds of residuals in root mean squares of the targets, and of other derivatives
        in Lipschitz constants.
    averaged : float
        Share of the passes whose points are averaged, if any are.
    """

    noise: float = 12.0
    fewest: float = 2.0
    most: float = 50.0
    full_length: float = 40.0
    plenty: float = 2000.0
    residual_clip: float = 3.0
    slope_clip: float = 1.3
    averaged: float = 0.25


COORDINATE_DESCENT = CoordinateDescentTuning()


@dataclass(frozen=True)
class CoordinateDescentPlan(Plan):
    """Scales of the columns, and the noise of every step.

    Parameters
    ----------
    scales : ScalePlan
    grid : float
        Grid of a sum of terms within 1; a column's grid is this times its bound.
    slack : float
        Factor of the automatic bounds, which grows if the noise is small.
    length : float
        Length of the longest steps, in (0, 1], below 1 if the noise is large.
    """

    scales: ScalePlan = NOTHING
    grid: float = 0.0
    slack: float = 1.0
    length: float = 1.0


class PassSteps(NamedTuple):
    """The steps of a pass.

    Parameters
    ----------
    order : ndarray of int
        Features, in the order of their steps.
    step : ndarray
        Lengths of the steps, in that order.
    bound, grid : ndarray of shape (n_features,)
        Bound on a record's derivative in the coefficients of a feature, and grid of their sum.
    """

    order: np.ndarray
    step: np.ndarray
    bound: np.ndarray
    grid: np.ndarray


class CoordinateDescent:
    """Proximal coordinate descent with clipped derivatives and Gaussian noise.

    Every step clips the derivatives of the records in one coordinate, adds noise to their sum, and
    moves the coordinate. Clipping bounds and step sizes follow the columns' scales, which cost a
    tenth of the budget unless they are known. With several outputs a step moves the coordinates of
    one feature.

    Parameters
    ----------
    order : {"cyclic", "random"}, default="cyclic"
        Order of the coordinates. "random" is a new permutation in every pass.
    clip : "auto" or float, default="auto"
        Bound on the derivative of the loss, per root mean square of the column: one record counts
        for at most ``clip * rms_j``. "auto" is three root mean squares of the targets for losses of
        residuals and 1.3 Lipschitz constants for others, and more if the noise is small.
    average : bool, default=False
        Whether to return the mean of the iterates of the last quarter of the passes. By default the
        last iterate is returned, which has exact zeros if the penalty creates any.

    References
    ----------
    P. Mangold, A. Bellet, J. Salmon, M. Tommasi. Differentially Private Coordinate Descent for
    Composite Empirical Risk Minimization. ICML 2022, Algorithm 1.
    """

    average: bool
    clip: Any

    conditioned = True

    requires: ClassVar[dict[str, Any]] = {"loss": DERIVATIVES, "penalty": ((prox,),)}
    fixed_cost = True

    def __init__(
        self, order: str = "cyclic", clip: float | str = "auto", average: bool = False
    ) -> None:
        if order not in ("cyclic", "random"):
            raise ValueError(f"order must be 'cyclic' or 'random', got {order!r}.")
        self.order, self.average = order, check_bool("average", average)
        self.clip = check_clip(clip)

    def plan(
        self, problem: CompositeProblem, budget: Any, n_iter: int | None = None
    ) -> CoordinateDescentPlan:
        """Share ``budget`` among the scales and the steps of ``n_iter`` passes.

        Raises
        ------
        ValueError
            If the noise of a step would be too large for the grid, or the loss has no bound.
        """
        n, D, K = problem.n_samples, problem.n_features, problem.loss.n_outputs
        mu = budget.mu * (1.0 - 2.0**-40)
        tuning, signal = COORDINATE_DESCENT, n * mu / (D * math.sqrt(K))
        n_passes = n_iter or round(min(max(signal / tuning.noise, tuning.fewest), tuning.most))
        scales, mu_steps = plan_scales(problem, mu, measures_target(problem, self.clip))
        largest_slope(problem)  # fails if there is none
        settle_slopes(problem.loss)
        multiplier = math.sqrt(n_passes * D) / mu_steps
        bound = 1.0 + K * 2.0**-50  # l2 norms are rounded
        sensitivity = replace_in_partial_sums(n, bound)
        return CoordinateDescentPlan(
            event=compose(scales.event, RepeatedEvent(GaussianEvent(multiplier), n_passes * D)),
            n_iter=n_passes,
            scales=scales,
            grid=gaussian_grid(sensitivity, multiplier, K, n * bound),
            slack=max(1.0, (signal / tuning.plenty) ** (1.0 / 3.0)),
            length=min(1.0, signal / tuning.full_length),
        )

    def run(
        self,
        plan: CoordinateDescentPlan,
        problem: CompositeProblem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        loss, D, K = problem.loss, problem.n_features, problem.loss.n_outputs
        scales = release_scales(plan.scales, problem, X, y, rng)
        bound = clip_bounds(problem, scales, self.clip, plan.slack)
        model = coordinate_model(problem, scales.mean_square)
        columns = as_columns(X)
        Z_block, R, sums = (column_major(PARTIAL_SUMS, K) for _ in range(3))
        room = np.empty(K), (Z_block, np.empty(PARTIAL_SUMS), R, sums)
        w, Z = np.zeros(K * D), column_major(problem.n_samples, K)
        order, total = np.arange(D), np.zeros(K * D)
        n_averaged = max(1, round(COORDINATE_DESCENT.averaged * plan.n_iter))
        for p in range(plan.n_iter):
            if self.order == "random":
                shuffle(rng, order)
            # Shorter steps in the second half average the noise out. The curvature of the penalty
            # is part of the step, so that it is shortened too.
            length = np.minimum(2.0 - 2.0 * (p + np.arange(D) / D) / plan.n_iter, 1.0)
            length *= plan.length
            step = length / (model.smooth[order] + (1.0 - length) * model.curved[order])
            steps = PassSteps(order, step, bound, bound * plan.grid)
            sweep(columns, y, loss, model, steps, rng, (w, Z), room)
            progress[0] += 1
            if p >= plan.n_iter - n_averaged:
                total += w
        return Result(total / n_averaged if self.average else w, plan.n_iter)


def replace_in_partial_sums(n_samples: int, bound: float) -> float:
    """Sensitivity of `clipped_sum` for records within ``bound``, including both roundings."""
    depth = n_samples // PARTIAL_SUMS + PARTIAL_SUMS
    return 2.0 * bound + 2.0 * summation_error(n_samples, bound, depth)


def column_major(n: int, K: int) -> np.ndarray:
    """Zeros of shape (n, K) whose columns are contiguous."""
    return np.zeros((K, n)).T


def check_clip(clip: Any) -> float | str:
    """Check that ``clip`` is "auto" or a positive number, and return it.

    Raises
    ------
    TypeError
        If it is of another type.
    ValueError
        If it is another string, or not positive.
    """
    if isinstance(clip, str):
        if clip != "auto":
            raise ValueError(f"clip must be 'auto' or a positive number, got {clip!r}.")
        return clip
    return check_bound("clip", clip)


def largest_slope(problem: CompositeProblem) -> float:
    """The largest useful bound on a record's derivative, for features in [-1, 1].

    If derivatives are residuals, it is four times the bound on the targets.

    Raises
    ------
    ValueError
        If first or second derivatives of the loss have no bound.
    """
    largest = lipschitz_l2(problem.loss)
    if traits_of(problem.loss).residuals:
        largest = min(largest, 4.0 * problem.target_bound)
    check_derivatives(problem.loss, largest)
    return largest


def measures_target(problem: CompositeProblem, clip: float | str) -> bool:
    """Whether clipping bounds follow the size of the targets."""
    return clip == "auto" and traits_of(problem.loss).residuals


def clip_bounds(
    problem: CompositeProblem, scales: Scales, clip: float | str, slack: float
) -> np.ndarray:
    """Bound on a record's derivative in the coefficients of every feature."""
    largest = largest_slope(problem)
    if clip == "auto":
        of_residuals = COORDINATE_DESCENT.residual_clip * scales.target
        of_slopes = COORDINATE_DESCENT.slope_clip * largest
        clip = slack * (of_residuals if measures_target(problem, clip) else of_slopes)
    return np.minimum(float(clip) * np.sqrt(scales.mean_square), largest)


@partial(kernel, guard=by_record)
def slopes(loss, Z, y, out):
    """Compute `derivatives` of the loss, by loops that the compiler vectorises."""
    derivatives(loss, Z, y, out)


def settle_slopes(loss: Any) -> None:
    """Make `slopes` agree with the derivatives of a class that inherits faster `slopes`."""
    cls = type(loss)
    of_derivatives = [provider(kernel, cls) for kernel in (derivative, derivatives)]
    if not all(issubclass(provider(slopes, cls), other) for other in of_derivatives):
        slopes.register(cls, slopes.dispatch(object))


@slopes.register(Logistic)
def _(loss, Z, y, out):
    # Half of tanh(z / 2), minus y / 2. exp(-|z|) is a Taylor polynomial to the 64th power: the
    # error is below 1e-14 everywhere, and there is neither a branch nor a call.
    for i in range(y.shape[0]):
        z = Z[i, 0]
        t = max(-abs(z), -40.0) / 64.0
        e = 1.0 / 40320.0
        e = 1.0 / 5040.0 + t * e
        e = 1.0 / 720.0 + t * e
        e = 1.0 / 120.0 + t * e
        e = 1.0 / 24.0 + t * e
        e = 1.0 / 6.0 + t * e
        e = 0.5 + t * e
        e = 1.0 + t * e
        e = 1.0 + t * e
        for _ in range(6):
            e *= e
        half = 0.5 * (1.0 - e) / (1.0 + e)
        out[i, 0] = (half if z > 0.0 else -half) - 0.5 * y[i]


@inner
def clip_rows(R, x, bound):
    """Multiply row i of ``R`` by ``x[i]`` and shorten it to ``bound``."""
    if R.shape[1] == 1:
        for i in range(x.shape[0]):
            R[i, 0] = clip(R[i, 0] * x[i], bound)
        return
    for i in range(x.shape[0]):
        clip_record(R, i, abs(x[i]), bound)
        for k in range(R.shape[1]):
            R[i, k] *= x[i]


@kernel
def clipped_sum(X, j, loss, Z, y, bound, out, work):
    """Write the sum over records of derivatives times column j, each term clipped to ``bound``.

    ``work`` is space for predictions, targets, derivatives and partial sums of a block of records.
    """
    raise NotImplementedError


# Each partial sum is that of all records with one remainder modulo PARTIAL_SUMS. They are
# independent, so that the compiler may vectorise, and the same in both layouts.


@clipped_sum.register(Columns)
def _(X, j, loss, Z, y, bound, out, work):
    _, _, R, sums = work
    sums[:] = 0.0
    n = y.shape[0]
    for start in range(0, n, PARTIAL_SUMS):
        stop = min(start + PARTIAL_SUMS, n)
        slopes(loss, Z[start:stop], y[start:stop], R)
        clip_rows(R, X.values[j, start:stop], bound)
        for k in range(Z.shape[1]):
            for i in range(stop - start):
                sums[i, k] += R[i, k]
    add_up(sums, out)


@clipped_sum.register(CSC)
def _(X, j, loss, Z, y, bound, out, work):
    Z_block, y_block, R, sums = work
    sums[:] = 0.0
    for start in range(X.indptr[j], X.indptr[j + 1], PARTIAL_SUMS):
        stop = min(start + PARTIAL_SUMS, X.indptr[j + 1])
        rows = X.indices[start:stop]
        for i in range(rows.shape[0]):
            y_block[i] = y[rows[i]]
            for k in range(Z.shape[1]):
                Z_block[i, k] = Z[rows[i], k]
        slopes(loss, Z_block, y_block[: rows.shape[0]], R)
        clip_rows(R, X.data[start:stop], bound)
        for i in range(rows.shape[0]):
            for k in range(Z.shape[1]):
                sums[rows[i] % PARTIAL_SUMS, k] += R[i, k]
    add_up(sums, out)


@inner
def add_up(sums, out):
    """Write the sum of the rows."""
    for k in range(out.shape[0]):
        out[k] = 0.0
        for i in range(sums.shape[0]):
            out[k] += sums[i, k]


@njit
def sweep(X, y, loss, model, steps, rng, point, room):
    """Take one noisy proximal step for every column in ``steps.order``.

    ``point`` holds the coefficients and their predictions; ``room`` is for the derivatives of a
    feature, and for the ``work`` of `clipped_sum`.
    """
    penalty, weight, unit, _, _ = model
    order, step, bound, grid = steps
    w, Z = point
    g, work = room
    n, D = y.shape[0], unit.shape[0]
    for t in range(order.shape[0]):
        j = order[t]
        clipped_sum(X, j, loss, Z, y, bound[j], g, work)
        gaussian_mechanism(rng, g, grid[j])
        for k in range(g.shape[0]):
            old = w[k * D + j]
            v = old - step[t] * (g[k] / n)
            w[k * D + j] = scaled_prox(penalty, v, step[t] * weight, unit[j])
            add_column(X, j, w[k * D + j] - old, Z, k)


@njit
def shuffle(rng, order):
    """Permute ``order`` in place, uniformly (Fisher and Yates)."""
    for t in range(order.shape[0] - 1, 0, -1):
        k = below(rng, t + 1)
        order[t], order[k] = order[k], order[t]
