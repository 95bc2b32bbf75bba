"""The one private fit path that every linear estimator shares."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import gen_batches
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from skdpsco._quiet import score_by
from skdpsco._random import warn_utility
from skdpsco._validation import check_bound, check_feature_bound, check_n_iter, check_X
from skdpsco.base.private_estimator import PrivateEstimator, resolve_solver
from skdpsco.base.progress import check_progress, progress_bar
from skdpsco.constraints.sets import L1Ball
from skdpsco.data.design import as_design
from skdpsco.data.map_reduce import BlockDesign
from skdpsco.data.row_blocks import BlockRecords, RowBlocks
from skdpsco.privacy import Event, NoOpEvent, ZCDPEvent, compose
from skdpsco.scaling.feature_bounds import plan_bounds, release_bounds
from skdpsco.scaling.target import Target, plan_target, release_target
from skdpsco.solvers import (
    Allowance,
    AnytimeMirrorDescent,
    FrankWolfe,
    NoisyFrankWolfe,
    Problem,
    Remainder,
    Stagewise,
    check_cost,
    check_supported,
)

# What makes the solver of a name, for models in an l1 ball.
L1_SOLVERS: dict[str, Callable[[], Any]] = {
    "stagewise": Stagewise,
    "frank-wolfe": FrankWolfe,
    "frank-wolfe-laplace": partial(FrankWolfe, "laplace"),
    "noisy-frank-wolfe": NoisyFrankWolfe,
    "anytime-mirror-descent": AnytimeMirrorDescent,
}


@dataclass
class RadiusPath:
    """Solutions of growing l1 radius: post-processing of a fit, free of privacy cost.

    Parameters
    ----------
    radius : ndarray of shape (n_points,)
        Length of the path, in units of the coefficients.
    """

    radius: np.ndarray
    _points: Any = field(repr=False)
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


class PrivateLinearModel(PrivateEstimator):
    """Base of private linear models, in an l1 ball unless a subclass overrides; see there."""

    radius: Any
    feature_bound: Any
    solver: Any
    n_iter: Any
    fit_intercept: bool
    verbose: int

    _by_blocks = False  # of a draft: whether its records come in blocks, over which sums are taken

    # Parameters that may be too extreme for a plan.
    _planned_with: ClassVar[tuple[str, ...]] = ("radius", "n_iter")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _radius_and_bounds(self, n_features: int) -> tuple[float | None, np.ndarray]:
        """The radius, None for "auto", and one bound per column, both checked."""
        bounds = check_feature_bound(self.feature_bound, n_features)
        if isinstance(self.radius, str):
            return None, bounds
        radius = check_bound("radius", self.radius)
        check_bound("radius * max(feature_bound)", radius * float(bounds.max()))
        return radius, bounds

    def _public_bounds(self, n_features: int) -> np.ndarray | None:
        """One bound per column, checked; None if they are to be found privately."""
        return self._radius_and_bounds(n_features)[1]

    def _resolved_solver(self, loss: Any, n_samples: int, n_features: int, rho: float) -> Any:
        """The solver for a problem of this size, and a check that it can do what is asked of it."""
        solver = resolve_solver(self.solver, L1_SOLVERS)
        if isinstance(self.radius, str) and not isinstance(solver, Stagewise):
            raise ValueError(
                f"radius='auto' needs solver='stagewise', whose path it searches; got "
                f"solver={self.solver!r}. Give radius as a number."
            )
        return solver

    def _problem(self, loss: Any, n_samples: int, bounds: np.ndarray, target: Target) -> Problem:
        """What is solved once the bounds and the target's scale are known, in the kernels' units.

        It is built for the extremes of both before they are released: it must not fail in between.
        """
        radius, _ = self._radius_and_bounds(len(bounds))
        constraint = None if radius is None else L1Ball(radius * float(bounds.max()) / target.scale)
        intercept = bool(self.fit_intercept)
        return Problem(loss, constraint, n_samples, len(bounds) + intercept, intercept)

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
            Validated, or what `_design` takes, with None for y. For a classifier y holds -1 and 1,
            or class indices.
        loss : NamedTuple of `skdpsco.losses`
        target_bound : float or None
            Bound on the targets of a regression; None if a private one is to be found.
        assumptions : tuple of str
            Lines for the report.
        regression : bool
            Whether y has a scale, which is then found privately.
        """
        n, d = X.shape
        budget = self._budget()
        bounds = self._public_bounds(d)
        self._by_blocks = isinstance(X, BlockRecords)
        solver = self._resolved_solver(loss, n, d, budget.rho)
        if self._by_blocks and not getattr(solver, "by_blocks", False):
            raise ValueError(
                f"solver={self.solver!r} cannot sum over blocks of records. Pass X and y as "
                "arrays, or choose one of 'stagewise', 'frank-wolfe', 'noisy-frank-wolfe', "
                "'gradient-descent' and 'moments' that the model has."
            )
        n_iter = check_n_iter(self.n_iter)
        intercept = bool(self.fit_intercept)
        check_progress(self.verbose)

        # The planner: budget and public sizes. Where bounds of the features or the scale of the
        # target are still to be released, the first plans are rehearsals for their extremes:
        # whatever may fail must fail before noise is drawn.
        available: Any = self._available(budget)
        released: Event = NoOpEvent()
        target = Target(1.0, 0.0, 1.0)
        all_bounds: list[Any] = [bounds]
        scales: tuple[float, ...] = (1.0,)
        with self._planning(n, d, *self._planned_with):
            if bounds is None:
                bound_plan = plan_bounds(n, d, budget.rho)
                released = bound_plan.event
                all_bounds = [np.full(d, bound) for bound in bound_plan.extremes]
            if regression:
                target_plan = plan_target(target_bound, intercept, n, budget.rho)
                released = compose(released, target_plan.event)
                scales = target_plan.scales
        problems = [
            _with_layout(self._problem(loss, n, rehearsed, Target(1.0, 0.0, scale)), X)
            for rehearsed, scale in product(all_bounds, scales)
        ]
        # Whether what is released first has no influence on what the solver will cost.
        known = getattr(solver, "fixed_cost", False) or all(p == problems[0] for p in problems)
        if not isinstance(released, NoOpEvent):
            # In zCDP any plan may follow: (epsilon, delta) of different curves do not mix.
            in_zcdp = self.ledger is not None or not known
            available = (
                Allowance(budget.rho).minus(released) if in_zcdp else Remainder(budget, released)
            )
        cost: Any = None
        for problem in problems:
            check_supported(solver, problem)
            with self._planning(n, d, *self._planned_with):
                plan = solver.plan(problem, available, n_iter)
                check_cost(plan.event, available)
            cost = _agreed(solver, plan.event, cost) if known else ZCDPEvent(available.rho)
        for line in plan.warnings:
            warn_utility(line, stacklevel=4)  # the line that called fit
        with _opened(self._design(X, all_bounds[0], intercept)) as design:
            # What the fit costs is known: what is released first, and what the plan says, or all
            # of `available` if the plan still follows from that.
            event = compose(released, cost)
            rng, seeded = self._open(event, stacklevel=4)  # the line that called fit
            with np.errstate(all="ignore"):  # an underflow would tell something about the data
                if bounds is None:
                    self.feature_bound_ = bounds = release_bounds(bound_plan, design, rng)
                    design = design._replace(bounds=bounds)
                if regression:
                    target = release_target(target_plan, y, rng, design)
                    if isinstance(design, BlockDesign):
                        design = design._replace(target=target.apply)
                    else:
                        y = target.apply(y)
                    assumptions = (f"targets are clipped to +-{target.bound:g}", *assumptions)
                if not isinstance(released, NoOpEvent):
                    problem = self._problem(loss, n, bounds, target)
                    problem = _with_layout(problem, X)
                    plan = solver.plan(problem, available, n_iter)
                    check_cost(plan.event, available)
                    if known:
                        _agreed(solver, plan.event, cost)
                result = self._follow(solver, plan, problem, design, y, rng)

        clipped = f"features are clipped to +-{_brief(bounds)}"
        assumptions = tuple(dict.fromkeys((clipped, *assumptions, *plan.assumptions)))
        self.privacy_ = self._report(budget, event, seeded, assumptions)
        self.n_iter_ = result.n_iter
        if result.n_rounds is not None:
            self.n_rounds_ = result.n_rounds
        unscale = _Unscale(bounds, intercept, loss.n_outputs, target)
        units = target.scale / float(bounds.max())
        if result.radius is not None:
            self.radius_ = result.radius * units
        if result.path is not None:
            self.path_ = RadiusPath(result.path[0] * units, result.path[1], unscale)
        return unscale(result.coef)

    def _design(self, X: Any, bounds: np.ndarray, intercept: bool) -> Any:
        """What the solver reads records from."""
        if isinstance(X, BlockRecords):
            return X.open(bounds, intercept)
        return as_design(X, bounds, intercept)

    def _follow(self, solver: Any, plan: Any, problem: Problem, *data: Any) -> Any:
        """Run ``solver`` on the data, the generator last, with a progress bar."""
        with (
            np.errstate(all="ignore"),  # an underflow would tell something about the data
            progress_bar(self.verbose, max(plan.n_iter, 1), type(self).__name__) as counter,
        ):
            return solver.run(plan, problem, *data, counter)

    def _predictions(self, X) -> np.ndarray:
        check_is_fitted(self)
        refuse_blocks(X)
        X = check_X(self, X)
        # Some records at a time: float32 numbers become float64 ones.
        parts = [
            safe_sparse_dot(X[rows], self.coef_.T, dense_output=True)
            for rows in gen_batches(X.shape[0], X.shape[0] if X.dtype == np.float64 else 4096)
        ]
        return np.concatenate(parts) + self.intercept_


def refuse_blocks(X: Any) -> None:
    """Say what to do for predictions of blocks.

    Raises
    ------
    TypeError
    """
    if isinstance(X, RowBlocks):
        raise TypeError(
            "X must be an array, a sparse matrix or a data frame, got RowBlocks. Predict and score "
            "block by block: for X, y in blocks: model.predict(X)."
        )


class LinearClassifierMixin(ClassifierMixin):
    """Predictions of a `PrivateLinearModel` of two or more classes."""

    classes_: np.ndarray

    def decision_function(self, X):
        """Score of the second of two classes, or one per class: log-odds if the loss is logistic.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        scores = self._predictions(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X):
        """Predict the class with the largest score.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        if len(self.classes_) == 2:
            return self.classes_[(scores > 0.0).astype(int)]
        return self.classes_[scores.argmax(axis=1)]

    def score(self, X, y=None, sample_weight=None):
        """Accuracy, without noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Has to be given.
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        score : float

        Raises
        ------
        TypeError
            For `RowBlocks`: score them one by one.
        """
        refuse_blocks(X)
        return score_by(accuracy_score, y, self.predict(X), sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


@contextmanager
def _opened(design: Any):
    """Release what the workers of blocks hold, whatever happens."""
    try:
        yield design
    finally:
        if isinstance(design, BlockDesign):
            design.close()


def _agreed(solver: Any, event: Event, cost: Event | None) -> Event:
    """The cost of a plan, which has to be that of the plans before it.

    Raises
    ------
    RuntimeError
    """
    if cost not in (None, event):
        raise RuntimeError(f"{solver!r} has a fixed_cost, but its plans do not cost the same.")
    return event


def _with_layout(problem: Any, X: Any) -> Any:
    """The problem with the layout of X, a public hint for solvers of linear models."""
    return replace(problem, sparse=sparse.issparse(X)) if isinstance(problem, Problem) else problem


def _brief(bounds: np.ndarray) -> str:
    low, high = float(bounds.min()), float(bounds.max())
    return f"{low:g}" if low == high else f"[{low:g} .. {high:g}], one bound per column"
