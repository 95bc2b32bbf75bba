"""One private choice among scores that were computed outside of kernels."""

import numpy as np

from skdpsco._kernels import njit
from skdpsco.mechanisms import SCALE_BITS, exponential_mechanism, to_grid


@njit
def choose(rng, scores, grid):
    """Index of a large score, by the exponential mechanism on a grid of `exponential_grid`."""
    units = np.empty(scores.size, dtype=np.int64)
    for k in range(scores.size):
        units[k] = to_grid(scores[k], grid)
    return exponential_mechanism(rng, units, SCALE_BITS)
