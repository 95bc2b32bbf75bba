"""Exact noise on an integer grid, and the grids that make it private.

Floating-point noise leaks data through the last bits of a release. Here a statistic is rounded to
an integer number of grid units (`to_grid`). The noise is an exact sample of a discrete
distribution, made with random bits and integer arithmetic only, and its scale is always ``2**bits``
units. The budget decides the width of one unit: the functions ``*_grid`` compute it, and all their
rounding is on the private side. All Gaussian noise is drawn by `gaussian_mechanism`, which returns
its standard deviation. Proofs: ``docs/proofs/noise.md``.

The samplers run inside kernels; ``rng`` is a ``numpy.random.Generator``. Pass ``SCALE_BITS`` for
``bits`` wherever a grid of this module was used; tests also use small values.

References
----------
C. Canonne, G. Kamath, T. Steinke. The Discrete Gaussian for Differential Privacy. NeurIPS 2020.
"""

import math
import sys
from typing import NamedTuple

import numpy as np

from skdpsco._kernels import inner, kernel, njit
from skdpsco._random import below, words_of
from skdpsco.privacy import Event, ExponentialMechanismEvent, LaplaceNoisyMaxEvent

__all__ = [
    "EXPONENTIAL",
    "GRID_LIMIT",
    "LAPLACE",
    "LEAST_EPSILON0",
    "SCALE_BITS",
    "check_positive",
    "deviation_on",
    "exponential_grid",
    "exponential_mechanism",
    "gaussian_grid",
    "gaussian_mechanism",
    "release",
    "select",
    "summation_error",
    "to_grid",
]

SCALE_BITS = 24  # the scale of the noise is 2**SCALE_BITS grid units; at most 24, see the Gaussian

# Statistics are clamped to +-2**50 units: below, the division by the grid errs by at most 2**-3
# units, so that rounding moves a statistic by at most 1/2 + 1/8 units, and noise cannot overflow.
GRID_LIMIT = 2**50
GRID_ROUNDING = 0.5 + 0.125
# What rounding alone costs an exponential mechanism: a grid exists for every larger epsilon0.
LEAST_EPSILON0 = 4 * GRID_ROUNDING / 2**SCALE_BITS


@inner
def bernoulli_exp(rng, num, bits):
    """Exact Bernoulli(exp(-num / 2**bits)). CKS Algorithm 1.

    For ``0 <= num < 2**63`` and ``bits <= 49``.
    """
    one = 1 << bits
    while True:
        # One factor exp(-part / one) at a time. The first k at which a Bernoulli(part / (one k))
        # fails is odd with probability exp(-part / one). (k << bits overflows at k = 2**(63 - bits)
        # >= 2**14, which it reaches with probability below 1 / (2**13)! < 10**-28000.)
        part = min(num, one)
        k = 1
        if part == one:
            k = 2  # the first Bernoulli is certain
        while below(rng, k << bits) < part:
            k += 1
        if k % 2 == 0:
            return False
        num -= part
        if num == 0:
            return True


@inner
def discrete_laplace(rng, bits):
    """Exact integer y with P(y) proportional to exp(-abs(y) / 2**bits). CKS Algorithm 2."""
    one = 1 << bits
    while True:
        word = below(rng, 2 << bits)
        y = word >> 1
        if not bernoulli_exp(rng, y, bits):
            continue
        while bernoulli_exp(rng, one, bits):  # 2**(62 - bits) successes in a row do not happen
            y += one
        if word & 1 == 0:
            return y
        if y > 0:  # otherwise zero would count twice
            return -y


@inner
def discrete_gaussian(rng, bits):
    """Exact integer y with P(y) proportional to exp(-y**2 / (2 * 4**bits)). CKS Algorithm 3.

    For ``bits <= 24``.
    """
    while True:
        y = discrete_laplace(rng, bits)
        # Accept with probability exp(-excess**2 / 2**(2 bits + 1)). The square might overflow, so
        # expand the square of high * 2**bits + low. (high >= 2**31 does not happen.)
        excess = abs(abs(y) - (1 << bits))
        high = excess >> bits
        low = excess - (high << bits)
        if (
            bernoulli_exp(rng, low * low, 2 * bits + 1)
            and bernoulli_exp(rng, high * low, bits)
            and bernoulli_exp(rng, high * high, 1)
        ):
            return y


@inner
def exponential_mechanism(rng, scores, bits):
    """Exact index k with P(k) proportional to exp(scores[k] / 2**bits): large scores are likely.

    For a minimum, negate the scores. Uniform candidates are accepted with probability
    exp(-(max - score_k) / 2**bits); at most n_candidates trials are expected, often a few.

    Parameters
    ----------
    rng : numpy.random.Generator
    scores : ndarray of shape (n_candidates,), int64
        At least one, each within +-2**61.
    bits : int

    Returns
    -------
    k : int
    """
    best = scores[0]
    for k in range(scores.size):
        best = max(best, scores[k])
    while True:
        k = below(rng, scores.size)
        if bernoulli_exp(rng, best - scores[k], bits):
            return k


@inner
def noisy_argmax_laplace(rng, scores, bits):
    """First index of the largest score plus exact discrete Laplace noise of scale 2**bits.

    The parameters are those of `exponential_mechanism`, which costs a quarter as much zCDP at the
    same scale.
    """
    winner = 0
    best = scores[0] + discrete_laplace(rng, bits)
    for k in range(1, scores.size):
        noisy = scores[k] + discrete_laplace(rng, bits)
        if noisy > best:
            winner, best = k, noisy
    return winner


class ChoiceMechanism(NamedTuple):
    """Choose one of several scores, by `exponential_mechanism` or by `noisy_argmax_laplace`.

    Parameters
    ----------
    laplace : bool
        Whether by the latter.
    """

    laplace: bool

    def epsilon0(self, rho: float) -> float:
        """Range of the log-ratio, or pure privacy loss, that one draw for ``rho`` may have."""
        return math.sqrt((2.0 if self.laplace else 8.0) * rho)

    def event(self, epsilon0: float) -> Event:
        """Cost of one draw on ``exponential_grid(..., epsilon0, ...)``."""
        return (LaplaceNoisyMaxEvent if self.laplace else ExponentialMechanismEvent)(epsilon0)


EXPONENTIAL, LAPLACE = ChoiceMechanism(laplace=False), ChoiceMechanism(laplace=True)


@kernel
def select(mechanism, rng, scores):
    """Draw the index of a large score, on a grid of scale ``2**SCALE_BITS``."""
    if mechanism.laplace:
        return noisy_argmax_laplace(rng, scores, SCALE_BITS)
    return exponential_mechanism(rng, scores, SCALE_BITS)


@inner
def to_grid(value, grid):
    """``value / grid`` rounded to an integer and clamped to +-GRID_LIMIT.

    NaN becomes 0, a public value: an exception would reveal something about the data.
    """
    units = value / grid
    if units >= GRID_LIMIT:
        return GRID_LIMIT
    if units <= -GRID_LIMIT:
        return -GRID_LIMIT
    if np.isnan(units):
        return 0
    return np.int64(np.rint(units))


@inner
def deviation_on(grid):
    """Standard deviation of the noise that `gaussian_mechanism` adds on ``grid``."""
    return grid * 2.0**SCALE_BITS


@inner
def gaussian_mechanism(rng, values, grid):
    """Release ``values`` in place: round them to the grid, and add discrete Gaussian noise.

    Return the standard deviation of the noise.
    """
    _add_noise(words_of(rng), values, grid)
    return deviation_on(grid)


@njit
def _add_noise(rng, values, grid):
    for j in range(values.shape[0]):
        values[j] = (to_grid(values[j], grid) + discrete_gaussian(rng, SCALE_BITS)) * grid


def release(
    rng: np.random.Generator,
    values: np.ndarray,
    sensitivity: float,
    noise_multiplier: float,
    magnitude: float,
) -> float:
    """Release ``values`` in place, if their sensitivity is known only during the run.

    The multiplier must be a planned one: it alone decides what the release costs. The standard
    deviation of the noise is returned. The other parameters are those of `gaussian_grid`.
    """
    grid = gaussian_grid(sensitivity, noise_multiplier, len(values), magnitude)
    return gaussian_mechanism(rng, values, grid)


def summation_error(n_terms: int, bound: float, depth: int | None = None) -> float:
    """Bound on the error of a float64 sum of ``n_terms`` terms within +-``bound``.

    It is m u / (1 - m u) times n * bound, with u = 2**-53 (Higham 2002, section 4.2), if no term
    takes part in more than m = ``depth`` additions; None means n - 1, which holds for any order.
    One more u covers a division of the sum. Each of two neighbouring data sets errs by this much.
    """
    check_positive(n_terms=n_terms, bound=bound)
    relative = (n_terms if depth is None else min(n_terms, depth + 1)) * 2.0**-53
    if relative > 0.5:
        raise ValueError(f"n_terms={n_terms!r} is too large for a float64 sum.")
    return relative / (1 - relative) * n_terms * bound * (1 + 2.0**-40)


def exponential_grid(sensitivity_range: float, epsilon0: float, magnitude: float) -> float:
    """Grid on which one `exponential_mechanism` with `SCALE_BITS` is epsilon0-bounded-range.

    Proof. Between neighbours the score changes, in units, have range at most
    sensitivity_range / grid + 4 (1/2 + 1/8): one rounding per score, data set and end of the range.
    The log-ratio of the probabilities of k is (change of score_k - a constant) / 2**bits, so its
    range is at most that over 2**bits, which the grid makes at most epsilon0.

    On the same grid one `noisy_argmax_laplace` is epsilon0-DP: given the noise of the others, k
    wins above a threshold that moves by at most the range of the changes. It is not
    epsilon0-bounded-range: charge epsilon0**2 / 2 zCDP for it, not epsilon0**2 / 8.

    Parameters
    ----------
    sensitivity_range : float
        Bound on max_k c_k - min_k c_k, where c_k is the change of the score of candidate k when one
        record is replaced: at most twice the bound on the change of one score.
    epsilon0 : float
        The draw is epsilon0-DP and epsilon0**2 / 8 zCDP.
    magnitude : float
        Public bound on the scores. It widens the grid (more noise) to magnitude / 2**49 if need be,
        so that scores are never clamped: then noise below 2**-29 of the magnitude is not offered.

    Returns
    -------
    grid : float
    """
    check_positive(sensitivity_range=sensitivity_range, epsilon0=epsilon0, magnitude=magnitude)
    return _finest_grid(sensitivity_range, epsilon0 * 2**SCALE_BITS - 4 * GRID_ROUNDING, magnitude)


def gaussian_grid(
    sensitivity: float, noise_multiplier: float, dimension: int, magnitude: float
) -> float:
    """Grid on which `gaussian_mechanism` with `SCALE_BITS` draws noise of the given multiplier.

    The release is as private as a continuous Gaussian one with standard deviation over sensitivity
    equal to ``noise_multiplier``, so the exact Gaussian curve may be charged.

    Proof. Rounding adds at most 2 (1/2 + 1/8) units per coordinate to the l2 sensitivity. Round
    x ~ N(0, s**2) to the integer k with weight exp(-(k - x)**2 / 32): by Poisson summation the
    weights sum to a constant within a factor 1 +- 2 exp(-32 pi**2), so k has the discrete Gaussian
    law of variance s**2 + 16 within 1 +- exp(-300), and adding integers commutes with rounding.

    Parameters
    ----------
    sensitivity : float
        Sensitivity, in the l2 norm, of the vector that is released coordinate by coordinate.
    noise_multiplier : float
    dimension : int
        Number of coordinates.
    magnitude : float
        Public bound on every coordinate, as in `exponential_grid`.

    Returns
    -------
    grid : float
    """
    check_positive(
        sensitivity=sensitivity,
        noise_multiplier=noise_multiplier,
        dimension=dimension,
        magnitude=magnitude,
    )
    tight = 1 - 2.0**-50  # covers the rounding of the two terms, which may cancel
    scale = math.sqrt(4**SCALE_BITS - 16) * tight
    rounding = 2 * GRID_ROUNDING * math.sqrt(dimension) / tight
    return _finest_grid(sensitivity, scale / noise_multiplier * tight - rounding, magnitude)


def _finest_grid(sensitivity: float, units: float, magnitude: float) -> float:
    """Width at which ``sensitivity`` spans at most ``units``, and ``magnitude`` is not clamped."""
    if not units > 0:
        raise ValueError(
            f"The noise is too large for the grid, whose rounding alone needs {-units:.3g} of "
            f"2**{SCALE_BITS} units more than the budget has: ask for fewer, larger draws."
        )
    grid = max(sensitivity / units * (1 + 2.0**-40), magnitude / (GRID_LIMIT // 2))
    if not sys.float_info.min <= grid < math.inf:
        raise ValueError(
            f"sensitivity={sensitivity!r} or magnitude={magnitude!r} is too large or too small for "
            "float64: rescale the data."
        )
    return grid


def check_positive(**values: float) -> None:
    """Refuse arguments, given by name, that are not positive and finite."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {value!r}.")
