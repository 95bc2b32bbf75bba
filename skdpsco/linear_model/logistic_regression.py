"""Private logistic regression with a penalty."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike

from skdpsco._typing import Auto, LedgerLike, Seed, SolverLike
from skdpsco._validation import (
    CLASSES_CONSTRAINTS,
    COMPOSITE_CONSTRAINTS,
    WEIGHTS_CONSTRAINTS,
    with_hints,
)
from skdpsco.linear_model._classifier_regressor import LogisticClassifier
from skdpsco.linear_model._inference import CoefficientInference
from skdpsco.linear_model._penalized import CompositeModel, inverse_penalty

__all__ = ["PrivateLogisticRegression"]


class PrivateLogisticRegression(CoefficientInference, LogisticClassifier, CompositeModel):
    """Differentially private logistic regression.

    It minimises ``C * sum_i loss_i + penalty(w)`` with the logistic loss, as scikit-learn's
    `LogisticRegression` does: the penalty is ``||w||^2 / 2`` ("l2"), ``||w||_1`` ("l1") or
    ``l1_ratio * ||w||_1 + (1 - l1_ratio) * ||w||^2 / 2`` ("elasticnet"). With more than two classes
    the softmax cross-entropy is minimised as one problem, in which all coefficients are penalised.
    The coefficients are (epsilon, delta)-differentially private: replacing one record, features and
    label, changes the distribution of everything that `fit` stores by at most that much.

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
    C : float, default=1.0
        Inverse weight of the penalty, > 0; infinity means no penalty.
    penalty : {"l1", "l2", "elasticnet"} or None, default="l2"
        None means no penalty.
    l1_ratio : float, default=0.5
        Share of the l1 penalty of "elasticnet", in [0, 1].
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. If none is declared
        ("auto" or None), bounds are found privately, for a small part of the budget; with too few
        records for that they are 1. "auto" also means 1 with ``solver="sgd"``, which a warning
        says, and with an ``init`` the bounds that it has found, or 1 if it has found none.
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
        "auto" finds a centre and scales of features privately, for at most a third of the budget's
        mu^2, if ``solver`` is not "sgd" and there are enough records. Columns that lie on one side
        of 0, or use a small part of their bounds, then cost little accuracy. Coefficients and
        penalties still refer to the columns as given. Sparse columns get a centre if ``solver`` is
        "auto" or "gradient-descent", and stay sparse. Without an intercept the centre is 0, and
        only scales are found. "auto" also corrects the length of the coefficients and the intercept
        by a private table of scores and labels, for 6 % of the budget's mu^2, up to 21 % if records
        are few and less if the budget is large, if there is an intercept, and there are two classes
        and enough records for it. Probabilities then match the frequencies of labels. Scores of
        more classes are drawn towards a constant prediction, from noisy counts of classes, for up
        to 20 % if records are few. It may undo part of the shrinkage by a strong penalty; as the
        budget grows, the solution tends to that of the objective. None does neither.
    classes : array-like of shape (n_classes,), Schema or None, default=None
        The public labels. None takes those that occur in y, which assumes that the set of labels in
        y is public. Declare them if one of them might be absent.
    class_weight : dict or None, default=None
        Public weights of the classes, by label, in [1e-6, 1e6]; other labels have weight 1. They
        are never counted from the data. Scores are not calibrated then.
    max_weight : float or None, default=None
        Public bound on ``sample_weight``, to which weights are clipped; it must be declared for a
        fit with weights. They are as private as the record. The noise is as if all records had this
        weight, so small weights lose accuracy.
    standard_errors : bool, default=False
        Whether to estimate the uncertainty of the coefficients: `coef_standard_error_`, `confint`
        and `summary`. Six tenths of the budget's mu^2 then pay for a Newton step after gradient
        descent, whose errors are known; ``solver`` must be "auto" or "gradient-descent". With an l1
        penalty intervals are for coefficients without any penalty. Scores are not calibrated then.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Which data sets are neighbours. With "add-or-remove-one" the number of records is private:
        a fiftieth of the budget's rho counts them, all else is planned from this count, and solver
        must be "auto", "gradient-descent" or "sgd". There may be up to 67 million records.
    random_state : int, RandomState instance or None, default=None
        None draws secret noise, anew in every fit. Anything else makes the noise reproducible and
        warns: anyone who knows it can subtract the noise.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    feature_bound_ : ndarray of shape (n_features,)
        The bounds that were found or chosen; only with ``feature_bound="auto"`` or None.
    feature_range_ : ndarray of shape (2, n_features)
        Interval to which predictions clip every column: its bounds, or a smaller interval if
        features were conditioned. It is a release.
    n_iter_ : int
        Number of private rounds, passes or steps.
    coef_covariance_ : ndarray of shape (1, n_features, n_features) or (n_classes, n_features, \
            n_features)
        Covariance of the coefficients of each class, by sampling and by noise; only with
        ``standard_errors=True``.
    coef_standard_error_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Standard errors: the roots of the diagonal.
    uncertainty_ : Uncertainty
        Uncertainty of the coefficients and the intercept together, as `confint` and `summary` use
        it. With more than two classes its ``joint`` has the covariances of all of them.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.
    privacy_ : PrivacyReport
        The guarantee: epsilon, delta, rho, event, relation, seeded and assumptions.

    See Also
    --------
    PrivateLogisticL1 : For many features of which few matter.
    PrivateLinearClassifier : Other losses, in a ball of an l_p norm.
    PrivateMinimaxClassifier : For rare classes.
    sklearn.linear_model.LogisticRegression : The model without privacy.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record, and the number of records is
    public, unless ``relation`` says that a record is added or removed. The number and names of the
    features, their dtypes and the set of labels are public. Errors in the
    input (a NaN, say) are reported to the caller and are not covered by the guarantee. Proofs:
    docs/proofs.

    References
    ----------
    P. Mangold, A. Bellet, J. Salmon, M. Tommasi. Differentially Private Coordinate Descent for
    Composite Empirical Risk Minimization. ICML 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 20))
    >>> y = X[:, 0] - X[:, 3] > 0.1
    >>> model = PrivateLogisticRegression(epsilon=1.0, classes=[False, True]).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True

    The number of records may be private, too:

    >>> model = PrivateLogisticRegression(classes=[False, True], relation="add-or-remove-one")
    >>> model.fit(X, y).privacy_.relation
    'add-or-remove-one'
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMPOSITE_CONSTRAINTS,
        **CLASSES_CONSTRAINTS,
        **WEIGHTS_CONSTRAINTS,
    }
    _planned_with = ("C", "n_iter")

    @with_hints(alpha="The parameter `C` is the inverse weight of the penalty.")
    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        C: float = 1.0,
        penalty: Literal["l1", "l2", "elasticnet"] | None = "l2",
        l1_ratio: float = 0.5,
        feature_bound: ArrayLike | Auto | None = "auto",
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
        classes: ArrayLike | None = None,
        class_weight: Mapping[Any, float] | None = None,
        max_weight: float | None = None,
        standard_errors: bool = False,
        relation: Literal["replace-one", "add-or-remove-one"] = "replace-one",
        random_state: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.max_records_per_unit = max_records_per_unit
        self.C = C
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.feature_bound = feature_bound
        self.solver = solver
        self.n_iter = n_iter
        self.fit_intercept = fit_intercept
        self.conditioning = conditioning
        self.classes = classes
        self.class_weight = class_weight
        self.max_weight = max_weight
        self.standard_errors = standard_errors
        self.relation = relation
        self.random_state = random_state

    def _penalty(self, n_samples):
        total = n_samples * self._largest_weight()
        return inverse_penalty(self.penalty, self.C, self.l1_ratio, total)
