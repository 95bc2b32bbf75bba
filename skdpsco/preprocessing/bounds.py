"""Transformers that bring records into public bounds, and learn nothing from the data."""

from collections.abc import Mapping
from dataclasses import field
from math import fsum
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin
from sklearn.utils import gen_batches

from skdpsco._typing import MatrixLike, Self, TargetLike
from skdpsco._validation import (
    BY_SCHEMA,
    SMALLEST,
    Interval,
    KnownBy,
    Real,
    StrOptions,
    check_bound,
    check_columns,
    check_feature_bound,
    check_features,
    check_interval,
    check_width,
    in_column_order,
)
from skdpsco.base.documentation import Documented
from skdpsco.base.parameters import Constraints, with_parameters
from skdpsco.base.plain import clipped_steps, scaler_between
from skdpsco.base.transformer import BlockTransformerMixin
from skdpsco.data.block_records import first_record
from skdpsco.data.design import Dense, as_design
from skdpsco.privacy._checks import abridged

__all__ = [
    "ColumnClipper",
    "PublicBoundsScaler",
    "RowClipper",
    "check_bounds",
    "check_pair",
    "clip_columns",
    "map_range",
]

ORDERS: dict[str, float] = {"l1": 1, "l2": 2, "max": np.inf}
ENTRIES_AT_ONCE = 2**20  # entries of temporary arrays at any time


class _Stateless(Documented, OneToOneFeatureMixin, BlockTransformerMixin, BaseEstimator):
    """A map of single records with public parameters; `fit` learns nothing."""

    def fit(self, X: MatrixLike, y: TargetLike = None) -> Self:
        """Check the parameters and X. Nothing is learnt.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or blocks
            For instance `RowBlocks`; one record of blocks is checked.
        y : None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            For parameters out of range and for input that is not finite and numeric.
        """
        self._check(first_record(X), reset=True)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.requires_fit = False
        return tags


@with_parameters()
class RowClipper(_Stateless):
    """Scale every record that is too long down onto a ball of public radius.

    A record whose norm exceeds `bound` is multiplied by a number below 1, which keeps its
    direction; the others are unchanged. The map does not depend on the data, so it costs no privacy
    budget, and replacing one record changes only one row of the output.

    Parameters
    ----------
    norm : {"l1", "l2", "max"}, default="l2"
        Norm of a record: the sum of magnitudes, the Euclidean norm, or the largest magnitude.
    bound : float, dict, Series or Schema, default=1.0
        Public radius of the ball, > 0. Bounds of columns by name stand for the length of the
        longest record within them.

    Attributes
    ----------
    {n_features_in_, feature_names_in_}

    See Also
    --------
    skdpsco.preprocessing.ColumnClipper : Clips every column.
    sklearn.preprocessing.Normalizer : Also lengthens short rows.

    Notes
    -----
    The exact norm of every row of the output is at most `bound`, in spite of rounding. Rows that
    are scaled stay below `bound` by a fraction of at most ``2**-51 * (n_features + 8)`` for the
    norms l1 and l2, and of ``2**-52`` for "max".

    Examples
    --------
    >>> from skdpsco.preprocessing import RowClipper
    >>> RowClipper("max", bound=2.0).fit_transform([[3.0, 4.0], [1.0, -2.0]])
    array([[ 1.5,  2. ],
           [ 1. , -2. ]])
    """

    norm: Literal["l1", "l2", "max"] = field(default="l2", kw_only=False)
    bound: ArrayLike | Mapping[str, Any] = field(default=1.0, kw_only=False)

    _parameter_constraints: ClassVar[Constraints] = {
        "norm": [StrOptions({"l1", "l2", "max"})],
        "bound": [
            Interval(Real, 0, None, closed="neither"),
            dict,
            KnownBy("to_dict", "a Series"),
            BY_SCHEMA,
        ],
    }

    def _check(self, X, reset: bool):
        self._validate_params()
        X = check_features(self, X, reset)
        if isinstance(self.bound, Real):
            return check_bound("bound", self.bound), X
        names = getattr(self, "feature_names_in_", None)
        bounds = in_column_order("bound", self.bound, names)
        if bounds is self.bound:
            raise TypeError(
                f"bound must be a positive number, or bounds by the names of columns, got "
                f"{abridged(self.bound)}."
            )
        bounds = check_feature_bound(bounds, X.shape[1], names)
        return check_bound("bound", float(np.linalg.norm(bounds, ORDERS[self.norm]))), X

    def transform(self, X: MatrixLike) -> Any:
        """Clip the norms of records.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        X_out : ndarray or CSR matrix of shape (n_samples, n_features), float64
            A copy, sparse if X is.

        Raises
        ------
        ValueError, TypeError
            As for `fit`, and if the features are not those of the fit.
        """
        bound, X = self._check(X, reset=False)
        n, d = X.shape
        design = as_design(X, np.ones(d), False)
        if isinstance(design, Dense):
            data, indptr = design.values.ravel(), np.arange(n + 1) * d
        else:
            data, indptr = design.data, design.indptr
        data = data.copy()
        # Twice the possible error of sums of d terms, roots and quotients.
        slack = 0.0 if self.norm == "max" else (d + 8) * 2.0**-52
        with np.errstate(all="ignore"):
            for rows in gen_batches(n, max(1, ENTRIES_AT_ONCE // d)):
                ends = indptr[rows.start : rows.stop + 1]
                _clip_rows(data[ends[0] : ends[-1]], np.diff(ends), self.norm, bound, slack)
        return _rebuild(X, design, data)


@with_parameters()
class PublicBoundsScaler(_Stateless):
    """Map public bounds of every column onto a range, after clipping into the bounds.

    It does what `sklearn.preprocessing.MinMaxScaler` does, with minima and maxima that are declared
    rather than learnt. The map does not depend on the data, so it costs no privacy budget, and
    replacing one record changes only one row of the output.

    Parameters
    ----------
    lower, upper : float, array-like, dict, Series or Schema, default=-1.0, 1.0
        Public bounds of the columns, in order or by name; values beyond them are clipped silently.
    feature_range : tuple of two floats, default=(-1.0, 1.0)
        The range onto which `lower` and `upper` are mapped.

    Attributes
    ----------
    {n_features_in_, feature_names_in_}

    See Also
    --------
    skdpsco.preprocessing.ColumnClipper : Clips, and keeps the units.
    skdpsco.preprocessing.PrivateStandardScaler : For generous bounds.
    sklearn.preprocessing.MinMaxScaler : Finds bounds in the data, which is not private.

    Notes
    -----
    No output is outside `feature_range`, not even by a rounding error. X may be sparse if zeros
    stay zeros, that is if ``lower == -upper`` and ``feature_range[0] == -feature_range[1]``.

    Examples
    --------
    >>> from skdpsco.preprocessing import PublicBoundsScaler
    >>> PublicBoundsScaler(lower=[18, 0], upper=[90, 1]).fit_transform([[54, 0.25], [17, 1.0]])
    array([[ 0. , -0.5],
           [-1. ,  1. ]])
    """

    lower: ArrayLike = field(default=-1.0, kw_only=False)
    upper: ArrayLike = field(default=1.0, kw_only=False)
    feature_range: tuple[float, float] = field(default=(-1.0, 1.0), kw_only=False)

    def _keeps_zeros(self) -> bool:
        try:
            pairs = (self.lower, self.upper), tuple(self.feature_range)
            return all(np.all(np.equal(low, np.negative(high))) for low, high in pairs)
        except (TypeError, ValueError, OverflowError):  # `fit` checks the parameters
            return False

    def _check(self, X, reset: bool, named: bool = True):
        """X, the bounds of its columns, and the range, as two pairs."""
        X = check_features(self, X, reset) if named else check_width(self, X)
        bounds = check_bounds(self, X.shape[1])
        ends = check_pair("feature_range", self.feature_range)
        if not (isinstance(X, np.ndarray) or self._keeps_zeros()):
            raise ValueError(
                "X is sparse, but its zeros would not stay zeros. Choose lower == -upper and a "
                "symmetric feature_range, or make X dense."
            )
        return X, bounds, ends

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._keeps_zeros()
        return tags

    def transform(self, X: MatrixLike) -> Any:
        """Clip into the bounds and map them onto `feature_range`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        X_out : ndarray or CSR matrix of shape (n_samples, n_features), float64
            A copy, sparse if X is.

        Raises
        ------
        ValueError, TypeError
            As for `fit`, and if the features are not those of the fit.
        """
        X, bounds, ends = self._check(X, reset=False)
        return map_range(X, bounds, ends)

    def _plain_steps(self) -> list[tuple[str, Any]]:
        bounds, ends = check_bounds(self, self.n_features_in_), self.feature_range
        return [("clip", scaler_between(*bounds, ends))]

    def inverse_transform(self, X: MatrixLike) -> np.ndarray:
        """Clip into `feature_range` and map it onto the bounds.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        X_original : ndarray or CSR matrix of shape (n_samples, n_features), float64
            Values within the bounds.

        Raises
        ------
        ValueError, TypeError
            As for `transform`.
        """
        X, bounds, ends = self._check(X, reset=False, named=False)
        return map_range(X, ends, bounds)


@with_parameters()
class ColumnClipper(_Stateless):
    """Clip every column into its public bounds, and keep the units.

    The map does not depend on the data, so it costs no privacy budget, and replacing one record
    changes only one row of the output.

    Parameters
    ----------
    lower, upper : float, array-like, dict, Series or Schema, default=-1.0, 1.0
        Public bounds of the columns, in order or by name.

    Attributes
    ----------
    {n_features_in_, feature_names_in_}

    See Also
    --------
    skdpsco.preprocessing.PublicBoundsScaler : Maps the bounds to -1 and 1.
    skdpsco.preprocessing.RowClipper : Clips the norms of rows.
    skdpsco.preprocessing.PrivateQuantileClipper : Finds ranges privately.

    Notes
    -----
    X may be sparse if zeros stay zeros, that is if no lower bound is above 0 and no upper bound is
    below it.

    Examples
    --------
    >>> from skdpsco.preprocessing import ColumnClipper
    >>> ColumnClipper(lower=[18, 0], upper=[90, 1]).fit_transform([[54, 0.25], [17, 3.0]])
    array([[54.  ,  0.25],
           [18.  ,  1.  ]])
    """

    lower: ArrayLike | Mapping[str, Any] = field(default=-1.0, kw_only=False)
    upper: ArrayLike | Mapping[str, Any] = field(default=1.0, kw_only=False)

    def _check(self, X, reset: bool):
        """X, and the lower and upper bounds of its columns."""
        X = check_features(self, X, reset)
        lower, upper = check_bounds(self, X.shape[1])
        if not isinstance(X, np.ndarray) and ((lower > 0.0).any() or (upper < 0.0).any()):
            raise ValueError(
                "X is sparse, but its zeros would not stay zeros. Choose bounds with 0 between "
                "them, or make X dense."
            )
        return X, lower, upper

    def transform(self, X: MatrixLike) -> Any:
        """Clip into the bounds.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        X_out : ndarray or CSR matrix of shape (n_samples, n_features), float64
            A copy, sparse if X is.

        Raises
        ------
        ValueError, TypeError
            As for `fit`, and if the features are not those of the fit.
        """
        return clip_columns(*self._check(X, reset=False))

    def _plain_steps(self) -> list[tuple[str, Any]]:
        return clipped_steps(*check_bounds(self, self.n_features_in_))


def _entries_by_column(X) -> tuple[Any, np.ndarray, Any]:
    """The design of X, its entries, and in which columns they are."""
    design = as_design(X, np.ones(X.shape[1]), False)
    if isinstance(design, Dense):
        return design, design.values, slice(None)
    return design, design.data, design.indices


def clip_columns(X: Any, lower: np.ndarray, upper: np.ndarray) -> Any:
    """Clip the columns of an array or CSR matrix; bounds of sparse ones have 0 between them."""
    design, entries, columns = _entries_by_column(X)
    return _rebuild(X, design, np.clip(entries, lower[columns], upper[columns]))


def _rebuild(X, design, data: np.ndarray):
    """X with ``data`` in place of its entries."""
    if isinstance(design, Dense):
        return data.reshape(X.shape)
    return type(X)((data, design.indices, design.indptr), shape=X.shape, copy=True)


def check_bounds(
    transformer: Any, n_features: int, names: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Check the public bounds ``lower`` and ``upper`` of the columns that a transformer has seen.

    ``names`` are those of the columns, if they are not all that it has seen.

    Raises
    ------
    TypeError, ValueError
        If a bound is not a finite number, there is not one per column, or a lower bound is not
        below its upper one.
    """
    names = getattr(transformer, "feature_names_in_", None) if names is None else names
    lower = check_columns("lower", transformer.lower, n_features, names)
    upper = check_columns("upper", transformer.upper, n_features, names)
    wrong = np.flatnonzero(~(upper - lower >= SMALLEST))
    if len(wrong) > 0:
        j = wrong[0]
        raise ValueError(
            f"lower must be less than upper, by at least {SMALLEST:g}; those of column {j} are "
            f"{lower[j]:g} and {upper[j]:g}."
        )
    return lower, upper


def check_pair(name: str, pair: Any) -> tuple[float, float]:
    """Check that a pair is two finite numbers in increasing order.

    Raises
    ------
    TypeError, ValueError
        If ``pair`` is not two finite numbers in increasing order.
    """
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(f"{name} must be a tuple of two numbers, got {abridged(pair)}.")
    return check_interval(f"{name}[0]", pair[0], f"{name}[1]", pair[1])


def map_range(X: MatrixLike, source: Any, target: Any) -> Any:
    """Map intervals ``source`` of columns onto ``target``, and values beyond them to its ends."""
    (design, data, columns), ones = _entries_by_column(X), np.ones(X.shape[1])
    a, b, c, d = ((end * ones)[columns] for end in (*source, *target))
    with np.errstate(all="ignore"):
        # Use distances from the centre: with symmetry, zero stays zero, and small numbers keep
        # their digits.
        x = (data - (a + b) / 2) / ((b - a) / 2)
        data = np.clip((c + d) / 2 + x * ((d - c) / 2), c, d)
    return _rebuild(X, design, data)


def _clip_rows(data: np.ndarray, lengths: np.ndarray, norm: str, bound: float, slack: float):
    """Scale rows, which lie one after the other in ``data``, down onto a ball, in place."""
    norms = _norms(data, lengths, norm)
    outside = norms > bound * (1.0 + slack)
    doubtful = (norms > bound * (1.0 - slack)) & ~outside
    outside[doubtful] = _exceeds(data[np.repeat(doubtful, lengths)], lengths[doubtful], norm, bound)
    entries = np.repeat(outside, lengths)
    rows, lengths = data[entries], lengths[outside]
    # Without exponents, squares and sums can neither overflow nor vanish.
    exponents = np.frexp(_norms(rows, lengths, "max"))[1]
    rows = np.ldexp(rows, -np.repeat(exponents, lengths))
    factors = bound / _norms(rows, lengths, norm) * (1.0 - slack)
    data[entries] = np.clip(rows * np.repeat(factors, lengths), -bound, bound)


def _norms(data: np.ndarray, lengths: np.ndarray, norm: str) -> np.ndarray:
    """Norms of rows that lie one after the other in ``data``; infinite where they overflow."""
    out = np.zeros(len(lengths))
    filled = lengths > 0  # reduceat would give an empty row the next entry
    starts = (np.cumsum(lengths) - lengths)[filled]
    if norm == "max":
        out[filled] = np.maximum.reduceat(np.abs(data), starts)
    elif norm == "l1":
        out[filled] = np.add.reduceat(np.abs(data), starts)
    else:
        out[filled] = np.sqrt(np.add.reduceat(data * data, starts))
    return out


def _exceeds(data: np.ndarray, lengths: np.ndarray, norm: str, bound: float) -> list[bool]:
    """Whether l1 or l2 norms of rows, which are close to ``bound``, exceed it exactly."""
    terms, limit = np.abs(data)[:, None], np.array([[bound]])
    if norm == "l2":
        exponent = np.frexp(bound)[1]
        terms, limit = (_square(x[:, 0], exponent) for x in (terms, limit))
    ends = np.cumsum(lengths)
    below = (-limit[0]).tolist()
    # A correctly rounded sum has the sign of the exact sum.
    return [
        fsum(terms[end - length : end].ravel().tolist() + below) > 0.0
        for end, length in zip(ends, lengths, strict=True)
    ]


def _square(x: np.ndarray, exponent: int) -> np.ndarray:
    """Squares of ``x >= 0`` over ``4**exponent``, each as an exact sum of three numbers.

    ``x`` is below ``2**(exponent + 1)``. Tiny numbers are rounded up, so that nothing underflows.
    """
    x = np.where(x > 0.0, np.maximum(np.ldexp(x, -exponent), 2.0**-400), 0.0)
    # Dekker 1971: halves of 26 bits, whose products are exact.
    shifted = x * (2.0**27 + 1.0)
    high = shifted - (shifted - x)
    low = x - high
    return np.stack([high * high, 2.0 * high * low, low * low], axis=1)
