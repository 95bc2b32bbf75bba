"""Base classes of transformers: for arrays and blocks, and for columns with private parameters."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdpsco._typing import MatrixLike, Self, TargetLike
from skdpsco._validation import check_features, check_width
from skdpsco.base.private_estimator import PrivateEstimator
from skdpsco.data.arrow_blocks import is_arrow
from skdpsco.data.block_records import BlockRecords, blocks_of, opened, read_features
from skdpsco.data.row_blocks import RowBlocks
from skdpsco.privacy import Budget, Event

__all__ = ["CLIPPED", "BlockTransformerMixin", "ColumnTransform"]

CLIPPED = "columns are clipped to their public bounds, lower and upper"


class BlockTransformerMixin(TransformerMixin):
    """A transformer of arrays and frames that transforms blocks too: with `RowBlocks.map`."""

    _reads_arrow = False  # whether Arrow tables are frames for it, and not blocks

    @available_if(lambda self: hasattr(self, "_plain_steps"))
    def to_sklearn(self) -> Pipeline:
        """A pipeline of scikit-learn's transformers that returns the same numbers.

        It needs neither this package nor Numba. Numbers agree up to rounding.

        Returns
        -------
        pipeline : sklearn.pipeline.Pipeline
            It reads dense arrays, or frames of pandas with the columns of the fit, and returns
            dense arrays.

        Raises
        ------
        NotFittedError
            If the transformer is not fitted.
        """
        check_is_fitted(self, "n_features_in_")
        steps = self._plain_steps()  # type: ignore[attr-defined]
        if hasattr(self, "feature_names_in_"):
            steps[0][1].feature_names_in_ = self.feature_names_in_
        return Pipeline(steps)

    def _blocks_of(self, X: Any) -> RowBlocks | None:
        """X as blocks; None if it is a frame or an array."""
        return None if self._reads_arrow and is_arrow(X) else blocks_of(X)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)  # scikit-learn's wrapper knows only arrays and frames
        if "transform" in vars(cls):
            cls.transform = _also_of_blocks(vars(cls)["transform"])  # type: ignore[attr-defined]


def _also_of_blocks(transform: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(transform)
    def wrapped(self, X):
        blocks = self._blocks_of(X)
        return transform(self, X) if blocks is None else blocks.map(self)

    return wrapped


def _fit_transform(self, X, y=None, **fit_params):
    """Fit to the data, then transform them.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), or blocks
    y : array-like of shape (n_samples,) or None, default=None
    **fit_params : dict
        Further arguments of ``fit``.

    Returns
    -------
    X_out : what `transform` returns
    """
    blocks = self._blocks_of(X)
    if blocks is None:
        return super(BlockTransformerMixin, self).fit_transform(X, y, **fit_params)
    return self.fit(blocks, y, **fit_params).transform(blocks)


# Set here, where scikit-learn does not wrap it.
BlockTransformerMixin.fit_transform = _fit_transform  # type: ignore[method-assign]
_fit_transform.__name__ = "fit_transform"


class ColumnTransform(BlockTransformerMixin, PrivateEstimator):
    """Base of private maps of single columns; see the subclasses.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit, random_state}
    """

    def fit(self, X: MatrixLike, y: TargetLike = None, *, units: Any = None) -> Self:
        """Release the parameters of the map of every column.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or blocks
            Records, which are clipped to the bounds. Blocks are `RowBlocks`, a Dask array or data
            frame, or an Arrow table.
        y : None
            Ignored.
        {units}

        {outcome}
        """
        self._validate_params()
        draft = self._draft()
        draft._learn(draft._records(*self._of_units(units, X=X)))
        return self._accept(draft)

    def _learn(self, X: np.ndarray | BlockRecords) -> None:
        """Fit this draft on checked columns; warnings name the line that called `fit`."""
        raise NotImplementedError

    @contextmanager
    def _releasing_columns(
        self, X: Any, event: Event, budget: Budget, **said: Any
    ) -> Iterator[tuple[Any, np.random.Generator]]:
        """Do what `_releasing` does, for `_learn`; yields the design of X and the generator."""
        with (
            opened(X, np.ones(X.shape[1])) as design,
            self._releasing(self, event, budget, stacklevel=5, **said) as release,
        ):
            yield design, release.rng

    def _records(self, X: Any) -> np.ndarray | BlockRecords:
        records = read_features(self, X)
        if records is None:
            return self._check(X, reset=True)
        self._refuse_sparse(records.blocks.sparse)
        return records

    def _check(self, X, reset: bool, named: bool = True) -> np.ndarray:
        if not reset:
            check_is_fitted(self)
        X = check_features(self, X, reset) if named else check_width(self, X)
        self._refuse_sparse(sparse.issparse(X))
        return X

    def _refuse_sparse(self, is_sparse: bool) -> None:
        if is_sparse:
            raise ValueError(
                f"X is sparse, but {type(self).__name__} moves zeros: make it dense, with "
                "X.toarray(), or use PublicBoundsScaler with symmetric bounds."
            )
