"""Fitted linear models as pipelines of scikit-learn's own estimators."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler

__all__ = ["plain_pipeline"]


def plain_pipeline(model: Any) -> Pipeline:
    """A pipeline that predicts the same as the fitted linear ``model``; see its ``to_sklearn``."""
    names = {"n_features_in_": model.n_features_in_}
    if hasattr(model, "feature_names_in_"):
        names["feature_names_in_"] = model.feature_names_in_
    clipper = MinMaxScaler(clip=True).fit(model.feature_range_)
    vars(clipper).update(names)
    # The scaler moves the clipped features to [0, 1].
    intercept = model.intercept_ + model.coef_ @ clipper.data_min_
    fitted = {"coef_": model.coef_ * clipper.data_range_, "intercept_": intercept}
    if is_classifier(model):
        final = LogisticRegression() if hasattr(model, "predict_proba") else SGDClassifier()
        fitted.update(classes_=model.classes_, n_iter_=np.array([model.n_iter_], dtype=np.int32))
    elif hasattr(model, "target_range_"):
        final = MLPRegressor(activation="relu")
        fitted = clipped_regression(fitted["coef_"], intercept, *model.target_range_)
    else:
        final = LinearRegression()
    vars(final).update(fitted, n_features_in_=model.n_features_in_)
    return Pipeline([("clip", clipper), ("model", final)])


def clipped_regression(coef: Any, intercept: Any, low: Any, high: Any) -> dict[str, Any]:
    """Fitted attributes of an `MLPRegressor`, ``low + relu(z - low) - relu(z - high)`` of z."""
    W, b = np.atleast_2d(coef).T, np.atleast_1d(intercept)
    one = np.eye(len(b))
    return {
        "coefs_": [np.hstack([W, W]), np.vstack([one, -one])],
        "intercepts_": [np.append(b - low, b - high), np.atleast_1d(low)],
        "n_layers_": 3,
        "n_outputs_": len(b),
        "out_activation_": "identity",
    }
