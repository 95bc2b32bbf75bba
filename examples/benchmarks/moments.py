"""
Speed and coverage of released moments
======================================

Prints how long a release of the moments of 10^6 records of 100 columns takes beside NumPy's
``X.T @ X``, how long a path of 100 weights takes from 500 columns, and how often intervals of
nominally 95 % cover their coefficients, and the targets of new records, over 400 repetitions at
each size::

    python examples/benchmarks/moments.py [speed] [coverage]
"""

import sys
import time
import warnings

import numpy as np
from scipy.stats import norm

from skdpsco import PrivateMoments, PrivateRidge, UtilityWarning

REPETITIONS, N_NEW = 400, 100
# The law of the features, number of records, number of features, and epsilon.
SIZES = [
    ("normal", 500, 2, 0.5),
    ("normal", 500, 2, 4.0),
    ("uniform", 500, 2, 1.0),
    ("normal", 2000, 2, 1.0),
    ("normal", 2000, 10, 0.5),
    ("normal", 2000, 50, 2.0),
    ("normal", 5000, 10, 4.0),
    ("normal", 20_000, 5, 0.5),
    ("normal", 20_000, 10, 1.0),
    ("uniform", 5000, 3, 1.0),
    ("uniform", 20_000, 10, 1.0),
    ("binary", 5000, 3, 1.0),
    ("binary", 20_000, 20, 2.0),
]


def seconds(function, rounds=5):
    """Least time of a few calls, since other programs take time, too."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def speed():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1_000_000, 100)), rng.standard_normal(1_000_000)
    moments = PrivateMoments(delta=1e-8, feature_bound=5.0, target_bound=5.0)
    moments.fit(X[:20_000], y[:20_000])  # which compiles
    product = seconds(lambda: X.T @ X)
    for conditioning in ("auto", None):
        moments.set_params(conditioning=conditioning)
        taken = seconds(lambda: moments.fit(X, y))
        print(
            f"1e6 x 100, conditioning={conditioning!r:<6}: {taken:.2f} s, X.T @ X {product:.2f} s, "
            f"ratio {taken / product:.2f} (target 1.5)"
        )
    X = rng.standard_normal((20_000, 500))
    y = X[:, :20].sum(axis=1) + rng.standard_normal(20_000)
    wide = PrivateMoments(epsilon=10.0, feature_bound=5.0, target_bound=20.0).fit(X, y)
    for l1_ratio in (1.0, 0.5):
        taken = seconds(lambda: wide.path(l1_ratio=l1_ratio))  # noqa: B023
        print(f"path of 100 weights, 500 columns, l1_ratio={l1_ratio}: {taken:.3f} s (target .2)")


def drawn(law, n, d, rng):
    """Features and targets of a linear model, with its coefficients."""
    if law == "normal":
        X, bound, spread = rng.standard_normal((n, d)), 6.0, 1.0
    elif law == "uniform":
        X, bound, spread = rng.uniform(-1.0, 1.0, (n, d)), 1.0, 0.3
    else:
        X, bound, spread = (rng.random((n, d)) < 0.3).astype(float), 1.0, 1.0
    coef = 2.0 * np.linspace(-1.0, 1.0, d) / np.sqrt(d)
    return X, 1.0 + X @ coef + spread * rng.standard_normal(n), coef, bound


def coverage():
    width = norm.isf(0.025)
    print(f"Share of 95 % intervals that cover, {REPETITIONS} repetitions:")
    print(
        f"{'features':<9} {'n':>6} {'d':>3} {'epsilon':>7} {'slopes':>7} {'intercept':>9} "
        "targets warned"
    )
    for law, n, d, epsilon in SIZES:
        rng, covered, warned, targets = np.random.default_rng(0), [], 0, []
        for _ in range(REPETITIONS):
            X, y, coef, bound = drawn(law, n + N_NEW, d, rng)
            moments = PrivateMoments(epsilon=epsilon, feature_bound=bound, target_bound=10.0)
            model = PrivateRidge(alpha=0.0).fit(moments.fit(X[:n], y[:n]))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UtilityWarning)
                low, high = model.confint().T
                from_, to = model.predict_interval(X[n:]).T
            targets.append(((from_ < y[n:]) & (y[n:] < to)).mean())
            error = np.sqrt(model.uncertainty_.covariance[-1, -1])
            covered.append(
                [*((low < coef) & (coef < high)), abs(model.intercept_ - 1) < width * error]
            )
            warned += bool(caught)
        shares = np.mean(covered, axis=0)
        print(
            f"{law:<9} {n:>6} {d:>3} {epsilon:>7g} {shares[:-1].mean():>7.3f} {shares[-1]:>9.3f} "
            f"{np.mean(targets):>7.3f} "
            f"{warned / REPETITIONS:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["speed", "coverage"]
    for name in chosen:
        {"speed": speed, "coverage": coverage}[name]()
