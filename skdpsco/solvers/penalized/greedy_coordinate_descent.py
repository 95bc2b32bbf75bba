"""Private greedy coordinate descent. Proof: docs/proofs/coordinate_descent.md, section 5."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._clipping import clip
from skdpsco._kernels import kernel, njit
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.design import CSC, Columns, add_column, as_columns
from skdpsco.mechanisms.samplers import (
    EXPONENTIAL,
    exponential_grid,
    gaussian_grid,
    gaussian_mechanism,
)
from skdpsco.penalties import PENALTIES, prox, scaled_prox, stationarity_gap, subdifferential
from skdpsco.privacy import GaussianEvent, RepeatedEvent, compose
from skdpsco.scaling.column_scales import NOTHING, ScalePlan, plan_scales, release_scales
from skdpsco.scaling.quantiles import choose_score
from skdpsco.solvers.base import DERIVATIVES, LARGEST_PRODUCT, LEAST_PRODUCT, Plan, Result
from skdpsco.solvers.penalized.coordinate_descent import (
    PARTIAL_SUMS,
    check_clip,
    clip_bounds,
    column_major,
    largest_slope,
    measures_target,
    replace_in_partial_sums,
    settle_slopes,
    slopes,
)
from skdpsco.solvers.penalized.problem import CompositeProblem, coordinate_model

__all__ = ["GreedyCoordinateDescent"]


class GreedyTuning(NamedTuple):
    """Constants of the plan, fitted on data as in examples/benchmarks/coordinate_descent.py.

    Parameters
    ----------
    choice_share : float
        Share of rho for the choices, out of what the scales of columns leave; steps get the rest.
    few : float
        Number of steps if noise matters.
    plenty : float
        n mu over the logarithm of twice the number of coefficients above which steps get more
        and clipping bounds grow.
    noise : float
        n mu that one step needs, and above which steps have their full length.
    max_steps : int
        Largest number of steps; chosen by hand, for time.
    tight : float
        Clipping bounds relative to those of cyclic descent: choices among many suffer more from
        noise.
    """

    choice_share: float = 0.8
    few: float = 8.0
    plenty: float = 100.0
    noise: float = 16.0
    max_steps: int = 5000
    tight: float = 0.36


GREEDY = GreedyTuning()


@dataclass(frozen=True)
class GreedyPlan(Plan):
    """Scales of the columns, and what every choice and every step may spend.

    Parameters
    ----------
    scales : ScalePlan
    epsilon0 : float
        Epsilon of a choice.
    change : float
        Change of a sum of terms within 1 when one record is replaced.
    grid : float
        Grid of a step, for a sum of terms within 1.
    slack : float
        Factor of the automatic bounds.
    length : float
        Length of the steps, in (0, 1], below 1 if the noise is large.
    """

    scales: ScalePlan = NOTHING
    epsilon0: float = 0.0
    change: float = 0.0
    grid: float = 0.0
    slack: float = 1.0
    length: float = 1.0


class GreedyCoordinateDescent:
    """Coordinate descent that chooses every coordinate privately, by the gain of a step.

    It suits problems with many features of which few matter. A choice costs one exponential
    mechanism, however many coordinates there are; the step then releases one noisy number.

    Parameters
    ----------
    rule : {"gs-r", "gs-s"}, default="gs-r"
        Gauss-Southwell rule: "gs-r" takes the longest step, "gs-s" the largest violation of the
        optimality condition, both in units of the root of the coordinate's curvature. "gs-r" is for
        the penalties of `skdpsco.penalties`; a penalty of your own needs "gs-s".
    clip : "auto" or float, default="auto"
        As in `CoordinateDescent`, but with automatic bounds of about a quarter.

    References
    ----------
    P. Mangold, A. Bellet, J. Salmon, M. Tommasi. High-Dimensional Private Empirical Risk
    Minimization by Greedy Coordinate Descent. AISTATS 2023.
    """

    clip: Any

    conditioned = True

    requires: ClassVar[dict[str, Any]] = {
        "loss": DERIVATIVES,
        "penalty": ((prox,), (subdifferential,)),
    }

    def __init__(self, rule: str = "gs-r", clip: float | str = "auto") -> None:
        if rule not in ("gs-r", "gs-s"):
            raise ValueError(f"rule must be 'gs-r' or 'gs-s', got {rule!r}.")
        self.rule, self.clip = rule, check_clip(clip)

    def check(self, problem: CompositeProblem) -> None:
        """Check that a user's penalty never sees gradients without noise.

        Raises
        ------
        TypeError
            If the rule is "gs-r" and the penalty is not one of `skdpsco.penalties`.
        """
        if self.rule == "gs-r" and type(problem.penalty) not in PENALTIES:
            raise TypeError(
                f"rule='gs-r' needs a penalty of skdpsco.penalties, whose prox is known to be "
                f"Lipschitz; got {type(problem.penalty).__name__}. Use rule='gs-s'."
            )

    def plan(self, problem: CompositeProblem, budget: Any, n_iter: int | None = None) -> GreedyPlan:
        """Share ``budget`` among the scales, and the choices and steps of ``n_iter`` rounds.

        Raises
        ------
        ValueError
            If the noise would be too large for the grids, or the loss has no bound.
        TypeError
            If `check` refuses the penalty.
        """
        self.check(problem)
        n, rho = problem.n_samples, budget.rho * (1.0 - 2.0**-40)
        mu, share = math.sqrt(2.0 * rho), GREEDY.choice_share
        size = n * mu
        ratio = max(size / (GREEDY.plenty * math.log(2.0 * problem.n_coefficients)), 1.0)
        useful = min(GREEDY.few * ratio ** (2.0 / 3.0), size / GREEDY.noise, GREEDY.max_steps)
        n_steps = n_iter or max(round(useful), 1)
        scales, mu_steps = plan_scales(problem, mu, measures_target(problem, self.clip))
        rest = 0.5 * mu_steps**2
        epsilon0 = EXPONENTIAL.epsilon0(share * rest / n_steps)
        multiplier = math.sqrt(n_steps / (2.0 * (1.0 - share) * rest))
        largest_slope(problem)  # fails if there is none
        settle_slopes(problem.loss)
        change = replace_in_partial_sums(n, 1.0)
        return GreedyPlan(
            event=compose(
                scales.event,
                RepeatedEvent(EXPONENTIAL.event(epsilon0), n_steps),
                RepeatedEvent(GaussianEvent(multiplier), n_steps),
            ),
            n_iter=n_steps,
            scales=scales,
            epsilon0=epsilon0,
            change=change,
            grid=gaussian_grid(change, multiplier, 1, n),
            slack=GREEDY.tight * ratio ** (1.0 / 3.0),
            length=min(1.0, size / GREEDY.noise),
        )

    def run(
        self,
        plan: GreedyPlan,
        problem: CompositeProblem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        loss, D, K = problem.loss, problem.n_features, problem.loss.n_outputs
        n = problem.n_samples
        scales = release_scales(plan.scales, problem, X, y, rng)
        # From here on there is one entry per coefficient, for each output separately.
        bound = np.tile(clip_bounds(problem, scales, self.clip, plan.slack), K)
        model = coordinate_model(problem, scales.mean_square, K)
        columns = as_columns(X)
        w, Z, R = np.zeros(K * D), column_major(n, K), column_major(n, K)
        g, score, size = np.empty(K * D), np.empty(K * D), np.empty(K * D)
        sums, units, step = np.empty(PARTIAL_SUMS), np.empty(K * D, dtype=np.int64), np.empty(1)
        for _ in range(plan.n_iter):
            write_gradient(columns, loss, Z, y, bound, R, sums, g)
            write_scores(model, self.rule == "gs-r", w, g / n, score)
            write_sizes(model, w, bound, size)
            # Coefficients whose scores may overflow have none. What decides it was released.
            overflows = ~(size <= LARGEST_PRODUCT)
            score[overflows] = size[overflows] = 0.0
            moved = plan.change / n * bound / np.sqrt(model.smooth) + 2.0**-47 * size
            largest = max(float(size.max()), LEAST_PRODUCT)
            grid = exponential_grid(2.0 * float(moved.max()), plan.epsilon0, largest)
            j = choose_score(score, grid, EXPONENTIAL, rng, units)
            step[0] = g[j]
            gaussian_mechanism(rng, step, plan.grid * bound[j])
            take_step(model, columns, j, step[0] / n, plan.length, w, Z)
            progress[0] += 1
        return Result(w, plan.n_iter)


@kernel
def add_clipped(X, j, r, bound, sums):
    """Add to partial sums over records ``r`` times column j, every term clipped to ``bound``.

    Partial sums are those of `skdpsco.solvers.penalized.coordinate_descent`.
    """
    raise NotImplementedError


@add_clipped.register(Columns)
def _(X, j, r, bound, sums):
    for start in range(0, r.shape[0], PARTIAL_SUMS):
        x, mine = X.values[j, start : start + PARTIAL_SUMS], r[start : start + PARTIAL_SUMS]
        for i in range(x.shape[0]):
            sums[i] += clip(mine[i] * x[i], bound)


@add_clipped.register(CSC)
def _(X, j, r, bound, sums):
    for p in range(X.indptr[j], X.indptr[j + 1]):
        i = X.indices[p]
        sums[i % PARTIAL_SUMS] += clip(r[i] * X.data[p], bound)


@njit
def write_gradient(X, loss, Z, y, bound, R, sums, g):
    """Write the sums over records of clipped derivatives, for every coefficient."""
    slopes(loss, Z, y, R)
    D = g.shape[0] // R.shape[1]
    for j in range(g.shape[0]):
        sums[:] = 0.0
        add_clipped(X, j % D, R[:, j // D], bound[j], sums)
        total = 0.0
        for i in range(PARTIAL_SUMS):
            total += sums[i]
        g[j] = total


@njit
def write_scores(model, by_step, w, slope, out):
    """Write what a step in every coefficient would gain; ``slope`` holds those of the mean loss."""
    penalty, weight, unit, smooth, curved = model
    for j in range(w.shape[0]):
        if by_step:
            v = w[j] - slope[j] / smooth[j]
            v = scaled_prox(penalty, v, weight / smooth[j], unit[j])
            gain = abs(v - w[j]) * (smooth[j] + curved[j])
        else:
            gain = stationarity_gap(penalty, w[j], slope[j], weight, unit[j])
        out[j] = gain / math.sqrt(smooth[j])


@njit
def write_sizes(model, w, bound, out):
    """Write public bounds on all numbers that a score is computed from, in its units."""
    penalty, weight, unit, smooth, curved = model
    for j in range(w.shape[0]):
        still = scaled_prox(penalty, w[j], weight / smooth[j], unit[j])
        size = (abs(w[j]) + abs(still) + bound[j] / smooth[j]) * (smooth[j] + curved[j])
        for slope in subdifferential(penalty, unit[j] * w[j]):
            if abs(slope) < np.inf:
                size += weight * unit[j] * abs(slope)
        out[j] = size / math.sqrt(smooth[j])


@njit
def take_step(model, X, j, slope, length, w, Z):
    """Take a proximal step in coefficient j; the whole step has ``length`` 1."""
    penalty, weight, unit, smooth, curved = model
    D = w.shape[0] // Z.shape[1]
    step = length / (smooth[j] + (1.0 - length) * curved[j])
    v = scaled_prox(penalty, w[j] - step * slope, step * weight, unit[j])
    add_column(X, j % D, v - w[j], Z, j // D)
    w[j] = v
