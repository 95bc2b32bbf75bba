"""How a search divides its budget, and the noisy choice of a winner.

Proof: docs/proofs/search.md.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from skdpsco._random import below, next_uint64
from skdpsco.data.pieces import replace_one
from skdpsco.mechanisms.samplers import (
    EXPONENTIAL,
    SCALE_BITS,
    deviation_on,
    exponential_grid,
    gaussian_grid,
    release,
)
from skdpsco.privacy import (
    Budget,
    Event,
    NoOpEvent,
    RandomStoppingEvent,
    Tries,
    ZCDPEvent,
    calibrate,
    compose,
    rho_of,
)
from skdpsco.privacy.spending import Allowance
from skdpsco.scaling.quantiles import choose
from skdpsco.scaling.target import TargetPlan, plan_target, release_target

from .scorers import R2, ClippedSquaredError, PrivateScorer, clipped_squared_error

__all__ = [
    "SEARCH",
    "SearchPlan",
    "best_try",
    "centred_sum",
    "choose_winner",
    "comparison_noise",
    "least_difference",
    "plan_scores",
    "plan_search",
    "release_scorer",
    "shown_scores",
]

# Bounds on the norm of the two moments of one record, and on how far replacing it moves them.
MOMENTS_NORM, MOMENTS_CHANGE = math.sqrt(0.5), math.sqrt(1.29)


class SearchTuning(NamedTuple):
    """Constants of a search; examples/benchmarks/grid_search.py shows what it loses with them.

    Parameters
    ----------
    tries_shape : float
        Shape of the number of tries. With it there are rarely few tries, and a search is almost as
        cheap as with smaller shapes.
    tries_per_candidate : float
        Mean number of tries for each candidate.
    little_rho : float
        Largest zCDP of a search whose fits and scores share all records. With so little, fits gain
        less on their own records than they lose without a fifth of them, and than scores and the
        scale of a target lose with this fifth alone.
    score_share : float
        Share for scores if they share all records with the fits: sums over all of them need little.
    """

    tries_shape: float = 2.0
    tries_per_candidate: float = 3.0
    little_rho: float = 1.1
    score_share: float = 0.1


SEARCH = SearchTuning()


@dataclass(frozen=True)
class SearchPlan:
    """The plan of a search, from the budget and public sizes, for fits, ledger and report.

    Parameters
    ----------
    rho_fit : float
        zCDP of one fit on the training part.
    rho_score : float
        zCDP of the score of one try, with random stopping; otherwise 0.
    rho_refit : float
        zCDP of the winner's fit on all records; 0 if there is no such fit.
    scores : ScorePlan
    tries : TruncatedNegativeBinomial, Poisson or None
        Distribution of the number of tries; None if every candidate is tried once.
    event : Event
        The total cost.
    """

    rho_fit: float
    rho_score: float
    rho_refit: float
    scores: "ScorePlan"
    tries: Tries | None
    event: Event

    def draw(self, n_candidates: int, rng: Any) -> list[int]:
        """The candidates to try, in order; they do not depend on the data."""
        if self.tries is None:
            return list(range(n_candidates))
        bits = (int(next_uint64(rng)) << 64) | int(next_uint64(rng))
        n_tries = self.tries.quantile(Fraction(bits, 2**128))
        return [int(below(rng, n_candidates)) for _ in range(n_tries)]


def plan_search(
    budget: Budget | Allowance,
    n_candidates: int,
    n_validation: int,
    scorer: PrivateScorer | str,
    target_bound: float | None,
    share: float,
    tries: Tries | None,
    held_out: bool = True,
) -> SearchPlan:
    """Divide the budget among the fits, the scores and the refit, which gets 1 - ``share``.

    A record is either in the training part or in the validation part, so the costs of the two parts
    do not add up. They do if records are not ``held_out``: both parts are then all records.
    """
    search, rho_refit = share * budget.rho, (1.0 - share) * budget.rho
    refit: Event = ZCDPEvent(rho_refit) if rho_refit > 0.0 else NoOpEvent()
    of_fits, of_scores = (1.0, 1.0) if held_out else (1.0 - SEARCH.score_share, SEARCH.score_share)
    of_scores *= 1.0 - 2.0**-40  # the sum of both may be rounded up
    if tries is None:
        scores = plan_scores(scorer, target_bound, n_validation, of_scores * search)
        event = compose(ZCDPEvent(search), refit)
        rho_fit = of_fits * search / n_candidates
        return SearchPlan(rho_fit, 0.0, rho_refit, scores, None, event)
    scores = plan_scores(scorer, target_bound, n_validation, search)
    others = compose(scores.event, refit)
    rho_try = calibrate(budget, tries, others)
    event = compose(RandomStoppingEvent(rho_try, tries), others)
    return SearchPlan(of_fits * rho_try, of_scores * rho_try, rho_refit, scores, tries, event)


@dataclass(frozen=True)
class ScorePlan:
    """How sums of scores over the validation part are released.

    Parameters
    ----------
    target : TargetPlan or None
        Plan for the scale of squared errors.
    event : Event
        Cost of everything released about the validation part.
    rho : float
        Remaining budget for the scores themselves.
    """

    target: TargetPlan | None
    event: Event
    rho: float


def plan_scores(
    scorer: PrivateScorer | str, bound: float | None, n_validation: int, rho: float
) -> ScorePlan:
    """Spend ``rho`` on the scale of a regression target, if necessary, and on scores."""
    if not isinstance(scorer, str):
        return ScorePlan(None, NoOpEvent(), rho)
    target = plan_target(bound, True, n_validation, rho)
    return ScorePlan(target, target.event, rho - rho_of(target.event))


def release_scorer(
    plan: ScorePlan, scorer: PrivateScorer | str, y: np.ndarray, rng: Any
) -> PrivateScorer:
    """The scorer, after the release of its scale if necessary."""
    if plan.target is None:
        assert not isinstance(scorer, str)
        return scorer
    return clipped_squared_error(release_target(plan.target, y, rng))


def centred_sum(scores: np.ndarray, scorer: PrivateScorer) -> float:
    """Sum of the scores' distances from the middle of their interval."""
    half = half_width(scorer)
    return float(np.sum(np.clip(scores - (scorer.lower + half), -half, half)))


def half_width(scorer: PrivateScorer) -> float:
    """Bound on the distance of a score from the middle of its interval."""
    return (scorer.upper - scorer.lower) / 2.0


def winner_grid(scorer: PrivateScorer, n_validation: int, rho: float) -> float:
    """Grid of the exponential mechanism that draws a winner at a cost of ``rho``."""
    half = half_width(scorer)
    change = 2.0 * replace_one(n_validation, half)
    return exponential_grid(change, EXPONENTIAL.epsilon0(rho), n_validation * half)


def choose_winner(
    sums: np.ndarray, scorer: PrivateScorer, n_validation: int, rho: float, rng: Any
) -> int:
    """Index of a large sum, chosen by the exponential mechanism at a cost of ``rho``.

    Replacing a record changes every sum by at most the width of the scorer's interval, in either
    direction.
    """
    grid = winner_grid(scorer, n_validation, rho)
    return int(choose(sums, np.arange(len(sums)), grid, rng))


def comparison_noise(plan: SearchPlan, scorer: PrivateScorer, n_validation: int) -> float:
    """Deviation of the noise in mean scores that are compared, and not released; public.

    The exponential mechanism takes the largest of sums with Gumbel noise, whose scale is that of
    the mechanism.
    """
    n, half = n_validation, half_width(scorer)
    if plan.tries is None:
        scale = 2.0**SCALE_BITS * winner_grid(scorer, n, plan.scores.rho)
        return scale * math.pi / math.sqrt(6.0) / n
    multiplier = 1.0 / math.sqrt(2.0 * plan.rho_score)
    return deviation_on(gaussian_grid(replace_one(n, half), multiplier, 1, n * half)) / n


def least_difference(noise: Any, other: Any) -> Any:
    """Least difference of two scores with noise of these deviations that tells them apart."""
    return 2.0 * np.hypot(noise, other)


def noisy_sums(
    sums: np.ndarray, scorer: PrivateScorer, n_validation: int, rho: float, rng: Any
) -> tuple[np.ndarray, float]:
    """All sums with Gaussian noise that costs ``rho`` in total, and its standard deviation."""
    half = half_width(scorer)
    sensitivity = math.sqrt(len(sums)) * replace_one(n_validation, half)
    noisy, multiplier = np.array(sums, dtype=np.float64), 1.0 / math.sqrt(2.0 * rho)
    return noisy, release(rng, noisy, sensitivity, multiplier, n_validation * half)


def noisy_means(
    sums: np.ndarray, scorer: PrivateScorer, n_validation: int, rho: float, rng: Any
) -> tuple[np.ndarray, float]:
    """Noisy means, maybe outside of the scorer's interval, and the deviation of the noise."""
    noisy, std = noisy_sums(sums, scorer, n_validation, rho, rng)
    return scorer.lower + half_width(scorer) + noisy / n_validation, std / n_validation


def noisy_r2(
    sums: np.ndarray, scorer: PrivateScorer, y: np.ndarray, rho: float, rng: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of determination from noisy squared errors and a noisy variance of ``y``.

    Everything is released together, for ``rho``. The deviations of the coefficients follow from
    what was released, to first order in the noise.
    """
    n, error = len(y), scorer.record_score
    assert isinstance(error, ClippedSquaredError)
    values, multiplier = np.append(sums, error.moments(y)), 1.0 / math.sqrt(2.0 * rho)
    sensitivity = math.hypot(
        math.sqrt(len(sums)) * replace_one(n, 0.5),
        replace_one(n, MOMENTS_NORM, MOMENTS_CHANGE),
    )
    std = release(rng, values, sensitivity, multiplier, n / 2.0) / n
    errors, (half_mean, square) = 0.5 - values[:-2] / n, values[-2:] / n
    std_variance = std * math.hypot(1.0, 8.0 * half_mean)
    # A variance that is lost in its noise could have any size, and either sign.
    variance = max(0.5 + square - 4.0 * half_mean**2, std_variance)
    ratios = errors / variance
    return 1.0 - ratios, np.hypot(std, ratios * std_variance) / variance


def shown_scores(
    sums: np.ndarray,
    scoring: PrivateScorer | str,
    scorer: PrivateScorer,
    y: np.ndarray,
    rho: float,
    rng: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noisy scores, clipped to their limits, and the deviations of their noise."""
    if scoring == R2:
        scores, noise = noisy_r2(sums, scorer, y, rho, rng)
        return scores, np.minimum(scores, 1.0), noise
    scores, std = noisy_means(sums, scorer, len(y), rho, rng)
    return scores, np.clip(scores, scorer.lower, scorer.upper), np.full(len(scores), std)


def best_try(
    sums: np.ndarray, scorer: PrivateScorer, n_validation: int, rho: float, rng: Any
) -> int | None:
    """Index of the try with the best noisy score, the first among equals; None without tries.

    The score of each try costs ``rho``; scores of other tries are not revealed.
    """
    noisy = [noisy_sums(one, scorer, n_validation, rho, rng)[0] for one in sums.reshape(-1, 1)]
    return int(np.argmax(noisy)) if noisy else None
