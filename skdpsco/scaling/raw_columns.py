"""Whether columns are raw or scaled, by a private count. Proof: docs/proofs/feature_bounds.md."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._kernels import inlined_kernel, njit
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.design import CSR, Dense
from skdpsco.data.record_sums import map_reduce, without_gil
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event, GaussianEvent, NoOpEvent, compose
from skdpsco.privacy.spending import check_cost, left_after, worst_of
from skdpsco.scaling.feature_bounds import plan_bounds

__all__ = ["RawTest", "chosen", "plan_raw_test"]


class RawTuning(NamedTuple):
    """Constants of the count; docs/proofs/feature_bounds.md says what was measured with them.

    Parameters
    ----------
    size : float
        A record is raw if the root mean square of its entries is larger.
    largest : float
        It is raw, too, if the absolute value of one of its entries is larger.
    share, least_share : float
        Columns are raw if more than this share of the records is; and the least share, in fits that
        find scales.
    share_ratio : float
        The n mu over the root of d from which on the share falls, with the square of that number:
        bounds cost less then, and clipping costs as much as before.
    certain : float
        Standard deviations of the noise between this share and 0.
    cost : float
        Share of mu**2 of a count of all records up to which the share falls.
    least : int
        No fewer records than these are looked at, if there are so many.
    least_n_mu : float
        Nor fewer than this number over mu, so that the count costs next to nothing.
    bound : float
        Bound of scaled columns in fits that find scales.
    bound_ratio : float
        The n mu over the root of d from which on they have this bound. Below, and in fits that find
        no scales, noise would grow with it, and the bound is 1.
    """

    size: float = 2.0
    largest: float = 6.0
    share: float = 0.5
    least_share: float = 0.02
    share_ratio: float = 40.0
    certain: float = 4.0
    cost: float = 0.01
    least: int = 2048
    least_n_mu: float = 4000.0
    bound: float = 3.0
    bound_ratio: float = 20.0


RAW = RawTuning()
LIMITS = (RAW.size**2, RAW.largest**2)  # of the mean square of a record, and of one square


@dataclass(frozen=True)
class RawTest:
    """How raw records are counted, and what is left for everything else.

    Parameters
    ----------
    n_samples : int
    n_features : int
        Columns behind these are targets.
    n_seen : int
        How many records are looked at; they are drawn at random if these are not all.
    share : float
        Columns are raw if more than this share of them is.
    grid : float
    event : Event
        `NoOpEvent` if there are too few records for bounds: then columns are not raw.
    left : Budget, Allowance or Remainder
    spent : float
        Share of the budget's mu^2.
    bound : float
        The bound of columns that are not raw.
    """

    n_samples: int
    n_features: int
    n_seen: int
    share: float
    grid: float
    event: Event
    left: Any
    spent: float
    bound: float

    part: ClassVar[str] = "raw columns"

    def release(self, X: Any, y: Any, rng: np.random.Generator) -> bool:
        """Whether columns are raw."""
        rows = None
        if self.n_seen < self.n_samples:
            rows = rng.choice(self.n_samples, self.n_seen, replace=False, shuffle=False)
        count = map_reduce(X, y, raw_records, self.n_features, rows)
        gaussian_mechanism(rng, count, self.grid)
        return bool(count[0] > self.share * self.n_seen)

    def choosing(self, raw: Any, scaled: Any, available: Any) -> Any:
        """The plan for raw columns, with this test, the plan for scaled ones, and the whole cost.

        Parameters
        ----------
        raw, scaled : dataclass with ``event``, ``test`` and ``scaled``
            Plans within what is `left`, of which `chosen` returns one.
        available : Budget, Allowance or Remainder

        Raises
        ------
        ValueError
            If this test and the more expensive plan cost more than is available.
        """
        event = compose(self.event, worst_of((raw.event, scaled.event)))
        check_cost(event, available)
        return replace(raw, event=event, test=self, scaled=scaled)

    def note(self, raw: bool) -> str:
        """A line for the report."""
        found = "raw, and their bounds are found" if raw else "scaled"
        return f"{100.0 * self.spent:.2g}% of the budget's mu^2 found that columns are {found}"


def chosen(plan: Any, X: Any, y: Any, rng: np.random.Generator) -> tuple[Any, tuple[str, ...]]:
    """Return this plan or its `scaled`, by what its `test` finds, and lines for the report."""
    if plan.test is None:
        return plan, ()
    raw = plan.test.release(X, y, rng)
    return plan if raw else plan.scaled, (plan.test.note(raw),)


def raw_share(n_samples: int, n_features: int, mu: float, finds_scales: bool) -> float:
    """The share of raw records from which on columns are raw."""
    if not finds_scales:
        return RAW.share
    n_mu = n_samples * mu
    fallen = RAW.share * RAW.share_ratio**2 * n_features / n_mu**2
    affordable = RAW.certain / (n_mu * math.sqrt(RAW.cost))
    return min(max(fallen, affordable, RAW.least_share), RAW.share)


def plan_raw_test(
    n_samples: int,
    n_features: int,
    available: Any,
    *,
    added: bool,
    sees_all: bool,
    finds_scales: bool,
) -> RawTest:
    """Spend a part of what is available on a count, if there are enough records for bounds.

    Parameters
    ----------
    n_samples, n_features : int
    available : Budget, Allowance or Remainder
    added : bool
        As in `skdpsco._problem.Problem`.
    sees_all : bool
        Whether all records are looked at, however many there are.
    finds_scales : bool
        Whether a fit finds scales of features, if there are enough records, and its noise does not
        follow from their range.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    n, mu = n_samples, available.mu
    enough = math.ceil(max(RAW.least, RAW.least_n_mu / mu))
    n_seen = n if sees_all or n <= 2 * enough else enough
    share = raw_share(n, n_features, mu, finds_scales)
    deviation = share / RAW.certain * n_seen
    nothing = RawTest(n, n_features, n_seen, share, 0.0, NoOpEvent(), available, 0.0, 1.0)
    if deviation * mu <= 1.0:
        return nothing
    event = GaussianEvent(deviation)
    left = left_after(available, event)
    if left.rho <= 0.0 or not plan_bounds(n, n_features, left.rho, added).grids:
        return nothing
    grid = gaussian_grid(1.0, deviation, 1, n)
    enough_records = n * mu >= RAW.bound_ratio * math.sqrt(n_features)
    bound = RAW.bound if finds_scales and enough_records else 1.0
    spent = (deviation * mu) ** -2
    return RawTest(n, n_features, n_seen, share, grid, event, left, spent, bound)


@without_gil
def raw_records(
    X: MatrixLike, y: TargetLike, n_features: int, rows: np.ndarray | None
) -> np.ndarray:
    """How many of the records ``rows``, or of all, are raw."""
    rows = np.arange(len(y)) if rows is None else rows
    return np.array([float(count_raw(X, rows, n_features, LIMITS))])


@inlined_kernel
def exceeds(X, i, d, limits):
    """Whether the mean square of the first ``d`` entries of row i, or one square, is too large."""
    raise NotImplementedError


@exceeds.register(Dense)
def _(X, i, d, limits):
    total, mean, single = 0.0, limits[0] * d, limits[1]
    for j in range(d):
        square = float(X.values[i, j]) ** 2
        total += square
        if total > mean or square > single:
            return True
    return False


@exceeds.register(CSR)
def _(X, i, d, limits):
    total, mean, single = 0.0, limits[0] * d, limits[1]
    for p in range(X.indptr[i], X.indptr[i + 1]):
        square = float(X.data[p]) ** 2 if X.indices[p] < d else 0.0
        total += square
        if total > mean or square > single:
            return True
    return False


@njit
def count_raw(X, rows, d, limits):
    """How many of the records ``rows`` are beyond the limits of `exceeds`."""
    total = 0
    for i in rows:
        total += 1 if exceeds(X, i, d, limits) else 0
    return total
