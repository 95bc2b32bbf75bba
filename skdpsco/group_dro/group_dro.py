"""Private group distributionally robust optimisation."""

import math
from dataclasses import field
from functools import partial
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if

from skdpsco._quiet import score_by
from skdpsco._typing import MatrixLike, Self, SolverLike, TargetLike
from skdpsco._validation import (
    HasMethods,
    Interval,
    Real,
    StrOptions,
    check_target,
    check_X_y,
)
from skdpsco.base.labels import (
    declared_classes,
    encode_classes,
    labels_note,
    named_columns,
    relative_weights,
)
from skdpsco.base.linear_model import PrivateLinearModel
from skdpsco.base.parameters import (
    BallParameters,
    ClassParameters,
    Constraints,
    TargetParameters,
    with_parameters,
)
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


@with_parameters(
    max_weight="The worst group counts, as its records are; PrivateLogisticRegression has "
    "max_weight.",
    objective="Use cvar_level: 0 for the worst group, 1 for the average.",
)
class PrivateGroupDRO(BallParameters, ClassParameters, TargetParameters, PrivateLinearModel):
    """Differentially private linear model with a small loss on its worst group.

    It minimises ``max_g (mean loss of group g)``. **Which group a record is in is not protected,
    unless** ``group_membership="private"``.

    Parameters
    ----------
    loss : {"logistic", "hinge", "squared", "absolute"}, default="logistic"
        The first two classify two classes; the others predict numbers.
    groups : array-like or None, default=None
        All groups: labels, or tuples of labels. None makes those passed to `fit` public.
    group_membership : {"public", "private"}, default="public"
        Whether a record's group is protected.
    group_prior : array-like of shape (n_groups,) or None, default=None
        Public shares of groups, for private membership. None estimates them privately.
    cvar_level : float, default=0.0
        Share of the records, worst groups first, whose mean loss is minimised (conditional value at
        risk): 0 for the worst group, 1 for all.
    average_weight : float, default=0.0
        Weight of the average loss, in [0, 1].
    {epsilon, delta, ledger, max_records_per_unit, radius_of_l2_ball}
        "auto" means no bound for "gradient-descent", a wide one otherwise.
    {feature_bound, target_bound, fit_intercept, classes, class_weight}
    solver : str or object, default="auto"
        "gradient-descent" ("auto"), "mirror-prox" or "recursive-regularisation". See
        :doc:`/algorithms`.
    {n_iter, random_state}

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_features,)
    intercept_ : ndarray of shape (1,) or float
    classes_ : ndarray of shape (2,)
    groups_ : ndarray of shape (n_groups,)
    group_weights_ : ndarray of shape (n_groups,)
        The worst groups have the largest.
    sensitive_columns_ : tuple
        Columns of X that hold groups.
    {n_iter_, n_rounds_, feature_bound_, feature_range_, target_range_}
    {n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateMinimaxClassifier : For the worst class or loss.

    Notes
    -----
    `fit` is (epsilon, delta)-differentially private for the replacement of one record by another of
    its group; by any other with ``group_membership="private"``. See :doc:`/threat-model`.
    Proof: :doc:`/proofs/group_dro`.

    References
    ----------
    Sagawa et al. Distributionally Robust Neural Networks for Group Shifts. ICLR 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateGroupDRO
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 2))
    >>> y, group = X[:, 0] > 0, np.where(X[:, 1] < -0.8, "north", "south")
    >>> PrivateGroupDRO(classes=[False, True]).fit(X, y, sensitive_features=group).score(X, y) > 0.8
    True
    """

    loss: Literal["logistic", "hinge", "squared", "absolute"] = "logistic"
    groups: ArrayLike | None = None
    group_membership: Literal["public", "private"] = "public"
    group_prior: ArrayLike | None = None
    cvar_level: float = 0.0
    average_weight: float = 0.0
    solver: (
        Literal["auto", "gradient-descent", "mirror-prox", "recursive-regularisation"] | SolverLike
    ) = "auto"

    groups_: np.ndarray = field(init=False)
    group_weights_: np.ndarray = field(init=False)
    sensitive_columns_: tuple[Any, ...] = field(init=False)
    classes_: np.ndarray = field(init=False)
    target_range_: np.ndarray = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        "loss": [StrOptions(set(LOSSES))],
        "group_membership": [StrOptions({"public", "private"})],
        "average_weight": [Interval(Real, 0, 1, closed="both")],
        "cvar_level": [Interval(Real, 0, 1, closed="both")],
        "groups": [None, "array-like"],
        "group_prior": [None, "array-like"],
        "solver": [StrOptions({"auto", *GROUP_SOLVERS}), HasMethods(["plan", "run"])],
    }
    _conditioned_solvers = ("auto", *GROUP_SOLVERS)
    _keeps_given_balls = True
    _membership: Membership = field(init=False)  # of a draft
    _facts: dict[str, Any] = field(init=False)  # of a draft: the public facts about the groups
    _class_weights = cast("Any", None)  # of a draft: in [0, 1], if there are any

    # A pipeline or a search passes it on without being asked to.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

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
            Blocks are `RowBlocks` of arrays or files, or an Arrow table, for "gradient-descent"; a
            classifier then needs ``classes``.
        y : array-like of shape (n_samples,) or None, default=None
            Classes, or targets of a regression; None if the blocks hold them.
        sensitive_features : array-like, str or list of str
            The group of every record; required. Either labels, of shape (n_samples,), or
            (n_samples, n_columns) if groups are combinations of several labels; or names of columns
            of X, which then are not features; or one boolean column for each group, if groups
            overlap.
        {units}

        {outcome}
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
        records = read_records(self, features, with_groups(t, membership), np.asarray)
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
            cvar_level=float(self.cvar_level),
            average_weight=float(self.average_weight),
            class_weights=self._class_weights,
            **self._facts,
        )

    def _advice(self, problem: Any, mu: float) -> tuple[str, ...]:
        needed = needed_size(problem.n_features, mu / problem.max_memberships**0.5)
        known, declared = self._membership.groups, self.groups is not None
        small = too_small(known, problem.expected_sizes, needed, declared)
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
        k = self._facts["n_groups"]
        prior = self._facts.get("prior") or (1.0 / k,)
        smallest = min(self._facts.get("group_sizes") or [n_samples * p for p in prior])
        return min(k * float(smallest), float(n_samples))

    def _calibration_targets(self, result: Any, y: Any, n_samples: int) -> tuple[Any, float]:
        rates, membership = result.theta / result.sizes, self._membership
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

    @available_if(lambda self: self.loss == "logistic")
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
        self._class_weights = relative_weights(self.class_weight, self.classes_)
        return 2.0 * index - 1.0, (labels_note(self.classes_, self.classes),)
