"""Which transformers treat every record by itself, and when their output is sparse.

What is known of a transformer is looked up in `KINDS` by exact type, since a subclass may do
anything; a further transformer needs an entry there. Each rule was derived from the source of
scikit-learn 1.6 to 1.9. If its conditions hold, `fit` uses only parameters, shapes, dtypes and its
random_state, row i of `transform` depends only on record i, and no warning depends on values,
except NumPy's about floating point. (For errors about the input see docs/threat-model.md.) Samplers
of chi-squared kernels have no rule, since they raise if a value is too small: after a private step
this may happen after the charge.
"""

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse, special
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils import get_tags

from skdpsco._validation import is_number
from skdpsco.preprocessing import (
    CategoricalDomainEncoder,
    ColumnClipper,
    PrivateFeatureSelector,
    PrivatePCA,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    PublicBoundsScaler,
    RowClipper,
    TableEncoder,
)
from skdpsco.preprocessing.table import PrivatePipeline

__all__ = [
    "KEEP_DTYPE",
    "SPARSE",
    "UNKNOWN",
    "StepInput",
    "dtypes_depend_on_values",
    "enlarges",
    "fails_for",
    "layout_of_records",
    "output_of",
    "unmet",
]

Conditions = dict[str, bool]
Vouched = Callable[[Any], bool]


def _free(step: Any, vouched: Vouched) -> Conditions:
    return {}


def _function(step: Any, vouched: Vouched) -> Conditions:
    def known(function: Any, kw_args: Any) -> bool:
        return function is None or vouched(function) or (_is_elementwise(function) and not kw_args)

    # The check compares values of the data, and warns.
    silent = step.check_inverse is False or step.func is None or step.inverse_func is None
    return {
        "func is a ufunc of NumPy, without kw_args, or is declared in record_wise": known(
            step.func, step.kw_args
        ),
        "inverse_func is a ufunc of NumPy, without kw_args, or is declared in record_wise": known(
            step.inverse_func, step.inv_kw_args
        ),
        "check_inverse=False": silent,
    }


def _is_elementwise(function: Any) -> bool:
    # It must be NumPy's own, since numpy.frompyfunc makes a ufunc of anything, and have no
    # signature, because solvers of numpy.linalg declare by it that they read whole arrays.
    return (
        type(function) is np.ufunc
        and function.nin == function.nout == 1
        and function.signature is None
        and any(getattr(module, function.__name__, None) is function for module in (np, special))
    )


def _is_declared(value: Any) -> bool:
    return isinstance(value, (list, tuple, np.ndarray))


def _encoder(step: Any) -> Conditions:
    return {
        "categories are declared": _is_declared(step.categories),
        # Both of them count.
        "min_frequency=None": step.min_frequency is None,
        "max_categories=None": step.max_categories is None,
    }


def _one_hot(step: Any, vouched: Vouched) -> Conditions:
    # "warn", and "ignore" with a drop, warn of values that are not declared.
    legal = ("error", "ignore") if step.drop is None else ("error",)
    return {
        **_encoder(step),
        f"handle_unknown is {' or '.join(map(repr, legal))}": step.handle_unknown in legal,
    }


def _ordinal(step: Any, vouched: Vouched) -> Conditions:
    legal = ("error", "use_encoded_value")
    return {**_encoder(step), "handle_unknown is legal": step.handle_unknown in legal}


def _imputer(step: Any, vouched: Vouched) -> Conditions:
    return {
        "strategy='constant'": _equals(step.strategy, "constant"),
        # Otherwise columns without values are dropped, or there is a warning.
        "keep_empty_features=True": step.keep_empty_features is True,
        # It has columns for those features that have missing values.
        "add_indicator=False": step.add_indicator is False,
    }


def _indicator(step: Any, vouched: Vouched) -> Conditions:
    return {"features='all'": _equals(step.features, "all")}


def _rbf(step: Any, vouched: Vouched) -> Conditions:
    return {"gamma is a number": is_number(step.gamma)}  # "scale" is the variance


def _spline(step: Any, vouched: Vouched) -> Conditions:
    return {
        "knots are declared": _is_declared(step.knots),
        # Otherwise it raises if a value is beyond the knots, which may happen after the charge.
        "extrapolation is not 'error'": step.extrapolation != "error",
        # With a missing value, sparse output uses the column's minimum.
        "sparse_output=False": step.sparse_output is False,
    }


def _text(step: Any, vouched: Vouched) -> Conditions:
    functions = (step.analyzer, step.tokenizer, step.preprocessor, step.strip_accents)
    return {
        "input='content'": _equals(step.input, "content"),
        "analyzer, tokenizer, preprocessor and strip_accents are not functions, or are declared in "
        "record_wise": all(not callable(f) or vouched(f) for f in functions),
    }


def _counts(step: Any, vouched: Vouched) -> Conditions:
    # With a vocabulary, max_df, min_df and max_features are ignored.
    return {"vocabulary is declared": step.vocabulary is not None, **_text(step, vouched)}


def _no_idf(step: Any, vouched: Vouched) -> Conditions:
    # A refit does not remove what an earlier fit has learnt.
    return {
        "use_idf=False": step.use_idf is False,
        "no earlier fit has learnt idf_": not hasattr(step, "idf_"),
    }


def _counts_no_idf(step: Any, vouched: Vouched) -> Conditions:
    return {**_counts(step, vouched), **_no_idf(step, vouched)}


def _equals(value: Any, other: str | int) -> bool:
    return isinstance(value, (str, Real)) and value == other


# The layout of a transformer's output: one of these, that of its input, or what sparse_output says.
DENSE, SPARSE, UNKNOWN, AS_GIVEN, AS_CHOSEN = "dense", "sparse", "unknown", "as given", "as chosen"


class StepKind(NamedTuple):
    """What is known of all transformers of one type.

    Parameters
    ----------
    rule : callable or None
        Returns the conditions under which they treat every record by itself; None if they do not.
    layout : {"dense", "sparse", "unknown", "as given", "as chosen"}
    bounded : bool, default=False
        Whether their results are bounded for all records.
    overflows : bool, default=False
        Whether they add and multiply values.
    """

    rule: Callable[[Any, Vouched], Conditions] | None
    layout: str
    bounded: bool = False
    overflows: bool = False


# Random projections have matrices that come from random_state, which need not be secret, and the
# shape of X.
KINDS: dict[type, StepKind] = {
    AdditiveChi2Sampler: StepKind(None, AS_GIVEN),
    Binarizer: StepKind(_free, AS_GIVEN, bounded=True),
    CategoricalDomainEncoder: StepKind(_free, AS_CHOSEN, bounded=True),
    ColumnClipper: StepKind(_free, AS_GIVEN, bounded=True),
    CountVectorizer: StepKind(_counts, SPARSE),
    FeatureHasher: StepKind(_free, SPARSE),
    FunctionTransformer: StepKind(_function, AS_GIVEN),
    GaussianRandomProjection: StepKind(_free, DENSE, overflows=True),
    HashingVectorizer: StepKind(_text, SPARSE),
    MissingIndicator: StepKind(_indicator, AS_GIVEN),
    Normalizer: StepKind(_free, AS_GIVEN, bounded=True),  # of rows
    OneHotEncoder: StepKind(_one_hot, AS_CHOSEN, bounded=True),
    OrdinalEncoder: StepKind(_ordinal, DENSE),
    PolynomialCountSketch: StepKind(_free, DENSE, overflows=True),
    PolynomialFeatures: StepKind(_free, AS_GIVEN, overflows=True),
    PrivateFeatureSelector: StepKind(None, AS_GIVEN),
    PrivatePCA: StepKind(None, DENSE),
    PrivateQuantileClipper: StepKind(None, DENSE, bounded=True),
    PrivateSplineTransformer: StepKind(None, DENSE),
    PrivateStandardScaler: StepKind(None, DENSE, bounded=True),
    PublicBoundsScaler: StepKind(_free, AS_GIVEN, bounded=True),
    RBFSampler: StepKind(_rbf, DENSE, overflows=True),
    RowClipper: StepKind(_free, AS_GIVEN, bounded=True),
    SimpleImputer: StepKind(_imputer, AS_GIVEN),
    SkewedChi2Sampler: StepKind(None, DENSE),
    SparseRandomProjection: StepKind(_free, AS_GIVEN, overflows=True),
    SplineTransformer: StepKind(_spline, AS_CHOSEN),
    TableEncoder: StepKind(_free, AS_CHOSEN, bounded=True),
    TfidfTransformer: StepKind(_no_idf, SPARSE),
    TfidfVectorizer: StepKind(_counts_no_idf, SPARSE),
}
# Functions of NumPy and SciPy that return a finite number for every finite number.
FINITE = (
    *(np.absolute, np.fabs, np.sign, np.negative, np.positive, np.cbrt),
    *(np.sin, np.cos, np.tanh, np.arctan, np.arcsinh, np.deg2rad),
    *(np.rint, np.floor, np.ceil, np.trunc, special.expit, special.erf, special.ndtr),
)
PIPELINES = (Pipeline, PrivatePipeline)
ENCODERS = (CategoricalDomainEncoder, OneHotEncoder)
# These depend on the dtype of their input.
KEEP_DTYPE = (OneHotEncoder, OrdinalEncoder, SimpleImputer)


def _kind_of(step: Any) -> StepKind:
    return KINDS.get(type(step), StepKind(None, UNKNOWN))


def unmet(step: Any, vouched: Vouched) -> list[str] | None:
    """Conditions that a transformer does not meet; None if there is no rule for its type."""
    rule = _kind_of(step).rule
    if rule is None:
        return None
    return [condition for condition, holds in rule(step, vouched).items() if not holds]


def fails_for(step: Any, bounded: bool) -> str:
    """Numbers for which a transformer raises or returns non-finite results; empty if none are.

    The input of a private step that an earlier step returns is not checked before the charge, and
    an error would reveal something about it. Functions of the caller's, which are declared in
    record_wise, are trusted.

    Parameters
    ----------
    step : transformer
    bounded : bool
        Whether no number in its input is beyond 1e101, whatever the records are.
    """
    kind = type(step)
    if kind in (OneHotEncoder, OrdinalEncoder) and step.handle_unknown == "error":
        return "values beyond its categories; set handle_unknown"
    if kind is FunctionTransformer and _is_elementwise(step.func):
        finite = any(step.func is function for function in FINITE)
        return "" if finite else "values at which its function is not finite"
    if kind is TfidfTransformer and step.sublinear_tf:
        return "numbers that have no logarithm; set sublinear_tf=False"
    if kind is SplineTransformer and step.extrapolation not in ("constant", "periodic"):
        return "values far beyond its knots; set extrapolation"
    if kind in (PolynomialFeatures, PolynomialCountSketch) and np.max(step.degree) > 2:
        return "large values, whose powers overflow; set degree to at most 2"
    if kind is PolynomialCountSketch and not (abs(step.gamma) <= 1e90 and abs(step.coef0) <= 1e90):
        return "large values, which overflow; set gamma and coef0 to at most 1e90"
    if _kind_of(step).overflows and not bounded:
        return "large values, which overflow; put a ColumnClipper before it"
    return ""


def enlarges(step: FeatureUnion | ColumnTransformer) -> bool:
    """Whether it weights its parts by more than 1, so that large numbers may overflow."""
    weights: Any = (step.transformer_weights or {}).values()
    return not all(isinstance(weight, Real) and abs(float(weight)) <= 1.0 for weight in weights)


def layout_of_records(X: Any) -> str:
    """The layout of records as a user passes them, which is public.

    It is "unknown" without records, and for a frame with columns of a sparse dtype, whose layout in
    scikit-learn depends on the columns that are taken.
    """
    if X is None:
        return UNKNOWN
    if sparse.issparse(X):
        return SPARSE
    dtypes = getattr(X, "dtypes", ()) if hasattr(X, "columns") else ()
    return UNKNOWN if any(str(dtype).startswith("Sparse") for dtype in dtypes) else DENSE


def dtypes_depend_on_values(X: Any) -> bool:
    """Whether a single value may change the dtypes that scikit-learn finds in X.

    A missing value does so for lists, for integers and booleans of polars, and for categories of
    numbers in pandas. The longest value does so for bytes of NumPy, since declared categories would
    be cut to its width.
    """
    if X is None or not (hasattr(X, "dtype") or hasattr(X, "dtypes")):
        return X is not None
    if getattr(getattr(X, "dtype", None), "kind", None) == "S":
        return True
    dtypes = X.dtypes if hasattr(X, "columns") else ()
    if hasattr(X, "iter_rows"):  # polars
        return any(str(dtype).startswith(("Int", "UInt", "Boolean")) for dtype in dtypes)
    categories = [dtype.categories for dtype in dtypes if str(dtype) == "category"]
    return any(values.dtype.kind in "iub" for values in categories)


class StepInput(NamedTuple):
    """What is known of the records that reach a step, whatever their values are.

    Parameters
    ----------
    layout : {"dense", "sparse", "unknown"}
        "unknown" if parameters do not decide it, or the data do.
    bounded : bool
        Whether no number is large.
    """

    layout: str
    bounded: bool = False


def output_of(step: Any, given: StepInput) -> StepInput:
    """What is known of the output of a transformer, or of "passthrough", with this input.

    Where a transformer clips to its parameters, these are bounded by 1e100 themselves.
    """
    kind = type(step)
    if isinstance(step, str) or step is None:
        return given
    if kind in PIPELINES:
        for _, child in step.steps:
            given = output_of(child, given)
        return given
    if kind is FrozenEstimator:
        return output_of(step.estimator, given)
    if kind in (FeatureUnion, ColumnTransformer):
        parts: list[Any]
        if kind is FeatureUnion:
            parts = [(name, part, None) for name, part in step.transformer_list]
        else:
            parts = [*step.transformers, ("remainder", step.remainder, ())]
        parts = [part for part in parts if not (isinstance(part[1], str) and part[1] == "drop")]
        found = [output_of(part, given) for _, part, _ in parts]
        bounded = not enlarges(step) and all(one.bounded for one in found)
        layouts = [one.layout for one in found]
        joined = _of_union(layouts) if kind is FeatureUnion else _of_columns(step, parts, layouts)
        return StepInput(joined, bounded)
    # A transformer of splines passes on the columns that it does not take.
    passes_on = kind is PrivateFeatureSelector
    passes_on |= kind is PrivateSplineTransformer and step.columns is not None
    bounded = _kind_of(step).bounded or (kind is PrivateSplineTransformer and not passes_on)
    return StepInput(_layout_of(step, given.layout), bounded or (passes_on and given.bounded))


def _layout_of(step: Any, given: str) -> str:
    """The layout of the output of a transformer that has no parts."""
    kind = type(step)
    if kind is SparseRandomProjection and step.dense_output:
        return DENSE
    if kind is MissingIndicator and step.sparse != "auto":
        return SPARSE if step.sparse else DENSE
    if kind is PublicBoundsScaler and not get_tags(step).input_tags.sparse:
        return DENSE  # it refuses any other input
    if kind is FunctionTransformer and not (step.func is None or _is_elementwise(step.func)):
        return UNKNOWN
    layout = _kind_of(step).layout
    if layout == AS_CHOSEN:
        return SPARSE if step.sparse_output else DENSE
    return given if layout == AS_GIVEN else layout


def _of_union(layouts: list[str]) -> str:
    """A union is sparse if one of its parts is."""
    if SPARSE in layouts:
        return SPARSE
    return UNKNOWN if UNKNOWN in layouts else DENSE


def _of_columns(step: ColumnTransformer, parts: list[Any], layouts: list[str]) -> str:
    """A `ColumnTransformer` with a sparse part compares the share of stored cells to a threshold.

    The share is 1 if every cell is stored, and then even a threshold of 1 gives a dense output.
    A threshold of 1 therefore needs a part that always leaves a cell empty.
    """
    if _equals(step.sparse_threshold, 0) or set(layouts) <= {DENSE}:
        return DENSE
    empty = any(_leaves_cells_empty(part) and _is_any(columns) for _, part, columns in parts)
    return SPARSE if empty and _equals(step.sparse_threshold, 1) else UNKNOWN


def _is_any(columns: Any) -> bool:
    """Whether at least one column is named, since an estimator without columns is not fitted."""
    if _is_declared(columns):
        return len(columns) > 0 and not isinstance(columns[0], (bool, np.bool_))
    return isinstance(columns, (str, Integral)) and not isinstance(columns, bool)


def _leaves_cells_empty(step: Any) -> bool:
    """Whether the output is sparse and never has a full row, as categories exclude each other."""
    if type(step) in PIPELINES:
        return _leaves_cells_empty(step.steps[-1][1])
    if type(step) not in ENCODERS or not step.sparse_output:
        return False
    if getattr(step, "drop", None) is not None:
        return False
    declared = step.categories
    if isinstance(declared, Mapping):
        declared = list(declared.values())
    if not (_is_declared(declared) and len(declared) > 0):
        return False
    if not all(_is_declared(categories) for categories in declared):
        declared = [declared]  # one list for every column
    return any(len(categories) > 1 for categories in declared)
