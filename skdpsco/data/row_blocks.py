"""Records in blocks of rows, which need not fit in memory together."""

from collections.abc import Callable, Iterable, Iterator
from numbers import Integral
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np

from skdpsco._typing import MatrixLike, Self, TargetLike
from skdpsco.data.block_sources import (
    Pair,
    Retargeted,
    array_parts,
    as_rows,
    block_rows,
    check_apart,
    check_block_size,
    encoded_parts,
    parquet_parts,
    rows_of_array,
    table_parts,
)
from skdpsco.data.digests import new_key
from skdpsco.data.record_sums import BlockDesign, Hidden, LocalBlocks, Reader


def as_blocks(X: Any, y: Any) -> "RowBlocks | None":
    """Return blocks with targets for `RowBlocks`, Dask collections and Arrow tables, else None.

    Raises
    ------
    ValueError
        If there are no targets, or if both X and y hold targets.
    """
    if isinstance(X, RowBlocks):
        blocks = X
    elif _on_dask(X):
        blocks, y = RowBlocks.from_dask(X, y), None
    elif _in_arrow(X):
        blocks = RowBlocks.from_arrow(X)
    else:
        return None
    if y is not None:
        if blocks.has_target:
            raise ValueError("y must be None where the blocks of X hold the targets.")
        blocks = blocks.with_target(y)
    if not blocks.has_target:
        raise ValueError("y must be given, or be part of the blocks of X (target=...).")
    return blocks


def is_blocks(X: Any) -> bool:
    """Whether `as_blocks` returns blocks for X."""
    return isinstance(X, RowBlocks) or _on_dask(X) or _in_arrow(X)


def _on_dask(X: Any) -> bool:
    return hasattr(X, "__dask_graph__") and hasattr(X, "ndim")


def _in_arrow(X: Any) -> bool:
    return type(X).__module__.split(".")[0] == "pyarrow" and hasattr(X, "column_names")


def _column_names(X: Any) -> tuple[str, ...] | None:
    """Names of the columns of a frame, if all are strings."""
    names = tuple(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def read_records(estimator: Any, X: Any, y: Any, encode: Callable[..., Any]) -> Any:
    """Return blocks for a fit of ``estimator``, and set its names of columns; None for arrays."""
    blocks = as_blocks(X, y)
    if blocks is None:
        return None
    estimator.n_features_in_ = blocks.n_features
    if blocks.feature_names is not None:
        estimator.feature_names_in_ = np.array(blocks.feature_names, dtype=object)
    return BlockRecords(blocks, encode)


class BlockRecords(NamedTuple):
    """Blocks with the meaning of their targets, before a fit opens them."""

    blocks: "RowBlocks"
    encode: Callable[..., Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of records and of features."""
        return self.blocks.n_samples, self.blocks.n_features

    def open(self, bounds: np.ndarray, intercept: bool) -> BlockDesign:
        """Check every block, in one pass over the data."""
        blocks, reader = self.blocks, self._reader()
        opened: Any
        if blocks.on_dask:
            from skdpsco.data.dask_blocks import open_dask

            opened = open_dask(blocks.parts, blocks.n_samples, reader)
        else:
            opened = LocalBlocks(blocks.parts, blocks.n_samples, blocks.n_jobs, reader)
        return BlockDesign(opened, bounds, int(intercept), None, blocks.sparse)

    def read_once(self) -> Iterable[tuple[Any, Any]]:
        """Blocks as iterating yields them, for a fit that reads each record once.

        Dask computes them one by one, and may evaluate the graph anew for each: so all of them are
        checked before, and compared when they are read.
        """
        blocks = self.blocks
        if not blocks.on_dask:
            return blocks
        from skdpsco.data.dask_blocks import GraphBlocks

        return GraphBlocks(blocks.parts, blocks.n_samples, self._reader())

    def _reader(self) -> Reader:
        """How blocks are read in one fit, whose key it draws."""
        blocks = self.blocks
        return Reader(blocks.n_features, blocks.sparse, self.encode, Hidden(new_key()))


class RowBlocks:
    """Records in blocks of rows, which need not fit in memory together.

    Make one with `from_arrays`, `from_blocks`, `from_arrow`, `from_parquet` or `from_dask`, and fit
    an estimator to it: ``model.fit(blocks)``, or ``model.fit(blocks, y)`` if it has no targets. The
    solvers that sum over all records read one block after the other, in every pass; those that read
    each record once take the blocks in their order. Iterating yields pairs (X, y) of blocks.

    Attributes
    ----------
    n_samples : int
        Number of records, which is public.
    n_features : int
    n_blocks : int
    feature_names : tuple of str or None
    has_target : bool

    Notes
    -----
    The number of records, the sizes of the blocks, and the number, names and types of the columns
    are public. Solvers that sum check every block before the charge, in one pass over the data. If
    a block has changed when it is read again, the fit ends without a release.

    Results do not depend on the number of workers. Rounding depends on the blocks, and the noise
    accounts for it.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLasso, RowBlocks
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> y = 2 * X[:, 0] - X[:, 3]
    >>> blocks = RowBlocks.from_arrays(X, y, block_size=5000)
    >>> blocks.n_blocks
    4
    >>> model = PrivateLasso(epsilon=1.0, radius=3.0).fit(blocks)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    parts: list[Any]
    n_samples: int
    n_features: int
    feature_names: tuple[str, ...] | None
    has_target: bool
    sparse: bool
    on_dask: bool
    n_jobs: int | None

    def __init__(
        self,
        parts: list[Any],
        n_samples: int,
        n_features: int,
        *,
        feature_names: tuple[str, ...] | None = None,
        has_target: bool = True,
        sparse: bool = False,
        on_dask: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        for name, size in (("records", n_samples), ("features", n_features)):
            if size < 1:
                raise ValueError(f"X must have at least one of its {name}, got {size}.")
        if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral)):
            raise TypeError(f"n_jobs must be None or an int other than 0, got {n_jobs!r}.")
        if n_jobs == 0:
            raise ValueError("n_jobs must be None or an int other than 0, got 0.")
        self.parts, self.n_samples, self.n_features = parts, n_samples, n_features
        self.feature_names, self.has_target = feature_names, has_target
        self.sparse, self.on_dask, self.n_jobs = sparse, on_dask, n_jobs

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""
        return len(self.parts)

    def __repr__(self) -> str:
        return (
            f"RowBlocks(n_samples={self.n_samples}, n_features={self.n_features}, "
            f"n_blocks={self.n_blocks})"
        )

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return (part.read() for part in self.parts)

    @classmethod
    def from_arrays(
        cls,
        X: MatrixLike,
        y: TargetLike = None,
        *,
        block_size: int | None = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Blocks of an array, a `numpy.memmap`, a sparse matrix or a pandas frame: no copies.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A memmap may be larger than memory and read-only: of one that is the whole file, blocks
            are mapped one at a time.
        y : array-like of shape (n_samples,) or None, default=None
        block_size : int or None, default=None
            Rows of a block, >= 1; None means as many as take 64 MB as float64.
        n_jobs : int or None, default=None
            How many blocks are at work at a time, as in joblib: in threads, or where
            `joblib.parallel_config` says. None for one after the other.
        """
        X = as_rows("X", X, 2)
        n_samples, n_features = X.shape
        y = None if y is None else as_rows("y", y, 1)
        if y is not None and y.shape[0] != n_samples:
            raise ValueError(f"X and y must have the same length, got {n_samples}, {y.shape[0]}.")
        parts = array_parts(X, y, block_rows(n_features, check_block_size(block_size)))
        return cls(
            parts,
            n_samples,
            n_features,
            feature_names=_column_names(X),
            has_target=y is not None,
            sparse=getattr(X, "format", None) == "csr",
            n_jobs=n_jobs,
        )

    @classmethod
    def from_blocks(cls, blocks: Any, *, n_jobs: int | None = None) -> Self:
        """Blocks that exist already.

        Parameters
        ----------
        blocks : list of (X, y)
            All X arrays and memmaps, or all sparse, with the same columns; y may be None in all.
            No two may take the same rows of an array or a file.
        n_jobs : int or None, default=None
            As in `from_arrays`.
        """
        blocks = list(blocks)
        pairs = [(as_rows("X", X, 2), None if y is None else as_rows("y", y, 1)) for X, y in blocks]
        if not pairs:
            raise ValueError("blocks must not be empty.")
        if len({y is None for _, y in pairs}) > 1:
            raise ValueError("blocks must have a y in all pairs, or None in all.")
        if len({_column_names(X) for X, _ in pairs} - {None}) > 1:
            raise ValueError("blocks must have the same names of columns, in the same order.")
        check_apart([X for X, _ in blocks])
        parts = [
            Pair(
                rows_of_array(X, 0, X.shape[0]),
                None if y is None else rows_of_array(y, 0, y.shape[0]),
                X.shape[0],
            )
            for X, y in pairs
        ]
        X, y = pairs[0]
        return cls(
            parts,
            sum(part.n_rows for part in parts),
            X.shape[1],
            feature_names=_column_names(X),
            has_target=y is not None,
            sparse=getattr(X, "format", None) == "csr",
            n_jobs=n_jobs,
        )

    @classmethod
    def from_arrow(
        cls,
        table: Any,
        target: Any = None,
        *,
        columns: Any = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Blocks of an Arrow table.

        Parameters
        ----------
        table : pyarrow.Table
        target : str or None, default=None
            Name of the column of the targets.
        columns : list of str or None, default=None
            Names of the features, numeric columns; None means all but the target.
        block_size, n_jobs : int or None, default=None
            As in `from_arrays`.
        """
        parts, names = table_parts(table, target, columns, check_block_size(block_size))
        return cls(
            parts,
            table.num_rows,
            len(names),
            feature_names=names,
            has_target=target is not None,
            n_jobs=n_jobs,
        )

    @classmethod
    def from_parquet(
        cls,
        path: Any,
        target: Any = None,
        *,
        columns: Any = None,
        schema: Any = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Blocks of Parquet files, which are read and decoded anew in every pass.

        Parameters
        ----------
        path : str, path or list of them
            No file may be named twice, by whatever path or link.
        target : str or None, default=None
            Name of the column of the targets; None means that of the schema, if there is one.
        columns : list of str or None, default=None
            Names of the features, numeric columns; None means all but the target.
        schema : Schema or None, default=None
            What is public about the columns. Its features are read and encoded, as a `TableEncoder`
            does it, whenever a block is read; columns of the files that are no features are not
            read. ``columns`` must be None then.
        block_size : int or None, default=None
            Row groups are put together up to so many rows, and never split; None as in
            `from_arrays`.
        n_jobs : int or None, default=None
            As in `from_arrays`.
        """
        paths = [path] if isinstance(path, str | PathLike) else list(path)
        if not paths:
            raise ValueError("path must name at least one file.")
        files = [fspath(one) for one in paths]
        rows = check_block_size(block_size)
        if schema is None:
            parts, names = parquet_parts(files, target, columns, rows)
        elif columns is not None:
            raise ValueError("columns must be None where a schema names the features.")
        else:
            target = schema.target if target is None else target
            parts, names = encoded_parts(files, target, schema, rows)
        return cls(
            parts,
            sum(part.n_rows for part in parts),
            len(names),
            feature_names=names,
            has_target=target is not None,
            n_jobs=n_jobs,
        )

    @classmethod
    def from_dask(
        cls,
        X: MatrixLike,
        y: TargetLike = None,
        *,
        target: Any = None,
        block_size: int | None = None,
        n_samples: int | None = None,
    ) -> Self:
        """Blocks of a Dask array or data frame.

        With a client of `dask.distributed` the blocks stay in the memory of its workers during a
        fit by a solver that sums; else they are computed whenever they are read. The graph must be
        deterministic: a fit evaluates it twice before the charge, and refuses what differs.

        Parameters
        ----------
        X : dask.array.Array of shape (n_samples, n_features) or dask.dataframe.DataFrame
        y : Dask array or series with the partitions of X, array-like or None, default=None
        target : str or None, default=None
            Name of the column of a data frame that holds the targets.
        block_size : int or None, default=None
            Neighbouring chunks of rows are put together up to so many rows, and never split; None
            means 64 MB, more where there were more than 2048 blocks.
        n_samples : int or None, default=None
            Number of records, where the sizes of the chunks are not known, as those of data frames.
        """
        from skdpsco.data.dask_blocks import dask_parts

        parts, n_samples, names, is_sparse, has_target = dask_parts(
            X, y, target, check_block_size(block_size), n_samples
        )
        return cls(
            parts,
            n_samples,
            X.shape[1] if names is None else len(names),
            feature_names=names,
            has_target=has_target,
            sparse=is_sparse,
            on_dask=True,
        )

    def with_target(self, y: TargetLike) -> "RowBlocks":
        """The same features with the targets ``y``, an array for all records."""
        if hasattr(y, "__dask_graph__"):
            raise TypeError("y must be an array. Pass a Dask y with its X: from_dask(X, y).")
        y = as_rows("y", y, 1)
        sizes = [part.n_rows for part in self.parts]
        if None in sizes or y.shape[0] != self.n_samples:
            raise ValueError(
                f"y must have one entry for each of {self.n_samples} records in blocks of known "
                f"sizes; got {y.shape[0]}."
            )
        stops = np.cumsum(sizes).tolist()
        parts: list[Any] = []
        for part, size, stop in zip(self.parts, sizes, stops, strict=True):
            mine = rows_of_array(y, stop - size, stop)
            parts.append(part._replace(y=mine) if self.on_dask else Retargeted(part, mine))
        return RowBlocks(
            parts,
            self.n_samples,
            self.n_features,
            feature_names=self.feature_names,
            sparse=self.sparse,
            on_dask=self.on_dask,
            n_jobs=self.n_jobs,
        )
