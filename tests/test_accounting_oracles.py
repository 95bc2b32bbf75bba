"""Charges for noise on samples and for random stopping, computed by other routes.

The library's own formulas appear here only as the claims that are compared. See
docs/evidence.md.
"""

import itertools
import math

import mpmath
import numpy as np
import pytest
from cases import each

from skdpsco.privacy import (
    Poisson,
    PoissonSampledGaussianEvent,
    RandomStoppingEvent,
    RepeatedEvent,
    TruncatedNegativeBinomial,
    delta_of,
    epsilon_of,
    rho_of,
)
from skdpsco.privacy import _pld as pld_module
from skdpsco.privacy.random_stopping import log_moment_of_best
from skdpsco.privacy.sampling import log_moment_of_sample

# ------------------------------------------------------------------------------ noise on samples


def log_mixture(q, u):
    """log(1 - q + q exp(u)) of an array."""
    return np.logaddexp(np.log1p(-q), np.log(q) + u)


def log_transform(q, r, z):
    """Log E_P[exp(z L)] at complex z, L the privacy loss of the pair, by the trapezoidal rule."""
    x = np.linspace(-14.0, 14.0 + r * (1 + 2 * z.real.max()), 4001)
    first, second = (log_mixture(q, s * r * x - r * r / 2) for s in (1, -1))
    weight = first - x * x / 2 + math.log((x[1] - x[0]) / math.sqrt(2 * math.pi))
    exponents = weight + np.multiply.outer(z, first - second)
    top = exponents.real.max(axis=1)
    return top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))


def composed_delta(q, sigma, steps, epsilon):
    """The exact delta of all steps, as an integral through the saddle point.

    (1 - exp(epsilon - l))_+ is the integral over a vertical line, to the right of 0, of
    exp(z (l - epsilon)) / (z (z + 1)), over 2 pi i.
    """

    def log_integrand(z):
        z = np.atleast_1d(np.asarray(z, dtype=complex))
        return steps * log_transform(q, 1 / sigma, z) - z * epsilon - np.log(z * (z + 1))

    def on_axis(c):
        return log_integrand(c)[0].real

    saddle = min(np.exp(np.linspace(-5, 5, 41)), key=on_axis)
    top, h = on_axis(saddle), saddle / 50
    bend = (on_axis(saddle + h) - 2 * top + on_axis(saddle - h)) / h**2
    width, total, start = 1 / math.sqrt(bend), 0.0, 0.0
    nodes, weights = np.polynomial.legendre.leggauss(24)
    for _ in range(400):
        t = start + width * (nodes + 1) / 2
        values = np.exp(log_integrand(saddle + 1j * t) - top)
        total += float(values.real @ weights) * width / 2
        start += width
        if np.abs(values).max() < 1e-12:
            return total * math.exp(top) / math.pi
    raise AssertionError("the integral did not converge")


def test_the_integral_is_right_for_gaussian_noise():
    """With all records in the sample, against the curve of Balle and Wang, by mpmath."""
    found = composed_delta(1 - 1e-12, 20.0, 100, 1.0)  # mu = 1
    exact = mpmath.ncdf(-0.5) - mpmath.e * mpmath.ncdf(-1.5)
    assert found == pytest.approx(float(exact), rel=1e-8)


@pytest.mark.parametrize(
    ("q", "sigma", "steps", "delta"),
    [(0.01, 2.0, 1000, 1e-6), (0.5, 3.0, 3, 1e-3), (0.9, 40.0, 500, 1e-6), (0.1, 1.0, 50, 1e-6)],
)
def test_charges_of_many_steps_against_the_exact_delta(q, sigma, steps, delta):
    event = RepeatedEvent(PoissonSampledGaussianEvent(sigma, q), steps)
    by_renyi, by_loss = (epsilon_of(event, delta, name) for name in ("rdp", "pld"))
    assert by_loss < by_renyi
    assert 0.1 * delta < composed_delta(q, sigma, steps, by_renyi) <= delta
    assert 0.98 * delta < composed_delta(q, sigma, steps, by_loss) <= delta


@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_renyi_charges_of_a_million_steps_against_the_exact_delta(delta):
    event = RepeatedEvent(PoissonSampledGaussianEvent(5.0, 0.001), 10**6)
    exact = composed_delta(0.001, 5.0, 10**6, epsilon_of(event, delta, "rdp"))
    assert 0.1 * delta < exact <= delta


def test_a_million_convolutions_err_by_less_than_their_margin():
    """Without the margin of 1e-10 some deltas would be too small, here by 3e-11."""
    event = RepeatedEvent(PoissonSampledGaussianEvent(3000.0, 0.3), 10**6)
    epsilon = 1.16
    exact = composed_delta(0.3, 3000.0, 10**6, epsilon)
    charged = pld_module.pld_delta(event, epsilon)
    assert 1e-10 < exact <= charged < exact + 1.2e-10


@pytest.mark.parametrize("b", [0.001, 0.5, 7.0, 60.0])
@pytest.mark.parametrize(("q", "sigma"), [(1e-9, 1.0), (1e-4, 1.0), (0.3, 3.0), (0.999, 30.0)])
def test_moments_in_30_digits(q, sigma, b):
    event = PoissonSampledGaussianEvent(sigma, q)
    with mpmath.workdps(30):
        p, r = mpmath.mpf(event.sampling_probability), 1 / mpmath.mpf(sigma)

        def density(x, sign):
            return (1 - p) * mpmath.npdf(x) + p * mpmath.npdf(x, sign * r)

        places = (k / 4 for k in range(-60, int(4 * (16 + 2 * (1 + b) / sigma))))
        sums = (density(x, 1) ** (1 + b) * density(x, -1) ** -b for x in map(mpmath.mpf, places))
        exact = mpmath.log(mpmath.fsum(sums) / 4)
        found = mpmath.mpf(log_moment_of_sample(event, b))
        assert exact <= found <= exact + 1e-12 * (1 + b + (1 + 2 * b) ** 2 / sigma**2)


GRID = np.linspace(-14.0, 14.0, 14_001)


def hockey_stick(first, second, alpha):
    """Divergence of densities that are given on the grid."""
    return float(np.maximum(first - alpha * second, 0.0).sum() * (GRID[1] - GRID[0]))


def normal(mean):
    return np.exp(-((GRID - mean) ** 2) / 2) / math.sqrt(2 * math.pi)


def step_on_a_sample(terms, q):
    """Density of the noisy sum of those terms that are sampled, by all samples."""
    density = 0.0
    for sample in itertools.product([0, 1], repeat=len(terms)):
        size = sum(sample)
        weight = q**size * (1 - q) ** (len(terms) - size)
        density = density + weight * normal(float(np.dot(sample, terms)))
    return density


@pytest.mark.parametrize("q", [0.05, 0.4, 0.9])
@pytest.mark.parametrize("r", [0.5, 2.0])
def test_no_data_of_three_records_are_worse_than_the_pair(q, r):
    rng = np.random.default_rng(0)
    worst = dict.fromkeys((0.3, 0.9, 1.0, 1.2, 3.0), 0.0)
    first, second = ((1 - q) * normal(0) + q * normal(s * r) for s in (1, -1))
    for number in range(12):
        others = rng.uniform(-r, r, 2) if number > 1 else np.zeros(2)
        changed = rng.uniform(-r, r, 2) if number > 1 else r * np.array([[1, -1], [1, 0]][number])
        S, T = (step_on_a_sample([g, *others], q) for g in changed)
        for alpha in worst:
            worst[alpha] = max(worst[alpha], hockey_stick(S, T, alpha), hockey_stick(T, S, alpha))
    for alpha, found in worst.items():
        bound = hockey_stick(first, second, alpha)
        assert hockey_stick(second, first, alpha) == pytest.approx(bound, abs=1e-9)
        assert found == pytest.approx(bound, abs=1e-9)  # attained, and not exceeded by any data


def test_an_added_record_at_twice_the_distance_bounds_one_step_but_dominates_nothing():
    q, r = 0.5, 1.0
    first, second = ((1 - q) * normal(0) + q * normal(s * r) for s in (1, -1))
    twice = (1 - q) * normal(0) + q * normal(2 * r)
    for alpha in (1.0, 1.5, 4.0):
        assert hockey_stick(first, second, alpha) <= hockey_stick(twice, normal(0), alpha) + 1e-9
    excess = [hockey_stick(*pair, 0.4) for pair in ((first, second), (twice, normal(0)))]
    assert excess[0] > excess[1] + 0.02


def test_the_conversion_to_delta_is_the_best_of_its_kind():
    """(1 - e^(epsilon - l))_+ <= c e^(bl), and for no smaller c."""
    for b, epsilon in itertools.product((0.1, 1.0, 9.0), (0.0, 1.0, 5.0)):
        log_c = -b * (epsilon + math.log1p(1 / b)) - math.log1p(b)
        loss = epsilon + np.linspace(1e-6, 60.0, 200_001)
        ratio = -np.expm1(epsilon - loss) * np.exp(-b * loss - log_c)
        assert 1 - 1e-6 < ratio.max() <= 1 + 1e-12


# ------------------------------------------------------------------------------ random stopping

LAWS = [
    TruncatedNegativeBinomial(0.0, 0.011),
    TruncatedNegativeBinomial(-0.9, 0.01),
    TruncatedNegativeBinomial(1.0, 1e-3),
    TruncatedNegativeBinomial(100.0, 0.77),
    Poisson(0.05),
    Poisson(20.0),
]
each_law = pytest.mark.parametrize("law", LAWS, ids=repr)
ORDERS = np.exp(np.linspace(-9, 9, 500))  # less one


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


def log_moments(p, q, b):
    keep = p > 0
    x = np.log(p[keep]) + np.multiply.outer(b, np.log(p[keep]) - np.log(q[keep]))
    top = x.max(axis=-1, keepdims=True)
    return (top + np.log(np.exp(x - top).sum(axis=-1, keepdims=True)))[..., 0]


def zcdp(p, q):
    """The least rho of a pair, both directions, from below by less than 1e-4 of it."""
    curves = [log_moments(*pair, ORDERS) / (ORDERS * (1 + ORDERS)) for pair in ((p, q), (q, p))]
    return max(map(np.max, curves))


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
            yield p, q, ranks if rng.random() < 0.5 else np.arange(k)


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
    worst = 0.0
    for p, q, ranks in pairs(7, 120):
        rho = zcdp(p, q) * (1 + 1e-4)
        first, second = best_of(law, p, ranks), best_of(law, q, ranks)
        if not isinstance(law, Poisson):
            first, second = first[:-1], second[:-1]
        if min(first.min(), second.min()) < 1e-13:
            continue  # lost to rounding
        for b in (0.05, 0.5, 1.0, 3.0, 30.0):
            exact = max(float(log_moments(*pair, b)) for pair in ((first, second), (second, first)))
            if exact > 1e-8:
                worst = max(worst, exact / log_moment_of_best(law, rho, b))
    assert 0.4 < worst <= 1


@each_law
def test_no_pair_exceeds_the_delta_and_the_rho_of_its_best(law):
    for p, q, ranks in pairs(8, 6):
        event = RandomStoppingEvent(zcdp(p, q) * (1 + 1e-4), law)
        both = best_of(law, p, ranks), best_of(law, q, ranks)
        for first, second in (both, both[::-1]):
            for epsilon in (0.0, math.sqrt(event.rho)):
                exact = np.maximum(first - math.exp(epsilon) * second, 0.0).sum()
                assert exact <= delta_of(event, epsilon) + 1e-12
        if min(map(np.min, both)) > 1e-13:
            assert zcdp(*both) <= rho_of(event)


@each_law
@each("rho", [1e-6, 0.01, 0.5, 5.0])
def test_the_largest_weight_on_all_that_zcdp_allows(law, rho):
    """T' <= exp(-(sqrt(log 1/T) - sqrt(rho))^2): the least of Holder's bounds, over all orders."""
    t = np.concatenate([[0.0], np.exp(np.linspace(math.log(1e-9), math.log(700.0), 20_001))])
    T = np.exp(-t)
    other = np.exp(-(np.maximum(np.sqrt(t) - math.sqrt(rho), 0.0) ** 2))
    for b in (0.01, 0.3, 1.0, 5.0, 100.0):
        if isinstance(law, Poisson):
            log_weight = math.log(law.mean) - law.mean * ((1 + b) * T - b * other)
        else:
            u, v = (law.gamma + (1 - law.gamma) * s for s in (T, other))
            log_weight = math.log(law.mean) + (1 + law.shape) * (
                math.log(law.gamma) - (1 + b) * np.log(u) + b * np.log(v)
            )
        moment = b * (1 + b) * rho
        charged = log_moment_of_best(law, rho, b)
        needed = np.logaddexp(0.0, log_weight.max() + moment + math.log(-math.expm1(-moment)))
        assert needed <= charged * (1 + 1e-12)
