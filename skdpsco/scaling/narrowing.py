"""Intervals of columns far from 0, in which features are then conditioned.

Proof: docs/proofs/conditioning.md, "Columns far from 0". Every release counts, column by column,
the entries that are farther from a point than a limit.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._clipping import clip
from skdpsco._kernels import njit, reduction
from skdpsco.data.design import Dense, read_only
from skdpsco.data.record_sums import in_pieces, map_reduce, without_gil
from skdpsco.mechanisms.samplers import deviation_on, gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event
from skdpsco.privacy.spending import share_mu

__all__ = ["Narrowing", "plan_narrowing"]


class NarrowingTuning(NamedTuple):
    """Constants of the search; docs/proofs/conditioning.md says what was measured with them.

    Parameters
    ----------
    far_share, search_share : float
        Largest shares of mu**2 for the counts that tell which columns are far from 0, and for the
        search for their intervals.
    noise : float
        Largest standard deviation of a count, over the number of records.
    plenty : float
        Shares become no larger than this multiple of what all columns need.
    distance : float
        The entries of a column far from 0 are farther than this, in units of its bound.
    left : float
        Largest share of these columns that are left as they are because noise does not allow more
        searches. If more had to be left, all are: they would be short beside the others.
    n_centres, least_centres, n_widths : int
        Number of counts by which medians are found, at most and at least, and of those for widths;
        k counts search among 2**k.
    tail, sure : float
        Share of the entries that may be farther from the median than the width, and the number of
        standard deviations that noise hardly exceeds.
    room : float
        How much wider the interval is, over the share of these entries.
    outside, most_outside : float
        Share of the entries that may be outside of the interval, or near 0, if there is little
        noise, and if there is much.
    narrow : float
        Wider intervals are no obstacle to anything, and columns are left as they are.
    """

    far_share: float = 0.01
    search_share: float = 0.02
    noise: float = 0.1
    plenty: float = 10.0
    distance: float = 0.1
    left: float = 0.25
    n_centres: int = 24
    least_centres: int = 12
    n_widths: int = 5
    tail: float = 0.1
    sure: float = 5.0
    room: float = 40.0
    outside: float = 0.02
    most_outside: float = 0.25
    narrow: float = 0.125


NARROWING = NarrowingTuning()


class SomeColumns(NamedTuple):
    """Some columns of records in arrays or blocks, by their places in increasing order."""

    X: Any
    y: Any
    places: np.ndarray


@dataclass(frozen=True)
class Narrowing:
    """How columns far from 0, their medians and their widths are found.

    Parameters
    ----------
    event : Event
    n_samples, n_features : int
    multipliers : dict
        Noise multipliers by the names of the parts, ``far`` and ``search``.
    share : float
        Share of mu**2 for all releases.
    growth : float, default=1.0
        How much wider intervals are where there is little noise, as the range of features is then.
    """

    event: Event
    n_samples: int
    n_features: int
    multipliers: dict[str, float]
    share: float
    growth: float = 1.0

    def release(self, X: Any, y: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Release centres and half widths of intervals, 0 and 1 for columns that stay as they are.

        Both are in units of the bounds.
        """
        centre, width = np.zeros(self.n_features), np.ones(self.n_features)
        far = self._far(SomeColumns(in_pieces(X, y), y, np.arange(self.n_features)), rng)
        if len(far) > 0:
            medians, widths, narrow = self._search(some_columns(X, y, far), rng)
            centre[far[narrow]], width[far[narrow]] = medians[narrow], widths[narrow]
        return centre, width

    def _far(self, columns: SomeColumns, rng: np.random.Generator) -> np.ndarray:
        """Places, in order, of the columns whose intervals are searched for."""
        d, grid = self.n_features, self.grid("far", self.n_features)
        counts = farther(columns, np.zeros(d), np.full(d, NARROWING.distance), grid, rng)
        far = np.flatnonzero(counts >= self.n_samples - self.outside(grid))
        if self.most_columns < (1.0 - NARROWING.left) * len(far):
            return far[:0]
        most = np.argsort(-counts[far], kind="stable")[: self.most_columns]
        return np.sort(far[most])

    def _search(self, columns: SomeColumns, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Medians and widths of columns, and which of these are narrow."""
        n, k = self.n_samples, len(columns.places)
        n_centres = min(math.floor(self.worth / k) - NARROWING.n_widths - 1, NARROWING.n_centres)
        grid = self.grid("search", k, n_centres + NARROWING.n_widths + 1)
        # The smallest number that at most half of the entries exceed.
        lowest, steps, size = np.full(k, -1.0), np.zeros(k), 2.0
        for _ in range(n_centres):
            size /= 2.0
            steps += size * (farther(columns, lowest, steps + size, grid, rng) > n / 2.0)
        medians = lowest + steps + size / 2.0
        # The smallest power of two that few entries are farther away.
        few = max(NARROWING.tail * n, NARROWING.sure * deviation_on(grid))
        step = 2.0**NARROWING.n_widths
        powers = np.full(k, -step)
        for _ in range(NARROWING.n_widths):
            step /= 2.0
            powers += step * (farther(columns, medians, 2.0 ** (powers + step), grid, rng) > few)
        widths = 2.0 ** (powers + 1.0)
        # Most entries of others are equal, as in columns of zeros and ones.
        spread = widths > size
        widths *= NARROWING.room * few / n
        # With little noise there is more room for tails, but no column stays far from 0 for it.
        widths = np.maximum(widths, np.minimum(self.growth * widths, NARROWING.narrow))
        inside = farther(columns, medians, widths, grid, rng) <= self.outside(grid)
        return medians, widths, spread & inside & (widths <= NARROWING.narrow)

    def outside(self, grid: float) -> float:
        """Number of entries that may be outside, given the noise of their count."""
        n, likely = self.n_samples, NARROWING.sure * deviation_on(grid)
        return max(NARROWING.outside * n, min(likely, NARROWING.most_outside * n))

    @property
    def worth(self) -> float:
        """How many counts of a single column the search may pay for."""
        return (NARROWING.noise * self.n_samples / self.multipliers["search"]) ** 2

    @property
    def most_columns(self) -> int:
        """The largest number of columns whose intervals are searched for."""
        return math.floor(self.worth / (NARROWING.least_centres + NARROWING.n_widths + 1))

    @property
    def least_width(self) -> float:
        """The smallest one that may be found."""
        return 2.0 ** (2 - NARROWING.n_centres) * NARROWING.room * NARROWING.tail

    def grid(self, part: str, n_columns: int, n_counts: int = 1) -> float:
        """The grid of each of so many counts of so many columns, which share a multiplier."""
        multiplier = math.sqrt(n_counts) * self.multipliers[part]
        return gaussian_grid(math.sqrt(n_columns), multiplier, n_columns, self.n_samples)


def plan_narrowing(
    n_samples: int, n_features: int, mu: float, growth: float = 1.0
) -> Narrowing | None:
    """Spend a small share of ``mu**2`` on columns far from 0; None if that would tell nothing.

    ``growth`` is that of `Narrowing`.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    n, d, tuning = n_samples, n_features, NARROWING
    n_counts = tuning.n_centres + tuning.n_widths + 1
    each = d * (tuning.noise * n * mu) ** -2.0  # share that one count of all columns needs
    parts = {
        "far": (min(tuning.far_share, tuning.plenty * each), 1),
        "search": (min(tuning.search_share, tuning.plenty * each * n_counts), 1),
    }
    multipliers, event = share_mu(mu, parts)
    share = sum(share for share, _ in parts.values())
    narrowing = Narrowing(event, n, d, multipliers, share, growth)
    if tuning.far_share < each or narrowing.most_columns < 1:
        return None
    for part in parts:  # fewer columns and counts have grids, too
        narrowing.grid(part, d, n_counts)
    return narrowing


def some_columns(X: Any, y: Any, places: np.ndarray) -> SomeColumns:
    """Some columns; those in arrays are copied once, since they are read again and again."""
    if isinstance(X, Dense):
        X, places = chosen_columns(X, places), np.arange(len(places))
    return SomeColumns(in_pieces(X, y), y, places)


def chosen_columns(X: Dense, places: np.ndarray) -> Dense:
    """A copy of some columns, or X itself if these are all."""
    if len(places) == len(X.bounds):
        return X
    return Dense(read_only(np.ascontiguousarray(X.values[:, places])), X.bounds[places], 0)


def farther(
    columns: SomeColumns,
    centres: np.ndarray,
    limits: np.ndarray,
    grid: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Release how many entries of each column are farther from its centre than its limit."""
    counts = map_reduce(columns.X, columns.y, count_farther, columns.places, centres, limits)
    gaussian_mechanism(rng, counts, grid)
    return counts


@without_gil
def count_farther(
    X: Dense, y: Any, places: np.ndarray, centres: np.ndarray, limits: np.ndarray
) -> np.ndarray:
    """How many entries of columns are farther from ``centres`` than ``limits``."""
    counts = np.zeros(len(places))
    add_farther(chosen_columns(X, places), centres, limits, counts)
    return counts


@reduction
def _add_farther(values, i, bounds, over, centres, limits, counts):
    for j in range(bounds.shape[0]):
        far = abs(clip(values[i, j], bounds[j]) * over[j] - centres[j]) > limits[j]
        counts[j] += 1.0 if far else 0.0


@njit
def add_farther(X, centres, limits, counts):
    """Add the numbers of `count_farther`, of all columns."""
    over = 1.0 / X.bounds
    for i in range(X.values.shape[0]):
        _add_farther(X.values, i, X.bounds, over, centres, limits, counts)
