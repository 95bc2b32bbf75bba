"""Private logistic regression in an l1 ball."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike

from skdpsco._typing import Auto, LedgerLike, Seed, SolverLike
from skdpsco._validation import (
    CLASSES_CONSTRAINTS,
    COMMON_CONSTRAINTS,
    CONDITIONING_CONSTRAINTS,
    WEIGHTS_CONSTRAINTS,
    with_hints,
)
from skdpsco.linear_model._classifier_regressor import LogisticClassifier

__all__ = ["PrivateLogisticL1"]


class PrivateLogisticL1(LogisticClassifier):
    """Differentially private logistic regression in an l1 ball.

    It minimises the mean logistic loss subject to ``||w||_1 <= radius``, the constrained form of
    ``LogisticRegression(penalty="l1")``. With more than two classes the softmax cross-entropy is
    minimised as one problem, over the joint l1 norm of all coefficients. The coefficients are
    (epsilon, delta)-differentially private: replacing one record, features and label, changes the
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
    radius : float or "auto", default="auto"
        Bound on the l1 norm of all coefficients. (With solvers other than "stagewise", the
        intercepts count, too.) "auto" runs a path of growing radius and spends a tenth of the
        budget to choose a point on it.
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. With one bound per column,
        features are measured in units of their bounds: the ball is ``sum_j b_j |w_j| <= radius *
        max_j b_j``. If none is declared ("auto" or None), bounds are found privately, for a small
        part of the budget; with too few records for that they are 1. A radius that is a number is
        in units of the bounds: with it "auto" means 1, which a warning says, and None is refused.
    solver : {"stagewise", "frank-wolfe", "frank-wolfe-laplace", "noisy-frank-wolfe", \
            "anytime-mirror-descent"} or solver, default="stagewise"
        See `skdpsco.solvers`. All but the first need a number as radius. The last reads each record
        once, and is nearly as accurate as Frank-Wolfe.
    n_iter : int or "auto", default="auto"
        Number of private steps of the solver, at most 10000. "auto" computes it from public sizes
        and from what was released before, never from the data.
    fit_intercept : bool, default=True
        Whether to fit an intercept, as the coefficient of a column of ones.
    conditioning : "auto" or None, default="auto"
        "auto" finds a centre and scales of features privately, for at most a third of the budget's
        mu^2, if ``solver`` is "stagewise" and there are enough records. Columns that lie on one
        side of 0, or use a small part of their bounds, then cost little accuracy. Coefficients
        still refer to the columns as given. Sparse columns get a centre, and stay sparse, where all
        of them are fitted by gradient descent: with ``radius="auto"`` and ``n_iter="auto"``, from n
        mu = 3.5 n_features on, or below 25 log(2 n_features), as long as there is more than hardly
        any noise. Without an intercept the centre is 0, and only scales are found. "auto" also
        corrects the length of the coefficients and the intercept by a private table of scores and
        labels, for 6 % of the budget's mu^2, up to 21 % if records are few and less if the budget
        is large, if there is an intercept, and there are two classes and enough records for it.
        Probabilities then match the frequencies of labels. Scores of more classes are drawn towards
        a constant prediction, from noisy counts of classes, for up to 20 % if records are few.
        Coefficients stay in the ball. None does neither.
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
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Which data sets are neighbours. With "add-or-remove-one" the number of records is private:
        a fiftieth of the budget's rho counts them, and all else is planned from this count.
        "anytime-mirror-descent" cannot do so. There may be up to 67 million records.
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
        Number of private steps.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.
    privacy_ : PrivacyReport
        The guarantee: epsilon, delta, rho, event, relation, seeded and assumptions.
    radius_ : float
        Radius of an l1 ball that contains the solution ("stagewise" only). With "auto" it is twice
        that of the chosen point. It is large and meaningless if all coordinates were fitted and
        nothing was chosen.
    path_ : RadiusPath
        ``radius`` and ``coef`` of the solutions of smaller radii, at no further cost and without
        calibration ("stagewise" only).

    See Also
    --------
    PrivateLogisticRegression : With a penalty in place of a radius.
    PrivateLasso : For a number.
    PrivateLinearClassifier : Other losses and other norms.
    sklearn.linear_model.LogisticRegression : The model without privacy, with a penalty.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record, and the number of records is
    public, unless ``relation`` says that a record is added or removed. The number and names of the
    features, their dtypes and the set of labels are public. Errors in the
    input (a NaN, say) are reported to the caller and are not covered by the guarantee. Proofs:
    docs/proofs.

    References
    ----------
    K. Talwar, A. Thakurta, L. Zhang. Nearly Optimal Private LASSO. NeurIPS 2015, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLogisticL1
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 50))
    >>> y = X[:, 0] - X[:, 3] > 0.1
    >>> model = PrivateLogisticL1(epsilon=1.0, classes=[False, True]).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        **CONDITIONING_CONSTRAINTS,
        **CLASSES_CONSTRAINTS,
        **WEIGHTS_CONSTRAINTS,
    }

    @with_hints(
        C="The parameter `radius` bounds the l1 norm of the coefficients in its place; "
        "PrivateLogisticRegression(penalty='l1') has C.",
        standard_errors="PrivateLogisticRegression has them, also with penalty='l1'.",
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
        classes: ArrayLike | None = None,
        class_weight: Mapping[Any, float] | None = None,
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
        self.solver = solver
        self.n_iter = n_iter
        self.fit_intercept = fit_intercept
        self.conditioning = conditioning
        self.classes = classes
        self.class_weight = class_weight
        self.max_weight = max_weight
        self.relation = relation
        self.random_state = random_state
