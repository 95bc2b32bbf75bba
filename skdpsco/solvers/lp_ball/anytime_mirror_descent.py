"""Anytime mirror descent over polytopes. Proof: docs/proofs/anytime_mirror_descent.md."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import check_bool, check_int
from skdpsco.data.pieces import PIECE_ROWS
from skdpsco.data.record_stream import one_pass
from skdpsco.losses.library import for_kernels
from skdpsco.mechanisms.samplers import EXPONENTIAL, exponential_grid, summation_error
from skdpsco.privacy import ZCDPEvent
from skdpsco.solvers.base import Plan, Result, curvature_of
from skdpsco.solvers.lp_ball.clipped_gradients import GradientClip, add_clipped_gradients
from skdpsco.solvers.lp_ball.one_pass_frank_wolfe import PolytopeBounds, polytope_bounds
from skdpsco.solvers.steps import MOST_PLANNED, steps_to_try
from skdpsco.solvers.vertex_choice import (
    OverPolytope,
    choose_vertex,
    polytope_of,
    vertices_of,
    write_vertex,
)

__all__ = ["AnytimeMirrorDescent"]

MAX_FRESH = 1000  # most vertices per span that users may ask for


class AnytimeTuning(NamedTuple):
    """Constants of the automatic number of spans.

    Parameters
    ----------
    always : int
        Number of vertices that may be drawn however many coefficients there are; chosen by hand,
        according to the time that a draw takes.
    curvature, variance : float
        Factors of the bound's terms for curvature and for the variance of gradients, since the
        bound assumes the worst case of both. They were fitted on simulated data like those of
        examples/benchmarks/lp_geometry.py.
    """

    always: int = 300
    curvature: float = 0.06
    variance: float = 0.1


ANYTIME = AnytimeTuning()


class Spans(NamedTuple):
    """How the records are cut into spans: arrays of shape (n_spans,).

    Parameters
    ----------
    size : ndarray of int64
        Number of records.
    weight : ndarray
        Weight of a record's gradient.
    n_draws : int
        Number of vertices, all of which the first record may influence.
    """

    size: np.ndarray
    weight: np.ndarray
    n_draws: int

    @property
    def mass(self) -> np.ndarray:
        """Total weight of the records of each span."""
        return self.size * self.weight


@dataclass(frozen=True, kw_only=True)
class AnytimeMirrorDescentPlan(Plan):
    """Public bounds, the grid of all draws, and the polytope."""

    bounds: PolytopeBounds
    grid: float
    polytope: Any = field(compare=False)


class AnytimeMirrorDescent(OverPolytope):
    """Mirror descent over a polytope in one pass, with gradients at the average of its points.

    Entropic mirror descent moves a probability distribution over the vertices. It is never
    released, but drawing a vertex from it is an exponential mechanism. Gradients are taken at
    averages of such vertices. The later a record is read, the fewer vertices it influences, and the
    larger is the weight of its gradient.

    Parameters
    ----------
    fresh : int, default=0
        With 0, the average keeps its vertices and gains one after every span of records. Otherwise
        gradients are taken at the mean of this many new vertices, at most 1000, as in the paper:
        each is drawn from the point before a random record among those that were read. This needs
        more draws and is less accurate.
    shuffle : bool, default=True
        Whether to take the records of arrays in a random order. False keeps their order, which is
        equally private.

    References
    ----------
    T. Gonzalez, C. Guzmán, C. Paquette. Mirror Descent Algorithms with Nearly
    Dimension-Independent Rates for Differentially-Private Stochastic Saddle-Point Problems. COLT
    2024, Algorithm 5. Weights, spans and accounting differ here, see
    docs/proofs/anytime_mirror_descent.md.
    """

    by_blocks = streams = True

    def __init__(self, fresh: int = 0, shuffle: bool = True) -> None:
        self.fresh: int = check_int("fresh", fresh, "", 0, MAX_FRESH)
        self.shuffle: bool = check_bool("shuffle", shuffle)

    def plan(
        self, problem: Problem, budget: Any, n_iter: int | None = None
    ) -> AnytimeMirrorDescentPlan:
        """Calibrate ``n_iter`` spans, or the number that suits the bound on the error.

        Raises
        ------
        ValueError
            If there are fewer records than spans, the noise is too large for the grid, or the
            loss's Lipschitz constant is infinite, or too large or too small.
        """
        self.check(problem)
        polytope = polytope_of(problem.constraint, problem.n_coefficients)
        bounds = polytope_bounds(problem, polytope)
        if n_iter is None:
            n_iter = n_spans(problem, bounds, budget.rho, self.fresh)
        if n_iter > problem.n_samples:
            raise ValueError(
                f"n_iter must be at most the number of records, {problem.n_samples}, got {n_iter}."
            )
        spans = cut(problem.n_samples, n_iter, self.fresh)
        rho = min(budget.rho, largest_rho(spans, bounds))
        return AnytimeMirrorDescentPlan(
            event=ZCDPEvent(rho),
            n_iter=n_iter,
            summary=(f"{n_iter} spans of records, {spans.n_draws} vertices",),
            bounds=bounds,
            polytope=polytope,
            grid=grid_of(spans, bounds, rho),
        )

    def run(
        self,
        plan: AnytimeMirrorDescentPlan,
        problem: Problem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        n, n_iter, fresh = problem.n_samples, plan.n_iter, self.fresh
        spans = cut(n, n_iter, fresh)
        ends, weights = np.cumsum(spans.size).tolist(), spans.weight.tolist()
        steps = (spans.mass / np.cumsum(spans.mass)).tolist()
        due: dict[int, list[int]] = {}  # draws by the number of records before them
        for draw, n_before in enumerate(draw_times(spans, fresh, rng).tolist()):
            due.setdefault(n_before, []).append(draw)
        loss, records = for_kernels(problem.loss), one_pass(X, y, rng, self.shuffle)
        # `gradient` is the weighted sum of gradients, and `total` the sum of the newest.
        w, average, gradient, total, target = np.zeros((5, problem.n_coefficients))
        vertices, chosen = vertices_of(plan.polytope, len(w)), [0] * spans.n_draws
        clip, k = GradientClip(0.0, plan.bounds.slope), 0
        # At every multiple of `PIECE_ROWS` a sum ends, since longer ones would be less exact.
        for start, stop in pairwise(sorted({*due, *ends, *range(0, n, PIECE_ROWS)})):
            for draw in due.get(start, ()):
                estimate = gradient + weights[k] * total
                chosen[draw] = choose_vertex(vertices, estimate, plan.grid, EXPONENTIAL, rng)
            for chunk in records.take(stop - start):
                add_clipped_gradients(chunk, problem.row_norm, loss, w, w, clip, total)
            if stop == ends[k] or stop % PIECE_ROWS == 0:
                gradient += weights[k] * total
                total[:] = 0.0
            if stop < ends[k]:
                continue
            write_vertex(vertices, chosen[k], target)
            w = average = (1.0 - steps[k]) * average + steps[k] * target
            if fresh > 0 and k + 1 < n_iter:
                w = np.zeros_like(w)
                for vertex in chosen[n_iter + k * fresh : n_iter + (k + 1) * fresh]:
                    write_vertex(vertices, vertex, target)
                    w += target / fresh
            progress[0] += 1
            k += 1
        return Result(average, n_iter, n_gradients=n)


def cut(n_samples: int, n_iter: int, fresh: int) -> Spans:
    """Spans whose masses grow about linearly, with weights for which all records cost the same."""
    k = np.arange(1, n_iter + 1)
    draws = (n_iter - k + 1) + fresh * (n_iter - k)  # that a record of span k influences
    share = np.cumsum(k * np.sqrt(draws))
    ends = k + np.floor((n_samples - n_iter) * (share / share[-1])).astype(np.int64)
    ends[-1] = n_samples
    return Spans(np.diff(ends, prepend=0), np.sqrt(draws[0] / draws), int(draws[0]))


def draw_times(spans: Spans, fresh: int, rng: np.random.Generator) -> np.ndarray:
    """Random numbers of records before each draw, which do not depend on the data."""
    start = np.cumsum(spans.size) - spans.size
    n_iter = len(start)
    mass = np.cumsum(spans.mass)
    span = [np.arange(n_iter)]
    for k in range(n_iter - 1):
        drawn = np.searchsorted(mass, rng.random(fresh) * mass[k], side="right")
        span.append(np.minimum(drawn, k))
    where = np.concatenate(span)
    return start[where] + rng.integers(spans.size[where])


def largest_rho(spans: Spans, bounds: PolytopeBounds) -> float:
    """Budget at which steps are as long as is best without privacy; more would overshoot."""
    squares = ANYTIME.variance * float(spans.mass @ spans.weight)
    return 4.0 * spans.n_draws * math.log(max(bounds.n_vertices, 2)) / squares


def grid_of(spans: Spans, bounds: PolytopeBounds, rho: float) -> float:
    """Grid for which all draws together cost every record at most ``rho``."""
    entry = bounds.features * bounds.slope
    largest = np.cumsum(spans.mass) * entry  # largest entry of the sum of gradients
    relative = np.array([summation_error(m, 1.0, PIECE_ROWS) for m in spans.size.tolist()])
    n_parts = 1 + np.diff(np.cumsum(spans.size) // PIECE_ROWS, prepend=0)  # of every span
    error = float(spans.weight @ relative) * entry + 2.0**-51 * float(largest @ n_parts)
    magnitude = (float(largest[-1]) + error) * bounds.size
    rounding = 2.0 * bounds.diameter * error + bounds.n_coefficients * 2.0**-49 * magnitude
    change = 2.0 * bounds.diameter * entry * (1.0 + 2.0**-48) + rounding
    return exponential_grid(
        change, math.sqrt(8.0 * rho / spans.n_draws), magnitude * (1.0 + 2.0**-40)
    )


def n_spans(problem: Problem, bounds: PolytopeBounds, rho: float, fresh: int) -> int:
    """Number of spans that minimises the bound on the error, with its constants reduced."""
    most = max(ANYTIME.always, 10 * problem.n_samples // bounds.n_coefficients)
    most = min(problem.n_samples, max(1, min(MOST_PLANNED, most) // (1 + fresh)))
    curvature = (
        4.0 * ANYTIME.curvature * curvature_of(problem.loss, bounds.diameter * bounds.features)
    )
    spread = bounds.diameter * bounds.features * bounds.slope
    log_vertices = math.log(max(bounds.n_vertices, 2))

    def excess(n_iter: int) -> float:
        spans = cut(problem.n_samples, n_iter, fresh)
        step = math.sqrt(2.0 * min(rho, largest_rho(spans, bounds)) / spans.n_draws)
        variance = ANYTIME.variance * float(spans.mass @ spans.weight) / 8.0
        regret = spread * (log_vertices / step + step * variance) / float(spans.mass.sum())
        return regret + curvature / (n_iter + 1)

    return min(steps_to_try(most, 64), key=excess)
