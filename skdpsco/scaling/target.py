"""Private bound, centre and scale of a regression target. Proof: docs/proofs/target.md."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco.data.record_sums import BlockDesign, map_reduce
from skdpsco.mechanisms.samplers import gaussian_grid
from skdpsco.privacy import Event, GaussianEvent, NoOpEvent, RepeatedEvent, compose
from skdpsco.privacy._cache import cached
from skdpsco.scaling.quantiles import search

__all__ = ["Target", "TargetPlan", "declared_target", "least_n_mu", "plan_target", "release_target"]


class TargetTuning(NamedTuple):
    """Constants of the searches, chosen by hand; n mu are those of one search, unless said.

    Parameters
    ----------
    n_counts : int
        Number of counts of a search.
    certain, certain_scale : float
        The n mu with which a search hardly ever ends far from the quantile: for a magnitude or a
        centre, which may be anywhere, and for the scale, which is near the magnitude.
    share : float
        Least share of rho for a magnitude, and for the scale. The more, the smaller a minority
        of targets, beside many that are equal, is seen.
    least_centre : float
        Least share of rho for each search of a centre.
    most : float
        Largest share of all searches together, where records are few.
    tail : float
        Share of the targets beyond the magnitude, and beyond the scale, times n mu.
    most_tail : float
        The largest such share.
    closer : float
        The n mu of the fit above which the centre is searched closer, and at twice of which with
        certainty.
    prior : float
        How much less likely a magnitude is before any data for every factor of 2 between it and 1,
        or a scale for those between it and the magnitude, as the logarithm of a probability.
    """

    n_counts: int = 20
    certain: float = 18.0
    certain_scale: float = 10.0
    share: float = 0.08
    least_centre: float = 0.01
    most: float = 0.8
    tail: float = 7.0
    most_tail: float = 0.4
    closer: float = 25.0
    prior: float = 0.1


TARGET = TargetTuning()

# Candidates, in increasing order: 8 in an octave. Centres and scales are in units of the bound, or
# of the magnitude, which most targets hardly exceed. The first count is not at a centre of 0, on
# both sides of which there may be as many targets: such a count says nothing.
MAGNITUDES = 2.0 ** np.arange(-64.0, 64.125, 0.125)
CENTRES = np.linspace(-1.0, 1.25, 4097)
REACH = 1.25
CLOSER = 2.0**-10  # of the second search of a centre: two steps of the first one, each way
SCALES = 2.0 ** np.arange(-22.0, 2.125, 0.125)
STEADY_TAIL = 0.05
STEADY_N_MU = 2600.0  # above which a steady scale has slack
FAINTEST = 1e-3  # of a search that is made
# The least scale if the bound is found: balls that are huge in units of the scale have no plan.
LEAST_SCALE = 2.0**-38

FIELD = "t"  # the target's name in arrays with other fields, such as the groups of a record


class Target(NamedTuple):
    """The fit sees ``clip((clip(y, -bound, bound) - centre) / scale, -1, 1)``.

    ``spread`` is the scale of most targets, in units of ``scale``.
    """

    bound: float
    centre: float
    scale: float
    spread: float = 1.0

    @property
    def range(self) -> np.ndarray:
        """The interval that clipped targets lie in, in the user's units."""
        ends = self.centre - self.scale, self.centre + self.scale
        return np.clip(ends, -self.bound, self.bound)

    def apply(self, y: np.ndarray) -> np.ndarray:
        """The targets that the fit sees; of records with fields only those in `FIELD`."""
        if y.dtype.names:
            y = y.copy()
            y[FIELD] = self.apply(y[FIELD])
            return y
        y = np.clip(y, -self.bound, self.bound) - self.centre
        return np.clip(y, -self.scale, self.scale) / self.scale


class Search(NamedTuple):
    """The grid of every count, how many targets may exceed what is found, number of counts."""

    grid: float
    tolerated: float
    n_counts: int


@dataclass(frozen=True)
class TargetPlan:
    """The searches that are made.

    Parameters
    ----------
    bound : float or None
        The declared bound.
    magnitude : Search or None
        None if a bound is declared.
    centre : tuple of Search
        Searches for the centre, the second closer around the first; empty if it is 0.
    scale : Search or None
        None if nothing is released.
    event : Event
    least_scale : float, default=0.0
        What a scale that is found is not below.
    slack : float, default=1.0
        Factor of the scale that is found.
    """

    bound: float | None
    magnitude: Search | None
    centre: tuple[Search, ...]
    scale: Search | None
    event: Event
    least_scale: float = 0.0
    slack: float = 1.0

    part: ClassVar[str] = "target"
    name: ClassVar[str] = "range of the target"

    @property
    def extremes(self) -> tuple[Target, ...]:
        """Targets of the smallest and of the largest scale that may be found."""
        if self.scale is None:
            assert self.bound is not None
            return (Target(self.bound, 0.0, self.bound),)
        low, high = MAGNITUDES[[0, -1]] if self.bound is None else (self.bound, self.bound)
        scales = (
            max(float(low * SCALES[0]), self.least_scale),
            max(float(high * SCALES[-1]) * self.slack, self.least_scale),
        )
        return tuple(Target(float(high), 0.0, scale) for scale in scales)

    def release(self, X: Any, y: Any, rng: Any) -> Any:
        """See `release_target`."""
        return release_target(self, y, rng, X)

    def apply(self, target: Target, X: Any, y: Any) -> tuple[Any, Any]:
        """The design with targets in [-1, 1]; the design of blocks holds its targets."""
        if isinstance(X, BlockDesign):
            return X.with_targets(target.apply), y
        return X, None if y is None else target.apply(y)  # a stream has them in these units

    def note(self, target: Target) -> str:
        """A line for the report."""
        return f"targets are clipped to ±{target.bound:g}"


def least_n_mu() -> float:
    """``n_samples * sqrt(2 * rho)`` above which a target without a bound has its scale found."""
    parts = 2.0 * TARGET.certain**2 + TARGET.certain_scale**2
    return math.sqrt(parts / TARGET.most)


def declared_target(bound: float) -> TargetPlan:
    """Release nothing: targets are in units of their declared bound."""
    return TargetPlan(bound, None, (), None, NoOpEvent())


@cached(64)
def plan_target(
    bound: float | None,
    centred: bool,
    n_samples: int,
    rho: float,
    n_targets: int = 1,
    steady: bool = False,
) -> TargetPlan:
    """Spend a share of ``rho`` on each search.

    With few records all of them have less than they need, and find what their prior says.

    Parameters
    ----------
    bound : float or None
        The declared bound.
    centred : bool
        Whether a centre is released.
    n_samples : int
    rho : float
    n_targets : int, default=1
        Number of targets of a record, all of which get the same centre and scale.
    steady : bool, default=False
        Whether the scale is that of most targets however many records there are: fewer targets are
        clipped by slack then, and `Target.spread` tells the scale without it.
    """
    mu = math.sqrt(2.0 * rho)
    n_mu, n_values = n_samples * mu, float(n_samples * n_targets)
    sure = (TARGET.certain / n_mu) ** 2
    centre = max(sure, TARGET.least_centre)
    closer = centre * min(n_mu / TARGET.closer - 1.0, 1.0)
    scale = max((TARGET.certain_scale / n_mu) ** 2, TARGET.share)
    magnitude = max(sure, TARGET.share) if bound is None else 0.0
    least = TARGET.most / (magnitude + centred * (centre + max(closer, 0.0)) + scale)
    events: list[Event] = []

    def planned(share: float, tail: float | None = None) -> Search:
        """A search for the median, if there is no ``tail`` that is the least."""
        share *= min(least, 1.0)
        multiplier = math.sqrt(TARGET.n_counts / share) / mu
        events.append(RepeatedEvent(GaussianEvent(multiplier), TARGET.n_counts))
        if tail is None:
            tail = 0.5
        else:
            tail = min(max(TARGET.tail / (n_mu * math.sqrt(share)), tail), TARGET.most_tail)
        grid = gaussian_grid(float(n_targets), multiplier, 1, n_values)
        return Search(grid, tail * n_values, TARGET.n_counts)

    least_tail = STEADY_TAIL if steady else 0.0
    return TargetPlan(
        bound,
        magnitude=planned(magnitude, least_tail) if bound is None else None,
        centre=tuple(planned(share) for share in (centre, closer) if share > FAINTEST * sure)
        if centred
        else (),
        scale=planned(scale, least_tail),
        event=compose(*events),
        least_scale=LEAST_SCALE if bound is None else 0.0,
        slack=math.sqrt(max(n_mu / STEADY_N_MU, 1.0)) if steady else 1.0,
    )


def release_target(
    plan: TargetPlan, y: np.ndarray | None, rng: np.random.Generator, X: Any = None
) -> Target:
    """Search for the magnitude, the centre and the scale, one after the other.

    ``y`` is None if the blocks ``X`` hold the targets.
    """
    if plan.scale is None:
        return plan.extremes[0]
    in_order = y is not None  # in arrays they are sorted once, in blocks for every search
    if in_order:
        y = np.sort(targets_of(y))
    bound = math.inf if plan.bound is None else plan.bound

    def found(one, candidates, log_prior=None, centre=0.0, magnitudes=True):
        up_to, n = map_reduce(X, y, count_targets, bound, centre, magnitudes, candidates, in_order)
        k = search((n - up_to).astype(np.float64), one, log_prior, rng)
        return float(candidates[k])

    def prior(candidates):
        return -TARGET.prior * np.abs(np.log2(candidates))

    unit, centre = bound, 0.0
    if plan.magnitude is not None:
        unit = found(plan.magnitude, MAGNITUDES, prior(MAGNITUDES))
    reach = REACH * unit if plan.bound is None else unit
    for one in plan.centre:
        centre = found(one, centre + reach * CENTRES, magnitudes=False)
        reach *= CLOSER
    centre = max(-bound, min(bound, centre))
    largest = bound + abs(centre)
    scale = min(found(plan.scale, unit * SCALES, prior(SCALES), centre), largest)
    scale = max(scale, plan.least_scale)
    slack = min(plan.slack, max(largest / scale, 1.0))
    bound = abs(centre) + slack * scale if plan.bound is None else plan.bound
    return Target(bound, centre, slack * scale, 1.0 / slack)


def targets_of(y: Any) -> np.ndarray:
    """All targets of records that may have several, and other fields."""
    return (y[FIELD] if y.dtype.names else y).ravel()


def count_targets(
    X: Any,
    y: np.ndarray,
    bound: float,
    centre: float,
    magnitudes: bool,
    candidates: np.ndarray,
    in_order: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Number of clipped targets less ``centre`` up to each candidate, and of all.

    With ``magnitudes`` it counts magnitudes; ``in_order`` says that ``y`` is increasing.
    """
    values = y if in_order else np.sort(targets_of(y))
    up_to = count_clipped(values, bound, centre + candidates, "right")
    if magnitudes:
        up_to = np.maximum(up_to - count_clipped(values, bound, centre - candidates, "left"), 0)
    return up_to, np.array(len(values))


def count_clipped(values: np.ndarray, bound: float, limits: np.ndarray, side: Any) -> np.ndarray:
    """Number of increasing values, clipped to the bound, up to each limit, or below if "left"."""
    all_, none = limits >= bound, limits < -bound
    if side == "left":
        all_, none = limits > bound, limits <= -bound
    limits = np.where(all_, np.inf, np.where(none, -np.inf, limits))
    return np.searchsorted(values, limits, side)
