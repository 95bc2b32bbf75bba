"""The one private fit path that every linear estimator shares."""

from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from skdpsco._design import as_design
from skdpsco._progress import check_progress, progress_bar
from skdpsco._random import generator
from skdpsco._target import SCALES, Target, plan_target, release_target
from skdpsco._validation import check_bound, check_feature_bound, check_n_iter, check_X
from skdpsco.constraints import L1Ball
from skdpsco.privacy import Budget, Event, NoOpEvent, ZCDPEvent, compose, rho_of
from skdpsco.privacy.report import PrivacyReport
from skdpsco.solvers import (
    Allowance,
    FrankWolfe,
    NoisyFrankWolfe,
    Problem,
    Result,
    Stagewise,
    check_cost,
    check_supported,
)

# Less would need more noise than the grids of the Gaussian mechanism hold; more is no privacy.
MIN_RHO, MAX_RHO = 1e-9, 1e12  # finer noise than the grid, or none


def resolve_solver(solver: Any) -> Any:
    """A solver from its name; an object that has ``plan`` and ``run`` is its own."""
    if solver == "stagewise":
        return Stagewise()
    if solver == "frank-wolfe":
        return FrankWolfe()
    if solver == "frank-wolfe-laplace":
        return FrankWolfe("laplace")
    if solver == "noisy-frank-wolfe":
        return NoisyFrankWolfe()
    if isinstance(solver, type):
        raise TypeError(f"solver must be an instance, {solver.__name__}(), not a class.")
    return solver


@dataclass
class RadiusPath:
    """Solutions of growing l1 radius: post-processing of a fit, free of privacy cost.

    Parameters
    ----------
    radius : ndarray of shape (n_points,)
        Length of the path, in units of the coefficients.
    """

    radius: np.ndarray
    _points: sparse.csr_array = field(repr=False)
    _unscale: Any = field(repr=False)

    @property
    def coef(self) -> np.ndarray:
        """Coefficients, of shape (n_points, n_features) or (n_points, n_classes, n_features)."""
        return np.array([self._unscale(row)[0] for row in self._points.toarray()])

    @property
    def intercept(self) -> np.ndarray:
        """Intercepts, of shape (n_points,) or (n_points, n_classes)."""
        return np.array([self._unscale(row)[1] for row in self._points.toarray()])


@dataclass
class _Unscale:
    """From coefficients of scaled features and targets to those of the user's units."""

    bounds: np.ndarray
    intercept: bool
    n_outputs: int
    target: Target

    def __call__(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        W = w.reshape(self.n_outputs, -1) * self.target.scale
        d = len(self.bounds)
        coef = W[:, :d] / self.bounds
        intercept = self.target.centre + (W[:, d] if self.intercept else np.zeros(self.n_outputs))
        if self.n_outputs == 1:
            return coef[0], float(intercept[0])
        return coef, intercept


class PrivateLinearModel(BaseEstimator):
    """Base of private linear models; see the subclasses."""

    epsilon: float
    delta: float
    radius: Any
    feature_bound: Any
    solver: Any
    n_iter: Any
    fit_intercept: bool
    verbose: int
    random_state: Any

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _draft(self):
        """Copy to fit, so that a fit that fails leaves the estimator as it was."""
        draft = copy(self)
        _forget(draft)
        return draft

    def _accept(self, draft):
        """Take over what ``draft`` has learnt, and forget all that an earlier fit has."""
        _forget(self)
        vars(self).update({name: vars(draft)[name] for name in _fitted_names(draft)})
        return self

    def _radius_and_bounds(self, n_features: int) -> tuple[float | None, np.ndarray]:
        """The radius, None for "auto", and one bound per column, both checked."""
        bounds = check_feature_bound(self.feature_bound, n_features)
        if isinstance(self.radius, str):
            return None, bounds
        radius = check_bound("radius", self.radius)
        check_bound("radius * max(feature_bound)", radius * float(bounds.max()))
        return radius, bounds

    def _fit(
        self,
        X,
        y: np.ndarray,
        loss: Any,
        target_bound: float | None,
        assumptions: tuple[str, ...],
        regression: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """Plan, charge, run and report; return coefficients and intercept in the user's units.

        Called on a draft: attributes that it sets count only once the whole fit has succeeded.

        Parameters
        ----------
        X, y
            Validated. For a classifier y holds -1 and 1, or class indices.
        loss : NamedTuple of `skdpsco.losses`
        target_bound : float or None
            Bound on the targets of a regression; None if a private one is to be found.
        assumptions : tuple of str
            Lines for the report.
        regression : bool
            Whether y has a scale, which is then found privately.
        """
        n, d = X.shape
        budget = Budget(self.epsilon, self.delta)
        if not MIN_RHO <= budget.rho <= MAX_RHO:
            size = "small" if budget.rho < MIN_RHO else "large"
            raise ValueError(
                f"epsilon={self.epsilon!r} is too {size} with delta={self.delta!r}: they allow "
                f"{budget.rho:.3g} zCDP, and the legal range is [{MIN_RHO:g}, {MAX_RHO:g}]."
            )
        radius, bounds = self._radius_and_bounds(d)
        largest = float(bounds.max())
        solver = resolve_solver(self.solver)
        n_iter = check_n_iter(self.n_iter)
        intercept = bool(self.fit_intercept)
        check_progress(self.verbose)
        if radius is None and not isinstance(solver, Stagewise):
            raise ValueError(
                f"radius='auto' needs solver='stagewise', whose path it searches; got "
                f"solver={self.solver!r}. Give radius as a number."
            )

        def problem_for(target: Target) -> Problem:
            constraint = None if radius is None else L1Ball(radius * largest / target.scale)
            return Problem(loss, constraint, n, d + intercept, intercept)

        # The planner: budget and public sizes. Where the scale of the target is still to be
        # released, the first plans are rehearsals for its extremes: whatever may fail must fail
        # before noise is drawn.
        available: Budget | Allowance = budget
        rehearsed = [1.0]
        target_event: Event = NoOpEvent()
        target = Target(1.0, 0.0, 1.0)
        if regression:
            target_plan = plan_target(target_bound, intercept, n, budget.rho)
            target_event = target_plan.event
            rehearsed = [target_plan.bound]
            if not isinstance(target_event, NoOpEvent):
                available = Allowance(budget.rho).minus(target_event)
                # Without a declared bound the radius is not given, and the plan not about scales.
                rehearsed = [target_plan.bound * float(SCALES[0]), 2.0 * target_plan.bound]
        for scale in rehearsed:
            problem = problem_for(Target(1.0, 0.0, scale))
            check_supported(solver, problem)
            try:
                plan = solver.plan(problem, available, n_iter)
                check_cost(plan.event, available)
            except (ArithmeticError, MemoryError, ValueError) as error:
                raise ValueError(
                    f"There is no plan for epsilon={self.epsilon!r}, delta={self.delta!r}, "
                    f"radius={self.radius!r}, n_iter={self.n_iter!r}, {n} records and {d} "
                    f"features; one of them is too extreme. {error}"
                ) from error
        design = as_design(X, bounds, intercept)

        # From here on noise is drawn; what it costs is known: target_event and, if the plan still
        # follows from a release, all of `available`, else what the plan says.
        rng, seeded = generator(self.random_state, stacklevel=4)  # the line that called fit
        event = plan.event
        with np.errstate(all="ignore"):  # an underflow would tell something about the data
            if regression:
                target = release_target(target_plan, y, rng)
                y = target.apply(y)
                assumptions = (f"targets are clipped to +-{target.bound:g}", *assumptions)
                problem = problem_for(target)
                plan = solver.plan(problem, available, n_iter)
                check_cost(plan.event, available)
                if isinstance(available, Allowance):
                    event = ZCDPEvent(available.rho)
            with progress_bar(self.verbose, max(plan.n_iter, 1), type(self).__name__) as counter:
                result: Result = solver.run(plan, problem, design, y, rng, counter)

        event = compose(target_event, event)
        self.privacy_ = PrivacyReport(
            epsilon=budget.epsilon,
            delta=budget.delta,
            rho=rho_of(event),
            event=event,
            seeded=seeded,
            assumptions=(f"features are clipped to +-{_brief(bounds)}", *assumptions),
        )
        self.n_iter_ = result.n_iter
        unscale = _Unscale(bounds, intercept, loss.n_outputs, target)
        units = target.scale / largest
        if result.radius is not None:
            self.radius_ = result.radius * units
        if result.path is not None:
            self.path_ = RadiusPath(result.path[0] * units, result.path[1], unscale)
        return unscale(result.coef)

    def _predictions(self, X) -> np.ndarray:
        check_is_fitted(self)
        X = check_X(self, X)
        return safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_

    def _html_with_privacy(self, html: str) -> str:
        return html + self.privacy_._repr_html_() if hasattr(self, "privacy_") else html

    def _repr_html_inner(self):
        return self._html_with_privacy(super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._html_with_privacy(bundle["text/html"])
        return bundle


def _fitted_names(estimator: PrivateLinearModel) -> list[str]:
    parameters = estimator._get_param_names()
    return [
        name
        for name in vars(estimator)
        if name.endswith("_") and not name.startswith("_") and name not in parameters
    ]


def _forget(estimator: PrivateLinearModel) -> None:
    for name in _fitted_names(estimator):
        delattr(estimator, name)


def _brief(bounds: np.ndarray) -> str:
    low, high = float(bounds.min()), float(bounds.max())
    return f"{low:g}" if low == high else f"[{low:g} .. {high:g}], one bound per column"
