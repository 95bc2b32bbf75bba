"""A plot of survival curves."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdpsco._typing import MatrixLike, Self
from skdpsco.privacy._checks import abridged
from skdpsco.privacy._history import axes, brief, literal, pyplot
from skdpsco.survival import PrivateKaplanMeier, PrivateSurvivalRegressor

__all__ = ["SurvivalDisplay"]


@dataclass(kw_only=True, eq=False, repr=False)
class SurvivalDisplay:
    """Survival curves, as they were released or predicted: a plot costs nothing.

    Parameters
    ----------
    times : array-like of shape (n_times,)
    survival : array-like of shape (n_curves, n_times)
    band : array-like of shape (2, n_times) or None, default=None
        Lower and upper ends around the only curve.
    names : sequence of str of shape (n_curves,) or None, default=None

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
    band_ : matplotlib PolyCollection or None
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    times: Sequence[float] | np.ndarray
    survival: Any
    band: Any = None
    names: Sequence[str] | None = None

    lines_: Any = field(init=False)
    band_: Any = field(init=False)
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: MatrixLike | None = None,
        *,
        level: float = 0.95,
        names: Sequence[str] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot a released curve with its band, or the curves of people with given features.

        Parameters
        ----------
        estimator : PrivateKaplanMeier or PrivateSurvivalRegressor
        X : {array-like, sparse matrix} of shape (n_curves, n_features), or None, default=None
            For a `PrivateSurvivalRegressor`: features for which curves are predicted. They appear
            in the plot, so take public ones.
        level : float, default=0.95
            Probability that the band of a `PrivateKaplanMeier` holds the whole curve.
        names : sequence of str of shape (n_curves,) or None, default=None
            Names in the legend.
        ax : matplotlib Axes or None, default=None
        **kwargs : dict
            Style of the curves, passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : SurvivalDisplay

        Raises
        ------
        TypeError
            If the estimator is of another kind, or X is missing or too much.
        NotFittedError
            If it is not fitted.
        ImportError
            If matplotlib is not installed.
        """
        pyplot(cls.__name__)
        if not isinstance(estimator, PrivateKaplanMeier | PrivateSurvivalRegressor):
            raise TypeError(
                "estimator must be a PrivateKaplanMeier or a PrivateSurvivalRegressor, got "
                f"{abridged(estimator)}."
            )
        regresses = isinstance(estimator, PrivateSurvivalRegressor)
        if regresses != (X is not None):
            raise TypeError("X must be given for a PrivateSurvivalRegressor, and only for that.")
        check_is_fitted(estimator)
        if isinstance(estimator, PrivateSurvivalRegressor):
            survival, band = estimator.predict_survival_function(X), None
        else:
            survival, band = estimator.survival_[None], estimator.survival_band(level)
        display = cls(times=estimator.unique_times_, survival=survival, band=band, names=names)
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Plot the curves, which begin at 1.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
        **kwargs : dict
            Style of the curves, passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        self : SurvivalDisplay
        """
        ax = axes(type(self).__name__, ax)
        times, curves = np.append(0.0, self.times), np.atleast_2d(self.survival)
        self.lines_, self.band_ = [], None
        for k, curve in enumerate(curves):
            label = None if self.names is None else literal(brief(self.names[k], 60))
            style = {"marker": ".", "label": label, **kwargs}
            self.lines_ += ax.plot(times, np.append(1.0, curve), **style)
        if self.band is not None:
            low, high = (np.append(1.0, end) for end in np.asarray(self.band))
            colour = self.lines_[0].get_color()
            self.band_ = ax.fill_between(times, low, high, color=colour, alpha=0.2, linewidth=0.0)
        ax.set(xlabel="time", ylabel="probability of no event", ylim=(0.0, 1.02))
        ax.set_xlim(left=0.0)
        ax.spines[["top", "right"]].set_visible(False)
        if self.names is not None:
            ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
