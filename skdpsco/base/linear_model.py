"""The one private fit path that every linear estimator shares."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils import gen_batches
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdpsco._problem import Uncertainty
from skdpsco._typing import MatrixLike, Self, TargetLike
from skdpsco._validation import (
    check_bound,
    check_feature_bound,
    check_fit_params,
    check_n_iter,
    check_weights,
    check_X,
    is_auto,
)
from skdpsco.base.advice import PublicNumbers, advice_on, doubts_about, with_bounds_of_1
from skdpsco.base.fit_plans import (
    FitTask,
    Found,
    Prepared,
    agreed,
    check_reads_blocks,
    check_rows_of,
    is_sparse,
    mu_left,
    opened_design,
    purely_prepared,
    with_layout,
)
from skdpsco.base.plain import plain_pipeline
from skdpsco.base.predictions import refuse_blocks
from skdpsco.base.private_estimator import PrivateEstimator, resolve_solver
from skdpsco.base.public_start import PublicStart, checked_start, clipped_product, learnt_from
from skdpsco.constraints.sets import L1Ball
from skdpsco.data.block_records import BlockRecords, is_blocks
from skdpsco.data.design import as_design
from skdpsco.data.pieces import MOST_RECORDS_ADDED
from skdpsco.losses.library import Weighted, is_proven, with_weights
from skdpsco.privacy import Event, NoOpEvent, ZCDPEvent, compose
from skdpsco.privacy.relations import ADD_OR_REMOVE
from skdpsco.privacy.report import ReleasedStep
from skdpsco.privacy.spending import Allowance, left_after
from skdpsco.scaling.calibration import Curve, calibration_pays, curve_of, plan_calibration
from skdpsco.scaling.conditioning import conditioning_pays, narrowed, plan_conditioning
from skdpsco.scaling.feature_bounds import FEATURE_BOUNDS, clipping_note, plan_bounds
from skdpsco.scaling.record_count import RECORD_COUNT, CountPlan, plan_count
from skdpsco.scaling.stages import Stage, Units, known_stages, rehearsed, release_stages
from skdpsco.scaling.target import Target, TargetPlan, declared_target, least_n_mu, plan_target
from skdpsco.solvers import (
    AnytimeMirrorDescent,
    FrankWolfe,
    NoisyFrankWolfe,
    Problem,
    Stagewise,
    check_supported,
)
from skdpsco.solvers.base import assumed_of, decided
from skdpsco.solvers.l1.stagewise import centring_pays

__all__ = ["INIT_NOTE", "PrivateLinearModel"]

# Solvers that leave the intercept outside of the ball and add only Gaussian noise, except for
# selections. For them a centre of the features is found, and scores are calibrated.
CONDITIONED = (
    "auto",
    "stagewise",
    "coordinate-descent",
    "greedy-coordinate-descent",
    "gradient-descent",
)


# For models in an l1 ball: a function for each name that makes its solver.
L1_SOLVERS: dict[str, Callable[[], Any]] = {
    "stagewise": Stagewise,
    "frank-wolfe": FrankWolfe,
    "frank-wolfe-laplace": partial(FrankWolfe, "laplace"),
    "noisy-frank-wolfe": NoisyFrankWolfe,
    "anytime-mirror-descent": AnytimeMirrorDescent,
}

INIT_NOTE = "the records had no part in the fit of init"
PUBLIC_NOTE = "no record is in public_data, nor had a part in the fit of an init"

_REFUSED_INIT = (
    "init must be None for this fit. A fit may begin at a model of other records if it is one of "
    "PrivateRidge, PrivateElasticNet, PrivateHuberRegressor, PrivateQuantileRegressor, "
    "PrivatePoissonRegressor, PrivateGammaRegressor, PrivateLogisticRegression and "
    "PrivateLinearSVC, and X holds records, which the first four need in memory."
)


@dataclass
class RadiusPath:
    """Solutions of growing l1 radius: post-processing of a fit, free of privacy cost.

    Parameters
    ----------
    radius : ndarray of shape (n_points,)
        l1 norm along the path, in units of the coefficients.
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


class PrivateLinearModel(PrivateEstimator):
    """Base of private linear models, in an l1 ball unless a subclass overrides it; see there."""

    radius: Any
    feature_bound: Any
    solver: Any
    n_iter: Any
    fit_intercept: bool

    coef_: np.ndarray
    intercept_: Any  # a float for one target, otherwise an array
    n_iter_: int
    n_rounds_: int
    radius_: float
    path_: RadiusPath
    uncertainty_: Uncertainty
    feature_bound_: np.ndarray
    feature_range_: np.ndarray

    _auto_radius: ClassVar[float]  # of a ball that also holds the intercept
    # A wider scale, which clips less where there is little noise, would leave features small beside
    # the intercept: steps short enough for the intercept would be too short for them.
    _widest: ClassVar[float] = math.inf
    _narrowest: float = 0.0  # the least scale, in root mean squares
    _conditioned_solvers: ClassVar[tuple[str, ...]] = CONDITIONED
    # Whether a given radius rules out whatever would change its ball: units of targets other than
    # their declared bound, and calibration.
    _keeps_given_balls: ClassVar[bool] = False
    max_weight: Any  # only in models that take weights of records
    _sample_weight: Any = None  # of a draft: as it was passed
    _takes_init: ClassVar[bool] = False  # whether a fit may begin at a model of other records
    # Whether gradients are taken at scores that the model in init has a part in. Otherwise its
    # predictions are subtracted from targets.
    _begins_at_scores: ClassVar[bool] = True
    _init: PublicStart | None = None  # of a draft: that model
    _known_units: Any = None  # of a draft: `Units` that public records, or other fits, tell
    _units: Units | None = None  # of a draft: its own, once it is fitted
    _conditioned = False  # of a draft: whether features are conditioned
    _sparse = False  # of a draft: whether its records are sparse
    _by_blocks = False  # of a draft: whether its records come in blocks, over which sums are taken
    _alone = True  # of a draft: whether no other fit takes its ranges or its coefficients

    _bounds_in: ClassVar[str] = "feature_bound"  # where users declare bounds of features

    _predicts_scores: ClassVar[bool] = True  # predictions follow from linear scores, as they are

    # Parameters that may be too extreme for a plan.
    _planned_with: ClassVar[tuple[str, ...]] = ("radius", "n_iter")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(
        self, X: MatrixLike, y: TargetLike = None, *, units: Any = None, **fit_params: Any
    ) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or blocks
            Blocks are `RowBlocks`, a Dask array or data frame, or an Arrow table, for some solvers:
            see :doc:`/scaling`. `PrivateRidge`, `PrivateElasticNet` and `PrivateLasso` also take a
            fitted `PrivateMoments`, or a part of it, at no cost.
        y : array-like of shape (n_samples,), (n_samples, n_targets) or None, default=None
            None if blocks hold the targets. Only some models take several.
        {units}
        **fit_params : dict
            ``sample_weight``, an array-like of shape (n_samples,), if ``max_weight`` is declared.
            Optional starting points of models with a penalty: ``init``, a fitted linear model of
            other records, and ``public_data``, a pair (X, y) of records that need no protection.
            See :doc:`/public-data`.

        {outcome}
        """
        init, public_data = (fit_params.pop(name, None) for name in ("init", "public_data"))
        weights = check_fit_params(self, fit_params)
        self._validate_params()
        if getattr(self, "max_weight", None) is not None:
            check_bound("max_weight", self.max_weight)
        draft = self._draft()
        begins = init is not None or public_data is not None
        if begins:
            blocks = is_blocks(X) and not self._begins_at_scores
            if not self._takes_init or blocks or hasattr(type(X), "_released"):
                raise ValueError(_REFUSED_INIT)
            if public_data is None:
                draft._init = checked_start(init)
            else:
                draft._init, draft._known_units, draft.feature_bound = learnt_from(
                    self, public_data, init
                )
                if self._finds_bounds():
                    draft.feature_bound_ = draft.feature_bound
        if hasattr(type(X), "_released"):
            if not (weights is None and units is None):
                raise ValueError("sample_weight and units must be None where X holds moments.")
            draft._learn_from_moments(X._released, y)
            return self._accept(draft)
        X, y, draft._sample_weight = self._of_units(units, X=X, y=y, sample_weight=weights)
        coef, intercept = draft._learn(X, y)
        if begins and not self._begins_at_scores:
            coef, intercept = draft._init.added(coef, intercept)
        draft.coef_, draft.intercept_ = coef, intercept
        return self._accept(draft)

    def _learn(self, X: Any, y: Any) -> tuple[np.ndarray, Any]:
        """Check the records, and fit this draft; return coefficients and intercept.

        Only `fit` calls it, since warnings name the line that called `fit`.
        """
        raise NotImplementedError

    def _check_init(self, n_features: int, n_outputs: int = 1) -> np.ndarray:
        """Check the model that the fit begins at, if there is one, and return declared bounds."""
        if self._init is not None:
            names, classes = (getattr(self, k, None) for k in ("feature_names_in_", "classes_"))
            self._init.check((n_outputs, n_features), names, classes, self._finds_bounds())
            no_ones = self._begins_at_scores and not self.fit_intercept
            if no_ones and self._init.intercept.any():
                raise ValueError("init must have an intercept of 0 with fit_intercept=False.")
        return self._public_bounds(n_features)  # type: ignore[return-value]

    def _refuse_added_init(self) -> None:
        """Refuse `init` of a regression where records are added: BLAS rounds by where a row stands.

        Raises
        ------
        ValueError
            In that case.
        """
        if self._relation == ADD_OR_REMOVE:
            raise ValueError(f"init must be None for regressions with {ADD_OR_REMOVE!r}.")

    def _learn_from_moments(self, moments: Any, y: Any) -> None:
        """Fit this draft to what `PrivateMoments` has released, at no cost."""
        raise TypeError(
            f"{type(self).__name__} needs records, not moments. Only PrivateRidge, "
            "PrivateElasticNet, PrivateLasso, PrivateLinearDiscriminantAnalysis and PrivatePCA can "
            "be fitted to moments."
        )

    def _radius_and_bounds(self, n_features: int) -> tuple[float | None, np.ndarray | None]:
        """The radius, None for "auto", and one bound per column; both are checked.

        Bounds are None if they are to be found privately.

        Raises
        ------
        TypeError, ValueError
            If one of them is out of range, or bounds are to be found for a radius in their units.
        """
        if self.feature_bound is None and self._needs_bounds():
            raise ValueError(
                f"feature_bound=None needs {self._needs_bounds()}. Declare feature_bound."
            )
        if self._finds_bounds():
            return None, None
        bounds = self._feature_bounds(n_features)
        if isinstance(self.radius, str):
            return None, bounds
        radius = check_bound("radius", self.radius)
        check_bound("radius * max(feature_bound)", radius * float(bounds.max()))
        return radius, bounds

    def _finds_bounds(self) -> bool:
        """Whether bounds of features are found privately, if there are enough records.

        Where "auto" finds none, they are 1, or those that a model to begin at has found: the units
        of such a model, and of a radius that is a number, are known.
        """
        if is_auto(self.feature_bound):
            return self._init is None and not self._needs_bounds()
        return self.feature_bound is None

    def _seeks_bounds(self) -> bool:
        """Whether bounds are found if there are enough records, whatever the solver."""
        return self._finds_bounds() and not (is_auto(self.feature_bound) and self._samples())

    def _needs_bounds(self) -> str:
        """What would have to be different for bounds to be found; empty if nothing would."""
        given = self._ball_is_given()
        return "radius='auto', as a number is in units of the bounds" if given else ""

    def _samples(self) -> bool:
        """Whether the solver hides in its noise which records it samples."""
        return getattr(self.solver, "samples", self.solver == "sgd")

    def _feature_bounds(self, n_features: int) -> np.ndarray:
        """One declared bound per column, checked."""
        bound = self.feature_bound
        if is_auto(bound):
            found = getattr(self._init, "bounds", None)
            bound = 1.0 if found is None or self._ball_is_given() else found
        return check_feature_bound(bound, n_features, getattr(self, "feature_names_in_", None))

    def _public_bounds(self, n_features: int) -> np.ndarray | None:
        """One bound per column, checked; None if they are to be found privately."""
        return self._radius_and_bounds(n_features)[1]

    def _resolved_solver(self, loss: Any, n_samples: int, n_features: int, rho: float) -> Any:
        """The solver for a problem of this size, after a check that it can do what is wanted."""
        solver = resolve_solver(self.solver, L1_SOLVERS)
        if isinstance(self.radius, str) and not isinstance(solver, Stagewise):
            raise ValueError(
                f"radius='auto' needs solver='stagewise', whose path it searches; got "
                f"solver={self.solver!r}. Give radius as a number."
            )
        return solver

    def _problem(self, loss: Any, n_samples: int, bounds: np.ndarray, target: Target) -> Problem:
        """The problem for known bounds and scale of the target, in the kernels' units.

        It is built for the extremes of both before they are released, and must not fail in between.
        """
        radius, _ = self._radius_and_bounds(len(bounds))
        constraint = None if radius is None else L1Ball(radius * float(bounds.max()) / target.scale)
        intercept = bool(self.fit_intercept)
        return Problem(loss, constraint, n_samples, len(bounds) + intercept, intercept)

    def _ball_radius(self, bounds: Any, target: Target) -> float:
        """Radius of a ball that includes the intercept, in the solver's units.

        Raises
        ------
        TypeError, ValueError
            If it is not a number, or out of range.
        """
        radius, _ = self._radius_and_bounds(len(bounds))
        if radius is None:
            return self._auto_radius
        name = f"radius * max(feature_bound){' / target_bound' if target.scale != 1.0 else ''}"
        return check_bound(name, radius * float(bounds.max()) / target.scale)

    def _advice(self, problem: Any, mu: float) -> tuple[str, ...]:
        """What users should know about the accuracy of a fit, from public numbers alone."""
        n, d = problem.n_samples, problem.n_features - problem.intercept
        budget, reach = self._budget(), self._largest_prediction(d)
        k = budget.max_records_per_unit
        # The searches for units are planned in rho.
        in_rho = mu / math.sqrt(2.0 * budget.rho) if budget.delta > 0.0 else 1.0
        least = (
            least_n_mu() * in_rho * self._finds_target(),
            FEATURE_BOUNDS.least_n_mu * in_rho * self._seeks_bounds(),
        )
        return advice_on(
            PublicNumbers(n, d, mu, budget.epsilon, budget.delta, reach, k, *least, self._bounds_in)
        )

    def _largest_prediction(self, n_features: int) -> float | None:
        """The largest prediction in the ball, in units of ``target_bound``; None if unknown."""
        radius, bound = getattr(self, "radius", "auto"), getattr(self, "target_bound", None)
        if isinstance(radius, str) or radius is None or bound is None or not is_regressor(self):
            return None
        if self._finds_bounds():
            return None
        largest = float(self._feature_bounds(n_features).max())
        root = (n_features + 1.0) ** (1.0 - 1.0 / self._order())
        return radius * largest * root / check_bound("target_bound", bound)

    def _order(self) -> float:
        """The order of the ball's norm."""
        return 1.0

    def _loss_notes(self, loss: Any) -> tuple[str, ...]:
        """Lines of the report about a loss, and how records are prepared for it."""
        return ()

    def _conditions(self, task: FitTask, n_samples: int, mu: float) -> bool:
        """Whether a private centre and scale of features are found, from public values alone."""
        n, d = n_samples, task.X.shape[1]
        return (
            (bool(self.fit_intercept) or not self._ball_is_given())
            and self._solver_is_conditioned()
            and (not is_sparse(task.X) or self._reads_centred(task.loss, n, d))
            and conditioning_pays(n, d, mu)
        )

    def _solver_is_conditioned(self) -> bool:
        """Whether the solver leaves the intercept outside of its ball, and adds Gaussian noise."""
        if isinstance(self.solver, str):
            return self.solver in self._conditioned_solvers
        return getattr(self.solver, "conditioned", False)

    def _reads_centred(self, loss: Any, n: int, d: int) -> bool:
        """Whether the solver reads sparse rows minus a dense one."""
        solver, n_mu = self._resolved_solver(loss, n, d, self._budget().rho), n * self._budget().mu
        # In a given ball no scales are found, and descents measure columns as they are.
        measures = getattr(solver, "clips_gradients", False) and self._ball_is_given()
        if measures or not isinstance(solver, Stagewise):
            return not measures and getattr(solver, "reads_centred", False)
        return self.n_iter == "auto" and centring_pays(n_mu, d, not is_regressor(self))

    def _calibrates(self, curve: Curve, n_known: float, d: int, mu: float) -> bool:
        """Whether a private slope and offset of scores are found, from public values alone."""
        return (
            bool(self.fit_intercept and self.delta > 0)  # its noise is Gaussian
            # Otherwise the size of scores is unknown; but scores that are noise need an offset.
            and (self._conditioned or not conditioning_pays(n_known, d, mu))
            and not getattr(self, "standard_errors", False)  # whose step finds both
            and not (self._keeps_given_balls and self._ball_is_given())
            and calibration_pays(n_known, d, mu, curve)
        )

    def _finds_target(self) -> bool:
        """Whether the scale of the target is found privately, without a declared bound."""
        return is_regressor(self) and getattr(self, "target_bound", 1.0) is None

    def _ball_is_given(self) -> bool:
        """Whether ``radius`` is a number."""
        return not isinstance(getattr(self, "radius", "auto"), str)

    def _plan_target(
        self, loss: Any, bound: float | None, n_samples: int, rho: float
    ) -> TargetPlan:
        """How the units of a regression's targets are found."""
        keeps = self._keeps_given_balls and self._ball_is_given()
        if bound is not None and (keeps or self.delta == 0):  # the searches' noise is Gaussian
            return declared_target(bound)
        n_targets = getattr(loss, "n_targets", 1)
        return plan_target(bound, bool(self.fit_intercept), n_samples, rho, n_targets)

    def _curve(self, loss: Any) -> Curve | None:
        """The targets that calibration expects at a score; None if there is no calibration."""
        return curve_of(loss)

    def _known_weight(self, n_samples: int) -> float:
        """Sum of the weights of records in calibration, according to public numbers."""
        return float(n_samples)

    def _calibration_targets(self, result: Any, y: Any, n_samples: int) -> tuple[Any, float]:
        """Targets in [-1, 1] for calibration, with the weights of records if any, and their sum.

        For blocks, where y is None, the targets are a function of those of a block, or None if they
        are used unchanged.
        """
        return y, float(n_samples)

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

        Only `_learn` calls it, on a draft: attributes that it sets count only once the whole fit
        has succeeded.

        Parameters
        ----------
        X, y
            Validated, or what `_design` takes, with None for y. For a classifier y holds -1 and 1,
            or class indices.
        loss : NamedTuple of `skdpsco.losses`
        target_bound : float, Schema or None
            Bound on the targets of a regression, which is checked here; None if a private one is to
            be found.
        assumptions : tuple of str
            Lines for the report.
        regression : bool
            Whether y has a scale, which is then found privately.
        """
        task = self._task(X, y, loss, target_bound, regression)
        if self._init is not None:
            public = getattr(self._known_units, "target", None) is not None
            assumptions = (*assumptions, PUBLIC_NOTE if public else INIT_NOTE)
        budget, intercept = self._budget(), bool(self.fit_intercept)
        count = self._plan_count(budget, *X.shape) if self._relation == ADD_OR_REMOVE else None
        prepared = self._rehearsed(task, budget, count)
        event, warnings = prepared.event, prepared.warnings
        if count is not None:
            event, warnings = compose(count.event, event), ()
            assumptions = (f"there are at most {count.most} records", *assumptions)
        if is_auto(self.feature_bound) and (prepared.first.bounds == 1.0).all():
            warnings = with_bounds_of_1(warnings)
        # Warnings name the line that called fit.
        with opened_design(self._design(X, prepared.first.bounds, intercept)) as design:
            with self._releasing(self, event, budget, warnings=warnings, stacklevel=4) as release:
                counted: tuple[Any, ...] = ()
                if count is not None:
                    n = count.release(X.shape[0], release.rng)
                    counted = ((count.name, count.event, f"about {n}"),)
                    prepared = self._prepared_for_count(task, n, count.left, prepared.event)
                found = self._released(task, prepared, design, y, release.rng)
                release.steps = ReleasedStep.all_of((*counted, *found.steps), event)
                said = (self._clipping_note(found.units), *assumptions, *self._weight_notes())
                said = (*said, *assumed_of(prepared.solver, found.plan))
                release.assumptions = tuple(dict.fromkeys(said))
        return self._adopted(task, found)

    def _task(self, X: Any, y: Any, loss: Any, target_bound: Any, regression: bool) -> FitTask:
        """What is fitted, after checks of parameters; see `_fit`."""
        n, d = X.shape
        bounds = self._public_bounds(d)
        if self._init is not None and not self._begins_at_scores:
            self._refuse_added_init()
        if target_bound is not None:
            target_bound = check_bound("target_bound", target_bound)
        self._by_blocks, self._sparse = isinstance(X, BlockRecords), is_sparse(X)
        weights = self._target_weights(loss, y, n) if regression else None
        n_iter = check_n_iter(self.n_iter)
        return FitTask(X, loss, weights, bounds, regression, target_bound, n_iter)

    def _rehearsed(self, task: FitTask, budget: Any, count: CountPlan | None) -> Prepared:
        """What the fit may release; of a private number of records, for the largest.

        Raises
        ------
        RuntimeError
            If the cost would follow from a private number.
        """
        if count is None:
            if budget.delta == 0.0:
                return purely_prepared(self._prepared, task, budget)
            return self._prepared(task, task.X.shape[0], self._available(budget))
        # The planner sees what is counted, and is rehearsed before.
        rehearsals = [self._prepared(task, size, count.left) for size in RECORD_COUNT.sizes]
        prepared = rehearsals[-1]
        if any(one.event != prepared.event for one in rehearsals):
            raise RuntimeError(f"What {prepared.solver!r} costs follows from a private number.")
        for one in rehearsals:  # few records are read in single precision
            check_rows_of(task, one, bool(self.fit_intercept))
        return prepared

    def _released(self, task: FitTask, prepared: Prepared, design: Any, y: Any, rng: Any) -> Found:
        """Release units, coefficients and their calibration, one after the other."""
        if task.bounds is None:
            design = design._replace(bounds=prepared.first.bounds)
        units, design, y, steps = release_stages(
            prepared.stages, Units(prepared.first.bounds), design, y, rng
        )
        if task.weights is not None:
            y = with_weights(y, task.weights)
        problem, plan = self._problem_and_plan(task, prepared, units)
        result = self._follow(prepared.solver, plan, problem, design, y, rng)
        how = f"coefficients by {type(prepared.solver).__name__}"
        steps = (*steps, (how, plan.event, decided(plan)))
        calibration = prepared.calibration
        if calibration is not None:
            targets, total = self._calibration_targets(result, y, prepared.n_samples)
            if callable(targets):
                design, targets = design.with_targets(targets), None
            found = calibration.release(result, design, targets, total, rng, problem, units.sizes)
            units = units._replace(calibration=found)
            steps = (*steps, (calibration.name, calibration.event, ""))
        return Found(units, problem, plan, result, steps)

    def _adopted(self, task: FitTask, found: Found) -> tuple[np.ndarray, Any]:
        """Set the fitted attributes; return coefficients and intercept in the user's units."""
        units, result, intercept = found.units, found.result, bool(self.fit_intercept)
        if task.bounds is None or is_auto(self.feature_bound):
            self.feature_bound_ = units.bounds
        self._set_ranges(units)
        self._units = units
        declared = self.feature_bound, task.target_bound
        self._doubts = () if self._init else doubts_about(units, *declared)
        self.n_iter_ = result.n_iter
        if result.n_rounds is not None:
            self.n_rounds_ = result.n_rounds
        shape = {"intercept": intercept, "n_outputs": task.loss.n_outputs}
        length = units.target.scale / float(units.features.max())
        if result.radius is not None:
            self.radius_ = result.radius * length
        if result.path is not None:
            unscale = partial(units._replace(calibration=None).unscale, **shape)
            self.path_ = RadiusPath(result.path[0] * length, result.path[1], unscale)
        units = self._of_predictions(units)
        if result.uncertainty is not None:
            self.uncertainty_ = units.of_uncertainty(result.uncertainty, intercept)
        return units.unscale(result.coef + getattr(found.problem, "begin", 0.0), **shape)

    def _prepared(self, task: FitTask, n_samples: int, available: Any) -> Prepared:
        """What a fit to so many records may release.

        Where there is no plan for all bounds that may be found, and for noise on samples, columns
        have the bound 1.
        """
        if task.bounds is not None or not is_auto(self.feature_bound):
            return self._prepared_once(task, n_samples, available)
        in_zcdp = Allowance(available.rho)
        spends = (in_zcdp,) if self._relation == ADD_OR_REMOVE else (available, in_zcdp)
        for spend in () if self._samples() else spends:
            try:
                return self._prepared_once(task, n_samples, spend)
            except ValueError:
                continue
        ones = np.ones(task.X.shape[1])
        return self._prepared_once(task._replace(bounds=ones), n_samples, available)

    def _prepared_once(self, task: FitTask, n_samples: int, available: Any) -> Prepared:
        """`_prepared` for bounds that are known, or that are found.

        It follows from the budget and public sizes. Where bounds of the features or the scale of
        the target are still to be released, plans are made for their extremes: whatever may fail
        must fail before noise is drawn.
        """
        n, d, added = n_samples, task.X.shape[1], self._relation == ADD_OR_REMOVE
        # No rho implies delta=0: ``available`` is one that is tried.
        budget: Any = available if self.delta == 0 else self._budget()
        shown = available if self.delta == 0 else self._available(budget)
        given = self._known_units
        conditions = self._conditions(task, n, budget.mu)
        self._conditioned = conditions if given is None else given.conditioning is not None
        seen = task.loss if task.weights is None else Weighted(task.loss)  # what the solver sees
        solver = self._resolved_solver(seen, n, d, budget.rho)
        if self._by_blocks:
            check_reads_blocks(solver, self.solver)

        def planned(make_plan: Any) -> Any:
            return self._planned(make_plan, available, n, d, *self._planned_with)

        stages = self._planned_stages(task, n, solver, planned)
        calibration = self._planned_calibration(seen, (n, d, budget.mu), stages, planned)
        last = NoOpEvent() if calibration is None else calibration.event
        released = compose(last, *(stage.event for stage in stages))
        whole: Event | None = None  # the cost, if it is all of what is available
        samples = getattr(solver, "samples", False) and not isinstance(available, Allowance)
        if added and (not samples or task.bounds is None or task.regression):
            # What single releases cost follows from the number of records, which is private.
            available = Allowance(available.rho)
            whole = ZCDPEvent(available.rho)
        extremes = rehearsed(stages, Units(task.bounds))
        problems = [self._problem_in(task, n, units) for units in extremes]
        # Whether the earlier releases have no influence on what the solver will cost. (Plans depend
        # on whether mean squares of features are known, and on their values only where one is made
        # for all values that may be found.)
        same = getattr(solver, "fixed_plan", False)
        known = getattr(solver, "fixed_cost", False) or all(p == problems[0] for p in problems)
        if not isinstance(released, NoOpEvent):
            # In zCDP any plan may follow; (epsilon, delta) of different curves cannot be mixed.
            in_zcdp = isinstance(available, Allowance) or not known
            available = left_after(Allowance(available.rho) if in_zcdp else available, released)
        cost: Any = None
        for problem in problems[:1] if same else problems:
            check_supported(solver, problem)
            plan = planned(lambda spend, problem=problem: solver.plan(problem, spend, task.n_iter))
            cost = agreed(solver, plan.event, cost) if known else ZCDPEvent(available.rho)
        if self._conditioned:
            one, in_memory = task.loss.n_outputs == 1, not (self._sparse or self._by_blocks)
            tiled = plan.only_gradients and one and in_memory
            read: Any = stages[-1]
            stages[-1] = read.read_by(plan, tiled, (self._narrowest, self._widest))
        warnings = () if added else self._advice(problems[0], shown.mu)
        return Prepared(
            n_samples=n,
            solver=solver,
            stages=tuple(stages),
            calibration=calibration,
            first=extremes[0],
            left=None if same or isinstance(released, NoOpEvent) else available,
            # Earlier and later releases, and the plan's cost, or all of `available` if the plan
            # still depends on these releases.
            event=whole or compose(released, cost),
            cost=cost if known else None,
            last=(problem, plan),
            warnings=(*warnings, *plan.warnings),
        )

    def _planned_stages(self, task: FitTask, n: int, solver: Any, planned: Any) -> list[Stage]:
        """The releases before the solver: bounds, the unit of targets, centre and scales.

        ``planned`` makes a plan of what is available, and checks its cost.
        """
        d, given, added = task.X.shape[1], self._known_units, self._relation == ADD_OR_REMOVE
        stages: list[Stage] = [] if given is None else known_stages(given, task.regression)
        if task.bounds is None:
            scales = self._conditioned and not self._ball_is_given()
            tight = getattr(solver, "fills_range", False) or not scales
            stages.append(planned(lambda spend: plan_bounds(n, d, spend.rho, added, tight)))
        if task.regression and (given is None or given.target is None):
            bound = task.target_bound
            found = planned(lambda spend: self._plan_target(task.loss, bound, n, spend.rho))
            stages = [*stages, found] if given is None else [found, *stages]
        if self._conditioned and given is None:
            stages.append(self._feature_stage(task, n, solver, stages, planned))
        return stages

    def _planned_calibration(
        self, loss: Any, sizes: tuple[int, int, float], stages: list[Stage], planned: Any
    ) -> Any:
        """The release after the solver, or None; ``sizes`` are n, d and mu."""
        n, d, mu = sizes
        curve, known = self._curve(loss), self._known_weight(n)
        if curve is None or not self._calibrates(curve, known, d, mu):
            return None
        added = self._relation == ADD_OR_REMOVE
        return planned(
            lambda spend: plan_calibration(n, known, d, mu_left(stages, spend), curve, added)
        )

    def _feature_stage(
        self, task: FitTask, n_samples: int, solver: Any, stages: list[Stage], planned: Any
    ) -> Stage:
        """The stage that finds a centre and scales of features, after ``stages``.

        ``planned`` makes a plan of what is available, and checks its cost.
        """
        n, d, added = n_samples, task.X.shape[1], self._relation == ADD_OR_REMOVE
        centred, scaled = bool(self.fit_intercept), not self._ball_is_given()
        found = " and ".join(("centre",) * centred + ("scale",) * scaled)
        labelled = centred and not task.regression
        centring = planned(
            lambda spend: plan_conditioning(
                n, d, mu_left(stages, spend), found, self._sparse, added, labelled
            )
        )
        if task.bounds is None and not self._sparse:
            centring = planned(lambda spend: narrowed(centring, mu_left(stages, spend)))
        return replace(centring, copied=not getattr(solver, "streams", False))

    def _problem_in(self, task: FitTask, n_samples: int, units: Units) -> Any:
        """The problem in these units, as the solver sees it."""
        problem: Any = self._problem(task.loss, n_samples, units.features, units.target)
        if task.weights is not None:
            problem = replace(problem, loss=Weighted(problem.loss))
        if self._init is not None and self._begins_at_scores:
            start = self._of_predictions(units).scaled(
                self._init.coef, self._init.intercept, bool(self.fit_intercept)
            )
            problem = replace(problem, start=tuple(start.tolist()))
        problem = with_layout(problem, task.X, units.conditioning)
        return replace(problem, added=True) if self._relation == ADD_OR_REMOVE else problem

    def _problem_and_plan(self, task: FitTask, prepared: Prepared, units: Units) -> tuple[Any, Any]:
        """The problem in the units that were found, and its plan."""
        n, solver, (problem, plan) = prepared.n_samples, prepared.solver, prepared.last
        if prepared.stages:  # otherwise nothing had to be found
            problem = self._problem_in(task, n, units)
        if prepared.left is None or problem == prepared.last[0]:
            return problem, plan
        plan = self._planned(
            lambda spend: solver.plan(problem, spend, task.n_iter),
            prepared.left,
            n,
            task.X.shape[1],
            *self._planned_with,
        )
        if prepared.cost is not None:
            agreed(solver, plan.event, prepared.cost)
        return problem, plan

    def _plan_count(self, budget: Any, n_samples: int, n_features: int) -> CountPlan:
        """How a number of records is counted that is private.

        Raises
        ------
        ValueError
            If there are too many.
        """
        count = self._planned(plan_count, self._available(budget), MOST_RECORDS_ADDED, n_features)
        if n_samples > count.most:
            raise ValueError(
                f"X must have at most {count.most} records with relation={ADD_OR_REMOVE!r} and "
                f"epsilon={self.epsilon!r}."
            )
        return count

    def _prepared_for_count(self, task: FitTask, count: int, left: Any, charged: Event) -> Prepared:
        """`_prepared`, or for a smaller number that was rehearsed if no plan costs the same."""
        try:
            prepared = self._prepared(task, count, left)
            if prepared.event == charged:
                return prepared
        except ValueError:
            pass
        rehearsed = max(size for size in RECORD_COUNT.sizes if size <= count)
        return self._prepared(task, rehearsed, left)

    def _target_weights(self, loss: Any, y: Any, n_samples: int) -> np.ndarray | None:
        """Weights in [0, 1] of the targets of a regression, or None.

        Raises
        ------
        TypeError, ValueError
            If they or ``max_weight`` are not legal, the records are not in memory, or the loss is
            not one of this package.
        """
        if self._sample_weight is None:
            return None
        if y is None:
            raise ValueError("sample_weight must be None where X is in blocks.")
        if not is_proven(loss):
            raise ValueError(f"sample_weight is for losses of this package, not {loss!r}.")
        return check_weights(self._sample_weight, self.max_weight, n_samples)

    def _clipping_note(self, units: Units) -> str:
        """A line of the report."""
        return clipping_note(units.bounds)

    def _weight_notes(self) -> tuple[str, ...]:
        """Lines of the report."""
        if self._sample_weight is None:
            return ()
        return (f"weights of records are clipped to {self.max_weight:g}",)

    def _largest_weight(self) -> float:
        """What 1, the largest weight in the kernels, means in the user's units."""
        return 1.0 if self._sample_weight is None else float(self.max_weight)

    def _set_ranges(self, units: Units) -> None:
        """Set fitted attributes about the ranges of features and targets, which were released."""
        self.feature_range_ = units.feature_range

    def _of_predictions(self, units: Units) -> Units:
        """The units of linear predictions, if they differ from those of targets."""
        return units

    def _design(self, X: Any, bounds: np.ndarray, intercept: bool) -> Any:
        """The design that the solver reads records from."""
        if isinstance(X, BlockRecords):
            return X.open(bounds, intercept)
        return as_design(X, bounds, intercept)

    def _predictions(self, X) -> np.ndarray:
        check_is_fitted(self)
        refuse_blocks(X)
        X = check_X(self, X)
        # In chunks of records: float32 numbers become float64 ones, and clipped ones are copies.
        parts = [
            clipped_product(X[rows], self.coef_.T, self.feature_range_)
            for rows in gen_batches(X.shape[0], 4096)
        ]
        return np.concatenate(parts) + self.intercept_

    @available_if(lambda self: self._predicts_scores)
    def to_sklearn(self) -> Pipeline:
        """A pipeline of scikit-learn's estimators that makes the same predictions.

        It holds the coefficients, which have been released, and needs neither this package nor
        Numba. Predictions agree up to rounding. What the fit guarantees is in ``privacy_`` only.

        Returns
        -------
        pipeline : sklearn.pipeline.Pipeline
            A `MinMaxScaler` that clips features to ``feature_range_``, then a
            `LogisticRegression`, an `SGDClassifier` (for losses without probabilities), an
            `MLPRegressor` (two units per target clip predictions to ``target_range_``) or, without
            such a range, a `LinearRegression`. The scaler takes dense X only: pass parts of a
            sparse X as arrays, ``X[:1000].toarray()``.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        """
        check_is_fitted(self)
        return plain_pipeline(self)
