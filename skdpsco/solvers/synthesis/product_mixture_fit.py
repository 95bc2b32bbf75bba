"""Fit a mixture of products (a latent-class model) to noisy contrasts, as post-processing."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import minimize

from skdpsco._kernels import njit
from skdpsco.solvers.synthesis.contrasts import Subset
from skdpsco.solvers.synthesis.distributions import ProductMixture

__all__ = ["fit", "terms"]

# Weight of half the squared norm of the logits, which keeps probabilities above 0; chosen by hand.
LOGIT_RIDGE = 0.5


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


def fit(
    shape: tuple[int, ...],
    factors: np.ndarray,
    targets: np.ndarray,
    precisions: np.ndarray,
    n_components: int,
    rng: np.random.Generator,
    n_starts: int = 3,
    max_iter: int = 100,
) -> ProductMixture:
    """Minimise ``sum of precision * (contrast of the mixture - target)**2 / 2``, roughly.

    Parameters
    ----------
    shape : tuple of int
    factors : ndarray of shape (n_contrasts, n_factors)
        The result of `terms`.
    targets, precisions : ndarray of shape (n_contrasts,)
    n_components : int
    rng : numpy.random.Generator
        Draws the starting points.
    n_starts : int, default=3
        Number of runs, of which the best is returned.
    max_iter : int, default=100
    """
    starts = np.concatenate([[0], np.cumsum(shape)])
    arguments = (n_components, starts, factors, targets, precisions, LOGIT_RIDGE)
    best, least = np.zeros(n_components * (1 + starts[-1])), np.inf
    for _ in range(n_starts):
        start = np.zeros(best.size)
        start[n_components:] = rng.random(start.size - n_components) - 0.5
        with np.errstate(all="ignore"):
            found = minimize(
                lambda x: objective(x, *arguments),
                start,
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": max_iter, "ftol": 1e-7},
            )
        if np.isfinite(found.x).all() and found.fun < least:
            best, least = found.x, found.fun
    weights = _softmax(best[:n_components])
    logits = best[n_components:].reshape(n_components, -1)
    return ProductMixture(weights, tuple(_softmax(logits[:, a:b]) for a, b in pairwise(starts)))


def _softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def objective(
    x: Any, n_components: Any, starts: Any, factors: Any, targets: Any, precisions: Any, ridge: Any
) -> Any:
    """Value and gradient at x, the logits of the components followed by those of all columns."""
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
    return value + 0.5 * ridge * (x @ x), gradient + ridge * x


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
