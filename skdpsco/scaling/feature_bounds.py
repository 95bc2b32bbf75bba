"""Private bounds of features, if none are declared. Proof: docs/proofs/feature_bounds.md."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._kernels import inlined, inlined_kernel, njit
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.design import CSR, Dense, read_only
from skdpsco.data.pieces import one_record
from skdpsco.data.record_sums import in_pieces, map_reduce, without_gil
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event, NoOpEvent
from skdpsco.privacy.spending import share_mu
from skdpsco.scaling.column_scales import LOWEST
from skdpsco.scaling.conditioning import shrunk
from skdpsco.scaling.quantiles import count_above, halve, tolerated

__all__ = ["FEATURE_BOUNDS", "BoundPlan", "clipping_note", "find_bounds", "plan_bounds"]

HIGHEST = 31  # 2**HIGHEST is the largest bound that may be found
LARGEST_BOUND = 2.0**HIGHEST
# Entries are clipped to it while levels are found: beyond all bounds.
LIMIT = LARGEST_BOUND * (1.0 + 2.0**-30)
SMALLEST_BOUND = LARGEST_BOUND * 2.0**LOWEST
MEDIAN_SQUARE = 0.4549  # of a standard normal number
_MEAN_CANDIDATES = np.arange(
    LOWEST + HIGHEST + 1.0, HIGHEST + 1.0, 2.0
)  # candidates of a mean level


class BoundTuning(NamedTuple):
    """Constants of levels, fitted on the laws of examples/benchmarks/laws/columns.py.

    The level of a number is the power of two that is just above it.

    Parameters
    ----------
    level_share, level_ratio : float
        Share of rho for levels where n mu over the root of d is at most ``level_ratio``; beyond, it
        falls in proportion to 1 over that number.
    least_n_mu : float
        The n mu from which on levels are found.
    median_share, filled_share, norm_share : float
        Parts of that share for the median of mean levels, for numbers of entries that are not 0 and
        for the norms of rounds; the rest is for their sums.
    n_rounds, n_norms : int
        Number of rounds, and of counts in each; k counts search among 2**k norms.
    tail : float
        Share of the records that may exceed a norm.
    least_filled : float
        Least share of the entries of a column that are not 0.
    room, least_room : float
        How far bounds are above mean levels, in powers of two: usually, and where noise grows with
        the bounds.
    varied : float
        Typical difference of a level from the mean of its column from which on there is all of this
        room. Columns such as indicators, whose entries are alike, have no tails.
    certain : float
        Levels differ certainly if they are as many typical differences from the median, of which
        none is smaller than the noise.
    """

    level_share: float = 0.05
    level_ratio: float = 40.0
    least_n_mu: float = 40.0
    median_share: float = 0.2
    filled_share: float = 0.15
    norm_share: float = 0.13
    n_rounds: int = 3
    n_norms: int = 4
    tail: float = 0.1
    least_filled: float = 0.05
    room: float = 2.7
    least_room: float = 1.0
    varied: float = 1.2
    certain: float = 3.0


FEATURE_BOUNDS = BoundTuning()


class KeptLevels(Dense):
    """Levels of dense records, which are read many times; `EMPTY` for entries that are 0."""


EMPTY = -128


@dataclass(frozen=True)
class BoundPlan:
    """How levels of columns are found.

    Parameters
    ----------
    n_samples, n_features : int
    grids : dict
        Grids by the names of the releases; none if nothing is released and all bounds are 1.
    event : Event
    room : float
        How far bounds of columns with tails are above mean levels, in powers of two.
    """

    n_samples: int
    n_features: int
    grids: dict[str, float]
    event: Event
    room: float = FEATURE_BOUNDS.room

    part: ClassVar[str] = "bounds"
    name: ClassVar[str] = "bounds of the features"

    @property
    def extremes(self) -> tuple[np.ndarray, ...]:
        """The smallest and the largest bounds that may be found."""
        ends = (SMALLEST_BOUND, LARGEST_BOUND) if self.grids else (1.0,)
        return tuple(np.full(self.n_features, end) for end in ends)

    def release(self, X: Any, y: Any, rng: Any) -> np.ndarray:
        """Release one bound per column."""
        return find_bounds(self, X, y, np.ones(self.n_features, dtype=bool), rng)

    def apply(self, bounds: np.ndarray, X: Any, y: Any) -> tuple[Any, Any]:
        """The design with ``bounds``."""
        return X._replace(bounds=bounds), y

    def note(self, bounds: np.ndarray) -> str:
        """A line for the report."""
        return clipping_note(bounds)


def clipping_note(bounds: np.ndarray) -> str:
    """A line for the report."""
    low, high = float(bounds.min()), float(bounds.max())
    brief = f"{low:g}" if low == high else f"[{low:g} .. {high:g}], one bound per column"
    return f"features are clipped to +-{brief}"


def plan_bounds(
    n_samples: int, n_features: int, rho: float, added: bool = False, tight: bool = False
) -> BoundPlan:
    """Spend a share of ``rho`` on levels of columns; nothing if they would be noise.

    ``added`` is as in `skdpsco._problem.Problem`; ``tight`` says that noise grows with the bounds,
    since no scales are found.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    n, d, tuning = n_samples, n_features, FEATURE_BOUNDS
    mu = math.sqrt(2.0 * rho)
    if n * mu < tuning.least_n_mu:
        return BoundPlan(n, d, {}, NoOpEvent())
    ratio = n * mu / math.sqrt(d)
    plenty = ratio / tuning.level_ratio
    mu *= math.sqrt(tuning.level_share * min(1.0 / plenty, 1.0))
    n_means, rounds = len(_MEAN_CANDIDATES).bit_length() - 1, tuning.n_rounds
    left = 1.0 - tuning.median_share - tuning.filled_share - tuning.norm_share
    parts = {
        "median": (tuning.median_share / n_means, n_means),
        "filled": (tuning.filled_share, 1),
        "norm": (tuning.norm_share / (rounds * tuning.n_norms), rounds * tuning.n_norms),
        "levels": (left / rounds, rounds),
    }
    multiplier, event = share_mu(mu, parts)
    slack = 1.0 + (d + 4) * 2.0**-50  # rounding of norms
    changes = {"filled": math.sqrt(d), "levels": one_record(n, added, slack)}
    grids = {
        name: gaussian_grid(
            changes.get(name, 1.0), multiplier[name], d if name in changes else 1, n * slack
        )
        for name in parts
    }
    room = tuning.least_room if tight else tuning.room
    return BoundPlan(n, d, grids, event, room)


def find_bounds(
    plan: BoundPlan, X: Any, y: Any, unknown: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Release one bound for each of the ``unknown`` columns.

    Parameters
    ----------
    plan : BoundPlan
    X : Dense, CSR or BlockDesign
    y : ndarray of shape (n_samples,), or None for blocks
    unknown : ndarray of shape (n_features,) or (n_features + 1,), dtype bool
        The targets are the last column, if there is one more than there are features.
    rng : numpy.random.Generator
    """
    if not plan.grids:
        return np.ones(plan.n_features)
    # With bounds that exceed all that may be found.
    X = X._replace(bounds=np.full(len(X.bounds), LIMIT), intercept=0)
    filled = map_reduce(in_pieces(X, y), y, filled_entries, unknown)
    X = in_pieces(levels_of(X) if isinstance(X, Dense) else X, y)
    places = np.where(unknown, np.cumsum(unknown) - 1, -1)

    def sums(centre: np.ndarray, c: float) -> Any:
        return map_reduce(X, y, level_sums, places, centre, c)

    centre, typical = _mean_levels(plan, filled, sums, rng)
    room = plan.room * min(typical / FEATURE_BOUNDS.varied, 1.0)
    return np.clip(2.0 ** (centre + room), SMALLEST_BOUND, LARGEST_BOUND)


def _mean_levels(
    plan: BoundPlan, filled: np.ndarray, sums: Any, rng: Any
) -> tuple[np.ndarray, float]:
    """Release the mean level of every column, in rounds around the levels that were found before.

    Also return a typical difference of a level from the mean of its column.

    ``sums`` is `level_sums` of all records, and ``filled`` is how many entries are not 0.
    """
    n, d, grids, tuning = plan.n_samples, plan.n_features, plan.grids, FEATURE_BOUNDS
    means, *_ = sums(np.zeros(d), 1.0)
    centre = np.full(d, _MEAN_CANDIDATES[halve(means, 0.5 * n, grids["median"], rng)])
    deviation = gaussian_mechanism(rng, filled, grids["filled"])
    typical = filled.mean()
    share = np.clip((typical + shrunk(filled - typical, deviation)) / n, tuning.least_filled, 1.0)
    limit = tolerated(n, tuning.tail, grids["norm"])
    total, precision = np.zeros(d), 0.0
    for _ in range(tuning.n_rounds):
        _, longer, _ = sums(centre, 1.0)
        c = float(norms_of_levels(d)[halve(longer, limit, grids["norm"], rng)])
        *_, shifts = sums(centre, c)
        deviation = gaussian_mechanism(rng, shifts, grids["levels"]) * c / n
        total += (centre + shifts * c / n / share) / deviation**2
        precision += 1.0 / deviation**2
        centre = _towards_the_mean(total / precision, share, precision**-0.5)
    return centre, c / math.sqrt(share.sum())


def _towards_the_mean(levels: np.ndarray, share: np.ndarray, deviation: float) -> np.ndarray:
    """Levels of which only as much of their differences is kept as is likely to be no noise.

    The noise of a level is ``deviation`` over the share of its column's entries that are not 0. A
    few levels that certainly differ from the others are kept as they are, and do not count.
    """
    order = np.argsort(levels)
    weight = np.square(share[order]).cumsum()
    middle = levels[order][np.searchsorted(weight, 0.5 * weight[-1])]
    squares = np.square((levels - middle) * share / deviation)
    usual = max(float(np.median(squares)) / MEDIAN_SQUARE, 1.0)
    alike = squares <= FEATURE_BOUNDS.certain**2 * usual
    share = share * alike  # nothing is known of the others
    away = levels - levels @ share / share.sum()
    spread = max(float(np.square(share * away).sum()) - alike.sum() * deviation**2, 0.0)
    signal = spread / (share @ share) * share**2
    return np.where(alike, levels - away * deviation**2 / (signal + deviation**2), levels)


def norms_of_levels(n_columns: int) -> np.ndarray:
    """Candidates for the norm of differences of levels, a factor of the root of 2 apart."""
    powers = np.arange(1 - 2**FEATURE_BOUNDS.n_norms, 1) / 2.0
    return -LOWEST / 2.0 * math.sqrt(n_columns) * 2.0**powers


@without_gil
def filled_entries(X: Dense | CSR, y: TargetLike, unknown: np.ndarray) -> np.ndarray:
    """How many entries of each of the ``unknown`` columns are not 0; see `find_bounds`."""
    filled = np.zeros(len(unknown))
    if isinstance(X, Dense):
        filled[: len(X.bounds)] = np.count_nonzero(X.values, axis=0)
    else:
        filled[: len(X.bounds)] = np.bincount(X.indices[X.data != 0.0], minlength=len(X.bounds))
    if len(unknown) > len(X.bounds):
        filled[-1] = np.count_nonzero(y)
    return filled[unknown]


@without_gil
def level_sums(
    X: MatrixLike, y: TargetLike, places: np.ndarray, centre: np.ndarray, c: float
) -> tuple[np.ndarray, ...]:
    """Numbers of records by their levels less ``centre``, and sums of these differences.

    Returns
    -------
    above : ndarray
        How many have a mean above each of the candidates.
    longer : ndarray
        How many have a norm above each of the candidates.
    sums : ndarray
        Sum of differences that are shortened to norm ``c``, over ``c``.
    """
    targets = y if len(places) > len(X.bounds) else np.zeros(0)
    numbers, sums = np.empty((2, len(y))), np.zeros(len(centre))
    add_levels(X, targets, places, centre, c, numbers, sums)
    longer = count_above(numbers[1], norms_of_levels(len(centre)))
    return count_above(numbers[0], _MEAN_CANDIDATES), longer, sums


def levels_of(X: Dense) -> KeptLevels:
    """Levels in the place of entries."""
    levels = np.empty(X.values.shape, np.int8)
    write_levels(X.values, levels)
    return KeptLevels(read_only(levels), X.bounds, X.intercept)


@inlined
def _level(x):
    """The least integer k with ``|x| <= 2**k``, within the powers that may be found."""
    mantissa, exponent = math.frexp(x)
    level = exponent - 1 if abs(mantissa) == 0.5 else exponent
    return float(min(max(level, LOWEST + HIGHEST), HIGHEST))


@inlined_kernel
def gather_levels(X, i, places, columns, levels):
    """Write the places and levels of entries of row i that are not 0; return their number."""
    raise NotImplementedError


@gather_levels.register(Dense)
def _(X, i, places, columns, levels):
    k = 0
    for j in range(X.bounds.shape[0]):
        if places[j] >= 0 and X.values[i, j] != 0.0:
            columns[k], levels[k] = places[j], _level(X.values[i, j])
            k += 1
    return k


@gather_levels.register(KeptLevels)
def _(X, i, places, columns, levels):
    k = 0
    for j in range(X.bounds.shape[0]):
        if places[j] >= 0 and X.values[i, j] != EMPTY:
            columns[k], levels[k] = places[j], X.values[i, j]
            k += 1
    return k


@gather_levels.register(CSR)
def _(X, i, places, columns, levels):
    k = 0
    for p in range(X.indptr[i], X.indptr[i + 1]):
        if places[X.indices[p]] >= 0 and X.data[p] != 0.0:
            columns[k], levels[k] = places[X.indices[p]], _level(X.data[p])
            k += 1
    return k


@njit
def add_levels(X, targets, places, centre, c, numbers, sums):
    """Write the mean and the norm of the differences of every record, and add up shortened ones."""
    d = X.bounds.shape[0]
    columns, levels = np.empty(places.shape[0], np.int64), np.empty(places.shape[0])
    for i in range(numbers.shape[1]):
        k = gather_levels(X, i, places, columns, levels)
        if places.shape[0] > d and places[d] >= 0 and targets[i] != 0.0:
            columns[k], levels[k] = places[d], _level(targets[i])
            k += 1
        total, square = 0.0, 0.0
        for m in range(k):
            levels[m] -= centre[columns[m]]
            total += levels[m]
            square += levels[m] * levels[m]
        norm = math.sqrt(square)
        numbers[0, i], numbers[1, i] = total / max(k, 1), norm
        weight = 1.0 / max(norm, c)
        for m in range(k):
            sums[columns[m]] += levels[m] * weight


@njit
def write_levels(values, out):
    """Write the level of every entry that is not 0."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            out[i, j] = EMPTY if values[i, j] == 0.0 else np.int8(_level(values[i, j]))
