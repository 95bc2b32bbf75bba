"""Private selection of features. Proof: docs/proofs/preprocessing.md, section 3."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import sparse
from sklearn.feature_selection import SelectorMixin, VarianceThreshold
from sklearn.utils.validation import check_is_fitted

from skdpsco._kernels import njit
from skdpsco._typing import MatrixLike, Self, TargetLike
from skdpsco._validation import (
    Integral,
    Interval,
    StrOptions,
    check_bound,
    check_feature_bound,
    check_int,
    check_sparse,
    check_target,
    check_X_y,
    is_undeclared,
    read_X,
)
from skdpsco.base.advice import BOUNDS_OF_1
from skdpsco.base.fit_plans import is_sparse
from skdpsco.base.labels import declared_classes, encode_classes, labels_note
from skdpsco.base.parameters import (
    Constraints,
    FeatureParameters,
    LabelParameters,
    TargetParameters,
    with_parameters,
)
from skdpsco.base.plain import fitted_as
from skdpsco.base.private_estimator import PrivateEstimator
from skdpsco.base.transformer import BlockTransformerMixin
from skdpsco.data.block_records import opened, read_records
from skdpsco.data.design import CentredCSR
from skdpsco.data.pieces import sum_error
from skdpsco.data.products import correlate
from skdpsco.data.record_sums import in_pieces, map_reduce
from skdpsco.mechanisms.samplers import exponential_grid
from skdpsco.privacy import (
    Event,
    ExponentialMechanismEvent,
    NoOpEvent,
    RepeatedEvent,
    compose,
    rho_of,
)
from skdpsco.privacy.report import ReleasedStep
from skdpsco.privacy.spending import Allowance
from skdpsco.scaling.quantiles import choose
from skdpsco.scaling.stages import Stage, Units, release_stages
from skdpsco.scaling.target import Target, TargetPlan, plan_target, release_target

from .raw_ranges import plan_raw_ranges, records_for_ranges

__all__ = ["PrivateFeatureSelector"]

RANGE_WIDTH = 1.0  # half the width of ranges that are found, in root mean squares


@dataclass(frozen=True)
class SelectionPlan:
    """The draws of a selection, from a budget and public sizes.

    Parameters
    ----------
    n_selected : int
    grid : float or None
        The noise grid of one draw; None if all features are taken and nothing is drawn.
    target : TargetPlan or None
        How the centre and the scale of a regression target are found.
    event : Event
        The total cost.
    stages : tuple of Stage, default=()
        How ranges of columns are found first, if no bounds are declared.
    """

    n_selected: int
    grid: float | None
    target: TargetPlan | None
    event: Event
    stages: tuple[Stage, ...] = ()

    name: ClassVar[str] = "choice of features"


def plan_selection(
    n_samples: int,
    n_features: int,
    n_selected: int,
    regression: bool,
    target_bound: float | None,
    rho: float,
    centred: bool = False,
) -> SelectionPlan:
    """Plan the release of the target's scale, then one exponential draw per feature.

    ``centred`` says that features are differences from a centre.
    """
    if n_selected >= n_features:
        return SelectionPlan(n_features, None, None, NoOpEvent())
    target = plan_target(target_bound, True, n_samples, rho) if regression else None
    spent = NoOpEvent() if target is None else target.event
    epsilon0 = math.sqrt(8.0 * (rho - rho_of(spent)) / n_selected)
    width = 2.0 if regression else 1.0  # width of the interval of the targets
    # Range of the changes of n times a covariance, and its rounding in both data sets.
    change = 2.0 * width * (n_samples - 1) / n_samples + 16.0 * sum_error(n_samples, 1.0)
    if centred:  # differences from a centre are rounded, and those of sparse rows are added apart
        change = (1.0 + 2.0**-20) * change + 48.0 * sum_error(n_samples, 1.0)
    grid = exponential_grid(2.0 * change, epsilon0, 2.0 * n_samples)
    draws = RepeatedEvent(ExponentialMechanismEvent(epsilon0), n_selected)
    return SelectionPlan(n_selected, grid, target, compose(spent, draws))


def memberships(index: np.ndarray, n_classes: int) -> np.ndarray:
    """One column of 0 and 1 per class; for two classes, only the column of the second."""
    classes = np.arange(1 if n_classes == 2 else 0, n_classes)
    return (index[:, None] == classes).astype(np.float64)


def one_column(y: np.ndarray, target: Target) -> np.ndarray:
    """The targets of a regression as a column of numbers in [-1, 1]."""
    return target.apply(y)[:, None]


def _class_numbers(y: np.ndarray, classes: Any) -> np.ndarray:
    return encode_classes(y, classes)[1].astype(np.float64)


@njit
def correlate_columns(X, R, out):
    """Write ``X' R``, flat."""
    correlate(X, R, out)


def products_and_sums(X: Any, y: np.ndarray, columns: Any) -> tuple[np.ndarray, np.ndarray]:
    """Sums of products of features with columns of targets, and of each alone, for `map_reduce`.

    The centre of sparse rows is not subtracted: covariances do not depend on it.
    """
    if isinstance(X, CentredCSR):
        X = X._replace(intercept=1)
    T = np.column_stack([columns(y), np.ones(len(y))])
    total = np.empty(T.shape[1] * (len(X.bounds) + X.intercept))
    correlate_columns(X, T, total)
    return total, T.sum(axis=0)


def covariance_scores(design: Any, y: Any, columns: Callable[..., Any], n: int) -> np.ndarray:
    """Largest ``n |cov|`` of every feature with any column of the targets, ``columns(y)``."""
    total, sums = map_reduce(in_pieces(design, y), y, products_and_sums, columns)
    *products, features = total.reshape(len(sums), -1)[:, : len(design.bounds)]
    return np.abs(products - np.outer(sums[:-1], features) / n).max(axis=0)


def draw_without_replacement(
    scores: np.ndarray, k: int, grid: float, rng: np.random.Generator
) -> np.ndarray:
    """Mask of ``k`` candidates with large scores, chosen one after the other."""
    chosen = np.zeros(len(scores), dtype=bool)
    for _ in range(k):
        rest = np.flatnonzero(~chosen)
        chosen[int(choose(scores[rest], rest, grid, rng))] = True
    return chosen


@with_parameters()
class PrivateFeatureSelector(
    FeatureParameters,
    LabelParameters,
    TargetParameters,
    BlockTransformerMixin,
    SelectorMixin,
    PrivateEstimator,
):
    """Select the features of largest covariance with the target, privately.

    With more than two classes the covariance with the membership in a class counts. Features are
    drawn one after the other by the exponential mechanism.

    Parameters
    ----------
    n_features_to_select : int, default=10
        Number of features to select. If X has no more, all are selected, at no cost.
    task : {"classification", "regression"}, default="classification"
        Whether y holds labels or numbers.
    {feature_bound}
        The output is not clipped. Scores are in units of the bounds.
    {classes, target_bound, epsilon, delta, ledger, max_records_per_unit, random_state}

    Attributes
    ----------
    support_ : ndarray of shape (n_features,), bool
        Which features were selected. Scores are not released.
    {n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateLasso : Selects features itself.
    PrivateLogisticL1 : Selects features itself.
    sklearn.feature_selection.SelectKBest : The transformer without privacy.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/preprocessing`.

    A covariance stands out if, in units of the bounds, it is well above ``sqrt(2 *
    n_features_to_select) * log(n_features) / (n_samples * sqrt(rho))``, or twice that in a
    regression; rho is 0.024 at epsilon 1 and delta 1e-6.

    References
    ----------
    Durfee, Rogers. Practical Differentially Private Top-k Selection with Pay-what-you-get
    Composition. NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.preprocessing import PrivateFeatureSelector
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 50))
    >>> y = X[:, 0] - X[:, 3] > 0.1
    >>> selector = PrivateFeatureSelector(n_features_to_select=2, classes=[False, True])
    >>> selector.fit(X, y).get_support(indices=True)
    array([0, 3])
    """

    n_features_to_select: int = 10
    task: Literal["classification", "regression"] = "classification"

    support_: np.ndarray = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        "n_features_to_select": [Interval(Integral, 1, None, closed="left")],
        "task": [StrOptions({"classification", "regression"})],
    }

    def fit(self, X: MatrixLike, y: TargetLike = None, *, units: Any = None) -> Self:
        """Select features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or blocks
            Blocks are `RowBlocks`, a Dask array or data frame, or an Arrow table; a classification
            then needs ``classes``.
        y : array-like of shape (n_samples,) or None, default=None
            Classes, or targets of a regression; None if the blocks hold them.
        {units}

        {outcome}
        """
        self._validate_params()
        check_int("n_features_to_select", self.n_features_to_select)
        regression = self.task == "regression"
        draft = self._draft()
        X, y, assumptions, columns = self._records(draft, *self._of_units(units, X=X, y=y))
        n, d = X.shape
        budget = self._budget()
        names = getattr(draft, "feature_names_in_", None)
        declared, bounds, target_bound = not is_undeclared(self.feature_bound), np.ones(d), None
        if declared:
            bounds = check_feature_bound(self.feature_bound, d, names)
            assumptions += ("features are clipped to their public feature_bound",)
        if self.target_bound is not None:
            target_bound = check_bound("target_bound", self.target_bound)
        if regression and target_bound is not None:
            assumptions += ("targets are clipped to their public target_bound",)
        plan = self._plan(X, target_bound, self._available(budget))
        blind = plan.grid is not None and not plan.stages and not declared
        warnings = (BOUNDS_OF_1,) if blind else ()
        draft.support_ = np.ones(d, dtype=bool)
        with (
            opened(X, bounds) as design,
            self._releasing(
                draft, plan.event, budget, assumptions=assumptions, warnings=warnings
            ) as release,
        ):
            if plan.grid is not None:
                rng = release.rng
                _, design, y, steps = release_stages(plan.stages, Units(None), design, y, rng)
                release.steps = ReleasedStep.all_of(steps, plan.event)
                if plan.target is not None:
                    target = release_target(plan.target, y, rng, design)
                    columns = partial(one_column, target=target)
                scores = covariance_scores(design, y, columns, n)
                draft.support_ = draw_without_replacement(scores, plan.n_selected, plan.grid, rng)
        return self._accept(draft)

    def _plan(self, X: Any, target_bound: float | None, available: Any) -> SelectionPlan:
        """What is released to select features of X, of which the plan sees the shape."""
        n, d = X.shape
        k, regression = int(self.n_features_to_select), self.task == "regression"
        planned = partial(self._planned, n_samples=n, n_features=d)

        def selection(available: Any, centred: bool = False) -> SelectionPlan:
            sizes = n, d, k, regression, target_bound
            return planned(lambda spend: plan_selection(*sizes, spend.rho, centred), available)

        def raw(available: Any) -> SelectionPlan:
            stages, left = plan_raw_ranges(planned, n, d, available, is_sparse(X))
            if len(stages) == 2:  # with short ranges covariances are larger
                stages = stages[0], replace(stages[1], width=RANGE_WIDTH)
            plan = selection(left, centred=True)
            event = compose(*(stage.event for stage in stages), plan.event)
            return replace(plan, stages=stages, event=event)

        if not is_undeclared(self.feature_bound) or k >= d:
            return selection(available)
        available = Allowance(available.rho)  # draws are planned in zCDP
        enough = n >= records_for_ranges(d, available.rho)
        return raw(available) if enough else selection(available)

    def _records(self, draft: Any, X: Any, y: Any) -> tuple[Any, Any, tuple[str, ...], Any]:
        """Records and targets, a line about labels, and their columns if they are labels."""
        if self.task == "regression":
            records = read_records(draft, X, y, check_target)
            X, y = check_X_y(draft, X, y, y_numeric=True) if records is None else (records, None)
            return X, y, (), None
        records = read_records(draft, X, y, partial(_class_numbers, classes=self.classes))
        if records is not None:
            classes = declared_classes(self.classes)
            X, y = records, None
        else:
            X, y = check_X_y(draft, X, y, y_numeric=False)
            classes, index = encode_classes(y, self.classes)
            y = index.astype(np.float64)
        columns = partial(memberships, n_classes=len(classes))
        return X, y, (labels_note(classes, self.classes),), columns

    def transform(self, X: MatrixLike) -> Any:
        """Keep the selected features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        X_out : {ndarray, sparse matrix} of shape (n_samples, n_selected_features)
            The selected columns, in their order in X.

        Raises
        ------
        ValueError, TypeError
            If X is not numeric, or does not have the features of the fit.
        """
        return self._read(super().transform, X)

    def _plain_steps(self) -> list[tuple[str, Any]]:
        shown = self.support_.astype(float)
        known = {"variances_": shown, "n_features_in_": len(shown)}
        return [("select", fitted_as(VarianceThreshold(0.5), **known))]

    def inverse_transform(self, X: MatrixLike) -> Any:
        """Put selected features into their places, with zeros in those of the others.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_selected_features)

        Returns
        -------
        X_original : {ndarray, sparse matrix} of shape (n_samples, n_features)
            The selected features among zeros.

        Raises
        ------
        ValueError, TypeError
            If X is not numeric, or does not have the selected features.
        """
        return self._read(super().inverse_transform, X)

    def _read(self, function: Callable[[Any], Any], X: Any) -> Any:
        """What a function of scikit-learn makes of X; errors show no value of it."""
        if sparse.issparse(X) and X.ndim == 2:  # SciPy would read beyond its arrays
            X = check_sparse(X)
        return read_X(X, function, X)

    def _get_support_mask(self):
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
