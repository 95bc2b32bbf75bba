"""From real numbers to the grid, and calibration: checked in exact rational arithmetic."""

import math
from fractions import Fraction

import numba
import numpy as np
import pytest
from cases import each

from skdpsco.data.pieces import replace_one, sum_error
from skdpsco.mechanisms import samplers as m


def seeded(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def test_to_grid():
    assert m.to_grid(1.0, 0.25) == 4
    assert [m.to_grid(x, 1.0) for x in (2.4, 2.6, -2.6, -0.2)] == [2, 3, -3, 0]
    limit = m.GRID_LIMIT
    assert m.to_grid(limit - 1.0, 1.0) == limit - 1
    for large in (limit, 1e300, np.inf):
        assert m.to_grid(large, 1e-3) == limit
        assert m.to_grid(-large, 1e-3) == -limit
    assert m.to_grid(np.nan, 1.0) == 0
    compiled = numba.njit(lambda value, grid: m.to_grid(value, grid))
    for x in (0.3, -7.5, 1e99, np.nan):
        assert compiled(x, 0.1) == m.to_grid(x, 0.1)
    assert isinstance(m.to_grid(0.3, 0.1), np.int64)


def test_rounding_is_what_the_grids_charge():
    rng = seeded()
    for _ in range(2000):
        grid = 10 ** rng.uniform(-30, 30)
        value = grid * 2 ** rng.uniform(-3, 50) * rng.choice([-1, 1])
        error = abs(m.to_grid(value, grid) - Fraction(value) / Fraction(grid))
        assert error <= m.GRID_ROUNDING or abs(value / grid) >= m.GRID_LIMIT


def log_uniform(rng, low, high):
    return float(10 ** rng.uniform(low, high))


def test_selection_grids_are_private_and_tight():
    rng = seeded()
    for _ in range(1000):
        change, epsilon0 = log_uniform(rng, -12, 12), log_uniform(rng, -5.6, 6)
        magnitude = change * log_uniform(rng, 0, 9)
        grid = Fraction(m.exponential_grid(change, epsilon0, magnitude))
        loss = (Fraction(change) / grid + 4 * Fraction(m.GRID_ROUNDING)) / 2**m.SCALE_BITS
        floor = Fraction(magnitude) / 2**49
        assert loss <= Fraction(epsilon0)
        assert grid >= floor
        assert loss > Fraction(epsilon0) * Fraction(0.999999) or grid == floor


def test_gaussian_grid_is_private_and_tight():
    rng = seeded()
    for _ in range(1000):
        sensitivity, multiplier = log_uniform(rng, -12, 12), log_uniform(rng, -6, 3)
        dimension = int(log_uniform(rng, 0, 5))
        magnitude = sensitivity * log_uniform(rng, 0, 9)
        grid = Fraction(m.gaussian_grid(sensitivity, multiplier, dimension, magnitude))
        # (Delta / g + rounding sqrt(d)) z <= s, rearranged so that both sides can be squared.
        root = Fraction(math.isqrt(dimension << 200) + 1, 2**100)  # above sqrt(dimension)
        units = Fraction(sensitivity) / grid + 2 * Fraction(m.GRID_ROUNDING) * root
        ratio = (units * Fraction(multiplier)) ** 2 / (4**m.SCALE_BITS - 16)
        floor = Fraction(magnitude) / 2**49
        assert ratio <= 1
        assert grid >= floor
        assert ratio > Fraction(0.999999) or grid == floor


def test_huge_epsilon_only_stops_at_the_finest_grid():
    for grid in (m.exponential_grid(1e-6, 1e6, 1.0), m.gaussian_grid(1e-6, 1e-9, 10, 1.0)):
        assert grid == 2.0**-49
        assert m.to_grid(1.0, grid) == 2**49
        released = np.ones(1)
        m.gaussian_mechanism(seeded(), released, grid)
        assert abs(released[0] - 1) < 1e-7


def test_a_release_has_the_planned_multiplier_and_returns_its_deviation():
    released, other = np.ones(3), np.ones(3)
    deviation = m.release(seeded(), released, 2.0, 5.0, 4.0)
    grid = m.gaussian_grid(2.0, 5.0, 3, 4.0)
    assert m.gaussian_mechanism(seeded(), other, grid) == deviation == m.deviation_on(grid)
    assert np.array_equal(released, other)
    assert 10.0 < deviation < 10.0 * (1.0 + 1e-6)


@each("bad", [0.0, -1.0, np.nan, np.inf])
@each(
    ("function", "names"),
    [
        (m.summation_error, ["n_terms", "bound"]),
        (m.exponential_grid, ["sensitivity_range", "epsilon0", "magnitude"]),
        (m.gaussian_grid, ["sensitivity", "noise_multiplier", "dimension", "magnitude"]),
    ],
)
def test_illegal_numbers_are_named(function, names, bad):
    for name in names:
        with pytest.raises(ValueError, match=f"{name} must be positive and finite"):
            function(**{**dict.fromkeys(names, 1), name: bad})


def test_what_no_grid_can_offer_is_refused():
    with pytest.raises(ValueError, match="too large for the grid"):
        m.exponential_grid(1.0, 2.5 / 2**m.SCALE_BITS, 1.0)
    with pytest.raises(ValueError, match="too large for the grid"):
        m.gaussian_grid(1.0, 1e4, 10**8, 1.0)
    with pytest.raises(ValueError, match="too small for float64"):
        m.exponential_grid(1e-310, 1.0, 1e-310)
    with pytest.raises(ValueError, match="too large for a float64 sum"):
        m.summation_error(2**53, 1.0)


@each("parts", [1, 3])
@each("n", [2, 100, 2**17])
def test_sensitivities_hold_for_sums_that_are_rounded_apart(n, parts):
    """The record goes from one end to the other, and both sums err by the most, away from it."""
    bound, unit = 3.0, np.full(parts, 1.0 / math.sqrt(parts))
    error = sum_error(n, bound) * np.ones(parts)
    for change in (None, 0.5):
        exact = bound * (n - 1) * unit  # of the others
        moved = bound if change is None else change / 2
        sums = exact + moved * unit + error, exact - moved * unit - error
        apart = math.dist(*sums)
        charged = replace_one(n, bound, change, parts=parts)
        assert charged >= apart * (1 - 1e-9)
        assert charged <= apart * (1 + 1e-9)  # no more than that is paid for
