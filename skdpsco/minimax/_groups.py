"""Groups of records: labels from an array or from columns of X, and the list of groups."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from scipy import sparse

from skdpsco._validation import is_missing


def named_columns(X: Any, sensitive_features: Any) -> tuple[Any, ...]:
    """The columns of the frame X that are named; none if ``sensitive_features`` holds labels.

    Raises
    ------
    ValueError
        If a name is given, and X has no column of that name.
    """
    columns = list(getattr(X, "columns", ()))
    if isinstance(sensitive_features, str):
        if columns.count(sensitive_features) != 1:
            raise ValueError(
                f"sensitive_features={sensitive_features!r} must be the name of one column of X, "
                "a frame, or an array of one label per record."
            )
        return (sensitive_features,)
    if isinstance(sensitive_features, (list, tuple)) and len(sensitive_features) > 0:
        names = list(sensitive_features)
        if all(isinstance(name, str) and columns.count(name) == 1 for name in names):
            return tuple(dict.fromkeys(names))
    return ()


def without(X: Any, columns: tuple[Any, ...]) -> Any:
    """The frame X without those of ``columns`` that it has."""
    have = getattr(X, "columns", ())
    drop = [name for name in columns if name in have]
    if not drop:
        return X
    return X.drop(drop) if hasattr(X, "iter_rows") else X.drop(columns=drop)


def labels_of(name: str, X: Any, values: Any) -> list[Hashable]:
    """One label per record; a tuple of labels where there are several columns.

    Parameters
    ----------
    name : str
        Of the parameter, for errors.
    X : array-like
        Whose columns may be named.
    values : array-like of shape (n_samples,) or (n_samples, n_columns), str or list of str

    Raises
    ------
    ValueError, TypeError
    """
    columns = named_columns(X, values)
    if columns:
        values = X[list(columns)]
    if sparse.issparse(values):
        raise TypeError(f"{name} must be dense: labels, one per record.")
    array = np.asarray(values, dtype=object)  # numbers of Python, so that labels of any dtype agree
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise ValueError(
            f"{name} must hold labels: shape (n,), or (n, n_columns) for groups that are products "
            f"of columns; got shape {array.shape}."
        )
    labels = [tuple(row) for row in array] if array.ndim == 2 else array.tolist()
    try:
        distinct = set(labels)
    except TypeError as error:
        raise TypeError(f"{name} must hold labels that can be hashed.") from error
    if any(is_missing(part) for one in distinct for part in (one if array.ndim == 2 else (one,))):
        raise ValueError(f"{name} must not contain missing labels: None, NaN or NA.")
    return labels


def index_groups(
    groups: Any, labels: list[Hashable], n_samples: int
) -> tuple[list[Hashable], np.ndarray]:
    """The list of groups, and the index of every record's group in it.

    Parameters
    ----------
    groups : array-like or None
        The public list; None takes the labels that occur, in their order.
    labels : list
    n_samples : int

    Raises
    ------
    ValueError
    """
    if len(labels) != n_samples:
        raise ValueError(
            f"sensitive_features must hold one label per record: {n_samples} records in X, "
            f"{len(labels)} labels."
        )
    if groups is None:
        distinct: Any = set(labels)
        try:
            declared = sorted(distinct)
        except TypeError:  # of several types
            declared = sorted(distinct, key=lambda label: (type(label).__name__, repr(label)))
    else:
        declared = labels_of("groups", None, groups)
        if len(set(declared)) != len(declared):
            raise ValueError(f"groups must hold different labels, got {groups!r}.")
    place = {label: i for i, label in enumerate(declared)}
    index = np.array([place.get(label, -1) for label in labels], dtype=np.int64)
    if (index < 0).any():
        raise ValueError(
            f"sensitive_features contains a label that is not among groups={declared!r}."
        )
    empty = np.flatnonzero(np.bincount(index, minlength=len(declared)) == 0)
    if len(empty) > 0:
        raise ValueError(
            f"groups: {declared[empty[0]]!r} has no member. Leave out groups without members: "
            "nothing can be learnt about them."
        )
    return declared, index


def as_array(labels: list[Hashable]) -> np.ndarray:
    """Labels as a one-dimensional array: of numbers or strings if all are, else of objects."""
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= {bool, int, float, str}:
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
