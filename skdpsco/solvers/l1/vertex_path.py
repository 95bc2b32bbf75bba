"""The path of stagewise and of Frank-Wolfe: choose a vertex privately, move, repeat.

Proofs: docs/proofs/stagewise.md and docs/proofs/frank_wolfe.md.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsco._kernels import njit
from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.pieces import MOST_RECORDS_ADDED, depth_of, sum_error
from skdpsco.data.record_sums import in_pieces, map_reduce
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
from skdpsco.solvers.gradient_sums import gradient_and_loss_sum, gradient_sum
from skdpsco.solvers.vertex_choice import choose_vertex, vertices_of, write_vertex

__all__ = ["VertexPlan", "plan_vertices", "run_vertices"]

# Largest ratio of bounds on slopes for which steps share a grid: noise is at most 5 % larger.
SAME_GRID = 1.05


@dataclass(frozen=True)
class VertexPlan:
    """Schedule and grids of `run_vertices`.

    Parameters
    ----------
    weight : tuple of float, length n_iter
    scale : tuple of float, length n_iter + 1
        After t steps the coefficients are ``scale[t]`` times the sum of the first t chosen
        vertices, each times its weight.
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
    # A score is rounded in the sum over records and, for polytopes, over coefficients.
    D = problem.n_coefficients
    depth = depth_of(most) + D
    slope, grid = [0.0] * T, [0.0] * T
    charged = width = 0.0
    for t, lipschitz in reversed(list(enumerate(bounds))):
        # Steps whose bounds differ little share the widest grid.
        if not lipschitz <= charged <= SAME_GRID * lipschitz:
            charged = lipschitz
            error = summation_error(most + D, lipschitz, depth)
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
) -> Any:
    """Follow a path of privately chosen vertices, from 0 on.

    Every step computes the predictions at its point, ``scale[t]`` times the sum of the vertices. If
    ``plan.cap > 0``, a number of steps is chosen by the losses along the path, clipped to the cap.

    Returns
    -------
    coef : ndarray
        The last point of the path.
    chosen : ndarray of shape (n_iter,)
        The vertices.
    stop : int
        The chosen number of steps; ``n_iter`` if the plan chooses none.
    """
    T, loss, X = len(plan.weight), problem.loss, in_pieces(X, y)
    w = np.zeros(problem.n_coefficients)
    chosen, losses = np.zeros(T, dtype=np.int64), np.zeros(T + 1, dtype=np.int64)
    vertices, v = vertices_of(constraint, len(w)), np.empty_like(w)
    for t in range(T + (plan.cap > 0.0)):
        point = plan.scale[t] * w
        if plan.cap > 0.0:
            slope = plan.slope[min(t, T - 1)]
            G, total = map_reduce(X, y, gradient_and_loss_sum, loss, point, slope, plan.cap)
            losses[t] = to_grid(-float(total), plan.stop_grid)
        else:
            G = map_reduce(X, y, gradient_sum, loss, point, plan.slope[t])
        if t < T:
            chosen[t] = choose_vertex(vertices, G, plan.grid[t], plan.mechanism, rng)
            write_vertex(vertices, chosen[t], v)
            w += plan.weight[t] * v
            progress[0] += 1
    stop = draw(plan.mechanism, rng, losses) if plan.cap > 0.0 else T
    return plan.scale[T] * w, chosen, stop


@njit
def draw(mechanism, rng, units):
    """Draw the number of a large score; the scores are in grid units."""
    return select(mechanism, rng, units)
