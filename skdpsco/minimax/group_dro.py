"""Private group distributionally robust optimisation."""

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if

from skdpsco._design import as_design
from skdpsco._estimator import PrivateLinearModel, _brief, _Unscale
from skdpsco._progress import progress_bar
from skdpsco._random import warn_utility
from skdpsco._target import Target
from skdpsco._validation import (
    CLASSES_CONSTRAINTS,
    COMMON_CONSTRAINTS,
    check_X_y,
    encode_classes,
    labels_note,
)
from skdpsco.constraints import L2Ball
from skdpsco.solvers import check_cost
from skdpsco.solvers.group_moments import (
    GroupMoments,
    GroupProblem,
    LogisticMoments,
    SquaredMoments,
    needed_size,
)

from ._groups import as_array, index_groups, labels_of, named_columns, without
from ._objective import LEGAL, check_options, mixtures, too_small

AUTO_RADIUS = 10.0  # in units where features and targets lie in [-1, 1]: a safety net
_ABSENT = ("solver", "n_iter")


def _classifies(model: "PrivateGroupDRO") -> bool:
    return model.loss == "logistic"


class PrivateGroupDRO(PrivateLinearModel):
    """Differentially private linear model with a small loss on its worst group.

    Minimises ``max_g mean loss of group g`` over an l2 ball: group distributionally robust
    optimisation (group DRO). With ``loss="logistic"`` it is a classifier of two classes, with
    ``loss="squared"`` a regressor. The fit is (epsilon, delta)-differentially private:
    replacing the features and the target of one record changes the law of everything that `fit`
    stores by at most that much. **Which group a record is in is not protected**, see
    ``group_membership``.

    Parameters
    ----------
    loss : {"logistic", "squared"}, default="logistic"
        The squared loss is half the squared residual for targets clipped to ``target_bound``; it
        grows linearly in predictions beyond that bound.
    groups : array-like or None, default=None
        The public list of groups: labels, or tuples of labels for products of columns. None takes
        the labels that occur in ``sensitive_features``.
    group_membership : {"public"}, default="public"
        The group of every record, hence the size of every group, is public: neighbouring data sets
        differ in one record's features and target. That suits groups which everybody knows, a
        hospital or a state. Secret membership is not offered yet.
    objective : {"worst", "cvar", "average"}, default="worst"
        Which mixture of the groups' mean losses is minimised: the worst one; the worst one in which
        no group counts more than ``1 / cvar_level`` times its share of the records; or that of the
        shares, which is the mean loss over all records.
    average_weight : float, default=0.0
        In [0, 1]: weight of the mean loss over all records beside the worst mixture. More than 0
        keeps small groups, whose losses are noisy, from deciding everything.
    cvar_level : float, default=0.2
        In (0, 1], for ``objective="cvar"``: the worst so large share of the records counts.
    epsilon : float, default=1.0
        Privacy budget, > 0. Smaller is more private.
    delta : float, default=1e-6
        Privacy budget, in (0, 1); far below 1 / n_samples.
    ledger : Ledger or None, default=None
        Charged with the cost of every fit before noise is drawn; what would exceed its budget
        raises `BudgetExceededError`, and nothing is fitted.
    radius : float or "auto", default="auto"
        Bound on the l2 norm of the coefficients, the intercept excepted. With one feature bound per
        column, features are measured in units of their bounds: the norm is that of ``b_j w_j``, and
        at most ``radius * max_j b_j``. "auto" is 10 where features and targets are in [-1, 1].
    feature_bound : float or array-like of shape (n_features,), default=1.0
        Public bound on ``|X|``; what lies beyond is clipped.
    target_bound : float, default=1.0
        Public bound on ``|y|`` for the squared loss; what lies beyond is clipped.
    fit_intercept : bool, default=True
        Whether to fit an intercept, as the coefficient of a column of ones.
    classes : array-like of shape (2,) or None, default=None
        The public labels of y, for the logistic loss. None takes those that occur, and so assumes
        that which labels occur is public.
    verbose : int, default=0
        With 1, fits longer than a second show a progress bar.
    random_state : int, RandomState instance or None, default=None
        None draws secret noise, anew in every fit. Anything else makes the noise reproducible and
        warns: whoever knows it can subtract the noise.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features), or (n_features,) for the squared loss
    intercept_ : ndarray of shape (1,), or float for the squared loss
    classes_ : ndarray of shape (2,)
        For the logistic loss only.
    groups_ : ndarray of shape (n_groups,)
        Labels of the groups; tuples where several columns were given.
    group_weights_ : ndarray of shape (n_groups,)
        The mixture of groups that was found to be the worst. It sums to 1.
    sensitive_columns_ : tuple
        Columns of X that hold groups, if they were given by name.
    n_iter_ : int
        Rounds in which losses and gradients of all groups were released.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if X has string column names.
    privacy_ : PrivacyReport
        The guarantee: epsilon, delta, rho, event, relation, seeded and assumptions.

    Warns
    -----
    UtilityWarning
        From public sizes alone: about groups that are too small for the noise.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record by another of the same group; so
    do those of a ledger, for all its charges together, once such a fit has been charged to it.
    Errors in the input are reported to the caller and are not covered by the guarantee. Noise is
    inversely proportional to the size of a group. Proof: docs/proofs/group_dro.md.

    References
    ----------
    S. Sagawa, P. W. Koh, T. B. Hashimoto, P. Liang. Distributionally Robust Neural Networks for
    Group Shifts. ICLR 2020.

    R. Bassily, C. Guzmán, M. Menart. Private Algorithms for Stochastic Saddle Points and
    Variational Inequalities: Beyond Euclidean Geometry. NeurIPS 2024, section 2.1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.minimax import PrivateGroupDRO, worst_group_score
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> group = np.where(rng.random(20000) < 0.1, "north", "south")
    >>> y = X[:, 1] + np.where(group == "north", -1, 1) * X[:, 0] > 0
    >>> model = PrivateGroupDRO(classes=[False, True], groups=["north", "south"])
    >>> model = model.fit(X, y, sensitive_features=group)
    >>> bool(worst_group_score(model, X, y, sensitive_features=group) > 0.65)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: rule for name, rule in COMMON_CONSTRAINTS.items() if name not in _ABSENT},
        **CLASSES_CONSTRAINTS,
        **{name: [str] for name in LEGAL},
        "groups": [None, "array-like"],
        "average_weight": [Real],
        "cvar_level": [Real],
        "target_bound": [Real],
    }
    # A pipeline or a search passes it on without being asked to.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def __init__(
        self,
        *,
        loss="logistic",
        groups=None,
        group_membership="public",
        objective="worst",
        average_weight=0.0,
        cvar_level=0.2,
        epsilon=1.0,
        delta=1e-6,
        ledger=None,
        radius="auto",
        feature_bound=1.0,
        target_bound=1.0,
        fit_intercept=True,
        classes=None,
        verbose=0,
        random_state=None,
    ):
        self.loss = loss
        self.groups = groups
        self.group_membership = group_membership
        self.objective = objective
        self.average_weight = average_weight
        self.cvar_level = cvar_level
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.radius = radius
        self.feature_bound = feature_bound
        self.target_bound = target_bound
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X, y, *, sensitive_features=None):
        """Fit the model privately.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), \
                str or list of str
            The group of every record; it must be given. Groups are products of several columns. A
            name, or a list of names, of columns of the frame X takes these columns and removes them
            from the features, here and in predictions. (To keep one as a feature, pass the column
            itself, ``X["age"]``.)

        Returns
        -------
        self : object
            A fit that fails leaves it as it was: what an earlier fit learnt is kept.

        Raises
        ------
        ValueError, TypeError
            Before any noise is drawn, for parameters out of range, for input that is not finite
            and numeric, for ``sensitive_features`` that are missing, of another length or with a
            label outside ``groups``, and for a group without members.
        BudgetExceededError
            If the ledger has not enough left.
        """
        self._validate_params()
        check_options(self)
        if sensitive_features is None:
            raise ValueError(
                f"{type(self).__name__}.fit needs sensitive_features: the group of every record. "
                "In a pipeline pass step__sensitive_features=..., or switch on metadata routing "
                "and pass sensitive_features=...."
            )
        draft = self._draft()
        columns = named_columns(X, sensitive_features)
        labels = labels_of("sensitive_features", X, sensitive_features)
        X, y = check_X_y(draft, without(X, columns), y, y_numeric=not _classifies(self))
        groups, index = index_groups(self.groups, labels, X.shape[0])
        sizes = np.bincount(index, minlength=len(groups))
        with np.errstate(all="ignore"):  # an underflow would tell something about the data
            t, target_scale, notes = draft._encode(y)

        n, d = X.shape
        budget = self._budget()
        radius, bounds = self._radius_and_bounds(d)
        largest, intercept = float(bounds.max()), bool(self.fit_intercept)
        radius = AUTO_RADIUS if radius is None else radius * largest / target_scale
        problem = GroupProblem(
            LogisticMoments() if _classifies(self) else SquaredMoments(),
            L2Ball(radius),
            n,
            d + intercept,
            intercept,
            group_sizes=tuple(map(int, sizes)),
            average_weight=float(self.average_weight),
            **mixtures(self.objective, float(self.cvar_level), sizes),
        )
        available = self._available(budget)
        solver = GroupMoments()
        with self._planning(n, d):
            plan = solver.plan(problem, available)
            check_cost(plan.event, available)
        design = as_design(X, bounds, intercept)
        small = too_small(groups, sizes, needed_size(d + intercept, available.mu))
        if small and self.objective != "average":
            warn_utility(small)

        # What the fit costs is known. Noise may be drawn from here on.
        rng, seeded = self._open(plan.event)
        with (
            np.errstate(all="ignore"),  # an underflow would tell something about the data
            progress_bar(self.verbose, plan.n_iter, type(self).__name__) as counter,
        ):
            result = solver.run(plan, problem, design, t, index, rng, counter)

        source = "read off sensitive_features" if self.groups is None else "declared"
        assumptions = (
            f"features are clipped to +-{_brief(bounds)}",
            *notes,
            f"the {len(groups)} groups are public ({source})",
            "the group of every record is public: a replaced record stays in its group",
        )
        draft.privacy_ = self._report(budget, plan.event, seeded, assumptions)
        coef, offset = _Unscale(bounds, intercept, 1, Target(1.0, 0.0, target_scale))(result.coef)
        if _classifies(self):
            coef, offset = np.atleast_2d(coef), np.atleast_1d(offset)
        draft.coef_, draft.intercept_ = coef, offset
        draft.groups_, draft.group_weights_ = as_array(groups), result.theta
        draft.sensitive_columns_ = columns
        draft.n_iter_ = result.n_iter
        return self._accept(draft)

    def _encode(self, y: np.ndarray) -> tuple[np.ndarray, float, tuple[str, ...]]:
        """Targets as the solver sees them, their scale, and what the report says about them."""
        if not _classifies(self):
            bound = float(self.target_bound)
            return (
                np.clip(y, -bound, bound) / bound,
                bound,
                (f"targets are clipped to +-{bound:g}",),
            )
        self.classes_, index = encode_classes(y, self.classes)
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported, not {len(self.classes_)} classes: "
                "loss='logistic' needs y and classes to hold two labels."
            )
        return index - 0.5, 1.0, (labels_note(self.classes_, self.classes),)

    @available_if(_classifies)
    def decision_function(self, X):
        """Log-odds of the second class; for the logistic loss only.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return self._scores(X)

    def _scores(self, X):
        X = without(X, getattr(self, "sensitive_columns_", ()))
        scores = self._predictions(X)
        return scores[:, 0] if _classifies(self) else scores

    def predict(self, X):
        """Predict the class, or the target.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            May contain the columns that ``sensitive_features`` named; they are not used.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        scores = self._scores(X)
        return self.classes_[(scores > 0.0).astype(int)] if _classifies(self) else scores

    @available_if(_classifies)
    def predict_proba(self, X):
        """Probability of every class; for the logistic loss only.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        p : ndarray of shape (n_samples, 2)
        """
        p = expit(self._scores(X))
        return np.column_stack([1.0 - p, p])

    def score(self, X, y, sample_weight=None):
        """Accuracy, or R^2 of a regression, over all records; without noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        score : float
            See `worst_group_score` for that of the worst group.
        """
        metric = accuracy_score if _classifies(self) else r2_score
        return metric(y, self.predict(X), sample_weight=sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if _classifies(self):
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(poor_score=True, multi_class=False)
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags(poor_score=True)
        return tags
