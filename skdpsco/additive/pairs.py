"""Functions of two columns, and a private choice of pairs.

Proof: docs/proofs/additive.md, section 4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from skdpsco.additive.shapes import ShapeFunction, roughness_of
from skdpsco.additive.table import TableColumn
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism, summation_error
from skdpsco.privacy import Event, NoOpEvent
from skdpsco.privacy.spending import share_mu

__all__ = ["PairFunction", "PairPlan", "Products", "plan_pairs"]


class PairTuning(NamedTuple):
    """Constants of pairs; examples/benchmarks/additive.py shows the accuracy.

    Parameters
    ----------
    share : float
        Share of mu**2 of the choice.
    ratio : float
        The n mu, over the root of the number of columns, for every pair that may be chosen.
    most : int
        Largest number of pairs.
    widest : int
        Largest number of products of a pair.
    least_variance : float
        Least variance of a function that has products, in that of the smoothest.
    sure : float
        Standard deviations by which a pair must exceed its noise.
    """

    share: float = 0.05
    ratio: float = 500.0
    most: int = 20
    widest: int = 36
    least_variance: float = 0.3
    sure: float = 3.0


PAIRS = PairTuning()


class PairFunction(NamedTuple):
    """What two columns together add to a prediction, besides what each of them adds.

    Parameters
    ----------
    first, second : ShapeFunction
        Functions of both columns.
    weights : ndarray of shape (n_first, n_second, n_outputs)
        Coefficients of the products of these functions.
    """

    first: ShapeFunction
    second: ShapeFunction
    weights: np.ndarray

    def of(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Values for numbers or codes of both columns, of shape (n_samples, n_outputs)."""
        return self._combined(self.first.of(first), self.second.of(second), "ni,nj,ijk->nk")

    @property
    def values(self) -> np.ndarray:
        """Values at all knots or categories of both, of shape (n_first, n_second, n_outputs)."""
        return self._combined(self.first.values, self.second.values, "ai,bj,ijk->abk")

    def _combined(self, first: np.ndarray, second: np.ndarray, places: str) -> np.ndarray:
        found: np.ndarray = np.einsum(places, first, second, self.weights, optimize=True)
        return found


class Products(NamedTuple):
    """The features of the chosen pairs: products of functions of two columns.

    Parameters
    ----------
    pairs : tuple of (int, int)
        Places of the columns; there may be fewer than slots.
    parts : tuple of ShapeFunction
        The functions of every column that have products.
    widths : tuple of int
        Number of features of every slot.
    """

    pairs: tuple[tuple[int, int], ...]
    parts: tuple[ShapeFunction, ...]
    widths: tuple[int, ...]

    @property
    def largest(self) -> float:
        """The largest magnitude of any feature."""
        return max(
            (self.parts[i].largest * self.parts[j].largest for i, j in self.pairs), default=0.0
        )

    def encode(self, columns: Sequence[np.ndarray], out: np.ndarray) -> None:
        """Write the features of the records."""
        out[:] = 0.0
        start = 0
        for (i, j), width in zip(self.pairs, self.widths, strict=False):
            rows = self.parts[i].of(columns[i])[:, :, None] * self.parts[j].of(columns[j])[:, None]
            rows = rows.reshape(len(out), -1)
            out[:, start : start + rows.shape[1]] = rows
            start += width

    def variances(self, of_columns: Sequence[np.ndarray]) -> np.ndarray:
        """Variances of the features, if columns were independent."""
        out, start = np.zeros(sum(self.widths)), 0
        for (i, j), width in zip(self.pairs, self.widths, strict=False):
            own = np.outer(of_columns[i], of_columns[j]).ravel()
            out[start : start + len(own)] = own
            start += width
        return out

    def combined(self, coef: np.ndarray) -> tuple[PairFunction, ...]:
        """The function of every pair, for coefficients of shape (n_outputs, n_features)."""
        found, start = [], 0
        for (i, j), width in zip(self.pairs, self.widths, strict=False):
            shape = self.parts[i].values.shape[1], self.parts[j].values.shape[1]
            own = coef[:, start : start + shape[0] * shape[1]].T.reshape(*shape, -1)
            found.append(PairFunction(self.parts[i], self.parts[j], own))
            start += width
        return tuple(found)


@dataclass(frozen=True)
class PairPlan:
    """Which pairs there may be, and how they are chosen.

    Parameters
    ----------
    n_samples : int
    candidates : tuple of (int, int)
        Places of the columns; all of them are taken if nothing is released.
    counts : tuple of int
        Number of functions of every column that have products.
    widths : tuple of int
        Number of features of every pair that is taken.
    event : Event
    multipliers : dict of str to float
        Noise multipliers; none if nothing is released.
    """

    n_samples: int
    candidates: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]
    widths: tuple[int, ...]
    event: Event
    multipliers: dict[str, float]

    def release(
        self, parts: Sequence[ShapeFunction], columns: Sequence[np.ndarray], y: Any, rng: Any
    ) -> Products:
        """Choose pairs by what their products have in common with the targets ``y``."""
        pairs: tuple[tuple[int, int], ...] = self.candidates
        parts = tuple(leading(part, k) for part, k in zip(parts, self.counts, strict=True))
        if self.multipliers:
            used = sorted({j for pair in pairs for j in pair})
            values = {j: parts[j].of(columns[j]) for j in used}
            pairs = self.chosen(values, np.clip(y, -1.0, 1.0), rng)
        return Products(pairs, parts, self.widths)

    def chosen(
        self, values: dict[int, np.ndarray], y: np.ndarray, rng: np.random.Generator
    ) -> tuple[tuple[int, int], ...]:
        """The pairs whose sums of products with centred targets exceed their noise the most."""
        n = self.n_samples
        total = y.sum(keepdims=True)
        gaussian_mechanism(rng, total, self.grid("mean", 1))
        residual = np.clip(y - np.clip(total[0] / n, -1.0, 1.0), -1.0, 1.0)
        squares = {j: np.square(v).sum(axis=1) for j, v in values.items()}
        lengths = np.sqrt(sum(squares[i] * squares[j] for i, j in self.candidates))
        # Independent columns of variance 1 have products of such a length.
        limit = math.sqrt(sum(self.counts[i] * self.counts[j] for i, j in self.candidates))
        weights = (residual / np.maximum(lengths, limit))[:, None]
        weighted = {j: weights * v for j, v in values.items()}
        sums = [(values[i].T @ weighted[j]).ravel() for i, j in self.candidates]
        noisy = np.concatenate(sums)
        deviation = gaussian_mechanism(rng, noisy, self.grid("pairs", len(noisy)))
        ends = np.cumsum([len(one) for one in sums])
        found = []
        for pair, own in zip(self.candidates, np.split(noisy, ends[:-1]), strict=True):
            beyond = float(own @ own) / deviation**2 - len(own)
            if beyond > PAIRS.sure * math.sqrt(2.0 * len(own)):
                found.append((beyond, pair))
        best = sorted(found, reverse=True)[: len(self.widths)]
        return tuple(pair for _, pair in best)

    def grid(self, name: str, dimension: int) -> float:
        """Grid of the sum of targets, or of products with them that have length 1 at most."""
        slack = 1.0 + (dimension + 8) * 2.0**-50
        change = 2.0 * slack + 2.0 * summation_error(self.n_samples, slack)
        return gaussian_grid(change, self.multipliers[name], dimension, self.n_samples * slack)


def leading(part: ShapeFunction, n_functions: int) -> ShapeFunction:
    """The first functions of a column."""
    return part.times(np.eye(part.values.shape[1])[:, :n_functions])


def plan_pairs(
    n_samples: int,
    columns: Sequence[TableColumn],
    ratio: float,
    mu: float,
    wanted: Sequence[tuple[int, int]] | None,
) -> PairPlan:
    """Take the ``wanted`` pairs, or spend a share of ``mu**2`` on a choice, if that may pay.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    most = (1.0 / PAIRS.least_variance - 1.0) / roughness_of(ratio)
    counts = tuple(len(column.values) or 1 + int(most**0.5) for column in columns)

    def width(pair: tuple[int, int]) -> int:
        return counts[pair[0]] * counts[pair[1]]

    if wanted is not None:
        widths = tuple(map(width, wanted))
        return PairPlan(n_samples, tuple(wanted), counts, widths, NoOpEvent(), {})
    every = combinations(range(len(columns)), 2)
    candidates = tuple(pair for pair in every if width(pair) <= PAIRS.widest)
    n_pairs = min(int(ratio / PAIRS.ratio), PAIRS.most, len(candidates))
    if n_pairs == 0:
        return PairPlan(n_samples, (), counts, (), NoOpEvent(), {})
    parts = {"mean": (0.1 * PAIRS.share, 1), "pairs": (0.9 * PAIRS.share, 1)}
    multipliers, event = share_mu(mu, parts)
    widths = (max(map(width, candidates)),) * n_pairs
    plan = PairPlan(n_samples, candidates, counts, widths, event, multipliers)
    plan.grid("mean", 1)
    plan.grid("pairs", sum(map(width, candidates)))
    return plan
