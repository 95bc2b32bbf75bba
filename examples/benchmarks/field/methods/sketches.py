"""Regressions from Gaussian sketches: Gaussian mixing (Sheffet 2017; Lev et al. 2025) and Iterative
Hessian Mixing (Lev et al. 2026), with the constants and the accounting of the authors' code.

A sketch is a Gaussian matrix times the records, with noise if the records' least eigenvalue is
small. The guarantee is that of a record that is removed. With epsilon / 2 and delta / (1 + exp(
epsilon / 2)) that of a replaced record follows: it is removed, and another one is added. The
methods are told the exact means, deviations and largest norms of the training records, which is not
private and favours them.
"""

import math
from functools import partial

import numpy as np

from field.methods import Method
from skdpsco.privacy import Budget

STEPS, ROWS, MIXED_ROWS = 3, 6.0, 2.5  # of Hessian mixing, and rows of a sketch for each column
FAILURE = 0.1  # probability that a bound fails, over delta
DELTA_OF_SKETCHES = 0.75


def least_eigenvalue(k, epsilon, delta, norm2, steps=1):
    """The eigenvalue from which on sketches of k rows are private: Renyi orders, by bisection.

    ``norm2`` bounds the squared norm of a row. A third of delta is for the conversion, and two
    thirds for the release of the records' least eigenvalue.
    """
    delta /= 3.0

    def spent(gamma):
        order = 1.0 + np.geomspace(1e-5, 1.0, 2000) * (gamma / norm2 - 1.0) * 0.999999
        loss = order * np.log1p(-norm2 / gamma) - np.log1p(-order * norm2 / gamma)
        cost = (order - 1.0) * np.log1p(-1.0 / order) - np.log(order) - math.log(delta)
        orders = (steps * 0.5 * k * loss + cost) / (order - 1.0)
        return orders.min() + math.sqrt(2.0 * math.log(1.25 / delta) * k) / gamma

    low, high = 1.001 * norm2, 1e9
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if spent(middle) <= epsilon else (middle, high)
    return high


def noise_beside(A, gamma, k, norm2, margin, rng):
    """Deviation of the noise that lifts the least eigenvalue to gamma."""
    noise = math.sqrt(norm2) * gamma / math.sqrt(k)
    found = np.linalg.eigvalsh(A.T @ A)[0] - noise * (margin - rng.normal())
    return math.sqrt(max(0.0, gamma - max(0.0, found)))


def hessian_mixing(A, y, epsilon, delta, rng):
    """Newton steps on clipped residuals, each with a sketch of its own."""
    d, failure = A.shape[1], FAILURE * delta
    k = int(ROWS * max(d, math.log(4.0 * STEPS / failure)))
    gamma = least_eigenvalue(k, 0.5 * epsilon, DELTA_OF_SKETCHES * delta, 1.0, STEPS)
    margin = math.sqrt(2.0 * math.log(4.0 / failure))
    beside = noise_beside(A, gamma, k, 1.0, margin, rng)
    noise = math.sqrt(STEPS) / Budget(0.5 * epsilon, (1.0 - DELTA_OF_SKETCHES) * delta).mu
    w = np.zeros(d)
    for _ in range(STEPS):
        S = rng.normal(size=(k, len(y))) @ A + beside * rng.normal(size=(k, d))
        moment = A.T @ np.clip(y - A @ w, -1.0, 1.0) + noise * rng.normal(size=d)
        w += np.linalg.solve(S.T @ S / k, moment)
    return w


def gaussian_mixing(A, y, epsilon, delta, rng):
    """Least squares on one sketch of records and targets."""
    d, failure = A.shape[1], FAILURE * delta
    k = int(MIXED_ROWS * max(d, math.log(2.0 / failure)))
    gamma = least_eigenvalue(k, epsilon, delta, 2.0)
    Z = np.column_stack([A, y])
    margin = math.sqrt(2.0 * math.log(max(3.0 / delta, 2.0 / failure)))
    beside = noise_beside(Z, gamma, k, 2.0, margin, rng)
    S = rng.normal(size=(k, len(y))) @ Z + beside * rng.normal(size=(k, d + 1))
    return np.linalg.lstsq(S[:, :-1], S[:, -1])[0]


def run(solve, replaced, problem, budget, rng):
    epsilon, delta = budget.epsilon, budget.delta
    if replaced:
        epsilon, delta = epsilon / 2.0, delta / (1.0 + math.exp(epsilon / 2.0))
    centre, scale, middle = problem.X.mean(axis=0), problem.X.std(axis=0), problem.y.mean()
    A, A_test = (
        (X - centre) / np.where(scale > 0.0, scale, 1.0) for X in (problem.X, problem.X_test)
    )
    longest, largest = np.linalg.norm(A, axis=1).max(), np.abs(problem.y - middle).max()
    w = solve(A / longest, (problem.y - middle) / largest, epsilon, delta, rng)
    return {"values": middle + largest * (A_test / longest) @ w}


METHODS = {
    f"{name}{suffix}": Method(("regression",), partial(run, solve, not suffix), weaker=bool(suffix))
    for name, solve in (("Hessian mixing", hessian_mixing), ("Gaussian mixing", gaussian_mixing))
    for suffix in ("", ", removed record")
}
