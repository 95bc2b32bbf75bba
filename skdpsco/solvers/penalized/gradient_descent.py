"""Private proximal gradient descent. Proof: docs/proofs/gradient_descent.md."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import check_bool, check_bound
from skdpsco.data.pieces import one_record
from skdpsco.data.record_sums import in_pieces, map_reduce
from skdpsco.losses.library import lipschitz_l2, unweighted
from skdpsco.losses.traits import traits_of, usual_curvature
from skdpsco.mechanisms.samplers import deviation_on, gaussian_grid, gaussian_mechanism
from skdpsco.penalties import prox
from skdpsco.privacy import GaussianEvent, RepeatedEvent, compose
from skdpsco.privacy.spending import share_mu
from skdpsco.scaling.column_scales import NOTHING, ScalePlan, plan_scales, release_scales
from skdpsco.solvers.base import DERIVATIVES, Plan, Result, check_bound_on, check_derivatives
from skdpsco.solvers.gradient_sums import clipped_gradient_sum
from skdpsco.solvers.penalized.metric import METRIC, metric_grid, metric_pays, release_metric
from skdpsco.solvers.penalized.problem import CompositeProblem
from skdpsco.solvers.penalized.shrinkage import (
    Descended,
    GradientSteps,
    excess,
    prior_sizes,
    set_length,
)

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
        Number of worthwhile passes above which more than ``passes`` are made.
    plenty : float
        n mu per feature above which clipping norms of slopes, and the number of passes over
        samples, grow.
    residual_plenty : float
        n mu per feature above which clipping norms of residuals grow with its root, since large
        residuals are part of a mean.
    residual_growth : float
        Largest factor of this growth.
    counted : float
        n mu per feature above which a count of 1 is not clipped; before, a part of it in
        proportion. Where most counts are 0, it is the others that tell the mean.
    max_passes : int
        Largest number of passes; chosen by hand, for time.
    length : float
        Length of a step, relative to the one from smoothness and the mean squared norm.
    first : float
        Least length of the first step, relative to the one from smoothness and the root of it.
    along : float
        Largest length of steps, relative to one to the minimum along the first gradient.
    off_centre : float
        Square of the column of ones for quantiles near 0 or 1, in mean squared norms.
    few_passes : float
        Number of passes up to which it is used; in so few, shorter steps would not reach such
        quantiles.
    sure : float
        Standard deviations by which a curvature must exceed its noise to shorten the steps.
    tail : float
        Share of the passes whose points are averaged.
    residual_clip, slope_clip : float
        Clipping norms over the root of the number of features: in root mean squares of the targets
        if derivatives are residuals, otherwise in Lipschitz constants.
    class_noise, class_fewest : float
        ``noise`` and ``fewest`` of softmax regression, whose derivatives are shorter and less
        curved, relative to their bounds. Fitted on four tables with 3 to 10 classes.
    class_slope_clip : float
        ``slope_clip`` of losses for labels. It grows to ``slope_clip`` before norms of slopes do.
    """

    noise: float = 6.0
    fewest: float = 4.0
    passes: float = 50.0
    sampled_noise: float = 8.0
    many: float = 200.0
    plenty: float = 3000.0
    residual_plenty: float = 80.0
    residual_growth: float = 5.0
    counted: float = 25.0
    max_passes: int = 5000
    length: float = 2.0
    first: float = 0.5
    along: float = 0.35
    off_centre: float = 0.5
    few_passes: float = 8.0
    sure: float = 3.0
    tail: float = 0.25
    residual_clip: float = 0.75
    slope_clip: float = 0.8
    class_noise: float = 4.0
    class_fewest: float = 6.0
    class_slope_clip: float = 0.6


GRADIENT_DESCENT = GradientDescentTuning()


@dataclass(frozen=True)
class GradientDescentPlan(Plan):
    """Scales of the columns, and the noise of every step.

    Parameters
    ----------
    scales : ScalePlan
    preconditioned : bool
        Whether the scales of the columns are used.
    grid : float
        Grid of a sum of gradients with norms of at most 1; it scales with the clipping norm.
    slack : float
        Factor of the automatic clipping norm, which grows if the noise is small.
    slope_clip : float
        Automatic clipping norm of slopes; see `GradientDescentTuning`.
    metric_grid : float or None
        Grid of second moments of rows with norms of at most 1, whose metric steps are taken in;
        None if columns are only scaled.
    counted : float
        Share of the derivative of a count of 1 that automatic clipping norms are not below.
    kept : float
        What clipping is expected to leave of a mean gradient, with which the penalty is multiplied.
    """

    scales: ScalePlan = NOTHING
    preconditioned: bool = True
    grid: float = 0.0
    slack: float = 1.0
    slope_clip: float = GRADIENT_DESCENT.slope_clip
    metric_grid: float | None = None
    counted: float = 0.0
    kept: float = 1.0

    @property
    def clips_gradients(self) -> bool:
        """Whether steps are preconditioned; see `Plan`."""
        return self.preconditioned

    @property
    def only_gradients(self) -> bool:
        """Whether no mean squares of columns are measured; see `Plan`."""
        return self.scales.columns == 0

    def coefficient_noise(self, problem: CompositeProblem) -> float | None:
        """Deviation of a coefficient if the mean of the last noisy gradients is 0.

        It is in units of the targets' root mean square, for columns of mean square 1. It is None
        unless the clipping norm follows from the targets, whose means are predicted.
        """
        if not self.scales.target or not traits_of(problem.loss).squared:
            return None
        norm = self.slack * GRADIENT_DESCENT.residual_clip * math.sqrt(problem.n_features)
        averaged = self.averaged_passes
        noise = deviation_on(self.grid) * norm / problem.n_samples / math.sqrt(averaged)
        return noise / self.kept  # what clipping takes off a gradient lengthens it

    @property
    def averaged_passes(self) -> int:
        """Number of the last passes whose points and gradients are averaged."""
        if self.metric_grid is not None:
            return self.n_iter - self.n_iter // 4 - 1
        return max(1, round(GRADIENT_DESCENT.tail * self.n_iter))


class Coordinates(NamedTuple):
    """The released coordinates ``scale * w`` in which steps are taken.

    Parameters
    ----------
    scale : ndarray of shape (n_features,)
    clip : float
        Bound on the l2 norm of a record's gradient.
    mean_square_norm : float
        Mean squared norm of the records in these coordinates.
    penalty : float
        Mean of the penalty's curvatures.
    target : float
        Root mean square of the targets, or a bound.
    """

    scale: np.ndarray
    clip: float
    mean_square_norm: float
    penalty: float = 0.0
    target: float = 1.0


class GradientDescent:
    """Proximal gradient descent with momentum, clipped gradients and Gaussian noise.

    Every pass sums the records' gradients, each clipped to an l2 norm, adds noise, and takes a
    proximal step. If noise is small, second moments of conditioned features are released as well,
    and a few steps in their metric replace many. Passes, steps and norms follow from public numbers
    and from what was released.

    Parameters
    ----------
    clip : "auto" or float, default="auto"
        The clipping norm over the square root of the number of features, which is about the largest
        derivative of a typical record. "auto" follows the targets and the noise.
    preconditioned : bool, default=True
        Whether columns are divided by their root mean squares, whose measurement costs a tenth of
        the budget unless they are known.
    shrunk : bool, "auto" or "each", default="auto"
        Whether coefficients are shrunk by as much as noise has lengthened them. "auto" does so if
        targets are numbers, the fit begins at a model, or sizes of features are those of a prior;
        "each" has a factor for every coefficient.

    References
    ----------
    Bassily, Smith, Thakurta. Private Empirical Risk Minimization: Efficient Algorithms and Tight
    Error Bounds. FOCS 2014. (Full batches with momentum instead of single records.)
    """

    requires: ClassVar[dict[str, Any]] = {"loss": DERIVATIVES, "penalty": ((prox,),)}
    by_blocks = fixed_cost = fixed_plan = clips_gradients = for_added = reads_centred = True
    conditioned = True
    in_metric: ClassVar[bool] = True  # whether steps may be taken in a metric of second moments

    def __init__(
        self, clip: float | str = "auto", preconditioned: bool = True, shrunk: bool | str = "auto"
    ) -> None:
        self.clip = clip if clip == "auto" else check_bound("clip", clip)
        self.preconditioned: bool = check_bool("preconditioned", preconditioned)
        self.shrunk = shrunk if shrunk in ("auto", "each") else check_bool("shrunk", shrunk)

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
        n_passes = n_iter or full_passes(problem, mu, self.counted(problem))
        useful = n_iter is None and n_passes >= GRADIENT_DESCENT.passes
        metric = useful and self.in_metric and self.preconditioned and metric_pays(problem, mu)
        n_passes = round(METRIC.passes * n_passes) if metric else n_passes
        scales, mu_steps = share_scales(self, problem, mu)
        ratio = plenty(problem, budget)
        slack = clip_growth(problem, ratio)
        multipliers, first = share_mu(mu_steps, {"metric": (METRIC.share, 1)} if metric else {})
        multiplier = math.sqrt(n_passes / (1.0 - METRIC.share * metric)) / mu_steps
        event = RepeatedEvent(GaussianEvent(multiplier), n_passes)
        return GradientDescentPlan(
            event=compose(scales.event, first, event),
            n_iter=n_passes,
            scales=scales,
            preconditioned=self.preconditioned,
            grid=gradient_grid(problem, multiplier, 1.0 if problem.added else 2.0),
            slack=slack,
            slope_clip=slope_clip_of(problem, ratio),
            kept=self.kept_part(problem, slack),
            counted=min(ratio * GRADIENT_DESCENT.plenty / GRADIENT_DESCENT.counted, 1.0),
            metric_grid=metric_grid(problem, multipliers["metric"]) if metric else None,
        )

    def has_prior(self, problem: CompositeProblem) -> bool:
        """Whether sizes of features are those of a prior."""
        return not self.preconditioned and problem.mean_square is not None

    def counted(self, problem: CompositeProblem) -> float:
        """Number of features; where their sizes are those of a prior, small ones count less.

        A fit is planned once, for the sizes before any release.
        """
        if not self.has_prior(problem):
            return problem.n_features
        return float(prior_sizes(problem).sum()) + problem.intercept

    def shrinks(self, problem: CompositeProblem) -> bool:
        """Whether the length of the coefficients is corrected."""
        if self.shrunk != "auto":
            return bool(self.shrunk)
        numbers = traits_of(problem.loss).targets == "numbers"
        return numbers or bool(problem.start) or self.has_prior(problem)

    def kept_part(self, problem: CompositeProblem, slack: float) -> float:
        """The mean slope of clipped residuals, for normal ones; 1 for other losses."""
        if self.clip != "auto" or not traits_of(problem.loss).squared:
            return 1.0
        return math.erf(slack * GRADIENT_DESCENT.residual_clip / math.sqrt(2.0))

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

    def restrained(
        self, problem: CompositeProblem, coordinates: Coordinates, u: np.ndarray
    ) -> np.ndarray:
        """Where a step ends that leads to ``u``; subclasses keep it in a set."""
        return u

    def before_pass(
        self,
        t: int,
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
        step = first_length(plan, problem, trace)
        largest_momentum = max(0.9, 1.0 - 5.0 / T)
        point = np.zeros(problem.n_coefficients)  # where the gradient is taken
        last, last_gradient, first, old = point, point, point, point
        sums = np.zeros((2, len(point)))
        age, n_averaged = 0, plan.averaged_passes
        taken, noise = np.zeros((3, T)), 0.0
        # Clipped gradients are a part of whole ones, beside which the penalty would be too large.
        problem = given = replace(problem, weight=problem.weight * plan.kept)
        model = release_metric(plan.metric_grid, problem, (coordinates.scale, trace), X, y, rng)
        for t in range(T):
            weight = problem.mean_weight
            problem, (X, y) = self.before_pass(t, problem, coordinates, (X, y), point, rng)
            step *= weight / problem.mean_weight
            grid = plan.grid * coordinates.clip
            gradient = noisy_gradient(problem, coordinates, X, y, point, grid, rng) / n
            if t > 0:  # noise is that of the gradient before
                move = point - last
                step = stable_step(step, move, gradient - last_gradient, noise, model.apply(move))
            noise = deviation_on(grid) / n  # standard deviation in every coordinate
            if t == 0:
                first = gradient
                if traits_of(problem.loss).quadratic and plan.metric_grid is None:
                    # Along b the curvature is at least b'b over b'inv(H)b, which is explained. With
                    # entries of b times weights of at most 1, it is at least the weighted b'b.
                    total = plan.kept * problem.mean_weight * coordinates.target**2
                    sizes: Any = 1.0
                    doubt = GRADIENT_DESCENT.sure
                    if self.has_prior(problem):  # it shrinks coefficients that are too long
                        doubt = 0.0
                        sizes = np.append(prior_sizes(problem), [1.0] * problem.intercept)
                        sizes = np.tile(sizes, problem.loss.n_outputs)
                    bent = excess(first, noise**2, doubt, sizes=sizes)
                    bent /= max(total, 1e-300)
                    step = min(step, GRADIENT_DESCENT.along / max(bent, 1e-300))
            last, last_gradient = point, gradient
            new = self.restrained(problem, coordinates, model.proximal_step(point, gradient, step))
            move = new - old
            size = math.sqrt(move @ move)
            backwards = model.apply(point - new) @ move > 2.0 * step * noise * size
            age = 0 if backwards else age + 1
            if t >= T - n_averaged:
                sums += point, gradient
            momentum = min(largest_momentum, age / (age + 3.0))
            taken[:, t] = step, momentum, noise
            point = new + momentum * move
            old = new
            progress[0] += 1
        mean_point, mean_gradient = sums / n_averaged
        u = model.proximal_step(mean_point, mean_gradient, step)
        u = self.restrained(problem, coordinates, u)
        if self.shrinks(problem):
            pull = model.apply(mean_point - u) / step - mean_gradient  # the pull of the penalty
            lengths, momenta, noises = taken
            penalty = coordinates.penalty * plan.kept
            steps = GradientSteps(lengths, momenta, noises, n_averaged, penalty)
            ridge = np.tile(model.ridge, problem.loss.n_outputs)
            ones = coordinates.scale[-1] ** -2.0
            found = Descended(u, pull, first, mean_point, mean_gradient, ridge, ones)
            # Secants are curvatures of quadratic losses, whose weights stay the same.
            searches = traits_of(problem.loss).squared and problem is given
            how = "each" if self.shrunk == "each" else "search" if searches else "common"
            how = "prior" if self.has_prior(problem) else how
            set_length(problem, found, coordinates.target, steps, how, plan.kept)
        return coordinates, u


def plenty(problem: CompositeProblem, budget: Any) -> float:
    """Records times mu per feature, relative to `PLENTY`; public."""
    outputs = math.sqrt(problem.loss.n_outputs)
    return problem.n_mu(budget.mu) / (problem.n_features * outputs * GRADIENT_DESCENT.plenty)


def clip_growth(problem: CompositeProblem, ratio: float) -> float:
    """Factor of an automatic clipping norm, above 1 where noise is small; ``ratio`` is `plenty`."""
    tuning, growth = GRADIENT_DESCENT, ratio**0.25
    if traits_of(problem.loss).residuals:  # norms of residuals grow where noise is not yet small
        soon = (ratio * tuning.plenty / tuning.residual_plenty) ** 0.5
        growth = max(growth, min(soon, tuning.residual_growth))
    return max(growth, 1.0)


def passes(ratio: float) -> int:
    """Number of passes over sampled batches, determined like `full_passes`."""
    tuning = GRADIENT_DESCENT
    few = max(ratio * tuning.plenty / tuning.sampled_noise, tuning.fewest)
    few = min(few, tuning.passes)
    return round(min(few * max(1.0, ratio) ** (1.0 / 3.0), tuning.max_passes))


def full_passes(problem: CompositeProblem, mu: float, n_features: float | None = None) -> int:
    """Number of full-batch passes that are worth their noise; few if there is much noise.

    All features count, unless ``n_features`` says how many do.
    """
    count = (n_features or problem.n_features) * problem.loss.n_outputs
    fewest = GRADIENT_DESCENT.fewest
    worth = problem.n_mu(mu) / math.sqrt(count) / GRADIENT_DESCENT.noise
    if traits_of(problem.loss).sums_to_zero:
        fewest = GRADIENT_DESCENT.class_fewest
        worth *= GRADIENT_DESCENT.noise / GRADIENT_DESCENT.class_noise
    most = GRADIENT_DESCENT.passes * max(worth / GRADIENT_DESCENT.many, 1.0) ** (1.0 / 3.0)
    return round(min(max(worth, fewest), most, GRADIENT_DESCENT.max_passes))


def slope_clip_of(problem: CompositeProblem, ratio: float) -> float:
    """Automatic clipping norm of slopes; ``ratio`` is `plenty`. See `GradientDescentTuning`."""
    most = GRADIENT_DESCENT.slope_clip
    if traits_of(problem.loss).targets == "numbers":
        return most
    return min(max(GRADIENT_DESCENT.class_slope_clip, most * ratio**0.25), most)


def first_length(plan: Any, problem: CompositeProblem, trace: float) -> float:
    """Length of the first step; the curvatures that show shorten later ones.

    ``trace`` is the sum of all curvatures, in units of the loss's. Of many independent columns,
    none has a large part of it.
    """
    loss = problem.loss
    # The curvature of a mean that is an exponential is hardly ever as large as its bound.
    likely = 2.0 * usual_curvature(loss) if traits_of(loss).exponential else loss.smoothness()
    smoothness = likely * problem.mean_weight
    if plan.metric_grid is not None:
        return METRIC.length / smoothness
    longer = GRADIENT_DESCENT.first / math.sqrt(trace) if problem.centred else 0.0
    return max(GRADIENT_DESCENT.length / trace, longer) / smoothness


def share_scales(solver: Any, problem: CompositeProblem, mu: float) -> tuple[ScalePlan, float]:
    """Plan the scales that ``solver`` needs; return the plan, and the mu that is left."""
    target = solver.clip == "auto" and traits_of(problem.loss).residuals
    slope = lipschitz_l2(problem.loss)
    if slope < math.inf or (solver.clip == "auto" and not target):
        check_derivatives(problem.loss, slope)
    else:
        check_bound_on("second derivative", problem.loss, problem.loss.smoothness())
    return plan_scales(problem, mu, target, solver.preconditioned)


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
    loss, traits, d = unweighted(problem.loss), traits_of(problem.loss), problem.n_features
    scale = np.ones(d)
    mean_square, target = release_scales(plan.scales, problem, X, y, rng)
    size: float = d  # mean squared norm of the records, with ones
    if plan.preconditioned and mean_square is not None:
        scale = np.sqrt(mean_square)
    elif problem.mean_square is not None:  # sizes of columns are those of a prior
        largest_square = max(problem.mean_square) or 1.0  # if all features are 0
        scale[: d - problem.intercept] = math.sqrt(largest_square)
        size = float(prior_sizes(problem).sum()) + problem.intercept
    penalty = float((problem.penalty_curvature / scale**2).sum()) / max(d - problem.intercept, 1)
    far = traits.off_centre * min(1.0, GRADIENT_DESCENT.few_passes / plan.n_iter)
    ones = max(GRADIENT_DESCENT.off_centre * size * far, 1.0)
    if problem.intercept:
        scale[-1] = ones**-0.5
    mean_square_norm = size + (ones - 1.0) * problem.intercept
    largest = lipschitz_l2(loss)
    if clip == "auto":
        of_residuals = GRADIENT_DESCENT.residual_clip * target
        of_slopes = plan.slope_clip * largest
        # If a loss clips residuals far below their size, they are no longer than its slope.
        of_residuals = min(of_residuals, of_slopes) if traits.robust else of_residuals
        clip = plan.slack * (of_residuals if traits.residuals else of_slopes)
        clip = max(clip, plan.counted * traits_of(loss).jump)
    # Only records of a `Mixture` of quantiles whose weights have moved may exceed the second bound.
    most = largest * float(np.sqrt((scale**-2.0).sum())) * (1 + 2.0**-40)
    bound = min(clip * math.sqrt(mean_square_norm), most)
    return Coordinates(scale, bound, mean_square_norm, penalty, target)


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
    if traits_of(problem.loss).sums_to_zero:
        # Derivatives in the predictions of all classes sum to 0: any other part is noise.
        classes = out.reshape(problem.loss.n_outputs, -1)
        classes -= classes.mean(axis=0)
    if problem.mean_square is not None:
        # Features that are 0 in all records have gradients of noise alone.
        features = out.reshape(problem.loss.n_outputs, -1)[:, : len(problem.mean_square)]
        features *= np.array(problem.mean_square) > 0.0
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
