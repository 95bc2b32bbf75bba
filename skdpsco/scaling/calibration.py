"""A private slope and offset of the scores of a linear model. Proof: docs/proofs/calibration.md.

Noisy coefficients often have a good direction but a bad length and intercept. These two numbers
cost little noise: they are fitted to a noisy table of scores and targets. Scores of several classes
are drawn towards a constant prediction, which noisy counts of the classes tell. Poisson and gamma
models get an offset alone, from two noisy sums.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from operator import mul
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._clipping import within
from skdpsco.data.design import CSR, Dense
from skdpsco.data.pieces import one_record
from skdpsco.data.products import predict_all
from skdpsco.data.record_sums import in_pieces, map_reduce, without_gil
from skdpsco.losses.library import separated
from skdpsco.losses.traits import traits_of
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event, NoOpEvent
from skdpsco.privacy._cache import cached
from skdpsco.privacy.spending import share_mu
from skdpsco.scaling.quantiles import halve, longer_scores

__all__ = [
    "CALIBRATION",
    "CLASS_CURVE",
    "SHORT_CURVE",
    "AnyCalibration",
    "Calibration",
    "Curve",
    "MeanCurve",
    "TargetCurve",
    "calibration_pays",
    "curve_of",
    "plan_calibration",
]


class CalibrationTuning(NamedTuple):
    """Constants of the plan and of the fit to the table.

    They were fitted on tables like those of examples/benchmarks/robustness.py. "Ratio" is n mu over
    the root of d. Constants that depend on the targets are in `TargetCurve`.

    Parameters
    ----------
    share : float
        Share of mu**2 of the table.
    most_share : float
        Largest share of mu**2 of a table that would otherwise hold too few records.
    most_ratio : float
        Ratio beyond which there is nothing to correct.
    top, typical_score : float
        Highest edge and typical score, in units of the coefficients' l2 norm, if features are
        uncorrelated.
    spread_counts : int
        Number of counts of long scores, which search among ``2**spread_counts`` candidates for
        their spread, a factor of the root of 2 apart.
    least_spread : float
        The smallest candidate over the typical score.
    spread_tail, spread_deviations : float
        Share of the scores that may exceed the spread, and the number of standard deviations that
        this share of a normal distribution exceeds.
    spread_noise : float
        Deviation of a count's noise over the number of records. Counts are made where all of them
        cost no more than the table.
    least_slope : float
        Least slope of a curve in Newton steps, in units of its largest slope.
    longest : float
        Largest l1 norm of coefficients; no score needs more.
    class_ratio : float
        Ratio at which scores of several classes are half way to a constant.
    class_noise : float
        Shares of classes count as equal where they differ by less than this times the variance of
        their noise.
    least_class : float
        The least share of a class, in deviations of the noise.
    """

    share: float = 0.05
    most_share: float = 0.2
    most_ratio: float = 1e5
    top: float = 0.7
    typical_score: float = 0.4
    spread_counts: int = 5
    least_spread: float = 2.0**-9.5
    spread_tail: float = 0.2
    spread_deviations: float = 1.28
    spread_noise: float = 0.07
    least_slope: float = 0.12
    longest: float = 1e4
    class_ratio: float = 18.0
    class_noise: float = 2.0
    least_class: float = 0.5


CALIBRATION = CalibrationTuning()


class Calibration(NamedTuple):
    """Predictions ``w'u + b`` become ``slope * w'u + b + shift``; a shift of each, if several."""

    slope: float
    shift: float | np.ndarray


def signal_of(ratio: float, half: float) -> float:
    """What is not noise in a score at this n mu over the root of d; a half at ``half``."""
    noise = half / ratio
    return 1.0 / (1.0 + noise * noise)


class TargetCurve(NamedTuple):
    """What targets in [-1, 1] are expected at a score, and what is known of fits before any data.

    Parameters
    ----------
    mean : callable
        The mean target at scores, in [-1, 1], and its slope, which is positive.
    prior : tuple of float
        Expected deviation of slopes from 1 in units of ``1 / ratio``, and the width of offsets in
        units of that deviation.
    least_records : float
        n mu of the table above which an offset is more than noise.
    level_records : float
        n mu of the table for each range of scores on one side of 0.
    edges : tuple of float
        Edges of the ranges over the highest one, in the order in which larger tables add them.
    spread : float
        Deviation of scores to which smaller ones are scaled up before their slope is found.
    wanted_records : float
        n mu of the table for which more than its usual share is spent where records are few.
    noisy_ratio : float
        Ratio at which half of a score is noise. The slope is expected to make up for it, and does
        so where there are too few records for a table. If it is 0, scores are not too long.
    """

    mean: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    prior: tuple[float, float] = (50.0, 0.5)
    least_records: float = 8.0
    level_records: float = 40.0
    # Many records lie outside of the first edge, so that even a few tell something there.
    edges: tuple[float, ...] = (0.5, 1.0, 0.25)
    spread: float = 0.0
    wanted_records: float = 0.0
    noisy_ratio: float = 0.0

    def expected(self, ratio: float) -> float:
        """The slope that is expected at this n mu over the root of d."""
        return signal_of(ratio, self.noisy_ratio)

    def mean_around(self, z: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean target and its slope over scores of mean ``z`` and deviation ``spread``."""
        mean, slope = self.mean(np.array([z - spread, z + spread]))
        return 0.5 * (mean[0] + mean[1]), 0.5 * (slope[0] + slope[1])


def logistic_mean(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the targets -1 and 1 at log-odds of ``z``."""
    rho = np.tanh(0.5 * z)
    return rho, np.maximum(0.5 * (1.0 - rho * rho), 0.5 * CALIBRATION.least_slope)


def clipped_mean(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predictions clipped to [-1, 1]; the slope is that of unclipped ones."""
    return np.minimum(np.maximum(z, -1.0), 1.0), np.ones(z.shape)


# Where records are few, the offset of a rare class is worth more than the slope.
CLASS_CURVE = TargetCurve(logistic_mean, least_records=12.0, wanted_records=24.0, noisy_ratio=12.0)
# Noise may shrink the scores of games to almost nothing. The scores of other solvers keep their
# length, since lengthening them costs accuracy where records are few.
SHORT_CURVE = TargetCurve(logistic_mean, spread=1.0, noisy_ratio=12.0)
MARGIN_CURVE = TargetCurve(clipped_mean, least_records=12.0, wanted_records=24.0, noisy_ratio=12.0)


class ClassCurve(NamedTuple):
    """What is known of the scores of several classes before any data: how a constant scores.

    Parameters
    ----------
    n_classes : int
    is_margin : bool
        Whether the best constant scores are mean labels, each class against all others, and not
        logarithms of the classes' shares.
    wanted_records : float
        As in `TargetCurve`, of the counts.
    """

    n_classes: int
    is_margin: bool
    wanted_records: float = 24.0

    def constant(self, shares: np.ndarray) -> np.ndarray:
        """Scores of the best constant prediction where classes have these shares."""
        if self.is_margin:
            return 2.0 * shares - 1.0
        scores = np.log(shares)
        return scores - scores.mean()


class MeanCurve(NamedTuple):
    """Means are exponentials of scores, of which only the offset is corrected.

    Parameters
    ----------
    share : float
        Share of mu**2 of the sums.
    least_records : float
        n mu of the sums above which they are more than noise.
    """

    share: float = 0.1
    least_records: float = 8.0


Curve = TargetCurve | ClassCurve | MeanCurve


def curve_of(loss: Any) -> Curve | None:
    """The curve of a loss; None if its minimiser does not predict the mean targets."""
    traits = traits_of(loss)
    several = loss.n_outputs > 1
    if traits.scores is None or (traits.weighted and several):
        return None
    is_margin = traits.scores == "means"
    if several:
        return ClassCurve(loss.n_outputs, is_margin)
    curve = MARGIN_CURVE if is_margin else CLASS_CURVE
    # Weights change the mean targets, so no table is released.
    return curve._replace(least_records=math.inf) if traits.weighted else curve


@dataclass(frozen=True)
class CalibrationPlan:
    """The grid of the released table, and the expected deviations of slope and offset.

    Parameters
    ----------
    event : Event
    grid : float
    levels : int
        Number of ranges of scores on each side of 0.
    prior : tuple of float
        Expected deviation of the slope from its expectation, and of the offset from 0.
    expected : float
        Expected slope.
    curve : TargetCurve
    n_samples : int
    spread_grid : float or None
        Grid of counts of long scores; None if they are not released.
    """

    event: Event
    grid: float
    levels: int
    prior: tuple[float, float]
    expected: float
    curve: TargetCurve
    n_samples: int
    spread_grid: float | None

    name: ClassVar[str] = "calibration of predictions"

    def release(
        self,
        result: Any,
        X: Any,
        y: Any,
        total: float,
        rng: np.random.Generator,
        problem: Any = None,
        sizes: float | np.ndarray = 1.0,
    ) -> Calibration:
        """A slope and a shift of the scores of a solver's coefficients, the intercept last.

        Parameters
        ----------
        result : Result
            What the solver has released: the coefficients and, if there is one, the radius of the
            l1 ball that they must not leave.
        X
            Records as the solver saw them.
        y : ndarray of shape (n_samples,) or (n_samples, 2), or None for blocks
            Targets in [-1, 1]. A second column holds the records' weights, in [0, 1].
        total : float
            Sum of the weights, or what is known of it; the number of records if there are no
            weights.
        rng : numpy.random.Generator
        problem : Problem
            What was solved; it is not used here.
        sizes : float or ndarray of shape (n_features,), default=1.0
            About three root mean squares of every feature.
        """
        w, radius = result.coef.copy(), result.radius
        sizes = np.minimum(sizes, 1.0)
        b, w[-1] = float(w[-1]), 0.0
        length = float(np.abs(w).sum())
        shorter = min(1.0, CALIBRATION.longest / max(length, 1e-100))
        w *= shorter
        size = max(float(np.linalg.norm(w[:-1] * sizes)), 1e-100)  # tiny squares would vanish
        # Much noise shrinks coefficients to almost nothing, but their direction may be good.
        longer = max(self.curve.spread / (CALIBRATION.typical_score * size), 1.0)
        w *= longer
        size, length, shorter = size * longer, length * longer, shorter * longer
        top = CALIBRATION.top * size
        records = in_pieces(X, y)
        # Scores of correlated features are far longer, or shorter, than those of others.
        spread = self.spread_of(records, y, w, CALIBRATION.typical_score * size, rng)
        top *= spread
        edges = top * np.sort(self.curve.edges[: self.levels - 1])
        table = map_reduce(records, y, table_of, w, edges, self.levels)
        variance = gaussian_mechanism(rng, table, self.grid) ** 2
        counts, sums = table.reshape(2, -1)
        counts = counts - (counts.sum() - total) / len(counts)
        sides = np.concatenate([[0.0], edges, [2.0 * top]])
        limits = np.append(-sides[:0:-1], sides)
        there = max(-CALIBRATION.longest, min(b, CALIBRATION.longest))
        slope, shift = self.fitted(
            typical_scores(limits, counts, CALIBRATION.typical_score * size * spread),
            (counts, sums),
            total,
            there,
            variance,
            self.expected / longer,
        )
        slope *= shorter
        if radius is not None and slope * length > radius:
            slope = radius / length
        return Calibration(slope, shift + there - b)

    def spread_of(
        self, X: Any, y: Any, w: np.ndarray, typical: float, rng: np.random.Generator
    ) -> float:
        """The deviation of the scores over a typical one; 1 if no counts are released."""
        if self.spread_grid is None:
            return 1.0
        factors = CALIBRATION.least_spread * 2.0 ** (np.arange(2**CALIBRATION.spread_counts) / 2.0)
        limits = CALIBRATION.spread_deviations * typical * factors
        above = map_reduce(X, y, longer_scores, w, 1, limits)
        found = halve(above, CALIBRATION.spread_tail * self.n_samples, self.spread_grid, rng)
        return float(factors[found]) * 2.0**-0.25  # between this candidate and the one before

    def fitted(
        self, scores: Any, table: Any, total: float, b: float, noise: float, expected: float = 1.0
    ) -> tuple[float, float]:
        """Slope and shift that fit a table whose noise has this variance.

        They are shrunk towards the expected slope and towards 0.
        """
        (x, spread), (counts, sums), curve = scores, table, self.curve
        least = 0.1 * math.sqrt(noise)
        of_count = np.where(counts > least, noise, 0.0)  # here it is the noise of the weight, too
        weights = np.maximum(counts, least)
        weights *= total / weights.sum()
        deviation, width = self.prior
        start = b + expected * x
        _, slopes = curve.mean_around(start, expected * spread)
        mean = (weights * slopes) @ x / (weights @ slopes)
        x, slope, shift = x - mean, 0.0, 0.0
        for _ in range(100):
            rho, slopes = curve.mean_around(start + slope * x + shift, (expected + slope) * spread)
            # Residuals have at most the square 1 - rho**2, that of the targets -1 and 1.
            d = slopes / (noise * (1.0 + rho * rho) + weights * (1.0 - rho * rho))
            # The prior is Gaussian for the slope, and Cauchy's for the offset: most are near 0, a
            # few are far.
            known, near = deviation**-2, 2.0 / (width**2 + shift**2)
            # The weight contains the noise of a count, too: subtract the mean of their product.
            g = d * (weights * (sums - counts * rho) + of_count * rho)
            h = d * slopes * weights * weights
            g_slope, g_shift = float(g @ x) - known * slope, float(g.sum()) - near * shift
            hx = h * x
            both, curved = float(hx.sum()), float(h.sum()) + near
            left = float(hx @ x) + known - both * both / curved
            move = (g_slope - g_shift * both / curved) / max(left, known)
            moves = move, (g_shift - both * move) / curved
            largest = max(abs(moves[0]), abs(moves[1]))
            shorter = min(1.0, 0.5 / max(largest, 1e-100))
            slope = max(slope + shorter * moves[0], -expected)
            shift += shorter * moves[1]
            if largest < 1e-3 * deviation:  # far below what noise leaves unknown
                break
        return expected + slope, shift - slope * float(mean)


@dataclass(frozen=True)
class ShorteningPlan:
    """Nothing is released: scores are shortened by as much as noise is expected to lengthen them.

    Parameters
    ----------
    slope : float
        What is left of the scores, intercept included, so that predicted classes stay the same.
    """

    slope: float

    event: ClassVar[Event] = NoOpEvent()

    @property
    def name(self) -> str:
        """What is done, in plain words."""
        return f"log-odds or margins times {self.slope:.2g}, since noise makes them too long"

    def release(self, result: Any, *_: Any) -> Calibration:
        """Slope and shift, from the solver's coefficients alone."""
        return Calibration(self.slope, (self.slope - 1.0) * float(result.coef[-1]))


@dataclass(frozen=True)
class ClassPlan:
    """How far scores of several classes are drawn towards a constant, and the grid of its counts.

    Parameters
    ----------
    event : Event
    grid : float
    slope : float
        What is left of the scores; the rest is the constant prediction.
    curve : ClassCurve
    """

    event: Event
    grid: float
    slope: float
    curve: ClassCurve

    name: ClassVar[str] = "shares of the classes"

    def release(
        self, result: Any, X: Any, y: Any, total: float, rng: np.random.Generator, *_: Any
    ) -> Calibration:
        """A slope of all scores and a shift of each. Parameters are those of `CalibrationPlan`.

        Targets are class indices. All that is used besides are the coefficients.
        """
        K = self.curve.n_classes
        counts = map_reduce(X, y, counts_of, K)
        deviation = gaussian_mechanism(rng, counts, self.grid)
        constant = self.curve.constant(likely_shares(counts, deviation))
        offsets = result.coef.reshape(K, -1)[:, -1]
        return Calibration(self.slope, (1.0 - self.slope) * (constant - offsets))


@dataclass(frozen=True)
class MeanPlan:
    """The grid of two sums, the logarithm of whose ratio is added to the logarithms of means.

    Parameters
    ----------
    event : Event
    grid : float
    """

    event: Event
    grid: float

    name: ClassVar[str] = "calibration of predictions"

    def release(
        self, result: Any, X: Any, y: Any, total: float, rng: Any, problem: Any, *_: Any
    ) -> Calibration:
        """The offset that makes the two sums of its loss equal. Parameters: see `CalibrationPlan`.

        It is shrunk as if it were a normal number with the noise that it has.
        """
        sums = map_reduce(in_pieces(X, y), y, balance_of, problem.loss, result.coef)
        noise = gaussian_mechanism(rng, sums, self.grid)
        above, below = np.maximum(sums, noise)
        offset = math.log(above / below)
        variance = (noise / above) ** 2 + (noise / below) ** 2
        return Calibration(1.0, offset * (1.0 - variance / max(offset * offset, variance)))


AnyCalibration = CalibrationPlan | ClassPlan | MeanPlan | ShorteningPlan


@without_gil
def balance_of(X: Dense | CSR, y: np.ndarray, loss: Any, coef: np.ndarray) -> np.ndarray:
    """Sums of the two numbers of all records that the loss balances."""
    scores = np.empty((len(y), 1))
    predict_all(X, coef, scores)
    loss, targets, weights = separated(loss, y)
    numbers = within(loss.balance(scores[:, 0], targets), 0.0, 1.0)
    sums: np.ndarray = (numbers * weights).sum(axis=1)
    return sums


def likely_shares(counts: np.ndarray, deviation: float) -> np.ndarray:
    """Positive shares of classes, shrunk towards equal ones by as much as their noise explains."""
    K, total = len(counts), max(float(counts.sum()), deviation)
    noise = deviation / total
    differences = counts / total - 1.0 / K
    explained = CALIBRATION.class_noise * (K - 1) * noise**2
    kept = max(1.0 - explained / max(float(differences @ differences), 1e-100), 0.0)
    shares = np.maximum(1.0 / K + kept * differences, CALIBRATION.least_class * noise)
    return shares / shares.sum()


def counts_of(X: Dense | CSR, y: np.ndarray, n_classes: int) -> np.ndarray:
    """Number of records of each class; an index out of range counts as the nearest class."""
    classes = within(y, 0.0, n_classes - 1.0).astype(np.intp)
    return np.bincount(classes, minlength=n_classes).astype(np.float64)


def calibration_pays(n_known: float, n_features: int, mu: float, curve: Curve) -> bool:
    """Whether calibration can still improve the scores, and what it releases is more than noise."""
    if isinstance(curve, MeanCurve):  # what clipping takes off does not vanish with noise
        return n_known * mu * math.sqrt(curve.share) >= curve.least_records
    if n_known * mu / math.sqrt(n_features) > CALIBRATION.most_ratio:
        return False
    if isinstance(curve, ClassCurve) or curve.noisy_ratio:
        # Shares that are noise count as equal, and scores that are noise are shortened.
        return True
    return known_records(n_known, mu, curve)[0] >= curve.least_records


def rare_share(n_mu: float, wanted: float) -> float:
    """Share of ``mu**2`` at which a table has so many records, but not more than a fifth."""
    return min((wanted / n_mu) ** 2, CALIBRATION.most_share)


def known_records(n_known: float, mu: float, curve: TargetCurve) -> tuple[float, float]:
    """``n mu`` of the table, and its share of ``mu**2``."""
    n_mu, share = n_known * mu, CALIBRATION.share
    most, wanted = CALIBRATION.most_share, curve.wanted_records
    known = max(n_mu * math.sqrt(share), min(wanted, n_mu * math.sqrt(most)))
    return known, max(share, rare_share(n_mu, wanted))


@cached(64)
def plan_calibration(
    n_samples: int,
    n_known: float,
    n_features: int,
    mu: float,
    curve: Curve,
    added: bool = False,
) -> AnyCalibration:
    """Spend a share of ``mu**2`` on a table of scores and targets, on counts, or on sums.

    Where the table would hold too few records nothing is spent, and scores are shortened.

    Parameters
    ----------
    n_samples : int
    n_known : float
        Sum of the records' weights, according to public numbers; ``n_samples`` without weights.
    n_features : int
    mu : float
        Budget of the whole fit.
    curve : TargetCurve, ClassCurve or MeanCurve
    added : bool, default=False
        As in `skdpsco._problem.Problem`.

    Raises
    ------
    ValueError
        If the noise is too large for the grid.
    """
    ratio = n_known * mu / math.sqrt(n_features)
    if isinstance(curve, ClassCurve):
        share = rare_share(n_known * mu, curve.wanted_records)
        multiplier, event = share_mu(mu, {"counts": (share, 1)})
        sensitivity = 1.0 if added else math.sqrt(2.0)  # counts are exact
        grid = gaussian_grid(sensitivity, multiplier["counts"], curve.n_classes, n_samples)
        slope = signal_of(ratio, CALIBRATION.class_ratio)
        return ClassPlan(event, grid, slope, curve)
    if isinstance(curve, MeanCurve):
        multiplier, event = share_mu(mu, {"sums": (curve.share, 1)})
        # Two numbers in [0, 1] are replaced, added or removed.
        sensitivity = one_record(n_samples, added, 1.0, math.sqrt(2.0), parts=2)
        grid = gaussian_grid(sensitivity, multiplier["sums"], 2, n_samples)
        return MeanPlan(event, grid)
    known, share = known_records(n_known, mu, curve)
    expected = curve.expected(ratio)
    if curve.noisy_ratio and known < curve.least_records:
        return ShorteningPlan(expected)
    levels = min(max(1, round(known / curve.level_records)), len(curve.edges) + 1)
    parts = {"table": (share, 1)}
    n_counts = CALIBRATION.spread_counts
    # If noise misleads two counts, nearly all scores are in one range, and any offset fits them.
    spread_share = n_counts * (CALIBRATION.spread_noise * n_samples * mu) ** -2.0
    if spread_share <= CALIBRATION.share:
        parts = {"spread": (spread_share / n_counts, n_counts), **parts}
    multiplier, event = share_mu(mu, parts)
    # Weight and weighted target of a record have norm sqrt(2), and differ by 2 at most.
    change = math.sqrt(2.0) if added else 2.0
    sensitivity = one_record(n_samples, added, 1.0, change, parts=4 * levels)
    grid = gaussian_grid(sensitivity, multiplier["table"], 4 * levels, n_samples)
    spread_grid = None
    if "spread" in parts:
        spread_grid = gaussian_grid(1.0, multiplier["spread"], 1, n_samples)
    scale, offset = curve.prior
    deviation = min(1.0, scale * math.sqrt(n_features) / (n_known * mu))
    prior = deviation, offset * deviation
    return CalibrationPlan(event, grid, levels, prior, expected, curve, n_samples, spread_grid)


_ROOT_HALF, _DENSITY_AT_0 = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)


def typical_scores(limits: np.ndarray, counts: np.ndarray, spread: float) -> np.ndarray:
    """Means and deviations of the scores in each range, for a normal law with the given counts."""
    weights = (counts / max(float(np.maximum(counts, 0.0).sum()), 1.0)).clip(0.0).tolist()
    limits, K, mean = limits.tolist(), len(weights), 0.0
    for _ in range(10 if K > 2 else 1):
        x: list[float] = []
        deviation: list[float] = []
        below = density = moment = 0.0  # up to the lower limit; the outer ranges are unbounded
        for low, high in pairwise(limits):
            up_to, own, next_moment = 1.0, 0.0, 0.0
            if len(x) < K - 1:
                t = (high - mean) / spread
                up_to = 0.5 * math.erfc(-t * _ROOT_HALF)
                own = math.exp(-0.5 * t * t) * _DENSITY_AT_0
                next_moment = t * own
            share = up_to - below + 1e-12
            first = (density - own) / share
            within_range = max(1.0 - (next_moment - moment) / share - first * first, 0.0)
            x.append(min(max(mean + spread * first, low), high))
            deviation.append(min(spread * math.sqrt(within_range), high - low))
            below, density, moment = up_to, own, next_moment
        if K > 2:
            mean, square = sum(map(mul, weights, x)), 0.0
            for weight, a, b in zip(weights, x, deviation, strict=True):
                square += weight * ((a - mean) * (a - mean) + b * b)
            spread = max(math.sqrt(square), limits[K] / 64.0)
    return np.array([x, deviation])


@without_gil
def table_of(X: Dense | CSR, y: np.ndarray, w: np.ndarray, edges: np.ndarray, levels: int) -> Any:
    """Sums of weights, then of weighted targets, of the records in every range of scores."""
    # An edge belongs to the range that is nearer to 0, which begins at 0 on the right.
    limits = np.concatenate([-edges[::-1], [0.0], np.nextafter(edges, np.inf)])
    scores = np.empty((len(y), 1))
    predict_all(X, w, scores)
    # A search would take longer than a comparison with each of the few limits.
    place = sum((~(scores[:, 0] < limit)).astype(np.intp) for limit in limits.tolist())
    targets, weights = np.fmax(np.fmin(y, 1.0), -1.0), np.ones(len(y))
    if y.ndim > 1:
        targets, weights = targets[:, 0], np.maximum(targets[:, 1], 0.0)
    parts = weights, weights * targets
    return np.concatenate([np.bincount(place, part, 2 * levels) for part in parts])
