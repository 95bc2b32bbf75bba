"""
Quantiles, outliers and margins
===============================

How much better than a constant `PrivateHuberRegressor`, `PrivateQuantileRegressor` and
`PrivateLinearSVC` predict planted records, with everything at its default, and
`PrivateLogisticRegression` beside the last::

    python examples/benchmarks/named_models.py [--seeds 20] [--only heavy]

For regressions it prints the D^2 of the pinball loss, which for the median is that of absolute
errors: 0 is the best constant on the test records, 1 a loss of 0. For classifications it prints the
accuracy minus that of the more frequent label; a tenth of the records have the rare label. Targets
are a sum of five features, scaled to variance 1, plus half of the noise that the family is named
after;
"nothing" has only the noise; "one-sided" features are in [0, 1] and its targets exponentials.
Figures are medians over the seeds.
"""

import argparse
import warnings

import numpy as np
from sklearn.linear_model import HuberRegressor, QuantileRegressor
from sklearn.metrics import d2_pinball_score
from sklearn.svm import LinearSVC

from skdpsco import (
    PrivateHuberRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    UtilityWarning,
)

EPSILONS = (0.5, 1.0, 2.0, 8.0)
SIZES = ((500, 5), (500, 20), (3000, 10))
FAMILIES = ("normal", "heavy", "nothing", "one-sided", "one-sided nothing")
N_TEST = 3000


def records(seed, n, d, family):
    """Features and targets; the first n records are for training."""
    rng = np.random.default_rng(seed)
    one_sided = "one-sided" in family
    X = rng.uniform(0.0 if one_sided else -1.0, 1.0, (n + N_TEST, d))
    score = (X - X.mean(axis=0))[:, :5].sum(axis=1)
    noise = rng.standard_t(1.5, len(X)) if family == "heavy" else rng.normal(size=len(X))
    y = (0.0 if "nothing" in family else score / score.std()) + 0.5 * noise
    return X, np.exp(y) if one_sided else y


def gain(model, X, y, n, quantile=0.5):
    """Score on the other records of a fit to the first n, above that of a constant."""
    fitted = model.fit(X[:n], y[:n])
    if hasattr(fitted, "classes_"):
        constant = max(y[n:].mean(), 1.0 - y[n:].mean())
        return fitted.score(X[n:], y[n:]) - constant
    return d2_pinball_score(y[n:], fitted.predict(X[n:]), alpha=quantile)


def report(name, make, plain, problem, seeds, **quantile):
    """A line with the medians at each epsilon, and without privacy."""
    n = problem[0]

    def median(model, seeds):
        return np.median([gain(model, *problem[1](seed), n, **quantile) for seed in range(seeds)])

    medians = [median(make(epsilon=epsilon), seeds) for epsilon in EPSILONS]
    without = f"  not private {median(plain, 3):+.3f}" if plain is not None else ""
    print(f"{name:58s}" + "".join(f"{one:+9.3f}" for one in medians) + without, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="", help="families whose names contain this")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UtilityWarning)
    print(" " * 58 + "".join(f"{epsilon:9g}" for epsilon in EPSILONS))
    for n, d in SIZES:
        for family in FAMILIES:
            if arguments.only not in family:
                continue

            def numbers(seed, shape=(n, d, family)):
                return records(seed, *shape)

            def labels(seed, share, shape=(n, d, family)):
                X, y = records(seed, *shape)
                return X, (y > np.quantile(y, 1.0 - share)).astype(int)

            where, seeds = f"{n} x {d}, {family}", arguments.seeds
            huber = HuberRegressor(max_iter=1000)
            report(f"Huber, {where}", PrivateHuberRegressor, huber, (n, numbers), seeds)
            for quantile in (0.5, 0.9):
                report(
                    f"quantile {quantile:g}, {where}",
                    lambda epsilon, q=quantile: PrivateQuantileRegressor(
                        epsilon=epsilon, quantile=q
                    ),
                    QuantileRegressor(quantile=quantile, alpha=0.0) if n < 1000 else None,
                    (n, numbers),
                    seeds,
                    quantile=quantile,
                )
            for share in (0.5, 0.1):
                problem = n, lambda seed, share=share, labels=labels: labels(seed, share)
                for Model in (PrivateLinearSVC, PrivateLogisticRegression):
                    plain = LinearSVC() if Model is PrivateLinearSVC else None
                    name = f"{Model.__name__[7:]}, {share:g} positive, {where}"
                    report(name, Model, plain, problem, seeds)


if __name__ == "__main__":
    main()
