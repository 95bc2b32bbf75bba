"""Fits that begin at a linear model of other records, or at these: docs/proofs/public_start.md."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import indexable

from skdpsco._config import config_context
from skdpsco._random import without_warnings
from skdpsco._upstream import num_samples, safe_indexing
from skdpsco._validation import LARGEST
from skdpsco.privacy._checks import NEEDS_DELTA
from skdpsco.privacy.relations import REPLACE_ONE

__all__ = ["PublicStart", "Unaccounted", "checked_start", "clipped_product", "learnt_from"]

NOISELESS = 1e9  # an epsilon for public records
FACTORS = (1.0, 0.01, 0.1, 10.0, 100.0)  # of the weight of their penalty, the first if all is equal
N_PARTS, LEAST_PART = 4, 10  # of their cross-validation: number of parts, and records in a part
LEGAL_INIT = "init must be a fitted linear model with coef_ and intercept_"


class PublicStart(NamedTuple):
    """The model that a fit begins at.

    Parameters
    ----------
    coef : ndarray of shape (n_outputs, n_features)
    intercept : ndarray of shape (n_outputs,)
    names : ndarray of shape (n_features,) or None
        Names of the columns, if they were known.
    classes : ndarray or None
        Classes of a classifier.
    bounds : ndarray of shape (n_features,) or None
        Bounds of the features that it has found, if it has found any.
    """

    coef: np.ndarray
    intercept: np.ndarray
    names: Any
    classes: Any
    bounds: Any = None

    def check(self, shape: tuple[int, int], names: Any, classes: Any, finds_bounds: bool) -> None:
        """Compare it with a fit of coefficients of this shape, of these columns and classes.

        Raises
        ------
        ValueError
            If there are no declared bounds, or the model has other outputs, columns or classes.
        """
        n_outputs, n_features = shape
        if finds_bounds:
            raise ValueError("feature_bound must be declared if init is given.")
        if self.coef.shape[1] != n_features:
            raise ValueError(
                f"init must have one coefficient for each of {n_features} columns of X, got "
                f"{self.coef.shape[1]}."
            )
        if len(self.coef) != n_outputs:
            raise ValueError(
                "init must be a model of one target, or of two classes."
                if n_outputs == 1
                else f"init must have a row of coef_ for each of {n_outputs} classes or targets."
            )
        if names is not None and self.names is not None and list(names) != list(self.names):
            raise ValueError("init must be a model of the columns of X, in the same order.")
        both = classes is not None and self.classes is not None
        if both and not np.array_equal(classes, self.classes):
            raise ValueError("init must be a model of the same classes.")

    def predict(self, X: Any, bounds: np.ndarray) -> np.ndarray:
        """Predictions of features that are clipped to their bounds: one column for each output.

        Those of a single output have one dimension.
        """
        one = len(self.coef) == 1
        coef, intercept = (
            (self.coef[0], self.intercept[0]) if one else (self.coef.T, self.intercept)
        )
        with np.errstate(all="ignore"):  # tiny products underflow
            return clipped_product(X, coef, (-bounds, bounds)) + intercept

    def added(self, coef: np.ndarray, intercept: Any) -> tuple[np.ndarray, Any]:
        """Coefficients of the sum of this model and another, in the shapes of the other."""
        own = self.intercept if np.ndim(intercept) else float(self.intercept[0])
        return coef + self.coef.reshape(coef.shape), intercept + own


def checked_start(init: Any) -> PublicStart:
    """What a fit knows of the ``init`` that it got.

    Raises
    ------
    TypeError
        If it has no coefficients or no intercept, or they are not real numbers.
    ValueError
        If their shapes do not belong together, or they are not finite or too large.
    """
    if not (hasattr(init, "coef_") and hasattr(init, "intercept_")):
        raise TypeError(
            f"{LEGAL_INIT}, got {type(init).__name__}. In a pipeline, pass that of its last step."
        )
    coef, intercept = np.asarray(init.coef_), np.asarray(init.intercept_)
    if not {coef.dtype.kind, intercept.dtype.kind} <= set("biuf"):
        raise TypeError(f"{LEGAL_INIT}, of real numbers.")
    if coef.ndim not in (1, 2) or intercept.size not in (1, len(np.atleast_2d(coef))):
        raise ValueError(
            f"{LEGAL_INIT}: a vector or one row for each class, and a number for each."
        )
    if not (np.abs(np.append(coef, intercept)) <= LARGEST).all():
        raise ValueError(f"Numbers of init must be finite, in [-{LARGEST:g}, {LARGEST:g}].")
    coef = np.atleast_2d(coef).astype(np.float64)
    intercept = np.broadcast_to(intercept.ravel().astype(np.float64), len(coef))
    known = ("feature_names_in_", "classes_", "feature_bound_")
    return PublicStart(coef, intercept, *(getattr(init, name, None) for name in known))


class Unaccounted:
    """A ledger for fits to public records, which cost nothing."""

    def charge(self, *charged: Any) -> None:
        """Charge nothing."""


def learnt_from(model: Any, public_data: Any, init: Any) -> tuple[PublicStart, Any, Any]:
    """What a fit knows from public records: where it begins, its units, and bounds of features.

    They are those of fits of the same model to these records, with hardly any noise. Units of
    residuals are those of one half of the records, for a start that is fitted to the other half.

    Parameters
    ----------
    model : PrivateLinearModel
    public_data : tuple of X and y
    init : object or None
        The model to begin at in place of one that is fitted here.

    Raises
    ------
    TypeError
        If ``public_data`` is not a pair.
    ValueError
        If a fit to these records is refused, or delta is 0.
    """
    if model.delta == 0:  # these models have Gaussian noise, and fits to public records a delta
        raise ValueError(NEEDS_DELTA)
    if not isinstance(public_data, tuple | list) or len(public_data) != 2:
        raise TypeError("public_data must be a pair of X and y, or None.")
    with without_warnings(), config_context(strict=False):  # they are about private records
        try:
            records = indexable(*public_data)
            known = _public_fit(model, records)
            if model._finds_bounds():
                model = clone(model).set_params(feature_bound=known.feature_bound_)
            if init is None:
                known = init = _best_public_fit(model, records)
            start = checked_start(init)
            if not model._begins_at_scores:
                half, rest = _one_part(records, 2, 0)
                begun = checked_start(_public_fit(model, half)) if init is known else start
                known = _public_fit(model, rest, begun)
        except ValueError as error:
            raise ValueError(f"A fit to public_data is impossible. {error}") from error
    return start, known._units, model.feature_bound


def _one_part(records: Any, n_parts: int, k: int) -> tuple[Any, Any]:
    """X and y of all records but those of part k, and those of this part."""
    own = np.arange(num_samples(records[0])) % n_parts == k
    left, right = (
        [safe_indexing(part, np.flatnonzero(rows)) for part in records] for rows in (~own, own)
    )
    return left, right


def _best_public_fit(model: Any, records: Any) -> Any:
    """A fit whose weight of the penalty has the best score in cross-validation."""
    name = "C" if hasattr(model, "C") else "alpha"
    n_parts = min(N_PARTS, num_samples(records[0]) // LEAST_PART)
    best, most = model, -np.inf
    for factor in FACTORS if n_parts > 1 else ():
        other = clone(model).set_params(**{name: getattr(model, name) * factor})
        splits = [_one_part(records, n_parts, k) for k in range(n_parts)]
        score = np.mean([_public_fit(other, rest).score(*part) for rest, part in splits])
        if score > most:
            best, most = other, score
    return _public_fit(best, records)


def _public_fit(model: Any, records: Any, start: PublicStart | None = None) -> Any:
    """A draft that is fitted to public records with hardly any noise."""
    others = {"standard_errors": False, "relation": REPLACE_ONE, "max_records_per_unit": None}
    names = model._get_param_names()
    draft = clone(model).set_params(
        epsilon=NOISELESS,
        ledger=Unaccounted(),
        random_state=0,  # the same records always have the same units
        **{name: value for name, value in others.items() if name in names},
    )
    draft._init, draft._alone = start, False
    draft.coef_, draft.intercept_ = draft._learn(*records)
    return draft


def clipped_product(X: Any, coef: np.ndarray, limits: Any) -> np.ndarray:
    """The product of X, its columns clipped to the rows of ``limits``, and coef.

    Sparse rows stay sparse: what zeros become is subtracted from all, and its product added.
    """
    if not sparse.issparse(X):
        return np.clip(X, *limits) @ coef
    X = X.tocsr()
    # A new matrix looks itself whether several entries are in one cell: only their sum is clipped.
    X = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape, copy=True)
    X.sum_duplicates()
    zeros = np.clip(0.0, *limits)
    # The product refuses an index beyond the columns; an error here would show it.
    low, high, less = (one.take(X.indices, mode="clip") for one in (*limits, zeros))
    X.data = np.clip(X.data, low, high) - less
    return X @ coef + zeros @ coef
