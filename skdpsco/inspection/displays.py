"""Plots: utility against epsilon, and coefficients against the radius."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, check_scoring, r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skdpsco._random import collected_advice
from skdpsco._typing import MatrixLike, Seed, Self, TargetLike
from skdpsco._validation import check_int, is_number
from skdpsco.linear_model._inference import coefficient_names
from skdpsco.privacy import Budget, Ledger
from skdpsco.privacy._checks import abridged, check_real
from skdpsco.privacy._history import axes, literal, pyplot

from ._cost import budget_of, declared_rho, params_named, private_steps
from ._public_tables import check_plannable, check_shape, planted
from .pipeline_report import check_private_steps

__all__ = ["PrivacyUtilityDisplay", "RadiusPathDisplay"]

SIMULATED = 4000  # records for the scores of a simulation
NAMED = 10  # number of curves with a colour and a name in the legend


@dataclass(kw_only=True, eq=False, repr=False)
class PrivacyUtilityDisplay:
    """Score of a private estimator against epsilon.

    **For public or synthetic data only**: see `from_estimator`.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
    scores : array-like of shape (n_epsilons, n_repeats)
    baseline : float or None, default=None
        Score without privacy.
    score_name : str, default="score"
    delta : float or None, default=None

    Attributes
    ----------
    line_ : matplotlib Line2D
        Medians.
    range_ : matplotlib PolyCollection
        Range from the smallest to the largest score.
    baseline_ : matplotlib Line2D or None
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    epsilons: ArrayLike
    scores: ArrayLike
    baseline: float | None = None
    score_name: str = "score"
    delta: float | None = None

    line_: Any = field(init=False)
    range_: Any = field(init=False)
    baseline_: Any = field(init=False)
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: MatrixLike,
        y: TargetLike,
        epsilons: ArrayLike,
        *,
        X_test: MatrixLike = None,
        y_test: TargetLike = None,
        n_repeats: int = 5,
        scoring: Any = None,
        baseline: Any = None,
        record_wise: Any = (),
        random_state: Seed = None,
        ax: Any = None,
        name: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Fit several times with every epsilon, and plot the scores on other records.

        **For public or synthetic data only.** None of the fits and scores is charged, and scores
        have no noise. An estimator with a ledger is refused. For private data use
        `skdpsco.model_selection`.

        Parameters
        ----------
        estimator : estimator
            A private estimator, or a pipeline whose steps are private or data-independent, which is
            cloned. Private steps share each epsilon as they do in ``estimator``.
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        epsilons : array-like of shape (n_epsilons,)
            Budgets, > 0.
        X_test, y_test : array-like or None, default=None
            Records for the scores. None holds out a random quarter of X and y.
        n_repeats : int, default=5
            Number of fits for each epsilon, at least 1.
        scoring : str, callable or None, default=None
            As in scikit-learn; None is the ``score`` of the estimator.
        baseline : estimator, float or None, default=None
            An estimator that is not private, which is fitted and scored on the same records, or its
            score.
        record_wise : list, default=()
            What you vouch for, as in `privacy_report`.
        random_state : int, RandomState instance or None, default=None
            A seed makes the split of the records and all noise reproducible, with a warning.
        ax : matplotlib Axes or None, default=None
        name : str or None, default=None
            Label in the legend; None is the name of the class.
        **kwargs : dict
            Style of the line, passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : PrivacyUtilityDisplay

        Raises
        ------
        ValueError, TypeError
            If a parameter is out of range, a step is not private, or no step is; or if a fit raises
            one of these.
        ImportError
            If matplotlib is not installed.
        """
        pyplot(cls.__name__)  # fails before the fits if matplotlib is missing
        epsilons = _check_epsilons(epsilons)
        check_int("n_repeats", n_repeats)
        if (X_test is None) != (y_test is None):
            raise ValueError("X_test and y_test must be given together, or neither.")
        _check_estimator(estimator, record_wise, X)
        _check_baseline(baseline)
        check_scoring(estimator, scoring=scoring)
        random = None if random_state is None else check_random_state(random_state)
        if X_test is None:
            X, X_test, y, y_test = train_test_split(X, y, random_state=random)

        def score(model: Any) -> float:
            model.fit(X, y)
            return float(check_scoring(model, scoring=scoring)(model, X_test, y_test))

        scores = np.array(
            [
                [score(_with_budget(estimator, epsilon, random)) for _ in range(n_repeats)]
                for epsilon in epsilons
            ]
        )
        if hasattr(baseline, "fit"):
            baseline = score(clone(baseline))
        display = cls(
            epsilons=epsilons,
            scores=scores,
            baseline=baseline,
            score_name=_score_name(estimator, scoring),
            delta=max(float(step.delta) for _, step in private_steps(estimator)),
        )
        return display.plot(ax=ax, name=name or type(estimator).__name__, **kwargs)

    @classmethod
    def simulate(
        cls,
        estimator: Any,
        n_samples: int,
        n_features: int | Sequence[str],
        epsilons: ArrayLike,
        *,
        signal: float = 0.8,
        n_classes: int = 2,
        scoring: Any = None,
        random_state: Seed = None,
        **kwargs: Any,
    ) -> Self:
        """Plot what to expect for data of a shape, from fits to synthetic data.

        No data are needed, so this costs nothing, and no ledger is charged. The records are those
        of a planted linear model with independent features, uniform within their bounds, of which
        five matter; other data may be harder or easier.

        Parameters
        ----------
        estimator : PrivateEstimator
            A private model, which is cloned without its ledger.
        n_samples : int
            Number of records of every fit. Scores are those of 4,000 other records.
        n_features : int or list of str
            The number of features, or the names of the columns.
        epsilons : array-like of shape (n_epsilons,)
            Budgets, > 0.
        signal : float, default=0.8
            Share of the variance that a linear model can explain, in [0, 1].
        n_classes : int, default=2
            Number of labels, for a classifier without ``classes``.
        scoring : str, callable or None, default=None
            As in scikit-learn; None is the ``score`` of the estimator, beside that of the planted
            model.
        random_state : int, RandomState instance or None, default=None
            A seed makes the records and all noise reproducible, with a warning.
        **kwargs : dict
            ``n_repeats``, ``record_wise``, ``ax``, ``name`` and the style of the line, as for
            `from_estimator`.

        Returns
        -------
        display : PrivacyUtilityDisplay
            Its ``baseline`` is the score of the planted model.

        Raises
        ------
        TypeError
            If ``estimator`` is not a private model, or takes groups, or a parameter has the wrong
            type.
        ValueError
            If a parameter is out of range.
        ImportError
            If matplotlib is not installed.
        """
        pyplot(cls.__name__)
        check_plannable(estimator)
        if hasattr(estimator, "group_membership") or getattr(estimator, "tasks", "") == "columns":
            raise TypeError(
                f"{type(estimator).__name__} needs groups or several targets, which are not "
                "simulated: use from_estimator with records of your own making."
            )
        signal = check_real("signal", signal, 0, 1, closed=True)
        shape = check_shape(n_samples, n_features, n_classes=n_classes)
        random = None if random_state is None else check_random_state(random_state)
        several = shape._replace(n_samples=shape.n_samples + SIMULATED)
        X, y, best = planted(estimator, several, signal, random)
        rows = slice(None, shape.n_samples), slice(shape.n_samples, None)
        (X, X_test), (y, y_test), (_, best) = ([a[part] for part in rows] for a in (X, y, best))
        metric = accuracy_score if is_classifier(estimator) else r2_score
        with collected_advice():  # the advice of every fit
            return cls.from_estimator(
                clone(estimator).set_params(ledger=None),
                X,
                y,
                epsilons,
                X_test=X_test,
                y_test=y_test,
                scoring=scoring,
                baseline=float(metric(y_test, best)) if scoring is None else None,
                random_state=random,
                **kwargs,
            )

    def plot(self, ax: Any = None, *, name: Any = None, **kwargs: Any) -> Self:
        """Plot medians, and the range of the repeats.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a figure.
        name : str or None, default=None
            For the legend.
        **kwargs : dict
            Style of the line, passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        self : PrivacyUtilityDisplay

        Raises
        ------
        ValueError, TypeError
            If ``epsilons`` or ``scores`` are not legal, or ``ax`` is not an Axes.
        ImportError
            If matplotlib is not installed.
        """
        epsilons = _check_epsilons(self.epsilons)
        scores = _check_scores(self.scores, len(epsilons))
        ax = axes(type(self).__name__, ax)
        order = np.argsort(epsilons)
        epsilons, scores = epsilons[order], scores[order]
        n_repeats = scores.shape[1]
        label = literal(name or "private")
        label = f"{label}, median of {n_repeats}" if n_repeats > 1 else label
        style = {"marker": "o", "label": label, **kwargs}
        (self.line_,) = ax.plot(epsilons, np.median(scores, axis=1), **style)
        self.range_ = ax.fill_between(
            epsilons,
            scores.min(axis=1),
            scores.max(axis=1),
            color=self.line_.get_color(),
            alpha=0.2,
            linewidth=0,
        )
        self.baseline_ = None
        if self.baseline is not None:
            self.baseline_ = ax.axhline(
                self.baseline, color="0.4", linestyle="--", label="without privacy"
            )
        at_delta = "" if self.delta is None else f" (delta = {self.delta:g})"
        ax.set(xscale="log", xlabel=f"epsilon{at_delta}", ylabel=self.score_name)
        gaps = np.diff(np.log(epsilons))
        ticks = [f"{epsilon:g}" for epsilon in epsilons]
        if np.all(gaps >= gaps.sum() / 10) and max(map(len, ticks)) <= 6:  # no two overlap
            ax.set_xticks(epsilons, ticks)
            ax.set_xticks([], minor=True)
        else:
            ax.xaxis.set_major_formatter("{x:g}")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _check_epsilons(epsilons: Any) -> np.ndarray:
    values = list(epsilons) if np.iterable(epsilons) and not isinstance(epsilons, str) else []
    if not values or not all(is_number(e) and 0 < e < float("inf") for e in values):
        raise ValueError(
            f"epsilons must be a list of finite numbers > 0, got {abridged(epsilons)}."
        )
    return np.array(values, dtype=np.float64)


def _check_scores(scores: Any, n_epsilons: int) -> np.ndarray:
    legal = f"scores must be numbers of shape (n_epsilons, n_repeats), here ({n_epsilons}, ...)"
    try:
        found = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{legal}, with rows of one length.") from error
    if found.ndim != 2 or len(found) != n_epsilons or not found.size:
        raise ValueError(f"{legal}; got the shape {found.shape}.")
    return found


def _check_baseline(baseline: Any) -> None:
    estimator = hasattr(baseline, "fit") and not isinstance(baseline, type)
    if not (baseline is None or is_number(baseline) or estimator):
        raise TypeError(
            f"baseline must be an estimator, a number or None, got {abridged(baseline)}."
        )


def _check_estimator(estimator: Any, record_wise: Any, X: Any) -> None:
    check_private_steps(estimator, record_wise=record_wise, X=X)
    if any(ledger is not None for ledger in params_named(estimator, "ledger").values()):
        raise ValueError(
            "estimator must have ledger=None: a ledger means that the data are private, and the "
            "scores of this plot are releases that are not charged to it. Use public or synthetic "
            "data."
        )


def _with_budget(estimator: Any, epsilon: float, random: Any) -> Any:
    """Clone of ``estimator`` whose private steps cost ``epsilon`` together."""
    estimator = clone(estimator)
    steps = private_steps(estimator)
    params: dict[str, Any] = {f"{steps[0][0]}epsilon": float(epsilon)}
    if len(steps) > 1:
        budget = Budget(epsilon, max(float(step.delta) for _, step in steps))
        shares = declared_rho(estimator)
        # With a ledger they spend zCDP, and at most this much together.
        ledger = Ledger(budget.epsilon, budget.delta)
        for (prefix, step), share in zip(steps, shares / shares.sum(), strict=True):
            part = budget_of(float(budget.rho * share), float(step.delta))
            params[f"{prefix}epsilon"], params[f"{prefix}delta"] = part.epsilon, part.delta
            params[f"{prefix}ledger"] = ledger
    for prefix, _ in steps:
        params[f"{prefix}random_state"] = None if random is None else int(random.randint(2**31))
    return estimator.set_params(**params)


def _score_name(estimator: Any, scoring: Any) -> str:
    if isinstance(scoring, str):
        return scoring.replace("_", " ")
    if scoring is not None:
        return "score"
    if is_classifier(estimator):
        return "accuracy"
    return "R²" if is_regressor(estimator) else "score"


@dataclass(kw_only=True, eq=False, repr=False)
class RadiusPathDisplay:
    """Coefficients of a private linear model against the l1 radius.

    It shows what the fit has released, and costs nothing.

    Parameters
    ----------
    radius : array-like of shape (n_points,)
    coef : array-like of shape (n_points, n_curves)
    names : sequence of str of shape (n_curves,)

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    radius: ArrayLike
    coef: ArrayLike
    names: Sequence[str]

    lines_: Any = field(init=False)
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        fitted_model: Any,
        *,
        feature_names: ArrayLike | None = None,
        n_features: int = 10,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the path of a fitted model.

        Parameters
        ----------
        fitted_model : PrivateLasso or PrivateLogisticL1, or a pipeline that ends with one
            A model that was fitted with the solver "stagewise", the default.
        feature_names : array-like of shape (`n_features_in_`,) or None, default=None
            None uses the names that the steps before the model return, ``feature_names_in_``, or
            x0, x1, ...
        n_features : int, default=10
            Number of curves, at least 1; they belong to the largest coefficients along the path.
            With more than two classes there is one curve per class and feature.
        ax : matplotlib Axes or None, default=None
        **kwargs : dict
            Style of the lines, passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : RadiusPathDisplay

        Raises
        ------
        ValueError, TypeError
            If a parameter is out of range, or the model has no path.
        NotFittedError
            If the model is not fitted.
        ImportError
            If matplotlib is not installed.
        """
        pyplot(cls.__name__)
        check_int("n_features", n_features)
        check_is_fitted(fitted_model)
        while isinstance(fitted_model, Pipeline):
            if feature_names is None:
                feature_names = _names_before(fitted_model)
            fitted_model = fitted_model[-1]
        path = getattr(fitted_model, "path_", None)
        if path is None:
            raise ValueError(
                "fitted_model must have a path_, as PrivateLasso and PrivateLogisticL1 have with "
                f"solver='stagewise'; got {abridged(fitted_model)}."
            )
        coef = path.coef
        names = coefficient_names(fitted_model, feature_names, coef.shape[-1])
        if coef.ndim == 3:
            names = [f"{name}, class {c}" for c in fitted_model.classes_ for name in names]
        coef = coef.reshape(len(coef), -1)
        largest = np.argsort(-np.abs(coef).max(axis=0), kind="stable")[:n_features]
        display = cls(radius=path.radius, coef=coef[:, largest], names=[names[j] for j in largest])
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Plot the curves.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a figure.
        **kwargs : dict
            Style of the lines, passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        self : RadiusPathDisplay
        """
        ax = axes(type(self).__name__, ax)
        self.lines_ = []
        for j, (name, curve) in enumerate(zip(self.names, np.transpose(self.coef), strict=True)):
            style: dict[str, Any] = {"color": f"C{j}", "label": literal(name)}
            if j >= NAMED:
                others = len(self.names) - NAMED
                style = {
                    "color": "0.8",
                    "zorder": 1,
                    "label": "_" if j > NAMED else f"{others} more",
                }
            self.lines_ += ax.plot(self.radius, curve, **{**style, **kwargs})
        ax.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
        ax.set(xlabel="l1 radius", ylabel="coefficient")
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _names_before(pipeline: Pipeline) -> Any:
    """Names of the features that the last step sees, or None if a step does not know them."""
    try:
        return pipeline[:-1].get_feature_names_out()
    except (AttributeError, ValueError, NotFittedError):
        return None
