"""A private centre and scales of features. Proof: docs/proofs/conditioning.md.

Features that all lie on one side of 0 share a large common direction, along which gradients are
long, and features that use little of their bounds are small compared with the noise. Reading
records as ``clip((x - centre) / scale, -1, 1)`` removes both problems; with an intercept, the model
can represent the same functions. Without one the centre is 0.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._clipping import clip
from skdpsco._kernels import njit, reduction
from skdpsco._typing import MatrixLike
from skdpsco.data.design import (
    CSR,
    TILE_ROWS,
    CentredCSR,
    CentredDense,
    Dense,
    Tiles,
    clipped,
    read_only,
)
from skdpsco.data.pieces import one_record
from skdpsco.data.products import as_lengths, correlate, norms_of
from skdpsco.data.record_sums import BlockDesign, in_pieces, map_reduce, without_gil
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event, compose
from skdpsco.privacy._cache import cached
from skdpsco.privacy.spending import share_mu
from skdpsco.scaling.narrowing import LEAST_WIDTH, Narrowing, plan_narrowing
from skdpsco.scaling.quantiles import count_above, enough_records, halve, some_records, tolerated

__all__ = [
    "CACHED_ENTRIES",
    "CONDITIONING",
    "Conditioning",
    "ConditioningPlan",
    "condition",
    "conditioning_pays",
    "narrowed",
    "plan_conditioning",
    "shrunk",
]

CACHED_ENTRIES = 2**17  # few enough to stay in the cache


class ConditioningTuning(NamedTuple):
    """Constants of the plan, fitted on data as in examples/benchmarks/robustness.py.

    Parameters
    ----------
    norm_share : float
        Share of mu**2 for the norm of rows, for that of centred rows, and for their mean square.
    centre_share : float
        Share of mu**2 for both means that make the centre, and for the mean squares of columns.
    centred_noise, most_centred_share : float
        If targets are not labels, the largest deviation of a count of long centred rows, over the
        number of records, and the largest share of mu**2 of these counts for the sake of it.
    centred_most : float
        Largest share of the records that may then exceed the norm of centred rows, however large
        the noise is: a norm that is too small makes coefficients too long. (Those of labels are
        calibrated.)
    n_counts : int
        Number of counts of long rows that find a norm; k counts search among 2**k norms.
    least_ratio : float
        n mu over the root of d above which features are conditioned.
    tail : float
        Share of the records that may exceed a norm.
    least_mean : float
        Least mean squared norm, in units of the square of the norm that few rows exceed.
    square_ratio : float
        n mu over d above which mean squares of columns are released; from twice that on, with
        all of their share.
    least_square : float
        Least mean square of a column, in units of the mean of all columns. If targets are not
        labels, it is at least the deviation of its noise, up to half of that mean.
    width, wide : float
        Width of the unclipped interval, in root mean squares: usually, and for solvers whose noise
        does not grow with it.
    double_n_mu : float
        n mu above which dense features stay in double precision: below, the noise of a mean is
        at least 64 times as large as the rounding to single precision.
    """

    norm_share: float = 0.02
    centre_share: float = 0.06
    centred_noise: float = 0.2
    most_centred_share: float = 0.08
    centred_most: float = 0.35
    n_counts: int = 4
    least_ratio: float = 5.0
    tail: float = 0.1
    least_mean: float = 0.02
    square_ratio: float = 10.0
    least_square: float = 0.02
    width: float = 3.0
    wide: float = 8.0
    double_n_mu: float = 2.0**18


CONDITIONING = ConditioningTuning()

# Records in tiles of which functions are computed at once. Calls take time; larger arrays get new
# pages from the system for each of them, which takes more.
SHAPE_TILES = 4


def rounded_down(numbers: Any, dtype: Any) -> Any:
    """Positive numbers in double precision, rounded down to numbers of ``dtype``."""
    found = np.asarray(numbers, dtype)
    return np.float64(np.where(found > numbers, np.nextafter(found, dtype(0)), found))


class Conditioning(NamedTuple):
    """Features are read as ``clip((x - centre) / scale, -1, 1)``, x in [-1, 1].

    Parameters
    ----------
    centre, scale : ndarray of shape (n_features,)
    mean_square : ndarray of shape (n_features,), or None
        Approximate mean squares of the scaled features; None if they are not known.
    single : bool
        Whether differences of dense features from the centre are rounded to single precision.
    shapes : object or None
        The functions of columns that are the features of an additive model.
    """

    centre: np.ndarray
    scale: np.ndarray
    mean_square: np.ndarray | None = None
    single: bool = False
    shapes: Any = None

    def apply(self, X: Dense | CSR, tiled: bool = False) -> Dense | Tiles | CSR | CentredCSR:
        """A copy of the records as solvers see them; ``tiled`` asks for dense ones as `Tiles`.

        Sparse records without an intercept stay `CSR` if the centre is 0.
        """
        if isinstance(X, CSR):  # rows minus what zeros become
            zeros, scale = np.clip(self.centre, -self.scale, self.scale), self.scale[X.indices]
            data = clipped(X.data, X.bounds[X.indices]) - self.centre[X.indices]
            data = (np.clip(data, -scale, scale) + zeros[X.indices]) / scale
            data = read_only(data.astype(X.data.dtype))
            if not (X.intercept or self.centre.any()):
                return X._replace(data=data, bounds=np.ones(len(zeros)))
            return sparse_less(X, data, zeros / self.scale)
        dtype = X.values.dtype.type if self.shapes is None else np.float64
        dtype = np.float32 if self.single else dtype
        n, d = len(X.values), len(self.centre)
        if tiled:
            values = np.zeros((-(-n // TILE_ROWS), d, TILE_ROWS), dtype)
            tiles = Tiles(values, self.scale, X.intercept)
            # Nobody clips tiles again, so that no entry may be rounded up.
            scale = rounded_down(self.scale, dtype)
            arguments = X.bounds, self.centre, scale, self.shapes
            map_reduce(in_pieces(tiles, X.values), X.values, filled, *arguments)
            return tiles._replace(values=read_only(values))
        values = np.empty((n, d), dtype)
        for some, rows, _ in runs(X, self.centre, shapes=self.shapes):
            values[some] = rows
        return Dense(read_only(values), self.scale, X.intercept)

    def then(self, inner: "Conditioning") -> "Conditioning":
        """One change of the features in place of this one and ``inner``, which comes second."""
        centre = np.clip(self.centre + self.scale * inner.centre, -1.0, 1.0)
        scale = self.scale * inner.scale
        if inner.single:
            scale = rounded_down(scale, np.float32)
        return inner._replace(centre=centre, scale=scale)

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
    single : bool
        As in `Conditioning`.
    tiled : bool
        Whether records in arrays become `Tiles`.
    copied : bool
        Whether records in dense arrays are copied even if only a centre is subtracted, rather than
        centred when their turn comes to be read, once.
    labelled : bool
        Whether the targets are labels, whose scores are calibrated.
    narrowing : Narrowing or None
        Intervals of columns far from 0 that are found before; features are conditioned in them.
    n_counted : int
        Number of records whose lengths and distances are counted.
    """

    event: Event
    n_samples: int
    n_features: int
    grids: dict[str, float]
    width: float
    share: float
    single: bool = False
    tiled: bool = False
    copied: bool = True
    labelled: bool = False
    narrowing: Narrowing | None = None
    n_counted: int = 0

    part: ClassVar[str] = "conditioning"

    @property
    def name(self) -> str:
        """What is found, in plain words."""
        what = ("centre",) * self.centred + ("scale",) * self.scaled
        return f"{' and '.join(what)} of the features"

    def read_by(self, plan: Any, tiled: bool, widths: tuple[float, float]) -> "ConditioningPlan":
        """The stage for the layout and the width, within limits, that a solver's plan wants."""
        width = CONDITIONING.wide if plan.clips_gradients else CONDITIONING.width
        return replace(self, width=min(max(width, widths[0]), widths[1]), tiled=tiled)

    def release(self, X: Any, y: Any, rng: Any) -> Conditioning:
        """Release a centre and scales for records in arrays or blocks."""
        if self.narrowing is None:
            return self._condition(X, y, rng)
        intervals = Conditioning(*self.narrowing.release(X, y, rng))
        if (intervals.scale == 1.0).all():
            return self._condition(X, y, rng)
        inside, y = replace(self, tiled=False).apply(intervals, X, y)
        return intervals.then(self._condition(inside, y, rng))

    def _condition(self, X: Any, y: Any, rng: Any) -> Conditioning:
        if isinstance(X, BlockDesign) or self.n_counted == self.n_samples:
            counted = X, y
        else:
            counted = some_records(X, y, self.n_counted, rng)
        plan = self if counted[0] is not X else replace(self, n_counted=self.n_samples)
        return condition(plan, RecordSums(X, y, counted), rng)

    def apply(self, conditioning: Conditioning, X: Any, y: Any) -> tuple[Any, Any]:
        """The design of conditioned records; blocks are copied one by one."""
        if isinstance(X, BlockDesign):
            return X._replace(conditioning=conditioning), y
        if not (self.copied or self.scaled) and isinstance(X, Dense):
            return CentredDense(*X, conditioning.centre), y
        return conditioning.apply(X, self.tiled), y

    def note(self, conditioning: Conditioning) -> str:
        """What was decided, for the report."""
        done = ("centred",) * self.centred + ("scaled",) * self.scaled
        return f"features are {' and '.join(done)}" if done else ""

    @property
    def centred(self) -> bool:
        """Whether a centre is released; otherwise it is 0."""
        return "centre" in self.grids

    @property
    def scaled(self) -> bool:
        """Whether a scale is released, too."""
        return "mean" in self.grids

    @property
    def extremes(self) -> tuple[Conditioning, ...]:
        """The smallest and the largest scale that may be found."""
        scales: tuple[float, ...] = (1.0,)
        if self.scaled:
            smallest = self.width * 2.0 ** (1.0 + (1 - 2**CONDITIONING.n_counts) / 2.0)
            smallest *= math.sqrt(CONDITIONING.least_mean)
            if "squares" in self.grids:
                smallest *= math.sqrt(CONDITIONING.least_square)
            if self.narrowing is not None:
                smallest *= 0.5 * LEAST_WIDTH
            scales = (
                float(self.stored(min(smallest, 1.0))),
                2.0,
            )  # for features whose centre is 0 it is at most 1
        nowhere, ones = np.zeros(self.n_features), np.ones(self.n_features)
        return tuple(
            Conditioning(nowhere, ones * scale, ones if self.scaled else None) for scale in scales
        )

    def stored(self, scale: Any) -> Any:
        """Scales rounded down to the precision of features, so that clipped ones have it, too."""
        return rounded_down(scale, np.float32) if self.single else scale

    def tolerated(self, name: str) -> float:
        """Number of records that may exceed a limit."""
        # A limit that is far too small would make mean squares small, and coefficients long.
        cautious = name == "centred norm" and not self.labelled
        most = CONDITIONING.centred_most if cautious else 0.5
        return tolerated(self.n_counted, CONDITIONING.tail, self.grids[name], most)


def conditioning_pays(n_samples: float, n_features: int, mu: float) -> bool:
    """Whether a centre would be more than noise."""
    return n_samples * mu >= CONDITIONING.least_ratio * math.sqrt(n_features)


@cached(64)
def plan_conditioning(
    n_samples: int,
    n_features: int,
    mu: float,
    found: str = "centre and scale",
    sparse: bool = False,
    added: bool = False,
    labelled: bool = False,
) -> ConditioningPlan:
    """Spend a share of ``mu**2`` on the centre, on the norms of rows and on mean squares.

    Parameters
    ----------
    n_samples, n_features : int
    mu : float
        Budget of the whole fit.
    found : {"centre and scale", "centre", "scale"}, default="centre and scale"
        What is released.
    sparse : bool, default=False
        Whether records are sparse.
    added : bool, default=False
        As in `Problem`.
    labelled : bool, default=False
        Whether the targets are labels, whose scores are calibrated.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    n, d = n_samples, n_features
    centred_share = CONDITIONING.norm_share
    if not labelled:
        surer = CONDITIONING.n_counts * (CONDITIONING.centred_noise * n * mu) ** -2.0
        centred_share = max(centred_share, min(surer, CONDITIONING.most_centred_share))
    k = CONDITIONING.n_counts
    parts = {"centred norm": (centred_share / k, k)}
    if "centre" in found:
        parts["norm"] = (CONDITIONING.norm_share / k, k)
        parts["centre"] = parts["residual"] = (CONDITIONING.centre_share / 2.0, 1)
    if "scale" in found:
        parts["mean"] = (CONDITIONING.norm_share, 1)
        worth = min(n * mu / (max(d, 1) * CONDITIONING.square_ratio) - 1.0, 1.0)
        # The sum of squares of sparse records that are added might be rounded by more.
        if worth > 0.0 and not (sparse and added):
            parts["squares"] = (CONDITIONING.centre_share * worth, 1)
    multiplier, event = share_mu(mu, parts)
    slack = 1.0 + (d + 4) * 2.0**-38  # rounding of norms
    # The squares of two records are nonnegative, and add up to at most 1. Those of sparse rows are
    # differences, which are rounded, and whose terms are larger.
    square = slack * slack + sparse * 2.0**-38
    # Rows and centres are added up separately, each at most 91 times as long as their difference.
    mean = one_record(n, added, 2.0**8, change=slack if added else 2.0 * slack)
    changes = {
        "centre": mean,
        "residual": mean,
        "mean": one_record(n, added, 1.0, change=1.0),
        "squares": one_record(
            n,
            added,
            2.0**12 if sparse else square,
            change=square if added else math.sqrt(2.0) * square,
        ),
    }
    dimensions = {"centre": d, "residual": d, "squares": d}
    grids = {
        name: gaussian_grid(
            changes.get(name, 1.0), multiplier[name], dimensions.get(name, 1), n * square
        )
        for name in parts
    }
    share = sum(share * count for share, count in parts.values())
    return ConditioningPlan(
        event,
        n,
        d,
        grids,
        CONDITIONING.width,
        share,
        single=n * mu < CONDITIONING.double_n_mu,
        labelled=labelled,
        n_counted=enough_records(n, d, mu, added),
    )


def narrowed(plan: ConditioningPlan, mu: float) -> ConditioningPlan:
    """The plan with a search for intervals of columns far from 0, if it pays.

    A centre and scales must be found.

    ``mu`` is the budget of the whole fit. Records must be dense.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    sizes = plan.n_samples, plan.n_features
    search = plan_narrowing(*sizes, mu) if plan.centred and plan.scaled else None
    if search is None:
        return plan
    event, share = compose(search.event, plan.event), search.share + plan.share
    return replace(plan, narrowing=search, event=event, share=share)


class RecordSums:
    """The sums that `condition` asks for, over records in arrays or blocks; each takes one pass.

    Lengths and distances are those of the records ``counted``, features and targets.
    """

    def __init__(self, X: Any, y: Any, counted: tuple[Any, Any]) -> None:
        self._X, self._y = in_pieces(X, y), y
        self._counted = in_pieces(*counted), counted[1]

    def longer(self, centre: np.ndarray, limits: np.ndarray) -> np.ndarray:
        """How many rows minus ``centre`` are longer than each of the increasing ``limits``."""
        return map_reduce(*self._counted, longer_than, centre, limits)

    def rows(self, centre: np.ndarray, c: float) -> np.ndarray:
        """Sum of the rows minus ``centre``, shortened to norm ``c``, over ``c``."""
        return map_reduce(self._X, self._y, shortened_sum, centre, c)

    def norms(self, centre: np.ndarray, c: float) -> np.ndarray:
        """Sum of the squared norms of centred rows, shortened to ``c``, over ``c * c``."""
        total, self._squares = map_reduce(self._X, self._y, shortened_squares, centre, c)
        return total

    def squares(self, centre: np.ndarray, c: float) -> np.ndarray:
        """Sum of the squares of the rows of `norms`, over ``c * c``."""
        return self._squares


def condition(plan: ConditioningPlan, sums_of: Any, rng: np.random.Generator) -> Conditioning:
    """Release a centre and scales for records with these sums; see `RecordSums`."""
    n, d = plan.n_samples, plan.n_features
    nowhere = np.zeros(d)

    def norm(name, centre, largest):
        """A norm that few rows exceed, by halving candidates up to the largest."""
        candidates = largest * 2.0 ** (np.arange(1 - 2**CONDITIONING.n_counts, 1) / 2.0)
        counts = sums_of.longer(centre, candidates * (1.0 + 1e-9))
        return float(candidates[halve(counts, plan.tolerated(name), plan.grids[name], rng)])

    def mean(name, centre, c):
        """The mean of rows that are shortened around a centre, and the deviation of its noise."""
        sums = sums_of.rows(centre, c)
        deviation = gaussian_mechanism(rng, sums, plan.grids[name])
        return centre + c * sums / n, c * deviation / n

    def closest(noisy, deviation):
        """Towards 0, which is the centre if nothing is known."""
        return np.clip(shrunk(noisy, deviation), -1.0, 1.0)

    centre = nowhere
    if plan.centred:
        c = norm("norm", nowhere, math.sqrt(d))
        first, noise = mean("centre", nowhere, c)
        centre = closest(first, noise)
    c = norm("centred norm", centre, 2.0 * math.sqrt(d))
    if plan.centred:
        # Where centred rows are much shorter, so is the noise; otherwise both means count.
        second, less_noise = mean("residual", centre, c)
        weight = noise**2 / (noise**2 + less_noise**2)
        centre = closest(first + weight * (second - first), less_noise * math.sqrt(weight))
    if not plan.scaled:
        return Conditioning(centre, np.ones(d), None, plan.single)
    total = sums_of.norms(centre, c)
    gaussian_mechanism(rng, total, plan.grids["mean"])
    square = np.full(d, max(float(total[0]), CONDITIONING.least_mean * n) / d)
    if "squares" in plan.grids:
        sums = sums_of.squares(centre, c)
        deviation = gaussian_mechanism(rng, sums, plan.grids["squares"])
        # Towards the mean of all columns.
        sums = square + shrunk(sums - square, deviation, square[0])
        least = CONDITIONING.least_square * square[0]
        if not plan.labelled:  # nothing finds out later that coefficients are too long
            least = max(least, min(deviation, 0.5 * square[0]))
        square = np.maximum(sums, least)
    square *= c * c / n
    # No feature is farther from its centre than 1 + |centre|.
    scale = plan.stored(np.minimum(plan.width * np.sqrt(square), 1.0 + np.abs(centre)))
    return Conditioning(centre, scale, np.minimum(square / scale**2, 1.0), plan.single)


def shrunk(noisy: np.ndarray, deviation: float, size: float = math.inf) -> np.ndarray:
    """James and Stein's estimate of the vector that noise was added to.

    Noise that happens to be long looks like a signal. So no vector keeps a larger share than a
    signal whose entries are about as large as ``size``: what remains of pure noise then has entries
    of at most about half of ``size``.
    """
    variance = deviation**2
    factor = 1.0 - len(noisy) * variance / max(float(noisy @ noisy), 1e-300)
    return noisy * min(max(factor, 0.0), 1.0 / (1.0 + variance / size**2))


@without_gil
def longer_than(X: MatrixLike, y: Any, centre: Any, limits: Any) -> np.ndarray:
    """How many centred rows are longer than each of the ``limits``."""
    norms = np.empty(len(y))
    write_centred_norms(X, centre, norms)
    return count_above(norms, limits)


@without_gil
def shortened_sum(X: Any, y: Any, centre: Any, c: Any) -> np.ndarray:
    """Sum of centred rows, shortened to norm ``c``, over ``c``."""
    if isinstance(X, Dense):
        total = np.zeros(len(centre))
        for _, rows, squares in runs(X, centre):
            total += (1.0 / np.maximum(np.sqrt(squares), c)) @ rows
        return total
    norms = np.empty(len(y))
    write_centred_norms(X, centre, norms)
    weights = 1.0 / np.maximum(norms, c)
    X = X._replace(intercept=1)  # the sum of these ones is that of the weights
    total = np.empty(len(centre) + 1)
    add_weighted(X, weights[:, None], total)
    return total[:-1] - total[-1] * centre


@without_gil
def shortened_squares(X: MatrixLike, y: Any, centre: Any, c: Any) -> tuple[np.ndarray, ...]:
    """Sums of the squared norms of centred rows, shortened to ``c``, and of their squares.

    Both are over ``c * c``.
    """
    norms, squares = np.zeros(1), np.zeros(len(centre))
    if isinstance(X, Dense):
        for _, rows, each in runs(X, centre):
            rows *= rows
            norms += np.minimum(each / (c * c), 1.0).sum()
            squares += (1.0 / np.maximum(each, c * c)) @ rows
        return norms, squares
    each, total = np.empty(len(y)), np.empty(len(centre) + 1)
    write_centred_norms(X, centre, each)
    each *= each
    norms[0] = np.minimum(each / (c * c), 1.0).sum()
    # Beyond those of rows without entries, whose sum is that of the weights times centre**2.
    minus = less(X._replace(intercept=1), centre)
    more = minus.data * (minus.data - 2.0 * centre[X.indices])
    weights = 1.0 / np.maximum(each, c * c)
    add_weighted(minus._replace(data=read_only(more)), weights[:, None], total)
    return norms, total[:-1] + total[-1] * centre**2


def sparse_less(X: CSR, data: np.ndarray, centre: np.ndarray) -> CentredCSR:
    """A matrix with other entries in the same places, minus a centre."""
    ones = np.ones(len(centre))
    return CentredCSR(data, X.indices, X.indptr, ones, X.intercept, centre)


def less(X: CSR, centre: np.ndarray) -> CentredCSR:
    """Rows minus a centre, in units of the bounds, in double precision as in their sums."""
    return sparse_less(X, read_only(clipped(X.data, X.bounds[X.indices])), centre)


def write_centred_norms(X: Dense | CSR, centre: np.ndarray, norms: np.ndarray) -> None:
    """Write the norms of rows minus a centre."""
    if isinstance(X, Dense):
        for some, _, squares in runs(X, centre):
            np.sqrt(squares, out=norms[some])
    else:
        rows = less(X, centre)
        norms_of(rows, as_lengths(np.append(np.ones(len(centre)), 0.0), rows), norms)


def runs(
    X: Dense, centre: np.ndarray, unit: Any = 1.0, limit: Any = math.inf, shapes: Any = None
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Rows minus a centre, times ``unit`` and clipped to ``limit``: some of them at a time.

    Where they stand comes with them, and their squared norms. They are in the cache, and may be
    overwritten. Features are the functions of ``shapes``, if there are some.
    """
    n, d = len(X.values), len(centre)
    ones, bounds, fewest = np.ones(d), X.bounds, 1
    if shapes is not None:
        bounds, fewest = shapes.bounds, SHAPE_TILES
    size = max(CACHED_ENTRIES // max(d, 1) // TILE_ROWS, fewest) * TILE_ROWS
    room, squares = np.empty((min(size, n), d)), np.empty(min(size, n))
    units = bounds, unit / bounds, unit * centre, limit * ones
    for start in range(0, n, size):
        values = X.values[start : start + size]
        values = values if shapes is None else read_only(shapes.features(values))
        rows, mine = room[: len(values)], squares[: len(values)]
        write_centred(values, units, rows, mine)
        yield slice(start, start + len(values)), rows, mine


@njit
def add_weighted(X, weights, out):
    """Write the sum of rows times ``weights`` of shape (n, 1), in units of the bounds."""
    correlate(X, weights, out)


@without_gil
def filled(
    tiles: Tiles,
    values: np.ndarray,
    bounds: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    shapes: Any,
) -> np.ndarray:
    """Write records into tiles of this process; there is nothing to add up."""
    for some, rows, _ in runs(Dense(values, bounds, 0), centre, limit=scale, shapes=shapes):
        first, last = some.start // TILE_ROWS, some.stop // TILE_ROWS
        whole = (last - first) * TILE_ROWS
        shape = last - first, TILE_ROWS, len(centre)
        tiles.values[first:last] = rows[:whole].reshape(shape).transpose(0, 2, 1)
        if whole < len(rows):
            tiles.values[last, :, : len(rows) - whole] = rows[whole:].T
    return np.zeros(0)


@reduction
def _centre_row(values, i, units, out):
    bounds, over, centre, limit = units
    total = 0.0
    for j in range(out.shape[1]):
        x = clip(clip(values[i, j], bounds[j]) * over[j] - centre[j], limit[j])
        out[i, j] = x
        total += x * x
    return total


@njit
def write_centred(values, units, out, squares):
    """Write the features minus a centre, in other units and clipped, and the rows' squared norms.

    See `runs`.
    """
    for i in range(out.shape[0]):
        squares[i] = _centre_row(values, i, units, out)
