"""
Coverage of the intervals of fits to records
============================================

Prints how often intervals of nominally 95 % cover their coefficients, for fits with
``standard_errors=True``, and how large their errors are beside those of fits without, over
400 repetitions at each size, and a quarter as many at the largest::

    python examples/benchmarks/standard_errors.py [kind, ...] [repetitions] [number of sizes]

Kinds are logistic, ridge, huber, poisson, gamma, weighted_logistic, class_weights, weighted_ridge,
classes, elastic_net, logistic_l1, svc, median, upper_quantile, hazards and rare_events.
"""

import sys
import warnings

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from skdpsco import (
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    UtilityWarning,
)
from skdpsco.survival import PrivateSurvivalRegressor

# The law of the features, number of records, number of features, and epsilon.
SIZES = [
    ("normal", 500, 2, 0.5),
    ("uniform", 500, 2, 0.5),
    ("normal", 500, 2, 1.0),
    ("normal", 500, 2, 4.0),
    ("normal", 500, 10, 0.5),
    ("normal", 500, 10, 10.0),
    ("normal", 2000, 2, 1.0),
    ("normal", 2000, 10, 0.5),
    ("correlated", 2000, 10, 0.5),
    ("normal", 2000, 50, 2.0),
    ("uniform", 5000, 3, 1.0),
    ("normal", 5000, 10, 2.0),
    ("correlated", 5000, 10, 2.0),
    ("binary", 20_000, 10, 2.0),
    ("normal", 20_000, 10, 0.5),
    ("normal", 20_000, 10, 4.0),
    ("normal", 50_000, 2, 10.0),
    ("normal", 50_000, 50, 2.0),
]
BOUNDS = {"normal": 6.0, "correlated": 6.0, "uniform": 1.0, "binary": 1.0}
INTERCEPT = 0.5


def drawn(law, n, d, rng):
    """Features and their coefficients."""
    coef = np.sqrt(3.0 / d) * (np.linspace(-1.0, 1.0, d) if d > 2 else np.array([1.0, -0.5]))
    if law == "binary":
        return (rng.random((n, d)) < 0.3).astype(float), coef
    if law == "uniform":
        return rng.uniform(-1.0, 1.0, (n, d)), coef
    X = rng.standard_normal((n, d))
    if law == "correlated":  # each with every other by one half
        X = np.sqrt(0.5) * (X + rng.standard_normal((n, 1)))
    return X, coef


def logistic(X, coef, rng):
    """Labels, a model and its parameters, arguments of `fit`, and the truth."""
    y = rng.random(len(X)) < expit(X @ coef + INTERCEPT)
    return y, PrivateLogisticRegression(C=np.inf), {}, (coef, INTERCEPT)


def ridge(X, coef, rng):
    """Targets with normal residuals."""
    y = X @ coef + INTERCEPT + rng.standard_normal(len(X))
    return y, PrivateRidge(alpha=0.0, target_bound=20.0), {}, (coef, INTERCEPT)


def huber(X, coef, rng):
    """Targets with heavier tails."""
    y = X @ coef + INTERCEPT + rng.standard_t(4, len(X)) / np.sqrt(2.0)
    return y, PrivateHuberRegressor(alpha=0.0, target_bound=20.0), {}, (coef, INTERCEPT)


def weighted_logistic(X, coef, rng):
    """Labels with weights that have nothing to do with them."""
    y, model, _, truth = logistic(X, coef, rng)
    weights = rng.uniform(0.2, 1.0, len(X)) ** 2
    return y, model.set_params(max_weight=1.0), {"sample_weight": weights}, truth


def class_weights(X, coef, rng):
    """Labels whose classes have weights of 1 and 3."""
    y, model, _, _ = logistic(X, coef, rng)
    return y, model.set_params(class_weight={True: 3.0}), {}, (coef, INTERCEPT + np.log(3.0))


def weighted_ridge(X, coef, rng):
    """Targets that are as precise as their weights say."""
    weights = rng.uniform(0.2, 1.0, len(X)) ** 2
    y = X @ coef + INTERCEPT + 0.5 * rng.standard_normal(len(X)) / np.sqrt(weights)
    model = PrivateRidge(alpha=0.0, target_bound=20.0, max_weight=1.0)
    return y, model, {"sample_weight": weights}, (coef, INTERCEPT)


def classes(X, coef, rng):
    """Labels of three classes."""
    W = np.vstack([coef, np.roll(coef, 1), -coef - np.roll(coef, 1)]) / np.sqrt(2.0)
    b = np.array([0.3, 0.0, -0.3])
    y = (X @ W.T + b + rng.gumbel(size=(len(X), 3))).argmax(axis=1)
    return y, PrivateLogisticRegression(C=np.inf), {}, (W, b)


def poisson(X, coef, rng):
    """Counts."""
    y = rng.poisson(np.exp(0.5 * (X @ coef) + INTERCEPT))
    model = PrivatePoissonRegressor(alpha=0.0, target_bound=100.0)
    return y, model, {}, (0.5 * coef, INTERCEPT)


def gamma(X, coef, rng):
    """Positive numbers whose deviation is 0.7 times their mean."""
    y = np.exp(0.5 * (X @ coef) + INTERCEPT) * rng.gamma(2.0, 0.5, len(X))
    model = PrivateGammaRegressor(alpha=0.0, target_bound=100.0)
    return y, model, {}, (0.5 * coef, INTERCEPT)


def elastic_net(X, coef, rng):
    """Targets, and a penalty of l1 norms that takes a tenth off each slope; errors without it."""
    y = X @ coef + INTERCEPT + rng.standard_normal(len(X))
    model = PrivateElasticNet(alpha=0.1, l1_ratio=1.0, target_bound=20.0)
    return y, model, {}, (coef, INTERCEPT)


def logistic_l1(X, coef, rng):
    """Labels, and a penalty of l1 norms that takes about a tenth off each slope."""
    y, _, _, truth = logistic(X, coef, rng)
    return y, PrivateLogisticRegression(l1_ratio=1.0, C=50.0 / len(X)), {}, truth


def svc(X, coef, rng):
    """Labels whose mean is the score, from -1 to 1: it then is the best for a squared hinge."""
    scores = 0.4 * (X @ coef + INTERCEPT)
    y = rng.uniform(-1.0, 1.0, len(X)) < scores
    return y, PrivateLinearSVC(C=np.inf), {}, (0.4 * coef, 0.4 * INTERCEPT)


def median(X, coef, rng):
    """Targets with heavier tails, and their median."""
    y = X @ coef + INTERCEPT + rng.standard_t(4, len(X)) / np.sqrt(2.0)
    return y, PrivateQuantileRegressor(target_bound=20.0), {}, (coef, INTERCEPT)


def upper_quantile(X, coef, rng):
    """Targets with normal residuals, and a quantile that eight of ten are below."""
    y = X @ coef + INTERCEPT + rng.standard_normal(len(X))
    model = PrivateQuantileRegressor(quantile=0.8, target_bound=20.0)
    return y, model, {}, (coef, INTERCEPT + norm.ppf(0.8))


def hazards(X, coef, rng, follow_up=4.0):
    """Times to an event that most people have; the intercept depends on the baseline."""
    time = rng.exponential(size=len(X)) * np.exp(-0.7 * (X @ coef))
    censored = rng.uniform(0.0, follow_up, len(X))
    y = np.column_stack([time <= censored, np.minimum(time, censored)])
    times = 0.5 * follow_up * np.arange(1, 7) / 6.0
    return y, PrivateSurvivalRegressor(times=times, alpha=0.0), {}, (0.7 * coef, np.nan)


def rare_events(X, coef, rng):
    """Times to an event that one of five people has."""
    return hazards(X, coef, rng, 0.6)


def coverage(kind, repetitions, n_sizes):
    """One line for each size."""
    print(f"{kind.__name__}: share of 95 % intervals that cover, {repetitions} repetitions")
    print(
        f"{'features':<9} {'n':>6} {'d':>3} {'epsilon':>7} {'slopes':>7} {'intercept':>9} "
        f"{'error':>7} {'without':>7} doubtful"
    )
    for law, n, d, epsilon in SIZES[:n_sizes]:
        rng, covered, errors, doubtful = np.random.default_rng(0), [], [], 0
        many = repetitions if n * d <= 1_000_000 else repetitions // 4
        for repetition in range(many):
            X, coef = drawn(law, n, d, rng)
            y, model, arguments, (coef, intercept) = kind(X, coef, rng)
            model.set_params(epsilon=epsilon, feature_bound=BOUNDS[law])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UtilityWarning)
                found = model.set_params(standard_errors=True).fit(X, y, **arguments)
                table, truth = found.summary(), np.column_stack([np.atleast_2d(coef), intercept])
                inside = (table.low < truth.ravel()) & (truth.ravel() < table.high)
                inside = inside.to_numpy(float).reshape(truth.shape)
                inside[np.isnan(truth)] = np.nan
                error = table.coef.to_numpy().reshape(truth.shape)[:, :-1] - coef
                doubtful += found.uncertainty_.doubtful
                covered.append([inside[:, :-1].mean(), inside[:, -1].mean()])
                if repetition < 40:
                    plain = model.set_params(standard_errors=False).fit(X, y, **arguments)
                    errors.append([np.square(error).mean(), np.square(plain.coef_ - coef).mean()])
        shares, sizes = np.mean(covered, axis=0), np.sqrt(np.mean(errors, axis=0))
        print(
            f"{law:<9} {n:>6} {d:>3} {epsilon:>7g} {shares[0]:>7.3f} {shares[1]:>9.3f} "
            f"{sizes[0]:>7.4f} {sizes[1]:>7.4f} {doubtful / many:.2f}",
            flush=True,
        )


KINDS = {
    kind.__name__: kind
    for kind in (
        *(logistic, ridge, huber, poisson, gamma),
        *(weighted_logistic, class_weights, weighted_ridge, classes),
        *(elastic_net, logistic_l1, svc, median, upper_quantile),
        *(hazards, rare_events),
    )
}

if __name__ == "__main__":
    chosen = [name for name in sys.argv[1:] if name in KINDS] or list(KINDS)
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    repetitions, n_sizes = [*numbers, *(400, len(SIZES))[len(numbers) :]]
    for name in chosen:
        coverage(KINDS[name], repetitions, n_sizes)
