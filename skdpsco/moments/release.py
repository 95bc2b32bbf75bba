"""One noisy matrix of second moments of a table. Proof: docs/proofs/private_moments.md."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from skdpsco.data.pieces import replace_one
from skdpsco.mechanisms.samplers import deviation_on, gaussian_grid, gaussian_mechanism
from skdpsco.moments.table_sums import TableSums, table_counts
from skdpsco.privacy import Event, compose, gdp_of
from skdpsco.scaling.conditioning import (
    ConditioningPlan,
    condition,
    conditioning_pays,
    plan_conditioning,
)
from skdpsco.scaling.feature_bounds import BoundPlan, bounds_of_counts, plan_bounds
from skdpsco.scaling.quantiles import halve
from skdpsco.solvers.base import share_mu
from skdpsco.solvers.moments.second_moments import symmetric, upper_triangle


class MatrixTuning(NamedTuple):
    """Constants of the release; examples/benchmarks/moments.py shows how well they do.

    Parameters
    ----------
    norm_share : float
        Share of mu**2 of the norm to which rows are shortened.
    n_counts : int
        Counts of long rows that are released: one of k looks at 2**k norms.
    smallest : float
        The smallest of these norms, in root mean squares of a row.
    tail : float
        Standard deviations of a count's noise, for so many records may be longer than the norm.
    one : float
        Square of the entry of the ones, in units of the norm's.
    """

    norm_share: float = 0.03
    n_counts: int = 4
    smallest: float = 0.7071
    tail: float = 2.5
    one: float = 0.15


MATRIX = MatrixTuning()
ONE = math.sqrt(MATRIX.one)


@dataclass(frozen=True)
class MatrixPlan:
    """Grids of the releases.

    Parameters
    ----------
    event : Event
    n_samples : int
    matrix_grid : float
    bounds : BoundPlan or None
        None if all bounds are declared.
    conditioning : ConditioningPlan or None
        None if columns are read in units of their bounds, without a centre.
    norm_grid : float or None
    row_norm : float
        The norm that rows are shortened to, if there is no ``norm_grid``.
    """

    event: Event
    n_samples: int
    matrix_grid: float
    bounds: BoundPlan | None
    conditioning: ConditioningPlan | None
    norm_grid: float | None
    row_norm: float

    @property
    def note(self) -> str:
        """A line for the report, where a centre and scales are found."""
        found = 0.0 if self.conditioning is None else self.conditioning.share + MATRIX.norm_share
        return f"{found:.0%} of the budget's mu^2 found how columns and rows are measured"


class Measured(NamedTuple):
    """How columns were read, and how large the noise is, of one release.

    Columns are ``centre + scale * v``. The noisy matrix is the mean of ``(ONE, v) (ONE, v)'``, in
    which independent noise of a standard deviation ``deviation`` was added to entries on the
    diagonal, and of that over the root of 2 to the others; the first entry is exact.

    Parameters
    ----------
    centre, scale : ndarray of shape (n_columns,)
        In the user's units.
    deviation : float
    """

    centre: np.ndarray
    scale: np.ndarray
    deviation: float

    def take(self, columns: np.ndarray) -> "Measured":
        """That of some columns."""
        return Measured(self.centre[columns], self.scale[columns], self.deviation)


def plan_matrix(
    n_samples: int,
    n_columns: int,
    mu: float,
    conditioned: bool,
    row_norm: float | None,
    n_unknown: int = 0,
) -> MatrixPlan:
    """Spend ``mu`` on the matrix, and at most a quarter of its square on what is found before.

    Parameters
    ----------
    n_samples, n_columns : int
        Sizes of the table, whose columns include the target.
    mu : float
    conditioned : bool
        Whether a centre, scales and the norm of rows are found, if there are records enough.
    row_norm : float or None
        A public bound on the norm of rows in units of their bounds, in place of a centre, scales
        and a norm that are found.
    n_unknown : int, default=0
        Number of columns whose bounds are to be found.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    n, p = n_samples, n_columns
    largest = math.sqrt(p)
    mu *= 1.0 - 2.0**-40  # covers the rounding of the shares
    bounds = None
    if n_unknown > 0:
        bounds = plan_bounds(n, n_unknown, 0.5 * mu * mu)
        mu = math.sqrt(mu * mu - gdp_of(bounds.event) ** 2) * (1.0 - 2.0**-40)
    conditioning, parts, left = None, {}, 1.0
    if conditioned and row_norm is None and conditioning_pays(n, p, mu):
        conditioning = replace(plan_conditioning(n, p, mu, scaled=True), width=1.0)
        parts["norm"] = (MATRIX.norm_share / MATRIX.n_counts, MATRIX.n_counts)
        left -= conditioning.share + MATRIX.norm_share
    parts["matrix"] = (left, 1)
    multiplier, event = share_mu(mu, parts)
    found = [plan.event for plan in (bounds, conditioning) if plan is not None]
    event = compose(*found, event)
    # A record's matrix is psd, with this Frobenius norm at most, rounding of norms included.
    square = (1.0 + MATRIX.one) * (1.0 + (p + 4) * 2.0**-50)
    changed = replace_one(n, square, math.sqrt(2.0) * square)
    grid = gaussian_grid(changed, multiplier["matrix"], (p + 1) * (p + 2) // 2, 2.0 * n * square)
    norm_grid = gaussian_grid(1.0, multiplier["norm"], 1, n) if "norm" in parts else None
    norm = largest if row_norm is None else min(row_norm, largest)
    return MatrixPlan(event, n, grid, bounds, conditioning, norm_grid, norm)


def declared_or_found(
    plan: MatrixPlan, X: Any, y: Any, bounds: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The bounds of the columns, of which those that are NaN are found."""
    unknown = np.isnan(bounds)
    if plan.bounds is None:
        return bounds
    found = np.ones(int(unknown.sum()))
    if plan.bounds.grid is not None:
        counts = table_counts(X, y, unknown, plan.bounds.pooled)
        found = bounds_of_counts(plan.bounds, counts, rng)
    bounds = bounds.copy()
    bounds[unknown] = found
    return bounds


def release_matrix(
    plan: MatrixPlan, sums: TableSums, bounds: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, Measured]:
    """Mean, covariance and how they were measured, of the rows of a table.

    Parameters
    ----------
    plan : MatrixPlan
    sums : TableSums
    bounds : ndarray of shape (n_columns,)
    rng : numpy.random.Generator

    Returns
    -------
    mean : ndarray of shape (n_columns,)
    covariance : ndarray of shape (n_columns, n_columns)
        With noise as it is: not always positive semidefinite.
    measured : Measured
    """
    n, p = plan.n_samples, len(bounds)
    centre, scale, c = np.zeros(p), np.ones(p), plan.row_norm
    if plan.conditioning is not None and plan.norm_grid is not None:
        centre, scale, _ = condition(plan.conditioning, sums, rng)
        powers = np.arange(2**MATRIX.n_counts) / 4.0
        norms = MATRIX.smallest * math.sqrt(p) * 2.0**powers
        longer = sums.longer_over(centre, scale, norms)
        tolerated = min(MATRIX.tail * deviation_on(plan.norm_grid), 0.5 * n)
        c = float(norms[halve(longer, tolerated, plan.norm_grid, rng)])
    entries = upper_triangle(sums.matrix(centre, scale, c, ONE))
    deviation = gaussian_mechanism(rng, entries, plan.matrix_grid)
    M = symmetric(entries) / n
    unit = bounds * scale * c  # of an entry of 1
    v = M[0, 1:] / ONE
    covariance = (M[1:, 1:] - np.outer(v, v)) * np.outer(unit, unit)
    measured = Measured(bounds * centre, unit, deviation / n)
    return measured.centre + unit * v, covariance, measured
