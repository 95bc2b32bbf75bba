"""A private comparison of groups by the times of their events. Proof: docs/proofs/survival.md."""

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from skdpsco._typing import MatrixLike, Self, TargetLike
from skdpsco.base.labels import group_numbers, labels_of
from skdpsco.base.parameters import Constraints, with_parameters
from skdpsco.base.private_estimator import PrivateEstimator
from skdpsco.privacy._checks import abridged
from skdpsco.privacy.report import ReleasedStep
from skdpsco.survival._counts import life_table, plan_life_table
from skdpsco.survival._records import check_times, signed_times

__all__ = ["PrivateLogRank"]

MOST_COMPARED = 1000  # the statistic needs memory for products of pairs of cells


@with_parameters()
class PrivateLogRank(PrivateEstimator):
    """Differentially private log-rank test: whether groups have the event at different rates.

    It releases the numbers of events and of censored people by group in declared intervals, once.
    The test compares the events of each group with those that it would have if all groups had the
    same hazard, and allows for the noise. Who belongs to which group is protected, too.

    Parameters
    ----------
    times : array-like of shape (n_times,)
        Public ends of the intervals, increasing and > 0; they have to be declared. The last one is
        the horizon: what is later is not read. Few intervals need little noise: four to six will
        do.
    groups : array-like of shape (n_groups,)
        Public labels of at least two groups; they have to be declared.
    {epsilon, delta, ledger, max_records_per_unit, random_state}

    Attributes
    ----------
    statistic_ : float
        Squared distance between observed and expected events, in units of its deviation. If hazards
        are equal, its law is nearly chi-square with ``n_groups - 1`` degrees of freedom.
    p_value_ : float
        Probability of such a statistic, or a larger one, if hazards are equal.
    observed_, expected_ : ndarray of shape (n_groups,)
        Numbers of events, and those to be expected if hazards were equal, with noise. Intervals
        count less if noise hides how many people are at risk.
    survival_ : ndarray of shape (n_groups, n_times)
        The Kaplan-Meier curve of each group.
    unique_times_ : ndarray of shape (n_times,)
        The declared times.
    {privacy_}

    See Also
    --------
    PrivateKaplanMeier : One curve, with a band.
    PrivateSurvivalRegressor : For features.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/survival`.

    References
    ----------
    Mantel. Evaluation of Survival Data and Two New Rank Order Statistics Arising in Its
    Consideration. Cancer Chemotherapy Reports, 1966.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.survival import PrivateLogRank
    >>> rng = np.random.default_rng(0)
    >>> treated = rng.random(5000) < 0.5
    >>> time = rng.exponential(np.where(treated, 1.5, 1.0))
    >>> seen = np.column_stack([time < 2, np.minimum(time, 2)])
    >>> test = PrivateLogRank(times=[0.5, 1, 1.5, 2], groups=[False, True]).fit(seen, treated)
    >>> test.p_value_ < 0.01
    True
    """

    times: ArrayLike | None = None
    groups: ArrayLike | None = None

    statistic_: float = field(init=False)
    p_value_: float = field(init=False)
    observed_: np.ndarray = field(init=False)
    expected_: np.ndarray = field(init=False)
    survival_: np.ndarray = field(init=False)
    unique_times_: np.ndarray = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        "times": [None, "array-like"],
        "groups": [None, "array-like"],
    }

    def fit(self, X: MatrixLike, y: TargetLike, *, units: Any = None) -> Self:
        """Release the numbers of events and of censored people by group, and compare them.

        Parameters
        ----------
        X : array-like of shape (n_samples,), (n_samples, 2) or (n_samples, 3)
            Events, times and perhaps entries, as for `PrivateKaplanMeier`.
        y : array-like of shape (n_samples,)
            The group of each person, one of ``groups``.
        {units}

        {outcome}
        """
        self._validate_params()
        draft, budget = self._draft(), self._budget()
        times = check_times(self.times, MOST_COMPARED)
        groups = declared_groups(self.groups)
        X, y = self._of_units(units, X=X, y=y)
        records, delayed = signed_times(X, times, "X")
        member = group_numbers(labels_of("y", None, y), groups, "y")
        if len(member) != len(records):
            raise ValueError(
                "X and y must hold the same number of records, got "
                f"{len(records)} and {len(member)}."
            )
        G = len(groups)
        plan = self._planned(
            lambda spend: plan_life_table(times, len(records), 0.5 * spend.mu**2, delayed, G),
            self._available(budget),
            len(records),
            len(times),
        )
        with self._releasing(draft, plan.event, budget) as release:
            cells, noise = plan.cells([records[member == g] for g in range(G)], release.rng)
            release.steps = ReleasedStep.all_of(((plan.name, plan.event, ""),), plan.event)
        K = len(times)
        draft.observed_, draft.expected_, draft.statistic_ = log_rank(cells, noise, K)
        draft.p_value_ = float(chi2.sf(draft.statistic_, G - 1))
        draft.survival_ = np.array([group_survival(one, times) for one in cells])
        draft.unique_times_ = times
        return self._accept(draft)


def declared_groups(groups: Any) -> list[Any]:
    """The labels of groups.

    Raises
    ------
    ValueError
        If they are not at least two different labels.
    """
    legal = "groups must be a list of at least two different labels; they are public"
    if groups is None:
        raise ValueError(f"groups must be declared: {legal}, and must not be read off the data.")
    labels = labels_of("groups", None, groups)
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise ValueError(f"{legal}, got {abridged(groups)}.")
    return labels


def group_survival(cells: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The Kaplan-Meier curve of a group, whose size follows from its noisy cells."""
    counts, entries = np.split(cells, [2 * len(times) + 1])
    size = max(float(counts.sum()), 1.0)
    return life_table(counts, size, times, entries if len(entries) else None).survival


def at_risk_map(n_times: int, n_cells: int) -> np.ndarray:
    """The matrix that maps cells to the mean numbers of people at risk in the intervals.

    These are means over both ends of an interval, at which people are at risk who will leave later,
    but have not entered later. With entries they also are those who have entered, but not left, and
    the two numbers are averaged so that there is least noise.
    """
    K = n_times
    begin = np.arange(K + 1)[:, None]
    leave = np.append(np.arange(K), np.arange(K + 1))  # in which interval; the last is the horizon
    later = np.zeros((K + 1, n_cells))
    later[:, : 2 * K + 1] = leave >= begin
    if n_cells > 2 * K + 1:
        before = np.zeros_like(later)
        before[:, : 2 * K + 1] = -1.0 * (leave < begin)
        enter = np.arange(K + 2)  # of which 0 is the start, and k + 1 interval k
        before[:, 2 * K + 1 :] = enter <= begin
        later[:, 2 * K + 1 :] = -1.0 * (enter > begin)
        noise = [np.square(one).sum(axis=1, keepdims=True) for one in (later, before)]
        later = (noise[1] * later + noise[0] * before) / (noise[0] + noise[1])
    return 0.5 * (later[:-1] + later[1:])


def log_rank(cells: np.ndarray, noise: float, n_times: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Observed and expected events by group, and the statistic of their difference.

    Parameters
    ----------
    cells : ndarray of shape (n_groups, n_cells)
        As `LifeTablePlan.cells` releases them.
    noise : float
    n_times : int
    """
    (G, C), K = cells.shape, n_times
    map_at_risk = at_risk_map(K, C)
    events, at_risk = cells[:, :K], cells @ map_at_risk.T
    all_events, all_at_risk = events.sum(axis=0), np.maximum(at_risk.sum(axis=0), 0.0)
    variances = G * noise**2 * np.square(map_at_risk).sum(axis=1)
    weights = all_at_risk / (all_at_risk**2 + variances)  # near 1 / all_at_risk
    observed = events @ (weights * all_at_risk)
    # The differences are cells_g' B cells_h, summed over h, for an antisymmetric B.
    B = np.eye(K, C).T @ (weights[:, None] * map_at_risk)
    B -= B.T
    turned = cells @ B.T
    total = turned.sum(axis=0)
    differences = cells @ total
    positive = np.maximum(at_risk, 0.0)
    rates = weights**2 * np.maximum(all_events, 0.0)
    covariance = (
        np.diag((rates * positive) @ positive.sum(axis=0)) - (rates * positive) @ positive.T
    )
    # What first derivatives at noisy cells say of the noise, less what noise has added to that.
    slopes = total @ total * np.eye(G) - np.add.outer(turned @ total, turned @ total)
    slopes += G * turned @ turned.T
    added = noise**2 * np.square(B).sum() * (G * np.eye(G) - 1.0)
    most = 0.5 * np.trace(slopes) / max(np.trace(added), 1e-300)
    covariance += noise**2 * (slopes - min(most, 1.0) * added)
    # The differences add up to 0, so that the last one tells nothing.
    inverse = np.linalg.pinv(covariance[:-1, :-1], hermitian=True)
    statistic = float(differences[:-1] @ inverse @ differences[:-1])
    return observed, observed - differences, max(statistic, 0.0)
