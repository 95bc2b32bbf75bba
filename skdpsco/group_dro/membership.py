"""Groups of records: labels or a matrix of booleans, and the list of groups."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skdpsco._validation import is_missing
from skdpsco.base.labels import group_numbers, labels_of
from skdpsco.privacy._checks import abridged
from skdpsco.solvers.groups.problem import GroupedTargets

__all__ = [
    "Membership",
    "as_array",
    "from_groups",
    "membership_of",
    "weighted_targets",
    "with_groups",
]


@dataclass(frozen=True)
class Membership:
    """The groups of every record.

    Parameters
    ----------
    groups : list
        Labels of the groups.
    matrix : csr_array of shape (n_samples, n_groups)
        A 1 for every group of a record.
    overlapping : bool
        Whether a record may be in several groups, or in none.
    """

    groups: list[Hashable]
    matrix: Any  # CSR
    overlapping: bool

    @property
    def sizes(self) -> np.ndarray:
        """Number of members of every group."""
        return np.bincount(self.matrix.indices, minlength=len(self.groups))

    def check_no_group_is_empty(self) -> None:
        """Check that every group has members.

        Raises
        ------
        ValueError
            If a group has no member.
        """
        empty = np.flatnonzero(self.sizes == 0)
        if len(empty) > 0:
            raise ValueError(
                f"groups: {self.groups[empty[0]]!r} has no member. Leave out groups without "
                "members: nothing can be learnt about them."
            )


def membership_of(groups: Any, X: Any, sensitive_features: Any, n_samples: int) -> Membership:
    """The list of groups, and the groups of every record.

    Parameters
    ----------
    groups : array-like or None
        The public list. None takes the columns of a boolean matrix, or else the labels that occur,
        in sorted order.
    X : array-like
        Frame whose columns may be named.
    sensitive_features : array-like, str or list of str
        A boolean matrix with one column per group; anything else is as in `labels_of`.
    n_samples : int

    Raises
    ------
    TypeError
        If labels have the wrong type.
    ValueError
        If a label is missing or not among ``groups``, a list or matrix has the wrong size or order,
        or ``groups`` repeats a label.
    """
    values, overlapping = sensitive_features, _is_matrix(sensitive_features)
    if overlapping:
        member = np.asarray(values)
        if member.dtype != bool:  # a frame whose values may be missing
            if any(is_missing(value) for value in member.flat):
                raise ValueError("sensitive_features must not contain missing values.")
            member = member.astype(bool)
        names = list(getattr(values, "columns", range(member.shape[1])))
        declared = names if groups is None else labels_of("groups", None, groups)
        if len(declared) != len(names):
            raise ValueError(
                f"groups must hold one label per column of sensitive_features: {len(names)} "
                f"columns, {len(declared)} labels."
            )
        if hasattr(values, "columns") and declared != names and set(declared) == set(names):
            raise ValueError(
                "groups must be in the order of the columns of sensitive_features: columns "
                f"{names!r}, groups {declared!r}."
            )
        matrix = sparse.csr_array(member.astype(np.float64))
    else:
        labels = labels_of("sensitive_features", X, values)
        declared = _distinct(labels) if groups is None else labels_of("groups", None, groups)
        matrix = in_one_group(group_numbers(labels, declared), len(declared))
    n_records = matrix.shape[0]
    if len(set(declared)) != len(declared):
        raise ValueError(f"groups must hold different labels, got {abridged(declared)}.")
    if n_records != n_samples:
        what = "row" if overlapping else "label"
        raise ValueError(
            f"sensitive_features must hold one {what} per record: {n_samples} records in X, "
            f"{n_records} {what}s."
        )
    return Membership(declared, matrix, overlapping)


def in_one_group(index: np.ndarray, n_groups: int) -> Any:
    """The matrix of a `Membership` of records that are in one group each."""
    n = len(index)
    return sparse.csr_array((np.ones(n), index, np.arange(n + 1)), shape=(n, n_groups))


def with_groups(t: np.ndarray, membership: Membership) -> np.ndarray:
    """Targets and groups as one array of records, which blocks can take as their targets."""
    if membership.overlapping:
        groups = membership.matrix.toarray().astype(bool)
        fields: Any = [("t", np.float64), ("member", bool, groups.shape[1:])]
    else:
        groups = membership.matrix.indices
        fields = [("t", np.float64), ("group", np.int64)]
    both = np.empty(len(t), dtype=fields)
    both["t"], both[both.dtype.names[1]] = t, groups
    return both


def from_groups(both: np.ndarray, n_groups: int) -> GroupedTargets:
    """What solvers see of an array made by `with_groups`."""
    if "member" in (both.dtype.names or ()):
        matrix = sparse.csr_array(both["member"].astype(np.float64))
    else:
        matrix = in_one_group(both["group"], n_groups)
    return GroupedTargets(both["t"], matrix)


def weighted_targets(both: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Targets, and weights of records from the ``rates`` of groups."""
    grouped = from_groups(both, len(rates))
    return np.column_stack([grouped.t, grouped.membership @ rates])


def _is_matrix(values: Any) -> bool:
    """Whether ``values`` is an array or a frame of two or more columns, all boolean.

    A single boolean column defines two groups, like any column with two labels.
    """
    shape: tuple[int, ...] = getattr(values, "shape", ())
    if len(shape) != 2 or shape[1] < 2 or sparse.issparse(values):
        return False
    dtypes = values.dtypes if hasattr(values, "columns") else [getattr(values, "dtype", None)]
    return all(str(dtype).lower().startswith("bool") for dtype in dtypes)  # frames say "boolean"


def _distinct(labels: list[Hashable]) -> list[Any]:
    distinct: Any = set(labels)
    try:
        return sorted(distinct)
    except TypeError:  # labels of several types
        return sorted(distinct, key=lambda label: (type(label).__name__, repr(label)))


def as_array(labels: list[Hashable]) -> np.ndarray:
    """Labels as a one-dimensional array of numbers or strings if possible, otherwise of objects."""
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= {bool, int, float, str}:
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
