"""Synthetic data by private multiplicative weights, which choose one query at a time.

Proof: docs/proofs/multiplicative_weights.md.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._validation import check_choice, check_int
from skdpsco.mechanisms.samplers import LEAST_EPSILON0, exponential_grid
from skdpsco.privacy import ExponentialMechanismEvent, compose
from skdpsco.scaling.quantiles import choose_index
from skdpsco.solvers.base import Plan
from skdpsco.solvers.steps import MOST_PLANNED
from skdpsco.solvers.synthesis.distributions import Histogram
from skdpsco.solvers.synthesis.workload import (
    DENSE_CELLS,
    MAX_AXES,
    LinearQueries,
    QueryProblem,
    SynthesisResult,
    count_cells,
    count_tables,
)

__all__ = ["MIRROR_DESCENT", "MultiplicativeWeights"]

BEST_RESPONSE, MIRROR_DESCENT = "best-response", "mirror-descent"
VARIANTS = (BEST_RESPONSE, MIRROR_DESCENT)


class WeightsTuning(NamedTuple):
    """Limits on the automatic number of draws, chosen by hand for time.

    Parameters
    ----------
    work : int
        Limit on the numbers that all rounds together read.
    enough : int
        Number of draws that are allowed whatever the work.
    """

    work: int = 2**28
    enough: int = 16


WEIGHTS = WeightsTuning()


@dataclass(frozen=True, kw_only=True)
class WeightsPlan(Plan):
    """Step size and the grids of all draws.

    Parameters
    ----------
    step : float
        Step of the logarithms of probabilities, along queries in [-1, 1].
    multiples : tuple of int, length n_iter
        Factor of the data's answers in the scores of each draw.
    grids : tuple of float, length n_iter
        Grids of the scores, in records times answers.
    error : float
        Bound on the expected largest error of an answer.
    """

    step: float
    multiples: tuple[int, ...]
    grids: tuple[float, ...]
    error: float


class MultiplicativeWeights:
    """A game between queries, which seek the errors of a histogram, and the histogram.

    In each round the exponential mechanism draws a query, or the negation of one, and the
    histogram's probabilities are multiplied by the exponential of a multiple of it. The mean of all
    histograms is released. Nothing is measured: only the draws depend on the data. The domain may
    have at most 2**20 cells.

    Parameters
    ----------
    variant : {"best-response", "mirror-descent"}, default="best-response"
        Whether the scores of a draw are the errors of the newest histogram, or the summed errors of
        all histograms so far. The latter is the algorithm of the paper; the former has the better
        constants.

    Raises
    ------
    ValueError
        If ``variant`` is not one of these.

    References
    ----------
    T. Gonzalez, C. Guzman, C. Paquette. Mirror Descent Algorithms with Nearly Dimension-Independent
    Rates for Differentially-Private Stochastic Saddle-Point Problems. Theorem 1.1.
    """

    by_blocks = True

    def __init__(self, variant: str = BEST_RESPONSE) -> None:
        self.variant: str = check_choice("variant", variant, VARIANTS)

    def plan(self, problem: QueryProblem, budget: Any, n_iter: int | None = None) -> WeightsPlan:
        """Calibrate ``n_iter`` draws, or the number that minimises the bound on the largest error.

        Raises
        ------
        TypeError
            If ``n_iter`` is not an integer.
        ValueError
            If ``n_iter`` is below 1, the domain has too many cells, or the noise is too large for
            the grids.
        """
        if not problem.dense:
            raise ValueError(
                f"shape must have at most {DENSE_CELLS} cells and {MAX_AXES} columns for "
                f"MultiplicativeWeights, got {problem.n_cells} and {problem.n_columns}: use "
                "SelectMeasure or MeasureProject, or merge categories."
            )
        n, log_queries = problem.n_samples, math.log(2.0 * problem.n_answers)
        if n_iter is None:
            work = problem.n_cells + problem.n_answers
            if isinstance(problem.workload, LinearQueries):
                work = problem.workload.matrix.size // 8 + problem.n_cells
            limit = min(MOST_PLANNED, max(WEIGHTS.enough, WEIGHTS.work // work))
            draws = np.arange(1, limit + 1)
        else:
            draws = np.array([check_int("n_iter", n_iter)])
        rounds = draws + 1.0
        free = np.sqrt(2.0 * math.log(problem.n_cells) / rounds)
        with np.errstate(divide="ignore"):  # a rate of 0 has an infinite error
            if self.variant == BEST_RESPONSE:
                rates = n / 4.0 * _per_multiple(budget.rho, draws, draws, draws)
                errors = free + log_queries / rates
            else:
                paid = draws - 1.0
                sums, squares = paid * draws / 2.0, paid * draws * (2.0 * draws - 1.0) / 6.0
                best = np.sqrt(log_queries / (2.0 * rounds))
                rates = np.minimum(best, n / 4.0 * _per_multiple(budget.rho, paid, sums, squares))
                errors = free + log_queries / (rates * rounds) + 2.0 * rates
        least = int(np.argmin(errors))
        n_draws, rate = int(draws[least]), float(rates[least])
        once = self.variant == BEST_RESPONSE
        multiples = (1,) * n_draws if once else tuple(range(n_draws))
        # The first draw of mirror descent does not depend on the data.
        epsilons = [4.0 * rate * k / n + LEAST_EPSILON0 if k else 0.0 for k in multiples]
        grids = {
            k: _draw_grid(problem, k, epsilon) if k else 1.0
            for k, epsilon in dict(zip(multiples, epsilons, strict=True)).items()
        }
        # The workload's scale leads from queries in [-1, 1] to answers.
        error = problem.workload.scale * float(errors[least])
        return WeightsPlan(
            compose(*(ExponentialMechanismEvent(e) for e in epsilons if e)),
            n_draws,
            (f"{n_draws} queries are drawn", f"bound on the expected largest error: {error:.3g}"),
            step=float(free[least]),
            multiples=multiples,
            grids=tuple(grids[k] for k in multiples),
            error=error,
        )

    def run(
        self,
        plan: WeightsPlan,
        problem: QueryProblem,
        codes: np.ndarray,
        rng: np.random.Generator,
        progress: Any,
    ) -> SynthesisResult:
        """Follow ``plan`` on records."""
        n, N = problem.n_samples, problem.n_cells
        totals = _totals(problem, codes)
        logits = np.zeros(N)
        x = np.full(N, 1.0 / N)
        mean = x.copy()
        past = np.zeros(totals.size)
        for k, grid in zip(plan.multiples, plan.grids, strict=True):
            now = n * _answers(problem, x)
            errors = k * totals - (now if self.variant == BEST_RESPONSE else past)
            past += now
            drawn = choose_index(rng, np.concatenate([errors, -errors]), grid)
            negated, query = divmod(drawn, totals.size)
            _move(problem, query, plan.step * (1 - 2 * negated), logits)
            x = np.exp(logits - logits.max())
            x /= x.sum()
            mean += x
            progress[0] += 1
        distribution = Histogram(mean / mean.sum(), problem.shape)
        return SynthesisResult(distribution, distribution.answers(problem.workload), plan.n_iter)


def _per_multiple(rho: float, count: Any, sums: Any, squares: Any) -> np.ndarray:
    """The u for which draws that cost (u k + `LEAST_EPSILON0`)**2 / 8 each cost ``rho`` together.

    There are ``count`` draws, with multiples k. ``sums`` and ``squares`` are the sums of these
    multiples and of their squares. u is 0 if there are too many draws for ``rho``.
    """
    linear = LEAST_EPSILON0 * sums
    left = np.maximum(8.0 * rho - LEAST_EPSILON0**2 * count, 0.0)
    return left / (np.sqrt(linear**2 + np.maximum(squares, 1e-9) * left) + linear)


def _draw_grid(problem: QueryProblem, multiple: int, epsilon0: float) -> float:
    n = float(problem.n_samples)
    width, rounding = 1.0, n * 2.0**-50  # of a sum over records of answers in [0, 1]
    if isinstance(problem.workload, LinearQueries):  # counts are exact, products are not
        width, rounding = 2.0, rounding + (problem.n_cells + 2) * 2.0**-52 * n
    change = 2.0 * width + 4.0 * rounding
    return exponential_grid(multiple * change, epsilon0, 2.0 * multiple * n)


def _answers(problem: QueryProblem, p: np.ndarray) -> np.ndarray:
    """A histogram's answers to centred queries, or its shares of cells."""
    if isinstance(problem.workload, LinearQueries):
        return problem.workload.centred @ p
    return Histogram(p, problem.shape).answers(problem.workload)


def _totals(problem: QueryProblem, codes: np.ndarray) -> np.ndarray:
    """The answers of the data, summed over records; see `_answers`."""
    if isinstance(problem.workload, LinearQueries):
        return problem.workload.centred @ count_cells(codes, problem.shape)
    tables = problem.workload.columns(problem.n_columns)
    parts = count_tables(codes, tables, problem.shape)
    return np.concatenate([part.ravel() for part in parts]).astype(np.float64)


def _move(problem: QueryProblem, query: int, step: float, logits: np.ndarray) -> None:
    """Add ``step`` times a query, which is in [-1, 1] up to a constant, to ``logits``."""
    if isinstance(problem.workload, LinearQueries):
        logits += step * problem.workload.centred[query]
        return
    tables = problem.workload.columns(problem.n_columns)
    sizes = [math.prod(problem.shape[j] for j in table) for table in tables]
    ends = np.cumsum(sizes)
    at = int(np.searchsorted(ends, query, side="right"))
    table = tables[at]
    values = np.unravel_index(
        query - (ends[at] - sizes[at]), tuple(problem.shape[j] for j in table)
    )
    where: list[Any] = [slice(None)] * problem.n_columns
    for j, value in zip(table, values, strict=True):
        where[j] = value
    logits.reshape(problem.shape)[tuple(where)] += 2.0 * step
