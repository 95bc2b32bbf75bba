"""What fits are compared with: a private constant, and a model without privacy."""

from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

CELLS, ROUNDS = 64, 4
BELIEVED = 4.0  # deviations of the noise of a count


@cache
def gaussian_mu(epsilon, delta):
    """The largest mu of Gaussian noise that is (epsilon, delta)-differentially private."""

    def excess(mu):
        second = np.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2.0))
        return norm.cdf(-epsilon / mu + mu / 2.0) - second - delta

    return brentq(excess, 1e-4, 100.0)


def believed(y, edges, mu, rng):
    """Indices of the cells whose noisy count stands out of the noise."""
    noise = np.sqrt(2.0) / mu
    found = np.histogram(y, edges)[0] + noise * rng.normal(size=len(edges) - 1)
    return np.flatnonzero(found > BELIEVED * noise)


def private_mean(y, epsilon, delta, relation, rng):
    """A noisy mean in a range that noisy histograms find, for all of the budget; 0 if they do not.

    One histogram of magnitudes, and some within the last range, take half of mu^2.
    """
    mu = gaussian_mu(epsilon, delta)
    of_range, of_mean = mu * np.sqrt(0.5 / (ROUNDS + 1)), mu * np.sqrt(0.5)
    powers = np.concatenate([[0.0], 2.0 ** np.arange(-32, 33)])
    cells = believed(np.abs(y), powers, of_range, rng)
    if not len(cells):
        return 0.0
    high = powers[cells[-1] + 1]
    low = -high
    for _ in range(ROUNDS):
        edges = np.linspace(low, high, CELLS + 1)
        cells = believed(y, edges, of_range, rng)
        if len(cells):
            first, last = edges[cells[0]], edges[cells[-1] + 1]
            room = 0.5 * (last - first)  # what is next to believed cells is not empty
            low, high = max(first - room, low), min(last + room, high)
    reach = (high - low) * (1.0 if relation == "replace-one" else 0.5)
    middle = (low + high) / 2.0
    total = (np.clip(y, low, high) - middle).sum() + reach / of_mean * rng.normal()
    return float(np.clip(middle + total / len(y), low, high))


def private_constant(y, labels, epsilon, delta, relation, rng):
    """The majority class by noisy counts, or a noisy mean."""
    if not labels:
        return private_mean(y, epsilon, delta, relation, rng)
    noise = rng.normal() / gaussian_mu(epsilon, delta)
    return int(y.sum() + noise > len(y) / 2.0)


def optimum(X, y, labels):
    """A linear model of standardised columns, without privacy."""
    model = LogisticRegression(solver="newton-cholesky") if labels else Ridge(alpha=1.0)
    return make_pipeline(StandardScaler(with_mean=isinstance(X, np.ndarray)), model).fit(X, y)
