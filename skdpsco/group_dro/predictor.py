"""Predictions of a linear model that is a classifier or a regressor, as its loss says."""

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if

from skdpsco._quiet import score_by
from skdpsco.base.linear_model import PrivateLinearModel
from skdpsco.group_dro.membership import without
from skdpsco.group_dro.names import CLASSIFIERS


def classifies(model: Any) -> bool:
    """Whether the loss is that of a classifier."""
    return model.loss in CLASSIFIERS


def _has_probabilities(model: Any) -> bool:
    return model.loss == "logistic"


class GroupPredictor(PrivateLinearModel):
    """What a fitted model of groups predicts; see the subclass."""

    loss: str

    @available_if(classifies)
    def decision_function(self, X):
        """Score of the second class, its log-odds for the logistic loss; for classifiers only.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return self._scores(X)

    def _scores(self, X):
        X = without(X, getattr(self, "sensitive_columns_", ()))
        scores = self._predictions(X)
        return scores[:, 0] if classifies(self) else scores

    def predict(self, X):
        """Predict the class, or the target.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            May contain the columns that ``sensitive_features`` named; they are not used.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        scores = self._scores(X)
        return self.classes_[(scores > 0.0).astype(int)] if classifies(self) else scores

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Probability of every class; for the logistic loss only.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        p : ndarray of shape (n_samples, 2)
        """
        p = expit(self._scores(X))
        return np.column_stack([1.0 - p, p])

    def score(self, X, y, sample_weight=None):
        """Accuracy, or R^2 of a regression, over all records; without noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        score : float
            See `worst_group_score` for that of the worst group.
        """
        metric = accuracy_score if classifies(self) else r2_score
        return score_by(metric, y, self.predict(X), sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if classifies(self):
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(poor_score=True, multi_class=False)
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags(poor_score=True)
        return tags
