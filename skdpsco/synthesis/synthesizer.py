"""Private answers to many queries about a table, and synthetic records."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn import get_config
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skdpsco._typing import Auto, MatrixLike, Seed, Self, SolverLike, TargetLike
from skdpsco._validation import (
    HasMethods,
    check_int,
    check_n_iter,
)
from skdpsco.base.parameters import Constraints, StepParameters, with_parameters
from skdpsco.base.private_estimator import PrivateEstimator, resolve_solver
from skdpsco.data.block_records import as_features, blocks_of, first_record, opened
from skdpsco.data.record_sums import one_blas_thread
from skdpsco.data.row_blocks import RowBlocks, without
from skdpsco.data.schema import Schema
from skdpsco.privacy import compose
from skdpsco.privacy.report import ReleasedStep
from skdpsco.privacy.spending import left_after
from skdpsco.solvers import MultiplicativeWeights, SelectMeasure
from skdpsco.solvers.base import assumed_of, decided
from skdpsco.solvers.synthesis.measure_project import MeasureProject
from skdpsco.solvers.synthesis.multiplicative_weights import MIRROR_DESCENT
from skdpsco.solvers.synthesis.workload import CodeBlocks, LinearQueries, Marginals
from skdpsco.synthesis.bins import MergedBins
from skdpsco.synthesis.columns import PANDAS, POLARS, ColumnTable, read_table
from skdpsco.synthesis.domain import Domain, Encoder, dates_in, declare
from skdpsco.synthesis.learned_bins import plan_bins
from skdpsco.synthesis.queries import legal, problem_of, tabulate, workload_of

__all__ = ["PrivateSynthesizer"]

SYNTHESIS_SOLVERS: dict[str, Any] = {
    "auto": MeasureProject,
    "measure-project": MeasureProject,
    "select-measure": SelectMeasure,
    "multiplicative-weights": MultiplicativeWeights,
    "mirror-descent": partial(MultiplicativeWeights, MIRROR_DESCENT),
}


@contextmanager
def _codes_of(
    domain: Domain, table: ColumnTable, blocks: RowBlocks | None, others: tuple[str, ...]
) -> Iterator[Any]:
    """The codes of all records: an array, or blocks, all of which have been checked."""
    if blocks is None:
        yield domain.encode(table.columns)
        return
    d = len(table.columns)
    with opened(as_features(blocks.map(Encoder(domain, others))), np.ones(d)) as design:
        yield CodeBlocks(design, tuple(range(d)), (None,) * d)


@with_parameters()
class PrivateSynthesizer(StepParameters, PrivateEstimator):
    """Differentially private answers to many queries about a table, and synthetic records.

    It finds a distribution that agrees with the records in many queries: by default, all counts by
    three columns. `sample` draws records from it. Samples and other answers cost nothing more.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    domain : list, dict, Series, int, Bins or Schema
        Required. Public values of every column, in order or by name: a list of categories, `Bins`
        of numbers, or an int k for 0, ..., k - 1. Other categories raise errors; numbers beyond
        the edges count in outer bins. For a Schema, bins are found privately, without ``person``.
    constraints : list of (dict, dict) or None, default=None
        Pairs (if, then), from public knowledge, that hold in all synthetic records, such as
        ``({"age": (0, 16)}, {"married": False})``. A dict maps columns, by name or position, to a
        value, a list of values, or a range (low, high) that excludes high.
        Constraints need "measure-project".
    workload : str, list of tuple, ndarray or list of callable, default="marginals"
        "marginals": all counts by ``order`` columns. Tuples: counts by these columns. An array of
        shape (n_queries, n_cells), or callables on a table of cells: means of functions, for small
        domains.
    order : int or "auto", default="auto"
        Number of columns of each table of "marginals". "auto" is 3, or 2 with a ``target``.
    target : str, int or None, default=None
        Name or position of a column that models of the synthetic records will predict. "marginals"
        are then only the counts by this and other columns.
    solver : str or object, default="auto"
        "measure-project" ("auto"), "select-measure", "multiplicative-weights", "mirror-descent", or
        an object with ``plan`` and ``run``. See :doc:`/algorithms`.
    {n_iter, random_state}

    Attributes
    ----------
    answers_ : ndarray of shape (n_answers,)
        Answers to the workload: shares of records in the cells of each table, in C order, or means.
    tables_ : tuple of tuple of int, or None
        The columns of these tables.
    distribution_ : Histogram or ProductMixture
        Distribution over integer-coded values.
    domain_ : Domain
    {n_iter_, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    Bins : How numbers become categories.
    Schema : What is public about a table.

    Notes
    -----
    {guarantee}
    Samples also have sampling error. Models fitted to them see only what the workload measures.
    Proof: :doc:`/proofs/measure_project`.

    References
    ----------
    Xiao, He, Zhang, Kifer. An Optimal and Scalable Matrix Mechanism for Noisy Marginals under
    Convex Loss Functions. NeurIPS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpsco import Bins, PrivateSynthesizer
    >>> rng = np.random.default_rng(0)
    >>> age = rng.integers(18, 90, 20000)
    >>> ill = np.where(rng.uniform(0, 100, 20000) < age, "yes", "no")
    >>> domain = {"age": Bins([18, 40, 65, 90]), "ill": ["no", "yes"]}
    >>> model = PrivateSynthesizer(epsilon=1.0, domain=domain)
    >>> model.fit(pd.DataFrame({"age": age, "ill": ill})).query(("age", "ill")).round(1)
    array([[0.2, 0.1],
           [0.2, 0.2],
           [0.1, 0.3]])
    >>> model.sample(1000).columns.tolist()
    ['age', 'ill']
    """

    domain: Any = None
    constraints: Any = None
    workload: Any = "marginals"
    order: int | Auto = "auto"
    target: Any = None
    solver: str | SolverLike = "auto"

    answers_: np.ndarray = field(init=False)
    tables_: tuple[tuple[int, ...], ...] | None = field(init=False)
    distribution_: Any = field(init=False)
    domain_: Domain = field(init=False)
    n_iter_: int = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        "domain": "no_validation",  # by `declare`
        "constraints": "no_validation",
        "workload": "no_validation",
        "target": [None, str, Integral],
        "order": "no_validation",
        "solver": [str, HasMethods(["plan", "run"])],
    }

    def fit(self, X: MatrixLike, y: TargetLike = None, *, units: Any = None) -> Self:
        """Release answers and a distribution.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or blocks
            Categories and numbers, as ``domain`` says; an array, lists, or a frame of pandas or
            polars. Blocks are `RowBlocks`, a Dask array or data frame, or an Arrow table.
        y : None
            Ignored. Pass labels as a column of X if synthetic records should have them.
        {units}

        {outcome}
        """
        self._validate_params()
        solver, n_iter = resolve_solver(self.solver, SYNTHESIS_SOLVERS), check_n_iter(self.n_iter)
        if n_iter not in (None, 1) and getattr(solver, "measures_once", False):
            raise ValueError(
                f"n_iter must be 'auto' or 1 for solver={self.solver!r}, which measures once; got "
                f"{n_iter}."
            )
        draft = self._draft()
        (X,) = self._of_units(units, X=X)
        blocks = blocks_of(X)
        if blocks is not None and not getattr(solver, "by_blocks", False):
            raise ValueError(f"solver={self.solver!r} does not take RowBlocks. Pass X as a frame.")
        person = self.domain.person if isinstance(self.domain, Schema) else None
        others = () if person is None else (person,)
        table = read_table(draft, without(first_record(X), others), dates_in(self.domain))
        n = len(table.columns[0]) if blocks is None else blocks.n_samples
        d = len(table.columns)
        budget = self._budget()
        domain = declare(self.domain, table, self.constraints)
        if domain.constraints and not getattr(solver, "keeps_constraints", False):
            raise ValueError(
                f"constraints need solver='measure-project' or 'auto', got {self.solver!r}."
            )
        workload = workload_of(self.workload, self.order, self.target, domain)
        problem = problem_of("workload", domain, workload, n)
        available: Any = self._available(budget)
        by_tables = isinstance(workload, Marginals)
        learned = by_tables and any(isinstance(entry, MergedBins) for entry in domain.entries)
        steps: list[Any] = []
        if learned:
            binning = self._planned(lambda spend: plan_bins(n, domain, spend.mu), available, n, d)
            available = left_after(available, binning.event)
            steps.append(("bins of numbers", binning.event, "about equally many records in each"))
        plan = self._planned(
            lambda spend: solver.plan(problem, spend, n_iter), available, n, d, "n_iter"
        )
        steps.append(("answers", plan.event, decided(plan)))
        event = compose(*(event for _, event, _ in steps))
        assumptions = ("the domain, constraints and queries are public", *assumed_of(solver, plan))
        if not all(isinstance(entry, np.ndarray) for entry in domain.entries):
            assumptions += ("numbers beyond the outer edges are counted in the outer bins",)
        with (
            _codes_of(domain.fine if learned else domain, table, blocks, others) as codes,
            self._releasing(
                draft, event, budget, assumptions=assumptions, warnings=plan.warnings
            ) as release,
            one_blas_thread(),  # many small products: threads would only wait
        ):
            if learned:
                domain = binning.release(codes, domain, release.rng)
                codes = domain.merged(codes)
                problem = replace(problem, possible=domain.possible)
                release.steps = ReleasedStep.all_of(steps, event)
            result = self._follow(solver, plan, problem, codes, release.rng)
        draft.domain_, draft.distribution_ = domain, result.distribution
        draft.answers_, draft.n_iter_ = result.answers, result.n_iter
        draft.tables_ = workload.columns(d) if by_tables else None
        return self._accept(draft)

    def sample(self, n_samples: int = 1, random_state: Seed = None) -> Any:
        """Draw synthetic records, which costs no privacy budget.

        Each record alone has the released distribution. Together they follow it more closely than
        independent draws would.

        Parameters
        ----------
        n_samples : int, default=1
            Number of records, at least 1.
        random_state : int, RandomState instance or None, default=None
            A seed is harmless here, and gives no warning: records are drawn from what the fit has
            released, so whoever knows the seed learns nothing more about the data.

        Returns
        -------
        X : array or frame of shape (n_samples, n_features)
            The same kind of table as the X of the fit, with its columns and dtypes, or
            what `set_output` says. Categorical columns have the declared categories. Numbers are
            uniform in `Bins`, and follow the released densities in bins that the fit has found; in
            columns of integers they are integers. Dates are days: datetime64[s] in pandas.

        Raises
        ------
        ValueError, TypeError
            If ``n_samples`` is not an int >= 1.
        """
        check_is_fitted(self)
        n = check_int("n_samples", n_samples)
        seed = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
        rng = np.random.default_rng(seed)
        codes = self.distribution_.sample(n, rng)
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform")
        chosen = get_config()["transform_output"] if chosen is None else chosen
        return self.domain_.decode(codes, rng, None if chosen == "default" else chosen)

    def query(self, q: Any) -> Any:
        """Answer a query, which costs no privacy budget.

        Parameters
        ----------
        q : str, tuple, callable or ndarray of shape (n_cells,) or (n_queries, n_cells)
            A query as in ``workload``: the name of a column, or a tuple of names and positions; a
            function of an array or frame of all cells; or values on all cells.

        Returns
        -------
        answer : ndarray or float
            For columns, an array of probabilities with one axis per column, in the given order. For
            all columns, these are the probabilities of all cells.

        Raises
        ------
        ValueError, TypeError
            If the query is not legal, or needs too many cells.

        Notes
        -----
        A table of the workload has its answers from ``answers_``, everything else from
        ``distribution_``. The two differ for domains of more than 2**20 cells, where the former
        are closer to the records.
        """
        check_is_fitted(self)
        domain = self.domain_
        if callable(q):
            q = tabulate("q", [q], domain)[0]
        if isinstance(q, np.ndarray):
            single = q.ndim == 1
            workload = legal("q", LinearQueries, np.atleast_2d(q))
            problem_of("q", domain, workload)
            found = self.distribution_.answers(workload)
            return float(found[0]) if single else found
        columns = (q,) if isinstance(q, str) else q
        if not isinstance(columns, (tuple, list)):
            raise TypeError(
                "q must be a name of a column, a tuple of columns, a callable or an array, got "
                f"{q!r}."
            )
        workload = legal("q", lambda: Marginals([domain.positions(columns)]))
        problem_of("q", domain, workload)
        return self._table(workload.columns(len(domain.shape))[0])

    def _table(self, columns: tuple[int, ...]) -> np.ndarray:
        """Probabilities of the cells of a table, from the answers if these contain it."""
        shape, start = self.domain_.shape, 0
        for table in self.tables_ or ():
            sizes = [shape[j] for j in table]
            stop = start + int(np.prod(sizes))
            if set(table) == set(columns):
                found = self.answers_[start:stop].reshape(sizes)
                return found.transpose([table.index(j) for j in columns]).copy()
            start = stop
        return self.distribution_.marginal(columns)

    def set_output(
        self, *, transform: Literal["default", "pandas", "polars"] | None = None
    ) -> Self:
        """Choose what `sample` returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            "default" is the type of X in the fit, and None changes nothing. Without a choice,
            ``sklearn.set_config(transform_output=...)`` decides.

        Returns
        -------
        self : object
            The synthesizer itself.

        Raises
        ------
        ValueError
            If ``transform`` is not one of these.
        """
        legal = ("default", PANDAS, POLARS)
        if transform is not None:
            if transform not in legal:
                raise ValueError(f"transform must be None or one of {legal}, got {transform!r}.")
            self._sklearn_output_config = {"transform": transform}  # `clone` copies it
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
