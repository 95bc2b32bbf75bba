"""Private entropic mirror descent for games over two simplices.

Proof: docs/proofs/mirror_descent.md.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsco._validation import check_int
from skdpsco.data.record_functions import Data
from skdpsco.privacy import ZCDPEvent
from skdpsco.solvers.base import Plan
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.solvers.saddle.vertex_draws import (
    DESCENT,
    Batches,
    Scores,
    bound_on_gap,
    check_game,
    linear_weights,
    second_smoothness,
    spend,
    walk_batches,
)
from skdpsco.solvers.steps import MOST_PLANNED, steps_to_try

__all__ = ["MirrorDescent", "mirror_steps"]

MOST_DRAWS = 10**6  # sums over draws must fit into 64-bit integers


@dataclass(frozen=True, kw_only=True)
class MirrorDescentPlan(Plan):
    """The batches, the weights of the points, and the number of vertices drawn for each point."""

    batches: Batches
    weight: tuple[float, ...]
    n_draws: int


class MirrorDescent:
    """Mirror descent on gradients at privately drawn vertices, with one pass over the records.

    Both players multiply their weights by ``exp(-step * gradient)``. The weights stay secret: only
    vertices that the exponential mechanism draws from them are released. The noise grows only with
    the logarithm of the number of vertices, but a mean of a few hundred vertices is far from
    strategies that are spread over many actions.

    Both blocks must be simplices of radius 1. For an l1 ball of radius R let the block hold weights
    p of its 2 d vertices: the point is ``R (p[:d] - p[d:])`` and the gradient in p is ``R (g,
    -g)``.

    Parameters
    ----------
    n_draws : int or "auto", default="auto"
        Number of vertices drawn for each point, in [1, 10**6]. "auto" is 1 for bilinear and
        quadratic games, and otherwise needs the operator's ``smoothness``.

    Raises
    ------
    TypeError
        If ``n_draws`` has the wrong type.
    ValueError
        If ``n_draws`` is outside its range.

    References
    ----------
    Gonzalez, Guzman, Paquette. Mirror Descent Algorithms with Nearly Dimension-Independent Rates
    for Differentially-Private Stochastic Saddle-Point Problems. 2024, Algorithm 1, with other
    batches and draws.
    """

    def __init__(self, n_draws: int | str = "auto") -> None:
        if n_draws != "auto":
            n_draws = check_int("n_draws", n_draws, "'auto' or ", 1, MOST_DRAWS)
        self.n_draws = n_draws

    def plan(
        self, problem: VariationalProblem, budget: Any, n_iter: int | None = None
    ) -> MirrorDescentPlan:
        """Calibrate ``n_iter`` steps, or the number that minimises the bound on the gap.

        Parameters
        ----------
        problem : VariationalProblem
            A game of two players on simplices of radius 1.
        budget : Budget or Allowance
        n_iter : int or None
            Number of steps, each on records of its own.

        Returns
        -------
        plan : MirrorDescentPlan

        Raises
        ------
        ValueError
            If the blocks are not two simplices, if ``smoothness`` is needed but missing, or if
            there are fewer records than steps.
        """
        check_game(self, problem)
        steps, n_draws = self.schedule(problem, budget.rho, n_iter)
        weight = linear_weights(steps + 1)
        draws = n_draws * np.arange(steps, 0, -1)
        batches = spend(problem, weight[:-1], np.ones(steps), draws, budget.rho)
        summary = (
            f"mirror-descent: {steps} steps on {min(batches.sizes)} to {max(batches.sizes)} "
            f"records, {n_draws} vertices of each player per step",
        )
        return MirrorDescentPlan(
            event=ZCDPEvent(batches.rho),
            n_iter=steps,
            summary=summary,
            batches=batches,
            weight=tuple(weight.tolist()),
            n_draws=n_draws,
        )

    def schedule(
        self, problem: VariationalProblem, rho: float, n_iter: int | None = None
    ) -> tuple[int, int]:
        """Numbers of steps and draws with the smallest bound on the gap: section 4 of the proof.

        Raises
        ------
        ValueError
            If the operator's ``smoothness`` is needed but missing.
        """
        bias, counts = 0.0, [1]
        if self.n_draws != "auto":
            counts = [int(self.n_draws)]
        elif second_smoothness(problem.operator) != 0.0:
            if problem.operator.smoothness is None:
                raise ValueError(
                    "To choose the number of vertices, MirrorDescent needs the operator's "
                    "smoothness, or second_smoothness=0. Alternatively, pass n_draws."
                )
            smoothness = np.asarray(problem.operator.smoothness, np.float64)
            bias = DESCENT.ease * 2.0 * float(np.trace(smoothness))
            if bias > 0.0:
                counts = [1 << k for k in range(DESCENT.max_draws.bit_length())]
        most = min(problem.n_samples, MOST_PLANNED)
        lengths = steps_to_try(most, 100) if n_iter is None else [n_iter]

        def bound(steps: int, n_draws: int) -> float:
            needed, drawn = math.sqrt(n_draws), float(n_draws) * steps
            return bound_on_gap(problem, rho, steps, needed, drawn) + bias / n_draws

        return min(((s, k) for s in lengths for k in counts), key=lambda pair: bound(*pair))

    def run(
        self,
        plan: MirrorDescentPlan,
        problem: VariationalProblem,
        data: Data,
        rng: np.random.Generator,
        progress: np.ndarray | None = None,
    ) -> np.ndarray:
        """Follow ``plan`` on the data; see `MirrorProx.run`."""
        batches = walk_batches(rng, plan.batches, data)
        return mirror_steps(problem, batches, plan.weight, plan.n_draws, rng, progress)


def mirror_steps(
    problem: VariationalProblem,
    batches: Iterable[tuple[list[Data], Any]],
    weight: Sequence[float],
    n_draws: int,
    rng: np.random.Generator,
    progress: np.ndarray | None,
    total: Callable[..., np.ndarray] | None = None,
) -> np.ndarray:
    """Weighted mean of the start and of points that are means of ``n_draws`` drawn vertices each.

    The vertices are drawn by the summed gradients of the batches so far. ``total(z, batch,
    scores)`` sums up the gradients of a batch, after the point z; None for those at z itself.
    """
    scores, z = Scores(problem), problem.geometry.start()
    result = weight[0] * z
    for (batch, grid), share in zip(batches, weight[1:], strict=True):
        gradient = problem.total(z, batch) if total is None else total(z, batch, scores)
        scores.add(gradient, grid)
        z = np.zeros(len(z))
        scores.draw(rng, n_draws, z)
        z /= n_draws
        result += share * z
        if progress is not None:
            progress[0] += 1
    return result / math.fsum(weight)
