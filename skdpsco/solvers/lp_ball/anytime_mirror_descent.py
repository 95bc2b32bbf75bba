"""Anytime mirror descent over polytopes. Proof: docs/proofs/anytime_mirror_descent.md."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import njit
from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import check_bool, check_int
from skdpsco.constraints.sets import vertex
from skdpsco.data.pieces import PIECE_ROWS
from skdpsco.data.record_stream import add_row, fetch_row, one_pass, predict_row, read_row, row_room
from skdpsco.losses.kernels import bounded_entries
from skdpsco.mechanisms.samplers import EXPONENTIAL, exponential_grid, summation_error
from skdpsco.privacy import ZCDPEvent
from skdpsco.solvers.base import Plan, Result, curvature_of
from skdpsco.solvers.lp_ball.one_pass_frank_wolfe import PolytopeBounds, polytope_bounds
from skdpsco.solvers.steps import MOST_PLANNED, steps_to_try
from skdpsco.solvers.vertex_choice import OverPolytope, polytope_of, select_vertex, vertex_model

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


class SpanSteps(NamedTuple):
    """The schedule: which step or draw follows which record.

    Parameters
    ----------
    ends : ndarray of shape (n_spans,), int64
        Number of records up to the end of each span.
    weight : ndarray of shape (n_spans,)
        Weight of the gradient of a record.
    step : ndarray of shape (n_spans,)
        Share of the new vertex in the average.
    when : ndarray of shape (n_draws,), int64
        Number of records before each draw, in increasing order.
    order : ndarray of shape (n_draws,), int64
        Position of each draw's vertex.
    fresh : int
        Gradients are taken at the mean of this many vertices, or with 0 at the average of all.
    grid : float
        Grid of all draws.
    limit : float
        Bound to which derivatives are clipped.
    """

    ends: np.ndarray
    weight: np.ndarray
    step: np.ndarray
    when: np.ndarray
    order: np.ndarray
    fresh: int
    grid: float
    limit: float


class MirrorDescentState(NamedTuple):
    """What one chunk of records leaves to the next.

    Parameters
    ----------
    counts : ndarray of shape (3,), int64
        The numbers of records, spans and draws so far.
    chosen : ndarray of shape (n_draws,), int64
        The drawn vertices.
    w : ndarray of shape (n_coefficients,)
        The point at which gradients are taken.
    average : ndarray of shape (n_coefficients,)
    gradient : ndarray of shape (n_coefficients,)
        The weighted sum of the gradients up to this span.
    total : ndarray of shape (n_coefficients,)
        The sum of the gradients of this span.
    """

    counts: np.ndarray
    chosen: np.ndarray
    w: np.ndarray
    average: np.ndarray
    gradient: np.ndarray
    total: np.ndarray


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
        n, D = problem.n_samples, problem.n_coefficients
        spans = cut(n, plan.n_iter, self.fresh)
        when = draw_times(spans, self.fresh, rng)
        order = np.argsort(when, kind="stable")
        steps = SpanSteps(
            ends=np.cumsum(spans.size),
            weight=spans.weight,
            step=spans.mass / np.cumsum(spans.mass),
            when=when[order],
            order=order,
            fresh=self.fresh,
            grid=plan.grid,
            limit=plan.bounds.slope,
        )
        model = vertex_model(problem, plan.polytope, EXPONENTIAL)
        counts, chosen = np.zeros(3, dtype=np.int64), np.zeros(len(when), dtype=np.int64)
        state = MirrorDescentState(counts, chosen, *np.zeros((4, D)))
        for chunk in one_pass(X, y, rng, self.shuffle).take(n):
            mirror_descent_pass(chunk, problem.row_norm, model, steps, rng, progress, state)
        return Result(state.average, plan.n_iter, n_gradients=n)


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


@njit
def mirror_descent_pass(chunk, row_norm, model, steps, rng, progress, state):
    """Read the records of a chunk, and draw the vertices that are due before each of them.

    Parameters
    ----------
    chunk : tuple of (X, y, rows)
    row_norm : float
        Longer rows are shortened to this l2 norm.
    model : VertexModel
    steps : SpanSteps
    rng : numpy.random.Generator
    progress : ndarray of shape (1,), int64
    state : MirrorDescentState
    """
    X, y, rows = chunk
    inverse, row_norm, columns, values = row_room(X, row_norm)
    loss, vertices, mechanism = model
    ends, weight, step, when, order, fresh, grid, limit = steps
    counts, chosen, w, average, gradient, total = state
    Z, R = np.empty((2, 1, w.shape[0] // columns.shape[0]))
    estimate, v = np.empty((2, w.shape[0]))
    read, k, drawn = counts
    for r in range(rows.shape[0]):
        fetch_row(X, rows, r)
        while drawn < when.shape[0] and when[drawn] == read:
            for j in range(w.shape[0]):
                estimate[j] = gradient[j] + weight[k] * total[j]
            chosen[order[drawn]] = select_vertex(vertices, estimate, grid, mechanism, rng)
            drawn += 1
        i = rows[r]
        size = read_row(X, i, inverse, row_norm, columns, values)
        predict_row(X, columns, values, size, w, Z)
        bounded_entries(loss, Z, y[i : i + 1], limit, R)
        add_row(X, columns, values, size, 1.0, R, total)
        read += 1
        if read == ends[k] or read % PIECE_ROWS == 0:  # longer sums would be less exact
            for j in range(w.shape[0]):
                gradient[j] += weight[k] * total[j]
                total[j] = 0.0
        if read < ends[k]:
            continue
        vertex(vertices, chosen[k], v)
        for j in range(w.shape[0]):
            average[j] = (1.0 - step[k]) * average[j] + step[k] * v[j]
            w[j] = average[j] if fresh == 0 else 0.0
        if k + 1 < ends.shape[0]:
            for p in range(fresh):
                vertex(vertices, chosen[ends.shape[0] + k * fresh + p], v)
                for j in range(w.shape[0]):
                    w[j] += v[j] / fresh
        progress[0] += 1
        k += 1
    counts[0], counts[1], counts[2] = read, k, drawn
