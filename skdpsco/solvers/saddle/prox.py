"""The prox step in a squared l_p norm over a convex set, by nested one-dimensional searches.

Optimality conditions and their monotonicity: ``docs/proofs/mirror_prox.md``, section 2.
"""

import math
from typing import Any, NamedTuple

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
    kind = type(constraint)  # a subclass may have kernels of its own
    if kind not in (Simplex, L1Ball, L2Ball, LpBall):
        raise TypeError(
            f"constraint must be a Simplex, L1Ball, L2Ball or LpBall, got {kind.__name__}."
        )
    p = 1.0 if kind is Simplex else constraint.p
    if kind is LpBall and not 1.0 < p <= 2.0:
        raise ValueError(f"The order p of an LpBall must be in (1, 2], got {p!r}.")
    return float(p)


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


class Bracket(NamedTuple):
    """Two points between which a function has a zero, as its values have different signs.

    Parameters
    ----------
    a, f_a, b, f_b : float
        The points, and the values that regula falsi takes them to have.
    side : int
        The point that moved last, 1 or 2, or 0 for neither.
    """

    a: float
    f_a: float
    b: float
    f_b: float
    side: int


@inner
def trial(bracket, k):
    """Where regula falsi looks for the zero in its step ``k``; it bisects where that is slow."""
    a, f_a, b, f_b, _ = bracket
    x = (a * f_b - b * f_a) / (f_b - f_a)
    if k % 8 == 7 or not min(a, b) < x < max(a, b):
        x = 0.5 * (a + b)
    return x


@inner
def bracketed(bracket, x, f, moves_a):
    """The bracket with ``x``, whose value is ``f``, in place of ``a`` or of ``b``.

    If one point moves twice, the value at the other one is halved: this is the Illinois rule.
    """
    a, f_a, b, f_b, side = bracket
    if moves_a:
        return Bracket(x, f, b, f_b * (0.5 if side == 1 else 1.0), 1)
    return Bracket(a, f_a * (0.5 if side == 2 else 1.0), x, f, 2)


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
    f_u = nu * abs(c + u) ** (r - 1.0)
    f_c = g - sigma * abs(c) ** (1.0 / q) if c > 0.0 else g + sigma * abs(c) ** (1.0 / q)
    ends = Bracket(u, f_u if c + u > 0.0 else -f_u, -c, f_c, 0)
    for k in range(_SEARCH_STEPS):
        a, b = ends.a, ends.b
        if abs(b - a) <= _CLOSE * (abs(a) + abs(b)) or ends.f_b == 0.0:
            break
        middle = trial(ends, k)
        z = c + middle
        pull = sigma * abs(middle) ** (1.0 / q)
        weight = nu * abs(z) ** (r - 1.0)
        f = g + (pull if middle > 0.0 else -pull) + (weight if z > 0.0 else -weight)
        if f == 0.0:
            return middle
        ends = bracketed(ends, middle, f, (f > 0.0) == (ends.f_a > 0.0))
    return ends.b


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
        stride, high, f_high = 0.25 * sigma, low, f_low
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
    ends = Bracket(low, f_low, high, f_high, 0)
    for k in range(_SEARCH_STEPS):
        if ends.f_b == 0.0 or ends.b - ends.a <= _CLOSE * (abs(ends.a) + abs(ends.b)):
            break
        nu = trial(ends, k)
        f = displace(constraint, c, g, sigma, q, nu, top, u)
        if abs(f) <= tolerance:
            return
        ends = bracketed(ends, nu, f, f > 0.0)
    displace(constraint, c, g, sigma, q, ends.b, top, u)


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
    ends = Bracket(low, f_low, high, f_high, 0)
    for k in range(_SEARCH_STEPS):
        if ends.b - ends.a <= 1e-13:
            break
        middle = trial(ends, k)
        respect(constraint, signed, c, g, math.exp((2.0 - p) * middle), q, u)
        size = lp_norm(u, p)
        f = (math.log(size) if size > 0.0 else -800.0) - middle
        if abs(f) <= 1e-12:
            return
        ends = bracketed(ends, middle, f, f > 0.0)
