"""Private least squares in an l1 ball."""

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from skdpsco._typing import Auto, LedgerLike, Seed, SolverLike
from skdpsco._validation import (
    COMMON_CONSTRAINTS,
    CONDITIONING_CONSTRAINTS,
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
    constrained form of scikit-learn's `Lasso`. The coefficients are (epsilon, delta)-differentially
    private: replacing one record, features and target, changes the distribution of everything that
    `fit` stores by at most that much.

    Parameters
    ----------
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
        Bound on the l1 norm of the coefficients. (With solvers other than "stagewise", the distance
        of the intercept from the centre of the target counts, too.) "auto" runs a path of growing
        radius and spends a tenth of the budget to choose a point on it.
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. With one bound per column,
        features are measured in units of their bounds: the ball is ``sum_j b_j |w_j| <= radius *
        max_j b_j``. If none is declared ("auto" or None), bounds are found privately, for a small
        part of the budget; with too few records for that they are 1. A radius that is a number is
        in units of the bounds: with it "auto" means 1, which a warning says, and None is refused.
    target_bound : float, array-like of shape (n_targets,), Schema or None, default=None
        Public bound on ``|y|``, to which targets are clipped. It may be generous: with enough
        records the centre and the spread of y are found privately. None means ``radius *
        max(feature_bound)`` if radius is a number; if it is "auto", the magnitude of y is also
        found privately, for a twentieth of the budget, or up to three tenths below 400 records at
        epsilon 1. (With fewer than about 150 records, None means 1, so declare a bound.)
    solver : {"stagewise", "frank-wolfe", "frank-wolfe-laplace", "noisy-frank-wolfe", \
            "anytime-mirror-descent"} or solver, default="stagewise"
        See `skdpsco.solvers`. All but the first need a number as radius. The last reads each record
        once, and is about as accurate as Frank-Wolfe.
    n_iter : int or "auto", default="auto"
        Number of private steps of the solver, at most 10000. "auto" computes it from public sizes
        and from what was released before, never from the data.
    fit_intercept : bool, default=True
        Whether to fit an intercept, as the coefficient of a column of ones.
    conditioning : "auto" or None, default="auto"
        "auto" finds a centre and scales of features privately, for at most 24 % of the budget's
        mu^2, if ``solver`` is "stagewise" and there are enough records. Columns that lie on one
        side of 0, or use a small part of their bounds, then cost little accuracy. Coefficients
        still refer to the columns as given. Sparse columns get a centre, and stay sparse, where all
        of them are fitted by gradient descent: with ``radius="auto"`` and ``n_iter="auto"``, from n
        mu = 3.5 n_features on, as long as there is more than hardly any noise. Without an intercept
        the centre is 0, and only scales are found. None uses the columns as they are.
    max_weight : float or None, default=None
        Public bound on ``sample_weight``, to which weights are clipped; it must be declared for a
        fit with weights. They are as private as the record. The noise is as if all records had this
        weight, so small weights lose accuracy.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Which data sets are neighbours. With "add-or-remove-one" the number of records is private:
        a fiftieth of the budget's rho counts them, and all else is planned from this count.
        "anytime-mirror-descent" cannot do so. There may be up to 67 million records.
    random_state : int, RandomState instance or None, default=None
        None draws secret noise, anew in every fit. Anything else makes the noise reproducible and
        warns: anyone who knows it can subtract the noise.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray of shape (n_targets,)
    feature_bound_ : ndarray of shape (n_features,)
        The bounds that were found or chosen; only with ``feature_bound="auto"`` or None.
    feature_range_ : ndarray of shape (2, n_features)
        Interval to which predictions clip every column: its bounds, or a smaller interval if
        features were conditioned. It is a release.
    target_range_ : ndarray of shape (2,), or (2, n_targets)
        Interval to which predictions are clipped: the one to which the fit clipped targets. It is a
        release.
    n_iter_ : int
        Number of private steps.
    coef_covariance_ : ndarray of shape (n_features, n_features)
        Covariance, by sampling and by noise, of the coefficients that there would be without a
        ball; after fits to moments only. With several targets this and the next have one more axis,
        the first.
    coef_standard_error_ : ndarray of shape (n_features,)
        Standard errors: the roots of the diagonal.
    uncertainty_ : Uncertainty
        Uncertainty of the coefficients and the intercept together, as `confint` and `summary` use
        it.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.
    privacy_ : PrivacyReport
        The guarantee: epsilon, delta, rho, event, relation, seeded and assumptions.
    radius_ : float
        Radius of an l1 ball that contains the solution ("stagewise" only). With "auto" it is twice
        that of the chosen point. It is large and meaningless if all coordinates were fitted and
        nothing was chosen. For a fit to moments it is the radius that was given, or the largest l1
        norm of the coefficients of a target.
    path_ : RadiusPath
        ``radius`` and ``coef`` of the solutions of smaller radii, at no further cost
        ("stagewise" only).

    See Also
    --------
    PrivateElasticNet : With a penalty in place of a radius.
    PrivateLogisticL1 : For classes.
    PrivateLinearRegressor : Other losses and other norms.
    sklearn.linear_model.Lasso : The model without privacy, with a penalty.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record, and the number of records is
    public, unless ``relation`` says that a record is added or removed. The number and names of the
    features and their dtypes are public. Errors in the input (a NaN, say)
    are reported to the caller and are not covered by the guarantee. Proofs: docs/proofs.

    Every one of several targets has a fit of its own, with a part of the budget, and takes the
    centre and scales of the features from the first. With a large budget, few columns, or on
    Dask all are fitted to one release of the moments of all columns instead, which costs what a
    fit to one of them does and has standard errors; `n_iter` is then ignored.

    Fitted to moments that `PrivateMoments` has released, it is post-processing and costs nothing
    more. "auto" then takes an l1 penalty that noise exceeds in hardly any column, and `solver`
    and `conditioning` are ignored.

    References
    ----------
    K. Talwar, A. Thakurta, L. Zhang. Nearly Optimal Private LASSO. NeurIPS 2015, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 50))
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.normal(size=20000)
    >>> model = PrivateLasso(epsilon=1.0, radius=3.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        **CONDITIONING_CONSTRAINTS,
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
        conditioning: Auto | None = "auto",
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
        self.conditioning = conditioning
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
