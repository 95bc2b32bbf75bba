"""Private ranges of columns. Proof: docs/proofs/preprocessing.md, section 2."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OneToOneFeatureMixin

from skdpsco._typing import MatrixLike
from skdpsco._validation import SMALLEST
from skdpsco.base.parameters import with_parameters
from skdpsco.base.plain import clipped_steps, scaler_between
from skdpsco.base.transformer import CLIPPED, ColumnTransform
from skdpsco.data.design import Dense
from skdpsco.data.record_sums import in_pieces, map_reduce
from skdpsco.mechanisms.samplers import exponential_grid
from skdpsco.privacy import Event, ExponentialMechanismEvent, NoOpEvent, RepeatedEvent
from skdpsco.scaling.quantiles import choose, count_up_to, cover_scores, quantile_scores

from .bounds import check_bounds, check_pair, map_range

__all__ = ["PrivateQuantileClipper"]

OCTAVES = 24  # factors of two between the shortest and the longest distance from a centre
N_POINTS = 513  # number of equidistant centres
# Centres around zero, in units of the width of the bounds.
SPREAD = 2.0 ** (np.arange(-2 * OCTAVES, 1) / 2.0)
MAX_CENTRES = N_POINTS + 2 * len(SPREAD) + 1  # at most
MAX_PENALTY = 0.3  # share of all records, for all distances together


@dataclass(frozen=True)
class RangePlan:
    """The draws that are made, and their grids, which are None for omitted draws.

    Parameters
    ----------
    centre_grid, end_grid : float or None
    distances : ndarray
        Candidates for the distance between an end and the centre, in units of the width of the
        bounds.
    penalty : float
        How many more records a distance must cover than the next smaller one.
    event : Event
    """

    centre_grid: float | None
    end_grid: float | None
    distances: np.ndarray
    penalty: float
    event: Event

    name: ClassVar[str] = "ranges of the columns"


def plan_ranges(n_samples: int, n_features: int, rho: float) -> RangePlan:
    """Plan three draws per column; two if a centre would only be a guess; or none."""
    for n_draws in (3, 2):
        with_centre = n_draws == 3
        count = n_draws * n_features
        epsilon0 = math.sqrt(8.0 * rho / count)
        signal = n_samples * epsilon0  # the largest difference of two counts, in units of noise
        share = min(MAX_PENALTY, 2.0 / math.sqrt(signal))
        steps = round(min(max(2.0 * signal * share / OCTAVES, 2.0), 16.0))  # per factor of two
        distances = 2.0 ** (np.arange(-OCTAVES * steps, 1) / steps)
        if with_centre:
            needed = 4.0 * (math.log(MAX_CENTRES) + 1.0)
        else:
            needed = (math.log(len(distances)) + 3.0) / (1.0 - MAX_PENALTY)
        if signal > needed:
            return RangePlan(
                exponential_grid(2.0, epsilon0, 2.0 * n_samples) if with_centre else None,
                exponential_grid(1.0, epsilon0, 2.0 * n_samples),
                distances,
                share * n_samples / len(distances),
                RepeatedEvent(ExponentialMechanismEvent(epsilon0), count),
            )
    return RangePlan(None, None, np.ones(1), 0.0, NoOpEvent())


def centres(lower: float, upper: float, zero: float) -> np.ndarray:
    """Candidates for a centre, in increasing order: dense around ``zero``."""
    around = (upper - lower) * SPREAD
    points = (np.linspace(lower, upper, N_POINTS), [zero], zero - around, zero + around)
    return np.unique(np.clip(np.concatenate(points), lower, upper))


def column_ranks(
    X: Dense, y: Any, lower: np.ndarray, upper: np.ndarray, *candidates: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    """How many values of every column are at most each of its candidates, for `map_reduce`.

    Candidates in a second tuple are for the negative values.
    """
    values = np.clip(X.values.astype(np.float64, copy=False), lower, upper)
    return tuple(
        count_up_to(sign * values[:, j], points)
        for sign, columns in zip((1.0, -1.0), candidates, strict=False)
        for j, points in enumerate(columns)
    )


def release_ranges(
    plan: RangePlan,
    design: Any,
    n: int,
    bounds: tuple[np.ndarray, np.ndarray],
    tails: tuple[float, float],
    rng: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Noisy ranges of the columns of ``n`` records, within their public bounds."""
    lower, upper = bounds
    if plan.end_grid is None:
        return lower.copy(), upper.copy()
    none = np.broadcast_to(0.0, n)  # no targets
    X, centre, width = in_pieces(design, none), np.clip(0.0, lower, upper), upper - lower
    if plan.centre_grid is not None:
        points = tuple(map(centres, lower, upper, centre))
        counts = map_reduce(X, none, column_ranks, lower, upper, points)
        for j, (up_to, at) in enumerate(zip(counts, points, strict=True)):
            centre[j] = choose(quantile_scores(up_to, n, 0.5), at, plan.centre_grid, rng)
    steps = width[:, None] * plan.distances
    highs = tuple(np.minimum(centre[:, None] + steps, upper[:, None]))
    lows = tuple(np.minimum(-centre[:, None] + steps, -lower[:, None]))
    counts = map_reduce(X, none, column_ranks, lower, upper, highs, lows)
    half = len(counts) // 2

    def ends(ranks: Any, columns: Any, tail: float, grid: float) -> np.ndarray:
        pairs = zip(ranks, columns, strict=True)
        scores = ((cover_scores(up_to, n, tail, plan.penalty), at) for up_to, at in pairs)
        return np.array([choose(score, at, grid, rng) for score, at in scores])

    low = -ends(counts[half:], lows, tails[0], plan.end_grid)
    high = ends(counts[:half], highs, tails[1], plan.end_grid)
    known = high - low >= SMALLEST
    return np.where(known, low, lower), np.where(known, high, upper)


@with_parameters()
class PrivateQuantileClipper(OneToOneFeatureMixin, ColumnTransform):
    """Clip columns into private ranges, found within generous public bounds.

    Each range goes approximately from a low to a high quantile of its column. It is meant for
    columns whose range is hardly known, even within a factor of a million.

    Parameters
    ----------
    quantile_range : tuple of two floats, default=(0.01, 0.99)
        Quantiles at the ends of a range, below and above one half.
    lower, upper : float, array-like, dict, Series or Schema, default=-1e6, 1e6
        Generous public bounds of the columns, in order or by name, to which values are clipped
        first.
    feature_range : tuple of two floats or None, default=None
        Range onto which columns are mapped, such as (-1, 1). None only clips.
    {epsilon, delta, ledger, max_records_per_unit, random_state}

    Attributes
    ----------
    lower_, upper_ : ndarray of shape (n_features,)
        The private ranges; ``lower_ < upper_``.
    {n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    skdpsco.preprocessing.ColumnClipper : For public ranges.
    skdpsco.preprocessing.PrivateStandardScaler : To mean 0 and variance 1.
    sklearn.preprocessing.RobustScaler : Quantiles without privacy.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/preprocessing`.

    At epsilon 1 ranges need about ``120 * sqrt(n_features)`` records; with fewer they are around
    zero, or the public bounds. With little budget they tend to be too wide.

    Columns that are nearly constant may lose their rare values. Leave one-hot, binary and count
    columns out, with `sklearn.compose.ColumnTransformer`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.preprocessing import PrivateQuantileClipper
    >>> X = np.random.default_rng(0).normal(0.0, [5.0, 300.0], (20000, 2))
    >>> clipper = PrivateQuantileClipper(epsilon=1.0).fit(X)
    >>> bool(np.all(clipper.upper_ < [1e3, 1e4]))  # the 99% quantiles are 11.6 and 698
    True
    """

    quantile_range: tuple[float, float] = (0.01, 0.99)
    lower: ArrayLike = -1e6
    upper: ArrayLike = 1e6
    feature_range: tuple[float, float] | None = None

    lower_: np.ndarray = field(init=False)
    upper_: np.ndarray = field(init=False)

    def _tails(self) -> tuple[float, float]:
        """Shares of the records that may lie below and above the range."""
        low, high = check_pair("quantile_range", self.quantile_range)
        if not 0.0 <= low < 0.5 < high <= 1.0:
            raise ValueError(
                "quantile_range must be two numbers in [0, 0.5) and (0.5, 1], got "
                f"{self.quantile_range!r}."
            )
        return low, 1.0 - high

    def _learn(self, X):
        n, d = X.shape
        budget = self._budget()
        tails = self._tails()
        bounds = check_bounds(self, d)
        if self.feature_range is not None:
            check_pair("feature_range", self.feature_range)
        plan = self._planned(
            lambda spend: plan_ranges(n, d, spend.rho), self._available(budget), n, d
        )
        clipped = (CLIPPED,)
        with self._releasing_columns(X, plan.event, budget, assumptions=clipped) as (design, rng):
            self.lower_, self.upper_ = release_ranges(plan, design, n, bounds, tails, rng)

    def transform(self, X: MatrixLike) -> Any:
        """Clip into the private ranges, and map them onto `feature_range` if there is one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records, in the units of the fit.

        Returns
        -------
        X_out : ndarray of shape (n_samples, n_features), float64
            Columns within their ranges, or within `feature_range`.
        """
        return self._mapped(self._check(X, reset=False))

    def _mapped(self, X: np.ndarray, back: bool = False) -> np.ndarray:
        """Map the private ranges onto `feature_range`, or back, after clipping."""
        ranges = self.lower_, self.upper_
        with np.errstate(all="ignore"):
            if self.feature_range is None:
                return np.clip(X, *ranges)
            ends = check_pair("feature_range", self.feature_range)
            return map_range(X, ends, ranges) if back else map_range(X, ranges, ends)

    def _plain_steps(self) -> list[tuple[str, Any]]:
        if self.feature_range is None:
            return clipped_steps(self.lower_, self.upper_)
        return [("clip", scaler_between(self.lower_, self.upper_, self.feature_range))]

    def inverse_transform(self, X: MatrixLike) -> np.ndarray:
        """Map `feature_range` back onto the private ranges; without it, clip only.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Columns as `transform` returns them.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features), float64
            Columns in the units of the fit.
        """
        return self._mapped(self._check(X, reset=False, named=False), back=True)
