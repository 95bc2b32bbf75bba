"""Private least squares in an l1 ball."""

from dataclasses import field

import numpy as np

from skdpsco._validation import check_bound
from skdpsco.base.parameters import L1BallParameters, with_parameters
from skdpsco.linear_model._inference import MomentInference
from skdpsco.linear_model._least_squares import LeastSquaresRegressor
from skdpsco.losses.library import Squared

__all__ = ["PrivateLasso"]


@with_parameters(
    alpha="The parameter `radius` bounds the l1 norm of the coefficients in its place; "
    "PrivateElasticNet(l1_ratio=1.0) has alpha.",
    standard_errors="Fits to moments have them, and PrivateElasticNet(l1_ratio=1.0).",
)
class PrivateLasso(L1BallParameters, MomentInference, LeastSquaresRegressor):
    """Differentially private Lasso: least squares in an l1 ball.

    It minimises ``1 / (2 n_samples) * ||y - X w - b||^2`` subject to ``||w||_1 <= radius``, the
    constrained form of `sklearn.linear_model.Lasso`.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit, radius_of_l1_ball, feature_bound, target_bounds}
        With a number as ``radius``, None is ``radius * max(feature_bound)``.
    {solver_of_l1_ball, n_iter, fit_intercept, max_weight, relation, random_state}

    Attributes
    ----------
    {coef_of_targets, intercept_of_targets, feature_bound_, feature_range_, target_range_of_targets}
    {n_iter_}
    uncertainty_, coef_covariance_, coef_standard_error_
        Only if X is a `PrivateMoments`.
    {radius_, path_, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateElasticNet : With a penalty in place of a radius.
    PrivateLogisticL1 : For classes.

    Notes
    -----
    {guarantee}
    Several targets share the budget. Passing a fitted `PrivateMoments` as X is free, and
    ignores ``solver``. Proof: :doc:`/proofs/stagewise`.

    References
    ----------
    Talwar, Thakurta, Zhang. Nearly Optimal Private LASSO. NeurIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLasso
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 50))
    >>> y = 2 * X[:, 0] - X[:, 3]
    >>> PrivateLasso(radius=3.0, feature_bound=1.0).fit(X, y).score(X, y) > 0.9
    True
    """

    radius_: float = field(init=False)

    def _loss(self, n_samples, n_features):
        return Squared(1.0)

    def _default_target_bound(self, n_features):
        radius, bounds = self._radius_and_bounds(n_features)
        if radius is None or bounds is None:
            return None
        return check_bound("radius * max(feature_bound)", radius * float(bounds.max()))

    def _finds_target(self):
        return super()._finds_target() and not self._ball_is_given()  # which bounds targets, too

    def _coefficients(self, moments, problem):
        bounds = moments.feature_bounds
        lengths = bounds / bounds.max()
        if isinstance(self.radius, str):
            return moments.shrunk_most(problem, lengths)
        return problem.in_ball(check_bound("radius", self.radius), lengths)

    def _solution(self, moments):
        coef, intercept = super()._solution(moments)
        bounds = moments.feature_bounds
        lengths = float((np.abs(coef) @ (bounds / bounds.max())).max())
        self.radius_ = lengths if isinstance(self.radius, str) else float(self.radius)
        return coef, intercept
