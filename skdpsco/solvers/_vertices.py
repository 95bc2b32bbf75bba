"""The private choice of a vertex of a polytope."""

from skdpsco._kernels import inner
from skdpsco.constraints import vertex_scores
from skdpsco.mechanisms import select, to_grid


@inner
def select_vertex(constraint, gradient, grid, mechanism, rng, scores, units):
    """Number of a vertex whose product with ``gradient`` is probably small.

    ``scores`` and ``units`` are room to work in.
    """
    vertex_scores(constraint, gradient, scores)
    for k in range(scores.shape[0]):
        units[k] = to_grid(-scores[k], grid)  # large is good: a minimum is sought
    return select(mechanism, rng, units)
