"""Sums over the blocks of a stream, which is evaluated anew in every pass."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, starmap
from typing import Any, NamedTuple

import numpy as np

from skdpsco.data.pieces import tree_sum
from skdpsco.data.record_sums import (
    Reader,
    Task,
    check_n_records,
    read_and_look,
    read_and_run,
    read_pair,
    values_of,
)

__all__ = ["StreamedBlocks"]


class StreamedBlocks:
    """Blocks of a stream. Before the first sum it is read twice, and must yield the same blocks.

    The last blocks, as many as fit into ``memory``, are held after that: no pass reads the stream
    beyond the others.

    Parameters
    ----------
    stream : ArrowStream
    parts : list
        See `skdpsco.data.block_sources`.
    n_samples : int
        The number of records in all blocks.
    reader : Reader
    memory : float
        Bytes.
    """

    def __init__(
        self, stream: Any, parts: list[Any], n_samples: int, reader: Reader, memory: float
    ) -> None:
        self._stream, self._parts = stream, parts
        self._readers: list[Any] = [reader] * len(parts)
        self._held: list[tuple[Any, HeldBlock]] = []
        sizes, digests = zip(*self._values(read_and_look), strict=True)
        check_n_records(n_samples, sum(sizes))
        self._readers = [reader.again(found, checked=True) for found in digests]
        n_read = len(parts) - _n_held(sizes, reader, memory)
        held = [
            (parts[number], HeldBlock(*block))
            for number, block in enumerate(self._values(read_pair))
            if number >= n_read
        ]
        self._parts, self._readers, self._held = parts[:n_read], self._readers[:n_read], held

    def _values(self, function: Callable[..., Any]) -> Iterator[Any]:
        """What a function of a part and its reader returns for all blocks, in their order."""
        with self._stream, ThreadPoolExecutor(1) as thread:
            pairs = zip(_read_ahead(self._parts, thread), self._readers, strict=True)
            yield from values_of(starmap(function, chain(pairs, self._held)))

    def sum(self, task: Task) -> Any:
        """Sum of a task over all blocks."""
        return tree_sum(self._values(partial(read_and_run, task)))

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """The features and targets of one block after the other."""
        return self._values(read_pair)

    def close(self) -> None:
        """Do nothing: memory is released with this object."""


class HeldBlock(NamedTuple):
    """A block in memory, in place of the reader of its part."""

    X: Any
    y: np.ndarray

    def read(self, part: Any) -> tuple[Any, np.ndarray]:
        """Features and targets, which were checked."""
        return self.X, self.y


def _n_held(sizes: tuple[int, ...], reader: Reader, memory: float) -> int:
    """How many of the last blocks fit into memory: public, so none if they are sparse."""
    if reader.sparse:
        return 0
    totals = 8.0 * (reader.n_features + reader.n_targets) * np.cumsum(sizes[::-1])
    return int((totals <= memory).sum())


class Coming(NamedTuple):
    """A part that a thread reads."""

    future: Future[tuple[Any, Any]]
    n_rows: int | None

    def read(self) -> tuple[Any, Any]:
        """Features and targets."""
        return self.future.result()


def _read_ahead(parts: list[Any], thread: ThreadPoolExecutor) -> Iterator[Coming]:
    """The parts, each of which is read while the one before it is in use."""
    coming: list[Coming] = []
    for part in parts:
        coming.append(Coming(thread.submit(part.read), part.n_rows))
        if len(coming) > 1:
            yield coming.pop(0)
    yield from coming
