"""Private Frank-Wolfe over polytopes and over general sets. Proof: docs/proofs/frank_wolfe.md."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import LARGEST, check_choice
from skdpsco.constraints.sets import Polytope, minimiser, n_vertices
from skdpsco.data.pieces import one_record
from skdpsco.data.record_sums import in_pieces, map_reduce
from skdpsco.losses.library import lipschitz_norm
from skdpsco.mechanisms.samplers import EXPONENTIAL, LAPLACE, gaussian_grid, gaussian_mechanism
from skdpsco.privacy import GaussianEvent
from skdpsco.solvers.base import (
    DERIVATIVES,
    Plan,
    Result,
    check_bound_on,
    check_smooth,
    curvature_of,
    prediction_spread,
)
from skdpsco.solvers.gradient_sums import gradient_sum
from skdpsco.solvers.l1.vertex_path import VertexPlan, plan_vertices, run_vertices
from skdpsco.solvers.steps import whole_steps, write_minimiser
from skdpsco.solvers.vertex_choice import OverPolytope, polytope_of

__all__ = ["FrankWolfe", "NoisyFrankWolfe"]

MECHANISMS: dict[str, Any] = {"exponential": EXPONENTIAL, "laplace": LAPLACE}


@dataclass(frozen=True, kw_only=True)
class FrankWolfePlan(Plan):
    """Schedule and grids of the vertices, and the polytope that they belong to."""

    path: VertexPlan
    polytope: Any = field(compare=False)


class FrankWolfe(OverPolytope):
    """Frank-Wolfe over a polytope, with privately chosen vertices.

    Parameters
    ----------
    mechanism : {"exponential", "laplace"}, default="exponential"
        How a vertex is chosen. "laplace" is the noisy minimum of the paper with a corrected scale;
        it needs twice the noise of the exponential mechanism at the same budget.

    References
    ----------
    K. Talwar, A. Thakurta, L. Zhang. Nearly Optimal Private LASSO. NeurIPS 2015, Algorithm 2.
    The printed scale is half of what replacing a record needs, see docs/errata.md.
    """

    by_blocks = for_added = True

    def __init__(self, mechanism: str = "exponential") -> None:
        self.mechanism: str = check_choice("mechanism", mechanism, sorted(MECHANISMS))

    def plan(self, problem: Problem, budget: Any, n_iter: int | None = None) -> FrankWolfePlan:
        """Calibrate ``n_iter`` steps, or as many as minimise the bound on the excess risk.

        Raises
        ------
        ValueError
            If `check` refuses the problem.
        """
        self.check(problem)
        constraint = polytope_of(problem.constraint, problem.n_coefficients)
        rho, size = budget.rho, constraint.norm_bound()
        check_bound_on("size", problem.constraint, size)
        if n_iter is None:
            # 2 Gamma / T + beta log(V), beta = (2 L c / n) sqrt(T / (2 rho)): algorithm D1.
            gamma = curvature_of(problem.loss, constraint.diameter(1))
            slope = problem.loss.lipschitz(math.inf, problem.target_bound)
            check_bound_on("derivative", problem.loss, min(slope, LARGEST))  # it may be infinite
            log_vertices = math.log(max(n_vertices(constraint, problem.n_coefficients), 2))
            useful = 2 * gamma * problem.n_mu(math.sqrt(2 * rho)) / (slope * size * log_vertices)
            n_iter = whole_steps(useful)
        # Steps 2 / (t + 2) weigh vertex t = 1, 2, ... in proportion to t.
        weight = np.arange(1.0, n_iter + 1)
        scale = np.concatenate([[0.0], 2.0 / (weight * (weight + 1.0))])
        path = plan_vertices(problem, constraint, weight, scale, rho, MECHANISMS[self.mechanism])
        return FrankWolfePlan(event=path.event, n_iter=n_iter, path=path, polytope=constraint)

    def run(
        self,
        plan: FrankWolfePlan,
        problem: Problem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        coef, _, _ = run_vertices(plan.path, problem, plan.polytope, X, y, rng, progress)
        return Result(coef, plan.n_iter)


@dataclass(frozen=True, kw_only=True)
class NoisyFrankWolfePlan(Plan):
    """Bound on derivatives, step sizes, and the grid of every step's noisy gradient."""

    slope: float
    step: tuple[float, ...]
    grid: float


class NoisyFrankWolfe:
    """Frank-Wolfe over any set with a linear minimiser, on gradients with Gaussian noise.

    The error depends on the Gaussian width of the set. Over an l1 ball `FrankWolfe` is better.

    References
    ----------
    K. Talwar, A. Thakurta, L. Zhang. Nearly Optimal Private LASSO. NeurIPS 2015, Theorem 2.6
    (algorithm A_Noise-FW of the full version, arXiv:1411.5417).
    """

    requires: ClassVar[dict[str, Any]] = {"loss": DERIVATIVES, "constraint": ((minimiser,),)}
    by_blocks = fixed_cost = for_added = True

    def check(self, problem: Problem) -> None:
        """Refuse a loss that is not smooth, or whose derivatives have no bound.

        Its curvature decides the number of steps.

        Raises
        ------
        ValueError
            If the loss is refused, or the vertices of a `Polytope` are not points of the problem.
        """
        check_smooth(self, problem.loss)
        if type(problem.constraint) is Polytope:
            polytope_of(problem.constraint, problem.n_coefficients)
        check_bound_on("derivative", problem.loss, lipschitz_norm(problem.loss, 2.0))

    def plan(self, problem: Problem, budget: Any, n_iter: int | None = None) -> NoisyFrankWolfePlan:
        """Calibrate ``n_iter`` steps, or as many as minimise the bound on the excess risk.

        Raises
        ------
        ValueError
            If `check` refuses the problem.
        """
        self.check(problem)
        n, D, constraint = problem.n_samples, problem.n_coefficients, problem.constraint
        mu = budget.mu
        row_norm = math.sqrt(problem.n_features) * (1.0 + D * 2.0**-50)  # products are rounded
        slope = lipschitz_norm(problem.loss, 2.0, prediction_spread(problem))
        bound = slope * row_norm
        if n_iter is None:
            # 2 Gamma / T + 2 s width, s = 2 L2 sqrt(T) / (n mu): algorithm D2. Points of the set
            # give predictions at most row_norm times their l2 distance apart.
            distance = min(row_norm * constraint.diameter(2), 2 * constraint.norm_bound())
            width = constraint.gaussian_width(D)
            check_bound_on("diameter", constraint, distance)
            check_bound_on("Gaussian width", constraint, width)
            gamma = curvature_of(problem.loss, distance)
            useful = gamma * problem.n_mu(mu) / (bound * width)
            n_iter = whole_steps(useful)
        steps = 2.0 / (np.arange(n_iter) + 2.0)  # the first goes all the way to a vertex
        sensitivity = one_record(n, problem.added, bound)
        return NoisyFrankWolfePlan(
            event=GaussianEvent(1.0 / mu),
            n_iter=n_iter,
            slope=slope,
            step=tuple(steps.tolist()),
            grid=gaussian_grid(sensitivity, math.sqrt(n_iter) / mu, D, n * bound),
        )

    def run(
        self,
        plan: NoisyFrankWolfePlan,
        problem: Problem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        X, slope = in_pieces(X, y), plan.slope
        # Zeros, so that a minimiser that writes nothing does not release former contents of memory.
        w, v = np.zeros((2, problem.n_coefficients))
        for step in plan.step:
            G = map_reduce(X, y, gradient_sum, problem.loss, w, slope, slope)
            gaussian_mechanism(rng, G, plan.grid)
            write_minimiser(problem.constraint, G, v)
            w = (1.0 - step) * w + step * v
            progress[0] += 1
        return Result(w, plan.n_iter)
