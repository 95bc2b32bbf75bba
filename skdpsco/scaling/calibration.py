"""A private slope and offset of the scores of a linear model. Proof: docs/proofs/calibration.md.

The direction of noisy coefficients is often good where their length and the intercept are not. Two
numbers cost little noise: they are fitted to a noisy table of scores and targets.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from skdpsco.data.design import CSR, Dense
from skdpsco.data.map_reduce import in_pieces, map_reduce, without_gil
from skdpsco.data.pieces import replace_one
from skdpsco.data.products import predict_all
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event
from skdpsco.solvers.base import share_mu


class CalibrationTuning(NamedTuple):
    """Constants of the plan and of the fit to the table: docs/proofs/calibration.md.

    "Ratio" is n mu over the root of d.

    Parameters
    ----------
    share : float
        Share of mu**2, and less in proportion to 1 / ratio beyond
    sure_ratio : float
        this ratio.
    most_ratio : float
        Ratio beyond which there is nothing to mend.
    least_records, least_records_regression : float
        n mu of the release, from which an offset is more than noise: of classes, which may be rare,
        and of targets, which are centred before.
    level_records : float
        n mu of the release for each range of scores on a side of 0,
    max_levels : int
        and the largest number of ranges.
    top, typical_score : float
        Highest edge and typical score, in units of the coefficients' l2 norm.
    classes_prior, regression_prior : tuple of two floats
        Expected deviation of slopes from 1, in units of 1 / ratio, and the width for offsets in
        units of that.
    least_slope : float
        Least slope of the link in Newton steps.
    residual : float
        Mean square of what a regression leaves.
    longest : float
        l1 norm of coefficients, beyond what any score needs.
    """

    share: float = 0.05
    sure_ratio: float = 500.0
    most_ratio: float = 1e5
    least_records: float = 8.0
    least_records_regression: float = 25.0
    level_records: float = 25.0
    max_levels: int = 4
    top: float = 0.7
    typical_score: float = 0.4
    classes_prior: tuple[float, float] = (50.0, 0.5)
    regression_prior: tuple[float, float] = (20.0, 0.1)
    least_slope: float = 0.06
    residual: float = 0.1
    longest: float = 1e4


CALIBRATION = CalibrationTuning()


class Calibration(NamedTuple):
    """Predictions ``w'u + b`` become ``slope * w'u + b + shift``."""

    slope: float
    shift: float


@dataclass(frozen=True)
class CalibrationPlan:
    """The grid of the released table, and the expected deviations of slope and offset.

    Parameters
    ----------
    event : Event
    n_samples : int
    grid : float
    levels : int
        Number of ranges of scores on each side of 0.
    prior : tuple of float
        Expected deviation of the slope from 1, and of the offset from 0.
    squared : bool
        Whether the loss is squared; otherwise it is logistic.
    share : float
        Share of mu**2.
    """

    event: Event
    n_samples: int
    grid: float
    levels: int
    prior: tuple[float, float]
    squared: bool
    share: float

    @property
    def note(self) -> str:
        """A line for the report."""
        return f"{self.share:.1%} of the budget's mu^2 found a slope and offset of the scores"

    def release(
        self, coef: np.ndarray, radius: float | None, X: Any, y: Any, rng, sizes: Any = 1.0
    ) -> Calibration:
        """A slope and a shift of the scores of ``coef``, flat with the intercept last.

        Parameters
        ----------
        coef : ndarray
            The coefficients that the solver has released.
        radius : float or None
            Radius of the l1 ball that the coefficients must not leave.
        X, y
            Records as the solver saw them.
        rng : numpy.random.Generator
        sizes : float or ndarray of shape (n_features,), default=1.0
            About three root mean squares of every feature.
        """
        w = coef.copy()
        b, w[-1] = float(w[-1]), 0.0
        length = float(np.abs(w).sum())
        shrunk = min(1.0, CALIBRATION.longest / max(length, 1e-100))
        w *= shrunk
        size = max(float(np.linalg.norm(w[:-1] * sizes)), 1e-100)  # tiny squares would vanish
        edges = CALIBRATION.top * size * 2.0 ** np.arange(2.0 - self.levels, 1.0)
        table = map_reduce(in_pieces(X, y), y, table_of, w, edges, self.levels)
        variance = gaussian_mechanism(rng, table, self.grid) ** 2
        counts, sums = table.reshape(2, -1)
        counts = counts - (counts.sum() - self.n_samples) / len(counts)  # n is public
        sides = np.concatenate([[0.0], edges, [2.0 * CALIBRATION.top * size]])
        limits = np.append(-sides[:0:-1], sides)
        b = max(-CALIBRATION.longest, min(b, CALIBRATION.longest))
        slope, shift = self.fitted(
            typical_scores(limits, counts, CALIBRATION.typical_score * size),
            counts,
            sums,
            b,
            variance,
        )
        slope *= shrunk
        if radius is not None and slope * length > radius:
            slope = radius / length
        return Calibration(slope, shift)

    def fitted(self, x, counts, sums, b, noise) -> tuple[float, float]:
        """Slope and shift that fit a table with noise of this variance, shrunk towards 1 and 0."""
        theta, least = np.zeros(2), 0.1 * math.sqrt(noise)
        noisy = counts > least  # where the weight has the noise of the count
        weights = np.maximum(counts, least)
        weights *= self.n_samples / weights.sum()
        deviation, width = self.prior
        _, slopes = self.link(b + x)
        mean = (weights * slopes) @ x / (weights @ slopes)
        P = np.column_stack([x - mean, np.ones(len(x))])
        for _ in range(100):
            rho, slopes = self.link(b + x + P @ theta)
            own = CALIBRATION.residual if self.squared else 1.0 - rho * rho
            variance = noise * (1.0 + rho * rho) + weights * own
            # Gaussian for the slope; for the offset Cauchy's: most are near 0, a few are far.
            precision = np.array([deviation**-2, 2.0 / (width**2 + theta[1] ** 2)])
            D = P * (slopes / variance)[:, None]
            # The noise of a count is in its weight, too: the mean of their product is taken off.
            g = D.T @ (weights * (sums - counts * rho) + noise * rho * noisy)
            A = (D * (weights**2 * slopes)[:, None]).T @ P + np.diag(precision)
            step = np.linalg.solve(A, g - precision * theta)
            largest = float(np.abs(step).max())
            theta += step * min(1.0, 0.5 / max(largest, 1e-100))
            theta[0] = max(theta[0], -1.0)
            if largest < 1e-6:
                break
        return 1.0 + float(theta[0]), float(theta[1] - theta[0] * mean)

    def link(self, z):
        """The mean target at predictions ``z``, and its slope."""
        if self.squared:
            return np.clip(z, -1.0, 1.0), np.ones_like(z)
        rho = np.tanh(0.5 * z)
        return rho, np.maximum(0.5 * (1.0 - rho * rho), CALIBRATION.least_slope)


def calibration_pays(n_samples: int, n_features: int, mu: float, regression: bool) -> bool:
    """Whether an offset is more than noise, and calibration can still improve the scores."""
    ratio = n_samples * mu / math.sqrt(n_features)
    known, _ = known_records(n_samples, n_features, mu)
    least = CALIBRATION.least_records_regression if regression else CALIBRATION.least_records
    return ratio <= CALIBRATION.most_ratio and known >= least


def known_records(n_samples: int, n_features: int, mu: float) -> tuple[float, float]:
    """``n mu`` of the release, and its share of ``mu**2``."""
    ratio = n_samples * mu / math.sqrt(n_features)
    share = CALIBRATION.share * min(1.0, CALIBRATION.sure_ratio / ratio)
    return n_samples * mu * math.sqrt(share), share


def plan_calibration(n_samples: int, n_features: int, mu: float, squared: bool) -> CalibrationPlan:
    """Spend a share of ``mu**2`` on a table of scores and targets.

    Parameters
    ----------
    n_samples, n_features : int
    mu : float
        Budget of the whole fit.
    squared : bool
        Whether the loss is squared; otherwise it is logistic.

    Raises
    ------
    ValueError
        If the noise is too large for the grid.
    """
    n = n_samples
    known, share = known_records(n, n_features, mu)
    levels = min(max(1, round(known / CALIBRATION.level_records)), CALIBRATION.max_levels)
    multiplier, event = share_mu(mu, {"table": (share, 1)})
    sensitivity = replace_one(n, 1.0, parts=2 * levels)
    grid = gaussian_grid(sensitivity, multiplier["table"], 4 * levels, n)
    scale, offset = CALIBRATION.regression_prior if squared else CALIBRATION.classes_prior
    deviation = min(1.0, scale * math.sqrt(n_features) / (n * mu))
    return CalibrationPlan(event, n, grid, levels, (deviation, offset * deviation), squared, share)


def typical_scores(limits: np.ndarray, counts: np.ndarray, spread: float) -> np.ndarray:
    """A score in each range: its mean under the normal distribution that fits the counts."""
    weights = np.maximum(counts, 0.0) / max(float(np.maximum(counts, 0.0).sum()), 1.0)
    mean = 0.0
    for _ in range(10):
        t = (limits - mean) / spread
        density = np.exp(-0.5 * t * t)
        density[[0, -1]] = 0.0  # the outer ranges have no end
        share = np.diff(np.concatenate([[0.0], ndtr(t[1:-1]), [1.0]]))
        middle = mean - spread * np.diff(density) / (math.sqrt(2.0 * math.pi) * share + 1e-12)
        x = np.clip(middle, limits[:-1], limits[1:])
        if len(counts) == 2:
            break
        mean = float(weights @ x)
        spread = max(math.sqrt(float(weights @ (x - mean) ** 2)), limits[-1] / 64.0)
    return x


@without_gil
def table_of(X: Dense | CSR, y: np.ndarray, w: np.ndarray, edges: np.ndarray, levels: int):
    """Counts, then sums of targets, of the records in every range of scores."""
    scores = np.empty((len(y), 1))
    predict_all(X, w, scores)
    level = np.searchsorted(edges, np.abs(scores[:, 0]))
    place = np.where(scores[:, 0] >= 0.0, levels + level, levels - 1 - level)
    counts = np.bincount(place, minlength=2 * levels)
    return np.append(counts.astype(float), np.bincount(place, np.clip(y, -1.0, 1.0), 2 * levels))
