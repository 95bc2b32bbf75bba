"""A Newton step after gradient descent, with known errors. Proof: docs/proofs/newton_step.md."""

import math
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import helmert

from skdpsco._kernels import njit
from skdpsco._problem import Uncertainty
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.pieces import replace_one, row_squares, sum_in_batches
from skdpsco.data.products import predict_all
from skdpsco.data.record_sums import in_pieces, map_reduce, without_gil
from skdpsco.losses.hazards import ProportionalHazards
from skdpsco.losses.kernels import bounded_curvatures, bounded_derivatives
from skdpsco.losses.library import (
    Huber,
    Logistic,
    Multinomial,
    SmoothHinge,
    SmoothQuantile,
    Squared,
    Weighted,
    for_kernels,
    lipschitz_l2,
    separated,
    unweighted,
    without_weights,
)
from skdpsco.losses.log_link import GammaDeviance, PoissonDeviance
from skdpsco.losses.traits import traits_of, usual_curvature
from skdpsco.mechanisms.samplers import deviation_on, gaussian_grid, gaussian_mechanism
from skdpsco.penalties import L1, L2, ElasticNet
from skdpsco.privacy import compose
from skdpsco.privacy.spending import Allowance, share_mu
from skdpsco.scaling.quantiles import count_above, halve
from skdpsco.solvers.base import Plan, Result
from skdpsco.solvers.penalized.gradient_descent import (
    GRADIENT_DESCENT,
    Coordinates,
    GradientDescent,
    unscaled,
)
from skdpsco.solvers.penalized.problem import CompositeProblem
from skdpsco.solvers.penalized.quadratic_model import descend
from skdpsco.solvers.penalized.second_moments import symmetric, upper_triangle

__all__ = ["NewtonStep"]


class NewtonStepTuning(NamedTuple):
    """Constants of the plan, fitted on data as in examples/benchmarks/standard_errors.py.

    Parameters
    ----------
    gradient_share, matrix_share : float
        Shares of mu**2 for the gradient and for the curvatures.
    other_share : float
        Share of mu**2 for each of the smaller releases. Gradient descent gets the rest.
    risk_bound : float
        Bound on the logarithms of risks, for their variance.
    spread_counts : int
        Number of counts of large residuals; they search among 2**spread_counts candidates.
    spread_tail : float
        Share of the residuals that may exceed the size that is found.
    reach : float
        Bound on residuals, in units of the size found.
    most_reach : float
        Largest value of this bound, which grows if there is little noise.
    small : float
        The bound grows until the gradient's noise is this large, relative to that of sampling.
    long, loud : float
        Squared norm beyond which rows count less, as this many standard deviations above the mean,
        for normal columns; and the noise of gradients, relative to derivatives of size 1 of the
        records above which it is nearer to the mean: noise is in proportion to the norm.
    max_features : int
        Largest number of columns, times that of classes less one; chosen by hand, for time.
    curvature : float
        Noise in the curvatures, in units of the largest one, from which a plan warns.
    rounds : int
        How often errors are computed, each time with the last ones in what the step misses.
    """

    gradient_share: float = 0.4
    matrix_share: float = 0.2
    other_share: float = 0.04
    risk_bound: float = 3.0
    spread_counts: int = 4
    spread_tail: float = 0.2
    reach: float = 2.0
    most_reach: float = 4.0
    small: float = 0.5
    long: float = 3.0
    loud: float = 0.05
    max_features: int = 1000
    curvature: float = 0.2
    rounds: int = 5


NEWTON_STEP = NewtonStepTuning()
PIECEWISE = SmoothHinge, SmoothQuantile  # their curvature is either 0 or its bound
LOG_LINKS = PoissonDeviance, GammaDeviance, ProportionalHazards
KNOWN_LOSSES = Logistic, Squared, Huber, Multinomial, *LOG_LINKS, *PIECEWISE


@dataclass(frozen=True, kw_only=True)
class NewtonStepPlan(Plan):
    """The plan of gradient descent, and the noise of the step that follows it.

    Parameters
    ----------
    descent : GradientDescentPlan
    gradient_grid, matrix_grid, products_grid : float
        Grids of sums of gradients, of curvatures and of products of gradients whose norms are at
        most 1.
    spread_grid, square_grid : float or None
        Grids of counts of residuals, and of both the sum of their squares, at most 1, and the
        weight of those that are not clipped; None for labels.
    risk_grid : float or None
        Grid of sums of predictions in [-1, 1] and of their squares; None without a baseline hazard.
    reach, long : float
        See `NewtonStepTuning`; they are larger if there is little noise.
    """

    descent: Any
    gradient_grid: float
    matrix_grid: float
    products_grid: float
    spread_grid: Any
    square_grid: Any
    risk_grid: Any
    reach: float
    long: float

    @property
    def clips_gradients(self) -> bool:
        """Return the same as for the descent; see `Plan`."""
        return self.descent.clips_gradients


class NewtonStep:
    """Gradient descent, then one Newton step with a gradient and curvatures of known noise.

    However the descent came to its point, the errors of the step follow from the distribution of
    the records and from planned noise: `Result.uncertainty` says how large they are. Unusually long
    rows count less, and so do large residuals in regressions.

    Parameters
    ----------
    descent : GradientDescent

    References
    ----------
    L. Le Cam. On the asymptotic theory of estimation and testing hypotheses. Berkeley Symposium
    1956. (One step from a good guess is as accurate as an optimum.)
    """

    requires: ClassVar[dict[str, Any]] = GradientDescent.requires
    by_blocks = fixed_cost = fixed_plan = clips_gradients = True

    def __init__(self, descent: GradientDescent) -> None:
        self.descent: GradientDescent = copy(descent)
        if descent.shrunk == "auto":
            self.descent.shrunk = True

    def check(self, problem: CompositeProblem) -> None:
        """Refuse problems for which the errors are not known.

        Raises
        ------
        ValueError
            If the loss or the penalty is not of a known type, or there are too many features.
        """
        loss = unweighted(problem.loss)
        if type(loss) not in KNOWN_LOSSES:
            raise ValueError(f"standard_errors must be False for the loss {loss!r}.")
        if not isinstance(problem.penalty, L1 | L2 | ElasticNet):
            raise ValueError(f"standard_errors must be False for the penalty {problem.penalty!r}.")
        if n_directions(problem) > NEWTON_STEP.max_features:
            raise ValueError(
                f"standard_errors must be False for more than {NEWTON_STEP.max_features} features, "
                "times the number of classes less one."
            )

    def plan(
        self, problem: CompositeProblem, budget: Any, n_iter: int | None = None
    ) -> NewtonStepPlan:
        """Share ``budget`` among gradient descent of ``n_iter`` passes and the step.

        Raises
        ------
        ValueError
            If `check` refuses the problem, or the noise is too large for the grids.
        """
        self.check(problem)
        n, D = problem.n_samples, n_directions(problem)
        mu, k = budget.mu * (1.0 - 2.0**-40), NEWTON_STEP.spread_counts
        other = NEWTON_STEP.other_share
        shares = {
            "gradient": (NEWTON_STEP.gradient_share, 1),
            "matrix": (NEWTON_STEP.matrix_share, 1),
            "products": (other, 1),
        }
        if has_spread(problem.loss):
            shares |= {"spread": (other / k, k), "square": (other, 1)}
        if has_baseline(problem.loss):
            shares["risk"] = (other, 1)
        multipliers, event = share_mu(mu, shares)
        left = 1.0 - sum(share * count for share, count in shares.values())
        left_over, free = Allowance(0.5 * left * mu**2), without_l1(problem)
        descent = self.descent.plan(free, left_over, n_iter)
        # What clipping moves is a part of the step, which is exact for short ones only.
        descent = replace(descent, slope_clip=GRADIENT_DESCENT.slope_clip)
        # Rounding of norms and of products of one record.
        slack = 1.0 + (problem.n_coefficients + 16) * 2.0**-50

        def grid(name: str, sensitivity: float, dimension: int = 1) -> Any:
            if name not in shares:
                return None
            return gaussian_grid(sensitivity, multipliers[name], dimension, 2.0 * n * slack)

        moved = replace_one(n, slack, math.sqrt(2.0) * slack)
        F = problem.n_features
        gradient_grid = grid("gradient", replace_one(n, slack), D)
        # Deviation relative to that of sampling, over norms of rows, for derivatives of size 1.
        noise = deviation_on(gradient_grid) / math.sqrt(n)
        long = NEWTON_STEP.long * min(NEWTON_STEP.loud / (noise * math.sqrt(F)), 1.0)
        c = longest(F, long)
        plan = NewtonStepPlan(
            event=compose(descent.event, event),
            n_iter=descent.n_iter + 1,
            descent=descent,
            gradient_grid=gradient_grid,
            matrix_grid=grid("matrix", moved, D * (D + 1) // 2),
            products_grid=grid("products", moved, D * (D + 1) // 2),
            spread_grid=grid("spread", 1.0),
            square_grid=grid("square", replace_one(n, 2.0 * slack, 2.0**0.5 * slack), 2),
            risk_grid=grid("risk", replace_one(n, 2.0 * slack, 2.0 * slack), 2),
            reach=min(
                max(NEWTON_STEP.reach, NEWTON_STEP.small / (noise * c)), NEWTON_STEP.most_reach
            ),
            long=long,
            **descent.passed_on(),
        )
        # The spectral norm of the noise, relative to the largest curvature of normal columns.
        noise = deviation_on(plan.matrix_grid) / n * c * c * math.sqrt(2.0 * D)
        if noise * bound_over_usual(problem.loss) > NEWTON_STEP.curvature:
            plan = replace(plan, warnings=(*plan.warnings, DOUBTFUL_STEP))
        return plan

    def run(
        self,
        plan: NewtonStepPlan,
        problem: CompositeProblem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        free = without_l1(problem)
        coordinates, start = self.descent.descend(plan.descent, free, X, y, rng, progress)
        X, scale, loss = in_pieces(X, y), coordinates.scale, problem.loss
        basis = contrasts(loss.n_outputs)
        start = (basis.T @ start.reshape(len(basis), -1)).ravel()

        def in_classes(point: np.ndarray) -> np.ndarray:
            outputs = basis @ point.reshape(basis.shape[1], -1)
            return unscaled(problem, coordinates, outputs.ravel())

        w, slope = in_classes(start) + problem.begin, lipschitz_l2(loss)
        if plan.risk_grid is not None:
            spread = release_variance(plan, X, y, w, problem.n_samples, rng)
            problem = replace(problem, loss=loss._replace(spread=spread))
        if plan.spread_grid is not None:
            slope = min(slope, release_reach(plan, problem, coordinates.target, X, y, w, rng))
        limits = scale, row_limit(coordinates, plan.long), slope
        model = release_model(plan, problem, limits, X, y, w, rng)
        progress[0] += 1
        weight = np.tile(free.penalty_curvature / scale**2, basis.shape[1])
        step, known = newton_step(model, weight, start, problem.n_samples)
        known, coef = of_classes(known, basis, scale), in_classes(start + step)
        if plan.risk_grid is not None:
            known = known._replace(risk_variance=problem.loss.spread)
        if free is not problem:
            shrunk = penalised(model, problem, scale, start)
            debiasing = (coef - shrunk).reshape(known.covariance.shape[:-1])
            known, coef = known._replace(debiasing=debiasing), shrunk
        return Result(coef, plan.n_iter, uncertainty=known)


def contrasts(n_outputs: int) -> np.ndarray:
    """Orthonormal directions in which outputs may move: those of classes add up to 0.

    A softmax does not change where all outputs move alike, so that nothing is known about that.
    """
    return helmert(n_outputs).T if n_outputs > 1 else np.ones((1, 1))


def without_l1(problem: CompositeProblem) -> CompositeProblem:
    """The problem that errors are known of: with an L2 penalty, or with none."""
    if isinstance(problem.penalty, L2):
        return problem
    return replace(problem, penalty=L2(0.0))


def has_spread(loss: Any) -> bool:
    """Whether a bound on derivatives is found, and their mean square: for residuals."""
    return traits_of(loss).quadratic


def has_baseline(loss: Any) -> bool:
    """Whether the baseline hazard of a loss depends on how much risks vary."""
    return type(loss) is ProportionalHazards


def bound_over_usual(loss: Any) -> float:
    """The bound on curvatures over their usual size."""
    if has_baseline(loss):  # fits are planned before the share of people with an event is known
        loss = ProportionalHazards()
    return loss.smoothness() / usual_curvature(loss)


def n_directions(problem: CompositeProblem) -> int:
    """Number of coefficients in the directions of `contrasts`."""
    return problem.n_features * max(problem.loss.n_outputs - 1, 1)


def of_classes(known: Uncertainty, basis: np.ndarray, scale: np.ndarray) -> Uncertainty:
    """Uncertainty of coefficients, from that of their directions, in coordinates."""
    k, D = basis.shape[1], len(scale)
    covariance = known.covariance.reshape(k, D, k, D)
    joint = np.einsum("ac,cidj,bd->aibj", basis, covariance, basis, optimize=True)
    joint = joint / scale[:, None, None] / scale
    if len(basis) == 1:
        return known._replace(covariance=joint[0, :, 0])
    return known._replace(covariance=np.einsum("kikj->kij", joint).copy(), joint=joint)


DOUBTFUL_STEP = (
    "The noise in the curvatures is about as large as they are: standard errors will be large, and "
    "intervals probably wider than they need to be. Use fewer features, more records or a larger "
    "epsilon."
)


class NoisyModel(NamedTuple):
    """A quadratic model of the mean loss at a point, from what was released.

    Parameters
    ----------
    gradient : ndarray of shape (n_features,)
    curvature, products : ndarray of shape (n_features, n_features)
        Mean curvatures, and mean products of gradients.
    gradient_noise, curvature_noise, products_noise : float
        Deviations of the noise in the gradient and in the `upper_triangle` of the matrices.
    variance : float or None
        Mean square of the clipped residuals, over the share of those that are not clipped; None for
        labels.
    exponential : bool
        Whether curvatures grow like an exponential, so that no step is small enough to be exact.
    """

    gradient: np.ndarray
    curvature: np.ndarray
    products: np.ndarray
    gradient_noise: float
    curvature_noise: float
    products_noise: float
    variance: Any = None
    exponential: bool = False


def release_model(
    plan: NewtonStepPlan,
    problem: CompositeProblem,
    limits: tuple[np.ndarray, float, float],
    X: Any,
    y: Any,
    w: np.ndarray,
    rng: np.random.Generator,
) -> NoisyModel:
    """Release gradient and curvatures at the coefficients ``w``.

    ``limits`` holds the scales of the coordinates, the norm beyond which rows count less, and the
    bound on derivatives.
    """
    n, loss, (scale, c, slope) = problem.n_samples, problem.loss, limits
    W = w.reshape(loss.n_outputs, -1).T
    *sums, counts = map_reduce(
        X, y, newton_sums, loss, W, scale, c, slope, plan.square_grid is not None
    )
    # Sums of vectors, and of matrices, whose norms are at most 1.
    grids = plan.gradient_grid, plan.matrix_grid, plan.products_grid
    bounds, means, noises = (slope * c, loss.smoothness() * c * c, (slope * c) ** 2), [], []
    for total, grid, bound in zip(sums, grids, bounds, strict=True):
        entries = (total if total.ndim == 1 else upper_triangle(total)) / bound
        noises.append(gaussian_mechanism(rng, entries, grid) * bound / n)
        means.append(entries * bound / n)
    gradient, curvature, products = means[0], symmetric(means[1]), symmetric(means[2])
    model = NoisyModel(gradient, curvature, products, *noises)
    model = model._replace(exponential=traits_of(loss).exponential)
    if plan.square_grid is None:
        return model
    noise = gaussian_mechanism(rng, counts, plan.square_grid) / n
    square, kept = np.clip(counts / n, [0.0, min(noise, 1.0)], 1.0)
    return model._replace(variance=slope**2 * float(square / kept))


def newton_step(
    model: NoisyModel, weight: np.ndarray, point: np.ndarray, n_samples: int
) -> tuple[np.ndarray, Uncertainty]:
    """The step to the minimum of a noisy model, and the errors of the point that it reaches.

    Parameters
    ----------
    model : NoisyModel
    weight : ndarray of shape (n_features,)
        Curvatures of the penalty.
    point : ndarray of shape (n_features,)
        The point at which the model was released.
    n_samples : int
    """
    D = len(point)
    curvature, raised = raised_curvature(model)
    inverse = np.linalg.inv(curvature + np.diag(weight))
    step = -inverse @ (model.gradient + weight * point)
    sampling = products_near(curvature, model.products, model.products_noise)
    known = model.gradient_noise**2 * np.eye(D) + sampling / n_samples
    if model.exponential:
        known += 0.75 * D * float(step @ curvature @ step) ** 2 / np.trace(curvature) * curvature
    uncertain, covariance = 0.5 * model.curvature_noise**2, np.zeros((D, D))
    for _ in range(NEWTON_STEP.rounds):
        # Curvatures are noisy, and too large where eigenvalues were raised, along what the step
        # should have been: it, and what it misses.
        move = np.outer(step, step) + covariance
        middle = known + uncertain * (np.trace(move) * np.eye(D) + move) + raised @ move @ raised
        covariance = inverse @ middle @ inverse
    relative = math.sqrt(uncertain) * float(np.trace(inverse))
    return step, Uncertainty(covariance, relative, bool(raised.any()), model.variance)


def raised_curvature(model: NoisyModel) -> tuple[np.ndarray, np.ndarray]:
    """The curvatures with eigenvalues of at least the noise, and what was added to them."""
    values, U = np.linalg.eigh(model.curvature)
    floor = model.curvature_noise * math.sqrt(2.0 * len(values))  # about its spectral norm
    raised = np.maximum(values, floor) - values
    return (U * (values + raised)) @ U.T, (U * raised) @ U.T


def penalised(
    model: NoisyModel, problem: CompositeProblem, scale: np.ndarray, point: np.ndarray
) -> np.ndarray:
    """Coefficients at the minimum of a noisy model, released at ``point``, plus the penalty."""
    basis = contrasts(problem.loss.n_outputs)
    turned, lengths = np.kron(basis, np.eye(len(scale))), np.tile(scale, len(basis))
    curvature, _ = raised_curvature(model)
    A, c = turned @ curvature @ turned.T, turned @ (curvature @ point - model.gradient)
    v, unit = turned @ point, np.tile(problem.unit, len(basis)) / lengths
    descend(A, c, problem.penalty, problem.weight, unit, v)
    return v / lengths


def products_near(curvature: np.ndarray, found: np.ndarray, noise: float) -> np.ndarray:
    """The mean product of gradients: as ``found``, or like curvatures as far as that is noise."""
    D, like = len(found), max(np.trace(found), 0.0) / np.trace(curvature) * curvature
    square = float(np.square(found - like).sum())
    share = min(0.5 * D * (D + 1) * noise**2 / max(square, 1e-300), 1.0)
    values, U = np.linalg.eigh(found + share * (like - found))
    return (U * np.maximum(values, 0.0)) @ U.T


def row_limit(coordinates: Coordinates, long: float) -> float:
    """Norm beyond which rows count less, or that of the longest possible row if that is smaller."""
    largest = float(np.sqrt((coordinates.scale**-2.0).sum()))
    return min(longest(coordinates.mean_square_norm, long), largest)


def longest(mean_square_norm: float, long: float) -> float:
    """Norm whose square is ``long`` deviations above the mean, for rows of normal columns."""
    return math.sqrt(mean_square_norm + long * math.sqrt(2.0 * mean_square_norm))


def release_reach(
    plan: NewtonStepPlan,
    problem: CompositeProblem,
    target: float,
    X: Any,
    y: Any,
    w: np.ndarray,
    rng: np.random.Generator,
) -> float:
    """Bound on residuals, from a private quantile of their sizes."""
    limits = 2.0 * target * 2.0 ** (np.arange(1 - 2**NEWTON_STEP.spread_counts, 1) / 2.0)
    weighted = type(problem.loss) is Weighted
    above = map_reduce(X, y, larger_residuals, w, limits, weighted)
    tolerated = NEWTON_STEP.spread_tail * problem.n_samples
    return plan.reach * float(limits[halve(above, tolerated, plan.spread_grid, rng)])


@without_gil
def larger_residuals(X, y, w, limits, weighted) -> np.ndarray:
    """How many residuals are larger than each of the increasing ``limits``."""
    Z = np.empty((len(y), 1))
    predict_all(X, w, Z)
    y = without_weights(y) if weighted else y
    return count_above(np.abs(Z[:, 0] - y), limits)


def release_variance(
    plan: NewtonStepPlan, X: Any, y: Any, w: np.ndarray, n_samples: int, rng: np.random.Generator
) -> float:
    """The variance of predictions that are clipped to a bound, at most its square."""
    bound = NEWTON_STEP.risk_bound
    means = map_reduce(X, y, powers_of_predictions, w, bound)
    gaussian_mechanism(rng, means, plan.risk_grid)
    mean, square = means / n_samples
    return bound**2 * min(max(float(square - mean**2), 0.0), 1.0)


@without_gil
def powers_of_predictions(X, y, w, bound) -> np.ndarray:
    """Sums of predictions over ``bound``, clipped to [-1, 1], and of their squares."""
    Z = np.empty((len(y), 1))
    predict_all(X, w, Z)
    Z = np.fmin(np.fmax(Z / bound, -1.0), 1.0)
    return np.array([Z.sum(), np.square(Z).sum()])


def newton_sums(
    X: Any, y: Any, loss: Any, W: Any, scale: Any, c: Any, slope: Any, residuals: bool
) -> Any:
    """Sums of gradients, second derivatives and products of gradients, and two for ``residuals``.

    Rows beyond a norm of ``c`` count less: their gradients are no longer than derivatives times c,
    and second derivatives no larger than curvatures times c**2. Derivatives are clipped to
    ``slope``, and multiplied by weights. The last two are squares of residuals over that of
    ``slope``, and the number of those that are not clipped, both by weight.
    """
    basis = contrasts(loss.n_outputs)
    k, D = basis.shape[1], len(scale)

    def of_some(A: np.ndarray, some: np.ndarray) -> Any:
        plain, targets, weights = separated(loss, some)
        R, v = A @ W, np.empty(len(some))
        linearise(for_kernels(plain), R, targets, slope, plain.smoothness(), v)
        A = A / scale
        if type(plain) in PIECEWISE:
            v *= bent(plain, R[:, 0])
        norms = np.sqrt(row_squares(A))
        shares = c / np.maximum(norms, c)
        A *= shares[:, None]
        slopes = (R @ basis) * (weights * shares)[:, None]
        counts = np.zeros(2)
        if residuals:
            v = (np.abs(R[:, 0]) < slope).astype(np.float64)
            counts = np.array([weights @ np.square(R[:, 0] / slope), weights @ v])
        each = (slopes[:, :, None] * A[:, None, :]).reshape(len(A), k * D)
        products = each.T @ each
        gradient = (slopes.T @ A).ravel()
        if len(basis) == 1:
            A *= np.sqrt(v * weights)[:, None]
            return gradient, A.T @ A, products, counts
        bends = class_curvatures(R, targets.astype(np.intp), basis) * weights[:, None, None]
        matrix = np.empty((k, D, k, D))
        for a in range(k):
            for b in range(a, k):
                matrix[a, :, b] = A.T @ (A * bends[:, a, b, None])
                matrix[b, :, a] = matrix[a, :, b].T
        return gradient, matrix.reshape(k * D, k * D), products, counts

    return sum_in_batches(X, y, np.arange(D), of_some)


@njit
def linearise(loss, Z, y, slope, smoothness, v):
    """Write the curvatures into ``v``, and replace the predictions ``Z`` by derivatives."""
    bounded_curvatures(loss, Z, y, smoothness, v)
    bounded_derivatives(loss, Z, y, slope, slope, Z)


def bent(loss: Any, slopes: np.ndarray) -> np.ndarray:
    """Whether derivatives of a `PIECEWISE` loss are between the ends of an interval of length 1."""
    rise = np.abs(slopes + getattr(loss, "level", 0.0))
    return (rise > 0.0) & (rise < 1.0)


def class_curvatures(R: np.ndarray, labels: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Second derivatives of the softmax loss, whose derivatives are ``R``, along ``basis``.

    They are ``diag(p) - p p'`` for numbers p >= 0 whose sum is at most 1, whatever ``R`` is.
    """
    P = R.copy()
    P[np.arange(len(P)), labels] += 1.0
    P = np.clip(P, 0.0, 1.0)
    P /= np.maximum(P.sum(axis=1), 1.0)[:, None]
    Q = P @ basis
    return np.einsum("ik,ka,kb->iab", P, basis, basis, optimize=True) - Q[:, :, None] * Q[:, None]
