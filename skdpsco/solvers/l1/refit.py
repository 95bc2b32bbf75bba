"""Noisy Newton or gradient steps on a public set of coordinates. Proof: docs/proofs/refit.md.

All noise is Gaussian. The shares of mu**2 add up to that of the plan whatever branch is taken, and
branches depend on public numbers only.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import njit
from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.constraints.sets import project
from skdpsco.data.design import CSR, Dense, read_only, sparse_columns_of
from skdpsco.data.pieces import one_record, row_squares, sum_in_batches
from skdpsco.data.products import multiply_rows
from skdpsco.data.record_sums import in_pieces, map_reduce
from skdpsco.losses.kernels import bounded_curvatures, bounded_derivatives
from skdpsco.losses.library import for_kernels, lipschitz_l2
from skdpsco.losses.traits import traits_of
from skdpsco.mechanisms.samplers import gaussian_grid, release
from skdpsco.privacy import Event
from skdpsco.privacy.spending import share_mu
from skdpsco.solvers.penalized.gradient_descent import stable_step
from skdpsco.solvers.penalized.second_moments import positive_definite, upper_triangle
from skdpsco.solvers.steps import move_into

__all__ = [
    "Refit",
    "RefitPlan",
    "linearise",
    "newton_pays",
    "noise_fits",
    "plan_refit",
    "sum_over",
]


class RefitTuning(NamedTuple):
    """Constants of the refit, fitted on data as in examples/benchmarks/l1_accuracy.py.

    "Signal" is ``n mu / d**1.5`` for d coordinates, which is the second moments over their noise.

    Parameters
    ----------
    max_newton : int
        Largest number of coordinates of a second-moment matrix; chosen by hand, for time and
        memory.
    newton_signal : float
        Signal above which a matrix is released.
    moment_share, matrix_share : float
        Shares of mu**2 for the mean squared row norm, and for all matrices. Gradients get the rest.
    max_steps : int
        Largest number of Newton steps; chosen by hand, for time.
    plenty : float
        Signal above which there are more than two Newton steps.
    growth : float
        Power of the signal with which their number grows.
    steps_per_matrix : int
        Number of Newton steps that share one matrix, if there are that many.
    quadratic_steps : int
        Steps to the minimum of a quadratic function in the ball; chosen by hand, for time.
    gradient_noise : float
        ``n mu / sqrt(d)`` that one gradient step needs.
    gradient_steps : tuple of two floats
        Smallest and largest number of gradient steps.
    length : float
        Length of a gradient step, relative to the one from smoothness and the mean squared norm.
    tail : float
        Share of the gradient steps whose points are averaged.
    reach : float
        Bound on residuals in Lipschitz constants, if there is much noise. (Targets are scaled so
        that their root mean squares are 0.3 to 0.5.)
    stretch : float
        Clipping norm of rows, relative to the root of their mean squared norm.
    clipping : float
        Signal above which this clipping norm grows.
    """

    max_newton: int = 300
    newton_signal: float = 10.0
    moment_share: float = 0.03
    matrix_share: float = 0.25
    max_steps: int = 100
    plenty: float = 200.0
    growth: float = 0.4
    steps_per_matrix: int = 4
    quadratic_steps: int = 300
    gradient_noise: float = 6.0
    gradient_steps: tuple[float, float] = (4.0, 50.0)
    length: float = 2.0
    tail: float = 0.25
    reach: float = 0.6
    stretch: float = 1.2
    clipping: float = 1000.0


REFIT = RefitTuning()


def newton_pays(
    n_samples: float, n_coordinates: int, mu: float, least: float = REFIT.newton_signal
) -> bool:
    """Whether a noisy second-moment matrix is worth its budget, from public sizes alone.

    Its noise has spectral norm about ``d**1.5 / (n mu)`` times the mean squared feature.
    """
    return n_coordinates <= REFIT.max_newton and n_samples * mu >= least * n_coordinates**1.5


def newton_steps(n_samples: float, n_coordinates: int, mu: float) -> int:
    """Number of Newton steps: two, as the second undoes the ridge, and more if noise is small."""
    signal = n_samples * mu / n_coordinates**1.5
    more = max(1.0, (signal / REFIT.plenty) ** REFIT.growth)
    return int(min(REFIT.max_steps, round(2.0 * more)))


def gradient_steps(n_samples: float, n_coordinates: int, mu: float) -> int:
    """Number of gradient steps that are worth their noise: few if there is much noise."""
    fewest, most = REFIT.gradient_steps
    worth = n_samples * mu / math.sqrt(n_coordinates) / REFIT.gradient_noise
    return round(min(max(worth, fewest), most))


@dataclass(frozen=True)
class RefitPlan:
    """What a refit releases, and how often: a function of public sizes.

    Parameters
    ----------
    newton : bool
        Whether the steps are Newton steps.
    n_steps : int
        Number of noisy gradients.
    n_matrices : int
        Number of noisy matrices of second moments; 0 without Newton steps.
    multipliers : dict
        Noise multiplier of every release of a kind: "moment" (once), "gradient" (in each step)
        and "matrix" with Newton steps.
    growth : float
        Factor of the clipping norm, and of the bound on residuals.
    event : Event
    """

    newton: bool
    n_steps: int
    n_matrices: int
    multipliers: dict[str, float]
    growth: float
    event: Event


def plan_refit(n_samples: float, n_columns: int, mu: float) -> RefitPlan:
    """Share ``mu**2`` among the releases of a refit of this many columns."""
    newton = newton_pays(n_samples, n_columns, mu)
    n_steps = (newton_steps if newton else gradient_steps)(n_samples, n_columns, mu)
    n_matrices = max(1, n_steps // REFIT.steps_per_matrix) if newton else 0
    parts, left = {"moment": (REFIT.moment_share, 1)}, 1.0 - REFIT.moment_share
    if newton:
        parts["matrix"] = (REFIT.matrix_share / n_matrices, n_matrices)
        left -= REFIT.matrix_share
    multipliers, event = share_mu(mu, parts | {"gradient": (left / n_steps, n_steps)})
    return RefitPlan(
        newton, n_steps, n_matrices, multipliers, growth(n_samples, n_columns, mu), event
    )


def growth(n_samples: float, n_columns: int, mu: float) -> float:
    """Factor of clipping bounds, which is above 1 if noise is small."""
    signal = n_samples * mu / n_columns**1.5
    return max(1.0, (signal / REFIT.clipping) ** 0.25)


def noise_fits(mu: float, n_coordinates: int, n_columns: int) -> bool:
    """Whether the grid is fine enough for every release of a refit, from public sizes alone."""
    n_entries = min(n_columns, REFIT.max_newton) ** 2
    smallest = REFIT.matrix_share / REFIT.max_steps  # the smallest share of a single release
    try:
        gaussian_grid(1.0, 1.0 / (mu * math.sqrt(smallest)), max(n_coordinates, n_entries), 1.0)
    except ValueError:
        return False
    return True


@njit
def minimise_quadratic(H, g, start, constraint, n_ball, n_iter, out):
    """Minimise ``g'(w - start) + (w - start)'H(w - start) / 2`` with ``w[:n_ball]`` in the set."""
    d = g.shape[0]
    bound = 0.0  # bound on the largest eigenvalue: the largest absolute row sum
    for i in range(d):
        total = 0.0
        for j in range(d):
            total += abs(H[i, j])
        bound = max(bound, total)
    v = start.copy()
    new = np.empty(d)
    for i in range(d):
        out[i] = start[i]
    momentum = 1.0
    for _ in range(n_iter):
        for i in range(d):
            slope = g[i]
            for j in range(d):
                slope += H[i, j] * (v[j] - start[j])
            new[i] = v[i] - slope / bound
        project(constraint, new[:n_ball])
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        for i in range(d):
            v[i] = new[i] + (momentum - 1.0) / following * (new[i] - out[i])
            out[i] = new[i]
        momentum = following


@njit
def linearise(loss, Z, y, slope, smoothness, v):
    """Write the curvatures into ``v``, and replace the predictions ``Z`` by derivatives."""
    bounded_curvatures(loss, Z, y, smoothness, v)
    bounded_derivatives(loss, Z, y, slope, slope, Z)


class Refit:
    """Private steps on ``support``, an array of flat coordinates that is already public.

    Parameters
    ----------
    problem, X, y, rng
        As in `skdpsco.solvers.base.Solver.run`.
    support : ndarray of int
    constraint : NamedTuple with a `project` kernel
        Constraint on all coordinates except those of the intercept, which are free.
    plan : RefitPlan
        Plan for the columns of the support.
    """

    problem: Any
    y: Any
    rng: Any
    constraint: Any
    plan: Any
    progress: Any
    slope: float
    support: np.ndarray
    n_ball: int
    columns: np.ndarray
    local: np.ndarray
    rows: Any
    slack: Any
    w: Any
    clip: Any

    def __init__(
        self,
        problem: Problem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        support: Any,
        constraint: Any,
        plan: RefitPlan,
        progress: Any,
    ) -> None:
        self.problem, self.X, self.y, self.rng = problem, X, y, rng
        self.constraint, self.plan, self.progress = constraint, plan, progress
        self.K = problem.loss.n_outputs
        self.slope = lipschitz_l2(problem.loss)
        if traits_of(problem.loss).quadratic:
            self.slope *= min(1.0, REFIT.reach * plan.growth)
        is_intercept = problem.intercept & (support % problem.n_features == problem.n_features - 1)
        self.support = np.concatenate([support[~is_intercept], support[is_intercept]])
        self.n_ball = int((~is_intercept).sum())  # the constraint concerns these coordinates
        output, column = np.divmod(self.support, problem.n_features)
        self.columns, place = np.unique(column, return_inverse=True)
        self.F = len(self.columns)
        self.local = output * self.F + place  # positions of the support in ``self.w``

    def run(self, coef: np.ndarray, hard: float) -> None:
        """Improve ``coef``, flat, on the support, in place.

        Parameters
        ----------
        coef : ndarray
        hard : float
            After Newton steps, coefficients below this many standard deviations become 0.
        """
        moment = self._start(coef)
        if self.plan.newton:
            self._newton(hard)
        else:
            self._gradient_steps(moment)
        coef[self.support] = self.w[self.local]

    def _start(self, coef: np.ndarray) -> float:
        """Prepare the sums, and release the mean squared row norm, which decides the clip norm."""
        n = self.problem.n_samples
        # Gradients of sparse records need few operations. (Second moments are dense.)
        self.rows = None
        if isinstance(self.X, CSR) and not self.plan.newton:
            self.rows = sparse_columns_of(self.X, self.columns)
        else:
            self.X = in_pieces(self.X, self.y)
        self.slack = 1.0 + self.F * self.K * 2.0**-50  # rounding of norms and of products
        self.w = np.zeros(self.F * self.K)
        self.w[self.local] = coef[self.support]
        # 1. The clipping norm is a public multiple of the root of the mean squared row norm.
        square = self._sum(square_norms)
        changed = one_record(n, self.problem.added, 1.0, self.F, self.F)
        self._release(square, changed, "moment", n * self.F)
        moment = min(max(square[0] / n, self.F / 50.0), self.F)
        self.clip = min(REFIT.stretch * self.plan.growth * moment**0.5, self.F**0.5)
        return moment

    def _newton(self, hard: float) -> None:
        n_steps, n_matrices = self.plan.n_steps, self.plan.n_matrices
        for t in range(n_steps):
            if t * n_matrices // n_steps > (t - 1) * n_matrices // n_steps:
                H = self._second_moments()
            g, noise = self._gradient()
            start = self.w[self.local]
            new = start - np.linalg.solve(H, g)
            if np.abs(new[: self.n_ball]).sum() > self.constraint.norm_bound():
                steps = REFIT.quadratic_steps
                minimise_quadratic(H, g, start, self.constraint, self.n_ball, steps, new)
            self.w[self.local] = new
        deviation = noise * np.linalg.norm(np.linalg.inv(H), axis=1)
        small = np.abs(new) < hard * deviation
        self.w[self.local[: self.n_ball][small[: self.n_ball]]] = 0.0

    def _second_moments(self) -> np.ndarray:
        """Noisy mean second moments on the support, weighted by the curvature, plus a ridge."""
        n, F = self.problem.n_samples, self.F
        # 2. One record has Frobenius norm <= smoothness * clip**2 and is positive semidefinite, so
        # a replacement moves the sum by at most sqrt(2) times that bound. (2: of records that
        # move up, a weight may be rounded otherwise.)
        size = self.problem.loss.smoothness() * self.clip**2 * self.slack
        entries = upper_triangle(self._sum(second_moments, self.clip))
        added = self.problem.added
        change = size if added else math.sqrt(2.0) * size
        sensitivity = one_record(n, added, size, change, 1 + added)
        scale = self._release(entries, sensitivity, "matrix", math.sqrt(2.0) * n * size)
        M = positive_definite(entries, scale) / n
        output, place = np.divmod(self.local, F)
        return M[np.ix_(place, place)] * (output[:, None] == output[None])

    def _gradient_steps(self, moment: float) -> None:
        """Take accelerated projected steps, whose length is stable by the mean squared row norm."""
        loss, where = self.problem.loss, self.local
        T = self.plan.n_steps
        step = REFIT.length / (loss.smoothness() * moment)
        point = old = self.w[where]
        last, last_gradient = point, np.zeros(len(where))
        largest_momentum = max(0.9, 1.0 - 5.0 / T)
        age, n_averaged = 0, max(1, round(REFIT.tail * T))
        total = np.zeros(len(where))
        for t in range(T):
            self.w[where] = point
            g, noise = self._gradient()
            if t > 0:
                step = stable_step(step, point - last, g - last_gradient, noise)
            last, last_gradient = point, g
            new = point - step * g
            inside = new[: self.n_ball]
            move_into(self.constraint, inside)
            move = new - old
            backwards = (point - new) @ move > 2.0 * step * noise * np.linalg.norm(move)
            age = 0 if backwards else age + 1
            if t >= T - n_averaged:
                total += new
            point = new + min(largest_momentum, age / (age + 3.0)) * move
            old = new
        self.w[where] = total / n_averaged

    def _gradient(self) -> tuple[np.ndarray, float]:
        """Noisy mean gradient on the support at ``self.w``, and its noise's standard deviation."""
        n = self.problem.n_samples
        # 3. One record's clipped gradient has l2 norm at most Lipschitz * clip.
        size = self.slope * self.clip * self.slack
        total = self._sum(gradients, self.clip)[self.local]
        added = self.problem.added
        changed = one_record(n, added, size, None, 1 + added)
        scale = self._release(total, changed, "gradient", n * size)
        self.progress[0] += 1
        return total / n, scale / n

    def _release(self, total: np.ndarray, sensitivity: float, kind: str, magnitude: float):
        """Add the noise of a planned release to ``total`` in place; return the noise's scale."""
        return release(self.rng, total, sensitivity, self.plan.multipliers[kind], magnitude)

    def _sum(self, function, *arguments) -> np.ndarray:
        """Sum over records of ``function(features, derivatives, curvatures, *arguments)``."""
        W: Any = self.w.reshape(self.K, self.F).T
        loss = self.problem.loss
        X = self.X if self.rows is None else self.rows
        if self.problem.added and self.rows is None:
            W = ByRow(W)
        return map_reduce(
            X, self.y, sum_over, loss, self.slope, self.columns, W, function, arguments
        )


def sum_over(
    X: MatrixLike,
    y: TargetLike,
    loss: Any,
    slope: Any,
    columns: Any,
    W: Any,
    function: Any,
    arguments: Any,
) -> np.ndarray:
    """Sum over records, some at a time, a function of ``columns`` and of the loss at ``W``.

    X may be a result of `sparse_columns_of`.
    """
    smoothness = loss.smoothness()

    def at_W(A: Any, some: np.ndarray) -> Any:
        R = A @ W
        v = np.empty(len(some))
        linearise(for_kernels(loss), R, some, slope, smoothness, v)
        return function(A, R, v, *arguments)

    return sum_in_batches(X, y, columns, at_W)


class ByRow:
    """A matrix with which rows are multiplied one by one: BLAS may round by where a row stands."""

    __array_ufunc__ = None  # ``A @ ByRow(W)`` is for `__rmatmul__`

    def __init__(self, W: np.ndarray) -> None:
        self.W = W

    def __rmatmul__(self, A: np.ndarray) -> np.ndarray:
        Z = np.empty((len(A), self.W.shape[1]))
        rows = Dense(read_only(np.ascontiguousarray(A)), np.ones(A.shape[1]), 0)
        multiply_rows(rows, self.W.T.ravel(), Z)
        return Z


def square_norms(A: Any, R: Any, v: Any) -> Any:
    """Squares of the rows' l2 norms."""
    return row_squares(A).sum()[None]


def second_moments(A: Any, R: Any, v: Any, clip: Any) -> Any:
    """Products of the clipped rows' features, weighted by the curvatures."""
    A = A * (_weights(A, clip) * np.sqrt(v))[:, None]
    return A.T @ A


def gradients(A: Any, R: Any, v: Any, clip: Any) -> Any:
    """Gradients of clipped rows."""
    return ((R * _weights(A, clip)[:, None]).T @ A).ravel()


def _weights(A: np.ndarray, clip: float) -> np.ndarray:
    """Weights of the records: 1, or less if the row norm must be reduced to ``clip``."""
    norms = np.sqrt(row_squares(A))
    return clip / np.maximum(norms, clip)
