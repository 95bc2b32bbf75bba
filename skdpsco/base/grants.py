"""Shares of one budget: what a part of a fit may charge in place of the ledger of the whole."""

from typing import Any

from skdpsco.privacy import BudgetExceededError, Event, rho_of
from skdpsco.privacy.relations import ADD_OR_REMOVE

__all__ = ["Grant", "ReachedNoise", "Rehearsal"]


class Grant:
    """Replaces the ledger in one fit, and holds only that fit's share of the budget.

    Parameters
    ----------
    rho : float
    prefix : str, default=""
        Prefix of the parameter names of a search's step.
    seed : int or None, default=None
        Seed of public randomness if the step is itself a search, so that its fit equals the
        rehearsed one up to the first noise.
    max_records_per_unit : int, default=1
        The same number as for the ledger. ``rho`` is for the replacement of one record, as charges
        are.
    """

    def __init__(
        self,
        rho: float,
        prefix: str = "",
        seed: int | None = None,
        max_records_per_unit: int = 1,
    ) -> None:
        self.rho: float = rho
        self.prefix: str = prefix
        self.seed: int | None = seed
        self.max_records_per_unit = max_records_per_unit
        self.charges: list[float] = []

    def charge(self, event: Event, estimator: str = "", *args: Any) -> None:
        """Refuse a charge that exceeds the share, and every charge but the first."""
        if ADD_OR_REMOVE in args:
            raise ValueError(f"relation of {estimator} must be 'replace-one' in a search.")
        rho = rho_of(event)
        self.charges.append(rho)  # before the check, so that one of two threads is refused
        if len(self.charges) > 1 or not rho <= self.rho * (1 + 1e-12):
            left = self.rho if len(self.charges) == 1 else 0.0
            raise BudgetExceededError(
                f"{estimator} costs rho={rho:.6g} and was granted {left:.6g}: a fit of a "
                "search, or of one of its steps or targets, was repeated."
            )

    def __copy__(self) -> "Grant":
        return self  # clones of one step share it

    def __deepcopy__(self, memo: dict[int, Any]) -> "Grant":
        return self


class ReachedNoise(Exception):
    """Raised, with the step's prefix, when a step has passed all checks before its first noise."""


class Rehearsal(Grant):
    """Ends a fit before it would draw its first noise."""

    def charge(self, event: Event, estimator: str = "", *args: Any) -> None:
        """Stop a fit that has reached its noise, after the same checks."""
        super().charge(event, estimator, *args)
        raise ReachedNoise(self.prefix)
