"""One-hot columns of public categories. Nothing is learnt from the data."""

from dataclasses import field
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from skdpsco._typing import MatrixLike, Self, TargetLike
from skdpsco._upstream import feature_names_in
from skdpsco._validation import check_objects, dtype_name, in_column_order, is_missing
from skdpsco.base.column_functions import ColumnFunction, feature_steps
from skdpsco.base.documentation import Documented
from skdpsco.base.parameters import Constraints, with_parameters
from skdpsco.base.transformer import BlockTransformerMixin
from skdpsco.data.block_records import first_record
from skdpsco.data.categories import check_categories, codes_among, is_list
from skdpsco.privacy._checks import abridged

__all__ = ["CategoricalDomainEncoder"]

# What columns can hold, by the beginnings of their dtypes' names, in any library.
HOLDS: dict[tuple[str, ...], type] = {
    ("int", "uint", "float", "bool"): Real,
    ("<u", "str"): str,
    ("|s",): bytes,
}


@with_parameters()
class CategoricalDomainEncoder(Documented, BlockTransformerMixin, BaseEstimator):
    """One-hot columns of public categories.

    It does what `sklearn.preprocessing.OneHotEncoder` does, with categories that are declared
    rather than learnt. A value that is not declared silently becomes zeros only, since an error or
    a warning would reveal that it occurs. The map does not depend on the data, so it costs no
    privacy budget, and replacing one record changes only one row of the output.

    Parameters
    ----------
    categories : list, list of lists, dict, Series or Schema
        Public categories in the order of the output columns: one list for all columns of X, or one
        per column, in order or by name. A list holds different numbers or different strings, and
        None or NaN if missing values should have a column of their own.
    dtype : dtype, default=numpy.float64
        Real number type of the output.
    sparse_output : bool, default=False
        Whether the output is a CSR matrix.

    Attributes
    ----------
    categories_ : list of ndarray
        The declared categories of every column.
    {n_features_in_, feature_names_in_}

    See Also
    --------
    TableEncoder : For whole tables.
    sklearn.preprocessing.OneHotEncoder : Finds categories in the data, which is not private.

    Notes
    -----
    Values are compared with ``==``: 1, 1.0 and True are equal, 1 and "1" are not. Categories of a
    column of float16 or float32 are rounded as its values are. For a reference category without a
    column of its own, declare all other categories.

    Examples
    --------
    >>> from skdpsco.preprocessing import CategoricalDomainEncoder
    >>> encoder = CategoricalDomainEncoder([["red", "green"], [1, 2, 3]])
    >>> encoder.fit_transform([["green", 1], ["blue", 3]])
    array([[0., 1., 1., 0., 0.],
           [0., 0., 0., 0., 1.]])
    """

    categories: Any = field(kw_only=False)
    dtype: Any = np.float64
    sparse_output: bool = False

    _parameter_constraints: ClassVar[Constraints] = {"sparse_output": ["boolean"]}

    def fit(self, X: MatrixLike, y: TargetLike = None) -> Self:
        """Check the parameters against the columns of X. Nothing is learnt from its values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or blocks
            Numbers, strings or both. One record of blocks, such as `RowBlocks`, is checked.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The encoder itself.

        Raises
        ------
        ValueError, TypeError
            If categories are not legal, do not match the columns of X, or cannot occur in a column
            of its dtype; if X is sparse or complex, or contains dates.
        """
        self._validate_params()
        _check_dtype(self.dtype)
        _, dtypes = check_objects(self, first_record(X), reset=True)
        names = getattr(self, "feature_names_in_", None)
        declared = _declared_categories(self.categories, len(dtypes), names)
        for j, (categories, dtype) in enumerate(zip(declared, dtypes, strict=True)):
            _check_possible(j, categories, dtype)
        self.categories_ = declared
        return self

    def transform(self, X: MatrixLike) -> Any:
        """Encode X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numbers, strings or both.

        Returns
        -------
        X_out : ndarray or CSR matrix of shape (n_samples, n_categories)
            The columns of the first feature, then those of the second, and so on.

        Raises
        ------
        ValueError, TypeError
            If the features are not those of the fit.
        """
        check_is_fitted(self)
        values, dtypes = check_objects(self, X, reset=False)
        codes = np.empty(values.shape, dtype=np.int64)
        for j, (categories, dtype) in enumerate(zip(self.categories_, dtypes, strict=True)):
            codes[:, j] = codes_among(values[:, j], categories, dtype)
        encoder = OneHotEncoder(
            categories=[np.arange(len(categories)) for categories in self.categories_],
            handle_unknown="ignore",
            dtype=self.dtype,
            sparse_output=self.sparse_output,
        )
        return encoder.set_output(transform="default").fit_transform(codes)

    def _plain_steps(self) -> list[tuple[str, Any]]:
        functions = []
        for categories in self.categories_:
            places = {category: k for k, category in enumerate(categories)}
            lost = next((places.pop(c) for c in categories if is_missing(c)), None)
            functions.append(ColumnFunction.indicators(places, len(categories), lost))
        return feature_steps(functions, getattr(self, "feature_names_in_", None))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the output columns, each made of the column's name, "_" and the category.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns, None for those of the fit.

        Returns
        -------
        names : ndarray of str objects
            One name per column of what `transform` returns.
        """
        check_is_fitted(self)
        names = feature_names_in(self, input_features)
        pairs = zip(names, self.categories_, strict=True)
        return np.array([f"{name}_{c}" for name, categories in pairs for c in categories], object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags


def _check_dtype(dtype: Any) -> None:
    try:
        legal = np.dtype(dtype).kind in "biuf"
    except TypeError:
        legal = False
    if not legal:
        raise TypeError(f"dtype must be a real number type of NumPy, got {abridged(dtype)}.")


def _declared_categories(
    categories: Any, n_features: int, names: np.ndarray | None
) -> list[np.ndarray]:
    """One checked array of categories per column."""
    given = in_column_order("categories", categories, names)
    if names is not None and given is not categories:  # labelled
        pairs = zip(names, given, strict=True)
        return [check_categories(f"categories[{name!r}]", listed) for name, listed in pairs]
    if not is_list(categories):
        raise TypeError(
            "categories must be a list, one list per column of X, or a dict of lists, got "
            f"{abridged(categories)}. They are public: reading them off the data would not be "
            "private."
        )
    if not any(is_list(item) for item in categories):
        return [check_categories("categories", categories)] * n_features
    if len(categories) != n_features:
        raise ValueError(
            f"categories must be one list, or one list for each of {n_features} columns of X; got "
            f"{len(categories)} lists."
        )
    return [check_categories(f"categories[{j}]", item) for j, item in enumerate(categories)]


def _check_possible(j: int, categories: np.ndarray, dtype: Any) -> None:
    """Refuse categories that can only give zeros; this uses dtypes, which are public."""
    name = dtype_name(dtype)
    for beginnings, kind in HOLDS.items():
        impossible = not any(isinstance(c, kind) or is_missing(c) for c in categories)
        if name.startswith(beginnings) and impossible:
            raise ValueError(
                f"Column {j} of X has dtype {name}, which holds none of the categories "
                f"{categories.tolist()!r}. Numbers and strings differ, even 1 and '1'."
            )
