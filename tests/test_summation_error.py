"""How far apart the sums of neighbours may be: rational arithmetic, on data that round badly.

The library's own formulas appear here only as the claims that are compared. See
docs/how-we-checked.md.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from cases import each

from skdpsco.data.design import as_design
from skdpsco.data.pieces import FAN_IN, PIECE_ROWS, depth_of, replace_one, sum_error
from skdpsco.data.record_sums import in_pieces, map_reduce
from skdpsco.mechanisms.samplers import summation_error

SIZES = [2, 3, 4, 9, 64, 1000, PIECE_ROWS, PIECE_ROWS + 1, 3 * PIECE_ROWS + 77]


def drifting(n, bound):
    """Numbers within the bound whose sum, from left to right, is rounded up again and again.

    Half of them bring the sum to a power of two times the bound. The others add and take away about
    half of the bound, and a little more than half a unit in the last place of the sum.
    """
    first = 1 << max(0, n.bit_length() - 2)
    unit = math.ulp(first * bound)
    about = math.floor(bound / 2 / unit) * unit
    rest = np.resize([about, -about], n - first) + unit * (0.5 + 2.0**-8)
    return np.concatenate([np.full(first, bound), np.clip(rest, -bound, bound)])


def exact_sum(values):
    """The sum of floats as a rational number."""
    different, counts = np.unique(values, return_counts=True)
    return sum(Fraction(float(v)) * int(c) for v, c in zip(different, counts, strict=True))


def add_from_left(values):
    return float(np.cumsum(values)[-1])


def in_runs(sums):
    """Runs of 64 terms, then runs of their sums, and so on."""
    while len(sums) > 1:
        sums = [add_from_left(sums[k : k + 64]) for k in range(0, len(sums), 64)]
    return sums[0]


def computed(values):
    """A float64 sum from left to right in pieces of 2**16, which are added up by the tree."""
    return in_runs([add_from_left(values[k : k + 2**16]) for k in range(0, len(values), 2**16)])


def drifting_pieces(n, bound):
    sizes = [min(PIECE_ROWS, n - start) for start in range(0, n, PIECE_ROWS)]
    return np.concatenate([drifting(size, bound) for size in sizes])


@each("bound", [1.0, 1.999, 0.7, 2.0**-300])
@each("n", SIZES)
def test_no_neighbours_are_further_apart_than_is_charged(n, bound):
    """By rational arithmetic, on data that round badly."""
    values = drifting_pieces(n, bound)
    error = abs(Fraction(computed(values)) - exact_sum(values))
    assert error <= Fraction(sum_error(n, bound))
    if n > 1000 and bound == 1.0:
        assert error > Fraction(sum_error(n, bound)) / 5  # the data are bad ones
    for place in {0, n // 2, n - 1}:
        other = values.copy()
        other[place] = -bound if values[place] > 0 else bound
        found = abs(Fraction(computed(values)) - Fraction(computed(other)))
        moved = abs(Fraction(float(values[place])) - Fraction(float(other[place])))
        assert found - moved <= 2 * Fraction(sum_error(n, bound))
        assert found <= Fraction(replace_one(n, bound))


def test_the_difference_of_neighbours_does_grow():
    """Where the sums of two neighbours stand on both sides of a power of two, errors differ."""
    n = 4096
    values = drifting(n + 1, 1.0)[:n]
    first = 2048
    assert np.all(values[:first] == 1.0)
    other = values.copy()
    other[0] = -1.0
    found = abs(Fraction(computed(values)) - Fraction(computed(other))) - 2
    charged = Fraction(replace_one(n, 1.0)) - 2
    assert charged / 10 < found <= charged


@pytest.mark.parametrize("n", [7, PIECE_ROWS + 1, 3 * PIECE_ROWS + 77])
@pytest.mark.parametrize(
    "function",
    [
        lambda design, y: np.cumsum(y)[-1:],
        lambda design, y: y.sum(keepdims=True),
        lambda design, y: np.ones(len(y)) @ y[:, None],
        lambda design, y: np.cumsum(y[::-1])[-1:],
    ],
    ids=["left to right", "pairwise", "BLAS", "right to left"],
)
def test_sums_of_the_library_keep_to_the_claim(n, function):
    values = drifting_pieces(n, 1.0)
    for y in (values, np.sort(values), values * np.resize([1.0, -1.0, 1.0], n)):
        design = in_pieces(as_design(y.reshape(-1, 1), np.ones(1), False), y)
        found = Fraction(float(map_reduce(design, y, function)[0]))
        assert abs(found - exact_sum(y)) <= Fraction(sum_error(n, 1.0))


def test_the_error_of_vectors_does_not_see_the_dimension():
    n, d = 5000, 16
    rows = np.multiply.outer(drifting(n, 1.0), np.full(d, 0.25))  # of l2 norm at most 1
    total = np.cumsum(rows, axis=0)[-1]
    error = math.sqrt(d) * abs(Fraction(float(total[0])) - exact_sum(rows[:, 0]))
    assert 0.2 * sum_error(n, 1.0) < error <= sum_error(n, 1.0)


def test_no_term_passes_more_additions_than_are_counted():
    """Blocks of one record, of 2**16, of all records; pieces of a block: the longest paths."""
    assert FAN_IN == 64
    for n in [1, 2, 63, 64, 65, 2**16, 2**16 + 1, 2**24, 10**9, 2**40, 2**48]:
        for blocks in {1, 2, 64, n // 2**16, n}:
            if not 1 <= blocks <= n:
                continue
            size = -(-n // blocks)
            longest = min(size, 2**16) - 1
            for terms in (-(-size // 2**16), blocks):
                levels = 0
                while 64**levels < terms:
                    levels += 1
                longest += min(63 * levels, terms - 1)
            # A tree of n terms has n - 1 additions; one more for a factor.
            assert min(longest, n - 1) + 1 <= min(n, depth_of(n) + 1)


@each("terms", [1, 2, 5])
@each("n", [1, 2, 100, 2**16, 2**17, 10**9])
def test_the_constants_of_the_error(n, terms):
    u = Fraction(1, 2**53)
    additions = min(n * terms, min(n, 2**16) + 2**10 + terms + 1)
    gamma = additions * u / (1 - additions * u)
    claimed = Fraction(sum_error(n, 3.0, terms))
    assert gamma * n * terms * 3 <= claimed <= gamma * n * terms * 3 * (1 + Fraction(1, 2**39))
    gamma = n * u / (1 - n * u)
    claimed = Fraction(summation_error(n, 3.0))
    assert gamma * n * 3 <= claimed <= gamma * n * 3 * (1 + Fraction(1, 2**39))
