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
    RepeatedEvent,
    TruncatedNegativeBinomial,
    epsilon_of,
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


@pytest.mark.parametrize("law", LAWS, ids=repr)
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
