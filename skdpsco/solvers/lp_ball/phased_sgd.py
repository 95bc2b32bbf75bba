"""Private stochastic gradient descent in phases. Proof: docs/proofs/phased_sgd.md."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._kernels import njit, reduction
from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import LARGEST, SMALLEST, check_bool, check_bound, check_choice
from skdpsco.constraints.norms import UNIT
from skdpsco.constraints.sets import BALLS, project
from skdpsco.data.record_stream import add_row, fetch_row, one_pass, predict_row, read_row, row_room
from skdpsco.losses.kernels import bounded_derivatives
from skdpsco.losses.library import for_kernels, lipschitz_norm, taken_on_trust
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import GaussianEvent
from skdpsco.solvers.base import DERIVATIVES, Plan, Result, prediction_reach
from skdpsco.solvers.lp_ball.noisy_step import euclidean_radius

__all__ = ["PhasedSGD"]


class PhaseRule(NamedTuple):
    """How phases differ, and the constants that decide their number and step lengths.

    Parameters
    ----------
    ratio : float
        Step length of a phase relative to that of the next phase.
    tail : float
        The last share of a phase's points that are averaged. The points are the start of the phase
        and those after each of its steps.
    variance : float
        Mean squared norm of a gradient relative to the largest.
    patience : int
        Largest number of steps between two projections.
    drift : float, default=0.125
        How far steps may leave the ball between two projections, relative to its radius; chosen by
        hand.
    """

    ratio: float
    tail: float
    variance: float
    patience: int
    drift: float = 0.125

    def averaged(self, n_records: int) -> int:
        """Number of points of a phase that are averaged, of its start and those after each step."""
        return math.ceil(self.tail * (n_records + 1))

    def every(self, step: float) -> int:
        """Steps between two projections, for a step length relative to the radius."""
        return max(1, int(min(self.patience, self.drift / max(step, SMALLEST))))


# "practical" was fitted on simulated data; "theorem" holds the constants of the bound. See
# docs/proofs/phased_sgd.md, section 4.
PHASE_RULES = {
    "practical": PhaseRule(ratio=2.5, tail=0.05, variance=0.3, patience=64),
    "theorem": PhaseRule(ratio=4.0, tail=1.0, variance=1.0, patience=1),
}


class EuclideanBounds(NamedTuple):
    """Public constants of a problem. Lengths are l2 norms.

    Parameters
    ----------
    slope : float
        Bound on the gradient of a record's loss in its predictions.
    features : float
        Bound on the norm of a record.
    radius : float
        Radius of the smallest Euclidean ball around the set.
    inside : float
        Squared radius of the largest Euclidean ball inside the set, or -1 if squares may underflow
        or overflow.
    bend : float
        Smoothness times radius over the Lipschitz constant ``slope * features``.
    sharpness : float
        Smoothness of the loss in its predictions over ``slope``, times 1 + the bound on targets.
    rounding : float
        Rounding error of the projection relative to its argument, in units of rounding.
    n_features, n_outputs, n_coefficients : int
    """

    slope: float
    features: float
    radius: float
    inside: float
    bend: float
    sharpness: float
    rounding: float
    n_features: int
    n_outputs: int
    n_coefficients: int

    def sensitivity(self, n_records: int, n_averaged: int, step: float, every: int) -> float:
        """Sensitivity of the mean of a phase's points over the radius, including rounding.

        ``step`` is the length of a step along the longest gradient, over the radius.
        """
        norm = farthest(step, every)
        error = step * (self.bend * (self.n_features + 8) * norm + 8.0 * self.sharpness)
        error += step * (self.n_outputs + 260) + norm
        projections = n_records // every * self.rounding
        return 2.0 * step * (1.0 + 2.0**-40) + 2.02 * UNIT * (
            n_records * error + (projections + n_averaged + 2) * norm
        )


class SGDPhase(NamedTuple):
    """Steps, number of averaged points, and noise of one phase.

    Parameters
    ----------
    n_records, n_averaged : int
    step : float
    grid : float
    every : int
        Number of steps between two projections.
    """

    n_records: int
    n_averaged: int
    step: float
    grid: float
    every: int


class SGDSteps(NamedTuple):
    """The step length of `sgd_pass`, and when it projects and adds up points.

    Parameters
    ----------
    step : float
    slope : float
        Bound to which derivatives are clipped.
    inside : float
        A point whose squared norm is at most this need not be projected.
    every : int
        Number of steps between two projections.
    first : int
        Points are added up from this step on.
    due : int
        Number of steps before the first projection.
    """

    step: float
    slope: float
    inside: float
    every: int
    first: int
    due: int


@dataclass(frozen=True, kw_only=True)
class PhasedSGDPlan(Plan):
    """The phases, and the bound to which derivatives are clipped."""

    bounds: EuclideanBounds
    phases: tuple[SGDPhase, ...]


class PhasedSGD:
    """Stochastic gradient descent in phases of fresh records, for smooth losses over lp balls.

    It makes one pass, with one step per record. Each phase has half as many records as the previous
    one, and shorter steps. It releases the mean of its points with Gaussian noise, and the next
    phase starts there. Gradients need no noise: a record changes one step, and later steps do not
    enlarge this change.

    Balls of every order are supported. The rate is that of the Euclidean ball around the set, which
    is optimal for p >= 2.

    Parameters
    ----------
    schedule : {"practical", "theorem"}, default="practical"
        "theorem" averages all points of a phase, divides step lengths by 4 from phase to phase, and
        projects after each step, as the bound on the excess risk requires. "practical" averages the
        last twentieth, divides by 2.5, projects at least every 64 steps, and assumes gradients of
        typical length. On simulated data its error is about half of the other's.
    shuffle : bool, default=True
        Whether to take the records of arrays in a random order. False keeps their order, which is
        equally private.

    References
    ----------
    V. Feldman, T. Koren, K. Talwar. Private Stochastic Convex Optimization: Optimal Rates in Linear
    Time. STOC 2020, Algorithm 2.
    R. Bassily, C. Guzmán, A. Nandi. Non-Euclidean Differentially Private Stochastic Convex
    Optimization. COLT 2021, Section 7: p > 2.
    """

    requires: ClassVar[dict[str, Any]] = {"loss": DERIVATIVES, "constraint": ((project,),)}
    by_blocks = streams = fixed_cost = fills_range = True

    def __init__(self, schedule: str = "practical", shuffle: bool = True) -> None:
        self.schedule: str = check_choice("schedule", schedule, PHASE_RULES)
        self.shuffle: bool = check_bool("shuffle", shuffle)

    def check(self, problem: Problem) -> None:
        """Check that the loss is smooth and the set an lp ball of a supported order.

        Raises
        ------
        ValueError
            If the problem is of another kind.
        """
        if type(problem.constraint) not in BALLS:  # their projections never move points apart
            name = type(problem.constraint).__name__
            raise ValueError(f"PhasedSGD needs an lp ball as constraint, got {name}.")
        p = problem.constraint.p
        if p not in (1.0, math.inf) and not 2.0**-40 <= p - 1.0 <= 2.0**40:
            raise ValueError(
                f"p must be 1, inf or in [1 + 2**-40, 2**40] for PhasedSGD, got {p!r}: "
                "the rounding of other projections has no proven bound."
            )
        check_bound("radius", problem.constraint.radius)
        if not 0.0 <= problem.loss.smoothness() <= LARGEST:
            name = type(problem.loss).__name__
            raise ValueError(
                f"PhasedSGD needs a smooth loss, which {name} is not: "
                "use solver='phased-erm', or loss='smooth-hinge'."
            )

    def plan(self, problem: Problem, budget: Any, n_iter: int | None = None) -> PhasedSGDPlan:
        """Choose the phases by a bound on the excess risk, and calibrate their noise.

        Raises
        ------
        ValueError
            If ``n_iter`` phases need more records than there are, the loss has no Lipschitz
            constant, the noise would be too large for the grid, or `check` refuses the problem.
        """
        self.check(problem)
        n, bounds, rule = problem.n_samples, euclidean_bounds(problem), PHASE_RULES[self.schedule]
        mu, most = budget.mu, n.bit_length()
        if n_iter is not None and not 1 <= n_iter <= most:
            raise ValueError(
                f"n_iter must be in [1, {most}], since there are {n} records and every phase has "
                f"half as many as the one before; got {n_iter}."
            )
        tries = range(1, most + 1) if n_iter is None else [n_iter]
        _, step, k = min(excess_of_phases(bounds, rule, mu, n, k) for k in tries)
        phases = []
        for size, relative in zip(sizes(n, k), steps(rule, k), strict=True):
            averaged, length = rule.averaged(size), step * relative
            every = rule.every(length)
            sensitivity = bounds.sensitivity(size, averaged, length, every)
            grid = gaussian_grid(
                sensitivity * bounds.radius, 1.0 / mu, bounds.n_coefficients,
                farthest(length, every) * bounds.radius,
            )  # fmt: skip
            gradient = bounds.slope * bounds.features
            phases.append(SGDPhase(size, averaged, length * bounds.radius / gradient, grid, every))
        return PhasedSGDPlan(
            event=GaussianEvent(1.0 / mu),
            n_iter=k,
            summary=(f"{k} phases, the first of {phases[0].n_records} records",),
            assumptions=taken_on_trust(problem.loss),
            bounds=bounds,
            phases=tuple(phases),
        )

    def run(
        self,
        plan: PhasedSGDPlan,
        problem: Problem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        bounds, loss = plan.bounds, for_kernels(problem.loss)
        records = one_pass(X, y, rng, self.shuffle)
        w, n_gradients = np.zeros(problem.n_coefficients), 0
        for phase in plan.phases:
            done, first = 0, phase.n_records - phase.n_averaged
            # -1: the start of the phase is averaged, too.
            total, moving = w.copy() if first < 0 else np.zeros_like(w), w.copy()
            for chunk in records.take(phase.n_records):
                due = phase.every - done % phase.every
                steps = SGDSteps(
                    phase.step, bounds.slope, bounds.inside, phase.every, first - done, due
                )
                sgd_pass(chunk, problem.row_norm, loss, problem.constraint, steps, moving, total)
                done += len(chunk[2])
            n_gradients += done
            w = total / phase.n_averaged
            release_point(rng, w, phase.grid, problem.constraint)
            # After huge noise the projection's rounding error may exceed the radius.
            w *= min(1.0, bounds.radius / (float(np.linalg.norm(w)) or bounds.radius))
            progress[0] += 1
        return Result(w, plan.n_iter, n_gradients=n_gradients)


def euclidean_bounds(problem: Problem) -> EuclideanBounds:
    """Public constants of ``problem``.

    Raises
    ------
    ValueError
        If the loss's Lipschitz constant is infinite, or too large or too small.
    """
    loss, p, radius = problem.loss, problem.constraint.p, problem.constraint.radius
    D, features = problem.n_coefficients, problem.feature_norm(2.0)
    outer = euclidean_radius(problem)
    # A little less than the radius: points whose computed norm is at most this are in the ball.
    inner = radius * D ** min(0.0, 0.5 - 1.0 / p) * (1.0 - (D + 64) * UNIT)
    exact = {2.0: D / 2 + 13, math.inf: 0.0}  # these projections only scale, or only compare
    slope = lipschitz_norm(loss, 2.0)
    if loss.n_outputs == 1:
        prediction = min(prediction_reach(problem), features * outer)
        slope = min(slope, loss.lipschitz(prediction, problem.target_bound))
    least = max(SMALLEST, 1e-300 * (outer / features))  # a smaller bound would make steps overflow
    if not least <= slope <= LARGEST:
        raise ValueError(
            f"The Lipschitz constant of {type(loss).__name__} must be in "
            f"[{least:g}, {LARGEST:g}], got {slope!r}."
        )
    return EuclideanBounds(
        slope=slope,
        features=features,
        radius=outer * (1.0 + 2.0**-40),
        inside=inner * inner if 1e-130 < inner < 1e130 else -1.0,
        bend=loss.smoothness() * features * outer / slope * (1.0 + 2.0**-40),
        sharpness=loss.smoothness() / slope * (1.0 + problem.target_bound),
        rounding=exact[p] if p in exact else problem.constraint.projection_error(D) / UNIT,
        n_features=problem.n_features,
        n_outputs=loss.n_outputs,
        n_coefficients=D,
    )


def farthest(step: float, every: int) -> float:
    """Bound on the norms of all points, relative to the radius."""
    return 1.01 * (1.0 + every * step)


def sizes(n: int, n_phases: int) -> list[int]:
    """Number of records of every phase: half, a quarter, ...; the last phase takes the rest."""
    given = [n >> i for i in range(1, n_phases)]
    return [*given, n - sum(given)]


def steps(rule: PhaseRule, n_phases: int) -> list[float]:
    """The step lengths of all phases relative to the first."""
    return [rule.ratio**-i for i in range(n_phases)]


def excess_of_phases(
    bounds: EuclideanBounds, rule: PhaseRule, mu: float, n: int, n_phases: int
) -> tuple[float, float, int]:
    """Bound on the excess risk over Lipschitz constant and radius, first step, and ``n_phases``.

    The bound is that of the theorem, with the constants of ``rule`` in place of worst cases.
    """
    size, relative = sizes(n, n_phases), steps(rule, n_phases)
    start, drift = 0.5 / size[0], 0.5 * rule.variance * sum(relative)

    def wrong(noise: list[float], step: float) -> float:
        """Error due to noise: in the starts of the next phases, and in the result."""
        given = zip(noise[:-1], relative[1:], size[1:], strict=True)
        squares = sum(s**2 / (2.0 * step * r * m) for s, r, m in given)
        return bounds.n_coefficients * squares + math.sqrt(bounds.n_coefficients) * noise[-1]

    # Without rounding, noise is proportional to step lengths, and the best step has a formula.
    step = math.sqrt(start / (drift + wrong([2.0 * r / mu for r in relative], 1.0)))
    if bounds.bend > 0.0:
        step = min(step, 2.0 / bounds.bend * (1.0 - 2.0**-40))
    averaged = [rule.averaged(m) for m in size]
    noise = [
        bounds.sensitivity(m, tail, step * r, rule.every(step * r)) / mu
        for m, tail, r in zip(size, averaged, relative, strict=True)
    ]
    return start / step + drift * step + wrong(noise, step), step, n_phases


@reduction
def squared_norm(w):
    """Sum of the squares of ``w``."""
    total = 0.0
    for j in range(w.shape[0]):
        total += w[j] * w[j]
    return total


@njit
def sgd_pass(chunk, row_norm, loss, constraint, steps, w, total):
    """Take one step for each record of a chunk, and add up the points.

    Parameters
    ----------
    chunk : tuple of (X, y, rows)
    row_norm : float
        Longer rows are shortened to this l2 norm.
    loss : loss
    constraint : ball
    steps : SGDSteps
    w, total : ndarray of shape (n_coefficients,)
        The point, and the sum of points.
    """
    X, y, rows = chunk
    inverse, row_norm, columns, values = row_room(X, row_norm)
    step, slope, inside, every, first, due = steps
    Z, G = np.empty((2, 1, w.shape[0] // columns.shape[0]))
    for t in range(rows.shape[0]):
        fetch_row(X, rows, t)
        i = rows[t]
        size = read_row(X, i, inverse, row_norm, columns, values)
        predict_row(X, columns, values, size, w, Z)
        bounded_derivatives(loss, Z, y[i : i + 1], slope, slope, G)
        add_row(X, columns, values, size, -step, G, w)
        due -= 1
        if due == 0:
            due = every
            if not squared_norm(w) <= inside:
                project(constraint, w)
        if t >= first:
            for j in range(w.shape[0]):
                total[j] += w[j]


@njit
def release_point(rng, w, grid, constraint):
    """Add noise to ``w`` and project the result, in place."""
    gaussian_mechanism(rng, w, grid)
    project(constraint, w)
