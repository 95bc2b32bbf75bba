"""Private proximal gradient descent. Proof: docs/proofs/gradient_descent.md."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import njit
from skdpsco._validation import check_bound
from skdpsco.data.map_reduce import in_pieces, map_reduce
from skdpsco.data.pieces import sum_error
from skdpsco.losses.library import Multinomial, derivative, derivatives, lipschitz_l2
from skdpsco.mechanisms.samplers import SCALE_BITS, gaussian_grid, gaussian_mechanism
from skdpsco.penalties import prox, scaled_prox
from skdpsco.privacy import GaussianEvent, NoOpEvent, RepeatedEvent, compose
from skdpsco.scaling.column_scales import ScalePlan, plan_scales, release_scales
from skdpsco.solvers.base import Plan, Result, check_bound_on
from skdpsco.solvers.gradient_sums import clipped_gradient_sum
from skdpsco.solvers.penalized.problem import CompositeProblem

SCALE_SHARE = 0.1  # of mu**2, for the scales of the columns and of the targets
TARGET_SHARE = 0.02  # where those of the columns are known
PASSES = 50  # where noise matters
MANY, MAX_PASSES = 200.0, 5000  # passes that would be worth their noise, above which it grows
PLENTY = 3000.0  # n mu per feature, above which passes and clipping norms grow
LENGTH = 2.0  # of a step, over smoothness times the trace of the second moments
INTERCEPT = 0.4  # of the mean square norm: most that the square of the column of ones may be
SURE = 3.0  # standard deviations, of a curvature that shortens the steps
# Of the passes, over which is averaged. What a strong penalty shrinks soon forgets where it began.
TAIL, MORE_TAIL = 0.25, 0.5


@dataclass(frozen=True)
class GradientDescentPlan(Plan):
    """Scales of the columns, and the noise of every step.

    Parameters
    ----------
    scales : ScalePlan or None
    preconditioned : bool
        Whether the scales of the columns are used.
    grid : float
        Of a sum of gradients of norm at most 1; that of longer ones is as many times as wide.
    slack : float
        Factor of the automatic clipping norm: it grows where noise is small.
    """

    scales: ScalePlan | None = None
    preconditioned: bool = True
    grid: float = 0.0
    slack: float = 1.0


class Coordinates(NamedTuple):
    """The coordinates ``scale * w`` that steps are made in: releases.

    Parameters
    ----------
    scale : ndarray of shape (n_features,)
    clip : float
        Bound on the l2 norm of a record's gradient.
    mean_square_norm : float
        Of the records in these coordinates.
    shrinkage : float
        Share of the penalty in the curvature, in [0, 1).
    """

    scale: np.ndarray
    clip: float
    mean_square_norm: float
    shrinkage: float


class GradientDescent:
    """Proximal gradient descent with momentum, clipped gradients and Gaussian noise.

    Every pass sums the records' gradients, each clipped to an l2 norm, adds noise, and takes a
    proximal step. With ``preconditioned=True`` that is done in coordinates in which all columns
    have mean square 1, as far as a tenth of the budget can tell. The number of passes, step sizes
    and clipping norms follow from public numbers and from what was released.

    Parameters
    ----------
    clip : "auto" or float, default="auto"
        The clipping norm over the square root of the number of features; that is, about the
        largest derivative that a record of the usual size is allowed. "auto" is 1.3 root mean
        squares of the targets for losses of residuals and 0.8 Lipschitz constants for others, more
        where noise is small.
    preconditioned : bool, default=True
        Whether the mean squares of the columns are measured. Without, those of 1 are assumed:
        columns as large as their bounds.

    References
    ----------
    R. Bassily, A. Smith, A. Thakurta. Private Empirical Risk Minimization: Efficient Algorithms
    and Tight Error Bounds. FOCS 2014. (Full batches with momentum instead of single records.)
    """

    requires = {"loss": ((derivative, derivatives),), "penalty": ((prox,),)}
    by_blocks = fixed_cost = True

    def __init__(self, clip: float | str = "auto", preconditioned: bool = True) -> None:
        if not isinstance(preconditioned, bool):
            raise TypeError(f"preconditioned must be a bool, got {preconditioned!r}.")
        self.clip = clip if clip == "auto" else check_bound("clip", clip)
        self.preconditioned = preconditioned

    def plan(
        self, problem: CompositeProblem, budget: Any, n_iter: int | None = None
    ) -> GradientDescentPlan:
        """Share ``budget`` among the scales and ``n_iter`` passes.

        Raises
        ------
        ValueError
            If the noise of a pass would be too large for the grid, or if ``clip="auto"`` and
            derivatives of the loss, other than residuals, have no bound.
        """
        mu, ratio = budget.mu * (1.0 - 2.0**-40), plenty(problem, budget)
        n_passes = n_iter or full_passes(problem, mu)
        scales, mu_steps = share_scales(self, problem, mu)
        multiplier = math.sqrt(n_passes) / mu_steps
        event = RepeatedEvent(GaussianEvent(multiplier), n_passes)
        return GradientDescentPlan(
            event=compose(scales.event if scales else NoOpEvent(), event),
            n_iter=n_passes,
            scales=scales,
            preconditioned=self.preconditioned,
            grid=gradient_grid(problem, multiplier, 2.0),
            slack=max(1.0, ratio**0.25),
        )

    def run(
        self, plan: GradientDescentPlan, problem: CompositeProblem, X, y, rng, progress
    ) -> Result:
        """Follow ``plan`` on the data."""
        X = in_pieces(X, y)
        coordinates = release_coordinates(self.clip, plan, problem, X, y, rng)
        n, T = problem.n_samples, plan.n_iter
        grid = plan.grid * coordinates.clip
        noise = grid * 2.0**SCALE_BITS / n  # standard deviation in every coordinate
        step = LENGTH / (problem.loss.smoothness() * coordinates.mean_square_norm)
        largest_momentum = max(0.9, 1.0 - 5.0 / T)
        point = np.zeros(problem.n_coefficients)  # where the gradient is taken
        last, last_gradient, old = point, point, point
        sums = np.zeros((2, len(point)))
        age, n_averaged = 0, max(1, round((TAIL + MORE_TAIL * coordinates.shrinkage**2) * T))
        for t in range(T):
            gradient = noisy_gradient(problem, coordinates, X, y, point, grid, rng) / n
            if t > 0:
                step = stable_step(step, point - last, gradient - last_gradient, noise)
            last, last_gradient = point, gradient
            new = proximal_step(problem, coordinates, point, gradient, step)
            move = new - old
            backwards = (point - new) @ move > 2.0 * step * noise * np.linalg.norm(move)
            age = 0 if backwards else age + 1
            if t >= T - n_averaged:
                sums += point, gradient
            point = new + min(largest_momentum, age / (age + 3.0)) * move
            old = new
            progress[0] += 1
        mean_point, mean_gradient = sums / n_averaged
        u = proximal_step(problem, coordinates, mean_point, mean_gradient, step)
        return Result(unscaled(problem, coordinates, u), T)


def plenty(problem: CompositeProblem, budget: Any) -> float:
    """Records times mu per feature, in units of what is plenty; public."""
    outputs = math.sqrt(problem.loss.n_outputs)
    return problem.n_samples * budget.mu / (problem.n_features * outputs * PLENTY)


def passes(ratio: float) -> int:
    """Passes of sampled batches, as `full_passes`."""
    few = min(max(ratio * PLENTY / 8.0, 4.0), PASSES)
    return round(min(few * max(1.0, ratio) ** (1.0 / 3.0), MAX_PASSES))


def full_passes(problem: CompositeProblem, mu: float) -> int:
    """Passes of full batches that are worth their noise: few, where there is much of it."""
    worth = problem.n_samples * mu / math.sqrt(problem.n_coefficients) / 6.0
    return round(min(max(worth, 4.0), PASSES * max(worth / MANY, 1.0) ** (1.0 / 3.0), MAX_PASSES))


def share_scales(
    solver: Any, problem: CompositeProblem, mu: float
) -> tuple[ScalePlan | None, float]:
    """Plan the scales that ``solver`` needs; return the plan and the mu that is left."""
    target = solver.clip == "auto" and problem.has_residuals
    check_bound_on("second derivative", problem.loss, problem.loss.smoothness())
    slope = lipschitz_l2(problem.loss)
    if slope < math.inf or (solver.clip == "auto" and not target):
        check_bound_on("derivative", problem.loss, slope)
    known = problem.mean_square is not None
    if not target and (known or not solver.preconditioned):
        return None, mu
    # Columns and targets are measured together; without preconditioning the former are not used.
    share = TARGET_SHARE if known else SCALE_SHARE
    scales = plan_scales(problem, mu * math.sqrt(share), target, known)
    return scales, mu * math.sqrt(1.0 - share)


def gradient_grid(problem: CompositeProblem, multiplier: float, factor: float) -> float:
    """Grid of sums of gradients of norm 1, of which one record moves ``factor``."""
    n, D = problem.n_samples, problem.n_coefficients
    bound = 1.0 + (D + 4) * 2.0**-50  # norms and products are rounded
    # 2: a sum is divided twice, by a bound and by a scale.
    sensitivity = factor * bound + 2.0 * sum_error(n, bound, 2)
    return gaussian_grid(sensitivity, multiplier, D, n * bound)


def release_coordinates(clip, plan: Any, problem: CompositeProblem, X, y, rng) -> Coordinates:
    """Release the scales that are planned; decide on the coordinates and the clipping norm."""
    loss, d = problem.loss, problem.n_features
    scale, target = np.ones(d), problem.target_bound
    mean_square: Any = problem.mean_square
    if plan.scales is not None:
        released = release_scales(plan.scales, X, y, rng)
        target = released.target
        mean_square = mean_square or released.mean_square[: d - problem.intercept]
    if plan.preconditioned and mean_square is not None:
        scale[: d - problem.intercept] = np.sqrt(mean_square)
    penalty = float((problem.penalty_curvature / scale**2).sum()) / max(d - problem.intercept, 1)
    shrinkage = 1.0 - loss.smoothness() / (penalty + loss.smoothness())
    # The noise of an intercept, which no penalty shrinks, would drown predictions that it does
    # shrink. (Targets of regressions are centred.)
    ones = 1.0 if problem.has_residuals else max(INTERCEPT * shrinkage * d, 1.0)
    if problem.intercept:
        scale[-1] = ones**-0.5
    mean_square_norm = d - problem.intercept + ones * problem.intercept
    largest = lipschitz_l2(loss)
    if clip == "auto":
        clip = plan.slack * (1.3 * target if problem.has_residuals else 0.8 * largest)
    # The second is reached by no record.
    most = largest * float(np.sqrt((scale**-2.0).sum())) * (1 + 2.0**-40)
    bound = min(clip * math.sqrt(mean_square_norm), most)
    return Coordinates(scale, bound, mean_square_norm, shrinkage)


def noisy_gradient(problem, coordinates: Coordinates, X, y, point, grid: float, rng) -> np.ndarray:
    """Release the sum over records of clipped gradients, in ``coordinates``."""
    w = unscaled(problem, coordinates, point)
    out = map_reduce(X, y, clipped_gradient_sum, problem.loss, w, *coordinates[:2])
    gaussian_mechanism(rng, out, grid)
    if isinstance(problem.loss, Multinomial):
        # Derivatives in the predictions of all classes sum to 0: what does not is noise.
        classes = out.reshape(problem.loss.n_outputs, -1)
        classes -= classes.mean(axis=0)
    return out


def unscaled(problem: CompositeProblem, coordinates: Coordinates, point: np.ndarray) -> np.ndarray:
    """Coefficients of the point ``scale * w``."""
    return (point.reshape(problem.loss.n_outputs, -1) / coordinates.scale).ravel()


def proximal_step(
    problem: CompositeProblem, coordinates: Coordinates, point, gradient, step: float
):
    """``prox(point - step * gradient)``, in ``coordinates``."""
    out = point - step * gradient
    scaled_proxes(
        problem.penalty, out, step * problem.weight, np.array(problem.unit) / coordinates.scale
    )
    return out


def stable_step(step: float, move: np.ndarray, change: np.ndarray, noise: float) -> float:
    """``step``, or less if gradients that changed by ``change`` along ``move`` show it too long."""
    size = float(np.linalg.norm(move))
    if not size > 0.0:
        return step
    curvature = (float(change @ move) / size - SURE * math.sqrt(2.0) * noise) / size
    return min(step, 1.0 / curvature) if curvature > 0.0 else step


@njit
def scaled_proxes(penalty, u, step, unit):
    """`scaled_prox` of every coordinate, in place."""
    for j in range(u.shape[0]):
        u[j] = scaled_prox(penalty, u[j], step, unit[j % unit.shape[0]])
