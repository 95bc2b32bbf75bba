"""What every private estimator shares: budget, ledger, generator, report, and atomic fits."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator

from skdpsco._callers import callers
from skdpsco._random import (
    generator,
    refuse_if_strict,
    warn_of_version,
    warn_privacy,
    warn_utility,
)
from skdpsco._typing import Self
from skdpsco._validation import check_choice
from skdpsco._versions import __version__
from skdpsco.base.documentation import Documented
from skdpsco.base.grants import Grant
from skdpsco.base.labels import classifies_labels
from skdpsco.base.parameters import PrivacyParameters
from skdpsco.base.progress import progress_bar
from skdpsco.data.schema import Schema
from skdpsco.data.units import of_units
from skdpsco.privacy import Budget, BudgetExceededError, Event, NoOpEvent, rho_of
from skdpsco.privacy._checks import NEEDS_DELTA, abridged
from skdpsco.privacy.accounting import allows, for_units, pure_epsilon_of
from skdpsco.privacy.relations import ADD_OR_REMOVE, REPLACE_ONE, WITHIN_GROUPS, unit_relation
from skdpsco.privacy.report import PrivacyReport, ReleasedStep
from skdpsco.privacy.spending import Allowance, check_cost, pure_plan, rho_limit

__all__ = [
    "DRAWN",
    "FITTED_BEFORE",
    "LABELS_OF_UNITS",
    "MIN_RHO",
    "OTHER_STEPS",
    "Payer",
    "PrivateEstimator",
    "Release",
    "check_budget",
    "check_persons",
    "check_steps",
    "fitted_names",
    "guaranteed",
    "needs_units",
    "plan_within",
    "public_only",
    "releasing",
    "resolve_solver",
    "with_public_params",
]

# Smaller budgets need more noise than the grids of the Gaussian mechanism can hold; larger ones
# give no privacy.
MIN_RHO, MAX_RHO = 1e-9, 1e12  # finer noise than the grid, or none


VERSION_KEY = "_skdpsco_version"  # in the state of a pickled estimator


def check_budget(
    epsilon: Any, delta: Any, ledger: Any = None, max_records_per_unit: Any = None
) -> Budget:
    """Compute the budget, after a check that noise can be calibrated to it.

    Parameters
    ----------
    epsilon, delta : float
    ledger : object with ``charge``, or None
        Knows how many records a unit has; without a ledger a unit has 1.
    max_records_per_unit : int or None
        How many records a unit has, if that is declared.

    Raises
    ------
    TypeError
        If a number is not one, or ``ledger`` is no ledger or a class.
    ValueError
        If a number is out of range, together they allow too little or too much zCDP, or the ledger
        is for units of another number of records, or for a part of the data where it is declared.
    """
    if isinstance(ledger, type):
        raise TypeError(f"ledger must be an instance, not the class {ledger.__name__}.")
    if ledger is not None and not hasattr(ledger, "charge"):
        raise TypeError(f"ledger must be None or a Ledger, got {abridged(ledger)}.")
    of_ledger = getattr(ledger, "max_records_per_unit", 1)
    budget = Budget(
        epsilon, delta, of_ledger if max_records_per_unit is None else max_records_per_unit
    )
    if ledger is not None and budget.max_records_per_unit != of_ledger:
        raise ValueError(
            f"max_records_per_unit={max_records_per_unit!r} must be the number of the ledger, "
            f"which is {of_ledger}."
        )
    if max_records_per_unit is not None and getattr(ledger, "is_part", False):
        raise ValueError(
            "ledger must not be a part of Ledger.parallel where units are given: a unit may have "
            "records in all parts. Draw the records first, with draw_records, and divide them."
        )
    rho = rho_limit(budget)
    if not MIN_RHO <= rho <= MAX_RHO:
        size = "small" if rho < MIN_RHO else "large"
        k = budget.max_records_per_unit
        units = f" for units of {k} records" if k > 1 else ""
        raise ValueError(
            f"epsilon={epsilon!r} is too {size} with delta={delta!r}{units}: they allow "
            f"{rho:.3g} in zero-concentrated differential privacy (zCDP), where the legal "
            f"range is [{MIN_RHO:g}, {MAX_RHO:g}]."
        )
    return budget


def resolve_solver(solver: Any, makers: Mapping[str, Callable[[], Any]]) -> Any:
    """The solver with a given name, or the object that was given in place of a name.

    Parameters
    ----------
    solver : str or object
    makers : mapping of str to callable
        For each legal name, a function that makes its solver.

    Raises
    ------
    ValueError
        If there is no solver with this name.
    TypeError
        If a class is given in place of an object.
    """
    if isinstance(solver, str):
        return makers[check_choice("solver", solver, makers)]()
    if isinstance(solver, type):
        raise TypeError(f"solver must be an instance, {solver.__name__}(), not a class.")
    return solver


HIDDEN = "ledger", "random_state"  # a seed would let its readers remove the noise


def public_only(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters for a ledger's history, without ledgers, and without seeds, which undo noise."""
    shown = {name: value for name, value in params.items() if name not in HIDDEN}
    for name, value in shown.items():
        if hasattr(value, "get_params") and not isinstance(value, type):
            shown[name] = with_public_params(value)
    return shown


def with_public_params(estimator: Any) -> Any:
    """An unfitted copy without ledgers and seeds, to show."""
    if isinstance(estimator, FrozenEstimator):  # of which clones are no copies
        return FrozenEstimator(with_public_params(estimator.estimator))
    shown = clone(estimator)
    for path, value in shown.get_params(deep=True).items():
        if path.rpartition("__")[2] in HIDDEN:
            shown.set_params(**{path: None})
        elif isinstance(value, FrozenEstimator):
            shown.set_params(**{path: with_public_params(value)})
    return shown


class Payer(NamedTuple):
    """Who pays for a release, and what the ledger's history says about it.

    Parameters
    ----------
    ledger : object with ``charge``, or None
        The ledger to charge; None charges nothing.
    name : str
        The estimator or function that makes the release.
    parameters : dict
        Its parameters, as returned by `public_only`.
    relation : str
        Which record may replace another.
    """

    ledger: Any
    name: str
    parameters: dict[str, Any]
    relation: str = REPLACE_ONE


@dataclass
class Release:
    """A release that has been paid for: the source of its noise, and the content of its report.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the noise. Never store or copy it.
    seeded : bool
        Whether the noise is reproducible.
    assumptions : tuple of str
        Lines for the report. They may be replaced until the release has ended.
    steps : tuple of ReleasedStep
        Steps, in order.
    privacy : PrivacyReport or None
        None until the release has ended without an error.
    """

    rng: np.random.Generator
    seeded: bool
    assumptions: tuple[str, ...] = ()
    steps: tuple[ReleasedStep, ...] = ()
    privacy: PrivacyReport | None = None


def plan_within(make_plan: Callable[[Any], Any], available: Any) -> Any:
    """Call a planner, and check that its plan costs at most what it may spend.

    Parameters
    ----------
    make_plan : callable
        ``make_plan(available)`` returns an object with an ``event``. For a budget with delta=0 it
        is given allowances, and called several times.
    available : Budget, Allowance or Remainder

    Raises
    ------
    ValueError
        If the plan costs more than ``available``, or is not purely private where delta is 0.
    """
    if getattr(available, "delta", None) == 0:
        return pure_plan(make_plan, available)
    plan = make_plan(available)
    check_cost(plan.event, available)
    return plan


DRAWN = "records drawn of every unit: {}; the number of units is public"
LABELS_OF_UNITS = (
    "classes must be declared where units are given: which labels occur among the records that are "
    "drawn is not public."
)
UNCOUNTED_FITS = (
    "Nothing counts the {}fits of {}: each of them spends its epsilon on the same records, and "
    "their scores have no noise. Pass ledger=Ledger(...), or use PrivateGridSearchCV or "
    "private_cross_val_score of skdpsco.model_selection."
)
SPLITS_BY_NUMBER = (
    "The splits of {} follow from the number of records, which is private with "
    f"relation={ADD_OR_REMOVE!r}: without one of the records, others are in other parts. So "
    "epsilon, also in a ledger, holds for the part that a fit gets, not for the whole table."
)
SPLITS_OF_UNITS = (
    "The splits of {} follow from the number of records, which is private where units are given: "
    "if one unit has another record, those of others are in other parts. So epsilon, also in a "
    "ledger, holds for the units in the part that a fit gets, not for the whole table. Draw the "
    "records first, with draw_records, or use PrivateGridSearchCV."
)
BUDGET_ENDED = "The budget ended within {}, and fits that did not take place have the score NaN. {}"
LARGE_EPSILON = 20.0  # odds may grow by a factor of 500 million
HARDLY_PRIVATE = (
    "epsilon={:g} is above 20 and protects hardly anyone: what an attacker concludes about a "
    "record may become exp(epsilon) times as likely. Usual values are 0.1 to 3."
)
NO_LEDGER = (
    "{} has no ledger, so nothing adds up what is spent on these records: pass ledger=Ledger(...)."
)
FITTED_BEFORE = "fit {} of this object without a ledger: costs of fits to the same records add up"
STEP_ONLY = "covers this step alone; not private: {}"
NOT_COVERED = (
    "The guarantee of a private step covers this step alone. Other steps of the {} are not "
    "private: {}. (make_private_pipeline refuses such steps; its record_wise names harmless ones.)"
)

# One function that tells which steps of a pipeline, fitted to X, are not private: their names, and
# the reasons. `inspection`, which knows, stands above this module and puts it here.
OTHER_STEPS: list[Callable[[Any, Any], dict[str, str]]] = []


def check_steps(pipeline: Any, X: Any) -> dict[str, str]:
    """The steps of a pipeline that are not private, and why.

    Raises
    ------
    ValueError
        If there are some, for a pipeline of `make_private_pipeline`.
    """
    found = OTHER_STEPS[0](pipeline, X)
    if found and getattr(pipeline, "refuses_steps", False):
        raise ValueError(_not_covered(pipeline, found))
    return found


def _not_covered(pipeline: Any, found: dict[str, str]) -> str:
    reasons = "; ".join(f"{name}: {reason}" for name, reason in found.items())
    return NOT_COVERED.format(type(pipeline).__name__, reasons)


def _warn_of_steps(ledger: Any) -> tuple[str, ...]:
    """Say which steps of the pipeline whose fit calls this one are not private.

    Returns
    -------
    assumptions : tuple of str
        A line for the report, if there are such steps.

    Raises
    ------
    ValueError
        In strict mode, in place of a warning, and as in `check_steps`.
    """
    calls = callers()
    if calls.pipeline is None or isinstance(ledger, Grant):  # or a search of ours has checked it
        return ()
    found = check_steps(calls.pipeline, calls.X)
    if not found:
        return ()
    warn_privacy(_not_covered(calls.pipeline, found), calls=calls)
    return (STEP_ONLY.format(", ".join(found)),)


def needs_units(person: str) -> str:
    """What to do where a schema declares persons, and nothing says how many records they have."""
    return (
        f"max_records_per_unit must be given, as the schema declares person={person!r}: how many "
        f"records are drawn of every person. Then give fit the persons, units=frame[{person!r}]. "
        "(If every person has one record, the schema need not name persons.)"
    )


def check_persons(estimator: Any, ledger: Any) -> None:
    """Refuse a fit for single records if a schema among the parameters declares persons.

    Raises
    ------
    ValueError
        If there is such a schema, and ``ledger`` is not for units of several records.
    """
    if isinstance(ledger, Grant):  # what gives it has checked
        return
    params = estimator.get_params(deep=True).values()
    persons = [one.person for one in params if isinstance(one, Schema) and one.person]
    if persons and getattr(ledger, "max_records_per_unit", 1) == 1:
        raise ValueError(needs_units(persons[0]))


def _warn_of_wrapper(estimator: Any) -> None:
    """Say what is unprotected where a wrapper, such as a cross-validation, clones an estimator.

    Raises
    ------
    ValueError
        In strict mode, in place of a warning.
    """
    adds = getattr(estimator, "relation", None) == ADD_OR_REMOVE
    units = estimator.max_records_per_unit is not None
    if estimator.ledger is not None and not adds and not units:
        return
    calls = callers(cloning=True)
    if calls.wrapper and estimator.ledger is None:
        count = "" if calls.n_fits is None else f"{calls.n_fits} "
        warn_privacy(UNCOUNTED_FITS.format(count, calls.wrapper), calls=calls)
    if calls.splits and adds:
        warn_privacy(SPLITS_BY_NUMBER.format(calls.wrapper), calls=calls)
    if calls.splits and units:
        warn_privacy(SPLITS_OF_UNITS.format(calls.wrapper), calls=calls)


def guaranteed(relation: str, budget: Budget) -> str:
    """Which data sets are neighbours, if events are stated for one record of a unit."""
    return unit_relation(budget.max_records_per_unit) if relation == REPLACE_ONE else relation


@contextmanager
def releasing(
    payer: Payer,
    event: Event,
    budget: Budget,
    random_state: Any,
    *,
    assumptions: tuple[str, ...] = (),
    warnings: Iterable[str] = (),
    stacklevel: int = 2,
) -> Iterator[Release]:
    """Charge for ``event``, let noise be drawn within (and nowhere else), and report at the end.

    Everything that can fail because of a parameter or of the data must fail before. A release that
    fails within stays charged, and has no report.

    Parameters
    ----------
    payer : Payer
    event : Event
        The whole cost, known before the release, for the replacement of one record.
    budget : Budget
        The guarantee that the report states, for the replacement of one unit.
    random_state : None, int or numpy.random.RandomState
        None for secret noise.
    assumptions : tuple of str
        Lines for the report.
    warnings : iterable of str
        What users should know about the plan, from parameters and public sizes alone.
    stacklevel : int, default=2
        Which line the warnings name: 2 for the caller of the function with the ``with`` statement.

    Yields
    ------
    release : Release

    Raises
    ------
    ValueError, TypeError
        If delta is 0 and ``event`` is not purely private or exceeds epsilon, or ``random_state`` is
        not legal, and in strict mode in place of a `PrivacyWarning` and without a ledger; nothing
        has been charged then.
    BudgetExceededError
        If the ledger's remaining budget is too small.

    Warns
    -----
    UtilityWarning
        For each of ``warnings``.
    PrivacyWarning
        If the noise is reproducible, if epsilon is above 20, and at a ledger's first charge for
        neighbours within groups.
    """
    if budget.delta == 0 and not allows(budget, event):
        cost = pure_epsilon_of(for_units(event, budget.max_records_per_unit))
        costly = f"epsilon={budget.epsilon!r} must be at least what is released costs: {cost!r}."
        raise ValueError(costly if cost < math.inf else NEEDS_DELTA)
    stacklevel += 3  # ours, that of `contextmanager`, and that of `warn_utility` or `warn_privacy`
    for line in warnings:
        warn_utility(line, stacklevel)
    rng, seeded = generator(random_state, stacklevel=stacklevel)
    ledger, name, parameters, relation = payer
    if budget.epsilon > LARGE_EPSILON and not isinstance(ledger, Grant):
        warn_privacy(HARDLY_PRIVATE.format(budget.epsilon), stacklevel)
    if ledger is None:
        refuse_if_strict(NO_LEDGER.format(name))
    else:
        weakest_relation = getattr(ledger, "weakest_relation", None)
        if relation == WITHIN_GROUPS and weakest_relation and weakest_relation() == "replace-one":
            warn_privacy(
                f"With group_membership='public' the guarantee of {name} is for {relation!r} "
                "neighbours, and after this charge so is that of the whole ledger: see "
                "Ledger.weakest_relation(). Set group_membership='private' to keep 'replace-one'.",
                stacklevel,
            )
        try:
            ledger.charge(event, name, parameters, relation)
        except BudgetExceededError as error:
            calls = callers()
            if calls.hides_errors:
                warn_utility(BUDGET_ENDED.format(calls.wrapper, error), stacklevel, calls)
            raise
    release = Release(rng, seeded, assumptions)
    with np.errstate(all="ignore"):  # a warning about underflow would reveal data
        yield release
    event = for_units(event, budget.max_records_per_unit)
    release.privacy = PrivacyReport(
        epsilon=budget.epsilon,
        delta=budget.delta,
        rho=rho_of(event),
        event=event,
        seeded=seeded,
        assumptions=release.assumptions,
        relation=guaranteed(relation, budget),
        steps=release.steps,
    )


class PrivateEstimator(Documented, PrivacyParameters, BaseEstimator):
    """Base of everything that is fitted under differential privacy; see the subclasses.

    A fit checks its input, plans with `_planned` how to spend what is `_available`, and draws noise
    within `_releasing`, which charges the ledger first and reports at the end. Results are set on a
    `_draft`, and `_accept` adopts them. In docstrings of subclasses and of their methods, a line
    such as ``{epsilon, delta, ledger, random_state}`` stands for entries that estimators share.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit, random_state}
    """

    max_records_per_unit: int | None = None  # of estimators of users that do not have it
    _n_fits: int = 0  # those without a ledger, which nothing else counts
    _doubts: tuple[str, ...] = ()  # of a draft: what releases say against its parameters
    _part_of: Any = None  # of a draft: the estimator whose only charge is that of this one

    n_features_in_: int
    feature_names_in_: np.ndarray
    privacy_: PrivacyReport

    _param_names: ClassVar[tuple[str, ...]]

    # A pipeline passes it on without being asked to.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"units": True}

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """What scikit-learn reads off the signature, several times per fit: here once per class."""
        if "_param_names" not in vars(cls):
            cls._param_names = tuple(super()._get_param_names())
        return list(cls._param_names)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and fields of a loss, a penalty or a constraint.

        Parameters
        ----------
        **params : dict
            As in scikit-learn. Fields of NamedTuples are named like parameters of nested objects:
            ``set_params(loss__level=0.9)`` for ``loss=Quantile(0.5)``.

        Returns
        -------
        self : object
            The estimator itself.

        Raises
        ------
        ValueError
            If there is no such parameter or field.
        """
        for name in [one for one in params if "__" in one]:
            outer, _, field = name.partition("__")
            value: Any = params.get(outer, getattr(self, outer, None))
            if hasattr(value, "_replace") and field in value._fields:
                params[outer] = value._replace(**{field: params.pop(name)})
            elif hasattr(value, "_replace"):
                raise ValueError(f"{outer}={value!r} has no field {field!r}: {value._fields}.")
        hints = getattr(type(self).__init__, "hints", {})  # see `with_hints`
        for name in hints.keys() & params.keys():
            raise ValueError(f"{type(self).__name__} has no parameter {name!r}. {hints[name]}")
        return super().set_params(**params)

    def __sklearn_clone__(self) -> Self:
        _warn_of_wrapper(self)
        return super().__sklearn_clone__()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), VERSION_KEY: __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        version = state.pop(VERSION_KEY, __version__)
        if version != __version__:
            warn_of_version(type(self).__name__, version, __version__)
        super().__setstate__(state)

    def _budget(self) -> Budget:
        return check_budget(self.epsilon, self.delta, self.ledger, self.max_records_per_unit)

    @property
    def _known_as(self) -> Any:
        """The estimator that is fitted: this one, or what its fit is a part of."""
        return self if self._part_of is None else self._part_of

    @property
    def _relation(self) -> str:
        """Which data sets are neighbours; a fit states its events for this relation."""
        return getattr(self, "relation", REPLACE_ONE)

    def _candidates_of_fit(self) -> list[tuple[str, Any]]:
        """The estimators that a fit may use as a parameter's value, with the parameter's name."""
        return []

    def _of_units(self, units: Any, **given: Any) -> list[Any]:
        """What `fit` was given, in its order: k records of every unit, if units are declared.

        Parameters
        ----------
        units : array-like of shape (n_samples,), or None
        **given
            X, and everything that may have one entry for each of its records.

        Raises
        ------
        ValueError
            If one of ``units`` and ``max_records_per_unit`` is missing, or both are although a
            schema among the parameters declares a person, the labels of classes are not declared,
            neighbours do not replace records of all kinds, or the records cannot be drawn.
        """
        k = self.max_records_per_unit
        if (k is None) != (units is None):
            raise ValueError(
                "units (the person, or other unit, of every record) and max_records_per_unit must "
                "be given together: one to fit, the other as a parameter. (In a search, give both "
                "to the search, not to its estimator.)"
            )
        if k is None:
            check_persons(self, self.ledger)
            return list(given.values())
        if self._relation != REPLACE_ONE:
            raise ValueError(
                f"max_records_per_unit must be None where neighbours are {self._relation!r}: it "
                f"needs {REPLACE_ONE!r}."
            )
        if classifies_labels(self) and getattr(self, "classes", ()) is None:
            raise ValueError(LABELS_OF_UNITS)
        return of_units(units, k, self.random_state, given)

    def _available(self, budget: Budget) -> Budget | Allowance:
        """What a planner may spend: zCDP if it adds up with other charges, or is that of units.

        With delta=0 it is the budget, for which `plan_within` tries several allowances.
        """
        alone = self.ledger is None and budget.max_records_per_unit == 1
        return budget if alone or budget.delta == 0 else Allowance(budget.rho)

    def _planned(
        self,
        make_plan: Callable[[Any], Any],
        available: Any,
        n_samples: int,
        n_features: int,
        *names: str,
    ) -> Any:
        """A plan that costs at most what is available; errors say what to change.

        Parameters
        ----------
        make_plan : callable
            ``make_plan(available)`` returns an object with an ``event``.
        available : Budget, Allowance or Remainder
        n_samples, n_features : int
        *names : str
            Parameters, besides the budget, that may be too extreme for a plan.

        Raises
        ------
        ValueError
            If no plan is possible.
        """
        try:
            return plan_within(make_plan, available)
        except (ArithmeticError, MemoryError, ValueError) as error:
            values = "".join(
                f"{name}={getattr(self, name)!r}, " for name in ("epsilon", "delta", *names)
            )
            raise ValueError(
                f"Cannot split the budget for {values}n={n_samples}, d={n_features}: one of these "
                f"is out of the workable range. {error}"
            ) from error

    @contextmanager
    def _releasing(
        self, draft: Any, event: Event, budget: Budget, *, stacklevel: int = 2, **said: Any
    ) -> Iterator[Release]:
        """Charge for ``event``, draw noise within, and at the end set ``privacy_`` on ``draft``.

        Parameters
        ----------
        draft : PrivateEstimator
            The estimator that is fitted.
        event : Event
            The whole cost of the fit, known before it.
        budget : Budget
        stacklevel : int, default=2
            Which line warnings name: 2 for the caller of the method with the ``with`` statement.
        **said
            ``assumptions`` and ``warnings``, as for `releasing`.
        """
        known = self._known_as
        parameters = {} if self.ledger is None else public_only(known._changed_first())
        payer = Payer(self.ledger, type(known).__name__, parameters, self._relation)
        alone = _warn_of_steps(self.ledger)
        n_fits = known._n_fits + (self.ledger is None)
        stacklevel += 2 + (known is not self)
        with releasing(
            payer, event, budget, self.random_state, stacklevel=stacklevel, **said
        ) as release:
            yield release
            if self.max_records_per_unit is not None:
                release.assumptions += (DRAWN.format(self.max_records_per_unit),)
            if self.ledger is None and n_fits > 1:
                release.assumptions += (FITTED_BEFORE.format(n_fits),)
            release.assumptions += alone
        draft.privacy_, draft._n_fits = release.privacy, n_fits

    def _report_free(self, report: PrivacyReport) -> None:
        """Report a fit that is post-processing of a release; a ledger gets a line without cost."""
        if self.ledger is not None:
            parameters = public_only(self._changed_first())
            self.ledger.charge(NoOpEvent(), type(self).__name__, parameters, report.relation)
        self.privacy_ = report

    def _changed_first(self) -> dict[str, Any]:
        """The parameters, those that differ from their defaults first, for a ledger's history."""
        defaults = self._default_params()

        def unchanged(item: tuple[str, Any]) -> bool:
            default = defaults.get(item[0])
            return type(item[1]) is type(default) and item[1] == default

        return dict(sorted(self.get_params(deep=False).items(), key=unchanged))

    def _follow(self, solver: Any, plan: Any, problem: Any, *data: Any) -> Any:
        """Run ``solver`` on the data, the generator last, with a progress bar if that is set."""
        steps = max(plan.n_iter, 1)
        with progress_bar(steps, type(self._known_as).__name__) as counter:
            return solver.run(plan, problem, *data, counter)

    def _draft(self):
        """A copy to fit, so that a fit that fails leaves the estimator as it was."""
        draft = copy(self)
        _forget(draft)
        return draft

    def _accept(self, draft):
        """Adopt the results of ``draft``, and forget those of an earlier fit.

        All attributes change at once: an interrupt leaves the earlier ones, and if two threads fit
        one object, all results are those of the last.

        Warns
        -----
        UtilityWarning
            If releases speak against a parameter. If the warning is an error, no result is lost.
        """
        found = {name: vars(draft)[name] for name in fitted_names(draft)}
        state = vars(self).copy()
        for name in fitted_names(self):
            state.pop(name, None)
        self.__dict__ = {**state, **found, "_n_fits": draft._n_fits}
        for doubt in () if isinstance(self.ledger, Grant) else draft._doubts:
            warn_utility(doubt, stacklevel=4)
        return self

    def _caption(self) -> str:
        if not hasattr(self, "privacy_"):
            return "private"
        said = f"private: epsilon = {self.privacy_.epsilon:g}, delta = {self.privacy_.delta:g}"
        alone = [a for a in self.privacy_.assumptions if a.startswith(STEP_ONLY[:10])]
        return "; ".join((said, *alone))

    def _html_with_privacy(self, html: str) -> str:
        return html + self.privacy_._repr_html_() if hasattr(self, "privacy_") else html

    def _repr_html_inner(self):
        return self._html_with_privacy(super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._html_with_privacy(bundle["text/html"])
        return bundle


def fitted_names(estimator: Any) -> list[str]:
    """Names of the attributes that a fit has set."""
    names = list(vars(estimator))  # another thread may add some
    found = [name for name in names if name.endswith("_") and not name.startswith("_")]
    parameters = estimator._get_param_names() if found else []
    return [name for name in found if name not in parameters]


def _forget(estimator: PrivateEstimator) -> None:
    for name in fitted_names(estimator):
        delattr(estimator, name)
