"""The best of several private saddle points, with high probability.

Proof: docs/proofs/boosted_mirror_descent.md.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from skdpsco._clipping import within
from skdpsco._validation import check_bound
from skdpsco.data.pieces import replace_one
from skdpsco.data.record_functions import Data, numbers_or_nan
from skdpsco.mechanisms.samplers import exponential_grid
from skdpsco.privacy import ZCDPEvent
from skdpsco.privacy._checks import check_real
from skdpsco.privacy.spending import Allowance, check_cost, worst_of
from skdpsco.scaling.quantiles import choose_index
from skdpsco.solvers.base import Plan
from skdpsco.solvers.saddle.bias_reduced_mirror_descent import BiasReducedMirrorDescent
from skdpsco.solvers.saddle.mirror_descent import (
    MirrorDescent,
    check_game,
    lipschitz,
    log_sizes,
    second_smoothness,
)
from skdpsco.solvers.saddle.problem import VariationalProblem, random_parts, runs_of
from skdpsco.solvers.steps import whole_steps

__all__ = ["BoostedMirrorDescent"]

LEAST_FAILURE = 1e-6  # a smaller probability would ask for more than 22 runs


@dataclass(frozen=True, kw_only=True)
class BoostedPlan(Plan):
    """Sizes of the parts, the plan of every run, and the grids of the responses and the choice.

    Parameters
    ----------
    parts : tuple of int
        Number of records for a run, for a response and for the choice.
    counts : tuple of int
        Number of runs, and number of responses of each player to each run.
    solver : object
        Solver of the runs.
    base : Plan
        Plan that all runs share.
    steps : tuple of int
        Number of steps of a response, for each player.
    response_grid : tuple of float
        Grid on which each player's responses are drawn.
    choice_grid : float
        Grid on which the best run is chosen.
    """

    parts: tuple[int, int, int]
    counts: tuple[int, int]
    solver: Any
    base: Any
    steps: tuple[int, int]
    response_grid: tuple[float, float]
    choice_grid: float


class BoostedMirrorDescent:
    """Several runs of mirror descent on separate records, of which the best is chosen privately.

    The gap of a single run is small only on average, or with probability one half. Here a quarter
    of the records serve several runs. Two quarters serve the best responses of both players to each
    run, which private Frank-Wolfe computes. With the last quarter the exponential mechanism
    compares what the responses gain, and chooses a run whose gap is small. All of this fails with
    probability at most ``failure``. Every record belongs to one part only, and so pays once.

    A run has few records. Unless you need a guarantee that holds with high probability,
    `MirrorDescent` and `BiasReducedMirrorDescent` are better.

    Parameters
    ----------
    failure : float, default=0.1
        Probability of failure, in [1e-6, 1]. There are ``log2(4 / failure)`` runs (I), and
        ``log2(8 I / failure)`` responses of each player to each run.
    solver : object or None, default=None
        Solver of the runs, with ``plan`` and ``run``. None for `MirrorDescent` if the operator's
        ``second_smoothness`` is 0, and for `BiasReducedMirrorDescent` otherwise.

    Raises
    ------
    TypeError
        If ``failure`` is not a number, or ``solver`` has no ``plan`` and ``run``.
    ValueError
        If ``failure`` is outside [1e-6, 1].

    Notes
    -----
    The operator needs three members besides ``total``. ``value(z, *data)`` returns what the first
    player pays to the second for each record, an array of shape (n_records,). ``value_bound`` is
    the bound to which these payoffs are clipped, and ``smoothness`` decides the number of steps of
    a response.

    References
    ----------
    T. Gonzalez, C. Guzman, C. Paquette. Mirror Descent Algorithms with Nearly
    Dimension-Independent Rates for Differentially-Private Stochastic Saddle-Point Problems. 2024,
    Algorithm 4, with exact accounting.
    """

    def __init__(self, failure: float = 0.1, solver: Any = None) -> None:
        self.failure: float = check_real("failure", failure, LEAST_FAILURE, 1.0, closed=True)
        made = not isinstance(solver, type) and hasattr(solver, "plan") and hasattr(solver, "run")
        if solver is not None and not made:
            raise TypeError(f"solver must be None or an object with plan and run, got {solver!r}.")
        self.solver: Any = solver

    def plan(
        self, problem: VariationalProblem, budget: Any, n_iter: int | None = None
    ) -> BoostedPlan:
        """Divide the records into parts, and plan what is done with each part.

        Parameters
        ----------
        problem : VariationalProblem
            A game of two players on simplices of radius 1.
        budget : Budget or Allowance
        n_iter : int or None
            Number of steps of every run. None leaves it to the solver of the runs.

        Returns
        -------
        plan : BoostedPlan

        Raises
        ------
        TypeError
            If the operator has no ``value``, or no number as ``value_bound``.
        ValueError
            If ``value_bound`` is outside its range, if the blocks are not two simplices, if the
            operator has no ``smoothness``, or if there are too few records.
        """
        check_game(self, problem)
        operator, n, rho = problem.operator, problem.n_samples, budget.rho
        bound: Any = getattr(operator, "value_bound", None)
        if bound is None or not hasattr(operator, "value"):
            raise TypeError(
                "BoostedMirrorDescent needs an operator with value(z, *data), the payoffs of "
                "records, and value_bound, a bound on them."
            )
        bound = check_bound("value_bound", bound)
        if operator.smoothness is None:
            raise ValueError(
                "BoostedMirrorDescent needs the operator's smoothness, for the responses."
            )
        runs = math.ceil(math.log2(4.0 / self.failure))
        responses = math.ceil(math.log2(8.0 * runs / self.failure))
        least = 4 * runs * responses
        if n < least:
            raise ValueError(
                f"n_samples must be at least {least} for {runs} runs and {responses} responses of "
                f"each player to each run, got {n}. A larger failure needs fewer records."
            )
        own, answer = n // (4 * runs), n // (4 * runs * responses)
        last = n - runs * own - 2 * runs * responses * answer
        solver = self.solver
        if solver is None:
            affine = second_smoothness(operator) == 0.0
            solver = MirrorDescent() if affine else BiasReducedMirrorDescent()
        allowance = Allowance(rho)  # in zCDP, like all other parts
        base = solver.plan(VariationalProblem(operator, own), allowance, n_iter)
        check_cost(base.event, allowance)
        planned = [plan_response(problem, k, answer, rho) for k in (0, 1)]
        # Each of the two terms of a gap changes by at most 2 bound, in either direction.
        change = 4.0 * replace_one(last + 2, bound)
        return BoostedPlan(
            event=worst_of([ZCDPEvent(rho), base.event]),
            n_iter=base.n_iter,
            summary=(
                f"boosted mirror-descent: {runs} runs on {own} records, {responses} responses of "
                f"each player to each run on {answer}, a choice on {last}",
                *base.summary,
            ),
            parts=(own, answer, last),
            counts=(runs, responses),
            solver=solver,
            base=base,
            steps=(planned[0][0], planned[1][0]),
            response_grid=(planned[0][1], planned[1][1]),
            choice_grid=exponential_grid(change, math.sqrt(8.0 * rho), 2.0 * (last + 1) * bound),
            **base.passed_on(),
        )

    def run(
        self,
        plan: BoostedPlan,
        problem: VariationalProblem,
        data: Data,
        rng: np.random.Generator,
        progress: np.ndarray | None = None,
    ) -> np.ndarray:
        """Follow ``plan`` on the data; see `MirrorProx.run`."""
        operator, (own, answer, last) = problem.operator, plan.parts
        runs, responses = plan.counts
        sizes = [own] * runs + [answer] * (2 * runs * responses) + [last]
        parts = random_parts(rng, data, sizes)
        base = VariationalProblem(operator, own)
        points = [plan.solver.run(plan.base, base, next(parts), rng, progress) for _ in range(runs)]
        answers = [
            [
                best_response(problem, player, z, next(parts), steps, grid, rng)
                for player, (steps, grid) in enumerate(
                    zip(plan.steps, plan.response_grid, strict=True)
                )
                for _ in range(responses)
            ]
            for z in points
        ]
        batch = next(parts)
        scores = np.empty(runs)
        for i, replies in enumerate(answers):
            totals = [total_value(operator, z, batch) for z in replies]
            # The first half are replies of the first player, who pays. The score bounds what both
            # players gain.
            scores[i] = min(totals[:responses]) - max(totals[responses:])
        return points[choose_index(rng, scores, plan.choice_grid)]


def plan_response(
    problem: VariationalProblem, player: int, n_records: int, rho: float
) -> tuple[int, float]:
    """Number of steps of a best response on ``n_records`` records, and the grid of its draws.

    Raises
    ------
    ValueError
        If the bound on the error overflows.
    """
    bound, log_size = lipschitz(problem)[player], log_sizes(problem)[player]
    smoothness = float(np.asarray(problem.operator.smoothness, np.float64)[player, player])
    # As in `FrankWolfe`, with l1 diameter 2. A single step solves a linear problem.
    steps = whole_steps(math.sqrt(32.0 * rho) * 2.0 * smoothness * n_records / (bound * log_size))
    change = 2.0 * replace_one(n_records, bound)
    return steps, exponential_grid(change, math.sqrt(8.0 * rho / steps), (n_records + 1) * bound)


def best_response(
    problem: VariationalProblem,
    player: int,
    z: np.ndarray,
    data: Data,
    steps: int,
    grid: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """``z`` with one player's part replaced by a private best response, found by Frank-Wolfe."""
    z, part, runs = z.copy(), problem.geometry.parts[player], runs_of(data)
    for t in range(steps):
        total = problem.total(z, runs)[part]  # the sign is the player's own
        step = 2.0 / (t + 2.0)
        z[part] *= 1.0 - step
        z[part.start + choose_index(rng, -total, grid)] += step
    return z


def total_value(operator: Any, z: np.ndarray, data: Data) -> float:
    """Sum of the records' payoffs, each clipped to the bound whatever `value` returns."""
    bound = operator.value_bound
    values = numbers_or_nan("value", partial(operator.value, z), data)
    return float(within(values, -bound, bound).sum())
