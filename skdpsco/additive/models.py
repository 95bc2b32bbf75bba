"""Private additive models: sums of functions of single columns."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from skdpsco._quiet import quietly
from skdpsco._typing import LedgerLike, MatrixLike, Seed, Self, TargetLike
from skdpsco._validation import (
    CLASSES_CONSTRAINTS,
    COMMON_CONSTRAINTS,
    PRIVATE_CONSTRAINTS,
    TARGET_CONSTRAINTS,
    WEIGHTS_CONSTRAINTS,
    Interval,
    Real,
    StrOptions,
    check_bound,
    check_fit_params,
    declared,
    refuse_masked,
)
from skdpsco.additive.fitting import FITTED_BY, Labels
from skdpsco.additive.shapes import ShapeFunction, by_column
from skdpsco.additive.table import ColumnRecords, read_columns
from skdpsco.base.private_estimator import PrivateEstimator
from skdpsco.data.schema import Schema
from skdpsco.privacy._checks import abridged
from skdpsco.solvers import GradientDescent

__all__ = ["PrivateAdditiveClassifier", "PrivateAdditiveRegressor"]


class PrivateAdditiveModel(PrivateEstimator):
    """Base of additive models; see the subclasses."""

    schema: Any
    monotone: Any
    max_weight: Any
    relation: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVATE_CONSTRAINTS,
        "schema": [None, Schema],
        "monotone": [None, dict],
        "relation": COMMON_CONSTRAINTS["relation"],
        "verbose": ["verbose"],
        "max_weight": WEIGHTS_CONSTRAINTS["max_weight"],
    }

    model_: Any
    intercept_: Any

    def fit(
        self, X: MatrixLike, y: TargetLike = None, *, units: Any = None, **fit_params: Any
    ) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Numbers may be missing (NaN). With a ``schema`` it is a frame of pandas, polars or
            Arrow.
        y : array-like of shape (n_samples,)
            Targets.
        units : array-like of shape (n_samples,) or None, default=None
            The unit of every record, such as a person, if ``max_records_per_unit`` is declared, and
            only then.
        **fit_params : dict
            ``sample_weight``, an array-like of shape (n_samples,), if ``max_weight`` is declared.

        Returns
        -------
        self : object
            A fit that fails leaves the estimator as it was, with the results of an earlier fit.

        Raises
        ------
        ValueError, TypeError
            If a parameter is out of range, or X or y is not what is declared. This is found before
            any noise is drawn.
        BudgetExceededError
            If the ledger's remaining budget is too small.
        """
        weights = check_fit_params(self, fit_params)
        self._validate_params()
        if self.max_weight is not None:
            check_bound("max_weight", self.max_weight)
        draft = self._draft()
        X, y, weights = self._of_units(units, X=X, y=y, sample_weight=weights)
        records = read_columns(draft, X, self.schema, reset=True)
        refuse_masked("y", y)
        y = quietly("y must hold one target for each record.", column_or_1d, y, warn=True)
        if len(y) != len(records.codes):
            raise ValueError("X and y must hold the same number of records.")
        monotone = self._check_monotone(records)
        draft.model_ = self._linear_model().fitted_for(draft, records, y, weights)
        draft.model_.shapes_ = tuple(
            shape.monotone(monotone[shape.column.name], known)
            if shape.column.name in monotone
            else shape
            for shape, known in zip(draft.model_.shapes_, draft.model_.densities_, strict=True)
        )
        draft.intercept_ = draft.model_.intercept_
        if hasattr(draft.model_, "classes_"):
            draft.classes_ = draft.model_.classes_
        return self._accept(draft)

    def _linear_model(self) -> Any:
        """The model of functions of columns that is fitted, with the parameters of this one."""
        raise NotImplementedError

    def _common(self) -> dict[str, Any]:
        """Parameters of that model that all have."""
        names = ["epsilon", "delta", "ledger", "max_records_per_unit", "max_weight"]
        names += ["relation", "verbose", "random_state"]
        shrunk = isinstance(self, RegressorMixin)
        solver = GradientDescent(preconditioned=False, shrunk=shrunk)
        own = {name: getattr(self, name) for name in names}
        return {**own, "feature_bound": 1.0, "solver": solver}

    def _check_monotone(self, records: ColumnRecords) -> dict[str, int]:
        """The sign of every column whose function is monotone.

        Raises
        ------
        ValueError
            If a column has no numbers or does not exist, or there are more than two classes.
        """
        wanted = self.monotone or {}
        numbers = [column.name for column in records.columns if not column.values]
        if other := [name for name in wanted if name not in numbers]:
            raise ValueError(f"monotone must name columns of numbers of X, got {abridged(other)}.")
        if any(sign not in (1, -1) for sign in wanted.values()):
            raise ValueError("monotone must have the values 1, for increasing, and -1.")
        classes = declared("classes", getattr(self, "classes", None))
        if wanted and isinstance(self, ClassifierMixin) and (classes is None or len(classes) > 2):
            raise ValueError("monotone must be None unless two classes are declared.")
        return dict(wanted)

    def _records(self, X: Any) -> ColumnRecords:
        check_is_fitted(self)
        return read_columns(self, X, self.schema, reset=False)

    @property
    def shape_functions_(self) -> dict[str, ShapeFunction]:
        """What every column adds to a prediction, by the name of the column."""
        check_is_fitted(self)
        return {shape.column.name: shape for shape in self.model_.shapes_}

    def explain(self, X: MatrixLike) -> np.ndarray:
        """What every column adds to the prediction of every record.

        Their sum and ``intercept_`` are the prediction, the log-odds of the second class, the
        scores of all classes, or the logarithm of the prediction for "poisson" and "gamma". For
        records of the fit the result is not private.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        parts : ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_classes)
        """
        records = self._records(X)
        pairs = zip(self.model_.shapes_, by_column(records), strict=True)
        parts = np.stack([shape.of(column) for shape, column in pairs], axis=1)
        return parts if parts.shape[2] > 1 else parts[:, :, 0]

    def to_frame(self) -> Any:
        """The functions as a table of pandas, with one row for every knot or category.

        Returns
        -------
        frame : pandas.DataFrame
            Its columns are column, at (a knot, a category, 0 or None for what is missing), and
            value, or one value for each class.
        """
        import pandas as pd

        check_is_fitted(self)
        n_outputs = len(np.atleast_1d(self.intercept_))
        names = ["value"] if n_outputs == 1 else [f"value_{label}" for label in self.classes_]
        rows = []
        for shape in self.model_.shapes_:
            places = [*(shape.column.values or shape.knots.tolist())]
            values = [*shape.values]
            if shape.zero is not None:
                places, values = [*places, 0], [*values, shape.zero]
            for at, value in zip([*places, None], [*values, shape.missing], strict=True):
                rows.append((shape.column.name, at, *value.tolist()))
        return pd.DataFrame(rows, columns=["column", "at", *names])

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predict with the sum of the functions.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        return self.model_.predict(self._records(X))

    def score(
        self, X: MatrixLike, y: TargetLike = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy, R^2, or D^2 for the losses "poisson" and "gamma", without noise.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        score : float
        """
        return self.model_.score(self._records(X), y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = self.schema is not None
        return tags


class PrivateAdditiveClassifier(ClassifierMixin, PrivateAdditiveModel):
    """Differentially private additive logistic regression."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateAdditiveModel._parameter_constraints,
        **CLASSES_CONSTRAINTS,
        **WEIGHTS_CONSTRAINTS,
    }

    classes_: np.ndarray

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        schema: Schema | None = None,
        monotone: Mapping[str, int] | None = None,
        classes: ArrayLike | None = None,
        class_weight: Mapping[Any, float] | None = None,
        max_weight: float | None = None,
        relation: Literal["replace-one", "add-or-remove-one"] = "replace-one",
        verbose: int = 0,
        random_state: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.max_records_per_unit = max_records_per_unit
        self.schema = schema
        self.monotone = monotone
        self.classes = classes
        self.class_weight = class_weight
        self.max_weight = max_weight
        self.relation = relation
        self.verbose = verbose
        self.random_state = random_state

    def _linear_model(self) -> Any:
        own = {"classes": self.classes, "class_weight": self.class_weight}
        return Labels(**self._common(), **own, penalty=None)

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second of two classes, or one score per class."""
        return self.model_.decision_function(self._records(X))

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probability of every class."""
        return self.model_.predict_proba(self._records(X))


class PrivateAdditiveRegressor(RegressorMixin, PrivateAdditiveModel):
    """Differentially private additive regression."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateAdditiveModel._parameter_constraints,
        **TARGET_CONSTRAINTS,
        "loss": [StrOptions(set(FITTED_BY))],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        schema: Schema | None = None,
        monotone: Mapping[str, int] | None = None,
        loss: Literal["squared", "huber", "quantile", "poisson", "gamma"] = "squared",
        quantile: float = 0.5,
        target_bound: float | None = None,
        max_weight: float | None = None,
        relation: Literal["replace-one", "add-or-remove-one"] = "replace-one",
        verbose: int = 0,
        random_state: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.max_records_per_unit = max_records_per_unit
        self.schema = schema
        self.monotone = monotone
        self.loss = loss
        self.quantile = quantile
        self.target_bound = target_bound
        self.max_weight = max_weight
        self.relation = relation
        self.verbose = verbose
        self.random_state = random_state

    def _linear_model(self) -> Any:
        own = {"quantile": self.quantile} if self.loss == "quantile" else {}
        return FITTED_BY[self.loss](
            **self._common(), **own, target_bound=self.target_bound, alpha=0.0
        )
