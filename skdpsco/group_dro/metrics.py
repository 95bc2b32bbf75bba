"""Scores by group. They are computed without noise, so on private data they are not private."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.metrics import accuracy_score, mean_squared_error
from sklearn.utils.metadata_routing import MetadataRequest

from skdpsco._quiet import quietly, score_by
from skdpsco.group_dro.membership import as_array, membership_of
from skdpsco.privacy._checks import abridged, library
from skdpsco.privacy.report import html_table

__all__ = ["group_report", "worst_group_score", "worst_group_scorer"]

_SCORE_NEEDS = "{} needs sensitive_features, the group of every record that is scored."


@dataclass(frozen=True)
class GroupReport:
    """A score for every group, which prints as a table.

    Parameters
    ----------
    groups : ndarray of shape (n_groups,)
    n_samples : ndarray of shape (n_groups,)
        Sizes of the groups.
    by_group : ndarray of shape (n_groups,)
        Score of every group, greater is better.
    overall : float
        Score of all records, including those in no group.
    n_records : int
        Number of all records; groups may overlap.
    """

    groups: np.ndarray = field(compare=False)
    n_samples: np.ndarray = field(compare=False)
    by_group: np.ndarray = field(compare=False)
    overall: float
    n_records: int

    @property
    def worst_group(self) -> Any:
        """The group with the smallest score."""
        return self.groups[int(np.argmin(self.by_group))]

    def group_min(self) -> float:
        """The smallest score of a group."""
        return float(self.by_group.min())

    def group_max(self) -> float:
        """The largest score of a group."""
        return float(self.by_group.max())

    def difference(self) -> float:
        """The difference between the largest and the smallest score."""
        return self.group_max() - self.group_min()

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row per group, and a last row "overall" of all records.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = library("pandas", "GroupReport.to_frame() needs pandas: pip install pandas.")
        names, sizes, scores = zip(*self._rows(), strict=True)
        index = pd.Index(names, name="group", tupleize_cols=False)
        return pd.DataFrame({"n_samples": sizes, "score": scores}, index=index)

    def _rows(self) -> list[tuple[Any, int, float]]:
        """Name, size and score of every group, and of all records."""
        rows = list(zip(self.groups, self.n_samples, self.by_group, strict=True))
        return [*rows, ("overall", self.n_records, self.overall)]

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(str(name)) for name, _, _ in rows)
        return "\n".join(f"{name!s:<{width}} {n:>9} {score:10.4f}" for name, n, score in rows)

    def _repr_html_(self) -> str:
        rows = [(str(name), str(n), f"{score:.4f}") for name, n, score in self._rows()]
        return html_table("Scores by group, without noise", [("", "records", "score"), *rows])


def group_report(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    metric: Callable[[np.ndarray, np.ndarray], float] | None = None,
) -> GroupReport:
    """Score a fitted model on every group of some data.

    **Scores are computed without noise.** This is fine on public data, or if only people who may
    see the data see the scores. Otherwise, scores on private data are a release that no budget has
    paid for: with a group of one record, for example, they show whether this record was predicted
    correctly.

    Parameters
    ----------
    estimator : object
        Fitted model with ``predict``.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), str or list
        Groups as in `PrivateGroupDRO.fit`; they may overlap if this is a boolean matrix.
    metric : callable or None, default=None
        ``metric(y_true, y_pred)``, where greater is better. None is the accuracy for a classifier
        and the negative mean squared error for a regressor.

    Returns
    -------
    report : GroupReport

    Raises
    ------
    TypeError
        If ``sensitive_features`` has the wrong type, ``estimator`` has no ``predict``, or
        ``metric`` cannot be called.
    ValueError
        If ``sensitive_features`` is missing or does not hold one label or row per record, or a
        group has no members.
    """
    if sensitive_features is None:
        raise ValueError(_SCORE_NEEDS.format("group_report"))
    if not hasattr(estimator, "predict") or isinstance(estimator, type):
        raise TypeError(
            f"estimator must be a fitted model with predict, got {abridged(estimator)}."
        )
    if metric is not None and not callable(metric):
        raise TypeError(f"metric must be None or a function of y and predictions, got {metric!r}.")
    y = quietly("y must hold one target per record.", np.asarray, y)
    membership = membership_of(None, X, sensitive_features, len(y))
    membership.check_no_group_is_empty()
    if metric is None:
        metric = _negative_error if is_regressor(estimator) else _accuracy
    predicted = estimator.predict(X)
    columns = membership.matrix.tocsc()
    members = np.split(columns.indices, columns.indptr[1:-1])
    return GroupReport(
        as_array(membership.groups),
        membership.sizes,
        np.array([float(metric(y[rows], predicted[rows])) for rows in members]),
        float(metric(y, predicted)),
        len(y),
    )


def worst_group_score(
    estimator: Any, X: Any, y: Any, *, sensitive_features: Any, metric: Any = None
) -> float:
    """Smallest score of a group; the parameters are those of `group_report`.

    It is computed without noise, so on private data it is a release of its own.

    Returns
    -------
    score : float
    """
    return group_report(
        estimator, X, y, sensitive_features=sensitive_features, metric=metric
    ).group_min()


def _negative_error(y: np.ndarray, predicted: np.ndarray) -> float:
    return -score_by(mean_squared_error, y, predicted, None)


def _accuracy(y: np.ndarray, predicted: np.ndarray) -> float:
    return score_by(accuracy_score, y, predicted, None)


class _WorstGroupScorer:
    """`worst_group_score` for ``scoring=``; with metadata routing it requests the groups."""

    def __call__(self, estimator: Any, X: Any, y: Any, *, sensitive_features: Any = None) -> float:
        if sensitive_features is None:
            raise ValueError(
                _SCORE_NEEDS.format("worst_group_scorer") + " A search passes it only with "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        return worst_group_score(estimator, X, y, sensitive_features=sensitive_features)

    def get_metadata_routing(self) -> Any:
        """The metadata that a search should pass."""
        request = MetadataRequest(owner="worst_group_scorer")
        request.score.add_request(param="sensitive_features", alias=True)
        return request

    def __repr__(self) -> str:
        return "worst_group_scorer"


worst_group_scorer: Any = _WorstGroupScorer()
