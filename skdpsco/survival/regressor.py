"""Private proportional hazards."""

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import FLOATS, as_numbers, check_X_y
from skdpsco.base.advice import doubts_about_events
from skdpsco.base.parameters import Constraints, with_parameters
from skdpsco.base.predictions import refuse_blocks
from skdpsco.data.block_records import is_blocks
from skdpsco.linear_model._inference import CoefficientInference
from skdpsco.linear_model._penalized import AnySolver, CompositeModel, check_weight, mixed_penalty
from skdpsco.losses.hazards import ProportionalHazards
from skdpsco.scaling.stages import Units
from skdpsco.scaling.target import Target
from skdpsco.survival._concordance import concordance
from skdpsco.survival._counts import (
    SURVIVAL,
    Baseline,
    LifeTablePlan,
    SurvivalCounts,
    plan_life_table,
)
from skdpsco.survival._records import check_outcomes, check_times, signed_times

__all__ = ["PrivateSurvivalRegressor"]


@with_parameters()
class PrivateSurvivalRegressor(CoefficientInference, CompositeModel):
    """Differentially private proportional hazards: the risk of an event that some never have.

    The hazard of a person is ``h(t) * exp(x'w + b)``. A tenth of the budget releases the numbers of
    events and of censored people in declared intervals, which tell the cumulative baseline hazard
    ``H(t)`` of all people together. The rest minimises ``1 / n_samples * sum_i (H(t_i) * exp(x_i'w
    + b) - d_i * (x_i'w + b)) + alpha / 2 * ||w||^2``, where person i was seen until ``t_i`` and had
    an event (``d_i = 1``) or not. A person has one term, however many intervals there are. If a
    third column of y holds times of entry ``s_i``, the term has ``H(t_i) - H(s_i)``.

    Parameters
    ----------
    times : array-like of shape (n_times,)
        Public ends of the intervals, increasing and > 0; they have to be declared. The last one is
        the horizon: what is later is not read.
    {epsilon, delta, ledger, max_records_per_unit}
    alpha : float, default=0.001
        Weight of the penalty, >= 0.
    {feature_bound, n_iter, standard_errors, random_state}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Logarithms of hazard ratios.
    {intercept_}
    unique_times_ : ndarray of shape (n_times,)
        The declared times.
    baseline_ : ndarray of shape (n_times,)
        Cumulative baseline hazard at these times.
    counts_ : SurvivalCounts
        The released numbers of events and of censored people.
    {feature_bound_, feature_range_, n_iter_, errors, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateKaplanMeier : Curves without features.
    PrivateSplineTransformer : A step before this model, for effects that are curves.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/survival`.

    References
    ----------
    Holford. The Analysis of Rates and of Survivorship Using Log-Linear Models. Biometrics, 1980.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.survival import PrivateSurvivalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 2))
    >>> time = rng.exponential(np.exp(-X[:, 0]))
    >>> y = np.column_stack([time < 1, np.minimum(time, 1)])
    >>> model = PrivateSurvivalRegressor(times=[0.25, 0.5, 0.75, 1]).fit(X, y)
    >>> model.score(X, y) > 0.6
    True
    >>> model.predict_survival_function(X[:3]).shape
    (3, 4)
    """

    times: ArrayLike | None = None
    alpha: float = 0.001
    solver: AnySolver = field(init=False, default="auto")
    fit_intercept: bool = field(init=False, default=True)

    unique_times_: np.ndarray = field(init=False)
    baseline_: np.ndarray = field(init=False)
    counts_: SurvivalCounts | None = field(init=False)

    _takes_init = False
    _predicts_scores = False  # of a pipeline of scikit-learn's
    _delayed = False  # of a draft: whether times of entry were given
    _planned_with = ("alpha", "n_iter")

    _parameter_constraints: ClassVar[Constraints] = {
        "times": [None, "array-like"],
    }

    def _learn(self, X: Any, y: Any) -> Any:
        if is_blocks(X):
            raise TypeError("X must hold records in memory for PrivateSurvivalRegressor.")
        times = check_times(self.times)
        records, self._delayed = signed_times(y, times)
        X, _ = check_X_y(self, X, records[:, 0], y_numeric=True, dtype=FLOATS)
        found = self._fit(X, records, ProportionalHazards(), None, (), regression=True)
        if self.standard_errors:
            baseline = Baseline(times, self.baseline_, 0.0, self.counts_)
            self.baseline_ = baseline.for_risks(self.uncertainty_.risk_variance)
        counts: Any = self.counts_
        events, noise = float(counts.table.events.sum()), counts.noise * len(times) ** 0.5
        mu = self._available(self._budget()).mu
        self._doubts = (*self._doubts, *doubts_about_events(events, noise, X.shape[1], mu))
        return found

    def _plan_target(self, loss, bound, n_samples, rho) -> LifeTablePlan:  # type: ignore[override]
        times, delayed = check_times(self.times), self._delayed
        return plan_life_table(times, n_samples, SURVIVAL.share * rho, delayed)

    def _penalty(self, n_samples):
        return mixed_penalty(check_weight("alpha", self.alpha), 0.0)

    def _problem(self, loss, n_samples, bounds, target):
        loss = ProportionalHazards(float(target.cumulative[-1]), target.rate, 0.0, target.usual)
        return super()._problem(loss, n_samples, bounds, Target(1.0, 0.0, 1.0))

    def _set_ranges(self, units: Units) -> None:
        super()._set_ranges(units)
        baseline: Baseline = units.target
        self.unique_times_, self.baseline_ = baseline.times, baseline.cumulative
        self.counts_ = baseline.counts

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Logarithms of the ratios of people's hazards to the baseline's: the risk.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        risk : ndarray of shape (n_samples,)
            Who has a higher one is expected to have the event earlier.
        """
        return self._predictions(X)

    def predict_cumulative_hazard_function(
        self, X: MatrixLike, times: ArrayLike | None = None
    ) -> np.ndarray:
        """Cumulative hazards at some times.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        times : array-like of shape (n_times,) or None, default=None
            Times in [0, horizon]; None for `unique_times_`.

        Returns
        -------
        hazard : ndarray of shape (n_samples, n_times)
            A row for each person.

        Raises
        ------
        ValueError
            If a time is out of range.
        """
        risk = np.exp(np.clip(self.predict(X), -LARGEST_RISK, LARGEST_RISK))
        times = within_horizon(times, self.unique_times_)
        return risk[:, None] * Baseline(self.unique_times_, self.baseline_, 0.0).at(times)

    def predict_survival_function(
        self, X: MatrixLike, times: ArrayLike | None = None
    ) -> np.ndarray:
        """Probabilities of no event until some times.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        times : array-like of shape (n_times,) or None, default=None
            Times in [0, horizon]; None for `unique_times_`.

        Returns
        -------
        survival : ndarray of shape (n_samples, n_times)
            The form that metrics such as `sksurv.metrics.integrated_brier_score` take.

        Raises
        ------
        ValueError
            If a time is out of range.
        """
        return np.exp(-self.predict_cumulative_hazard_function(X, times))

    def score(self, X: MatrixLike, y: TargetLike) -> float:
        """Harrell's index of concordance of `predict`; no noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), (n_samples, 2) or (n_samples, 3)
            Events, times and perhaps entries, as for `fit`. Who has entered later than somebody had
            the event is not compared with that person.

        Returns
        -------
        score : float
            0.5 for risks at random, and 1 if who has a higher risk always has the event first. NaN
            if no two people can be compared.

        Raises
        ------
        ValueError
            If y is not legal, or has another length than X.
        """
        check_is_fitted(self)
        refuse_blocks(X)
        event, time, entry = check_outcomes(y)
        risk = self.predict(X)
        if len(risk) != len(event):
            raise ValueError(
                f"X and y must hold the same number of records, got {len(risk)} and {len(event)}."
            )
        return concordance(event, time, risk, entry)


LARGEST_RISK = 50.0


def within_horizon(times: Any, known: np.ndarray) -> np.ndarray:
    """Times that were asked for, or those that were declared.

    Raises
    ------
    ValueError
        If they are not numbers from 0 to the last declared time.
    """
    if times is None:
        return known
    legal = f"times must be a list of numbers in [0, {known[-1]:g}], of which something is known."
    values = as_numbers(legal, times)
    if values.ndim != 1 or not ((values >= 0.0) & (values <= known[-1])).all():
        raise ValueError(legal)
    return values
