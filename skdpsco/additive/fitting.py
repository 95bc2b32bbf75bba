"""The fit of an additive model: that of a linear model whose features are functions of columns.

Proof: docs/proofs/additive.md.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from skdpsco.additive.densities import (
    Density,
    DensityPlan,
    Shares,
    found_ranges,
    plan_densities,
)
from skdpsco.additive.pairs import PairFunction, PairPlan, Products, plan_pairs
from skdpsco.additive.shapes import (
    ShapeFunction,
    Shapes,
    bases_of,
    n_functions_of,
    ratio_of,
    variances_of,
)
from skdpsco.additive.table import ColumnRecords, TableColumn
from skdpsco.base.fit_plans import mu_left
from skdpsco.base.labels import declared_classes
from skdpsco.base.linear_model import PrivateLinearModel
from skdpsco.data.block_records import BlockRecords
from skdpsco.data.design import Dense, read_only
from skdpsco.data.record_sums import BlockDesign
from skdpsco.linear_model.elastic_net import PrivateRidge
from skdpsco.linear_model.huber_regressor import PrivateHuberRegressor
from skdpsco.linear_model.log_link import PrivateGammaRegressor, PrivatePoissonRegressor
from skdpsco.linear_model.logistic_regression import PrivateLogisticRegression
from skdpsco.linear_model.quantile_regressor import PrivateQuantileRegressor
from skdpsco.privacy import Event, NoOpEvent, compose
from skdpsco.privacy.relations import ADD_OR_REMOVE
from skdpsco.scaling.conditioning import CONDITIONING, Conditioning, ConditioningPlan
from skdpsco.scaling.feature_bounds import BoundPlan, plan_bounds

__all__ = ["FITTED_BY", "Labels"]


class Table:
    """Values of records in memory, with the shape of the features that they become.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_columns)
    n_features : int
        Number of all functions of the columns.
    """

    dtype: np.dtype[Any] = np.dtype(np.float64)

    def __init__(self, values: np.ndarray, n_features: int) -> None:
        self.values = values
        self.shape: tuple[int, int] = (len(values), n_features)


class NumbersOf(NamedTuple):
    """Some columns of records, with 0 for what is missing."""

    places: np.ndarray

    def apply(self, X: Dense) -> Dense:
        """The records."""
        values = np.nan_to_num(X.values[:, self.places])
        return Dense(read_only(values), np.ones(len(self.places)), 0)


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
    """

    bounds: BoundPlan | None
    densities: DensityPlan
    pairs: PairPlan
    stage: ConditioningPlan
    ratio: float

    part: ClassVar[str] = "conditioning"
    name: ClassVar[str] = "densities of the columns"

    @property
    def event(self) -> Event:
        """What all counts cost."""
        found = NoOpEvent() if self.bounds is None else self.bounds.event
        return compose(found, self.densities.event, self.pairs.event)

    @property
    def extremes(self) -> tuple[Conditioning, ...]:
        """Features of the sizes that are expected before any count, for which steps are planned."""
        own = [variances_of(column, self.ratio) for column in self.densities.columns]
        products = [np.full(width, 1.0 / width) for width in self.pairs.widths]
        return (self.of_size(np.concatenate([*own, *products])),)

    def of_size(self, mean_square: np.ndarray, shapes: Any = None) -> Conditioning:
        """Features that are read as they are, with these mean squares."""
        d = self.stage.n_features
        return Conditioning(np.zeros(d), np.ones(d), mean_square, self.stage.single, shapes)

    def read_by(self, plan: Any, tiled: bool, widths: tuple[float, float]) -> "ShapePlan":
        """The stage for the layout that a solver's plan wants."""
        return replace(self, stage=replace(self.stage, tiled=tiled))

    def release(self, X: Any, y: Any, rng: np.random.Generator) -> Conditioning:
        """Release densities; the functions that follow are features with known mean squares."""
        ranges, bounds = self.released_ranges(X, y, rng)
        known = self.densities.release(X, y, ranges, bounds, rng)
        basis = bases_of(self.densities.columns, known, self.ratio)
        found = FoundShapes(basis, self.pairs.release(basis.parts, X, y, rng), tuple(known))
        return self.of_size(np.minimum(found.variances / found.largest**2, 1.0), found)

    def released_ranges(
        self, X: Any, y: Any, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Declared bounds of columns of numbers, and more than the released ones of the others.

        The released bounds come with them; they are infinite for declared ones.
        """
        columns = self.densities.columns
        numbers = [j for j, column in enumerate(columns) if not column.values]
        known = [columns[j].bounds for j in numbers]
        ranges = np.array([bounds or (-1.0, 1.0) for bounds in known], float).reshape(-1, 2)
        unknown = np.array([bounds is None for bounds in known], dtype=bool)
        released = np.full(len(numbers), math.inf)
        if self.bounds is not None:
            some = NumbersOf(np.array(numbers)[unknown])
            X = X._replace(conditioning=some) if isinstance(X, BlockDesign) else some.apply(X)
            found = found_ranges(self.bounds, X, y, self.ratio, rng)
            ranges[unknown], released[unknown] = found
        return ranges, released

    def apply(self, value: Conditioning, X: Any, y: Any) -> tuple[Any, Any]:
        """The features: functions of the records, in units of the largest of their values."""
        return self.stage.apply(value, X, y)

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
        of_columns = np.split(self.basis.variances, self.basis.starts[1:-1])
        kept = zip(of_columns, self.products.parts, strict=True)
        own = [variances[: part.values.shape[1]] for variances, part in kept]
        return np.append(self.basis.variances, self.products.variances(own))

    @property
    def bounds(self) -> np.ndarray:
        """A bound of all functions, for each of them."""
        return np.full(len(self.variances), self.largest)

    def features(self, values: np.ndarray) -> np.ndarray:
        """All functions of records, of which these are the values of `ColumnRecords`."""
        starts = self.basis.starts
        out = np.empty((len(values), starts[-1] + sum(self.products.widths)))
        self.basis.encode(values, out[:, : starts[-1]])
        self.products.encode(out, starts, out[:, starts[-1] :])
        return out


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
    _bounds_in: ClassVar[str] = "the ranges of columns in a schema"
    _planned_with: ClassVar[Any] = ()  # users do not know the parameters of what is fitted
    _wanted_pairs: Any = None  # of a draft: places of columns; None if they are chosen
    _without_pairs: tuple[int, ...] = ()  # of a draft: places of columns that are not chosen
    shapes_: tuple[ShapeFunction, ...]
    pairs_: tuple[tuple[tuple[int, int], PairFunction], ...]
    densities_: tuple[Density | Shares, ...]

    def fitted_for(self, owner: Any, records: ColumnRecords, y: Any, weights: Any) -> Any:
        """Fit this model to a table; ``owner`` pays, and gets what there is to say about the fit.

        Targets ``y`` are None if those of blocks are meant. Neither the owner's ledger and seed nor
        anything of the records stays in the model.
        """
        draft, (columns, values) = self._draft(), records
        draft._part_of, draft._sample_weight, draft._columns = owner, weights, columns
        n_samples = values.n_samples if y is None else len(y)
        targets = draft._targets(y)
        n_functions = n_functions_of(draft._ratio(n_samples, columns))
        n_features = sum(len(c.values) or n_functions + 2 for c in columns)
        n_features += sum(draft._pair_plan(n_samples, columns, draft._budget().mu).widths)
        if y is None:
            X: Any = BlockRecords(values, draft._encode_block, n_features, missing=True)
        else:
            X = Table(values, n_features)
        draft.coef_, draft.intercept_ = draft._learn(X, targets)
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

    def _targets(self, y: Any) -> Any:
        """Checked targets as the loss expects them; None for those of blocks."""
        return None if y is None else self._encode_block(y)

    def _ratio(self, n_samples: int, columns: tuple[TableColumn, ...]) -> float:
        added = self._relation == ADD_OR_REMOVE
        return ratio_of(n_samples, self._budget().mu, len(columns), added)

    def _pair_plan(self, n_samples: int, columns: tuple[TableColumn, ...], mu: float) -> PairPlan:
        """How pairs are chosen: not where sums are of records that may be added."""
        wanted = () if self._relation == ADD_OR_REMOVE else None
        wanted = wanted if self._wanted_pairs is None else self._wanted_pairs
        n_classes = len(getattr(self, "classes_", ()))
        targets = is_classifier(self) and self._weighs(), n_classes if n_classes > 2 else 1
        ratio, alone = self._ratio(n_samples, columns), self._without_pairs
        return plan_pairs(n_samples, columns, ratio, mu, wanted, *targets, alone=alone)

    def _conditions(self, task: Any, n_samples: int, mu: float) -> bool:
        return True

    def _feature_stage(self, task, n_samples, solver, stages, planned):
        columns, added = self._columns, self._relation == ADD_OR_REMOVE
        unknown = sum(not c.values and c.bounds is None for c in columns)

        def plan(spend: Any) -> ShapePlan:
            mu = mu_left(stages, spend)
            bounds = plan_bounds(n_samples, unknown, spend.rho, added) if unknown else None
            densities = plan_densities(n_samples, columns, mu, added)
            single = n_samples * mu < CONDITIONING.double_n_mu
            ratio = self._ratio(n_samples, columns)
            pairs = self._pair_plan(n_samples, columns, mu)
            layout = ConditioningPlan(NoOpEvent(), 0, task.X.shape[1], {}, 0.0, 0.0, single)
            return ShapePlan(bounds, densities, pairs, layout, ratio)

        return planned(plan)

    def _seeks_bounds(self) -> bool:
        return any(not column.values and column.bounds is None for column in self._columns)

    def _clipping_note(self, units: Any) -> str:
        return "numbers beyond the range of a column count as its nearer end"

    def _design(self, X: Any, bounds: np.ndarray, intercept: bool) -> Any:
        if not isinstance(X, Table):
            return super()._design(X, bounds, intercept)
        np.empty(X.shape)  # so that there is as much memory is found out before the charge
        return Dense(read_only(X.values), bounds, int(intercept))

    def _predictions(self, X: ColumnRecords) -> np.ndarray:
        columns = X.values.T
        parts = zip(self.shapes_, columns, strict=True)
        total = sum(shape.of(column) for shape, column in parts) + np.atleast_1d(self.intercept_)
        for (i, j), function in self.pairs_:
            total += function.of(columns[i], columns[j])
        return total if np.ndim(self.intercept_) else total[:, 0]


class Labels(SumOfShapes, PrivateLogisticRegression):
    """Log-odds of classes."""

    classes_: np.ndarray

    def _targets(self, y: Any) -> Any:
        self._allow_weights(y is not None)
        if y is not None:
            return self._encode(y)
        self.classes_ = declared_classes(self.classes)
        return None

    def _learn(self, X, y):
        loss = self._weighted_loss(self._class_loss(len(self.classes_)))
        coef, intercept = self._fit(X, y, loss, None, self._label_notes())
        return np.atleast_2d(coef), np.atleast_1d(intercept)


class Numbers(SumOfShapes):
    """Predictions of numbers."""

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


FITTED_BY: dict[str, Any] = {
    "squared": Means,
    "huber": RobustMeans,
    "quantile": Quantiles,
    "poisson": CountMeans,
    "gamma": PositiveMeans,
}
