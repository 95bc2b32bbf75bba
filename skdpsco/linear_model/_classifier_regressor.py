"""Fitting and predicting that regressors have in common, and classifiers."""

from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from skdpsco._quiet import score_by
from skdpsco._validation import (
    FLOATS,
    check_bound,
    check_fit_params,
    check_target,
    check_X_y,
)
from skdpsco.base.labels import as_targets, encode_classes, labels_note
from skdpsco.base.linear_model import LinearClassifierMixin, PrivateLinearModel, refuse_blocks
from skdpsco.data.row_blocks import read_records
from skdpsco.losses.library import Logistic, Multinomial, Squared


def encode_targets(y: np.ndarray, classes: Any) -> np.ndarray:
    """Targets of labels among the declared ``classes``.

    Raises
    ------
    ValueError
        If a label is not among ``classes``.
    """
    return as_targets(*encode_classes(y, classes))


def declared_classes(classes: Any) -> np.ndarray:
    """The classes of labels in blocks, sorted.

    Raises
    ------
    ValueError
        If they are not declared: labels of blocks are not looked at for them.
    """
    if classes is None:
        raise ValueError("classes must be declared where X is in blocks: a list of all labels.")
    return encode_classes(np.asarray(classes)[:0], classes)[0]


class LinearRegressor(RegressorMixin, PrivateLinearModel):
    """Private least squares; see the subclasses."""

    target_bound: float | None

    def _loss(self):
        """The loss that is minimised, of residuals in units of the target's scale."""
        return Squared()

    def _default_target_bound(self, n_features: int) -> float | None:
        """What an undeclared bound on the targets follows from; None if it is found privately."""
        return None

    def fit(self, X, y=None, **fit_params):
        """Fit the model privately.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or blocks
            Blocks are `RowBlocks`, a Dask array or data frame, or an Arrow table; see
            docs/scaling.md.
        y : array-like of shape (n_samples,) or None
            None for `RowBlocks` that hold the targets. Beside a Dask X it may be a Dask array.
        **fit_params : dict
            Only ``sample_weight=None`` is allowed.

        Returns
        -------
        self : object
            A fit that fails leaves the estimator as it was, with the results of an earlier fit.

        Raises
        ------
        ValueError, TypeError
            If a parameter is out of range, or the input is not finite and numeric; no noise has
            been drawn then.
        BudgetExceededError
            If the ledger's remaining budget is too small.
        """
        check_fit_params(fit_params)
        self._validate_params()
        draft = self._draft()
        records = read_records(draft, X, y, check_target)
        X, y = (records, None) if records else check_X_y(draft, X, y, y_numeric=True, dtype=FLOATS)
        bound = self.target_bound
        if bound is not None:
            bound = check_bound("target_bound", bound)
        else:
            bound = self._default_target_bound(X.shape[1])
        draft.coef_, draft.intercept_ = draft._fit(X, y, self._loss(), bound, (), regression=True)
        return self._accept(draft)

    def predict(self, X):
        """Predict with the linear model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        return self._predictions(X)

    def score(self, X, y=None, sample_weight=None):
        """R^2 of the predictions, without noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Has to be given.
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        score : float

        Raises
        ------
        TypeError
            If X is `RowBlocks`; score its blocks one by one.
        """
        refuse_blocks(X)
        return score_by(r2_score, y, self.predict(X), sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class LogisticClassifier(LinearClassifierMixin, PrivateLinearModel):
    """Private classification, of several classes as one problem; see the subclasses."""

    def fit(self, X, y=None, **fit_params):
        """Fit the model privately.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or blocks
            Blocks are `RowBlocks`, a Dask array or data frame, or an Arrow table; see
            docs/scaling.md.
        y : array-like of shape (n_samples,) or None
            None for `RowBlocks` that hold the targets. Beside a Dask X it may be a Dask array.
        **fit_params : dict
            Only ``sample_weight=None`` is allowed.

        Returns
        -------
        self : object
            A fit that fails leaves the estimator as it was, with the results of an earlier fit.

        Raises
        ------
        ValueError, TypeError
            If a parameter is out of range, the input is not finite and numeric, or a label is not
            among ``classes``; no noise has been drawn then.
        BudgetExceededError
            If the ledger's remaining budget is too small.
        """
        check_fit_params(fit_params)
        self._validate_params()
        draft = self._draft()
        encode = partial(encode_targets, classes=self.classes)
        records = read_records(draft, X, y, encode)
        if records:
            draft.classes_ = declared_classes(self.classes)
            X, target = records, None
        else:
            X, y = check_X_y(draft, X, y, y_numeric=False, dtype=FLOATS)
            draft.classes_, _ = classes, index = encode_classes(y, self.classes)
            target = as_targets(classes, index)
        n_classes = len(draft.classes_)
        assumptions = (labels_note(draft.classes_, self.classes),)
        loss = Logistic() if n_classes == 2 else Multinomial(n_classes)
        coef, intercept = draft._fit(X, target, loss, None, assumptions)
        draft.coef_, draft.intercept_ = np.atleast_2d(coef), np.atleast_1d(intercept)
        return self._accept(draft)

    def predict_proba(self, X):
        """Probability of every class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        if len(self.classes_) == 2:
            p = expit(scores)
            return np.column_stack([1.0 - p, p])
        return softmax(scores, axis=1)

    def predict_log_proba(self, X):
        """Logarithm of the probability of every class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        if len(self.classes_) == 2:
            scores = np.column_stack([np.zeros_like(scores), scores])
        return log_softmax(scores, axis=1)
