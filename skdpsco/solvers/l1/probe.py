"""Whether a path explains more than gradient steps in all coordinates would, of dense records.

Where gradients in all coordinates are mostly noise they do not tell whether few coordinates matter
or many. The first steps of a path still find some that stand out, and the slope along these is one
number, which costs little. If it is large, the path goes on from where it is.
Proof: docs/proofs/stagewise.md.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.constraints.sets import L1Ball
from skdpsco.data.pieces import replace_one, row_squares, sum_in_batches
from skdpsco.data.record_sums import in_pieces, map_reduce
from skdpsco.losses.library import for_kernels, lipschitz_l2
from skdpsco.losses.traits import traits_of
from skdpsco.mechanisms.samplers import release
from skdpsco.privacy import Event, GaussianEvent, compose
from skdpsco.privacy.spending import Allowance
from skdpsco.solvers.l1.screening import slopes_at
from skdpsco.solvers.l1.vertex_path import VertexPlan, run_vertices
from skdpsco.solvers.penalized.gradient_descent import GRADIENT_DESCENT

__all__ = ["PROBE", "ProbePlan", "can_probe", "few_pay", "plan_probe"]


class ProbeTuning(NamedTuple):
    """Constants of the probe, fitted on models like those of examples/benchmarks/l1_accuracy.py.

    They had 1,500 to 5,000 records of 150 to 1,000 columns, independent ones or with common
    factors; all of the coefficients matter, or five to twenty, or they fall like a power. Slopes
    are for features with a mean square of 1.

    Parameters
    ----------
    columns : float
        Number of columns above which choices of few are better than gradient steps in all
        although the latter explain something.
    labels, residuals : float
        The n mu per column above which gradient steps in all columns predict better than a
        constant, for labels and for targets of a regression, if columns are independent.
    first : float
        Share of the steps of a path that are made first, at least one.
    certainty : float
        The n mu at which the numbers would have all of rho. Their share falls with the square, and
        is within ``numbers``.
    numbers : tuple of two floats
        Smallest and largest share of rho for the slope and the count of norms.
    reach : float
        Bound on a record's slope along the first steps, in typical derivatives.
    residual : float
        Root mean square of targets, as they are scaled.
    label_signal, residual_signal : float
        Norm of the gradient at 0 of a model that explains much, for labels and for targets of
        ``residual``.
    more : float
        The n mu over the logarithm of the number of vertices above which the square of slopes
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
    first: float = 0.25
    certainty: float = 120.0
    numbers: tuple[float, float] = (0.01, 0.05)
    reach: float = 2.5
    residual: float = 0.4
    label_signal: float = 0.3
    residual_signal: float = 0.28
    more: float = 60.0
    certain: float = 2.0
    unusual: float = 0.35
    alike: float = 0.12


PROBE = ProbeTuning()


@dataclass(frozen=True)
class ProbePlan:
    """What a probe releases, and what may follow it.

    Parameters
    ----------
    first : VertexPlan or None
        The first steps of the path; None if gradient steps in all coordinates explain hardly
        anything, unless columns have common factors.
    multiplier : float
        Noise multiplier of the numbers.
    typical : float
        Typical derivative of a record at 0.
    least : float
        The slope above which a path is expected to explain more than gradient steps in all
        coordinates.
    few, many : StagewisePlan
        What follows if few coordinates matter, the rest of the path and a descent, and if many do.
        Both spend what is left.
    """

    first: VertexPlan | None
    multiplier: float
    typical: float
    least: float
    few: Any
    many: Any = None


def can_probe(problem: Problem) -> bool:
    """Whether a probe is defined, and there are columns enough to choose from; public.

    It is for one output and dense records of known mean squares. Where records are added, squares
    of norms would be rounded by where a row stands, which may move a count.
    """
    defined = problem.mean_square is not None and not (problem.sparse or problem.added)
    return defined and problem.loss.n_outputs == 1 and problem.n_features >= PROBE.columns


def plan_probe(problem: Problem, rho: float, plan_path: Any) -> tuple[ProbePlan, Event, Allowance]:
    """Plan a probe; also return its cost, and what is left for either branch.

    ``plan_path`` takes the problem and its rho, and plans a path and a descent.
    """
    n_mu = problem.n_mu(math.sqrt(2.0 * rho))
    if traits_of(problem.loss).residuals:
        typical, signal, enough = PROBE.residual, PROBE.residual_signal, PROBE.residuals
        clip = GRADIENT_DESCENT.residual_clip * PROBE.residual
    else:
        typical = problem.loss.lipschitz(0.0, problem.target_bound)
        signal, enough = PROBE.label_signal, PROBE.labels
        clip = GRADIENT_DESCENT.class_slope_clip * lipschitz_l2(problem.loss)
    least_share, largest_share = PROBE.numbers
    share = min(max((PROBE.certainty / n_mu) ** 2, least_share), largest_share)
    multiplier = 1.0 / math.sqrt(2.0 * share * rho)
    numbers = GaussianEvent(multiplier)
    few = plan_path(problem, Allowance(rho).minus(numbers).rho)
    if n_mu < enough * problem.n_features:
        probe = ProbePlan(None, multiplier, typical, 0.0, few)
        return probe, numbers, Allowance(rho).minus(numbers)
    first, rest = few.path.split(max(1, round(PROBE.first * few.n_iter)))
    few = replace(few, path=rest, event=compose(rest.event, GaussianEvent(1.0 / few.mu)))
    event = compose(first.event, numbers)
    left = Allowance(rho).minus(event)
    # What gradient steps in all coordinates explain, and the slope with which a path explains more.
    noise = 2.0 * clip * problem.n_features / problem.n_mu(left.mu)
    explained = signal**4 / (signal**2 + noise**2)
    least = math.sqrt(explained * PROBE.more * math.log(2.0 * problem.n_coefficients) / n_mu)
    return ProbePlan(first, multiplier, typical, least, few), event, left


def few_pay(
    plan: ProbePlan,
    problem: Problem,
    X: MatrixLike,
    y: TargetLike,
    rng: np.random.Generator,
    progress: Any,
) -> tuple[bool, np.ndarray]:
    """Release the first steps and two numbers.

    Parameters
    ----------
    plan : ProbePlan
    problem, X, y, rng, progress
        As in `skdpsco.solvers.base.Solver.run`.

    Returns
    -------
    few : bool
        Whether ``plan.few`` should follow.
    chosen : ndarray of int
        The vertices of the first steps.
    """
    n, d = problem.n_samples, problem.n_features
    direction, chosen = np.zeros(d), np.zeros(0, dtype=np.int64)
    if plan.first is not None:
        ball = L1Ball(plan.few.radius)
        direction, chosen, _ = run_vertices(plan.first, problem, ball, X, y, rng, progress)
        direction[d - problem.intercept :] = 0.0
        direction /= max(float(np.linalg.norm(direction)), 1e-300)
    assert problem.mean_square is not None
    sizes = np.sqrt(np.array([*problem.mean_square, 1.0][:d]))
    reach = PROBE.reach * plan.typical
    largest = problem.loss.lipschitz(0.0, problem.target_bound)
    at_0 = problem.loss, largest, -direction, sizes, reach
    total = map_reduce(in_pieces(X, y), y, probed_sums, *at_0)
    bound = math.sqrt(2.0)
    sensitivity = replace_one(n, bound, math.sqrt(5.0))  # a slope moves by 2, a count by 1
    deviation = release(rng, total, sensitivity, plan.multiplier, bound * n) / n
    slope, unusual = total / n
    alike = unusual > max(PROBE.alike, PROBE.certain * deviation)
    least = math.hypot(plan.least / reach, PROBE.certain * deviation)
    return bool(not alike and (plan.first is None or slope > least)), chosen


def probed_sums(
    X: MatrixLike,
    y: np.ndarray,
    loss: Any,
    largest: float,
    direction: np.ndarray,
    sizes: np.ndarray,
    reach: float,
) -> np.ndarray:
    """Sum of slopes along a direction, in units of ``reach``, and a count of unusual norms.

    Predictions are 0, and derivatives at most ``largest``.
    """

    def of_some(A: np.ndarray, some: np.ndarray) -> np.ndarray:
        A = A / sizes
        slopes = slopes_at(some, for_kernels(loss), np.zeros(1), largest, largest)[:, 0]
        along = np.clip((A @ direction) * slopes / reach, -1.0, 1.0)
        distance = np.abs(row_squares(A) / A.shape[1] - 1.0)
        return np.array([along.sum(), np.count_nonzero(distance > PROBE.unusual)])

    return sum_in_batches(X, y, np.arange(len(sizes)), of_some)
