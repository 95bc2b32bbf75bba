"""Private Poisson and gamma regression."""

import math
from dataclasses import field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import d2_tweedie_score

from skdpsco._quiet import score_by
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import check_target
from skdpsco.base.parameters import with_parameters
from skdpsco.base.predictions import refuse_blocks
from skdpsco.linear_model._classifier_regressor import LinearRegressor
from skdpsco.linear_model._inference import CoefficientInference
from skdpsco.linear_model._penalized import UncalibratedModel, check_weight, mixed_penalty
from skdpsco.losses.log_link import (
    LEAST_MEAN,
    GammaDeviance,
    LogLink,
    PoissonDeviance,
    highest,
    usual_mean,
)
from skdpsco.scaling.calibration import Curve, MeanCurve
from skdpsco.scaling.stages import Units
from skdpsco.scaling.target import Target

__all__ = ["PrivateGammaRegressor", "PrivatePoissonRegressor"]


def checked_target(y: Any, owner: str, positive: bool) -> np.ndarray:
    """Checked targets that are at least 0, or above it.

    Raises
    ------
    ValueError
        If one is not.
    """
    y = check_target(y)
    if (y <= 0.0 if positive else y < 0.0).any():
        legal = ">" if positive else ">="
        raise ValueError(f"y must be {legal} 0 for {owner}, but some of it is not.")
    return y


@with_parameters()
class LogLinkModel(CoefficientInference, LinearRegressor, UncalibratedModel):
    """Means that are exponentials of linear predictions; see the subclasses."""

    alpha: float = 0.0001

    target_range_: np.ndarray = field(init=False)

    _law: ClassVar[type[LogLink]]
    _power: ClassVar[int]  # power of the mean in the variance of a target
    _least_scale: ClassVar[float] = 0.0  # of targets, in their own unit
    _predicts_scores = False  # predictions are their exponentials
    _begins_at_scores = True  # residuals have no meaning here
    _means_in_tails = True

    _planned_with = ("alpha", "n_iter")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _loss(self, n_samples, n_features):
        return self._of(Target(1.0, 0.0, 1.0))

    @property
    def _encode_block(self) -> Any:
        return partial(
            checked_target, owner=type(self._known_as).__name__, positive=self._power == 2
        )

    def _curve(self, loss: Any) -> Curve | None:
        """Predictions add up to the targets, whatever clipping has taken off these."""
        return None if self._init is not None else MeanCurve()

    def _of(self, target: Target) -> LogLink:
        """The loss for targets in these units."""
        centre = target.centre / target.scale
        loss = self._law(centre, 1.0 / target.scale, self._least_scale / target.scale)
        return loss._replace(start=usual_mean(loss)) if self.fit_intercept else loss

    def _plan_target(self, loss, bound, n_samples, rho):
        plan = super()._plan_target(loss, bound, n_samples, rho)
        least = self._least_scale if bound is None else min(self._least_scale, bound)
        return replace(plan, least_scale=max(least, plan.least_scale))

    def _penalty(self, n_samples):
        return mixed_penalty(check_weight("alpha", self.alpha) / self._largest_weight(), 0.0)

    def _problem(self, loss, n_samples, bounds, target):
        # Predictions are logarithms, so the units of targets do not apply to them.
        problem = super()._problem(loss, n_samples, bounds, Target(1.0, 0.0, 1.0))
        loss = self._of(target)
        weight = usual_mean(loss) if self._power == 2 else 1.0 / target.scale
        return replace(problem, loss=loss, weight=weight)

    def _of_predictions(self, units: Units) -> Units:
        scale, loss = units.target.scale, self._of(units.target)
        self.target_range_ = scale * np.array([LEAST_MEAN, highest(loss)])
        # Without an intercept it starts at a mean of 1, whose logarithm is 0, and is not rounded.
        centre = math.log(scale) + math.log(loss.start) if self.fit_intercept else 0.0
        return units._replace(target=Target(1.0, centre, 1.0))

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Expected targets: exponentials of the linear predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Clipped to ``target_range_``.
        """
        z = self._predictions(X)
        return np.exp(np.clip(z, *np.log(self.target_range_)))

    def score(
        self, X: MatrixLike, y: TargetLike = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """D^2, the share of the deviance that is explained, defined as in scikit-learn; no noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Has to be given.
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        score : float
            At most 1; 0 for the best constant.

        Raises
        ------
        TypeError
            For `RowBlocks`: score them one by one.
        """
        refuse_blocks(X)
        metric = partial(d2_tweedie_score, power=self._power)
        return score_by(metric, y, self.predict(X), sample_weight)


@with_parameters()
class PrivatePoissonRegressor(LogLinkModel):
    """Differentially private Poisson regression: a log-linear model of counts.

    It minimises ``1 / n_samples * sum_i (m_i - y_i log(m_i)) + alpha / 2 * ||w||^2``, where
    ``m_i = exp(x_i'w + b)``, as `sklearn.linear_model.PoissonRegressor` does.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    alpha : float, default=0.0001
        Weight of the penalty, >= 0, as in scikit-learn.
    {feature_bound, target_bound, descent, n_iter, fit_intercept, max_weight}
    {standard_errors, relation, random_state}

    Attributes
    ----------
    {coef_, intercept_, feature_bound_, feature_range_, target_range_, n_iter_}
    {errors, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateMonotoneGLM : For other links.

    Notes
    -----
    {guarantee}
    Do not rescale counts; scale up rates that are mostly below 1. Apart from noise, predictions
    add up to the targets.
    Proofs: :doc:`/proofs/gradient_descent`, :doc:`/proofs/calibration`.

    References
    ----------
    Nelder, Wedderburn. Generalized Linear Models. JRSS A, 1972.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivatePoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 2))
    >>> y = rng.poisson(np.exp(0.5 + X[:, 0]))
    >>> model = PrivatePoissonRegressor(target_bound=100).fit(X, y)
    >>> bool(abs(model.coef_ - [1, 0]).max() < 0.15)
    True
    """

    _law, _power = PoissonDeviance, 1
    _least_scale = 1.0


@with_parameters()
class PrivateGammaRegressor(LogLinkModel):
    """Differentially private gamma regression: a log-linear model of positive numbers.

    It minimises ``1 / n_samples * sum_i (y_i / m_i + log(m_i)) + alpha / 2 * ||w||^2``, where
    ``m_i = exp(x_i'w + b)``, as `sklearn.linear_model.GammaRegressor` does.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    alpha : float, default=0.0001
        Weight of the penalty, >= 0, as in scikit-learn.
    {feature_bound, target_bound, descent, n_iter, fit_intercept, max_weight}
    {standard_errors, relation, random_state}

    Attributes
    ----------
    {coef_, intercept_, feature_bound_, feature_range_, target_range_, n_iter_}
    {errors, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivatePoissonRegressor : For counts.

    Notes
    -----
    {guarantee}
    Proofs: :doc:`/proofs/gradient_descent`, :doc:`/proofs/calibration`.

    References
    ----------
    Nelder, Wedderburn. Generalized Linear Models. JRSS A, 1972.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateGammaRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 2))
    >>> y = np.exp(3 + X[:, 0]) * rng.gamma(2.0, 0.5, size=20000)
    >>> model = PrivateGammaRegressor(target_bound=1000).fit(X, y)
    >>> bool(abs(model.coef_ - [1, 0]).max() < 0.15)
    True
    """

    _law, _power = GammaDeviance, 2
