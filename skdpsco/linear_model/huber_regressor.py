"""Private robust regression with the Huber loss."""

from dataclasses import replace
from typing import ClassVar

from skdpsco._typing import Auto
from skdpsco._validation import Interval, Real, StrOptions, check_bound
from skdpsco.base.parameters import Constraints, with_parameters
from skdpsco.linear_model._classifier_regressor import LinearRegressor
from skdpsco.linear_model._inference import CoefficientInference
from skdpsco.linear_model._penalized import UncalibratedModel, check_weight, mixed_penalty
from skdpsco.losses.library import Huber

__all__ = ["PrivateHuberRegressor"]

# In units of the scale of most targets; examples/benchmarks/named_models.py shows what it predicts.
AUTO_THRESHOLD = 0.3


@with_parameters()
class PrivateHuberRegressor(CoefficientInference, LinearRegressor, UncalibratedModel):
    """Differentially private robust regression: Huber loss and l2 penalty.

    It minimises ``2 * sum_i huber(y_i - x_i'w - b) + alpha * ||w||^2``, as
    `sklearn.linear_model.HuberRegressor` does for a known scale: huber(r) is ``r^2 / 2``, and
    linear beyond ``threshold``.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    threshold : float or "auto", default="auto"
        Residual beyond which the loss is linear, > 0. "auto" finds it.
    alpha : float, default=0.0001
        Weight of the penalty, >= 0.
    {feature_bound, target_bound, descent, n_iter, fit_intercept, max_weight}
    {standard_errors, relation, random_state}

    Attributes
    ----------
    {coef_, intercept_, feature_bound_, feature_range_, target_range_, n_iter_}
    {errors, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateQuantileRegressor : For a median.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/gradient_descent`.

    References
    ----------
    Huber. Robust Estimation of a Location Parameter. 1964.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateHuberRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 2))
    >>> y = 2 * X[:, 0] + 0.2 * rng.standard_t(2, size=20000)
    >>> bool(abs(PrivateHuberRegressor().fit(X, y).coef_ - [2, 0]).max() < 0.1)
    True
    """

    threshold: float | Auto = "auto"
    alpha: float = 0.0001

    _parameter_constraints: ClassVar[Constraints] = {
        "threshold": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    }
    _planned_with = ("alpha", "threshold", "n_iter")
    _steady_scale = True

    def _loss(self, n_samples, n_features):
        return Huber(AUTO_THRESHOLD)

    def _problem(self, loss, n_samples, bounds, target):
        problem = super()._problem(loss, n_samples, bounds, target)
        if isinstance(self.threshold, str):
            return replace(problem, loss=Huber(AUTO_THRESHOLD * target.spread))
        threshold = check_bound("threshold", self.threshold) / target.scale
        return replace(problem, loss=Huber(check_bound("threshold / target_bound", threshold)))

    def _penalty(self, n_samples):
        total = n_samples * self._largest_weight()
        return mixed_penalty(check_weight("alpha", self.alpha) / total, 0.0)
