"""A row about every step of an estimator, however deeply it is nested."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skdpsco._upstream import callbacks_of
from skdpsco.base.private_estimator import FITTED_BEFORE, PrivateEstimator, fitted_names, guaranteed
from skdpsco.data.block_records import first_record
from skdpsco.group_dro import PrivateGroupDRO
from skdpsco.preprocessing.table import PrivatePipeline
from skdpsco.privacy import Event, epsilon_of, rho_of
from skdpsco.privacy.accounting import for_units
from skdpsco.privacy.relations import (
    ADD_OR_REMOVE,
    REPLACE_ONE,
    WITHIN_GROUPS,
    records_of_unit,
)
from skdpsco.privacy.report import PrivacyReport

from ._cost import frozen_steps, planned, private_steps, search_cost
from ._record_wise import (
    KEEP_DTYPE,
    SPARSE,
    UNKNOWN,
    StepInput,
    dtypes_depend_on_values,
    enlarges,
    fails_for,
    layout_of_records,
    output_of,
    unmet,
)

__all__ = ["NOT_PRIVATE", "PRIVATE", "StepReport", "Walk", "about", "check_record_wise", "joined"]

FREE, PRIVATE, NOT_PRIVATE = "data-independent", "private", "NOT private"

LAYOUT = (
    "whether its output is sparse may depend on the data: set sparse_threshold=0, or 1 if a step "
    "is a CategoricalDomainEncoder of several categories with sparse_output=True"
)
DTYPES = (
    "learns the dtype of its input, which depends on whether a value is missing, or on how long "
    "one is: turn integers and booleans of X into floats, and bytes into text, or use "
    "CategoricalDomainEncoder"
)
MAY_FAIL = "after a private step it may fail, once that is charged,"
CALLBACKS = "its callbacks see records and models: remove them with set_callbacks()"
GROUPS = (
    "for labels that are no groups, as it reads them from a column of what that step returns: pass "
    "the labels themselves"
)
MEMORY = (
    "its memory returns the same noise again, uncharged, if all records are what they were, and so "
    "tells whether they are: set memory=None"
)
FOLLOWS = "follows from moments, whose release is counted"
FROZEN = "frozen; counted as if it was fitted on the same records"
# Which classes of scikit-learn each of ours stands for.
_IN_PLACE_OF = {
    "CategoricalDomainEncoder": "OneHotEncoder",
    "HashingVectorizer": "CountVectorizer, TfidfVectorizer",
    "PrivateElasticNet": "ElasticNet, ElasticNetCV",
    "PrivateFeatureSelector": "GenericUnivariateSelect, SelectKBest, SelectPercentile, "
    "VarianceThreshold",
    "PrivateGammaRegressor": "GammaRegressor",
    "PrivateGridSearchCV": "GridSearchCV, HalvingGridSearchCV, HalvingRandomSearchCV, "
    "RandomizedSearchCV",
    "PrivateLasso": "Lasso, LassoCV, SGDRegressor",
    "PrivateLinearDiscriminantAnalysis": "LinearDiscriminantAnalysis",
    "PrivateLogisticRegression": "LinearSVC, LogisticRegression, LogisticRegressionCV, "
    "RidgeClassifier, SGDClassifier",
    "PrivatePCA": "PCA, TruncatedSVD",
    "PrivatePoissonRegressor": "PoissonRegressor",
    "PrivateQuantileClipper": "PowerTransformer, QuantileTransformer",
    "PrivateQuantileClipper or PublicBoundsScaler": "RobustScaler",
    "PrivateRidge": "LinearRegression, Ridge",
    "PrivateSplineTransformer": "KBinsDiscretizer, SplineTransformer",
    "PrivateStandardScaler or PublicBoundsScaler": "StandardScaler",
    "PublicBoundsScaler": "MaxAbsScaler, MinMaxScaler",
    "TableEncoder": "SimpleImputer",
}
ALTERNATIVES = {name: ours for ours, names in _IN_PLACE_OF.items() for name in names.split(", ")}


@dataclass(frozen=True)
class StepReport:
    """The cost of one step of an estimator, or the reason why it is not known.

    Parameters
    ----------
    name : str
        Path of the step, as in ``set_params``; empty for the estimator itself.
    estimator : str
        Name of its class.
    status : {"data-independent", "private", "NOT private"}
    epsilon, delta, rho : float or None
        Cost of the step, with rho in zero-concentrated differential privacy. Before a fit these are
        upper bounds.
    note : str
        The reason, an assumption, or an alternative.
    relation : str or None
        Which data sets are neighbours, for a private step.
    report : PrivacyReport or None
        The report of a fitted private step.
    """

    name: str
    estimator: str
    status: str
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    note: str = ""
    relation: str | None = None
    event: Event | None = field(default=None, repr=False)
    report: PrivacyReport | None = field(default=None, repr=False)


class Walk:
    """Visits every step, and keeps a row about each.

    Parameters
    ----------
    record_wise : iterable of str or object
        Names of steps, steps and functions for which the caller vouches.
    fitted : bool
        Whether to look at fitted steps, where they exist, or at what a fit would do.
    params : dict
        Parameters of the whole estimator: the unfitted step for each name.
    X : records or None
        Records of which only the layout matters.
    named_groups : bool
        Whether fits are given the names of the columns that hold groups.
    """

    def __init__(
        self,
        record_wise: Iterable[Any],
        fitted: bool,
        params: dict[str, Any],
        X: Any = None,
        named_groups: bool = False,
    ) -> None:
        self.fitted = fitted
        self.named_groups = named_groups
        X = first_record(X)
        self.given = StepInput(layout_of_records(X))  # what is known of the visited step's input
        self.after_private = False  # whether a private step comes before the visited one
        self._changing_dtypes = dtypes_depend_on_values(X)
        self._params = params
        self.rows: list[StepReport] = []
        self.names: list[str] = []
        self.unused = check_record_wise(record_wise)
        self._declared = list(self.unused)

    def vouched(self, *things: Any, name: str | None = None) -> bool:
        """Whether the caller has declared one of ``things``, or this name."""
        found = [
            d
            for d in self._declared
            if (d == name if isinstance(d, str) else any(d is thing for thing in things))
        ]
        self.unused = [d for d in self.unused if not any(d is f for f in found)]
        return bool(found)

    def add(self, name: str, step: Any, status: str, note: str = "", **cost: Any) -> None:
        """Add a row."""
        kind = "passthrough" if step is None else step
        kind = kind if isinstance(kind, str) else type(step).__name__
        self.rows.append(StepReport(name, kind, status, note=note, **cost))

    def visit(self, name: str, step: Any, note: str = "") -> None:
        """Add the rows of a step.

        Parameters
        ----------
        name : str
        step : estimator, "passthrough" or "drop"
        note : str
            Note on the cost.
        """
        self.names.append(name)
        if any(not _is_progress_bar(callback) for callback in callbacks_of(step)):
            self.add(name, step, NOT_PRIVATE, CALLBACKS)
        if self.vouched(step, self._params.get(name), name=name):
            if private_steps(step) or _report_of(step) is not None:
                raise ValueError(
                    f"record_wise must not contain {name!r}: {type(step).__name__} has a cost."
                )
            self.add(name, step, FREE, "declared by the caller")
        elif step is None or (isinstance(step, str) and step in ("passthrough", "drop")):
            self.add(name, step, FREE)
        elif type(step) in COMPOSITES:
            COMPOSITES[type(step)](self, name, step, note)
        elif self._add_private(name, step, note):
            # A private estimator answers for the cost of its own fit, not for earlier steps.
            for inner, frozen in frozen_steps(step):
                self.visit(_join(name, inner), frozen, note)
            if self.after_private and isinstance(step, PrivateEstimator):
                self._add_failures(name, step)
        else:
            wrong = _why_not(step, self.vouched)
            if not wrong and self._changing_dtypes and type(step) in KEEP_DTYPE:
                wrong = DTYPES
            if not wrong and self.after_private and (values := fails_for(step, self.given.bounded)):
                wrong = f"{MAY_FAIL} for {values}"
            self.add(name, step, NOT_PRIVATE if wrong else FREE, wrong)

    def _add_failures(self, name: str, step: PrivateEstimator) -> None:
        """Add rows about what may fail in a private step that comes after another one."""
        found = self.fitted and _has_named_groups(step)
        if isinstance(step, PrivateGroupDRO) and (self.named_groups or found):
            self.add(name, step, NOT_PRIVATE, f"{MAY_FAIL} {GROUPS}")
        # Steps of a search, which finds out that they fail only when it is fitted itself.
        named = self.named_groups or found
        inner = Walk(getattr(step, "record_wise", ()), False, {}, named_groups=named)
        inner.after_private = True
        inner.given = inner.given._replace(bounded=self.given.bounded)
        for part, candidate in step._candidates_of_fit():
            inner.visit(_join(name, part), candidate)
        failing = {row.name: row for row in inner.rows if row.note.startswith(MAY_FAIL)}
        self.rows += failing.values()

    def _add_private(self, name: str, step: Any, note: str) -> bool:
        """Add the row of a private step; return False for other steps."""
        report = _report_of(step) if self.fitted else None
        known = True  # whether anything is known of the relation
        event: Event | None
        rho: float | None
        if report is not None:
            seed = "SEEDED: holds only without the seed" if report.seeded else ""
            event = report.event if report.released is None else report.released
            start = FITTED_BEFORE.split("{")[0]
            note = joined(note, *(a for a in report.assumptions if a.startswith(start)))
            notes = ["" if report.released is None else FOLLOWS, note]
            epsilon, delta, relation = report.epsilon, report.delta, report.relation
            rho = report.rho if report.released is None else rho_of(event)
            known = relation == WITHIN_GROUPS or records_of_unit(relation) is not None
        elif not isinstance(step, PrivateEstimator):
            return False
        elif self.fitted and fitted_names(step):
            self.add(name, step, NOT_PRIVATE, "was fitted without a report of its cost")
            return True
        else:
            try:
                event, relation = planned(step), guaranteed(step._relation, step._budget())
            except (TypeError, ValueError) as error:
                raise type(error)(f"{name or 'estimator'}: {error}") from error
            is_seeded = getattr(step, "random_state", None) is not None
            seed = "SEEDED: will hold only without the seed" if is_seeded else ""
            seed, notes = joined("not fitted", seed), [note]
            epsilon, delta = float(step.epsilon), float(step.delta)
            rho = getattr(event, "rho", None)
        if relation == ADD_OR_REMOVE and event is not None:  # as one for replacing a record
            event = for_units(event, 2)
            epsilon, rho = epsilon_of(event, delta), rho_of(event)
            relation, known = REPLACE_ONE, True
            notes.append(f"its own guarantee is for {ADD_OR_REMOVE!r} neighbours")
        self.add(
            name,
            step,
            PRIVATE if known else NOT_PRIVATE,
            joined(seed, about(relation), *notes),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            relation=relation,
            event=event,
            report=report,
        )
        return True


def _is_progress_bar(callback: Any) -> bool:
    kind = type(callback)
    return kind.__name__ == "ProgressBar" and kind.__module__.startswith("sklearn.")


def _has_named_groups(step: Any) -> bool:
    """Whether a step, or the winner of a search, was fitted with groups from columns of its X."""
    winner = getattr(step, "best_estimator_", step)
    return any(getattr(part, "sensitive_columns_", ()) for _, part in private_steps(winner))


def about(relation: str | None) -> str:
    """The part of a note that concerns a relation."""
    usual = relation in (None, "replace-one")
    return "" if usual else f"the guarantee is for {relation!r} neighbours"


def joined(*notes: str) -> str:
    """Join several notes, some of which may be empty."""
    return "; ".join(filter(None, notes))


def _report_of(step: Any) -> PrivacyReport | None:
    # Its own report: a wrapper may pass on the attributes of the estimator that it wraps.
    report = getattr(step, "__dict__", {}).get("privacy_")
    return report if isinstance(report, PrivacyReport) else None


def check_record_wise(record_wise: Any) -> list[Any]:
    """Check what the caller vouches for, and return it as a list.

    Raises
    ------
    TypeError
        If it is not a list of names, steps or functions.
    """
    if isinstance(record_wise, str) or not np.iterable(record_wise):
        raise TypeError(
            "record_wise must be a list of names of steps, steps or functions, got "
            f"{record_wise!r}."
        )
    declared = list(record_wise)
    for item in declared:
        if not (isinstance(item, str) or callable(item) or hasattr(item, "get_params")):
            raise TypeError(
                "record_wise must contain names of steps, steps or functions, got "
                f"{type(item).__name__}."
            )
    return declared


def _why_not(step: Any, vouched: Callable[[Any], bool]) -> str:
    """Why a step is not private; empty if it is data-independent."""
    conditions = unmet(step, vouched)
    if conditions == []:
        return ""
    if conditions:
        why = f"data-independent only if {' and '.join(conditions)}"
    elif private_steps(step):
        why = "it is unknown how often it fits its private steps"
    elif type(step) is StandardScaler and not (step.with_mean or step.with_std):
        return "counts missing values, in n_samples_seen_, and changes nothing: use 'passthrough'"
    elif type(step).__module__.startswith("sklearn."):
        why = "learns from the data, without noise"
    else:
        why = "its type is unknown; if it treats every record by itself, declare it in record_wise"
    alternative = ALTERNATIVES.get(type(step).__name__)
    return f"{why}; use {alternative}" if alternative else why


# Composites, looked up by exact type. Each adds the rows of its children, and a row of its own if
# necessary.


def _join(name: str, child: str) -> str:
    return f"{name}__{child}" if name else child


def _pipeline(walk: Walk, name: str, step: Pipeline, note: str) -> None:
    if step.memory is not None and any(private_steps(e) for _, e in step.steps[:-1]):
        walk.add(name, step, NOT_PRIVATE, MEMORY)
    elif step.memory is not None:
        walk.add(name, step, FREE, "memory keeps transformed records on disk, without noise")
    if getattr(step, "transform_input", None) and any(private_steps(e) for _, e in step.steps[:-1]):
        passed = "for the arguments of fit that transform_input passes through its steps"
        walk.add(name, step, NOT_PRIVATE, f"{MAY_FAIL} {passed}")
    before = walk.given, walk.after_private
    for child, estimator in step.steps:
        walk.visit(_join(name, child), estimator, note)
        walk.given = output_of(estimator, walk.given)
        walk.after_private |= bool(private_steps(estimator))
    walk.given, walk.after_private = before


def _add_weights(walk: Walk, name: str, step: FeatureUnion | ColumnTransformer) -> None:
    if (walk.after_private or private_steps(step)) and enlarges(step):
        weights = "for large values, which overflow; set transformer_weights to at most 1"
        walk.add(name, step, NOT_PRIVATE, f"{MAY_FAIL} {weights}")


def _union(walk: Walk, name: str, step: FeatureUnion, note: str) -> None:
    _add_weights(walk, name, step)
    for child, estimator in step.transformer_list:
        walk.visit(_join(name, child), estimator, note)


def _column_transformer(walk: Walk, name: str, step: ColumnTransformer, note: str) -> None:
    parts = [*step.transformers, ("remainder", step.remainder, ())]
    parts = [part for part in parts if part[:2] != ("remainder", "drop")]
    wrong = [
        f"the columns of {child!r} are chosen by a function, which may look at values: declare it "
        "in record_wise, or list them"
        for child, _, columns in parts
        if callable(columns)
        and type(columns) is not make_column_selector  # it reads names and dtypes only
        and not walk.vouched(columns)
    ]
    layout = output_of(step, walk.given).layout
    found = vars(step).get("sparse_output_") if walk.fitted else None  # parameters may be newer
    if layout == UNKNOWN or found not in (None, layout == SPARSE):
        wrong.append(LAYOUT)
    if wrong:
        walk.add(name, step, NOT_PRIVATE, "; ".join(wrong))
    _add_weights(walk, name, step)
    fitted = getattr(step, "transformers_", []) if walk.fitted else []
    clones = {child: estimator for child, estimator, _ in fitted}
    for child, estimator, _ in parts:
        # It turns "passthrough" into a FunctionTransformer.
        used = estimator if isinstance(estimator, str) else clones.get(child, estimator)
        walk.visit(_join(name, child), used, note)


def _target(walk: Walk, name: str, step: TransformedTargetRegressor, note: str) -> None:
    if step.transformer is not None and step.check_inverse is not False:
        walk.add(name, step, NOT_PRIVATE, "warns about values of y; set check_inverse=False")
    fitted = walk.fitted and hasattr(step, "regressor_")
    regressor = LinearRegression() if step.regressor is None else step.regressor
    transformer = step.transformer
    if transformer is None:
        transformer = FunctionTransformer(
            step.func, step.inverse_func, check_inverse=step.check_inverse
        )
    before = walk.after_private, walk.given
    walk.after_private |= bool(private_steps(transformer))  # fitted first
    walk.visit(_join(name, "regressor"), step.regressor_ if fitted else regressor, note)
    # The transformer sees targets, which no step has clipped.
    walk.after_private, walk.given = before[0], walk.given._replace(bounded=False)
    walk.visit(_join(name, "transformer"), step.transformer_ if fitted else transformer, note)
    walk.after_private, walk.given = before


def _frozen(walk: Walk, name: str, step: FrozenEstimator, note: str) -> None:
    before, walk.fitted = walk.fitted, True  # a fit of the whole does not change it
    walk.visit(_join(name, "estimator"), step.estimator, FROZEN)
    walk.fitted = before


def _search(walk: Walk, name: str, step: GridSearchCV | RandomizedSearchCV, note: str) -> None:
    before = len(walk.rows)
    best = getattr(step, "best_estimator_", step.estimator) if walk.fitted else step.estimator
    walk.visit(_join(name, "estimator"), best)
    # Its own row contains the costs of its private steps, except for those that it does not fit.
    inner = [row for row in walk.rows[before:] if row.status == NOT_PRIVATE or FROZEN in row.note]
    del walk.rows[before:]
    fits, cost = search_cost(step, walk.fitted)
    why = f"chooses by scores without noise, and keeps them; {fits}"
    alternative = ALTERNATIVES[type(step).__name__]
    walk.add(name, step, NOT_PRIVATE, f"{why}; use {alternative}", **cost)
    walk.rows += inner


def _fixed_threshold(walk: Walk, name: str, step: FixedThresholdClassifier, note: str) -> None:
    used = getattr(step, "estimator_", step.estimator) if walk.fitted else step.estimator
    walk.visit(_join(name, "estimator"), used, note)


def _voting(walk: Walk, name: str, step: VotingClassifier | VotingRegressor, note: str) -> None:
    if isinstance(step, VotingClassifier):
        walk.add(name, step, FREE, "if the labels that occur in y are public: it numbers them")
    fitted = iter(getattr(step, "estimators_", ()) if walk.fitted else ())
    for child, estimator in step.estimators:
        is_dropped = isinstance(estimator, str)
        used = estimator if is_dropped else next(fitted, estimator)
        walk.visit(_join(name, child), used, note)


COMPOSITES: dict[type, Callable[[Walk, str, Any, str], None]] = {
    ColumnTransformer: _column_transformer,
    FeatureUnion: _union,
    FixedThresholdClassifier: _fixed_threshold,
    FrozenEstimator: _frozen,
    GridSearchCV: _search,
    Pipeline: _pipeline,
    PrivatePipeline: _pipeline,
    RandomizedSearchCV: _search,
    TransformedTargetRegressor: _target,
    VotingClassifier: _voting,
    VotingRegressor: _voting,
}
