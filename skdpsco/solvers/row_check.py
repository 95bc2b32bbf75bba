"""A check that kernels compute the same numbers for a record wherever it stands.

Where a record is added, those behind it move. Why that must not change their numbers, and what is
checked: docs/proofs/added_records.md, section 3.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from skdpsco.data.design import Tiles
from skdpsco.data.pieces import row_squares
from skdpsco.data.products import as_lengths, as_vector, norms_of, predict_all, run_room
from skdpsco.losses.library import Weighted, for_kernels, with_weights
from skdpsco.solvers.gradient_sums import GradientLimits, add_gradients

__all__ = ["check_rows"]

N_RECORDS = 4
_passed: set[tuple[Any, ...]] = set()


def check_rows(design_of: Callable[[np.ndarray], Any], n_features: int, loss: Any) -> None:
    """Call kernels on public tables of equal records, whose numbers must be equal to the last bit.

    It is done once in a process for each layout of records, number of features and loss.

    Parameters
    ----------
    design_of : callable
        Makes a design, as a fit reads it, of an array of shape (n_samples, n_features).
    n_features : int
    loss : NamedTuple of `skdpsco.losses`

    Raises
    ------
    RuntimeError
        If numbers depend on the row.
    """
    one = design_of(np.zeros((1, n_features)))
    kinds = tuple(part.dtype.char if isinstance(part, np.ndarray) else part for part in one)
    key = (type(one), kinds, n_features, loss)
    if key in _passed:
        return
    n = len(run_room(one, loss.n_outputs).Z) + 3  # a full run, and a short one behind it
    size = loss.n_outputs * (n_features + one.intercept)
    w = np.cos(np.arange(size)) / np.sqrt(n_features)
    y = with_weights(np.ones(n), np.ones(n)) if type(loss) is Weighted else np.ones(n)
    for k in range(N_RECORDS):
        record = np.sin(1.0 + k + np.arange(n_features))
        tables = (np.tile(record, (size, 1)) for size in range(1, n + 1))
        found = [
            [*_numbers_of_rows(design_of(table), y[: len(table)], loss, w), row_squares(table)]
            for table in tables
        ]
        for numbers in zip(*found, strict=True):  # of the same kernel, for every length
            rows = np.concatenate([rows.reshape(len(rows), -1) for rows in numbers])
            if len({row.tobytes() for row in rows}) > 1:
                raise RuntimeError(
                    "On this machine the numbers that compiled kernels compute for a record depend "
                    "on the row in which it stands, so that 'add-or-remove-one' cannot be "
                    "guaranteed; nothing was charged. Use relation='replace-one'."
                )
    _passed.add(key)


def _numbers_of_rows(X: Any, y: np.ndarray, loss: Any, w: np.ndarray) -> Iterator[np.ndarray]:
    """Numbers that kernels compute row by row: those of the last run, or of all rows."""
    n, kernels, v = len(y), for_kernels(loss), as_vector(w, X)
    lengths = as_lengths(np.ones(len(X.bounds) + X.intercept), X)
    limits = GradientLimits(1e300, 1e300, 1e300)
    for u, cap in ((None, 1e300), (lengths, 0.0)):
        room = run_room(X, loss.n_outputs)
        add_gradients(X, y, kernels, v, u, limits._replace(cap=cap), room, np.zeros_like(w))
        last = (n - 1) % len(room.Z) + 1
        yield from (room.Z[:last].copy(), room.numbers[:last].copy())
    scores = np.empty((n, loss.n_outputs))
    predict_all(X, w, scores)
    yield scores
    if not isinstance(X, Tiles):
        norms = np.empty(n)
        norms_of(X, lengths, norms)
        yield norms
