"""Fit a mixture of products (a latent-class model) to noisy contrasts, as post-processing."""

import math
import operator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from skdpsco._kernels import njit
from skdpsco.solvers.synthesis.contrasts import (
    Subset,
    helmert,
    n_contrasts,
    positions,
    scales,
    synthesis,
)
from skdpsco.solvers.synthesis.distributions import ProductMixture
from skdpsco.solvers.synthesis.possible_records import LinkedColumns, legal_cells

__all__ = ["Terms", "fit", "independent_contrasts", "terms"]


class MixtureTuning(NamedTuple):
    """Constants of the fit, chosen on Adult and on simulated data.

    See section 5 of docs/proofs/measure_project.md.

    Parameters
    ----------
    ridge : float
        Weight of half the squared distance of the logits from those of independent columns, and of
        theirs from 0.
    memory : int
        Number of earlier steps that L-BFGS remembers.
    """

    ridge: float = 0.2
    memory: int = 20


MIXTURE = MixtureTuning()


class LinkedTerms(NamedTuple):
    """Linked columns in a fit: given a component, they are independent among possible values.

    Parameters
    ----------
    columns : tuple of int
    illegal : ndarray of shape (*sizes, 1)
        -inf at cells that are not possible, otherwise 0.
    scales : ndarray of shape (*sizes, 1)
    rows, places : ndarray of int
        Contrasts, and where `helmert` has them.
    """

    columns: Subset
    illegal: np.ndarray
    scales: np.ndarray
    rows: np.ndarray
    places: np.ndarray


class Terms(NamedTuple):
    """The factors of contrasts of a mixture.

    Parameters
    ----------
    starts : ndarray of shape (n_columns + 1,)
        Where the logits of each column begin.
    factors : ndarray of shape (n_contrasts, n_factors)
        For every contrast, contrasts of independent parts of a record whose product it is: those of
        single columns come first, then those of several linked ones. ``n_rows`` stands for 1.
    n_rows : int
    links : tuple of LinkedTerms
    """

    starts: np.ndarray
    factors: np.ndarray
    n_rows: int
    links: tuple[LinkedTerms, ...] = ()

    @property
    def n_singles(self) -> int:
        """Number of contrasts of single columns."""
        return int(self.starts[-1]) - len(self.starts) + 1

    @property
    def alone(self) -> np.ndarray:
        """Which contrasts are those of single columns."""
        others = (self.factors[:, 1:] == self.n_rows).all(axis=1)
        return others & (self.factors[:, 0] < self.n_singles)


def terms(
    subsets: tuple[Subset, ...], shape: tuple[int, ...], possible: tuple[LinkedColumns, ...] = ()
) -> Terms:
    """The factors of all contrasts of some subsets, one subset after the other."""
    first = np.concatenate([[0], np.cumsum(np.array(shape) - 1)])
    rows: dict[Subset, np.ndarray] = {
        (j,): np.arange(a, b) for j, (a, b) in enumerate(pairwise(first))
    }
    order, n_rows, links = max(map(len, subsets)), int(first[-1]), []
    for linked in possible:
        columns, sizes = linked.columns, tuple(shape[j] for j in linked.columns)
        for subset in dict.fromkeys(tuple(j for j in s if j in columns) for s in subsets):
            if len(subset) > 1:
                rows[subset] = np.arange(n_rows, n_rows + n_contrasts(subset, shape))
                n_rows = int(rows[subset][-1]) + 1
        inside = [s for s in rows if set(s) <= set(columns)]
        with np.errstate(divide="ignore"):
            illegal = np.log(legal_cells(possible, columns, shape).astype(float))
        places = [positions(columns, s, shape) for s in inside]
        links.append(
            LinkedTerms(
                columns,
                illegal[..., None],
                scales(sizes)[..., None],
                np.concatenate([rows[s] for s in inside]),
                np.concatenate(places),
            )
        )
    group = {j: linked.columns for linked in possible for j in linked.columns}
    parts = []
    for subset in subsets:
        together = dict.fromkeys(
            tuple(j for j in subset if j in group.get(k, (k,))) for k in subset
        )
        # Contrasts of a subset are in C order of its columns.
        grid = np.indices([shape[j] - 1 for j in subset]).reshape(len(subset), -1)
        part = np.full((grid.shape[1], order), n_rows)
        for at, some in enumerate(together):
            codes = tuple(grid[subset.index(j)] for j in some)
            place = np.ravel_multi_index(codes, [shape[j] - 1 for j in some])
            part[:, at] = rows[some][place]
        parts.append(part)
    starts = np.concatenate([[0], np.cumsum(shape)])
    return Terms(starts, np.concatenate(parts), n_rows, tuple(links))


def independent_contrasts(found: Terms, values: np.ndarray) -> np.ndarray:
    """Contrasts of single columns among ``values``, or 0, followed by a 1.

    The product of its entries at a row of the factors is that contrast of independent columns.
    """
    singles = np.zeros(found.n_rows + 1)
    singles[-1] = 1.0
    singles[found.factors[found.alone, 0]] = values[found.alone]
    return singles


def fit(
    found: Terms,
    targets: np.ndarray,
    precisions: np.ndarray,
    n_components: int,
    rng: np.random.Generator,
    n_starts: int,
    max_iter: int,
) -> ProductMixture:
    """Minimise ``sum of precision * (contrast of the mixture - target)**2 / 2``, roughly.

    First, independent columns are fitted to the contrasts of single columns, near the uniform
    distribution. The components of a mixture are then held near these. If columns are linked, each
    component is meant given that their values are possible.

    Parameters
    ----------
    found : Terms
    targets, precisions : ndarray of shape (n_contrasts,)
    n_components : int
    rng : numpy.random.Generator
        Draws the starting points.
    n_starts : int
        Number of runs, of which the best is returned.
    max_iter : int
    """
    alone = found.alone
    singles = found._replace(factors=found.factors[alone]), targets[alone], precisions[alone]
    prior = np.zeros(1 + found.starts[-1])
    independent = _minimise(prior, 1, *singles, prior, max_iter)[1]
    prior = np.concatenate([np.zeros(n_components), np.tile(independent[1:], n_components)])
    runs = [(np.inf, prior)]
    for _ in range(n_starts if n_components > 1 else 0):
        start = prior.copy()
        start[n_components:] += rng.standard_normal(prior.size - n_components)
        runs.append(_minimise(start, n_components, found, targets, precisions, prior, max_iter))
    best = min(runs, key=operator.itemgetter(0))[1]
    weights = _softmax(best[:n_components])
    logits = best[n_components:].reshape(n_components, -1)
    return ProductMixture(
        weights, tuple(_softmax(logits[:, a:b]) for a, b in pairwise(found.starts))
    )


def _minimise(start, n_components, found, targets, precisions, prior, max_iter):
    """The least value of `objective` that was found, and where; infinity if it is not finite."""
    arguments = (n_components, found, targets, precisions, prior)
    with np.errstate(all="ignore"):
        least = minimize(
            lambda x: objective(x, *arguments),
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "ftol": 1e-7, "maxcor": MIXTURE.memory},
        )
    return (least.fun, least.x) if np.isfinite(least.x).all() else (np.inf, prior)


def _softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def objective(
    x: Any, n_components: Any, found: Any, targets: Any, precisions: Any, prior: Any
) -> Any:
    """Value and gradient at x, the logits of the components followed by those of all columns.

    ``prior`` holds the logits from which distances are penalised.
    """
    starts = found.starts
    p = _softmax(x[:n_components])
    logits = x[n_components:].reshape(n_components, -1)
    # The contrasts of parts of a record by component, and 1; their derivatives.
    q, m = np.empty_like(logits), np.ones((found.n_rows + 1, n_components))
    to_p, to_m, to_logits = np.zeros_like(p), np.zeros_like(m), np.zeros_like(logits)
    _contrasts(logits, starts, q, m)
    tables = [_linked_contrasts(link, logits, starts, m) for link in found.links]
    value = _products(p, found.factors, targets, precisions, m, to_p, to_m)
    _to_logits(q, starts, to_m, to_logits)
    for link, table in zip(found.links, tables, strict=True):
        _linked_to_logits(link, table, starts, to_m, to_logits)
    gradient = np.concatenate([p * (to_p - p @ to_p), to_logits.ravel()])
    away = x - prior
    return value + 0.5 * MIXTURE.ridge * (away @ away), gradient + MIXTURE.ridge * away


def _linked_contrasts(
    link: LinkedTerms, logits: np.ndarray, starts: np.ndarray, m: np.ndarray
) -> Any:
    """Set the rows of linked columns in ``m``; return their probabilities by cell and component."""
    n = len(link.columns)
    total = link.illegal
    for axis, j in enumerate(link.columns):
        own = logits[:, starts[j] : starts[j + 1]].T
        total = total + own.reshape([-1 if a == axis else 1 for a in range(n)] + [len(logits)])
    table = np.exp(total - total.max(axis=tuple(range(n))))
    table /= table.sum(axis=tuple(range(n)))
    flat = (link.scales * helmert(table, n)).reshape(-1, len(logits))
    m[link.rows] = flat[link.places]
    return table


def _linked_to_logits(
    link: LinkedTerms,
    table: np.ndarray,
    starts: np.ndarray,
    to_m: np.ndarray,
    to_logits: np.ndarray,
) -> None:
    """Set the derivatives by the logits of linked columns."""
    n = len(link.columns)
    to_flat = np.zeros_like(table).reshape(-1, table.shape[-1])
    to_flat[link.places] = to_m[link.rows]
    to_table = table * synthesis(link.scales * to_flat.reshape(table.shape), n)
    to_table -= table * to_table.sum(axis=tuple(range(n)))
    for axis, j in enumerate(link.columns):
        others = tuple(a for a in range(n) if a != axis)
        to_logits[:, starts[j] : starts[j + 1]] = to_table.sum(axis=others).T


@njit
def _contrasts(logits, starts, q, m):
    """Compute the probabilities q of all values, and their contrasts m."""
    for k in range(logits.shape[0]):
        for j in range(starts.size - 1):
            a, b = starts[j], starts[j + 1]
            largest = logits[k, a]
            for i in range(a + 1, b):
                largest = max(largest, logits[k, i])
            total = 0.0
            for i in range(a, b):
                q[k, i] = math.exp(logits[k, i] - largest)
                total += q[k, i]
            before = 0.0
            for i in range(b - a):
                q[k, a + i] /= total
                if i > 0:
                    scale = math.sqrt((b - a) / (i * (i + 1.0)))
                    m[a - j + i - 1, k] = scale * (before - i * q[k, a + i])
                before += q[k, a + i]


@njit
def _products(p, factors, targets, precisions, m, to_p, to_m):
    """Return the value without the ridge; add to the derivatives by p and by m."""
    K, one = p.size, m.shape[0] - 1
    product, value = np.empty(K), 0.0
    for c in range(targets.size):
        residual = -targets[c]
        for k in range(K):
            product[k] = 1.0
            for t in range(factors.shape[1]):
                product[k] *= m[factors[c, t], k]
            residual += p[k] * product[k]
        value += 0.5 * precisions[c] * residual * residual
        residual *= precisions[c]
        for k in range(K):
            to_p[k] += residual * product[k]
        for t in range(factors.shape[1]):
            if factors[c, t] == one:
                continue
            for k in range(K):
                others = residual * p[k]
                for u in range(factors.shape[1]):
                    if u != t:
                        others *= m[factors[c, u], k]
                to_m[factors[c, t], k] += others
    return value


@njit
def _to_logits(q, starts, to_m, to_logits):
    """Add to the derivatives by the logits, from those by the contrasts."""
    for k in range(q.shape[0]):
        for j in range(starts.size - 1):
            a, b = starts[j], starts[j + 1]
            # Derivatives in the probabilities, last value first; then through the softmax.
            behind = 0.0
            mean = 0.0
            for i in range(b - a - 1, -1, -1):
                derivative = behind
                if i > 0:
                    here = math.sqrt((b - a) / (i * (i + 1.0))) * to_m[a - j + i - 1, k]
                    derivative -= i * here
                    behind += here
                to_logits[k, a + i] += q[k, a + i] * derivative
                mean += q[k, a + i] * derivative
            for i in range(a, b):
                to_logits[k, i] -= q[k, i] * mean
