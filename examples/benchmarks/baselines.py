"""Known private linear models, as plain as they are published, to compare defaults with.

Neighbours replace one record. All noise is Gaussian, drawn in floating point, and the releases of a
model share the mu of its budget: for (epsilon, delta) the exact curve. (A regression's target is
scaled as the library does, in zCDP, so that what is left is sqrt(2 rho).) Every model reads rows
less a noisy mean, shortened to a noisy root mean square of their norms, both found as the library
finds them.

Hyper-parameters were fixed on planted problems with 10 and 50 columns in [-1, 1].
"""

import math

import numpy as np
from scipy.special import expit

from skdpsco.data.design import as_design
from skdpsco.privacy import Budget, mu_of, rho_of
from skdpsco.scaling.conditioning import plan_conditioning
from skdpsco.scaling.target import plan_target, release_target

LENGTH, ONES = 1.1, 0.3  # of rows in root mean squares, and of an intercept's entry beside 1
STEPS, STEP = 30, 8.0  # of gradient descent on rows of norm at most 1
ROUNDS, RESIDUALS = 10, 0.3  # of boosting, and where it clips residuals
FAILURE = 0.05  # of the bound on noise eigenvalues


class Rows:
    """Rows of norm at most 1, the last entry that of an intercept, from what was released."""

    def __init__(self, X, bound, mu, rng):
        n, d = X.shape
        self.bounds = np.full(d, bound) if np.isscalar(bound) else np.asarray(bound)
        plan = plan_conditioning(n, d, mu, True)
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
        self.found = plan.release(as_design(X, self.bounds, True), np.zeros(n), rng)
        self.mu = math.sqrt(mu**2 - mu_of(plan.event) ** 2)
        self.training = self.of(X)

    def of(self, X):
        """Rows as the model reads them: a scale is about three root mean squares."""
        X = X.toarray() if hasattr(X, "toarray") else X
        X = np.clip(X, -self.bounds, self.bounds) / self.bounds
        A = (X - self.found.centre) / self.found.scale * 3.0 / math.sqrt(X.shape[1]) / LENGTH
        A /= np.maximum(np.linalg.norm(A, axis=1), 1.0)[:, None]
        return np.column_stack([A, np.full(len(A), ONES)]) / math.sqrt(1.0 + ONES**2)


def gradient_descent(X, y, X_test, bound, budget, rng):
    """Labels by full-batch gradient descent on the logistic loss (Song et al. 2013; Abadi 2016)."""
    rows = Rows(X, bound, budget.mu, rng)
    A, n = rows.training, len(y)
    # A record's gradient has norm at most 1, and every step has mu / sqrt(STEPS).
    noise = 2.0 / n * math.sqrt(STEPS) / rows.mu
    w, total = np.zeros(A.shape[1]), np.zeros(A.shape[1])
    for t in range(STEPS):
        w -= STEP * (A.T @ (expit(A @ w) - y) / n + noise * rng.normal(size=len(w)))
        if t >= STEPS // 2:
            total += w
    return (rows.of(X_test) @ total > 0.0).astype(int)


def _scaled(y, budget, rng):
    """The target's centre and scale, the scaled target, and the mu that is left."""
    plan = plan_target(None, True, len(y), budget.rho)
    target = release_target(plan, y, rng)
    return target, target.apply(y), math.sqrt(2.0 * (budget.rho - rho_of(plan.event)))


def _second_moments(A, mu, rng):
    """Noisy second moments, and a bound on the norm of their noise: for rows of norm at most 1."""
    d = A.shape[1]
    noise = math.sqrt(2.0) / mu
    E = rng.normal(size=(d, d)) * noise
    E = np.triu(E) + np.triu(E, 1).T
    return A.T @ A + E, noise * math.sqrt(d * math.log(2.0 * d * d / FAILURE))


def _ridge(A, mu, rng):
    """Noisy second moments of least eigenvalue about that of their noise (Wang 2018)."""
    third = mu / math.sqrt(2.0)
    least = np.linalg.eigvalsh(A.T @ A)[0] + rng.normal() / third
    least = max(0.0, least - math.sqrt(math.log(6.0 / FAILURE)) / third)
    M, noise = _second_moments(A, third, rng)
    return M + max(0.0, noise - least) * np.eye(len(M))


def adassp(X, y, X_test, bound, budget, rng):
    """Least squares by sufficient statistics with an adaptive ridge (Wang 2018)."""
    target, y, mu = _scaled(y, budget, rng)
    rows = Rows(X, bound, mu, rng)
    A = rows.training
    M = _ridge(A, rows.mu * math.sqrt(2.0 / 3.0), rng)
    moment = A.T @ y + 2.0 / (rows.mu * math.sqrt(1.0 / 3.0)) * rng.normal(size=len(M))
    return target.centre + target.scale * (rows.of(X_test) @ np.linalg.solve(M, moment))


def boosted_adassp(X, y, X_test, bound, budget, rng):
    """AdaSSP again and again on clipped residuals, one second-moment matrix for all (Tang 2023)."""
    target, y, mu = _scaled(y, budget, rng)
    rows = Rows(X, bound, mu, rng)
    A = rows.training
    half = rows.mu * math.sqrt(0.5)
    M = _ridge(A, half, rng)
    noise = 2.0 * RESIDUALS / (half / math.sqrt(ROUNDS))
    w = np.zeros(A.shape[1])
    for _ in range(ROUNDS):
        residuals = np.clip(y - A @ w, -RESIDUALS, RESIDUALS)
        w += np.linalg.solve(M, A.T @ residuals + noise * rng.normal(size=len(w)))
    return target.centre + target.scale * (rows.of(X_test) @ w)


CLASSIFICATION = {"DP-GD": gradient_descent}
REGRESSION = {"AdaSSP": adassp, "boosted AdaSSP": boosted_adassp}


def scores(X, y, X_test, y_test, bound, epsilon, rng, delta=1e-6):
    """Accuracy or R^2 of every baseline, by name."""
    classify = y.dtype.kind == "i"
    budget, found = Budget(epsilon, delta), {}
    for name, predict in (CLASSIFICATION if classify else REGRESSION).items():
        predicted = predict(X, y, X_test, bound, budget, rng)
        if classify:
            found[name] = float(np.mean(predicted == y_test))
        else:
            found[name] = float(1.0 - np.mean((predicted - y_test) ** 2) / y_test.var())
    return found
