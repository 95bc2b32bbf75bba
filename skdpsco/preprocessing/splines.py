"""Splines of columns, between knots at private quantiles. Proof: docs/proofs/preprocessing.md."""

import math
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import SplineTransformer
from sklearn.utils.validation import check_is_fitted

from skdpsco._typing import MatrixLike, Self
from skdpsco._upstream import feature_names_in
from skdpsco._validation import (
    LARGEST,
    SMALLEST,
    Interval,
    StrOptions,
    in_column_order,
    is_number,
)
from skdpsco.additive.densities import Density, DensityPlan, found_ranges, plan_densities
from skdpsco.additive.shapes import ends_of, ratio_of
from skdpsco.additive.table import CLOSEST, TableColumn
from skdpsco.base.advice import counted
from skdpsco.base.parameters import Constraints, RelationParameters, with_parameters
from skdpsco.base.transformer import ColumnTransform
from skdpsco.data.block_records import BlockRecords, as_features
from skdpsco.data.pieces import MOST_RECORDS_ADDED
from skdpsco.data.record_sums import in_pieces
from skdpsco.privacy import Event, NoOpEvent, compose
from skdpsco.privacy._checks import abridged
from skdpsco.privacy.relations import ADD_OR_REMOVE
from skdpsco.privacy.spending import left_after
from skdpsco.scaling.feature_bounds import FEATURE_BOUNDS, BoundPlan, plan_bounds

from .bounds import check_bounds
from .raw_ranges import TOO_FEW

__all__ = ["PrivateSplineTransformer"]

LEAST_WEIGHT = 1e-9  # of a cell, so that knots differ where nothing is known of a column
DECLARED = "knots are declared, so that nothing is released"
CLIPPED_TO_KNOTS = "columns are clipped to their outer knots, which are released"


@dataclass(frozen=True)
class KnotPlan:
    """The releases from which knots follow.

    Parameters
    ----------
    bounds : BoundPlan or None
        How ranges are found, if none are declared.
    densities : DensityPlan
    ratio : float
        The n mu of the fit over the root of the number of columns; a usual one if n is private.
    event : Event
    """

    bounds: BoundPlan | None
    densities: DensityPlan
    ratio: float
    event: Event


def knots_at_quantiles(known: Density, n_knots: int, ends: float) -> np.ndarray:
    """Increasing knots, between which a column has equal shares of its numbers.

    On either side the share ``ends`` is beyond the outer ones. A cell counts as holding at most one
    of these shares, so that a value that many records have does not attract all knots.
    """
    edges, weights = known.edges, known.weights.copy()
    at = np.clip(np.searchsorted(edges, 0.0, "right") - 1, 0, len(weights) - 1)
    weights[at] += known.zero
    weights = np.minimum(weights, 1.0 / (n_knots - 1)) + LEAST_WEIGHT
    up_to = np.append(0.0, weights.cumsum())
    steps = np.linspace(ends, 1.0 - ends, n_knots)
    return np.interp(steps * up_to[-1], up_to, edges)


@with_parameters()
class PrivateSplineTransformer(RelationParameters, ColumnTransform):
    """Turn columns into B-splines, whose sums are curves, between private or declared knots.

    A linear model of its output adds up one curve for each column. With declared knots it costs
    nothing.

    Parameters
    ----------
    n_knots : int, default=5
        Number of knots of every column, in [2, 100], unless they are declared one by one.
    degree : int, default=3
        Degree of the polynomials between knots, at most 3. With 0 each interval is a bin.
    knots : {"quantile", "uniform"}, array-like, dict or Series, default="quantile"
        "quantile" finds quantiles privately. "uniform" places equidistant knots from ``lower`` to
        ``upper``. Declared knots have the shape (n_knots, n_columns), or are given by name.
    extrapolation : {"constant", "periodic"}, default="constant"
        What splines are beyond the outer knots. "periodic", such as for hours of the day, needs
        knots that are declared or uniform, and more of them than the degree.
    columns : array-like of str or int, or None, default=None
        Names or places of the columns that become splines; the others are passed on. None takes
        all.
    lower, upper : float, array-like, dict, Series, Schema or None, default=None
        Public ranges of the columns that become splines, in order or by name. None finds them
        privately, or takes ±1 if records are few.
    {epsilon, delta, ledger, max_records_per_unit, relation}
        It needs ``lower`` and ``upper``.
    {random_state}

    Attributes
    ----------
    knots_ : ndarray of shape (n_knots, n_columns)
        The knots, in units of X; they increase in every column.
    columns_ : ndarray of shape (n_columns,), int
        Places of the columns that become splines, in increasing order.
    {n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateAdditiveClassifier, PrivateAdditiveRegressor : Curves that find their own fineness.
    sklearn.preprocessing.SplineTransformer : The transformer without privacy.

    Notes
    -----
    {guarantee}

    Splines are in [0, 1], so that ``feature_bound=1`` is right for a model of them. A tenth of a
    ledger's rho is a good share for the knots: of a total epsilon of 1, give 0.32 to the knots and
    0.95 to the model.

    Proof: :doc:`/proofs/preprocessing`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpsco import PrivateRidge
    >>> from skdpsco.preprocessing import PrivateSplineTransformer
    >>> X = np.random.default_rng(0).uniform(18, 90, (20000, 1))
    >>> y = np.abs(X[:, 0] - 50)
    >>> splines = PrivateSplineTransformer(epsilon=0.3, lower=18, upper=90)
    >>> model = make_pipeline(splines, PrivateRidge(epsilon=0.95, feature_bound=1)).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    n_knots: int = field(default=5, kw_only=False)
    degree: int = field(default=3, kw_only=False)
    knots: Any = "quantile"
    extrapolation: Literal["constant", "periodic"] = "constant"
    columns: ArrayLike | None = None
    lower: ArrayLike | None = None
    upper: ArrayLike | None = None

    knots_: np.ndarray = field(init=False)
    columns_: np.ndarray = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        "n_knots": [Interval(Integral, 2, 100, closed="both")],
        "degree": [Interval(Integral, 0, 3, closed="both")],
        "extrapolation": [StrOptions({"constant", "periodic"})],
    }

    def _learn(self, X):
        budget = self._budget()
        if isinstance(self.degree, bool):
            raise TypeError(f"degree must be an int in [0, 3], got {self.degree!r}.")
        self.columns_ = self._places(X.shape[1])
        ranges = self._ranges()
        declared = self._declared_knots(ranges)
        if declared is not None:
            said = (DECLARED,)
            with self._releasing(self, NoOpEvent(), budget, stacklevel=3, assumptions=said):
                self.knots_ = declared
            return
        added, available = self._relation == ADD_OR_REMOVE, self._available(budget)
        n, d = X.shape[0], len(self.columns_)
        plan = self._plan(n, available, ranges)
        assumptions, warnings = (CLIPPED_TO_KNOTS,), ()
        if added:
            assumptions += (f"there are at most {MOST_RECORDS_ADDED} records",)
        if plan.bounds is not None and not plan.bounds.grids:
            needed = math.ceil(1.01 * FEATURE_BOUNDS.least_n_mu / math.sqrt(2.0 * available.rho))
            warnings = (TOO_FEW.format(counted(n, "record"), budget.epsilon, needed),)
        X = self._taken(X)
        with self._releasing_columns(
            X, plan.event, budget, assumptions=assumptions, warnings=warnings
        ) as (design, rng):
            none, found = np.broadcast_to(0.0, n), np.full(d, np.inf)  # no targets
            if plan.bounds is not None:
                ranges, found = found_ranges(plan.bounds, design, none, plan.ratio, rng)
            records = in_pieces(design, none)
            known = plan.densities.release(records, none, ranges, found, rng)
        ends = ends_of(plan.ratio)
        self.knots_ = np.column_stack(
            [knots_at_quantiles(one, self.n_knots, ends) for one in known]
        )

    def _rehearse(self, X: MatrixLike) -> Self:
        """Choose knots without a look at any number, for a rehearsal of the steps that follow."""
        self.columns_ = self._places(self._records(X).shape[1])
        declared = self._declared_knots(self._ranges())
        uniform = np.linspace(np.full(len(self.columns_), -1.0), 1.0, self.n_knots)
        self.knots_ = uniform if declared is None else declared
        return self

    def _plan(self, n_samples: int, available: Any, ranges: np.ndarray | None) -> KnotPlan:
        """Spend all that is available on ranges, if none are declared, and on densities."""
        n, d, added = n_samples, len(self.columns_), self._relation == ADD_OR_REMOVE
        if added and ranges is None:
            raise ValueError(
                f"lower and upper must be declared with relation={ADD_OR_REMOVE!r}: ranges are not "
                "found privately then."
            )
        if added and n > MOST_RECORDS_ADDED:
            raise ValueError(
                f"X must have at most {MOST_RECORDS_ADDED} records with relation={ADD_OR_REMOVE!r}."
            )
        shown = MOST_RECORDS_ADDED if added else n
        planned = partial(self._planned, n_samples=shown, n_features=d)
        columns = tuple(TableColumn(f"x{j}") for j in self.columns_)
        ratio, bounds, events = ratio_of(n, available.mu, d, added), None, []
        if ranges is None:
            bounds = planned(lambda spend: plan_bounds(n, d, spend.rho), available)
            available, events = left_after(available, bounds.event), [bounds.event]
        densities = planned(
            lambda spend: plan_densities(None if added else n, columns, spend.mu, added, 1.0),
            available,
        )
        return KnotPlan(bounds, densities, ratio, compose(*events, densities.event))

    def _places(self, n_features: int) -> np.ndarray:
        """Places of the columns that become splines."""
        if self.columns is None:
            return np.arange(n_features)
        names = list(getattr(self, "feature_names_in_", ()))
        known = {**{name: j for j, name in enumerate(names)}, **dict.fromkeys(range(n_features))}
        given = np.asarray(self.columns, dtype=object)
        legal = given.ndim == 1 and len(given) > 0
        if not legal or not all(isinstance(c, str) or is_number(c, Integral) for c in given):
            raise TypeError(
                "columns must be None, or a list of names or places of columns of X, got "
                f"{abridged(self.columns)}."
            )
        if unknown := [c for c in given if c not in known]:
            raise ValueError(
                f"columns must name columns of X, or be places in [0, {n_features - 1}]; X has no "
                f"{unknown[0]!r}."
            )
        found = [known[c] if isinstance(c, str) else int(c) for c in given]
        if len(set(found)) < len(found):
            raise ValueError("columns must name every column once.")
        return np.sort(np.array(found))

    def _names(self) -> np.ndarray | None:
        """Names of the columns that become splines, if X has names."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else names[self.columns_]

    def _ranges(self) -> np.ndarray | None:
        """Declared ranges of the columns, of shape (n_columns, 2)."""
        if (self.lower is None) != (self.upper is None):
            raise ValueError("lower and upper must both be declared, or both be None.")
        if self.lower is None:
            return None
        ranges = np.column_stack(check_bounds(self, len(self.columns_), self._names()))
        close = np.ptp(ranges, axis=1) < CLOSEST * np.abs(ranges).max(axis=1)
        if close.any():
            j = self.columns_[close.argmax()]
            raise ValueError(
                "lower and upper must differ by at least 2**-30 times the larger magnitude; those "
                f"of column {j} are too close."
            )
        return ranges

    def _declared_knots(self, ranges: np.ndarray | None) -> np.ndarray | None:
        """Knots that are declared or equidistant; None if they are to be found."""
        knots = None
        if not isinstance(self.knots, str):
            knots = self._checked_knots()
        elif self.knots == "uniform":
            if ranges is None:
                raise ValueError("lower and upper must be declared with knots='uniform'.")
            knots = np.linspace(ranges[:, 0], ranges[:, 1], self.n_knots)
        elif self.knots != "quantile":
            raise ValueError(
                "knots must be 'quantile', 'uniform' or numbers for each column, got "
                f"{self.knots!r}."
            )
        if self.extrapolation == "periodic":
            if knots is None:
                raise ValueError(
                    "extrapolation='periodic' needs knots that are declared or 'uniform'."
                )
            if len(knots) <= self.degree:
                raise ValueError(
                    "extrapolation='periodic' needs more knots than the degree, which is "
                    f"{self.degree}; got {len(knots)}."
                )
        return knots

    def _checked_knots(self) -> np.ndarray:
        legal = (
            f"knots must be 'quantile', 'uniform' or, for each of {len(self.columns_)} columns, at "
            f"least two numbers in [{-LARGEST:g}, {LARGEST:g}] that increase by at least "
            f"{SMALLEST:g}"
        )
        value = in_column_order("knots", self.knots, self._names())
        try:
            knots = np.asarray(value)
        except ValueError:  # columns have different numbers of knots
            raise ValueError(f"{legal}; all columns must have equally many.") from None
        if knots.dtype.kind not in "iuf":
            raise TypeError(f"{legal}; got {abridged(self.knots)}.")
        knots = (knots if value is self.knots else knots.T).astype(np.float64)
        if knots.ndim != 2 or len(knots) < 2 or knots.shape[1] != len(self.columns_):
            raise ValueError(f"{legal}; got shape {np.shape(value)}.")
        wrong = ~(np.abs(knots) <= LARGEST).all(axis=0)
        with np.errstate(invalid="ignore"):
            wrong |= ~(np.diff(knots, axis=0) >= SMALLEST).all(axis=0)
        if wrong.any():
            raise ValueError(f"{legal}; those of column {self.columns_[wrong.argmax()]} do not.")
        return knots

    def _taken(self, X: np.ndarray | BlockRecords) -> Any:
        """The columns that become splines."""
        if len(self.columns_) == X.shape[1]:
            return X
        if not isinstance(X, BlockRecords):
            return np.ascontiguousarray(X[:, self.columns_])
        taking = ColumnTransformer([("taken", "passthrough", self.columns_)])
        return as_features(X.blocks.map(taking.fit(X.blocks.first)))

    def _splines(self) -> SplineTransformer:
        """Scikit-learn's transformer with these knots."""
        options = {"knots": self.knots_, "degree": self.degree, "extrapolation": self.extrapolation}
        return SplineTransformer(**options).set_output(transform="default").fit(self.knots_)

    def transform(self, X: MatrixLike) -> Any:
        """Compute the splines.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records, in the units of the fit.

        Returns
        -------
        X_out : ndarray of shape (n_samples, n_features_out), float64
            The splines of every column in ``columns_``, then all other columns as they are. A
            column has ``n_knots + degree - 1`` splines, or ``n_knots - 1`` periodic ones.
        """
        X = self._check(X, reset=False)
        own = X[:, self.columns_]
        with np.errstate(all="ignore"):
            if self.extrapolation == "constant":
                own = np.clip(own, self.knots_[0], self.knots_[-1])
            splines = np.clip(self._splines().transform(own), 0.0, 1.0)
        return np.hstack([splines, np.delete(X, self.columns_, axis=1)])

    def _plain_steps(self) -> list[tuple[str, Any]]:
        others = np.delete(np.arange(self.n_features_in_), self.columns_).tolist()
        parts = [("splines", self._splines(), self.columns_.tolist())]
        parts += [("others", "passthrough", others)]
        # All knots are parameters, so that nothing depends on these records.
        columns = ColumnTransformer(parts).fit(np.zeros((2, self.n_features_in_)))
        if (names := self._names()) is not None:
            columns.named_transformers_["splines"].feature_names_in_ = names
        return [("columns", columns)]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Names of the output columns: age_sp_0, age_sp_1 and so on, as scikit-learn's.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns, None for those of the fit.

        Returns
        -------
        names : ndarray of str objects
            One name per column of what `transform` returns.
        """
        check_is_fitted(self)
        names = feature_names_in(self, input_features)
        own = self._splines().get_feature_names_out(names[self.columns_])
        return np.append(own, np.delete(names, self.columns_))
