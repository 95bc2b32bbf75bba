"""Fit a mixture of products (a latent-class model) to noisy contrasts, as post-processing."""

import math
import operator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from skdpsco._kernels import njit
from skdpsco.solvers.synthesis.contrasts import Subset
from skdpsco.solvers.synthesis.distributions import ProductMixture

__all__ = ["fit", "independent_contrasts", "terms"]


class MixtureTuning(NamedTuple):
    """Constants of the fit, chosen on Adult and on simulated data.

    See section 5 of docs/proofs/measure_project.md.

    Parameters
    ----------
    ridge : float
        Weight of half the squared distance of the logits from those of independent columns, and of
        theirs from 0.
    spread : float
        Standard deviation of the logits of components around those of independent columns at the
        start.
    memory : int
        Number of earlier steps that L-BFGS remembers.
    """

    ridge: float = 0.2
    spread: float = 1.0
    memory: int = 20


MIXTURE = MixtureTuning()


def terms(subsets: tuple[Subset, ...], shape: tuple[int, ...]) -> np.ndarray:
    """For every contrast of some subsets, the contrasts of single columns whose product it is.

    Returns
    -------
    terms : ndarray of shape (n_contrasts, n_factors)
        Indices of single columns' contrasts, counted through the columns. If a contrast has fewer
        factors, the rest of its row holds the total number of these contrasts, which stands for 1.
    """
    starts = np.concatenate([[0], np.cumsum(np.array(shape) - 1)])
    order = max(map(len, subsets))
    parts = []
    for subset in subsets:
        grid = np.indices([shape[j] - 1 for j in subset]).reshape(len(subset), -1).T
        part = np.full((len(grid), order), starts[-1])
        part[:, : len(subset)] = grid + starts[list(subset)]
        parts.append(part)
    return np.concatenate(parts)


def independent_contrasts(factors: np.ndarray, values: np.ndarray, n_singles: int) -> np.ndarray:
    """Contrasts of single columns among ``values``, or 0, followed by a 1.

    The product of its entries at a row of ``factors`` is that contrast of independent columns.
    """
    alone = (factors[:, 1:] == n_singles).all(axis=1)
    found = np.zeros(n_singles + 1)
    found[-1] = 1.0
    found[factors[alone, 0]] = values[alone]
    return found


def fit(
    shape: tuple[int, ...],
    factors: np.ndarray,
    targets: np.ndarray,
    precisions: np.ndarray,
    n_components: int,
    rng: np.random.Generator,
    n_starts: int,
    max_iter: int,
) -> ProductMixture:
    """Minimise ``sum of precision * (contrast of the mixture - target)**2 / 2``, roughly.

    First, independent columns are fitted to the contrasts of single columns, near the uniform
    distribution. The components of a mixture are then held near these.

    Parameters
    ----------
    shape : tuple of int
    factors : ndarray of shape (n_contrasts, n_factors)
        The result of `terms`.
    targets, precisions : ndarray of shape (n_contrasts,)
    n_components : int
    rng : numpy.random.Generator
        Draws the starting points.
    n_starts : int
        Number of runs, of which the best is returned.
    max_iter : int
    """
    starts = np.concatenate([[0], np.cumsum(shape)])
    alone = (factors[:, 1:] == starts[-1] - len(shape)).all(axis=1)
    singles = starts, factors[alone], targets[alone], precisions[alone]
    prior = np.zeros(1 + starts[-1])
    independent = _minimise(prior, 1, *singles, prior, max_iter)[1]
    prior = np.concatenate([np.zeros(n_components), np.tile(independent[1:], n_components)])
    found = [(np.inf, prior)]
    for _ in range(n_starts if n_components > 1 else 0):
        start = prior.copy()
        start[n_components:] += MIXTURE.spread * rng.standard_normal(prior.size - n_components)
        found.append(
            _minimise(start, n_components, starts, factors, targets, precisions, prior, max_iter)
        )
    best = min(found, key=operator.itemgetter(0))[1]
    weights = _softmax(best[:n_components])
    logits = best[n_components:].reshape(n_components, -1)
    return ProductMixture(weights, tuple(_softmax(logits[:, a:b]) for a, b in pairwise(starts)))


def _minimise(start, n_components, starts, factors, targets, precisions, prior, max_iter):
    """The least value of `objective` that was found, and where; infinity if it is not finite."""
    arguments = (n_components, starts, factors, targets, precisions, prior)
    with np.errstate(all="ignore"):
        found = minimize(
            lambda x: objective(x, *arguments),
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "ftol": 1e-7, "maxcor": MIXTURE.memory},
        )
    return (found.fun, found.x) if np.isfinite(found.x).all() else (np.inf, prior)


def _softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def objective(
    x: Any, n_components: Any, starts: Any, factors: Any, targets: Any, precisions: Any, prior: Any
) -> Any:
    """Value and gradient at x, the logits of the components followed by those of all columns.

    ``prior`` holds the logits from which distances are penalised.
    """
    p = _softmax(x[:n_components])
    logits = x[n_components:].reshape(n_components, -1)
    to = np.zeros_like(p), np.zeros_like(logits)
    # The contrasts of single columns by component, and 1; their derivatives; a product of them.
    m = np.ones((starts[-1] - len(starts) + 2, n_components))
    room = np.empty_like(logits), m, np.zeros_like(m), np.empty(n_components)
    moments = factors, targets, precisions
    value = _accumulate(p, logits, starts, moments, room, to)
    to_p, to_logits = to
    gradient = np.concatenate([p * (to_p - p @ to_p), to_logits.ravel()])
    away = x - prior
    return value + 0.5 * MIXTURE.ridge * (away @ away), gradient + MIXTURE.ridge * away


@njit
def _accumulate(p, logits, starts, moments, room, to):
    """Return the value without the ridge; add to the derivatives ``to``, by p and by the logits.

    ``moments`` holds the factors, targets and precisions of all contrasts; ``room`` is for
    the probabilities of all values, their contrasts, the derivatives by these, and a product.
    """
    factors, targets, precisions = moments
    q, m, to_m, product = room
    to_p, to_logits = to
    K, d = p.size, starts.size - 1
    one = m.shape[0] - 1
    for k in range(K):
        for j in range(d):
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
    value = 0.0
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
    for k in range(K):
        for j in range(d):
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
    return value
