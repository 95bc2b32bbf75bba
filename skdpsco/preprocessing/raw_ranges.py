"""Private ranges of columns, found as a linear model finds them."""

import math
from collections.abc import Callable
from typing import Any

from skdpsco.privacy.spending import left_after
from skdpsco.scaling.conditioning import CONDITIONING, conditioning_pays, plan_conditioning
from skdpsco.scaling.feature_bounds import FEATURE_BOUNDS, plan_bounds

__all__ = ["TOO_FEW", "plan_raw_ranges", "records_for_ranges"]

TOO_FEW = (
    "Bounds of the columns cannot be found from {} at epsilon={:g}, so that they are -1 and 1. "
    "Declare lower and upper. Without them {} records would do."
)


def records_for_ranges(n_features: int, rho: float) -> int:
    """The least number of records with which ranges of columns are more than noise."""
    least = max(FEATURE_BOUNDS.least_n_mu, CONDITIONING.least_ratio * math.sqrt(n_features))
    return math.ceil(1.01 * least / math.sqrt(2.0 * rho))


def plan_raw_ranges(
    planned: Callable[..., Any],
    n_samples: int,
    n_features: int,
    available: Any,
    sparse: bool = False,
) -> tuple[tuple[Any, ...], Any]:
    """Stages that find bounds of columns and, if that pays, their centres and scales.

    Parameters
    ----------
    planned : callable
        ``planned(make_plan, available)`` returns ``make_plan(available)``, or raises an error that
        says what to change.
    n_samples, n_features : int
    available : Budget, Allowance or Remainder
    sparse : bool, default=False
        Whether records are sparse.

    Returns
    -------
    stages : tuple of BoundPlan and ConditioningPlan
    left : Allowance or Remainder
        What the stages leave for the release that follows.
    """
    n, d, mu = n_samples, n_features, available.mu
    bounds = planned(lambda spend: plan_bounds(n, d, spend.rho), available)
    left = left_after(available, bounds.event)
    if not conditioning_pays(n, d, mu):
        return (bounds,), left
    centring = planned(lambda _: plan_conditioning(n, d, mu, sparse=sparse), left)
    return (bounds, centring), left_after(left, centring.event)
