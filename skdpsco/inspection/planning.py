"""What a fit would release and cost, from its parameters and the shape of its records alone."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, NamedTuple

from sklearn.base import clone

from skdpsco._random import warn_utility
from skdpsco._validation import check_bound
from skdpsco.base.advice import BOUNDS_OF_1, LARGEST_EPSILON, counted, rounded_up
from skdpsco.base.grants import ReachedNoise, Rehearsal
from skdpsco.base.private_estimator import PrivateEstimator, guaranteed
from skdpsco.privacy import (
    AddedPoissonSampledGaussianEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceNoisyMaxEvent,
    PoissonSampledGaussianEvent,
    Risk,
    is_gaussian,
    mu_of,
    rho_of,
)
from skdpsco.privacy._numerics import bisected
from skdpsco.privacy.accounting import for_units
from skdpsco.privacy.events import leaves
from skdpsco.privacy.relations import ADD_OR_REMOVE
from skdpsco.privacy.report import folded, html_table
from skdpsco.scaling.calibration import AnyCalibration
from skdpsco.scaling.feature_bounds import BoundPlan
from skdpsco.solvers.base import Plan

from ._public_tables import check_plannable, check_shape, placeholder
from .pipeline_report import frame_with, paragraphs, text_table

__all__ = ["LEAST_EPSILON", "PlannedRelease", "PrivacyPlan", "epsilon_for", "n_for", "plan"]

LEAST_EPSILON = 1e-4  # the least epsilon that is tried
MOST_SEARCHED = 2**28  # entries of the largest table that `n_for` tries

# Standard deviation of the noise of a draw, in units of the range of changes of the scores.
_GUMBEL = math.pi / math.sqrt(6.0)
_multiplier = attrgetter("noise_multiplier")
_NOISE: dict[type, tuple[str, Callable[[Any], float]]] = {
    GaussianEvent: ("Gaussian", _multiplier),
    PoissonSampledGaussianEvent: ("Gaussian, of samples", _multiplier),
    AddedPoissonSampledGaussianEvent: ("Gaussian, of samples", _multiplier),
    ExponentialMechanismEvent: ("exponential draw", lambda event: _GUMBEL / event.epsilon0),
    LaplaceNoisyMaxEvent: ("noisy maximum", lambda event: math.sqrt(2.0) / event.epsilon0),
}


@dataclass(frozen=True)
class PlannedRelease:
    """Releases of one kind in one stage of a fit.

    Parameters
    ----------
    stage : str
        What is found, or the name of the solver, which finds the coefficients.
    mechanism : str
    count : int
        Number of releases with this noise.
    noise : float
        Standard deviation of the noise, in units of the sensitivity: the largest change, in the l2
        norm, that one record makes, or for a draw the largest range of changes of the scores. NaN
        where only the cost is planned.
    mean_noise : float
        Standard deviation that this noise would give to the mean over all records of a number in
        [-1, 1]. NaN for draws.
    rho : float
        Cost of all these releases, in zCDP.
    share : float
        ``rho`` divided by that of the whole fit.
    """

    stage: str
    mechanism: str
    count: int
    noise: float
    mean_noise: float
    rho: float
    share: float


@dataclass(frozen=True)
class PrivacyPlan:
    """What a fit would release; it prints in words and as a table. `plan` makes it.

    Parameters
    ----------
    estimator : str
        Name of the class.
    n_samples, n_features : int
    epsilon, delta : float
        The guarantee.
    rho : float
        What a ledger would be charged, in zCDP.
    mu : float or None
        The same for Gaussian differential privacy; None unless all noise is Gaussian.
    event : Event
        What would be charged.
    relation : str
        Which data sets are neighbours.
    releases : tuple of PlannedRelease
        In the order of the fit. If a solver's final plan depends on what earlier stages find, these
        are its releases for the largest numbers that they may find.
    n_iter : int
        Number of private steps of the solver; 0 if there is none.
    warnings : tuple of str
        What a fit would warn of.
    coefficient_noise : float or None
        Standard deviation of the noise in one coefficient, in standard deviations of the target per
        standard deviation of a feature, for solvers of least squares whose result is linear in the
        noise; otherwise None. It is a guess, mostly within a factor of 1.5, for uncorrelated
        features that explain about half of the target's variance, and a weak penalty. If they
        explain nearly all of it, the noise is smaller.
    n_fits : int
        Number of targets, if every target has a fit within a part of the cost; ``releases`` are
        then those of the first, whose part is the largest. Otherwise 1.
    """

    estimator: str
    n_samples: int
    n_features: int
    epsilon: float
    delta: float
    rho: float
    mu: float | None
    event: Event
    relation: str
    releases: tuple[PlannedRelease, ...]
    n_iter: int
    warnings: tuple[str, ...]
    coefficient_noise: float | None = None
    n_fits: int = 1

    @property
    def risk(self) -> Risk:
        """What an attacker can find out about one record."""
        return Risk(self.epsilon, self.delta, self.event, self.relation)

    def rows(self) -> list[tuple[str, ...]]:
        """Cells of the table, without its head."""
        return [
            (
                one.stage,
                one.mechanism,
                str(one.count),
                *("" if math.isnan(x) else f"{x:.3g}" for x in (one.noise, one.mean_noise)),
                f"{one.rho:.3g}",
                f"{one.share:.1%}",
            )
            for one in self.releases
        ]

    def lines(self) -> list[str]:
        """Sentences about the whole fit."""
        shares: dict[str, float] = {}
        for one in self.releases:
            shares[one.stage] = shares.get(one.stage, 0.0) + one.share
        spent = "; ".join(f"{100 * share:.1f} % on {stage}" for stage, share in shares.items())
        lines = [
            f"{self.estimator} on {counted(self.n_samples, 'record')} and "
            f"{counted(self.n_features, 'feature')}, with epsilon={self.epsilon:g} and "
            f"delta={self.delta:g} ({self.relation}):",
            *self.risk.lines(),
            f"The budget: {spent or 'nothing is spent'}.",
        ]
        if self.coefficient_noise is not None:
            lines.append(
                f"Noise in a coefficient: {self.coefficient_noise:.2g} standard deviations of the "
                "target per standard deviation of a feature."
            )
        if self.n_fits > 1:
            lines.append(
                f"Each of {self.n_fits} targets has a fit; these are the releases of the first."
            )
        return [*lines, *self.warnings]

    def meanings(self) -> list[str]:
        """What the numbers of the table mean."""
        lines = [
            f"rho={self.rho:.4g} is the cost in zero-concentrated differential privacy (zCDP): the "
            "costs of releases add up.",
            "A stage has one row for each size of its noise.",
            "noise/sensitivity: standard deviation of the noise, divided by the largest change "
            "that one record makes.",
            "noise of a mean: the noise in the mean over all records of a number in [-1, 1].",
        ]
        if self.mu is not None:
            lines.append(
                f"mu={self.mu:.4g}: all releases together reveal as much as a single one whose "
                "noise/sensitivity is 1/mu."
            )
        return lines

    def to_frame(self) -> Any:
        """The releases as a pandas DataFrame, a row for each kind.

        Returns
        -------
        frame : DataFrame
            Its columns are the fields of `PlannedRelease`.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        columns = [field.name for field in fields(PlannedRelease)]
        return frame_with(self.releases, columns, "PrivacyPlan.to_frame()")

    def __str__(self) -> str:
        table = text_table(_PLAN_HEAD, self.rows())
        return "\n".join([*self.lines(), "", table, "", *self.meanings()])

    def _repr_html_(self) -> str:
        table = html_table("Releases", self.rows(), _PLAN_HEAD) + paragraphs(self.meanings())
        return paragraphs(self.lines()) + folded("In numbers", table)


_PLAN_HEAD = (
    "stage",
    "mechanism",
    "releases",
    "noise/sensitivity",
    "noise of a mean",
    "rho (zCDP)",
    "share",
)


class _ReachedCharge(Exception):
    """Ends a fit where it would be charged; it carries the event, the budget and the warnings."""


class _Seen(NamedTuple):
    """The plans and problems of a fit, in lists.

    Where several targets have a fit each, their plans are in ``fits``, a list for each, and those
    of the first are in ``plans``.
    """

    plans: list[Any]
    problems: list[Any]
    fits: list[list[Any]]


def _watched(estimator: PrivateEstimator, n_samples: int, seen: _Seen) -> Any:
    """A clone whose fit records its plans, and ends before it charges anything."""
    kind: Any = type(estimator)
    plans, problems, fits = seen

    def _planned(self, *arguments, **sizes):
        plans.append(kind._planned(self, *arguments, **sizes))
        return plans[-1]

    def _problem(self, *arguments):
        problems.append(kind._problem(self, *arguments))
        return problems[-1]

    def _prepared(self, task, _, available):  # for this number of records, also where it is private
        prepared = kind._prepared(self, task, n_samples, available)
        if all(stage.part != BoundPlan.part for stage in prepared.stages):  # none are found
            plans[:] = [one for one in plans if getattr(one, "part", None) != BoundPlan.part]
        return prepared

    def _releasing(self, draft, event, budget, warnings=(), **said):
        if isinstance(self.ledger, Rehearsal):  # the fit of one target among several
            fits.append(plans[:])
            for line in warnings:
                warn_utility(line)
            raise ReachedNoise(self.ledger.prefix)
        plans[:] = fits[0] if fits else plans
        raise _ReachedCharge(event, budget, warnings)

    def _of_units(self, units, **given):  # the shape is that of what is drawn
        return list(given.values())

    def _linear_model(self):  # of an additive model: the model that charges for it
        return _watched(kind._linear_model(self), n_samples, seen)

    watched = {"_planned": _planned, "_releasing": _releasing, "_of_units": _of_units}
    if hasattr(kind, "_problem"):
        watched |= {"_problem": _problem, "_prepared": _prepared}
    if hasattr(kind, "_linear_model"):
        watched |= {"_linear_model": _linear_model}
    copy = clone(estimator)
    copy.__class__ = type(kind.__name__, (kind,), watched)
    return copy


def plan(
    estimator: Any,
    n_samples: int,
    n_features: int | Sequence[str],
    *,
    n_classes: int = 2,
    n_groups: int = 2,
    n_targets: int = 1,
    sparse: bool = False,
) -> PrivacyPlan:
    """What a fit of an estimator to records of this shape would release and cost.

    It sees no data, costs nothing and charges no ledger. What a fit releases follows from
    parameters and public sizes alone, so a fit to data of this shape releases exactly this. If
    several targets have a fit each, the releases are those of the first fit, within its part of
    the cost; the others need not find bounds, centres and scales of the features again.

    Parameters
    ----------
    estimator : PrivateEstimator
        A private model or transformer. If it has a ledger, its fits are planned in zCDP.
    n_samples : int
        Where the number of records is private, a guess: fits plan with what they count.
    n_features : int or list of str
        The number of features, or the names of the columns, by which parameters such as
        ``feature_bound`` may be given; names need pandas. With a number, those that a ``schema``
        declares come first.
    n_classes : int, default=2
        Number of labels, for a classifier without ``classes``.
    n_groups : int, default=2
        Number of groups of equal size, for `PrivateGroupDRO` without ``groups``.
    n_targets : int, default=1
        Number of target columns, for models that take several, and for those with
        ``tasks="columns"``.
    sparse : bool, default=False
        Whether X is a sparse matrix.

    Returns
    -------
    plan : PrivacyPlan

    Raises
    ------
    TypeError
        If ``estimator`` is not private, is a search or a synthesizer, or a parameter has the wrong
        type.
    ValueError
        If a parameter is out of range, or a fit to records of this shape would be refused.

    Examples
    --------
    >>> from skdpsco import PrivateRidge
    >>> from skdpsco.inspection import plan
    >>> planned = plan(PrivateRidge(epsilon=1.0), n_samples=5000, n_features=10)
    >>> planned.releases[-1].stage
    'GradientDescent'
    >>> planned.warnings
    ()
    """
    check_plannable(estimator)
    shape = check_shape(
        n_samples,
        n_features,
        n_classes=n_classes,
        n_groups=n_groups,
        n_targets=n_targets,
        sparse=sparse,
    )
    seen = _Seen([], [], [])
    X, y, others = placeholder(estimator, shape)
    try:
        _watched(estimator, shape.n_samples, seen).fit(X, y, **others)
    except _ReachedCharge as reached:
        event, budget, warnings = reached.args
    else:
        raise TypeError(f"{type(estimator).__name__} cannot be planned: a fit charges nothing.")
    kept: dict[type, Any] = {}
    for one in seen.plans:  # for a solver, the last rehearsal
        kept.pop(type(one), None)
        kept[type(one)] = one
    order = sorted(kept.values(), key=lambda one: isinstance(one, AnyCalibration))
    solver = next((one for one in order if isinstance(one, Plan)), None)
    noise = getattr(solver, "coefficient_noise", None)
    k = budget.max_records_per_unit
    whole = for_units(event, k)
    total = rho_of(whole)
    # What one record moves in a sum of numbers in [-1, 1].
    n, moved = shape.n_samples, 1.0 if estimator._relation == ADD_OR_REMOVE else 2.0
    return PrivacyPlan(
        estimator=type(estimator).__name__,
        n_samples=shape.n_samples,
        n_features=shape.n_features,
        epsilon=budget.epsilon,
        delta=budget.delta,
        rho=total,
        mu=mu_of(whole) if is_gaussian(whole) else None,
        event=whole,
        relation=guaranteed(estimator._relation, budget),
        releases=tuple(r for one in order for r in _releases(one, moved, n, total, k)),
        n_iter=0 if solver is None else solver.n_iter,
        warnings=tuple(dict.fromkeys(warnings)),
        coefficient_noise=None if noise is None else noise(seen.problems[-1]),
        n_fits=max(len(seen.fits), 1),
    )


def _releases(
    made: Any, moved: float, n_samples: int, total: float, k: int
) -> Iterator[PlannedRelease]:
    stage = getattr(made, "name", type(made).__name__.removesuffix("Plan"))
    for event, count in leaves(made.event):
        rho = k**2 * count * rho_of(event)
        if rho == 0.0:
            continue
        mechanism, noise_of = _NOISE.get(type(event), ("other", lambda event: math.nan))
        noise = noise_of(event)
        mean = moved * noise / n_samples if mechanism.startswith("Gaussian") else math.nan
        yield PlannedRelease(stage, mechanism, count, noise, mean, rho, rho / total)


def epsilon_for(
    estimator: Any,
    n_samples: int,
    n_features: int | Sequence[str],
    *,
    coefficient_noise: float | None = None,
    **shape: Any,
) -> float:
    """The least epsilon with which a fit has no warning, or little enough noise.

    Parameters
    ----------
    estimator : PrivateEstimator
        The estimator's own epsilon makes no difference.
    n_samples : int
    n_features : int or list of str
    coefficient_noise : float or None, default=None
        The wanted standard deviation of the noise in a coefficient, > 0, as in `PrivacyPlan`. None
        asks for an epsilon with which a fit has no warning.
    **shape : dict
        ``n_classes``, ``n_groups``, ``n_targets`` and ``sparse``, as for `plan`.

    Returns
    -------
    epsilon : float
        Rounded up to two digits; at least 0.0001.

    Raises
    ------
    TypeError
        If `plan` raises it, or ``coefficient_noise`` is not a number.
    ValueError
        If `plan` raises it, no epsilon up to 10,000 suffices, or ``coefficient_noise`` is not
        positive or is requested for a model for which it is not known.

    Notes
    -----
    Noise falls as epsilon grows, except where a fit begins to make one more pass or release. So
    all numbers of two digits, from the result to twice as much, are tried: they suffice. A smaller
    epsilon, before such a rise of the noise, may suffice, too.

    Examples
    --------
    >>> from skdpsco import PrivateRidge
    >>> from skdpsco.inspection import epsilon_for
    >>> epsilon_for(PrivateRidge(), n_samples=300, n_features=10)
    0.59
    """
    check_plannable(estimator)
    suffices = _criterion(coefficient_noise)

    def planned_at(logarithm: float) -> PrivacyPlan:
        one = clone(estimator).set_params(epsilon=math.exp(logarithm))
        return plan(one, n_samples, n_features, **shape)

    low, high = math.log(LEAST_EPSILON), math.log(LARGEST_EPSILON)
    if not suffices(planned_at(high)):
        raise ValueError(_never(f"epsilon up to {LARGEST_EPSILON:g}", planned_at(high)))
    # After 18 halvings the ends differ by less than 1e-4.
    _, high = bisected(low, high, 18, lambda middle: not _holds(suffices, planned_at, middle))
    found = tried = rounded_up(math.exp(high))
    # Where a release begins to pay, a little more budget may have a little more noise.
    while tried < min(2.0 * found, LARGEST_EPSILON):
        holds = _holds(suffices, planned_at, math.log(tried))
        tried = rounded_up(1.005 * tried)
        found = found if holds else tried
    return found


def n_for(
    estimator: Any,
    n_features: int | Sequence[str],
    *,
    coefficient_noise: float | None = None,
    **shape: Any,
) -> int:
    """The least number of records with which a fit has no warning, or little enough noise.

    Parameters
    ----------
    estimator : PrivateEstimator
        With its epsilon and delta. If delta is above a tenth of one over the number of records, a
        fit warns of that, and more records do not help: choose a smaller delta.
    n_features : int or list of str
    coefficient_noise : float or None, default=None
        As for `epsilon_for`.
    **shape : dict
        ``n_classes``, ``n_groups``, ``n_targets`` and ``sparse``, as for `plan`.

    Returns
    -------
    n_samples : int

    Raises
    ------
    TypeError
        If `plan` raises it, or ``coefficient_noise`` is not a number.
    ValueError
        If `plan` raises it, no number of records up to some ten million suffices, or
        ``coefficient_noise`` is not positive or is requested for a model for which it is not known.

    Notes
    -----
    The number suffices. Since noise may rise where a fit begins to make one more pass or release, a
    smaller number may suffice, too, and a slightly larger one may not.

    Examples
    --------
    >>> from skdpsco import PrivateRidge
    >>> from skdpsco.inspection import n_for
    >>> n_for(PrivateRidge(epsilon=0.5), n_features=10)
    348
    """
    check_plannable(estimator)
    suffices = _criterion(coefficient_noise)

    def planned_at(n_samples: int) -> PrivacyPlan:
        return plan(estimator, n_samples, n_features, **shape)

    columns = n_features if isinstance(n_features, int) else len(n_features)
    largest = MOST_SEARCHED // max(columns, 8)
    low, high = 1, 64
    while not _holds(suffices, planned_at, high):
        if 2 * high > largest:
            raise ValueError(_never(f"n_samples up to {high}", planned_at(high)))
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _holds(suffices, planned_at, middle) else (middle, high)
    return high


def _criterion(coefficient_noise: float | None) -> Callable[[PrivacyPlan], bool]:
    """The condition that a plan must fulfil."""
    if coefficient_noise is None:
        return lambda planned: all(BOUNDS_OF_1 in line for line in planned.warnings)
    most = check_bound("coefficient_noise", coefficient_noise)
    return lambda planned: (planned.coefficient_noise or math.inf) <= most


def _holds(
    suffices: Callable[[PrivacyPlan], bool], planned_at: Callable[[Any], PrivacyPlan], number: Any
) -> bool:
    """Whether there is a plan, and it fulfils the condition."""
    try:
        return suffices(planned_at(number))
    except ValueError:  # there is no plan
        return False


def _never(what: str, planned: PrivacyPlan) -> str:
    """Why a search ends without a result, from the last plan that was tried."""
    why = planned.warnings
    if not why and planned.coefficient_noise is None:
        why = ("The noise of its coefficients is not known.",)
    return " ".join((f"No {what} will do for {planned.estimator}.", *why))
