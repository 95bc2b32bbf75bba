"""Synthetic data by choosing what to measure: the worst table or query, one after the other.

Proof: docs/proofs/select_measure.md. `skdpsco.solvers.synthesis.measurements` turns the
measurements into a distribution.
"""

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from skdpsco._validation import check_int
from skdpsco.mechanisms.samplers import (
    deviation_on,
    exponential_grid,
    gaussian_grid,
    gaussian_mechanism,
)
from skdpsco.privacy import (
    ExponentialMechanismEvent,
    GaussianEvent,
    NoOpEvent,
    RepeatedEvent,
    compose,
)
from skdpsco.scaling.quantiles import choose_index
from skdpsco.solvers.base import Plan
from skdpsco.solvers.synthesis.contrasts import Subset, n_contrasts
from skdpsco.solvers.synthesis.measure_project import (
    MeasurePlan,
    plan_contrasts,
    plan_weighted,
    statistic,
)
from skdpsco.solvers.synthesis.measurements import MeasuredQueries, MeasuredTables
from skdpsco.solvers.synthesis.reconstruction import by_size
from skdpsco.solvers.synthesis.workload import (
    LinearQueries,
    Marginals,
    QueryProblem,
    SynthesisResult,
    count_cells,
    count_tables,
)

__all__ = ["SelectMeasure"]

# Limits on the number of candidates and of their cells. Pairs of columns are always candidates.
MAX_CANDIDATES, MAX_CELLS = 2**15, 2**22


class SelectTuning(NamedTuple):
    """Constants of `SelectMeasure`, chosen on simulated data: see docs/proofs/select_measure.md.

    Parameters
    ----------
    first : float
        Share of the budget for single columns.
    choice : float
        Share of the remaining budget for choices; the rest is for measurements.
    clear_error : float
        Assumed l1 error of the worst table, relative to the number of records.
    query_factor : int
        Factor by which there are more choices of queries than there would be of tables, since a
        query contains less information than a table.
    max_iter : int
        Largest number of choices of tables; that of queries is ``query_factor`` times as large.
    fits : int
        Number of groups of choices. The distribution is fitted anew after each group.
    """

    first: float = 0.5
    choice: float = 0.3
    clear_error: float = 0.5
    query_factor: int = 20
    max_iter: int = 200
    fits: int = 8


SELECT = SelectTuning()


@dataclass(frozen=True)
class Kind:
    """How a table whose columns have given sizes is measured.

    Parameters
    ----------
    problem : QueryProblem
        Problem that has only the columns of this table.
    plan : MeasurePlan
    noise : float
        Expected l1 norm of the noise in the table, in records.
    """

    problem: QueryProblem
    plan: MeasurePlan
    noise: float


@dataclass(frozen=True)
class SelectPlan(Plan):
    """The candidates, and the grids of choices and measurements.

    Parameters
    ----------
    first : MeasurePlan or None
        Plan for measuring single columns.
    candidates : tuple of tuple of int
        Tables that may be chosen. Empty for linear queries, all of which are candidates.
    kinds : dict
        The `Kind` of a candidate, by the sizes of its columns.
    choice_grid, measure_grid : float
        Grids of scores and of answers to centred queries, both in records.
    """

    first: MeasurePlan | None = None
    candidates: tuple[Subset, ...] = ()
    kinds: dict[tuple[int, ...], Kind] = field(default_factory=dict)
    choice_grid: float = 1.0
    measure_grid: float = 1.0


class SelectMeasure:
    """Repeatedly choose the table with the worst fit, measure it, and fit the distribution again.

    All single columns are measured first. Then the exponential mechanism chooses a table, either
    one of the workload or one of some of its columns. Its score is the l1 distance between its
    counts and those that the current distribution predicts. The contrasts of two or more of its
    columns are then measured. Linear queries are chosen one at a time. This is best if only a few
    of many tables matter, since a table that is not chosen costs nothing.

    References
    ----------
    Proof and sources: docs/proofs/select_measure.md.
    """

    by_blocks = True

    def plan(self, problem: QueryProblem, budget: Any, n_iter: int | None = None) -> SelectPlan:
        """Spend ``budget`` on ``n_iter`` choices and measurements; None chooses a public number.

        If all tables have a single column, nothing is chosen.

        Raises
        ------
        TypeError
            If ``n_iter`` is not an integer.
        ValueError
            If ``n_iter`` is below 1, there are too many records, or the noise is too large for the
            grids.
        """
        if n_iter is not None:
            n_iter = check_int("n_iter", n_iter)
        if isinstance(problem.workload, LinearQueries):
            return _plan_query_choices(problem, budget.rho, n_iter)
        tables = [
            tuple(sorted(j for j in table if problem.shape[j] > 1))
            for table in problem.workload.columns(problem.n_columns)
        ]
        columns = sorted({j for table in tables for j in table})
        if not columns:
            return SelectPlan(NoOpEvent(), 0, ("all tables have one cell",))
        candidates = _candidate_tables(tables, problem.shape)
        if not candidates:
            first = _plan_columns(problem, budget.mu, columns)
            return SelectPlan(first.event, 0, first.summary, first)
        return _plan_tables(problem, budget.rho, columns, candidates, n_iter)

    def run(
        self,
        plan: SelectPlan,
        problem: QueryProblem,
        codes: np.ndarray,
        rng: np.random.Generator,
        progress: Any,
    ) -> SynthesisResult:
        """Follow ``plan`` on records."""
        if isinstance(problem.workload, LinearQueries):
            return _run_queries(plan, problem, codes, rng, progress)
        return _run_tables(plan, problem, codes, rng, progress)


def _split(rho: float, n_iter: int) -> tuple[float, float, Any]:
    """epsilon0 of a choice, mu of a measurement, and the event of all of them together."""
    epsilon0 = math.sqrt(8.0 * SELECT.choice * rho / n_iter)
    mu = math.sqrt(2.0 * (1.0 - SELECT.choice) * rho / n_iter)
    chosen = RepeatedEvent(ExponentialMechanismEvent(epsilon0), n_iter)
    return epsilon0, mu, compose(chosen, RepeatedEvent(GaussianEvent(1.0 / mu), n_iter))


def _n_iter(n_samples: int, rho: float, n_candidates: int, times: int = 1) -> int:
    """Number of choices for which even the last finds an error that is larger than its own.

    The expected error of a choice is at most 4 log(n_candidates) / epsilon0; the k-th worst table
    is assumed to have the error SELECT.clear_error * n_samples / sqrt(k).
    """
    short = 4.0 * math.log(max(2, n_candidates))
    useful = SELECT.clear_error * n_samples * math.sqrt(8.0 * SELECT.choice * rho) / short
    return max(1, min(int(times * useful), n_candidates, times * SELECT.max_iter))


def _candidate_tables(tables: list[Subset], shape: tuple[int, ...]) -> list[Subset]:
    """Tables of two or more columns that are contained in ``tables``, small ones first."""
    found: set[Subset] = set()
    for order in range(2, max(map(len, tables)) + 1):
        more = {s for table in tables for s in combinations(table, order)}
        cells = sum(math.prod(shape[j] for j in s) for s in found | more)
        if found and (len(found | more) > MAX_CANDIDATES or cells > MAX_CELLS):
            break
        found |= more
    return by_size(found, shape)


def _plan_columns(problem: QueryProblem, mu: float, columns: list[int]) -> MeasurePlan:
    """Plan to measure contrasts of single columns."""
    worth: dict[Subset, float] = {(j,): 1.0 - 1.0 / problem.shape[j] for j in columns}
    return plan_contrasts(problem, mu, worth)


def _measured_kind(sizes: tuple[int, ...], mu: float, n_samples: int) -> Kind:
    """Measure a table's contrasts of two or more columns, all with the same weight."""
    columns = tuple(range(len(sizes)))
    problem = QueryProblem(sizes, Marginals((columns,)), n_samples)
    subsets = [s for order in columns[1:] for s in combinations(columns, order + 1)]
    plan = plan_weighted(problem, mu, subsets, np.ones(len(subsets)), np.ones(len(subsets)))
    count = sum(n_contrasts(s, sizes) for s in subsets)
    return Kind(problem, plan, deviation_on(plan.grid) * math.sqrt(2.0 / math.pi * count))


def _plan_tables(problem, rho, columns, candidates, n_iter) -> SelectPlan:
    n = problem.n_samples
    first = _plan_columns(problem, math.sqrt(2.0 * SELECT.first * rho), columns)
    rho *= 1.0 - SELECT.first
    n_iter = n_iter or _n_iter(n, rho, len(candidates))
    epsilon0, mu, event = _split(rho, n_iter)
    kinds: dict[tuple[int, ...], Kind] = {}
    for table in candidates:
        sizes = tuple(problem.shape[j] for j in table)
        if sizes not in kinds:
            kinds[sizes] = _measured_kind(sizes, mu, n)
    noise = max(kind.noise for kind in kinds.values())
    cells = max(map(math.prod, kinds))
    # A replaced record moves from one cell of a table to another: the score changes by at most 2.
    change = 4.0 + 4.0 * (cells + 8) * 2.0**-50 * (n + noise)
    return SelectPlan(
        compose(first.event, event),
        n_iter,
        (
            f"{len(columns)} columns are measured",
            f"{n_iter} of {len(candidates)} tables are chosen and measured",
        ),
        first,
        tuple(candidates),
        kinds,
        exponential_grid(change, epsilon0, 2.0 * n + noise),
    )


def _plan_query_choices(problem, rho, n_iter) -> SelectPlan:
    n, m = problem.n_samples, problem.n_answers
    n_iter = n_iter or _n_iter(n, rho, m, SELECT.query_factor)
    epsilon0, mu, event = _split(rho, n_iter)
    # Sums of products with counts are rounded in each of two data sets.
    rounding = (problem.n_cells + 8) * 2.0**-51 * n
    return SelectPlan(
        event,
        n_iter,
        (f"{n_iter} of {m} queries are chosen and measured",),
        choice_grid=exponential_grid(4.0 + 4.0 * rounding, epsilon0, 2.0 * n),
        measure_grid=gaussian_grid(2.0 + 2.0 * rounding, 1.0 / mu, 1, n),
    )


def _rounds(n_iter: int, n_candidates: int) -> list[int]:
    """Number of choices before each fit but the last; at most as many as there are candidates."""
    n_rounds = max(min(n_iter, SELECT.fits), -(-n_iter // n_candidates))
    return [len(part) for part in np.array_split(np.arange(n_iter), n_rounds)]


def _choices(rng, scores: np.ndarray, grid: float, count: int):
    """Choose ``count`` different candidates, one after the other."""
    left = np.arange(scores.size)
    for _ in range(count):
        drawn = choose_index(rng, scores[left], grid)
        yield int(left[drawn])
        left = np.delete(left, drawn)


def _noisy_contrasts(plan: MeasurePlan, problem: QueryProblem, codes: np.ndarray, rng):
    """Noisy contrasts of means, and the standard deviations of the noise."""
    measured = statistic(plan, problem, codes)
    deviation = gaussian_mechanism(rng, measured, plan.grid)
    counts = [n_contrasts(subset, problem.shape) for subset in plan.subsets]
    weights = np.repeat(plan.weights, counts) * problem.n_samples
    return measured / weights, deviation / weights


def _run_tables(plan, problem, codes, rng, progress) -> SynthesisResult:
    shape, n = problem.shape, problem.n_samples
    measured = MeasuredTables(problem)
    if plan.first is not None:
        values, deviations = _noisy_contrasts(plan.first, problem, codes, rng)
        measured.start(plan.first.subsets, values, deviations, rng)
    if plan.candidates:
        candidates = Marginals(plan.candidates)
        kinds = [plan.kinds[tuple(shape[j] for j in table)] for table in plan.candidates]
        parts = [counts.ravel() for counts in count_tables(codes, plan.candidates, shape)]
        starts = np.cumsum([0, *(part.size for part in parts[:-1])])
        counts, noise = np.concatenate(parts), np.array([kind.noise for kind in kinds])
        for count in _rounds(plan.n_iter, len(kinds)):
            expected = n * measured.fit(candidates, rough=True).answers
            scores = np.add.reduceat(np.abs(counts - expected), starts) - noise
            for k in _choices(rng, scores, plan.choice_grid, count):
                table, kind = plan.candidates[k], kinds[k]
                values, deviations = _noisy_contrasts(kind.plan, kind.problem, codes[:, table], rng)
                subsets = tuple(tuple(table[a] for a in s) for s in kind.plan.subsets)
                measured.add(subsets, values, deviations)
                progress[0] += 1
    result = measured.fit(problem.workload)
    result.n_iter = plan.n_iter
    if problem.dense:
        result.distribution = result.distribution.histogram()
        result.answers = result.distribution.answers(problem.workload)
    return result


def _run_queries(plan, problem, codes, rng, progress) -> SynthesisResult:
    n, matrix = problem.n_samples, problem.workload.centred
    sums = matrix @ count_cells(codes, problem.shape)
    measured = MeasuredQueries(problem)
    for count in _rounds(plan.n_iter, problem.n_answers):
        errors = np.abs(sums - n * (matrix @ measured.fit().distribution.p))
        for query in _choices(rng, errors, plan.choice_grid, count):
            value = sums[[query]]
            deviation = gaussian_mechanism(rng, value, plan.measure_grid)
            measured.add(query, value[0] / n, deviation / n)
            progress[0] += 1
    result = measured.fit()
    result.n_iter = plan.n_iter
    return result
