"""Private bounds of features, if none are declared. Proof: docs/proofs/feature_bounds.md."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco.data.record_sums import map_reduce
from skdpsco.mechanisms.samplers import gaussian_mechanism
from skdpsco.privacy import Event, GaussianEvent, NoOpEvent
from skdpsco.scaling.column_scales import LOWEST, N_BINS, count_grid, tallied

__all__ = ["BoundPlan", "bounds_of_counts", "clipping_note", "plan_bounds", "without_bounds"]

LARGEST_BOUND = 2.0**31  # the largest bound that may be found
# The bins of a tally are [2**(k-1), 2**k). Values are shrunk slightly, so that a power of two
# counts in the bin that ends at it.
LIMIT = LARGEST_BOUND * (1.0 + 2.0**-30)
_ENDS = LARGEST_BOUND * 2.0 ** (np.arange(N_BINS) + LOWEST)  # upper ends of the bins


class BoundTuning(NamedTuple):
    """Constants of the counts, chosen by hand so that a bound is hardly ever a guess.

    Parameters
    ----------
    share : float
        Share of rho.
    credible : float
        A count is believed if it exceeds its noise by this factor.
    notable : float
        Noise must not hide counts of this share of the records.
    """

    share: float = 0.05
    credible: float = 5.0
    notable: float = 1.0 / 8.0


FEATURE_BOUNDS = BoundTuning()


@dataclass(frozen=True)
class BoundPlan:
    """How magnitudes are counted.

    Parameters
    ----------
    n_features : int
    pooled : bool
        Whether all features get one bound.
    grid : float or None
        Grid of the counts; None if nothing is released, and all bounds are 1.
    event : Event
    """

    n_features: int
    pooled: bool
    grid: float | None
    event: Event

    part: ClassVar[str] = "bounds"

    @property
    def extremes(self) -> tuple[np.ndarray, ...]:
        """The smallest and the largest bounds that may be found."""
        ends = (1.0,) if self.grid is None else (_ENDS[0], LARGEST_BOUND)
        return tuple(np.full(self.n_features, end) for end in ends)

    def release(self, X: Any, y: Any, rng: Any) -> np.ndarray:
        """Release one bound per column, a power of two that covers all frequent magnitudes."""
        if self.grid is None:
            return np.ones(self.n_features)
        groups = 1 if self.pooled else self.n_features
        counts, _ = map_reduce(without_bounds(X), None, tallied, groups, groups)
        return bounds_of_counts(self, counts, rng)

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


def plan_bounds(n_samples: int, n_features: int, rho: float, added: bool = False) -> BoundPlan:
    """Spend a share of ``rho`` on counts per column or in total; nothing if both would be noise.

    ``added`` is as in `skdpsco.solvers.base.Problem`.

    Raises
    ------
    ValueError
        If the noise is too large for the grid.
    """
    n, d = n_samples, n_features
    mu = math.sqrt(2.0 * FEATURE_BOUNDS.share * rho)
    # A record moves from one bin to another, in each of d histograms or d times in a single one.
    # The noise is sqrt(2 d) / mu in a histogram of one column, and sqrt(2) / mu, in units of d
    # entries, in a pooled one.
    least = math.sqrt(2.0) / mu * FEATURE_BOUNDS.credible / FEATURE_BOUNDS.notable
    if n < least:
        return BoundPlan(d, True, None, NoOpEvent())
    pooled = d > 1 and n < least * math.sqrt(d)
    weight, releases = (d, 1) if pooled else (1, d)
    grid = count_grid(n, weight, math.sqrt(releases) / mu, added)
    return BoundPlan(d, pooled, grid, GaussianEvent(1.0 / mu))


def without_bounds(X: Any) -> Any:
    """The design with bounds that exceed all that may be found."""
    return X._replace(bounds=np.full(len(X.bounds), LIMIT), intercept=0)


def bounds_of_counts(plan: BoundPlan, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Release counts of magnitudes, and derive one bound per column."""
    deviation = gaussian_mechanism(rng, counts.reshape(-1), plan.grid)
    credible = counts > FEATURE_BOUNDS.credible * deviation
    bounds = np.where(credible, _ENDS, 0.0).max(axis=1)
    # A column with almost only zeros tells nothing, and gets a bound of the other columns.
    found = np.sort(bounds[bounds > 0.0])
    bounds[bounds == 0.0] = found[len(found) // 2] if len(found) > 0 else 1.0
    return np.full(plan.n_features, bounds)
