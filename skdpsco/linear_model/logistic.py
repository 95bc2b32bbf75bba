"""Private logistic regression in an l1 ball."""

from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.base import ClassifierMixin

from skdpsco._estimator import PrivateLinearModel
from skdpsco._validation import (
    CLASSES_CONSTRAINTS,
    COMMON_CONSTRAINTS,
    check_fit_params,
    check_X_y,
    encode_classes,
    labels_note,
)
from skdpsco.losses import Logistic, Multinomial


class PrivateLogisticL1(ClassifierMixin, PrivateLinearModel):
    """Differentially private logistic regression in an l1 ball.

    Minimises the mean logistic loss subject to ``||w||_1 <= radius``, the constrained form of
    ``LogisticRegression(penalty="l1")``. With more than two classes the softmax cross-entropy is
    minimised as one problem, over the joint l1 norm of all coefficients. The coefficients are
    (epsilon, delta)-differentially private: replacing one record, features and label, changes the
    law of everything that `fit` stores by at most that much.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0. Smaller is more private.
    delta : float, default=1e-6
        Privacy budget, in (0, 1); far below 1 / n_samples.
    ledger : Ledger or None, default=None
        Charged with the cost of every fit before noise is drawn; what would exceed its budget
        raises `BudgetExceededError`, and nothing is fitted.
    radius : float or "auto", default="auto"
        Bound on the l1 norm of all coefficients. (With the Frank-Wolfe solvers the intercepts
        count too.) "auto" runs a path of growing radius and spends a tenth of the budget to choose
        a point on it.
    feature_bound : float or array-like of shape (n_features,), default=1.0
        Public bound on ``|X|``; what lies beyond is clipped. With one bound per column, features
        are measured in units of their bounds: the ball is
        ``sum_j b_j |w_j| <= radius * max_j b_j``.
    solver : {"stagewise", "frank-wolfe", "frank-wolfe-laplace", "noisy-frank-wolfe"} or solver, \
            default="stagewise"
        See `skdpsco.solvers`. The last three need a number as radius.
    n_iter : int or "auto", default="auto"
        Number of private steps of the solver, at most 10000. "auto" computes it from public sizes
        and from what was released before, never from the data.
    fit_intercept : bool, default=True
        Whether to fit an intercept, as the coefficient of a column of ones.
    classes : array-like of shape (n_classes,) or None, default=None
        The public labels. None takes those that occur in y, and so assumes that which labels occur
        is public. Declare them if one of them might be absent.
    verbose : int, default=0
        With 1, fits longer than a second show a progress bar.
    random_state : int, RandomState instance or None, default=None
        None draws secret noise, anew in every fit. Anything else makes the noise reproducible and
        warns: whoever knows it can subtract the noise.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Number of private steps.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if X has string column names.
    privacy_ : PrivacyReport
        The guarantee: epsilon, delta, rho, event, relation, seeded and assumptions.
    radius_ : float
        Radius of the l1 ball that the solution is in ("stagewise" only). With "auto" it is twice
        that of the chosen point; it is large, and of no meaning, where all coordinates were fitted
        and nothing was chosen.
    path_ : RadiusPath
        ``radius`` and ``coef`` of the solutions of smaller radii, at no further cost
        ("stagewise" only).

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record; the number of records, the
    number and names of the features, their dtypes and the set of labels are public. Errors in the
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
        **CLASSES_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=1e-6,
        ledger=None,
        radius="auto",
        feature_bound=1.0,
        solver="stagewise",
        n_iter="auto",
        fit_intercept=True,
        classes=None,
        verbose=0,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.radius = radius
        self.feature_bound = feature_bound
        self.solver = solver
        self.n_iter = n_iter
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X, y, **fit_params):
        """Fit the model privately.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **fit_params : dict
            Only ``sample_weight=None`` is allowed.

        Returns
        -------
        self : object
            A fit that fails leaves it as it was: what an earlier fit learnt is kept.

        Raises
        ------
        ValueError, TypeError
            Before any noise is drawn, for parameters out of range, for input that is not finite
            and numeric, and for labels that are not among ``classes``.
        BudgetExceededError
            If the ledger has not enough left.
        """
        check_fit_params(fit_params)
        self._validate_params()
        draft = self._draft()
        X, y = check_X_y(draft, X, y, y_numeric=False)
        draft.classes_, index = encode_classes(y, self.classes)
        n_classes = len(draft.classes_)
        assumptions = (labels_note(draft.classes_, self.classes),)
        if n_classes == 2:
            loss, target = Logistic(), 2.0 * index - 1.0
        else:
            loss, target = Multinomial(n_classes), index.astype(np.float64)
        coef, intercept = draft._fit(X, target, loss, None, assumptions)
        draft.coef_, draft.intercept_ = np.atleast_2d(coef), np.atleast_1d(intercept)
        return self._accept(draft)

    def decision_function(self, X):
        """Log-odds of the second class, or one prediction per class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        scores = self._predictions(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X):
        """Predict the most likely class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        if len(self.classes_) == 2:
            return self.classes_[(scores > 0.0).astype(int)]
        return self.classes_[scores.argmax(axis=1)]

    def predict_proba(self, X):
        """Probability of every class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        if len(self.classes_) == 2:
            p = expit(scores)
            return np.column_stack([1.0 - p, p])
        return softmax(scores, axis=1)

    def predict_log_proba(self, X):
        """Logarithm of the probability of every class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        if len(self.classes_) == 2:
            scores = np.column_stack([np.zeros_like(scores), scores])
        return log_softmax(scores, axis=1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags
