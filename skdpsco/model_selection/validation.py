"""Cross-validation of a private estimator, whose score is released with noise."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone

from skdpsco._random import public_generator, seed_of, without_warnings
from skdpsco._validation import check_int
from skdpsco.base.private_estimator import (
    Payer,
    check_budget,
    check_persons,
    public_only,
    releasing,
)
from skdpsco.inspection._cost import declared_rho, relation_of
from skdpsco.inspection._steps import check_record_wise
from skdpsco.privacy import Budget, RepeatedEvent, ZCDPEvent, compose, epsilon_of
from skdpsco.privacy._checks import abridged
from skdpsco.privacy.accounting import for_units
from skdpsco.privacy.report import PrivacyReport

from . import _allotment
from ._fitting import (
    Part,
    check_data,
    declare_classes,
    fit_and_sum,
    in_parallel,
    n_classes_of,
    target_bound_of,
)
from ._selection import plan_scores, release_scorer, shown_scores
from .scorers import PrivateScorer, check_scorer, resolve_scorer

__all__ = ["PrivateScore", "private_cross_val_score"]


class PrivateScore(NamedTuple):
    """A noisy score.

    Parameters
    ----------
    score : float
    noise_std : float
        Standard deviation of the noise in it; for "r2", to first order in the noise.
    privacy : PrivacyReport
        The guarantee of the score, models included.
    """

    score: float
    noise_std: float
    privacy: PrivacyReport

    def __repr__(self) -> str:
        return (
            f"PrivateScore(score={self.score:.6g}, noise_std={self.noise_std:.3g}, "
            f"epsilon={self.privacy.epsilon:.6g}, delta={self.privacy.delta:g})"
        )

    def __str__(self) -> str:
        return f"score       {self.score:.6g}\nnoise_std   {self.noise_std:.3g}\n{self.privacy}"


class Folds(NamedTuple):
    """Records in folds.

    Parameters
    ----------
    data : Part
        All records.
    rows : list of ndarray
        The numbers of the records of every fold.
    n_jobs : int or None
    """

    data: Part
    rows: list[np.ndarray]
    n_jobs: int | None

    def parts(self) -> Iterator[tuple[Part, Part]]:
        """For every fold all other records, and its own."""
        everyone = np.arange(len(self.data.y))
        for fold in self.rows:
            yield self.data.rows(np.setdiff1d(everyone, fold)), self.data.rows(fold)

    def rehearse(self, allotted: Any) -> Iterable[str]:
        """Rehearse the fits to all other records, and return what is advised."""
        fits = ((allotted, others) for others, _ in self.parts())
        return dict.fromkeys(chain(*in_parallel(_allotment.rehearse, fits, self.n_jobs)))

    def sum_of_scores(self, models: list[Any], scorer: PrivateScorer) -> float:
        """Fit a model to all records outside of each fold; the sum of the scores in the folds."""
        pairs = zip(models, self.parts(), strict=True)
        fits = ((model, *parts, scorer, False) for model, parts in pairs)
        with without_warnings():
            return sum(found for found, _ in in_parallel(fit_and_sum, fits, self.n_jobs))


def private_cross_val_score(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float = 0.1,
    delta: float = 1e-6,
    ledger: Any = None,
    scoring: PrivateScorer | str | None = None,
    cv: int = 5,
    n_jobs: int | None = None,
    fit_params: dict[str, Any] | None = None,
    record_wise: Iterable[Any] = (),
    random_state: Any = None,
) -> PrivateScore:
    """Release the mean cross-validated score of a private estimator, with noise.

    Replacing one record changes ``cv - 1`` of the models, and the record's own score. The cost is
    therefore that of ``cv - 1`` fits of the estimator, with the budget that it declares, plus
    (epsilon, delta) for the mean of the scores over all records.

    Parameters
    ----------
    estimator : estimator
        A private estimator, or a pipeline whose steps are private or data-independent.
    X : array-like or sparse matrix of shape (n_samples, n_features), or RowBlocks
    y : array-like of shape (n_samples,) or (n_samples, n_targets), or None
        None if the blocks hold the targets.
    epsilon, delta : float, default=0.1 and 1e-6
        Budget of the score alone.
    ledger : Ledger or None, default=None
        Ledger that is charged once, with the cost of everything. None uses that of the estimator.
    scoring : {"accuracy", "r2", "neg_clipped_squared_error"}, PrivateScorer or None, default=None
        As in `PrivateGridSearchCV`.
    cv : int, default=5
        Number of random folds, in [2, n_samples].
    n_jobs : int or None, default=None
        Number of parallel fits, as in joblib.
    fit_params : dict or None, default=None
        Arguments of ``fit``; those with one entry per record are split like X.
    record_wise : list of str or callable, default=()
        As in `PrivateGridSearchCV`.
    random_state : int, RandomState instance or None, default=None
        As in `PrivateGridSearchCV`.

    Returns
    -------
    result : PrivateScore
        ``score``, ``noise_std`` and ``privacy``, the guarantee of everything.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range, or the estimator is not private; no noise has been drawn
        then.
    BudgetExceededError
        If the ledger's remaining budget is too small.
    RuntimeError
        If an estimator has charged its ledger never, or twice. Nothing is released.

    See Also
    --------
    PrivateGridSearchCV : Tuning under one budget.
    sklearn.model_selection.cross_val_score : The score without noise.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record; the number of records is public.
    Proof: :doc:`/proofs/search`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLogisticL1
    >>> from skdpsco.model_selection import private_cross_val_score
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 20))
    >>> y = X[:, 0] - X[:, 3] > 0.1
    >>> model = PrivateLogisticL1(epsilon=0.5, classes=[False, True])
    >>> result = private_cross_val_score(model, X, y, epsilon=0.1, cv=3)
    >>> bool(result.score > 0.9), bool(result.privacy.epsilon < 0.8)
    (True, True)
    """
    seed = seed_of(random_state)  # before the folds, which draw from the same state
    record_wise = check_record_wise(record_wise)
    if not isinstance(estimator, BaseEstimator):
        raise TypeError(
            f"estimator must be an estimator of scikit-learn, got {abridged(estimator)}."
        )
    if not isinstance(fit_params, (Mapping, NoneType)):
        raise TypeError(f"fit_params must be None or a dict, got {type(fit_params).__name__}.")
    ledger = _allotment.ledger_of([estimator], ledger)
    check_persons(estimator, ledger)
    budget = check_budget(epsilon, delta, ledger)
    k = budget.max_records_per_unit
    score_by = resolve_scorer(scoring, estimator)
    data = check_data(X, y, fit_params or {}, score_by)
    rho_fit = float(declared_rho(estimator).sum()) / k**2
    _allotment.check_private([estimator], data, record_wise, [rho_fit])
    n = len(data.y)
    if n < 2:
        raise ValueError(f"X must have at least 2 records to be validated, got n_samples={n}.")
    check_int("cv", cv, "", 2, n)
    estimator = clone(estimator)
    labels = declare_classes([estimator], data.y)

    scores = plan_scores(score_by, target_bound_of([estimator]), n, budget.rho)
    fits = RepeatedEvent(ZCDPEvent(rho_fit), int(cv) - 1)
    event = compose(fits, scores.event, ZCDPEvent(scores.rho))
    public = public_generator(random_state)
    folds = Folds(data, np.array_split(public.permutation(n), cv), n_jobs)
    allotted = _allotment.allot(estimator, rho_fit, budget.delta, public, k)
    advice = folds.rehearse(allotted)
    check_scorer(score_by, [estimator], data.y, n_classes_of(estimator, data.y))

    frozen = _allotment.frozen_notes([estimator], record_wise)
    parameters = public_only({"estimator": estimator, "cv": int(cv)})
    payer = Payer(ledger, "private_cross_val_score", parameters, relation_of(estimator))
    guarantee = Budget(epsilon_of(for_units(event, k), budget.delta), budget.delta, k)
    covers = f"covers the score and {cv} models, which stay secret"
    with releasing(payer, event, guarantee, seed, warnings=advice) as release:
        models = [_allotment.to_fit(allotted, release) for _ in folds.rows]
        scorer = release_scorer(scores, score_by, data.y, release.rng)
        total = np.array([folds.sum_of_scores(models, scorer)])
        _, shown, noise = shown_scores(total, score_by, scorer, data.y, scores.rho, release.rng)
        release.assumptions = (covers, *labels, *frozen, *scorer.taken_on_trust)
    assert release.privacy is not None
    return PrivateScore(float(shown[0]), float(noise[0]), release.privacy)
