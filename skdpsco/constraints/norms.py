"""Norms: dual orders and regularity for plans; values and projections on balls for kernels.

Projections are Euclidean. ``docs/proofs/lp_ball.md`` has the proofs and bounds on the rounding.
"""

import math

import numpy as np

from skdpsco._kernels import inner, reduction

__all__ = [
    "UNIT",
    "check_order",
    "conjugate",
    "lp_norm",
    "power",
    "project_l1",
    "project_l2",
    "project_linf",
    "project_lp",
    "project_simplex",
    "projection_error",
    "regularity",
]

UNIT = 2.0**-53  # relative rounding error of one operation
_LEAST, _LARGEST = 1e-280, 1e300  # between these, sums of squares are exact up to rounding
_FARTHEST = 2.0**100  # radii; beyond it, distance changes a projection by less than rounding
_TINY = 1e-290  # radii; smaller numbers count as 0, since float64 runs out of digits
_STEPS = 400  # limit on a search that usually ends after three or four steps
_LOWEST, _HIGHEST = 1.0 + 2.0**-40, 2.0**40  # orders between 1 and inf


def check_order(p: float) -> None:
    """Check that the rounding of projections has a proven bound for this order.

    Raises
    ------
    ValueError
        If p is not 1, in [1 + 2**-40, 2**40] or inf.
    """
    if not (p in (1.0, math.inf) or _LOWEST <= p <= _HIGHEST):
        raise ValueError(f"p must be 1, in [1 + 2**-40, 2**40] or inf, got {p!r}.")


def conjugate(p: float) -> float:
    """Order of the dual norm, p / (p - 1)."""
    if p == 1.0:
        return math.inf
    return 1.0 if p == math.inf else p / (p - 1.0)


def regularity(p: float, D: int) -> tuple[float, float]:
    """Order r and constant kappa of the dual of the l_p norm, the best that l_r norms allow.

    The square of the l_r norm is (r - 1)-smooth. In ``D`` dimensions the l_r norm is at least the
    dual norm l_q, and at most sqrt(kappa / (r - 1)) times it. The r in [2, q] that minimises kappa
    is returned.

    Parameters
    ----------
    p : float
        Order of the norm, in [1, 2].
    D : int

    Returns
    -------
    r, kappa : float

    Raises
    ------
    ValueError
        If p is outside [1, 2].
    """
    if not 1.0 <= p <= 2.0:
        raise ValueError(f"p must be in [1, 2], got {p!r}.")
    q, log = conjugate(p), math.log(D)
    r = min(q, log + math.sqrt(log * (log - 2.0))) if log > 2.0 else 2.0
    kappa = (r - 1.0) * D ** (2.0 / r - 2.0 / q)
    return r, kappa if q == 2.0 else kappa * (1.0 + 2.0**-46)  # rounded up


def projection_error(D: int) -> float:
    """Bound on the l2 distance between the exact projection on a ball and what `project` writes.

    It is relative to the l2 norm of the argument, for the orders that `check_order` accepts.
    """
    return (20.0 * D + 600.0) * UNIT


@reduction
def _sums(w):
    """The largest magnitude, the sum of the magnitudes, and the sum of the squares."""
    top, total, squares = 0.0, 0.0, 0.0
    for j in range(w.shape[0]):
        size = abs(w[j])
        top = max(top, size)
        total += size
        squares += size * size
    return top, total, squares


@inner
def power(x, e):
    """``x**e`` for x >= 0, ten times as fast for the exponents of balls of orders 1.5, 3 and 4."""
    if e == 0.5:
        return math.sqrt(x)
    if e == 2.0:
        return x * x
    if e == 3.0:
        return x * x * x
    return x**e


@reduction
def _power_norm(w, top, p):
    """Norm of order p of ``w / top``."""
    total = 0.0
    for j in range(w.shape[0]):
        size = abs(w[j]) / top
        total += size * power(size, p - 1.0)
    return total ** (1.0 / p)


@inner
def lp_norm(w, p):
    """Norm of order p in [1, inf] of a vector, without overflow."""
    top, total, squares = _sums(w)
    if top == 0.0 or p == np.inf or top == np.inf:
        return top
    if p == 1.0:
        return total
    if p == 2.0 and _LEAST < squares < _LARGEST:
        return math.sqrt(squares)
    return top * _power_norm(w, top, p)


@inner
def project_l1(w, radius):
    """Move ``w`` to the nearest point of the l1 ball."""
    # Michelot's algorithm: compute the threshold for the current support, until no entry leaves it.
    # The threshold is measured downwards from the largest entry, where it is at most the radius;
    # otherwise entries far larger than the radius would cancel badly.
    top, total, _ = _sums(w)
    if total <= radius:
        return
    depth = min(radius, top)
    while True:
        total, lost, kept = radius, 0.0, 0
        for j in range(w.shape[0]):
            below = top - abs(w[j])
            if below < depth:
                # Kahan summation: the error of plain rounding grows with the size, which the
                # support multiplies.
                term = below - lost
                new = total + term
                lost = (new - total) - term
                total = new
                kept += 1
        if not total / kept < depth:  # rounding must not cause an endless loop
            break
        depth = total / kept
    for j in range(w.shape[0]):
        shrunk = max(depth - (top - abs(w[j])), 0.0)
        w[j] = shrunk if w[j] > 0.0 else -shrunk


@inner
def project_l2(w, radius):
    """Move ``w`` to the nearest point of the Euclidean ball."""
    norm = lp_norm(w, 2.0)
    if norm > radius:
        for j in range(w.shape[0]):
            w[j] = radius * (w[j] / norm)


def project_simplex(v: np.ndarray) -> np.ndarray:
    """The point of the unit simplex that is nearest to ``v``."""
    u = np.sort(v)[::-1]
    excess = (np.cumsum(u) - 1.0) / np.arange(1, v.size + 1)
    return np.maximum(v - excess[u > excess][-1], 0.0)


@inner
def project_linf(w, radius):
    """Move ``w`` to the nearest point of the cube."""
    for j in range(w.shape[0]):
        w[j] = min(max(w[j], -radius), radius)


@inner
def shrink(w, root, rate, change, multiplier, p, steps):
    """Solve ``x + multiplier x**(p - 1) = |w_j|`` for all j, by ``steps`` steps of Newton's method.

    ``root`` and ``rate`` hold x and minus the derivative of log x for a multiplier that is smaller
    by ``change``. Return the sum of x**p, minus its derivative over p, and whether all equations
    are solved.
    """
    amount, slope, settled = 0.0, 0.0, True
    for j in range(w.shape[0]):
        u = abs(w[j])
        if u == 0.0:
            root[j] = 0.0
            continue
        x = root[j] / (1.0 + max(rate[j] * change, -0.5))
        pull, steepness, solved = 0.0, 1.0, False
        for _ in range(steps):
            pull = power(x, p - 1.0)
            h = x + multiplier * pull
            steepness = x + (p - 1.0) * multiplier * pull
            step = (h - u) / steepness if steepness > 0.0 else -1.0
            if h <= 4.0 * u and step >= -0.5:
                x /= 1.0 + step  # Newton's method in 1 / x, in which h is convex for all p
                pull -= (p - 1.0) * step * pull
                solved = abs(step * (h - u)) * (1.0 + p) <= 0.25 * UNIT * h
                solved = solved or abs(step) <= 8.0 * UNIT
            else:  # far away: move to where h is between u and 2 u
                pull = u / multiplier
                x = min(u, pull ** (1.0 / (p - 1.0)))
                steepness = x + (p - 1.0) * u
            if x < _TINY:
                x, pull, steepness, solved = 0.0, 0.0, 1.0, True
            if solved:
                break
        root[j], rate[j] = x, pull / steepness
        amount += x * pull
        slope += pull * rate[j] * x
        settled = settled and solved
    return amount, slope, settled


@reduction
def shrink_near(w, root, rate, change, multiplier, p):
    """Take a step of `shrink` without branches, for all j for which |w_j| is close to the equation.

    Also return whether there are other j, whose roots are left unchanged.
    """
    D, e = w.shape[0], p - 1.0
    for j in range(D):
        root[j] /= 1.0 + max(rate[j] * change, -0.5)
    if e == 3.0:  # loops without function calls
        for j in range(D):
            rate[j] = root[j] * root[j] * root[j]
    elif e == 2.0:
        for j in range(D):
            rate[j] = root[j] * root[j]
    elif e == 0.5:
        for j in range(D):
            rate[j] = math.sqrt(root[j])
    else:
        for j in range(D):
            rate[j] = root[j] ** e
    amount, slope, unsolved, far = 0.0, 0.0, 0.0, 0.0
    for j in range(D):
        u, x, pull = abs(w[j]), root[j], rate[j]
        pulled = multiplier * pull
        h = x + pulled
        steepness = x + e * pulled
        step = (h - u) / steepness if steepness > 0.0 else (0.0 if u == 0.0 else -1.0)
        near = h <= 4.0 * u and step >= -0.5
        solved = abs(step * (h - u)) * (1.0 + p) <= 0.25 * UNIT * h or abs(step) <= 8.0 * UNIT
        unsolved += 0.0 if near and solved else 1.0
        far += 0.0 if near else 1.0
        step = step if near else 0.0
        x /= 1.0 + step
        pull -= e * step * pull
        lost = x < _TINY
        x = 0.0 if lost else x
        pull = 0.0 if lost else pull
        root[j] = x
        rate[j] = 0.0 if lost else pull / steepness
        amount += x * pull
        slope += pull * rate[j] * x
    return amount, slope, unsolved == 0.0, far > 0.0


@inner
def project_lp(w, radius, p):
    """Move ``w`` to the nearest point of the ball of order p in (1, inf)."""
    top, total, squares = _sums(w)
    if _LEAST < squares < _LARGEST:  # inequalities between norms may decide it without powers
        squares = squares / radius / radius
        if p < 2.0:
            bound = (total / radius) ** (2.0 - p) * squares ** (p - 1.0)
        else:
            bound = (top / radius) ** (p - 2.0) * squares
        if bound <= 1.0:
            return
    D = w.shape[0]
    ratio = min(top / radius, _FARTHEST)
    norm = ratio * _power_norm(w, top, p) if top > 0.0 else 0.0
    if not norm > 1.0:
        return
    # This is in units of the radius. If w is a multiple of a vertex or of a vector of ones, it is
    # exact.
    root, rate = np.empty(D), np.zeros(D)
    multiplier, low, high = 0.0, 0.0, 0.0  # by Hoelder's inequality it is at most the l1 norm
    for j in range(D):
        w[j] = w[j] / top * ratio
        root[j] = abs(w[j]) / norm
        multiplier += root[j] * (abs(w[j]) - root[j])
        high += 2.0 * abs(w[j])
    change = 0.0
    for k in range(_STEPS):
        # Newton's method for the equations and the multiplier together, or one by one if it fails.
        if k < 8:
            amount, slope, settled, far = shrink_near(w, root, rate, change, multiplier, p)
            if far:
                amount, slope, settled = shrink(w, root, rate, 0.0, multiplier, p, 1)
        else:
            amount, slope, settled = shrink(w, root, rate, change, multiplier, p, _STEPS)
        norm = amount ** (1.0 / p)
        if settled:
            # Error of the norm, in units of rounding, if the multiplier is exact up to rounding.
            units = multiplier * slope / amount if amount > 0.0 else 0.0
            if abs(norm - 1.0) <= (D + 64.0 * max(1.0, units)) * UNIT:
                break
            if norm > 1.0:
                low = multiplier
            else:
                high = multiplier
        # Newton's method for norm**(1 - p), which is linear in the multiplier at both ends.
        new = np.nan
        if slope > 0.0 and amount < np.inf:
            new = multiplier + (amount / norm - 1.0) * amount / ((p - 1.0) * slope)
        if not low < new < high:
            new = 0.5 * (multiplier + (high if norm > 1.0 else low))
        elif k >= 40 and k % 2 == 0:
            new = 0.5 * (low + high)
        change, multiplier = new - multiplier, new
    for j in range(D):
        w[j] = math.copysign(radius * (root[j] / norm), w[j])
