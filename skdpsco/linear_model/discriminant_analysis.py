"""Private linear discriminant analysis."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from skdpsco._typing import Auto, LedgerLike, Seed
from skdpsco._validation import (
    CLASSES_CONSTRAINTS,
    CONDITIONING_CONSTRAINTS,
    PRIVATE_BOUND_CONSTRAINTS,
    PRIVATE_CONSTRAINTS,
    WEIGHTS_CONSTRAINTS,
    StrOptions,
    is_undeclared,
    with_hints,
)
from skdpsco.base.labels import class_factors
from skdpsco.linear_model._classifier_regressor import LogisticClassifier
from skdpsco.moments.class_moments import ClassMoments, class_moments
from skdpsco.moments.private_moments import MomentRelease, release_moments_of

__all__ = ["PrivateLinearDiscriminantAnalysis"]


class PrivateLinearDiscriminantAnalysis(MomentRelease, LogisticClassifier):
    """Differentially private linear discriminant analysis: normal classes of one covariance.

    Class means, shares of the classes and the covariance within them follow from the means and
    covariances of the features and of the classes' indicators, which are released once, as by
    `PrivateMoments`. With ``covariance="diagonal"`` it is a Gaussian naive Bayes classifier whose
    classes have the same variances. What `fit` stores is (epsilon, delta)-differentially private:
    replacing one record, features and label, changes its law by at most that much.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0. Smaller is more private.
    delta : float, default=1e-6
        Privacy budget, in (0, 1); far below 1 / n_samples.
    ledger : Ledger or None, default=None
        Ledger that is charged with the cost of every fit before noise is drawn. A fit that would
        exceed its budget raises `BudgetExceededError`, and nothing is fitted.
    max_records_per_unit : int or None, default=None
        A number k, in [1, 999999], if records belong to units, such as persons: ``fit`` is given
        ``units``, draws k records of each, and the guarantee is for all records of a unit at once.
    covariance : {"full", "diagonal"}, default="full"
        What is known of the covariance within classes. "diagonal" takes features for uncorrelated,
        which costs less accuracy where there are many and few records.
    priors : array-like of shape (n_classes,) or None, default=None
        Probabilities of the classes in sorted order, > 0; they are divided by their sum. None takes
        the shares of the classes, as released.
    class_weight : dict or None, default=None
        Public weights of the classes by their labels, in [1e-6, 1e6]; those of other classes are 1.
        The probabilities are multiplied by them, as where mistakes in a class cost so much.
    classes : array-like of shape (n_classes,), Schema or None, default=None
        Public labels. None reads them off y, which is not covered by the guarantee.
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. If none is declared
        ("auto" or None), bounds are found privately, for a small part of the budget; with too few
        records for that they are 1.
    conditioning : "auto" or None, default="auto"
        "auto" finds a centre and scales of the columns and the norm of rows privately, for at most
        a quarter of the budget's mu^2, if there are enough records. None measures columns in units
        of their bounds.
    random_state : int, RandomState instance or None, default=None
        None draws secret noise, anew in every fit. Anything else makes the noise reproducible and
        warns: anyone who knows it can subtract the noise.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    means_ : ndarray of shape (n_classes, n_features)
        Means of the classes, drawn to the mean of all records as far as noise moves them.
    priors_ : ndarray of shape (n_classes,)
        Probabilities of the classes, after their weights.
    n_iter_ : int
        0: no steps follow the release of the moments.
    covariance_ : ndarray of shape (n_features, n_features)
        Covariance within classes; positive definite.
    feature_bound_ : ndarray of shape (n_features,)
        The bounds that were found or chosen; only with ``feature_bound="auto"`` or None.
    feature_range_ : ndarray of shape (2, n_features)
        Interval to which predictions clip every column.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.
    privacy_ : PrivacyReport
        The guarantee: epsilon, delta, rho, event, relation, seeded and assumptions.

    See Also
    --------
    PrivateLogisticRegression : Makes no assumption about the law of the features.
    PrivateMoments : With ``classes``, what this and other models may be fitted to.
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : The model without privacy.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record; the number of records, the
    number and names of the features and their dtypes are public. Errors in the input (a NaN, say)
    are reported to the caller and are not covered by the guarantee. Proof:
    docs/proofs/private_moments.md.

    Fitted to moments that ``PrivateMoments(classes=...)`` has released, it is post-processing and
    costs nothing more.

    References
    ----------
    R. A. Fisher. The Use of Multiple Measurements in Taxonomic Problems. Annals of Eugenics 7,
    1936.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLinearDiscriminantAnalysis
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=6000)
    >>> X = np.eye(3)[y] + 0.4 * rng.normal(size=(6000, 3))
    >>> model = PrivateLinearDiscriminantAnalysis(epsilon=1.0, classes=[0, 1, 2], feature_bound=3)
    >>> bool(model.fit(X, y).score(X, y) > 0.9)
    True
    """

    means_: np.ndarray
    priors_: np.ndarray
    covariance_: np.ndarray

    _labelled = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVATE_CONSTRAINTS,
        **PRIVATE_BOUND_CONSTRAINTS,
        **CONDITIONING_CONSTRAINTS,
        **CLASSES_CONSTRAINTS,
        "covariance": [StrOptions({"full", "diagonal"})],
        "priors": [None, "array-like"],
        "class_weight": WEIGHTS_CONSTRAINTS["class_weight"],
    }

    @with_hints(
        standard_errors="PrivateLogisticRegression has them.",
    )
    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        covariance: Literal["full", "diagonal"] = "full",
        priors: ArrayLike | None = None,
        class_weight: Mapping[Any, float] | None = None,
        classes: ArrayLike | None = None,
        feature_bound: ArrayLike | Auto | None = "auto",
        conditioning: Auto | None = "auto",
        random_state: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.max_records_per_unit = max_records_per_unit
        self.covariance = covariance
        self.priors = priors
        self.class_weight = class_weight
        self.classes = classes
        self.feature_bound = feature_bound
        self.conditioning = conditioning
        self.random_state = random_state

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
        intercept = np.log(self.priors_) - 0.5 * (coef * (self.means_ + middle)).sum(axis=1)
        if len(self.classes_) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        return coef, intercept
