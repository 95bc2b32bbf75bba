"""The bucket sampler: its law by chi-square, also after thousands of changes, and its extremes.

Every chi-square test has a false alarm of 1e-8, with a fixed seed. Its power is stated as the
p-value of the same sample against a law that is slightly wrong, which must be below 1e-20.
"""

import math
from decimal import Decimal, getcontext

import numba
import numpy as np
import pytest
from scipy import stats

from skdpsco.mechanisms import bucket_sampler as b
from skdpsco.mechanisms.samplers import GRID_LIMIT, SCALE_BITS

N = 200_000
FALSE_ALARM = 1e-8
CERTAIN = 1e-20
ONE = 2**SCALE_BITS


def seeded(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


@numba.njit
def draws(rng, sums, buckets, out):
    for i in range(out.size):
        out[i] = b.draw_signed(rng, sums, buckets)


@numba.njit
def change(sums, buckets, k, value):
    top, slope = b.estimate(buckets)
    before = b.bucket_of(sums[k], top, slope)
    sums[k] = value
    after = b.bucket_of(sums[k], top, slope)
    if before != after:
        b.move_to_bucket(buckets, k, before, after)


def sample(sums, buckets=None, n=N, seed=0):
    out = np.empty(n, dtype=np.int64)
    buckets = b.new_buckets(len(sums)) if buckets is None else buckets
    draws(seeded(seed), sums, buckets, out)
    return out


def signed_law(scores, temperature=1.0):
    """Probabilities of the 2 n candidates, from the definition."""
    both = np.concatenate([scores, -scores]) / (ONE * temperature)
    weights = np.exp(both - both.max())
    return weights / weights.sum()


def p_value(found, law):
    """Chi-square; cells that expect less than 10 are pooled; a pool below 10 is left out."""
    counts = np.bincount(found, minlength=len(law))
    large = law * len(found) >= 10
    observed, expected = counts[large], law[large] * len(found)
    rest = len(found) - expected.sum()
    if rest >= 10:
        observed = np.append(observed, counts[~large].sum())
        expected = np.append(expected, rest)
    else:
        assert counts[~large].sum() <= 60
        expected *= observed.sum() / expected.sum()
    return stats.chisquare(observed, expected).pvalue if len(observed) > 1 else 1.0


def check_order(buckets, sums):
    """Every coordinate is in the bucket that it should be in, and none scores too much for it."""
    n = len(sums)
    assert sorted(buckets.order) == list(range(n))
    assert (buckets.order[buckets.place] == np.arange(n)).all()
    assert buckets.start[0] == 0
    assert buckets.start[-1] == n
    top, slope = b.estimate(buckets)
    for j in range(b.LAST + 1):
        for k in buckets.order[buckets.start[j] : buckets.start[j + 1]]:
            assert b.bucket_of(sums[k], top, slope) == j
            assert buckets.reference[0] - abs(b.score_of(buckets, sums[k])) >= j * b.BUCKET_WIDTH


# ------------------------------------------------------------------------------ constants


def test_constants():
    getcontext().prec = 100
    assert math.ceil(Decimal(2).ln() * ONE) == b.BUCKET_WIDTH
    rest = 2 * (-Decimal(b.BUCKET_WIDTH) / ONE).exp()
    assert 1 - Decimal("1e-8") < rest < 1
    for digit in b.KEEP:
        rest *= 2**62
        assert int(rest) == digit
        rest -= digit
    # The largest sum of weights is a legal argument of `below`; sorting leaves less than half to
    # the last bucket.
    assert b.MAX_COORDINATES << b.LAST <= 2**62
    assert 1 << (b.LAST - b.SLACK // b.BUCKET_WIDTH) >= b.MAX_COORDINATES


def test_keep(monkeypatch):
    """Compared digit by digit: one half, then one third of that half, as a chain of rare words."""
    words: list[int] = []
    monkeypatch.setattr(b, "below", lambda rng, m: words.pop(0))
    first, second, third = b.KEEP
    for given, kept in (
        ([first - 1], True),
        ([first + 1], False),
        ([first, second - 1], True),
        ([first, second + 1], False),
        ([first, second, third - 1], True),
        ([first, second, third + 1], False),
        ([first, second, third], False),
    ):
        words[:] = given
        assert b.keep(None) == kept
        assert not words


# ------------------------------------------------------------------------------ law

rng = seeded(1)
LAWS = {
    "spread": np.rint(rng.normal(size=12) * 2.0 * ONE).astype(np.int64),
    "ties": np.array([3, 3, -3, 0, 0, 1, -1, 3]) * ONE // 2,
    "equal": np.full(7, 5 * ONE),
    "zero": np.zeros(6, dtype=np.int64),
    "one": np.array([ONE // 3]),
    "one, negative": np.array([-ONE // 3]),
    # all but one of 400 are in the last bucket, and of 4 e-folds each bucket has some
    "far below": np.append(np.full(400, 0), 24 * ONE),
    "ladder": -np.arange(40) * (ONE // 5),
    # a unit above and below the borders of buckets
    "borders": np.append(
        -np.arange(1, 9) * b.BUCKET_WIDTH, [1 - 3 * b.BUCKET_WIDTH, -1 - 3 * b.BUCKET_WIDTH, 0]
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_law(name):
    scores = LAWS[name]
    found = sample(scores)
    assert p_value(found, signed_law(scores)) > FALSE_ALARM
    if name not in ("equal", "zero", "far below"):
        assert p_value(found, signed_law(scores, 1.1)) < CERTAIN


def test_law_of_equal_scores_has_power():
    found = sample(LAWS["equal"])
    wrong = signed_law(LAWS["equal"] + np.append(ONE // 10, np.zeros(6, dtype=int)))
    assert p_value(found, wrong) < CERTAIN


def test_the_lump_of_all_the_rest():
    """Many candidates in the last bucket, whose weights there differ, share a tenth of the law."""
    depth = round(math.log(500_000) * ONE)  # 18 buckets
    scores = np.append(np.full(60_000, 0), depth)
    scores[:60_000:2] -= ONE
    buckets = b.new_buckets(len(scores))
    # A reference that the largest has fallen from.
    scores[-1] += 11 * b.BUCKET_WIDTH
    sample(scores, buckets, 1)
    change(scores, buckets, len(scores) - 1, depth)
    reference = buckets.reference[0]
    found = sample(scores, buckets)
    assert buckets.reference[0] == reference  # not sorted anew
    assert buckets.start[b.LAST + 1] - buckets.start[b.LAST] == 60_000
    law = signed_law(scores)
    kinds = np.select(
        [found == 60_000, found < 60_000], [0, 1 + found % 2], 3 + (found % 60_001) % 2
    )
    expected = [law[60_000], law[0:60_000:2].sum(), law[1:60_000:2].sum()]
    expected += [law[60_001::2][:30_000].sum(), law[60_002::2][:30_000].sum()]
    expected = np.array(expected)
    assert expected.sum() == pytest.approx(1.0)
    assert 0.05 < 1 - expected[0] < 0.5
    assert p_value(kinds, expected) > FALSE_ALARM
    assert p_value(kinds, expected[[0, 2, 1, 4, 3]]) < CERTAIN


def test_law_after_thousands_of_changes():
    rng, n = seeded(2), 300
    sums = np.rint(rng.normal(size=n) * ONE).astype(np.int64)
    buckets = b.new_buckets(n)
    sample(sums, buckets, 1)
    sorts = moved = 0
    for step in range(20_000):
        reference, starts = buckets.reference[0], buckets.start.copy()
        k = rng.integers(n)
        # random walks, and now and then a leap, ever higher, that puts all others far below
        leap = (10 + step // 500) * ONE if step % 2000 == 0 else 0
        change(sums, buckets, k, int(sums[k] * 0.5 + 1.5 * rng.normal() * ONE + leap))
        moved += not np.array_equal(starts, buckets.start)
        if step % 100 == 0 or buckets.reference[0] < 0:
            sample(sums, buckets, 1, seed=step)
        sorts += buckets.reference[0] != reference
        if step % 1000 == 0:
            check_order(buckets, sums)
    assert sorts >= 10
    assert moved > 5000
    check_order(buckets, sums)
    found = sample(sums, buckets, 4 * N)
    assert p_value(found, signed_law(sums)) > FALSE_ALARM
    assert p_value(found, signed_law(sums, 1.1)) < CERTAIN
    stale = sums.copy()  # the law would show one score that was not updated
    stale[np.argmax(sums)] -= ONE
    assert p_value(found, signed_law(stale)) < CERTAIN


def test_scale():
    """The score of a sum is its multiple, rounded; a new scale has a new law."""
    sums = np.array([0, 10, -25, 40, 7])
    buckets = b.new_buckets(5)
    for factor, grid in ((-1.0, 20 / ONE), (3.0, 100 / ONE), (-1e-200, 2e-199 / ONE)):
        b.forget(buckets, factor, grid)
        scores = np.rint(sums * (factor / grid)).astype(np.int64)
        assert [b.score_of(buckets, s) for s in sums] == scores.tolist()
        found = sample(sums, buckets)
        assert p_value(found, signed_law(scores)) > FALSE_ALARM
        assert p_value(found, signed_law(-scores)) < CERTAIN


# ------------------------------------------------------------------------------ extremes


def test_extreme_scores():
    limit = GRID_LIMIT
    assert set(sample(np.array([-limit, 0, 5]), n=500)) == {3}
    assert set(sample(np.array([0, limit, 5]), n=500)) == {1}
    both = sample(np.array([limit, -limit, limit - 40 * ONE]))
    assert p_value(both[both < 2] * 0, np.ones(1)) == 1.0
    assert p_value((both == 0) * 1, np.array([0.5, 0.5])) > FALSE_ALARM
    assert set(both) == {0, 4}
    # a score in the middle, of a distance that float64 estimates only just resolve
    near = np.array([limit - ONE, limit, limit - ONE // 2])
    found = sample(near)
    assert p_value(found, signed_law((near - limit).astype(float) + 40.0 * ONE)) > FALSE_ALARM


@pytest.mark.parametrize("start", [0, GRID_LIMIT // 3, GRID_LIMIT])
def test_the_estimate_errs_on_the_safe_side(start):
    rng = seeded(3)
    for _ in range(300):
        sums = start - rng.integers(0, 40 * ONE, size=20)
        buckets = b.new_buckets(20)
        b.forget(buckets, rng.choice([-1.0, 1.0]) * 2.0 ** rng.integers(-900, 900), 1.0)
        buckets.scale[1] = abs(buckets.scale[0]) * rng.uniform(1.0, 1.5)
        b.sort_all(buckets, sums)
        check_order(buckets, sums)


def test_few_trials():
    """Random words per draw: a trial takes about seven, and about two are expected."""

    class Counting:
        def __init__(self):
            self.bit_generator, self.words = self, 0
            self.source = seeded(4).bit_generator

        def random_raw(self):
            self.words += 1
            return self.source.random_raw()

    scores = np.rint(seeded(5).normal(size=2000) * 3 * ONE).astype(np.int64)
    counting, buckets = Counting(), b.new_buckets(2000)
    for _ in range(300):
        b.draw_signed(counting, scores, buckets)
    assert counting.words / 300 < 60


def test_python_agrees_with_numba():
    sums = LAWS["spread"]
    compiled = sample(sums, n=200, seed=6)
    python, buckets = seeded(6), b.new_buckets(len(sums))
    assert compiled.tolist() == [b.draw_signed(python, sums, buckets) for _ in range(200)]
