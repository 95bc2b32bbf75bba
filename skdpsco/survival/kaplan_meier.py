"""Private survival curves."""

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skdpsco._typing import MatrixLike, Self, TargetLike
from skdpsco.base.parameters import Constraints, with_parameters
from skdpsco.base.private_estimator import PrivateEstimator
from skdpsco.moments.least_squares import check_within
from skdpsco.privacy.report import ReleasedStep
from skdpsco.survival._counts import SurvivalCounts, plan_life_table
from skdpsco.survival._records import check_times, signed_times

__all__ = ["PrivateKaplanMeier"]

BAND_LEVELS = 0.5, 0.99


@with_parameters()
class PrivateKaplanMeier(PrivateEstimator):
    """Differentially private survival curve and cumulative hazard: Kaplan-Meier and Nelson-Aalen.

    It releases the numbers of events and of censored people in declared intervals, once. Curves at
    the ends of the intervals and their bands follow from them at no further cost.

    Parameters
    ----------
    times : array-like of shape (n_times,)
        Public ends of the intervals, increasing and > 0; they have to be declared. The last one is
        the horizon: what is later is not read. At other ends, entries and censorings count in the
        next interval, so choose ends with few of them.
    {epsilon, delta, ledger, max_records_per_unit, random_state}

    Attributes
    ----------
    unique_times_ : ndarray of shape (n_times,)
        The declared times.
    survival_ : ndarray of shape (n_times,)
        Probabilities of no event until these times: Kaplan-Meier.
    cumulative_hazard_ : ndarray of shape (n_times,)
        Nelson-Aalen.
    counts_ : SurvivalCounts
        The released numbers.
    {privacy_}

    See Also
    --------
    PrivateSurvivalRegressor : For features.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/survival`.

    References
    ----------
    Kaplan, Meier. Nonparametric Estimation from Incomplete Observations. JASA, 1958.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.survival import PrivateKaplanMeier
    >>> time = np.random.default_rng(0).exponential(size=5000)
    >>> seen = np.column_stack([time < 2, np.minimum(time, 2)])
    >>> curve = PrivateKaplanMeier(times=[0.5, 1, 1.5, 2]).fit(seen)
    >>> bool(abs(curve.survival_ - np.exp(-curve.unique_times_)).max() < 0.05)
    True
    >>> curve.survival_band().shape
    (2, 4)
    """

    times: ArrayLike | None = None

    unique_times_: np.ndarray = field(init=False)
    survival_: np.ndarray = field(init=False)
    cumulative_hazard_: np.ndarray = field(init=False)
    counts_: SurvivalCounts = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        "times": [None, "array-like"],
    }

    def fit(self, X: MatrixLike, y: TargetLike = None, *, units: Any = None) -> Self:
        """Release the numbers of events and of censored people.

        Parameters
        ----------
        X : array-like of shape (n_samples,), (n_samples, 2) or (n_samples, 3)
            A structured array with a boolean field, the event, and a numeric one, the time; or two
            columns, event and time. A third field or column is the time of entry, from which on the
            person was observed: 0, or between 0 and the time.
        y : None
            Ignored.
        {units}

        {outcome}
        """
        self._validate_params()
        draft, times, budget = self._draft(), check_times(self.times), self._budget()
        (X,) = self._of_units(units, X=X)
        records, delayed = signed_times(X, times, "X")
        plan = self._planned(
            lambda spend: plan_life_table(times, len(records), 0.5 * spend.mu**2, delayed),
            self._available(budget),
            len(records),
            len(times),
        )
        with self._releasing(draft, plan.event, budget) as release:
            draft.counts_ = plan.counts(records, release.rng)
            release.steps = ReleasedStep.all_of(((plan.name, plan.event, ""),), plan.event)
        table = draft.counts_.table
        draft.unique_times_ = times
        draft.survival_, draft.cumulative_hazard_ = table.survival, table.cumulative_hazard
        return self._accept(draft)

    def survival_band(self, level: float = 0.95) -> np.ndarray:
        """Lower and upper ends of a band that holds the whole survival curve.

        It covers the noise of the release and the sampling of people, by simulation.

        Parameters
        ----------
        level : float, default=0.95
            Probability that the curve is within the band at all times, in [0.5, 0.99].

        Returns
        -------
        band : ndarray of shape (2, n_times)
            One column for each of `unique_times_`.

        Raises
        ------
        ValueError
            If ``level`` is out of range.
        """
        check_is_fitted(self)
        return self.counts_.band("survival", check_within("level", level, *BAND_LEVELS))

    def cumulative_hazard_band(self, level: float = 0.95) -> np.ndarray:
        """Lower and upper ends of a band that holds the whole cumulative hazard.

        Parameters
        ----------
        level : float, default=0.95
            As for `survival_band`.

        Returns
        -------
        band : ndarray of shape (2, n_times)
            One column for each of `unique_times_`.

        Raises
        ------
        ValueError
            If ``level`` is out of range.
        """
        check_is_fitted(self)
        return self.counts_.band("cumulative_hazard", check_within("level", level, *BAND_LEVELS))
