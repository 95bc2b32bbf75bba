"""Labels of classes and of groups, their numbers, and the targets made from them."""

from collections.abc import Hashable
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.utils.multiclass import check_classification_targets

from skdpsco._quiet import quietly
from skdpsco._validation import declared, is_missing, refuse_masked
from skdpsco.losses.library import with_weights
from skdpsco.privacy._checks import abridged

__all__ = [
    "as_targets",
    "class_factors",
    "classifies_labels",
    "declared_classes",
    "encode_classes",
    "group_numbers",
    "indicators",
    "labels_note",
    "labels_of",
    "named_columns",
    "relative_weights",
]


def classifies_labels(estimator: Any) -> bool:
    """Whether the targets of an estimator are labels; those of a regressor with `classes` are not.

    Feature selectors say so by their ``task``.
    """
    task = getattr(estimator, "task", "classification" if is_classifier(estimator) else None)
    return task == "classification"


_LABELS = "y must hold one label per record, all numbers or all strings."


def encode_classes(y: np.ndarray, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Classes, and the index of every label among them.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
    classes : array-like or None
        The public labels; None for those that occur in y, which must be at least two.

    Returns
    -------
    classes : ndarray of shape (n_classes,), sorted
    index : ndarray of shape (n_samples,), int64

    Raises
    ------
    ValueError
        If y holds a label outside ``classes`` or None, or ``classes`` are not at least two
        different labels.
    """
    classes = declared("classes", classes)
    if y.dtype.kind == "O" and any(label is None for label in y.flat):
        raise ValueError("y must hold labels, none of them missing.")
    if classes is None:
        labels = y.dtype.kind in "biuU"  # whatever they are
        classes = quietly(_LABELS, np.unique, y) if labels else None
        if classes is None or 2 * len(classes) > len(y):
            # Not called for declared classes, since it warns about the number of labels.
            quietly(_LABELS, check_classification_targets, y)
            classes = quietly(_LABELS, np.unique, y)
        if len(classes) < 2:
            raise ValueError(
                "Classification needs at least two classes, but y contains only one class. If "
                "others are possible, declare all of them: classes=[...]."
            )
        return classes, np.searchsorted(classes, y)
    message = (
        "classes must be a list of at least two different labels, all numbers or all strings, got "
        f"{abridged(classes)}."
    )
    try:
        # NumPy would turn a number among strings, NaN for instance, into a string.
        mixed = len({isinstance(c, str) for c in np.asarray(classes, dtype=object).flat}) > 1
        given = np.asarray(classes)
        unique = np.unique(given)
    except (TypeError, ValueError) as error:  # labels that cannot be sorted, ragged lists
        raise ValueError(message) from error
    if mixed or given.ndim != 1 or len(unique) != len(given) or len(given) < 2:
        raise ValueError(message)
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise ValueError(f"classes must be finite, got {abridged(classes)}.")
    if given.dtype.kind in "iu" and len(np.unique(given.astype(np.float64))) < len(given):
        # One label that is a float makes floats of all in a list.
        raise ValueError(f"classes must differ as floats, or be strings, got {abridged(classes)}.")
    if (given.dtype.kind in "OUS") != (y.dtype.kind in "OUS"):
        encoded = (
            " Meta-estimators such as VotingClassifier, and cross_val_predict of probabilities, "
            "pass labels on as integers: for them declare these, classes=[0, 1], for instance."
        )
        raise ValueError(
            f"classes must have the type of the labels in y: {given.dtype} against {y.dtype}. (A "
            f"Schema declares classes, too.){encoded if y.dtype.kind in 'iu' else ''}"
        )
    index = quietly(_LABELS, np.searchsorted, unique, y).clip(max=len(unique) - 1)
    if not quietly(_LABELS, np.all, unique[index] == y):
        # The labels themselves are not printed: which ones occur is private.
        raise ValueError(f"y contains labels that are not among classes={unique.tolist()!r}.")
    return unique, index


def indicators(y: np.ndarray, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Classes, and one column for each, which is 1 where the label is that class and otherwise 0.

    Raises
    ------
    ValueError
        If `encode_classes` raises it.
    """
    classes, index = encode_classes(y, classes)
    return classes, np.eye(len(classes))[index]


def declared_classes(classes: Any) -> np.ndarray:
    """The classes of labels in blocks, sorted.

    Raises
    ------
    ValueError
        If they are not declared: labels in blocks are not searched for them.
    """
    if classes is None:
        raise ValueError("classes must be declared where X is in blocks: a list of all labels.")
    labels = declared("classes", classes)
    return encode_classes(np.asarray(labels)[:0], labels)[0]


def as_targets(
    classes: np.ndarray, index: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Targets as losses expect them: -1 and 1 for two classes, otherwise class indices.

    With ``weights`` in [0, 1] they are those that `Weighted` and a weighted `Multinomial` expect.
    """
    if len(classes) == 2:
        signs = 2.0 * index - 1.0
        return signs if weights is None else with_weights(signs, weights)
    return index.astype(np.float64) if weights is None else index + weights / 2.0


def class_factors(class_weight: Any, classes: np.ndarray) -> np.ndarray:
    """The weight of each class.

    Parameters
    ----------
    class_weight : dict or None
        Weights by label; those of other classes are 1.
    classes : ndarray of shape (n_classes,)

    Raises
    ------
    ValueError
        If it is a string, names another label, or a weight is not a number in [1e-6, 1e6].
    """
    factors = np.ones(len(classes))
    if class_weight is None:
        return factors
    if isinstance(class_weight, str):
        raise ValueError(
            f"class_weight={class_weight!r} would count the labels of the data. Declare a dict of "
            "weights, such as one over the publicly known share of each class."
        )
    for label, weight in class_weight.items():
        places = np.flatnonzero([label == one for one in classes.tolist()])
        if len(places) == 0:
            raise ValueError(f"class_weight has a label {label!r} that is not among the classes.")
        if not isinstance(weight, Real) or not 1e-6 <= float(weight) <= 1e6:
            raise ValueError(f"class_weight must hold numbers in [1e-6, 1e6], got {weight!r}.")
        factors[places] = weight
    return factors


def relative_weights(class_weight: Any, classes: np.ndarray) -> tuple[float, ...] | None:
    """The weight of each class as a share of the largest; None if all are the same.

    Raises
    ------
    ValueError
        As `class_factors` does.
    """
    factors = class_factors(class_weight, classes)
    return None if np.ptp(factors) == 0.0 else tuple((factors / factors.max()).tolist())


def labels_note(classes: Any, given: Any) -> str:
    """Line of a report about the labels; ``given`` is the parameter, None if it is not declared."""
    source = "read off y" if given is None else "declared"
    return f"the {len(classes)} labels are public ({source})"


def named_columns(X: Any, sensitive_features: Any) -> tuple[Any, ...]:
    """The columns of the frame X that are named; empty if ``sensitive_features`` holds labels.

    Raises
    ------
    ValueError
        If a name is given and X has no column with this name.
    """
    columns = list(getattr(X if hasattr(X, "shape") else None, "columns", ()))
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


def labels_of(name: str, X: Any, values: Any) -> list[Hashable]:
    """One label per record, which is a tuple of labels if there are several columns.

    Parameters
    ----------
    name : str
        Name of the parameter, for error messages.
    X : array-like or None
        Frame whose columns may be named; None if none may be.
    values : array-like of shape (n_samples,) or (n_samples, n_columns), str or list of str

    Raises
    ------
    TypeError
        If ``values`` is sparse or masked.
    ValueError
        If ``values`` has the wrong shape, or a label is missing or cannot be hashed.
    """
    columns = () if X is None else named_columns(X, values)
    if columns:
        values = X[list(columns)]
    refuse_masked(name, values)
    if sparse.issparse(values):
        raise TypeError(f"{name} must be dense: labels, one per record.")
    legal = f"{name} must hold labels that can be hashed and compared, one per record."
    # Convert to Python numbers, so that labels of all dtypes compare equal.
    array = quietly(legal, np.asarray, values, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise ValueError(
            f"{name} must hold labels: shape (n,), or (n, n_columns) for groups that are products "
            f"of columns; got shape {array.shape}."
        )
    labels = [tuple(row) for row in array] if array.ndim == 2 else array.tolist()
    distinct: Any = quietly(legal, set, labels)
    if any(is_missing(part) for one in distinct for part in (one if array.ndim == 2 else (one,))):
        raise ValueError(f"{name} must not contain missing labels: None, NaN or NA.")
    return labels


def group_numbers(
    labels: list[Hashable], groups: list[Hashable], name: str = "sensitive_features"
) -> np.ndarray:
    """The number of every record's group; messages call the labels by their ``name``.

    Raises
    ------
    ValueError
        If a label is not among ``groups``.
    """
    place = {label: i for i, label in enumerate(groups)}
    legal = f"{name} must hold labels that can be compared with groups={abridged(groups)}."
    found: Any = quietly(legal, lambda: [place.get(label, -1) for label in labels])
    index = np.array(found, dtype=np.int64)
    if (index < 0).any():
        raise ValueError(f"{name} contains a label that is not among groups={abridged(groups)}.")
    return index
