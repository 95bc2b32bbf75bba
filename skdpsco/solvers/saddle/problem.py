"""Variational inequalities as solvers see them: operators, problems and sensitivities.

Proof: docs/proofs/mirror_prox.md.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from skdpsco.data.block_sources import cuts
from skdpsco.data.pieces import PIECE_ROWS, replace_one, slice_rows, tree_sum
from skdpsco.data.record_functions import Data
from skdpsco.solvers.saddle.geometry import Block, Geometry

__all__ = [
    "OPERATOR_ROWS",
    "VariationalProblem",
    "calibration",
    "even_sizes",
    "in_chunks",
    "random_parts",
    "runs_of",
]

OPERATOR_ROWS = 4096  # records whose operators or gradients are in memory at one time
# No block's share of mu**2 is smaller: the noise of one that is tiny beside the others would be too
# large for the grid.
LEAST_SHARE = 2.0**-20


class MonotoneOperator(Protocol):
    """The operator G(z; x) of a saddle-point problem or of a variational inequality.

    Monotone means ``<G(z; x) - G(z'; x), z - z'> >= 0``, at least for the mean over the records.
    A saddle-point problem ``min_w max_v f(w, v)`` has the operator ``(df/dw, -df/dv)``.

    Attributes
    ----------
    blocks : tuple of Block
        The players, in the order in which a vector z holds them. Their constants must hold for
        every record and every z, since privacy rests on them.
    saddle : bool
        Whether G belongs to a saddle-point problem. Its solution is then the average of the
        iterates, otherwise one that is chosen at random.
    smoothness : array-like of shape (n_blocks, n_blocks), or None
        Entry (i, j) bounds how far block i of G moves, in its dual norm l_{p/(p-1)}, when block j
        of z moves by one unit in its norm l_p. None if there is no bound.

    Notes
    -----
    An operator may also have ``weights(z)``, an array like z, and ``largest_weights``, a bound on
    the weights of each block. The operator is then these weights times the mean of what `total`
    sums up. The bounds of ``blocks``, and hence the noise, refer to the mean without weights. The
    weights must be a function of z, never of the data: see section 3 of the proof.

    Solvers that descend on draws of vertices also use ``second_smoothness``: when one block of z
    moves by h in the l1 norm, every entry of G stays within ``second_smoothness / 2 * h**2`` of its
    linear approximation. Privacy does not depend on it.
    """

    blocks: tuple[Block, ...]
    saddle: bool
    smoothness: Any

    def total(self, z: np.ndarray, data: Data) -> np.ndarray:
        """Sum of ``G(z; x)`` over the records x in ``data``; each term depends on its record only.

        If there are many records, solvers ask for sums over runs of records, and add them up.
        """
        ...


@dataclass(frozen=True)
class VariationalProblem:
    """What a planner may know: the operator's public constants, and the number of records.

    Parameters
    ----------
    operator : MonotoneOperator
    n_samples : int
    """

    operator: MonotoneOperator
    n_samples: int

    @cached_property
    def geometry(self) -> Geometry:
        """The norms and sets of all blocks."""
        return Geometry(tuple(self.operator.blocks))

    @cached_property
    def smoothness(self) -> float:
        """Lipschitz constant of the operator in the norm of `geometry`; may be infinite."""
        if self.operator.smoothness is None:
            return math.inf
        return self.geometry.smoothness(np.asarray(self.operator.smoothness, dtype=np.float64))

    @property
    def largest_weights(self) -> tuple[float, ...]:
        """Bounds on the public weights of the blocks; 1 for an operator without weights."""
        ones = (1.0,) * len(self.geometry.blocks)
        return getattr(self.operator, "largest_weights", ones)

    def total(self, z: np.ndarray, runs: list[Data]) -> np.ndarray:
        """Sum of the operator over the records in all runs; see `runs_of`."""
        totals = (np.asarray(self.operator.total(z, data), dtype=np.float64) for data in runs)
        return tree_sum(totals)

    def mean(self, z: np.ndarray, total: np.ndarray, n_records: int) -> np.ndarray:
        """The operator at z, from its sum over ``n_records`` records; post-processing."""
        weights = getattr(self.operator, "weights", None)
        mean = total / n_records
        return mean if weights is None else mean * weights(z)


def runs_of(data: Data) -> list[Data]:
    """The records cut into runs, so that `sum_error` bounds the rounding error of their sum."""
    n = data[0].shape[0]
    if n <= PIECE_ROWS:
        return [data]
    return [tuple(slice_rows(array, *cut) for array in data) for cut in cuts(n, PIECE_ROWS)]


def in_chunks(data: Data) -> Iterator[Data]:
    """The records, `OPERATOR_ROWS` at a time."""
    for start in range(0, len(data[0]), OPERATOR_ROWS):
        yield tuple(array[start : start + OPERATOR_ROWS] for array in data)


def even_sizes(n_records: int, n_parts: int) -> tuple[int, ...]:
    """Sizes of parts that are as equal as possible, large ones first."""
    return tuple(n_records // n_parts + (t < n_records % n_parts) for t in range(n_parts))


def random_parts(rng: np.random.Generator, data: Data, sizes: Sequence[int]) -> Iterator[Data]:
    """Disjoint parts of the records, of given sizes; which records they hold is random."""
    rows = np.split(rng.permutation(sum(sizes)), np.cumsum(sizes)[:-1])  # independent of the data
    return (tuple(array[chosen] for array in data) for chosen in rows)


def _block_sensitivity(block: Block, n_samples: int) -> float:
    """l2 sensitivity of a block's float64 sum over all records or fewer."""
    slack = 1.0 + block.size * 2.0**-50  # rounding of norms and of points on the boundary
    return replace_one(n_samples, block.lipschitz_l2 * slack, block.change_l2 * slack)


def calibration(problem: VariationalProblem, mu: float) -> tuple[list[float], np.ndarray, float]:
    """Sensitivity of each block's sum, each block's share of mu**2, and the level of the noise.

    The shares minimise the mean squared dual norm of the noise in one call, but for `LEAST_SHARE`.
    For calls on all records, this mean is at most the squared level times the number of calls.
    """
    blocks = problem.geometry.blocks
    sensitivity = [_block_sensitivity(block, problem.n_samples) for block in blocks]
    weight = np.array(
        [
            w * s * b.scale * math.sqrt(b.kappa) * b.size ** (1.0 - 1.0 / b.pbar)
            for w, s, b in zip(problem.largest_weights, sensitivity, blocks, strict=True)
        ]
    )
    total = float(weight.sum())
    raised = np.maximum(weight, LEAST_SHARE * total)
    sum_raised = float(raised.sum())
    level = math.sqrt(total) * math.sqrt(sum_raised) / (problem.n_samples * mu)
    return sensitivity, raised / sum_raised, level
