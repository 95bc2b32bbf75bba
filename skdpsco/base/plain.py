"""Fitted linear models as pipelines of scikit-learn's own estimators."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
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
    else:
        final = LinearRegression()
    vars(final).update(fitted, n_features_in_=model.n_features_in_)
    return Pipeline([("clip", clipper), ("model", final)])
