"""Published private linear models in plain versions, with which defaults are compared.

Neighbours replace one record. All noise is Gaussian, drawn in floating point, and the releases of a
model share the mu of its budget: for (epsilon, delta) the exact curve. (A regression's target is
scaled as the library does, in zCDP, so that what is left is sqrt(2 rho).) Every model reads rows
minus a noisy mean, shortened to a noisy root mean square of their norms, both found as the library
finds them.

The constants below are the same for all data and budgets. It is not recorded how they were chosen,
so better ones may exist.
"""

import math

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from skdpsco.data.design import as_design
from skdpsco.privacy import Budget, mu_of, rho_of
from skdpsco.scaling.conditioning import plan_conditioning
from skdpsco.scaling.target import plan_target, release_target

LENGTH, ONES = 1.1, 0.3  # of rows in root mean squares, and of an intercept's entry beside 1
STEPS, STEP = 30, 8.0  # of gradient descent on rows of norm at most 1
PENALTY_SHARE, OUTPUT_SHARE = 0.1, 0.01  # of epsilon, and of what is left of mu, for perturbation
GRADIENT = 1e-9  # norm of a gradient, over the number of records, that counts as 0
NEWTON_STEPS, ROUNDING = 200, 2.0**-52  # at most, and of a number: of a sum, at most that per term
NEWTON_ROUNDS, GRADIENTS = 15, 0.7  # of private Newton steps, and their gradients' share of rho
TRACES, TRACE = 0.1, 0.5  # share of the rest for traces, and how much of a trace counts
ROUNDS, RESIDUALS = 10, 0.3  # rounds of boosting, and where it clips residuals
FAILURE = 0.05  # of the bound on noise eigenvalues


class Rows:
    """Rows of norm at most 1, the last entry that of an intercept, from what was released."""

    def __init__(self, X, bound, mu, rng):
        n, d = X.shape
        self.bounds = np.full(d, bound) if np.isscalar(bound) else np.asarray(bound)
        plan = plan_conditioning(n, d, mu)
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


def gradient_descent(X, y, X_test, bound, budget, rng, steps=STEPS, step=STEP):
    """Labels by full-batch gradient descent on the logistic loss (Song et al. 2013; Abadi 2016)."""
    rows = Rows(X, bound, budget.mu, rng)
    A, n = rows.training, len(y)
    # A record's gradient has norm at most 1, and every step has mu / sqrt(steps).
    noise = 2.0 / n * math.sqrt(steps) / rows.mu
    w, total = np.zeros(A.shape[1]), np.zeros(A.shape[1])
    for t in range(steps):
        w -= step * (A.T @ (expit(A @ w) - y) / n + noise * rng.normal(size=len(w)))
        if t >= steps // 2:
            total += w
    return (rows.of(X_test) @ total > 0.0).astype(int)


def newton(X, y, X_test, bound, budget, rng):
    """Labels by Newton's method with noise in gradients and in steps (Ganesh et al. 2023).

    The Hessian is the matrix of the tightest quadratic bound on the logistic loss, plus a ridge,
    and the constants are those of the authors' script. A replaced record moves a sum by what two
    records can, and a step by twice what one of them can.
    """
    rows = Rows(X, bound, budget.mu, rng)
    A, (n, d) = rows.training, rows.training.shape
    rho = 0.5 * rows.mu**2 / NEWTON_ROUNDS
    of_gradients, rest = GRADIENTS * rho, (1.0 - GRADIENTS) * rho
    of_traces, of_steps = TRACES * rest, (1.0 - TRACES) * rest
    w = np.zeros(d)
    for _ in range(NEWTON_ROUNDS):
        z = A @ w
        gradient = A.T @ (expit(z) - y) / n + 2.0 / n * math.sqrt(0.5 / of_gradients) * rng.normal(
            size=d
        )
        z = np.maximum(np.abs(z), 1e-9)
        H = (A.T * (0.5 * np.tanh(0.5 * z) / z)) @ A / n
        trace = np.trace(H) + 0.25 / n * math.sqrt(0.5 / of_traces) * rng.normal()
        ridge = max((TRACE * max(trace, 0.0) / (n**2 * of_steps)) ** (1.0 / 3.0), 1.0 / n)
        moved = 2.0 * np.linalg.norm(gradient) * 0.25 / (n * ridge**2 + 0.25 * ridge)
        step = np.linalg.solve(H + ridge * np.eye(d), gradient)
        w -= step + moved * math.sqrt(0.5 / of_steps) * rng.normal(size=d)
    return (rows.of(X_test) @ w > 0.0).astype(int)


def objective_noise(budget, mu, ridge):
    """Standard deviation of the linear term of a perturbed objective, for rows of norm at most 1.

    With noise b in the sum of logistic losses, the minimiser is a function of b that can be
    inverted. A replaced record moves b by sx - s'x' with |s|, |s'| <= 1, a vector of norm at most 2
    in a plane, where b has the length sigma R, R of Rayleigh's law. It changes the determinant of
    the Hessian, both sides of which are at least that of the other records, by a factor of at most
    1 + 1 / (4 ridge). So the privacy loss is at most 2 R / sigma + 2 / sigma**2 + log(that factor),
    to which the loss of Gaussian releases with ``mu`` is added, normal with mean mu**2 / 2. The
    integral over R takes the larger end of every cell.
    """
    ends = np.linspace(0.0, 12.0, 12001)
    survival = np.append(np.exp(-0.5 * ends**2), 0.0)
    ends = np.append(ends[1:], np.inf)

    def delta(sigma):
        loss = math.log1p(0.25 / ridge) + 2.0 * ends / sigma + 2.0 / sigma**2
        rest = np.maximum(budget.epsilon - loss, -700.0)
        above = norm.cdf(mu / 2.0 - rest / mu) - np.exp(rest) * norm.cdf(-mu / 2.0 - rest / mu)
        above[-1] = 1.0
        return float(-np.diff(survival) @ above)

    low, high = 1e-3, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if delta(middle) <= budget.delta else (middle, high)
    return high


def _minimum(A, y, ridge, b):
    """Where the gradient of the perturbed objective is at most GRADIENT per record long.

    Newton's steps are halved until the value falls, as far as rounding lets one see it: near the
    minimum steps are good although differences of values are lost in rounding.
    """
    n, d = A.shape
    signs, w = 1.0 - 2.0 * y, np.zeros(d)

    def value(w):
        parts = np.logaddexp(0.0, signs * (A @ w)).sum(), 0.5 * ridge * w @ w, b @ w
        return sum(parts), ROUNDING * n * sum(map(abs, parts))

    for _ in range(NEWTON_STEPS):
        p = expit(A @ w)
        gradient = A.T @ (p - y) + ridge * w + b
        if np.linalg.norm(gradient) <= GRADIENT * n:
            return w
        step = np.linalg.solve((A.T * (p * (1.0 - p))) @ A + ridge * np.eye(d), gradient)
        slope, length, (now, error) = 0.1 * gradient @ step, 1.0, value(w)
        while value(w - length * step)[0] > now - length * slope + error:
            length *= 0.5
        w -= length * step
    raise RuntimeError("Newton's method did not find a minimum.")


def objective_perturbation(X, y, X_test, bound, budget, rng, penalty=PENALTY_SHARE):
    """Labels by an approximate minimum of a perturbed logistic loss (Iyengar et al. 2019)."""
    rows = Rows(X, bound, budget.mu, rng)
    A = rows.training
    d, share = A.shape[1], OUTPUT_SHARE * rows.mu
    ridge = 0.25 / math.expm1(penalty * budget.epsilon)
    gaussian = math.sqrt(budget.mu**2 - rows.mu**2 + share**2)
    b = objective_noise(budget, gaussian, ridge) * rng.normal(size=d)
    w = _minimum(A, y, ridge, b)
    # An approximate minimum is at most the gradient's norm over the ridge from the exact one.
    w += 2.0 * GRADIENT * len(y) / ridge / share * rng.normal(size=d)
    return (rows.of(X_test) @ w > 0.0).astype(int)


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


def _ridge(A, mu, rng, share=1.0):
    """Noisy second moments of least eigenvalue about that of their noise (Wang 2018).

    A ``share`` below 1 adds less to the diagonal than the bound on the noise asks for.
    """
    third = mu / math.sqrt(2.0)
    least = np.linalg.eigvalsh(A.T @ A)[0] + rng.normal() / third
    least = max(0.0, least - math.sqrt(math.log(6.0 / FAILURE)) / third)
    M, noise = _second_moments(A, third, rng)
    return M + share * max(0.0, noise - least) * np.eye(len(M))


def adassp(X, y, X_test, bound, budget, rng, share=1.0):
    """Least squares by sufficient statistics with an adaptive ridge (Wang 2018)."""
    target, y, mu = _scaled(y, budget, rng)
    rows = Rows(X, bound, mu, rng)
    A = rows.training
    M = _ridge(A, rows.mu * math.sqrt(2.0 / 3.0), rng, share)
    moment = A.T @ y + 2.0 / (rows.mu * math.sqrt(1.0 / 3.0)) * rng.normal(size=len(M))
    return target.centre + target.scale * (rows.of(X_test) @ np.linalg.solve(M, moment))


def boosted_adassp(X, y, X_test, bound, budget, rng, rounds=ROUNDS, residual=RESIDUALS):
    """Repeated AdaSSP on clipped residuals, with one second-moment matrix for all (Tang 2023)."""
    target, y, mu = _scaled(y, budget, rng)
    rows = Rows(X, bound, mu, rng)
    A = rows.training
    half = rows.mu * math.sqrt(0.5)
    M = _ridge(A, half, rng)
    noise = 2.0 * residual / (half / math.sqrt(rounds))
    w = np.zeros(A.shape[1])
    for _ in range(rounds):
        residuals = np.clip(y - A @ w, -residual, residual)
        w += np.linalg.solve(M, A.T @ residuals + noise * rng.normal(size=len(w)))
    return target.centre + target.scale * (rows.of(X_test) @ w)


CLASSIFICATION = {"DP-GD": gradient_descent, "objective": objective_perturbation}
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
