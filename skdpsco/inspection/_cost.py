"""The private steps of an estimator, and what their fits may cost."""

from typing import Any

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ParameterGrid, RandomizedSearchCV

from skdpsco._callers import n_splits_of
from skdpsco.base.private_estimator import PrivateEstimator, check_budget
from skdpsco.privacy import (
    Budget,
    Event,
    PureDPEvent,
    RepeatedEvent,
    ZCDPEvent,
    compose,
    epsilon_of,
    rho_of,
)
from skdpsco.privacy.accounting import for_units
from skdpsco.privacy.relations import weakest

__all__ = [
    "budget_of",
    "declared_rho",
    "frozen_steps",
    "params_named",
    "planned",
    "private_steps",
    "relation_of",
    "search_cost",
]

SMALL_DELTA = 1e-6


def private_steps(estimator: Any) -> list[tuple[str, PrivateEstimator]]:
    """The private estimators within an estimator, each with the prefix of its parameters.

    Parameters
    ----------
    estimator : estimator

    Returns
    -------
    steps : list of (str, PrivateEstimator)
        The prefix is "" for the estimator itself, and otherwise one such as ``"scaler__"``. Steps
        inside a private estimator, which answers for their cost, are not listed, and neither are
        frozen steps, which are not fitted again.
    """
    if isinstance(estimator, PrivateEstimator):
        return [("", estimator)]
    if isinstance(estimator, FrozenEstimator) or not hasattr(estimator, "get_params"):
        return []
    params = estimator.get_params(deep=True)
    closed = (PrivateEstimator, FrozenEstimator)
    inside = tuple(f"{name}__" for name, value in params.items() if isinstance(value, closed))
    return [
        (f"{name}__", value)
        for name, value in params.items()
        if isinstance(value, PrivateEstimator) and not name.startswith(inside)
    ]


def params_named(estimator: Any, name: str) -> dict[str, Any]:
    """The parameters of this name, of an estimator and of the estimators within it."""
    params = estimator.get_params(deep=True)
    return {key: value for key, value in params.items() if key.rsplit("__", 1)[-1] == name}


def frozen_steps(estimator: Any) -> list[tuple[str, FrozenEstimator]]:
    """The frozen steps that a fit of an estimator uses without paying for them.

    Parameters
    ----------
    estimator : estimator

    Returns
    -------
    steps : list of (str, FrozenEstimator)
        Each step once, with its name, including those in candidates of a `PrivateGridSearchCV`.
    """
    found: dict[int, tuple[str, FrozenEstimator]] = {}
    pending = [("", estimator)]
    for prefix, part in pending:
        if isinstance(part, PrivateEstimator):
            pending += [(f"{prefix}{name}__", one) for name, one in part._candidates_of_fit()]
        params = part.get_params(deep=True) if hasattr(part, "get_params") else {}
        frozen = {n: value for n, value in params.items() if isinstance(value, FrozenEstimator)}
        inside = tuple(f"{name}__" for name in frozen)
        for name, value in params.items():
            if name.startswith(inside):
                continue
            if name in frozen:
                found.setdefault(id(value.estimator), (prefix + name, value))
            elif isinstance(value, PrivateEstimator):
                pending.append((f"{prefix}{name}__", value))
    return list(found.values())


def relation_of(*estimators: Any) -> str:
    """Which data sets are neighbours for fits of all these estimators together."""
    return weakest(step._relation for one in estimators for _, step in private_steps(one))


def declared_rho(estimator: Any) -> np.ndarray:
    """The budgets that the private steps declare, in zCDP; a common budget is divided by them.

    Raises
    ------
    ValueError, TypeError
        If a budget is out of range.
    """
    steps = private_steps(estimator)
    return np.array([check_budget(step.epsilon, step.delta).rho for _, step in steps])


def budget_of(rho: float, delta: float) -> Budget:
    """A step's budget for ``rho``; a small rho has an epsilon > 0 only if delta is small, too."""
    return Budget.from_rho(rho, min(delta, SMALL_DELTA))


def planned(step: PrivateEstimator) -> Event | None:
    """The largest cost of a fit; None if its budget does not limit zCDP.

    Raises
    ------
    ValueError, TypeError
        If the budget is out of range.
    """
    budget = step._budget()
    if budget.delta == 0:
        return PureDPEvent(budget.epsilon)
    if not isinstance(step._available(budget), Budget):  # a ledger, and units, count in zCDP
        return for_units(ZCDPEvent(budget.rho), budget.max_records_per_unit)
    if isinstance(step, MetaEstimatorMixin):  # a random stopping keeps to epsilon and delta only
        return None
    solver = getattr(step, "solver", None)
    # Noise on samples respects epsilon and delta only by a privacy curve of its own.
    if getattr(solver, "samples", False) or (isinstance(solver, str) and solver == "sgd"):
        return None
    # A fit with Gaussian noise only uses the exact curve; any other fit respects rho.
    return ZCDPEvent(max(budget.rho, budget.mu**2 / 2))


def search_cost(search: Any, fitted: bool) -> tuple[str, dict[str, float]]:
    """Number of fits of a search by cross-validation, in words, and their largest cost.

    Parameters
    ----------
    search : GridSearchCV or RandomizedSearchCV
    fitted : bool
        Whether to look at the results of a fit.

    Returns
    -------
    fits : str
    cost : dict
        Epsilon, delta and rho; empty if there is no private step, or the cost is not known.
    """
    candidates = _candidates_of_search(search, fitted)
    n_candidates = len(candidates) if candidates is not None else int(search.n_iter)
    known = fitted and hasattr(search, "n_splits_")
    n_splits = search.n_splits_ if known else n_splits_of(search.cv)
    if n_splits is None:
        return "the number of its fits depends on the data", {}
    refit = search.refit is not False
    n_fits = n_candidates * n_splits + refit
    fits = f"{n_fits} fits: {n_candidates} candidates on {n_splits} splits{' and the best' * refit}"
    steps = [] if candidates is None else [_steps_with(search, params) for params in candidates]
    events = [[planned(step) for step in of_one] for of_one in steps]
    if not any(events) or any(event is None for of_one in events for event in of_one):
        return fits, {}
    each = [compose(*filter(None, of_one)) for of_one in events]
    total = compose(*(RepeatedEvent(event, n_splits) for event in each))
    if refit:
        total = compose(total, max(each, key=rho_of))
    delta = max(float(step.delta) for of_one in steps for step in of_one)
    return fits, {"epsilon": epsilon_of(total, delta), "delta": delta, "rho": rho_of(total)}


def _candidates_of_search(search: Any, fitted: bool) -> list[dict] | None:
    """Parameters of the candidates; None if they are not drawn yet and may set budgets."""
    if fitted and hasattr(search, "cv_results_"):
        return search.cv_results_["params"]
    if not isinstance(search, RandomizedSearchCV):
        return list(ParameterGrid(search.param_grid))
    drawn = search.param_distributions
    grids = [drawn] if isinstance(drawn, dict) else list(drawn)
    params = search.estimator.get_params(deep=True)
    for name in {name for grid in grids for name in grid}:
        is_step = hasattr(params.get(name), "fit")
        if is_step or name.rsplit("__", 1)[-1] in ("epsilon", "delta", "ledger"):
            return None
    n_candidates = int(search.n_iter)
    if not any(hasattr(values, "rvs") for grid in grids for values in grid.values()):
        n_candidates = min(n_candidates, len(ParameterGrid(grids)))
    return [{}] * n_candidates


def _steps_with(search: Any, params: dict) -> list[PrivateEstimator]:
    estimator = clone(search.estimator).set_params(**clone(params, safe=False))
    return [step for _, step in private_steps(estimator)]
