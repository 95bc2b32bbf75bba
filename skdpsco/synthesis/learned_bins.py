"""Bins of about equal shares, found privately. Proof: docs/proofs/measure_project.md, section 6.

Every column is counted in cells, in halves of these, and so on. A node divides what its parent
holds by its own noisy counts as far as noise lets them be believed.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from skdpsco.additive.densities import believed, halved
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event
from skdpsco.privacy.spending import share_mu
from skdpsco.solvers.synthesis.workload import count_tables
from skdpsco.synthesis.bins import FINE_BINS, Bins, MergedBins
from skdpsco.synthesis.domain import Domain

__all__ = ["plan_bins"]


class LearningTuning(NamedTuple):
    """Constants of the counts; examples/benchmarks/synthetic_tables.py shows the accuracy.

    Parameters
    ----------
    share : float
        Share of mu**2.
    """

    share: float = 0.05


LEARNING = LearningTuning()
TREE_LEVELS = FINE_BINS.bit_length() - 1


@dataclass(frozen=True)
class BinsPlan:
    """Counts of some columns, all in one release.

    Parameters
    ----------
    n_samples : int
    columns : tuple of int
        The columns whose bins are found.
    event : Event
    grid : float
        Grid of the noise, in records.
    """

    n_samples: int
    columns: tuple[int, ...]
    event: Event
    grid: float

    def release(self, codes: Any, domain: Domain, rng: np.random.Generator) -> Domain:
        """Find the bins of all columns.

        Parameters
        ----------
        codes : ndarray or CodeBlocks
            Codes of the fine bins.
        domain : Domain
            Its merged bins are replaced.
        rng : numpy.random.Generator
        """
        fine = [domain.entries[j].fine for j in self.columns]
        tables = count_tables(codes, [(j,) for j in self.columns], domain.fine.shape)
        parts = []
        for bins, table in zip(fine, tables, strict=True):
            cells = np.zeros(FINE_BINS, dtype=table.dtype)
            cells[_leaves(bins)] = table[: bins.n_intervals]
            levels = [cells.reshape(2**k, -1).sum(axis=1) for k in range(1, TREE_LEVELS + 1)]
            parts += [*levels, table[bins.n_intervals :]]
        noisy = np.concatenate(parts).astype(np.float64)
        deviation = gaussian_mechanism(rng, noisy, self.grid)
        found = iter(np.split(noisy, np.cumsum([len(part) for part in parts[:-1]])))
        entries = list(domain.entries)
        for j, bins in zip(self.columns, fine, strict=True):
            levels = [next(found) for _ in range(TREE_LEVELS)]
            others = believed(next(found), deviation, self.n_samples).sum()
            weights = np.array([[max(self.n_samples - others, 0.0)]])
            for counts in levels:
                weights = halved(weights, counts[None], deviation)
            found_weights = np.add.reduceat(weights[0], _leaves(bins))
            entries[j] = replace(domain.entries[j], weights=found_weights)
        return replace(domain, entries=entries)


def _leaves(bins: Bins) -> np.ndarray:
    """The leaves of the tree in which the numbers between edges are counted."""
    return np.arange(bins.n_intervals) * FINE_BINS // bins.n_intervals


def plan_bins(n_samples: int, domain: Domain, mu: float) -> BinsPlan:
    """Spend a share of ``mu**2`` on the bins of all columns that have merged ones.

    A record counts once in every column at every level, so replacing it moves two counts of each.

    Raises
    ------
    ValueError
        If the noise is too large for the grid.
    """
    merged = {j: e.fine for j, e in enumerate(domain.entries) if isinstance(e, MergedBins)}
    multiplier, event = share_mu(mu, {"counts": (LEARNING.share, 1)})
    n_counts = sum(2 * FINE_BINS + bins.size for bins in merged.values())
    change = math.sqrt(2.0 * len(merged) * TREE_LEVELS)
    grid = gaussian_grid(change, multiplier["counts"], n_counts, float(n_samples))
    return BinsPlan(n_samples, tuple(merged), event, grid)
