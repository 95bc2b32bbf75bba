"""The prox step in a squared l_p norm over a convex set, by nested one-dimensional searches.

Optimality conditions and their monotonicity: ``docs/proofs/mirror_prox.md``, section 2.
"""

import math
from typing import Any

from skdpsco._kernels import inner, kernel, njit
from skdpsco.constraints.norms import lp_norm
from skdpsco.constraints.sets import L1Ball, L2Ball, LpBall, Simplex

__all__ = ["order_of", "unit_prox"]

_LONGEST = 4.0  # longer than any coordinate of a displacement within a set of radius 1
_SEARCH_STEPS = 200  # limit on a bracketed search, which usually ends after a dozen steps
_CLOSE = 2.0**-50  # relative width at which a bracket is narrow enough
_NEAREST = 1e-15  # shorter displacements count as 0


def order_of(constraint: Any) -> float:
    """The order p of the l_p space to which a set belongs.

    Raises
    ------
    TypeError
        If ``constraint`` is not a `Simplex`, `L1Ball`, `L2Ball` or `LpBall`.
    ValueError
        If the order of an `LpBall` is outside (1, 2].
    """
    if type(constraint) is LpBall:
        if not 1.0 < constraint.p <= 2.0:
            raise ValueError(f"The order p of an LpBall must be in (1, 2], got {constraint.p!r}.")
        return float(constraint.p)
    for cls, order in ((Simplex, 1.0), (L1Ball, 1.0), (L2Ball, 2.0)):
        if type(constraint) is cls:  # a subclass may have kernels of its own
            return order
    raise TypeError(
        f"constraint must be a Simplex, L1Ball, L2Ball or LpBall, got {type(constraint).__name__}."
    )


@kernel
def coordinate_step(constraint, c, g, sigma, q, nu, top):
    """The displacement z - c, for the z that minimises the objective below; q = 1 / (p - 1).

    The objective is ``g z + sigma |z - c|**p / p + (top + nu) r(z)``, where r is what a coordinate
    contributes to the set (`amount`); on a simplex, z >= 0 as well. The displacement is returned
    rather than z, since adding c would lose its last bits, in which the gradient is steep for p
    near 1. Likewise the multiplier is measured from ``top``, so that a huge g does not cancel.
    """
    raise NotImplementedError


@kernel
def amount(constraint, z):
    """What a coordinate contributes to the sum that is at most 1 in the set of radius 1."""
    raise NotImplementedError


@kernel
def from_top(constraint):
    """Whether multipliers are measured from the largest entry of g."""
    return False


@from_top.register(L1Ball)
def _(constraint):
    return True


@inner
def dual_step(v, sigma, q):
    """Solve ``sigma |u|**(1 / q) sign(u) = v`` for u, clipped beyond the longest displacement."""
    u = abs(v) / sigma
    if q != 1.0:
        u = math.exp(min(q * math.log(u), 2.0)) if u > 0.0 else 0.0
    u = min(u, _LONGEST)
    return u if v > 0.0 else -u


@coordinate_step.register(Simplex)
def _(constraint, c, g, sigma, q, nu, top):
    return max(dual_step(-g - nu, sigma, q), -c)


@amount.register(Simplex)
def _(constraint, z):
    return z


@coordinate_step.register(L1Ball)
def _(constraint, c, g, sigma, q, nu, top):
    pull = sigma * abs(c) ** (1.0 / q)
    slope = -g + (pull if c > 0.0 else -pull)  # where z = 0
    if slope > top + nu:
        return max(dual_step(-g - top - nu, sigma, q), -c)
    if slope < -top - nu:
        return min(dual_step(-g + top + nu, sigma, q), -c)
    return -c


@amount.register(L1Ball)
def _(constraint, z):
    return abs(z)


@coordinate_step.register(L2Ball)
def _(constraint, c, g, sigma, q, nu, top):
    return (-g - nu * c) / (sigma + nu)  # q = 1: the norm is Euclidean


@amount.register(L2Ball)
def _(constraint, z):
    return z * z


@coordinate_step.register(LpBall)
def _(constraint, c, g, sigma, q, nu, top):
    r = constraint.p
    u = dual_step(-g, sigma, q)
    if nu == 0.0 or c + u == 0.0:
        return u
    # The slope changes its sign between u and -c: regula falsi, as in `respect`.
    a, b = u, -c
    f_a = nu * abs(c + u) ** (r - 1.0)
    f_a = f_a if c + u > 0.0 else -f_a
    f_b = g - sigma * abs(c) ** (1.0 / q) if c > 0.0 else g + sigma * abs(c) ** (1.0 / q)
    side = 0  # the side that moved last; if it moves twice, the other side's value is halved
    for k in range(_SEARCH_STEPS):
        middle = (a * f_b - b * f_a) / (f_b - f_a)
        if k % 8 == 7 or not min(a, b) < middle < max(a, b):
            middle = 0.5 * (a + b)
        if abs(b - a) <= _CLOSE * (abs(a) + abs(b)) or f_b == 0.0:
            break
        z = c + middle
        pull = sigma * abs(middle) ** (1.0 / q)
        weight = nu * abs(z) ** (r - 1.0)
        f = g + (pull if middle > 0.0 else -pull) + (weight if z > 0.0 else -weight)
        if f == 0.0:
            return middle
        if (f > 0.0) == (f_a > 0.0):
            a, f_a = middle, f
            f_b *= 0.5 if side == 1 else 1.0
            side = 1
        else:
            b, f_b = middle, f
            f_a *= 0.5 if side == 2 else 1.0
            side = 2
    return b


@amount.register(LpBall)
def _(constraint, z):
    return abs(z) ** constraint.p


@inner
def displace(constraint, c, g, sigma, q, nu, top, u):
    """Write the step of every coordinate for one multiplier; return the total amount minus 1."""
    total = -1.0
    for j in range(u.shape[0]):
        u[j] = coordinate_step(constraint, c[j], g[j], sigma, q, nu, top)
        total += amount(constraint, c[j] + u[j])
    return total


@inner
def respect(constraint, signed, c, g, sigma, q, u):
    """Minimise ``<g, u> + sigma / p ||u||_p**p`` with c + u in the set of radius 1."""
    d = u.shape[0]
    highest, lowest = g[0], g[0]
    for j in range(d):
        highest, lowest = max(highest, g[j]), min(lowest, g[j])
    top = 0.0
    if signed:
        largest = max(abs(highest), abs(lowest))
        top = largest if from_top(constraint) else 0.0
        low, f_low = -top, displace(constraint, c, g, sigma, q, -top, top, u)
        if f_low <= 0.0:
            return
        stride = sigma
        high = largest - top + stride
        f_high = displace(constraint, c, g, sigma, q, high, top, u)
        while f_high > 0.0 and stride < 1e300:
            low, f_low = high, f_high
            stride *= 4.0
            high = largest - top + stride
            f_high = displace(constraint, c, g, sigma, q, high, top, u)
    else:  # all coordinates rise at one end of the bracket, and fall at the other
        low, high = -highest, -lowest
        f_low = displace(constraint, c, g, sigma, q, low, top, u)
        f_high = displace(constraint, c, g, sigma, q, high, top, u)
    tolerance = 1e-15 * math.sqrt(d)  # rounding error of a sum
    # Regula falsi (Illinois), with a bisection where it is slow.
    side = 0
    for k in range(_SEARCH_STEPS):
        if f_high == 0.0 or high - low <= _CLOSE * (abs(low) + abs(high)):
            break
        nu = (low * f_high - high * f_low) / (f_high - f_low)
        if k % 8 == 7 or not low < nu < high:
            nu = 0.5 * (low + high)
        f = displace(constraint, c, g, sigma, q, nu, top, u)
        if f > 0.0:
            low, f_low = nu, f
            f_high *= 0.5 if side == 1 else 1.0
            side = 1
        else:
            high, f_high = nu, f
            f_low *= 0.5 if side == 2 else 1.0
            side = 2
        if abs(f) <= tolerance:
            return
    displace(constraint, c, g, sigma, q, high, top, u)


@njit
def unit_prox(constraint, signed, p, c, g, u):
    """Write the minimiser of ``<g, u> + ||u||_p**2 / 2``, c + u in the set of radius 1, into u."""
    q = 1.0 / (p - 1.0)
    if p == 2.0:
        respect(constraint, signed, c, g, 1.0, q, u)
        return
    # With sigma = N**(2 - p) the step is right if its norm is N: ||u(N)|| / N falls as N grows.
    dual = lp_norm(g, p * q)
    if dual == 0.0:
        u[:] = 0.0
        return
    high = math.log(min(2.0 * dual, 4.0))
    low, f_low, f_high = high, -1.0, -1.0
    gap = 1.0
    while f_low < 0.0:  # go down, in growing strides, until the step is too long
        high, f_high = low, f_low
        low = high - gap
        gap *= 2.0
        if high < math.log(_NEAREST):
            u[:] = 0.0
            return
        respect(constraint, signed, c, g, math.exp((2.0 - p) * low), q, u)
        size = lp_norm(u, p)
        f_low = (math.log(size) if size > 0.0 else -800.0) - low
    side = 0
    for k in range(_SEARCH_STEPS):
        if high - low <= 1e-13:
            break
        middle = (low * f_high - high * f_low) / (f_high - f_low)
        if k % 8 == 7 or not low < middle < high:
            middle = 0.5 * (low + high)
        respect(constraint, signed, c, g, math.exp((2.0 - p) * middle), q, u)
        size = lp_norm(u, p)
        f = (math.log(size) if size > 0.0 else -800.0) - middle
        if abs(f) <= 1e-12:
            return
        if f > 0.0:
            low, f_low = middle, f
            f_high *= 0.5 if side == 1 else 1.0
            side = 1
        else:
            high, f_high = middle, f
            f_low *= 0.5 if side == 2 else 1.0
            side = 2
