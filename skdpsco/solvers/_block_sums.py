"""What solvers sum over blocks of records: gradients at a point, of all records or clipped ones.

`gradient_sum` is the one place where a gradient of a block is computed. Arrays in memory keep
their predictions, and the norms of their records, from one step to the next; a block keeps nothing.
"""

import math
from typing import Any

import numpy as np

from skdpsco._design import CSR, Dense, clip_entries
from skdpsco._kernels import inner, njit
from skdpsco._map_reduce import map_reduce
from skdpsco._records import Row, read_row, row_add, row_dot
from skdpsco.constraints import minimizer, n_vertices, vertex
from skdpsco.losses import derivatives, values
from skdpsco.mechanisms import gaussian_mechanism, select, to_grid
from skdpsco.solvers._vertices import select_vertex


def gradient_sum(
    X: Dense | CSR, y: np.ndarray, loss: Any, w: np.ndarray, slope: float
) -> np.ndarray:
    """Sum of gradients at ``w``, of derivatives clipped to ``slope``."""
    return _sums(X, y, loss, w, np.empty(0), math.inf, slope, 0.0)[0]


def gradient_and_loss_sum(
    X: Dense | CSR, y: np.ndarray, loss: Any, w: np.ndarray, slope: float, cap: float
) -> tuple[np.ndarray, np.ndarray]:
    """`gradient_sum`, and the sum of losses clipped to ``cap``."""
    return _sums(X, y, loss, w, np.empty(0), math.inf, slope, cap)


def clipped_gradient_sum(
    X: Dense | CSR, y: np.ndarray, loss: Any, w: np.ndarray, scale: np.ndarray, bound: float
) -> np.ndarray:
    """Sum of gradients in the coordinates ``scale * w``, each clipped to l2 norm ``bound``."""
    out, _ = _sums(X, y, loss, w, scale, bound, math.inf, 0.0)
    return (out.reshape(loss.n_outputs, -1) / scale).ravel()


def _sums(X, y, loss, w, scale, bound, slope, cap) -> tuple[np.ndarray, np.ndarray]:
    out, room = np.zeros_like(w), np.empty((1, loss.n_outputs))
    row = Row(X, math.inf).arguments
    squares, one, value = np.empty_like(row[-1]), np.empty(1), np.empty(1)
    total = add_gradients(
        X, y, loss, w, scale**-2.0, bound, slope, cap, *row, squares, room, one, value, out
    )
    return out, np.array(total)


@inner
def clip_records(R, norms, bound):
    """Shorten the derivatives of every record until, times its norm, they are within ``bound``."""
    for i in range(R.shape[0]):
        total = 0.0
        for k in range(R.shape[1]):
            total += R[i, k] * R[i, k]
        size = math.sqrt(total) * norms[i]
        factor = bound / size if size > bound else 1.0
        for k in range(R.shape[1]):
            # Not even NaN may turn a sum into NaN.
            R[i, k] = factor * R[i, k] if size < np.inf else 0.0


@njit
def add_gradients(
    X,
    y,
    loss,
    w,
    weight,
    bound,
    slope,
    cap,
    inverse,
    row_norm,
    columns,
    entries,
    squares,
    Z,
    one,
    value,
    out,
):
    """Add up gradients, and return the sum of losses up to ``cap``, if it is positive.

    One pass over memory: a record is read once. If ``bound`` is finite, derivatives are clipped so
    that gradients keep to it, in the norm in which coordinates have the given weights. ``squares``,
    ``Z``, ``one`` and ``value`` are room to work in.
    """
    D = columns.shape[0]
    total = 0.0
    for i in range(y.shape[0]):
        size = read_row(X, i, inverse, row_norm, columns, entries)
        for k in range(Z.shape[1]):
            Z[0, k] = row_dot(X, columns, entries, size, w, k * D)
        if cap > 0.0:
            values(loss, Z, y[i : i + 1], value)
            total += max(0.0, min(cap, value[0]))  # NaN, too
        derivatives(loss, Z, y[i : i + 1], Z)  # entry by entry: predictions may be overwritten
        if slope < np.inf:
            clip_entries(Z, slope)  # whatever the loss declares
        if bound < np.inf:
            for p in range(size):
                squares[p] = entries[p] * entries[p]
            one[0] = math.sqrt(row_dot(X, columns, squares, size, weight, 0))
            clip_records(Z, one, bound)
        for k in range(Z.shape[1]):
            row_add(X, columns, entries, size, Z[0, k], out, k * D)
    return total


def walk_vertices(plan: Any, problem: Any, constraint: Any, X: Any, rng, progress):
    """`skdpsco.solvers._vertex_path.run_vertices` on blocks, whose gradients are taken anew.

    Predictions are those of the point, ``scale[t]`` times the sum of the vertices.
    """
    T, loss = len(plan.weight), problem.loss
    w, G = np.zeros(problem.n_coefficients), np.empty(problem.n_coefficients)
    chosen, losses = np.zeros(T, dtype=np.int64), np.zeros(T + 1, dtype=np.int64)
    room = np.empty(n_vertices(constraint, len(w)))
    units, v = np.empty(len(room), dtype=np.int64), np.empty_like(w)
    for t in range(T + (plan.cap > 0.0)):
        point = plan.scale[t] * w
        if plan.cap > 0.0:
            slope = plan.slope[min(t, T - 1)]
            G, total = map_reduce(X, None, gradient_and_loss_sum, loss, point, slope, plan.cap)
            losses[t] = to_grid(-float(total), plan.stop_grid)
        else:
            G = map_reduce(X, None, gradient_sum, loss, point, plan.slope[t])
        if t < T:
            chosen[t] = choose_vertex(constraint, G, plan.grid[t], plan.mechanism, rng, room, units)
            write_vertex(constraint, chosen[t], v)
            w += plan.weight[t] * v
            progress[0] += 1
    stop = draw(plan.mechanism, rng, losses) if plan.cap > 0.0 else T
    return plan.scale[T] * w, chosen, stop


@njit
def choose_vertex(constraint, G, grid, mechanism, rng, scores, units):
    """Number of a vertex with a small score, drawn privately."""
    return select_vertex(constraint, G, grid, mechanism, rng, scores, units)


@njit
def draw(mechanism, rng, units):
    """Number of a large score, which is one of a grid already."""
    return select(mechanism, rng, units)


@njit
def write_vertex(constraint, k, out):
    """Write vertex k."""
    vertex(constraint, k, out)


def walk_minimizers(plan: Any, problem: Any, X: Any, rng, progress) -> np.ndarray:
    """`skdpsco.solvers.frank_wolfe.noisy_frank_wolfe` on blocks."""
    w = np.zeros(problem.n_coefficients)
    v = np.empty_like(w)
    for step, grid in zip(plan.step, plan.grid, strict=True):
        G = map_reduce(X, None, gradient_sum, problem.loss, w, plan.slope)
        gaussian_mechanism(rng, G, grid)
        write_minimizer(problem.constraint, G, v)
        w = (1.0 - step) * w + step * v
        progress[0] += 1
    return w


@njit
def write_minimizer(constraint, G, out):
    """Write a point of the set that minimises the product with ``G``."""
    minimizer(constraint, G, out)
