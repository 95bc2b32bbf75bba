"""Private linear discriminant analysis."""

import math
from dataclasses import field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from skdpsco._validation import (
    StrOptions,
    is_undeclared,
)
from skdpsco.base.labels import class_factors
from skdpsco.base.parameters import Constraints, FeatureParameters, with_parameters
from skdpsco.linear_model._classifier_regressor import LogisticClassifier
from skdpsco.moments.class_moments import ClassMoments, class_moments
from skdpsco.moments.private_moments import MomentRelease, release_moments_of
from skdpsco.scaling.calibration import CLASS_CURVE

__all__ = ["PrivateLinearDiscriminantAnalysis"]


@with_parameters(
    standard_errors="PrivateLogisticRegression has them.",
)
class PrivateLinearDiscriminantAnalysis(FeatureParameters, MomentRelease, LogisticClassifier):
    """Differentially private linear discriminant analysis: normal classes of one covariance.

    It releases the means and the covariance of the classes once, as `PrivateMoments` does. With
    ``covariance="diagonal"`` it is Gaussian naive Bayes with common variances.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    covariance : {"full", "diagonal"}, default="full"
        "diagonal" assumes uncorrelated features, and suits many features and few records.
    priors : array-like of shape (n_classes,) or None, default=None
        Probabilities of the classes in sorted order, > 0. None takes the released shares.
    {class_weight}
        Probabilities are multiplied by them.
    {classes, feature_bound, random_state}

    Attributes
    ----------
    {classes_, coef_of_classes, intercept_of_classes}
    means_ : ndarray of shape (n_classes, n_features)
    priors_ : ndarray of shape (n_classes,)
        Probabilities of the classes, after their weights.
    n_iter_ : int
        0.
    covariance_ : ndarray of shape (n_features, n_features)
        Covariance within classes.
    {feature_bound_, feature_range_, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateLogisticRegression : Makes no assumption about features.
    PrivateMoments : What this model may be fitted to at no cost.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/private_moments`.

    References
    ----------
    Fisher. The Use of Multiple Measurements in Taxonomic Problems. Annals of Eugenics 7, 1936.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLinearDiscriminantAnalysis
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=6000)
    >>> X = np.eye(3)[y] + 0.4 * rng.normal(size=(6000, 3))
    >>> model = PrivateLinearDiscriminantAnalysis(classes=[0, 1, 2], feature_bound=3)
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    """

    covariance: Literal["full", "diagonal"] = "full"
    priors: ArrayLike | None = None

    classes_: np.ndarray = field(init=False)
    coef_: np.ndarray = field(init=False)
    intercept_: Any = field(init=False)
    n_iter_: int = field(init=False)
    feature_bound_: np.ndarray = field(init=False)
    feature_range_: np.ndarray = field(init=False)
    means_: np.ndarray = field(init=False)
    priors_: np.ndarray = field(init=False)
    covariance_: np.ndarray = field(init=False)

    _labelled = True

    _parameter_constraints: ClassVar[Constraints] = {
        "covariance": [StrOptions({"full", "diagonal"})],
        "priors": [None, "array-like"],
    }

    def _check_classes(self, classes: np.ndarray) -> None:
        self._check_priors(classes)
        class_factors(self.class_weight, classes)

    def _learn(self, X, y):
        moments = release_moments_of(self, X, y, has_target=True, stacklevel=4)
        if is_undeclared(self.feature_bound):
            self.feature_bound_ = moments.feature_bounds
        return self._discriminants(moments)

    def _learn_from_moments(self, moments, y):
        if y is not None:
            raise ValueError("y must be None where X holds moments.")
        if moments.classes is None:
            raise ValueError(
                "X must hold moments of classes: PrivateMoments(classes=...).fit(X, y)."
            )
        self.coef_, self.intercept_ = self._discriminants(moments)
        moments.describe(self)

    def _check_priors(self, classes: np.ndarray) -> np.ndarray | None:
        """Probabilities of the classes, or None if they are those of the release.

        Raises
        ------
        ValueError
            If they are no positive numbers, or there is not one for each class.
        """
        if self.priors is None:
            return None
        given = np.asarray(self.priors, dtype=object)
        numbers = [isinstance(one, float | int | np.number) for one in given.ravel()]
        if given.shape != classes.shape or not all(numbers):
            raise ValueError(f"priors must be {len(classes)} numbers, one for each class.")
        priors = given.astype(np.float64)
        if not ((priors >= 1e-9) & (priors <= 1e9)).all():
            raise ValueError("priors must be in [1e-9, 1e9].")
        return priors / priors.sum()

    def _discriminants(self, moments: Any) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts of the scores."""
        self.classes_ = moments.classes
        found: ClassMoments = class_moments(moments, self.covariance == "diagonal")
        priors = self._check_priors(self.classes_)
        weighted = found.shares if priors is None else priors
        weighted = weighted * class_factors(self.class_weight, self.classes_)
        self.priors_ = weighted / weighted.sum()
        self.means_, self.covariance_, self.n_iter_ = found.means, found.within, 0
        self.feature_range_ = moments.feature_bounds * np.array([[-1.0], [1.0]])
        middle = self.priors_ @ self.means_  # scores are differences: less is lost to rounding
        coef = np.linalg.solve(self.covariance_, (self.means_ - middle).T).T
        # Noise makes scores of few records too long.
        n_mu = moments.n_samples * math.sqrt(2.0 * moments.privacy_.rho)
        coef *= CLASS_CURVE.expected(n_mu / math.sqrt(coef.shape[1]))
        intercept = np.log(self.priors_) - 0.5 * (coef * (self.means_ + middle)).sum(axis=1)
        if len(self.classes_) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        return coef, intercept
