"""Several targets, one fit for each within shares of one budget. Proof: docs/proofs/target.md."""

from collections.abc import Iterable
from contextlib import suppress
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from skdpsco._random import collected_advice, seed_of, without_warnings
from skdpsco.base.grants import Grant, ReachedNoise, Rehearsal
from skdpsco.base.private_estimator import DRAWN, fitted_names
from skdpsco.data.row_blocks import RowBlocks
from skdpsco.privacy import Budget, ZCDPEvent
from skdpsco.privacy.report import ReleasedStep
from skdpsco.scaling.stages import Units

__all__ = ["fit_each", "fits_each"]


class EachTuning(NamedTuple):
    """Constants of the choice between one fit for each target and one release for all of them.

    They were chosen by hand.

    Parameters
    ----------
    plenty : float
        n mu over the number of all columns to the power 1.5 above which one release of their
        moments serves all targets: below, its noise is larger than that of a fit for each.
    first : float
        Share of the first target over that of each other one, which need not find the features'
        units again.
    """

    plenty: float = 40.0
    first: float = 1.25


EACH = EachTuning()


def fits_each(n_samples: int, n_columns: int, mu: float) -> bool:
    """Whether every target gets a fit of its own, from public sizes; targets are columns, too."""
    return n_samples * mu < EACH.plenty * n_columns**1.5


def fit_each(
    model: Any, X: Any, Y: np.ndarray, bounds: Any, stacklevel: int
) -> tuple[np.ndarray, np.ndarray]:
    """Fit every target within its share of the budget; return coefficients and intercepts.

    All fits are rehearsed up to their first noise before the whole budget is charged, once.

    Parameters
    ----------
    model : PrivateLinearModel
        A draft, which gets what the fits have found.
    X
        Records in memory, or blocks.
    Y : ndarray of shape (n_samples, n_targets)
    bounds : ndarray of shape (n_targets,), or None
        Bounds on the targets, if they are declared.
    stacklevel : int
        Which line warnings name.
    """
    budget, K = model._budget(), Y.shape[1]
    shares = np.append(EACH.first, np.ones(K - 1))
    # The parts add up to the budget however they are rounded.
    rhos = budget.rho * shares / shares.sum() * (1.0 - 2.0**-36)
    seed = seed_of(model.random_state)
    seeds = None if seed is None else np.random.SeedSequence(seed).generate_state(K).tolist()

    def one_fit(k: int, kind: type[Grant], first: Any = None) -> Any:
        """A draft that is fitted to target k, with the units of features of an earlier one."""
        one, units = copy(model), budget.max_records_per_unit
        one._alone = False  # all have the ranges of the first
        part = Budget.from_rho(units**2 * float(rhos[k]), budget.delta)
        one.epsilon, one.ledger = part.epsilon, kind(float(rhos[k]), max_records_per_unit=units)
        one.random_state = None if seeds is None else seeds[k]
        one.target_bound = None if bounds is None else float(bounds[k])
        if model._init is not None:
            coef, intercept = model._init.coef[[k]], model._init.intercept[[k]]
            one._init = model._init._replace(coef=coef, intercept=intercept)
        if model._known_units is not None:
            one._known_units = model._known_units[k]
        elif first is not None:
            one.feature_bound = first._units.bounds
            one._known_units = Units(one.feature_bound, None, first._units.conditioning)
        y: Any = np.ascontiguousarray(Y[:, k])
        records, y = (X.with_target(y), None) if isinstance(X, RowBlocks) else (X, y)
        one.coef_, one.intercept_ = one._learn(records, y)
        return one

    advice: list[str] = []
    parts = f"(Each of {K} targets has a part of the budget.)"
    for k in range(K):
        with collected_advice() as told, without_warnings(), suppress(ReachedNoise):
            try:
                one_fit(k, Rehearsal)
            except ValueError as error:
                raise ValueError(f"{error} {parts}") from error
        advice += [f"{line} {parts}" for line in told]
    event, said = ZCDPEvent(budget.rho), dict.fromkeys(advice)
    with model._releasing(model, event, budget, stacklevel=stacklevel, warnings=said) as release:
        fits: list[Any] = []
        for k in range(K):
            with collected_advice(), without_warnings():
                fits.append(one_fit(k, Grant, fits[0] if fits else None))
        drawn = DRAWN.format(budget.max_records_per_unit)  # which the release of all says
        lines = dict.fromkeys(line for one in fits for line in one.privacy_.assumptions)
        release.assumptions = tuple(line for line in lines if line != drawn)
        total = budget.max_records_per_unit**2 * budget.rho
        release.steps = steps_of_all([one.privacy_ for one in fits], total)
    for name in {*fitted_names(fits[0])} - {"privacy_", "path_", "coef_", "intercept_"}:
        setattr(model, name, getattr(fits[0], name))
    if hasattr(model, "target_range_"):
        model.target_range_ = np.transpose([one.target_range_ for one in fits])
    model._units = tuple(one._units for one in fits)
    model.n_iter_ = max(one.n_iter_ for one in fits)
    if hasattr(model, "radius_"):
        model.radius_ = max(one.radius_ for one in fits)
    return np.array([one.coef_ for one in fits]), np.array([one.intercept_ for one in fits])


def steps_of_all(reports: Iterable[Any], total: float) -> tuple[ReleasedStep, ...]:
    """The steps of several fits, those of one name as one.

    Parameters
    ----------
    reports : iterable of PrivacyReport
    total : float
        What all fits cost in zCDP.
    """
    named: dict[str, list[ReleasedStep]] = {}
    for one in reports:
        for step in one.steps:
            own = step._replace(share=step.share * one.rho / total)
            named.setdefault(step.name, []).append(own)
    return tuple(
        ReleasedStep(
            name,
            sum(step.n_releases for step in steps),
            sum(step.share for step in steps),
            "; ".join(dict.fromkeys(step.found for step in steps if step.found)),
        )
        for name, steps in named.items()
    )
