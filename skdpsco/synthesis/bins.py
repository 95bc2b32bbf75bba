"""Bins of numbers: which of them a number is in, and numbers that are drawn from them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from skdpsco._validation import LARGEST, is_number
from skdpsco.data.categories import as_held, is_list
from skdpsco.data.columns import Column

__all__ = ["FINE_BINS", "MERGED_BINS", "Bins", "MergedBins", "bins_of", "is_integer"]

# Bins of a column of which a schema declares the bounds, and cells among which they are found.
MERGED_BINS, FINE_BINS = 16, 256
STEEP = 64.0  # the bound over the width around 0 within which cells are equally wide


@dataclass(frozen=True)
class Bins:
    """Public bins of a column of numbers.

    Parameters
    ----------
    edges : array-like of shape (n_bins + 1,)
        Increasing numbers in [-1e100, 1e100]. Bin i is ``edges[i] <= x < edges[i + 1]``; the last
        one contains its upper edge too. Numbers beyond the outer edges are counted in the outer
        bins, silently.
    points : array-like, default=()
        Numbers in [-1e100, 1e100] that many records share, such as 0 or a code. Each is a bin of
        its own, within the edges or beyond them.
    missing : bool, default=False
        Whether numbers may be missing. They have a bin of their own.
    integer : bool, default=False
        Whether numbers are whole although their dtype is not one of integers.

    Raises
    ------
    TypeError
        If ``edges`` or ``points`` are not numbers, or a flag is not a bool.
    ValueError
        If there are fewer than two edges, they do not increase, ``points`` are not different, or
        a number is out of range.

    Examples
    --------
    >>> from skdpsco.synthesis import Bins
    >>> Bins([0, 18, 65, 120]).size
    3
    >>> Bins([1, 1000, 10_000], points=[0]).size
    3
    """

    edges: Any
    points: Any = ()
    missing: bool = False
    integer: bool = False

    def __post_init__(self) -> None:
        edges = _checked_numbers(
            "edges must be a list of at least two increasing numbers", self.edges, increasing=True
        )
        points = _checked_numbers("points must be a list of different numbers", self.points)
        for name in ("missing", "integer"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}.")
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "points", points)

    @property
    def n_intervals(self) -> int:
        """Number of bins between edges."""
        return len(self.edges) - 1

    @property
    def size(self) -> int:
        """Number of bins: those between edges, then points, then missing numbers."""
        return self.n_intervals + len(self.points) + self.missing

    def codes(self, values: np.ndarray, dtype: Any = None) -> np.ndarray:
        """Bins of numbers from a column of a dtype; they are finite, or NaN if missing."""
        found = np.searchsorted(self.edges, values, side="right") - 1
        found = np.clip(found, 0, self.n_intervals - 1)
        for code, point in enumerate(as_held(self.points, dtype), start=self.n_intervals):
            found[values == point] = code
        found[np.isnan(values)] = self.size - 1
        return found

    def between(self, low: float, high: float, dtype: str) -> np.ndarray | None:
        """Which bins hold numbers with ``low <= x < high``; None if such a bin holds others too."""
        if self.integer or is_integer(dtype):
            first, last = self.whole_numbers(dtype if is_integer(dtype) else "int64")
            for point in sorted(self.points):
                first += first == point
            for point in sorted(self.points, reverse=True):
                last -= last == point
        else:
            first, last = np.array(self.edges[:-1]), np.nextafter(self.edges[1:], -np.inf)
        inside = (low <= first) & (last < high)
        if not (inside | (last < low) | (high <= first)).all():
            return None
        points = [low <= point < high for point in self.points]
        return np.concatenate([inside, points, [False] * self.missing]).astype(bool)

    def whole_numbers(self, dtype: str) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest number between edges, for a dtype of integers."""
        short = dtype in ("int8", "int16", "int32", "uint8", "uint16", "uint32")
        known = np.iinfo(dtype if short else "int64")
        least = 0 if dtype.startswith("u") else int(known.min)
        if any(p != math.floor(p) or not least <= p <= known.max for p in self.points):
            raise ValueError(f"there are points that {dtype} does not hold")
        low = [max(math.ceil(e), least) for e in self.edges[:-1]]
        high = [math.ceil(e) - 1 for e in self.edges[1:-1]] + [math.floor(self.edges[-1])]
        high = [min(e, int(known.max)) for e in high]
        for a, b in zip(low, high, strict=True):
            if a + sum(a <= point <= b for point in self.points) > b:
                raise ValueError(f"there are bins without a number that {dtype} holds")
        return np.array(low, dtype=np.int64), np.array(high, dtype=np.int64)

    def numbers(self, codes: np.ndarray, dtype: str, rng: np.random.Generator | None) -> np.ndarray:
        """Numbers in the bins: the middle ones, or uniform draws; None if they are missing."""
        within = np.minimum(codes, self.n_intervals - 1)
        if self.integer or is_integer(dtype):
            values = self._whole(within, dtype if is_integer(dtype) else "int64", rng)
        else:
            edges = np.array(self.edges)
            a, b = edges[within], edges[within + 1]
            u = 0.5 if rng is None else rng.random(len(codes))
            with np.errstate(under="ignore"):  # underflow next to 0
                values = np.minimum(a + u * (b - a), np.nextafter(b, a))
            if dtype in ("float16", "float32"):  # which may round up to the next bin
                below = np.nextafter(b.astype(dtype), a.astype(dtype))
                values = np.minimum(values.astype(dtype), below).astype(np.float64)
        for code, point in enumerate(self.points, start=self.n_intervals):
            values[codes == code] = point
        if self.missing:
            values = values.astype(object)
            values[codes == self.size - 1] = np.nan if dtype.startswith("float") else None
        return values

    def _whole(self, within: np.ndarray, dtype: str, rng: Any) -> np.ndarray:
        """Whole numbers between edges that are not points."""
        low, high = (ends[within] for ends in self.whole_numbers(dtype))
        points = [(low <= p) & (p <= high) for p in sorted(self.points)]
        last = high - sum(points, np.zeros_like(high))
        middle = low + (last - low) // 2
        values = middle if rng is None else rng.integers(low, last, endpoint=True)
        for point, here in zip(sorted(self.points), points, strict=True):
            values += here & (values >= point)
        return values


@dataclass(frozen=True, eq=False)
class MergedBins:
    """Neighbouring bins between edges, merged into a few of about the same share.

    Parameters
    ----------
    fine : Bins
    weights : ndarray of shape (fine.n_intervals,)
        Expected shares of records.
    forced : tuple of int, default=()
        Fine bins at which a merged one starts, whatever the weights are.
    """

    fine: Bins
    weights: np.ndarray
    forced: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Number of bins, whatever the weights are."""
        return MERGED_BINS + self.fine.size - self.fine.n_intervals

    @cached_property
    def starts(self) -> np.ndarray:
        """The first fine bin of each merged one, and the end."""
        up_to, starts = self._up_to, sorted({0, *self.forced, self.fine.n_intervals})
        while len(starts) <= MERGED_BINS:
            # The heaviest bin that can be divided is divided at its median.
            several = [(a, b) for a, b in pairwise(starts) if b - a > 1]
            a, b = max(several, key=lambda ends: up_to[ends[1]] - up_to[ends[0]])
            median = (up_to[a] + up_to[b]) / 2
            starts.append(a + 1 + int(np.abs(up_to[a + 1 : b] - median).argmin()))
            starts.sort()
        return np.array(starts)

    @cached_property
    def _up_to(self) -> np.ndarray:
        """Shares up to every fine edge; all of them are positive."""
        shares = self.weights / max(self.weights.sum(), 1e-300) + 1e-9
        return np.concatenate([[0.0], np.cumsum(shares)])

    @cached_property
    def merged(self) -> np.ndarray:
        """The merged bin of every fine one."""
        fine = np.arange(self.fine.size)
        found = np.searchsorted(self.starts, fine, side="right") - 1
        beyond = fine - self.fine.n_intervals
        return np.where(beyond < 0, found, MERGED_BINS + beyond)

    def of_fine(self, mask: np.ndarray) -> np.ndarray:
        """Which merged bins are in a set of fine ones, whose ends are in `forced`."""
        return np.concatenate([mask[self.starts[:-1]], mask[self.fine.n_intervals :]])

    def codes(self, values: np.ndarray, dtype: Any = None) -> np.ndarray:
        """Bins of numbers from a column of a dtype; they are finite, or NaN if missing."""
        return self.merged[self.fine.codes(values, dtype)]

    def numbers(self, codes: np.ndarray, dtype: str, rng: np.random.Generator | None) -> np.ndarray:
        """Numbers in the bins: the middle ones, or draws by the weights."""
        within = np.minimum(codes, MERGED_BINS - 1)
        a, b = self.starts[within], self.starts[within + 1]
        low, high = self._up_to[a], self._up_to[b]
        u = 0.5 if rng is None else rng.random(len(codes))
        found = np.searchsorted(self._up_to, low + u * (high - low), side="right") - 1
        fine = np.clip(found, a, b - 1)
        beyond = codes - MERGED_BINS
        fine = np.where(beyond < 0, fine, self.fine.n_intervals + beyond)
        return self.fine.numbers(fine, dtype, rng)


def bins_of(column: Column, cuts: Sequence[float] = ()) -> Bins | MergedBins:
    """Bins of declared bounds: one for each of a few whole numbers, otherwise merged ones.

    ``cuts`` are numbers between which no bin lies; the nearest edges are moved there.
    Codes of missing numbers are points, and so is 0 between the bounds of many numbers.
    """
    low, high = column.bounds
    points = [float(code) for code in column.codes if is_number(code)]
    first, last = math.ceil(low), math.floor(high)
    whole = column.integer and first <= last
    if whole:
        low, high = first - 0.5, last + 0.5
    if whole and last - first < FINE_BINS:
        edges = np.linspace(low, high, last - first + 2)
    elif low <= 0.0 <= high:  # finer near 0
        unit = max(-low, high) / STEEP
        ends = np.arcsinh(low / unit), np.arcsinh(high / unit)
        edges = np.clip(np.sinh(np.linspace(*ends, FINE_BINS + 1)) * unit, low, high)
        edges[[0, -1]] = low, high
    else:
        edges = np.linspace(low, high, FINE_BINS + 1)
    cuts = sorted({math.ceil(cut) - 0.5 if whole else cut for cut in cuts if low < cut < high})
    for i, cut in enumerate(cuts):
        away = np.where(np.isin(edges, [low, high, *cuts[:i]]), np.inf, np.abs(edges - cut))
        edges[away.argmin()] = cut
    if low <= 0.0 <= high and len(edges) - 1 > MERGED_BINS and 0.0 not in points:
        points.append(0.0)
    edges = np.unique(_between_whole_numbers(edges, points) if whole else edges)
    if len(edges) < 2:
        raise ValueError(f"domain: all numbers of {column.name!r} are codes of missing ones.")
    # Larger numbers of a float dtype are whole anyway.
    bins = Bins(edges, points, column.missing, whole and max(-low, high) < 2**53)
    if bins.n_intervals <= MERGED_BINS:
        return bins
    return MergedBins(bins, np.diff(bins.edges))


def _between_whole_numbers(edges: np.ndarray, points: list[float]) -> np.ndarray:
    """Edges moved up to halves, if there is a whole number between them that is not a point."""
    edges = np.unique(np.floor(edges) + 0.5)
    kept = [edges[0]]
    for edge in edges[1:]:
        inside = sum(kept[-1] < point < edge for point in points)
        if edge - kept[-1] > inside:
            kept.append(edge)
    return np.array(kept)


def is_integer(dtype: str) -> bool:
    """Whether a dtype is one of integers."""
    return dtype.rstrip("0123456789") in ("int", "uint")


def _checked_numbers(legal: str, given: Any, increasing: bool = False) -> tuple[float, ...]:
    """Different numbers in [-1e100, 1e100], checked."""
    message = f"{legal} in [-1e100, 1e100], got {given!r}."
    if not is_list(given):
        raise ValueError(message)
    if not all(map(is_number, given)):
        raise TypeError(message)
    found = tuple(map(float, given))
    if increasing:
        legal_order = len(found) > 1 and all(low < high for low, high in pairwise(found))
    else:
        legal_order = len(set(found)) == len(found)
    if not legal_order or not all(-LARGEST <= e <= LARGEST for e in found):
        raise ValueError(message)
    return found
