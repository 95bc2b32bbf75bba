"""Bounds of random stopping against the exact law of the best of J tries of small mechanisms."""

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
LAWS = [
    for_mean(-0.5, 6.0),
    *(for_mean(s, k) for s in SHAPES for k in (1.5, 20.0)),
    for_mean(10.0, 300.0),
    TruncatedNegativeBinomial(-0.9, 0.01),
    TruncatedNegativeBinomial(1.0, 1e-3),
    TruncatedNegativeBinomial(100.0, 0.77),
    *map(Poisson, (0.05, 0.1, 1.0, 4.0, 20.0)),
]
each_law = pytest.mark.parametrize("law", LAWS, ids=repr)
ORDERS = np.exp(np.linspace(-5, 5, 11))  # less one
ALL_ORDERS = np.exp(np.linspace(-9, 9, 500))


def generating(law, T):
    """E[(1 - T)^J]."""
    if isinstance(law, Poisson):
        return np.exp(-law.mean * T)
    u = law.gamma + (1 - law.gamma) * T
    if law.shape == 0:
        return np.log(u) / math.log(law.gamma)
    return (u**-law.shape - 1) / (law.gamma**-law.shape - 1)


def best_of(law, p, ranks):
    """Law of the best try: outcomes of the same rank tie, and the first of them is released."""
    in_rank = np.bincount(ranks, weights=p)
    above = np.append(np.cumsum(in_rank[::-1])[-2::-1], 0.0)
    wins = generating(law, above) - generating(law, np.minimum(above + in_rank, 1.0))
    return np.append(p / in_rank[ranks] * wins[ranks], generating(law, 1.0))


def outcomes_of_best(law, p, q, ranks):
    """Both laws of the best, where rounding errors leave something of them."""
    both = best_of(law, p, ranks), best_of(law, q, ranks)
    return [one[np.minimum(*both) > 1e-13] for one in both]


def log_moments(p, q, b):
    """Renyi divergences of orders 1 + b, times b."""
    x = np.log(p) + np.multiply.outer(b, np.log(p) - np.log(q))
    top = x.max(axis=-1, keepdims=True)
    return (top + np.log(np.exp(x - top).sum(axis=-1, keepdims=True)))[..., 0]


def zcdp(p, q):
    """The least rho of a pair, both directions, from below by less than 1e-4 of it."""
    curves = [
        log_moments(*pair, ALL_ORDERS) / (ALL_ORDERS * (1 + ALL_ORDERS))
        for pair in ((p, q), (q, p))
    ]
    return max(map(np.max, curves))


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


def pairs(seed, count):
    """Random mechanisms of two to six outcomes, similar or not, with ties or without."""
    rng = np.random.default_rng(seed)
    while count > 0:
        k = int(rng.integers(2, 7))
        ranks = np.unique(np.sort(rng.integers(0, k, k)), return_inverse=True)[1]
        logs = rng.normal(0, rng.choice([1.0, 4.0]), k)
        other = logs + rng.choice([0.03, 0.3, 1.0, 3.0]) * rng.normal(size=k)
        p, q = np.exp(logs), np.exp(other)
        p, q = p / p.sum(), q / q.sum()
        if min(p.min(), q.min()) > 1e-9:
            count -= 1
            rho = zcdp(p, q) * (1 + 1e-4)
            yield rho, p, q, ranks if rng.random() < 0.5 else np.arange(k)


MECHANISMS = [
    (*mechanism, np.arange(len(mechanism[1])))
    for mechanism in (
        *map(gaussian, (1e-3, 0.02, 0.5)),
        *map(randomised_response, (0.1, 1.0, 4.0)),
        *(bounded_range(epsilon0, seed) for epsilon0 in (0.3, 3.0) for seed in (0, 1)),
    )
]


def excess(law, formula, mechanisms=MECHANISMS):
    """The largest ratio of an exact divergence to what a formula bounds it with."""
    worst = 0.0
    for rho, *mechanism in mechanisms:
        first, second = outcomes_of_best(law, *mechanism)
        exact = [log_moments(*pair, ORDERS) for pair in ((first, second), (second, first))]
        for b, moment in zip(ORDERS, np.max(exact, axis=0), strict=True):
            if moment > 1e-8:  # otherwise it is rounding
                worst = max(worst, moment / formula(law, rho, b))
    return worst


def test_the_best_of_j_by_counting():
    """Against all outcomes of up to three tries, in the order in which they were made."""
    p, ranks, law = np.array([0.1, 0.4, 0.2, 0.3]), np.array([0, 1, 1, 2]), Poisson(0.01)
    expected = np.zeros(5)
    for j in range(4):
        weight = math.exp(-0.01) * 0.01**j / math.factorial(j)
        for tries in itertools.product(range(4), repeat=j):
            winner = max(tries, key=lambda y: ranks[y]) if tries else 4  # the first of the best
            expected[winner] += weight * math.prod(p[list(tries)])
    np.testing.assert_allclose(best_of(law, p, ranks), expected, rtol=1e-4)


@each_law
def test_generating_functions_are_those_of_the_laws(law):
    n = 150 if isinstance(law, Poisson) else int(25 / law.gamma + 5 * law.mean)
    pmf = [law.pmf(j) for j in range(n)]
    for T in (0.0, 0.2, 0.9):
        total = math.fsum(p * (1 - T) ** j for j, p in enumerate(pmf))
        assert total == pytest.approx(float(generating(law, T)), rel=1e-9)


@each_law
def test_no_pair_of_mechanisms_exceeds_the_charge_of_its_best(law):
    assert 0.4 < excess(law, log_moment_of_best, [*MECHANISMS, *pairs(7, 50)]) <= 1


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


@each_law
def test_no_pair_exceeds_the_delta_and_the_rho_of_its_best(law):
    worst = 0.0
    for rho, *mechanism in [*MECHANISMS, *pairs(8, 3)]:
        event = RandomStoppingEvent(rho, law)
        both = outcomes_of_best(law, *mechanism)
        for epsilon in (0.0, 0.3, 1.0):
            delta = delta_of(event, epsilon)
            for first, second in (both, both[::-1]):
                assert np.maximum(first - math.exp(epsilon) * second, 0.0).sum() <= delta + 1e-12
        worst = max(worst, zcdp(*both) / rho_of(event))
    assert 0.1 < worst <= 1
