"""Accelerated descent on a randomly smoothed loss. Proof: docs/proofs/phased_erm.md, section 5."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.mechanisms.samplers import deviation_on
from skdpsco.privacy import (
    Event,
    GaussianEvent,
    NoOpEvent,
    PoissonSampledGaussianEvent,
    RepeatedEvent,
)
from skdpsco.solvers.base import Plan, Result
from skdpsco.solvers.lp_ball.noisy_step import Steps, ball_slope, euclidean_radius, step_grid
from skdpsco.solvers.penalized.sgd import poisson_sample, with_least_noise
from skdpsco.solvers.steps import MOST_PLANNED

__all__ = ["SmoothedPlan", "plan_smoothed", "run_smoothed"]


MOST_PASSES = 300  # if every step takes all records; chosen by hand, for time


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
