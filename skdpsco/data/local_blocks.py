"""Sums over blocks that this process reads, or joblib's workers."""

from collections.abc import Callable, Iterable, Iterator
from itertools import starmap
from typing import Any

import numpy as np

from skdpsco.data.record_sums import BlockEngine, Failure, Hidden, Reader, read_pair, values_of

__all__ = ["LocalBlocks"]


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
