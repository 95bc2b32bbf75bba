"""A private centre and scales of dense features. Proof: docs/proofs/conditioning.md.

Features on one side of 0 share a large common direction, along which gradients are long, and
features that use little of their bounds are small compared with the noise. Reading records as
``clip((x - centre) / scale, -1, 1)`` removes both problems; with an intercept, the model can
represent the same functions.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._clipping import clip
from skdpsco._kernels import njit, reduction
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.design import Dense
from skdpsco.data.pieces import replace_one
from skdpsco.data.products import add_rows, common_bound, run_room
from skdpsco.data.record_sums import BlockDesign, in_pieces, map_reduce, without_gil
from skdpsco.mechanisms.samplers import deviation_on, gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event
from skdpsco.solvers.base import share_mu

# Shares of mu**2: of the norms of rows before and after centring, of the centre, of mean squares.
NORM_SHARE, CENTRE_SHARE, CENTRED_NORM_SHARE = 0.02, 0.06, 0.02
MEAN_SHARE, SQUARE_SHARE = 0.01, 0.05
LEAST_MEAN = 0.02  # squared norm, in units of the square of the norm that few rows exceed
SQUARE_RATIO = 20.0  # of n mu over d, from which mean squares are released; at twice that, for all
# of their share
LEAST_SQUARE = 0.02  # of a column, in units of the mean of all columns
N_COUNTS, N_CENTRED_COUNTS = 3, 4  # of records with a large norm: 2**N_COUNTS candidates
LEAST_RATIO = 5.0  # of n mu over sqrt(d), from which features are conditioned
TAIL = 0.1  # share of the records that may be longer
WIDTH = 3.0  # of what is clipped, in root mean squares, and more where noise is small
PLENTY_RATIO = 1000.0  # of n mu over sqrt(d), from which the width grows


class Conditioning(NamedTuple):
    """Features are read as ``clip((x - centre) / scale, -1, 1)``, x in [-1, 1].

    Parameters
    ----------
    centre, scale : ndarray of shape (n_features,)
    mean_square : ndarray of shape (n_features,), or None
        About that of what is read; None if it is not known.
    """

    centre: np.ndarray
    scale: np.ndarray
    mean_square: np.ndarray | None = None

    def apply(self, X: Dense) -> Dense:
        """A copy of the records as solvers see them."""
        values = np.empty_like(X.values)
        write_centred(X, self.centre, values)
        return Dense(values, self.scale, X.intercept)

    def ranges(self, bounds: np.ndarray) -> np.ndarray:
        """Interval to which every column is clipped, in the user's units."""
        low = np.fmax(self.centre - self.scale, -1.0)
        return bounds * np.array([low, np.fmin(self.centre + self.scale, 1.0)])


@dataclass(frozen=True)
class ConditioningPlan:
    """Grids of the releases.

    Parameters
    ----------
    event : Event
    n_samples, n_features : int
    grids : dict
        Grids by the names of the releases.
    width : float
        Clipping width, in root mean squares.
    share : float
        Share of mu**2 for all releases.
    """

    event: Event
    n_samples: int
    n_features: int
    grids: dict[str, float]
    width: float
    share: float

    part: ClassVar[str] = "conditioning"

    def release(self, X: Any, y: Any, rng: Any) -> Conditioning:
        """See `release_conditioning`."""
        return release_conditioning(self, X, y, rng)

    def apply(self, conditioning: Conditioning, X: Any, y: Any) -> tuple[Any, Any]:
        """The design of conditioned records, which copies arrays, and blocks one by one."""
        if isinstance(X, BlockDesign):
            return X._replace(conditioning=conditioning), y
        return conditioning.apply(X), y

    def note(self, conditioning: Conditioning) -> str:
        """A line for the report."""
        what = "centre and scale" if self.scaled else "centre"
        return f"{self.share:.0%} of the budget's mu^2 found a {what} of the features"

    @property
    def scaled(self) -> bool:
        """Whether a scale is released, too."""
        return "centred norm" in self.grids

    @property
    def extremes(self) -> tuple[Conditioning, ...]:
        """The smallest and the largest scale that may be found."""
        scales: tuple[float, ...] = (1.0,)
        if self.scaled:
            smallest = self.width * 2.0 ** (1.0 + (1 - 2**N_CENTRED_COUNTS) / 2.0)
            smallest *= math.sqrt(LEAST_MEAN)
            if "squares" in self.grids:
                smallest *= math.sqrt(LEAST_SQUARE)
            scales = (min(smallest, 1.0), 2.0)  # of features whose centre is 0 it is at most 1
        nowhere, ones = np.zeros(self.n_features), np.ones(self.n_features)
        return tuple(
            Conditioning(nowhere, ones * scale, ones if self.scaled else None) for scale in scales
        )

    def tolerated(self, name: str) -> float:
        """Number of records that may be longer than a norm, above what noise makes of 0."""
        noise = deviation_on(self.grids[name])
        return max(TAIL * self.n_samples, min(3.0 * noise, 0.5 * self.n_samples))


def conditioning_pays(n_samples: int, n_features: int, mu: float) -> bool:
    """Whether a centre is more than noise."""
    return n_samples * mu >= LEAST_RATIO * math.sqrt(n_features)


def plan_conditioning(n_samples: int, n_features: int, mu: float, scaled: bool) -> ConditioningPlan:
    """Spend a share of ``mu**2`` on the centre, on the norms of rows and on mean squares.

    Parameters
    ----------
    n_samples, n_features : int
    mu : float
        Budget of the whole fit.
    scaled : bool
        Whether scales are released, too.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    n, d = n_samples, n_features
    parts = {"norm": (NORM_SHARE / N_COUNTS, N_COUNTS), "centre": (CENTRE_SHARE, 1)}
    if scaled:
        parts["centred norm"] = (CENTRED_NORM_SHARE / N_CENTRED_COUNTS, N_CENTRED_COUNTS)
        parts["mean"] = (MEAN_SHARE, 1)
        worth = min(n * mu / (max(d, 1) * SQUARE_RATIO) - 1.0, 1.0)
        if worth > 0.0:
            parts["squares"] = (SQUARE_SHARE * worth, 1)
    multiplier, event = share_mu(mu, parts)
    slack = 1.0 + (d + 4) * 2.0**-50  # rounding of norms
    # Of two records the squares are nonnegative and add up to at most 1.
    square = slack * slack
    changes = {
        "centre": replace_one(n, slack),
        "mean": replace_one(n, 1.0, change=1.0),
        "squares": replace_one(n, square, change=math.sqrt(2.0) * square),
    }
    dimensions = {"centre": d, "squares": d}
    grids = {
        name: gaussian_grid(
            changes.get(name, 1.0), multiplier[name], dimensions.get(name, 1), n * square
        )
        for name in parts
    }
    width = WIDTH * math.sqrt(max(n * mu / math.sqrt(d) / PLENTY_RATIO, 1.0))
    share = sum(share * count for share, count in parts.values())
    return ConditioningPlan(event, n, d, grids, width, share)


def release_conditioning(
    plan: ConditioningPlan, X: Any, y: Any, rng: np.random.Generator
) -> Conditioning:
    """A centre and scales for dense records, in arrays or blocks."""
    n, d = plan.n_samples, plan.n_features
    X = in_pieces(X, y)
    nowhere = np.zeros(d)

    def norm(name, centre, largest, n_counts):
        """A norm that few rows exceed, by halving: 2**n_counts candidates up to the largest."""
        candidates = largest * 2.0 ** (np.arange(1 - 2**n_counts, 1) / 2.0)
        counts = map_reduce(X, y, longer_than, centre, candidates * (1.0 + 1e-9))
        low, high = 0, len(candidates) - 1
        while low < high:
            middle = (low + high) // 2
            count = counts[[middle]]
            gaussian_mechanism(rng, count, plan.grids[name])
            low, high = (low, middle) if count[0] <= plan.tolerated(name) else (middle + 1, high)
        return float(candidates[high])

    c = norm("norm", nowhere, math.sqrt(d), N_COUNTS)
    sums = map_reduce(X, y, shortened_sum, c)
    deviation = gaussian_mechanism(rng, sums, plan.grids["centre"])
    # Towards 0, where the records are if nothing is known.
    centre = np.clip(c * shrunk(sums, deviation) / n, -1.0, 1.0)
    if not plan.scaled:
        return Conditioning(centre, np.ones(d))
    c = norm("centred norm", centre, 2.0 * math.sqrt(d), N_CENTRED_COUNTS)
    mean = map_reduce(X, y, shortened_norms, centre, c)
    gaussian_mechanism(rng, mean, plan.grids["mean"])
    square = np.full(d, max(float(mean[0]), LEAST_MEAN * n) / d)
    if "squares" in plan.grids:
        sums = map_reduce(X, y, shortened_squares, centre, c)
        deviation = gaussian_mechanism(rng, sums, plan.grids["squares"])
        # Towards what all columns have in common.
        sums = square + shrunk(sums - square, deviation)
        square = np.maximum(sums, LEAST_SQUARE * square)
    square *= c * c / n
    # No feature is farther from its centre.
    scale = np.minimum(plan.width * np.sqrt(square), 1.0 + np.abs(centre))
    return Conditioning(centre, scale, np.minimum(square / scale**2, 1.0))


def shrunk(noisy: np.ndarray, deviation: float) -> np.ndarray:
    """James and Stein's estimate of what noise was added to."""
    variance = deviation**2
    return noisy * max(0.0, 1.0 - len(noisy) * variance / max(float(noisy @ noisy), 1e-300))


@without_gil
def longer_than(X: MatrixLike, y: TargetLike, centre: Any, limits: Any) -> np.ndarray:
    """How many centred rows are longer than each of the increasing ``limits``."""
    norms = np.empty(len(y))
    write_norms(X, centre, norms)
    up_to = np.bincount(np.searchsorted(limits, norms), minlength=len(limits) + 1)[:-1].cumsum()
    return (len(norms) - up_to).astype(np.float64)


@without_gil
def shortened_sum(X: MatrixLike, y: TargetLike, c: Any) -> np.ndarray:
    """Sum of rows, shortened to norm ``c``, over ``c``."""
    total = np.zeros(len(X.bounds) + X.intercept)
    add_over_norms(X, c, run_room(X, 1).Z, total)
    return total[: len(X.bounds)] / X.bounds


@without_gil
def shortened_norms(X: MatrixLike, y: TargetLike, centre: Any, c: Any) -> np.ndarray:
    """Sum of the squared norms of centred rows, shortened to ``c``, over ``c * c``."""
    norms = np.empty(len(y))
    write_norms(X, centre, norms)
    return np.square(np.minimum(norms / c, 1.0)).sum()[None]


@without_gil
def shortened_squares(X: MatrixLike, y: TargetLike, centre: Any, c: Any) -> np.ndarray:
    """Sum of the squares of centred rows, shortened to norm ``c``, over ``c * c``."""
    total = np.zeros(len(centre))
    add_shortened_squares(X, centre, c, total)
    return total


@reduction
def _square_norm(values, i, bounds, over, centre):
    total = 0.0
    for j in range(bounds.shape[0]):
        x = clip(values[i, j], bounds[j]) * over[j] - centre[j]
        total += x * x
    return total


@reduction
def _add_squares(values, i, bounds, over, centre, weight, out):
    for j in range(bounds.shape[0]):
        x = clip(values[i, j], bounds[j]) * over[j] - centre[j]
        out[j] += weight * (x * x)


@njit
def write_norms(X, centre, out):
    """Write the norm of every centred row."""
    over = 1.0 / X.bounds
    for i in range(out.shape[0]):
        out[i] = math.sqrt(_square_norm(X.values, i, X.bounds, over, centre))


@njit
def add_over_norms(X, c, weights, out):
    """Add rows over their norms, or over ``c`` if that is more; yet to be divided by the bounds."""
    over, centre = 1.0 / X.bounds, np.zeros(X.bounds.shape[0])
    common = common_bound(X)
    for start in range(0, X.values.shape[0], weights.shape[0]):
        some = weights[: min(weights.shape[0], X.values.shape[0] - start)]
        for i in range(some.shape[0]):
            square = _square_norm(X.values, start + i, X.bounds, over, centre)
            some[i, 0] = 1.0 / max(math.sqrt(square), c)
        add_rows(X, start, common, some, out)


@njit
def add_shortened_squares(X, centre, c, out):
    """Add the squares of centred rows over those of their norms, or over ``c * c``."""
    over = 1.0 / X.bounds
    for i in range(X.values.shape[0]):
        square = _square_norm(X.values, i, X.bounds, over, centre)
        _add_squares(X.values, i, X.bounds, over, centre, 1.0 / max(square, c * c), out)


@njit
def write_centred(X, centre, out):
    """Write the features less ``centre``."""
    over = 1.0 / X.bounds
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = clip(X.values[i, j], X.bounds[j]) * over[j] - centre[j]
