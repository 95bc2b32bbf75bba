"""Generalised Gaussian noise: its law, its calibration, and its arithmetic.

Tests of the law have a false-alarm rate below 1e-6 (and fixed seeds); each is repeated on a
slightly wrong law, which it must reject.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from skdpsco._random import generator
from skdpsco.mechanisms import generalised_gaussian as module
from skdpsco.mechanisms.generalised_gaussian import (
    generalised_gaussian,
    generalised_gaussian_grid,
    generalised_gaussian_mechanism,
    generalised_gaussian_scale,
)
from skdpsco.mechanisms.samplers import GRID_LIMIT

ALARM = 1e-7


def seeded(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def draws(n, size, order, sigma=1.0, seed=0):
    rng = seeded(seed)
    return np.array([generalised_gaussian(rng, size, order, sigma) for _ in range(n)])


def norms(z, order):
    top = np.abs(z).max(axis=-1)
    return top * ((np.abs(z) / top[..., None]) ** order).sum(axis=-1) ** (1 / order)


# ------------------------------------------------------------------------------ the law


@pytest.mark.parametrize(
    ("size", "order"), [(1, 3.0), (2, 4.0), (3, 30.0), (50, 2.0), (50, 6.65), (7, 60.0)]
)
def test_radius_and_direction(size, order):
    """The norm is sigma chi_d; the direction has the cone measure and is independent of it."""
    n, sigma = 20_000, 1.7
    z = draws(n, size, order, sigma)
    radius = norms(z, order)
    chi = stats.chi(size, scale=sigma)
    assert stats.kstest(radius, chi.cdf).pvalue > ALARM
    assert stats.kstest(1.05 * radius, chi.cdf).pvalue < ALARM
    for j in {0, size - 1}:
        assert stats.binomtest(int((z[:, j] > 0).sum()), n).pvalue > ALARM
    if size == 1:
        return
    # |u_1|**r ~ Beta(1 / r, (d - 1) / r). Where that piles up at 1, float64 cannot tell.
    share = np.abs(z[:, 0]) / radius
    cone, end = stats.beta(1 / order, (size - 1) / order), 0.999

    def pvalue(share):
        share = share[share < end]
        return stats.kstest(share, lambda u: cone.cdf(u**order) / cone.cdf(end**order)).pvalue

    assert abs((share < end).mean() - cone.cdf(end**order)) < 5.5 * 0.5 / math.sqrt(n)
    assert pvalue(share) > ALARM
    assert pvalue(1.1 * share) < ALARM
    assert stats.spearmanr(radius, share).pvalue > ALARM
    assert stats.spearmanr(np.abs(z[:, 0]), np.abs(z[:, 1])).pvalue > ALARM or size < 50


def test_joint_law_in_two_dimensions():
    """P(z_1 <= a, z_2 <= b) against quadrature, everywhere."""
    order, step, n = 6.0, 0.02, 40_000
    x = np.arange(-7, 7, step) + step / 2
    density = np.exp(-(norms(np.stack(np.meshgrid(x, x), -1), order) ** 2) / 2)
    cdf = density.cumsum(0).cumsum(1) / density.sum()
    edges = np.append(x - step / 2, x[-1] + step / 2)

    def distance(z):
        return np.abs(np.histogram2d(*z.T, (edges, edges))[0].cumsum(0).cumsum(1) / n - cdf).max()

    # Naaman (2021): P(distance > t) <= 2 (n + 1) exp(-2 n t**2) in two dimensions.
    bound = math.sqrt(math.log(2 * (n + 1) / ALARM) / (2 * n)) + 1e-4
    z = draws(n, 2, order)
    assert distance(z) < bound
    assert distance(1.15 * z) > bound
    angle = math.pi / 4
    turned = z @ np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    assert distance(turned) > bound


@pytest.mark.parametrize("size", [1, 3, 100])
def test_any_finite_order_is_drawn(size):
    for order in (2.0, 1e3, 1e9, 1e300):
        z = generalised_gaussian(seeded(), size, order, 2.0)
        assert np.isfinite(z).all()
        assert (z != 0).all()
    # In the limit, uniform on the faces of a cube.
    z = draws(2000, 5, 1e300)
    top = np.abs(z).max(1, keepdims=True)
    faces = (np.abs(z) / top)[np.abs(z) < top]
    assert len(faces) == 4 * 2000
    assert stats.kstest(faces, stats.uniform.cdf).pvalue > ALARM


# ------------------------------------------------------------------------------ Renyi divergences


def renyi(alpha, mu, order, step=0.1, box=11.0):
    """Divergence of noise around mu from noise around 0, both of scale 1, by the midpoint rule."""
    x = np.arange(-box, box, step) + step / 2
    z = np.stack(np.meshgrid(*[x] * len(mu), indexing="ij"), -1)
    at, away = norms(z, order) ** 2 / 2, norms(z - mu, order) ** 2 / 2
    exponent = -alpha * away + (alpha - 1) * at
    return (special.logsumexp(exponent) - special.logsumexp(-at)) / (alpha - 1)


@pytest.mark.parametrize("order", [2.0, 2.5, 4.0, 12.0])
def test_renyi_divergences_are_what_is_charged(order):
    largest = 0.0
    for alpha in (1.05, 2.0, 10.0):
        for angle in (0.0, 0.4, math.pi / 4):
            for length in (0.05, 0.3, 1.0):
                if alpha * length > 5:
                    continue
                mu = np.array([math.cos(angle), math.sin(angle)])
                mu *= length / norms(mu, order)
                # The calibration gives sigma = 1 for this sensitivity.
                rho = (order - 1) * length**2 / 2
                assert generalised_gaussian_scale(length, rho, order) == pytest.approx(1.0)
                largest = max(largest, renyi(alpha, mu, order) / (alpha * rho))
        one = renyi(alpha, np.array([0.5]), order)  # one coordinate: the Gaussian
        assert one == pytest.approx(alpha * 0.125, rel=1e-9)
    assert largest <= 1 + 1e-6
    # Tight for the Gaussian; sigma too small by 2 breaks the bound up to r = 7 or so.
    assert largest > {2.0: 1 - 1e-6, 2.5: 0.7, 4.0: 0.4, 12.0: 0.1}[order]


# ------------------------------------------------------------------------------ calibration


def test_scale_is_private_and_tight():
    rng = seeded()
    for _ in range(1000):
        sensitivity, rho = 10 ** rng.uniform(-12, 12), 10 ** rng.uniform(-8, 3)
        order = 2 + 10 ** rng.uniform(-12, 6)
        sigma = Fraction(generalised_gaussian_scale(sensitivity, rho, order))
        needed = (Fraction(order) - 1) * Fraction(sensitivity) ** 2 / (2 * Fraction(rho))
        assert needed <= sigma**2 <= needed * Fraction(1.0001)


def test_grid():
    assert generalised_gaussian_grid(3.0, 1.0) == 3.0 / 256
    assert generalised_gaussian_grid(1e-20, 1.0) == 2.0**-49


def test_bad_arguments():
    for order in (1.9, math.inf, math.nan, -3.0):
        with pytest.raises(ValueError, match="order"):
            generalised_gaussian(seeded(), 3, order, 1.0)
        with pytest.raises(ValueError, match="order"):
            generalised_gaussian_scale(1.0, 1.0, order)
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="sigma must be positive and finite"):
            generalised_gaussian(seeded(), 3, 3.0, wrong)
        with pytest.raises(ValueError, match="sensitivity must be positive and finite"):
            generalised_gaussian_scale(wrong, 1.0, 3.0)
        with pytest.raises(ValueError, match="rho must be positive and finite"):
            generalised_gaussian_scale(1.0, wrong, 3.0)
        with pytest.raises(ValueError, match="grid must be positive and finite"):
            generalised_gaussian_mechanism(seeded(), np.ones(3), 3.0, 1.0, wrong)
        with pytest.raises(ValueError, match="magnitude must be positive and finite"):
            generalised_gaussian_grid(1.0, wrong)
    with pytest.raises(ValueError, match="size"):
        generalised_gaussian(seeded(), 0, 3.0, 1.0)
    with pytest.raises(ValueError, match="exact mechanism"):
        generalised_gaussian_mechanism(seeded(), np.ones(3), 2.0, 1.0, 0.1)
    for sensitivity, rho in ((1e300, 1e-90), (1e-300, 1e90)):
        with pytest.raises(ValueError, match="too small for float64"):
            generalised_gaussian_scale(sensitivity, rho, 3.0)
    with pytest.raises(ValueError, match="too small for float64"):
        generalised_gaussian_grid(1e-307, 1e-307)


# ------------------------------------------------------------------------------ the mechanism


def test_the_sum_is_rounded_to_the_grid():
    sigma, order, values = 2.0, 5.0, np.array([0.3, -7.1, 1e4, 0.0])
    grid = generalised_gaussian_grid(sigma, 1e4)
    released = values.copy()
    generalised_gaussian_mechanism(seeded(3), released, order, sigma, grid)
    noise = generalised_gaussian(seeded(3), 4, order, sigma)
    assert (released / grid == np.rint(released / grid)).all()
    assert (np.abs(released - values - noise) <= grid * 0.625).all()
    again = values.copy()
    generalised_gaussian_mechanism(seeded(3), again, order, sigma, grid)
    assert (released == again).all()
    generalised_gaussian_mechanism(seeded(4), again, order, sigma, grid)
    assert (released != again).all()
    plain = values.copy()
    module._round_sums.py_func(plain, noise, grid)
    assert (plain == released).all()


def test_extreme_values():
    values = np.array([np.inf, -np.inf, np.nan, 1e300])
    generalised_gaussian_mechanism(seeded(), values, 3.0, 1.0, 0.5)
    limit = GRID_LIMIT * 0.5
    assert values.tolist() == [limit, -limit, 0.0, limit]


def test_secret_generators():
    rng, seeded = generator()
    assert not seeded
    a, b = np.zeros((2, 30))
    generalised_gaussian_mechanism(rng, a, 3.0, 1.0, 1 / 256)
    generalised_gaussian_mechanism(rng, b, 3.0, 1.0, 1 / 256)
    assert len(np.unique(np.concatenate((a, b)))) > 40


class Played:
    """A generator that plays given numbers."""

    def __init__(self, uniform, gammas, radius):
        self.uniform, self.gammas, self.radius = uniform, gammas, radius

    def random(self, size):
        return self.uniform

    def standard_gamma(self, shape, size=None):
        return self.radius if size is None else self.gammas


def test_the_arithmetic_of_the_sampler():
    """The bound of section 5 of the proof page, against 60 digits."""
    rng, sigma, largest = seeded(), 1.7, 0.0
    for size, order in ((1, 3.0), (2, 2.5), (3, 40.0), (200, 8.3)):
        for smallest in (1.0, 1e-6):
            uniform = 0.5 + np.rint((rng.random(size) - 0.5) * smallest * 2**53) * 2.0**-53
            gammas = rng.standard_gamma(1 + 1 / order, size)
            radius = rng.standard_gamma(size / 2)
            z = generalised_gaussian(Played(uniform, gammas, radius), size, order, sigma)
            with localcontext(prec=60):
                r = Decimal(order)
                x = [
                    (Decimal(u) - Decimal("0.5") + Decimal(2) ** -54) * Decimal(g) ** (1 / r)
                    for u, g in zip(uniform, gammas, strict=True)
                ]
                assert all(v != 0 for v in x)
                norm = sum(abs(v) ** r for v in x) ** (1 / r)
                scale = Decimal(sigma) * (2 * Decimal(radius)).sqrt()
                error = max(abs(Decimal(a) - scale * v / norm) for a, v in zip(z, x, strict=True))
                largest = max(largest, float(error / scale))
    assert 2.0**-56 < largest < 2.0**-50


@pytest.mark.parametrize("order", [2.5, 8.3])
def test_what_a_coordinate_does_not_tell_of_its_gamma_variable(order):
    """Section 5: given x, the excess of its gamma variable is exponential: rarely small."""
    rng, n = seeded(), 20_000
    gammas = rng.standard_gamma(1 + 1 / order, n)
    x = np.abs((rng.random(n) - module._HALF) * gammas ** (1 / order))
    excess = gammas - (2 * x) ** order
    for part in (excess[x < np.median(x)], excess[x >= np.median(x)]):
        assert stats.kstest(part, stats.expon.cdf).pvalue > ALARM
        assert stats.kstest(1.1 * part, stats.expon.cdf).pvalue < ALARM
    assert np.mean(np.clip(excess ** (-1 / 3), 1, 100)) == pytest.approx(1.417, abs=0.05)


def test_uniforms_are_symmetric_and_never_zero():
    ends = np.array([0.0, 0.5 - 2.0**-53, 0.5, 1 - 2.0**-53])
    found = ends - module._HALF
    assert [Fraction(v) for v in found] == [
        Fraction(v) - Fraction(1, 2) + Fraction(1, 2**54) for v in ends
    ]
    assert found.tolist() == (-found[::-1]).tolist()
