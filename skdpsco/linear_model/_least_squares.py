"""Least squares that may be fitted to moments, and to several targets at once."""

from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from skdpsco._problem import Uncertainty
from skdpsco._validation import FLOATS, check_X_y, is_undeclared
from skdpsco.base.linear_model import INIT_NOTE
from skdpsco.base.parameters import Constraints, TargetParameters, with_parameters
from skdpsco.base.public_start import Unaccounted
from skdpsco.data.block_sources import n_targets_of
from skdpsco.data.row_blocks import RowBlocks
from skdpsco.linear_model._classifier_regressor import LinearRegressor, residuals
from skdpsco.linear_model._several_targets import fit_each, fits_each
from skdpsco.moments.inference import uncertainty
from skdpsco.moments.least_squares import LeastSquares
from skdpsco.moments.private_moments import MomentRelease, release_moments_of
from skdpsco.privacy.relations import ADD_OR_REMOVE
from skdpsco.scaling.target import Target

__all__ = ["LeastSquaresRegressor"]

MOST_FREE = 1000  # columns up to which a fit with an l1 penalty or a ball has errors; for time


@with_parameters()
class LeastSquaresRegressor(MomentRelease, LinearRegressor):
    """Models that means and covariances determine; see the subclasses."""

    coef_: np.ndarray = field(init=False)
    intercept_: Any = field(init=False)
    feature_bound_: np.ndarray = field(init=False)
    feature_range_: np.ndarray = field(init=False)
    target_range_: np.ndarray = field(init=False)
    uncertainty_: Uncertainty = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        "target_bound": ["array-like", *TargetParameters._parameter_constraints["target_bound"]]
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _coefficients(self, moments: Any, problem: LeastSquares) -> np.ndarray:
        """Coefficients for one target, from its moments and the problem that they pose."""
        raise NotImplementedError

    def _ridge_weight(self, moments: Any) -> float | None:
        """The weight of half the squared norm; None for a ball, or an l1 penalty."""
        return None

    def _check_features(self, n_features):
        # In a fit to one target, the fitted parameters are those of the models behind a release.
        units = np.ones(n_features), Target(1.0, 0.0, 1.0)
        self._problem(self._loss(1, n_features), 1, *units)

    def _learn_from_moments(self, moments, y):
        if y is not None:
            raise ValueError("y must be None where X holds moments: select(target=...) chooses it.")
        self.coef_, self.intercept_ = self._solution(moments)
        moments.describe(self)

    def _learn_several(self, X, y):
        n_targets = X.n_targets if isinstance(X, RowBlocks) else n_targets_of(y)
        if n_targets == 1:
            return None
        if self.solver not in ("auto", "stagewise"):
            raise ValueError(
                f"Where y has several columns, solver must be left at its default, got "
                f"{self.solver!r}: every column has a fit of its own, or one release of moments "
                "serves all of them."
            )
        bounds = super()._target_bounds(n_targets)
        if isinstance(X, RowBlocks):
            if self._fits_each(X.n_samples, X.n_features, n_targets) and X.engine is None:
                X, y, _ = X.labelled(whole=True)
                return fit_each(self, X, y, bounds, stacklevel=5)
        else:
            checked, Y = check_X_y(self, X, y, y_numeric=True, dtype=FLOATS, multi_output=True)
            known = self._check_init(checked.shape[1], n_targets)
            if self._fits_each(*checked.shape, n_targets):
                return fit_each(self, X, Y, bounds, stacklevel=5)
            if self._init is not None:
                self._refuse_added_init()
                y, _ = residuals(Y, self._init.predict(checked, known), bounds)
        moments = release_moments_of(self, X, y, stacklevel=5)
        if is_undeclared(self.feature_bound):
            self.feature_bound_ = moments.feature_bounds
        return self._solution(moments)

    def _fits_each(self, n_samples: int, n_features: int, n_targets: int) -> bool:
        """Whether every target gets a fit of its own, from public values alone."""
        errors = getattr(self, "standard_errors", False)
        if errors or self._relation == ADD_OR_REMOVE:
            return False
        if self._known_units is not None or isinstance(self.ledger, Unaccounted):
            return True
        return fits_each(n_samples, n_features + n_targets, self._budget().mu)

    def _target_bounds(self, n_targets):
        bounds = super()._target_bounds(n_targets)
        return bounds if self._init is None or bounds is None else 2.0 * bounds

    @property
    def _said(self) -> tuple[str, ...]:  # type: ignore[override]
        return () if self._init is None else (INIT_NOTE,)

    def _solution(self, moments: Any) -> tuple[np.ndarray, Any]:
        """Coefficients and intercept, or those for each of several targets."""
        targets = moments.by_target()
        if not targets:
            raise ValueError("The moments have no target: choose one, moments.select(target=...).")
        problems = [one.least_squares(bool(self.fit_intercept)) for one in targets]
        coefs = np.array(list(map(self._coefficients, targets, problems)))
        intercepts = np.array(
            [problem.intercept(coef) for problem, coef in zip(problems, coefs, strict=True)]
        )
        self.n_iter_ = 0
        self.feature_range_ = moments.feature_bounds * np.array([[-1.0], [1.0]])
        if self._init is None:
            ends = np.array([-one.bounds[-1:] for one in targets])
            self.target_range_ = np.hstack([ends, -ends]).T[:, 0 if len(targets) == 1 else ...]
        weight, intercept = self._ridge_weight(moments), bool(self.fit_intercept)
        if weight is not None:
            self.uncertainty_ = uncertainty(moments, problems, coefs, weight, intercept)
        elif coefs.shape[1] <= MOST_FREE:
            free = np.array([problem.ridge(0.0) for problem in problems])
            known = uncertainty(moments, problems, free, 0.0, intercept)
            offsets = [one.intercept(coef) for one, coef in zip(problems, free, strict=True)]
            debiasing = np.column_stack([free - coefs, offsets - intercepts])
            debiasing = debiasing.reshape(known.covariance.shape[:-1])
            self.uncertainty_ = known._replace(debiasing=debiasing)
        return (coefs[0], float(intercepts[0])) if len(targets) == 1 else (coefs, intercepts)
