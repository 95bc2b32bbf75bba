"""Gaussian noise on a Poisson sample of the records: the events, and their Renyi curves.

Proof: docs/proofs/sgd.md.
"""

import math
from dataclasses import dataclass
from typing import Any

from ._checks import check_real
from .events import Event

__all__ = [
    "AddedPoissonSampledGaussianEvent",
    "PoissonSampledGaussianEvent",
    "log_moment_of_sample",
]

_WORD = 2**53
_ALIAS = 40.0  # minus the logarithm of the relative error of the trapezoidal rule
_TAIL = 13.0  # standard deviations beyond which the sum stops
_MAX_NODES = 1500
_MOMENT_ROUNDING = 2.0**-50


@dataclass(frozen=True)
class PoissonSampledGaussianEvent(Event):
    """Gaussian noise added to the sum of bounded vectors over a random sample of the records.

    Every record is in the sample with the same probability, independently of all others and of
    everything released so far. Which records are in it is never released. A sampler that includes a
    record if 53 fresh random bits are below `threshold` has exactly the probability that is
    charged.

    Under the relation "replace one record" the pair (1 - q) N(0, 1) + q N(±1/z, 1) dominates, where
    q is the probability and z the multiplier. It has both signs, so it costs more than what is
    usually quoted, which is for records that are added or removed. A sample of fixed size has
    another cost. A `Ledger` ignores the sampling: it counts rho = 2 / z^2, the cost of Gaussian
    noise alone.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by the largest l2 norm of *one record's* vector. (A
        replacement moves the sum of the sample by up to twice that norm.)
    sampling_probability : float
        In (0, 1); it is rounded up to a multiple of 2^-53.

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If a parameter is outside its range.

    Examples
    --------
    >>> from skdpsco.privacy import PoissonSampledGaussianEvent, RepeatedEvent, epsilon_of
    >>> step = PoissonSampledGaussianEvent(noise_multiplier=2.0, sampling_probability=0.01)
    >>> f"{epsilon_of(RepeatedEvent(step, 1000), 1e-6, accountant='rdp'):.3f}"
    '1.480'
    """

    noise_multiplier: float
    sampling_probability: float

    def __post_init__(self) -> None:
        self._store_positive("noise_multiplier")
        probability = check_real("sampling_probability", self.sampling_probability, 0, 1)
        self._store("sampling_probability", math.ceil(probability * _WORD) / _WORD)

    @property
    def threshold(self) -> int:
        """The sampling probability times 2^53, a whole number."""
        return int(self.sampling_probability * _WORD)

    @property
    def rho(self) -> float:
        """The zCDP of the noise for an adversary who knows which records are in the sample."""
        return 2.0 / self.noise_multiplier**2


@dataclass(frozen=True)
class AddedPoissonSampledGaussianEvent(PoissonSampledGaussianEvent):
    """The same mechanism, where neighbours add a record or remove one, and do not replace one.

    The pair (1 - q) N(0, 1) + q N(1/z, 1) and N(0, 1) dominates, which is the one that is usually
    tabulated [1]_. A `Ledger` counts rho = 1 / (2 z^2), the cost of Gaussian noise alone.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by the largest l2 norm of one record's vector.
    sampling_probability : float
        In (0, 1); it is rounded up to a multiple of 2^-53.

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If a parameter is outside its range.

    References
    ----------
    .. [1] Mironov, Talwar and Zhang (2019), "Renyi Differential Privacy of the Sampled Gaussian
       Mechanism".

    Examples
    --------
    >>> from skdpsco.privacy import AddedPoissonSampledGaussianEvent, RepeatedEvent, epsilon_of
    >>> step = AddedPoissonSampledGaussianEvent(noise_multiplier=2.0, sampling_probability=0.01)
    >>> f"{epsilon_of(RepeatedEvent(step, 1000), 1e-6, accountant='rdp'):.3f}"
    '0.783'
    """

    @property
    def rho(self) -> float:
        """The zCDP of the noise for an adversary who knows which records are in the sample."""
        return 0.5 / self.noise_multiplier**2


def log_moment_of_sample(event: PoissonSampledGaussianEvent, b: float) -> float:
    """Return b times a bound on the Renyi divergence of order 1 + b.

    The moment is the integral of φ(x) A(x)^(1+b) A(-x)^-b with A(x) = 1 - q + q exp(rx - r²/2), r =
    1 / z, without the last factor where records are added. The trapezoidal rule is exact to
    exp(-40) times the moment itself, for a step that follows from a strip in which the integrand is
    analytic.

    Parameters
    ----------
    event : PoissonSampledGaussianEvent
    b : float
        Greater than 0.
    """
    import numpy as np

    r, q = 1.0 / event.noise_multiplier, event.sampling_probability
    gaussian = event.rho * b * (1.0 + b)
    replaced = not isinstance(event, AddedPoissonSampledGaussianEvent)
    weight = q * math.exp(-r * r / 2)
    # Beyond `tilt` the logarithm of the integrand falls at least like that of a normal density.
    tilt = r * (1.0 + b + b * weight / (1.0 - q + weight))
    strip = math.sqrt(2 * _ALIAS / (1.0 + b * r * r / 4))
    strip = min(strip, 2.0 / r)
    growth = strip * strip / 2 - b * math.log(math.cos(r * strip / 2))
    step = 2 * math.pi * strip / (_ALIAS + growth)
    n_nodes = (2 * _TAIL + tilt) / step + 2
    if not n_nodes < _MAX_NODES:
        return gaussian
    with np.errstate(under="ignore"):
        x = np.arange(int(n_nodes) + 1) * step - _TAIL
        first = (1 + b) * _log_mixture(q, r * x - r * r / 2)
        second = b * _log_mixture(q, -r * x - r * r / 2) if replaced else np.zeros_like(x)
        terms = first - second - x * x / 2
        magnitude = float((np.abs(first) + np.abs(second) + x * x / 2).max())
        top = float(terms.max())
        total = math.fsum(np.exp(terms - top)) * step / math.sqrt(2 * math.pi)
    log_moment = top + math.log(total) + _MOMENT_ROUNDING * (2.0 + b + magnitude)
    return min(max(log_moment, 0.0), gaussian)


def _log_mixture(q: float, u: Any) -> Any:
    """Return log(1 - q + q exp(u)) of an array, with an absolute and a relative error of 1e-15."""
    import numpy as np

    top = np.maximum(u, 0.0)
    return top + np.log((1.0 - q) * np.exp(-top) + q * np.exp(u - top))
