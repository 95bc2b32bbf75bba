"""Private bounds of features, if none are declared. Proof: docs/proofs/feature_bounds.md."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._kernels import inlined, inlined_kernel, njit
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.design import CSR, Dense, as_design
from skdpsco.data.pieces import one_record
from skdpsco.data.record_sums import in_pieces, map_reduce, without_gil
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event, GaussianEvent, NoOpEvent
from skdpsco.privacy.spending import share_mu
from skdpsco.scaling.column_scales import LOWEST, N_BINS, count_grid, tallied
from skdpsco.scaling.conditioning import shrunk
from skdpsco.scaling.quantiles import count_above, halve, tolerated

__all__ = ["FEATURE_BOUNDS", "BoundPlan", "clipping_note", "find_bounds", "plan_bounds"]

HIGHEST = 31  # 2**HIGHEST is the largest bound that may be found
LARGEST_BOUND = 2.0**HIGHEST
# The bins of a tally are [2**(k-1), 2**k). Values are shrunk slightly, so that a power of two
# counts in the bin that ends at it.
LIMIT = LARGEST_BOUND * (1.0 + 2.0**-30)
SMALLEST_BOUND = LARGEST_BOUND * 2.0**LOWEST
MEDIAN_SQUARE = 0.4549  # of a standard normal number
_MEAN_CANDIDATES = np.arange(
    LOWEST + HIGHEST + 1.0, HIGHEST + 1.0, 2.0
)  # candidates of a mean level


class BoundTuning(NamedTuple):
    """Constants of counts and levels, chosen so that a bound is hardly ever a guess.

    docs/proofs/feature_bounds.md says what was measured with those of levels.

    Parameters
    ----------
    share : float
        Share of rho for counts.
    credible : float
        A count is believed if it exceeds its noise by this factor.
    notable : float
        Noise must not hide counts of this share of the records.
    level_share, level_ratio : float
        Share of rho for levels where n mu over the root of d is at most ``level_ratio``; beyond, it
        falls with the root of that number.
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
    room : float
        How far bounds are above mean levels, in powers of two.
    beside : float
        A count beside one that is believed needs this share of what others need.
    together, credible_together : int, float
        Where no count of a column is believed, sums of so many neighbouring ones are, if they
        exceed their noise by this factor.
    notable_records : float
        Number of records in a bin that noise may hide, from which on there is all of this room.
    tailed : float
        Standard deviation of levels in a column, as the median of all columns, from which on there
        is all of it.
    certain : float
        Levels differ certainly if they are as many typical differences from the median, of which
        none is smaller than the noise.
    """

    share: float = 0.05
    credible: float = 5.0
    notable: float = 1.0 / 8.0
    level_share: float = 0.12
    level_ratio: float = 40.0
    least_n_mu: float = 40.0
    median_share: float = 0.2
    filled_share: float = 0.15
    norm_share: float = 0.13
    n_rounds: int = 3
    n_norms: int = 4
    tail: float = 0.1
    least_filled: float = 0.05
    room: float = 2.5
    beside: float = 0.5
    together: int = 5
    credible_together: float = 4.0
    notable_records: float = 8.0
    tailed: float = 0.4
    certain: float = 3.0


FEATURE_BOUNDS = BoundTuning()


@dataclass(frozen=True)
class BoundPlan:
    """How magnitudes are counted or measured.

    Parameters
    ----------
    n_samples, n_features : int
    grids : dict
        Grids by the names of the releases: that of ``counts``, those of levels, or none if nothing
        is released and all bounds are 1.
    event : Event
    least : float, default=1.0
        Bounds that follow from counts are at least this unless they are below 1: noise may hide
        larger entries.
    """

    n_samples: int
    n_features: int
    grids: dict[str, float]
    event: Event
    least: float = 1.0

    part: ClassVar[str] = "bounds"

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
    n_samples: int, n_features: int, rho: float, added: bool = False, least: float = 1.0
) -> BoundPlan:
    """Spend a share of ``rho`` on counts or levels of columns; nothing if both would be noise.

    ``added`` is as in `skdpsco._problem.Problem`, and ``least`` as in `BoundPlan`.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    n, d, tuning = n_samples, n_features, FEATURE_BOUNDS
    mu = math.sqrt(2.0 * tuning.share * rho)
    # A record moves from one bin to another, in each of d histograms: the noise is sqrt(2 d) / mu.
    if n >= math.sqrt(2.0 * d) / mu * tuning.credible / tuning.notable:
        grid = count_grid(n, 1, math.sqrt(d) / mu, added)
        return BoundPlan(n, d, {"counts": grid}, GaussianEvent(1.0 / mu), least)
    mu = math.sqrt(2.0 * rho)
    if n * mu < tuning.least_n_mu:
        return BoundPlan(n, d, {}, NoOpEvent())
    plenty = n * mu / math.sqrt(d) / tuning.level_ratio
    mu *= math.sqrt(tuning.level_share * min(plenty**-0.5, 1.0))
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
    return BoundPlan(n, d, grids, event)


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
    X = in_pieces(X._replace(bounds=np.full(len(X.bounds), LIMIT), intercept=0), y)
    counts = map_reduce(X, y, tallied_columns, unknown)
    if "counts" in plan.grids:
        return _bounds_of_counts(plan, counts, rng)
    places = np.where(unknown, np.cumsum(unknown) - 1, -1)

    def sums(centre: np.ndarray, c: float) -> Any:
        return map_reduce(X, y, level_sums, places, centre, c)

    centre = _mean_levels(plan, counts.sum(axis=1), sums, rng)
    return np.clip(2.0 ** (centre + FEATURE_BOUNDS.room), SMALLEST_BOUND, LARGEST_BOUND)


def _bounds_of_counts(plan: BoundPlan, counts: np.ndarray, rng: Any) -> np.ndarray:
    """Release counts of magnitudes, and derive a power of two that covers all frequent ones."""
    deviation = gaussian_mechanism(rng, counts.reshape(-1), plan.grids["counts"])
    levels = levels_of_counts(counts, deviation, plan.n_samples)
    bounds = LARGEST_BOUND * 2.0 ** np.minimum(levels, 0.0)
    # A column with almost only zeros tells nothing, and gets a bound of the other columns.
    found = np.sort(bounds[bounds > 0.0])
    bounds[bounds == 0.0] = found[len(found) // 2] if len(found) > 0 else 1.0
    return np.where(bounds < 1.0, bounds, np.maximum(bounds, plan.least))


def levels_of_counts(counts: np.ndarray, deviation: float, n: int) -> np.ndarray:
    """Levels that cover frequent magnitudes, with room for a tail that noise may hide.

    Parameters
    ----------
    counts : ndarray of shape (n_features, n_bins)
        Noisy numbers of entries by their magnitudes.
    deviation : float
        Standard deviation of the noise.
    n : int
        Number of records.

    Returns
    -------
    levels : ndarray of shape (n_features,)
        Whole numbers, as exponents of two in units of the largest bound, or minus infinity for
        columns of which no count is believed.
    """
    tuning, levels = FEATURE_BOUNDS, np.arange(N_BINS) + float(LOWEST)
    hidden = tuning.credible * deviation  # so many records may be in a bin unseen
    credible = counts > hidden
    # Noise can hardly make a bin beside one that is believed, nor is that one far away.
    beside = np.zeros_like(credible)
    beside[:, 1:] |= credible[:, :-1]
    beside[:, :-1] |= credible[:, 1:]
    credible |= beside & (counts > max(tuning.beside * hidden, 0.5))  # half a record is none
    highest = np.where(credible, levels, -np.inf).max(axis=1)
    weights = np.where(credible, counts, 0.0)
    filled = weights.sum(axis=1)
    shares = weights / np.maximum(filled, 1.0)[:, None]
    means = shares @ levels
    spreads = np.sqrt(np.maximum(shares @ levels**2 - means**2, 0.0))
    # Where most columns have no tails, such as indicators, room for the others would drown these.
    tailed = min(float(np.median(spreads)) / tuning.tailed, 1.0)
    room = tuning.room * tailed * min(hidden / tuning.notable_records, 1.0)
    roomy = np.maximum(highest, np.rint(means + room))
    # A column whose entries all have one magnitude has no tail, and would drown its own spread.
    alike = weights.max(axis=1) > n - hidden
    unknown = highest == -np.inf
    highest = np.where(alike | unknown, highest, roomy)
    highest[unknown] = _levels_of_sums(counts[unknown], deviation)
    return highest


def _levels_of_sums(counts: np.ndarray, deviation: float) -> np.ndarray:
    """Levels that cover the largest sum of neighbouring counts, if it is more than noise."""
    k = FEATURE_BOUNDS.together
    sums = np.lib.stride_tricks.sliding_window_view(counts, k, axis=1).sum(axis=-1)
    noise = FEATURE_BOUNDS.credible_together * deviation * math.sqrt(k)
    highest = sums.argmax(axis=1) + (k - 1.0 + LOWEST)
    return np.where(sums.max(axis=1) > noise, highest, -np.inf)


def _mean_levels(plan: BoundPlan, filled: np.ndarray, sums: Any, rng: Any) -> np.ndarray:
    """Release the mean level of every column, in rounds around the levels that were found before.

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
    return centre


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
def tallied_columns(X: Dense | CSR, y: TargetLike, unknown: np.ndarray) -> np.ndarray:
    """Histograms of magnitudes, one for each of the ``unknown`` columns; see `find_bounds`."""
    d = len(X.bounds)
    counts = [tallied(X, y, d, d)[0]]
    if len(unknown) > d:
        targets = as_design(y[:, None], X.bounds[:1], False)
        counts.append(tallied(targets, y, 1, 1)[0])
    return np.vstack(counts)[unknown]


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
