"""A narrower range in which a regression reads features. Proof: docs/proofs/reading.md.

Coefficients that are right for most records may be wrong far out, where columns have tails. What
tells is the loss of the same scores on features that are clipped to less: it costs a few numbers,
and not another fit.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._clipping import clip
from skdpsco._kernels import njit
from skdpsco.data.design import TILE_ROWS, CentredCSR, KeptScores, read_only
from skdpsco.data.pieces import one_record
from skdpsco.data.products import predict_all, write_columns
from skdpsco.data.record_sums import BlockDesign, in_pieces, map_reduce, without_gil
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism

__all__ = ["READING", "ReadingPlan", "kept_scores", "plan_reading", "reading_share"]


class ReadingTuning(NamedTuple):
    """Constants of the choice. docs/proofs/reading.md names the data on which they were chosen.

    Parameters
    ----------
    widths : tuple of float
        Candidates for the range of a column, in root mean squares around its centre; they fall.
    reach : tuple of float
        Where the numbers that make a line are cut, once for every candidate: residual times score,
        squared score, residual and score.
    most_reach : float
        What the first two are multiplied by at most, as ``most`` grows.
    slopes : tuple of float
        Least and largest slope.
    least_variance : float
        Least variance of the scores.
    square : float
        A typical mean square of targets, in which gains are counted.
    noise, least_noise : float
        Deviation of a gain that is wanted; and the least one, below which the share falls.
    share, least_share : float
        Largest share of mu**2; and the share at which the largest gain of a record grows instead,
        if that share is enough for this deviation.
    lines : float
        Part of the share that finds lines; the rest finds gains.
    most_noise : float
        Deviation of a gain up to which gains are released.
    most : float
        Largest gain of a record, once noise is small.
    sure, least : float
        Deviations of the noise, and the number, that a gain must exceed.
    longest : float
        Largest l1 norm of coefficients; longer ones are noise.
    least_ratio : float
        n mu over the root of the number of features from which on coefficients are so good that a
        range makes a difference.
    """

    widths: tuple[float, ...] = (6.0, 3.0, 1.5)
    reach: tuple[float, ...] = (0.2, 0.6, 0.6, 0.8)
    most_reach: float = 4.0
    slopes: tuple[float, float] = (0.6, 5.0)
    least_variance: float = 1e-4
    square: float = 0.1
    noise: float = 0.004
    least_noise: float = 0.001
    share: float = 0.03
    least_share: float = 0.015
    lines: float = 1.0 / 3.0
    most_noise: float = 0.02
    most: float = 16.0
    sure: float = 1.5
    least: float = 0.01
    longest: float = 1e4
    least_ratio: float = 300.0


READING = ReadingTuning()


class Reading(NamedTuple):
    """Features are clipped to ``+-limit``; then scores get a slope, and a shift is added."""

    limit: np.ndarray
    slope: float
    shift: float


@dataclass(frozen=True)
class ReadingPlan:
    """Grids of lines and gains.

    Parameters
    ----------
    n_samples : int
    line_grid, gain_grid : float
    most : float
        Largest gain of a record, in units of `ReadingTuning.square`.
    """

    n_samples: int
    line_grid: float
    gain_grid: float
    most: float

    def release(
        self,
        w: np.ndarray,
        X: Any,
        y: Any,
        sizes: np.ndarray,
        penalty: float,
        rng: np.random.Generator,
    ) -> Reading | None:
        """The best candidate, or None if features are read best as the solver read them.

        Parameters
        ----------
        w : ndarray of shape (n_features + 1,)
            Coefficients, which were released, the intercept last.
        X, y
            Records as the solver saw them, with targets in [-1, 1], or blocks and None.
        sizes : ndarray of shape (n_features,)
            Three root mean squares of every feature.
        penalty : float
            Slope of the penalty in the length of ``w``.
        rng : numpy.random.Generator
        """
        if float(np.abs(w).sum()) > READING.longest:
            return None
        n, widths = self.n_samples, np.array(READING.widths)
        limits = np.minimum(widths[:, None] / 3.0 * sizes, 1.0)
        limits = np.vstack([np.ones(len(sizes)), limits])  # first as the solver read features
        X = X if isinstance(X, BlockDesign) else kept_scores(X, y, w, limits)
        wider = min(max(math.sqrt(self.most), 1.0), READING.most_reach)
        reach = np.array(READING.reach) * [wider, wider, 1.0, 1.0]
        found = map_reduce(X, y, line_sums, w, limits, reach)
        deviation = gaussian_mechanism(rng, found, self.line_grid) / n
        lines = self.lines(found.reshape(4, -1) / n * reach[:, None], deviation * reach[1], penalty)
        unit = self.most * READING.square
        gains = map_reduce(X, y, gain_sums, w, limits, lines, unit)
        deviation = gaussian_mechanism(rng, gains, self.gain_grid) / n
        # Each candidate is compared with the one before it; their noise adds up.
        sure = READING.sure * deviation * np.sqrt(np.arange(1.0, len(gains) + 1.0))
        gains = np.cumsum(gains) / n - 2.0 * penalty / unit * (lines[0] - 1.0)
        gains -= np.maximum(sure, READING.least / self.most)
        best = int(np.argmax(gains))
        if not gains[best] > 0.0:
            return None
        slope, shift = lines[:, best]
        return Reading(limits[best + 1], float(slope), float(shift))

    def lines(self, means: np.ndarray, noise: float, penalty: float) -> np.ndarray:
        """Slopes and shifts of the candidates' scores, of shape (2, n_widths)."""
        product, square, residual, score = means
        variance = np.maximum(square - score**2, max(noise, READING.least_variance))
        slope = np.clip(1.0 + (product - residual * score - penalty) / variance, *READING.slopes)
        return np.array([slope, residual - (slope - 1.0) * score])


def reading_share(n_samples: int, n_features: int, mu: float) -> tuple[float, float]:
    """Share of ``mu**2``, 0 if it does not pay, and the largest gain of a record."""
    # A gain has a deviation of 2 most sqrt(K / (1 - lines)) / (n mu sqrt(share)).
    unit = 2.0 * math.sqrt(len(READING.widths) / (1.0 - READING.lines)) / (n_samples * mu)
    most = READING.noise * math.sqrt(READING.least_share) / unit
    most = min(max(most, 1.0), READING.most)
    share = min((unit * most / READING.noise) ** 2, READING.share)
    share = max(share, min((unit * most / READING.least_noise) ** 2, READING.least_share))
    known = n_samples * mu >= READING.least_ratio * math.sqrt(n_features)
    worth = known and unit * most <= READING.most_noise * math.sqrt(share)
    return (share if worth else 0.0), most


def plan_reading(n_samples: int, multipliers: dict[str, float], most: float) -> ReadingPlan:
    """The plan with noise of these multipliers, of "lines" and "gains".

    Raises
    ------
    ValueError
        If the noise is too large for a grid.
    """
    K = len(READING.widths)
    # One number of a line is in [0, 1]; the others are in [-1, 1], and two of them may change sign
    # at once. A gain is in [-1, 1].
    moved = one_record(n_samples, False, 1.0, change=math.sqrt(10.0 * K), parts=4 * K)
    line_grid = gaussian_grid(moved, multipliers["lines"], 4 * K, n_samples)
    moved = one_record(n_samples, False, 1.0, change=2.0 * math.sqrt(K), parts=K)
    gain_grid = gaussian_grid(moved, multipliers["gains"], K, n_samples)
    return ReadingPlan(n_samples, line_grid, gain_grid, most)


@without_gil
def line_sums(
    X: Any, y: np.ndarray, w: np.ndarray, limits: np.ndarray, reach: np.ndarray
) -> np.ndarray:
    """Sums of the numbers of a line, each over its reach and cut to [-1, 1].

    There is a line for every range but the first.
    """
    scores, sums = np.empty((len(y), len(limits))), np.zeros((4, len(limits) - 1))
    write_narrow(X, w, limits, scores)
    add_lines(scores, y, w[-1], reach, sums)
    return sums.ravel()


@njit
def add_lines(scores, y, b, reach, sums):
    """Add the records' numbers; a target that is not a number counts as 1."""
    for i in range(scores.shape[0]):
        for k in range(sums.shape[1]):
            s = scores[i, k + 1]
            r = clip(y[i], 1.0) - b - s
            sums[0, k] += clip(r * s / reach[0], 1.0)
            sums[1, k] += clip(s * s / reach[1], 1.0)
            sums[2, k] += clip(r / reach[2], 1.0)
            sums[3, k] += clip(s / reach[3], 1.0)


@without_gil
def gain_sums(
    X: Any, y: np.ndarray, w: np.ndarray, limits: np.ndarray, lines: np.ndarray, most: float
) -> np.ndarray:
    """Sums of how much smaller a squared error is than in the range before, over ``most``.

    Each is cut to [-1, 1]. The first range is that of the solver, whose line is the diagonal.
    """
    scores, sums = np.empty((len(y), len(limits))), np.zeros(len(limits) - 1)
    write_narrow(X, w, limits, scores)
    add_gains(scores, y, w[-1], lines, most, sums)
    return sums


@njit
def add_gains(scores, y, b, lines, most, sums):
    """Add the records' gains; a target that is not a number counts as 1."""
    for i in range(scores.shape[0]):
        target = clip(y[i], 1.0) - b
        before = (target - scores[i, 0]) ** 2
        for k in range(sums.shape[0]):
            error = (target - lines[1, k] - lines[0, k] * scores[i, k + 1]) ** 2
            sums[k] += clip((before - error) / most, 1.0)
            before = error


def kept_scores(X: Any, y: Any, w: np.ndarray, limits: np.ndarray | None) -> Any:
    """Pieces of records in memory, of which scores are all that is read; see `write_narrow`."""
    scores = np.empty((len(y), 1 if limits is None else len(limits)))
    map_reduce(in_pieces(X, scores), scores, written_scores, w, limits)
    return in_pieces(KeptScores(scores, np.ones(1), 1), y)


@without_gil
def written_scores(
    X: Any, scores: np.ndarray, w: np.ndarray, limits: np.ndarray | None
) -> np.ndarray:
    """Write scores in the place of targets; there is nothing to add up."""
    write_narrow(X, w, limits, scores)
    return np.zeros(0)


def write_narrow(X: Any, w: np.ndarray, limits: np.ndarray | None, scores: np.ndarray) -> None:
    """Write products of coefficients and features that are clipped to each of the ``limits``.

    The intercept, the last coefficient, is not added. If limits are None, nothing is clipped, and
    the intercept is added.
    """
    if limits is None:
        predict_all(X, w, scores)
        return
    if isinstance(X, KeptScores):
        scores[:] = X.values
        return
    if not isinstance(X, CentredCSR):
        write_narrow_scores(X, w, limits, scores)
        return
    w = np.append(w[:-1], 0.0)
    for k, limit in enumerate(limits):
        centre, own = np.clip(X.centre, -limit, limit), limit[X.indices]
        # Entries minus what zeros become.
        data = np.clip(X.data - X.centre[X.indices], -own, own) + centre[X.indices]
        rows = X._replace(data=read_only(data.astype(X.data.dtype)), centre=centre)
        predict_all(rows, w, scores[:, k : k + 1])


@njit
def write_narrow_scores(X, w, limits, out):
    """`write_narrow` of dense rows, some at a time."""
    d = X.bounds.shape[0]
    V, u, totals = np.zeros((d + X.intercept, TILE_ROWS)), np.ones(d + 1), np.empty(TILE_ROWS)
    for j in range(d):
        u[j] /= X.bounds[j]
    for start in range(0, out.shape[0], TILE_ROWS):
        size = min(TILE_ROWS, out.shape[0] - start)
        write_columns(X, start, size, u, V)
        for k in range(limits.shape[0]):
            totals[:] = 0.0
            for j in range(d):
                limit = limits[k, j]
                for i in range(TILE_ROWS):
                    totals[i] += w[j] * clip(V[j, i], limit)
            for i in range(size):
                out[start + i, k] = totals[i]
