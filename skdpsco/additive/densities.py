"""Private densities of the columns of a table. Proof: docs/proofs/additive.md, section 1.

Every column is counted on a tree: halves of its range, halves of these, and so on. A node divides
what its parent holds by its own noisy counts as far as noise lets them be believed, so that many
records give a fine density and few records a flat one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from skdpsco.additive.table import ColumnRecords, TableColumn
from skdpsco.data.pieces import MOST_RECORDS_ADDED
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event
from skdpsco.privacy.spending import share_mu

__all__ = [
    "DENSITIES",
    "Density",
    "DensityPlan",
    "Shares",
    "believed",
    "halved",
    "plan_densities",
]


class DensityTuning(NamedTuple):
    """Constants of the counts; examples/benchmarks/additive.py shows the accuracy.

    Parameters
    ----------
    share : float
        Share of mu**2 of all counts.
    fall : float
        Share of a level over that of the level above it, which has half as many nodes.
    levels, closer_levels : int
        Depth of the tree of a column, and of the second one, of columns whose entries lie within a
        few cells.
    steep : float
        The bound of a column over the width around 0 within which cells are equally wide. Beyond,
        their width is in proportion to the distance from 0.
    reach_ratio, most_reach : float
        The n mu, over the root of the number of columns, from which on cells go beyond the bounds
        that were found, for tails; and by which factor at most.
    uneven, empty : float
        Typical difference of the shares of two halves before any count; and the probability that
        one of them is empty.
    few, within : int, float
        A second tree divides so many cells at most, if they hold this share of the entries.
    """

    share: float = 0.08
    fall: float = 0.7
    levels: int = 8
    closer_levels: int = 6
    steep: float = 64.0
    reach_ratio: float = 100.0
    most_reach: float = 8.0
    uneven: float = 0.5
    empty: float = 0.3
    few: int = 8
    within: float = 0.98


DENSITIES = DensityTuning()


class Density(NamedTuple):
    """Where the numbers of a column lie.

    Parameters
    ----------
    edges : ndarray of shape (n_cells + 1,)
    weights : ndarray of shape (n_cells,)
        Shares of the records in the cells.
    zero, missing : float
        Shares of the records whose number is 0, or missing.
    """

    edges: np.ndarray
    weights: np.ndarray
    zero: float
    missing: float


class Shares(NamedTuple):
    """Shares of the records that have each declared value, and of all others."""

    values: np.ndarray
    missing: float


@dataclass(frozen=True)
class DensityPlan:
    """The counts of all columns.

    Parameters
    ----------
    n_samples : int
    columns : tuple of TableColumn
    multipliers : dict of str to float
        Noise multipliers of the counts of every level.
    event : Event
    added : bool
        As in `skdpsco._problem.Problem`.
    """

    n_samples: int
    columns: tuple[TableColumn, ...]
    multipliers: dict[str, float]
    event: Event
    added: bool

    def grid(self, name: str, n_columns: int, n_counts: int) -> float:
        """Grid of the counts of a level, of which a record has one in each of the columns."""
        change = math.sqrt(n_columns * (1.0 if self.added else 2.0))
        most = MOST_RECORDS_ADDED if self.added else self.n_samples
        return gaussian_grid(change, self.multipliers[name], n_counts, float(most))

    def release(
        self,
        records: ColumnRecords,
        ranges: np.ndarray,
        reach: np.ndarray,
        rng: np.random.Generator,
    ) -> list[Density | Shares]:
        """Release a density for every column.

        Parameters
        ----------
        records : ColumnRecords
        ranges : ndarray of shape (number of columns of numbers, 2)
            Numbers beyond their range count in the cells at its ends.
        reach : ndarray of shape (number of columns of numbers,)
            How far the range goes beyond most numbers, as a factor.
        rng : numpy.random.Generator
        """
        n, d = self.n_samples, len(ranges)
        trees = [
            Cells.of(low, high, factor)
            for (low, high), factor in zip(ranges.tolist(), reach.tolist(), strict=True)
        ]
        places = np.column_stack(
            [cells.places(x) for cells, x in zip(trees, records.numbers.T, strict=True)]
            or [np.empty((len(records.codes), 0), np.int64)]
        )
        sizes = [1 + len(column.values) for column in self.columns if column.values]
        first = self.first_counts(records, places, sizes)
        deviation = gaussian_mechanism(
            rng, first, self.grid("level 1", len(self.columns), len(first))
        )
        own = first[: 4 * d].reshape(d, 4)
        missing, zero = (believed(own[:, k], deviation, n) for k in (0, 1))
        rest = np.maximum(n - missing - zero, 0.0)
        weights: list[np.ndarray] = []
        if d:
            halves = halved(rest[:, None], own[:, 2:], deviation)
            weights = [*(whole := self.tree(places, halves, "level", rng))]
            narrow, starts = self.narrow(whole)
            for j, start in zip(narrow, starts, strict=True):
                trees[j] = trees[j].closer(start)
            if len(narrow):
                closer = [trees[j].places(records.numbers[:, j]) for j in narrow]
                total = whole[narrow].sum(axis=1, keepdims=True)
                finer = self.tree(np.column_stack(closer), total, "closer level", rng)
                for j, some in zip(narrow, finer, strict=True):
                    weights[j] = some
        found: list[Density | Shares] = []
        for j in range(d):
            parts = np.append(weights[j], [zero[j], missing[j]])
            parts = parts / max(parts.sum(), 1e-300)
            found.append(Density(trees[j].edges, parts[:-2], float(parts[-2]), float(parts[-1])))
        ends = np.cumsum([4 * d, *sizes])
        others = [category_shares(first[start:end], deviation, n) for start, end in pairwise(ends)]
        numbers_first, others_first = iter(found), iter(others)
        return [next(others_first if c.values else numbers_first) for c in self.columns]

    def first_counts(
        self, records: ColumnRecords, places: np.ndarray, sizes: Sequence[int]
    ) -> np.ndarray:
        """How often numbers are missing, are 0 and lie in each half; and how often values occur."""
        halves = places >> (DENSITIES.levels - 1)
        kinds = np.where(places < 0, places + 2, halves + 2)  # -2: missing, -1: zero
        counts = [np.bincount(column, minlength=4) for column in kinds.T]
        counts += [
            np.bincount(codes + 1, minlength=size)
            for codes, size in zip(records.codes.T, sizes, strict=True)
        ]
        return np.concatenate(counts).astype(np.float64)

    def tree(
        self, places: np.ndarray, weights: np.ndarray, name: str, rng: np.random.Generator
    ) -> np.ndarray:
        """Weights of the cells of some columns, from weights of nodes above and further counts."""
        d = places.shape[1]
        n_levels = DENSITIES.levels if name == "level" else DENSITIES.closer_levels
        while weights.shape[1] < 1 << n_levels:
            n_nodes = 2 * weights.shape[1]
            level = n_nodes.bit_length() - 1
            nodes = np.where(places < 0, n_nodes, places >> (n_levels - level))
            counts = [np.bincount(column, minlength=n_nodes + 1)[:-1] for column in nodes.T]
            noisy = np.concatenate(counts).astype(np.float64)
            grid = self.grid(f"{name} {level}", d, len(noisy))
            deviation = gaussian_mechanism(rng, noisy, grid)
            weights = halved(weights, noisy.reshape(d, -1), deviation)
        return weights

    def narrow(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Columns whose entries lie within a few cells, and the first of these cells."""
        few = DENSITIES.few
        within = np.cumsum(np.pad(weights, ((0, 0), (1, 0))), axis=1)
        sums = within[:, few:] - within[:, :-few]
        found = sums.max(axis=1) >= DENSITIES.within * np.maximum(within[:, -1], 1e-300)
        narrow = np.flatnonzero(found)
        return narrow, sums[narrow].argmax(axis=1)


class Cells(NamedTuple):
    """The cells of a column, between increasing edges."""

    edges: np.ndarray

    @classmethod
    def of(cls, low: float, high: float, reach: float) -> "Cells":
        """Cells between two numbers: finer near 0, if that is one of them or lies between them."""
        if not low <= 0.0 <= high:
            return cls(np.linspace(low, high, (1 << DENSITIES.levels) + 1))
        unit = max(-low, high) / (DENSITIES.steep * reach)
        first, last = math.asinh(low / unit), math.asinh(high / unit)
        edges = np.sinh(np.linspace(first, last, (1 << DENSITIES.levels) + 1)) * unit
        edges[[0, -1]] = low, high
        return cls(edges)

    def places(self, x: np.ndarray) -> np.ndarray:
        """The cell of every number; -1 for 0, and -2 for what is missing."""
        place = np.clip(np.searchsorted(self.edges, x, "right") - 1, 0, len(self.edges) - 2)
        return np.where(np.isnan(x), -2, np.where(x == 0.0, -1, place))

    def closer(self, start: int) -> "Cells":
        """Cells that are equally wide, within a few of these."""
        low, high = self.edges[start], self.edges[start + DENSITIES.few]
        return Cells(np.linspace(low, high, (1 << DENSITIES.closer_levels) + 1))


def halved(weights: np.ndarray, counts: np.ndarray, deviation: float) -> np.ndarray:
    """Weights of the halves of nodes, from noisy counts of these halves, column by column.

    They are expected by a prior of three cases: one half is empty, or the other, or neither.
    """
    difference, noise = counts[:, ::2] - counts[:, 1::2], 2.0 * deviation**2
    usual = np.square(DENSITIES.uneven * weights)
    even = difference * usual / (usual + noise)
    logs = np.stack(
        [
            math.log(DENSITIES.empty) - np.square(difference - weights) / (2.0 * noise),
            math.log(DENSITIES.empty) - np.square(difference + weights) / (2.0 * noise),
            math.log(1.0 - 2.0 * DENSITIES.empty)
            - np.square(difference) / (2.0 * (usual + noise))
            - 0.5 * np.log1p(usual / noise),
        ]
    )
    left, right, both = softmax(logs, axis=0)
    difference = np.clip((left - right) * weights + both * even, -weights, weights)
    pair = np.stack([weights + difference, weights - difference], axis=2)
    return 0.5 * pair.reshape(len(weights), 2 * weights.shape[1])


def believed(counts: np.ndarray, deviation: float, n: int) -> np.ndarray:
    """Counts of values that are rarely seen at all: 0 where they may be noise."""
    return np.where(counts > 3.0 * deviation, np.clip(counts, 0.0, n), 0.0)


def category_shares(counts: np.ndarray, deviation: float, n: int) -> Shares:
    """Shares from noisy counts: as different from each other as noise does not explain."""
    mean = float(n) / len(counts)
    variance = max(float(np.square(counts - mean).mean()) - deviation**2, 0.0)
    missing = believed(counts[:1], deviation, n)
    counts = mean + (counts - mean) * variance / (variance + deviation**2)
    counts = np.append(missing, np.maximum(counts[1:], 0.0))
    shares = counts / max(counts.sum(), 1e-300)
    return Shares(shares[1:], float(shares[0]))


def plan_densities(
    n_samples: int, columns: tuple[TableColumn, ...], mu: float, added: bool
) -> DensityPlan:
    """Spend a share of ``mu**2`` on counts of all columns.

    A record counts once in every column, so that replacing it moves two counts of each.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    names = [f"level {k}" for k in range(1, DENSITIES.levels + 1)]
    names += [f"closer level {k}" for k in range(1, DENSITIES.closer_levels + 1)]
    d = sum(not column.values for column in columns)
    names = names if d else names[:1]
    weights = DENSITIES.fall ** np.arange(len(names))
    shares = (DENSITIES.share * weights / weights.sum()).tolist()
    multipliers, event = share_mu(mu, {n: (s, 1) for n, s in zip(names, shares, strict=True)})
    plan = DensityPlan(n_samples, columns, multipliers, event, added)
    for name in names:  # for all columns, and for one
        plan.grid(name, len(columns), sum(4 + len(c.values) for c in columns) << DENSITIES.levels)
        plan.grid(name, 1, 1)
    return plan
