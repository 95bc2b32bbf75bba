"""Private quantile regression."""

import math
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple

from numpy.typing import ArrayLike

from skdpsco._typing import Auto, LedgerLike, MatrixLike, Seed, SolverLike, TargetLike
from skdpsco._validation import (
    COMPOSITE_CONSTRAINTS,
    TARGET_CONSTRAINTS,
    HasMethods,
    Interval,
    Real,
    StrOptions,
    check_n_iter,
)
from skdpsco.base.advice import counted
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
        n mu times the share of the records beyond a quantile, from which on it is more than noise.
    """

    known: float = 0.4
    least_tail: float = 25.0


QUANTILE = QuantileTuning()


class PrivateQuantileRegressor(CoefficientInference, LinearRegressor, UncalibratedModel):
    """Differentially private quantile regression: the pinball loss, with an l1 penalty.

    It minimises ``1 / n_samples * sum_i pinball(y_i - x_i'w - b) + alpha * ||w||_1``, as
    scikit-learn's `QuantileRegressor` does, where pinball(r) is the larger one of ``quantile * r``
    and ``(quantile - 1) * r``. The loss is quadratic for small residuals: within a fifth of the
    targets' scale where there is much noise, and within 0.002 of it where there is hardly any. The
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
    quantile : float, default=0.5
        The quantile that is predicted, in [1e-6, 1 - 1e-6]. Those far from 1/2 follow from few
        records, and need more of them.
    alpha : float, default=0.0
        Weight of the penalty, >= 0, against the mean loss, as in scikit-learn, whose default, 1,
        leaves nothing of most models.
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
        weight, so small weights lose accuracy. ``alpha`` has its meaning for weights of mean 1.
    standard_errors : bool, default=False
        Whether to estimate the uncertainty of the coefficients without the penalty:
        `coef_standard_error_`, `confint` and `summary`. Two thirds of the budget's mu^2 then pay
        for a Newton step after gradient descent, whose errors are known; ``solver`` must be "auto"
        or "gradient-descent". The step is that of the pinball loss itself, and only the penalty
        shrinks coefficients then.
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
        Covariance of the coefficients without a penalty, by sampling and by noise; only with
        ``standard_errors=True``.
    coef_standard_error_ : ndarray of shape (n_features)
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
    PrivateHuberRegressor : For a mean that outliers do not move.
    PrivateLinearRegressor : The same loss, in a ball of an l_p norm.
    sklearn.linear_model.QuantileRegressor : The model without privacy.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record, and the number of records is
    public, unless ``relation`` says that a record is added or removed. The number and names of the
    features and their dtypes are public. Errors in the input (a NaN, say)
    are reported to the caller and are not covered by the guarantee. Proofs: docs/proofs.

    References
    ----------
    R. Koenker, G. Bassett. Regression Quantiles. Econometrica 46, 1978.

    X. He, X. Pan, K. M. Tan, W.-X. Zhou. Smoothed Quantile Regression with Large-Scale Inference.
    Journal of Econometrics 232, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateQuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> y = 2 * X[:, 0] - X[:, 3] + rng.exponential(size=20000)
    >>> model = PrivateQuantileRegressor(quantile=0.8, epsilon=1.0).fit(X, y)
    >>> bool(abs((y <= model.predict(X)).mean() - 0.8) < 0.05)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMPOSITE_CONSTRAINTS,
        **TARGET_CONSTRAINTS,
        "solver": [StrOptions({"auto", "gradient-descent", "sgd"}), HasMethods(["plan", "run"])],
        "quantile": [Interval(Real, 1e-6, 1.0 - 1e-6, closed="both")],
    }
    _planned_with = ("alpha", "n_iter")
    _degree = 1.0

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        quantile: float = 0.5,
        alpha: float = 0.0,
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
        self.quantile = quantile
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
