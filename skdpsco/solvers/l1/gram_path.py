"""A path for the squared loss: second moments are summed once, then no step reads the records.

The gradient at w is C w - c, with C the sum of x x' and c that of y x. Moving to a vertex changes
C w by a column of C, or by its product with the vertex. Proof: docs/proofs/frank_wolfe.md.
"""

import numpy as np

from skdpsco._kernels import kernel, njit
from skdpsco.constraints.sets import Polytope, coordinate, n_vertices, vertex
from skdpsco.data.design import clipped, clipped_rows
from skdpsco.data.map_reduce import in_pieces, map_reduce
from skdpsco.losses.library import Squared
from skdpsco.solvers.base import LARGEST, LEAST
from skdpsco.solvers.vertex_choice import POLYTOPES, select_vertex

MAX_COLUMNS = 2000  # 32 MB of second moments


def is_quadratic(problem, constraint, n_iter: int, reach: float) -> bool:
    """Whether `run_gram` takes the steps that full passes would take, and is faster.

    A function of public values. No residual may be clipped, hence none of a loss or a set of the
    user's: where full passes clip what these declare too small, there is nothing to clip here.

    Parameters
    ----------
    problem : Problem
    constraint : NamedTuple of `skdpsco.constraints`
    n_iter : int
    reach : float
        Bound on predictions before any step.
    """
    loss, D, size = problem.loss, problem.n_coefficients, constraint.norm_bound()
    if type(loss) is not Squared or type(constraint) not in POLYTOPES:
        return False
    largest = reach + problem.target_bound  # residual
    return bool(
        loss.clip >= largest
        and D < n_iter  # as many passes take as long as second moments, or longer
        and D <= min(problem.n_samples, MAX_COLUMNS)
        # Where products underflow, their rounding is not relative to them.
        and min(1.0, size) * min(1.0, problem.target_bound) >= LEAST
        and max(1.0, size) * max(1.0, largest) <= LARGEST
    )


def gram_roundings(n_coefficients: int, n_iter: int) -> int:
    """How many more roundings than in full passes a term of a score takes part in."""
    return n_coefficients + n_iter + 2


def run_gram(plan, problem, constraint, X, y, rng, progress):
    """As `skdpsco.solvers.l1.vertex_path.run_vertices`, for a plan that is quadratic."""
    D, T = problem.n_coefficients, len(plan.weight)
    C, c = map_reduce(in_pieces(X, y), y, moment_sums, problem.target_bound)
    coef, product, G = np.zeros(D), np.zeros(D), np.empty(D)
    chosen = np.zeros(T, dtype=np.int64)
    scores = np.empty(n_vertices(constraint, D))
    units = np.empty(len(scores), dtype=np.int64)
    gram_path(
        C, c, constraint, np.array(plan.weight), np.array(plan.scale), np.array(plan.grid),
        plan.mechanism, rng, coef, product, chosen, progress, G, scores, units,
    )  # fmt: skip
    return coef, chosen, T


def moment_sums(X, y, target_bound: float) -> tuple[np.ndarray, np.ndarray]:
    """Sums of x x' and of y x, of features as kernels see them and targets within their bound."""
    A, limit = clipped_rows(X), np.full(1, target_bound)
    C = A.T @ A
    # Full passes clip residuals, whatever the targets are.
    c = A.T @ (limit * clipped(y, limit))
    return C if isinstance(C, np.ndarray) else C.toarray(), c


@kernel
def move(constraint, C, k, weight, w, product):
    """``w += weight * vertex k``, and its product with the symmetric ``C`` with it."""
    j, a = coordinate(constraint, k, w.shape[0])
    step = weight * a
    w[j] += step
    for i in range(w.shape[0]):
        product[i] += step * C[j, i]


@move.register(Polytope)
def _(constraint, C, k, weight, w, product):
    v = np.empty_like(w)
    vertex(constraint, k, v)
    for i in range(w.shape[0]):
        total = 0.0
        for j in range(w.shape[0]):
            total += C[i, j] * v[j]
        w[i] += weight * v[i]
        product[i] += weight * total


@njit
def gram_path(
    C, c, constraint, weight, scale, grid, mechanism, rng, w, product, chosen, progress, G, scores,
    units,
):  # fmt: skip
    """Move ``w`` and ``product``, which is ``C w``, along privately chosen vertices.

    Nothing but ``chosen`` and what follows from it may leave. ``G`` and all that follows is room to
    work in.
    """
    T = weight.shape[0]
    for t in range(T):
        for j in range(G.shape[0]):
            G[j] = scale[t] * product[j] - c[j]
        chosen[t] = select_vertex(constraint, G, grid[t], mechanism, rng, scores, units)
        move(constraint, C, chosen[t], weight[t], w, product)
        progress[0] += 1
    for j in range(w.shape[0]):
        w[j] *= scale[T]
