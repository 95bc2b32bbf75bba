"""One-pass Frank-Wolfe with private gradients that are updated along binary trees.

Proof: docs/proofs/tree_frank_wolfe.md.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import check_bool, check_choice
from skdpsco.constraints.sets import BALLS, L1Ball, minimiser
from skdpsco.data.record_stream import one_pass
from skdpsco.losses.library import for_kernels
from skdpsco.mechanisms.generalised_gaussian import (
    GAMMA_ACCURACY,
    generalised_gaussian_error,
    generalised_gaussian_grid,
    generalised_gaussian_mechanism,
    generalised_gaussian_scale,
)
from skdpsco.mechanisms.samplers import (
    EXPONENTIAL,
    deviation_on,
    exponential_grid,
    gaussian_grid,
    gaussian_mechanism,
)
from skdpsco.privacy import Event, GaussianEvent, ZCDPEvent, compose
from skdpsco.privacy.accounting import zcdp_beside
from skdpsco.solvers.base import DERIVATIVES, Plan, Result, check_smooth
from skdpsco.solvers.lp_ball.clipped_gradients import GradientClip, add_clipped_gradients
from skdpsco.solvers.lp_ball.tree import Node, along_paths, nodes, share_records, step_size, uses
from skdpsco.solvers.lp_ball.tree_bounds import (
    LEAST_CHANGE,
    TREE_TUNING,
    BallBounds,
    expected,
    noise_order,
    weights,
)
from skdpsco.solvers.steps import write_minimiser
from skdpsco.solvers.vertex_choice import choose_vertex, vertices_of, write_vertex

__all__ = ["TreeFrankWolfe"]

DRAWN_EXACTLY = ("gaussian", "exponential")  # what is drawn exactly
NOISES = ("gaussian", "generalised-gaussian", "exponential")


@dataclass(frozen=True, kw_only=True)
class TreeFrankWolfePlan(Plan):
    """The records that every step reads, and how the step is made private.

    Parameters
    ----------
    noise : {"gaussian", "generalised-gaussian", "exponential"}
    batches : tuple of int
        Number of records of every step; they sum to the number of samples.
    multiplier : float
        Standard deviation over sensitivity of every batch's sum with Gaussian noise.
    rho : float
        Cost of a batch's sum with generalised Gaussian noise, in zCDP.
    order : float
        Order of the norm of sensitivities.
    limit, grid : tuple of float
        For every draw of a vertex, the bound on derivatives or on their differences, and the grid.
        Empty if gradients are released, since both then follow from released points.
    """

    noise: str
    batches: tuple[int, ...]
    multiplier: float
    rho: float
    order: float
    limit: tuple[float, ...]
    grid: tuple[float, ...]


class TreeFrankWolfe:
    """Stochastic Frank-Wolfe on binary trees, for smooth losses over lp balls, in one pass.

    Every record belongs to the batch of one node of one tree. At a root it contributes its
    gradient, and elsewhere the difference between its gradients at two points. Hence there are at
    most two gradients per record.

    Parameters
    ----------
    noise : {"auto", "gaussian", "generalised-gaussian", "exponential"}, default="auto"
        How steps are made private. "gaussian" and "generalised-gaussian" release the sum over every
        batch, with noise for its l2 norm, or for the l_r norm that suits the ball's p.
        "exponential", for l1 balls, releases no sums: each step draws a vertex by the exponential
        mechanism. "auto" takes "gaussian" or, if it promises a smaller error by public numbers,
        "exponential". Both are drawn exactly; the error of drawing "generalised-gaussian" in
        floating point is charged, for which the budget must be an epsilon and a delta.
    shuffle : bool, default=True
        Whether to take the records of arrays in a random order. False keeps their order, which is
        equally private.

    References
    ----------
    R. Bassily, C. Guzmán, A. Nandi. Non-Euclidean Differentially Private Stochastic Convex
    Optimization. arXiv:2103.01278v3, Algorithm 1.
    H. Asi, V. Feldman, T. Koren, K. Talwar. Private Stochastic Convex Optimization: Optimal Rates
    in l1 Geometry. ICML 2021.
    """

    requires: ClassVar[dict[str, Any]] = {"loss": DERIVATIVES, "constraint": ((minimiser,),)}
    by_blocks = streams = fills_range = True

    def __init__(self, noise: str = "auto", shuffle: bool = True) -> None:
        self.noise: str = check_choice("noise", noise, ("auto", *NOISES))
        self.shuffle: bool = check_bool("shuffle", shuffle)

    def check(self, problem: Problem) -> None:
        """Check that the loss is smooth and the set a ball that suits the noise.

        Raises
        ------
        TypeError
            If the set is not an lp ball.
        ValueError
            If the loss is not smooth, or the noise is "exponential" and the set not an `L1Ball`.
        """
        ball = problem.constraint
        if type(ball) not in BALLS:
            raise TypeError(f"TreeFrankWolfe needs an lp ball, got {type(ball).__name__}.")
        if self.noise == "exponential" and type(ball) is not L1Ball:
            raise ValueError(f"noise='exponential' needs an L1Ball as constraint, got {ball!r}.")
        check_smooth(self, problem.loss)

    def plan(self, problem: Problem, budget: Any, n_iter: int | None = None) -> TreeFrankWolfePlan:
        """Choose the noise and the number of steps by a bound on the excess risk, and calibrate.

        Raises
        ------
        ValueError
            If there are fewer records than steps, the noise would be too large for the grid, or the
            loss's Lipschitz constant is infinite, or too large or too small.
        """
        self.check(problem)
        n, bounds = problem.n_samples, BallBounds(problem)
        bounds.check()
        if n_iter is not None and n_iter > n:
            raise ValueError(f"n_iter={n_iter} steps need as many records, but there are {n}.")
        noises: tuple[str, ...] = (self.noise,)
        if self.noise == "auto":
            noises = DRAWN_EXACTLY if type(problem.constraint) is L1Ball else DRAWN_EXACTLY[:1]
        full = [1, *(2 ** (phase + 1) - 2 for phase in range(1, TREE_TUNING.max_phases + 1))]
        lengths = [T for T in full if T <= n] if n_iter is None else [n_iter]
        _, noise, T = min(
            (expected(bounds, budget, noise, T), noise, T) for noise in noises for T in lengths
        )
        tree = nodes(T)
        batches = share_records(tree, weights(bounds, tree, noise), n)
        order = noise_order(problem) if noise == "generalised-gaussian" else 2.0
        if order == 2.0 and noise == "generalised-gaussian":
            noise = "gaussian"  # the same law, which is drawn exactly and has its own curve
        limit: tuple[float, ...] = ()
        grid: tuple[float, ...] = ()
        event: Event = ZCDPEvent(budget.rho)
        rho, assumptions = budget.rho, tuple[str, ...]()
        if noise == "gaussian":
            event = GaussianEvent(1.0 / budget.mu)
        elif noise == "generalised-gaussian":
            rho, event = generalised_cost(problem.n_coefficients, budget)
            assumptions = (GAMMA_ACCURACY,)
        elif noise == "exponential":
            order = math.inf
            limits, fresh = bounds.limits(order, tree)
            limit = tuple(limits)
            grid = draw_grids(bounds, tree, batches, limits, fresh, budget.rho)
        plan = TreeFrankWolfePlan(
            event=event,
            n_iter=T,
            summary=(f"{noise} noise, {tree[-1].phase} trees, batches of {min(batches)} or more",),
            noise=noise,
            batches=tuple(batches),
            multiplier=1.0 / budget.mu,
            rho=rho,
            order=order,
            limit=limit,
            grid=grid,
            assumptions=assumptions,
        )
        if noise != "exponential":  # fail, if at all, before noise is drawn
            noise_of(bounds, plan, n, bounds.slope(order))
            noise_of(bounds, plan, 1, LEAST_CHANGE * bounds.slope(order))
        return plan

    def run(
        self,
        plan: TreeFrankWolfePlan,
        problem: Problem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        bounds, tree = BallBounds(problem), nodes(plan.n_iter)
        slope, loss = bounds.slope(plan.order), for_kernels(problem.loss)
        records = one_pass(X, y, rng, self.shuffle)
        point = np.zeros(problem.n_coefficients)
        vertices = vertices_of(problem.constraint, len(point)) if plan.grid else None
        # Points and gradients of the nodes on the path from the root to a leaf.
        points, gradients = [[point] * (tree[-1].phase + 1) for _ in range(2)]
        n_gradients = 0
        for t, node in enumerate(tree):
            size, parent = plan.batches[t], max(node.depth - 1, 0)
            if plan.limit:
                limit = plan.limit[t]
            elif node.depth == 0:
                limit = slope
            else:
                step = point - points[parent]
                orders = (1.0, 2.0, problem.constraint.p)
                lengths = {p: float(np.linalg.norm(step, p)) for p in orders}
                limit = bounds.change(plan.order, lengths)
            difference = limit < slope
            total = np.zeros(len(point))
            clip = GradientClip(float(difference), limit, plan.order)
            for chunk in records.take(size):
                add_clipped_gradients(
                    chunk, problem.row_norm, loss, point, points[parent], clip, total
                )
            n_gradients += size * (1 + difference)
            if not plan.grid:
                sigma, grid = noise_of(bounds, plan, size, limit)
                if plan.noise == "gaussian":
                    gaussian_mechanism(rng, total, grid)
                else:
                    generalised_gaussian_mechanism(rng, total, plan.order, sigma, grid)
            gradient = total / size
            if difference:
                gradient += gradients[parent]
            for depth in range(node.depth, node.phase + 1):  # left children have the same point
                points[depth], gradients[depth] = point, gradient
            target = np.zeros(len(point))
            if plan.grid:
                k = choose_vertex(vertices, gradient, plan.grid[t], EXPONENTIAL, rng)
                write_vertex(vertices, k, target)
            else:
                write_minimiser(problem.constraint, gradient, target)
            point = point + step_size(t) * (target - point)
            progress[0] += 1
        return Result(point, plan.n_iter, n_gradients=n_gradients)


def generalised_cost(size: int, budget: Any) -> tuple[float, Event]:
    """What exact generalised Gaussian noise may cost, and the cost with the error of drawing it."""
    try:
        error = generalised_gaussian_error(size)
        rho = zcdp_beside(budget, error)
        return rho, compose(ZCDPEvent(rho), error)
    except ValueError as failed:
        raise ValueError(
            "noise='generalised-gaussian' is drawn in floating point. Its errors do not fit this "
            "budget: epsilon or delta is too small, epsilon is too large, or there are too many "
            "coefficients. They never fit a budget in zero-concentrated differential privacy, as "
            "fits with a ledger, in a search, of units or with undeclared bounds have. Choose "
            "noise='gaussian'."
        ) from failed


def noise_of(
    bounds: BallBounds, plan: TreeFrankWolfePlan, size: int, limit: float
) -> tuple[float, float]:
    """Scale and grid of the noise in the sum of a batch."""
    sensitivity = bounds.sensitivity(plan.order, size, limit)
    magnitude = 2.0 * size * bounds.magnitude(limit)
    if plan.noise == "gaussian":
        D = bounds.problem.n_coefficients
        grid = gaussian_grid(sensitivity, plan.multiplier, D, magnitude)
        return deviation_on(grid), grid
    sigma = generalised_gaussian_scale(sensitivity, plan.rho, plan.order)
    return sigma, generalised_gaussian_grid(sigma, magnitude)


def draw_grids(
    bounds: BallBounds,
    tree: tuple[Node, ...],
    batches: list[int],
    limits: list[float],
    fresh: list[bool],
    rho: float,
) -> tuple[float, ...]:
    """Grids of the draws, one per tree, for which every record costs at most ``rho``."""
    radius, count = bounds.problem.constraint.radius, uses(tree, fresh)
    sums = along_paths([bounds.magnitude(c) for c in limits], tree, fresh)
    largest: dict[int, float] = {}
    for node, reach in zip(tree, sums, strict=True):
        largest[node.phase] = max(largest.get(node.phase, 0.0), reach)
    widest: dict[int, float] = {}
    for t, node in enumerate(tree):
        reach = largest[node.phase]
        change = bounds.sensitivity(math.inf, batches[t], limits[t]) / batches[t]
        # Means are rounded when they are added up along a path, and when scores are computed.
        change += 2.0 * (node.phase + 3) * 2.0**-52 * reach
        epsilon0 = math.sqrt(8.0 * rho / count[t])
        grid = exponential_grid(2.0 * radius * change, epsilon0, 2.0 * radius * reach)
        widest[node.phase] = max(widest.get(node.phase, 0.0), grid)
    return tuple(widest[node.phase] for node in tree)
