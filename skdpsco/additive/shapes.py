"""Functions of single columns: the basis that a fit adds up, and the shapes that it finds.

Proof that they are post-processing of densities: docs/proofs/additive.md, section 2.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from sklearn.isotonic import isotonic_regression

from skdpsco._kernels import njit
from skdpsco.additive.densities import Density, Shares
from skdpsco.additive.table import TableColumn, codes_of

__all__ = [
    "ShapeFunction",
    "Shapes",
    "bases_of",
    "ends_of",
    "n_functions_of",
    "ratio_of",
    "roughness_of",
    "variances_of",
]


class ShapeTuning(NamedTuple):
    """Constants of the prior; examples/benchmarks/field/__main__.py shows the accuracy.

    Parameters
    ----------
    rough_ratio : float
        The n mu, over the root of the number of columns, at which the second of the functions of a
        column has half of the variance of the first. The weight of roughness is this number over
        that of a fit, or its root where that is larger.
    least_variance : float
        Least variance of a function that is used, in that of the first.
    ends : float
        Largest share of the records beyond the outer knots, on either side.
    rare : float
        Least share of the records that a step of their own is for.
    unseen : float
        Mass of every knot beside what was counted, in shares of the records; with much data it is
        smaller. It keeps the straight line among the functions, however few records a tail has, and
        keeps functions from being huge where counts saw nobody.
    """

    rough_ratio: float = 600.0
    least_variance: float = 0.02
    ends: float = 0.02
    rare: float = 0.02
    unseen: float = 1e-3


SHAPES = ShapeTuning()


class ShapeFunction(NamedTuple):
    """What one column adds to a prediction: a released function, which is public.

    Parameters
    ----------
    column : TableColumn
        Name, declared bounds, and the declared values of a column of categories.
    knots : ndarray of shape (n_knots,)
        Between them the function is linear, and beyond them constant; none for categories.
    values : ndarray of shape (n_knots, n_outputs) or (n_categories, n_outputs)
        Values at the knots or for the categories; one output for numbers and for two classes.
    missing : ndarray of shape (n_outputs,)
        The value of what is missing or not declared.
    zero : ndarray of shape (n_outputs,), or None
        The value of 0 itself, if many numbers are 0.
    """

    column: TableColumn
    knots: np.ndarray
    values: np.ndarray
    missing: np.ndarray
    zero: np.ndarray | None = None

    def of(self, column: np.ndarray) -> np.ndarray:
        """The function's values for numbers or codes, of shape (n_samples, n_outputs)."""
        out = np.empty((len(column), self.values.shape[1]))
        self.write(column, out)
        return out

    def write(self, column: np.ndarray, out: np.ndarray) -> None:
        """Write the values of `of`."""
        if self.column.values:
            out[:] = np.vstack([self.values, self.missing])[codes_of(column)]  # -1 is the last one
            return
        zero = np.empty((0, out.shape[1])) if self.zero is None else self.zero[None, :]
        arrays = column, self.knots, self.values, self.missing, zero
        write_values(*(np.array(array, np.float64, order="C") for array in arrays), out)

    def times(self, coef: np.ndarray) -> "ShapeFunction":
        """The same for the products of all outputs with a matrix."""
        zero = None if self.zero is None else self.zero @ coef
        return ShapeFunction(self.column, self.knots, self.values @ coef, self.missing @ coef, zero)

    def monotone(self, sign: int, known: Density) -> "ShapeFunction":
        """The closest function whose values at its knots and at 0 increase, or decrease for -1.

        What is close follows from a density.
        """
        points = 0.5 * (known.edges[1:] + known.edges[:-1])
        nearest = np.abs(points[:, None] - self.knots).argmin(axis=1)
        weights = np.bincount(nearest, known.weights, minlength=len(self.knots)) + 1e-9
        values, at = self.values, int(np.searchsorted(self.knots, 0.0))
        if self.zero is not None:
            values = np.insert(values, at, self.zero, axis=0)
            weights = np.insert(weights, at, known.zero)
        found = [
            isotonic_regression(column, sample_weight=weights, increasing=sign > 0)
            for column in values.T
        ]
        values = np.column_stack(found)
        if self.zero is None:
            return self._replace(values=values)
        rest, zero = np.delete(values, at, axis=0), values[at]
        if 0 < at < len(self.knots):  # numbers beside 0 are between its neighbours
            zero = np.array([np.interp(0.0, self.knots, column) for column in rest.T])
        return self._replace(values=rest, zero=zero)

    @property
    def largest(self) -> float:
        """The largest magnitude of any value."""
        parts = (self.values, self.missing, np.zeros(1) if self.zero is None else self.zero)
        return max(float(np.abs(part).max(initial=0.0)) for part in parts)


class Shapes(NamedTuple):
    """A basis: functions of the columns of a table, one after the other.

    Parameters
    ----------
    parts : tuple of ShapeFunction
    variances : ndarray of shape (n_functions,)
        Variances of the functions according to the released densities: those of the prior.
    """

    parts: tuple[ShapeFunction, ...]
    variances: np.ndarray

    @property
    def largest(self) -> float:
        """The largest magnitude of any function."""
        return max(part.largest for part in self.parts)

    @property
    def starts(self) -> np.ndarray:
        """Place of the first function of every column, and the number of all functions."""
        return np.cumsum([0, *(part.values.shape[1] for part in self.parts)])

    def encode(self, values: np.ndarray, out: np.ndarray) -> None:
        """Write all functions of the records."""
        ends = pairwise(self.starts)
        for part, column, (start, stop) in zip(self.parts, values.T, ends, strict=True):
            part.write(column, out[:, start:stop])

    def combined(self, coef: np.ndarray) -> tuple[ShapeFunction, ...]:
        """The shape of every column, for coefficients of shape (n_outputs, n_functions)."""
        pieces = [coef[:, a:b].T for a, b in pairwise(self.starts)]
        return tuple(part.times(w) for part, w in zip(self.parts, pieces, strict=True))


def knot_before(x: np.ndarray, knots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The knot before every number, and the part of the way to the next one, in [0, 1]."""
    place = np.clip(np.searchsorted(knots, x, "right") - 1, 0, len(knots) - 2)
    part = (x - knots[place]) / (knots[place + 1] - knots[place])
    return place, np.clip(np.nan_to_num(part), 0.0, 1.0)


@njit
def write_values(x, knots, values, missing, zero, out):
    """Write the values of functions of numbers; see `ShapeFunction`."""
    n_outputs = out.shape[1]
    for i in range(x.shape[0]):
        if np.isnan(x[i]):
            for k in range(n_outputs):
                out[i, k] = missing[k]
        elif zero.shape[0] > 0 and x[i] == 0.0:
            for k in range(n_outputs):
                out[i, k] = zero[0, k]
        else:
            j = min(max(np.searchsorted(knots, x[i], "right") - 1, 0), len(knots) - 2)
            part = (x[i] - knots[j]) / (knots[j + 1] - knots[j])
            part = min(part, 1.0) if part > 0.0 else 0.0
            for k in range(n_outputs):
                out[i, k] = values[j, k] + part * (values[j + 1, k] - values[j, k])


def ratio_of(n_samples: int, mu: float, n_columns: int, added: bool) -> float:
    """The n mu of a fit over the root of the number of columns; a usual one if n is private."""
    return SHAPES.rough_ratio if added else n_samples * mu / math.sqrt(max(n_columns, 1))


def roughness_of(ratio: float) -> float:
    """The weight of roughness in the prior, from public numbers."""
    few = SHAPES.rough_ratio / max(ratio, 1e-300)
    return max(few, few**0.5)


def n_functions_of(ratio: float) -> int:
    """Number of functions of a column of numbers that the prior expects to matter."""
    most = (1.0 / SHAPES.least_variance - 1.0) / roughness_of(ratio)
    return 1 + int(most**0.5)


def ends_of(ratio: float) -> float:
    """Share of the records beyond the outer knots, on either side: tails are known by counts."""
    return SHAPES.ends * min(0.5 * roughness_of(ratio), 1.0)


def variances_of(column: TableColumn, ratio: float) -> np.ndarray:
    """Variances of the functions of a column that has neither steps nor rare values."""
    if m := len(column.values):
        return np.full(m, 1.0 / m)
    order = np.arange(n_functions_of(ratio))
    return np.append(1.0 / (1.0 + roughness_of(ratio) * order**2), [0.0, 0.0])


def bases_of(
    columns: Sequence[TableColumn], densities: Sequence[Density | Shares], ratio: float
) -> Shapes:
    """The functions whose sum a fit finds, from public numbers and released densities.

    Those of a column of numbers are uncorrelated according to its density, the smoothest first, as
    Demmler and Reinsch (1975) define them, and then a step for 0 and one for what is missing.
    Where a column has fewer different values than functions, the others are 0.
    """
    parts, variances = [], []
    for column, density in zip(columns, densities, strict=True):
        if isinstance(density, Shares):
            part, variance = of_categories(column, density)
        else:
            part, variance = of_numbers(column, density, ratio)
        parts.append(part)
        variances.append(variance)
    return Shapes(tuple(parts), np.concatenate(variances))


def of_categories(column: TableColumn, known: Shares) -> tuple[ShapeFunction, np.ndarray]:
    """Indicators minus their means, of variance 1 all together."""
    own = known.values * (1.0 - known.values)
    scale = max(float(own.sum()), SHAPES.rare) ** -0.5
    m = len(own)
    values = (np.eye(m) - known.values) * scale
    missing = -known.values * scale
    return ShapeFunction(column, np.empty(0), values, missing), own * scale**2


def of_numbers(
    column: TableColumn, known: Density, ratio: float
) -> tuple[ShapeFunction, np.ndarray]:
    """Smooth functions, a step for 0, and one for missing numbers."""
    n_smooth = n_functions_of(ratio)
    points, weights = points_of(known)
    there = max(1.0 - known.missing, 1e-300)
    shares = min(known.zero / there, 1.0), known.missing
    steps = [SHAPES.rare <= share <= 1.0 - SHAPES.rare for share in shares]
    if not steps[0]:
        at = np.searchsorted(points, 0.0)
        points, weights = np.insert(points, at, 0.0), np.insert(weights, at, known.zero)
    share = max(float(weights.sum()), SHAPES.rare)  # of the records that smooth functions are for
    weights = weights / max(weights.sum(), 1e-300)
    knots = quantiles(points, weights, 2 * n_smooth, ends_of(ratio))
    # Nothing is known within a cell that has all records.
    n_known = n_smooth if 2.0 * weights.max() <= 1.0 - SHAPES.rare else 0
    place, after = knot_before(points, knots)
    rows, hats = np.arange(len(points)), np.zeros((len(points), len(knots)))
    hats[rows, place] = 1.0 - after
    hats[rows, place + 1] += after
    mean = weights @ hats
    unseen = SHAPES.unseen * min(roughness_of(ratio), 1.0)
    masses = mean + unseen  # of the knots
    gram = (hats.T * weights) @ hats + unseen * np.eye(len(knots))
    gram -= np.outer(masses, masses) / masses.sum()
    smooth = smooth_first(gram / masses.sum(), knots)[:, :n_known]
    order = np.arange(smooth.shape[1])
    deviation = np.sqrt(variances_of(column, ratio)[: len(order)])
    values, variances = np.zeros((len(knots), n_smooth + 2)), np.zeros(n_smooth + 2)
    values[:, : len(order)] = (smooth - mean @ smooth) * deviation / share**0.5
    variances[: len(order)] = deviation**2
    zero, missing = np.zeros(n_smooth + 2), np.zeros(n_smooth + 2)
    for k, step, part in zip((-2, -1), (zero, missing), shares, strict=True):
        if steps[k]:
            scale = (part * (1.0 - part)) ** -0.5
            values[:, k] = zero[k] = -part * scale
            step[k] = (1.0 - part) * scale
            variances[k] = 1.0 if k == -1 else there
    return ShapeFunction(column, knots, values, missing, zero if steps[0] else None), variances


def points_of(known: Density) -> tuple[np.ndarray, np.ndarray]:
    """Two points of every cell, and their weights.

    Where in its cell a number lies is not known, so that no function is the same all over one.
    """
    low, high = known.edges[:-1], known.edges[1:]
    points = np.column_stack([0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high])
    return points.ravel(), np.repeat(0.5 * known.weights, 2)


def quantiles(points: np.ndarray, weights: np.ndarray, n_intervals: int, ends: float) -> np.ndarray:
    """Different points close to quantiles of equal steps, at least two."""
    up_to = weights.cumsum() - 0.5 * weights
    steps = np.linspace(ends, 1.0 - ends, n_intervals + 1)
    knots = np.unique(points[np.searchsorted(up_to, steps).clip(0, len(points) - 1)])
    return knots if len(knots) > 1 else points[[0, -1]]


def smooth_first(gram: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Values at the knots of uncorrelated functions of variance 1, the smoothest first.

    ``gram`` has the covariances of hats. Roughness is the sum of squared changes of the slope.
    """
    steps = np.diff(knots)
    steps = steps / steps.mean()
    bends = np.zeros((max(len(knots) - 2, 0), len(knots)))
    for i in range(len(bends)):
        bends[i, i : i + 3] = 1 / steps[i], -1 / steps[i] - 1 / steps[i + 1], 1 / steps[i + 1]
    variances, vectors = np.linalg.eigh(gram)
    whitened = vectors[:, 1:] / np.sqrt(variances[1:])  # all but the constant
    _, order = np.linalg.eigh(whitened.T @ (bends.T @ bends) @ whitened)
    found: np.ndarray = whitened @ order
    return found
