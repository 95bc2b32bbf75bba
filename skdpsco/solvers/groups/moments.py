"""Group DRO from noisy moments; the saddle point follows by post-processing.

Proof: docs/proofs/group_dro.md.

The gradient of a loss ``phi(x'w) - t x'w`` depends on the target t only through the mean of
``t x``. It is therefore enough to release one noisy vector per group and one noisy matrix of second
moments, and to compare model and data at one point. A noisy gradient method needs many rounds.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.block_sources import cuts
from skdpsco.data.design import GATHERED_ROWS, columns_of
from skdpsco.data.pieces import replace_one, tree_sum
from skdpsco.data.record_sums import map_reduce
from skdpsco.mechanisms.samplers import deviation_on, gaussian_grid, gaussian_mechanism
from skdpsco.privacy import compose
from skdpsco.privacy.spending import Allowance, check_cost, share_mu
from skdpsco.solvers.base import Plan
from skdpsco.solvers.groups.problem import (
    GroupedTargets,
    GroupProblem,
    GroupResult,
    bounded_losses,
    bounded_responses,
    bounded_targets,
    mixtures,
    weighed,
)
from skdpsco.solvers.groups.saddle_of_model import (
    GroupLevels,
    MovedModel,
    Saddle,
    kept_share,
    shrink_groups,
)
from skdpsco.solvers.l1.refit import newton_pays
from skdpsco.solvers.lp_ball.projected_descent import ProjectedDescent
from skdpsco.solvers.penalized.gradient_descent import GradientDescentPlan
from skdpsco.solvers.penalized.second_moments import positive_definite, upper_triangle

__all__ = ["MAX_GROUP_FEATURES", "GroupMoments", "members", "needed_size"]

MAX_GROUP_FEATURES = 2000  # the saddle point needs linear systems of this size
# Subtracted from the losses of records that may change their group, in units of the largest loss. A
# record then adds between -0.3 and 0.7 to a group, and sqrt(2) * 0.7 is less than 1.
# The same is true of weights of classes, the largest of which is 1.
LOSS_SHIFT = 0.3


@dataclass(frozen=True)
class GroupMomentsTuning:
    """Constants of `GroupMoments` that were chosen by hand; privacy does not depend on them.

    All shares are shares of mu**2. If a plan omits a release, the others divide its share.
    examples/benchmarks/group_dro.py shows the accuracy that these constants give.
    """

    count_share: float = 0.02  # for the numbers of records in the groups, and for their weights
    norm_share: float = 0.03  # for the mean squared norm of the rows
    matrix_share: float = 0.16  # for the second moments of the features
    mean_share: float = 0.05  # for their mean, if second moments are not released
    moment_share: float = 0.50  # for the label moments of the groups
    round_share: float = 0.30  # for the responses of all rounds together
    loss_share: float = 0.12  # for the losses of the groups in all rounds together
    matrix_ratio: float = 3.0  # for `newton_pays`; below it the matrix is mostly ridge
    mean_ratio: float = 5.0  # of n mu to the root of the features; below it the mean is noise
    needed_ratio: float = 10.0  # of a group's moment to its noise; below it the group is too small
    # The ratios below compare the smallest expected group with the smallest that is large enough.
    ratio_per_round: float = 15.0  # the number of rounds is the root of the ratio over this
    quiet_ratio: float = 1e3  # above it the noise is so small that no row is shortened
    max_rounds: int = 20
    blind_rounds: int = 2  # the fewest without a matrix: the first finds the curvature
    blind_step: float = 0.7  # fraction of a step without a matrix, except for the last
    clip: float = 1.21  # rows are shortened to a norm whose square is this times the mean square
    most_concentrated: float = 50.0  # the mean square is assumed to be at least n_features / this
    smoothing: tuple[float, float] = (1e-4, 1e-2)  # of the maximum over groups: least and most
    # At this ratio of the smallest group half of a loss's usual excess of curvature is expected.
    excess_ratio: float = 10.0
    excess_noise: float = 2.0  # deviations of its noise by which a measured excess is lowered
    most_excess: float = 100.0  # over the curvature of the model
    usual_gap: float = 0.2  # between losses of groups, to which their noise is compared at the end
    level_error: float = 0.05  # assumed error of a modelled loss, weighed against its noisy value
    descent_share: float = 0.9  # for a first fit to the mean loss, where groups are smallest
    descent_ratio: float = 5.0  # at which half of it is left; over the smallest large enough group
    doubt: float = 0.7  # deviations of noise that what groups of classes add has to exceed
    typical_feature: float = 1.0 / 3.0  # root mean square of a feature that is conditioned
    usual_offset: float = 0.05  # of a group, over the targets' bound
    usual_residual: float = 0.04  # size of entries of moments of residuals, over the targets' bound
    least_count: float = 2.0  # a released count is at least 1 and this many deviations of its noise


GROUP_MOMENTS = GroupMomentsTuning()


@dataclass(frozen=True)
class GroupMomentsPlan(Plan):
    """Grids of all releases, for sums of rows of norm 1; one per group where groups differ."""

    norm_grid: float = 0.0
    count_grid: float | None = None  # None if counts are not released
    matrix_grid: float | None = None
    mean_grid: float | None = None
    weight_grids: tuple[float, ...] = ()  # empty if classes have no weights
    moment_grids: tuple[float, ...] = ()
    response_grids: tuple[float, ...] = ()
    loss_grids: tuple[float, ...] = ()  # empty if losses are not released
    centre: float = 0.0  # of losses and of weights, in units of the largest one
    smoothing: float = 1e-2
    excess: float = 0.0  # expected curvature of the groups' losses beyond the model's
    largest_clip: bool = False  # no row is shortened
    descent: GradientDescentPlan | None = None  # of a fit to the mean loss, which is made first
    most_added: float = math.inf  # what groups add to it, over its own size


def needed_size(n_features: int, mu: float) -> int:
    """Number of members that a group needs if features are uniform on [-1, 1].

    The noise of a group's moment has norm about ``c sqrt(F) / (n_g mu)`` in units of the mean.
    """
    return math.ceil(
        GROUP_MOMENTS.needed_ratio * math.sqrt(n_features / 3.0) * math.sqrt(n_features) / mu
    )


@dataclass(frozen=True)
class GroupMoments:
    """Noisy label moments of every group, noisy second moments, and rounds of correction.

    Parameters
    ----------
    pooled_first : bool, default=False
        Whether gradient descent on the mean loss comes first, and groups correct it.

    All noise is Gaussian. The l2 norm of a row is clipped to a multiple of the released root mean
    square. If the noise is small there are more rounds, up to 20, which then find the saddle point.

    References
    ----------
    Proof and sources: docs/proofs/group_dro.md.
    """

    pooled_first: bool = False

    fixed_cost: ClassVar[bool] = True
    by_blocks: ClassVar[bool] = True
    reads_centred: ClassVar[bool] = True

    def plan(
        self, problem: GroupProblem, budget: Any, n_iter: int | None = None
    ) -> GroupMomentsPlan:
        """Spend ``budget`` on ``n_iter`` rounds; None leaves their number to the plan.

        Raises
        ------
        ValueError
            If there are more than 2000 features, or the noise is too large for the grids.
        """
        n, F, k, loss = problem.n_samples, problem.n_features, problem.n_groups, problem.loss
        tuning = GROUP_MOMENTS
        if F > MAX_GROUP_FEATURES:
            raise ValueError(
                f"Group DRO needs X to have at most {MAX_GROUP_FEATURES} features, got {F}."
            )
        private, r = problem.group_sizes is None, problem.max_memberships
        mu = budget.mu * (1.0 - 2.0**-40)
        sizes = problem.expected_sizes
        ratio = min(sizes) * mu / (tuning.needed_ratio * math.sqrt(r * F))
        descent, passed_on = None, {}
        if self.pooled_first:
            share = tuning.descent_share / (1.0 + ratio / tuning.descent_ratio)
            part = Allowance(0.5 * share * mu**2)
            descent = ProjectedDescent().plan(_pooled(problem), part)
            check_cost(descent.event, part)
            passed_on = descent.passed_on()
            mu *= math.sqrt(1.0 - share)
            ratio *= math.sqrt(1.0 - share)
        useful = round(math.sqrt(ratio / tuning.ratio_per_round))
        matrix = newton_pays(n, F, mu, tuning.matrix_ratio)
        mean = not matrix and n * mu >= tuning.mean_ratio * math.sqrt(F)
        fewest = 1 if matrix else tuning.blind_rounds
        n_rounds = n_iter or int(min(max(fewest, useful), tuning.max_rounds))
        parts = release_shares(problem, n_rounds, matrix, mean)
        multipliers, event = share_mu(mu, parts)
        slack = 1.0 + F * 2.0**-50  # rounding of norms and products of one record
        a, cut = loss.bound * slack, loss.largest_loss
        others = 2 if private else 1  # changed groups, per group of the record
        terms = (n,) * k if private else problem.group_sizes

        def per_group(name, change, bound, dimension):
            """One grid per group, for sums of terms of norm ``bound``."""
            return tuple(
                gaussian_grid(
                    replace_one(m, bound, change, parts=others),
                    multipliers[name] * math.sqrt(r),
                    others * dimension,
                    m * bound,
                )
                for m in terms
            )

        row = math.sqrt(2.0) * slack
        changed = min(2 * r, k)  # number of counts that one record changes by 1
        loss_grids, smoothing = (), tuning.smoothing[1]
        rounded = 1.0 + 2.0**-50 if private else 1.0  # centring is rounded
        if parts["losses"][1]:
            loss_grids = per_group("losses", rounded * cut, cut, 1)
            noise = max(deviation_on(g) / m for g, m in zip(loss_grids, sizes, strict=True))
            smoothing = min(max(noise, tuning.smoothing[0]), tuning.smoothing[1])
        return GroupMomentsPlan(
            event=event if descent is None else compose(descent.event, event),
            descent=descent,
            most_added=max(ratio, 1.0) ** 2 if descent and loss.of_residuals else math.inf,
            n_iter=n_rounds,
            norm_grid=gaussian_grid(replace_one(n, 1.0, F, F), multipliers["norm"], 1, n * F),
            count_grid=(
                gaussian_grid(math.sqrt(changed), multipliers["counts"], changed, n)
                if parts["counts"][1]
                else None
            ),
            matrix_grid=(
                gaussian_grid(
                    replace_one(n, row, row), multipliers["matrix"], F * (F + 1) // 2, n * row
                )
                if matrix
                else None
            ),
            mean_grid=(
                gaussian_grid(replace_one(n, slack), multipliers["mean"], F, n * slack)
                if mean
                else None
            ),
            weight_grids=per_group("weights", rounded, 1.0, 1) if parts["weights"][1] else (),
            moment_grids=per_group("moments", 2.0 * a, a, F),
            response_grids=per_group("responses", 2.0 * a, a, F),
            loss_grids=loss_grids,
            centre=LOSS_SHIFT if private else 0.0,
            smoothing=smoothing,
            excess=loss.usual_excess * ratio / (ratio + tuning.excess_ratio),
            largest_clip=ratio > tuning.quiet_ratio,
            **passed_on,
        )

    def run(
        self,
        plan: GroupMomentsPlan,
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
        if plan.descent is None:
            return _GroupFit(plan, problem, X, targets, rng).run(progress)
        alone = partial(targets_alone, loss=problem.loss)
        pooled, y = (X.with_targets(alone), y) if targets is None else (X, alone(targets))
        nothing = np.zeros(1, dtype=np.int64)
        descent = ProjectedDescent(), plan.descent, _pooled(problem)
        start = descent[0].run(*descent[1:], pooled, y, rng, nothing).coef
        result = _GroupFit(plan, problem, X, targets, rng, start).run(progress)
        result.coef = start + _no_larger(result.coef, start, plan.most_added, problem)
        return result


def release_shares(
    problem: GroupProblem, n_rounds: int, matrix: bool, mean: bool
) -> dict[str, tuple[float, int]]:
    """For each kind of release, the share of the budget of one release, and their number."""
    tuning, loss = GROUP_MOMENTS, problem.loss
    counts = problem.group_sizes is None and problem.prior is None
    weights = getattr(loss, "class_weights", None) is not None
    n_levels = 0 if problem.theta_is_fixed else n_rounds + (loss.level_at_zero is None)
    parts = {
        "counts": (tuning.count_share, int(counts)),
        "weights": (tuning.count_share, int(weights)),
        "norm": (tuning.norm_share, 1),
        "matrix": (tuning.matrix_share, int(matrix)),
        "mean": (tuning.mean_share, int(mean)),
        "moments": (tuning.moment_share, 1),
        "responses": (tuning.round_share / n_rounds, n_rounds),
        "losses": (tuning.loss_share / max(n_levels, 1), n_levels),
    }
    total = sum(share * count for share, count in parts.values())
    return {name: (share / total, count) for name, (share, count) in parts.items()}


def _pooled(problem: GroupProblem) -> Problem:
    """The mean loss over all records."""
    return replace(problem, loss=problem.loss.pooled)


def _no_larger(
    added: np.ndarray, start: np.ndarray, most: float, problem: GroupProblem
) -> np.ndarray:
    """What groups add to a first fit, made no larger than ``most`` times that fit.

    Where groups are small, most of what they add may be noise. This is for residuals: scores of
    labels are calibrated, and their accuracy does not depend on their length.
    """
    if math.isinf(most):  # of a first fit that is 0, too
        return added
    d = problem.n_features - problem.intercept
    added, length = added.copy(), float(np.linalg.norm(start[:d]))
    added[:d] *= min(most * length / max(float(np.linalg.norm(added[:d])), 1e-300), 1.0)
    if problem.centred:  # otherwise the intercept belongs to the mean of the features
        limit = most * (length * GROUP_MOMENTS.typical_feature + GROUP_MOMENTS.usual_offset)
        added[d:] = np.clip(added[d:], -limit, limit)
    return added


def targets_alone(y: GroupedTargets, loss: Any) -> np.ndarray:
    """Targets of the mean loss, without the groups."""
    return loss.pooled_targets(y.t)


# Sums over records, for `map_reduce`: y holds `GroupedTargets`.


def _in_chunks(X: Any, y: Any, function: Any, start: Any = None) -> Any:
    """Sum of ``function(y, rows)`` over chunks of records that are gathered; see `sum_error`.

    Targets are residuals of the predictions of ``start``, if it is given.
    """

    def of_chunk(y, A):
        return function(y if start is None else y.less(A @ start), A)

    columns = np.arange(len(X.bounds) + X.intercept)
    chunks = list(cuts(len(y), GATHERED_ROWS)) or [(0, 0)]
    return tree_sum(
        of_chunk(y[low:high], columns_of(X, low, high, columns)) for low, high in chunks
    )


def _unit_rows(A: np.ndarray, c: float) -> np.ndarray:
    """Rows divided by their norm or by the clipping norm, whichever is larger."""
    return A / np.maximum(np.sqrt(np.einsum("ij,ij->i", A, A)), c)[:, None]


def members(X: Any, y: Any) -> np.ndarray:
    """Numbers of records in the groups."""
    return np.bincount(y.membership.indices, minlength=y.membership.shape[1]).astype(np.float64)


def squared_norms(X: Any, y: Any) -> np.ndarray:
    """Sum of the squared norms of the rows."""
    return _in_chunks(X, y, lambda _, A: np.einsum("ij,ij->i", A, A).sum(keepdims=True))


def weights_of_classes(X: Any, y: Any, loss: Any, centre: float) -> np.ndarray:
    """Sums of the weights of records minus ``centre``, by group."""
    return _in_chunks(
        X, y, lambda y, _: y.by_group(weighed(loss, y.t, np.ones((len(y), 1))) - centre)
    )


def label_moments(
    X: Any, y: Any, loss: Any, c: float, second: bool, start: Any
) -> tuple[np.ndarray, ...]:
    """Label moments of every group, and second moments of shortened rows or else their sum."""

    def sums(y, A):
        U = _unit_rows(A, c)
        V = weighed(loss, y.t, U)
        moment = y.by_group(bounded_targets(loss, y.t)[:, None] * V)
        return moment, U.T @ V if second else V.sum(axis=0)

    return _in_chunks(X, y, sums, start)


def responses_and_losses(
    X: Any, y: Any, loss: Any, w: np.ndarray, c: float, about: Any, responses: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of response times row, and of losses less a centre, by group; 0 if not asked for.

    ``about`` holds the centre, None if losses are not asked for, and where residuals start.
    """
    centre, start = about

    def sums(y, A):
        z, k = A @ w, y.membership.shape[1]
        vectors, losses = np.zeros((k, len(w))), np.zeros((k, 1))
        if responses:
            U = weighed(loss, y.t, _unit_rows(A, c))
            vectors = y.by_group(bounded_responses(loss, z)[:, None] * U)
        if centre is not None:
            losses = y.by_group((bounded_losses(loss, z, y.t) - centre)[:, None])
        return vectors, losses

    return _in_chunks(X, y, sums, start)


class _Curvature:
    """How much more the losses of the groups curve than the model, found from step to step.

    The model has one law of the features for all groups, and it may curve less than some of them:
    where few records are in a group, or a feature is rare. A step to its saddle point is too long
    then, and the next one, too.

    Parameters
    ----------
    expected : float
        Expected excess, over the curvature of the model.
    n_groups : int
    """

    def __init__(self, expected: float, n_groups: int) -> None:
        self.expected = expected
        self.least: np.ndarray = np.zeros(n_groups)  # the largest that was certain in a round
        self.found: np.ndarray = np.full(n_groups, expected)
        self.last: Any = None

    def excess(self, phi: Any, weights: np.ndarray, seen: tuple[Any, ...]) -> np.ndarray:
        """The excess of every group, given ``w``, mean responses there and deviations of noise."""
        if self.last is not None:
            (w, responses, deviation), (last_w, last_responses, last_deviation) = seen, self.last
            step = w - last_w
            own = weights * max(float((phi.slopes(w)[0] - phi.slopes(last_w)[0]) @ step), 1e-30)
            excess = (responses - last_responses) @ step / own - 1.0
            noise = np.linalg.norm(step) * np.hypot(deviation, last_deviation) / own
            certain = excess - GROUP_MOMENTS.excess_noise * noise
            self.least = np.maximum(self.least, np.minimum(certain, GROUP_MOMENTS.most_excess))
            # As if the excess were about 1 away from what was expected.
            likely = (self.expected * noise**2 + excess) / (1.0 + noise**2)
            self.found = np.clip(likely, self.least, GROUP_MOMENTS.most_excess)
        self.last = seen
        return self.found


class _GroupFit:
    """One fit; ``self.c`` and everything that `run` computes follow from releases."""

    def __init__(
        self, plan: Any, problem: Any, X: Any, y: Any, rng: np.random.Generator, start: Any = None
    ) -> None:
        self.plan, self.problem, self.rng = plan, problem, rng
        self.X, self.y = X, y
        self.F, self.k = problem.n_features, problem.n_groups
        # Coefficients of the first fit: targets are the residuals of its predictions, or w is the
        # way from them.
        self.first = start is not None
        self.start = start if problem.loss.of_residuals else None
        self.origin = np.zeros(self.F) if start is None or problem.loss.of_residuals else start
        self.stiffness, self.responded = 1.0, False  # of a model without second moments

    def run(self, progress: Any) -> GroupResult:
        problem, loss = self.problem, self.problem.loss
        self.sizes = self._public_sizes()
        self._weigh()
        self._clip_norm()
        phi, moments, deviation = self._model_and_moments()
        # Label moments if no group differs from all records, whose mean loss is least at w = 0.
        known = np.outer(self.mean_weights, phi.slopes(np.zeros(self.F))[0]) * self.first
        B, own = self._shrunk(moments - known, deviation, self.first)
        B += known
        pi = self.sizes / self.sizes.sum()
        mix = (1.0 - problem.average_weight) * np.eye(self.k) + problem.average_weight * pi
        cap, base = mixtures(problem, self.sizes)
        n_ball = self.F - problem.intercept
        levels_known = bool(self.plan.loss_grids) or loss.level_at_zero is not None

        def saddle_point(B, C, start, variances, more=0.0):
            def variance(theta):
                return np.append(mix.T @ theta, 1.0) ** 2 @ variances

            excess = mix @ (self.mean_weights * (1.0 + more) - 1.0)
            groups = GroupLevels(mix @ B, mix @ C, cap, base, excess)
            radius, smoothing = problem.constraint.radius, self.plan.smoothing
            noise = variance, loss.least_loss if levels_known else -math.inf
            return Saddle(phi, groups, radius, n_ball, smoothing, *noise).solve(start)

        w, curvature = np.zeros(self.F), _Curvature(self.plan.excess, self.k)
        level = -B @ self.origin  # every group's loss minus mean_weights_g phi(w) - b_g'w
        if self.plan.loss_grids and loss.level_at_zero is None:
            level = self._responses_and_losses(w, responses=False)[1]
        first = B
        if self.first and not loss.of_residuals:
            shared, noise = pi @ (moments - known), float(pi**2 @ deviation**2)
            first = B - pi @ (B - known) + self._certain(phi, shared, noise)
        w = saddle_point(first, level, w, own)[0]
        for t in range(self.plan.n_iter):
            (responses, noise_of_responses), losses = self._responses_and_losses(w)
            if self.plan.matrix_grid is None:
                noise = float(np.linalg.norm(pi * noise_of_responses))
                phi = self._model(self._stiffness_at(w, pi @ responses, noise))
            slopes, value = phi.slopes(w)[0], self.mean_weights * phi.value(w)
            more = np.zeros(self.k)
            if self.plan.matrix_grid is not None:
                more = curvature.excess(phi, self.mean_weights, (w, responses, noise_of_responses))
            gradients = np.outer(self.mean_weights, slopes)
            error = gradients - responses  # error of the model
            along = np.zeros(self.F)
            if self.plan.matrix_grid is not None:
                # If predictions do not have the assumed distribution, the model errs along the
                # slopes, where there is little noise. In other directions, errors below the noise
                # count as 0.
                along = slopes / max(float(np.linalg.norm(slopes)), 1e-300)
                along = (pi @ error @ along) * along
            error, added = self._shrunk(error - along, noise_of_responses)
            error += along
            corrected, left = B + error, own + added
            if not loss.of_residuals:
                # What labels add to responses is the same in all groups unless their models differ.
                at = np.zeros(self.F) if self.first else w
                usual = np.outer(self.mean_weights, phi.slopes(at)[0])
                both = np.sqrt(deviation**2 + added[:-1] + added[-1])
                rest, left = self._shrunk(moments + error - usual, both, self.first)
                corrected = usual + rest
            C = (corrected - B) @ w + level
            if self.plan.loss_grids:
                noise = deviation_on(np.array(self.plan.loss_grids)) / self.totals
                gap = losses - (value - B @ w + level)
                C += gap * GROUP_MOMENTS.level_error**2 / (GROUP_MOMENTS.level_error**2 + noise**2)
            # More curvature changes neither values nor slopes at w.
            corrected += more[:, None] * gradients
            C += more * (gradients @ w - value)
            v, theta = saddle_point(corrected, C, w, left, more)
            blind = self.plan.matrix_grid is None and t < self.plan.n_iter - 1
            w = w + (GROUP_MOMENTS.blind_step if blind else 1.0) * (v - w)
            progress[0] += 1
        doubt = 0.0
        if self.plan.loss_grids:
            worst = float(np.max(deviation_on(np.array(self.plan.loss_grids)) / self.totals))
            doubt = worst**2 / (worst**2 + GROUP_MOMENTS.usual_gap**2)
        found = {"theta": mix.T @ theta, "sizes": self.sizes, "doubt": doubt}
        return GroupResult(w, self.plan.n_iter, **found)

    def _shrunk(self, vectors, deviation, first=False):
        """Shrink noisy vectors of the groups, more if a ``first`` fit has found most of them."""
        usual = GROUP_MOMENTS.usual_residual if self.start is not None else math.inf
        doubt = GROUP_MOMENTS.doubt if first and self.start is None else 0.0
        return shrink_groups(vectors, deviation, self.sizes, usual, doubt)

    def _certain(self, phi: Any, shared: np.ndarray, variance: float) -> np.ndarray:
        """What moments of all groups add to the model's slopes at a first fit, unless it is noise.

        The mean loss is least there, up to the noise of the fit. So most of it may be the error of
        the model, whose second moments are noisy, or which has none.
        """
        if self.plan.matrix_grid is None:
            return 0.0 * shared
        noise = deviation_on(self.plan.matrix_grid) * self.c**2
        noise /= self.problem.n_samples * self.unit
        # The trace of the model's Hessian over that of its second moments.
        curvature = float(np.trace(phi.slopes(np.zeros(self.F))[1])) * self.unit / self.moment
        variance += (curvature * noise * float(np.linalg.norm(self.origin))) ** 2
        return kept_share(shared, variance, GROUP_MOMENTS.doubt) * shared

    def _sum(self, function, *arguments):
        """Sum over records."""
        return map_reduce(self.X, self.y, function, *arguments)

    def _public_sizes(self):
        """Sizes of the groups: public, expected, or noisy counts that are released here."""
        grid = self.plan.count_grid
        if grid is None:
            return np.array(self.problem.expected_sizes, dtype=np.float64)
        counts = self._sum(members)
        deviation = self._release(counts[None], (grid,))
        n = self.problem.n_samples
        return np.clip(counts, min(1.0 + GROUP_MOMENTS.least_count * deviation[0], n), n)

    def _weigh(self) -> None:
        """Find the mean weight of a record, which is the unit of losses from here on.

        ``mean_weights`` holds that of every group's records, and ``totals`` the number by which
        sums over groups are divided, both in this unit.
        """
        self.unit, self.mean_weights, self.totals = 1.0, np.ones(self.k), self.sizes
        if not self.plan.weight_grids:
            return
        loss, centre = self.problem.loss, self.plan.centre
        sums = self._sum(weights_of_classes, loss, centre)
        self._release(sums, self.plan.weight_grids)
        means = np.clip(sums[:, 0] / self.sizes + centre, min(loss.class_weights), 1.0)
        self.unit = float(means @ self.sizes / self.sizes.sum())
        self.mean_weights, self.totals = means / self.unit, self.sizes * self.unit

    def _release(self, sums, grids):
        """Release one row of ``sums`` per group, in place; return the deviations of the noise."""
        pairs = zip(sums, grids, strict=True)
        return np.array([gaussian_mechanism(self.rng, *pair) for pair in pairs])

    def _clip_norm(self):
        F = self.F
        square = self._sum(squared_norms)
        self._release(square[None], (self.plan.norm_grid,))
        least = F / GROUP_MOMENTS.most_concentrated
        self.moment = min(max(float(square[0]) / self.problem.n_samples, least), float(F))
        clip = F if self.plan.largest_clip else min(GROUP_MOMENTS.clip * self.moment, F)
        self.c = math.sqrt(clip)

    def _model_and_moments(self):
        """The model of phi, and one vector of label moments per group."""
        n, F, grid = self.problem.n_samples, self.F, self.plan.matrix_grid
        arguments = self.problem.loss, self.c, grid is not None, self.start
        moments, second = self._sum(label_moments, *arguments)
        if grid is None:
            # Features that go together have a larger curvature than those that do not: take one
            # between the extremes, 1 and F times the mean, until a response is known.
            self.stiffness, self.mean = math.sqrt(F), self._mean_of_rows(second)
            phi = self._model(self.stiffness)
        else:
            M = self._second_moments(second, grid) * (self.c**2 / (n * self.unit))
            mean = M[-1] if self.problem.intercept else np.zeros(F)
            phi = MovedModel(self.problem.loss.model(M, mean), self.origin)
        return phi, *self._means(moments, self.plan.moment_grids)

    def _mean_of_rows(self, sums: np.ndarray) -> np.ndarray:
        """The mean of the rows, shrunk towards what is known of it by James and Stein's factor."""
        intercept, grid, known = self.problem.intercept, self.plan.mean_grid, 0.0
        mean = np.zeros(self.F)
        if grid is not None:
            variance = gaussian_mechanism(self.rng, sums, grid) ** 2
            known = max(0.0, 1.0 - self.F * variance / max(float(sums @ sums), 1e-300))
            mean = sums * (known * self.c / (self.problem.n_samples * self.unit))
        if intercept:
            mean[-1] = 1.0 if self.problem.centred else known
        return mean

    def _model(self, stiffness: float) -> Any:
        """The model of phi if features have ``stiffness`` times their mean variance."""
        squares, mean = np.full(self.F, stiffness * self._variance()), self.mean
        if self.problem.intercept:  # as far as the mean is unknown, it goes together with features
            squares[-1] = stiffness * (1.0 - mean[-1])
        model = self.problem.loss.model(np.diag(squares) + np.outer(mean, mean), mean)
        return MovedModel(model, self.origin)

    def _variance(self) -> float:
        """The mean variance of a feature."""
        own = (
            self.moment
            - self.problem.intercept * (1.0 - self.mean[-1] ** 2)
            - self.mean @ self.mean
        )
        return max(own, self.moment / self.F) / max(self.F - self.problem.intercept, 1)

    def _stiffness_at(self, w: np.ndarray, response: np.ndarray, noise: float) -> float:
        """The stiffness of a model whose slopes at ``w`` are as long as the mean response there.

        A model with less curvature than the data would make the next step too long. Slopes along
        the mean say nothing about it.
        """
        size = float(np.linalg.norm(self.mean))
        along = self.mean / max(size, 1e-300)
        w = self.origin + w
        v = np.array([np.linalg.norm(w - (w @ along) * along), w @ along])
        square = float(response @ response - (response @ along) ** 2)
        square -= (self.F - (size > 0.0)) * noise**2
        low, high = (self.stiffness if self.responded else 1.0), float(self.F)
        for _ in range(30):
            middle = math.sqrt(low * high)
            second = np.diag([middle * self._variance(), size * size])
            slope = self.problem.loss.model(second, np.array([0.0, size])).slopes(v)[0][0]
            low, high = (middle, high) if slope * slope < square else (low, middle)
        self.stiffness, self.responded = low, True
        return low

    def _second_moments(self, second, grid):
        entries = upper_triangle(second)
        return positive_definite(entries, gaussian_mechanism(self.rng, entries, grid))

    def _means(self, sums, grids):
        """Release sums of bounded vectors by group; return means and deviations."""
        deviation = self._release(sums, grids) / self.totals
        means = sums / self.totals[:, None]
        bound = self.problem.loss.bound / self.unit  # the norm of a mean is at most this
        norms = np.linalg.norm(means, axis=1)
        return means * (self.c * bound / np.maximum(norms, bound))[:, None], self.c * deviation

    def _responses_and_losses(self, w, responses=True):
        """Mean of response times row, and mean loss, of every group at the released point ``w``."""
        loss, levels = self.problem.loss, bool(self.plan.loss_grids)
        centre = self.plan.centre * loss.largest_loss
        vectors, losses = self._sum(
            responses_and_losses,
            loss,
            self.origin + w,
            self.c,
            (centre if levels else None, self.start),
            responses,
        )
        means = self._means(vectors, self.plan.response_grids) if responses else None
        if levels:
            self._release(losses, self.plan.loss_grids)
        largest = loss.largest_loss / self.unit
        return means, np.clip(losses[:, 0] / self.totals + centre / self.unit, 0.0, largest)
