"""Variational inequalities as solvers see them: operators, problems, sensitivities, shares.

Proof: docs/proofs/mirror_prox.md.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from skdpsco.data.block_sources import cuts
from skdpsco.data.pieces import PIECE_ROWS, slice_rows, sum_error, tree_sum
from skdpsco.data.record_functions import Data
from skdpsco.solvers.saddle.geometry import Block, Geometry

OPERATOR_ROWS = 4096  # records that an operator, or its gradients, hold in memory at a time


class MonotoneOperator(Protocol):
    """The operator G(z; x) of a saddle-point problem or of a variational inequality.

    Monotone means ``<G(z; x) - G(z'; x), z - z'> >= 0``, at least for the mean over the records.
    That of a saddle-point problem ``min_w max_v f(w, v)`` is ``(df/dw, -df/dv)``.

    Attributes
    ----------
    blocks : tuple of Block
        The players, in the order in which a vector z holds them. Their constants must hold for
        every record and every z: all privacy rests on them.
    saddle : bool
        Whether G belongs to a saddle-point problem: then the average of the iterates is a
        solution, else one that is chosen at random.
    smoothness : array-like of shape (n_blocks, n_blocks), or None
        Entry (i, j) bounds how much block i of G moves, in its dual norm l_{p/(p-1)}, per unit that
        block j of z moves, in its norm l_p. None if there is no bound.

    Notes
    -----
    An operator may also have ``weights(z)``, an array like z, and ``largest_weights``, a bound on
    these for each block. Then the operator is that times the mean of what `total` sums up. The
    bounds of ``blocks``, hence the noise, are about the latter. The weights must be a function of
    z, never of data: section 3 of the proof.

    For the solvers that descend on draws of vertices it may also have ``second_smoothness``: when
    one block of z moves by h in l1 norm, no entry of G is further than ``second_smoothness / 2 *
    h**2`` from its linear part. Privacy does not depend on it.
    """

    blocks: tuple[Block, ...]
    saddle: bool
    smoothness: Any

    def total(self, z: np.ndarray, data: Data) -> np.ndarray:
        """Sum of ``G(z; x)`` over the records x in ``data``, each a function of its record only.

        Solvers ask for the sums over runs of records where there are many, and add them up.
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
        """Norms and sets."""
        return Geometry(tuple(self.operator.blocks))

    @cached_property
    def smoothness(self) -> float:
        """Lipschitz constant of the operator in the norm of `geometry`; may be infinite."""
        if self.operator.smoothness is None:
            return math.inf
        return self.geometry.smoothness(np.asarray(self.operator.smoothness, dtype=np.float64))

    @property
    def largest_weights(self) -> tuple[float, ...]:
        """Bounds on the public weights of the blocks; 1 if there are none."""
        ones = (1.0,) * len(self.geometry.blocks)
        return getattr(self.operator, "largest_weights", ones)

    def total(self, z: np.ndarray, runs: list[Data]) -> np.ndarray:
        """Sum of the operator over records, cut by `runs_of`."""
        totals = (np.asarray(self.operator.total(z, data), dtype=np.float64) for data in runs)
        return tree_sum(totals)

    def mean(self, z: np.ndarray, total: np.ndarray, n_records: int) -> np.ndarray:
        """The operator at z from a sum over so many records; post-processing of that sum."""
        weights = getattr(self.operator, "weights", None)
        mean = total / n_records
        return mean if weights is None else mean * weights(z)


def runs_of(data: Data) -> list[Data]:
    """Records in runs, so that `sum_error` bounds the error of their sums."""
    n = data[0].shape[0]
    if n <= PIECE_ROWS:
        return [data]
    return [tuple(slice_rows(array, *cut) for array in data) for cut in cuts(n, PIECE_ROWS)]


def _block_sensitivity(block: Block, n_samples: int) -> float:
    """L2 sensitivity of the float64 sum of a block of the operator, over all records or fewer."""
    slack = 1.0 + block.size * 2.0**-50  # of norms and of points on the boundary
    exact = block.sensitivity
    if exact is None:
        exact = 2.0 * block.lipschitz_l2
    return exact * slack + 2.0 * sum_error(n_samples, block.lipschitz_l2 * slack)


def calibration(problem: VariationalProblem, mu: float) -> tuple[list[float], np.ndarray, float]:
    """Sensitivity of each block's sum, its share of mu**2, and the noise that is left.

    The shares minimise the mean squared dual norm of the noise of one call; on all records that is
    the square of the third value times the number of calls.
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
    return sensitivity, weight / total, total / (problem.n_samples * mu)
