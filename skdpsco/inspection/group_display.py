"""A plot of the loss or score of every group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skdpsco._quiet import quietly
from skdpsco._typing import MatrixLike, Self, TargetLike
from skdpsco.group_dro import group_report
from skdpsco.privacy._checks import abridged
from skdpsco.privacy._history import axes, brief, literal, pyplot

__all__ = ["GroupLossDisplay"]

METRICS = {
    "accuracy": "accuracy",
    "log_loss": "mean log loss",
    "squared_error": "mean squared error",
}
_MARKERS = "oDs^vP"
_ROW = 0.3  # inches
_TALLEST = 40.0


@dataclass(kw_only=True, eq=False, repr=False)
class GroupLossDisplay:
    """Loss or score of every group for a private model, and for other models to compare with.

    **They are computed without noise**; see `from_estimator`.

    Parameters
    ----------
    groups : array-like of shape (n_groups,)
        Labels of the groups; a tuple is one label.
    n_samples : array-like of shape (n_groups,)
        Sizes of the groups.
    by_group : array-like of shape (n_models, n_groups)
    overall : array-like of shape (n_models,)
        Losses or scores of all records.
    names : sequence of str of shape (n_models,)
    metric_name : str, default="loss"

    Attributes
    ----------
    points_ : list of matplotlib Line2D
        One line per model, with a point for every group.
    overall_ : list of matplotlib Line2D
        One per model.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    groups: Sequence[Any] | np.ndarray
    n_samples: Sequence[Any] | np.ndarray
    by_group: Sequence[Any] | np.ndarray
    overall: Sequence[Any] | np.ndarray
    names: Sequence[str]
    metric_name: str = "loss"

    points_: Any = field(init=False)
    overall_: Any = field(init=False)
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: MatrixLike,
        y: TargetLike,
        *,
        sensitive_features: Any,
        baseline: Any = None,
        metric: Literal["log_loss", "accuracy", "squared_error"] | None = None,
        ax: Any = None,
        name: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the losses or scores of fitted models by group.

        **They are computed without noise.** This is fine on public data, or if only people who may
        see the data see the plot. Otherwise, a plot of private data, whether from the fit or not,
        is a release that no budget has paid for.

        Parameters
        ----------
        estimator : object
            Fitted model with ``predict``: `PrivateGroupDRO` or any other.
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sensitive_features : array-like
            The group of every record, as in `group_report`; groups may overlap.
        baseline : object, dict of str to object, or None, default=None
            Fitted models for comparison, private or not; the keys of a dict are their labels. They
            get the same X. If they do not know the columns of the groups, pass X without these
            columns, and ``sensitive_features`` as an array.
        metric : {"log_loss", "accuracy", "squared_error"}, callable or None, default=None
            A callable is ``metric(y_true, y_pred)`` of what ``predict`` returns. None is the
            squared error for regressors. For classifiers it is the log loss or, if a model has no
            ``predict_proba``, the accuracy.
        ax : matplotlib Axes or None, default=None
        name : str or None, default=None
            The name of ``estimator`` in the legend; None for the name of its class.
        **kwargs : dict
            Style of the points of ``estimator``, passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : GroupLossDisplay

        Raises
        ------
        ValueError, TypeError
            If a parameter is out of range, a model lacks the ``predict`` or ``predict_proba`` that
            the metric needs, or ``sensitive_features`` is not one label per record.
        NotFittedError
            If a model is not fitted.
        ImportError
            If matplotlib is not installed.
        """
        pyplot(cls.__name__)
        models = _models(estimator, baseline, name)
        metric = _check_metric(metric, models)
        legal = "y must hold one target per record."
        y = quietly(legal, column_or_1d, y)
        quietly(legal, check_consistent_length, X, y)
        reports = []
        for which, _, model in models:
            score: Any = metric
            if metric == "log_loss":
                score = _log_loss(which, model, y)
                model = SimpleNamespace(predict=model.predict_proba)  # what a report scores
            elif isinstance(metric, str):
                score = accuracy_score if metric == "accuracy" else mean_squared_error
            reports.append(
                group_report(model, X, y, sensitive_features=sensitive_features, metric=score)
            )
        display = cls(
            groups=reports[0].groups,
            n_samples=reports[0].n_samples,
            by_group=np.array([report.by_group for report in reports]),
            overall=np.array([report.overall for report in reports]),
            names=[label for _, label, _ in models],
            metric_name=_metric_name(metric),
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, name: Any = None, **kwargs: Any) -> Self:
        """Plot a point for every model and group.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a figure, as tall as the number of groups needs.
        name : str or None, default=None
            The name of the first model in the legend.
        **kwargs : dict
            Style of the points of the first model, passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        self : GroupLossDisplay
        """
        n_groups, new = len(self.groups), ax is None
        ax = axes(type(self).__name__, ax)
        if new:
            width = ax.figure.get_figwidth()
            ax.figure.set_size_inches(width, min(1.6 + _ROW * n_groups, _TALLEST))
        rows, by_group = np.arange(n_groups), np.asarray(self.by_group)
        ax.hlines(rows, by_group.min(axis=0), by_group.max(axis=0), color="0.8", zorder=1)
        names = [name or self.names[0], *self.names[1:]]
        self.points_, self.overall_ = [], []
        for j, (label, values, overall) in enumerate(
            zip(names, by_group, self.overall, strict=True)
        ):
            style = {
                "color": f"C{j}",
                "marker": _MARKERS[j % len(_MARKERS)],
                "linestyle": "none",
                "markerfacecolor": "white",
                "zorder": 2.5,
                "label": literal(brief(label, 60)),
            }
            if j == 0:
                style = {**style, "markerfacecolor": None, "zorder": 3, **kwargs}
            self.points_ += ax.plot(values, rows, **style)
            colour = self.points_[-1].get_color()
            self.overall_.append(
                ax.axvline(overall, color=colour, linestyle="--", linewidth=1.0, zorder=1)
            )
        ax.plot([], [], color="0.4", linestyle="--", linewidth=1.0, label="all records")
        self._label_rows(ax)
        ax.set(xlabel=literal(self.metric_name), ylim=(n_groups - 0.4, -0.6))
        ax.grid(axis="x", color="0.93", zorder=0)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(
            loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False, borderaxespad=0.2
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _label_rows(self, ax):
        """Label groups with names and sizes; if room is short, only every second or third."""
        row = 72.0 * 0.8 * ax.get_position().height * ax.figure.get_figheight() / len(self.groups)
        step = max(1, int(np.ceil(6.0 / row)))
        labels = [
            literal(f"{brief(_group_name(group), 40)} ({size:,})")
            for group, size in zip(self.groups, self.n_samples, strict=True)
        ]
        ax.set_yticks(np.arange(len(labels))[::step], labels[::step])
        ax.tick_params(axis="y", labelsize=min(10.0, max(row * step, 6.0)), length=0)


def _models(estimator: Any, baseline: Any, name: Any) -> list[tuple[str, str, Any]]:
    """Parameter name, label and model of everything that is scored."""
    models = [("estimator", name or type(estimator).__name__, estimator)]
    if isinstance(baseline, Mapping):
        models += [(f"baseline[{label!r}]", str(label), one) for label, one in baseline.items()]
    elif baseline is not None:
        models.append(("baseline", f"baseline: {type(baseline).__name__}", baseline))
    for which, _, model in models:
        if isinstance(model, type) or not hasattr(model, "predict"):
            raise TypeError(f"{which} must be a fitted model with predict, got {abridged(model)}.")
        if hasattr(model, "fit"):
            check_is_fitted(model)
    return models


def _check_metric(metric: Any, models: list[tuple[str, str, Any]]) -> Any:
    if metric is None:
        if any(is_regressor(model) for _, _, model in models):
            metric = "squared_error"
        else:
            have = all(hasattr(model, "predict_proba") for _, _, model in models)
            metric = "log_loss" if have else "accuracy"
    if callable(metric):
        return metric
    if not isinstance(metric, str) or metric not in METRICS:
        raise ValueError(
            f"metric must be one of {(*METRICS,)} or a callable, got {abridged(metric)}."
        )
    for which, _, model in models:
        if is_classifier(model) if metric == "squared_error" else is_regressor(model):
            kind = "regressors" if metric == "squared_error" else "classifiers"
            raise ValueError(f"metric={metric!r} is for {kind}, which {which} is not: {model!r}.")
        if metric == "log_loss" and not hasattr(model, "predict_proba"):
            raise ValueError(
                f"metric='log_loss' needs predict_proba, which {which} does not have: {model!r}."
            )
    return metric


def _log_loss(which: str, model: Any, y: np.ndarray) -> Any:
    known = set(np.asarray(model.classes_).tolist())
    if not known.issuperset(y.tolist()):
        raise ValueError(f"y contains a label that is not among the classes_ of {which}.")
    return partial(log_loss, labels=model.classes_)


def _metric_name(metric: Any) -> str:
    if isinstance(metric, str):
        return METRICS[metric]
    return getattr(metric, "__name__", "score").replace("_", " ").strip("<>")


def _group_name(group: Any) -> str:
    return ", ".join(map(str, group)) if isinstance(group, tuple) else str(group)
