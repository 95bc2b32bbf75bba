"""Private bounds of features, if none are declared. Proof: docs/proofs/feature_bounds.md."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtri

from skdpsco._typing import TargetLike
from skdpsco.data.design import CSR, Dense, as_design, as_matrix
from skdpsco.data.pieces import one_record, row_squares
from skdpsco.data.record_sums import BlockDesign, in_pieces, map_reduce, without_gil
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event, NoOpEvent
from skdpsco.privacy.spending import share_mu
from skdpsco.scaling.conditioning import CACHED_ENTRIES, shrunk
from skdpsco.scaling.quantiles import count_above, enough_records, halve, some_records, tolerated

__all__ = ["FEATURE_BOUNDS", "BoundPlan", "clipping_note", "find_bounds", "plan_bounds"]

# Powers of two of the smallest and the largest bound that may be found
LOWEST, HIGHEST = -32, 63
SMALLEST_BOUND, LARGEST_BOUND = 2.0**LOWEST, 2.0**HIGHEST
# Entries are clipped to it while levels are found: beyond all bounds.
LIMIT = LARGEST_BOUND * (1.0 + 2.0**-30)
MEDIAN_SQUARE = 0.4549  # of a standard normal number
# Candidates of a mean level. Few are large, so that noise rarely ends there; rounds correct them.
_MEAN_CANDIDATES = np.append(np.arange(-31.0, 29.0, 2.0), [34.0, 47.0])
LONGEST = 31.5  # the largest candidate for norms of differences of levels, over the root of d


class BoundTuning(NamedTuple):
    """Constants of levels, fitted on the laws of examples/benchmarks/laws/columns.py.

    The level of a number is the power of two that is just above it.

    Parameters
    ----------
    level_share, level_ratio : float
        Share of rho for levels where n mu over the root of d is at most ``level_ratio``; beyond, it
        falls in proportion to 1 over that number. Here n counts the records that are read.
    least_n_mu : float
        The n mu above which levels are found.
    other_share : float
        Part of that share for each of the median of mean levels, the numbers of entries that are
        not 0 and the norms of rounds; the rest is for their sums.
    n_rounds, n_norms : int
        Number of rounds, and of counts in each; k counts search among 2**k norms.
    tail : float
        Share of the records that may exceed a norm; and the largest share of entries beyond a bound
        that raises it.
    least_filled : float
        Least share of the entries of a column that are not 0.
    room, least_room : float
        How far bounds are above mean levels, in powers of two: usually, and where noise grows with
        the bounds.
    certain : float
        Levels differ certainly if they are as many typical differences from the median, of which
        none is smaller than the noise.
    beyond_share : float
        Largest share of rho for numbers of entries beyond the bounds, which are raised for tails.
    least_beyond, heavy : float
        Share of the entries that may be beyond raised bounds, and the share beyond a bound above
        which it is raised.
    """

    level_share: float = 0.05
    level_ratio: float = 40.0
    least_n_mu: float = 40.0
    other_share: float = 0.15
    n_rounds: int = 3
    n_norms: int = 4
    tail: float = 0.1
    least_filled: float = 0.05
    room: float = 2.7
    least_room: float = 1.0
    certain: float = 3.0
    beyond_share: float = 0.02
    least_beyond: float = 0.003
    heavy: float = 0.05


FEATURE_BOUNDS = BoundTuning()


# Levels are stored as small integers above 0, which stands for entries that are 0.
STORED = 64


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
    n_read : int
        Number of records that are read if they are in memory; blocks are read as a whole.
    """

    n_samples: int
    n_features: int
    grids: dict[str, float]
    event: Event
    room: float = FEATURE_BOUNDS.room
    n_read: int = 0

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
    brief = f"{low:g}" if low == high else f"b per column, b from {low:g} to {high:g}"
    return f"features are clipped to ±{brief}"


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
    n_read = enough_records(n, d, mu, added)
    plenty = n_read * mu / math.sqrt(d) / tuning.level_ratio
    share = tuning.level_share * min(1.0 / plenty, 1.0)
    n_means, rounds = len(_MEAN_CANDIDATES).bit_length() - 1, tuning.n_rounds
    part, n_norms = share * tuning.other_share, rounds * tuning.n_norms
    parts = {
        "median": (part / n_means, n_means),
        "filled": (part, 1),
        "norm": (part / n_norms, n_norms),
        "levels": ((share - 3.0 * part) / rounds, rounds),
    }
    deviation = math.sqrt(d / tuning.beyond_share) / (n_read * mu)
    if not tight and tuning.certain * deviation < tuning.tail:
        parts["beyond"] = (
            tuning.beyond_share * min((deviation / tuning.least_beyond) ** 2, 1.0),
            1,
        )
    multiplier, event = share_mu(mu, parts)
    slack = 1.0 + (d + 4) * 2.0**-50  # rounding of norms
    changes = {
        "filled": math.sqrt(d),
        "beyond": math.sqrt(d),
        "levels": one_record(n, added, slack),
    }
    grids = {
        name: gaussian_grid(
            changes.get(name, 1.0), multiplier[name], d if name in changes else 1, n * slack
        )
        for name in parts
    }
    room = tuning.least_room if tight else tuning.room
    return BoundPlan(n, d, grids, event, room, n_read)


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
    if not isinstance(X, BlockDesign):
        if plan.n_read < plan.n_samples:
            X, y = some_records(X, y, plan.n_read, rng)
            plan = replace(plan, n_samples=plan.n_read)
        X = as_design(levels_of(X, y, unknown), np.ones(plan.n_features), False, checked=True)
        X = in_pieces(X, y)

    def summed(function: Any, *arguments: Any) -> Any:
        return map_reduce(X, y, function, unknown, *arguments)

    centre = _mean_levels(plan, summed, rng)
    room: Any = plan.room
    if "beyond" in plan.grids:
        room = _room_for_tails(plan, centre, room, summed, rng)
    return np.clip(2.0 ** (centre + room), SMALLEST_BOUND, LARGEST_BOUND)


def _mean_levels(plan: BoundPlan, summed: Any, rng: Any) -> np.ndarray:
    """Release the mean level of every column, in rounds around the levels that were found before.

    ``summed`` sums a function over all records.
    """
    n, d, grids, tuning = plan.n_samples, plan.n_features, plan.grids, FEATURE_BOUNDS
    start = halve(summed(means_above), 0.5 * n, grids["median"], rng)
    centre = np.full(d, _MEAN_CANDIDATES[start])
    filled = summed(filled_entries)
    deviation = gaussian_mechanism(rng, filled, grids["filled"])
    typical = filled.mean()
    share = np.clip((typical + shrunk(filled - typical, deviation)) / n, tuning.least_filled, 1.0)
    limit = tolerated(n, tuning.tail, grids["norm"])
    total, precision = np.zeros(d), 0.0
    for _ in range(tuning.n_rounds):
        longer = summed(longer_levels, centre)
        c = float(norms_of_levels(d)[halve(longer, limit, grids["norm"], rng)])
        shifts = summed(level_sums, centre, c)
        deviation = gaussian_mechanism(rng, shifts, grids["levels"]) * c / n
        total += (centre + shifts * c / n / share) / deviation**2
        precision += 1.0 / deviation**2
        centre = _towards_the_mean(total / precision, share, precision**-0.5)
    return centre


def _room_for_tails(
    plan: BoundPlan, centre: np.ndarray, room: float, summed: Any, rng: np.random.Generator
) -> np.ndarray:
    """How far bounds are above mean levels, more than ``room`` where many entries are beyond it.

    Levels are taken to be normal. ``summed`` sums a function over all records that are read.
    """
    highest = np.ceil(centre + room)
    counts = summed(entries_beyond, highest)
    deviation = gaussian_mechanism(rng, counts, plan.grids["beyond"])
    # Fewer may be errors, which a bound has to cut off.
    heavy = counts > max(FEATURE_BOUNDS.certain * deviation, FEATURE_BOUNDS.heavy * plan.n_samples)
    share = np.clip(counts / plan.n_samples, FEATURE_BOUNDS.least_beyond, FEATURE_BOUNDS.tail)
    wider = (highest - centre) * ndtri(FEATURE_BOUNDS.least_beyond) / ndtri(share)
    return np.where(heavy, np.maximum(wider, room), room)


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
    return LONGEST * math.sqrt(n_columns) * 2.0**powers


def stored_levels(x: np.ndarray) -> np.ndarray:
    """Levels plus `STORED`; 0 for numbers that are 0.

    The level of a number is the least integer k with ``|x| <= 2**k``, within the powers that may be
    found. It is read from the bits, many times as fast as by ``frexp``.
    """
    kind, out = np.finfo(x.dtype), np.empty(x.shape, np.int8)
    rows = max(CACHED_ENTRIES // max(x[:1].size, 1), 1)
    for start in range(0, len(x), rows):
        some = x[start : start + rows]
        levels = some.view(f"i{x.itemsize}") & (2 ** (kind.bits - 1) - 1)  # without the sign
        levels -= 1
        levels >>= kind.nmant
        levels += 2 - kind.maxexp
        np.maximum(levels, LOWEST, out=levels)
        np.minimum(levels, HIGHEST, out=levels)
        levels += STORED
        levels[some == 0.0] = 0
        out[start : start + rows] = levels
    return out


def levels_of(X: Dense | CSR, y: TargetLike, unknown: np.ndarray) -> Any:
    """Stored levels of the ``unknown`` columns, an array or a sparse one; X may hold them already.

    See `find_bounds`.
    """
    entries = X.values if isinstance(X, Dense) else X.data
    if entries.dtype == np.int8:
        return entries if isinstance(X, Dense) else as_matrix(X)
    mine, has_target = unknown[: len(X.bounds)], unknown[len(X.bounds) :].any()
    target = stored_levels(np.asarray(y, float))[:, None] if has_target else None
    if isinstance(X, Dense):
        levels = stored_levels(entries if mine.all() else entries[:, mine])
        return levels if target is None else np.hstack([levels, target])
    levels = as_matrix(X._replace(data=stored_levels(entries)))[:, np.flatnonzero(mine)]
    levels = levels if target is None else sparse.hstack([levels, target], format="csr")
    levels.eliminate_zeros()
    return levels


@without_gil
def filled_entries(X: Dense | CSR, y: TargetLike, unknown: np.ndarray) -> np.ndarray:
    """How many entries of each of the ``unknown`` columns are not 0; see `find_bounds`."""
    return np.ones(len(y)) @ levels_of(X, y, unknown).astype(bool)


@without_gil
def entries_beyond(
    X: Dense | CSR, y: TargetLike, unknown: np.ndarray, highest: np.ndarray
) -> np.ndarray:
    """How many entries of each of the ``unknown`` columns have a level above ``highest``."""
    # Beyond all levels, limits count nothing or every entry but 0, in all layouts.
    limits = np.clip(highest + STORED, 0.0, 127.0).astype(np.int8)
    levels = levels_of(X, y, unknown)
    if isinstance(levels, np.ndarray):
        return np.ones(len(y)) @ (levels > limits)
    levels.data = (levels.data > limits[levels.indices]).astype(float)
    return np.ones(len(y)) @ levels


@without_gil
def means_above(X: Dense | CSR, y: TargetLike, unknown: np.ndarray) -> np.ndarray:
    """How many records have a mean level above each of the candidates; see `find_bounds`."""
    levels = levels_of(X, y, unknown)
    ones = np.ones(levels.shape[1])  # products with them are exact
    filled = levels.astype(bool) @ ones
    means = levels @ ones / np.maximum(filled, 1.0) - STORED * (filled > 0.0)
    return count_above(means, _MEAN_CANDIDATES)


def _differences(levels: Any, centre: np.ndarray) -> Iterator[tuple[int, Any, np.ndarray]]:
    """Levels less ``centre`` of some records at a time, and their norms.

    The number of the first record comes with them.
    """
    middle, dense = centre + STORED, isinstance(levels, np.ndarray)
    rows = max(CACHED_ENTRIES // len(centre), 1) if dense else max(levels.shape[0], 1)
    for start in range(0, levels.shape[0], rows):
        some = levels[start : start + rows]
        if dense:
            differences = some - middle
            differences[some == 0] = 0.0
        else:
            differences = some.astype(float)
            differences.data -= middle[some.indices]
        yield start, differences, np.sqrt(row_squares(differences))


@without_gil
def longer_levels(
    X: Dense | CSR, y: TargetLike, unknown: np.ndarray, centre: np.ndarray
) -> np.ndarray:
    """How many records have levels less ``centre`` of a norm above each of the candidates."""
    norms = np.empty(len(y))
    for start, _, some in _differences(levels_of(X, y, unknown), centre):
        norms[start : start + len(some)] = some
    return count_above(norms, norms_of_levels(len(centre)))


@without_gil
def level_sums(
    X: Dense | CSR, y: TargetLike, unknown: np.ndarray, centre: np.ndarray, c: float
) -> np.ndarray:
    """Sum of levels less ``centre``, shortened to norm ``c`` for every record, over ``c``."""
    total = np.zeros(len(centre))
    for _, differences, norms in _differences(levels_of(X, y, unknown), centre):
        total += (1.0 / np.maximum(norms, c)) @ differences
    return total
