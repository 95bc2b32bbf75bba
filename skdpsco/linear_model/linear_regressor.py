"""Private linear regression in an l_p ball."""

from typing import Any, ClassVar, Literal

from skdpsco._typing import LossLike
from skdpsco._validation import StrOptions
from skdpsco.base.parameters import Constraints, with_parameters
from skdpsco.linear_model._classifier_regressor import LinearRegressor
from skdpsco.linear_model._lp_ball import LOSS, LpModel
from skdpsco.losses.check import loss_of

__all__ = ["PrivateLinearRegressor"]


@with_parameters(
    alpha="The parameter `radius` bounds the l_p norm of the coefficients in its place; "
    "PrivateRidge or PrivateElasticNet has alpha.",
    standard_errors="PrivateRidge and PrivateHuberRegressor have them, without a ball.",
)
class PrivateLinearRegressor(LinearRegressor, LpModel):
    """Differentially private linear regression in an l_p ball.

    It minimises the mean loss subject to ``||w||_p <= radius``.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    loss : {"squared", "huber", "absolute"} or loss, default="squared"
        Loss of the residual over the spread of y: "squared" is linear beyond 1, "huber" beyond 0.1.
        Or a loss of `skdpsco.losses`, such as `Quantile`, or your own: see :doc:`/extending`.
    {p, radius_of_lp_ball, feature_bound, row_norm, target_bound, solver_of_lp_ball, n_iter}
    {fit_intercept, max_weight, relation, random_state}

    Attributes
    ----------
    {coef_, intercept_, feature_bound_, feature_range_, target_range_, n_iter_}
    {n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateLinearClassifier : For classes.
    PrivateRidge : Squared loss with a penalty.

    Notes
    -----
    {guarantee}
    Proofs: :doc:`/proofs/lp_ball`.

    References
    ----------
    Bassily, Guzmán, Nandi. Non-Euclidean Differentially Private Stochastic Convex Optimization.
    COLT 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLinearRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 10))
    >>> y = 0.5 * X[:, 0] - 0.3 * X[:, 3] + 0.1 * rng.normal(size=20000)
    >>> PrivateLinearRegressor(epsilon=1.0).fit(X, y).score(X, y) > 0.5
    True
    """

    loss: Literal["squared", "huber", "absolute"] | LossLike = "squared"

    _parameter_constraints: ClassVar[Constraints] = {
        "loss": [StrOptions({"squared", "huber", "absolute"}), LOSS],
    }
    _auto_radius = 2.0
    _least_growth = 0.25

    def _loss(self, n_samples: int, n_features: int) -> Any:
        return loss_of(self, "loss", self.loss, "numbers", foreign=("signs", "classes"))
