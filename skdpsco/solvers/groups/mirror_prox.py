"""Group DRO as a saddle point between a linear model and the weights of the groups.

Proof: docs/proofs/mirror_prox.md, section 3.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from skdpsco._kernels import njit
from skdpsco._validation import check_bound
from skdpsco.constraints.sets import L2Ball, Simplex
from skdpsco.data.design import clipped_rows
from skdpsco.data.pieces import row_squares
from skdpsco.data.record_functions import Data
from skdpsco.losses.kernels import bounded_entries, bounded_values
from skdpsco.losses.library import for_kernels
from skdpsco.losses.traits import traits_of
from skdpsco.solvers.base import Plan
from skdpsco.solvers.groups.problem import GroupProblem, GroupResult, weighed
from skdpsco.solvers.saddle.geometry import Block
from skdpsco.solvers.saddle.mirror_prox import MirrorProx
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.solvers.saddle.recursive_regularisation import RecursiveRegularisation

__all__ = ["GroupMirrorProx"]

LARGEST_LOSS = 4.0  # losses of labels are clipped to it
# This share of the largest loss is subtracted from losses. Sqrt(2) times the rest is below 1, so
# that a record that moves between groups changes no more than one that stays in its group.
LOSS_CENTRE = 1.0 - 0.5**0.5 + 2.0**-40


def largest_loss(loss: Any) -> float:
    """What losses are clipped to: for targets in [-1, 1], the largest loss of the prediction 0."""
    return LARGEST_LOSS if traits_of(loss).targets == "signs" else float(loss.baseline(1.0))


@njit
def write_slopes_and_losses(loss, Z, t, slope, cap, losses):
    """Write clipped losses, and clipped derivatives in the place of predictions."""
    bounded_values(loss, Z, t, cap, losses)
    bounded_entries(loss, Z, t, slope, Z)


@dataclass(frozen=True)
class GroupOperator:
    """Operator of ``min over w, max over theta, of sum_g theta_g * (mean loss of group g)``.

    `total` sums over records in units that no record exceeds at any point; `weights` gives the size
    of these units at a point.

    Parameters
    ----------
    problem : GroupProblem
    row_norm : float
        Rows are shortened to this l2 norm.
    """

    problem: GroupProblem
    row_norm: float

    saddle: ClassVar[bool] = True

    @cached_property
    def shares(self) -> np.ndarray:
        """Share of the records in each group, from public sizes or from the prior."""
        problem = self.problem
        if problem.group_sizes is not None:
            return np.array(problem.group_sizes, dtype=np.float64) / problem.n_samples
        return np.array(problem.prior, dtype=np.float64)

    @cached_property
    def player(self) -> float:
        """Weight of the player who chooses among groups; 0 if there is nothing to choose."""
        return 0.0 if self.problem.theta_is_fixed else 1.0 - self.problem.average_weight

    @property
    def centre(self) -> float:
        """A public number that is subtracted from all losses."""
        return LOSS_CENTRE * largest_loss(self.problem.loss)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The block of the model, intercept included, and that of the groups' weights if free."""
        problem, loss = self.problem, self.problem.loss
        a = loss.lipschitz() * self.row_norm
        model = Block(problem.constraint, problem.n_features, a)
        if self.player == 0.0:
            return (model,)
        largest = self.player * largest_loss(loss)
        bound = largest - self.player * self.centre
        sensitivity = problem.max_memberships**0.5 * largest
        return model, Block(Simplex(), problem.n_groups, bound, sensitivity)

    @cached_property
    def smoothness(self) -> list[list[float]] | None:
        """Bounds between the blocks, if the loss is smooth."""
        curvature = self.problem.loss.smoothness()
        if not curvature < math.inf:
            return None
        within, between = curvature * self.row_norm**2, self.player * self.blocks[0].lipschitz
        matrix = [[within, between], [between, 0.0]]
        return [row[: len(self.blocks)] for row in matrix[: len(self.blocks)]]

    def mixture(self, z: np.ndarray) -> np.ndarray:
        """Weights of the groups at a point, including their weights in the average."""
        average = self.shares / self.shares.sum()
        if self.player == 0.0:
            return average
        return self.player * z[self.problem.n_features :] + (1.0 - self.player) * average

    def unit(self, mixture: np.ndarray) -> float:
        """Largest weight that any record can have, through the groups that weigh it most."""
        return float(np.sort(mixture / self.shares)[-self.problem.max_memberships :].sum())

    def weights(self, z: np.ndarray) -> np.ndarray:
        """Size of the units at a point."""
        model = np.full(self.problem.n_features, self.unit(self.mixture(z)))
        return model if self.player == 0.0 else np.concatenate([model, 1.0 / self.shares])

    @cached_property
    def largest_weights(self) -> tuple[float, ...]:
        """Largest `weights` of each block; the model's are attained at the smallest group's corner.

        They are convex in theta. At a corner all groups but one are weighed by their shares.
        """
        z = np.zeros(self.problem.n_features + self.problem.n_groups)
        z[self.problem.n_features + np.argmin(self.shares)] = 1.0
        unit = self.unit(self.mixture(z))
        return (unit,) if self.player == 0.0 else (unit, float(1.0 / self.shares.min()))

    def total(self, z: np.ndarray, data: Data) -> np.ndarray:
        """Sum over records (rows, targets, memberships); see `MonotoneOperator`."""
        problem, loss = self.problem, self.problem.loss
        rows, t, membership = data
        F, mixture = problem.n_features, self.mixture(z)
        Z, losses = (rows @ z[:F]).reshape(-1, 1), np.empty(len(t))
        limits = loss.lipschitz(), largest_loss(loss)
        write_slopes_and_losses(for_kernels(loss), Z, np.ascontiguousarray(t), *limits, losses)
        # The sum over a record's groups may be rounded up; the computed value must not exceed 1.
        reach = np.minimum(membership @ (mixture / self.shares / self.unit(mixture)), 1.0)
        model = rows.T @ (reach * weighed(problem, t, Z[:, 0]))
        if self.player == 0.0:
            return model
        cut = weighed(problem, t, losses)
        return np.concatenate([model, membership.T @ (self.player * (self.centre - cut))])

    def rows(self, X: Any) -> Any:
        """A copy of the design, dense or CSR, whose rows are clipped, scaled and shortened.

        Hundreds of calls read it, and batches take rows of it.
        """
        A = clipped_rows(X)
        shortened = self.row_norm / np.maximum(np.sqrt(row_squares(A)), self.row_norm)
        if isinstance(A, np.ndarray):
            A *= shortened[:, None]
        else:
            A.data = A.data * np.repeat(shortened, np.diff(A.indptr))
        return A


class GroupMirrorProx:
    """Group DRO by mirror prox on the model and the weights of the groups, for any convex loss.

    Parameters
    ----------
    solver : MirrorProx, RecursiveRegularisation or None, default=None
        Solver of the saddle-point problem; None for ``MirrorProx()``.
    row_norm : float or None, default=None
        Public bound on the l2 norm of a row with features in [-1, 1] and, with an intercept, an
        entry of 1. Longer rows are shortened to it. None for the largest possible norm. The noise
        is proportional to this bound.

    Raises
    ------
    TypeError
        If ``solver`` is another object, or ``row_norm`` is not a number.
    ValueError
        If ``row_norm`` is outside its range.

    Notes
    -----
    The intercept is a coordinate like the others, and the ball of the constraint contains it too.
    Groups may overlap, and membership may be private. In that case the means of groups are divided
    by the prior's share of the records instead of a size.

    References
    ----------
    R. Bassily, C. Guzman, M. Menart. Private Algorithms for Stochastic Saddle Points and
    Variational Inequalities: Beyond Euclidean Geometry. NeurIPS 2024, section 2.1.
    """

    fills_range = True

    def __init__(self, solver: Any = None, row_norm: float | None = None) -> None:
        if not isinstance(solver, (MirrorProx, RecursiveRegularisation, type(None))):
            raise TypeError(
                f"solver must be None, a MirrorProx or a RecursiveRegularisation, got {solver!r}."
            )  # other solvers may not support `weights`
        self.solver: Any = MirrorProx() if solver is None else solver
        self.row_norm: float | None = (
            None if row_norm is None else check_bound("row_norm", row_norm)
        )

    def plan(self, problem: GroupProblem, budget: Any, n_iter: int | None = None) -> Plan:
        """Spend ``budget`` on ``n_iter`` steps; None leaves their number to the solver.

        Raises
        ------
        TypeError
            If the constraint is not an `L2Ball`.
        ValueError
            If ``cvar_level`` is neither 0 nor 1, or membership is private and there is no prior.
        """
        return self.solver.plan(self._saddle_point(problem), budget, n_iter)

    def check(self, problem: GroupProblem) -> None:
        """Refuse problems that mirror prox cannot solve; see `plan` for the errors."""
        if type(problem.constraint) is not L2Ball:
            raise TypeError(f"constraint must be an L2Ball, got {problem.constraint!r}.")
        if problem.cvar_level > 0.0 and not problem.theta_is_fixed:
            raise ValueError(
                f"cvar_level must be 0 or 1 for mirror prox, got {problem.cvar_level!r}. "
                "solver='gradient-descent' takes other levels."
            )
        if problem.group_sizes is None:
            prior = np.array([] if problem.prior is None else problem.prior, dtype=np.float64)
            if prior.shape != (problem.n_groups,) or not ((prior > 0) & (prior <= 1)).all():
                raise ValueError(
                    "group_prior must hold a share in (0, 1] for every group, since with private "
                    f"membership mirror prox divides by it. Got {problem.prior!r}."
                )

    def run(
        self,
        plan: Any,
        problem: GroupProblem,
        X: Any,
        y: np.ndarray,
        membership: Any,
        rng: np.random.Generator,
        progress: np.ndarray | None = None,
    ) -> GroupResult:
        """Follow ``plan`` on the data; ``membership`` holds a 1 for each group of a record.

        Raises
        ------
        ValueError
            If a record is in more than ``max_memberships`` groups.
        """
        if np.diff(membership.indptr).max() > problem.max_memberships:
            raise ValueError(f"A record must be in at most {problem.max_memberships} groups.")
        saddle_point = self._saddle_point(problem)
        operator: Any = saddle_point.operator
        with np.errstate(all="ignore"):  # a warning about underflow would reveal data
            data: Any = (operator.rows(X), y, membership)
            z = self.solver.run(plan, saddle_point, data, rng, progress)
        theta = operator.mixture(z)
        coef = z[: problem.n_features]
        sizes = np.array(problem.expected_sizes, dtype=np.float64)
        return GroupResult(coef, plan.n_iter, n_rounds=plan.n_rounds, theta=theta, sizes=sizes)

    def _saddle_point(self, problem: GroupProblem) -> VariationalProblem:
        self.check(problem)
        norm = problem.n_features**0.5
        if self.row_norm is not None:
            norm = min(norm, self.row_norm)
        operator: Any = GroupOperator(problem, norm)
        return VariationalProblem(operator, problem.n_samples)
