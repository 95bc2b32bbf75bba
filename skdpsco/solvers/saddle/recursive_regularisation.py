"""Recursive regularisation: rounds of another solver, for a small strong gap on new records.

Proof: docs/proofs/mirror_prox.md.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsco._validation import check_int
from skdpsco.data.record_functions import Data
from skdpsco.privacy.spending import check_cost, worst_of
from skdpsco.solvers.base import Plan
from skdpsco.solvers.saddle.mirror_prox import MirrorProx, MirrorProxPlan, Pull
from skdpsco.solvers.saddle.problem import VariationalProblem, even_sizes, random_parts

__all__ = ["RecursiveRegularisation", "check_rounds", "choose_rounds", "pull_weights"]

MAX_RECURSIONS = 40  # each halves the error; theory asks for fewer than log2(n_samples)


@dataclass(frozen=True, kw_only=True)
class RecursivePlan(Plan):
    """One plan per round, and the strength of the regularisers.

    Parameters
    ----------
    sizes : tuple of int
        Number of records in each round.
    plans : tuple of MirrorProxPlan
    lam : float
        Strength of the first regulariser. 0 means a single round without a regulariser.
    gap : float
        Theoretical bound on the expected gap; infinite if theory gives no bound.
    """

    sizes: tuple[int, ...]
    plans: tuple[MirrorProxPlan, ...]
    lam: float
    gap: float


def check_rounds(n_rounds: Any) -> int | None:
    """Check a number of rounds, which may be None.

    Raises
    ------
    TypeError
        If it is neither None nor an integer.
    ValueError
        If it is outside [1, 40].
    """
    if n_rounds is None:
        return None
    return check_int("n_rounds", n_rounds, "None or ", 1, MAX_RECURSIONS)


def choose_rounds(
    given: int | None, n_samples: int, bound: float, diameter: float, strength: Any
) -> tuple[int, float]:
    """Number of rounds, and the strength of the first regulariser: section 5 of the proof.

    ``strength(size)`` is what rounds of so many records need. The strength is 0 if a single round
    would need more than the ``bound`` on the operator allows, and no number is ``given``.
    """
    if given is not None:
        # Whatever else holds, the sum of all regularisers stays below the operator itself.
        T = min(given, n_samples)
        return T, bound / (diameter * 2.0**T)
    for T in range(int(math.log2(n_samples)), 0, -1):
        lam = strength(n_samples // T)
        if 2**T * lam * diameter <= bound:
            # More regularisation than needed does no harm; less would leave the last round too far
            # from the solution.
            return T, max(lam, bound / (diameter * 2 ** (T + 1)))
    return 1, 0.0


class RecursiveRegularisation:
    """Rounds on disjoint parts of the data, each regularised towards the earlier solutions.

    Parameters
    ----------
    solver : MirrorProx or None, default=None
        Solver of each round; None for ``MirrorProx()``.
    n_rounds : int or None, default=None
        Number of rounds, in [1, 40] and at most one per record. None for the number that theory
        asks for. Its constants require thousands of calls of the operator. Within the 1000 calls of
        the default solver there is therefore usually a single round without a regulariser, however
        many records there are. This is the same as `MirrorProx`, and the plan's ``warnings`` say
        so. With ``MirrorProx(max_calls=10**6)`` there are several rounds from about 10,000 to
        100,000 records on.

    Raises
    ------
    TypeError
        If ``solver`` is not a `MirrorProx`, or ``n_rounds`` is not an integer.
    ValueError
        If ``n_rounds`` is outside [1, 40].

    References
    ----------
    R. Bassily, C. Guzman, M. Menart. Private Algorithms for Stochastic Saddle Points and
    Variational Inequalities: Beyond Euclidean Geometry. NeurIPS 2024, Algorithms 1 and 3.
    """

    def __init__(self, solver: MirrorProx | None = None, n_rounds: int | None = None) -> None:
        needed = ("plan", "schedule", "run")
        if isinstance(solver, type) or not (
            solver is None or all(hasattr(solver, name) for name in needed)
        ):
            raise TypeError(f"solver must be None or a MirrorProx, got {solver!r}.")
        self.solver: Any = MirrorProx() if solver is None else solver
        self.n_rounds: int | None = check_rounds(n_rounds)

    def plan(
        self, problem: VariationalProblem, budget: Any, n_iter: int | None = None
    ) -> RecursivePlan:
        """Divide the records among rounds, and calibrate each.

        Parameters
        ----------
        problem : VariationalProblem
        budget : Budget or Allowance
            Every record belongs to one round only, so each round may spend all of the budget.
        n_iter : int or None, default=None
            Number of steps of every round.
        """
        geometry = problem.geometry
        rounds, lam = self.rounds(problem, budget, n_iter)
        sizes = even_sizes(problem.n_samples, rounds)
        plans = []
        for t, size in enumerate(sizes, start=1):
            weights = pull_weights(problem, lam, t)
            drift = sum(weights[:-1] if problem.operator.saddle else weights) * geometry.diameter
            # 2.25 B / 2**t, but at most the largest possible distance of the solution.
            reach = geometry.radius if t == 1 else geometry.diameter
            distance = min(2.25 * geometry.diameter / 2**t, reach) if lam > 0.0 else reach
            part = replace(problem, n_samples=size)
            plans.append(self.solver.plan(part, budget, n_iter, distance, drift))
            check_cost(plans[-1].event, budget)
        factor = 12 * rounds + 2 * math.sqrt(2) if problem.operator.saddle else 6 * rounds + 2
        proved = self.n_rounds is None and lam > 0.0
        return RecursivePlan(
            event=worst_of([plan.event for plan in plans]),
            n_iter=sum(plan.n_iter for plan in plans),
            summary=(
                f"{rounds} rounds on {min(sizes)} records or more"
                if rounds > 1
                else "no recursion: a single round on all records",
                *(line for plan in plans for line in plan.summary),
            ),
            assumptions=tuple(dict.fromkeys(a for plan in plans for a in plan.assumptions)),
            warnings=(_no_recursion(problem),) if rounds == 1 and self.n_rounds is None else (),
            n_rounds=rounds,
            sizes=sizes,
            plans=tuple(plans),
            lam=lam,
            gap=factor * lam * geometry.diameter**2 if proved else math.inf,
        )

    def rounds(
        self, problem: VariationalProblem, budget: Any, n_iter: int | None = None
    ) -> tuple[int, float]:
        """Number of rounds, and the strength of the first regulariser: section 5 of the proof."""
        geometry, operator = problem.geometry, problem.operator
        L, B, kappa = geometry.bound, geometry.diameter, geometry.kappa

        def strength(size: int) -> float:
            if not operator.saddle and math.isinf(problem.smoothness):
                return math.inf
            part = replace(problem, n_samples=size)
            alpha = self.solver.schedule(part, budget, n_iter, B, 2.0 * L).bound / B
            drift = L * L if operator.saddle else 2.0 * L * (L + problem.smoothness * B)
            drift *= max(problem.largest_weights) ** 2  # of a record's operator, not of the mean
            return 4.0 * kappa / B * (alpha + math.sqrt(drift / size))

        return choose_rounds(self.n_rounds, problem.n_samples, L, B, strength)

    def run(
        self,
        plan: RecursivePlan,
        problem: VariationalProblem,
        data: Data,
        rng: np.random.Generator,
        progress: np.ndarray | None = None,
    ) -> np.ndarray:
        """Follow ``plan`` on the data; see `MirrorProx.run`."""
        centres = [problem.geometry.start()]
        parts = random_parts(rng, data, plan.sizes)
        for size, part, own in zip(plan.sizes, parts, plan.plans, strict=True):
            weights = pull_weights(problem, plan.lam, len(centres))
            pulls = tuple(Pull(w, c) for w, c in zip(weights, centres, strict=True))
            newest, drift = pulls[-1], pulls[:-1]
            if not problem.operator.saddle:  # all regularisers are part of the operator
                newest, drift = Pull(0.0, centres[-1]), pulls
            some = replace(problem, n_samples=size)
            centres.append(self.solver.run(own, some, part, rng, progress, newest, drift))
        return centres[-1]


def _no_recursion(problem: VariationalProblem) -> str:
    why = "more records, or more calls of the operator than its solver may plan (max_calls)"
    if not problem.operator.saddle and math.isinf(problem.smoothness):
        why = "the operator's smoothness"
    return (
        f"Recursive regularisation does not recurse on {problem.n_samples} records: its theory "
        f"asks for {why}. It runs a single round, as mirror prox does. "
        "RecursiveRegularisation(n_rounds=...) enforces several rounds."
    )


def pull_weights(problem: VariationalProblem, lam: float, t: int) -> list[float]:
    """Weights of the regularisers in round t; the one around the newest centre comes last."""
    power = 2 if problem.operator.saddle else 1
    return [2.0 ** (k + power) * lam for k in range(t)]
