"""Clippers, one of each kind, for numbers of any origin: features, and what a user's loss returns.

All of them turn NaN, too, into a number within the bounds: a single NaN would turn the sum over all
records into NaN.
"""

import math
from typing import Any

import numpy as np

from skdpsco._kernels import inlined, inner
from skdpsco.constraints.norms import lp_norm

__all__ = [
    "clip",
    "clip_both",
    "clip_entries",
    "clip_record",
    "clip_records",
    "shorten",
    "within",
]


@inner
def clip(x, b):
    """Clip ``x`` to ``[-b, b]``."""
    # In this order of arguments NaN becomes b.
    return max(-b, min(b, x))


@inner
def clip_entries(R, b):
    """Clip every entry of the matrix ``R`` to ``[-b, b]``, in place."""
    for i in range(R.shape[0]):
        for k in range(R.shape[1]):
            R[i, k] = clip(R[i, k], b)


@inlined
def clip_record(R, i, norm, bound):
    """Shorten row i of ``R`` until its l2 norm, times ``norm``, is within ``bound``."""
    total = 0.0  # in units of the bound, so that squares that matter do not underflow
    for k in range(R.shape[1]):
        r = R[i, k] / bound
        total += r * r
    size = math.sqrt(total) * norm
    factor = 1.0 / max(size, 1.0)  # no branch, which nobody could predict
    for k in range(R.shape[1]):
        # Neither NaN nor a norm that was rounded to 0 may get past this test.
        R[i, k] = factor * R[i, k] if total < 1e240 and size < np.inf else 0.0


@inner
def clip_records(R, norms, bound):
    """Shorten every row of ``R`` until its l2 norm times that of its record is within the bound."""
    if R.shape[1] == 1:  # the same with fewer operations, for many records at once
        for i in range(R.shape[0]):
            r = abs(R[i, 0] / bound)
            size = r * norms[i]
            R[i, 0] = R[i, 0] / max(size, 1.0) if r < 1e120 and size < np.inf else 0.0
        return
    for i in range(R.shape[0]):
        clip_record(R, i, norms[i], bound)


@inner
def clip_both(R, entry, norm):
    """Clip every entry of ``R`` to ``entry``, and the l2 norm of every row to ``norm``.

    Either bound may be infinite.
    """
    if R.shape[1] == 1:
        clip_entries(R, min(entry, norm))
        return
    clip_entries(R, entry)
    if norm < np.inf:
        for i in range(R.shape[0]):
            clip_record(R, i, 1.0, norm)


@inner
def shorten(r, order, limit):
    """Shrink ``r`` to a norm of ``order`` of at most ``limit``; no entry is NaN afterwards."""
    for k in range(r.shape[0]):
        r[k] = clip(r[k], limit)
    if r.shape[0] > 1:
        norm = lp_norm(r, order)
        if norm > limit:
            for k in range(r.shape[0]):
                r[k] *= limit / norm


def within(array: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """Entries within the bounds, by NumPy; the lower one for what is not a number."""
    numbers = np.where(np.isnan(array), low, array)
    return np.clip(numbers, low, high, out=numbers)
