"""Distributions of categorical records: dense, or a mixture of products for large domains."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from scipy.optimize import minimize

from skdpsco.solvers.synthesis.possible_records import LinkedColumns
from skdpsco.solvers.synthesis.workload import DENSE_CELLS, LinearQueries

__all__ = ["Histogram", "ProductHistogram", "ProductMixture", "nearest_distribution"]

RARE = 1e-7  # weight below which a component of constrained records is left out


@dataclass(frozen=True, eq=False)
class Histogram:
    """A probability for every cell.

    Parameters
    ----------
    p : ndarray of shape (n_cells,)
        Probabilities, which are not negative and sum to 1; cells are in C order.
    shape : tuple of int
        Sizes of the columns.
    """

    p: np.ndarray
    shape: tuple[int, ...]

    def marginal(self, columns: tuple[int, ...]) -> np.ndarray:
        """Table of some columns, one axis for each, in the order given."""
        others = tuple(j for j in range(len(self.shape)) if j not in columns)
        table = self.p.reshape(self.shape).sum(axis=others)
        return table.transpose([sorted(columns).index(j) for j in columns])

    def answers(self, workload: Any) -> np.ndarray:
        """Answers to a workload, in its order."""
        if isinstance(workload, LinearQueries):
            return workload.matrix @ self.p
        tables = workload.columns(len(self.shape))
        found = _marginals(
            self.p.reshape(self.shape),
            tuple(range(len(self.shape))),
            0,
            set(map(frozenset, tables)),
        )
        parts = []
        for table in tables:
            columns = sorted(table)
            axes = [columns.index(j) for j in table]
            parts.append(found[frozenset(table)].transpose(axes).ravel())
        return np.concatenate(parts)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Codes of ``n`` records, of shape (n, n_columns): `_evenly` says how they are drawn."""
        cells = _draw_by_inversion(np.cumsum(self.p), _evenly(n, rng))
        return np.stack(np.unravel_index(cells, self.shape), axis=1)


class Factored:
    """Base of distributions with too many cells for an array: all follows from marginals."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the columns."""
        raise NotImplementedError

    def marginal(self, columns: tuple[int, ...]) -> np.ndarray:
        """Table of some columns, one axis for each, in the order given."""
        raise NotImplementedError

    def histogram(self) -> Histogram:
        """The same distribution, for a small domain.

        Raises
        ------
        ValueError
            If the domain has too many cells.
        """
        if math.prod(self.shape) > DENSE_CELLS:
            raise ValueError(f"The domain must have at most {DENSE_CELLS} cells.")
        return Histogram(self.marginal(tuple(range(len(self.shape)))).ravel(), self.shape)

    def answers(self, workload: Any) -> np.ndarray:
        """Answers to a workload, in its order."""
        if isinstance(workload, LinearQueries):
            return self.histogram().answers(workload)
        tables = workload.columns(len(self.shape))
        return np.concatenate([self.marginal(table).ravel() for table in tables])


@dataclass(frozen=True, eq=False)
class ProductMixture(Factored):
    """A mixture of distributions with independent columns (a latent-class model).

    Parameters
    ----------
    weights : ndarray of shape (n_components,)
        Weights of the components, which are not negative and sum to 1.
    probabilities : tuple of ndarray of shape (n_components, size)
        One array per column, whose rows are not negative and sum to 1.
    """

    weights: np.ndarray
    probabilities: tuple[np.ndarray, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the columns."""
        return tuple(p.shape[1] for p in self.probabilities)

    def marginal(self, columns: tuple[int, ...]) -> np.ndarray:
        """Table of some columns, one axis for each, in the order given."""
        sizes = tuple(self.shape[j] for j in columns)
        products = self.weights[:, None]
        for j in columns[:-1]:
            products = (products[:, :, None] * self.probabilities[j][:, None]).reshape(
                self.weights.size, -1
            )
        return (products.T @ self.probabilities[columns[-1]]).reshape(sizes)

    def histogram(self, legal: np.ndarray | None = None) -> Histogram:
        """The same components, each given that a record is in a legal cell."""
        if legal is None:
            return super().histogram()
        p = np.zeros(legal.shape)
        for k, weight in enumerate(self.weights):
            part = reduce(np.multiply.outer, [q[k] for q in self.probabilities])
            part = np.maximum(part, 1e-300) * legal
            p += weight / part.sum() * part
        return Histogram(p.ravel() / p.sum(), self.shape)

    def within(self, linked: LinkedColumns) -> "ProductMixture":
        """The same components given that their records are possible: one for each box."""
        weights, parts = [], []
        for box in linked.boxes:
            inside = {j: self.probabilities[j] * mask for j, mask in box.items()}
            masses = {j: p.sum(axis=1, keepdims=True) for j, p in inside.items()}
            weights.append(math.prod(mass[:, 0] for mass in masses.values()))
            parts.append({j: p / np.maximum(masses[j], 1e-300) for j, p in inside.items()})
        joint = np.array(weights)
        joint *= self.weights / np.maximum(joint.sum(axis=0), 1e-300)
        # Rare components are left out, as their number would grow with every box.
        joint /= joint.sum()
        joint[joint < RARE] = 0.0
        kept = np.nonzero(joint)
        probabilities = [p[kept[1]] for p in self.probabilities]
        for j in linked.columns:
            probabilities[j] = np.array([part[j] for part in parts])[kept]
        return ProductMixture(joint[kept] / joint.sum(), tuple(probabilities))

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Codes of ``n`` records, of shape (n, n_columns): `_evenly` says how they are drawn."""
        component = _draw_by_inversion(np.cumsum(self.weights), _evenly(n, rng))
        codes = np.empty((n, len(self.probabilities)), dtype=np.intp)
        order = np.argsort(component, kind="stable")
        drawn, starts = np.unique(component[order], return_index=True)
        for k, of_k in zip(drawn, np.split(order, starts[1:]), strict=True):
            for j, p in enumerate(self.probabilities):
                codes[of_k, j] = _draw_by_inversion(np.cumsum(p[k]), _evenly(of_k.size, rng))
        return codes


@dataclass(frozen=True, eq=False)
class ProductHistogram(Factored):
    """Groups of columns that are independent of each other, with one histogram per group.

    Parameters
    ----------
    groups : tuple of tuple of int
        A partition of the columns.
    histograms : tuple of Histogram
    """

    groups: tuple[tuple[int, ...], ...]
    histograms: tuple[Histogram, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the columns."""
        of = {
            j: size
            for group, histogram in zip(self.groups, self.histograms, strict=True)
            for j, size in zip(group, histogram.shape, strict=True)
        }
        return tuple(of[j] for j in range(len(of)))

    def marginal(self, columns: tuple[int, ...]) -> np.ndarray:
        """Table of some columns, one axis for each, in the order given."""
        order: list[int] = []
        table = np.ones(())
        for group in dict.fromkeys(self._group[j] for j in columns):
            here = [j for j in columns if self._group[j] == group]
            order += here
            part = self._part(group, tuple(here))
            table = np.multiply.outer(table, part)
        return table.transpose([order.index(j) for j in columns])

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Codes of ``n`` records, of shape (n, n_columns): `_evenly` says how they are drawn."""
        codes = np.empty((n, len(self.shape)), dtype=np.intp)
        for group, histogram in zip(self.groups, self.histograms, strict=True):
            codes[:, group] = histogram.sample(n, rng)
        return codes

    @cached_property
    def _group(self) -> dict[int, int]:
        return {j: g for g, group in enumerate(self.groups) for j in group}

    @cached_property
    def _parts(self) -> dict[tuple[int, ...], np.ndarray]:
        return {}

    def _part(self, group: int, columns: tuple[int, ...]) -> np.ndarray:
        """Table of columns of one group, which several tables share."""
        if columns not in self._parts:
            members = self.groups[group]
            inside = tuple(members.index(j) for j in columns)
            self._parts[columns] = self.histograms[group].marginal(inside)
        return self._parts[columns]


def nearest_distribution(
    base: np.ndarray,
    apply: Callable[[np.ndarray], np.ndarray],
    transpose: Callable[[np.ndarray], np.ndarray],
    targets: np.ndarray,
    variances: np.ndarray,
    max_iter: int,
) -> np.ndarray:
    """The distribution p near ``base`` whose linear functions A p are close to ``targets``.

    It minimises ``KL(p, base) + sum (A p - targets)**2 / (2 variances)``. The dual is smooth and
    has one unknown per target; p is ``base`` times the exponential of a combination of A's rows.

    Parameters
    ----------
    base : ndarray of shape (n_cells,)
        Where it is 0, so is p.
    apply, transpose : callable
        Functions that return the product of A, and of its transpose, with a vector.
    targets, variances : ndarray of shape (n_targets,)
        Noisy values of A p, and the variances of their noise.
    max_iter : int

    Returns
    -------
    p : ndarray of shape (n_cells,)
    """
    with np.errstate(divide="ignore"):
        logits = np.log(base)
    scale = 1.0 / np.sqrt(1.0 + variances)  # rows of A have entries of about 1

    def tilted(x):
        z = logits + transpose(scale * x)
        largest = z.max()
        p = np.exp(z - largest)
        total = p.sum()
        return p / total, largest + math.log(total)

    def dual(x):
        p, log_total = tilted(x)
        y = scale * x
        gradient = apply(p) - targets + variances * y
        return log_total - targets @ y + 0.5 * (variances @ (y * y)), scale * gradient

    with np.errstate(all="ignore"):
        options = {"maxiter": max_iter, "maxfun": 2 * max_iter, "ftol": 1e-8, "gtol": 1e-6}
        start = np.zeros(targets.size)
        x = minimize(dual, start, jac=True, method="L-BFGS-B", options=options).x
        p = tilted(x)[0]
    return p if np.isfinite(p).all() else base / base.sum()


def _evenly(n: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform numbers, one in each n-th part of [0, 1], in random order.

    Each of them alone is uniform. If values are drawn with them, a value of probability p occurs n
    p times up to an error of 2, whereas with independent draws the error is about sqrt(n p).
    """
    return rng.permutation(np.arange(n) + rng.random(n)) / n


def _draw_by_inversion(cumulative: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Draw indices by inversion from unscaled cumulative probabilities."""
    found = np.searchsorted(cumulative, uniform * cumulative[-1], side="right")
    # The last index with a positive probability, since a product may be rounded up to the total.
    return np.minimum(found, np.searchsorted(cumulative, cumulative[-1]))


def _marginals(tensor, columns, kept, wanted):
    """All wanted marginals of a tensor with these columns, summing out one column at a time.

    Every wanted marginal contains the first ``kept`` columns. Marginals share their sums, so that
    the work is that of a few passes over the tensor, whatever the number of tables.
    """
    if kept == len(columns):
        return {frozenset(columns): tensor}
    column = columns[kept]
    with_it = {table for table in wanted if column in table}
    found = {}
    if with_it:
        found |= _marginals(tensor, columns, kept + 1, with_it)
    if wanted - with_it:
        rest = columns[:kept] + columns[kept + 1 :]
        found |= _marginals(tensor.sum(axis=kept), rest, kept, wanted - with_it)
    return found
