"""Separable penalties of composite objectives: kernels that solvers call.

A penalty is a ``NamedTuple`` for the sum of one convex function over all coefficients. It registers
the kernels `penalty_value`, `prox` and `subdifferential` of one coefficient, and has a number
``curvature``.

Privacy does not rest on what a user's penalty declares or does, as long as its kernels are
functions of their arguments: solvers call them with released coefficients and gradients, which is
post-processing. The rule "gs-r" of `GreedyCoordinateDescent` is the only exception. It calls `prox`
with gradients without noise and relies on `prox` being Lipschitz, so it takes the penalties of this
module only.
"""

from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import inner, kernel

__all__ = [
    "L1",
    "L2",
    "Box",
    "ElasticNet",
    "penalty_value",
    "prox",
    "subdifferential",
]

_ON_THE_EDGE = 1.0 - 2.0**-40  # edge of a box; a coefficient in other units has been rounded


@kernel
def penalty_value(penalty, w):
    """Penalty of the coefficient ``w``."""
    raise NotImplementedError


@kernel
def prox(penalty, v, step):
    """The u that minimises ``step * psi(u) + (u - v)**2 / 2``."""
    raise NotImplementedError


@kernel
def subdifferential(penalty, w):
    """``(low, high)``: the interval of all slopes of lines that touch psi at ``w``."""
    raise NotImplementedError


class L1(NamedTuple):
    """``alpha |w|``.

    Parameters
    ----------
    alpha : float, >= 0
    """

    alpha: float

    @property
    def curvature(self) -> float:
        """Largest c such that ``psi(w) - c w**2 / 2`` is convex: 0."""
        return 0.0


class L2(NamedTuple):
    """``alpha w**2 / 2``.

    Parameters
    ----------
    alpha : float, >= 0
    """

    alpha: float

    @property
    def curvature(self) -> float:
        """``alpha``."""
        return self.alpha


class ElasticNet(NamedTuple):
    """``l1 |w| + l2 w**2 / 2``.

    Parameters
    ----------
    l1 : float, >= 0
        Weight of ``|w|``: alpha * l1_ratio in scikit-learn.
    l2 : float, >= 0
        Weight of ``w**2 / 2``: alpha * (1 - l1_ratio) in scikit-learn.
    """

    l1: float
    l2: float

    @property
    def curvature(self) -> float:
        """``l2``."""
        return self.l2


class Box(NamedTuple):
    """0 where ``|w| <= radius``, otherwise infinite.

    Parameters
    ----------
    radius : float, > 0
    """

    radius: float

    @property
    def curvature(self) -> float:
        """Return 0, as for `L1`."""
        return 0.0


PENALTIES = (L1, L2, ElasticNet, Box)


def checked(penalty: Any) -> Any:
    """``penalty`` with float parameters, if it is one of `PENALTIES`; others as they are.

    Raises
    ------
    ValueError
        If a parameter of one of `PENALTIES` is negative or not a number, or the curvature of any
        penalty is not a finite number >= 0.
    """
    name = type(penalty).__name__
    if type(penalty) in PENALTIES:
        penalty = type(penalty)(*map(float, penalty))
        if not all(number >= 0.0 for number in penalty):
            raise ValueError(f"The parameters of {name} must be at least 0, got {penalty!r}.")
    curvature = getattr(penalty, "curvature", None)
    if not isinstance(curvature, Real) or not 0.0 <= float(curvature) < np.inf:
        raise ValueError(f"{name}: curvature must be a finite number >= 0, got {curvature!r}.")
    return penalty


@inner
def soft_threshold(v, t):
    """Move ``v`` towards 0 by ``t``, and not beyond."""
    return max(v - t, 0.0) + min(v + t, 0.0)


@penalty_value.register(L1)
def _(penalty, w):
    return penalty.alpha * abs(w)


@prox.register(L1)
def _(penalty, v, step):
    return soft_threshold(v, step * penalty.alpha)


@subdifferential.register(L1)
def _(penalty, w):
    a = penalty.alpha
    return (-a if w <= 0.0 else a, a if w >= 0.0 else -a)


@penalty_value.register(L2)
def _(penalty, w):
    return 0.5 * penalty.alpha * w * w


@prox.register(L2)
def _(penalty, v, step):
    return v / (1.0 + step * penalty.alpha)


@subdifferential.register(L2)
def _(penalty, w):
    return (penalty.alpha * w, penalty.alpha * w)


@penalty_value.register(ElasticNet)
def _(penalty, w):
    return penalty.l1 * abs(w) + 0.5 * penalty.l2 * w * w


@prox.register(ElasticNet)
def _(penalty, v, step):
    return soft_threshold(v, step * penalty.l1) / (1.0 + step * penalty.l2)


@subdifferential.register(ElasticNet)
def _(penalty, w):
    a, b = penalty.l1, penalty.l2 * w
    return (b - a if w <= 0.0 else b + a, b + a if w >= 0.0 else b - a)


@penalty_value.register(Box)
def _(penalty, w):
    return 0.0 if abs(w) <= penalty.radius else np.inf


@prox.register(Box)
def _(penalty, v, step):
    return min(max(v, -penalty.radius), penalty.radius)


@subdifferential.register(Box)
def _(penalty, w):
    edge = penalty.radius * _ON_THE_EDGE
    return (-np.inf if w <= -edge else 0.0, np.inf if w >= edge else 0.0)


@inner
def scaled_prox(penalty, v, step, scale):
    """Apply `prox` in other units: for the penalty ``psi(scale * u)`` of ``u``.

    A scale of 0 means that the coefficient is not penalised. If a user's penalty returns a number
    that is not finite, the result is ``v``.
    """
    if scale == 0.0:
        return v
    new = prox(penalty, scale * v, step * scale * scale) / scale
    return new if abs(new) < np.inf else v


@inner
def stationarity_gap(penalty, w, slope, weight, scale):
    """Distance of 0 to ``slope`` plus all slopes of ``weight * psi(scale * w)`` in ``w``."""
    if scale == 0.0:
        return abs(slope)
    low, high = subdifferential(penalty, scale * w)
    return max(slope + weight * scale * low, -slope - weight * scale * high, 0.0)
