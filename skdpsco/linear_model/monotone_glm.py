"""Private generalised linear models with a monotone link."""

from dataclasses import field
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from skdpsco._typing import MatrixLike
from skdpsco._validation import check_target, check_X_y
from skdpsco.base.linear_model import PrivateLinearModel
from skdpsco.base.parameters import (
    BallParameters,
    Constraints,
    TargetParameters,
    with_parameters,
)
from skdpsco.base.predictions import LinearRegressorMixin
from skdpsco.base.private_estimator import resolve_solver
from skdpsco.constraints.sets import L2Ball
from skdpsco.data.block_records import read_records
from skdpsco.linear_model.links import Identity, Link, resolve_link
from skdpsco.scaling.calibration import CALIBRATION, CLASS_CURVE, TargetCurve
from skdpsco.scaling.stages import Units
from skdpsco.scaling.target import Target
from skdpsco.solvers import Problem
from skdpsco.solvers.groups.monotone_glm import GradientMirrorProx, PooledDescent

__all__ = ["PrivateMonotoneGLM"]

LARGEST_NORM = 10.0  # the radius "auto", in units of the link, where features lie in [-1, 1]
GLM_SOLVERS: dict[str, Any] = {
    "gradient-descent": PooledDescent,
    "mirror-prox": GradientMirrorProx,
}


def _encoded(y: Any, link: Link) -> np.ndarray:
    """Targets of a block in the range of the link."""
    return link.encode(check_target(y))


@with_parameters(
    standard_errors="PrivateLogisticRegression, PrivatePoissonRegressor and "
    "PrivateGammaRegressor have them.",
)
class PrivateMonotoneGLM(
    LinearRegressorMixin, BallParameters, TargetParameters, PrivateLinearModel
):
    """Differentially private generalised linear model with a monotone link.

    It fits ``E[y | x] = g(x'w)`` for a known non-decreasing link g with a bounded range, by
    minimising the convex loss whose derivative in the prediction z is ``g(z) - y``.

    Parameters
    ----------
    link : {"logistic", "probit", "ramp", "identity"} or Link, default="logistic"
        The identity is for any numbers, the others for targets in [0, 1]. See `Link` for your own.
    {epsilon, delta, ledger, max_records_per_unit}
    {radius_of_l2_ball, feature_bound}
    {target_bound}
        Only for the identity.
    {fit_intercept}
    solver : {"auto", "gradient-descent", "mirror-prox"}, default="auto"
        "auto" is "gradient-descent".
    {n_iter, random_state}

    Attributes
    ----------
    {coef_, intercept_}
    link_ : Link
        The link of the predictions.
    {n_iter_, feature_bound_, feature_range_, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    skdpsco.linear_model.Link : Links of the model.
    PrivateLogisticRegression : The logistic link with its own loss.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/monotone_glm`.

    References
    ----------
    Juditsky, Nemirovski. Signal Recovery by Stochastic Optimization. Automation and Remote Control
    80, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import ndtr
    >>> from skdpsco import PrivateMonotoneGLM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> y = rng.random(20000) < ndtr(2 * X[:, 0] - X[:, 1])
    >>> PrivateMonotoneGLM(link="probit").fit(X, y).score(X, y) > 0.3
    True
    """

    link: Literal["logistic", "probit", "ramp", "identity"] | Link = "logistic"
    solver: Literal["auto", "gradient-descent", "mirror-prox"] = "auto"

    link_: Link = field(init=False)
    _predicts_scores = False  # predictions are links of scores

    _parameter_constraints: ClassVar[Constraints] = {
        "link": [str, Link],
        "solver": [str],
    }
    _conditioned_solvers = ("auto", *GLM_SOLVERS)
    _keeps_given_balls = True
    _link_unit = 1.0  # of a draft: the unit of the table's argument

    def _learn(self, X, y):
        self.link_ = link = resolve_link(self.link, self.target_bound)
        loss, self._link_unit = link.loss()
        identity = isinstance(link, Identity)
        encode = check_target if identity else partial(_encoded, link=link)
        records = read_records(self, X, y, encode)
        X, y = (records, None) if records else check_X_y(self, X, y, y_numeric=True)
        if identity:
            return self._fit(X, y, loss, link.bound, ("the link is public",), regression=True)
        notes = (
            f"targets are clipped to [{link.low:g}, {link.high:g}], the range of the link",
            "the link is public",
        )
        y = None if records else link.encode(y)
        coef, intercept = self._fit(X, y, loss, None, notes)
        return self._link_unit * coef, self._link_unit * intercept

    def _set_ranges(self, units: Units) -> None:
        super()._set_ranges(units)
        if isinstance(self.link_, Identity):
            self.link_ = Identity(*units.target.range.tolist())

    def _order(self) -> float:
        return 2.0

    def _curve(self, loss: Any) -> TargetCurve | None:
        if isinstance(self.link_, Identity):
            return None
        slopes = np.diff(loss.values) / np.diff(loss.knots)
        least = CALIBRATION.least_slope * float(slopes.max())

        def mean(z):
            inside = (z > loss.knots[0]) & (z < loss.knots[-1])
            j = np.searchsorted(loss.knots[1:-1], z, side="right")
            return np.interp(z, *loss), np.maximum(np.where(inside, slopes[j], 0.0), least)

        return CLASS_CURVE._replace(mean=mean)

    def _resolved_solver(self, loss: Any, n_samples: int, n_features: int, rho: float) -> Any:
        return resolve_solver(self.solver, {"auto": PooledDescent, **GLM_SOLVERS})

    def _problem(self, loss: Any, n_samples: int, bounds: np.ndarray, target: Target) -> Problem:
        radius, _ = self._radius_and_bounds(len(bounds))
        unit = self._link_unit * target.scale
        radius = LARGEST_NORM if radius is None else radius * float(bounds.max()) / unit
        intercept = bool(self.fit_intercept)
        return Problem(loss, L2Ball(radius), n_samples, len(bounds) + intercept, intercept)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Expected targets: the link of the linear predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Within the range of the link.
        """
        z = self._predictions(X)
        return self.link_(z)
