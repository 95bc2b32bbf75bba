"""Laws of targets: far from 0, heavy-tailed, mostly equal; rare and separable classes; groups."""

import numpy as np
import robustness

from laws.columns import indicators, own, signal
from laws.law import FEW, Cells, of_groups, of_labels, of_numbers, register

EIGHT = 8


def eight(rng, n):
    """Ordinary columns and predictions of deviation 1."""
    X = rng.normal(size=(n, EIGHT))
    return X, 0.5 * signal(X, rng)


# ------------------------------------------------------------------------------ numbers


@of_numbers()
def far_target(rng, n):
    """Targets with an offset, such as altitudes or grades of another scale: 10,000 +- 3."""
    X, z = eight(rng, n)
    return X, 10_000.0 + 2.7 * (z + 0.5 * rng.normal(size=n))


@of_numbers()
def million(rng, n):
    """Times or identifiers with a drift that is wanted: 10^6 +- 3."""
    X, z = eight(rng, n)
    return X, 1e6 + 2.7 * (z + 0.5 * rng.normal(size=n))


@of_numbers()
def tiny_target(rng, n):
    """Rates per head, of size 10^-4."""
    X, z = eight(rng, n)
    return X, 1e-4 * (3.0 + z + 0.5 * rng.normal(size=n))


@of_numbers()
def heavy_noise(rng, n):
    """Delays and returns: what is not explained is of Student's law with two degrees."""
    X, z = eight(rng, n)
    return X, z + 0.3 * rng.standard_t(2.0, n)


@of_numbers()
def lognormal_target(rng, n):
    """Prices, rents and costs: log-normal targets."""
    X, z = eight(rng, n)
    return X, 200_000.0 * np.exp(0.6 * z + 0.3 * rng.normal(size=n))


@of_numbers()
def pareto_target(rng, n):
    """Claims of an insurance: effects multiply a loss with a long tail."""
    X, z = eight(rng, n)
    return X, 1000.0 * np.exp(0.5 * z) * (1.0 + rng.pareto(3.0, n))


@of_numbers()
def tenth_ones(rng, n):
    """An event of one record in ten, fitted as a number."""
    X, z = eight(rng, n)
    z = z + 0.5 * rng.normal(size=n)
    return X, (z > np.quantile(z, 0.9)).astype(float)


@of_numbers()
def amounts_target(rng, n):
    """Claims or purchases: 0 for most records, log-normal for one in eight."""
    X, z = eight(rng, n)
    z = z + 0.5 * rng.normal(size=n)
    return X, np.where(z > np.quantile(z, 0.875), np.exp(4.0 + 0.5 * rng.normal(size=n)), 0.0)


@of_numbers()
def usual_fee(rng, n):
    """A fee of 50 that one record in ten does not pay, but up to 200."""
    X, z = eight(rng, n)
    z = z + 0.5 * rng.normal(size=n)
    return X, np.where(z > np.quantile(z, 0.9), 100.0 + 100.0 * rng.random(n), 50.0)


@of_numbers()
def count_target(rng, n):
    """Visits per year with a mean of about one, fitted by least squares."""
    X, z = eight(rng, n)
    return X, rng.poisson(np.exp(0.6 * z - 0.2)).astype(float)


@of_numbers()
def two_lumps(rng, n):
    """Two kinds of records with targets near 0 and near 100."""
    X, z = eight(rng, n)
    high = z + 0.4 * rng.normal(size=n) > 0.0
    return X, 100.0 * high + 3.0 * rng.normal(size=n)


@of_numbers(FEW)
def small_far_target(rng, n):
    """A pilot study whose target is far from 0: blood pressures, temperatures, years."""
    X, z = eight(rng, n)
    return X, 130.0 + 15.0 * (z + 0.5 * rng.normal(size=n))


@of_numbers((Cells(332, (0.3, 0.5, 1.0, 2.0, 4.0, 8.0), 24),))
def diabetes(rng, n):
    """Patients with ten measurements (scikit-learn's table), 332 to fit."""
    X, y, X_test, y_test, _ = robustness.diabetes(rng)
    return np.vstack([X_test, X]), np.concatenate([y_test, y])


# ------------------------------------------------------------------------------ labels


@of_labels()
def rare_class(rng, n):
    """Defaults, frauds or diseases: 5 % positives."""
    X = robustness.uniform(rng, 20, -1.0, n=n)
    return X, robustness.signal(X, own(rng)) - 4.5


@of_labels()
def rare_among_indicators(rng, n):
    """Readmissions among categories: 5 % positives, 40 indicators."""
    X = robustness.one_hot(rng, 5, 8, n=n)
    return X, signal(X, rng) - 4.5


@of_labels(FEW)
def small_rare_class(rng, n):
    """A pilot study with a rare outcome: 8 % positives."""
    X = np.column_stack([rng.normal(size=(n, 6)), indicators(rng, n, 4, 0.2)])
    return X, signal(X, rng) - 3.8


@of_labels()
def separable(rng, n):
    """Two species or machines that measurements tell apart with hardly an error."""
    return (X := rng.normal(size=(n, 10)) * 3.0 + 20.0), 10.0 * signal(X, rng)


def cancer(rng, n):
    """Patients with thirty raw measurements (scikit-learn's table), 427 to fit."""
    X, y, X_test, y_test, _ = robustness.cancer(rng, "raw")
    return np.vstack([X_test, X]), np.concatenate([y_test, y])


register(cancer, "labels", (Cells(427, (0.3, 0.5, 1.0, 2.0, 4.0, 8.0), 24),), cancer)


# ------------------------------------------------------------------------------ groups


def of_sizes(rng, n, shares):
    """Groups of given shares, in a random order."""
    return rng.choice(len(shares), n, p=shares)


@of_groups()
def conflict(rng, n):
    """A minority of a fifth in which some effects are the opposite."""
    X, g = robustness.uniform(rng, 20, -1.0, n=n), of_sizes(rng, n, [0.8, 0.2])
    common, other = signal(X[:, :14], rng), signal(X[:, 14:], rng)
    return X, 0.7 * common + 0.7 * np.where(g == 1, -other, other), g


@of_groups()
def shifted(rng, n):
    """A minority of a fifth with the same effects and another level."""
    X, g = robustness.uniform(rng, 20, -1.0, n=n), of_sizes(rng, n, [0.8, 0.2])
    return X, signal(X, rng) + 1.5 * (g == 1), g


@of_groups()
def five_groups(rng, n):
    """Five regions with 50 to 5 % of the records, each with effects of its own."""
    X, g = rng.normal(size=(n, 12)), of_sizes(rng, n, [0.5, 0.2, 0.15, 0.1, 0.05])
    extra = np.stack([signal(X[:, 8:], rng) for _ in range(5)])
    return X, 0.8 * signal(X[:, :8], rng) + 0.5 * extra[g, np.arange(n)], g


@of_groups()
def groups_of_counts(rng, n):
    """Hospitals with counts as features, two of them, with 30 % in the smaller."""
    X, g = rng.poisson(own(rng).uniform(0.5, 5.0, 12), (n, 12)), of_sizes(rng, n, [0.7, 0.3])
    z = signal(X, rng)
    return X.astype(float), z + np.where(g == 1, 0.5, 0.0) * signal(X[:, :4], rng), g
