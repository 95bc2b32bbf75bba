"""Records in blocks of rows, which need not fit in memory together."""

from collections.abc import Iterator
from contextlib import nullcontext
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skdpsco._typing import MatrixLike, Self, TargetLike
from skdpsco._validation import check_n_jobs
from skdpsco.data.arrow_blocks import ArrowStream, framed, is_arrow, parquet_parts, table_parts
from skdpsco.data.block_sources import (
    Pair,
    Retargeted,
    Taken,
    as_rows,
    as_target_rows,
    block_rows,
    check_apart,
    check_block_size,
    cuts,
    n_targets_of,
    part_of_arrays,
    rows_of_array,
    target_names,
)
from skdpsco.data.digests import digest_of_columns, digest_of_features, new_key
from skdpsco.data.record_sums import CHANGED, Hidden, transformed
from skdpsco.data.spark_blocks import spark_parts

__all__ = ["RowBlocks", "without"]


def _column_names(X: Any) -> tuple[str, ...] | None:
    """Names of the columns of a frame, if all are strings."""
    names = tuple(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def without(X: Any, columns: tuple[Any, ...]) -> Any:
    """The frame X without ``columns``, which need not exist."""
    have = getattr(X, "columns", ()) if columns else ()
    drop = [name for name in columns if name in have]
    if not drop:
        return X
    return X.drop(drop) if hasattr(X, "iter_rows") else X.drop(columns=drop)


class Labelled(NamedTuple):
    """A part that is refused if its targets, or the columns of its labels, have changed.

    Its features are those that come out of ``steps``, without these columns. If it is ``whole``,
    they are compared, too.
    """

    part: Any
    steps: tuple[Any, ...]
    columns: tuple[Any, ...]
    key: Hidden
    whole: bool = False
    seen: Hidden | None = None

    @property
    def n_rows(self) -> int | None:
        """How many records the part has."""
        return self.part.n_rows

    def read_all(self) -> tuple[Any, Any, Any, Hidden]:
        """Features, targets, labels (an array of objects), and the digest of what is compared."""
        X, y = self.part.read()
        X = transformed(X, self.steps)
        labels = np.asarray(X[list(self.columns)], dtype=object) if self.columns else None
        columns = [a for a in (y, labels) if a is not None]
        found = digest_of_columns(self.key.value, columns)
        found += digest_of_features(self.key.value, X) if self.whole else b""
        return X, y, labels, Hidden(found)

    def read(self) -> tuple[Any, Any]:
        """Features and targets."""
        X, y, _, found = self.read_all()
        if self.seen is not None and found.value != self.seen.value:
            raise ValueError(CHANGED)
        return without(X, self.columns), y


@dataclass(eq=False, repr=False)
class RowBlocks:
    """Records in blocks of rows, which need not fit in memory together.

    Make one with `from_arrays`, `from_blocks`, `from_arrow`, `from_parquet`, `from_dask` or
    `from_spark`, and fit an estimator to it: ``model.fit(blocks)``, or ``model.fit(blocks, y)`` if
    it has no targets. The solvers that sum over all records read one block after the other, in
    every pass; those that read each record once take the blocks in their order. Iterating yields
    pairs (X, y) of blocks. Text is encoded on the way, without another file: see `map`.

    Attributes
    ----------
    n_samples : int
        Number of records, which is public.
    n_features : int
    n_blocks : int
    feature_names : tuple of str or None
    has_target : bool
    n_targets : int
        How many columns the targets have, if there are some.

    See Also
    --------
    Schema : For Parquet files of raw columns.
    TableEncoder : Encodes blocks by `RowBlocks.map`.

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
    _: KW_ONLY
    feature_names: tuple[str, ...] | None = None
    has_target: bool = True
    n_targets: int = 1
    sparse: bool = False
    engine: str | None = None  # "Dask" or "Spark", if it evaluates the blocks
    n_jobs: int | None = None
    text: str | None = None  # which column is not numeric, for messages
    stream: ArrowStream | None = None  # that the parts share, if they are read from one
    steps: tuple[Any, ...] = ()  # transformers of the features
    _first: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        for name, size in (("records", self.n_samples), ("features", self.n_features)):
            if size < 1:
                raise ValueError(f"X must have at least one of its {name}, got {size}.")
        check_n_jobs(self.n_jobs)

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
        with self.stream or nullcontext():
            for part in self.parts:
                X, y = part.read()
                yield transformed(X, self.steps), y if self.has_target else None

    @property
    def first(self) -> Any:
        """The features of one record, which has the layout of all records."""
        if self._first is None:
            blocks = (X for X, _ in self if X.shape[0] > 0)
            self._first = rows_of_array(next(blocks), 0, 1).read()
        return self._first

    def as_frames(self) -> "RowBlocks":
        """The same blocks, read as pandas frames where columns have names."""
        if self.feature_names is None:
            return self
        return self._with(parts=list(map(framed, self.parts)), _first=None)

    def checked_numeric(self) -> "RowBlocks":
        """These blocks, after a check that no column is known to be non-numeric."""
        if self.text is not None:
            raise TypeError(
                f"X must be numeric, but {self.text}. Encode text and turn dates into numbers: "
                "declare the columns in a skdpsco.Schema, and fit skdpsco.make_private_pipeline("
                "schema, model), or use RowBlocks.map(transformer); or name the numeric columns "
                "when you make the blocks: columns=[...]."
            )
        return self

    def map(self, transformer: Any) -> "RowBlocks":
        """The same records, which a transformer is applied to whenever a block is read.

        Nothing is stored. The first block is read once, to see what columns come out.

        Parameters
        ----------
        transformer : object with ``transform``
            It has been fitted, or needs no fit; it is never fitted to the blocks here. What it
            returns for a record must not depend on the others, and how it was fitted is for you to
            account for: see `skdpsco.inspection.privacy_report`. Blocks of Arrow tables and Parquet
            files reach it as pandas frames, unless it was fitted to an array without names. Their
            integers and booleans have the dtypes Int64, boolean and so on, missing or not.

        Returns
        -------
        blocks : RowBlocks
            Their features have names if the transformer returns frames (``set_output``).

        Raises
        ------
        TypeError
            If ``transformer`` has no method ``transform``, or is a class.
        ValueError, TypeError
            If it fails for the first record, or does not return a row for it.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdpsco import RowBlocks
        >>> from skdpsco.preprocessing import CategoricalDomainEncoder
        >>> frame = pd.DataFrame({"city": ["Rome", "Oslo", "Rome"]})
        >>> encoder = CategoricalDomainEncoder({"city": ["Oslo", "Rome"]}).fit(frame)
        >>> RowBlocks.from_arrays(frame).map(encoder).n_features
        2
        """
        if isinstance(transformer, type) or not callable(getattr(transformer, "transform", None)):
            raise TypeError(
                f"transformer must be an object with a method transform, got {transformer!r}."
            )
        named = hasattr(transformer, "feature_names_in_")
        fitted_to_arrays = hasattr(transformer, "n_features_in_") and not named
        source = self if fitted_to_arrays else self.as_frames()
        step = copy(transformer)  # this copy stays as it is if the original is fitted again
        if hasattr(step, "ledger"):
            step.ledger = None  # workers need none
        first = transformed(source.first, (step,))
        shape: tuple[int, ...] = getattr(first, "shape", ())
        if len(shape) != 2 or shape[0] != 1:
            raise ValueError(
                f"{type(transformer).__name__}.transform must return one row for every record; for "
                f"one record it returned the shape {shape}."
            )
        return source._with(
            steps=(*self.steps, step),
            n_features=shape[1],
            feature_names=_column_names(first),
            sparse=sparse.issparse(first),
            text=_text_in(first),
            _first=first,
        )

    def without_target(self) -> "RowBlocks":
        """The same features without targets."""
        return self._with(has_target=False)

    def labelled(
        self, columns: tuple[Any, ...] = (), whole: bool = False
    ) -> tuple["RowBlocks", Any, Any]:
        """Read the targets of all records, and their ``columns``, in one pass.

        Parameters
        ----------
        columns : tuple of str, default=()
        whole : bool, default=False
            Whether the other columns are compared, too. This is for fits that share the records,
            and of which each compares only what it reads itself.

        Returns
        -------
        blocks : RowBlocks
            Without these columns; they are compared with what was read here, whenever they are
            read.
        y : ndarray of shape (n_samples,) or (n_samples, n_targets), or None without targets
        labels : ndarray of objects of shape (n_samples, n_columns), or None without columns

        Raises
        ------
        TypeError
            If Dask or Spark would have to evaluate the blocks once more.
        """
        if self.engine is not None:
            raise TypeError(
                f"X must be RowBlocks of arrays or files here, not of {self.engine}: write them to "
                "Parquet, or compute them."
            )
        source, key = self.as_frames() if columns else self, Hidden(new_key())
        parts = [Labelled(part, self.steps, columns, key, whole) for part in source.parts]
        with self.stream or nullcontext():
            targets, labels, seen = zip(*(part.read_all()[1:] for part in parts), strict=True)
        parts = [part._replace(seen=found) for part, found in zip(parts, seen, strict=True)]
        first = without(source.first, columns)
        blocks = source._with(
            parts=parts,
            steps=(),
            n_features=first.shape[1],
            feature_names=_column_names(first) if columns else self.feature_names,
            text=_text_in(first) if columns else self.text,
            _first=first,
        )
        y = np.concatenate([np.asarray(a) for a in targets]) if self.has_target else None
        return blocks, y, np.concatenate(labels) if columns else None

    def take(self, rows: np.ndarray) -> "RowBlocks":
        """Some of the records, given by increasing numbers; there must be at least one."""
        cuts = np.cumsum([0, *(part.n_rows for part in self.parts)])
        runs = np.split(rows, np.searchsorted(rows, cuts[1:-1]))
        pairs = zip(self.parts, cuts[:-1], runs, strict=True)
        parts = [Taken(part, run - start) for part, start, run in pairs if len(run) > 0]
        return self._with(parts=parts, n_samples=len(rows))

    def _with(self, **changes: Any) -> "RowBlocks":
        other = copy(self)
        vars(other).update(changes)
        return other

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
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or None, default=None
        block_size : int or None, default=None
            Rows per block, >= 1; None means as many as take 64 MB as float64.
        n_jobs : int or None, default=None
            How many blocks are processed at the same time, as in joblib: in threads, or as
            `joblib.parallel_config` says. None means one after the other.
        """
        X = as_rows("X", X, 2)
        n_samples, n_features = X.shape
        y = None if y is None else as_target_rows(y)
        if y is not None and y.shape[0] != n_samples:
            raise ValueError(f"X and y must have the same length, got {n_samples}, {y.shape[0]}.")
        rows = block_rows(n_features, check_block_size(block_size))
        parts = [part_of_arrays(X, y, *ends) for ends in cuts(n_samples, rows)]
        return cls._of_arrays(parts, X, y, n_jobs)

    @classmethod
    def _of_arrays(cls, parts: list[Pair], X: Any, y: Any, n_jobs: int | None) -> Self:
        """Blocks of parts that have the columns of X and y."""
        return cls(
            parts,
            sum(part.n_rows for part in parts),
            X.shape[1],
            feature_names=_column_names(X),
            has_target=y is not None,
            n_targets=n_targets_of(y),
            sparse=getattr(X, "format", None) == "csr",
            n_jobs=n_jobs,
        )

    @classmethod
    def from_blocks(cls, blocks: Any, *, n_jobs: int | None = None) -> Self:
        """Blocks that exist already.

        Parameters
        ----------
        blocks : list of (X, y)
            All X are arrays or memmaps, or all are sparse, with the same columns; y may be None in
            all. No two of them may take the same rows of an array or a file.
        n_jobs : int or None, default=None
            As in `from_arrays`.
        """
        blocks = list(blocks)
        if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in blocks):
            raise TypeError("blocks must hold pairs (X, y).")
        pairs = [(as_rows("X", X, 2), None if y is None else as_target_rows(y)) for X, y in blocks]
        if not pairs:
            raise ValueError("blocks must not be empty.")
        if len({y is None for _, y in pairs}) > 1:
            raise ValueError("blocks must have a y in all pairs, or None in all.")
        if len({n_targets_of(y) for _, y in pairs}) > 1:
            raise ValueError("blocks must have as many columns of y in all pairs.")
        if len({_column_names(X) for X, _ in pairs} - {None}) > 1:
            raise ValueError("blocks must have the same names of columns, in the same order.")
        check_apart([X for X, _ in blocks])
        parts = [part_of_arrays(X, y, 0, X.shape[0]) for X, y in pairs]
        return cls._of_arrays(parts, *pairs[0], n_jobs)

    @classmethod
    def from_arrow(
        cls,
        source: Any,
        target: Any = None,
        *,
        columns: Any = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Blocks of an Arrow table, or of anything that streams Arrow and can be opened again.

        Parameters
        ----------
        source : pyarrow.Table, object with ``__arrow_c_stream__``, LazyFrame, data set or function
            A relation of DuckDB, a LazyFrame of Polars, a data set of PyArrow or an expression of
            Ibis is evaluated anew in every pass. It must return the same rows in the same order
            each time: a fit reads it twice before the charge, and refuses it if the results differ.
            A function takes no argument and returns a new one of these each time. Here the rows are
            counted.
        target : str, list of str or None, default=None
            Name of the column of the targets, or of each of several.
        columns : list of str or None, default=None
            Names of the features; None means all but the target. Columns that are not numeric
            have to be encoded before a fit: see `map`.
        block_size, n_jobs : int or None, default=None
            As in `from_arrays`. ``n_jobs`` is for tables in memory: a stream is read in order.

        Raises
        ------
        TypeError
            If ``source`` is something else.
        ValueError
            If it cannot be opened twice, or a column does not exist.
        """
        rows, goals = check_block_size(block_size), target_names(target)
        if is_arrow(source):
            return cls._of_tables(table_parts(source, goals, columns, rows), goals, n_jobs=n_jobs)
        if n_jobs is not None:
            raise ValueError("n_jobs must be None where source is not an Arrow table in memory.")
        stream = ArrowStream(source)
        return cls._of_tables(table_parts(stream, goals, columns, rows), goals, stream=stream)

    @classmethod
    def _of_tables(cls, found: tuple[Any, ...], targets: tuple[Any, ...], **others: Any) -> Self:
        """Blocks of parts that come from Arrow; ``found`` also has names, and what is text."""
        parts, names, text = found
        return cls(
            parts,
            sum(part.n_rows for part in parts),
            len(names),
            feature_names=names,
            has_target=bool(targets),
            n_targets=max(len(targets), 1),
            text=text,
            **others,
        )

    @classmethod
    def from_parquet(
        cls,
        path: Any,
        target: Any = None,
        *,
        columns: Any = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Blocks of Parquet files, which are read and decoded anew in every pass.

        Parameters
        ----------
        path : str, path or list of them
            No file may be named twice, by whatever path or link.
        target : str, list of str or None, default=None
            Name of the column of the targets, or of each of several.
        columns : list of str or None, default=None
            Names of the features; None means all but the target. Other columns are not read.
            Columns that are not numeric have to be encoded before a fit: see `map`, which takes a
            `TableEncoder`.
        block_size : int or None, default=None
            Row groups are put together up to this many rows, and never split; None as in
            `from_arrays`.
        n_jobs : int or None, default=None
            As in `from_arrays`.
        """
        paths = [path] if isinstance(path, str | PathLike) else list(path)
        if not paths:
            raise ValueError("path must name at least one file.")
        files = [fspath(one) for one in paths]
        rows, goals = check_block_size(block_size), target_names(target)
        return cls._of_tables(parquet_parts(files, goals, columns, rows), goals, n_jobs=n_jobs)

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
        fit by a solver that sums; otherwise they are computed whenever they are read. The graph
        must be deterministic: a fit evaluates it twice before the charge, and refuses it if the
        results differ.

        Parameters
        ----------
        X : dask.array.Array of shape (n_samples, n_features) or dask.dataframe.DataFrame
        y : Dask array, series or frame with the partitions of X, array-like or None, default=None
        target : str, list of str or None, default=None
            Name of the column of a data frame that holds the targets, or of each of several.
        block_size : int or None, default=None
            Neighbouring chunks of rows are put together up to this many rows, and never split. None
            means 64 MB, or more if that would give more than 2048 blocks.
        n_samples : int or None, default=None
            Number of records, if the sizes of the chunks are not known, as in data frames.
        """
        from skdpsco.data.dask_blocks import dask_parts

        parts, n_samples, names, is_sparse, n_targets = dask_parts(
            X, y, target, check_block_size(block_size), n_samples
        )
        return cls(
            parts,
            n_samples,
            X.shape[1] if names is None else len(names),
            feature_names=names,
            has_target=n_targets > 0,
            n_targets=max(n_targets, 1),
            sparse=is_sparse,
            engine="Dask",
            text=_text_in(X if target is None else X.drop(columns=list(target_names(target)))),
        )

    @classmethod
    def from_spark(
        cls, frame: Any, target: Any = None, *, columns: Any = None, block_size: int | None = None
    ) -> Self:
        """Blocks of a Spark frame, which are summed up where they are.

        During a fit by a solver that sums, executors keep the blocks, and send sums alone to this
        process. They need this library. The frame must be deterministic: it is evaluated here, to
        count the records, and twice in a fit before the charge, which refuses it if the results
        differ.

        Parameters
        ----------
        frame : pyspark.sql.DataFrame
            Not streaming, and not of Spark Connect.
        target : str, list of str or None, default=None
            Name of the column of the targets, or of each of several.
        columns : list of str or None, default=None
            Names of the features; None means all but the target. Columns of text have to be encoded
            before a fit: see `map`. Other types than text, numbers and booleans have to be cast.
        block_size : int or None, default=None
            Partitions are cut into blocks of so many rows; None as in `from_arrays`.

        Raises
        ------
        TypeError
            If ``frame`` is something else, or a column has another type.
        ValueError
            If it is streaming or cannot be evaluated, or a column does not exist.
        """
        rows, goals = check_block_size(block_size), target_names(target)
        return cls._of_tables(spark_parts(frame, goals, columns, rows), goals, engine="Spark")

    def with_target(self, y: TargetLike) -> "RowBlocks":
        """The same features with the targets ``y``, an array for all records."""
        if hasattr(y, "__dask_graph__"):
            raise TypeError("y must be an array. Pass a Dask y with its X: from_dask(X, y).")
        if self.engine == "Spark":
            raise TypeError("y must be a column of the frame: from_spark(frame, target=...).")
        y = as_target_rows(y)
        sizes = [part.n_rows for part in self.parts]
        if None in sizes or y.shape[0] != self.n_samples:
            raise ValueError(
                f"y must have one entry for each of {self.n_samples} records in blocks of known "
                f"sizes; got {y.shape[0]}."
            )
        on_dask = self.engine == "Dask"
        parts = [
            part._replace(y=mine) if on_dask else Retargeted(part, mine)
            for part, mine in self._with_rows(y)
        ]
        return self._with(parts=parts, has_target=True, n_targets=n_targets_of(y))

    def _with_rows(self, values: np.ndarray) -> Iterator[tuple[Any, Any]]:
        """Each part with its rows of an array for all records."""
        ends = np.cumsum([0, *(part.n_rows for part in self.parts)]).tolist()
        for part, start, stop in zip(self.parts, ends[:-1], ends[1:], strict=True):
            yield part, rows_of_array(values, start, stop)

    def tagged(self, tags: np.ndarray) -> "RowBlocks":
        """Blocks on Dask with a number for each record as one more column behind the targets.

        Raises
        ------
        ValueError
            If the sizes of the chunks are not known.
        """
        if any(part.n_rows is None for part in self.parts):
            raise ValueError(
                "The sizes of the chunks of X must be known where records have groups or weights: "
                "X.compute_chunk_sizes(), or X.to_dask_array(lengths=True) for a data frame."
            )
        parts = [part._replace(tags=mine) for part, mine in self._with_rows(tags)]
        return self._with(parts=parts, n_targets=self.n_targets + 1)


def _text_in(X: Any) -> str | None:
    """The first column of a frame that is not numeric, by its dtype."""
    for name, dtype in zip(getattr(X, "columns", ()), getattr(X, "dtypes", ()), strict=False):
        if not str(dtype).lower().startswith(("int", "uint", "float", "double", "bool", "sparse")):
            return f"column {name!r} is {dtype}"
    return None
