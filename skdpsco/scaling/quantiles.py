"""Private choices of quantiles. Draws by scores: docs/proofs/preprocessing.md.

Counts by halving: docs/proofs/conditioning.md. A search by counts: docs/proofs/target.md.
"""

import math
from typing import Any

import numpy as np

from skdpsco._kernels import njit
from skdpsco._random import words_of
from skdpsco.data.design import Dense, as_design, as_matrix
from skdpsco.data.products import predict_all
from skdpsco.data.record_sums import without_gil
from skdpsco.mechanisms.samplers import (
    EXPONENTIAL,
    deviation_on,
    gaussian_mechanism,
    select,
    to_grid,
)

__all__ = [
    "choose",
    "choose_index",
    "choose_score",
    "count_above",
    "count_up_to",
    "cover_scores",
    "enough_records",
    "halve",
    "longer_scores",
    "quantile_scores",
    "search",
    "some_records",
    "tolerated",
]


READ_RATIO = 400.0  # n mu over the root of d at which the noise of a count hardly matters
LEAST_READ = 2**13  # records that are read, whatever the noise


def enough_records(n_samples: int, n_features: int, mu: float, added: bool) -> int:
    """Number of records of which levels and quantiles are found, where they are in memory.

    All are read if their number is private (``added``).
    """
    enough = math.ceil(min(READ_RATIO * math.sqrt(n_features) / mu, n_samples))
    return n_samples if added else min(n_samples, max(enough, LEAST_READ))


def some_records(X: Any, y: Any, n_read: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Records in memory, one of each of ``n_read`` runs of about the same length.

    They are a fair sample however records are ordered.
    """
    edges = np.arange(n_read + 1) * len(y) // n_read
    rows = edges[:-1] + rng.integers(np.diff(edges))
    some = X.values[rows] if isinstance(X, Dense) else as_matrix(X)[rows]
    return as_design(some, X.bounds, bool(X.intercept), checked=True), y[rows]


def count_up_to(values: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Number of values that are at most each of the increasing ``candidates``."""
    first = np.searchsorted(candidates, values)
    return np.bincount(first, minlength=len(candidates) + 1)[:-1].cumsum()


def cover_scores(up_to: np.ndarray, n: int, tail: float, penalty: float) -> np.ndarray:
    """Scores that are high for small candidates above all but a ``tail`` of ``n`` values.

    ``up_to`` counts the values up to each candidate. Replacing a value changes counts by 0 or 1,
    all in one direction: the range of changes is 1.
    """
    return np.minimum(up_to, (1.0 - tail) * n) - penalty * np.arange(len(up_to))


def quantile_scores(up_to: np.ndarray, n: int, quantile: float) -> np.ndarray:
    """Scores that are high for candidates whose neighbours enclose the quantile of ``n`` values.

    ``up_to`` counts the values up to each candidate. Replacing a value changes every score by at
    most 1, in either direction: the range is 2.
    """
    below, beyond = np.zeros((2, len(up_to)))
    below[1:], beyond[:-1] = up_to[:-1], n - up_to[1:]  # up to the neighbour on the left, and so on
    return -np.maximum(below - quantile * n, beyond - (1.0 - quantile) * n)


def count_above(values: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Number of values above each of the few ``candidates``, as floats; NaN is above all."""
    up_to = [np.count_nonzero(values <= candidate) for candidate in candidates]
    return len(values) - np.array(up_to, float)


@without_gil
def longer_scores(X: Any, y: Any, w: np.ndarray, n_outputs: int, limits: np.ndarray) -> np.ndarray:
    """How many records have scores of a norm above each of the increasing ``limits``."""
    scores = np.empty((len(y), n_outputs))
    predict_all(X, w, scores)
    one = n_outputs == 1  # a sum over a short axis takes longer than all the rest
    sizes = np.abs(scores[:, 0]) if one else np.sqrt(np.square(scores).sum(axis=1))
    return count_above(sizes, limits)


def halve(above: np.ndarray, tolerated: float, grid: float, rng: np.random.Generator) -> int:
    """Index of the smallest of 2**k candidates that at most ``tolerated`` values exceed.

    It releases k of the counts ``above`` with noise on ``grid``, each of sensitivity 1.
    """
    low, high = 0, len(above) - 1
    while low < high:
        middle = (low + high) // 2
        count = above[[middle]]
        gaussian_mechanism(rng, count, grid)
        low, high = (low, middle) if count[0] <= tolerated else (middle + 1, high)
    return high


TRUST = 0.7  # in counts, which are between none and all near the quantile
MOST_ODDS = 30.0  # of one count, as a logarithm


def search(
    above: np.ndarray,
    plan: Any,
    log_prior: np.ndarray | None,
    rng: np.random.Generator,
) -> int:
    """Index of a candidate that about ``plan.tolerated`` values exceed.

    It is the probabilistic bisection of Horstein (1963): a count with noise, at the median of what
    is believed, moves the belief to one side of it, by as much as the noise leaves it credible.
    Each of the counts ``above`` that are released has the sensitivity for which ``plan.grid`` is
    made.
    """
    belief = np.ones(len(above)) if log_prior is None else np.exp(log_prior)
    for _ in range(plan.n_counts):
        k = min(middle(belief), len(above) - 2)
        count = above[[k]]
        deviation = gaussian_mechanism(rng, count, plan.grid)
        odds = 2.0 * TRUST * (count[0] - plan.tolerated) * plan.tolerated / deviation**2
        unlikely = slice(None, k + 1) if odds > 0.0 else slice(k + 1, None)
        belief[unlikely] *= math.exp(-min(abs(odds), MOST_ODDS))
    return middle(belief)


@njit
def middle(belief):
    """Index of the median of an unnormalised law."""
    total = below = 0.0
    for k in range(belief.shape[0]):
        total += belief[k]
    for k in range(belief.shape[0]):
        below += belief[k]
        if below >= 0.5 * total:
            return k
    return belief.shape[0] - 1


def tolerated(n: int, share: float, grid: float, most: float = 0.5) -> float:
    """Number of records that may exceed a limit, given that noise alone gives more than 0.

    Below a ``most`` of half of them, limits are rather too large than too small.
    """
    return max(share * n, min(3.0 * deviation_on(grid), most * n))


def choose(
    scores: np.ndarray, candidates: np.ndarray, grid: float, rng: np.random.Generator
) -> float:
    """One of the candidates, by the exponential mechanism on ``grid``."""
    return float(candidates[choose_index(rng, scores, grid)])


def choose_index(rng: np.random.Generator, scores: np.ndarray, grid: float) -> int:
    """Index of a large score, by the exponential mechanism on a grid of `exponential_grid`."""
    units = np.empty(len(scores), dtype=np.int64)
    return choose_score(scores, grid, EXPONENTIAL, words_of(rng), units)


@njit
def choose_score(scores, grid, mechanism, rng, units):
    """Index of a large score."""
    for k in range(scores.shape[0]):
        units[k] = to_grid(scores[k], grid)
    return select(mechanism, rng, units)
