"""The largest of several losses of a linear model, as a game.

Proof: docs/proofs/maximal_loss.md.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from skdpsco._clipping import within
from skdpsco.data.record_functions import Data
from skdpsco.variational.games import check_shapes
from skdpsco.variational.loss_tasks import (
    VertexTasks,
    check_losses,
    check_weight_bounds,
    chunks_of,
)

__all__ = ["MaximalLoss"]


class MaximalLoss(VertexTasks):
    """Game of a linear model in an l1 ball against the task on which its loss is largest.

    The model's strategy weighs the ball's vertices, first ``radius * e_j`` and then ``-radius *
    e_j``; ``coef(z)`` returns its coefficients. The opponent's strategy weighs the tasks: all
    combinations of losses, targets and groups, in this order; groups vary fastest.

    The data are features of shape (n_samples, n_features), targets of shape (n_samples,) or
    (n_samples, n_targets) and, if there are ``weight_bounds``, weights of records in groups, of
    shape (n_samples, n_groups) and with mean 1.

    Parameters
    ----------
    losses : loss or sequence of losses
        Losses of `skdpsco.losses`, or convex and nonnegative ones of your own, all with the same
        number of predictions.
    n_features : int
        Number of features, which are clipped to [-1, 1]. Add a column of ones for an intercept.
    radius : float, default=1.0
        Bound on the l1 norm of all coefficients together.
    n_targets : int, default=1
    target_bound : float, default=1.0
        Targets are clipped to [-target_bound, target_bound]. Losses of classes take class
        indices (`Multinomial`) or signs.
    weight_bounds : array-like of shape (n_groups,) or None, default=None
        Weights are clipped to [0, weight_bounds]. None for one group of all records.

    Attributes
    ----------
    blocks, saddle, smoothness, monotone, second_smoothness, value_bound
        What `solve_variational_inequality` and its solvers ask for.

    Raises
    ------
    TypeError
        If a parameter has the wrong type, or a loss lacks a kernel.
    ValueError
        If a parameter is outside its range, or the losses do not suit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.losses import Quantile
    >>> from skdpsco.variational import MaximalLoss, solve_variational_inequality
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 3))
    >>> game = MaximalLoss([Quantile(0.3), Quantile(0.7)], n_features=3, radius=1.0)
    >>> solution = solve_variational_inequality(game, (X, 0.8 * X[:, 1]))
    >>> print(game.coef(solution.z).argmax())
    1
    """

    def __init__(
        self,
        losses: Any,
        n_features: int,
        radius: float = 1.0,
        *,
        n_targets: int = 1,
        target_bound: float = 1.0,
        weight_bounds: Any = None,
    ) -> None:
        groups = np.ones(1) if weight_bounds is None else check_weight_bounds(weight_bounds)
        super().__init__(check_losses(losses), n_features, radius, n_targets, target_bound, groups)
        self.n_arrays = 2 if weight_bounds is None else 3

    def __call__(self, z: np.ndarray, *data: np.ndarray) -> np.ndarray:
        """Operators of records, ``(df/dx, -df/dy)``.

        Parameters
        ----------
        z : ndarray of shape (2 * n_outputs * n_features + n_tasks,)
        *data : ndarray
            As the class says.

        Returns
        -------
        G : ndarray of shape (n_samples, 2 * n_outputs * n_features + n_tasks)
        """
        rows, targets, weights = self._read(self._check(data))
        factors, payoffs = self._play(z, rows, targets, weights)
        gradient = (factors[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
        return np.hstack([gradient, -gradient, -payoffs])

    def _chunks(self, data: Data) -> Iterator[tuple[Any, np.ndarray, Any]]:
        return map(self._read, chunks_of(self._check(data), self.n_features))

    def _read(self, data: Data) -> tuple[Any, np.ndarray, Any]:
        """Rows, targets and weights of records, clipped to their bounds."""
        rows = within(np.asarray(data[0], dtype=np.float64), -1.0, 1.0)
        targets = self._targets(np.asarray(data[1], dtype=np.float64))
        weights = np.ones((len(rows), 1)) if self.n_arrays == 2 else data[2]
        weights = within(np.asarray(weights, dtype=np.float64), 0.0, self.weight_bounds)
        return rows, targets.reshape(len(rows), -1), weights

    def _check(self, data: Data) -> Data:
        shapes = [(self.n_features,), (self.n_targets,), (len(self.weight_bounds),)]
        flat = 1 if self.n_targets == 1 else None
        return check_shapes(data, shapes[: self.n_arrays], flat)
