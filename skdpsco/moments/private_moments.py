"""One private release of means and covariances, which answers many questions."""

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from skdpsco._typing import Auto, LedgerLike, MatrixLike, Seed, Self, TargetLike
from skdpsco._validation import (
    FLOATS,
    StrOptions,
    check_bound,
    check_feature_bound,
    check_features,
    check_fit_params,
    check_target,
    check_weights,
    check_X_y,
    is_auto,
)
from skdpsco.base.advice import BOUNDS_OF_1, PublicNumbers, advice_on, with_bounds_of_1
from skdpsco.base.labels import declared_classes, group_numbers, indicators, labels_note, labels_of
from skdpsco.base.parameters import (
    Constraints,
    FeatureParameters,
    LabelParameters,
    RecordParameters,
    RowParameters,
    TargetParameters,
    with_parameters,
)
from skdpsco.base.private_estimator import PrivateEstimator
from skdpsco.data.block_records import (
    as_blocks,
    blocks_of,
    opened,
    read_features,
    read_records,
    read_tables,
)
from skdpsco.data.block_sources import n_targets_of
from skdpsco.data.design import as_design
from skdpsco.data.pieces import MOST_RECORDS_ADDED
from skdpsco.data.record_sums import join_targets, one_blas_thread
from skdpsco.data.row_blocks import RowBlocks
from skdpsco.moments.query import MomentsQuery, QuerySums
from skdpsco.moments.release import (
    MATRIX,
    MatrixPlan,
    declared_or_found,
    most_records,
    plan_matrix,
    release_matrix,
)
from skdpsco.moments.released import MomentAnswers, ReleasedMoments
from skdpsco.moments.table_sums import TableSums
from skdpsco.privacy.relations import ADD_OR_REMOVE
from skdpsco.scaling.feature_bounds import FEATURE_BOUNDS, clipping_note

__all__ = ["MomentRelease", "PrivateMoments", "release_moments_of"]

# Indicators of classes have root mean squares of up to half of their bound, and most features have
# smaller ones. All columns share the noise in scales, so they should be alike beforehand.
INDICATOR_UNIT = 1.4
NOISE_OF_VARIANCES = (
    "The noise will be as large as the smaller variances of {} columns, which are raised to it. {} "
    "records would do, or a larger epsilon."
)


class MomentRelease:
    """Attributes that `release_moments_of` reads from an estimator, which takes sparse records.

    These are the defaults.
    """

    row_norm: Any = None  # the norm is found privately
    groups: Any = None  # there are no groups
    conditioning: Any = "auto"  # a centre and scales are found
    _labelled: Any = False  # whether targets are labels
    _group_labels: Any = None  # of a draft: as they were passed, and so are
    _sample_weight: Any = None  # the weights of records
    _said: tuple[str, ...] = ()  # further lines of the report
    target_bound: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags

    def _declared_groups(self) -> list[Any]:
        """Labels of groups; none if there are none.

        Raises
        ------
        ValueError
            If they are not one or more different labels.
        """
        if self.groups is None:
            return []
        found = labels_of("groups", None, self.groups)
        if not found or len(set(found)) < len(found):
            raise ValueError(f"groups must hold different labels, got {found!r}.")
        return found

    def _target_bounds(self, n_targets: int) -> np.ndarray | None:
        """Bounds of the targets, from one number or one for each of several; None if undeclared.

        Raises
        ------
        TypeError
            If one of them is not a number.
        ValueError
            If a bound is out of range, or there is not one per target.
        """
        value = self.target_bound
        if value is None:
            return None
        if n_targets == 1 or not isinstance(value, list | tuple | np.ndarray):
            return np.full(n_targets, check_bound("target_bound", value))
        if len(value) != n_targets:
            raise ValueError(
                f"target_bound must be a positive number, or have one for each of {n_targets} "
                f"targets; got {len(value)}."
            )
        return np.array([check_bound("target_bound", one) for one in value])

    def _check_features(self, n_features: int) -> None:
        """Allow any number of features."""

    def _check_classes(self, classes: np.ndarray) -> None:
        """Any classes will do."""


@with_parameters()
class PrivateMoments(
    FeatureParameters,
    TargetParameters,
    LabelParameters,
    RowParameters,
    RecordParameters,
    MomentAnswers,
    MomentRelease,
    PrivateEstimator,
):
    """Differentially private means and covariances of a table: one release answers many questions.

    `PrivateRidge`, `PrivateElasticNet`, `PrivateLasso` and `PrivatePCA` take it in place of
    records, with any columns, target and penalty, at no further cost.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit, feature_bound, target_bounds}
    conditioning : "auto" or None, default="auto"
        "auto" centres and scales columns privately.
    classes : array-like, Schema or None, default=None
        All labels of y, for `PrivateLinearDiscriminantAnalysis`.
    groups : array-like of shape (n_groups,) or None, default=None
        All groups, such as sites, whose moments are released as well; see `group`.
    {max_weight, row_norm_of_moments}
    {relation}
        It needs declared bounds.
    {random_state}

    Attributes
    ----------
    mean_ : ndarray of shape (n_columns,)
        Means of the features, then of the targets.
    covariance_ : ndarray of shape (n_columns, n_columns)
        Covariances, divided by n_samples. Small eigenvalues are raised to the noise.
    correlation_ : ndarray of shape (n_columns, n_columns)
    moments_ : ReleasedMoments
        All that was released.
    {n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    skdpsco.moments.ReleasedMoments : The released numbers, and what follows from them.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/private_moments`.

    References
    ----------
    Dwork, Talwar, Thakurta, Zhang. Analyze Gauss: Optimal Bounds for Privacy-Preserving Principal
    Component Analysis. STOC 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateMoments, PrivateRidge
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 5))
    >>> y = 0.5 * X[:, 0] - 0.2 * X[:, 3]
    >>> moments = PrivateMoments(epsilon=1.0).fit(X, y)
    >>> PrivateRidge().fit(moments).score(X, y) > 0.9
    True
    """

    conditioning: Auto | None = "auto"
    groups: ArrayLike | None = None

    moments_: ReleasedMoments = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        "conditioning": [None, StrOptions({"auto"})],
        "target_bound": ["array-like", *TargetParameters._parameter_constraints["target_bound"]],
        "groups": [None, "array-like"],
    }
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    @property
    def _labelled(self) -> bool:
        return self.classes is not None

    @property
    def _released(self) -> ReleasedMoments:
        check_is_fitted(self)
        return self.moments_

    def fit(
        self,
        X: MatrixLike,
        y: TargetLike = None,
        *,
        sensitive_features: Any = None,
        units: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Release the moments.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or blocks
            Blocks are `RowBlocks`, a Dask array or data frame, or an Arrow table.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or None, default=None
            Targets, which are more columns. None if there are none, or the blocks hold them.
        sensitive_features : array-like or None, default=None
            The group of every record, among ``groups``: labels, of shape (n_samples,), or one
            column of labels for each part of tuples.
        {units}
        **fit_params : dict
            ``sample_weight``, an array-like of shape (n_samples,), if ``max_weight`` is declared.

        {outcome}
        """
        weights = check_fit_params(self, fit_params)
        self._validate_params()
        if self.max_weight is not None:
            check_bound("max_weight", self.max_weight)
        if (self.groups is None) != (sensitive_features is None):
            raise ValueError(
                "sensitive_features must be given where groups are declared, and only there."
            )
        draft = self._draft()
        X, y, draft._group_labels, draft._sample_weight = self._of_units(
            units, X=X, y=y, sensitive_features=sensitive_features, sample_weight=weights
        )
        draft.moments_ = release_moments_of(draft, X, y)
        return self._accept(draft)

    @classmethod
    def from_sums(
        cls,
        query: MomentsQuery,
        sums: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        random_state: Seed = None,
    ) -> Self:
        """Release the moments of a table in a database, from the result of one query.

        Rows are neither centred nor shortened, so bounds that are close to the values matter more
        than for `fit`.

        Parameters
        ----------
        query : MomentsQuery
        sums : sequence of int, or dict of str to int
            The row that the database returned for ``query``: such as ``cursor.fetchone()``.
        {epsilon, delta, ledger, random_state}

        Returns
        -------
        moments : PrivateMoments
            Fitted, with the bounds of the query.

        Raises
        ------
        TypeError, ValueError
            As for `fit`, and if ``sums`` cannot be the result of ``query``: if it counts other than
            ``n_samples`` records, or some values are missing.
        """
        if not isinstance(query, MomentsQuery):
            raise TypeError(f"query must be a MomentsQuery, got {type(query).__name__}.")
        bounds, m = list(query.bounds.values()), query.n_targets
        d = len(bounds) - m
        of_targets: Any = (bounds[d] if m == 1 else bounds[d:]) if m else None
        model = cls(
            epsilon=epsilon,
            delta=delta,
            ledger=ledger,
            feature_bound=bounds[:d],
            target_bound=of_targets,
            conditioning=None,
            random_state=random_state,
        )
        model._validate_params()
        draft = model._draft()
        (X,) = model._of_units(None, X=query.checked(sums))
        draft._said = ("a database clipped the values and added them up (trusted)",)
        draft.moments_ = release_moments_of(draft, X, None)
        return model._accept(draft)


def release_moments_of(
    estimator: Any, X: Any, y: Any, has_target: bool | None = None, stacklevel: int = 3
) -> ReleasedMoments:
    """Check the records and release their moments, within the budget of a draft.

    Parameters
    ----------
    estimator : PrivateMoments or PrivatePCA
        A draft, which gets its report and the names of the columns.
    X, y
        As for `PrivateMoments.fit`.
    has_target : bool or None
        Whether the targets are a column; None if that depends on y.
    stacklevel : int
        Which line warnings name.
    """
    groups, weighted = estimator._declared_groups(), estimator._sample_weight is not None
    table = table_records(estimator, X, y, has_target)
    names, d = _names_of_columns(estimator, table, y), estimator.n_features_in_
    bounds, finds = _declared_bounds(estimator, table)
    plan, bounds = _planned_matrix(estimator, table, bounds, finds, len(groups) or int(weighted))
    warnings = _warnings(estimator, plan, bounds)
    with (
        one_blas_thread(),  # pieces already run in threads
        table.opened() as design,
        estimator._releasing(
            estimator, plan.event, estimator._budget(), stacklevel=stacklevel, warnings=warnings
        ) as release,
    ):
        bounds = declared_or_found(plan, design, table.y, bounds, release.rng)
        units = bounds.copy()  # the units of rows
        if table.classes is not None and plan.has_scales:
            units[d:] = INDICATOR_UNIT
        sums: Any = design if isinstance(design, QuerySums) else TableSums(design, table.y, units)
        found = release_matrix(plan, sums, units, d, weighted, release.rng)
        release.assumptions = _assumptions(estimator, plan, bounds, table.classes)
    whole, *parts = (
        ReleasedMoments(
            n_samples=one.n_samples,
            names=names,
            n_targets=table.n_targets,
            mean=one.mean,
            covariance=one.covariance,
            bounds=bounds,
            measured=((1.0, one.measured),),
            privacy_=estimator.privacy_,
            named=hasattr(estimator, "feature_names_in_"),
            classes=table.classes,
            max_weight=float(estimator.max_weight) if weighted else 1.0,
        )
        for one in found
    )
    return replace(whole, groups=dict(zip(groups, parts, strict=False)))


def _declared_bounds(estimator: Any, table: "TableRecords") -> tuple[np.ndarray, bool]:
    """Bounds of all columns, NaN where they are to be found, and whether "auto" asks for these."""
    d, m = estimator.n_features_in_, table.n_targets
    bounds = np.full(d + m, np.nan)
    declared, finds = estimator.feature_bound, False
    if is_auto(declared):  # a norm of rows is in units that are known
        finds = estimator.row_norm is None and estimator._relation != ADD_OR_REMOVE
        declared = 1.0
        if hasattr(estimator, "_finds_bounds"):  # so may be those of a model
            finds = finds and estimator._finds_bounds()
            declared = estimator._feature_bounds(d)
        declared = None if finds else declared
    if declared is not None:
        names = getattr(estimator, "feature_names_in_", None)
        bounds[:d] = check_feature_bound(declared, d, names)
    if table.classes is not None:
        bounds[d:] = 1.0
    elif m and (of_targets := estimator._target_bounds(m)) is not None:
        bounds[d:] = of_targets
    return bounds, finds


def _planned_matrix(
    estimator: Any, table: "TableRecords", bounds: np.ndarray, finds: bool, n_groups: int
) -> tuple[MatrixPlan, np.ndarray]:
    """The plan, and bounds: those of features are 1 if "auto" ``finds`` them, and no plan can.

    Raises
    ------
    ValueError
        If there is no plan, ``row_norm`` is out of range, or a private number of records is larger
        than the plan allows.
    """
    n, d, norm = table.records.shape[0], estimator.n_features_in_, estimator.row_norm
    if norm is not None:
        norm = check_bound("row_norm", norm)
        for bound in bounds[~np.isnan(bounds)]:  # squares of units must not vanish
            check_bound("row_norm * feature_bound or target_bound", min(norm, 1.0) * float(bound))
    known = None if estimator._relation == ADD_OR_REMOVE else n
    if known is None and np.isnan(bounds).any():
        raise ValueError(
            f"feature_bound and target_bound must be declared with relation={ADD_OR_REMOVE!r}: "
            "nothing is found privately then."
        )
    conditioned = estimator.conditioning == "auto"

    def matrix_plan(spend: Any) -> MatrixPlan:
        unknown = int(np.isnan(bounds).sum())
        return plan_matrix(known, len(bounds), spend.mu, conditioned, norm, unknown, n_groups)

    available = estimator._available(estimator._budget())
    sizes = available, MOST_RECORDS_ADDED if known is None else n, d
    try:
        plan = estimator._planned(matrix_plan, *sizes)
    except ValueError:
        if not finds:
            raise
        bounds = np.append(np.ones(d), bounds[d:])
        plan = estimator._planned(matrix_plan, *sizes)
    if known is None and n > most_records(plan):
        raise ValueError(
            f"X must have at most {most_records(plan)} records with relation={ADD_OR_REMOVE!r} and "
            f"epsilon={estimator.epsilon!r}."
        )
    return plan, bounds


def _warnings(estimator: Any, plan: MatrixPlan, bounds: np.ndarray) -> tuple[str, ...]:
    """What users should know of the accuracy, from public numbers alone."""
    d, p = estimator.n_features_in_, len(bounds)
    are_ones = is_auto(estimator.feature_bound) and (bounds[:d] == 1.0).all()
    if plan.n_samples is None:
        return (BOUNDS_OF_1,) if are_ones else ()
    budget, unknown = estimator._budget(), np.isnan(bounds)
    mu = estimator._available(budget).mu
    public = PublicNumbers(
        plan.n_samples,
        p,
        mu,
        budget.epsilon,
        budget.delta,
        max_records_per_unit=budget.max_records_per_unit,
        least_n_mu=FEATURE_BOUNDS.least_n_mu * unknown[d:].any(),
        bounds_n_mu=FEATURE_BOUNDS.least_n_mu * unknown[:d].any(),
    )
    warnings, needed = advice_on(public), 2.0 * p**1.5
    noisy = plan.n_samples // max(plan.n_groups, 1) * mu < needed
    if noisy and not advice_on(public._replace(bounds_n_mu=0.0)):
        warnings = (NOISE_OF_VARIANCES.format(p, math.ceil(needed / mu)), *warnings)
    return with_bounds_of_1(warnings) if are_ones else warnings


def _names_of_columns(estimator: Any, table: "TableRecords", y: Any) -> tuple[str, ...]:
    """Names of features and targets: for targets those of a Series or a frame, if all differ."""
    if isinstance(table.records, QuerySums):
        return tuple(table.records.query.bounds)
    m, numbered = table.n_targets, [f"x{j}" for j in range(estimator.n_features_in_)]
    features = getattr(estimator, "feature_names_in_", numbered)
    targets = list(getattr(y, "columns", [getattr(y, "name", None)]))
    named = all(isinstance(name, str) and name for name in targets)
    if table.classes is not None:
        targets = [f"y={label}" for label in table.classes]
    elif not named or len({*targets, *features}) != m + len(features):
        targets = ["y"] if m == 1 else [f"y{k}" for k in range(m)]
    return (*features, *targets)


class TableRecords(NamedTuple):
    """Records as kernels see them.

    Parameters
    ----------
    records : ndarray, CSR matrix, BlockRecords or QuerySums
        The features and, if they are several, the targets behind them.
    y : ndarray of shape (n_samples,) or None
        The only target, or zeros; None for blocks.
    n_targets : int
    classes : ndarray or None
        Labels whose indicators the targets are.
    """

    records: Any
    y: Any
    n_targets: int
    classes: Any

    def opened(self) -> AbstractContextManager[Any]:
        """What sums are taken over."""
        if isinstance(self.records, QuerySums):
            return nullcontext(self.records)
        return opened(self.records, np.ones(self.records.shape[1]))


def table_records(estimator: Any, X: Any, y: Any, has_target: bool | None) -> TableRecords:
    """Check arrays or blocks, and set the number and the names of features on ``estimator``."""
    if isinstance(X, QuerySums):
        names = list(X.query.bounds)[: X.shape[1] - X.query.n_targets]
        estimator.n_features_in_ = len(names)
        estimator.feature_names_in_ = np.array(names, dtype=object)
        return TableRecords(X, None, X.query.n_targets, None)
    blocks = blocks_of(X, y)
    if blocks is not None:
        has_target = blocks.has_target if has_target is None else has_target
        return _in_blocks(estimator, blocks, has_target)
    has_target = y is not None if has_target is None else has_target
    return _in_memory(estimator, X, y, has_target)


# Kernels read one target beside the features: several are columns like these, and so is one if
# groups and weights stand in its place.


def _in_memory(estimator: Any, X: Any, y: Any, has_target: bool) -> TableRecords:
    labelled, classes = has_target and estimator._labelled, None
    m = n_targets_of(y) if has_target and not labelled else int(has_target)
    if has_target:
        X, y = check_X_y(estimator, X, y, not labelled, dtype=FLOATS, multi_output=m > 1)
    else:
        X = check_features(estimator, X, reset=True, dtype=FLOATS)
        y = np.zeros(X.shape[0])
    estimator._check_features(X.shape[1])
    if labelled:
        classes, y = indicators(y, estimator.classes)
        estimator._check_classes(classes)
        m = len(classes)
    tags = _tags_of(estimator, X.shape[0])
    if tags is not None or m > 1:
        if sparse.issparse(X):  # SciPy's errors would show wrong indices
            as_design(X, np.ones(X.shape[1]), False)
        last = np.zeros(len(y)) if tags is None else tags
        X, y = join_targets(X, np.column_stack([y, last] if m else [last]))
    return TableRecords(X, y, m, classes)


def _in_blocks(estimator: Any, blocks: RowBlocks, has_target: bool) -> TableRecords:
    m, classes = blocks.n_targets if has_target else 0, None
    if has_target and estimator._labelled:
        as_blocks(blocks, None)  # which checks that there is one column of them
        classes = declared_classes(estimator.classes)
        m = len(classes)
    estimator._check_features(blocks.n_features)
    if classes is not None:
        estimator._check_classes(classes)
    tags = _tags_of(estimator, blocks.n_samples)
    encode: Any = _as_table
    if tags is None:
        if m == 0:
            return TableRecords(read_features(estimator, blocks), None, 0, None)
        if m == 1:
            records = read_records(estimator, blocks, None, check_target)
            return TableRecords(records, None, 1, None)
        encode = partial(target_table, classes=classes)
    elif m == 0:
        blocks = blocks.with_target(tags)
    elif blocks.engine == "Dask":
        blocks, encode = blocks.tagged(tags), partial(_tagged_table, classes=classes)
    else:
        blocks, y, _ = blocks.labelled()
        table = target_table(y, classes)
        table[:, -1] = tags
        blocks = blocks.with_target(table)
    return TableRecords(read_tables(estimator, blocks, encode, m), None, m, classes)


def _tags_of(estimator: Any, n_samples: int) -> np.ndarray | None:
    """For every record the number of its group plus half of its weight; None without either."""
    weights, groups = estimator._sample_weight, estimator._declared_groups()
    if not groups and weights is None:
        return None
    labels = estimator._group_labels
    for name, value in {"sample_weight": weights, "sensitive_features": labels}.items():
        if hasattr(value, "__dask_graph__"):
            raise TypeError(
                f"{name} must be an array in memory, got a Dask {type(value).__name__}."
            )
    tags = np.full(n_samples, 0.5)
    if weights is not None:
        with np.errstate(all="ignore"):  # tiny weights underflow
            tags = 0.5 * check_weights(weights, estimator.max_weight, n_samples)
    if groups:
        numbers = group_numbers(labels_of("sensitive_features", None, labels), groups)
        if len(numbers) != n_samples:
            raise ValueError(
                f"sensitive_features must hold one label per record: {n_samples} records in X, "
                f"{len(numbers)} labels."
            )
        tags = numbers + tags
    return tags


def _tagged_table(y: np.ndarray, classes: Any) -> np.ndarray:
    """The columns that targets stand for, followed by the tags that are their last column."""
    table = target_table(y[:, 0] if classes is not None or y.shape[1] == 2 else y[:, :-1], classes)
    table[:, -1] = check_target(y[:, -1])
    return table


def _as_table(y: np.ndarray) -> np.ndarray:
    """Targets of a block as a table."""
    return y if y.ndim == 2 else y[:, None]


def target_table(y: np.ndarray, classes: Any = None) -> np.ndarray:
    """The columns that targets stand for, with a column of zeros behind them."""
    columns = check_target(y) if classes is None else indicators(y, classes)[1]
    return np.column_stack([columns, np.zeros(len(columns))])


def _assumptions(
    estimator: Any, plan: MatrixPlan, bounds: np.ndarray, classes: np.ndarray | None
) -> tuple[str, ...]:
    """Lines for the report."""
    d = estimator.n_features_in_
    lines = [clipping_note(bounds[:d])]
    if classes is None and len(bounds) > d:
        listed = ", ".join(f"{bound:g}" for bound in bounds[d:])
        lines.append(f"targets are clipped to ±{listed}")
    if plan.n_samples is None:
        lines.append(f"there are at most {most_records(plan)} records")
    if plan.conditioning is not None:
        found = plan.conditioning.share + MATRIX.norm_share
        lines.append(f"{100 * found:.0f} % of the budget found centres and scales of columns")
    if classes is not None:
        lines.append(labels_note(classes, estimator.classes))
    lines += estimator._said
    if estimator.groups is not None:
        lines.append(f"the {plan.n_groups} groups are public (declared)")
    if estimator._sample_weight is not None:
        lines.append(f"weights of records are clipped to {estimator.max_weight:g}")
    return tuple(lines)
