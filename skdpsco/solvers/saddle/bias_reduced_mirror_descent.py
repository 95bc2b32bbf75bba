"""Private mirror descent with bias-reduced gradients, for games that are not quadratic.

Proof: docs/proofs/bias_reduced_mirror_descent.md.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._random import below
from skdpsco._validation import check_int
from skdpsco.data.record_functions import Data
from skdpsco.privacy import ZCDPEvent
from skdpsco.solvers.base import Plan
from skdpsco.solvers.saddle.mirror_descent import (
    DESCENT,
    Batches,
    Scores,
    bound_on_gap,
    check_game,
    linear_weights,
    lipschitz,
    mirror_steps,
    second_smoothness,
    spend,
    walk_batches,
)
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.solvers.steps import MOST_PLANNED, steps_to_try

__all__ = ["BiasReducedMirrorDescent"]

MAX_LEVEL = 12  # a step at this level takes 2**13 draws; chosen by hand, for time


class Levels(NamedTuple):
    """A truncated geometric distribution on 0, ..., most: level k has weight ``2**-k``."""

    most: int

    @property
    def total(self) -> float:
        """Sum of the weights, in [1, 2)."""
        return 2.0 - 2.0**-self.most

    @property
    def probability(self) -> np.ndarray:
        """Probabilities of the levels."""
        return 2.0 ** -np.arange(self.most + 1.0) / self.total

    def draw(self, rng: np.random.Generator) -> int:
        """Draw a level exactly, from one of ``2**(most + 1) - 1`` equally likely integers."""
        number = int(below(rng, (2 << self.most) - 1))
        return self.most + 1 - (number + 1).bit_length()

    def change(self, level: np.ndarray) -> np.ndarray:
        """Sum of the absolute coefficients that a step gives to its gradients."""
        # At level 0 the same point is added and subtracted.
        return np.where(level > 0, 2.0 * self.total * 2.0**level + 1.0, 2.0 * self.total - 1.0)


def draws_of(level: np.ndarray) -> np.ndarray:
    """Number of vertices that a step draws for each player, including one for the result."""
    return 2 * 2 ** np.asarray(level, dtype=np.int64) + 1


@dataclass(frozen=True, kw_only=True)
class BiasReducedPlan(Plan):
    """The distribution of the levels and the budget.

    Everything else follows from the levels, which are drawn before any noise.
    """

    levels: Levels
    rho: float
    variance: tuple[float, float]

    def batches(self, problem: VariationalProblem, level: np.ndarray) -> Batches:
        """Batches and step sizes for given levels, as a function of public values.

        Parameters
        ----------
        problem : VariationalProblem
        level : ndarray of shape (n_iter - 1,), int
            Levels of all steps but the first, which starts from a public point.

        Returns
        -------
        batches : Batches
            Their ``rho`` is at most the plan's.
        """
        change = np.concatenate([[1.0], self.levels.change(level)])
        draws = np.concatenate([draws_of(level), [1]])[::-1].cumsum()[::-1]
        weight = linear_weights(self.n_iter + 1)[:-1]
        batches = spend(problem, weight, change, draws, self.rho, self.variance)
        assert batches.rho <= self.rho * (1.0 + 1e-9)
        return batches


class BiasReducedMirrorDescent:
    """`MirrorDescent` with gradients whose bias is small.

    Unless it is affine, the gradient at the mean of a few vertices is a biased estimate. Here each
    step draws a level N from a truncated geometric distribution and scales up the difference
    between the gradients at the means of ``2**(N + 1)`` and of ``2**N`` vertices. In expectation
    the result is the gradient at the mean of ``2**(M + 1)`` vertices, where M is the largest level.
    The levels do not depend on the data. All of them are drawn first, so that the cost of the
    draws is known and the steps can use the whole budget.

    For bilinear and quadratic games `MirrorDescent` has no bias and is better. For other games the
    gap shrinks faster here as the number of records grows, but the random levels add much noise: on
    the games that were tried, `MirrorDescent` was better up to a million records.

    Parameters
    ----------
    max_level : int or "auto", default="auto"
        Largest level, in [0, 12]. "auto" balances bias and noise.

    Raises
    ------
    TypeError
        If ``max_level`` has the wrong type.
    ValueError
        If ``max_level`` is outside its range.

    References
    ----------
    T. Gonzalez, C. Guzman, C. Paquette. Mirror Descent Algorithms with Nearly
    Dimension-Independent Rates for Differentially-Private Stochastic Saddle-Point Problems. 2024,
    Algorithms 2 and 3. The sensitivity of proposition 3.17 and the second player's sign are
    corrected, the number of steps is fixed, and batches are proportional to the cost of a record.
    """

    def __init__(self, max_level: int | str = "auto") -> None:
        if max_level != "auto":
            max_level = check_int("max_level", max_level, "'auto' or ", 0, MAX_LEVEL)
        self.max_level = max_level

    def plan(
        self, problem: VariationalProblem, budget: Any, n_iter: int | None = None
    ) -> BiasReducedPlan:
        """Choose the distribution of the levels and the number of steps.

        Parameters
        ----------
        problem : VariationalProblem
            A game of two players on simplices of radius 1. Its operator has ``smoothness`` and
            ``second_smoothness``.
        budget : Budget or Allowance
        n_iter : int or None
            Number of steps, each on records of its own. None for the number with the smallest
            bound on the gap.

        Returns
        -------
        plan : BiasReducedPlan

        Raises
        ------
        ValueError
            If the blocks are not two simplices, if a smoothness is missing, or if there are fewer
            records than steps.
        """
        check_game(self, problem)
        curvature = second_smoothness(problem.operator)
        if curvature is None or problem.operator.smoothness is None:
            missing = "smoothness" if curvature is not None else "second_smoothness"
            raise ValueError(
                f"BiasReducedMirrorDescent needs the operator's {missing}. (Privacy does not "
                "depend on it.)"
            )
        rho, most = budget.rho, min(problem.n_samples, MOST_PLANNED)
        lengths = steps_to_try(most, 100) if n_iter is None else [n_iter]
        laws = [Levels(k) for k in range(MAX_LEVEL + 1)]
        if self.max_level != "auto":
            laws = [Levels(int(self.max_level))]
        moments = {levels: eased_second_moments(problem, levels, curvature) for levels in laws}

        def bound(steps: int, levels: Levels) -> float:
            level, p = np.arange(levels.most + 1), levels.probability
            need = float(p @ levels.change(level)) * math.sqrt(p @ draws_of(level))
            drawn = float(draws_of(level[-1])) * steps  # if all levels are the largest
            value = bound_on_gap(problem, rho, steps, need, drawn, moments[levels])
            return value + DESCENT.ease * 8.0 * curvature / 2.0**levels.most

        steps, levels = min(
            ((s, law) for s in lengths for law in laws), key=lambda pair: bound(*pair)
        )
        plan = BiasReducedPlan(
            event=ZCDPEvent(rho),
            n_iter=steps,
            summary=(f"bias-reduced mirror-descent: {steps} steps, levels up to {levels.most}",),
            levels=levels,
            rho=rho,
            variance=moments[levels],
        )
        # The worst case fails here, if any does: no other levels need more.
        plan.batches(problem, np.full(steps - 1, levels.most))
        return plan

    def run(
        self,
        plan: BiasReducedPlan,
        problem: VariationalProblem,
        data: Data,
        rng: np.random.Generator,
        progress: np.ndarray | None = None,
    ) -> np.ndarray:
        """Follow ``plan`` on the data; see `MirrorProx.run`."""
        level = np.array([plan.levels.draw(rng) for _ in range(plan.n_iter - 1)], dtype=np.int64)
        batches = walk_batches(rng, plan.batches(problem, level), data)
        following = iter([None, *level.tolist()])  # the first gradient is that at the start

        def total(z: np.ndarray, batch: list[Data], scores: Scores) -> np.ndarray:
            drawn = next(following)
            if drawn is None:
                return problem.total(z, batch)
            return self._total(plan.levels, drawn, problem, batch, scores, rng)

        weight = linear_weights(plan.n_iter + 1).tolist()
        return mirror_steps(problem, batches, weight, 1, rng, progress, total)

    def _total(
        self,
        levels: Levels,
        level: int,
        problem: VariationalProblem,
        batch: list[Data],
        scores: Scores,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """The bias-reduced sum of the gradients of a batch."""
        half = 1 << level
        counts = np.zeros(problem.geometry.size)
        points: list[np.ndarray] = []
        for n_draws in (1, half - 1, half):  # the first vertex, the first half, all
            scores.draw(rng, n_draws, counts)
            points.append(counts / (1.0 if not points else half * len(points)))
        if level == 0:
            del points[1]  # the first half is the first vertex
        first, *few, many = (problem.total(z, batch) for z in points)
        gain = levels.total * half
        if level == 0:
            return gain * many + (1.0 - gain) * first
        return gain * many - gain * few[0] + first


def eased_second_moments(
    problem: VariationalProblem, levels: Levels, curvature: float
) -> tuple[float, float]:
    """Mean squared sup norms of a step's gradient, relative to that of a plain one.

    There is one for each player: the bound of section 3 of the proof, of which what the levels add
    is multiplied by ``level_noise``.
    """
    smoothness = np.asarray(problem.operator.smoothness, dtype=np.float64)
    level, found = np.arange(levels.most + 1.0), []
    for row, block, bound in zip(
        smoothness, problem.geometry.blocks, lipschitz(problem), strict=True
    ):
        deviation = math.sqrt(2.0 * (math.log(2.0 * block.size) + 1.0)) * np.linalg.norm(row)
        few, many = (
            deviation / np.sqrt(m) + 4.0 * curvature / m for m in (2.0**level, 2.0 ** (level + 1.0))
        )
        apart = np.minimum((few + many) / bound, 2.0)
        size = np.minimum(levels.total * 2.0**level * apart + 1.0, levels.change(level))
        moment = float(levels.probability @ size**2)
        found.append(1.0 + DESCENT.level_noise * (moment - 1.0))
    return found[0], found[1]
