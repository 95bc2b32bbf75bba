"""The data of a search, and one of its fits, which runs on a worker."""

import os
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, parallel_config
from scipy import sparse
from sklearn import config_context, get_config
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite, indexable
from sklearn.utils.validation import column_or_1d

from skdpsco._config import config_context as settings
from skdpsco._quiet import quietly
from skdpsco._random import without_warnings
from skdpsco._validation import (
    check_bound,
    check_n_jobs,
    check_sparse,
    check_target,
    declared,
    refuse_masked,
    select_records,
)
from skdpsco.base.labels import classifies_labels, encode_classes, labels_note
from skdpsco.data.block_records import blocks_of
from skdpsco.data.block_sources import n_targets_of
from skdpsco.data.row_blocks import RowBlocks
from skdpsco.inspection import private_steps
from skdpsco.privacy._cache import forget_all

from ._allotment import fit_granted, quieten
from ._selection import centred_sum
from .scorers import ACCURACY, PrivateScorer

__all__ = [
    "Part",
    "check_data",
    "declare_classes",
    "fit_and_sum",
    "in_parallel",
    "n_classes_of",
    "target_bound_of",
]

_ONE_PER_RECORD = "X and y must have one row, and one real number or label, for each record."


def is_table(X: Any) -> bool:
    """Whether X is an array, a matrix, a frame, or a list of records."""
    return any(hasattr(X, name) for name in ("__len__", "__array__", "shape"))


def check_data(X: Any, y: Any, fit_params: dict[str, Any], scoring: PrivateScorer | str) -> "Part":
    """Check that X has rows to choose from, and y the same length and, if need be, finite numbers.

    Several targets are for a user's scorer: that of squared errors needs the scale of one.

    The targets of blocks are read once, here. From then on, blocks are refused if they have
    changed: a record must not be in two parts.

    Raises
    ------
    TypeError
        If X is a stream of blocks, or blocks on Dask or Spark.
    ValueError
        If y is missing, complex or of another length, a number in it is not finite, or there are
        several targets and the scorer is for one.
    """
    blocks = blocks_of(X, y)
    if (blocks is not None and blocks.engine is not None) or (blocks is None and not is_table(X)):
        raise TypeError(
            "X must be an array, a sparse matrix, a data frame, or RowBlocks of arrays or files, "
            f"since a search takes random rows of it; got {type(X).__name__}."
        )
    if blocks is not None:
        X, y, _ = blocks.labelled(whole=True)
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    refuse_masked("y", y)
    if getattr(getattr(y, "dtype", None), "kind", None) == "c":
        raise ValueError("Complex data not supported: y must be real.")
    if sparse.issparse(X):
        check_sparse(X)  # before rows are taken
    if blocks is None:
        X, y = quietly(_ONE_PER_RECORD, indexable, X, y)
    if n_targets_of(y) > 1 and scoring is not ACCURACY:
        if isinstance(scoring, str):
            raise ValueError(
                f"y must have one column where scoring is {scoring!r}. Several targets need a "
                "scorer of your own: make_private_scorer(record_score, lower, upper)."
            )
        return Part(X, check_target(y), fit_params)
    y = quietly(_ONE_PER_RECORD, column_or_1d, y, warn=True)
    return Part(X, check_target(y) if isinstance(scoring, str) else y, fit_params)


def declare_classes(candidates: Iterable[Any], y: np.ndarray) -> tuple[str, ...]:
    """Declare all labels in y, since parts may lack some; return a line for the report."""
    labels = None
    for candidate in candidates:
        for prefix, step in private_steps(candidate):
            if classifies_labels(step) and getattr(step, "classes", ()) is None:
                if labels is None:
                    quietly(_ONE_PER_RECORD, assert_all_finite, y, input_name="y")
                    labels = encode_classes(y, None)[0]
                candidate.set_params(**{f"{prefix}classes": labels})
    return () if labels is None else (labels_note(labels, None),)


def n_classes_of(estimator: Any, y: np.ndarray) -> int:
    """Number of columns of a classifier's probabilities, or 1 for other estimators."""
    if not is_classifier(estimator):
        return 1
    given = [getattr(step, "classes", None) for _, step in private_steps(estimator)]
    last = next((classes for classes in reversed(given) if classes is not None), None)
    return len(np.unique(y) if last is None else declared("classes", last))


def target_bound_of(estimators: Iterable[Any]) -> float | None:
    """The largest declared bound on y, or None."""
    bounds = [getattr(_last_step(estimator), "target_bound", None) for estimator in estimators]
    return max((check_bound("target_bound", b) for b in bounds if b is not None), default=None)


def _last_step(estimator: Any) -> Any:
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


class Part(NamedTuple):
    """Some of the records, and the arguments of ``fit`` for them."""

    X: Any
    y: np.ndarray
    fit_params: dict[str, Any]

    def rows(self, rows: np.ndarray) -> "Part":
        """A part of the part."""
        n, in_blocks = len(self.y), isinstance(self.X, RowBlocks)
        rows = np.sort(rows) if in_blocks else rows
        params = {name: select_records(value, rows, n) for name, value in self.fit_params.items()}
        X = self.X.take(rows) if in_blocks else select_records(self.X, rows, n)
        return Part(X, self.y[rows], params)

    def pairs(self) -> Iterable[tuple[Any, np.ndarray]]:
        """Features and targets, block by block."""
        return self.X if isinstance(self.X, RowBlocks) else [(self.X, self.y)]

    def fit(self, estimator: Any) -> Any:
        """Fit ``estimator`` to this part, and leave no trace other than the result."""
        try:
            # A warning may depend on values, and each try would warn, and write messages.
            with np.errstate(all="ignore"), parallel_config(max_nbytes=None, verbose=0):
                y = None if isinstance(self.X, RowBlocks) else self.y  # blocks hold it
                return estimator.fit(self.X, y, **self.fit_params)
        finally:
            forget_all()  # their counters would reveal the number of tries


@dataclass(frozen=True, eq=False)  # Dask wants a hash, and no tuple that begins with a function
class OnWorker:
    """A function for a worker, with scikit-learn's configuration from where it was made.

    Another process is silent. Threads share the filters of warnings: each of them would undo what
    the others have set. So threads must not set any, as scikit-learn's ``delayed`` does.
    """

    function: Callable[..., Any]
    config: dict[str, Any]
    process: int

    def __call__(self, *arguments: Any) -> Any:
        elsewhere = os.getpid() != self.process
        with config_context(**self.config), without_warnings() if elsewhere else nullcontext():
            return self.function(*arguments)


def in_parallel(
    function: Callable[..., Any], arguments: Iterable[Any], n_jobs: int | None, **options: Any
) -> list[Any]:
    """The results of a function for each of several tuples of arguments, by joblib's workers.

    Records are sent to other processes through pipes, since files in shared memory would outlive a
    crash.

    Raises
    ------
    TypeError, ValueError
        If ``n_jobs`` is not legal.
    """
    check_n_jobs(n_jobs)
    call = delayed(OnWorker(function, get_config(), os.getpid()))
    workers = Parallel(n_jobs=n_jobs, max_nbytes=None, **options)
    return workers(call(*one) for one in arguments)


def fit_and_sum(
    estimator: Any, train: Part, validation: Part, scorer: PrivateScorer, keep: bool
) -> tuple[float, Any]:
    """Fit on ``train``; return the exact sum of scores on ``validation``, and the model or None."""
    with settings(progress=False):  # the number of bars would be that of the tries
        fit_granted(quieten(estimator), train)
    scores = [scorer.records(estimator, X, y) for X, y in validation.pairs()]
    return centred_sum(np.concatenate(scores), scorer), estimator if keep else None
