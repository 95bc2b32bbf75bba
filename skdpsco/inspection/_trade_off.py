"""What the hits of one event, in fits to two neighbouring data sets, prove about a guarantee.

The event has probabilities p and q on the two data sets, and A ~ Bin(n, p) and B ~ Bin(n, q) of the
fits hit it. A guarantee is a trade-off [1]_: the least q that it allows for each p. At every pair
(p, q) the tails P(A >= a) and P(B <= b) are independent, and each is at least uniform. So if c is
their product, the probability of a product that small is at most c (1 - log c) [2]_. A guarantee is
refuted if this is small for every pair that it allows. All statements at one level follow from the
same confidence set of pairs, so they hold together.

References
----------
.. [1] Dong, Roth and Su (2019), "Gaussian Differential Privacy".
.. [2] Fisher (1932), "Statistical Methods for Research Workers", section 21.1.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from skdpsco.privacy._numerics import bisected

__all__ = ["ApproximateGuarantee", "GaussianGuarantee", "Guarantee", "least_found", "lower_bound"]

_POINTS, _ZOOMS = 33, 5
_CERTAIN = 1e-3  # beyond the points that are searched, a tail is within this distance of 1
_POWER = 0.8


class ApproximateGuarantee(NamedTuple):
    """(epsilon, delta)-DP."""

    epsilon: float
    delta: float

    def least(self, p: Any) -> Any:
        """The least probability on a neighbour of an event of probability p."""
        factor = math.exp(min(self.epsilon, 700.0))  # more would overflow, and is never refuted
        shrunk = (p - self.delta) / factor
        grown = 1.0 - self.delta - factor * (1.0 - p)
        return np.maximum(np.maximum(shrunk, grown), 0.0)

    def clearest(self) -> list[tuple[float, float]]:
        """Probabilities of the most revealing event, for the worst private mechanism."""
        odds = math.exp(-self.epsilon)
        return [((1.0 + self.delta * odds) / (1.0 + odds), (1.0 - self.delta) * odds / (1 + odds))]


class GaussianGuarantee(NamedTuple):
    """mu-GDP."""

    mu: float

    def least(self, p: Any) -> Any:
        """The least probability on a neighbour of an event of probability p."""
        return special.ndtr(special.ndtri(p) - self.mu)

    def clearest(self) -> list[tuple[float, float]]:
        """Probabilities of the events that one number with Gaussian noise shows."""
        at = self.mu / 2.0 + np.linspace(-3.0, 3.0, 49)
        return list(zip(special.ndtr(self.mu - at), special.ndtr(-at), strict=True))


Guarantee = ApproximateGuarantee | GaussianGuarantee


def p_value(guarantee: Guarantee, hits: Any, others: Any, n: int) -> Any:
    """Bound on the probability, under a guarantee, of numbers of hits that differ so much.

    Parameters
    ----------
    guarantee : ApproximateGuarantee or GaussianGuarantee
    hits, others : int or ndarray of int
        How many of n fits to each data set hit the event; more hits on the first are evidence.
    n : int

    Returns
    -------
    p_value : float or ndarray
        The logarithm of c is concave in p, since tails of binomials are logarithmically concave in
        their probability, and the least q is convex. So it has one maximum, which is searched for
        on points that are closer and closer.
    """
    a, b = np.broadcast_arrays(np.asarray(hits), np.asarray(others))
    # Where P(B <= b), or P(A >= a), is 1 up to _CERTAIN. Beyond, c grows by no more than that.
    q = np.where(b < n, stats.beta.ppf(_CERTAIN, b + 1, np.maximum(n - b, 1)), 1.0)
    low = 1.0 - guarantee.least(1.0 - q)
    high = np.where(a > 0, stats.beta.ppf(1.0 - _CERTAIN, np.maximum(a, 1), n - a + 1), 0.0)
    apart, high = low < high, np.maximum(low, high)
    log_c = np.full(a.shape, -math.inf)
    for _ in range(_ZOOMS):
        p = low[..., None] + (high - low)[..., None] * np.linspace(0.0, 1.0, _POINTS)
        tails = _log_tail(a[..., None], n, p)
        tails = tails + _log_tail(n - b[..., None], n, 1.0 - guarantee.least(p))
        best = np.argmax(tails, axis=-1)[..., None]
        log_c = np.maximum(log_c, np.take_along_axis(tails, best, -1)[..., 0])
        low = np.take_along_axis(p, np.maximum(best - 1, 0), -1)[..., 0]
        high = np.take_along_axis(p, np.minimum(best + 1, _POINTS - 1), -1)[..., 0]
    c = np.exp(np.minimum(log_c - math.log1p(-_CERTAIN), 0.0))
    return np.where(apart, c - special.xlogy(c, c), 1.0)[()]


def _log_tail(hits: Any, n: int, p: Any) -> Any:
    """Logarithm of the probability of at least this many hits."""
    with np.errstate(divide="ignore"):
        log_tail = np.log(special.betainc(np.maximum(hits, 1), n - hits + 1, p))
    return np.where(hits > 0, log_tail, 0.0)


def lower_bound(
    make: Callable[[float], Guarantee], hits: int, others: int, n: int, alpha: float
) -> float:
    """The largest parameter of a guarantee that is refuted at level alpha; 0 if none is refuted."""

    def refuted(value: float) -> bool:
        return bool(p_value(make(value), hits, others, n) <= alpha)

    return _last_that_holds(refuted, math.inf)


def _last_that_holds(holds: Callable[[float], bool], largest: float) -> float:
    """The last number >= 0 for which a property holds that holds up to some number; 0 if never."""
    low, high = 0.0, 1.0
    if not holds(low):
        return 0.0
    while holds(high):
        low, high = high, 2.0 * high
        if low >= largest:
            return math.inf
    return bisected(low, high, 30, holds)[0]


def least_found(
    guarantees: Iterable[Guarantee], make: Callable[[float], Guarantee], n: int, alpha: float
) -> float:
    """The least parameter for which an audit refutes one of some guarantees 80 % of the time.

    Parameters
    ----------
    guarantees : iterable of ApproximateGuarantee or GaussianGuarantee
        The claims.
    make : callable
        ``make(parameter)`` is the guarantee that the fits actually keep, and no more.
    n : int
        Number of fits on each data set.
    alpha : float
        Probability of a false alarm.

    Returns
    -------
    parameter : float
        Infinity if n fits are too few for any parameter.
    """
    claimed = list(guarantees)
    # The least number of hits that refutes, for growing numbers of hits on the neighbour. Numbers
    # in between count as the next larger one, which can only reduce the power.
    spread = n * special.expit(np.linspace(-math.log(n + 1.0), math.log(n + 1.0), 40))
    others = np.unique(np.concatenate([np.arange(min(10, n)), np.rint(spread), [n]])).astype(int)
    low, high = np.minimum(others, n), np.full(len(others), n + 1)
    while np.any(high - low > 1):
        middle = np.where(high - low > 1, (low + high) // 2, high)
        level = np.min([p_value(one, np.minimum(middle, n), others, n) for one in claimed], axis=0)
        refutes = (level <= alpha) | (middle > n)
        low, high = np.where(refutes, low, middle), np.where(refutes, middle, high)

    def missed(parameter: float) -> bool:
        power = 0.0
        for p, q in make(parameter).clearest():
            share = np.diff(np.exp(_log_tail(n - others, n, 1.0 - q)), prepend=0.0)
            caught = np.where(high > n, 0.0, np.exp(_log_tail(np.minimum(high, n), n, p)))
            power = max(power, float(share @ caught))
        return power < _POWER

    return _last_that_holds(missed, 64.0)
