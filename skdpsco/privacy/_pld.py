"""Privacy loss distributions of Gaussian noise on samples, by the optional dp-accounting."""

import math
from importlib.util import find_spec
from typing import Any

from ._cache import cached
from .events import Event, GaussianEvent, NoOpEvent, leaves
from .sampling import (
    AddedPoissonSampledGaussianEvent,
    PoissonSampledGaussianEvent,
    log_moment_of_sample,
)

__all__ = ["ACCOUNTANTS", "MOST_STEPS", "pld_applies", "pld_delta", "pld_epsilon"]

ACCOUNTANTS = ("auto", "rdp", "pld")
_ERROR = 1e-10  # error of delta in floating-point convolutions of thousands of steps
_MAX_CELLS = 5e5  # cells of the distribution of a step, and half of those of the total
_LARGEST_EPSILON = 30.0  # above it, or with less noise, a Renyi curve is as good
_LEAST_MULTIPLIER = 0.1  # smallest noise multiplier
_SAMPLED = (PoissonSampledGaussianEvent, AddedPoissonSampledGaussianEvent)
MOST_STEPS = 10**6  # with more, rounding errors, time and memory have no bound


def pld_applies(event: Event, accountant: str) -> bool:
    """Whether "pld" may be used: not refused by ``accountant``, installed, and fit for `event`.

    Raises
    ------
    ImportError
        If "pld" is asked for and dp-accounting is not installed.
    """
    if accountant == "rdp":
        return False
    if find_spec("dp_accounting") is None:
        if accountant == "pld":
            raise ImportError("accountant='pld' needs dp-accounting: pip install 'skdpsco[pld]'.")
        return False
    noise = (GaussianEvent, *_SAMPLED)
    for leaf, count in leaves(event):
        known = (
            type(leaf) in noise
            and leaf.noise_multiplier > _LEAST_MULTIPLIER
            and count <= MOST_STEPS**2
        )
        if not known and type(leaf) is not NoOpEvent:
            return False
    parts = _parts(event)
    few = sum(count for _, count in parts) <= MOST_STEPS
    return few and all(leaf.noise_multiplier > _LEAST_MULTIPLIER for leaf, _ in parts)


def pld_delta(event: Event, epsilon: float) -> float:
    """Return a delta for which `event` is (epsilon, delta)-DP, or 1 if none can be computed."""
    if epsilon > _LARGEST_EPSILON:
        return 1.0
    delta = _of_distribution(event, "get_delta_for_epsilon", epsilon)
    return min(max(delta, 0.0) + _ERROR, 1.0)


def pld_epsilon(event: Event, delta: float) -> float:
    """Return an epsilon for which `event` is (epsilon, delta)-DP, or infinity."""
    if delta <= 3 * _ERROR:
        return math.inf
    epsilon = _of_distribution(event, "get_epsilon_for_delta", delta - 2 * _ERROR)
    return epsilon if pld_delta(event, epsilon) <= delta else math.inf


def _of_distribution(event: Event, method: str, value: float) -> float:
    import numpy as np

    with np.errstate(all="ignore"):  # tails underflow
        return float(getattr(_distribution(event), method)(value))


def _parts(event: Event) -> list[tuple[Any, int]]:
    """The components of the event; all Gaussian noise is combined exactly into one release."""
    parts = [(leaf, count) for leaf, count in leaves(event) if type(leaf) is not NoOpEvent]
    gaussian = [(leaf, count) for leaf, count in parts if type(leaf) is GaussianEvent]
    if not gaussian:
        return parts
    precision = math.fsum(count * (1.0 / leaf.noise_multiplier) ** 2 for leaf, count in gaussian)
    rounded_down = GaussianEvent((1.0 - 1e-14) / math.sqrt(max(precision, 1e-200)))
    return [*((e, count) for e, count in parts if type(e) is not GaussianEvent), (rounded_down, 1)]


def _divergence(leaf: Any) -> float:
    """Renyi divergence of order 2, which is at least half the variance of the privacy loss."""
    if type(leaf) in _SAMPLED:
        return log_moment_of_sample(leaf, 1.0)
    return (1.0 / leaf.noise_multiplier) ** 2


@cached(16)
def _distribution(event: Event) -> Any:
    """The distribution of the privacy loss of the whole event, rounded on the private side."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as pld

    # Every step is rounded by "connecting the dots" of its curve from above, to losses that are
    # multiples of the interval. The interval is as fine as the smallest steps need, but bounded
    # below by a limit on the number of cells, and so on time and memory. An interval of one typical
    # loss adds 2 % to epsilon.
    parts = _parts(event)
    ratios = [1 / leaf.noise_multiplier for leaf, _ in parts]
    typical = [
        r * getattr(leaf, "sampling_probability", 1.0)
        for r, (leaf, _) in zip(ratios, parts, strict=True)
    ]
    widest = max(2 * r * (11 + r) for r in ratios)
    spread = math.sqrt(2 * math.fsum(count * _divergence(leaf) for leaf, count in parts))
    interval = max(min(typical) / 8, widest / _MAX_CELLS, 10 * spread / _MAX_CELLS)
    total = pld.identity(value_discretization_interval=interval)
    for leaf, count in parts:
        # The sensitivity of a GaussianEvent is already that of its relation.
        replaced = type(leaf) is PoissonSampledGaussianEvent
        relation = "REPLACE_ONE" if replaced else "ADD_OR_REMOVE_ONE"
        one = pld.from_gaussian_mechanism(
            leaf.noise_multiplier,
            value_discretization_interval=interval,
            sampling_prob=getattr(leaf, "sampling_probability", 1.0),
            neighboring_relation=NeighboringRelation[relation],
        )
        total = total.compose(one.self_compose(count))
    return total
