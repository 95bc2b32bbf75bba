"""Additive models as JSON that a person can read and edit."""

import json
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from skdpsco.additive.densities import Density, Shares
from skdpsco.additive.pairs import PairFunction
from skdpsco.additive.shapes import ShapeFunction
from skdpsco.additive.table import TableColumn
from skdpsco.base.json_text import Content, content_of
from skdpsco.data.schema import Schema

__all__ = ["model_as_json", "read_model"]

FORMAT = 1
OPTIONS = ("loss", "quantile")  # parameters that predictions depend on


def as_dict(shape: ShapeFunction) -> dict[str, Any]:
    """A function of one column, of types that JSON knows."""
    found: dict[str, Any] = {"column": shape.column.name}
    if shape.column.bounds is not None:
        found["bounds"] = list(shape.column.bounds)
    if shape.column.dates:
        found["dates"] = True  # numbers are days
    if shape.column.values:
        found["categories"] = list(shape.column.values)
        found |= {"missing declared": True} if shape.column.missing else {}
    else:
        found["knots"] = shape.knots.tolist()
    found |= {"values": shape.values.tolist(), "missing": shape.missing.tolist()}
    return found if shape.zero is None else {**found, "zero": shape.zero.tolist()}


def as_shape(found: Content) -> ShapeFunction:
    """The function that `as_dict` wrote."""
    bounds, values = found.get("bounds"), tuple(found.get("categories", ()))
    bounds = None if bounds is None else (*bounds,)
    flags = [bool(found.get(key, False)) for key in ("dates", "missing declared")]
    column = TableColumn(found["column"], bounds, values, *flags)
    names = ["values", "missing"] + ["knots"] * (not values) + ["zero"] * ("zero" in found)
    arrays = {name: numbers_in(f"column {column.name!r}", found[name]) for name in names}
    shape = ShapeFunction(column, **{"knots": np.empty(0), **arrays})
    n_places, n_outputs = len(values) or len(shape.knots), len(shape.missing)
    if shape.values.shape != (n_places, n_outputs) or (not values and n_places < 2):
        raise ValueError(f"column {column.name!r} must have one row of values for each knot.")
    if not (np.diff(shape.knots) > 0.0).all():
        raise ValueError(f"column {column.name!r} must have increasing knots.")
    return shape


def as_pair(found: Content) -> tuple[tuple[int, ...], PairFunction]:
    """A function of two columns, and their places."""
    first, second = as_shape(found["first"]), as_shape(found["second"])
    weights = numbers_in("pairs", found["weights"])
    if weights.shape[:-1] != (first.values.shape[1], second.values.shape[1]):
        raise ValueError("pairs must have a weight for each product of their functions.")
    return tuple(found["places"]), PairFunction(first, second, weights)


def numbers_in(name: str, numbers: Any) -> np.ndarray:
    """An array of numbers.

    Raises
    ------
    ValueError
        If there are others than numbers, or rows differ in length.
    """
    try:
        return np.array(numbers, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must have numbers in rows of one length.") from error


def as_density(column: TableColumn, found: Content) -> Density | Shares:
    """Where the records of a column lie."""
    name = f"densities of {column.name!r}"
    if column.values:
        return Shares(numbers_in(name, found["values"]), float(found["missing"]))
    edges, weights = (numbers_in(name, found[key]) for key in ("edges", "weights"))
    return Density(edges, weights, float(found["zero"]), float(found["missing"]))


def model_as_json(estimator: Any) -> str:
    """What `read_model` reads: all that predictions depend on, and the guarantee in words."""
    model, schema = estimator.model_, estimator.schema
    names = getattr(estimator, "feature_names_in_", None)
    content = {
        "format": FORMAT,
        "model": type(estimator).__name__,
        "privacy": str(getattr(estimator, "privacy_", "that of the fit")),
        **{name: getattr(estimator, name) for name in OPTIONS if hasattr(estimator, name)},
        "schema": None if schema is None else schema.to_dict(),
        "feature_names": None if names is None else names.tolist(),
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
    name = fitted_name(estimator)
    content[name] = getattr(model, name).tolist()
    content["densities"] = {
        name: {key: np.asarray(part).tolist() for key, part in known._asdict().items()}
        for name, known in estimator.densities_.items()
    }
    return json.dumps(content, indent=1)


def read_model(kind: type, text: str) -> Any:
    """The fitted model of an estimator of this class, from what `model_as_json` wrote.

    Raises
    ------
    ValueError
        If it is not such a text, lacks a key, or was written for another class.
    """
    content = content_of(text, "to_json")
    if content.get("model") != kind.__name__:
        raise ValueError(f"text must be what {kind.__name__}.to_json returned.")
    if content.get("format") != FORMAT:
        raise ValueError(f"text must have the format {FORMAT}.")
    schema = content["schema"]
    options = {name: content[name] for name in OPTIONS if hasattr(kind(), name)}
    estimator = kind(schema=None if schema is None else Schema.from_dict(schema), **options)
    model = estimator._linear_model()
    model.shapes_ = tuple(map(as_shape, content["columns"]))
    columns, known = [shape.column for shape in model.shapes_], content["densities"]
    model.densities_ = tuple(as_density(column, known[column.name]) for column in columns)
    model.pairs_ = tuple(map(as_pair, content["pairs"]))
    intercept = content["intercept"]
    model.intercept_ = np.array(intercept, float) if isinstance(intercept, list) else intercept
    name = fitted_name(estimator)
    setattr(model, name, np.array(content[name]))
    if name == "classes_":
        estimator.classes_ = model.classes_
    estimator.model_, estimator.intercept_ = model, model.intercept_
    estimator.n_features_in_ = len(columns)
    if content["feature_names"] is not None:
        estimator.feature_names_in_ = np.array(content["feature_names"], dtype=object)
    return estimator


def fitted_name(estimator: Any) -> str:
    """The attribute that predictions depend on, besides functions."""
    return "classes_" if is_classifier(estimator) else "target_range_"
