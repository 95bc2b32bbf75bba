"""What every private estimator shares: budget, ledger, generator, report, and atomic fits."""

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from skdpsco._random import generator, warn_privacy
from skdpsco.privacy import Budget, Event, rho_of
from skdpsco.privacy.report import WITHIN_GROUPS, PrivacyReport
from skdpsco.solvers import Allowance

# Less would need more noise than the grids of the Gaussian mechanism hold; more is no privacy.
MIN_RHO, MAX_RHO = 1e-9, 1e12  # finer noise than the grid, or none


def check_budget(epsilon: Any, delta: Any) -> Budget:
    """The budget, if there is noise for it.

    Raises
    ------
    ValueError, TypeError
    """
    budget = Budget(epsilon, delta)
    if not MIN_RHO <= budget.rho <= MAX_RHO:
        size = "small" if budget.rho < MIN_RHO else "large"
        raise ValueError(
            f"epsilon={epsilon!r} is too {size} with delta={delta!r}: they allow "
            f"{budget.rho:.3g} zCDP, and the legal range is [{MIN_RHO:g}, {MAX_RHO:g}]."
        )
    return budget


def resolve_solver(solver: Any, makers: Mapping[str, Callable[[], Any]]) -> Any:
    """A solver from its name, or the object that was given in place of a name.

    Parameters
    ----------
    solver : str or object
    makers : mapping of str to callable
        For each legal name, what makes its solver.

    Raises
    ------
    ValueError
        If there is no solver of that name.
    TypeError
        If a class is given in place of an object.
    """
    if isinstance(solver, str):
        if solver not in makers:
            raise ValueError(f"solver must be one of {tuple(makers)}, got {solver!r}.")
        return makers[solver]()
    if isinstance(solver, type):
        raise TypeError(f"solver must be an instance, {solver.__name__}(), not a class.")
    return solver


def public_only(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters for a ledger's history: without ledgers, and without seeds, which undo noise."""
    hidden = ("ledger", "random_state")
    shown = {name: value for name, value in params.items() if name not in hidden}
    for name, value in shown.items():
        if hasattr(value, "get_params") and not isinstance(value, type):
            inner = clone(value)
            for deep in inner.get_params(deep=True):
                if deep.rsplit("__", 1)[-1] in hidden:
                    inner.set_params(**{deep: None})
            shown[name] = inner
    return shown


def charge(
    ledger: Any, event: Event, name: str, parameters: dict, relation: str, stacklevel: int
) -> None:
    """Charge a ledger, and warn if it is the first charge for "replace-one within groups".

    Parameters
    ----------
    ledger : object with ``charge``
    event, name, parameters, relation
        As for `Ledger.charge`.
    stacklevel : int
        Whose line the warning names: 2 for that of the caller.

    Warns
    -----
    PrivacyWarning
    """
    weakest_relation = getattr(ledger, "weakest_relation", None)
    if relation == WITHIN_GROUPS and weakest_relation and weakest_relation() == "replace-one":
        warn_privacy(
            f"With group_membership='public' the guarantee of {name} is for {relation!r} "
            "neighbours, and after this charge so is that of the whole ledger: see "
            "Ledger.weakest_relation(). Set group_membership='private' to keep 'replace-one'.",
            stacklevel + 1,
        )
    ledger.charge(event, name, parameters, relation)


class PrivateEstimator(BaseEstimator):
    """Base of everything that is fitted under differential privacy; see the subclasses.

    A fit checks its input, plans with `_available`, opens with `_open`, which charges the ledger,
    and only then draws noise. What it learns is set on a `_draft`, which `_accept` takes over.
    """

    epsilon: float
    delta: float
    ledger: Any
    random_state: Any

    def _budget(self) -> Budget:
        if isinstance(self.ledger, type):
            raise TypeError(f"ledger must be an instance, not the class {self.ledger.__name__}.")
        return check_budget(self.epsilon, self.delta)

    @property
    def _relation(self) -> str:
        """Which data sets are neighbours, for the charge and the report of a fit."""
        return "replace-one"

    def _candidates_of_fit(self) -> list[tuple[str, Any]]:
        """What a fit may fit in place of a parameter: the parameter's name, and the estimator."""
        return []

    def _available(self, budget: Budget) -> Budget | Allowance:
        """What a planner may spend: with a ledger zCDP, which adds up with other charges."""
        return budget if self.ledger is None else Allowance(budget.rho)

    @contextmanager
    def _planning(self, n_samples: int, n_features: int, *names: str):
        """Say what to change where there is no plan; ``names`` are parameters that matter too.

        Raises
        ------
        ValueError
        """
        try:
            yield
        except (ArithmeticError, MemoryError, ValueError) as error:
            values = "".join(
                f"{name}={getattr(self, name)!r}, " for name in ("epsilon", "delta", *names)
            )
            raise ValueError(
                f"There is no plan for {values}{n_samples} records and {n_features} features; one "
                f"of them is too extreme. {error}"
            ) from error

    def _open(self, event: Event, stacklevel: int = 3) -> tuple[np.random.Generator, bool]:
        """Charge for ``event`` and make the generator of one fit; noise may be drawn from here on.

        Parameters
        ----------
        event : Event
            The whole cost of the fit, known before it.
        stacklevel : int
            Whose line a warning about a fixed seed names: 3 for the caller of our caller.
        """
        made = generator(self.random_state, stacklevel=stacklevel + 1)
        if self.ledger is not None:
            parameters = public_only(self.get_params(deep=False))
            charge(
                self.ledger, event, type(self).__name__, parameters, self._relation, stacklevel + 1
            )
        return made

    def _report(
        self, budget: Budget, event: Event, seeded: bool, assumptions: tuple[str, ...]
    ) -> PrivacyReport:
        return PrivacyReport(
            epsilon=budget.epsilon,
            delta=budget.delta,
            rho=rho_of(event),
            event=event,
            seeded=seeded,
            assumptions=assumptions,
            relation=self._relation,
        )

    def _draft(self):
        """Copy to fit, so that a fit that fails leaves the estimator as it was."""
        draft = copy(self)
        _forget(draft)
        return draft

    def _accept(self, draft):
        """Take over what ``draft`` has learnt, and forget all that an earlier fit has."""
        _forget(self)
        vars(self).update({name: vars(draft)[name] for name in fitted_names(draft)})
        return self

    def _html_with_privacy(self, html: str) -> str:
        return html + self.privacy_._repr_html_() if hasattr(self, "privacy_") else html

    def _repr_html_inner(self):
        return self._html_with_privacy(super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._html_with_privacy(bundle["text/html"])
        return bundle


def fitted_names(estimator: PrivateEstimator) -> list[str]:
    """Names of the attributes that a fit has set."""
    parameters = estimator._get_param_names()
    return [
        name
        for name in vars(estimator)
        if name.endswith("_") and not name.startswith("_") and name not in parameters
    ]


def _forget(estimator: PrivateEstimator) -> None:
    for name in fitted_names(estimator):
        delattr(estimator, name)
