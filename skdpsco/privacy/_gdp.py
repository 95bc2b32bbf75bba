"""The Gaussian curve of a draw by the exponential mechanism: docs/proofs/noise.md, section 10."""

import math

from ._cache import cached
from ._numerics import bisected

__all__ = ["mu_of_draw"]

_SLOPE = math.sqrt(2 * math.pi) / 4 * (1 + 1e-14)  # of mu at epsilon0 = 0: the largest slope
_OVERFLOWING = 1000.0  # larger exponentials overflow


@cached(64)
def mu_of_draw(epsilon0: float) -> float:
    """Return a mu for which every epsilon0-bounded-range mechanism is mu-GDP.

    The smallest one has ``Phi(-mu / 2) = 1 / (1 + exp(epsilon0 / 2))``; it is rounded up.
    """
    high = _SLOPE * epsilon0  # an upper bound
    if epsilon0 > _OVERFLOWING:
        return high
    # The relative errors of erfc and exp are a few units in the last place: far less than this.
    target = 2 / (1 + math.exp(epsilon0 / 2)) * (1 - 1e-13)
    if math.erfc(high / math.sqrt(8)) > target:  # they agree up to rounding
        return high
    return bisected(0.0, high, 60, lambda mu: math.erfc(mu / math.sqrt(8)) > target)[1]
