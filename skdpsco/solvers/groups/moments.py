"""Group DRO from noisy moments; the saddle point is post-processing.

Proof: docs/proofs/group_dro.md.

The gradient of a loss ``phi(x'w) - t x'w`` depends on the target t through the mean of ``t x``
alone. So one noisy vector per group, one noisy matrix of second moments, and a round in which model
and data are compared at one point are enough, where a noisy gradient method needs many rounds.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsco.data.block_sources import cuts
from skdpsco.data.design import columns_of
from skdpsco.data.pieces import sum_error, tree_sum
from skdpsco.mechanisms.samplers import SCALE_BITS, gaussian_grid, gaussian_mechanism
from skdpsco.solvers.base import Plan, share_mu
from skdpsco.solvers.groups.problem import (
    GroupProblem,
    GroupResult,
    LogisticMoments,
    SquaredMoments,
    bounded_losses,
    bounded_responses,
    bounded_targets,
    mixtures,
)
from skdpsco.solvers.groups.saddle_of_model import Saddle, james_stein
from skdpsco.solvers.l1.refit import BLOCK, newton_pays
from skdpsco.solvers.moments.second_moments import positive_definite, upper_triangle

__all__ = [
    "GroupMoments",
    "GroupMomentsPlan",
    "GroupProblem",
    "GroupResult",
    "LogisticMoments",
    "SquaredMoments",
    "mixtures",
    "needed_size",
]

# Shares of mu**2, before those that are left out are given to the others.
COUNT_SHARE = 0.02
NORM_SHARE, MATRIX_SHARE, MOMENT_SHARE, ROUND_SHARE, LOSS_SHARE = 0.03, 0.05, 0.50, 0.30, 0.12
MATRIX_RATIO = 3.0  # of `newton_pays`: with less, the matrix is little more than its ridge
MAX_GROUP_FEATURES = 2000  # a saddle point solves systems of this size
MAX_ROUNDS = 20
LEVEL_ERROR = 0.05  # of the model, in units of the loss: what a noisy level is weighed against
TOO_SMALL = 10.0  # a group's moment should exceed its noise so many times
# What is taken from the losses of records that may change their group, in units of the largest: the
# records of a group then add between -0.3 and 0.7, and sqrt(2) times that is less than 1.
CENTRE = 0.3
LEAST_COUNT = 2.0  # a released count is at least so many deviations of its noise, and one record


@dataclass(frozen=True)
class GroupMomentsPlan(Plan):
    """Grids of all releases, in sums of rows of norm 1; one per group where groups are apart."""

    norm_grid: float = 0.0
    count_grid: float | None = None  # None: not released
    matrix_grid: float | None = None
    moment_grids: tuple[float, ...] = ()
    response_grids: tuple[float, ...] = ()
    loss_grids: tuple[float, ...] = ()  # none: not released
    loss_centre: float = 0.0
    smoothing: float = 1e-2
    largest_clip: bool = False  # no row is shortened


def needed_size(n_features: int, mu: float) -> int:
    """Members that a group needs, for features spread evenly over [-1, 1].

    The noise of a group's moment has norm about ``c sqrt(F) / (n_g mu)`` in units of the mean.
    """
    return math.ceil(TOO_SMALL * math.sqrt(n_features / 3.0) * math.sqrt(n_features) / mu)


class GroupMoments:
    """Noisy label moments of every group, noisy second moments, and rounds of correction.

    Gaussian noise only. The l2 norm of a row is clipped to a multiple of the released root mean
    square. Where noise is small, more rounds are made: up to 20, which then find the saddle point.

    References
    ----------
    Proof and sources: docs/proofs/group_dro.md.
    """

    def plan(
        self, problem: GroupProblem, budget: Any, n_iter: int | None = None
    ) -> GroupMomentsPlan:
        """Spend ``budget``; ``n_iter`` is the number of rounds, None leaves it to the plan.

        Raises
        ------
        ValueError
            For more than 2000 features, or noise that is too large for the grids.
        """
        n, F, k, loss = problem.n_samples, problem.n_features, problem.n_groups, problem.loss
        if F > MAX_GROUP_FEATURES:
            raise ValueError(
                f"Group DRO needs X to have at most {MAX_GROUP_FEATURES} features, got {F}."
            )
        private, r = problem.group_sizes is None, problem.max_memberships
        mu = budget.mu * (1.0 - 2.0**-40)
        sizes = problem.expected_sizes
        ratio = min(sizes) * mu / (TOO_SMALL * math.sqrt(r * F))
        n_rounds = n_iter or int(min(max(1, round(math.sqrt(ratio / 40.0))), MAX_ROUNDS))
        levels = not problem.theta_is_fixed
        matrix = newton_pays(n, F, mu, MATRIX_RATIO)
        n_levels = n_rounds + (loss.level_at_zero is None) if levels else 0
        parts = {  # share of one release, how many there are
            "counts": (COUNT_SHARE, int(private and problem.prior is None)),
            "norm": (NORM_SHARE, 1),
            "matrix": (MATRIX_SHARE, int(matrix)),
            "moments": (MOMENT_SHARE, 1),
            "responses": (ROUND_SHARE / n_rounds, n_rounds),
            "losses": (LOSS_SHARE / max(n_levels, 1), n_levels),
        }
        total = sum(share * count for share, count in parts.values())
        multipliers, event = share_mu(
            mu, {name: (share / total, count) for name, (share, count) in parts.items()}
        )
        slack = 1.0 + F * 2.0**-50  # rounding of norms and products of one record
        a, cut = loss.bound * slack, loss.largest_loss
        others = 2 if private else 1  # of the groups that change, per group that the record is in
        terms = (n,) * k if private else problem.group_sizes

        def per_group(name, change, bound, dimension):
            """One grid per group: sums of terms of norm ``bound``, which one record may change."""
            return tuple(
                gaussian_grid(
                    change + 2.0 * math.sqrt(others) * sum_error(m, bound),
                    multipliers[name] * math.sqrt(r),
                    others * dimension,
                    m * bound,
                )
                for m in terms
            )

        square = 2.0 * sum_error(n, 1.0, F)
        row = math.sqrt(2.0) * slack
        matrix_error = 2.0 * sum_error(n, row)
        changed = min(2 * r, k)  # counts that one record changes, by 1 each
        loss_grids, smoothing = (), 1e-2
        if levels:
            range_ = cut * (1.0 + 2.0**-50) if private else cut  # the centring rounds
            loss_grids = per_group("losses", range_, cut, 1)
            noise = max(g * 2.0**SCALE_BITS / m for g, m in zip(loss_grids, sizes, strict=True))
            smoothing = min(max(noise, 1e-4), 1e-2)
        return GroupMomentsPlan(
            event=event,
            n_iter=n_rounds,
            norm_grid=gaussian_grid(F + square, multipliers["norm"], 1, n * F),
            count_grid=(
                gaussian_grid(math.sqrt(changed), multipliers["counts"], changed, n)
                if parts["counts"][1]
                else None
            ),
            matrix_grid=(
                gaussian_grid(row + matrix_error, multipliers["matrix"], F * (F + 1) // 2, n * row)
                if matrix
                else None
            ),
            moment_grids=per_group("moments", 2.0 * a, a, F),
            response_grids=per_group("responses", 2.0 * a, a, F),
            loss_grids=loss_grids,
            loss_centre=CENTRE * cut if private else 0.0,
            smoothing=smoothing,
            largest_clip=ratio > 1e3,
        )

    def run(
        self, plan: GroupMomentsPlan, problem: GroupProblem, X, y, membership, rng, progress
    ) -> GroupResult:
        """Follow ``plan`` on the data; ``membership``: a CSR array of ones, a column per group."""
        return _GroupFit(plan, problem, X, y, membership, rng).run(progress)


class _GroupFit:
    """One fit; ``self.c`` and all that `run` computes are made of releases."""

    def __init__(self, plan, problem, X, y, membership, rng):
        self.plan, self.problem, self.rng = plan, problem, rng
        self.X, self.y, self.membership = X, y, membership
        self.F, self.k = problem.n_features, problem.n_groups

    def run(self, progress) -> GroupResult:
        problem, loss = self.problem, self.problem.loss
        self.sizes = self._public_sizes()
        self._clip_norm()
        phi, moments, deviation = self._model_and_moments()
        B, own = james_stein(moments, deviation, self.sizes)
        pi = self.sizes / self.sizes.sum()
        mix = (1.0 - problem.average_weight) * np.eye(self.k) + problem.average_weight * pi
        cap, base = mixtures(problem, self.sizes)
        n_ball = self.F - problem.intercept

        def saddle_point(B, C, start, variances):
            def variance(theta):
                return np.append(mix.T @ theta, 1.0) ** 2 @ variances

            sets = (cap, base, problem.constraint.radius, n_ball, self.plan.smoothing)
            return Saddle(phi, mix @ B, mix @ C, *sets, variance).solve(start)

        w = np.zeros(self.F)
        level = np.zeros(self.k)  # of every group's loss, less phi(w) - b_g'w
        if self.plan.loss_grids and loss.level_at_zero is None:
            level = self._responses_and_losses(w, responses=False)[1]
        w, theta = saddle_point(B, level, w, own)
        for t in range(self.plan.n_iter):
            (responses, deviation), losses = self._responses_and_losses(w)
            slopes = phi.slopes(w)[0]
            error = slopes - responses  # of the model
            # A wrong law of predictions errs along the slopes. Little noise is in one direction;
            # in the others there is no error where it is less than the noise.
            along = slopes / max(float(np.linalg.norm(slopes)), 1e-300)
            along = (pi @ error @ along) * along
            error, added = james_stein(error - along, deviation, self.sizes)
            corrected = B + error + along
            C = (corrected - B) @ w + level
            if self.plan.loss_grids:
                noise = np.array(self.plan.loss_grids) * 2.0**SCALE_BITS / self.sizes
                gap = losses - (phi.value(w) - B @ w + level)
                C += gap * LEVEL_ERROR**2 / (LEVEL_ERROR**2 + noise**2)
            v, theta = saddle_point(corrected, C, w, own + added)
            # The pooled curvature may be too small for some groups: shorter steps converge.
            w = v if t == self.plan.n_iter - 1 else w + 0.7 * (v - w)
            progress[0] += 1
        return GroupResult(w, self.plan.n_iter, theta=mix.T @ theta)

    def _sum(self, function):
        """Sum of ``function(where they stand, rows)`` over blocks of records; see `sum_error`."""
        columns = np.arange(self.F)
        return tree_sum(
            function(slice(start, stop), columns_of(self.X, start, stop, columns))
            for start, stop in cuts(self.problem.n_samples, BLOCK)
        )

    def _unit_rows(self, A):
        """Rows over the larger of their norm and the clipping norm."""
        norms = np.sqrt(np.einsum("ij,ij->i", A, A))
        return A / np.maximum(norms, self.c)[:, None]

    def _public_sizes(self):
        """Sizes of the groups: public, expected, or counts that are released here."""
        grid = self.plan.count_grid
        if grid is None:
            return np.array(self.problem.expected_sizes, dtype=np.float64)
        counts = np.bincount(self.membership.indices, minlength=self.k).astype(np.float64)
        deviation = self._release(counts[None], (grid,))
        n = self.problem.n_samples
        return np.clip(counts, min(1.0 + LEAST_COUNT * deviation[0], n), n)

    def _select(self, rows):
        """Matrix that sums the records of every group of a block, and touches no others."""
        return self.membership[rows].T

    def _release(self, sums, grids):
        """Release a row of ``sums`` per group, in place; return the noise's deviations."""
        for values, grid in zip(sums, grids, strict=True):
            gaussian_mechanism(self.rng, values, grid)
        return np.array(grids) * 2.0**SCALE_BITS

    def _clip_norm(self):
        F = self.F
        square = self._sum(lambda _, A: np.einsum("ij,ij->i", A, A).sum(keepdims=True))
        self._release(square[None], (self.plan.norm_grid,))
        self.moment = min(max(float(square[0]) / self.problem.n_samples, F / 50.0), float(F))
        self.c = math.sqrt(F if self.plan.largest_clip else min(1.21 * self.moment, F))

    def _model_and_moments(self):
        """The model of phi, and one vector of label moments per group."""
        n, F, grid = self.problem.n_samples, self.F, self.plan.matrix_grid

        def sums(rows, A):
            U = self._unit_rows(A)
            t = bounded_targets(self.problem.loss, self.y[rows])
            moment = self._select(rows) @ (t[:, None] * U)
            return (moment,) if grid is None else (moment, U.T @ U)

        moments, *second = self._sum(sums)
        intercept = self.problem.intercept
        if grid is None:  # equal second moments of all features
            rest = self.moment - intercept
            M = np.diag(np.full(F, max(rest, self.moment / F) / max(F - intercept, 1)))
            if intercept:
                M[-1, -1] = 1.0
        else:
            M = self._second_moments(second[0], grid) * (self.c**2 / n)
        mean = M[-1] if intercept else np.zeros(F)
        return self.problem.loss.model(M, mean), *self._means(moments, self.plan.moment_grids)

    def _second_moments(self, second, grid):
        entries = upper_triangle(second)
        gaussian_mechanism(self.rng, entries, grid)
        return positive_definite(entries, grid * 2.0**SCALE_BITS)

    def _means(self, sums, grids):
        """Release sums over groups of vectors within the bound; return means and deviations."""
        deviation = self._release(sums, grids) / self.sizes
        means = sums / self.sizes[:, None]
        bound = self.problem.loss.bound  # no mean is longer
        norms = np.linalg.norm(means, axis=1)
        return means * (self.c * bound / np.maximum(norms, bound))[:, None], self.c * deviation

    def _responses_and_losses(self, w, responses=True):
        """Means over every group at the released point ``w``: response times row, and loss."""
        loss, levels = self.problem.loss, bool(self.plan.loss_grids)
        centre = self.plan.loss_centre

        def sums(rows, A):
            z, select = A @ w, self._select(rows)
            vectors, losses = np.zeros((self.k, self.F)), np.zeros((self.k, 1))
            if responses:
                vectors = select @ (bounded_responses(loss, z)[:, None] * self._unit_rows(A))
            if levels:
                losses = select @ (bounded_losses(loss, z, self.y[rows]) - centre)[:, None]
            return vectors, losses

        vectors, losses = self._sum(sums)
        means = self._means(vectors, self.plan.response_grids) if responses else None
        if levels:
            self._release(losses, self.plan.loss_grids)
        return means, np.clip(losses[:, 0] / self.sizes + centre, 0.0, loss.largest_loss)
