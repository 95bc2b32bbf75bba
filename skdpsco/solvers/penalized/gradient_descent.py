"""Private proximal gradient descent. Proof: docs/proofs/gradient_descent.md."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import check_bool, check_bound
from skdpsco.data.pieces import one_record
from skdpsco.data.record_sums import in_pieces, map_reduce
from skdpsco.losses.library import (
    SOFTMAX,
    Huber,
    Logistic,
    SmoothQuantile,
    derivative,
    derivatives,
    lipschitz_l2,
    unweighted,
)
from skdpsco.losses.log_link import LogLink, highest, usual_mean
from skdpsco.mechanisms.samplers import deviation_on, gaussian_grid, gaussian_mechanism
from skdpsco.penalties import prox
from skdpsco.privacy import GaussianEvent, NoOpEvent, RepeatedEvent, compose
from skdpsco.privacy.spending import share_mu
from skdpsco.scaling.column_scales import COLUMN_SCALES, ScalePlan, plan_scales, release_scales
from skdpsco.scaling.quantiles import halve, longer_scores
from skdpsco.solvers.base import Plan, Result, check_bound_on, check_derivatives
from skdpsco.solvers.gradient_sums import clipped_gradient_sum, longer_gradients
from skdpsco.solvers.penalized.metric import METRIC, metric_grid, metric_pays, release_metric
from skdpsco.solvers.penalized.problem import CompositeProblem
from skdpsco.solvers.penalized.quadratic_model import Model
from skdpsco.solvers.penalized.shrinkage import GradientSteps, shrink_result

__all__ = [
    "GRADIENT_DESCENT",
    "Coordinates",
    "GradientDescent",
    "GradientDescentPlan",
    "full_passes",
    "gradient_grid",
    "noisy_gradient",
    "passes",
    "plenty",
    "release_coordinates",
    "release_spread",
    "share_scales",
    "stable_step",
    "unscaled",
]


class GradientDescentTuning(NamedTuple):
    """Constants of the plan, fitted on data as in examples/benchmarks/coordinate_descent.py.

    Parameters
    ----------
    noise : float
        n mu over the root of the number of coefficients that one pass needs.
    fewest, passes : float
        Smallest and largest number of passes if noise matters.
    sampled_noise : float
        n mu per feature that one pass over samples needs.
    many : float
        Number of worthwhile passes from which on more than ``passes`` are made, however few
        features there are.
    thorough, more : float
        Over the root of twice the number of features, the number of passes that also reach an
        optimum where directions differ in curvature; and the power of the worthwhile number, beyond
        ``passes``, with which it is approached. Fitted on families of 200 to 1,000 columns as in
        examples/benchmarks/robustness.py.
    plenty : float
        n mu per feature from which on clipping norms of slopes, and the number of passes over
        samples, grow.
    residual_plenty : float
        n mu per feature from which on clipping norms of residuals grow with its root, since large
        residuals are part of a mean.
    residual_growth : float
        Largest factor of this growth.
    skewed : float
        How much sooner clipping norms grow for skewed residuals, whose mean is moved by clipping.
    counted : float
        n mu per feature from which on a count of 1 is not clipped; before, a part of it in
        proportion. Where most counts are 0, it is the others that tell the mean.
    max_passes : int
        Largest number of passes; chosen by hand, for time.
    level : float
        Least mean square of a conditioned column in the coordinates' units, in means over columns.
        Only columns that conditioning does not clip have mean squares that differ: indicators. In
        larger units rare ones make no row long, and steps follow them less far into the noise.
    length : float
        Length of a step, relative to the one from smoothness and the mean squared norm.
    intercept : float
        Largest square of the column of ones, in mean squared norms.
    off_centre : float
        Square of the column of ones for quantiles near 0 or 1, in mean squared norms.
    few_passes : float
        Number of passes up to which it is used; in so few, shorter steps would not reach such
        quantiles.
    sure : float
        Standard deviations by which a curvature must exceed its noise to shorten the steps.
    tail, more_tail : float
        Share of the passes whose points are averaged, and what a strong penalty adds to it, since
        coefficients that it shrinks soon forget where they began.
    residual_clip, slope_clip : float
        Clipping norms over the root of the number of features: in root mean squares of the targets
        if derivatives are residuals, otherwise in Lipschitz constants.
    fall_after, fall_counts : float, int
        Share of the passes after which the clipping norm of residuals and of logistic slopes may
        fall, since these are shorter when much is explained; and the number of counts of long
        gradients in this release, which search among 2**fall_counts candidates.
    residual_fall, class_fall : float
        The smallest candidate over the norm, for residuals and for logistic slopes. The latter fall
        less: where classes are nearly separable, few long gradients say what is still wrong.
    fall_tail : float
        Share of the gradients that may be longer than the norm, over the square of the factor by
        which norms have grown, or those of residuals would have.
    fall_noise, fall_share : float
        Deviation of a count's noise, over the tolerated count; and the share of mu**2 for all
        counts, beyond which the norm does not fall.
    class_noise, class_fewest : float
        ``noise`` and ``fewest`` of softmax regression, whose derivatives are shorter and less
        curved, relative to their bounds. Fitted on four tables with 3 to 10 classes.
    class_slope_clip : float
        ``slope_clip`` of losses for labels. It grows to ``slope_clip`` before norms of slopes do.
    way : float
        How far all steps should go, in inverses of the largest curvature, over the square of n mu
        per feature: where less is known, a descent should end sooner. If the usual steps fall short
        of it, their length follows from the spread of scores. This and all that follows was fitted
        on bags of words, indicators and normal columns, independent ones or with common factors.
    uncalibrated_way : float
        ``way`` for targets of losses after which no slope of scores is released.
    longest_way : float
        Largest way, after which directions as curved as most have converged.
    usual_spread, spread_way : float
        Spread of scores where all directions are alike, as it is found, rounded up. Where few
        directions hold most of the variance it is larger, and more is known of each: ways are
        longer in proportion, but by this no longer than ``spread_way``.
    spread_share : float
        Share of mu**2 for the release of the scores' spread.
    spread_counts : int
        Number of counts in this release; they search among 2**spread_counts candidates.
    spread_tail, spread_deviations : float
        Share of the scores that may exceed the spread, and the number of standard deviations that
        this share of a normal distribution exceeds.
    spread_length : float
        Length of a step, relative to the one from smoothness and the spread.
    spread_scores : float
        Largest spread of scores after the first step; noise should move no score far.
    """

    noise: float = 6.0
    fewest: float = 4.0
    passes: float = 50.0
    sampled_noise: float = 8.0
    many: float = 200.0
    thorough: float = 6.0
    more: float = 2.0 / 3.0
    plenty: float = 3000.0
    residual_plenty: float = 250.0
    residual_growth: float = 3.0
    skewed: float = 75.0
    counted: float = 25.0
    max_passes: int = 5000
    level: float = 0.3
    length: float = 2.0
    intercept: float = 0.4
    off_centre: float = 0.5
    few_passes: float = 8.0
    sure: float = 3.0
    tail: float = 0.25
    more_tail: float = 0.5
    residual_clip: float = 1.3
    slope_clip: float = 0.8
    fall_after: float = 0.25
    fall_counts: int = 3
    residual_fall: float = 0.2
    class_fall: float = 0.8
    fall_tail: float = 0.2
    fall_noise: float = 0.25
    fall_share: float = 0.03
    class_noise: float = 4.0
    class_fewest: float = 6.0
    class_slope_clip: float = 0.6
    way: float = 0.07
    uncalibrated_way: float = 0.2
    longest_way: float = 16.0
    usual_spread: float = 1.22
    spread_way: float = 4.0
    spread_share: float = 0.04
    spread_counts: int = 4
    spread_tail: float = 0.2
    spread_deviations: float = 1.28
    spread_length: float = 0.5
    spread_scores: float = 0.5


GRADIENT_DESCENT = GradientDescentTuning()


@dataclass(frozen=True)
class GradientDescentPlan(Plan):
    """Scales of the columns, and the noise of every step.

    Parameters
    ----------
    scales : ScalePlan or None
    preconditioned : bool
        Whether the scales of the columns are used.
    grid : float
        Grid of a sum of gradients with norms of at most 1; it scales with the clipping norm.
    slack : float
        Factor of the automatic clipping norm, which grows if the noise is small.
    spread_grid : float or None
        Grid of counts of large scores along the first gradient, which decide the length of steps;
        None if the mean squared norm decides it.
    way : float
        How far all steps should go, in inverses of the largest curvature.
    slope_clip : float
        Automatic clipping norm of slopes; see `GradientDescentTuning`.
    fall_grid : float or None
        Grid of counts of long gradients, after which the clipping norm falls; None if it does not.
    tolerated : float
        Number of gradients that may then be longer.
    metric_grid : float or None
        Grid of second moments of rows with norms of at most 1, whose metric steps are taken in;
        None if columns are only scaled.
    counted : float
        Share of the derivative of a count of 1 that automatic clipping norms are not below.
    """

    scales: ScalePlan | None = None
    preconditioned: bool = True
    grid: float = 0.0
    slack: float = 1.0
    spread_grid: float | None = None
    way: float = 0.0
    slope_clip: float = GRADIENT_DESCENT.slope_clip
    fall_grid: float | None = None
    tolerated: float = 0.0
    metric_grid: float | None = None
    counted: float = 0.0

    @property
    def clips_gradients(self) -> bool:
        """Whether steps are preconditioned; see `Plan`."""
        return self.preconditioned

    @property
    def only_gradients(self) -> bool:
        """Whether no mean squares of columns are measured; see `Plan`."""
        return self.scales is None or self.scales.columns == 0

    def coefficient_noise(self, problem: CompositeProblem) -> float | None:
        """Deviation of a coefficient if the mean of the last noisy gradients is 0.

        It is in units of the targets' root mean square, for columns of mean square 1. It is None
        unless the clipping norm follows from the targets, whose means are predicted.
        """
        if self.scales is None or self.scales.target_grids is None:
            return None
        if isinstance(unweighted(problem.loss), LogLink):
            return None
        norm = self.slack * GRADIENT_DESCENT.residual_clip * math.sqrt(problem.n_features)
        averaged = self.averaged_passes(0.0)
        return deviation_on(self.grid) * norm / problem.n_samples / math.sqrt(averaged)

    def averaged_passes(self, shrinkage: float) -> int:
        """Number of the last passes whose points and gradients are averaged."""
        if self.metric_grid is not None:  # all that have the last clipping norm
            return self.n_iter - math.ceil(GRADIENT_DESCENT.fall_after * self.n_iter)
        share = GRADIENT_DESCENT.tail + GRADIENT_DESCENT.more_tail * shrinkage**2
        return max(1, round(share * self.n_iter))


class Coordinates(NamedTuple):
    """The released coordinates ``scale * w`` in which steps are taken.

    Parameters
    ----------
    scale : ndarray of shape (n_features,)
    clip : float
        Bound on the l2 norm of a record's gradient.
    mean_square_norm : float
        Mean squared norm of the records in these coordinates.
    shrinkage, penalty : float
        Share of the penalty in the curvature, in [0, 1), and the mean of its curvatures.
    target : float
        Root mean square of the targets, or a bound.
    """

    scale: np.ndarray
    clip: float
    mean_square_norm: float
    shrinkage: float
    penalty: float = 0.0
    target: float = 1.0


class GradientDescent:
    """Proximal gradient descent with momentum, clipped gradients and Gaussian noise.

    Every pass sums the records' gradients, each clipped to an l2 norm, adds noise, and takes a
    proximal step. With ``preconditioned=True`` this uses coordinates in which all columns have a
    mean square of about 1, estimated with a tenth of the budget. If noise is small, second moments
    of conditioned features are released as well, for another tenth, and a few steps in their metric
    replace many. The number of passes, step sizes and clipping norms follow from public
    numbers and from what was released.

    Parameters
    ----------
    clip : "auto" or float, default="auto"
        The clipping norm over the square root of the number of features, which is about the largest
        derivative of a typical record. "auto" is 1.3 root mean squares of the targets for losses of
        residuals, 0.6 Lipschitz constants for losses of labels and 0.8 for others, and the smaller
        of both for `Huber`; and more if the noise is small. For residuals and
        logistic slopes it falls after a quarter of the passes, at best to what a fifth of the
        gradients exceed.
    preconditioned : bool, default=True
        Whether the mean squares of the columns are measured. Otherwise they are assumed to be 1, as
        for columns as large as their bounds.
    shrunk : bool or "each", default=False
        Whether coefficients are shrunk towards 0 by as much as noise has lengthened them: a model
        that is only noise then predicts about as well as a constant. With "each", every coefficient
        of a feature has a factor of its own, which is best where few features matter; for labels
        the largest factor is then 1, unless the fit begins at a model. Regressions are always
        shrunk.

    References
    ----------
    R. Bassily, A. Smith, A. Thakurta. Private Empirical Risk Minimization: Efficient Algorithms
    and Tight Error Bounds. FOCS 2014. (Full batches with momentum instead of single records.)
    """

    requires: ClassVar[dict[str, Any]] = {
        "loss": ((derivative, derivatives),),
        "penalty": ((prox,),),
    }
    by_blocks = fixed_cost = fixed_plan = clips_gradients = for_added = reads_centred = True

    def __init__(
        self, clip: float | str = "auto", preconditioned: bool = True, shrunk: bool | str = False
    ) -> None:
        self.clip = clip if clip == "auto" else check_bound("clip", clip)
        self.preconditioned: bool = check_bool("preconditioned", preconditioned)
        self.shrunk = shrunk if shrunk == "each" else check_bool("shrunk", shrunk)

    def plan(
        self, problem: CompositeProblem, budget: Any, n_iter: int | None = None
    ) -> GradientDescentPlan:
        """Share ``budget`` among the scales and ``n_iter`` passes.

        Raises
        ------
        ValueError
            If the noise of a pass would be too large for the grid, or if ``clip="auto"`` and
            derivatives of the loss are unbounded and not residuals.
        """
        mu = budget.mu * (1.0 - 2.0**-40)
        n_passes = n_iter or full_passes(problem, mu)
        useful = n_iter is None and n_passes >= GRADIENT_DESCENT.passes
        metric = useful and self.preconditioned and metric_pays(problem, mu)
        n_passes = round(METRIC.passes * n_passes) if metric else n_passes
        scales, mu_steps = share_scales(self, problem, mu)
        ratio = plenty(problem, budget)
        slack = clip_growth(problem, ratio)
        few = max(slack, growth_of_residuals(ratio)) ** 2
        tolerated = GRADIENT_DESCENT.fall_tail / few * problem.n_samples
        parts = {}
        if not metric and falls_short(problem, mu, n_passes):
            k = GRADIENT_DESCENT.spread_counts
            parts["spread"] = (GRADIENT_DESCENT.spread_share / k, k)
        if metric:
            parts["metric"] = (METRIC.share, 1)
        count_share = (GRADIENT_DESCENT.fall_noise * tolerated * mu_steps) ** -2.0
        cheap = GRADIENT_DESCENT.fall_counts * count_share <= GRADIENT_DESCENT.fall_share
        falls = problem.has_residuals or (is_logistic(problem) and slack == 1.0)
        if cheap and self.clip == "auto" and n_passes > 1 and falls:
            parts["fall"] = (count_share, GRADIENT_DESCENT.fall_counts)
        multipliers, first = share_mu(mu_steps, parts)
        left = 1.0 - sum(share * count for share, count in parts.values())
        multiplier = math.sqrt(n_passes / left) / mu_steps
        event = RepeatedEvent(GaussianEvent(multiplier), n_passes)
        grids: Any = {
            f"{name}_grid": metric_grid(problem, found)
            if name == "metric"
            else gaussian_grid(1.0, found, 1, problem.n_samples)
            for name, found in multipliers.items()
        }
        return GradientDescentPlan(
            event=compose(scales.event if scales else NoOpEvent(), first, event),
            n_iter=n_passes,
            scales=scales,
            preconditioned=self.preconditioned,
            grid=gradient_grid(problem, multiplier, 1.0 if problem.added else 2.0),
            slack=slack,
            way=length_of_way(problem, mu),
            slope_clip=slope_clip_of(problem, ratio),
            tolerated=tolerated,
            counted=min(ratio * GRADIENT_DESCENT.plenty / GRADIENT_DESCENT.counted, 1.0),
            **grids,
        )

    def run(
        self,
        plan: GradientDescentPlan,
        problem: CompositeProblem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        coordinates, u = self.descend(plan, problem, X, y, rng, progress)
        return Result(unscaled(problem, coordinates, u), plan.n_iter)

    def before_pass(
        self,
        t: int,
        plan: Any,
        problem: CompositeProblem,
        coordinates: Coordinates,
        data: tuple[Any, Any],
        point: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[CompositeProblem, tuple[Any, Any]]:
        """Problem and data whose gradient at ``point`` pass t releases; subclasses may change both.

        The point is in the ``coordinates``, see `unscaled`.
        """
        return problem, data

    def descend(
        self,
        plan: GradientDescentPlan,
        problem: CompositeProblem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> tuple[Coordinates, np.ndarray]:
        """Follow ``plan``; return the coordinates, and the point in these coordinates."""
        X = in_pieces(X, y)
        coordinates = release_coordinates(self.clip, plan, problem, X, y, rng)
        n, T = problem.n_samples, plan.n_iter
        trace = coordinates.mean_square_norm
        length = GRADIENT_DESCENT.length / trace if plan.metric_grid is None else METRIC.length
        step = length / (likely_smoothness(problem.loss) * problem.mean_weight)
        model = release_metric(plan.metric_grid, problem, (coordinates.scale, trace), X, y, rng)
        largest_momentum = max(0.9, 1.0 - 5.0 / T)
        point = np.zeros(problem.n_coefficients)  # where the gradient is taken
        last, last_gradient, first, old = point, point, point, point
        sums = np.zeros((2, len(point)))
        age, n_averaged = 0, plan.averaged_passes(coordinates.shrinkage)
        noise = first_noise = 0.0
        falls_at = math.ceil(GRADIENT_DESCENT.fall_after * T)
        for t in range(T):
            if t == falls_at and plan.fall_grid is not None:
                coordinates = with_shorter_gradients(plan, problem, coordinates, X, y, point, rng)
            weight = problem.mean_weight
            problem, (X, y) = self.before_pass(t, plan, problem, coordinates, (X, y), point, rng)
            step *= weight / problem.mean_weight
            grid = plan.grid * coordinates.clip
            gradient = noisy_gradient(problem, coordinates, X, y, point, grid, rng) / n
            if t == 0 and plan.spread_grid is not None:
                spread = release_spread(plan, problem, coordinates, X, y, gradient, rng)
                coordinates, gradient = with_ones(problem, coordinates, gradient, spread)
                model = Model(model.M, problem, 1.0 / coordinates.scale)
                longer = measured_step(problem, gradient, spread)
                # With momentum T steps go as far as T**2 / 2 without.
                bend = problem.loss.smoothness() * problem.mean_weight
                most = 2.0 * way_along(plan.way, spread) / (bend * T**2)
                step = max(step, min(longer, most))
            elif t > 0:
                move = point - last
                step = stable_step(step, move, gradient - last_gradient, noise, model.apply(move))
            noise = deviation_on(grid) / n  # standard deviation in every coordinate
            if t == 0:
                first, first_noise = gradient, noise
            last, last_gradient = point, gradient
            new = model.proximal_step(point, gradient, step)
            move = new - old
            size = math.sqrt(move @ move)
            backwards = model.apply(point - new) @ move > 2.0 * step * noise * size
            age = 0 if backwards else age + 1
            if t >= T - n_averaged:
                sums += point, gradient
            point = new + min(largest_momentum, age / (age + 3.0)) * move
            old = new
            progress[0] += 1
        mean_point, mean_gradient = sums / n_averaged
        u = model.proximal_step(mean_point, mean_gradient, step)
        if self.shrunk:
            lengths = step, largest_momentum, coordinates.penalty
            steps = GradientSteps(T, n_averaged, *lengths, falls_at, first_noise / noise)
            if isinstance(problem.loss, SOFTMAX):  # see `noisy_gradient`
                noise *= math.sqrt(1.0 - 1.0 / problem.loss.n_outputs)
            pull = model.apply(mean_point - u) / step - mean_gradient  # the pull of the penalty
            each = self.shrunk == "each"
            shrink_result(problem, u, (first, pull), noise, coordinates.target, steps, each)
        return coordinates, u


def plenty(problem: CompositeProblem, budget: Any) -> float:
    """Records times mu per feature, relative to `PLENTY`; public."""
    outputs = math.sqrt(problem.loss.n_outputs)
    return problem.n_mu(budget.mu) / (problem.n_features * outputs * GRADIENT_DESCENT.plenty)


def clip_growth(problem: CompositeProblem, ratio: float) -> float:
    """Factor of an automatic clipping norm, above 1 where noise is small; ``ratio`` is `plenty`."""
    tuning, growth = GRADIENT_DESCENT, ratio**0.25
    if isinstance(unweighted(problem.loss), LogLink):
        growth *= tuning.skewed**0.25
    elif problem.has_residuals:
        growth = max(growth, growth_of_residuals(ratio))
    return max(growth, 1.0)


def growth_of_residuals(ratio: float) -> float:
    """Factor, at least 1, of the clipping norm of residuals where noise is not yet small."""
    soon = (ratio * GRADIENT_DESCENT.plenty / GRADIENT_DESCENT.residual_plenty) ** 0.5
    return min(max(soon, 1.0), GRADIENT_DESCENT.residual_growth)


def passes(ratio: float) -> int:
    """Number of passes over sampled batches, determined like `full_passes`."""
    few = max(
        ratio * GRADIENT_DESCENT.plenty / GRADIENT_DESCENT.sampled_noise, GRADIENT_DESCENT.fewest
    )
    few = min(few, GRADIENT_DESCENT.passes)
    return round(min(few * max(1.0, ratio) ** (1.0 / 3.0), GRADIENT_DESCENT.max_passes))


def full_passes(problem: CompositeProblem, mu: float) -> int:
    """Number of full-batch passes that are worth their noise; few if there is much noise."""
    fewest = GRADIENT_DESCENT.fewest
    worth = problem.n_mu(mu) / math.sqrt(problem.n_coefficients) / GRADIENT_DESCENT.noise
    if isinstance(problem.loss, SOFTMAX):
        fewest = GRADIENT_DESCENT.class_fewest
        worth *= GRADIENT_DESCENT.noise / GRADIENT_DESCENT.class_noise
    usual = GRADIENT_DESCENT.passes
    more = usual * max(worth / usual, 1.0) ** GRADIENT_DESCENT.more
    more = min(more, GRADIENT_DESCENT.thorough * math.sqrt(2.0 * problem.n_features))
    most = max(usual * max(worth / GRADIENT_DESCENT.many, 1.0) ** (1.0 / 3.0), more)
    return round(min(max(worth, fewest), most, GRADIENT_DESCENT.max_passes))


def slope_clip_of(problem: CompositeProblem, ratio: float) -> float:
    """Automatic clipping norm of slopes; ``ratio`` is `plenty`. See `GradientDescentTuning`."""
    most = GRADIENT_DESCENT.slope_clip
    if problem.has_residuals or isinstance(unweighted(problem.loss), SmoothQuantile | LogLink):
        return most
    return min(max(GRADIENT_DESCENT.class_slope_clip, most * ratio**0.25), most)


def is_logistic(problem: CompositeProblem) -> bool:
    """Whether derivatives are those of the logistic loss."""
    return isinstance(unweighted(problem.loss), Logistic)


def likely_smoothness(loss: Any) -> float:
    """The largest curvature; for a mean that is an exponential, twice the usual one."""
    loss = unweighted(loss)
    return 2.0 * usual_mean(loss) if isinstance(loss, LogLink) else loss.smoothness()


def falls_short(problem: CompositeProblem, mu: float, n_passes: int) -> bool:
    """Whether several steps of the usual length do not go as far as is worth going; public."""
    usual = GRADIENT_DESCENT.length / 2.0 * n_passes**2
    far = length_of_way(problem, mu) * problem.n_features
    return problem.centred and n_passes > 1 and usual < far


def length_of_way(problem: CompositeProblem, mu: float) -> float:
    """How far all steps should go, in inverses of the largest curvature; public."""
    loss, known = unweighted(problem.loss), problem.n_mu(mu) / problem.n_features
    uncalibrated = isinstance(loss, Huber | SmoothQuantile | LogLink)
    if isinstance(loss, SmoothQuantile):  # few records are near an outer one
        known *= 2.0 * min(loss.level, 1.0 - loss.level)
    way = GRADIENT_DESCENT.uncalibrated_way if uncalibrated else GRADIENT_DESCENT.way
    return min(way * known**2, GRADIENT_DESCENT.longest_way)


def way_along(way: float, spread: float) -> float:
    """How far all steps should go, given the scores' spread along the first gradient."""
    longer = max(spread / GRADIENT_DESCENT.usual_spread, 1.0)
    return max(min(way * longer, GRADIENT_DESCENT.spread_way), way)


def release_spread(
    plan: Any,
    problem: Any,
    coordinates: Coordinates,
    X: Any,
    y: Any,
    gradient: np.ndarray,
    rng: np.random.Generator,
) -> float:
    """Standard deviation of the scores along a gradient of norm 1, from a private quantile."""
    along = gradient.reshape(problem.loss.n_outputs, -1).copy()
    if problem.intercept:
        along[:, -1] = 0.0  # the ones do not count
    w = unscaled(problem, coordinates, along.ravel() / max(float(np.linalg.norm(along)), 1e-300))
    powers = np.arange(1 - 2**GRADIENT_DESCENT.spread_counts, 1) / 2.0
    limits = math.sqrt(coordinates.mean_square_norm) * 2.0**powers
    above = map_reduce(X, y, longer_scores, w, problem.loss.n_outputs, limits)
    tolerated = GRADIENT_DESCENT.spread_tail * problem.n_samples
    found = limits[halve(above, tolerated, plan.spread_grid, rng)]
    return float(found) / GRADIENT_DESCENT.spread_deviations


def with_ones(
    problem: Any, coordinates: Coordinates, gradient: np.ndarray, size: float
) -> tuple[Coordinates, np.ndarray]:
    """Coordinates in which the ones of the intercept are ``size``, and a gradient in them."""
    scale, gradient = coordinates.scale.copy(), gradient.copy()
    scale[-1] = 1.0 / size
    gradient.reshape(problem.loss.n_outputs, -1)[:, -1] *= coordinates.scale[-1] / scale[-1]
    return coordinates._replace(scale=scale), gradient


def measured_step(problem: CompositeProblem, gradient: np.ndarray, spread: float) -> float:
    """Length of steps, from the spread of the scores along the first gradient."""
    bend = problem.loss.smoothness() * problem.mean_weight
    step = GRADIENT_DESCENT.spread_length / (bend * spread**2)
    scores = float(np.linalg.norm(gradient)) * spread
    return min(step, GRADIENT_DESCENT.spread_scores / max(scores, 1e-300))


def with_shorter_gradients(
    plan: Any,
    problem: Any,
    coordinates: Coordinates,
    X: Any,
    y: Any,
    point: np.ndarray,
    rng: np.random.Generator,
) -> Coordinates:
    """Coordinates with a smaller clipping norm, from a private quantile of gradients' norms."""
    w = unscaled(problem, coordinates, point) + problem.begin
    tuning = GRADIENT_DESCENT
    least = tuning.residual_fall if problem.has_residuals else tuning.class_fall
    factors = least ** np.linspace(1.0, 0.0, 2**tuning.fall_counts)
    limits = coordinates.clip / plan.slack * factors
    above = map_reduce(X, y, longer_gradients, problem.loss, w, coordinates.scale, limits)
    found = limits[halve(above, plan.tolerated, plan.fall_grid, rng)]
    least = least_clip(plan, problem.loss) * math.sqrt(coordinates.mean_square_norm)
    clip = max(float(found) * plan.slack, min(least, coordinates.clip))
    return coordinates._replace(clip=clip)


def least_clip(plan: GradientDescentPlan, loss: Any) -> float:
    """What no automatic clipping norm of derivatives is below."""
    loss = unweighted(loss)
    count = min(loss.jump, highest(loss)) if isinstance(loss, LogLink) else 0.0
    return plan.counted * count


def share_scales(
    solver: Any, problem: CompositeProblem, mu: float
) -> tuple[ScalePlan | None, float]:
    """Plan the scales that ``solver`` needs; return the plan, and the mu that is left."""
    target = solver.clip == "auto" and problem.has_residuals
    slope = lipschitz_l2(problem.loss)
    if slope < math.inf or (solver.clip == "auto" and not target):
        check_derivatives(problem.loss, slope)
    else:
        check_bound_on("second derivative", problem.loss, problem.loss.smoothness())
    known = problem.mean_square is not None
    if not target and (known or not solver.preconditioned):
        return None, mu
    # Columns and targets are measured together; without preconditioning only the targets are used.
    share = COLUMN_SCALES.target_share if known else COLUMN_SCALES.share
    scales = plan_scales(problem, mu * math.sqrt(share), target, known)
    return scales, mu * math.sqrt(1.0 - share)


def gradient_grid(problem: CompositeProblem, multiplier: float, factor: float) -> float:
    """Grid of sums of gradients of norm 1; replacing one record moves ``factor`` of them."""
    n, D = problem.n_samples, problem.n_coefficients
    # Norms and products are rounded, and more so for sparse rows minus a centre, whose sums are
    # differences of larger ones.
    differences = problem.sparse and problem.centred
    bound = 1.0 + (D + 4) * 2.0 ** (-38 if differences else -50)
    # 2: a sum is divided twice, by a bound and by a scale.
    rounded = bound * (2.0**7 if differences else 1.0)
    sensitivity = one_record(n, problem.added, rounded, factor * bound, 2)
    return gaussian_grid(sensitivity, multiplier, D, n * bound)


def release_coordinates(
    clip: Any,
    plan: Any,
    problem: CompositeProblem,
    X: MatrixLike,
    y: TargetLike,
    rng: np.random.Generator,
) -> Coordinates:
    """Release the planned scales; decide on the coordinates and the clipping norm."""
    loss, d = unweighted(problem.loss), problem.n_features
    scale, target = np.ones(d), problem.target_bound
    mean_square: Any = problem.mean_square
    if plan.scales is not None:
        released = release_scales(plan.scales, X, y, rng)
        target = released.target
        mean_square = mean_square or released.mean_square[: d - problem.intercept]
    size: float = d  # mean squared norm of the records, with ones
    if plan.preconditioned and mean_square is not None:
        square = np.asarray(mean_square)
        level = GRADIENT_DESCENT.level * (problem.mean_square is not None)
        raised = np.maximum(square, level * (square.sum() / max(square.size, 1)))
        scale[: d - problem.intercept] = np.sqrt(raised)
        size = float((square / raised).sum()) + problem.intercept
    penalty = float((problem.penalty_curvature / scale**2).sum()) / max(d - problem.intercept, 1)
    shrinkage = 1.0 - loss.smoothness() / (penalty + loss.smoothness())
    # No penalty shrinks an intercept, so its noise would drown predictions that are shrunk.
    # (Targets of regressions are centred.)
    most_ones = max(GRADIENT_DESCENT.intercept * shrinkage * size, 1.0)
    ones = 1.0 if problem.has_residuals else most_ones
    if isinstance(loss, SmoothQuantile | LogLink):  # their targets are centred at the median
        far = abs(2.0 * loss.level - 1.0) if isinstance(loss, SmoothQuantile) else 1.0
        far *= min(1.0, GRADIENT_DESCENT.few_passes / plan.n_iter)
        ones = max(ones, GRADIENT_DESCENT.off_centre * size * far)
    if problem.intercept:
        scale[-1] = ones**-0.5
    mean_square_norm = size + (ones - 1.0) * problem.intercept
    largest = lipschitz_l2(loss)
    if clip == "auto":
        of_residuals = GRADIENT_DESCENT.residual_clip * target
        of_slopes = plan.slope_clip * largest
        # If a loss clips residuals far below their size, they are no longer than its slope.
        huber = isinstance(loss, Huber)
        of_residuals = min(of_residuals, of_slopes) if huber else of_residuals
        clip = plan.slack * (of_residuals if problem.has_residuals else of_slopes)
        clip = max(clip, least_clip(plan, loss))
    # Only records of a `Mixture` of quantiles whose weights have moved may exceed the second bound.
    most = largest * float(np.sqrt((scale**-2.0).sum())) * (1 + 2.0**-40)
    bound = min(clip * math.sqrt(mean_square_norm), most)
    return Coordinates(scale, bound, mean_square_norm, shrinkage, penalty, target)


def noisy_gradient(
    problem: Any,
    coordinates: Coordinates,
    X: MatrixLike,
    y: TargetLike,
    point: Any,
    grid: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Release the sum over records of clipped gradients, in ``coordinates``."""
    w = unscaled(problem, coordinates, point) + problem.begin
    out = map_reduce(X, y, clipped_gradient_sum, problem.loss, w, *coordinates[:2])
    gaussian_mechanism(rng, out, grid)
    if isinstance(problem.loss, SOFTMAX):
        # Derivatives in the predictions of all classes sum to 0: any other part is noise.
        classes = out.reshape(problem.loss.n_outputs, -1)
        classes -= classes.mean(axis=0)
    return out


def unscaled(problem: CompositeProblem, coordinates: Coordinates, point: np.ndarray) -> np.ndarray:
    """Coefficients for the point ``scale * w``."""
    return (point.reshape(problem.loss.n_outputs, -1) / coordinates.scale).ravel()


def stable_step(
    step: float,
    move: np.ndarray,
    change: np.ndarray,
    noise: float,
    bend: np.ndarray | None = None,
) -> float:
    """``step``, or less if gradients that change by ``change`` along ``move`` require it.

    ``bend`` is the metric's product with ``move``, or None for the metric of the coordinates.
    """
    size = math.sqrt(move @ move)
    if not size > 0.0:
        return step
    along = move / size
    doubt = GRADIENT_DESCENT.sure * math.sqrt(2.0) * noise
    curvature = (float(change @ along) - doubt) / float(along @ (move if bend is None else bend))
    return min(step, 1.0 / curvature) if curvature > 0.0 else step
