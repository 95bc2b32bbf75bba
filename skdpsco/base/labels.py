"""Labels of a classification, their numbers, and the targets that follow from them."""

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from skdpsco._quiet import quietly

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
        If y holds a label outside ``classes``, or ``classes`` are not at least two different
        labels.
    """
    if classes is None:
        # Not called for declared classes, since it warns about the number of labels.
        quietly(_LABELS, check_classification_targets, y)
        classes, index = quietly(_LABELS, np.unique, y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                "Classification needs at least two classes, but y contains only one class. If "
                "others are possible, declare all of them: classes=[...]."
            )
        return classes, index
    message = (
        "classes must be a list of at least two different labels, all numbers or all strings, got "
        f"{classes!r}."
    )
    try:
        # NumPy would turn numbers among strings, a NaN for instance, into strings.
        mixed = len({isinstance(c, str) for c in np.asarray(classes, dtype=object).flat}) > 1
        given = np.asarray(classes)
        unique = np.unique(given)
    except (TypeError, ValueError) as error:  # labels that cannot be sorted, ragged lists
        raise ValueError(message) from error
    if mixed or given.ndim != 1 or len(unique) != len(given) or len(given) < 2:
        raise ValueError(message)
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise ValueError(f"classes must be finite, got {classes!r}.")
    if (given.dtype.kind in "OUS") != (y.dtype.kind in "OUS"):
        raise ValueError(
            f"classes must have the type of the labels in y: {given.dtype} against {y.dtype}."
        )
    index = quietly(_LABELS, np.searchsorted, unique, y).clip(max=len(unique) - 1)
    if not quietly(_LABELS, np.all, unique[index] == y):
        # The labels themselves are not printed: which ones occur is private.
        raise ValueError(f"y contains labels that are not among classes={unique.tolist()!r}.")
    return unique, index


def declared_classes(classes: Any) -> np.ndarray:
    """The classes of labels in blocks, sorted.

    Raises
    ------
    ValueError
        If they are not declared: labels of blocks are not looked at for them.
    """
    if classes is None:
        raise ValueError("classes must be declared where X is in blocks: a list of all labels.")
    return encode_classes(np.asarray(classes)[:0], classes)[0]


def as_targets(classes: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Targets as losses expect them: -1 and 1 for two classes, else class indices."""
    return 2.0 * index - 1.0 if len(classes) == 2 else index.astype(np.float64)


def labels_note(classes: Any, declared: Any) -> str:
    """Line of a report about the labels; ``declared`` is the parameter, None if not given."""
    source = "read off y" if declared is None else "declared"
    return f"the {len(classes)} labels are public ({source})"
