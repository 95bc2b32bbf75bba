"""Tables that are public: placeholders of a shape, and planted records for simulations."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import MetaEstimatorMixin
from sklearn.utils import get_tags

from skdpsco._random import public_generator
from skdpsco._validation import check_bound, check_feature_bound, check_int, is_undeclared
from skdpsco.base.labels import classifies_labels, declared_classes
from skdpsco.base.private_estimator import PrivateEstimator
from skdpsco.data.schema import Schema
from skdpsco.linear_model.links import resolve_link
from skdpsco.privacy._checks import abridged, library
from skdpsco.survival import PrivateLogRank, PrivateSurvivalRegressor
from skdpsco.synthesis import PrivateSynthesizer

__all__ = ["check_plannable", "check_shape", "placeholder", "planted"]

# Largest number of entries of a placeholder, and of records of one without many columns. Zeros take
# no memory if the system maps pages when they are written, but a fit looks at each of them.
MOST_ENTRIES, MOST_RECORDS = 2**30, 2**27
RELEVANT = 5  # columns of planted records that targets depend on


class Shape(NamedTuple):
    """The public facts about the records of a fit, with the names and the defaults of `plan`."""

    n_samples: int
    n_features: int
    names: list[str] | None = None
    n_classes: int = 2
    n_groups: int = 2
    n_targets: int = 1
    is_sparse: bool = False


def check_shape(
    n_samples: Any,
    n_features: Any,
    *,
    n_classes: Any = 2,
    n_groups: Any = 2,
    n_targets: Any = 1,
    sparse: Any = False,
) -> Shape:
    """Check the shape, and return it.

    Raises
    ------
    TypeError
        If a number is not an integer, ``n_features`` is neither an integer nor a list of names, or
        ``sparse`` is not a bool.
    ValueError
        If a number is out of range, or the table would be too large.
    """
    names = None
    if isinstance(n_features, Sequence) and not isinstance(n_features, str):
        names = list(n_features)
        if not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
            raise TypeError("n_features must be an int >= 1 or a list of different names.")
        n_features = len(names)
    n = check_int("n_samples", n_samples)
    d = check_int("n_features", n_features, "a list of names or ")
    for name, value in {"n_classes": n_classes, "n_groups": n_groups}.items():
        check_int(name, value, low=2)
    check_int("n_targets", n_targets)
    if not isinstance(sparse, (bool, np.bool_)):
        raise TypeError(f"sparse must be a bool, got {abridged(sparse)}.")
    if n > MOST_RECORDS or (not sparse and n * d > MOST_ENTRIES):
        raise ValueError(
            f"n_samples must be at most {MOST_RECORDS}, and n_samples times n_features at most "
            f"{MOST_ENTRIES} unless sparse=True; got {n} and {d}."
        )
    return Shape(n, d, names, int(n_classes), int(n_groups), int(n_targets), bool(sparse))


def check_plannable(estimator: Any) -> None:
    """Check that an estimator is private by itself, and that its input is a table of numbers.

    Raises
    ------
    TypeError
        If it is not such an estimator.
    """
    if isinstance(estimator, type) or not isinstance(estimator, PrivateEstimator):
        raise TypeError(
            "estimator must be a private estimator of this package, got "
            f"{abridged(estimator)}. Plan the private steps of a pipeline one by one: "
            "skdpsco.inspection.private_steps names them."
        )
    if isinstance(estimator, (MetaEstimatorMixin, PrivateSynthesizer)):
        raise TypeError(
            f"{type(estimator).__name__} cannot be planned by its shape alone: what it costs "
            "follows from its candidates or its domain. Its budget is a bound on the cost."
        )


def labels_for(estimator: Any, n_classes: int) -> np.ndarray:
    """The declared labels, or this many numbers."""
    classes = getattr(estimator, "classes", None)
    return np.arange(n_classes) if classes is None else declared_classes(classes)


def placeholder(estimator: Any, shape: Shape) -> tuple[Any, Any, dict[str, Any]]:
    """Features of zeros, targets of ones or labels, and further arguments of ``fit``."""
    n, d = shape.n_samples, shape.n_features
    X: Any = sparse.csr_array((n, d)) if shape.is_sparse else np.zeros((n, d))
    schema = getattr(estimator, "schema", None)
    X = as_frame(X, shape) if schema is None else declared_frame(schema, shape)
    y: Any = np.ones(n)  # legal where targets must be positive
    if classifies_labels(estimator):
        classes = labels_for(estimator, shape.n_classes)
        y = classes[np.arange(n) % len(classes)]
    if isinstance(estimator, PrivateSurvivalRegressor):
        y = np.ones((n, 2))  # events and times
    several = shape.n_targets > 1 and get_tags(estimator).target_tags.multi_output
    if several or getattr(estimator, "tasks", None) == "columns":
        y = np.tile(y[:, None], (1, shape.n_targets))
    groups = getattr(estimator, "groups", None)
    if groups is None and not hasattr(estimator, "group_membership"):
        return X, y, {}
    labels = list(range(shape.n_groups)) if groups is None else list(groups)
    repeated = (labels * -(-n // len(labels)))[:n]
    if isinstance(estimator, PrivateLogRank):
        return X, repeated, {}
    return X, y, {"sensitive_features": repeated}


def as_frame(X: Any, shape: Shape) -> Any:
    """X as a frame, if columns have names.

    Raises
    ------
    ImportError
        If columns have names, and pandas is not installed.
    """
    if shape.names is None:
        return X
    pd = library("pandas", "Names of columns need pandas: pip install pandas.")
    if shape.is_sparse:
        return pd.DataFrame.sparse.from_spmatrix(X, columns=shape.names)
    return pd.DataFrame(X, columns=shape.names)


def declared_frame(schema: Schema, shape: Shape) -> Any:
    """A frame of zeros, first categories and a date, for an estimator that reads a schema."""
    d = shape.n_features
    others = [f"x{j}" for j in range(d - len(schema.features))]
    shape = shape._replace(names=shape.names or [*schema.features, *others][:d])
    frame = as_frame(np.zeros((shape.n_samples, d)), shape)
    values = {name: column.values() for name, column in schema.columns.items()}
    values |= {name: ["1970-01-01"] for name, column in schema.columns.items() if column.dates}
    return frame.assign(**{k: v[0] for k, v in values.items() if v and k in frame.columns})


class Planted(NamedTuple):
    """Records of a planted linear model, and the predictions of that model."""

    X: Any
    y: np.ndarray
    best: np.ndarray


def planted(estimator: Any, shape: Shape, signal: float, random_state: Any) -> Planted:
    """Draw records: uniform features within their bounds, and targets that depend on a few of them.

    A target is ``sqrt(signal)`` times a sum of features of variance 1 plus normal noise of variance
    ``1 - signal``, in units of a third of ``target_bound``. The label is the class with the largest
    of such sums. With a link it is one of the ends of the link's range, whose mean is the link of
    twice the sum.
    """
    rng = public_generator(random_state)
    n, d = shape.n_samples, shape.n_features
    X = rng.uniform(-1.0, 1.0, (n, d))
    columns = rng.permutation(d)[:RELEVANT]
    labels = classifies_labels(estimator)
    classes = labels_for(estimator, shape.n_classes) if labels else None
    k = 1 if classes is None or len(classes) == 2 else len(classes)
    weights = rng.choice([-1.0, 1.0], (len(columns), k))
    if k > 1:  # two classes must not have the same
        weights = rng.normal(size=weights.shape)
        weights *= math.sqrt(len(columns)) / np.linalg.norm(weights, axis=0)
    scores = X[:, columns] @ weights * math.sqrt(3.0 / len(columns))
    noise = rng.normal(size=scores.shape)
    mixed = math.sqrt(signal) * scores + math.sqrt(1.0 - signal) * noise
    if classes is not None:

        def largest(z):
            return classes[z.argmax(axis=1) if k > 1 else (z[:, 0] > 0.0).astype(int)]

        best, y = largest(scores), largest(mixed)
    elif hasattr(estimator, "link"):
        link = resolve_link(estimator.link, getattr(estimator, "target_bound", None))
        best = link(2.0 * scores[:, 0])
        share = (best - link.low) / (link.high - link.low)
        y = np.where(rng.random_sample(n) < share, link.high, link.low)
    else:
        bound = getattr(estimator, "target_bound", None)
        unit = 1.0 if bound is None else check_bound("target_bound", bound) / 3.0
        best, y = unit * math.sqrt(signal) * scores[:, 0], unit * mixed[:, 0]
    bounds = getattr(estimator, "feature_bound", None)
    X *= check_feature_bound(1.0 if is_undeclared(bounds) else bounds, d, shape.names)
    return Planted(as_frame(X, shape), y, best)
