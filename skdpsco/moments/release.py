"""One noisy matrix of second moments of a table. Proof: docs/proofs/private_moments.md."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco.data.pieces import MOST_RECORDS_ADDED, one_record
from skdpsco.mechanisms.samplers import GRID_LIMIT, deviation_on, gaussian_grid, gaussian_mechanism
from skdpsco.moments.table_sums import TableSums
from skdpsco.privacy import Event, compose, gdp_of
from skdpsco.privacy.spending import share_mu
from skdpsco.scaling.conditioning import (
    ConditioningPlan,
    condition,
    conditioning_pays,
    plan_conditioning,
)
from skdpsco.scaling.feature_bounds import BoundPlan, find_bounds, plan_bounds
from skdpsco.scaling.quantiles import halve
from skdpsco.solvers.penalized.second_moments import (
    moved_by_one,
    single_pays,
    symmetric,
    upper_triangle,
)

__all__ = [
    "MATRIX",
    "ONE",
    "MatrixPlan",
    "Measured",
    "declared_or_found",
    "most_records",
    "plan_matrix",
    "release_matrix",
]


class MatrixTuning(NamedTuple):
    """Constants of the release; examples/benchmarks/moments.py shows the resulting accuracy.

    Parameters
    ----------
    norm_share : float
        Share of mu**2 for the norm that rows are shortened to.
    n_counts : int
        Number of counts of long rows that are released; k counts search among 2**k norms.
    smallest : float
        The smallest of these norms, in root mean squares of a row.
    tail : float
        Number of records that may exceed the norm, in standard deviations of a count's noise.
    one : float
        Square of the entry of the ones, in units of the squared norm.
    levels : tuple of float
        Where every column has a scale of its own, those of features are raised to the roots of
        these, in mean squares of all columns: to 0 for columns of about the same size, and to more
        for indicators, whose rare ones would make rows long. A norm is found for every level.
    feature_noise : float
        How much the variance of noise in second moments of features counts, beside that in their
        products with targets, where every column has a scale of its own.
    """

    norm_share: float = 0.03
    n_counts: int = 4
    smallest: float = 0.7071
    tail: float = 2.5
    one: float = 0.15
    levels: tuple[float, ...] = (0.0, 0.3, 1.0)
    feature_noise: float = 0.5


MATRIX = MatrixTuning()
ONE = math.sqrt(MATRIX.one)


@dataclass(frozen=True)
class MatrixPlan:
    """Grids of the releases.

    Parameters
    ----------
    event : Event
    n_samples : int or None
        None if their number is private and is released.
    matrix_grid : float
    bounds : BoundPlan or None
        None if all bounds are declared.
    conditioning : ConditioningPlan or None
        None if columns are read in units of their bounds, without a centre.
    norm_grid : float or None
    row_norm : float
        The norm that rows are shortened to, if there is no ``norm_grid``.
    n_groups : int
        Number of groups, of each of which there is a matrix; 0 if records have neither groups nor
        weights.
    """

    event: Event
    n_samples: int | None
    matrix_grid: float
    bounds: BoundPlan | None
    conditioning: ConditioningPlan | None
    norm_grid: float | None
    row_norm: float
    n_groups: int = 0

    name: ClassVar[str] = "means and covariances"

    @property
    def has_scales(self) -> bool:
        """Whether every column gets its own scale."""
        return self.conditioning is not None and len(_levels(self.conditioning)) > 1

    @property
    def single(self) -> bool:
        """Whether runs of records are summed up in single precision: rounding is below noise."""
        if self.n_groups > 0 or self.conditioning is None or not self.conditioning.single:
            return False
        sizes = self.conditioning.n_samples, self.conditioning.n_features
        return single_pays(*sizes, added=False)


class Measured(NamedTuple):
    """How columns were measured in one release, and how large its noise is.

    Columns are ``centre + scale * v``. The noisy matrix is the mean of ``(ONE, v) (ONE, v)'`` plus
    independent noise, of standard deviation ``deviation`` on the diagonal and ``deviation /
    sqrt(2)`` elsewhere. The first entry has no noise: it is known, or the mean is taken over the
    number of records that it gives.

    Parameters
    ----------
    centre, scale : ndarray of shape (n_columns,)
        In the user's units.
    deviation : float
    counted : bool
        Whether the number of records was released, with the noise of the first entry.
    """

    centre: np.ndarray
    scale: np.ndarray
    deviation: float
    counted: bool = False

    def take(self, columns: np.ndarray) -> "Measured":
        """The same for some of the columns."""
        return self._replace(centre=self.centre[columns], scale=self.scale[columns])


def plan_matrix(
    n_samples: int | None,
    n_columns: int,
    mu: float,
    conditioned: bool,
    row_norm: float | None,
    n_unknown: int = 0,
    n_groups: int = 0,
) -> MatrixPlan:
    """Spend ``mu`` on the matrix, and at most a third of its square on what is found before it.

    Parameters
    ----------
    n_samples : int or None
        Number of records. None if it is private: neighbours then add or remove a record, and
        nothing is found before the matrix.
    n_columns : int
        Number of columns, with the target.
    mu : float
    conditioned : bool
        Whether a centre, scales and the norm of rows are found, if there are enough records.
    row_norm : float or None
        A public bound on the norm of rows in units of their bounds, which replaces a centre, scales
        and a norm that are found.
    n_unknown : int, default=0
        Number of columns whose bounds are to be found.
    n_groups : int, default=0
        Number of groups of records; 0 if they have neither groups nor weights.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    n, p = n_samples, n_columns
    largest = math.sqrt(p)
    mu *= 1.0 - 2.0**-40  # covers the rounding of the shares
    bounds = None
    if n is not None and n_unknown > 0:
        bounds = plan_bounds(n, n_unknown, 0.5 * mu * mu)
        mu = math.sqrt(mu * mu - gdp_of(bounds.event) ** 2) * (1.0 - 2.0**-40)
    conditioning, parts, left = None, {}, 1.0
    if n is not None and conditioned and row_norm is None and conditioning_pays(n, p, mu):
        conditioning = replace(plan_conditioning(n, p, mu), width=1.0, n_counted=n)
        n_counts = MATRIX.n_counts * len(_levels(conditioning))
        parts["norm"] = (MATRIX.norm_share / n_counts, n_counts)
        left -= conditioning.share + MATRIX.norm_share
    parts["matrix"] = (left, 1)
    multiplier, event = share_mu(mu, parts)
    found = [plan.event for plan in (bounds, conditioning) if plan is not None]
    event = compose(*found, event)
    norm_grid = (
        None if n is None or "norm" not in parts else gaussian_grid(1.0, multiplier["norm"], 1, n)
    )
    norm = largest if row_norm is None else min(row_norm, largest)
    plan = MatrixPlan(event, n, 0.0, bounds, conditioning, norm_grid, norm, n_groups)
    return replace(plan, matrix_grid=_grid_of_matrix(plan, p, multiplier["matrix"]))


def _levels(conditioning: ConditioningPlan) -> tuple[float, ...]:
    """The levels of scales for which a norm is found."""
    return MATRIX.levels if "squares" in conditioning.grids else (0.0,)


def _grid_of_matrix(plan: MatrixPlan, n_columns: int, multiplier: float) -> float:
    """The grid of the matrices, for neighbours that replace a record or, without n, add one."""
    n, p, added = plan.n_samples, n_columns, plan.n_samples is None
    # The matrix of a record is psd, with at most this Frobenius norm, including the rounding of
    # norms.
    square = (1.0 + MATRIX.one) * (1.0 + (p + 4) * 2.0**-50)
    square, change = moved_by_one(square, added, plan.single)
    # The rounding of both sums is included, wherever their records are cut.
    changed = one_record(n or MOST_RECORDS_ADDED, added, square, change)
    largest = square if n is None else 2.0 * n * square
    entries = max(plan.n_groups, 1) * (p + 1) * (p + 2) // 2
    return gaussian_grid(changed, multiplier, entries, largest)


def most_records(plan: MatrixPlan) -> int:
    """Largest number of records if their number is private: as many as the grid can hold."""
    held = plan.matrix_grid * (GRID_LIMIT // 2) / (2.0 * (1.0 + MATRIX.one))
    return int(min(held * (1.0 - 2.0**-20), MOST_RECORDS_ADDED))


def declared_or_found(
    plan: MatrixPlan, X: Any, y: Any, bounds: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The bounds of the columns; those that are NaN are found privately."""
    unknown = np.isnan(bounds)
    if plan.bounds is None:
        return bounds
    bounds = bounds.copy()
    bounds[unknown] = find_bounds(plan.bounds, X, y, unknown, rng)
    return bounds


class TableSummary(NamedTuple):
    """What is released about the rows of a table, or of a group of them.

    Parameters
    ----------
    n_samples : int or float
        Number of rows, or the sum of their weights. If it is not known, it has noise, and is at
        least 1.
    mean : ndarray of shape (n_columns,)
    covariance : ndarray of shape (n_columns, n_columns)
        It contains the noise as it is, so it may not be positive semidefinite.
    measured : Measured
    """

    n_samples: float
    mean: np.ndarray
    covariance: np.ndarray
    measured: Measured


def release_matrix(
    plan: MatrixPlan,
    sums: TableSums,
    bounds: np.ndarray,
    n_features: int,
    weighted: bool,
    rng: np.random.Generator,
) -> list[TableSummary]:
    """Summaries of all rows and, behind that, of each group of them.

    Parameters
    ----------
    plan : MatrixPlan
    sums : TableSums
    bounds : ndarray of shape (n_columns,)
    n_features : int
        Number of columns before the targets.
    weighted : bool
        Whether rows have weights.
    rng : numpy.random.Generator
    """
    n, p = plan.n_samples, len(bounds)
    centre, scale, c = np.zeros(p), np.ones(p), plan.row_norm
    if n is not None and plan.conditioning is not None and plan.norm_grid is not None:
        centre, scale, c = _measures(plan, sums, n_features, rng)
    matrices = sums.matrix(centre, scale, c, ONE, plan.n_groups, plan.single)
    matrices = matrices.reshape(-1, p + 1, p + 1)
    entries = np.concatenate([upper_triangle(M) for M in matrices])
    deviation = gaussian_mechanism(rng, entries, plan.matrix_grid)
    released = [symmetric(part) for part in np.split(entries, len(matrices))]
    noise = Measured(bounds * centre, bounds * scale * c, deviation)
    of_all = noise._replace(deviation=math.sqrt(len(released)) * deviation)
    whole: Any = sum(released)
    found = [summary(whole, None if weighted else n, weighted, of_all)]
    return found + [summary(M, None, weighted, noise) for M in released[: plan.n_groups]]


def _measures(
    plan: Any, sums: TableSums, n_features: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    """A centre, scales and a norm for rows, all of them released."""
    n, powers = plan.n_samples, np.arange(2**MATRIX.n_counts) / 4.0
    centre, found, *_ = condition(plan.conditioning, sums, rng)
    square, candidates = np.square(found), []
    for level in _levels(plan.conditioning):
        scale = found.copy()
        scale[:n_features] = np.sqrt(np.maximum(square, level * square.mean()))[:n_features]
        if "squares" in plan.conditioning.grids:
            scale[n_features:] /= _stretch(n_features, len(found) - n_features)
        relative = square / np.square(scale)
        norms = MATRIX.smallest * math.sqrt(relative.sum()) * 2.0**powers
        longer = sums.longer_over(centre, scale, norms)
        tolerated = min(MATRIX.tail * deviation_on(plan.norm_grid), 0.5 * n)
        c = float(norms[halve(longer, tolerated, plan.norm_grid, rng)])
        # How far the columns stand out of the spectral norm of the noise.
        noise = c * c * deviation_on(plan.matrix_grid) / n * math.sqrt(2.0 * len(found))
        candidates.append((float(np.log1p(relative / noise).sum()), scale, c))
    _, scale, c = max(candidates, key=lambda candidate: candidate[0])
    return centre, scale, c


def _stretch(n_features: int, n_targets: int) -> float:
    """How much longer targets are made, beside features with a mean square of 1.

    Rows become longer and their noise with them, but products with targets have less of it in the
    end. The sum of the variances of these products and of ``feature_noise`` times second moments of
    features, (d + k u)**2 (1 / u + feature_noise) for a stretch of sqrt(u), is smallest here.
    """
    if n_targets == 0:
        return 1.0
    a = MATRIX.feature_noise
    u = (math.sqrt(1.0 + 8.0 * a * n_features / n_targets) - 1.0) / (4.0 * a)
    return math.sqrt(max(u, 1.0))


def summary(M: np.ndarray, n: int | None, weighted: bool, noise: Measured) -> TableSummary:
    """What a noisy sum of second moments says of ``n`` rows; None if there is noise in that, too.

    ``noise`` is that of the sum.
    """
    total: float = M[0, 0] / MATRIX.one  # the sum of weights, or the number of records
    counted = n is None
    size = max(total if weighted else round(total), 1) if n is None else n
    v = M[0, 1:] / ONE / size
    covariance = (M[1:, 1:] / size - np.outer(v, v)) * np.outer(noise.scale, noise.scale)
    measured = noise._replace(deviation=noise.deviation / size, counted=counted)
    return TableSummary(size, noise.centre + noise.scale * v, covariance, measured)
