"""Private empirical risk minimisation over lp balls, in one phase or in several.

Proof: docs/proofs/phased_erm.md.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import check_bound, check_choice
from skdpsco.constraints.sets import BALLS, project
from skdpsco.mechanisms.samplers import deviation_on
from skdpsco.privacy import (
    Event,
    GaussianEvent,
    NoOpEvent,
    PoissonSampledGaussianEvent,
    RepeatedEvent,
)
from skdpsco.solvers.base import DERIVATIVES, Plan, Result
from skdpsco.solvers.lp_ball.noisy_step import Steps, ball_slope, euclidean_radius, step_grid
from skdpsco.solvers.penalized.gradient_descent import stable_step
from skdpsco.solvers.penalized.sgd import poisson_sample, with_least_noise
from skdpsco.solvers.steps import MOST_PLANNED

__all__ = ["PhasedERM"]

SCHEDULES = ("one-phase", "localised")
SMOOTHINGS = ("none", "randomised")
# For randomised smoothing, if every step takes all records; chosen by hand, for time
MOST_PASSES = 300


@dataclass(frozen=True, kw_only=True)
class SmoothedPlan(Plan):
    """The plan of the accelerated steps.

    Parameters
    ----------
    step : float
        Step t = 1, 2, ... has length ``t * step``.
    radius : float
        Radius of the ball over which the loss is averaged; 0 for a loss that is smooth enough.
    slope : float
        The l2 norm to which derivatives are clipped.
    grid : float
        Grid of every sum of gradients.
    sampling : PoissonSampledGaussianEvent or None
        Event of a sampled step. None if every step uses all records.
    """

    step: float
    radius: float
    slope: float
    grid: float
    sampling: PoissonSampledGaussianEvent | None


def plan_smoothed(problem: Problem, budget: Any, n_iter: int | None) -> SmoothedPlan:
    """Choose the number of steps, the sample size and the radius by the bound on the error."""
    n, D, K = problem.n_samples, problem.n_coefficients, problem.loss.n_outputs
    mu, reach, x = budget.mu, euclidean_radius(problem), problem.feature_norm(2.0)
    event: Event = GaussianEvent(1.0 / mu)  # comes first, since it refuses what would overflow
    sampled = hasattr(budget, "delta")
    T = n_iter
    if T is None:
        useful = n * mu / math.sqrt(D)
        if sampled:
            useful = max(useful, (n * mu / D) ** 2 * mu)
        T = math.ceil(min(useful, MOST_PLANNED if sampled else MOST_PASSES))
    scale = 2.0 * reach * K**0.25 / math.sqrt(T * (T + 1.0))
    radius = scale * math.sqrt((D + 2.0) / K)
    slope = ball_slope(problem, radius)
    smoothness = slope * x * math.sqrt(K) / scale
    if problem.loss.smoothness() * x**2 <= smoothness:
        radius, slope = 0.0, ball_slope(problem)
        smoothness = problem.loss.smoothness() * x**2
    probability = max(1.0 / n, math.sqrt(mu / T)) if sampled else 1.0
    sampling, size = None, float(n)
    if probability < 1.0:
        start = 2.0 * math.sqrt(T) / mu  # enough without sampling
        sampling = PoissonSampledGaussianEvent(start, probability)
        sampling = with_least_noise(budget, NoOpEvent(), sampling, T, "auto")
        event = RepeatedEvent(sampling, T)
        size *= sampling.sampling_probability
        grid = step_grid(problem, n, slope, sampling.noise_multiplier, 1.0)
    else:
        grid = step_grid(problem, n, slope, math.sqrt(T) / mu, 2.0)
    variance = (slope * x) ** 2 / size + D * (deviation_on(grid) / size) ** 2
    step = reach * math.sqrt(3.0 / (variance * T * (T + 1.0) * (2.0 * T + 1.0)))
    return SmoothedPlan(
        event=event,
        n_iter=T,
        summary=(f"{T} accelerated steps on {size:.6g} records each, radius {radius:.3g}",),
        step=min(step, 0.25 / smoothness) if smoothness > 0.0 else step,
        radius=radius,
        slope=slope,
        grid=grid,
        sampling=sampling,
    )


def run_smoothed(
    plan: SmoothedPlan,
    problem: Problem,
    X: MatrixLike,
    y: TargetLike,
    rng: np.random.Generator,
    progress: Any,
) -> Result:
    """Follow ``plan`` on the data."""
    n, D = problem.n_samples, problem.n_coefficients
    steps = Steps(problem, X, y, plan.slope)
    x, mean = np.zeros(D), np.zeros(D)
    rows, size = np.arange(n), float(n)
    members = np.empty(n, dtype=np.int64)
    for t in range(1, plan.n_iter + 1):
        if plan.sampling is not None:
            size = plan.sampling.sampling_probability * n
            rows = members[: poisson_sample(rng, plan.sampling.threshold, members)]
        shifts = None
        if plan.radius > 0.0:
            # The seed comes from the secret generator, since the number of earlier draws depends on
            # the secret samples.
            shifts = plan.radius * marginals(rng, len(rows), problem.loss.n_outputs, D)
        share = 2.0 / (t + 1.0)
        at = (1.0 - share) * mean + share * x
        gradient = steps.gradient(rows, size, at, plan.grid, rng, shifts)
        steps.move(x, gradient, t * plan.step)
        mean = (1.0 - share) * mean + share * x
        progress[0] += 1
    return Result(mean, plan.n_iter, n_gradients=round(steps.n_gradients))


def marginals(rng: np.random.Generator, size: int, k: int, D: int) -> np.ndarray:
    """First k coordinates of ``size`` uniformly random points in the unit ball of D dimensions.

    They have the distribution of the first k coordinates on the unit sphere in D + 2 dimensions.
    """
    normal = rng.standard_normal((size, k))
    rest = rng.chisquare(D + 2 - k, size)
    return normal / np.sqrt((normal**2).sum(axis=1) + rest)[:, None]


class OnePhaseTuning(NamedTuple):
    """Constants of the schedule "one-phase".

    All were fitted on planted problems; see section 4 of docs/proofs/phased_erm.md. A triple holds
    the step length relative to the one with the smallest bound, the typical norm of the mean
    gradient relative to the bound on a record's, and the share of the points that are averaged.

    Parameters
    ----------
    passes : tuple of two ints
        Smallest and largest number of passes over the records.
    gradients : float
        Total number of gradients of single records, within these limits; they take a few seconds.
    smooth : tuple of three floats
        The triple for a smooth loss, whose mean gradient vanishes at a minimum.
    falling : tuple of three floats
        The triple for other losses, whose steps decrease to 0, so that the last point is the
        result.
    """

    passes: tuple[int, int] = (50, 300)
    gradients: float = 2e7
    smooth: tuple[float, float, float] = (0.3, 0.002, 0.5)
    falling: tuple[float, float, float] = (0.4, 0.1, 0.0)


ONE_PHASE = OnePhaseTuning()


class ERMPhase(NamedTuple):
    """The steps of one phase, on records of their own.

    Parameters
    ----------
    n_records : int
    n_iter : int
    step : float
        Step t = 0, 1, ... has length ``step / (1 + t * weight * step)``.
    falling : bool
        Whether this length is multiplied by ``1 - t / n_iter``.
    smooth : bool
        Whether ``step`` is shortened if the released gradients show too much curvature for it.
    weight : float
        Weight of the regulariser ``weight / 2 * norm(w - start)**2``.
    tail : float
        Share of the steps whose points are averaged; 0 for the last point only.
    grid : float
        Grid of every sum of gradients.
    """

    n_records: int
    n_iter: int
    step: float
    falling: bool
    smooth: bool
    weight: float
    tail: float
    grid: float


@dataclass(frozen=True, kw_only=True)
class PhasedERMPlan(Plan):
    """The phases, and the bound to which the records' derivatives are clipped."""

    phases: tuple[ERMPhase, ...]
    slope: float


class PhasedERM:
    """Noisy projected subgradient descent on all records of a phase, over an lp ball.

    The loss may be smooth or nonsmooth. Every step reads all records of its phase, which is
    accurate but not fast. Points are projected on the ball in the Euclidean norm, whatever the
    ball's own norm. The noise is proportional to the largest derivative in the ball, so give
    squared residuals a ``clip``.

    Parameters
    ----------
    schedule : {"one-phase", "localised"}, default="one-phase"
        "one-phase" is a single run on all records. The number and the length of its steps were
        fitted on simulations. For a smooth loss, steps have constant length and the later half of
        the points is averaged; for others, steps become shorter and the last point is the result.
        "localised" uses half of the records, then a quarter, and so on, and pulls each phase more
        strongly to the result of the previous one. This has the optimal rate of excess risk, but it
        takes about n**2 / 3 gradients and is less accurate on data of usual size.
    smoothing : {"none", "randomised"}, default="none"
        "randomised" is accelerated gradient descent on a randomly smoothed loss and on Poisson
        samples. In theory, it needs fewer gradients of records for a nonsmooth loss. With a budget
        in zCDP, which does not reward sampling, it uses all records in every step.

    References
    ----------
    V. Feldman, T. Koren, K. Talwar. Private Stochastic Convex Optimization: Optimal Rates in Linear
    Time. STOC 2020.
    A. Lowy, M. Razaviyayn. Private Stochastic Optimization with Large Worst-Case Lipschitz
    Parameter. ALT 2023.
    J. Kulkarni, Y. T. Lee, D. Liu. Private Non-smooth Empirical Risk Minimization and Stochastic
    Convex Optimization in Subquadratic Steps. NeurIPS 2021.
    """

    requires: ClassVar[dict[str, Any]] = {"loss": DERIVATIVES, "constraint": ((project,),)}
    fixed_cost = fills_range = True

    def __init__(self, schedule: str = "one-phase", smoothing: str = "none") -> None:
        self.schedule: str = check_choice("schedule", schedule, SCHEDULES)
        self.smoothing: str = check_choice("smoothing", smoothing, SMOOTHINGS)
        if smoothing == "randomised" and schedule != "one-phase":
            raise ValueError("smoothing='randomised' needs schedule='one-phase'.")

    @property
    def samples(self) -> bool:
        """Whether records are sampled, so that the noise has a privacy curve of its own."""
        return self.smoothing == "randomised"

    def check(self, problem: Problem) -> None:
        """Check that the set is an lp ball.

        Raises
        ------
        ValueError
            If it is not, or its radius is outside [1e-100, 1e100].
        """
        if type(problem.constraint) not in BALLS:
            name = type(problem.constraint).__name__
            raise ValueError(f"PhasedERM needs an lp ball as constraint, got {name}.")
        check_bound("radius", problem.constraint.radius)

    def plan(self, problem: Problem, budget: Any, n_iter: int | None = None) -> Plan:
        """Spend ``budget`` on ``n_iter`` steps in total.

        Raises
        ------
        ValueError
            If the noise of a step would be too large for the grid, if derivatives of the loss have
            no bound, or if the set is not an lp ball.
        """
        self.check(problem)
        if self.smoothing == "randomised":
            return plan_smoothed(problem, budget, n_iter)
        mu = budget.mu
        event = GaussianEvent(1.0 / mu)  # comes first, since it refuses what would overflow
        slope = ball_slope(problem)
        if self.schedule == "localised":
            phases = _localised(problem, slope, mu, n_iter)
        else:
            phases = (_one_phase(problem, slope, mu, n_iter),)
        total = sum(phase.n_iter for phase in phases)
        gradients = sum(phase.n_iter * phase.n_records for phase in phases)
        count = "1 phase" if len(phases) == 1 else f"{len(phases)} phases"
        return PhasedERMPlan(
            event=event,
            n_iter=total,
            summary=(f"{count}, {total} steps, {gradients} gradients of records",),
            phases=phases,
            slope=slope,
        )

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
        if isinstance(plan, SmoothedPlan):
            return run_smoothed(plan, problem, X, y, rng, progress)
        n = problem.n_samples
        # The assignment of records to phases is independent of the data.
        order = rng.permutation(n) if len(plan.phases) > 1 else np.arange(n)
        steps = Steps(problem, X, y, plan.slope)
        centre, start = np.zeros(problem.n_coefficients), 0
        for phase in plan.phases:
            rows = np.sort(order[start : start + phase.n_records])
            start += phase.n_records
            centre = _follow(phase, steps, rows, centre, rng, progress)
        return Result(centre, plan.n_iter, n_gradients=round(steps.n_gradients))


def _follow(phase: ERMPhase, steps: Steps, rows, centre, rng, progress) -> np.ndarray:
    """Take the steps of a phase from ``centre``, and return the mean of its last points."""
    n, T = phase.n_records, phase.n_iter
    noise = deviation_on(phase.grid) / n  # standard deviation in every coordinate
    step, n_averaged = phase.step, max(1, round(phase.tail * T))
    w, mean = centre.copy(), np.zeros_like(centre)
    last = last_gradient = centre
    for t in range(T):
        at, length = w.copy(), step / (1.0 + t * phase.weight * step)
        if phase.falling:
            length *= 1.0 - t / T
        gradient = steps.gradient(rows, n, at, phase.grid, rng)
        steps.move(w, gradient, length, phase.weight, centre)
        if phase.smooth and t > 0:
            step = stable_step(step, at - last, gradient - last_gradient, noise)
        last, last_gradient = at, gradient
        age = t + n_averaged - T
        if age >= 0:
            mean += (w - mean) / (age + 1)
        progress[0] += 1
    return mean


def _one_phase(problem: Problem, slope: float, mu: float, n_iter: int | None) -> ERMPhase:
    n, D = problem.n_samples, problem.n_coefficients
    fewest, most = ONE_PHASE.passes
    T = n_iter or round(min(max(ONE_PHASE.gradients / n, fewest), most))
    grid = step_grid(problem, n, slope, math.sqrt(T) / mu, 2.0)
    noise = math.sqrt(D) * deviation_on(grid) / n
    smooth = problem.loss.smoothness() < math.inf
    length, typical, tail = ONE_PHASE.smooth if smooth else ONE_PHASE.falling
    gradient = math.hypot(typical * slope * problem.feature_norm(2.0), noise)
    step = length * euclidean_radius(problem) / (gradient * math.sqrt(T))
    return ERMPhase(n, T, step, not smooth, smooth, 0.0, tail, grid)


def _localised(
    problem: Problem, slope: float, mu: float, n_iter: int | None
) -> tuple[ERMPhase, ...]:
    n, D = problem.n_samples, problem.n_coefficients
    sizes = [n >> i for i in range(1, n.bit_length())] or [n]
    # More steps than records gain nothing, nor do steps with more noise than gradient.
    counts = [max(1, min(m, math.ceil((m * mu) ** 2 / (4.0 * D)))) for m in sizes]
    if n_iter is not None:
        sizes, counts = sizes[:n_iter], counts[:n_iter]
        spare, total = n_iter - len(counts), sum(counts)
        counts = [1 + spare * count // total for count in counts]
        counts[0] += n_iter - sum(counts)
    length = slope * problem.feature_norm(2.0)
    eta = 2.0 * euclidean_radius(problem) / (length * math.sqrt(n + 16.0 * D / mu**2))
    phases = []
    for i, (m, T) in enumerate(zip(sizes, counts, strict=True)):
        weight = 4.0 ** (i + 1) / (eta * m)
        grid = step_grid(problem, m, slope, math.sqrt(T) / mu, 2.0)
        phases.append(ERMPhase(m, T, 1.0 / weight, False, False, weight, 1.0, grid))
    return tuple(phases)
