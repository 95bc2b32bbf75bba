"""Additive models as pipelines of scikit-learn's own estimators."""

from itertools import combinations
from typing import Any

import numpy as np
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import PolynomialFeatures

from skdpsco.additive.pairs import PairFunction
from skdpsco.additive.shapes import ShapeFunction
from skdpsco.base.column_functions import (
    ColumnFunction,
    RampFeatures,
    linear_map,
    numbers_among,
    refuse_dates,
)
from skdpsco.base.plain import plain_model, scaler_between

__all__ = ["pipeline_of"]


def pipeline_of(estimator: Any) -> Any:
    """A pipeline that predicts the same as a fitted additive model; see its ``to_sklearn``."""
    model, schema = estimator.model_, estimator.schema
    refuse_dates([shape.column for shape in model.shapes_])

    def plain(shape: ShapeFunction) -> ColumnFunction:
        known = None if schema is None else schema.columns.get(shape.column.name)
        return plain_function(shape, () if known is None else known.codes)

    own = [plain(shape) for shape in model.shapes_]
    pairs = [(*places, plain(f.first), plain(f.second), f) for places, f in model.pairs_]
    functions = [[one] for one in own]
    for i, j, first, second, _ in pairs:
        functions[i].append(first)
        functions[j].append(second)
    features = RampFeatures(functions)
    steps = features.steps(getattr(estimator, "feature_names_in_", None))
    parts = [features.coefficients(j, one) for j, one in enumerate(own)]
    coef: Any = sum(rows for rows, _ in parts)
    intercept = np.atleast_1d(model.intercept_) + sum(constant for _, constant in parts)
    if pairs:
        found = [
            products_of(f, features.coefficients(i, first), features.coefficients(j, second))
            for i, j, first, second, f in pairs
        ]
        union = [(f"pair {k}", step) for k, (step, _, _) in enumerate(found)]
        # It changes nothing; converters to ONNX do not know "passthrough" here.
        same = scaler_between(np.zeros(len(coef)), np.ones(len(coef)))
        steps.append(("pairs", FeatureUnion([("ramps", same), *union])))
        coef = np.vstack([coef, *(rows for _, rows, _ in found)])
        intercept = intercept + sum(constant for _, _, constant in found)
    if np.ndim(model.intercept_) == 0:
        coef, intercept = coef[:, 0], intercept[0]
    steps.append(("model", plain_model(model, coef.T, intercept)))
    return Pipeline(steps)


def plain_function(shape: ShapeFunction, codes: tuple[Any, ...]) -> ColumnFunction:
    """The function of a column with these codes of what is missing."""
    values, lost = shape.column.values, dict.fromkeys(numbers_among(codes), shape.missing)
    if not values:
        found = ColumnFunction(shape.knots, shape.values, shape.missing, lost)
        if shape.zero is None:
            return found
        bounds = shape.column.bounds
        if bounds is not None and 0.0 in bounds:  # numbers beyond it are clipped to 0
            return found.from_zero(1 if bounds[0] == 0.0 else -1, shape.zero)
        return found._replace(points={0.0: shape.zero, **lost})
    if isinstance(values[0], str):
        return ColumnFunction.of_words(values, shape.values, shape.missing)
    points = dict(zip(map(float, values), shape.values, strict=True))
    return ColumnFunction.at_points(points, shape.missing, shape.missing)


RampPart = tuple[np.ndarray, np.ndarray]  # coefficients of ramps, and what is added to them


def products_of(
    pair: PairFunction, one: RampPart, other: RampPart
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Steps that make products of all functions of a pair, their coefficients, and a constant."""
    (rows, c), (more, d), w, n = one, other, pair.weights, len(one[1])
    # The functions are linear in the ramps, with constants c and d: (u + c)'w(v + d).
    products = PolynomialFeatures(2, interaction_only=True, include_bias=False)
    products.fit(np.zeros((1, n + len(d))))
    pairs = combinations(range(n + len(d)), 2)
    bilinear = [w[i, j - n] if i < n <= j else 0.0 * w[0, 0] for i, j in pairs]
    linear = np.einsum("ijk,j->ik", w, d), np.einsum("ijk,i->jk", w, c)
    steps = [("functions", linear_map(np.hstack([rows, more]).T)), ("products", products)]
    return Pipeline(steps), np.vstack([*linear, *bilinear]), np.einsum("i,ijk,j->k", c, w, d)
