"""Tasks of a linear model on records that are within their bounds, for estimators.

Proof: docs/proofs/maximal_loss.md.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from skdpsco._validation import check_bound
from skdpsco.constraints.sets import L1Ball, Simplex
from skdpsco.solvers.saddle.geometry import Block
from skdpsco.variational.games import _clipped
from skdpsco.variational.loss_tasks import ENTRIES, IDLE, LossTasks, VertexTasks, _product


class PreparedVertices(VertexTasks):
    """`MaximalLoss` for records that are within their bounds, of one group each, or without groups.

    Data are targets of shape (n, n_targets), rows, dense or CSR, and, if there are ``shares``, the
    group of every record as a row with a 1 in its place. A group's losses are divided by its share.
    """

    def __init__(
        self,
        losses: Any,
        n_features: int,
        radius: float,
        n_targets: int,
        shares: np.ndarray | None,
    ):
        weights = np.ones(1) if shares is None else 1.0 / shares
        super().__init__(losses, n_features, radius, n_targets, 1.0, weights)
        self.monotone = False  # an estimator declares nothing that privacy would rest on

    def _chunks(self, data: Any) -> Iterator[tuple[Any, np.ndarray, Any]]:
        for targets, rows, *groups in chunks_of(data, self.n_features):
            yield rows, targets, groups[0] * self.weight_bounds if groups else None


class PreparedBall(LossTasks):
    """`PreparedVertices` with the coefficients as the player, in units of public weights."""

    def __init__(
        self,
        losses: Any,
        n_features: int,
        radius: float,
        n_targets: int,
        shares: np.ndarray | None,
    ):
        weights = np.ones(1) if shares is None else 1.0 / shares
        super().__init__(losses, n_features, radius, n_targets, 1.0, weights)
        self.monotone = False  # an estimator declares nothing that privacy would rest on
        largest = float(weights.max())
        slope = check_bound("the bound on gradients", self.slope)
        bound = check_bound("the bound on losses", self.centre)
        bound = bound if self.n_tasks > 1 else IDLE * slope
        sensitivity = 2.0 * bound * math.sqrt(len(self.losses) * self.n_targets)
        ball: Any = L1Ball(self.radius)
        simplex: Any = Simplex
        self.blocks = (
            Block(ball, self.n_coefficients, slope),
            Block(simplex(), self.n_tasks, bound, sensitivity),
        )
        self.smoothness, self.second_smoothness = self._bends(largest, 1.0)
        self.largest_weights = (largest, largest)

    def coef(self, z: np.ndarray) -> np.ndarray:
        """Coefficients of the model."""
        return z[: self.n_coefficients].reshape(self.n_outputs, -1)

    def _unit(self, y: np.ndarray) -> float:
        """Largest weight of a record: that of the group that weighs it most."""
        return float((self._mixture(y).sum(axis=(0, 1)) * self.weight_bounds).max())

    def weights(self, z: np.ndarray) -> np.ndarray:
        """Size of the units at a point, a function of the point."""
        y = z[self.n_coefficients :]
        of_tasks = np.resize(self.weight_bounds, self.n_tasks)
        return np.concatenate([np.full(self.n_coefficients, self._unit(y)), of_tasks])

    def total(self, z: np.ndarray, data: Any) -> np.ndarray:
        """Sum of the records' operators over their units."""
        size = self.n_coefficients
        y = z[size:]
        mixture = self._mixture(y) * (self.weight_bounds / self._unit(y))
        total = np.zeros(size + self.n_tasks)
        model, tasks = self.blocks
        for targets, rows, *groups in chunks_of(data, self.n_features):
            factors, payoffs = self._factors(
                self.coef(z), mixture, rows, targets, groups[0] if groups else None
            )
            total[:size] += _product(_clipped(factors, model.lipschitz), rows).ravel()
            if self.n_tasks > 1:
                total[size:] -= _clipped(payoffs, tasks.lipschitz).sum(axis=0)
        return total


def chunks_of(data: Any, n_features: int) -> Iterator[Any]:
    """Parts of targets, rows and groups; of sparse rows all at once."""
    size = max(ENTRIES // n_features, 64) if isinstance(data[1], np.ndarray) else len(data[0])
    for start in range(0, len(data[0]), size):
        yield tuple(array[start : start + size] for array in data)
