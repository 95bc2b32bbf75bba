"""Short intervals that hold columns far from 0, in which features are then conditioned.

Proof: docs/proofs/conditioning.md, "Columns far from 0".
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._clipping import clip
from skdpsco._kernels import njit
from skdpsco.data.design import Dense, read_only
from skdpsco.data.record_sums import in_pieces, map_reduce, without_gil
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event
from skdpsco.privacy.spending import share_mu

__all__ = ["LEAST_WIDTH", "Narrowing", "plan_narrowing"]


class NarrowingTuning(NamedTuple):
    """Constants of the search, fitted on the laws of examples/benchmarks/laws/columns.py.

    Parameters
    ----------
    n_rounds, n_parts : int
        Number of histograms, each of which divides the short intervals of the one before it into so
        many equal parts.
    share, plenty : float
        Largest share of mu**2 of all histograms; and by how much the noise of a count is then below
        the number of records.
    most : float
        How often more than that share all histograms may need before they tell nothing.
    sure : float
        Deviations of the noise above which a part certainly holds entries.
    inside : float
        Share of the entries that a short interval holds.
    narrow : float
        Largest width of a short interval, over that of the interval before it.
    """

    n_rounds: int = 4
    n_parts: int = 128
    share: float = 0.03
    plenty: float = 40.0
    most: float = 16.0
    sure: float = 4.5
    inside: float = 0.98
    narrow: float = 0.2


NARROWING = NarrowingTuning()
LEAST_WIDTH = 2.0 * (2.0 / NARROWING.n_parts) ** NARROWING.n_rounds  # that may be found


@dataclass(frozen=True)
class Narrowing:
    """Histograms of all columns at once.

    Parameters
    ----------
    event : Event
    n_samples, n_features : int
    multiplier : float
        Noise multiplier of one histogram.
    share : float
        Share of mu**2 for all of them.
    """

    event: Event
    n_samples: int
    n_features: int
    multiplier: float
    share: float

    def release(self, X: Any, y: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Release centres and half widths of intervals, 0 and 1 for columns that stay as they are.

        Both are in units of the bounds.
        """
        far = np.arange(self.n_features)
        low, width = np.full(self.n_features, -1.0), np.full(self.n_features, 2.0)
        alike = np.zeros(self.n_features, dtype=bool)
        before = low.copy(), width.copy()
        for t in range(NARROWING.n_rounds):
            part = width[far] / NARROWING.n_parts
            records = in_pieces(some_columns(X, far), y)
            counts = map_reduce(records, y, counts_of_parts, far, low[far], part)
            deviation = gaussian_mechanism(rng, counts, self.grid(len(far)))
            counts = counts.reshape(len(far), -1)
            certain, first, last = self.intervals(counts, deviation)
            # Most entries may be equal, as in columns of ones.
            most = NARROWING.inside * self.n_samples - 3.0 * deviation
            alike[far] = counts.max(axis=1) >= most
            start, stop = low[far] + first * part, low[far] + last * part
            short = (last > first) & ((start >= 0.0) | (stop <= 0.0))
            if t > 0:  # many entries are outside of intervals that are too short
                crossed = certain[:, 0] | certain[:, -1]
                for now, earlier in zip((low, width), before, strict=True):
                    now[far[crossed]] = earlier[far[crossed]]
                short &= ~crossed
            before = low.copy(), width.copy()
            far = far[short]
            low[far], width[far] = start[short], (stop - start)[short]
            if len(far) == 0:
                break
        found = (width < 2.0) & ~alike
        return np.where(found, low + width / 2.0, 0.0), np.where(found, width / 2.0, 1.0)

    def grid(self, n_columns: int) -> float:
        """Grid of the counts of so many columns, of which a record moves two in each."""
        change, n_counts = math.sqrt(2.0 * n_columns), n_columns * NARROWING.n_parts
        return gaussian_grid(change, self.multiplier, n_counts, self.n_samples)

    def intervals(
        self, counts: np.ndarray, deviation: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Parts that certainly hold entries, and first part and end of the short interval.

        The latter are 0 and 0 for columns that have none.
        """
        n, found = self.n_samples, np.zeros((2, len(counts)), dtype=np.int64)
        certain = counts > max(NARROWING.sure * deviation, (1.0 - NARROWING.inside) * n)
        for j in np.flatnonzero(certain.any(axis=1)):
            places = np.flatnonzero(certain[j])
            beside = places[-1] - places[0] + 1  # as many on both sides, for tails
            first, last = max(places[0] - beside, 0), places[-1] + 1 + beside
            noise = 4.0 * math.sqrt(last - first) * deviation
            holds = counts[j, first:last].sum() + noise >= NARROWING.inside * n
            if holds and last - first <= NARROWING.narrow * NARROWING.n_parts:
                found[:, j] = first, last
        return certain, found[0], found[1]


def plan_narrowing(n_samples: int, n_features: int, mu: float) -> Narrowing | None:
    """Spend a small share of ``mu**2`` on columns far from 0; None if that would tell nothing."""
    n, d, tuning = n_samples, n_features, NARROWING
    share = 2.0 * d * tuning.n_rounds * (tuning.plenty / (n * mu)) ** 2
    # Rounding, which grows with the root of d, would take a grid that is finer.
    least = tuning.n_rounds * d / (2.0**18 * mu) ** 2
    # With as much noise as this, the few parts of a short interval could not be told from others.
    if max(share / tuning.most, least) > tuning.share:
        return None
    share = max(min(share, tuning.share), least)
    multiplier, event = share_mu(mu, {"counts": (share / tuning.n_rounds, tuning.n_rounds)})
    narrowing = Narrowing(event, n, d, multiplier["counts"], share)
    narrowing.grid(d)  # fewer columns have a grid, too
    return narrowing


def some_columns(X: Any, places: np.ndarray) -> Any:
    """A copy of some columns of an array, which is read again; X itself if these are all."""
    if not isinstance(X, Dense) or len(places) == len(X.bounds):
        return X
    return Dense(read_only(np.ascontiguousarray(X.values[:, places])), X.bounds[places], 0)


@without_gil
def counts_of_parts(
    X: Dense, y: Any, places: np.ndarray, low: np.ndarray, part: np.ndarray
) -> np.ndarray:
    """How many entries are in each part of the interval of their column, flat."""
    counts = np.zeros((len(low), NARROWING.n_parts))
    add_to_parts(some_columns(X, places), low, 1.0 / part, counts)
    return counts.ravel()


@njit
def add_to_parts(X, low, over, counts):
    """Count every entry; one outside of the interval counts in the nearest part."""
    d, last = counts.shape[0], counts.shape[1] - 1.0
    unit, places = 1.0 / X.bounds, np.empty(d, np.int64)
    for i in range(X.values.shape[0]):
        for j in range(d):  # many at a time, which the counts would forbid
            place = (clip(X.values[i, j], X.bounds[j]) * unit[j] - low[j]) * over[j]
            places[j] = int(min(max(place, 0.0), last))
        for j in range(d):
            counts[j, np.uint64(places[j])] += 1.0
