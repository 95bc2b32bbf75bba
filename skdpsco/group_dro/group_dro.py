"""Private group distributionally robust optimisation."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if

from skdpsco._quiet import score_by
from skdpsco._typing import Auto, LedgerLike, MatrixLike, Seed, Self, SolverLike, TargetLike
from skdpsco._validation import (
    CLASSES_CONSTRAINTS,
    COMMON_CONSTRAINTS,
    CONDITIONING_CONSTRAINTS,
    TARGET_CONSTRAINTS,
    WEIGHTS_CONSTRAINTS,
    HasMethods,
    StrOptions,
    check_target,
    check_X_y,
    with_hints,
)
from skdpsco.base.labels import (
    declared_classes,
    encode_classes,
    labels_note,
    named_columns,
    relative_weights,
)
from skdpsco.base.linear_model import PrivateLinearModel
from skdpsco.base.predictions import within_targets
from skdpsco.constraints.sets import L2Ball
from skdpsco.data.block_records import as_blocks, blocks_of, first_record, read_records
from skdpsco.data.record_sums import BlockDesign
from skdpsco.data.row_blocks import without
from skdpsco.group_dro.membership import (
    Membership,
    as_array,
    from_groups,
    membership_of,
    weighted_targets,
    with_groups,
)
from skdpsco.group_dro.options import (
    CLASSIFIERS,
    GROUP_SOLVERS,
    LOSSES,
    OPTIONS_CONSTRAINTS,
    check_options,
    check_prior,
    group_solver,
    needed_size,
    too_small,
)
from skdpsco.privacy.relations import WITHIN_GROUPS
from skdpsco.scaling.calibration import SHORT_CURVE, TargetCurve
from skdpsco.scaling.stages import Units
from skdpsco.scaling.target import Target
from skdpsco.solvers.groups.descent import GroupDescent
from skdpsco.solvers.groups.problem import GroupProblem

__all__ = ["PrivateGroupDRO"]

# For features and targets in [-1, 1], and for solvers that need a ball: their steps depend on it.
AUTO_RADIUS = 10.0


def classifies(model: Any) -> bool:
    """Whether the loss is one for classification."""
    return model.loss in CLASSIFIERS


def _has_probabilities(model: Any) -> bool:
    return model.loss == "logistic"


def _as_they_are(y: np.ndarray) -> np.ndarray:
    return y


class PrivateGroupDRO(PrivateLinearModel):
    """Differentially private linear model with a small loss on its worst group.

    It minimises ``max_g (mean loss of group g)`` over an l2 ball, which is called group
    distributionally robust optimisation (group DRO). With ``loss="logistic"`` or "hinge" it is a
    classifier for two classes, otherwise a regressor. The fit is (epsilon, delta)-differentially
    private: replacing one record changes the distribution of everything that `fit` stores by at
    most that much. **Which group a record is in is not protected, unless**
    ``group_membership="private"``.

    Parameters
    ----------
    loss : {"logistic", "hinge", "squared", "absolute"}, default="logistic"
        The loss of a record. "squared" is half the squared residual, for targets clipped to their
        range, up to a residual of their bound, and linear beyond.
    groups : array-like or None, default=None
        The public list of groups: labels, or tuples of labels for products of columns. None takes
        the labels that occur in ``sensitive_features``, or the columns of a matrix; it is not
        allowed for private membership.
    group_membership : {"public", "private"}, default="public"
        With "public", the groups of every record are public, and so are the sizes of the groups;
        neighbouring data sets differ in one record's features and target. This suits groups that
        everybody knows, such as a hospital or a state. With "private", a replaced record may also
        change its groups, and the sizes are private.
    group_prior : array-like of shape (n_groups,) or None, default=None
        Public shares of the records in every group, for private membership. They are in [1e-9, 1],
        for instance from a census but not from these data, and sum to 1 unless groups overlap. Sums
        over a group are divided by n_samples times its share, so an error in a group's share
        becomes an error in its loss. None spends a fiftieth of the budget on noisy counts, which is
        safer and costs little.
    objective : {"worst", "cvar", "average"}, default="worst"
        The mixture of the groups' mean losses that is minimised. "worst" is the worst mixture,
        "cvar" the worst mixture in which no group's weight exceeds ``1 / cvar_level`` times its
        share of the records, and "average" the mean loss over all records. (If groups overlap, a
        group's share is its size over the sum of all sizes.)
    average_weight : float, default=0.0
        Weight, in [0, 1], of the average loss beside the worst mixture. More than 0 prevents small
        groups, whose losses are noisy, from dominating.
    cvar_level : float, default=0.2
        Share of the records, in (0, 1], that counts for ``objective="cvar"``: those with the worst
        loss.
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
        Bound on the l2 norm of the coefficients without the intercept. With one feature bound b_j
        per column, features are measured in units of their bounds: the norm of ``b_j w_j`` is at
        most ``radius * max_j b_j``. "auto" is no bound for "gradient-descent", and otherwise 10 for
        features and targets in [-1, 1].
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. If none is declared
        ("auto" or None), bounds are found privately, for a small part of the budget; with too few
        records for that they are 1. A radius that is a number is in units of the bounds: with it
        "auto" means 1, which a warning says, and None is refused.
    target_bound : float, Schema or None, default=None
        Public bound on ``|y|`` for a regression, to which targets are clipped. It may be generous:
        with enough records and ``radius="auto"`` a centre and a spread of y that all groups share
        are found privately, for about a twentieth of the budget. None also finds the magnitude of
        y. With a number as radius a declared bound is the unit of targets.
    fit_intercept : bool, default=True
        Whether to fit an intercept, as the coefficient of a column of ones.
    conditioning : "auto" or None, default="auto"
        "auto" finds a centre and a scale of features privately, for at most a third of the budget's
        mu^2, if ``solver`` is given by name and there are enough records. Columns that lie on one
        side of 0, or use a small part of their bounds, then cost little accuracy. Sparse columns
        stay sparse, and are conditioned only if "gradient-descent" fits them. Without an intercept
        the centre is 0, and only scales are found. "auto" also corrects the length of
        the coefficients and the intercept by a private table of predictions and targets, for at
        most 6 % of the budget's mu^2, if there is an intercept, features are conditioned,
        ``radius="auto"``, the loss is logistic and there are enough records. Records count as in
        the worst mixture of groups that was found. None does neither.
    classes : array-like of shape (2,), Schema or None, default=None
        The public labels of y, for a classifier. None takes those that occur in y, which assumes
        that the set of labels in y is public.
    class_weight : dict or None, default=None
        Public weights of classes by label, in [1e-6, 1e6], for a classifier; 1 for those that are
        not named. They multiply losses, and the loss of a group is the mean of that, so that a
        group with many records of a heavy class has the larger loss. They must not be counted from
        the data. Scores of a weighted fit are not calibrated.
    solver : {"auto", "gradient-descent", "mirror-prox", "recursive-regularisation"} or object, \
            default="auto"
        "gradient-descent", which "auto" is, minimises the weighted mean of the groups' losses, and
        weights of groups whose noisy mean losses are larger grow between its steps; if ``radius``
        is given, the nearest coefficients in the ball are taken in the end. "mirror-prox" uses
        noisy gradients of the model and the group weights; with private membership it needs
        ``group_prior``, and it does not support "cvar". "recursive-regularisation" is mirror prox
        in rounds on parts of the records, for the worst case; with its defaults there is usually a
        single round, and a warning says so. You may pass a solver of your own, an object with
        ``plan`` and ``run``.
    n_iter : int or "auto", default="auto"
        Number of steps, 1 to 10,000. "auto" leaves it to the solver.
    random_state : int, RandomState instance or None, default=None
        None draws secret noise, anew in every fit. Anything else makes the noise reproducible and
        warns: anyone who knows it can subtract the noise.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features), or (n_features,) for the squared loss
    intercept_ : ndarray of shape (1,), or float for the squared loss
    classes_ : ndarray of shape (2,)
        For classifiers only.
    groups_ : ndarray of shape (n_groups,)
        Labels of the groups; tuples if several columns were given.
    group_weights_ : ndarray of shape (n_groups,)
        Weights of the worst mixture of groups that was found, which sum to 1.
    sensitive_columns_ : tuple
        Columns of X that hold groups, if they were given by name.
    n_iter_ : int
        Number of steps of the solver.
    n_rounds_ : int
        Number of rounds on parts of the records; 1 means that there was no recursion. Only for
        recursive solvers.
    feature_bound_ : ndarray of shape (n_features,)
        The bounds that were found or chosen; only with ``feature_bound="auto"`` or None.
    feature_range_ : ndarray of shape (2, n_features)
        Interval to which predictions clip every column: its bounds, or a smaller interval if
        features were conditioned. It is a release.
    target_range_ : ndarray of shape (2,)
        Interval to which predictions are clipped: the one to which the fit clipped targets. Only of
        regressions. It is a release.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.
    privacy_ : PrivacyReport
        The guarantee: epsilon, delta, rho, event, relation, seeded and assumptions.

    Warns
    -----
    UtilityWarning
        If a group is too small for the noise, judged by public numbers alone: its size or, if sizes
        are private, n_samples times ``group_prior``, or n_samples / n_groups without a prior. Also
        if "recursive-regularisation" does not recurse.

    See Also
    --------
    PrivateMinimaxClassifier : For the worst class or loss.
    skdpsco.group_dro.group_report : Scores by group.
    skdpsco.inspection.GroupLossDisplay : A plot of losses by group.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record. With public membership, the new
    record has the same groups, and ``privacy_.relation`` is "replace-one within groups". Once such
    a fit has been charged to a ledger, this relation holds for all charges of the ledger together.

    Errors in the input, a label outside ``groups`` among them, are reported to the caller and are
    not covered by the guarantee. Noise is inversely proportional to the size of a group, and
    proportional to the root of the number of groups that a record may be in. Proof:
    docs/proofs/group_dro.md.

    References
    ----------
    S. Sagawa, P. W. Koh, T. B. Hashimoto, P. Liang. Distributionally Robust Neural Networks for
    Group Shifts. ICLR 2020.

    R. Bassily, C. Guzmán, M. Menart. Private Algorithms for Stochastic Saddle Points and
    Variational Inequalities: Beyond Euclidean Geometry. NeurIPS 2024, section 2.1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateGroupDRO
    >>> from skdpsco.group_dro import worst_group_score
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> group = np.where(rng.random(20000) < 0.1, "north", "south")
    >>> y = X[:, 1] + np.where(group == "north", -1, 1) * X[:, 0] > 0
    >>> model = PrivateGroupDRO(classes=[False, True], groups=["north", "south"])
    >>> model = model.fit(X, y, sensitive_features=group)
    >>> bool(worst_group_score(model, X, y, sensitive_features=group) > 0.65)
    True
    """

    groups_: np.ndarray
    group_weights_: np.ndarray
    sensitive_columns_: tuple[Any, ...]
    classes_: np.ndarray

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        **CLASSES_CONSTRAINTS,
        "class_weight": WEIGHTS_CONSTRAINTS["class_weight"],
        **CONDITIONING_CONSTRAINTS,
        **OPTIONS_CONSTRAINTS,
        "groups": [None, "array-like"],
        "group_prior": [None, "array-like"],
        **TARGET_CONSTRAINTS,
        "solver": [StrOptions({"auto", *GROUP_SOLVERS}), HasMethods(["plan", "run"])],
    }
    _conditioned_solvers = ("auto", *GROUP_SOLVERS)
    _keeps_given_balls = True
    _membership: Membership  # of a draft
    _facts: dict[str, Any]  # of a draft: the public facts about the groups
    _class_weights: Any = None  # of a draft: in [0, 1], if there are any

    # A pipeline or a search passes it on without being asked to.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    @with_hints(
        max_weight="The worst group counts, as its records are; PrivateLogisticRegression has "
        "max_weight.",
    )
    def __init__(
        self,
        *,
        loss: Literal["logistic", "hinge", "squared", "absolute"] = "logistic",
        groups: ArrayLike | None = None,
        group_membership: Literal["public", "private"] = "public",
        group_prior: ArrayLike | None = None,
        objective: Literal["worst", "cvar", "average"] = "worst",
        average_weight: float = 0.0,
        cvar_level: float = 0.2,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        radius: float | Auto = "auto",
        feature_bound: ArrayLike | Auto | None = "auto",
        target_bound: float | None = None,
        fit_intercept: bool = True,
        conditioning: Auto | None = "auto",
        classes: ArrayLike | None = None,
        class_weight: Mapping[Any, float] | None = None,
        solver: Literal["auto", "gradient-descent", "mirror-prox", "recursive-regularisation"]
        | SolverLike = "auto",
        n_iter: int | Auto = "auto",
        random_state: Seed = None,
    ) -> None:
        self.loss = loss
        self.groups = groups
        self.group_membership = group_membership
        self.group_prior = group_prior
        self.objective = objective
        self.average_weight = average_weight
        self.cvar_level = cvar_level
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.max_records_per_unit = max_records_per_unit
        self.radius = radius
        self.feature_bound = feature_bound
        self.target_bound = target_bound
        self.fit_intercept = fit_intercept
        self.conditioning = conditioning
        self.classes = classes
        self.class_weight = class_weight
        self.solver = solver
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(  # type: ignore[override]
        self,
        X: MatrixLike,
        y: TargetLike = None,
        *,
        sensitive_features: Any = None,
        units: Any = None,
    ) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or blocks
            Blocks are `RowBlocks` of arrays or files, or an Arrow table, for the solver
            "gradient-descent".
            Their targets and groups are kept in memory, some 40 bytes per record; a classifier
            needs ``classes``.
        y : array-like of shape (n_samples,) or None, default=None
            Classes, or targets of a regression; None if the blocks hold them.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), \
                str or list of str
            The group of every record, which must be given. Several columns define groups as their
            products. A column name of the frame or blocks X, or a list of names, selects these
            columns and removes them from the features, here and in predictions. (To keep one as a
            feature, pass the column itself, ``X["age"]``.) An array or a frame of two or more
            boolean columns has one column per group and tells which records are in this group; a
            record may be in several groups or in none. Its groups are ``groups`` or, if these are
            None, the names of the columns, or 0, 1, ....
        units : array-like of shape (n_samples,) or None, default=None
            The unit of every record, such as a person, if ``max_records_per_unit`` is declared, and
            only then. X must be in memory.
            Groups must be private.

        Returns
        -------
        self : object
            A fit that fails leaves the estimator as it was, with the results of an earlier fit.

        Raises
        ------
        TypeError
            If a parameter or the input has the wrong type; no noise has been drawn then.
        ValueError
            If a parameter is out of range, the input is not finite and numeric,
            ``sensitive_features`` is missing, has another length or a label outside ``groups``, or
            a public group has no members; no noise has been drawn then.
        BudgetExceededError
            If the ledger's remaining budget is too small.
        """
        self._validate_params()
        check_options(self)
        if sensitive_features is None:
            raise ValueError(
                f"{type(self).__name__}.fit needs sensitive_features, the group of every record. "
                "In a pipeline pass step__sensitive_features=..., or switch on metadata routing "
                "and pass sensitive_features=...."
            )
        draft = self._draft()
        given = self._of_units(units, X=X, y=y, sensitive_features=sensitive_features)
        draft.coef_, draft.intercept_ = draft._learn(*given)
        return self._accept(draft)

    def _learn(self, X, y, sensitive_features=None):
        X, t, notes, membership, columns = self._records(X, y, sensitive_features)
        self._membership, self._facts = membership, self._public_facts(membership)
        notes = (*notes, *self._notes(membership))
        regression = not classifies(self)
        bound = self.target_bound if regression else None
        self._class_weights = (
            None if regression else relative_weights(self.class_weight, self.classes_)
        )
        coef, offset = self._fit(X, t, LOSSES[self.loss], bound, notes, regression)
        if classifies(self):
            coef, offset = np.atleast_2d(coef), np.atleast_1d(offset)
        self.groups_ = as_array(membership.groups)
        self.sensitive_columns_ = columns
        return coef, offset

    def _records(self, X: Any, y: Any, sensitive_features: Any) -> tuple[Any, ...]:
        """Records, their targets (None for blocks), notes, groups, and the columns of groups."""
        blocks = blocks_of(X, y)
        if blocks is None:
            frame, columns = X, named_columns(X, sensitive_features)
            X, y = check_X_y(self, without(X, columns), y, y_numeric=not classifies(self))
            membership = membership_of(self.groups, frame, sensitive_features, X.shape[0])
            return X, *self._encode(y), membership, columns
        columns = named_columns(first_record(blocks), sensitive_features)
        features, y, labels = blocks.labelled(columns)
        as_blocks(features, None)  # it checks that they are numeric and have targets
        labels = labels if columns else sensitive_features
        membership = membership_of(self.groups, None, labels, blocks.n_samples)
        if classifies(self):
            declared_classes(self.classes)
        t, notes = self._encode(y if classifies(self) else check_target(y))
        features = features.without_target()
        records = read_records(self, features, with_groups(t, membership), _as_they_are)
        return records, None, notes, membership, columns

    def _order(self) -> float:
        return 2.0

    def _resolved_solver(self, loss: Any, n_samples: int, n_features: int, rho: float) -> Any:
        return group_solver(self.solver)

    def _problem(self, loss: Any, n_samples: int, bounds: np.ndarray, target: Target) -> Any:
        radius, _ = self._radius_and_bounds(len(bounds))
        intercept = bool(self.fit_intercept)
        if radius is None:
            solver = group_solver(self.solver)
            radius = math.inf if isinstance(solver, GroupDescent) else AUTO_RADIUS
        else:
            radius *= float(bounds.max()) / target.scale
        return GroupProblem(
            loss,
            L2Ball(radius),
            n_samples,
            len(bounds) + intercept,
            intercept,
            objective=self.objective,
            cvar_level=float(self.cvar_level),
            average_weight=float(self.average_weight),
            class_weights=self._class_weights,
            **self._facts,
        )

    def _advice(self, problem: Any, mu: float) -> tuple[str, ...]:
        needed = needed_size(problem.n_features, mu / problem.max_memberships**0.5)
        small = too_small(self._membership.groups, problem.expected_sizes, needed)
        warned = bool(small) and not problem.theta_is_fixed
        return (*super()._advice(problem, mu), *((small,) if warned else ()))

    def _follow(self, solver: Any, plan: Any, problem: Any, *data: Any) -> Any:
        X, y, rng = data
        membership = self._membership
        matrix: Any = membership.matrix
        if isinstance(X, BlockDesign):
            n_groups = len(membership.groups)
            X, matrix = X.with_targets(partial(from_groups, n_groups=n_groups)), None
        result = super()._follow(solver, plan, problem, X, y, matrix, rng)
        self.group_weights_ = result.theta
        return result

    def _curve(self, loss: Any) -> TargetCurve | None:
        if self._class_weights is not None:
            return None
        return SHORT_CURVE if self.loss == "logistic" else None

    def _known_weight(self, n_samples: int) -> float:
        """The number of records if all groups were as small as the smallest, with equal weights."""
        return min(self._facts["n_groups"] * self._smallest(n_samples), float(n_samples))

    def _smallest(self, n_samples: int) -> float:
        """Number of records of the smallest group, as far as it is public."""
        prior = self._facts.get("prior") or (1.0 / self._facts["n_groups"],)
        return float(min(self._facts.get("group_sizes") or [n_samples * p for p in prior]))

    def _calibration_targets(self, result: Any, y: Any, n_samples: int) -> tuple[Any, float]:
        # As far as losses of groups are noise, all records count alike.
        shares = result.sizes / result.sizes.sum()
        theta = result.theta + result.doubt * (shares - result.theta)
        rates, membership = theta / result.sizes, self._membership
        if self.group_membership == "public":
            rates /= float((membership.matrix @ rates).max())
        else:  # by the largest weight that a record could have
            rates /= rates.sum() if membership.overlapping else rates.max()
        total = float(rates @ result.sizes)
        if y is None:  # blocks
            return partial(weighted_targets, rates=rates), total
        return np.column_stack([y, membership.matrix @ rates]), total

    @available_if(classifies)
    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Score of the second class, which is its log-odds for the logistic loss.

        Only classifiers have this method.

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
        return scores[:, 0] if classifies(self) else scores

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predict the class, or the target.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            May contain the columns that ``sensitive_features`` named; they are not used.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            The more probable class of every record, or its predicted target.
        """
        scores = self._scores(X)
        if classifies(self):
            return self.classes_[(scores > 0.0).astype(int)]
        return within_targets(self, scores)

    def _set_ranges(self, units: Units) -> None:
        super()._set_ranges(units)
        if not classifies(self):
            self.target_range_ = units.target.range

    @available_if(_has_probabilities)
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probability of every class, available for the logistic loss only.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        p : ndarray of shape (n_samples, 2)
        """
        z = self._scores(X)
        return np.column_stack([expit(-z), expit(z)])

    def score(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy, or R^2 of a regression, over all records; without noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True classes or targets.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the records; None weighs all of them the same.

        Returns
        -------
        score : float
            See `worst_group_score` for the score of the worst group.
        """
        metric = accuracy_score if classifies(self) else r2_score
        return score_by(metric, y, self.predict(X), sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if classifies(self):
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(poor_score=True, multi_class=False)
        else:
            tags.estimator_type = "regressor"
            tags.regressor_tags = RegressorTags(poor_score=True)
        return tags

    @property
    def _relation(self) -> str:
        return super()._relation if self.group_membership == "private" else WITHIN_GROUPS

    def _public_facts(self, membership: Membership) -> dict[str, Any]:
        """What a planner may know about the groups.

        Raises
        ------
        TypeError
            If ``group_prior`` does not hold numbers.
        ValueError
            If ``group_prior`` has the wrong shape, range or sum, or a public group has no members.
        """
        k = len(membership.groups)
        if self.group_membership == "private":
            prior = check_prior(self.group_prior, k, membership.overlapping)
            most = k if membership.overlapping else 1  # for any matrix of this shape
            return {"n_groups": k, "prior": prior, "max_memberships": most}
        membership.check_no_group_is_empty()
        most = int(np.diff(membership.matrix.indptr).max())
        sizes = tuple(map(int, membership.sizes))
        return {"n_groups": k, "group_sizes": sizes, "max_memberships": most}

    def _notes(self, membership: Membership) -> tuple[str, ...]:
        """What a report says about the groups."""
        source = "declared" if self.groups is not None else "read off sensitive_features"
        notes = [f"the {len(membership.groups)} groups are public ({source})"]
        if self.group_membership == "public":
            s = "s" if membership.overlapping else ""
            notes.append(
                f"the group{s} of every record {'are' if s else 'is'} public: a replaced record "
                f"stays in its group{s}"
            )
        elif self.group_prior is not None:
            notes.append("the shares of the groups are public (group_prior)")
        return tuple(notes)

    def _encode(self, y: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
        """Targets as the solver sees them, and what the report says about them."""
        if not classifies(self):
            return y, ()
        self.classes_, index = encode_classes(y, self.classes)
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported, not {len(self.classes_)} classes: "
                f"loss={self.loss!r} needs y and classes to hold two labels."
            )
        return 2.0 * index - 1.0, (labels_note(self.classes_, self.classes),)
