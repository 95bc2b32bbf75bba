"""The exact sums over records that `moments` releases with noise.

docs/proofs/moments.md bounds the l2 norm of every record's term. ``centre`` is the point that dense
rows are still to be centred at, or None; ``c`` is the norm that rows are shortened to.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from skdpsco._clipping import clip_both
from skdpsco._kernels import inlined, kernel, njit
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.design import GATHERED_ROWS, Dense, clipped, columns_of, read_only
from skdpsco.data.products import (
    add_rows,
    as_vector,
    common_bound,
    dot_rows,
    norm_rows,
    norms_of,
    run_room,
)
from skdpsco.data.record_sums import without_gil
from skdpsco.losses.kernels import bounded_derivatives
from skdpsco.losses.library import Logistic, Multinomial, Squared, softmax_parts
from skdpsco.solvers.base import PROBES

__all__ = [
    "Ones",
    "Responses",
    "Targets",
    "centred",
    "count_longer",
    "respond",
    "second_moment_sums",
    "shortened_sums",
    "square_sums",
]


@cache
def _by_record(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """Do what `skdpsco.losses.kernels.by_record` does."""
    of_one = inlined(implementation)

    def of_all(loss, bound, Z):
        z = Z[:1].copy()
        for i in range(Z.shape[0]):
            z[0] = Z[i]
            of_one(loss, bound, z)
            Z[i] = z[0]

    return of_all


@partial(kernel, guard=_by_record)
def respond(loss, bound, Z):
    """Overwrite the predictions Z with phi', for the loss ``phi(z) - t z``.

    The l2 norm over the outputs is clipped to ``bound``, the bound on targets.
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
def _probe_respond(loss, public, y, out):
    respond(loss, 1.0, public)


PROBES[respond] = _probe_respond


class Targets(NamedTuple):
    """Rows are multiplied by the targets: minus the derivatives of the loss at 0.

    The l2 norm of a record's targets is within ``bound``, here and in `Responses`.
    """

    loss: Any
    bound: float


class Responses(NamedTuple):
    """Rows are multiplied by the responses, which `respond` computes from the predictions."""

    loss: Any
    bound: float


class Ones(NamedTuple):
    """Rows are summed up without a factor."""

    one: float = 1.0


@kernel
def numbers(rule, y, Z):
    """Overwrite the predictions ``Z`` with the numbers that rows are multiplied by."""
    raise NotImplementedError


@numbers.register(Targets)
def _(rule, y, Z):
    for i in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            Z[i, k] = 0.0
    bounded_derivatives(rule.loss, Z, y, rule.bound, rule.bound, Z)
    for i in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            Z[i, k] = -Z[i, k]


@numbers.register(Responses)
def _(rule, y, Z):
    respond(rule.loss, rule.bound, Z)
    clip_both(Z, rule.bound, rule.bound)


@numbers.register(Ones)
def _(rule, y, Z):
    for i in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            Z[i, k] = rule.one


class Shortening(NamedTuple):
    """How rows are shortened.

    Parameters
    ----------
    u : ndarray of shape (n_features,)
        One over the bounds.
    c : float
        The l2 norm that rows are shortened to.
    twice : bool
        Whether the numbers that rows are multiplied by are shortened like the rows.
    """

    u: np.ndarray
    c: float
    twice: bool


@njit
def add_shortened(X, y, rule, v, shortening, room, out):
    """Add up numbers times rows shortened to a norm c, over c, in one pass over memory.

    ``v`` holds coefficients divided by the bounds; the caller still has to divide ``out`` by them.
    """
    u, c, twice = shortening
    Z, norms = room
    common = common_bound(X)
    for start in range(0, y.shape[0], Z.shape[0]):
        targets = y[start : start + Z.shape[0]]
        R, some = Z[: targets.shape[0]], norms[: targets.shape[0]]
        if v.shape[0] > 0:
            dot_rows(X, start, common, v, R)
        numbers(rule, targets, R)
        norm_rows(X, start, u, some)
        for i in range(R.shape[0]):
            shortened = c / max(some[i], c)
            weight = shortened / c
            if twice:
                weight *= shortened
            for k in range(R.shape[1]):
                R[i, k] *= weight
        add_rows(X, start, common, R, out)


@njit
def sum_squares(X, v, weight, Z):
    """Sum over records the squared predictions times weights; ``Z`` then holds the products."""
    dot_rows(X, 0, common_bound(X), v, Z)
    total = 0.0
    for i in range(Z.shape[0]):
        square = 0.0
        for k in range(Z.shape[1]):
            Z[i, k] *= weight[i]
            square += Z[i, k] * Z[i, k]
        total += square
    return total


def centred(X: Any, centre: np.ndarray | None) -> Any:
    """A dense copy of the rows minus ``centre``."""
    if centre is None:
        return X
    # Kernels see the halves of x - centre, which are within [-1, 1] like everything they see.
    values = read_only(clipped(X.values, X.bounds) - centre)
    return Dense(values, np.full(len(centre), 2.0), X.intercept)


def row_norms(X: Any, n: int) -> np.ndarray:
    """The l2 norms of the n rows."""
    norms = np.empty(n)
    norms_of(X, 1.0 / X.bounds, norms)
    return norms


@without_gil
def count_longer(X: MatrixLike, y: TargetLike, centre: Any, limits: Any) -> np.ndarray:
    """How many rows are longer than each of the increasing ``limits``."""
    norms = row_norms(centred(X, centre), len(y))
    up_to = np.bincount(np.searchsorted(limits, norms), minlength=len(limits) + 1)[:-1].cumsum()
    return (len(norms) - up_to).astype(np.float64)


@without_gil
def shortened_sums(
    X: MatrixLike,
    y: TargetLike,
    centre: Any,
    c: Any,
    rule: Any,
    n_outputs: Any,
    w: Any = None,
    twice: Any = False,
) -> np.ndarray:
    """Sum of numbers times shortened rows over ``c``, with predictions at ``w`` if it is given."""
    X = centred(X, centre)
    out = np.zeros((len(X.bounds) + X.intercept) * n_outputs)
    v = out[:0] if w is None else as_vector(w, X)
    shortening = Shortening(1.0 / X.bounds, c, twice)
    add_shortened(X, y, rule, v, shortening, run_room(X, n_outputs), out)
    return as_vector(out, X)


@without_gil
def square_sums(
    X: MatrixLike, y: TargetLike, centre: Any, c: Any, w: Any, n_outputs: Any
) -> np.ndarray:
    """Sums of squared predictions of shortened rows over ``c``, and of half of the first ones."""
    X = centred(X, centre)
    weight, Z = c / np.maximum(row_norms(X, len(y)), c) / c, np.empty((len(y), n_outputs))
    return np.array([sum_squares(X, as_vector(w, X), weight, Z), 0.5 * c * (weight @ Z[:, 0])])


def second_moment_sums(X: MatrixLike, y: TargetLike, centre: Any, c: Any, one: Any) -> np.ndarray:
    """Sum of row row' of shortened rows over ``c``, with ``one`` in place of the intercept's 1."""
    X = centred(X, centre)
    weight, d = c / np.maximum(row_norms(X, len(y)), c) / c, len(X.bounds)
    columns = np.arange(d + X.intercept)
    total = np.zeros((len(columns), len(columns)))
    for start in range(0, len(weight), GATHERED_ROWS):
        stop = min(start + GATHERED_ROWS, len(weight))
        A = columns_of(X, start, stop, columns)
        A *= weight[start:stop, None]
        A[:, d:] *= one
        total += A.T @ A
    return total
