"""Scores of candidates for a quantile, and the private choice of one: docs/proofs/target.md."""

import numpy as np

from skdpsco._kernels import njit
from skdpsco.mechanisms import Exponential, select, to_grid


def count_up_to(values: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Number of values that are at most each of the increasing ``candidates``."""
    first = np.searchsorted(candidates, values)
    return np.bincount(first, minlength=len(candidates) + 1)[:-1].cumsum()


def cover_scores(
    values: np.ndarray, candidates: np.ndarray, tail: float, penalty: float
) -> np.ndarray:
    """High for small candidates that all but a ``tail`` of the values lie below.

    Replacing a value changes counts by 0 or 1, all in one direction: the range of changes is 1.
    """
    covered = np.minimum(count_up_to(values, candidates), (1.0 - tail) * len(values))
    return covered - penalty * np.arange(len(candidates))


def quantile_scores(values: np.ndarray, candidates: np.ndarray, quantile: float) -> np.ndarray:
    """High for candidates whose neighbours on either side enclose the quantile of the values.

    Replacing a value changes every score by at most 1, in either direction: the range is 2.
    """
    n, m = len(values), len(candidates)
    up_to = count_up_to(values, candidates)
    below = np.concatenate([[0], up_to[: m - 1]])  # up to the neighbour on the left
    beyond = np.concatenate([n - up_to[1:], [0]])
    return -np.maximum(below - quantile * n, beyond - (1.0 - quantile) * n)


def choose(scores: np.ndarray, candidates: np.ndarray, grid: float, rng) -> float:
    """One of the candidates, by the exponential mechanism on ``grid``."""
    units = np.empty(len(scores), dtype=np.int64)
    return float(candidates[choose_score(scores, grid, Exponential(), rng, units)])


@njit
def choose_score(scores, grid, mechanism, rng, units):
    """Index of a large score."""
    for k in range(scores.shape[0]):
        units[k] = to_grid(scores[k], grid)
    return select(mechanism, rng, units)
