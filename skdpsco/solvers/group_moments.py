"""Group DRO from noisy moments; the saddle point is post-processing.

Proof: docs/proofs/group_dro.md.

The gradient of a loss ``phi(x'w) - t x'w`` depends on the target t through the mean of ``t x``
alone. So one noisy vector per group, one noisy matrix of second moments, and a round in which model
and data are compared at one point are enough, where a noisy gradient method needs many rounds.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from skdpsco._design import columns_of
from skdpsco.mechanisms import SCALE_BITS, gaussian_grid, gaussian_mechanism, summation_error
from skdpsco.privacy import GaussianEvent, compose

from ._refit import BLOCK, newton_pays
from ._saddle import GaussianModel, QuadraticModel, Saddle, shrink
from .base import Plan, Problem, Result

# Shares of mu**2, before those that are left out are given to the others.
NORM_SHARE, MATRIX_SHARE, MOMENT_SHARE, ROUND_SHARE, LOSS_SHARE = 0.03, 0.05, 0.50, 0.30, 0.12
MATRIX_RATIO = 3.0  # of `newton_pays`: with less, the matrix is little more than its ridge
MAX_FEATURES = 2000  # a saddle point solves systems of this size
MAX_ROUNDS = 20
LEVEL_ERROR = 0.05  # of the model, in units of the loss: what a noisy level is weighed against
TOO_SMALL = 10.0  # a group's moment should exceed its noise so many times


@dataclass(frozen=True)
class LogisticMoments:
    """Logistic loss: targets -1/2 and 1/2, ``phi(z) = log(2 cosh(z / 2))``."""

    bound: ClassVar[float] = 0.5  # of targets and of the response
    largest_loss: ClassVar[float] = 4.0  # what lies beyond is cut
    # The loss of the prediction 0; None if it depends on the target.
    level_at_zero: ClassVar[float | None] = math.log(2.0)
    model: ClassVar[type] = GaussianModel

    def response(self, z: np.ndarray) -> np.ndarray:
        """Derivative of phi."""
        return 0.5 * np.tanh(0.5 * z)

    def losses(self, z: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Loss of every record."""
        return np.logaddexp(z, 0.0) - (0.5 + t) * z


@dataclass(frozen=True)
class SquaredMoments:
    """Half the squared residual for targets in [-1, 1]; ``phi`` is linear beyond predictions of 1.

    A prediction beyond the bound of the targets would have a residual without bound.
    """

    bound: ClassVar[float] = 1.0
    largest_loss: ClassVar[float] = 0.5
    level_at_zero: ClassVar[float | None] = None
    model: ClassVar[type] = QuadraticModel

    def response(self, z: np.ndarray) -> np.ndarray:
        """Derivative of phi: the prediction clipped to [-1, 1]."""
        return np.clip(z, -1.0, 1.0)

    def losses(self, z: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Loss of every record."""
        inside = self.response(z)
        return inside * (z - 0.5 * inside) - t * z + 0.5 * t * t


@dataclass(frozen=True)
class GroupProblem(Problem):
    """A `Problem` whose records are in groups of public sizes; constraint: an `L2Ball`.

    Parameters
    ----------
    group_sizes : tuple of int
    theta_cap, theta_base : tuple of float
        Largest weight of every group, and the weights that smoothing pulls to.
    average_weight : float
        Weight of the average loss beside that of the worst mixture of groups.
    """

    group_sizes: tuple[int, ...] = ()
    theta_cap: tuple[float, ...] = ()
    theta_base: tuple[float, ...] = ()
    average_weight: float = 0.0


@dataclass(frozen=True)
class GroupMomentsPlan(Plan):
    """Grids of all releases, in sums of rows of norm 1; one per group where groups are apart."""

    norm_grid: float = 0.0
    matrix_grid: float | None = None  # None: not released
    moment_grids: tuple[float, ...] = ()
    response_grids: tuple[float, ...] = ()
    loss_grids: tuple[float, ...] = ()  # none: not released
    smoothing: float = 1e-2
    largest_clip: bool = False  # no row is shortened


@dataclass
class GroupResult(Result):
    """With the weights of the groups at the saddle point."""

    theta: Any = None


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
        n, F, sizes, loss = (
            problem.n_samples, problem.n_features, problem.group_sizes, problem.loss,
        )  # fmt: skip
        if F > MAX_FEATURES:
            raise ValueError(f"Group DRO needs X to have at most {MAX_FEATURES} features, got {F}.")
        mu = budget.mu * (1.0 - 2.0**-40)
        ratio = min(sizes) * mu / (TOO_SMALL * math.sqrt(F))
        n_rounds = n_iter or int(min(max(1, round(math.sqrt(ratio / 40.0))), MAX_ROUNDS))
        levels = len(sizes) > 1 and sum(problem.theta_cap) > 1.0 + 1e-9  # else theta is fixed
        matrix = newton_pays(n, F, mu, MATRIX_RATIO)
        n_levels = n_rounds + (loss.level_at_zero is None) if levels else 0
        parts = (  # share of one release, how many there are
            (NORM_SHARE, 1),
            (MATRIX_SHARE, int(matrix)),
            (MOMENT_SHARE, 1),
            (ROUND_SHARE / n_rounds, n_rounds),
            (LOSS_SHARE / max(n_levels, 1), n_levels),
        )
        total = sum(share * count for share, count in parts)
        multipliers = [1.0 / (mu * math.sqrt(share / total)) for share, _ in parts]
        counts = [count for _, count in parts]
        slack = 1.0 + F * 2.0**-50  # rounding of norms and products of one record
        a, cut = loss.bound * slack, loss.largest_loss
        vector = 2.0 * math.sqrt(F)

        def per_group(multiplier):
            return tuple(
                gaussian_grid(2.0 * a + vector * summation_error(m, a), multiplier, F, m * a)
                for m in sizes
            )

        square = 2.0 * summation_error(n * F, 1.0)
        row = math.sqrt(2.0) * slack
        matrix_error = 2.0 * F * summation_error(n, row)
        loss_grids = tuple(
            gaussian_grid(cut + 2.0 * summation_error(m, cut), multipliers[4], 1, m * cut)
            for m in sizes
        )
        noise = max(g * 2.0**SCALE_BITS / m for g, m in zip(loss_grids, sizes, strict=True))
        return GroupMomentsPlan(
            event=compose(
                *(
                    GaussianEvent(multiplier)
                    for multiplier, count in zip(multipliers, counts, strict=True)
                    for _ in range(count)
                )
            ),
            n_iter=n_rounds,
            norm_grid=gaussian_grid(F + square, multipliers[0], 1, n * F),
            matrix_grid=(
                gaussian_grid(row + matrix_error, multipliers[1], F * (F + 1) // 2, n * row)
                if matrix
                else None
            ),
            moment_grids=per_group(multipliers[2]),
            response_grids=per_group(multipliers[3]),
            loss_grids=loss_grids if levels else (),
            smoothing=min(max(noise, 1e-4), 1e-2),
            largest_clip=ratio > 1e3,
        )

    def run(
        self, plan: GroupMomentsPlan, problem: GroupProblem, X, y, groups, rng, progress
    ) -> GroupResult:
        """Follow ``plan`` on the data; ``groups`` holds the index of every record's group."""
        return _Run(plan, problem, X, y, groups, rng).run(progress)


class _Run:
    """One fit; ``self.c`` and all that `run` computes are made of releases."""

    def __init__(self, plan, problem, X, y, groups, rng):
        self.plan, self.problem, self.rng = plan, problem, rng
        self.X, self.y, self.groups = X, y, groups
        self.F, self.k = problem.n_features, len(problem.group_sizes)
        self.sizes = np.array(problem.group_sizes, dtype=np.float64)

    def run(self, progress) -> GroupResult:
        problem, loss = self.problem, self.problem.loss
        self._clip_norm()
        phi, B = self._model_and_moments()
        pi = self.sizes / self.sizes.sum()
        mix = (1.0 - problem.average_weight) * np.eye(self.k) + problem.average_weight * pi
        cap, base = np.array(problem.theta_cap), np.array(problem.theta_base)
        n_ball = self.F - problem.intercept

        def saddle_point(B, C, start):
            sets = (cap, base, problem.constraint.radius, n_ball, self.plan.smoothing)
            return Saddle(phi, mix @ B, mix @ C, *sets).solve(start)

        w = np.zeros(self.F)
        level = np.zeros(self.k)  # of every group's loss, less phi(w) - b_g'w
        if self.plan.loss_grids and loss.level_at_zero is None:
            level = self._responses_and_losses(w, responses=False)[1]
        w, theta = saddle_point(B, level, w)
        for t in range(self.plan.n_iter):
            responses, losses = self._responses_and_losses(w)
            corrected = B - responses + phi.slopes(w)[0]
            C = (corrected - B) @ w + level
            if self.plan.loss_grids:
                noise = np.array(self.plan.loss_grids) * 2.0**SCALE_BITS / self.sizes
                gap = losses - (phi.value(w) - B @ w + level)
                C += gap * LEVEL_ERROR**2 / (LEVEL_ERROR**2 + noise**2)
            v, theta = saddle_point(corrected, C, w)
            # The pooled curvature may be too small for some groups: shorter steps converge.
            w = v if t == self.plan.n_iter - 1 else w + 0.7 * (v - w)
            progress[0] += 1
        return GroupResult(w, self.plan.n_iter, theta=mix.T @ theta)

    def _blocks(self):
        """Rows, and where they stand, of block after block of records."""
        columns = np.arange(self.F)
        for start in range(0, self.problem.n_samples, BLOCK):
            stop = min(start + BLOCK, self.problem.n_samples)
            yield slice(start, stop), columns_of(self.X, start, stop, columns)

    def _unit_rows(self, A):
        """Rows over the larger of their norm and the clipping norm."""
        norms = np.sqrt(np.einsum("ij,ij->i", A, A))
        return A / np.maximum(norms, self.c)[:, None]

    def _select(self, rows):
        """Matrix that sums the records of every group of a block, and touches no others."""
        groups = self.groups[rows]
        ones = np.ones(len(groups))
        return sparse.csr_matrix((ones, (groups, np.arange(len(groups)))), (self.k, len(groups)))

    def _release(self, sums, grids):
        """Release a row of ``sums`` per group, in place; return the noise's deviations."""
        for values, grid in zip(sums, grids, strict=True):
            gaussian_mechanism(self.rng, values, grid)
        return np.array(grids) * 2.0**SCALE_BITS

    def _clip_norm(self):
        F, square = self.F, np.zeros(1)
        for _, A in self._blocks():
            square += (A * A).sum()
        self._release(square[None], (self.plan.norm_grid,))
        self.moment = min(max(float(square[0]) / self.problem.n_samples, F / 50.0), float(F))
        self.c = math.sqrt(F if self.plan.largest_clip else min(1.21 * self.moment, F))

    def _model_and_moments(self):
        """The model of phi, and one vector of label moments per group."""
        n, F, grid = self.problem.n_samples, self.F, self.plan.matrix_grid
        second, moments = np.zeros((F, F)), np.zeros((self.k, F))
        for rows, A in self._blocks():
            U = self._unit_rows(A)
            if grid is not None:
                second += U.T @ U
            moments += self._select(rows) @ (self.y[rows, None] * U)
        intercept = self.problem.intercept
        if grid is None:  # equal second moments of all features
            rest = self.moment - intercept
            M = np.diag(np.full(F, max(rest, self.moment / F) / max(F - intercept, 1)))
            if intercept:
                M[-1, -1] = 1.0
        else:
            M = self._second_moments(second, grid) * (self.c**2 / n)
        mean = M[-1] if intercept else np.zeros(F)
        return self.problem.loss.model(M, mean), self._means(moments, self.plan.moment_grids)

    def _second_moments(self, second, grid):
        upper = np.triu_indices(self.F)
        weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))  # l2 norm = Frobenius norm
        entries = second[upper] * weight
        gaussian_mechanism(self.rng, entries, grid)
        M = np.zeros((self.F, self.F))
        M[upper] = entries / weight
        M += np.triu(M, 1).T
        values, U = np.linalg.eigh(M)
        # The noise has spectral norm about scale * sqrt(2 F): below that nothing is known.
        ridge = grid * 2.0**SCALE_BITS * math.sqrt(2.0 * self.F)
        return (U * (np.maximum(values, 0.0) + ridge)) @ U.T

    def _means(self, sums, grids):
        """Release sums over groups of vectors within the bound; return means, shrunk."""
        deviation = self._release(sums, grids) / self.sizes
        means = sums / self.sizes[:, None]
        if self.k > 1:
            means = shrink(means, deviation, self.sizes)
        bound = self.problem.loss.bound  # no mean is longer
        norms = np.linalg.norm(means, axis=1)
        return means * (self.c * bound / np.maximum(norms, bound))[:, None]

    def _responses_and_losses(self, w, responses=True):
        """Means over every group at the released point ``w``: response times row, and loss."""
        loss, levels = self.problem.loss, bool(self.plan.loss_grids)
        vectors, losses = np.zeros((self.k, self.F)), np.zeros((self.k, 1))
        for rows, A in self._blocks():
            z, select = A @ w, self._select(rows)
            if responses:
                vectors += select @ (loss.response(z)[:, None] * self._unit_rows(A))
            if levels:
                cut = np.clip(loss.losses(z, self.y[rows]), 0.0, loss.largest_loss)
                losses += select @ cut[:, None]
        means = self._means(vectors, self.plan.response_grids) if responses else None
        if levels:
            self._release(losses, self.plan.loss_grids)
        return means, np.clip(losses[:, 0] / self.sizes, 0.0, loss.largest_loss)
