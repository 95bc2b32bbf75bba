"""Weights of tasks, such as losses, targets or groups, that grow with the tasks' noisy mean losses.

Descent minimises the weighted mean of the tasks' losses, and the weights change between its passes.
Together they approach the smallest maximum. Proof: docs/proofs/maximal_loss.md, section 4.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import njit
from skdpsco.data.products import as_vector, common_bound, dot_rows, run_room
from skdpsco.losses.kernels import bounded_values
from skdpsco.losses.library import for_kernels
from skdpsco.losses.traits import traits_of
from skdpsco.mechanisms.samplers import gaussian_grid
from skdpsco.privacy import Event, GaussianEvent, NoOpEvent, RepeatedEvent
from skdpsco.scaling.column_scales import COLUMN_SCALES

__all__ = [
    "TASK_WEIGHTS",
    "LossesPlan",
    "TaskWeights",
    "plan_losses",
    "shares_of_bound",
    "usual_target",
]


class TaskWeightsTuning(NamedTuple):
    """Constants of the weights; see docs/proofs/maximal_loss.md, section 4.

    Parameters
    ----------
    share : float
        Share of mu**2 for mean losses.
    begin : float
        Share of the passes after which weights change: losses differ by more before.
    rate : float
        By how much logarithms of weights move in all, for losses that differ by the bound that they
        are clipped to.
    lead : float
        For how many changes the last losses count in advance, so that weights do not oscillate.
    most_noise : float
        Largest deviation of the noise that all passes together add to such a logarithm.
    most_updates : int
        Largest number of times that weights change, for time.
    bound : float
        What losses are clipped to, in units of the largest mean loss that was released last.
    first_bound, least_bound : float
        Largest and least bound, in losses of the prediction 0 for a target of the usual size.
    """

    share: float = 0.05
    begin: float = 0.25
    rate: float = 40.0
    lead: float = 6.0
    most_noise: float = 0.5
    most_updates: int = 60
    bound: float = 4.0
    first_bound: float = 2.0
    least_bound: float = 0.02


TASK_WEIGHTS = TaskWeightsTuning()


@dataclass(frozen=True)
class LossesPlan:
    """How mean losses of tasks are released, from which their weights follow.

    Parameters
    ----------
    event : Event
    grid : float
        Grid of sums of losses over their bound.
    after, every, averaged_from : int
        Weights change after the pass ``after``, then after every so many passes, and those from a
        pass on are averaged.
    rate : float
        By how much the logarithm of a weight moves, for a loss at its bound.
    """

    event: Event
    grid: float
    after: int
    every: int
    averaged_from: int
    rate: float


def plan_losses(
    sizes: tuple[float, ...], sensitivity: float, n_samples: int, descent: Any, mu: float
) -> LossesPlan:
    """Spend ``mu`` on mean losses between the passes of ``descent``.

    Parameters
    ----------
    sizes : tuple of float
        For every task, the number of records over which its loss is averaged, or a guess.
    sensitivity : float
        Bound on the l2 norm by which a replaced record moves the sums, in units of losses' bound.
    n_samples : int
    descent : Plan
    mu : float

    Raises
    ------
    ValueError
        If the noise is too large for the grid.
    """
    T = descent.n_iter
    after = math.floor(TASK_WEIGHTS.begin * T)
    every = max(-(-(T - after) // TASK_WEIGHTS.most_updates), 1)
    updates = len(range(after + 1, T, every))
    if updates == 0:
        return LossesPlan(NoOpEvent(), 1.0, T, every, T, 0.0)
    multiplier = math.sqrt(updates) / mu
    noise = sensitivity * multiplier * math.sqrt(updates) / min(sizes)  # at a rate of 1
    return LossesPlan(
        event=RepeatedEvent(GaussianEvent(multiplier), updates),
        grid=gaussian_grid(sensitivity, multiplier, len(sizes), n_samples),
        after=after,
        every=every,
        averaged_from=T - descent.averaged_passes,
        rate=min(TASK_WEIGHTS.rate / updates, TASK_WEIGHTS.most_noise / noise),
    )


def usual_target(problem: Any, coordinates: Any) -> float:
    """Root mean square of the targets if it was released, otherwise a guess."""
    if traits_of(problem.loss).residuals:
        return float(coordinates.target)
    return math.sqrt(COLUMN_SCALES.usual_target[0])


@njit
def write_losses(X, Y, loss, v, bound, room, out):
    """Write the loss of every record and target over ``bound``, clipped to [0, 1]."""
    Z, numbers = room
    common = common_bound(X)
    for start in range(0, Y.shape[0], Z.shape[0]):
        m = min(Z.shape[0], Y.shape[0] - start)
        dot_rows(X, start, common, v, Z[:m])
        for j in range(Y.shape[1]):
            bounded_values(loss, Z[:m], Y[start : start + m, j].copy(), bound, numbers[:m])
            for i in range(m):
                out[start + i, j] = min(numbers[i] / bound, 1.0)


def shares_of_bound(X: Any, Y: np.ndarray, loss: Any, w: np.ndarray, bound: float) -> np.ndarray:
    """The loss of every record and target over ``bound``, clipped to [0, 1]."""
    out = np.empty(Y.shape)
    write_losses(X, Y, for_kernels(loss), as_vector(w, X), bound, run_room(X, 1), out)
    return out


class TaskWeights:
    """Weights that sum to 1, and the bound of losses; both follow from releases.

    Parameters
    ----------
    plan : LossesPlan
    start : ndarray
        The first weights.
    cap : ndarray
        Largest weights, which sum to at least 1.
    baseline : float
        Loss of the prediction 0 for a target of the usual size.
    """

    def __init__(
        self, plan: LossesPlan, start: np.ndarray, cap: np.ndarray, baseline: float
    ) -> None:
        self.plan: LossesPlan = plan
        self.cap: np.ndarray = cap
        self.baseline: float = max(baseline, 1e-100)
        self.logs: np.ndarray = np.log(np.maximum(start, 1e-100))
        self.now: np.ndarray = capped(start, cap)
        self.bound: float = TASK_WEIGHTS.first_bound * self.baseline
        self._averaged: list[np.ndarray] = []

    def due(self, t: int) -> bool:
        """Whether weights change before pass ``t``."""
        since = t - self.plan.after - 1
        return since >= 0 and since % self.plan.every == 0

    def update(self, t: int, means: np.ndarray) -> np.ndarray:
        """The weights after mean losses over ``bound`` were released before pass ``t``."""
        self.logs = self.logs + self.plan.rate * means
        self.logs = np.maximum(self.logs - self.logs.max(), -TASK_WEIGHTS.rate)
        ahead = self.logs + TASK_WEIGHTS.lead * self.plan.rate * means
        self.now = capped(np.exp(ahead - ahead.max()), self.cap)
        if t >= self.plan.averaged_from:
            self._averaged.append(self.now)
        most, least = TASK_WEIGHTS.first_bound, TASK_WEIGHTS.least_bound
        likely = TASK_WEIGHTS.bound * self.bound * float(means.max())
        self.bound = min(max(likely, least * self.baseline), most * self.baseline)
        return self.now

    @property
    def mean(self) -> np.ndarray:
        """The mean of the weights of the passes whose points are averaged."""
        return np.mean(self._averaged or [self.now], axis=0)


def capped(weights: np.ndarray, cap: np.ndarray) -> np.ndarray:
    """The distribution nearest to ``weights`` in relative entropy of those below ``cap``."""
    found = weights / weights.sum()
    full = np.zeros(len(found), dtype=bool)
    while (found[~full] > cap[~full]).any():
        full |= found > cap
        found[full] = cap[full]
        rest = max(1.0 - float(cap[full].sum()), 0.0)
        found[~full] *= rest / max(float(found[~full].sum()), 1e-300)
    return found
