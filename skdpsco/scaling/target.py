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
    share : float
        Share of rho for the centre, and also for the scale.
    magnitude_share, most_magnitude_share : float
        Share of rho for the bound if none is declared, and the largest share, for few records.
    sure_counts : float
        Number of records times epsilon0 of a draw, with which a centre or a scale is no guess.
    """

    share: float = 0.03
    magnitude_share: float = 0.05
    most_magnitude_share: float = 0.3
    sure_counts: float = 30.0


TARGET = TargetTuning()

# Candidates, in increasing order; centres and scales in units of the bound.
MAGNITUDES = 2.0 ** np.arange(-10, 31)
N_CENTRES, FEW_CENTRES = 4097, 33
ZOOM = 2.0**-10  # of a second choice among many centres: two steps of the first, each way
SCALES = 2.0 ** (np.arange(-75, 1) / 3.0)
FEW_SCALES = 32  # the largest ones


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
    """The selections that are made, and their grids, which are None for omitted selections.

    Parameters
    ----------
    bound : float
        The declared bound, or the one that is used if no magnitude is released.
    magnitude_grid, centre_grid, scale_grid : float or None
    quantile : float
        Share of the records that the magnitude should cover.
    tail : float
        Share of the records that the scale may clip.
    penalty : float
        How many more records a scale must cover than the next smaller one.
    event : Event
    zoom : bool
        Whether there are many centres, and a second choice around the first.
    n_scales : int
        Number of candidates for the scale, which are the largest ones.
    """

    bound: float
    magnitude_grid: float | None
    centre_grid: float | None
    scale_grid: float | None
    quantile: float
    tail: float
    penalty: float
    event: Event
    zoom: bool = False
    n_scales: int = len(SCALES)

    part: ClassVar[str] = "target"

    @property
    def extremes(self) -> tuple[Target, ...]:
        """Targets of the smallest and of the largest scale that may be found."""
        if isinstance(self.event, NoOpEvent):
            return (Target(self.bound, 0.0, self.bound),)
        low = high = self.bound
        if self.magnitude_grid is not None:
            low, high = 4.0 * float(MAGNITUDES[0]), 4.0 * float(MAGNITUDES[-1])
        scales = (low * float(SCALES[-self.n_scales]), 2.0 * high)
        return tuple(Target(high, 0.0, scale) for scale in scales)

    def release(self, X: Any, y: Any, rng: Any) -> Target:
        """See `release_target`."""
        return release_target(self, y, rng, X)

    def apply(self, target: Target, X: Any, y: Any) -> tuple[Any, Any]:
        """The design with targets in [-1, 1]; the design of blocks holds its targets."""
        if isinstance(X, BlockDesign):
            return X._replace(target=target.apply), y
        return X, target.apply(y)

    def note(self, target: Target) -> str:
        """A line for the report."""
        return f"targets are clipped to +-{target.bound:g}"


def magnitude_share(n_samples: int, rho: float) -> float:
    """Share of ``rho`` for which the choice of a magnitude is not a guess, within limits."""
    least = (math.log(len(MAGNITUDES)) + 4.0) / (0.2 * n_samples) * (1.0 + 1e-6)
    return min(max(TARGET.magnitude_share, least**2 / (8.0 * rho)), TARGET.most_magnitude_share)


def plan_target(
    bound: float | None, centred: bool, n_samples: int, rho: float, growth: float = 1.0
) -> TargetPlan:
    """Spend a share of ``rho`` on each release, or nothing if it would be a guess.

    Where records are few, shares of the centre and of the scale are up to ``growth`` times as
    large, for models that need both.
    """
    # Clipping more records costs bias, clipping fewer costs noise, which vanishes with n mu.
    tail = min(0.05, 130.0 / (n_samples * math.sqrt(2.0 * rho)))
    grids: dict[str, float | None] = dict.fromkeys(("magnitude", "centre", "scale"))
    event: Event = NoOpEvent()

    # A draw is not a guess if the scores of wrong candidates are lower by a bit more than
    # log(candidates), in units of the noise.
    epsilon0 = math.sqrt(8.0 * magnitude_share(n_samples, rho) * rho)
    quantile = min(max(0.6, 1.0 - 18.0 / (n_samples * epsilon0)), 1.0 - tail)
    margin = (1.0 - quantile) * n_samples * epsilon0 / 2.0
    if bound is None and margin > math.log(len(MAGNITUDES)) + 4.0:
        grids["magnitude"] = exponential_grid(2.0, epsilon0, 2.0 * n_samples)
        event = compose(event, ExponentialMechanismEvent(epsilon0))

    zoom = False
    sure = (TARGET.sure_counts / n_samples) ** 2 / (8.0 * rho)
    found = min(max(TARGET.share, sure), growth * TARGET.share)
    for share, count, draws in ((found / 2.0, N_CENTRES, 2), (found, FEW_CENTRES, 1)):
        epsilon0 = math.sqrt(8.0 * share * rho)
        if centred and 0.35 * n_samples * epsilon0 / 2.0 > math.log(count):
            grids["centre"] = exponential_grid(2.0, epsilon0, 2.0 * n_samples)
            event = compose(event, *(ExponentialMechanismEvent(epsilon0),) * draws)
            zoom = draws > 1
            break
    epsilon0 = math.sqrt(8.0 * found * rho)
    m = len(SCALES)
    if 0.15 * n_samples * epsilon0 <= math.log(m):
        m = FEW_SCALES
    if 0.15 * n_samples * epsilon0 > math.log(m):
        grids["scale"] = exponential_grid(1.0, epsilon0, 2.0 * n_samples)
        event = compose(event, ExponentialMechanismEvent(epsilon0))
    # Enough to tell candidates apart that all cover, but in total no more than a few records: most
    # targets may be alike, and the scale is that of the others.
    penalty = min(max(0.05 * n_samples / m, 0.6 / epsilon0), 0.4 * n_samples / m)
    return TargetPlan(
        bound=1.0 if bound is None else bound,
        magnitude_grid=grids["magnitude"],
        centre_grid=grids["centre"],
        scale_grid=grids["scale"],
        quantile=quantile,
        tail=tail,
        penalty=min(penalty, tail * n_samples / 3.0),
        event=event,
        zoom=zoom,
        n_scales=m,
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
    if plan.centre_grid is not None:
        count = N_CENTRES if plan.zoom else FEW_CENTRES
        for width in (bound, bound * ZOOM)[: 1 + plan.zoom]:
            candidates = centre + width * np.linspace(-1.0, 1.0, count)
            up_to, n = counts(bound, 0.0, False, candidates)
            scores = quantile_scores_of(up_to, n, 0.5)
            centre = choose(scores, candidates, plan.centre_grid, rng)
        centre = max(-bound, min(bound, centre))
    scale = bound + abs(centre)
    if plan.scale_grid is not None:
        candidates = SCALES[-plan.n_scales :] * scale
        up_to, n = counts(bound, centre, True, candidates)
        scores = cover_scores_of(up_to, n, plan.tail, plan.penalty)
        scale = choose(scores, candidates, plan.scale_grid, rng)
    return Target(bound, centre, scale)


def count_targets(
    X: Any, y: np.ndarray, bound: float, centre: float, magnitudes: bool, candidates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Number of clipped targets less ``centre`` up to each candidate, and of all."""
    values = np.clip(y, -bound, bound) - centre
    return count_up_to(np.abs(values) if magnitudes else values, candidates), np.array(len(y))
