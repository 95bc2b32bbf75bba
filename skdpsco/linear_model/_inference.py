"""Standard errors and confidence intervals of coefficients."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.stats import norm
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from skdpsco._problem import Uncertainty
from skdpsco._quiet import quietly
from skdpsco._random import warn_utility
from skdpsco._typing import MatrixLike
from skdpsco._validation import check_X
from skdpsco.base.public_start import clipped_product
from skdpsco.moments.least_squares import check_within
from skdpsco.privacy._checks import abridged

__all__ = ["CoefficientInference", "MomentInference", "coefficient_names"]

LEVELS = 1e-9, 1.0 - 1e-9


class CoefficientInference:
    """What a model knows about the errors of its coefficients, if anything."""

    coef_: np.ndarray
    intercept_: Any
    uncertainty_: Uncertainty

    _remedy: ClassVar[str] = "fit it with standard_errors=True"

    def _known(self) -> Uncertainty:
        """The known uncertainty, with covariances in the shape of the coefficients."""
        if not hasattr(self, "uncertainty_"):
            check_is_fitted(self)
            raise AttributeError(
                f"This {type(self).__name__} has no standard errors: {self._remedy}."
            )
        known, shape = self.uncertainty_, np.shape(self.coef_)
        D = known.covariance.shape[-1]
        debiasing = np.zeros(1) if known.debiasing is None else known.debiasing
        return known._replace(
            covariance=known.covariance.reshape(*shape[:-1], D, D),
            debiasing=np.broadcast_to(debiasing, (*shape[:-1], D)),
        )

    @property
    def coef_covariance_(self) -> np.ndarray:
        """Covariance of the coefficients, of the shape of `coef_` with n_features appended."""
        return self._known().covariance[..., :-1, :-1]

    @property
    def coef_standard_error_(self) -> np.ndarray:
        """Standard errors of the coefficients, in the shape of `coef_`."""
        return self._errors()[..., :-1]

    def _errors(self) -> np.ndarray:
        """Standard errors of the coefficients and, last, of the intercept."""
        return np.sqrt(np.diagonal(self._known().covariance, axis1=-2, axis2=-1))

    def confint(self, level: float = 0.95) -> np.ndarray:
        """Confidence intervals of the coefficients, for normal errors.

        They account for noise and sampling, and cover the coefficients of a fit to the whole
        population with the same penalty. With an l1 penalty or a radius they cover those without
        any penalty, and may not contain `coef_`. See :doc:`/standard-errors`.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval covers its coefficient, in [1e-9, 1 - 1e-9].

        Returns
        -------
        intervals : ndarray, of the shape of `coef_` with 2 appended
            Lower and upper ends.

        Raises
        ------
        AttributeError
            If the model was fitted neither to moments nor with ``standard_errors=True``.
        NotFittedError
            If it was not fitted at all.
        ValueError
            If ``level`` is out of range.

        Warns
        -----
        UtilityWarning
            If the noise is so large that the coverage is doubtful, as judged from the release.
        """
        return self._intervals(self._quantile(level))[..., :-1, :]

    def summary(self, level: float = 0.95, feature_names: ArrayLike | None = None) -> Any:
        """Coefficients and their errors as a data frame.

        Parameters
        ----------
        level : float, default=0.95
            Level of the intervals, in [1e-9, 1 - 1e-9].
        feature_names : array-like of shape (`n_features_in_`,) or None, default=None
            Such as ``pipeline[:-1].get_feature_names_out()``. None uses ``feature_names_in_``, or
            x0, x1, ...

        Returns
        -------
        summary : DataFrame
            One row per coefficient, and one for the intercept if there is one. The columns are
            name, coef, standard_error, z, p_value, low and high, followed by the class or the
            number of the target if there are several. With an l1 penalty or a ``radius``, coef is
            the estimate without them, the middle of the interval.

        Raises
        ------
        AttributeError
            If the model was fitted neither to moments nor with ``standard_errors=True``.
        NotFittedError
            If it was not fitted at all.
        ValueError
            If ``level`` or ``feature_names`` is not legal.
        ImportError
            If pandas is not installed.

        Warns
        -----
        UtilityWarning
            As for `confint`.
        """
        from pandas import DataFrame

        intervals = self._intervals(self._quantile(level))
        errors = self._errors()
        d = errors.shape[-1] - 1
        several = errors.size > d + 1
        of = "class" if hasattr(self, "classes_") else "target"
        outputs = getattr(self, "classes_", range(len(errors)))
        names = [*coefficient_names(self, feature_names, d), "intercept"]
        rows: list[Any] = []
        for place in np.ndindex(errors.shape):
            error, (low, high) = errors[place], intervals[place]
            if error > 0.0:  # an intercept that is not fitted is 0 and has no error
                value = 0.5 * (low + high)
                z = value / error
                rows.append((names[place[-1]], value, error, z, 2.0 * norm.sf(abs(z)), low, high))
                rows[-1] += (outputs[place[0]],) if several else ()
        return DataFrame(rows, columns=[*SUMMARY, of] if several else SUMMARY)

    def _intervals(self, quantile: float) -> np.ndarray:
        values = np.concatenate([self.coef_, np.expand_dims(self.intercept_, -1)], axis=-1)
        values += self._known().debiasing
        width = quantile * self._errors()
        return np.stack([values - width, values + width], axis=-1)

    def _quantile(self, level: Any) -> float:
        """The number of standard errors that an interval reaches; warn if it may not cover."""
        quantile = float(norm.isf(0.5 * (1.0 - check_within("level", level, *LEVELS))))
        known = self._known()
        if np.any(known.doubtful):
            warn_utility(
                "The noise in the covariances or curvatures of the features is not small beside "
                "them, so that the coverage of these intervals is doubtful. Use fewer features, "
                "more records or a larger epsilon.",
                4,
            )
        return quantile


class MomentInference(CoefficientInference):
    """What a least squares model, which may be fitted to moments, knows about its errors."""

    predict: Any
    feature_range_: np.ndarray

    _remedy = "fit it to moments, PrivateMoments().fit(X, y)"

    def predict_interval(self, X: MatrixLike, level: float = 0.95) -> np.ndarray:
        """Intervals for the targets of new records, for normal errors.

        They account for the variance of the residuals, as estimated by the fit, and for errors of
        the coefficients from sampling and noise: ``residual + x' cov x``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        level : float, default=0.95
            Probability that an interval covers the target of its record, in [1e-9, 1 - 1e-9], if
            residuals are nearly normal and have the same variance everywhere.

        Returns
        -------
        intervals : ndarray of shape (n_samples, 2) or (n_samples, n_targets, 2)
            Lower and upper ends.

        Raises
        ------
        AttributeError
            If the model was fitted neither to moments nor with ``standard_errors=True``.
        NotFittedError
            If it was not fitted at all.
        ValueError
            If ``level`` or X is out of range.

        Warns
        -----
        UtilityWarning
            As for `confint`.
        """
        quantile, known = self._quantile(level), self._known()
        middle = self.predict(X)
        X, limits = check_X(self, X), self.feature_range_
        covariances = known.covariance.reshape(-1, *known.covariance.shape[-2:])
        instead = "X must be a valid matrix."  # SciPy's errors would show wrong indices
        free = known.debiasing.reshape(-1, known.debiasing.shape[-1])
        moved = quietly(instead, clipped_product, X, free[:, :-1].T, limits) + free[:, -1]
        middle = middle + moved.reshape(middle.shape)
        spread = np.column_stack(
            [quietly(instead, _variances, X, one, limits) for one in covariances]
        )
        width = quantile * np.sqrt(known.residual_variance + spread).reshape(middle.shape)
        return np.stack([middle - width, middle + width], axis=-1)


def _variances(X: Any, covariance: np.ndarray, limits: Any) -> np.ndarray:
    """Variances of predictions, from the covariance of coefficients and intercept."""
    found = np.empty(X.shape[0])
    for rows in gen_batches(X.shape[0], 4096):
        some = X[rows].toarray() if sparse.issparse(X) else X[rows]
        some = np.clip(some, *limits)
        turned = some @ covariance[:-1, :-1] + 2.0 * covariance[:-1, -1]
        found[rows] = covariance[-1, -1] + (some * turned).sum(axis=1)
    return np.maximum(found, 0.0)


def coefficient_names(model: Any, feature_names: Any, n_features: int) -> list[str]:
    """Names of the features of coefficients: those given, those of the fit, or x0, x1, ...

    Raises
    ------
    ValueError
        If it is not a list of one name per feature.
    """
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(n_features)])
    is_list = np.iterable(feature_names) and not isinstance(feature_names, str)
    names = [str(name) for name in feature_names] if is_list else []
    if len(names) != n_features:
        raise ValueError(
            f"feature_names must be a list of {n_features} names, one per feature of the fit; got "
            f"{abridged(feature_names)}."
        )
    return names


SUMMARY = ["name", "coef", "standard_error", "z", "p_value", "low", "high"]
