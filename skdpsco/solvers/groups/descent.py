"""Group DRO by gradient descent on the weighted mean of the groups' losses.

Proof: docs/proofs/group_dro.md.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from skdpsco._clipping import within
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.pieces import replace_one
from skdpsco.data.record_sums import in_pieces, map_reduce
from skdpsco.losses.library import Squared, Weighted, with_weights
from skdpsco.losses.traits import traits_of
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import GaussianEvent, compose
from skdpsco.privacy.spending import Allowance, check_cost
from skdpsco.solvers.base import Plan
from skdpsco.solvers.groups.problem import (
    GroupedTargets,
    GroupProblem,
    GroupResult,
    mixtures,
    weighed,
)
from skdpsco.solvers.penalized.gradient_descent import GradientDescent, full_passes, unscaled
from skdpsco.solvers.penalized.problem import CompositeProblem, anchored
from skdpsco.solvers.penalized.smooth_losses import smoothed
from skdpsco.solvers.penalized.task_weights import (
    TASK_WEIGHTS,
    LossesPlan,
    TaskWeights,
    plan_losses,
    shares_of_bound,
    usual_target,
)
from skdpsco.solvers.steps import move_into

__all__ = ["GroupDescent"]

COUNT_SHARE = 0.02  # of mu**2, for the numbers of records in the groups
# n mu per feature of the smallest group at which its loss counts half as much as it should: for
# labels, and for numbers
HALF_KNOWN = (8.0, 3.0)


@dataclass(frozen=True, kw_only=True)
class GroupDescentPlan(Plan):
    """The plan of descent, and how sizes and losses of the groups are released.

    Parameters
    ----------
    inner : GradientDescentPlan
    composite : CompositeProblem
    losses : LossesPlan or None
        None if there is only one mixture of the groups.
    count_grid : float or None
        None if sizes are public or declared.
    least_count : float
        Least size of a group.
    doubt : float
        From 0 to 1, how near weights remain to the shares of the groups, because the smallest is
        little more than noise.
    """

    inner: Any
    composite: Any
    losses: LossesPlan | None
    count_grid: float | None
    least_count: float
    doubt: float

    @property
    def clips_gradients(self) -> bool:
        """Whether steps are preconditioned; see `Plan`."""
        return self.inner.clips_gradients


class GroupDescent:
    """Gradient descent for the worst mixture of groups, followed by projection onto the ball.

    Every record is weighted by the weights of its groups over their sizes. Weights of groups with
    larger noisy mean losses grow between the passes. The intercept is outside of the ball.
    """

    by_blocks = fixed_cost = clips_gradients = reads_centred = True

    def plan(
        self, problem: GroupProblem, budget: Any, n_iter: int | None = None
    ) -> GroupDescentPlan:
        """Spend ``budget`` on ``n_iter`` passes; None leaves their number to the plan.

        Raises
        ------
        ValueError
            If the noise is too large for the grids.
        """
        n, k, mu = problem.n_samples, problem.n_groups, budget.mu * (1.0 - 2.0**-40)
        private, r = problem.group_sizes is None, problem.max_memberships
        changed = min(2 * r, k) if private else r  # sums that a replaced record moves, by up to 1
        counted = private and problem.prior is None
        weighing = not problem.theta_is_fixed
        half = HALF_KNOWN[is_of_numbers(problem.loss)]
        doubt = 1.0 / (1.0 + min(problem.expected_sizes) * mu / (half * problem.n_features))
        passes = n_iter or full_passes(_weighted_problem(problem, Squared(1.0), doubt), mu)
        smooth, _ = smoothed(problem.loss, n * mu, problem.n_features, passes)
        composite = _weighted_problem(problem, smooth, doubt)
        left = 1.0 - COUNT_SHARE * counted - TASK_WEIGHTS.share * weighing
        rest = Allowance(0.5 * left * mu**2)
        inner = GradientDescent().plan(composite, rest, passes)
        check_cost(inner.event, rest)
        parts, losses, count_grid, least = [inner.event], None, None, 1.0
        if weighing:
            sensitivity = replace_one(n, 1.0, math.sqrt(changed), parts=changed)
            mu_losses = mu * math.sqrt(TASK_WEIGHTS.share)
            losses = plan_losses(problem.expected_sizes, sensitivity, n, inner, mu_losses)
            losses = replace(losses, rate=(1.0 - doubt) * losses.rate)
            parts.insert(0, losses.event)
        if counted:
            multiplier = 1.0 / (mu * math.sqrt(COUNT_SHARE))
            count_grid = gaussian_grid(math.sqrt(changed), multiplier, changed, n)
            least = min(1.0 + 4.0 * math.sqrt(changed) * multiplier, n)
            parts.insert(0, GaussianEvent(multiplier))
        return GroupDescentPlan(
            compose(*parts),
            inner.n_iter,
            inner.summary,
            inner=inner,
            composite=composite,
            losses=losses,
            count_grid=count_grid,
            least_count=least,
            doubt=doubt,
            **inner.passed_on(),
        )

    def run(
        self,
        plan: GroupDescentPlan,
        problem: GroupProblem,
        X: MatrixLike,
        y: TargetLike,
        membership: Any,
        rng: np.random.Generator,
        progress: Any,
    ) -> GroupResult:
        """Follow ``plan``; ``membership`` is a CSR array of ones with one column per group.

        The targets of blocks are `GroupedTargets`; y and ``membership`` are then None.
        """
        targets = None if membership is None else GroupedTargets(y, membership)
        descent = _WeighingDescent(plan, problem, X, targets, rng)
        composite, (X, y) = descent.weighted(plan.composite, descent.start)
        coef = descent.run(plan.inner, composite, X, y, rng, progress).coef
        move_into(problem.constraint, coef[: problem.n_features - problem.intercept])
        theta = descent.start if descent.theta is None else descent.theta.mean
        theta = mixed(problem, descent.sizes, theta)
        return GroupResult(coef, plan.n_iter, theta=theta, sizes=descent.sizes)


def _weighted_problem(problem: GroupProblem, loss: Any, doubt: float) -> CompositeProblem:
    """The problem of descent, for records with the first weights."""
    sizes = np.array(problem.expected_sizes, dtype=np.float64)
    start = first_weights(problem, sizes, doubt)
    _, mean = rates_of(problem, mixed(problem, sizes, start), sizes)
    return replace(anchored(replace(problem, loss=Weighted(loss))), mean_weight=mean)


def first_weights(problem: GroupProblem, sizes: np.ndarray, doubt: float) -> np.ndarray:
    """Where the weights of the groups begin."""
    base = mixtures(problem, sizes)[1]
    return base + doubt * (sizes / sizes.sum() - base)


def mixed(problem: GroupProblem, sizes: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Weights of the groups with the average."""
    return (1.0 - problem.average_weight) * theta + problem.average_weight * sizes / sizes.sum()


def rates_of(
    problem: GroupProblem, mixture: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, float]:
    """What every group of a record adds to its weight, which is at most 1, and the mean weight."""
    rates = mixture / sizes
    rates /= np.sort(rates)[-problem.max_memberships :].sum()
    return rates, min(float(rates @ sizes) / problem.n_samples, 1.0)


def is_of_numbers(loss: Any) -> bool:
    """Whether targets are in [-1, 1], and not -1 and 1 only."""
    return traits_of(loss).targets == "numbers"


def members(X: Any, y: GroupedTargets) -> np.ndarray:
    """Numbers of records in the groups."""
    return np.bincount(y.membership.indices, minlength=y.membership.shape[1]).astype(np.float64)


def targets_with_weights(y: GroupedTargets, problem: GroupProblem, rates: np.ndarray) -> np.ndarray:
    """Targets and weights of records, from the ``rates`` of groups, which sum to at most 1."""
    return with_weights(within(y.t, -1.0, 1.0), weighed(problem, y.t, y.membership @ rates))


def losses_by_group(
    X: Any, y: GroupedTargets, problem: GroupProblem, w: np.ndarray, bound: float
) -> np.ndarray:
    """Sums of losses over ``bound``, clipped to [0, 1], times weights of classes, by group."""
    shares = shares_of_bound(X, within(y.t, -1.0, 1.0)[:, None], problem.loss, w, bound)
    return y.membership.T @ weighed(problem, y.t, shares[:, 0])


class _WeighingDescent(GradientDescent):
    """One fit; ``sizes``, ``theta`` and all that follows from them are public or released."""

    def __init__(self, plan: Any, problem: Any, X: Any, targets: Any, rng: Any) -> None:
        super().__init__(shrunk=is_of_numbers(problem.loss))
        self.how, self.problem = plan, problem
        self.X, self.targets = X, targets
        self.sizes: np.ndarray = np.array(problem.expected_sizes, dtype=np.float64)
        if plan.count_grid is not None:
            counts = self._sum(members)
            gaussian_mechanism(rng, counts, plan.count_grid)
            self.sizes = np.clip(counts, plan.least_count, problem.n_samples)
        self.start = first_weights(problem, self.sizes, plan.doubt)
        self.theta: Any = None

    def _sum(self, function: Any, *arguments: Any) -> Any:
        """Sum over records and their groups."""
        X = self.X if self.targets is None else in_pieces(self.X, self.targets)
        return map_reduce(X, self.targets, function, *arguments)

    def weighted(self, composite: CompositeProblem, theta: np.ndarray) -> tuple[Any, Any]:
        """The problem and its records, with targets that hold weights of a mixture of groups."""
        rates, mean = rates_of(self.problem, mixed(self.problem, self.sizes, theta), self.sizes)
        composite = replace(composite, mean_weight=mean)
        weigh = partial(targets_with_weights, problem=self.problem, rates=rates)
        if self.targets is None:
            return composite, (self.X.with_targets(weigh), None)
        y = weigh(self.targets)
        return composite, (in_pieces(self.X, y), y)

    def before_pass(self, t, problem, coordinates, data, point, rng):
        """The problem, and records whose weights follow from noisy losses of groups there."""
        if self.how.losses is None:
            return problem, data
        if self.theta is None:
            cap, _ = mixtures(self.problem, self.sizes)
            usual = usual_target(problem, coordinates)
            baseline = self.problem.loss.baseline(usual)
            self.theta = TaskWeights(self.how.losses, self.start, cap, baseline)
        if not self.theta.due(t):
            return problem, data
        w = unscaled(problem, coordinates, point) + problem.begin
        means = self._sum(losses_by_group, self.problem, w, self.theta.bound)
        gaussian_mechanism(rng, means, self.how.losses.grid)
        return self.weighted(problem, self.theta.update(t, means / self.sizes))
