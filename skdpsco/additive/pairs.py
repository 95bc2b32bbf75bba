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
from skdpsco.data.record_sums import map_reduce
from skdpsco.losses.library import without_weights
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism, summation_error
from skdpsco.privacy import Event, NoOpEvent
from skdpsco.privacy.spending import share_mu

__all__ = ["PairFunction", "PairPlan", "Products", "plan_pairs"]


class PairTuning(NamedTuple):
    """Constants of pairs; examples/benchmarks/field/__main__.py shows the accuracy.

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

    def encode(self, functions: np.ndarray, starts: np.ndarray, out: np.ndarray) -> None:
        """Write the features of the records, from all functions of their columns."""
        out[:] = 0.0
        start = 0
        for pair, width in zip(self.pairs, self.widths, strict=False):
            ends = [(starts[j], starts[j] + self.parts[j].values.shape[1]) for j in pair]
            first, second = (functions[:, a:b] for a, b in ends)
            rows = (first[:, :, None] * second[:, None]).reshape(len(out), -1)
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
    weighted : bool
        Whether targets hold weights.
    n_outputs : int
        Number of classes if there are more than two; otherwise 1.
    """

    n_samples: int
    candidates: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]
    widths: tuple[int, ...]
    event: Event
    multipliers: dict[str, float]
    weighted: bool = False
    n_outputs: int = 1

    def release(self, parts: Sequence[ShapeFunction], X: Any, y: Any, rng: Any) -> Products:
        """Choose pairs by what their products have in common with the targets.

        X and y are as in `map_reduce`; X has the values of `ColumnRecords`.
        """
        parts = tuple(leading(part, k) for part, k in zip(parts, self.counts, strict=True))
        pairs = self.chosen(parts, X, y, rng) if self.multipliers else self.candidates
        return Products(pairs, parts, self.widths)

    def chosen(
        self, parts: tuple[ShapeFunction, ...], X: Any, y: Any, rng: np.random.Generator
    ) -> tuple[tuple[int, int], ...]:
        """The pairs whose sums of products with centred targets exceed their noise the most."""
        targets = self.weighted, self.n_outputs
        total = map_reduce(X, y, sum_of_targets, *targets)
        gaussian_mechanism(rng, total, self.grid("mean", self.n_outputs))
        mean = np.clip(total / self.n_samples, -1.0, 1.0)
        noisy = map_reduce(X, y, sums_of_products, *targets, mean, parts, self.candidates)
        deviation = gaussian_mechanism(rng, noisy, self.grid("pairs", len(noisy)))
        widths = [self.counts[i] * self.counts[j] * self.n_outputs for i, j in self.candidates]
        ends = np.cumsum(widths)
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


def target_columns(y: np.ndarray, weighted: bool, n_outputs: int) -> np.ndarray:
    """Targets in [-1, 1] without weights, or an indicator of each of several classes."""
    if n_outputs > 1:  # weights are below 1, and stand behind the number of the class
        found: np.ndarray = np.eye(n_outputs)[np.clip(y, 0.0, n_outputs - 1.0).astype(np.int64)]
    else:
        found = np.clip(without_weights(y) if weighted else y, -1.0, 1.0)[:, None]
    return found


def sum_of_targets(X: Any, y: np.ndarray, weighted: bool, n_outputs: int) -> np.ndarray:
    """Sums of the targets."""
    return target_columns(y, weighted, n_outputs).sum(axis=0)


def sums_of_products(
    X: Any,
    y: np.ndarray,
    weighted: bool,
    n_outputs: int,
    mean: np.ndarray,
    parts: tuple[ShapeFunction, ...],
    pairs: tuple[tuple[int, int], ...],
) -> np.ndarray:
    """Sums of targets minus their mean times all products of the pairs, shortened together."""
    residuals = target_columns(y, weighted, n_outputs) - mean
    largest = math.sqrt(2.0) if n_outputs > 1 else 1.0  # of two indicators
    residuals /= np.maximum(np.sqrt(np.square(residuals).sum(axis=1)), largest)[:, None]
    used = sorted({j for pair in pairs for j in pair})
    values = {j: parts[j].of(X.values[:, j]) for j in used}
    squares = {j: np.square(v).sum(axis=1) for j, v in values.items()}
    lengths = np.sqrt(sum(squares[i] * squares[j] for i, j in pairs))
    # Independent columns of variance 1 have products of such a length.
    limit = math.sqrt(sum(values[i].shape[1] * values[j].shape[1] for i, j in pairs))
    weights = residuals / np.maximum(lengths, limit)[:, None]
    sums = [
        values[i].T @ (weights[:, k, None] * values[j]) for i, j in pairs for k in range(n_outputs)
    ]
    return np.concatenate([one.ravel() for one in sums])


def leading(part: ShapeFunction, n_functions: int) -> ShapeFunction:
    """The first functions of a column."""
    return part.times(np.eye(part.values.shape[1])[:, :n_functions])


def plan_pairs(
    n_samples: int,
    columns: Sequence[TableColumn],
    ratio: float,
    mu: float,
    wanted: Sequence[tuple[int, int]] | None,
    weighted: bool = False,
    n_outputs: int = 1,
    alone: Sequence[int] = (),
) -> PairPlan:
    """Take the ``wanted`` pairs, or spend a share of ``mu**2`` on a choice, if that may pay.

    Columns that stay ``alone`` are not chosen.

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
    every = combinations([j for j in range(len(columns)) if j not in alone], 2)
    candidates = tuple(pair for pair in every if width(pair) <= PAIRS.widest)
    n_pairs = min(int(ratio / PAIRS.ratio), PAIRS.most, len(candidates))
    if n_pairs == 0:
        return PairPlan(n_samples, (), counts, (), NoOpEvent(), {})
    parts = {"mean": (0.1 * PAIRS.share, 1), "pairs": (0.9 * PAIRS.share, 1)}
    multipliers, event = share_mu(mu, parts)
    widths = (max(map(width, candidates)),) * n_pairs
    targets = weighted, n_outputs
    plan = PairPlan(n_samples, candidates, counts, widths, event, multipliers, *targets)
    plan.grid("mean", n_outputs)
    plan.grid("pairs", n_outputs * sum(map(width, candidates)))
    return plan
