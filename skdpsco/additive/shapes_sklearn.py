"""Additive models as pipelines of scikit-learn's own estimators.

A function that is linear between knots is a sum of ramps, which rise from 0 to 1 between two
neighbouring knots: a `MinMaxScaler` that clips computes them. What is missing becomes a number
beyond all others. The step of a function at 0 is the difference of two steep ramps, so that numbers
that are tiny beside all knots count as 0, too.
"""

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures

from skdpsco.additive.pairs import PairFunction
from skdpsco.additive.shapes import ShapeFunction
from skdpsco.additive.table import TableColumn
from skdpsco.base.plain import fitted_as, plain_model, scaler_between

__all__ = ["pipeline_of"]

STEEPEST_RAMP = 1e-20  # width of a ramp at 0, over the largest knot
MISSING_AT = 2.0  # the place of what is missing, where numbers are in [-1, 1]
NUMBER_RAMPS, ZERO_RAMPS, VALUE_RAMPS = "numbers", "zero", "categories"


class Ramps(NamedTuple):
    """The ramps of a column: those of its numbers, those around 0, or one for each category.

    Parameters
    ----------
    column : int
    kind : {"numbers", "zero", "categories"}
    knots : ndarray of shape (n_ramps + 1,)
        Where ramps begin and end, in units of the column.
    n_inputs : int
        Number of values that are read; more than 1 for categories, each of which has one ramp.
    """

    column: int
    kind: str
    knots: np.ndarray
    n_inputs: int = 1

    @property
    def size(self) -> float:
        """The number that becomes 1. Nothing is shifted, so that numbers near 0 stay exact."""
        return float(np.abs(self.knots).max())

    @property
    def ends(self) -> np.ndarray:
        """Where the ramps of one input begin and end, in units of ``size``: shape (n_ramps, 2)."""
        found = np.column_stack([self.knots[:-1], self.knots[1:]]) / self.size
        return np.vstack([found, [1.0, MISSING_AT]]) if self.kind == NUMBER_RAMPS else found

    def coefficients(self, shape: ShapeFunction) -> np.ndarray:
        """Coefficients of these ramps for a function of the column."""
        if self.kind == VALUE_RAMPS:
            return shape.values - shape.missing
        smooth = shape._replace(zero=None)
        if self.kind == NUMBER_RAMPS:
            return np.diff(np.vstack([smooth.of(self.knots), shape.missing]), axis=0)
        step = 0.0 if shape.zero is None else shape.zero - smooth.of(np.zeros(1))
        return np.array([[1.0], [-1.0]]) * step

    def constant(self, shape: ShapeFunction) -> Any:
        """What is added to these ramps."""
        if self.kind == VALUE_RAMPS:
            return shape.missing
        return shape._replace(zero=None).of(self.knots[:1])[0] if self.kind == NUMBER_RAMPS else 0.0


class RampFeatures:
    """The ramps of all columns: numbers first, then 0, then categories.

    Parameters
    ----------
    functions : sequence of lists of ShapeFunction
        All functions of every column.
    """

    def __init__(self, functions: Sequence[Sequence[ShapeFunction]]) -> None:
        values = [some[0].column.values for some in functions]
        numbers = [j for j in range(len(values)) if not values[j]]
        self.blocks: list[Ramps] = [
            Ramps(j, NUMBER_RAMPS, np.unique(np.concatenate([one.knots for one in functions[j]])))
            for j in numbers
        ]
        for block in self.blocks[:]:
            if any(one.zero is not None for one in functions[block.column]):
                around = STEEPEST_RAMP * block.size * np.arange(-1.0, 2.0)
                self.blocks.append(Ramps(block.column, ZERO_RAMPS, around))
        for j, some in enumerate(values):
            if some:
                self.blocks.append(Ramps(j, VALUE_RAMPS, np.arange(2.0), len(some)))
        n_ramps = [block.n_inputs * len(block.ends) for block in self.blocks]
        self.starts = np.cumsum([0, *n_ramps])

    def columns(self, kind: str) -> list[int]:
        """The columns of all ramps of a kind."""
        return [block.column for block in self.blocks if block.kind == kind]

    def coefficients(self, column: int, shape: ShapeFunction) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of all ramps for a function of one column, and what is added to them."""
        n_outputs = len(shape.missing)
        out, constant = np.zeros((self.starts[-1], n_outputs)), np.zeros(n_outputs)
        for block, (start, stop) in zip(self.blocks, pairwise(self.starts), strict=True):
            if block.column == column:
                out[start:stop] = block.coefficients(shape)
                constant = constant + block.constant(shape)
        return out, constant

    def steps(self) -> list[tuple[str, Any]]:
        """Steps of a pipeline that computes the ramps, from all inputs."""
        inputs = [block for block in self.blocks for _ in range(block.n_inputs)]
        sizes = np.array([block.size for block in inputs])
        copies = np.repeat(np.eye(len(inputs)), [len(block.ends) for block in inputs], axis=0)
        begin, end = np.concatenate([block.ends for block in inputs]).T
        missing = SimpleImputer(strategy="constant", fill_value=MISSING_AT).fit(sizes[None, :])
        return [
            ("clip", scaler_between(-sizes, sizes, (-1, 1))),
            ("missing", missing),
            ("copies", linear_map(copies)),
            ("ramps", scaler_between(begin, end)),
        ]


def linear_map(rows: np.ndarray) -> Any:
    """A transformer that multiplies records by these rows."""
    return fitted_as(TruncatedSVD(len(rows)), components_=rows, n_features_in_=rows.shape[1])


def pipeline_of(estimator: Any) -> Any:
    """A pipeline that predicts the same as a fitted additive model; see its ``to_sklearn``."""
    model, shapes = (
        estimator.model_,
        [without_booleans(shape) for shape in estimator.model_.shapes_],
    )
    pairs = [
        (
            places,
            PairFunction(without_booleans(pair.first), without_booleans(pair.second), pair.weights),
        )
        for places, pair in model.pairs_
    ]
    functions = [[shape] for shape in shapes]
    for (i, j), pair in pairs:
        functions[i].append(pair.first)
        functions[j].append(pair.second)
    features = RampFeatures(functions)
    steps = features.steps()
    own = [features.coefficients(j, shape) for j, shape in enumerate(shapes)]
    coef: Any = sum(rows for rows, _ in own)
    intercept = np.atleast_1d(model.intercept_) + sum(constant for _, constant in own)
    if pairs:
        found = [products_of(pair, places, features) for places, pair in pairs]
        union = [(f"pair {k}", step) for k, (step, _, _) in enumerate(found)]
        # It changes nothing; converters to ONNX do not know "passthrough" here.
        same = scaler_between(np.zeros(len(coef)), np.ones(len(coef)))
        steps.append(("pairs", FeatureUnion([("ramps", same), *union])))
        coef = np.vstack([coef, *(rows for _, rows, _ in found)])
        intercept = intercept + sum(constant for _, _, constant in found)
    if np.ndim(model.intercept_) == 0:
        coef, intercept = coef[:, 0], intercept[0]
    steps.append(("model", plain_model(model, coef.T, intercept)))
    names = getattr(estimator, "feature_names_in_", None)
    if len(features.blocks) > len(functions) or features.columns(VALUE_RAMPS):
        steps.insert(0, ("columns", columns_read(features, shapes, names)))
    elif names is not None:
        steps[0][1].feature_names_in_ = names
    return Pipeline(steps)


def without_booleans(shape: ShapeFunction) -> ShapeFunction:
    """The same function, of the numbers 0 and 1 if it is one of False and True."""
    values = shape.column.values
    if not values or not all(isinstance(value, bool) for value in values):
        return shape
    return shape._replace(column=TableColumn(shape.column.name), knots=np.arange(2.0))


def columns_read(features: RampFeatures, shapes: Sequence[ShapeFunction], names: Any) -> Any:
    """A transformer that puts columns into the order of the ramps, with categories as indicators.

    It is fitted to an invented record.
    """
    record = np.array([(s.column.values or s.knots)[0] for s in shapes], dtype=object)[None, :]
    parts: list[Any] = [(k, "passthrough", features.columns(k)) for k in (NUMBER_RAMPS, ZERO_RAMPS)]
    known = [np.array(shapes[j].column.values) for j in features.columns(VALUE_RAMPS)]
    encoder = OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False)
    parts.append((VALUE_RAMPS, encoder, features.columns(VALUE_RAMPS)))
    if names is None:
        return ColumnTransformer(parts).fit(record.astype(float))
    import pandas as pd

    parts = [(kind, step, [names[j] for j in places]) for kind, step, places in parts]
    return ColumnTransformer(parts).fit(pd.DataFrame(record, columns=names).infer_objects())


def products_of(
    pair: PairFunction, places: tuple[int, int], features: RampFeatures
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Steps that make products of all functions of a pair, their coefficients, and a constant."""
    (rows, c), (more, d) = map(features.coefficients, places, (pair.first, pair.second))
    n, w = len(c), pair.weights
    # The functions are linear in the ramps, with constants c and d: (u + c)'w(v + d).
    products = PolynomialFeatures(2, interaction_only=True, include_bias=False)
    products.fit(np.zeros((1, n + len(d))))
    pairs = combinations(range(n + len(d)), 2)
    bilinear = [w[i, j - n] if i < n <= j else 0.0 * w[0, 0] for i, j in pairs]
    linear = np.einsum("ijk,j->ik", w, d), np.einsum("ijk,i->jk", w, c)
    steps = [("functions", linear_map(np.hstack([rows, more]).T)), ("products", products)]
    return Pipeline(steps), np.vstack([*linear, *bilinear]), np.einsum("i,ijk,j->k", c, w, d)
