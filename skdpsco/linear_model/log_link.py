"""Private Poisson and gamma regression."""

import math
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import d2_tweedie_score

from skdpsco._quiet import score_by
from skdpsco._typing import Auto, LedgerLike, MatrixLike, Seed, SolverLike, TargetLike
from skdpsco._validation import (
    COMPOSITE_CONSTRAINTS,
    TARGET_CONSTRAINTS,
    HasMethods,
    StrOptions,
    check_target,
)
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


class LogLinkModel(CoefficientInference, LinearRegressor, UncalibratedModel):
    """Means that are exponentials of linear predictions; see the subclasses."""

    target_range_: np.ndarray

    _law: ClassVar[type[LogLink]]
    _power: ClassVar[int]  # power of the mean in the variance of a target
    _least_scale: ClassVar[float] = 0.0  # of targets, in their own unit
    _predicts_scores = False  # predictions are their exponentials
    _begins_at_scores = True  # residuals have no meaning here

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMPOSITE_CONSTRAINTS,
        **TARGET_CONSTRAINTS,
        "solver": [StrOptions({"auto", "gradient-descent", "sgd"}), HasMethods(["plan", "run"])],
    }
    _planned_with = ("alpha", "n_iter")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        alpha: float = 0.01,
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


class PrivatePoissonRegressor(LogLinkModel):
    """Differentially private Poisson regression: counts whose mean is an exponential.

    It minimises ``1 / n_samples * sum_i (m_i - y_i log(m_i)) + alpha / 2 * ||w||^2`` with the means
    ``m_i = exp(x_i'w + b)``, as scikit-learn's `PoissonRegressor` does. The coefficients are
    (epsilon, delta)-differentially private: replacing one record, features and target, changes the
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
    alpha : float, default=0.01
        Weight of the penalty, >= 0, in scikit-learn's units: against half the mean deviance, for
        coefficients of X as given. scikit-learn's default, 1, shrinks a model to almost nothing if
        columns have deviations of about 1.
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. If none is declared
        ("auto" or None), bounds are found privately, for a small part of the budget; with too few
        records for that they are 1. "auto" also means 1 with ``solver="sgd"``, which a warning
        says, and with an ``init`` the bounds that it has found, or 1 if it has found none.
    target_bound : float, Schema or None, default=None
        Public bound on y: targets are clipped to [0, target_bound]. It may be generous: with enough
        records a centre and the spread of y are found privately. None also finds the magnitude of
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
        Whether to estimate the uncertainty of the coefficients: `coef_standard_error_`, `confint`
        and `summary`. Two thirds of the budget's mu^2 then pay for a Newton step after gradient
        descent, whose errors are known; ``solver`` must be "auto" or "gradient-descent".
        Coefficients are not shrunk then. Variances need not be those of the law.
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
        Coefficients of the logarithm of the mean.
    intercept_ : float
    target_range_ : ndarray of shape (2,)
        Interval to which predictions are clipped: up to a noisy estimate of the largest target in
        the fit, and down to a ten-thousandth of the scale of y. A release.
    feature_bound_ : ndarray of shape (n_features,)
        The bounds that were found or chosen; only with ``feature_bound="auto"`` or None.
    feature_range_ : ndarray of shape (2, n_features)
        Interval to which predictions clip every column: its bounds, or a smaller interval if
        features were conditioned. It is a release.
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
    PrivateGammaRegressor : For positive numbers whose deviation grows with their mean.
    PrivateMonotoneGLM : For other links.
    sklearn.linear_model.PoissonRegressor : The model without privacy.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record, and the number of records is
    public, unless ``relation`` says that a record is added or removed. The number and names of the
    features and their dtypes are public. Errors in the input (a NaN, say)
    are reported to the caller and are not covered by the guarantee. The loss is linear where a mean
    exceeds the largest target, which no mean should. The unit of y matters: counts have the unit 1,
    and the scale of y is taken to be at least that, since most counts may be 0. Proofs:
    docs/proofs/gradient_descent.md.

    References
    ----------
    J. A. Nelder, R. W. M. Wedderburn. Generalized Linear Models. Journal of the Royal Statistical
    Society A 135, 1972.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivatePoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> y = rng.poisson(np.exp(0.5 + X[:, 0] - 0.5 * X[:, 3]))
    >>> model = PrivatePoissonRegressor(epsilon=1.0, target_bound=100).fit(X, y)
    >>> bool(abs(model.coef_ - [1, 0, 0, -0.5, 0]).max() < 0.15)
    True
    """

    _law, _power = PoissonDeviance, 1
    _least_scale = 1.0


class PrivateGammaRegressor(LogLinkModel):
    """Differentially private gamma regression: positive numbers whose mean is an exponential.

    It minimises ``1 / n_samples * sum_i (y_i / m_i + log(m_i)) + alpha / 2 * ||w||^2`` with the
    means ``m_i = exp(x_i'w + b)``, as scikit-learn's `GammaRegressor` does. The coefficients are
    (epsilon, delta)-differentially private: replacing one record, features and target, changes the
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
    alpha : float, default=0.01
        Weight of the penalty, >= 0, in scikit-learn's units: against half the mean deviance, for
        coefficients of X as given. scikit-learn's default, 1, shrinks a model to almost nothing if
        columns have deviations of about 1.
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. If none is declared
        ("auto" or None), bounds are found privately, for a small part of the budget; with too few
        records for that they are 1. "auto" also means 1 with ``solver="sgd"``, which a warning
        says, and with an ``init`` the bounds that it has found, or 1 if it has found none.
    target_bound : float, Schema or None, default=None
        Public bound on y: targets are clipped to [0, target_bound]. It may be generous: with enough
        records a centre and the spread of y are found privately. None also finds the magnitude of
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
        Whether to estimate the uncertainty of the coefficients: `coef_standard_error_`, `confint`
        and `summary`. Two thirds of the budget's mu^2 then pay for a Newton step after gradient
        descent, whose errors are known; ``solver`` must be "auto" or "gradient-descent".
        Coefficients are not shrunk then. Variances need not be those of the law.
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
        Coefficients of the logarithm of the mean.
    intercept_ : float
    target_range_ : ndarray of shape (2,)
        Interval to which predictions are clipped: up to a noisy estimate of the largest target in
        the fit, and down to a ten-thousandth of the scale of y. A release.
    feature_bound_ : ndarray of shape (n_features,)
        The bounds that were found or chosen; only with ``feature_bound="auto"`` or None.
    feature_range_ : ndarray of shape (2, n_features)
        Interval to which predictions clip every column: its bounds, or a smaller interval if
        features were conditioned. It is a release.
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
    PrivatePoissonRegressor : For counts.
    PrivateHuberRegressor : For numbers of any sign, without a link.
    sklearn.linear_model.GammaRegressor : The model without privacy.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record, and the number of records is
    public, unless ``relation`` says that a record is added or removed. The number and names of the
    features and their dtypes are public. Errors in the input (a NaN, say)
    are reported to the caller and are not covered by the guarantee. The loss is
    linear where a target exceeds its mean by more than the largest target exceeds a typical one.
    Targets below a ten-thousandth of the scale of y, which is found privately, count as that.
    Proofs: docs/proofs/gradient_descent.md.

    References
    ----------
    J. A. Nelder, R. W. M. Wedderburn. Generalized Linear Models. Journal of the Royal Statistical
    Society A 135, 1972.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateGammaRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> y = np.exp(3 + X[:, 0] - 0.5 * X[:, 3]) * rng.gamma(2.0, 0.5, size=20000)
    >>> model = PrivateGammaRegressor(epsilon=1.0, target_bound=1000).fit(X, y)
    >>> bool(abs(model.coef_ - [1, 0, 0, -0.5, 0]).max() < 0.15)
    True
    """

    _law, _power = GammaDeviance, 2
