"""Methods and attributes that a fitted search passes on from its best estimator."""

from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdpsco._typing import MatrixLike

__all__ = ["BestEstimatorMixin"]


def _best_has(method: str):
    def check(self):
        getattr(getattr(self, "best_estimator_", self.estimator), method)
        return True

    return check


class BestEstimatorMixin:
    """Methods and attributes of ``best_estimator_``, and tags of ``estimator``."""

    estimator: Any
    best_estimator_: Any

    @available_if(_best_has("predict"))
    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predictions of the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(_best_has("predict_proba"))
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(_best_has("predict_log_proba"))
    def predict_log_proba(self, X: MatrixLike) -> np.ndarray:
        """Logarithms of the probabilities of the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict_log_proba(X)

    @available_if(_best_has("decision_function"))
    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Decision function of the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    @property
    def classes_(self) -> np.ndarray:
        """Classes of the best estimator."""
        return self._of_best("classes_")

    @property
    def n_features_in_(self) -> int:
        """Number of features of the fit."""
        return self._of_best("n_features_in_")

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features of the fit."""
        return self._of_best("feature_names_in_")

    def _of_best(self, name: str) -> Any:
        if "best_estimator_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no {name} before it is fitted.")
        return getattr(self.best_estimator_, name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        of_estimator = get_tags(self.estimator)
        tags.estimator_type = of_estimator.estimator_type
        tags.classifier_tags = of_estimator.classifier_tags
        tags.regressor_tags = of_estimator.regressor_tags
        tags.input_tags.sparse = of_estimator.input_tags.sparse
        tags.input_tags.string = of_estimator.input_tags.string
        return tags
