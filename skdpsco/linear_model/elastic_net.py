"""Private elastic net and ridge regression."""

from skdpsco.base.parameters import with_parameters
from skdpsco.linear_model._inference import MomentInference
from skdpsco.linear_model._least_squares import LeastSquaresRegressor
from skdpsco.linear_model._penalized import CompositeModel, check_weight, mixed_penalty

__all__ = ["PrivateElasticNet", "PrivateRidge"]


@with_parameters()
class PrivateElasticNet(MomentInference, LeastSquaresRegressor, CompositeModel):
    """Differentially private elastic net: least squares with an l1 and an l2 penalty.

    It minimises ``1 / (2 n_samples) * ||y - X w - b||^2 + alpha * l1_ratio * ||w||_1
    + alpha * (1 - l1_ratio) / 2 * ||w||^2``, as `sklearn.linear_model.ElasticNet` does.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    alpha : float, default=0.0001
        Weight of the penalty, >= 0, as in scikit-learn, whose default is usually far too large.
    l1_ratio : float, default=0.5
        Share of the penalty that is l1, in [0, 1].
    {feature_bound, target_bounds, solver, n_iter, fit_intercept, max_weight}
    {standard_errors}
        With an l1 penalty, they are for the coefficients without it.
    {relation, random_state}

    Attributes
    ----------
    {coef_of_targets, intercept_of_targets, feature_bound_, feature_range_, target_range_of_targets}
    {n_iter_, errors, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateRidge : With an l2 penalty alone.
    PrivateLasso : For many features of which few matter.

    Notes
    -----
    {guarantee}
    Several targets share the budget. A fitted `PrivateMoments` as X costs nothing more; ``solver``
    is then ignored. Proof: :doc:`/proofs/gradient_descent`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateElasticNet
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 20))
    >>> y = 2 * X[:, 0] - X[:, 3]
    >>> PrivateElasticNet(alpha=0.01).fit(X, y).score(X, y) > 0.9
    True
    """

    alpha: float = 0.0001
    l1_ratio: float = 0.5

    _planned_with = ("alpha", "n_iter")

    def _penalty(self, n_samples):
        ratio = check_weight("l1_ratio", self.l1_ratio, high=1.0)
        alpha = check_weight("alpha", self.alpha) / self._largest_weight()
        return mixed_penalty(alpha, ratio)

    def _coefficients(self, moments, problem):
        ratio = check_weight("l1_ratio", self.l1_ratio, high=1.0)
        return problem.elastic_net(check_weight("alpha", self.alpha), ratio)

    def _ridge_weight(self, moments):
        return self.alpha if self.l1_ratio == 0.0 or self.alpha == 0.0 else None


@with_parameters()
class PrivateRidge(MomentInference, LeastSquaresRegressor, CompositeModel):
    """Differentially private ridge regression: least squares with an l2 penalty.

    It minimises ``||y - X w - b||^2 + alpha * ||w||^2``, as `sklearn.linear_model.Ridge` does.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    alpha : float, default=0.01
        Weight of the penalty, >= 0; it shrinks columns of small numbers most.
    {feature_bound, target_bounds, solver, n_iter, fit_intercept, max_weight}
    {standard_errors, relation, random_state}

    Attributes
    ----------
    {coef_of_targets, intercept_of_targets, feature_bound_, feature_range_, target_range_of_targets}
    {n_iter_, errors, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateAdditiveRegressor : For curved effects.

    Notes
    -----
    {guarantee}
    Several targets share the budget. A fitted `PrivateMoments` as X costs nothing more; ``solver``
    is then ignored. Proof: :doc:`/proofs/gradient_descent`.

    References
    ----------
    Wang. Revisiting Differentially Private Linear Regression. UAI 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateRidge
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 20))
    >>> y = 2 * X[:, 0] - X[:, 3]
    >>> PrivateRidge(epsilon=1.0).fit(X, y).score(X, y) > 0.9
    True
    """

    alpha: float = 0.01

    _planned_with = ("alpha", "n_iter")
    _remedy = "fit it with standard_errors=True, or to moments, PrivateMoments().fit(X, y)"

    def _penalty(self, n_samples):
        # Half the mean over records, against half of alpha / n times the square.
        total = n_samples * self._largest_weight()
        return mixed_penalty(check_weight("alpha", self.alpha) / total, 0.0)

    def _coefficients(self, moments, problem):
        return problem.ridge(self._ridge_weight(moments))

    def _ridge_weight(self, moments):
        total = moments.n_samples * moments.max_weight  # of the weights
        return check_weight("alpha", self.alpha) / total
