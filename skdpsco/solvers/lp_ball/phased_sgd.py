"""Private stochastic gradient descent in phases. Proof: docs/proofs/phased_sgd.md."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import njit, reduction
from skdpsco._validation import LARGEST, SMALLEST, check_bound
from skdpsco.constraints.norms import UNIT
from skdpsco.constraints.sets import BALLS, conjugate, project
from skdpsco.data.record_stream import AHEAD, Row, fetch_row, one_pass, read_row, row_add, row_dot
from skdpsco.losses.kernels import bounded_derivatives
from skdpsco.losses.library import derivative, derivatives, lipschitz_norm, taken_on_trust
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import GaussianEvent
from skdpsco.solvers.base import Plan, Problem, Result


class PhaseRule(NamedTuple):
    """How phases differ, and the constants by which their number and step length are chosen.

    Parameters
    ----------
    ratio : float
        Length of the steps of a phase, relative to those of the next.
    tail : float
        Share of a phase's points that are averaged, the last ones. Its points are its start and
        those after each of its steps.
    variance : float
        Mean square of a gradient, relative to that of the longest.
    patience : int
        Largest number of steps from one projection to the next.
    drift : float, default=0.125
        How far steps may lead out of the ball between two projections, relative to its radius;
        chosen by hand.
    """

    ratio: float
    tail: float
    variance: float
    patience: int
    drift: float = 0.125

    def averaged(self, n_records: int) -> int:
        """Points of a phase that are averaged: of its start and those after each step."""
        return math.ceil(self.tail * (n_records + 1))

    def every(self, step: float) -> int:
        """Steps from one projection to the next, for steps of that length over the radius."""
        return max(1, int(min(self.patience, self.drift / max(step, SMALLEST))))


# "practical" was fitted on simulated data; "theorem" holds the constants of the bound.
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
        Of the smallest Euclidean ball around the set.
    inside : float
        Squared radius of the largest Euclidean ball inside of it, or -1 if squares are no good.
    bend : float
        Smoothness times radius over the Lipschitz constant ``slope * features``.
    sharpness : float
        Smoothness of the loss in its predictions over ``slope``, times 1 + the bound of targets.
    rounding : float
        Units of rounding by which the projection may be off, relative to its argument.
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
        """Of the mean of the points of a phase, over the radius, rounding included.

        ``step`` is a step's length over the radius, for the longest gradient.
        """
        norm = farthest(step, every)
        error = step * (self.bend * (self.n_features + 8) * norm + 8.0 * self.sharpness)
        error += step * (self.n_outputs + 260) + norm
        projections = n_records // every * self.rounding
        return 2.0 * step * (1.0 + 2.0**-40) + 2.02 * UNIT * (
            n_records * error + (projections + n_averaged + 2) * norm
        )


class SGDPhase(NamedTuple):
    """Steps, the mean of the last points, and noise.

    Parameters
    ----------
    n_records, n_averaged : int
    step : float
    grid : float
    every : int
        Steps from one projection to the next.
    """

    n_records: int
    n_averaged: int
    step: float
    grid: float
    every: int


class SGDSteps(NamedTuple):
    """How `sgd_pass` moves.

    Parameters
    ----------
    step : float
    slope : float
        Bound that derivatives are clipped to.
    inside : float
        A point whose squared norm is at most this need not be projected.
    every : int
        Steps from one projection to the next.
    first : int
        Points after this step and later ones are added up.
    due : int
        Steps up to the first projection.
    """

    step: float
    slope: float
    inside: float
    every: int
    first: int
    due: int


class SGDRoom(NamedTuple):
    """The point, the sum of points, and room for predictions and derivatives.

    Parameters
    ----------
    w, total : ndarray of shape (n_coefficients,)
    Z, G : ndarray of shape (1, n_outputs)
    """

    w: np.ndarray
    total: np.ndarray
    Z: np.ndarray
    G: np.ndarray


@dataclass(frozen=True)
class PhasedSGDPlan(Plan):
    """The phases, and what gradients are clipped to."""

    bounds: EuclideanBounds | None = None
    phases: tuple[SGDPhase, ...] = ()


class PhasedSGD:
    """Stochastic gradient descent in phases of fresh records, for smooth losses over lp balls.

    One pass with one step per record. A phase has half the records of the one before, and shorter
    steps. It releases the mean of its points with Gaussian noise, and the next one starts there.
    No gradient gets noise: a record moves one step, and no later step carries that any further.

    Any order of the ball is private. The rate is that of the Euclidean ball around it, which for
    p >= 2 is optimal.

    Parameters
    ----------
    schedule : {"practical", "theorem"}, default="practical"
        "theorem" averages all points of a phase, divides steps by 4 from phase to phase and
        projects after each, as the bound on the excess risk asks for. "practical" averages the
        last twentieth, divides by 2.5, projects after up to 64 steps, and reckons with gradients
        of typical length: on simulated data its error is about half of the other's.
    shuffle : bool, default=True
        Take the records of arrays in a random order. False: as they stand, which is as private.

    References
    ----------
    V. Feldman, T. Koren, K. Talwar. Private Stochastic Convex Optimization: Optimal Rates in Linear
    Time. STOC 2020, Algorithm 2.
    R. Bassily, C. Guzmán, A. Nandi. Non-Euclidean Differentially Private Stochastic Convex
    Optimization. COLT 2021, Section 7: p > 2.
    """

    requires = {"loss": ((derivative, derivatives),), "constraint": ((project,),)}
    streams = fixed_cost = True

    def __init__(self, schedule: str = "practical", shuffle: bool = True):
        if schedule not in tuple(PHASE_RULES):
            raise ValueError(f"schedule must be one of {tuple(PHASE_RULES)}, got {schedule!r}.")
        if not isinstance(shuffle, bool):
            raise TypeError(f"shuffle must be a bool, got {shuffle!r}.")
        self.schedule, self.shuffle = schedule, shuffle

    def check(self, problem: Problem) -> None:
        """Refuse a loss that is not smooth and a set that is not an lp ball.

        Raises
        ------
        TypeError, ValueError
        """
        if type(problem.constraint) not in BALLS:  # whose projections bring no two points apart
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
            constant, or the noise would be too large for the grid; and what `check` raises.
        """
        self.check(problem)
        n, bounds, rule = problem.n_samples, euclidean_bounds(problem), PHASE_RULES[self.schedule]
        mu, most = budget.mu, n.bit_length()
        if n_iter is not None and not 1 <= n_iter <= most:
            raise ValueError(
                f"n_iter must be in [1, {most}], as every phase has half as many records as the "
                f"one before and there are {n}; got {n_iter}."
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

    def run(self, plan: PhasedSGDPlan, problem: Problem, X, y, rng, progress) -> Result:
        """Follow ``plan`` on the data."""
        bounds = plan.bounds
        assert bounds is not None
        records = one_pass(X, y, rng, self.shuffle)
        w, n_gradients, row = np.zeros(problem.n_coefficients), 0, None
        Z, G = np.empty((2, 1, bounds.n_outputs))
        for phase in plan.phases:
            done, first = 0, phase.n_records - phase.n_averaged
            # -1: the start of the phase is averaged, too.
            total, moving = w.copy() if first < 0 else np.zeros_like(w), w.copy()
            room = SGDRoom(moving, total, Z, G)
            for chunk in records.take(phase.n_records):
                row = row or Row(chunk[0], problem.row_norm)
                due = phase.every - done % phase.every
                steps = SGDSteps(
                    phase.step, bounds.slope, bounds.inside, phase.every, first - done, due
                )
                sgd_pass(chunk, row.arguments, problem.loss, problem.constraint, steps, room)
                done += len(chunk[2])
            n_gradients += done
            w = total / phase.n_averaged
            release_point(rng, w, phase.grid, problem.constraint)
            # Where noise was huge, a projection's rounding is not small to the radius. No longer.
            w *= min(1.0, bounds.radius / (float(np.linalg.norm(w)) or bounds.radius))
            progress[0] += 1
        return Result(w, plan.n_iter, n_gradients=n_gradients)


def euclidean_bounds(problem: Problem) -> EuclideanBounds:
    """Public constants of ``problem``.

    Raises
    ------
    ValueError
    """
    loss, p, radius = problem.loss, problem.constraint.p, problem.constraint.radius
    D, features = problem.n_coefficients, problem.feature_norm(2.0)
    outer = radius * D ** max(0.0, 0.5 - 1.0 / p)
    # Less than the radius inside: whoever's computed norm is at most that is in the ball.
    inner = radius * D ** min(0.0, 0.5 - 1.0 / p) * (1.0 - (D + 64) * UNIT)
    exact = {2.0: D / 2 + 13, math.inf: 0.0}  # these projections are one scale, and comparisons
    slope = lipschitz_norm(loss, 2.0)
    if loss.n_outputs == 1:
        prediction = min(problem.feature_norm(conjugate(p)) * radius, features * outer)
        slope = min(slope, loss.lipschitz(prediction, problem.target_bound))
    least = max(SMALLEST, 1e-300 * (outer / features))  # with less, steps would overflow
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
    """Bound on the norms of all points, over the radius."""
    return 1.01 * (1.0 + every * step)


def sizes(n: int, n_phases: int) -> list[int]:
    """Records of every phase: half, a quarter, ... of all, and the last one takes the rest."""
    given = [n >> i for i in range(1, n_phases)]
    return [*given, n - sum(given)]


def steps(rule: PhaseRule, n_phases: int) -> list[float]:
    """The steps of every phase over those of the first."""
    return [rule.ratio**-i for i in range(n_phases)]


def excess_of_phases(
    bounds: EuclideanBounds, rule: PhaseRule, mu: float, n: int, n_phases: int
) -> tuple[float, float, int]:
    """Bound on the excess risk, over Lipschitz constant and radius; its first step; ``n_phases``.

    The bound is that of the theorem, with what ``rule`` puts in place of worst cases.
    """
    size, relative = sizes(n, n_phases), steps(rule, n_phases)
    start, drift = 0.5 / size[0], 0.5 * rule.variance * sum(relative)

    def wrong(noise: list[float], step: float) -> float:
        """What noise costs: starts of the next phases that are off, and the result."""
        given = zip(noise[:-1], relative[1:], size[1:], strict=True)
        squares = sum(s**2 / (2.0 * step * r * m) for s, r, m in given)
        return bounds.n_coefficients * squares + math.sqrt(bounds.n_coefficients) * noise[-1]

    # Without rounding noise is proportional to steps, so that the best step is a formula.
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
def sgd_pass(chunk, row, loss, constraint, steps, room):
    """Take one step for each record of a chunk, and add up points.

    Parameters
    ----------
    chunk : tuple of (X, y, rows)
    row : tuple
        The arguments of `read_row`.
    loss : loss
    constraint : ball
    steps : SGDSteps
    room : SGDRoom
    """
    X, y, rows = chunk
    inverse, row_norm, columns, values = row
    step, slope, inside, every, first, due = steps
    w, total, Z, G = room
    D, K = columns.shape[0], Z.shape[1]
    for t in range(rows.shape[0]):
        i = rows[t]
        if t + AHEAD < rows.shape[0]:
            fetch_row(X, rows[t + AHEAD])
        size = read_row(X, i, inverse, row_norm, columns, values)
        for k in range(K):
            Z[0, k] = row_dot(X, columns, values, size, w, k * D)
        bounded_derivatives(loss, Z, y[i : i + 1], slope, slope, G)
        for k in range(K):
            row_add(X, columns, values, size, -step * G[0, k], w, k * D)
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
    """Add noise to ``w`` and project it, in place."""
    gaussian_mechanism(rng, w, grid)
    project(constraint, w)
