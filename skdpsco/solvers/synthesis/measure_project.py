"""Synthetic data by measuring once: noisy contrasts, a model of them, and a projection.

Proof: docs/proofs/measure_project.md. All noise is in one release, from which
`skdpsco.solvers.synthesis.reconstruction` computes everything else.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import GaussianEvent
from skdpsco.solvers.base import Plan
from skdpsco.solvers.synthesis.contrasts import (
    Subset,
    helmert,
    interchangeable,
    largest_move,
    n_contrasts,
    positions,
    scales,
    sensitivity,
    singles,
    worth_of_subsets,
)
from skdpsco.solvers.synthesis.reconstruction import NoisyContrasts, by_size, project_queries
from skdpsco.solvers.synthesis.workload import (
    LinearQueries,
    QueryProblem,
    SynthesisResult,
    count_cells,
    count_tables,
)

__all__ = ["MeasurePlan", "MeasureProject", "plan_contrasts", "plan_weighted", "statistic"]

CONTRASTS, CELLS, QUERIES = "contrasts", "cells", "queries"

MAX_SUBSETS = 2**15  # contrasts are measured if linear queries depend on at most so many subsets


class MeasureTuning(NamedTuple):
    """Constants that decide what is measured, and how precisely.

    They were chosen on simulated data. See docs/proofs/measure_project.md, section 4.

    Parameters
    ----------
    left : tuple of float
        Variances with which contrasts of means are assumed to be known beforehand: those of single
        columns, of which little is known, and those of pairs, which are about as independent
        columns have them.
    sampling : float
        Least such variance, times n_samples; that of larger subsets, which follow from pairs.
    prior_share : float
        Share of the budget that is divided under this assumption; the rest is divided as if
        nothing were known.
    clear : float
        A strategy is preferred to a simpler one if its predicted error is less than ``clear`` times
        that of the simpler one.
    """

    left: tuple[float, ...] = (0.3, 0.01)
    sampling: float = 4.0
    prior_share: float = 0.9
    clear: float = 0.95


MEASURE = MeasureTuning()
EXACT = 2**53  # whole numbers up to here are exact in floating point


@dataclass(frozen=True)
class MeasurePlan(Plan):
    """What is measured, and how precisely.

    Parameters
    ----------
    strategy : str
        "contrasts", "cells" or "queries".
    grid : float
        Grid of the noise, in records times the weights.
    subsets : tuple of tuple of int
        Subsets whose contrasts are measured, for the strategy "contrasts"; small subsets first.
    weights : tuple of float
        Factor of each subset's contrasts before noise is added.
    error : float
        Predicted sum of the squared errors of all answers.
    """

    strategy: str = CELLS
    grid: float = 1.0
    subsets: tuple[Subset, ...] = ()
    weights: tuple[float, ...] = ()
    error: float = math.inf


class MeasureProject:
    """Measure contrasts, cells or queries, all at once, and fit a distribution to them.

    Public numbers decide what is measured, so that the answers promise to have the smallest error:
    the contrasts on which the answers depend, weighted by how much they matter; all cells of a
    small domain; or the queries themselves. The answers are those of the distribution. If the
    domain has more than 2**20 cells, the distribution is only a model, a mixture of products, and
    its answers are corrected by the residuals of the measurements.

    References
    ----------
    Proof and sources: docs/proofs/measure_project.md.
    """

    by_blocks = keeps_constraints = measures_once = True

    def plan(self, problem: QueryProblem, budget: Any, n_iter: int | None = None) -> MeasurePlan:
        """Spend ``budget`` (its ``mu``) on one release; ``n_iter`` must be None or 1.

        Raises
        ------
        ValueError
            If ``n_iter`` is something else, there are too many records, or the noise is too large
            for the grids.
        """
        if n_iter not in (None, 1):
            raise ValueError(
                f"MeasureProject measures once: n_iter must be 'auto' (here None) or 1, got "
                f"{n_iter!r}."
            )
        worth, mu = worth_of_subsets(problem), budget.mu
        if not problem.dense:
            return plan_contrasts(problem, mu, worth or singles(problem))
        plan = _plan_cells(problem, mu, worth)
        if 0 < len(worth) <= MAX_SUBSETS:
            plan = _better(plan_contrasts(problem, mu, worth), plan)
        workload = problem.workload
        # The sensitivity is at least the reach, which is faster to compute.
        if isinstance(workload, LinearQueries) and worth:
            left = float(np.average(_left(problem, worth), weights=list(worth.values())))
            if _error_of_queries(problem, mu, workload.reach, left) < MEASURE.clear * plan.error:
                plan = _better(_plan_answers(problem, mu, left), plan)
        return plan

    def run(
        self,
        plan: MeasurePlan,
        problem: QueryProblem,
        codes: np.ndarray,
        rng: np.random.Generator,
        progress: Any,
    ) -> SynthesisResult:
        """Follow ``plan`` on records."""
        measured = statistic(plan, problem, codes)
        deviation = gaussian_mechanism(rng, measured, plan.grid) / problem.n_samples
        progress[0] += 1
        measured /= problem.n_samples
        if plan.strategy == QUERIES:
            return project_queries(
                problem, slice(None), measured, np.full(measured.size, deviation)
            )
        if plan.strategy == CELLS:
            found = NoisyContrasts.of_cells(problem, measured, deviation)
        else:
            found = NoisyContrasts.of_subsets(
                problem, plan.subsets, plan.weights, measured, deviation
            )
        model = found.model(rng)
        return found.project(model) if problem.dense else found.correct(model)


def _better(plan: MeasurePlan, simpler: MeasurePlan) -> MeasurePlan:
    return plan if plan.error < MEASURE.clear * simpler.error else simpler


def _plan(problem, mu, strategy, change, size, magnitude, error) -> MeasurePlan:
    """A plan to release ``size`` numbers up to ``magnitude``, with l2 sensitivity ``change``."""
    grid = gaussian_grid(change, 1.0 / mu, size, magnitude)
    off = math.sqrt(error / problem.n_answers)
    summary = (f"{size} numbers are measured at once", f"answers are off by about {off:.2g}")
    event = GaussianEvent(1.0 / mu)
    return MeasurePlan(event, 1, summary, strategy, grid, error=error)


def _precision(problem: QueryProblem, mu: float, change: float) -> float:
    """Precision of a noisy mean, of which one record moves the sum by ``change``."""
    return (problem.n_samples * mu / change) ** 2


def _left(problem: QueryProblem, subsets: Iterable[Subset]) -> np.ndarray:
    """Variances with which the contrasts of ``subsets`` are assumed to be known beforehand."""
    least = MEASURE.sampling / problem.n_samples
    by_order = dict(enumerate(MEASURE.left, start=1))
    return np.array([max(least, by_order.get(len(subset), 0.0)) for subset in subsets])


def _plan_cells(problem: QueryProblem, mu: float, worth: dict[Subset, float]) -> MeasurePlan:
    """Measure the counts of all cells; a replaced record moves from one cell to another."""
    precision = _precision(problem, mu, math.sqrt(2.0)) / problem.n_cells
    error = float(
        (np.array(list(worth.values())) / (1.0 / _left(problem, worth) + precision)).sum()
    )
    n = problem.n_samples
    return _plan(problem, mu, CELLS, math.sqrt(2.0), problem.n_cells, float(n), error)


def plan_contrasts(problem: QueryProblem, mu: float, worth: dict[Subset, float]) -> MeasurePlan:
    """Measure weighted contrasts of the subsets of ``worth``.

    If p is the precision of the noisy contrasts of a subset, and l the variance with which they are
    known beforehand, the error is about the sum of worth / (1 / l + p), where the budget limits the
    sum of p times `largest_move`.
    """
    shape = problem.shape
    subsets = by_size(worth, shape)
    worths = np.array([worth[s] for s in subsets])
    costs = np.array([largest_move(s, shape) for s in subsets])
    known = 1.0 / _left(problem, subsets)
    total = _precision(problem, mu, 1.0)
    ratio = np.sqrt(worths / costs)
    low, high = 0.0, total / (costs @ ratio) + (known / ratio).max()
    for _ in range(100):  # bisection
        level = (low + high) / 2
        spent = costs @ np.maximum(level * ratio - known, 0.0)
        low, high = (low, level) if spent > MEASURE.prior_share * total else (level, high)
    p = np.maximum(low * ratio - known, 0.0) + (1 - MEASURE.prior_share) * total * ratio / (
        costs @ ratio
    )
    return plan_weighted(problem, mu, subsets, p / p.max(), worths)


def plan_weighted(
    problem: QueryProblem, mu: float, subsets: list[Subset], squares: np.ndarray, worths: np.ndarray
) -> MeasurePlan:
    """Measure contrasts of some subsets with given squared weights, the largest of which is 1."""
    shape, n = problem.shape, problem.n_samples
    tables = (table for table, _ in _sources(problem, subsets))
    if n * max(math.prod(shape[j] for j in table) for table in tables) > EXACT:
        raise ValueError(f"n_samples={n!r} is too large for tables of that size.")
    weights = np.sqrt(squares)
    exact = sensitivity(shape, dict(zip(subsets, squares, strict=True)), interchangeable(problem))
    precisions = _precision(problem, mu, exact) * squares
    error = float((worths / (1.0 / _left(problem, subsets) + precisions)).sum())
    # Entries of contrasts are below sqrt(size) for every column.
    magnitude = n * max(
        w * math.sqrt(math.prod(shape[j] for j in s)) for s, w in zip(subsets, weights, strict=True)
    )
    size = sum(n_contrasts(s, shape) for s in subsets)
    # A contrast is an integer times a constant, so it is rounded once in each of two data sets.
    change = exact + 2.0 * math.sqrt(size) * magnitude * 2.0**-52
    plan = _plan(problem, mu, CONTRASTS, change, size, magnitude, error)
    return replace(plan, subsets=tuple(subsets), weights=tuple(weights.tolist()))


def _plan_answers(problem: QueryProblem, mu: float, left: float) -> MeasurePlan:
    """Measure the centred queries themselves."""
    m, n_cells = problem.workload.matrix.shape
    # The matrix is multiplied with counts: Higham's bound for sums of n_cells products, twice.
    rounding = 2.0 * math.sqrt(m) * (n_cells + 2) * 2.0**-52 * problem.n_samples
    change = problem.workload.sensitivity + rounding
    error = _error_of_queries(problem, mu, change, left)
    return _plan(problem, mu, QUERIES, change, m, float(problem.n_samples), error)


def _error_of_queries(problem: QueryProblem, mu: float, change: float, left: float) -> float:
    """Predicted error if one record moves the sums of the centred queries by ``change``.

    Means of queries of variance 1 are known beforehand with the variance ``left``.
    """
    variances = left * problem.workload.centred.var(axis=1)
    noise = 1.0 / _precision(problem, mu, change) if change else 0.0
    error = (variances * noise / (variances + noise + 1e-300)).sum()
    return problem.workload.scale**2 * float(error)


def _sources(problem: QueryProblem, subsets) -> list[tuple[Subset, list[Subset]]]:
    """The tables to count, each with the subsets whose contrasts are computed from it."""
    everything = tuple(range(problem.n_columns))
    if problem.dense:
        return [(everything, list(subsets))]
    tables = [tuple(sorted(t)) for t in problem.workload.columns(problem.n_columns)]
    left, found = set(subsets), []
    for table in sorted(tables, key=len, reverse=True):
        orders = range(1, len(table) + 1)
        here = [s for order in orders for s in combinations(table, order) if s in left]
        if here:
            found.append((table, here))
            left -= set(here)
    return found + [(s, [s]) for s in sorted(left)]


def statistic(plan: MeasurePlan, problem: QueryProblem, codes: np.ndarray) -> np.ndarray:
    """The statistic that is released, before noise, as float64."""
    if plan.strategy != CONTRASTS:
        counts = count_cells(codes, problem.shape)
        return counts if plan.strategy == CELLS else problem.workload.centred @ counts
    weights = dict(zip(plan.subsets, plan.weights, strict=True))
    parts = {}
    sources = _sources(problem, plan.subsets)
    tables = count_tables(codes, [table for table, _ in sources], problem.shape)
    for (table, subsets), counts in zip(sources, tables, strict=True):
        whole = helmert(counts).ravel()
        constants = scales([problem.shape[j] for j in table]).ravel()
        for subset in subsets:
            at = positions(table, subset, problem.shape)
            parts[subset] = whole[at] * (constants[at] * weights[subset])
    return np.concatenate([parts[subset] for subset in plan.subsets])
