"""The measurements of tables or queries so far, and the distribution that fits them.

Everything here is post-processing. Source: docs/proofs/select_measure.md, section 4.
"""

import math
from itertools import pairwise
from typing import Any

import numpy as np

from skdpsco.solvers.synthesis import product_mixture_fit
from skdpsco.solvers.synthesis.contrasts import Subset, helmert, n_contrasts, positions, scales
from skdpsco.solvers.synthesis.distributions import Histogram, ProductHistogram, ProductMixture
from skdpsco.solvers.synthesis.reconstruction import (
    RECONSTRUCTION,
    NoisyContrasts,
    by_size,
    project_queries,
    projection_steps,
)
from skdpsco.solvers.synthesis.workload import Marginals, QueryProblem, SynthesisResult

__all__ = ["MeasuredQueries", "MeasuredTables"]

ROUGH = 8  # A fit that only serves choices takes this many times fewer steps; chosen by hand.
GROUP_CELLS = 2**16  # Most cells of a group of columns, if the domain is too large for a histogram.


class MeasuredTables:
    """Noisy contrasts of tables, and groups of columns that depend on each other.

    Columns of different groups are assumed to be independent. Within a group, the distribution is
    the one nearest to independent columns that fits the contrasts.

    Parameters
    ----------
    problem : QueryProblem
    """

    def __init__(self, problem: QueryProblem) -> None:
        self.problem = problem
        self.limit: int = problem.n_cells if problem.dense else GROUP_CELLS
        self.groups: list[Subset] = [(j,) for j in range(problem.n_columns)]
        self.precisions: dict[Subset, float] = {}
        self.sums: dict[Subset, np.ndarray] = {}  # sums of values times precisions
        self.fitted: dict[Subset, Histogram] = {}  # groups without new measurements
        self.rough: bool = False
        uniform = tuple(np.full((1, size), 1 / size) for size in problem.shape)
        self.base: Any = ProductMixture(np.ones(1), uniform)

    def start(
        self,
        subsets: tuple[Subset, ...],
        values: np.ndarray,
        deviations: np.ndarray,
        rng: np.random.Generator,
    ) -> Any:
        """Start with independent columns, from noisy contrasts of single columns."""
        shape, n = self.problem.shape, self.problem.n_samples
        terms = product_mixture_fit.terms(subsets, shape)
        precisions = 1.0 / (np.square(deviations) + 1.0 / n)
        self.base = product_mixture_fit.fit(terms, values, precisions, 1, rng, 1, 100)
        self.add(subsets, values, deviations)

    def add(self, subsets: tuple[Subset, ...], values: np.ndarray, deviations: np.ndarray) -> None:
        """Include measured contrasts of some subsets, one subset after the other."""
        counts = [n_contrasts(subset, self.problem.shape) for subset in subsets]
        ends = np.concatenate([[0], np.cumsum(counts)])
        for subset, (start, end) in zip(subsets, pairwise(ends), strict=True):
            precision = float(deviations[start]) ** -2
            self.precisions[subset] = self.precisions.get(subset, 0.0) + precision
            self.sums[subset] = self.sums.get(subset, 0.0) + precision * values[start:end]
            for group in self.groups:
                if set(subset) <= set(group):
                    self.fitted.pop(group, None)

    def _join(self) -> None:
        """Put the columns of a subset in one group if they are clearly not independent.

        The sum of k squared standard normal numbers exceeds k + 2 sqrt(k t) + 2 t with probability
        at most exp(-t) (Laurent and Massart 2000). t is large enough that none should exceed it.
        """
        t, model = math.log(1.0 + len(self.precisions)), self._model()
        for subset in self._across():
            met = [group for group in self.groups if set(group) & set(subset)]
            joint = tuple(sorted(j for group in met for j in group))
            precision, p = self.precisions[subset], model.marginal(subset)
            expected = (scales(p.shape) * helmert(p)).flat[positions(subset, subset, model.shape)]
            excess = self.sums[subset] / precision - expected
            k, noise = excess.size, 1.0 / precision + 1.0 / self.problem.n_samples
            clear = excess @ excess > noise * (k + 2.0 * math.sqrt(k * t) + 2.0 * t)
            if clear and math.prod(self.problem.shape[j] for j in joint) <= self.limit:
                self.groups = [group for group in self.groups if group not in met] + [joint]
                self.fitted = {g: h for g, h in self.fitted.items() if g not in met}

    def _across(self) -> list[Subset]:
        """Measured subsets whose columns are not all in one group."""
        group_of = {j: group for group in self.groups for j in group}
        across = (s for s in self.precisions if not set(s) <= set(group_of[s[0]]))
        return by_size(across, self.problem.shape)

    def _model(self) -> ProductHistogram:
        groups = tuple(self.groups)
        return ProductHistogram(groups, tuple(self._histogram(group) for group in groups))

    def _contrasts(self, problem: QueryProblem, subsets: list[Subset], columns: Subset):
        """Measured contrasts of some subsets of ``columns``, which are the problem's columns."""
        counts = [n_contrasts(subset, self.problem.shape) for subset in subsets]
        precisions = np.array([self.precisions[subset] for subset in subsets])
        parts = [self.sums[s] / p for s, p in zip(subsets, precisions, strict=True)]
        place = {j: a for a, j in enumerate(columns)}
        return NoisyContrasts(
            problem,
            np.concatenate(parts) if parts else np.zeros(0),
            np.repeat(precisions**-0.5, counts),
            np.repeat([len(subset) for subset in subsets], counts),
            tuple(tuple(place[j] for j in subset) for subset in subsets),
        )

    def _histogram(self, group: Subset) -> Histogram:
        """Distribution of one group."""
        if group not in self.fitted:
            shape = tuple(self.problem.shape[j] for j in group)
            base = ProductMixture(np.ones(1), tuple(self.base.probabilities[j] for j in group))
            inside = [s for s in self.precisions if set(s) <= set(group)]
            if max(map(len, inside), default=1) == 1:
                self.fitted[group] = base.histogram()
            else:
                problem = QueryProblem(shape, Marginals(1), self.problem.n_samples)
                found = self._contrasts(problem, by_size(inside, self.problem.shape), group)
                steps = projection_steps(problem) // (ROUGH if self.rough else 1)
                self.fitted[group] = found.nearest(
                    base, max(RECONSTRUCTION.enough, steps), alike=True
                )
        return self.fitted[group]

    def fit(self, tables: Marginals, rough: bool = False) -> SynthesisResult:
        """A distribution, and answers to ``tables``, corrected by measurements across groups.

        A ``rough`` fit is good enough for choices and takes less time.
        """
        if not rough:
            self.fitted = {}
        self.rough = rough
        self._join()
        model, across = self._model(), self._across()
        if not across:
            return SynthesisResult(model, model.answers(tables), 0)
        problem = QueryProblem(self.problem.shape, tables, self.problem.n_samples)
        found = self._contrasts(problem, across, tuple(range(problem.n_columns)))
        return found.correct(model)


class MeasuredQueries:
    """Noisy answers to centred linear queries.

    Parameters
    ----------
    problem : QueryProblem
    """

    def __init__(self, problem: QueryProblem) -> None:
        self.problem = problem
        self.precisions: np.ndarray = np.zeros(problem.n_answers)
        self.sums: np.ndarray = np.zeros(problem.n_answers)

    def add(self, query: int, value: float, deviation: float) -> None:
        """Include a measured answer."""
        self.precisions[query] += deviation**-2
        self.sums[query] += value * deviation**-2

    def fit(self) -> SynthesisResult:
        """The distribution near the uniform one that agrees with the answers."""
        problem = self.problem
        rows = np.flatnonzero(self.precisions)
        if rows.size == 0:
            uniform = Histogram(np.full(problem.n_cells, 1.0 / problem.n_cells), problem.shape)
            return SynthesisResult(uniform, uniform.answers(problem.workload), 0)
        precisions = self.precisions[rows]
        return project_queries(problem, rows, self.sums[rows] / precisions, precisions**-0.5)
