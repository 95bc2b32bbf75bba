"""Blocks of rows that come from Arrow: tables in memory, Parquet files, and streams.

A stream is read forward, from a query or anything else that can be opened again and again. It is
cut at rows that do not depend on the batches in which it arrives.
"""

import threading
from typing import Any, NamedTuple

import numpy as np

from skdpsco._quiet import quietly
from skdpsco._typing import Self
from skdpsco.data.block_sources import Held, block_rows, check_files, cuts, merged

__all__ = [
    "ArrowRows",
    "ArrowStream",
    "arrow_columns",
    "framed",
    "is_arrow",
    "parquet_parts",
    "table_parts",
]

# Dtypes of pandas, by the names of Arrow's types
NULLABLE = {"bool": "boolean"}
for _bits in (8, 16, 32, 64):
    NULLABLE |= {f"int{_bits}": f"Int{_bits}", f"uint{_bits}": f"UInt{_bits}"}
ROWS_AT_ONCE = 4096  # of which columns are turned into rows, within the cache


def is_arrow(X: Any) -> bool:
    """Whether X is an Arrow table."""
    return type(X).__module__.split(".")[0] == "pyarrow" and hasattr(X, "column_names")


class ArrowRows(NamedTuple):
    """Rows that come from Arrow: ``source.read()`` is a table of features followed by targets.

    Features become an array of float64 or, if they are ``framed``, a pandas frame.
    """

    source: Any
    n_features: int
    n_rows: int
    framed: bool = False

    def read(self) -> tuple[Any, Any]:
        """Features and targets."""
        instead = "it cannot be read." if self.framed else "it must consist of numbers."
        return quietly(instead, self._converted, self.source.read())

    def _converted(self, table: Any) -> tuple[Any, Any]:
        columns = [column.to_numpy() for column in table.columns[self.n_features :]]
        y = np.column_stack(columns) if len(columns) > 1 else (*columns, None)[0]
        features = table.select(range(self.n_features))
        return _as_frame(features) if self.framed else _as_array(features), y


def _as_array(table: Any) -> np.ndarray:
    X, start = np.empty((table.num_rows, table.num_columns)), 0
    for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE):
        stop = start + batch.num_rows
        for j, column in enumerate(batch.columns):
            X[start:stop, j] = column.to_numpy(zero_copy_only=False)
        start = stop
    return X


def _as_frame(table: Any) -> Any:
    for j, field in enumerate(table.schema):
        # The categories of a frame would be those that occur in the block.
        if hasattr(field.type, "value_type") and hasattr(field.type, "index_type"):
            plain = table.column(j).cast(field.type.value_type)
            table = table.set_column(j, field.name, plain)
    # A missing value must not change the dtype, since that would change how other records are read.
    return table.to_pandas(types_mapper=_nullable)


def _nullable(kind: Any) -> Any:
    """The pandas dtype for integers or booleans that may be missing; None for other types."""
    import pandas as pd

    name = NULLABLE.get(str(kind))
    return None if name is None else pd.api.types.pandas_dtype(name)


def framed(part: Any) -> Any:
    """The part itself; a part that comes from Arrow is read as a frame."""
    if hasattr(part, "framed"):
        return part._replace(framed=True)
    return part._replace(part=framed(part.part)) if hasattr(part, "part") else part


class RowGroups(NamedTuple):
    """Some row groups of a Parquet file; columns by name."""

    path: str
    groups: tuple[int, ...]
    names: tuple[str, ...]

    def read(self) -> Any:
        """A table of these columns."""
        import pyarrow.parquet

        names = list(self.names)
        # Blocks are read in parallel, so each of them is read by one thread, which saves memory.
        with pyarrow.parquet.ParquetFile(self.path) as file:
            table = file.read_row_groups(list(self.groups), columns=names, use_threads=False)
        return table.select(names)


class StreamedRows(NamedTuple):
    """Rows of a stream, by their numbers; columns by name."""

    stream: "ArrowStream"
    start: int
    stop: int
    names: tuple[str, ...]

    def read(self) -> Any:
        """A table of these columns."""
        return self.stream.rows(self.start, self.stop).select(list(self.names))


class ArrowStream:
    """Arrow batches of a source that is opened anew in every pass, as a table.

    It is a context: on exit it closes the source, since a connection to a database may answer no
    other query before that. A block that is read afterwards opens the source again.

    Parameters
    ----------
    source : object with ``__arrow_c_stream__``, LazyFrame, data set, or function
        As for `RowBlocks.from_arrow`.

    Attributes
    ----------
    schema : pyarrow.Schema
    num_rows : int

    Raises
    ------
    TypeError
        If it is no such source.
    ValueError
        If it cannot be opened and read twice.
    """

    schema: Any = None
    num_rows: int = 0

    def __init__(self, source: Any) -> None:
        self._source, self._lock = source, threading.Lock()
        self._reader: Any = None
        self._rest: Any = None  # of the batch that was read last
        self._at = 0  # number of the next row
        with self:
            self._open()
            self.num_rows = quietly(
                _UNREADABLE, lambda: sum(batch.num_rows for batch in self._reader)
            )
        with self:
            self.rows(0, min(self.num_rows, 1))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        reader, self._reader, self._rest = self._reader, None, None
        if reader is not None:
            reader.close()

    def _open(self) -> None:
        self.__exit__()
        reader = quietly(_UNREADABLE, _opened, self._source)
        if reader is None:
            raise TypeError(
                "source must be an Arrow table, have the method __arrow_c_stream__, be a LazyFrame "
                "of Polars or a data set of PyArrow, or be a function that returns one of these; "
                f"got {type(self._source).__name__}."
            )
        if self.schema is not None and not reader.schema.equals(self.schema):
            reader.close()
            raise ValueError("source must have the same columns whenever it is opened.")
        self._reader, self._at, self.schema = reader, 0, reader.schema

    def _next(self, n_rows: int) -> list[Any]:
        """Batches of the next rows; fewer rows at the end of the stream."""
        taken: list[Any] = []
        while n_rows > 0:
            if not self._rest:
                self._rest = next(self._reader, None)
                if self._rest is None:
                    break
            some = self._rest.slice(0, n_rows)
            self._rest = self._rest.slice(some.num_rows)
            self._at += some.num_rows
            n_rows -= some.num_rows
            taken.append(some)
        return taken

    def rows(self, start: int, stop: int) -> Any:
        """Read rows as an Arrow table; quickly if they follow those that were read before."""
        import pyarrow

        with self._lock:
            if self._reader is None or start < self._at:
                self._open()
            quietly(_UNREADABLE, self._next, start - self._at)
            taken = quietly(_UNREADABLE, self._next, stop - start)
            if self._at < stop or (stop == self.num_rows and quietly(_UNREADABLE, self._next, 1)):
                raise ValueError(
                    f"source had {self.num_rows} rows when it was opened first, and must have the "
                    "same whenever it is opened again. Where it can be read only once, pass a "
                    "function that opens it anew."
                )
        return pyarrow.Table.from_batches(taken, self.schema)


_UNREADABLE = (
    "source cannot be read: see whether it can be without this library. (The error is not shown, "
    "since it might contain values.)"
)


def _opened(source: Any) -> Any:
    """A new reader of Arrow batches; None if ``source`` is something else."""
    import pyarrow

    found = source() if callable(source) else source
    kind = type(found)  # an object may answer to the name of any column
    if hasattr(kind, "collect_batches"):  # of Polars; in order, and without holding all of them
        found = found.collect_batches(maintain_order=True, lazy=True, engine="streaming")
    elif hasattr(kind, "to_pyarrow_batches"):  # Ibis, whose own stream holds all of them
        found = found.to_pyarrow_batches()
    elif hasattr(kind, "scanner"):  # a data set of PyArrow
        found = found.scanner().to_reader()
    elif hasattr(kind, "collect") and not hasattr(kind, "__arrow_c_stream__"):
        found = found.collect()  # older versions of Polars
    if not hasattr(found, "__arrow_c_stream__"):
        return None
    return pyarrow.RecordBatchReader.from_stream(found)


def arrow_columns(
    schema: Any, targets: tuple[str, ...], columns: Any
) -> tuple[tuple[str, ...], str | None]:
    """Names of the features, and what is not numeric or None."""
    import pyarrow.types as types

    names = list(schema.names)
    for target in targets:
        if names.count(target) != 1:
            raise ValueError(
                f"target must be the name of one column of {names}, or a list of such names, got "
                f"{target!r}."
            )
    features = [n for n in names if n not in targets] if columns is None else list(columns)
    text = None
    for name in features:
        if names.count(name) != 1 or name in targets or features.count(name) != 1:
            raise ValueError(
                f"columns must be different names of columns of {names} without the target's; got "
                f"{name!r}."
            )
        kind = schema.field(name).type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            text = text or f"column {name!r} is {kind}"
    return tuple(features), text


def table_parts(
    table: Any, targets: tuple[str, ...], columns: Any, block_size: int | None
) -> tuple[list[ArrowRows], tuple[str, ...], str | None]:
    """Parts of a table or a stream, the names of its features, and what is not numeric or None."""
    names, text = arrow_columns(table.schema, targets, columns)
    wanted = (*names, *targets)
    streamed = isinstance(table, ArrowStream)
    some = table if streamed else table.select(list(wanted))
    parts = [
        ArrowRows(
            StreamedRows(some, start, stop, wanted)
            if streamed
            else Held(some.slice(start, stop - start)),
            len(names),
            stop - start,
            text is not None,
        )
        for start, stop in cuts(table.num_rows, block_rows(len(names), block_size))
    ]
    return parts, names, text


def parquet_parts(
    paths: list[str], targets: tuple[str, ...], columns: Any, block_size: int | None
) -> Any:
    """Parts of Parquet files, of one row group or more each; the rest is as in `table_parts`."""
    import pyarrow.parquet

    check_files(paths)
    parts: list[ArrowRows] = []
    known: Any = None
    for path in paths:
        with pyarrow.parquet.ParquetFile(path) as file:
            found, metadata = file.schema_arrow, file.metadata
            sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        names, text = arrow_columns(found, targets, columns)
        if known not in (None, (names, text)):
            raise ValueError(f"path: {path} has other columns than {paths[0]}.")
        known = names, text
        for groups in merged(sizes, block_rows(len(names), block_size)):
            n_rows = sum(sizes[g] for g in groups)
            source = RowGroups(path, tuple(groups), (*names, *targets))
            parts.append(ArrowRows(source, len(names), n_rows, text is not None))
    return parts, *known
