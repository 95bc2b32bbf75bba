"""What solvers of group DRO share: the problem, targets, mixtures of groups, and the result."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsco._clipping import within
from skdpsco._problem import Problem
from skdpsco.solvers.base import Result

__all__ = [
    "GroupProblem",
    "GroupResult",
    "GroupedTargets",
    "mixtures",
    "weighed",
]


class GroupedTargets:
    """Targets and groups of records, of which runs can be taken as of an array.

    Parameters
    ----------
    t : ndarray of shape (n_samples,)
        In [-1, 1]; -1 and 1 for losses of labels.
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
    cvar_level : float
        Share of the records, those of the worst groups, whose mean loss counts: 0 for the worst
        group alone, 1 for the average.
    average_weight : float
        Weight of the average loss beside that of the worst mixture of groups.
    class_weights : tuple of float, or None
        Public weights in [0, 1] of records of the two classes; see `weighed`.
    """

    n_groups: int
    group_sizes: tuple[int, ...] | None = None
    prior: tuple[float, ...] | None = None
    max_memberships: int = 1
    cvar_level: float = 0.0
    average_weight: float = 0.0
    class_weights: tuple[float, ...] | None = None

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
        return self.n_groups == 1 or self.cvar_level == 1.0 or self.average_weight == 1.0


def weighed(problem: GroupProblem, t: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Terms of records times the public weights, in [0, 1], of their classes; 1 without weights."""
    if problem.class_weights is None:
        return terms
    light, heavy = problem.class_weights
    return terms * within(np.where(t > 0.0, heavy, light), 0.0, 1.0)


def mixtures(problem: GroupProblem, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Largest weights of the groups, and the weights towards which smoothing pulls.

    Parameters
    ----------
    problem : GroupProblem
    sizes : ndarray of shape (n_groups,)
        Public or released sizes, by which the average weighs the groups.
    """
    k, shares = len(sizes), sizes / sizes.sum()
    if problem.cvar_level == 0.0:
        return np.ones(k), np.full(k, 1.0 / k)
    return np.minimum(shares, problem.cvar_level) / problem.cvar_level, shares


@dataclass
class GroupResult(Result):
    """A `Result` with the weights of the groups at the saddle point, and their sizes.

    The sizes are public or released.
    """

    theta: Any = None
    sizes: Any = None
