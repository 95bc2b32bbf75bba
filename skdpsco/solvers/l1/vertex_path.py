"""The kernel of stagewise and of Frank-Wolfe: choose a vertex privately, move, repeat.

Proofs: docs/proofs/stagewise.md and docs/proofs/frank_wolfe.md.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import inner, njit
from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.constraints.sets import n_vertices
from skdpsco.data.design import add_column
from skdpsco.data.pieces import MOST_RECORDS_ADDED, depth_of, sum_error
from skdpsco.data.products import correlate, predict, predict_all
from skdpsco.data.record_sums import BlockDesign, in_pieces
from skdpsco.losses.kernels import bounded_entries, bounded_values
from skdpsco.mechanisms.samplers import (
    EXPONENTIAL,
    exponential_grid,
    select,
    summation_error,
    to_grid,
)
from skdpsco.privacy import (
    Event,
    ExponentialMechanismEvent,
    NoOpEvent,
    RepeatedEvent,
    compose,
)
from skdpsco.solvers.base import check_bound_on
from skdpsco.solvers.gradient_sums import walk_vertices
from skdpsco.solvers.l1.sparse_path import (
    integer_error,
    is_incremental,
    new_path,
    run_sparse,
    schedule_of,
)
from skdpsco.solvers.vertex_choice import select_vertex, vertex_model

__all__ = ["VertexPlan", "plan_vertices", "run_vertices"]

# Largest ratio of bounds on slopes for which steps share a grid: noise is at most 5 % larger.
SAME_GRID = 1.05


class PathRoom(NamedTuple):
    """Work space of `vertex_path`: arrays that Python allocates take no time to compile.

    Parameters
    ----------
    R : ndarray of shape (n_samples, n_outputs)
    G : ndarray of shape (n_coefficients,)
    scores, units : ndarray of shape (n_vertices,)
    losses : ndarray of shape (n_samples,), or (0,) if no point of the path is chosen
    """

    R: np.ndarray
    G: np.ndarray
    scores: np.ndarray
    units: np.ndarray
    losses: np.ndarray


@dataclass(frozen=True)
class VertexPlan:
    """Schedule and grids of `vertex_path`.

    Parameters
    ----------
    weight : tuple of float, length n_iter
    scale : tuple of float, length n_iter + 1
        After t steps the coefficients are ``scale[t]`` times the sum of the first t chosen
        vertices, each times its weight. So a step adds to few predictions if data are sparse.
    slope : tuple of float, length n_iter
        Bounds that derivatives are clipped to: declared by the loss, or smaller.
    grid : tuple of float, length n_iter
        Width of the grid of every choice.
    mechanism : ChoiceMechanism
    cap, stop_grid : float
        If ``cap > 0``, a point of the path is chosen by its losses, each clipped to ``cap``, on
        ``stop_grid``.
    of_step, of_stop : Event
        Costs of every choice, and of that of a point.
    """

    weight: tuple[float, ...]
    scale: tuple[float, ...]
    slope: tuple[float, ...]
    grid: tuple[float, ...]
    mechanism: Any
    cap: float
    stop_grid: float
    of_step: Event
    of_stop: Event

    @property
    def event(self) -> Event:
        """Cost of all choices."""
        return compose(RepeatedEvent(self.of_step, len(self.weight)), self.of_stop)

    def split(self, k: int) -> tuple["VertexPlan", "VertexPlan"]:
        """The plans of the first ``k`` steps, and of all that follows."""
        parts = self.weight, self.slope, self.grid
        weight, slope, grid = (part[:k] for part in parts)
        first = replace(self, weight=weight, scale=self.scale[: k + 1], slope=slope, grid=grid)
        weight, slope, grid = (part[k:] for part in parts)
        rest = replace(self, weight=weight, scale=self.scale[k:], slope=slope, grid=grid)
        return replace(first, cap=0.0, of_stop=NoOpEvent()), rest


def plan_vertices(
    problem: Problem,
    constraint: Any,
    weight: np.ndarray,
    scale: np.ndarray,
    rho: float,
    mechanism: Any = EXPONENTIAL,
    stop_rho: float = 0.0,
    steepest: float = math.inf,
) -> VertexPlan:
    """Calibrate ``len(weight)`` choices to ``rho`` zCDP, and one choice of a point to ``stop_rho``.

    Derivatives are clipped to ``steepest``, too.

    See docs/proofs/stagewise.md and docs/proofs/frank_wolfe.md for the sensitivities.
    """
    n, T, added = problem.n_samples, len(weight), problem.added
    most = MOST_RECORDS_ADDED if added else n
    size = constraint.norm_bound()
    # Products of one record are rounded; this covers it.
    slack = 1.0 + problem.n_coefficients * 2.0**-50
    epsilon0 = mechanism.epsilon0(rho / T)
    # l1 norm of the coefficients before every step, hence a bound on every prediction.
    travelled = np.concatenate([[0.0], np.cumsum(weight)]) * scale * size
    travelled *= 1.0 + (T + 2) * 2.0**-51  # predictions are summed up over the steps, rounded
    bounds = [problem.loss.lipschitz(float(z), problem.target_bound) for z in travelled[:T]]
    bounds = [min(float(bound), steepest) for bound in bounds]
    for bound in (min(bounds), max(bounds)):
        check_bound_on("derivative", problem.loss, bound)
    # A score is rounded in the sum over records and, for polytopes, over coefficients; or in the
    # sum of integers, whose unit is the same in all steps.
    D = problem.n_coefficients
    depth, least = depth_of(most) + D, 0.0 if added else integer_error(n, max(bounds))
    slope, grid = [0.0] * T, [0.0] * T
    charged = width = 0.0
    for t, lipschitz in reversed(list(enumerate(bounds))):
        # Steps whose bounds differ little share the widest grid, since all integer scores change
        # with the grid.
        if not lipschitz <= charged <= SAME_GRID * lipschitz:
            charged = lipschitz
            error = max(summation_error(most + D, lipschitz, depth), least)
            moved = lipschitz if added else 2.0 * lipschitz
            change = size * (moved + 2.0 * error) * slack
            width = exponential_grid(2.0 * change, epsilon0, size * n * lipschitz * slack)
        slope[t], grid[t] = charged, width
    of_stop: Event = NoOpEvent()
    cap = stop_grid = 0.0
    if stop_rho > 0.0:
        assert mechanism == EXPONENTIAL  # it also chooses the point
        # Losses above twice that of the zero model count as twice that loss.
        baseline = problem.loss.baseline(problem.target_bound)
        check_bound_on("value of a zero prediction", problem.loss, baseline)
        cap = 2.0 * baseline
        epsilon_stop = math.sqrt(8.0 * stop_rho)
        # Losses are in [0, cap], so that one record moves a sum by cap, not by 2 cap, and in one
        # direction if it is added. 2: a sum of integers becomes a float.
        error = sum_error(most, cap, 2)
        error = error if added else max(error, integer_error(n, cap))
        span = (cap if added else 2.0 * cap) + 4.0 * error
        stop_grid = exponential_grid(span, epsilon_stop, n * cap * slack)
        of_stop = ExponentialMechanismEvent(epsilon_stop)
    return VertexPlan(
        tuple(map(float, weight)),
        tuple(map(float, scale)),
        tuple(slope),
        tuple(grid),
        mechanism,
        cap,
        stop_grid,
        mechanism.event(epsilon0),
        of_stop,
    )


def run_vertices(
    plan: VertexPlan,
    problem: Problem,
    constraint: Any,
    X: MatrixLike,
    y: TargetLike,
    rng: np.random.Generator,
    progress: Any,
    start: np.ndarray | None = None,
) -> Any:
    """Run the kernel, of dense records from ``start`` on: released coefficients, or 0.

    Returns
    -------
    coef : ndarray
        The last point of the path.
    chosen : ndarray of shape (n_iter,)
        The vertices.
    stop : int
        The chosen number of steps; ``n_iter`` if the plan chooses none.
    """
    if problem.added:  # which sums are taken, and how they are rounded, must not follow from n
        return walk_vertices(plan, problem, constraint, in_pieces(X, y), y, rng, progress, start)
    if is_incremental(plan, problem, constraint, X):
        return run_sparse(plan, problem, constraint, X, y, rng, progress)
    X = in_pieces(X, y)
    if isinstance(X, BlockDesign):
        return walk_vertices(plan, problem, constraint, X, y, rng, progress, start)
    model = vertex_model(problem, constraint, plan.mechanism)
    path = new_path(problem, len(plan.weight), progress)
    if start is not None:
        path.w[:] = start
        predict_all(X, path.w, path.Z)
    scores = np.empty(n_vertices(constraint, len(path.w)))
    room = PathRoom(
        np.empty_like(path.Z),
        np.empty_like(path.w),
        scores,
        np.empty(len(scores), dtype=np.int64),
        np.empty(problem.n_samples if plan.cap > 0.0 else 0),
    )
    stop = vertex_path(X, y, model, schedule_of(plan), rng, path, room)
    return path.w, path.chosen, stop


@inner
def move(vertices, X, k, weight, w, Z):
    """``w += weight * vertex k``, and the predictions ``Z`` with it."""
    if vertices.axis.shape[0] > 0:
        j, a = vertices.axis[k], vertices.length[k]
        w[j] += weight * a
        n_features = w.shape[0] // Z.shape[1]
        add_column(X, j % n_features, weight * a, Z, j // n_features)
        return
    v, Zv = vertices.points[k], np.empty_like(Z)
    predict(X, v, Zv)
    for j in range(w.shape[0]):
        w[j] += weight * v[j]
    for i in range(Z.shape[0]):
        for c in range(Z.shape[1]):
            Z[i, c] += weight * Zv[i, c]


@njit
def vertex_path(X, y, model, schedule, rng, path, room):
    """Move ``path`` along privately chosen vertices.

    If ``schedule.cap > 0``, a number of steps is chosen by the losses along the path, clipped to
    the cap.
    Only ``path.chosen``, the returned number of steps and functions of them may be released.
    """
    loss, vertices, mechanism = model
    weight, scale, slope, grid, cap, stop_grid = schedule
    w, Z, chosen, losses, progress = path
    R, G, scores, units, work = room
    T = weight.shape[0]
    for t in range(T + 1):
        for i in range(Z.shape[0]):
            for k in range(Z.shape[1]):
                R[i, k] = scale[t] * Z[i, k]
        if cap > 0.0:
            bounded_values(loss, R, y, cap, work)
            total = 0.0
            for i in range(work.shape[0]):
                total += work[i]
            losses[t] = to_grid(-total, stop_grid)
        if t < T:
            bounded_entries(loss, R, y, slope[t], R)
            correlate(X, R, G)
            chosen[t] = select_vertex(vertices, G, grid[t], mechanism, rng, scores, units)
            move(vertices, X, chosen[t], weight[t], w, Z)
            progress[0] += 1
    for j in range(w.shape[0]):
        w[j] *= scale[T]
    if cap > 0.0:
        return select(mechanism, rng, losses)
    return T
