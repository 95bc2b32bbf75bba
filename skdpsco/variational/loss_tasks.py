"""Tasks of a linear model: their public constants, and the records' contributions.

Proof: docs/proofs/maximal_loss.md.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from skdpsco._clipping import within
from skdpsco._kernels import njit
from skdpsco._validation import check_bound, check_int
from skdpsco.constraints.sets import L1Ball, Simplex
from skdpsco.data.record_functions import Data
from skdpsco.losses.check import TRIED_TARGETS, check_loss
from skdpsco.losses.library import (
    Logistic,
    Multinomial,
    Squared,
    derivatives,
    for_kernels,
    is_proven,
    values,
)
from skdpsco.losses.traits import traits_of
from skdpsco.solvers.saddle.geometry import Block

__all__ = [
    "PreparedBall",
    "PreparedVertices",
    "VertexTasks",
    "check_losses",
    "check_weight_bounds",
    "chunks_of",
]

ENTRIES = 1 << 19  # features read at a time: rows are still cached when they are used again
IDLE = 1e-9  # bound of a player who has nothing to choose, relative to the other's
THIRD = 1.0 / (6.0 * math.sqrt(3.0))  # largest third derivative of the logistic loss
STEEPEST = 2.0**12  # bound on beta R F / slope; above it rounding moves slopes: proof, section 2


@njit
def _losses_and_slopes(loss, Z, t, loss_out, slope_out):
    values(loss, Z, t, loss_out)
    derivatives(loss, Z, t, slope_out)


def third_derivative(loss: Any, residual: float) -> float | None:
    """Bound on third derivatives in the predictions, or None."""
    if type(loss) in (Logistic, Multinomial):
        return THIRD
    return 0.0 if type(loss) is Squared and loss.clip >= residual else None


def largest_value(loss: Any, reach: float, target_bound: float) -> float:
    """Bound on the loss of predictions within ``reach`` of 0, or of each other.

    Raises
    ------
    TypeError
        If Numba cannot compile the loss; nothing has been charged then.
    ValueError
        If the loss is negative or not finite at one of a grid of public points.
    """
    if loss.n_outputs > 1:
        return reach + math.log(loss.n_outputs - 1 + math.exp(-reach))
    Z = np.repeat(np.linspace(-reach, reach, 33), 33)[:, None]
    targets = np.tile(np.linspace(-target_bound, target_bound, 33), 33)
    level, slope = np.empty(len(Z)), np.empty_like(Z)
    try:
        _losses_and_slopes(for_kernels(loss), Z, _targets_of(loss, targets), level, slope)
    except Exception as error:  # an error of Numba or of a kernel
        reason = str(error).strip().split("\n")[0]
        raise TypeError(
            f"losses contains {loss!r}, whose kernels Numba cannot compile or run: {reason}"
        ) from error
    extreme = level[np.abs(targets) == target_bound]  # a classifier has no other targets
    least, largest = float(extreme.min()), float(extreme.max())
    if not -1e-9 * largest <= least <= largest < math.inf:
        raise ValueError(
            f"losses contains {loss!r}, whose values must be finite and not negative for "
            f"predictions up to {reach:g}, but they are between {least:g} and {largest:g}."
        )
    return float(level[np.isfinite(level)].max())


def _targets_of(loss: Any, t: np.ndarray) -> np.ndarray:
    """Targets as a loss expects them; for some losses their signs, where 0 counts as negative."""
    return np.where(t > 0.0, 1.0, -1.0) if traits_of(loss).targets == "signs" else t


class LossTasks:
    """Public constants of tasks, and the records' contributions; see the subclasses.

    Parameters
    ----------
    losses : sequence of NamedTuple
        Losses of `skdpsco.losses` with the same ``n_outputs``.
    n_features : int
    radius : float
    n_targets : int
    target_bound : float
    weight_bounds : ndarray of shape (n_groups,)
    class_weights : tuple of float or None
        Public weights in [0, 1] of losses by the class that is the target: of the sign, or of the
        number of the class.
    """

    saddle = True

    def __init__(
        self,
        losses: Any,
        n_features: int,
        radius: float,
        n_targets: int,
        target_bound: float,
        weight_bounds: np.ndarray,
        class_weights: tuple[float, ...] | None = None,
    ) -> None:
        self.class_weights: np.ndarray | None = (
            None if class_weights is None else np.clip(class_weights, 0.0, 1.0)
        )
        self.losses: Any = tuple(losses)
        self.n_features: int = check_int("n_features", n_features)
        self.radius: float = check_bound("radius", radius)
        self.n_targets: int = check_int("n_targets", n_targets)
        self.target_bound: float = check_bound("target_bound", target_bound)
        self.weight_bounds: np.ndarray = weight_bounds
        self.n_outputs: int = self.losses[0].n_outputs
        self.n_tasks: int = len(self.losses) * self.n_targets * len(weight_bounds)
        self.n_coefficients: int = self.n_outputs * self.n_features
        self._slopes = [loss.lipschitz(self.radius, self.target_bound) for loss in self.losses]
        self._highest = [
            largest_value(loss, self.radius, self.target_bound) for loss in self.losses
        ]
        self.slope: float = max(self._slopes)
        self.centre: float = 0.5 * max(self._highest)
        # The constants have to hold without clipping, which has not been proved for a user's own
        # losses, and the rounding of predictions must hardly change slopes.
        proven = all(is_proven(loss) for loss in self.losses)
        beta = max(loss.smoothness() for loss in self.losses)
        rounding = beta * self.radius * (self.n_features + 3)
        self.monotone = proven and (beta == math.inf or rounding <= STEEPEST * self.slope)

    def _bends(self, weight: float, unit: float) -> tuple[Any, float | None]:
        """Smoothness of the blocks, and of partial derivatives, for vertices of length ``unit``."""
        beta = max(loss.smoothness() for loss in self.losses)
        if beta == math.inf:
            return None, None
        between = unit * weight * self.slope if self.n_tasks > 1 else 0.0
        smoothness = [[unit**2 * weight * beta, between], [between, 0.0]]
        bounds = [third_derivative(loss, self.radius + self.target_bound) for loss in self.losses]
        if any(bound is None for bound in bounds):
            return smoothness, None
        gamma = max(bound for bound in bounds if bound is not None)
        return smoothness, weight * max(unit**2 * beta, unit**3 * gamma)

    def _parts(
        self, W: np.ndarray, rows: Any, targets: np.ndarray
    ) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
        """Loss, target and, for each record, the loss minus the centre, and the slopes."""
        n = len(targets)
        Z = np.ascontiguousarray(rows @ W.T, dtype=np.float64)
        for j in range(self.n_targets):
            column = np.ascontiguousarray(targets[:, j], dtype=np.float64)
            for k, loss in enumerate(self.losses):
                level, slope = np.empty(n), np.empty((n, self.n_outputs))
                _losses_and_slopes(for_kernels(loss), Z, _targets_of(loss, column), level, slope)
                level = within(level, 0.0, self._highest[k])
                slope = within(slope, -self._slopes[k], self._slopes[k])
                if self.class_weights is not None:
                    of_class = column if self.n_outputs > 1 else column > 0.0
                    weights = self.class_weights[of_class.astype(np.intp)]
                    level, slope = weights * level, weights[:, None] * slope
                yield k, j, level - self.centre, slope

    def _factors(
        self,
        W: np.ndarray,
        mixture: np.ndarray,
        rows: Any,
        targets: np.ndarray,
        weights: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """For every record, the factors of its row and its payoff for every task.

        Parameters
        ----------
        W : ndarray of shape (n_outputs, n_features)
        mixture : ndarray of shape (n_losses, n_targets, n_groups)
            Weights with which the slopes of the tasks are mixed.
        rows : array or matrix of shape (n, n_features)
        targets : ndarray of shape (n, n_targets)
        weights : ndarray of shape (n, n_groups)
        """
        n = len(targets)
        factors = np.zeros((n, self.n_outputs))
        payoffs = np.empty((n, *mixture.shape))
        for k, j, level, slope in self._parts(W, rows, targets):
            factors += (weights @ mixture[k, j])[:, None] * slope
            payoffs[:, k, j] = weights * level[:, None]
        return factors, payoffs.reshape(n, -1)

    def _mixture(self, y: np.ndarray) -> np.ndarray:
        return y.reshape(len(self.losses), self.n_targets, -1)

    def _targets(self, targets: np.ndarray) -> np.ndarray:
        """Targets clipped to their bounds; whole numbers for the softmax."""
        if self.n_outputs > 1:
            return np.rint(within(targets, 0.0, self.n_outputs - 1.0))
        return within(targets, -self.target_bound, self.target_bound)


class VertexTasks(LossTasks):
    """Tasks whose first player holds weights of the ball's vertices; see the subclasses."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        weight = float(self.weight_bounds.max())
        bound = check_bound("the bound on gradients", self.radius * weight * self.slope)
        self.value_bound: float = check_bound("the bound on losses", weight * self.centre)
        self.blocks: Any = (
            Block(Simplex(), 2 * self.n_coefficients, bound),
            Block(Simplex(), self.n_tasks, self.value_bound if self.n_tasks > 1 else IDLE * bound),
        )
        self.smoothness: Any
        self.second_smoothness: float | None
        self.smoothness, self.second_smoothness = self._bends(weight, self.radius)

    def coef(self, z: np.ndarray) -> np.ndarray:
        """Coefficients of the model.

        Parameters
        ----------
        z : ndarray of shape (2 * n_outputs * n_features + n_tasks,)

        Returns
        -------
        coef : ndarray of shape (n_features,) or (n_outputs, n_features)
        """
        size = self.n_coefficients
        W = self.radius * (z[:size] - z[size : 2 * size]).reshape(self.n_outputs, -1)
        return W if self.n_outputs > 1 else W[0]

    def total(self, z: np.ndarray, data: Data) -> np.ndarray:
        """Sum of the records' operators, in one pass over them."""
        size = self.n_coefficients
        total = np.zeros(2 * size + self.n_tasks)
        for rows, targets, weights in self._chunks(data):
            factors, payoffs = self._play(z, rows, targets, weights)
            total[:size] += _weighted_sum(factors, rows).ravel()
            total[2 * size :] -= payoffs.sum(axis=0)
        total[size : 2 * size] = -total[:size]
        return total

    def value(self, z: np.ndarray, *data: np.ndarray) -> np.ndarray:
        """Payoffs of the model to the tasks: mixed losses of records minus a constant.

        Parameters
        ----------
        z : ndarray of shape (2 * n_outputs * n_features + n_tasks,)
        *data : ndarray
            As the class says.

        Returns
        -------
        values : ndarray of shape (n_samples,)
        """
        y = z[2 * self.n_coefficients :]
        W, mixture = np.atleast_2d(self.coef(z)), self._mixture(y)
        found = [self._factors(W, mixture, *part)[1] @ y for part in self._chunks(data)]
        return np.concatenate(found)

    def _play(self, z: np.ndarray, *part: Any) -> tuple[np.ndarray, np.ndarray]:
        """Factors of the rows, and payoffs, kept within the blocks' bounds despite rounding."""
        W, mixture = np.atleast_2d(self.coef(z)), self._mixture(z[2 * self.n_coefficients :])
        factors, payoffs = self._factors(W, mixture, *part)
        if self.n_tasks == 1:
            payoffs[:] = 0.0
        model, tasks = self.blocks
        return (
            within(self.radius * factors, -model.lipschitz, model.lipschitz),
            within(payoffs, -tasks.lipschitz, tasks.lipschitz),
        )

    def _chunks(self, data: Any) -> Iterator[tuple[Any, np.ndarray, Any]]:
        """Rows, targets and weights, clipped to their bounds, part by part."""
        raise NotImplementedError


class PreparedTasks(LossTasks):
    """Tasks for clipped records that belong to one group each, or to none.

    The data are targets of shape (n, n_targets), dense or CSR rows and, if there are ``shares``, a
    row for every record with a 1 at its group. A group's losses are divided by its share.
    """

    def __init__(
        self,
        losses: Any,
        n_features: int,
        radius: float,
        n_targets: int,
        shares: np.ndarray | None,
        class_weights: tuple[float, ...] | None = None,
    ) -> None:
        weights = np.ones(1) if shares is None else 1.0 / shares
        super().__init__(losses, n_features, radius, n_targets, 1.0, weights, class_weights)
        self.monotone = False  # an estimator declares nothing that privacy would rest on


class PreparedVertices(PreparedTasks, VertexTasks):
    """`MaximalLoss` for such records."""

    def _chunks(self, data: Any) -> Iterator[tuple[Any, np.ndarray, Any]]:
        for targets, rows, *groups in chunks_of(data, self.n_features):
            yield rows, targets, group_rows(groups, targets) * self.weight_bounds


class PreparedBall(PreparedTasks):
    """Such tasks with the coefficients as the player, in units of public weights."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        largest = float(self.weight_bounds.max())
        slope = check_bound("the bound on gradients", self.slope)
        bound = check_bound("the bound on losses", self.centre)
        bound = bound if self.n_tasks > 1 else IDLE * slope
        sensitivity = 2.0 * bound * math.sqrt(len(self.losses) * self.n_targets)
        self.blocks: Any = (
            Block(L1Ball(self.radius), self.n_coefficients, slope),
            Block(Simplex(), self.n_tasks, bound, sensitivity),
        )
        self.smoothness: Any
        self.second_smoothness: float | None
        self.smoothness, self.second_smoothness = self._bends(largest, 1.0)
        self.largest_weights: tuple[float, float] = (largest, largest)

    def coef(self, z: np.ndarray) -> np.ndarray:
        """Coefficients of the model."""
        return z[: self.n_coefficients].reshape(self.n_outputs, -1)

    def _unit(self, y: np.ndarray) -> float:
        """Largest weight that any record can have, through the group that weighs it most."""
        return float((self._mixture(y).sum(axis=(0, 1)) * self.weight_bounds).max())

    def weights(self, z: np.ndarray) -> np.ndarray:
        """Size of the units at a point, a function of the point."""
        y = z[self.n_coefficients :]
        of_tasks = np.resize(self.weight_bounds, self.n_tasks)
        return np.concatenate([np.full(self.n_coefficients, self._unit(y)), of_tasks])

    def total(self, z: np.ndarray, data: Any) -> np.ndarray:
        """Sum of the records' operators, divided by their units."""
        size = self.n_coefficients
        y = z[size:]
        mixture = self._mixture(y) * (self.weight_bounds / self._unit(y))
        total = np.zeros(size + self.n_tasks)
        model, tasks = self.blocks
        for targets, rows, *groups in chunks_of(data, self.n_features):
            members = group_rows(groups, targets)
            factors, payoffs = self._factors(self.coef(z), mixture, rows, targets, members)
            total[:size] += _weighted_sum(
                within(factors, -model.lipschitz, model.lipschitz), rows
            ).ravel()
            if self.n_tasks > 1:
                total[size:] -= within(payoffs, -tasks.lipschitz, tasks.lipschitz).sum(axis=0)
        return total


def group_rows(groups: Any, targets: np.ndarray) -> np.ndarray:
    """A row for every record with a 1 at its group; all are in one group if none are given."""
    return groups[0] if groups else np.ones((len(targets), 1))


def chunks_of(data: Any, n_features: int) -> Iterator[Any]:
    """Split arrays of records into parts; if the second one holds sparse rows, into one."""
    size = max(ENTRIES // n_features, 64) if isinstance(data[1], np.ndarray) else len(data[0])
    for start in range(0, len(data[0]), size):
        yield tuple(array[start : start + size] for array in data)


def check_losses(losses: Any) -> tuple[Any, ...]:
    """Check one loss or several, and return them as a tuple.

    Raises
    ------
    TypeError
        If ``losses`` is neither a loss nor a sequence of losses.
    ValueError
        If there are none, their numbers of predictions differ, or a softmax has fewer than two
        classes.
    """
    several = (losses,) if hasattr(losses, "n_outputs") else losses
    if not isinstance(several, (list, tuple)) or not all(
        hasattr(type(loss), "n_outputs") for loss in several
    ):
        raise TypeError(f"losses must be a loss of skdpsco.losses or several, got {losses!r}.")
    if not several or len({loss.n_outputs for loss in several}) > 1:
        raise ValueError(
            "losses must be one or more losses with the same number of predictions, got "
            f"{losses!r}."
        )
    for loss in several:
        if type(loss) is not Multinomial:
            signs = traits_of(loss).targets == "signs"
            check_loss(loss, TRIED_TARGETS["signs" if signs else "numbers"])
        elif check_int("n_classes of Multinomial", loss.n_classes) < 2:
            raise ValueError(f"losses must have at least two classes, got {loss!r}.")
    return tuple(several)


def check_weight_bounds(given: Any) -> np.ndarray:
    """Check the bounds of the weights, one for each group, and return them as an array."""
    bounds = [check_bound("weight_bounds", bound) for bound in np.ravel(np.asarray(given))]
    if np.ndim(given) != 1 or not bounds:
        raise ValueError(f"weight_bounds must be numbers, one for each group, got {given!r}.")
    return np.array(bounds)


def _weighted_sum(factors: np.ndarray, rows: Any) -> np.ndarray:
    """``factors.T @ rows`` as an array, also for sparse rows."""
    return np.asarray((rows.T @ factors).T)
