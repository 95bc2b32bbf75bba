"""The tasks whose largest loss is minimised, and what planners know of them.

Proof: docs/proofs/maximal_loss.md.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event, GaussianEvent
from skdpsco.privacy.spending import Allowance
from skdpsco.solvers.base import Plan, Result

__all__ = [
    "MinimaxPlan",
    "MinimaxProblem",
    "MinimaxResult",
    "Tasks",
    "class_index",
    "plan_counts",
]


class CountsTuning(NamedTuple):
    """Constants of `plan_counts`, chosen by hand.

    Parameters
    ----------
    share : float
        Share of the budget.
    least : float
        Least size of a class, in records over all records.
    """

    share: float = 0.02
    least: float = 1e-4


COUNTS = CountsTuning()


@dataclass(frozen=True)
class Tasks:
    """The tasks whose largest loss is minimised.

    Parameters
    ----------
    losses : tuple of NamedTuple
        Losses of `skdpsco.losses`, for targets in [-1, 1] or class indices.
    n_targets : int
    n_classes : int
        Number of classes that are tasks; 0 if classes are not tasks.
    prior : tuple of float or None
        Public shares of the classes; None if they are to be found privately.
    class_weights : tuple of float or None
        Public weights in [0, 1] of losses by the class of the target; None if all are 1.
    """

    losses: tuple[Any, ...]
    n_targets: int = 1
    n_classes: int = 0
    prior: tuple[float, ...] | None = None
    class_weights: tuple[float, ...] | None = None

    @property
    def n_outputs(self) -> int:
        """Number of predictions per record."""
        return self.losses[0].n_outputs

    @property
    def counts_first(self) -> bool:
        """Whether shares of classes are released first."""
        return self.n_classes > 0 and self.prior is None


@dataclass(frozen=True)
class MinimaxProblem:
    """What a planner may know, all of which is public.

    Parameters
    ----------
    tasks : Tasks
    radius : float
        Radius of the l1 ball, for features in [-1, 1].
    n_samples : int
    n_features : int
        Number of features, including the column of ones of an intercept.
    intercept : bool
    sparse, centred : bool
    mean_square : tuple of float or None
        What is known about features: see `Problem`.
    """

    tasks: Tasks
    radius: float
    n_samples: int
    n_features: int
    intercept: bool = False
    sparse: bool = False
    centred: bool = False
    mean_square: tuple[float, ...] | None = None


@dataclass(frozen=True)
class MinimaxPlan(Plan):
    """The solver's plan; if shares of classes are released first, their plan and its budget.

    ``wanted`` is the number of steps that the user asks for; None leaves it to the solver. Descent
    follows ``inner`` on the problem ``composite``, and ``losses`` says how weights of tasks change.
    """

    inner: Any = None
    rest: Any = None
    wanted: int | None = None
    counts: "CountsPlan | None" = None
    composite: Any = None
    losses: Any = None

    @property
    def clips_gradients(self) -> bool:
        """Whether the solver's plan clips them."""
        return self.inner is not None and self.inner.clips_gradients

    @property
    def only_gradients(self) -> bool:
        """Whether the solver's plan reads sums of gradients only."""
        return self.inner is not None and self.inner.only_gradients


class CountsPlan(NamedTuple):
    """How numbers of records in the classes are released, and their least value."""

    event: Event
    grid: float
    n_samples: int
    least: float

    def release(self, index: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """The shares of the classes."""
        counts = np.bincount(index, minlength=k).astype(np.float64)
        gaussian_mechanism(rng, counts, self.grid)
        counts = np.clip(counts, self.least, self.n_samples)
        return counts / counts.sum()


def plan_counts(n_samples: int, n_classes: int, rho: float) -> tuple[CountsPlan, Allowance]:
    """Spend a share of ``rho`` on numbers of records in the classes; return what is left, too.

    Raises
    ------
    ValueError
        If the noise is too large for the grid.
    """
    rest = Allowance((1.0 - COUNTS.share) * rho * (1.0 - 2.0**-40))
    multiplier = 1.0 / math.sqrt(2.0 * COUNTS.share * rho)
    least = max(COUNTS.least * n_samples, 1.0 + 4.0 * math.sqrt(2.0) * multiplier)
    grid = gaussian_grid(math.sqrt(2.0), multiplier, n_classes, n_samples)
    return CountsPlan(GaussianEvent(multiplier), grid, n_samples, min(least, n_samples)), rest


@dataclass
class MinimaxResult(Result):
    """A `Result` with the tasks' weights at the saddle point and the shares of the classes."""

    task_weights: Any = None
    shares: Any = None


def class_index(tasks: Tasks, y: np.ndarray) -> np.ndarray:
    """The classes of records, as numbers from 0 on."""
    return (y[:, 0] > 0.0 if tasks.n_outputs == 1 else y[:, 0]).astype(np.intp)
