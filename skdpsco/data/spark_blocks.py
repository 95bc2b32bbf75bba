"""Blocks on Spark, which its executors keep during a fit.

Executors check, clip and add up records. Sums of blocks reach this process, which adds them up and
draws the noise. As on Dask, no task raises an exception, since Spark would log it, and every task
is deterministic. What was lost with an executor is read again, and compared: docs/proofs/blocks.md.
"""

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from skdpsco._quiet import quietly
from skdpsco._upstream import arrow_batches, of_bytes
from skdpsco.data.arrow_blocks import ArrowRows, arrow_columns
from skdpsco.data.block_sources import Held, block_rows
from skdpsco.data.record_sums import (
    CHANGED,
    BlockEngine,
    Failure,
    Hidden,
    Reader,
    on_held,
    read_and_count,
    read_pair,
    read_raw,
    values_of,
)

__all__ = ["SparkBlocks", "is_spark", "spark_parts"]

# Types of Spark, and the same ones of Arrow
TYPES = {
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float",
    "double": "double",
    "boolean": "bool",
    "string": "string",
}
CHANGED_BLOCK = Failure(ValueError, CHANGED)
UNREADABLE = (
    "Spark cannot evaluate the frame: see whether it can write it to a file. (The error is not "
    "shown, since it might contain values; Spark may have logged it.)"
)


def is_spark(X: Any) -> bool:
    """Whether X is a frame of Spark."""
    kind = type(X)
    return kind.__module__.startswith("pyspark.sql.") and hasattr(kind, "mapInArrow")


class SparkPart(NamedTuple):
    """A block of a Spark frame.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Its columns are the features, and the targets behind them.
    schema : pyarrow.Schema
        The types of these columns, with the names that users see.
    n_features : int
    rows : int
        Number of rows of a block, except for the last one of a partition.
    place : tuple of int
        Numbers of the partition, and of the block within it.
    n_rows : int
    framed : bool
        Whether features become pandas frames.
    """

    frame: Any
    schema: Any
    n_features: int
    rows: int
    place: tuple[int, int]
    n_rows: int
    framed: bool

    def evaluated(self, function: Callable[..., Any], known: dict[Any, Any]) -> Any:
        """An RDD with pairs of a place and what ``function(part, reader)`` returns there.

        Spark plans and evaluates the frame anew. At places that are not ``known``, which has the
        reader of each place, there is a failure.
        """
        layout = self._replace(frame=None)
        return arrow_batches(self.frame).mapPartitionsWithIndex(
            partial(_on_blocks, layout, function, known)
        )

    def read(self) -> tuple[Any, Any]:
        """Features and targets, in the memory of this process."""
        rdd = self.evaluated(read_raw, {self.place: None})
        found = quietly(UNREADABLE, rdd.context.runJob, rdd, list, [self.place[0]])
        (pair,) = values_of([dict(found).get(self.place, CHANGED_BLOCK)])
        if len(pair[0]) != self.n_rows:
            CHANGED_BLOCK.throw(self.place[1])
        return pair


def spark_parts(
    frame: Any, targets: tuple[str, ...], columns: Any, block_size: int | None
) -> tuple[list[SparkPart], tuple[str, ...], str | None]:
    """Parts of a Spark frame, the names of its features, and what is not numeric or None.

    The frame is evaluated once, to count the records of its partitions.
    """
    import pyarrow

    if not is_spark(frame) or ".connect." in type(frame).__module__:
        raise TypeError(
            "frame must be a DataFrame of Spark whose driver is this process, not of Spark "
            f"Connect; got {type(frame).__module__}.{type(frame).__name__}."
        )
    if frame.isStreaming:
        raise ValueError("frame must not be streaming, but have the same records in each pass.")
    large = frame.sparkSession.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false")
    types = TYPES | ({"string": "large_string"} if large == "true" else {})
    have = frame.columns
    kinds = [field.dataType.simpleString() for field in frame.schema.fields]
    fields = [
        pyarrow.field(name, pyarrow.type_for_alias(types.get(kind, "null")))
        for name, kind in zip(have, kinds, strict=True)
    ]
    names, text = arrow_columns(pyarrow.schema(fields), targets, columns)
    wanted = [have.index(name) for name in (*names, *targets)]
    for j in wanted:
        if kinds[j] not in TYPES:
            raise TypeError(
                f"frame must have columns of numbers, booleans or strings, but {have[j]!r} is "
                f"{kinds[j]}: cast it, or name other features: columns=[...]."
            )
    # By place, since Spark takes a dot in a name for a field, and may ignore case
    plain = frame.toDF(*(f"c{j}" for j in range(len(have)))).select([f"c{j}" for j in wanted])
    schema, rows = pyarrow.schema([fields[j] for j in wanted]), block_rows(len(names), block_size)
    counted = arrow_batches(plain).mapPartitionsWithIndex(partial(_sizes, schema, rows))
    parts = [
        SparkPart(plain, schema, len(names), rows, place, n_rows, text is not None)
        for place, n_rows in sorted(quietly(UNREADABLE, counted.collect))
    ]
    return parts, names, text


def _sizes(schema: Any, rows: int, partition: int, stored: Iterable[bytes]) -> Iterator[Any]:
    for k, table in enumerate(_tables(schema, rows, stored)):
        yield (partition, k), table.num_rows


def _tables(schema: Any, rows: int, stored: Iterable[bytes]) -> Iterator[Any]:
    """Tables of so many rows each; the last one may have fewer."""
    import pyarrow

    some: list[Any] = []
    missing = rows
    for one in stored:
        batch = pyarrow.ipc.read_record_batch(pyarrow.py_buffer(one), schema)
        while batch.num_rows > 0:
            some.append(batch.slice(0, missing))
            missing -= some[-1].num_rows
            batch = batch.slice(some[-1].num_rows)
            if missing == 0:
                yield pyarrow.Table.from_batches(some)
                some, missing = [], rows
    if some:
        yield pyarrow.Table.from_batches(some)


def _on_blocks(
    layout: SparkPart,
    function: Callable[..., Any],
    known: dict[Any, Any],
    partition: int,
    stored: Iterable[bytes],
) -> Iterator[tuple[tuple[int, int], Hidden | Failure]]:
    for k, table in enumerate(_tables(layout.schema, layout.rows, stored)):
        place = partition, k
        part = ArrowRows(Held(table), layout.n_features, table.num_rows, layout.framed)
        yield place, function(part, known[place]) if place in known else CHANGED_BLOCK
    # PySpark looks for garbage after each task: a tenth of a second, for what will never be any.
    gc.collect()
    gc.freeze()


def _packed(blocks: Iterable[Any]) -> Iterator[Any]:
    for block in blocks:
        arrays: list[pickle.PickleBuffer] = []
        yield pickle.dumps(block, 5, buffer_callback=arrays.append)
        yield from (array.raw() for array in arrays)  # so that no pass copies them


def _on_kept(function: Callable[..., Any], packed: Iterable[bytes]) -> Iterator[Any]:
    items = iter(packed)
    for item in items:
        place, block = pickle.loads(item, buffers=items)
        yield place, on_held(function, block)


class SparkBlocks(BlockEngine):
    """Blocks that Spark's executors keep in memory and, where that is full, on their disks.

    Before the first sum the frame is evaluated twice, and must yield the same blocks.

    Parameters
    ----------
    parts, n_samples, reader
        See `skdpsco.data.record_sums.BlockEngine`.
    """

    _kept: Any = None

    def __init__(self, parts: list[SparkPart], n_samples: int, reader: Reader) -> None:
        super().__init__(parts, reader)
        self._check(n_samples)
        from pyspark import StorageLevel

        # Spark knows where the blocks come from: one that is lost is read and compared once more.
        kept = of_bytes(self._evaluated(read_pair).mapPartitions(_packed))
        self._kept = kept.persist(StorageLevel.MEMORY_AND_DISK_DESER)
        try:
            list(values_of(self._each(read_and_count)))
        except BaseException:
            self.close()
            raise

    def _evaluated(self, function: Callable[..., Any]) -> Any:
        places = [part.place for part in self._parts]
        return self._parts[0].evaluated(function, dict(zip(places, self._readers, strict=True)))

    def _each(self, function: Callable[..., Any]) -> Iterable[Hidden | Failure]:
        if self._kept is None:
            results = self._evaluated(function)
        else:  # PySpark sends a large task, with the point in it, as a broadcast
            results = self._kept.mapPartitions(partial(_on_kept, function))
        found = dict(quietly(UNREADABLE, results.collect))
        # Any further blocks are failures.
        return [*(found.pop(part.place, CHANGED_BLOCK) for part in self._parts), *found.values()]

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        stored = _on_kept(read_pair, self._kept.toLocalIterator())

        def next_of(part):
            place, block = quietly(UNREADABLE, next, stored, (None, CHANGED_BLOCK))
            return block if place == part.place else CHANGED_BLOCK

        return values_of(map(next_of, self._parts))

    def close(self) -> None:
        """Let executors forget the blocks."""
        self._kept.unpersist()
