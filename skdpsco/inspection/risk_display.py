"""The epsilon for a wanted risk, and a plot of what attacks find."""

import math
from dataclasses import dataclass, field
from typing import Any

from skdpsco._typing import Self
from skdpsco._validation import check_choice
from skdpsco.base.advice import LARGEST_EPSILON
from skdpsco.privacy import Budget, Event, GaussianEvent, Risk, ZCDPEvent
from skdpsco.privacy._checks import abridged, check_delta, check_real
from skdpsco.privacy._history import axes, literal
from skdpsco.privacy._numerics import bisected
from skdpsco.privacy.risk import FALSE_ALARMS, percent

from .planning import LEAST_EPSILON

__all__ = ["RiskDisplay", "epsilon_for_risk"]

GUESSES = "guesses"
NOISE = ("any", "gaussian", "zcdp")
_STYLE: dict[str, Any] = {"textcoords": "offset points", "ha": "right"}


def epsilon_for_risk(
    true_positive_rate: float,
    false_positive_rate: float = 0.01,
    *,
    delta: float = 1e-6,
    noise: str = "any",
) -> float:
    """The largest epsilon with which no attack finds more than a wanted share of the records.

    Parameters
    ----------
    true_positive_rate : float
        The largest share of used records that an attack may recognise, in (0, 1).
    false_positive_rate : float, default=0.01
        Share of unused records for which it raises a false alarm, in (0, 1).
    delta : float, default=1e-6
        The delta that will be passed with epsilon.
    noise : {"any", "gaussian", "zcdp"}, default="any"
        What is known about the releases. "any" holds for every fit with this epsilon and delta.
        "gaussian" allows a larger epsilon, for fits without a ledger whose `plan` has a ``mu``:
        all their noise is Gaussian. "zcdp" is for other fits, except those that sample records,
        and for all fits with a ledger.

    Returns
    -------
    epsilon : float
        At least 0.0001. The report of a fit, and its `plan`, say what its risk is.

    Raises
    ------
    TypeError
        If a parameter has the wrong type.
    ValueError
        If a parameter is out of range, or ``true_positive_rate`` is not larger than what guesses
        find, ``false_positive_rate``, even with the least epsilon.

    Examples
    --------
    >>> from skdpsco.inspection import epsilon_for_risk
    >>> round(epsilon_for_risk(0.05, 0.01), 2)
    1.61
    >>> round(epsilon_for_risk(0.05, 0.01, noise="gaussian"), 2)
    3.17
    """
    wanted = check_real("true_positive_rate", true_positive_rate, 0, 1)
    rate = check_real("false_positive_rate", false_positive_rate, 0, 1)
    delta = check_delta(delta, pure=True)
    check_choice("noise", noise, NOISE)

    def suffices(epsilon: float) -> bool:
        return _risk(epsilon, delta, noise).true_positive_rate(rate) <= wanted

    low, high = math.log(LEAST_EPSILON), math.log(LARGEST_EPSILON)
    if not suffices(LEAST_EPSILON):
        raise ValueError(
            "true_positive_rate must be larger than false_positive_rate, which guesses reach, got "
            f"{wanted:g} and {rate:g}."
        )
    low, _ = bisected(low, high, 40, lambda logarithm: suffices(math.exp(logarithm)))
    return math.exp(low)


def _risk(epsilon: float, delta: float, noise: str) -> Risk:
    """The risk of a fit that spends all of its budget."""
    budget = Budget(epsilon, delta)
    event: Event | None = None
    if noise == "gaussian":
        event = GaussianEvent(1 / budget.mu)
    elif noise == "zcdp":
        event = ZCDPEvent(budget.rho)
    return Risk(epsilon, delta, event)


@dataclass(kw_only=True, eq=False, repr=False)
class RiskDisplay:
    """What the best attacks on a record find, against their false alarms.

    Parameters
    ----------
    risk : Risk

    Attributes
    ----------
    line_ : matplotlib Line2D
        True against false positive rates.
    marks_ : matplotlib Line2D
        Points at .1 %, 1 % and 10 % false alarms.
    guess_ : matplotlib Line2D
        What guesses find.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skdpsco import PrivateRidge
    >>> from skdpsco.inspection import RiskDisplay, plan
    >>> planned = plan(PrivateRidge(epsilon=1.0), n_samples=5000, n_features=10)
    >>> display = RiskDisplay.from_report(planned)  # doctest: +SKIP
    """

    risk: Risk

    line_: Any = field(init=False)
    marks_: Any = field(init=False)
    guess_: Any = field(init=False)
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)

    @classmethod
    def from_report(cls, report: Any, *, ax: Any = None, name: Any = None, **kwargs: Any) -> Self:
        """Plot the risk of a fit, a pipeline, or a plan.

        Parameters
        ----------
        report : PrivacyReport, PipelineReport, PrivacyPlan, Risk or fitted estimator
        ax : matplotlib Axes or None, default=None
            None makes a figure.
        name : str or None, default=None
            For the legend; None is epsilon and delta.
        **kwargs : dict
            Style of the line, passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : RiskDisplay

        Raises
        ------
        TypeError
            If ``report`` is something else.
        ValueError
            If a step is not private, so that nothing is known of the risk.
        ImportError
            If matplotlib is not installed.
        """
        found = getattr(report, "privacy_", report)
        risk = found if isinstance(found, Risk) else getattr(found, "risk", abridged)
        if risk is None:
            raise ValueError("report must have a risk: a step is not private, or none learns.")
        if not isinstance(risk, Risk):
            raise TypeError(
                "report must be a PrivacyReport, a PipelineReport, a PrivacyPlan, a Risk or a "
                f"fitted private estimator, got {abridged(report)}."
            )
        return cls(risk=risk).plot(ax, name=name, **kwargs)

    def plot(self, ax: Any = None, *, name: Any = None, **kwargs: Any) -> Self:
        """Plot the curve, on logarithmic axes.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            None makes a figure.
        name : str or None, default=None
            For the legend; None is epsilon and delta.
        **kwargs : dict
            Style of the line, passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : RiskDisplay
            Itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = axes(type(self).__name__, ax)
        if name is None:
            name = f"epsilon={self.risk.epsilon:g}, delta={self.risk.delta:g}"
        x, y = zip(*self.risk.curve(), strict=True)
        (self.line_,) = ax.plot(x, y, **{"label": literal(str(name)), **kwargs})
        at = [self.risk.true_positive_rate(rate) for rate in FALSE_ALARMS]
        (self.marks_,) = ax.plot(FALSE_ALARMS, at, "o", color=self.line_.get_color())
        for rate, found in zip(FALSE_ALARMS, at, strict=True):
            ax.annotate(percent(found), (rate, found), (-4, 6), **_STYLE)
        guesses = {} if GUESSES in ax.get_legend_handles_labels()[1] else {"label": GUESSES}
        (self.guess_,) = ax.plot(x, x, "--", color="0.6", **guesses)
        ax.set(xscale="log", yscale="log", xlim=(x[0], 1.0), ylim=(x[0], 2.0))
        ax.set(xlabel="false alarms, among unused records", ylabel="found, among used records")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
        ax.legend(loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self
