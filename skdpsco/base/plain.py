"""Fitted linear models as pipelines of scikit-learn's own estimators."""

from copy import copy
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

__all__ = [
    "clipped_steps",
    "fitted_as",
    "plain_model",
    "plain_pipeline",
    "plain_step",
    "scaler_between",
]


def plain_pipeline(model: Any) -> Any:
    """A pipeline that predicts the same as the fitted linear ``model``; see its ``to_sklearn``."""
    low, high = model.feature_range_
    clipper = scaler_between(low, high)
    if hasattr(model, "feature_names_in_"):
        clipper.feature_names_in_ = model.feature_names_in_
    # The scaler moves the clipped features to [0, 1].
    intercept = model.intercept_ + model.coef_ @ low
    final = plain_model(model, model.coef_ * (high - low), intercept)
    return Pipeline([("clip", clipper), ("model", final)])


def plain_model(model: Any, coef: np.ndarray, intercept: Any) -> Any:
    """An estimator of scikit-learn that predicts as ``model`` does, with these coefficients."""
    known: dict[str, Any] = {"n_features_in_": coef.shape[-1]}
    if is_classifier(model):
        final = LogisticRegression() if hasattr(model, "predict_proba") else SGDClassifier()
        known.update(classes_=model.classes_, n_iter_=np.array([model.n_iter_], dtype=np.int32))
    elif hasattr(model, "target_range_"):
        regression = clipped_regression(coef, intercept, *model.target_range_)
        return fitted_as(MLPRegressor(activation="relu"), **regression, **known)
    else:
        final = LinearRegression()
    return fitted_as(final, coef_=coef, intercept_=intercept, **known)


def fitted_as(estimator: Any, **attributes: Any) -> Any:
    """An estimator with the attributes of a fit."""
    vars(estimator).update(attributes)
    return estimator


def scaler_between(low: np.ndarray, high: np.ndarray, onto: tuple[float, float] = (0, 1)) -> Any:
    """A `MinMaxScaler` that moves these intervals ``onto`` another one, and clips."""
    scaler = MinMaxScaler(onto, clip=True).fit(np.vstack([low, high]))
    # scikit-learn takes intervals of tiny numbers for constants.
    scale = (onto[1] - onto[0]) / (high - low)
    return fitted_as(scaler, scale_=scale, min_=onto[0] - low * scale)


def clipped_steps(low: Any, high: Any, mean: Any = 0.0, scale: Any = 1.0) -> list[tuple[str, Any]]:
    """Steps that clip columns, subtract means and divide by scales."""
    centre, half = (low + high) / 2.0, (high - low) / 2.0
    known = {"mean_": (mean - centre) / half, "scale_": scale / half, "n_features_in_": len(half)}
    moved = fitted_as(StandardScaler(), var_=known["scale_"] ** 2, **known)
    return [("clip", scaler_between(low, high, (-1, 1))), ("scale", moved)]


def plain_step(step: Any) -> Any:
    """A step of a pipeline without this package: itself, or what its ``to_sklearn`` returns.

    Raises
    ------
    TypeError
        If there is no such counterpart.
    """
    step = getattr(step, "best_estimator_", step)
    if hasattr(step, "to_sklearn"):
        return step.to_sklearn()
    if isinstance(step, Pipeline):
        return Pipeline([(name, plain_step(part)) for name, part in step.steps])
    if isinstance(step, ColumnTransformer):
        parts = [(name, plain_step(part), columns) for name, part, columns in step.transformers_]
        return fitted_as(copy(step), transformers=parts, transformers_=parts)
    if type(step).__module__.partition(".")[0] == __name__.partition(".")[0]:
        raise TypeError(
            f"{type(step).__name__} has no counterpart in scikit-learn with exactly the same "
            "results: similar ones do not clip features or predictions, for instance."
        )
    return step


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
