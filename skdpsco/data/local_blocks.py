"""Sums over blocks that this process reads, or joblib's workers, and over those of a stream."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, starmap
from types import SimpleNamespace
from typing import Any

import numpy as np

from skdpsco.data.record_sums import (
    BlockEngine,
    Failure,
    HeldBlock,
    Hidden,
    Reader,
    read_pair,
    values_of,
)

__all__ = ["LocalBlocks", "StreamedBlocks"]


class LocalBlocks(BlockEngine):
    """Blocks that this process or joblib's workers read anew in every pass.

    Parameters
    ----------
    parts, n_samples, reader
        See `BlockEngine`.
    n_jobs : int or None
        Number of joblib's workers; None for this process alone.
    """

    def __init__(
        self, parts: list[Any], n_samples: int, n_jobs: int | None, reader: Reader
    ) -> None:
        super().__init__(parts, reader)
        self._n_jobs = n_jobs
        self._check(n_samples)

    def _each(self, function: Callable[..., Any]) -> Iterable[Hidden | Failure]:
        pairs = zip(self._parts, self._readers, strict=True)
        if self._n_jobs is None:
            return starmap(function, pairs)
        from joblib import Parallel, delayed

        # These are threads unless the caller's parallel_config says otherwise: kernels run without
        # the GIL. Memory maps are off, because joblib would write a copy of the data to a file.
        workers = Parallel(n_jobs=self._n_jobs, prefer="threads", max_nbytes=None)
        return workers(delayed(function)(*pair) for pair in pairs)

    def __iter__(self) -> Iterator[tuple[Any, np.ndarray]]:
        return values_of(starmap(read_pair, zip(self._parts, self._readers, strict=True)))


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
