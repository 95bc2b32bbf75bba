"""Private scales of columns: mean squares, and robust scales for clipping.

Proof: docs/proofs/coordinate_descent.md. There are two Gaussian releases: a histogram of the
magnitudes of a column's entries, in powers of two, and the mean squares. The histogram describes
most of a column even if its bound is generous; the mean square determines curvature.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._problem import Problem
from skdpsco.data.design import CSR, Dense, as_design, clipped
from skdpsco.data.pieces import MOST_RECORDS_ADDED, depth_of
from skdpsco.data.record_sums import in_pieces, map_reduce, without_gil
from skdpsco.losses.library import without_weights
from skdpsco.losses.traits import traits_of
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism, summation_error
from skdpsco.privacy import Event, GaussianEvent, compose

__all__ = [
    "CACHED_ENTRIES",
    "COLUMN_SCALES",
    "LOWEST",
    "ScalePlan",
    "Scales",
    "exponents",
    "plan_scales",
    "release_scales",
]

# Bin b counts entries with 2**(b + LOWEST - 1) <= |x| < 2**(b + LOWEST). The first bin also counts
# all smaller entries except zeros, and the last also those equal to their bound, 1.
N_BINS, LOWEST = 64, -63
CACHED_ENTRIES = 2**17  # few enough to stay in the cache
SQUARE_IN_BIN = 7.0 / 12.0  # mean of x**2 for x uniform in [1/2, 1]


class ScaleTuning(NamedTuple):
    """Constants of the scales, fitted on data as in examples/benchmarks/coordinate_descent.py.

    Parameters
    ----------
    share : float
        Share of a solver's mu**2 (or, equivalently, rho) for the scales of columns.
    target_share : float
        The same if the scales of the columns are known, and only those of targets are needed.
    histogram_share : float
        Part of this share for histograms; the rest is for mean squares.
    credible : float
        A count is believed if it exceeds its noise by this factor.
    pooled : float
        Columns are pooled if only counts above this share of the records are credible.
    usual_target : tuple of float
        Mean square of targets in units of their bound, as far as nothing is known of them, and
        the deviation of that guess.
    """

    share: float = 0.1
    target_share: float = 0.02
    histogram_share: float = 0.2
    credible: float = 5.0
    pooled: float = 1.0 / 16.0
    usual_target: tuple[float, float] = (0.17, 0.1)


COLUMN_SCALES = ScaleTuning()


class Scales(NamedTuple):
    """Released scales, in the kernels' units.

    Parameters
    ----------
    mean_square : ndarray of shape (n_features,)
        It is never below the noise.
    clip : ndarray of shape (n_features,)
        Root mean square of most entries.
    target : float
        Root mean square of the targets; their bound, if it was not measured.
    """

    mean_square: np.ndarray
    clip: np.ndarray
    target: float


@dataclass(frozen=True)
class ScalePlan:
    """Grids of counts and of sums of squares.

    Parameters
    ----------
    event : Event
    n_samples : int
    intercept : bool
    columns : int
        Number of features that are measured or pooled, without the one of the intercept.
    pooled : bool
        Whether all features share one histogram.
    merged : bool
        Whether all features share one mean square, which implies `pooled`.
    grids : tuple of float
        Grids of counts and of sums of squares, for one column or for all pooled ones.
    target_bound : float
    target_grids : tuple of float or None
        None if the targets are not measured.
    weighted : bool
        Whether targets hold weights, which are not measured.
    """

    event: Event
    n_samples: int
    intercept: bool
    columns: int
    pooled: bool
    merged: bool
    grids: tuple[float, float]
    target_bound: float
    target_grids: tuple[float, float] | None
    weighted: bool = False


def count_grid(n_samples: int, weight: int, multiplier: float, added: bool = False) -> float:
    """Grid of counts over records and ``weight`` columns; ``added`` as in `Problem`."""
    bins = min(N_BINS, 2 * weight)  # bins that a record can change
    change = weight if added else math.sqrt(2.0) * weight
    return gaussian_grid(change, multiplier, bins, n_samples * weight)


def plan_scales(
    problem: Problem, mu: float, target: bool = False, known: bool = False
) -> ScalePlan:
    """Spend ``mu``, sensitivity over standard deviation, on the scales of all columns.

    Parameters
    ----------
    problem : Problem
    mu : float
    target : bool, default=False
        Whether the targets are measured as one more column.
    known : bool, default=False
        Whether the features are not measured.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    n = problem.n_samples
    columns = 0 if known else problem.n_features - problem.intercept
    mu_count, mu_square = (
        mu * math.sqrt(s)
        for s in (COLUMN_SCALES.histogram_share, 1.0 - COLUMN_SCALES.histogram_share)
    )
    k = columns + target
    # Counts need more records than mean squares, so histograms are pooled before squares are
    # merged.
    few = COLUMN_SCALES.pooled * n
    pooled = COLUMN_SCALES.credible * math.sqrt(2.0 * k) / mu_count > few and columns > 1
    merged = math.sqrt(k) / mu_square > few and columns > 1

    def counts(weight: int) -> float:
        releases = 1 + target if pooled else k
        return count_grid(n, weight, math.sqrt(releases) / mu_count, problem.added)

    def square_grid(weight: int) -> float:
        """Grid of sums of squares over records and ``weight`` columns."""
        releases = 1 + target if merged else k
        most = MOST_RECORDS_ADDED if problem.added else n
        depth = (
            depth_of(most) * weight
        )  # squares are added one after the other, also within a record
        change = weight + 2.0 * summation_error(most * weight, 1.0, depth)
        return gaussian_grid(change, math.sqrt(releases) / mu_square, 1, n * weight)

    return ScalePlan(
        event=compose(GaussianEvent(1.0 / mu_count), GaussianEvent(1.0 / mu_square)),
        n_samples=n,
        intercept=problem.intercept,
        columns=columns,
        pooled=pooled,
        merged=merged,
        grids=(counts(columns if pooled else 1), square_grid(columns if merged else 1)),
        target_bound=problem.target_bound,
        target_grids=(counts(1), square_grid(1)) if target else None,
        weighted=traits_of(problem.loss).weighted,
    )


def release_scales(
    plan: ScalePlan, X: Any, y: np.ndarray | None, rng: np.random.Generator
) -> Scales:
    """Follow ``plan`` on the data."""
    n, X = plan.n_samples, in_pieces(X, y)
    scales = np.ones((2, plan.columns + plan.intercept))  # those of the intercept are known
    if plan.columns > 0:
        scales[:, : plan.columns] = _column_scales(plan, X, y, rng)
    target = plan.target_bound
    if plan.target_grids is not None:
        # In units of the bound.
        counts, squares = map_reduce(X, y, tallied_targets, target, plan.weighted)
        typical = _typical(counts, plan.target_grids[0], n, rng)[0]
        (square,), deviation = _mean_squares(squares, plan.target_grids[1], n, rng)
        if typical > 0.0:  # rare targets may be large, and then hold most of the mean square
            square = max(square - deviation, typical)
        else:  # bounds that were found are about as far from the targets as those of other tables
            guess, doubt = COLUMN_SCALES.usual_target
            square += (guess - square) * deviation**2 / (deviation**2 + doubt**2)
        target *= math.sqrt(square)
    return Scales(scales[0], scales[1], target)


def _column_scales(plan: ScalePlan, X: Any, y: Any, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean squares of the features, and the bounds that they are clipped to."""
    n = plan.n_samples
    n_counts = 1 if plan.pooled else plan.columns
    counts, squares = map_reduce(X, y, tallied, n_counts, 1 if plan.merged else plan.columns)
    typical = _typical(counts, plan.grids[0], n * plan.columns // len(counts), rng)
    square = _mean_squares(squares, plan.grids[1], n * plan.columns // len(squares), rng)[0]
    if len(square) > len(typical):
        # One histogram tells by which factor the squares of most entries are smaller than their
        # mean.
        mean_square, clip = square, square * np.fmin(typical / square.mean(), 1.0)
    else:
        mean_square, clip = np.fmax(square, typical), np.fmin(square, typical)
    return mean_square, np.sqrt(clip)


def _typical(counts, grid, n, rng):
    """Release histograms; return mean squares according to them, NaN if no count is credible."""
    credible = counts > COLUMN_SCALES.credible * gaussian_mechanism(rng, counts.reshape(-1), grid)
    magnitude = 2.0 ** (np.arange(N_BINS) + LOWEST)
    square = np.where(credible, counts, 0.0) @ (SQUARE_IN_BIN * magnitude**2) / n
    return np.where(credible.any(axis=1), square, np.nan)


def _mean_squares(squares, grid, n, rng):
    """Release sums of squares; return mean squares, never below the noise, and its deviation."""
    deviation = gaussian_mechanism(rng, squares, grid)
    return np.maximum(squares, deviation) / n, deviation / n


def exponents(x: np.ndarray, up_to: bool = False) -> np.ndarray:
    """The integers k with ``2**(k - 1) <= |x| < 2**k``, or with ``2**(k - 1) < |x| <= 2**k``.

    They are read from the bits, many times as fast as by ``frexp``. For numbers that are 0, and for
    those that are too small for a leading bit, it is some number below all others.
    """
    kind = np.finfo(x.dtype)
    bits = x.view(f"i{x.itemsize}") & (2 ** (kind.bits - 1) - 1)  # without the sign
    bits -= up_to
    bits >>= kind.nmant
    bits += 2 - kind.maxexp
    return bits


@without_gil
def tallied(X: Dense | CSR, y: Any, n_counts: int, n_squares: int) -> tuple[np.ndarray, np.ndarray]:
    """Histograms of the magnitudes of every column's entries, and sums of their squares.

    If one of them is asked for, it is that of all columns together.
    """
    counts, squares = np.zeros(n_counts * N_BINS), np.zeros(n_squares)
    entries = X.values if isinstance(X, Dense) else X.data
    rows = max(CACHED_ENTRIES // max(entries[:1].size, 1), 1)
    for start in range(0, len(entries), rows):
        some = slice(start, start + rows)
        columns = np.arange(len(X.bounds)) if isinstance(X, Dense) else X.indices[some]
        x = clipped(entries[some].astype(float), X.bounds[columns])
        columns = np.broadcast_to(columns, x.shape)[x != 0.0]
        x = x[x != 0.0]
        bins = np.clip(exponents(x) - LOWEST, 0, N_BINS - 1)
        bins += np.minimum(columns, n_counts - 1) * N_BINS
        counts += np.bincount(bins, minlength=len(counts))
        squares += np.bincount(np.minimum(columns, n_squares - 1), x * x, n_squares)
    return counts.reshape(n_counts, N_BINS), squares


def tallied_targets(
    X: Any, y: np.ndarray, bound: float, weighted: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Histogram and sum of squares of the targets over ``bound``.

    If records have several, it is that of their root mean squares.
    """
    y = np.sqrt(np.mean(y * y, axis=1)) if y.ndim > 1 else y
    y = without_weights(y) if weighted else y
    return tallied(as_design(y.reshape(-1, 1), np.array([bound]), False), None, 1, 1)
