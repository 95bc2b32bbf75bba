"""Base classes of linear regressors and classifiers: how they encode targets and predict."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax

from skdpsco._typing import MatrixLike
from skdpsco._validation import FLOATS, check_bound, check_target, check_weights, check_X_y
from skdpsco.base.labels import (
    as_targets,
    class_factors,
    declared_classes,
    encode_classes,
    labels_note,
)
from skdpsco.base.linear_model import PrivateLinearModel
from skdpsco.base.parameters import ClassParameters, RecordParameters, TargetParameters
from skdpsco.base.predictions import LinearClassifierMixin, LinearRegressorMixin
from skdpsco.data.block_records import blocks_of, is_blocks, read_records
from skdpsco.losses.library import Logistic, Multinomial, Squared, weighted
from skdpsco.scaling.stages import Units

__all__ = ["LinearClassifier", "LinearRegressor", "LogisticClassifier", "residuals"]


def encode_targets(y: np.ndarray, classes: Any, factors: np.ndarray | None = None) -> np.ndarray:
    """Targets for labels among the declared ``classes``, weighted by ``factors`` in [0, 1].

    Raises
    ------
    ValueError
        If a label is not among ``classes``.
    """
    classes, index = encode_classes(y, classes)
    return as_targets(classes, index, None if factors is None else factors[index])


def residuals(y: np.ndarray, predicted: np.ndarray, bound: Any) -> tuple[np.ndarray, Any]:
    """Targets minus predictions, and bounds on them; None if targets have no bounds."""
    with np.errstate(all="ignore"):  # tiny differences underflow
        if bound is None:
            return y - predicted, None
        return np.clip(y, -bound, bound) - np.clip(predicted, -bound, bound), 2.0 * bound


class LinearRegressor(LinearRegressorMixin, TargetParameters, RecordParameters, PrivateLinearModel):
    """Private least squares; see the subclasses."""

    target_range_: np.ndarray
    _begins_at_scores = False

    def _loss(self, n_samples: int, n_features: int) -> Any:
        """The loss that is minimised, in terms of residuals in units of the target's scale."""
        return Squared()

    def _default_target_bound(self, n_features: int) -> float | None:
        """The bound on targets if none is declared; None if it is found privately."""
        return None

    @property
    def _encode_block(self) -> Callable[[np.ndarray], np.ndarray]:
        """A function that returns the targets of a block."""
        return check_target

    def _learn_several(self, X: Any, y: Any) -> tuple[np.ndarray, Any] | None:
        """Coefficients and intercepts for several targets; None if there is only one."""
        return None

    def _learn(self, X, y):
        blocks = blocks_of(X, y)
        if blocks is not None:
            X, y = blocks, None
        several = self._learn_several(X, y)
        if several is not None:
            return several
        records = read_records(self, X, y, self._encode_block)
        if records:
            X, y = records, None
        else:
            X, y = check_X_y(self, X, y, y_numeric=False, dtype=FLOATS)
            y = self._encode_block(y)
        bound = self.target_bound
        if bound is None:
            bound = self._default_target_bound(X.shape[1])
        known = self._check_init(X.shape[1])
        if self._init is not None and not self._begins_at_scores:
            predicted = self._init.predict(X, known)
            if bound is not None:
                bound = check_bound("target_bound", bound)
            y, bound = residuals(y, predicted, bound)
        loss = self._loss(*X.shape)
        return self._fit(X, y, loss, bound, self._loss_notes(loss), regression=True)

    def _set_ranges(self, units: Units) -> None:
        super()._set_ranges(units)
        if self._init is None:  # otherwise targets are what its predictions leave
            self.target_range_ = units.target.range


class LinearClassifier(LinearClassifierMixin, ClassParameters, PrivateLinearModel):
    """Private classification, of several classes as one problem; see the subclasses."""

    def _learn(self, X, y):
        self._allow_weights(not is_blocks(X))
        records = read_records(self, X, y, self._encode_block)
        if records:
            self.classes_ = declared_classes(self.classes)
            X, target = records, None
        else:
            X, y = check_X_y(self, X, y, y_numeric=False, dtype=FLOATS)
            target = self._encode(y)
        n_classes = len(self.classes_)
        loss = self._weighted_loss(self._class_loss(n_classes))
        self._check_init(X.shape[1], loss.n_outputs)
        notes = (*self._label_notes(), *self._loss_notes(loss))
        coef, intercept = self._fit(X, target, loss, None, notes)
        return np.atleast_2d(coef), np.atleast_1d(intercept)

    def _curve(self, loss):
        return None if self._init is not None else super()._curve(loss)

    def _class_loss(self, n_classes: int) -> Any:
        """The loss for this number of classes."""
        raise NotImplementedError

    def _label_notes(self) -> tuple[str, ...]:
        """Lines of the report."""
        return (labels_note(self.classes_, self.classes),)

    def _encode(self, y: np.ndarray) -> np.ndarray:
        """Targets for the labels in an array; it sets `classes_`.

        Raises
        ------
        ValueError
            If a label or a weight is not legal.
        """
        self.classes_, index = encode_classes(y, self.classes)
        weights = None
        with np.errstate(all="ignore"):  # tiny weights underflow
            if self._weighs():
                weights = self._factors(self.classes_)[index]
                if self._sample_weight is not None:
                    weights = weights * check_weights(self._sample_weight, self.max_weight, len(y))
            return as_targets(self.classes_, index, weights)

    @property
    def _encode_block(self) -> Callable[[np.ndarray], np.ndarray]:
        """A function that returns the targets of the labels in a block."""
        weighs = self.class_weight is not None and self.classes is not None
        factors = self._factors(declared_classes(self.classes)) if weighs else None
        return partial(encode_targets, classes=self.classes, factors=factors)

    def _allow_weights(self, in_memory: bool) -> None:
        """Refuse weights for records that are not in memory.

        Raises
        ------
        ValueError
            If there are such weights.
        """
        if self._sample_weight is not None and not in_memory:
            raise ValueError("sample_weight must be None where X is in blocks: use class_weight.")

    def _weighs(self) -> bool:
        return self.class_weight is not None or self._sample_weight is not None

    def _factors(self, classes: np.ndarray) -> np.ndarray:
        """Weights of the classes, the largest of which is 1."""
        factors = class_factors(self.class_weight, classes)
        return factors / factors.max()

    def _weighted_loss(self, loss: Any) -> Any:
        """The loss for weighted targets, if there are weights."""
        return weighted(loss) if self._weighs() else loss

    def _largest_weight(self) -> float:
        largest = float(class_factors(self.class_weight, self.classes_).max())
        return largest * super()._largest_weight()


class LogisticClassifier(LinearClassifier):
    """Private classification whose scores are log-odds; see the subclasses."""

    def _class_loss(self, n_classes: int) -> Any:
        return Logistic() if n_classes == 2 else Multinomial(n_classes)

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
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

    def predict_log_proba(self, X: MatrixLike) -> np.ndarray:
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
