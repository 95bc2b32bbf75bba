"""Best of a random number of tries: distributions of this number, and the cost of the best try.

A search runs a private procedure J times, each time with a candidate drawn at random and fresh
noise, and releases the try with the largest score. If J is fixed, the search costs J times as
much as a try. If J follows one of the distributions below and is never revealed, it costs little
more than a try [1]_. The bounds here are never larger than those of [1]_, Theorems 2 and 6; the
proof is in docs/proofs/random_stopping.md.

References
----------
.. [1] Papernot and Steinke (2022), "Hyperparameter Tuning with Renyi Differential Privacy".
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction

from ._checks import check_int, check_real
from ._numerics import minimise, solve

__all__ = ["Poisson", "Tries", "TruncatedNegativeBinomial", "log_moment_of_best", "zcdp_of_best"]

_COST_ROUNDING = 1e-11  # relative rounding of every cost, upwards
_CELL = 0.01  # half of the relative precision of `zcdp_of_best`
_SMALLEST_GAMMA = 1e-9
_LARGEST_SHAPE = 1e3
_MEANS = 1e-6, 1e6
# Precision of probabilities: with 60 digits the law is exact to far less than any delta.
_EXACT = Context(prec=60, Emin=-(4 * 10**8), Emax=4 * 10**8)
_NEGLIGIBLE = Decimal("1e-60")


@dataclass(frozen=True)
class TruncatedNegativeBinomial:
    """Negative binomial distribution of the number of tries, given that there is at least one.

    P(J = j) is proportional to (1 - gamma)^j Γ(j + shape) / j!, so that shape = 1 is the geometric
    and shape = 0 the logarithmic distribution. The smaller the shape, the more uncertain J, and
    the cheaper the search.

    Parameters
    ----------
    shape : float
        Number in (-1, 1000).
    gamma : float
        Number in [1e-9, 1).

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If a parameter is outside its range.

    Examples
    --------
    >>> from skdpsco.privacy import TruncatedNegativeBinomial
    >>> tries = TruncatedNegativeBinomial.for_mean(shape=0.0, mean=20.0)
    >>> f"{tries.gamma:.5f} {tries.mean:.1f} {tries.quantile(0.5)} {tries.quantile(0.99)}"
    '0.01096 20.0 6 187'
    """

    shape: float
    gamma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", check_real("shape", self.shape, -1, _LARGEST_SHAPE))
        gamma = check_real("gamma", self.gamma, 0, 1)
        if gamma < _SMALLEST_GAMMA:
            raise ValueError(f"gamma must be in [{_SMALLEST_GAMMA:g}, 1), got {self.gamma!r}.")
        object.__setattr__(self, "gamma", gamma)

    @classmethod
    def for_mean(cls, shape: float, mean: float) -> "TruncatedNegativeBinomial":
        """Return the law of this shape with E[J] = mean.

        Parameters
        ----------
        shape : float
            Number in (-1, 1000).
        mean : float
            Greater than 1, and at most the mean for gamma = 1e-9.

        Raises
        ------
        TypeError
            If a parameter is not a number.
        ValueError
            If a parameter is outside its range.
        """
        largest = cls(shape, _SMALLEST_GAMMA).mean
        mean = check_real("mean", mean, 1, math.inf)
        if mean > largest:
            raise ValueError(f"mean must be in (1, {largest:g}] for shape={shape!r}, got {mean!r}.")

        def law(odds: float) -> "TruncatedNegativeBinomial":  # odds = 1 / gamma - 1
            gamma = min(max(1 / (1 + odds), _SMALLEST_GAMMA), 1 - 2**-53)
            return cls(shape, gamma)

        return law(solve(lambda odds: law(odds).mean, mean))

    @property
    def mean(self) -> float:
        """E[J]."""
        return _ratio(self.shape, self.gamma) * (1 - self.gamma) / self.gamma

    def pmf(self, j: int) -> float:
        """Return P(J = j) for an integer j >= 0."""
        j = check_int("j", j, low=0)
        if j == 0:
            return 0.0
        log_first = math.log(self.mean) + (1 + self.shape) * math.log(self.gamma)
        log_ratio = math.lgamma(j + self.shape) - math.lgamma(1 + self.shape) - math.lgamma(j + 1)
        return math.exp(log_first + log_ratio + (j - 1) * math.log1p(-self.gamma))

    def quantile(self, u: float | Fraction) -> int:
        """Return the least j with P(J <= j) > u, which has the law of J if u is uniform.

        Parameters
        ----------
        u : float or Fraction
            In [0, 1), with at least 53 random bits; ``Fraction(k, 2**128)`` has 128.

        Raises
        ------
        TypeError
            If ``u`` is not a number.
        ValueError
            If ``u`` is outside [0, 1).
        """
        with localcontext(_EXACT):
            shape, gamma = Decimal(self.shape), Decimal(self.gamma)
            if abs(shape) < Decimal("1e-20"):  # too small to matter
                first = (gamma - 1) / gamma.ln()
            else:
                power = gamma**shape
                first = shape * (1 - gamma) * power / (1 - power)
            ratio = 1 - gamma
            return _invert(u, 1, first, lambda j: ratio * (j + shape) / (j + 1), self.mean)

    def _relief(self, delta: float) -> float:
        return math.log1p((1 - self.gamma) / self.gamma * delta)

    def _tilt(self, delta: float) -> float:
        return (1 + self.shape) * self._relief(delta)


@dataclass(frozen=True)
class Poisson:
    """Poisson law of the number of tries.

    With probability exp(-mean) there is no try, and only this fact is released. J hardly varies, so
    a search costs more than with `TruncatedNegativeBinomial`.

    Parameters
    ----------
    mean : float
        Mean in [1e-6, 1e6].

    Raises
    ------
    TypeError
        If ``mean`` is not a number.
    ValueError
        If ``mean`` is outside its range.
    """

    mean: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", check_real("mean", self.mean, *_MEANS, closed=True))

    def pmf(self, j: int) -> float:
        """Return P(J = j) for an integer j >= 0."""
        j = check_int("j", j, low=0)
        return math.exp(j * math.log(self.mean) - self.mean - math.lgamma(j + 1))

    def quantile(self, u: float | Fraction) -> int:
        """Return the least j with P(J <= j) > u, which has the law of J if u is uniform.

        Parameters
        ----------
        u : float or Fraction
            In [0, 1), with at least 53 random bits; ``Fraction(k, 2**128)`` has 128.

        Raises
        ------
        TypeError
            If ``u`` is not a number.
        ValueError
            If ``u`` is outside [0, 1).
        """
        with localcontext(_EXACT):
            mean = Decimal(self.mean)
            return _invert(u, 0, (-mean).exp(), lambda j: mean / (j + 1), self.mean)

    def _relief(self, delta: float) -> float:
        return 0.0

    def _tilt(self, delta: float) -> float:
        return self.mean * delta


Tries = TruncatedNegativeBinomial | Poisson


def log_moment_of_best(tries: Tries, rho: float, b: float) -> float:
    """Return b times a bound on the Renyi divergence of order 1 + b of the best try.

    Parameters
    ----------
    tries : TruncatedNegativeBinomial or Poisson
    rho : float
        Cost of every try, in zCDP.
    b : float
        Greater than 0.
    """
    moment = b * (1 + b) * rho
    log_excess = math.log(tries.mean) + b * _tilt(tries, rho, b)
    log_excess += moment + math.log(-math.expm1(-moment))
    log_moment = max(log_excess, 0.0) + math.log1p(math.exp(-abs(log_excess)))
    return log_moment * (1 + _COST_ROUNDING)


def zcdp_of_best(tries: Tries, rho: float) -> float:
    """Return a rho for which the best try is rho-zCDP.

    Divergences grow with their order. Up to the first order they are bounded by the curve at that
    order, and within each cell by the curve at the end of the cell. Beyond the last cell a
    decreasing bound takes over.
    """
    largest_tilt, log_mean = _tilt(tries, rho, math.inf), max(math.log(tries.mean), 0.0)

    def curve(b: float) -> float:
        return log_moment_of_best(tries, rho, b) / b

    def rest(b: float) -> float:
        return (rho + (largest_tilt + log_mean / b) / (1 + b)) * (1 + _COST_ROUNDING)

    low = minimise(curve, near=min(1.0, 1 / (rho + math.sqrt(rho))))
    least = worst = curve(low)  # bounds on the returned value, from below and from above
    step = _CELL
    while rest(low) > (1 + _CELL) * least:
        high = low + step * (1 + low)
        value = curve(high)
        least, bound = max(least, value / (1 + high)), value / (1 + low)
        if bound > (1 + 2 * _CELL) * least:
            step /= 2
        else:
            worst, low, step = max(worst, bound), high, 2 * step
    return max(worst, rest(low))


def _tilt(tries: Tries, rho: float, b: float) -> float:
    """Return the bound on what the tries that lost add to a divergence of order 1 + b."""

    # A rho-zCDP try is (epsilon, delta)-DP with these, for every x > 0.
    def delta(x: float) -> float:
        return math.exp(-rho * x * x) / (1 + x)

    def epsilon_less_relief(x: float) -> float:
        return (2 * x + 1) * rho - math.log1p(1 / x) - tries._relief(delta(x))

    x = solve(epsilon_less_relief, math.log1p(1 / b))
    return tries._tilt(delta(x * (1 - 1e-12)))  # a smaller x is allowed, too


def _ratio(shape: float, gamma: float) -> float:
    """Return shape / (1 - gamma^shape), and its limit where shape is 0."""
    exponent = shape * math.log(gamma)
    return shape / -math.expm1(exponent) if abs(exponent) > 1e-20 else -1 / math.log(gamma)


def _invert(
    u: float | Fraction, j: int, p: Decimal, ratio: Callable[[int], Decimal], mean: float
) -> int:
    """Return the least j with P(J <= j) > u, from P(J = j) = p and P(J = j + 1) / P(J = j)."""
    check_real("u", u, 0, 1, closed=True)
    if u == 1:
        raise ValueError(f"u must be in [0, 1), got {u!r}.")
    exact = u if isinstance(u, Fraction) else Fraction(float(u))
    left = Decimal(exact.numerator) / exact.denominator
    while left >= p and (j <= mean or p > _NEGLIGIBLE):
        left -= p
        p *= ratio(j)
        j += 1
    return j
