"""Checks of what users pass in."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial, wraps
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from ._kernels import njit, reduction
from ._quiet import quietly
from ._upstream import (
    HasMethods,
    Interval,
    StrOptions,
    num_samples,
    safe_indexing,
)
from .privacy._checks import abridged, check_choice, check_int, is_number

__all__ = [
    "BY_SCHEMA",
    "FLOATS",
    "LARGEST",
    "MAX_ITER",
    "SMALLEST",
    "HasMethods",
    "Integral",
    "Interval",
    "KnownBy",
    "Real",
    "StrOptions",
    "as_numbers",
    "both_lacks",
    "check_X",
    "check_X_y",
    "check_bool",
    "check_bound",
    "check_choice",
    "check_columns",
    "check_feature_bound",
    "check_features",
    "check_fit_params",
    "check_int",
    "check_interval",
    "check_n_iter",
    "check_n_jobs",
    "check_objects",
    "check_sparse",
    "check_target",
    "check_weights",
    "check_width",
    "declared",
    "dtype_name",
    "in_column_order",
    "is_auto",
    "is_missing",
    "is_number",
    "is_undeclared",
    "read_X",
    "real_array",
    "refuse_masked",
    "select_records",
    "with_hints",
]

MANY_NUMBERS = 2**18  # numbers, which a kernel adds up in half the time that NumPy takes
FLOATS: Any = [np.float64, np.float32]  # what kernels read; other types become the first

# Products of bounds, sample sizes and Lipschitz constants must stay finite in float64.
SMALLEST, LARGEST = 1e-100, 1e100
# Noise grows with every step, and a path keeps all its points. Automatic rules ask for far fewer
# steps.
MAX_ITER = 10_000


class KnownBy(HasMethods):
    """Objects recognised by a method, with a name for messages."""

    def __init__(self, method: str, name: str) -> None:
        super().__init__(method)
        self.name = name

    def __str__(self) -> str:
        return self.name


BY_SCHEMA = KnownBy("declared", "a Schema")  # its module imports this one


def declared(name: str, value: Any) -> Any:
    """The value that a `Schema` declares for the parameter ``name``; any other value as it is."""
    return value.declared(name) if hasattr(value, "declared") else value


def in_column_order(name: str, value: Any, names: Iterable[Any] | None) -> Any:
    """Return a labelled ``value`` as a list in the order of the columns ``names``; others as is.

    A dict, a Series whose index holds strings and a `Schema` are labelled. A `Schema` may declare
    more columns than there are.

    Raises
    ------
    ValueError
        If it is labelled, and the columns have no names, or names and labels differ.
    """
    may_have_more = hasattr(value, "declared")
    is_series = hasattr(value, "to_dict") and not hasattr(value, "columns")
    if may_have_more:
        value = value.declared(name)
    elif is_series and all(isinstance(label, str) for label in value.index):
        value = value.to_dict()
    if not isinstance(value, Mapping):
        return value
    if names is None:
        raise ValueError(
            f"{name} is given by the names of columns, but X has no column names. Give X as a data "
            f"frame, or {name} as a list."
        )
    columns = list(names)
    missing = [column for column in columns if column not in value]
    unknown = [] if may_have_more else [label for label in value if label not in columns]
    if missing or unknown:
        raise ValueError(
            f"{name} must have one entry for each column of X and no others; "
            f"{both_lacks(missing, 'X lacks', unknown)}."
        )
    return [value[column] for column in columns]


def both_lacks(missing: list[Any], other: str, unknown: list[Any]) -> str:
    """A sentence about the names that are on one side only, in one part for each such side."""
    parts = (("it lacks", missing), (other, unknown))
    return ", and ".join(f"{said} {names}" for said, names in parts if names)


def check_bound(name: str, value: Any) -> float:
    """Check that the value is a positive number, and not NaN or beyond what float64 sums can hold.

    Raises
    ------
    TypeError
        If it is not a number.
    ValueError
        If it is out of range.
    """
    value = declared(name, value)
    if not is_number(value):
        raise TypeError(f"{name} must be a positive number, got {abridged(value)}.")
    number: Any = value  # unconverted, since a huge int does not fit into a float
    if not SMALLEST <= number <= LARGEST:
        raise ValueError(f"{name} must be in [{SMALLEST:g}, {LARGEST:g}], got {abridged(value)}.")
    return float(value)


def real_array(value: Any) -> np.ndarray | None:
    """The value as an array of real numbers; None if it is ragged, or holds anything else."""
    try:
        array = np.asarray(value)
    except ValueError:  # ragged lists
        return None
    return array if array.dtype.kind in "iuf" else None


def is_auto(value: Any) -> bool:
    """Whether a parameter is "auto"; arrays are not compared."""
    return isinstance(value, str) and value == "auto"


def is_undeclared(bound: Any) -> bool:
    """Whether a ``feature_bound`` leaves bounds to the fit: it is None or "auto"."""
    return bound is None or is_auto(bound)


def check_feature_bound(value: Any, n_features: int, names: Iterable[Any] | None) -> np.ndarray:
    """One bound per column, from a number or from one number per column, labelled or in order.

    Raises
    ------
    TypeError
        If it holds something other than numbers.
    ValueError
        If a bound is out of range, or there is not one per column.
    """
    if isinstance(value, Real):
        return np.full(n_features, check_bound("feature_bound", value))
    value = in_column_order("feature_bound", value, names)
    bounds = real_array(value)
    if bounds is None:
        raise TypeError(
            "feature_bound must be a positive number, or a list of one number per column of X "
            f"('auto' and None, where legal, are for all columns); got {abridged(value)}."
        )
    if bounds.shape != (n_features,):
        raise ValueError(
            f"feature_bound must be a positive number or have shape ({n_features},), one per "
            f"column of X; got shape {bounds.shape}."
        )
    bounds = bounds.astype(np.float64)
    wrong = np.flatnonzero(~((bounds >= SMALLEST) & (bounds <= LARGEST)))
    if len(wrong) > 0:
        raise ValueError(
            f"Every feature_bound must be in [{SMALLEST:g}, {LARGEST:g}]; that of column "
            f"{wrong[0]} is {bounds[wrong[0]]:g}."
        )
    return bounds


def check_n_iter(value: Any) -> int | None:
    """The checked number of steps; None for "auto".

    Raises
    ------
    TypeError
        If it is something else, such as a boolean.
    ValueError
        If it is out of range.
    """
    if isinstance(value, str) and value == "auto":
        return None
    return check_int("n_iter", value, "'auto' or ", 1, MAX_ITER)


def with_hints(**hints: str) -> Callable[..., Any]:
    """Decorate ``__init__`` with hints for parameters of other names that users look for.

    The signature stays what it is.

    Parameters
    ----------
    **hints : str
        For the name of each such parameter, a sentence about what to use instead.
    """

    def decorate(init: Callable[..., None]) -> Callable[..., None]:
        @wraps(init)
        def __init__(self: Any, *args: Any, **params: Any) -> None:
            for name in hints.keys() & params.keys():
                raise TypeError(f"{type(self).__name__} has no parameter {name!r}. {hints[name]}")
            init(self, *args, **params)

        vars(__init__)["hints"] = hints  # for set_params
        return __init__

    return decorate


def check_fit_params(estimator: Any, fit_params: dict[str, Any]) -> Any:
    """Return the sample weights, which need a declared bound; refuse unknown names.

    Raises
    ------
    ValueError
        If there are sample weights, and the estimator has no ``max_weight``.
    TypeError
        If an argument is unknown.
    """
    weights = fit_params.pop("sample_weight", None)
    if fit_params:
        raise TypeError(f"fit() got unexpected arguments {sorted(fit_params)}.")
    if weights is not None and getattr(estimator, "max_weight", None) is None:
        hint = ", or declare max_weight" if hasattr(estimator, "max_weight") else ""
        raise ValueError(
            "sample_weight is not supported, since the noise is made for records of weight one. "
            f"Pass sample_weight=None{hint}."
        )
    return weights


def check_weights(weights: Any, max_weight: Any, n_samples: int) -> np.ndarray:
    """Sample weights, clipped to ``max_weight`` and divided by it.

    Raises
    ------
    TypeError
        If ``max_weight`` is not a number.
    ValueError
        If ``max_weight`` is out of range, or the weights are not one real number >= 0 per record.
    """
    largest = check_bound("max_weight", max_weight)
    refuse_masked("sample_weight", weights)
    _refuse_complex("sample_weight", getattr(weights, "dtype", None))
    message = f"sample_weight must be one finite number >= 0 for each of {n_samples} records."
    weights = as_numbers(message, weights)
    if weights.shape != (n_samples,) or not (weights >= 0.0).all() or np.isinf(weights).any():
        raise ValueError(message)
    return np.minimum(weights, largest) / largest


def as_numbers(message: str, values: Any) -> np.ndarray:
    """Values as an array of float64, without what NumPy would take for numbers: dates, text.

    Raises
    ------
    ValueError
        If they are not real numbers, with this message.
    TypeError
        For types that no array holds, with this message, too.
    """
    found = quietly(message, np.asarray, values)
    dates = (np.datetime64, np.timedelta64)
    odd = found.dtype == object and any(isinstance(value, dates) for value in found.ravel())
    if odd or found.dtype.kind not in "biufO":
        raise ValueError(message)
    return quietly(message, found.astype, np.float64)


def check_X_y(
    estimator: Any, X: Any, y: Any, y_numeric: bool, **options: Any
) -> tuple[Any, np.ndarray]:
    """Finite float64 X, a C-ordered array or CSR matrix, and a one-dimensional y.

    What has this form already is not copied. ``options`` are those of scikit-learn's
    ``validate_data``, such as ``dtype=FLOATS`` for kernels that read float32 numbers as they are.

    Raises
    ------
    TypeError
        If X or y has the wrong type, such as a Dask collection.
    ValueError
        If X or y has the wrong shape, or is not finite and numeric.
    """
    if hasattr(X, "__dask_graph__"):  # X and y would be evaluated separately, perhaps in two orders
        raise TypeError(
            f"{_LEGAL}, got a Dask {type(X).__name__}. Compute features and targets at once: "
            "X, y = dask.compute(X, y)."
        )
    if hasattr(type(X), "mapInArrow"):
        raise TypeError(f"{_LEGAL}, got a frame of Spark. Collect it: frame.toPandas().")
    refuse_masked("y", y)
    _refuse_complex("y", getattr(y, "dtype", None))
    options = {"dtype": np.float64, **options}
    if options.keys() == {"dtype"} and _is_plain(estimator, X, y, options["dtype"]):
        estimator.n_features_in_ = X.shape[1]
    else:
        options |= {"accept_sparse": "csr", "order": "C"}
        X, y = read_X(X, validate_data, estimator, X, y, **options)
    return X, check_target(y) if y_numeric else y


def _is_plain(estimator: Any, X: Any, y: Any, dtype: Any) -> bool:
    """Whether scikit-learn would only find finite arrays, which takes it longer than small sums."""
    if not type(X) is type(y) is np.ndarray or hasattr(estimator, "feature_names_in_"):
        return False
    in_order = X.flags.c_contiguous and y.flags.c_contiguous
    shaped = X.ndim == 2 and y.ndim == 1 and 0 < len(X) == len(y) and X.shape[1] > 0
    dtypes = dtype if isinstance(dtype, list) else [dtype]
    if not (in_order and shaped and X.dtype in dtypes and y.dtype.kind in "biuf"):
        return False
    # An infinite sum of finite numbers is left to scikit-learn.
    with np.errstate(all="ignore"):
        total = X.sum() if X.size < MANY_NUMBERS else sum_of(X.ravel())
        return bool(np.isfinite(total) and np.isfinite(y.sum()))


@njit
def sum_of(numbers):
    return _sum_of_numbers(numbers)


@reduction
def _sum_of_numbers(numbers):
    total = 0.0
    for i in range(numbers.shape[0]):
        total += numbers[i]
    return total


def check_X(estimator: Any, X: Any) -> Any:
    """X for a prediction: finite, with the features of the fit."""
    return read_X(X, validate_data, estimator, X, accept_sparse="csr", dtype=FLOATS, reset=False)


def _refuse_complex(name: str, dtype: Any) -> None:
    # scikit-learn refuses it too, but prints the data.
    if getattr(dtype, "kind", None) == "c":
        raise ValueError(f"Complex data not supported: {name} must be real, got {dtype}.")


def refuse_masked(name: str, values: Any) -> None:
    """Refuse an array whose mask NumPy would drop.

    Raises
    ------
    TypeError
        If it is a masked array.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} must not be a masked array, whose mask would be ignored. Put a public "
            "constant in the place of masked entries: filled(0.0), for instance."
        )


def check_sparse(X: Any) -> Any:
    """A new matrix around the arrays of a sparse one, whose entries must all lie within its shape.

    SciPy's own functions write beyond their memory if an entry lies outside. Matrices in the
    formats LIL, DOK and DIA are returned as they are: SciPy checks where it puts their entries.

    Raises
    ------
    ValueError
        If the arrays do not fit together, or an entry has no place.
    """
    if X.format == "coo" and X.ndim == 2:
        places = np.stack([X.row, X.col])
        if (places < 0).any() or (places >= np.array(X.shape)[:, None]).any():
            raise ValueError("X is not a valid COO matrix: entries lie outside of its shape.")
    kinds = {"csr": sparse.csr_matrix, "csc": sparse.csc_matrix, "bsr": sparse.bsr_matrix}
    if X.format not in kinds or X.ndim != 2:
        return X
    try:
        # SciPy caches whether a matrix is canonical, so make a new matrix around the same arrays.
        # It also drops entries beyond the last row, which no check looks at.
        fresh = kinds[X.format]((X.data, X.indices, X.indptr), shape=X.shape)
        fresh.check_format(full_check=True)
        if len(X.data) != len(X.indices):
            raise ValueError("its arrays do not fit together.")
        if X.indices.dtype.kind not in "iu" or X.indptr.dtype.kind not in "iu":
            raise ValueError("its index arrays must hold integers.")
    except (ValueError, TypeError) as error:
        reason = str(error)
    else:
        return fresh
    raise ValueError(f"X is not a valid {X.format.upper()} matrix: {reason}")


_DECLARE = (
    "declare the columns in a skdpsco.Schema, and fit skdpsco.make_private_pipeline(schema, "
    "model). (Additive models take schema=schema instead.)"
)
_LEGAL = "X must be an array, a sparse matrix or a data frame of shape (n_samples, n_features)"


def read_X(X: Any, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Apply a function of scikit-learn to X; errors say what X must be, never its values.

    Dates are refused: NumPy would take them for numbers.

    Raises
    ------
    TypeError
        If X is not an array, a sparse matrix or a frame of numbers.
    ValueError
        If the function refuses X.
    """
    if hasattr(X, "n_blocks"):
        raise TypeError(
            f"{_LEGAL}: this model does not take RowBlocks, as its solvers read samples or a "
            "clipped copy of the records many times. See docs/scaling.md for those that do."
        )
    if hasattr(type(X), "collect_schema") and not hasattr(type(X), "shape"):
        raise TypeError(
            f"{_LEGAL}, got a {type(X).__name__}, which has no records yet: collect it."
        )
    if isinstance(X, Mapping) or (hasattr(X, "columns") and not hasattr(X, "dtypes")):
        raise TypeError(f"{_LEGAL}, got {type(X).__name__}.")  # a dict, an Arrow table
    refuse_masked("X", X)
    columns = X.columns if hasattr(X, "columns") else [None]
    dtypes = X.dtypes if hasattr(X, "columns") else [getattr(X, "dtype", None)]
    for name, dtype in zip(columns, dtypes, strict=True):
        is_temporal = getattr(dtype, "is_temporal", None)  # polars
        if _dtype_kind(dtype) in ("m", "M") or (is_temporal and is_temporal()):
            where = "" if name is None else f" in column {name!r}"
            raise ValueError(
                f"X must be numeric, got {dtype}{where}. Turn dates into numbers first, or "
                f"{_DECLARE}"
            )
        if getattr(dtype, "kind", None) == "V":  # records with fields
            raise TypeError(f"{_LEGAL}, got an array of dtype {dtype}.")
        _refuse_complex("X", dtype)
    if sparse.issparse(X):
        check_sparse(X)
    return quietly(partial(_about_X, X), function, *args, **options)


def _about_X(X: Any, error: Exception) -> str:
    message = str(error)
    if message.startswith("Input X contains NaN"):
        return _NO_VALUE.format(_first_column(X, is_missing))
    if message.startswith("Input X contains"):  # infinity
        return message.rstrip(".") + _first_column(X, _is_infinite) + "."
    where = "".join(f" in column {name!r}" for name in _columns_of_no_numbers(X)[:1])
    if message.startswith("could not convert string"):
        return f"X must be numeric, but contains text{where}. Encode text first: {_DECLARE}"
    if message.startswith("Expected 2D array"):
        return (
            f"{message.partition(' instead')[0]} instead. {_LEGAL}. Reshape your data: "
            "X.reshape(-1, 1) if it is one feature, X.reshape(1, -1) if it is one record."
        )
    if isinstance(error, OverflowError):
        return f"X contains a number that is too large for float64{where}."
    if message.startswith("setting an array element with a sequence"):
        return f"{_LEGAL}, of numbers: a sequence is among its entries{where}."
    if message.startswith("float() argument must be"):  # a number, and names the type
        return f"{_LEGAL}, of numbers{where}: {message}."
    y = "one number or label per record, none missing."
    if message.startswith("boolean value of NA is ambiguous"):  # scikit-learn compares labels
        return f"y must be {y}"
    return f"{_LEGAL}, of real numbers{where}; and y, if it is needed, {y}"


# What scikit-learn recommends, such as the means of the columns, would not be private.
_NO_VALUE = (
    "Input X contains NaN, and missing values are not supported{}. Put a public constant in their "
    "place, for instance with SimpleImputer(strategy='constant', fill_value=0.0, "
    "add_indicator=True): means and medians of the data are not private."
)


def _is_infinite(value: Any) -> bool:
    return isinstance(value, Real) and abs(value) == np.inf


def _first_column(X: Any, has: Callable[[Any], bool]) -> str:
    """Where the first column is that has such a value: by its name, or by its number."""
    with suppress(Exception):  # objects may raise anything when they are read
        if sparse.issparse(X):
            entries = X.tocoo()
            return f": see column {entries.col[[has(one) for one in entries.data]].min()}"
        names = list(X.columns) if hasattr(X, "columns") else None
        values = getattr(X, "iloc", X if hasattr(X, "shape") else np.asarray(X, dtype=object))
        for j in range(X.shape[1] if hasattr(X, "shape") else values.shape[1]):
            if any(has(one) for one in np.asarray(values[:, j]).tolist()):
                return f": see column {j if names is None else repr(names[j])}"
    return ""


def _columns_of_no_numbers(X: Any) -> list[Any]:
    """Names of the columns of a frame that hold something other than numbers."""
    found = []
    for name, dtype in zip(X.columns, X.dtypes, strict=True) if hasattr(X, "columns") else ():
        if _dtype_kind(dtype) not in tuple("biuf"):
            try:
                np.asarray(X[name]).astype(np.float64)
            except Exception:  # objects may raise anything when they are converted to a number
                found.append(name)
    return found


def _dtype_kind(dtype: Any) -> str | None:
    """NumPy's letter for a dtype; for Arrow's dictionaries, that of the dtype of their values."""
    return getattr(_of_values(dtype), "kind", None)


def _of_values(dtype: Any) -> Any:
    """The dtype of the values of Arrow's dictionaries; any other dtype as it is."""
    values = getattr(getattr(dtype, "pyarrow_dtype", None), "value_type", None)
    return dtype if values is None else type(dtype)(values)


def dtype_name(dtype: Any, of_categories: bool = False) -> str:
    """The name of a dtype in lower case, for numbers that of NumPy, whatever the library is.

    ``of_categories`` asks for the dtype of the categories of a column that has some.
    """
    if of_categories:
        dtype = getattr(getattr(dtype, "categories", None), "dtype", _of_values(dtype))
    sparse = str(dtype).startswith("Sparse")
    numbers = getattr(dtype, "subtype" if sparse else "numpy_dtype", dtype)
    return str(numbers if getattr(numbers, "kind", "O") in "biuf" else dtype).lower()


_NUMERIC = "y must be numeric, but contains text or other objects that are not numbers."


def check_target(y: Any) -> np.ndarray:
    """Finite float64 targets.

    Raises
    ------
    ValueError
        If a target is not a finite number.
    """
    y = quietly(_NUMERIC, np.asarray, y)
    if y.dtype.kind not in "biufO":
        raise ValueError(f"y must be numeric, got dtype {y.dtype}.")
    y = as_numbers(_NUMERIC, y)
    if not np.isfinite(y).all():
        raise ValueError("y must be finite, but contains NaN, None or infinity.")
    return y


def check_interval(low_name: str, low: Any, high_name: str, high: Any) -> tuple[float, float]:
    """Check two finite numbers in increasing order, whose difference noise can be scaled to.

    Raises
    ------
    TypeError
        If an end is not a number.
    ValueError
        If an end is out of range, or the ends do not increase.
    """
    for name, value in ((low_name, low), (high_name, high)):
        if not is_number(value):
            raise TypeError(f"{name} must be a finite number, got {abridged(value)}.")
        if not abs(float(value)) <= LARGEST:
            raise ValueError(
                f"{name} must be in [{-LARGEST:g}, {LARGEST:g}], got {abridged(value)}."
            )
    if not float(high) - float(low) >= SMALLEST:
        raise ValueError(f"{low_name} must be less than {high_name}, got {low!r} and {high!r}.")
    return float(low), float(high)


def select_records(values: Any, rows: np.ndarray, n_samples: int) -> Any:
    """The given ``rows`` of what has one entry per record; anything else as it is."""
    try:
        per_record = num_samples(values) == n_samples
    except TypeError:  # a number, None
        per_record = False
    message = "X and what comes with it must be arrays, lists or frames, so that rows can be taken."
    return quietly(message, safe_indexing, values, rows) if per_record else values


# --- transformers


def check_features(estimator: Any, X: Any, reset: bool, dtype: Any = np.float64) -> Any:
    """Finite X, a C-ordered array or CSR matrix of ``dtype``, with the features of the fit.

    Raises
    ------
    ValueError
        If X is not finite and numeric, or does not have the features of the fit.
    """
    options = {"accept_sparse": "csr", "dtype": dtype, "order": "C", "reset": reset}
    return read_X(X, validate_data, estimator, X, **options)


def check_width(estimator: Any, X: Any) -> Any:
    """Finite float64 X with as many columns as in the fit, whatever their names are."""
    options = {"accept_sparse": "csr", "dtype": np.float64, "order": "C", "input_name": "X"}
    X = read_X(X, check_array, X, **options)
    expected = getattr(estimator, "n_features_in_", X.shape[1])  # some estimators need no fit
    if X.shape[1] != expected:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{expected} features as input."
        )
    return X


def check_columns(
    name: str, value: Any, n_features: int, names: Iterable[Any] | None
) -> np.ndarray:
    """One finite number per column, from a number or from one number per column.

    Raises
    ------
    TypeError
        If it holds something other than numbers.
    ValueError
        If a number is out of range, or there is not one per column.
    """
    legal = (
        f"{name} must be a number in [{-LARGEST:g}, {LARGEST:g}], or a list of one such number for "
        f"each of {n_features} columns of X"
    )
    value = in_column_order(name, value, names)
    refuse_masked(name, value)
    numbers = real_array(value)
    if numbers is None:
        raise TypeError(f"{legal}; got {abridged(value)}.")
    if numbers.shape not in ((), (n_features,)):
        raise ValueError(f"{legal}; got shape {numbers.shape}.")
    if not ((numbers >= -LARGEST) & (numbers <= LARGEST)).all():
        raise ValueError(f"{legal}; got {abridged(value)}.")
    return np.full(n_features, numbers, dtype=np.float64)


def check_objects(estimator: Any, X: Any, reset: bool) -> tuple[np.ndarray, list[Any]]:
    """X as an object array of unconverted values, and each column's dtype.

    Raises
    ------
    ValueError, TypeError
        Never because of a value.
    """
    options: dict[str, Any] = {"dtype": object, "ensure_all_finite": False}
    if hasattr(X, "iter_rows"):
        # In arrays of polars, a column of integers with one null holds floats.
        read_X(X, validate_data, estimator, X, reset=reset, skip_check_array=True)
        values = read_X(X, check_array, X.rows(), **options)
    else:
        values = read_X(X, validate_data, estimator, X, reset=reset, **options)
    n_features = values.shape[1]
    dtypes = X.dtypes if hasattr(X, "dtypes") else [getattr(X, "dtype", "object")] * n_features
    return values, list(dtypes)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or pandas.NA."""
    if isinstance(value, Real):
        return bool(value != value)
    return value is None or type(value).__name__ == "NAType"  # pandas, which may be absent


def check_n_jobs(n_jobs: Any) -> None:
    """Check a number of workers, as joblib takes it.

    Raises
    ------
    TypeError
        If it is neither None nor an integer.
    ValueError
        If it is 0, or larger than any machine allows.
    """
    legal = f"n_jobs must be None or an int other than 0, got {n_jobs!r}."
    if n_jobs is None:
        return
    if not is_number(n_jobs, Integral):
        raise TypeError(legal)
    if n_jobs == 0 or not -(2**31) < int(n_jobs) < 2**31:
        raise ValueError(legal)


def check_bool(name: str, value: Any) -> bool:
    """Check that the value is True or False.

    Raises
    ------
    TypeError
        If it is something else.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, got {abridged(value)}.")
    return value
