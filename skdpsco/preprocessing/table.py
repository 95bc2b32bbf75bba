"""From a raw table to a private model: an encoder that follows a schema, and a pipeline with it."""

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from skdpsco._typing import LedgerLike, MatrixLike, Self, TargetLike
from skdpsco.base.column_functions import (
    ColumnFunction,
    feature_steps,
    numbers_among,
    refuse_dates,
)
from skdpsco.base.documentation import Documented
from skdpsco.base.grants import Grant
from skdpsco.base.plain import plain_step
from skdpsco.base.private_estimator import PrivateEstimator, check_steps, needs_units
from skdpsco.base.transformer import BlockTransformerMixin
from skdpsco.data.block_records import first_record, is_blocks
from skdpsco.data.columns import CATEGORY, NUMBER, Column
from skdpsco.data.schema import Schema
from skdpsco.privacy._checks import abridged

from .splines import PrivateSplineTransformer

__all__ = ["PrivatePipeline", "TableEncoder", "make_private_pipeline"]


class TableEncoder(Documented, BlockTransformerMixin, BaseEstimator):
    """Turn the columns of a declared table into features in [-1, 1].

    Numbers and dates are clipped to their bounds, which are mapped onto [-1, 1]. Booleans become 0
    and 1, and every category becomes a column of zeros and ones. Another column indicates missing
    values, if they are declared. The map does not depend on the data, so it costs no privacy
    budget, and replacing one record changes only one row of the output.

    Parameters
    ----------
    schema : Schema
        The declared columns. Target and group columns are left out.
    sparse_output : bool, default=False
        Whether the output is a CSR matrix.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns that become features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names.

    See Also
    --------
    Schema : What the encoder needs to know.
    make_private_pipeline : An encoder and a model.
    skdpsco.preprocessing.PublicBoundsScaler : For columns of numbers.
    skdpsco.preprocessing.CategoricalDomainEncoder : For columns of categories.

    Notes
    -----
    Columns are found by name, in any order; those of target, groups and persons may be there. Every
    value has a result, since an error or a warning would reveal that it occurs:

    - A missing number becomes the declared ``fill``, by default the middle of its bounds; a missing
      boolean becomes 0; a missing category becomes zeros. If missing values are declared, the
      indicator is 1.
    - A category that is not declared becomes zeros.
    - In columns of numbers, dates and booleans, anything else counts as missing.

    `Schema.validate` finds such values before a fit.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsco import Schema
    >>> from skdpsco.preprocessing import TableEncoder
    >>> schema = Schema(
    ...     {"age": {"bounds": [18, 90], "missing": True}, "city": ["Bern", "Oslo"]}
    ... )
    >>> encoder = TableEncoder(schema).set_output(transform="pandas")
    >>> encoder.fit_transform(pd.DataFrame({"age": [36, None], "city": ["Oslo", "Rome"]}))
       age  age_missing  city_Bern  city_Oslo
    0 -0.5          0.0        0.0        1.0
    1  0.0          1.0        0.0        0.0
    """

    _reads_arrow = True

    def __init__(self, schema: Any, *, sparse_output: bool = False) -> None:
        self.schema = schema
        self.sparse_output = sparse_output

    def fit(self, X: MatrixLike, y: TargetLike = None) -> Self:
        """Check the parameters, and the columns of X and their dtypes. Nothing is learnt.

        Parameters
        ----------
        X : data frame or RowBlocks
            Records, of pandas, polars or Arrow, or in blocks, one record of which is looked at.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The encoder itself.

        Raises
        ------
        TypeError
            If a parameter or X has the wrong type, or the dtype of a column cannot hold what is
            declared.
        ValueError
            If X lacks a declared column, or has one that is not declared.
        """
        schema = self._checked()
        schema.opened(X if self._blocks_of(X) is None else first_record(X))
        self.n_features_in_: int = len(schema.features)
        self.feature_names_in_: np.ndarray = np.array(schema.features, dtype=object)
        return self

    def transform(self, X: MatrixLike) -> Any:
        """Encode records.

        Parameters
        ----------
        X : data frame
            Records, of pandas, polars or Arrow.

        Returns
        -------
        X_out : ndarray or CSR matrix of shape (n_samples, n_features_out), float64
            The features, in the order of `get_feature_names_out`.

        Raises
        ------
        TypeError, ValueError
            As for `fit`; never because of a value.
        """
        return self._checked().encode(X, self.sparse_output)

    def _plain_steps(self) -> list[tuple[str, Any]]:
        columns = [self.schema.columns[name] for name in self.schema.features]
        refuse_dates(columns)
        return feature_steps(list(map(features_of, columns)), self.feature_names_in_)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Return the names of the output columns: age, age_missing, city_Bern and so on.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Ignored: the schema has the names.

        Returns
        -------
        names : ndarray of str objects
            One name per column of what `transform` returns.
        """
        return np.array(self._checked().feature_names_out(), dtype=object)

    def _checked(self) -> Schema:
        """The schema, after a check of the parameters."""
        if not isinstance(self.schema, Schema):
            raise TypeError(f"schema must be a Schema, got {type(self.schema).__name__}.")
        if not isinstance(self.sparse_output, (bool, np.bool_)):
            raise TypeError(f"sparse_output must be True or False, got {self.sparse_output!r}.")
        return self.schema

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        return tags


def features_of(column: Column) -> ColumnFunction:
    """The features that a column becomes, as a function of it."""
    n_outputs = len(column.names_out())
    if column.kind == CATEGORY:
        places = {category: k for k, category in enumerate(column.categories)}
        codes = dict.fromkeys(column.codes, n_outputs - 1)
        lost = n_outputs - 1 if column.missing else None
        return ColumnFunction.indicators({**places, **codes}, n_outputs, lost)
    low, high = column.bounds
    fill = (column.fill - (low + high) / 2.0) / ((high - low) / 2.0)
    if column.kind == NUMBER:
        values, missing = np.array([[-1.0, 0.0], [1.0, 0.0]]), np.array([fill, 1.0])[:n_outputs]
        points = dict.fromkeys(numbers_among(column.codes), missing)
        return ColumnFunction(np.array([low, high]), values[:, :n_outputs], missing, points)
    missing = np.array([0.0, 1.0])[:n_outputs]
    points = {0.0: np.zeros(n_outputs), 1.0: np.eye(n_outputs)[0]}
    return ColumnFunction.at_points(points, missing, missing)


class PrivatePipeline(Pipeline):
    """A pipeline that refuses steps that are not private; `make_private_pipeline` makes it.

    Parameters
    ----------
    steps : list of (str, estimator)
        As for scikit-learn's `Pipeline`.
    record_wise : list of str or callable, default=()
        Names of steps, and functions, that treat every record by itself; the caller vouches.
    transform_input, memory, verbose
        As for scikit-learn's `Pipeline`.
    """

    refuses_steps = True

    def __init__(
        self,
        steps: Any,
        *,
        record_wise: Any = (),
        transform_input: Any = None,
        memory: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(steps, transform_input=transform_input, memory=memory, verbose=verbose)
        self.record_wise = record_wise

    def fit(self, X: Any, y: Any = None, *, units: Any = None, **params: Any) -> Self:
        """Fit all steps.

        Parameters
        ----------
        X : array-like, data frame or RowBlocks
            Records.
        y : array-like or None, default=None
            Targets.
        units : array-like of shape (n_samples,) or None, default=None
            The unit of every record, such as a person, for the private steps for which
            ``max_records_per_unit`` is declared.
        **params : dict
            As for scikit-learn's `Pipeline`.

        Returns
        -------
        self : object
            The pipeline itself.

        Raises
        ------
        ValueError
            If a step is not private, or y is None and a schema declares the target that the last
            step needs; nothing has been charged then.
        """
        model, schema = self.steps[-1][1], getattr(self.steps[0][1], "schema", None)
        if y is None and getattr(schema, "target", None) is not None and not is_blocks(X):
            if isinstance(model, PrivateEstimator) and get_tags(model).target_tags.required:
                raise ValueError("y must be frame[schema.target], and X frame[schema.features].")
        if not isinstance(getattr(self.steps[-1][1], "ledger", None), Grant):
            check_steps(self, X)  # otherwise a search has done it, and tries parts of the pipeline
        routed = get_config()["enable_metadata_routing"]
        if units is not None and routed:
            params["units"] = units
        elif units is not None:
            private = [name for name, step in self.steps if isinstance(step, PrivateEstimator)]
            params |= {f"{name}__units": units for name in private}
        return super().fit(X, y, **params)

    @available_if(lambda self: hasattr(self[-1], "predict_survival_function"))
    def predict_survival_function(self, X: Any, times: ArrayLike | None = None) -> np.ndarray:
        """Probabilities of no event until some times, if the last step predicts them.

        Parameters
        ----------
        X : array-like or data frame
            Records.
        times : array-like of shape (n_times,) or None, default=None
            Times in [0, horizon]; None for those of the fit.

        Returns
        -------
        survival : ndarray of shape (n_samples, n_times)
            A row for each record.
        """
        X = self[:-1].transform(X) if len(self) > 1 else X
        survival: np.ndarray = self[-1].predict_survival_function(X, times)
        return survival

    def to_sklearn(self) -> Pipeline:
        """A pipeline of scikit-learn's estimators that makes the same predictions.

        It holds what has been released and what is public, and needs neither this package nor
        Numba. Predictions agree up to rounding. What the fits guarantee is in the ``privacy_`` of
        the steps only.

        Returns
        -------
        pipeline : sklearn.pipeline.Pipeline
            It reads dense arrays, or frames of pandas. A search becomes its best estimator.

        Raises
        ------
        NotFittedError
            If a step is not fitted.
        TypeError
            If a step has no counterpart, such as a `RowClipper`, or an encoder of dates.
        """
        steps: list[tuple[str, Any]] = []
        for name, step in self.steps:
            plain = plain_step(step)
            inner = plain.steps if isinstance(plain, Pipeline) else [("", plain)]
            steps += [(f"{name} {part}".strip(), one) for part, one in inner]
        return Pipeline(steps)


def make_private_pipeline(
    *steps: Any,
    epsilon: float | None = None,
    delta: float | None = None,
    ledger: LedgerLike | None = None,
    max_records_per_unit: int | None = None,
    sparse_output: bool = False,
    record_wise: Any = (),
) -> Any:
    """Make a pipeline that refuses steps that are not private; a schema in it encodes a raw table.

    Parameters
    ----------
    *steps : Schema or estimators
        The last step is a private estimator, or a search for one. A `Schema` as the first step
        becomes a `TableEncoder` of its columns, and tells the last step about target and groups. A
        `PrivateSplineTransformer` right after it turns its numbers into splines, and passes
        everything else on. The pipeline holds copies of the steps.
    epsilon, delta : float or None, default=None
        The privacy budget of the last step; None keeps its own.
    ledger : Ledger or None, default=None
        The ledger of all private steps; None keeps theirs.
    max_records_per_unit : int or None, default=None
        Records drawn per person in all private steps; None keeps theirs. Needed if the schema
        declares a ``person``, unless the ledger has it.
    sparse_output : bool, default=False
        Whether the encoder of a schema returns a CSR matrix, which suits hundreds of categories.
    record_wise : list of str or callable, default=()
        Steps, by name, and functions that treat every record by itself. You vouch for this.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        Fit it with ``pipeline.fit(frame[schema.features], frame[schema.target])``. See
        :doc:`/tables`.

    Raises
    ------
    TypeError
        If a step is not an estimator, or the last one is not private.
    ValueError
        If a step is not private, the schema declares no target but the last step has ``classes`` or
        ``target_bound``, it declares a person and nothing says how many records one may have, or
        ``epsilon`` or ``delta`` contradicts that of the last step.

    See Also
    --------
    Schema : What is public about a table.
    TableEncoder : The first step, for a schema.
    skdpsco.inspection.privacy_report : What every step costs, or why it is not private.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpsco import PrivateLogisticRegression, Schema, make_private_pipeline
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"age": rng.integers(18, 91, 5000)})
    >>> frame["ill"] = np.where(frame["age"] > 60, "yes", "no")
    >>> schema = Schema({"age": {"bounds": [18, 90]}, "ill": ["no", "yes"]}, target="ill")
    >>> pipeline = make_private_pipeline(schema, PrivateLogisticRegression(), epsilon=1.0)
    >>> pipeline = pipeline.fit(frame[schema.features], frame[schema.target])
    >>> pipeline.predict(pd.DataFrame({"age": [20, 80]})).tolist()
    ['no', 'yes']
    """
    for step in steps:
        if isinstance(step, type):
            raise TypeError(f"steps must be instances: {step.__name__}(), not the class.")
        known = step is steps[0] and isinstance(step, Schema)
        skipped = isinstance(step, str) and step == "passthrough"
        if not (known or skipped or hasattr(step, "fit")):
            got = abridged(step) if isinstance(step, str) else type(step).__name__
            raise TypeError(
                f"steps must be estimators or 'passthrough' after at most one Schema, got {got}."
            )
    if not steps or not isinstance(steps[-1], PrivateEstimator):
        last = type(steps[-1]).__name__ if steps else "no step"
        raise TypeError(
            f"steps must end with a private estimator, got {last}. PrivateLogisticRegression() is "
            "one, for instance."
        )
    schema = steps[0] if isinstance(steps[0], Schema) else None
    given = steps[schema is not None :]
    parts: list[Any] = [step if isinstance(step, str) else clone(step) for step in given]
    budget = {k: v for k, v in (("epsilon", epsilon), ("delta", delta)) if v is not None}
    for name, value in budget.items():
        own, default = getattr(parts[-1], name), signature(type(parts[-1])).parameters[name].default
        if own not in (default, value):
            raise ValueError(f"{name} is {own!r} in the last step, and {value!r} for the pipeline.")
    parts[-1].set_params(**budget)
    common = {"ledger": ledger, "max_records_per_unit": max_records_per_unit}
    for part in parts:
        if isinstance(part, PrivateEstimator):
            part.set_params(**{k: v for k, v in common.items() if v is not None})
    if schema is not None:
        _declare(schema, parts)
        parts = [TableEncoder(schema, sparse_output=sparse_output), *parts]
    pipeline = PrivatePipeline(make_pipeline(*parts).steps, record_wise=record_wise)
    check_steps(pipeline, np.zeros((1, 1)))  # dense records; a fit checks again, for its own
    return pipeline


def _declare(schema: Schema, parts: list[Any]) -> None:
    """Hand to the steps of a pipeline what a schema declares.

    Raises
    ------
    ValueError
        If the schema has no target of the kind that the last step has to know, or declares persons
        and a step has no number of their records.
    """
    model = parts[-1]
    params, target = model.get_params(deep=True), schema.target
    asks = any(name.rpartition("__")[2] in ("classes", "target_bound") for name in params)
    if target is None and asks:
        raise ValueError("schema must declare a target: Schema(columns, target=...).")
    words = target and any(isinstance(value, str) for value in schema.columns[target].values())
    if is_classifier(model) if schema.is_regression else words and is_regressor(model):
        kind, holds = ("regressor", "numbers") if schema.is_regression else ("classifier", "words")
        raise ValueError(
            f"model must be a {kind}, as the schema says that the target {target!r} holds "
            f"{holds}; got {type(model).__name__}."
        )
    model.set_params(**_about_target(schema, params))
    if isinstance(parts[0], PrivateSplineTransformer):
        _declare_encoded(schema, parts[0])
    for part in parts if schema.person is not None else ():
        if isinstance(part, PrivateEstimator) and part.max_records_per_unit is None:
            of_ledger = getattr(part.ledger, "max_records_per_unit", 1)
            if of_ledger == 1:
                raise ValueError(needs_units(str(schema.person)))
            part.set_params(max_records_per_unit=of_ledger)


def _declare_encoded(schema: Schema, splines: PrivateSplineTransformer) -> None:
    """Tell a step that follows the encoder where its numbers are, and that they are in [-1, 1]."""
    numbers = [name for name in schema.features if schema.columns[name].kind == NUMBER]
    if splines.columns is None and numbers:
        places = schema.feature_names_out()
        splines.set_params(columns=[places.index(name) for name in numbers])
    if splines.lower is None and splines.upper is None:
        splines.set_params(lower=-1.0, upper=1.0)


def _about_target(schema: Schema, params: dict[str, Any]) -> dict[str, Any]:
    """Values of those parameters of a model, and of models within it, that a schema declares."""
    known = ["target_bound" if schema.is_regression else "classes"]
    known += ["groups"] * (schema.groups is not None)
    found = {}
    for name in params:
        prefix, _, last = name.rpartition("__")
        link = params.get(f"{prefix}__link" if prefix else "link", "identity")
        if last in known and not (last == "target_bound" and link != "identity"):
            found[name] = schema.declared(last)
    return found
