"""What linear models make of their scores: predictions of numbers and of classes, and a score."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier
from sklearn.metrics import accuracy_score, r2_score

from skdpsco._quiet import score_by
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.row_blocks import RowBlocks

__all__ = ["LinearClassifierMixin", "LinearRegressorMixin", "refuse_blocks", "within_targets"]


def refuse_blocks(X: Any) -> None:
    """Say what to do for predictions of blocks.

    Raises
    ------
    TypeError
        If X is `RowBlocks`.
    """
    if isinstance(X, RowBlocks):
        raise TypeError(
            "X must be an array, a sparse matrix or a data frame, got RowBlocks. Predict and score "
            "block by block: for X, y in blocks: model.predict(X)."
        )


def within_targets(model: Any, predicted: np.ndarray) -> np.ndarray:
    """Predictions clipped to ``target_range_``, if the regression has one.

    The fit has seen no target beyond it.
    """
    clips = hasattr(model, "target_range_")
    return np.clip(predicted, *model.target_range_) if clips else predicted


class ScoreMixin:
    """The score of a `PrivateLinearModel`."""

    def score(
        self, X: MatrixLike, y: TargetLike = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy of a classifier, or R^2 of a regressor.

        It is computed without noise: do not publish it for private records. With several targets it
        is the mean of their scores.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Required.
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        score : float

        Raises
        ------
        TypeError
            For `RowBlocks`: score them one by one.
        """
        refuse_blocks(X)
        metric = accuracy_score if is_classifier(self) else r2_score
        return score_by(metric, y, self.predict(X), sample_weight)  # type: ignore[attr-defined]


class LinearRegressorMixin(ScoreMixin, RegressorMixin):
    """Predictions of a `PrivateLinearModel` of one target or of several."""

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predict with the linear model, within ``target_range_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,), or (n_samples, n_targets) for models of several targets
        """
        return within_targets(self, self._predictions(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class LinearClassifierMixin(ScoreMixin, ClassifierMixin):
    """Predictions of a `PrivateLinearModel` of two or more classes."""

    classes_: np.ndarray

    def decision_function(self, X: MatrixLike) -> np.ndarray:
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

    def predict(self, X: MatrixLike) -> np.ndarray:
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags
