"""Bounds of random stopping against the exact law of the best of J tries of small mechanisms."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import stats

from skdpsco.privacy import (
    Poisson,
    RandomStoppingEvent,
    TruncatedNegativeBinomial,
    delta_of,
    rho_of,
)
from skdpsco.privacy.random_stopping import _tilt, log_moment_of_best

for_mean = TruncatedNegativeBinomial.for_mean
SHAPES = 0.0, 0.5, 1.0, 3.0, 10.0
BINOMIALS = [for_mean(-0.5, 6.0), *(for_mean(s, k) for s in SHAPES for k in (1.5, 20.0))]
TRIES = [*BINOMIALS, for_mean(10.0, 300.0), *map(Poisson, (0.1, 1.0, 4.0, 20.0))]
each_tries = pytest.mark.parametrize("tries", TRIES, ids=repr)
ORDERS = np.exp(np.linspace(-5, 5, 11))  # less one


def n_terms(tries):
    return 120 if isinstance(tries, Poisson) else math.ceil(45 / tries.gamma)


PMFS = {t: np.array([t.pmf(j) for j in range(n_terms(t))]) for t in TRIES}


def gaussian(rho, n_bins=60):
    """Unit Gaussians whose means differ by sqrt(2 rho), in bins: rho-zCDP by post-processing."""
    shift = math.sqrt(2 * rho)
    edges = np.concatenate([[-np.inf], np.linspace(-4, 4 + shift, n_bins - 1), [np.inf]])
    return rho, np.diff(stats.norm.cdf(edges - shift)), np.diff(stats.norm.cdf(edges))


def randomised_response(epsilon0, k=3):
    p = np.ones(k)
    p[-1] = math.exp(epsilon0)
    return epsilon0**2 / 2, p / p.sum(), p[::-1] / p.sum()


def bounded_range(epsilon0, seed):
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(8))
    p = q * np.exp(epsilon0 * rng.random(8))
    return epsilon0**2 / 8, p / p.sum(), q


MECHANISMS = [
    *map(gaussian, (1e-3, 0.02, 0.5)),
    *map(randomised_response, (0.1, 1.0, 4.0)),
    *(bounded_range(epsilon0, seed) for epsilon0 in (0.3, 3.0) for seed in (0, 1)),
]


def best_of(tries, p):
    """Law of the largest of J outputs with probabilities p, and the probability of none."""
    pmf = PMFS[tries]
    cdf = np.concatenate([[0.0], np.cumsum(p)[:-1], [1.0]])
    law = np.diff(cdf[:, None] ** np.arange(len(pmf)) @ pmf)
    return np.append(law, pmf[0]) if isinstance(tries, Poisson) else law


def log_moment(p, q, b):
    """The Renyi divergence of order 1 + b, times b."""
    return np.logaddexp.reduce(np.log(p) + b * (np.log(p) - np.log(q)))


def excess(tries, formula, mechanisms=MECHANISMS):
    """The largest ratio of an exact divergence to what a formula bounds it with."""
    worst = 0.0
    for rho, p, q in mechanisms:
        best_p, best_q = best_of(tries, p), best_of(tries, q)
        for b in ORDERS:
            exact = max(log_moment(best_p, best_q, b), log_moment(best_q, best_p, b))
            if exact > 1e-9:  # otherwise it is rounding
                worst = max(worst, exact / formula(tries, rho, b))
    return worst


def test_best_of_is_the_law_of_the_first_of_the_best():
    # Outputs are pairs (score, detail): ties in the score are broken by the order of the tries.
    probabilities = {(0, "a"): 0.2, (0, "b"): 0.3, (1, "c"): 0.1, (1, "d"): 0.4}
    tries = [0.0, 0.5, 0.3, 0.2]
    law = dict.fromkeys(probabilities, 0.0)
    for j, weight in enumerate(tries):
        for outputs in itertools.product(probabilities, repeat=j):
            if outputs:
                winner = max(outputs, key=lambda output: output[0])
                law[winner] += weight * math.prod(probabilities[o] for o in outputs)
    f = np.polynomial.Polynomial(tries)
    groups = {0: f(0.5) - f(0.0), 1: f(1.0) - f(0.5)}
    for output, p in probabilities.items():
        assert law[output] == pytest.approx(groups[output[0]] * p / 0.5)


@each_tries
def test_exact_divergences_obey_the_bound(tries):
    assert 0.3 < excess(tries, log_moment_of_best) <= 1


def wrong(tries, rho, b, *, mean=True, tilt=1.0, nothing=True):
    log_excess = math.log(tries.mean) * mean + b * _tilt(tries, rho, b) * tilt
    moment = b * (1 + b) * rho
    if nothing:
        return np.logaddexp(0.0, log_excess + moment + math.log(-math.expm1(-moment)))
    return log_excess + moment


def test_the_exact_law_convicts_wrong_formulas():
    binomial, poisson = for_mean(10.0, 300.0), Poisson(20.0)
    for tries in (binomial, poisson):
        assert excess(tries, wrong) <= 1  # nothing is wrong yet
        assert excess(tries, lambda *a: wrong(*a, mean=False)) > 2
        assert excess(tries, lambda *a: wrong(*a, tilt=0.0)) > 1.05
    assert excess(binomial, lambda *a: wrong(*a, tilt=1 / 11)) > 1.5  # without 1 + shape
    # Theorem 6 read literally, with fewer than one try: log(mean) < 0 is no discount.
    assert excess(Poisson(0.1), lambda *a: abs(wrong(*a, nothing=False))) > 2


@each_tries
def test_exact_hockey_sticks_obey_delta(tries):
    for rho, p, q in MECHANISMS:
        best = best_of(tries, p), best_of(tries, q)
        for epsilon in (0.0, 0.3, 1.0):
            reported = delta_of(RandomStoppingEvent(rho, tries), epsilon)
            for a, c in (best, best[::-1]):
                assert np.maximum(a - math.exp(epsilon) * c, 0).sum() <= reported + 1e-13


@each_tries
def test_exact_divergences_obey_rho(tries):
    @functools.cache
    def total(rho):
        return rho_of(RandomStoppingEvent(rho, tries))

    def bound(tries, rho, b):
        return total(rho) * b * (1 + b)

    assert 0.03 < excess(tries, bound, MECHANISMS[1:5]) <= 1
