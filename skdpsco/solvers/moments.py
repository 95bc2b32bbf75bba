"""Noisy label moments and second moments, a few rounds, and any penalty by post-processing.

Proof: docs/proofs/moments.md.

The gradient of a loss ``phi(z) - t z`` in the prediction z depends on the target t through the mean
of ``t x`` alone. So that is released once, and a round needs only the mean of ``phi'(z) x``.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsco._design import columns_of
from skdpsco._validation import check_bound
from skdpsco.losses import Logistic, Squared
from skdpsco.mechanisms import SCALE_BITS, gaussian_grid, gaussian_mechanism, summation_error
from skdpsco.privacy import GaussianEvent, compose

from ._composite import CompositeProblem
from ._moment_model import Model, saturation, shrink
from ._moment_sums import norms_of, respond, sum_responses, sum_squares, sum_targets
from .base import Plan, Result

# Shares of mu**2: of the norm, then, of what is left, of the matrix or the curvature along the
# moment, then of the moment beside none, one and several rounds.
NORM_SHARE, MATRIX_SHARE, CURVATURE_SHARE = 0.03, 0.15, 0.06
MOMENT_SHARES = (1.0, 0.7, 0.5)
REGRESSION_SHARES = (0.03, 0.5)  # norm and matrix, where moments are sufficient statistics
N_COUNTS = 5  # of records with a large norm, to search 2**N_COUNTS clipping norms
INTERCEPT = 0.15  # square of the column of ones, in units of that of the clipping norm
MAX_FEATURES = 2000  # of a matrix
MATRIX_RATIO = 2.0  # of n mu over F**1.5, from which a matrix is released
ROUNDS_RATIO = 25.0  # of the signal (see `plan`), from which there are rounds
MAX_ROUNDS, MOST_ROUNDS = 20, 300  # where there is noise, and where there is hardly any
RIDGE, REGRESSION_RIDGE = 1.0, 0.4  # in units of the spectral norm of the matrix's noise
LEAST_SATURATION = 0.5  # the curvature may be twice what it seems: steps remain stable
# Of James and Stein's, of moments and of gradients: the whole would slow down the convergence.
SHRINKAGE, DIAGONAL_SHRINKAGE = 0.5, 0.75
FAR = 1e200  # coefficients, beyond all that are of use
BLOCK = 1024  # records whose rows are gathered at a time


@dataclass(frozen=True)
class MomentsPlan(Plan):
    """Grids of all releases, in sums over rows that were divided by the clipping norm.

    Parameters
    ----------
    norm_grid, matrix_grid, curvature_grid, response_grid : float or None
        None for what is not released.
    moment_grid : float
    tolerated : float
        Count of records that the clipping norm may shorten.
    row_norm : float or None
        The clipping norm, if it is public.
    """

    moment_grid: float = 0.0
    norm_grid: float | None = None
    matrix_grid: float | None = None
    curvature_grid: float | None = None
    response_grid: float | None = None
    tolerated: float = 0.0
    row_norm: float | None = None


class Moments:
    """Noisy moments, and a quadratic model that they make.

    Releases the mean of target times features, their second moments where these pay (else the
    curvature along that mean), and, where there is signal for more, the gradient at a few points:
    accelerated steps in the metric of the second moments. With the squared loss the moments are
    sufficient statistics. Whatever the penalty, it costs no privacy.

    Parameters
    ----------
    row_norm : float or None, default=None
        Public bound on the l2 norm of rows, in units of the feature bounds: of ``x_j / b_j``. What
        is longer is shortened. In [1e-100, 1e100], where squares neither vanish nor overflow.
        None looks for one privately.

    Raises
    ------
    TypeError, ValueError
        For a row norm that is none.

    References
    ----------
    Proof and sources: docs/proofs/moments.md.
    """

    requires = {"loss": ((respond,),)}

    def __init__(self, row_norm: float | None = None):
        self.row_norm = None if row_norm is None else check_bound("row_norm", row_norm)

    def plan(
        self, problem: CompositeProblem, budget: Any, n_iter: int | None = None
    ) -> MomentsPlan:
        """Spend ``budget``.

        Parameters
        ----------
        problem : CompositeProblem
        budget : Budget or Allowance
        n_iter : int or None
            Number of rounds; None leaves it to the plan. With the squared loss and a matrix there
            is nothing that rounds could add, and there are none.

        Raises
        ------
        ValueError
            For a squared loss that is linear beyond some residual; for noise that is too large for
            the grids.
        """
        n, F, loss = problem.n_samples, problem.n_features, problem.loss
        K, d = loss.n_outputs, F - problem.intercept
        squared = isinstance(loss, Squared)
        if squared and loss.clip < math.inf:
            raise ValueError(f"Moments needs Squared(clip=inf), got {loss!r}.")
        mu = budget.mu * (1.0 - 2.0**-40)  # covers the rounding of the shares
        # Length of a moment of perfect signal over that of its noise, for rows of norm 1.
        signal = n * mu / math.sqrt(max(d, 1) * max(K - 1, 1))
        matrix = F <= MAX_FEATURES and n * mu >= MATRIX_RATIO * F**1.5
        T = n_rounds(signal, matrix) if n_iter is None else n_iter
        if squared and matrix:
            T = 0
        parts = self._shares(squared and matrix, matrix, T)
        multiplier = {name: 1.0 / (mu * math.sqrt(share)) for name, (share, _) in parts.items()}
        slack = 1.0 + F * K * 2.0**-50  # rounding of norms and of products of one record
        row = math.sqrt(1.0 + INTERCEPT * problem.intercept) * slack
        size = bound_of(problem) * row
        error = summation_error(n, size)

        def grid(name, sensitivity, dimension, magnitude):
            return gaussian_grid(sensitivity, multiplier[name], dimension, magnitude)

        moved = 2.0 * size + 2.0 * math.sqrt(F * K) * error
        matrix_grid = curvature_grid = response_grid = norm_grid = None
        tolerated = 0.0
        if "norm" in parts:
            norm_grid = grid("norm", 1.0, 1, n)
            tolerated = max(min(0.5, 2.0 / signal) * n, min(2.0 * multiplier["norm"], 0.5 * n))
        if matrix:
            square = math.sqrt(2.0) * row * row
            rounding = 2.0 * F * summation_error(n, square)
            matrix_grid = grid("matrix", square + rounding, F * (F + 1) // 2, n * square)
        else:
            rounding = 2.0 * summation_error(n * K, slack * slack)
            curvature_grid = grid("curvature", slack * slack + rounding, 1, n * K)
        if T > 0:
            response_grid = grid("responses", moved, F * K, n * size)
        return MomentsPlan(
            event=compose(
                *(
                    GaussianEvent(multiplier[name])
                    for name, (_, count) in parts.items()
                    for _ in range(count)
                )
            ),
            n_iter=T,
            moment_grid=grid("moment", moved, F * K, n * size),
            norm_grid=norm_grid,
            matrix_grid=matrix_grid,
            curvature_grid=curvature_grid,
            response_grid=response_grid,
            tolerated=tolerated,
            row_norm=self.row_norm,
        )

    def _shares(self, sufficient, matrix, T):
        """Share of mu**2 of one release of every kind, and how many there are."""
        norm, second = REGRESSION_SHARES if sufficient else (NORM_SHARE, MATRIX_SHARE)
        parts = {}
        left = 1.0
        if self.row_norm is None:
            parts["norm"] = (norm / N_COUNTS, N_COUNTS)
            left -= norm
        share = left * (second if matrix else CURVATURE_SHARE)
        parts["matrix" if matrix else "curvature"] = (share, 1)
        left -= share
        moment = left * MOMENT_SHARES[min(T, 2)]
        parts["moment"] = (moment, 1)
        if T > 0:
            parts["responses"] = ((left - moment) / T, T)
        return parts

    def run(self, plan: MomentsPlan, problem: CompositeProblem, X, y, rng, progress) -> Result:
        """Follow ``plan`` on the data."""
        with np.errstate(all="ignore"):  # an underflow would tell something about the data
            coef = _Run(plan, problem, X, y, rng).fit(progress)
        return Result(coef, plan.n_iter)


def n_rounds(signal: float, matrix: bool) -> int:
    """Number of rounds: more where there is less noise, at last as many as converge."""
    if signal < ROUNDS_RATIO:
        return 0
    few = min(math.sqrt(signal / 40.0), MAX_ROUNDS if matrix else 1)
    many = min(MAX_ROUNDS * signal / 1e6, MOST_ROUNDS)
    return max(1, round(max(few, many)))


def bound_of(problem: CompositeProblem) -> float:
    """Largest l2 norm of a target: the derivatives of the loss where predictions are 0."""
    size = problem.loss.lipschitz(0.0, problem.target_bound)
    # 1 - 1 / K, the largest component of e_y - 1 / K, is the square of its norm.
    return math.sqrt(size) if problem.loss.n_outputs > 1 else size


class _Run:
    """One fit. Coefficients stand in units in which rows are at most of norm 1."""

    def __init__(self, plan, problem, X, y, rng):
        self.plan, self.problem, self.rng = plan, problem, rng
        self.X, self.y = X, y
        self.n, self.F, self.K = problem.n_samples, problem.n_features, problem.loss.n_outputs
        self.d = self.F - problem.intercept
        self.Z = np.empty((self.n, self.K))
        self.bound = bound_of(problem)
        self.shrinkage = SHRINKAGE if plan.matrix_grid else DIAGONAL_SHRINKAGE
        self.sufficient = isinstance(problem.loss, Squared) and plan.matrix_grid is not None

    def fit(self, progress) -> np.ndarray:
        """Coefficients, flat."""
        plan, problem = self.plan, self.problem
        norms = np.empty(self.n)
        norms_of(self.X, norms)
        self.c = c = self.clipping_norm(norms)
        shortened = c / np.maximum(norms, c)
        self.weight = shortened / c
        # Coefficients of the problem over those of shortened rows.
        self.scale = np.full(self.F, 1.0 / c)
        self.scale[self.d :] = math.sqrt(INTERCEPT)
        moment, deviation = self.moment(self.weight * shortened if self.sufficient else self.weight)
        M = self.second_moments() if plan.matrix_grid else self.curvature(moment)
        model = Model(M, problem, self.scale)
        start = np.zeros((self.K, self.F))
        curvature = problem.loss.smoothness() if self.K == 1 else 1.0 / self.K
        h = 1.0
        likely = shrink(moment, SHRINKAGE * deviation**2)
        W = model.minimise(curvature, likely, start)
        if isinstance(problem.loss, Logistic):
            for _ in range(20):
                new = max(saturation(float((W * model.apply(W)).sum())), LEAST_SATURATION)
                if new > 0.99 * h:
                    break
                h = new
                W = model.minimise(curvature * h, likely, W)
        W = self.rounds(model, curvature * h, moment, deviation, W, progress)
        return (W * self.scale).ravel()

    def rounds(self, model, curvature, moment, deviation, W, progress):
        """Accelerated proximal steps in the metric of the model."""
        plan = self.plan
        if plan.n_iter > MAX_ROUNDS:
            curvature = self.problem.loss.smoothness()  # a bound
        V, momentum = W, 1.0
        V_old = R_old = np.zeros_like(W)
        for t in range(plan.n_iter):
            R, noise = self.responses(V)
            # Along the last step the gradient has changed by more than the model has it?
            S = V - V_old
            bend = float((S * model.apply(S)).sum())
            if bend > 0.0:
                doubt = noise * math.sqrt(1.0 + (t > 0)) * float(np.linalg.norm(S))
                measured = (float((S * (R - R_old)).sum()) - doubt) / bend
                curvature = max(curvature, measured)
            V_old, R_old = V, R
            G = shrink(R - moment, self.shrinkage * (noise**2 + deviation**2))
            new = model.minimise(curvature, curvature * model.apply(V) - G, V)
            if float(((V - new) * model.apply(new - W)).sum()) > 0.0:
                momentum = 1.0  # it has gone too far
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
            V = new + (momentum - 1.0) / following * (new - W)
            W, momentum = new, following
            progress[0] += 1
        return W

    def release(self, values, grid):
        """Add noise to ``values`` in place; return its standard deviation."""
        gaussian_mechanism(self.rng, values, grid)
        return grid * 2.0**SCALE_BITS

    def clipping_norm(self, norms):
        """The smallest of the candidates that few rows exceed."""
        largest = math.sqrt(max(self.d, 1))
        if self.plan.row_norm is not None:
            return min(self.plan.row_norm, largest)
        n_below = 2**N_COUNTS - 1
        top = math.ceil(2.0 * math.log2(largest) - 1e-9)
        candidates = np.append(2.0 ** (np.arange(top - n_below, top) / 2.0), largest)
        low, high = 0, n_below
        while low < high:
            middle = (low + high) // 2
            # Norms that are equal to a candidate may have been rounded.
            count = np.array([np.count_nonzero(norms > candidates[middle] * (1.0 + 1e-9))], float)
            self.release(count, self.plan.norm_grid)
            if count[0] <= self.plan.tolerated:
                high = middle
            else:
                low = middle + 1
        return float(candidates[high])

    def means(self, sums, grid):
        """Release sums of rows times numbers, one vector per output; return means and noise."""
        W = sums.reshape(self.K, self.F)
        W[:, self.d :] *= math.sqrt(INTERCEPT) * self.c
        deviation = self.release(sums, grid) / self.n
        W = W / self.n
        if self.K > 1:  # targets and responses sum to 0 over the classes
            W -= W.mean(axis=0)
            deviation *= math.sqrt(1.0 - 1.0 / self.K)
        return W, deviation

    def moment(self, weight):
        """Mean of target times row, and its noise."""
        sums = np.empty(self.F * self.K)
        sum_targets(self.X, self.y, self.problem.loss, weight, self.Z, sums)
        return self.means(sums, self.plan.moment_grid)

    def responses(self, W):
        """Mean of response times row at ``W``, and its noise."""
        sums = np.empty(self.F * self.K)
        # Predictions have to be finite: one NaN would take the whole sum with it.
        w = np.clip(np.nan_to_num(W * self.scale), -FAR, FAR).ravel()
        sum_responses(self.X, w, self.problem.loss, self.bound, self.weight, self.Z, sums)
        return self.means(sums, self.plan.response_grid)

    def curvature(self, moment):
        """Diagonal second moments: of all features as along the moment."""
        direction = np.array(moment)
        direction[:, self.d :] = 0.0
        direction /= max(float(np.linalg.norm(direction)), 1e-100)  # tiny squares would vanish
        square = np.array([sum_squares(self.X, direction.ravel(), self.weight, self.Z)])
        deviation = self.release(square, self.plan.curvature_grid)
        M = np.full(self.F, (max(float(square[0]), 0.0) + deviation) / self.n)
        M[self.d :] = INTERCEPT
        return M

    def second_moments(self):
        """Noisy mean of row row', made positive definite."""
        F, n = self.F, self.n
        M = np.zeros((F, F))
        for start in range(0, n, BLOCK):
            stop = min(start + BLOCK, n)
            A = columns_of(self.X, start, stop, np.arange(F))
            A *= self.weight[start:stop, None]
            A[:, self.d :] *= math.sqrt(INTERCEPT) * self.c
            M += A.T @ A
        upper = np.triu_indices(F)
        off = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))  # l2 norm = Frobenius norm
        entries = M[upper] * off
        deviation = self.release(entries, self.plan.matrix_grid)
        M = np.zeros((F, F))
        M[upper] = entries / off
        M += np.triu(M, 1).T
        values, U = np.linalg.eigh(M)
        # The noise has spectral norm about deviation * sqrt(2 F): below that nothing is known.
        ridge = REGRESSION_RIDGE if self.sufficient else RIDGE
        ridge *= deviation * math.sqrt(2.0 * F)
        return (U * (np.maximum(values, 0.0) + ridge)) @ U.T / n
