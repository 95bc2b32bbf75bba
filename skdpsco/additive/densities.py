"""Private densities of the columns of a table. Proof: docs/proofs/additive.md, section 1.

Every column is counted on a tree: quarters of its range, quarters of these, and so on. A node
divides what its parent holds by its own noisy counts as far as noise lets them be believed, so that
many records give a fine density and few records a flat one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from skdpsco.additive.table import TableColumn, codes_of
from skdpsco.data.design import Dense
from skdpsco.data.pieces import MOST_RECORDS_ADDED
from skdpsco.data.record_sums import map_reduce
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event
from skdpsco.privacy.spending import share_mu
from skdpsco.scaling.feature_bounds import FEATURE_BOUNDS, BoundPlan

__all__ = [
    "Density",
    "DensityPlan",
    "Shares",
    "believed",
    "found_ranges",
    "halved",
    "plan_densities",
]


class DensityTuning(NamedTuple):
    """Constants of the counts; examples/benchmarks/field/__main__.py shows the accuracy.

    Parameters
    ----------
    share : float
        Share of mu**2 of all counts.
    fall : float
        Share of a level over that of the level above it.
    levels : int
        Depth of the tree of a column, whose nodes have four parts.
    closer : float
        Share of the counts' mu**2 for a second tree of columns that lie in few cells.
    closer_ratio : float
        The n mu, over the root of the number of columns, from which there is a second tree.
    few_cells, inside : float
        The most cells that are few, and the share of the numbers that lie in them.
    steep : float
        The bound of a column over the width around 0 within which cells are equally wide. Beyond,
        their width is in proportion to the distance from 0.
    reach_ratio, most_reach : float
        The n mu, over the root of the number of columns above which cells go beyond the bounds
        that were found, for tails; and by which factor at most.
    uneven, empty : float
        Typical difference of the shares of two halves from what is expected before any count; and
        half the probability that one of them is empty.
    """

    share: float = 0.16
    fall: float = 0.55
    levels: int = 5
    closer: float = 0.15
    closer_ratio: float = 150.0
    few_cells: int = 32
    inside: float = 0.98
    steep: float = 64.0
    reach_ratio: float = 100.0
    most_reach: float = 8.0
    uneven: float = 0.5
    empty: float = 0.3


DENSITIES = DensityTuning()
QUARTERS = 4  # of a node; two levels of halves would cost twice as much
N_CELLS = QUARTERS**DENSITIES.levels
DENSITY_LEVELS = tuple(f"level {k + 1}" for k in range(DENSITIES.levels))
FINEST = 1e-9  # width of all cells over their distance from 0, so that doubles tell edges apart
CLOSER_LEVELS = tuple(f"closer {name}" for name in DENSITY_LEVELS)


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
    n_samples : int or None
        None if the number of records is private, and follows from the counts.
    columns : tuple of TableColumn
    multipliers : dict of str to float
        Noise multipliers of the counts of every level.
    event : Event
    added : bool
        As in `skdpsco._problem.Problem`.
    """

    n_samples: int | None
    columns: tuple[TableColumn, ...]
    multipliers: dict[str, float]
    event: Event
    added: bool

    def grid(self, name: str, n_columns: int, n_counts: int) -> float:
        """Grid of the counts of a level, of which a record has one in each of the columns."""
        change = math.sqrt(n_columns * (1.0 if self.added else 2.0))
        most = MOST_RECORDS_ADDED if self.added or self.n_samples is None else self.n_samples
        return gaussian_grid(change, self.multipliers[name], n_counts, float(most))

    def release(
        self, X: Any, y: Any, ranges: np.ndarray, found: np.ndarray, rng: np.random.Generator
    ) -> list[Density | Shares]:
        """Release a density for every column.

        Parameters
        ----------
        X, y
            Records, as in `map_reduce`; the ``values`` of `ColumnRecords`.
        ranges : ndarray of shape (number of columns of numbers, 2)
            Numbers beyond their range count in the cells at its ends.
        found : ndarray of shape (number of columns of numbers,)
            The bounds that were found for most numbers; infinite where the range is declared.
        rng : numpy.random.Generator
        """
        d = len(ranges)
        numbers = [j for j, column in enumerate(self.columns) if not column.values]
        others = [j for j, column in enumerate(self.columns) if column.values]
        trees = [
            Cells.of(low, high, bound)
            for (low, high), bound in zip(ranges.tolist(), found.tolist(), strict=True)
        ]
        kinds: list[tuple[int, Any]] = [
            (j, cells.edges) for j, cells in zip(numbers, trees, strict=True)
        ]
        kinds += [(j, len(self.columns[j].values)) for j in others]
        counts = entry_counts(X, y, kinds)
        cells = np.array(counts[:d]).reshape(d, 2 + N_CELLS)
        parts = cells[:, 2:].reshape(d, QUARTERS, N_CELLS // QUARTERS).sum(axis=2)
        first = np.concatenate([np.hstack([cells[:, :2], parts]).ravel(), *counts[d:]])
        deviation = gaussian_mechanism(
            rng, first, self.grid(DENSITY_LEVELS[0], len(self.columns), len(first))
        )
        own = first[: (2 + QUARTERS) * d].reshape(d, 2 + QUARTERS)
        n = max(own.sum() / d, 1.0) if self.n_samples is None else self.n_samples
        missing, zero = (believed(own[:, k], deviation, n) for k in (0, 1))
        rest = np.maximum(n - missing - zero, 0.0)
        weights: list[np.ndarray] = []
        if d:
            pairs = zip(trees, found.tolist(), strict=True)
            expected = np.array([tree.expected(bound) for tree, bound in pairs])
            parts = divided(rest[:, None], own[:, 2:], deviation, expected)
            weights = [*self.tree(DENSITY_LEVELS[1:], cells[:, 2:], parts, rng, expected)]
            if CLOSER_LEVELS[0] in self.multipliers:
                for k, tree, part in self.closer(X, y, numbers, trees, weights, rest, rng):
                    trees[k], weights[k] = tree, part
        known: dict[int, Density | Shares] = {}
        for k, j in enumerate(numbers):
            parts = np.append(weights[k], [zero[k], missing[k]])
            parts = parts / max(parts.sum(), 1e-300)
            known[j] = Density(trees[k].edges, parts[:-2], float(parts[-2]), float(parts[-1]))
        ends = np.cumsum([(2 + QUARTERS) * d, *map(len, counts[d:])])
        for j, (start, end) in zip(others, pairwise(ends), strict=True):
            known[j] = category_shares(first[start:end], deviation, n)
        return [known[j] for j in range(len(self.columns))]

    def closer(
        self,
        X: Any,
        y: Any,
        places: list[int],
        trees: "list[Cells]",
        weights: list[np.ndarray],
        sums: np.ndarray,
        rng: np.random.Generator,
    ) -> "list[tuple[int, Cells, np.ndarray]]":
        """Other cells and their weights for the columns of numbers that lie in few cells.

        ``sums`` has the sums of the weights of all columns of numbers, which are at ``places``.
        """
        pairs = enumerate(zip(trees, weights, strict=True))
        few = {k: cells for k, (tree, part) in pairs if (cells := tree.around(part))}
        if not few:
            return []
        kinds = [(places[k], cells.edges) for k, cells in few.items()]
        counts = np.array(entry_counts(X, y, kinds))[:, 2:]
        expected = np.array([cells.expected(math.inf) for cells in few.values()])
        parts = self.tree(CLOSER_LEVELS, counts, sums[[*few], None], rng, expected)
        return [(k, few[k], part) for k, part in zip(few, parts, strict=True)]

    def tree(
        self,
        levels: tuple[str, ...],
        counts: np.ndarray,
        weights: np.ndarray,
        rng: np.random.Generator,
        expected: np.ndarray,
    ) -> np.ndarray:
        """Weights of the cells of some columns, from their counts and the weights above ``levels``.

        ``expected`` has the weights of cells before any count.
        """
        d = len(counts)
        for level in levels:
            noisy = counts.reshape(d * QUARTERS * weights.shape[1], -1).sum(axis=1)
            deviation = gaussian_mechanism(rng, noisy, self.grid(level, d, len(noisy)))
            weights = divided(weights, noisy.reshape(d, -1), deviation, expected)
        return weights


class Cells(NamedTuple):
    """The cells of a column, between increasing edges."""

    edges: np.ndarray

    @classmethod
    def of(cls, low: float, high: float, found: float) -> "Cells":
        """Cells between two numbers: finer near 0, if that is one of them or lies between them.

        ``found`` is the bound of most numbers, or infinite.
        """
        if not low <= 0.0 <= high:
            return cls(np.linspace(low, high, N_CELLS + 1))
        unit = min(found, max(-low, high)) / DENSITIES.steep
        first, last = math.asinh(low / unit), math.asinh(high / unit)
        edges = np.sinh(np.linspace(first, last, N_CELLS + 1)) * unit
        edges[[0, -1]] = low, high
        return cls(edges)

    def around(self, weights: np.ndarray) -> "Cells | None":
        """As many cells where a few hold most of the weights; None if it takes more of them."""
        up_to = np.append(0.0, weights.cumsum()) / max(float(weights.sum()), 1e-300)
        last = np.searchsorted(up_to, up_to + DENSITIES.inside)  # beyond the end: there is none
        first = int((last - np.arange(len(last)) + (last > N_CELLS) * N_CELLS).argmin())
        if last[first] > min(first + DENSITIES.few_cells, N_CELLS):
            return None
        low, high = self.edges[[max(first - 1, 0), min(last[first] + 1, N_CELLS)]].tolist()
        finest = FINEST * max(abs(low), abs(high))
        return Cells(np.linspace(low, high, N_CELLS + 1)) if high - low > finest else None

    def expected(self, found: float) -> np.ndarray:
        """Weights of the cells before any count.

        They are those of Student's law with two degrees of freedom, of the size that a bound which
        was ``found`` suggests; if it is infinite, those of equally likely numbers.
        """
        size, x = found / 2.0**FEATURE_BOUNDS.room, self.edges
        return np.diff(x if math.isinf(size) else x / np.hypot(x, size))


def found_ranges(
    plan: BoundPlan, X: Any, y: Any, ratio: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Ranges of undeclared columns, which reach beyond released bounds for tails, and these bounds.

    How far they reach follows from ``ratio``, the n mu of the fit over the root of the number of
    columns.
    """
    found = plan.release(X, y, rng)
    reach = max(min(ratio / DENSITIES.reach_ratio, DENSITIES.most_reach), 1.0)
    return (reach * found)[:, None] * np.array([-1.0, 1.0]), found


def entry_counts(X: Any, y: Any, kinds: Sequence[tuple[int, Any]]) -> list[np.ndarray]:
    """Counts of some columns, given by their places; see `count_entries`."""
    sizes = [1 + kind if isinstance(kind, int) else 1 + len(kind) for _, kind in kinds]
    return np.split(map_reduce(X, y, count_entries, tuple(kinds)), np.cumsum(sizes)[:-1])


def count_entries(X: Dense, y: Any, kinds: tuple[tuple[int, Any], ...]) -> np.ndarray:
    """How many entries of every column are missing, are 0 and lie in each of the cells.

    Cells are given by their edges. Of a column of categories, given by their number, it counts how
    many entries are missing and are each of them.
    """
    found = []
    for j, kind in kinds:
        x = X.values[:, j]
        if isinstance(kind, int):
            found.append(np.bincount(codes_of(x) + 1, minlength=1 + kind))
            continue
        place = np.clip(np.searchsorted(kind, x, "right") + 1, 2, len(kind))
        place = np.where(np.isnan(x), 0, np.where(x == 0.0, 1, place))
        found.append(np.bincount(place, minlength=1 + len(kind)))
    return np.concatenate(found).astype(np.float64)


def lean(weights: np.ndarray, n_nodes: int) -> np.ndarray:
    """Differences of the halves of nodes over their sums, from weights of cells."""
    parts = weights.reshape(len(weights), n_nodes, -1).sum(axis=2)
    left, right = parts[:, ::2], parts[:, 1::2]
    found: np.ndarray = (left - right) / np.maximum(left + right, 1e-300)
    return found


def divided(
    weights: np.ndarray, counts: np.ndarray, deviation: float, expected: np.ndarray
) -> np.ndarray:
    """Weights of parts of nodes, half by half, from noisy counts of the parts."""
    d, n = counts.shape
    while weights.shape[1] < n:
        n_nodes = 2 * weights.shape[1]
        sums = counts.reshape(d, n_nodes, -1).sum(axis=2)
        noise = deviation * math.sqrt(n / n_nodes)
        weights = halved(weights, sums, noise, lean(expected, n_nodes))
    return weights


def halved(
    weights: np.ndarray, counts: np.ndarray, deviation: float, expected: Any = 0.0
) -> np.ndarray:
    """Weights of the halves of nodes, from noisy counts of these halves, column by column.

    They follow from a prior of three cases: one half is empty, or the other, or neither. On average
    the halves differ by the part ``expected`` of their sum.
    """
    difference, noise = counts[:, ::2] - counts[:, 1::2], 2.0 * deviation**2
    usual = np.square(DENSITIES.uneven * weights) * (1.0 - np.square(expected))
    beyond = difference - expected * weights
    even = expected * weights + beyond * usual / (usual + noise)
    likely = [np.maximum(DENSITIES.empty * (1.0 + s * expected), 1e-300) for s in (1.0, -1.0)]
    logs = np.stack(
        [
            np.log(likely[0]) - np.square(difference - weights) / (2.0 * noise),
            np.log(likely[1]) - np.square(difference + weights) / (2.0 * noise),
            math.log(1.0 - 2.0 * DENSITIES.empty)
            - np.square(beyond) / (2.0 * (usual + noise))
            - 0.5 * np.log1p(usual / noise),
        ]
    )
    left, right, both = softmax(logs, axis=0)
    difference = np.clip((left - right) * weights + both * even, -weights, weights)
    pair = np.stack([weights + difference, weights - difference], axis=2)
    return 0.5 * pair.reshape(len(weights), 2 * weights.shape[1])


def believed(counts: np.ndarray, deviation: float, n: float) -> np.ndarray:
    """Counts of values that are rarely seen at all: 0 where they may be noise."""
    return np.where(counts > 3.0 * deviation, np.clip(counts, 0.0, n), 0.0)


def category_shares(counts: np.ndarray, deviation: float, n: float) -> Shares:
    """Shares from noisy counts: as different from each other as noise does not explain."""
    mean = n / len(counts)
    variance = max(float(np.square(counts - mean).mean()) - deviation**2, 0.0)
    missing = believed(counts[:1], deviation, n)
    counts = mean + (counts - mean) * variance / (variance + deviation**2)
    counts = np.append(missing, np.maximum(counts[1:], 0.0))
    shares = counts / max(counts.sum(), 1e-300)
    return Shares(shares[1:], float(shares[0]))


def plan_densities(
    n_samples: int | None,
    columns: tuple[TableColumn, ...],
    mu: float,
    added: bool,
    share: float = DENSITIES.share,
) -> DensityPlan:
    """Spend a share of ``mu**2`` on counts of all columns.

    A record counts once in every column, so that replacing it moves two counts of each.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    d = sum(not column.values for column in columns)
    n_mu = math.inf if n_samples is None else n_samples * mu
    names = DENSITY_LEVELS if d else DENSITY_LEVELS[:1]
    if d and n_mu >= DENSITIES.closer_ratio * math.sqrt(len(columns)):
        names += CLOSER_LEVELS
    weights = DENSITIES.fall ** (np.arange(len(names)) % DENSITIES.levels)
    weights[DENSITIES.levels :] *= DENSITIES.closer / (1.0 - DENSITIES.closer)
    shares = (share * weights / weights.sum()).tolist()
    multipliers, event = share_mu(mu, {n: (s, 1) for n, s in zip(names, shares, strict=True)})
    plan = DensityPlan(n_samples, columns, multipliers, event, added)
    for name in names:  # for all columns, and for one
        plan.grid(name, len(columns), N_CELLS * sum(2 + QUARTERS + len(c.values) for c in columns))
        plan.grid(name, 1, 1)
    return plan
