"""Private centre and scale of a regression target. Proof: docs/proofs/target.md."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco.data.record_sums import BlockDesign, map_reduce
from skdpsco.mechanisms.samplers import exponential_grid
from skdpsco.privacy import Event, ExponentialMechanismEvent, NoOpEvent, compose
from skdpsco.scaling.quantiles import choose, count_up_to, cover_scores_of, quantile_scores_of


class TargetTuning(NamedTuple):
    """Constants of the releases; examples/benchmarks/robustness.py shows how well they do.

    Parameters
    ----------
    magnitude_share, centre_share, scale_share : tuple of float
        Share of rho for the bound if none is declared, for the centre and for the scale, and the
        largest share, for few records.
    tail, least_tail : float
        Largest share of the records of a group that the scale may clip, and the least number of
        records that it may, times mu: fewer could not be counted.
    penalty : float
        How many more targets a scale must cover than the next smaller one, in units of the noise,
    least_penalty, most_penalty : float
        and the least and the largest sum of these over all candidates, as shares of the targets.
    """

    magnitude_share: tuple[float, float] = (0.05, 0.3)
    centre_share: tuple[float, float] = (0.03, 0.3)
    scale_share: tuple[float, float] = (0.03, 0.15)
    tail: float = 0.05
    least_tail: float = 8.0
    penalty: float = 2.0
    least_penalty: float = 0.05
    most_penalty: float = 0.4


TARGET = TargetTuning()

# Candidates, in increasing order; centres and scales in units of the bound.
MAGNITUDES = 2.0 ** np.arange(-10, 31)
CENTRES = np.linspace(-1.0, 1.0, 65)
ZOOM = 2.0**-4  # of the next choice of a centre: two steps of the last one, each way
MOST_CENTRES = 5  # choices
SCALES = 2.0 ** (np.arange(-9, 1) * (8.0 / 3.0))
FINE_SCALES = 2.0 ** (np.arange(-15, 1) / 3.0)  # in units of the first choice, one step below too

FIELD = "t"  # the target's name in arrays with other fields, such as the groups of a record


class Target(NamedTuple):
    """The fit sees ``clip((clip(y, -bound, bound) - centre) / scale, -1, 1)``."""

    bound: float
    centre: float
    scale: float

    def apply(self, y: np.ndarray) -> np.ndarray:
        """The targets that the fit sees; of records with fields only those in `FIELD`."""
        if y.dtype.names:
            y = y.copy()
            y[FIELD] = self.apply(y[FIELD])
            return y
        y = np.clip(y, -self.bound, self.bound) - self.centre
        return np.clip(y, -self.scale, self.scale) / self.scale


@dataclass(frozen=True)
class TargetPlan:
    """The selections that are made, and their grids, which are None for omitted selections.

    Parameters
    ----------
    bound : float
        The declared bound, or the one that is used if no magnitude is released.
    magnitude_grid, centre_grid, scale_grid : float or None
    quantile : float
        Share of the targets that the magnitude should cover.
    tail : float
        Share of the targets that the scale may clip.
    penalties : tuple of float
        How many more targets a scale must cover than the next smaller one, in both choices.
    event : Event
    n_centres : int
        Number of choices of the centre, one around the other.
    least_scale : float, default=0.0
        What neither a magnitude nor a scale that is found is below.
    slack : float, default=1.0
        Factor of the scale that is found, up to what no target exceeds.
    """

    bound: float
    magnitude_grid: float | None
    centre_grid: float | None
    scale_grid: float | None
    quantile: float
    tail: float
    penalties: tuple[float, float]
    event: Event
    n_centres: int = 0
    least_scale: float = 0.0
    slack: float = 1.0

    part: ClassVar[str] = "target"

    @property
    def extremes(self) -> tuple[Target, ...]:
        """Targets of the smallest and of the largest scale that may be found."""
        if isinstance(self.event, NoOpEvent):
            return (Target(self.bound, 0.0, self.bound),)
        low = high = self.bound
        if self.magnitude_grid is not None:
            low, high = 4.0 * float(MAGNITUDES[0]), 4.0 * float(MAGNITUDES[-1])
        least = max(low * float(SCALES[0] * FINE_SCALES[0]), self.least_scale)
        scales = (least, max(2.0 * high, least))
        return tuple(Target(high, 0.0, scale) for scale in scales)

    def release(self, X: Any, y: Any, rng: Any) -> Target:
        """See `release_target`."""
        return release_target(self, y, rng, X)

    def apply(self, target: Target, X: Any, y: Any) -> tuple[Any, Any]:
        """The design with targets in [-1, 1]; the design of blocks holds its targets."""
        if isinstance(X, BlockDesign):
            return X.with_targets(target.apply), y
        return X, None if y is None else target.apply(y)  # a stream has them in these units

    def note(self, target: Target) -> str:
        """A line for the report."""
        return f"targets are clipped to +-{target.bound:g}"


def charge_of(
    shares: tuple[float, float], n_samples: int, rho: float, margin: float, n_draws: int = 1
) -> float:
    """``epsilon0`` of each of some draws, for a share of ``rho`` within limits.

    The share grows until ``n_samples * epsilon0`` is ``margin``, as far as the limits allow. All of
    this is public.
    """
    needed = (margin / n_samples) ** 2 * n_draws / (8.0 * rho) * (1.0 + 1e-6)
    share = min(max(shares[0], needed), shares[1])
    return math.sqrt(8.0 * share / n_draws * rho)


def declared_target(bound: float) -> TargetPlan:
    """Release nothing: targets are in units of their declared bound."""
    return TargetPlan(bound, None, None, None, 0.6, 0.05, (0.0, 0.0), NoOpEvent())


def plan_target(
    bound: float | None,
    centred: bool,
    n_samples: int,
    rho: float,
    n_targets: int = 1,
    n_known: float | None = None,
) -> TargetPlan:
    """Spend a share of ``rho`` on each release, or nothing if it would be a guess.

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
    n_known : float or None, default=None
        Number of records as if all groups of records were as small as the smallest, so that the
        tail does not hold most of a group; None if there are no groups.
    """
    # Clipping more records costs bias, clipping fewer costs noise, which vanishes with n mu.
    n_mu = n_samples * math.sqrt(2.0 * rho)
    smallest = (n_samples if n_known is None else n_known) / (n_samples * n_targets)
    tail = min(max(TARGET.tail * smallest, TARGET.least_tail / n_mu), TARGET.tail, 130.0 / n_mu)
    n_values = float(n_samples * n_targets)
    grids: dict[str, float | None] = dict.fromkeys(("magnitude", "centre", "scale"))
    event: Event = NoOpEvent()

    # A draw is not a guess if the scores of wrong candidates are lower by a bit more than
    # log(candidates), in units of the noise.
    margin = math.log(len(MAGNITUDES)) + 4.0
    epsilon0 = charge_of(TARGET.magnitude_share, n_samples, rho, margin / 0.2)
    quantile = min(max(0.6, 1.0 - 18.0 / (n_samples * epsilon0)), 1.0 - tail)
    if bound is None and (1.0 - quantile) * n_samples * epsilon0 / 2.0 > margin:
        grids["magnitude"] = exponential_grid(2.0 * n_targets, epsilon0, 2.0 * n_values)
        event = compose(event, ExponentialMechanismEvent(epsilon0))

    # The centre is chosen again around the last choice, as often as no choice is a guess.
    margin, n_centres = math.log(len(CENTRES)) + 2.5, 0
    for n_draws in range(MOST_CENTRES, 0, -1):
        epsilon0 = charge_of(TARGET.centre_share, n_samples, rho, margin / 0.25, n_draws)
        if centred and 0.25 * n_samples * epsilon0 > margin:
            grids["centre"] = exponential_grid(2.0 * n_targets, epsilon0, 2.0 * n_values)
            event = compose(event, *(ExponentialMechanismEvent(epsilon0),) * n_draws)
            n_centres = n_draws
            break
    margin = math.log(len(SCALES)) + 0.5
    epsilon0 = charge_of(TARGET.scale_share, n_samples, rho, margin / 0.15, 2)
    if 0.15 * n_samples * epsilon0 > margin:
        grids["scale"] = exponential_grid(1.0 * n_targets, epsilon0, 2.0 * n_values)
        event = compose(event, *(ExponentialMechanismEvent(epsilon0),) * 2)

    # Enough to tell candidates apart that all cover, but in total no more than some targets: most
    # may be alike, and the scale is that of the others.
    range_share = n_samples / len(SCALES)  # of the first choice, of which a fine step is an eighth
    coarse = max(TARGET.penalty / epsilon0, TARGET.least_penalty * range_share)
    fine = max(TARGET.penalty / epsilon0, TARGET.least_penalty * range_share / 8.0)
    coarse = min(coarse, TARGET.most_penalty * range_share)
    fine = min(fine, TARGET.most_penalty * n_samples / len(FINE_SCALES), tail * n_samples / 3.0)
    # Noise on a grid is not arbitrarily small, and a scale that is too large costs precision.
    fine = max(fine, n_samples * 2.0**-20)

    return TargetPlan(
        bound=1.0 if bound is None else bound,
        magnitude_grid=grids["magnitude"],
        centre_grid=grids["centre"],
        scale_grid=grids["scale"],
        quantile=quantile,
        tail=tail,
        penalties=(coarse * n_targets, fine * n_targets),
        event=event,
        n_centres=n_centres,
    )


def release_target(
    plan: TargetPlan, y: np.ndarray | None, rng: np.random.Generator, X: Any = None
) -> Target:
    """Choose the bound, the centre and the scale, one after the other.

    ``y`` is None if the blocks ``X`` hold the targets.
    """
    bound, centre = plan.bound, 0.0

    def counts(bound, centre, magnitudes, candidates):
        return map_reduce(X, y, count_targets, bound, centre, magnitudes, candidates)

    if plan.magnitude_grid is not None:
        up_to, n = counts(math.inf, 0.0, True, MAGNITUDES)
        scores = quantile_scores_of(up_to, n, plan.quantile)
        bound = 4.0 * choose(scores, MAGNITUDES, plan.magnitude_grid, rng)
        bound = max(bound, plan.least_scale)
    if plan.centre_grid is not None:
        for k in range(plan.n_centres):
            candidates = centre + bound * ZOOM**k * CENTRES
            up_to, n = counts(bound, 0.0, False, candidates)
            scores = quantile_scores_of(up_to, n, 0.5)
            centre = choose(scores, candidates, plan.centre_grid, rng)
        centre = max(-bound, min(bound, centre))
    scale = bound + abs(centre)
    if plan.scale_grid is not None:
        for sizes, penalty in zip((SCALES, FINE_SCALES), plan.penalties, strict=True):
            covers = sizes * scale
            up_to, n = counts(bound, centre, True, covers)
            scores = cover_scores_of(up_to, n, plan.tail, penalty)
            scale = choose(scores, covers, plan.scale_grid, rng)
        scale = max(min(plan.slack * scale, bound + abs(centre)), scale, plan.least_scale)
    return Target(bound, centre, scale)


def count_targets(
    X: Any, y: np.ndarray, bound: float, centre: float, magnitudes: bool, candidates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Number of clipped targets less ``centre`` up to each candidate, and of all."""
    values = (y[FIELD] if y.dtype.names else y).ravel()
    values = np.clip(values, -bound, bound) - centre
    return count_up_to(np.abs(values) if magnitudes else values, candidates), np.array(len(values))
