"""Sums over records that `moments` releases, exact: one pass each, without a copy of the rows.

Every record's term has an l2 norm that docs/proofs/moments.md bounds. ``weight`` has one entry per
record, ``Z`` of shape (n, n_outputs) is overwritten.
"""

import math

import numpy as np

from skdpsco._design import correlate, predict, row_norms
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
