"""Grid search under one privacy budget."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from skdpsco._random import public_generator, without_warnings
from skdpsco._typing import Auto, MatrixLike, Self, TargetLike
from skdpsco._validation import HasMethods, Interval, StrOptions
from skdpsco.base.grants import Grant
from skdpsco.base.parameters import Constraints, with_parameters
from skdpsco.base.private_estimator import LABELS_OF_UNITS, PrivateEstimator, plan_within
from skdpsco.data.block_records import is_blocks
from skdpsco.inspection._cost import relation_of
from skdpsco.privacy import Budget, Poisson, Tries, TruncatedNegativeBinomial

from . import _allotment
from ._best import BestEstimatorMixin
from ._fitting import (
    Part,
    check_data,
    declare_classes,
    fit_and_sum,
    in_parallel,
    n_classes_of,
    target_bound_of,
)
from ._selection import (
    SEARCH,
    SearchPlan,
    best_try,
    choose_winner,
    comparison_noise,
    least_difference,
    plan_search,
    release_scorer,
    shown_scores,
)
from .scorers import PrivateScorer, check_scorer, resolve_scorer

__all__ = ["PrivateGridSearchCV"]

_FACTOR = r"[1-9]\d*(\.\d+)?"  # joblib would evaluate more, but only with several workers
_PRE_DISPATCH = re.compile(rf"all|[1-9]\d*|({_FACTOR} *\* *)?n_jobs|n_jobs *\* *{_FACTOR}")

_NOT_SHOWN = (
    "only the choice is released, not the scores of candidates (return_scores=True releases them); "
    "noise can hide differences of less than {:.2g} between scores"
)
RESERVED = ("epsilon", "delta", "ledger", "random_state")


class SearchTask(NamedTuple):
    """What is searched.

    Parameters
    ----------
    grid : list of dict
        The candidates' parameters.
    candidates : list of estimator
    scoring : PrivateScorer or str
    data, train, validation : Part
        All records, those of fits and those of scores: all three are the same unless some records
        are held out.
    labels : tuple of str
        A line for the report, if labels are taken from y.
    public : numpy.random.RandomState
        Source of public seeds.
    """

    grid: list[dict[str, Any]]
    candidates: list[Any]
    scoring: PrivateScorer | str
    data: Part
    train: Part
    validation: Part
    labels: tuple[str, ...]
    public: np.random.RandomState


@with_parameters(
    cv="One public random split takes the place of cross-validation: `validation_fraction`."
)
class PrivateGridSearchCV(  # type: ignore[override]
    BestEstimatorMixin, MetaEstimatorMixin, PrivateEstimator
):
    """Grid search whose total cost, including tuning, is one (epsilon, delta).

    Candidates are scored, with noise, on held-out records, or on all records if the budget is
    small. There is no cross-validation. Private steps of a pipeline share the budget, and
    one with a larger ``epsilon`` gets a larger part.

    Parameters
    ----------
    estimator : estimator
        A private estimator, or a pipeline of steps that are private or independent of the data.
    param_grid : dict or list of dicts
        As in `sklearn.model_selection.GridSearchCV`, without epsilon, delta, ledger and
        random_state.
    {epsilon, delta, ledger, max_records_per_unit}
    strategy : {"auto", "random-stopping", "composition"}, default="auto"
        "random-stopping" tries a secret, random number of candidates. "composition" tries each
        candidate once, with a smaller share of the budget. "auto" is "composition" with a ledger,
        blocks or ``return_scores``, otherwise "random-stopping". See :doc:`/random-stopping`.
    scoring : {"accuracy", "r2", "neg_clipped_squared_error"}, PrivateScorer or None, default=None
        None is "accuracy" for classifiers and "r2" for regressors. Squared errors are clipped at a
        limit that is found privately. `make_private_scorer` makes other scorers.
    n_jobs : int or None, default=None
        Number of parallel fits, as in joblib.
    refit : bool or "auto", default="auto"
        Whether the winner is fitted again to all records; "auto" does so after composition.
    validation_fraction : float or "auto", default="auto"
        Share of the records, in [0, 1), held out for scores. "auto" takes none with a small budget.
    search_share : float or "auto", default="auto"
        Share of the budget, in (0, 1), for the search if the winner is refitted. "auto" is half.
    return_scores : bool, default=False
        Whether to release noisy scores ("composition" only). The choice is then less reliable.
    tries : TruncatedNegativeBinomial, Poisson or "auto", default="auto"
        Distribution of the number of tries in "random-stopping", from `skdpsco.privacy`.
    pre_dispatch : int or str, default="2*n_jobs"
        As in joblib.
    record_wise : list of str or callable, default=()
        Names of steps, and functions, that you know treat every record by itself.
    {random_state}

    Attributes
    ----------
    best_estimator_ : estimator
        The fitted winner. Its own ``privacy_`` covers this fit alone.
    best_params_ : dict
    best_index_ : int
    best_score_ : float
        Only with ``return_scores``.
    cv_results_ : dict of arrays
        Parameters and ``std_noise``, the noise in scores; scores only with ``return_scores``.
    scorer_ : PrivateScorer
    n_splits_ : int
        Always 1.
    classes_ : ndarray
    {n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    skdpsco.model_selection.private_cross_val_score : The score of one model, with noise.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/search`.

    References
    ----------
    Papernot, Steinke. Hyperparameter Tuning with Renyi Differential Privacy. ICLR 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateGridSearchCV, PrivateLogisticL1
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 50))
    >>> y = X[:, 0] - X[:, 3] > 0.1
    >>> model = PrivateLogisticL1(feature_bound=1, classes=[False, True])
    >>> search = PrivateGridSearchCV(model, {"radius": [10.0, 30.0, 100.0]}, epsilon=1.0)
    >>> search.fit(X, y).score(X, y) > 0.9
    True
    """

    estimator: Any = field(kw_only=False)
    param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]] = field(kw_only=False)
    strategy: Literal["auto", "random-stopping", "composition"] = "auto"
    scoring: Literal["accuracy", "r2"] | PrivateScorer | None = None
    n_jobs: int | None = None
    refit: bool | Auto = "auto"
    validation_fraction: float | Auto = "auto"
    search_share: float | Auto = "auto"
    return_scores: bool = False
    tries: Any = "auto"
    pre_dispatch: int | str = "2*n_jobs"
    record_wise: Iterable[Any] = ()

    cv_results_: dict[str, Any] = field(init=False)
    best_index_: int = field(init=False)
    best_params_: dict[str, Any] = field(init=False)
    best_estimator_: Any = field(init=False)
    scorer_: Any = field(init=False)
    n_splits_: int = field(init=False)
    best_score_: float = field(init=False)

    _in_blocks = False  # of a draft: whether the records come in blocks
    _parameter_constraints: ClassVar[Constraints] = {
        "estimator": [HasMethods(["fit"])],
        "param_grid": [dict, list],
        "strategy": [StrOptions({"auto", "random-stopping", "composition"})],
        "n_jobs": [None, Integral],
        "refit": [StrOptions({"auto"}), "boolean"],
        "validation_fraction": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="left")],
        "search_share": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="neither")],
        "return_scores": ["boolean"],
        "tries": [StrOptions({"auto"}), TruncatedNegativeBinomial, Poisson],
        "pre_dispatch": [Interval(Integral, 1, 2**31 - 1, closed="both"), str],
        "record_wise": ["array-like"],
    }

    def fit(
        self, X: MatrixLike, y: TargetLike = None, *, units: Any = None, **fit_params: Any
    ) -> Self:
        """Search, and fit the winner.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or RowBlocks
            Records, as the estimator takes them. Blocks are searched by composition, with targets
            in memory.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or None, default=None
            Targets, as the estimator takes them; None if the blocks hold them. Several targets need
            a ``scoring`` made by `make_private_scorer`.
        {units}
        **fit_params : dict
            Arguments of the estimator's ``fit``; those with one entry per record are split like X.

        {outcome}
        RuntimeError
            If an estimator has charged its ledger never, or twice. Nothing is released.
        """
        self._validate_params()
        if not _PRE_DISPATCH.fullmatch(str(self.pre_dispatch)):
            raise ValueError(
                "pre_dispatch must be an int >= 1, 'all' or a product such as '2*n_jobs', got "
                f"{self.pre_dispatch!r}."
            )
        draft = self._draft()
        X, y, *values = self._of_units(units, X=X, y=y, **fit_params)
        draft._search(X, y, dict(zip(fit_params, values, strict=True)))
        return self._accept(draft)

    def _search(self, X: Any, y: Any, fit_params: dict[str, Any]) -> None:
        """Check, plan, rehearse, charge and release; this draft gets the results.

        Only `fit` calls it, since warnings name the line that called `fit`.
        """
        task = self._task(X, y, fit_params)
        plan = self._plan(task)
        to_search, to_refit, advice = self._rehearsed(task, plan)
        frozen = _allotment.frozen_notes(task.candidates, self.record_wise)
        budget = self._budget()
        with self._releasing(self, plan.event, budget, warnings=advice, stacklevel=3) as release:
            scorer = release_scorer(plan.scores, task.scoring, task.validation.y, release.rng)
            tried = plan.draw(len(task.grid), release.rng)
            keep = plan.rho_refit == 0.0  # keep the winner's model
            models = (_allotment.to_fit(to_search[k], release) for k in tried)
            fits = ((model, task.train, task.validation, scorer, keep) for model in models)
            # joblib's messages, which `joblib.parallel_config` may ask for, would reveal the number
            # of tries, which is secret.
            silent = {} if plan.tries is None else {"verbose": 0}
            with without_warnings():  # so would warnings
                results = in_parallel(
                    fit_and_sum, fits, self.n_jobs, pre_dispatch=self.pre_dispatch, **silent
                )
            sums = np.array([result[0] for result in results])
            best, told = self._choose(task, plan, scorer, sums, release.rng)
            # A search that stops before its first try takes a candidate that was fixed in advance.
            self.best_index_ = len(task.grid) // 2 if best is None else int(tried[best])
            self.best_params_ = task.grid[self.best_index_]
            if keep:
                assert best is not None  # laws that allow no try need a refit
                best_estimator = results[best][1]
            else:
                with without_warnings():
                    winner = _allotment.to_fit(to_refit[self.best_index_], release)
                    best_estimator = _allotment.fit_granted(winner, task.data)
            assumed = _allotment.assumptions_of(best_estimator)
            if task.labels:  # those that the search has taken from y look declared to its fits
                assumed = tuple(line for line in assumed if "labels are public" not in line)
            self.best_estimator_ = _allotment.hand_over(best_estimator, self.ledger)
            self.scorer_ = scorer
            self.n_splits_ = 1
            covers = f"covers the choice among {len(task.grid)} candidates and the fit of the best"
            lines = *task.labels, *frozen, *scorer.taken_on_trust, *assumed
            release.assumptions = (covers, told, *lines)

    def _task(self, X: Any, y: Any, fit_params: dict[str, Any]) -> SearchTask:
        """Check parameters and records, and split the records."""
        self._in_blocks = is_blocks(X)
        grid = self._grid()
        candidates = self._candidates(grid)
        scoring = resolve_scorer(self.scoring, self.estimator)
        data = check_data(X, y, fit_params, scoring)
        self.ledger = _allotment.ledger_of((self.estimator, *candidates), self.ledger)
        labels = declare_classes(candidates, data.y)
        if labels and self.max_records_per_unit is not None:
            raise ValueError(LABELS_OF_UNITS)
        # A search within another one splits as it did when the outer one rehearsed it.
        seed = self.ledger.seed if isinstance(self.ledger, Grant) else self.random_state
        public = public_generator(seed)
        order = public.permutation(len(data.y))
        n_held_out = self._n_held_out(len(data.y), self._available(self._budget()).rho)
        validation = train = data
        if n_held_out:
            validation, train = data.rows(order[:n_held_out]), data.rows(order[n_held_out:])
        return SearchTask(grid, candidates, scoring, data, train, validation, labels, public)

    def _plan(self, task: SearchTask) -> SearchPlan:
        """Divide the budget, from public sizes alone."""
        target_bound, tries = target_bound_of(task.candidates), self._tries(len(task.grid))
        return plan_within(
            lambda spend: plan_search(
                budget=spend,
                n_candidates=len(task.grid),
                n_validation=len(task.validation.y),
                scorer=task.scoring,
                target_bound=target_bound,
                share=self._share(),
                tries=tries,
                held_out=task.train is not task.data,
            ),
            self._available(self._budget()),
        )

    def _rehearsed(self, task: SearchTask, plan: SearchPlan) -> tuple[Any, Any, list[str]]:
        """The candidates with the budget of a try and with that of the refit, and common advice.

        A mistake in a parameter or in the data must cost nothing. Any candidate may win, and advice
        on only some of them is what the search is for.
        """
        parts = (plan.rho_fit, task.train), (plan.rho_refit or plan.rho_fit, task.data)
        budgets = [rho for rho, _ in parts]
        _allotment.check_private(task.candidates, task.data, self.record_wise, budgets)
        unit = self._budget().max_records_per_unit
        fits = [
            (_allotment.allot(candidate, rho, self.delta, task.public, unit), part)
            for candidate in task.candidates
            for rho, part in parts
        ]
        advice = in_parallel(
            _allotment.rehearse, fits, self.n_jobs, verbose=0, pre_dispatch=self.pre_dispatch
        )
        n_classes = n_classes_of(task.candidates[0], task.data.y)
        check_scorer(task.scoring, task.candidates, task.validation.y, n_classes)
        allotted = [one for one, _ in fits]
        common = [text for text in advice[0] if all(text in texts for texts in advice)]
        return allotted[::2], allotted[1::2], common

    def _choose(
        self, task: SearchTask, plan: SearchPlan, scorer: PrivateScorer, sums: np.ndarray, rng: Any
    ) -> tuple[int | None, str]:
        """Choose among the tries with noise, and set the results that are shown.

        Returns
        -------
        best : int or None
            Index of the winner among the tries; None without tries.
        told : str
            A line for the report.
        """
        self.cv_results_ = _results_of(task.grid)
        y = task.validation.y
        if self.return_scores:
            scores, shown, noise = shown_scores(sums, task.scoring, scorer, y, plan.scores.rho, rng)
            best = int(scores.argmax())
            self.best_score_ = float(shown[best])
            ranks = rankdata(-scores, method="min")  # ties of shown scores are broken
            self.cv_results_["mean_test_score"] = shown
            self.cv_results_["rank_test_score"] = ranks.astype(np.int32)
            self.cv_results_["std_noise"] = noise
            close = scores > scores[best] - least_difference(noise, noise[best])
            return best, f"{close.sum() - 1} scores are too close to the best to be told from it"
        deviation = comparison_noise(plan, scorer, len(y))
        self.cv_results_["std_noise"] = np.full(len(task.grid), deviation)
        told = _NOT_SHOWN.format(least_difference(deviation, deviation))
        if plan.tries is None:
            return choose_winner(sums, scorer, len(y), plan.scores.rho, rng), told
        return best_try(sums, scorer, len(y), plan.rho_score, rng), told

    def _grid(self) -> list[dict[str, Any]]:
        """The candidates' parameters."""
        grid = list(ParameterGrid(self.param_grid))
        if not grid:
            raise ValueError(f"param_grid must hold at least one candidate, got {self.param_grid}.")
        names = {name for params in grid for name in params}
        reserved = sorted(name for name in names if name.rsplit("__", 1)[-1] in RESERVED)
        if reserved:
            raise ValueError(
                f"param_grid must not contain {reserved}: the search sets the budget, the ledger "
                "and the seeds of its fits."
            )
        known = clone(self.estimator).get_params()
        for name in sorted(names - known.keys()):
            if meant := [one for one in known if one.endswith(f"__{name}")]:
                raise ValueError(f"param_grid must name the steps of parameters: {meant}.")
        return grid

    def _candidates(self, grid: list[dict[str, Any]]) -> list[Any]:
        return [clone(self.estimator).set_params(**clone(params, safe=False)) for params in grid]

    @property
    def _relation(self) -> str:
        return relation_of(*self._candidates(self._grid()))  # any of them may be fitted

    def _candidates_of_fit(self) -> list[tuple[str, Any]]:
        return [("estimator", candidate) for candidate in self._candidates(self._grid())]

    def _n_held_out(self, n_samples: int, rho: float) -> int:
        """Number of records for scores alone; 0 if all records are for both fits and scores."""
        fraction = self.validation_fraction
        if isinstance(fraction, str):
            # Scores that are shown should be those of new records.
            shares = rho <= SEARCH.little_rho and not self.return_scores
            fraction = 0.0 if shares else 0.2
        if fraction == 0.0:
            return 0
        n_held_out = round(fraction * n_samples)
        if not 1 <= n_held_out < n_samples:
            raise ValueError(
                f"validation_fraction={self.validation_fraction!r} of n_samples={n_samples} leaves "
                "no record in one of the parts."
            )
        return n_held_out

    def _stops_at_random(self) -> bool:
        alone = isinstance(self._available(self._budget()), Budget)
        automatic = alone and not self.return_scores and not self._in_blocks
        stops = automatic if self.strategy == "auto" else self.strategy == "random-stopping"
        if stops and self._in_blocks:
            raise ValueError(
                "strategy must be 'composition' for RowBlocks: how often files are read would "
                "reveal the number of tries."
            )
        return stops

    def _refits(self) -> bool:
        return not self._stops_at_random() if isinstance(self.refit, str) else bool(self.refit)

    def _share(self) -> float:
        """Share of the search, in zCDP."""
        if not self._refits():
            return 1.0
        return 0.5 if isinstance(self.search_share, str) else float(self.search_share)

    def _tries(self, n_candidates: int) -> Tries | None:
        """The distribution of the number of tries; None if every candidate is tried once."""
        if not self._stops_at_random():
            return None
        if self.return_scores:
            raise ValueError("return_scores=True needs strategy='composition'.")
        if isinstance(self.tries, str):
            return TruncatedNegativeBinomial.for_mean(
                SEARCH.tries_shape, SEARCH.tries_per_candidate * n_candidates
            )
        if isinstance(self.tries, Poisson) and not self._refits():
            raise ValueError(
                "tries=Poisson(...) needs refit=True: there may be no try, and so no model."
            )
        return self.tries

    def score(self, X: MatrixLike, y: TargetLike = None) -> float:
        """Score of the best estimator, without noise: do not publish it for private records.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records, as the estimator takes them.
        y : array-like of shape (n_samples,)
            True targets.

        Returns
        -------
        score : float
            Score by ``scoring`` if that is a `PrivateScorer`, otherwise by the estimator's
            ``score``.
        """
        check_is_fitted(self)
        if isinstance(self.scoring, PrivateScorer):
            return self.scorer_(self.best_estimator_, X, y)
        return self.best_estimator_.score(X, y)


def _results_of(grid: list[dict[str, Any]]) -> dict[str, Any]:
    """Parameters of the candidates, as GridSearchCV shows them."""
    results: dict[str, Any] = {}
    for i, params in enumerate(grid):
        for name, value in params.items():
            empty = np.ma.MaskedArray(np.empty(len(grid), dtype=object), mask=True)
            results.setdefault(f"param_{name}", empty)[i] = value
    return {**results, "params": grid}
