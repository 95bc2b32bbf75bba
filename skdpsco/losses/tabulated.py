"""The loss of means that are a monotone function of predictions, given by a table."""

from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import inner
from skdpsco.losses.kernels import curvature, derivative, value
from skdpsco.losses.traits import Traits

__all__ = ["Tabulated"]

MUCH_STEEPER = 1.5


class Tabulated(NamedTuple):
    """The convex loss whose derivative is ``r(z) - y``, for a non-decreasing function r.

    It is the integral of ``r - y`` from the point where r is y to z. If r is the mean target, this
    point is the best prediction. For ``r(z) = tanh(z / 2)`` it is twice the logistic loss.

    Parameters
    ----------
    knots : ndarray of shape (n_knots,)
        Increasing points, at least two. Between them r is linear, and beyond them constant.
    values : ndarray of shape (n_knots,)
        Values of r at the knots, non-decreasing and in [-1, 1].
    """

    knots: np.ndarray
    values: np.ndarray

    @property
    def traits(self) -> Traits:
        """Whether r is nowhere much steeper than where it rises by half its height in one unit."""
        return Traits(usual_curvature=1.0 if self.smoothness() < MUCH_STEEPER else None)

    def lipschitz(self, prediction_bound: float = np.inf, target_bound: float = 1.0) -> float:
        """Bound on ``|derivative|`` where ``|z| <= prediction_bound, |y| <= target_bound``."""
        ends = np.interp([-prediction_bound, prediction_bound], self.knots, self.values)
        return float(np.abs(ends).max()) + target_bound

    def smoothness(self) -> float:
        """Bound on the second derivative in the prediction, the largest slope of r."""
        return float((np.diff(self.values) / np.diff(self.knots)).max())

    def baseline(self, target_bound: float = 1.0) -> float:
        """Largest loss of the prediction 0."""
        return max(value(self, 0.0, -target_bound), value(self, 0.0, target_bound))


_Loss: Any = Tabulated  # in the body of the class, type checkers would take these for fields
_Loss.n_outputs = 1
_Loss.proven = True


@inner
def _before(points, z):
    """The number of the last point, without the end, that is at most ``z``; otherwise 0."""
    low, high = 0, points.shape[0] - 2
    while low < high:
        middle = (low + high + 1) // 2
        if points[middle] <= z:
            low = middle
        else:
            high = middle - 1
    return low


@inner
def _interpolated(z, points, values):
    """The value at ``z``, which is between the first point and the last one."""
    j = _before(points, z)
    share = (z - points[j]) / (points[j + 1] - points[j])
    return values[j] + share * (values[j + 1] - values[j])


@inner
def _mean(loss, z):
    return _interpolated(min(max(z, loss.knots[0]), loss.knots[-1]), loss.knots, loss.values)


@value.register(Tabulated)
def _(loss, z, y):
    knots, last = loss.knots, loss.knots.shape[0] - 1
    best = knots[0] if y <= loss.values[0] else knots[last]
    if loss.values[0] < y < loss.values[last]:
        best = _interpolated(y, loss.values, knots)
    low, high = min(best, z), max(best, z)
    total = max(min(high, knots[0]) - low, 0.0) * (loss.values[0] - y)
    for j in range(_before(knots, low), _before(knots, high) + 1):
        a, b = max(low, knots[j]), min(high, knots[j + 1])
        if a < b:
            total += (b - a) * (0.5 * (_mean(loss, a) + _mean(loss, b)) - y)
    total += max(high - max(low, knots[last]), 0.0) * (loss.values[last] - y)
    return total if z >= best else -total


@derivative.register(Tabulated)
def _(loss, z, y):
    return _mean(loss, z) - y


@curvature.register(Tabulated)
def _(loss, z, y):
    j = _before(loss.knots, z)
    width = loss.knots[j + 1] - loss.knots[j]
    inside = loss.knots[j] <= z <= loss.knots[j + 1]
    return (loss.values[j + 1] - loss.values[j]) / width if inside else 0.0
