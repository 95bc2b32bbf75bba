"""Additive models as JSON that a person can read and edit."""

import json
from typing import Any

import numpy as np

from skdpsco.additive.pairs import PairFunction
from skdpsco.additive.shapes import ShapeFunction
from skdpsco.additive.table import TableColumn
from skdpsco.data.schema import Schema

__all__ = ["model_as_json", "read_model"]

FORMAT = 1
ARRAYS = ("knots", "values", "missing", "zero")
OPTIONS = ("loss", "quantile")  # parameters that predictions depend on


def as_dict(shape: ShapeFunction) -> dict[str, Any]:
    """A function of one column, of types that JSON knows."""
    found: dict[str, Any] = {"column": shape.column.name}
    if shape.column.bounds is not None:
        found["bounds"] = list(shape.column.bounds)
    if shape.column.values:
        found["categories"] = list(shape.column.values)
    for name in ARRAYS:
        array = getattr(shape, name)
        if array is not None and not (name == "knots" and shape.column.values):
            found[name] = np.asarray(array).tolist()
    return found


def as_shape(found: dict[str, Any]) -> ShapeFunction:
    """The function that `as_dict` wrote."""
    bounds, values = found.get("bounds"), tuple(found.get("categories", ()))
    column = TableColumn(found["column"], None if bounds is None else (*bounds,), values)
    try:
        arrays = {name: np.array(found[name], float) for name in ARRAYS if name in found}
    except ValueError as error:
        wanted = f"column {column.name!r} must have numbers in rows of one length."
        raise ValueError(wanted) from error
    arrays.setdefault("knots", np.empty(0))
    shape = ShapeFunction(column, **arrays)
    n_places, n_outputs = len(values) or len(shape.knots), len(shape.missing)
    if shape.values.shape != (n_places, n_outputs) or (not values and n_places < 2):
        raise ValueError(f"column {column.name!r} must have one row of values for each knot.")
    if not (np.diff(shape.knots) > 0.0).all():
        raise ValueError(f"column {column.name!r} must have increasing knots.")
    return shape


def model_as_json(estimator: Any) -> str:
    """What `read_model` reads: all that predictions depend on, and the guarantee in words."""
    model, schema = estimator.model_, estimator.schema
    content = {
        "format": FORMAT,
        "model": type(estimator).__name__,
        "privacy": str(getattr(estimator, "privacy_", "that of the fit")),
        **{name: getattr(estimator, name) for name in OPTIONS if hasattr(estimator, name)},
        "schema": None if schema is None else schema.to_dict(),
        "intercept": np.asarray(model.intercept_).tolist(),
        "columns": [as_dict(shape) for shape in model.shapes_],
        "pairs": [
            {
                "places": list(places),
                "first": as_dict(function.first),
                "second": as_dict(function.second),
                "weights": function.weights.tolist(),
            }
            for places, function in model.pairs_
        ],
    }
    for name in ("classes_", "target_range_"):
        if hasattr(model, name):
            content[name] = getattr(model, name).tolist()
    return json.dumps(content, indent=1)


def read_model(kind: type, text: str) -> Any:
    """The fitted model of an estimator of this class, from what `model_as_json` wrote.

    Raises
    ------
    ValueError
        If it is not such a text, or was written for another class.
    """
    try:
        content = json.loads(text)
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError("text must be JSON as to_json writes it.") from error
    if not isinstance(content, dict) or content.get("model") != kind.__name__:
        raise ValueError(f"text must be what {kind.__name__}.to_json returned.")
    if content.get("format") != FORMAT:
        raise ValueError(f"text must have the format {FORMAT}.")
    schema = content["schema"]
    options = {name: content[name] for name in OPTIONS if name in content}
    estimator = kind(schema=None if schema is None else Schema.from_dict(schema), **options)
    model = estimator._linear_model()
    model.shapes_ = tuple(map(as_shape, content["columns"]))
    model.pairs_ = tuple(
        (
            tuple(pair["places"]),
            PairFunction(
                as_shape(pair["first"]), as_shape(pair["second"]), np.array(pair["weights"], float)
            ),
        )
        for pair in content["pairs"]
    )
    intercept = content["intercept"]
    model.intercept_ = np.array(intercept, float) if isinstance(intercept, list) else intercept
    for name in ("classes_", "target_range_"):
        if name in content:
            setattr(model, name, np.array(content[name]))
            if name == "classes_":
                estimator.classes_ = model.classes_
    estimator.model_, estimator.intercept_ = model, model.intercept_
    estimator.n_features_in_ = len(model.shapes_)
    names = np.array([shape.column.name for shape in model.shapes_], dtype=object)
    if schema is not None:
        estimator.feature_names_in_ = names
    return estimator
