"""From noisy contrasts or noisy queries to a distribution, by post-processing only.

Source: docs/proofs/measure_project.md, section 5.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from skdpsco.constraints.norms import project_simplex
from skdpsco.solvers.synthesis import product_mixture_fit
from skdpsco.solvers.synthesis.contrasts import (
    Subset,
    helmert,
    n_contrasts,
    positions,
    scales,
    synthesis,
)
from skdpsco.solvers.synthesis.distributions import Histogram, ProductMixture, nearest_distribution
from skdpsco.solvers.synthesis.product_mixture_fit import Terms
from skdpsco.solvers.synthesis.workload import QueryProblem, SynthesisResult

__all__ = ["RECONSTRUCTION", "NoisyContrasts", "by_size", "project_queries", "projection_steps"]


class ModelTuning(NamedTuple):
    """Constants of a model, chosen on simulated data and for time.

    See section 5 of docs/proofs/measure_project.md.

    Parameters
    ----------
    components : int
        Largest number of components.
    order : int
        Largest order of the contrasts to which the model is fitted.
    starts : int
        Number of runs of the fit.
    steps : int
        Number of fitting steps.
    """

    components: int
    order: int
    starts: int
    steps: int


PROJECTED = ModelTuning(components=4, order=3, starts=3, steps=100)
# A model that is released as it is would be made worse by many noisy contrasts.
RELEASED = ModelTuning(components=64, order=2, starts=1, steps=800)


class ReconstructionTuning(NamedTuple):
    """Constants of models and projections, chosen on simulated data and for time.

    See section 5 of docs/proofs/measure_project.md.

    Parameters
    ----------
    model_size : int
        Largest number of the contrasts to which a model is fitted.
    linked : int
        Largest product of the numbers of components and of cells of columns that constraints link,
        for which a fit knows these constraints.
    steps : int
        Largest number of steps of a projection.
    work : int
        Largest product of the number of steps and the number of cells.
    enough : int
        Number of steps that are allowed whatever the work.
    least_variance : float
        Least variance, times n_samples, of a model's residuals: twice the variance of sampling.
    doubt : float
        Standard deviations by which the square of contrasts, or of a model's residuals, has to
        exceed that of noise to be believed.
    """

    model_size: int = 2**16
    linked: int = 2**19
    steps: int = 500
    work: int = 2**24
    enough: int = 10
    least_variance: float = 2.0
    doubt: float = 2.0


RECONSTRUCTION = ReconstructionTuning()


@dataclass(frozen=True)
class NoisyContrasts:
    """Noisy contrasts of a mean over records, with the standard deviations of the noise.

    Parameters
    ----------
    problem : QueryProblem
    values, deviations, orders : ndarray of shape (n_contrasts,)
        The order of a contrast is the number of its columns.
    subsets : tuple of tuple of int
        The subsets to which the contrasts belong, one after the other. If empty, all contrasts of
        the domain were measured, in the order of its cells.
    """

    problem: QueryProblem
    values: np.ndarray
    deviations: np.ndarray
    orders: np.ndarray
    subsets: tuple[Subset, ...] = ()

    @classmethod
    def of_cells(cls, problem: QueryProblem, cells: np.ndarray, deviation: float) -> Any:
        """Make noisy contrasts from noisy shares of all cells."""
        shape = problem.shape
        values = (scales(shape) * helmert(cells.reshape(shape))).ravel()[1:]
        orders = reduce(np.add.outer, [np.minimum(np.arange(s), 1) for s in shape]).ravel()[1:]
        deviations = np.full(values.shape, deviation * math.sqrt(cells.size))
        return cls(problem, values, deviations, orders)

    @classmethod
    def of_subsets(
        cls, problem: QueryProblem, subsets: Any, weights: Any, weighted: Any, deviation: float
    ) -> Any:
        """Make noisy contrasts from weighted ones of some subsets."""
        counts = [n_contrasts(subset, problem.shape) for subset in subsets]
        weight = np.repeat(weights, counts)
        orders = np.repeat([len(subset) for subset in subsets], counts)
        return cls(problem, weighted / weight, deviation / weight, orders, tuple(subsets))

    @cached_property
    def _positions(self) -> np.ndarray | slice:
        """Indices of the contrasts in the output of `helmert` for the domain."""
        if not self.subsets:
            return slice(1, None)
        return _in_domain(self.problem, self.subsets)

    @cached_property
    def _scales(self) -> np.ndarray:
        return scales(self.problem.shape)

    def _contrasts_of(self, p: np.ndarray) -> np.ndarray:
        """The same contrasts of a histogram."""
        found = self._scales * helmert(p.reshape(self.problem.shape))
        return found.ravel()[self._positions]

    def _combine(self, coefficients: np.ndarray) -> np.ndarray:
        """Linear combination, on all cells, of the functions whose means the contrasts are."""
        tensor = np.zeros(self.problem.n_cells)
        tensor[self._positions] = coefficients
        return synthesis(self._scales * tensor.reshape(self.problem.shape)).ravel()

    def model(self, rng: np.random.Generator) -> ProductMixture:
        """A mixture of products, fitted to contrasts of low orders."""
        problem, low = self.problem, self._low()
        if not low:
            return ProductMixture(np.ones(1), tuple(np.ones((1, s)) for s in problem.shape))
        if self.subsets:
            chosen = np.arange(sum(n_contrasts(subset, problem.shape) for subset in low))
        else:
            chosen = _in_domain(problem, low) - 1
        values = self._shrunken(product_mixture_fit.terms(low, problem.shape), chosen)
        tuning = PROJECTED if problem.dense else RELEASED
        # Independent columns are one component; more than the ranks of all tables fit only noise.
        ranks = (min(problem.shape[j] - 1 for j in s) for s in low if len(s) > 1)
        components = min(tuning.components, 1 + sum(ranks))
        most = RECONSTRUCTION.linked // components
        modelled = tuple(
            linked
            for linked in problem.possible
            if math.prod(problem.shape[j] for j in linked.columns) <= most
        )
        # Even a perfect model differs from the records by noise and by sampling error.
        precisions = 1.0 / (np.square(self.deviations[chosen]) + 1.0 / problem.n_samples)
        return product_mixture_fit.fit(
            product_mixture_fit.terms(low, problem.shape, modelled),
            values,
            precisions,
            components,
            rng,
            tuning.starts,
            tuning.steps,
        )

    def _shrunken(self, terms: Terms, chosen: np.ndarray) -> np.ndarray:
        """Contrasts of low order, shrunk towards those of independent columns.

        Those of single columns are shrunk towards 0, that is to say, the uniform distribution. The
        contrasts of an order are assumed to have one variance around these, which is estimated and
        reduced by two standard deviations of its estimate from pure noise: so noise leaves
        independent columns. No variance is above 1, as no distribution is further from uniform.
        """
        values, noise = self.values[chosen], np.square(self.deviations[chosen])
        found = np.zeros(values.shape)
        for order in np.unique(self.orders[chosen]):
            here = self.orders[chosen] == order
            singles = product_mixture_fit.independent_contrasts(terms, found)
            expected = singles[terms.factors[here]].prod(axis=1) if order > 1 else 0.0
            away, weights = values[here] - expected, 1.0 / noise[here]
            doubt = RECONSTRUCTION.doubt * math.sqrt(2.0 * away.size)
            excess = float(weights @ np.square(away)) - away.size - doubt
            variance = min(1.0, max(0.0, excess) / float(weights.sum()))
            found[here] = expected + away * variance / (variance + noise[here])
        return found

    def _low(self) -> tuple[Subset, ...]:
        """Subsets of low order, those with few contrasts first; a prefix of `subsets`."""
        subsets: Iterable[Subset] = self.subsets
        low: list[Subset] = []
        total, most = 0, (PROJECTED if self.problem.dense else RELEASED).order
        if not self.subsets:
            columns = [j for j, size in enumerate(self.problem.shape) if size > 1]
            orders = range(1, min(most, len(columns)) + 1)
            subsets = by_size(
                (s for order in orders for s in combinations(columns, order)), self.problem.shape
            )
        for subset in subsets:
            total += n_contrasts(subset, self.problem.shape)
            if low and (total > RECONSTRUCTION.model_size or len(subset) > max(most, len(low[0]))):
                break
            low.append(subset)
        return tuple(low)

    def _variances(self, residuals: np.ndarray) -> np.ndarray:
        """Mean squares of a model's residuals in the contrasts, without the noise.

        There is one mean for every order of contrasts, less two standard errors; its weights are
        optimal if the least variance is the true one. If a subset's residuals are larger than this
        mean and the noise explain, the excess is added to its mean. No mean is above 1: no
        distribution is further from the uniform one.
        """
        least = RECONSTRUCTION.least_variance / self.problem.n_samples
        noise = np.square(self.deviations)
        squares = np.square(residuals)
        found = np.empty(residuals.shape)
        for order in np.unique(self.orders):
            here = self.orders == order
            weights = 1.0 / np.square(noise[here] + least)
            doubt = RECONSTRUCTION.doubt * math.sqrt(2.0 * weights.sum())
            excess = weights @ (squares[here] - noise[here]) - doubt
            found[here] = max(least, excess / weights.sum())
        # The mean of k squared standard normal numbers exceeds 1 + 2 sqrt(t/k) + 2 t/k with
        # probability at most exp(-t) (Laurent and Massart 2000). t is such that none should.
        t, end = math.log(1 + len(self.subsets)), 0
        for subset in self.subsets:
            k = n_contrasts(subset, self.problem.shape)
            here, end = slice(end, end + k), end + k
            mean, expected = squares[here].mean(), found[end - 1] + noise[end - 1]
            excess = mean - expected * (1.0 + 2.0 * math.sqrt(t / k) + 2.0 * t / k)
            if excess > 0.0:
                found[here] += excess
        return np.minimum(found, 1.0)

    def project(self, model: ProductMixture) -> SynthesisResult:
        """The distribution near the model that agrees with the contrasts."""
        distribution = self.nearest(model, projection_steps(self.problem))
        return SynthesisResult(distribution, distribution.answers(self.problem.workload), 1)

    def nearest(self, model: ProductMixture, steps: int, alike: bool = False) -> Histogram:
        """The distribution of `project`, without answers, after ``steps`` steps.

        With ``alike``, the model is assumed to err as much on contrasts to which it was fitted as
        on the others.
        """
        base = found = model.histogram(self.problem.legal()).p
        if self.values.size:
            variances = self._variances(self.values - self._contrasts_of(base))
            if alike:
                variances[:] = variances.max()
            found = nearest_distribution(
                base,
                self._contrasts_of,
                self._combine,
                self.values,
                np.square(self.deviations) / variances,
                steps,
            )
        return Histogram(found, self.problem.shape)

    def correct(self, model: Any) -> SynthesisResult:
        """The model of possible records, with answers corrected by shrunken residuals."""
        problem = self.problem
        for linked in problem.possible:
            model = model.within(linked)
        of = self._corrections(model)
        tables = problem.workload.columns(problem.n_columns)
        answers = [self._corrected(model, of, table).ravel() for table in tables]
        return SynthesisResult(model, np.concatenate(answers), 1)

    def _corrections(self, model: Any) -> dict[Subset, np.ndarray]:
        """Shrunken residuals of the contrasts of a model."""
        shape = self.problem.shape
        parts = [
            (scales(p.shape) * helmert(p)).flat[positions(subset, subset, shape)]
            for subset in self.subsets
            for p in (model.marginal(subset),)
        ]
        residuals = self.values - np.concatenate(parts)
        variances = self._variances(residuals)
        shrunken = residuals * variances / (variances + np.square(self.deviations))
        ends = np.cumsum([part.size for part in parts[:-1]])
        return dict(zip(self.subsets, np.split(shrunken, ends), strict=True))

    def _corrected(
        self, model: Any, corrections: dict[Subset, np.ndarray], table: Subset
    ) -> np.ndarray:
        """The nearest possible table to a model's table with corrected contrasts."""
        columns = tuple(sorted(table))
        p, shape = model.marginal(columns), self.problem.shape
        wide = [j for j in columns if shape[j] > 1]
        subsets = (s for order in range(1, len(wide) + 1) for s in combinations(wide, order))
        here = [s for s in subsets if s in corrections]
        if here:
            tensor = np.zeros(p.size)
            for subset in here:
                tensor[positions(columns, subset, shape)] = corrections[subset]
            change = synthesis(scales(p.shape) * tensor.reshape(p.shape)) / p.size
            legal = self.problem.legal(columns)
            p[legal] = project_simplex((p + change)[legal])
        return p.transpose([columns.index(j) for j in table])


def project_queries(
    problem: QueryProblem,
    rows: np.ndarray | slice,
    centred: np.ndarray,
    deviations: np.ndarray,
) -> SynthesisResult:
    """The distribution near the uniform one that agrees with noisy answers to centred queries.

    Parameters
    ----------
    problem : QueryProblem
    rows : slice or ndarray of int
        Indices of the queries that were answered.
    centred, deviations : ndarray of shape (n_rows,)
        Answers, and the standard deviations of the noise in them.
    """
    chosen = problem.workload.centred[rows]
    uniform = chosen.mean(axis=1)
    matrix, targets, noise = chosen - uniform[:, None], centred - uniform, np.square(deviations)
    spread = RECONSTRUCTION.doubt * math.sqrt(2.0 * np.square(noise).sum()) / targets.size
    excess = (np.square(targets) - noise).mean() - spread
    variance = max(
        RECONSTRUCTION.least_variance / problem.n_samples,
        excess / (np.square(matrix).mean() or 1.0),
    )
    legal = problem.legal().ravel()
    found = nearest_distribution(
        legal / legal.sum(),
        matrix.__matmul__,
        lambda x: x @ matrix,
        targets,
        noise / variance,
        projection_steps(problem),
    )
    distribution = Histogram(found, problem.shape)
    return SynthesisResult(distribution, distribution.answers(problem.workload), 1)


def by_size(subsets: Iterable[Subset], shape: tuple[int, ...]) -> list[Subset]:
    """Sort subsets by their number of columns, then by their number of contrasts."""
    return sorted(subsets, key=lambda s: (len(s), n_contrasts(s, shape), s))


def projection_steps(problem: QueryProblem) -> int:
    """Number of steps of a projection, which takes a few seconds at most."""
    return min(
        RECONSTRUCTION.steps, max(RECONSTRUCTION.enough, RECONSTRUCTION.work // problem.n_cells)
    )


def _in_domain(problem: QueryProblem, subsets: Iterable[Subset]) -> np.ndarray:
    everything = tuple(range(problem.n_columns))
    return np.concatenate([positions(everything, s, problem.shape) for s in subsets])
