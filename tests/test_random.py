import copy
import pickle

import numba
import numpy as np
import pytest
from cases import each
from scipy import stats

from skdpsco._random import PrivacyWarning, below, generator, next_uint64, words_of


def next_uint64_of(rng):
    return next_uint64(rng)


def words(rng, n=4):
    return [int(next_uint64(rng)) for _ in range(n)]


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
@pytest.mark.parametrize("seed", [3, None])
def test_words_are_the_raw_stream(seed):
    rng, _ = generator(seed)
    state = rng.bit_generator.state
    drawn = words(rng, 100)
    rng.bit_generator.state = state
    assert drawn == rng.bit_generator.random_raw(100).tolist()
    compiled = numba.njit(next_uint64_of)
    for source in (lambda: rng, lambda: words_of(rng)):
        rng.bit_generator.state = state
        assert drawn == [int(compiled(source())) for _ in range(100)]


def test_default_is_secret_and_silent():
    (a, seeded), (b, _) = generator(None), generator()
    assert not seeded
    assert type(a.bit_generator).__mro__[1].__name__ == "AESCounter"
    assert a is not b
    assert words(a) != words(b)


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.deepcopy])
def test_secret_generator_cannot_be_copied(duplicate):
    with pytest.raises(TypeError, match="copied or pickled"):
        duplicate(generator()[0])


@each("seed", [0, 7, np.int32(7), np.uint64(2**63), 2**100])
def test_seeded_generator_is_reproducible_and_warns(seed):
    with pytest.warns(PrivacyWarning, match="anyone who knows the seed can subtract") as record:
        a, seeded = generator(seed)
    assert record[0].filename == __file__
    with pytest.warns(PrivacyWarning):
        b, _ = generator(seed)
    assert seeded
    assert words(a) == words(b) == words(np.random.Generator(np.random.PCG64(int(seed))))


def test_random_state_instance_gives_a_fresh_reproducible_generator_each_time():
    def pair():
        state = np.random.RandomState(0)
        with pytest.warns(PrivacyWarning):
            (a, seeded), (b, _) = generator(state), generator(state)
        assert seeded
        return words(a), words(b)

    first, second = pair()
    assert first != second
    assert pair() == (first, second)


@each("illegal", [True, np.True_, 1.0, "0", np.array(3), np.random.default_rng(0), np.random, [1]])
def test_illegal_type(illegal):
    with pytest.raises(TypeError, match=r"random_state must be None, a non-negative integer or"):
        generator(illegal)


def test_negative_seed():
    with pytest.raises(ValueError, match=r"random_state must be a non-negative integer, got -1"):
        generator(-1)


@pytest.mark.parametrize("m", [1, 2, 3, 5, 8, 13])
def test_below_is_uniform(m):
    rng = np.random.Generator(np.random.PCG64(m))
    counts = np.bincount([below(rng, m) for _ in range(5000)], minlength=m)
    assert len(counts) == m
    assert m == 1 or stats.chisquare(counts).pvalue > 1e-7


def test_below_reaches_high_bits():
    rng = np.random.Generator(np.random.PCG64(0))
    draws = [below(rng, 2**62) for _ in range(1000)]
    assert 0 <= min(draws) < 2**56
    assert 2**62 - 2**56 < max(draws) < 2**62
    assert np.bitwise_or.reduce(draws) == 2**62 - 1


def test_below_in_python():
    compiled = numba.njit(lambda rng, m: below(rng, m))
    a, b = (np.random.Generator(np.random.PCG64(1)) for _ in range(2))
    for m in (1, 3, 1000, 2**62):
        assert [compiled(a, m) for _ in range(20)] == [below(b, m) for _ in range(20)]
