"""Private additive models: sums of functions of single columns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from skdpsco._quiet import quietly
from skdpsco._typing import Auto, MatrixLike, Self, TargetLike
from skdpsco._validation import (
    Interval,
    Real,
    StrOptions,
    check_bound,
    check_fit_params,
    declared,
    is_auto,
    refuse_masked,
)
from skdpsco.additive.densities import Density, Shares
from skdpsco.additive.fitting import FITTED_BY, Labels
from skdpsco.additive.pairs import PairFunction
from skdpsco.additive.shapes import ShapeFunction
from skdpsco.additive.shapes_json import model_as_json, read_model
from skdpsco.additive.shapes_sklearn import pipeline_of
from skdpsco.additive.table import ColumnRecords, read_blocks, read_columns
from skdpsco.base.parameters import (
    ClassParameters,
    Constraints,
    RecordParameters,
    TargetParameters,
    with_parameters,
)
from skdpsco.base.predictions import refuse_blocks
from skdpsco.base.private_estimator import PrivateEstimator
from skdpsco.data.arrow_blocks import is_arrow
from skdpsco.data.block_records import as_blocks
from skdpsco.data.frames import dates_of
from skdpsco.data.schema import Schema
from skdpsco.privacy._checks import abridged
from skdpsco.solvers import GradientDescent

__all__ = ["PrivateAdditiveClassifier", "PrivateAdditiveRegressor"]

LOGARITHMS = ("poisson", "gamma")  # losses of predictions that are exponentials


@with_parameters()
class PrivateAdditiveModel(RecordParameters, PrivateEstimator):
    """Base of additive models; see the subclasses."""

    schema: Schema | None = None
    monotone: Mapping[str, int] | None = None
    pairs: Auto | Sequence[tuple[str, str]] | None = "auto"

    _parameter_constraints: ClassVar[Constraints] = {
        "schema": [None, Schema],
        "monotone": [None, dict],
        "pairs": [None, StrOptions({"auto"}), list, tuple],
    }

    model_: Any = field(init=False)
    intercept_: Any = field(init=False)

    def fit(
        self, X: MatrixLike, y: TargetLike = None, *, units: Any = None, **fit_params: Any
    ) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features), or blocks
            Numbers may be missing (NaN). With a ``schema`` it is a frame of pandas, polars or
            Arrow, or blocks of frames. Blocks are `RowBlocks`, a Dask array or data frame, or,
            without a schema, an Arrow table.
        y : array-like of shape (n_samples,) or None
            Targets; None if the blocks hold them.
        {units}
        **fit_params : dict
            ``sample_weight``, an array-like of shape (n_samples,), if ``max_weight`` is declared.

        {outcome}
        """
        weights = check_fit_params(self, fit_params)
        self._validate_params()
        if self.max_weight is not None:
            check_bound("max_weight", self.max_weight)
        draft = self._draft()
        X, y, weights = self._of_units(units, X=X, y=y, sample_weight=weights)
        in_memory = self.schema is not None and is_arrow(X)
        blocks = None if in_memory else as_blocks(X, y, numeric=False)
        if blocks is None:
            records = read_columns(draft, X, self.schema, reset=True)
            y = self._check_targets(y, len(records.values))
        else:
            records, y = read_blocks(draft, blocks, self.schema), None
        monotone = self._check_monotone(records)
        model = self._linear_model()
        model._wanted_pairs = self._check_pairs(records)
        names = [column.name for column in records.columns]
        model._without_pairs = tuple(map(names.index, monotone))
        draft.model_ = model.fitted_for(draft, records, y, weights)
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

    def _check_targets(self, y: Any, n_samples: int) -> np.ndarray:
        """One target for each record in memory.

        Raises
        ------
        TypeError, ValueError
            If they are missing, masked, of another shape or too few or many.
        """
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        refuse_masked("y", y)
        found: np.ndarray = quietly(
            "y must hold one target for each record.", column_or_1d, y, warn=True
        )
        if len(found) != n_samples:
            raise ValueError("X and y must hold the same number of records.")
        return found

    def _linear_model(self) -> Any:
        """The model of functions of columns that is fitted, with the parameters of this one."""
        raise NotImplementedError

    def _common(self) -> dict[str, Any]:
        """Parameters of that model that all have."""
        names = ["epsilon", "delta", "ledger", "max_records_per_unit", "max_weight"]
        names += ["relation", "random_state"]
        own = {name: getattr(self, name) for name in names}
        return {**own, "feature_bound": 1.0, "solver": GradientDescent(preconditioned=False)}

    def _check_pairs(self, records: ColumnRecords) -> tuple[tuple[int, int], ...] | None:
        """Places of the columns of declared pairs; None if pairs are chosen.

        Raises
        ------
        ValueError
            If they are not pairs of different columns of X, or name a column of ``monotone``.
        """
        if self.pairs is None or is_auto(self.pairs):
            return () if self.pairs is None else None
        names = [column.name for column in records.columns]
        found = []
        for pair in self.pairs:
            known = isinstance(pair, tuple | list) and len(pair) == 2
            known = known and all(isinstance(name, str) and name in names for name in pair)
            if not known or pair[0] == pair[1]:
                raise ValueError(
                    "pairs must be 'auto', None, or a list such as [('age', 'city')], which names "
                    f"two different columns of X each time; got {abridged(self.pairs)}."
                )
            if any(name in (self.monotone or ()) for name in pair):
                raise ValueError(
                    "pairs must not name columns of monotone: a function of two columns may fall "
                    f"where one of them rises; got {abridged(self.pairs)}."
                )
            first, second = sorted(map(names.index, pair))
            found.append((first, second))
        return tuple(dict.fromkeys(found))

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
            raise ValueError(
                f"monotone must name columns of X that hold numbers, not {abridged(other)}."
            )
        if any(not isinstance(sign, Real) or sign not in (1, -1) for sign in wanted.values()):
            raise ValueError("monotone must have the values 1 (increasing) or -1 (decreasing).")
        classes = declared("classes", getattr(self, "classes", None))
        if wanted and isinstance(self, ClassifierMixin) and (classes is None or len(classes) > 2):
            raise ValueError("monotone needs exactly two classes, declared in classes.")
        return dict(wanted)

    def _records(self, X: Any) -> ColumnRecords:
        check_is_fitted(self)
        refuse_blocks(X)
        return read_columns(self, X, self.schema, reset=False)

    @property
    def pair_functions_(self) -> dict[tuple[str, str], PairFunction]:
        """What pairs of columns add to a prediction, by the names of the columns."""
        check_is_fitted(self)
        names = [shape.column.name for shape in self.model_.shapes_]
        return {(names[i], names[j]): function for (i, j), function in self.model_.pairs_}

    @property
    def densities_(self) -> dict[str, Density | Shares]:
        """Released densities of the columns, by name."""
        check_is_fitted(self)
        known = zip(self.model_.shapes_, self.model_.densities_, strict=True)
        return {shape.column.name: density for shape, density in known}

    @property
    def shape_functions_(self) -> dict[str, ShapeFunction]:
        """What every column adds to a prediction, by the name of the column."""
        check_is_fitted(self)
        return {shape.column.name: shape for shape in self.model_.shapes_}

    def explain(self, X: MatrixLike) -> np.ndarray:
        """What every column, and every pair of ``pair_functions_``, adds to every prediction.

        The parts and ``intercept_`` add up to the output of `decision_function` for classes. For
        numbers they add up to the prediction before it is clipped, or to its logarithm if the loss
        is "poisson" or "gamma". For records of the fit the result is not private.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Records with the columns of the fit.

        Returns
        -------
        parts : ndarray of shape (n_samples, n_features + n_pairs)
            With a third axis of n_classes, if there are more than two classes.
        """
        columns = self._records(X).values.T
        own = [shape.of(x) for shape, x in zip(self.model_.shapes_, columns, strict=True)]
        own += [function.of(columns[i], columns[j]) for (i, j), function in self.model_.pairs_]
        parts = np.stack(own, axis=1)
        return parts if parts.shape[2] > 1 else parts[:, :, 0]

    def to_frame(self) -> Any:
        """The functions as a table of pandas, with one row for every knot or category.

        Returns
        -------
        frame : pandas.DataFrame
            Its columns are column, at (a knot, a category or 0; None for missing values), and
            value, or one value for each class.
        """
        import pandas as pd

        check_is_fitted(self)
        n_outputs = len(np.atleast_1d(self.intercept_))
        names = ["value"] if n_outputs == 1 else [f"value_{label}" for label in self.classes_]
        rows = []
        for shape in self.model_.shapes_:
            knots = dates_of(shape.knots) if shape.column.dates else shape.knots
            places = [*(shape.column.values or knots.tolist())]
            values = [*shape.values]
            if shape.zero is not None:
                places, values = [*places, 0], [*values, shape.zero]
            for at, value in zip([*places, None], [*values, shape.missing], strict=True):
                rows.append((shape.column.name, at, *value.tolist()))
        return pd.DataFrame(rows, columns=["column", "at", *names])

    @available_if(lambda self: getattr(self, "loss", None) not in LOGARITHMS)
    def to_sklearn(self) -> Pipeline:
        """A pipeline of scikit-learn's estimators that makes the same predictions.

        It holds the functions, which have been released, and needs neither this package nor Numba.
        Predictions agree up to rounding. What the fit guarantees is in ``privacy_`` only.

        Returns
        -------
        pipeline : sklearn.pipeline.Pipeline
            It reads arrays, or frames of pandas with the columns of the fit. There is none for the
            losses "poisson" and "gamma".

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        TypeError
            If a column holds dates.
        """
        check_is_fitted(self)
        return pipeline_of(self)

    def to_json(self) -> str:
        """The model as JSON: its functions, which may be edited, and what they need to predict.

        Returns
        -------
        text : str
            For `from_json`. It holds releases and public values only.
        """
        check_is_fitted(self)
        return model_as_json(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """A fitted model from what `to_json` returned, edited or not.

        Parameters
        ----------
        text : str
            What `to_json` returned.

        Returns
        -------
        model : object
            It predicts, but has no ``privacy_``, which describes the fit.

        Raises
        ------
        ValueError
            If it is not output of `to_json`, or lacks a key.
        """
        model: Self = read_model(cls, text)
        return model

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predict with the sum of the functions.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Records with the columns of the fit.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Classes, or numbers within the range of the fit's targets.
        """
        records = self._records(X)  # which refuses what is not fitted
        return self.model_.predict(records)

    def score(
        self, X: MatrixLike, y: TargetLike = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy of a classifier, R^2 of a regressor, or D^2 for "poisson" and "gamma".

        It is computed without noise: do not publish it for private records.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Records with the columns of the fit.
        y : array-like of shape (n_samples,)
            Targets or labels.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the records in the score.

        Returns
        -------
        score : float
            At most 1.
        """
        records = self._records(X)
        return self.model_.score(records, y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = self.schema is not None
        return tags


@with_parameters()
class PrivateAdditiveClassifier(ClassifierMixin, ClassParameters, PrivateAdditiveModel):
    """Differentially private additive classification: log-odds are sums of functions of columns.

    Curves are linear between knots; each category adds a number.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit, schema, monotone, pairs, classes, class_weight}
    {max_weight, relation, random_state}

    Attributes
    ----------
    {classes_}
    intercept_ : ndarray of shape (1,) or (n_classes,)
    {shape_functions_, pair_functions_, densities_, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateAdditiveRegressor : For numeric targets.
    PrivateLogisticRegression : For linear log-odds, and for sparse or very many columns.

    Notes
    -----
    {guarantee}
    Each function has one value for all missing values and undeclared categories. Proof:
    :doc:`/proofs/additive`.

    References
    ----------
    Hastie, Tibshirani. Generalized Additive Models. Statistical Science 1986.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateAdditiveClassifier
    >>> X = np.random.default_rng(0).normal(size=(20000, 3))
    >>> y = np.abs(X[:, 0]) > 0.7
    >>> PrivateAdditiveClassifier(classes=[False, True]).fit(X, y).score(X, y) > 0.75
    True
    """

    classes_: np.ndarray = field(init=False)
    score = PrivateAdditiveModel.score  # that of the mixin does not know the records

    def _linear_model(self) -> Any:
        own: dict[str, Any] = {"classes": self.classes, "class_weight": self.class_weight}
        return Labels(**self._common(), **own, C=math.inf)

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second of two classes, or one score per class.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Records with the columns of the fit.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One-dimensional if there are two classes.
        """
        records = self._records(X)
        return self.model_.decision_function(records)

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probability of every class.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Records with the columns of the fit.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        records = self._records(X)
        return self.model_.predict_proba(records)

    def predict_log_proba(self, X: MatrixLike) -> np.ndarray:
        """Logarithm of the probability of every class.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Records with the columns of the fit.

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        records = self._records(X)
        return self.model_.predict_log_proba(records)


@with_parameters()
class PrivateAdditiveRegressor(RegressorMixin, TargetParameters, PrivateAdditiveModel):
    """Differentially private additive regression: predictions are sums of functions of columns.

    Curves are linear between knots; each category adds a number.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit, schema, monotone, pairs}
    loss : {"squared", "huber", "quantile", "poisson", "gamma"}, default="squared"
        For "poisson" (y >= 0) and "gamma" (y > 0) the sum of the functions is the logarithm of the
        expected target.
    quantile : float, default=0.5
        The quantile that ``loss="quantile"`` predicts, in (0, 1).
    {target_bound, max_weight, relation, random_state}

    Attributes
    ----------
    {intercept_, shape_functions_, pair_functions_, densities_, n_features_in_, feature_names_in_}
    {privacy_}

    See Also
    --------
    PrivateAdditiveClassifier : For classes.
    PrivateRidge : For linear predictions, and for sparse or very many columns.

    Notes
    -----
    {guarantee}
    Each function has one value for all missing values and undeclared categories. Proof:
    :doc:`/proofs/additive`.

    References
    ----------
    Hastie, Tibshirani. Generalized Additive Models. Statistical Science 1986.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateAdditiveRegressor
    >>> X = np.random.default_rng(0).uniform(0, 10, (20000, 3))
    >>> y = np.sin(X[:, 0]) + np.sqrt(X[:, 1])
    >>> PrivateAdditiveRegressor(epsilon=1.0).fit(X, y).score(X, y) > 0.8
    True
    """

    loss: Literal["squared", "huber", "quantile", "poisson", "gamma"] = "squared"
    quantile: float = 0.5

    _parameter_constraints: ClassVar[Constraints] = {
        "loss": [StrOptions(set(FITTED_BY))],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
    }

    score = PrivateAdditiveModel.score  # that of the mixin does not know the losses

    def _linear_model(self) -> Any:
        own = {"quantile": self.quantile} if self.loss == "quantile" else {}
        return FITTED_BY[self.loss](
            **self._common(), **own, target_bound=self.target_bound, alpha=0.0
        )
