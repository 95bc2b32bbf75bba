"""Private robust regression with the Huber loss."""

from dataclasses import replace
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike

from skdpsco._typing import Auto, LedgerLike, Seed, SolverLike
from skdpsco._validation import (
    COMPOSITE_CONSTRAINTS,
    TARGET_CONSTRAINTS,
    HasMethods,
    Interval,
    Real,
    StrOptions,
    check_bound,
)
from skdpsco.linear_model._classifier_regressor import LinearRegressor
from skdpsco.linear_model._inference import CoefficientInference
from skdpsco.linear_model._penalized import UncalibratedModel, check_weight, mixed_penalty
from skdpsco.losses.library import Huber

__all__ = ["PrivateHuberRegressor"]

# In units of the scale of most targets; examples/benchmarks/named_models.py shows what it predicts.
AUTO_THRESHOLD = 0.3


class PrivateHuberRegressor(CoefficientInference, LinearRegressor, UncalibratedModel):
    """Differentially private robust regression: the Huber loss, with an l2 penalty.

    It minimises ``2 * sum_i huber(y_i - x_i'w - b) + alpha * ||w||^2``, where huber(r) is ``r^2 /
    2`` for residuals up to ``threshold``, and linear beyond. scikit-learn's `HuberRegressor`
    minimises the same for a threshold of its ``epsilon`` times the scale of the residuals, which it
    finds, too, and by which it multiplies the penalty. The coefficients are (epsilon,
    delta)-differentially private: replacing one record, features and target, changes the
    distribution of everything that `fit` stores by at most that much.

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
    threshold : float or "auto", default="auto"
        Residual beyond which the loss is linear, > 0, in units of y. "auto" is 0.3 times the scale
        of y that is found privately: it covers about 95 % of the targets.
    alpha : float, default=0.0001
        Weight of the penalty, >= 0, against twice the sum over records.
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. If none is declared
        ("auto" or None), bounds are found privately, for a small part of the budget; with too few
        records for that they are 1. "auto" also means 1 with ``solver="sgd"``, which a warning
        says, and with an ``init`` the bounds that it has found, or 1 if it has found none.
    target_bound : float, Schema or None, default=None
        Public bound on ``|y|``, to which targets are clipped. It may be generous: with enough
        records the centre and the spread of y are found privately. None also finds the magnitude of
        y privately, for a twentieth of the budget, or up to three tenths below 400 records at
        epsilon 1. (With fewer than about 150 records, None means 1, so declare a bound.)
    solver : {"auto", "gradient-descent", "sgd"} or solver, default="auto"
        A name, or an object of `skdpsco.solvers`, which has options such as ``clip``.
        "auto" is "gradient-descent", which shrinks coefficients by as much
        as noise has lengthened them.
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
        Coefficients are not shrunk then.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Which data sets are neighbours. With "add-or-remove-one" the number of records is private:
        a fiftieth of the budget's rho counts them, all else is planned from this count, and solver
        must be "auto", "gradient-descent" or "sgd". There may be up to 67 million records.
    random_state : int, RandomState instance or None, default=None
        None draws secret noise, anew in every fit. Anything else makes the noise reproducible and
        warns: anyone who knows it can subtract the noise.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    feature_bound_ : ndarray of shape (n_features,)
        The bounds that were found or chosen; only with ``feature_bound="auto"`` or None.
    feature_range_ : ndarray of shape (2, n_features)
        Interval to which predictions clip every column: its bounds, or a smaller interval if
        features were conditioned. It is a release.
    target_range_ : ndarray of shape (2,)
        Interval to which predictions are clipped: the one to which the fit clipped targets. It is a
        release. A fit with ``init`` or ``public_data`` has none.
    n_iter_ : int
        Number of private rounds, passes or steps.
    coef_covariance_ : ndarray of shape (n_features, n_features)
        Covariance of the coefficients, by sampling and by noise; only with
        ``standard_errors=True``.
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
    PrivateRidge : For targets without outliers.
    PrivateQuantileRegressor : For a median or another quantile.
    sklearn.linear_model.HuberRegressor : The model without privacy.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record, and the number of records is
    public, unless ``relation`` says that a record is added or removed. The number and names of the
    features and their dtypes are public. Errors in the input (a NaN, say)
    are reported to the caller and are not covered by the guarantee. Proofs: docs/proofs.

    References
    ----------
    P. J. Huber. Robust Estimation of a Location Parameter. Annals of Mathematical Statistics 35,
    1964.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateHuberRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.2 * rng.standard_t(2, size=20000)
    >>> model = PrivateHuberRegressor(epsilon=1.0).fit(X, y)
    >>> bool(abs(model.coef_ - [2, 0, 0, -1, 0]).max() < 0.1)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMPOSITE_CONSTRAINTS,
        **TARGET_CONSTRAINTS,
        "solver": [StrOptions({"auto", "gradient-descent", "sgd"}), HasMethods(["plan", "run"])],
        "threshold": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    }
    _planned_with = ("alpha", "threshold", "n_iter")
    _steady_scale = True

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        threshold: float | Auto = "auto",
        alpha: float = 0.0001,
        feature_bound: ArrayLike | Auto | None = "auto",
        target_bound: float | None = None,
        solver: Literal["auto", "gradient-descent", "sgd"] | SolverLike = "auto",
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
        self.threshold = threshold
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
