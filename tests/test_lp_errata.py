"""Numbers in the items L1 to L9 of docs/errata.md: the effects of the printed constants."""

import math

import numpy as np
import pytest
from cases import each
from scipy import integrate, optimize, special

from skdpsco.privacy import gaussian_delta, zcdp_delta


def fisher(order, d):
    """Fisher information of generalised Gaussian noise of scale 1, in the direction (1, ..., 1)."""
    return d**2 * math.exp(
        special.gammaln(2 - 1 / order)
        - special.gammaln(1 / order)
        + special.gammaln(d / order)
        - special.gammaln(d / order + 2 - 2 / order)
    )


def least(function):
    """Minimum of a function of the order, from 2 to e**8, of at most two local ones."""
    grid = np.linspace(-8, 8, 400)
    start = min(grid, key=lambda t: function(2 + math.exp(t)))
    found = optimize.minimize_scalar(
        lambda t: function(2 + math.exp(t)), bounds=(start - 0.1, start + 0.1), method="bounded"
    )
    return found.fun


def test_fisher_information():
    """Against sums over draws, and against quadrature in two dimensions."""
    rng = np.random.Generator(np.random.PCG64(0))
    for order, d in ((2.0, 5), (3.5, 10), (6.65, 50)):
        x = rng.standard_gamma(1 / order, (100_000, d))  # |x|**order
        share = x / x.sum(1, keepdims=True)
        terms = d * (share ** (2 - 2 / order)).sum(1)  # E T**2 = d; cross terms vanish
        assert abs(terms.mean() - fisher(order, d)) < 5.5 * terms.std() / math.sqrt(len(x))
    x = np.arange(-9, 9, 0.05) + 0.025
    a, b = np.meshgrid(x, x)
    r = 3.0
    norm = (abs(a) ** r + abs(b) ** r) ** (1 / r)
    slope = norm ** (2 - r) * (np.sign(a) * abs(a) ** (r - 1) + np.sign(b) * abs(b) ** (r - 1))
    density = np.exp(-(norm**2) / 2)
    assert (density * slope**2).sum() / density.sum() == pytest.approx(fisher(r, 2), rel=1e-4)


def test_l1_area_and_volume():
    angle = np.linspace(0, math.pi / 2, 200_001)
    point = np.array([np.cos(angle), np.sin(angle)])
    point /= (point**4).sum(0) ** 0.25
    area = 4 * np.hypot(*np.diff(point)).sum()
    volume = 4 * math.gamma(1.25) ** 2 / math.gamma(1.5)
    assert (round(area, 3), round(2 * volume, 3)) == (7.018, 7.416)


def test_l2_exponent():
    # r = 1: the norm is a sum; E ||z||_1**2 = d, and signs are independent of it.
    for d in (8, 10):
        assert math.log(d) - 1 > 1
        assert fisher(1.0, d) / d == pytest.approx(d)  # for the unit direction
    assert math.log(21) - 1 > 2 > math.log(20) - 1
    assert 50 ** (1 / 3) / 2 == pytest.approx(1.84, abs=0.005)
    assert math.e**2 * (math.log(3) - 1) == pytest.approx(0.73, abs=0.005)
    assert math.log(7) - 1 < 1 < math.log(8) - 1


@each(
    ("d", "needed", "claimed", "excess"),
    [
        (3, 2.46, 2.20, 1.12),
        (10, 5.45, 4.61, 1.18),
        (50, 11.46, 7.82, 1.46),
        (1000, 25.0, 13.8, 1.81),
    ],
)
def test_l3_twice_the_logarithm(d, needed, claimed, excess):
    found = least(lambda r: fisher(r, d))
    assert found == pytest.approx(needed, rel=3e-3)
    assert 2 * math.log(d) == pytest.approx(claimed, rel=3e-3)
    assert found / (2 * math.log(d)) == pytest.approx(excess, rel=5e-3)
    kappa = least(lambda r: (r - 1) * d ** (2 / r))
    assert min(kappa, d) > found  # what is proved suffices
    if d == 50:
        assert kappa == pytest.approx(18.3, abs=0.05)


def test_l4_scale():
    for epsilon, delta, excess in (
        (6, 0.1, 1.48), (8, 1e-5, 1.02), (10, 1e-5, 2.9), (20, 1e-5, 189)
    ):  # fmt: skip
        mu = epsilon / math.sqrt(2 * math.log(1 / delta))
        assert gaussian_delta(mu, epsilon) / delta == pytest.approx(excess, rel=0.01)

    def certified(epsilon, delta):
        return zcdp_delta(epsilon**2 / (4 * math.log(1 / delta)), epsilon) / delta

    assert all(
        certified(epsilon, delta) < 1
        for epsilon in (0.1, 0.5, 1.0, 1.5, 2.0)
        for delta in (0.1, 1e-2, 1e-3, 1e-6, 1e-9)
    )
    assert certified(4, 0.1) == pytest.approx(1.43, abs=0.005)


def test_l5_missing_factor():
    n, d, kappa, epsilon, delta = 10**4, 10, 1.0, 1.0, 1e-6
    log = math.log(1 / delta)
    one = (2 / n) ** 2 * kappa / (2 * 8 * kappa * log / (epsilon * n) ** 2)
    assert one == pytest.approx(epsilon**2 / (4 * log))
    n_steps = math.floor((epsilon * n) ** 2 / (16 * d * kappa * log))
    assert n_steps * one == pytest.approx(819, rel=1e-3)


@pytest.mark.parametrize(("n", "excess"), [(20, 1.77), (6, 39.9)])
def test_l6_maximum(n, excess):
    """The zCDP of two kinds of records, with M = L0 = 1 and L1 = 0, by summing over steps."""
    eta = math.log(n / math.log(200)) / n
    c, first = 2 * eta, 4 / n

    def costs(scale):
        beta = 0.5 * scale / math.sqrt(2 * eta * (2 - eta))  # for rho = 1
        early = sum(((1 - eta) ** t * first / beta) ** 2 / 8 for t in range(n // 2 + 1))
        late = sum(((1 - eta) ** t * c / beta) ** 2 / 8 for t in range(n // 2))
        return early, late

    early, late = costs(c)
    assert late <= 1 < early
    assert early == pytest.approx(excess, rel=0.005)
    assert max(costs(max(c, first))) <= 1


def test_l6_composition():
    n, epsilon, log = 100, 1.0, math.log(1e6)
    each, count = epsilon / math.sqrt(n * log), n / 2 + 1
    total = math.sqrt(2 * count * log) * each + count * each * math.expm1(each)
    assert total == pytest.approx(1.047, abs=0.001)
    assert total - math.sqrt(1 + 2 / n) == pytest.approx(epsilon**2 / (2 * log), rel=0.05)


def test_l6_range():
    """Scores that all move by as much as they may, in opposite directions: the range is M."""
    rng = np.random.Generator(np.random.PCG64(0))
    vertices = np.vstack((np.eye(4), -np.eye(4)))  # of the l1 ball, of diameter 2
    for _ in range(200):
        change = rng.uniform(-1, 1, 4)
        assert np.ptp(vertices @ change) == pytest.approx(2 * abs(change).max())


def test_l7_batches():
    """The first right leaf of a tree of depth 6: one record, and one step of length 2 / 65."""
    b, depth = 127, 6
    size, travel = b // 2**depth, 2 / (2**depth + 0 + 1)
    ratio = 2 / size * travel / (4 / b)
    assert ratio == pytest.approx(1.954, abs=0.001)
    assert ratio**2 == pytest.approx(3.82, abs=0.005)


def test_l9_direction():
    """Log-ratio of P(candidate 0) when its score, a, rises by one more."""

    def log_probability(a, n_candidates):
        def integrand(x):
            others = -math.expm1(-math.exp(-(x + a)))
            return math.exp(-x - math.exp(-x)) * others ** (n_candidates - 1)

        return math.log(integrate.quad(integrand, -6, 50, epsabs=0, limit=200)[0])

    losses = [log_probability(a, 5) - log_probability(a + 1, 5) for a in (0.0, 4.0, 6.0)]
    assert losses[0] > 1.5
    assert losses == sorted(losses)
    assert losses[-1] == pytest.approx(4, abs=0.05)
