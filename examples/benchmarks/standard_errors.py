"""
Coverage of the intervals of fits to records
============================================

Prints how often intervals of nominally 95 % cover their coefficients, for fits with
``standard_errors=True``, and how large errors are beside those of fits without, over 400
repetitions at each size, and a quarter as many at the largest::

    python examples/benchmarks/standard_errors.py [logistic] [ridge] [huber] [repetitions]
"""

import sys
import warnings

import numpy as np
from scipy.special import expit

from skdpsco import PrivateHuberRegressor, PrivateLogisticRegression, PrivateRidge, UtilityWarning

# The law of the features, records, features and epsilon.
SIZES = [
    ("normal", 500, 2, 0.5),
    ("uniform", 500, 2, 0.5),
    ("normal", 500, 2, 1.0),
    ("normal", 500, 2, 4.0),
    ("normal", 500, 10, 10.0),
    ("normal", 2000, 2, 1.0),
    ("normal", 2000, 10, 0.5),
    ("uniform", 5000, 3, 1.0),
    ("normal", 5000, 10, 2.0),
    ("binary", 20_000, 10, 2.0),
    ("normal", 20_000, 10, 0.5),
    ("normal", 20_000, 10, 4.0),
    ("normal", 50_000, 2, 10.0),
    ("normal", 50_000, 50, 2.0),
]
BOUNDS = {"normal": 6.0, "uniform": 1.0, "binary": 1.0}
INTERCEPT = 0.5


def drawn(law, n, d, rng):
    """Features and their coefficients."""
    coef = np.sqrt(3.0 / d) * (np.linspace(-1.0, 1.0, d) if d > 2 else np.array([1.0, -0.5]))
    if law == "binary":
        return (rng.random((n, d)) < 0.3).astype(float), coef
    if law == "uniform":
        return rng.uniform(-1.0, 1.0, (n, d)), coef
    return rng.standard_normal((n, d)), coef


def logistic(scores, rng):
    """Labels, a model and its parameters."""
    return rng.random(len(scores)) < expit(scores), PrivateLogisticRegression(C=np.inf)


def ridge(scores, rng):
    """Targets with normal residuals."""
    y = scores + rng.standard_normal(len(scores))
    return y, PrivateRidge(alpha=0.0, target_bound=20.0)


def huber(scores, rng):
    """Targets with heavier tails."""
    y = scores + rng.standard_t(4, len(scores)) / np.sqrt(2.0)
    return y, PrivateHuberRegressor(alpha=0.0, target_bound=20.0)


def coverage(kind, repetitions):
    """One line for each size."""
    print(f"{kind.__name__}: share of 95 % intervals that cover, {repetitions} repetitions")
    print(
        f"{'features':<9} {'n':>6} {'d':>3} {'epsilon':>7} {'slopes':>7} {'intercept':>9} "
        f"{'error':>7} {'without':>7} doubtful"
    )
    for law, n, d, epsilon in SIZES:
        rng, covered, errors, doubtful = np.random.default_rng(0), [], [], 0
        many = repetitions if n * d <= 1_000_000 else repetitions // 4
        for repetition in range(many):
            X, coef = drawn(law, n, d, rng)
            y, model = kind(X @ coef + INTERCEPT, rng)
            model.set_params(epsilon=epsilon, feature_bound=BOUNDS[law])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UtilityWarning)
                found = model.set_params(standard_errors=True).fit(X, y)
                low, high = found.confint().reshape(-1, 2).T
                error = np.ravel(found.coef_) - coef
                half = 1.96 * np.sqrt(found.uncertainty_.covariance[-1, -1])
                doubtful += found.uncertainty_.doubtful
                off = abs(np.ravel(found.intercept_)[0] - INTERCEPT)
                covered.append([*((low < coef) & (coef < high)), off < half])
                if repetition < 40:
                    plain = model.set_params(standard_errors=False).fit(X, y)
                    errors.append([np.square(error), np.square(np.ravel(plain.coef_) - coef)])
        shares = np.mean(covered, axis=0)
        sizes = np.sqrt(np.mean(errors, axis=(0, 2)))
        print(
            f"{law:<9} {n:>6} {d:>3} {epsilon:>7g} {shares[:-1].mean():>7.3f} {shares[-1]:>9.3f} "
            f"{sizes[0]:>7.4f} {sizes[1]:>7.4f} {doubtful / many:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    kinds = {"logistic": logistic, "ridge": ridge, "huber": huber}
    chosen = [name for name in sys.argv[1:] if name in kinds] or list(kinds)
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    for name in chosen:
        coverage(kinds[name], numbers[0] if numbers else 400)
