"""Private mirror descent with bias-reduced gradients, for games that are not quadratic.

Proof: docs/proofs/bias_reduced_mirror_descent.md.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._random import below
from skdpsco._validation import check_positive_int
from skdpsco.privacy import ZCDPEvent
from skdpsco.solvers.base import Plan
from skdpsco.solvers.saddle.problem import Data, VariationalProblem
from skdpsco.solvers.saddle.vertex_draws import (
    DESCENT,
    Batches,
    Scores,
    check_game,
    choose_steps,
    left_for,
    linear_weights,
    lipschitz,
    second_smoothness,
    spend,
    walk_batches,
)

__all__ = ["BiasReducedMirrorDescent", "BiasReducedPlan"]

MAX_LEVEL = 12


class Levels(NamedTuple):
    """A geometric law on 0, ..., most, truncated: level k has weight ``2**-k``."""

    most: int

    @property
    def total(self) -> float:
        """Sum of the weights, in [1, 2)."""
        return 2.0 - 2.0**-self.most

    @property
    def probability(self) -> np.ndarray:
        """Of every level."""
        return 2.0 ** -np.arange(self.most + 1.0) / self.total

    def draw(self, rng: np.random.Generator) -> int:
        """An exact sample: one of ``2**(most + 1) - 1`` equally likely whole numbers decides."""
        number = int(below(rng, (2 << self.most) - 1))
        return self.most + 1 - (number + 1).bit_length()

    def change(self, level: np.ndarray) -> np.ndarray:
        """Sum of the absolute coefficients of the gradients of a step."""
        # At level 0 the point that is subtracted is also the one that is added.
        return np.where(level > 0, 2.0 * self.total * 2.0**level + 1.0, 2.0 * self.total - 1.0)


PLAIN = Levels(0)


def draws_of(level: np.ndarray) -> np.ndarray:
    """Vertices of either player that a step takes, one of them for the result."""
    return 2 * 2 ** np.asarray(level, dtype=np.int64) + 1


@dataclass(frozen=True)
class BiasReducedPlan(Plan):
    """The law of the levels and the budget: the rest follows from the levels, before any noise."""

    levels: Levels = PLAIN
    rho: float = 0.0
    variance: tuple[float, float] = (1.0, 1.0)

    def batches(self, problem: VariationalProblem, level: np.ndarray) -> Batches:
        """Batches and steps for given levels, a function of public values.

        Parameters
        ----------
        problem : VariationalProblem
        level : ndarray of shape (n_iter - 1,), int
            Of all steps but the first, which starts from a public point.

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
    """Mirror descent as `MirrorDescent` does it, with gradients whose bias is small.

    The gradient at the mean of a few vertices is biased if it is not affine. Here a level N is
    drawn from a truncated geometric law, and the difference between the gradients at the means of
    ``2**(N + 1)`` and of ``2**N`` vertices is magnified so that, in the mean, they add up to the
    gradient at the mean of ``2**(M + 1)`` vertices, M the largest level. The levels have nothing to
    do with the data. All are drawn first, so that what draws cost is known, and the steps use all
    of the budget.

    For bilinear and quadratic games `MirrorDescent` needs no such thing and is better. For others
    the gap falls faster with the number of records here, but the levels' noise is large: on the
    games that were tried `MirrorDescent` is better up to a million records.

    Parameters
    ----------
    max_level : int or "auto", default="auto"
        Largest level, in [0, 12]. "auto" balances bias and noise.
    max_iter : int, default=10000
        Limit >= 1 on the steps that the automatic rule plans.

    Raises
    ------
    TypeError, ValueError

    References
    ----------
    T. Gonzalez, C. Guzman, C. Paquette. Mirror Descent Algorithms with Nearly
    Dimension-Independent Rates for Differentially-Private Stochastic Saddle-Point Problems. 2024,
    Algorithms 2 and 3, with the sensitivity of proposition 3.17 corrected, the second player's sign
    too, a fixed number of steps, and batches in proportion to what a record costs.
    """

    def __init__(self, max_level: int | str = "auto", max_iter: int = DESCENT.max_iter):
        if max_level != "auto":
            allowed = "'auto' or an int in [0, 12]"
            if isinstance(max_level, (bool, np.bool_)) or not isinstance(
                max_level, (int, np.integer)
            ):
                raise TypeError(f"max_level must be {allowed}, got {max_level!r}.")
            if not 0 <= max_level <= MAX_LEVEL:
                raise ValueError(f"max_level must be {allowed}, got {max_level!r}.")
        self.max_level = max_level
        self.max_iter = check_positive_int("max_iter", max_iter)

    def plan(
        self, problem: VariationalProblem, budget: Any, n_iter: int | None = None
    ) -> BiasReducedPlan:
        """Choose the law of the levels, and ``n_iter`` steps, or as many as the bound asks for.

        Parameters
        ----------
        problem : VariationalProblem
            Of two players, on simplices of radius 1, with ``smoothness`` and ``second_smoothness``.
        budget : Budget or Allowance
        n_iter : int or None
            Steps, each on its own records.

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
                f"BiasReducedMirrorDescent needs the operator's {missing}. (The privacy does not "
                "depend on it.)"
            )
        n, rho = problem.n_samples, budget.rho
        most = min(n, self.max_iter)
        lengths = np.unique(np.geomspace(1.0, most, 100).round().astype(int)).tolist()
        if n_iter is not None:
            lengths = [n_iter]
        laws = [Levels(k) for k in range(MAX_LEVEL + 1)]
        if self.max_level != "auto":
            laws = [Levels(int(self.max_level))]
        moments = {}
        for levels in laws:  # what levels add is noise, and not eased as much
            x, y = relative_second_moments(problem, levels, curvature)
            moments[levels] = (
                1.0 + DESCENT.level_noise * (x - 1.0),
                1.0 + DESCENT.level_noise * (y - 1.0),
            )

        def bound(steps: int, levels: Levels) -> float:
            level, p = np.arange(levels.most + 1), levels.probability
            need = float(p @ levels.change(level)) * math.sqrt(p @ draws_of(level))
            ratio = n / (8.0 / 15.0 * need * (steps + 1.0) ** 1.5)
            rest = left_for(rho, float(draws_of(level[-1])) * steps)  # if all levels are largest
            if not rest > 0.0:
                return math.inf
            squares = 0.5 * rest * ratio**2
            value = choose_steps(problem, squares, steps + 1, moments[levels])[1]
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
        plan.batches(
            problem, np.full(steps - 1, levels.most)
        )  # what may fail fails here: no levels need more
        return plan

    def run(
        self,
        plan: BiasReducedPlan,
        problem: VariationalProblem,
        data: Data,
        rng: np.random.Generator,
        progress: np.ndarray | None = None,
    ) -> np.ndarray:
        """Follow ``plan`` on the data.

        Parameters
        ----------
        plan : BiasReducedPlan
        problem : VariationalProblem
        data : tuple of ndarray
            One entry per record each; the operator's ``total`` gets them.
        rng : numpy.random.Generator
        progress : ndarray of shape (1,), int64, or None

        Returns
        -------
        z : ndarray of shape (size,)
        """
        level = np.array([plan.levels.draw(rng) for _ in range(plan.n_iter - 1)], dtype=np.int64)
        batches = plan.batches(problem, level)
        scores, start = Scores(problem), problem.geometry.start()
        weight = linear_weights(plan.n_iter + 1)
        result = weight[0] * start
        for t, (batch, grid) in enumerate(walk_batches(rng, batches, problem.n_samples, data)):
            if t == 0:
                total = problem.total(start, batch)
            else:
                total = self._total(plan.levels, int(level[t - 1]), problem, batch, scores, rng)
            scores.add(total, grid)
            vertex = np.zeros_like(start)
            scores.draw(rng, 1, vertex)
            result += weight[t + 1] * vertex
            if progress is not None:
                progress[0] += 1
        return result / weight.sum()

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


def relative_second_moments(
    problem: VariationalProblem, levels: Levels, curvature: float
) -> tuple[float, float]:
    """Bounds on the mean squared sup norm of a step's gradient over that of a plain one.

    Section 3 of the proof, for either player.
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
        found.append(float(levels.probability @ size**2))
    return found[0], found[1]
