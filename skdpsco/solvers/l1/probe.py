"""Whether one coordinate explains more than gradient steps in all would, of dense records.

Where gradients in all coordinates are mostly noise they do not tell whether few coordinates matter
or many. The exponential mechanism still finds one that stands out, and its slope is one number,
which costs little.
Proof: docs/proofs/stagewise.md.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.constraints.sets import L1Ball
from skdpsco.data.pieces import replace_one, row_squares
from skdpsco.data.record_sums import in_pieces, map_reduce
from skdpsco.losses.library import lipschitz_l2
from skdpsco.mechanisms.samplers import release
from skdpsco.privacy import Event, GaussianEvent, compose
from skdpsco.solvers.base import Allowance, Problem, check_cost
from skdpsco.solvers.l1.refit import sum_over
from skdpsco.solvers.l1.vertex_path import VertexPlan, plan_vertices, run_vertices
from skdpsco.solvers.penalized.gradient_descent import GRADIENT_DESCENT
from skdpsco.solvers.penalized.problem import unpenalised

__all__ = ["PROBE", "ProbePlan", "can_probe", "few_pay", "plan_probe"]


class ProbeTuning(NamedTuple):
    """Constants of the probe, fitted on the planted models of docs/proofs/stagewise.md.

    They have 1,500 records of 60 to 1,000 columns, independent ones or with common factors; all of
    the coefficients matter, or five, or they fall like a power. Slopes are for features with a mean
    square of 1.

    Parameters
    ----------
    columns : float
        Number of columns from which on choices of few are better than gradient steps in all
        although the latter explain something.
    labels, residuals : float
        The n mu per column from which on gradient steps in all columns predict better than a
        constant, for labels and for targets of a regression, if columns are independent.
    margin : float
        The n mu over the logarithm of the number of vertices at which the choice of a coordinate
        would have all of rho, if the largest slope of a record were the signal. Its share falls
        with the square, and is within ``choice``.
    choice : tuple of two floats
        Smallest and largest share of rho for the choice.
    certainty : float
        The n mu at which the numbers would have all of rho. Their share falls with the square, and
        is within ``numbers``.
    numbers : tuple of two floats
        Smallest and largest share of rho for the slope and the count of norms.
    clip : float
        Bound on derivatives of residuals for the choice, in typical ones.
    reach : float
        Bound on a record's slope along the coordinate, in typical derivatives.
    residual : float
        Root mean square of targets, as they are scaled.
    label_signal, residual_signal : float
        Norm of the gradient at 0 of a model that explains much, for labels and for targets of
        ``residual``.
    more : float
        The n mu over the logarithm of the number of vertices from which on the square of slopes
        that a path finds is larger than that of the probe, in proportion to it.
    certain : float
        Standard deviations by which a slope, or the share of unusual norms, must exceed its noise.
    unusual : float
        Distance of a record's squared norm from the usual one, relative to it, that is rare where
        columns are independent.
    alike : float
        Share of records at such a distance beyond which columns have common factors, so that all
        are fitted.
    """

    columns: float = 150.0
    labels: float = 0.5
    residuals: float = 1.0
    margin: float = 17.0
    choice: tuple[float, float] = (0.01, 0.1)
    certainty: float = 120.0
    numbers: tuple[float, float] = (0.01, 0.05)
    clip: float = 1.5
    reach: float = 2.5
    residual: float = 0.4
    label_signal: float = 0.3
    residual_signal: float = 0.28
    more: float = 35.0
    certain: float = 2.0
    unusual: float = 0.35
    alike: float = 0.12


PROBE = ProbeTuning()


@dataclass(frozen=True)
class ProbePlan:
    """What a probe releases, and what may follow it.

    Parameters
    ----------
    choice : VertexPlan or None
        The choice of one coordinate at 0; None if gradient steps in all coordinates explain hardly
        anything, unless columns have common factors.
    multiplier : float
        Noise multiplier of the numbers.
    typical : float
        Typical derivative of a record at 0.
    least : float
        The slope from which on a path is expected to explain more than gradient steps in all
        coordinates.
    few, many : StagewisePlan
        What follows if few coordinates matter, and if many do. Both spend what is left.
    """

    choice: VertexPlan | None
    multiplier: float
    typical: float
    least: float
    few: Any = field(default=None)
    many: Any = field(default=None)


def share_of(limits: tuple[float, float], x: float) -> float:
    """The share within ``limits`` that is closest to ``x``."""
    return min(max(x, limits[0]), limits[1])


def can_probe(problem: Problem) -> bool:
    """Whether a probe is defined, and there are columns enough to choose from; public.

    It is for one output and dense records of known mean squares. Where records are added, squares
    of norms would be rounded by where a row stands, which may move a count.
    """
    defined = problem.mean_square is not None and not (problem.sparse or problem.added)
    return defined and problem.loss.n_outputs == 1 and problem.n_features >= PROBE.columns


def plan_probe(problem: Problem, rho: float) -> tuple[ProbePlan, Event, Allowance]:
    """Plan a probe; also return its cost, and what is left for either branch."""
    n_mu = problem.n_mu(math.sqrt(2.0 * rho))
    if unpenalised(problem).has_residuals:
        typical, signal, enough = PROBE.residual, PROBE.residual_signal, PROBE.residuals
        clip = GRADIENT_DESCENT.residual_clip * PROBE.residual
    else:
        typical = problem.loss.lipschitz(0.0, problem.target_bound)
        signal, enough = PROBE.label_signal, PROBE.labels
        clip = GRADIENT_DESCENT.class_slope_clip * lipschitz_l2(problem.loss)
    numbers = share_of(PROBE.numbers, (PROBE.certainty / n_mu) ** 2)
    multiplier = 1.0 / math.sqrt(2.0 * numbers * rho)
    event: Event = GaussianEvent(multiplier)
    if n_mu < enough * problem.n_features:
        return ProbePlan(None, multiplier, typical, 0.0), event, Allowance(rho).minus(event)
    signal_to_noise = n_mu / math.log(2.0 * problem.n_coefficients)
    # Residuals are clipped to a smaller bound for targets.
    shorter = replace(problem, target_bound=min(problem.target_bound, PROBE.clip * typical))
    margin = PROBE.margin * shorter.loss.lipschitz(0.0, shorter.target_bound) / signal
    chosen = share_of(PROBE.choice, (margin / signal_to_noise) ** 2)
    choice = plan_vertices(shorter, L1Ball(1.0), np.ones(1), np.ones(2), chosen * rho)
    event = compose(choice.event, event)
    check_cost(event, Allowance((chosen + numbers) * rho))
    left = Allowance(rho).minus(event)
    # What gradient steps in all coordinates explain, and the slope with which a path explains more.
    noise = 2.0 * clip * problem.n_features / problem.n_mu(left.mu)
    explained = signal**4 / (signal**2 + noise**2)
    least = math.sqrt(explained * PROBE.more / signal_to_noise)
    return ProbePlan(choice, multiplier, typical, least), event, left


def few_pay(
    plan: ProbePlan,
    problem: Problem,
    X: MatrixLike,
    y: TargetLike,
    rng: np.random.Generator,
    progress: Any,
) -> bool:
    """Release a coordinate and two numbers; return whether ``plan.few`` should follow.

    Parameters
    ----------
    plan : ProbePlan
    problem, X, y, rng, progress
        As in `skdpsco.solvers.base.Solver.run`.
    """
    n, d = problem.n_samples, problem.n_features
    column = 0
    if plan.choice is not None:
        _, chosen, _ = run_vertices(plan.choice, problem, L1Ball(1.0), X, y, rng, progress)
        column = int(chosen[0]) % d
        if column >= d - problem.intercept:
            return False
    assert problem.mean_square is not None
    sizes = np.sqrt(np.array([*problem.mean_square, 1.0][:d]))
    reach = PROBE.reach * plan.typical
    largest = problem.loss.lipschitz(0.0, problem.target_bound)
    at_0 = np.arange(d), np.zeros((d, 1)), probed_sums, (column, sizes, reach)
    total = map_reduce(in_pieces(X, y), y, sum_over, problem.loss, largest, *at_0)
    bound = math.sqrt(2.0)
    sensitivity = replace_one(n, bound, math.sqrt(5.0))  # a slope moves by 2, a count by 1
    deviation = release(rng, total, sensitivity, plan.multiplier, bound * n) / n
    slope, unusual = total / n
    alike = unusual > max(PROBE.alike, PROBE.certain * deviation)
    if alike or plan.choice is None:
        return not alike
    return bool(abs(slope) * reach > math.hypot(plan.least, PROBE.certain * deviation * reach))


def probed_sums(
    A: np.ndarray, R: np.ndarray, v: np.ndarray, column: int, sizes: np.ndarray, reach: float
) -> np.ndarray:
    """Sum of slopes along a column, in units of ``reach``, and a count of unusual norms."""
    A = A / sizes
    along = np.clip(A[:, column] * R[:, 0] / reach, -1.0, 1.0)
    distance = np.abs(row_squares(A) / A.shape[1] - 1.0)
    return np.array([along.sum(), np.count_nonzero(distance > PROBE.unusual)])
