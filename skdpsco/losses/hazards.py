"""The loss of proportional hazards whose baseline is known: one number per person.

A person was seen until a time at which the cumulative baseline hazard is m, and had an event or had
not (d = 1 or 0). With the log hazard ratio z the likelihood is that of a Poisson count d with mean
``m * exp(z)``. A target holds both numbers: ``t = d - EXPOSED * m / most``.
"""

import math
from typing import Any, NamedTuple

from skdpsco._kernels import inner
from skdpsco.losses.kernels import curvature, derivative, value
from skdpsco.losses.traits import Traits

__all__ = ["EXPOSED", "ProportionalHazards", "growth_of"]

# Small, so that the root mean square of targets is about that of residuals, as solvers expect.
EXPOSED = 0.1
LEAST_EXPOSED = 1e-6  # of m / most
LARGEST_MEAN = 4.0  # m * exp(z) of people who die when they are expected to is about 1
LEAST_RATE = 0.05


class ProportionalHazards(NamedTuple):
    """Half the Poisson deviance of an event, linear in z for means above 4.

    Parameters
    ----------
    most : float, default=1.0
        The largest cumulative baseline hazard m, > 0.
    rate : float, default=0.5
        About the share of people with an event.
    spread : float, default=0.0
        Variance of z among people, if m is the hazard of all of them together, >= 0. People of high
        risk leave early, so that the hazard of those with the same z rises beside it.
    usual : float, default=1.0
        The m > 0 that this correction does not change.
    """

    most: float = 1.0
    rate: float = 0.5
    spread: float = 0.0
    usual: float = 1.0

    @property
    def traits(self) -> Traits:
        """Derivatives are residuals of means, which are exponentials; events are counts of 1."""
        usual = min(max(self.rate, LEAST_RATE), 1.0)
        return Traits("numbers", residuals=True, exponential=True, usual_curvature=usual, jump=1.0)

    def lipschitz(
        self, prediction_bound: float = math.inf, target_bound: float = math.inf
    ) -> float:
        """Bound on ``|derivative|`` where ``|z| <= prediction_bound, |t| <= target_bound``."""
        censored, event = -min(EXPOSED, target_bound), 1.0 - EXPOSED * LEAST_EXPOSED
        return max(
            derivative(self, prediction_bound, censored),
            -derivative(self, -prediction_bound, event),
        )

    def smoothness(self) -> float:
        """Bound on the second derivative in the prediction."""
        return LARGEST_MEAN

    def baseline(self, target_bound: float = math.inf) -> float:
        """Largest loss of the prediction 0."""
        # Convex in log m, so that it is largest at the ends.
        ends = EXPOSED, EXPOSED * LEAST_EXPOSED
        return max(value(self, 0.0, d - end) for d in (0.0, 1.0) for end in ends)


_Hazards: Any = ProportionalHazards  # type checkers would take these for fields
_Hazards.n_outputs, _Hazards.proven = 1, True


@inner
def _event(t):
    return 1.0 if t > 0.5 else 0.0


@inner
def growth_of(spread, most):
    """How fast the hazard of people with the same z grows beside that of all, in units of m.

    It is ``spread`` if the risks of all have a gamma distribution of this variance. If their
    logarithms are normal, the best constant up to ``most`` is smaller, by about this much.
    """
    return spread / (1.0 + 0.25 * spread * max(most - 1.0, 0.0))


@inner
def _log_exposed(loss, t):
    """The logarithm of m, or of what m is for people with the same z."""
    share = (_event(t) - t) / EXPOSED
    mean = loss.most * min(max(share, LEAST_EXPOSED), 1.0)
    if loss.spread > 0.0:
        growth = growth_of(loss.spread, loss.most)
        mean = loss.usual * math.expm1(growth * mean) / math.expm1(growth * loss.usual)
    return math.log(mean)


@inner
def _capped_mean(log_mean):
    return math.exp(min(log_mean, math.log(LARGEST_MEAN)))


@value.register(ProportionalHazards)
def _(loss, z, t):
    log_mean = z + _log_exposed(loss, t)
    mean = _capped_mean(log_mean) * (1.0 + max(log_mean - math.log(LARGEST_MEAN), 0.0))
    return max(mean - _event(t) * (1.0 + log_mean), 0.0)


@derivative.register(ProportionalHazards)
def _(loss, z, t):
    return _capped_mean(z + _log_exposed(loss, t)) - _event(t)


@curvature.register(ProportionalHazards)
def _(loss, z, t):
    return _capped_mean(z + _log_exposed(loss, t))
