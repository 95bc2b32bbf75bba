"""Sums over the blocks of a stream, which is evaluated anew in every pass."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, starmap
from types import SimpleNamespace
from typing import Any

import numpy as np

from skdpsco.data.record_sums import BlockEngine, Failure, HeldBlock, Hidden, Reader

__all__ = ["StreamedBlocks"]


class StreamedBlocks(BlockEngine):
    """Blocks of a stream. Before the first sum it is read twice, and must yield the same blocks.

    The last blocks, as many as fit into ``memory``, are held after that: no pass reads the stream
    beyond the others.

    Parameters
    ----------
    stream : ArrowStream
    parts, n_samples, reader
        See `skdpsco.data.record_sums.BlockEngine`.
    memory : float
        Bytes.
    """

    def __init__(
        self, stream: Any, parts: list[Any], n_samples: int, reader: Reader, memory: float
    ) -> None:
        super().__init__(parts, reader)
        self._stream = stream
        self._held: list[tuple[Any, HeldBlock]] = []
        sizes = self._check(n_samples)
        n_read = len(parts) - _n_held(sizes, reader, memory)
        held = [
            (parts[number], HeldBlock(*block))
            for number, block in enumerate(self)
            if number >= n_read
        ]
        self._parts, self._readers, self._held = parts[:n_read], self._readers[:n_read], held

    def _each(self, function: Callable[..., Any]) -> Iterator[Hidden | Failure]:
        with self._stream, ThreadPoolExecutor(1) as thread:
            pairs = zip(_read_ahead(self._parts, thread), self._readers, strict=True)
            for found in starmap(function, chain(pairs, self._held)):
                if isinstance(found, Failure):
                    break
                yield found
            else:
                return
        yield found  # an error is raised when the stream has been closed


def _n_held(sizes: list[int], reader: Reader, memory: float) -> int:
    """How many of the last blocks fit into memory: public, so none if they are sparse."""
    if reader.sparse:
        return 0
    totals = 8.0 * (reader.n_features + reader.n_targets) * np.cumsum(sizes[::-1])
    return int((totals <= memory).sum())


def _read_ahead(parts: list[Any], thread: ThreadPoolExecutor) -> Iterator[Any]:
    """The parts, each of which a thread reads while the one before it is in use."""
    coming: list[Any] = []
    for part in parts:
        future = thread.submit(part.read)
        coming.append(SimpleNamespace(read=future.result, n_rows=part.n_rows))
        if len(coming) > 1:
            yield coming.pop(0)
    yield from coming
