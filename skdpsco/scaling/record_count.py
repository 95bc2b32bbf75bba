"""A private number of records, from which a fit is planned. Proof: docs/proofs/added_records.md."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco.data.pieces import MOST_RECORDS_ADDED
from skdpsco.mechanisms.samplers import GRID_LIMIT, gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Budget, Event
from skdpsco.privacy.spending import Allowance, Remainder, left_after, share_mu

__all__ = ["RECORD_COUNT", "CountPlan", "plan_count"]

POWERS_OF_FOUR = tuple(4**k for k in range(14))  # numbers of records


class CountTuning(NamedTuple):
    """Constants of the release, which were not fitted.

    Parameters
    ----------
    share : float
        Share of rho, for which all other noise is 1 % larger.
    sizes : tuple of int
        Numbers of records for which a fit is rehearsed: it must have a plan for every count.
    """

    share: float = 0.02
    sizes: tuple[int, ...] = POWERS_OF_FOUR


RECORD_COUNT = CountTuning()


@dataclass(frozen=True)
class CountPlan:
    """How the records are counted, and what is left for everything else.

    Parameters
    ----------
    event : Event
    grid : float
    left : Allowance or Remainder
    """

    event: Event
    grid: float
    left: Allowance | Remainder

    part: ClassVar[str] = "count"
    name: ClassVar[str] = "number of records"

    @property
    def most(self) -> int:
        """How many records there may be: as many as the grid holds."""
        return int(min(self.grid * (GRID_LIMIT // 2), MOST_RECORDS_ADDED))

    def release(self, n_samples: int, rng: np.random.Generator) -> int:
        """The number of records with noise, and at least 1."""
        count = np.array([float(n_samples)])
        gaussian_mechanism(rng, count, self.grid)
        return min(max(round(count[0]), 1), self.most)


def plan_count(budget: Any) -> CountPlan:
    """Spend a share of a budget's ``rho`` on the number of records, and keep the rest.

    Raises
    ------
    ValueError
        If the noise is too large for the grid.
    """
    whole = Allowance(budget.rho)
    multiplier, event = share_mu(whole.mu, {"count": (RECORD_COUNT.share, 1)})
    left = left_after(budget if isinstance(budget, Budget) else whole, event)
    # Larger counts than the grid holds would be clamped: fits to so many records are refused.
    grid = gaussian_grid(1.0, multiplier["count"], 1, 1.0)
    return CountPlan(event, grid, left)
