"""Fitting and predicting that regressors have in common, and classifiers."""

from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax

from skdpsco._validation import (
    FLOATS,
    check_bound,
    check_target,
    check_X_y,
)
from skdpsco.base.labels import as_targets, declared_classes, encode_classes, labels_note
from skdpsco.base.linear_model import (
    LinearClassifierMixin,
    LinearRegressorMixin,
    PrivateLinearModel,
)
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


class LinearRegressor(LinearRegressorMixin, PrivateLinearModel):
    """Private least squares; see the subclasses."""

    target_bound: float | None

    def _loss(self):
        """The loss that is minimised, of residuals in units of the target's scale."""
        return Squared()

    def _default_target_bound(self, n_features: int) -> float | None:
        """What an undeclared bound on the targets follows from; None if it is found privately."""
        return None

    def _learn(self, X, y):
        records = read_records(self, X, y, check_target)
        X, y = (records, None) if records else check_X_y(self, X, y, y_numeric=True, dtype=FLOATS)
        bound = self.target_bound
        if bound is not None:
            bound = check_bound("target_bound", bound)
        else:
            bound = self._default_target_bound(X.shape[1])
        return self._fit(X, y, self._loss(), bound, (), regression=True)


class LogisticClassifier(LinearClassifierMixin, PrivateLinearModel):
    """Private classification, of several classes as one problem; see the subclasses."""

    def _learn(self, X, y):
        encode = partial(encode_targets, classes=self.classes)
        records = read_records(self, X, y, encode)
        if records:
            self.classes_ = declared_classes(self.classes)
            X, target = records, None
        else:
            X, y = check_X_y(self, X, y, y_numeric=False, dtype=FLOATS)
            self.classes_, _ = classes, index = encode_classes(y, self.classes)
            target = as_targets(classes, index)
        n_classes = len(self.classes_)
        assumptions = (labels_note(self.classes_, self.classes),)
        loss = Logistic() if n_classes == 2 else Multinomial(n_classes)
        coef, intercept = self._fit(X, target, loss, None, assumptions)
        return np.atleast_2d(coef), np.atleast_1d(intercept)

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
            return np.column_stack([expit(-scores), expit(scores)])
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
