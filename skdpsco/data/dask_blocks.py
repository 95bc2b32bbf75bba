"""Blocks on Dask: kept in the memory of a cluster during a fit, or computed by local threads.

No task raises an exception, and what tasks return does not print its values, because a worker would
write both to its log. Every task is deterministic and draws no noise, so a task that runs again
after its worker was lost returns the same result. The users' own graphs may be random; digests of
the blocks detect this: docs/proofs/blocks.md.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import dask
import numpy as np
from dask.delayed import delayed
from scipy import sparse

from skdpsco._validation import check_int
from skdpsco.data.block_sources import (
    Held,
    Mapped,
    Pair,
    block_rows,
    cuts,
    merged,
    n_targets_of,
    target_names,
)
from skdpsco.data.pieces import FAN_IN, add, tree_sum
from skdpsco.data.record_sums import (
    BlockEngine,
    Failure,
    Hidden,
    Reader,
    Task,
    attempt,
    on_held,
    read_and_count,
    read_and_run,
    read_pair,
    read_raw,
    values_of,
)

__all__ = ["dask_parts", "open_dask"]

MAX_BLOCKS = 2048  # for an automatic block size; the scheduler needs milliseconds per task

INLINE = 100_000  # floats sent with every task; larger arguments are sent to each worker once


class DaskPart(NamedTuple):
    """Neighbouring chunks of rows that make up one block.

    Parameters
    ----------
    X : list of Delayed
    y : list of Delayed, Held, Mapped or None
    target : object or None
        Column of X that holds the targets, or a list of them.
    n_rows : int or None
    tags : Held or None
        Numbers in memory, one for each row, that stand behind the targets as a further column.
    """

    X: list[Any]
    y: Any
    target: Any
    n_rows: int | None
    tags: Any = None

    def call(self, function: Callable[..., Any], reader: Any = None) -> Any:
        """A Delayed of what ``function(part, reader)`` returns for this part in memory."""
        y = Hidden(self.y.read()) if isinstance(self.y, Held | Mapped) else self.y
        tags = None if self.tags is None else Hidden(self.tags.read())
        joined = partial(_joined, function, reader, self.target, self.n_rows)
        return delayed(joined, name=False, pure=False)(self.X, y, tags)

    def read(self) -> tuple[Any, Any]:
        """Features and targets."""
        (pair,) = values_of([self.call(read_raw).compute()])
        return pair


def _joined(function, reader, target, n_rows, X, y, tags):
    def run():
        features, targets = _together(X), y.value if isinstance(y, Hidden) else y
        if target is not None:
            features, targets = features.drop(columns=target), features[target]
        elif isinstance(targets, list):
            targets = _together(targets)
        return features, targets if tags is None else _tagged(np.asarray(targets), tags.value)

    found = attempt(run)
    if isinstance(found, Failure):
        return found
    return function(Pair(*map(Held, found.value), n_rows), reader)


def _tagged(targets: np.ndarray, tags: np.ndarray) -> np.ndarray:
    if len(targets) != len(tags):
        raise ValueError(f"it must have {len(tags)} rows, got {len(targets)}.")
    number = targets.dtype.kind in "biuf"
    columns = targets[:, None] if targets.ndim == 1 else targets
    table = np.empty((len(tags), columns.shape[1] + 1), dtype=np.float64 if number else object)
    table[:, :-1], table[:, -1] = columns, tags
    return table


def _together(pieces: list[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    if hasattr(pieces[0], "iloc"):
        import pandas as pd

        return pd.concat(pieces)
    return sparse.vstack(pieces, "csr") if sparse.issparse(pieces[0]) else np.concatenate(pieces)


def dask_parts(
    X: Any, y: Any, target: Any, block_size: int | None, n_samples: Any
) -> tuple[list[DaskPart], int, tuple[str, ...] | None, bool, int]:
    """Split Dask collections into parts.

    Returns
    -------
    parts : list of DaskPart
    n_samples : int
    feature_names : tuple of str or None
    is_sparse : bool
    n_targets : int
    """
    if not hasattr(X, "__dask_graph__") or getattr(X, "ndim", None) != 2:
        raise TypeError(f"X must be a Dask array or data frame of two dimensions, got {type(X)}.")
    frame, goals = hasattr(X, "columns"), target_names(target)
    if goals and (not frame or y is not None or not set(goals) <= set(X.columns)):
        raise ValueError(
            f"target must name a column of a data frame X, or some in a list, without y; got "
            f"{target!r}."
        )
    target = list(goals) if len(goals) > 1 else (*goals, None)[0]
    if n_samples is not None:
        n_samples = check_int("n_samples", n_samples, "None or ")
    names = [name for name in X.columns if name not in goals] if frame else None
    sizes: list[Any]
    if frame:
        sizes, pieces = [np.nan] * X.npartitions, X.to_delayed()
    else:
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        sizes, pieces = list(X.chunks[0]), X.to_delayed().ravel().tolist()
    known = not np.isnan(sizes).any()
    if not known and n_samples is None:
        raise ValueError(
            "The number of records of X is not known. Declare it, "
            "RowBlocks.from_dask(X, y, n_samples=...), or make the sizes of the chunks known: "
            "X.compute_chunk_sizes() for an array, X.to_dask_array(lengths=True) for a data frame."
        )
    if known and n_samples not in (None, sum(sizes)):
        raise ValueError(f"n_samples={n_samples} was declared, but X has {sum(sizes)} records.")
    n_samples = int(sum(sizes)) if n_samples is None else n_samples
    n_features = X.shape[1] - len(goals)
    targets = _target_pieces(y, sizes, known, len(pieces), n_samples)

    rows = block_size or max(block_rows(n_features, None), -(-n_samples // MAX_BLOCKS))
    guess = sizes if known else [max(1, n_samples // len(pieces))] * len(pieces)
    parts = []
    for run in merged(guess, rows):
        n_rows = sum(int(sizes[i]) for i in run) if known else None
        mine: Any = None
        if isinstance(targets, np.ndarray):
            start = sum(sizes[: run[0]])
            mine = Held(targets[start : start + n_rows])
        elif targets is not None:
            mine = [targets[i] for i in run]
        parts.append(DaskPart([pieces[i] for i in run], mine, target, n_rows))
    strings = names is not None and all(isinstance(name, str) for name in names)
    return (
        parts,
        n_samples,
        tuple(names) if names is not None and strings else None,
        hasattr(getattr(X, "_meta", None), "tocsr"),
        len(goals) if y is None else n_targets_of(y),
    )


def _target_pieces(y: Any, sizes: list[Any], known: bool, n_pieces: int, n_samples: int) -> Any:
    """Targets of every chunk as Delayed, or one array of all targets; None without targets."""
    if y is None:
        return None
    several = n_targets_of(y) > 1
    if getattr(y, "ndim", 1) != 1 + several:
        raise ValueError(
            f"y must have one dimension, or two and a column for each target, got {y.ndim}."
        )
    if not hasattr(y, "__dask_graph__"):
        y = np.asarray(y)
        if not known or y.shape[:1] != (n_samples,):
            raise ValueError(
                f"y must have the partitions of X, or X chunks of known sizes and y one entry for "
                f"each of {n_samples} records; got shape {y.shape}."
            )
        return y
    if hasattr(y, "chunks") and known and not np.isnan(y.chunks[0]).any():
        if sum(y.chunks[0]) != n_samples:
            raise ValueError(f"X and y must have the same length, got {n_samples}, {y.shape[0]}.")
        y = y.rechunk((tuple(sizes), *((-1,) * several)))
    pieces = np.ravel(y.to_delayed()).tolist()
    if len(pieces) != n_pieces:
        raise ValueError(f"y must have the {n_pieces} partitions of X, got {len(pieces)}.")
    return pieces


def open_dask(parts: list[DaskPart], n_samples: int, reader: Reader) -> Any:
    """Open blocks on the current client's cluster or, without a client, on local threads."""
    try:
        from distributed import Client

        client = Client.current()
    except (ImportError, ValueError):
        return GraphBlocks(parts, n_samples, reader)
    return ClusterBlocks(client, parts, n_samples, reader)


class GraphBlocks(BlockEngine):
    """Blocks that Dask's scheduler computes anew in every pass.

    Before the first pass the graph is evaluated twice, and must yield the same blocks.

    Parameters
    ----------
    parts, n_samples, reader
        See `skdpsco.data.record_sums.BlockEngine`.
    """

    _client: Any = None

    def __init__(self, parts: list[DaskPart], n_samples: int, reader: Reader) -> None:
        super().__init__(parts, reader)
        self._check_graph(n_samples)
        list(values_of(self._each(read_and_count)))

    def _check_graph(self, n_samples: int) -> None:
        # A sparse matrix is computed anew each time, with its entries in any order: check it again.
        self._check(n_samples, checked=not self._readers[0].sparse)

    def _calls(self, function: Callable[..., Any]) -> list[Any]:
        pairs = zip(self._parts, self._readers, strict=True)
        return [part.call(function, reader) for part, reader in pairs]

    def _each(self, function: Callable[..., Any]) -> Iterable[Hidden | Failure]:
        # A single call of `compute` does the work that blocks share only once.
        return dask.compute(*self._calls(function), scheduler=self._client)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return values_of(call.compute() for call in self._calls(read_pair))


def _run(function: Hidden, block: Hidden | Failure) -> Hidden | Failure:
    return on_held(function.value, block)


def _run_all(function: Hidden, blocks: list[Hidden | Failure]) -> list[Hidden | Failure]:
    return [_run(function, block) for block in blocks]


def _add_sums(start: int, terms: list[Hidden | Failure]) -> Hidden | Failure:
    for number, term in enumerate(terms, start):
        if isinstance(term, Failure):
            return term if term.number is not None else replace(term, number=number)
    return attempt(lambda: add(values_of(terms)))


class ClusterBlocks(GraphBlocks):
    """Blocks in the memory of a cluster's workers.

    Parameters
    ----------
    client : distributed.Client
    parts, n_samples, reader
        See `skdpsco.data.record_sums.BlockEngine`.
    """

    def __init__(self, client: Any, parts: list[DaskPart], n_samples: int, reader: Reader) -> None:
        BlockEngine.__init__(self, parts, reader)
        self._client = client
        self._check_graph(n_samples)
        # A future keeps its graph, so the block of a lost worker is read again, and compared.
        self._blocks = client.compute(self._calls(read_pair))
        try:
            lengths = client.map(partial(_run, Hidden(read_and_count)), self._blocks, pure=False)
            list(values_of(client.gather(lengths)))
            self._threads = client.nthreads()
            self._groups = self._by_thread()
        except BaseException:
            self.close()
            raise

    def _by_thread(self) -> list[list[int]]:
        """Group the numbers of blocks that one thread can sum up on the worker that holds them.

        There are no groups if one thread would have far more blocks than the others: then the
        scheduler spreads them. There are none either if there are many blocks: then workers add up
        sums.
        """
        n_blocks = len(self._blocks)
        if n_blocks > FAN_IN:
            return []
        held: dict[str, list[int]] = {address: [] for address in self._threads}
        holders = self._client.who_has(self._blocks)
        for number, block in enumerate(self._blocks):
            there = [address for address in holders.get(block.key, ()) if address in held]
            if there:
                held[min(there, key=lambda address: len(held[address]))].append(number)
        groups = [
            numbers[i :: self._threads[address]]
            for address, numbers in held.items()
            for i in range(min(self._threads[address], len(numbers)))
        ]
        fair = -(-n_blocks // max(1, sum(self._threads.values())))
        whole = sum(map(len, groups)) == n_blocks
        return groups if whole and max(map(len, groups)) <= fair + 1 else []

    def sum(self, task: Task) -> Any:
        """Sum of a task over all blocks."""
        client, hidden = self._client, Hidden(partial(read_and_run, task))
        # The key must not be derived from the content: if the same content were sent again, Dask
        # would confuse it with the object that is being released.
        sent = client.scatter(hidden, hash=False) if task.n_floats > INLINE else hidden
        threads = client.nthreads()
        if threads != self._threads:  # a worker was lost, or joined
            self._threads = threads
            self._groups = self._by_thread()
        groups, made = self._groups, []
        try:  # `map` sends one message for all tasks
            if groups:  # one task per group: each costs the scheduler milliseconds
                blocks = [[self._blocks[i] for i in numbers] for numbers in groups]
                made = client.map(_run_all, [sent] * len(groups), blocks, pure=False)
                found = dict(zip(chain(*groups), chain(*client.gather(made)), strict=True))
                return tree_sum(values_of(found[number] for number in range(len(found))))
            same = [sent] * len(self._blocks)
            made = terms = client.map(_run, same, self._blocks, pure=False)
            while len(terms) > FAN_IN:
                terms = [
                    client.submit(_add_sums, start, terms[start:stop], pure=False)
                    for start, stop in cuts(len(terms), FAN_IN)
                ]
                made = made + terms
            return tree_sum(values_of(client.gather(terms)))
        finally:
            for future in made:  # no sum outlives its release
                future.release()

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return values_of(block.result() for block in self._blocks)

    def close(self) -> None:
        """Release the memory that blocks take on the workers."""
        for future in self._blocks:
            future.release()
