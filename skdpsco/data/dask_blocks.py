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
from typing import Any

import dask

from skdpsco.data.block_sources import cuts
from skdpsco.data.dask_sources import DaskPart
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
    values_of,
)

__all__ = ["open_dask"]

INLINE = 100_000  # floats sent with every task; larger arguments are sent to each worker once


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
