"""Private centre and scale of a regression target. Proof: docs/proofs/target.md."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco.data.record_sums import BlockDesign, map_reduce
from skdpsco.mechanisms.samplers import (
    SCALE_BITS,
    deviation_on,
    exponential_grid,
    gaussian_grid,
    gaussian_mechanism,
)
from skdpsco.privacy import Event, ExponentialMechanismEvent, GaussianEvent, NoOpEvent, compose
from skdpsco.privacy._cache import cached
from skdpsco.scaling.quantiles import choose, cover_scores, quantile_scores

__all__ = ["Target", "TargetPlan", "declared_target", "least_n_mu", "plan_target", "release_target"]


class DrawTuning(NamedTuple):
    """Constants of one draw, or of several that share a budget: parts of `TargetTuning`.

    Parameters
    ----------
    share : tuple of float
        Share of rho, and the largest share, for few records.
    lead : float
        How much more than those of wrong candidates the score of the right one is, as a share of
        the targets and in units of the range of scores.
    certainty : float
        A draw is no guess if this lead is larger than the logarithm of the number of candidates by
        so much, in units of the noise.
    ample : float, default=1.0
        Share that is wanted for few records, over the least one with which a draw is no guess.
    """

    share: tuple[float, float]
    lead: float
    certainty: float
    ample: float = 1.0

    def least_n_mu(self, n_candidates: int) -> float:
        """``n_samples * sqrt(2 * rho)`` from which on one draw is no guess."""
        enough = (math.log(n_candidates) + self.certainty) / self.lead
        return enough / (2.0 * math.sqrt(self.share[1]))

    def epsilon0(
        self, n_candidates: int, n_samples: int, rho: float, n_draws: int = 1
    ) -> float | None:
        """The epsilon of each draw, or None if it would be a guess. All of this is public.

        The share grows until draws are no guesses, or even ample, as far as the limits allow.
        """
        needed = (math.log(n_candidates) + self.certainty) / (self.lead * n_samples)
        share = needed**2 * n_draws / (8.0 * rho) * (1.0 + 1e-6)
        least, most = self.share
        if share > most:
            return None
        return math.sqrt(8.0 * min(max(self.ample * share, least), most) / n_draws * rho)


class TargetTuning(NamedTuple):
    """Constants of the releases; examples/benchmarks/robustness.py shows how well they do.

    Parameters
    ----------
    magnitude, centre, zoom, coarse, fine : DrawTuning
        The bound if none is declared, the first choice of the centre, all others together, and both
        choices of the scale.
    octave, small_octave : float
        How much less likely a magnitude above 1, and one below 1, is before any data for every
        factor of 2 between it and 1, as the logarithm of a probability.
    tail, least_tail : float
        Largest share of the records of a group that the scale may clip, and the least number of
        records that it may, times mu: fewer could not be counted.
    penalty : float
        How many more targets a scale must cover than the next smaller one, in units of the noise,
    least_penalty, most_penalty : float
        and the least and the largest sum of these over all candidates, as shares of the targets.
    tail_penalty : float
        Largest penalty, as a share of the tail, but for one unit of the noise.
    far_share, far_tail : float
        Largest share of rho for counts of targets that are far beyond the scale, and the share of
        the targets that may be there unnoticed.
    far_n_mu : float
        The n mu from which on they are counted; from twice that on, with that largest share.
    certain : tuple of float
        Deviations of the noise from which on there are such targets, if the bound is declared, and
        if it is not: then the scale may become absurdly large.
    """

    magnitude: DrawTuning = DrawTuning((0.04, 0.42), 0.3, 4.5, 1.2)
    # Wrong choices of these two make a fit absurd. A centre that is no guess may be wrong by half a
    # deviation of the targets, which costs more than all coefficients gain where records are few.
    centre: DrawTuning = DrawTuning((0.01, 0.36), 0.3, 4.68, 1.5)
    zoom: DrawTuning = DrawTuning((0.02, 0.1), 0.4, 2.5, 2.0)
    coarse: DrawTuning = DrawTuning((0.03, 0.2), 0.3, 7.0)
    fine: DrawTuning = DrawTuning((0.02, 0.16), 0.15, 2.5)
    octave: float = 0.15
    small_octave: float = 0.05
    tail: float = 0.05
    least_tail: float = 8.0
    penalty: float = 3.0
    least_penalty: float = 0.05
    most_penalty: float = 0.8
    tail_penalty: float = 0.4
    far_share: float = 0.05
    far_tail: float = 0.03
    far_n_mu: float = 60.0
    certain: tuple[float, float] = (4.0, 4.7)


TARGET = TargetTuning()

# Candidates, in increasing order; centres and scales in units of the bound.
MAGNITUDES = 2.0 ** np.arange(-30, 31)
CENTRES = np.linspace(-1.0, 1.0, 65)
ZOOM = 2.0**-4  # of the next choice of a centre: two steps of the last one, each way
MOST_ZOOMS = 4  # choices around the last one
SCALES = 4.0 ** np.arange(-14, 1)
FINE_SCALES = 2.0 ** (np.arange(-6, 13) / 3.0)  # in units of the first choice

LEAST_QUANTILE = 0.6  # of what a first choice covers
BEYOND = 4.0  # the bound over the magnitude that is found
# The least scale if the bound is found: balls that are huge in units of the scale have no plan.
LEAST_SCALE = 2.0**-38
# Limits of what is far beyond the scale, in its units. Many targets are whole numbers, which these
# limits are a little above where the scale is a power of 2.
BEYOND_SCALE = 2.0 ** (np.arange(1, 73) + 1.0 / 6.0)
COARSE_SLACK = 2.0  # the scale over its first choice, if there is no second one

FIELD = "t"  # the target's name in arrays with other fields, such as the groups of a record


class Target(NamedTuple):
    """The fit sees ``clip((clip(y, -bound, bound) - centre) / scale, -1, 1)``."""

    bound: float
    centre: float
    scale: float

    @property
    def spread(self) -> float:
        """The scale of most targets, in units of ``scale``."""
        return 1.0

    def apply(self, y: np.ndarray) -> np.ndarray:
        """The targets that the fit sees; of records with fields only those in `FIELD`."""
        if y.dtype.names:
            y = y.copy()
            y[FIELD] = self.apply(y[FIELD])
            return y
        y = np.clip(y, -self.bound, self.bound) - self.centre
        return np.clip(y, -self.scale, self.scale) / self.scale


class SteadyTarget(NamedTuple):
    """A `Target` with slack in its scale; ``found`` is what was found, of most targets."""

    bound: float
    centre: float
    scale: float
    found: float

    @property
    def spread(self) -> float:
        """As in `Target`."""
        return self.found / self.scale

    def apply(self, y: np.ndarray) -> np.ndarray:
        """See `Target.apply`."""
        return Target(*self[:3]).apply(y)


@dataclass(frozen=True)
class TargetPlan:
    """The selections that are made, and their grids.

    Parameters
    ----------
    bound : float
        The declared bound, or the one that is used if no magnitude is released.
    magnitude_grid : float or None
    centre_grids : tuple of float
        Grids of the choices of the centre, one around the other.
    scale_grids : tuple of float
        Grids of the choices of the scale, of which the second needs more records; empty if no scale
        is chosen.
    quantiles : tuple of float
        Shares of the targets that the magnitude and the first choice of the scale should cover.
    tail : float
        Share of the targets that the scale may clip.
    penalty : float
        How many more targets the last scale must cover than the next smaller one.
    event : Event
    least_scale : float, default=0.0
        What neither a magnitude nor a scale that is found is below.
    slack : float, default=1.0
        Factor of the scale that is found, up to what no target exceeds.
    steady : bool, default=False
        Whether the scale without slack is remembered, as `SteadyTarget`.
    far_grid : float or None, default=None
        Grid of the counts of targets far beyond the scale; None if they are not released.
    far_least : float, default=0.0
        Number of targets within a factor of 2 that move the scale beyond them; within a factor of
        4 it is larger by the root of 2.
    """

    bound: float
    magnitude_grid: float | None
    centre_grids: tuple[float, ...]
    scale_grids: tuple[float, ...]
    quantiles: tuple[float, float]
    tail: float
    penalty: float
    event: Event
    least_scale: float = 0.0
    slack: float = 1.0
    steady: bool = False
    far_grid: float | None = None
    far_least: float = 0.0

    part: ClassVar[str] = "target"
    name: ClassVar[str] = "units of the target"

    @property
    def extremes(self) -> tuple[Target, ...]:
        """Targets of the smallest and of the largest scale that may be found."""
        if isinstance(self.event, NoOpEvent):
            return (Target(self.bound, 0.0, self.bound),)
        low = high = self.bound
        if self.magnitude_grid is not None:
            low, high = (BEYOND * float(MAGNITUDES[k]) for k in (0, -1))
        least = max(low * float(SCALES[0] * FINE_SCALES[0]), self.least_scale)
        scales = (least, max(2.0 * high, least))
        return tuple(Target(high, 0.0, scale) for scale in scales)

    def release(self, X: Any, y: Any, rng: Any) -> Any:
        """See `release_target`."""
        return release_target(self, y, rng, X)

    def apply(self, target: Target | SteadyTarget, X: Any, y: Any) -> tuple[Any, Any]:
        """The design with targets in [-1, 1]; the design of blocks holds its targets."""
        if isinstance(X, BlockDesign):
            return X.with_targets(target.apply), y
        return X, None if y is None else target.apply(y)  # a stream has them in these units

    def note(self, target: Target | SteadyTarget) -> str:
        """A line for the report."""
        return f"targets are clipped to +-{target.bound:g}"


def least_n_mu() -> float:
    """``n_samples * sqrt(2 * rho)`` from which on a target without a bound has its scale found."""
    draws = (TARGET.magnitude, MAGNITUDES), (TARGET.centre, first_centres(True))
    return max(draw.least_n_mu(len(candidates)) for draw, candidates in draws)


def declared_target(bound: float) -> TargetPlan:
    """Release nothing: targets are in units of their declared bound."""
    return TargetPlan(bound, None, (), (), (0.6, 0.6), 0.05, 0.0, NoOpEvent())


@cached(64)
def plan_target(
    bound: float | None,
    centred: bool,
    n_samples: int,
    rho: float,
    n_targets: int = 1,
    n_known: float | None = None,
    steady: bool = False,
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
    steady : bool, default=False
        Whether the scale is that of most targets however many records there are: fewer targets are
        clipped by slack then, and a `SteadyTarget` remembers the scale without it.
    """
    # Clipping more records costs bias, clipping fewer costs noise, which vanishes with n mu.
    n_mu = n_samples * math.sqrt(2.0 * rho)
    smallest = (n_samples if n_known is None else n_known) / (n_samples * n_targets)
    affordable = 130.0 / n_mu
    tail = min(max(TARGET.tail * smallest, TARGET.least_tail / n_mu), TARGET.tail)
    slack = math.sqrt(max(tail / affordable, 1.0)) if steady else 1.0
    tail = tail if steady else min(tail, affordable)
    charges: list[float] = []

    def quantile(epsilon0: float | None, rest: float) -> float:
        """The larger, the better it can be told from what covers all targets."""
        # Noise on a grid is not arbitrarily small.
        above = 1.0 if epsilon0 is None else max(rest / (n_samples * epsilon0), 2.0**-18)
        return min(max(LEAST_QUANTILE, 1.0 - above), 1.0 - tail)

    def grid(score_range: float, epsilon0: float) -> float:
        charges.append(epsilon0)
        return exponential_grid(score_range * n_targets, epsilon0, 2.0 * n_samples * n_targets)

    def epsilon0_of(draw: DrawTuning, candidates: np.ndarray, n_draws: int = 1) -> float | None:
        return draw.epsilon0(len(candidates), n_samples, rho, n_draws)

    magnitude = epsilon0_of(TARGET.magnitude, MAGNITUDES) if bound is None else None
    magnitude_grid = None if magnitude is None else grid(2.0, magnitude)

    # The centre is chosen again around the last choice, as often as no choice is a guess.
    centre_grids = []
    candidates = first_centres(magnitude is not None)
    first = epsilon0_of(TARGET.centre, candidates) if centred else None
    if first is not None:
        centre_grids.append(grid(2.0, first))
        for n_zooms in range(MOST_ZOOMS, 0, -1):
            zoom = epsilon0_of(TARGET.zoom, CENTRES, n_zooms)
            if zoom is not None:
                centre_grids.extend(grid(2.0, zoom) for _ in range(n_zooms))
                break

    scale_grids: tuple[float, ...] = ()
    coarse, fine = epsilon0_of(TARGET.coarse, SCALES), epsilon0_of(TARGET.fine, FINE_SCALES)
    penalty = 0.0
    # Unless the bound is declared, the magnitude tells the scale until both choices are sure.
    if coarse is not None and (fine is not None or magnitude is None):
        scale_grids = (grid(2.0, coarse),)
    if scale_grids and fine is not None:
        scale_grids = *scale_grids, grid(1.0, fine)
        # Enough to tell candidates apart that all cover, but in total no more than some targets:
        # most may be alike, and the scale is that of the others.
        step = n_samples / len(FINE_SCALES)
        penalty = max(TARGET.penalty / fine, TARGET.least_penalty / 8.0 * step)
        most = max(TARGET.tail_penalty * tail * n_samples, 1.0 / fine)
        penalty = min(penalty, TARGET.most_penalty * step, most)
        # Noise on a grid is not arbitrarily small, and a scale that is too large costs precision.
        penalty = max(penalty, n_samples * 2.0**-20)

    events: list[Event] = [ExponentialMechanismEvent(epsilon0) for epsilon0 in charges]
    far_grid, far_least = None, 0.0
    certain, minority = TARGET.certain[bound is None], min(tail, TARGET.far_tail)
    root = math.sqrt(2.0) * certain / n_mu  # of the share that shows all targets together
    worth = min(max(n_mu / TARGET.far_n_mu - 1.0, 0.0), 1.0)
    share = min((root / minority) ** 2, TARGET.far_share * worth)
    drawn = scale_grids or magnitude is not None
    # Medians do not follow a minority, and a minority has at most half of the targets.
    if drawn and not steady and root <= 0.5 * math.sqrt(share):
        multiplier, n_values = 1.0 / math.sqrt(2.0 * share * rho), n_samples * n_targets
        events.append(GaussianEvent(multiplier))
        # A target that is replaced leaves one count, and enters another.
        change = math.sqrt(2.0) * n_targets
        far_grid = gaussian_grid(change, multiplier, len(BEYOND_SCALE) - 1, n_values)
        far_least = max(minority * n_values, certain * deviation_on(far_grid))

    return TargetPlan(
        bound=1.0 if bound is None else bound,
        magnitude_grid=magnitude_grid,
        centre_grids=tuple(centre_grids),
        scale_grids=scale_grids,
        quantiles=(quantile(magnitude, 18.0), quantile(coarse, 14.0)),
        tail=tail,
        penalty=penalty * n_targets,
        event=compose(*events),
        least_scale=0.0 if magnitude is None else LEAST_SCALE,
        slack=slack,
        steady=steady,
        far_grid=far_grid,
        far_least=far_least,
    )


def release_target(
    plan: TargetPlan, y: np.ndarray | None, rng: np.random.Generator, X: Any = None
) -> Any:
    """Choose the bound, the centre and the scale, one after the other: a `Target`.

    It is a `SteadyTarget` if that is planned. ``y`` is None if the blocks ``X`` hold the targets.
    """
    bound, centre = plan.bound, 0.0
    in_order = y is not None  # in arrays they are sorted once, in blocks for every count
    if in_order:
        y = np.sort(targets_of(y))

    def counts(bound, centre, magnitudes, candidates):
        return map_reduce(X, y, count_targets, bound, centre, magnitudes, candidates, in_order)

    if plan.magnitude_grid is not None:
        up_to, n = counts(math.inf, 0.0, True, MAGNITUDES)
        scores = quantile_scores(up_to, n, plan.quantiles[0])
        # A bound that is far too large is the worst of errors, so large ones are less likely before
        # any data.
        scores -= plan.magnitude_grid * 2.0**SCALE_BITS * doubt_of_magnitudes()
        bound = BEYOND * choose(scores, MAGNITUDES, plan.magnitude_grid, rng)
        bound = max(bound, plan.least_scale)
    for k, grid in enumerate(plan.centre_grids):
        around = CENTRES if k > 0 else first_centres(plan.magnitude_grid is not None)
        candidates = centre + bound * ZOOM**k * around
        up_to, n = counts(bound, 0.0, False, candidates)
        scores = quantile_scores(up_to, n, 0.5)
        if k > 0:  # where noise, of this unit, hides the targets, the centre stays where it is
            steps = len(CENTRES) // 2 * np.abs(CENTRES)
            scores -= grid * 2.0**SCALE_BITS * np.log1p(steps)
        centre = choose(scores, candidates, grid, rng)
    centre = max(-bound, min(bound, centre))
    largest = bound + abs(centre)
    scale = largest if plan.magnitude_grid is None or plan.scale_grids else bound / BEYOND
    if plan.scale_grids:
        covers = largest * SCALES
        up_to, n = counts(bound, centre, True, covers)
        scores = quantile_scores(up_to, n, plan.quantiles[1])
        scale = choose(scores, covers, plan.scale_grids[0], rng)
        covers = scale * FINE_SCALES
        scale = min(COARSE_SLACK * scale, largest)
    if len(plan.scale_grids) > 1:
        up_to, n = counts(bound, centre, True, covers)
        scores = cover_scores(up_to, n, plan.tail, plan.penalty)
        scale = min(choose(scores, covers, plan.scale_grids[1], rng), largest)
    if plan.far_grid is not None:
        limit = bound if plan.magnitude_grid is None else BEYOND * float(MAGNITUDES[-1])
        up_to, _ = counts(limit, centre, True, scale * BEYOND_SCALE)
        far = np.diff(up_to).astype(np.float64)
        gaussian_mechanism(rng, far, plan.far_grid)
        far[limit + abs(centre) <= scale * BEYOND_SCALE[:-1]] = 0.0  # nothing but noise
        scale *= last_many(far, plan.far_least)
        bound = max(bound, min(abs(centre) + scale, limit))
        largest = bound + abs(centre)
        scale = min(scale, largest)
    found, scale = scale, max(min(plan.slack * scale, largest), scale, plan.least_scale)
    return (
        SteadyTarget(bound, centre, scale, found) if plan.steady else Target(bound, centre, scale)
    )


def last_many(far: np.ndarray, least: float) -> float:
    """The upper limit of the last interval of `BEYOND_SCALE` with a large noisy count, or 1.

    Where most targets are equal, as zeros are, a scale that covers most of them may be far too
    small for the others.
    """
    two = np.convolve(far, np.ones(2))[: len(far)]  # many may be on both sides of a limit
    return float(BEYOND_SCALE[1:][(far > least) | (two > math.sqrt(2.0) * least)].max(initial=1.0))


def first_centres(found: bool) -> np.ndarray:
    """Candidates of the first choice of a centre, in units of a bound that was found or not.

    Half of the magnitudes are at least that of the median, and a magnitude that was found covers
    more than half of them, up to a factor of 2.
    """
    return CENTRES[np.abs(CENTRES) <= 2.0 / BEYOND] if found else CENTRES


def doubt_of_magnitudes() -> np.ndarray:
    """Logarithms of how much less likely magnitudes are than 1, before any data."""
    octaves = np.log2(MAGNITUDES)
    return np.maximum(TARGET.octave * octaves, -TARGET.small_octave * octaves)


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
