"""What one fit of a search may spend: fixed on the driver, and all that a worker gets to know."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer

from skdpsco._base import MIN_RHO, PrivateEstimator
from skdpsco._random import below
from skdpsco.inspection import check_private_steps, private_steps
from skdpsco.inspection._cost import budget_of, declared_rho
from skdpsco.privacy import BudgetExceededError, Event, rho_of

NOT_INCLUDED = "the cost of the search that chose its parameters is not included"


class Grant:
    """Stands in for a ledger in one fit, and holds its share of the budget only.

    Parameters
    ----------
    rho : float
    """

    def __init__(self, rho: float) -> None:
        self.rho = rho

    def charge(self, event: Event, estimator: str = "", *args: Any) -> None:
        """Refuse what exceeds the share."""
        rho = rho_of(event)
        if not rho <= self.rho * (1 + 1e-12):
            raise BudgetExceededError(
                f"{estimator} costs rho={rho:.6g} and was granted {self.rho:.6g}: a fit of a "
                "search, or of one of its steps, was repeated."
            )
        self.rho -= rho

    def __copy__(self) -> "Grant":
        return self  # clones of one step share it

    def __deepcopy__(self, memo: dict) -> "Grant":
        return self


class _ReachedNoise(Exception):
    """All checks of a step that come before its first noise have passed; which step."""


class _Rehearsal(Grant):
    """Ends a fit where it would draw its first noise."""

    def __init__(self, rho: float, prefix: str) -> None:
        super().__init__(rho)
        self.prefix = prefix

    def charge(self, event: Event, estimator: str = "", *args: Any) -> None:
        super().charge(event, estimator)
        raise _ReachedNoise(self.prefix)


def _parts(estimator: Any, rho: float) -> np.ndarray:
    declared = declared_rho(estimator)
    return rho * (declared / declared.sum())


def allot(estimator: Any, rho: float, delta: float) -> Any:
    """Clone of ``estimator`` whose private steps spend ``rho`` zCDP, in their own proportions.

    Their noise is secret: a seed of theirs would give the same noise to several fits.
    """
    estimator = clone(estimator)
    for (prefix, _), part_rho in zip(private_steps(estimator), _parts(estimator, rho), strict=True):
        part = budget_of(float(part_rho), delta)
        values = {
            "epsilon": part.epsilon,
            "delta": part.delta,
            "ledger": Grant(part.rho),
            "random_state": None,
        }
        estimator.set_params(**{prefix + name: value for name, value in values.items()})
    return estimator


def seed_steps(estimator: Any, rng: Any, seeded: bool) -> Any:
    """Give each step that lacks a seed one of its own; a private step only if noise is ``seeded``.

    Without, steps that are not private would use up numbers of NumPy's global generator, whose
    state would tell how many tries there were.
    """
    private = [prefix for prefix, _ in private_steps(estimator)]
    for name, value in estimator.get_params(deep=True).items():
        prefix = name.removesuffix("random_state")
        if value is not None or name == prefix or not ("__" + prefix).endswith("__"):
            continue
        if seeded if prefix in private else not prefix.startswith(tuple(private)):
            estimator.set_params(**{name: int(below(rng, 2**31))})
    return estimator


def quieten(estimator: Any) -> Any:
    """Turn progress bars and the like off, which would tell how many fits there are."""
    for name, value in estimator.get_params(deep=True).items():
        if name.rsplit("__", 1)[-1] == "verbose" and value:
            estimator.set_params(**{name: type(value)(0)})
    return estimator


def rehearse(estimator: Any, part: Any) -> None:
    """Let every step check its parameters, its input and its plan; draw no noise.

    Steps that come behind a private one get its input in place of its output, which are alike for
    transformers of single columns, or as many columns of it as a selector selects; behind any other
    they are not reached.
    """
    estimator = clone(estimator)
    steps = dict(private_steps(estimator))
    for prefix, step in steps.items():
        estimator.set_params(**{f"{prefix}ledger": _Rehearsal(step.ledger.rho, prefix)})
    while True:
        try:
            part.fit(clone(estimator))
            return
        except _ReachedNoise as reached:
            (prefix,) = reached.args
        if not (prefix and isinstance(steps[prefix], (OneToOneFeatureMixin, SelectorMixin))):
            return
        stand_in = FunctionTransformer(accept_sparse=True, feature_names_out="one-to-one")
        if isinstance(steps[prefix], SelectorMixin):
            count = {"count": steps[prefix].n_features_to_select}
            stand_in = FunctionTransformer(_first_columns, accept_sparse=True, kw_args=count)
        estimator.set_params(**{prefix.removesuffix("__"): stand_in})


def _first_columns(X: Any, count: int) -> Any:
    return (X.iloc if hasattr(X, "iloc") else X)[:, :count]


def check_private(estimator: Any, rho: float | None = None) -> None:
    """Refuse an estimator with a step that is not private, or whose share of ``rho`` is too small.

    Raises
    ------
    ValueError, TypeError
    """
    check_private_steps(estimator)
    for name, value in estimator.get_params(deep=True).items():
        if name.rsplit("__", 1)[-1] == "memory" and value is not None:
            raise ValueError(
                f"{name} must be None: a cached fit is no fresh one, and its files tell which fits "
                "there were."
            )
    least = declared_rho(estimator).min() if rho is None else _parts(estimator, rho).min()
    if least < MIN_RHO:
        raise ValueError(
            f"epsilon is too small for this many fits of private steps: one would get {least:.3g} "
            f"zCDP, and the least is {MIN_RHO:g}."
        )


def ledger_of(estimators: Iterable[Any], ledger: Any) -> Any:
    """The ledger of a search: its own, or that of the steps of its estimators.

    Raises
    ------
    ValueError
        If there are several.
    """
    steps = [step for estimator in estimators for _, step in private_steps(estimator)]
    found = [one for one in (ledger, *(step.ledger for step in steps)) if one is not None]
    if any(other is not found[0] for other in found):
        raise ValueError("ledger and the ledgers of the estimator's steps must be the same object.")
    return found[0] if found else None


def hand_over(estimator: Any, ledger: Any) -> Any:
    """Give the winner the user's ledger, for later fits, and say what its own report leaves out."""
    for step in _all_private(estimator):
        step.ledger = ledger
        report = vars(step).get("privacy_")
        if report is not None and NOT_INCLUDED not in report.assumptions:
            step.privacy_ = replace(report, assumptions=(*report.assumptions, NOT_INCLUDED))
    return estimator


def assumptions_of(estimator: Any) -> tuple[str, ...]:
    """What the guarantees of the fits in an estimator assume."""
    reports = [vars(step).get("privacy_") for step in _all_private(estimator)]
    found = dict.fromkeys(a for r in reports if r is not None for a in r.assumptions)
    found.pop(NOT_INCLUDED, None)  # of an inner search, whose whole cost is
    return tuple(found)


def _all_private(thing: Any) -> Iterator[PrivateEstimator]:
    """The private estimators in a fitted one, and the fitted clones of them."""
    if isinstance(thing, PrivateEstimator):
        yield thing
    if isinstance(thing, (list, tuple)):
        for part in thing:
            yield from _all_private(part)
    elif hasattr(thing, "get_params") and not isinstance(thing, (type, FrozenEstimator)):
        yield from _all_private(list(vars(thing).values()))
