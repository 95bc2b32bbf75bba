"""The budget of one fit of a search: it is fixed by the driver, and is all that a worker knows."""

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.ensemble import VotingClassifier
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer

from skdpsco._random import below, collected_advice
from skdpsco._upstream import callbacks_of
from skdpsco.base.grants import Grant, ReachedNoise, Rehearsal
from skdpsco.base.labels import named_columns
from skdpsco.base.private_estimator import MIN_RHO, PrivateEstimator, Release
from skdpsco.data.block_records import first_record
from skdpsco.data.row_blocks import RowBlocks
from skdpsco.inspection import check_private_steps, privacy_report, private_steps
from skdpsco.inspection._cost import budget_of, declared_rho, frozen_steps, params_named
from skdpsco.inspection._steps import check_record_wise
from skdpsco.preprocessing.pca import PrivatePCA
from skdpsco.preprocessing.splines import PrivateSplineTransformer

__all__ = [
    "allot",
    "assumptions_of",
    "check_private",
    "fit_granted",
    "frozen_notes",
    "hand_over",
    "ledger_of",
    "quieten",
    "rehearse",
    "to_fit",
]

NOT_INCLUDED = "the cost of the search that chose its parameters is not included"


def _shares_of_steps(estimator: Any, rho: float) -> np.ndarray:
    declared = declared_rho(estimator)
    return rho * (declared / declared.sum())


def allot(
    estimator: Any,
    rho: float,
    delta: float,
    public: np.random.RandomState,
    max_records_per_unit: int = 1,
) -> Any:
    """Clone of ``estimator`` whose private steps spend ``rho`` zCDP, in their own proportions.

    ``rho`` is for the replacement of one record, and the epsilons of the steps are for that of a
    unit. The noise of the steps is secret, since a seed would give several fits the same noise.
    Other steps without a seed get a ``public`` one. Otherwise they would draw anew after the
    rehearsal, and might then fail because of a record; and the state of NumPy's global generator
    would reveal the number of tries. Fit only clones of the result that `to_fit` makes.
    """
    estimator = clone(estimator)
    for (prefix, _), part_rho in zip(
        private_steps(estimator), _shares_of_steps(estimator, rho), strict=True
    ):
        part = budget_of(max_records_per_unit**2 * float(part_rho), delta)
        per_record = part.rho / max_records_per_unit**2
        seed = int(public.randint(2**31))
        values = {
            "epsilon": part.epsilon,
            "delta": part.delta,
            "ledger": Grant(per_record, prefix, seed, max_records_per_unit),
            "random_state": None,
        }
        estimator.set_params(**{prefix + name: value for name, value in values.items()})
    private = tuple(prefix for prefix, _ in private_steps(estimator))
    for name, value in estimator.get_params(deep=True).items():
        owner, _, parameter = ("__" + name).rpartition("__")
        if parameter == "random_state" and owner and value is None and not name.startswith(private):
            estimator.set_params(**{name: int(public.randint(2**31))})
    return estimator


def granted(allotted: Any, kind: type[Grant] = Grant) -> Any:
    """Clone of a result of `allot`, with its own grants, for one fit."""
    estimator = clone(allotted)
    for prefix, step in private_steps(estimator):
        grant: Any = step.ledger
        fresh = kind(grant.rho, prefix, grant.seed, grant.max_records_per_unit)
        estimator.set_params(**{f"{prefix}ledger": fresh})
    return estimator


def fit_granted(estimator: Any, part: Any) -> Any:
    """Fit a result of `to_fit`, and require that every grant was charged exactly once.

    A fit that charges nothing has not drawn the planned noise. Copies count too: a step that was
    fitted in another process has charged the copy of its grant there.

    Raises
    ------
    RuntimeError
        If a private step has not charged its ledger, or has charged it more than once.
    """
    with collected_advice():  # a warning would reveal that there was a fit
        part.fit(estimator)
    grants = [step.ledger for step in _all_private(estimator)]
    found = {id(grant): grant for grant in grants if isinstance(grant, Grant)}
    for prefix, step in private_steps(estimator):
        copies = [grant for grant in found.values() if grant.prefix == prefix]
        n_charges = sum(len(grant.charges) for grant in copies)
        if n_charges != 1:
            raise RuntimeError(_NOT_ONCE.format(_name(prefix, step), n_charges))
    return estimator


_NOT_ONCE = (
    "{} must charge its ledger exactly once when it is fitted, but it has charged it {} times. Its "
    "fit may not be private, and nothing is released."
)


def _name(prefix: str, step: Any) -> str:
    return f"{prefix.removesuffix('__') or 'estimator'}, a {type(step).__name__},"


def to_fit(allotted: Any, release: Release) -> Any:
    """Clone of a result of `allot` for one fit, with seeds if the noise is reproducible."""
    estimator = granted(allotted)
    for prefix, _ in private_steps(estimator) if release.seeded else ():
        estimator.set_params(**{f"{prefix}random_state": int(below(release.rng, 2**31))})
    return estimator


def quieten(estimator: Any) -> Any:
    """Turn off the messages of steps, which would reveal the number of fits."""
    for name, value in params_named(estimator, "verbose").items():
        if value:
            estimator.set_params(**{name: type(value)(0)})
    return estimator


def rehearse(estimator: Any, part: Any) -> list[str]:
    """Let every step check its parameters, its input and its plan, without drawing noise.

    Steps after a private transformer of single columns get its input in place of its output, which
    is similar. Steps after a selector, principal components or splines get as many columns as there
    will be. A private model is not fitted again, so that the steps beside it are reached, too. A
    step that is fitted without asking for its budget is refused.

    Returns
    -------
    advice : list of str
        The warnings of the plans of the steps.

    Raises
    ------
    RuntimeError
        If a private step does not charge its ledger. Errors of the fit pass through.
    """
    with collected_advice() as advice:
        _reach_noise(granted(estimator, Rehearsal), part)
    return advice


def _reach_noise(estimator: Any, part: Any) -> None:
    """Fit until the first noise, and then the steps after it, where stand-ins allow it."""
    steps = dict(private_steps(estimator))
    while steps:
        try:
            part.fit(clone(estimator))
        except ReachedNoise as reached:
            (prefix,) = reached.args
        else:
            for prefix, step in steps.items():
                raise RuntimeError(_NOT_ONCE.format(_name(prefix, step), 0))
        stand_in = _stand_in(steps.pop(prefix))
        if prefix:
            estimator.set_params(**{prefix.removesuffix("__"): stand_in})


def _stand_in(step: PrivateEstimator) -> Any:
    if isinstance(step, SelectorMixin):
        count = {"count": step.n_features_to_select}
        return FunctionTransformer(_first_columns, accept_sparse=True, kw_args=count)
    if isinstance(step, PrivatePCA):
        options = {"count": step.n_components, "dense": True}
        return FunctionTransformer(_first_columns, accept_sparse=True, kw_args=options)
    if isinstance(step, OneToOneFeatureMixin):
        return FunctionTransformer(accept_sparse=True, feature_names_out="one-to-one")

    @wraps(type(step).fit)  # it takes the same arguments
    def fit(self: Any, X: Any, *args: Any, **fit_params: Any) -> Any:
        return self._rehearse(X) if isinstance(self, PrivateSplineTransformer) else self

    stand_in = copy(step)
    stand_in.__class__ = type(type(step).__name__, (type(step),), {"fit": fit})
    return stand_in


def _first_columns(X: Any, count: int | None, dense: bool = False) -> Any:
    if isinstance(X, RowBlocks):
        options = {"count": count, "dense": dense}
        return X.map(FunctionTransformer(_first_columns, accept_sparse=True, kw_args=options))
    first = (X.iloc if hasattr(X, "iloc") else X)[:, :count]
    return first.toarray() if dense and hasattr(first, "toarray") else first


def check_private(estimators: list[Any], data: Any, record_wise: Any, rho: Iterable[float]) -> None:
    """Check that all steps of estimators are private, and that their shares of ``rho`` suffice.

    Parameters
    ----------
    estimators : list of estimator
    data : Part
        Records, of which only the layout is used, and the arguments of ``fit``.
    record_wise : list of str or callable
        Steps and functions for which the user vouches.
    rho : iterable of float
        Budgets of the fits.

    Raises
    ------
    ValueError, TypeError
        If an estimator is not private, caches fits, draws records of units, votes or has callbacks,
        if its share of the budget is too small, or if ``record_wise`` is not legal.
    """
    record_wise = check_record_wise(record_wise)
    for item in record_wise:
        if hasattr(item, "get_params"):
            raise TypeError(
                f"record_wise must contain names of steps or functions, got {item!r}: a "
                "search fits clones, not this instance."
            )
    check_private_steps(
        *estimators,
        record_wise=record_wise,
        X=data.X,
        named_groups=_names_groups(data),
    )
    for estimator in estimators:
        for name, value in {"estimator": estimator, **estimator.get_params(deep=True)}.items():
            if name.rsplit("__", 1)[-1] == "memory" and value is not None:
                raise ValueError(
                    f"{name} must be None: a cached fit has no fresh noise, and its files reveal "
                    "which fits there were."
                )
            if name.rsplit("__", 1)[-1] == "max_records_per_unit" and value is not None:
                raise ValueError(
                    f"{name} must be None: how many units are in a part of the records would "
                    "depend on all of them. Give units and max_records_per_unit to the search, or "
                    "draw the records first, with draw_records."
                )
            if callbacks_of(value):
                raise ValueError(
                    f"{name} must have no callbacks, which would count the fits: remove them with "
                    "set_callbacks()."
                )
            if type(value) is VotingClassifier:
                raise ValueError(
                    f"{name} must not be a VotingClassifier: it numbers the labels that occur in "
                    "the part of the records that it is fitted on."
                )
        least = min(_shares_of_steps(estimator, r).min() for r in rho)
        if least < MIN_RHO:
            raise ValueError(
                "epsilon is too small for this many fits of private steps: the part of one fit "
                f"would be {least:.3g} in zero-concentrated differential privacy (zCDP), where the "
                f"least is {MIN_RHO:g}."
            )


def _names_groups(data: Any) -> bool:
    """Whether named columns hold groups; an array with one entry per record would hold labels."""
    return any(
        isinstance(value, str)
        or (isinstance(value, (list, tuple)) and len(value) != len(data.y))
        or bool(named_columns(first_record(data.X), value))
        for name, value in data.fit_params.items()
        if name.rsplit("__", 1)[-1] == "sensitive_features"
    )


def frozen_notes(estimators: Iterable[Any], record_wise: Iterable[Any]) -> tuple[str, ...]:
    """Lines for a report about the cost of frozen private steps, which a search does not fit."""
    declared = list(record_wise)
    frozen = {
        id(step.estimator): (name, step)
        for estimator in estimators
        for name, step in frozen_steps(estimator)
        if name not in declared
    }
    costs = [(name, privacy_report(step)) for name, step in frozen.values()]
    return tuple(
        f"{name}, frozen, was fitted before: its cost, epsilon={cost.epsilon:.6g} and "
        f"delta={cost.delta:.6g}, is not included" + (f" ({cost.note})" if cost.note else "")
        for name, cost in costs
        if cost.epsilon
    )


def ledger_of(estimators: Iterable[Any], ledger: Any) -> Any:
    """The ledger of a search: its own, or that of its estimators' steps.

    Raises
    ------
    ValueError
        If there are several ledgers.
    """
    steps = [step for estimator in estimators for _, step in private_steps(estimator)]
    found = [one for one in (ledger, *(step.ledger for step in steps)) if one is not None]
    if any(other != found[0] for other in found):
        raise ValueError(
            "ledger and the ledgers of the estimator's steps must be the same: one object, or one "
            "file and data set."
        )
    return found[0] if found else None


def hand_over(estimator: Any, ledger: Any) -> Any:
    """Give the winner the user's ledger for later fits, and complete its report."""
    for step in _all_private(estimator):
        step.ledger = ledger
        report = vars(step).get("privacy_")
        if report is not None and NOT_INCLUDED not in report.assumptions:
            step.privacy_ = replace(report, assumptions=(*report.assumptions, NOT_INCLUDED))
    return estimator


def assumptions_of(estimator: Any) -> tuple[str, ...]:
    """The assumptions of the guarantees of the fits in an estimator."""
    reports = [vars(step).get("privacy_") for step in _all_private(estimator)]
    found = dict.fromkeys(a for r in reports if r is not None for a in r.assumptions)
    found.pop(NOT_INCLUDED, None)  # set by an inner search, whose whole cost is included
    return tuple(found)


def _all_private(thing: Any) -> Iterator[PrivateEstimator]:
    """The private estimators within a fitted one, and their fitted clones."""
    if isinstance(thing, PrivateEstimator):
        yield thing
    if isinstance(thing, (list, tuple)):
        for part in thing:
            yield from _all_private(part)
    elif hasattr(thing, "get_params") and not isinstance(thing, (type, FrozenEstimator)):
        yield from _all_private(list(vars(thing).values()))
