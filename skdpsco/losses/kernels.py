"""The kernels that a loss may register; `skdpsco.losses` exports them.

Solvers call none of these kernels on records. They call the functions at the end of this module,
which keep everything that a loss returns within the bounds that the solver's plan assumes. A user's
kernels of many records are given one record at a time, since bounds say nothing if the number of
one record follows from another.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from skdpsco._clipping import clip, clip_both, clip_entries
from skdpsco._kernels import inlined, inlined_kernel, inner, kernel

__all__ = [
    "bounded_change",
    "bounded_curvatures",
    "bounded_derivatives",
    "bounded_entries",
    "bounded_values",
    "by_record",
    "curvature",
    "curvatures",
    "derivative",
    "derivatives",
    "value",
    "values",
]


@cache  # an implementation may be registered more than once
def by_record(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """Call ``implementation(loss, Z, y, out)`` with copies of one record at a time.

    Entries of ``out`` that it does not write are 0.
    """
    of_one = inlined(implementation)

    def of_all(loss, Z, y, out):
        z, target, row = Z[:1].copy(), y[:1].copy(), np.zeros_like(out[:1])
        for i in range(y.shape[0]):
            z[0], target[0], row[:] = Z[i], y[i], 0.0
            of_one(loss, z, target, row)
            out[i] = row[0]

    return of_all


@inlined_kernel
def value(loss, z, y):
    """Loss of the prediction ``z`` for the target ``y``."""
    raise NotImplementedError


@inlined_kernel
def derivative(loss, z, y):
    """Derivative of the loss in the prediction ``z``."""
    raise NotImplementedError


@kernel
def curvature(loss, z, y):
    """Second derivative of the loss in ``z``, or any bound of it up to ``loss.smoothness()``."""
    raise NotImplementedError


@partial(inlined_kernel, guard=by_record)
def values(loss, Z, y, out):
    """Write the loss of every record: ``Z`` of shape (n, 1), ``y`` and ``out`` of shape (n,)."""
    for i in range(y.shape[0]):
        out[i] = value(loss, Z[i, 0], y[i])


@partial(inlined_kernel, guard=by_record)
def derivatives(loss, Z, y, out):
    """Write the derivatives in every prediction: ``Z`` and ``out`` of shape (n, n_outputs).

    ``out`` may be ``Z``, so implementations must read a record's predictions before they write.
    """
    for i in range(y.shape[0]):
        out[i, 0] = derivative(loss, Z[i, 0], y[i])


@partial(kernel, guard=by_record)
def curvatures(loss, Z, y, out):
    """Write a bound on the curvature of every record in its predictions; ``out`` has shape (n,)."""
    for i in range(y.shape[0]):
        out[i] = curvature(loss, Z[i, 0], y[i])


@inner
def bounded_values(loss, Z, y, cap, out):
    """Compute `values`, each clipped to ``[0, cap]``."""
    values(loss, Z, y, out)
    for i in range(out.shape[0]):
        out[i] = max(0.0, min(cap, out[i]))  # NaN becomes the cap


@inner
def bounded_entries(loss, Z, y, entry, out):
    """Compute `derivatives`, each clipped to ``entry``. ``out`` may be ``Z``."""
    derivatives(loss, Z, y, out)
    clip_entries(out, entry)


@inner
def bounded_derivatives(loss, Z, y, entry, norm, out):
    """Compute `derivatives`, clipped to ``entry`` each, and to l2 norm ``norm`` for every record.

    Either bound may be infinite. ``out`` may be ``Z``.
    """
    derivatives(loss, Z, y, out)
    clip_both(out, entry, norm)


@inner
def bounded_change(loss, Z, before, weight, y, bound, out, room):
    """Derivatives at ``Z`` minus ``weight`` times those at ``before``, each within ``bound``.

    ``room`` has the shape of ``out``.
    """
    derivatives(loss, Z, y, out)
    derivatives(loss, before, y, room)
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = clip(out[i, k] - weight * room[i, k], bound)


@inner
def bounded_curvatures(loss, Z, y, bound, out):
    """Compute `curvatures`, each clipped to ``[0, bound]``."""
    curvatures(loss, Z, y, out)
    for i in range(out.shape[0]):
        out[i] = max(0.0, min(bound, out[i]))  # NaN becomes the bound
