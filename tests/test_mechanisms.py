"""The laws that are sampled, by chi-square at small scales, and the privacy that they have."""

import math
from functools import cache
from itertools import product

import numba
import numpy as np
import pytest
from cases import each
from scipy import stats

from skdpsco._random import generator
from skdpsco.mechanisms import samplers as m

N = 200_000
FALSE_ALARM = 1e-7  # of each of about thirty tests, with fixed seeds
CERTAIN = 1e-20  # a planted error must be this implausible


def seeded(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


@cache
def filler(sampler):
    """A compiled loop, not cached on disk as the sampler is an argument."""

    @numba.njit
    def fill(rng, out, args):
        for i in range(out.size):
            out[i] = sampler(rng, *args)

    return fill


def draw(sampler, n, *args, rng=None):
    """Sample n times."""
    out = np.empty(n, dtype=np.int64)
    filler(sampler)(seeded() if rng is None else rng, out, args)
    return out


def p_value(sample, support, weights):
    """Chi-square test; cells with fewer than 10 expected samples are pooled with all the rest."""
    pmf = np.asarray(weights, dtype=float) / np.sum(weights)
    expected = pmf * sample.size
    large = expected >= 10
    observed = np.array([(sample == k).sum() for k in np.asarray(support)[large]])
    rest = sample.size - expected[large].sum()
    if rest < 10:  # too little for a cell of its own; a surplus there still has to show
        assert sample.size - observed.sum() <= 60
        expected_large = expected[large] * observed.sum() / expected[large].sum()
        return stats.chisquare(observed, expected_large).pvalue
    observed = np.append(observed, sample.size - observed.sum())
    return stats.chisquare(observed, np.append(expected[large], rest)).pvalue


SUPPORT = np.arange(-600, 601)


def laplace_weights(bits, scale=1.0):
    return np.exp(-np.abs(SUPPORT) / (scale * 2**bits))


def gaussian_weights(bits, scale=1.0):
    return np.exp(-(SUPPORT**2) / (2 * (scale * 2**bits) ** 2))


LAWS = [(m.discrete_laplace, laplace_weights), (m.discrete_gaussian, gaussian_weights)]
SCORES = np.array([0, 3, 5, 7, 7, -10, 2, -40])


def selection_weights(scores, bits):
    return np.exp((scores - scores.max()) / 2**bits)


def signed(scores):
    return np.concatenate([scores, -scores])


# ------------------------------------------------------------------------------ laws


@pytest.mark.parametrize("num", [0, 1, 3, 4, 5, 8, 11, 30])
def test_bernoulli_exp(num):
    sample = draw(m.bernoulli_exp, N, num, 2)
    p = math.exp(-num / 4)
    assert set(sample) <= {0, 1}
    assert stats.binomtest(int(sample.sum()), N, p).pvalue > FALSE_ALARM
    if num:
        wrong = math.exp(-num / 8)
        assert stats.binomtest(int(sample.sum()), N, wrong).pvalue < CERTAIN


def test_bernoulli_exp_at_the_ends():
    assert draw(m.bernoulli_exp, 1000, 2**63 - 1, 20).sum() == 0
    assert draw(m.bernoulli_exp, 1000, 0, 49).sum() == 1000
    p = stats.binomtest(int(draw(m.bernoulli_exp, N, 2**48, 49).sum()), N, math.exp(-0.5)).pvalue
    assert p > FALSE_ALARM


@pytest.mark.parametrize("bits", [0, 2, 4])
@pytest.mark.parametrize(("sampler", "weights"), LAWS)
def test_noise_law(sampler, weights, bits):
    sample = draw(sampler, N, bits)
    assert p_value(sample, SUPPORT, weights(bits)) > FALSE_ALARM
    assert p_value(sample, SUPPORT, weights(bits, scale=2)) < CERTAIN
    assert p_value(sample, SUPPORT, weights(bits, scale=1.05)) < CERTAIN


def test_noise_law_from_the_default_generator():
    rng, _ = generator()
    for sampler, weights in LAWS:
        assert p_value(draw(sampler, N, 3, rng=rng), SUPPORT, weights(3)) > FALSE_ALARM


@pytest.mark.parametrize(
    ("sampler", "deviation"), [(m.discrete_laplace, 2**0.5), (m.discrete_gaussian, 1)]
)
def test_moments_at_full_scale(sampler, deviation):
    sample = draw(sampler, N, m.SCALE_BITS) / (deviation * 2**m.SCALE_BITS)
    kurtosis = {m.discrete_laplace: 6, m.discrete_gaussian: 3}[sampler]
    assert abs(sample.mean()) < 6 / N**0.5
    assert abs((sample**2).mean() - 1) < 6 * ((kurtosis - 1) / N) ** 0.5
    law = stats.laplace(scale=0.5**0.5) if deviation > 1 else stats.norm()
    assert stats.kstest(sample, law.cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("scores", [SCORES, signed(SCORES)])
def test_exponential_mechanism_law(bits, scores):
    sample = draw(m.exponential_mechanism, N, scores, bits)
    index = np.arange(scores.size)
    assert p_value(sample, index, selection_weights(scores, bits)) > FALSE_ALARM
    assert p_value(sample, index, selection_weights(scores, bits + 1)) < CERTAIN


def noisy_max_pmf(scores, bits):
    """Exact law of the first index of the largest noisy score."""
    support = np.arange(-400, 401)
    pmf = np.exp(-np.abs(support[:, None] - scores) / 2**bits)
    pmf /= pmf.sum(axis=0)
    up_to = np.cumsum(pmf, axis=0)
    result = []
    for k in range(scores.size):
        others = np.concatenate([up_to[:, :k] - pmf[:, :k], up_to[:, k + 1 :]], axis=1)
        result.append((pmf[:, k] * others.prod(axis=1)).sum())
    return np.array(result)


@pytest.mark.parametrize("scores", [SCORES, signed(SCORES)])
def test_noisy_argmax_law(scores):
    sample = draw(m.noisy_argmax_laplace, N, scores, 3)
    index = np.arange(scores.size)
    assert p_value(sample, index, noisy_max_pmf(scores, 3)) > FALSE_ALARM
    assert p_value(sample, index, noisy_max_pmf(scores, 4)) < CERTAIN


@pytest.mark.parametrize("select", [m.exponential_mechanism, m.noisy_argmax_laplace])
def test_selection_extremes(select):
    rng, bits = seeded(), m.SCALE_BITS
    far = np.array([-(2**61), 2**61, 0])
    assert set(draw(select, 100, far, bits, rng=rng)) == {1}
    assert set(draw(select, 100, np.array([5]), bits, rng=rng)) == {0}
    equal = draw(select, N, np.full(5, -(2**61)), bits)
    assert p_value(equal, np.arange(5), np.ones(5)) > FALSE_ALARM


@each(
    ("sampler", "args"),
    [
        (m.bernoulli_exp, (3_000_000, m.SCALE_BITS)),
        (m.discrete_laplace, (m.SCALE_BITS,)),
        (m.discrete_gaussian, (m.SCALE_BITS,)),
        (m.exponential_mechanism, (SCORES, 3)),
        (m.noisy_argmax_laplace, (SCORES, 3)),
    ],
)
def test_python_agrees_with_numba(sampler, args):
    compiled, python = seeded(5), seeded(5)
    drawn = draw(sampler, 50, *args, rng=compiled)
    assert drawn.tolist() == [sampler(python, *args) for _ in range(50)]
    assert compiled.bit_generator.state == python.bit_generator.state


def test_gaussian_mechanism_in_python():
    released, again = np.linspace(-1, 1, 50), np.linspace(-1, 1, 50)
    m.gaussian_mechanism(seeded(), released, 0.1)
    m._add_noise.py_func(seeded(), again, 0.1)
    assert np.array_equal(released, again)


# ------------------------------------------------------------------------------ losses


def test_exponential_mechanism_is_bounded_range_and_noisy_max_is_not():
    # All pairs of integer scores in a box whose changes have range at most R, noise scale 2**bits.
    bits, largest = 2, {m.exponential_mechanism: 0.0, m.noisy_argmax_laplace: 0.0}
    laws = {
        m.exponential_mechanism: lambda s: (
            selection_weights(s, bits) / selection_weights(s, bits).sum()
        ),
        m.noisy_argmax_laplace: lambda s: noisy_max_pmf(s, bits),
    }
    for change in product(range(3), repeat=3):
        epsilon0 = np.ptp(change) / 2**bits
        for start in product((0, 3, 9), repeat=3):
            a = np.array(start)
            for name, law in laws.items():
                ratio = np.log(law(a + np.array(change)) / law(a))
                assert np.abs(ratio).max() <= epsilon0 + 1e-9
                if epsilon0:
                    largest[name] = max(largest[name], np.ptp(ratio) / epsilon0)
    assert largest[m.exponential_mechanism] == pytest.approx(1)
    assert largest[m.noisy_argmax_laplace] > 1.1  # hence charged epsilon0**2 / 2


def test_released_values_are_on_the_same_lattice_for_all_data():
    grid = m.gaussian_grid(1.0, 1.0, 1, 1.0)
    for value in (0.0, 1.0, 1 / 3):
        out = np.full(20_000, value)
        m.gaussian_mechanism(seeded(), out, grid)
        assert np.array_equal(np.rint(out / grid) * grid, out)
        # The power of this test: noise in floating point is nearly never on the lattice.
        naive = value + seeded().standard_normal(20_000)
        assert np.mean(np.rint(naive / grid) * grid == naive) < 0.01
    assert abs(out.std() - 1) < 0.05
