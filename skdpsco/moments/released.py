"""What released moments answer at no further cost: questions about parts, sums, and models.

Everything here is post-processing of one release. Proof: docs/proofs/private_moments.md.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from numbers import Integral
from typing import Any

import numpy as np

from skdpsco._validation import is_number
from skdpsco.moments.least_squares import LeastSquares, WeightPath
from skdpsco.moments.release import Measured
from skdpsco.privacy import NoOpEvent
from skdpsco.privacy._checks import abridged
from skdpsco.privacy.relations import ADD_OR_REMOVE, weakest
from skdpsco.privacy.report import PrivacyReport
from skdpsco.privacy.spending import worst_of

__all__ = ["MomentAnswers", "ReleasedMoments"]

UNIVERSAL_ROUNDS = 3  # rounds in which a threshold follows from the variance of the residuals
DISJOINT = (
    "merged moments are of data sets that have no record in common, nor a unit of records, or are "
    "groups of one release"
)


class MomentAnswers:
    """Questions that released moments can answer; see `ReleasedMoments` and `PrivateMoments`."""

    @property
    def _released(self) -> "ReleasedMoments":
        """The released numbers."""
        raise NotImplementedError

    @property
    def mean_(self) -> np.ndarray:
        """Means of the columns, shape (n_columns,), the targets last."""
        return self._released.mean

    @property
    def covariance_(self) -> np.ndarray:
        """Covariances of the columns, divided by n_samples: positive definite."""
        return self._released.repaired()

    @property
    def correlation_(self) -> np.ndarray:
        """Correlations of the columns, shape (n_columns, n_columns)."""
        covariance = self._released.repaired()
        deviation = np.sqrt(covariance.diagonal())
        return covariance / np.outer(deviation, deviation)

    def select(self, columns: Any = None, target: Any = None) -> "ReleasedMoments":
        """Moments of some columns as features and of others as the target, at no cost.

        Parameters
        ----------
        columns : list of int or str, or None, default=None
            Numbers or names of the features. The number ``n_features_in_`` and the name "y" stand
            for the target of the fit; several targets have the numbers from this one on, and the
            names "y0", "y1", ..., or "y=label" for classes. A Series or a frame of targets keeps
            its names. None means all features but ``target``.
        target : int, str, list of these, or None, default=None
            Number or name of the target, or of each of several. None means those of the fit that
            are not among ``columns``.

        Returns
        -------
        moments : ReleasedMoments

        Raises
        ------
        ValueError
            If a column does not exist or is named twice.
        TypeError
            If a column is neither a number nor a name.
        """
        if isinstance(columns, str) or not isinstance(columns, Iterable | None):
            raise TypeError(f"columns must be a list of columns or None, got {columns!r}.")
        released = self._released
        d, number = released.n_features, released._number
        chosen = None if columns is None else list(map(number, columns))
        goals = [j for j in range(d, len(released.names)) if j not in (chosen or ())]
        if target is not None:
            several = isinstance(target, Iterable) and not isinstance(target, str)
            goals = list(map(number, target if several else [target]))
        if chosen is None:
            chosen = [j for j in range(d) if j not in goals]
        both = [*chosen, *goals]
        if not chosen or len(set(both)) < len(both):
            raise ValueError(
                f"columns and target must name at least one feature, and none twice; got "
                f"columns={abridged(columns)}, target={abridged(target)}."
            )
        return released._at(both, len(goals))

    def group(self, *labels: Any) -> "ReleasedMoments":
        """Moments of the records of a declared group, or of several together, at no cost.

        Parameters
        ----------
        *labels
            One or more of the ``groups`` of `PrivateMoments`.

        Returns
        -------
        moments : ReleasedMoments
            The number of records is what the release says, with noise.

        Raises
        ------
        ValueError
            If there is no such group, or one is named twice.
        """
        groups = self._released.groups
        known = all(any(label == one for one in groups) for label in labels)
        if not labels or not known or len(set(labels)) < len(labels):
            raise ValueError(
                f"labels must be different ones of the groups {list(groups)}, got {labels!r}."
            )
        return reduce(ReleasedMoments.merged, (groups[label] for label in labels))

    def path(
        self, *, l1_ratio: float = 1.0, n_alphas: int = 100, eps: float = 1e-3, alphas: Any = None
    ) -> WeightPath:
        """Elastic nets of the target for many weights of the penalty, at no cost.

        Parameters
        ----------
        l1_ratio : float, default=1.0
            Share of the l1 penalty, in (0, 1] unless ``alphas`` are given; 1 is the Lasso.
        n_alphas : int, default=100
            Number of weights.
        eps : float, default=1e-3
            The smallest weight over the largest, for which all coefficients are 0.
        alphas : array-like of shape (n_alphas,) or None, default=None
            The weights, >= 0, as in scikit-learn's `ElasticNet`; None chooses them.

        Returns
        -------
        path : WeightPath
            ``alphas``, decreasing; ``coef`` of shape (n_alphas, n_features) and ``intercept`` of
            shape (n_alphas,).

        Raises
        ------
        ValueError
            If a parameter is out of range, or there is no target.
        """
        problem = self._released.least_squares()
        return problem.path(l1_ratio, n_alphas, eps, alphas)

    def __add__(self, other: Any) -> "ReleasedMoments":
        """Moments of the union of two data sets that have no record in common.

        If the guarantee is for units, such as persons, no unit may have records in both.
        Both must have the same columns. Their bounds may differ; the sum has the larger ones.
        Groups of two releases of one table are not such data sets, even if no record is in both: a
        record may change its group. Groups of one release are.

        Raises
        ------
        ValueError
            If they do not have the same columns, are of the same release, or only one of them has
            a private number of records.
        """
        if not isinstance(other, MomentAnswers):
            return NotImplemented
        return self._released.merged(other._released)


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedMoments(MomentAnswers):
    """Released means and covariances of columns; fitting models to them costs nothing.

    `PrivateMoments` makes them, and so do `select` and the sum of two. Fit `PrivateRidge`,
    `PrivateElasticNet`, `PrivateLasso` or `PrivatePCA` to them.

    Parameters
    ----------
    n_samples : int or float
        Number of records; with weights their sum over ``max_weight``, as it was released.
    names : tuple of str
        Names of the columns, the targets last.
    n_targets : int
        How many of the last columns are targets.
    mean : ndarray of shape (n_columns,)
    covariance : ndarray of shape (n_columns, n_columns)
        As it was released: noise may have made it indefinite.
    bounds : ndarray of shape (n_columns,)
        Bounds on the absolute values of the columns, public or found privately.
    measured : tuple of (float, Measured)
        For every data set, its share of the records, and the size of its noise.
    privacy_ : PrivacyReport
        The guarantee of all this.
    named : bool
        Whether the names are those of a data frame.
    classes : ndarray or None
        Labels whose indicators are the targets; None if the targets are numbers.
    max_weight : float
        What weights of records were clipped to; 1 without weights.
    groups : dict
        The moments of every declared group, by its label.
    """

    n_samples: float
    names: tuple[str, ...]
    n_targets: int
    mean: np.ndarray
    covariance: np.ndarray
    bounds: np.ndarray
    measured: tuple[tuple[float, Measured], ...]
    privacy_: PrivacyReport
    named: bool = False
    classes: np.ndarray | None = None
    max_weight: float = 1.0
    groups: Mapping[Any, "ReleasedMoments"] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"ReleasedMoments(n_samples={self.n_samples:.10g}, n_features={self.n_features}, "
            f"n_targets={self.n_targets})"
        )

    @property
    def _released(self) -> "ReleasedMoments":
        return self

    @property
    def n_features(self) -> int:
        """Number of columns, not counting the targets."""
        return len(self.mean) - self.n_targets

    @property
    def feature_bounds(self) -> np.ndarray:
        """Bounds of the columns, without those of the targets."""
        return self.bounds[: self.n_features]

    @property
    def noise(self) -> tuple[np.ndarray, float]:
        """Units of the columns, and the deviation of the noise of variances in these units."""
        squares = [(share * one.deviation) ** 2 for share, one in self.measured]
        total = sum(squares)
        first = self.measured[0][1].scale
        fourth = sum(
            square / total * (one.scale / first) ** 4
            for square, (_, one) in zip(squares, self.measured, strict=True)
        )
        return first * fourth**0.25, math.sqrt(total)

    def repaired(self) -> np.ndarray:
        """Covariances whose eigenvalues are at least the spectral norm of the noise."""
        unit, deviation = self.noise
        units = np.outer(unit, unit)
        values, U = np.linalg.eigh(self.covariance / units)
        # Smaller eigenvalues cannot be told from 0.
        floor = deviation * math.sqrt(2.0 * len(values))
        return (U * np.maximum(values, floor)) @ U.T * units

    def least_squares(self, fit_intercept: bool = True) -> LeastSquares:
        """Least squares of the target on the features, in units of the noise.

        Raises
        ------
        ValueError
            If there is no target, or more than one.
        """
        if self.n_targets != 1:
            number = "several targets" if self.n_targets else "no target"
            raise ValueError(f"The moments have {number}: choose one, moments.select(target=...).")
        features = self.features_alone()
        unit, _ = features.noise
        A = features.repaired() / np.outer(unit, unit)
        c = self.covariance[:-1, -1] / unit
        mean = self.mean
        if not fit_intercept:
            A = A + np.outer(mean[:-1] / unit, mean[:-1] / unit)
            c = c + mean[:-1] / unit * mean[-1]
        return LeastSquares(A, c, unit, mean if fit_intercept else 0.0 * mean, self.n_samples)

    def _number(self, column: Any) -> int:
        if isinstance(column, str):
            if self.names.count(column) != 1:
                raise ValueError(
                    f"{column!r} must be the name of exactly one column, among {self.names}."
                )
            return self.names.index(column)
        if not is_number(column, Integral):
            raise TypeError(f"A column must be an int or a name, got {type(column).__name__}.")
        number = int(column)
        if not 0 <= number < len(self.names):
            raise ValueError(f"A column must be in [0, {len(self.names) - 1}], got {number}.")
        return number

    def features_alone(self) -> "ReleasedMoments":
        """The same moments without targets."""
        return self._at(range(self.n_features), 0)

    def by_target(self) -> list["ReleasedMoments"]:
        """For every target, the moments of the features and that target."""
        d = self.n_features
        return [self._at([*range(d), d + k], 1) for k in range(self.n_targets)]

    def _at(self, columns: Iterable[int], n_targets: int) -> "ReleasedMoments":
        index = np.array(list(columns))
        groups = {label: one._at(index, n_targets) for label, one in self.groups.items()}
        goals, d = index[len(index) - n_targets :].tolist(), self.n_features
        same = n_targets > 0 and goals == list(range(d, d + self.n_targets))
        return replace(
            self,
            names=tuple(self.names[j] for j in index),
            n_targets=n_targets,
            classes=self.classes if same else None,
            mean=self.mean[index],
            covariance=self.covariance[np.ix_(index, index)],
            bounds=self.bounds[index],
            measured=tuple((share, one.take(index)) for share, one in self.measured),
            groups=groups,
        )

    def merged(self, other: "ReleasedMoments") -> "ReleasedMoments":
        """Moments of the records of both data sets.

        Raises
        ------
        ValueError
            If they do not have the same columns, are of the same release, or only one of them has
            a private number of records.
        """
        if np.array_equal(self.mean, other.mean):
            raise ValueError("Moments cannot be added to themselves: records would count twice.")
        relations = {self.privacy_.relation, other.privacy_.relation}
        if ADD_OR_REMOVE in relations and len(relations) > 1:
            raise ValueError(f"Moments can only be added if both are for {ADD_OR_REMOVE!r}.")
        if self.names != other.names or self.n_targets != other.n_targets:
            raise ValueError(
                f"Moments can only be added if they have the same columns, got {self.names} and "
                f"{other.names}."
            )
        if self.max_weight != other.max_weight:
            raise ValueError("Moments can only be added if they have the same max_weight.")
        n = self.n_samples + other.n_samples
        pairs = [(one.n_samples / n, one) for one in (self, other)]
        mean: Any = sum(share * one.mean for share, one in pairs)
        covariance: Any = sum(
            share * (one.covariance + np.outer(one.mean - mean, one.mean - mean))
            for share, one in pairs
        )
        measured = tuple((share * part, m) for share, one in pairs for part, m in one.measured)
        reports = self.privacy_, other.privacy_
        assumed = dict.fromkeys((DISJOINT, *reports[0].assumptions, *reports[1].assumptions))
        privacy = replace(
            reports[0],
            epsilon=max(report.epsilon for report in reports),
            delta=max(report.delta for report in reports),
            rho=max(report.rho for report in reports),
            event=worst_of([report.event for report in reports]),
            seeded=any(report.seeded for report in reports),
            assumptions=tuple(assumed),
            relation=weakest(relations),
        )
        theirs = other.groups
        both = {k: one.merged(theirs[k]) for k, one in self.groups.items() if k in theirs}
        return replace(
            self,
            n_samples=n,
            mean=mean,
            covariance=covariance,
            bounds=np.maximum(self.bounds, other.bounds),
            measured=measured,
            privacy_=privacy,
            groups={**self.groups, **theirs, **both},
        )

    def shrunk_most(self, problem: LeastSquares, lengths: np.ndarray) -> np.ndarray:
        """Coefficients of a Lasso with penalty ``lengths * |w|``, whose weight exceeds most noise.

        The weight is the universal threshold: in hardly any column does the noise of the release
        and of sampling together exceed it.
        """
        unit, deviation = self.noise
        floor = (deviation * unit[-1]) ** 2  # least variance of the residuals
        spread = problem.A.diagonal() * unit[:-1] ** 2
        total = max(float(self.covariance[-1, -1]), floor)
        coef = np.zeros(self.n_features)
        for _ in range(UNIVERSAL_ROUNDS):
            left = max(total + 2.0 * problem.objective(coef), floor)
            noise = (
                0.5
                * (unit[:-1] * deviation) ** 2
                * float(np.square(unit * np.append(coef, 1.0)).sum())
            )
            noise = np.sqrt(noise + spread * left / self.n_samples) / lengths
            weight = math.sqrt(2.0 * math.log(2.0 * len(coef))) * float(noise.max())
            coef = problem.lasso(weight, lengths)
        return coef

    def describe(self, model: Any) -> None:
        """Set what every model fitted to these moments has; its ledger gets a line about it."""
        model.n_features_in_ = self.n_features
        if self.named:
            model.feature_names_in_ = np.array(self.names[: self.n_features], dtype=object)
        said = (
            "post-processing of moments that were released before; it costs nothing more",
            *self.privacy_.assumptions,
        )
        released = self.privacy_.event
        model._report_free(
            replace(self.privacy_, rho=0.0, event=NoOpEvent(), released=released, assumptions=said)
        )
