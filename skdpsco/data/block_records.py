"""How a fit reads its records in blocks: what counts as blocks, and how they become a design."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config

from skdpsco.data.arrow_blocks import is_arrow
from skdpsco.data.design import as_design
from skdpsco.data.digests import new_key
from skdpsco.data.local_blocks import LocalBlocks, StreamedBlocks
from skdpsco.data.record_sums import BlockDesign, Hidden, Reader
from skdpsco.data.row_blocks import RowBlocks
from skdpsco.data.spark_blocks import SparkBlocks, is_spark

__all__ = [
    "BlockRecords",
    "as_blocks",
    "as_features",
    "blocks_of",
    "first_record",
    "is_blocks",
    "opened",
    "read_features",
    "read_records",
    "read_tables",
]


def blocks_of(X: Any, y: Any = None) -> RowBlocks | None:
    """Return blocks for `RowBlocks`, Dask, Arrow tables and Spark frames, otherwise None.

    Raises
    ------
    ValueError
        If both X and y hold targets.
    """
    if isinstance(X, RowBlocks):
        blocks = X
    elif _on_dask(X):
        blocks, y = RowBlocks.from_dask(X, y), None
    elif is_arrow(X):
        blocks = RowBlocks.from_arrow(X)
    elif is_spark(X):
        blocks = RowBlocks.from_spark(X)
    else:
        return None
    if y is not None:
        if blocks.has_target:
            raise ValueError("y must be None where the blocks of X hold the targets.")
        blocks = blocks.with_target(y)
    return blocks


def as_blocks(X: Any, y: Any, numeric: bool = True) -> RowBlocks | None:
    """Return blocks with targets if `blocks_of` returns blocks, otherwise None.

    ``numeric`` says that they must be numeric.

    Raises
    ------
    ValueError
        If there are no targets, or several columns of them, or if both X and y hold targets.
    TypeError
        If a column is known not to be numeric.
    """
    blocks = blocks_of(X, y)
    if blocks is None:
        return None
    if not blocks.has_target:
        raise ValueError(
            "y must be given, or be part of the RowBlocks of X (target=...): with_target(y)."
        )
    if blocks.n_targets > 1:
        raise ValueError(
            "y must have one column: with blocks, only PrivateRidge, PrivateElasticNet, "
            "PrivateLasso and PrivateMoments take several targets."
        )
    return blocks.checked_numeric() if numeric else blocks


def is_blocks(X: Any) -> bool:
    """Whether `as_blocks` returns blocks for X."""
    return isinstance(X, RowBlocks) or _on_dask(X) or is_arrow(X) or is_spark(X)


def _on_dask(X: Any) -> bool:
    return hasattr(X, "__dask_graph__") and hasattr(X, "ndim")


def first_record(X: Any) -> Any:
    """One record of blocks, which has the layout of all of them; anything else as it is."""
    blocks = blocks_of(X)
    return X if blocks is None else blocks.as_frames().first


def read_records(estimator: Any, X: Any, y: Any, encode: Callable[..., Any]) -> Any:
    """Return blocks for a fit of ``estimator``, and set its column names; None for arrays."""
    blocks = as_blocks(X, y)
    return None if blocks is None else _named(estimator, BlockRecords(blocks, encode))


def read_features(estimator: Any, X: Any) -> Any:
    """Return blocks for a fit that needs no targets, as `read_records` does; None for arrays."""
    blocks = blocks_of(X)
    return None if blocks is None else _named(estimator, as_features(blocks))


def read_tables(
    estimator: Any, blocks: RowBlocks, encode: Callable[..., Any], n_columns: int
) -> "BlockRecords":
    """Blocks for a fit that takes targets for columns; ``encode`` makes tables of them.

    The last column of a table is what kernels see as the target, and the ``n_columns`` before it
    stand behind the features.
    """
    n_columns += blocks.n_features
    return _named(estimator, BlockRecords(blocks.checked_numeric(), encode, n_columns))


def as_features(blocks: RowBlocks) -> "BlockRecords":
    """Numeric blocks for a fit that needs no targets."""
    return BlockRecords(blocks.checked_numeric(), _no_targets)


def _no_targets(y: np.ndarray) -> np.ndarray:
    return np.zeros(len(y))


def _named(estimator: Any, records: "BlockRecords") -> "BlockRecords":
    """Set the number and the names of the features on an estimator."""
    blocks = records.blocks
    estimator.n_features_in_ = blocks.n_features
    if blocks.feature_names is not None:
        estimator.feature_names_in_ = np.array(blocks.feature_names, dtype=object)
    return records


def opened(X: Any, bounds: np.ndarray) -> AbstractContextManager[Any]:
    """The design of records without an intercept; on exit, workers forget what they hold."""
    if isinstance(X, BlockRecords):
        return closing(X.open(bounds, False))
    return nullcontext(as_design(X, bounds, False))


class BlockRecords(NamedTuple):
    """Blocks with the encoding of their targets, before a fit opens them."""

    blocks: RowBlocks
    encode: Callable[..., Any]
    n_columns: int | None = None  # that kernels see, if they are not those of the blocks
    missing: bool = False  # whether NaN is legal

    @property
    def shape(self) -> tuple[int, int]:
        """Number of records and of columns that kernels see."""
        n_columns = self.blocks.n_features if self.n_columns is None else self.n_columns
        return self.blocks.n_samples, n_columns

    def open(self, bounds: np.ndarray, intercept: bool) -> BlockDesign:
        """Check every block, in one pass over the data."""
        blocks = self.blocks
        key = Hidden(new_key())  # of the digests of this fit
        reader = Reader(
            blocks.n_features,
            blocks.sparse,
            self.encode,
            key,
            blocks.steps,
            names=blocks.feature_names,
            n_targets=blocks.n_targets,
            missing=self.missing,
        )
        opened: Any
        if blocks.engine == "Spark":
            opened = SparkBlocks(blocks.parts, blocks.n_samples, reader)
        elif blocks.engine == "Dask":
            from skdpsco.data.dask_blocks import open_dask

            opened = open_dask(blocks.parts, blocks.n_samples, reader)
        elif blocks.stream is not None:
            memory = 2.0**20 * get_config()["working_memory"]
            opened = StreamedBlocks(blocks.stream, blocks.parts, blocks.n_samples, reader, memory)
        else:
            opened = LocalBlocks(blocks.parts, blocks.n_samples, blocks.n_jobs, reader)
        return BlockDesign(opened, bounds, int(intercept), None, blocks.sparse)
