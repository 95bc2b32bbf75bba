"""Private elastic net and ridge regression."""

from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike

from skdpsco._typing import Auto, LedgerLike, Seed, SolverLike
from skdpsco._validation import COMPOSITE_CONSTRAINTS, TARGETS_CONSTRAINTS
from skdpsco.linear_model._inference import MomentInference
from skdpsco.linear_model._least_squares import LeastSquaresRegressor
from skdpsco.linear_model._penalized import CompositeModel, check_weight, mixed_penalty

__all__ = ["PrivateElasticNet", "PrivateRidge"]


class PrivateElasticNet(MomentInference, LeastSquaresRegressor, CompositeModel):
    """Differentially private elastic net: least squares with an l1 and an l2 penalty.

    It minimises ``1 / (2 n_samples) * ||y - X w - b||^2 + alpha * l1_ratio * ||w||_1
    + alpha * (1 - l1_ratio) / 2 * ||w||^2``, as scikit-learn's `ElasticNet` does. The coefficients
    are (epsilon, delta)-differentially private: replacing one record, features and target, changes
    the distribution of everything that `fit` stores by at most that much.

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
    alpha : float, default=0.001
        Weight of the penalty, >= 0, in scikit-learn's units: against half the mean squared
        residual, for coefficients of X and y as given. scikit-learn's default, 1, shrinks a model
        to almost nothing if columns and target have deviations of about 1, and 0.01 does so where
        columns use a small part of their bounds. In `PrivateRidge` the
        weight is against the sum over records.
    l1_ratio : float, default=0.5
        Share of the l1 penalty, in [0, 1]. With 1 this is the Lasso. Exact zeros are those of the
        noisy problem.
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. If none is declared
        ("auto" or None), bounds are found privately, for a small part of the budget; with too few
        records for that they are 1. "auto" also means 1 with ``solver="sgd"``, which a warning
        says, and with an ``init`` the bounds that it has found, or 1 if it has found none.
    target_bound : float, array-like of shape (n_targets,), Schema or None, default=None
        Public bound on ``|y|``, to which targets are clipped. It may be generous: with enough
        records the centre and the spread of y are found privately. None also finds the magnitude of
        y privately, for a twentieth of the budget, or up to three tenths below 400 records at
        epsilon 1. (With fewer than about 150 records, None means 1, so declare a bound.)
    solver : {"auto", "gradient-descent", "coordinate-descent", \
            "greedy-coordinate-descent", "sgd"} or solver, default="auto"
        A name, or an object of `skdpsco.solvers`, which has options such as ``clip``. "auto" is
        "gradient-descent".
    n_iter : int or "auto", default="auto"
        Number of private rounds, passes or steps of the solver, at most 10000. "auto" computes it
        from public sizes, never from the data.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    conditioning : "auto" or None, default="auto"
        "auto" finds a centre and scales of features privately, for at most 24 % of the budget's
        mu^2, if ``solver`` is not "sgd" and there are enough records. Columns that lie on one side
        of 0, or use a small part of their bounds, then cost little accuracy. Coefficients and
        penalties still refer to the columns as given. Sparse columns get a centre if ``solver`` is
        "auto" or "gradient-descent", and stay sparse. Without an intercept the centre is 0, and
        only scales are found. None uses the columns as they are.
    max_weight : float or None, default=None
        Public bound on ``sample_weight``, to which weights are clipped; it must be declared for a
        fit with weights. They are as private as the record. The noise is as if all records had this
        weight, so small weights lose accuracy. ``alpha`` has its meaning for weights of mean 1.
        With weights scores are not calibrated.
    standard_errors : bool, default=False
        Whether to estimate the uncertainty of the coefficients: `coef_standard_error_`, `confint`
        and `summary`. Two thirds of the budget's mu^2 then pay for a Newton step after gradient
        descent, whose errors are known; ``solver`` must be "auto" or "gradient-descent". Intervals
        are for coefficients without any penalty, unless ``l1_ratio`` is 0: those of the model are
        not nearly normal. Coefficients are then shrunk by the penalty alone.
        Fits to moments have standard errors anyway.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Which data sets are neighbours. With "add-or-remove-one" the number of records is private:
        a fiftieth of the budget's rho counts them, all else is planned from this count, and solver
        must be "auto", "gradient-descent" or "sgd". There may be up to 67 million records.
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
        release. A fit with ``init`` or ``public_data`` has none.
    n_iter_ : int
        Number of private rounds, passes or steps; 0 for a fit to moments.
    coef_covariance_ : ndarray of shape (n_features, n_features)
        Covariance of the coefficients, by sampling and by noise; after fits to moments, and with
        ``standard_errors=True``. It is that of coefficients without any penalty, unless
        ``l1_ratio`` is 0. With several targets this and the next have one more axis, the first.
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

    See Also
    --------
    PrivateRidge : With the penalty of l2 norms alone.
    PrivateLasso : For many features of which few matter.
    sklearn.linear_model.ElasticNet : The model without privacy.

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
    more; `solver` and `conditioning` are then ignored.

    References
    ----------
    H. Zou, T. Hastie. Regularization and Variable Selection via the Elastic Net. Journal of the
    Royal Statistical Society B 67, 2005.

    P. Mangold, A. Bellet, J. Salmon, M. Tommasi. Differentially Private Coordinate Descent for
    Composite Empirical Risk Minimization. ICML 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateElasticNet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 20))
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.normal(size=20000)
    >>> model = PrivateElasticNet(epsilon=1.0, alpha=0.01).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMPOSITE_CONSTRAINTS,
        **TARGETS_CONSTRAINTS,
    }
    _planned_with = ("alpha", "n_iter")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        alpha: float = 0.001,
        l1_ratio: float = 0.5,
        feature_bound: ArrayLike | Auto | None = "auto",
        target_bound: float | None = None,
        solver: Literal[
            "auto",
            "coordinate-descent",
            "greedy-coordinate-descent",
            "gradient-descent",
            "sgd",
        ]
        | SolverLike = "auto",
        n_iter: int | Auto = "auto",
        fit_intercept: bool = True,
        conditioning: Auto | None = "auto",
        max_weight: float | None = None,
        standard_errors: bool = False,
        relation: Literal["replace-one", "add-or-remove-one"] = "replace-one",
        random_state: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.max_records_per_unit = max_records_per_unit
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.feature_bound = feature_bound
        self.target_bound = target_bound
        self.solver = solver
        self.n_iter = n_iter
        self.fit_intercept = fit_intercept
        self.conditioning = conditioning
        self.max_weight = max_weight
        self.standard_errors = standard_errors
        self.relation = relation
        self.random_state = random_state

    def _penalty(self, n_samples):
        ratio = check_weight("l1_ratio", self.l1_ratio, high=1.0)
        alpha = check_weight("alpha", self.alpha) / self._largest_weight()
        return mixed_penalty(alpha, ratio)

    def _coefficients(self, moments, problem):
        ratio = check_weight("l1_ratio", self.l1_ratio, high=1.0)
        return problem.elastic_net(check_weight("alpha", self.alpha), ratio)

    def _ridge_weight(self, moments):
        return self.alpha if self.l1_ratio == 0.0 or self.alpha == 0.0 else None


class PrivateRidge(MomentInference, LeastSquaresRegressor, CompositeModel):
    """Differentially private ridge regression: least squares with an l2 penalty.

    It minimises ``||y - X w - b||^2 + alpha * ||w||^2``, as scikit-learn's `Ridge` does. The
    coefficients are (epsilon, delta)-differentially private: replacing one record, features and
    target, changes the distribution of everything that `fit` stores by at most that much.

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
    alpha : float, default=1.0
        Weight of the penalty, >= 0, as in scikit-learn: against the sum over records.
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. If none is declared
        ("auto" or None), bounds are found privately, for a small part of the budget; with too few
        records for that they are 1. "auto" also means 1 with ``solver="sgd"``, which a warning
        says, and with an ``init`` the bounds that it has found, or 1 if it has found none.
    target_bound : float, array-like of shape (n_targets,), Schema or None, default=None
        Public bound on ``|y|``, to which targets are clipped. It may be generous: with enough
        records the centre and the spread of y are found privately. None also finds the magnitude of
        y privately, for a twentieth of the budget, or up to three tenths below 400 records at
        epsilon 1. (With fewer than about 150 records, None means 1, so declare a bound.)
    solver : {"auto", "gradient-descent", "coordinate-descent", \
            "greedy-coordinate-descent", "sgd"} or solver, default="auto"
        A name, or an object of `skdpsco.solvers`, which has options such as ``clip``. "auto" is
        "gradient-descent".
    n_iter : int or "auto", default="auto"
        Number of private rounds, passes or steps of the solver, at most 10000. "auto" computes it
        from public sizes, never from the data.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    conditioning : "auto" or None, default="auto"
        "auto" finds a centre and scales of features privately, for at most 24 % of the budget's
        mu^2, if ``solver`` is not "sgd" and there are enough records. Columns that lie on one side
        of 0, or use a small part of their bounds, then cost little accuracy. Coefficients and
        penalties still refer to the columns as given. Sparse columns get a centre if ``solver`` is
        "auto" or "gradient-descent", and stay sparse. Without an intercept the centre is 0, and
        only scales are found. None uses the columns as they are.
    max_weight : float or None, default=None
        Public bound on ``sample_weight``, to which weights are clipped; it must be declared for a
        fit with weights. They are as private as the record. The noise is as if all records had this
        weight, so small weights lose accuracy.
    standard_errors : bool, default=False
        Whether to estimate the uncertainty of the coefficients: `coef_standard_error_`, `confint`
        and `summary`. Two thirds of the budget's mu^2 then pay for a Newton step after gradient
        descent, whose errors are known; ``solver`` must be "auto" or "gradient-descent".
        Coefficients are then shrunk by the penalty alone. Fits to moments have standard errors
        anyway.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Which data sets are neighbours. With "add-or-remove-one" the number of records is private:
        a fiftieth of the budget's rho counts them, all else is planned from this count, and solver
        must be "auto", "gradient-descent" or "sgd". There may be up to 67 million records.
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
        release. A fit with ``init`` or ``public_data`` has none.
    n_iter_ : int
        Number of private rounds, passes or steps; 0 for a fit to moments.
    coef_covariance_ : ndarray of shape (n_features, n_features)
        Covariance of the coefficients, by sampling and by noise; after fits to moments, and with
        ``standard_errors=True``. With several targets this and the next have one more axis, the
        first.
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

    See Also
    --------
    PrivateElasticNet : With a penalty of the l1 norm, too.
    PrivateLasso : For many features of which few matter.
    sklearn.linear_model.Ridge : The model without privacy.

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
    more; it then knows its standard errors. `solver` and `conditioning` are then ignored.

    References
    ----------
    Y.-X. Wang. Revisiting Differentially Private Linear Regression. UAI 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 20))
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.normal(size=20000)
    >>> model = PrivateRidge(epsilon=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMPOSITE_CONSTRAINTS,
        **TARGETS_CONSTRAINTS,
    }
    _planned_with = ("alpha", "n_iter")
    _remedy = "fit it with standard_errors=True, or to moments, PrivateMoments().fit(X, y)"

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        alpha: float = 1.0,
        feature_bound: ArrayLike | Auto | None = "auto",
        target_bound: float | None = None,
        solver: Literal[
            "auto",
            "coordinate-descent",
            "greedy-coordinate-descent",
            "gradient-descent",
            "sgd",
        ]
        | SolverLike = "auto",
        n_iter: int | Auto = "auto",
        fit_intercept: bool = True,
        conditioning: Auto | None = "auto",
        max_weight: float | None = None,
        standard_errors: bool = False,
        relation: Literal["replace-one", "add-or-remove-one"] = "replace-one",
        random_state: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.max_records_per_unit = max_records_per_unit
        self.alpha = alpha
        self.feature_bound = feature_bound
        self.target_bound = target_bound
        self.solver = solver
        self.n_iter = n_iter
        self.fit_intercept = fit_intercept
        self.conditioning = conditioning
        self.max_weight = max_weight
        self.standard_errors = standard_errors
        self.relation = relation
        self.random_state = random_state

    def _penalty(self, n_samples):
        # Half the mean over records, against half of alpha / n times the square.
        total = n_samples * self._largest_weight()
        return mixed_penalty(check_weight("alpha", self.alpha) / total, 0.0)

    def _coefficients(self, moments, problem):
        return problem.ridge(self._ridge_weight(moments))

    def _ridge_weight(self, moments):
        total = moments.n_samples * moments.max_weight  # of the weights
        return check_weight("alpha", self.alpha) / total
