"""Private means and variances of columns. Proof: docs/proofs/preprocessing.md, section 1."""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OneToOneFeatureMixin

from skdpsco._typing import MatrixLike
from skdpsco.base.advice import counted
from skdpsco.base.parameters import Constraints, with_parameters
from skdpsco.base.plain import clipped_steps
from skdpsco.base.transformer import CLIPPED, ColumnTransform
from skdpsco.data.design import Dense
from skdpsco.data.pieces import sum_error
from skdpsco.data.record_sums import in_pieces, map_reduce
from skdpsco.mechanisms.samplers import deviation_on, gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event, GaussianEvent, compose
from skdpsco.scaling.stages import Stage

from .bounds import check_bounds, map_range
from .raw_ranges import TOO_FEW, plan_raw_ranges, records_for_ranges

__all__ = ["PrivateStandardScaler"]

# Factor of the squares; up to sqrt((11 + 5 sqrt(5)) / 8) their release adds no cost.
SQUARES = 1.665
FLOOR = 0.5  # smallest variance, in standard deviations of its noise
FOUND = "columns are clipped to private bounds, lower_ and upper_, which a part of the budget found"


@dataclass(frozen=True)
class ColumnMomentsPlan:
    """The noise of the release, from a budget and public sizes.

    Parameters
    ----------
    grid : float
    noise : float
        Standard deviation of the noise of a mean of columns in [-1, 1].
    event : Event
    """

    grid: float
    noise: float
    event: Event

    name: ClassVar[str] = "means and variances of the columns"


def plan_moments(n_samples: int, n_features: int, squares: bool, mu: float) -> ColumnMomentsPlan:
    """Plan one Gaussian release of all sums, and of the sums of squares if wanted."""
    error = sum_error(n_samples, 1.0)
    sensitivity = 2.0 * math.sqrt(n_features) * (1.0 + error * (1.0 + 2.0 * SQUARES))
    dimension = 2 * n_features if squares else n_features
    grid = gaussian_grid(sensitivity, 1.0 / mu, dimension, 2.0 * n_samples)
    return ColumnMomentsPlan(grid, deviation_on(grid) / n_samples, GaussianEvent(1.0 / mu))


def column_sums(
    X: Dense, y: Any, lower: np.ndarray, upper: np.ndarray, squares: bool
) -> np.ndarray:
    """Sums of the columns, mapped onto [-1, 1], and of their squares, for `map_reduce`."""
    U = map_range(X.values.astype(np.float64, copy=False), (lower, upper), (-1.0, 1.0))
    if not squares:
        return U.sum(axis=0)
    return np.concatenate([U.sum(axis=0), (U * U).sum(axis=0)])


def release_moments(
    plan: ColumnMomentsPlan,
    design: Any,
    n: int,
    bounds: tuple[np.ndarray, np.ndarray],
    squares: bool,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Noisy means and variances of ``n`` records, whose bounds are mapped onto [-1, 1]."""
    d, none = len(design.bounds), np.broadcast_to(0.0, n)  # no targets
    sums = map_reduce(in_pieces(design, none), none, column_sums, *bounds, squares)
    sums[d:] *= SQUARES
    gaussian_mechanism(rng, sums, plan.grid)
    mean = sums[:d] / n
    limited = np.clip(mean, -1.0, 1.0)
    if not squares:
        return limited, None
    v = plan.noise**2
    var = sums[d:] / (SQUARES * n) - mean**2 + v  # the noise of the mean adds v to its square
    floor = FLOOR * np.sqrt(v / SQUARES**2 + 4.0 * limited**2 * v + 2.0 * v**2)
    return limited, np.minimum(np.maximum(var, floor), 1.0)


def find_ranges(
    stages: tuple[Stage, ...], design: Any, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Lower and upper ends of the ranges to which a linear model would clip ``n`` records."""
    none = np.broadcast_to(0.0, n)  # no targets
    finding, centring = stages
    bounds = finding.release(design, none, rng)
    return centring.release(design._replace(bounds=bounds), none, rng).ranges(bounds)


@with_parameters()
class PrivateStandardScaler(OneToOneFeatureMixin, ColumnTransform):
    """Standardise columns with private means and standard deviations.

    It does what `sklearn.preprocessing.StandardScaler` does, after clipping into bounds.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    lower, upper : float, array-like, dict, Series, Schema or None, default=None
        Public bounds of the columns, in order or by name, to which values are clipped; the noise is
        proportional to ``upper - lower``. None finds them privately, or takes -1 and 1 if records
        are few.
    with_mean : bool, default=True
        Whether means are subtracted.
    with_std : bool, default=True
        Whether columns are divided by their standard deviations. One of the two must be True.
    {random_state}

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    var_ : ndarray of shape (n_features,) or None
        Noisy variances, at least as large as their noise; None without ``with_std``.
    scale_ : ndarray of shape (n_features,) or None
        Square roots of ``var_``.
    lower_, upper_ : ndarray of shape (n_features,)
        The bounds that were declared or found.
    n_samples_seen_ : int
    {n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    skdpsco.preprocessing.PublicBoundsScaler : For public bounds.
    skdpsco.preprocessing.PrivateQuantileClipper : For generous bounds.
    sklearn.preprocessing.StandardScaler : The transformer without privacy.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/preprocessing`.

    The noise in a mean is ``sqrt(n_features) / (n_samples * mu)`` times ``upper - lower``, with mu
    about 0.24 epsilon at delta 1e-6. If this is far below the standard deviations of the columns,
    give the next model a ``feature_bound`` of 2, otherwise of 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.preprocessing import PrivateStandardScaler
    >>> X = np.random.default_rng(0).normal([50.0, 3.0], [10.0, 1.0], (20000, 2))
    >>> scaler = PrivateStandardScaler(epsilon=1.0, lower=[0, -5], upper=[100, 10]).fit(X)
    >>> bool(np.allclose(scaler.mean_, [50.0, 3.0], atol=0.5))
    True
    """

    lower: ArrayLike | None = None
    upper: ArrayLike | None = None
    with_mean: bool = True
    with_std: bool = True

    lower_: np.ndarray = field(init=False)
    upper_: np.ndarray = field(init=False)
    mean_: np.ndarray = field(init=False)
    n_samples_seen_: int = field(init=False)
    scale_: np.ndarray | None = field(init=False)
    var_: np.ndarray | None = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        "with_mean": ["boolean"],
        "with_std": ["boolean"],
    }

    def _learn(self, X):
        n, d = X.shape
        budget = self._budget()
        with_std = bool(self.with_std)
        if not (self.with_mean or with_std):
            raise ValueError("with_mean and with_std are both False: there is nothing to learn.")
        if (self.lower is None) != (self.upper is None):
            raise ValueError("lower and upper must both be declared, or both be None.")
        available = self._available(budget)

        planned = partial(self._planned, n_samples=n, n_features=d)
        ranges, stages, warnings = None, (), ()
        if self.lower is not None:
            ranges = check_bounds(self, d)
        elif n >= (needed := records_for_ranges(d, available.rho)):
            stages, available = plan_raw_ranges(planned, n, d, available)
        else:
            ranges = np.full((2, d), [[-1.0], [1.0]])
            warnings = (TOO_FEW.format(counted(n, "record"), budget.epsilon, needed),)
        plan = planned(lambda spend: plan_moments(n, d, with_std, spend.mu), available)
        event = compose(*(one.event for one in (*stages, plan)))
        assumptions = (FOUND if stages else CLIPPED,)
        with self._releasing_columns(
            X, event, budget, assumptions=assumptions, warnings=warnings
        ) as (design, rng):
            lower, upper = find_ranges(stages, design, n, rng) if stages else ranges
            mean, var = release_moments(plan, design, n, (lower, upper), with_std, rng)
        half = (upper - lower) / 2.0
        self.lower_, self.upper_ = lower, upper
        self.mean_ = np.clip((lower + upper) / 2.0 + half * mean, lower, upper)
        self.scale_ = None if var is None else half * np.sqrt(var)
        self.var_ = None if var is None else self.scale_**2
        self.n_samples_seen_ = n

    def transform(self, X: MatrixLike) -> Any:
        """Clip into the bounds, subtract means and divide by standard deviations.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records, in the units of the fit.

        Returns
        -------
        X_out : ndarray of shape (n_samples, n_features), float64
            Columns in standard deviations from their means.
        """
        X = self._check(X, reset=False)
        with np.errstate(all="ignore"):
            X = np.clip(X, self.lower_, self.upper_)
            if self.with_mean:
                X -= self.mean_
            if self.with_std:
                X /= self.scale_
        return X

    def _plain_steps(self) -> list[tuple[str, Any]]:
        mean = self.mean_ if self.with_mean else 0.0
        return clipped_steps(self.lower_, self.upper_, mean, self.scale_ if self.with_std else 1.0)

    def inverse_transform(self, X: MatrixLike) -> np.ndarray:
        """Multiply by standard deviations and add means.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Columns as `transform` returns them.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features), float64
            Columns in the units of the fit.
        """
        X = self._check(X, reset=False, named=False)
        with np.errstate(all="ignore"):
            if self.with_std:
                X = X * self.scale_
            if self.with_mean:
                X = X + self.mean_
        return X
