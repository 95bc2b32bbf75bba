"""Charges of events, and conversions between rho, mu and (epsilon, delta).

The currency is zero-concentrated DP: rho-values of adaptively composed mechanisms add [1]_. If
every event is Gaussian noise, the exact Gaussian curve is used instead: the squares of the
mu-values add. A draw of the exponential mechanism has a mu, too. If there are such draws, the total
is computed both ways, without mixing mu and rho, and the smaller epsilon or delta is returned. The
best of a random number of tries and noise on a sample have Renyi curves of their own, to which
those of the other events are added. With delta = 0 the epsilons of purely private events add.

Every result errs on the private side only. A reported epsilon or delta is rounded up by a
relative 1e-11; a calibrated rho or mu is rounded down by 1e-9, which leaves room for the
rounding of whoever divides it among the steps of an algorithm, and it is checked against the
reported delta before it is returned.

References
----------
.. [1] Bun and Steinke (2016), "Concentrated Differential Privacy: Simplifications, Extensions,
   and Lower Bounds".
.. [2] Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy",
   Proposition 12.
.. [3] Balle and Wang (2018), "Improving the Gaussian Mechanism for Differential Privacy:
   Analytical Calibration and Optimal Denoising", Theorem 8.
.. [4] Dong, Roth and Su (2019), "Gaussian Differential Privacy", Corollary 2.13.
.. [5] Rogers and Steinke (2021), "A Better Privacy Analysis of the Exponential Mechanism".
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ._checks import check_choice, check_delta, check_real
from ._gdp import mu_of_draw
from ._numerics import between, bisected, minimise, solve
from ._pld import ACCOUNTANTS, pld_applies, pld_delta, pld_epsilon
from .events import (
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceNoisyMaxEvent,
    NoOpEvent,
    PureDPEvent,
    RandomStoppingEvent,
    RepeatedEvent,
    SamplerErrorEvent,
    ZCDPEvent,
    compose,
    leaves,
    without_errors,
)
from .random_stopping import Tries, log_moment_of_best, zcdp_of_best
from .sampling import (
    AddedPoissonSampledGaussianEvent,
    PoissonSampledGaussianEvent,
    log_moment_of_sample,
)

__all__ = [
    "allows",
    "calibrate",
    "delta_of",
    "epsilon_of",
    "for_units",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gdp_of",
    "is_gaussian",
    "mu_of",
    "pure_epsilon_of",
    "rho_of",
    "zcdp_beside",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]

_REPORT_SLACK = 1e-11
_CALIBRATION_SLACK = 1e-9
_SMALLEST_RHO = 1e-90  # of a try; an event allows a little less
_NOTHING = NoOpEvent()
_SMALLEST_DELTA = math.ulp(0.0)  # a positive delta is rounded up to this if exp gives 0

# Looked up by exact type: a subclass may mean something else, so its charge is unknown.
_RHO: dict[type, Callable[..., float]] = {
    NoOpEvent: lambda event: 0.0,
    GaussianEvent: lambda event: 0.5 / event.noise_multiplier**2,
    ExponentialMechanismEvent: lambda event: event.epsilon0**2 / 8,  # [5]
    PureDPEvent: lambda event: event.epsilon0**2 / 2,
    LaplaceNoisyMaxEvent: lambda event: event.epsilon0**2 / 2,
    RandomStoppingEvent: lambda event: zcdp_of_best(event.tries, event.rho),
    PoissonSampledGaussianEvent: lambda event: event.rho,
    AddedPoissonSampledGaussianEvent: lambda event: event.rho,
    SamplerErrorEvent: lambda event: math.inf,
    ZCDPEvent: lambda event: event.rho,
}
_MU: dict[type, Callable[..., float]] = {
    NoOpEvent: lambda event: 0.0,
    GaussianEvent: lambda event: 1 / event.noise_multiplier,
    ExponentialMechanismEvent: lambda event: mu_of_draw(event.epsilon0),
}
_PURE: dict[type, Callable[..., float]] = {
    NoOpEvent: lambda event: 0.0,
    ExponentialMechanismEvent: lambda event: event.epsilon0,
    PureDPEvent: lambda event: event.epsilon0,
    LaplaceNoisyMaxEvent: lambda event: event.epsilon0,
}
# These have Renyi curves of their own.
_CURVES = (
    RandomStoppingEvent,
    PoissonSampledGaussianEvent,
    AddedPoissonSampledGaussianEvent,
)


def _known_leaves(event: Event) -> list[tuple[Event, int]]:
    found = list(leaves(event))
    for leaf, _ in found:
        if type(leaf) not in _RHO:
            raise TypeError(f"No charge is known for an event of type {type(leaf).__name__}.")
    return found


def rho_of(event: Event) -> float:
    """Return a rho for which `event` is rho-zCDP; TypeError if its type is unknown.

    It is infinite for a `SamplerErrorEvent`, which (epsilon, delta) alone can cover.

    The rho of a random stopping is several times larger than what `epsilon_of` and `delta_of`
    charge for it, and the rho of noise on a sample ignores the sampling.
    """
    # fsum: the total does not depend on the order.
    return math.fsum(count * _RHO[type(leaf)](leaf) for leaf, count in _known_leaves(event))


def for_units(event: Event, max_records_per_unit: int) -> Event:
    """Return the cost of `event`, which is stated for one record, if a unit of records is replaced.

    A mechanism that is rho-zCDP for one record is k^2 rho-zCDP for k of them [1]_, Proposition 1.9,
    and a draw changes k times as much. Proof: docs/proofs/units.md.
    """
    rho = rho_of(event)
    if max_records_per_unit == 1 or rho == 0:
        return event
    if pure_epsilon_of(event) == math.inf:
        return ZCDPEvent(max_records_per_unit**2 * rho)
    return compose(
        *(
            RepeatedEvent(replace(draw, epsilon0=max_records_per_unit * draw.epsilon0), count)
            for draw, count in leaves(event)
            if type(draw) is not NoOpEvent
        )
    )


def is_gaussian(event: Event) -> bool:
    """Return whether `event` is Gaussian noise only, so that `mu_of` is defined."""
    return all(type(leaf) in (GaussianEvent, NoOpEvent) for leaf, _ in _known_leaves(event))


def mu_of(event: Event) -> float:
    """Return the mu for which a Gaussian-only `event` is exactly mu-GDP.

    mu^2 is the sum of 1 / noise_multiplier^2 (Dong, Roth and Su 2019) = 2 rho; ValueError for any
    other event.
    """
    if not is_gaussian(event):
        raise ValueError("mu is defined for Gaussian noise only; use rho_of for other events.")
    return math.sqrt(2 * rho_of(event))


def gdp_of(event: Event) -> float:
    """Return a mu for which `event` is mu-GDP, infinity if none is known.

    It is finite for Gaussian noise and draws of the exponential mechanism. The draws cost less in
    zCDP if there are many of them, or nothing else.
    """
    found = _known_leaves(event)
    if any(type(leaf) not in _MU for leaf, _ in found):
        return math.inf
    squares = (count * _MU[type(leaf)](leaf) ** 2 for leaf, count in found)
    return math.sqrt(math.fsum(squares)) * (1 + 1e-15)


def pure_epsilon_of(event: Event) -> float:
    """Return an epsilon for which `event` is (epsilon, 0)-DP, infinity if none is known.

    It is the sum of all epsilon0, and infinite with any Gaussian noise, and for costs that are
    known in zCDP only.
    """
    found = _known_leaves(event)
    if any(type(leaf) not in _PURE for leaf, _ in found):
        return math.inf
    return math.fsum(count * _PURE[type(leaf)](leaf) for leaf, count in found) * (1 + 1e-15)


def epsilon_of(event: Event, delta: float, accountant: str = "auto") -> float:
    """Return an epsilon for which `event` is (epsilon, delta)-DP.

    Parameters
    ----------
    event : Event
    delta : float
        In [0, 1). For 0 the result is that of `pure_epsilon_of`.
    accountant : {"auto", "rdp", "pld"}, default="auto"
        How noise on samples is charged; other events are not affected. "rdp" is the Renyi curve.
        "pld" is the better of this and the privacy loss distribution, and needs dp-accounting.
        "auto" is "pld" if that is installed, otherwise "rdp". All give valid guarantees. With more
        than a million samples, or a noise multiplier of 0.1 or less, "pld" is "rdp".

    Raises
    ------
    ImportError
        If "pld" is asked for and dp-accounting is not installed.
    ValueError
        If ``delta`` is not in [0, 1), or ``accountant`` is not one of these.
    TypeError
        If the type of the event, or of an event in it, is unknown.
    """
    check_choice("accountant", accountant, ACCOUNTANTS)
    if check_delta(delta, pure=True) == 0:
        return pure_epsilon_of(event)
    exact, eta, beta = without_errors(event)
    if beta > 0:
        least = epsilon_of(exact, delta, accountant) + 2 * eta
        return _least_epsilon(least, lambda x: delta_of(event, x, accountant) <= delta, beta)
    if is_gaussian(event):
        return gaussian_epsilon(mu_of(event), delta)
    if not _has_curve(event):
        epsilon, mu = zcdp_epsilon(rho_of(event), delta), gdp_of(event)
        return epsilon if mu == math.inf else min(epsilon, gaussian_epsilon(mu, delta))
    epsilon = _renyi_epsilon(event, delta)
    return min(epsilon, pld_epsilon(event, delta)) if pld_applies(event, accountant) else epsilon


def delta_of(event: Event, epsilon: float, accountant: str = "auto") -> float:
    """Return a delta for which `event` is (epsilon, delta)-DP; see `epsilon_of`."""
    check_choice("accountant", accountant, ACCOUNTANTS)
    exact, eta, beta = without_errors(event)
    if beta > 0:
        epsilon = check_real("epsilon", epsilon, 0, math.inf, closed=True)
        if epsilon < 2 * eta:
            return 1.0
        delta = math.exp(eta) * delta_of(exact, (epsilon - 2 * eta) * (1 - 1e-15), accountant)
        # Beyond 700 the last term exceeds 1 for every beta that an event may have.
        return _round_up(delta + (1 + math.exp(min(epsilon, 700.0))) * beta)
    if is_gaussian(event):
        return gaussian_delta(mu_of(event), epsilon)
    if not _has_curve(event):
        delta, mu = zcdp_delta(rho_of(event), epsilon), gdp_of(event)
        return delta if mu == math.inf else min(delta, gaussian_delta(mu, epsilon))
    delta = _renyi_delta(event, epsilon)
    return min(delta, pld_delta(event, epsilon)) if pld_applies(event, accountant) else delta


def allows(budget: Any, event: Event, accountant: str = "auto") -> bool:
    """Return whether `event` is within a `Budget`, or within the ``rho`` of anything else.

    If the budget has an attribute ``spent``, that event is added. A budget for units of several
    records counts in zCDP, or in pure epsilons if its delta is 0.
    """
    k = getattr(budget, "max_records_per_unit", 1)
    if getattr(budget, "delta", None) == 0:
        return pure_epsilon_of(for_units(event, k)) <= budget.epsilon
    if not hasattr(budget, "delta") or k > 1:
        return rho_of(event) <= budget.rho
    check_choice("accountant", accountant, ACCOUNTANTS)
    event = compose(getattr(budget, "spent", _NOTHING), event)
    # "rdp" first: it is the faster one, and "pld" matters for noise on samples alone.
    if delta_of(event, budget.epsilon, "rdp") <= budget.delta:
        return True
    pld = _has_curve(event) and pld_applies(event, accountant)
    return pld and pld_delta(event, budget.epsilon) <= budget.delta


def _least_epsilon(low: float, is_private: Callable[[float], bool], beta: float) -> float:
    """Return a small epsilon, from ``low`` on, that is private; infinity if none is found."""
    high, step = low, 1e-9 * (1 + low)
    while not is_private(high):
        if math.log(beta) + high > 0:  # delta would exceed 1
            return math.inf
        low, high, step = high, high + step, 2 * step
    return bisected(low, high, 50, lambda epsilon: not is_private(epsilon))[1]


# zCDP. With b = alpha - 1 > 0 the bound of [2] reads
#     log delta <= b ((1 + b) rho - epsilon - log(1 + 1/b)) - log(1 + b).
# It holds for every b, so a badly found minimiser is still private. Setting the derivative in
# b to zero gives, for each unknown, an increasing function of b to solve.


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return the smallest delta for which rho-zCDP is known to imply (epsilon, delta)-DP.

    The bound is Proposition 12 of Canonne, Kamath and Steinke (2020).
    """
    rho = check_real("rho", rho, 0, math.inf, closed=True)
    epsilon = check_real("epsilon", epsilon, 0, math.inf, closed=True)
    if rho == 0:
        return 0.0
    rho *= 1 + _REPORT_SLACK
    b = _order_for_epsilon(rho, epsilon)
    log_delta = b * ((1 + b) * rho - epsilon - math.log1p(1 / b)) - math.log1p(b)
    return _round_up(math.exp(min(log_delta, 0.0)))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the smallest epsilon for which rho-zCDP is known to imply (epsilon, delta)-DP.

    The bound is Proposition 12 of Canonne, Kamath and Steinke (2020).
    """
    rho = check_real("rho", rho, 0, math.inf, closed=True)
    delta = check_delta(delta)
    if rho == 0:
        return 0.0
    if zcdp_delta(rho, 0.0) <= delta:
        return 0.0
    high = rho + 2 * math.sqrt(-rho * math.log(delta))  # Bun and Steinke's bound
    while zcdp_delta(rho, high) > delta:  # can happen by rounding only
        high *= 2
    return bisected(0.0, high, 50, lambda epsilon: zcdp_delta(rho, epsilon) > delta)[1]


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which rho-zCDP is known to imply (epsilon, delta)-DP.

    The bound is Proposition 12 of Canonne, Kamath and Steinke (2020).
    """
    epsilon = check_real("epsilon", epsilon, 0, math.inf)
    delta = check_delta(delta)
    log_inverse = -math.log(delta)
    b = solve(
        lambda b: b * (b / (2 * b + 1)) * (epsilon + math.log1p(1 / b)) + math.log1p(b),
        log_inverse,
    )
    rho = (epsilon + math.log1p(1 / b) - (log_inverse - math.log1p(b)) / b) / (1 + b)
    return _shrink(max(rho, 0.0), lambda rho: zcdp_delta(rho, epsilon) <= delta)


def _order_for_epsilon(rho: float, epsilon: float) -> float:
    return solve(lambda b: (2 * b + 1) * rho - math.log1p(1 / b), epsilon)


def _order_for_delta(rho: float, log_inverse: float) -> float:
    return solve(lambda b: rho * b * b + math.log1p(b), log_inverse)


def _shrink(value: float, is_private: Callable[[float], bool]) -> float:
    """Round a calibrated `value` down, by more than the slack if the check asks for it."""
    slack = _CALIBRATION_SLACK
    while not is_private(value * (1 - slack)):  # usually never
        slack = 2 * slack if slack < 0.25 else (1 + slack) / 2
    return value * (1 - slack)


def _largest(low: float, is_private: Callable[[float], bool]) -> float:
    """Return the largest value, from ``low`` on, that is private, and round it down."""
    high = 2 * low
    while is_private(high):
        low, high = high, 2 * high
    return _shrink(bisected(low, high, 34, is_private)[0], is_private)


def _round_up(delta: float) -> float:
    return min(max(delta * (1 + _REPORT_SLACK), _SMALLEST_DELTA), 1.0)


# Random stopping, and samples. The bound of [2] for any Renyi curve R, with b as above and
# g(b) = b R(1 + b):
#     log delta <= g(b) - b (epsilon + log(1 + 1/b)) - log(1 + b).
# It may have several minima. They are sought around that of the zCDP of a single try.


def calibrate(budget: Any, tries: Tries, others: Event = _NOTHING) -> float:
    """Return the largest rho of a try for which a random stopping and `others` fit a budget.

    Parameters
    ----------
    budget : Budget, or an object with `rho` only
        With a rho only, `rho_of` everything is limited, which allows much less than (epsilon,
        delta).
    tries : TruncatedNegativeBinomial or Poisson
    others : Event, default=NoOpEvent()
        Other releases that the budget pays for, such as a last fit of the best candidate.

    Returns
    -------
    rho : float
        For `RandomStoppingEvent(rho, tries)`.

    Raises
    ------
    ValueError
        If `others` leave nothing.
    TypeError
        If `tries` or `budget` is another object, or the type of an event is unknown.
    """
    return _calibrated(budget, lambda rho: RandomStoppingEvent(rho, tries), others)


def zcdp_beside(budget: Any, others: Event) -> float:
    """Return the largest rho of a `ZCDPEvent` that fits a budget together with `others`.

    The parameters and errors are those of `calibrate`.
    """
    return _calibrated(budget, ZCDPEvent, others)


def _calibrated(budget: Any, event_of: Callable[[float], Event], others: Event) -> float:
    if isinstance(budget, type) or not hasattr(budget, "rho"):
        raise TypeError(f"budget must be a Budget, or an object with rho, got {budget!r}.")
    if not isinstance(others, Event):
        raise TypeError(f"others must be an instance of Event, got {others!r}.")

    def is_private(rho: float) -> bool:
        return allows(budget, compose(others, event_of(rho)))

    rho = budget.rho if allows(budget, others) else 0.0
    while rho > _SMALLEST_RHO and not is_private(rho):
        rho /= 2
    if rho <= _SMALLEST_RHO:
        raise ValueError(
            f"others must leave something of {budget!r}, got {others!r}. (Next to a search, "
            "Gaussian noise counts in zCDP.)"
        )
    return _largest(rho, is_private)


def _has_curve(event: Event) -> bool:
    return any(type(leaf) in _CURVES for leaf, _ in _known_leaves(event))


def _log_moment(event: Event) -> tuple[Callable[[float], float], set[float]]:
    """Return g, and roughly the rho of everything at small and large orders, to search around."""
    found = _known_leaves(event)
    best = [(leaf, k) for leaf, k in found if isinstance(leaf, RandomStoppingEvent)]
    sampled = [(leaf, k) for leaf, k in found if isinstance(leaf, PoissonSampledGaussianEvent)]
    others = ((leaf, k) for leaf, k in found if type(leaf) not in _CURVES)
    rho = math.fsum(k * _RHO[type(leaf)](leaf) for leaf, k in others) * (1 + _REPORT_SLACK)

    def log_moment(b: float) -> float:
        moments = [k * log_moment_of_best(leaf.tries, leaf.rho, b) for leaf, k in best]
        moments += [k * log_moment_of_sample(leaf, b) for leaf, k in sampled]
        return math.fsum([b * rho * (1 + b), *moments])

    near = rho + math.fsum(k * leaf.rho for leaf, k in best)
    # Sampling divides by the square of the probability at small orders, and by nothing at large
    # ones.
    small = math.fsum(k * leaf.rho * leaf.sampling_probability**2 for leaf, k in sampled)
    large = math.fsum(k * leaf.rho for leaf, k in sampled)
    return log_moment, {near + small, near + large}


def _renyi_delta(event: Event, epsilon: float) -> float:
    epsilon = check_real("epsilon", epsilon, 0, math.inf, closed=True)
    log_moment, near = _log_moment(event)

    def log_delta(b: float) -> float:
        return b * (log_moment(b) / b - epsilon - math.log1p(1 / b)) - math.log1p(b)

    least_order = 1e-9 / (1 + epsilon)  # minus 1; below it, delta exceeds 1 - 1e-7
    orders = [max(_order_for_epsilon(rho, epsilon), least_order) for rho in near]
    least = min(log_delta(minimise(log_delta, b)) for b in between(orders))
    return _round_up(math.exp(min(least, 0.0)))


def _renyi_epsilon(event: Event, delta: float) -> float:
    delta = check_delta(delta)
    log_moment, near = _log_moment(event)
    log_inverse = -math.log(delta)

    def epsilon_at(b: float) -> float:
        return (log_moment(b) + log_inverse - math.log1p(b)) / b - math.log1p(1 / b)

    orders = [_order_for_delta(rho, log_inverse) for rho in near]
    epsilon = max(min(epsilon_at(minimise(epsilon_at, b)) for b in between(orders)), 0.0)
    slack = _REPORT_SLACK
    while _renyi_delta(event, epsilon) > delta:  # can happen by rounding only
        epsilon += slack * max(epsilon, 1.0)
        slack *= 2
    return epsilon


# Gaussian noise. The exact curve [3, 4] is
#     delta = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu).
# With x = epsilon/mu - mu/2 and y = x + mu, exp(epsilon) phi(y) = phi(x), so that
#     delta = phi(x) (M(x) - M(y)),  M = (1 - Phi) / phi  (Mills ratio),
# in which nothing overflows.


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta for which mu-GDP implies (epsilon, delta)-DP.

    The curve is that of Theorem 8 of Balle and Wang (2018), and of Corollary 2.13 of Dong, Roth and
    Su (2019).
    """
    mu = check_real("mu", mu, 0, math.inf, closed=True)
    epsilon = check_real("epsilon", epsilon, 0, math.inf, closed=True)
    if mu == 0:
        return 0.0
    mu *= 1 + _REPORT_SLACK
    x = epsilon / mu - mu / 2
    y = epsilon / mu + mu / 2
    if x > 40:  # below the smallest float
        return _SMALLEST_DELTA
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    if mu < 0.01:  # M(x) - M(y) would cancel: integrate -M' = 1 - t M(t) by Gauss-Legendre
        middle, offset = epsilon / mu, mu / 2 * math.sqrt(0.6)
        slopes = [1 - t * _mills(t) for t in (middle - offset, middle, middle + offset)]
        return _round_up(density * mu * (5 * slopes[0] + 8 * slopes[1] + 5 * slopes[2]) / 18)
    if x < 0:  # M(x) alone could overflow
        return _round_up(math.erfc(x / math.sqrt(2)) / 2 - density * _mills(y))
    return _round_up(density * (_mills(x) - _mills(y)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 for which mu-GDP implies (epsilon, delta)-DP."""
    mu = check_real("mu", mu, 0, math.inf, closed=True)
    delta = check_delta(delta)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    # At this epsilon, x = sqrt(2 log(1 / delta)), and delta would be below Phi(-x) <= delta / 2.
    high = mu * (mu / 2 + math.sqrt(-2 * math.log(delta)))
    while gaussian_delta(mu, high) > delta:  # can happen by rounding only
        high *= 2
    return bisected(0.0, high, 50, lambda epsilon: gaussian_delta(mu, epsilon) > delta)[1]


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP implies (epsilon, delta)-DP."""

    def is_private(mu: float) -> bool:
        return gaussian_delta(mu, epsilon) <= delta

    low = _shrink(math.sqrt(2) * math.sqrt(zcdp_rho(epsilon, delta)), is_private)  # as above
    return 0.0 if low == 0 else _largest(low, is_private)  # rho underflows for tiny epsilons


def _mills(x: float) -> float:
    """Return (1 - Phi(x)) / phi(x), to a relative 1e-14."""
    if x < 4:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    fraction = x  # Laplace's continued fraction, x + 1/(x + 2/(x + 3/(x + ...)))
    for k in range(40, 0, -1):
        fraction = x + k / fraction
    return 1 / fraction
