"""Private quantile regression."""

import math
from dataclasses import replace
from typing import ClassVar, NamedTuple

from numpy.typing import ArrayLike

from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import Interval, Real, check_n_iter
from skdpsco.base.advice import counted
from skdpsco.base.parameters import Constraints, with_parameters
from skdpsco.linear_model._classifier_regressor import LinearRegressor
from skdpsco.linear_model._inference import CoefficientInference
from skdpsco.linear_model._penalized import UncalibratedModel, check_weight, mixed_penalty
from skdpsco.losses.library import SmoothQuantile
from skdpsco.solvers.penalized.gradient_descent import full_passes
from skdpsco.solvers.penalized.smooth_losses import WIDTHS, quantile_width

__all__ = ["PrivateQuantileRegressor"]


class QuantileTuning(NamedTuple):
    """Constants of the model, fitted on the data of examples/benchmarks/named_models.py.

    Parameters
    ----------
    known : float
        Smallest width with standard errors, in units of one over the cube root of the number of
        records: curvatures follow from the residuals within it. Fitted on the data of
        examples/benchmarks/standard_errors.py.
    least_tail : float
        n mu times the share of the records beyond a quantile above which it is more than noise.
    """

    known: float = 0.4
    least_tail: float = 25.0


QUANTILE = QuantileTuning()


@with_parameters()
class PrivateQuantileRegressor(CoefficientInference, LinearRegressor, UncalibratedModel):
    """Differentially private quantile regression: the pinball loss, with an l1 penalty.

    It minimises ``1 / n_samples * sum_i pinball(y_i - x_i'w - b) + alpha * ||w||_1``, as
    `sklearn.linear_model.QuantileRegressor` does. The kink of the loss is rounded.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    quantile : float, default=0.5
        The quantile that is predicted, in [1e-6, 0.999999].
    alpha : float, default=0.0
        Weight of the penalty, >= 0, as in scikit-learn.
    {feature_bound, target_bound, descent, n_iter, fit_intercept, max_weight}
    {standard_errors, relation, random_state}

    Attributes
    ----------
    {coef_, intercept_, feature_bound_, feature_range_, target_range_, n_iter_}
    {errors, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateHuberRegressor : For a mean that outliers do not move.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/gradient_descent`.

    References
    ----------
    Koenker, Bassett. Regression Quantiles. Econometrica 46, 1978.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateQuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> y = 2 * X[:, 0] + rng.exponential(size=20000)
    >>> model = PrivateQuantileRegressor(quantile=0.8).fit(X, y)
    >>> bool(abs((y <= model.predict(X)).mean() - 0.8) < 0.05)
    True
    """

    quantile: float = 0.5
    alpha: float = 0.0

    _parameter_constraints: ClassVar[Constraints] = {
        "quantile": [Interval(Real, 1e-6, 1.0 - 1e-6, closed="both")],
    }
    _planned_with = ("alpha", "n_iter")
    _degree = 1.0

    @property
    def _steady_scale(self) -> bool:  # type: ignore[override]
        # Most skewed targets are positive: near a low quantile, and a median, they lie far closer
        # together than their scale tells, and near a high one far apart.
        return self.quantile <= 0.5

    def _loss(self, n_samples, n_features):
        return SmoothQuantile(float(self.quantile), WIDTHS.most)

    def _problem(self, loss, n_samples, bounds, target):
        problem = super()._problem(loss, n_samples, bounds, target)
        mu, d = self._budget().mu, problem.n_features
        passes = check_n_iter(self.n_iter) or full_passes(problem, mu)
        width = quantile_width(loss.level, n_samples * mu, d, passes)
        if self.standard_errors:
            known = QUANTILE.known * n_samples ** (-1.0 / 3.0)
            width = max(width, min(known, WIDTHS.most))
        return replace(problem, loss=loss._replace(width=width * target.spread))

    def _advice(self, problem, mu):
        lines = super()._advice(problem, mu)
        share, n = min(self.quantile, 1.0 - self.quantile), problem.n_samples
        if n * mu * share >= QUANTILE.least_tail:
            return lines
        needed = math.ceil(QUANTILE.least_tail / (mu * share))
        return (
            *lines,
            f"The noise will be larger than what {counted(n, 'record')} can say about the "
            f"quantile {self.quantile:g} at epsilon={self.epsilon:g}. {needed} records would do.",
        )

    def score(
        self, X: MatrixLike, y: TargetLike = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """R^2, as in scikit-learn; D^2, which `d2_pinball_score` computes, suits quantiles better.

        Pass ``alpha=quantile`` to `sklearn.metrics.d2_pinball_score`. Neither has noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Required.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the records; None weighs them alike.

        Returns
        -------
        score : float
            At most 1; that of the best constant is 0.

        Raises
        ------
        TypeError
            For `RowBlocks`: score them one by one.
        """
        return super().score(X, y, sample_weight)

    def _penalty(self, n_samples):
        return mixed_penalty(check_weight("alpha", self.alpha) / self._largest_weight(), 1.0)
