"""The privacy budget, as users state it."""

import math
from dataclasses import dataclass, field

from ._cache import cached
from ._checks import check_delta, check_int, check_real
from .accounting import gaussian_mu, zcdp_epsilon, zcdp_rho
from .relations import LARGEST_UNIT

__all__ = ["Budget", "check_unit"]

# A plan asks for them many times.
_rho, _mu = cached(64)(zcdp_rho), cached(64)(gaussian_mu)


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta)-differential privacy budget; neighbours replace one unit of records.

    Parameters
    ----------
    epsilon : float
        Finite number > 0.
    delta : float
        Number in [0, 1), which should be far below 1 / n_samples. 0 is pure differential privacy,
        which only releases without Gaussian noise keep.
    max_records_per_unit : int, default=1
        How many records are replaced at once, at most: 1 protects each record by itself, and k
        protects all records of a person who has at most k. `rho` and `mu` are what a release may
        cost for the replacement of one record, so that the replacement of k keeps to epsilon and
        delta.

    Raises
    ------
    TypeError
        If a parameter is not a number, or ``max_records_per_unit`` not an integer.
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from skdpsco.privacy import Budget
    >>> budget = Budget(epsilon=1.0, delta=1e-6)
    >>> f"{budget.rho:.6f} {budget.mu:.6f}"
    '0.024356 0.236704'
    >>> f"{Budget(epsilon=1.0, delta=1e-6, max_records_per_unit=2).rho:.6f}"
    '0.006089'
    """

    epsilon: float
    delta: float
    max_records_per_unit: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        # Stored as floats, so that equal budgets hash and print alike.
        object.__setattr__(self, "epsilon", check_real("epsilon", self.epsilon, 0, math.inf))
        object.__setattr__(self, "delta", check_delta(self.delta, pure=True))
        object.__setattr__(self, "max_records_per_unit", check_unit(self.max_records_per_unit))

    @classmethod
    def from_rho(cls, rho: float, delta: float) -> "Budget":
        """Return the largest budget with this delta that ``rho`` zCDP, > 0, can pay for.

        Raises
        ------
        ValueError
            If ``rho`` is too small for any epsilon.
        """
        epsilon = zcdp_epsilon(rho, delta)
        while epsilon > 0 and zcdp_rho(epsilon, delta) > rho:
            epsilon *= 1 - 1e-12
        return cls(epsilon, delta)

    @property
    def rho(self) -> float:
        """Largest rho such that rho-zCDP implies this budget (Canonne, Kamath & Steinke 2020).

        For units of k records it is divided by k^2 (Bun & Steinke 2016, Proposition 1.9). No rho
        implies delta = 0: ValueError.
        """
        return _rho(self.epsilon, self.delta) / self.max_records_per_unit**2

    @property
    def mu(self) -> float:
        """Largest mu such that mu-GDP implies this budget (Balle & Wang 2018; Dong et al. 2019).

        It is for algorithms whose only noise is Gaussian, and is never below sqrt(2 rho). For units
        of several records it is sqrt(2 rho), since the cost of such a budget counts in zCDP. No mu
        implies delta = 0: ValueError.
        """
        if self.max_records_per_unit > 1:
            return math.sqrt(2 * self.rho)
        return _mu(self.epsilon, self.delta)


def check_unit(max_records_per_unit: object) -> int:
    """Return the number of records of a unit as an int, after a check."""
    return check_int("max_records_per_unit", max_records_per_unit, high=LARGEST_UNIT)
