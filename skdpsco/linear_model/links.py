"""Links: monotone functions from linear predictions to expected targets."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from skdpsco._validation import check_bound, check_interval
from skdpsco.losses.library import Squared
from skdpsco.losses.tabulated import Tabulated

__all__ = ["Identity", "Link", "resolve_link"]

# Fine around 0; elsewhere steps are at most 1/250 of the distance from 0, up to a million.
_GRID = 1e-3 * np.sinh(4e-3 * np.arange(-5375, 5376))
_KNOTS_PER_UNIT = 64.0  # most of them in the tables that fits see
_LARGEST_RISE = 0.1  # between neighbours in the grid, in units of the range


class Link:
    """A non-decreasing function g with values in a public range: ``E[y | x] = g(x'w)``.

    The function is called with a fixed grid of 10751 numbers within +-1.08e6, dense around 0, and
    with nothing else. Fits and predictions use its results, interpolated linearly. It never sees
    anything that depends on data, so privacy does not rest on it, neither in a fit nor when a
    search scores predictions. Subclasses are refused.

    Parameters
    ----------
    function : callable
        Takes a float64 array of shape (m,) and returns one finite number in [low, high] for each
        entry, non-decreasing and continuous. It must not print anything, since the number of calls
        by a search is not public.
    low, high : float
        Public range, ``low < high``, to which targets are clipped.

    Raises
    ------
    TypeError, ValueError
        If ``function`` cannot be called, if ``low`` and ``high`` are not finite numbers in this
        order, or if on the grid the function is not finite, leaves the range, decreases, jumps by
        more than a tenth of the range, or is constant.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.linear_model import Link
    >>> counts = Link(lambda z: np.exp(np.minimum(z, np.log(20.0))), low=0.0, high=20.0)
    >>> counts([0.0, 10.0])
    array([ 1., 20.])
    """

    low: float
    high: float

    def __init__(
        self, function: Callable[[np.ndarray], np.ndarray], low: float, high: float
    ) -> None:
        if not callable(function):
            raise TypeError(f"function must be callable, got {function!r}.")
        self.function = function
        self.low, self.high = check_interval("low", low, "high", high)
        self.loss()

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", repr(self.function))
        return f"Link({name}, low={self.low:g}, high={self.high:g})"

    def __call__(self, z: Any) -> np.ndarray:
        """Expected targets.

        Parameters
        ----------
        z : array-like
            Linear predictions.

        Returns
        -------
        y : ndarray
            In [low, high].
        """
        with np.errstate(all="ignore"):
            y = self._apply(np.asarray(z, dtype=np.float64))
        return np.clip(np.where(np.isnan(y), self._middle, y), self.low, self.high)

    def _apply(self, z: np.ndarray) -> np.ndarray:
        # The function would see all predictions at once: it could mix, keep or refuse records.
        return np.interp(z, _GRID, self._on_grid())

    @property
    def _middle(self) -> float:
        return self.low + 0.5 * (self.high - self.low)

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Targets as solvers see them: the range is mapped to [-1, 1]."""
        with np.errstate(all="ignore"):  # a warning about underflow would reveal data
            y = (np.clip(y, self.low, self.high) - self._middle) / (0.5 * (self.high - self.low))
        return np.clip(y, -1.0, 1.0)

    def loss(self) -> tuple[Any, float]:
        """The loss of which this is the mean target, for encoded ones, and the unit of its scores.

        In one unit the function rises from a quarter to three quarters of its height.
        """
        values = self._on_grid()
        height = (values - values[0]) / (values[-1] - values[0])
        quarter, three_quarters = np.interp([0.25, 0.75], height, _GRID)
        unit = float(three_quarters - quarter)
        first = np.flatnonzero(values > values[0])[0] - 1  # constant parts need no knots
        last = np.flatnonzero(values < values[-1])[-1] + 2
        knots, means = _GRID[first:last] / unit, self.encode(values[first:last])
        kept = np.unique(np.floor(_KNOTS_PER_UNIT * knots), return_index=True)[1]
        kept = np.union1d(kept, len(knots) - 1)
        knots, means = knots[kept], means[kept]
        for table in (knots, means):
            table.setflags(write=False)
        return Tabulated(knots, means), unit

    def _on_grid(self) -> np.ndarray:
        with np.errstate(all="ignore"):
            values = np.asarray(self.function(_GRID.copy()))  # a copy, as it may write into it
        if values.shape != _GRID.shape or values.dtype.kind not in "biuf":
            raise ValueError(
                "function must return one real number for each entry of its argument: for shape "
                f"{_GRID.shape} it returned {values.dtype} of shape {values.shape}."
            )
        with np.errstate(all="ignore"):  # of a long double
            values = values.astype(np.float64)
        height = self.high - self.low

        def refuse(wrong: np.ndarray, what: str) -> None:
            for j in np.flatnonzero(wrong)[:1]:
                raise ValueError(f"function {what}: at {_GRID[j]:.6g} it is {values[j]:.6g}.")

        refuse(~np.isfinite(values), "must be finite")
        slack = 1e-9 * height
        outside = (values < self.low - slack) | (values > self.high + slack)
        refuse(outside, f"must stay within low={self.low:g} and high={self.high:g}")
        rise = np.diff(values, append=values[-1])
        refuse(rise < -slack, f"must not decrease (within +-{_GRID[-1]:.3g})")
        refuse(rise > _LARGEST_RISE * height, "must be continuous, but jumps")
        if np.ptp(values) < 1e-6 * height:
            raise ValueError(
                f"function must not be constant, but within +-{_GRID[-1]:.3g} it is always "
                f"{values[0]:.6g}, to a millionth of high - low."
            )
        return np.maximum.accumulate(np.clip(values, self.low, self.high))


class _Named(Link):
    """A function of this module, which is known to treat each number by itself."""

    def _apply(self, z: np.ndarray) -> np.ndarray:
        return self.function(z)


class Identity(_Named):
    """The prediction itself, clipped to the range of the targets; fits find the targets' units."""

    low: float
    high: float

    def __init__(self, low: float, high: float) -> None:
        self.function: Callable[..., Any] = np.positive
        self.low, self.high = low, high

    @property
    def bound(self) -> float | None:
        """Bound on the absolute value of targets; None if it is found privately."""
        bound = max(-self.low, self.high)
        return bound if bound < math.inf else None

    def loss(self) -> tuple[Any, float]:
        """As for other links."""
        return Squared(2.0), 1.0  # targets are in [-1, 1], and so are predictions


def _ramp(z: np.ndarray) -> np.ndarray:
    """Rise linearly from 0 at -1/2 to 1 at 1/2."""
    return np.clip(z + 0.5, 0.0, 1.0)


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "logistic": expit,
    "probit": ndtr,
    "ramp": _ramp,
}


def resolve_link(link: Any, target_bound: Any) -> Link:
    """The link with a given name, or the given link.

    Raises
    ------
    TypeError
        If ``link`` is neither a name nor a `Link`.
    ValueError
        If the name is unknown, or ``target_bound`` is not allowed.
    """
    if link == "identity":
        bound = math.inf if target_bound is None else check_bound("target_bound", target_bound)
        return Identity(-bound, bound)
    if target_bound is not None:
        raise ValueError(
            f"target_bound={target_bound!r} is for link='identity' only: the range of another link "
            "bounds the targets."
        )
    if isinstance(link, str):
        if link not in FUNCTIONS:
            names = (*FUNCTIONS, "identity")
            raise ValueError(f"link must be one of {names} or a Link, got {link!r}.")
        return _Named(FUNCTIONS[link], 0.0, 1.0)
    if type(link) not in (Link, _Named, Identity):
        raise TypeError(
            f"link must be a Link itself, got its subclass {type(link).__name__}: privacy rests on "
            "what a Link does with its function. Pass Link(function, low, high)."
        )
    return link
