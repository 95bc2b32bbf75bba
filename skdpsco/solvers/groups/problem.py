"""What solvers of group DRO share: losses, the problem, mixtures of groups, and the result."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdpsco._clipping import within
from skdpsco._problem import Problem
from skdpsco.losses.library import Logistic, Squared, Weighted, with_weights
from skdpsco.solvers.base import Result
from skdpsco.solvers.groups.saddle_of_model import GaussianModel, QuadraticModel

__all__ = [
    "GroupProblem",
    "GroupResult",
    "GroupedTargets",
    "LogisticMoments",
    "SquaredMoments",
    "bounded_losses",
    "bounded_responses",
    "bounded_targets",
    "mixtures",
    "weighed",
]


@dataclass(frozen=True)
class LogisticMoments:
    """Logistic loss: targets -1/2 and 1/2, ``phi(z) = log(2 cosh(z / 2))``.

    Parameters
    ----------
    class_weights : tuple of float, or None
        Public weights in [0, 1] of records of the two classes; see `weighed`.
    """

    class_weights: tuple[float, ...] | None = None

    bound: ClassVar[float] = 0.5  # of targets and of the response
    largest_loss: ClassVar[float] = 4.0  # larger losses are clipped
    least_loss: ClassVar[float] = 0.0
    # The loss of the prediction 0; None if it depends on the target.
    level_at_zero: ClassVar[float | None] = math.log(2.0)
    model: ClassVar[type] = GaussianModel
    # Expected curvature of a group's loss beyond the model's, which assumes a law of features.
    usual_excess: ClassVar[float] = 1.0
    n_outputs: ClassVar[int] = 1
    of_residuals: ClassVar[bool] = False  # whether a loss at w + v is that of residuals of w at v

    @property
    def pooled(self) -> Any:
        """The loss as gradient descent knows it, for `pooled_targets`."""
        return Logistic() if self.class_weights is None else Weighted(Logistic())

    def pooled_targets(self, t: np.ndarray) -> np.ndarray:
        """Targets -1 and 1, with the weights of their classes if there are any."""
        if self.class_weights is None:
            return 2.0 * t
        return with_weights(2.0 * t, weighed(self, t, np.ones(len(t))))

    def response(self, z: np.ndarray) -> np.ndarray:
        """Derivative of phi."""
        return 0.5 * np.tanh(0.5 * z)

    def losses(self, z: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Loss of every record."""
        return np.logaddexp(z, 0.0) - (0.5 + t) * z


@dataclass(frozen=True)
class SquaredMoments:
    """Half the squared residual for targets in [-1, 1].

    ``phi`` is linear beyond predictions of 1, since residuals would otherwise be unbounded.
    """

    bound: ClassVar[float] = 1.0
    largest_loss: ClassVar[float] = 0.5
    least_loss: ClassVar[float] = 0.0
    level_at_zero: ClassVar[float | None] = None
    model: ClassVar[type] = QuadraticModel
    usual_excess: ClassVar[float] = 0.0
    n_outputs: ClassVar[int] = 1
    of_residuals: ClassVar[bool] = True
    pooled: ClassVar[Any] = Squared()

    def pooled_targets(self, t: np.ndarray) -> np.ndarray:
        """Targets as they are."""
        return t

    def response(self, z: np.ndarray) -> np.ndarray:
        """Derivative of phi: the prediction clipped to [-1, 1]."""
        return np.clip(z, -1.0, 1.0)

    def losses(self, z: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Loss of every record."""
        inside = self.response(z)
        return inside * (z - 0.5 * inside) - t * z + 0.5 * t * t


class GroupedTargets:
    """Targets and groups of records, of which runs can be taken as of an array.

    Parameters
    ----------
    t : ndarray of shape (n_samples,)
    membership : csr_array of shape (n_samples, n_groups)
        A 1 for every group of a record.
    """

    def __init__(self, t: np.ndarray, membership: Any):
        self.t: np.ndarray = t
        self.membership: Any = membership

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, rows: slice) -> "GroupedTargets":
        return GroupedTargets(self.t[rows], self.membership[rows])

    def less(self, scores: np.ndarray) -> "GroupedTargets":
        """The residuals of these predictions, clipped to [-1, 1], in place of the targets."""
        return GroupedTargets(
            within(within(self.t, -1.0, 1.0) - scores, -1.0, 1.0), self.membership
        )

    def by_group(self, terms: np.ndarray) -> np.ndarray:
        """Sums of the records' terms by group, without touching records of no group."""
        return self.membership.T @ terms


def weighed(loss: Any, t: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Terms of records times the public weights, in [0, 1], of their classes; 1 without weights."""
    weights = getattr(loss, "class_weights", None)
    if weights is None:
        return terms
    of_records = within(np.where(t > 0.0, weights[1], weights[0]), 0.0, 1.0)
    return terms * (of_records if terms.ndim == 1 else of_records[:, None])


def bounded_targets(loss: Any, t: np.ndarray) -> np.ndarray:
    """Targets clipped to the loss's bound."""
    return within(t, -loss.bound, loss.bound)


def bounded_responses(loss: Any, z: np.ndarray) -> np.ndarray:
    """Derivative of phi, clipped to the loss's bound whatever the loss returns."""
    return within(loss.response(z), -loss.bound, loss.bound)


def bounded_losses(loss: Any, z: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Loss of every record, clipped to between 0 and the largest loss, times its weight."""
    return weighed(loss, t, within(loss.losses(z, t), 0.0, loss.largest_loss))


@dataclass(frozen=True, kw_only=True)
class GroupProblem(Problem):
    """A `Problem` whose records are in groups, with an `L2Ball` as constraint.

    Parameters
    ----------
    n_groups : int
    group_sizes : tuple of int, or None
        Public sizes; None where the groups of a record are private.
    prior : tuple of float, or None
        Public guess of each group's share of the records, if groups are private; None if nothing
        is known about the shares.
    max_memberships : int
        Public bound on the number of groups that a record is in.
    objective : {"worst", "cvar", "average"}
        The mixtures of groups over which the loss is maximised; see `mixtures`.
    cvar_level : float
    average_weight : float
        Weight of the average loss beside that of the worst mixture of groups.
    """

    n_groups: int
    group_sizes: tuple[int, ...] | None = None
    prior: tuple[float, ...] | None = None
    max_memberships: int = 1
    objective: str = "worst"
    cvar_level: float = 0.2
    average_weight: float = 0.0

    @property
    def expected_sizes(self) -> tuple[float, ...]:
        """Sizes of the groups if they are public, otherwise the best public guess."""
        if self.group_sizes is not None:
            return self.group_sizes
        n, k = self.n_samples, self.n_groups
        return (n / k,) * k if self.prior is None else tuple(n * share for share in self.prior)

    @property
    def theta_is_fixed(self) -> bool:
        """Whether there is one mixture only."""
        whole = self.objective == "cvar" and self.cvar_level == 1.0
        average = self.objective == "average" or self.average_weight == 1.0
        return self.n_groups == 1 or average or whole


def mixtures(problem: GroupProblem, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Largest weights of the groups, and the weights towards which smoothing pulls.

    Parameters
    ----------
    problem : GroupProblem
    sizes : ndarray of shape (n_groups,)
        Public or released sizes, by which the average weighs the groups.
    """
    k, shares = len(sizes), sizes / sizes.sum()
    if problem.objective == "worst":
        return np.ones(k), np.full(k, 1.0 / k)
    level = 1.0 if problem.objective == "average" else problem.cvar_level
    return np.minimum(shares / level, 1.0), shares


@dataclass
class GroupResult(Result):
    """A `Result` with the weights of the groups at the saddle point, and their sizes.

    The sizes are public or released. ``doubt``, from 0 to 1, says how far theta may be noise.
    """

    theta: Any = None
    sizes: Any = None
    doubt: float = 0.0
