"""Sums of gradients at a point, clipped or not, in one pass over memory.

Proof: docs/proofs/frank_wolfe.md.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from skdpsco._clipping import clip_records
from skdpsco._kernels import inlined_kernel, njit
from skdpsco.data.design import CSR, Dense
from skdpsco.data.products import (
    add_rows,
    as_lengths,
    as_sums,
    as_vector,
    common_bound,
    dot_and_norm_rows,
    dot_rows,
    run_room,
)
from skdpsco.data.record_sums import without_gil
from skdpsco.losses.kernels import bounded_derivatives, bounded_entries, bounded_values
from skdpsco.losses.library import for_kernels, lipschitz_l2

__all__ = [
    "GradientLimits",
    "add_gradients",
    "clipped_gradient_sum",
    "gradient_and_loss_sum",
    "gradient_sum",
]


class GradientLimits(NamedTuple):
    """The bounds that the terms of a sum are clipped to.

    Parameters
    ----------
    slope : float
        Bound on a derivative.
    bound : float
        Bound on the l2 norm of a record's derivatives, or of its gradient.
    cap : float
        Bound on a loss; 0 if losses are not summed up.
    """

    slope: float
    bound: float
    cap: float


@without_gil
def gradient_sum(
    X: Dense | CSR,
    y: np.ndarray,
    loss: Any,
    w: np.ndarray,
    slope: float,
    size: float = math.inf,
) -> np.ndarray:
    """Sum of gradients at ``w``; derivatives are clipped to ``slope`` and to l2 norm ``size``."""
    return _sum_in_one_pass(X, y, loss, w, None, GradientLimits(slope, size, 0.0))[0]


@without_gil
def gradient_and_loss_sum(
    X: Dense | CSR, y: np.ndarray, loss: Any, w: np.ndarray, slope: float, cap: float
) -> tuple[np.ndarray, np.ndarray]:
    """Compute `gradient_sum`, and the sum of losses clipped to ``cap``."""
    return _sum_in_one_pass(X, y, loss, w, None, GradientLimits(slope, math.inf, cap))


@without_gil
def clipped_gradient_sum(
    X: Dense | CSR, y: np.ndarray, loss: Any, w: np.ndarray, scale: np.ndarray, bound: float
) -> np.ndarray:
    """Sum of gradients in the coordinates ``scale * w``, each clipped to l2 norm ``bound``.

    Derivatives are clipped to the bound that the loss declares.
    """
    limits = GradientLimits(lipschitz_l2(loss), bound, 0.0)
    out, _ = _sum_in_one_pass(X, y, loss, w, 1.0 / scale, limits)
    return (out.reshape(loss.n_outputs, -1) / scale).ravel()


@without_gil
def _sum_in_one_pass(X, y, loss, w, unit, limits) -> tuple[np.ndarray, np.ndarray]:
    out, v = np.zeros_like(w), as_vector(w, X)
    u = None if unit is None else as_lengths(unit, X)
    total = add_gradients(X, y, for_kernels(loss), v, u, limits, run_room(X, loss.n_outputs), out)
    return as_sums(out, X), np.array(total)


# Which of two implementations is compiled follows from the type of `u`, None or an array.


@inlined_kernel
def score_run(u, X, start, common, v, R, norms):
    """Write the scores of a run, and the norms of its records if gradients are clipped."""
    dot_rows(X, start, common, v, R)


@score_run.register(np.ndarray)
def _(u, X, start, common, v, R, norms):
    dot_and_norm_rows(X, start, common, v, u, R, norms)


@inlined_kernel
def clip_run(u, loss, R, targets, limits, numbers):
    """Write clipped derivatives in the place of scores; return the sum of losses, or 0."""
    total = 0.0
    if limits.cap > 0.0:
        bounded_values(loss, R, targets, limits.cap, numbers)
        for i in range(numbers.shape[0]):
            total += numbers[i]
    bounded_derivatives(loss, R, targets, limits.slope, limits.bound, R)
    return total


@clip_run.register(np.ndarray)
def _(u, loss, R, targets, limits, numbers):
    bounded_entries(loss, R, targets, limits.slope, R)
    clip_records(R, numbers, limits.bound)
    return 0.0


@njit
def add_gradients(X, y, loss, v, u, limits, room, out):
    """Add up gradients, and return the sum of losses up to ``limits.cap``, if it is positive.

    It takes one pass over memory, since records are read one run at a time. ``v`` holds the
    coefficients divided by the bounds; the caller divides ``out`` by the bounds. If ``u`` is not
    None, ``limits.bound`` limits the gradient in coordinates in which features are multiplied by
    ``u``, and no losses are added up; otherwise it limits the derivatives.
    """
    Z, numbers = room
    total, common = 0.0, common_bound(X)
    for start in range(0, y.shape[0], Z.shape[0]):
        targets = y[start : start + Z.shape[0]]
        R, some = Z[: targets.shape[0]], numbers[: targets.shape[0]]
        score_run(u, X, start, common, v, R, some)
        total += clip_run(u, loss, R, targets, limits, some)
        add_rows(X, start, common, R, out)
    return total
