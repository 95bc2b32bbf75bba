"""Laws of curves: what additive models are for, and where they should lose nothing."""

import numpy as np

from laws.columns import own, signal
from laws.law import Cells, labelled, measured, register

DESIGN = (
    Cells(300, (0.3, 1.0, 3.0), 12),
    Cells(1000, (0.1, 0.3, 1.0, 3.0, 8.0), 12),
    Cells(4000, (0.1, 0.3, 1.0, 3.0, 8.0), 12),
    Cells(16_000, (0.1, 0.3, 1.0, 3.0), 4),
    Cells(50_000, (0.1, 1.0), 2),
)


def of_curves(draw):
    """A law of features and predictions, for additive models beside linear ones."""
    register(draw, "numbers of curves", DESIGN, measured(draw))
    register(draw, "labels of curves", DESIGN, labelled(draw))
    return draw


def standardised(parts):
    """Predictions of deviation 2 that are sums of columns which weigh alike."""
    return 2.0 * (total := np.sum(parts, axis=1) - np.mean(parts) * len(parts[0])) / total.std()


@of_curves
def pure_noise(rng, n):
    """Twenty columns that tell nothing."""
    return rng.normal(size=(n, 20)), 2.0 * rng.normal(size=n)


@of_curves
def linear_5(rng, n):
    """Five measurements whose effects are linear."""
    return (X := rng.normal(size=(n, 5))), signal(X, rng)


@of_curves
def linear_100(rng, n):
    """A hundred measurements whose effects are linear."""
    return (X := rng.normal(size=(n, 100))), signal(X, rng)


@of_curves
def steps(rng, n):
    """Ten scores, each with a step somewhere, such as a legal limit."""
    X = rng.uniform(0.0, 100.0, (n, 10))
    return X, standardised(X > own(rng).uniform(20.0, 80.0, 10))


@of_curves
def threshold(rng, n):
    """Ten measurements, of which one counts: beyond a threshold."""
    X = rng.normal(50.0, 15.0, (n, 10))
    return X, standardised((X > 60.0) * (np.arange(10) == 3))


@of_curves
def humps(rng, n):
    """Ten doses or ages whose effects rise and fall."""
    X = rng.uniform(18.0, 90.0, (n, 10))
    return X, standardised(np.sin((X - 18.0) / 12.0 + own(rng).uniform(0.0, 6.0, 10)))


@of_curves
def humps_of_100(rng, n):
    """A hundred columns, five of which rise and fall."""
    X = rng.normal(size=(n, 100))
    return X, standardised(np.sin(2.0 * X[:, :5]))


@of_curves
def interactions(rng, n):
    """Eight columns, with linear effects and two products of pairs."""
    X = rng.normal(size=(n, 8))
    return X, standardised(np.column_stack([X[:, :4], 2.0 * X[:, 0:3:2] * X[:, 1:4:2]]))


@of_curves
def point_masses(rng, n):
    """Six amounts, most of which are 0, and four answers with the code 99 for a refusal."""
    amounts = np.where(rng.random((n, 6)) < 0.6, 0.0, np.exp(4.0 + rng.normal(size=(n, 6))))
    answers = np.where(rng.random((n, 4)) < 0.1, 99.0, rng.integers(1, 8, (n, 4)))
    effects = np.log1p(amounts), 2.0 * (amounts == 0.0)[:, :3], answers % 99.0
    return np.column_stack([amounts, answers]), standardised(np.column_stack(effects))


@of_curves
def heavy_tails(rng, n):
    """Ten columns of Student's law with two degrees of freedom, whose effects saturate."""
    X = rng.standard_t(2.0, (n, 10))
    return X, standardised(np.tanh(X) * own(rng).choice([-1.0, 1.0], 10))
