"""The metric of gradient steps. Proof: docs/proofs/gradient_descent.md."""

import math
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import njit
from skdpsco.data.design import TILE_ROWS, CentredCSR
from skdpsco.data.pieces import one_record
from skdpsco.data.products import as_lengths, norms_of, write_columns
from skdpsco.data.record_sums import map_reduce, without_gil
from skdpsco.losses.traits import traits_of
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.solvers.penalized.problem import CompositeProblem
from skdpsco.solvers.penalized.quadratic_model import Model
from skdpsco.solvers.penalized.second_moments import (
    add_outer,
    moved_by_one,
    positive_definite,
    run_of_columns,
    single_pays,
    upper_triangle,
)

__all__ = ["METRIC", "metric_grid", "metric_pays", "release_metric"]


class MetricTuning(NamedTuple):
    """Constants of steps in the metric of second moments.

    They were fitted on the families of examples/benchmarks/robustness.py with 20,000 records.

    Parameters
    ----------
    ratio : float
        n mu over F**1.5, for F columns above which second moments are known well enough.
    share : float
        Share of mu**2 for the second moments.
    passes : float
        Number of passes, relative to that without a metric.
    length : float
        Length of a step, relative to the one from smoothness.
    max_features : int
        Largest number of columns; chosen by hand, for time.
    """

    ratio: float = 4.0
    share: float = 0.1
    passes: float = 0.2
    length: float = 1.5
    max_features: int = 1000


METRIC = MetricTuning()


def metric_pays(problem: CompositeProblem, mu: float) -> bool:
    """Whether steps follow second moments of conditioned features; public.

    Noise must be small in them. The loss must be about as curved as its bound says: for others few
    steps are too few. If records are added, products of sparse rows might be rounded by more; and
    `sparse_products` needs an intercept.
    """
    F, traits = problem.n_features, traits_of(problem.loss)
    little_noise = problem.n_mu(mu) >= METRIC.ratio * F**1.5 and F <= METRIC.max_features
    unread = problem.sparse and (problem.added or not problem.intercept)
    exact = problem.centred and not unread
    curved = traits.usual_curvature is not None and not traits.exponential
    return little_noise and exact and curved


def metric_grid(problem: CompositeProblem, multiplier: float) -> float:
    """Grid of sums of the second moments of rows whose norms are at most 1."""
    n, F, added = problem.n_samples, problem.n_features, problem.added
    # Norms and products of one record are rounded. Those of sparse rows are differences.
    rounded = 1.0 + (F + 16) * 2.0 ** (-36 if problem.sparse else -50)
    size, change = moved_by_one(rounded, added, is_single(problem))
    # 2: of records that move up, a weight may be rounded otherwise.
    bound = 2.0**13 if problem.sparse else size
    sensitivity = one_record(n, added, bound, change, 1 + added)
    return gaussian_grid(sensitivity, multiplier, F * (F + 1) // 2, math.sqrt(2.0) * n * size)


def is_single(problem: CompositeProblem) -> bool:
    """Whether products are in single precision; those of sparse rows are differences."""
    large = single_pays(problem.n_samples, problem.n_features, problem.added)
    return large and not problem.sparse


def release_metric(
    grid: float | None,
    problem: CompositeProblem,
    rows: tuple[np.ndarray, float],
    X: Any,
    y: Any,
    rng: np.random.Generator,
) -> Model:
    """The model of steps: with noisy second moments, or with those of scaled columns, 1.

    ``rows`` holds the scales of the columns, and the mean squared norm of the scaled rows, to whose
    root they are shortened.
    """
    scale, square = rows
    M = np.ones(problem.n_features)
    if grid is not None:
        sums = map_reduce(X, y, shortened_products, scale, math.sqrt(square), is_single(problem))
        entries = upper_triangle(sums)
        deviation = gaussian_mechanism(rng, entries, grid)
        # What is unknown stays as large beside columns that are raised, which shorten the rows.
        ridge = max(len(scale) / square, 1.0)
        M = positive_definite(entries, deviation, ridge) * (square / problem.n_samples)
    return Model(M, problem, 1.0 / scale)


@without_gil
def shortened_products(X: Any, y: Any, scale: np.ndarray, c: float, single: bool) -> np.ndarray:
    """Sum of z z' over records z = x / scale, shortened to norm ``c``, over ``c * c``.

    It stands on and above the diagonal; ``single`` says whether runs are in single precision.
    """
    F = len(scale)
    if isinstance(X, CentredCSR):
        return sparse_products(X, 1.0 / scale, c)
    V, out = run_of_columns(F, single)
    add_products(X, len(y), as_lengths(1.0 / scale, X), c, V, out)
    return out[:F, :F]


def sparse_products(X: CentredCSR, unit: np.ndarray, c: float) -> np.ndarray:
    """`shortened_products` of sparse rows minus a centre: products of entries, and their sums."""
    F = len(unit)
    norms, M, sums = np.empty(len(X.indptr) - 1), np.zeros((F, F)), np.zeros(F)
    norms_of(X, as_lengths(unit, X), norms)
    weights = np.maximum(norms, c) ** -2.0
    add_sparse_products(X, unit, weights, M, sums)
    centre = np.append(X.centre, 0.0) * unit  # the ones are entries of every row
    sums -= 0.5 * sums[-1] / unit[-1] * centre  # half of what both products have in common
    return M - np.outer(sums, centre) - np.outer(centre, sums)


@njit
def add_sparse_products(X, unit, weights, out, sums):
    """Add weighted products of entries times ``unit``, above the diagonal, and these entries."""
    d = X.bounds.shape[0]
    for i in range(weights.shape[0]):
        first, last = X.indptr[i], X.indptr[i + 1]
        for p in range(first, last):
            j = X.indices[p]
            x = weights[i] * X.data[p] * unit[j]
            sums[j] += x
            out[j, d] += x * unit[d]
            for q in range(p, last):  # indices of a row increase
                k = X.indices[q]
                out[j, k] += x * X.data[q] * unit[k]
        sums[d] += weights[i] * unit[d]
    out[d, d] = sums[d] * unit[d]


@njit
def add_products(X, n, u, c, V, out):
    """Add z z' over records z, their entries times ``u``, divided by their norms, or by ``c``."""
    weights = np.empty(TILE_ROWS)
    for start in range(0, n, TILE_ROWS):
        size = min(TILE_ROWS, n - start)
        if size < TILE_ROWS:
            V[:] = 0.0
        write_columns(X, start, size, u, V)
        weights[:] = 0.0
        for j in range(V.shape[0]):
            for i in range(TILE_ROWS):
                x = np.float64(V[j, i])
                weights[i] += x * x
        for i in range(TILE_ROWS):
            weights[i] = 1.0 / max(math.sqrt(weights[i]), c)
        for j in range(V.shape[0]):
            for i in range(TILE_ROWS):
                V[j, i] *= weights[i]
        add_outer(V, out)
