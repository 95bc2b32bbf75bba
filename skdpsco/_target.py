"""Private centre and scale of a regression target. Proof: docs/proofs/target.md."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skdpsco._kernels import njit
from skdpsco.mechanisms import Exponential, exponential_grid, select, to_grid
from skdpsco.privacy import Event, ExponentialMechanismEvent, NoOpEvent, compose

SHARE = 0.03  # of rho, for the centre and for the scale
MAGNITUDE_SHARE = 0.05  # of rho, for the bound if none is declared
# Candidates, in increasing order; centres and scales in units of the bound.
MAGNITUDES = 2.0 ** np.arange(-10, 31)
CENTRES = np.linspace(-1.0, 1.0, 33)
SCALES = 2.0 ** (np.arange(-31, 1) / 3.0)


class Target(NamedTuple):
    """The fit sees ``clip((clip(y, -bound, bound) - centre) / scale, -1, 1)``."""

    bound: float
    centre: float
    scale: float

    def apply(self, y: np.ndarray) -> np.ndarray:
        """The targets that the fit sees."""
        y = np.clip(y, -self.bound, self.bound) - self.centre
        return np.clip(y, -self.scale, self.scale) / self.scale


@dataclass(frozen=True)
class TargetPlan:
    """Which selections are made, and their grids; None where there is none.

    Parameters
    ----------
    bound : float
        Declared, or what is used if no magnitude is released.
    magnitude_grid, centre_grid, scale_grid : float or None
    tail : float
        Share of the records that the scale may clip.
    event : Event
    """

    bound: float
    magnitude_grid: float | None
    centre_grid: float | None
    scale_grid: float | None
    tail: float
    event: Event


def plan_target(bound: float | None, centred: bool, n_samples: int, rho: float) -> TargetPlan:
    """Spend a share of ``rho`` on each release, or nothing where it would be a guess."""

    def selection(share, candidates, score_range, limit) -> tuple[float | None, Event]:
        epsilon0 = math.sqrt(8.0 * share * rho)
        # The chosen score is off by about this many records.
        if score_range / epsilon0 * math.log(len(candidates)) > limit * n_samples:
            return None, NoOpEvent()
        grid = exponential_grid(score_range, epsilon0, 2.0 * n_samples)
        return grid, ExponentialMechanismEvent(epsilon0)

    nothing: tuple[float | None, Event] = (None, NoOpEvent())
    magnitude = centre = nothing
    if bound is None:
        magnitude = selection(MAGNITUDE_SHARE, MAGNITUDES, 1.0, 0.15)
    scale = selection(SHARE, SCALES, 1.0, 0.15)
    if centred:
        centre = selection(SHARE, CENTRES, 2.0, 0.35)
    return TargetPlan(
        bound=1.0 if bound is None else bound,
        magnitude_grid=magnitude[0],
        centre_grid=centre[0],
        scale_grid=scale[0],
        # Clipping more records costs bias, clipping fewer costs noise, which vanishes with n mu.
        tail=min(0.05, 130.0 / (n_samples * math.sqrt(2.0 * rho))),
        event=compose(magnitude[1], centre[1], scale[1]),
    )


def release_target(plan: TargetPlan, y: np.ndarray, rng) -> Target:
    """Choose the bound, the centre and the scale, one after the other."""

    def choose(scores, candidates, grid):
        units = np.empty(len(scores), dtype=np.int64)
        return float(candidates[choose_score(scores, grid, Exponential(), rng, units)])

    bound, centre = plan.bound, 0.0
    if plan.magnitude_grid is not None:
        scores = cover_scores(np.abs(y), MAGNITUDES, plan.tail)
        bound = choose(scores, MAGNITUDES, plan.magnitude_grid)
    y = np.clip(y, -bound, bound)
    if plan.centre_grid is not None:
        candidates = CENTRES * bound
        centre = choose(centre_scores(y, candidates), candidates, plan.centre_grid)
    scale = bound + abs(centre)
    if plan.scale_grid is not None:
        candidates = SCALES * scale
        scores = cover_scores(np.abs(y - centre), candidates, plan.tail)
        scale = choose(scores, candidates, plan.scale_grid)
    return Target(bound, centre, scale)


def count_up_to(values: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Number of values that are at most each of the increasing ``candidates``."""
    first = np.searchsorted(candidates, values)
    return np.bincount(first, minlength=len(candidates) + 1)[:-1].cumsum()


def cover_scores(values: np.ndarray, candidates: np.ndarray, tail: float) -> np.ndarray:
    """High for small candidates that all but a ``tail`` of the values lie below.

    Replacing a value changes counts by 0 or 1, all in one direction: the range of changes is 1.
    """
    n, m = len(values), len(candidates)
    penalty = min(0.5 / m, tail / 3.0) * n  # of the next candidate
    return np.minimum(count_up_to(values, candidates), (1.0 - tail) * n) - penalty * np.arange(m)


def centre_scores(values: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """High for candidates such that few values lie beyond their neighbours on either side.

    Replacing a value changes every score by at most 1, in either direction: the range is 2.
    """
    n, m = len(values), len(candidates)
    up_to = count_up_to(values, candidates)
    below = np.concatenate([[0], up_to[: m - 1]])  # up to the neighbour on the left
    beyond = np.concatenate([n - up_to[1:], [0]])
    return -np.maximum(below, beyond).astype(np.float64)


@njit
def choose_score(scores, grid, mechanism, rng, units):
    """Index of a large score."""
    for k in range(scores.shape[0]):
        units[k] = to_grid(scores[k], grid)
    return select(mechanism, rng, units)
