"""Private generalised linear models with a monotone link."""

from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from skdpsco._typing import Auto, LedgerLike, MatrixLike, Seed
from skdpsco._validation import (
    COMMON_CONSTRAINTS,
    CONDITIONING_CONSTRAINTS,
    TARGET_CONSTRAINTS,
    check_target,
    check_X_y,
    with_hints,
)
from skdpsco.base.linear_model import PrivateLinearModel
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


class PrivateMonotoneGLM(LinearRegressorMixin, PrivateLinearModel):
    """Differentially private generalised linear model with a monotone link.

    It fits ``E[y | x] = g(x'w)`` for a known non-decreasing link g with a bounded range, by
    minimising the loss whose derivative in the prediction z is ``g(z) - y``, over an l2 ball. This
    is a convex problem for every such link, even if least squares, the mean of ``(g(x'w) - y)**2``,
    is not convex, as in probit regression. For the logistic link it is logistic regression, with
    any targets between 0 and 1. The fit is (epsilon, delta)-differentially private: replacing one
    record, features and target, changes the distribution of everything that `fit` stores by at most
    that much.

    Parameters
    ----------
    link : {"logistic", "probit", "ramp", "identity"} or Link, default="logistic"
        The first three have the range [0, 1]; the ramp rises from 0 at -1/2 to 1 at 1/2. The range
        of the identity is where nearly all targets are, around a centre that is found privately.
        See `Link` for a link of your own. Targets are clipped to the range, and predictions are
        within it.
    epsilon : float, default=1.0
        Privacy budget, > 0. Smaller is more private.
    delta : float, default=1e-6
        Privacy budget, in (0, 1); far below 1 / n_samples.
    ledger : Ledger or None, default=None
        Ledger that is charged with the cost of every fit before noise is drawn. A fit that would
        exceed its budget raises `BudgetExceededError`, and nothing is fitted.
    max_records_per_unit : int or None, default=None
        A number k, in [1, 999999], if records belong to units, such as persons: ``fit`` is given
        ``units``, draws k records of each, and the guarantee is for all records of a unit at once.
    radius : float or "auto", default="auto"
        Bound on the l2 norm of the coefficients, including the intercept if the solver is
        "mirror-prox". With one feature bound per column, features are measured in units of their
        bounds: the norm is that of ``b_j w_j``, and at most ``radius * max_j b_j``. "auto" is 10
        times the distance in which the link rises from a quarter to three quarters of its height
        (2.2 for the logistic link, 1.35 for probit, 1/2 for the ramp, half of its range for the
        identity), with features in [-1, 1].
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. If none is declared
        ("auto" or None), bounds are found privately, for a small part of the budget; with too few
        records for that they are 1. A radius that is a number is in units of the bounds: with it
        "auto" means 1, which a warning says, and None is refused.
    target_bound : float, Schema or None, default=None
        Public bound on ``|y|`` for ``link="identity"``, to which targets are clipped; not allowed
        for others. It may be generous: with enough records and ``radius="auto"`` the centre and the
        spread of y are found privately, for about a twentieth of the budget. None also finds the
        magnitude of y. With a number as radius a declared bound is the unit of targets.
    fit_intercept : bool, default=True
        Whether to fit an intercept, as the coefficient of a column of ones.
    conditioning : "auto" or None, default="auto"
        "auto" finds a centre and a scale of features privately, for at most 24 % of the budget's
        mu^2, if there are enough records. Columns that lie on one side of 0, or use a small part of
        their bounds, then cost little accuracy. Sparse columns stay sparse, and are conditioned
        unless "mirror-prox" fits them. Without an intercept the centre is 0, and only scales are
        found. "auto" also corrects the length of the coefficients and the intercept by a private
        table of predictions and targets, for at most 6 % of the budget's mu^2, if there is an
        intercept, features are conditioned, ``radius="auto"``, the link is not the identity and
        there are enough records. None does neither.
    solver : {"auto", "gradient-descent", "mirror-prox"}, default="auto"
        "gradient-descent", which "auto" is, takes noisy gradients of the loss without a ball, and
        the nearest coefficients in the ball in the end. "mirror-prox" solves the monotone
        variational inequality ``E[(g(x'w) - y) x] = 0`` with a noisy operator in every step; it
        needs more records.
    n_iter : int or "auto", default="auto"
        Number of steps, at most 10000. "auto" computes it from the budget and public
        sizes.
    random_state : int, RandomState instance or None, default=None
        None draws secret noise, anew in every fit. Anything else makes the noise reproducible and
        warns: anyone who knows it can subtract the noise.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    link_ : Link
        The link of the predictions.
    n_iter_ : int
        Number of private steps.
    feature_bound_ : ndarray of shape (n_features,)
        The bounds that were found or chosen; only with ``feature_bound="auto"`` or None.
    feature_range_ : ndarray of shape (2, n_features)
        Interval to which predictions clip every column: its bounds, or a smaller interval if
        features were conditioned. It is a release.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.
    privacy_ : PrivacyReport
        The guarantee: epsilon, delta, rho, event, relation, seeded and assumptions.

    See Also
    --------
    skdpsco.linear_model.Link : Links of the model.
    PrivateLogisticRegression : The logistic link with its own loss.
    PrivateRidge : The identity as a link.
    sklearn.linear_model.TweedieRegressor : Links without privacy.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record; the number of records and the
    link are public. Privacy does not rest on the link: see `Link`. Long rows count less than short
    ones, which causes no bias if the link is right. Errors in the input are reported to the caller
    and are not covered by the guarantee. Proof: docs/proofs/monotone_glm.md.

    References
    ----------
    A. Juditsky, A. Nemirovski. Signal Recovery by Stochastic Optimization. Automation and Remote
    Control 80, 2019.

    R. Bassily, C. Guzmán, M. Menart. Private Algorithms for Stochastic Saddle Points and
    Variational Inequalities: Beyond Euclidean Geometry. NeurIPS 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import ndtr
    >>> from skdpsco import PrivateMonotoneGLM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> y = rng.random(20000) < ndtr(2 * X[:, 0] - X[:, 1])
    >>> model = PrivateMonotoneGLM(link="probit", epsilon=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.3)
    True
    """

    link_: Link
    _predicts_scores = False  # predictions are links of scores

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        **CONDITIONING_CONSTRAINTS,
        **TARGET_CONSTRAINTS,
        "link": [str, Link],
        "solver": [str],
    }
    _conditioned_solvers = ("auto", *GLM_SOLVERS)
    _keeps_given_balls = True
    _link_unit = 1.0  # of a draft: the unit of the table's argument

    @with_hints(
        standard_errors="PrivateLogisticRegression, PrivatePoissonRegressor and "
        "PrivateGammaRegressor have them.",
    )
    def __init__(
        self,
        *,
        link: Literal["logistic", "probit", "ramp", "identity"] | Link = "logistic",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        radius: float | Auto = "auto",
        feature_bound: ArrayLike | Auto | None = "auto",
        target_bound: float | None = None,
        fit_intercept: bool = True,
        conditioning: Auto | None = "auto",
        solver: Literal["auto", "gradient-descent", "mirror-prox"] = "auto",
        n_iter: int | Auto = "auto",
        random_state: Seed = None,
    ) -> None:
        self.link = link
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.max_records_per_unit = max_records_per_unit
        self.radius = radius
        self.feature_bound = feature_bound
        self.target_bound = target_bound
        self.fit_intercept = fit_intercept
        self.conditioning = conditioning
        self.solver = solver
        self.n_iter = n_iter
        self.random_state = random_state

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
