"""Whether few coordinates matter or many: noisy gradients at 0, of dense records.

What is left of the budget goes to a refit of the coordinates that stand out, if these hold most of
what was found, and otherwise to gradient descent in all coordinates.
Proof: docs/proofs/stagewise.md.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco.data.record_sums import in_pieces
from skdpsco.mechanisms.samplers import deviation_on, gaussian_grid
from skdpsco.privacy.spending import Allowance, check_cost
from skdpsco.solvers.l1.refit import noise_fits
from skdpsco.solvers.l1.screening import chance_threshold, max_columns
from skdpsco.solvers.penalized.gradient_descent import (
    GRADIENT_DESCENT,
    GradientDescent,
    GradientDescentPlan,
    gradient_grid,
    noisy_gradient,
    release_coordinates,
    release_spread,
    unscaled,
)
from skdpsco.solvers.penalized.problem import CompositeProblem, unpenalised
from skdpsco.solvers.penalized.shrinkage import excess, own_factors, typical_curvature

__all__ = ["SurveyPlan", "follow_survey", "plan_survey", "survey_pays"]


class SurveyTuning(NamedTuple):
    """Constants of the survey, fitted on the planted models of docs/proofs/stagewise.md.

    They have 200 to 1,000 columns, independent ones or with common factors; all of the coefficients
    matter, or 3 to 30, or geometric ones.

    Parameters
    ----------
    records : float
        The n mu per coefficient from which on a survey pays.
    first_share, spread_share, second_share : float
        Shares of mu**2 for a gradient, for the spread of the scores along the step that follows
        from it, and for another gradient. The refit or gradient descent gets the rest.
    alike : float
        Mean square of the scores along a step of length 1 beyond which columns are so much alike
        that there is no second gradient, and gradient descent follows at once.
    length : float
        Length of the step to where gradient descent begins, relative to that at which a quadratic
        loss with this mean square is smallest. (It is rounded up.)
    doubt : float
        Factor of what a refit is expected to miss: the square of the coordinates that are not
        selected. They look smaller than they are, since the others were selected for their size.
    few : float
        Largest share of the coordinates to refit. More of them are hardly fewer than all.
    least_left : float
        Smallest share of the targets' square that a model is expected to leave, whose residuals are
        then as much shorter, and so is noise.
    """

    records: float = 5.0
    first_share: float = 0.12
    spread_share: float = 0.04
    second_share: float = 0.28
    alike: float = 10.0
    length: float = 1.2
    doubt: float = 1.5
    few: float = 0.5
    least_left: float = 0.5


SURVEY = SurveyTuning()


@dataclass(frozen=True)
class SurveyPlan:
    """What a survey releases, and what may follow it.

    Parameters
    ----------
    first : GradientDescentPlan
        The first gradient, and the spread.
    second : float
        Grid of the second gradient, for gradients with norms of at most 1.
    early, late : GradientDescentPlan
        Gradient descent with what the first gradient and the spread leave, and with what the second
        gradient leaves, too.
    n_selected : int
        Largest number of coordinates to refit.
    """

    first: GradientDescentPlan
    second: float
    early: GradientDescentPlan
    late: GradientDescentPlan
    n_selected: int


def survey_pays(problem: Problem, mu: float) -> bool:
    """Whether gradients in all coordinates are more than noise; public."""
    size = problem.n_features * math.sqrt(problem.loss.n_outputs)
    if problem.n_mu(mu) < SURVEY.records * size:
        return False
    first = mu * math.sqrt(SURVEY.first_share)
    return noise_fits(first, problem.n_coefficients, problem.n_features)


def plan_survey(problem: Problem, mu: float) -> tuple[SurveyPlan, float]:
    """Plan a survey; also return the mu that is left for a refit.

    Raises
    ------
    ValueError
        If the noise of a gradient would be too large for the grid.
    """
    composite, solver = unpenalised(problem), GradientDescent()

    def planned(share: float, n_iter: int | None = None) -> GradientDescentPlan:
        part = Allowance(share * mu * mu / 2.0)
        plan = solver.plan(composite, part, n_iter)
        check_cost(plan.event, part)
        return plan

    counts = GRADIENT_DESCENT.spread_counts
    spread = math.sqrt(counts / SURVEY.spread_share) / mu
    early = 1.0 - SURVEY.first_share - SURVEY.spread_share
    late = early - SURVEY.second_share
    rest = mu * math.sqrt(late)
    plan = SurveyPlan(
        # Scores are 0 as yet, so derivatives are far below their bound.
        replace(
            planned(SURVEY.first_share, 1),
            spread_grid=gaussian_grid(1.0, spread, 1, problem.n_samples),
            slope_clip=GRADIENT_DESCENT.class_slope_clip,
        ),
        gradient_grid(
            composite,
            1.0 / (mu * math.sqrt(SURVEY.second_share)),
            1.0 if problem.added else 2.0,
        ),
        planned(early),
        planned(late),
        max(1, max_columns(problem.n_mu(1.0), rest) - problem.intercept),
    )
    return plan, rest


def usual_square(problem: CompositeProblem, target: float) -> float:
    """Mean square of a derivative at 0, for targets of root mean square ``target``."""
    if problem.has_residuals:
        return target**2
    largest = problem.loss.lipschitz(0.0, problem.target_bound)
    return largest**2 / max(problem.loss.n_outputs - 1, 1)


def follow_survey(
    plan: SurveyPlan, problem: Problem, X: MatrixLike, y: TargetLike, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, GradientDescentPlan | None]:
    """Look for the coordinates that matter.

    Parameters
    ----------
    plan : SurveyPlan
    problem, X, y, rng
        As in `skdpsco.solvers.base.Solver.run`.

    Returns
    -------
    start : ndarray of shape (D,)
        Where gradient descent in all coordinates begins, if that is to follow.
    selected : ndarray of int
        The coordinates to refit otherwise.
    descent : GradientDescentPlan or None
        The gradient descent that is to follow, or None for a refit.
    """
    composite, records = unpenalised(problem), in_pieces(X, y)
    coordinates = release_coordinates("auto", plan.first, composite, records, y, rng)
    n, curvature = problem.n_samples, typical_curvature(problem.loss)
    centre = np.zeros(problem.n_coefficients)
    column = np.arange(problem.n_coefficients) % problem.n_features
    given = column < problem.n_features - problem.intercept

    def measured(grid: float) -> tuple[np.ndarray, float]:
        # The coefficients, if columns are uncorrelated and the loss is quadratic, and their noise.
        grid *= coordinates.clip
        total = noisy_gradient(composite, coordinates, records, y, centre, grid, rng)
        return -total[given] / (n * curvature), (deviation_on(grid) / (n * curvature)) ** 2

    def shrunken(found: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
        # The estimate, and expected squares of what is estimated.
        estimate, squares = np.zeros((2, problem.n_coefficients))
        factors = own_factors(found, variance, excess(found, variance), 1.0)
        estimate[given] = factors * found
        squares[given] = np.square(estimate[given]) + factors * variance
        return estimate, squares

    found, variance = measured(plan.first.grid)
    estimate, _ = shrunken(found, variance)
    spread = release_spread(plan.first, composite, coordinates, records, y, estimate, rng)
    step = min(1.0, SURVEY.length / spread**2)
    descent: GradientDescentPlan | None = plan.early
    selected = np.empty(0, dtype=np.int64)
    if spread**2 < SURVEY.alike:
        again, other = measured(plan.second)
        found = (other * found + variance * again) / (other + variance)
        variance = variance * other / (variance + other)
        sampled = usual_square(composite, coordinates.target) / (n * curvature**2)
        variance += sampled
        (estimate, squares), descent = shrunken(found, variance), plan.late
        threshold = chance_threshold(len(found)) * math.sqrt(variance)
        largest = np.argsort(-np.abs(found), kind="stable")[: plan.n_selected]
        selected = np.flatnonzero(given)[np.sort(largest[np.abs(found[largest]) > threshold])]
        # What either way is expected to miss: all else, or as much as noise makes of everything.
        truth = float(squares.sum())
        noise = (deviation_on(plan.late.grid * coordinates.clip) / (n * curvature)) ** 2
        noise = (noise / plan.late.n_iter + sampled) * len(found)
        if composite.has_residuals:
            noise *= max(1.0 - truth / coordinates.target**2, SURVEY.least_left)
        missed = truth - float(squares[selected].sum())
        are_few = len(selected) <= SURVEY.few * len(found)
        if are_few and SURVEY.doubt * missed * (truth + noise) <= truth * noise:
            descent = None
    return unscaled(composite, coordinates, step * estimate), selected, descent
