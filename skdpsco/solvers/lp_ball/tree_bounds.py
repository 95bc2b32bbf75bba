"""Public bounds for `TreeFrankWolfe`: derivatives, sensitivities, noise, and the excess risk."""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from skdpsco._problem import Problem
from skdpsco._validation import check_bound
from skdpsco.constraints.norms import conjugate, regularity
from skdpsco.losses.library import lipschitz_norm
from skdpsco.mechanisms.samplers import summation_error
from skdpsco.solvers.base import (
    check_scales,
    curvature_of,
    prediction_reach,
    prediction_spread,
)
from skdpsco.solvers.lp_ball.tree import Node, along_paths, nodes, share_records, travel, uses

__all__ = ["LEAST_CHANGE", "TREE_TUNING", "BallBounds", "expected", "noise_order", "weights"]

# Smallest clipping norm of a difference of gradients, relative to the bound on a gradient. Without
# it the norm would be 0, which is not allowed, where a point has not moved.
LEAST_CHANGE = 2.0**-40


class TreeTuning(NamedTuple):
    """Constants of the automatic choice of noise and steps.

    Parameters
    ----------
    max_phases : int
        Largest number of trees, chosen by hand; 10 trees have 2046 steps.
    curvature, sampling : float
        Factors of the bound's terms for curvature and for sampling errors, since the bound assumes
        the worst case of both. They were fitted on simulated data like those of
        examples/benchmarks/lp_geometry.py.
    """

    max_phases: int = 10
    curvature: float = 0.04
    sampling: float = 0.03


TREE_TUNING = TreeTuning()


class BallBounds(NamedTuple):
    """Public bounds on what one record of a problem contributes."""

    problem: Problem

    @property
    def dual(self) -> float:
        """Order of the dual norm, in which gradients are measured."""
        return conjugate(self.problem.constraint.p)

    def check(self) -> None:
        """Check that the bounds suit float64.

        Raises
        ------
        ValueError
            If a bound is infinite, or too large or too small.
        """
        ball, features = self.problem.constraint, self.problem.feature_norm(math.inf)
        check_bound("radius", ball.radius)
        diameter = 2.0 * ball.radius
        bend = self.bend(ball.p) * diameter
        check_scales(self.problem.loss, self.slope(math.inf), features, (diameter,), bend)

    def slope(self, order: float) -> float:
        """Bound on the norm of the gradient of a record's loss in its predictions."""
        loss = self.problem.loss
        if loss.n_outputs > 1:
            return lipschitz_norm(loss, order, prediction_spread(self.problem))
        return loss.lipschitz(prediction_reach(self.problem), self.problem.target_bound)

    def bend(self, p: float) -> float:
        """Bound on the change of this gradient per unit of l_p distance between two points."""
        problem = self.problem
        outputs = problem.loss.n_outputs ** max(0.0, 0.5 - 1.0 / p)
        return problem.loss.smoothness() * outputs * problem.feature_norm(conjugate(p))

    def change(self, order: float, distances: dict[float, float]) -> float:
        """Bound on the norm of ``order`` >= 2 of the difference between two such gradients.

        It is at most `slope`; a node that reaches it is fresh, since a gradient is then no worse
        than a difference.

        Parameters
        ----------
        order : float
        distances : dict
            Distances between the two points, by the order of the norm.
        """
        change = min(self.bend(p) * distance for p, distance in distances.items())
        slope = self.slope(order)
        return max(min(slope, change), LEAST_CHANGE * slope)

    def limits(self, order: float, tree: tuple[Node, ...]) -> tuple[list[float], list[bool]]:
        """Bounds on the derivatives that the records of every node add, and which nodes are fresh.

        This is the worst case, in which points move as far as they can.
        """
        ball, slope = self.problem.constraint, self.slope(order)
        change = self.bend(ball.p) * 2.0 * ball.radius
        moved = [
            change * travel(t, node.span) if node.depth else slope for t, node in enumerate(tree)
        ]
        limits = np.clip(moved, LEAST_CHANGE * slope, slope).tolist()
        return limits, [c == slope for c in limits]

    def magnitude(self, limit: float) -> float:
        """Bound on the entries of a contribution whose derivatives have norm at most ``limit``."""
        # The bound on features covers their rounding; this margin covers norms and products.
        slack = 1.0 + (self.problem.loss.n_outputs + 8) * 2.0**-50
        return limit * self.problem.feature_norm(math.inf) * slack

    def sensitivity(self, order: float, size: int, limit: float) -> float:
        """Sensitivity, in the norm of ``order``, of the float64 sum of ``size`` contributions."""
        problem, entry = self.problem, self.magnitude(limit)
        norm = entry / problem.feature_norm(math.inf) * problem.feature_norm(order)
        return 2.0 * (norm + summation_error(size, norm)) * (1.0 + 2.0**-50)


def noise_order(problem: Problem) -> float:
    """Order r of the norm to which generalised Gaussian noise is adapted."""
    return regularity(min(problem.constraint.p, 2.0), problem.n_coefficients)[0]


def noise_norm(order: float, law: float, size: int) -> float:
    """Bound on the expected norm of noise of scale 1.

    Parameters
    ----------
    order : float
        Order of the norm. Orders above 2 log(size) are replaced by 2 log(size).
    law : float
        Order r of the generalised Gaussian law; 2 is the Gaussian.
    size : int
        Number of coordinates.
    """
    q = min(order, max(2.0, 2.0 * math.log(size)))
    # (E |z|_q^q)^(1/q) of z = T x / |x|_r, where T is chi distributed and independent of x / |x|_r,
    # and the entries of x have density exp(-|x|^r): E |x_1|^q = Gamma((1 + q) / r) / Gamma(1 / r).
    log_moment = (
        math.log(size)
        + _log_ratio(1.0 / law, q / law)
        - _log_ratio(size / law, q / law)
        + 0.5 * q * math.log(2.0)
        + _log_ratio(0.5 * size, 0.5 * q)
    )
    return math.exp(log_moment / q)


def _log_ratio(x: float, step: float) -> float:
    return float(gammaln(x + step) - gammaln(x))


def weights(bounds: BallBounds, tree: tuple[Node, ...], noise: str) -> list[float]:
    """Relative sizes of the batches of one tree.

    If vertices are drawn, all records pay the same for their draws, whatever their node. If
    gradients are released, the sizes minimise the noise on a path from root to leaf.
    """
    order = math.inf if noise == "exponential" else 2.0
    limits, fresh = bounds.limits(order, tree)
    slope = bounds.slope(order)
    limits = [c / slope for c in limits]  # relative, since squares might underflow
    if noise == "exponential":
        return [math.sqrt(k) * c for k, c in zip(uses(tree, fresh), limits, strict=True)]
    return [(c * c / 2.0**node.depth) ** (1.0 / 3.0) for node, c in zip(tree, limits, strict=True)]


def excess_terms(
    bounds: BallBounds, budget: Any, noise: str, n_steps: int
) -> tuple[float, float, float]:
    """The terms for optimisation, sampling and noise of the bound on the expected excess risk."""
    problem = bounds.problem
    ball, D, q = problem.constraint, problem.n_coefficients, bounds.dual
    diameter = 2.0 * ball.radius
    tree = nodes(n_steps)
    sizes = share_records(tree, weights(bounds, tree, noise), problem.n_samples)
    order = {"gaussian": 2.0, "exponential": math.inf}.get(noise) or noise_order(problem)
    if q == math.inf:  # Hoeffding's and Azuma's lemmas, for every entry
        spread = math.sqrt(0.5 * math.log(2.0 * D)) * problem.feature_norm(q)
    elif q >= 2.0:
        spread = math.sqrt(regularity(ball.p, D)[1]) * problem.feature_norm(q)
    else:
        spread = D ** (1.0 / q - 0.5) * problem.feature_norm(2.0)
    limits, fresh = bounds.limits(order, tree)
    # Everything is relative to the largest, since squares may overflow.
    slope = bounds.slope(order)
    most = 2.0 * diameter * slope
    each = [(m, limit / slope) for m, limit in zip(sizes, limits, strict=True)]
    sampling = most * spread * np.sqrt(along_paths([c * c / m for m, c in each], tree, fresh))
    changes = [c / m for m, c in each]
    if noise == "exponential":
        scale = np.zeros(tree[-1].phase + 1)
        for node, change, count in zip(tree, changes, uses(tree, fresh), strict=True):
            beta = change * math.sqrt(count / (8.0 * budget.rho))
            scale[node.phase] = max(scale[node.phase], beta)
        noisy = math.log(2.0 * D) * scale[[node.phase for node in tree]]
    else:
        mu = budget.mu if noise == "gaussian" else math.sqrt(2.0 * budget.rho)
        unit = math.sqrt(order - 1.0) * noise_norm(q, order, D) / mu
        noisy = unit * np.sqrt(along_paths([c * c for c in changes], tree, fresh))
    mean = np.arange(2.0, n_steps + 2.0) * (2.0 / ((n_steps + 1.0) * (n_steps + 2.0)))
    reach = prediction_reach(problem)
    # Two predictions of a record may move in opposite directions.
    apart = 2.0 ** (1.0 - 1.0 / ball.p) if problem.loss.n_outputs > 1 else 1.0
    curvature = 2.0 * curvature_of(problem.loss, 2.0 * reach * apart) / (n_steps + 2.0)
    start = bounds.slope(2.0) * reach * 4.0 / ((n_steps + 1.0) * (n_steps + 2.0))
    noisy *= most * problem.feature_norm(order)
    return curvature + start, float(mean @ sampling), float(mean @ noisy)


def expected(bounds: BallBounds, budget: Any, noise: str, n_steps: int) -> float:
    """The expected error that the automatic choice of noise and steps minimises."""
    optimisation, sampling, noisy = excess_terms(bounds, budget, noise, n_steps)
    # Features are hardly ever aligned with a step; half of the squared norm is the worst case.
    optimisation *= TREE_TUNING.curvature / bounds.problem.feature_norm(bounds.dual)
    return optimisation + TREE_TUNING.sampling * sampling + noisy
