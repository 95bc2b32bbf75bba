"""Clipped gradients of records that are read once, or their changes since an earlier point."""

import math
from typing import NamedTuple

import numpy as np

from skdpsco._clipping import shorten
from skdpsco._kernels import njit
from skdpsco.data.record_stream import add_row, fetch_row, predict_row, read_row, row_room
from skdpsco.losses.kernels import bounded_change, bounded_entries

__all__ = ["GradientClip", "add_clipped_gradients"]


class GradientClip(NamedTuple):
    """What a record contributes, and how it is clipped.

    Parameters
    ----------
    keep : float
        This many times the gradient at an earlier point is subtracted; 0 for the gradient alone.
    limit : float
        Bound on the norm of the derivatives in the predictions.
    order : float
        Order of this norm.
    """

    keep: float
    limit: float
    order: float = math.inf


@njit
def add_clipped_gradients(chunk, row_norm, loss, point, earlier, clip, total):
    """Add the gradients of records at ``point``, minus what is kept of those at ``earlier``.

    Parameters
    ----------
    chunk : tuple of (X, y, rows)
    row_norm : float
        Longer rows are shortened to this l2 norm.
    loss : loss
    point, earlier, total : ndarray of shape (n_coefficients,)
    clip : GradientClip
    """
    X, y, rows = chunk
    inverse, row_norm, columns, values = row_room(X, row_norm)
    keep, limit, order = clip
    Z, before, R, S = np.empty((4, 1, point.shape[0] // columns.shape[0]))
    for t in range(rows.shape[0]):
        fetch_row(X, rows, t)
        i = rows[t]
        size = read_row(X, i, inverse, row_norm, columns, values)
        predict_row(X, columns, values, size, point, Z)
        if keep > 0.0:
            predict_row(X, columns, values, size, earlier, before)
            bounded_change(loss, Z, before, keep, y[i : i + 1], limit, R, S)
        else:
            bounded_entries(loss, Z, y[i : i + 1], limit, R)
        shorten(R[0], order, limit)
        add_row(X, columns, values, size, 1.0, R, total)
