"""What a budget has left, and how releases share it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from ._checks import NEEDS_DELTA
from ._numerics import bisected
from .accounting import allows, gdp_of, is_gaussian, mu_of, pure_epsilon_of, rho_of
from .budget import Budget
from .events import (
    Event,
    GaussianEvent,
    RepeatedEvent,
    SamplerErrorEvent,
    ZCDPEvent,
    compose,
    without_errors,
)

__all__ = [
    "Allowance",
    "Remainder",
    "check_cost",
    "left_after",
    "pure_plan",
    "rho_limit",
    "share_mu",
    "worst_of",
]

_ROOM = 1 - 1e-9  # for the rounding of whoever adds up the epsilons of several fits
_LEAST_PART = 1e-30  # of the largest rho: no grid is fine enough for less


class Allowance(NamedTuple):
    """What earlier releases have left of a `Budget`, in zCDP, and its mu for Gaussian noise.

    Gaussian noise whose total sensitivity over scale is mu costs ``mu**2 / 2`` zCDP.
    """

    rho: float

    @property
    def mu(self) -> float:
        """Largest total sensitivity over standard deviation of Gaussian noise."""
        return (2.0 * self.rho) ** 0.5

    def minus(self, event: Event) -> "Allowance":
        """What is left after ``event``."""
        return Allowance(self.rho - rho_of(event))


@dataclass(frozen=True)
class Remainder:
    """What earlier releases have left of a `Budget` that serves a single fit.

    Parameters
    ----------
    budget : Budget
    spent : Event
        Earlier Gaussian noise, and draws of the exponential mechanism.
    """

    budget: Budget
    spent: Event

    @property
    def epsilon(self) -> float:
        """The budget's epsilon; `allows` counts what is spent."""
        return self.budget.epsilon

    @property
    def delta(self) -> float:
        """The budget's delta; `allows` counts what is spent."""
        return self.budget.delta

    @property
    def max_records_per_unit(self) -> int:
        """Number of records per unit in the budget."""
        return self.budget.max_records_per_unit

    @cached_property
    def rho(self) -> float:
        """What is left in zCDP."""
        return self.budget.rho - rho_of(self.spent)

    @cached_property
    def mu(self) -> float:
        """What is left for Gaussian noise, by the common curve of all mu, or in zCDP."""
        squares = self.budget.mu**2 - gdp_of(self.spent) ** 2
        return math.sqrt(max(squares, 2.0 * self.rho, 0.0)) * (1.0 - 2.0**-40)

    def minus(self, event: Event) -> "Remainder":
        """What is left after ``event``, too."""
        return Remainder(self.budget, compose(self.spent, event))


def left_after(available: Any, event: Event) -> Allowance | Remainder:
    """What is left of a `Budget`, an `Allowance` or a `Remainder` after ``event``.

    Raises
    ------
    ValueError
        If delta is 0: one plan, of all releases, is then made for several allowances.
    """
    if isinstance(available, Budget):
        if available.delta == 0:
            raise ValueError(NEEDS_DELTA)
        return Remainder(available, event)
    return available.minus(event)


def share_mu(mu: float, parts: dict[str, tuple[float, int]]) -> tuple[dict[str, float], Event]:
    """Noise multipliers of Gaussian releases that share ``mu**2``, and their total cost.

    Parameters
    ----------
    mu : float
    parts : dict
        For each kind of release, the share of one release and the number of releases.
    """
    multipliers = {name: 1.0 / (mu * math.sqrt(share)) for name, (share, _) in parts.items()}
    releases = (
        RepeatedEvent(GaussianEvent(multipliers[name]), k) for name, (_, k) in parts.items()
    )
    return multipliers, compose(*releases)


def check_cost(event: Event, budget: Any) -> None:
    """Check that a plan costs at most its budget, whichever solver made it.

    Raises
    ------
    ValueError
        If it costs more.
    """
    gaussian = is_gaussian(event)
    cost, limit = (mu_of(event), budget.mu) if gaussian else (rho_of(event), budget.rho)
    # Noise on samples costs less by its own curve, which a budget of (epsilon, delta) may use.
    if cost > limit * (1.0 + 1e-9) and not allows(budget, event):
        raise ValueError(
            f"The solver's plan costs {'mu' if gaussian else 'rho'}={cost:.6g}, but its budget is "
            f"{limit:.6g}."
        )


def rho_limit(budget: Budget) -> float:
    """The largest cost in zCDP of a release that keeps to a budget.

    With delta = 0 that is necessary and does not suffice: epsilon-differential privacy implies
    epsilon^2 / 2 zCDP, but no rho implies it.
    """
    if budget.delta > 0:
        return budget.rho
    per_record = budget.epsilon / budget.max_records_per_unit
    return 0.5 * per_record * per_record  # a power of a float would raise where this is infinite


def pure_plan(make_plan: Callable[[Any], Any], budget: Budget) -> Any:
    """The plan for the largest rho whose event keeps to a budget with delta = 0.

    Planners divide a rho, and the epsilon0 of their draws grow with it. Whatever a planner does,
    the event that is returned was compared with epsilon: docs/proofs/noise.md, section 6.

    Parameters
    ----------
    make_plan : callable
        ``make_plan(allowance)`` returns an object with an ``event``.
    budget : Budget
        With delta = 0.

    Raises
    ------
    ValueError
        If plans are not purely private, or cost more than epsilon however little they may spend.
    """

    def keeps(rho: float) -> bool:
        return allows(within, make_plan(Allowance(rho)).event)

    within = replace(budget, epsilon=budget.epsilon * _ROOM)
    low = high = limit = rho_limit(budget)
    if pure_epsilon_of(make_plan(Allowance(high)).event) == math.inf:
        raise ValueError(NEEDS_DELTA)
    while not keeps(low):
        if low < _LEAST_PART * limit:
            raise ValueError(
                f"epsilon={budget.epsilon:g} is less than the plan costs, whatever it may spend."
            )
        low, high = low / 4, low
    return make_plan(Allowance(bisected(low, high, 34, keeps)[0]))


def worst_of(events: Sequence[Event]) -> Event:
    """Cost of adaptive releases about disjoint parts of the records.

    A record is in one part only. If none of the costs covers the others, the result is in zCDP.
    Proof: docs/proofs/boosted_mirror_descent.md, section 1.
    """
    if len(set(events)) == 1:
        return events[0]
    exact, etas, betas = zip(*map(without_errors, events), strict=True)
    if max(betas) > 0.0:
        return compose(worst_of(exact), SamplerErrorEvent(max(etas), max(betas)))
    if all(map(is_gaussian, events)):
        return max(events, key=mu_of)
    rho, mu = max(map(rho_of, events)), max(map(gdp_of, events))
    pure = max(map(pure_epsilon_of, events))
    covering = (cost for cost in events if rho_of(cost) >= rho and mu <= gdp_of(cost) < math.inf)
    return next((cost for cost in covering if pure_epsilon_of(cost) >= pure), ZCDPEvent(rho))
