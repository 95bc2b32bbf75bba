"""Fitting and predicting that regressors have in common, and classifiers."""

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.base import ClassifierMixin, RegressorMixin

from skdpsco._estimator import PrivateLinearModel
from skdpsco._validation import (
    check_bound,
    check_fit_params,
    check_X_y,
    encode_classes,
    labels_note,
)
from skdpsco.losses import Logistic, Multinomial, Squared


class LinearRegressor(RegressorMixin, PrivateLinearModel):
    """Private least squares; see the subclasses."""

    target_bound: float | None

    def _loss(self):
        """The loss that is minimised, of residuals in units of the target's scale."""
        return Squared()

    def _default_target_bound(self, n_features: int) -> float | None:
        """What an undeclared bound on the targets follows from; None if it is found privately."""
        return None

    def fit(self, X, y, **fit_params):
        """Fit the model privately.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **fit_params : dict
            Only ``sample_weight=None`` is allowed.

        Returns
        -------
        self : object
            A fit that fails leaves it as it was: what an earlier fit learnt is kept.

        Raises
        ------
        ValueError, TypeError
            Before any noise is drawn, for parameters out of range and for input that is not finite
            and numeric.
        BudgetExceededError
            If the ledger has not enough left.
        """
        check_fit_params(fit_params)
        self._validate_params()
        draft = self._draft()
        X, y = check_X_y(draft, X, y, y_numeric=True)
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class LogisticClassifier(ClassifierMixin, PrivateLinearModel):
    """Private classification, of several classes as one problem; see the subclasses."""

    def fit(self, X, y, **fit_params):
        """Fit the model privately.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **fit_params : dict
            Only ``sample_weight=None`` is allowed.

        Returns
        -------
        self : object
            A fit that fails leaves it as it was: what an earlier fit learnt is kept.

        Raises
        ------
        ValueError, TypeError
            Before any noise is drawn, for parameters out of range, for input that is not finite
            and numeric, and for labels that are not among ``classes``.
        BudgetExceededError
            If the ledger has not enough left.
        """
        check_fit_params(fit_params)
        self._validate_params()
        draft = self._draft()
        X, y = check_X_y(draft, X, y, y_numeric=False)
        draft.classes_, index = encode_classes(y, self.classes)
        n_classes = len(draft.classes_)
        assumptions = (labels_note(draft.classes_, self.classes),)
        if n_classes == 2:
            loss, target = Logistic(), 2.0 * index - 1.0
        else:
            loss, target = Multinomial(n_classes), index.astype(np.float64)
        coef, intercept = draft._fit(X, target, loss, None, assumptions)
        draft.coef_, draft.intercept_ = np.atleast_2d(coef), np.atleast_1d(intercept)
        return self._accept(draft)

    def decision_function(self, X):
        """Score of the second of two classes, or one per class: log-odds if the loss is logistic.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        scores = self._predictions(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X):
        """Predict the class with the largest score.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        if len(self.classes_) == 2:
            return self.classes_[(scores > 0.0).astype(int)]
        return self.classes_[scores.argmax(axis=1)]

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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags
