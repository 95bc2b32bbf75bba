"""Sums over records that `moments` releases, exact: one pass each, without a copy of the rows.

Every record's term has an l2 norm that docs/proofs/moments.md bounds. ``weight`` has one entry per
record, ``Z`` of shape (n, n_outputs) is overwritten.

The functions that return their sums serve arrays and blocks alike. ``centre`` is what blocks are
to be centred at, or None; ``norms`` those of the rows, or None where they are yet to be found;
``c`` the norm that rows are shortened to.
"""

import math
from typing import Any

import numpy as np

from skdpsco._design import Dense, clipped, columns_of, correlate, predict, row_norms
from skdpsco._kernels import kernel, njit
from skdpsco.losses import Logistic, Multinomial, Squared, derivatives, softmax_parts


@kernel
def respond(loss, bound, Z):
    """Write phi' over the predictions Z, where the loss is ``phi(z) - t z``.

    The l2 norm over the outputs is at most ``bound``, that of the targets.
    """
    raise NotImplementedError


@respond.register(Logistic)
def _(loss, bound, Z):
    for i in range(Z.shape[0]):
        Z[i, 0] = bound * math.tanh(0.5 * Z[i, 0])


@respond.register(Multinomial)
def _(loss, bound, Z):
    for i in range(Z.shape[0]):
        top, total = softmax_parts(Z, i)
        for k in range(Z.shape[1]):
            Z[i, k] = math.exp(Z[i, k] - top) / total - 1.0 / Z.shape[1]


@respond.register(Squared)
def _(loss, bound, Z):
    for i in range(Z.shape[0]):
        Z[i, 0] = max(-bound, min(bound, Z[i, 0]))


@njit
def norms_of(X, out):
    """Write the l2 norm of every record's features, without the ones."""
    row_norms(X, np.ones(X.bounds.shape[0]), out)


@njit
def sum_rows(X, weight, out):
    """Sum over records of weight times features, ``weight`` of shape (n, 1)."""
    correlate(X, weight, out)


@njit
def sum_targets(X, y, loss, weight, Z, out):
    """Sum over records of target times weight times features."""
    for i in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            Z[i, k] = 0.0
    derivatives(loss, Z, y, Z)  # entry by entry, so that predictions may be overwritten
    for i in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            Z[i, k] *= -weight[i]
    correlate(X, Z, out)


@njit
def sum_responses(X, w, loss, bound, weight, Z, out):
    """Sum over records of response at the coefficients ``w`` times weight times features."""
    predict(X, w, Z)
    respond(loss, bound, Z)
    for i in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            Z[i, k] *= weight[i]
    correlate(X, Z, out)


@njit
def sum_squares(X, w, weight, Z):
    """Sum over records of squared predictions of ``w`` times weight, which ``Z`` then holds."""
    predict(X, w, Z)
    total = 0.0
    for i in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            Z[i, k] *= weight[i]
            total += Z[i, k] * Z[i, k]
    return total


BLOCK = 1024  # records whose rows are gathered at a time


def rows_of(X: Any, centre: np.ndarray | None, norms: np.ndarray | None) -> tuple[Any, np.ndarray]:
    """The rows, centred, and their l2 norms."""
    if centre is not None:
        # Kernels see the halves of x - centre: within [-1, 1], as all they see.
        X = Dense(clipped(X.values, X.bounds) - centre, np.full(len(centre), 2.0), X.intercept)
    if norms is None:
        norms = np.empty(len(X.values) if isinstance(X, Dense) else len(X.indptr) - 1)
        norms_of(X, norms)
    return X, norms


def longer_than(X, y, centre, norms, limits) -> np.ndarray:
    """How many rows are longer than each of the increasing ``limits``."""
    norms = rows_of(X, centre, norms)[1]
    up_to = np.bincount(np.searchsorted(limits, norms), minlength=len(limits) + 1)[:-1].cumsum()
    return (len(norms) - up_to).astype(np.float64)


def shortened_sums(X, y, norms, c) -> np.ndarray:
    """Sum of the shortened rows over ``c``."""
    X, norms = rows_of(X, None, norms)
    out = np.empty(len(X.bounds) + X.intercept)
    sum_rows(X, (1.0 / np.maximum(norms, c))[:, None], out)
    return out


def target_sums(X, y, centre, norms, c, loss, sufficient) -> np.ndarray:
    """Sum of target times shortened row over ``c``; the target too is shortened if `sufficient`."""
    X, norms = rows_of(X, centre, norms)
    shortened = c / np.maximum(norms, c)
    weight = shortened / c
    Z = np.empty((len(norms), loss.n_outputs))
    out = np.empty((len(X.bounds) + X.intercept) * loss.n_outputs)
    sum_targets(X, y, loss, weight * shortened if sufficient else weight, Z, out)
    return out


def response_sums(X, y, centre, norms, c, w, loss, bound) -> np.ndarray:
    """Sum of response at ``w`` times shortened row over ``c``."""
    X, norms = rows_of(X, centre, norms)
    Z, out = np.empty((len(norms), loss.n_outputs)), np.empty_like(w)
    sum_responses(X, w, loss, bound, c / np.maximum(norms, c) / c, Z, out)
    return out


def square_sums(X, y, centre, norms, c, w, n_outputs) -> np.ndarray:
    """Sums of squared predictions of shortened rows over ``c``, and of half of the first ones."""
    X, norms = rows_of(X, centre, norms)
    weight, Z = c / np.maximum(norms, c) / c, np.empty((len(norms), n_outputs))
    return np.array([sum_squares(X, w, weight, Z), 0.5 * c * (weight @ Z[:, 0])])


def second_moment_sums(X, y, centre, norms, c, one) -> np.ndarray:
    """Sum of row row' of shortened rows over ``c``, with ``one`` in place of the intercept's 1."""
    X, norms = rows_of(X, centre, norms)
    weight, d = c / np.maximum(norms, c) / c, len(X.bounds)
    columns = np.arange(d + X.intercept)
    total = np.zeros((len(columns), len(columns)))
    for start in range(0, len(norms), BLOCK):
        stop = min(start + BLOCK, len(norms))
        A = columns_of(X, start, stop, columns)
        A *= weight[start:stop, None]
        A[:, d:] *= one
        total += A.T @ A
    return total
