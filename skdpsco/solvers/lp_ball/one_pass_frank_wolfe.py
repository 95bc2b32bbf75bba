"""One-pass stochastic Frank-Wolfe over polytopes. Proof: docs/proofs/one_pass_frank_wolfe.md."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import check_bool, check_int, is_auto
from skdpsco.constraints.sets import n_vertices
from skdpsco.data.pieces import PIECE_ROWS
from skdpsco.data.record_stream import one_pass
from skdpsco.losses.library import for_kernels
from skdpsco.mechanisms.samplers import EXPONENTIAL, exponential_grid, summation_error
from skdpsco.privacy import ZCDPEvent
from skdpsco.solvers.base import Plan, Result, check_scales, curvature_of
from skdpsco.solvers.lp_ball.clipped_gradients import GradientClip, add_clipped_gradients
from skdpsco.solvers.steps import MOST_PLANNED, steps_to_try
from skdpsco.solvers.vertex_choice import (
    OverPolytope,
    choose_vertex,
    polytope_of,
    vertices_of,
    write_vertex,
)

__all__ = ["OnePassFrankWolfe", "PolytopeBounds", "polytope_bounds"]


class OnePassTuning(NamedTuple):
    """Constants of the automatic number of steps.

    Parameters
    ----------
    always : int
        Number of steps that may be taken however many coefficients there are; chosen by hand,
        according to the time that a step takes.
    curvature : float
        Factor of the bound's curvature term, since the bound assumes the worst case. It was fitted
        on simulated data like those of examples/benchmarks/lp_geometry.py.
    """

    always: int = 100
    curvature: float = 0.04


ONE_PASS = OnePassTuning()


class PolytopeBounds(NamedTuple):
    """Public constants of a problem.

    Parameters
    ----------
    slope : float
        Bound on the derivative of the loss in a prediction.
    bend : float
        Bound on how much this derivative changes over the set.
    features : float
        Bound on the features.
    diameter, size : float
        Largest l1 distance between two points of the set, and largest l1 norm of a point.
    n_coefficients, n_vertices : int
    """

    slope: float
    bend: float
    features: float
    diameter: float
    size: float
    n_coefficients: int
    n_vertices: int

    @property
    def n_plain(self) -> int:
        """Number of first steps, whose gradient estimates do not use earlier ones."""
        return 1 + int(min(2.0 * self.bend / self.slope, 2.0**62))


class StepSchedule(NamedTuple):
    """The schedule of the steps t = 0, 1, ..., as arrays of equal length.

    Parameters
    ----------
    batch : ndarray of int64
        Number of records that are read before the step.
    step : ndarray
        Length of the step towards the vertex; a step of length 1 reaches it.
    keep : ndarray
        Weight of the previous estimate in the new one.
    limit : ndarray
        Bound to which the factor of a record's features is clipped.
    spread : ndarray
        Scale of the noise for which the squares of a record's log-ratios sum to at most 1.
    """

    batch: np.ndarray
    step: np.ndarray
    keep: np.ndarray
    limit: np.ndarray
    spread: np.ndarray


@dataclass(frozen=True, kw_only=True)
class OnePassFrankWolfePlan(Plan):
    """The arguments of `schedule`, the grid of a step with a ``spread`` of 1, and the polytope."""

    bounds: PolytopeBounds
    batch_size: int
    grid: float
    polytope: Any = field(compare=False)


class OnePassFrankWolfe(OverPolytope):
    """Stochastic Frank-Wolfe over a polytope, in one pass, with privately chosen vertices.

    The gradient is estimated from batches of fresh records. The first half of the records serve the
    first steps. In the second half, each record contributes gradients at two points, whose
    difference updates the previous estimate. Only vertices are released. A record has less and less
    weight in later estimates, and the noise takes this into account.

    Parameters
    ----------
    batch_size : "auto" or int, default="auto"
        Number of records per step in the second half; the paper has 1. "auto" follows from the
        number of steps, which minimises the bound on the error with a reduced curvature term. There
        are at most 10,000 steps and, with more than n / 10 coefficients, at most 100. The time of a
        step is proportional to the number of coefficients, so that more coefficients mean larger
        batches.
    shuffle : bool, default=True
        Whether to take the records of arrays in a random order. False keeps their order, which is
        equally private.

    References
    ----------
    R. Bassily, C. Guzmán, A. Nandi. Non-Euclidean Differentially Private Stochastic Convex
    Optimization. COLT 2021, Algorithm 1 (Algorithm 2 of arXiv:2103.01278v3). Steps, momentum and
    noise differ here, see docs/proofs/one_pass_frank_wolfe.md.
    """

    by_blocks = streams = fills_range = True

    def __init__(self, batch_size: int | str = "auto", shuffle: bool = True) -> None:
        if not is_auto(batch_size):
            batch_size = check_int("batch_size", batch_size, "'auto' or ")
        self.batch_size: Any = batch_size
        self.shuffle: bool = check_bool("shuffle", shuffle)

    def plan(
        self, problem: Problem, budget: Any, n_iter: int | None = None
    ) -> OnePassFrankWolfePlan:
        """Calibrate ``n_iter`` steps, or the number that suits the batches and the error bound.

        Raises
        ------
        ValueError
            If there are too few records for the steps, the noise is too large for the grid, or the
            loss's Lipschitz constant is infinite, or too large or too small.
        """
        self.check(problem)
        polytope = polytope_of(problem.constraint, problem.n_coefficients)
        bounds, half = polytope_bounds(problem, polytope), problem.n_samples // 2
        plain = min(bounds.n_plain, problem.n_samples - half)
        if n_iter is None:
            if self.batch_size == "auto":
                n_iter = best_n_iter(problem, bounds, budget.rho, plain, half)
            else:
                n_iter = plain + half // self.batch_size
        later = max(0, n_iter - plain)
        size = 1 if self.batch_size == "auto" else self.batch_size
        if later * size > half:
            raise ValueError(
                f"n_iter must be at most {plain + half // size} for {problem.n_samples} records "
                f"in batches of {size} or more, got {n_iter}."
            )
        if self.batch_size == "auto" and later > 0:
            size = half // later
        steps = schedule(problem.n_samples, n_iter, size, bounds)
        return OnePassFrankWolfePlan(
            event=ZCDPEvent(budget.rho),
            n_iter=n_iter,
            summary=(f"{n_iter} steps, {later} of them on batches of {size}",),
            bounds=bounds,
            polytope=polytope,
            batch_size=size,
            grid=unit_grid(steps, bounds, budget.rho),
        )

    def run(
        self,
        plan: OnePassFrankWolfePlan,
        problem: Problem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        steps = schedule(problem.n_samples, plan.n_iter, plan.batch_size, plan.bounds)
        loss, records = for_kernels(problem.loss), one_pass(X, y, rng, self.shuffle)
        w, before, estimate, target = np.zeros((4, problem.n_coefficients))
        vertices = vertices_of(plan.polytope, len(w))
        each = zip(*(column.tolist() for column in steps), strict=True)
        for size, step, keep, limit, spread in each:
            clip, total = GradientClip(keep, limit), np.zeros_like(w)
            for start in range(0, size, PIECE_ROWS):  # longer sums would be less exact
                part = np.zeros_like(w)
                for chunk in records.take(min(PIECE_ROWS, size - start)):
                    add_clipped_gradients(chunk, problem.row_norm, loss, w, before, clip, part)
                total += part
            estimate = keep * estimate + total / size
            k = choose_vertex(vertices, estimate, spread * plan.grid, EXPONENTIAL, rng)
            write_vertex(vertices, k, target)
            before, w = w, (1.0 - step) * w + step * target
            progress[0] += 1
        twice = int(steps.batch[steps.keep > 0.0].sum())  # records that were read at two points
        return Result(w, plan.n_iter, n_gradients=problem.n_samples + twice)


def polytope_bounds(problem: Problem, polytope: Any) -> PolytopeBounds:
    """Public constants of ``problem`` over what `polytope_of` returns.

    Raises
    ------
    ValueError
        If a bound is infinite, or too large or too small for float64.
    """
    D = problem.n_coefficients
    slack = 1.0 + (D + 8) * 2.0**-50  # norms of vertices, and products, are rounded
    features = problem.feature_norm(math.inf) * slack
    diameter, size = polytope.diameter(1) * slack, polytope.norm_bound() * slack
    slope = problem.loss.lipschitz(size * features, problem.target_bound)
    # The first step starts from 0, which may lie outside the set.
    bend = problem.loss.smoothness() * features * max(diameter, size)
    check_scales(problem.loss, slope, features, (diameter, size), bend)
    return PolytopeBounds(
        slope=slope,
        bend=bend,
        features=features,
        diameter=diameter,
        size=size,
        n_coefficients=D,
        n_vertices=int(n_vertices(polytope, D)),
    )


def schedule(n_samples: int, n_iter: int, batch_size: int, bounds: PolytopeBounds) -> StepSchedule:
    """Batches, steps, momentum, and noise for which no record exceeds its budget."""
    half = n_samples // 2
    plain = min(bounds.n_plain, n_samples - half, n_iter)
    batch = np.full(n_iter, min(batch_size, n_samples), dtype=np.int64)
    first = n_samples - (n_iter - plain) * batch_size
    batch[:plain] = np.diff(np.arange(plain + 1) * first // plain)
    step = 2.0 / (np.arange(n_iter) + 2.0)
    keep = np.maximum(0.0, 1.0 - (1.0 + bounds.bend / bounds.slope) * step)
    keep[:plain] = 0.0
    change = np.minimum(2.0 * bounds.slope, bounds.bend * np.append(0.0, step[:-1]))
    limit = (keep * change + (1.0 - keep) * bounds.slope) * (1.0 + 2.0**-50)
    # Range of the changes of scores when a record of the batch is replaced, and the least upper
    # bound that decreases slowly enough for later records to leave something to earlier steps.
    ranges = 2.0 * bounds.diameter * bounds.features * limit / batch
    upper, factor = ranges, np.sqrt(keep[1:])
    for _ in range(n_iter):  # one or two rounds, as a rule
        raised = np.append(ranges[0], np.maximum(ranges[1:], upper[:-1] * factor))
        if np.array_equal(raised, upper):
            break
        upper = raised
    largest = upper[-1]
    weight = (upper / largest) ** -2.0  # relative: squares may overflow
    later = np.append(keep[1:] ** 2 * weight[1:], 0.0)
    return StepSchedule(batch, step, keep, limit, largest * (weight - later) ** -0.5)


def unit_grid(steps: StepSchedule, bounds: PolytopeBounds, rho: float) -> float:
    """Grid of a step whose spread is 1, such that all steps together cost ``rho``.

    Rounding widens the range of every draw. The rounding of the estimate and of scores is counted
    here; `exponential_grid`, which is given the root mean square range, counts that to the grid.
    """
    relative = {
        m: summation_error(m, 1.0, PIECE_ROWS + m // PIECE_ROWS) / m
        for m in set(steps.batch.tolist())
    }
    largest = error = 0.0  # of an entry of the estimate
    errors, magnitudes = [], []
    entries = (bounds.features * steps.limit).tolist()
    for m, factor, entry in zip(steps.batch.tolist(), steps.keep.tolist(), entries, strict=True):
        largest = factor * largest + entry
        error = factor * error + relative[m] * entry + 2.0**-51 * largest
        errors.append(error)
        magnitudes.append(largest + error)
    magnitude = np.array(magnitudes)
    rounding = 2.0 * bounds.diameter * np.array(errors)
    rounding += bounds.n_coefficients * 2.0**-49 * bounds.size * magnitude
    n_iter = len(magnitude)
    total = 1.0 + n_iter * 2.0**-50 + float(np.linalg.norm(rounding / steps.spread))
    return exponential_grid(
        total * (1.0 + 2.0**-40) / math.sqrt(n_iter),
        math.sqrt(8.0 * rho / n_iter),
        float((magnitude / steps.spread).max()) * bounds.size * (1.0 + 2.0**-40),
    )


def best_n_iter(problem: Problem, bounds: PolytopeBounds, rho: float, plain: int, half: int) -> int:
    """Number of steps that minimises the bound's noise term and its reduced curvature term."""
    most = max(ONE_PASS.always, 10 * problem.n_samples // bounds.n_coefficients)
    most = min(plain + half, MOST_PLANNED, most)
    curvature = ONE_PASS.curvature * curvature_of(problem.loss, bounds.diameter * bounds.features)
    noise = math.log(max(bounds.n_vertices, 2)) / math.sqrt(8.0 * rho)

    def excess(n_iter: int) -> float:
        size = half // max(1, n_iter - plain)
        spread = schedule(problem.n_samples, n_iter, size, bounds).spread
        of_noise = spread @ np.arange(1.0, n_iter + 1) / n_iter * noise
        return float(of_noise + curvature) / (n_iter + 1)

    return min(steps_to_try(most, 64), key=excess)
