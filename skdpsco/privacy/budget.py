"""The privacy budget, as users state it."""

import math
from dataclasses import dataclass

from ._cache import cached
from ._checks import check_real
from .accounting import gaussian_mu, zcdp_epsilon, zcdp_rho

# A plan asks for them many times.
_rho, _mu = cached(64)(zcdp_rho), cached(64)(gaussian_mu)


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta)-differential privacy budget; neighbours replace one record.

    Parameters
    ----------
    epsilon : float
        Finite number > 0.
    delta : float
        Number in the open interval (0, 1), which should be far below 1 / n_samples.

    Examples
    --------
    >>> from skdpsco.privacy import Budget
    >>> budget = Budget(epsilon=1.0, delta=1e-6)
    >>> f"{budget.rho:.6f} {budget.mu:.6f}"
    '0.024356 0.236704'
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        # Stored as floats, so that equal budgets hash and print alike.
        object.__setattr__(self, "epsilon", check_real("epsilon", self.epsilon, 0, math.inf))
        object.__setattr__(self, "delta", check_real("delta", self.delta, 0, 1))

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
        """Largest rho such that rho-zCDP implies this budget (Canonne, Kamath & Steinke 2020)."""
        return _rho(self.epsilon, self.delta)

    @property
    def mu(self) -> float:
        """Largest mu such that mu-GDP implies this budget (Balle & Wang 2018; Dong et al. 2019).

        It is for algorithms whose only noise is Gaussian, and is never below sqrt(2 rho).
        """
        return _mu(self.epsilon, self.delta)
