"""The fit of an additive model: that of a linear model whose features are functions of columns.

Proof: docs/proofs/additive.md.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco.additive.densities import (
    Density,
    DensityPlan,
    Shares,
    found_ranges,
    plan_densities,
)
from skdpsco.additive.pairs import PairFunction, PairPlan, Products, plan_pairs
from skdpsco.additive.shapes import (
    SHAPES,
    ShapeFunction,
    Shapes,
    bases_of,
    by_column,
    n_functions_of,
)
from skdpsco.additive.table import ColumnRecords, TableColumn
from skdpsco.base.fit_plans import mu_left
from skdpsco.base.linear_model import PrivateLinearModel
from skdpsco.data.design import Dense, read_only
from skdpsco.linear_model.elastic_net import PrivateRidge
from skdpsco.linear_model.huber_regressor import PrivateHuberRegressor
from skdpsco.linear_model.log_link import PrivateGammaRegressor, PrivatePoissonRegressor
from skdpsco.linear_model.logistic_regression import PrivateLogisticRegression
from skdpsco.linear_model.quantile_regressor import PrivateQuantileRegressor
from skdpsco.losses.library import without_weights
from skdpsco.privacy import Event, NoOpEvent, compose
from skdpsco.privacy.relations import ADD_OR_REMOVE
from skdpsco.scaling.conditioning import CONDITIONING, Conditioning, ConditioningPlan
from skdpsco.scaling.feature_bounds import FEATURE_BOUNDS, BoundPlan, plan_bounds

__all__ = ["FITTED_BY", "Labels"]


UNKNOWN_RANGES = (
    "Columns of numbers without a declared range are clipped to [-1, 1]: there are too few records "
    "to find ranges privately. Declare them in a schema."
)
USUAL_RATIO = SHAPES.rough_ratio


class Table:
    """Records of a table, with the shape of the features that they become.

    Parameters
    ----------
    records : ColumnRecords
    n_features : int
        Number of all functions of the columns.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, records: ColumnRecords, n_features: int) -> None:
        self.records = records
        self.shape = len(records.codes), n_features


class TableDesign(NamedTuple):
    """Records of a table, and the room that their features will need."""

    records: ColumnRecords
    intercept: int
    features: np.ndarray


@dataclass(frozen=True)
class ShapePlan:
    """A stage: densities of all columns, from which the features and their centre follow.

    Parameters
    ----------
    bounds : BoundPlan or None
        How bounds of columns of numbers are found, if some are not declared.
    densities : DensityPlan
    pairs : PairPlan
    stage : ConditioningPlan
        It lays out features as the solver reads them.
    ratio : float
        The n mu of the fit over the root of the number of columns.
    weighted : bool
        Whether targets hold weights.
    """

    bounds: BoundPlan | None
    densities: DensityPlan
    pairs: PairPlan
    stage: ConditioningPlan
    ratio: float
    weighted: bool

    part: ClassVar[str] = "conditioning"
    name: ClassVar[str] = "densities of the columns"

    @property
    def event(self) -> Event:
        """What all counts cost."""
        found = NoOpEvent() if self.bounds is None else self.bounds.event
        return compose(found, self.densities.event, self.pairs.event)

    @property
    def extremes(self) -> tuple[Conditioning, ...]:
        """Features of the same sizes, as plans do not depend on them."""
        return (self.of_size(np.ones(self.stage.n_features)),)

    def of_size(self, mean_square: np.ndarray, shapes: Any = None) -> Conditioning:
        """Features that are read as they are, with these mean squares."""
        d = self.stage.n_features
        return Conditioning(np.zeros(d), np.ones(d), mean_square, self.stage.single, shapes)

    def read_by(self, plan: Any, tiled: bool, widths: tuple[float, float]) -> "ShapePlan":
        """The stage for the layout that a solver's plan wants."""
        return replace(self, stage=replace(self.stage, tiled=tiled))

    def release(self, X: TableDesign, y: Any, rng: np.random.Generator) -> Conditioning:
        """Release densities; the functions that follow are features with known mean squares."""
        ranges, reach = self.released_ranges(X.records, rng)
        columns = X.records.columns
        known = self.densities.release(X.records, ranges, reach, rng)
        basis = bases_of(columns, known, self.ratio)
        y = without_weights(y) if self.weighted else y
        products = self.pairs.release(basis.parts, by_column(X.records), y, rng)
        found = FoundShapes(basis, products, tuple(known))
        return self.of_size(np.minimum(found.variances / found.largest**2, 1.0), found)

    def released_ranges(
        self, records: ColumnRecords, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Declared bounds of columns of numbers, and more than the released ones of the others.

        How much more comes with them: it is 1 for declared ones.
        """
        numbers = [column for column in records.columns if not column.values]
        ranges = np.array([c.bounds or (-1.0, 1.0) for c in numbers], float).reshape(-1, 2)
        unknown = np.array([c.bounds is None for c in numbers], dtype=bool)
        reach = np.ones(len(numbers))
        if self.bounds is not None:
            values = np.nan_to_num(records.numbers[:, unknown])
            design = Dense(read_only(values), np.ones(values.shape[1]), 0)
            found = found_ranges(self.bounds, design, self.ratio, rng)
            ranges[unknown], reach[unknown] = found
        return ranges, reach

    def apply(self, value: Conditioning, X: TableDesign, y: Any) -> tuple[Any, Any]:
        """The features of the records, in units of the largest value of any function."""
        value.shapes.encode(X.records, X.features)
        design = Dense(read_only(X.features), np.ones(self.stage.n_features), X.intercept)
        return self.stage.apply(value, design, y)

    def note(self, value: Conditioning) -> str:
        """What was decided, for the report."""
        columns, pairs = self.densities.columns, value.shapes.products.pairs
        names = ", ".join(f"{columns[i].name} x {columns[j].name}" for i, j in pairs)
        said = f"{self.stage.n_features} functions of {len(columns)} columns"
        return f"{said}, and pairs {names}" if pairs else said


class FoundShapes(NamedTuple):
    """Functions of columns and of pairs, and the densities of the columns that they follow from."""

    basis: Shapes
    products: Products
    densities: tuple[Density | Shares, ...]

    @property
    def largest(self) -> float:
        """The largest magnitude of any function; 1 if all of them are 0."""
        return max(self.basis.largest, self.products.largest) or 1.0

    @property
    def variances(self) -> np.ndarray:
        """Variances of all functions."""
        ends = np.cumsum([part.values.shape[1] for part in self.basis.parts])
        of_columns = np.split(self.basis.variances, ends[:-1])
        kept = zip(of_columns, self.products.parts, strict=True)
        own = [variances[: part.values.shape[1]] for variances, part in kept]
        return np.append(self.basis.variances, self.products.variances(own))

    def encode(self, records: ColumnRecords, out: np.ndarray) -> None:
        """Write the values of all functions, over the largest."""
        n_functions = len(self.basis.variances)
        self.basis.encode(records, out[:, :n_functions])
        self.products.encode(by_column(records), out[:, n_functions:])
        out /= self.largest


class SumOfShapes(PrivateLinearModel):
    """Mixin: a linear model of functions of the columns of a `Table`.

    Attributes
    ----------
    shapes_ : tuple of ShapeFunction
        What every column adds to a prediction.
    pairs_ : tuple of ((int, int), PairFunction)
        What pairs of columns add, with their places.
    densities_ : tuple of Density or Shares
    """

    _columns: tuple[TableColumn, ...]  # of a draft
    _planned_with: ClassVar[Any] = ()  # users do not know the parameters of what is fitted
    _wanted_pairs: Any = None  # of a draft: places of columns; None if they are chosen
    shapes_: tuple[ShapeFunction, ...]
    pairs_: tuple[tuple[tuple[int, int], PairFunction], ...]
    densities_: tuple[Density | Shares, ...]

    def fitted_for(self, owner: Any, records: ColumnRecords, y: np.ndarray, weights: Any) -> Any:
        """Fit this model to a table; ``owner`` pays, and gets what there is to say about the fit.

        Neither the owner's ledger and seed nor anything of the records stays in the model.
        """
        draft = self._draft()
        draft._part_of, draft._sample_weight, draft._columns = owner, weights, records.columns
        targets, columns = draft._targets(y), records.columns
        n_functions = n_functions_of(draft._ratio(len(y), columns))
        n_features = sum(len(c.values) or n_functions + 2 for c in columns)
        n_features += sum(draft._pair_plan(len(y), columns, draft._budget().mu).widths)
        draft.coef_, draft.intercept_ = draft._learn(Table(records, n_features), targets)
        found: FoundShapes = draft._units.conditioning.shapes
        coef = np.atleast_2d(draft.coef_) / found.largest
        own, of_pairs = np.split(coef, [len(found.basis.variances)], axis=1)
        draft.shapes_, draft.densities_ = found.basis.combined(own), found.densities
        together = found.products.combined(of_pairs)
        draft.pairs_ = tuple(zip(found.products.pairs, together, strict=True))
        owner._doubts, draft._doubts = draft._doubts, ()
        owner.privacy_, owner._n_fits = draft.privacy_, draft._n_fits
        self._accept(draft)
        return self.set_params(ledger=None, random_state=None)

    def _targets(self, y: np.ndarray) -> np.ndarray:
        """Checked targets as the loss expects them."""
        raise NotImplementedError

    def _ratio(self, n_samples: int, columns: tuple[TableColumn, ...]) -> float:
        """The n mu of the fit over the root of the number of columns.

        Where the number of records is private, it is a usual one.
        """
        if self._relation == ADD_OR_REMOVE:
            return USUAL_RATIO
        return n_samples * self._budget().mu / math.sqrt(max(len(columns), 1))

    def _pair_plan(self, n_samples: int, columns: tuple[TableColumn, ...], mu: float) -> PairPlan:
        """How pairs are chosen: not where sums are of records that may be added, or of labels."""
        wanted, several = self._wanted_pairs, len(getattr(self, "classes_", ())) > 2
        if wanted is None and (several or self._relation == ADD_OR_REMOVE):
            wanted = ()
        return plan_pairs(n_samples, columns, self._ratio(n_samples, columns), mu, wanted)

    def _conditions(self, task: Any, n_samples: int, mu: float) -> bool:
        return True

    def _feature_stage(self, task, n_samples, solver, stages, planned):
        columns, added = task.X.records.columns, self._relation == ADD_OR_REMOVE
        unknown = sum(not c.values and c.bounds is None for c in columns)

        def plan(spend: Any) -> ShapePlan:
            mu = mu_left(stages, spend)
            bounds = plan_bounds(n_samples, unknown, spend.rho, added) if unknown else None
            densities = plan_densities(n_samples, columns, mu, added)
            single = n_samples * mu < CONDITIONING.double_n_mu
            ratio = self._ratio(n_samples, columns)
            pairs = self._pair_plan(n_samples, columns, mu)
            weighted = not task.regression and self._weighs()
            layout = ConditioningPlan(NoOpEvent(), 0, task.X.shape[1], {}, 0.0, 0.0, single)
            return ShapePlan(bounds, densities, pairs, layout, ratio, weighted)

        return planned(plan)

    def _advice(self, problem: Any, mu: float) -> tuple[str, ...]:
        columns, n_mu = self._columns, problem.n_samples * mu
        unknown = any(not column.values and column.bounds is None for column in columns)
        few = unknown and n_mu < FEATURE_BOUNDS.least_n_mu
        return (*super()._advice(problem, mu), *((UNKNOWN_RANGES,) if few else ()))

    def _clipping_note(self, units: Any) -> str:
        return "numbers beyond the outer knots of a column count as these"

    def _design(self, X: Any, bounds: np.ndarray, intercept: bool) -> TableDesign:
        room = np.empty(X.shape)  # before the charge, as there may not be so much memory
        return TableDesign(X.records, int(intercept), room)

    def _predictions(self, X: ColumnRecords) -> np.ndarray:
        columns = by_column(X)
        parts = zip(self.shapes_, columns, strict=True)
        total = sum(shape.of(column) for shape, column in parts) + np.atleast_1d(self.intercept_)
        for (i, j), function in self.pairs_:
            total += function.of(columns[i], columns[j])
        return total if np.ndim(self.intercept_) else total[:, 0]


class Labels(SumOfShapes, PrivateLogisticRegression):
    """Log-odds of classes."""

    def _targets(self, y: np.ndarray) -> np.ndarray:
        return self._encode(y)

    def _learn(self, X, y):
        loss = self._weighted_loss(self._class_loss(len(self.classes_)))
        coef, intercept = self._fit(X, y, loss, None, self._label_notes())
        return np.atleast_2d(coef), np.atleast_1d(intercept)


class Numbers(SumOfShapes):
    """Predictions of numbers."""

    def _targets(self, y: np.ndarray) -> np.ndarray:
        return self._encode_block(y)

    def _learn(self, X, y):
        return self._fit(X, y, self._loss(*X.shape), self.target_bound, (), regression=True)


class Means(Numbers, PrivateRidge):
    """Means, by squared errors."""


class RobustMeans(Numbers, PrivateHuberRegressor):
    """Centres, by the Huber loss."""


class Quantiles(Numbers, PrivateQuantileRegressor):
    """Quantiles."""


class CountMeans(Numbers, PrivatePoissonRegressor):
    """Logarithms of means of counts."""


class PositiveMeans(Numbers, PrivateGammaRegressor):
    """Logarithms of means of positive numbers."""


FITTED_BY = {
    "squared": Means,
    "huber": RobustMeans,
    "quantile": Quantiles,
    "poisson": CountMeans,
    "gamma": PositiveMeans,
}
