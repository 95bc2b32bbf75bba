"""Losses for means that are exponentials of predictions, linear where these are extreme.

The units are those in which a solver sees targets: t in [-1, 1] stands for the target ``y = centre
+ t``, and the prediction z for the mean ``start * exp(z)``. Both deviances would have unbounded
slopes. But no target exceeds a public number, so nothing is lost if the loss is linear where the
mean does.
"""

import math
from typing import ClassVar, NamedTuple

import numpy as np

from skdpsco._kernels import inner
from skdpsco.losses.kernels import curvature, derivative, value
from skdpsco.losses.traits import Traits

__all__ = ["LEAST_MEAN", "GammaDeviance", "LogLink", "PoissonDeviance", "highest", "usual_mean"]

LEAST_MEAN = 1e-4  # least target of a gamma distribution, and least predicted mean, in units of t


LEAST, SKEW = 0.08, 0.04  # of a usual mean, in these units: above the centre, which is a median


class LogLink(NamedTuple):
    """What the two deviances share.

    Parameters
    ----------
    centre : float
        The target for which t is 0.
    start : float
        The mean for which z is 0, > 0.
    jump : float, default=0.0
        A count of 1 in these units, and so the least jump of a target; 0 if targets are no counts.
    """

    centre: float
    start: float
    jump: float = 0.0

    @property
    def traits(self) -> Traits:
        """Derivatives are residuals of means, which are exponentials; the centre is a median."""
        return Traits(
            "numbers",
            residuals=True,
            exponential=True,
            usual_curvature=usual_mean(self),
            off_centre=1.0,
            jump=min(self.jump, highest(self)),
        )

    def lipschitz(
        self, prediction_bound: float = math.inf, target_bound: float = math.inf
    ) -> float:
        """Bound on ``|derivative|`` where ``|z| <= prediction_bound, |t| <= target_bound``."""
        return max(
            derivative(self, prediction_bound, -target_bound),
            -derivative(self, -prediction_bound, target_bound),
        )

    def smoothness(self) -> float:
        """Bound on the second derivative in the prediction: the highest target."""
        return highest(self)

    def baseline(self, target_bound: float = math.inf) -> float:
        """Largest loss of the prediction 0."""
        return max(value(self, 0.0, -target_bound), value(self, 0.0, target_bound))

    def means(self, z: np.ndarray) -> np.ndarray:
        """Predicted means in the range to which predictions are clipped."""
        low, high = (math.log(end / self.start) for end in (LEAST_MEAN, highest(self)))
        z = np.fmin(np.fmax(z, low), high)
        # One at a time: how vector instructions round could depend on the other records.
        return self.start * np.array([math.exp(one) for one in z.tolist()])


class PoissonDeviance(LogLink):
    """Half the Poisson deviance, ``m - y + y log(y / m)``, linear in z for means above any y."""

    __slots__ = ()
    n_outputs: ClassVar[int] = 1
    proven: ClassVar[bool] = True

    def balance(self, z: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Targets and means: the sum of predictions is that of targets."""
        most = highest(self)
        return np.array([np.clip(self.centre + t, 0.0, most), self.means(z)]) / most


class GammaDeviance(LogLink):
    """Half the gamma deviance times a `usual_mean` u, ``u * (y / m - 1 - log(y / m))``.

    It is linear in z where ``u * y / m`` is above any target. Targets below `LEAST_MEAN` count as
    `LEAST_MEAN`.
    """

    __slots__ = ()
    n_outputs: ClassVar[int] = 1
    proven: ClassVar[bool] = True

    def balance(self, z: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Targets over their means, and 1, both times a usual mean: ratios are 1 on average."""
        most, usual = highest(self), usual_mean(self)
        ratios = np.clip(self.centre + t, LEAST_MEAN, most) / self.means(z)
        return np.array([np.minimum(usual * ratios, most), np.full(len(t), usual)]) / most


@inner
def highest(loss):
    """The largest target, for any t."""
    return max(loss.centre, 0.0) + 1.0


@inner
def usual_mean(loss):
    """A guess of the mean of all targets."""
    return max(loss.centre + SKEW, LEAST)


@inner
def _decoded(loss, t, low):
    return min(max(loss.centre + t, low), highest(loss))


@inner
def _bend(loss):
    """The prediction whose mean is the largest target."""
    return math.log(highest(loss) / loss.start)


@value.register(PoissonDeviance)
def _(loss, z, t):
    y, bend = _decoded(loss, t, 0.0), _bend(loss)
    mean = loss.start * math.exp(min(z, bend)) * (1.0 + max(z - bend, 0.0))
    own = y * (math.log(y / loss.start) - z) if y > 0.0 else 0.0
    return max(mean - y + own, 0.0)


@derivative.register(PoissonDeviance)
def _(loss, z, t):
    return loss.start * math.exp(min(z, _bend(loss))) - _decoded(loss, t, 0.0)


@curvature.register(PoissonDeviance)
def _(loss, z, t):
    return min(loss.start * math.exp(min(z, _bend(loss))), highest(loss))


@inner
def _log_of(loss, t):
    """The prediction whose mean is the target."""
    return math.log(_decoded(loss, t, LEAST_MEAN) / loss.start)


@inner
def _bounded_ratio(loss, r):
    """``u * y / m`` for a residual ``r = log(m / y)``, at most the highest target."""
    u = usual_mean(loss)
    return min(u * math.exp(-max(r, math.log(u / highest(loss)))), highest(loss))


@value.register(GammaDeviance)
def _(loss, z, t):
    u, r = usual_mean(loss), z - _log_of(loss, t)
    ratio = _bounded_ratio(loss, r) * (1.0 + max(math.log(u / highest(loss)) - r, 0.0))
    return max(ratio + u * (r - 1.0), 0.0)


@derivative.register(GammaDeviance)
def _(loss, z, t):
    return usual_mean(loss) - _bounded_ratio(loss, z - _log_of(loss, t))


@curvature.register(GammaDeviance)
def _(loss, z, t):
    return _bounded_ratio(loss, z - _log_of(loss, t))
