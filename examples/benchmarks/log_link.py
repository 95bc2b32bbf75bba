"""
Counts and positive numbers
===========================

It prints D^2 of `PrivatePoissonRegressor` and `PrivateGammaRegressor` on new records, with
everything at its default, and of scikit-learn's models::

    python examples/benchmarks/log_link.py [--seeds 20]

Logarithms of means are sums of five features that are uniform in [-1, 1], with a deviation of about
0.5. "Raw" columns have different sizes, are mostly positive, and lie within two thirds of their
declared bounds. "Nothing" has no signal. 0 is the score of the best constant, 1 that of a deviance
of 0. Figures are medians over the seeds.
"""

import argparse
import warnings

import numpy as np
from sklearn.linear_model import GammaRegressor, PoissonRegressor

from skdpsco import PrivateGammaRegressor, PrivatePoissonRegressor, UtilityWarning

EPSILONS, SIZES, N_TEST = (0.5, 1.0, 2.0, 8.0), (500, 2000, 4000, 8000), 3000
MEANS = {"few": 0.7, "many": 40.0, "raw": 5.0, "nothing": 2.0, "raw nothing": 2.0}
WIDTHS, CENTRES = np.array([10.0, 1.0, 50.0, 3.0, 20.0]), np.array([30.0, 1.0, 50.0, 4.0, 25.0])


def records(seed, n, family, counts):
    """Features, targets and bounds; the first n records are for training."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n + N_TEST, 5))
    signal = 0.0 if "nothing" in family else 0.4
    mean = MEANS[family] * np.exp(signal * X.sum(axis=1))
    y = rng.poisson(mean) if counts else mean * rng.gamma(2.0, 0.5, len(X))
    if "raw" not in family:
        return X, y, 1.0
    return WIDTHS * X + CENTRES, y, 1.5 * (WIDTHS + CENTRES)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore", UtilityWarning)
    print(" " * 34 + "".join(f"{epsilon:9g}" for epsilon in EPSILONS) + "  not private")
    for Model, Plain in (
        (PrivatePoissonRegressor, PoissonRegressor),
        (PrivateGammaRegressor, GammaRegressor),
    ):
        for family in MEANS:
            for n in SIZES:
                scores = []
                for seed in range(seeds):
                    X, y, bound = records(seed, n, family, Plain is PoissonRegressor)
                    models = [Model(epsilon=e, feature_bound=bound) for e in EPSILONS]
                    plain = Plain(alpha=1e-4, max_iter=1000)
                    scores.append([m.fit(X[:n], y[:n]).score(X[n:], y[n:]) for m in models])
                    scores[-1].append(plain.fit(X[:n] / bound, y[:n]).score(X[n:] / bound, y[n:]))
                medians = np.median(scores, axis=0)
                name = f"{Plain.__name__}, {family}, {n}"
                print(f"{name:34s}" + "".join(f"{one:+9.3f}" for one in medians), flush=True)


if __name__ == "__main__":
    main()
