"""Private principal components of records, or of released moments."""

from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.decomposition import PCA
from sklearn.utils.validation import check_array, check_is_fitted

from skdpsco._typing import MatrixLike, Self, TargetLike
from skdpsco._upstream import Interval
from skdpsco._validation import check_features, read_X
from skdpsco.base.parameters import (
    Constraints,
    FeatureParameters,
    RelationParameters,
    RowParameters,
    with_parameters,
)
from skdpsco.base.plain import fitted_as, scaler_between
from skdpsco.base.private_estimator import PrivateEstimator
from skdpsco.base.transformer import BlockTransformerMixin
from skdpsco.moments.private_moments import MomentRelease, release_moments_of

from .bounds import clip_columns

__all__ = ["PrivatePCA"]


@with_parameters()
class PrivatePCA(
    FeatureParameters,
    RowParameters,
    RelationParameters,
    MomentRelease,
    ClassNamePrefixFeaturesOutMixin,
    BlockTransformerMixin,
    PrivateEstimator,
):
    """Differentially private principal components of the columns.

    They are the eigenvectors of a noisy covariance matrix.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components, at most n_features; None means all.
    whiten : bool, default=False
        Whether components are divided by their standard deviations.
    {epsilon, delta, ledger, max_records_per_unit, feature_bound, row_norm_of_moments}
    {relation}
        It needs declared bounds.
    {random_state}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal directions of the largest variance; the largest entry of each is positive.
    explained_variance_ : ndarray of shape (n_components,)
        Variances along them, divided by ``n_samples - 1``.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Their shares of the variance of all columns.
    mean_ : ndarray of shape (n_features,)
    n_components_ : int
    {feature_bound_}
        Or those that were declared.
    {n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateMoments : What this and other models may be fitted to at no further cost.
    sklearn.decomposition.PCA : The transformer without privacy.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/private_moments`.

    References
    ----------
    Dwork, Talwar, Thakurta, Zhang. Analyze Gauss: Optimal Bounds for Privacy-Preserving Principal
    Component Analysis. STOC 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.preprocessing import PrivatePCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.outer(rng.uniform(-1, 1, 20000), [0.6, 0.8]) + 0.01 * rng.normal(size=(20000, 2))
    >>> PrivatePCA(n_components=1, epsilon=1.0).fit(X).components_.round(1).tolist()
    [[0.6, 0.8]]
    """

    n_components: int | None = field(default=None, kw_only=False)
    whiten: bool = False

    components_: np.ndarray = field(init=False)
    explained_variance_: np.ndarray = field(init=False)
    explained_variance_ratio_: np.ndarray = field(init=False)
    mean_: np.ndarray = field(init=False)
    n_components_: int = field(init=False)
    feature_bound_: np.ndarray = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        "n_components": [None, Interval(Integral, 1, None, closed="left")],
        "whiten": ["boolean"],
    }

    def fit(self, X: MatrixLike, y: TargetLike = None, *, units: Any = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), blocks or moments
            Blocks are `RowBlocks`, a Dask array or data frame, or an Arrow table. Moments are a
            fitted `PrivateMoments`, or a part of it, at no cost.
        y : None
            Ignored.
        {units}

        {outcome}
        """
        self._validate_params()
        draft = self._draft()
        if hasattr(type(X), "_released"):
            if units is not None:
                raise ValueError("units must be None where X holds moments.")
            moments = X._released.features_alone()
            draft._check_features(moments.n_features)
            moments.describe(draft)
        else:
            (X,) = self._of_units(units, X=X)
            moments = release_moments_of(draft, X, None, has_target=False)
        draft._decompose(moments)
        return self._accept(draft)

    def _check_features(self, n_features: int) -> None:
        """Refuse more components than there are features."""
        if isinstance(self.n_components, (bool, np.bool_)) or (
            self.n_components is not None and self.n_components > n_features
        ):
            raise ValueError(
                f"n_components must be None or an int in [1, {n_features}], the number of "
                f"features; got {self.n_components!r}."
            )

    def _decompose(self, moments: Any) -> None:
        values, vectors = np.linalg.eigh(moments.covariance_)
        k = len(values) if self.n_components is None else self.n_components
        components = vectors.T[::-1][:k]
        largest = np.abs(components).argmax(axis=1)
        self.components_ = components * np.sign(components[np.arange(k), largest])[:, None]
        values = np.maximum(values[::-1], 0.0)
        factor = moments.n_samples / max(moments.n_samples - 1, 1)
        self.explained_variance_ = values[:k] * factor
        self.explained_variance_ratio_ = values[:k] / values.sum()
        self.mean_, self.n_components_ = moments.mean, k
        self.feature_bound_ = moments.bounds

    @property
    def _n_features_out(self) -> int:
        """Number of components, for the names of the columns of `transform`."""
        return self.n_components_

    @property
    def _lengths(self) -> Any:
        """The numbers that scores are divided by."""
        return np.sqrt(self.explained_variance_) if self.whiten else 1.0

    def transform(self, X: MatrixLike) -> Any:
        """Clip into the bounds, subtract means and project on the components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Records, in the units of the fit.

        Returns
        -------
        X_out : ndarray of shape (n_samples, n_components), float64
            Scores along the components; with ``whiten`` in standard deviations.
        """
        check_is_fitted(self)
        bounds = self.feature_bound_
        X = clip_columns(check_features(self, X, reset=False), -bounds, bounds)
        scores = X @ self.components_.T - self.mean_ @ self.components_.T
        return scores / self._lengths

    def _plain_steps(self) -> list[tuple[str, Any]]:
        bounds = self.feature_bound_
        known = {
            "components_": self.components_ * bounds,
            "mean_": self.mean_ / bounds,
            "explained_variance_": self.explained_variance_,
            "n_components_": self.n_components_,
            "n_features_in_": len(bounds),
        }
        clip = scaler_between(-bounds, bounds, (-1, 1))
        return [("clip", clip), ("components", fitted_as(PCA(whiten=self.whiten), **known))]

    def inverse_transform(self, X: MatrixLike) -> np.ndarray:
        """Turn scores into records.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores as `transform` returns them.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features), float64
            Records in the units of the fit.

        Raises
        ------
        ValueError, TypeError
            If X is not an array of finite numbers with one column per component.
        """
        check_is_fitted(self)
        scores = read_X(X, check_array, X, dtype=np.float64)
        if scores.shape[1] != self.n_components_:
            raise ValueError(
                f"X must have {self.n_components_} columns, one per component; got "
                f"{scores.shape[1]}."
            )
        return scores * self._lengths @ self.components_ + self.mean_
