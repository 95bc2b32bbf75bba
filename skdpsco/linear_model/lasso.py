"""Private least squares in an l1 ball."""

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from skdpsco._typing import Auto, LedgerLike, Seed, SolverLike
from skdpsco._validation import (
    COMMON_CONSTRAINTS,
    TARGETS_CONSTRAINTS,
    check_bound,
    with_hints,
)
from skdpsco.linear_model._inference import MomentInference
from skdpsco.linear_model._least_squares import LeastSquaresRegressor
from skdpsco.losses.library import Squared

__all__ = ["PrivateLasso"]


class PrivateLasso(MomentInference, LeastSquaresRegressor):
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
        Only after a fit to moments.
    {radius_, path_, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateElasticNet : With a penalty in place of a radius.
    PrivateLogisticL1 : For classes.

    Notes
    -----
    {guarantee}
    Several targets share the budget. A fit to a `PrivateMoments` costs nothing more, and ignores
    ``solver``. Proof: :doc:`/proofs/stagewise`.

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

    radius_: float

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        **TARGETS_CONSTRAINTS,
    }

    @with_hints(
        alpha="The parameter `radius` bounds the l1 norm of the coefficients in its place; "
        "PrivateElasticNet(l1_ratio=1.0) has alpha.",
        standard_errors="Fits to moments have them, and PrivateElasticNet(l1_ratio=1.0).",
    )
    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        radius: float | Auto = "auto",
        feature_bound: ArrayLike | Auto | None = "auto",
        target_bound: float | None = None,
        solver: Literal[
            "stagewise",
            "frank-wolfe",
            "frank-wolfe-laplace",
            "noisy-frank-wolfe",
            "anytime-mirror-descent",
        ]
        | SolverLike = "stagewise",
        n_iter: int | Auto = "auto",
        fit_intercept: bool = True,
        max_weight: float | None = None,
        relation: Literal["replace-one", "add-or-remove-one"] = "replace-one",
        random_state: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.max_records_per_unit = max_records_per_unit
        self.radius = radius
        self.feature_bound = feature_bound
        self.target_bound = target_bound
        self.solver = solver
        self.n_iter = n_iter
        self.fit_intercept = fit_intercept
        self.max_weight = max_weight
        self.relation = relation
        self.random_state = random_state

    def _loss(self, n_samples, n_features):
        return Squared(1.0)

    def _default_target_bound(self, n_features):
        radius, bounds = self._radius_and_bounds(n_features)
        if radius is None or bounds is None:
            return None
        return check_bound("radius * max(feature_bound)", radius * float(bounds.max()))

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
