"""Private centre and scale of a regression target. Proof: docs/proofs/target.md."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skdpsco._kernels import njit
from skdpsco.mechanisms import Exponential, exponential_grid, select, to_grid
from skdpsco.privacy import Event, ExponentialMechanismEvent, NoOpEvent, compose

SHARE = 0.03  # of rho, for each of the two releases
CENTRES = np.linspace(-1.0, 1.0, 33)  # candidates, in units of the declared bound
SCALES = 2.0 ** (-np.arange(32) / 3.0)


class Target(NamedTuple):
    """The fit sees ``clip((y - centre) / scale, -1, 1)``."""

    centre: float
    scale: float


@dataclass(frozen=True)
class TargetPlan:
    """Grids of the two selections, None where there is none.

    Parameters
    ----------
    bound : float
        Targets are clipped to ``[-bound, bound]`` first.
    grid : float or None
    centred : bool
    tail : float
        Share of the records that the scale may clip.
    event : Event
    """

    bound: float
    grid: float | None
    centred: bool
    tail: float
    event: Event


def plan_target(bound: float, centred: bool, n_samples: int, rho: float) -> TargetPlan:
    """Spend `SHARE` of ``rho`` on each release, or nothing where it would be a guess."""
    epsilon0 = math.sqrt(8.0 * SHARE * rho)
    # The chosen count is off by about (2 / epsilon0) log(candidates) records.
    if 2.0 / epsilon0 * math.log(len(CENTRES)) > 0.35 * n_samples:
        return TargetPlan(bound, None, False, 0.0, NoOpEvent())
    one = ExponentialMechanismEvent(epsilon0)
    # Clipping more records costs bias, clipping fewer costs noise, which vanishes with n mu.
    tail = min(0.05, 130.0 / (n_samples * math.sqrt(2.0 * rho)))
    return TargetPlan(
        bound=bound,
        grid=exponential_grid(2.0, epsilon0, 2.0 * n_samples),
        centred=centred,
        tail=tail,
        event=compose(one, one) if centred else one,
    )


def release_target(plan: TargetPlan, y: np.ndarray, rng) -> Target:
    """Choose the centre (a median) and the scale (a quantile of the distance from it)."""
    y = np.clip(y, -plan.bound, plan.bound)
    if plan.grid is None:
        return Target(0.0, plan.bound)

    def quantile(values, candidates, rank):
        units = np.empty(len(candidates), dtype=np.int64)
        k = select_quantile(values, candidates, rank, plan.grid, Exponential(), rng, units)
        return float(candidates[k])

    n = len(y)
    centre = 0.0
    if plan.centred:
        centre = quantile(y, CENTRES * plan.bound, 0.5 * n)
    scales = SCALES * (plan.bound + abs(centre))
    return Target(centre, quantile(np.abs(y - centre), scales, (1.0 - plan.tail) * n))


@njit
def select_quantile(values, candidates, rank, grid, mechanism, rng, units):
    """Index of a candidate below which about ``rank`` values lie (exponential mechanism).

    The score ``-abs(count - rank)`` of a candidate changes by at most 1 if a value is replaced.
    """
    for k in range(candidates.shape[0]):
        count = 0
        for i in range(values.shape[0]):
            if values[i] <= candidates[k]:
                count += 1
        units[k] = to_grid(-abs(count - rank), grid)
    return select(mechanism, rng, units)
